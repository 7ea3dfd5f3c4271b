/* wm_import_private.h - the import itself, in the calling process. What wm_import.h declares runs
   it apart, in a process that can do nothing else (wm_import_apart.c).  */
#ifndef WM_IMPORT_PRIVATE_H
#define WM_IMPORT_PRIVATE_H

#include "kernels/wm_import.h"

/* As wm_import and wm_import_sha256; choices may be NULL.  */
wm_fault_t wm_import_here (const char *path, const wm_import_choices_t *choices,
                           const char *wmm_path, char why[480], wm_error_t *error);
wm_fault_t wm_import_sha256_here (const char *path, const wm_import_choices_t *choices,
                                  char hex[65], bool *alone, wm_error_t *error);

#endif
