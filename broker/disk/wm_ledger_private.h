/* wm_ledger_private.h - the rows of the ledger, and what its files share. No other file includes
   this.

   A file calls files below it only:

       wm_ledger.c            opens, verifies, catches up, loads, copies
       wm_ledger_apply.c      derives rows from records, and commits them
       wm_ledger_version.c  wm_ledger_history.c  wm_ledger_standing.c
       wm_ledger_marks.c      for wm_ledger_history.c
       wm_ledger_rows.c       statements, single rows, signatures, counters  */
#ifndef WM_LEDGER_PRIVATE_H
#define WM_LEDGER_PRIVATE_H

#include "broker/disk/wm_ledger.h"
#include "broker/disk/wm_ledger_columns.h"

#include <limits.h>
#include <stdbool.h>

/* Of schema/ledger.sql. 2: counter; 3: minute, worker; 4: columns instead of structs, views;
   standing; 5: mark.  */
#define WM_LEDGER_SCHEMA 5

typedef enum {
    SQL_PUT_CAMPAIGN,
    SQL_PUT_POSITION,
    SQL_PUT_SIGNATURE,
    SQL_GET_INPUT,
    SQL_PUT_INPUT,
    SQL_ADD_BATCH,
    SQL_SET_BATCH,
    SQL_DELETE_BATCHES,
    SQL_DELETE_ALL_BATCHES,
    SQL_DELETE_ALL_INPUTS,
    SQL_PUT_COUNTER,
    SQL_DELETE_COUNTERS,
    SQL_GET_MINUTE,
    SQL_PUT_MINUTE,
    SQL_PUT_SPAN,
    SQL_PUT_MARK,
    SQL_DELETE_MARKS,
    SQL_PUT_STANDING,
    SQL_COUNT_STANDING,
    SQL_HAS_STANDING,
    SQL_DELETE_MEASURED,
    SQL_END,
} sql_t;

/* A record applied and not committed; its texts lie in the ledger's pool at these offsets.  */
typedef struct {
    wm_record_t record;
    wm_place_t place;
    uint32_t signature;         /* RESULT */
    size_t text, name, payload; /* the latter of DISTRUST */
} pending_t;

#define WM_LEDGER_COUNTERS_MAX 32

typedef struct {
    char name[24];
    uint64_t value;
} counter_t;

/* What is not committed of the history.  */
typedef struct {
    wm_history_row_t now;            /* the row that grows */
    bool is_changed;                 /* now is not as it was committed */
    uint64_t n_hit, n_batch, n_held; /* of records applied, not in `now` yet */
    bool is_replay;      /* the journal is replayed from its begin beside an older history */
    int64_t sampled_s;   /* second of the last sample; 0: none yet */
    int64_t folded_s[2]; /* up to here seconds were made minutes, minutes hours */
    wm_history_row_t *ended;
    wm_worker_span_t *span;
    size_t n_ended, ended_max, n_span, span_max;
} history_t;

/* Marks, committed or not.  */
typedef struct {
    struct ledger_mark_t {
        wm_mark_t mark;
        bool is_changed;   /* not as it was committed */
        bool is_of_replay; /* made, by a replay of records, and not committed */
    } * mark;
    size_t n, max;
    uint64_t last_id;
    bool is_catching_up;
    bool is_rewritten; /* some were forgotten: all are put again */
} marks_t;

struct wm_ledger_t {
    char path[PATH_MAX - 32];
    const char *vfs;
    sqlite3 *db;
    sqlite3_stmt *statement[SQL_END];
    position_row_t position;
    char *pins; /* NULL: no campaign yet */
    campaign_row_t campaign;
    char **signature; /* (n_signature), [0] is id 1 */
    size_t n_signature, n_signature_stored;
    counter_t counter[WM_LEDGER_COUNTERS_MAX];
    size_t n_counter;
    size_t n_standing;        /* rows, when it was opened */
    bool is_standing_changed; /* since the last commit */
    history_t history;
    marks_t marks;
    char set_aside[PATH_MAX + 200]; /* wm_ledger_set_aside */
    pending_t *pending;
    size_t n_pending, pending_max;
    char *pool;
    size_t pool_bytes, pool_max;
    sqlite3_backup *backup; /* of wm_ledger_copy, into `copy`; NULL: none is made */
    sqlite3 *copy;
    bool has_copy; /* one may be there, and goes with this */
};

/* schema/ledger.sql.  */
extern const char wm_ledger_schema[];

/* The schema of the open file, 0: none yet; an SQLite code.  */
int wm_ledger_get_version (wm_ledger_t *self, int *version);

/* Writes this release's schema number into the open file.  */
int wm_ledger_put_version (wm_ledger_t *self);

/* Backs the open file up and brings it from `version` to this release's schema; an SQLite code.  */
int wm_ledger_migrate (wm_ledger_t *self, int version);

/* What reads the rows of inputs and batches: their struct's columns, then the texts.  */
#define WM_LEDGER_INPUTS "SELECT " WM_ROW_NAMES (WM_ROW_INPUT) ", path, name, text FROM input"
#define WM_LEDGER_BATCHES "SELECT " WM_ROW_NAMES (WM_ROW_BATCH) ", text FROM batch"

/* Returns text i (from 0) of a row that is selected as above; "" if it is NULL.  */
const char *wm_ledger_text (sqlite3_stmt *statement, const wm_row_t *row, int i);

/* Copies the row of an input; false if it is damaged.  */
bool wm_ledger_get_input (sqlite3_stmt *statement, input_row_t *row);

/* Writes a row and its texts (NULL ends them) in the open transaction; an SQLite code.  */
int wm_ledger_put (wm_ledger_t *self, sql_t which, const wm_row_t *type, void *row, const char *a,
                   const char *b, const char *c);

/* Prepares the statements that are not prepared yet; an SQLite code.  */
int wm_ledger_prepare (wm_ledger_t *self);

/* Returns the fault of an SQLite code; ends the process if an fsync failed.  */
wm_fault_t wm_ledger_fault (wm_ledger_t *self, int code, const char *what, wm_error_t *error);

/* Gives `text` an id (from 1).  */
uint32_t wm_ledger_intern (wm_ledger_t *self, const char *text, size_t bytes);

/* Runs a statement that gives no row; an SQLite code.  */
int wm_ledger_run (wm_ledger_t *self, sql_t which);

/* ---- wm_ledger_standing.c -------------------------------------------------------------------- */

#define WM_LEDGER_ROWS "standing" /* a counter of the ledger's own: rows of that table */
#define WM_LEDGER_STANDING "SELECT type, name, text, data FROM standing ORDER BY id"

/* Takes and counts the current row of a statement that selects as above; false if it is damaged.
 */
bool wm_ledger_take_standing (wm_ledger_t *self, sqlite3_stmt *statement);
/* Whether there were other rows when it was opened than the last commit left.  */
bool wm_ledger_misses_standing (const wm_ledger_t *self);

/* Puts a record that stands, and counts them all before the commit; SQLite codes.  */
int wm_ledger_put_standing (wm_ledger_t *self, const wm_record_t *record, const wm_place_t *place);
int wm_ledger_count_standing (wm_ledger_t *self);

/* Shows all to to->standing; SQLITE_DONE, or as wm_ledger_load.  */
int wm_ledger_load_standing (wm_ledger_t *self, const wm_ledger_load_t *to, void *argument);

/* ---- wm_ledger_history.c --------------------------------------------------------------------- */

#define WM_LEDGER_MINUTES "SELECT " WM_ROW_NAMES (WM_ROW_MINUTE) " FROM minute"
#define WM_LEDGER_SPANS "SELECT " WM_ROW_NAMES (WM_ROW_WORKER) ", label, device, why FROM worker"

/* Each takes the current row of a statement that selects as above; false if it is damaged. The
   first keeps it as the row that grows.  */
bool wm_ledger_take_minute (wm_ledger_t *self, sqlite3_stmt *statement);
bool wm_ledger_take_span (wm_ledger_t *self, sqlite3_stmt *statement);

/* Writes what is not committed, in the open transaction; an SQLite code. Then, once the transaction
   is committed: forgets it.  */
int wm_ledger_put_history (wm_ledger_t *self);
void wm_ledger_history_committed (wm_ledger_t *self);

/* Keeps the rows of a damaged file that are sound, for the next one's first commit.  */
void wm_ledger_salvage (wm_ledger_t *self);

/* A broker that was killed had not committed the count of these rows.  */
void wm_ledger_count_rows (wm_ledger_t *self, const wm_record_t *record);

/* The counters that the history keeps for itself.  */
#define WM_LEDGER_REPLAY "history-replay" /* 1 while a replay counts nothing */
#define WM_LEDGER_DROPPED "workers-dropped"
#define WM_LEDGER_HISTORY_COUNTERS "'" WM_LEDGER_REPLAY "', '" WM_LEDGER_DROPPED "'"
bool wm_ledger_is_of_history (const char *counter);

/* Counts a RESULT, or a HELD of a batch.  */
void wm_ledger_count_record (wm_ledger_t *self, const wm_record_t *record);

/* A replay of the journal begins, from its begin or from the ledger's position; it has ended: so
   many hits that the ledger knows and no minute has get a row without a time.  */
void wm_ledger_replay (wm_ledger_t *self, bool is_whole);
void wm_ledger_replay_counted (wm_ledger_t *self, uint64_t n_more);

/* ---- wm_ledger_marks.c ----------------------------------------------------------------------- */

#define WM_LEDGER_MARKS "SELECT " WM_ROW_NAMES (WM_ROW_MARK) ", kind, text FROM mark ORDER BY id"

/* As those of the history above, for marks.  */
bool wm_ledger_take_mark (wm_ledger_t *self, sqlite3_stmt *statement);
void wm_ledger_salvage_marks (wm_ledger_t *self);
bool wm_ledger_owes_marks (const wm_ledger_t *self);
int wm_ledger_put_marks (wm_ledger_t *self);
void wm_ledger_marks_committed (wm_ledger_t *self);

/* Marks what a record shows: PAUSE, HELD, DISTRUST.  */
void wm_ledger_mark_record (wm_ledger_t *self, const wm_record_t *record);

/* A replay of the journal begins, again if an earlier attempt failed; ends.  */
void wm_ledger_marks_replay (wm_ledger_t *self, bool begins);

#endif
