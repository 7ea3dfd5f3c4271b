/* wm_beside.h - the programs that lie in this one's folder.

   Thread: any.  */
#ifndef WM_BESIDE_H
#define WM_BESIDE_H

#include "schema/base/wm_fault.h"

#include <limits.h>

/* Writes the path of a program that lies beside this one. Returns WM_EHOST, with the reason, if it
   cannot be executed.  */
wm_fault_t wm_beside_find (char path[PATH_MAX], const char *name, wm_error_t *error);

/* Replaces this process by a program beside this one; argv[0] is its name. Returns the exit code,
   with a message on stderr, if it cannot.  */
int wm_beside_exec (const char *name, char *const argv[]);

#endif
