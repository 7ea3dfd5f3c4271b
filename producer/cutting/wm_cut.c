/* wm_cut.c - sorts and judges hits, cuts planes into slices.

   start   factors, judgement of each hit by itself, order
   next    loads the next plane with hits: its runs, and the hits near non-finite cells are held;
           then slice after slice of it
   Which cells a slice needs is kept in blocks: a difference array over (wire, block), one cheap
   update a hit, summed up once a slice.  */
#include "producer/cutting/wm_cut.h"

#include "producer/cutting/wm_runs.h"
#include "schema/base/wm_bisect.h"
#include "schema/base/wm_order.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIME_MAX 0x1p30f
#define NOWHERE (-(1 << 30)) /* a column so far outside that a patch there is all Z */

typedef struct {
    uint32_t plane, wire, hit; /* plane: index; hit: index into the event's */
    float time;
    int32_t col;
} sorted_t;

struct wm_cut_t {
    const wm_spec_t *spec;
    wm_cut_limits_t limits;

    const wm_event_t *event;
    const float *factor; /* of this event, or NULL */
    float *factors;
    sorted_t *sorted, *spare; /* spare: of windows, while a plane is put in order */
    uint32_t n_sorted;
    wm_manifest_held_t *held;
    uint32_t n_held, n_same_cell, n_empty;
    wm_cut_odd_t odd;
    uint8_t *in_fiducial;
    uint32_t *hit; /* of the batches, one after another */
    uint32_t n_hit;

    wm_runs_t runs, part;                  /* part: of a stack, the runs of one channel */
    uint32_t offset[WM_SPEC_CHANNELS_MAX]; /* of a stack: first wire of each channel */
    uint32_t at, plane_end; /* of sorted: the next hit, and the end of the plane that is loaded */
    int32_t *cover;         /* (wires of a slice + 1, blocks + 1) */
    size_t factors_max, sorted_max, spare_max, held_max, in_fiducial_max, hit_max, cover_max;
};

wm_cut_limits_t wm_cut_limits (const wm_pins_t *pins)
{
    return (wm_cut_limits_t){ .n_output = pins->n_output,
                              .batch_hits = pins->batch_hits,
                              .batch_bytes = pins->batch_bytes,
                              .even = strcmp (pins->cut, "even") == 0 };
}

wm_cut_t *wm_cut_new (const wm_spec_t *spec, wm_cut_limits_t limits)
{
    wm_cut_t *self = calloc (1, sizeof *self);
    assert (self);
    self->spec = spec;
    self->limits = limits;
    const uint32_t fit = (uint32_t) (WM_RAW_BYTES_MAX / wm_result_bytes (1, limits.n_output));
    if (limits.batch_hits > fit)
        self->limits.batch_hits = fit ? fit : 1; /* a larger result goes alone */
    if (limits.batch_bytes > WM_RAW_BYTES_MAX)
        self->limits.batch_bytes = WM_RAW_BYTES_MAX;
    return self;
}

void wm_cut_destroy (wm_cut_t **self_p)
{
    wm_cut_t *self = *self_p;
    if (!self)
        return;
    wm_runs_clear (&self->runs);
    wm_runs_clear (&self->part);
    free (self->factors);
    free (self->sorted);
    free (self->spare);
    free (self->held);
    free (self->in_fiducial);
    free (self->hit);
    free (self->cover);
    free (self);
    *self_p = NULL;
}

void wm_cut_odd_add (wm_cut_odd_t *self, const wm_cut_odd_t *from)
{
    self->n_early += from->n_early, self->n_late += from->n_late;
    self->n_pixel += from->n_pixel, self->n_clamped += from->n_clamped;
    if (from->n_early)
        self->early = from->early;
    if (from->n_late)
        self->late = from->late;
    if (from->n_early || from->n_late)
        self->n_tick = from->n_tick;
    if (from->growth > self->growth)
        self->growth = from->growth, self->tau_us = from->tau_us;
}

/* ---- start ----------------------------------------------------------------------------------- */

static double fact (double of_spec, double of_event)
{
    return isnan (of_spec) ? of_event : of_spec;
}

/* A stream has no drift time from its trigger on: over seconds the factor leaves all bounds. It
   only grows, so that its value at the last tick decides.  */
static wm_fault_t factors_check (double tau_us, double t0_us, double tick_us, double trigger_offset,
                                 const wm_event_t *event, const char *where, wm_error_t *error)
{
    const uint64_t last = event->stream_ticks - 1;
    float factor;
    wm_image_lifetime (tau_us, t0_us, tick_us, trigger_offset, last, 1, &factor);
    return isfinite (factor)
               ? WM_OK
               : wm_fault (error, WM_EBATCH,
                           "%.300s: lifetime: exp is a factor of %g at tick %llu (tau_us %g); "
                           "write lifetime: none into --spec: a stream is corrected before",
                           where, (double) factor, (unsigned long long) last, tau_us);
}

/* What is needed; 0 and NaN stand for what is not known, all else was given.  */
static const char *above_0 (char text[48], const char *name, double given)
{
    const bool is_given = given < 0 || given > 0;
    const int n = snprintf (text, 48, "a %s%s above 0", isinf (given) ? "finite " : "", name);
    if (is_given)
        snprintf (text + n, 48 - (size_t) n, " (not %.4g)", given);
    return text;
}

/* Names all that are missing, so that one edit of the specification is enough.  */
static wm_fault_t facts_check (double tau_us, double tick_us, double trigger_offset,
                               const char *where, wm_error_t *error)
{
    char text[2][48];
    const char *needs[3];
    unsigned n = 0;
    if (!(tau_us > 0))
        needs[n++] = above_0 (text[0], "tau_us", tau_us);
    if (!(tick_us > 0 && isfinite (tick_us)))
        needs[n++] = above_0 (text[1], "tick_us", tick_us);
    if (isnan (trigger_offset))
        needs[n++] = "trigger_offset";
    return n == 0 ? WM_OK
                  : wm_fault (error, WM_EBATCH,
                              "%.300s: lifetime: exp needs %s%s%s%s%s, which neither the "
                              "specification nor the input gives; write %s, or lifetime: none, "
                              "into --spec",
                              where, needs[0], n == 3 ? ", " : n == 2 ? " and " : "",
                              n > 1 ? needs[1] : "", n == 3 ? " and " : "", n == 3 ? needs[2] : "",
                              n > 1 ? "them" : "it");
}

static wm_fault_t factors_make (wm_cut_t *self, const char *where, wm_error_t *error)
{
    const wm_spec_t *spec = self->spec;
    const wm_event_t *event = self->event;
    self->factor = NULL;
    if (spec->lifetime == WM_LIFETIME_NONE)
        return WM_OK;
    if (spec->lifetime == WM_LIFETIME_TABLE && event->stream_ticks)
        return wm_fault (error, WM_EBATCH,
                         "%.300s: lifetime: table is not for a stream of %llu ticks; write "
                         "lifetime: none into --spec",
                         where, (unsigned long long) event->stream_ticks);
    if (spec->lifetime == WM_LIFETIME_TABLE) {
        self->factor = event->lifetime;
        return event->n_lifetime == event->n_tick
                   ? WM_OK
                   : wm_fault (error, WM_EBATCH,
                               "%s: the specification has lifetime: table, but the input has no "
                               "table of %u factors (event_table/lifetime)",
                               where, event->n_tick);
    }
    double tau_us = fact (spec->tau_us, event->tau_us),
           tick_us = fact (spec->tick_us, event->tick_us);
    double trigger_offset = fact (spec->trigger_offset, event->trigger_offset);
    double t0_us = fact (spec->t0_us, 0);
    wm_fault_t fault = facts_check (tau_us, tick_us, trigger_offset, where, error);
    if (fault)
        return fault;
    fault = wm_event_reserve (&self->factors, &self->factors_max, event->n_tick, 4, error);
    if (!fault && event->stream_ticks)
        fault = factors_check (tau_us, t0_us, tick_us, trigger_offset, event, where, error);
    if (event->n_hit) {
        const double last = (double) event->first_tick + event->n_tick - 1;
        self->odd.growth = ((last - trigger_offset) * tick_us - t0_us) / tau_us;
        self->odd.tau_us = tau_us;
    }
    if (!fault && (event->n_hit || !event->stream_ticks)) /* most segments have no hits */
        wm_image_lifetime (tau_us, t0_us, tick_us, trigger_offset, event->first_tick, event->n_tick,
                           self->factors);
    self->factor = self->factors;
    return fault;
}

static void hold (wm_cut_t *self, uint32_t hit, wm_hit_status_t status)
{
    self->held[self->n_held++] = (wm_manifest_held_t){ hit, status };
}

/* Columns [*first, *last) of a plane of n_col that a patch at `col` reads; it may read none.  */
static void columns_in (const wm_spec_t *spec, int32_t col, uint32_t n_col, int64_t *first,
                        int64_t *last)
{
    const int64_t ticks = spec->view == WM_FULL_VIEW ? 1 : spec->drift_window;
    *first = (int64_t) col - spec->patch_bin * ticks / 2;
    *last = spec->view == WM_FULL_VIEW ? *first + spec->patch_bin
                                       : (int64_t) col + spec->patch_bin * ticks / 2;
    *first = *first < 0 ? 0 : *first;
    *last = *last > n_col ? n_col : *last;
}

/* Whether a time is one, and its patch reads ticks of the readout.  */
static bool time_is_good (wm_cut_t *self, float time)
{
    int64_t first, last;
    if (!isfinite (time) || fabsf (time) > TIME_MAX)
        return false;
    columns_in (self->spec, wm_image_col (self->spec, time),
                wm_image_n_col (self->spec, self->event->n_tick), &first, &last);
    if (first < last)
        return true;
    const double tick = (double) self->event->first_tick + (double) time;
    self->odd.n_early += time < 0, self->odd.n_late += !(time < 0);
    *(time < 0 ? &self->odd.early : &self->odd.late) = tick;
    self->odd.n_tick = self->event->n_tick;
    return false;
}

static uint8_t is_inside (const wm_spec_t *spec, const wm_event_t *event, uint32_t n_wire,
                          const wm_hit_t *hit)
{
    uint32_t wire = spec->patch_wire / 8, col = spec->patch_bin / 8;
    uint32_t n_bin = event->n_tick / spec->drift_window;
    int32_t bin = (int32_t) (hit->time / (float) spec->drift_window);
    return hit->wire >= (int64_t) wire && hit->wire < (int64_t) n_wire - wire &&
           bin >= (int64_t) col && bin < (int64_t) n_bin - col;
}

/* Whether upstream would take this hit's patch for the last one's: same wire, same cell; in own
   view it compares the time with the whole ticks of the last.  */
static bool is_same_cell (const wm_spec_t *spec, const sorted_t *last, const sorted_t *hit)
{
    return last->wire == hit->wire &&
           (spec->view == WM_FULL_VIEW ? last->col == hit->col : (float) last->col == hit->time);
}

static void hits_judge (wm_cut_t *self)
{
    const wm_event_t *event = self->event;
    sorted_t last = { .plane = UINT32_MAX };
    for (uint32_t i = 0; i < event->n_hit; i++) {
        const wm_hit_t *hit = &event->hit[i];
        uint32_t plane = wm_event_plane (event, hit->cryostat, hit->tpc, hit->plane);
        self->in_fiducial[i] = 0;
        if (!time_is_good (self, hit->time)) {
            hold (self, i, WM_HIT_BAD_TIME);
            continue;
        }
        if (plane == UINT32_MAX || hit->wire < 0 ||
            (uint32_t) hit->wire >= event->plane[plane].n_wire) {
            hold (self, i, WM_HIT_BAD_WIRE);
            continue;
        }
        sorted_t *s = &self->sorted[self->n_sorted++];
        *s = (sorted_t){ plane, (uint32_t) hit->wire, i, hit->time,
                         wm_image_col (self->spec, hit->time) };
        self->in_fiducial[i] = is_inside (self->spec, event, event->plane[plane].n_wire, hit);
        self->n_same_cell += last.plane == plane && is_same_cell (self->spec, &last, s);
        last = *s;
    }
}

static int hit_compare (const void *a_v, const void *b_v)
{
    const sorted_t *a = a_v, *b = b_v;
    if (a->plane != b->plane)
        return a->plane < b->plane ? -1 : 1;
    if (a->wire != b->wire)
        return a->wire < b->wire ? -1 : 1;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->hit < b->hit ? -1 : a->hit > b->hit;
}

/* Index of the plane that fills a channel of a hit's patch; UINT32_MAX: the event has none.  */
static uint32_t channel_plane (const wm_cut_t *self, const wm_hit_t *hit, uint32_t channel)
{
    const wm_event_t *event = self->event;
    if (self->spec->points == WM_POINTS_SPACEPOINTS)
        return wm_event_plane (event, hit->cryostat, hit->tpc, (int32_t) channel);
    const uint32_t plane = wm_event_plane (event, hit->cryostat, hit->tpc, hit->plane);
    return plane == UINT32_MAX ? plane : plane + channel;
}

/* Judges the cells of a hit of several channels. It is sorted by the first that it has, under the
   first plane that its TPC, or its own plane, has.  */
static wm_hit_status_t cells_judge (wm_cut_t *self, uint32_t i, sorted_t *s)
{
    const wm_event_t *event = self->event;
    const uint32_t n = self->spec->n_channel;
    const wm_event_cell_t *cell = event->cell + (size_t) i * n;
    wm_hit_t hit = event->hit[i];
    bool has_cell = false, inside = true;
    *s = (sorted_t){ .plane = UINT32_MAX, .hit = i };
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t plane = channel_plane (self, &hit, k);
        s->plane = s->plane == UINT32_MAX ? plane : s->plane;
        if (cell[k].wire == WM_EVENT_NO_CELL)
            continue;
        if (!time_is_good (self, cell[k].time))
            return WM_HIT_BAD_TIME;
        if (plane == UINT32_MAX || cell[k].wire < 0 ||
            (uint32_t) cell[k].wire >= event->plane[plane].n_wire)
            return WM_HIT_BAD_WIRE;
        hit.wire = cell[k].wire, hit.time = cell[k].time;
        inside = inside && is_inside (self->spec, event, event->plane[plane].n_wire, &hit);
        if (!has_cell)
            s->wire = (uint32_t) hit.wire, s->time = hit.time;
        has_cell = true;
    }
    self->in_fiducial[i] = has_cell && inside;
    return has_cell ? WM_HIT_SCORED : WM_HIT_BAD_WIRE;
}

static void stacks_judge (wm_cut_t *self)
{
    for (uint32_t i = 0; i < self->event->n_hit; i++) {
        self->in_fiducial[i] = 0;
        const wm_hit_status_t status = cells_judge (self, i, &self->sorted[self->n_sorted]);
        if (status)
            hold (self, i, status);
        else
            self->n_sorted++;
    }
}

/* A patch with a non-finite value holds its hit; the others stay in input order.  */
static void patches_judge (wm_cut_t *self)
{
    const wm_event_t *event = self->event;
    for (uint32_t i = 0; i < event->n_hit; i++) {
        const float *patch = event->patch + (size_t) i * event->patch_values;
        float sum = 0; /* 0 x: NaN unless x is finite */
        bool empty = true;
        for (uint32_t k = 0; k < event->patch_values; k++) {
            sum += 0 * patch[k];
            empty &= patch[k] == 0;
        }
        if (sum != 0)
            hold (self, i, WM_HIT_BAD_PIXEL);
        else
            self->sorted[self->n_sorted++] = (sorted_t){ .hit = i };
        self->n_empty += empty;
        self->in_fiducial[i] = sum == 0;
    }
}

wm_fault_t wm_cut_start (wm_cut_t *self, const wm_event_t *event, const char *where,
                         wm_error_t *error)
{
    self->event = event;
    self->n_sorted = self->n_held = self->n_same_cell = self->n_empty = 0;
    self->n_hit = self->at = self->plane_end = 0;
    self->odd = (wm_cut_odd_t){ 0 };
    uint64_t n = event->n_hit;
    wm_fault_t fault;
    if ((fault =
             wm_event_reserve (&self->sorted, &self->sorted_max, n, sizeof *self->sorted, error)) ||
        (fault = wm_event_reserve (&self->held, &self->held_max, n, sizeof *self->held, error)) ||
        (fault = wm_event_reserve (&self->in_fiducial, &self->in_fiducial_max, n, 1, error)) ||
        (fault = wm_event_reserve (&self->hit, &self->hit_max, n, 4, error)))
        return fault;
    if (event->patch_values) {
        patches_judge (self);
        return WM_OK;
    }
    if (event->is_missing) {
        for (uint32_t i = 0; i < event->n_hit; i++)
            self->in_fiducial[i] = 0, hold (self, i, WM_HIT_NO_EVENT);
        return WM_OK;
    }
    if (event->n_hit && wm_image_n_col (self->spec, event->n_tick) < 1)
        return wm_fault (error, WM_EBATCH, "%s: a readout of %u ticks is shorter than a drift bin",
                         where, event->n_tick);
    if ((fault = factors_make (self, where, error)))
        return fault;
    if (self->spec->n_channel > 1)
        stacks_judge (self);
    else
        hits_judge (self);
    if (self->n_sorted > 1)
        qsort (self->sorted, self->n_sorted, sizeof *self->sorted, hit_compare);
    return WM_OK;
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* Where channel k of a hit's patch is cut from the plane, or stack, that is loaded.  */
typedef struct {
    uint32_t wire;
    int32_t col;
} place_t;

static uint32_t n_place (const wm_cut_t *self)
{
    return self->spec->n_channel > 1 ? self->spec->n_channel : 1;
}

static place_t place_of (const wm_cut_t *self, const sorted_t *hit, uint32_t k)
{
    if (self->spec->n_channel <= 1)
        return (place_t){ hit->wire, hit->col };
    const wm_event_cell_t *cell = &self->event->cell[(size_t) hit->hit * self->spec->n_channel + k];
    if (cell->wire < 0 || hit->col == NOWHERE)
        return (place_t){ 0, NOWHERE };
    return (place_t){ self->offset[k] + (uint32_t) cell->wire,
                      wm_image_col (self->spec, cell->time) };
}

/* Whether a patch reads a non-finite cell. They are few, and in wire order.  */
static bool place_reads_bad (const wm_cut_t *self, const place_t *hit)
{
    const wm_cell_t *bad = self->runs.bad;
    uint32_t half = self->spec->patch_wire / 2;
    uint32_t from = hit->wire > half ? hit->wire - half : 0;
    for (uint64_t k = WM_BISECT (0, self->runs.n_bad, i, bad[i].wire < from);
         k < self->runs.n_bad && bad[k].wire < hit->wire + self->spec->patch_wire; k++)
        if (wm_image_covers (self->spec, hit->wire, hit->col, bad[k].wire, bad[k].col))
            return true;
    return false;
}

static bool reads_bad (const wm_cut_t *self, const sorted_t *hit)
{
    for (uint32_t k = 0; k < n_place (self); k++) {
        const place_t place = place_of (self, hit, k);
        if (place_reads_bad (self, &place))
            return true;
    }
    return false;
}

/* Columns [*first, *last) of the plane that a patch reads.  */
static void columns_of (const wm_cut_t *self, const place_t *hit, int64_t *first, int64_t *last)
{
    columns_in (self->spec, hit->col, self->runs.n_col, first, last);
}

/* Whether a patch reads no run at all. Its own wire comes first: nearly always it ends there.  */
static bool place_is_empty (const wm_cut_t *self, const place_t *hit)
{
    const wm_runs_t *runs = &self->runs;
    const int64_t above = self->spec->patch_wire / 2, below = self->spec->patch_wire - above;
    int64_t first, last;
    columns_of (self, hit, &first, &last);
    for (int64_t k = 0; k < 2 * below; k++) { /* 0, -1, 1, -2 ... -below */
        const int64_t away = k % 2 ? -(k + 1) / 2 : k / 2, wire = (int64_t) hit->wire + away;
        if (wire < 0 || wire >= runs->n_wire || away < -above)
            continue;
        /* the first run that ends behind the patch's first column */
        const uint64_t end = runs->wire_start[wire + 1],
                       at = WM_BISECT (runs->wire_start[wire], end, i,
                                       (int64_t) runs->run[i].first + runs->run[i].length <= first);
        if (at < end && runs->run[at].first < last)
            return false;
    }
    return true;
}

static bool is_empty (const wm_cut_t *self, const sorted_t *hit)
{
    for (uint32_t k = 0; k < n_place (self); k++) {
        const place_t place = place_of (self, hit, k);
        if (!place_is_empty (self, &place))
            return false;
    }
    return true;
}

/* Windows without charge go first, all with one cell outside the plane: an engine computes a cell
   that the hit before had only once. sorted[at .. end) keeps its order otherwise.  */
static wm_fault_t empty_first (wm_cut_t *self, uint32_t end, wm_error_t *error)
{
    const uint32_t n = end - self->at;
    wm_fault_t fault =
        wm_event_reserve (&self->spare, &self->spare_max, n, sizeof *self->spare, error);
    if (fault)
        return fault;
    sorted_t *hit = self->sorted + self->at;
    uint32_t n_empty = 0, n_full = 0;
    for (uint32_t i = 0; i < n; i++)
        if (is_empty (self, &hit[i])) {
            hit[n_empty] = hit[i];
            hit[n_empty].wire = 0;
            hit[n_empty++].col = NOWHERE;
        } else
            self->spare[n_full++] = hit[i];
    memcpy (hit + n_empty, self->spare, n_full * sizeof *hit);
    return WM_OK;
}

/* Puts the planes of the channels of a hit's patch into one, so far apart that no patch reaches
   from one into the next.  */
static wm_fault_t stack_load (wm_cut_t *self, const wm_hit_t *hit, wm_error_t *error)
{
    uint64_t at = 0;
    for (uint32_t k = 0; k < self->spec->n_channel; k++) {
        const uint32_t plane = channel_plane (self, hit, k);
        wm_fault_t fault;
        self->offset[k] = (uint32_t) at;
        if (plane == UINT32_MAX)
            continue;
        if ((fault =
                 wm_runs_make (&self->part, self->spec, self->event, plane, self->factor, error)) ||
            (fault = wm_runs_stack (&self->runs, &self->part, (uint32_t) at, error)))
            return fault;
        at += self->part.n_wire + self->spec->patch_wire;
        if (at > WM_EVENT_WIRES_MAX)
            return wm_fault (error, WM_EBATCH,
                             "event %lld:%lld:%lld: the planes of %u channels have more than %u "
                             "wires together",
                             (long long) self->event->run, (long long) self->event->subrun,
                             (long long) self->event->event, self->spec->n_channel,
                             WM_EVENT_WIRES_MAX);
    }
    return WM_OK;
}

/* Makes the runs of the plane of the next hit, and holds its hits near non-finite cells: sorted[at
   .. plane_end) is what remains, shifted to the plane's end.  */
static wm_fault_t plane_load (wm_cut_t *self, wm_error_t *error)
{
    uint32_t plane = self->sorted[self->at].plane, end = self->at;
    while (end < self->n_sorted && self->sorted[end].plane == plane)
        end++;
    wm_fault_t fault =
        self->spec->n_channel > 1
            ? stack_load (self, &self->event->hit[self->sorted[self->at].hit], error)
            : wm_runs_make (&self->runs, self->spec, self->event, plane, self->factor, error);
    if (fault)
        return fault;
    self->odd.n_pixel += self->runs.n_value;
    self->odd.n_clamped += self->runs.n_clamped;
    uint32_t keep = end;
    for (uint32_t i = end; self->runs.n_bad && i-- > self->at;) {
        if (reads_bad (self, &self->sorted[i]))
            hold (self, self->sorted[i].hit, WM_HIT_BAD_PIXEL);
        else
            self->sorted[--keep] = self->sorted[i];
    }
    if (self->runs.n_bad)
        self->at = keep;
    self->plane_end = end;
    return self->spec->points == WM_POINTS_WINDOWS ? empty_first (self, end, error) : WM_OK;
}

/* Returns how many of the `left` hits the next batch takes, at most `most`. Evenly: the first of
   the fewest batches that hold them all, so that those that follow are cut alike.  */
static uint32_t take (const wm_cut_t *self, uint32_t left, uint32_t most)
{
    if (left <= most || !self->limits.even)
        return left < most ? left : most;
    const uint32_t batches = left / most + (left % most > 0);
    return left / batches + (left % batches > 0);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* The cells a slice needs: wires first_wire .. +n_wire, blocks of columns, > 0 where needed.  */
typedef struct {
    uint32_t first_wire, n_wire, n_block;
    size_t pitch;
} slice_t;

/* The wires that a slice's patches read.  */
static void slice_wires (const wm_cut_t *self, uint32_t count, slice_t *slice)
{
    const uint32_t above = self->spec->patch_wire / 2, below = self->spec->patch_wire - above;
    uint32_t first = UINT32_MAX, last = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < n_place (self); k++) {
            const uint32_t wire = place_of (self, &self->sorted[self->at + i], k).wire;
            first = wire < first ? wire : first;
            last = wire > last ? wire : last;
        }
    last = last + below < self->runs.n_wire ? last + below : self->runs.n_wire;
    slice->first_wire = first > above ? first - above : 0;
    slice->n_wire = last - slice->first_wire;
}

/* Counts a patch in the difference array of its blocks.  */
static void cover_add (wm_cut_t *self, const slice_t *slice, const place_t *place)
{
    const uint32_t above = self->spec->patch_wire / 2, below = self->spec->patch_wire - above,
                   last_wire = slice->first_wire + slice->n_wire;
    int64_t first, last;
    columns_of (self, place, &first, &last);
    if (first >= last)
        return;
    size_t a = (size_t) first / WM_CUT_BLOCK, b = ((size_t) last - 1) / WM_CUT_BLOCK + 1;
    uint32_t top = place->wire > above ? place->wire - above : 0;
    uint32_t bottom = place->wire + below < last_wire ? place->wire + below : last_wire;
    int32_t *from = self->cover + (top - slice->first_wire) * slice->pitch;
    int32_t *to = self->cover + (bottom - slice->first_wire) * slice->pitch;
    from[a]++, from[b]--, to[a]--, to[b]++;
}

static wm_fault_t slice_cover (wm_cut_t *self, uint32_t count, slice_t *slice, wm_error_t *error)
{
    slice_wires (self, count, slice);
    slice->n_block = (self->runs.n_col + WM_CUT_BLOCK - 1) / WM_CUT_BLOCK;
    slice->pitch = slice->n_block + 1ul;
    uint64_t cells = (slice->n_wire + 1ull) * slice->pitch;
    wm_fault_t fault = wm_event_reserve (&self->cover, &self->cover_max, cells, 4, error);
    if (fault)
        return fault;
    memset (self->cover, 0, cells * sizeof *self->cover);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < n_place (self); k++) {
            const place_t place = place_of (self, &self->sorted[self->at + i], k);
            cover_add (self, slice, &place);
        }
    for (uint32_t w = 0; w < slice->n_wire; w++) {
        int32_t *row = self->cover + w * slice->pitch;
        for (size_t b = 1; b < slice->pitch; b++)
            row[b] += row[b - 1];
        for (size_t b = 0; w && b < slice->pitch; b++)
            row[b] += row[b - slice->pitch];
    }
    return WM_OK;
}

/* Clips the runs to the slice and counts them; with `fill` also writes them to the batch.  */
static void slice_runs (const wm_cut_t *self, const slice_t *slice, wm_batch_t *batch, bool fill)
{
    uint32_t n_run = 0;
    uint64_t n_value = 0;
    const wm_runs_t *runs = &self->runs;
    uint64_t end = runs->wire_start[slice->first_wire + slice->n_wire];
    for (uint64_t r = runs->wire_start[slice->first_wire]; r < end; r++) {
        const wm_run_t *run = &runs->run[r];
        const int32_t *cover = self->cover + (run->wire - slice->first_wire) * slice->pitch;
        const uint32_t stop = run->first + run->length;
        bool is_open = false; /* the block before is needed too */
        for (uint32_t from = run->first, at; from < stop; from = at) {
            const uint32_t block = from / WM_CUT_BLOCK, edge = (block + 1) * WM_CUT_BLOCK;
            at = edge < stop ? edge : stop;
            if (cover[block] <= 0) {
                is_open = false;
                continue;
            }
            n_run += !is_open;
            if (fill) {
                batch->run_wire[n_run - 1] = run->wire;
                batch->run_first[n_run - 1] = is_open ? batch->run_first[n_run - 1] : from;
                batch->run_length[n_run - 1] = at - batch->run_first[n_run - 1];
                memcpy (batch->value + n_value, runs->value + run->value + (from - run->first),
                        (at - from) * sizeof (float));
            }
            n_value += at - from;
            is_open = true;
        }
    }
    batch->n_run = n_run;
    batch->n_value = n_value > UINT32_MAX ? UINT32_MAX : (uint32_t) n_value;
}

static wm_fault_t too_large (const wm_cut_t *self, uint64_t raw, wm_error_t *error)
{
    return wm_fault (error, WM_EBATCH,
                     "event %lld:%lld:%lld: the patch of one hit takes %llu bytes, more than a "
                     "batch of %u",
                     (long long) self->event->run, (long long) self->event->subrun,
                     (long long) self->event->event, (unsigned long long) raw,
                     self->limits.batch_bytes);
}

static wm_fault_t plane_next (wm_cut_t *self, wm_batch_t *batch, wm_error_t *error)
{
    uint32_t count = take (self, self->plane_end - self->at, self->limits.batch_hits);
    wm_fault_t fault;
    slice_t slice;
    const sorted_t *hit = self->sorted + self->at;
    batch->kind = wm_image_kind (self->spec);
    batch->plane = (uint32_t) self->event->plane[hit->plane].plane;
    batch->patch_values = 0;
    if (batch->kind == WM_BATCH_STACK)
        batch->plane = 0, batch->n_cell = self->spec->n_channel;
    batch->n_wire = self->runs.n_wire;
    batch->n_col = self->runs.n_col;
    for (;; count = (count + 1) / 2) {
        if ((fault = slice_cover (self, count, &slice, error)))
            return fault;
        batch->n_hit = count;
        slice_runs (self, &slice, batch, false);
        if (wm_batch_raw_bytes (batch) <= self->limits.batch_bytes)
            break;
        if (count == 1)
            return too_large (self, wm_batch_raw_bytes (batch), error);
    }
    if ((fault = wm_batch_reserve (batch, error)))
        return fault;
    slice_runs (self, &slice, batch, true);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < n_place (self); k++) {
            const place_t place = place_of (self, &hit[i], k);
            batch->hit_wire[i * n_place (self) + k] = place.wire;
            batch->hit_col[i * n_place (self) + k] = place.col;
        }
        self->hit[self->n_hit++] = hit[i].hit;
        self->n_empty += is_empty (self, &hit[i]);
    }
    return WM_OK;
}

static wm_fault_t patches_next (wm_cut_t *self, wm_batch_t *batch, wm_error_t *error)
{
    const uint32_t values = self->event->patch_values;
    uint32_t count = self->n_sorted - self->at, fit = self->limits.batch_bytes / 4 / values;
    fit = fit ? fit : 1; /* a larger one goes alone; wm_batch_reserve has the last word */
    count = take (self, count, fit < self->limits.batch_hits ? fit : self->limits.batch_hits);
    batch->kind = WM_BATCH_PATCHES;
    batch->n_hit = count;
    batch->patch_values = values;
    wm_fault_t fault = wm_batch_reserve (batch, error);
    for (uint32_t i = 0; i < count && !fault; i++) {
        uint32_t hit = self->sorted[self->at + i].hit;
        memcpy (batch->patch + (size_t) i * values, self->event->patch + (size_t) hit * values,
                values * sizeof (float));
        self->hit[self->n_hit++] = hit;
    }
    return fault;
}

WM_ORDER_BY (held_compare, wm_manifest_held_t, row)

wm_fault_t wm_cut_next (wm_cut_t *self, wm_batch_t *batch, const uint32_t **hit, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    int planes = self->event->patch_values == 0;
    while (planes && self->at == self->plane_end && self->at < self->n_sorted && !fault)
        fault = plane_load (self, error); /* again where it held every hit of its plane */
    batch->n_hit = 0;
    *hit = self->hit + self->n_hit;
    if (fault)
        return fault;
    if (self->at == self->n_sorted) {
        if (self->n_held > 1)
            qsort (self->held, self->n_held, sizeof *self->held, held_compare);
        return WM_OK;
    }
    fault = planes ? plane_next (self, batch, error) : patches_next (self, batch, error);
    self->at += fault ? 0 : batch->n_hit;
    return fault;
}

const wm_manifest_held_t *wm_cut_held (const wm_cut_t *self, uint32_t *count)
{
    *count = self->n_held;
    return self->held;
}

const uint8_t *wm_cut_in_fiducial (const wm_cut_t *self)
{
    return self->in_fiducial;
}

const wm_cut_odd_t *wm_cut_odd (const wm_cut_t *self)
{
    return &self->odd;
}

uint32_t wm_cut_n_empty (const wm_cut_t *self)
{
    return self->n_empty;
}

uint32_t wm_cut_n_same_cell (const wm_cut_t *self)
{
    return self->n_same_cell;
}
