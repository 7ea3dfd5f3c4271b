/* wm_cuda_base.h - what all CUDA engines begin, call and end with. Private to kernels/cuda/.  */
#ifndef WM_CUDA_BASE_H
#define WM_CUDA_BASE_H

#include "kernels/cuda/wm_gpu_api.h"
#include "kernels/wm_device.h"

#define WM_CUDA_WORKSPACE_MAX                                                                      \
    (512u << 20) /* of cuDNN's algorithm; one that asks for more is not taken */

/* Calls the table of `self`; the function returns the error's text if the call failed.  */
#define CALL(function, ...)                                                                        \
    do {                                                                                           \
        wm_gpu_text_t words_ = self->api->function (self->gpu, __VA_ARGS__);                       \
        if (words_)                                                                                \
            return words_;                                                                         \
    } while (0)

/* Memory on the host (pinned), on the device, or both: h_p and d_p are addresses of pointers of any
   type, or NULL.  */
wm_gpu_text_t wm_cuda_both_new (const wm_gpu_api_t *api, void *gpu, void *h_p, void *d_p,
                                size_t bytes);

/* Whether an engine was made: no fault, and no error of the GPU (`text`). Else *error is set.  */
bool wm_cuda_stands (wm_error_t *fault, wm_gpu_text_t text, wm_error_t *error);

/* "cuda/H200/sm_90/fp16/v4w/12.9": device, precision, `version`, that of our kernels' compiler
   and of cuDNN where it is in use ("12.9-9.19.0").  */
void wm_cuda_sign (char signature[64], const wm_gpu_info_t *info, wm_gpu_precision_t precision,
                   const char *version);

/* An engine's functions as wm_device_submit and wm_device_collect; n_left and progress are set.  */
typedef wm_fault_t wm_cuda_submit_fn (void *engine, uint32_t n, wm_job_t *const *job,
                                      wm_error_t *error);
typedef wm_fault_t wm_cuda_collect_fn (void *engine, wm_job_t **job, wm_error_t *error);

/* Scores n batches by them, blocking, with nothing else under way; scores[i] those of batch i. A
   batch that is refused does not hold the others up; its fault is returned.  */
wm_fault_t wm_cuda_score_jobs (void *engine, wm_cuda_submit_fn *submit, wm_cuda_collect_fn *collect,
                               uint32_t n, const wm_batch_t *const *batch, float *const *scores,
                               _Atomic uint64_t *progress, wm_error_t *error);

#endif
