/* wm_program.h - how this program starts itself once more.

   Thread: any.  */
#ifndef WM_PROGRAM_H
#define WM_PROGRAM_H

#include <limits.h>

/* Returns what to execute: /proc/self/exe, which is this program also where its file was replaced.
   In a bundle that is the dynamic loader; then it is its launcher NAME beside the loader
   (ops/bundle/launch.c).  */
const char *wm_program_again (const char *name, char path[PATH_MAX]);

#endif
