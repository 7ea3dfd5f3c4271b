/* wm_draw_private.h - what the readers of an input port allow. Private to wm_draw*.c.  */
#ifndef WM_DRAW_PRIVATE_H
#define WM_DRAW_PRIVATE_H

#include "kernels/judge/wm_draw.h"
#include "schema/wm_ragged.h"

#define WM_DRAW_DIMS (WM_RAGGED_DIMS_MAX + 1) /* of a shape with its batch dimension */

/* How a port's values are made.  */
typedef enum {
    WM_WANT_RANGE,   /* each between low and high */
    WM_WANT_AXES,    /* different dimensions of the node's input 0 */
    WM_WANT_CELLS,   /* indices along an axis, no two alike on a line */
    WM_WANT_CORNERS, /* boxes of an image: x1, y1, x2, y2, with the image's number before if 5 */
    WM_WANT_FLAT,    /* 0, 1, 2, ... */
    WM_WANT_GRID,    /* the size of what AffineGrid makes */
    WM_WANT_IMAGE,   /* Col2Im's image_shape */
    WM_WANT_BLOCK,   /* Col2Im's block_shape */
    WM_WANT_PARTS,   /* of a dimension, which Split cuts */
    WM_WANT_SCALES,
    WM_WANT_SHAPE,  /* of what Reshape makes */
    WM_WANT_SIZES,  /* of what Resize makes */
    WM_WANT_TUPLES, /* indices of several dimensions; no two alike where they are written to */
} wm_draw_want_t;

typedef struct {
    wm_draw_want_t want;
    double low, high; /* every value lies between them, or on them; they meet all readers */
    bool whole;       /* whole numbers only */
    bool index;       /* drawn evenly between them, whatever kind is asked for */
    bool coarse;      /* multiples of a half: all that reals of 4 bits have */
    const Onnx__NodeProto *node; /* that wants it, unless RANGE */
} wm_draw_domain_t;

typedef struct {
    const wm_onnx_t *onnx;
    const wm_port_t *port;
    uint32_t n_port, first; /* first: 1 where the graph has a batch dimension before the ports' */
    wm_ragged_t tensor[WM_MODEL_PORTS_MAX]; /* the row's sizes */
    wm_arena_t arena;
} wm_drawer_t;

/* Finds what the readers of port p allow.  */
void wm_draw_domain (wm_drawer_t *self, uint32_t p, wm_draw_domain_t *domain);

/* Returns dimension d, counted from the end if less than 0, of a node's input k; -1: not known.  */
int64_t wm_draw_size (wm_drawer_t *self, const Onnx__NodeProto *node, size_t k, int64_t d);

/* Finds Col2Im's image and block shape, whichever of them a patch gives, of n dimensions.  */
void wm_draw_col2im (wm_drawer_t *self, const Onnx__NodeProto *node, size_t n, int64_t *image,
                     int64_t *block);

#endif
