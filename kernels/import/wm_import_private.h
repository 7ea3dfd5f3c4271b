/* wm_import_private.h - a model's identity, computed in the calling process. wm_import_sha256 runs
   this apart, in a process that can do nothing else (wm_import_apart.c).  */
#ifndef WM_IMPORT_PRIVATE_H
#define WM_IMPORT_PRIVATE_H

#include "kernels/import/wm_import.h"

/* As wm_import_sha256; choices may be NULL.  */
wm_fault_t wm_import_sha256_here (const char *path, const wm_import_choices_t *choices,
                                  char hex[65], bool *alone, wm_error_t *error);

#endif
