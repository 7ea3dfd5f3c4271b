/* agreement_roc.h - pictures of how scores agree with truth (agreement.h), on pages.

   Thread: one.  */
#ifndef AGREEMENT_ROC_H
#define AGREEMENT_ROC_H

#include "producer/results/agreement.h"
#include "schema/page/wm_svg.h"

/* Writes a figure with shares on both axes, and its caption, "TITLE: ABOUT.".  */
void wm_agreement_figure (wm_svg_t *plot, FILE *out, const char *title, const char *about,
                          const char *x, const char *y);
void wm_agreement_figure_end (wm_svg_t *plot, const wm_svg_entry_t *entry, size_t n);

/* Returns the colour of a label.  */
const char *wm_agreement_colour (int label);

/* Writes the ROC curves of all labels.  */
void wm_agreement_roc (const wm_agreement_t *self, const char *title, FILE *out);

/* Writes those of one label in A and in B; nothing if neither has one.  */
void wm_agreement_roc_both (const wm_agreement_t *a, const wm_agreement_t *b, int label, FILE *out);

#endif
