/* wm_ledger_version.c - which schema a ledger.db has, and how an older one becomes this one.

   user_version is the schema, application_id "WML" and the schema once more: where the two disagree
   a bit was flipped, and the file is damaged, not newer. Schema 1 did not set application_id.

   An older ledger is copied to ledger.db.v<schema> first; then all steps go in one transaction.
   Killed anywhere, the next start finds the old schema or the new one, never a part of it.  */
#include "broker/disk/wm_ledger_private.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APPLICATION_ID(schema) (0x574d4c00 + (schema))

/* What makes schema i+1 of schema i. A step is never changed once it was released.  */
static const char *const step[] = {
    [1] = "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL, sum INTEGER NOT "
          "NULL) STRICT, WITHOUT ROWID;",
    [2] = "CREATE TABLE minute (begin_s INTEGER PRIMARY KEY, span_s INTEGER NOT NULL, data BLOB "
          "NOT NULL) STRICT;"
          "CREATE TABLE worker (id INTEGER PRIMARY KEY, label TEXT NOT NULL, device TEXT NOT NULL, "
          "why TEXT NOT NULL, data BLOB NOT NULL) STRICT;",
    [4] = "CREATE TABLE mark (id INTEGER PRIMARY KEY, from_s INTEGER NOT NULL, to_s INTEGER NOT "
          "NULL, n INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, sum INTEGER NOT NULL) "
          "STRICT;"
          "CREATE VIEW marks AS SELECT id, datetime (from_s, 'unixepoch') AS \"from\", datetime "
          "(to_s, 'unixepoch') AS \"to\", kind, n AS times, nullif (text, '') AS why FROM mark "
          "ORDER BY id;",
};

/* Schema 3 had a row's struct in the column `data`. The history comes first: it is salvaged if a
   row of the others is damaged.  */
static const struct {
    const char *select; /* data, then the texts */
    sql_t put;
    const wm_row_t *type;
} of_structs[] = {
    { "SELECT data FROM old_minute", SQL_PUT_MINUTE, &wm_row_minute },
    { "SELECT data, label, device, why FROM old_worker", SQL_PUT_SPAN, &wm_row_worker },
    { "SELECT data, pins FROM old_campaign", SQL_PUT_CAMPAIGN, &wm_row_campaign },
    { "SELECT data, path, name, text FROM old_input", SQL_PUT_INPUT, &wm_row_input },
    { "SELECT data, text FROM old_batch", SQL_ADD_BATCH, &wm_row_batch },
    { "SELECT data FROM old_progress", SQL_PUT_POSITION, &wm_row_position },
};
#define N_OF_STRUCTS (sizeof of_structs / sizeof *of_structs)

static const char before[] = "ALTER TABLE campaign RENAME TO old_campaign;"
                             "ALTER TABLE progress RENAME TO old_progress;"
                             "ALTER TABLE input RENAME TO old_input;"
                             "ALTER TABLE signature RENAME TO old_signature;"
                             "ALTER TABLE batch RENAME TO old_batch;"
                             "ALTER TABLE counter RENAME TO old_counter;"
                             "ALTER TABLE minute RENAME TO old_minute;"
                             "ALTER TABLE worker RENAME TO old_worker;";
static const char after[] = "INSERT INTO signature SELECT id, text, sum FROM old_signature;"
                            "INSERT INTO counter SELECT name, value, sum FROM old_counter;"
                            "DROP TABLE old_campaign; DROP TABLE old_progress;"
                            "DROP TABLE old_input; DROP TABLE old_signature;"
                            "DROP TABLE old_batch; DROP TABLE old_counter;"
                            "DROP TABLE old_minute; DROP TABLE old_worker;";

static int get_number (void *argument, int n, char **value, char **name)
{
    (void) n, (void) name;
    *(int *) argument = atoi (value[0]);
    return 0;
}

int wm_ledger_get_version (wm_ledger_t *self, int *version)
{
    int application = 0;
    *version = 0;
    int code = sqlite3_exec (self->db, "PRAGMA user_version", get_number, version, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec (self->db, "PRAGMA application_id", get_number, &application, NULL);
    if (code == SQLITE_OK && application != (*version > 1 ? APPLICATION_ID (*version) : 0))
        code = SQLITE_CORRUPT;
    return code;
}

int wm_ledger_put_version (wm_ledger_t *self)
{
    char text[100];
    snprintf (text, sizeof text, "PRAGMA user_version = %d; PRAGMA application_id = %d",
              WM_LEDGER_SCHEMA, APPLICATION_ID (WM_LEDGER_SCHEMA));
    return sqlite3_exec (self->db, text, NULL, NULL, NULL);
}

/* Copies the ledger as it is to `path`, durably. An SQLite code.  */
static int back_up (wm_ledger_t *self, const char *path)
{
    if (unlink (path) != 0 && errno != ENOENT) /* of a migration that was killed */
        return SQLITE_CANTOPEN;
    char *text = sqlite3_mprintf ("VACUUM INTO %Q", path);
    const int code = text ? sqlite3_exec (self->db, text, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free (text);
    if (code != SQLITE_OK)
        return code;
    char folder[PATH_MAX];
    snprintf (folder, sizeof folder, "%s", path);
    const int fd = open (path, O_RDONLY | O_CLOEXEC);
    const int failed = fd < 0 || fsync (fd) != 0 || wm_folder_sync (dirname (folder)) != 0;
    if (fd >= 0)
        close (fd);
    return failed ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

/* Copies a row of schema 3. SQLITE_CORRUPT: it is damaged.  */
static int copy_row (wm_ledger_t *self, size_t which, sqlite3_stmt *from)
{
    const wm_row_t *type = of_structs[which].type;
    uint64_t row[64], sum;
    const char *text[3] = { NULL };
    if (sqlite3_column_bytes (from, 0) != (int) (type->bytes + sizeof sum))
        return SQLITE_CORRUPT;
    memcpy (row, sqlite3_column_blob (from, 0), type->bytes + sizeof sum);
    memcpy (&sum, (char *) row + type->bytes, sizeof sum);
    for (int i = 1; i < sqlite3_column_count (from); i++)
        text[i - 1] = (const char *) sqlite3_column_text (from, i);
    if (sum != wm_row_sum (row, type->bytes, text[0], text[1], text[2]))
        return SQLITE_CORRUPT;
    return wm_ledger_put (self, of_structs[which].put, type, row, text[0], text[1], text[2]);
}

/* A damaged row of the history is left out: the rest of it is kept if the ledger is made again.  */
static int copy_rows (wm_ledger_t *self, size_t which)
{
    sqlite3_stmt *from = NULL;
    bool is_damaged = false;
    int code = sqlite3_prepare_v2 (self->db, of_structs[which].select, -1, &from, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step (from)) == SQLITE_ROW) {
        code = copy_row (self, which, from);
        is_damaged |= code == SQLITE_CORRUPT;
        code = code == SQLITE_CORRUPT ? SQLITE_OK : code;
    }
    sqlite3_finalize (from);
    return code != SQLITE_DONE ? code : is_damaged ? SQLITE_CORRUPT : SQLITE_OK;
}

/* From schema 3 to that of this release.  */
static int move_to_columns (wm_ledger_t *self)
{
    bool is_damaged = false;
    int code = sqlite3_exec (self->db, before, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec (self->db, wm_ledger_schema, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = wm_ledger_prepare (self);
    for (size_t i = 0; i < N_OF_STRUCTS && code == SQLITE_OK; i++) {
        code = copy_rows (self, i);
        is_damaged |= code == SQLITE_CORRUPT;
        code = code == SQLITE_CORRUPT ? SQLITE_OK : code;
    }
    if (code == SQLITE_OK && is_damaged)
        return SQLITE_CORRUPT;
    return code == SQLITE_OK ? sqlite3_exec (self->db, after, NULL, NULL, NULL) : code;
}

int wm_ledger_migrate (wm_ledger_t *self, int version)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%s.v%d", self->path, version);
    int code = back_up (self, path);
    if (code == SQLITE_OK)
        code = sqlite3_exec (self->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    for (int i = version; i != 3 && i < WM_LEDGER_SCHEMA && code == SQLITE_OK; i++)
        code = sqlite3_exec (self->db, step[i], NULL, NULL, NULL);
    if (code == SQLITE_OK && version <= 3)
        code = move_to_columns (self);
    if (code == SQLITE_OK)
        code = wm_ledger_put_version (self);
    WM_FAILPOINT ("broker-ledger-migrate");
    if (code == SQLITE_OK)
        code = sqlite3_exec (self->db, "COMMIT", NULL, NULL, NULL);
    WM_FAILPOINT ("broker-ledger-migrated");
    if (code == SQLITE_OK)
        fprintf (stderr,
                 "wiremill-broker: %s had schema %d and has %d now; the old file is kept as %s\n",
                 self->path, version, WM_LEDGER_SCHEMA, path);
    return code;
}
