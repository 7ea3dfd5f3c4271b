/* wm_metrics_private.h - what the pages of metrics are written with: heads, labels, samples.

   Thread: one at a time.  */
#ifndef WM_METRICS_PRIVATE_H
#define WM_METRICS_PRIVATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* A "kept" counter is one that the campaign's ledger keeps. A broker that is killed has not written
   its last ones there, so the next broker begins a little lower, which Prometheus would take for a
   reset and count everything again. Such a counter stands still until it is passed. One that falls
   below half of its value is printed as it is: its ledger was made again. In the output its type is
   "counter". */
#define WM_METRICS_KEPT "kept"

/* One metric: HELP and TYPE are printed once, then its samples. A row without a name is of the
   metric of the row before it.  */
typedef struct {
    const char *name, *type, *help;
    const char *label, *value; /* label NULL: none */
    const char *path; /* in the status, in a worker, or in a worker's GPU; "a+b": the sum */
    double scale;     /* 0: 1 */
} wm_metrics_row_t;

/* Labels, printed: name="value",...; what does not fit is left out whole.  */
typedef struct {
    char text[1024];
} wm_metric_labels_t;

/* Appends a label; escapes what its value has.  */
void wm_labels_add (wm_metric_labels_t *self, const char *name, const char *value);

void wm_metrics_head (FILE *out, const wm_metrics_row_t *row);

/* Prints one sample of this row's metric. `suffix` is "" or the part of a histogram.  */
void wm_metrics_sample (FILE *out, const wm_metrics_row_t *row, const char *suffix,
                        const wm_metric_labels_t *labels, double value);

double wm_metrics_scaled (const wm_metrics_row_t *row, double value);

/* What is at this path ("hits.done"), lent; NULL: nothing.  */
const json_t *wm_metrics_at (const json_t *object, const char *path);

/* A number by its path; false: it, or a part of a sum, is not known (null or not there).  */
bool wm_metrics_find (const json_t *object, const char *path, double *value);

/* Prints each row of a table (n of them) that is in the status, under `labels`.  */
void wm_metrics_rows (FILE *out, const wm_metrics_row_t *rows, size_t n, const json_t *status,
                      const wm_metric_labels_t *labels);

/* Workers that the status lists, and their GPUs: the last also under Triton's names.  */
void wm_metrics_workers (FILE *out, const json_t *status, const wm_metric_labels_t *campaign);

/* What Triton counts of a model, under its names.  */
void wm_metrics_triton (FILE *out, const json_t *status, const wm_metric_labels_t *campaign);

#endif
