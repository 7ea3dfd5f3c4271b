/* wm_cuda_v1.h - the CUDA engine, version 1, on any filling of wm_gpu_api_t.

   Thread: one at a time per engine. Any error of the GPU kills the engine: that call and every
   later one answer WM_EHOST, and the process that holds it should end, because errors of a CUDA
   context never go away.  */
#ifndef WM_CUDA_V1_H
#define WM_CUDA_V1_H

#include "kernels/cuda/wm_gpu_api.h"
#include "kernels/wm_device.h"

#define WM_CUDA_ROWS 1024u       /* patches a launch, always: part of what decides the bits */
#define WM_CUDA_CELLS (1u << 24) /* of a plane's image on the device: 64 MiB */

typedef struct {
    wm_gpu_precision_t precision;
    uint32_t rows, cells;                    /* 0: WM_CUDA_ROWS, WM_CUDA_CELLS; tests take fewer */
    bool timed;                              /* measure the stages */
    uint32_t conv_candidate, gemm_candidate; /* the first to try; for benchmarks */
} wm_cuda_config_t;

typedef enum {
    WM_CUDA_COPY_IN,
    WM_CUDA_GATHER,
    WM_CUDA_CONV,
    WM_CUDA_GEMM,
    WM_CUDA_TAIL,
    WM_CUDA_COPY_OUT,
    WM_CUDA_STAGES
} wm_cuda_stage_t;

typedef struct wm_cuda_t wm_cuda_t;

/* `net` and `spec` (NULL: dense patches only) are lent. NULL with *error: WM_EBATCH a model or
   specification it does not run, WM_EHOST no GPU, no library, no memory, or no algorithm whose bits
   do not depend on a row's place.  */
wm_cuda_t *wm_cuda_new (const wm_gpu_api_t *api, const wm_net_t *net, const wm_spec_t *spec,
                        const wm_cuda_config_t *config, wm_error_t *error);
void wm_cuda_destroy (wm_cuda_t **self_p);

/* scores (n_hit, n_output).  */
wm_fault_t wm_cuda_score (wm_cuda_t *self, const wm_batch_t *batch, float *scores,
                          _Atomic uint64_t *progress, wm_error_t *error);

/* "cuda/H200/sm_90/fp16/v1/9.19.0-13.1.0": device, precision, version, cuDNN and cuBLASLt.  */
const char *wm_cuda_signature (const wm_cuda_t *self);
const char *wm_cuda_choice (const wm_cuda_t *self); /* the libraries' algorithms, one line */

/* Milliseconds each stage took since the last call of this, if the engine is timed.  */
void wm_cuda_times (wm_cuda_t *self, double ms[WM_CUDA_STAGES]);

#endif
