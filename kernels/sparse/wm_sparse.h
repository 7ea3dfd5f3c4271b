/* wm_sparse.h - the inside of the exact-sparse CPU engine. Private to kernels/ (and its tests).

   The engine in one formula. For a patch, with c the output of the last convolution where its
   window holds only the zero level Z:

       y = b + sum over all positions of W_pos^T act (conv)
         = [b + W^T c] + sum over ACTIVE positions of W_pos^T (act (conv) - c)

   A position is active if a pixel of its window (through all convolutions) is not bitwise Z. The
   bracket is computed once, in double. What is stored of an active position is v = act (conv) - r
   with r = c; but r = 0 under ReLU if the kernel skips zeros, so that the filters it switched off
   are zeros; the difference, W_pos^T (r - c), is one row a position, also computed once.

   Words: an IMAGE holds many patches as windows (a plane, or a batch of dense patches stacked); a
   CELL is a place of the image that some hit's patch begins at; a position is LIVE if it is active
   and in some cell's patch; a SLOT keeps the values of one live position. A BLOCK is the cells one
   thread carries through all positions together; a ROOT is a dense layer on the convolution. A
   PANEL is the positions, side by side, that a kernel takes together: 1, 2 or 4.

   Kernels: strict fp32 in AVX-512, AVX2, NEON and C, with the same bits; bf16 and 16-bit integers
   where AVX-512 has them, integers also in AVX-VNNI and AVX2; bf16 and bf16x3 on AMX; sse2 is fp32
   for CPUs without fused multiply-adds, with bits of its own. 16 bits means that the roots' values
   and weights are stored so; the convolutions, and all behind the roots, are in fp32 everywhere.

   Bits: strict fp32 follows the contract in kernels/README.md (AMX: a sum per panel, added in
   order). Nothing in that order knows of blocks, threads or batches; the width of a panel is fixed
   by the kernel.

   Files: wm_sparse.c the engine and its jobs, wm_sparse_open.c and wm_sparse_fold.c what a net
   fixes, wm_sparse_map.c which positions are live, wm_sparse_block.c a block of cells,
   wm_sparse_tail.c the layers behind the roots, wm_sparse_pool.c threads, wm_sparse_choose.c and
   wm_sparse_engine.c which kernel runs, wm_sparse_kernel.h the loops, compiled once per instruction
   set; wm_sparse_amx.h what AMX does otherwise.  */
#ifndef WM_SPARSE_H
#define WM_SPARSE_H

#include "kernels/patch/wm_image.h"
#include "kernels/wm_device.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Positions that one call of a convolution kernel takes.  */
#define WM_SPARSE_POSITIONS 4
/* List entries a kernel prefetches ahead; lists are padded by as many (at most 16).  */
#define WM_SPARSE_AHEAD 4

/* ---- memory that only grows ------------------------------------------------------------------ */

typedef struct {
    void *data;
    size_t bytes;
} wm_sparse_buffer_t;

/* Makes room for count * each bytes, 64-byte aligned, huge pages where it pays; contents are lost
   when it grows. Adds 1 to *allocations then. false without memory.  */
bool wm_sparse_reserve (wm_sparse_buffer_t *self, size_t count, size_t each, uint64_t *allocations);
void wm_sparse_release (wm_sparse_buffer_t *self);

/* `bytes` not yet set, 64-byte aligned, on huge pages if they are many, for free (); NULL without
   memory.  */
void *wm_sparse_room (size_t bytes);

/* `count` floats of 0, 64-byte aligned, for free (); NULL without memory.  */
float *wm_sparse_floats (size_t count);

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct wm_sparse_pool_t wm_sparse_pool_t;
typedef void (wm_sparse_task_fn) (void *arg, uint32_t task, uint32_t thread);

/* Starts the threads. `pin`: thread i stays on the i-th CPU, round and round, of those that the
   process may use. threads 0: none is started, each set of tasks runs in the thread that calls.
   NULL if they cannot be started.  */
wm_sparse_pool_t *wm_sparse_pool_new (uint32_t threads, bool pin);
void wm_sparse_pool_destroy (wm_sparse_pool_t **self_p);

/* Runs tasks 0 .. n_task-1, each once, in any order on any of the pool's threads; returns when all
   are done. Several threads may call it at once, a task, too.  */
void wm_sparse_pool_run (wm_sparse_pool_t *self, wm_sparse_task_fn *task_fn, void *arg,
                         uint32_t n_task);

/* Returns the threads' seconds so far while anybody was in wm_sparse_pool_run.  */
wm_device_busy_t wm_sparse_pool_busy (wm_sparse_pool_t *self);

/* ---- live positions -------------------------------------------------------------------------- */

/* A bit per position, row after row; a row has spare bits behind, so that 64 can be read
   anywhere.  */
typedef struct {
    uint32_t n_row, n_col, n_word;
    uint64_t *bit;  /* (n_row, n_word) */
    uint32_t *rank; /* (n_row, n_word): bits set before this word, in all rows */
    uint32_t count;
    wm_sparse_buffer_t bits, ranks;
} wm_sparse_map_t;

static inline uint64_t wm_sparse_map_bits (const wm_sparse_map_t *self, uint32_t row, uint32_t col)
{
    const uint64_t *word = self->bit + (size_t) row * self->n_word + col / 64;
    return col % 64 ? word[0] >> col % 64 | word[1] << (64 - col % 64) : word[0];
}

static inline uint32_t wm_sparse_map_rank (const wm_sparse_map_t *self, uint32_t row, uint32_t col)
{
    size_t word = (size_t) row * self->n_word + col / 64;
    uint64_t before = self->bit[word] & ((UINT64_C (1) << col % 64) - 1);
    return self->rank[word] + (uint32_t) __builtin_popcountll (before);
}

typedef struct {
    uint32_t row, col; /* of the image */
    uint32_t n_hit;    /* hits that share it */
    uint32_t work;     /* its live positions */
} wm_sparse_cell_t;

/* ---- what kernels read ----------------------------------------------------------------------- */

/* A convolution. A window is n_span runs of `span` values that lie side by side.  */
typedef struct {
    uint32_t kh, kw, c_in, c_out, c_pad; /* c_pad: c_out rounded up to 16 */
    uint32_t n_span, span;
    wm_act_t act;
    float bend;
    float *weight;    /* (n_span * span, c_pad) */
    float *bias;      /* (c_pad) */
    float *constant;  /* (c_pad): the output where the window is inactive */
    float *reference; /* (c_pad): what is subtracted from the output before it is stored */
} wm_sparse_conv_t;

/* A dense layer on the flattened convolution.  */
typedef struct {
    uint32_t n_out, n_pad;  /* n_pad: n_out rounded up to 16 */
    uint32_t offset;        /* of its outputs in a cell's accumulators */
    uint32_t dense;         /* index in the net */
    const float *weight;    /* (n_position, c_out, n_out): the model's own */
    float *base;            /* (n_panel * fuse, n_pad): W_pos^T (r - c); NULL if all 0 */
    float *inactive;        /* (n_pad): b + W^T c */
    float *scale;           /* (n_pad): of packed weights, base and sums; NULL: all 1 */
    const uint32_t *packed; /* (n_panel, kernel->panel_words) if the kernel packs; else, padded to
                               n_pad, what it reads; NULL: it reads the model's own */
    size_t mapped_bytes;    /* of packed, if it is a file's */
} wm_sparse_root_t;

/* The stored values of the last convolution.  */
typedef struct {
    const char *value;    /* (n_slot, stride_bytes) */
    const uint64_t *mask; /* (n_slot, n_mask): which words are not 0 */
    size_t stride_bytes;
    uint32_t n_mask;
    bool full; /* few words are 0: a kernel that can had better not look for them */
} wm_sparse_values_t;

/* The cells to work on at a panel. Arrays have room for 32 entries more than there are cells.  */
typedef struct {
    uint32_t n;
    uint32_t *cell;
    uint32_t *slot; /* of its first live column */
    uint32_t *live; /* bit f: column f is live */
    void *scratch;  /* kernel->scratch_bytes, 64-byte aligned */
} wm_sparse_list_t;

/* A dense layer behind the roots, and every layer's place in the tail's memory.  */
typedef struct {
    uint32_t n_in, n_out, n_pad, offset;
    int32_t parent, output;
    wm_act_t act;
    float bend;
    float *weight, *bias; /* (n_in, n_pad), (n_pad); NULL for a root */
} wm_sparse_layer_t;

/* One instruction set and precision. May be NULL: scratch_bytes, begin, end, fold, panel_words and
   pack.  */
typedef struct {
    const char *isa, *precision;
    double off;          /* how far a score may be from double, as wm_device.h promises (fp32: as we
                            ask of ourselves) */
    uint32_t unit;       /* filters in a 32-bit word of a slot */
    uint32_t fuse;       /* columns of a panel, 1, 2 or 4 */
    uint32_t cells;      /* of a block, on average */
    uint32_t slot_extra; /* bytes of a slot behind its values, a multiple of 32 */
    uint32_t sum_max;    /* weights are packed as integers: how large the sum of a position's, of
                            one sign for one output, may be; 0: they are not */
    bool skips;          /* words of a slot that are 0 cost nothing */

    /* act (convolution) - reference at WM_SPARSE_POSITIONS positions; span (position, n_span).  */
    void (*conv) (const wm_sparse_conv_t *conv, const float *const *span,
                  float *out /* (position, c_pad) */);
    /* Stores one position's values and the mask of those that are not 0.  */
    void (*store) (const float *value, uint32_t c_out, uint32_t c_pad, void *slot, uint64_t *mask);
    /* Which of 64 columns, from (row, col) of each of n patches on, are live (and `valid`), and the
       slot of the first of them. Returns the union. mask is padded by zeros to a multiple of 16. */
    uint64_t (*masks) (const wm_sparse_map_t *map, const wm_sparse_cell_t *cell,
                       const uint64_t *order, uint32_t n, uint32_t row, uint32_t col,
                       uint64_t valid, uint64_t *mask, uint32_t *slot);
    /* The cells h < n (a multiple of 16) that are live at one of `fuse` columns from `bit` on, at
       least one; slot[h] moves on past them.  */
    void (*list) (const uint64_t *mask, uint32_t *slot, uint32_t n, uint32_t bit,
                  wm_sparse_list_t *list);
    /* row[cell] += W_pos^T v[slot] (+ base) over a list and the positions of a panel; the list is
       padded by WM_SPARSE_AHEAD entries.  */
    void (*dense) (const wm_sparse_root_t *root, uint32_t panel, uint32_t c_out,
                   const wm_sparse_values_t *values, const wm_sparse_list_t *list, float *row,
                   size_t row_stride);
    /* total += row, row = 0; NULL: there are no sums of rows, `dense` adds to the totals.  */
    void (*fold) (float *total, float *row, size_t n);
    /* y = b + W^T x, inputs in order.  */
    void (*layer) (const wm_sparse_layer_t *layer, const float *x, float *y);

    size_t (*scratch_bytes) (uint32_t c_out);
    /* Called by a thread around the lists of a block.  */
    void (*begin) (void);
    void (*end) (void);
    /* Kernels with packed weights: the 32-bit words of a panel, and packing of a position's weight
       (c_out, n_pad) as its column f; says what the weights are as floats, rounded (c_out, n_pad),
       before they are multiplied by root->scale. The panel's words are 0 before.  */
    size_t (*panel_words) (uint32_t c_out, uint32_t n_pad);
    void (*pack) (const wm_sparse_root_t *root, const float *weight, uint32_t c_out, uint32_t f,
                  float *rounded, uint32_t *panel);
} wm_sparse_kernel_t;

extern const wm_sparse_kernel_t wm_sparse_kernel_c, wm_sparse_kernel_sse2, wm_sparse_kernel_avx2,
    wm_sparse_kernel_avx512, wm_sparse_kernel_avx512_bf16, wm_sparse_kernel_amx_bf16,
    wm_sparse_kernel_amx_bf16x3, wm_sparse_kernel_avx2_int16, wm_sparse_kernel_avx_vnni_int16,
    wm_sparse_kernel_avx512_vnni_int16, wm_sparse_kernel_neon, wm_sparse_kernel_neon_bf16;

/* The i-th kernel this machine can run, the fastest first; NULL: there are no more.  */
const wm_sparse_kernel_t *wm_sparse_kernel (uint32_t i);

/* Adds a kernel behind the table's, at most 4: it runs on any CPU, is chosen by its name only, and
   the portable kernel judges it. The product adds none; a test adds its stand-in of an instruction
   set before main () (tests/standin/wm_sparse_amx_twin.c). Not thread-safe.  */
void wm_sparse_kernel_add (const wm_sparse_kernel_t *kernel);

/* Whether it is one of those that compute strict fp32, with the same bits: AVX-512, AVX2, NEON,
   C.  */
bool wm_sparse_kernel_is_strict (const wm_sparse_kernel_t *kernel);

/* Whether the name of an instruction set, or of one and a precision ("avx512/bf16"), means it.  */
bool wm_sparse_kernel_named (const wm_sparse_kernel_t *kernel, const char *name);

/* Whether it computes a small piece of work rightly; false also without memory.  */
bool wm_sparse_kernel_works (const wm_sparse_kernel_t *kernel);

#define WM_SPARSE_RANKS 4 /* fp32, bf16x3, int16, bf16 */

/* The kernels for a precision ("fp32", "split", "fast"), in the order of the table in
   wm_sparse_choose.c; the last computes strict fp32. isa: only those it names, and what judges
   them; NULL: the environment's WM_ISA, or all. How many; 0: WM_EHOST says what there is.  */
uint32_t wm_sparse_kernel_rank (const char *precision, const char *isa,
                                const wm_sparse_kernel_t *rank[WM_SPARSE_RANKS], wm_error_t *error);

/* ---- the engine ------------------------------------------------------------------------------ */

/* A worker's own memory.  */
typedef struct {
    float *row, *total; /* (cells_max, stride); one and the same without kernel->fold */
    uint64_t *mask;     /* (cells_max) */
    uint32_t *slot;
    wm_sparse_list_t list;
    float *value;       /* (WM_SPARSE_POSITIONS, largest c_pad) */
    const float **span; /* (WM_SPARSE_POSITIONS, largest n_span) */
    float *tail;        /* (sum of the dense layers' n_pad) */
    wm_sparse_buffer_t memory;
} wm_sparse_thread_t;

typedef struct {
    uint64_t pairs;     /* live (cell, position) pairs */
    uint64_t positions; /* convolved */
    uint64_t cells;
    uint64_t madds;       /* executed, zeros skipped; counted if count_madds is set */
    uint64_t allocations; /* of working memory; stands still after warm-up */
} wm_sparse_stats_t;

typedef struct wm_sparse_t {
    wm_net_t net;
    wm_spec_t spec;
    bool has_spec, pin, on_callers;
    const char *cache; /* while it opens */
    float zero;
    uint32_t n_output, threads;
    const wm_sparse_kernel_t *kernel;
    wm_sparse_pool_t *pool;

    wm_sparse_conv_t conv[WM_MODEL_CONVS_MAX];
    uint32_t *filter; /* the model's filter that the last convolution computes as its k-th */
    wm_sparse_root_t root[WM_MODEL_DENSES_MAX];
    wm_sparse_layer_t layer[WM_MODEL_DENSES_MAX];
    uint32_t n_root, stride, tail_floats; /* stride: accumulators of a cell */
    uint32_t pos_rows, pos_cols;          /* positions of a patch */
    uint32_t panel_cols;                  /* panels of a row of positions */
    uint32_t cells_max;                   /* of a block */
    uint64_t slot_bytes_max;              /* of a group, unless one cell needs more */
    wm_sparse_thread_t *thread;

    /* The job at hand. Another one has a copy of this struct: what stands above is the same (but
       `thread`, if calls compute themselves), what follows its own.  */
    wm_plane_t *plane;
    const float *image; /* (n_row, n_col, net.channel) */
    uint32_t n_row, n_col;
    wm_sparse_cell_t *cell;
    uint32_t n_cell, group_first, group_cells; /* the cells worked on together */
    wm_sparse_map_t active[WM_MODEL_CONVS_MAX + 1], live[WM_MODEL_CONVS_MAX + 1]; /* 0: the image */
    float *mid[WM_MODEL_CONVS_MAX + 1]; /* outputs of the convolutions before the last */
    wm_sparse_values_t values;
    uint64_t *order;        /* cells of the group along a curve: the low halves */
    uint32_t *block_first;  /* (n_block + 1), into order */
    uint32_t n_block, step; /* step: the layer a phase works on */
    float *cell_score;      /* (n_cell, n_output) */
    uint32_t *hit_cell;     /* (n_hit): UINT32_MAX if the hit is not of this job */
    wm_sparse_buffer_t cells, orders, orders2, blocks, scores, hits, patches, many, masks, slots,
        mids[WM_MODEL_CONVS_MAX + 1];
    _Atomic uint64_t *progress, words; /* words: not 0, of the slots stored */
    double full_from; /* share of words that are not 0, from which on zeros are not looked for */
    bool count_madds; /* for benches: a walk over all pairs */
    wm_sparse_stats_t stats;

    /* The last two, since a copy is made of what stands before them, while calls run.  */
    struct wm_sparse_t *_Atomic other; /* the next job; NULL behind the last. With pool threads
                                          there are one or two. on_callers: this struct is no job,
                                          jobs are added as calls need them */
    atomic_flag is_taken;              /* by a call */
} wm_sparse_t;

typedef struct {
    const wm_sparse_kernel_t *kernel;
    uint32_t threads; /* 0: 1 */
    bool pin;
    bool on_callers;   /* there are no threads: each call computes in its own */
    const char *cache; /* the model's file: begins the names of files shared with other processes
                          that open it; NULL: none */
} wm_sparse_config_t;

/* Opens the engine on a net (lent).  */
wm_sparse_t *wm_sparse_new (const wm_net_t *net, const wm_spec_t *spec,
                            const wm_sparse_config_t *config, wm_error_t *error);
void wm_sparse_destroy (wm_sparse_t **self_p);

/* Two calls may run at once with more than one thread: the threads then do one's parts beside the
   other's, and none of them waits. on_callers: any number of calls, of which none waits or takes a
   lock; a child of fork may call, too (a job that another thread was at stays unused there).  */
wm_fault_t wm_sparse_score (wm_sparse_t *self, const wm_batch_t *batch, float *scores,
                            _Atomic uint64_t *progress, wm_error_t *error);
/* Scores n batches. Small batches of dense patches go as one job: a job reads every weight of the
   dense layers, which takes as long for two patches as for a hundred. A hit has the same bits in
   any job.  */
wm_fault_t wm_sparse_score_many (wm_sparse_t *self, uint32_t n, const wm_batch_t *const *batch,
                                 float *const *scores, _Atomic uint64_t *progress,
                                 wm_error_t *error);
wm_sparse_stats_t wm_sparse_stats (const wm_sparse_t *self);

/* Whether a kernel can hold the net's filters: integers' sums have an end.  */
bool wm_sparse_kernel_holds (const wm_sparse_kernel_t *kernel, const wm_net_t *net);

/* wm_sparse_open.c: everything of the engine that a net and a kernel fix.  */
wm_fault_t wm_sparse_open (wm_sparse_t *self, wm_error_t *error);
void wm_sparse_close (wm_sparse_t *self);
/* The memory of the threads of a job whose calls compute themselves; of the pool's otherwise.  */
wm_fault_t wm_sparse_open_threads (wm_sparse_t *self, wm_error_t *error);
void wm_sparse_close_threads (wm_sparse_t *self);

/* wm_sparse_fold.c: fills in what of a root does not depend on the patch.  */
wm_fault_t wm_sparse_fold (wm_sparse_t *self, wm_sparse_root_t *root, wm_error_t *error);
void wm_sparse_unfold (wm_sparse_root_t *root);
/* The scale of weights that are packed as integers (n_out, n_pad of root are set): no position's
   sum then passes kernel->sum_max, nor a weight 16 bits. `positive`: no value is below 0.  */
void wm_sparse_scale (const wm_sparse_root_t *root, const wm_sparse_kernel_t *kernel,
                      uint32_t n_position, uint32_t c_out, bool positive, float *scale);

/* wm_sparse_map.c: scan finds the active positions of an image; convolve stores the values of those
   that are live for the cells from group_first on, and sets group_cells to as many as the memory
   for slots allows.  */
wm_fault_t wm_sparse_scan (wm_sparse_t *self, wm_error_t *error);
wm_fault_t wm_sparse_convolve (wm_sparse_t *self, wm_error_t *error);

/* wm_sparse_block.c: the group's scores, to cell_score.  */
wm_fault_t wm_sparse_blocks (wm_sparse_t *self, wm_error_t *error);

/* wm_sparse_tail.c */
wm_fault_t wm_sparse_tail_new (wm_sparse_t *self, wm_error_t *error);
void wm_sparse_tail_destroy (wm_sparse_t *self);
void wm_sparse_tail (const wm_sparse_t *self, const float *total, float *memory, float *scores);

#endif
