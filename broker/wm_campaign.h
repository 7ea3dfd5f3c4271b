/* wm_campaign.h - the folder of a campaign: its lock, its place, its journal and ledger opened.

   DIR/lock (one master: flock, with the holder's pid in it), DIR/endpoint.json (where the broker
   is, while it runs), DIR/journal, DIR/ledger.db. Thread: one.  */
#ifndef WM_CAMPAIGN_H
#define WM_CAMPAIGN_H

#include "broker/wm_journal.h"
#include "broker/wm_ledger.h"
#include "schema/wm_pins.h"

typedef struct {
    const char *dir; /* lent */
    int lock_fd;     /* -1: not locked */
    wm_journal_t *journal;
    wm_ledger_t *ledger;
    uint8_t id[16];
    int64_t created_ns; /* wall clock; 0: it has no CAMPAIGN record yet */
    wm_pins_t pins;
} wm_campaign_t;

/* Makes the folder if `make`, refuses network file systems, and takes the lock within wait_ms.
   WM_EAGAIN: another has it (text names its pid) or the disk is full; WM_EHOST: anything else.  */
wm_fault_t wm_campaign_lock (wm_campaign_t *self, const char *dir, int make, int64_t wait_ms,
                             wm_error_t *error);

/* Opens journal and ledger and brings the ledger up to the journal; then id, created_ns and pins
   are those of the CAMPAIGN record, if there is one. ops: of the journal (NULL: POSIX).  */
wm_fault_t wm_campaign_open (wm_campaign_t *self, const wm_storage_ops_t *ops, wm_error_t *error);

/* Compares with the pins given, or pins a new campaign to them; begins an epoch. WM_EBATCH: another
   pin, named.  */
wm_fault_t wm_campaign_start (wm_campaign_t *self, const wm_pins_t *given, uint64_t *epoch,
                              wm_error_t *error);

/* Writes DIR/endpoint.json (temporary name, then renamed); removes it.  */
wm_fault_t wm_campaign_announce (const wm_campaign_t *self, const char *endpoint,
                                 wm_error_t *error);
void wm_campaign_unannounce (const wm_campaign_t *self);

/* Closes everything and lets go of the lock. Idempotent.  */
void wm_campaign_close (wm_campaign_t *self);

#endif
