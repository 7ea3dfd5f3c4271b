/* wm_campaign.h - the folder of a campaign: its lock, its place, its journal and ledger opened.

   DIR/lock (one master: flock), DIR/endpoint.json (where the broker is, while it runs), DIR/journal,
   DIR/ledger.db. Thread: one.

   The lock's first line is the pid of its holder, for people. Its second says whether a broker had
   the campaign and did not end well ("running"), and which file it is (inode and time of birth): a
   copy of the folder is another file. A stopped campaign may be copied and each copy lives on by
   itself; a copy of one that was running may hold files of different moments, and is refused until
   wm_rebuild has looked at it. (A killed campaign that was moved to another file system looks the
   same.)  */
#ifndef WM_CAMPAIGN_H
#define WM_CAMPAIGN_H

#include "broker/wm_journal.h"
#include "broker/wm_ledger.h"
#include "schema/wm_pins.h"

typedef enum {
    WM_CAMPAIGN_SERVE,   /* makes the folder; "running" until it is closed */
    WM_CAMPAIGN_LOOK,    /* leaves the lock's second line as it is */
    WM_CAMPAIGN_REBUILD, /* as LOOK; a copy of a running one is let in */
} wm_campaign_for_t;

typedef struct {
    const char *dir;  /* lent */
    int lock_fd;      /* -1: not locked */
    int is_copy;      /* of a running one */
    char state[128];  /* second line of the lock */
    int ends_stopped; /* closing it makes it "stopped" */
    wm_journal_t *journal;
    wm_ledger_t *ledger;
    wm_journal_found_t found; /* of the replay when it was opened */
    uint64_t epoch;           /* being written; 0 until started */
    uint8_t id[16];
    int64_t created_ns; /* wall clock; 0: it has no CAMPAIGN record yet */
    wm_pins_t pins;
} wm_campaign_t;

/* Whether a journal or a ledger lies in DIR.  */
int wm_campaign_is_there (const char *dir);

/* Refuses network file systems, and takes the lock within wait_ms. WM_EAGAIN: another has it (text
   names its pid) or the disk is full; WM_EBATCH: a copy of a running one, or a network's; WM_EHOST:
   anything else.  */
wm_fault_t wm_campaign_lock (wm_campaign_t *self, const char *dir, wm_campaign_for_t what,
                             int64_t wait_ms, wm_error_t *error);

/* Opens journal and ledger (in ledger_dir; NULL: the folder's own) and brings the ledger up to the
   journal; one that is of another campaign than the journal is set aside and made anew. Then id,
   created_ns and pins are those of the CAMPAIGN record, if there is one. What was found damaged is
   said on stderr. WM_EBATCH where a newer wiremill wrote it, or where a journal has records and nobody
   knows whose: nothing is begun anew over them. ops: of the journal (NULL: POSIX).  */
wm_fault_t wm_campaign_open (wm_campaign_t *self, const char *ledger_dir,
                             const wm_storage_ops_t *ops, wm_error_t *error);

/* Compares with the pins given, or pins a new campaign to them; begins an epoch, with the CAMPAIGN
   record in it. WM_EBATCH: another pin, named.  */
wm_fault_t wm_campaign_start (wm_campaign_t *self, const wm_pins_t *given, wm_error_t *error);

/* Journals a record, durably, and takes it into the ledger's next commit.  */
wm_fault_t wm_campaign_record (wm_campaign_t *self, wm_record_t *record, wm_error_t *error);

/* Writes DIR/endpoint.json (temporary name, then renamed); removes it.  */
wm_fault_t wm_campaign_announce (const wm_campaign_t *self, const char *endpoint,
                                 wm_error_t *error);
void wm_campaign_unannounce (const wm_campaign_t *self);

/* While it is served: endpoint.json is written again if it is gone. WM_EBATCH: the folder is not there
   any more, or another one is.  */
wm_fault_t wm_campaign_look (const wm_campaign_t *self, const char *endpoint, wm_error_t *error);

/* Closes everything and lets go of the lock. Idempotent.  */
void wm_campaign_close (wm_campaign_t *self);

#endif
