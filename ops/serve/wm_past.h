/* wm_past.h - what a campaign's history ("wiremill-history-1") tells: rates over time, latencies,
   faults. Thread: any.  */
#ifndef WM_PAST_H
#define WM_PAST_H

#include <jansson.h>
#include <stdint.h>

#define WM_PAST_BINS 16 /* of a latency: below 1 ms, 2 ms, 4 ms ... 16.384 s, and all above */

/* Fills `rate` (n) with hits/s over equal parts of the time from `from_s` to `to_s` (Unix), below 0
   where no broker served.  */
void wm_past_rate (const json_t *history, double from_s, double to_s, float *rate, int n);

/* Returns when the first row that has a time begins; 0: there is none.  */
double wm_past_begin (const json_t *history);

/* Returns the sum of a column of numbers over the rows from `from_s` on.  */
double wm_past_sum (const json_t *history, const char *column, double from_s);

typedef struct {
    double count, sum_s, bin[WM_PAST_BINS];
} wm_past_latency_t;

/* Sums a latency ("queue") over the rows from `from_s` on.  */
void wm_past_latency (const json_t *history, const char *column, double from_s,
                      wm_past_latency_t *latency);

/* Returns the time, in ms, below which this share of the batches were: the end of a bin; 0: above
   the last one, or none was counted.  */
double wm_past_below_ms (const wm_past_latency_t *latency, double share);

#endif
