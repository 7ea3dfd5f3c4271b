/* wm_history_query.c - see wm_history_query.h.  */
#include "ops/ask/wm_history_query.h"

#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIME_MOST 1e11  /* Unix time of a broken broker */
#define COUNT_MOST 1e14 /* sums of all rows fit 64 bits, whatever a peer sends */

const struct wm_history_query_step_t wm_history_query_step[WM_HISTORY_QUERY_STEPS] = {
    { "stage", "asked of the producer until it is at the broker: cut and sent" },
    { "queue", "at the broker until it is sent to a worker" },
    { "compute", "sent until its result is back, with the network and the worker's own queue" },
    { "commit", "its result is at the broker until it is safe on disk" },
};

const struct wm_history_query_fault_t wm_history_query_fault[WM_HISTORY_QUERY_FAULTS] = {
    { offsetof (wm_history_query_row_t, fail), "counters.n_fail",
      "batches that failed on a worker" },
    { offsetof (wm_history_query_row_t, lost), "counters.n_lost",
      "batches that were in the engine when their worker was lost" },
    { offsetof (wm_history_query_row_t, preempt), "counters.n_preempt",
      "batches that a worker gave back when it left" },
    { offsetof (wm_history_query_row_t, copies), "counters.copies",
      "batches given to a second worker near the end" },
    { offsetof (wm_history_query_row_t, duplicate), "counters.duplicate",
      "results that came twice; one was kept" },
    { offsetof (wm_history_query_row_t, late), "counters.late",
      "results that came after their lease" },
    { offsetof (wm_history_query_row_t, again), "counters.again",
      "batches beyond the allowed error, scored again in fp32" },
    { offsetof (wm_history_query_row_t, held), "batches.held", "batches that were held" },
    { offsetof (wm_history_query_row_t, alarm), "counters.alarm",
      "ALARMS: results of one batch and one engine that differ" },
};

double wm_history_query_fault_of (const wm_history_query_row_t *row, size_t fault)
{
    return *(const double *) (const void *) ((const char *) row +
                                             wm_history_query_fault[fault].offset);
}

static double number (const json_t *value)
{
    const double n = json_number_value (value);
    return n > 0 ? fmin (n, COUNT_MOST) : 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void take_latency (wm_history_query_latency_t *latency, const json_t *value)
{
    const json_t *bins = json_array_get (value, 2);
    latency->n = number (json_array_get (value, 0));
    latency->sum_s = number (json_array_get (value, 1));
    for (size_t b = 0; b < WM_HISTORY_QUERY_BINS; b++)
        latency->bin[b] = number (json_array_get (bins, b));
}

static void take_value (wm_history_query_row_t *row, const char *name, const json_t *value)
{
    static const struct {
        const char *name;
        size_t offset;
    } counts[] = {
#define PLACE(name) { #name, offsetof (wm_history_query_row_t, name) },
        WM_HISTORY_QUERY_COUNTS (PLACE)
#undef PLACE
    };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!strcmp (name, counts[i].name))
            *(double *) (void *) ((char *) row + counts[i].offset) = number (value);
    for (size_t i = 0; i < WM_HISTORY_QUERY_STEPS; i++)
        if (!strcmp (name, wm_history_query_step[i].name))
            take_latency (&row->step[i], value);
}

static wm_history_query_row_t row_of (const json_t *columns, const json_t *values)
{
    wm_history_query_row_t row = { 0 };
    const json_t *name;
    size_t i;
    json_array_foreach (columns, i, name) take_value (
        &row, json_is_string (name) ? json_string_value (name) : "", json_array_get (values, i));
    return row;
}

/* false: this release does not know its kind.  */
static bool mark_of (const json_t *one, wm_history_query_mark_t *mark)
{
    const wm_mark_kind_t kind = wm_mark_of (wm_ask_text (one, "kind"));
    *mark = (wm_history_query_mark_t){
        .id = number (json_object_get (one, "id")),
        .from_s = number (json_object_get (one, "from_s")),
        .to_s = number (json_object_get (one, "to_s")),
        .n = number (json_object_get (one, "n")),
        .what = &wm_mark_what[kind < WM_N_MARK ? kind : 0],
    };
    snprintf (mark->text, sizeof mark->text, "%s", wm_ask_text (one, "text"));
    return kind < WM_N_MARK && mark->id >= 1 && mark->from_s > 0 && mark->to_s >= mark->from_s &&
           mark->to_s <= TIME_MOST && mark->n >= 1;
}

/* Puts a mark in its place among at most WM_HISTORY_QUERY_MARKS_MAX.  */
static void put_mark (wm_history_query_t *self, const wm_history_query_mark_t *mark)
{
    size_t i = self->n_mark;
    while (i && self->mark[i - 1].id > mark->id)
        i--;
    if (i && self->mark[i - 1].id >= mark->id) {
        self->mark[i - 1] = *mark;
        return;
    }
    if (self->n_mark == WM_HISTORY_QUERY_MARKS_MAX) {
        if (!i)
            return;
        memmove (self->mark, self->mark + 1, --i * sizeof *mark);
    } else
        memmove (self->mark + i + 1, self->mark + i, (self->n_mark++ - i) * sizeof *mark);
    self->mark[i] = *mark;
}

static bool take_marks (wm_history_query_t *self, const json_t *marks)
{
    const json_t *one;
    size_t i;
    wm_history_query_mark_t mark;
    if (!self->mark && json_array_size (marks))
        self->mark = malloc (WM_HISTORY_QUERY_MARKS_MAX * sizeof *self->mark);
    json_array_foreach (marks, i, one)
    {
        if (self->mark && mark_of (one, &mark))
            put_mark (self, &mark);
    }
    return self->mark || !json_array_size (marks);
}

bool wm_history_query_take (wm_history_query_t *self, const json_t *page, double from_s)
{
    const json_t *one, *columns = json_object_get (page, "columns"),
                       *rows = json_object_get (page, "rows");
    size_t i, n = 0, next = 0;
    bool is_any = false;
    if (!take_marks (self, json_object_get (page, "marks")))
        return false;
    wm_history_query_row_t *all = calloc (self->n_row + json_array_size (rows) + 1, sizeof *all);
    if (!all)
        return false;
    for (; n < self->n_row && self->row[n].begin_s < from_s; n++)
        all[n] = self->row[n];
    const size_t begin = n;
    json_array_foreach (rows, i, one)
    {
        const wm_history_query_row_t row = row_of (columns, one);
        if (row.begin_s <= 0 || row.span_s <= 0) {
            self->hits_before = row.hits;
            continue;
        }
        while (n && all[n - 1].begin_s >= row.begin_s) /* they became this one between pages */
            n--;
        all[n++] = row;
        is_any = true;
    }
    while (is_any && next < self->n_row && self->row[next].begin_s < all[n - 1].begin_s)
        next++;
    next = is_any ? next : begin;
    if (is_any && next < self->n_row && self->row[next].begin_s <= all[n - 1].begin_s) {
        if (self->row[next].hits > all[n - 1].hits)
            all[n - 1] = self->row[next];
        next++;
    }
    while (next < self->n_row)
        all[n++] = self->row[next++];
    free (self->row);
    self->row = all;
    self->n_row = n;
    return true;
}

bool wm_history_query_take_workers (wm_history_query_t *self, const json_t *history)
{
    const json_t *workers = json_object_get (history, "workers"), *one;
    size_t i;
    free (self->worker);
    self->n_worker = 0;
    self->worker = calloc (json_array_size (workers) + 1, sizeof *self->worker);
    if (!self->worker)
        return false;
    json_array_foreach (workers, i, one)
    {
        const json_t *cpu = json_object_get (one, "cpu_s");
        const wm_history_query_worker_t worker = {
            .label = wm_ask_text (one, "worker"),
            .signature = wm_ask_text (one, "signature"),
            .device = wm_ask_text (one, "device"),
            .why = wm_ask_text (one, "why"),
            .connected = json_is_true (json_object_get (one, "connected")),
            .has_ended = json_is_true (json_object_get (one, "ended")),
            .from_s = number (json_object_get (one, "from_s")),
            .to_s = number (json_object_get (one, "to_s")),
            .batches = number (json_object_get (one, "batches")),
            .hits = number (json_object_get (one, "hits")),
            .busy_s = number (json_object_get (one, "busy_s")),
            .cpu_s = json_is_number (cpu) ? number (cpu) : -1,
        };
        if (worker.from_s > 0 && worker.to_s >= worker.from_s)
            self->worker[self->n_worker++] = worker;
    }
    self->n_worker_dropped = number (json_object_get (history, "workers_dropped"));
    return true;
}

bool wm_history_query_is_gpu (const wm_history_query_worker_t *worker)
{
    return *worker->device && strcmp (worker->device, "CPU") != 0;
}

void wm_history_query_clear (wm_history_query_t *self)
{
    free (self->row);
    free (self->worker);
    free (self->mark);
    *self = (wm_history_query_t){ 0 };
}

/* ---- what they tell -------------------------------------------------------------------------- */

double wm_history_query_next (const wm_history_query_t *self)
{
    return self->n_row > 1 ? self->row[self->n_row - 2].begin_s : 0;
}

/* When a broker served in a row: at its end where the next row follows; else from its begin on, or,
   in the first row, from when the campaign was made.  */
static void served (const wm_history_query_t *self, size_t i, double *first_s, double *last_s)
{
    const wm_history_query_row_t *row = &self->row[i];
    const bool is_part = row->up_s > 0 && row->up_s < row->span_s - 1,
               is_followed = i + 1 < self->n_row && row[1].begin_s <= row->begin_s + row->span_s;
    const double rest_s = is_part ? row->span_s - row->up_s : 0;
    *first_s = row->begin_s + (is_followed ? rest_s
                               : i         ? 0
                                           : fmax (0, fmin (rest_s, self->made_s - row->begin_s)));
    *last_s = *first_s + (is_part ? row->up_s : row->span_s);
}

double wm_history_query_begin (const wm_history_query_t *self)
{
    double begin_s = 0, last_s;
    if (self->n_row)
        served (self, 0, &begin_s, &last_s);
    return begin_s;
}

static void add (wm_history_query_row_t *sum, const wm_history_query_row_t *row)
{
    const double begin_s = sum->span_s > 0 ? sum->begin_s : row->begin_s,
                 workers_max = fmax (sum->workers_max, row->workers_max);
#define ADD(name) sum->name += row->name;
    WM_HISTORY_QUERY_COUNTS (ADD)
#undef ADD
    sum->begin_s = begin_s;
    sum->workers_max = workers_max;
    sum->journal = row->journal;
    for (size_t i = 0; i < WM_HISTORY_QUERY_STEPS; i++) {
        sum->step[i].n += row->step[i].n;
        sum->step[i].sum_s += row->step[i].sum_s;
        for (size_t b = 0; b < WM_HISTORY_QUERY_BINS; b++)
            sum->step[i].bin[b] += row->step[i].bin[b];
    }
}

void wm_history_query_sum (const wm_history_query_t *self, double from_s,
                           wm_history_query_row_t *sum)
{
    *sum = (wm_history_query_row_t){ 0 };
    for (size_t i = 0; i < self->n_row; i++)
        if (self->row[i].begin_s >= from_s)
            add (sum, &self->row[i]);
}

void wm_history_query_spread (const wm_history_query_t *self, double from_s, double width_s,
                              wm_history_query_part_t *part, size_t n)
{
    for (size_t k = 0; k < n; k++)
        part[k] = (wm_history_query_part_t){ .width_s = width_s };
    for (size_t i = 0; i < self->n_row; i++) {
        const wm_history_query_row_t *row = &self->row[i];
        double first_s, last_s;
        served (self, i, &first_s, &last_s);
        const double first = (first_s - from_s) / width_s, last = (last_s - from_s) / width_s;
        for (size_t k = (size_t) fmin ((double) n, fmax (0, floor (first)));
             k < n && (double) k < last; k++) {
            const double parts = fmin (last, (double) k + 1) - fmax (first, (double) k),
                         share = parts / (last - first);
            part[k].hits += share * row->hits;
            part[k].up_s += parts * width_s;
            part[k].busy_s += row->up_s > 0 ? parts * width_s * row->busy_s / row->up_s : 0;
            part[k].workers_max = fmax (part[k].workers_max, row->workers_max);
        }
    }
}

double wm_history_query_rate (const wm_history_query_part_t *part)
{
    return part->up_s > 0 ? part->hits / part->width_s : -1;
}

void wm_history_query_work (const wm_history_query_t *self, wm_history_query_work_t *work)
{
    *work = (wm_history_query_work_t){ 0 };
    for (size_t i = 0; i < self->n_row; i++) {
        const wm_history_query_row_t *row = &self->row[i];
        double first_s, last_s;
        if ((row->hits <= 0 && row->busy_s <= 0) || row->begin_s > TIME_MOST)
            continue;
        served (self, i, &first_s, &last_s);
        work->from_s = work->from_s > 0 ? work->from_s : first_s;
        work->to_s = last_s;
        work->worked_s += row->up_s; /* of a second it may be more or less than one */
        work->hits += row->hits;
        work->workers_max = fmax (work->workers_max, row->workers_max);
    }
    work->hits_s = work->worked_s > 0 ? work->hits / work->worked_s : 0;
}

/* ---- latencies ------------------------------------------------------------------------------- */

double wm_history_query_quantile (const wm_history_query_latency_t *latency, double share)
{
    double all = 0, below = 0;
    for (int b = 0; b < WM_HISTORY_QUERY_BINS; b++)
        all += latency->bin[b];
    for (int b = 0; b < WM_HISTORY_QUERY_BINS - 1; b++) {
        below += latency->bin[b];
        if (below >= share * all && all > 0)
            return 1e-3 * (double) (1 << b);
    }
    return all > 0 ? INFINITY : 0;
}

static const char *short_time (double seconds, char text[32])
{
    if (seconds < 1)
        snprintf (text, 32, "%.3g ms", 1e3 * seconds);
    else
        wm_show_time (seconds, text);
    return text;
}

const char *wm_history_query_quantile_text (const wm_history_query_latency_t *latency, double share,
                                            char text[48])
{
    char time[32];
    const double at_s = wm_history_query_quantile (latency, share);
    if (isinf (at_s))
        snprintf (text, 48, "above 16 s");
    else
        snprintf (text, 48, at_s > 0 ? "below %s" : "-", short_time (at_s, time));
    return text;
}

const char *wm_history_query_mean_text (const wm_history_query_latency_t *latency, char text[48])
{
    const double mean_s = latency->n > 0 ? latency->sum_s / latency->n : 0;
    if (latency->n <= 0)
        snprintf (text, 48, "-");
    else if (mean_s < 1)
        snprintf (text, 48, mean_s < 0.1 ? "%.1f ms" : "%.0f ms", 1e3 * mean_s);
    else
        wm_show_time (mean_s, text);
    return text;
}
