/* wm_stitch.c - see wm_stitch.h.  */
#include "producer/writing/wm_stitch.h"
#include "schema/base/wm_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

WM_ORDER_NUMBERS (compare, int64_t)

/* Sorts the starts, keeps one of each, returns their number.  */
static uint32_t distinct (int64_t *start, uint32_t n)
{
    uint32_t kept = 0;
    qsort (start, n, sizeof *start, compare);
    for (uint32_t i = 0; i < n; i++)
        if (!kept || start[i] != start[kept - 1])
            start[kept++] = start[i];
    return kept;
}

/* The first cell that is nearer to the centre of the tile at b than of the one at a < b.  */
static int64_t border (int64_t a, int64_t b, uint32_t size)
{
    const int64_t twice = a + b + size - 1; /* the middle between both centres, twice */
    return (twice - (twice < 0 && twice % 2)) / 2 + 1;
}

/* The cells [*first, *last) of an axis of n cells that the tile at `at` gives; none: *first is not
   below *last.  */
static void share (const int64_t *start, uint32_t n_start, int64_t at, uint32_t size, uint32_t n,
                   int64_t *first, int64_t *last)
{
    const int64_t *found = bsearch (&at, start, n_start, sizeof *start, compare);
    const uint32_t i = (uint32_t) (found - start);
    *first = at, *last = at + size;
    if (i > 0 && border (start[i - 1], at, size) > *first)
        *first = border (start[i - 1], at, size);
    if (i + 1 < n_start && border (at, start[i + 1], size) < *last)
        *last = border (at, start[i + 1], size);
    *first = *first < 0 ? 0 : *first;
    *last = *last > n ? n : *last;
}

wm_fault_t wm_stitch (const wm_stitch_t *size, const wm_tile_t *tile, uint32_t n_tile, float *image,
                      wm_error_t *error)
{
    int64_t *wire = malloc ((n_tile + 1ul) * sizeof *wire),
            *bin = malloc ((n_tile + 1ul) * sizeof *bin);
    if (!wire || !bin) {
        free (wire);
        free (bin);
        return wm_fault (error, WM_EHOST, "no memory for a plane of %u tiles", n_tile);
    }
    for (uint32_t i = 0; i < n_tile; i++)
        wire[i] = tile[i].wire, bin[i] = tile[i].bin;
    const uint32_t n_wire = distinct (wire, n_tile), n_bin = distinct (bin, n_tile);
    for (size_t i = 0; i < (size_t) size->n_wire * size->n_bin; i++)
        image[i] = NAN;
    for (uint32_t i = 0; i < n_tile; i++) {
        const wm_tile_t *t = &tile[i];
        int64_t w, w_end, b, b_end;
        share (wire, n_wire, t->wire, size->tile_wire, size->n_wire, &w, &w_end);
        share (bin, n_bin, t->bin, size->tile_bin, size->n_bin, &b, &b_end);
        for (; t->image && b < b_end && w < w_end; w++)
            memcpy (image + (size_t) w * size->n_bin + b,
                    t->image + (size_t) (w - t->wire) * size->tile_bin + (b - t->bin),
                    (size_t) (b_end - b) * sizeof *image);
    }
    free (wire);
    free (bin);
    return WM_OK;
}
