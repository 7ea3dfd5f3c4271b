/* wm_hits.c - columns of a layout's tables, and the hit table of the plane layouts.  */
#include "producer/layouts/wm_layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPANS_FEW 4ull /* an event; with more, hits are in no order */

wm_fault_t wm_layout_column (wm_h5_t *file, const char *name, wm_h5_class_t class, uint32_t width,
                             const wm_column_t *first, wm_column_t *column, wm_error_t *error)
{
    const wm_fault_t fault = wm_h5_column (file, name, class, width, column, error);
    return fault || column->n_row == first->n_row
               ? fault
               : wm_fault (error, WM_EBATCH, "%s: %s has %llu rows, %s %llu", wm_h5_path (file),
                           column->name, (unsigned long long) column->n_row, first->name,
                           (unsigned long long) first->n_row);
}

wm_fault_t wm_layout_columns (wm_h5_t *file, const wm_wanted_t *wanted, uint32_t count,
                              wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (const wm_wanted_t *one = wanted; one < wanted + count && !fault; one++)
        if (!one->is_optional || wm_h5_has (file, one->name))
            fault = wm_layout_column (file, one->name, one->class, one->width, wanted->column,
                                      one->column, error);
    return fault;
}

wm_fault_t wm_hits_columns (wm_hits_t *self, wm_h5_t *file, const wm_hits_names_t *names,
                            wm_error_t *error)
{
    const char *table = names->table ? names->table : "hit_table";
    char path[96];
    snprintf (path, sizeof path, "%s/%s", table, names->three_ids ? "run" : "event_id");
    wm_fault_t fault =
        wm_h5_column (file, path, WM_H5_INTEGER, names->three_ids ? 1 : 3, self->event_id, error);
    struct {
        const char *name;
        wm_column_t *column;
        wm_h5_class_t class;
    } list[] = { { names->three_ids ? "subrun" : NULL, &self->event_id[1], WM_H5_INTEGER },
                 { names->three_ids ? "event" : NULL, &self->event_id[2], WM_H5_INTEGER },
                 { names->cryostat, &self->cryostat, WM_H5_INTEGER },
                 { names->tpc, &self->tpc, WM_H5_INTEGER },
                 { names->plane, &self->plane, WM_H5_INTEGER },
                 { names->wire, &self->wire, names->is_wire_float ? WM_H5_FLOAT : WM_H5_INTEGER },
                 { names->time, &self->time, WM_H5_FLOAT },
                 { names->id, &self->id, WM_H5_INTEGER } };
    self->is_wire_float = names->is_wire_float;
    for (size_t i = 0; i < sizeof list / sizeof *list && !fault; i++) {
        snprintf (path, sizeof path, "%s/%s", table, list[i].name ? list[i].name : "");
        if (list[i].name)
            fault = wm_layout_column (file, path, list[i].class, 1, self->event_id, list[i].column,
                                      error);
    }
    return fault;
}

/* Keeps more of the columns where the hits of `count` events are in no order.  */
static void order_look (wm_hits_t *self, uint32_t count)
{
    wm_column_t *list[] = { &self->cryostat, &self->tpc,  &self->plane,
                            &self->wire,     &self->time, &self->id };
    const uint64_t n_span = self->rows.start[count];
    for (size_t i = 0; i < sizeof list / sizeof *list && n_span > SPANS_FEW * count; i++)
        wm_h5_whole (list[i]);
}

wm_fault_t wm_hits_scan (wm_hits_t *self, wm_index_t *index, wm_error_t *error)
{
    wm_fault_t fault = self->rows.by_runs
                           ? WM_OK
                           : wm_rows_scan (&self->rows, index, self->event_id, NULL, true, error);
    if (!fault)
        order_look (self, index->n_event);
    return fault;
}

wm_fault_t wm_hits_scan_segments (wm_hits_t *self, wm_index_t *index, const wm_segments_t *segments,
                                  wm_error_t *error)
{
    wm_fault_t fault = wm_rows_scan_segments (&self->rows, index, segments, self->event_id,
                                              &self->time, NULL, UINT64_MAX, error);
    if (!fault)
        order_look (self, wm_segments_count (segments) + index->n_event - segments->n_event);
    return fault;
}

void wm_hits_clear (wm_hits_t *self)
{
    wm_column_t *list[] = { &self->event_id[0], &self->event_id[1], &self->event_id[2],
                            &self->cryostat,    &self->tpc,         &self->plane,
                            &self->wire,        &self->time,        &self->id };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        wm_h5_column_close (list[i]);
    wm_rows_clear (&self->rows);
    free (self->space);
    memset (self, 0, sizeof *self);
}

/* Frees the work space: it is made for each event, because many files are open.  */
static void space_free (wm_hits_t *self)
{
    free (self->space);
    self->space = NULL;
    self->space_max = 0;
}

/* Wire numbers that were stored as floats, in place; -1: no whole number.  */
static void wires_round (void *space, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float from;
        int32_t to = -1;
        memcpy (&from, (char *) space + 4ul * i, 4);
        if (from >= 0 && from < WM_EVENT_WIRES_MAX && from == (float) (int32_t) from)
            to = (int32_t) from;
        memcpy ((char *) space + 4ul * i, &to, 4);
    }
}

/* Puts one integer column of the hits where its member lies in wm_hit_t; a column that is not there
   gives 0.  */
static wm_fault_t member_read (wm_hits_t *self, const wm_column_t *column,
                               const wm_h5_range_t *span, uint64_t n_span, size_t offset,
                               wm_event_t *event, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    const bool is_wire = column == &self->wire && self->is_wire_float;
    if (column->data)
        fault = wm_h5_read_spans (column, span, n_span,
                                  column == &self->time || is_wire ? WM_H5_F32 : WM_H5_I32_CLIPPED,
                                  self->space, error);
    else
        memset (self->space, 0, 4ul * event->n_hit);
    if (is_wire && !fault)
        wires_round (self->space, event->n_hit);
    for (uint32_t i = 0; i < event->n_hit && !fault; i++) /* each is four bytes */
        memcpy ((char *) &event->hit[i] + offset, (char *) self->space + 4ul * i, 4);
    return fault;
}

/* The time of a hit from the first tick of its segment on. Its bin is that of the time in double:
   rounded towards 0, a time never passes the edge of a bin, which the nearest float may do.  */
static float time_in (double time, uint64_t first_tick)
{
    const double from = time - (double) first_tick;
    const float near = (float) from;
    return fabs ((double) near) > fabs (from) ? nextafterf (near, 0) : near;
}

/* Times of the hits of a segment: as double, because float32 has every 16th tick of a stream.  */
static wm_fault_t times_read (wm_hits_t *self, const wm_h5_range_t *span, uint64_t n_span,
                              wm_event_t *event, wm_error_t *error)
{
    wm_fault_t fault =
        wm_event_reserve (&self->space, &self->space_max, 2ull * event->n_hit + 2, 4, error);
    double *time = self->space;
    if (!fault)
        fault = wm_h5_read_spans (&self->time, span, n_span, WM_H5_F64, time, error);
    for (uint32_t i = 0; i < event->n_hit && !fault; i++)
        event->hit[i].time = time_in (time[i], event->first_tick);
    return fault;
}

wm_fault_t wm_hits_read (wm_hits_t *self, uint32_t ordinal, wm_event_t *event, wm_error_t *error)
{
    uint64_t n_span, n_row;
    const wm_h5_range_t *span = wm_rows_of (&self->rows, ordinal, &n_span, &n_row);
    wm_fault_t fault;
    if ((fault =
             wm_event_reserve (&event->hit, &event->hit_max, n_row, sizeof *event->hit, error)) ||
        (fault = wm_event_reserve (&self->space, &self->space_max, n_row + 1, 4, error)))
        return fault;
    event->n_hit = (uint32_t) n_row;
    wm_hit_t *hit = event->hit;
    for (uint64_t i = 0; i < n_span; i++)
        for (uint32_t k = 0; k < span[i].count; k++)
            (hit++)->row = span[i].first + k;
    struct {
        const wm_column_t *column;
        size_t offset;
    } list[] = { { &self->cryostat, offsetof (wm_hit_t, cryostat) },
                 { &self->tpc, offsetof (wm_hit_t, tpc) },
                 { &self->plane, offsetof (wm_hit_t, plane) },
                 { &self->wire, offsetof (wm_hit_t, wire) },
                 { &self->time, offsetof (wm_hit_t, time) } };
    for (size_t i = 0; i < sizeof list / sizeof *list && !fault; i++)
        if (event->stream_ticks && list[i].column == &self->time)
            fault = times_read (self, span, n_span, event, error);
        else
            fault = member_read (self, list[i].column, span, n_span, list[i].offset, event, error);
    space_free (self);
    return fault;
}

static wm_fault_t rows_i32 (const wm_column_t *column, uint64_t first, uint32_t count, int32_t *to,
                            wm_error_t *error)
{
    if (column->data)
        return wm_h5_read (column, first, count, WM_H5_I32_CLIPPED, to, error);
    memset (to, 0, count * sizeof *to);
    return WM_OK;
}

wm_fault_t wm_hits_rows (wm_hits_t *self, uint64_t first, uint32_t count,
                         const wm_reader_rows_t *rows, wm_error_t *error)
{
    wm_fault_t fault;
    if ((fault = wm_event_reserve (&self->space, &self->space_max, 6ull * count, 4, error)) ||
        (fault = wm_index_ids (self->event_id, first, count, self->space, error)))
        return fault;
    const wm_event_id_t *id = self->space;
    for (uint32_t i = 0; i < count; i++) {
        rows->run[i] = id[i].id[0];
        rows->subrun[i] = id[i].id[1];
        rows->event[i] = id[i].id[2];
    }
    space_free (self);
    if ((fault = rows_i32 (&self->cryostat, first, count, rows->cryostat, error)) ||
        (fault = rows_i32 (&self->tpc, first, count, rows->tpc, error)) ||
        (fault = rows_i32 (&self->plane, first, count, rows->plane, error)))
        return fault;
    return wm_h5_read (&self->id, first, count, WM_H5_I64, rows->hit_id, error);
}
