/* wm_gpu_dense.cuh - the first dense layer(s): a product gathered from the list of active
   positions.

   A block takes a tile of hits and walks over all rows of their windows, a few rows at a time: what
   is active there comes to shared memory first, then one segment after another in a pipeline of
   asynchronous copies, a panel of W and 96 bytes of each hit. A segment of 8 hits that are all
   inactive is neither copied nor multiplied; an inactive hit beside an active one is filled with
   zeros, without reading memory. Three arithmetics:

   half    W^T is the tensor cores' left factor (128 outputs in 8 tiles of 16), and 8 hits their
           right one. 16 warps of 32 outputs by 64 hits each; the sums stay in the tensor cores'
           accumulators throughout.
   split   the same with two halves for a weight and for a value: high high + high low + low high.
           8 warps of 64 outputs by 32 hits. Tensor cores cut off what they add, so that a long sum
           drifts towards 0: each segment begins at 0 and is added to the sum by the thread, which
           rounds.
   fma     float32 throughout, without tensor cores, in the order of kernels/README.md: a warp takes
           16 hits, a lane four outputs of them. A sum begins at 0 with a row of the window, goes on
           through all of its segments, and is written at its end: so a sum is a row's, which is
           what the contract calls a band. 24 lanes sum the checksum's columns.

   Weights lie in the order of the lanes that read them (a load of 16 bytes each). Values lie as
   they come, 96 bytes a hit, 112 from one hit to the next: so the 8 rows of a matrix lie in 8
   different groups of banks. Blocks of neighbouring tiles run at about
   the same row, so that W comes from the L2 cache.

   Bits: a hit's terms come in one order - rows, segments, steps - whatever the hits beside; terms
   that are skipped are zeros, which change nothing but the sign of a zero, and no sum that the tail
   returns has one of those. A window's rows are cut into the same bands whatever the launch, a
   block for each; the tail adds their sums, or in float32 those of the rows, in order.  */
#ifndef WM_GPU_DENSE_CUH
#define WM_GPU_DENSE_CUH

#include "kernels/gpu/wm_gpu_warp.cuh"

typedef enum { WM_GPU_BY_HALF, WM_GPU_BY_SPLIT, WM_GPU_BY_FMA } wm_gpu_by_t;

/* A block's shared memory, behind the stages.  */
typedef struct {
    wm_gpu_near_t stage;
    uint64_t *live;   /* (rows_group, tile): bits of the positions that are taken */
    uint64_t *range;  /* (segments): bits of the positions that lie in it */
    uint32_t *entry;  /* (rows_group, tile): of the window's first active position */
    uint32_t *groups; /* (rows_group, segments): bit g: of hits 8g to 8g + 7 one is taken */
} wm_gpu_dense_shared_t;

/* Halves, or floats, of a weight and of a value.  */
WM_GPU_CODE uint32_t wm_gpu_dense_parts (wm_gpu_by_t by)
{
    return by == WM_GPU_BY_SPLIT ? 2 : 1;
}

WM_GPU_CODE uint32_t wm_gpu_dense_stage_bytes (wm_gpu_by_t by, uint32_t tile)
{
    return wm_gpu_dense_parts (by) * (WM_GPU_PANEL + tile * WM_GPU_PITCH);
}

/* Bytes of shared memory that a launch needs.  */
WM_GPU_CODE uint32_t wm_gpu_dense_bytes (const wm_gpu_dense_t *args, wm_gpu_by_t by)
{
    return args->stages * wm_gpu_dense_stage_bytes (by, args->tile) +
           args->rows_group * (args->tile * 12 + args->segments * 4) + args->segments * 8;
}

WM_GPU_CODE wm_gpu_dense_shared_t wm_gpu_dense_shared (const wm_gpu_dense_t *args, wm_gpu_by_t by,
                                                       void *shared)
{
    wm_gpu_dense_shared_t s;
    s.stage = wm_gpu_near (shared);
    s.live = (uint64_t *) (void *) ((char *) shared +
                                    args->stages * wm_gpu_dense_stage_bytes (by, args->tile));
    s.range = s.live + args->rows_group * args->tile;
    s.entry = (uint32_t *) (s.range + args->segments);
    s.groups = s.entry + args->rows_group * args->tile;
    return s;
}

/* ---- bands ----------------------------------------------------------------------------------- */

/* What of a window's rows a block takes, where the sums of its first hit go, and how far behind
   them those of the next row, where each row has its own.  */
typedef struct {
    uint32_t first, end;
    float *sum;
    size_t next;
} wm_gpu_band_t;

/* A block's band; at->block becomes its tile.  */
WM_GPU_CODE wm_gpu_band_t wm_gpu_dense_band (const wm_gpu_dense_t *args, wm_gpu_at_t *at,
                                             bool by_row)
{
    const uint32_t band = at->block % args->bands, tiles = at->blocks / args->bands;
    wm_gpu_band_t self = { args->patch_row * band / args->bands,
                           args->patch_row * (band + 1) / args->bands, args->sum,
                           (size_t) tiles * args->tile * WM_GPU_SUMS };
    at->block /= args->bands;
    self.sum += (by_row ? self.first : band) * self.next +
                (size_t) at->block * args->tile * WM_GPU_SUMS;
    return self;
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

/* Begins the copies of a step to a stage: the segment's panels, then its values of the hits whose
   row begins at `row`. `groups` of them are taken. A thread has half of a hit's chunks.  */
WM_GPU_CODE void wm_gpu_dense_copy (const wm_gpu_dense_t *args, wm_gpu_dense_shared_t s,
                                    wm_gpu_at_t at, wm_gpu_by_t by, const char *panel, uint32_t row,
                                    uint32_t segment, uint32_t groups, wm_gpu_near_t to)
{
    const uint32_t parts = wm_gpu_dense_parts (by), panel_bytes = parts * WM_GPU_PANEL,
                   pc = args->position_chunks, hit = at.thread / 2,
                   first = at.thread % 2 * (WM_GPU_CHUNKS / 2);
    if (groups == 0)
        return;
    for (uint32_t i = 16 * at.thread; i < panel_bytes; i += 16 * at.threads)
        wm_gpu_copy16 (to + i, panel + i, true);
    if (!(groups >> (hit / 8) & 1))
        return;
    const uint64_t live = s.live[row + hit];
    const uint32_t entry = s.entry[row + hit];
    uint32_t chunk = segment * WM_GPU_CHUNKS + first,
             mine = args->position_magic ? wm_gpu_high (chunk, args->position_magic) : chunk,
             within = chunk - mine * pc;
    to += panel_bytes + hit * WM_GPU_PITCH + 16 * first;
    const char *from = args->value;
    bool there = false, next = true; /* position */
    WM_GPU_UNROLL
    for (uint32_t c = 0; c < WM_GPU_CHUNKS / 2; c++) {
        if (next) {
            there = mine < args->patch_col && live >> mine % 64 & 1; /* a row's end is filled up */
            from = args->value +
                   (size_t) (entry + wm_gpu_count (live & ~(~UINT64_C (0) << mine % 64))) *
                       args->entry_bytes +
                   within * 16;
        }
        WM_GPU_UNROLL
        for (uint32_t part = 0; part < parts; part++)
            wm_gpu_copy16 (to + part * args->tile * WM_GPU_PITCH + 16 * c,
                           there ? from + part * pc * 16 : args->value, there);
        from += 16, within++, next = within == pc;
        if (next)
            within = 0, mine++;
    }
}

/* ---- products -------------------------------------------------------------------------------- */

/* What a thread sums. By tensor cores: its warp's tiles of 16 outputs by 8 hits, hits varying
   fastest (2 by 8 in half, 4 by 4 in split), and the checksum's tile; by fma: four outputs of 16
   hits, and a column of the checksum.  */
typedef struct {
    float sum[16][4], check[2][4];
} wm_gpu_sums_t;

/* A step's 16 weights' columns of the checksum, for the tensor cores: of the factor's rows 0 to 3,
   and once more in rows 4 to 7, whose sums are not used.  */
WM_GPU_CODE void wm_gpu_dense_check (uint32_t e[4], wm_gpu_near_t panel, uint32_t k, uint32_t lane)
{
    uint32_t word[2];
    wm_gpu_load8 (word, panel + WM_GPU_CHECK + (k * 16 + lane % 16) * 8);
    e[0] = word[0], e[1] = 0, e[2] = word[1], e[3] = 0;
}

/* 8 hits' values of the three steps, from where the lane reads.  */
WM_GPU_CODE void wm_gpu_dense_values (uint32_t b[2 * WM_GPU_STEPS], wm_gpu_near_t row)
{
    wm_gpu_matrix4 (b, row);
    wm_gpu_matrix2 (b + 4, row + 64);
}

/* Multiplies a stage in half: a warp has 2 of the 8 tiles of outputs, and 64 hits.  */
WM_GPU_CODE void wm_gpu_dense_half (wm_gpu_near_t panel, uint32_t groups, wm_gpu_at_t at,
                                    wm_gpu_sums_t *sums)
{
    const uint32_t lane = at.thread % 32, warp = wm_gpu_uniform (at.thread / 32), tiles = warp % 4,
                   hits = warp / 4;
    groups = wm_gpu_uniform (groups >> 8 * hits & 0xff);
    if (groups == 0)
        return;
    const wm_gpu_near_t row = panel + WM_GPU_PANEL +
                              (hits * 64 + lane % 8 + lane / 16 * 8) * WM_GPU_PITCH +
                              lane / 8 % 2 * 16;
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < WM_GPU_STEPS; k++) {
        uint32_t a[2][4], e[4];
        wm_gpu_load16 (a[0], panel + ((k * 8 + tiles * 2) * 32 + lane) * 16);
        wm_gpu_load16 (a[1], panel + ((k * 8 + tiles * 2 + 1) * 32 + lane) * 16);
        wm_gpu_dense_check (e, panel, k, lane);
        WM_GPU_UNROLL
        for (uint32_t pair = 0; pair < 4; pair++) {
            uint32_t b[4];
            if (!(groups >> 2 * pair & 3))
                continue;
            wm_gpu_matrix4 (b, row + pair * 16 * WM_GPU_PITCH + k * 32);
            WM_GPU_UNROLL
            for (uint32_t j = 2 * pair; j < 2 * pair + 2; j++) {
                if (!(groups >> j & 1))
                    continue;
                wm_gpu_mma (sums->sum[j], a[0], b + j % 2 * 2);
                wm_gpu_mma (sums->sum[8 + j], a[1], b + j % 2 * 2);
                if (tiles == j % 4) /* the four warps of these hits share the checksum's steps */
                    wm_gpu_mma (sums->check[j / 4], e, b + j % 2 * 2);
            }
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
WM_GPU_CODE void wm_gpu_dense_split (wm_gpu_near_t panel, uint32_t groups, wm_gpu_at_t at,
                                     uint32_t tile, wm_gpu_sums_t *sums)
{
    const uint32_t lane = at.thread % 32, tiles = at.thread / 32 % 2, hits = at.thread / 64;
    groups = groups >> 4 * hits & 0xf;
    if (groups == 0)
        return;
    const wm_gpu_near_t row = panel + 2 * WM_GPU_PANEL + hits * 32 * WM_GPU_PITCH +
                              (lane % 8 * WM_GPU_PITCH + lane / 8 * 16);
    uint32_t b[4][2 * WM_GPU_STEPS], b_low[4][2 * WM_GPU_STEPS];
    WM_GPU_UNROLL
    for (uint32_t j = 0; j < 4; j++)
        if (groups >> j & 1) {
            wm_gpu_dense_values (b[j], row + j * 8 * WM_GPU_PITCH);
            wm_gpu_dense_values (b_low[j], row + (tile + j * 8) * WM_GPU_PITCH);
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
                wm_gpu_dense_add (m < 4 ? sums->sum[m % 4 * 4 + j] : sums->check[j / 2], a, low,
                                  b[j], b_low[j]);
    }
}

/* Four floats of shared memory.  */
WM_GPU_CODE void wm_gpu_load_floats (float to[4], wm_gpu_near_t from)
{
    uint32_t word[4];
    wm_gpu_load16 (word, from);
    memcpy (to, word, sizeof word);
}

/* Multiplies a stage in float32, value by value: `warp` has 16 hits, a lane outputs 4 lane and
   on.  */
WM_GPU_CODE void wm_gpu_dense_fma (wm_gpu_near_t panel, uint32_t groups, wm_gpu_at_t at,
                                   wm_gpu_sums_t *sums)
{
    const uint32_t lane = at.thread % 32, hits = at.thread / 32,
                   mine = lane < 24 ? lane : 0; /* hit mine / 3, column mine % 3 */
    groups = groups >> 2 * hits & 3;
    WM_GPU_UNROLL
    for (uint32_t g = 0; g < 2; g++) {
        if (!(groups >> g & 1))
            continue;
        const wm_gpu_near_t row = panel + WM_GPU_PANEL + (hits * 16 + g * 8) * WM_GPU_PITCH;
        WM_GPU_UNROLL
        for (uint32_t k = 0; k < WM_GPU_CHUNKS; k++) {
            float weight[4][4], value[4], column[4];
            WM_GPU_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                wm_gpu_load_floats (weight[i], panel + (k * 4 + i) * 512 + lane * 16);
            WM_GPU_UNROLL
            for (uint32_t h = 0; h < 8; h++) {
                wm_gpu_load_floats (value, row + h * WM_GPU_PITCH + 16 * k);
                WM_GPU_UNROLL
                for (uint32_t i = 0; i < 4; i++) {
                    WM_GPU_UNROLL
                    for (uint32_t o = 0; o < 4; o++)
                        sums->sum[g * 8 + h][o] =
                            fmaf (value[i], weight[i][o], sums->sum[g * 8 + h][o]);
                }
            }
            wm_gpu_load_floats (value, row + mine / 3 * WM_GPU_PITCH + 16 * k);
            wm_gpu_load_floats (column, panel + WM_GPU_CHECK + (k * 4 + mine % 3) * 16);
            WM_GPU_UNROLL
            for (uint32_t i = 0; i < 4; i++)
                sums->check[g][0] = fmaf (value[i], column[i], sums->check[g][0]);
        }
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The tensor cores' sums; a warp has n_tile tiles of 16 outputs and n8 eights of hits.  */
WM_GPU_CODE void wm_gpu_dense_write (const wm_gpu_dense_t *args, wm_gpu_at_t at, uint32_t n_tile,
                                     uint32_t n8, const wm_gpu_sums_t *sums, float *to)
{
    const uint32_t lane = at.thread % 32, abreast = 8 / n_tile, tiles = at.thread / 32 % abreast,
                   hits = at.thread / 32 / abreast;
    const float by = args->unscale;
    to += (size_t) (hits * 8 * n8 + 2 * (lane % 4)) * WM_GPU_SUMS;
    WM_GPU_UNROLL
    for (uint32_t j = 0; j < n8; j++) {
        float *hit = to + j * 8 * WM_GPU_SUMS;
        WM_GPU_UNROLL
        for (uint32_t m = 0; m < n_tile; m++) {
            const float *sum = sums->sum[m * n8 + j];
            float *out = hit + (tiles * n_tile + m) * 16 + lane / 4;
            out[0] = by * sum[0], out[WM_GPU_SUMS] = by * sum[1];
            out[8] = by * sum[2], out[WM_GPU_SUMS + 8] = by * sum[3];
        }
        if (tiles == j % abreast && lane < 12) { /* columns 0 to 2 */
            float *out = hit + WM_GPU_OUTPUTS + lane / 4;
            out[0] = by * sums->check[j / abreast][0];
            out[WM_GPU_SUMS] = by * sums->check[j / abreast][1];
        }
    }
}

/* Writes the sums of a row; the next row's begin at 0.  */
WM_GPU_CODE void wm_gpu_dense_write_row (wm_gpu_at_t at, wm_gpu_sums_t *sums, float *to)
{
    const uint32_t lane = at.thread % 32;
    to += (size_t) (at.thread / 32 * 16) * WM_GPU_SUMS;
    WM_GPU_UNROLL
    for (uint32_t g = 0; g < 2; g++, to += 8 * WM_GPU_SUMS) {
        WM_GPU_UNROLL
        for (uint32_t h = 0; h < 8; h++)
            wm_gpu_write16 (to + h * WM_GPU_SUMS + 4 * lane, sums->sum[g * 8 + h]);
        if (lane < 24)
            to[lane / 3 * WM_GPU_SUMS + WM_GPU_OUTPUTS + lane % 3] = sums->check[g][0];
    }
    memset (sums, 0, sizeof *sums);
}

/* ---- a block --------------------------------------------------------------------------------- */

/* n_row rows from `first` on, which were looked at. Behind it other rows may be looked at without
   another barrier: the loop's last one stands behind all copies, so no thread reads live and entry
   any more, and wm_gpu_dense_look meets before it writes groups.  */
WM_GPU_CODE void wm_gpu_dense_rows (const wm_gpu_dense_t *args, wm_gpu_dense_shared_t s,
                                    wm_gpu_at_t at, wm_gpu_by_t by, uint32_t first, uint32_t n_row,
                                    wm_gpu_band_t *band, wm_gpu_sums_t *sums)
{
    const uint32_t bytes = wm_gpu_dense_stage_bytes (by, args->tile), ahead = args->stages - 1,
                   n = n_row * args->segments, panel_bytes = wm_gpu_dense_parts (by) * WM_GPU_PANEL;
    const char *panel = args->weight + (size_t) first * args->segments * panel_bytes;
    uint32_t read = 0, write = 0;  /* stages */
    uint32_t row = 0, segment = 0; /* of the step that is copied */
    uint32_t left = args->segments; /* of the row that is multiplied */
    for (uint32_t t = 0; t < n + ahead; t++, panel += panel_bytes) {
        wm_gpu_copy_wait (ahead - 1);
        wm_gpu_meet (); /* step t - ahead has landed, no thread reads the one before any more */
        if (t < n)
            wm_gpu_dense_copy (args, s, at, by, panel, row, segment, s.groups[t],
                               s.stage + write * bytes);
        wm_gpu_copy_commit ();
        write = write + 1 == args->stages ? 0 : write + 1;
        if (++segment == args->segments)
            segment = 0, row += args->tile;
        if (t < ahead)
            continue;
        const wm_gpu_near_t stage = s.stage + read * bytes;
        const uint32_t groups = s.groups[t - ahead];
        if (by == WM_GPU_BY_HALF)
            wm_gpu_dense_half (stage, groups, at, sums);
        else if (by == WM_GPU_BY_SPLIT)
            wm_gpu_dense_split (stage, groups, at, args->tile, sums);
        else
            wm_gpu_dense_fma (stage, groups, at, sums);
        if (by == WM_GPU_BY_FMA && --left == 0) {
            wm_gpu_dense_write_row (at, sums, band->sum);
            band->sum += band->next, left = args->segments;
        }
        read = read + 1 == args->stages ? 0 : read + 1;
    }
}

WM_GPU_CODE void wm_gpu_dense (const wm_gpu_dense_t *args, float *shared, wm_gpu_at_t at,
                               wm_gpu_by_t by)
{
    const wm_gpu_dense_shared_t s = wm_gpu_dense_shared (args, by, shared);
    wm_gpu_band_t band = wm_gpu_dense_band (args, &at, by == WM_GPU_BY_FMA);
    wm_gpu_sums_t sums;
    memset (&sums, 0, sizeof sums);
    if (args->hit[at.block * args->tile] == WM_GPU_NO_PATCH)
        return; /* hits fill a launch from its first tile on */
    wm_gpu_dense_ranges (args, s, at);
    for (uint32_t first = band.first; first < band.end; first += args->rows_group) {
        const uint32_t left = band.end - first,
                       n_row = left < args->rows_group ? left : args->rows_group;
        wm_gpu_dense_look (args, s, at, first, n_row);
        wm_gpu_dense_rows (args, s, at, by, first, n_row, &band, &sums);
    }
    if (by != WM_GPU_BY_FMA)
        wm_gpu_dense_write (args, at, by == WM_GPU_BY_HALF ? 2 : 4, by == WM_GPU_BY_HALF ? 8 : 4,
                            &sums, band.sum);
}

#endif
