/* wm_report_origin.h - the end of the page of `wiremill report`: when, where and by whose command a
   campaign was made; and rows and dates as all parts of the page have them. Thread: one.  */
#ifndef WM_REPORT_ORIGIN_H
#define WM_REPORT_ORIGIN_H

#include "ops/view/wm_report.h"

/* A time of the page, such as "2026-11-29 10:31:24 UTC".  */
const char *wm_report_date (double unix_s, char text[32]);

/* A row of a table of names and values; "-" for an empty value.  */
void wm_report_row (FILE *out, const char *name, const char *value);

void wm_report_origin (const wm_report_t *self, FILE *out);

#endif
