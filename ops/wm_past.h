/* wm_past.h - a campaign's history ("wiremill-history-1"), kept for a page: rates over time,
   latencies, faults. A row takes about 500 bytes, so a year takes 10 MB. Thread: any.  */
#ifndef WM_PAST_H
#define WM_PAST_H

#include <jansson.h>
#include <stdint.h>

#define WM_PAST_BINS 16 /* of a latency: below 1 ms, 2 ms, 4 ms ... 16.384 s, and all above */

/* What rows are asked for.  */
typedef enum {
    WM_PAST_HITS,
    WM_PAST_BATCHES,
    WM_PAST_FAIL,
    WM_PAST_LOST,
    WM_PAST_PREEMPT,
    WM_PAST_COPIES,
    WM_PAST_DUPLICATE,
    WM_PAST_LATE,
    WM_PAST_AGAIN,
    WM_PAST_ALARM,
    WM_PAST_COUNTS
} wm_past_count_t;
typedef enum {
    WM_PAST_STAGE,
    WM_PAST_QUEUE,
    WM_PAST_COMPUTE,
    WM_PAST_COMMIT,
    WM_PAST_STEPS
} wm_past_step_t;

typedef struct {
    double count, sum_s;
    uint32_t bin[WM_PAST_BINS];
} wm_past_latency_t;

typedef struct wm_past_t wm_past_t;

wm_past_t *wm_past_new (void);
void wm_past_destroy (wm_past_t **self_p);

/* Takes a page of a history that was asked from this time on: its rows replace what was known from
   there on. HUGE_VAL: only rows are taken that are new, or have more hits than the last that is
   known.  */
void wm_past_take (wm_past_t *self, const json_t *page, double from_s);

/* Returns what to ask from next: the row before the last, since both may still grow; 0: all.  */
double wm_past_next (wm_past_t *self);

/* Returns when a broker first served in a row that has a time; 0: there is none.  */
double wm_past_begin (wm_past_t *self);

/* Fills `rate` (n) with hits/s over equal parts of the time from `from_s` to `to_s` (Unix), below 0
   where no broker served.  */
void wm_past_rate (wm_past_t *self, double from_s, double to_s, float *rate, int n);

/* Returns the sum of a count over the rows from `from_s` on.  */
double wm_past_sum (wm_past_t *self, wm_past_count_t count, double from_s);

/* Sums a latency over the rows from `from_s` on.  */
void wm_past_latency (wm_past_t *self, wm_past_step_t step, double from_s,
                      wm_past_latency_t *latency);

/* Returns the time, in ms, below which this share of the batches were: the end of a bin; 0: above
   the last one, or none was counted.  */
double wm_past_below_ms (const wm_past_latency_t *latency, double share);

#endif
