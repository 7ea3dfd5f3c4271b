/* wm_cuda.h - the CUDA engine for networks of the family, on any implementation of wm_gpu_api_t.

   Versions:
     1  wm_cuda_v1.c       patches -> cuDNN -> cuBLASLt -> tail; any network of the family, and
                           strict float32
     2  wm_cuda_windows.c  cuDNN convolves each plane once; Dense-1 is a gathered product of ours
                           over the result
     3  the same           as 2, and positions that only the zero level reaches are left out
   Until they are measured on a GPU a rule picks: 3 where it can run the network in half or tf32,
   else 1. Version 3's floor is the lowest of the three on every GPU that has tensor cores.

   Thread: one at a time per engine. Any error of the GPU ends the engine: that call and every later
   one return WM_EHOST, and its process should exit, because errors of a CUDA context are permanent.
   A checksum that does not hold is such an error. README.md has the picture.  */
#ifndef WM_CUDA_H
#define WM_CUDA_H

#include "kernels/cuda/wm_gpu_api.h"
#include "kernels/wm_device.h"

#define WM_CUDA_ROWS 1024u       /* patches a launch of version 1: part of what decides its bits */
#define WM_CUDA_HITS 16384u      /* hits a launch of versions 2 and 3, at most */
#define WM_CUDA_CELLS (1u << 24) /* of a plane's image on the device: 64 MiB */
#define WM_CUDA_STARTS 512u      /* columns of a strip that patches may begin at */
#define WM_CUDA_BAND 1024u       /* rows of a strip that one convolution makes: 43 calls an event */
#define WM_CUDA_HEIGHT 8192u     /* rows of strips in a slot, at most */

typedef struct {
    wm_gpu_precision_t precision;
    uint32_t version;                        /* 0: by the rule */
    bool timed;                              /* measure the stages */
    uint32_t conv_candidate, gemm_candidate; /* the first to try; for benchmarks */
    /* 0: the constants above. Tests take fewer; rows is hits in versions 2 and 3.  */
    uint32_t rows, cells, starts, band, height;
} wm_cuda_config_t;

typedef enum {
    WM_CUDA_COPY_IN,
    WM_CUDA_GATHER, /* version 1: patches; 3: what is active */
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

/* Pins memory in which batches will lie, unchanged while they are scored, so that the GPU copies
   from there. WM_EHOST if it cannot be pinned; the engine then copies as before.  */
wm_fault_t wm_cuda_lend (wm_cuda_t *self, const void *memory, size_t bytes, wm_error_t *error);

/* scores (n_hit, n_output).  */
wm_fault_t wm_cuda_score (wm_cuda_t *self, const wm_batch_t *batch, float *scores,
                          _Atomic uint64_t *progress, wm_error_t *error);

/* Scores several batches, scores[i] those of batch i: versions 2 and 3 lay them out together, so
   that small batches fill the GPU. After a fault no score is valid.  */
wm_fault_t wm_cuda_score_many (wm_cuda_t *self, uint32_t n, const wm_batch_t *const *batch,
                               float *const *scores, _Atomic uint64_t *progress, wm_error_t *error);

/* Returns the hits of a launch, which several batches may fill together; 0 in version 1, which
   launches each batch by itself.  */
uint32_t wm_cuda_fill (const wm_cuda_t *self);

/* "cuda/H200/sm_90/fp16/v3/9.19.0-13.1.0": device, precision, version, cuDNN and cuBLASLt.  */
const char *wm_cuda_signature (const wm_cuda_t *self);
const char *wm_cuda_choice (const wm_cuda_t *self); /* the libraries' algorithms, one line */
uint32_t wm_cuda_version (const wm_cuda_t *self);

/* Returns the largest residual of Dense-1's checksum so far, and what is allowed; 0 in version
   1.  */
double wm_cuda_residual (const wm_cuda_t *self, double *allowed);

/* Sets the milliseconds of each stage since the last call, if the engine is timed.  */
void wm_cuda_times (wm_cuda_t *self, double ms[WM_CUDA_STAGES]);

#endif
