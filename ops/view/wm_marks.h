/* wm_marks.h - marks of a campaign's time line: lines with letters in the pictures of report and
   serve, their table, and the row of letters of top.

   Thread: one at a time for each FILE.  */
#ifndef WM_MARKS_H
#define WM_MARKS_H

#include "ops/ask/wm_history_query.h"

#include <stdio.h>

/* The frame of a picture that shows this time, in the units of its SVG.  */
typedef struct {
    double from_s, to_s;
    double left, right, top, bottom;
} wm_marks_frame_t;

/* Returns how many marks began in this time.  */
size_t wm_marks_count (const wm_history_query_t *past, double from_s, double to_s);

/* Draws a thin line for each of them, with its letter, as far as letters have room.  */
void wm_marks_draw (FILE *out, const wm_history_query_t *past, const wm_marks_frame_t *frame);

/* Writes what the letters mean: a table of the latest of them, nothing if there are none. `date`
   writes a time into its text and returns it.  */
void wm_marks_table (FILE *out, const wm_history_query_t *past, double from_s, double to_s,
                     const char *(*date) (double unix_s, char text[32]));

/* Writes a letter for each of n equal parts of this time: that of its last mark, or a blank.  */
void wm_marks_row (const wm_history_query_t *past, double from_s, double to_s, char *letter,
                   size_t n);

#endif
