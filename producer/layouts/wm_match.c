/* wm_match.c - see wm_match.h.  */
#include "producer/layouts/wm_match.h"
#include "schema/base/wm_bisect.h"

#include <math.h>

#define NEAR_TICKS                                                                                 \
    8 /* a hit's charge: the largest |ADC| so near its time; hits of deconvolved
                        signals are a few ticks off raw ones */
#define READOUT_LEAST 256u /* ticks: a shorter one has no other time, apart from the hit's pulse */
#define SHARE_FOUND 0.25   /* of hits on wires with charge: find more than elsewhere, at least */
#define SHARE_MORE 0.65    /* of hits that find different charge at both: more at their time */
#define SHARE_NOT_EMPTY 0.75
#define GOLDEN 0.6180339887498949 /* its multiples fill 0 to 1 evenly */

/* Of regions low .. high-1, in the order of wires and ticks: the first that ends behind tick
   `first` of the wire; or what is behind the wire.  */
static uint32_t roi_find (const wm_event_t *event, uint32_t low, uint32_t high, uint32_t wire,
                          double first)
{
    const wm_roi_t *roi = event->roi;
    return WM_BISECT (low, high, i,
                      roi[i].wire < wire ||
                          (roi[i].wire == wire && roi[i].tick + (double) roi[i].count <= first));
}

/* The largest |ADC| near `time` in regions low .. high-1, all of one wire.  */
static float charge (const wm_event_t *event, uint32_t low, uint32_t high, double time,
                     double near)
{
    const double first = floor (time) - near, last = floor (time) + near;
    float most = 0;
    if (low < high)
        low = roi_find (event, low, high, event->roi[low].wire, first);
    for (; low < high && event->roi[low].tick <= last; low++) {
        const wm_roi_t *roi = &event->roi[low];
        const float *sample = event->sample + roi->value;
        const uint32_t end = (uint32_t) fmin (last - roi->tick + 1, roi->count);
        for (uint32_t t = (uint32_t) fmax (first - roi->tick, 0); t < end; t++)
            if (fabsf (sample[t]) > most) /* not NaN */
                most = fabsf (sample[t]);
    }
    return isfinite (most) ? most : 0;
}

float wm_match_charge (const wm_event_t *event, const wm_event_plane_t *plane, uint32_t wire,
                       double time, double near)
{
    const uint32_t end = plane->roi_first + plane->roi_count,
                   low = roi_find (event, plane->roi_first, end, wire, floor (time) - near);
    return charge (event, low, roi_find (event, low, end, wire + 1, -1), time, near);
}

void wm_match_add (wm_match_t *self, const wm_event_t *event, double tick_us)
{
    const double n_tick = event->n_tick;
    uint32_t plane = UINT32_MAX, wire = 0, low = 0, high = 0; /* of the hit before, its regions */
    if (event->is_missing || event->patch_values || event->n_tick < READOUT_LEAST)
        return;
    for (uint32_t i = 0; i < event->n_hit; i++) {
        const wm_hit_t *hit = &event->hit[i];
        const uint32_t p = wm_event_plane (event, hit->cryostat, hit->tpc, hit->plane);
        if (p == UINT32_MAX || hit->wire < 0 || !(hit->time >= 0 && (double) hit->time < n_tick))
            continue;
        if (p != plane || (uint32_t) hit->wire != wire) {
            const uint32_t first = event->plane[p].roi_first,
                           end = first + event->plane[p].roi_count;
            plane = p, wire = (uint32_t) hit->wire;
            low = roi_find (event, first, end, wire, -1);
            high = roi_find (event, low, end, wire + 1, -1);
        }
        if (low == high)
            continue; /* a dead wire */
        const double away = n_tick * (0.25 + 0.5 * (i * GOLDEN - floor (i * GOLDEN))),
                     time = (double) hit->time;
        const float here = charge (event, low, high, time, NEAR_TICKS),
                    there = charge (event, low, high, fmod (time + away, n_tick), NEAR_TICKS);
        self->n++;
        self->n_more += here > there;
        self->n_less += here < there;
        self->n_other +=
            tick_us > 0 && charge (event, low, high, time / tick_us, NEAR_TICKS) > here;
    }
}

/* Chernoff's bound on P (at most m of n), each with probability p.  */
static double chance (uint64_t n, uint64_t m, double p)
{
    const double x = n ? (double) m / (double) n : 1;
    if (x >= p)
        return 1;
    const double of_hits = x > 0 ? x * log (x / p) : 0,
                 of_others = (1 - x) * log ((1 - x) / (1 - p));
    return exp (-(double) n * (of_hits + of_others));
}

double wm_match_chance (const wm_match_t *self)
{
    return fmin (chance (self->n, self->n_more, SHARE_FOUND),
                 chance (self->n_more + self->n_less, self->n_more, SHARE_MORE));
}

double wm_match_empty_chance (uint64_t n_hit, uint64_t n_empty)
{
    return n_empty > n_hit / 2 && n_empty <= n_hit
               ? chance (n_hit, n_hit - n_empty, SHARE_NOT_EMPTY)
               : 1;
}

bool wm_match_is_other (const wm_match_t *self)
{
    return chance (self->n, self->n - self->n_other, 0.5) < WM_MATCH_WARN;
}
