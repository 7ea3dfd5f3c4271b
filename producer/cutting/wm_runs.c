/* wm_runs.c - waveforms of a plane to its zero-suppressed runs.  */
#include "producer/cutting/wm_runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void wm_runs_clear (wm_runs_t *self)
{
    if (!self)
        return;
    free (self->run);
    free (self->wire_start);
    free (self->value);
    free (self->bad);
    free (self->row);
    free (self->bins);
    memset (self, 0, sizeof *self);
}

/* Room for `count` more cells of one wire, whatever they are.  */
static wm_fault_t room_make (wm_runs_t *self, uint64_t count, wm_error_t *error)
{
    wm_fault_t fault;
    if ((fault = wm_event_reserve (&self->run, &self->run_max, self->n_run + count,
                                   sizeof *self->run, error)) ||
        (fault =
             wm_event_reserve (&self->value, &self->value_max, self->n_value + count, 4, error)))
        return fault;
    return WM_OK;
}

/* Appends the cells first.. of a wire that are not `zero`, as runs. Bitwise, so that a cell is
   left out only where its value is exactly the zero level.  */
static wm_fault_t cells_add (wm_runs_t *self, uint32_t wire, uint32_t first, uint32_t count,
                             const float *cell, float zero, wm_error_t *error)
{
    uint32_t zero_bits, bits;
    memcpy (&zero_bits, &zero, sizeof zero_bits);
    wm_fault_t fault = room_make (self, count, error);
    wm_run_t *open = self->n_run ? &self->run[self->n_run - 1] : NULL;
    if (open && (open->wire != wire || open->first + open->length != first))
        open = NULL; /* else the last region's run continues */
    for (uint32_t i = 0; i < count && !fault; i++) {
        memcpy (&bits, &cell[i], sizeof bits);
        if (bits == zero_bits || !isfinite (cell[i])) {
            open = NULL;
            if (bits != zero_bits) {
                fault = wm_event_reserve (&self->bad, &self->bad_max, self->n_bad + 1,
                                          sizeof *self->bad, error);
                if (!fault)
                    self->bad[self->n_bad++] = (wm_cell_t){ wire, first + i };
            }
            continue;
        }
        if (!open) {
            open = &self->run[self->n_run++];
            *open = (wm_run_t){ wire, first + i, 0, self->n_value };
        }
        open->length++;
        self->value[self->n_value++] = cell[i];
    }
    return fault;
}

/* Own view: every region gives its ticks.  */
static wm_fault_t ticks_add (wm_runs_t *self, const wm_event_t *event, const wm_roi_t *roi,
                             const float *factor, wm_error_t *error)
{
    const float *sample = event->sample + roi->value;
    for (uint32_t i = 0; i < roi->count; i++) {
        float value = factor ? sample[i] * factor[roi->tick + i] : sample[i];
        self->row[i] = value == 0 ? 0.f : value; /* -0 is 0 ADC too */
    }
    wm_fault_t fault = cells_add (self, roi->wire, roi->tick, roi->count, self->row, 0.f, error);
    memset (self->row, 0, roi->count * sizeof *self->row);
    return fault;
}

/* Full view: lays the regions of one wire into the zeroed row, takes the bins that each touches,
   and zeroes the regions again.  */
static wm_fault_t bins_add (wm_runs_t *self, const wm_spec_t *spec, const wm_event_t *event,
                            uint32_t plane, const wm_roi_t *roi, uint64_t count,
                            const float *factor, wm_error_t *error)
{
    const float zero = wm_spec_zero (spec);
    wm_fault_t fault = WM_OK;
    for (uint64_t i = 0; i < count; i++)
        memcpy (self->row + roi[i].tick, event->sample + roi[i].value,
                roi[i].count * sizeof (float));
    uint32_t done = 0; /* bins below are taken */
    for (uint64_t i = 0; i < count && !fault; i++) {
        uint32_t first, last;
        wm_image_touched (spec, event->n_tick, roi[i].tick, roi[i].tick + roi[i].count, &first,
                          &last);
        first = first < done ? done : first;
        if (first >= last)
            continue;
        wm_image_downscale_range (spec, plane, self->row, factor, event->n_tick, first, last,
                                  self->bins);
        fault = cells_add (self, roi->wire, first, last - first, self->bins, zero, error);
        done = last;
    }
    for (uint64_t i = 0; i < count; i++)
        memset (self->row + roi[i].tick, 0, roi[i].count * sizeof (float));
    return fault;
}

/* A row of zeros for this event.  */
static wm_fault_t rows_prepare (wm_runs_t *self, uint32_t n_tick, wm_error_t *error)
{
    size_t before = self->row_max;
    wm_fault_t fault;
    if ((fault = wm_event_reserve (&self->row, &self->row_max, n_tick, 4, error)) ||
        (fault = wm_event_reserve (&self->bins, &self->bins_max, n_tick, 4, error)) ||
        (fault = wm_event_reserve (&self->wire_start, &self->wire_start_max, self->n_wire + 1ull, 8,
                                   error)))
        return fault;
    memset (self->row + before, 0, (self->row_max - before) * sizeof *self->row);
    return WM_OK;
}

/* Counts what lies beyond `adc`: pixels in full view, ticks (not averaged yet) in own view.  */
static void clamped_count (wm_runs_t *self, const wm_spec_t *spec, uint32_t plane)
{
    const wm_image_scaling_t scaling = wm_image_scaling (spec, plane);
    double low = scaling.adc_min / scaling.amplitude, high = scaling.adc_max / scaling.amplitude;
    if (spec->view == WM_FULL_VIEW) {
        low = (double) wm_image_scale (spec, plane, 2 * low - 1); /* further out is the same */
        high = (double) wm_image_scale (spec, plane, 2 * high + 1);
    }
    for (uint64_t i = 0; i < self->n_value; i++)
        self->n_clamped += (double) self->value[i] <= low || (double) self->value[i] >= high;
}

wm_fault_t wm_runs_make (wm_runs_t *self, const wm_spec_t *spec, const wm_event_t *event,
                         uint32_t plane, const float *factor, wm_error_t *error)
{
    const wm_event_plane_t *p = &event->plane[plane];
    self->n_wire = p->n_wire;
    self->n_col = wm_image_n_col (spec, event->n_tick);
    self->n_run = self->n_value = self->n_bad = self->n_clamped = 0;
    wm_fault_t fault = rows_prepare (self, event->n_tick, error);
    if (fault)
        return fault;
    const wm_roi_t *roi = event->roi + p->roi_first, *end = roi + p->roi_count;
    for (uint32_t w = 0; w < p->n_wire && !fault; w++) {
        const wm_roi_t *first = roi;
        while (roi < end && roi->wire == w)
            roi++;
        self->wire_start[w] = self->n_run;
        if (spec->view == WM_FULL_VIEW)
            fault = bins_add (self, spec, event, (uint32_t) p->plane, first,
                              (uint64_t) (roi - first), factor, error);
        else
            for (; first < roi && !fault; first++)
                fault = ticks_add (self, event, first, factor, error);
    }
    self->wire_start[p->n_wire] = self->n_run;
    clamped_count (self, spec, (uint32_t) p->plane);
    return fault;
}

wm_fault_t wm_runs_stack (wm_runs_t *self, const wm_runs_t *part, uint32_t first, wm_error_t *error)
{
    if (!first)
        self->n_wire = 0, self->n_run = self->n_value = self->n_bad = self->n_clamped = 0;
    const uint32_t n_wire = first + part->n_wire;
    wm_fault_t fault;
    if ((fault = wm_event_reserve (&self->run, &self->run_max, self->n_run + part->n_run,
                                   sizeof *self->run, error)) ||
        (fault = wm_event_reserve (&self->value, &self->value_max, self->n_value + part->n_value, 4,
                                   error)) ||
        (fault = wm_event_reserve (&self->bad, &self->bad_max, self->n_bad + part->n_bad,
                                   sizeof *self->bad, error)) ||
        (fault =
             wm_event_reserve (&self->wire_start, &self->wire_start_max, n_wire + 1ull, 8, error)))
        return fault;
    for (uint32_t w = self->n_wire; w < first; w++)
        self->wire_start[w] = self->n_run;
    for (uint32_t w = 0; w <= part->n_wire; w++)
        self->wire_start[first + w] = self->n_run + part->wire_start[w];
    for (uint64_t i = 0; i < part->n_run; i++) {
        const wm_run_t *run = &part->run[i];
        self->run[self->n_run++] =
            (wm_run_t){ first + run->wire, run->first, run->length, self->n_value + run->value };
    }
    if (part->n_value)
        memcpy (self->value + self->n_value, part->value, part->n_value * sizeof *part->value);
    for (uint64_t i = 0; i < part->n_bad; i++)
        self->bad[self->n_bad++] = (wm_cell_t){ first + part->bad[i].wire, part->bad[i].col };
    self->n_value += part->n_value;
    self->n_clamped += part->n_clamped;
    self->n_wire = n_wire;
    self->n_col = part->n_col;
    return WM_OK;
}
