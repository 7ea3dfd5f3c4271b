/* wm_ledger.h - the ledger: an index of the journal, so that a start does not read all of it.

   DIR/ledger.db, SQLite (schema/ledger.sql). It derives its rows from journal records alone and
   notes the (epoch, sequence) of the last; whatever happens to it, the journal makes it again.
   A row per input, kept to the end; a row per batch only while its input is open. Every row carries
   a checksum and the rows are counted, because SQLite would believe a flipped bit.

   One connection in all (exclusive locking, set before WAL): readers ask the broker.
   Thread: one. apply never blocks; commit, open and load block on the disk.  */
#ifndef WM_LEDGER_H
#define WM_LEDGER_H

#include "broker/disk/wm_journal.h"
#include "schema/wm_history.h"
#include "schema/wm_ledger_row.h"

typedef struct wm_ledger_t wm_ledger_t;

/* Opens DIR/ledger.db or makes it (dir NULL: in memory). One that is damaged is renamed to
   ledger.db.damaged-N and made again (catch_up fills it). One of an older schema is backed up as
   ledger.db.v<schema> and migrated in one transaction. `vfs` names SQLite's VFS (NULL: default; the
   simulator has its own; lent). NULL on failure with *error: a newer schema is refused naming
   both versions (WM_EBATCH); WM_EAGAIN: disk full, or another process has it.  */
wm_ledger_t *wm_ledger_open (const char *dir, const char *vfs, wm_error_t *error);
void wm_ledger_destroy (wm_ledger_t **self_p);

/* Renames the ledger as if it were damaged, for this reason, and makes an empty one.  */
wm_fault_t wm_ledger_begin_again (wm_ledger_t *self, const char *why, wm_error_t *error);

/* Returns which ledger was renamed and why; "" if none was. Lent.  */
const char *wm_ledger_set_aside (const wm_ledger_t *self);

/* The last record that the ledger on disk has applied; (0, 0) when new.  */
void wm_ledger_position (const wm_ledger_t *self, uint64_t *epoch, uint64_t *sequence);

/* Replays the journal after the ledger's position into the ledger and commits. *found as of
   wm_journal_replay.  */
wm_fault_t wm_ledger_catch_up (wm_ledger_t *self, wm_journal_t *journal, wm_journal_found_t *found,
                               wm_error_t *error);

/* Adds a durable record to the next commit. Memory only; what `record` points to is copied.  */
void wm_ledger_apply (wm_ledger_t *self, const wm_record_t *record, const wm_place_t *place);

/* One transaction for everything applied since the last. WM_EAGAIN: disk full; nothing is lost, the
   same records go with the next commit. WM_EHOST: the disk or the file is bad. A failed fsync ends
   the process.  */
wm_fault_t wm_ledger_commit (wm_ledger_t *self, wm_error_t *error);

/* Sets a counter that goes with every commit from now on (at most 32, names of up to 23 bytes).  */
void wm_ledger_counter (wm_ledger_t *self, const char *name, uint64_t value);

/* Returns the number of records applied and not yet committed.  */
size_t wm_ledger_pending (const wm_ledger_t *self);

/* ---- history (wm_history.h) ------------------------------------------------------------------ */

/* Adds what happened since the last call to the second of this Unix time, for the next commit;
   hits, batches and held ones are those of records applied and of `more`. Nothing at all, and no
   worker: no row.  */
void wm_ledger_add_history (wm_ledger_t *self, int64_t unix_s, const wm_tally_t *more,
                            uint32_t n_worker, uint64_t journal_bytes);

/* Puts a worker's session, new or changed, into the next commit.  */
void wm_ledger_put_span (wm_ledger_t *self, const wm_worker_span_t *span);

/* Puts a mark of this Unix time into the next commit; more of the same within a burst count in the
   mark before.  */
void wm_ledger_mark (wm_ledger_t *self, int64_t unix_s, wm_mark_kind_t kind, const char *text);

/* Returns mark i, from 0, committed or not, in the order of their ids; NULL: there are no more.
   Lent until the next one is made.  */
const wm_mark_t *wm_ledger_mark_at (const wm_ledger_t *self, size_t i);

/* Returns whether a minute of rows has ended, or a worker's session or a mark changed, since the
   last commit.  */
bool wm_ledger_owes_history (const wm_ledger_t *self);

/* Call `take` with the rows from `from` on, in their order, committed or not, until it returns
   false. The first may begin before: one that was made of the second asked for and others.
   WM_EHOST: the file cannot be read.  */
wm_fault_t wm_ledger_minutes (wm_ledger_t *self, int64_t from_s,
                              bool (*take) (void *argument, const wm_history_row_t *minute),
                              void *argument, wm_error_t *error);
wm_fault_t wm_ledger_spans (wm_ledger_t *self, uint64_t from_id,
                            bool (*take) (void *argument, const wm_worker_span_t *span),
                            void *argument, wm_error_t *error);

/* Returns how many sessions of workers were forgotten, the oldest first.  */
uint64_t wm_ledger_spans_dropped (const wm_ledger_t *self);

/* The campaign as its CAMPAIGN record gave it.  */
typedef struct {
    uint8_t id[16];
    int64_t created_ns;
    const char *pins; /* terminated; lent for the life of the ledger */
    size_t pins_bytes;
} wm_ledger_campaign_t;

/* Called in this order: campaign (if there is one), counters, records that stand (without their
   payloads; name and text are not terminated), inputs by id, batches of inputs that are open, by
   key. Any may be NULL. What they point to is lent for the call.  */
typedef struct {
    void (*campaign) (void *argument, const wm_ledger_campaign_t *campaign);
    void (*input) (void *argument, const wm_ledger_input_t *input);
    void (*batch) (void *argument, const wm_ledger_batch_t *batch);
    void (*counter) (void *argument, const char *name, uint64_t value);
    void (*standing) (void *argument, const wm_record_t *record, const wm_place_t *place);
} wm_ledger_load_t;

/* Reads everything committed. Each returned batch is held in `journal` (wm_journal_hold); one whose
   record is missing is not shown (it is scored again) but counted in *n_gone. `journal` may be NULL
   (readers of a stopped campaign); n_gone too.  */
wm_fault_t wm_ledger_load (wm_ledger_t *self, wm_journal_t *journal, const wm_ledger_load_t *to,
                           void *argument, uint64_t *n_gone, wm_error_t *error);

/* Whether a record of this type and name stands as of the last commit, or one with this text too
   waits for the next.  */
bool wm_ledger_has_standing (wm_ledger_t *self, const wm_record_t *record);

/* Returns an engine signature; "" for an id that does not exist. Lent for the life of the ledger.
 */
const char *wm_ledger_signature (const wm_ledger_t *self, uint32_t id);

/* Copies what is committed, for readers, to DIR/ledger-copy.db, which is there once it is whole,
   until the ledger is destroyed. A call copies a piece of 1 MiB, so that a loop can do other things
   between the pieces; *is_done: that was the last. Commits go on meanwhile, and into the copy.
   WM_EAGAIN: the disk has no room; WM_EHOST: the copy cannot be written. Neither changes the
   ledger.  */
#define WM_LEDGER_COPY "ledger-copy.db"
wm_fault_t wm_ledger_copy (wm_ledger_t *self, bool *is_done, wm_error_t *error);

/* Removes the copy, and one that is being made: a full disk needs its room.  */
void wm_ledger_drop_copy (wm_ledger_t *self);

/* Returns the open database, to read; lent.  */
struct sqlite3 *wm_ledger_database (wm_ledger_t *self);

/* Returns the bytes of ledger.db and its WAL.  */
uint64_t wm_ledger_bytes (const wm_ledger_t *self);

#endif
