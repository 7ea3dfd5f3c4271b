/* wm_gpu_api.h - everything the CUDA engine needs of a GPU, as one table of calls.

   Two implementations: the real one (wm_gpu_real.c: the driver; wm_gpu_cudnn.c: all of cuDNN;
   wm_gpu_kernels.cu: our kernels) and a stand-in that runs on any machine
   (tests/standin/wm_gpu_fake.c), where asynchronous work happens as late as it may, memory is
   guarded, and any call can be made to fail. So the engine is tested where there is no GPU, by the
   same calls in the same order.

   Every call returns NULL, or the text of an error, valid until the thread's next error. Errors are
   sticky: after the first one no result is valid, and the engine must end. Making a plan is one
   call here, though it is many inside cuDNN.
   Thread: one at a time per opened GPU.  */
#ifndef WM_GPU_API_H
#define WM_GPU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    WM_GPU_F32,   /* strict: no tensor cores */
    WM_GPU_TF32,  /* float32 in memory, products of 10-bit mantissas */
    WM_GPU_F16,   /* half in memory, sums in float32 */
    WM_GPU_SPLIT, /* a float32 as two halves, sums in float32: wm_cuda.h only */
} wm_gpu_precision_t;

typedef struct {
    char device[64]; /* "NVIDIA H200" */
    int major, minor;
    int n_sm;
    bool wide;           /* the kernels of wm_gpu_wide.cuh run on it */
    size_t free_bytes;   /* of its memory, when it was opened */
    size_t shared_bytes; /* that a block may have */
    char libraries[32];  /* versions that decide bits: of the compiler of our kernels, and of
                            cuDNN where it is open, "12.9r-9.19.0" */
} wm_gpu_info_t;

/* A convolution, channels last: y = x * weight + bias, then ReLU or nothing; x (rows, in, c_in),
   weight (c_out, kernel, c_in / groups), bias (c_out), y (rows, out, c_out), all of the precision's
   type. Sizes are (height, width).  */
typedef struct {
    wm_gpu_precision_t precision;
    bool relu;
    uint32_t rows, c_in, c_out, groups;
    uint32_t in[2], out[2], kernel[2], stride[2], before[2]; /* as of a pool (wm_gpu_args.h) */
    uint32_t dilation[2], after[2];
} wm_gpu_anyconv_t;

/* The algorithm that cuDNN chose.  */
typedef struct {
    size_t workspace_bytes;
    bool tensor_core;
    char name[48]; /* "engine 41", for people */
} wm_gpu_choice_t;

typedef struct wm_conv_plan_t wm_conv_plan_t;

/* Our kernels; their arguments are the structs of wm_gpu_args.h, named alike.  */
typedef enum {
    WM_GPU_FILL,
    WM_GPU_SCATTER,
    WM_GPU_WINDOW,
    WM_GPU_TAIL,
    WM_GPU_PHASES,
    WM_GPU_CUT,
    WM_GPU_COPY,
    WM_GPU_SPREAD,
    WM_GPU_POOL,
    WM_GPU_JOIN,
    WM_GPU_SCAN,
    WM_GPU_ACTIVE,
    WM_GPU_DENSE, /* from here on: as much shared memory as a block may have */
    WM_GPU_DENSE_SPLIT,
    WM_GPU_DENSE_FMA,
    WM_GPU_DENSE_WIDE, /* only where info.wide, as the next */
    WM_GPU_DENSE_WIDE_SPLIT,
    WM_GPU_KERNELS
} wm_gpu_kernel_t;

typedef struct {
    wm_gpu_kernel_t kernel;
    uint32_t blocks, threads, shared_bytes;
    const void *args; /* copied by the call */
} wm_gpu_launch_t;

typedef const char *wm_gpu_text_t;

typedef struct wm_gpu_api {
    void *(*make) (void);        /* a GPU that is not opened yet; NULL without memory */
    void (*destroy) (void *gpu); /* frees what it still holds */
    /* Opens the first GPU that CUDA_VISIBLE_DEVICES leaves; any thread may make the later calls,
       none of which may come before.  */
    wm_gpu_text_t (*open) (void *gpu, wm_gpu_info_t *info);

    /* Opens cuDNN, once, before a convolution's plan is made; appends its version to
       info->libraries. What does without needs the driver only.  */
    wm_gpu_text_t (*open_cudnn) (void *gpu, wm_gpu_info_t *info);

    wm_gpu_text_t (*device_new) (void *gpu, void **d_p, size_t bytes);
    wm_gpu_text_t (*pinned_new) (void *gpu, void **h_p, size_t bytes);

    /* Pins memory of the caller, to read from, until the GPU is destroyed. An error of this call is
       not sticky: the GPU goes on without.  */
    wm_gpu_text_t (*pin) (void *gpu, const void *h, size_t bytes);

    /* first: its work goes before other streams' where the device must choose.  */
    wm_gpu_text_t (*stream_new) (void *gpu, void **stream, bool first);
    wm_gpu_text_t (*stream_wait) (void *gpu, void *stream, void *event); /* on the device */
    wm_gpu_text_t (*stream_sync) (void *gpu, void *stream);              /* on the host */
    wm_gpu_text_t (*event_new) (void *gpu, void **event, bool timed);
    wm_gpu_text_t (*event_record) (void *gpu, void *event, void *stream);
    wm_gpu_text_t (*event_sync) (void *gpu, void *event); /* returns at once if never recorded */
    wm_gpu_text_t (*event_ms) (void *gpu, void *from, void *to, float *ms);

    /* h_ memory is pinned and stays untouched until the stream passed the copy. */
    wm_gpu_text_t (*copy_in) (void *gpu, void *d_to, const void *h_from, size_t bytes,
                              void *stream);
    wm_gpu_text_t (*copy_out) (void *gpu, void *h_to, const void *d_from, size_t bytes,
                               void *stream);
    wm_gpu_text_t (*launch) (void *gpu, const wm_gpu_launch_t *launch, void *stream);

    /* Work queued on `stream` between begin and end is not carried out but kept, with its addresses
       and sizes; each run of it is one call. A call of cuDNN's that cannot be kept fails, then
       graph_end does; neither is sticky, and nothing of it is carried out.  */
    wm_gpu_text_t (*graph_begin) (void *gpu, void *stream);
    wm_gpu_text_t (*graph_end) (void *gpu, void *stream, void **graph);
    wm_gpu_text_t (*graph_run) (void *gpu, void *graph, void *stream);

    /* Mark a span of the host's time for a profiler (NVTX). Spans nest.  */
    void (*range_begin) (void *gpu, const char *name);
    void (*range_end) (void *gpu);

    /* The `candidate`-th way that cuDNN offers, best first by its own guess. *plan is NULL, without
       an error, where there are no more.  */
    wm_gpu_text_t (*anyconv_new) (void *gpu, const wm_gpu_anyconv_t *conv, uint32_t candidate,
                                  wm_conv_plan_t **plan, wm_gpu_choice_t *choice);
    wm_gpu_text_t (*conv_run) (void *gpu, wm_conv_plan_t *plan, const void *d_x,
                               const void *d_weight, const void *d_bias, void *d_y,
                               void *d_workspace, void *stream);
    void (*conv_destroy) (void *gpu, wm_conv_plan_t **plan_p);
} wm_gpu_api_t;

extern const wm_gpu_api_t wm_gpu_real;

#endif
