/* wm_spacepoints.c - see wm_spacepoints.h.  */
#include "producer/layouts/wm_spacepoints.h"
#include "schema/base/wm_order.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t id;
    uint32_t hit; /* of the event */
} named_t;

typedef struct {
    wm_reader_t reader;
    wm_column_t event_id, id, hits;
    wm_rows_t rows;
    wm_hit_t *hit; /* of an event, as the inner reader gives them */
    named_t *named;
    int64_t *cell; /* hit_id of an event's space points, or of its hits */
    size_t hit_max, named_max, cell_max;
    char text[1536];
} spacepoints_t;

static void spacepoints_clear (wm_reader_t *reader)
{
    spacepoints_t *self = (spacepoints_t *) reader;
    wm_h5_column_close (&self->event_id);
    wm_h5_column_close (&self->id);
    wm_h5_column_close (&self->hits);
    wm_rows_clear (&self->rows);
    free (self->hit);
    free (self->named);
    free (self->cell);
}

WM_ORDER_BY (named_compare, named_t, id)

/* The hits of an event by number, aside; event->hit is then free for the space points.  */
static wm_fault_t hits_take (spacepoints_t *self, uint32_t ordinal, wm_event_t *event,
                             wm_error_t *error)
{
    const wm_hits_t *hits = &self->reader.inner->hits;
    uint64_t n_span, n_row;
    const wm_h5_range_t *span = wm_rows_of (&hits->rows, ordinal, &n_span, &n_row);
    wm_fault_t fault;
    if (n_row != event->n_hit)
        return wm_fault (error, WM_EBATCH, "%s: changed while it was read",
                         wm_h5_path (self->reader.inner->file));
    if ((fault =
             wm_event_reserve (&self->hit, &self->hit_max, n_row + 1, sizeof *self->hit, error)) ||
        (fault = wm_event_reserve (&self->named, &self->named_max, n_row + 1, sizeof *self->named,
                                   error)) ||
        (fault = wm_event_reserve (&self->cell, &self->cell_max, n_row + 1, 8, error)) ||
        (fault = wm_h5_read_spans (&hits->id, span, n_span, WM_H5_I64, self->cell, error)))
        return fault;
    for (uint32_t i = 0; i < n_row; i++) {
        self->hit[i] = event->hit[i];
        self->named[i] = (named_t){ self->cell[i], i };
    }
    if (n_row > 1)
        qsort (self->named, n_row, sizeof *self->named, named_compare);
    for (uint32_t i = 1; i < n_row; i++)
        if (self->named[i].id == self->named[i - 1].id)
            return wm_fault (error, WM_EBATCH,
                             "%s: event %lld:%lld:%lld has hit %lld twice, so that it is unclear "
                             "which one a space point means",
                             wm_h5_path (self->reader.inner->file), (long long) event->run,
                             (long long) event->subrun, (long long) event->event,
                             (long long) self->named[i].id);
    return WM_OK;
}

/* The cells of a space point, and the TPC that all its hits are in.  */
static void point_fill (const spacepoints_t *self, uint32_t n_hit, const int64_t *id,
                        wm_hit_t *point, wm_event_cell_t *cell)
{
    bool has_tpc = false;
    *point = (wm_hit_t){ -1, -1, -1, -1, 0, point->row };
    for (uint32_t k = 0; k < self->reader.spec->n_channel; k++) {
        const named_t key = { id[k], 0 };
        cell[k] = (wm_event_cell_t){ WM_EVENT_NO_CELL, 0 };
        if (id[k] == -1)
            continue;
        const named_t *named =
            n_hit ? bsearch (&key, self->named, n_hit, sizeof key, named_compare) : NULL;
        const wm_hit_t *hit = named ? &self->hit[named->hit] : NULL;
        cell[k].wire = WM_EVENT_BAD_CELL;
        if (!hit || hit->plane != (int32_t) k || hit->wire < 0 ||
            (has_tpc && (hit->cryostat != point->cryostat || hit->tpc != point->tpc)))
            continue;
        cell[k] = (wm_event_cell_t){ hit->wire, hit->time };
        point->cryostat = hit->cryostat, point->tpc = hit->tpc;
        has_tpc = true;
    }
}

/* The event without its space points. One that only these name has neither planes nor hits.  */
static wm_fault_t event_begin (spacepoints_t *self, uint32_t ordinal, wm_event_t *event,
                               wm_error_t *error)
{
    if (ordinal < self->reader.inner->n_event) {
        const wm_fault_t fault = wm_reader_event (self->reader.inner, ordinal, event, error);
        return fault ? fault : hits_take (self, ordinal, event, error);
    }
    wm_layout_begin (&self->reader, ordinal, event);
    return WM_OK;
}

static wm_fault_t spacepoints_event (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                     wm_error_t *error)
{
    spacepoints_t *self = (spacepoints_t *) reader;
    const uint32_t n_channel = reader->spec->n_channel;
    uint64_t n_span, n_row;
    const wm_h5_range_t *span = wm_rows_of (&self->rows, ordinal, &n_span, &n_row);
    wm_fault_t fault = event_begin (self, ordinal, event, error);
    if (fault)
        return fault;
    const uint32_t n_hit = event->n_hit;
    if ((fault = wm_event_reserve (&event->hit, &event->hit_max, n_row + 1, sizeof *event->hit,
                                   error)) ||
        (fault = wm_event_reserve (&event->cell, &event->cell_max, n_row * n_channel + 1,
                                   sizeof *event->cell, error)) ||
        (fault =
             wm_event_reserve (&self->cell, &self->cell_max, n_row * n_channel + 1, 8, error)) ||
        (fault = wm_h5_read_spans (&self->hits, span, n_span, WM_H5_I64, self->cell, error)))
        return fault;
    uint32_t at = 0;
    for (uint64_t s = 0; s < n_span; s++)
        for (uint32_t k = 0; k < span[s].count; k++, at++) {
            event->hit[at].row = span[s].first + k;
            point_fill (self, n_hit, self->cell + (size_t) at * n_channel, &event->hit[at],
                        event->cell + (size_t) at * n_channel);
        }
    event->n_hit = at;
    return WM_OK;
}

static wm_fault_t spacepoints_rows (wm_reader_t *reader, uint64_t first, uint32_t count,
                                    const wm_reader_rows_t *rows, wm_error_t *error)
{
    spacepoints_t *self = (spacepoints_t *) reader;
    wm_event_id_t *id = malloc ((count + 1ul) * sizeof *id);
    if (!id)
        return wm_fault (error, WM_EHOST, "out of memory");
    wm_fault_t fault = wm_index_ids (&self->event_id, first, count, id, error);
    for (uint32_t i = 0; i < count && !fault; i++) {
        rows->run[i] = id[i].id[0];
        rows->subrun[i] = id[i].id[1];
        rows->event[i] = id[i].id[2];
        rows->cryostat[i] = rows->tpc[i] = rows->plane[i] = -1;
    }
    free (id);
    return fault ? fault : wm_h5_read (&self->id, first, count, WM_H5_I64, rows->hit_id, error);
}

static uint64_t points_of (const spacepoints_t *self, uint32_t ordinal)
{
    uint64_t n_span, n_row;
    wm_rows_of (&self->rows, ordinal, &n_span, &n_row);
    return n_row;
}

static const char *spacepoints_unmatched (wm_reader_t *reader)
{
    spacepoints_t *self = (spacepoints_t *) reader;
    const uint32_t first = self->reader.inner->n_event,
                   n_event = self->reader.index.n_event - first;
    const char *inner = wm_reader_unmatched (self->reader.inner);
    uint64_t n = 0;
    for (uint32_t i = first; i < self->reader.index.n_event; i++)
        n += points_of (self, i);
    if (!n)
        return inner;
    const int64_t *id = self->reader.index.event[first].id;
    snprintf (self->text, sizeof self->text,
              "%s%s%llu space point%s of %u event%s that %s no hits (first %lld:%lld:%lld): held",
              inner, *inner ? "; " : "", (unsigned long long) n, n == 1 ? "" : "s", n_event,
              n_event == 1 ? "" : "s", n_event == 1 ? "has" : "have", (long long) id[0],
              (long long) id[1], (long long) id[2]);
    return self->text;
}

static const wm_layout_t layout = { .name = "space points",
                                    .event = spacepoints_event,
                                    .rows = spacepoints_rows,
                                    .clear = spacepoints_clear,
                                    .unmatched = spacepoints_unmatched };

/* ---- opening --------------------------------------------------------------------------------- */

static wm_fault_t table_open (spacepoints_t *self, wm_error_t *error)
{
    wm_h5_t *file = self->reader.inner->file;
    wm_fault_t fault;
    if (!wm_h5_has (file, "spacepoint_table"))
        return wm_fault (error, WM_EBATCH,
                         "%.300s: points: spacepoints reads numl's spacepoint_table, which it does "
                         "not have",
                         wm_h5_path (file));
    const wm_wanted_t wanted[] = {
        { "spacepoint_table/event_id", WM_H5_INTEGER, 3, &self->event_id, false },
        { "spacepoint_table/spacepoint_id", WM_H5_INTEGER, 1, &self->id, false },
        { "spacepoint_table/hit_id", WM_H5_INTEGER, self->reader.spec->n_channel, &self->hits,
          false },
    };
    if ((fault = wm_layout_columns (file, wanted, 3, error)))
        return fault;
    const wm_index_t *inner = &self->reader.inner->index;
    for (uint32_t i = 0; i < inner->n_event; i++)
        if ((fault = wm_index_add (&self->reader.index, &inner->event[i], error)))
            return fault;
    self->reader.n_present = inner->n_event;
    return wm_rows_scan (&self->rows, &self->reader.index, &self->event_id, NULL, true, error);
}

wm_reader_t *wm_spacepoints_open (wm_reader_t **reader, const wm_spec_t *spec, wm_error_t *error)
{
    assert ((*reader)->layout->has_hits);
    spacepoints_t *self = wm_layout_new (sizeof *self, &layout, spec, NULL, reader, error);
    if (!self)
        return NULL;
    wm_reader_t *own = &self->reader;
    if (table_open (self, error)) {
        wm_reader_destroy (&own);
        return NULL;
    }
    own->n_event = own->index.n_event;
    for (uint32_t i = own->inner->n_event - own->inner->n_missing; i < own->n_event; i++)
        own->n_missing += points_of (self, i) > 0;
    own->n_row = self->event_id.n_row;
    return own;
}
