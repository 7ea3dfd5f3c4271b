/* wm_opensamples.c - OpenSamples HDF5: dense waveforms of wires, and hits.

   event_table/event_id (n, 3); wire_table/{event_id, local_plane, local_wire, tpc, adc (n,
   n_tick)}; hit_table/{event_id, hit_id, local_plane, local_wire, local_time, tpc}. There is no
   cryostat. A plane exists where an event has wires of it, and is as large as its largest
   local_wire + 1 unless the specification has n_wire. An event has each wire once. Where a table
   has event_id.seq_cnt (index in event_table, rows), its rows are found by it; each is checked when
   its event is read. wm_waves.h reads the waveforms; what is kept are the stretches that are not 0.
   */
#include "producer/files/wm_waves.h"
#include "producer/layouts/wm_layout.h"
#include "producer/layouts/wm_wires.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    wm_reader_t reader;
    wm_rows_t wires;
    wm_column_t event_id, wire_event_id, plane, wire, tpc, adc;
    int32_t *cell; /* plane, wire and tpc of an event's wires, then their plane's index */
    size_t cell_max;
    wm_wire_t *row; /* of an event's wires */
    size_t row_max;
    wm_waves_t *waves;
    char note[400]; /* why an index of the file is not used */
} opensamples_t;

static void opensamples_clear (wm_reader_t *reader)
{
    opensamples_t *self = (opensamples_t *) reader;
    wm_waves_destroy (&self->waves);
    wm_column_t *list[] = { &self->event_id, &self->wire_event_id, &self->plane,
                            &self->wire,     &self->tpc,           &self->adc };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        wm_h5_column_close (list[i]);
    wm_rows_clear (&self->wires);
    free (self->cell);
    free (self->row);
}

/* The planes that an event's wires tell of.  */
static wm_fault_t planes_find (opensamples_t *self, wm_event_t *event, uint64_t n_wire,
                               const char *where, wm_error_t *error)
{
    const int32_t *plane = self->cell, *wire = plane + n_wire, *tpc = wire + n_wire;
    wm_fault_t fault = WM_OK;
    for (uint64_t i = 0; i < n_wire && !fault; i++) {
        if (wire[i] < 0 || wire[i] >= (int32_t) WM_EVENT_WIRES_MAX)
            return wm_fault (error, WM_EBATCH, "%s: wire_table has local_wire %d", where, wire[i]);
        uint32_t p = 0;
        while (p < event->n_plane &&
               (event->plane[p].plane != plane[i] || event->plane[p].tpc != tpc[i]))
            p++;
        if (p == event->n_plane) {
            fault = wm_event_reserve (&event->plane, &event->plane_max, p + 1ull,
                                      sizeof *event->plane, error);
            if (fault)
                return fault;
            event->plane[event->n_plane++] =
                (wm_event_plane_t){ 0, tpc[i], plane[i], 0, 0, 0, 0, 0 };
        }
        if (event->plane[p].n_wire <= (uint32_t) wire[i])
            event->plane[p].n_wire = (uint32_t) wire[i] + 1;
    }
    for (uint32_t p = 0; p < event->n_plane && self->reader.spec->n_wire; p++)
        event->plane[p].n_wire = self->reader.spec->n_wire;
    return wm_event_sort_planes (event, where, error);
}

/* Refuses an event that has a wire twice.  */
static wm_fault_t wires_check (opensamples_t *self, const wm_h5_range_t *span, uint64_t n_span,
                               uint64_t n_wire, const char *where, wm_error_t *error)
{
    const int32_t *plane = self->cell, *wire = plane + n_wire, *tpc = wire + n_wire;
    wm_fault_t fault =
        wm_event_reserve (&self->row, &self->row_max, n_wire + 1, sizeof *self->row, error);
    uint64_t at = 0;
    for (uint64_t s = 0; s < n_span && !fault; s++)
        for (uint32_t k = 0; k < span[s].count; k++, at++)
            self->row[at] = (wm_wire_t){ 0, 0, tpc[at], plane[at], wire[at], span[s].first + k };
    return fault ? fault
                 : wm_wires_check (self->row, n_wire, where, "wire_table: rows",
                                   "it is unclear which waveform is the wire's; write one row for "
                                   "each wire of an event",
                                   error);
}

static wm_fault_t waves_read (opensamples_t *self, wm_event_t *event, const wm_h5_range_t *span,
                              uint64_t n_span, uint64_t n_wire, wm_error_t *error)
{
    const int32_t *plane = self->cell, *wire = plane + n_wire, *tpc = wire + n_wire;
    wm_fault_t fault = WM_OK;
    uint64_t at = 0;
    for (uint64_t s = 0; s < n_span && !fault; s++) {
        const uint64_t end = span[s].first + (uint64_t) span[s].count;
        for (uint64_t row = span[s].first; row < end && !fault; row++, at++) {
            const float *adc;
            fault = wm_waves_row (self->waves, row, end, &adc, error);
            if (!fault)
                fault = wm_waves_keep (
                    event, adc, event->n_tick, 0,
                    &(wm_waves_place_t){ wm_event_plane (event, 0, tpc[at], plane[at]),
                                         (uint32_t) wire[at] },
                    1, error);
        }
    }
    return fault;
}

/* The rows of an event's wires, and the planes that they tell of.  */
static wm_fault_t opensamples_planes (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                      wm_error_t *error)
{
    opensamples_t *self = (opensamples_t *) reader;
    wm_layout_begin (reader, ordinal, event);
    event->n_tick = self->adc.width;
    event->tick_us = event->trigger_offset = event->tau_us = NAN;
    char where[480];
    wm_layout_where (where, sizeof where, self->reader.file, event);
    uint64_t n_span, n_wire;
    const wm_h5_range_t *span = wm_rows_of (&self->wires, ordinal, &n_span, &n_wire);
    wm_fault_t fault;
    if ((fault = wm_rows_check (&self->wires, &self->reader.index, &self->wire_event_id, ordinal,
                                error)) ||
        (fault = wm_event_reserve (&self->cell, &self->cell_max, 3 * n_wire + 1, 4, error)) ||
        (fault = wm_h5_read_spans (&self->plane, span, n_span, WM_H5_I32, self->cell, error)) ||
        (fault =
             wm_h5_read_spans (&self->wire, span, n_span, WM_H5_I32, self->cell + n_wire, error)) ||
        (fault = wm_h5_read_spans (&self->tpc, span, n_span, WM_H5_I32, self->cell + 2 * n_wire,
                                   error)))
        return fault;
    return planes_find (self, event, n_wire, where, error);
}

static wm_fault_t opensamples_event (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                     wm_error_t *error)
{
    opensamples_t *self = (opensamples_t *) reader;
    const bool has_hits = self->reader.hits.event_id->data;
    if (wm_layout_begin (reader, ordinal, event))
        return wm_hits_read (&reader->hits, ordinal, event, error);
    uint64_t n_span, n_wire;
    const wm_h5_range_t *span = wm_rows_of (&self->wires, ordinal, &n_span, &n_wire);
    char where[480];
    wm_fault_t fault = opensamples_planes (reader, ordinal, event, error);
    wm_layout_where (where, sizeof where, self->reader.file, event);
    if (fault ||
        (has_hits && (fault = wm_rows_check (&self->reader.hits.rows, &self->reader.index,
                                             self->reader.hits.event_id, ordinal, error))) ||
        (fault = wires_check (self, span, n_span, n_wire, where, error)) ||
        (fault = waves_read (self, event, span, n_span, n_wire, error)) ||
        (fault = wm_event_arrange (event, where, error)))
        return fault;
    return has_hits ? wm_hits_read (&self->reader.hits, ordinal, event, error) : WM_OK;
}

static const char *opensamples_note (wm_reader_t *reader)
{
    return ((opensamples_t *) reader)->note;
}

static const wm_layout_t layout = { .name = "OpenSamples",
                                    .event = opensamples_event,
                                    .clear = opensamples_clear,
                                    .unmatched = opensamples_note,
                                    .planes = opensamples_planes,
                                    .has_hits = true };

static wm_fault_t columns_open (opensamples_t *self, wm_error_t *error)
{
    const wm_wanted_t event = { "event_table/event_id", WM_H5_INTEGER, 3, &self->event_id, false };
    const wm_wanted_t wires[] = {
        { "wire_table/event_id", WM_H5_INTEGER, 3, &self->wire_event_id, false },
        { "wire_table/local_plane", WM_H5_INTEGER, 1, &self->plane, false },
        { "wire_table/local_wire", WM_H5_INTEGER, 1, &self->wire, false },
        { "wire_table/tpc", WM_H5_INTEGER, 1, &self->tpc, false },
        { "wire_table/adc", WM_H5_FLOAT, 0, &self->adc, false },
    };
    wm_fault_t fault = wm_layout_columns (self->reader.file, &event, 1, error);
    if (!fault)
        fault = wm_layout_columns (self->reader.file, wires, 5, error);
    if (fault)
        return fault;
    if (self->adc.n_dim != 2)
        return wm_fault (error, WM_EBATCH, "%s: wire_table/adc is not of shape (wires, ticks)",
                         wm_h5_path (self->reader.file));
    if (self->adc.width > WM_EVENT_TICKS_MAX)
        return wm_fault (error, WM_EBATCH,
                         "%s: wire_table/adc has %u ticks, more than %u: longer readouts are read "
                         "in the exchange layout only (`wiremill help formats`)",
                         wm_h5_path (self->reader.file), self->adc.width, WM_EVENT_TICKS_MAX);
    self->waves = wm_waves_new (&self->adc, error);
    return self->waves ? WM_OK : WM_EHOST;
}

/* Takes a table's rows from its event_id.seq_cnt, if there is one that fits.  */
static wm_fault_t runs_take (opensamples_t *self, const char *table, const wm_column_t *event_id,
                             wm_rows_t *rows, wm_error_t *error)
{
    char name[96], wrong[160];
    wm_column_t runs;
    wm_error_t why;
    snprintf (name, sizeof name, "%s/event_id.seq_cnt", table);
    if (!wm_h5_has (self->reader.file, name))
        return WM_OK;
    wm_fault_t fault = wm_h5_column (self->reader.file, name, WM_H5_INTEGER, 2, &runs, &why);
    if (fault == WM_EBATCH)
        fault = WM_OK, snprintf (wrong, sizeof wrong, "it is not of integers (events, 2)");
    else if (fault)
        *error = why;
    else
        fault = wm_rows_runs (rows, &self->reader.index, event_id, &runs, wrong, error);
    wm_h5_column_close (&runs);
    if (!fault && *wrong) {
        const size_t at = strlen (self->note);
        snprintf (self->note + at, sizeof self->note - at, "%s%s is not used: %s", at ? "; " : "",
                  name, wrong);
    }
    return fault;
}

static wm_fault_t rows_find (opensamples_t *self, const wm_hits_names_t *names, wm_error_t *error)
{
    const bool has_hits = self->reader.spec->points != WM_POINTS_WINDOWS;
    wm_fault_t fault;
    if ((fault = wm_index_read (&self->reader.index, &self->event_id, false, error)) ||
        (has_hits &&
         (fault = wm_hits_columns (&self->reader.hits, self->reader.file, names, error))) ||
        (fault = runs_take (self, "wire_table", &self->wire_event_id, &self->wires, error)) ||
        (has_hits && (fault = runs_take (self, "hit_table", self->reader.hits.event_id,
                                         &self->reader.hits.rows, error))))
        return fault;
    if (!self->wires.by_runs && (fault = wm_rows_scan (&self->wires, &self->reader.index,
                                                       &self->wire_event_id, NULL, false, error)))
        return fault;
    self->reader.n_present = self->reader.index.n_event;
    return has_hits ? wm_hits_scan (&self->reader.hits, &self->reader.index, error) : WM_OK;
}

wm_reader_t *wm_opensamples_open (wm_h5_t **file, const wm_spec_t *spec, wm_error_t *error)
{
    static const wm_hits_names_t names = { .tpc = "tpc",
                                           .plane = "local_plane",
                                           .wire = "local_wire",
                                           .time = "local_time",
                                           .id = "hit_id" };
    opensamples_t *self = wm_layout_new (sizeof *self, &layout, spec, file, NULL, error);
    if (!self)
        return NULL;
    const wm_fault_t fault = columns_open (self, error);
    return wm_layout_done (&self->reader, fault ? fault : rows_find (self, &names, error));
}
