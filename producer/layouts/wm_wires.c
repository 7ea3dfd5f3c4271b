/* wm_wires.c - see wm_wires.h.  */
#include "producer/layouts/wm_wires.h"
#include "schema/base/wm_bisect.h"

#include <stdlib.h>

static int channel_compare (const void *a_v, const void *b_v)
{
    const wm_wire_t *a = a_v, *b = b_v;
    if (a->channel != b->channel)
        return a->channel < b->channel ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

void wm_wires_by_channel (wm_wire_t *row, uint64_t n)
{
    if (n > 1)
        qsort (row, n, sizeof *row, channel_compare);
}

const wm_wire_t *wm_wires_of (const wm_wire_t *row, uint32_t n, int32_t channel, uint32_t *count)
{
    const uint32_t first = WM_BISECT (0, n, i, row[i].channel < channel);
    *count = 0;
    while (first + *count < n && row[first + *count].channel == channel)
        ++*count;
    return row + first;
}

int wm_wires_order (const wm_wire_t *a, const wm_wire_t *b)
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
    const int place = wm_wires_order (a, b);
    return place ? place : a->row < b->row ? -1 : a->row > b->row;
}

wm_fault_t wm_wires_check (wm_wire_t *row, uint64_t n, const char *where, const char *rows,
                           const char *advice, wm_error_t *error)
{
    uint64_t i = 1;
    while (i < n && wm_wires_order (&row[i - 1], &row[i]) < 0)
        i++;
    if (i >= n) /* as files usually have them: in order, so none is there twice */
        return WM_OK;
    qsort (row, n, sizeof *row, row_compare);
    for (i = 1; i < n; i++)
        if (!wm_wires_order (&row[i - 1], &row[i]) && row[i].plane >= 0 && row[i].wire >= 0)
            return wm_fault (error, WM_EBATCH,
                             "%s: %s %u and %u both are wire %d of cryostat %d, tpc "
                             "%d, plane %d: %s",
                             where, rows, row[i - 1].row, row[i].row, row[i].wire, row[i].cryostat,
                             row[i].tpc, row[i].plane, advice);
    return WM_OK;
}
