/* wm_call_rule.h - what a hit is called by its scores: the one rule for tables, pictures and pages.

   The family's network has a softmax (track, em, none) and a sigmoid beside it (michel), whose
   scores do not compete. So a hit is called michel if that score is at least a threshold, else by
   the largest of the others, the first of equal ones. Scores without michel beside other labels
   are of one softmax: the largest. Thread: any.  */
#ifndef WM_CALL_RULE_H
#define WM_CALL_RULE_H

#include <stddef.h>
#include <stdint.h>

#define WM_CALL_LEAST 0.5 /* the threshold, unless a user gives one */
#define WM_CALL_TEXT_BYTES 128

typedef struct {
    uint32_t n_label;
    uint32_t sigmoid; /* the label with a threshold; n_label: no label has one */
    double least;
} wm_call_rule_t;

/* Takes the labels (n), as wm_scores_t has them.  */
wm_call_rule_t wm_call_rule_new (const char (*label)[48], uint32_t n, double least);

/* Returns the label that a hit is called; its score k is score[k * stride].  */
uint32_t wm_call_by (const wm_call_rule_t *self, const double *score, size_t stride);

/* Writes the rule for people: "michel if its score is at least 0.5, else the largest of the
   others".  */
const char *wm_call_rule_text (const wm_call_rule_t *self, char text[WM_CALL_TEXT_BYTES]);

#endif
