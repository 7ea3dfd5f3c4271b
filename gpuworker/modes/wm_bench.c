/* wm_bench.c - see wm_bench.h.

   Each device takes the next batch, in rounds over all batches in one shuffled order, so that a
   part of a round is like the whole. A GPU gets batches as a worker's engine process gives them: as
   many are under way as WM_LAUNCHES launches hold. A first round warms memory up and counts the
   multiply-adds of the hits that it scores. Some hits of as many batches as possible are compared
   with the reference in double.  */
#include "gpuworker/modes/wm_bench.h"
#include "gpuworker/engine/wm_slots.h"
#include "gpuworker/modes/wm_stream.h"
#include "kernels/judge/wm_trial.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_order.h"
#include "schema/wm_limits.h"
#include "schema/wm_trace.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_S_MAX 3.0

typedef struct bench_t bench_t;

/* A batch on its way through a GPU.  */
typedef struct {
    wm_job_t job;
    int64_t start_ns;
} flight_t;

typedef struct {
    bench_t *bench;
    wm_device_t *device;
    uint8_t *status;
    float *scores, *took_ms;   /* took_ms (n_took): of each batch, from its start to its scores */
    flight_t flight[WM_SLOTS]; /* of a GPU: a piece of status and scores each */
    uint32_t hits_max;         /* of a batch */
    size_t n_took, took_max;
    uint64_t n_hit;
    int64_t busy_ns, counted_ns; /* with a batch under way; up to then it is counted */
    wm_error_t error;
} worker_t;

struct bench_t {
    const wm_bench_config_t *config;
    wm_pins_t pins;
    wm_spec_t spec;
    wm_model_t *model;
    wm_batch_t *batch;
    size_t n_batch, batch_max;
    uint64_t n_hit;
    int64_t decode_ns, read_ns, pack_ns, make_cpu_ns; /* make: reading and packing */
    uint64_t n_read;                                  /* hits of the events that were read */
    unsigned n_event, n_file;
    unsigned long long n_file_event; /* in the files that were opened */
    uint64_t n_byte;                 /* of encoded batches */
    worker_t worker[WM_BENCH_WORKERS_MAX];

    atomic_size_t next;
    int64_t until_ns;
    size_t batches_max; /* after so many the run ends */
    int64_t *round_ns;  /* (rounds_max): when its first batch was taken */
    size_t rounds_max;
    double cpu_s;    /* of the last run */
    double executed; /* multiply-adds a hit; 0: not known */
    double largest;  /* difference from double, of so many hits: */
    uint32_t judged;
    FILE *report; /* standard output, to which a plug-in must not print */
};

/* ---- batches --------------------------------------------------------------------------------- */

static size_t frame_bytes (const bench_t *self)
{
    return wm_frame_bytes_max (self->pins.n_value, self->pins.n_output);
}

static wm_fault_t add_batch (bench_t *self, wm_coder_t *coder, uint8_t *frame, unsigned n_hit,
                             size_t bytes, wm_error_t *error)
{
    if (bytes > frame_bytes (self) || !wm_stream_bytes (frame, bytes))
        return wm_stream_cut_short (error);
    if (!wm_grow (&self->batch, &self->batch_max, self->n_batch + 1, sizeof *self->batch))
        return wm_fault (error, WM_EHOST, "no memory for %zu batches", self->n_batch + 1);
    wm_batch_t *batch = &self->batch[self->n_batch++];
    *batch = (wm_batch_t){ 0 };
    const int64_t start = wm_trace_now_ns ();
    wm_fault_t fault = wm_batch_decode (batch, coder, frame, bytes, error);
    self->decode_ns += wm_trace_now_ns () - start;
    if (!fault && batch->n_hit != n_hit)
        fault = wm_stream_cut_short (error);
    self->n_hit += n_hit;
    self->n_byte += bytes;
    return fault;
}

static wm_fault_t read_batches (bench_t *self, wm_error_t *error)
{
    char word[8] = "";
    unsigned n_hit;
    size_t bytes;
    unsigned long long n_read;
    long long read_ns, pack_ns, cpu_ns;
    wm_coder_t *coder = wm_coder_new ();
    uint8_t *frame = malloc (frame_bytes (self));
    wm_fault_t fault = frame ? WM_OK : wm_fault (error, WM_EHOST, "no memory for a frame");
    while (!fault && scanf ("%7s", word) == 1 && strcmp (word, "batch") == 0)
        fault = scanf ("%u %zu", &n_hit, &bytes) == 2 && getchar () == '\n'
                    ? add_batch (self, coder, frame, n_hit, bytes, error)
                    : wm_stream_cut_short (error);
    if (!fault && (strcmp (word, "end") != 0 ||
                   scanf ("%u %llu %lld %lld %lld %u %llu", &self->n_event, &n_read, &read_ns,
                          &pack_ns, &cpu_ns, &self->n_file, &self->n_file_event) != 7))
        fault = wm_stream_cut_short (error);
    if (!fault) {
        self->n_read = n_read;
        self->read_ns = read_ns;
        self->pack_ns = pack_ns;
        self->make_cpu_ns = cpu_ns;
    }
    if (!fault && !self->n_hit)
        fault = wm_fault (error, WM_EBATCH, "the inputs hold no hit that could be scored");
    free (frame);
    wm_coder_destroy (&coder);
    return fault;
}

static void shuffle (bench_t *self)
{
    uint64_t seed = 1;
    for (size_t i = self->n_batch; i > 1; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const size_t j = (size_t) ((seed >> 33) % i);
        const wm_batch_t other = self->batch[j];
        self->batch[j] = self->batch[i - 1];
        self->batch[i - 1] = other;
    }
}

/* ---- scoring --------------------------------------------------------------------------------- */

/* Notes a batch that was scored from start_ns to end_ns, while others may have been, too.  */
static wm_fault_t note (worker_t *worker, uint32_t n_hit, int64_t start_ns, int64_t end_ns)
{
    worker->n_hit += n_hit;
    worker->busy_ns += end_ns - (worker->counted_ns > start_ns ? worker->counted_ns : start_ns);
    worker->counted_ns = end_ns;
    if (!wm_grow (&worker->took_ms, &worker->took_max, worker->n_took + 1, sizeof (float)))
        return wm_fault (&worker->error, WM_EHOST, "no memory for times");
    worker->took_ms[worker->n_took++] = (float) (1e-6 * (double) (end_ns - start_ns));
    return WM_OK;
}

/* Takes the next batch, NULL where the time is over. Every device gets one at least.  */
static const wm_batch_t *next_batch (worker_t *worker, bool has_one)
{
    bench_t *self = worker->bench;
    const int64_t now_ns = wm_trace_now_ns ();
    const size_t i = atomic_fetch_add (&self->next, 1);
    if (i >= self->batches_max || (now_ns >= self->until_ns && has_one))
        return NULL;
    if (i % self->n_batch == 0 && i / self->n_batch < self->rounds_max)
        self->round_ns[i / self->n_batch] = now_ns;
    return &self->batch[i % self->n_batch];
}

static void work_blocking (worker_t *worker)
{
    const wm_batch_t *batch;
    wm_fault_t fault = WM_OK;
    while (!fault && (batch = next_batch (worker, worker->n_took > 0))) {
        const int64_t start_ns = wm_trace_now_ns ();
        fault =
            wm_device_score (worker->device, batch, worker->status, worker->scores, &worker->error);
        if (!fault)
            fault = note (worker, batch->n_hit, start_ns, wm_trace_now_ns ());
    }
}

/* Prepares the job of a batch.  */
static wm_job_t *begin_job (worker_t *worker, flight_t *flight, const wm_batch_t *batch)
{
    const size_t at = (size_t) (flight - worker->flight) * worker->hits_max,
                 n_output = wm_model_n_output (worker->bench->model);
    flight->start_ns = wm_trace_now_ns ();
    flight->job = (wm_job_t){ .batch = batch,
                              .status = worker->status + at,
                              .scores = worker->scores + at * n_output,
                              .owner = flight };
    return &flight->job;
}

/* Collects a job and notes it.  */
static wm_fault_t collect_job (worker_t *worker, wm_job_t **done)
{
    if (wm_device_collect (worker->device, done, &worker->error))
        return worker->error.fault;
    const flight_t *flight = (*done)->owner;
    if ((*done)->error.fault) {
        worker->error = (*done)->error;
        return worker->error.fault;
    }
    return note (worker, (*done)->batch->n_hit, flight->start_ns, wm_trace_now_ns ());
}

static void work_gpu (worker_t *worker)
{
    const uint64_t most = WM_LAUNCHES * (uint64_t) wm_device_fill (worker->device);
    flight_t *idle[WM_SLOTS];
    uint32_t n_idle = WM_SLOTS;
    uint64_t hits = 0; /* under way */
    const wm_batch_t *batch = NULL;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < WM_SLOTS; i++)
        idle[i] = &worker->flight[i];
    do {
        wm_job_t *job[WM_SLOTS], *done;
        uint32_t n = 0;
        while (n_idle > 0 && (hits < most || n_idle == WM_SLOTS) &&
               (batch = next_batch (worker, worker->n_took > 0 || n_idle < WM_SLOTS))) {
            job[n++] = begin_job (worker, idle[--n_idle], batch);
            hits += batch->n_hit;
        }
        if (n > 0)
            fault = wm_device_submit (worker->device, n, job, &worker->error);
        if (!fault && n_idle < WM_SLOTS && !(fault = collect_job (worker, &done))) {
            hits -= done->batch->n_hit;
            idle[n_idle++] = done->owner;
        }
    } while (!fault && (batch || n_idle < WM_SLOTS));
}

static void *work (void *argument)
{
    worker_t *worker = argument;
    if (wm_device_hands (worker->device) == 0)
        work_gpu (worker);
    else
        work_blocking (worker);
    return NULL;
}

static double cpu_seconds (void)
{
    struct timespec now;
    clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* Runs all devices for so many seconds, or `rounds`. Stores the nanoseconds in *took.  */
static wm_fault_t run (bench_t *self, double seconds, size_t rounds, int64_t *took,
                       wm_error_t *error)
{
    pthread_t thread[WM_BENCH_WORKERS_MAX];
    const int n = self->config->workers;
    const int64_t start = wm_trace_now_ns ();
    const double cpu_start = cpu_seconds ();
    atomic_store (&self->next, 0);
    memset (self->round_ns, 0, self->rounds_max * sizeof *self->round_ns);
    self->until_ns = start + (int64_t) (1e9 * seconds);
    self->batches_max = rounds * self->n_batch;
    int running = 0;
    for (; running < n; running++) {
        self->worker[running].n_took = self->worker[running].n_hit = 0;
        self->worker[running].busy_ns = self->worker[running].counted_ns = 0;
        if (pthread_create (&thread[running], NULL, work, &self->worker[running]))
            break;
    }
    wm_fault_t fault =
        running < n ? wm_fault (error, WM_EHOST, "thread %d cannot be started", running) : WM_OK;
    for (int i = 0; i < running; i++) {
        pthread_join (thread[i], NULL);
        if (!fault && self->worker[i].error.fault) {
            *error = self->worker[i].error;
            fault = error->fault;
        }
    }
    *took = wm_trace_now_ns () - start;
    self->cpu_s = cpu_seconds () - cpu_start;
    return fault;
}

static wm_fault_t warm_up (bench_t *self, wm_error_t *error)
{
    int64_t took;
    uint64_t hits = 0, madds = 0;
    for (int i = 0; i < self->config->workers; i++)
        wm_device_madds (self->worker[i].device, true);
    const double seconds = self->config->seconds;
    wm_fault_t fault = run (self, seconds < WARM_S_MAX ? seconds : WARM_S_MAX, 1, &took, error);
    for (int i = 0; i < self->config->workers; i++) {
        hits += self->worker[i].n_hit;
        madds += wm_device_madds (self->worker[i].device, false);
    }
    if (!fault)
        self->executed = (double) madds / (double) hits;
    if (!madds && !wm_device_by (self->worker[0].device)->is_gpu)
        self->executed = (double) wm_model_madds (self->model);
    return fault;
}

/* ---- how far from double --------------------------------------------------------------------- */

/* Compares the first hits of each batch, as few of each as make up the number.  */
static wm_fault_t compare (bench_t *self, wm_error_t *error)
{
    const wm_device_config_t config = { .engine = "reference",
                                        .precision = "fp32",
                                        .threads = self->config->cpus };
    const uint32_t n_output = wm_model_n_output (self->model),
                   most = (uint32_t) self->config->judged,
                   each = (uint32_t) ((most + self->n_batch - 1) / self->n_batch);
    float *want = malloc ((size_t) each * n_output * sizeof *want);
    wm_device_t *reference = want ? wm_device_new (self->model, &self->spec, &config, error) : NULL;
    wm_fault_t fault = reference ? WM_OK
                       : want    ? error->fault
                                 : wm_fault (error, WM_EHOST, "no memory");
    const worker_t *worker = &self->worker[0];
    for (size_t b = 0; b < self->n_batch && self->judged < most && !fault; b++) {
        wm_batch_t part = self->batch[b];
        part.n_hit = part.n_hit < each ? part.n_hit : each;
        self->judged += part.n_hit;
        fault = wm_device_score (reference, &part, worker->status, want, error);
        if (!fault)
            fault = wm_device_score (worker->device, &part, worker->status, worker->scores, error);
        for (uint32_t i = 0; i < part.n_hit * n_output && !fault; i++) {
            const double d = fabs ((double) worker->scores[i] - (double) want[i]);
            self->largest = d <= self->largest ? self->largest : d;
        }
    }
    wm_device_destroy (&reference);
    free (want);
    return fault;
}

/* ---- the report ------------------------------------------------------------------------------ */

WM_ORDER_NUMBERS (by_size, float)

/* Returns hits a second of the fastest complete round; 0: none was complete.  */
static double best_round (const bench_t *self)
{
    double best = 0;
    for (size_t r = 1; r < self->rounds_max && self->round_ns[r]; r++) {
        const double hits_s =
            1e9 * (double) self->n_hit / (double) (self->round_ns[r] - self->round_ns[r - 1]);
        best = hits_s > best ? hits_s : best;
    }
    return best;
}

static wm_fault_t report (bench_t *self, int64_t took, wm_error_t *error)
{
    size_t n = 0;
    uint64_t hits = 0;
    double sum = 0;
    for (int i = 0; i < self->config->workers; i++)
        n += self->worker[i].n_took, hits += self->worker[i].n_hit;
    float *ms = malloc (n * sizeof *ms);
    if (!ms)
        return wm_fault (error, WM_EHOST, "no memory for times");
    n = 0;
    for (int i = 0; i < self->config->workers; i++) {
        const worker_t *worker = &self->worker[i];
        sum += 1e-6 * (double) worker->busy_ns;
        memcpy (ms + n, worker->took_ms, worker->n_took * sizeof *ms);
        n += worker->n_took;
    }
    qsort (ms, n, sizeof *ms, by_size);
    const double seconds = 1e-9 * (double) took, mean = (double) hits / seconds,
                 best = best_round (self), hits_event = (double) self->n_read / self->n_event;
    FILE *to = self->report;
    fprintf (to,
             "{\"signature\": \"%s\", \"hits\": %llu, \"input_hits\": %llu, \"seconds\": %.6f, "
             "\"cpu_s\": %.6f, \"hits_s\": %.1f, \"best_hits_s\": %.1f, \"events_s\": %.4f, "
             "\"batches_s\": %.3f, "
             "\"p50_ms\": %.4f, \"p90_ms\": %.4f, \"p99_ms\": %.4f, \"compute_ms\": %.4f, "
             "\"stage_ms\": %.4f, \"read_s_event\": %.6f, \"pack_s_event\": %.6f, ",
             wm_device_signature (self->worker[0].device), (unsigned long long) hits,
             (unsigned long long) self->n_hit, seconds, self->cpu_s, mean,
             best > mean ? best : mean, mean / hits_event, (double) n / seconds, (double) ms[n / 2],
             (double) ms[n * 9 / 10], (double) ms[n * 99 / 100], sum / (double) n,
             1e-6 * (double) self->decode_ns / (double) self->n_batch,
             1e-9 * (double) self->read_ns / self->n_event,
             1e-9 * (double) self->pack_ns / self->n_event);
    fprintf (to,
             "\"cpu_s_event\": %.6f, \"bytes_per_event\": %.1f, \"batches_per_event\": %.2f, "
             "\"input_files\": %u, "
             "\"input_events\": %llu, ",
             1e-9 * (double) self->make_cpu_ns / self->n_event,
             (double) self->n_byte / (double) self->n_hit * hits_event,
             (double) self->n_batch / (double) self->n_hit * hits_event, self->n_file,
             self->n_file_event);
    fprintf (to, "\"executed_madds\": %.1f, \"dense_madds\": %llu", self->executed,
             (unsigned long long) wm_model_madds (self->model));
    if (self->judged)
        fprintf (to, ", \"judged\": %u, \"error\": %.3g", self->judged,
                 isfinite (self->largest) ? self->largest : 9.9e99);
    fprintf (to, "}\n");
    free (ms);
    return WM_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Opens the engine that a campaign would take if it began with these hits. A kernel that WM_ISA
   names is measured whatever its error is. The other devices then open the same.  */
static wm_device_t *open_measured (bench_t *self, wm_device_config_t *config, wm_error_t *error)
{
    uint32_t n = 0, n_hit = 0;
    const char *named = getenv ("WM_ISA");
    wm_trial_t trial;
    if (named && strchr (named, '/'))
        return wm_device_new (self->model, &self->spec, config, error);
    while (n < self->n_batch && n_hit < WM_TRIAL_HITS && n < WM_TRIAL_BATCHES)
        n_hit += self->batch[n++].n_hit;
    wm_device_t *judge = wm_trial_judge (self->model, &self->spec, config, error);
    wm_device_t *device = judge ? wm_trial_open (self->model, &self->spec, config, judge, NULL,
                                                 self->batch, n, &trial, error)
                                : NULL;
    wm_device_destroy (&judge);
    if (device) {
        static wm_candidate_t taken; /* config lends it */
        taken = trial.candidate;
        config->precision = taken.precision, config->isa = taken.isa;
    }
    return device;
}

static wm_fault_t open_devices (bench_t *self, wm_error_t *error)
{
    const wm_bench_config_t *config = self->config;
    wm_device_config_t device = { .engine = config->engine,
                                  .precision = self->pins.precision,
                                  .max_error = wm_pins_max_error (&self->pins),
                                  .threads = config->threads,
                                  .pin = config->pin };
    for (int i = 0; i < config->workers; i++) {
        worker_t *worker = &self->worker[i];
        worker->bench = self;
        worker->device = i == 0 && strcmp (device.precision, "fp32") != 0
                             ? open_measured (self, &device, error)
                             : wm_device_new (self->model, &self->spec, &device, error);
        if (!worker->device || (i == 0 && wm_device_self_test (worker->device, error)))
            return error->fault;
        const size_t many = wm_device_hands (worker->device) == 0 ? WM_SLOTS : 1;
        for (size_t k = 0; k < self->n_batch; k++)
            if (self->batch[k].n_hit > worker->hits_max)
                worker->hits_max = self->batch[k].n_hit;
        worker->status = malloc (many * worker->hits_max);
        worker->scores = malloc (many * worker->hits_max * wm_model_n_output (self->model) *
                                 sizeof *worker->scores);
        if (!worker->status || !worker->scores)
            return wm_fault (error, WM_EHOST, "no memory for scores");
    }
    self->rounds_max = 4096;
    self->round_ns = calloc (self->rounds_max, sizeof *self->round_ns);
    return self->round_ns ? WM_OK : wm_fault (error, WM_EHOST, "no memory for times");
}

static void clear (bench_t *self)
{
    for (int i = 0; i < self->config->workers; i++) {
        wm_device_destroy (&self->worker[i].device);
        free (self->worker[i].status);
        free (self->worker[i].scores);
        free (self->worker[i].took_ms);
    }
    for (size_t i = 0; i < self->n_batch; i++)
        wm_batch_clear (&self->batch[i]);
    free (self->batch);
    free (self->round_ns);
    wm_model_destroy (&self->model);
}

int wm_bench_run (const wm_bench_config_t *config)
{
    static bench_t self;
    wm_error_t error = { 0 };
    int64_t took = 0;
    self.config = config;
    if (!(self.report = wm_stream_report ())) {
        fprintf (stderr, "wiremill-worker: no descriptor for the report: %s\n", strerror (errno));
        return WM_EXIT_FAILURE;
    }
    wm_fault_t fault = wm_stream_head ("batches", &self.pins, &self.spec, &error), engine = WM_OK;
    if (!fault && !(self.model = wm_stream_model (&self.pins, config->cache, &error)))
        fault = error.fault;
    if (!fault)
        fault = read_batches (&self, &error);
    if (!fault)
        fault = engine = open_devices (&self, &error);
    shuffle (&self);
    if (!fault)
        fault = warm_up (&self, &error);
    if (!fault)
        fault = run (&self, config->seconds, SIZE_MAX / (self.n_batch + 1), &took, &error);
    if (!fault && config->judged && wm_model_kind (self.model) == WM_MODEL_FAMILY)
        fault = compare (&self, &error);
    if (!fault)
        fault = report (&self, took, &error);
    if (fclose (self.report) && !fault)
        fault = wm_fault (&error, WM_EHOST, "the report cannot be written: %s", strerror (errno));
    if (fault)
        fprintf (stderr, "wiremill-worker: %s\n", error.text);
    clear (&self);
    return !fault                                    ? WM_EXIT_OK
           : engine                                  ? WM_EXIT_ENGINE
           : fault == WM_EBATCH || fault == WM_EPEER ? WM_EXIT_INPUT
                                                     : WM_EXIT_FAILURE;
}
