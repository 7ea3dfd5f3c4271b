/* verbs.h - what wiremill-producer can be asked to do; each takes its own command line.  */
#ifndef VERBS_H
#define VERBS_H

#include "kernels/wm_spec.h"

int produce_main (int argc, char **argv);
int cut_main (int argc, char **argv);
int sample_main (int argc, char **argv);
int batches_main (int argc, char **argv);

/* A specification by file or preset.  */
wm_fault_t spec_load (wm_spec_t *spec, const char *name, wm_error_t *error);

#endif
