/* wm_gpu_real.c - the real implementation of the table: the driver, and cuDNN behind it.

   Everything goes through the driver's own calls (wm_gpu_driver.h), in the device's primary
   context, which cuDNN uses, too. It is never released: other engines of the process
   may use it. What is allocated is listed here and freed with the GPU. After a CUDA error freeing
   fails too, which is ignored: the process is about to end.  */
#include "kernels/gpu/wm_gpu_api.h"
#include "kernels/gpu/wm_gpu_cudnn.h"
#include "kernels/gpu/wm_gpu_driver.h"
#include "kernels/gpu/wm_gpu_library.h"

#include <assert.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THINGS_MAX 256

typedef enum { DEVICE, PINNED, LENT, STREAM, EVENT, GRAPH } kind_t;

typedef struct {
    const wm_cu_t *cu; /* NULL: not opened */
    const wm_cu_kernels_t *kernels;
    CUcontext context;
    wm_cudnn_t *cudnn;
    struct {
        kind_t kind;
        void *thing;
    } held[THINGS_MAX];
    uint32_t n_held;
} real_t;

/* The GPU, which is open, as this thread may call it: a context is current in each thread for
   itself.  */
static const wm_cu_t *enter (const real_t *self)
{
    static _Thread_local CUcontext current;
    assert (self->cu);
    if (current != self->context && !self->cu->context_set (self->context))
        current = self->context;
    return self->cu;
}

/* Returns the text of a call's error.  */
#define RETURN_CALL(gpu, what, call, ...)                                                          \
    do {                                                                                           \
        const wm_cu_t *cu_ = enter (gpu);                                                          \
        return wm_cu_failed (cu_, what, cu_->call (__VA_ARGS__));                                  \
    } while (0)

static CUdeviceptr on_device (const void *d)
{
    return (CUdeviceptr) (uintptr_t) d;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void *real_make (void)
{
    return calloc (1, sizeof (real_t));
}

static void drop (const wm_cu_t *cu, kind_t kind, void *thing)
{
    switch (kind) {
    case DEVICE:
        cu->device_free (on_device (thing));
        break;
    case PINNED:
        cu->pinned_free (thing);
        break;
    case LENT:
        cu->unpin (thing);
        break;
    case STREAM:
        cu->stream_free (thing);
        break;
    case EVENT:
        cu->event_free (thing);
        break;
    case GRAPH:
        cu->graph_free (thing);
    }
}

static void real_destroy (void *gpu)
{
    real_t *self = gpu;
    if (self->cu)
        enter (self)->context_sync ();
    wm_cudnn_destroy (&self->cudnn);
    while (self->n_held-- > 0)
        drop (self->cu, self->held[self->n_held].kind, self->held[self->n_held].thing);
    free (self);
}

static CUresult describe (const wm_cu_t *cu, CUdevice device, wm_gpu_info_t *info)
{
    int shared = 0;
    const struct {
        int *fact;
        CUdevice_attribute of;
    } attribute[] = {
        { &info->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR },
        { &info->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR },
        { &info->n_sm, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT },
        { &shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN },
    };
    CUresult result = cu->device_name (info->device, (int) sizeof info->device, device);
    for (size_t i = 0; i < sizeof attribute / sizeof *attribute && !result; i++)
        result = cu->device_attribute (attribute[i].fact, attribute[i].of, device);
    info->shared_bytes = (size_t) shared;
    return result;
}

static wm_gpu_text_t real_open (void *gpu, wm_gpu_info_t *info)
{
    real_t *self = gpu;
    CUdevice device = 0;
    size_t total;
    wm_gpu_text_t text;
    const wm_cu_t *cu = wm_cu_open (&text);
    if (text || (text = wm_cu_failed (cu, "cuDeviceGet", cu->device_get (&device, 0))) ||
        (text = wm_cu_failed (cu, "the GPU's properties", describe (cu, device, info))) ||
        (text = wm_cu_failed (cu, "cuDevicePrimaryCtxRetain",
                              cu->context_retain (&self->context, device))))
        return text;
    self->cu = cu;
    enter (self);
    if ((text = wm_cu_failed (cu, "cuMemGetInfo", cu->memory_info (&info->free_bytes, &total))))
        return text;
    self->kernels = wm_cu_kernels (cu, 10 * info->major + info->minor, info->shared_bytes, &text);
    /* Others, such as sm_100a, are specific too, but have no instructions of warpgroups.  */
    info->wide = self->kernels && self->kernels->arch_specific && info->major == 9;
    if (self->kernels) /* "r": products and sums are not fused, each rounds (compile.c) */
        snprintf (info->libraries, sizeof info->libraries, "%d.%dr", self->kernels->toolkit / 1000,
                  self->kernels->toolkit / 10 % 100);
    return text;
}

static wm_gpu_text_t real_open_cudnn (void *gpu, wm_gpu_info_t *info)
{
    real_t *self = gpu;
    wm_gpu_text_t text = NULL;
    enter (self);
    if ((self->cudnn = wm_cudnn_new (NULL, self->cu->version, &text))) {
        const size_t n = strlen (info->libraries);
        const int v = wm_cudnn_version (self->cudnn);
        snprintf (info->libraries + n, sizeof info->libraries - n, "-%d.%d.%d", v / 10000,
                  v / 100 % 100, v % 100);
    }
    return text;
}

static wm_gpu_text_t hold (real_t *self, const char *call, CUresult result, kind_t kind,
                           void *thing)
{
    if (!result && self->n_held == THINGS_MAX) {
        drop (self->cu, kind, thing);
        return wm_gpu_text ("%s: more than %d things of a GPU", call, THINGS_MAX);
    }
    if (!result) {
        self->held[self->n_held].kind = kind;
        self->held[self->n_held++].thing = thing;
    }
    return wm_cu_failed (self->cu, call, result);
}

static wm_gpu_text_t real_device_new (void *gpu, void **d_p, size_t bytes)
{
    const wm_cu_t *cu = enter (gpu);
    CUdeviceptr d = 0;
    const CUresult result = cu->device_new (&d, bytes);
    *d_p = (void *) (uintptr_t) d;
    return hold (gpu, "cuMemAlloc", result, DEVICE, *d_p);
}

static wm_gpu_text_t real_pinned_new (void *gpu, void **h_p, size_t bytes)
{
    const wm_cu_t *cu = enter (gpu);
    const CUresult result = cu->pinned_new (h_p, bytes, 0);
    return hold (gpu, "cuMemHostAlloc", result, PINNED, *h_p);
}

static wm_gpu_text_t real_pin (void *gpu, const void *h, size_t bytes)
{
    const wm_cu_t *cu = enter (gpu);
    void *memory = (void *) (uintptr_t) h; /* it is only read */
    return hold (gpu, "cuMemHostRegister", cu->pin (memory, bytes, CU_MEMHOSTREGISTER_READ_ONLY),
                 LENT, memory);
}

/* ---- order ----------------------------------------------------------------------------------- */

static wm_gpu_text_t real_stream_new (void *gpu, void **stream, bool first)
{
    const wm_cu_t *cu = enter (gpu);
    /* A lower number goes first; the driver takes the nearest that the GPU has.  */
    const CUresult result =
        cu->stream_new ((CUstream *) stream, CU_STREAM_NON_BLOCKING, first ? -1 : 0);
    return hold (gpu, "cuStreamCreate", result, STREAM, *stream);
}

static wm_gpu_text_t real_stream_wait (void *gpu, void *stream, void *event)
{
    RETURN_CALL (gpu, "cuStreamWaitEvent", stream_wait, stream, event, 0);
}

static wm_gpu_text_t real_stream_sync (void *gpu, void *stream)
{
    RETURN_CALL (gpu, "cuStreamSynchronize", stream_sync, stream);
}

static wm_gpu_text_t real_event_new (void *gpu, void **event, bool timed)
{
    const wm_cu_t *cu = enter (gpu);
    const CUresult result =
        cu->event_new ((CUevent *) event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
    return hold (gpu, "cuEventCreate", result, EVENT, *event);
}

static wm_gpu_text_t real_event_record (void *gpu, void *event, void *stream)
{
    RETURN_CALL (gpu, "cuEventRecord", event_record, event, stream);
}

static wm_gpu_text_t real_event_sync (void *gpu, void *event)
{
    RETURN_CALL (gpu, "cuEventSynchronize", event_sync, event);
}

static wm_gpu_text_t real_event_ms (void *gpu, void *from, void *to, float *ms)
{
    RETURN_CALL (gpu, "cuEventElapsedTime", event_ms, ms, from, to);
}

/* ---- work ------------------------------------------------------------------------------------ */

static wm_gpu_text_t real_copy_in (void *gpu, void *d_to, const void *h_from, size_t bytes,
                                   void *stream)
{
    RETURN_CALL (gpu, "copy to the device", copy_in, on_device (d_to), h_from, bytes, stream);
}

static wm_gpu_text_t real_copy_out (void *gpu, void *h_to, const void *d_from, size_t bytes,
                                    void *stream)
{
    RETURN_CALL (gpu, "copy to the host", copy_out, h_to, on_device (d_from), bytes, stream);
}

static wm_gpu_text_t real_launch (void *gpu, const wm_gpu_launch_t *launch, void *stream)
{
    const real_t *self = gpu;
    const wm_cu_t *cu = enter (self);
    void *args[] = { (void *) (uintptr_t) launch->args };
    char what[64];
    const CUresult result =
        cu->launch (self->kernels->function[launch->kernel], launch->blocks, 1, 1, launch->threads,
                    1, 1, launch->shared_bytes, stream, args, NULL);
    if (!result)
        return NULL;
    snprintf (what, sizeof what, "launch of kernel %s", wm_cu_kernel_name (launch->kernel));
    return wm_cu_failed (cu, what, result);
}

/* By thread: other threads of the process may make any call meanwhile.  */
static wm_gpu_text_t real_graph_begin (void *gpu, void *stream)
{
    RETURN_CALL (gpu, "cuStreamBeginCapture", capture_begin, stream,
                 CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
}

static wm_gpu_text_t real_graph_end (void *gpu, void *stream, void **graph)
{
    const wm_cu_t *cu = enter (gpu);
    CUgraph kept = NULL;
    CUresult result = cu->capture_end (stream, &kept);
    if (result)
        return wm_cu_failed (cu, "cuStreamEndCapture", result);
    result = cu->graph_new ((CUgraphExec *) graph, kept, 0);
    cu->captured_free (kept);
    return hold (gpu, "cuGraphInstantiate", result, GRAPH, *graph);
}

static wm_gpu_text_t real_graph_run (void *gpu, void *graph, void *stream)
{
    RETURN_CALL (gpu, "cuGraphLaunch", graph_run, graph, stream);
}

static void real_range_begin (void *gpu, const char *name)
{
    (void) gpu;
    nvtxRangePushA (name);
}

static void real_range_end (void *gpu)
{
    (void) gpu;
    nvtxRangePop ();
}

static wm_gpu_text_t real_anyconv_new (void *gpu, const wm_gpu_anyconv_t *conv, uint32_t candidate,
                                       wm_conv_plan_t **plan, wm_gpu_choice_t *choice)
{
    enter (gpu);
    return wm_cudnn_anyconv_new (((real_t *) gpu)->cudnn, conv, candidate, plan, choice);
}

static wm_gpu_text_t real_conv_run (void *gpu, wm_conv_plan_t *plan, const void *d_x,
                                    const void *d_weight, const void *d_bias, void *d_y,
                                    void *d_workspace, void *stream)
{
    enter (gpu);
    return wm_cudnn_conv_run (((real_t *) gpu)->cudnn, plan, d_x, d_weight, d_bias, d_y,
                              d_workspace, stream);
}

static void real_conv_destroy (void *gpu, wm_conv_plan_t **plan_p)
{
    wm_cudnn_conv_destroy (((real_t *) gpu)->cudnn, plan_p);
}

const wm_gpu_api_t wm_gpu_real = {
    .make = real_make,
    .destroy = real_destroy,
    .open = real_open,
    .open_cudnn = real_open_cudnn,
    .device_new = real_device_new,
    .pinned_new = real_pinned_new,
    .pin = real_pin,
    .stream_new = real_stream_new,
    .stream_wait = real_stream_wait,
    .stream_sync = real_stream_sync,
    .event_new = real_event_new,
    .event_record = real_event_record,
    .event_sync = real_event_sync,
    .event_ms = real_event_ms,
    .copy_in = real_copy_in,
    .copy_out = real_copy_out,
    .launch = real_launch,
    .graph_begin = real_graph_begin,
    .graph_end = real_graph_end,
    .graph_run = real_graph_run,
    .range_begin = real_range_begin,
    .range_end = real_range_end,
    .conv_run = real_conv_run,
    .conv_destroy = real_conv_destroy,
    .anyconv_new = real_anyconv_new,
};
