/* wm_engines.c - the table of engines: what is known of each, and where its functions are.

   OpenVINO, ONNX Runtime and CUDA are shared objects that are opened when a device of theirs is:
   they load 100 MB and more of libraries that no other engine needs. They are never closed, because
   their threads may outlive the last device.  */
#include "kernels/opencl/wm_opencl_device.h"
#include "kernels/wm_backend_private.h"
#include "kernels/wm_driver.h"
#include "schema/base/wm_environment.h"
#include "schema/base/wm_program.h"
#include "schema/wm_defaults.h"

#include <assert.h>
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    wm_engine_t engine;
    const wm_backend_t *backend; /* NULL: symbol `wm_backend_NAME` of engine.object */
    const char *package;         /* of PyPI, whose libraries the wheel of wiremill opens; or NULL */
} row_t;

#define ERRORS_GENERAL .general = { WM_DEFAULT_ERROR_GENERAL, WM_DEFAULT_ERROR_ROUNDED }
#define ERRORS .family = { WM_DEFAULT_ERROR_FP32, WM_DEFAULT_ERROR_FAST }, ERRORS_GENERAL
#define OPENVINO_ADVICE                                                                            \
    "`make` fetches and builds it (without PyPI: make OPENVINO=FOLDER of its unzipped wheel)"
#define ONNXRUNTIME_ADVICE                                                                         \
    "`make` fetches and builds it (without PyPI: make ONNXRUNTIME=FOLDER of its unzipped wheel)"
/* The engines' packages, of the versions that this build links (engines.mk).  */
#if !defined WM_OPENVINO_VERSION || !defined WM_ONNXRUNTIME_VERSION
#define WM_OPENVINO_VERSION "VERSION"
#define WM_ONNXRUNTIME_VERSION "VERSION"
#endif
#define CUDA_FACTS                                                                                 \
    .is_gpu = true, .gathers = true, .any_model = true, .rounds = true, .object = "wm_cuda.so",    \
    .variable = "WM_CUDA_SO",                                                                      \
    .advice = "`make` builds it where the headers of CUDA and cuDNN are", ERRORS

static const row_t rows[] = {
    { { .name = "sparse", .has_isa = true, .gathers = true, .rounds = true, ERRORS },
      .backend = &wm_backend_sparse },
    { { .name = "openvino",
        .any_model = true,
        .rounds = true,
        .object = "wm_openvino.so",
        .variable = "WM_OPENVINO_SO",
        .advice = OPENVINO_ADVICE,
        .family = { WM_DEFAULT_ERROR_FP32, WM_DEFAULT_ERROR_ROUNDED },
        ERRORS_GENERAL },
      .package = "openvino==" WM_OPENVINO_VERSION },
    { { .name = "onnxruntime",
        .any_model = true,
        .object = "wm_onnxruntime.so",
        .variable = "WM_ONNXRUNTIME_SO",
        .advice = ONNXRUNTIME_ADVICE,
        ERRORS },
      .package = "onnxruntime==" WM_ONNXRUNTIME_VERSION },
    { { .name = "cuda", .splits = true, CUDA_FACTS }, .backend = NULL },
    { { .name = "cudnn", CUDA_FACTS }, .backend = NULL },
    { { .name = "opencl", .is_gpu = true, .rounds = true, ERRORS },
      .backend = &wm_backend_opencl },
    { { .name = "reference", ERRORS }, .backend = &wm_backend_reference },
    { { .name = "torch",
        .any_model = true,
        .object = "wm_torch.so",
        .variable = "WM_TORCH_SO",
        ERRORS },
      .backend = &wm_backend_plugin },
    { { .name = "plugin", .any_model = true, ERRORS }, .backend = &wm_backend_plugin },
};
#define LIBRARY "libwiremill.so"
#define ROWS (sizeof rows / sizeof *rows)

static const wm_engine_t unknown = { .name = "", ERRORS };

const wm_engine_t *wm_device_engine (const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp (rows[i].engine.name, name) == 0)
            return &rows[i].engine;
    return wm_device_is_plugin (name) ? &rows[ROWS - 1].engine : &unknown;
}

/* A text that --device takes; NULL is the default.  */
static wm_fault_t check_device (const char *device, wm_error_t *error)
{
    static const char *const kind[] = { "auto", "cpu", "cuda", "opencl" };
    const size_t n = device ? strcspn (device, ":") : 0;
    for (size_t i = 0; device && i < sizeof kind / sizeof *kind; i++) {
        if (strlen (kind[i]) != n || memcmp (kind[i], device, n) != 0)
            continue;
        const char *number = device[n] ? device + n + 1 : "0";
        if (device[n] && i < 2)
            break;
        if (*number && !number[strspn (number, "0123456789")] && strlen (number) <= 6)
            return WM_OK;
        return wm_fault (error, WM_EUSAGE, "--device %.40s: a GPU is %s:N, N a number", device,
                         kind[i]);
    }
    return !device ? WM_OK
                   : wm_fault (error, WM_EUSAGE,
                               "--device takes auto, cpu, cuda, cuda:N, opencl or opencl:N, not "
                               "'%.40s'",
                               device);
}

wm_fault_t wm_device_heeds (const char *engine, const char *device, const char *precision,
                            const char *isa, wm_error_t *error)
{
    const wm_engine_t *row = wm_device_engine (engine);
    const bool fast = precision && strcmp (precision, "fast") == 0,
               split = precision && strcmp (precision, "split") == 0;
    if (check_device (device, error))
        return error->fault;
    if (!*row->name)
        return WM_OK;
    const bool cuda = device && strncmp (device, "cuda", 4) == 0,
               opencl = device && strncmp (device, "opencl", 6) == 0,
               by_opencl = strcmp (engine, "opencl") == 0;
    if (device && (cuda || opencl || strcmp (device, "cpu") == 0) &&
        ((cuda || opencl) != row->is_gpu || (row->is_gpu && opencl != by_opencl)))
        return wm_fault (error, WM_EUSAGE,
                         "--device %.40s and --engine %s do not go together: it computes on %s; "
                         "leave one of the two out",
                         device, engine,
                         by_opencl     ? "a device of OpenCL"
                         : row->is_gpu ? "a GPU"
                                       : "the CPU");
    if ((fast && !row->rounds) || (split && !row->splits && !row->has_isa))
        return wm_fault (error, WM_EUSAGE,
                         "--precision %s and --engine %s do not go together: %s has no such "
                         "arithmetic, it computes in fp32; leave one of the two out",
                         precision, engine, engine);
    if (isa && !row->has_isa)
        return wm_fault (error, WM_EUSAGE,
                         "--isa and --engine %s do not go together: only the engine sparse has "
                         "instruction sets to choose from; leave one of the two out",
                         engine);
    return WM_OK;
}

const wm_engine_t *wm_device_engine_of_signature (const char *signature)
{
    char name[32]; /* "openvino-2026.4.0/..." is openvino's */
    snprintf (name, sizeof name, "%.*s", (int) strcspn (signature, "/-"), signature);
    return wm_device_engine (name);
}

bool wm_device_by_gpu (const char *engine, const char *signature)
{
    return wm_device_engine (engine)->is_gpu || wm_device_engine_of_signature (signature)->is_gpu;
}

void wm_device_engine_names (char names[160])
{
    size_t n = (size_t) snprintf (names, 160, "auto");
    const size_t named = ROWS - 1; /* all but a plug-in, which is the last */
    for (size_t i = 0; i < named; i++)
        n += (size_t) snprintf (names + n, 160 - n, "%s%s", i + 1 < named ? ", " : " and ",
                                rows[i].engine.name);
}

/* Fills in the folder of libwiremill, if this code is part of it, because the program is then
   anybody's, else that of the program; and returns whether it is the library's.  */
static bool find_folder (char folder[PATH_MAX])
{
    Dl_info here;
    const bool in_library = dladdr (rows, &here) && strstr (here.dli_fname, LIBRARY) &&
                            realpath (here.dli_fname, folder);
    if (!in_library)
        wm_program_beside (folder, "");
    char *slash = strrchr (folder, '/');
    if (slash)
        *slash = 0;
    return in_library;
}

/* The path of an engine's shared object: what its variable names; else beside libwiremill, or in
   ../lib beside the program.  */
static void locate (const wm_engine_t *engine, char path[PATH_MAX])
{
    const char *named = getenv (engine->variable);
    char folder[PATH_MAX];
    if (named && *named)
        snprintf (path, PATH_MAX, "%s", named);
    else {
        const bool in_library = find_folder (folder);
        snprintf (path, PATH_MAX, "%.4000s%s/%s", folder, in_library ? "" : "/../lib",
                  engine->object);
    }
}

const char *wm_device_plugin_file (const char *engine, char path[PATH_MAX])
{
    const wm_engine_t *row = wm_device_engine (engine);
    if (!row->object)
        return engine;
    locate (row, path);
    return path;
}

/* What to do about an engine that cannot be opened. A wheel of Python comes without a Makefile; the
   engines' packages have the libraries (ops/python/build_wheel.py).  */
static void advise (const row_t *row, char text[200])
{
    char folder[PATH_MAX], module[PATH_MAX + 16];
    const bool in_library = find_folder (folder);
    snprintf (module, sizeof module, "%s/../_library.py", folder);
    if (!in_library || access (module, F_OK))
        snprintf (text, 200, "%s, or set %s to a %s", row->engine.advice, row->engine.variable,
                  row->engine.object);
    else if (row->package)
        snprintf (text, 200, "pip install 'wiremill[%s]', which is %s", row->engine.name,
                  row->package);
    else
        snprintf (text, 200, "wheels of wiremill have no such engine");
}

/* A variable that changes what the libraries of a GPU compute, which, in a process of others,
   cannot be kept from reading it; or NULL.  */
static const char *variable_of_gpu (const wm_engine_t *engine)
{
    static const char *const cuda[] = { "NVIDIA_", "CU", "NVRTC_" },
                             *const opencl[] = { "POCL_",       "AMD_",    "CL_CONFIG_", "IGC_",
                                                 "NEORead",     "RUSTICL", "CLOVER_",    "R600_",
                                                 "ACO_",        "NIR_",    "PAN_",       "LP_",
                                                 "INTEL_DEBUG", "GALLIVM", "OPENCL_" };
    return !engine->is_gpu ? NULL
           : strcmp (engine->name, "opencl") == 0
               ? wm_environment_finds (opencl, sizeof opencl / sizeof *opencl)
               : wm_environment_finds (cuda, sizeof cuda / sizeof *cuda);
}

const wm_backend_t *wm_backend_find (const wm_engine_t *engine, wm_error_t *error)
{
    char path[PATH_MAX], symbol[48];
    const row_t *row = NULL;
    for (size_t i = 0; i < ROWS; i++)
        if (engine == &rows[i].engine)
            row = &rows[i];
    assert (row); /* not the unknown one */
    const char *variable = variable_of_gpu (engine);
    if (variable) {
        wm_fault (error, WM_EHOST,
                  "the %s engine: %.100s is set, which changes what its libraries compute: start "
                  "the process without %.*s",
                  engine->name, variable, (int) strcspn (variable, "="), variable);
        return NULL;
    }
    if (row->backend)
        return row->backend;
    locate (engine, path);
    snprintf (symbol, sizeof symbol, "wm_backend_%s", engine->name);
    void *object = dlopen (path, RTLD_NOW | RTLD_LOCAL);
    const wm_backend_t *backend = object ? dlsym (object, symbol) : NULL;
    char advice[200];
    advise (row, advice);
    if (!backend)
        wm_fault (error, WM_EHOST, "the %s engine cannot be opened: %.240s; %s", engine->name,
                  dlerror (), advice);
    return backend;
}

bool wm_device_gpu_shows (wm_error_t *error)
{
    const wm_driver_t driver = wm_driver_open (WM_DRIVER_LEAST);
    const bool is_fine = driver.state == WM_DRIVER_NONE || driver.state == WM_DRIVER_NO_GPU;
    *error = (wm_error_t){ 0 };
    if (driver.state != WM_DRIVER_GOOD && !is_fine)
        wm_fault (error, WM_EHOST, "%s", driver.why);
    return driver.state == WM_DRIVER_GOOD;
}

/* Whether the kernel shows such a device file.  */
static bool has_file (const char *pattern)
{
    const char *named = getenv ("WM_DEV"); /* a test's */
    char path[PATH_MAX];
    glob_t found = { 0 };
    snprintf (path, sizeof path, "%s/%s", named ? named : "/dev", pattern);
    const bool has = glob (path, 0, NULL, &found) == 0;
    globfree (&found);
    return has;
}

static bool has_nvidia (void)
{
    const char *visible = getenv ("CUDA_VISIBLE_DEVICES");
    return (!visible || *visible) && has_file ("nvidia[0-9]*");
}

/* AMD's, Intel's and others' GPUs, and Arm's.  */
static bool has_gpu (void)
{
    return has_file ("dri/renderD*") || has_file ("kfd") || has_file ("mali[0-9]*") ||
           has_nvidia ();
}

bool wm_device_opencl_shows (wm_error_t *error)
{
    wm_opencl_info_t info[WM_OPENCL_DEVICES_MAX];
    uint32_t n;
    *error = (wm_error_t){ 0 };
    if (!has_gpu () || wm_opencl_list (info, &n, error)) {
        *error = (wm_error_t){ 0 };
        return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!info[i].is_cpu && !*info[i].lacks)
            return true;
    for (uint32_t i = 0; i < n; i++)
        if (!info[i].is_cpu)
            wm_fault (error, WM_EHOST, "OpenCL's %.90s lacks %s", info[i].name, info[i].lacks);
    return false;
}

/* Whether OpenCL has a driver that may be a GPU's.  */
static bool has_opencl (void)
{
    const char *folder = getenv ("OCL_ICD_VENDORS");
    char path[PATH_MAX];
    glob_t found = { 0 };
    bool has = false;
    snprintf (path, sizeof path, "%s/*.icd", folder && *folder ? folder : "/etc/OpenCL/vendors");
    if (glob (path, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            has |= !strstr (found.gl_pathv[i], "/pocl");
    globfree (&found);
    return has;
}

bool wm_device_gpu_likely (void)
{
    char path[PATH_MAX];
    locate (wm_device_engine ("cuda"), path);
    return (has_nvidia () && access (path, R_OK) == 0) || (has_gpu () && has_opencl ());
}

bool wm_device_is_here (const char *engine, wm_error_t *error)
{
    return wm_backend_find (wm_device_engine (engine), error) != NULL;
}
