/* wm_any_place.c - where the buffers of any CNN lie, and of what type they are.  */
#include "kernels/cudnn/wm_any_place.h"
#include "kernels/family/wm_range.h"
#include "kernels/gpu/wm_gpu_kernels.cuh"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ----------------------------------------------------------------------------------- */

const char *wm_any_place_refuse (const wm_any_net_t *net, const wm_any_step_t *step)
{
    const wm_gpu_anyconv_t *c = &step->conv;
    const size_t run = wm_any_run (c);
    for (size_t o = 0; o < c->c_out; o++) {
        const float *weight = net->constant + step->weight + o * run;
        double most = fabs ((double) net->constant[step->bias + o]), lost = 0, all = 0;
        for (size_t i = 0; i < run; i++) {
            const double w = (double) weight[i],
                         off = w - (double) wm_half_value (wm_half (weight[i]));
            most = fabs (w) <= most ? most : fabs (w);
            lost += off * off, all += w * w;
        }
        if (!(most <= WM_HALF_MAX))
            return "has weights beyond the end of half's range";
        if (lost > all * 0x1p-20) /* a thousandth; where half does not end, 2^-12 */
            return "has weights so small that half loses their bits";
    }
    return NULL;
}

static size_t each (bool half)
{
    return half ? sizeof (uint16_t) : sizeof (float);
}

static void choose_types (wm_any_place_t *self, const wm_any_net_t *net, const bool *beyond)
{
    for (uint32_t b = 0; b < net->n_buffer; b++)
        self->half[b] = !beyond || !beyond[b];
    self->half[WM_ANY_INPUT] = self->half[WM_ANY_SCORES] = false;
    for (uint32_t s = net->n_step; s-- > 0;) { /* backwards from the scores to the convolutions */
        const wm_any_step_t *step = &net->step[s];
        if (step->kind == WM_ANY_SPREAD)
            self->half[step->to] = false;
        if ((step->kind != WM_ANY_COPY && step->kind != WM_ANY_JOIN) || self->half[step->to] ||
            (beyond && beyond[step->to]))
            continue;
        self->half[step->from] = false;
        if (step->second != WM_ANY_NONE)
            self->half[step->second] = false;
    }
    for (uint32_t s = 0; s < net->n_step; s++) {
        const wm_any_step_t *step = &net->step[s];
        if (step->kind != WM_ANY_CONV)
            continue;
        if (beyond && beyond[step->from])
            self->half[step->to] = false;
        self->conv[s] = self->half[step->to];
        const size_t bytes = net->size[step->from] * each (self->conv[s]);
        if (self->conv[s] != self->half[step->from] && bytes > self->scratch_bytes)
            self->scratch_bytes = bytes;
    }
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* Whether a step reads all of a buffer by a kernel of ours, which checks it.  */
static bool reads_all (const wm_any_place_t *self, const wm_any_net_t *net, uint32_t index,
                       uint32_t buffer)
{
    const wm_any_step_t *step = &net->step[index];
    const uint32_t n = net->size[buffer];
    if (step->from != buffer)
        return step->join.n == n; /* its second */
    switch (step->kind) {
    case WM_ANY_CONV: /* converted */
        return self->conv[index] != self->half[buffer];
    case WM_ANY_JOIN:
        return step->join.n == n;
    case WM_ANY_COPY:
        return step->copy.n == n && step->copy.from_row == n;
    case WM_ANY_POOL: {
        const wm_gpu_pool_t *p = &step->pool;
        bool all = true;
        for (int s = 0; s < 2; s++)
            all = all && p->stride[s] <= p->kernel[s] &&
                  (p->out[s] - 1) * (uint64_t) p->stride[s] + p->kernel[s] >=
                      (uint64_t) p->in[s] + p->before[s];
        return all;
    }
    default: /* in place, in float32 */
        return false;
    }
}

/* Patches, and what convolutions write as half, need a check. One that a step makes counts only
   before the first score is written, since a held patch's scores are NaN.  */
static void choose_scans (wm_any_place_t *self, const wm_any_net_t *net)
{
    self->scanned[WM_ANY_INPUT] = true;
    for (uint32_t s = 0; s < net->n_step; s++)
        if (net->step[s].kind == WM_ANY_CONV)
            self->scanned[net->step[s].to] = self->half[net->step[s].to];
    for (uint32_t s = 0; s < net->n_step && net->step[s].to != WM_ANY_SCORES; s++) {
        const wm_any_step_t *step = &net->step[s];
        if (reads_all (self, net, s, step->from))
            self->scanned[step->from] = false;
        if (step->second != WM_ANY_NONE && reads_all (self, net, s, step->second))
            self->scanned[step->second] = false;
    }
}

/* ---- doubt ----------------------------------------------------------------------------------- */

#define LEAST_BOUND 32 /* bounds below would keep too many rows in doubt */
#define SLACK 1.01     /* half rounds weights and values by 2^-11, and sums are not exact */

/* What is known of a buffer's values in half: they are within gain x + offset where those of
   `source` are within x.  */
typedef struct {
    uint32_t source; /* WM_ANY_NONE: nothing */
    double gain, offset;
} known_t;

/* The same behind a convolution: by the largest sum of a filter's magnitudes.  */
static known_t behind (const wm_any_net_t *net, const wm_any_step_t *step, known_t in)
{
    const wm_gpu_anyconv_t *c = &step->conv;
    const size_t run = wm_any_run (c);
    double most = 0, bias = 0;
    for (size_t o = 0; o < c->c_out; o++) {
        double sum = 0;
        for (size_t i = 0; i < run; i++)
            sum += fabs ((double) net->constant[step->weight + o * run + i]);
        most = fmax (most, sum);
        bias = fmax (bias, fabs ((double) net->constant[step->bias + o]));
    }
    in.gain *= most * SLACK;
    in.offset = (in.offset * most + bias) * SLACK;
    return in;
}

/* Where scans are needed only in rows that a buffer before them leaves in doubt. Returns false
   without memory.  */
static bool choose_doubts (wm_any_place_t *self, const wm_any_net_t *net)
{
    known_t *known = calloc (net->n_buffer, sizeof *known);
    for (uint32_t b = 0; b < net->n_buffer; b++)
        self->only[b] = WM_ANY_NONE;
    for (uint32_t b = 0; known && b < net->n_buffer; b++)
        known[b].source = WM_ANY_NONE;
    for (uint32_t s = 0; known && s < net->n_step; s++) {
        const wm_any_step_t *step = &net->step[s];
        known_t *to = &known[step->to], in = known[step->from];
        if (!self->half[step->to])
            continue;
        *to = (known_t){ step->to, 1, 0 };
        if (step->kind != WM_ANY_CONV)
            continue;
        if (!self->half[step->from]) /* converted, which may tell */
            in = (known_t){ step->from, 1, 0 };
        in = in.source == WM_ANY_NONE ? in : behind (net, step, in);
        const double bound = in.source == WM_ANY_NONE ? 0 : (WM_HALF_MAX - in.offset) / in.gain;
        const bool enough = bound >= LEAST_BOUND;
        if (self->scanned[step->to] && enough) {
            float *first = &self->bound[in.source];
            if (*first == 0)
                self->doubt[in.source] = (uint16_t) self->n_doubt++;
            if (*first == 0 || bound < (double) *first)
                *first = bound < FLT_MAX ? (float) bound : FLT_MAX;
            self->only[step->to] = in.source;
        }
        if (!self->scanned[step->to] || enough)
            *to = in;
    }
    free (known);
    return known != NULL;
}

/* ---- size ------------------------------------------------------------------------------------ */

/* Multiply-adds of a convolution, a patch.  */
static double madds (const wm_gpu_anyconv_t *c)
{
    return (double) c->out[0] * c->out[1] * c->c_out * (double) wm_any_run (c);
}

uint32_t wm_any_rows (const wm_any_net_t *net, int n_sm)
{
    uint32_t rows = WM_ANY_ROWS;
    for (; rows < WM_ANY_ROWS_MAX; rows *= 2) {
        double all = 0, filled = 0;
        for (uint32_t s = 0; s < net->n_step; s++) {
            const wm_gpu_anyconv_t *c = &net->step[s].conv;
            if (net->step[s].kind != WM_ANY_CONV)
                continue;
            const double tiles =
                ceil ((double) rows * c->out[0] * c->out[1] / 128) * ceil (c->c_out / 64.);
            all += madds (c);
            filled += tiles >= 2. * n_sm ? madds (c) : 0;
        }
        if (filled >= 0.9 * all)
            break;
    }
    return rows;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Steps that touch each buffer: the first and the last.  */
static void find_lives (const wm_any_net_t *net, uint32_t *first, uint32_t *last)
{
    for (uint32_t b = 0; b < net->n_buffer; b++)
        first[b] = UINT32_MAX, last[b] = 0;
    for (uint32_t s = 0; s < net->n_step; s++) {
        const wm_any_step_t *step = &net->step[s];
        const uint32_t touched[3] = { step->from, step->to,
                                      step->second != WM_ANY_NONE ? step->second : step->to };
        for (int k = 0; k < 3; k++) {
            first[touched[k]] = first[touched[k]] < s ? first[touched[k]] : s;
            last[touched[k]] = s;
        }
    }
    first[WM_ANY_INPUT] = 0, last[WM_ANY_INPUT] = UINT32_MAX;
    first[WM_ANY_SCORES] = 0, last[WM_ANY_SCORES] = UINT32_MAX;
}

/* The free slot that fits best, else one that has to grow, else a new one. WM_ANY_SLOTS_MAX:
   none.  */
static uint32_t choose_slot (const wm_any_place_t *self, const bool *taken, size_t size)
{
    uint32_t best = self->n_slot;
    for (uint32_t i = 0; i < self->n_slot; i++) {
        const bool fits = self->slot_bytes[i] >= size;
        if (taken[i])
            continue;
        if (best == self->n_slot)
            best = i;
        else if (fits != (self->slot_bytes[best] >= size))
            best = fits ? i : best;
        else if (fits == (self->slot_bytes[i] < self->slot_bytes[best]))
            best = i;
    }
    return best;
}

bool wm_any_place (wm_any_place_t *self, const wm_any_net_t *net, bool half, const bool *beyond)
{
    uint32_t *first = calloc (2 * (size_t) net->n_buffer, sizeof *first);
    uint32_t *last = first + net->n_buffer;
    bool taken[WM_ANY_SLOTS_MAX] = { false }, fine = first != NULL;
    memset (self, 0, sizeof *self);
    if (half)
        choose_types (self, net, beyond);
    choose_scans (self, net);
    fine = fine && choose_doubts (self, net);
    if (fine)
        find_lives (net, first, last);
    for (uint32_t s = 0; s < net->n_step && fine; s++) {
        for (uint32_t b = WM_ANY_SCORES + 1; b < net->n_buffer && fine; b++) {
            const size_t bytes = net->size[b] * each (self->half[b]);
            if (first[b] != s)
                continue;
            const uint32_t slot = choose_slot (self, taken, bytes);
            fine = slot < WM_ANY_SLOTS_MAX;
            if (!fine)
                break;
            self->n_slot += slot == self->n_slot;
            if (self->slot_bytes[slot] < bytes)
                self->slot_bytes[slot] = bytes;
            taken[slot] = true;
            self->slot_of[b] = (uint8_t) slot;
        }
        for (uint32_t b = WM_ANY_SCORES + 1; b < net->n_buffer && fine; b++)
            if (last[b] == s && first[b] <= s)
                taken[self->slot_of[b]] = false;
    }
    free (first);
    return fine;
}
