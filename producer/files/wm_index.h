/* wm_index.h - which rows of a table belong to which event.

   Files may hold thousands of events and hits in any order: one scan of a table's event_id column,
   in pieces, gives every event its spans of rows, which are all that is read of the table later.
   A span costs 8 bytes, so a table in event order costs nothing, one in random order 8 bytes a row.
   A row of a stream (wm_segments.h) counts for each segment that reads it.
   A column of event ids has three values a row, or is the first of three columns, side by side, of
   one value: run, subrun, event.
   Thread: one at a time.  */
#ifndef WM_INDEX_H
#define WM_INDEX_H

#include "producer/files/wm_h5.h"
#include "producer/files/wm_segments.h"

typedef struct {
    int64_t id[3]; /* run, subrun, event */
} wm_event_id_t;

/* The events of a file; an event's ordinal is its place in the list.  */
typedef struct {
    wm_event_id_t *event;
    uint32_t n_event;
    size_t event_max;
    uint32_t *slot; /* hash table: ordinal + 1, 0 free */
    uint32_t n_slot;
} wm_index_t;

/* The rows of one table by event. Rows of no event of the list are in none (n_stray counts them).
 */
typedef struct {
    wm_h5_range_t *span;
    uint64_t *value;  /* of a table of runs: where a span's values begin; else NULL */
    uint64_t *start;  /* (n_event + 1): first span of an event */
    uint64_t n_value; /* sum of all lengths */
    uint64_t n_stray;
    bool by_runs; /* as wm_rows_runs was told, not scanned */
} wm_rows_t;

/* Lists the events of an event_id column in order. A repeated one is WM_EBATCH, or (`repeats`)
   counts once.  */
wm_fault_t wm_index_read (wm_index_t *self, const wm_column_t *event_id, bool repeats,
                          wm_error_t *error);
void wm_index_clear (wm_index_t *self);

/* Appends an event; once more does nothing. WM_EHOST without memory.  */
wm_fault_t wm_index_add (wm_index_t *self, const wm_event_id_t *id, wm_error_t *error);

/* Reads the ids of rows first .. first+count-1.  */
wm_fault_t wm_index_ids (const wm_column_t *event_id, uint64_t first, uint64_t count,
                         wm_event_id_t *to, wm_error_t *error);

/* Ordinal of an event, UINT32_MAX if it is not in the list.  */
uint32_t wm_index_find (const wm_index_t *self, const wm_event_id_t *id);

/* Scans a table. `length` (NULL: none): column of run lengths, which are summed up in row order;
   a negative one is WM_EBATCH. `adds`: an event that is not in the list is appended to it.  */
wm_fault_t wm_rows_scan (wm_rows_t *self, wm_index_t *index, const wm_column_t *event_id,
                         const wm_column_t *length, bool adds, wm_error_t *error);

/* The same by ordinals of segments, where an event is a stream: with `length` a row is the samples
   from tick `at` on, without it the hit of time `at`, whose event is appended where the list lacks
   it; such events have the ordinals behind all segments. WM_EBATCH also: samples that lie outside a
   stream, or that add up to more than `n_value`.  */
wm_fault_t wm_rows_scan_segments (wm_rows_t *self, wm_index_t *index, const wm_segments_t *segments,
                                  const wm_column_t *event_id, const wm_column_t *at,
                                  const wm_column_t *length, uint64_t n_value, wm_error_t *error);
void wm_rows_clear (wm_rows_t *self);

/* Takes the rows from `runs`, a column of two values (event_id.seq_cnt of numl's tools): ordinal of
   an event, and how many rows it has, run after run; nothing is scanned. Only the first and last
   row of each run are compared with event_id: wm_rows_check must follow for each event that is
   read. *wrong: "" or, where the runs do not fit the table, why; then *self stays empty.  */
wm_fault_t wm_rows_runs (wm_rows_t *self, const wm_index_t *index, const wm_column_t *event_id,
                         const wm_column_t *runs, char wrong[160], wm_error_t *error);

/* Compares the event_id of each row of an event, where the rows were taken from runs. WM_EBATCH: a
   row is another event's.  */
wm_fault_t wm_rows_check (const wm_rows_t *self, const wm_index_t *index,
                          const wm_column_t *event_id, uint32_t ordinal, wm_error_t *error);

/* Spans of an event; *n_row their rows in all.  */
const wm_h5_range_t *wm_rows_of (const wm_rows_t *self, uint32_t ordinal, uint64_t *n_span,
                                 uint64_t *n_row);

#endif
