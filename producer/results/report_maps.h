/* report_maps.h - a map of the mean score by wire and tick, a picture of `wiremill report`.
   Thread: one.  */
#ifndef REPORT_MAPS_H
#define REPORT_MAPS_H

#include <stdint.h>
#include <stdio.h>

#define WM_REPORT_CELLS 64u /* each way */

/* The ends of a plane's hits: cells are of equal width from `from` to `to`.  */
typedef struct {
    double wire_from, wire_to, tick_from, tick_to;
} wm_report_extent_t;

typedef struct {
    const char *label, *plane;
    wm_report_extent_t extent;
    uint64_t count[WM_REPORT_CELLS * WM_REPORT_CELLS]; /* rows are ticks */
    double sum[WM_REPORT_CELLS * WM_REPORT_CELLS];
} wm_report_map_t;

/* Adds a hit within the extent.  */
void wm_report_map_add (wm_report_map_t *self, double wire, double tick, double score);

/* Draws it, a cell without hits white, with a bar of the scale; nothing if it has no hit.  */
void wm_report_map_draw (const wm_report_map_t *self, FILE *out);

#endif
