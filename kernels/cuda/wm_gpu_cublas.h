/* wm_gpu_cublas.h - all of cuBLASLt: the split product of the first dense layer.  */
#ifndef WM_GPU_CUBLAS_H
#define WM_GPU_CUBLAS_H

#include "kernels/cuda/wm_gpu_api.h"

typedef struct wm_cublas_t wm_cublas_t;

wm_cublas_t *wm_cublas_new (wm_gpu_text_t *text); /* NULL: *text is why */
void wm_cublas_destroy (wm_cublas_t **self_p);
int wm_cublas_version (const wm_cublas_t *self); /* 130100 */

wm_gpu_text_t wm_cublas_gemm_new (wm_cublas_t *self, const wm_gpu_gemm_t *gemm, uint32_t candidate,
                                  wm_gemm_plan_t **plan, wm_gpu_choice_t *choice);
wm_gpu_text_t wm_cublas_gemm_run (wm_cublas_t *self, wm_gemm_plan_t *plan, const void *d_a,
                                  const void *d_b, void *d_c, void *d_workspace, void *stream);
void wm_cublas_gemm_destroy (wm_cublas_t *self, wm_gemm_plan_t **plan_p);

#endif
