/* wm_svg.h - pictures as SVG: a plot with axes, ticks, histograms, lines, points, densities and a
   legend, in colours that colour-blind people can tell apart.

   Everything is written as text to a FILE: the same values give the same bytes, texts stay texts
   and are escaped, and nothing outside the file is named, so a picture can be part of a page
   (wm_page.h) or a file of its own. Whoever opened the FILE checks it for errors. Values that are
   not finite, or outside the axes, are not drawn. Thread: one at a time for each FILE.  */
#ifndef WM_SVG_H
#define WM_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Writes text as XML's character data, also for attributes: markup is escaped; bytes that are no
   UTF-8, control characters, and those that turn the direction of text become U+FFFD.  */
void wm_svg_text (FILE *out, const char *text);

/* Returns the colour of a score ("#0b5fb4"): track blue, em red, michel orange, none grey; of any
   other name the one for its place among the scores.  */
const char *wm_svg_colour (const char *label, uint32_t place);

/* An axis: the values of its ends. With is_log both are positive, and ticks are powers of ten.  */
typedef struct {
    double from, to;
    bool is_log;
    const char *name; /* with its unit */
} wm_svg_axis_t;

#define WM_SVG_TICKS_MAX 16
typedef struct {
    uint32_t n;
    double at[WM_SVG_TICKS_MAX];
    char text[WM_SVG_TICKS_MAX][24]; /* UTF-8 */
} wm_svg_ticks_t;

/* Chooses at most n_most ticks (2 to 16) of an axis: multiples of 1, 2 or 5 times a power of ten;
   of a logarithmic axis powers of ten.  */
void wm_svg_ticks (const wm_svg_axis_t *axis, uint32_t n_most, wm_svg_ticks_t *ticks);

/* The same for times, in Unix seconds: steps of 1, 2, 5, 10, 15, 30 s or minutes, of hours, days,
   and weeks.  */
void wm_svg_times (const wm_svg_axis_t *axis, uint32_t n_most, wm_svg_ticks_t *ticks);

/* Extends an axis from the values that it must show to ends that ticks have: least < most, and for
   a logarithmic one both positive.  */
void wm_svg_fit (wm_svg_axis_t *axis, double least, double most);

/* A plot. The caller fills the first part; wm_svg_begin the second.  */
typedef struct {
    FILE *out;
    const char *title, *about; /* for readers of screens: what it is, and what it shows */
    double width, height;      /* of the picture, px; 0: 340 x 250 */
    double at_x, at_y;         /* where it lies on a sheet, px */
    wm_svg_axis_t x, y;
    const char *zero; /* NULL; or what stands below the first decade of x, which is for 0 then */
    double over, beside; /* room for the caller above the frame and to its right, px */
    bool is_time;     /* x is in Unix seconds; ticks are dates and times of day, UTC */
    const char *const
        *row;       /* NULL; or names of rows, from the top, in place of ticks of y, which */
    uint32_t n_row; /* goes from 0, the end of the last row, to n_row */

    double left, top, right, bottom; /* of the frame, px */
} wm_svg_t;

/* Writes the picture's begin, the frame, ticks and names of axes.  */
void wm_svg_begin (wm_svg_t *self);
void wm_svg_end (wm_svg_t *self);

/* Returns where a value lies, px.  */
double wm_svg_x (const wm_svg_t *self, double value);
double wm_svg_y (const wm_svg_t *self, double value);

/* Draws counts (n) of bins of equal width on the axis x, from its begin to its end, as steps;
   filled ones with a light shade below them.  */
void wm_svg_histogram (wm_svg_t *self, const uint64_t *count, uint32_t n, const char *colour,
                       bool is_filled);

/* Draws a line from one point to another, in values; dashed: of short strokes.  */
void wm_svg_line (wm_svg_t *self, double x0, double y0, double x1, double y1, const char *colour,
                  bool is_dashed);

/* Draws a line through points (n), in values; what lies outside the axes is left out.  */
void wm_svg_curve (wm_svg_t *self, const double *x, const double *y, uint32_t n, const char *colour,
                   bool is_dashed);

/* Fills the part of a rectangle, in values, that lies in the frame; at least a pixel wide. opacity:
   0 to 1.  */
void wm_svg_bar (wm_svg_t *self, double x0, double x1, double y0, double y1, const char *colour,
                 double opacity);

/* Fills the frame with counts (n_y, n_x) of cells of equal size, the first at the axes' begin: the
   darker the more, in steps of a factor.  */
void wm_svg_density (wm_svg_t *self, const uint64_t *count, uint32_t n_x, uint32_t n_y);

/* Draws dots of this radius (px).  */
void wm_svg_dots (wm_svg_t *self, const float *x, const float *y, uint32_t n, double radius,
                  const char *colour);

/* Writes bytes as base64.  */
void wm_svg_base64 (FILE *out, const void *bytes, size_t size);

/* Draws a PNG over the whole frame, its pixels unsmoothed.  */
void wm_svg_image (wm_svg_t *self, const uint8_t *png, size_t size);

/* Begins a picture of several plots, which lie on it by their at_x and at_y; </svg> ends it.  */
void wm_svg_sheet (FILE *out, double width, double height, const char *title);

typedef struct {
    const char *text, *colour;
    bool is_filled; /* as a histogram's shade; else a line, */
    bool is_dashed; /* this one of short strokes, */
    bool is_dot;    /* or a dot */
} wm_svg_entry_t;

/* Draws a legend above the frame, its entries side by side.  */
void wm_svg_legend (wm_svg_t *self, const wm_svg_entry_t *entry, size_t n);

#endif
