/* wm_opencl_device.c - see wm_opencl_device.h.  */
#include "kernels/opencl/wm_opencl_device.h"
#include "kernels/model/wm_model.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The program that drivers compile: the formulas of activations, which the CPU's engine is compiled
   from, and the kernels; in front of them ours of `program_head`.  */
#define TEXT(name, file)                                                                           \
    __asm__ (".pushsection .rodata\n.global " #name "\n" #name ":\n.incbin \"" file                \
             "\"\n.byte 0\n.popsection\n");                                                        \
    extern const char name[] __attribute__ ((visibility ("hidden")))
TEXT (wm_opencl_text_act, "kernels/model/wm_act.h");
TEXT (wm_opencl_text_kernels, "kernels/opencl/wm_opencl.cl");

#define PLATFORMS_MAX 16u
#define LOG_BYTES 8192u
#define HEAD_BYTES 1024u

/* ---- the library ----------------------------------------------------------------------------- */

static wm_fault_t load (wm_opencl_api_t *api, wm_error_t *error)
{
    static const char *const names[] = {
#define NAME(field, name, result, arguments) #name,
        WM_CL_CALLS (NAME)
    };
    void *library = dlopen ("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return wm_fault (error, WM_EHOST,
                         "there is no OpenCL here (%.120s): install a driver of the device's maker "
                         "and its loader, of Debian: ocl-icd-libopencl1",
                         dlerror ());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *symbol = dlsym (library, names[i]);
        if (!symbol)
            return wm_fault (error, WM_EHOST, "libOpenCL.so.1 is no OpenCL 1.2: it has no %s",
                             names[i]);
        memcpy ((char *) api + i * sizeof symbol, &symbol, sizeof symbol);
    }
    return WM_OK;
}

static const char *name_of (wm_cl_int code)
{
    static const struct {
        wm_cl_int code;
        const char *text;
    } texts[] = {
        { WM_CL_DEVICE_NOT_AVAILABLE, "CL_DEVICE_NOT_AVAILABLE: the device is lost, or in use" },
        { WM_CL_MEM_OBJECT_ALLOCATION_FAILURE,
          "CL_MEM_OBJECT_ALLOCATION_FAILURE: the device has too little memory" },
        { WM_CL_OUT_OF_RESOURCES,
          "CL_OUT_OF_RESOURCES: the device is lost, or has too little memory" },
        { WM_CL_OUT_OF_HOST_MEMORY, "CL_OUT_OF_HOST_MEMORY: the driver has too little memory" },
        { WM_CL_BUILD_PROGRAM_FAILURE, "CL_BUILD_PROGRAM_FAILURE" },
        { WM_CL_INVALID_VALUE, "CL_INVALID_VALUE" },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].code == code)
            return texts[i].text;
    return "an error of OpenCL";
}

/* ---- the list -------------------------------------------------------------------------------- */

static uint64_t number_of (const wm_opencl_api_t *api, wm_cl_object id, wm_cl_uint what)
{
    uint64_t value = 0; /* of 4 or 8 bytes: little-endian machines only */
    api->device_info (id, what, sizeof value, &value, NULL);
    return value;
}

static void describe (const wm_opencl_api_t *api, wm_cl_object platform, wm_cl_object id,
                      wm_opencl_info_t *info)
{
    const uint64_t needs = WM_CL_FP_DENORM | WM_CL_FP_ROUND_TO_NEAREST | WM_CL_FP_FMA,
                   has = number_of (api, id, WM_CL_DEVICE_SINGLE_FP_CONFIG),
                   has_double = number_of (api, id, WM_CL_DEVICE_DOUBLE_FP_CONFIG);
    *info = (wm_opencl_info_t){ .id = id };
    api->platform_info (platform, WM_CL_PLATFORM_NAME, sizeof info->platform - 1, info->platform,
                        NULL);
    api->device_info (id, WM_CL_DEVICE_NAME, sizeof info->name - 1, info->name, NULL);
    api->device_info (id, WM_CL_DRIVER_VERSION, sizeof info->driver - 1, info->driver, NULL);
    info->is_cpu = number_of (api, id, WM_CL_DEVICE_TYPE) & WM_CL_DEVICE_TYPE_CPU;
    info->memory_bytes = number_of (api, id, WM_CL_DEVICE_GLOBAL_MEM_SIZE);
    info->buffer_bytes = number_of (api, id, WM_CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    info->n_unit = (uint32_t) number_of (api, id, WM_CL_DEVICE_MAX_COMPUTE_UNITS);
    const char *lacks = !(has & WM_CL_FP_FMA)                ? "a fused multiply-add in float32"
                        : !(has & WM_CL_FP_DENORM)           ? "denormal numbers in float32"
                        : (has & needs) != needs             ? "rounding to nearest in float32"
                        : !number_of (api, id, WM_CL_DEVICE_COMPILER_AVAILABLE) ? "a compiler"
                        : !number_of (api, id, WM_CL_DEVICE_AVAILABLE) ? "availability: it is off"
                                                                       : "";
    info->has_double = (has_double & needs) == needs;
    snprintf (info->lacks, sizeof info->lacks, "%s", lacks);
}

static wm_fault_t list (const wm_opencl_api_t *api, wm_opencl_info_t *info, uint32_t *n,
                        wm_error_t *error)
{
    wm_cl_object platform[PLATFORMS_MAX], id[WM_OPENCL_DEVICES_MAX];
    wm_cl_uint n_platform = 0;
    *n = 0;
    api->platforms (PLATFORMS_MAX, platform, &n_platform); /* an error: no platform */
    n_platform = n_platform < PLATFORMS_MAX ? n_platform : PLATFORMS_MAX;
    for (wm_cl_uint p = 0; p < n_platform; p++) {
        wm_cl_uint n_here = 0;
        const wm_cl_uint left = WM_OPENCL_DEVICES_MAX - *n;
        if (left == 0 || api->devices (platform[p], (wm_cl_uint) WM_CL_DEVICE_TYPE_ALL, left, id,
                                       &n_here))
            continue;
        for (wm_cl_uint i = 0; i < n_here && i < left; i++)
            describe (api, platform[p], id[i], &info[(*n)++]);
    }
    if (n_platform == 0)
        return wm_fault (error, WM_EHOST,
                         "OpenCL has no platform here: install a driver of the device's maker, "
                         "whose .icd file lies in /etc/OpenCL/vendors");
    return *n > 0 ? WM_OK
                  : wm_fault (error, WM_EHOST, "OpenCL's %u platform%s no device here", n_platform,
                              n_platform == 1 ? " has" : "s have");
}

wm_fault_t wm_opencl_list (wm_opencl_info_t info[WM_OPENCL_DEVICES_MAX], uint32_t *n,
                           wm_error_t *error)
{
    wm_opencl_api_t api;
    const wm_fault_t fault = load (&api, error);
    *n = 0;
    return fault ? fault : list (&api, info, n, error);
}

/* ---- opening --------------------------------------------------------------------------------- */

static wm_fault_t choose (wm_opencl_device_t *self, int number, wm_error_t *error)
{
    wm_opencl_info_t info[WM_OPENCL_DEVICES_MAX];
    uint32_t n;
    wm_fault_t fault = load (&self->api, error);
    if (!fault)
        fault = list (&self->api, info, &n, error);
    if (fault)
        return fault;
    uint32_t i = number < 0 ? 0 : (uint32_t) number;
    for (uint32_t k = n; number < 0 && k-- > 0;) /* what lacks something is left for the message */
        if (!info[k].is_cpu && (!*info[k].lacks || info[i].is_cpu || *info[i].lacks))
            i = k;
    if (i >= n)
        return wm_fault (error, WM_EHOST,
                         "there is no OpenCL device %u: wiremill doctor lists %u, from 0 on", i, n);
    self->info = info[i];
    if (*info[i].lacks)
        return wm_fault (error, WM_EHOST,
                         "the OpenCL device %u, %.90s, lacks %s: strict fp32 needs it", i,
                         info[i].name, info[i].lacks);
    return WM_OK;
}

/* The first line of a log that names an error.  */
static void shorten (const char *log, char *line, size_t bytes)
{
    const char *from = strstr (log, "error");
    while (from && from > log && from[-1] != '\n')
        from--;
    from = from ? from : log + strspn (log, " \n");
    snprintf (line, bytes, "%.*s", (int) strcspn (from, "\n"), *from ? from : "no log");
}

/* What C has of its headers, by the compiler's own numbers.  */
static void program_head (bool has_double, bool is_half, char head[HEAD_BYTES])
{
#define ACTS(ACT)                                                                                  \
    ACT (NONE)                                                                                     \
    ACT (RELU)                                                                                     \
    ACT (SIGMOID)                                                                                  \
    ACT (TANH)                                                                                     \
    ACT (SOFTMAX)                                                                                  \
    ACT (LEAKY)                                                                                    \
    ACT (ELU)                                                                                      \
    ACT (CLIP)                                                                                     \
    ACT (GELU)                                                                                     \
    ACT (GELU_TANH)                                                                                \
    ACT (SWISH)                                                                                    \
    ACT (HARDSWISH)                                                                                \
    ACT (SOFTPLUS)                                                                                 \
    ACT (MISH)
#define ACT_TEXT(name) "#define WM_ACT_" #name " %d\n"
#define ACT_VALUE(name) , WM_ACT_##name
    snprintf (head, HEAD_BYTES,
              "%s%s\n"
              "#pragma OPENCL FP_CONTRACT OFF\n"
              "typedef int wm_act_t;\n" ACTS (ACT_TEXT),
              is_half ? "#define WM_HALF\n" : "",
              has_double ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"
                         : "#define WM_NO_DOUBLE" ACTS (ACT_VALUE));
}

static wm_fault_t build (wm_opencl_device_t *self, bool is_half, wm_error_t *error)
{
    const wm_opencl_api_t *api = &self->api;
    char head[HEAD_BYTES];
    const bool has_double = self->info.has_double;
    const char *text[] = { head, has_double ? wm_opencl_text_act : "", wm_opencl_text_kernels };
    wm_cl_int code;
    program_head (has_double, is_half, head);
    self->program = api->program_new (self->context, 3, text, NULL, &code);
    if (self->program)
        code = api->program_build (self->program, 1, &self->info.id, "-cl-std=CL1.2", NULL, NULL);
    if (self->program && code) {
        char *log = calloc (1, LOG_BYTES + 1), line[240];
        if (log)
            api->program_info (self->program, self->info.id, WM_CL_PROGRAM_BUILD_LOG, LOG_BYTES,
                               log, NULL);
        shorten (log ? log : "", line, sizeof line);
        free (log);
        return wm_fault (error, WM_EHOST,
                         "the driver of %.90s does not build our program: %s (%s, %d)",
                         self->info.name, line, name_of (code), code);
    }
    static const char *const names[] = {
#define KERNEL_NAME(name) "wm_" #name,
        WM_OPENCL_KERNELS (KERNEL_NAME)
    };
    for (int k = 0; k < WM_OPENCL_N_KERNEL && !code; k++) {
        self->kernel[k] = api->kernel_new (self->program, names[k], &code);
        if (!code)
            code = api->kernel_info (self->kernel[k], self->info.id, WM_CL_KERNEL_WORK_GROUP_SIZE,
                                     sizeof self->group_max[k], &self->group_max[k], NULL);
    }
    return code ? wm_fault (error, WM_EHOST,
                            "the driver of %.90s does not make our kernels: %s (%d)",
                            self->info.name, name_of (code), code)
                : WM_OK;
}

wm_fault_t wm_opencl_device_open (wm_opencl_device_t *self, int number, bool is_half,
                                  wm_error_t *error)
{
    wm_cl_int code = 0;
    *self = (wm_opencl_device_t){ 0 };
    wm_fault_t fault = choose (self, number, error);
    if (fault)
        return fault;
    self->context = self->api.context_new (NULL, 1, &self->info.id, NULL, NULL, &code);
    if (!code)
        self->queue = self->api.queue_new (self->context, self->info.id, 0, &code);
    fault = code ? wm_fault (error, WM_EHOST, "the OpenCL device %.90s cannot be opened: %s (%d)",
                             self->info.name, name_of (code), code)
                 : build (self, is_half, error);
    if (fault)
        wm_opencl_device_close (self);
    return fault;
}

void wm_opencl_device_close (wm_opencl_device_t *self)
{
    for (int k = 0; k < WM_OPENCL_N_KERNEL; k++)
        if (self->kernel[k])
            self->api.kernel_release (self->kernel[k]);
    if (self->program)
        self->api.program_release (self->program);
    if (self->queue)
        self->api.queue_release (self->queue);
    if (self->context)
        self->api.context_release (self->context);
    *self = (wm_opencl_device_t){ 0 };
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void keep (wm_opencl_device_t *self, wm_cl_int code, const char *call)
{
    if (code && !self->lost)
        self->lost = code, self->lost_by = call;
}

wm_fault_t wm_opencl_check (const wm_opencl_device_t *self, wm_error_t *error)
{
    return self->lost ? wm_fault (error, WM_EHOST, "the OpenCL device %.90s failed in %s: %s (%d)",
                                  self->info.name, self->lost_by, name_of (self->lost), self->lost)
                      : WM_OK;
}

wm_cl_object wm_opencl_buffer (wm_opencl_device_t *self, size_t bytes)
{
    wm_cl_int code = 0;
    if (bytes > self->info.buffer_bytes)
        return NULL;
    wm_cl_object buffer = self->api.buffer_new (self->context, WM_CL_MEM_READ_WRITE,
                                                bytes ? bytes : 1, NULL, &code);
    return code ? NULL : buffer;
}

bool wm_opencl_touch (wm_opencl_device_t *self, wm_cl_object buffer)
{
    const wm_cl_int code =
        self->api.write (self->queue, buffer, 1, 0, 1, "", 0, NULL, NULL); /* waits */
    if (code <= WM_CL_MEM_OBJECT_ALLOCATION_FAILURE && code >= WM_CL_OUT_OF_HOST_MEMORY)
        return false;
    keep (self, code, "clEnqueueWriteBuffer");
    return true;
}

void wm_opencl_release (wm_opencl_device_t *self, wm_cl_object *buffer)
{
    if (*buffer)
        self->api.buffer_release (*buffer);
    *buffer = NULL;
}

void wm_opencl_write (wm_opencl_device_t *self, wm_cl_object buffer, const void *from, size_t bytes)
{
    if (bytes > 0 && !self->lost)
        keep (self, self->api.write (self->queue, buffer, 1, 0, bytes, from, 0, NULL, NULL),
              "clEnqueueWriteBuffer");
}

void wm_opencl_read (wm_opencl_device_t *self, wm_cl_object buffer, void *to, size_t bytes)
{
    if (bytes > 0 && !self->lost)
        keep (self, self->api.read (self->queue, buffer, 1, 0, bytes, to, 0, NULL, NULL),
              "clEnqueueReadBuffer");
}

void wm_opencl_write_rows (wm_opencl_device_t *self, wm_cl_object buffer, const void *from,
                           size_t rows, size_t n_byte, size_t pitch)
{
    const size_t origin[3] = { 0, 0, 0 }, region[3] = { n_byte, rows, 1 };
    if (!self->lost)
        keep (self,
              self->api.write_rows (self->queue, buffer, 1, origin, origin, region, n_byte, 0,
                                    pitch, 0, from, 0, NULL, NULL),
              "clEnqueueWriteBufferRect");
}

void wm_opencl_launch (wm_opencl_device_t *self, wm_opencl_kernel_t kernel, uint32_t items,
                       const uint32_t groups[3], const wm_opencl_argument_t *argument, uint32_t n)
{
    const size_t local[3] = { items, 1, 1 },
                 global[3] = { (size_t) items * groups[0], groups[1], groups[2] };
    for (uint32_t i = 0; i < n && !self->lost; i++)
        keep (self,
              self->api.kernel_argument (self->kernel[kernel], i,
                                         argument[i].is_buffer ? sizeof (wm_cl_object)
                                                               : sizeof (uint32_t),
                                         argument[i].is_buffer ? (const void *) &argument[i].buffer
                                                               : &argument[i].value),
              "clSetKernelArg");
    if (!self->lost) {
        keep (self,
              self->api.launch (self->queue, self->kernel[kernel], 3, NULL, global, local, 0, NULL,
                                NULL),
              "clEnqueueNDRangeKernel");
        self->n_launch++;
    }
}
