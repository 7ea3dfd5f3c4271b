/* wm_plan_paper.h - the published model of inference as a service, and measured times beside it.

   arXiv:2009.04509, of ProtoDUNE's EmTrkMichelId on GPUs of a cloud.

   N clients process one event after another and send the patches of each to n_gpu GPUs:

       t = (1 - p) t_cpu + t_gpu [1 + max (0, N / n_gpu - t_ideal / t_gpu)] + t_latency + t_pre
       t_ideal = (1 - p) t_cpu + t_gpu + t_latency

   t_cpu is an event without GPUs, p the share of it that they take over; t_ideal / t_gpu is the
   number of clients that one GPU serves before they wait for it. Pure but for the reading of
   files. Thread: any.  */
#ifndef WM_PLAN_PAPER_H
#define WM_PLAN_PAPER_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    double t_cpu, p, t_pre, t_gpu, t_latency; /* s an event; p a share */
    double n_gpu;
} wm_paper_t;

/* As published: 330 s, 65 %, 7 s; 2.5 s on a GPU; 2.05 s of transmission and 2.6 s of travel.  */
#define WM_PAPER_T_CPU "330"
#define WM_PAPER_P "0.65"
#define WM_PAPER_T_PRE "7"
#define WM_PAPER_T_GPU "2.5"
#define WM_PAPER_T_LATENCY "4.65"
#define WM_PAPER_HITS 55000 /* patches of an event */

double wm_paper_event_s (const wm_paper_t *self, double jobs);
double wm_paper_module_s (const wm_paper_t *self, double jobs); /* without (1 - p) t_cpu */
double wm_paper_ratio (const wm_paper_t *self);                 /* t_ideal / t_gpu */

#define WM_PAPER_ROWS_MAX 10000

/* One measured row: seconds of a whole event, and of the module that asks for scores.  */
typedef struct {
    double jobs, event_s, module_s;
} wm_paper_row_t;

/* Reads a file of one row a line: jobs, seconds of an event, their deviation, seconds of the
   module; more columns are not read. Spaces or commas between; lines that begin with # are
   comments.
   Returns the rows (the caller's), NULL with *error: WM_EUSAGE: no such file; WM_EBATCH names the
   line.  */
wm_paper_row_t *wm_paper_read (const char *path, size_t *n_row, wm_error_t *error);

/* Sets t_gpu to what makes the sum of squares of model / measured - 1 of whole events least.
   WM_EBATCH: in no row clients wait for a GPU, so that nothing can be learned about it.  */
wm_fault_t wm_paper_fit (wm_paper_t *self, const wm_paper_row_t *row, size_t n_row,
                         wm_error_t *error);

#endif
