/* compare_page.h - the page of `wiremill compare --page`.  */
#ifndef COMPARE_PAGE_H
#define COMPARE_PAGE_H

#include "producer/results/comparison.h"

#include <stdio.h>

/* What was compared; all is lent.  */
typedef struct {
    const char *const *path; /* (n_path): the files of A, then that of B */
    size_t n_path;
    const wm_comparison_t *found;
    const char *note;  /* a sentence of the caller's, or NULL */
    const char *truth; /* a section on truth, or NULL */
    const char *place; /* where the page will lie */
} wm_compare_page_t;

/* Writes the page, or nothing. WM_EBATCH: a file that was read before cannot be read again;
   WM_EHOST: no memory.  */
wm_fault_t wm_compare_page_write (const wm_compare_page_t *self, FILE *out, wm_error_t *error);

#endif
