/* wm_sparse_amx.h - the roots on AMX tiles: bf16, and bf16x3, which is nearly as precise as fp32.

   For a panel of positions (4 in bf16, 2 in bf16x3) and the cells that are live there, a root adds
   A B to the cells' sums: A holds values, (cells, filters of the panel); B weights, (filters,
   outputs).

   Tiles. A tile is 16 rows of 64 bytes: 16 x 16 sums of C, or 16 cells by 32 filters of A, or 16
   pairs of filters by 16 outputs of B (the instruction reads the two filters of a pair from one
   32-bit word). Tiles 0 to 3 hold the sums of 32 cells by 32 outputs, 4 and 5 hold A, 6 and 7 hold
   B: four loads feed four products. Sums begin at zero for each panel, take up all its filters in
   order, and are added to the cells in fp32.

   Packing A, at run time. A panel's list is taken GROUP cells at a time. copy_cell copies the slots
   of a cell's live positions into one row; a position that is not live becomes zeros, by masks
   instead of branches, so that every row has the same length. list_groups fills the last group up
   with cells that have nothing live, and add_cells leaves those out. Nothing is skipped inside a
   panel, and the hardware takes denormals for zeros.

   Packing B, once, when the model is opened. Weights lie in the order in which they are read, so
   that a panel is one stream from memory:
       pairs of tile columns | steps of 32 filters | hi, lo (bf16x3) | the 2 tiles of the pair
   An odd number of tile columns leaves a last pair of one tile.

   Split bf16x3. A bf16 keeps 8 bits of the 24 of a float. So a number x becomes hi + lo: hi is x
   rounded to bf16, lo is x - hi (exact) rounded to bf16. Of (hi + lo) (hi' + lo') three products
   are computed, hi lo' + hi hi' + lo hi'. The fourth, lo lo', is at most 2^-16 of the whole, as is
   what rounding lo loses; such errors have either sign and largely cancel in sums of thousands of
   terms, which leaves scores within 1e-5 of double (`off`). A step multiplies hi by lo', then by
   hi', and keeps the tiles of hi' for lo: eight loads feed twelve products.

   Weights pass through once per group of cells. Loaded like everything else they would push A, the
   sums and the totals out of the first cache; TILE_STREAM loads them around it.

   The loop overlaps what tiles do not do with what they do: while a pair of tile columns is
   computed, the sums of the pair before are added to their cells, part of the next group is copied,
   and the weights of the next panel are prefetched to L2.

   A file that includes this defines what follows, and includes wm_sparse_kernel.h with
   KERNEL_SHARED before.  */
/* clang-format off
   TILE_ZERO (t)
   TILE_LOAD (t, address, bytes from row to row)
   TILE_STREAM (t, address, bytes from row to row)  a load that keeps out of the first cache
   TILE_STORE (t, address, bytes from row to row)
   TILE_DOT (c, a, b)      c += a b: a, b in bf16, c in fp32
                           (t, a, b, c: 0 to 7; every tile has 16 rows of 64 bytes)
   tiles_begin, tiles_end  functions around the lists of a block
   ISA_TEXT, TABLE         of the tables: names, and TABLE (bf16) the variable
   clang-format on */
#include <string.h>

#define GROUP 32u /* cells */
#define TILE_BYTES 1024u

typedef uint64_t part_t __attribute__ ((vector_size (32), may_alias)); /* 16 values of a slot */
typedef float wide_t __attribute__ ((vector_size (64), may_alias));

typedef struct {
    const wm_sparse_values_t *values;
    const wm_sparse_list_t *list;
    const char *weight, *coming; /* this panel's, and what comes next from memory */
    uint32_t ahead;              /* lines of `coming` at each step */
    float *row;
    size_t row_stride;
    float *sum[2]; /* (GROUP, 32): a pair's of tile columns, and those still to be added: */
    uint32_t side, before_g, before_tile, before_tiles; /* 0 tiles: none */
} amx_t;

/* What a panel looks like; known to the compiler where it is the usual net's.  */
typedef struct {
    uint32_t columns, halves; /* 4, 1 or 2, 2: halves are hi and lo */
    uint32_t parts;           /* of 16 filters in a column */
    uint32_t tiles;           /* tile columns: n_pad / 16 */
} form_t;

INLINE size_t column_bytes (form_t form)
{
    return form.parts * sizeof (part_t);
}

INLINE size_t half_bytes (form_t form)
{
    return form.columns * column_bytes (form);
}

INLINE size_t cell_bytes (form_t form)
{
    return form.halves * half_bytes (form);
}

/* 32 filters, 64 bytes of a cell's row of A.  */
INLINE uint32_t steps_of (form_t form)
{
    return form.columns * form.parts / 2;
}

/* Copies the values of list entry g to row `to` of A.  */
INLINE void copy_cell (const amx_t *amx, form_t form, uint32_t g, char *to)
{
    const uint32_t live = amx->list->live[g];
    const char *from = amx->values->value + amx->list->slot[g] * amx->values->stride_bytes;
#pragma GCC unroll 4
    for (uint32_t f = 0; f < form.columns; f++) {
        const uint64_t on = -(uint64_t) (live >> f & 1);
        const part_t keep = { on, on, on, on };
#pragma GCC unroll 2
        for (uint32_t half = 0; half < form.halves; half++) {
            const part_t *source = (const part_t *) (from + half * column_bytes (form));
            part_t *row = (part_t *) (to + half * half_bytes (form) + f * column_bytes (form));
#pragma GCC unroll 3
            for (uint32_t i = 0; i < form.parts; i++)
                row[i] = source[i] & keep;
        }
        from += on & (form.halves * column_bytes (form));
    }
}

/* Adds part of the sums of the pair before to its cells.  */
INLINE void add_cells (const amx_t *amx, uint32_t first, uint32_t last)
{
    const uint32_t left = amx->list->n - amx->before_g;
    for (uint32_t k = first; k < last && k < left; k++) {
        size_t cell = amx->list->cell[amx->before_g + k];
        wide_t *row = (wide_t *) (amx->row + cell * amx->row_stride + amx->before_tile * 16);
        const wide_t *sum = (const wide_t *) (amx->sum[amx->side ^ 1] + (size_t) k * 32);
        row[0] += sum[0];
        if (amx->before_tiles > 1)
            row[1] += sum[1];
    }
}

/* 32 filters of 32 cells, for a pair of tile columns or the last one alone.  */
INLINE void step_tiles (form_t form, const char *a, const char *w, const bool two)
{
    const size_t row = cell_bytes (form), lo = (two ? 2 : 1) * TILE_BYTES;
    TILE_LOAD (4, a, row);
    TILE_LOAD (5, a + 16 * row, row);
    for (uint32_t half = form.halves; half-- > 0;) { /* the weights' lo, then hi */
        TILE_STREAM (6, w + half * lo, 64);
        TILE_DOT (0, 4, 6);
        TILE_DOT (2, 5, 6);
        if (two) {
            TILE_STREAM (7, w + half * lo + TILE_BYTES, 64);
            TILE_DOT (1, 4, 7);
            TILE_DOT (3, 5, 7);
        }
    }
    if (form.halves == 1)
        return;
    TILE_LOAD (4, a + half_bytes (form), row);
    TILE_LOAD (5, a + half_bytes (form) + 16 * row, row);
    TILE_DOT (0, 4, 6);
    TILE_DOT (2, 5, 6);
    if (two) {
        TILE_DOT (1, 4, 7);
        TILE_DOT (3, 5, 7);
    }
}

/* A pair of tile columns of the group from list entry g on; now, next: its A and the next
   one's.  */
INLINE void run_pair (amx_t *amx, form_t form, uint32_t g, uint32_t tile, const bool two,
                      const char *now, char *next)
{
    const uint32_t n = steps_of (form), at = tile / 2 * n, all = (form.tiles + 1) / 2 * n;
    const size_t step_bytes = (two ? 2 : 1) * form.halves * TILE_BYTES;
    const char *w = amx->weight + (size_t) tile * n * form.halves * TILE_BYTES;
    const bool more = g + GROUP < amx->list->n;
    float *sum = amx->sum[amx->side];
    TILE_ZERO (0);
    TILE_ZERO (1);
    TILE_ZERO (2);
    TILE_ZERO (3);
#pragma GCC unroll 6
    for (uint32_t q = 0; q < n; q++, w += step_bytes) {
        step_tiles (form, now + q * 64, w, two);
        for (uint32_t k = GROUP * (at + q) / all; more && k < GROUP * (at + q + 1) / all; k++)
            copy_cell (amx, form, g + GROUP + k, next + k * cell_bytes (form));
        if (amx->before_tiles)
            add_cells (amx, GROUP * q / n, GROUP * (q + 1) / n);
        for (uint32_t i = 0; i < amx->ahead; i++, amx->coming += 64)
            __builtin_prefetch (amx->coming, 0, 2);
    }
    TILE_STORE (0, sum, 128);
    TILE_STORE (2, sum + 16 * 32, 128);
    if (two) {
        TILE_STORE (1, sum + 16, 128);
        TILE_STORE (3, sum + 16 * 32 + 16, 128);
    }
    amx->before_g = g, amx->before_tile = tile, amx->before_tiles = two ? 2 : 1;
    amx->side ^= 1;
}

INLINE void run_list (amx_t *amx, form_t form, char *scratch)
{
    char *now = scratch, *next = scratch + GROUP * cell_bytes (form);
    amx->sum[0] = (float *) (void *) (next + GROUP * cell_bytes (form));
    amx->sum[1] = amx->sum[0] + GROUP * 32;
    for (uint32_t k = 0; k < GROUP; k++)
        copy_cell (amx, form, k, now + k * cell_bytes (form));
    for (uint32_t g = 0; g < amx->list->n; g += GROUP) {
        for (uint32_t tile = 0; tile + 1 < form.tiles; tile += 2)
            run_pair (amx, form, g, tile, true, now, next);
        if (form.tiles % 2)
            run_pair (amx, form, g, form.tiles - 1, false, now, next);
        char *swap = now;
        now = next, next = swap;
    }
    add_cells (amx, 0, GROUP);
}

INLINE form_t form_of (uint32_t columns, uint32_t halves, uint32_t c_out, uint32_t n_pad)
{
    return (form_t){ columns, halves, (c_out + 15) / 16, n_pad / 16 };
}

INLINE size_t panel_bytes (form_t form)
{
    return (size_t) form.tiles * steps_of (form) * form.halves * TILE_BYTES;
}

INLINE void dense_panel (const wm_sparse_root_t *root, uint32_t panel,
                         const wm_sparse_values_t *values, const wm_sparse_list_t *list, float *row,
                         size_t row_stride, form_t form)
{
    const uint32_t groups = (list->n + GROUP - 1) / GROUP, pairs = (form.tiles + 1) / 2;
    amx_t amx = { .values = values,
                  .list = list,
                  .weight = (const char *) root->packed + panel * panel_bytes (form),
                  .row = row + root->offset,
                  .row_stride = row_stride };
    amx.coming = amx.weight + panel_bytes (form);
    amx.ahead = (uint32_t) (panel_bytes (form) / 64 / (groups * pairs * steps_of (form))) + 1;
    if (form.parts == 3 && form.tiles == 8)
        run_list (&amx, (form_t){ form.columns, form.halves, 3, 8 }, list->scratch);
    else
        run_list (&amx, form, list->scratch);
}

INLINE size_t scratch_of (form_t form)
{
    return 2 * GROUP * cell_bytes (form) + 2 * GROUP * 32 * sizeof (float);
}

/* Entries behind the last, to the end of its group, are cells with nothing live.  */
INLINE void list_groups (const uint64_t *mask, uint32_t *slot, uint32_t n, uint32_t bit,
                         wm_sparse_list_t *list, const uint32_t columns)
{
    list_panel (mask, slot, n, bit, list, columns);
    for (uint32_t i = list->n; i % GROUP; i++)
        list->live[i] = 0, list->slot[i] = 0;
}

/* ---- values and weights as bf16 -------------------------------------------------------------- */

/* To the nearest, halves to even; a NaN stays one.  */
INLINE uint16_t bf16_of (float x)
{
    uint32_t raw;
    memcpy (&raw, &x, sizeof raw);
    return x != x ? 0x7fc0 : (uint16_t) ((raw + 0x7fff + (raw >> 16 & 1)) >> 16);
}

INLINE float float_of (uint16_t x)
{
    uint32_t raw = (uint32_t) x << 16;
    float value;
    memcpy (&value, &raw, sizeof value);
    return value;
}

INLINE void store_halves (const float *value, uint32_t c_out, uint32_t c_pad, void *slot,
                          uint64_t *mask, const uint32_t halves)
{
    uint16_t *hi = slot, *lo = hi + c_pad;
    for (uint32_t k = 0; k < c_pad; k++) {
        hi[k] = bf16_of (value[k]);
        if (halves > 1)
            lo[k] = bf16_of (value[k] - float_of (hi[k]));
    }
    const uint32_t words = halves > 1 ? c_out : (c_out + 1) / 2; /* none is skipped */
    for (uint32_t m = 0; m * 64 < words; m++)
        mask[m] = words - m * 64 < 64 ? (UINT64_C (1) << (words - m * 64)) - 1 : UINT64_MAX;
}

INLINE void pack_halves (const float *weight, uint32_t c_out, uint32_t n_pad, uint32_t f,
                         float *rounded, uint32_t *panel, form_t form)
{
    uint16_t *to = (uint16_t *) panel;
    const uint32_t n = steps_of (form);
    for (uint32_t k = 0; k < c_out; k++)
        for (uint32_t o = 0; o < n_pad; o++) {
            const float w = weight[(size_t) k * n_pad + o];
            const uint32_t tile = o / 16, first = tile & ~1u, at = f * form.parts * 16 + k;
            const uint32_t two = first + 1 < form.tiles ? 2 : 1;
            size_t place = (size_t) first * n * form.halves +
                           (size_t) (at / 32) * two * form.halves + tile % 2; /* in tiles */
            const uint16_t hi = bf16_of (w), lo = bf16_of (w - float_of (hi));
            const size_t inside = (at % 32 / 2 * 16 + o % 16) * 2 + at % 2;
            to[place * TILE_BYTES / 2 + inside] = hi;
            if (form.halves > 1)
                to[(place + two) * TILE_BYTES / 2 + inside] = lo;
            rounded[(size_t) k * n_pad + o] = float_of (hi) + (form.halves > 1 ? float_of (lo) : 0);
        }
}

/* ---- the two kernels ------------------------------------------------------------------------- */

#define AMX_KERNEL(text, columns_, halves_, off_)                                                  \
    static void store_##text (const float *value, uint32_t c_out, uint32_t c_pad, void *slot,      \
                              uint64_t *mask)                                                      \
    {                                                                                              \
        store_halves (value, c_out, c_pad, slot, mask, halves_);                                   \
    }                                                                                              \
    static void list_##text (const uint64_t *mask, uint32_t *slot, uint32_t n, uint32_t bit,       \
                             wm_sparse_list_t *list)                                               \
    {                                                                                              \
        list_groups (mask, slot, n, bit, list, columns_);                                          \
    }                                                                                              \
    static void dense_##text (const wm_sparse_root_t *root, uint32_t panel, uint32_t c_out,        \
                              const wm_sparse_values_t *values, const wm_sparse_list_t *list,      \
                              float *row, size_t row_stride)                                       \
    {                                                                                              \
        dense_panel (root, panel, values, list, row, row_stride,                                   \
                     form_of (columns_, halves_, c_out, root->n_pad));                             \
    }                                                                                              \
    static size_t scratch_##text (uint32_t c_out)                                                  \
    {                                                                                              \
        return scratch_of (form_of (columns_, halves_, c_out, 0));                                 \
    }                                                                                              \
    static size_t words_##text (uint32_t c_out, uint32_t n_pad)                                    \
    {                                                                                              \
        return panel_bytes (form_of (columns_, halves_, c_out, n_pad)) / sizeof (uint32_t);        \
    }                                                                                              \
    static void pack_##text (const wm_sparse_root_t *root, const float *weight, uint32_t c_out,    \
                             uint32_t f, float *rounded, uint32_t *panel)                          \
    {                                                                                              \
        pack_halves (weight, c_out, root->n_pad, f, rounded, panel,                                \
                     form_of (columns_, halves_, c_out, root->n_pad));                             \
    }                                                                                              \
    const wm_sparse_kernel_t TABLE (text) = {                                                      \
        .isa = ISA_TEXT,                                                                           \
        .precision = #text,                                                                        \
        .off = off_,                                                                               \
        .unit = 3 - halves_,                                                                       \
        .fuse = columns_,                                                                          \
        .cells = 1024,                                                                             \
        .conv = kernel_conv,                                                                       \
        .store = store_##text,                                                                     \
        .masks = kernel_masks,                                                                     \
        .list = list_##text,                                                                       \
        .dense = dense_##text,                                                                     \
        .layer = kernel_layer,                                                                     \
        .scratch_bytes = scratch_##text,                                                           \
        .begin = tiles_begin,                                                                      \
        .end = tiles_end,                                                                          \
        .panel_words = words_##text,                                                               \
        .pack = pack_##text,                                                                       \
    };

AMX_KERNEL (bf16, 4, 1, 3e-3)
AMX_KERNEL (bf16x3, 2, 2, 1e-5)
