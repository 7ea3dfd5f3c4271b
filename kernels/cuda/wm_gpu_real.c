/* wm_gpu_real.c - the real implementation of the table: cudart, and the libraries behind it.

   cudart is linked statically: without a driver its first call reports error 35. What is
   allocated is listed here and freed with the GPU. After a CUDA error freeing fails too, which is
   ignored: the process is about to end.  */
#include "kernels/cuda/wm_gpu_api.h"
#include "kernels/cuda/wm_gpu_cublas.h"
#include "kernels/cuda/wm_gpu_cudnn.h"
#include "kernels/cuda/wm_gpu_launch.h"
#include "kernels/cuda/wm_gpu_library.h"

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THINGS_MAX 256

static const char *const kernel_names[WM_GPU_KERNELS] = {
    [WM_GPU_FILL] = "fill",     [WM_GPU_SCATTER] = "scatter", [WM_GPU_GATHER] = "gather",
    [WM_GPU_TAIL] = "tail",     [WM_GPU_PHASES] = "phases",   [WM_GPU_CUT] = "cut",
    [WM_GPU_COPY] = "copy",     [WM_GPU_SPREAD] = "spread",   [WM_GPU_POOL] = "pool",
    [WM_GPU_JOIN] = "join",     [WM_GPU_SCAN] = "scan",       [WM_GPU_STRIP] = "strip",
    [WM_GPU_ACTIVE] = "active", [WM_GPU_DENSE] = "dense",     [WM_GPU_DENSE_TF32] = "dense in tf32",
};

typedef enum { DEVICE, PINNED, LENT, STREAM, EVENT, GRAPH } kind_t;

typedef struct {
    wm_cudnn_t *cudnn;
    wm_cublas_t *cublas;
    struct {
        kind_t kind;
        void *thing;
    } held[THINGS_MAX];
    uint32_t n_held;
} real_t;

static wm_gpu_text_t failed (const char *call, cudaError_t error)
{
    return error ? wm_gpu_text ("%s: %s (%s)", call, cudaGetErrorName (error),
                                cudaGetErrorString (error))
                 : NULL;
}

static wm_gpu_text_t kernel_failed (const char *what, wm_gpu_kernel_t kernel, cudaError_t error)
{
    return error ? wm_gpu_text ("%s of kernel %s: %s (%s)", what, kernel_names[kernel],
                                cudaGetErrorName (error), cudaGetErrorString (error))
                 : NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void *real_make (void)
{
    return calloc (1, sizeof (real_t));
}

static void real_destroy (void *gpu)
{
    real_t *self = gpu;
    cudaDeviceSynchronize ();
    wm_cudnn_destroy (&self->cudnn);
    wm_cublas_destroy (&self->cublas);
    while (self->n_held > 0) {
        void *thing = self->held[--self->n_held].thing;
        switch (self->held[self->n_held].kind) {
        case DEVICE:
            cudaFree (thing);
            break;
        case PINNED:
            cudaFreeHost (thing);
            break;
        case LENT:
            cudaHostUnregister (thing);
            break;
        case STREAM:
            cudaStreamDestroy (thing);
            break;
        case EVENT:
            cudaEventDestroy (thing);
            break;
        case GRAPH:
            cudaGraphExecDestroy (thing);
        }
    }
    free (self);
}

static wm_gpu_text_t find_device (wm_gpu_info_t *info)
{
    struct cudaDeviceProp properties;
    wm_gpu_kernel_t kernel = WM_GPU_FILL;
    size_t total;
    int n = 0;
    cudaError_t error = cudaGetDeviceCount (&n);
    if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice || (!error && n == 0))
        return wm_gpu_text (error == cudaErrorInsufficientDriver
                                ? "no NVIDIA driver, or one too old for CUDA %d.%d"
                                : "no NVIDIA GPU",
                            CUDART_VERSION / 1000, CUDART_VERSION / 10 % 100);
    if (error)
        return failed ("cudaGetDeviceCount", error);
    if ((error = cudaSetDevice (0)) != cudaSuccess)
        return failed ("cudaSetDevice", error);
    if ((error = cudaGetDeviceProperties (&properties, 0)) != cudaSuccess)
        return failed ("cudaGetDeviceProperties", error);
    if ((error = cudaMemGetInfo (&info->free_bytes, &total)) != cudaSuccess)
        return failed ("cudaMemGetInfo", error);
    snprintf (info->device, sizeof info->device, "%.63s", properties.name);
    info->major = properties.major, info->minor = properties.minor;
    info->n_sm = properties.multiProcessorCount;
    info->shared_bytes = properties.sharedMemPerBlockOptin;
    error = wm_gpu_load (info->shared_bytes, &kernel);
    return kernel_failed ("loading", kernel, error);
}

static wm_gpu_text_t real_open (void *gpu, wm_gpu_info_t *info)
{
    real_t *self = gpu;
    wm_gpu_text_t text = find_device (info);
    if (!text)
        self->cublas = wm_cublas_new (&text);
    if (!text)
        self->cudnn = wm_cudnn_new (NULL, &text);
    if (!text) {
        int dnn = wm_cudnn_version (self->cudnn), blas = wm_cublas_version (self->cublas);
        snprintf (info->libraries, sizeof info->libraries, "%d.%d.%d-%d.%d.%d", dnn / 10000,
                  dnn / 100 % 100, dnn % 100, blas / 10000, blas / 100 % 100, blas % 100);
    }
    return text;
}

static wm_gpu_text_t hold (real_t *self, const char *call, cudaError_t error, kind_t kind,
                           void *thing)
{
    if (!error && self->n_held == THINGS_MAX)
        return wm_gpu_text ("%s: more than %d things of a GPU", call, THINGS_MAX);
    if (!error) {
        self->held[self->n_held].kind = kind;
        self->held[self->n_held++].thing = thing;
    }
    return failed (call, error);
}

static wm_gpu_text_t real_device_new (void *gpu, void **d_p, size_t bytes)
{
    cudaError_t error = cudaMalloc (d_p, bytes);
    return hold (gpu, "cudaMalloc", error, DEVICE, *d_p);
}

static wm_gpu_text_t real_pinned_new (void *gpu, void **h_p, size_t bytes)
{
    cudaError_t error = cudaHostAlloc (h_p, bytes, cudaHostAllocDefault);
    return hold (gpu, "cudaHostAlloc", error, PINNED, *h_p);
}

static wm_gpu_text_t real_pin (void *gpu, const void *h, size_t bytes)
{
    void *memory = (void *) (uintptr_t) h; /* it is only read */
    cudaError_t error = cudaHostRegister (memory, bytes, cudaHostRegisterReadOnly);
    if (error)
        cudaGetLastError (); /* else the next call's */
    return hold (gpu, "cudaHostRegister", error, LENT, memory);
}

/* ---- order ----------------------------------------------------------------------------------- */

static wm_gpu_text_t real_stream_new (void *gpu, void **stream)
{
    cudaError_t error = cudaStreamCreateWithFlags ((cudaStream_t *) stream, cudaStreamNonBlocking);
    return hold (gpu, "cudaStreamCreateWithFlags", error, STREAM, *stream);
}

static wm_gpu_text_t real_stream_wait (void *gpu, void *stream, void *event)
{
    (void) gpu;
    return failed ("cudaStreamWaitEvent", cudaStreamWaitEvent (stream, event, 0));
}

static wm_gpu_text_t real_stream_sync (void *gpu, void *stream)
{
    (void) gpu;
    return failed ("cudaStreamSynchronize", cudaStreamSynchronize (stream));
}

static wm_gpu_text_t real_event_new (void *gpu, void **event, bool timed)
{
    cudaError_t error = cudaEventCreateWithFlags (
        (cudaEvent_t *) event, timed ? cudaEventDefault : cudaEventDisableTiming);
    return hold (gpu, "cudaEventCreateWithFlags", error, EVENT, *event);
}

static wm_gpu_text_t real_event_record (void *gpu, void *event, void *stream)
{
    (void) gpu;
    return failed ("cudaEventRecord", cudaEventRecord (event, stream));
}

static wm_gpu_text_t real_event_sync (void *gpu, void *event)
{
    (void) gpu;
    return failed ("cudaEventSynchronize", cudaEventSynchronize (event));
}

static wm_gpu_text_t real_event_ms (void *gpu, void *from, void *to, float *ms)
{
    (void) gpu;
    return failed ("cudaEventElapsedTime", cudaEventElapsedTime (ms, from, to));
}

/* ---- work ------------------------------------------------------------------------------------ */

static wm_gpu_text_t real_copy_in (void *gpu, void *d_to, const void *h_from, size_t bytes,
                                   void *stream)
{
    (void) gpu;
    return failed ("cudaMemcpyAsync to the device",
                   cudaMemcpyAsync (d_to, h_from, bytes, cudaMemcpyHostToDevice, stream));
}

static wm_gpu_text_t real_copy_out (void *gpu, void *h_to, const void *d_from, size_t bytes,
                                    void *stream)
{
    (void) gpu;
    return failed ("cudaMemcpyAsync to the host",
                   cudaMemcpyAsync (h_to, d_from, bytes, cudaMemcpyDeviceToHost, stream));
}

static wm_gpu_text_t real_launch (void *gpu, const wm_gpu_launch_t *launch, void *stream)
{
    (void) gpu;
    return kernel_failed ("launch", launch->kernel, wm_gpu_launch (launch, stream));
}

/* Relaxed: other threads of the process may make any call meanwhile.  */
static wm_gpu_text_t real_graph_begin (void *gpu, void *stream)
{
    (void) gpu;
    return failed ("cudaStreamBeginCapture",
                   cudaStreamBeginCapture (stream, cudaStreamCaptureModeThreadLocal));
}

static wm_gpu_text_t real_graph_end (void *gpu, void *stream, void **graph)
{
    cudaGraph_t kept = NULL;
    cudaError_t error = cudaStreamEndCapture (stream, &kept);
    if (error)
        return failed ("cudaStreamEndCapture", error);
    error = cudaGraphInstantiate ((cudaGraphExec_t *) graph, kept, 0);
    cudaGraphDestroy (kept);
    return hold (gpu, "cudaGraphInstantiate", error, GRAPH, *graph);
}

static wm_gpu_text_t real_graph_run (void *gpu, void *graph, void *stream)
{
    (void) gpu;
    return failed ("cudaGraphLaunch", cudaGraphLaunch (graph, stream));
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

static wm_gpu_text_t real_conv_new (void *gpu, const wm_gpu_conv_t *conv, uint32_t candidate,
                                    wm_conv_plan_t **plan, wm_gpu_choice_t *choice)
{
    return wm_cudnn_conv_new (((real_t *) gpu)->cudnn, conv, candidate, plan, choice);
}

static wm_gpu_text_t real_anyconv_new (void *gpu, const wm_gpu_anyconv_t *conv, uint32_t candidate,
                                       wm_conv_plan_t **plan, wm_gpu_choice_t *choice)
{
    return wm_cudnn_anyconv_new (((real_t *) gpu)->cudnn, conv, candidate, plan, choice);
}

static wm_gpu_text_t real_conv_run (void *gpu, wm_conv_plan_t *plan, const void *d_x,
                                    const void *d_weight, const void *d_bias, void *d_y,
                                    void *d_workspace, void *stream)
{
    return wm_cudnn_conv_run (((real_t *) gpu)->cudnn, plan, d_x, d_weight, d_bias, d_y,
                              d_workspace, stream);
}

static void real_conv_destroy (void *gpu, wm_conv_plan_t **plan_p)
{
    wm_cudnn_conv_destroy (((real_t *) gpu)->cudnn, plan_p);
}

static wm_gpu_text_t real_gemm_new (void *gpu, const wm_gpu_gemm_t *gemm, uint32_t candidate,
                                    wm_gemm_plan_t **plan, wm_gpu_choice_t *choice)
{
    return wm_cublas_gemm_new (((real_t *) gpu)->cublas, gemm, candidate, plan, choice);
}

static wm_gpu_text_t real_gemm_run (void *gpu, wm_gemm_plan_t *plan, const void *d_a,
                                    const void *d_b, void *d_c, void *d_workspace, void *stream)
{
    return wm_cublas_gemm_run (((real_t *) gpu)->cublas, plan, d_a, d_b, d_c, d_workspace, stream);
}

static void real_gemm_destroy (void *gpu, wm_gemm_plan_t **plan_p)
{
    wm_cublas_gemm_destroy (((real_t *) gpu)->cublas, plan_p);
}

const wm_gpu_api_t wm_gpu_real = {
    .name = "cuda",
    .make = real_make,
    .destroy = real_destroy,
    .open = real_open,
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
    .conv_new = real_conv_new,
    .conv_run = real_conv_run,
    .conv_destroy = real_conv_destroy,
    .anyconv_new = real_anyconv_new,
    .gemm_new = real_gemm_new,
    .gemm_run = real_gemm_run,
    .gemm_destroy = real_gemm_destroy,
};
