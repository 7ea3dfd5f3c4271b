/* wm_report_private.h - the parts of the page of `wiremill report`, and what they share. Thread:
   one.  */
#ifndef WM_REPORT_PRIVATE_H
#define WM_REPORT_PRIVATE_H

#include "ops/view/wm_report.h"

/* Pictures over the whole page, in px, and their colours.  */
#define WM_REPORT_WIDTH 1060
#define WM_REPORT_BLUE "#0b5fb4"
#define WM_REPORT_GOLD "#eeb000"
#define WM_REPORT_RED "#c62828"
#define WM_REPORT_GREY "#8a8a8a"

/* Parts of what the history has (wm_report_time.c, wm_report_workers.c). Each writes a sentence
   where there is nothing to draw.  */
void wm_report_throughput (const wm_report_t *self, FILE *out);
void wm_report_workers (const wm_report_t *self, FILE *out);
void wm_report_latency (const wm_report_t *self, FILE *out);
void wm_report_faults (const wm_report_t *self, FILE *out);

/* What the campaign's rows are, as a heading: "Hits".  */
const char *wm_report_rows (const json_t *status, char text[32]);

/* "2026-11-23 07:05:12 UTC".  */
const char *wm_report_date (double unix_s, char text[32]);

/* What rows and workers cover, or workers alone, in Unix time; nothing is later than now.  */
void wm_report_cover (const wm_report_t *self, bool has_rows, double *from_s, double *to_s);

/* Returns why there are no rows.  */
const char *wm_report_no_history (const wm_report_t *self);

/* Writes a cell with a count.  */
void wm_report_count (FILE *out, double n);

#endif
