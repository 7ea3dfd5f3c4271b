/* wm_cuda_v1.h - version 1 of the CUDA engine. Private to kernels/cuda/; others use wm_cuda.h.  */
#ifndef WM_CUDA_V1_H
#define WM_CUDA_V1_H

#include "kernels/cuda/wm_cuda.h"

typedef struct wm_cuda_v1_t wm_cuda_v1_t;

/* As wm_cuda_new; *info is what was opened.  */
wm_cuda_v1_t *wm_cuda_v1_new (const wm_gpu_api_t *api, const wm_net_t *net, const wm_spec_t *spec,
                              const wm_cuda_config_t *config, wm_gpu_info_t *info,
                              wm_error_t *error);
void wm_cuda_v1_destroy (wm_cuda_v1_t **self_p);

/* As wm_cuda_lend, for the runs of planes.  */
wm_gpu_text_t wm_cuda_v1_lend (wm_cuda_v1_t *self, const void *h, size_t bytes);

/* Sets *text where the GPU failed: the engine must not be used again.  */
wm_fault_t wm_cuda_v1_score (wm_cuda_v1_t *self, const wm_batch_t *batch, float *scores,
                             _Atomic uint64_t *progress, wm_gpu_text_t *text, wm_error_t *error);
const char *wm_cuda_v1_choice (const wm_cuda_v1_t *self);
void wm_cuda_v1_times (wm_cuda_v1_t *self, double ms[WM_CUDA_STAGES]);

#endif
