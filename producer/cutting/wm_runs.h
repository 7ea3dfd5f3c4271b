/* wm_runs.h - the zero-suppressed runs of one plane: what its batches are cut from.

   Full view: drift bins, downscaled and scaled, that are not bitwise the zero level. Own view:
   ticks of adc x lifetime factor that are not 0. Only what the regions of interest touch is ever
   computed. Non-finite cells are in no run: they are listed beside, because they hold hits.
   Thread: one at a time.  */
#ifndef WM_RUNS_H
#define WM_RUNS_H

#include "kernels/patch/wm_image.h"
#include "producer/files/wm_event.h"

typedef struct {
    uint32_t wire, first, length;
    uint64_t value; /* index of its first value */
} wm_run_t;

typedef struct {
    uint32_t wire, col;
} wm_cell_t;

typedef struct {
    uint32_t n_wire, n_col;
    wm_run_t *run;                      /* in (wire, first) order; never touching on a wire */
    uint64_t n_run, n_value, n_clamped; /* n_clamped: values beyond `adc` of the specification */
    uint64_t *wire_start;               /* (n_wire + 1): first run of a wire */
    float *value;
    wm_cell_t *bad; /* non-finite cells, in (wire, col) order */
    uint64_t n_bad;

    size_t run_max, value_max, bad_max, wire_start_max, row_max, bins_max;
    float *row, *bins; /* one wire's ticks, all 0 between calls; its bins */
} wm_runs_t;

/* Makes the runs of plane `plane` (index) of an arranged event. factor: (n_tick), or NULL for 1.
   WM_EHOST without memory.  */
wm_fault_t wm_runs_make (wm_runs_t *self, const wm_spec_t *spec, const wm_event_t *event,
                         uint32_t plane, const float *factor, wm_error_t *error);

/* Puts the runs of `part` below those of self, from wire `first` on, where self->n_wire is at most
   `first`; the wires between have no runs. first 0: self is emptied before.  */
wm_fault_t wm_runs_stack (wm_runs_t *self, const wm_runs_t *part, uint32_t first,
                          wm_error_t *error);

/* Frees the memory and zeroes. NULL-safe, idempotent.  */
void wm_runs_clear (wm_runs_t *self);

#endif
