/* wm_gpu_cudnn.h - all of cuDNN: a convolution with bias and ReLU as a graph of its backend.

   The library is opened at run time (wm_gpu_library.h). A plan is built for a device that is there
   (`handle`) or for the properties of one that is not (`device`), which is how plans are tested on
   machines without a GPU.  */
#ifndef WM_GPU_CUDNN_H
#define WM_GPU_CUDNN_H

#include "kernels/gpu/wm_gpu_api.h"

typedef struct wm_cudnn_t wm_cudnn_t;

/* NULL: *text is why. json NULL: the GPU at work; else the properties of one that need not be here,
   as JSON. driver: the CUDA that the driver is for, 12040; 0: not known. libcudnn.so.9 may be that
   of CUDA 12 or 13.  */
wm_cudnn_t *wm_cudnn_new (const char *json, int driver, wm_gpu_text_t *text);
void wm_cudnn_destroy (wm_cudnn_t **self_p);
int wm_cudnn_version (const wm_cudnn_t *self); /* 91900 */

wm_gpu_text_t wm_cudnn_anyconv_new (wm_cudnn_t *self, const wm_gpu_anyconv_t *conv,
                                    uint32_t candidate, wm_conv_plan_t **plan,
                                    wm_gpu_choice_t *choice);
wm_gpu_text_t wm_cudnn_conv_run (wm_cudnn_t *self, wm_conv_plan_t *plan, const void *d_x,
                                 const void *d_weight, const void *d_bias, void *d_y,
                                 void *d_workspace, void *stream);
void wm_cudnn_conv_destroy (wm_cudnn_t *self, wm_conv_plan_t **plan_p);

#endif
