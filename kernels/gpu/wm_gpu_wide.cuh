/* wm_gpu_wide.cuh - Dense-1 by Hopper's warpgroup instructions (sm_90a), for networks in which a
   position is a segment: 48 filters in half. The same product as wm_gpu_dense.cuh, from the same
   maps and the same list.

   A block takes 256 hits (128 in split) and has four warpgroups of 128 threads:

     0, 1   multiply: 64 outputs of all hits each. Weights and values are both read from shared
            memory by the tensor cores themselves, sums stay in registers throughout.
     2, 3   feed them: two threads copy the values of a hit, or zeros over those that its place
            still has, and all of them the panel of weights. Then each warp multiplies the
            checksum's columns for an eighth of the hits, as wm_gpu_dense.cuh does.

   All positions are multiplied, of all hits: on these tensor cores that takes less time than
   finding out what may be left out. A stage is a position: values in planes of 16 bytes a hit (from
   one plane to the next 64 bytes more than the hits take: so the two threads of a hit write to
   different banks), weights in planes of 16 bytes an output. Both are what the instruction calls
   K-major without swizzle: 8 rows of 16 bytes lie together, and the next 8 behind them. A
   copy to such planes takes the multiprocessor a cycle for each 32 bytes, zeros too: these are
   copied only over what the place had before.

   At step t, behind the block's barrier, stage t has landed and no thread reads stage t - 2 now:
   the feeding warpgroups begin the copies of step t + stages - 2 into that one, the others begin to
   multiply stage t and wait until stage t - 1 is done.

   split: these tensor cores cut off what they add, too (without more, a long sum was off by 8e-5 on
   an H200). So a step begins at 0, its products are waited for and added by the thread.

   Rows of windows follow each other without a break: what is active in the next row is loaded while
   this one is copied, words at its 8th segment, the list's index at its 24th.  */
#ifndef WM_GPU_WIDE_CUH
#define WM_GPU_WIDE_CUH

#include "kernels/gpu/wm_gpu_dense.cuh"

#define WM_GPU_WIDE_THREADS 512u
#define WM_GPU_WIDE_WORDS_AT 8u  /* segment at which the next row's words are loaded */
#define WM_GPU_WIDE_INDEX_AT 24u /* and its index */
#define WM_GPU_WIDE_WEIGHTS (WM_GPU_OUTPUTS * 16) /* bytes from a plane of weights to the next */

/* Hits of a block; parts: 1, or 2 for split.  */
WM_GPU_CODE uint32_t wm_gpu_wide_tile (uint32_t parts)
{
    return 256 / parts;
}

/* From a plane of values to the next.  */
WM_GPU_CODE uint32_t wm_gpu_wide_plane (uint32_t parts)
{
    return wm_gpu_wide_tile (parts) * 16 + 64;
}

WM_GPU_CODE uint32_t wm_gpu_wide_stage_bytes (uint32_t parts)
{
    return parts * (WM_GPU_PANEL + WM_GPU_CHUNKS * wm_gpu_wide_plane (parts));
}

/* ---- instructions of a warpgroup ------------------------------------------------------------- */

#ifdef __CUDACC__
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WM_GPU_IS_WIDE 1

/* Describes an operand in shared memory to the tensor cores: its address, the bytes from one plane
   to the next, and those from 8 rows to the next.  */
WM_GPU_CODE uint64_t wm_gpu_wide_operand (wm_gpu_near_t at, uint32_t plane)
{
    return (at & 0x3ffff) >> 4 | (uint64_t) (plane >> 4) << 16 | (uint64_t) (128 >> 4) << 32;
}

/* All threads of the block: the warpgroups that multiply and those that feed them come to it at
   different places of the code, which __syncthreads does not allow.  */
WM_GPU_CODE void wm_gpu_wide_meet (void)
{
    asm volatile("barrier.sync 0;" ::: "memory");
}

/* Orders what this warpgroup wrote to registers and shared memory before the products that
   follow.  */
WM_GPU_CODE void wm_gpu_wide_begin (void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* Makes the compiler take d for read and written here. It cannot know by itself that a wait sets
   what products began to sum: without this it may use those registers before the wait.  */
WM_GPU_CODE void wm_gpu_wide_hold (float d[64])
{
    WM_GPU_UNROLL
    for (uint32_t i = 0; i < 64; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

/* Operands: 8 of the sums, which are read and written.  */
#define WM_GPU_8(d, i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])

/* Begins d (64 outputs, 128 hits) += weights (64, 16) values (16, 128); = without `adds`. A thread
   of the warpgroup has, of eight hits 8j and on, what a thread of wm_gpu_mma has, in d[4j] and
   on.  */
WM_GPU_CODE void wm_gpu_wide_mma (float d[64], wm_gpu_near_t weights, wm_gpu_near_t values,
                                  uint32_t plane, bool adds)
{
    const uint64_t a = wm_gpu_wide_operand (weights, WM_GPU_WIDE_WEIGHTS),
                   b = wm_gpu_wide_operand (values, plane);
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, "
                 "%8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, "
                 "%40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, "
                 "%56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, p, 1, 1, 0, 0;\n}"
                 : WM_GPU_8 (d, 0), WM_GPU_8 (d, 8), WM_GPU_8 (d, 16), WM_GPU_8 (d, 24),
                   WM_GPU_8 (d, 32), WM_GPU_8 (d, 40), WM_GPU_8 (d, 48), WM_GPU_8 (d, 56)
                 : "l"(a), "l"(b), "r"((uint32_t) adds));
}

/* Ends a step's products.  */
WM_GPU_CODE void wm_gpu_wide_commit (void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits until the products of all but the last `pending` (0 or 1) steps are done.  */
WM_GPU_CODE void wm_gpu_wide_wait (uint32_t pending)
{
    if (pending)
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    else
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

/* Makes what this thread sees, so what others copied before a barrier, visible to the tensor
   cores.  */
WM_GPU_CODE void wm_gpu_wide_show (void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Hands registers from the warpgroups that feed to those that multiply: (184 + 72) * 256 are the
   128 * 512 that the block begins with (tests/gpu/ptxas.sh checks these).  */
WM_GPU_CODE void wm_gpu_wide_registers (bool multiplies)
{
    if (multiplies)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 184;");
    else
        asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
}
#endif
#else
#define WM_GPU_IS_WIDE 1
void wm_gpu_wide_begin (void);
void wm_gpu_wide_mma (float d[64], wm_gpu_near_t weights, wm_gpu_near_t values, uint32_t plane,
                      bool adds);
void wm_gpu_wide_commit (void);
void wm_gpu_wide_wait (uint32_t pending);
void wm_gpu_wide_show (void);

WM_GPU_CODE void wm_gpu_wide_meet (void)
{
    wm_gpu_meet ();
}

WM_GPU_CODE void wm_gpu_wide_hold (float d[64])
{
    (void) d;
}

WM_GPU_CODE void wm_gpu_wide_registers (bool multiplies)
{
    (void) multiplies;
}
#endif

#ifdef WM_GPU_IS_WIDE

/* ---- warpgroups 2 and 3 ---------------------------------------------------------------------- */

#define WM_GPU_WIDE_HITS 2u /* that a thread copies half of, at most */

/* A thread's hits in a row of their windows.  */
typedef struct {
    uint32_t at[WM_GPU_WIDE_HITS];    /* where the windows begin */
    uint64_t live[WM_GPU_WIDE_HITS];  /* bits of the positions, from the next one on */
    uint32_t entry[WM_GPU_WIDE_HITS]; /* of the next active one */
    uint32_t past[WM_GPU_WIDE_HITS];  /* bit k: it was active k + 1 positions ago */
    /* The next row: words of the map, then the index of the first that is not 0.  */
    uint32_t word[WM_GPU_WIDE_HITS][3], index[WM_GPU_WIDE_HITS];
} wm_gpu_wide_hits_t;

/* Loads words of a row; words that no window touches are not read.  */
WM_GPU_CODE void wm_gpu_wide_load_words (const wm_gpu_dense_t *args, uint32_t parts, uint32_t row,
                                   wm_gpu_wide_hits_t *hits)
{
    WM_GPU_UNROLL
    for (uint32_t i = 0; i < WM_GPU_WIDE_HITS / parts; i++) {
        const uint32_t hit = hits->at[i], end = hit % 32 + args->patch_col;
        const uint32_t *word = args->active + (size_t) row * args->n_word + hit / 32;
        const bool there = hit != WM_GPU_NO_PATCH;
        hits->word[i][0] = there ? word[0] : 0;
        hits->word[i][1] = there && end > 32 ? word[1] : 0;
        hits->word[i][2] = there && end > 64 ? word[2] : 0;
    }
}

/* Loads the index of a row whose words have been loaded.  */
WM_GPU_CODE void wm_gpu_wide_load_index (const wm_gpu_dense_t *args, uint32_t parts, uint32_t row,
                                   wm_gpu_wide_hits_t *hits)
{
    WM_GPU_UNROLL
    for (uint32_t i = 0; i < WM_GPU_WIDE_HITS / parts; i++) {
        const uint32_t *word = hits->word[i];
        const size_t first = (size_t) row * args->n_word + hits->at[i] / 32;
        hits->index[i] = 0;
        if (word[0] | word[1] | word[2])
            hits->index[i] = args->index[first + (word[0] ? 0 : word[1] ? 1 : 2)];
    }
}

/* Goes on to the row that was loaded: as wm_gpu_bits and wm_gpu_dense_entry do, which load
   themselves.  */
WM_GPU_CODE void wm_gpu_wide_begin_row (const wm_gpu_dense_t *args, uint32_t parts,
                                        wm_gpu_wide_hits_t *hits)
{
    WM_GPU_UNROLL
    for (uint32_t i = 0; i < WM_GPU_WIDE_HITS / parts; i++) {
        const uint32_t *word = hits->word[i], bit = hits->at[i] % 32;
        uint64_t live = (word[0] | (uint64_t) word[1] << 32) >> bit;
        if (bit > 0)
            live |= (uint64_t) word[2] << (64 - bit);
        hits->live[i] = live & ~UINT64_C (0) >> (64 - args->patch_col);
        hits->entry[i] =
            (hits->index[i] & ~WM_GPU_BAD) + wm_gpu_count (word[0] & ((1u << bit) - 1));
    }
}

/* Begins the copies of a step: its panels, then the hits' values at their next position, and zeros
   over what a hit's place of the stage had before. `thread` of 256.  */
WM_GPU_CODE void wm_gpu_wide_copy (const wm_gpu_dense_t *args, uint32_t parts, uint32_t thread,
                                   const char *panel, wm_gpu_wide_hits_t *hits, wm_gpu_near_t to)
{
    const uint32_t plane = wm_gpu_wide_plane (parts), whole = parts * WM_GPU_PANEL / 16 / 256;
    WM_GPU_UNROLL
    for (uint32_t i = 0; i < whole; i++)
        wm_gpu_copy16 (to + 16 * (256 * i + thread), panel + 16 * (256 * i + thread), true);
    if (thread < parts * WM_GPU_PANEL / 16 % 256)
        wm_gpu_copy16 (to + 16 * (256 * whole + thread), panel + 16 * (256 * whole + thread), true);
    to += parts * WM_GPU_PANEL + thread % 2 * plane + thread / 2 * 16;
    WM_GPU_UNROLL
    for (uint32_t i = 0; i < WM_GPU_WIDE_HITS / parts; i++) {
        const uint32_t active = (uint32_t) hits->live[i] & 1;
        const char *from = args->value;
        if (active)
            from += (size_t) hits->entry[i] * args->entry_bytes + thread % 2 * 16;
        if (active | (hits->past[i] >> (args->stages - 1) & 1)) {
            WM_GPU_UNROLL
            for (uint32_t c = 0; c < parts * WM_GPU_STEPS; c++)
                wm_gpu_copy16 (to + 2 * c * plane + i * 128 * 16, from + 32 * c, active);
        }
        hits->entry[i] += active, hits->live[i] >>= 1;
        hits->past[i] = hits->past[i] << 1 | active;
    }
}

/* The step that is copied.  */
typedef struct {
    const char *panel;
    uint32_t row, end, segment; /* end: of the band's rows */
    wm_gpu_near_t stage;
} wm_gpu_wide_step_t;

/* Begins the copies of the next step, if there is one.  */
WM_GPU_CODE void wm_gpu_wide_next (const wm_gpu_dense_t *args, uint32_t parts, uint32_t thread,
                                   wm_gpu_near_t shared, wm_gpu_wide_hits_t *hits,
                                   wm_gpu_wide_step_t *step)
{
    const uint32_t n = args->segments, bytes = wm_gpu_wide_stage_bytes (parts);
    if (step->row < step->end) {
        if (step->segment == 0)
            wm_gpu_wide_begin_row (args, parts, hits);
        wm_gpu_wide_copy (args, parts, thread, step->panel, hits, step->stage);
        step->panel += parts * WM_GPU_PANEL;
        step->stage += bytes;
        if (step->stage == shared + args->stages * bytes)
            step->stage = shared;
        step->segment++;
        if (step->row + 1 < step->end) {
            if (step->segment == (WM_GPU_WIDE_WORDS_AT < n ? WM_GPU_WIDE_WORDS_AT : 1))
                wm_gpu_wide_load_words (args, parts, step->row + 1, hits);
            if (step->segment == (WM_GPU_WIDE_INDEX_AT < n ? WM_GPU_WIDE_INDEX_AT : n))
                wm_gpu_wide_load_index (args, parts, step->row + 1, hits);
        }
        if (step->segment == n)
            step->segment = 0, step->row++;
    }
    wm_gpu_copy_commit ();
}

/* Adds a stage's products with the checksum's columns: a warp has an eighth of the hits.  */
WM_GPU_CODE void wm_gpu_wide_check (wm_gpu_near_t stage, uint32_t parts, wm_gpu_at_t at,
                                    float sums[4][4])
{
    const uint32_t lane = at.thread % 32, plane = wm_gpu_wide_plane (parts),
                   low = WM_GPU_CHUNKS * plane, n8 = 4 / parts;
    const wm_gpu_near_t row =
        stage + parts * WM_GPU_PANEL + lane / 8 % 2 * plane +
        (at.thread % 256 / 32 * 8 * n8 + lane / 16 * 8 + lane % 8) * 16;
    float own[4][4];
    memset (own, 0, sizeof own);
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < WM_GPU_STEPS; k++) {
        uint32_t e[4], e_low[4], b[4], b_low[4];
        wm_gpu_dense_check (e, stage, k, lane);
        if (parts == 2)
            wm_gpu_dense_check (e_low, stage + WM_GPU_PANEL, k, lane);
        WM_GPU_UNROLL
        for (uint32_t j = 0; j < n8; j++) {
            float *sum = parts == 2 ? own[j] : sums[j];
            if (j % 2 == 0)
                wm_gpu_matrix4 (b, row + j * 128 + 2 * k * plane);
            if (j % 2 == 0 && parts == 2)
                wm_gpu_matrix4 (b_low, row + j * 128 + 2 * k * plane + low);
            if (parts == 2) {
                wm_gpu_mma (sum, e_low, b + j % 2 * 2);
                wm_gpu_mma (sum, e, b_low + j % 2 * 2);
            }
            wm_gpu_mma (sum, e, b + j % 2 * 2);
        }
    }
    WM_GPU_UNROLL
    for (uint32_t j = 0; j < n8 && parts == 2; j++) {
        WM_GPU_UNROLL
        for (uint32_t i = 0; i < 4; i++)
            sums[j][i] += own[j][i];
    }
}

WM_GPU_CODE void wm_gpu_wide_write_check (const wm_gpu_dense_t *args, wm_gpu_at_t at,
                                          uint32_t parts, float sums[4][4], float *to)
{
    const uint32_t lane = at.thread % 32, n8 = 4 / parts,
                   first = at.thread % 256 / 32 * 8 * n8 + 2 * (lane % 4);
    to += WM_GPU_OUTPUTS + lane / 4 + (size_t) first * WM_GPU_SUMS;
    WM_GPU_UNROLL
    for (uint32_t j = 0; j < n8; j++, to += 8 * WM_GPU_SUMS)
        if (lane < 12) /* columns 0 to 2 */
            to[0] = args->unscale * sums[j][0], to[WM_GPU_SUMS] = args->unscale * sums[j][1];
}

WM_GPU_CODE void wm_gpu_wide_feed (const wm_gpu_dense_t *args, wm_gpu_at_t at, uint32_t parts,
                                   const wm_gpu_band_t *band, wm_gpu_near_t shared)
{
    const uint32_t thread = at.thread % 256, bytes = wm_gpu_wide_stage_bytes (parts);
    const wm_gpu_near_t end = shared + args->stages * bytes;
    wm_gpu_wide_hits_t hits;
    wm_gpu_wide_step_t step = {
        args->weight + (size_t) band->first * args->segments * parts * WM_GPU_PANEL, band->first,
        band->end, 0, shared
    };
    wm_gpu_near_t stage = shared;
    float sums[4][4];
    memset (sums, 0, sizeof sums);
    WM_GPU_UNROLL
    for (uint32_t i = 0; i < WM_GPU_WIDE_HITS / parts; i++) {
        hits.at[i] = args->hit[at.block * wm_gpu_wide_tile (parts) + i * 128 + thread / 2];
        hits.past[i] = ~0u; /* each place is written once, with zeros at least */
    }
    wm_gpu_wide_load_words (args, parts, band->first, &hits);
    wm_gpu_wide_load_index (args, parts, band->first, &hits);
    for (uint32_t s = 0; s < args->stages - 2; s++)
        wm_gpu_wide_next (args, parts, thread, shared, &hits, &step);
    for (uint32_t t = 0; t < (band->end - band->first) * args->segments; t++) {
        wm_gpu_copy_wait (args->stages - 3); /* stage t has landed */
        wm_gpu_wide_meet ();
        wm_gpu_wide_next (args, parts, thread, shared, &hits, &step);
        wm_gpu_wide_check (stage, parts, at, sums);
        stage = stage + bytes == end ? shared : stage + bytes;
    }
    wm_gpu_wide_write_check (args, at, parts, sums, band->sum);
}

/* ---- warpgroups 0 and 1 ---------------------------------------------------------------------- */

/* Begins a stage's products; in split sum[64] and on are those of this stage alone.  */
WM_GPU_CODE void wm_gpu_wide_products (wm_gpu_near_t stage, uint32_t parts, uint32_t group,
                                       float sum[128])
{
    const uint32_t plane = wm_gpu_wide_plane (parts);
    const wm_gpu_near_t weights = stage + group * 64 * 16, values = stage + parts * WM_GPU_PANEL;
    if (parts == 2)
        wm_gpu_wide_hold (sum + 64);
    wm_gpu_wide_begin ();
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < WM_GPU_STEPS; k++) {
        const wm_gpu_near_t a = weights + 2 * k * WM_GPU_WIDE_WEIGHTS, b = values + 2 * k * plane;
        if (parts == 1) {
            wm_gpu_wide_mma (sum, a, b, plane, true);
            wm_gpu_wide_mma (sum + 64, a, b + 128 * 16, plane, true);
        } else { /* high by high last: the small ones first */
            wm_gpu_wide_mma (sum + 64, a + WM_GPU_PANEL, b, plane, k > 0);
            wm_gpu_wide_mma (sum + 64, a, b + WM_GPU_CHUNKS * plane, plane, true);
        }
    }
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < WM_GPU_STEPS && parts == 2; k++)
        wm_gpu_wide_mma (sum + 64, weights + 2 * k * WM_GPU_WIDE_WEIGHTS,
                         values + 2 * k * plane, plane, true);
    wm_gpu_wide_commit ();
}

WM_GPU_CODE void wm_gpu_wide_write (const wm_gpu_dense_t *args, wm_gpu_at_t at, uint32_t parts,
                                    const float sum[128], float *to)
{
    const uint32_t lane = at.thread % 32, by_16 = at.thread / 32; /* outputs */
    to += by_16 * 16 + lane / 4 + (size_t) (2 * (lane % 4)) * WM_GPU_SUMS;
    const float by = args->unscale;
    WM_GPU_UNROLL
    for (uint32_t j = 0; j < wm_gpu_wide_tile (parts) / 8; j++, to += 8 * WM_GPU_SUMS) {
        to[0] = by * sum[4 * j], to[WM_GPU_SUMS] = by * sum[4 * j + 1];
        to[8] = by * sum[4 * j + 2], to[WM_GPU_SUMS + 8] = by * sum[4 * j + 3];
    }
}

WM_GPU_CODE void wm_gpu_wide_multiply (const wm_gpu_dense_t *args, wm_gpu_at_t at, uint32_t parts,
                                       const wm_gpu_band_t *band, wm_gpu_near_t shared)
{
    const uint32_t bytes = wm_gpu_wide_stage_bytes (parts),
                   group = wm_gpu_uniform (at.thread / 128);
    const wm_gpu_near_t end = shared + args->stages * bytes;
    wm_gpu_near_t stage = shared;
    float sum[128];
    WM_GPU_UNROLL
    for (uint32_t i = 0; i < 128; i++)
        sum[i] = 0;
    if (parts == 1)
        wm_gpu_wide_hold (sum), wm_gpu_wide_hold (sum + 64);
    for (uint32_t t = 0; t < (band->end - band->first) * args->segments; t++) {
        wm_gpu_wide_meet ();
        wm_gpu_wide_show ();
        wm_gpu_wide_products (stage, parts, group, sum);
        wm_gpu_wide_wait (parts == 1); /* stage t - 1 may be written */
        if (parts == 2)
            wm_gpu_wide_hold (sum + 64);
        WM_GPU_UNROLL
        for (uint32_t i = 0; i < 64 && parts == 2; i++)
            sum[i] += sum[64 + i];
        stage += bytes;
        if (stage == end)
            stage = shared;
    }
    wm_gpu_wide_wait (0);
    if (parts == 1)
        wm_gpu_wide_hold (sum), wm_gpu_wide_hold (sum + 64);
    wm_gpu_wide_write (args, at, parts, sum, band->sum);
}

#endif

WM_GPU_CODE void wm_gpu_wide (const wm_gpu_dense_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t parts)
{
#ifdef WM_GPU_IS_WIDE
    const bool multiplies = at.thread < 256;
    const wm_gpu_band_t band = wm_gpu_dense_band (args, &at, false);
    if (args->hit[at.block * wm_gpu_wide_tile (parts)] == WM_GPU_NO_PATCH)
        return; /* hits fill a launch from its first tile on */
    if (multiplies) {
        wm_gpu_wide_registers (true);
        wm_gpu_wide_multiply (args, at, parts, &band, wm_gpu_near (shared));
    } else {
        wm_gpu_wide_registers (false);
        wm_gpu_wide_feed (args, at, parts, &band, wm_gpu_near (shared));
    }
#else
    (void) args, (void) shared, (void) at, (void) parts; /* never launched */
#endif
}

#endif
