/* sparse_bench.c - how fast the exact-sparse engine is, by instruction set, precision and threads.

   Measures each kernel that this machine can run, and prints a point for each in the format of
   `wiremill bench --json`: best_hits_s, hits a second in the fastest round; cpu_hits_s, hits a
   second of CPU time and thread (the same on an idle machine, the better number on a shared one);
   cpu_gflops, the executed multiply-adds (zeros skipped) by CPU time; cpu_peak_share, their share
   of the machine's measured peak of fused multiply-adds in fp32; error, the largest difference of a
   score from double over some of the hits.

   WM_ISA picks one instruction set. Other programs on the machine change what is measured: compare
   side by side, in one run.  */
#include "kernels/judge/wm_peak.h"
#include "kernels/judge/wm_reference.h"
#include "kernels/sparse/wm_sparse.h"
#include "schema/option/wm_option.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECKED 64u     /* hits compared with double */
#define DENSE_HITS 400u /* patches of a batch: what 4 MiB hold */

static double seconds (clockid_t clock)
{
    struct timespec now;
    clock_gettime (clock, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

static void die (const char *text)
{
    fprintf (stderr, "sparse_bench: %s\n", text);
    exit (1);
}

static void *memory (size_t count, size_t each)
{
    void *p = calloc (count ? count : 1, each);
    if (!p)
        die ("no memory");
    return p;
}

/* ---- planes ---------------------------------------------------------------------------------- */

typedef struct {
    uint32_t wires, bins, n_hit;
    float *image;
    int32_t *hit; /* (n_hit, 2) */
} plane_t;

static uint32_t seed = 1;

static double uniform (void)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) / 16777216.0;
}

/* Nothing is 0 anywhere; hits all over.  */
static plane_t make_noise (uint32_t n_hit)
{
    plane_t p = { .wires = 960, .bins = 1000, .n_hit = n_hit };
    p.image = memory ((size_t) p.wires * p.bins, sizeof (float));
    p.hit = memory (2 * (size_t) n_hit, sizeof (int32_t));
    for (size_t i = 0; i < (size_t) p.wires * p.bins; i++)
        p.image[i] = (float) (2 * uniform () - 1 + 1e-6);
    for (uint32_t n = 0; n < n_hit; n++) {
        p.hit[2 * n] = (int32_t) (uniform () * p.wires);
        p.hit[2 * n + 1] = (int32_t) (uniform () * p.bins);
    }
    return p;
}

/* Straight tracks: three bins a wire, a hit on each.  */
static plane_t make_plane (uint32_t n_hit)
{
    plane_t p = { .wires = 960, .bins = 1000, .n_hit = n_hit };
    p.image = memory ((size_t) p.wires * p.bins, sizeof (float));
    p.hit = memory (2 * (size_t) n_hit, sizeof (int32_t));
    for (uint32_t n = 0; n < n_hit;) {
        double bin = uniform () * p.bins, slope = (uniform () - 0.5) * 4;
        uint32_t wire = (uint32_t) (uniform () * p.wires);
        uint32_t end = wire + 20 + (uint32_t) (uniform () * 400);
        for (; wire < end && wire < p.wires && n < n_hit; wire++, bin += slope) {
            if (bin < 2 || bin > p.bins - 2)
                break;
            for (uint32_t b = (uint32_t) bin - 1; b < (uint32_t) bin + 2; b++)
                p.image[(size_t) wire * p.bins + b] += (float) (0.3 + 3 * uniform ());
            p.hit[2 * n] = (int32_t) wire, p.hit[2 * n + 1] = (int32_t) bin;
            n++;
        }
    }
    return p;
}

static void *read_file (const char *path, size_t *bytes)
{
    FILE *file = fopen (path, "rb");
    if (!file || fseek (file, 0, SEEK_END))
        die (path);
    long size = ftell (file);
    rewind (file);
    void *data = memory ((size_t) size, 1);
    *bytes = (size_t) size;
    if (fread (data, 1, *bytes, file) != *bytes)
        die (path);
    fclose (file);
    return data;
}

static int by_place (const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* The plane as a batch: runs of what is not 0, hits in order.  */
static wm_batch_t batch_of (plane_t *p)
{
    size_t pixels = (size_t) p->wires * p->bins;
    wm_batch_t b = { .kind = WM_BATCH_BINS, .n_hit = p->n_hit, .n_wire = p->wires };
    b.n_col = p->bins;
    b.run_wire = memory (pixels, sizeof (uint32_t));
    b.run_first = memory (pixels, sizeof (uint32_t));
    b.run_length = memory (pixels, sizeof (uint32_t));
    b.value = memory (pixels, sizeof (float));
    b.hit_wire = memory (p->n_hit, sizeof (uint32_t));
    b.hit_col = memory (p->n_hit, sizeof (int32_t));
    for (uint32_t w = 0; w < p->wires; w++)
        for (uint32_t c = 0; c < p->bins; c++) {
            float v = p->image[(size_t) w * p->bins + c];
            if (v == 0)
                continue;
            if (c == 0 || p->image[(size_t) w * p->bins + c - 1] == 0) {
                b.run_wire[b.n_run] = w, b.run_first[b.n_run] = c;
                b.run_length[b.n_run++] = 0;
            }
            b.run_length[b.n_run - 1]++;
            b.value[b.n_value++] = v;
        }
    qsort (p->hit, p->n_hit, 2 * sizeof *p->hit, by_place);
    for (uint32_t i = 0; i < p->n_hit; i++) {
        b.hit_wire[i] = (uint32_t) p->hit[2 * i];
        b.hit_col[i] = p->hit[2 * i + 1];
    }
    return b;
}

/* ---- one measurement ------------------------------------------------------------------------- */

typedef struct {
    const wm_net_t *net;
    wm_spec_t spec;
    wm_batch_t batch, dense;
    uint32_t n_output, n_checked;
    float *checked; /* (n_checked, n_output): double's scores of every so many-th hit */
    double peak;
    int repeat;
    bool full; /* the dense form: zeros are computed with */
} bench_t;

static void judge (bench_t *bench)
{
    size_t each = (size_t) bench->net->height * bench->net->width;
    float *patch = memory (each, sizeof *patch);
    wm_reference_t *reference = wm_reference_new (bench->net);
    bench->n_checked = CHECKED < bench->batch.n_hit ? CHECKED : bench->batch.n_hit;
    bench->checked = memory ((size_t) bench->n_checked * bench->n_output, sizeof (float));
    for (uint32_t i = 0; i < bench->n_checked; i++) {
        wm_image_patch_reference (&bench->spec, &bench->batch,
                                  i * (bench->batch.n_hit / bench->n_checked), patch);
        wm_reference_run (reference, patch, 1, bench->checked + (size_t) i * bench->n_output,
                          bench->n_output);
    }
    wm_reference_destroy (&reference);
    free (patch);
}

static double difference (const bench_t *bench, const float *scores)
{
    double worst = 0;
    for (uint32_t i = 0; i < bench->n_checked * bench->n_output; i++) {
        uint32_t hit = i / bench->n_output * (bench->batch.n_hit / bench->n_checked);
        double d = (double) scores[(size_t) hit * bench->n_output + i % bench->n_output] -
                   (double) bench->checked[i];
        worst = fmax (worst, isnan (d) ? INFINITY : fabs (d));
    }
    return worst;
}

static void score_all (wm_sparse_t *engine, const bench_t *bench, float *scores)
{
    wm_error_t error = { 0 };
    if (!bench->dense.n_hit) {
        if (wm_sparse_score (engine, &bench->batch, scores, NULL, &error))
            die (error.text);
        return;
    }
    for (uint32_t first = 0; first < bench->dense.n_hit; first += DENSE_HITS) {
        wm_batch_t part = bench->dense;
        part.n_hit = part.n_hit - first < DENSE_HITS ? part.n_hit - first : DENSE_HITS;
        part.patch += (size_t) first * part.patch_values;
        if (wm_sparse_score (engine, &part, scores + (size_t) first * bench->n_output, NULL,
                             &error))
            die (error.text);
    }
}

static void measure (const bench_t *bench, const wm_sparse_kernel_t *kernel, uint32_t threads)
{
    wm_error_t error = { 0 };
    double wall = INFINITY, cpu = INFINITY, start = seconds (CLOCK_MONOTONIC);
    const wm_sparse_config_t config = { .kernel = kernel, .threads = threads };
    wm_sparse_t *engine = wm_sparse_new (bench->net, &bench->spec, &config, &error);
    if (!engine)
        die (error.text);
    double opened = seconds (CLOCK_MONOTONIC) - start;
    engine->count_madds = true;
    if (bench->full)
        engine->full_from = 0;
    float *scores = memory ((size_t) bench->batch.n_hit * bench->n_output, sizeof *scores);
    for (int r = 0; r < bench->repeat + 1; r++) {
        double cpu_start = seconds (CLOCK_PROCESS_CPUTIME_ID);
        start = seconds (CLOCK_MONOTONIC);
        score_all (engine, bench, scores);
        wall = fmin (wall, seconds (CLOCK_MONOTONIC) - start);
        if (!engine->count_madds)
            cpu = fmin (cpu, seconds (CLOCK_PROCESS_CPUTIME_ID) - cpu_start);
        engine->count_madds = false; /* the first round counts and warms up */
    }
    wm_sparse_stats_t stats = wm_sparse_stats (engine);
    const double gflops = 2e-9 * (double) stats.madds / cpu, hits = bench->batch.n_hit;
    static int n_point;
    printf ("%s\n{\"bench\": \"kernel\", \"kernel\": \"%s/%s\", \"threads\": %u, "
            "\"best_hits_s\": %.1f, \"cpu_hits_s\": %.1f, \"cpu_gflops\": %.2f, "
            "\"cpu_peak_share\": %.4f, \"live_positions\": %.1f, \"judged\": %u, "
            "\"error\": %.3g, \"open_ms\": %.1f}",
            n_point++ ? "," : "", kernel->isa, kernel->precision, threads, hits / wall, hits / cpu,
            gflops, bench->peak > 0 ? gflops / bench->peak : 0,
            (double) stats.pairs / (double) stats.cells, bench->n_checked,
            fmin (difference (bench, scores), 9.9e99), 1e3 * opened);
    fflush (stdout);
    free (scores);
    wm_sparse_destroy (&engine);
}

/* ---- main ------------------------------------------------------------------------------------ */

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "hits", .value = "N", .least = 1, .most = 10000000,
     .help = "hits of the made plane (default: 18000; with --noise 3000)"},
    {.name = "noise", .help = "make a plane where nothing is 0, instead of straight tracks"},
    {.name = "plane", .value = "FILE",
     .help = "instead of a made plane: float32 images (wires, bins), 0 between the runs"},
    {.name = "wires", .value = "N", .least = 1, .most = 1000000, .help = "of that plane"},
    {.name = "hitfile", .value = "FILE", .help = "of that plane: int32 pairs (wire, bin)"},
    {.name = "dense", .help = "give the same hits as dense patches"},
    {.name = "full", .help = "use the dense form, which skips no zeros behind the convolution; "
                             "without sparsity the other should not be slower"},
    {.name = "threads", .value = "N,N", .fallback = "1,2", .help = "threads of the engine"},
    {.name = "repeat", .value = "N", .fallback = "3", .least = 1, .most = 1000000,
     .help = "rounds of each measurement"},
    {.name = NULL},
};
static const wm_verb_t verb = {
    .program = "sparse_bench", .name = "", .rest = "MODEL.wmm", .options = options,
    .summary = "speed of the exact-sparse engine's kernels",
};
/* clang-format on */

static plane_t find_plane (const wm_args_t *args)
{
    const char *file = wm_args_text (args, "plane"), *hitfile = wm_args_text (args, "hitfile");
    const uint32_t hits = (uint32_t) wm_args_number (args, "hits");
    if (wm_args_given (args, "noise"))
        return make_noise (hits ? hits : 3000);
    if (!file)
        return make_plane (hits ? hits : 18000);
    size_t bytes;
    plane_t p = { .wires = (uint32_t) wm_args_number (args, "wires") };
    if (p.wires == 0 || !hitfile)
        die ("--plane needs --wires and --hitfile");
    p.image = read_file (file, &bytes);
    p.bins = (uint32_t) (bytes / sizeof (float) / p.wires);
    p.hit = read_file (hitfile, &bytes);
    p.n_hit = (uint32_t) (bytes / 2 / sizeof (int32_t));
    return p;
}

static void cut_dense (bench_t *bench)
{
    wm_error_t error = { 0 };
    wm_plane_t *plane = wm_plane_new (&bench->spec);
    bench->dense = (wm_batch_t){ .kind = WM_BATCH_PATCHES, .n_hit = bench->batch.n_hit };
    bench->dense.patch_values = bench->net->height * bench->net->width;
    bench->dense.patch = memory (bench->batch.n_hit, bench->dense.patch_values * sizeof (float));
    if (!plane || wm_plane_load (plane, &bench->batch, &error))
        die (error.text);
    wm_plane_cut (plane, 0, bench->batch.n_hit, bench->dense.patch);
    wm_plane_destroy (&plane);
}

/* Every kernel that runs here, or those that WM_ISA names, by every number of threads.  */
static void measure_all (const bench_t *bench, const char *threads)
{
    const char *isa = getenv ("WM_ISA");
    const wm_sparse_kernel_t *kernel;
    for (uint32_t i = 0; (kernel = wm_sparse_kernel (i)) != NULL; i++)
        for (const char *t = threads; t; t = strchr (t, ',')) {
            t += *t == ',';
            if (!isa || wm_sparse_kernel_named (kernel, isa))
                measure (bench, kernel, (uint32_t) atoi (t));
        }
}

int main (int argc, char **argv)
{
    int code;
    wm_error_t error = { 0 };
    wm_args_t *args = wm_args_new (&verb, argc, argv, &code);
    if (!args)
        return code;
    const char *path = wm_args_rest (args, 0);
    wm_model_t *model = path ? wm_model_open (path, &error) : NULL;
    if (!model)
        die (path ? error.text : "MODEL.wmm is missing; see sparse_bench --help");
    bench_t bench = { .net = wm_model_net (model),
                      .repeat = (int) wm_args_number (args, "repeat"),
                      .full = wm_args_given (args, "full") };
    if (!bench.net || bench.net->channel != 1)
        die ("not a model of the family, or several channels");
    if (wm_spec_preset (&bench.spec, "protodune-2021", &error))
        die (error.text);
    bench.spec.patch_wire = bench.net->height, bench.spec.patch_bin = bench.net->width;
    bench.n_output = wm_model_n_output (model);
    plane_t plane = find_plane (args);
    bench.batch = batch_of (&plane);
    judge (&bench);
    if (wm_args_given (args, "dense"))
        cut_dense (&bench);
    bench.peak = wm_peak_gflops (WM_PEAK_FP32);
    printf ("{\"schema\": \"wiremill-bench-1\", \"machine\": {\"peak_fp32_gflops\": %.1f}, "
            "\"about\": {\"hits\": %u, \"wires\": %u, \"bins\": %u}, \"points\": [",
            bench.peak, bench.batch.n_hit, bench.batch.n_wire, bench.batch.n_col);
    measure_all (&bench, wm_args_text (args, "threads"));
    printf ("\n]}\n");
    wm_args_destroy (&args);
    return 0;
}
