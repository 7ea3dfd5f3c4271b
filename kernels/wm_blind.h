/* wm_blind.h - shows libraries of others the environment as wm_environment_visible has it, in a
   process whose environment is not ours.

   Private to kernels/. Thread: any.  */
#ifndef WM_BLIND_H
#define WM_BLIND_H

#include <limits.h>
#include <stdbool.h>

/* Writes the real path of the loaded file that holds this function or object. Returns false if no
   file holds it.  */
bool wm_blind_file (const void *address, char path[PATH_MAX]);

/* Every library that is loaded now, and whose real path begins so, calls wm_environment_visible in
   the place of getenv from now on. What it read before, it knows. Returns an errno, or 0.  */
int wm_blind (const char *prefix);

#endif
