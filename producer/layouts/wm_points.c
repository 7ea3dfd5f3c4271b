/* wm_points.c - see wm_points.h.  */
#include "producer/layouts/wm_points.h"
#include "schema/base/wm_bisect.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* A plane of an event, and its windows: n_row of them along the wires, n_col along the drift.  */
typedef struct {
    int32_t cryostat, tpc, plane;
    uint32_t n_wire, n_row, n_col;
} plane_t;

typedef struct {
    int64_t run, subrun, event;
    uint64_t first_plane, first_row;
    uint32_t n_bin;
} event_t;

typedef struct {
    wm_reader_t reader;
    plane_t *plane;
    event_t *event; /* (n_event + 1) */
    uint64_t n_plane;
    size_t plane_max;
} points_t;

uint32_t wm_points_count (uint32_t size, uint32_t patch, uint32_t step)
{
    return size <= patch ? 1 : 1 + (size - patch + step - 1) / step;
}

uint32_t wm_points_at (uint32_t i, uint32_t size, uint32_t patch, uint32_t step)
{
    const uint64_t at = (uint64_t) i * step, last = size <= patch ? 0 : size - patch;
    return (uint32_t) (at < last ? at : last);
}

static void points_clear (wm_reader_t *reader)
{
    points_t *self = (points_t *) reader;
    free (self->plane);
    free (self->event);
}

static uint32_t step_wire (const wm_spec_t *spec)
{
    return spec->step_wire ? spec->step_wire : spec->patch_wire;
}

static uint32_t step_bin (const wm_spec_t *spec)
{
    return spec->step_bin ? spec->step_bin : spec->patch_bin;
}

/* First wire and first drift bin of window `i` of a plane.  */
static void place_of (const points_t *self, const event_t *event, const plane_t *plane, uint64_t i,
                      uint32_t *wire, uint32_t *bin)
{
    const wm_spec_t *spec = self->reader.spec;
    *wire = wm_points_at ((uint32_t) (i / plane->n_col), plane->n_wire, spec->patch_wire,
                          step_wire (spec));
    *bin = wm_points_at ((uint32_t) (i % plane->n_col), event->n_bin, spec->patch_bin,
                         step_bin (spec));
}

/* Channels of a window, which are planes of the event one after another.  */
static uint32_t n_channel (const points_t *self)
{
    return self->reader.spec->n_channel > 1 ? self->reader.spec->n_channel : 1;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A window is the patch of a hit in its middle. Tick numbers below 2^24 are exact in float32.  */
static wm_hit_t hit_of (const points_t *self, const event_t *event, const plane_t *plane,
                        uint64_t i, uint32_t row)
{
    const wm_spec_t *spec = self->reader.spec;
    uint32_t wire, bin;
    place_of (self, event, plane, i, &wire, &bin);
    return (wm_hit_t){ plane->cryostat,
                       plane->tpc,
                       plane->plane,
                       (int32_t) (wire + spec->patch_wire / 2),
                       (float) ((bin + spec->patch_bin / 2) * spec->drift_window),
                       row };
}

/* All channels of a window are cut at one place.  */
static void cells_fill (const points_t *self, wm_event_t *event)
{
    const uint32_t n = n_channel (self);
    for (uint64_t i = 0; i < (uint64_t) event->n_hit * n && n > 1; i++)
        event->cell[i] = (wm_event_cell_t){ event->hit[i / n].wire, event->hit[i / n].time };
}

static wm_fault_t points_event (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                wm_error_t *error)
{
    points_t *self = (points_t *) reader;
    const event_t *own = &self->event[ordinal];
    const uint64_t n = own[1].first_row - own->first_row;
    wm_fault_t fault = wm_reader_event (self->reader.inner, ordinal, event, error);
    const uint32_t n_cell = n_channel (self);
    if (!fault && event->n_plane != (own[1].first_plane - own->first_plane) * n_cell)
        fault = wm_fault (error, WM_EBATCH, "event %lld:%lld:%lld changed while it was read",
                          (long long) own->run, (long long) own->subrun, (long long) own->event);
    if (!fault)
        fault = wm_event_reserve (&event->hit, &event->hit_max, n + 1, sizeof *event->hit, error);
    if (fault)
        return fault;
    if (n_cell > 1 && (fault = wm_event_reserve (&event->cell, &event->cell_max, n * n_cell + 1,
                                                 sizeof *event->cell, error)))
        return fault;
    event->n_hit = 0;
    for (uint64_t p = own->first_plane; p < own[1].first_plane; p++) {
        const plane_t *plane = &self->plane[p];
        for (uint64_t i = 0; i < (uint64_t) plane->n_row * plane->n_col; i++, event->n_hit++)
            event->hit[event->n_hit] =
                hit_of (self, own, plane, i, (uint32_t) own->first_row + event->n_hit);
    }
    for (uint32_t p = 0; p < event->n_plane; p++) /* so that the middle of a window lies in it */
        if (event->plane[p].n_wire < reader->spec->patch_wire)
            event->plane[p].n_wire = reader->spec->patch_wire;
    cells_fill (self, event);
    return WM_OK;
}

/* The event of a row: the last that begins at it or before.  */
static const event_t *event_of (const points_t *self, uint64_t row)
{
    const event_t *event = self->event;
    return &event[WM_BISECT (1, self->reader.n_event, i, event[i].first_row <= row) - 1];
}

static wm_fault_t points_planes (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                 wm_error_t *error)
{
    return wm_reader_planes (reader->inner, ordinal, event, error);
}

static wm_fault_t points_rows (wm_reader_t *reader, uint64_t first, uint32_t count,
                               const wm_reader_rows_t *rows, wm_error_t *error)
{
    const points_t *self = (points_t *) reader;
    (void) error;
    for (uint32_t done = 0; done < count;) {
        const event_t *event = event_of (self, first + done);
        uint64_t at = first + done - event->first_row, p = event->first_plane;
        for (const plane_t *plane = &self->plane[p]; at >= (uint64_t) plane->n_row * plane->n_col;
             plane = &self->plane[++p])
            at -= (uint64_t) plane->n_row * plane->n_col;
        const plane_t *plane = &self->plane[p];
        const uint64_t n = (uint64_t) plane->n_row * plane->n_col;
        for (; at < n && done < count; at++, done++) {
            uint32_t wire, bin;
            place_of (self, event, plane, at, &wire, &bin);
            rows->run[done] = event->run;
            rows->subrun[done] = event->subrun;
            rows->event[done] = event->event;
            rows->hit_id[done] = (int64_t) (first + done - event->first_row);
            rows->cryostat[done] = plane->cryostat;
            rows->tpc[done] = plane->tpc;
            rows->plane[done] = plane->plane;
            if (rows->wire)
                rows->wire[done] = (int32_t) wire;
            if (rows->time)
                rows->time[done] = (int64_t) bin * self->reader.spec->drift_window;
        }
    }
    return WM_OK;
}

static const wm_layout_t layout = { .name = "windows",
                                    .event = points_event,
                                    .rows = points_rows,
                                    .clear = points_clear,
                                    .planes = points_planes };

/* ---- opening --------------------------------------------------------------------------------- */

/* Notes the planes of an event, and counts their windows.  */
static wm_fault_t event_add (points_t *self, uint32_t ordinal, const wm_event_t *event,
                             wm_error_t *error)
{
    const wm_spec_t *spec = self->reader.spec;
    event_t *own = &self->event[ordinal];
    uint64_t n_row = own->first_row;
    wm_fault_t fault =
        wm_event_reserve (&self->plane, &self->plane_max, self->n_plane + event->n_plane + 1,
                          sizeof *self->plane, error);
    if (fault)
        return fault;
    own->run = event->run, own->subrun = event->subrun, own->event = event->event;
    own->n_bin = event->n_tick / spec->drift_window;
    for (uint32_t p = 0; p < event->n_plane; p += n_channel (self)) {
        const wm_event_plane_t *from = &event->plane[p];
        plane_t *to = &self->plane[self->n_plane++];
        *to = (plane_t){ from->cryostat,
                         from->tpc,
                         from->plane,
                         from->n_wire,
                         wm_points_count (from->n_wire, spec->patch_wire, step_wire (spec)),
                         wm_points_count (own->n_bin, spec->patch_bin, step_bin (spec)) };
        n_row += (uint64_t) to->n_row * to->n_col;
        if (n_row >= UINT32_MAX)
            return wm_fault (
                error, WM_EBATCH,
                "event %lld:%lld:%lld: with it the file has more than %u windows of %u "
                "wires x %u bins; raise step_wire or step_bin, or give smaller files",
                (long long) own->run, (long long) own->subrun, (long long) own->event, UINT32_MAX,
                spec->patch_wire, spec->patch_bin);
    }
    own[1].first_plane = self->n_plane;
    own[1].first_row = n_row;
    return WM_OK;
}

static wm_fault_t events_count (points_t *self, wm_error_t *error)
{
    wm_event_t event = { 0 };
    wm_fault_t fault = WM_OK;
    for (uint32_t e = 0; e < self->reader.n_event && !fault; e++) {
        wm_event_reset (&event);
        fault = self->reader.inner->layout->planes (self->reader.inner, e, &event, error);
        if (!fault)
            fault = event_add (self, e, &event, error);
    }
    wm_event_clear (&event);
    return fault;
}

wm_reader_t *wm_points_open (wm_reader_t **reader, const wm_spec_t *spec, wm_error_t *error)
{
    assert ((*reader)->layout->planes);
    points_t *self = wm_layout_new (sizeof *self, &layout, spec, NULL, reader, error);
    if (!self)
        return NULL;
    wm_reader_t *own = &self->reader;
    own->n_event = own->inner->n_event;
    self->event = calloc (own->n_event + 1ul, sizeof *self->event);
    if (!self->event)
        wm_fault (error, WM_EHOST, "out of memory");
    if (!self->event || events_count (self, error))
        wm_reader_destroy (&own);
    else
        own->n_row = self->event[own->n_event].first_row;
    return own;
}
