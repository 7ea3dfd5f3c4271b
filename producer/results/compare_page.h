/* compare_page.h - the page of `wiremill compare --page`.  */
#ifndef COMPARE_PAGE_H
#define COMPARE_PAGE_H

#include "producer/files/wm_scores.h"
#include "schema/wm_batch.h"

#include <stdio.h>

enum { WM_COMPARE_QUANTILES = 4 }; /* 50, 90, 99, 99.9 % */

/* The differences of one label.  */
typedef struct {
    double quantile[WM_COMPARE_QUANTILES], largest;
    uint64_t n_over;              /* hits that differ by more than the tolerance */
    const wm_scores_key_t *worst; /* the hit of the largest */
    double score_a, score_b;      /* of that hit */
} wm_compare_label_t;

/* What a comparison found; all is lent.  */
typedef struct {
    const char *const *path; /* (n_path): the files of A, then that of B */
    size_t n_path;
    const wm_scores_t *a, *b;
    const uint32_t *pair[2]; /* (n_scored): place in a->key, row of b */
    double tolerance;
    bool is_same;
    uint64_t n_joined, n_scored, n_only[2];
    const wm_scores_key_t *only[2]; /* (up to 3) */
    uint64_t (*n_status)[WM_HIT_STATUSES];
    wm_compare_label_t label[WM_SCORES_LABELS_MAX];
    const char (*gone)[48]; /* (n_gone) labels that only one file has */
    uint32_t n_gone;
    const char *note; /* a sentence of the caller's, or NULL */
} wm_compare_page_t;

/* Writes the page, or nothing. WM_EBATCH: a file that was read before cannot be read again;
   WM_EHOST: no memory.  */
wm_fault_t wm_compare_page_write (const wm_compare_page_t *self, FILE *out, wm_error_t *error);

/* Writes what the files are, as a table with columns A and B.  */
wm_fault_t wm_compare_files_write (const wm_compare_page_t *self, FILE *out, wm_error_t *error);

#endif
