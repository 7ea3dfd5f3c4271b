/* wm_complain.h - how a verb ends that failed: one message on stderr, and an exit code.

   Thread: any.  */
#ifndef WM_COMPLAIN_H
#define WM_COMPLAIN_H

#include "schema/base/wm_fault.h"

/* Prints "wiremill VERB: text" on stderr (verb may be NULL), and returns the fault's exit code.  */
int wm_complain (const char *verb, const wm_error_t *error);

#endif
