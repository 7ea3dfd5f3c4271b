/* wm_plan_measure.h - measures on this machine what `wiremill plan` starts from, in half a minute.

   It runs `wiremill bench` three times, in a folder that it removes: engines on the first hits of a
   few inputs, on one thread and as `wiremill run` would take this machine; and whole campaigns of
   one patch, for the time that a start and an end take, and of many files of one patch, for what a
   file adds. Inputs that are not read count by their size.  */
#ifndef WM_PLAN_MEASURE_H
#define WM_PLAN_MEASURE_H

#include "ops/plan/wm_plan_given.h"

/* INT, TERM and HUP end what runs and remove the folder. Prints its errors and, unless --quiet,
   what it does; returns the exit code.  */
int wm_plan_measure (wm_plan_given_t *self, const wm_args_t *args);

#endif
