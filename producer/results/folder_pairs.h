/* folder_pairs.h - the outputs of two campaigns, in pairs.

   Two outputs are a pair if they state the same input; of the rest, if they have the same name.
   Thread: one.  */
#ifndef FOLDER_PAIRS_H
#define FOLDER_PAIRS_H

#include "schema/base/wm_fault.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { WM_FOLDER_NAME_BYTES = 2 * NAME_MAX + 8 };

typedef struct {
    char *name;
    char *input; /* as it states it; NULL: none */
    char *why;   /* it cannot be read; NULL: it can */
    bool is_taken;
} wm_folder_output_t;

typedef struct {
    char folder[PATH_MAX];
    wm_folder_output_t *output; /* (n) by name */
    size_t n;
} wm_folder_side_t;

typedef struct {
    wm_folder_side_t side[2];
    struct {
        const wm_folder_output_t *of[2]; /* NULL: only the other side has it */
    } * pair;                            /* (n) those of A by name, then those of B alone */
    size_t n;
} wm_folder_pairs_t;

/* Lists the outputs of both folders, each that of outputs or of a campaign, and opens none of them.
   WM_EUSAGE: a folder cannot be read, or has no outputs; WM_EHOST: no memory.  */
wm_fault_t wm_folder_pairs_list (wm_folder_pairs_t *self, const char *const folder[2],
                                 wm_error_t *error);

/* Gives up all files but these outputs, and opens the HDF5 library. WM_EHOST: no memory.  */
wm_fault_t wm_folder_pairs_confine (const wm_folder_pairs_t *self, wm_error_t *error);

/* Reads which inputs they state, and pairs them. WM_EHOST: no memory.  */
wm_fault_t wm_folder_pairs_match (wm_folder_pairs_t *self, wm_error_t *error);

/* Fills in where side's output of the pair i lies; "": it has none.  */
void wm_folder_pairs_path (const wm_folder_pairs_t *self, size_t i, int side, char path[PATH_MAX]);

/* Names the pair i: one name, or two that differ.  */
const char *wm_folder_pairs_name (const wm_folder_pairs_t *self, size_t i,
                                  char name[WM_FOLDER_NAME_BYTES]);

void wm_folder_pairs_clear (wm_folder_pairs_t *self);

#endif
