/* wm_wires.c - see wm_wires.h.  */
#include "producer/wm_wires.h"

#include <stdlib.h>

static int place_compare (const wm_wire_t *a, const wm_wire_t *b)
{
    if (a->cryostat != b->cryostat)
        return a->cryostat < b->cryostat ? -1 : 1;
    if (a->tpc != b->tpc)
        return a->tpc < b->tpc ? -1 : 1;
    if (a->plane != b->plane)
        return a->plane < b->plane ? -1 : 1;
    return a->wire < b->wire ? -1 : a->wire > b->wire;
}

/* By place, and at one place by row: the same two rows are named each time.  */
static int row_compare (const void *a_v, const void *b_v)
{
    const wm_wire_t *a = a_v, *b = b_v;
    const int place = place_compare (a, b);
    return place ? place : a->row < b->row ? -1 : a->row > b->row;
}

wm_fault_t wm_wires_check (wm_wire_t *row, uint64_t n, const char *where, const char *advice,
                           wm_error_t *error)
{
    uint64_t i = 1;
    while (i < n && place_compare (&row[i - 1], &row[i]) < 0)
        i++;
    if (i >= n) /* as files usually have them: in order, so none is there twice */
        return WM_OK;
    qsort (row, n, sizeof *row, row_compare);
    for (i = 1; i < n; i++)
        if (!place_compare (&row[i - 1], &row[i]) && row[i].plane >= 0 && row[i].wire >= 0)
            return wm_fault (error, WM_EBATCH,
                             "%s: wire_table: rows %u and %u both are wire %d of cryostat %d, tpc "
                             "%d, plane %d: %s",
                             where, row[i - 1].row, row[i].row, row[i].wire, row[i].cryostat,
                             row[i].tpc, row[i].plane, advice);
    return WM_OK;
}
