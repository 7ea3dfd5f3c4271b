/* gpu_bench.c - how fast the CUDA engine is, by version, precision, stage and algorithm.

   Two events, made as `wiremill synth` makes them and cut as a producer cuts them: the default one
   of about 55,000 hits, and three that are as sparse as the real event (29 % of the (hit, position)
   pairs active) and as large. Their batches are scored together through wm_cuda_score_many, from
   decoded batches in host memory to scores in host memory, once ("alone") and several times in one
   call ("steady": what a worker with enough to do has). Times are the host's clock, the best of
   several calls; stages are CUDA events in a second engine with one slot, since two slots overlap.
   Operations and bytes are counted first (gpu_floor.c), and each version's gap to its floor is
   printed. The floors' rates are an H200's as measured elsewhere: the machine's own are among the
   ceilings.

   Every row is a process of its own (gpu_apart): one that fails, crashes or hangs costs its row
   only.  */
#include "tests/gpu/gpu_check.h"
#include "tests/gpu/gpu_event.h"
#include "tests/gpu/gpu_floor.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define ROUNDS 5
#define COPIES 4u    /* of the event in a call of the steady state */
#define CHECKED 64u  /* hits compared with double */
#define ROW_S 45     /* seconds a row may take */
#define USUAL 55000. /* hits to which times are scaled */
#define TENSOR_FLOPS 790e12
#define MEMORY_RATE 4.3e12
#define L2_RATE 5.5e12

static const char *const precisions[] = { "fp32", "tf32", "fp16" };

/* What is scored: batches of one event or several, COPIES times.  */
typedef struct {
    wm_net_t *net;
    wm_spec_t spec;
    uint32_t n_hit, n_batch; /* of one copy */
    wm_batch_t *batch;
    const wm_batch_t **batch_p; /* (COPIES, n_batch) */
    float *scores, **scores_p;  /* (COPIES, n_hit, GPU_OUTPUTS); (COPIES, n_batch) */
    gpu_work_t work[4];
} event_t;

static double now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return 1e3 * (double) now.tv_sec + 1e-6 * (double) now.tv_nsec;
}

static void add_work (event_t *self, const wm_batch_t *batch)
{
    gpu_work_t work[4];
    gpu_count_work (batch, &self->spec, work);
    for (int v = 1; v <= 3; v++) {
        self->work[v].tensor_flop += work[v].tensor_flop;
        self->work[v].memory_bytes += work[v].memory_bytes;
        self->work[v].l2_bytes += work[v].l2_bytes;
        self->work[v].active += work[v].active * batch->n_hit / self->n_hit;
    }
}

/* `events` of them, of about so many hits each.  */
static void make_event (event_t *self, uint32_t events, double hits)
{
    *self = (event_t){ .net = gpu_net_new (&gpu_shape_real, 1) };
    wm_fault_t fault = wm_spec_preset (&self->spec, "protodune-2021", NULL);
    assert (!fault);
    for (uint32_t e = 1; e <= events; e++) {
        gpu_event_t event;
        gpu_event_new (&event, &self->spec, hits, 1, e);
        self->batch = realloc (self->batch, (self->n_batch + event.n_batch) * sizeof *self->batch);
        assert (self->batch);
        memcpy (self->batch + self->n_batch, event.batch, event.n_batch * sizeof *event.batch);
        self->n_batch += event.n_batch, self->n_hit += event.n_hit;
        free (event.batch);
    }
    self->batch_p = calloc (COPIES * (size_t) self->n_batch, sizeof *self->batch_p);
    self->scores_p = calloc (COPIES * (size_t) self->n_batch, sizeof *self->scores_p);
    self->scores = calloc (COPIES * (size_t) self->n_hit * GPU_OUTPUTS, sizeof *self->scores);
    assert (self->batch_p && self->scores_p && self->scores);
    float *scores = self->scores;
    for (uint32_t i = 0; i < COPIES * self->n_batch; i++) {
        self->batch_p[i] = &self->batch[i % self->n_batch];
        self->scores_p[i] = scores;
        scores += (size_t) self->batch_p[i]->n_hit * GPU_OUTPUTS;
    }
    for (uint32_t i = 0; i < self->n_batch; i++)
        add_work (self, &self->batch[i]);
}

static void free_event (event_t *self)
{
    for (uint32_t i = 0; i < self->n_batch; i++)
        wm_batch_clear (&self->batch[i]);
    free (self->batch);
    free (self->batch_p);
    free (self->scores_p);
    free (self->scores);
    gpu_net_destroy (&self->net);
}

/* Best time of a call with so many copies of the event; negative with *error if the engine
   failed.  */
static double time_event (wm_cuda_t *cuda, event_t *event, uint32_t copies, int rounds,
                          wm_error_t *error)
{
    double best = INFINITY;
    for (int r = 0; r <= rounds; r++) { /* the first is not counted */
        double start = now_ms ();
        if (wm_cuda_score_many (cuda, copies * event->n_batch, event->batch_p, event->scores_p,
                                NULL, error))
            return -1;
        double ms = now_ms () - start;
        best = r > 0 && ms < best ? ms : best;
    }
    return best;
}

/* The largest difference from double of some hits of every batch.  */
static double worst_of (const event_t *event)
{
    double worst = 0;
    for (uint32_t i = 0; i < event->n_batch; i++) {
        double off = gpu_worst (event->net, &event->spec, event->batch_p[i], event->scores_p[i],
                                event->n_hit / CHECKED + 1);
        worst = off <= worst ? worst : off;
    }
    return worst;
}

/* A row: an engine of its own on an event.  */
typedef struct {
    event_t *event;
    wm_cuda_config_t config;
    double *ms; /* shared with the process that started the row: of an event, steady */
} row_t;

static wm_cuda_t *engine (const row_t *row, wm_error_t *error)
{
    return wm_cuda_new (&wm_gpu_real, row->event->net, &row->event->spec, &row->config, error);
}

static int run_version (void *argument)
{
    row_t *row = argument;
    event_t *event = row->event;
    wm_error_t error = { 0 };
    double allowed = 0, start = now_ms ();
    wm_cuda_t *cuda = engine (row, &error);
    const double opened = now_ms () - start;
    double alone = cuda ? time_event (cuda, event, 1, ROUNDS, &error) : -1;
    double steady = alone > 0 ? time_event (cuda, event, COPIES, ROUNDS, &error) / COPIES : -1;
    if (steady <= 0) {
        printf ("%s | | | | | |\n", error.text);
        return 1;
    }
    const double residual = wm_cuda_residual (cuda, &allowed);
    printf ("%.2f | %.2f | %.2f | %.1e | %.0f | %s; %s", alone, event->n_hit / steady / 1e3,
            steady * USUAL / event->n_hit, worst_of (event), opened, wm_cuda_signature (cuda),
            wm_cuda_choice (cuda));
    printf (allowed > 0 ? "; checksum off by %.1e, %.1e allowed |\n" : " |\n", residual, allowed);
    *row->ms = steady;
    wm_cuda_destroy (&cuda);
    return 0;
}

/* Rows of versions in their precisions; *ms: by version, in half.  */
static bool bench_versions (event_t *event, bool all, double ms[4])
{
    bool ok = true;
    for (int p = WM_GPU_F16; p >= (all ? WM_GPU_F32 : WM_GPU_F16); p--)
        for (uint32_t v = 3; v >= 1; v--) {
            double *to = p == WM_GPU_F16 ? &ms[v] : &ms[0];
            row_t row = { event, { .precision = (wm_gpu_precision_t) p, .version = v }, to };
            if (p == WM_GPU_F32 && v > 1)
                continue;
            printf ("| v%u | %s | ", v, precisions[p]);
            ok &= gpu_apart (ROW_S, run_version, &row) == 0;
        }
    return ok;
}

/* Prints the least that each version must do beside the time that it took, for 55,000 hits.  */
static void print_floors (const event_t *event, const double ms[4])
{
    static const char *const bound[] = { "tensor cores", "memory", "L2 cache" };
    const gpu_work_t *work = event->work;
    const double share = USUAL / event->n_hit;
    printf (
        "\nfp16, what each version does for 55,000 of these hits (%.0f %% of the (hit, position) "
        "pairs are active), and its floor at %.0f TFLOP/s, %.1f TB/s of memory and %.1f TB/s of "
        "L2:\n\n"
        "| version | TFLOP | memory, GB | L2, GB | floor, ms | bound by | steady, ms | times "
        "the floor |\n|---|---|---|---|---|---|---|---|\n",
        100 * work[3].active, TENSOR_FLOPS / 1e12, MEMORY_RATE / 1e12, L2_RATE / 1e12);
    for (int v = 1; v <= 3; v++) {
        const double floor[] = { work[v].tensor_flop * share / TENSOR_FLOPS * 1e3,
                                 work[v].memory_bytes * share / MEMORY_RATE * 1e3,
                                 work[v].l2_bytes * share / L2_RATE * 1e3 };
        int most = floor[1] > floor[0] ? 1 : 0;
        most = floor[2] > floor[most] ? 2 : most;
        printf ("| v%d | %.3f | %.2f | %.2f | %.2f | %s |", v, work[v].tensor_flop * share / 1e12,
                work[v].memory_bytes * share / 1e9, work[v].l2_bytes * share / 1e9, floor[most],
                bound[most]);
        printf (ms[v] > 0 ? " %.2f | %.2f |\n" : " | |\n", ms[v] * share,
                ms[v] * share / floor[most]);
    }
    fflush (stdout);
}

/* Prints the time of each stage of a round. Returns 1, with the reason printed, if it failed.  */
static int time_stages (const row_t *row, double ms[WM_CUDA_STAGES])
{
    wm_error_t error = { 0 };
    wm_cuda_t *cuda = engine (row, &error);
    if (!cuda || time_event (cuda, row->event, 1, 1, &error) < 0) {
        printf ("| v%u | %s | %s | | |\n", row->config.version, precisions[row->config.precision],
                error.text);
        return 1;
    }
    wm_cuda_times (cuda, ms); /* of the first rounds: thrown away */
    time_event (cuda, row->event, 1, ROUNDS - 1, &error);
    wm_cuda_times (cuda, ms);
    for (int s = 0; s < WM_CUDA_STAGES; s++)
        ms[s] /= ROUNDS;
    wm_cuda_destroy (&cuda);
    return 0;
}

/* One row a stage of version 1: time, bytes to memory and operations of all chunks.  */
static int run_stages (void *argument)
{
    static const char *const name[] = { "copies in", "gather", "convolution",
                                        "Dense-1",   "tail",   "copies out" };
    const row_t *row = argument;
    double ms[WM_CUDA_STAGES], rows = 0;
    const int p = row->config.precision;
    if (time_stages (row, ms))
        return 1;
    for (uint32_t i = 0; i < row->event->n_batch; i++)
        rows += ceil (row->event->batch[i].n_hit / (double) WM_CUDA_ROWS) * WM_CUDA_ROWS;
    const double each = p == WM_GPU_F16 ? 2 : 4, conv = 92928 * each, sums = 44 * 128 * 4;
    const double bytes[] = { 4, 2304 * (4 + each), 2304 * each + conv, conv + sums, sums, 16 };
    const double flops[] = { 0, 0, 2. * 92928 * 25, 2. * 92928 * 128, 2. * 128 * 33, 0 };
    for (int s = 0; s < WM_CUDA_STAGES; s++)
        printf ("| v1 | %s | %s | %.3f | %.0f GB/s, %.1f TFLOP/s |\n", precisions[p], name[s],
                ms[s], rows * bytes[s] / ms[s] / 1e6, rows * flops[s] / ms[s] / 1e9);
    return 0;
}

/* The same of versions 2 and 3; rates of what bounds each.  */
static int run_window_stages (void *argument)
{
    static const char *const name[] = { "runs in, laid out", "what is active", "convolution",
                                        "Dense-1",           "tail",           "scores out" };
    const row_t *row = argument;
    const gpu_work_t *work = &row->event->work[row->config.version];
    double ms[WM_CUDA_STAGES];
    if (time_stages (row, ms))
        return 1;
    for (int s = 0; s < WM_CUDA_STAGES; s++) {
        printf ("| v%u | %s | %s | %.3f |", row->config.version, precisions[row->config.precision],
                name[s], ms[s]);
        if (s == WM_CUDA_GEMM)
            printf (" %.2f TB/s of L2, %.0f TFLOP/s", work->l2_bytes / ms[s] / 1e9,
                    work->tensor_flop / ms[s] / 1e9);
        else if (s == WM_CUDA_CONV)
            printf (" %.2f TB/s written", work->memory_bytes / 2 / ms[s] / 1e9);
        printf (" |\n");
    }
    return 0;
}

static bool bench_stages (event_t *event)
{
    bool ok = true;
    printf (
        "\nStages, one after another (ms an event of %u hits):\n\n| version | precision | stage | "
        "ms | rate |\n|---|---|---|---|---|\n",
        event->n_hit);
    for (uint32_t v = 3; v >= 1; v--) {
        row_t row = { event, { .version = v, .precision = WM_GPU_F16, .timed = true }, NULL };
        ok &= gpu_apart (ROW_S, v > 1 ? run_window_stages : run_stages, &row) == 0;
    }
    return ok;
}

/* Times the libraries' algorithms, to decide which to pin.  */
static int run_candidate (void *argument)
{
    const row_t *row = argument;
    double ms[WM_CUDA_STAGES];
    wm_error_t error = { 0 };
    wm_cuda_t *cuda = engine (row, &error);
    if (!cuda) {
        printf ("| %u | %u | %s | | |\n", row->config.conv_candidate, row->config.gemm_candidate,
                error.text);
        return 0; /* there are no more of them */
    }
    time_event (cuda, row->event, 1, 1, &error);
    wm_cuda_times (cuda, ms);
    if (time_event (cuda, row->event, 1, 1, &error) < 0)
        return 1;
    wm_cuda_times (cuda, ms);
    printf ("| %u | %u | %s | %.3f | %.3f |\n", row->config.conv_candidate,
            row->config.gemm_candidate, wm_cuda_choice (cuda), ms[WM_CUDA_CONV] / 2,
            ms[WM_CUDA_GEMM] / 2);
    return 0;
}

static bool bench_candidates (event_t *event)
{
    bool ok = true;
    printf ("\nv1 in fp16, the libraries' candidates (pinned is the first that treats all rows "
            "alike):\n\n"
            "| first cuDNN | first cuBLASLt | what ran | convolution, ms | Dense-1, ms |\n"
            "|---|---|---|---|---|\n");
    for (uint32_t c = 0; c < 8; c++) {
        row_t row = { event,
                      { .version = 1,
                        .precision = WM_GPU_F16,
                        .timed = true,
                        .conv_candidate = c % 2 ? c / 2 : 0,
                        .gemm_candidate = c % 2 ? 0 : c / 2 },
                      NULL };
        if (c != 1) /* both 0 again */
            ok &= gpu_apart (ROW_S, run_candidate, &row) == 0;
    }
    return ok;
}

/* Times launches of different sizes: few hits keep version 1's data in L2, many fill the GPU.  */
static int run_rows (void *argument)
{
    const row_t *row = argument;
    wm_error_t error = { 0 };
    wm_cuda_t *cuda = engine (row, &error);
    double ms = cuda ? time_event (cuda, row->event, COPIES, 2, &error) / COPIES : -1;
    printf ("| v%u | %u | ", row->config.version, row->config.rows);
    if (ms <= 0)
        printf ("%s | | |\n", error.text);
    else
        printf ("%.2f | %.2f | %s |\n", ms, row->event->n_hit / ms / 1e3, wm_cuda_choice (cuda));
    return ms <= 0;
}

static bool bench_rows (event_t *event)
{
    bool ok = true;
    printf (
        "\nfp16, hits a launch, steady:\n\n| version | hits | event, ms | million hits/s | what "
        "ran |\n|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t version = i < 4 ? 3 : 1, rows = i < 4 ? 2048u << i : 256u << (i - 4);
        row_t row = { event, { .version = version, .precision = WM_GPU_F16, .rows = rows }, NULL };
        ok &= gpu_apart (ROW_S, run_rows, &row) == 0;
    }
    return ok;
}

/* An event's table of versions and their floors.  */
static bool bench_event (event_t *event, const char *what, bool all)
{
    double *ms =
        mmap (NULL, 4 * sizeof *ms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert (ms != MAP_FAILED);
    printf (
        "\n%s: %u hits in %u batches, %.0f %% of the (hit, position) pairs active; %u patches a "
        "launch of v1, %u hits of v2 and v3\n\n"
        "| version | precision | alone, ms | million hits/s, steady | 55,000 hits steady, ms | "
        "off from double | open, ms | what ran |\n|---|---|---|---|---|---|---|---|\n",
        what, event->n_hit, event->n_batch, 100 * event->work[3].active, WM_CUDA_ROWS,
        WM_CUDA_HITS);
    const bool ok = bench_versions (event, all, ms);
    print_floors (event, ms);
    munmap (ms, 4 * sizeof *ms);
    return ok;
}

int gpu_bench (double hits)
{
    event_t usual, sparse;
    make_event (&usual, 1, hits);
    make_event (&sparse, 3, hits * 16 / 55); /* the real one: 21,294 hits, 29 % active */
    bool ok = bench_event (&usual, "The default synthetic event", true);
    ok &= bench_event (&sparse, "Three events as sparse and as large as the real one", false);
    ok &= bench_stages (&usual);
    ok &= bench_rows (&usual);
    ok &= bench_candidates (&usual);
    free_event (&usual);
    free_event (&sparse);
    return ok ? 0 : 1;
}

int gpu_floors (double hits)
{
    const double ms[4] = { 0 };
    for (int sparse = 0; sparse < 2; sparse++) {
        event_t event;
        make_event (&event, sparse ? 3 : 1, sparse ? hits * 16 / 55 : hits);
        print_floors (&event, ms);
        free_event (&event);
    }
    return 0;
}

/* ---- for PyTorch ----------------------------------------------------------------------------- */

static bool write_file (const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[4096];
    snprintf (path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen (path, "wb");
    bool ok = file && fwrite (data, 1, bytes, file) == bytes;
    return (!file || fclose (file) == 0) && ok;
}

static bool dump_net (const char *folder, const wm_net_t *net)
{
    const wm_conv_t *c = &net->conv[0];
    char name[32];
    bool ok = write_file (folder, "conv.w", c->weight, (size_t) c->kh * c->kw * c->c_out * 4) &&
              write_file (folder, "conv.b", c->bias, c->c_out * sizeof (float));
    for (uint32_t i = 0; ok && i < net->n_dense; i++) {
        const wm_dense_t *d = &net->dense[i];
        snprintf (name, sizeof name, "dense%u.w", i);
        ok = write_file (folder, name, d->weight, (size_t) d->n_in * d->n_out * sizeof (float));
        snprintf (name, sizeof name, "dense%u.b", i);
        ok = ok && write_file (folder, name, d->bias, d->n_out * sizeof (float));
    }
    return ok;
}

int gpu_dump (const char *folder, uint32_t hits)
{
    event_t event;
    wm_error_t error = { 0 };
    make_event (&event, 1, USUAL);
    wm_plane_t *plane = wm_plane_new (&event.spec);
    float *patches = calloc (hits + 4096, 2304 * sizeof *patches);
    uint32_t n = 0, batches = 0;
    bool ok = patches && plane;
    for (; ok && n < hits && batches < event.n_batch; n += event.batch[batches++].n_hit) {
        ok = !wm_plane_load (plane, &event.batch[batches], &error);
        if (ok)
            wm_plane_cut (plane, 0, event.batch[batches].n_hit, patches + (size_t) n * 2304);
    }
    wm_cuda_config_t config = { .precision = WM_GPU_F16 };
    wm_cuda_t *cuda = wm_cuda_new (&wm_gpu_real, event.net, &event.spec, &config, &error);
    ok = ok && cuda &&
         !wm_cuda_score_many (cuda, batches, event.batch_p, event.scores_p, NULL, &error);
    n = n < hits ? n : hits;
    ok = ok && dump_net (folder, event.net) &&
         write_file (folder, "patches", patches, (size_t) n * 2304 * sizeof *patches) &&
         write_file (folder, "scores", event.scores, (size_t) n * GPU_OUTPUTS * sizeof (float));
    if (!ok)
        fprintf (stderr, "gpu_check dump %s: %s\n", folder, *error.text ? error.text : "cannot");
    wm_cuda_destroy (&cuda);
    wm_plane_destroy (&plane);
    free (patches);
    free_event (&event);
    return ok ? 0 : 1;
}
