/* wm_watch.c - see wm_watch.h.  */
#include "kernels/judge/wm_watch.h"
#include "kernels/model/wm_seed.h"
#include "schema/wm_limits.h"

#include <math.h>
#include <stdlib.h>

struct wm_watch_t {
    wm_device_t *judge;
    uint32_t n_output, share; /* share: one hit in this many */
    uint32_t hits_max;        /* checked of a batch: WM_WATCH_HITS, or all that a batch can have */
    double max_error;
    wm_watch_counts_t counts;
    uint8_t status[WM_WATCH_HITS];
    float *scores; /* (hits_max, n_output) */
};

wm_watch_t *wm_watch_new (const wm_model_t *model, wm_device_t *judge, double max_error)
{
    wm_watch_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->judge = judge;
    const char *set = getenv ("WM_WATCH_SHARE"); /* of a test: 1, every hit */
    self->share = set && atoi (set) > 0 ? (uint32_t) atoi (set) : WM_WATCH_SHARE;
    self->max_error = max_error;
    self->n_output = wm_model_n_output (model);
    const uint32_t fit = (uint32_t) (WM_RAW_BYTES_MAX / wm_result_bytes (1, self->n_output));
    self->hits_max = fit < 1 ? 1 : fit < WM_WATCH_HITS ? fit : WM_WATCH_HITS;
    self->scores = calloc ((size_t) self->hits_max * self->n_output, sizeof *self->scores);
    if (!self->scores)
        wm_watch_destroy (&self);
    return self;
}

void wm_watch_destroy (wm_watch_t **self_p)
{
    wm_watch_t *self = *self_p;
    if (self) {
        free (self->scores);
        free (self);
        *self_p = NULL;
    }
}

/* Chooses hits [*first, *first + returned) of the batch; 0: none. A batch of n hits is chosen with
   probability n / (share times the hits that are then checked).  */
static uint32_t draw_hits (const wm_watch_t *self, uint64_t draw, uint32_t n, uint32_t *first)
{
    const uint32_t count = n < self->hits_max ? n : self->hits_max;
    const double one = (double) (wm_seed_next (&draw) >> 11) * 0x1p-53;
    if (!n || one * self->share * count >= n)
        return 0;
    *first = (uint32_t) (wm_seed_next (&draw) % (n - count + 1));
    return count;
}

bool wm_watch_selects (const wm_watch_t *self, uint64_t draw, const wm_batch_t *batch)
{
    uint32_t first;
    return draw_hits (self, draw, batch->n_hit, &first) > 0;
}

/* Returns a batch that lends some hits of another.  */
static wm_batch_t part_of (const wm_batch_t *batch, uint32_t first, uint32_t count)
{
    wm_batch_t part = *batch;
    part.n_hit = count;
    if (batch->kind == WM_BATCH_PATCHES)
        part.patch += (size_t) first * batch->patch_values;
    else
        part.hit_wire += (size_t) first * wm_batch_cells (batch),
            part.hit_col += (size_t) first * wm_batch_cells (batch);
    return part;
}

wm_fault_t wm_watch_check (wm_watch_t *self, uint64_t draw, const wm_batch_t *batch,
                           uint8_t *status, float *scores, bool *again, wm_error_t *error)
{
    const double start_s = wm_now_s ();
    const size_t n = self->n_output;
    uint32_t first = 0, count = draw_hits (self, draw, batch->n_hit, &first);
    double worst = 0;
    size_t where = 0;
    *again = false;
    if (!count)
        return WM_OK;
    const wm_batch_t part = part_of (batch, first, count);
    wm_error_t its;
    if (wm_device_score (self->judge, &part, self->status, self->scores, &its))
        return WM_OK;
    for (size_t i = 0; i < count * n; i++) {
        const double right = (double) self->scores[i];
        const double off = wm_device_off ((double) scores[first * n + i], right);
        if (isfinite (right) && off > worst)
            worst = off, where = i;
    }
    self->counts.n_batch++;
    self->counts.n_hit += count;
    self->counts.worst = fmax (self->counts.worst, worst);
    self->counts.seconds += wm_now_s () - start_s;
    if (worst <= self->max_error)
        return WM_OK;
    self->counts.n_violated++;
    wm_fault (error, WM_OK,
              "hit %zu, output %zu is %.6f, by strict fp32 %.6f: off by %.1e, the campaign "
              "allows %.1e",
              first + where / n, where % n, (double) scores[first * n + where],
              (double) self->scores[where], worst, self->max_error);
    *again = true;
    return wm_device_score (self->judge, batch, status, scores, &its)
               ? wm_fault (error, its.fault, "%.400s", its.text)
               : WM_OK;
}

wm_watch_counts_t wm_watch_counts (const wm_watch_t *self)
{
    return self->counts;
}
