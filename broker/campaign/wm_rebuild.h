/* wm_rebuild.h - checks everything that a campaign has on disk, and repairs it.

   Reads the whole journal, every result and every output, not only what a start needs:
     ledger   damaged, missing, of another campaign or another history: made again from the journal
     journal  what it lost to damage and the ledger still has is written into it again
     results  one that cannot be read is reported: its batch is scored again
     outputs  one that is missing, or whose bytes are not those that were written (FILE_WRITTEN
              has their digest), opens its input again; what is there is kept as <name>.damaged-N.
              One that only has another time (a copy) is taken as it is
     inputs   one that is missing or changed is named, if it is still needed
     lock     a copy of a running campaign becomes a campaign of its own
   Counters (failures, lost workers) are lost with the ledger.
   Prints on stdout what it found and did.  */
#ifndef WM_REBUILD_H
#define WM_REBUILD_H

#include "schema/base/wm_fault.h"

#include <stdbool.h>

typedef struct {
    const char *dir;
    const char *output; /* where the outputs are now; NULL: where they were */
    bool dry_run;       /* only report: nothing is changed */
} wm_rebuild_options_t;

/* *is_whole: nothing is wrong, or no longer is; false after a dry run that found something.
   WM_EAGAIN: a broker has the campaign, or the disk is full. WM_EBATCH: there is no campaign, or a
   newer wiremill's. WM_EHOST: it cannot be made whole.  */
wm_fault_t wm_rebuild (const wm_rebuild_options_t *options, bool *is_whole, wm_error_t *error);

#endif
