/* wm_gpu_args.h - what our kernels are given, one struct each; pointers are the device's.  */
#ifndef WM_GPU_ARGS_H
#define WM_GPU_ARGS_H

#include "kernels/wm_image.h"
#include "kernels/wm_model.h"

#include <stdint.h>

#define WM_GPU_NO_PATCH UINT32_MAX
#define WM_GPU_PHASES_MAX 64u /* ticks a bin: what wm_spec_parse lets through */

/* to[0 .. count) = value. Any grid.  */
typedef struct {
    float *to;
    uint32_t count;
    float value;
} wm_gpu_fill_t;

/* Writes the runs of a plane into its image; a warp takes a run. blocks * threads / 32 >= n_run. */
typedef struct {
    const uint32_t *run_wire, *run_first; /* (n_run) */
    const uint32_t *run_value;            /* (n_run + 1): where the values of a run begin */
    const float *value;
    float *image; /* (n_row, n_col), its margins included */
    uint32_t n_run, n_col;
    uint32_t top, left; /* of the plane's first cell in the image */
} wm_gpu_scatter_t;

/* The runs of a plane in ticks, in (wire, first) order.  */
typedef struct {
    const uint32_t *wire, *first; /* (n_run) */
    const uint32_t *begin;        /* (n_run + 1): where the values of a run begin */
    const float *value;
    uint32_t n_run;
} wm_gpu_ticks_t;

/* Own view: downscales the bins that runs touch, one image for each phase (the tick that its first
   bin begins at), as wm_plane.c does; mean and maxpool. A warp takes a run in an image: blocks *
   threads / 32 >= n_run n_image.  */
typedef struct {
    wm_gpu_ticks_t ticks;
    wm_image_scaling_t scaling;
    float *image; /* (n_image, n_row, n_col) */
    uint32_t n_image, n_row, n_col;
    uint32_t top;   /* rows above wire 0 */
    uint32_t n_bin; /* bins of a wire; what lies behind is margin */
    uint32_t window, maxpool;
    uint8_t phase[WM_GPU_PHASES_MAX]; /* (n_image) */
} wm_gpu_phases_t;

/* Own view: patches that are no window of a phase's image (clamped at tick 0, or maxmean), each cut
   by the definition to its own place. One block a patch.  */
typedef struct {
    wm_gpu_ticks_t ticks;
    wm_image_scaling_t scaling;
    const uint32_t *hit_wire; /* (blocks) */
    const int32_t *hit_col;   /* (blocks) */
    const uint32_t *offset;   /* (blocks): of the patch's first value in `image` */
    float *image;
    uint32_t n_wire, height, width, stride, window;
    wm_downscale_t downscale;
} wm_gpu_cut_t;

/* Patch r = height rows of `row_values` values from source[offset[r]] on, `stride` apart, as half
   or float32; a patch of zeros where offset[r] is WM_GPU_NO_PATCH. held[r] = 1 where a value is
   none or beyond +-limit, else 0. One block a patch.  */
typedef struct {
    const float *source;
    const uint32_t *offset; /* (rows) */
    void *patch;            /* (rows, height, row_values) */
    uint32_t *held;         /* (rows) */
    uint32_t height, row_values, stride, half;
    float limit;
} wm_gpu_gather_t;

/* to[r to_row + sum i_k to_stride[k]] = from[r from_row + sum i_k from_stride[k]] for all r < rows
   and i_k < dim[k]. Any grid.  */
#define WM_GPU_COPY_DIMS 5u
typedef struct {
    const float *from;
    float *to; /* its first element */
    uint32_t rows, from_row, to_row, to_first, n;
    uint32_t dim[WM_GPU_COPY_DIMS], from_stride[WM_GPU_COPY_DIMS], to_stride[WM_GPU_COPY_DIMS];
} wm_gpu_copy_t;

/* Softmax in place over `n` neighbours, `groups` of them a patch. A thread takes a group.  */
typedef struct {
    float *value; /* (rows, groups, n) */
    uint32_t rows, groups, n;
} wm_gpu_spread_t;

/* The largest or the mean of a window, channels last; padding is nothing, or counts as 0. Any grid. */
typedef struct {
    const float *from;
    float *to;
    uint32_t rows, channels, mean, count_padding;
    uint32_t in[2], out[2], kernel[2], stride[2], before[2];
} wm_gpu_pool_t;

/* to = act (from + second), of one shape; second may be NULL. Any grid.  */
typedef struct {
    const float *from, *second;
    float *to;
    uint32_t rows, n; /* of a row */
    wm_act_t act;
} wm_gpu_join_t;

/* A dense layer of the tail. Its outputs lie at `at` of a patch's values; inputs at `from`. A root
   has n_in 0: its products are in columns `from` of the partial sums.  */
typedef struct {
    const float *weight; /* (n_in, n_out) */
    const float *bias;   /* (n_out) */
    uint32_t n_in, n_out, from, at;
    int32_t output; /* first column of the scores, -1 for none */
    wm_act_t act;
} wm_gpu_layer_t;

/* Everything after the products of the first dense layer(s): the splits' sums added in order, bias,
   activation, the tree of dense layers, softmax and sigmoid, in float32. A held patch's scores are
   NaN. One block a patch, n_value floats of shared memory.  */
typedef struct {
    const float *partial; /* (splits, rows, n) */
    const uint32_t *held; /* (rows) */
    float *scores;        /* (rows, n_output) */
    uint32_t splits, rows, n, n_output, n_layer, n_value;
    wm_gpu_layer_t layer[WM_MODEL_DENSES_MAX];
} wm_gpu_tail_t;

#endif
