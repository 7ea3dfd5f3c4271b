/* wm_environment.c - see wm_environment.h.  */
#include "schema/base/wm_environment.h"
#include "schema/base/wm_program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* ---- the table ------------------------------------------------------------------------------- */

typedef enum {
    STAYS, /* a decision of the site or the user that changes no score */
    GOES,
    GOES_EARLY, /* it was read before main */
} rule_t;

/* The first row whose pattern fits decides; a last * stands for any end.  */
/* clang-format off */
static const struct {
    const char *pattern;
    rule_t rule;
} table[] = {
    /* OpenVINO and its parts: oneDNN, TBB, hwloc, the ONNX reader, Intel's tracing, which loads a
       library that a variable names. A sanitizer's build needs the first; the second is ours
       (wm_openvino_pin.h). */
    { "TBB_ENABLE_SANITIZERS", STAYS }, { "HWLOC_THISSYSTEM", STAYS },
    { "ONEDNN_*", GOES }, { "DNNL_*", GOES }, { "OV_*", GOES }, { "OPENVINO_*", GOES },
    { "ONNX_*", GOES }, { "TBB_*", GOES }, { "HWLOC_*", GOES }, { "ITT_*", GOES },
    { "INTEL_LIBITTNOTIFY*", GOES }, { "INTEL_ITTNOTIFY*", GOES }, { "INTEL_JIT_*", GOES },
    /* ONNX Runtime and its mathematics; the rows that stay have fixed values, below */
    { "ORT_DISABLE_TELEMETRY", STAYS }, { "ORT_*", GOES }, { "ONNXRUNTIME_*", GOES },
    { "MLAS_*", GOES },
    { "ALLOW_RELEASED_ONNX_OPSET_ONLY", STAYS },
    /* OpenMP and MKL; the number of threads is an allocation's (wm_allowance.h) */
    { "OMP_NUM_THREADS", STAYS }, { "OMP_*", GOES }, { "GOMP_*", GOES }, { "KMP_*", GOES },
    { "LIBOMP_*", GOES }, { "MKL_*", GOES },
    /* CUDA's arithmetic and compiler; not CUDA_VISIBLE_DEVICES, CUDA_CACHE_*, CUDA_MPS_* and others
       that choose devices and places */
    { "NVIDIA_TF32_OVERRIDE", GOES }, { "CUBLAS*", GOES }, { "CUDNN_*", GOES },
    { "CUDA_FORCE_*", GOES }, { "CUDA_DISABLE_*", GOES }, { "NVRTC_*", GOES },
    /* OpenCL's drivers: options that they add to those that we build our program with, switches of
       their compilers, what a device claims to have; layers between its loader and us. Not which
       devices there are, and where a cache lies. pocl, AMD, Intel, then Mesa with its drivers: */
    { "POCL_DEVICES", STAYS }, { "POCL_CACHE_DIR", STAYS }, { "POCL_KERNEL_CACHE", STAYS },
    { "POCL_MEMORY_LIMIT", STAYS }, { "POCL_AFFINITY", STAYS },
    { "POCL_MAX_PTHREAD_COUNT", STAYS }, { "POCL_*", GOES }, { "AMD_OCL_*", GOES },
    { "CL_CONFIG_*", GOES }, { "IGC_*", GOES }, { "NEOReadDebugKeys", GOES },
    { "RUSTICL_ENABLE", STAYS }, { "RUSTICL_*", GOES }, { "CLOVER_*", GOES },
    { "AMD_DEBUG", GOES }, { "R600_DEBUG", GOES }, { "ACO_DEBUG", GOES },
    { "INTEL_DEBUG", GOES }, { "NIR_DEBUG", GOES }, { "PAN_MESA_DEBUG", GOES },
    { "GALLIVM_*", GOES }, { "LP_PERF", GOES }, { "LP_NATIVE_VECTOR_WIDTH", GOES },
    { "OPENCL_LAYERS", GOES },
    /* HDF5: locks on network file systems, filters of the site, and where files lie that a file
       names are the user's; another driver would read another thing */
    { "HDF5_USE_FILE_LOCKING", STAYS }, { "HDF5_PLUGIN_PATH", STAYS },
    { "HDF5_PLUGIN_PRELOAD", STAYS }, { "HDF5_EXTFILE_PREFIX", STAYS },
    { "HDF5_VDS_PREFIX", STAYS }, { "HDF5_*", GOES },
    /* czmq: its own defaults of sizes, queues and signals */
    { "ZSYS_*", GOES },
    /* the C library: which version of a function of its mathematics runs. MALLOC_* stays, it moves
       memory only. */
    { "GLIBC_TUNABLES", GOES_EARLY },
};
/* clang-format on */

static bool fits (const char *pattern, const char *variable)
{
    const size_t n = strlen (pattern);
    return pattern[n - 1] == '*'
               ? strncmp (variable, pattern, n - 1) == 0
               : strncmp (variable, pattern, n) == 0 && (!variable[n] || variable[n] == '=');
}

static rule_t rule_of (const char *variable)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (fits (table[i].pattern, variable))
            return table[i].rule;
    return STAYS;
}

bool wm_environment_hides (const char *variable)
{
    return rule_of (variable) != STAYS;
}

const char *wm_environment_finds (const char *const *prefix, unsigned n)
{
    for (char **one = environ; one && *one; one++) {
        bool asked = !prefix;
        for (unsigned i = 0; i < n; i++)
            asked |= strncmp (*one, prefix[i], strlen (prefix[i])) == 0;
        if (asked && wm_environment_hides (*one))
            return *one;
    }
    return NULL;
}

/* Variables with a fixed value for the libraries below: ONNX Runtime then sends no telemetry, and
   accepts operator sets that are newer than it. */
static struct {
    const char *name;
    char value[2];
} fixed[] = { { "ORT_DISABLE_TELEMETRY", "1" }, { "ALLOW_RELEASED_ONNX_OPSET_ONLY", "0" } };
#define FIXED (sizeof fixed / sizeof *fixed)

char *wm_environment_visible (const char *name)
{
    for (size_t i = 0; i < FIXED; i++)
        if (strcmp (name, fixed[i].name) == 0)
            return fixed[i].value;
    return wm_environment_hides (name) ? NULL : getenv (name);
}

/* ---- a program ------------------------------------------------------------------------------- */

static char removed[WM_ENVIRONMENT_NAMES];

const char *wm_environment_removed (void)
{
    return removed;
}

static void note (const char *variable)
{
    const size_t n = strlen (removed);
    snprintf (removed + n, sizeof removed - n, "%s%.*s", n ? ", " : "",
              (int) strcspn (variable, "="), variable);
}

bool wm_environment_clean (const char *program, char **argv)
{
    char **to = environ, path[PATH_MAX];
    bool is_early = false;
    for (char **from = environ; from && *from; from++) {
        const rule_t rule = rule_of (*from);
        is_early |= rule == GOES_EARLY;
        if (rule == STAYS)
            *to++ = *from;
        else
            note (*from);
    }
    if (to)
        *to = NULL;
    for (size_t i = 0; i < FIXED; i++)
        setenv (fixed[i].name, fixed[i].value, 1);
    if (!is_early) {
        const char *name = argv[0] ? argv[0] : program, *slash = strrchr (name, '/');
        prctl (PR_SET_NAME, slash ? slash + 1 : name); /* execve below names a process "exe" */
        return true;
    }
    execve (wm_program_again (program, path), argv, environ);
    fprintf (stderr,
             "%s: GLIBC_TUNABLES is set, which changes what the C library computes, and the "
             "program cannot start itself again without: %s; unset GLIBC_TUNABLES\n",
             program, strerror (errno));
    return false;
}
