/* wm_gpu_dense.cuh - the first dense layer(s): a product gathered from the list of active
   positions.

   A block takes a tile of hits and walks over all rows of their windows, a few rows at a time: what
   is active there comes to shared memory first, then one segment after another in a pipeline of
   asynchronous copies, a panel of W and 96 bytes of each hit. A segment of 8 hits that are all
   inactive is neither copied nor multiplied; an inactive hit beside an active one is filled with
   zeros, without reading memory. Three arithmetics:

   half    W^T is the tensor cores' left factor (128 outputs in 8 tiles of 16), and 8 hits their
           right one. 8 warps of 64 outputs by 64 hits each; the sums stay in the tensor cores'
           accumulators throughout.
   split   the same with two halves for a weight and for a value: high high + high low + low high.
           8 warps of 64 outputs by 32 hits. Tensor cores cut off what they add, so that a long sum
           drifts towards 0: each segment begins at 0 and is added to the sum by the thread, which
           rounds.
   fma     float32 throughout, without tensor cores: a warp takes 16 hits, a lane four outputs of
           them; a segment begins at 0 here, too, and 24 lanes sum the checksum's columns.

   Weights lie in the order of the lanes that read them (a load of 16 bytes each). Values lie as
   they come, 96 bytes a hit, but hits 4 to 7 of every 8 have neighbouring 16 bytes swapped: so the
   8 rows of a matrix lie in 8 different groups of banks. Blocks of neighbouring tiles run at about
   the same row, so that W comes from the L2 cache.

   Bits: a hit's terms come in one order - rows, segments, steps - whatever the hits beside; terms
   that are skipped are zeros. No sum is split between blocks.  */
#ifndef WM_GPU_DENSE_CUH
#define WM_GPU_DENSE_CUH

#include "kernels/cuda/wm_gpu_warp.cuh"

typedef enum { WM_GPU_BY_HALF, WM_GPU_BY_SPLIT, WM_GPU_BY_FMA } wm_gpu_by_t;

/* A block's shared memory, behind the stages.  */
typedef struct {
    char *stage;
    uint64_t *live;   /* (rows_group, tile): bits of the positions that are taken */
    uint64_t *range;  /* (segments): bits of the positions that lie in it */
    uint64_t *source; /* (2, tile): of step t at t % 2: where a hit's values are (find) */
    uint32_t *entry;  /* (rows_group, tile): of the window's first active position */
    uint32_t *groups; /* (rows_group, segments): bit g: of hits 8g to 8g + 7 one is taken */
} wm_gpu_dense_shared_t;
#define WM_GPU_SKIPPED (UINT64_C (1) << 63) /* of a source */

/* Halves, or floats, of a weight and of a value.  */
WM_GPU_CODE uint32_t wm_gpu_dense_parts (wm_gpu_by_t by)
{
    return by == WM_GPU_BY_SPLIT ? 2 : 1;
}

/* Threads of a block of `tile` hits.  */
WM_GPU_CODE uint32_t wm_gpu_dense_threads (wm_gpu_by_t by, uint32_t tile)
{
    return by == WM_GPU_BY_HALF ? tile : 2 * tile;
}

WM_GPU_CODE uint32_t wm_gpu_dense_stage_bytes (wm_gpu_by_t by, uint32_t tile)
{
    return wm_gpu_dense_parts (by) * (WM_GPU_PANEL + tile * WM_GPU_SEGMENT);
}

/* Bytes of shared memory that a launch needs.  */
WM_GPU_CODE uint32_t wm_gpu_dense_bytes (const wm_gpu_dense_t *args, wm_gpu_by_t by)
{
    return args->stages * wm_gpu_dense_stage_bytes (by, args->tile) +
           args->rows_group * (args->tile * 12 + args->segments * 4) + args->segments * 8 +
           args->tile * 16;
}

WM_GPU_CODE wm_gpu_dense_shared_t wm_gpu_dense_shared (const wm_gpu_dense_t *args, wm_gpu_by_t by,
                                                       void *shared)
{
    wm_gpu_dense_shared_t s;
    s.stage = (char *) shared;
    s.live =
        (uint64_t *) (void *) (s.stage + args->stages * wm_gpu_dense_stage_bytes (by, args->tile));
    s.range = s.live + args->rows_group * args->tile;
    s.source = s.range + args->segments;
    s.entry = (uint32_t *) (s.source + 2 * args->tile);
    s.groups = s.entry + args->rows_group * args->tile;
    return s;
}

/* ---- what is active -------------------------------------------------------------------------- */

/* The positions that lie in each segment.  */
WM_GPU_CODE void wm_gpu_dense_ranges (const wm_gpu_dense_t *args, wm_gpu_dense_shared_t s,
                                      wm_gpu_at_t at)
{
    for (uint32_t i = at.thread; i < args->segments; i += at.threads) {
        const uint32_t from = i * WM_GPU_CHUNKS / args->position_chunks;
        const uint32_t last = (i * WM_GPU_CHUNKS + WM_GPU_CHUNKS - 1) / args->position_chunks;
        s.range[i] = ~UINT64_C (0) >> (64 - args->patch_col) << from &
                     (~UINT64_C (0) >> (63 - (last < 63 ? last : 63)));
    }
}

/* The first entry from a bit of a word on. A window touches three words at most, an index stands
   only where a word has active positions: this window has one.  */
WM_GPU_CODE uint32_t wm_gpu_dense_entry (const wm_gpu_dense_t *args, size_t word, uint32_t bit)
{
    const uint32_t bits = args->active[word];
    word += bits ? 0 : args->active[word + 1] ? 1 : 2;
    return (args->index[word] & ~WM_GPU_BAD) + wm_gpu_count (bits & ((1u << bit) - 1));
}

/* The tile's hits in n_row rows of their windows from `first` on.  */
WM_GPU_CODE void wm_gpu_dense_look (const wm_gpu_dense_t *args, wm_gpu_dense_shared_t s,
                                    wm_gpu_at_t at, uint32_t first, uint32_t n_row)
{
    for (uint32_t i = at.thread; i < n_row * args->tile; i += at.threads) {
        const uint32_t hit = args->hit[at.block * args->tile + i % args->tile];
        const size_t word = (size_t) (first + i / args->tile) * args->n_word + hit / 32;
        s.live[i] = 0, s.entry[i] = 0;
        if (hit == WM_GPU_NO_PATCH)
            continue;
        s.live[i] = wm_gpu_bits (args->active + word, hit % 32, args->patch_col);
        if (s.live[i])
            s.entry[i] = wm_gpu_dense_entry (args, word, hit % 32);
    }
    wm_gpu_meet ();
    for (uint32_t t = at.thread / 32; t < n_row * args->segments; t += at.threads / 32) {
        const uint64_t *live = s.live + t / args->segments * args->tile,
                       range = s.range[t % args->segments];
        uint32_t groups = 0;
        for (uint32_t i = 0; i < args->tile / 32; i++) {
            const uint32_t bits = wm_gpu_ballot ((live[32 * i + at.thread % 32] & range) != 0);
            for (uint32_t g = 0; g < 4; g++)
                groups |= (bits >> 8 * g & 0xff ? 1u : 0u) << (4 * i + g);
        }
        if (at.thread % 32 == 0)
            s.groups[t] = groups;
    }
    wm_gpu_meet ();
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Where chunk c of a hit's 6 lies among them.  */
WM_GPU_CODE uint32_t wm_gpu_swizzle (uint32_t hit, uint32_t c)
{
    return c ^ (hit >> 2 & 1);
}

/* The position that chunk c of a row belongs to.  */
WM_GPU_CODE uint32_t wm_gpu_dense_position (const wm_gpu_dense_t *args, uint32_t chunk)
{
    return args->position_magic ? wm_gpu_high (chunk, args->position_magic) : chunk;
}

/* Finds the sources of step t, a segment of the row whose hits begin at `row`, one for each hit:
   the entry of the segment's first position (32 bits), then a bit for each of the segment's
   positions that is active; or SKIPPED for 8 hits without any.  */
WM_GPU_CODE void wm_gpu_dense_find (const wm_gpu_dense_t *args, wm_gpu_dense_shared_t s,
                                    wm_gpu_at_t at, uint32_t t, uint32_t row, uint32_t segment)
{
    const uint32_t hit = at.thread;
    if (hit >= args->tile)
        return;
    const uint32_t position = wm_gpu_dense_position (args, segment * WM_GPU_CHUNKS);
    const uint64_t live = s.live[row + hit], before = live & ~(~UINT64_C (0) << position),
                   active = live >> position & ((1u << WM_GPU_CHUNKS) - 1);
    const uint32_t entry = s.entry[row + hit] + wm_gpu_count (before);
    const bool skipped = !(s.groups[t] >> (hit / 8) & 1);
    s.source[t % 2 * args->tile + hit] = skipped ? WM_GPU_SKIPPED : active << 32 | entry;
}

/* Begins the copies of step t, a segment whose sources are found, to a stage: panels, then values.
   `weight` is of the first step.  */
WM_GPU_CODE void wm_gpu_dense_copy (const wm_gpu_dense_t *args, wm_gpu_dense_shared_t s,
                                    wm_gpu_at_t at, wm_gpu_by_t by, const char *weight, uint32_t t,
                                    uint32_t segment, char *to)
{
    const uint32_t parts = wm_gpu_dense_parts (by), panel_bytes = parts * WM_GPU_PANEL;
    if (s.groups[t] == 0)
        return;
    const char *panel = weight + (size_t) t * panel_bytes;
    WM_GPU_UNROLL_4
    for (uint32_t i = at.thread; i < panel_bytes / 16; i += at.threads)
        wm_gpu_copy16 (to + 16 * i, panel + 16 * i, true);
    const uint64_t *source = s.source + t % 2 * args->tile;
    const uint32_t position = wm_gpu_dense_position (args, segment * WM_GPU_CHUNKS);
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < (by == WM_GPU_BY_FMA ? 3 : 6); k++) { /* threads x this = chunks */
        const uint32_t i = at.thread + k * at.threads, hit = i / (WM_GPU_CHUNKS * parts),
                       c = i % WM_GPU_CHUNKS, part = i / WM_GPU_CHUNKS % parts;
        const uint64_t found = source[hit];
        if (found & WM_GPU_SKIPPED)
            continue;
        const uint32_t chunk = segment * WM_GPU_CHUNKS + c, /* of the row */
                       mine = wm_gpu_dense_position (args, chunk),
                       active = (uint32_t) (found >> 32), bit = 1u << (mine - position),
                       entry = (uint32_t) found + wm_gpu_count (active & (bit - 1));
        const uint32_t within = chunk - mine * args->position_chunks;
        const char *from = args->value + (size_t) entry * args->entry_bytes +
                           (part * args->position_chunks + within) * 16;
        const bool there = active & bit;
        wm_gpu_copy16 (to + panel_bytes + (part * args->tile + hit) * WM_GPU_SEGMENT +
                           16 * wm_gpu_swizzle (hit, c),
                       there ? from : args->value, there);
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* What a thread sums. By tensor cores: outputs of its warp's 4 tiles and the checksum's tile, by 8
   hits; by fma: four outputs and a column of the checksum, sum[hit / 8][hit % 8], by 16 hits.  */
typedef struct {
    float sum[4][8][4], check[4][4];
} wm_gpu_sums_t;

/* A step's 16 weights' columns of the checksum, for the tensor cores.  */
WM_GPU_CODE void wm_gpu_dense_check (uint32_t e[4], const char *panel, uint32_t k, uint32_t lane)
{
    const uint32_t *check = (const uint32_t *) (const void *) (panel + WM_GPU_CHECK);
    e[0] = lane < 16 ? check[(k * 16 + lane) * 2] : 0, e[1] = 0;
    e[2] = lane < 16 ? check[(k * 16 + lane) * 2 + 1] : 0, e[3] = 0;
}

/* 8 hits' values of the three steps.  */
WM_GPU_CODE void wm_gpu_dense_values (uint32_t b[2 * WM_GPU_STEPS], const char *row, uint32_t lane)
{
    wm_gpu_matrix4 (b, row + 16 * wm_gpu_swizzle (lane, lane / 8));
    wm_gpu_matrix2 (b + 4, row + 16 * wm_gpu_swizzle (lane, 4 + lane / 8 % 2));
}

/* Multiplies a stage in half: `warp` has 4 of the 8 tiles of outputs, and 64 hits.  */
WM_GPU_CODE void wm_gpu_dense_half (const char *panel, uint32_t groups, wm_gpu_at_t at,
                                    wm_gpu_sums_t *sums)
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
        wm_gpu_dense_check (e[k], panel, k, lane);
    }
    const char *row = panel + WM_GPU_PANEL + (hits * 64 + lane % 8) * WM_GPU_SEGMENT;
    WM_GPU_UNROLL
    for (uint32_t j = 0; j < 8; j++) {
        if (!(groups >> j & 1))
            continue;
        uint32_t b[2 * WM_GPU_STEPS];
        wm_gpu_dense_values (b, row + j * 8 * WM_GPU_SEGMENT, lane);
        WM_GPU_UNROLL
        for (uint32_t k = 0; k < WM_GPU_STEPS; k++) {
            WM_GPU_UNROLL
            for (uint32_t m = 0; m < 4; m++)
                wm_gpu_mma (sums->sum[m][j], a[k][m], b + 2 * k);
            if (tiles == j % 2) /* the two warps of these hits share the checksum's steps */
                wm_gpu_mma (sums->check[j / 2], e[k], b + 2 * k);
        }
    }
}

/* c = a (b + b_low) + a_low b, over the steps of a segment, is added to the sum.  */
WM_GPU_CODE void wm_gpu_dense_add (float sum[4], const uint32_t a[WM_GPU_STEPS][4],
                                   const uint32_t low[WM_GPU_STEPS][4],
                                   const uint32_t b[2 * WM_GPU_STEPS],
                                   const uint32_t b_low[2 * WM_GPU_STEPS])
{
    float c[4] = { 0, 0, 0, 0 };
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < WM_GPU_STEPS; k++) { /* the small ones first */
        wm_gpu_mma (c, low[k], b + 2 * k);
        wm_gpu_mma (c, a[k], b_low + 2 * k);
    }
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < WM_GPU_STEPS; k++)
        wm_gpu_mma (c, a[k], b + 2 * k);
    WM_GPU_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        sum[i] += c[i];
}

/* Multiplies a stage in two halves: `warp` has 4 of the 8 tiles of outputs, and 32 hits. Weights of
   a tile are loaded once for all of them, values once for each tile.  */
WM_GPU_CODE void wm_gpu_dense_split (const char *panel, uint32_t groups, wm_gpu_at_t at,
                                     uint32_t tile, wm_gpu_sums_t *sums)
{
    const uint32_t lane = at.thread % 32, tiles = at.thread / 32 % 2, hits = at.thread / 64;
    groups = groups >> 4 * hits & 0xf;
    if (groups == 0)
        return;
    const char *row = panel + 2 * WM_GPU_PANEL + (hits * 32 + lane % 8) * WM_GPU_SEGMENT;
    uint32_t b[4][2 * WM_GPU_STEPS], b_low[4][2 * WM_GPU_STEPS];
    WM_GPU_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        if (groups >> j & 1) {
            wm_gpu_dense_values (b[j], row + j * 8 * WM_GPU_SEGMENT, lane);
            wm_gpu_dense_values (b_low[j], row + (tile + j * 8) * WM_GPU_SEGMENT, lane);
        }
    WM_GPU_UNROLL
    for (uint32_t m = 0; m < 5; m++) { /* the fifth is the checksum's */
        uint32_t a[WM_GPU_STEPS][4], low[WM_GPU_STEPS][4];
        WM_GPU_UNROLL
        for (uint32_t k = 0; k < WM_GPU_STEPS; k++) {
            const uint32_t at_byte = ((k * 8 + tiles * 4 + m) * 32 + lane) * 16;
            if (m < 4) {
                wm_gpu_load16 (a[k], panel + at_byte);
                wm_gpu_load16 (low[k], panel + WM_GPU_PANEL + at_byte);
            } else {
                wm_gpu_dense_check (a[k], panel, k, lane);
                wm_gpu_dense_check (low[k], panel + WM_GPU_PANEL, k, lane);
            }
        }
        WM_GPU_UNROLL
        for (uint32_t j = 0; j < 4; j++)
            if ((groups >> j & 1) && (m < 4 || tiles == j % 2))
                wm_gpu_dense_add (m < 4 ? sums->sum[m % 4][j] : sums->check[j / 2], a, low, b[j],
                                  b_low[j]);
    }
}

/* Four floats of shared memory.  */
WM_GPU_CODE void wm_gpu_load_floats (float to[4], const char *from)
{
    uint32_t word[4];
    wm_gpu_load16 (word, from);
    memcpy (to, word, sizeof word);
}

/* Multiplies a stage in float32: `warp` has 16 hits, a lane outputs 4 lane and on.  */
WM_GPU_CODE void wm_gpu_dense_fma (const char *panel, uint32_t groups, wm_gpu_at_t at,
                                   wm_gpu_sums_t *sums)
{
    const uint32_t lane = at.thread % 32, hits = at.thread / 32,
                   mine = lane < 24 ? lane : 0; /* hit mine / 3, column mine % 3 */
    groups = groups >> 2 * hits & 3;
    WM_GPU_UNROLL
    for (uint32_t g = 0; g < 2; g++) {
        if (!(groups >> g & 1))
            continue;
        const char *row = panel + WM_GPU_PANEL + (hits * 16 + g * 8) * WM_GPU_SEGMENT;
        float c[8][4] = { { 0 } }, check = 0;
        WM_GPU_UNROLL
        for (uint32_t k = 0; k < WM_GPU_CHUNKS; k++) {
            float weight[4][4], value[4], column[4];
            WM_GPU_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                wm_gpu_load_floats (weight[i], panel + (k * 4 + i) * 512 + lane * 16);
            WM_GPU_UNROLL
            for (uint32_t h = 0; h < 8; h++) {
                wm_gpu_load_floats (value, row + h * WM_GPU_SEGMENT + 16 * wm_gpu_swizzle (h, k));
                WM_GPU_UNROLL
                for (uint32_t i = 0; i < 4; i++) {
                    WM_GPU_UNROLL
                    for (uint32_t o = 0; o < 4; o++)
                        c[h][o] = fmaf (value[i], weight[i][o], c[h][o]);
                }
            }
            wm_gpu_load_floats (value, row + mine / 3 * WM_GPU_SEGMENT +
                                           16 * wm_gpu_swizzle (mine / 3, k));
            wm_gpu_load_floats (column, panel + WM_GPU_CHECK + (k * 4 + mine % 3) * 16);
            WM_GPU_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                check = fmaf (value[i], column[i], check);
        }
        WM_GPU_UNROLL
        for (uint32_t h = 0; h < 8; h++) {
            WM_GPU_UNROLL
            for (uint32_t o = 0; o < 4; o++)
                sums->sum[g][h][o] += c[h][o];
        }
        sums->check[g][0] += check;
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The tensor cores' sums; n8: eights of hits a warp.  */
WM_GPU_CODE void wm_gpu_dense_write (const wm_gpu_dense_t *args, wm_gpu_at_t at, uint32_t n8,
                                     const wm_gpu_sums_t *sums)
{
    const uint32_t lane = at.thread % 32, tiles = at.thread / 32 % 2, hits = at.thread / 64;
    const float by = args->unscale;
    float *to =
        args->sum + (size_t) (at.block * args->tile + hits * 8 * n8 + 2 * (lane % 4)) * WM_GPU_SUMS;
    WM_GPU_UNROLL
    for (uint32_t j = 0; j < n8; j++) {
        float *hit = to + j * 8 * WM_GPU_SUMS;
        WM_GPU_UNROLL
        for (uint32_t m = 0; m < 4; m++) {
            float *out = hit + tiles * 64 + m * 16 + lane / 4;
            out[0] = by * sums->sum[m][j][0], out[WM_GPU_SUMS] = by * sums->sum[m][j][1];
            out[8] = by * sums->sum[m][j][2], out[WM_GPU_SUMS + 8] = by * sums->sum[m][j][3];
        }
        if (tiles == j % 2 && lane < 12) { /* columns 0 to 2 */
            float *out = hit + WM_GPU_OUTPUTS + lane / 4;
            out[0] = by * sums->check[j / 2][0], out[WM_GPU_SUMS] = by * sums->check[j / 2][1];
        }
    }
}

WM_GPU_CODE void wm_gpu_dense_write_floats (const wm_gpu_dense_t *args, wm_gpu_at_t at,
                                            const wm_gpu_sums_t *sums)
{
    const uint32_t lane = at.thread % 32;
    float *to = args->sum + (size_t) (at.block * args->tile + at.thread / 32 * 16) * WM_GPU_SUMS;
    WM_GPU_UNROLL
    for (uint32_t g = 0; g < 2; g++, to += 8 * WM_GPU_SUMS) {
        WM_GPU_UNROLL
        for (uint32_t h = 0; h < 8; h++)
            wm_gpu_write16 (to + h * WM_GPU_SUMS + 4 * lane, sums->sum[g][h]);
        if (lane < 24)
            to[lane / 3 * WM_GPU_SUMS + WM_GPU_OUTPUTS + lane % 3] = sums->check[g][0];
    }
}

/* ---- a block --------------------------------------------------------------------------------- */

WM_GPU_CODE void wm_gpu_dense_multiply (const wm_gpu_dense_t *args, const char *stage,
                                        uint32_t groups, wm_gpu_at_t at, wm_gpu_by_t by,
                                        wm_gpu_sums_t *sums)
{
    if (by == WM_GPU_BY_HALF)
        wm_gpu_dense_half (stage, groups, at, sums);
    else if (by == WM_GPU_BY_SPLIT)
        wm_gpu_dense_split (stage, groups, at, args->tile, sums);
    else
        wm_gpu_dense_fma (stage, groups, at, sums);
}

/* n_row rows from `first` on, which were looked at.  */
WM_GPU_CODE void wm_gpu_dense_rows (const wm_gpu_dense_t *args, wm_gpu_dense_shared_t s,
                                    wm_gpu_at_t at, wm_gpu_by_t by, uint32_t first, uint32_t n_row,
                                    wm_gpu_sums_t *sums)
{
    const uint32_t bytes = wm_gpu_dense_stage_bytes (by, args->tile), ahead = args->stages - 1,
                   n = n_row * args->segments;
    const char *weight =
        args->weight + (size_t) first * args->segments * wm_gpu_dense_parts (by) * WM_GPU_PANEL;
    uint32_t read = 0, write = 0;  /* stages */
    uint32_t row = 0, segment = 0; /* of the step that is copied, then of the one found */
    wm_gpu_dense_find (args, s, at, 0, row, segment);
    for (uint32_t t = 0; t < n + ahead; t++) {
        wm_gpu_copy_wait (ahead - 1);
        wm_gpu_meet (); /* step t - ahead has landed, no thread reads the one before any more; the
                           sources of step t are written, those of step t - 1 are read */
        if (t < n)
            wm_gpu_dense_copy (args, s, at, by, weight, t, segment, s.stage + write * bytes);
        wm_gpu_copy_commit ();
        write = write + 1 == args->stages ? 0 : write + 1;
        if (++segment == args->segments)
            segment = 0, row += args->tile;
        if (t + 1 < n)
            wm_gpu_dense_find (args, s, at, t + 1, row, segment);
        if (t < ahead)
            continue;
        wm_gpu_dense_multiply (args, s.stage + read * bytes, s.groups[t - ahead], at, by, sums);
        read = read + 1 == args->stages ? 0 : read + 1;
    }
    wm_gpu_meet (); /* no thread reads what the next rows overwrite */
}

WM_GPU_CODE void wm_gpu_dense (const wm_gpu_dense_t *args, float *shared, wm_gpu_at_t at,
                               wm_gpu_by_t by)
{
    const wm_gpu_dense_shared_t s = wm_gpu_dense_shared (args, by, shared);
    wm_gpu_sums_t sums;
    memset (&sums, 0, sizeof sums);
    if (args->hit[at.block * args->tile] == WM_GPU_NO_PATCH)
        return; /* hits fill a launch from its first tile on */
    wm_gpu_dense_ranges (args, s, at);
    for (uint32_t first = 0; first < args->patch_row; first += args->rows_group) {
        const uint32_t left = args->patch_row - first,
                       n_row = left < args->rows_group ? left : args->rows_group;
        wm_gpu_dense_look (args, s, at, first, n_row);
        wm_gpu_dense_rows (args, s, at, by, first, n_row, &sums);
    }
    if (by == WM_GPU_BY_FMA)
        wm_gpu_dense_write_floats (args, at, &sums);
    else
        wm_gpu_dense_write (args, at, by == WM_GPU_BY_HALF ? 8 : 4, &sums);
}

#endif
