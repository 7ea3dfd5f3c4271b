/* wm_history_query.h - a campaign's history ("wiremill-history-1", wm_ask_history) as numbers, for
   report, serve and top.

   Columns are found by their names. What is not there, or is no number, is 0: an older or newer
   broker may have sent it. A row takes about 800 bytes, so a year takes 16 MB.
   Thread: one at a time.  */
#ifndef WM_HISTORY_QUERY_H
#define WM_HISTORY_QUERY_H

#include "schema/wm_history.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A count of each row, by its name in "columns".  */
/* clang-format off */
#define WM_HISTORY_QUERY_COUNTS(X) \
    X (begin_s) X (span_s) X (up_s) X (hits) X (batches) X (held) X (events) X (payload_in) \
    X (task_out) X (result_in) X (fail) X (lost) X (preempt) X (duplicate) X (late) X (alarm) \
    X (copies) X (again) X (workers_max) X (worker_s) X (busy_s) X (broker_cpu_s) X (journal)
/* clang-format on */

/* The steps of a batch, one after another.  */
enum {
    WM_HISTORY_QUERY_STAGE,
    WM_HISTORY_QUERY_QUEUE,
    WM_HISTORY_QUERY_COMPUTE,
    WM_HISTORY_QUERY_COMMIT,
    WM_HISTORY_QUERY_STEPS
};
extern const struct wm_history_query_step_t {
    const char *name, *what;
} wm_history_query_step[WM_HISTORY_QUERY_STEPS];

#define WM_HISTORY_QUERY_BINS 16 /* of a latency: below 1, 2, 4, ... 16,384 ms, and above */

typedef struct {
    double n, sum_s, bin[WM_HISTORY_QUERY_BINS];
} wm_history_query_latency_t;

/* A second, a minute, an hour, or a sum of them.  */
typedef struct {
#define WM_HISTORY_QUERY_MEMBER(name) double name;
    WM_HISTORY_QUERY_COUNTS (WM_HISTORY_QUERY_MEMBER)
#undef WM_HISTORY_QUERY_MEMBER
    wm_history_query_latency_t step[WM_HISTORY_QUERY_STEPS];
} wm_history_query_row_t;

/* What went wrong, or was done twice: its count of a row, and its path in the status.  */
#define WM_HISTORY_QUERY_FAULTS 9
extern const struct wm_history_query_fault_t {
    size_t offset;
    const char *path, *what;
} wm_history_query_fault[WM_HISTORY_QUERY_FAULTS];
double wm_history_query_fault_of (const wm_history_query_row_t *row, size_t fault);

/* A process of a worker; texts are lent by the history.  */
typedef struct {
    const char *label, *signature, *device, *why; /* why "": nothing to report */
    bool connected, has_ended;                    /* neither: its broker ended first */
    double from_s, to_s, batches, hits, busy_s;
    double cpu_s; /* below 0: not reported */
} wm_history_query_worker_t;

/* A mark of the time line.  */
#define WM_HISTORY_QUERY_MARKS_MAX 1000 /* of more, the oldest are forgotten */
typedef struct {
    double id, from_s, to_s, n;
    const struct wm_mark_what_t *what; /* its kind */
    char text[200];
} wm_history_query_mark_t;

bool wm_history_query_is_gpu (const wm_history_query_worker_t *worker);

/* All zero is empty.  */
typedef struct {
    wm_history_query_row_t *row; /* (n_row) in the order of time, all with a time */
    size_t n_row;
    double hits_before; /* of results whose time is not known */
    double made_s;      /* when the campaign was made, set by the owner; 0: not known */
    wm_history_query_worker_t *worker; /* (n_worker) as they connected */
    size_t n_worker;
    double n_worker_dropped;       /* older ones that are not kept */
    wm_history_query_mark_t *mark; /* (n_mark) by their ids */
    size_t n_mark;
} wm_history_query_t;

/* Takes a page of rows, or all, asked from this time on. They replace what was known from there, or
   from the first row on if that begins before (seconds became a minute), to the page's last row;
   what is known beyond it stays, and so does its last row if more hits are known of that: a ledger
   may lack the last minute. Its marks are added; one that is known grows. false: no memory, nothing
   is changed.  */
bool wm_history_query_take (wm_history_query_t *self, const json_t *page, double from_s);

/* Takes the workers of a whole history, which must live as long. false: no memory.  */
bool wm_history_query_take_workers (wm_history_query_t *self, const json_t *history);

void wm_history_query_clear (wm_history_query_t *self);

/* Returns what to ask from next: the row before the last, since both may still grow; 0: all.  */
double wm_history_query_next (const wm_history_query_t *self);

/* Returns when a broker first served; 0: no row.  */
double wm_history_query_begin (const wm_history_query_t *self);

/* Sums the rows from `from_s` on; begin_s, workers_max and journal: the least, the most, the
   last.  */
void wm_history_query_sum (const wm_history_query_t *self, double from_s,
                           wm_history_query_row_t *sum);

/* Spreads the rows, each evenly over the seconds in which a broker served, over parts (n) that are
   `width_s` long.  */
typedef struct {
    double width_s, hits, up_s, busy_s, workers_max;
} wm_history_query_part_t;
void wm_history_query_spread (const wm_history_query_t *self, double from_s, double width_s,
                              wm_history_query_part_t *part, size_t n);

/* Returns hits/s over the part's width, so that the area under rates is hits; below 0: no broker
   served.  */
double wm_history_query_rate (const wm_history_query_part_t *part);

/* The rate of a campaign, wherever one is shown: its hits by the time in which workers had batches;
   from_s 0: nothing was scored yet.  */
typedef struct {
    double from_s, to_s, worked_s, hits, hits_s, workers_max;
} wm_history_query_work_t;
void wm_history_query_work (const wm_history_query_t *self, wm_history_query_work_t *work);

/* Returns how long at most this share of the batches took for a step, the upper end of a bin, in
   seconds; INFINITY: longer than the last; 0: no batch.  */
double wm_history_query_quantile (const wm_history_query_latency_t *latency, double share);

/* The same in words, such as "below 4 ms"; and a mean; "-": no batch.  */
const char *wm_history_query_quantile_text (const wm_history_query_latency_t *latency, double share,
                                            char text[48]);
const char *wm_history_query_mean_text (const wm_history_query_latency_t *latency, char text[48]);

#endif
