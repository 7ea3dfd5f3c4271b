/* called.h - what hits are called by the scores of A and of B (wm_call_rule.h), and those that are
   called otherwise in B, on the pages of `wiremill compare`.

   Comparisons are added one after another, any number. Thread: one.  */
#ifndef CALLED_H
#define CALLED_H

#include "producer/files/wm_call_rule.h"
#include "producer/results/comparison.h"
#include "schema/page/wm_page_event.h"

#include <stdio.h>

enum {
    WM_CALLED_LABELS_MAX = 16, /* of more labels there is no table */
    WM_CALLED_LISTED = 50      /* hits: those whose scores differ most; of equals the first */
};

typedef struct {
    wm_scores_key_t key;
    uint32_t file; /* as it was added */
    uint32_t a, b; /* labels */
    double score_a, score_b, apart;
} wm_called_hit_t;

typedef struct {
    uint32_t n_label; /* 0: nothing was added */
    char label[WM_CALLED_LABELS_MAX][48];
    wm_call_rule_t rule;
    uint64_t n[WM_CALLED_LABELS_MAX][WM_CALLED_LABELS_MAX]; /* (called in A, in B) */
    uint64_t n_hit, n_other;                                /* all; called otherwise */
    uint32_t n_listed;
    wm_called_hit_t hit[WM_CALLED_LISTED];
} wm_called_t;

/* Adds the hits that both scored, and sets *n_other to those that are called otherwise; `file` is
   the caller's name of them. False: nothing is added, since the comparison has other labels than
   the first one with hits, too many, or no two.  */
bool wm_called_add (wm_called_t *self, const wm_comparison_t *found, uint32_t file,
                    uint64_t *n_other);

/* Writes an element <td> on the file of a hit.  */
typedef void wm_called_cell (void *arg, const wm_called_hit_t *hit, FILE *out);

/* Writes the table of both, and the hits that are called otherwise; a section each, or nothing.
   cell: NULL, if there is nothing on files.  */
void wm_called_write (const wm_called_t *self, FILE *out);
void wm_called_write_hits (const wm_called_t *self, wm_called_cell *cell, void *arg, FILE *out);

/* Writes links to the pages of events beside the outputs of A and B ("": none), to a hit if it is
   not NULL. Returns whether there is one.  */
bool wm_called_links (const wm_page_events_t *events, const char *const path[2],
                      const wm_scores_key_t *hit, FILE *out);

/* Writes run:subrun:event:hit_id.  */
void wm_called_hit (FILE *out, const wm_scores_key_t *key);

#endif
