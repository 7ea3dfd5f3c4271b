/* wm_sampler.c - see wm_sampler.h.

   The core's counters only grow, so a sample adds their growth since the last one. Sessions of
   workers are noted every second while results come, since the ledger commits then anyway, and
   once a minute otherwise.  */
#include "broker/wm_sampler.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SAMPLE_MS 500
#define WORKERS_MS 1000

static int64_t unix_s (void)
{
    return time (NULL);
}

struct wm_sampler_t {
    wm_recorder_config_t config;
    bool has_begun;
    wm_tally_t last;
    int64_t sampled_ms, workers_ms, minute;
    uint32_t n_worker_max; /* since the last sample, of those that worked and left */
};

static uint64_t cpu_ms (void)
{
    struct timespec now;
    clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* What a worker reports of its device (gpuworker/engine/wm_health.h).  */
static void read_health (const char *health, wm_worker_span_t *span)
{
    json_t *object = json_loads (health, 0, NULL);
    const char *gpu = json_string_value (json_object_get (object, "gpu"));
    const json_t *cpu_s = json_object_get (object, "cpu_s");
    snprintf (span->device, sizeof span->device, "%.63s", gpu ? gpu : "CPU");
    span->cpu_ms = json_is_number (cpu_s) ? (int64_t) (1e3 * json_number_value (cpu_s)) : -1;
    json_decref (object);
}

static void put_worker (wm_sampler_t *self, const wm_core_worker_t *worker, bool has_ended)
{
    wm_worker_span_t span = { .id = self->config.epoch << 32 | worker->session,
                              .to_s = self->config.unix_s (),
                              .batches = worker->n_batch,
                              .hits = worker->n_hit,
                              .busy_ms = (uint64_t) worker->busy_ms,
                              .has_ended = has_ended };
    span.from_s = span.to_s - worker->age_ms / 1000;
    snprintf (span.label, sizeof span.label, "%.63s", worker->label);
    snprintf (span.signature, sizeof span.signature, "%.127s", worker->signature);
    snprintf (span.why, sizeof span.why, "%.119s", worker->why);
    read_health (worker->health, &span);
    wm_ledger_put_span (self->config.ledger, &span);
}

static void put_connected (void *argument, const wm_core_worker_t *worker)
{
    put_worker (argument, worker, false);
}

/* A worker asks what the campaign is, and connects again with its engine.  */
void wm_sampler_left (wm_sampler_t *self, const wm_core_worker_t *worker)
{
    wm_tally_t now;
    uint32_t n_worker; /* this one among them, which may have come after the last sample */
    wm_core_tally (self->config.core, &now, &n_worker);
    if (worker->n_batch && n_worker > self->n_worker_max)
        self->n_worker_max = n_worker;
    if (*worker->signature || worker->n_batch || worker->age_ms > 60 * 1000)
        put_worker (self, worker, true);
}

void wm_sampler_mark (wm_sampler_t *self, wm_mark_kind_t kind, const char *text)
{
    wm_ledger_mark (self->config.ledger, self->config.unix_s (), kind, text);
}

static void take (wm_sampler_t *self, bool with_workers)
{
    const int64_t now_s = self->config.unix_s ();
    uint32_t n_worker;
    wm_tally_t now;
    wm_core_tally (self->config.core, &now, &n_worker);
    if (n_worker < self->n_worker_max)
        n_worker = self->n_worker_max;
    self->n_worker_max = 0;
    now.count[WM_COUNT_CPU_MS] = cpu_ms ();
    wm_tally_t more = now;
    wm_tally_less (&more, self->has_begun ? &self->last : &now);
    const bool has_worked = more.count[WM_COUNT_BATCHES] != 0;
    if (!self->config.keeps_nothing) /* the ledger counts records */
        more.count[WM_COUNT_HITS] = more.count[WM_COUNT_BATCHES] = more.count[WM_COUNT_HELD] = 0;
    wm_ledger_add_history (self->config.ledger, now_s, &more, n_worker,
                           wm_journal_bytes (self->config.journal));
    self->last = now;
    self->has_begun = true;
    self->sampled_ms = self->config.now_ms ();
    const int64_t since_ms = self->sampled_ms - self->workers_ms;
    if (with_workers || now_s / 60 != self->minute || (has_worked && since_ms >= WORKERS_MS)) {
        wm_core_workers (self->config.core, put_connected, self);
        self->workers_ms = self->sampled_ms;
    }
    self->minute = now_s / 60;
}

void wm_sampler_take (wm_sampler_t *self)
{
    take (self, true);
}

void wm_sampler_refresh (wm_sampler_t *self)
{
    if (!self->has_begun || self->config.now_ms () - self->workers_ms >= SAMPLE_MS)
        take (self, true);
}

void wm_sampler_turn (wm_sampler_t *self)
{
    if (!self->has_begun || self->config.now_ms () - self->sampled_ms >= SAMPLE_MS)
        take (self, false);
}

wm_sampler_t *wm_sampler_new (const wm_recorder_config_t *config)
{
    wm_sampler_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->config = *config;
    self->workers_ms = -WORKERS_MS; /* none yet, whatever the clock shows */
    if (!config->unix_s)
        self->config.unix_s = unix_s;
    return self;
}

void wm_sampler_destroy (wm_sampler_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}
