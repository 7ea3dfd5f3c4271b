/* wm_gpu_kernels.cuh - the bodies of our kernels, for the GPU and, from the same lines, the host.

   v1. A kernel is a number of phases; between two phases all threads of a block meet. A phase is a
   function of one thread, which keeps nothing in registers from one phase to the next: what lasts
   is in shared memory. On the GPU the phases follow each other with __syncthreads between; on the
   host (the stand-in) a phase is run for every thread, in any order, before the next begins.

   Sums are taken by one thread in one order, whatever the grid, so that no bit depends on where a
   patch lies. Nothing is atomic.  */
#ifndef WM_GPU_KERNELS_CUH
#define WM_GPU_KERNELS_CUH

#include "kernels/gpu/wm_gpu_args.h"

#include <math.h>
#include <string.h>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define WM_GPU_CODE static __device__ __forceinline__
#define WM_SPARSE_INLINE WM_GPU_CODE

WM_GPU_CODE uint16_t wm_half (float x)
{
    return __half_as_ushort (__float2half_rn (x));
}

WM_GPU_CODE float wm_half_value (uint16_t half)
{
    return __half2float (__ushort_as_half (half));
}
#else
#define WM_GPU_CODE static inline
#include "kernels/model/wm_half.h"
#endif

#include "kernels/model/wm_act.h"

/* To 10 bits of mantissa, ties away from zero, as cvt.rna.tf32 does; finite values.  */
WM_GPU_CODE float wm_tf32 (float x)
{
    uint32_t bits;
    memcpy (&bits, &x, sizeof bits);
    bits = (bits + 0x1000) & ~0x1fffu;
    memcpy (&x, &bits, sizeof x);
    return x;
}

/* `count` (1 to 64) bits of a row's map, from column `col` on. Words behind them, which nothing may
   have written, are not read.  */
WM_GPU_CODE uint64_t wm_gpu_bits (const uint32_t *row, uint32_t col, uint32_t count)
{
    const uint32_t *word = row + col / 32, shift = col % 32;
    uint64_t bits = word[0] >> shift;
    if (shift + count > 32)
        bits |= (uint64_t) word[1] << (32 - shift);
    if (shift + count > 64)
        bits |= (uint64_t) word[2] << (64 - shift);
    return bits & (~UINT64_C (0) >> (64 - count));
}

/* Element i of half or float32.  */
WM_GPU_CODE float wm_gpu_load (const void *from, size_t i, uint32_t half)
{
    return half ? wm_half_value (((const uint16_t *) from)[i]) : ((const float *) from)[i];
}

WM_GPU_CODE void wm_gpu_store (void *to, size_t i, uint32_t half, float value)
{
    if (half)
        ((uint16_t *) to)[i] = wm_half (value);
    else
        ((float *) to)[i] = value;
}

/* Says of a kernel that it has one phase.  */
#define WM_GPU_ONE_PHASE(name)                                                                     \
    WM_GPU_CODE uint32_t name##_phases (const name##_t *args)                                      \
    {                                                                                              \
        (void) args;                                                                               \
        return 1;                                                                                  \
    }

/* Where a thread is.  */
typedef struct {
    uint32_t block, blocks, thread, threads;
} wm_gpu_at_t;

/* ---- fill ------------------------------------------------------------------------------------ */

WM_GPU_ONE_PHASE (wm_gpu_fill)

WM_GPU_CODE void wm_gpu_fill (const wm_gpu_fill_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t phase)
{
    (void) shared, (void) phase;
    for (size_t i = (size_t) at.block * at.threads + at.thread; i < args->count;
         i += (size_t) at.blocks * at.threads)
        args->to[i] = args->value;
}

/* ---- scatter --------------------------------------------------------------------------------- */

WM_GPU_ONE_PHASE (wm_gpu_scatter)

WM_GPU_CODE void wm_gpu_scatter (const wm_gpu_scatter_t *args, float *shared, wm_gpu_at_t at,
                                 uint32_t phase)
{
    (void) shared, (void) phase;
    uint32_t run = at.block * (at.threads / 32) + at.thread / 32;
    if (run >= args->n_run)
        return;
    uint32_t first = args->run_value[run], n = args->run_value[run + 1] - first;
    float *to = args->image + (size_t) (args->top + args->run_wire[run]) * args->n_col +
                args->left + args->run_first[run];
    for (uint32_t i = at.thread % 32; i < n; i += 32)
        to[i] = args->value ? args->value[first + i] : args->zero;
}

/* ---- window ---------------------------------------------------------------------------------- */

WM_GPU_ONE_PHASE (wm_gpu_window)

WM_GPU_CODE void wm_gpu_window (const wm_gpu_window_t *args, float *shared, wm_gpu_at_t at,
                                uint32_t phase)
{
    const uint32_t n = args->height * args->width, channel = at.block % args->abreast;
    const float *from = args->image + args->offset[at.block];
    float *to = args->to + (size_t) (at.block - channel) * n + channel;
    (void) shared, (void) phase;
    for (uint32_t i = at.thread; i < n; i += at.threads)
        to[(size_t) i * args->abreast] =
            from[(size_t) (i / args->width) * args->n_col + i % args->width];
}

/* ---- tail ------------------------------------------------------------------------------------ */

/* Two phases a layer, the sums and the softmax, and one to write the scores.  */
WM_GPU_CODE uint32_t wm_gpu_tail_phases (const wm_gpu_tail_t *args)
{
    return 2 * args->n_layer + 1;
}

/* Whether a position of a window's row, which begins at a bit of a word, is bad.  */
WM_GPU_CODE bool wm_gpu_tail_has_bad (const wm_gpu_tail_t *args, size_t word, uint32_t bit)
{
    uint32_t bad[3] = { 0, 0, 0 };
    for (uint32_t w = 0; w * 32 < bit + args->patch_col; w++)
        if (args->active[word + w] && args->index[word + w] & WM_GPU_BAD)
            bad[w] = args->bad[word + w];
    return wm_gpu_bits (bad, bit, args->patch_col) != 0;
}

/* Sets a flag a row of the window: whether a position of it is bad.  */
WM_GPU_CODE void wm_gpu_tail_bad (const wm_gpu_tail_t *args, float *flag, wm_gpu_at_t at)
{
    const uint32_t hit = args->hit[at.block];
    for (uint32_t r = at.thread; r < args->patch_row && *args->any_bad; r += at.threads)
        flag[r] = wm_gpu_tail_has_bad (args, hit / 32 + (size_t) r * args->n_word, hit % 32);
}

/* Whether one of the flags of a hit's rows is set.  */
WM_GPU_CODE bool wm_gpu_tail_is_bad (const wm_gpu_tail_t *args, const float *flag)
{
    bool bad = false;
    for (uint32_t r = 0; r < args->patch_row && *args->any_bad; r++)
        bad = bad || flag[r] != 0;
    return bad;
}

/* Column o of a hit's sums: its bands' in their order.  */
WM_GPU_CODE float wm_gpu_tail_sum (const wm_gpu_tail_t *args, uint32_t hit, uint32_t o)
{
    const float *from = args->sum + (size_t) hit * WM_GPU_SUMS + o;
    float sum = 0;
    for (uint32_t b = 0; b < args->bands; b++)
        sum = sum + from[(size_t) b * args->n_hit * WM_GPU_SUMS];
    return sum;
}

/* A lane's part of what the checksum is compared with; sums: those of the roots' products, before
   bias and activation.  */
WM_GPU_CODE void wm_gpu_tail_add (const wm_gpu_tail_t *args, const float *sums, float *part,
                                  wm_gpu_at_t at)
{
    float all = 0, magnitude = 0;
    for (uint32_t o = at.thread; o < args->n_sum; o += at.threads)
        all += sums[o], magnitude += fabsf (sums[o]);
    part[at.thread] = all, part[at.threads + at.thread] = magnitude;
}

WM_GPU_CODE void wm_gpu_tail_check (const wm_gpu_tail_t *args, const float *part, bool bad,
                                    wm_gpu_at_t at)
{
    float check[3];
    for (uint32_t k = 0; k < 3; k++)
        check[k] = wm_gpu_tail_sum (args, at.block, WM_GPU_OUTPUTS + k);
    float all = 0, magnitude = 0;
    for (uint32_t i = 0; i < at.threads; i++)
        all += part[i], magnitude += part[at.threads + i];
    magnitude += fabsf (check[2]);
    const float off = fabsf (all - check[0] - check[1]);
    args->residual[at.block] = bad || off == 0 ? 0 : off / magnitude;
}

WM_GPU_CODE void wm_gpu_tail_layer (const wm_gpu_tail_t *args, const wm_gpu_layer_t *layer,
                                    float *value, wm_gpu_at_t at)
{
    for (uint32_t o = at.thread; o < layer->n_out; o += at.threads) {
        float sum = layer->bias[o];
        if (layer->n_in == 0) {
            const float bands = wm_gpu_tail_sum (args, at.block, layer->from + o);
            value[args->n_value + layer->from + o] = bands;
            sum = sum + bands;
        }
        for (uint32_t i = 0; i < layer->n_in; i++)
            sum = fmaf (value[layer->from + i], layer->weight[(size_t) i * layer->n_out + o], sum);
        value[layer->at + o] =
            (float) wm_sparse_activated (layer->act, layer->bend, (double) sum);
    }
}

WM_GPU_CODE void wm_gpu_tail_write (const wm_gpu_tail_t *args, const float *value, bool held,
                                    wm_gpu_at_t at)
{
    float *scores = args->scores + (size_t) at.block * args->n_output;
    for (uint32_t l = 0; l < args->n_layer; l++) {
        const wm_gpu_layer_t *layer = &args->layer[l];
        if (layer->output >= 0)
            for (uint32_t o = at.thread; o < layer->n_out; o += at.threads)
                scores[layer->output + (int32_t) o] = held ? NAN : value[layer->at + o];
    }
}

/* Floats of shared memory that a warp takes.  */
WM_GPU_CODE uint32_t wm_gpu_tail_floats (const wm_gpu_tail_t *args)
{
    return args->n_value + args->n_sum + args->patch_row + 2 * 32;
}

WM_GPU_CODE void wm_gpu_tail (const wm_gpu_tail_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t phase)
{
    const wm_gpu_layer_t *layer = &args->layer[phase / 2];
    const uint32_t warp = at.thread / 32;
    at.block = at.block * (at.threads / 32) + warp; /* the hit */
    at.thread %= 32, at.threads = 32;
    shared += (size_t) warp * wm_gpu_tail_floats (args);
    if (at.block >= args->n_hit || args->hit[at.block] == WM_GPU_NO_PATCH)
        return;
    float *flag = shared + args->n_value + args->n_sum, *part = flag + args->patch_row;
    if (phase == 0)
        wm_gpu_tail_bad (args, flag, at);
    if (phase == 2 * args->n_layer - 1)
        wm_gpu_tail_add (args, shared + args->n_value, part, at);
    if (phase == 2 * args->n_layer) {
        const bool bad = wm_gpu_tail_is_bad (args, flag);
        if (at.thread == at.threads - 1)
            wm_gpu_tail_check (args, part, bad, at);
        wm_gpu_tail_write (args, shared, bad && !args->strict, at);
    } else if (phase % 2 == 0)
        wm_gpu_tail_layer (args, layer, shared, at);
    else if (layer->act == WM_ACT_SOFTMAX && at.thread == 0)
        wm_sparse_activate_layer (WM_ACT_SOFTMAX, 0, shared + layer->at, layer->n_out);
}

#endif
