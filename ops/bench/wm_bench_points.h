/* wm_bench_points.h - measured points of `wiremill bench`: as a table of 80 columns, as JSON.

   A point is a flat JSON object; its keys are the columns of wm_bench_points.c, which explains
   each. A missing key was not measured, or has no meaning for that point.  */
#ifndef WM_BENCH_POINTS_H
#define WM_BENCH_POINTS_H

#include <jansson.h>
#include <stdio.h>

typedef struct {
    char cpu[96], isa[96];        /* the instruction sets that matter to engines */
    int cpus;                     /* that this process may use */
    char missing[128];            /* instruction sets and precisions that this CPU lacks */
    double peak_fp32, peak_16bit; /* measured GFLOP/s of a thread; 0: not known */
    double peak_amx;
} wm_machine_t;

/* Reads /proc/cpuinfo and measures the peaks.  */
void wm_machine_inspect (wm_machine_t *self);

/* Adds what follows from the measurement: GFLOP/s, their share of the machine's peak.  */
void wm_point_complete (json_t *point, const wm_machine_t *machine);

/* Prints the points of one bench ("engine" or "pipeline") below a line about the machine;
   nothing if there are none.  */
void wm_points_table (FILE *out, const json_t *points, const char *bench,
                      const wm_machine_t *machine);
/* Prints schema wiremill-bench-1; `about` (lent) describes what was measured: model, inputs.  */
void wm_points_json (FILE *out, json_t *points, const wm_machine_t *machine, json_t *about);

#endif
