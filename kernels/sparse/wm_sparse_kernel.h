/* wm_sparse_kernel.h - the loops of the exact-sparse engine, compiled once per instruction set.

   The heart is dense_tile. Two ways were tried for the roots:
     v1, 6 cells x 64 outputs in registers, all filters: FMA-bound, 14.5 k hits/s a core (Zen 4).
     v2, 1 cell x 128 outputs, only the filters whose value is not 0: half the FMAs, at one load an
     FMA, which these cores just sustain; 21 k. This is v2. The weights of one position (48 x 128)
     stay in L1 while all cells of a block that are live there are worked off.

   A file that includes this defines first what follows; in brackets: if it differs from fp32.  */
/* clang-format off
   NAME           the table is wm_sparse_kernel_NAME
   LANES, vec     a vector of LANES floats
   CONV_VECS      accumulator vectors a position in kernel_conv: WM_SPARSE_POSITIONS * (this + 1)
                  registers and one more
   V_LOAD V_STORE 64-byte aligned
   V_SET1         from memory; moves any 32 bits unchanged
   V_ADD V_SUB V_FMA (a, b, c) = a b + c
   V_RELU         keeps NaN
   V_KEEP         keeps a vector in a register: gcc would load one that is used several times again
   V_NONZERO      bit l set where lane l is not 0 (NaN is not)
   [KERNEL_LIST   list_panel is defined]
   [UNIT          filters in one 32-bit word of a slot]
   [FUSE          1 or 2: positions taken together, whose weights fit L1 side by side]
   [V_DOT         (x, w, c) = c + the products of a word's filters]
   [V_WHOLE       (c, s, x) = x + s c: sums of a position are integers c that begin at V_ZERO; its
                  slot ends with their scale s, SLOT_EXTRA bytes for that]
   [FULL_CELLS    cells that dense_full takes together, and]
   [FULL_VECS     vectors of their outputs: FULL_CELLS * (this + 1) registers and one more]
   [KERNEL_STORE  kernel_store is defined]
   [KERNEL_MORE   further members of the table]
   [KERNEL_SHARED no store, roots and table: another file defines them]
   [ISA_TEXT, PRECISION_TEXT, OFF: of the table]
   clang-format on */
#include "kernels/model/wm_act.h"
#include "kernels/sparse/wm_sparse.h"

#ifndef UNIT
#define UNIT 1
#define FUSE 1
#define V_DOT V_FMA
#endif

#ifndef SLOT_EXTRA
#define SLOT_EXTRA 0
#endif

#define INLINE static inline __attribute__ ((always_inline))

/* ---- convolution ----------------------------------------------------------------------------- */

INLINE void conv_tile (const wm_sparse_conv_t *conv, const float *const *span, uint32_t first,
                       float *out, const int n_vec)
{
    vec sum[WM_SPARSE_POSITIONS][CONV_VECS];
    const float *weight = conv->weight + first;
    const uint32_t n_span = conv->n_span, n = conv->span, c_pad = conv->c_pad;
#pragma GCC unroll 4
    for (int p = 0; p < WM_SPARSE_POSITIONS; p++)
#pragma GCC unroll 4
        for (int v = 0; v < n_vec; v++)
            sum[p][v] = V_LOAD (conv->bias + first + v * LANES);
    for (uint32_t s = 0; s < n_span; s++) {
        const float *x0 = span[s], *x1 = span[n_span + s], *x2 = span[2 * n_span + s],
                    *x3 = span[3 * n_span + s];
        for (uint32_t i = 0; i < n; i++, weight += c_pad) {
            vec x[WM_SPARSE_POSITIONS] = { V_SET1 (x0 + i), V_SET1 (x1 + i), V_SET1 (x2 + i),
                                           V_SET1 (x3 + i) };
#pragma GCC unroll 4
            for (int v = 0; v < n_vec; v++) {
                vec w = V_LOAD (weight + v * LANES);
                V_KEEP (w);
#pragma GCC unroll 4
                for (int p = 0; p < WM_SPARSE_POSITIONS; p++)
                    sum[p][v] = V_FMA (x[p], w, sum[p][v]);
            }
        }
    }
#pragma GCC unroll 4
    for (int p = 0; p < WM_SPARSE_POSITIONS; p++)
#pragma GCC unroll 4
        for (int v = 0; v < n_vec; v++)
            V_STORE (out + (size_t) p * c_pad + first + v * LANES, sum[p][v]);
}

INLINE void finish (const wm_sparse_conv_t *conv, float *out)
{
    for (uint32_t p = 0; p < WM_SPARSE_POSITIONS; p++, out += conv->c_pad) {
        if (conv->act != WM_ACT_RELU && conv->act != WM_ACT_NONE)
            wm_sparse_activate_each (conv->act, conv->bend, out, conv->c_pad);
        for (uint32_t k = 0; k < conv->c_pad; k += LANES) {
            vec v = V_LOAD (out + k);
            if (conv->act == WM_ACT_RELU)
                v = V_RELU (v);
            V_STORE (out + k, V_SUB (v, V_LOAD (conv->reference + k)));
        }
    }
}

static void kernel_conv (const wm_sparse_conv_t *conv, const float *const *span, float *out)
{
    uint32_t left = conv->c_pad / LANES;
    for (uint32_t first = 0; left > 0;) {
        uint32_t n_vec = left < CONV_VECS ? left : CONV_VECS;
        switch (n_vec) {
#if CONV_VECS > 3
        case 4:
            conv_tile (conv, span, first, out, 4);
            break;
#endif
#if CONV_VECS > 2
        case 3:
            conv_tile (conv, span, first, out, 3);
            break;
#endif
        case 2:
            conv_tile (conv, span, first, out, 2);
            break;
        default:
            conv_tile (conv, span, first, out, 1);
        }
        first += n_vec * LANES;
        left -= n_vec;
    }
    finish (conv, out);
}

#if !defined KERNEL_STORE && !defined KERNEL_SHARED
static void kernel_store (const float *value, uint32_t c_out, uint32_t c_pad, void *slot,
                          uint64_t *mask)
{
    for (uint32_t m = 0; m < (c_out + 63) / 64; m++)
        mask[m] = 0;
    for (uint32_t k = 0; k < c_pad; k += LANES) {
        vec v = V_LOAD (value + k);
        V_STORE ((float *) slot + k, v);
        mask[k / 64] |= (uint64_t) V_NONZERO (v) << k % 64;
    }
    if (c_out % 64)
        mask[c_out / 64] &= (UINT64_C (1) << c_out % 64) - 1;
}
#endif

/* ---- roots ----------------------------------------------------------------------------------- */

#ifndef KERNEL_SHARED
/* Accumulates the stored values of one position.  */
INLINE void dense_tile (const float *value, const uint64_t *mask, uint32_t n_mask,
                        const float *weight, size_t n_pad, vec *sum, const int n_vec)
{
    for (uint32_t m = 0; m < n_mask; m++, value += 64, weight += 64 * n_pad)
        for (uint64_t bits = mask[m]; bits; bits &= bits - 1) {
            size_t k = (size_t) __builtin_ctzll (bits);
            const float *w = weight + k * n_pad;
            vec x = V_SET1 (value + k);
#pragma GCC unroll 8
            for (int v = 0; v < n_vec; v++)
                sum[v] = V_DOT (x, V_LOAD (w + v * LANES), sum[v]);
        }
}

#ifdef V_WHOLE
INLINE const float *slot_scale (const wm_sparse_values_t *values, const float *value)
{
    return (const float *) ((const char *) value + values->stride_bytes - SLOT_EXTRA);
}
#endif

/* sum += W_pos^T v of a slot.  */
INLINE void dense_slot (const wm_sparse_values_t *values, size_t slot, const float *weight,
                        size_t n_pad, vec *sum, const int n_vec)
{
    const float *value = (const float *) (values->value + slot * values->stride_bytes);
    const uint64_t *mask = values->mask + slot * values->n_mask;
#ifdef V_WHOLE
    vec whole[8], scale = V_SET1 (slot_scale (values, value));
#pragma GCC unroll 8
    for (int v = 0; v < n_vec; v++)
        whole[v] = V_ZERO;
    dense_tile (value, mask, values->n_mask, weight, n_pad, whole, n_vec);
#pragma GCC unroll 8
    for (int v = 0; v < n_vec; v++)
        sum[v] = V_WHOLE (whole[v], scale, sum[v]);
#else
    dense_tile (value, mask, values->n_mask, weight, n_pad, sum, n_vec);
#endif
}

typedef struct {
    const wm_sparse_values_t *values;
    const wm_sparse_list_t *list;
    const float *weight, *base;
    float *row;
    size_t n_pad, row_stride;
    size_t weight_step;  /* from one position's weights to the next one's */
    const char *coming;  /* weights to prefetch to L2 ... */
    size_t coming_bytes; /* ... with each entry */
} dense_t;

INLINE void prefetch (const dense_t *d, uint32_t g, const int n_vec)
{
    const wm_sparse_values_t *values = d->values;
    const size_t slot = d->list->slot[g + WM_SPARSE_AHEAD];
    const char *value = values->value + slot * values->stride_bytes;
    const float *row = d->row + d->list->cell[g + WM_SPARSE_AHEAD] * d->row_stride;
    for (size_t b = 0; b < d->coming_bytes; b += 64)
        __builtin_prefetch (d->coming + g * d->coming_bytes + b, 0, 2);
    for (size_t b = 0; b < FUSE * values->stride_bytes; b += 64)
        __builtin_prefetch (value + b);
    __builtin_prefetch (values->mask + slot * values->n_mask);
#pragma GCC unroll 8
    for (int v = 0; v < n_vec * LANES; v += 16)
        __builtin_prefetch (row + v, 1);
}

INLINE void dense_list (const dense_t *d, const bool has_base, const int n_vec)
{
    for (uint32_t g = 0; g < d->list->n; g++) {
        size_t slot = d->list->slot[g];
        float *row = d->row + d->list->cell[g] * d->row_stride;
        vec sum[8];
        prefetch (d, g, n_vec);
#pragma GCC unroll 8
        for (int v = 0; v < n_vec; v++)
            sum[v] = V_LOAD (row + v * LANES);
#pragma GCC unroll 2
        for (int f = 0; f < FUSE; f++) {
            if (FUSE > 1 && !(d->list->live[g] >> f & 1))
                continue;
#pragma GCC unroll 8
            for (int v = 0; v < n_vec && has_base; v++)
                sum[v] = V_ADD (sum[v], V_LOAD (d->base + (size_t) f * d->n_pad + v * LANES));
            dense_slot (d->values, slot, d->weight + (size_t) f * d->weight_step, d->n_pad, sum,
                        n_vec);
            slot++;
        }
#pragma GCC unroll 8
        for (int v = 0; v < n_vec; v++)
            V_STORE (row + v * LANES, sum[v]);
    }
}

/* What follows is for values that are hardly ever 0 (noise, activations other than ReLU): several
   cells share a load of the weights. A zero that is not skipped changes no bit of a sum.  */
#ifdef FULL_CELLS
typedef struct {
    const float *value[FULL_CELLS];
#ifdef V_WHOLE
    const float *scale[FULL_CELLS];
#endif
    float *row[FULL_CELLS];
    uint32_t n;
} full_t;

INLINE vec full_begin (const float *row, const float *base)
{
    return base ? V_ADD (V_LOAD (row), V_LOAD (base)) : V_LOAD (row);
}

INLINE void full_tile (const full_t *full, const float *base, const float *weight, size_t n_pad,
                       uint32_t words, const int n_vec)
{
    vec sum[FULL_CELLS][FULL_VECS];
#pragma GCC unroll 4
    for (int h = 0; h < FULL_CELLS; h++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vec; v++)
#ifdef V_WHOLE
            sum[h][v] = V_ZERO;
#else
            sum[h][v] = full_begin (full->row[h] + v * LANES, base ? base + v * LANES : NULL);
#endif
    for (uint32_t k = 0; k < words; k++, weight += n_pad) {
        vec x[FULL_CELLS];
#pragma GCC unroll 4
        for (int h = 0; h < FULL_CELLS; h++)
            x[h] = V_SET1 (full->value[h] + k);
#pragma GCC unroll 8
        for (int v = 0; v < n_vec; v++) {
            vec w = V_LOAD (weight + v * LANES);
            V_KEEP (w);
#pragma GCC unroll 4
            for (int h = 0; h < FULL_CELLS; h++)
                sum[h][v] = V_DOT (x[h], w, sum[h][v]);
        }
    }
#ifdef V_WHOLE
#pragma GCC unroll 4
    for (int h = 0; h < FULL_CELLS; h++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vec; v++)
            sum[h][v] =
                V_WHOLE (sum[h][v], V_SET1 (full->scale[h]),
                         full_begin (full->row[h] + v * LANES, base ? base + v * LANES : NULL));
#endif
#pragma GCC unroll 4
    for (int h = 0; h < FULL_CELLS; h++)
#pragma GCC unroll 8
        for (int v = 0; v < n_vec; v++)
            V_STORE (full->row[h] + v * LANES, sum[h][v]);
}

/* The cells collected so far; where some are missing, their places compute a cell twice.  */
static void full_cells (full_t *full, const float *base, const float *weight, size_t n_pad,
                        uint32_t words)
{
    for (uint32_t h = full->n; h < FULL_CELLS; h++) {
        full->value[h] = full->value[0], full->row[h] = full->row[0];
#ifdef V_WHOLE
        full->scale[h] = full->scale[0];
#endif
    }
    for (uint32_t left = (uint32_t) n_pad / LANES; left > 0;) {
        uint32_t n_vec = left >= FULL_VECS ? FULL_VECS : 1;
        if (n_vec == FULL_VECS)
            full_tile (full, base, weight, n_pad, words, FULL_VECS);
        else
            full_tile (full, base, weight, n_pad, words, 1);
        for (uint32_t h = 0; h < FULL_CELLS; h++)
            full->row[h] += n_vec * LANES;
        weight += n_vec * LANES, base = base ? base + n_vec * LANES : NULL;
        left -= n_vec;
    }
    full->n = 0;
}

static void dense_full (const dense_t *d, uint32_t words)
{
    const wm_sparse_list_t *list = d->list;
    for (int f = 0; f < FUSE; f++) {
        const float *base = d->base ? d->base + (size_t) f * d->n_pad : NULL;
        const float *weight = d->weight + (size_t) f * d->weight_step;
        full_t full = { .n = 0 };
        for (uint32_t g = 0; g < list->n; g++) {
            for (size_t b = 0; f == 0 && b < d->coming_bytes; b += 64)
                __builtin_prefetch (d->coming + g * d->coming_bytes + b, 0, 2);
            if (FUSE > 1 && !(list->live[g] >> f & 1))
                continue;
            size_t slot = list->slot[g] + (f > 0 ? list->live[g] & 1 : 0);
            full.value[full.n] =
                (const float *) (d->values->value + slot * d->values->stride_bytes);
#ifdef V_WHOLE
            full.scale[full.n] = slot_scale (d->values, full.value[full.n]);
#endif
            full.row[full.n++] = d->row + list->cell[g] * d->row_stride;
            if (full.n == FULL_CELLS)
                full_cells (&full, base, weight, d->n_pad, words);
        }
        if (full.n > 0)
            full_cells (&full, base, weight, d->n_pad, words);
    }
}
#endif

static void kernel_dense (const wm_sparse_root_t *root, uint32_t panel, uint32_t c_out,
                          const wm_sparse_values_t *values, const wm_sparse_list_t *list,
                          float *row, size_t row_stride)
{
    const float *weight = root->packed ? (const float *) root->packed : root->weight;
    const size_t step = (size_t) (c_out + UNIT - 1) / UNIT * root->n_pad;
    dense_t d = {
        .values = values,
        .list = list,
        .weight = weight + panel * FUSE * step,
        .base = root->base ? root->base + (size_t) panel * FUSE * root->n_pad : NULL,
        .row = row + root->offset,
        .n_pad = root->n_pad,
        .row_stride = row_stride,
        .weight_step = step,
    };
    /* The next weights come from memory while these are at work.  */
    const size_t bytes = FUSE * step * sizeof (float);
    d.coming = (const char *) d.weight + bytes;
    d.coming_bytes = (bytes / list->n + 63) / 64 * 64;
#ifdef FULL_CELLS
    if (values->full) {
        dense_full (&d, (c_out + UNIT - 1) / UNIT);
        return;
    }
#endif
    for (uint32_t left = root->n_pad / LANES; left > 0;) {
        uint32_t n_vec = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        switch (n_vec) {
        case 8:
            d.base ? dense_list (&d, true, 8) : dense_list (&d, false, 8);
            break;
        case 4:
            d.base ? dense_list (&d, true, 4) : dense_list (&d, false, 4);
            break;
        case 2:
            d.base ? dense_list (&d, true, 2) : dense_list (&d, false, 2);
            break;
        default:
            d.base ? dense_list (&d, true, 1) : dense_list (&d, false, 1);
        }
        d.weight += n_vec * LANES;
        d.row += n_vec * LANES;
        if (d.base)
            d.base += n_vec * LANES;
        d.coming_bytes = 0;
        left -= n_vec;
    }
}

static void kernel_fold (float *total, float *row, size_t n)
{
    const float zero = 0;
    for (size_t i = 0; i < n; i += LANES) {
        V_STORE (total + i, V_ADD (V_LOAD (total + i), V_LOAD (row + i)));
        V_STORE (row + i, V_SET1 (&zero));
    }
}
#endif

/* ---- the rest -------------------------------------------------------------------------------- */

static uint64_t kernel_masks (const wm_sparse_map_t *map, const wm_sparse_cell_t *cell,
                              const uint64_t *order, uint32_t n, uint32_t row, uint32_t col,
                              uint64_t valid, uint64_t *mask, uint32_t *slot)
{
    uint64_t any = 0;
    for (uint32_t h = 0; h < n; h++) {
        const wm_sparse_cell_t *c = cell + (uint32_t) order[h];
        mask[h] = wm_sparse_map_bits (map, c->row + row, c->col + col) & valid;
        slot[h] = wm_sparse_map_rank (map, c->row + row, c->col + col);
        any |= mask[h];
    }
    for (uint32_t h = n; h % 16; h++)
        mask[h] = 0;
    return any;
}

static void kernel_layer (const wm_sparse_layer_t *layer, const float *x, float *y)
{
    for (uint32_t first = 0; first < layer->n_pad; first += 16) {
        const float *weight = layer->weight + first;
        vec sum[16 / LANES];
#pragma GCC unroll 4
        for (int v = 0; v < 16 / LANES; v++)
            sum[v] = V_LOAD (layer->bias + first + v * LANES);
        for (uint32_t k = 0; k < layer->n_in; k++, weight += layer->n_pad) {
            vec in = V_SET1 (x + k);
#pragma GCC unroll 4
            for (int v = 0; v < 16 / LANES; v++)
                sum[v] = V_FMA (in, V_LOAD (weight + v * LANES), sum[v]);
        }
#pragma GCC unroll 4
        for (int v = 0; v < 16 / LANES; v++)
            V_STORE (y + first + v * LANES, sum[v]);
    }
}

#ifndef KERNEL_LIST
INLINE void list_panel (const uint64_t *mask, uint32_t *slot, uint32_t n, uint32_t bit,
                        wm_sparse_list_t *list, const uint32_t fuse)
{
    uint32_t count = 0;
    for (uint32_t h = 0; h < n; h++) {
        uint32_t live = (uint32_t) (mask[h] >> bit) & ((1u << fuse) - 1);
        list->cell[count] = h;
        list->slot[count] = slot[h];
        list->live[count] = live;
        count += live != 0;
        slot[h] += (uint32_t) __builtin_popcount (live);
    }
    list->n = count;
}
#endif

#ifndef KERNEL_SHARED
static void kernel_list (const uint64_t *mask, uint32_t *slot, uint32_t n, uint32_t bit,
                         wm_sparse_list_t *list)
{
    list_panel (mask, slot, n, bit, list, FUSE);
}

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF (name)
#define JOIN_OF(a, b) a##b
#define JOIN(a, b) JOIN_OF (a, b)

#ifndef ISA_TEXT
#define ISA_TEXT TEXT (NAME)
#define PRECISION_TEXT "fp32"
#define OFF 2e-6
#endif

const wm_sparse_kernel_t JOIN (wm_sparse_kernel_, NAME) = { .isa = ISA_TEXT,
                                                            .precision = PRECISION_TEXT,
                                                            .off = OFF,
                                                            .unit = UNIT,
                                                            .slot_extra = SLOT_EXTRA,
                                                            .fuse = FUSE,
                                                            .cells = 1536,
                                                            .skips = true,
                                                            .conv = kernel_conv,
                                                            .store = kernel_store,
                                                            .masks = kernel_masks,
                                                            .list = kernel_list,
                                                            .dense = kernel_dense,
                                                            .fold = kernel_fold,
                                                            .layer = kernel_layer,
#ifdef KERNEL_MORE
                                                            KERNEL_MORE
#endif
};
#endif
