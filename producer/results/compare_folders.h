/* compare_folders.h - `wiremill compare` of two campaigns: their outputs in pairs, one after
   another.

   Memory is that of the largest pair. Thread: one.  */
#ifndef COMPARE_FOLDERS_H
#define COMPARE_FOLDERS_H

#include "producer/results/called.h"
#include "producer/results/folder_pairs.h"
#include "schema/option/wm_option.h"

/* The differences of one label in all pairs.  */
typedef struct {
    char name[48];
    uint64_t n_scored, n_over;
    double sum, largest;
    wm_scores_key_t worst; /* the hit of the largest; */
    size_t worst_pair;
    double score_a, score_b;
} wm_folders_label_t;

/* What was found in one pair.  */
typedef struct {
    bool is_same;
    bool is_called;   /* what hits are called is compared; else the labels forbid it */
    uint64_t n_over;  /* hits with a score that differs by more than the tolerance */
    uint64_t n_other; /* called otherwise */
    double largest;   /* NaN: no hit was scored on both sides */
    const char *why; /* it could not be compared; NULL: it was */
} wm_folders_row_t;

typedef struct {
    wm_folder_pairs_t pairs;
    wm_comparison_t found;                           /* of the pair at hand */
    size_t n_compared, n_called, n_same, n_failed, n_alone[2]; /* pairs; outputs of one side only */
    uint64_t n_row[2], n_joined, n_scored, n_only[2], n_over;
    uint64_t n_status, n_status_pair[WM_HIT_STATUSES][WM_HIT_STATUSES];
    uint32_t n_label;
    wm_folders_label_t label[WM_SCORES_LABELS_MAX];
    wm_called_t called;
} wm_folders_t;

/* Compares the outputs of the two folders that are the arguments, confined to them; prints what was
   found, and writes the page if `out` is not NULL. Returns the exit code.  */
int wm_compare_folders (const wm_args_t *args, FILE *out);

#endif
