/* wm_draw.h - draws input values that the nodes which read them allow. Private to kernels/.

   Values made up without a look at the graph divide by zero in OpenVINO (an image_shape of 0), lie
   outside of tables, or make every score NaN (Log of a negative number). So each input port is
   followed forward through nodes that hand its values on (Identity, Cast, Reshape, Concat), into
   graphs inside nodes too, and its values are drawn from what all its readers allow: indices inside
   their tables, lengths, shapes, axes, divisors, positive numbers. Where a size is not known, an
   index is 0 or 1.

   The values are whole numbers or reals with few bits, so that they are the same in the port's own
   type, and the same on every machine. Thread: any; plain values.  */
#ifndef WM_DRAW_H
#define WM_DRAW_H

#include "kernels/onnx/wm_onnx.h"

/* How values are distributed where the readers leave a choice; a value of a kind that the readers
   do not allow is drawn near the end of what they do. Of a port of whole numbers: */
typedef enum {
    WM_DRAW_SIGNED,   /* reals of [-2, 2); -1, 0, 1 */
    WM_DRAW_POSITIVE, /* reals of (0, 1]; 1 to 8 */
    WM_DRAW_ZEROS,    /* 0 */
    WM_DRAW_LARGE,    /* reals of [-1024, 1024); the same */
    WM_DRAW_INTEGERS, /* -8 to 8; all that the type and a float32 hold, to 2^24 */
    WM_DRAW_KINDS
} wm_draw_t;

/* Draws one row of a model whose ports have fixed sizes: the values of all ports, one behind the
   other, into `row`. WM_EHOST: no memory.  */
wm_fault_t wm_draw_row (const wm_onnx_t *onnx, const wm_port_t *port, uint32_t n_port,
                        wm_draw_t kind, uint64_t seed, float *row, wm_error_t *error);

/* The rows of different sizes that the next function knows.  */
#define WM_DRAW_SIZES 8u

/* Draws a ragged row (schema/wm_ragged.h): free dimensions get the sizes of row i < WM_DRAW_SIZES.
   In even rows all are equal; in odd ones a free dimension behind the first of its input may be
   another, unless it has the first one's name. *n: the values of the row; 0: it has more than
   `most`.  */
wm_fault_t wm_draw_ragged (const wm_onnx_t *onnx, const wm_port_t *port, uint32_t n_port,
                           wm_draw_t kind, uint64_t seed, uint32_t i, float *row, size_t most,
                           uint32_t *n, wm_error_t *error);

#endif
