/* wm_ledger_history.c - the rows of the history: seconds, minutes, hours, sessions
   of workers.

   Hits and batches come from records as they are applied, so that a row and the progress that it
   belongs to go into one transaction: what a kill takes, the replay of the journal counts again, in
   the last second that is known, or, in a ledger without one, at begin_s 0. A ledger that is made
   again from the journal keeps the rows of the damaged one that are sound; the replay then counts
   nothing, since those rows have it. What the rows that were damaged had, as far as the ledger
   knows of more hits than the others count, goes to begin_s 0.  */
#include "broker/disk/wm_ledger_private.h"

#include "schema/base/wm_grow.h"
#include "schema/base/wm_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_S 1
#define MINUTE_S 60
#define HOUR_S 3600
#define DAY_S (24 * HOUR_S)
#define SECONDS_FOR_S (2 * HOUR_S)
#define MINUTES_FOR_S (7 * DAY_S)
#define ENDED_MAX 3600  /* rows that wait for a full disk; more go into the last of them */
#define ENDED_OWED 60   /* of them are worth a commit of their own */
#define SPANS_MAX 20000 /* sessions of workers that are kept */

bool wm_ledger_is_of_history (const char *counter)
{
    return strcmp (counter, WM_LEDGER_REPLAY) == 0 || strcmp (counter, WM_LEDGER_DROPPED) == 0;
}

static uint64_t get_counter (const wm_ledger_t *self, const char *name)
{
    for (size_t i = 0; i < self->n_counter; i++)
        if (strcmp (self->counter[i].name, name) == 0)
            return self->counter[i].value;
    return 0;
}

/* ---- rows in memory -------------------------------------------------------------------------- */

static bool get_minute (sqlite3_stmt *statement, wm_history_row_t *minute)
{
    minute_row_t row;
    const bool is_sound = wm_row_get (&wm_row_minute, statement, &row, NULL, NULL, NULL);
    if (is_sound)
        *minute = row.minute;
    return is_sound;
}

bool wm_ledger_take_minute (wm_ledger_t *self, sqlite3_stmt *statement)
{
    return get_minute (statement, &self->history.now);
}

static bool get_span (const wm_ledger_t *self, sqlite3_stmt *statement, wm_worker_span_t *span)
{
    worker_row_t row;
    const char *label = wm_ledger_text (statement, &wm_row_worker, 0),
               *device = wm_ledger_text (statement, &wm_row_worker, 1),
               *why = wm_ledger_text (statement, &wm_row_worker, 2);
    if (!wm_row_get (&wm_row_worker, statement, &row, label, device, why))
        return false;
    *span = (wm_worker_span_t){ .id = row.id,
                                .from_s = row.from_s,
                                .to_s = row.to_s,
                                .batches = row.batches,
                                .hits = row.hits,
                                .busy_ms = row.busy_ms,
                                .cpu_ms = row.cpu_ms,
                                .has_ended = row.has_ended != 0 };
    snprintf (span->label, sizeof span->label, "%s", label);
    snprintf (span->device, sizeof span->device, "%s", device);
    snprintf (span->why, sizeof span->why, "%s", why);
    snprintf (span->signature, sizeof span->signature, "%s",
              wm_ledger_signature (self, row.signature));
    return true;
}

bool wm_ledger_take_span (wm_ledger_t *self, sqlite3_stmt *statement)
{
    wm_worker_span_t span;
    return get_span (self, statement, &span);
}

/* Puts the counts of records into a row.  */
static void add_records (const wm_ledger_t *self, wm_history_row_t *minute)
{
    minute->tally.count[WM_COUNT_HITS] += self->history.n_hit;
    minute->tally.count[WM_COUNT_BATCHES] += self->history.n_batch;
    minute->tally.count[WM_COUNT_HELD] += self->history.n_held;
}

static void forget_records (wm_ledger_t *self)
{
    self->history.n_hit = self->history.n_batch = self->history.n_held = 0;
}

static void push_ended (wm_ledger_t *self, const wm_history_row_t *minute)
{
    history_t *history = &self->history;
    wm_must_grow (&history->ended, &history->ended_max, history->n_ended + 1, sizeof *minute);
    history->ended[history->n_ended++] = *minute;
}

/* The row that grows ends; the one of `begin_s` takes its place, as far as there is one.  */
static void turn_to (wm_ledger_t *self, int64_t begin_s)
{
    history_t *history = &self->history;
    add_records (self, &history->now);
    const bool is_owed = history->is_changed || history->n_batch || history->n_held;
    if (is_owed && history->n_ended < ENDED_MAX)
        push_ended (self, &history->now);
    else if (is_owed)
        wm_tally_add (&history->ended[history->n_ended - 1].tally, &history->now.tally);
    forget_records (self);
    history->now = (wm_history_row_t){ .begin_s = begin_s, .span_s = SECOND_S };
    history->is_changed = false;
    for (size_t i = 0; i < history->n_ended; i++) /* the clock was set back */
        if (history->ended[i].begin_s == begin_s) {
            history->now = history->ended[i];
            history->is_changed = true;
            history->ended[i] = history->ended[--history->n_ended];
            return;
        }
    sqlite3_stmt *get = self->statement[SQL_GET_MINUTE];
    sqlite3_bind_int64 (get, 1, begin_s);
    if (sqlite3_step (get) == SQLITE_ROW)
        get_minute (get, &history->now);
    sqlite3_reset (get);
}

void wm_ledger_add_history (wm_ledger_t *self, int64_t unix_s, const wm_tally_t *more,
                            uint32_t n_worker, uint64_t journal_bytes)
{
    history_t *history = &self->history;
    const int64_t begin_s = unix_s;
    bool is_anything = n_worker != 0;
    for (int i = 0; i < WM_N_COUNT; i++)
        is_anything |= i != WM_COUNT_UP_MS && i != WM_COUNT_CPU_MS && more->count[i];
    history->sampled_s = begin_s;
    if (!is_anything && begin_s != history->now.begin_s)
        return;
    if (begin_s != history->now.begin_s)
        turn_to (self, begin_s);
    wm_tally_add (&history->now.tally, more);
    if (history->now.workers_max < n_worker)
        history->now.workers_max = n_worker;
    history->now.journal_bytes = journal_bytes;
    history->is_changed = true;
}

void wm_ledger_put_span (wm_ledger_t *self, const wm_worker_span_t *span)
{
    history_t *history = &self->history;
    size_t i = 0;
    while (i < history->n_span && history->span[i].id != span->id)
        i++;
    if (i == SPANS_MAX) { /* the disk stays full: as if the oldest were committed, and dropped */
        history->n_span = --i;
        memmove (history->span, history->span + 1, i * sizeof *history->span);
    }
    if (i == history->n_span)
        wm_must_grow (&history->span, &history->span_max, ++history->n_span, sizeof *span);
    history->span[i] = *span;
}

void wm_ledger_count_record (wm_ledger_t *self, const wm_record_t *record)
{
    history_t *history = &self->history;
    if (history->is_replay || (record->type != WM_RECORD_RESULT && record->type != WM_RECORD_HELD))
        return;
    if (history->sampled_s && history->sampled_s != history->now.begin_s)
        turn_to (self, history->sampled_s);
    if (record->type == WM_RECORD_RESULT) {
        history->n_hit += record->n_hit;
        history->n_batch++;
    }
    history->n_held += record->type == WM_RECORD_HELD && record->key.batch != WM_ALL;
}

void wm_ledger_count_rows (wm_ledger_t *self, const wm_record_t *record)
{
    char name[WM_HISTORY_ROWS_BYTES];
    if (record->type != WM_RECORD_RESULT || !record->text_bytes)
        return;
    const char *signature =
        wm_ledger_signature (self, self->pending[self->n_pending - 1].signature);
    wm_history_rows_name (wm_history_rows_hash (signature), name);
    wm_ledger_counter (self, name, get_counter (self, name) + record->n_hit);
}

void wm_ledger_replay (wm_ledger_t *self, bool is_whole)
{
    history_t *history = &self->history;
    forget_records (self); /* of an earlier attempt */
    history->is_replay = is_whole ? history->n_ended || history->now.begin_s
                                  : get_counter (self, WM_LEDGER_REPLAY) != 0;
    if (history->is_replay)
        wm_ledger_counter (self, WM_LEDGER_REPLAY, 1);
}

void wm_ledger_replay_counted (wm_ledger_t *self, uint64_t n_more)
{
    history_t *history = &self->history;
    wm_ledger_counter (self, WM_LEDGER_REPLAY, 0);
    history->is_replay = false;
    turn_to (self, 0); /* no minute is known yet */
    history->now.tally.count[WM_COUNT_HITS] += n_more;
    history->is_changed |= n_more != 0;
}

bool wm_ledger_owes_history (const wm_ledger_t *self)
{
    return self->history.n_ended >= ENDED_OWED || self->history.n_span ||
           wm_ledger_owes_marks (self);
}

uint64_t wm_ledger_spans_dropped (const wm_ledger_t *self)
{
    return get_counter (self, WM_LEDGER_DROPPED);
}

void wm_ledger_salvage (wm_ledger_t *self)
{
    wm_history_row_t minute;
    wm_worker_span_t span;
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2 (self->db, WM_LEDGER_MINUTES, -1, &statement, NULL) == SQLITE_OK)
        while (sqlite3_step (statement) == SQLITE_ROW)
            if (get_minute (statement, &minute))
                push_ended (self, &minute);
    sqlite3_finalize (statement);
    statement = NULL;
    if (sqlite3_prepare_v2 (self->db, WM_LEDGER_SPANS, -1, &statement, NULL) == SQLITE_OK)
        while (sqlite3_step (statement) == SQLITE_ROW)
            if (get_span (self, statement, &span))
                wm_ledger_put_span (self, &span);
    sqlite3_finalize (statement);
    wm_ledger_salvage_marks (self);
}

/* ---- commit ---------------------------------------------------------------------------------- */

static int put_minute (wm_ledger_t *self, const wm_history_row_t *minute)
{
    minute_row_t row = { .minute = *minute };
    return wm_ledger_put (self, SQL_PUT_MINUTE, &wm_row_minute, &row, NULL, NULL, NULL);
}

static int put_span (wm_ledger_t *self, const wm_worker_span_t *span)
{
    worker_row_t row = { .id = span->id,
                         .from_s = span->from_s,
                         .to_s = span->to_s,
                         .batches = span->batches,
                         .hits = span->hits,
                         .busy_ms = span->busy_ms,
                         .cpu_ms = span->cpu_ms,
                         .signature =
                             wm_ledger_intern (self, span->signature, strlen (span->signature)),
                         .has_ended = span->has_ended };
    return wm_ledger_put (self, SQL_PUT_SPAN, &wm_row_worker, &row, span->label, span->device,
                          span->why);
}

/* Reads one number; an SQLite code, SQLITE_DONE if no row has it.  */
static int get_number (wm_ledger_t *self, const char *select, int64_t limit, int64_t *number)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2 (self->db, select, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_int64 (statement, 1, limit);
    code = sqlite3_step (statement);
    if (code == SQLITE_ROW && sqlite3_column_type (statement, 0) == SQLITE_NULL)
        code = SQLITE_DONE;
    *number = sqlite3_column_int64 (statement, 0);
    sqlite3_finalize (statement);
    return code == SQLITE_ROW ? SQLITE_OK : code;
}

/* Makes one row of those that begin within so many seconds.  */
static int fold_rows (wm_ledger_t *self, int64_t begin_s, uint32_t span_s)
{
    wm_history_row_t sum = { .begin_s = begin_s, .span_s = span_s }, minute;
    sqlite3_stmt *statement = NULL;
    char text[160];
    int code = sqlite3_prepare_v2 (
        self->db, WM_LEDGER_MINUTES " WHERE begin_s >= ?1 AND begin_s < ?1 + ?2 ORDER BY begin_s",
        -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_int64 (statement, 1, begin_s);
    sqlite3_bind_int64 (statement, 2, span_s);
    while ((code = sqlite3_step (statement)) == SQLITE_ROW) {
        if (!get_minute (statement, &minute)) {
            code = SQLITE_CORRUPT;
            break;
        }
        wm_tally_add (&sum.tally, &minute.tally);
        sum.journal_bytes = minute.journal_bytes;
        if (sum.workers_max < minute.workers_max)
            sum.workers_max = minute.workers_max;
    }
    sqlite3_finalize (statement);
    if (code != SQLITE_DONE)
        return code;
    snprintf (text, sizeof text, "DELETE FROM minute WHERE begin_s >= %lld AND begin_s < %lld",
              (long long) begin_s, (long long) begin_s + span_s);
    code = sqlite3_exec (self->db, text, NULL, NULL, NULL);
    return code == SQLITE_OK ? put_minute (self, &sum) : code;
}

/* Makes rows of span_s of those of `of_s` that are for_s old, those of a day at a time.  */
static int fold_to (wm_ledger_t *self, int64_t *folded_s, uint32_t span_s, uint32_t of_s,
                    int64_t for_s)
{
    const int64_t now_s = self->history.now.begin_s, limit_s = now_s - for_s - now_s % span_s;
    int code = SQLITE_OK;
    char select[160];
    if (limit_s <= *folded_s)
        return SQLITE_OK;
    snprintf (select, sizeof select,
              "SELECT min (begin_s) FROM minute WHERE span_s = %u AND begin_s > 0 AND begin_s < ?1",
              of_s);
    for (uint32_t i = 0; i < DAY_S / span_s && code == SQLITE_OK; i++) {
        int64_t first_s;
        code = get_number (self, select, limit_s, &first_s);
        if (code == SQLITE_DONE) {
            *folded_s = limit_s;
            return SQLITE_OK;
        }
        if (code == SQLITE_OK)
            code = fold_rows (self, first_s - first_s % span_s, span_s);
    }
    return code;
}

/* Seconds become minutes, and minutes hours.  */
static int fold (wm_ledger_t *self)
{
    int64_t *folded_s = self->history.folded_s;
    const int code = fold_to (self, &folded_s[0], MINUTE_S, SECOND_S, SECONDS_FOR_S);
    return code == SQLITE_OK ? fold_to (self, &folded_s[1], HOUR_S, MINUTE_S, MINUTES_FOR_S) : code;
}

static int drop_spans (wm_ledger_t *self)
{
    int64_t n = 0;
    char text[120];
    int code = get_number (self, "SELECT count (*) FROM worker", 0, &n);
    if (code != SQLITE_OK || n <= SPANS_MAX)
        return code;
    snprintf (text, sizeof text,
              "DELETE FROM worker WHERE id IN (SELECT id FROM worker ORDER BY id LIMIT %lld)",
              (long long) n - SPANS_MAX);
    code = sqlite3_exec (self->db, text, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        wm_ledger_counter (self, WM_LEDGER_DROPPED,
                           wm_ledger_spans_dropped (self) + (uint64_t) (n - SPANS_MAX));
    return code;
}

int wm_ledger_put_history (wm_ledger_t *self)
{
    history_t *history = &self->history;
    wm_history_row_t now = history->now;
    int code = SQLITE_OK;
    now.span_s = now.span_s ? now.span_s : SECOND_S;
    add_records (self, &now);
    for (size_t i = 0; i < history->n_ended && code == SQLITE_OK; i++)
        code = put_minute (self, &history->ended[i]);
    if (code == SQLITE_OK && (history->is_changed || history->n_batch || history->n_held))
        code = put_minute (self, &now);
    for (size_t i = 0; i < history->n_span && code == SQLITE_OK; i++)
        code = put_span (self, &history->span[i]);
    if (code == SQLITE_OK && history->n_span)
        code = drop_spans (self);
    if (code == SQLITE_OK)
        code = wm_ledger_put_marks (self);
    return code == SQLITE_OK ? fold (self) : code;
}

void wm_ledger_history_committed (wm_ledger_t *self)
{
    history_t *history = &self->history;
    add_records (self, &history->now);
    forget_records (self);
    history->now.span_s = history->now.span_s ? history->now.span_s : SECOND_S;
    history->is_changed = false;
    history->n_ended = history->n_span = 0;
    wm_ledger_marks_committed (self);
}

/* ---- reading --------------------------------------------------------------------------------- */

WM_ORDER_BY (by_begin, wm_history_row_t, begin_s)

/* The rows that are not committed, in their order; *n of them.  */
static wm_history_row_t *uncommitted (const wm_ledger_t *self, size_t *n)
{
    const history_t *history = &self->history;
    wm_history_row_t *minute = malloc ((history->n_ended + 1) * sizeof *minute);
    if (!minute)
        return NULL;
    *n = history->n_ended;
    if (*n)
        memcpy (minute, history->ended, *n * sizeof *minute);
    if (history->is_changed || history->n_batch || history->n_held) {
        minute[*n] = history->now;
        add_records (self, &minute[*n]);
        minute[*n].span_s = history->now.span_s ? history->now.span_s : SECOND_S;
        ++*n;
    }
    qsort (minute, *n, sizeof *minute, by_begin);
    return minute;
}

wm_fault_t wm_ledger_minutes (wm_ledger_t *self, int64_t from_s,
                              bool (*take) (void *argument, const wm_history_row_t *minute),
                              void *argument, wm_error_t *error)
{
    size_t n, i = 0;
    wm_history_row_t *fresh = uncommitted (self, &n), minute;
    if (!fresh)
        return wm_fault (error, WM_EHOST, "no memory for the history");
    while (i < n && fresh[i].begin_s < from_s)
        i++;
    sqlite3_stmt *statement = NULL;
    bool goes_on = true;
    int code = sqlite3_prepare_v2 (
        self->db,
        WM_LEDGER_MINUTES " WHERE begin_s >= coalesce ((SELECT iif (begin_s + span_s > ?1, begin_s,"
                          " ?1) FROM minute WHERE begin_s <= ?1 ORDER BY begin_s DESC LIMIT 1), ?1)"
                          " ORDER BY begin_s",
        -1, &statement, NULL);
    sqlite3_bind_int64 (statement, 1, from_s);
    while (goes_on && code == SQLITE_OK && (code = sqlite3_step (statement)) == SQLITE_ROW) {
        code = get_minute (statement, &minute) ? SQLITE_OK : SQLITE_CORRUPT;
        while (goes_on && code == SQLITE_OK && i < n && fresh[i].begin_s < minute.begin_s)
            goes_on = take (argument, &fresh[i++]);
        if (!goes_on || code != SQLITE_OK)
            break;
        if (i < n && fresh[i].begin_s == minute.begin_s)
            minute = fresh[i++];
        goes_on = take (argument, &minute);
    }
    for (; goes_on && code == SQLITE_DONE && i < n; i++)
        goes_on = take (argument, &fresh[i]);
    sqlite3_finalize (statement);
    free (fresh);
    return code == SQLITE_OK || code == SQLITE_DONE
               ? WM_OK
               : wm_ledger_fault (self, code, "read the history in", error);
}

/* A session that is not committed as it is; NULL: none of this id. Its place.  */
static const wm_worker_span_t *find_span (const wm_ledger_t *self, uint64_t id)
{
    for (size_t i = 0; i < self->history.n_span; i++)
        if (self->history.span[i].id == id)
            return &self->history.span[i];
    return NULL;
}

/* The first session from `id` on that is in memory.  */
static const wm_worker_span_t *next_span (const wm_ledger_t *self, uint64_t id)
{
    const wm_worker_span_t *found = NULL;
    for (size_t i = 0; i < self->history.n_span; i++) {
        const wm_worker_span_t *span = &self->history.span[i];
        if (span->id >= id && (!found || span->id < found->id))
            found = span;
    }
    return found;
}

wm_fault_t wm_ledger_spans (wm_ledger_t *self, uint64_t from_id,
                            bool (*take) (void *argument, const wm_worker_span_t *span),
                            void *argument, wm_error_t *error)
{
    sqlite3_stmt *statement = NULL;
    wm_worker_span_t span;
    bool goes_on = true;
    uint64_t last = from_id;
    int code = sqlite3_prepare_v2 (self->db, WM_LEDGER_SPANS " WHERE id >= ?1 ORDER BY id", -1,
                                   &statement, NULL);
    sqlite3_bind_int64 (statement, 1, (int64_t) from_id);
    while (goes_on && code == SQLITE_OK && (code = sqlite3_step (statement)) == SQLITE_ROW) {
        code = get_span (self, statement, &span) ? SQLITE_OK : SQLITE_CORRUPT;
        const wm_worker_span_t *fresh = find_span (self, span.id);
        if (code == SQLITE_OK)
            goes_on = take (argument, fresh ? fresh : &span);
        last = span.id + 1;
    }
    sqlite3_finalize (statement);
    const wm_worker_span_t *fresh; /* new ones: their ids are larger */
    for (; goes_on && code == SQLITE_DONE && (fresh = next_span (self, last)); last = fresh->id + 1)
        goes_on = take (argument, fresh);
    return code == SQLITE_OK || code == SQLITE_DONE
               ? WM_OK
               : wm_ledger_fault (self, code, "read the history in", error);
}
