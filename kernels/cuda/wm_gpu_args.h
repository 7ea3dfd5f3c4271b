/* wm_gpu_args.h - the arguments of our kernels, a struct each; pointers are the device's.  */
#ifndef WM_GPU_ARGS_H
#define WM_GPU_ARGS_H

#include "kernels/wm_image.h"
#include "kernels/wm_model.h"

#include <stdint.h>

#define WM_GPU_NO_PATCH UINT32_MAX
#define WM_GPU_PHASES_MAX 64u /* ticks a bin, at most: the limit of wm_spec_parse */

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
   not finite or beyond +-limit, else 0. One block a patch.  */
typedef struct {
    const float *source;
    const uint32_t *offset; /* (rows) */
    void *patch;            /* (rows, height, row_values) */
    uint32_t *held;         /* (rows) */
    uint32_t height, row_values, stride, half;
    float limit;
} wm_gpu_gather_t;

/* to[r to_row + sum i_k to_stride[k]] = from[r from_row + sum i_k from_stride[k]] for all r < rows
   and i_k < dim[k]; NaN for a held row (held NULL: no row is). Any grid.  */
#define WM_GPU_COPY_DIMS 5u
typedef struct {
    const void *from;
    void *to; /* its first element */
    const uint32_t *held;
    uint32_t rows, from_row, to_row, to_first, n;
    uint32_t half_from, half_to;
    uint32_t dim[WM_GPU_COPY_DIMS], from_stride[WM_GPU_COPY_DIMS], to_stride[WM_GPU_COPY_DIMS];
} wm_gpu_copy_t;

/* held[r each] = mark for a row r with a value that is not finite or beyond +-limit, if it is 0
   yet. each 1: a flag a row, 0: one for all. Any grid.  */
typedef struct {
    const void *from; /* (rows, n) */
    uint32_t *held;
    uint32_t rows, n, half, each, mark;
    float limit;
} wm_gpu_scan_t;

/* Softmax in place over `n` neighbours, `groups` of them a patch. A thread takes a group.  */
typedef struct {
    float *value; /* (rows, groups, n) */
    uint32_t rows, groups, n;
} wm_gpu_spread_t;

/* The largest or the mean of a window, channels last; padding is nothing, or counts as 0. Any
   grid.  */
typedef struct {
    const void *from;
    void *to;
    uint32_t rows, channels, mean, count_padding;
    uint32_t half_from, half_to;
    uint32_t in[2], out[2], kernel[2], stride[2], before[2];
} wm_gpu_pool_t;

/* to = gain act (scale (from + second) + shift), of one shape; second may be NULL, `to` may be
   `from`. A clip is from `least` on. With slopes the bend of element i of a row is slope[i /
   slope_run % n_slope]. tf32: rounded to it. Any grid.  */
typedef struct {
    const void *from, *second;
    void *to;
    uint32_t rows, n; /* of a row */
    uint32_t half_from, half_second, half_to, tf32;
    wm_act_t act;
    float bend, least, scale, shift, gain;
    const float *slope; /* (n_slope), or NULL */
    uint32_t n_slope, slope_run;
} wm_gpu_join_t;
#define WM_GPU_JOIN_PLAIN .scale = 1, .gain = 1

/* A row of cells, from a float image to the strips' image.  */
typedef struct {
    uint32_t from, to, count;
} wm_gpu_row_t;

/* Rows of an image in float32 become rows of another in half or float32. A value that is not
   finite, or beyond +-limit, becomes NaN. A warp takes a row: blocks * threads / 32 >= n_row.  */
typedef struct {
    const float *source;
    const wm_gpu_row_t *row; /* (n_row) */
    void *image;
    uint32_t n_row, half;
    float limit;
} wm_gpu_strip_t;

/* Marks active positions. A position (row, col) of the convolution's output is, if a cell of its
   window is not bitwise the zero level; it is bad if a cell is not finite, and then never active. A
   bit each, 32 columns a word. Where `constant` is not NULL, value -= constant at active positions,
   rounded to half, or to tf32; where `clear`, the others become 0. A warp takes a word: blocks *
   threads / 32 >= n_row * ceil (n_col / 32).  */
typedef struct {
    const void *image;      /* (n_row + kh - 1, in_col) of half or float32 */
    void *value;            /* (n_row, n_col, c_out) of the same */
    const float *constant;  /* (c_out), or NULL */
    uint32_t *active, *bad; /* (n_row, n_word) */
    uint32_t n_row, n_col, n_word, in_col, kh, kw, c_out;
    uint32_t half, zero; /* zero: the bits of the zero level */
    uint32_t clear;
} wm_gpu_active_t;

/* Products of the first dense layer(s) with the windows of hits. In the values of the convolution
   (n_row, n_col, c_out) a hit's window is patch_row rows of patch_col positions from position
   hit[i] on. A row is read in segments of 96 bytes, the last one filled up with zeros; its weights
   lie packed, a panel a segment. A block takes `threads` hits (128 or 256) and rows_split rows:
   split s of partial (splits, rows, WM_GPU_SUMS) is the sum over rows s rows_split and on, segments
   and values ascending, whatever the hits beside. Columns: 128 outputs; the sum of all of them by
   its own weights, high part and low part; the sum of the outputs' magnitudes that it is measured
   by; 5 spare. `active` NULL (version 2): all positions are taken. Else (version 3) 8 hits that are
   all inactive in a segment are skipped, and the inactive ones among others count exactly 0.  */
#define WM_GPU_OUTPUTS 128u
#define WM_GPU_SUMS 136u
#define WM_GPU_SEGMENT 96u
#define WM_GPU_STEPS 3u        /* tensor core steps of 32 bytes a segment */
#define WM_GPU_PANEL 12672u    /* 3 steps x (8 tiles x 32 lanes x 16 bytes + 16 lanes x 8 bytes) */
#define WM_GPU_CHECK 12288u    /* where a panel's 16 x 8 bytes of checksum weights begin */
#define WM_GPU_COLUMNS_MAX 64u /* positions a row of a window */
typedef struct {
    const char *value;      /* position p begins at p position_bytes */
    const uint32_t *active; /* (n_row, n_word), or NULL */
    const uint32_t *hit;    /* (rows) */
    const char *weight;     /* (patch_row, segments, WM_GPU_PANEL) */
    float *partial;
    uint32_t rows, n_col, n_word;
    uint32_t patch_row, patch_col, rows_split, splits;
    uint32_t segments, position_bytes;
    uint32_t stages; /* of the pipeline: 2 to 5 */
} wm_gpu_dense_t;

/* A dense layer of the tail. Its outputs lie at `at` of a patch's values; inputs at `from`. A root
   has n_in 0: its products are in columns `from` of the partial sums.  */
typedef struct {
    const float *weight; /* (n_in, n_out) */
    const float *bias;   /* (n_out) */
    uint32_t n_in, n_out, from, at;
    int32_t output; /* first column of the scores, -1 for none */
    wm_act_t act;
    float bend;
} wm_gpu_layer_t;

/* Everything behind the products of the first dense layer(s): the splits' sums added in order,
   bias, activation, the tree of dense layers, softmax and sigmoid, in float32. A held patch's
   scores are NaN. One block a patch, n_value floats of shared memory.

   Versions 2 and 3 give `bad` instead of `held`: a patch is held if a position of its window is
   bad. They have `residual`, too: by how much the sum of the first n_sum columns differs from its
   checksum (columns 128 and 129), over the magnitude of both (column 130). Shared memory is then
   n_value + n_sum + patch_row.  */
typedef struct {
    const float *partial; /* (splits, rows, n) */
    const uint32_t *held; /* (rows) */
    float *scores;        /* (rows, n_output) */
    const uint32_t *bad, *hit;
    float *residual; /* (rows) */
    uint32_t n_col, n_word, patch_row, patch_col, n_sum;
    uint32_t splits, rows, n, n_output, n_layer, n_value;
    wm_gpu_layer_t layer[WM_MODEL_DENSES_MAX];
} wm_gpu_tail_t;

#endif
