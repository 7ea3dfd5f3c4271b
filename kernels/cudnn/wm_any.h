/* wm_any.h - any CNN on the GPU: a CUDA engine (wm_cuda.h) of the steps of wm_any_net.h.

   Strict float32; or tf32 in the convolutions; or half, with sums in float32, where test patches
   show that it holds the values, else tf32 by node. Patches, a fixed number at a time over two
   slots (wm_any_chunks.c): bits do not depend on grouping. cuDNN's first
   algorithms that treat all rows alike are taken. A patch with a non-finite value, or with one on
   its way that half cannot hold, has scores that are NaN.  */
#ifndef WM_ANY_H
#define WM_ANY_H

#include "kernels/cudnn/wm_any_net.h"
#include "kernels/gpu/wm_cuda.h"

/* `net` is lent; spec NULL: dense patches only. rows: patches a launch, part of the bits; 0: as
   many as fill the GPU (wm_any_place.h). NULL with *error: WM_EHOST no GPU, no memory, or no
   algorithm that treats all rows alike.

   Its signature is "cuda/H200/sm_90/fp16/any64+3/12.9-9.19.0": 64 patches a launch; of the
   convolutions 3 are in tf32 because half does not hold their values, and wm_cuda_choice explains
   why (else "").  */
wm_cuda_t *wm_any_new (const wm_gpu_api_t *api, const wm_any_net_t *net, const wm_spec_t *spec,
                       wm_gpu_precision_t precision, uint32_t rows, wm_error_t *error);

/* Whether a launch of an engine of wm_any_new is one CUDA graph: cuDNN's algorithms could be
   captured, and give as graphs what they give step by step.  */
bool wm_any_captured (const wm_cuda_t *self);

#endif
