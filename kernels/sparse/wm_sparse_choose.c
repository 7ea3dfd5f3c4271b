/* wm_sparse_choose.c - which kernel runs: one table, read from the top; nothing is timed.

   The first row that the CPU can run, and that the precision asked for allows, is taken; a row of
   rounded weights only where its error, measured on the campaign's own hits, is small enough
   (kernels/judge/wm_trial.h), else the next. So a machine takes the same kernel at every start,
   whatever else it is doing, and machines of one kind take the same. The order was measured with
   `wiremill bench`, which reports where a machine disagrees with it. fp32 is one arithmetic on
   every x86-64 and AArch64 (STRICT), the rows differ in speed only.

   A kernel computes a small test before it is used, and is refused if a result is wrong.  */
#include "kernels/sparse/wm_sparse.h"
#include "kernels/sparse/wm_sparse_tiles.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* The test: some positions of the usual net, cells whose values are half zeros.  */
enum { CELLS = 128, FILTERS = 48, OUTPUTS = 128, POSITIONS = 4, CHECKED = 8 };

/* ---- the table ------------------------------------------------------------------------------- */

enum { FP32 = 1, SPLIT = 2, FAST = 4 };

typedef struct {
    const wm_sparse_kernel_t *kernel, *strict; /* strict: measures its errors, and replaces it */
    bool (*can_run) (void);
    unsigned allowed; /* by which precisions: 0, only by its name */
} row_t;

static bool has_portable (void)
{
    return true;
}

#if defined __x86_64__
static bool has_avx2 (void)
{
    return __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma");
}

static bool has_avx512 (void)
{
    return has_avx2 () && __builtin_cpu_supports ("avx512f") &&
           __builtin_cpu_supports ("avx512bw") && __builtin_cpu_supports ("avx512dq") &&
           __builtin_cpu_supports ("avx512vl");
}

static bool has_amx (void)
{
    return has_avx512 () && tiles_allowed ();
}

static bool has_avx512_vnni (void)
{
    return has_avx512 () && __builtin_cpu_supports ("avx512vnni");
}

static bool has_avx512_bf16 (void)
{
    return has_avx512 () && __builtin_cpu_supports ("avx512bf16");
}

static bool has_avx_vnni (void)
{
    return has_avx2 () && __builtin_cpu_supports ("avxvnni");
}
#elif defined __aarch64__
static bool has_neon_bf16 (void)
{
    return getauxval (AT_HWCAP2) & HWCAP2_BF16;
}
#endif

/* The fastest first; the search for a precision ends at its strict row.  */
#define ANY (FAST | SPLIT | FP32)
/* clang-format off */
static const row_t table[] = {
#if defined __x86_64__
    { &wm_sparse_kernel_amx_bf16,          &wm_sparse_kernel_avx512,  has_amx,         FAST },
    { &wm_sparse_kernel_amx_bf16x3,        &wm_sparse_kernel_avx512,  has_amx,
      FAST | SPLIT },
    { &wm_sparse_kernel_avx512_vnni_int16, &wm_sparse_kernel_avx512,  has_avx512_vnni, FAST },
    { &wm_sparse_kernel_avx512_bf16,       &wm_sparse_kernel_avx512,  has_avx512_bf16, FAST },
    { &wm_sparse_kernel_avx512,            &wm_sparse_kernel_avx512,  has_avx512,      ANY },
    { &wm_sparse_kernel_avx_vnni_int16,    &wm_sparse_kernel_avx2,    has_avx_vnni,    FAST },
    { &wm_sparse_kernel_avx2_int16,        &wm_sparse_kernel_avx2,    has_avx2,        FAST },
    { &wm_sparse_kernel_avx2,              &wm_sparse_kernel_avx2,    has_avx2,        ANY },
#elif defined __aarch64__
    { &wm_sparse_kernel_neon_bf16,         &wm_sparse_kernel_neon,    has_neon_bf16,   FAST },
    { &wm_sparse_kernel_neon,              &wm_sparse_kernel_neon,    has_portable,    ANY },
#endif
    { &wm_sparse_kernel_c,                 &wm_sparse_kernel_c,       has_portable,    ANY },
    { &wm_sparse_kernel_sse2,              &wm_sparse_kernel_c,       has_portable,    0 },
};
/* clang-format on */
#define ROWS (sizeof table / sizeof *table)

static row_t added[4]; /* behind the table's: none in the product */
static size_t n_added;

void wm_sparse_kernel_add (const wm_sparse_kernel_t *kernel)
{
    assert (n_added < sizeof added / sizeof *added);
    added[n_added++] = (row_t){ kernel, &wm_sparse_kernel_c, has_portable, 0 };
}

/* The i-th row; NULL behind the last.  */
static const row_t *row_at (size_t i)
{
    return i < ROWS ? &table[i] : i < ROWS + n_added ? &added[i - ROWS] : NULL;
}

static bool can_run (const row_t *row)
{
#if defined __x86_64__
    __builtin_cpu_init ();
#endif
    return row->can_run ();
}

bool wm_sparse_kernel_is_strict (const wm_sparse_kernel_t *kernel)
{
    for (size_t i = 0; i < ROWS; i++)
        if (table[i].strict == kernel)
            return true;
    return false;
}

/* The i-th of those that can be run here, or of those that cannot.  */
static const wm_sparse_kernel_t *find_kernel (uint32_t i, bool here)
{
    const row_t *row;
    for (size_t k = 0; (row = row_at (k)) != NULL; k++)
        if (can_run (row) == here && i-- == 0)
            return row->kernel;
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
    assert (kernel->fuse <= POSITIONS);
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

bool wm_sparse_kernel_works (const wm_sparse_kernel_t *kernel)
{
    trial_t trial;
    if (!trial_new (&trial, kernel))
        return false;
    if (kernel->begin)
        kernel->begin ();
    trial_run (&trial);
    const bool sound = trial_sound (&trial);
    if (kernel->end)
        kernel->end ();
    trial_clear (&trial);
    return sound;
}

/* ---- choice ---------------------------------------------------------------------------------- */

bool wm_sparse_kernel_named (const wm_sparse_kernel_t *kernel, const char *name)
{
    const size_t n = strlen (kernel->isa);
    return strncmp (name, kernel->isa, n) == 0 &&
           (name[n] == 0 || (name[n] == '/' && strcmp (name + n + 1, kernel->precision) == 0));
}

static unsigned precision_of (const char *precision)
{
    return strcmp (precision, "fast") == 0 ? FAST : strcmp (precision, "split") == 0 ? SPLIT : FP32;
}

/* Whether a precision allows a row that was named. Rows that are only ever named (allowed 0) stand
   for their own precision.  */
static bool allows (const row_t *row, unsigned asked)
{
    if (row->allowed)
        return row->allowed & asked;
    const char *its = row->kernel->precision;
    return strcmp (its, "fp32") == 0 || asked == FAST ||
           (asked == SPLIT && strcmp (its, "bf16x3") == 0);
}

/* The strict kernel of the instruction set that isa begins with; NULL isa: of this CPU.  */
static const wm_sparse_kernel_t *strict_of (const char *isa)
{
    const size_t n = isa ? strcspn (isa, "/") : 0;
    const row_t *row;
    for (size_t i = 0; (row = row_at (i)) != NULL; i++)
        if (can_run (row) &&
            (isa ? strlen (row->kernel->isa) == n && !memcmp (row->kernel->isa, isa, n)
                 : row->allowed & FP32))
            return row->strict;
    return NULL;
}

/* The rows that are tried, then the strict one. Without a name those of this CPU's best instruction
   sets; with one those that it names (WM_ISA=amx computes fp32 by AVX-512).  */
static uint32_t list_rows (unsigned asked, const char *isa, const wm_sparse_kernel_t **rank)
{
    const wm_sparse_kernel_t *strict = strict_of (isa);
    const row_t *row;
    uint32_t n = 0;
    for (size_t i = 0; strict && (row = row_at (i)) != NULL; i++) {
        bool again = row->kernel == strict;
        for (uint32_t r = 0; r < n; r++)
            again |= strcmp (rank[r]->precision, row->kernel->precision) == 0;
        if (!again && can_run (row) && row->strict == strict &&
            (isa ? wm_sparse_kernel_named (row->kernel, isa) && allows (row, asked)
                 : row->allowed & asked))
            rank[n++] = row->kernel;
    }
    if (strict && (n > 0 || !isa || !strchr (isa, '/') || wm_sparse_kernel_named (strict, isa)))
        rank[n++] = strict;
    return n;
}

uint32_t wm_sparse_kernel_rank (const char *precision, const char *isa,
                                const wm_sparse_kernel_t *rank[WM_SPARSE_RANKS], wm_error_t *error)
{
    const char *set = getenv ("WM_ISA");
    isa = isa && *isa ? isa : set && *set ? set : NULL;
    const uint32_t n = list_rows (precision_of (precision), isa, rank);
    if (n == 0)
        wm_fault (error, WM_EHOST,
                  "instruction set '%.64s': not what this CPU can run in %s; amx, avx512-vnni, "
                  "avx512, avx-vnni, avx2, neon, c and sse2 are known, also as avx512/bf16 "
                  "with bf16, bf16x3, int16 or fp32; leave out --isa (and WM_ISA) for the best",
                  isa ? isa : "", precision);
    return n;
}

bool wm_device_rule (uint32_t i, wm_rule_t *rule)
{
    if (i >= ROWS || !table[i].allowed)
        return false;
    const row_t *row = &table[i];
    *rule = (wm_rule_t){ .isa = row->kernel->isa,
                         .arithmetic = row->kernel->precision,
                         .here = can_run (row),
                         .fp32 = row->allowed & FP32,
                         .split = row->allowed & SPLIT,
                         .fast = row->allowed & FAST };
    return true;
}
