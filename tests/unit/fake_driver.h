/* fake_driver.h - a library like libcuda.so.1, compiled by the tests, for machines without a GPU.

   WM_FAKE_DRIVER is "VERSION,GPUS,ERROR": the CUDA it is for (12040), the GPUs it shows, what
   cuInit returns; unset: "13000,1,0". WM_FAKE_DRIVER_FAILS names the call that fails once;
   "name:2": its second. Memory is the host's, copies are made at once, and kernels do nothing, but
   a function is found only if the image that was loaded has it. BARE: a library without cuInit.  */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *image;
static int n_live; /* things that are not freed */

#ifdef BARE
int bare = 1;
#else
static int setting (int k)
{
    const char *set = getenv ("WM_FAKE_DRIVER");
    int value[3] = { 13000, 1, 0 };
    if (set)
        sscanf (set, "%d,%d,%d", &value[0], &value[1], &value[2]);
    return value[k];
}

static int fails (const char *call)
{
    static char last[64];
    static int n;
    const char *set = getenv ("WM_FAKE_DRIVER_FAILS");
    if (!set || strncmp (set, call, strlen (call)) || strchr (":", set[strlen (call)]) == NULL)
        return 0;
    if (strcmp (last, set) != 0)
        n = 0, snprintf (last, sizeof last, "%s", set);
    const char *count = strchr (set, ':');
    return ++n == (count ? atoi (count + 1) : 1) ? 719 : 0;
}

int cuInit (unsigned flags)
{
    return flags ? 1 : setting (2);
}

int cuDeviceGetCount (int *n)
{
    *n = setting (1);
    return fails ("cuDeviceGetCount");
}

int cuDriverGetVersion (int *version)
{
    *version = setting (0);
    return fails ("cuDriverGetVersion");
}

int cuGetErrorName (int error, const char **text)
{
    *text = error == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_OTHER";
    return error == 720;
}

int cuGetErrorString (int error, const char **text)
{
    *text = "as a test asked";
    return error == 721;
}

int cuDeviceGetName (char *name, int bytes, int device)
{
    snprintf (name, (size_t) bytes, "NVIDIA Fake %d", device);
    return fails ("cuDeviceGetName");
}

int cuDeviceGetAttribute (int *value, int attribute, int device)
{
    (void) device;
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 132 : 232448;
    return fails ("cuDeviceGetAttribute");
}

int cuMemGetInfo_v2 (size_t *left, size_t *all)
{
    *left = *all = (size_t) 1 << 30;
    return fails ("cuMemGetInfo");
}

int cuModuleLoadData (void **module, const void *data)
{
    *module = (void *) (image = data);
    return fails ("cuModuleLoadData");
}

/* An image of machine code is an ELF file, which has a section for each kernel.  */
int cuModuleGetFunction (void **function, void *module, const char *name)
{
    char section[80];
    const int n = snprintf (section, sizeof section, ".text.%s", name);
    *function = memmem (module, 1 << 19, section, (size_t) n + 1) ? module : NULL;
    return *function ? fails ("cuModuleGetFunction") : 500;
}

int cuFuncGetAttribute (int *value, int attribute, void *function)
{
    *value = attribute && function ? 16 : 0;
    return fails ("cuFuncGetAttribute");
}

/* Whether the arguments can be read.  */
int cuLaunchKernel (void *function, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty,
                    unsigned tz, unsigned shared, void *stream, void **args, void **extra)
{
    (void) shared;
    return !function || !x || y * z != 1 || !tx || ty * tz != 1 || !stream || !args || extra
               ? 1
               : fails ("cuLaunchKernel");
}

static int make (void **thing, size_t bytes, const char *call)
{
    const int error = fails (call);
    if (!error)
        n_live++, *thing = calloc (1, bytes);
    return error;
}

static int drop (void *thing)
{
    n_live--;
    free (thing);
    return 0;
}

int fake_driver_live (void)
{
    return n_live;
}

int cuMemAlloc_v2 (void **d, size_t bytes)
{
    return make (d, bytes, "cuMemAlloc");
}

int cuMemHostAlloc (void **h, size_t bytes, unsigned flags)
{
    return flags ? 1 : make (h, bytes, "cuMemHostAlloc");
}

int cuMemHostRegister_v2 (void *h, size_t bytes, unsigned flags)
{
    const int error = h && bytes && flags == 8 ? fails ("cuMemHostRegister") : 1;
    n_live += !error;
    return error;
}

int cuMemHostUnregister (void *h)
{
    n_live -= h != NULL;
    return 0;
}

int cuMemcpyHtoDAsync_v2 (void *to, const void *from, size_t bytes, void *stream)
{
    memcpy (to, from, stream ? bytes : 0);
    return fails ("cuMemcpyHtoDAsync");
}

int cuMemcpyDtoHAsync_v2 (void *to, const void *from, size_t bytes, void *stream)
{
    memcpy (to, from, stream ? bytes : 0);
    return fails ("cuMemcpyDtoHAsync");
}

int cuStreamCreateWithPriority (void **stream, unsigned flags, int priority)
{
    return flags == 1 && priority <= 0 ? make (stream, 1, "cuStreamCreate") : 1;
}

int cuEventCreate (void **event, unsigned flags)
{
    return flags == 0 || flags == 2 ? make (event, 1, "cuEventCreate") : 1;
}

int cuEventElapsedTime (float *ms, void *from, void *to)
{
    *ms = from && to ? 2 : 0;
    return fails ("cuEventElapsedTime");
}

int cuStreamEndCapture (void *stream, void **graph)
{
    return stream ? make (graph, 1, "cuStreamEndCapture") : 1;
}

int cuGraphInstantiateWithFlags (void **run, void *graph, unsigned long long flags)
{
    return graph && !flags ? make (run, 1, "cuGraphInstantiate") : 1;
}

int cuDevicePrimaryCtxRetain (void **context, int device)
{
    static int one;
    *context = device ? NULL : &one;
    return fails ("cuDevicePrimaryCtxRetain");
}

#define CALL0(symbol, name)                                                                        \
    int symbol (void *thing)                                                                       \
    {                                                                                              \
        return thing ? fails (name) : 1;                                                           \
    }
#define DROP(symbol)                                                                               \
    int symbol (void *thing)                                                                       \
    {                                                                                              \
        return drop (thing);                                                                       \
    }
#define CALL2(symbol, name)                                                                        \
    int symbol (void *a, void *b)                                                                  \
    {                                                                                              \
        return a && b ? fails (name) : 1;                                                          \
    }
CALL0 (cuCtxSetCurrent, "cuCtxSetCurrent")
CALL0 (cuStreamSynchronize, "cuStreamSynchronize")
CALL0 (cuEventSynchronize, "cuEventSynchronize")
DROP (cuMemFree_v2)
DROP (cuMemFreeHost)
DROP (cuStreamDestroy_v2)
DROP (cuEventDestroy_v2)
DROP (cuGraphExecDestroy)
DROP (cuGraphDestroy)
CALL2 (cuStreamWaitEvent, "cuStreamWaitEvent")
CALL2 (cuEventRecord, "cuEventRecord")
CALL2 (cuGraphLaunch, "cuGraphLaunch")

int cuStreamBeginCapture_v2 (void *stream, int mode)
{
    return stream && mode == 1 ? fails ("cuStreamBeginCapture") : 1;
}

int cuFuncSetAttribute (void *function, int attribute, int value)
{
    return function && attribute == 8 && value == 232448 - 16 ? fails ("cuFuncSetAttribute") : 1;
}

int cuDeviceGet (int *device, int ordinal)
{
    *device = ordinal;
    return fails ("cuDeviceGet");
}

int cuCtxSynchronize (void)
{
    return 0;
}
#endif
