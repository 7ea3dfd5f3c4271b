/* wm_ledger_rows.c - the statements of the ledger, and single rows, texts and counters of it: what
   its other files call. It calls none of them.  */
#include "broker/disk/wm_ledger_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char wm_ledger_schema[] =
#include "ledger.sql.inc"
    ;

wm_fault_t wm_ledger_fault (wm_ledger_t *self, int code, const char *what, wm_error_t *error)
{
    const int extended = self->db ? sqlite3_extended_errcode (self->db) : code;
    if (extended == SQLITE_IOERR_FSYNC || extended == SQLITE_IOERR_DIR_FSYNC) {
        fprintf (stderr,
                 "wiremill-broker: fsync of %s failed; nothing unsynced was acknowledged; check "
                 "the disk, then the same command again continues\n",
                 self->path);
        _exit (1);
    }
    if ((code & 0xff) == SQLITE_FULL)
        return wm_fault (error, WM_EAGAIN,
                         "disk full at %s: waiting; free some space there and it goes on by itself",
                         self->path);
    if ((code & 0xff) == SQLITE_BUSY)
        return wm_fault (error, WM_EAGAIN, "%s is in use by another process: `fuser %s` names it",
                         self->path, self->path);
    const int failed = self->db ? sqlite3_system_errno (self->db) : 0;
    return wm_fault (error, WM_EHOST, "cannot %s %s: %s%s%s", what, self->path,
                     self->db ? sqlite3_errmsg (self->db) : sqlite3_errstr (code),
                     failed ? ": " : "", failed ? strerror (failed) : "");
}

/* ---- statements ------------------------------------------------------------------------------ */

#define PUT_BATCH                                                                                  \
    " INTO batch (" WM_ROW_NAMES (WM_ROW_BATCH) ", text) VALUES (" WM_ROW_PARAMETERS (             \
        WM_ROW_BATCH) ", ?)"

#define MEASURED "12, 13" /* what a campaign that begins again forgets */
static_assert (WM_RECORD_ARITHMETIC == 12 && WM_RECORD_SAMPLE == 13, "MEASURED");

static const char *const sql[SQL_END] = {
    [SQL_PUT_CAMPAIGN] = "INSERT OR REPLACE INTO campaign (" WM_ROW_NAMES (
        WM_ROW_CAMPAIGN) ", pins, one) VALUES (" WM_ROW_PARAMETERS (WM_ROW_CAMPAIGN) ", ?, 1)",
    [SQL_PUT_POSITION] = "INSERT OR REPLACE INTO position (" WM_ROW_NAMES (
        WM_ROW_POSITION) ", one) VALUES (" WM_ROW_PARAMETERS (WM_ROW_POSITION) ", 1)",
    [SQL_PUT_SIGNATURE] = "INSERT INTO signature VALUES (?1, ?2, ?3)",
    [SQL_GET_INPUT] = WM_LEDGER_INPUTS " WHERE id = ?1",
    [SQL_PUT_INPUT] = "INSERT OR REPLACE INTO input (" WM_ROW_NAMES (
        WM_ROW_INPUT) ", path, name, text) VALUES (" WM_ROW_PARAMETERS (WM_ROW_INPUT) ", ?, ?, ?)",
    [SQL_ADD_BATCH] = "INSERT OR IGNORE" PUT_BATCH,
    [SQL_SET_BATCH] = "INSERT OR REPLACE" PUT_BATCH,
    [SQL_DELETE_BATCHES] = "DELETE FROM batch WHERE input = ?1",
    [SQL_DELETE_ALL_BATCHES] = "DELETE FROM batch",
    [SQL_DELETE_ALL_INPUTS] = "DELETE FROM input",
    [SQL_DELETE_COUNTERS] =
        "DELETE FROM counter WHERE name NOT IN (" WM_LEDGER_HISTORY_COUNTERS ")",
    [SQL_PUT_COUNTER] = "INSERT OR REPLACE INTO counter VALUES (?1, ?2, ?3)",
    [SQL_GET_MINUTE] = WM_LEDGER_MINUTES " WHERE begin_s = ?1",
    [SQL_PUT_MINUTE] = "INSERT OR REPLACE INTO minute (" WM_ROW_NAMES (
        WM_ROW_MINUTE) ") VALUES (" WM_ROW_PARAMETERS (WM_ROW_MINUTE) ")",
    [SQL_PUT_SPAN] = "INSERT OR REPLACE INTO worker (" WM_ROW_NAMES (
        WM_ROW_WORKER) ", label, device, why) "
                       "VALUES (" WM_ROW_PARAMETERS (WM_ROW_WORKER) ", ?, ?, ?)",
    [SQL_PUT_MARK] = "INSERT OR REPLACE INTO mark (" WM_ROW_NAMES (
        WM_ROW_MARK) ", kind, text) VALUES (" WM_ROW_PARAMETERS (WM_ROW_MARK) ", ?, ?)",
    [SQL_DELETE_MARKS] = "DELETE FROM mark",
    [SQL_PUT_STANDING] =
        "INSERT OR REPLACE INTO standing (type, name, text, data) VALUES (?1, ?2, ?3, ?4)",
    [SQL_DELETE_MEASURED] = "DELETE FROM standing WHERE type IN (" MEASURED ")",
    [SQL_HAS_STANDING] = "SELECT 1 FROM standing WHERE type = ?1 AND name = ?2",
    [SQL_COUNT_STANDING] = "SELECT count (*) FROM standing",
};

int wm_ledger_prepare (wm_ledger_t *self)
{
    int code = SQLITE_OK;
    for (sql_t i = 0; i < SQL_END && code == SQLITE_OK; i++)
        code = self->statement[i]
                   ? SQLITE_OK
                   : sqlite3_prepare_v3 (self->db, sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                         &self->statement[i], NULL);
    return code;
}

int wm_ledger_run (wm_ledger_t *self, sql_t which)
{
    sqlite3_stmt *statement = self->statement[which];
    sqlite3_step (statement);
    return sqlite3_reset (statement);
}

int wm_ledger_put (wm_ledger_t *self, sql_t which, const wm_row_t *type, void *row, const char *a,
                   const char *b, const char *c)
{
    sqlite3_stmt *statement = self->statement[which];
    const char *const texts[] = { a, b, c };
    wm_row_bind (type, statement, row, a, b, c);
    for (int i = 0; i < 3 && texts[i]; i++)
        sqlite3_bind_text (statement, (int) type->n + 2 + i, texts[i], -1, SQLITE_STATIC);
    return wm_ledger_run (self, which);
}

/* ---- rows, signatures, counters -------------------------------------------------------------- */

const char *wm_ledger_text (sqlite3_stmt *statement, const wm_row_t *row, int i)
{
    const char *text = (const char *) sqlite3_column_text (statement, (int) row->n + 1 + i);
    return text ? text : "";
}

bool wm_ledger_get_input (sqlite3_stmt *statement, input_row_t *row)
{
    return wm_row_get (&wm_row_input, statement, row, wm_ledger_text (statement, &wm_row_input, 0),
                       wm_ledger_text (statement, &wm_row_input, 1),
                       wm_ledger_text (statement, &wm_row_input, 2));
}

uint32_t wm_ledger_intern (wm_ledger_t *self, const char *text, size_t bytes)
{
    for (size_t i = 0; i < self->n_signature; i++)
        if (strlen (self->signature[i]) == bytes && memcmp (self->signature[i], text, bytes) == 0)
            return (uint32_t) (i + 1);
    char **more = realloc (self->signature, (self->n_signature + 1) * sizeof *more);
    assert (more);
    self->signature = more;
    more[self->n_signature] = strndup (bytes ? text : "", bytes);
    assert (more[self->n_signature]);
    return (uint32_t) ++self->n_signature;
}

const char *wm_ledger_signature (const wm_ledger_t *self, uint32_t id)
{
    return id >= 1 && id <= self->n_signature ? self->signature[id - 1] : "";
}

void wm_ledger_counter (wm_ledger_t *self, const char *name, uint64_t value)
{
    size_t i = 0;
    while (i < self->n_counter && strcmp (self->counter[i].name, name) != 0)
        i++;
    if (i == WM_LEDGER_COUNTERS_MAX)
        return; /* of a later release */
    counter_t *counter = &self->counter[i];
    self->n_counter += i == self->n_counter;
    snprintf (counter->name, sizeof counter->name, "%s", name);
    counter->value = value;
}
