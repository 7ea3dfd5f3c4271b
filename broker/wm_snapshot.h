/* wm_snapshot.h - a private copy of a campaign's ledger, for readers who may not write its folder.

   Only where no broker has the campaign: the copy is made under a shared lock, in a folder that
   only this user may enter, and removed. The ledger may be a moment behind the journal of a broker
   that was killed; the next broker brings it up. Thread: one.  */
#ifndef WM_SNAPSHOT_H
#define WM_SNAPSHOT_H

#include "broker/campaign/wm_campaign.h"

#include <limits.h>

typedef struct {
    wm_campaign_t campaign; /* its journal is NULL, and it is not locked */
    char folder[PATH_MAX];  /* of the copy; "" none */
} wm_snapshot_t;

/* Returns whether DIR may be read but not written by this user.  */
bool wm_snapshot_is_needed (const char *dir);

/* Copies the ledger of the campaign in DIR (lent) and opens the copy: its checksums are verified.
   Close it in any case. WM_EAGAIN: a broker has it; WM_EBATCH: it may not be read, or its ledger is
   missing, damaged or of a newer release; WM_EHOST: no room for the copy.  */
wm_fault_t wm_snapshot_open (wm_snapshot_t *self, const char *dir, wm_error_t *error);
void wm_snapshot_close (wm_snapshot_t *self);

#endif
