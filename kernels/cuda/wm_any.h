/* wm_any.h - any CNN on the GPU: the steps of wm_any_net.h, on any implementation of wm_gpu_api_t.

   Strict float32; or tf32 in the convolutions; or half, with sums in float32, where test patches
   show that it holds the values, else tf32 by node. Patches, of planes cut on the host, a fixed
   number at a time over two slots (wm_cuda_chunks.h): bits do not depend on grouping. cuDNN's first
   algorithms that treat all rows alike are taken. A patch with a non-finite value, or with one on
   its way that half cannot hold, has scores that are NaN. Thread: one at a time. Any error of the
   GPU ends the engine, as in wm_cuda.h.  */
#ifndef WM_ANY_H
#define WM_ANY_H

#include "kernels/cuda/wm_any_net.h"
#include "kernels/wm_device.h"

typedef struct wm_any_t wm_any_t;

/* `net` is lent; spec NULL: dense patches only. rows: patches a launch, part of the bits; 0: as
   many as fill the GPU (wm_any_place.h). NULL with *error: WM_EHOST no GPU, no memory, or no
   algorithm that treats all rows alike.  */
wm_any_t *wm_any_new (const wm_gpu_api_t *api, const wm_any_net_t *net, const wm_spec_t *spec,
                      wm_gpu_precision_t precision, uint32_t rows, wm_error_t *error);
void wm_any_destroy (wm_any_t **self_p);

/* As wm_device_submit and wm_device_collect: jobs share launches, so that those of few patches fill
   the GPU together (wm_any_hits).  */
wm_fault_t wm_any_submit (wm_any_t *self, uint32_t n, wm_job_t *const *job, wm_error_t *error);
wm_fault_t wm_any_collect (wm_any_t *self, wm_job_t **job, wm_error_t *error);

/* Scores n batches, blocking (wm_cuda_score_jobs), or one; scores (n_hit, n_output).  */
wm_fault_t wm_any_score_many (wm_any_t *self, uint32_t n, const wm_batch_t *const *batch,
                              float *const *scores, _Atomic uint64_t *progress, wm_error_t *error);
wm_fault_t wm_any_score (wm_any_t *self, const wm_batch_t *batch, float *scores,
                         _Atomic uint64_t *progress, wm_error_t *error);
uint32_t wm_any_hits (const wm_any_t *self);
uint64_t wm_any_launches (const wm_any_t *self); /* so far */

/* "cuda/H200/sm_90/fp16/any64+3/12.9-9.19.0": 64 patches a launch; of the convolutions 3 are in
   tf32 because half does not hold their values, and wm_any_choice explains why (else "").  */
const char *wm_any_signature (const wm_any_t *self);
const char *wm_any_choice (const wm_any_t *self);

/* Whether a launch is one CUDA graph: cuDNN's algorithms could be captured, and give as graphs what
   they give step by step.  */
bool wm_any_captured (const wm_any_t *self);

#endif
