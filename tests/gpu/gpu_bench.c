/* gpu_bench.c - how fast the CUDA engine is, by precision and stage, and cuDNN beside it.

   Two events, made as `wiremill synth` makes them and cut as a producer cuts them: the default one
   of about 55,000 hits, and three that are as sparse as the real event (29 % of the (hit, position)
   pairs active) and as large. Their batches are scored from decoded batches in host memory to
   scores in host memory, in three ways: all of the event in one call ("alone"); several events in
   blocking calls of 16,384 hits, one after another ("calls"); several events as a worker's engine
   process does it, submitted while others compute, as many hits under way as WM_LAUNCHES launches
   hold ("steady"). Times are the host's clock, the best of several rounds; stages are CUDA events
   in a second engine with one slot, since two slots overlap. Operations and bytes are counted first
   (gpu_floor.c), and the gap to their floor is printed. The floor's rates are an H200's as measured
   elsewhere: the machine's own are among the ceilings.

   Every row is a process of its own (gpu_apart): one that fails, crashes or hangs costs its row
   only.  */
#include "gpuworker/engine/wm_slots.h"
#include "kernels/cudnn/wm_any.h"
#include "kernels/cudnn/wm_any_net.h"
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
#define COPIES 16u   /* of the event in a call of the steady state */
#define CHECKED 64u  /* hits compared with double */
#define ROW_S 45     /* seconds a row may take */
#define USUAL 55000. /* hits to which times are scaled */
#define TENSOR_FLOPS 790e12
#define MEMORY_RATE 4.3e12
#define L2_RATE 5.5e12
#define FLOORS_FREE ((size_t) 6 << 30) /* bytes of the GPU where launches are counted */

static const char *const precisions[] = { "fp32", "tf32", "fp16", "split" };

/* What is scored: batches of one event or several, COPIES times.  */
typedef struct {
    wm_net_t *net;
    wm_spec_t spec;
    uint32_t n_hit, n_batch; /* of one copy */
    wm_batch_t *batch;
    const wm_batch_t **batch_p; /* (COPIES, n_batch) */
    float *scores, **scores_p;  /* (COPIES, n_hit, GPU_OUTPUTS); (COPIES, n_batch) */
    gpu_work_t work;
} event_t;

static double now_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return 1e3 * (double) now.tv_sec + 1e-6 * (double) now.tv_nsec;
}

static void add_work (event_t *self, const wm_batch_t *batch)
{
    gpu_work_t work;
    gpu_count_work (batch, &self->spec, &work);
    self->work.tensor_flop += work.tensor_flop;
    self->work.memory_bytes += work.memory_bytes;
    self->work.l2_bytes += work.l2_bytes;
    self->work.active += work.active * batch->n_hit / self->n_hit;
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

/* A row: an engine of its own on an event.  */
typedef struct {
    event_t *event;
    bool cudnn; /* the network's steps by cuDNN, instead of our kernels */
    wm_cuda_config_t config;
    double *ms; /* shared with the process that started the row: of an event, steady */
} row_t;

typedef struct {
    wm_cuda_t *cuda;
    wm_any_net_t *net; /* of cuDNN's, else NULL */
} engine_t;

static bool engine_open (engine_t *self, const row_t *row, wm_error_t *error)
{
    const event_t *event = row->event;
    *self = (engine_t){ 0 };
    if (!row->cudnn)
        self->cuda = wm_cuda_new (&wm_gpu_real, event->net, &event->spec, &row->config, error);
    else if ((self->net = wm_any_family_new (event->net, row->config.precision == WM_GPU_F32,
                                             error)) != NULL)
        self->cuda =
            wm_any_new (&wm_gpu_real, self->net, &event->spec, row->config.precision, 0, error);
    return self->cuda != NULL;
}

static void engine_close (engine_t *self)
{
    wm_cuda_destroy (&self->cuda);
    wm_any_net_destroy (&self->net);
}

typedef enum { ALONE, CALLS, STEADY } way_t;

/* Scores so many copies of the event in blocking calls of so many hits.  */
static wm_fault_t score_calls (engine_t *engine, const event_t *event, uint32_t copies,
                               uint32_t hits_call, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0, n, hits; i < copies * event->n_batch && !fault; i += n) {
        for (n = hits = 0; i + n < copies * event->n_batch && hits < hits_call; n++)
            hits += event->batch_p[i + n]->n_hit;
        const wm_batch_t *const *batch = event->batch_p + i;
        float *const *scores = event->scores_p + i;
        fault = wm_cuda_score_many (engine->cuda, n, batch, scores, NULL, error);
    }
    return fault;
}

/* Scores so many copies of the event as a worker does.  */
static wm_fault_t score_steady (engine_t *engine, const event_t *event, uint32_t copies,
                                wm_error_t *error)
{
    static wm_job_t job[WM_SLOTS];
    const uint64_t most = WM_LAUNCHES * (uint64_t) wm_cuda_fill (engine->cuda);
    wm_job_t *idle[WM_SLOTS], *next[WM_SLOTS], *done;
    uint32_t n_idle = WM_SLOTS, at = 0;
    uint64_t hits = 0; /* under way */
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < WM_SLOTS; i++)
        idle[i] = &job[i];
    while (!fault && (at < copies * event->n_batch || n_idle < WM_SLOTS)) {
        uint32_t n = 0;
        for (; at < copies * event->n_batch && n_idle > 0 && (hits < most || n_idle == WM_SLOTS);
             at++) {
            const wm_batch_t *batch = event->batch_p[at];
            *idle[--n_idle] =
                (wm_job_t){ .batch = batch, .scores = event->scores_p[at], .n_left = batch->n_hit };
            next[n++] = idle[n_idle];
            hits += batch->n_hit;
        }
        fault = wm_cuda_submit (engine->cuda, n, next, error);
        if (!fault)
            fault = wm_cuda_collect (engine->cuda, &done, error);
        if (!fault) {
            hits -= done->batch->n_hit;
            idle[n_idle++] = done;
        }
    }
    return fault;
}

/* Best time of an event, in this way; negative with *error if the engine failed.  */
static double time_event (engine_t *engine, event_t *event, way_t way, int rounds,
                          wm_error_t *error)
{
    const uint32_t copies = way == ALONE || engine->net ? 1 : COPIES; /* cuDNN in fp32: seconds */
    double best = INFINITY;
    for (int r = 0; r <= rounds; r++) { /* the first is not counted */
        double start = now_ms ();
        if (way == STEADY ? score_steady (engine, event, copies, error)
                          : score_calls (engine, event, copies,
                                         way == ALONE ? UINT32_MAX : WM_CUDA_HITS, error))
            return -1;
        double ms = (now_ms () - start) / copies;
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

static int run_engine (void *argument)
{
    row_t *row = argument;
    event_t *event = row->event;
    wm_error_t error = { 0 };
    engine_t engine;
    double allowed = 0, start = now_ms ();
    const bool open = engine_open (&engine, row, &error);
    const double opened = now_ms () - start;
    double alone = open ? time_event (&engine, event, ALONE, ROUNDS, &error) : -1;
    double calls = alone > 0 ? time_event (&engine, event, CALLS, ROUNDS, &error) : -1;
    double steady = calls > 0 ? time_event (&engine, event, STEADY, ROUNDS, &error) : -1;
    if (steady <= 0) {
        printf ("%s | | | | | | |\n", error.text);
        return !gpu_lacks (error.text);
    }
    const double residual = engine.net ? 0 : wm_cuda_residual (engine.cuda, &allowed);
    printf ("%.2f | %.2f | %.2f | %.2f | %.1e | %.0f | %s; %s", alone, event->n_hit / steady / 1e3,
            event->n_hit / calls / 1e3, steady * USUAL / event->n_hit, worst_of (event), opened,
            wm_cuda_signature (engine.cuda), wm_cuda_choice (engine.cuda));
    printf (allowed > 0 ? "; checksum off by %.1e, %.1e allowed |\n" : " |\n", residual, allowed);
    *row->ms = steady;
    engine_close (&engine);
    return 0;
}

/* Rows of our kernels in their precisions, *ms of half, and of cuDNN.  */
static bool bench_engines (event_t *event, bool all, double ms[2])
{
    bool ok = true;
    if (all) { /* what GPUs before Hopper, and after, get */
        row_t row = { event, false, { .precision = WM_GPU_F16, .plain = true }, &ms[1] };
        printf ("| v4, plain | fp16 | ");
        ok &= gpu_apart (ROW_S, run_engine, &row) == 0;
    }
    for (int cudnn = 0; cudnn < 2; cudnn++)
        for (int p = cudnn ? WM_GPU_F16 : WM_GPU_SPLIT; p >= (all ? WM_GPU_F32 : WM_GPU_F16); p--) {
            row_t row = { event,
                          cudnn != 0,
                          { .precision = (wm_gpu_precision_t) p },
                          p == WM_GPU_F16 && !cudnn ? &ms[0] : &ms[1] };
            if (p == WM_GPU_TF32)
                continue;
            printf ("| %s | %s | ", cudnn ? "cudnn" : "v4", precisions[p]);
            ok &= gpu_apart (ROW_S, run_engine, &row) == 0;
        }
    return ok;
}

/* Prints the least that must be done beside the time that it took, for 55,000 hits.  */
static void print_floor (const event_t *event, double ms)
{
    static const char *const bound[] = { "tensor cores", "memory", "L2 cache" };
    const gpu_work_t *work = &event->work;
    const double share = USUAL / event->n_hit;
    const double floor[] = { work->tensor_flop * share / TENSOR_FLOPS * 1e3,
                             work->memory_bytes * share / MEMORY_RATE * 1e3,
                             work->l2_bytes * share / L2_RATE * 1e3 };
    int most = floor[1] > floor[0] ? 1 : 0;
    most = floor[2] > floor[most] ? 2 : most;
    printf (
        "\nfp16, what our kernels do for 55,000 of these hits (%.0f %% of the (hit, position) "
        "pairs are active), and the floor at %.0f TFLOP/s, %.1f TB/s of memory and %.1f TB/s of "
        "L2:\n\n"
        "| TFLOP | memory, GB | L2, GB | floor, ms | bound by | steady, ms | times the floor |\n"
        "|---|---|---|---|---|---|---|\n"
        "| %.3f | %.2f | %.2f | %.2f | %s |",
        100 * work->active, TENSOR_FLOPS / 1e12, MEMORY_RATE / 1e12, L2_RATE / 1e12,
        work->tensor_flop * share / 1e12, work->memory_bytes * share / 1e9,
        work->l2_bytes * share / 1e9, floor[most], bound[most]);
    printf (ms > 0 ? " %.2f | %.2f |\n" : " | |\n", ms * share, ms * share / floor[most]);
    fflush (stdout);
}

/* A row a stage; the rate of what bounds Dense-1.  */
static int run_stages (void *argument)
{
    static const char *const name[] = {
        [WM_CUDA_LOAD] = "runs in, convolved where active",
        [WM_CUDA_DENSE] = "Dense-1",
        [WM_CUDA_TAIL] = "tail",
        [WM_CUDA_COPY_OUT] = "scores out",
    };
    row_t *row = argument;
    const gpu_work_t *work = &row->event->work;
    const char *precision = precisions[row->config.precision];
    double ms[WM_CUDA_STAGES];
    wm_error_t error = { 0 };
    engine_t engine;
    if (!engine_open (&engine, row, &error) ||
        time_event (&engine, row->event, ALONE, 1, &error) < 0) {
        printf ("| %s | %s | | |\n", precision, error.text);
        return 1;
    }
    wm_cuda_times (engine.cuda, ms); /* of the first rounds: thrown away */
    time_event (&engine, row->event, ALONE, ROUNDS - 1, &error);
    wm_cuda_times (engine.cuda, ms);
    for (int s = 0; s < WM_CUDA_STAGES; s++) {
        ms[s] /= ROUNDS;
        printf ("| %s | %s | %.3f |", precision, name[s], ms[s]);
        if (s == WM_CUDA_DENSE && row->config.precision == WM_GPU_F16)
            printf (" %.2f TB/s of L2, %.0f TFLOP/s", work->l2_bytes / ms[s] / 1e9,
                    work->tensor_flop / ms[s] / 1e9);
        printf (" |\n");
    }
    engine_close (&engine);
    return 0;
}

static bool bench_stages (event_t *event)
{
    bool ok = true;
    printf ("\nStages, one after another (ms an event of %u hits):\n\n| precision | stage | ms | "
            "rate |\n|---|---|---|---|\n",
            event->n_hit);
    for (int p = WM_GPU_SPLIT; p >= WM_GPU_F32; p--) {
        row_t row = { event, false, { .precision = (wm_gpu_precision_t) p, .timed = true }, NULL };
        ok &= p == WM_GPU_TF32 || gpu_apart (ROW_S, run_stages, &row) == 0;
    }
    return ok;
}

/* Times launches of different sizes. A block has a band of 256 hits: in one band 16,384 fill 64
   multiprocessors, in two or four nearly all of an H200's; fewer bands write less.  */
static int run_hits (void *argument)
{
    row_t *row = argument;
    wm_error_t error = { 0 };
    engine_t engine;
    const bool open = engine_open (&engine, row, &error);
    const double calls = open ? time_event (&engine, row->event, CALLS, 2, &error) : -1,
                 ms = calls > 0 ? time_event (&engine, row->event, STEADY, 2, &error) : -1;
    printf ("| %u | %u | ", row->config.hits, row->config.bands);
    if (ms <= 0)
        printf ("%s | | | |\n", error.text);
    else
        printf ("%.2f | %.2f | %.2f | %s |\n", ms, row->event->n_hit / ms / 1e3,
                row->event->n_hit / calls / 1e3, wm_cuda_choice (engine.cuda));
    return ms <= 0;
}

static bool bench_hits (event_t *event)
{
    bool ok = true;
    static const uint32_t size[][2] = { /* hits a launch, bands */
                                        { 2048, 4 },  { 4096, 4 },  { 8192, 4 },  { 16384, 4 },
                                        { 32768, 4 }, { 16384, 1 }, { 16384, 2 }, { 32768, 2 }
    };
    printf ("\nfp16, hits a launch, and bands that a window's rows are cut into:\n\n"
            "| hits | bands | event, ms, steady | million hits/s | in calls of 16,384 hits | what "
            "ran |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        row_t row = {
            event, false, { .precision = WM_GPU_F16, .hits = size[i][0], .bands = size[i][1] }, NULL
        };
        ok &= gpu_apart (ROW_S, run_hits, &row) == 0;
    }
    return ok;
}

/* An event's table, and its floor.  */
static bool bench_event (event_t *event, const char *what, bool all)
{
    double *ms =
        mmap (NULL, 2 * sizeof *ms, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert (ms != MAP_FAILED);
    printf ("\n%s: %u hits in %u batches, %.0f %% of the (hit, position) pairs active; %u hits a "
            "launch of v4\n\n"
            "| engine | precision | alone, ms | million hits/s, steady | in calls of 16,384 hits | "
            "55,000 hits steady, ms | off from double | open, ms | what ran |\n"
            "|---|---|---|---|---|---|---|---|---|\n",
            what, event->n_hit, event->n_batch, 100 * event->work.active, WM_CUDA_HITS);
    const bool ok = bench_engines (event, all, ms);
    print_floor (event, ms[0]);
    munmap (ms, 2 * sizeof *ms);
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
    ok &= bench_hits (&usual);
    free_event (&usual);
    free_event (&sparse);
    return ok ? 0 : 1;
}

/* Prints what each of our kernels does.  */
static void print_counted (const event_t *event)
{
    gpu_counted_t counted;
    printf ("\nOur kernels for 55,000 of these hits, counted on the stand-in:\n\n"
            "| precision | kernel | launches | MB written | TFLOP | GB of L2 read |\n"
            "|---|---|---|---|---|---|\n");
    for (int p = WM_GPU_F32; p <= WM_GPU_SPLIT; p++)
        if (p != WM_GPU_TF32) {
            gpu_count_kernels (event->net, &event->spec, (wm_gpu_precision_t) p, event->n_batch,
                               event->batch_p, FLOORS_FREE, &counted);
            gpu_counted_print (&counted, precisions[p]);
        }
}

int gpu_floors (double hits)
{
    for (int sparse = 0; sparse < 2; sparse++) {
        event_t event;
        make_event (&event, sparse ? 3 : 1, sparse ? hits * 16 / 55 : hits);
        print_floor (&event, 0);
        print_counted (&event);
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
