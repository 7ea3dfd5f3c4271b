/* wm_event.c - holds one event; puts its planes and regions of interest in order.  */
#include "producer/files/wm_event.h"

#include "schema/base/wm_bisect.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wm_event_reset (wm_event_t *self)
{
    self->n_plane = self->n_roi = self->n_hit = self->n_bad_channel_hit = 0;
    self->n_sample = 0;
    self->n_tick = self->n_lifetime = self->patch_values = 0;
    self->segment = 0;
    self->first_tick = self->stream_ticks = 0;
    self->is_missing = false;
    self->drift_cm_us = 0;
}

void wm_event_clear (wm_event_t *self)
{
    if (!self)
        return;
    free (self->plane);
    free (self->roi);
    free (self->sample);
    free (self->lifetime);
    free (self->hit);
    free (self->cell);
    free (self->patch);
    free (self->sorted);
    free (self->start);
    memset (self, 0, sizeof *self);
}

const char *wm_event_format (const wm_event_t *self, char text[128])
{
    const int n = snprintf (text, 128, "event %lld:%lld:%lld", (long long) self->run,
                            (long long) self->subrun, (long long) self->event);
    if (self->stream_ticks)
        snprintf (text + n, 128 - (size_t) n, ", ticks %llu to %llu",
                  (unsigned long long) self->first_tick,
                  (unsigned long long) self->first_tick + self->n_tick - 1);
    return text;
}

wm_fault_t wm_event_reserve (void *memory_p, size_t *capacity, uint64_t count, size_t size,
                             wm_error_t *error)
{
    if (!wm_grow (memory_p, capacity, count, size))
        return wm_fault (error, WM_EHOST, "out of memory for %llu elements of %zu bytes",
                         (unsigned long long) count, size);
    return WM_OK;
}

static int plane_compare (const void *a_v, const void *b_v)
{
    const wm_event_plane_t *a = a_v, *b = b_v;
    if (a->cryostat != b->cryostat)
        return a->cryostat < b->cryostat ? -1 : 1;
    if (a->tpc != b->tpc)
        return a->tpc < b->tpc ? -1 : 1;
    if (a->plane != b->plane)
        return a->plane < b->plane ? -1 : 1;
    return a->channel < b->channel ? -1 : a->channel > b->channel;
}

uint32_t wm_event_plane (const wm_event_t *self, int32_t cryostat, int32_t tpc, int32_t plane)
{
    wm_event_plane_t key = { .cryostat = cryostat, .tpc = tpc, .plane = plane };
    const uint32_t p = WM_BISECT (0, self->n_plane, i, plane_compare (&self->plane[i], &key) < 0);
    return p < self->n_plane && !plane_compare (&self->plane[p], &key) ? p : UINT32_MAX;
}

wm_fault_t wm_event_sort_planes (wm_event_t *self, const char *where, wm_error_t *error)
{
    if (self->n_plane > 1)
        qsort (self->plane, self->n_plane, sizeof *self->plane, plane_compare);
    for (uint32_t i = 0; i < self->n_plane; i++) {
        const wm_event_plane_t *p = &self->plane[i];
        if (i && !plane_compare (p - 1, p))
            return wm_fault (error, WM_EBATCH, "%s: cryostat %d TPC %d plane %d is there twice",
                             where, p->cryostat, p->tpc, p->plane);
        if (p->plane < 0 || p->n_wire < 1 || p->n_wire > WM_EVENT_WIRES_MAX ||
            (uint64_t) p->n_wire * self->n_tick > WM_EVENT_CELLS_MAX)
            return wm_fault (error, WM_EBATCH,
                             "%s: cryostat %d TPC %d plane %d with %u wires of %u ticks is out of "
                             "range",
                             where, p->cryostat, p->tpc, p->plane, p->n_wire, self->n_tick);
    }
    return WM_OK;
}

wm_fault_t wm_event_add_roi (wm_event_t *self, const wm_roi_t *roi, wm_error_t *error)
{
    if (self->n_roi == UINT32_MAX)
        return wm_fault (error, WM_EBATCH, "more than %u regions of interest", UINT32_MAX);
    wm_fault_t fault = wm_event_reserve (&self->roi, &self->roi_max, (uint64_t) self->n_roi + 1,
                                         sizeof *self->roi, error);
    if (!fault)
        self->roi[self->n_roi++] = *roi;
    return fault;
}

WM_ORDER_BY (tick_compare, wm_roi_t, tick)

/* Sorts one wire's ROIs if a file has them out of order, and refuses overlaps.  */
static wm_fault_t wire_arrange (const wm_event_t *self, wm_roi_t *roi, uint32_t count,
                                const char *where, wm_error_t *error)
{
    for (uint32_t i = 1; i < count; i++)
        if (roi[i].tick < roi[i - 1].tick) {
            qsort (roi, count, sizeof *roi, tick_compare);
            break;
        }
    for (uint32_t i = 1; i < count; i++)
        if (roi[i].tick < roi[i - 1].tick + roi[i - 1].count) {
            const wm_event_plane_t *p = &self->plane[roi->plane];
            return wm_fault (error, WM_EBATCH,
                             "%s: cryostat %d TPC %d plane %d wire %u has two samples at tick %llu",
                             where, p->cryostat, p->tpc, p->plane, roi->wire,
                             (unsigned long long) self->first_tick + roi[i].tick);
        }
    return WM_OK;
}

/* A counting sort over (plane, wire): files have few ROIs out of order, but wrapped channels always
   put theirs elsewhere.  */
wm_fault_t wm_event_arrange (wm_event_t *self, const char *where, wm_error_t *error)
{
    uint64_t n_wire = 0;
    for (uint32_t i = 0; i < self->n_plane; i++) {
        self->plane[i].roi_first = (uint32_t) n_wire; /* until the end: its first wire */
        n_wire += self->plane[i].n_wire;
        if (n_wire >= UINT32_MAX)
            return wm_fault (error, WM_EBATCH, "%s: too many wires", where);
    }
    wm_fault_t fault;
    if ((fault = wm_event_reserve (&self->start, &self->start_max, n_wire + 1, 4, error)) ||
        (fault = wm_event_reserve (&self->sorted, &self->sorted_max, self->n_roi,
                                   sizeof *self->sorted, error)))
        return fault;
    memset (self->start, 0, (n_wire + 1) * sizeof *self->start);
    for (uint32_t i = 0; i < self->n_roi; i++) {
        const wm_roi_t *r = &self->roi[i];
        const wm_event_plane_t *p = &self->plane[r->plane];
        if (r->wire >= p->n_wire || r->count > self->n_tick || r->tick > self->n_tick - r->count)
            return wm_fault (
                error, WM_EBATCH,
                "%s: cryostat %d TPC %d plane %d: samples at wire %u, ticks %u to %llu "
                "lie outside %u wires of %u ticks",
                where, p->cryostat, p->tpc, p->plane, r->wire, r->tick,
                (unsigned long long) r->tick + r->count, p->n_wire, self->n_tick);
        self->start[p->roi_first + r->wire + 1]++;
    }
    for (uint64_t w = 0; w < n_wire; w++)
        self->start[w + 1] += self->start[w];
    for (uint32_t i = 0; i < self->n_roi; i++)
        self->sorted[self->start[self->plane[self->roi[i].plane].roi_first + self->roi[i].wire]++] =
            self->roi[i];
    /* start[w] is now where wire w ends, which is where wire w + 1 begins */
    for (uint64_t w = 0; w < n_wire && !fault; w++) {
        uint32_t first = w ? self->start[w - 1] : 0;
        fault = wire_arrange (self, self->sorted + first, self->start[w] - first, where, error);
    }
    for (uint32_t i = 0; i < self->n_plane; i++) {
        wm_event_plane_t *p = &self->plane[i];
        uint32_t wire = p->roi_first;
        p->roi_first = wire ? self->start[wire - 1] : 0;
        p->roi_count = self->start[wire + p->n_wire - 1] - p->roi_first;
    }
    wm_roi_t *swap = self->roi;
    size_t swap_max = self->roi_max;
    self->roi = self->sorted, self->roi_max = self->sorted_max;
    self->sorted = swap, self->sorted_max = swap_max;
    return fault;
}
