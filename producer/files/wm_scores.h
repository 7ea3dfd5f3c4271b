/* wm_scores.h - the rows of files of scores, to be compared: who a hit is, its status, its scores.

   A file of scores is an output of wiremill in either layout, or a table in numl's form of another
   program: a group with event_id (n, 3), or run, subrun and event, with hit_id, one column for each
   label and, if it is there, status; without one a hit is scored where its scores are finite.
   Several files count as one. Scores are compared as they are stored, float64 too. All rows are in
   memory: 44 bytes each, and 8 for each label.
   Thread: one for all files (wm_h5.h).  */
#ifndef WM_SCORES_H
#define WM_SCORES_H

#include "producer/files/wm_h5.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WM_SCORES_LABELS_MAX 64

/* Who a hit is. `at` is its place among the rows.  */
typedef struct {
    int64_t id[4]; /* run, subrun, event, hit_id */
    uint32_t at;
} wm_scores_key_t;

typedef struct {
    wm_scores_key_t *key; /* (n_row) */
    uint8_t *status;      /* (n_row) */
    double *score;        /* (n_label, n_row_max) */
    uint32_t n_row, n_row_max;
    uint32_t n_label;
    char label[WM_SCORES_LABELS_MAX][48];
    char table[80];       /* of the last file: group */
    bool is_ours;         /* all are outputs of wiremill */
    uint64_t n_same_cell; /* as outputs state it */
} wm_scores_t;

/* Finds the table of scores: of an output of wiremill its own, else numl's; of others the group
   `table`, or NULL for the usual ones. false: the file has no such table.  */
bool wm_scores_table (const wm_h5_t *file, const char *table, char name[80]);

/* Takes the labels that an output of wiremill has, from its specification; none where it is no
   output. WM_EBATCH: it cannot be read.  */
wm_fault_t wm_scores_labels (wm_scores_t *self, const char *path, wm_error_t *error);

/* Reads all rows of files (n) with the labels that `self` has. `table`: the group in files that are
   no outputs of wiremill; NULL: emtrkmichel_table, emtrkmichel. WM_EBATCH: one lacks a column, or
   is damaged; WM_EHOST: no memory.  */
wm_fault_t wm_scores_read (wm_scores_t *self, const char *const *path, uint32_t n,
                           const char *table, wm_error_t *error);
void wm_scores_clear (wm_scores_t *self);

/* Keeps the labels that the table of a file has columns of, and calls `missing` with each other.
   WM_EBATCH: it cannot be read, or has none of them. `table` as below.  */
wm_fault_t wm_scores_keep (wm_scores_t *self, const char *path, const char *table,
                           void (*missing) (void *arg, const char *path, const char *label),
                           void *arg, wm_error_t *error);

/* Computes for how many rows room is made where `n_row_max` have some and `n_row` need it, and the
   bytes of their scores. false: they are too many.  */
bool wm_scores_room (uint32_t n_row_max, uint64_t n_row, uint32_t n_label, uint32_t *n_row_room,
                     size_t *bytes);

/* Orders the keys; rows of one key stay in the files' order.  */
void wm_scores_sort (wm_scores_t *self);

/* |a - b|, relative where |a| is above 1; 0: the same, or both NaN; infinite: one is not
   finite.  */
double wm_scores_difference (double a, double b);

/* -1, 0, 1: the order of two keys, whatever their places.  */
int wm_scores_order (const wm_scores_key_t *a, const wm_scores_key_t *b);

#endif
