/* wm_ledger.c - opens the ledger or makes it again, verifies every row, loads it.

   Trust: a ledger is read through once when it is opened. If SQLite refuses the file, a row's sum
   is wrong or rows are missing, the file is renamed and a new one begun: the journal fills it.

   Catch-up: the ledger is an index and may be older than the journal, never newer: a record is
   applied only after its fdatasync, and rows are committed in groups, twice a second. Each commit
   notes, in the same transaction, the (epoch, sequence) of its last record. So whatever a crash, a
   lost WAL (one flipped bit silently drops what follows it), a restored backup or a deleted file
   does, the ledger is the state after exactly that record, and replaying the journal from there
   gives the state after the last one. An empty ledger is position (0, 0): everything is replayed.
   Applying is deterministic and commits every CATCH_UP_RECORDS records, so that a start that is
   killed goes on where its last commit ended.  */
#include "broker/disk/wm_ledger_private.h"
#include "schema/base/wm_failpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A transaction of a replay: large enough that its fsync is cheap.  */
#define CATCH_UP_RECORDS 8192u

/* ---- verify ---------------------------------------------------------------------------------- */

/* Each takes the current row of the statement; false if it is damaged.  */
static bool take_campaign (wm_ledger_t *self, sqlite3_stmt *statement)
{
    const char *pins = wm_ledger_text (statement, &wm_row_campaign, 0);
    if (!wm_row_get (&wm_row_campaign, statement, &self->campaign, pins, NULL, NULL))
        return false;
    self->pins = strdup (pins);
    return self->pins;
}

static bool take_position (wm_ledger_t *self, sqlite3_stmt *statement)
{
    return wm_row_get (&wm_row_position, statement, &self->position, NULL, NULL, NULL);
}

static bool take_signature (wm_ledger_t *self, sqlite3_stmt *statement)
{
    const uint64_t id = (uint64_t) sqlite3_column_int64 (statement, 0);
    const char *text = (const char *) sqlite3_column_text (statement, 1);
    const uint64_t sum = wm_row_sum (&id, sizeof id, text, NULL, NULL);
    if (!text || sum != (uint64_t) sqlite3_column_int64 (statement, 2) ||
        id != self->n_signature + 1)
        return 0;
    wm_ledger_intern (self, text, strlen (text));
    self->n_signature_stored = self->n_signature;
    return self->n_signature == id;
}

static bool take_input (wm_ledger_t *self, sqlite3_stmt *statement)
{
    (void) self;
    input_row_t row;
    return wm_ledger_get_input (statement, &row);
}

static bool get_batch (sqlite3_stmt *statement, batch_row_t *row)
{
    return wm_row_get (&wm_row_batch, statement, row, wm_ledger_text (statement, &wm_row_batch, 0),
                       NULL, NULL);
}

static bool take_batch (wm_ledger_t *self, sqlite3_stmt *statement)
{
    (void) self;
    batch_row_t row;
    return get_batch (statement, &row);
}

/* Reads a table through `take`; counts its rows. SQLITE_CORRUPT where `take` returns false.  */
static int read_table (wm_ledger_t *self, const char *select,
                       bool (*take) (wm_ledger_t *, sqlite3_stmt *), uint64_t *n)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2 (self->db, select, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    for (*n = 0; (code = sqlite3_step (statement)) == SQLITE_ROW; (*n)++)
        if (!take (self, statement)) {
            code = SQLITE_CORRUPT;
            break;
        }
    sqlite3_finalize (statement);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

#define SELECT_INPUT WM_LEDGER_INPUTS " ORDER BY id"
#define SELECT_BATCH WM_LEDGER_BATCHES " ORDER BY input, event, batch"

static bool take_counter (wm_ledger_t *self, sqlite3_stmt *statement)
{
    const uint64_t value = (uint64_t) sqlite3_column_int64 (statement, 1);
    const char *name = (const char *) sqlite3_column_text (statement, 0);
    const uint64_t sum = name ? wm_row_sum (&value, sizeof value, name, NULL, NULL) : 0;
    if (!name)
        return false;
    wm_ledger_counter (self, name, value);
    return sum == (uint64_t) sqlite3_column_int64 (statement, 2);
}

static int verify (wm_ledger_t *self)
{
    uint64_t n, n_input = 0, n_batch = 0;
    int code = read_table (self, "SELECT " WM_ROW_NAMES (WM_ROW_CAMPAIGN) ", pins FROM campaign",
                           take_campaign, &n);
    if (code == SQLITE_OK)
        code = read_table (self, "SELECT " WM_ROW_NAMES (WM_ROW_POSITION) " FROM position",
                           take_position, &n);
    if (code == SQLITE_OK)
        code = read_table (self, "SELECT id, text, sum FROM signature ORDER BY id", take_signature,
                           &n);
    if (code == SQLITE_OK)
        code = read_table (self, SELECT_INPUT, take_input, &n_input);
    if (code == SQLITE_OK)
        code = read_table (self, SELECT_BATCH, take_batch, &n_batch);
    if (code == SQLITE_OK)
        code = read_table (self, "SELECT name, value, sum FROM counter", take_counter, &n);
    if (code == SQLITE_OK)
        code = read_table (self, WM_LEDGER_STANDING, wm_ledger_take_standing, &n);
    if (code == SQLITE_OK && wm_ledger_misses_standing (self))
        return SQLITE_CORRUPT;
    if (code == SQLITE_OK)
        code = read_table (self, WM_LEDGER_MINUTES " ORDER BY begin_s", wm_ledger_take_minute, &n);
    if (code == SQLITE_OK)
        code = read_table (self, WM_LEDGER_SPANS, wm_ledger_take_span, &n);
    if (code == SQLITE_OK)
        code = read_table (self, WM_LEDGER_MARKS, wm_ledger_take_mark, &n);
    if (code == SQLITE_OK &&
        (n_input != self->position.n_input || n_batch != self->position.n_batch))
        return SQLITE_CORRUPT;
    return code;
}

/* ---- open ------------------------------------------------------------------------------------ */

static int make (wm_ledger_t *self)
{
    int code = sqlite3_exec (self->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec (self->db, wm_ledger_schema, NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = wm_ledger_put_version (self);
    WM_FAILPOINT ("broker-ledger-make");
    return code == SQLITE_OK ? sqlite3_exec (self->db, "COMMIT", NULL, NULL, NULL) : code;
}

/* Opens the file, makes the schema if it is new, migrates an older one, verifies. An SQLite code;
   *version is what the file had; nothing is done to one that is newer.
   Exclusive locking comes before WAL: then there is no shared memory, and no second connection.  */
static int try_open (wm_ledger_t *self, int *version)
{
    int code = sqlite3_open_v2 (self->path, &self->db,
                                SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                    SQLITE_OPEN_EXRESCODE,
                                self->vfs);
    if (code == SQLITE_OK)
        code = sqlite3_exec (self->db,
                             "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
                             "PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF;"
                             "PRAGMA cache_size = -16000;",
                             NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = wm_ledger_get_version (self, version);
    if (code != SQLITE_OK || *version > WM_LEDGER_SCHEMA)
        return code;
    code = *version == 0                 ? make (self)
           : *version < WM_LEDGER_SCHEMA ? wm_ledger_migrate (self, *version)
                                         : SQLITE_OK;
    if (code == SQLITE_OK)
        code = wm_ledger_prepare (self);
    return code == SQLITE_OK ? verify (self) : code;
}

static const char *name_of_copy (const wm_ledger_t *self, char path[PATH_MAX])
{
    const int bytes = (int) strlen (self->path) - (int) strlen ("ledger.db");
    snprintf (path, PATH_MAX, "%.*s" WM_LEDGER_COPY, bytes, self->path);
    return path;
}

/* Ends the copy that is being made.  */
static void end_copy (wm_ledger_t *self)
{
    sqlite3_backup_finish (self->backup);
    sqlite3_close (self->copy);
    self->backup = NULL;
    self->copy = NULL;
}

static void clear (wm_ledger_t *self)
{
    end_copy (self);
    self->history.now = (wm_history_row_t){ 0 };
    self->history.is_changed = false;
    for (sql_t i = 0; i < SQL_END; i++) {
        sqlite3_finalize (self->statement[i]);
        self->statement[i] = NULL;
    }
    sqlite3_close (self->db);
    self->db = NULL;
    free (self->pins);
    self->pins = NULL;
    for (size_t i = 0; i < self->n_signature; i++)
        free (self->signature[i]);
    self->n_signature = self->n_signature_stored = self->n_counter = self->n_standing = 0;
    self->position = (position_row_t){ 0 };
}

/* Faults that mean "this is not a ledger any more", and not "the machine cannot now".  */
static int is_damage (int code)
{
    const int primary = code & 0xff;
    return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB || primary == SQLITE_ERROR ||
           primary == SQLITE_FORMAT || primary == SQLITE_CONSTRAINT || primary == SQLITE_MISMATCH;
}

/* Renames ledger.db and its WAL to the first ledger.db.damaged-N that is free.  */
static wm_fault_t set_aside (wm_ledger_t *self, const char *why, wm_error_t *error)
{
    char to[PATH_MAX], wal[PATH_MAX], to_wal[PATH_MAX + 8];
    struct stat status;
    for (unsigned n = 1;; n++) {
        snprintf (to, sizeof to, "%s.damaged-%u", self->path, n);
        if (lstat (to, &status) != 0)
            break;
    }
    snprintf (wal, sizeof wal, "%s-wal", self->path);
    snprintf (to_wal, sizeof to_wal, "%s-wal", to);
    if ((rename (wal, to_wal) != 0 && errno != ENOENT) || rename (self->path, to) != 0)
        return wm_fault (error, WM_EHOST, "%s is damaged (%s) and cannot be renamed: %s",
                         self->path, why, strerror (errno));
    snprintf (self->set_aside, sizeof self->set_aside, "the ledger was damaged (%s): it is now %s",
              why, to);
    return WM_OK;
}

/* Whether the system refuses one of the ledger's files, or its folder, to this user. SQLite calls
   that a disk I/O error, a readonly database or a file that it is unable to open.  */
static bool find_refused (const wm_ledger_t *self, wm_error_t *error)
{
    char path[PATH_MAX + 8];
    const char *slash = strrchr (self->path, '/');
    snprintf (path, sizeof path, "%.*s", slash ? (int) (slash - self->path) : 0, self->path);
    for (int i = 0; i < 3; i++) {
        if (i)
            snprintf (path, sizeof path, "%s%s", self->path, i == 1 ? "" : "-wal");
        if (access (path, R_OK | W_OK | (i ? 0 : X_OK)) &&
            (errno == EACCES || errno == EPERM))
            return wm_fault (error, WM_EBATCH,
                             "this user may not read and write %s, a part of the campaign: %s; ask "
                             "its owner, or root, to allow it",
                             path, strerror (errno));
    }
    return false;
}

static wm_fault_t open_or_remake (wm_ledger_t *self, wm_error_t *error)
{
    for (int attempt = 0;; attempt++) {
        int version = 0;
        const int code = try_open (self, &version);
        if (code == SQLITE_OK && version <= WM_LEDGER_SCHEMA)
            return WM_OK;
        if (code == SQLITE_OK)
            return wm_fault (error, WM_EBATCH,
                             "%s has schema %d, this wiremill (" WM_VERSION ") knows up to %d: "
                             "continue this campaign with the newer wiremill",
                             self->path, version, WM_LEDGER_SCHEMA);
        if (attempt || !is_damage (code))
            return find_refused (self, error) ? error->fault
                                              : wm_ledger_fault (self, code, "open", error);
        char why[160];
        snprintf (why, sizeof why, "%s",
                  code == SQLITE_CORRUPT ? "a row or its checksum is wrong"
                                         : sqlite3_errmsg (self->db));
        wm_ledger_salvage (self);
        clear (self);
        const wm_fault_t fault = set_aside (self, why, error);
        if (fault != WM_OK)
            return fault;
    }
}

wm_fault_t wm_ledger_begin_again (wm_ledger_t *self, const char *why, wm_error_t *error)
{
    wm_ledger_salvage (self);
    clear (self);
    const wm_fault_t fault = set_aside (self, why, error);
    return fault == WM_OK ? open_or_remake (self, error) : fault;
}

const char *wm_ledger_set_aside (const wm_ledger_t *self)
{
    return self->set_aside;
}

wm_ledger_t *wm_ledger_open (const char *dir, const char *vfs, wm_error_t *error)
{
    wm_ledger_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "out of memory in the ledger");
        return NULL;
    }
    wm_fault_t fault = WM_OK;
    self->vfs = vfs;
    if (!dir)
        strcpy (self->path, ":memory:");
    else if (snprintf (self->path, sizeof self->path, "%s/ledger.db", dir) >=
             (int) sizeof self->path)
        fault = wm_fault (error, WM_EHOST, "the path of the campaign is too long: %.300s", dir);
    if (fault == WM_OK)
        fault = open_or_remake (self, error);
    self->has_copy = !fault && dir; /* one that a broker left that was killed */
    if (fault != WM_OK)
        wm_ledger_destroy (&self);
    return self;
}

void wm_ledger_destroy (wm_ledger_t **self_p)
{
    wm_ledger_t *self = *self_p;
    if (!self)
        return;
    wm_ledger_drop_copy (self);
    clear (self);
    free (self->signature);
    free (self->pending);
    free (self->pool);
    free (self->history.ended);
    free (self->history.span);
    free (self->marks.mark);
    free (self);
    *self_p = NULL;
}

void wm_ledger_position (const wm_ledger_t *self, uint64_t *epoch, uint64_t *sequence)
{
    *epoch = self->position.epoch;
    *sequence = self->position.sequence;
}

/* ---- catch up, load -------------------------------------------------------------------------- */

static wm_fault_t catch_one (void *argument, const wm_record_t *record, const wm_place_t *place,
                             wm_error_t *error)
{
    wm_ledger_t *self = argument;
    wm_ledger_apply (self, record, place);
    wm_ledger_count_rows (self, record);
    return self->n_pending < CATCH_UP_RECORDS ? WM_OK : wm_ledger_commit (self, error);
}

static void count_input (void *argument, const wm_ledger_input_t *input)
{
    if (input->state == WM_LEDGER_WRITTEN)
        *(uint64_t *) argument += input->n_hit - input->n_held;
}

static void count_batch (void *argument, const wm_ledger_batch_t *batch)
{
    if (batch->state == WM_LEDGER_RETURNED)
        *(uint64_t *) argument += batch->n_hit;
}

static bool count_minute (void *argument, const wm_history_row_t *minute)
{
    *(uint64_t *) argument += minute->tally.count[WM_COUNT_HITS];
    return true;
}

/* Hits that the ledger knows and no minute counts get a row without a time.  */
static wm_fault_t replay_end (wm_ledger_t *self, wm_error_t *error)
{
    static const wm_ledger_load_t of_hits = { .input = count_input, .batch = count_batch };
    uint64_t n_scored = 0, n_counted = 0;
    if (!self->history.is_replay)
        return WM_OK;
    wm_fault_t fault = wm_ledger_commit (self, error);
    if (!fault)
        fault = wm_ledger_load (self, NULL, &of_hits, &n_scored, NULL, error);
    if (!fault)
        fault = wm_ledger_minutes (self, 0, count_minute, &n_counted, error);
    if (!fault)
        wm_ledger_replay_counted (self, n_scored > n_counted ? n_scored - n_counted : 0);
    return fault;
}

wm_fault_t wm_ledger_catch_up (wm_ledger_t *self, wm_journal_t *journal, wm_journal_found_t *found,
                               wm_error_t *error)
{
    self->n_pending = 0; /* of an earlier attempt: the journal has them */
    self->pool_bytes = 0;
    wm_ledger_replay (self, !self->position.epoch);
    wm_ledger_marks_replay (self, true);
    wm_fault_t fault = wm_journal_replay (journal, self->position.epoch, self->position.sequence,
                                          catch_one, self, found, error);
    if (fault == WM_OK)
        fault = replay_end (self, error);
    wm_ledger_marks_replay (self, false);
    return fault == WM_OK ? wm_ledger_commit (self, error) : fault;
}

static int load_inputs (wm_ledger_t *self, const wm_ledger_load_t *to, void *argument)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2 (self->db, SELECT_INPUT, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    input_row_t row;
    while ((code = sqlite3_step (statement)) == SQLITE_ROW &&
           wm_ledger_get_input (statement, &row)) {
        wm_ledger_input_t input = {
            .id = row.id,
            .generation = row.generation,
            .state = row.state,
            .path = wm_ledger_text (statement, &wm_row_input, 0),
            .name = wm_ledger_text (statement, &wm_row_input, 1),
            .size = row.size,
            .mtime_ns = row.mtime_ns,
            .n_event = row.n_event,
            .is_suspect = row.is_suspect,
            .out_size = row.out_size,
            .out_mtime_ns = row.out_mtime_ns,
            .n_hit = row.n_hit,
            .n_held = row.n_held,
            .n_batch_held = row.state == WM_LEDGER_WRITTEN ? row.code : 0,
            .code = row.state == WM_LEDGER_HELD ? row.code : 0,
            .text = wm_ledger_text (statement, &wm_row_input, 2),
        };
        memcpy (input.out_digest, row.out_digest, sizeof input.out_digest);
        to->input (argument, &input);
    }
    sqlite3_finalize (statement);
    return code;
}

static int load_batches (wm_ledger_t *self, wm_journal_t *journal, const wm_ledger_load_t *to,
                         void *argument, uint64_t *n_gone)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2 (self->db, SELECT_BATCH, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    batch_row_t row;
    while ((code = sqlite3_step (statement)) == SQLITE_ROW && get_batch (statement, &row)) {
        if (journal && row.state == WM_LEDGER_RETURNED &&
            !wm_journal_hold (journal, &row.place, row.key.input)) {
            (*n_gone)++;
            continue;
        }
        if (!to->batch)
            continue;
        wm_ledger_batch_t batch = {
            .key = row.key,
            .state = row.state,
            .n_batch = row.n_batch,
            .n_hit = row.n_hit,
            .n_held = row.n_held,
            .attempt = row.attempt,
            .place = row.place,
            .signature = row.signature,
            .code = row.code,
            .text = wm_ledger_text (statement, &wm_row_batch, 0),
        };
        memcpy (batch.digest, row.digest, sizeof batch.digest);
        to->batch (argument, &batch);
    }
    sqlite3_finalize (statement);
    return code;
}

wm_fault_t wm_ledger_load (wm_ledger_t *self, wm_journal_t *journal, const wm_ledger_load_t *to,
                           void *argument, uint64_t *n_gone, wm_error_t *error)
{
    uint64_t gone = 0;
    if (self->pins && to->campaign) {
        wm_ledger_campaign_t campaign = { .created_ns = self->campaign.created_ns,
                                          .pins = self->pins,
                                          .pins_bytes = strlen (self->pins) };
        memcpy (campaign.id, self->campaign.id, sizeof campaign.id);
        to->campaign (argument, &campaign);
    }
    for (size_t i = 0; to->counter && i < self->n_counter; i++)
        if (strcmp (self->counter[i].name, WM_LEDGER_ROWS) != 0)
            to->counter (argument, self->counter[i].name, self->counter[i].value);
    int code = to->standing ? wm_ledger_load_standing (self, to, argument) : SQLITE_DONE;
    if (code == SQLITE_DONE && to->input)
        code = load_inputs (self, to, argument);
    if (code == SQLITE_DONE && (to->batch || journal))
        code = load_batches (self, journal, to, argument, &gone);
    if (n_gone)
        *n_gone = gone;
    if (code == SQLITE_DONE)
        return WM_OK;
    if (code == SQLITE_ROW)
        return wm_fault (error, WM_EHOST,
                         "%s was damaged while it was in use: the same command again makes it "
                         "from the journal",
                         self->path);
    return wm_ledger_fault (self, code, "read", error);
}

/* ---- a copy ---------------------------------------------------------------------------------- */

#define COPY_PAGES 256 /* of 4 KiB, at a time */

static int begin_copy (wm_ledger_t *self, const char *path)
{
    if (unlink (path) && errno != ENOENT)
        return SQLITE_CANTOPEN;
    int code = sqlite3_open_v2 (path, &self->copy,
                                SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                    SQLITE_OPEN_EXRESCODE,
                                NULL);
    if (code == SQLITE_OK)
        code = sqlite3_exec (self->copy, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;",
                             NULL, NULL, NULL);
    if (code == SQLITE_OK)
        self->backup = sqlite3_backup_init (self->copy, "main", self->db, "main");
    return code != SQLITE_OK ? code : self->backup ? SQLITE_OK : sqlite3_errcode (self->copy);
}

/* Ends the copy and gives it its name.  */
static wm_fault_t name_copy (wm_ledger_t *self, const char *from, wm_error_t *error)
{
    char to[PATH_MAX];
    name_of_copy (self, to);
    end_copy (self);
    const int fd =
        open (from, O_WRONLY | O_CLOEXEC); /* it has no WAL: a reader needs to make none */
    const bool is_named = fd >= 0 && pwrite (fd, "\1\1", 2, 18) == 2 && rename (from, to) == 0;
    if (fd >= 0)
        close (fd);
    self->has_copy |= is_named;
    return !is_named
               ? wm_fault (error, WM_EHOST, "%s cannot become %s: %s", from, to, strerror (errno))
               : WM_OK;
}

wm_fault_t wm_ledger_copy (wm_ledger_t *self, bool *is_done, wm_error_t *error)
{
    char path[PATH_MAX];
    snprintf (path, sizeof path, "%s.copy", self->path);
    *is_done = false;
    int code = self->backup ? SQLITE_OK : begin_copy (self, path);
    if (code == SQLITE_OK)
        code = sqlite3_backup_step (self->backup, COPY_PAGES);
    if (code == SQLITE_OK)
        return WM_OK;
    if ((*is_done = code == SQLITE_DONE))
        return name_copy (self, path, error);
    end_copy (self);
    unlink (path);
    return wm_fault (error, (code & 0xff) == SQLITE_FULL ? WM_EAGAIN : WM_EHOST,
                     "the ledger cannot be copied to %s: %s", path, sqlite3_errstr (code));
}

void wm_ledger_drop_copy (wm_ledger_t *self)
{
    char path[PATH_MAX];
    if (!self->has_copy && !self->backup)
        return;
    end_copy (self);
    self->has_copy = false;
    unlink (name_of_copy (self, path));
    snprintf (path, sizeof path, "%s.copy", self->path);
    unlink (path);
}

sqlite3 *wm_ledger_database (wm_ledger_t *self)
{
    return self->db;
}

uint64_t wm_ledger_bytes (const wm_ledger_t *self)
{
    char wal[PATH_MAX];
    struct stat status;
    uint64_t bytes = stat (self->path, &status) == 0 ? (uint64_t) status.st_size : 0;
    snprintf (wal, sizeof wal, "%s-wal", self->path);
    return bytes + (stat (wal, &status) == 0 ? (uint64_t) status.st_size : 0);
}
