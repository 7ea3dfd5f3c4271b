/* compare_truth.h - how the scores of A and of B agree with the truth of their inputs, on the page
   of `wiremill compare`: those of wiremill synth have one. Thread: one.  */
#ifndef COMPARE_TRUTH_H
#define COMPARE_TRUTH_H

#include "producer/results/folder_pairs.h"

#include <stdio.h>

/* Writes a section on the outputs of both folders, or nothing: of at most 100 pairs that are evenly
   spaced, while they fit into a million hits. Opens none of the files: children do, each confined
   to what it reads.  */
void wm_compare_truth_folders (wm_folder_pairs_t *pairs, FILE *out);

/* The same of two files; `table` as in comparison.h.  */
void wm_compare_truth_files (const char *const path[2], const char *table, FILE *out);

#endif
