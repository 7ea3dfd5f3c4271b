/* report_drift.h - the mean scores of outputs beside each other, in `wiremill report`: those that
   lie apart are named.  */
#ifndef REPORT_DRIFT_H
#define REPORT_DRIFT_H

#include <stdint.h>
#include <stdio.h>

/* One output of which hits were read.  */
typedef struct {
    const char *path;
    uint64_t n;         /* hits that are scored */
    const double *mean; /* (n_label) */
} wm_report_mean_t;

/* Writes a picture for each label, the outputs that lie apart, and a table; nothing if fewer than
   five outputs have scores. The outputs (n) are in their order; those without scores are left
   out.  */
void wm_report_drift (const wm_report_mean_t *output, uint32_t n, const char (*label)[48],
                      uint32_t n_label, FILE *out);

#endif
