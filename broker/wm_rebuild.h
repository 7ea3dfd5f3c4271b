/* wm_rebuild.h - looks at everything a campaign has on disk, and makes it whole again.

   Reads the whole journal, every result and every output, not only what a start needs:
     ledger   damaged, missing, of another campaign or another history: made again from the journal
     journal  what damage took from it and the ledger still knows is written into it again
     results  one that cannot be read is said: its batch is scored again
     outputs  one that is missing, or whose bytes are not those that were written (their digest is in
              FILE_WRITTEN), opens its input again; what is there is kept as <name>.damaged-N. One
              that only has another time (a copy) is taken as it is
     inputs   one that is gone or changed is named, if it is still needed
     lock     a copy of a running campaign becomes one of its own
   Nothing can bring back counters (failures, lost workers) where the ledger is lost, nor history.
   Says on stdout what it found and did.  */
#ifndef WM_REBUILD_H
#define WM_REBUILD_H

#include "schema/base/wm_fault.h"

typedef struct {
    const char *dir;
    const char *output; /* where the outputs are now; NULL: where they were */
    int dry_run;        /* only say: nothing is changed */
} wm_rebuild_options_t;

/* *is_whole: nothing is wrong, or no longer is; 0 after a dry run that found something. WM_EAGAIN:
   a broker has the campaign, or the disk is full. WM_EBATCH: there is no campaign, or a newer
   wiremill's. WM_EHOST: it cannot be made whole.  */
wm_fault_t wm_rebuild (const wm_rebuild_options_t *options, int *is_whole, wm_error_t *error);

#endif
