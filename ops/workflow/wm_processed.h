/* wm_processed.h - lists of files whose outputs are written, for a workflow system.

   Each is a text file, one name a line, to which a line is appended as soon as an output is safe:
   no line twice, none torn, each on disk before the next thing happens. What others wrote there
   stays. Thread: one.  */
#ifndef WM_PROCESSED_H
#define WM_PROCESSED_H

#include "ops/campaign/wm_file_source.h"

typedef struct {
    char path[PATH_MAX];
    int fd;           /* -1: there is no such list */
    wm_table_t lines; /* what is in it */
} wm_processed_list_t;

typedef struct {
    wm_processed_list_t pfns, dids;
} wm_processed_t;

/* Opens the lists of --processed-pfns and --processed-dids. A last line without an end that begins
   a name of `feed` is what a kill left of it, and is removed.  */
wm_fault_t wm_processed_open (wm_processed_t *self, const wm_args_t *args,
                              const wm_file_source_t *feed, wm_error_t *error);

/* Adds a file to the lists, where it is not there yet. WM_EAGAIN: the disk is full.  */
wm_fault_t wm_processed_add (wm_processed_t *self, const wm_file_source_file_t *file,
                             wm_error_t *error);

#endif
