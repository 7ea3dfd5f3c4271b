/* wm_pair.h - an input whose planes lie in a file of their own.

   The campaign pins where these are, once for all inputs: `planes` is a path in which {stem} stands
   for the name of the input's file without its last suffix, {dir} for its folder, and which may end
   in ":/TAG" as names of datasets do. An input keeps its own name everywhere (journal, ledger,
   messages); its size and time are those of all its files. Thread: any.  */
#ifndef WM_PAIR_H
#define WM_PAIR_H

#include "schema/wm_pins.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* Writes the name of the planes of input `name`, with its ":/TAG". false: the campaign pins none,
   and *path is "", or it is longer than a path may be.  */
bool wm_pair_planes (const wm_pins_t *pins, const char *name, char path[PATH_MAX]);

/* The same of a pattern as the pin `planes` has it.  */
bool wm_pair_expand (const char *pattern, const char *name, char path[PATH_MAX]);

/* Check what was given for the pins hit_offset (a number of ticks) and pedestal ("median", "none"
   or ADC), and write it in the form that is pinned. WM_EUSAGE with a text.  */
wm_fault_t wm_pair_offset (const char *given, char pin[24], wm_error_t *error);
wm_fault_t wm_pair_pedestal (const char *given, char pin[24], wm_error_t *error);

/* As wm_path_stat; of an input with planes elsewhere the sum of the sizes of hits, planes and
   channel map, and the latest of their times. -1 and errno where one cannot be read.  */
int wm_pair_stat (const wm_pins_t *pins, const char *name, uint64_t *size, int64_t *mtime_ns);

/* Writes the name of the one of these files that was modified last. false: the campaign pins
   neither planes nor a map, or one of the files cannot be read.  */
bool wm_pair_last (const wm_pins_t *pins, const char *name, char path[PATH_MAX]);

#endif
