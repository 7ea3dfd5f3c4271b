/* wm_restore.h - loads what a ledger knows into a new core.  */
#ifndef WM_RESTORE_H
#define WM_RESTORE_H

#include "broker/core/wm_core.h"
#include "broker/disk/wm_ledger.h"

/* Loads inputs, batches, counters and records that stand; holds the results in `journal` (NULL: the
   campaign is only shown). *n_gone (may be NULL): results of the ledger that the journal no longer
   has; they are scored again.  */
wm_fault_t wm_restore (wm_core_t *core, wm_ledger_t *ledger, wm_journal_t *journal,
                       uint64_t *n_gone, wm_error_t *error);

/* Notes the core's counters for the ledger's next commit.  */
void wm_restore_counters (const wm_core_t *core, wm_ledger_t *ledger);

#endif
