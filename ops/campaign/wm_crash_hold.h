/* wm_crash_hold.h - holds an input whose reader crashes.

   The producer is the process that may die of a bad file. Which file it was is the last line of the
   form "... input: PATH" in its log; holding it is done as any producer would: claim it, send
   INPUT_HELD. Thread: one.  */
#ifndef WM_CRASH_HOLD_H
#define WM_CRASH_HOLD_H

#include "ops/process/wm_child.h"

/* The input a producer worked on when it died, from its log; "" if unknown. Lent until the next
   call.  */
const char *wm_crash_hold_input (const wm_child_t *producer);

/* Holds `input` at the broker as a whole, with how its reader died as the reason. WM_EAGAIN: no
   broker.  */
wm_fault_t wm_crash_hold_hold (const char *endpoint, const char *input, const char *how,
                               wm_error_t *error);

#endif
