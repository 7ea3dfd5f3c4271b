/* wm_past.c - see wm_past.h.  */
#include "ops/wm_past.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    double begin_s, span_s, up_s, count[WM_PAST_COUNTS];
    wm_past_latency_t latency[WM_PAST_STEPS];
} row_t;

struct wm_past_t {
    pthread_mutex_t mutex;
    row_t *row; /* in order of time */
    size_t n, room;
};

static const char *const count_names[WM_PAST_COUNTS] = { "hits",    "batches", "fail",      "lost",
                                                         "preempt", "copies",  "duplicate", "late",
                                                         "again",   "alarm" };
static const char *const step_names[WM_PAST_STEPS] = { "stage", "queue", "compute", "commit" };

wm_past_t *wm_past_new (void)
{
    wm_past_t *self = calloc (1, sizeof *self);
    assert (self);
    pthread_mutex_init (&self->mutex, NULL);
    return self;
}

void wm_past_destroy (wm_past_t **self_p)
{
    wm_past_t *self = *self_p;
    if (!self)
        return;
    pthread_mutex_destroy (&self->mutex);
    free (self->row);
    free (self);
    *self_p = NULL;
}

/* ---- taking pages ---------------------------------------------------------------------------- */

/* What a row has in the column of that name; NULL: nothing.  */
static const json_t *cell (const json_t *columns, const json_t *row, const char *name)
{
    for (size_t i = 0; i < json_array_size (columns); i++) {
        const char *text = json_string_value (json_array_get (columns, i));
        if (text && strcmp (text, name) == 0)
            return json_array_get (row, i);
    }
    return NULL;
}

static double number (const json_t *columns, const json_t *row, const char *name)
{
    return json_number_value (cell (columns, row, name));
}

static void read_row (const json_t *columns, const json_t *from, row_t *row)
{
    memset (row, 0, sizeof *row);
    row->begin_s = number (columns, from, "begin_s");
    row->span_s = number (columns, from, "span_s");
    row->up_s = number (columns, from, "up_s");
    for (int i = 0; i < WM_PAST_COUNTS; i++)
        row->count[i] = number (columns, from, count_names[i]);
    for (int i = 0; i < WM_PAST_STEPS; i++) {
        wm_past_latency_t *latency = &row->latency[i];
        const json_t *one = cell (columns, from, step_names[i]);
        latency->count = json_number_value (json_array_get (one, 0));
        latency->sum_s = json_number_value (json_array_get (one, 1));
        for (size_t k = 0; k < WM_PAST_BINS; k++)
            latency->bin[k] =
                (uint32_t) json_integer_value (json_array_get (json_array_get (one, 2), k));
    }
}

/* Rows are in order of time, and one that is known only grows; others are left out. false: no
   memory.  */
static bool add (wm_past_t *self, const row_t *row)
{
    row_t *last = self->n ? &self->row[self->n - 1] : NULL;
    if (last && row->begin_s <= last->begin_s) {
        if (row->begin_s >= last->begin_s && row->count[WM_PAST_HITS] > last->count[WM_PAST_HITS])
            *last = *row;
        return true;
    }
    if (self->n == self->room) {
        const size_t room = self->room ? 2 * self->room : 256;
        row_t *more = realloc (self->row, room * sizeof *more);
        if (!more)
            return false;
        self->row = more;
        self->room = room;
    }
    self->row[self->n++] = *row;
    return true;
}

void wm_past_take (wm_past_t *self, const json_t *page, double from_s)
{
    size_t i;
    row_t row;
    const json_t *one, *columns = json_object_get (page, "columns");
    pthread_mutex_lock (&self->mutex);
    while (self->n && self->row[self->n - 1].begin_s >= from_s)
        self->n--;
    json_array_foreach (json_object_get (page, "rows"), i, one)
    {
        read_row (columns, one, &row);
        if (!add (self, &row))
            break;
    }
    pthread_mutex_unlock (&self->mutex);
}

double wm_past_next (wm_past_t *self)
{
    pthread_mutex_lock (&self->mutex);
    const double next = self->n > 1 ? self->row[self->n - 2].begin_s : 0;
    pthread_mutex_unlock (&self->mutex);
    return next;
}

/* ---- what they tell -------------------------------------------------------------------------- */

/* When a broker served in a row: at its end where the next row follows, else from its begin on.  */
static void served (const wm_past_t *self, size_t i, double *first_s, double *last_s)
{
    const row_t *row = &self->row[i];
    const bool is_part = row->up_s > 0 && row->up_s < row->span_s - 1,
               is_followed = i + 1 < self->n && row[1].begin_s <= row->begin_s + row->span_s;
    *first_s = row->begin_s + (is_part && is_followed ? row->span_s - row->up_s : 0);
    *last_s = *first_s + (is_part ? row->up_s : row->span_s);
}

double wm_past_begin (wm_past_t *self)
{
    double begin_s = 0, last_s;
    pthread_mutex_lock (&self->mutex);
    for (size_t i = 0; i < self->n && !(begin_s > 0); i++)
        if (self->row[i].begin_s > 0)
            served (self, i, &begin_s, &last_s);
    pthread_mutex_unlock (&self->mutex);
    return begin_s;
}

double wm_past_sum (wm_past_t *self, wm_past_count_t count, double from_s)
{
    double sum = 0;
    pthread_mutex_lock (&self->mutex);
    for (size_t i = self->n; i && self->row[i - 1].begin_s >= from_s; i--)
        sum += self->row[i - 1].count[count];
    pthread_mutex_unlock (&self->mutex);
    return sum;
}

/* Adds a row's hits, spread evenly over the seconds that a broker served, to the parts.  */
static void add_hits (const wm_past_t *self, size_t i, double from_s, double part_s, float *hits,
                      int n)
{
    double first, last;
    const row_t *row = &self->row[i];
    served (self, i, &first, &last);
    if (row->begin_s <= 0 || last <= first || last <= from_s)
        return;
    const double per_s = row->count[WM_PAST_HITS] / (last - first);
    const double skipped = first > from_s ? (first - from_s) / part_s : 0;
    for (int k = skipped < n ? (int) skipped : n; k < n && from_s + k * part_s < last; k++) {
        const double a = from_s + k * part_s > first ? from_s + k * part_s : first;
        const double b = from_s + (k + 1) * part_s < last ? from_s + (k + 1) * part_s : last;
        if (b > a)
            hits[k] = (hits[k] < 0 ? 0 : hits[k]) + (float) (per_s * (b - a));
    }
}

/* The first and the last part may lie in the history only in part.  */
void wm_past_rate (wm_past_t *self, double from_s, double to_s, float *rate, int n)
{
    const double part_s = (to_s - from_s) / n, begin_s = wm_past_begin (self);
    double first, last = from_s;
    for (int k = 0; k < n; k++)
        rate[k] = -1;
    pthread_mutex_lock (&self->mutex);
    for (size_t i = 0; i < self->n && part_s > 0; i++) {
        add_hits (self, i, from_s, part_s, rate, n);
        served (self, i, &first, &last);
    }
    pthread_mutex_unlock (&self->mutex);
    for (int k = 0; k < n; k++) {
        const double a = from_s + k * part_s, b = a + part_s;
        const double known_s = (b < last ? b : last) - (a > begin_s ? a : begin_s);
        if (rate[k] > 0)
            rate[k] = known_s > 0 ? rate[k] / (float) known_s : 0;
    }
}

void wm_past_latency (wm_past_t *self, wm_past_step_t step, double from_s,
                      wm_past_latency_t *latency)
{
    memset (latency, 0, sizeof *latency);
    pthread_mutex_lock (&self->mutex);
    for (size_t i = self->n; i && self->row[i - 1].begin_s >= from_s; i--) {
        const wm_past_latency_t *one = &self->row[i - 1].latency[step];
        latency->count += one->count;
        latency->sum_s += one->sum_s;
        for (int k = 0; k < WM_PAST_BINS; k++)
            latency->bin[k] += one->bin[k];
    }
    pthread_mutex_unlock (&self->mutex);
}

double wm_past_below_ms (const wm_past_latency_t *latency, double share)
{
    double all = 0, below = 0, ms = 1;
    for (int k = 0; k < WM_PAST_BINS; k++)
        all += latency->bin[k];
    for (int k = 0; k < WM_PAST_BINS - 1; k++, ms *= 2)
        if ((below += latency->bin[k]) >= share * all)
            return all > 0 ? ms : 0;
    return 0;
}
