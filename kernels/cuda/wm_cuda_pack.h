/* wm_cuda_pack.h - a family network as the CUDA engine holds it: shapes and a block of constants.

   The constants lie in one block of memory that is filled on the host and copied to the device as
   it is; places in it are byte offsets: weights and biases of the tree of dense layers, the
   convolution in float32, the constant of an empty window, and the first dense layers' weights in
   panels, with their checksum.
   Private to kernels/cuda/.  */
#ifndef WM_CUDA_PACK_H
#define WM_CUDA_PACK_H

#include "kernels/gpu/wm_gpu_api.h"
#include "kernels/gpu/wm_gpu_args.h"
#include "kernels/patch/wm_spec.h"

#define WM_CUDA_FILTERS_MAX 1024u

typedef struct {
    const wm_net_t *net;
    wm_gpu_precision_t precision;
    float zero;                   /* the zero level */
    float limit;                  /* a patch with a value beyond it is held; in strict fp32 it is
                                     scored, but its checksum is not judged */
    float c[WM_CUDA_FILTERS_MAX]; /* what an empty window gives */
    bool has_base;                /* entries begin with WM_GPU_LEAD */
    wm_gpu_active_t active; /* all three without pointers but to constants */
    wm_gpu_dense_t dense;
    wm_gpu_tail_t tail;
    uint32_t parts;     /* of a value: 2 halves, or 1 */
    uint32_t each;      /* bytes of a value's part */
    uint32_t width;     /* cells of a strip's row */
    float weight_scale; /* what weights are multiplied by, a power of two */
    bool wide;          /* panels are as wm_gpu_wide.cuh reads them */
    size_t dense_weight[WM_MODEL_DENSES_MAX], dense_bias[WM_MODEL_DENSES_MAX]; /* offsets */
    size_t panel, kernel, bias, reference;
    size_t bytes;     /* of the block */
    double tolerance; /* of the checksum's residual: what rounding can explain */
} wm_cuda_pack_t;

/* starts: columns of a strip that patches begin at. WM_EBATCH names what this engine cannot run:
   layers too wide for the tail; in half a weight, a convolution (by interval arithmetic over the
   values that `spec`, which may be NULL, gives a patch) or a checksum beyond 65,504.  */
wm_fault_t wm_cuda_pack_plan (wm_cuda_pack_t *self, const wm_net_t *net, const wm_spec_t *spec,
                              wm_gpu_precision_t precision, uint32_t starts, wm_error_t *error);

/* Cuts a window's rows into bands, a block each. Strict fp32 adds the sums of rows: its bits do not
   depend on it.  */
void wm_cuda_pack_bands (wm_cuda_pack_t *self, uint32_t bands);

/* Fills the block (self->bytes), and sets where the kernels find it on the device.  */
void wm_cuda_pack_fill (wm_cuda_pack_t *self, void *block, const char *d_block);

#endif
