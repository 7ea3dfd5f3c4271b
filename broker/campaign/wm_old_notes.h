/* wm_old_notes.h - reads what earlier releases kept beside the journal, as the records that stand
   for it today (wm_record_stands).

   Thread: any.  */
#ifndef WM_OLD_NOTES_H
#define WM_OLD_NOTES_H

#include "broker/disk/wm_ledger.h"

/* Takes a record; lent for the call. Other than WM_OK ends the reading.  */
typedef wm_fault_t (wm_old_notes_take_t) (void *argument, wm_record_t *record, wm_error_t *error);

/* Gives each note in DIR to `take`, but none of which the ledger has a record: that is newer. What
   cannot be read of a note is left out. Returns what `take` returned last.  */
wm_fault_t wm_old_notes_read (const char *dir, wm_ledger_t *ledger, wm_old_notes_take_t *take,
                              void *argument, wm_error_t *error);

/* Removes the notes durably: the journal has all of them now. measured: only those of what workers
   measured, which a campaign that begins again forgets. WM_EHOST: one cannot be removed.  */
wm_fault_t wm_old_notes_remove (const char *dir, bool measured, wm_error_t *error);

#endif
