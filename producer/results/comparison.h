/* comparison.h - two files of scores, hit by hit.

   Rows are joined by run, subrun, event and hit_id; where several rows of a file have one key, the
   first is that of the other file's first, and so on. A score's difference is |a - b|, relative
   above 1, as `verify` has it. Thread: one.  */
#ifndef COMPARISON_H
#define COMPARISON_H

#include "producer/files/wm_scores.h"
#include "schema/wm_batch.h"

enum {
    WM_COMPARISON_QUANTILES = 4, /* 50, 90, 99, 99.9 % */
    WM_COMPARISON_NAMED = 3      /* hits of one file only that are named */
};

/* The differences of one label.  */
typedef struct {
    double quantile[WM_COMPARISON_QUANTILES], mean, largest;
    uint64_t n_over;       /* hits that differ by more than the tolerance */
    wm_scores_key_t worst; /* the hit of the largest; */
    double score_a, score_b;
} wm_comparison_label_t;

typedef struct {
    double tolerance; /* the caller's */

    wm_scores_t a, b;
    uint64_t n_joined, n_scored; /* n_scored: in both */
    uint64_t n_only[2];
    wm_scores_key_t only[2][WM_COMPARISON_NAMED];
    uint64_t n_status, n_status_pair[WM_HIT_STATUSES][WM_HIT_STATUSES];
    uint32_t *pair[2]; /* (n_scored) hits that both scored: place in a.key, row of b */
    wm_comparison_label_t label[WM_SCORES_LABELS_MAX];
    uint32_t n_gone; /* labels that only one file has */
    char gone[2 * WM_SCORES_LABELS_MAX][48];
} wm_comparison_t;

/* Compares the last of these files (n) with those before it together. `table`: the group of scores
   in a file that is no output of wiremill, or NULL. WM_EBATCH: a file cannot be read, or there are
   no labels that both have; WM_EHOST: no memory.  */
wm_fault_t wm_comparison_make (wm_comparison_t *self, const char *const *path, uint32_t n,
                               const char *table, wm_error_t *error);

/* Frees what it holds and forgets the rest, but for the tolerance.  */
void wm_comparison_clear (wm_comparison_t *self);

/* Returns whether both have the same hits, labels and statuses, and all scores are within the
   tolerance.  */
bool wm_comparison_is_same (const wm_comparison_t *self);

/* Label k's scores of the pair i.  */
double wm_comparison_score_a (const wm_comparison_t *self, uint32_t k, uint64_t i);
double wm_comparison_score_b (const wm_comparison_t *self, uint32_t k, uint64_t i);

/* Names a status for people.  */
const char *wm_comparison_status (uint8_t status);

/* Prints a line for each two statuses that hits have in A and in B, with their number.  */
void wm_comparison_print_statuses (const uint64_t pair[WM_HIT_STATUSES][WM_HIT_STATUSES]);

/* Prints `, "NAME": VALUE` of JSON, which has no infinity: null.  */
void wm_comparison_print_number (const char *name, double value, int precision);

/* How many digits a score has as it is stored: of float32 or float64.  */
int wm_comparison_digits (double score);

#endif
