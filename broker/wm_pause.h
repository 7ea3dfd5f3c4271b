/* wm_pause.h - DIR/paused: the note that an operator paused a campaign, and why.

   A file of one line, there or not, so that a pause outlives its broker, a copy of the folder and a
   ledger made anew; the circuit breaker's pauses are not noted: a broker started anew tries again.
   Thread: any; one at a time.  */
#ifndef WM_PAUSE_H
#define WM_PAUSE_H

#include <stddef.h>

/* Notes it (synced, under another name first, then renamed), or with NULL takes the note away.
   0: that is on disk; -1: not, errno says why, and what was there before is there.  */
int wm_pause_note (const char *dir, const char *why);

/* Reads the note. 1: paused, and why as far as it fits; 0: not paused.  */
int wm_pause_read (const char *dir, char *why, size_t bytes);

#endif
