/* wm_run_line.h - the line that wiremill run redraws while it works.  Thread: any.  */
#ifndef WM_RUN_LINE_H
#define WM_RUN_LINE_H

#include "ops/ask/wm_show.h"

#include <jansson.h>
#include <stdbool.h>

/* Draws a status in `width` columns: the bar takes what is left; numbers that do not fit are left
   out, those that people look at last first. While nothing states how many hits an open input has,
   there is no percentage, and the count of all hits is "at least" what is announced.  */
void wm_run_line (const json_t *status, bool for_clients, int width,
                  char line[WM_WORDS_WIDTH_MAX + 1]);

#endif
