/* wm_status_history.c - pages of the history as JSON.

   Rows are printed as text, not built as objects: a week has ten thousand of them. A page of rows
   has the marks between them, too: those of its time, by the last of a burst, so that whoever asks
   on from some time learns of a burst that goes on.  */
#include "broker/wm_status.h"

#include "schema/base/wm_log.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_BYTES_MAX 2048 /* of one, as printed */

typedef struct {
    FILE *out;
    FILE *marks; /* NULL: none are wanted */
    uint64_t epoch, next;
    uint32_t n, n_printed;
    const wm_mark_t *mark[WM_MARKS_MAX]; /* (n_mark) by their last time */
    size_t n_mark, i_mark;
} page_t;

/* Whether another row fits; else it begins the next page.  */
static bool has_room (page_t *self, uint64_t at)
{
    const long bytes = ftell (self->out) + (self->marks ? ftell (self->marks) : 0);
    if (bytes >= 0 && bytes + ROW_BYTES_MAX < (long) WM_STATUS_BYTES_MAX)
        return true;
    self->next = at;
    return false;
}

static void print_latency (FILE *out, const wm_latency_t *latency)
{
    fprintf (out, ",[%" PRIu64 ",%.3f,[", latency->n, (double) latency->sum_ms / 1e3);
    for (int i = 0; i < WM_LATENCY_BUCKETS; i++)
        fprintf (out, "%s%" PRIu32, i ? "," : "", latency->bucket[i]);
    fputs ("]]", out);
}

/* Text of a peer, as wm_status.c shows it; "" is null.  */
static json_t *tamed (const char *text)
{
    char *copy = *text ? strdup (text) : NULL;
    if (copy)
        wm_log_sanitize (copy);
    json_t *json = copy ? json_string (copy) : *text ? NULL : json_null ();
    free (copy);
    return json ? json : json_string ("(not UTF-8)");
}

static int by_time (const void *a, const void *b)
{
    const wm_mark_t *x = *(const wm_mark_t *const *) a, *y = *(const wm_mark_t *const *) b;
    return x->to_s != y->to_s ? (x->to_s > y->to_s) - (x->to_s < y->to_s)
                              : (x->id > y->id) - (x->id < y->id);
}

/* Finds those from a second on, but its first `n_before`.  */
static void find_marks (page_t *self, const wm_ledger_t *ledger, int64_t from_s, uint64_t n_before)
{
    const wm_mark_t *mark;
    for (size_t i = 0; self->n_mark < WM_MARKS_MAX && (mark = wm_ledger_mark_at (ledger, i)); i++)
        if (mark->to_s >= from_s)
            self->mark[self->n_mark++] = mark;
    qsort (self->mark, self->n_mark, sizeof *self->mark, by_time);
    while (self->i_mark < n_before && self->i_mark < self->n_mark &&
           self->mark[self->i_mark]->to_s == from_s)
        self->i_mark++;
}

/* The page that begins with the next mark.  */
static uint64_t page_of_mark (const page_t *self)
{
    const int64_t to_s = self->mark[self->i_mark]->to_s;
    uint64_t n_before = 0;
    while (n_before < self->i_mark && self->mark[self->i_mark - n_before - 1]->to_s == to_s)
        n_before++;
    return (uint64_t) to_s | n_before << WM_HISTORY_SECOND_BITS;
}

/* Prints the marks before a time; false: the page is full.  */
static bool print_marks (page_t *self, int64_t before_s)
{
    for (; self->i_mark < self->n_mark; self->i_mark++) {
        const wm_mark_t *mark = self->mark[self->i_mark];
        if (mark->to_s >= before_s)
            return true;
        if (!has_room (self, page_of_mark (self)))
            return false;
        json_t *row = json_pack ("{s:I, s:s, s:I, s:I, s:I, s:o}", "id", (json_int_t) mark->id,
                                 "kind", wm_mark_what[mark->kind].name, "from_s",
                                 (json_int_t) mark->from_s, "to_s", (json_int_t) mark->to_s, "n",
                                 (json_int_t) mark->n, "text", tamed (mark->text));
        char *text = row ? json_dumps (row, JSON_COMPACT) : NULL;
        if (text)
            fprintf (self->marks, "%s%s", self->n_printed++ ? "," : "", text);
        free (text);
        json_decref (row);
    }
    return true;
}

static bool print_minute (void *argument, const wm_history_row_t *minute)
{
#define UNIT(name, text, unit) unit,
    static const double unit[] = { WM_COUNTS (UNIT) };
    page_t *self = argument;
    if (!print_marks (self, minute->begin_s) || !has_room (self, (uint64_t) minute->begin_s))
        return false;
    fprintf (self->out, "%s[%lld,%u,%u,%" PRIu64, self->n++ ? "," : "", (long long) minute->begin_s,
             minute->span_s, minute->workers_max, minute->journal_bytes);
    for (int i = 0; i < WM_N_COUNT; i++)
        if (unit[i] > 1)
            fprintf (self->out, ",%.3f", (double) minute->tally.count[i] / unit[i]);
        else
            fprintf (self->out, ",%" PRIu64, minute->tally.count[i]);
    for (int i = 0; i < WM_STEPS; i++)
        print_latency (self->out, &minute->tally.step[i]);
    fputc (']', self->out);
    return true;
}

static void print_columns (FILE *out)
{
#define TEXT(name, text, unit) text,
    static const char *const text[] = { WM_COUNTS (TEXT) };
    fputs ("\"begin_s\",\"span_s\",\"workers_max\",\"journal\"", out);
    for (int i = 0; i < WM_N_COUNT; i++)
        fprintf (out, ",\"%s\"", text[i]);
    for (int i = 0; i < WM_STEPS; i++)
        fprintf (out, ",\"%s\"", wm_step_names[i]);
}

static bool print_worker (void *argument, const wm_worker_span_t *span)
{
    page_t *self = argument;
    if (!has_room (self, span->id))
        return false;
    json_t *row = json_pack (
        "{s:o, s:o, s:o, s:b, s:b, s:I, s:I, s:I, s:I, s:f, s:o, s:o}", "worker",
        tamed (span->label), "signature", tamed (span->signature), "device", tamed (span->device),
        "connected", !span->has_ended && self->epoch && span->id >> 32 == self->epoch, "ended",
        span->has_ended, "from_s", (json_int_t) span->from_s, "to_s", (json_int_t) span->to_s,
        "batches", (json_int_t) span->batches, "hits", (json_int_t) span->hits, "busy_s",
        (double) span->busy_ms / 1e3, "cpu_s",
        span->cpu_ms < 0 ? json_null () : json_real ((double) span->cpu_ms / 1e3), "why",
        tamed (span->why));
    char *text = row ? json_dumps (row, JSON_COMPACT | JSON_REAL_PRECISION (9)) : NULL;
    if (text)
        fprintf (self->out, "%s%s", self->n++ ? "," : "", text);
    free (text);
    json_decref (row);
    return true;
}

/* Closes both; returns the whole page, NULL if it is not whole.  */
static char *end_page (page_t *self, char **text, char **marks, bool is_sound)
{
    if (self->marks && fclose (self->marks))
        is_sound = false;
    if (self->out && *marks)
        fprintf (self->out, "],\"marks\":[%s", *marks);
    if (self->out) {
        fprintf (self->out, "],\"next\":%" PRIu64 "}", self->next);
        is_sound &= !ferror (self->out);
        is_sound &= !fclose (self->out);
    }
    free (*marks);
    if (self->out && is_sound)
        return *text;
    free (*text);
    return NULL;
}

char *wm_status_history (wm_ledger_t *ledger, bool is_of_workers, uint64_t epoch, uint64_t from,
                         uint64_t *next)
{
    char *text = NULL, *marks = NULL;
    size_t bytes, marks_bytes;
    wm_error_t error;
    page_t page = { .out = open_memstream (&text, &bytes), .epoch = epoch };
    const int64_t from_s = (int64_t) wm_history_second (from);
    page.marks = is_of_workers ? NULL : open_memstream (&marks, &marks_bytes);
    if (!page.out || (!page.marks && !is_of_workers))
        return end_page (&page, &text, &marks, false);
    if (is_of_workers)
        fprintf (page.out, "{\"schema\":\"wiremill-workers-1\",\"dropped\":%" PRIu64,
                 wm_ledger_spans_dropped (ledger));
    else {
        find_marks (&page, ledger, from_s, from >> WM_HISTORY_SECOND_BITS);
        fputs ("{\"schema\":\"wiremill-history-1\",\"columns\":[", page.out);
        print_columns (page.out);
        fputc (']', page.out);
    }
    fputs (is_of_workers ? ",\"workers\":[" : ",\"rows\":[", page.out);
    const wm_fault_t fault = is_of_workers
                                 ? wm_ledger_spans (ledger, from, print_worker, &page, &error)
                                 : wm_ledger_minutes (ledger, from_s, print_minute, &page, &error);
    if (!fault && !page.next && !is_of_workers)
        print_marks (&page, INT64_MAX);
    *next = page.next;
    return end_page (&page, &text, &marks, !fault);
}
