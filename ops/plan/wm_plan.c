/* wm_plan.c - see wm_plan.h.  */
#include "ops/plan/wm_plan.h"
#include "schema/wm_limits.h"

#include <math.h>

/* NAN counts as nothing: a limit that is not known does not limit.  */
static double known (double value)
{
    return isnan (value) ? 0 : value;
}

static double batches_event (const wm_plan_t *self)
{
    return fmax (ceil (self->hits_event / self->batch_hits), known (self->batches_event));
}

static double producer_s (const wm_plan_t *self)
{
    const double each = self->events * self->event_s;
    return isnan (self->file_s) ? each : each + self->files * self->file_s;
}

void wm_plan_needs (const wm_plan_t *self, wm_plan_needs_t *needs)
{
    const double hits = self->events * self->hits_event;
    const double gpu_event_s = self->hits_event / self->gpu_hits_s;
    *needs = (wm_plan_needs_t){
        .hits = hits,
        .batches = self->events * batches_event (self),
        .task_bytes = self->events * self->bytes_event,
        .result_bytes = hits * (1 + 4 * self->n_output),
        .output_bytes = hits * self->output_bytes_hit,
        .core_s = hits / self->core_hits_s,
        .gpu_s = hits / self->gpu_hits_s,
        .producer_s = producer_s (self),
        .producers_gpu = self->event_s / gpu_event_s,
        .clients_gpu = (self->client_s + gpu_event_s) / gpu_event_s,
    };
}

/* Seconds that a broker takes for so many batches and bytes; of those of a second, its load.  */
static double broker_load (const wm_plan_t *self, double batches, double bytes)
{
    return self->has_keys
               ? fmax (batches / WM_PLAN_BROKER_KEYS_BATCHES_S, bytes / WM_PLAN_BROKER_KEYS_BYTES_S)
               : fmax (batches / WM_PLAN_BROKER_BATCHES_S, bytes / WM_PLAN_BROKER_BYTES_S);
}

/* The time of the limits that workers do not move, and which of them it is.  */
static double floor_s (const wm_plan_t *self, const wm_plan_needs_t *needs, wm_plan_limit_t *limit)
{
    const double bytes = known (needs->task_bytes) + known (needs->result_bytes);
    const double of[] = {
        [WM_PLAN_BY_WORKERS] = 0,
        [WM_PLAN_BY_PRODUCERS] = known (needs->producer_s) / self->producers,
        [WM_PLAN_BY_BROKER] = broker_load (self, needs->batches, bytes),
        [WM_PLAN_BY_DISK] =
            known ((needs->result_bytes + known (needs->output_bytes)) / self->disk_bytes_s),
    };
    *limit = WM_PLAN_BY_WORKERS;
    for (wm_plan_limit_t i = WM_PLAN_BY_PRODUCERS; i <= WM_PLAN_BY_DISK; i++)
        *limit = of[i] > of[*limit] ? i : *limit;
    return of[*limit];
}

/* So many workers of so many hits a second each.  */
static void time_of (const wm_plan_t *self, double workers, double hits_s, wm_plan_time_t *time)
{
    wm_plan_needs_t needs;
    wm_plan_needs (self, &needs);
    const double a_batch_s = needs.hits / needs.batches / hits_s;
    const double work_s = ceil (needs.batches / workers) * a_batch_s;
    const double least_s = floor_s (self, &needs, &time->limit);
    const double flow_s = fmax (work_s, least_s);
    const double bytes = known (needs.task_bytes) + known (needs.result_bytes);
    if (work_s >= least_s)
        time->limit = WM_PLAN_BY_WORKERS;
    time->wall_s = known (self->start_s) + known (self->event_s) + flow_s;
    time->cpu_s = needs.hits / hits_s + known (needs.producer_s);
    time->busy = needs.batches * a_batch_s / (workers * flow_s);
    time->batches_s = needs.batches / flow_s;
    time->bytes_s = (needs.task_bytes + needs.result_bytes) / flow_s;
    time->broker = broker_load (self, time->batches_s, bytes / flow_s);
    time->peers = (workers + self->producers) / WM_PEERS_MAX;
}

void wm_plan_time (const wm_plan_t *self, double workers, wm_plan_time_t *time)
{
    time_of (self, workers, self->core_hits_s, time);
}

void wm_plan_time_gpu (const wm_plan_t *self, double gpus, wm_plan_time_t *time)
{
    time_of (self, gpus, self->gpu_hits_s, time);
}

double wm_plan_workers (const wm_plan_t *self, double deadline_s, wm_plan_time_t *least)
{
    double low = 0, high = WM_PLAN_WORKERS_MAX; /* too few; enough */
    wm_plan_time (self, high, least);
    if (!(least->wall_s <= deadline_s))
        return 0;
    while (high - low > 1) {
        const double middle = floor ((low + high) / 2);
        wm_plan_time (self, middle, least);
        *(least->wall_s <= deadline_s ? &high : &low) = middle;
    }
    wm_plan_time (self, high, least);
    return high;
}

void wm_plan_here (const wm_plan_t *self, double workers, double hits_s, double cores,
                   wm_plan_time_t *time)
{
    wm_plan_t one = *self;
    one.producers = 1;
    one.has_keys = false; /* its processes meet on loopback */
    time_of (&one, workers, hits_s / workers, time);
    time->cpu_s = self->events * self->hits_event / hits_s * cores + known (producer_s (&one));
    if (time->limit == WM_PLAN_BY_WORKERS)
        time->wall_s += known (producer_s (&one)) / cores;
}

const char *wm_plan_limit_name (wm_plan_limit_t limit)
{
    static const char *const names[] = { "workers", "producers", "broker", "disk" };
    return names[limit];
}
