/* wm_recorder.h - carries records from the core into the journal, and then their effects out.

   A record that the core appends waits until the core has returned, and goes into the journal then.
   One sync serves all records of one pass of the loop; after it, and not before, each record is
   reported to the core in the order of appending, and enters the ledger's next commit. A full disk:
   records wait in memory in their order, the core hands nothing out, and every disk_full_ms the
   oldest is tried again. It also brings what the core counts into the ledger's history. The reactor
   and the simulator both run this.
   Thread: one.  */
#ifndef WM_RECORDER_H
#define WM_RECORDER_H

#include "broker/core/wm_core.h"
#include "broker/disk/wm_ledger.h"

typedef struct {
    wm_core_t *core;       /* lent, all three */
    wm_journal_t *journal; /* started */
    wm_ledger_t *ledger;
    int64_t (*now_ms) (void);
    /* One reference more, one less, of a payload's handle.  */
    void (*hold) (void *context, void *handle);
    void (*release) (void *context, void *handle);
    void *context;
    bool keeps_nothing; /* of inputs: effects are carried out at once; only what stands is kept */
    uint64_t epoch;           /* of the journal; for the history */
    int64_t (*unix_s) (void); /* NULL: the clock */
} wm_recorder_config_t;

typedef struct wm_recorder_t wm_recorder_t;

/* NULL without memory. *config is copied.  */
wm_recorder_t *wm_recorder_new (const wm_recorder_config_t *config);

/* Forgets records that are not durable; no effect of them was carried out.  */
void wm_recorder_destroy (wm_recorder_t **self_p);

/* Takes a record that the core appends; copies it, and holds its body or copies that, too, if it
   has no handle.  */
void wm_recorder_append (wm_recorder_t *self, const wm_record_t *record, const wm_payload_t *body);

/* Takes a record that stands and is not the core's; copies it.  */
void wm_recorder_note (wm_recorder_t *self, const wm_record_t *record);

/* Syncs and reports what was appended, and commits the ledger: after wm_recorder_stop.  */
void wm_recorder_flush (wm_recorder_t *self);

/* Writes what was appended into the journal. Call it when the core has returned. Returns how many
   records wait for wm_recorder_turn to sync them.  */
size_t wm_recorder_settle (wm_recorder_t *self);

/* One pass: syncs, reports to the core, commits the ledger if it is time. Returns as settle does.
 */
size_t wm_recorder_turn (wm_recorder_t *self);

/* Brings the history up to half a second ago or less, with the sessions of all workers: before it
   is read.  */
void wm_recorder_sample (wm_recorder_t *self);

/* A worker's session is about to be over (wm_core_sink_t).  */
void wm_recorder_left (wm_recorder_t *self, const wm_core_worker_t *worker);

/* Marks the time line: the broker begins to serve, and what became of the one before it.  */
void wm_recorder_begin (wm_recorder_t *self);
void wm_recorder_mark (wm_recorder_t *self, wm_mark_kind_t kind, const char *text);

/* Ends: syncs and reports what was appended, stops the core, and commits the ledger.  */
void wm_recorder_stop (wm_recorder_t *self, const char *text);

/* As wm_ledger_copy; what is durable when it begins is in it.  */
wm_fault_t wm_recorder_copy (wm_recorder_t *self, bool *is_done, wm_error_t *error);

/* While the core carries out the effect of a record (wm_core_durable) and the recorder keeps
   nothing: returns that record; lent. NULL: at any other time.  */
const wm_record_t *wm_recorder_current (const wm_recorder_t *self);

/* Other than WM_OK: the disk or the database failed, and no further effect is carried out.  */
wm_fault_t wm_recorder_fault (const wm_recorder_t *self, wm_error_t *error);

#endif
