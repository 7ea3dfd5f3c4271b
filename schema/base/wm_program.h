/* wm_program.h - where this program is: it starts itself once more, and finds what lies beside it.

   Thread: any.  */
#ifndef WM_PROGRAM_H
#define WM_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/* Returns what to execute: /proc/self/exe, which is this program also where its file was replaced.
   In a bundle that is the dynamic loader; then it is its launcher NAME beside the loader
   (ops/bundle/launch.c).  */
const char *wm_program_again (const char *name, char path[PATH_MAX]);

/* Writes the path of a file, named from this program's folder. false: it has none, and is "".  */
bool wm_program_beside (char path[PATH_MAX], const char *name);

#define WM_PROGRAM_DATA "../share/wiremill" /* such a name: of what is installed beside programs */

#endif
