/* show_points.c - space points as what they are on planes, so that one code draws them and hits.

   A point becomes a hit on each plane where it has one, all of its row; a point without any stays
   one hit on no plane. Their cells are repeated, for the patch.  */
#include "producer/pictures/show_event.h"

#include <stdlib.h>
#include <string.h>

static void point_put (const wm_hit_t *point, const wm_event_cell_t *cell, uint32_t n_channel,
                       wm_event_t *to)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k <= n_channel; k++) {
        const bool is_here = k < n_channel ? cell[k].wire >= 0 : !n;
        if (!is_here)
            continue;
        wm_hit_t *hit = &to->hit[to->n_hit];
        *hit = *point;
        if (k < n_channel)
            hit->plane = (int32_t) k, hit->wire = cell[k].wire, hit->time = cell[k].time;
        memcpy (&to->cell[(size_t) to->n_hit++ * n_channel], cell, n_channel * sizeof *cell);
        n++;
    }
}

wm_fault_t wm_show_project (wm_show_t *show, wm_error_t *error)
{
    wm_event_t *event = &show->event, to = { 0 };
    const uint32_t n_channel = show->spec.n_channel;
    const uint64_t most = (uint64_t) event->n_hit * n_channel + 1;
    if (wm_event_reserve (&to.hit, &to.hit_max, most, sizeof *to.hit, error) ||
        wm_event_reserve (&to.cell, &to.cell_max, most * n_channel, sizeof *to.cell, error)) {
        free (to.hit);
        return error->fault;
    }
    show->n_point = event->n_hit;
    for (uint32_t i = 0; i < event->n_hit; i++)
        point_put (&event->hit[i], &event->cell[(size_t) i * n_channel], n_channel, &to);
    free (event->hit);
    free (event->cell);
    event->hit = to.hit, event->hit_max = to.hit_max, event->n_hit = to.n_hit;
    event->cell = to.cell, event->cell_max = to.cell_max;
    return WM_OK;
}
