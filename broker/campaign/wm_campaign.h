/* wm_campaign.h - the folder of a campaign: its lock, its place, its journal and ledger opened.

   DIR/lock (one master: flock), DIR/endpoint.json (where the broker is, while it runs),
   DIR/journal, DIR/ledger.db. Thread: one.

   The lock's first line is the pid of its holder, for people. The second holds "running" while a
   broker has the campaign (it stays after a kill), and the file's inode and time of birth: a copy
   of the folder has another file. A stopped campaign may be copied and each copy goes on by itself;
   a copy of a running one may have files of different moments, and is refused until wm_rebuild has
   repaired it. (A killed campaign that was moved to another file system cannot be told from that.)
 */
#ifndef WM_CAMPAIGN_H
#define WM_CAMPAIGN_H

#include "broker/disk/wm_journal.h"
#include "broker/disk/wm_ledger.h"
#include "schema/session/wm_endpoint.h"
#include "schema/wm_pins.h"

#include <stdbool.h>

typedef enum {
    WM_CAMPAIGN_SERVE,   /* makes the folder; "running" until it is closed */
    WM_CAMPAIGN_READ,    /* leaves the lock's second line as it is */
    WM_CAMPAIGN_REBUILD, /* as READ; also a copy of a running one */
} wm_campaign_for_t;

typedef struct {
    const char *dir;   /* lent */
    int lock_fd;       /* -1: not locked */
    bool is_copy;      /* of a running one */
    char state[128];   /* second line of the lock */
    bool ends_stopped; /* closing it makes it "stopped" */
    wm_journal_t *journal;
    wm_ledger_t *ledger;
    wm_journal_found_t found; /* of the replay when it was opened */
    uint64_t epoch;           /* being written; 0 until started */
    uint8_t id[16];
    int64_t created_ns; /* wall clock; 0: it has no CAMPAIGN record yet */
    bool begins_again;  /* its CAMPAIGN record, not on disk yet, ends the campaign before */
    bool owes_notes;    /* the ledger has records of old notes that it has not committed */
    wm_pins_t pins;
    wm_endpoint_t where; /* the broker's, while it serves */
} wm_campaign_t;

/* Refuses network file systems, and takes the lock within wait_ms. WM_EAGAIN: another has it (text
   names its pid) or the disk is full; WM_EBATCH: a copy of a running one, or a network's; WM_EHOST:
   anything else.  */
wm_fault_t wm_campaign_lock (wm_campaign_t *self, const char *dir, wm_campaign_for_t what,
                             int64_t wait_ms, wm_error_t *error);

/* Opens journal and ledger (in ledger_dir; NULL: the folder's own) and brings the ledger up to the
   journal; a ledger of another campaign than the journal's is renamed and made again. Then id,
   created_ns and pins are those of the CAMPAIGN record, if there is one. Damage is logged.
   WM_EBATCH: a newer wiremill wrote it, or the journal has records but no CAMPAIGN record is left:
   nothing is written over them. ops: of the journal (NULL: POSIX).  */
wm_fault_t wm_campaign_open (wm_campaign_t *self, const char *ledger_dir,
                             const wm_storage_ops_t *ops, wm_error_t *error);

/* Compares with the pins given, or pins a new campaign to them; begins an epoch, with the CAMPAIGN
   record in it. A campaign with other pins in which nothing is committed (no result that counts, no
   output ever written) begins again with those given, without inputs and as another campaign, so
   that no peer of the one before goes on with it: stderr has a line of what differs. WM_EBATCH:
   another pin, named, where something is committed. WM_EAGAIN: the disk is full, call again.  */
wm_fault_t wm_campaign_start (wm_campaign_t *self, const wm_pins_t *given, wm_error_t *error);

/* Appends a record durably and adds it to the ledger's next commit.  */
wm_fault_t wm_campaign_record (wm_campaign_t *self, wm_record_t *record, wm_error_t *error);

/* Writes DIR/endpoint.json from `where`, with the campaign's id; removes it.  */
wm_fault_t wm_campaign_announce (wm_campaign_t *self, wm_error_t *error);
void wm_campaign_unannounce (const wm_campaign_t *self);

/* Checks a campaign that is served; writes endpoint.json again if it is missing. WM_EBATCH: the
   folder was removed or replaced.  */
wm_fault_t wm_campaign_check (wm_campaign_t *self, wm_error_t *error);

/* Closes everything and releases the lock. Idempotent.  */
void wm_campaign_close (wm_campaign_t *self);

#endif
