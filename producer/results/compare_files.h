/* compare_files.h - what was compared, on a page of `wiremill compare`: models, engines, versions
   and campaigns as the files of both sides state them. Thread: one.  */
#ifndef COMPARE_FILES_H
#define COMPARE_FILES_H

#include "producer/files/wm_h5.h"

#include <stddef.h>
#include <stdio.h>

typedef struct wm_compare_sides wm_compare_sides_t;

/* NULL: no memory.  */
wm_compare_sides_t *wm_compare_sides_new (void);
void wm_compare_sides_free (wm_compare_sides_t *self);

/* Adds an output of side 0 or 1. WM_EBATCH: it cannot be read.  */
wm_fault_t wm_compare_sides_add (wm_compare_sides_t *self, int side, const char *path,
                                 wm_error_t *error);

/* Writes a table with columns A and B.  */
void wm_compare_sides_write (const wm_compare_sides_t *self, FILE *out);

/* Writes that table, and one of the files (n), of which the last is B's. WM_EBATCH: one cannot be
   read; WM_EHOST: no memory.  */
wm_fault_t wm_compare_files_write (const char *const *path, size_t n, FILE *out, wm_error_t *error);

#endif
