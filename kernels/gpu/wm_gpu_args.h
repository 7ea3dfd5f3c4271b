/* wm_gpu_args.h - the arguments of our kernels, a struct each; pointers are the device's.  */
#ifndef WM_GPU_ARGS_H
#define WM_GPU_ARGS_H

#include "kernels/model/wm_model.h"
#include "kernels/patch/wm_image.h"

#include <stdint.h>

#define WM_GPU_NO_PATCH UINT32_MAX
#define WM_GPU_PHASES_MAX 64u /* ticks a bin, at most: the limit of wm_spec_parse */

/* to[0 .. count) = value. Any grid.  */
typedef struct {
    float *to;
    uint32_t count;
    float value;
} wm_gpu_fill_t;

/* Writes the runs of a plane into its image, or the zero level in their place (value NULL); a warp
   takes a run. blocks * threads / 32 >= n_run. */
typedef struct {
    const uint32_t *run_wire, *run_first; /* (n_run) */
    const uint32_t *run_value;            /* (n_run + 1): where the values of a run begin */
    const float *value;
    float *image; /* (n_row, n_col), its margins included */
    uint32_t n_run, n_col;
    uint32_t top, left; /* of the plane's first cell in the image */
    float zero;
} wm_gpu_scatter_t;

/* Copies windows of an image, one after another; `abreast` neighbours are channels of one patch,
   channels last. One block a window.  */
typedef struct {
    const float *image;     /* rows of n_col */
    const uint32_t *offset; /* (blocks): of a window's first value in the image */
    float *to;              /* (blocks / abreast, height, width, abreast) */
    uint32_t height, width, n_col, abreast;
} wm_gpu_window_t;

/* The runs of a plane in ticks, in (wire, first) order.  */
typedef struct {
    const uint32_t *wire, *first; /* (n_run) */
    const uint32_t *begin;        /* (n_run + 1): where the values of a run begin */
    const float *value;
    uint32_t n_run;
} wm_gpu_ticks_t;

/* Own view: downscales the bins that runs touch, one image for each phase (the tick that its first
   bin begins at), as wm_plane.c does; mean and maxpool. `clear`: the zero level instead. A warp
   takes a run in an image: blocks * threads / 32 >= n_run n_image.  */
typedef struct {
    wm_gpu_ticks_t ticks;
    wm_image_scaling_t scaling;
    float *image; /* (n_image, n_row, n_col) */
    uint32_t n_image, n_row, n_col;
    uint32_t top;   /* rows above wire 0 */
    uint32_t n_bin; /* bins of a wire; what lies behind is margin */
    uint32_t window, maxpool, clear;
    float zero;
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

/* What kernels for any CNN check where they read and write anyway. flag[r] = 1 for a row r with a
   value that is not finite, as it was read from `from` or `second` or is stored in `to` (an OR of
   the bits of `what`); doubt[r] = 1 for one with a value in `to` beyond +-bound. A flag that is not
   0 stays. With 0 `flag` is not used; doubt may be NULL.  */
#define WM_GPU_CHECK_FROM 1u
#define WM_GPU_CHECK_SECOND 2u
#define WM_GPU_CHECK_TO 4u
typedef struct {
    uint32_t *flag, *doubt; /* (rows) */
    uint32_t what;
    float bound;
} wm_gpu_checks_t;

/* to[r to_row + sum i_k to_stride[k]] = from[r from_row + sum i_k from_stride[k]] for all r < rows
   and i_k < dim[k]; NaN for a held row (held NULL: no row is). Any check is one of what is
   stored. Any grid; with tiles (wm_gpu_copy_tiles) blocks = rows * tiles, and WM_GPU_TILE_BYTES of
   shared memory.  */
#define WM_GPU_COPY_DIMS 5u
typedef struct {
    const void *from;
    void *to; /* its first element */
    const uint32_t *held;
    wm_gpu_checks_t checks;
    uint32_t rows, from_row, to_row, to_first, n;
    uint32_t half_from, half_to;
    uint32_t dim[WM_GPU_COPY_DIMS], from_stride[WM_GPU_COPY_DIMS], to_stride[WM_GPU_COPY_DIMS];
} wm_gpu_copy_t;

/* held[r each] = 1 for a row r with a value that is not finite or beyond +-limit, if it is 0 yet.
   each 1: a flag a row, 0: one for all. only: rows whose flag there is 0 are not read; NULL: all
   are. doubt: as above, or NULL. Any grid.  */
typedef struct {
    const void *from; /* (rows, n) */
    uint32_t *held, *doubt;
    const uint32_t *only;
    uint32_t rows, n, half, each;
    float limit, bound;
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
    wm_gpu_checks_t checks;
    uint32_t rows, channels, mean, count_padding;
    uint32_t half_from, half_to;
    uint32_t in[2], out[2], kernel[2], stride[2], before[2];
} wm_gpu_pool_t;

/* to = gain act (scale (from + second) + shift), of one shape; second may be NULL, `to` may be
   `from`. A clip is from `least` on. With slopes the bend of element i of a row is slope[i /
   slope_run % n_slope]. Any grid.  */
typedef struct {
    const void *from, *second;
    void *to;
    wm_gpu_checks_t checks;
    uint32_t rows, n; /* of a row */
    uint32_t half_from, half_second, half_to;
    wm_act_t act;
    float bend, least, scale, shift, gain;
    const float *slope; /* (n_slope), or NULL */
    uint32_t n_slope, slope_run;
} wm_gpu_join_t;
#define WM_GPU_JOIN_PLAIN .scale = 1, .gain = 1

/* A row of positions: where its first cell lies in the image, how far the next row of cells is,
   the first of its words in the maps, how many positions it has (WM_GPU_ROW_MAX at most).  */
#define WM_GPU_ROW_MAX 1024u  /* a power of two */
#define WM_GPU_BAD (1u << 31) /* more entries than a list has */
typedef struct {
    uint32_t from, stride, to, count;
} wm_gpu_row_t;

/* How a position's values lie in the list.  */
#define WM_GPU_LEAD 16u /* bytes: 1, 0, 0, 0, whose weights are what every active position adds */
typedef enum {
    WM_GPU_FLOATS,       /* c_out floats, perhaps behind WM_GPU_LEAD */
    WM_GPU_HALVES,       /* c_out halves */
    WM_GPU_HALVES_TWICE, /* c_out halves, and c_out halves of what the first ones lack */
} wm_gpu_form_t;

/* Finds the active positions of rows and convolves there. A position is active if a cell of its
   window is not bitwise the zero level; it is bad, and active, too, if one is not finite or beyond
   +-limit. Maps have a bit a position, 32 columns a word. The active
   positions of a row get neighbouring entries of the list: relu (convolution) - reference, times
   `scale` in halves, where zeros if it is bad; floats may begin with WM_GPU_LEAD. index: the entry
   of a word's first one, and
   WM_GPU_BAD if one of them is bad; nothing is written for a word without active positions, nor to
   `bad` for one without bad ones: most of a plane is 4 bytes a word. A warp takes a row: blocks *
   threads / 32 >= n_row; wm_gpu_active_bytes of shared memory a block.  */
typedef struct {
    const float *image;
    const wm_gpu_row_t *row;             /* (n_row) */
    const float *weight;                 /* (kh kw, c_out) */
    const float *bias, *reference;       /* (c_out) */
    uint32_t *active, *bad, *index;      /* a word each */
    uint32_t *used;                      /* entries that are taken; rows with a bad position */
    char *value;                         /* filters of entry e begin at e entry_bytes */
    uint32_t n_row, kh, kw, c_out, relu; /* kw is 32 at most, c_out a multiple of 8 */
    uint32_t zero;                       /* the bits of the zero level */
    wm_gpu_form_t form;
    uint32_t entry_bytes, lead; /* lead: WM_GPU_LEAD lies ahead of an entry's filters */
    float limit, scale;
} wm_gpu_active_t;

/* Products of the first dense layer(s) with the windows of hits. A hit's window is patch_row rows
   of patch_col positions from bit hit[i] of the map on. A row of it is read in segments of 96
   bytes, the last one filled up with zeros; its weights lie packed, a panel a segment, or two where
   values are halves twice. A block takes a tile of hits (32 to 256), and the rows of a band,
   rows_group of them at a time: blocks = tiles * bands; segments and values ascend, whatever the
   hits beside. Columns of the sums: 128 outputs; the sum of all of them by its own weights, high
   part and low part; the sum of the outputs' magnitudes that it is measured by; 5 spare. 8 hits
   that are all inactive in a segment are skipped (wide kernels skip none), and the inactive ones
   among others count exactly 0. Tensor cores' kernels write the sums of a block's band; the one in
   float32 writes those of each row, so that its bits do not depend on the number of bands.  */
#define WM_GPU_OUTPUTS 128u
#define WM_GPU_SUMS 136u
#define WM_GPU_SEGMENT 96u
#define WM_GPU_PITCH 112u      /* bytes from one hit's segment to the next in shared memory */
#define WM_GPU_CHUNKS 6u       /* of 16 bytes a segment */
#define WM_GPU_STEPS 3u        /* tensor core steps of 32 bytes a segment */
#define WM_GPU_PANEL 12672u    /* 3 steps x (8 tiles x 32 lanes x 16 bytes + 16 lanes x 8 bytes) */
#define WM_GPU_CHECK 12288u    /* where a panel's 384 bytes of checksum weights begin */
#define WM_GPU_COLUMNS_MAX 64u /* positions a row of a window */
typedef struct {
    const char *value;              /* the list */
    const uint32_t *active, *index; /* maps; a row has n_word words */
    const uint32_t *hit;            /* (rows) */
    const char *weight;             /* (patch_row, segments, one or two, WM_GPU_PANEL) */
    float *sum;                     /* (bands, or patch_row; rows; WM_GPU_SUMS) */
    uint32_t bands;                 /* that a window's rows are cut into */
    uint32_t n_word, patch_row, patch_col, rows_group, segments;
    uint32_t position_chunks; /* of 16 bytes: a position's floats or halves */
    uint32_t position_magic;  /* 2^32 / position_chunks, rounded up; 0 for 1 */
    uint32_t entry_bytes;
    uint32_t tile;   /* hits a block */
    uint32_t stages; /* of the pipeline: 2 to 6 */
    float unscale;   /* what sums are multiplied by */
} wm_gpu_dense_t;

/* A dense layer of the tail. Its outputs lie at `at` of a patch's values; inputs at `from`. A root
   has n_in 0: its products are in columns `from` of the sums.  */
typedef struct {
    const float *weight; /* (n_in, n_out) */
    const float *bias;   /* (n_out) */
    uint32_t n_in, n_out, from, at;
    int32_t output; /* first column of the scores, -1 for none */
    wm_act_t act;
    float bend;
} wm_gpu_layer_t;

/* Everything behind the products of the first dense layer(s): bias, activation, the tree of dense
   layers, softmax and sigmoid, as kernels/README.md has strict fp32 from its step 4 on. A patch is
   held if a position of its window is bad: its scores are NaN. residual: by how much the sum of the
   first n_sum columns differs from its checksum (columns 128 and 129), over the magnitude of both
   (column 130); 0 if a position is bad. A warp takes a hit:
   blocks * threads / 32 >= n_hit; wm_gpu_tail_floats of shared memory a warp.
   Nothing is computed for hits without a patch.  */
typedef struct {
    const float *sum; /* (bands, n_hit, WM_GPU_SUMS): added up in order */
    uint32_t bands;
    uint32_t strict; /* the hits of bad positions are not held, but their checksum is not judged */
    float *scores;                        /* (n_hit, n_output) */
    const uint32_t *active, *index, *bad; /* maps: a row has n_word words */
    const uint32_t *any_bad;              /* 0: no position of the maps is bad */
    const uint32_t *hit;                  /* (n_hit): bit where the window begins */
    float *residual;                      /* (n_hit) */
    uint32_t n_word, patch_row, patch_col, n_sum;
    uint32_t n_hit, n_output, n_layer, n_value;
    wm_gpu_layer_t layer[WM_MODEL_DENSES_MAX];
} wm_gpu_tail_t;

#endif
