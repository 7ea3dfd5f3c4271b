/* wm_sparse_choose.c - which kernel runs: what the CPU has, what WM_ISA asks for, what is faster.

   A 16-bit kernel is taken for "fast" only if it beats the best fp32 one here and now: vdpbf16ps is
   twice as fast as fp32 on one make of CPU and half as fast on another, and both announce it.  */
#include "kernels/wm_sparse.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The timed piece of work: one position of the usual net, cells whose values are half zeros.  */
enum { CELLS = 128, FILTERS = 48, OUTPUTS = 128, POSITIONS = 2, ROUNDS = 40 };

static bool can_run (const wm_sparse_kernel_t *kernel)
{
#if defined __x86_64__
    __builtin_cpu_init ();
    bool avx2 = __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma");
    bool avx512 = avx2 && __builtin_cpu_supports ("avx512f") &&
                  __builtin_cpu_supports ("avx512bw") && __builtin_cpu_supports ("avx512dq") &&
                  __builtin_cpu_supports ("avx512vl");
    if (kernel == &wm_sparse_kernel_avx512_bf16)
        return avx512 && __builtin_cpu_supports ("avx512bf16");
    if (kernel == &wm_sparse_kernel_avx512)
        return avx512;
    if (kernel == &wm_sparse_kernel_avx2)
        return avx2;
#endif
    return kernel == &wm_sparse_kernel_c;
}

const wm_sparse_kernel_t *wm_sparse_kernel (uint32_t i)
{
    static const wm_sparse_kernel_t *const all[] = {
#if defined __x86_64__
        &wm_sparse_kernel_avx512_bf16,
        &wm_sparse_kernel_avx512,
        &wm_sparse_kernel_avx2,
#endif
        &wm_sparse_kernel_c
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (can_run (all[k]) && i-- == 0)
            return all[k];
    return NULL;
}

/* ---- timing ---------------------------------------------------------------------------------- */

typedef struct {
    wm_sparse_root_t root;
    wm_sparse_values_t values;
    wm_sparse_list_t list;
    uint64_t mask[CELLS * POSITIONS];
    uint32_t cell[CELLS + 16], slot[CELLS + 16], live[CELLS + 16];
    float *floats; /* weights, values, accumulators */
} trial_t;

static bool trial_new (trial_t *trial, const wm_sparse_kernel_t *kernel)
{
    const size_t weights = POSITIONS * FILTERS * OUTPUTS, values = CELLS * POSITIONS * FILTERS;
    *trial = (trial_t){ .root = { .n_out = OUTPUTS, .n_pad = OUTPUTS } };
    trial->floats = wm_sparse_floats (weights + values + CELLS * OUTPUTS);
    if (!trial->floats)
        return false;
    trial->root.weight = trial->floats;
    trial->root.packed = (uint32_t *) (void *) trial->floats;
    trial->values = (wm_sparse_values_t){ .value = (char *) (trial->floats + weights),
                                          .mask = trial->mask,
                                          .stride_bytes = FILTERS * sizeof (float) / kernel->unit,
                                          .n_mask = 1 };
    trial->list = (wm_sparse_list_t){ CELLS, trial->cell, trial->slot, trial->live };
    const uint32_t words = FILTERS / kernel->unit;
    for (uint32_t i = 0; i < CELLS + 16; i++) {
        uint32_t h = i < CELLS ? i : CELLS - 1;
        trial->cell[i] = h, trial->slot[i] = h * kernel->fuse, trial->live[i] = 3;
    }
    /* Of filters that are on half the time, a word of two that are alike is on two times of three.
     */
    for (uint32_t i = 0; i < CELLS * POSITIONS; i++)
        for (uint32_t w = 0; w < words; w++)
            trial->mask[i] |= (uint64_t) (kernel->unit == 1 ? (w ^ i) & 1 : (w + i) % 3 > 0) << w;
    return true;
}

/* Seconds a position and cell, at best; 1 without memory.  */
static double time_kernel (const wm_sparse_kernel_t *kernel)
{
    trial_t trial;
    double best = 1;
    if (!trial_new (&trial, kernel))
        return best;
    float *row = trial.floats + POSITIONS * FILTERS * OUTPUTS + CELLS * POSITIONS * FILTERS;
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec start, end;
        clock_gettime (CLOCK_MONOTONIC, &start);
        kernel->dense (&trial.root, 0, FILTERS, &trial.values, &trial.list, row, OUTPUTS);
        clock_gettime (CLOCK_MONOTONIC, &end);
        double seconds =
            (double) (end.tv_sec - start.tv_sec) + 1e-9 * (double) (end.tv_nsec - start.tv_nsec);
        seconds /= CELLS * kernel->fuse;
        best = seconds < best ? seconds : best;
    }
    free (trial.floats);
    return best;
}

const wm_sparse_kernel_t *wm_sparse_kernel_choose (const char *precision, wm_error_t *error)
{
    const char *isa = getenv ("WM_ISA");
    const bool fast = strcmp (precision, "fast") == 0;
    const wm_sparse_kernel_t *kernel, *half = NULL, *full = NULL;
    for (uint32_t i = 0; (kernel = wm_sparse_kernel (i)) != NULL; i++) {
        if (isa && *isa && strcmp (kernel->isa, isa) != 0)
            continue;
        if (!half && kernel->unit > 1)
            half = kernel;
        if (!full && kernel->unit == 1)
            full = kernel;
    }
    if (!full)
        wm_fault (error, WM_EHOST,
                  "WM_ISA=%s: not what this machine can run; avx512, avx2 and c are known, unset "
                  "WM_ISA for the best",
                  isa);
    if (!full || !half || !fast)
        return full;
    return time_kernel (half) < time_kernel (full) ? half : full;
}
