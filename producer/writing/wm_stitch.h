/* wm_stitch.h - puts the images of a plane's tiles together.

   Tiles lie in rows and columns: each has one of the plane's first wires and one of its first bins.
   Where tiles overlap, a cell is taken from the tile whose centre is nearest, the earlier one of
   two that are equally near. So with an overlap of `o` cells a tile gives no cell that is nearer
   than o / 2 to an edge inside the plane: an overlap of twice the network's receptive field beyond
   a cell leaves no seam. At the plane's own edges the tile's edge is the plane's.
   Thread: any.  */
#ifndef WM_STITCH_H
#define WM_STITCH_H

#include "schema/base/wm_fault.h"

#include <stdint.h>

typedef struct {
    int64_t wire, bin;  /* its first cell in the plane; may lie outside */
    const float *image; /* (tile_wire, tile_bin), lent; NULL: held, its cells become NaN */
} wm_tile_t;

typedef struct {
    uint32_t tile_wire, tile_bin; /* size of a tile */
    uint32_t n_wire, n_bin;       /* size of the plane */
} wm_stitch_t;

/* Fills in image (n_wire, n_bin); a cell that no tile has becomes NaN. WM_EHOST without memory.  */
wm_fault_t wm_stitch (const wm_stitch_t *size, const wm_tile_t *tile, uint32_t n_tile, float *image,
                      wm_error_t *error);

#endif
