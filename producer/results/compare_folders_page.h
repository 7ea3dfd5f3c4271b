/* compare_folders_page.h - the page of `wiremill compare --page` of two campaigns.

   Rows are added as outputs are compared, any number: memory and page stay bounded. Thread:
   one.  */
#ifndef COMPARE_FOLDERS_PAGE_H
#define COMPARE_FOLDERS_PAGE_H

#include "producer/results/compare_folders.h"

typedef struct wm_folders_page wm_folders_page_t;

/* place: where the page will lie, which events' pages are linked from. Has children compare the
   outputs with truth, before this process is confined. NULL: no memory.  */
wm_folders_page_t *wm_folders_page_new (const char *place, wm_folder_pairs_t *pairs);
void wm_folders_page_free (wm_folders_page_t *self);

/* Adds the pair i, whose comparison is at hand. row: NULL if only one side has it.  */
void wm_folders_page_add (wm_folders_page_t *self, const wm_folders_t *folders, size_t i,
                          const wm_folders_row_t *row);

/* Writes the page. note: a sentence of the caller's, or NULL.  */
void wm_folders_page_write (wm_folders_page_t *self, const wm_folders_t *folders, const char *note,
                            FILE *out);

#endif
