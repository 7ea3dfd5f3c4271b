/* wm_cuda_windows.h - versions 2 and 3 of the CUDA engine. Private to kernels/cuda/; others
   use wm_cuda.h.  */
#ifndef WM_CUDA_WINDOWS_H
#define WM_CUDA_WINDOWS_H

#include "kernels/cuda/wm_cuda.h"

typedef struct wm_cuda_windows_t wm_cuda_windows_t;

/* NULL, or why they cannot run this network in this precision.  */
const char *wm_cuda_windows_refuse (const wm_net_t *net, wm_gpu_precision_t precision);

/* As wm_cuda_new, config->version 2 or 3; *info is what was opened.  */
wm_cuda_windows_t *wm_cuda_windows_new (const wm_gpu_api_t *api, const wm_net_t *net,
                                        const wm_spec_t *spec, const wm_cuda_config_t *config,
                                        wm_gpu_info_t *info, wm_error_t *error);
void wm_cuda_windows_destroy (wm_cuda_windows_t **self_p);

/* Sets *text where the GPU or its checksum failed: the engine must not be used again.  */
wm_fault_t wm_cuda_windows_score (wm_cuda_windows_t *self, uint32_t n,
                                  const wm_batch_t *const *batch, float *const *scores,
                                  _Atomic uint64_t *progress, wm_gpu_text_t *text,
                                  wm_error_t *error);
/* As wm_cuda_lend.  */
wm_gpu_text_t wm_cuda_windows_lend (wm_cuda_windows_t *self, const void *h, size_t bytes);
uint32_t wm_cuda_windows_fill (const wm_cuda_windows_t *self);
const char *wm_cuda_windows_choice (const wm_cuda_windows_t *self);
double wm_cuda_windows_residual (const wm_cuda_windows_t *self, double *allowed);
void wm_cuda_windows_times (wm_cuda_windows_t *self, double ms[WM_CUDA_STAGES]);

#endif
