/* wm_cuda.h - a CUDA engine, on any implementation of wm_gpu_api_t.

   wm_cuda_new makes one for networks of the family, of kernels of ours alone, which need nothing
   but the driver: a plane is convolved once, where it is active, and the first dense layers are a
   gathered product over that. It is version 5 in signatures. Networks that it refuses go by
   wm_any_new (wm_any.h), as all of them do for --engine cudnn. All other calls are for both.

   Thread: one at a time per engine. Any error of the GPU ends the engine: that call and every later
   one return WM_EHOST, and its process should exit, because errors of a CUDA context are permanent.
   A checksum that does not hold is such an error. README.md has the picture.  */
#ifndef WM_CUDA_H
#define WM_CUDA_H

#include "kernels/gpu/wm_gpu_api.h"
#include "kernels/wm_device.h"

#define WM_CUDA_HITS 16384u      /* hits a launch, at most */
#define WM_CUDA_CELLS (1u << 24) /* of a plane's image on the device: 64 MiB */
#define WM_CUDA_STARTS 960u      /* columns of a strip that patches may begin at, at most */

typedef struct {
    wm_gpu_precision_t precision;
    bool timed; /* measure the stages */
    bool plain; /* without what only some GPUs have, to compare with it */
    /* 0: the constants above. Tests take fewer.  */
    uint32_t hits, cells, starts, height; /* height: rows of a slot's maps */
    uint32_t bands; /* that a window's rows are cut into, part of the bits but in strict fp32; 0: as
                       many as it takes */
} wm_cuda_config_t;

typedef enum {
    WM_CUDA_LOAD, /* runs copied in, and convolved where they are active */
    WM_CUDA_DENSE,
    WM_CUDA_TAIL,
    WM_CUDA_COPY_OUT,
    WM_CUDA_STAGES
} wm_cuda_stage_t;

typedef struct wm_cuda_t wm_cuda_t;

/* Returns NULL, or why wm_cuda_new cannot run this network in this precision.  */
const char *wm_cuda_refuse (const wm_net_t *net, wm_gpu_precision_t precision);

/* `net` and `spec` (NULL: dense patches only) are lent. NULL with *error: WM_EBATCH a network or
   specification it does not run, WM_EHOST no GPU or no memory.  */
wm_cuda_t *wm_cuda_new (const wm_gpu_api_t *api, const wm_net_t *net, const wm_spec_t *spec,
                        const wm_cuda_config_t *config, wm_error_t *error);
void wm_cuda_destroy (wm_cuda_t **self_p);

/* Pins memory in which batches will lie, unchanged while they are scored, so that patches are
   copied from there. WM_EHOST if it cannot be pinned; the engine then copies them first.  */
wm_fault_t wm_cuda_lend (wm_cuda_t *self, const void *memory, size_t bytes, wm_error_t *error);

/* As wm_device_submit and wm_device_collect; n_left (1 or more) and progress are set. Jobs are laid
   out together, so that small batches fill the GPU, and computed while the next jobs are laid
   out.  */
wm_fault_t wm_cuda_submit (wm_cuda_t *self, uint32_t n, wm_job_t *const *job, wm_error_t *error);
wm_fault_t wm_cuda_collect (wm_cuda_t *self, wm_job_t **job, wm_error_t *error);

/* Scores a batch, blocking, with no job submitted; scores (n_hit, n_output).  */
wm_fault_t wm_cuda_score (wm_cuda_t *self, const wm_batch_t *batch, float *scores,
                          _Atomic uint64_t *progress, wm_error_t *error);

/* The same for several batches, scores[i] those of batch i. A batch that is refused does not hold
   the others up; its fault is returned. After WM_EHOST no score is valid.  */
wm_fault_t wm_cuda_score_many (wm_cuda_t *self, uint32_t n, const wm_batch_t *const *batch,
                               float *const *scores, _Atomic uint64_t *progress, wm_error_t *error);

/* Returns the hits that fill the GPU, which several batches may do together.  */
uint32_t wm_cuda_fill (const wm_cuda_t *self);

/* Returns the launches so far.  */
uint64_t wm_cuda_launches (const wm_cuda_t *self);

/* "cuda/H200/sm_90/fp16/v5w/12.9r": device, precision, version, that of the compiler of our
   kernels, and of cuDNN where it is in use ("12.9-9.19.0").  */
const char *wm_cuda_signature (const wm_cuda_t *self);
const char *wm_cuda_choice (const wm_cuda_t *self); /* sizes; of wm_any_new, what is not in half */

/* Of an engine of wm_cuda_new: returns the largest residual of Dense-1's checksum so far, and what
   is allowed.  */
double wm_cuda_residual (const wm_cuda_t *self, double *allowed);

/* Of one that is timed: sets the milliseconds of each stage since the last call.  */
void wm_cuda_times (wm_cuda_t *self, double ms[WM_CUDA_STAGES]);

#endif
