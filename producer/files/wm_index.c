/* wm_index.c - lists events and scans tables for their rows.  */
#include "producer/files/wm_index.h"

#include "producer/files/wm_event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define PIECE_ROWS 65536u

void wm_index_clear (wm_index_t *self)
{
    free (self->event);
    free (self->slot);
    memset (self, 0, sizeof *self);
}

/* The slot of an id, or the free one where it would go. The table is at most half full.  */
static uint32_t *slot_of (const wm_index_t *self, const wm_event_id_t *id)
{
    uint32_t mask = self->n_slot - 1, at = (uint32_t) XXH3_64bits (id, sizeof *id) & mask;
    while (self->slot[at] && memcmp (&self->event[self->slot[at] - 1], id, sizeof *id))
        at = (at + 1) & mask;
    return &self->slot[at];
}

uint32_t wm_index_find (const wm_index_t *self, const wm_event_id_t *id)
{
    return self->n_slot ? *slot_of (self, id) - 1 : UINT32_MAX; /* 0 - 1 is UINT32_MAX */
}

static wm_fault_t slots_grow (wm_index_t *self, wm_error_t *error)
{
    uint32_t n_slot = self->n_slot ? self->n_slot * 2 : 1024;
    uint32_t *slot = n_slot ? calloc (n_slot, sizeof *slot) : NULL;
    if (!slot)
        return wm_fault (error, WM_EHOST, "out of memory for %u events", self->n_event);
    free (self->slot);
    self->slot = slot;
    self->n_slot = n_slot;
    for (uint32_t i = 0; i < self->n_event; i++)
        *slot_of (self, &self->event[i]) = i + 1;
    return WM_OK;
}

static wm_fault_t event_add (wm_index_t *self, const wm_event_id_t *id, bool repeats,
                             const wm_column_t *column, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    if (self->n_event * 2ull >= self->n_slot && (fault = slots_grow (self, error)))
        return fault;
    uint32_t *slot = slot_of (self, id);
    if (*slot)
        return repeats ? WM_OK
                       : wm_fault (error, WM_EBATCH,
                                   "%s: %s: event %lld:%lld:%lld is there twice, so that its rows "
                                   "cannot be told apart",
                                   wm_h5_path (column->file), column->name, (long long) id->id[0],
                                   (long long) id->id[1], (long long) id->id[2]);
    fault =
        wm_event_reserve (&self->event, &self->event_max, self->n_event + 1ull, sizeof *id, error);
    if (!fault) {
        self->event[self->n_event] = *id;
        *slot = ++self->n_event;
    }
    return fault;
}

wm_fault_t wm_index_add (wm_index_t *self, const wm_event_id_t *id, wm_error_t *error)
{
    return event_add (self, id, true, NULL, error);
}

wm_fault_t wm_index_ids (const wm_column_t *event_id, uint64_t first, uint64_t count,
                         wm_event_id_t *to, wm_error_t *error)
{
    if (event_id->width == 3)
        return wm_h5_read (event_id, first, count, WM_H5_I64, to, error);
    int64_t *one = malloc ((count + 1) * sizeof *one);
    wm_fault_t fault = one ? WM_OK : wm_fault (error, WM_EHOST, "out of memory");
    for (int k = 0; k < 3 && !fault; k++) {
        fault = wm_h5_read (event_id + k, first, count, WM_H5_I64, one, error);
        for (uint64_t i = 0; i < count && !fault; i++)
            to[i].id[k] = one[i];
    }
    free (one);
    return fault;
}

wm_fault_t wm_index_read (wm_index_t *self, const wm_column_t *event_id, bool repeats,
                          wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    wm_event_id_t *piece = malloc (PIECE_ROWS * sizeof *piece);
    if (!piece)
        return wm_fault (error, WM_EHOST, "out of memory");
    for (uint64_t row = 0; row < event_id->n_row && !fault; row += PIECE_ROWS) {
        uint64_t left = event_id->n_row - row, count = left < PIECE_ROWS ? left : PIECE_ROWS;
        fault = wm_index_ids (event_id, row, count, piece, error);
        for (uint64_t i = 0; i < count && !fault; i++)
            if (!i || memcmp (&piece[i], &piece[i - 1], sizeof *piece) || !repeats)
                fault = event_add (self, &piece[i], repeats, event_id, error);
    }
    free (piece);
    return fault;
}

/* ---- rows ------------------------------------------------------------------------------------ */

void wm_rows_clear (wm_rows_t *self)
{
    free (self->span);
    free (self->value);
    free (self->start);
    memset (self, 0, sizeof *self);
}

/* A span as the scan finds it.  */
typedef struct {
    uint32_t ordinal, first, count;
    uint64_t value;
} found_t;

typedef struct {
    found_t *found;
    size_t found_max;
    uint64_t n_found;
    wm_event_id_t *id; /* (PIECE_ROWS) */
    int64_t *length;   /* (PIECE_ROWS) */

    /* of segments only: */
    const wm_segments_t *segments;
    uint64_t *last; /* (n_last), of an ordinal: where its last span is in found, + 1 */
    uint32_t n_last;
    int64_t *tick; /* (PIECE_ROWS), of samples */
    double *time;  /* (PIECE_ROWS), of hits */
} scan_t;

/* Adds a row to what is found of an ordinal.  */
static wm_fault_t found_add (scan_t *scan, uint32_t ordinal, uint64_t row, uint64_t value,
                             wm_error_t *error)
{
    uint64_t *of = scan->last && ordinal < scan->n_last ? &scan->last[ordinal] : NULL;
    const uint64_t at = of ? *of : scan->n_found;
    found_t *last = at ? &scan->found[at - 1] : NULL;
    if (last && last->ordinal == ordinal && last->first + last->count == row) {
        last->count++;
        return WM_OK;
    }
    wm_fault_t fault = wm_event_reserve (&scan->found, &scan->found_max, scan->n_found + 1,
                                         sizeof *scan->found, error);
    if (fault)
        return fault;
    scan->found[scan->n_found++] = (found_t){ ordinal, (uint32_t) row, 1, value };
    if (of)
        *of = scan->n_found;
    return WM_OK;
}

/* Adds row `row`, the i-th of its piece, to each segment of event `event` that reads it.  */
static wm_fault_t segments_add (scan_t *scan, uint32_t event, uint64_t i, uint64_t row,
                                const wm_rows_t *self, const wm_column_t *column, wm_error_t *error)
{
    const wm_segments_t *segments = scan->segments;
    if (event >= segments->n_event) /* only hits name it: behind all segments */
        return found_add (scan, scan->n_last + event - segments->n_event, row, self->n_value,
                          error);
    uint32_t first = segments->first[event], last = first;
    const uint64_t n_tick = segments->n_tick[event];
    if (n_tick && scan->time)
        first = last = wm_segments_of_time (segments, event, scan->time[i]);
    else if (n_tick) {
        const int64_t tick = scan->tick[i], length = scan->length[i];
        if (tick < 0 || (uint64_t) tick > n_tick || (uint64_t) length > n_tick - (uint64_t) tick)
            return wm_fault (error, WM_EBATCH,
                             "%.300s: %s row %llu: %lld samples from tick %lld on lie outside the "
                             "readout of %llu ticks",
                             wm_h5_path (column->file), column->name, (unsigned long long) row,
                             (long long) length, (long long) tick, (unsigned long long) n_tick);
        if (!length)
            return WM_OK;
        wm_segments_of_ticks (segments, event, (uint64_t) tick, (uint64_t) length, &first, &last);
    }
    wm_fault_t fault = WM_OK;
    for (uint32_t ordinal = first; ordinal <= last && !fault; ordinal++)
        fault = found_add (scan, ordinal, row, self->n_value, error);
    return fault;
}

static wm_fault_t scan_piece (scan_t *scan, wm_rows_t *self, wm_index_t *index, uint64_t row,
                              uint64_t count, bool lengths, bool adds, const wm_column_t *column,
                              wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    uint32_t ordinal = UINT32_MAX;
    for (uint64_t i = 0; i < count; i++) {
        if (!i || memcmp (&scan->id[i], &scan->id[i - 1], sizeof *scan->id))
            ordinal = wm_index_find (index, &scan->id[i]);
        if (ordinal == UINT32_MAX && adds) {
            if ((fault = wm_index_add (index, &scan->id[i], error)))
                return fault;
            ordinal = index->n_event - 1;
        }
        if (lengths && (scan->length[i] < 0 || scan->length[i] > INT32_MAX))
            return wm_fault (error, WM_EBATCH, "%s: %s row %llu: a length of %lld",
                             wm_h5_path (column->file), column->name,
                             (unsigned long long) (row + i), (long long) scan->length[i]);
        if (ordinal == UINT32_MAX)
            self->n_stray++;
        else if (scan->segments)
            fault = segments_add (scan, ordinal, i, row + i, self, column, error);
        else
            fault = found_add (scan, ordinal, row + i, self->n_value, error);
        if (fault)
            return fault;
        if (lengths)
            self->n_value += (uint64_t) scan->length[i]; /* < 2^32 rows x 2^32 */
    }
    return WM_OK;
}

/* Sorts the spans by event, keeping their order within one.  */
static wm_fault_t spans_sort (wm_rows_t *self, const scan_t *scan, uint32_t n_event, bool lengths,
                              wm_error_t *error)
{
    self->span = malloc ((scan->n_found + 1) * sizeof *self->span);
    self->value = lengths ? malloc ((scan->n_found + 1) * sizeof *self->value) : NULL;
    self->start = calloc (n_event + 2ull, sizeof *self->start);
    if (!self->span || !self->start || (lengths && !self->value))
        return wm_fault (error, WM_EHOST, "out of memory for %llu spans of rows",
                         (unsigned long long) scan->n_found);
    for (uint64_t i = 0; i < scan->n_found; i++)
        self->start[scan->found[i].ordinal + 2]++;
    for (uint64_t e = 2; e < n_event + 2ull; e++)
        self->start[e] += self->start[e - 1];
    for (uint64_t i = 0; i < scan->n_found;
         i++) { /* start[e + 1] moves from e's begin to its end */
        const found_t *f = &scan->found[i];
        uint64_t at = self->start[f->ordinal + 1]++;
        self->span[at] = (wm_h5_range_t){ f->first, f->count };
        if (lengths)
            self->value[at] = f->value;
    }
    return WM_OK;
}

/* Reads what the rows of a piece are found by.  */
static wm_fault_t piece_read (const scan_t *scan, uint64_t row, uint64_t count,
                              const wm_column_t *event_id, const wm_column_t *at,
                              const wm_column_t *length, wm_error_t *error)
{
    wm_fault_t fault = wm_index_ids (event_id, row, count, scan->id, error);
    if (!fault && length)
        fault = wm_h5_read (length, row, count, WM_H5_I64, scan->length, error);
    if (!fault && scan->tick)
        fault = wm_h5_read (at, row, count, WM_H5_I64, scan->tick, error);
    if (!fault && scan->time)
        fault = wm_h5_read (at, row, count, WM_H5_F64, scan->time, error);
    return fault;
}

static wm_fault_t scan_prepare (scan_t *scan, const wm_segments_t *segments, bool lengths,
                                wm_error_t *error)
{
    bool fine = (scan->id = malloc (PIECE_ROWS * sizeof *scan->id)) &&
                (scan->length = malloc (PIECE_ROWS * sizeof *scan->length));
    if (fine && segments) {
        scan->segments = segments;
        scan->n_last = wm_segments_count (segments);
        scan->last = calloc (scan->n_last + 1ul, sizeof *scan->last);
        scan->tick = lengths ? malloc (PIECE_ROWS * sizeof *scan->tick) : NULL;
        scan->time = lengths ? NULL : malloc (PIECE_ROWS * sizeof *scan->time);
        fine = scan->last && (scan->tick || scan->time);
    }
    return fine ? WM_OK : wm_fault (error, WM_EHOST, "out of memory");
}

static wm_fault_t rows_scan (wm_rows_t *self, wm_index_t *index, const wm_segments_t *segments,
                             const wm_column_t *event_id, const wm_column_t *at,
                             const wm_column_t *length, uint64_t n_value, bool adds,
                             wm_error_t *error)
{
    if (event_id->n_row >= UINT32_MAX)
        return wm_fault (error, WM_EBATCH, "%s: %s has %llu rows, more than %u: split the file",
                         wm_h5_path (event_id->file), event_id->name,
                         (unsigned long long) event_id->n_row, UINT32_MAX - 1);
    scan_t scan = { 0 };
    wm_fault_t fault = scan_prepare (&scan, segments, length != NULL, error);
    for (uint64_t row = 0; row < event_id->n_row && !fault; row += PIECE_ROWS) {
        uint64_t left = event_id->n_row - row, count = left < PIECE_ROWS ? left : PIECE_ROWS;
        fault = piece_read (&scan, row, count, event_id, at, length, error);
        if (!fault)
            fault = scan_piece (&scan, self, index, row, count, length != NULL, adds,
                                length ? length : event_id, error);
        if (!fault && self->n_value > n_value)
            fault =
                wm_fault (error, WM_EBATCH, "%s: %s adds up to more than the %llu samples",
                          wm_h5_path (length->file), length->name, (unsigned long long) n_value);
    }
    if (!fault)
        fault = spans_sort (self, &scan,
                            segments ? scan.n_last + index->n_event - segments->n_event
                                     : index->n_event,
                            length != NULL, error);
    free (scan.id);
    free (scan.length);
    free (scan.last);
    free (scan.tick);
    free (scan.time);
    free (scan.found);
    return fault;
}

wm_fault_t wm_rows_scan (wm_rows_t *self, wm_index_t *index, const wm_column_t *event_id,
                         const wm_column_t *length, bool adds, wm_error_t *error)
{
    return rows_scan (self, index, NULL, event_id, NULL, length, UINT64_MAX, adds, error);
}

wm_fault_t wm_rows_scan_segments (wm_rows_t *self, wm_index_t *index, const wm_segments_t *segments,
                                  const wm_column_t *event_id, const wm_column_t *at,
                                  const wm_column_t *length, uint64_t n_value, wm_error_t *error)
{
    const bool any = wm_segments_any (segments);
    return rows_scan (self, index, any ? segments : NULL, event_id, any ? at : NULL, length,
                      any ? n_value : UINT64_MAX, !length, error);
}

/* Whether runs (n) fit the table; else *wrong states why.  */
static bool runs_fit (const int64_t (*run)[2], uint64_t n, const wm_index_t *index, uint64_t n_row,
                      char wrong[160])
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (run[i][0] < 0 || run[i][0] >= index->n_event || (i && run[i][0] <= run[i - 1][0]) ||
            run[i][1] < 0 || (uint64_t) run[i][1] > n_row - total) {
            snprintf (wrong, 160, "row %llu is (%lld, %lld), not an event and its rows",
                      (unsigned long long) i, (long long) run[i][0], (long long) run[i][1]);
            return false;
        }
        total += (uint64_t) run[i][1];
    }
    if (total != n_row)
        snprintf (wrong, 160, "it tells of %llu rows, the table has %llu",
                  (unsigned long long) total, (unsigned long long) n_row);
    return total == n_row;
}

static bool is_event (const wm_index_t *index, uint64_t ordinal, const wm_event_id_t *id)
{
    return !memcmp (&index->event[ordinal], id, sizeof *id);
}

/* Whether the first and the last row of each run are of its event.  */
static wm_fault_t ends_check (const int64_t (*run)[2], uint64_t n, const wm_index_t *index,
                              const wm_column_t *event_id, char wrong[160], wm_error_t *error)
{
    wm_h5_range_t *span = malloc ((2 * n + 1) * sizeof *span);
    wm_event_id_t *id = malloc ((2 * n + 1) * sizeof *id);
    wm_fault_t fault = span && id ? WM_OK : wm_fault (error, WM_EHOST, "out of memory");
    uint64_t at = 0, n_span = 0;
    for (uint64_t i = 0; i < n && !fault; at += (uint64_t) run[i++][1])
        if (run[i][1] > 0) {
            span[n_span++] = (wm_h5_range_t){ (uint32_t) at, 1 };
            span[n_span++] = (wm_h5_range_t){ (uint32_t) (at + (uint64_t) run[i][1] - 1), 1 };
        }
    for (uint64_t i = 0; i < n_span && !fault; i++)
        if (i && span[i].first == span[i - 1].first)
            id[i] = id[i - 1]; /* a run of one row */
        else
            fault = wm_h5_read (event_id, span[i].first, 1, WM_H5_I64, &id[i], error);
    n_span = 0;
    for (uint64_t i = 0; i < n && !fault && !*wrong; i++)
        for (int end = 0; end < 2 && run[i][1] > 0 && !*wrong; end++, n_span++)
            if (!is_event (index, (uint64_t) run[i][0], &id[n_span]))
                snprintf (wrong, 160, "by event_id row %u is of %lld:%lld:%lld", span[n_span].first,
                          (long long) id[n_span].id[0], (long long) id[n_span].id[1],
                          (long long) id[n_span].id[2]);
    free (span);
    free (id);
    return fault;
}

wm_fault_t wm_rows_runs (wm_rows_t *self, const wm_index_t *index, const wm_column_t *event_id,
                         const wm_column_t *runs, char wrong[160], wm_error_t *error)
{
    const uint64_t n = runs->n_row;
    *wrong = 0;
    if (event_id->n_row >= UINT32_MAX || n > index->n_event) {
        snprintf (wrong, 160, "it has %llu rows, event_table %u", (unsigned long long) n,
                  index->n_event);
        return WM_OK;
    }
    int64_t (*run)[2] = malloc ((n + 1) * sizeof *run);
    wm_fault_t fault = run ? WM_OK : wm_fault (error, WM_EHOST, "out of memory");
    if (!fault)
        fault = wm_h5_read (runs, 0, n, WM_H5_I64, run, error);
    bool fits = !fault && runs_fit (run, n, index, event_id->n_row, wrong);
    if (fits)
        fault = ends_check (run, n, index, event_id, wrong, error);
    fits = fits && !fault && !*wrong;
    self->span = fits ? malloc ((n + 1) * sizeof *self->span) : NULL;
    self->start = fits ? calloc (index->n_event + 2ull, sizeof *self->start) : NULL;
    if (fits && (!self->span || !self->start))
        fault = wm_fault (error, WM_EHOST, "out of memory");
    uint64_t at = 0, n_span = 0, i = 0;
    for (uint32_t e = 0; e < index->n_event && fits && !fault; e++) {
        self->start[e] = n_span;
        if (i < n && run[i][0] == e) {
            if (run[i][1] > 0)
                self->span[n_span++] = (wm_h5_range_t){ (uint32_t) at, (uint32_t) run[i][1] };
            at += (uint64_t) run[i++][1];
        }
        self->start[e + 1] = n_span;
    }
    self->by_runs = fits && !fault;
    free (run);
    return fault;
}

wm_fault_t wm_rows_check (const wm_rows_t *self, const wm_index_t *index,
                          const wm_column_t *event_id, uint32_t ordinal, wm_error_t *error)
{
    uint64_t n_span, n_row;
    const wm_h5_range_t *span = wm_rows_of (self, ordinal, &n_span, &n_row);
    if (!self->by_runs || !n_row)
        return WM_OK;
    wm_event_id_t *id = malloc (n_row * sizeof *id);
    wm_fault_t fault = id ? WM_OK : wm_fault (error, WM_EHOST, "out of memory");
    if (!fault)
        fault = wm_h5_read_spans (event_id, span, n_span, WM_H5_I64, id, error);
    for (uint64_t i = 0; i < n_row && !fault; i++)
        if (!is_event (index, ordinal, &id[i]))
            fault = wm_fault (
                error, WM_EBATCH,
                "%.300s: %s.seq_cnt is wrong: row %llu is of event %lld:%lld:%lld; delete that "
                "dataset, and the rows are found without it",
                wm_h5_path (event_id->file), event_id->name, (unsigned long long) (span->first + i),
                (long long) id[i].id[0], (long long) id[i].id[1], (long long) id[i].id[2]);
    free (id);
    return fault;
}

const wm_h5_range_t *wm_rows_of (const wm_rows_t *self, uint32_t ordinal, uint64_t *n_span,
                                 uint64_t *n_row)
{
    const wm_h5_range_t *span = self->span + self->start[ordinal];
    *n_span = self->start[ordinal + 1] - self->start[ordinal];
    *n_row = 0;
    for (uint64_t i = 0; i < *n_span; i++)
        *n_row += span[i].count;
    return span;
}
