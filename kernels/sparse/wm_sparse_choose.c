/* wm_sparse_choose.c - which kernel runs: what the CPU has, what WM_ISA asks for, what is faster.

   The best of each precision that a campaign allows is tried on a small piece of work: it must
   compute rightly, and of those that are about as fast as the fastest the most precise comes first;
   the engine takes the first that is precise enough on its model (wm_sparse_door.c).
   Flags alone do not tell: vdpbf16ps is twice as fast as fp32 on one make of CPU and half as fast
   on another, and both announce it. "About" keeps the choice, and with it the bits, the same at
   every start: int16 and bf16 lie within a few percent of each other, fp32 far from both.  */
#include "kernels/sparse/wm_sparse.h"
#include "kernels/sparse/wm_sparse_tiles.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FP32_OFF 1e-5 /* what a campaign in fp32 allows */
#define NEAR 1.25     /* Zen 4: int16 1.0, bf16 1.0, fp32 1.8 */

/* The piece of work: some positions of the usual net, cells whose values are half zeros.  */
enum { CELLS = 128, FILTERS = 48, OUTPUTS = 128, POSITIONS = 4, ROUNDS = 40, CHECKED = 8 };

static bool can_run (const wm_sparse_kernel_t *kernel)
{
#if defined __x86_64__
    __builtin_cpu_init ();
    bool avx2 = __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma");
    bool avx512 = avx2 && __builtin_cpu_supports ("avx512f") &&
                  __builtin_cpu_supports ("avx512bw") && __builtin_cpu_supports ("avx512dq") &&
                  __builtin_cpu_supports ("avx512vl");
    if (kernel == &wm_sparse_kernel_amx_bf16 || kernel == &wm_sparse_kernel_amx_bf16x3)
        return avx512 && tiles_allowed ();
    if (kernel == &wm_sparse_kernel_avx512_bf16)
        return avx512 && __builtin_cpu_supports ("avx512bf16");
    if (kernel == &wm_sparse_kernel_avx512_vnni_int16)
        return avx512 && __builtin_cpu_supports ("avx512vnni");
    if (kernel == &wm_sparse_kernel_avx_vnni_int16)
        return avx2 && __builtin_cpu_supports ("avxvnni");
    if (kernel == &wm_sparse_kernel_avx512)
        return avx512;
    if (kernel == &wm_sparse_kernel_avx2 || kernel == &wm_sparse_kernel_avx2_int16)
        return avx2;
#endif
    return kernel == &wm_sparse_kernel_c || kernel->twin;
}

/* The i-th of those that can be run here, or of those that cannot.  */
static const wm_sparse_kernel_t *find_kernel (uint32_t i, bool here)
{
    static const wm_sparse_kernel_t *const all[] = {
#if defined __x86_64__
        &wm_sparse_kernel_amx_bf16,
        &wm_sparse_kernel_amx_bf16x3,
        &wm_sparse_kernel_avx512_vnni_int16,
        &wm_sparse_kernel_avx512_bf16,
        &wm_sparse_kernel_avx512,
        &wm_sparse_kernel_avx_vnni_int16,
        &wm_sparse_kernel_avx2_int16,
        &wm_sparse_kernel_avx2,
#endif
        &wm_sparse_kernel_c,
        &wm_sparse_kernel_amx_twin_bf16,
        &wm_sparse_kernel_amx_twin_bf16x3,
    };
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (can_run (all[k]) == here && i-- == 0)
            return all[k];
    return NULL;
}

const wm_sparse_kernel_t *wm_sparse_kernel (uint32_t i)
{
    return find_kernel (i, true);
}

const char *wm_device_missing (uint32_t i, const char **precision)
{
    const wm_sparse_kernel_t *kernel = find_kernel (i, false);
    *precision = kernel ? kernel->precision : NULL;
    return kernel ? kernel->isa : NULL;
}

/* ---- trial ----------------------------------------------------------------------------------- */

typedef struct {
    const wm_sparse_kernel_t *kernel;
    wm_sparse_root_t root;
    wm_sparse_values_t values;
    wm_sparse_list_t list;
    uint32_t cell[CELLS + 32], slot[CELLS + 32], live[CELLS + 32];
    float *weight, *value, *row, *rounded; /* value: (cell, column, filter) */
    float scale[OUTPUTS];
    uint32_t *packed;
    void *slots, *masks;
} trial_t;

static void trial_clear (trial_t *trial)
{
    free (trial->weight), free (trial->value), free (trial->row), free (trial->rounded);
    free (trial->slots), free (trial->masks);
    free (trial->packed), free (trial->list.scratch);
}

static bool trial_reserve (trial_t *trial)
{
    const wm_sparse_kernel_t *kernel = trial->kernel;
    trial->weight = wm_sparse_floats (POSITIONS * FILTERS * OUTPUTS);
    trial->value = wm_sparse_floats (CELLS * POSITIONS * FILTERS);
    trial->row = wm_sparse_floats (CELLS * OUTPUTS);
    trial->rounded = wm_sparse_floats (FILTERS * OUTPUTS);
    trial->slots = wm_sparse_floats ((CELLS * POSITIONS + 1) * FILTERS);
    trial->masks = wm_sparse_floats ((CELLS * POSITIONS + 1) * 2);
    bool have = trial->weight && trial->value && trial->row && trial->rounded && trial->slots &&
                trial->masks;
    if (kernel->pack)
        have &= (trial->packed = (void *) wm_sparse_floats (
                     POSITIONS / kernel->fuse * kernel->panel_words (FILTERS, OUTPUTS))) != NULL;
    if (kernel->scratch_bytes)
        have &= (trial->list.scratch =
                     wm_sparse_floats (kernel->scratch_bytes (FILTERS) / sizeof (float))) != NULL;
    return have;
}

static float draw (uint64_t *state) /* [-1, 1) */
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float) (*state >> 40) / (float) (1 << 23) - 1;
}

/* Weights and values. Filters are on half the time, two that are alike together.  */
static void trial_fill (trial_t *trial)
{
    const wm_sparse_kernel_t *kernel = trial->kernel;
    uint64_t state = 1;
    for (uint32_t i = 0; i < POSITIONS * FILTERS * OUTPUTS; i++)
        trial->weight[i] = draw (&state);
    for (uint32_t o = 0; o < OUTPUTS; o++)
        trial->scale[o] = 1;
    if (kernel->sum_max) {
        trial->root.scale = trial->scale;
        wm_sparse_scale (&trial->root, kernel, POSITIONS, FILTERS, true, trial->scale);
    }
    for (uint32_t i = 0; i < CELLS * kernel->fuse; i++) {
        float *value = trial->value + (size_t) i * FILTERS;
        for (uint32_t k = 0; k < FILTERS; k++) {
            bool on = kernel->unit == 1 ? (k ^ i) & 1 : (k / 2 + i) % 3 > 0;
            value[k] = on ? draw (&state) + 1 : 0;
        }
        kernel->store (value, FILTERS, FILTERS,
                       (char *) trial->slots + i * trial->values.stride_bytes,
                       (uint64_t *) trial->masks + i);
    }
    for (uint32_t p = 0; kernel->pack && p < POSITIONS; p++)
        kernel->pack (&trial->root, trial->weight + p * FILTERS * OUTPUTS, FILTERS,
                      p % kernel->fuse, trial->rounded,
                      trial->packed + p / kernel->fuse * kernel->panel_words (FILTERS, OUTPUTS));
    for (uint32_t i = 0; i < CELLS + 32; i++) {
        uint32_t h = i < CELLS ? i : CELLS - 1;
        trial->cell[i] = h, trial->slot[i] = h * kernel->fuse;
        trial->live[i] = i < CELLS ? (1u << kernel->fuse) - 1 : 0;
    }
}

static bool trial_new (trial_t *trial, const wm_sparse_kernel_t *kernel)
{
    *trial = (trial_t){ .kernel = kernel, .root = { .n_out = OUTPUTS, .n_pad = OUTPUTS } };
    if (!trial_reserve (trial)) {
        trial_clear (trial);
        return false;
    }
    trial->root.weight = trial->weight, trial->root.packed = trial->packed;
    trial->values = (wm_sparse_values_t){ .value = trial->slots,
                                          .mask = trial->masks,
                                          .stride_bytes = FILTERS * sizeof (float) / kernel->unit +
                                                          kernel->slot_extra,
                                          .n_mask = 1 };
    trial->list.n = CELLS;
    trial->list.cell = trial->cell, trial->list.slot = trial->slot, trial->list.live = trial->live;
    trial_fill (trial);
    return true;
}

static void trial_run (trial_t *trial)
{
    trial->kernel->dense (&trial->root, 0, FILTERS, &trial->values, &trial->list, trial->row,
                          OUTPUTS);
}

/* Whether the sums of some cells are right, which a second run is added to.  */
static bool trial_sound (const trial_t *trial)
{
    const double allowed = fmin (fmax (trial->kernel->off * 10, 1e-4), 2e-2);
    const uint32_t n = trial->kernel->fuse * FILTERS;
    for (uint32_t h = 0; h < CELLS; h += CELLS / CHECKED)
        for (uint32_t o = 0; o < OUTPUTS; o++) {
            double want = 0, size = 0;
            for (uint32_t i = 0; i < n; i++) {
                double v = (double) trial->value[h * n + i] *
                           (double) trial->weight[(size_t) i * OUTPUTS + o];
                want += v, size += fabs (v);
            }
            double got = (double) trial->row[h * OUTPUTS + o] * (double) trial->scale[o];
            if (!(fabs (got - want) <= allowed * size))
                return false;
        }
    return true;
}

double wm_sparse_kernel_try (const wm_sparse_kernel_t *kernel)
{
    trial_t trial;
    double best = INFINITY;
    if (!trial_new (&trial, kernel))
        return best;
    if (kernel->begin)
        kernel->begin ();
    trial_run (&trial);
    bool sound = trial_sound (&trial);
    for (int round = 0; sound && round < ROUNDS; round++) {
        struct timespec start, end;
        clock_gettime (CLOCK_MONOTONIC, &start);
        trial_run (&trial);
        clock_gettime (CLOCK_MONOTONIC, &end);
        best = fmin (best, (double) (end.tv_sec - start.tv_sec) +
                               1e-9 * (double) (end.tv_nsec - start.tv_nsec));
    }
    if (kernel->end)
        kernel->end ();
    trial_clear (&trial);
    return best / (CELLS * kernel->fuse);
}

/* ---- choice ---------------------------------------------------------------------------------- */

bool wm_sparse_kernel_named (const wm_sparse_kernel_t *kernel, const char *name)
{
    const size_t n = strlen (kernel->isa);
    return strncmp (name, kernel->isa, n) == 0 &&
           (name[n] == 0 || (name[n] == '/' && strcmp (name + n + 1, kernel->precision) == 0));
}

static bool allows (const char *isa, double off, const wm_sparse_kernel_t *kernel)
{
    return (isa && *isa ? wm_sparse_kernel_named (kernel, isa) : !kernel->twin) &&
           kernel->off <= off;
}

/* Takes the best out of n tried ones.  */
static const wm_sparse_kernel_t *take_best (const wm_sparse_kernel_t **tried, double *time,
                                            uint32_t n)
{
    double least = INFINITY;
    uint32_t best = n;
    for (uint32_t t = 0; t < n; t++)
        least = fmin (least, time[t]);
    for (uint32_t t = 0; t < n; t++)
        if (time[t] <= least * NEAR && (best == n || tried[t]->off < tried[best]->off))
            best = t;
    const wm_sparse_kernel_t *kernel = tried[best];
    tried[best] = tried[n - 1], time[best] = time[n - 1];
    return kernel;
}

uint32_t wm_sparse_kernel_rank (const char *precision,
                                const wm_sparse_kernel_t *rank[WM_SPARSE_RANKS], wm_error_t *error)
{
    const char *isa = getenv ("WM_ISA");
    const double off = strcmp (precision, "fast") == 0 ? 1 : FP32_OFF;
    const wm_sparse_kernel_t *kernel, *tried[WM_SPARSE_RANKS];
    double time[WM_SPARSE_RANKS];
    uint32_t n = 0;
    for (uint32_t i = 0; (kernel = wm_sparse_kernel (i)) != NULL; i++) {
        bool again = false;
        for (uint32_t t = 0; t < n; t++)
            again |= strcmp (tried[t]->precision, kernel->precision) == 0;
        if (again || !allows (isa, off, kernel))
            continue;
        time[n] = wm_sparse_kernel_try (kernel);
        if (isinf (time[n]))
            continue; /* the next of this precision, then */
        tried[n++] = kernel;
    }
    for (uint32_t r = 0; r < n; r++)
        rank[r] = take_best (tried, time, n - r);
    if (n == 0)
        wm_fault (error, WM_EHOST,
                  "WM_ISA=%s: not what this machine can run in %s; amx, avx512-vnni, avx512, "
                  "avx-vnni, avx2, c and amx-twin are known, also as avx512/bf16 with bf16, "
                  "bf16x3, int16 or fp32; unset WM_ISA for the best",
                  isa ? isa : "", precision);
    return n;
}
