/* wm_report_history.h - the history of a campaign (wm_ask_history) as numbers.

   What is not there, or is no number, is 0: an older or newer broker may have sent it.
   Thread: one.  */
#ifndef WM_REPORT_HISTORY_H
#define WM_REPORT_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A count of each row, by its name in "columns".  */
/* clang-format off */
#define WM_REPORT_COUNTS(X) \
    X (begin_s) X (span_s) X (up_s) X (hits) X (batches) X (held) X (events) X (payload_in) \
    X (task_out) X (result_in) X (fail) X (lost) X (preempt) X (duplicate) X (late) X (alarm) \
    X (copies) X (again) X (workers_max) X (worker_s) X (busy_s) X (broker_cpu_s) X (journal)
/* clang-format on */

/* The steps of a batch.  */
enum { WM_REPORT_STAGE, WM_REPORT_QUEUE, WM_REPORT_COMPUTE, WM_REPORT_COMMIT, WM_REPORT_STEPS };
#define WM_REPORT_BINS 16 /* of a latency: below 1, 2, 4, ... 16,384 ms, and above */

typedef struct {
    double n, sum_s, bin[WM_REPORT_BINS];
} wm_report_latency_t;

/* A minute, an hour, or a sum of them.  */
typedef struct {
#define WM_REPORT_MEMBER(name) double name;
    WM_REPORT_COUNTS (WM_REPORT_MEMBER)
#undef WM_REPORT_MEMBER
    wm_report_latency_t step[WM_REPORT_STEPS];
} wm_report_row_t;

/* A process of a worker; texts are lent by the history.  */
typedef struct {
    const char *label, *signature, *device, *why; /* why "": nothing to report */
    bool connected;
    double from_s, to_s, batches, hits, busy_s;
    double cpu_s; /* below 0: not reported */
} wm_report_worker_t;

typedef struct {
    wm_report_row_t *row; /* (n_row) in the order of time, all with a time */
    size_t n_row;
    double hits_before;         /* of results whose time is not known */
    wm_report_row_t sum;        /* of all rows; begin_s and workers_max: their least and most */
    double from_s, to_s;        /* what rows and workers cover; 0, 0: nothing */
    wm_report_worker_t *worker; /* (n_worker) as they connected */
    size_t n_worker;
    double n_worker_dropped; /* older ones that are not kept */
} wm_report_history_t;

/* Fills `self` from "wiremill-history-1", which must live as long; NULL: no rows, no workers.
   false: no memory. now_s: nothing is later.  */
bool wm_report_history_take (wm_report_history_t *self, const json_t *history, double now_s);
void wm_report_history_clear (wm_report_history_t *self);

/* Returns how long at most this share of the batches took for a step, the upper end of a bin, in
   seconds; INFINITY: longer than the last.  */
double wm_report_quantile (const wm_report_latency_t *latency, double share);

#endif
