/* wm_screen.h - a screen of text: lines in a number of columns, with styles as escape codes or
   without. What does not fit a line is left out, what a terminal would obey becomes '?'.
   Thread: one.  */
#ifndef WM_SCREEN_H
#define WM_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

#define WM_CANVAS_COLUMNS_MAX 320
#define WM_CANVAS_LINE_BYTES (4 * WM_CANVAS_COLUMNS_MAX + 256)

typedef enum { WM_PLAIN, WM_BOLD, WM_REVERSE, WM_GOOD, WM_WARN, WM_BAD, WM_COOL } wm_style_t;

typedef struct {
    int rows, columns; /* further rows are left out */
    bool has_utf8;     /* the terminal shows UTF-8, by the process's locale */
    bool has_styles;   /* bold and reverse; with has_colors also colours */
    bool has_colors;
    int n;        /* lines that are complete */
    int used;     /* columns of the one that is not */
    size_t bytes; /* its bytes */
    char (*line)[WM_CANVAS_LINE_BYTES];
} wm_screen_t;

/* Returns the code that begins a style on a terminal; that of WM_PLAIN ends every style.  */
const char *wm_style_code (wm_style_t style);

/* Keeps the settings, removes the text. false: no memory. Freed by wm_canvas_free.  */
bool wm_canvas_reset (wm_screen_t *self, int rows, int columns);
void wm_canvas_free (wm_screen_t *self);

/* Adds text to the current line.  */
void wm_canvas_put (wm_screen_t *self, wm_style_t style, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));

/* Adds text in exactly so many columns, on their left or (width below 0) on their right side.  */
void wm_canvas_cell (wm_screen_t *self, wm_style_t style, int width, const char *text);

/* Fills the line with spaces up to this column.  */
void wm_canvas_pad (wm_screen_t *self, wm_style_t style, int column);

/* Ends the line.  */
void wm_canvas_next (wm_screen_t *self);

/* Adds a text that may take up to lines_max lines, each after `head` or as much space.  */
void wm_canvas_wrap (wm_screen_t *self, wm_style_t style, const char *head, const char *text,
                     int lines_max);

/* Adds the row `row` (0: the lowest) of a graph of `rows` rows: a column for each value, 0 to 1;
   below 0: none.  */
void wm_canvas_graph (wm_screen_t *self, wm_style_t style, const float *value, int n, int row,
                      int rows);

#endif
