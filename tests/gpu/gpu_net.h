/* gpu_net.h - networks of the family and planes, from a seed alone.

   For the tests of the CUDA engine and for its benchmark, which must run on a machine that has
   neither ONNX nor a file of ours.  */
#ifndef GPU_NET_H
#define GPU_NET_H

#include "kernels/model/wm_model.h"
#include "kernels/patch/wm_image.h"

typedef struct {
    uint32_t height, width, channel;
    uint32_t n_conv, filters[2], kernel[2];
    uint32_t first, second; /* outputs of the first two dense layers */
    double logits;          /* factor on the heads' weights; 1 as the real network */
    bool two_roots;         /* the last head reads the flattened convolution too */
} gpu_shape_t;

/* 48 x 48, 48 filters of 5 x 5, Dense 128, Dense 32, softmax 3 and sigmoid 1.  */
extern const gpu_shape_t gpu_shape_real;
#define GPU_OUTPUTS 4u

wm_net_t *gpu_net_new (const gpu_shape_t *shape, uint64_t seed); /* asserts on memory */
void gpu_net_destroy (wm_net_t **self_p);

/* A specification for this network with a zero level that is not 0 (`odd`) or is.  */
wm_spec_t gpu_spec (const wm_net_t *net, bool odd, wm_spec_view_t view);

/* A plane of straight tracks, `n_hit` hits on them, some twice; then hits at the plane's edges and
   outside.  */
void gpu_plane_new (wm_batch_t *batch, const wm_spec_t *spec, uint32_t n_wire, uint32_t n_col,
                    uint32_t n_hit, uint64_t seed);
void gpu_plane_free (wm_batch_t *batch);

/* The patches of a plane batch as a batch of their own; its `patch` is the caller's to free.  */
wm_batch_t gpu_patches (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *plane);

/* `count` hits of a batch, from `first` on; its columns are lent.  */
wm_batch_t gpu_slice (const wm_batch_t *batch, uint32_t first, uint32_t count);

/* The judge: scores of hit `hit` in double (patches by their definition).  */
void gpu_judge (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *batch, uint32_t hit,
                float *scores);

/* The largest difference of every `step`-th hit's scores from the judge's; NaN if a score is
   NaN.  */
double gpu_worst (const wm_net_t *net, const wm_spec_t *spec, const wm_batch_t *batch,
                  const float *scores, uint32_t step);

#endif
