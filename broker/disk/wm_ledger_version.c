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
static const char *const step[WM_LEDGER_SCHEMA] = {
    [1] = "CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL, sum INTEGER NOT "
          "NULL) STRICT, WITHOUT ROWID;",
    [2] = "CREATE TABLE minute (begin_s INTEGER PRIMARY KEY, span_s INTEGER NOT NULL, data BLOB "
          "NOT NULL) STRICT;"
          "CREATE TABLE worker (id INTEGER PRIMARY KEY, label TEXT NOT NULL, device TEXT NOT NULL, "
          "why TEXT NOT NULL, data BLOB NOT NULL) STRICT;",
};

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

int wm_ledger_migrate (wm_ledger_t *self, int version)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%s.v%d", self->path, version);
    int code = back_up (self, path);
    if (code == SQLITE_OK)
        code = sqlite3_exec (self->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    for (int i = version; i < WM_LEDGER_SCHEMA && code == SQLITE_OK; i++)
        code = sqlite3_exec (self->db, step[i], NULL, NULL, NULL);
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
