/* report.h - what `wiremill report` has from outputs: distributions of scores, how they agree with
   the truth of synthetic events, pictures of events.

   Each is written as a part of a page. Thread: one.  */
#ifndef REPORT_H
#define REPORT_H

#include "schema/base/wm_fault.h"
#include "schema/option/wm_option.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Which outputs: a child's argument.  */
typedef struct {
    const char **path; /* (n) */
    const char *
        *input; /* (n) of wm_report_maps: a file that can be read here; NULL: no such file */
    size_t n;
    size_t hits_max; /* that are read, of all together */
} wm_report_outputs_t;

/* Takes what a verb's arguments name, and its --hits. Returns an exit code; an error was printed.
   The caller frees path.  */
int wm_report_outputs (const wm_args_t *args, wm_report_outputs_t *outputs);

/* A child (wm_render_process.h): writes the distributions of the scores of outputs
   (wm_report_outputs_t), by label and plane, from an equal share of hits of each: all of them, or
   rows in pieces that are evenly spaced, so that the same outputs give the same numbers.  */
int wm_report_scores (void *outputs, FILE *out);

/* A child: writes maps of the mean score by wire and tick from the same hits, of the outputs whose
   inputs state where hits are.  */
int wm_report_maps (void *outputs, FILE *out);

/* Reads where hits are from the input of an output: wire and tick (n) of so many of its n_row rows,
   in pieces that are evenly spaced. table: the output's. WM_EBATCH: the input has other hits.  */
wm_fault_t wm_report_places (const char *output, const char *table, const char *input,
                             uint64_t n_row, uint64_t n, int32_t *wire, float *tick,
                             wm_error_t *error);

/* Has a child find out how many hits each output has, and the input that it states: a line for
   each, of both with a space between them; an empty one: it cannot be read, or states none. The
   caller's; NULL: that failed.  */
char *wm_report_inputs (const char *verb, wm_report_outputs_t *outputs);

/* Takes the inputs of such lines, which are cut at their ends, into input (n) if they can be read
   here, else NULL; hits (n).  */
void wm_report_take_inputs (const wm_report_outputs_t *outputs, char *lines, const char **input,
                            uint64_t *hits);

/* Has a child find out which of these files (n) have truth: returns a text of so many 0 and 1, the
   caller's; NULL: that failed.  */
char *wm_report_find_truth (const char *verb, const char *const *path, size_t n);

/* Writes how the scores of outputs agree with the truth of their inputs, if those have one:
   efficiency and purity, confusion, curves, calibration. inputs: the lines of wm_report_inputs.
   Outputs are taken in their order while they fit into hits_max.  */
void wm_report_truth (const wm_report_outputs_t *outputs, const char *inputs, FILE *out);

#endif
