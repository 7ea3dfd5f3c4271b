/* wm_cuda_pack.h - a network as versions 2 and 3 hold it: wm_cuda_net.h's block, and behind it the
   first dense layer's weights in panels, with their checksum, and the constant of an empty window.

   Private to kernels/cuda/.  */
#ifndef WM_CUDA_PACK_H
#define WM_CUDA_PACK_H

#include "kernels/cuda/wm_cuda_net.h"

typedef struct {
    wm_cuda_net_t net;
    bool sparse;            /* version 3 */
    float zero;             /* the zero level */
    wm_gpu_conv_t conv;     /* of a band of a strip */
    wm_gpu_active_t active; /* both without their pointers */
    wm_gpu_dense_t dense;
    wm_gpu_tail_t tail;
    size_t panel, constant; /* offsets in the block */
    bool subtracts;         /* the constant is not 0 everywhere, or there is rounding to do */
    size_t bytes;           /* of the block */
    double tolerance;       /* of the checksum's residual: what truncation can explain */
} wm_cuda_pack_t;

/* NULL, or why not.  */
const char *wm_cuda_pack_refuse (const wm_net_t *net, wm_gpu_precision_t precision);

/* starts: columns of a strip that patches begin at; band: rows that one convolution makes.
   WM_EBATCH as wm_cuda_net_plan, or where a checksum leaves half.  */
wm_fault_t wm_cuda_pack_plan (wm_cuda_pack_t *self, const wm_net_t *net, const wm_spec_t *spec,
                              wm_gpu_precision_t precision, uint32_t version, uint32_t starts,
                              uint32_t band, wm_error_t *error);

/* Fills the block (self->bytes).  */
void wm_cuda_pack_fill (const wm_cuda_pack_t *self, void *block);

#endif
