/* wm_gpu_dense.cuh - versions 2 and 3: what is active, and Dense-1 as a gathered product.

   active  one pass over the convolution's output: bits of activity, from the image alone; the
           constant c of an inactive window is subtracted from the values of active positions, so
           that an inactive one adds nothing (kernels/sparse/wm_sparse.h has the formula).
   dense   W^T is the tensor cores' left factor (128 outputs in 8 tiles of 16), and 8 hits their
           right one. A block: 256 hits, 8 warps of 64 outputs by 64 hits each, 128 accumulators a
           thread; a panel of W (12 kB) and 96 bytes of each hit (24 kB) a stage, up to 5 stages in
           flight. A stage of 8 hits that are all inactive is neither copied nor multiplied; an
           inactive hit beside an active one is filled with zeros, without reading memory.
           Weights lie in the order of the lanes that read them (a load of 16 bytes each). Values
           lie as they come, 96 bytes a hit, but hits 4 to 7 of every 8 have neighbouring 16 bytes
           swapped: so the 8 rows of a matrix lie in 8 different groups of banks. Blocks of one tile
           of hits follow each other over all splits: W stays in the L2 cache (27 MB), and values
           are read from memory about once.

   Bits: a sum's terms come in one order - rows of a split, segments, steps - in one accumulator,
   whatever the hits beside; terms that are skipped are zeros.  */
#ifndef WM_GPU_DENSE_CUH
#define WM_GPU_DENSE_CUH

#include "kernels/cuda/wm_gpu_warp.cuh"

#ifdef __CUDACC__
#define WM_GPU_UNROLL _Pragma ("unroll")
#else
#define WM_GPU_UNROLL
#endif

/* ---- strip ----------------------------------------------------------------------------------- */

WM_GPU_CODE void wm_gpu_strip (const wm_gpu_strip_t *args, float *shared, wm_gpu_at_t at)
{
    (void) shared;
    const uint32_t r = at.block * (at.threads / 32) + at.thread / 32;
    if (r >= args->n_row)
        return;
    const wm_gpu_row_t row = args->row[r];
    for (uint32_t i = at.thread % 32; i < row.count; i += 32) {
        float value = args->source[row.from + i];
        if (!(fabsf (value) <= args->limit))
            value = NAN;
        if (args->half)
            ((uint16_t *) args->image)[row.to + i] = wm_half (value);
        else
            ((float *) args->image)[row.to + i] = value;
    }
}

/* ---- active ---------------------------------------------------------------------------------- */

/* Whether a cell is not the zero level; sets *bad where it is not finite.  */
WM_GPU_CODE bool wm_gpu_active_cell (const wm_gpu_active_t *args, size_t at, bool *bad)
{
    const uint32_t bits =
        args->half ? ((const uint16_t *) args->image)[at] : ((const uint32_t *) args->image)[at];
    const uint32_t top = args->half ? 0x7c00 : 0x7f800000;
    *bad = *bad || (bits & top) == top;
    return bits != args->zero;
}

/* 16 bytes of a position's values, from channel `from` on: minus the constant, or zeros.  */
WM_GPU_CODE void wm_gpu_active_values (const wm_gpu_active_t *args, uint32_t *word, uint32_t from,
                                       bool active)
{
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t to = 0;
        if (active && args->half) {
            const float *c = args->constant + from + 2 * i;
            const float low = wm_half_value ((uint16_t) word[i]) - c[0],
                        high = wm_half_value ((uint16_t) (word[i] >> 16)) - c[1];
            to = wm_half (low) | (uint32_t) wm_half (high) << 16;
        } else if (active) {
            float value;
            memcpy (&value, &word[i], sizeof value);
            value = wm_tf32 (value - args->constant[from + i]);
            memcpy (&to, &value, sizeof to);
        }
        word[i] = to;
    }
}

WM_GPU_CODE void wm_gpu_active (const wm_gpu_active_t *args, float *shared, wm_gpu_at_t at)
{
    (void) shared;
    const uint32_t used = (args->n_col + 31) / 32, lane = at.thread % 32;
    const uint32_t item = at.block * (at.threads / 32) + at.thread / 32;
    if (item >= args->n_row * used)
        return;
    const uint32_t row = item / used, col = item % used * 32, mine = col + lane;
    bool active = false, bad = false;
    for (uint32_t y = 0; y < args->kh && mine < args->n_col; y++)
        for (uint32_t x = 0; x < args->kw; x++)
            active |= wm_gpu_active_cell (args, (size_t) (row + y) * args->in_col + mine + x, &bad);
    const uint32_t bits = wm_gpu_ballot (active && !bad), bad_bits = wm_gpu_ballot (bad);
    if (lane == 0) {
        args->active[(size_t) row * args->n_word + item % used] = bits;
        args->bad[(size_t) row * args->n_word + item % used] = bad_bits;
    }
    if (lane < args->n_word - used && item % used == 0) { /* the spare words are read, too */
        args->active[(size_t) row * args->n_word + used + lane] = 0;
        args->bad[(size_t) row * args->n_word + used + lane] = 0;
    }
    if (!args->constant)
        return;
    const uint32_t each = args->half ? 8 : 4, chunks = args->c_out / each;
    for (uint32_t q = lane; q < 32 * chunks; q += 32) {
        const uint32_t position = q / chunks;
        const bool is_active = bits >> position & 1;
        if (col + position >= args->n_col || !(is_active || args->clear))
            continue;
        uint32_t *word = (uint32_t *) args->value +
                         ((size_t) row * args->n_col + col + position) * chunks * 4 +
                         q % chunks * 4;
        wm_gpu_active_values (args, word, q % chunks * each, is_active);
    }
}

/* ---- dense ----------------------------------------------------------------------------------- */

/* A block's shared memory, behind the stages.  */
typedef struct {
    char *stage;
    uint64_t *live;   /* (rows_split, hits): bits of the positions that are taken */
    uint64_t *range;  /* (segments): bits of the positions that lie in it */
    uint32_t *offset; /* (hits): of the window's first byte, in 16 bytes */
    uint32_t *groups; /* (rows_split, segments): bit g: of hits 8g to 8g + 7 one is taken */
} wm_gpu_dense_shared_t;

WM_GPU_CODE uint32_t wm_gpu_dense_stage_bytes (uint32_t hits)
{
    return WM_GPU_PANEL + hits * WM_GPU_SEGMENT;
}

/* Bytes of shared memory that a launch needs.  */
WM_GPU_CODE uint32_t wm_gpu_dense_bytes (const wm_gpu_dense_t *args, uint32_t hits)
{
    return args->stages * wm_gpu_dense_stage_bytes (hits) + args->rows_split * hits * 8 +
           args->segments * 8 + hits * 4 + args->rows_split * args->segments * 4;
}

WM_GPU_CODE wm_gpu_dense_shared_t wm_gpu_dense_shared (const wm_gpu_dense_t *args, void *shared,
                                                       uint32_t hits)
{
    wm_gpu_dense_shared_t s;
    s.stage = (char *) shared;
    s.live = (uint64_t *) (void *) (s.stage + args->stages * wm_gpu_dense_stage_bytes (hits));
    s.range = s.live + args->rows_split * hits;
    s.offset = (uint32_t *) (s.range + args->segments);
    s.groups = s.offset + hits;
    return s;
}

/* Rows that this block's split has; the last one may have fewer.  */
WM_GPU_CODE uint32_t wm_gpu_dense_rows (const wm_gpu_dense_t *args, uint32_t first)
{
    const uint32_t left = args->patch_row - first;
    return left < args->rows_split ? left : args->rows_split;
}

WM_GPU_CODE void wm_gpu_dense_begin (const wm_gpu_dense_t *args, wm_gpu_dense_shared_t s,
                                     wm_gpu_at_t at, uint32_t first, uint32_t n_row)
{
    const uint32_t hit = args->hit[at.block / args->splits * at.threads + at.thread];
    const uint64_t all = ~UINT64_C (0) >> (64 - args->patch_col);
    for (uint32_t i = at.thread; i < args->segments; i += at.threads) {
        const uint32_t from = i * WM_GPU_SEGMENT / args->position_bytes;
        const uint32_t last = (i * WM_GPU_SEGMENT + WM_GPU_SEGMENT - 1) / args->position_bytes;
        s.range[i] = all << from & (~UINT64_C (0) >> (63 - (last < 63 ? last : 63)));
    }
    s.offset[at.thread] = hit == WM_GPU_NO_PATCH ? 0 : hit * (args->position_bytes / 16);
    for (uint32_t r = 0; r < n_row; r++) {
        uint64_t bits = all;
        const uint32_t row = first + r;
        if (hit == WM_GPU_NO_PATCH)
            bits = 0;
        else if (args->active)
            bits = wm_gpu_bits (args->active + (size_t) (hit / args->n_col + row) * args->n_word,
                                hit % args->n_col, args->patch_col);
        s.live[r * at.threads + at.thread] = bits;
    }
    wm_gpu_meet ();
    for (uint32_t t = at.thread / 32; t < n_row * args->segments; t += at.threads / 32) {
        const uint64_t *live = s.live + t / args->segments * at.threads,
                       range = s.range[t % args->segments];
        uint32_t groups = 0;
        for (uint32_t i = 0; i < at.threads / 32; i++) {
            const uint32_t bits = wm_gpu_ballot ((live[32 * i + at.thread % 32] & range) != 0);
            for (uint32_t g = 0; g < 4; g++)
                groups |= (bits >> 8 * g & 0xff ? 1u : 0u) << (4 * i + g);
        }
        if (at.thread % 32 == 0)
            s.groups[t] = groups;
    }
    wm_gpu_meet ();
}

/* Where chunk c of a hit's 6 lies among them.  */
WM_GPU_CODE uint32_t wm_gpu_swizzle (uint32_t hit, uint32_t c)
{
    return c ^ (hit >> 2 & 1);
}

/* Begins the copies of step t = (row r of the split, segment) to a stage.  */
WM_GPU_CODE void wm_gpu_dense_copy (const wm_gpu_dense_t *args, wm_gpu_dense_shared_t s,
                                    wm_gpu_at_t at, uint32_t first, uint32_t t, char *to)
{
    const uint32_t groups = s.groups[t], lane = at.thread % 32, warp = at.thread / 32;
    if (groups == 0)
        return;
    const uint32_t r = t / args->segments, segment = t % args->segments;
    const char *panel =
        args->weight + ((size_t) (first + r) * args->segments + segment) * WM_GPU_PANEL;
    for (uint32_t i = at.thread; i < WM_GPU_PANEL / 16; i += at.threads)
        wm_gpu_copy16 (to + 16 * i, panel + 16 * i, true);
    const uint64_t range = s.range[segment];
    const uint32_t row_bytes = args->patch_col * args->position_bytes;
    const char *row = args->value + (size_t) (first + r) * args->n_col * args->position_bytes;
    for (uint32_t k = 0; k < 6; k++) { /* a warp's 32 hits, 16 at a time, neighbours coalesced */
        const uint32_t i = lane + k % 3 * 32, hit = 32 * warp + k / 3 * 16 + i / 6, c = i % 6;
        const uint32_t at_byte = segment * WM_GPU_SEGMENT + 16 * c;
        if (!(groups >> (hit / 8) & 1))
            continue;
        const bool there = (s.live[r * at.threads + hit] & range) != 0;
        wm_gpu_copy16 (to + WM_GPU_PANEL + hit * WM_GPU_SEGMENT + 16 * wm_gpu_swizzle (hit, c),
                       row + (size_t) s.offset[hit] * 16 + at_byte, there && at_byte < row_bytes);
    }
}

/* What a thread sums: outputs of its warp's 4 tiles and the checksum's tile, by 8 hits.  */
typedef struct {
    float sum[4][8][4], check[4][4];
} wm_gpu_sums_t;

/* Multiplies a stage: `warp` has 4 of the 8 tiles of outputs, and 64 hits.  */
WM_GPU_CODE void wm_gpu_dense_multiply (const char *panel, uint32_t groups, wm_gpu_at_t at,
                                        bool tf32, wm_gpu_sums_t *sums)
{
    const uint32_t lane = at.thread % 32, tiles = at.thread / 32 % 2, hits = at.thread / 64;
    groups = groups >> 8 * hits & 0xff;
    if (groups == 0)
        return;
    uint32_t a[WM_GPU_STEPS][4][4], e[WM_GPU_STEPS][4];
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < WM_GPU_STEPS; k++) {
        WM_GPU_UNROLL
        for (uint32_t m = 0; m < 4; m++)
            wm_gpu_load16 (a[k][m], panel + ((k * 8 + tiles * 4 + m) * 32 + lane) * 16);
        const uint32_t *check = (const uint32_t *) (const void *) (panel + WM_GPU_CHECK);
        e[k][0] = lane < 16 ? check[(k * 16 + lane) * 2] : 0, e[k][1] = 0;
        e[k][2] = lane < 16 ? check[(k * 16 + lane) * 2 + 1] : 0, e[k][3] = 0;
    }
    const char *row = panel + WM_GPU_PANEL + (hits * 64 + lane % 8) * WM_GPU_SEGMENT;
    WM_GPU_UNROLL
    for (uint32_t j = 0; j < 8; j++) {
        if (!(groups >> j & 1))
            continue;
        uint32_t b[2 * WM_GPU_STEPS];
        wm_gpu_matrix4 (b, row + j * 8 * WM_GPU_SEGMENT + 16 * wm_gpu_swizzle (lane, lane / 8));
        wm_gpu_matrix2 (b + 4, row + j * 8 * WM_GPU_SEGMENT +
                                   16 * wm_gpu_swizzle (lane, 4 + lane / 8 % 2));
        WM_GPU_UNROLL
        for (uint32_t k = 0; k < WM_GPU_STEPS; k++) {
            WM_GPU_UNROLL
            for (uint32_t m = 0; m < 4; m++)
                wm_gpu_mma (tf32, sums->sum[m][j], a[k][m], b + 2 * k);
            if (tiles == j % 2) /* the two warps of these hits share the checksum's steps */
                wm_gpu_mma (tf32, sums->check[j / 2], e[k], b + 2 * k);
        }
    }
}

WM_GPU_CODE void wm_gpu_dense_write (const wm_gpu_dense_t *args, wm_gpu_at_t at,
                                     const wm_gpu_sums_t *sums)
{
    const uint32_t lane = at.thread % 32, tiles = at.thread / 32 % 2, hits = at.thread / 64;
    const uint32_t split = at.block % args->splits, tile = at.block / args->splits;
    float *to = args->partial +
                ((size_t) split * args->rows + tile * at.threads + hits * 64 + 2 * (lane % 4)) *
                    WM_GPU_SUMS;
    WM_GPU_UNROLL
    for (uint32_t j = 0; j < 8; j++) {
        float *hit = to + j * 8 * WM_GPU_SUMS;
        WM_GPU_UNROLL
        for (uint32_t m = 0; m < 4; m++) {
            float *out = hit + tiles * 64 + m * 16 + lane / 4;
            out[0] = sums->sum[m][j][0], out[WM_GPU_SUMS] = sums->sum[m][j][1];
            out[8] = sums->sum[m][j][2], out[WM_GPU_SUMS + 8] = sums->sum[m][j][3];
        }
        if (tiles == j % 2) {
            float *out = hit + WM_GPU_OUTPUTS + lane / 4;
            out[0] = sums->check[j / 2][0], out[WM_GPU_SUMS] = sums->check[j / 2][1];
        }
    }
}

WM_GPU_CODE void wm_gpu_dense (const wm_gpu_dense_t *args, float *shared, wm_gpu_at_t at, bool tf32)
{
    const wm_gpu_dense_shared_t s = wm_gpu_dense_shared (args, shared, at.threads);
    const uint32_t first = at.block % args->splits * args->rows_split;
    const uint32_t n_row = wm_gpu_dense_rows (args, first);
    wm_gpu_dense_begin (args, s, at, first, n_row);
    const uint32_t bytes = wm_gpu_dense_stage_bytes (at.threads), ahead = args->stages - 1;
    const uint32_t n = n_row * args->segments;
    wm_gpu_sums_t sums;
    memset (&sums, 0, sizeof sums);
    uint32_t read = 0, write = ahead; /* stages */
    for (uint32_t t = 0; t < ahead; t++) {
        if (t < n)
            wm_gpu_dense_copy (args, s, at, first, t, s.stage + t * bytes);
        wm_gpu_copy_commit ();
    }
    for (uint32_t t = 0; t < n; t++) {
        wm_gpu_copy_wait (ahead - 1);
        wm_gpu_meet (); /* step t has landed, and no thread reads step t - 1 any more */
        if (t + ahead < n)
            wm_gpu_dense_copy (args, s, at, first, t + ahead, s.stage + write * bytes);
        wm_gpu_copy_commit ();
        wm_gpu_dense_multiply (s.stage + read * bytes, s.groups[t], at, tf32, &sums);
        read = read + 1 == args->stages ? 0 : read + 1;
        write = write + 1 == args->stages ? 0 : write + 1;
    }
    wm_gpu_dense_write (args, at, &sums);
}

#endif
