/* wm_report_history.c - see wm_report_history.h.  */
#include "ops/wm_report_history.h"

#include "ops/wm_ask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_MOST 1e14 /* sums of all rows fit 64 bits, whatever a peer sends */

static double number (const json_t *value)
{
    const double n = json_number_value (value);
    return n > 0 ? fmin (n, COUNT_MOST) : 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void take_latency (wm_report_latency_t *latency, const json_t *value)
{
    const json_t *bins = json_array_get (value, 2);
    latency->n = number (json_array_get (value, 0));
    latency->sum_s = number (json_array_get (value, 1));
    for (size_t b = 0; b < WM_REPORT_BINS; b++)
        latency->bin[b] = number (json_array_get (bins, b));
}

static void take_value (wm_report_row_t *row, const char *name, const json_t *value)
{
    static const struct {
        const char *name;
        size_t offset;
    } counts[] = {
#define PLACE(name) { #name, offsetof (wm_report_row_t, name) },
        WM_REPORT_COUNTS (PLACE)
#undef PLACE
    };
    static const char *const steps[WM_REPORT_STEPS] = { "stage", "queue", "compute", "commit" };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp (name, counts[i].name))
            *(double *) (void *) ((char *) row + counts[i].offset) = number (value);
    for (size_t i = 0; i < WM_REPORT_STEPS; i++)
        if (!strcmp (name, steps[i]))
            take_latency (&row->step[i], value);
}

static void add (wm_report_row_t *sum, const wm_report_row_t *row)
{
    const double begin_s = sum->span_s > 0 ? fmin (sum->begin_s, row->begin_s) : row->begin_s,
                 workers_max = fmax (sum->workers_max, row->workers_max);
#define ADD(name) sum->name += row->name;
    WM_REPORT_COUNTS (ADD)
#undef ADD
    sum->begin_s = begin_s;
    sum->workers_max = workers_max;
    sum->journal = row->journal;
    for (size_t i = 0; i < WM_REPORT_STEPS; i++) {
        sum->step[i].n += row->step[i].n;
        sum->step[i].sum_s += row->step[i].sum_s;
        for (size_t b = 0; b < WM_REPORT_BINS; b++)
            sum->step[i].bin[b] += row->step[i].bin[b];
    }
}

/* The parts of a span after now are not there yet.  */
static void cover (wm_report_history_t *self, double from_s, double to_s, double now_s)
{
    to_s = fmin (to_s, fmax (now_s, from_s));
    self->from_s = self->to_s > 0 ? fmin (self->from_s, from_s) : from_s;
    self->to_s = fmax (self->to_s, to_s);
}

static void take_row (wm_report_history_t *self, const json_t *columns, const json_t *values,
                      double now_s)
{
    wm_report_row_t row = { 0 };
    const json_t *name;
    size_t i;
    json_array_foreach (columns, i, name) take_value (
        &row, json_is_string (name) ? json_string_value (name) : "", json_array_get (values, i));
    if (row.begin_s <= 0 || row.span_s <= 0) {
        self->hits_before += row.hits;
        return;
    }
    self->row[self->n_row++] = row;
    add (&self->sum, &row);
    cover (self, row.begin_s, row.begin_s + row.span_s, now_s);
}

/* ---- workers --------------------------------------------------------------------------------- */

static void take_worker (wm_report_history_t *self, const json_t *one, double now_s)
{
    const json_t *cpu = json_object_get (one, "cpu_s");
    wm_report_worker_t *worker = &self->worker[self->n_worker];
    *worker = (wm_report_worker_t){
        .label = wm_ask_text (one, "worker"),
        .signature = wm_ask_text (one, "signature"),
        .device = wm_ask_text (one, "device"),
        .why = wm_ask_text (one, "why"),
        .connected = json_is_true (json_object_get (one, "connected")),
        .from_s = number (json_object_get (one, "from_s")),
        .to_s = number (json_object_get (one, "to_s")),
        .batches = number (json_object_get (one, "batches")),
        .hits = number (json_object_get (one, "hits")),
        .busy_s = number (json_object_get (one, "busy_s")),
        .cpu_s = json_is_number (cpu) ? number (cpu) : -1,
    };
    if (worker->from_s <= 0 || worker->to_s < worker->from_s)
        return;
    self->n_worker++;
    cover (self, worker->from_s, worker->to_s, now_s);
}

bool wm_report_history_take (wm_report_history_t *self, const json_t *history, double now_s)
{
    const json_t *columns = json_object_get (history, "columns"),
                 *rows = json_object_get (history, "rows"),
                 *workers = json_object_get (history, "workers"), *one;
    size_t i;
    *self = (wm_report_history_t){ 0 };
    self->row = calloc (json_array_size (rows) + 1, sizeof *self->row);
    self->worker = calloc (json_array_size (workers) + 1, sizeof *self->worker);
    if (!self->row || !self->worker) {
        wm_report_history_clear (self);
        return false;
    }
    json_array_foreach (rows, i, one) take_row (self, columns, one, now_s);
    json_array_foreach (workers, i, one) take_worker (self, one, now_s);
    self->n_worker_dropped = number (json_object_get (history, "workers_dropped"));
    return true;
}

void wm_report_history_clear (wm_report_history_t *self)
{
    free (self->row);
    free (self->worker);
    *self = (wm_report_history_t){ 0 };
}

double wm_report_quantile (const wm_report_latency_t *latency, double share)
{
    double all = 0, below = 0;
    for (int b = 0; b < WM_REPORT_BINS; b++)
        all += latency->bin[b];
    for (int b = 0; b < WM_REPORT_BINS - 1; b++) {
        below += latency->bin[b];
        if (below >= share * all && all > 0)
            return 1e-3 * (double) (1 << b);
    }
    return all > 0 ? INFINITY : 0;
}
