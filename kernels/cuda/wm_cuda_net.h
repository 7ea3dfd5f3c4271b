/* wm_cuda_net.h - a family network as the CUDA engine holds it: shapes, and one block of constants.

   The constants lie in one block of memory that is filled on the host and copied to the device as
   it is; places in it are byte offsets. Convolution weights are in cuDNN's order (c_out, kh, kw,
   c_in), those of the first dense layer(s) side by side as they come, (k splits, n).
   Private to kernels/cuda/.  */
#ifndef WM_CUDA_NET_H
#define WM_CUDA_NET_H

#include "kernels/cuda/wm_gpu_api.h"
#include "kernels/cuda/wm_gpu_args.h"
#include "kernels/wm_spec.h"

#define WM_CUDA_TAIL_VALUES_MAX 8192u /* floats of a patch in the tail: 32 KiB of shared memory */

typedef struct {
    const wm_net_t *net;
    wm_gpu_precision_t precision;
    size_t each; /* bytes of a value */
    wm_gpu_conv_t conv[WM_MODEL_CONVS_MAX];
    size_t conv_weight[WM_MODEL_CONVS_MAX], conv_bias[WM_MODEL_CONVS_MAX]; /* offsets */
    wm_gpu_gemm_t gemm;
    bool library; /* cuBLASLt multiplies the first dense layer(s): their weights are in the block */
    size_t gemm_weight;
    wm_gpu_tail_t tail; /* without its pointers */
    size_t dense_weight[WM_MODEL_DENSES_MAX], dense_bias[WM_MODEL_DENSES_MAX];
    size_t bytes; /* of the block */
    float limit;  /* a patch with a value beyond it is held */
} wm_cuda_net_t;

/* Shapes and places for `rows` patches at a time. WM_EBATCH names what this engine cannot run: no
   convolution, layers too wide for the tail, in half a weight or a convolution beyond 65,504 (by
   interval arithmetic over the values that `spec`, which may be NULL, gives a patch).  */
wm_fault_t wm_cuda_net_plan (wm_cuda_net_t *self, const wm_net_t *net, const wm_spec_t *spec,
                             wm_gpu_precision_t precision, uint32_t rows, bool library,
                             wm_error_t *error);

/* Fills the block (self->bytes).  */
void wm_cuda_net_fill (const wm_cuda_net_t *self, void *block);

#endif
