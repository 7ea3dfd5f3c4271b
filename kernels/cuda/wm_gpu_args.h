/* wm_gpu_args.h - what our kernels are given, one struct each; pointers are the device's.  */
#ifndef WM_GPU_ARGS_H
#define WM_GPU_ARGS_H

#include "kernels/wm_model.h"

#include <stdint.h>

#define WM_GPU_NO_PATCH UINT32_MAX

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
