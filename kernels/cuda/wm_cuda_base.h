/* wm_cuda_base.h - what all CUDA engines begin, call and end with. Private to kernels/cuda/.  */
#ifndef WM_CUDA_BASE_H
#define WM_CUDA_BASE_H

#include "kernels/cuda/wm_gpu_api.h"
#include "schema/base/wm_fault.h"

#define WM_CUDA_WORKSPACE_MAX                                                                      \
    (512u << 20) /* of a library's algorithm; one that asks for more is not taken */

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

/* "cuda/H200/sm_90/fp16/v3/9.19.0-13.1.0": device, precision, `version`, the libraries'.  */
void wm_cuda_sign (char signature[64], const wm_gpu_info_t *info, wm_gpu_precision_t precision,
                   const char *version);

#endif
