/* wm_exchange.c - the wiremill exchange layout: sparse and complete.

   event_table {event_id (n, 3), n_tick, [tick_us], [trigger_offset], [tau_us], [lifetime (n, m)],
               [drift_cm_us]}
   plane_table {event_id, cryostat, tpc, plane, n_wire, [pitch_cm]}
   wire_table  {channel, cryostat, tpc, plane, wire}: the map, once per file; a wrapped channel has
               several rows, and its samples fill every one of its wires; a wire has one row, so
               that it is never filled by two channels (rows with a negative plane or wire are
               of channels that have none)
   roi_table   {event_id, channel, tick, n} with roi_value/adc: the samples, in roi_table's order
   bad_channel {event_id, channel} (may be missing): such wires stay at 0 ADC
   hit_table   {event_id, cryostat, tpc, plane, wire, time (ticks), key}
   A stream, an event of more than WM_EVENT_TICKS_MAX ticks, is read segment by segment
   (wm_segments.h): of its regions the ticks that the segment reads.
   Columns in brackets may be missing; the specification or a refusal takes their place.
   Samples of channels that have no wire in an event's planes are left aside. For windows the hit
   table is not read, and need not be there.  */
#include "producer/files/wm_waves.h"
#include "producer/layouts/wm_layout.h"
#include "producer/layouts/wm_wires.h"

#include <hdf5.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    wm_reader_t reader;
    wm_segments_t segments;
    wm_rows_t planes, rois, bad;
    wm_column_t event_id, n_tick, tick_us, trigger_offset, tau_us, lifetime, drift_cm_us;
    wm_column_t plane_event_id, plane_cryostat, plane_tpc, plane_plane, plane_n_wire,
        plane_pitch_cm;
    wm_column_t roi_event_id, roi_channel, roi_tick, roi_n, roi_value;
    wm_column_t bad_event_id, bad_channel;
    wm_waves_t *samples; /* of roi_value */
    wm_wire_t *wire;     /* (n_wire), by channel */
    uint32_t n_wire;
    int32_t *cell; /* columns of the rows being read */
    size_t cell_max;
    uint64_t *bad_wire; /* (plane index << 32 | wire) of an event's bad channels, in order */
    size_t bad_wire_max;
    uint32_t n_bad_wire;
} exchange_t;

static void exchange_clear (wm_reader_t *reader)
{
    exchange_t *self = (exchange_t *) reader;
    wm_waves_destroy (&self->samples);
    /* the columns lie side by side */
    for (wm_column_t *c = &self->event_id; c <= &self->bad_channel; c++)
        wm_h5_column_close (c);
    wm_rows_clear (&self->planes);
    wm_rows_clear (&self->rois);
    wm_rows_clear (&self->bad);
    wm_segments_clear (&self->segments);
    free (self->wire);
    free (self->cell);
    free (self->bad_wire);
}

/* ---- one event ------------------------------------------------------------------------------- */

/* Reads `count` columns of a table's spans into self->cell, one after another.  */
static wm_fault_t cells_read (exchange_t *self, const wm_column_t *const *column, uint32_t count,
                              const wm_rows_t *rows, uint32_t ordinal, uint64_t *n_row,
                              wm_error_t *error)
{
    uint64_t n_span;
    const wm_h5_range_t *span = wm_rows_of (rows, ordinal, &n_span, n_row);
    wm_fault_t fault =
        wm_event_reserve (&self->cell, &self->cell_max, *n_row * count + 1, 4, error);
    for (uint32_t i = 0; i < count && !fault; i++)
        fault =
            wm_h5_read_spans (column[i], span, n_span, WM_H5_I32, self->cell + i * *n_row, error);
    return fault;
}

static wm_fault_t fact_read (const wm_column_t *column, uint32_t ordinal, double *fact,
                             wm_error_t *error)
{
    *fact = NAN;
    return column->data ? wm_h5_read (column, ordinal, 1, WM_H5_F64, fact, error) : WM_OK;
}

static wm_fault_t facts_read (exchange_t *self, uint32_t ordinal, wm_event_t *event,
                              const char *where, wm_error_t *error)
{
    int64_t n_tick = 0;
    wm_fault_t fault;
    if ((fault = wm_h5_read (&self->n_tick, ordinal, 1, WM_H5_I64, &n_tick, error)) ||
        (fault = fact_read (&self->tick_us, ordinal, &event->tick_us, error)) ||
        (fault = fact_read (&self->trigger_offset, ordinal, &event->trigger_offset, error)) ||
        (fault = fact_read (&self->tau_us, ordinal, &event->tau_us, error)) ||
        (fault = fact_read (&self->drift_cm_us, ordinal, &event->drift_cm_us, error)))
        return fault;
    if (event->stream_ticks) /* wm_segments_window has told its ticks */
        return WM_OK;
    if (n_tick < 1 || n_tick > WM_EVENT_TICKS_MAX)
        return wm_fault (error, WM_EBATCH, "%.300s: n_tick is %lld, not 1 to %llu", where,
                         (long long) n_tick, WM_STREAM_TICKS_MAX);
    event->n_tick = (uint32_t) n_tick;
    const wm_column_t *table = &self->lifetime;
    if (!table->data || self->reader.spec->lifetime != WM_LIFETIME_TABLE || table->width < n_tick)
        return WM_OK;
    fault = wm_event_reserve (&event->lifetime, &event->lifetime_max, table->width, 4, error);
    if (!fault)
        fault = wm_h5_read (table, ordinal, 1, WM_H5_F32, event->lifetime, error);
    event->n_lifetime = event->n_tick;
    return fault;
}

/* Reads the distances of wires of the planes just read, in the order of the file.  */
static wm_fault_t pitches_read (exchange_t *self, uint32_t ordinal, wm_event_t *event,
                                wm_error_t *error)
{
    uint64_t n_span, n;
    const wm_h5_range_t *span = wm_rows_of (&self->planes, ordinal, &n_span, &n);
    float *pitch = malloc ((n + 1) * sizeof *pitch);
    wm_fault_t fault =
        pitch ? wm_h5_read_spans (&self->plane_pitch_cm, span, n_span, WM_H5_F32, pitch, error)
              : wm_fault (error, WM_EHOST, "out of memory");
    for (uint64_t i = 0; i < n && !fault; i++)
        event->plane[event->n_plane - n + i].pitch_cm = isfinite (pitch[i]) ? pitch[i] : 0;
    free (pitch);
    return fault;
}

static wm_fault_t planes_read (exchange_t *self, uint32_t ordinal, wm_event_t *event,
                               const char *where, wm_error_t *error)
{
    const wm_column_t *list[] = { &self->plane_cryostat, &self->plane_tpc, &self->plane_plane,
                                  &self->plane_n_wire };
    uint64_t n;
    wm_fault_t fault;
    if ((fault = cells_read (self, list, 4, &self->planes, ordinal, &n, error)) ||
        (fault =
             wm_event_reserve (&event->plane, &event->plane_max, n, sizeof *event->plane, error)))
        return fault;
    const int32_t *cell = self->cell;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t n_wire = (uint32_t) cell[3 * n + i];
        if (self->reader.spec->n_wire)
            n_wire = self->reader.spec->n_wire;
        else if (cell[3 * n + i] < 1)
            return wm_fault (error, WM_EBATCH,
                             "%.300s: plane_table/n_wire is %d for cryostat %d, TPC %d, plane %d",
                             where, cell[3 * n + i], cell[i], cell[n + i], cell[2 * n + i]);
        event->plane[event->n_plane++] =
            (wm_event_plane_t){ cell[i], cell[n + i], cell[2 * n + i], n_wire, 0, 0, 0, 0 };
    }
    if (self->plane_pitch_cm.data && (fault = pitches_read (self, ordinal, event, error)))
        return fault;
    return wm_event_sort_planes (event, where, error);
}

static int u64_compare (const void *a_v, const void *b_v)
{
    uint64_t a, b;
    memcpy (&a, a_v, sizeof a);
    memcpy (&b, b_v, sizeof b);
    return a < b ? -1 : a > b;
}

static bool is_bad (const exchange_t *self, uint32_t plane, uint32_t wire)
{
    uint64_t key = (uint64_t) plane << 32 | wire;
    return self->n_bad_wire &&
           bsearch (&key, self->bad_wire, self->n_bad_wire, sizeof key, u64_compare);
}

static wm_fault_t bad_read (exchange_t *self, uint32_t ordinal, const wm_event_t *event,
                            wm_error_t *error)
{
    self->n_bad_wire = 0;
    if (!self->bad_event_id.data)
        return WM_OK;
    const wm_column_t *list[] = { &self->bad_channel };
    uint64_t n;
    wm_fault_t fault = cells_read (self, list, 1, &self->bad, ordinal, &n, error);
    for (uint64_t i = 0; i < n && !fault; i++) {
        uint32_t n_wire;
        const wm_wire_t *wire = wm_wires_of (self->wire, self->n_wire, self->cell[i], &n_wire);
        fault = wm_event_reserve (&self->bad_wire, &self->bad_wire_max,
                                  (uint64_t) self->n_bad_wire + n_wire, 8, error);
        for (uint32_t k = 0; k < n_wire && !fault; k++) {
            uint32_t plane = wm_event_plane (event, wire[k].cryostat, wire[k].tpc, wire[k].plane);
            if (plane != UINT32_MAX)
                self->bad_wire[self->n_bad_wire++] =
                    (uint64_t) plane << 32 | (uint32_t) wire[k].wire;
        }
    }
    if (self->n_bad_wire)
        qsort (self->bad_wire, self->n_bad_wire, 8, u64_compare);
    return fault;
}

/* The samples of an event lie span by span: adjacent ones are read together.  */
static wm_fault_t samples_read (exchange_t *self, uint32_t ordinal, const int32_t *length,
                                wm_event_t *event, wm_error_t *error)
{
    uint64_t n_span, n_row, total = 0;
    const wm_h5_range_t *span = wm_rows_of (&self->rois, ordinal, &n_span, &n_row);
    const uint64_t *value = self->rois.value + self->rois.start[ordinal];
    for (uint64_t i = 0; i < n_row; i++)
        total += (uint64_t) length[i]; /* the scan has refused negative ones */
    wm_fault_t fault = wm_event_reserve (&event->sample, &event->sample_max, total, 4, error);
    uint64_t from = 0, count = 0;
    for (uint64_t s = 0; s < n_span && !fault; s++) {
        uint64_t n = 0;
        for (uint32_t k = 0; k < span[s].count; k++)
            n += (uint64_t) *length++;
        if (value[s] != from + count) {
            fault =
                wm_waves_read (self->samples, from, count, event->sample + event->n_sample, error);
            event->n_sample += count;
            from = value[s];
            count = 0;
        }
        count += n;
    }
    if (!fault)
        fault = wm_waves_read (self->samples, from, count, event->sample + event->n_sample, error);
    event->n_sample += count;
    return fault;
}

/* Reads `count` samples from `from` on behind those that the event has.  */
static wm_fault_t samples_take (exchange_t *self, uint64_t from, uint64_t count, wm_event_t *event,
                                wm_error_t *error)
{
    wm_fault_t fault =
        wm_event_reserve (&event->sample, &event->sample_max, event->n_sample + count, 4, error);
    if (!fault)
        fault = wm_waves_read (self->samples, from, count, event->sample + event->n_sample, error);
    event->n_sample += count;
    return fault;
}

/* Adds a region to a wire of its channel, unless that is in no plane of the event, or bad.  */
static wm_fault_t roi_place (exchange_t *self, const wm_wire_t *wire, wm_roi_t roi,
                             wm_event_t *event, wm_error_t *error)
{
    roi.plane = wm_event_plane (event, wire->cryostat, wire->tpc, wire->plane);
    roi.wire = (uint32_t) wire->wire;
    return roi.plane != UINT32_MAX && !is_bad (self, roi.plane, roi.wire)
               ? wm_event_add_roi (event, &roi, error)
               : WM_OK;
}

static wm_fault_t rois_read (exchange_t *self, uint32_t ordinal, wm_event_t *event,
                             const char *where, wm_error_t *error)
{
    const wm_column_t *list[] = { &self->roi_channel, &self->roi_tick, &self->roi_n };
    uint64_t n, sample = 0;
    wm_fault_t fault = cells_read (self, list, 3, &self->rois, ordinal, &n, error);
    if (fault)
        return fault;
    const int32_t *channel = self->cell, *tick = channel + n, *length = tick + n;
    if ((fault = samples_read (self, ordinal, length, event, error)))
        return fault;
    const wm_wire_t *wire = NULL;
    uint32_t n_wire = 0;
    for (uint64_t i = 0; i < n && !fault; sample += (uint64_t) length[i++]) {
        if (tick[i] < 0)
            return wm_fault (error, WM_EBATCH, "%s: roi_table has tick %d", where, tick[i]);
        if (!i || channel[i] != channel[i - 1])
            wire = wm_wires_of (self->wire, self->n_wire, channel[i], &n_wire);
        const wm_roi_t roi = { 0, 0, (uint32_t) tick[i], (uint32_t) length[i], sample };
        for (uint32_t k = 0; k < n_wire && length[i] && !fault; k++)
            fault = roi_place (self, &wire[k], roi, event, error);
    }
    return fault ? fault : wm_event_arrange (event, where, error);
}

/* Reads the samples of a segment's regions that lie in its ticks, and adds these parts as regions.
   Samples that follow each other in the file are read together.  */
static wm_fault_t parts_read (exchange_t *self, uint32_t ordinal, uint64_t n_row,
                              const int64_t *tick, wm_event_t *event, wm_error_t *error)
{
    uint64_t n_span, from = 0, count = 0, i = 0;
    const wm_h5_range_t *span = wm_rows_of (&self->rois, ordinal, &n_span, &n_row);
    const int32_t *channel = self->cell, *length = channel + n_row;
    const uint64_t end = event->first_tick + event->n_tick;
    wm_fault_t fault = WM_OK;
    for (uint64_t s = 0; s < n_span && !fault; s++) {
        uint64_t value = self->rois.value[self->rois.start[ordinal] + s];
        for (uint32_t k = 0; k < span[s].count && !fault; k++, value += (uint64_t) length[i++]) {
            uint64_t a = (uint64_t) tick[i], b = a + (uint64_t) length[i]; /* as the scan checked */
            const uint64_t before = a < event->first_tick ? event->first_tick - a : 0;
            a += before, b = b < end ? b : end;
            if (a >= b)
                continue; /* a row between two that are read */
            if (value + before != from + count) {
                fault = samples_take (self, from, count, event, error);
                from = value + before, count = 0;
            }
            uint32_t n_wire;
            const wm_wire_t *wire = wm_wires_of (self->wire, self->n_wire, channel[i], &n_wire);
            const wm_roi_t roi = { 0, 0, (uint32_t) (a - event->first_tick), (uint32_t) (b - a),
                                   event->n_sample + count };
            for (uint32_t w = 0; w < n_wire && !fault; w++)
                fault = roi_place (self, &wire[w], roi, event, error);
            count += b - a;
        }
    }
    return fault ? fault : samples_take (self, from, count, event, error);
}

static wm_fault_t segment_read (exchange_t *self, uint32_t ordinal, wm_event_t *event,
                                const char *where, wm_error_t *error)
{
    const wm_column_t *list[] = { &self->roi_channel, &self->roi_n };
    uint64_t n, n_span;
    const wm_h5_range_t *span = wm_rows_of (&self->rois, ordinal, &n_span, &n);
    int64_t *tick = malloc ((n + 1) * sizeof *tick);
    wm_fault_t fault = tick ? WM_OK : wm_fault (error, WM_EHOST, "out of memory");
    if (!fault)
        fault = cells_read (self, list, 2, &self->rois, ordinal, &n, error);
    if (!fault)
        fault = wm_h5_read_spans (&self->roi_tick, span, n_span, WM_H5_I64, tick, error);
    if (!fault)
        fault = parts_read (self, ordinal, n, tick, event, error);
    free (tick);
    return fault ? fault : wm_event_arrange (event, where, error);
}

static wm_fault_t exchange_planes (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                   wm_error_t *error)
{
    exchange_t *self = (exchange_t *) reader;
    const uint32_t e = wm_segments_event (&self->segments, ordinal, &event->segment);
    wm_layout_begin (reader, e, event);
    if (self->segments.n_tick && self->segments.n_tick[e]) {
        uint64_t end;
        wm_segments_window (&self->segments, e, event->segment, &event->first_tick, &end);
        event->n_tick = (uint32_t) (end - event->first_tick);
        event->stream_ticks = self->segments.n_tick[e];
    }
    char where[480];
    wm_layout_where (where, sizeof where, self->reader.file, event);
    wm_fault_t fault = facts_read (self, e, event, where, error);
    return fault ? fault : planes_read (self, e, event, where, error);
}

static wm_fault_t exchange_event (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                  wm_error_t *error)
{
    exchange_t *self = (exchange_t *) reader;
    char where[480];
    const uint32_t e = wm_segments_event (&self->segments, ordinal, &event->segment);
    if (wm_layout_begin (reader, e, event))
        return wm_hits_read (&reader->hits, ordinal, event, error);
    wm_fault_t fault = exchange_planes (reader, ordinal, event, error);
    wm_layout_where (where, sizeof where, self->reader.file, event);
    if (fault || (fault = bad_read (self, e, event, error)) ||
        (fault = event->stream_ticks ? segment_read (self, ordinal, event, where, error)
                                     : rois_read (self, ordinal, event, where, error)) ||
        (self->reader.hits.event_id->data &&
         (fault = wm_hits_read (&self->reader.hits, ordinal, event, error))))
        return fault;
    free (self->cell); /* many files are open */
    self->cell = NULL, self->cell_max = 0;
    for (uint32_t i = 0; i < event->n_hit && self->n_bad_wire; i++) {
        const wm_hit_t *h = &event->hit[i];
        uint32_t plane = wm_event_plane (event, h->cryostat, h->tpc, h->plane);
        event->n_bad_channel_hit +=
            plane != UINT32_MAX && h->wire >= 0 && is_bad (self, plane, (uint32_t) h->wire);
    }
    return WM_OK;
}

/* Names what float32 makes of the times of a stream.  */
static const char *exchange_unmatched (wm_reader_t *reader)
{
    const exchange_t *self = (const exchange_t *) reader;
    hid_t id;
    if (!wm_segments_any (&self->segments) || wm_h5_dataset (&self->reader.hits.time, &id, NULL))
        return "";
    hid_t type = H5Dget_type (id);
    const bool is_short = H5Tget_class (type) == H5T_FLOAT && H5Tget_size (type) < sizeof (double);
    H5Tclose (type);
    return is_short ? "hit_table/time is float32, which has no odd ticks beyond 16777216: "
                      "store it as float64"
                    : "";
}

static const wm_layout_t layout = { .name = "wiremill exchange",
                                    .event = exchange_event,
                                    .clear = exchange_clear,
                                    .unmatched = exchange_unmatched,
                                    .planes = exchange_planes,
                                    .has_hits = true };

/* ---- opening --------------------------------------------------------------------------------- */

static wm_fault_t map_read (exchange_t *self, wm_error_t *error)
{
    wm_column_t column[5] = { { 0 } };
    const wm_wanted_t wanted[] = { { "wire_table/channel", WM_H5_INTEGER, 1, &column[0], false },
                                   { "wire_table/cryostat", WM_H5_INTEGER, 1, &column[1], false },
                                   { "wire_table/tpc", WM_H5_INTEGER, 1, &column[2], false },
                                   { "wire_table/plane", WM_H5_INTEGER, 1, &column[3], false },
                                   { "wire_table/wire", WM_H5_INTEGER, 1, &column[4], false } };
    wm_fault_t fault = wm_layout_columns (self->reader.file, wanted, 5, error);
    uint64_t n = column[0].n_row;
    if (!fault && n > 1u << 26)
        fault = wm_fault (error, WM_EBATCH, "%s: wire_table has %llu rows",
                          wm_h5_path (self->reader.file), (unsigned long long) n);
    int32_t *cell = fault ? NULL : malloc (4ul * n + 1);
    self->wire = fault ? NULL : calloc (n + 1, sizeof *self->wire);
    if (!fault && (!cell || !self->wire))
        fault = wm_fault (error, WM_EHOST, "out of memory");
    for (uint32_t c = 0; c < 5 && !fault; c++) {
        fault = wm_h5_read (&column[c], 0, n, WM_H5_I32, cell, error);
        for (uint64_t i = 0; i < n && !fault; i++)
            memcpy ((char *) &self->wire[i] + 4 * c, &cell[i], 4);
    }
    for (uint32_t i = 0; i < n && !fault; i++)
        self->wire[i].row = i;
    if (!fault)
        fault = wm_wires_check (self->wire, n, wm_h5_path (self->reader.file), "wire_table: rows",
                                "it is unclear which samples are the wire's; write one row for "
                                "each wire (a channel may have several wires, a wire one channel)",
                                error);
    if (!fault && n) {
        self->n_wire = (uint32_t) n;
        wm_wires_by_channel (self->wire, n);
    }
    free (cell);
    for (int c = 0; c < 5; c++)
        wm_h5_column_close (&column[c]);
    return fault;
}

static wm_fault_t tables_open (exchange_t *self, wm_error_t *error)
{
    const wm_wanted_t event[] = {
        { "event_table/event_id", WM_H5_INTEGER, 3, &self->event_id, false },
        { "event_table/n_tick", WM_H5_INTEGER, 1, &self->n_tick, false },
        { "event_table/tick_us", WM_H5_FLOAT, 1, &self->tick_us, true },
        { "event_table/trigger_offset", WM_H5_FLOAT, 1, &self->trigger_offset, true },
        { "event_table/tau_us", WM_H5_FLOAT, 1, &self->tau_us, true },
        { "event_table/lifetime", WM_H5_FLOAT, 0, &self->lifetime, true },
        { "event_table/drift_cm_us", WM_H5_FLOAT, 1, &self->drift_cm_us, true },
    };
    const wm_wanted_t plane[] = {
        { "plane_table/event_id", WM_H5_INTEGER, 3, &self->plane_event_id, false },
        { "plane_table/cryostat", WM_H5_INTEGER, 1, &self->plane_cryostat, false },
        { "plane_table/tpc", WM_H5_INTEGER, 1, &self->plane_tpc, false },
        { "plane_table/plane", WM_H5_INTEGER, 1, &self->plane_plane, false },
        { "plane_table/n_wire", WM_H5_INTEGER, 1, &self->plane_n_wire, false },
        { "plane_table/pitch_cm", WM_H5_FLOAT, 1, &self->plane_pitch_cm, true },
    };
    const wm_wanted_t roi[] = {
        { "roi_table/event_id", WM_H5_INTEGER, 3, &self->roi_event_id, false },
        { "roi_table/channel", WM_H5_INTEGER, 1, &self->roi_channel, false },
        { "roi_table/tick", WM_H5_INTEGER, 1, &self->roi_tick, false },
        { "roi_table/n", WM_H5_INTEGER, 1, &self->roi_n, false },
    };
    const wm_wanted_t value[] = { { "roi_value/adc", WM_H5_FLOAT, 1, &self->roi_value, false } };
    const wm_wanted_t bad[] = {
        { "bad_channel/event_id", WM_H5_INTEGER, 3, &self->bad_event_id, false },
        { "bad_channel/channel", WM_H5_INTEGER, 1, &self->bad_channel, false },
    };
    wm_fault_t fault;
    if ((fault = wm_layout_columns (self->reader.file, event, 7, error)) ||
        (fault = wm_layout_columns (self->reader.file, plane, 6, error)) ||
        (fault = wm_layout_columns (self->reader.file, roi, 4, error)) ||
        (fault = wm_layout_columns (self->reader.file, value, 1, error)) ||
        (fault = map_read (self, error)))
        return fault;
    self->samples = wm_waves_new (&self->roi_value, error);
    if (!self->samples)
        return WM_EHOST;
    return wm_h5_has (self->reader.file, "bad_channel")
               ? wm_layout_columns (self->reader.file, bad, 2, error)
               : WM_OK;
}

static wm_fault_t tables_scan (exchange_t *self, wm_error_t *error)
{
    wm_index_t *index = &self->reader.index;
    wm_fault_t fault;
    const wm_segments_t *segments = &self->segments;
    if ((fault = wm_index_read (index, &self->event_id, false, error)) ||
        (fault = wm_segments_read (&self->segments, self->reader.spec, &self->n_tick, error)) ||
        (fault = wm_rows_scan (&self->planes, index, &self->plane_event_id, NULL, false, error)) ||
        (fault =
             wm_rows_scan_segments (&self->rois, index, segments, &self->roi_event_id,
                                    &self->roi_tick, &self->roi_n, self->roi_value.n_row, error)))
        return fault;
    if (self->rois.n_value != self->roi_value.n_row)
        return wm_fault (error, WM_EBATCH,
                         "%s: roi_value/adc has %llu samples, roi_table/n adds up to %llu",
                         wm_h5_path (self->reader.file), (unsigned long long) self->roi_value.n_row,
                         (unsigned long long) self->rois.n_value);
    self->reader.n_present = index->n_event;
    return self->bad_event_id.data
               ? wm_rows_scan (&self->bad, index, &self->bad_event_id, NULL, false, error)
               : WM_OK;
}

/* Windows would be made on each segment, and twice where segments overlap; space points are found
   by event, not by segment.  */
static wm_fault_t points_check (const exchange_t *self, wm_error_t *error)
{
    return self->reader.spec->points != WM_POINTS_HITS && wm_segments_any (&self->segments)
               ? wm_fault (error, WM_EBATCH,
                           "%.300s: an event has more than %u ticks: points: %s is not for "
                           "streams, whose hits are scored",
                           wm_h5_path (self->reader.file), WM_EVENT_TICKS_MAX,
                           self->reader.spec->points == WM_POINTS_WINDOWS ? "windows"
                                                                          : "spacepoints")
               : WM_OK;
}

wm_reader_t *wm_exchange_open (wm_h5_t **file, const wm_spec_t *spec, wm_error_t *error)
{
    static const wm_hits_names_t names = { .cryostat = "cryostat",
                                           .tpc = "tpc",
                                           .plane = "plane",
                                           .wire = "wire",
                                           .time = "time",
                                           .id = "key" };
    exchange_t *self = wm_layout_new (sizeof *self, &layout, spec, file, NULL, error);
    if (!self)
        return NULL;
    const bool windows = spec->points == WM_POINTS_WINDOWS;
    wm_reader_t *reader = &self->reader;
    wm_fault_t fault = tables_open (self, error);
    if (!fault && !windows)
        fault = wm_hits_columns (&reader->hits, reader->file, &names, error);
    if (!fault && !(fault = tables_scan (self, error)))
        fault = points_check (self, error);
    if (!fault && !windows)
        fault = wm_hits_scan_segments (&reader->hits, &reader->index, &self->segments, error);
    reader = wm_layout_done (reader, fault);
    if (reader)
        reader->n_event = wm_segments_count (&self->segments) + reader->n_missing;
    return reader;
}
