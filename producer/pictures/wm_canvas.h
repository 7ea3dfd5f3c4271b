/* wm_canvas.h - draws on pixels: what a picture as PNG needs. Coordinates are those of an SVG
   picture, each SCALE pixels; what lies outside is not drawn. Thread: one at a time.  */
#ifndef WM_CANVAS_H
#define WM_CANVAS_H

#include <stdbool.h>
#include <stdint.h>

#define WM_CANVAS_SCALE 2
#define WM_CANVAS_LETTER 6.0 /* width of a letter, with its gap */

typedef struct {
    uint32_t width, height; /* pixels */
    uint8_t *pixel;         /* (height, width, 3) */
} wm_canvas_t;

/* Makes a white one; false: no memory. The caller frees `pixel`.  */
bool wm_canvas_init (wm_canvas_t *self, double width, double height);

/* Colours are "#rrggbb".  */
void wm_canvas_fill (wm_canvas_t *self, double x0, double y0, double x1, double y1,
                     const char *colour);
void wm_canvas_frame (wm_canvas_t *self, double x0, double y0, double x1, double y1,
                      const char *colour);
void wm_canvas_dot (wm_canvas_t *self, double x, double y, double radius, const char *colour);
void wm_canvas_ring (wm_canvas_t *self, double x, double y, double radius, const char *colour);

/* Draws text with its base line at y. `share`: which part of the text's width lies left of x (0:
   the text begins at x). A character that is not ASCII is drawn as '?'. `upwards`: the text is
   turned by 90 degrees and reads from below.  */
void wm_canvas_text (wm_canvas_t *self, double x, double y, double share, const char *text,
                     bool upwards);

/* Enlarges an image (n_y, n_x), rows from the top, to a rectangle; `palette` (256 x 3).  */
void wm_canvas_image (wm_canvas_t *self, double x0, double y0, double x1, double y1,
                      const uint8_t *image, uint32_t n_x, uint32_t n_y, const uint8_t *palette);

#endif
