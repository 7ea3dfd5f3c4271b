/* wm_plan_paper.c - see wm_plan_paper.h.  */
#include "ops/wm_plan_paper.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 4
#define T_GPU_LEAST 0.01
#define T_GPU_MOST 100.
#define STEPS 400 /* of a scan over t_gpu; then its best place is refined as often */

/* ---- the model ------------------------------------------------------------------------------- */

static double own_s (const wm_paper_t *self)
{
    return (1 - self->p) * self->t_cpu;
}

double wm_paper_ratio (const wm_paper_t *self)
{
    return (own_s (self) + self->t_gpu + self->t_latency) / self->t_gpu;
}

double wm_paper_module_s (const wm_paper_t *self, double jobs)
{
    const double waits = fmax (0, jobs / self->n_gpu - wm_paper_ratio (self));
    return self->t_gpu * (1 + waits) + self->t_latency + self->t_pre;
}

double wm_paper_event_s (const wm_paper_t *self, double jobs)
{
    return own_s (self) + wm_paper_module_s (self, jobs);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static wm_fault_t parse (const char *path, int n_line, const char *line, wm_paper_row_t *row,
                         wm_error_t *error)
{
    double value[COLUMNS];
    const char *at = line;
    for (int i = 0; i < COLUMNS; i++) {
        char *end;
        at += strspn (at, " \t,");
        value[i] = strtod (at, &end);
        if (end == at || !strchr (" \t,\r\n", *end))
            return wm_fault (error, WM_EBATCH,
                             "%.300s:%d: column %d is no number; a row is: jobs, seconds of an "
                             "event, their deviation, seconds of the module",
                             path, n_line, i + 1);
        if (!isfinite (value[i]) || value[i] < 0 || value[i] > 1e9 || (i != 2 && value[i] <= 0))
            return wm_fault (error, WM_EBATCH, "%.300s:%d: column %d: %.20g is out of range", path,
                             n_line, i + 1, value[i]);
        at = end;
    }
    *row = (wm_paper_row_t){ value[0], value[1], value[3] };
    return WM_OK;
}

static bool is_blank (const char *line)
{
    while (isspace ((unsigned char) *line))
        line++;
    return !*line || *line == '#';
}

wm_paper_row_t *wm_paper_read (const char *path, size_t *n_row, wm_error_t *error)
{
    char *line = NULL;
    size_t room = 0;
    wm_fault_t fault = WM_OK;
    FILE *file = fopen (path, "re");
    wm_paper_row_t *row = file ? calloc (WM_PAPER_ROWS_MAX, sizeof *row) : NULL;
    if (!row) {
        wm_fault (error, WM_EUSAGE, "%.300s: %s", path, strerror (errno));
        return NULL;
    }
    *n_row = 0;
    errno = 0;
    for (int n_line = 1; !fault && getline (&line, &room, file) > 0; n_line++) {
        if (is_blank (line))
            continue;
        if (*n_row == WM_PAPER_ROWS_MAX)
            fault = wm_fault (error, WM_EBATCH, "%.300s has more than %d rows", path,
                              WM_PAPER_ROWS_MAX);
        else
            fault = parse (path, n_line, line, &row[*n_row], error);
        *n_row += !fault;
    }
    if (!fault && ferror (file))
        fault = wm_fault (error, WM_EUSAGE, "%.300s: %s", path, strerror (errno));
    if (!fault && !*n_row)
        fault = wm_fault (error, WM_EBATCH, "%.300s has no rows", path);
    free (line);
    fclose (file);
    if (!fault)
        return row;
    free (row);
    return NULL;
}

/* ---- the fit --------------------------------------------------------------------------------- */

static double misfit (wm_paper_t self, double t_gpu, const wm_paper_row_t *row, size_t n_row)
{
    double sum = 0;
    self.t_gpu = t_gpu;
    for (size_t i = 0; i < n_row; i++) {
        const double off = wm_paper_event_s (&self, row[i].jobs) / row[i].event_s - 1;
        sum += off * off;
    }
    return sum;
}

/* Scans t_gpu in equal ratios between two values; returns the best.  */
static double scan (const wm_paper_t *self, double least, double most, const wm_paper_row_t *row,
                    size_t n_row)
{
    double best = least, best_sum = INFINITY;
    for (int i = 0; i <= STEPS; i++) {
        const double t_gpu = least * pow (most / least, (double) i / STEPS);
        const double sum = misfit (*self, t_gpu, row, n_row);
        if (sum < best_sum) {
            best = t_gpu;
            best_sum = sum;
        }
    }
    return best;
}

wm_fault_t wm_paper_fit (wm_paper_t *self, const wm_paper_row_t *row, size_t n_row,
                         wm_error_t *error)
{
    double most = 0;
    const double step = pow (T_GPU_MOST / T_GPU_LEAST, 1. / STEPS);
    const double near = scan (self, T_GPU_LEAST, T_GPU_MOST, row, n_row);
    self->t_gpu = scan (self, near / step, near * step, row, n_row);
    for (size_t i = 0; i < n_row; i++)
        most = fmax (most, row[i].jobs);
    if (most / self->n_gpu > wm_paper_ratio (self))
        return WM_OK;
    return wm_fault (error, WM_EBATCH,
                     "with %.0f jobs at most none waits for one of %.0f GPUs, so that t_gpu cannot "
                     "be fitted: add rows with more jobs, or give --t-gpu S",
                     most, self->n_gpu);
}
