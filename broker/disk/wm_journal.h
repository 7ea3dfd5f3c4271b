/* wm_journal.h - the journal: everything that happened, on disk before any effect of it leaves.

   A folder DIR/journal of segments, each written by one epoch and never changed later:
     <epoch>-<number>.keep    everything but RESULT; small; is never deleted
     <epoch>-<number>.result  RESULT records, up to 256 MiB; deleted when nothing in it is live
   Space is reserved with posix_fallocate ahead of the records, in steps that begin small, so that a
   full disk is noticed there and never in the middle of a record. Nothing is truncated or written
   twice: a new epoch, and every failed append, begins a new segment.

   A campaign starts like this (wm_ledger.h has the other half):
     wm_journal_open; wm_ledger_open; wm_ledger_catch_up (replays what the ledger does not know);
     wm_journal_start (epoch = max (wm_journal_epoch, the ledger's) + 1);
     wm_ledger_load (one callback per input and batch); wm_journal_sweep.
   and runs like this:
     wm_journal_append ... append; wm_journal_sync; after it the effects: ACKs, and wm_ledger_apply
     for the ledger; wm_ledger_commit twice a second, and after it wm_journal_sweep.

   Invariants
     1. A record counts when wm_journal_sync has returned after its append.
     2. A failed fsync ends the process (_exit 1, one line): the page cache cannot be trusted any
        more. It is never retried.
     3. After WM_EAGAIN or WM_EHOST of an append the journal is as it was before it.
     4. Records found by replay are synced before it shows them: they may have been in the page
        cache only.

   Thread: one. Blocks on the disk.  */
#ifndef WM_JOURNAL_H
#define WM_JOURNAL_H

#include "schema/base/wm_fault.h"
#include "schema/wm_record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Every file operation of the journal goes through this table, so that tests and the power-cut
   simulator can replace it. All as in POSIX (-1 and errno) unless noted. `path` is absolute
   or relative to the working directory, as DIR was given.  */
typedef struct {
    void *context;                                        /* first argument of each */
    int (*make_folder) (void *context, const char *path); /* EEXIST is success */
    int (*list) (void *context, const char *path,         /* names, in any order */
                 void (*each) (void *argument, const char *name), void *argument);
    int (*create) (void *context, const char *path); /* O_CREAT O_EXCL O_RDWR: fd */
    int (*open) (void *context, const char *path);   /* O_RDWR: fd */
    int (*close) (void *context, int fd);
    int64_t (*size) (void *context, int fd);
    int (*allocate) (void *context, int fd, int64_t offset, int64_t bytes); /* posix_fallocate, but
                                                                     -1 and errno */
    ssize_t (*read) (void *context, int fd, void *buffer, size_t bytes, int64_t offset);
    ssize_t (*write) (void *context, int fd, const void *buffer, size_t bytes, int64_t offset);
    int (*sync) (void *context, int fd);   /* fdatasync */
    int (*forget) (void *context, int fd); /* drops clean cached pages: reads come from the disk */
    int (*sync_folder) (void *context, const char *path); /* fsync of a folder */
    int (*remove) (void *context, const char *path);
    uint64_t segment_bytes_max; /* a smaller limit for tests; 0: the journal's own */
} wm_storage_ops_t;

extern const wm_storage_ops_t wm_storage_posix;

typedef struct wm_journal_t wm_journal_t;

/* Opens DIR/journal, making it if needed in DIR, which is there, and reads the names and first
   records of its segments. `ops` is lent (NULL: POSIX). NULL on failure with *error (WM_EAGAIN:
   disk full). The caller holds the campaign's lock.  */
wm_journal_t *wm_journal_open (const char *dir, const wm_storage_ops_t *ops, wm_error_t *error);
void wm_journal_destroy (wm_journal_t **self_p);

/* Returns the highest epoch that ever opened a segment here; 0 for a new journal.  */
uint64_t wm_journal_epoch (const wm_journal_t *self);

/* What a replay found.  */
typedef struct {
    uint64_t n_record;      /* shown to the callback */
    uint64_t n_lost;        /* records that were durable and are missing: damage */
    uint64_t n_torn;        /* records above everything known durable: an ordinary torn tail */
    uint64_t damaged_bytes; /* skipped, neither records nor zeros; torn tails included */
    char text[200];         /* where the first loss is; "" without losses */
} wm_journal_found_t;

/* Gives every valid record after (epoch, sequence), in order, to `each` (record and what it points
   to are lent for the call). `each` returns WM_OK to go on; any other fault ends the replay and is
   returned. (0, 0): everything. Damage is skipped to the next valid record and counted, never a
   failure; WM_EHOST where a segment cannot be read at all (text names it). Only before
   wm_journal_start.  */
typedef wm_fault_t (wm_journal_each_fn) (void *argument, const wm_record_t *record,
                                         const wm_place_t *place, wm_error_t *error);
wm_fault_t wm_journal_replay (wm_journal_t *self, uint64_t epoch, uint64_t sequence,
                              wm_journal_each_fn *each, void *argument, wm_journal_found_t *found,
                              wm_error_t *error);

/* Begins an epoch, larger than wm_journal_epoch; it is on disk on return. WM_EAGAIN: disk full, try
   again later.  */
wm_fault_t wm_journal_start (wm_journal_t *self, uint64_t epoch, wm_error_t *error);

/* Appends a record, whose epoch, sequence and durable are set here; *place is where (may be
   NULL). WM_EAGAIN: disk full, nothing happened, try again later. WM_EHOST: the disk refused
   otherwise, or a part is over its limit; nothing happened either. A RESULT marks its segment as
   needed by its input; FILE_WRITTEN, and KICK or HELD of the whole input, remove that mark from all
   segments.  */
wm_fault_t wm_journal_append (wm_journal_t *self, wm_record_t *record, wm_place_t *place,
                              wm_error_t *error);

/* Makes everything appended durable; ends the process if that fails. Cheap when nothing is dirty.
 */
void wm_journal_sync (wm_journal_t *self);

/* Reads and checks the record at `place`; its pointers are valid until the next call.
   WM_EHOST: it is damaged or missing, as the text explains (the batch must be scored again).  */
wm_fault_t wm_journal_read (wm_journal_t *self, const wm_place_t *place, wm_record_t *record,
                            wm_error_t *error);

/* Marks the segment of `place` as needed by `input` (wm_ledger_load does, row by row). Returns
   false if the segment no longer exists.  */
bool wm_journal_hold (wm_journal_t *self, const wm_place_t *place, uint32_t input);

/* Deletes the RESULT segments that no input needs. Syncs first. Returns how many. On a full disk
   they stay for the next call. Cheap if no segment is to go.  */
size_t wm_journal_sweep (wm_journal_t *self);

/* Returns the bytes of all segments.  */
uint64_t wm_journal_bytes (const wm_journal_t *self);

#endif
