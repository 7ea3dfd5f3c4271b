/* wm_plane.c - a plane laid out densely, from which patches are cut fast.

   Full view: the bins of the batch in one image with margins of Z, wide enough that any hit's patch
   is a window of it; a patch is patch_wire copies of a row.

   Own view: LArSoft downscales W n ticks for every wire of every patch, 13,824 ticks for 2,304
   pixels, and neighbouring hits repeat it all. But the patch of a hit that is not clamped depends
   on its first tick d0 only through the phase d0 mod W: it is a window of the plane downscaled from
   tick d0 mod W on. So the plane is downscaled once per phase (only bins that a run touches), and
   patches are copied as in full view. What is no window is computed from the runs of its wire:
     - a patch clamped at tick 0: its freed tail counts 0 ADC, whatever the plane holds there;
     - maxmean: first and last column, whose outer neighbours lie outside the cut ticks;
     - W n odd (no detector has it): the last tick counts 0 ADC.

   Invariant: every cell that is not in a span of the span list holds Z. So the next load restores
   the spans of the last one instead of the whole images.  */
#include "kernels/patch/wm_image.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CELLS_MAX (1ull << 28) /* 1 GiB; ProtoDUNE's largest own view takes 2^24 */
#define PHASES_MAX 64u

typedef struct {
    size_t first;
    uint32_t length;
} span_t;

struct wm_plane_t {
    wm_spec_t spec;
    float zero;
    bool own, windows; /* windows: patches may be windows of an image */
    const wm_batch_t *batch;

    float *cell; /* (n_image, n_row, n_col) */
    size_t cells_max;
    uint32_t n_image, n_row, n_col, left; /* left: margin of columns before the plane's first */
    uint8_t image_of[PHASES_MAX];         /* of a phase, own view */
    span_t *span;
    size_t spans, spans_max;

    /* Own view: the runs by wire, and one waveform.  */
    uint32_t *first_run; /* (n_wire + 1): runs first_run[w] .. first_run[w + 1] - 1 are wire w's */
    uint32_t *run_value; /* (n_run): where the values of a run begin */
    size_t wires_max, runs_max;
    float *tick; /* (ticks_max), all 0 between uses */
    size_t ticks_max;
};

wm_plane_t *wm_plane_new (const wm_spec_t *spec)
{
    wm_plane_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->spec = *spec;
    self->zero = wm_spec_zero (spec);
    self->own = spec->view == WM_OWN_VIEW;
    self->windows = !self->own || spec->drift_window * spec->patch_bin % 2 == 0;
    return self;
}

void wm_plane_destroy (wm_plane_t **self_p)
{
    wm_plane_t *self = *self_p;
    if (self) {
        free (self->cell);
        free (self->span);
        free (self->first_run);
        free (self->run_value);
        free (self->tick);
        free (self);
        *self_p = NULL;
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Grows the array that *array_p points to; its contents are lost, new ones are 0.  */
static bool grow (void *array_p, size_t *count_max, size_t count, size_t bytes)
{
    void *array;
    if (count <= *count_max)
        return true;
    memcpy (&array, array_p, sizeof array); /* it is a float **, a span_t ** ... */
    free (array);
    array = calloc (count, bytes);
    memcpy (array_p, &array, sizeof array);
    *count_max = array ? count : 0;
    return array != NULL;
}

static void fill (float *cell, size_t count, float value)
{
    if (value == 0)
        memset (cell, 0, count * sizeof *cell);
    else
        for (size_t i = 0; i < count; i++)
            cell[i] = value;
}

/* Makes all cells Z for images of this geometry.  */
static bool clear (wm_plane_t *self, uint32_t n_image, uint32_t n_row, uint32_t n_col,
                   size_t spans_max)
{
    size_t cells = (size_t) n_image * n_row * n_col;
    bool moved = cells > self->cells_max;
    if (!moved)
        for (size_t i = 0; i < self->spans; i++)
            fill (self->cell + self->span[i].first, self->span[i].length, self->zero);
    self->spans = 0;
    if (!grow (&self->cell, &self->cells_max, cells, sizeof *self->cell) ||
        !grow (&self->span, &self->spans_max, spans_max, sizeof *self->span))
        return false;
    if (moved)
        fill (self->cell, self->cells_max, self->zero);
    self->n_image = n_image, self->n_row = n_row, self->n_col = n_col;
    return true;
}

/* `length` cells from a plane's (wire, column) on, which the caller overwrites.  */
static float *open_span (wm_plane_t *self, uint32_t image, uint32_t wire, uint32_t col,
                         uint32_t length)
{
    size_t row = (size_t) image * self->n_row + self->spec.patch_wire / 2 + wire;
    size_t first = row * self->n_col + self->left + col;
    assert (self->spans < self->spans_max);
    self->span[self->spans++] = (span_t){ first, length };
    return self->cell + first;
}

/* ---- load ------------------------------------------------------------------------------------ */

static wm_fault_t too_large (const wm_batch_t *batch, wm_error_t *error)
{
    return wm_fault (error, WM_EBATCH, "a plane of %u wires x %u columns is more than %llu cells",
                     batch->n_wire, batch->n_col, CELLS_MAX);
}

static wm_fault_t no_memory (wm_error_t *error)
{
    return wm_fault (error, WM_EAGAIN, "no memory for the images of a plane");
}

static wm_fault_t load_full (wm_plane_t *self, const wm_batch_t *batch, wm_error_t *error)
{
    uint64_t n_row = (uint64_t) batch->n_wire + self->spec.patch_wire;
    uint64_t n_col = (uint64_t) batch->n_col + 2 * self->spec.patch_bin;
    if (n_row * n_col > CELLS_MAX)
        return too_large (batch, error);
    if (!clear (self, 1, (uint32_t) n_row, (uint32_t) n_col, batch->n_run))
        return no_memory (error);
    self->left = self->spec.patch_bin;
    const float *value = batch->value;
    for (uint32_t r = 0; r < batch->n_run; value += batch->run_length[r++])
        memcpy (open_span (self, 0, batch->run_wire[r], batch->run_first[r], batch->run_length[r]),
                value, batch->run_length[r] * sizeof *value);
    return WM_OK;
}

/* First tick of a hit's patch; negative where it is clamped.  */
static int64_t first_tick (const wm_plane_t *self, uint32_t hit)
{
    return (int64_t) self->batch->hit_col[hit] - self->spec.drift_window * self->spec.patch_bin / 2;
}

/* Gives an image to every phase that a hit needs. Returns their number.  */
static uint32_t choose_phases (wm_plane_t *self)
{
    uint32_t count = 0;
    memset (self->image_of, UINT8_MAX, sizeof self->image_of);
    for (uint32_t i = 0; self->windows && i < self->batch->n_hit; i++) {
        int64_t d0 = first_tick (self, i);
        if (d0 >= 0 && self->image_of[d0 % self->spec.drift_window] == UINT8_MAX)
            self->image_of[d0 % self->spec.drift_window] = (uint8_t) count++;
    }
    return count;
}

static bool index_runs (wm_plane_t *self)
{
    const wm_batch_t *batch = self->batch;
    if (!grow (&self->first_run, &self->wires_max, (size_t) batch->n_wire + 1, sizeof (uint32_t)) ||
        !grow (&self->run_value, &self->runs_max, batch->n_run, sizeof (uint32_t)))
        return false;
    uint32_t run = 0, value = 0;
    for (uint32_t w = 0; w < batch->n_wire; w++) {
        self->first_run[w] = run;
        for (; run < batch->n_run && batch->run_wire[run] == w; run++) {
            self->run_value[run] = value;
            value += batch->run_length[run];
        }
    }
    self->first_run[batch->n_wire] = run;
    return true;
}

/* Downscales the bins of one phase that the runs of a wire touch; its ticks lie in self->tick.  */
static void downscale_phase (wm_plane_t *self, uint32_t wire, uint32_t phase, uint32_t n_bin)
{
    const wm_batch_t *batch = self->batch;
    uint32_t n_tick = (n_bin + 1) * self->spec.drift_window; /* one bin of zeros behind */
    for (uint32_t r = self->first_run[wire]; r < self->first_run[wire + 1]; r++) {
        uint32_t first = batch->run_first[r], last = first + batch->run_length[r], a, b;
        if (last <= phase)
            continue;
        wm_image_touched (&self->spec, n_tick, first > phase ? first - phase : 0, last - phase, &a,
                          &b);
        wm_image_downscale_range (&self->spec, batch->plane, self->tick + phase, NULL, n_tick, a, b,
                                  open_span (self, self->image_of[phase], wire, a, b - a));
    }
}

static wm_fault_t load_own (wm_plane_t *self, const wm_batch_t *batch, wm_error_t *error)
{
    uint32_t window = self->spec.drift_window, n_image = choose_phases (self);
    uint64_t n_row = (uint64_t) batch->n_wire + self->spec.patch_wire;
    uint32_t n_bin = batch->n_col / window + 1;
    uint64_t n_col = (uint64_t) n_bin + 1 + self->spec.patch_bin;
    uint64_t cells;
    if (__builtin_mul_overflow (n_row * n_col, n_image, &cells) || cells > CELLS_MAX)
        return too_large (batch, error);
    if (!clear (self, n_image, (uint32_t) n_row, (uint32_t) n_col,
                (size_t) batch->n_run * n_image) ||
        !index_runs (self) ||
        !grow (&self->tick, &self->ticks_max, ((size_t) n_bin + 2) * window, sizeof (float)))
        return no_memory (error);
    self->left = 0;
    for (uint32_t w = 0; w < batch->n_wire; w++) {
        for (uint32_t r = self->first_run[w]; r < self->first_run[w + 1]; r++)
            memcpy (self->tick + batch->run_first[r], batch->value + self->run_value[r],
                    batch->run_length[r] * sizeof (float));
        for (uint32_t phase = 0; phase < window; phase++)
            if (self->image_of[phase] != UINT8_MAX)
                downscale_phase (self, w, phase, n_bin);
        for (uint32_t r = self->first_run[w]; r < self->first_run[w + 1]; r++)
            memset (self->tick + batch->run_first[r], 0, batch->run_length[r] * sizeof (float));
    }
    return WM_OK;
}

wm_fault_t wm_plane_load (wm_plane_t *self, const wm_batch_t *batch, wm_error_t *error)
{
    if (batch->kind != wm_image_kind (&self->spec) ||
        (batch->kind == WM_BATCH_STACK && batch->n_cell != self->spec.n_channel))
        return wm_fault (
            error, WM_EBATCH, "a batch of kind %d where the specification has %s, channels: %u",
            (int) batch->kind, self->own ? "view: own" : "view: full", self->spec.n_channel);
    self->batch = batch;
    return self->own ? load_own (self, batch, error) : load_full (self, batch, error);
}

/* ---- cut ------------------------------------------------------------------------------------- */

/* Ticks [first, first + count) of a wire; the caller has zeroed them. Nothing is outside the plane.
 */
static void gather (const wm_plane_t *self, int64_t wire, int64_t first, int64_t count, float *tick)
{
    const wm_batch_t *batch = self->batch;
    if (wire < 0 || wire >= batch->n_wire)
        return;
    for (uint32_t r = self->first_run[wire]; r < self->first_run[wire + 1]; r++) {
        int64_t a = batch->run_first[r], b = a + batch->run_length[r];
        int64_t from = a > first ? a : first, to = b < first + count ? b : first + count;
        if (from < to)
            memcpy (tick + (from - first), batch->value + self->run_value[r] + (from - a),
                    (size_t) (to - from) * sizeof *tick);
    }
}

/* A patch in own view by its definition.  */
static void cut_own (const wm_plane_t *self, uint32_t hit, float *patch)
{
    const wm_spec_t *spec = &self->spec;
    uint32_t n = spec->patch_bin, n_tick = n * spec->drift_window;
    int64_t d0 = first_tick (self, hit), d1 = d0 + n_tick - n_tick % 2;
    float tick[512 * PHASES_MAX];
    if (d0 < 0)
        d0 = 0;
    for (uint32_t i = 0; i < spec->patch_wire; i++) {
        memset (tick, 0, n_tick * sizeof tick[0]);
        gather (self, (int64_t) self->batch->hit_wire[hit] - spec->patch_wire / 2 + i, d0, d1 - d0,
                tick);
        wm_image_downscale (spec, self->batch->plane, tick, NULL, n_tick, patch + (size_t) i * n);
    }
}

/* First and last column of a maxmean patch: two bins each, the outer one without outer neighbour.
 */
static void mend_maxmean (const wm_plane_t *self, uint32_t hit, float *patch)
{
    const wm_spec_t *spec = &self->spec;
    uint32_t n = spec->patch_bin, two = 2 * spec->drift_window;
    int64_t d0 = first_tick (self, hit), d1 = d0 + n * spec->drift_window;
    for (uint32_t i = 0; i < spec->patch_wire; i++) {
        int64_t wire = (int64_t) self->batch->hit_wire[hit] - spec->patch_wire / 2 + i;
        float tick[2 * PHASES_MAX] = { 0 }, bins[2];
        gather (self, wire, d0, two, tick);
        wm_image_downscale (spec, self->batch->plane, tick, NULL, two, bins);
        patch[(size_t) i * n] = bins[0];
        memset (tick, 0, sizeof tick);
        gather (self, wire, d1 - two, two, tick);
        wm_image_downscale (spec, self->batch->plane, tick, NULL, two, bins);
        patch[(size_t) i * n + n - 1] = bins[1];
    }
}

/* Where the window of a hit begins, maxmean's outer columns not considered.  */
static bool find_window (const wm_plane_t *self, uint32_t hit, uint32_t *image, uint32_t *row,
                         uint32_t *col)
{
    int64_t first, right = self->n_col - self->spec.patch_bin; /* beyond: margin all the same */
    *row = self->batch->hit_wire[hit];
    *image = 0;
    if (self->own) {
        int64_t d0 = first_tick (self, hit);
        if (d0 < 0 || !self->windows)
            return false;
        *image = self->image_of[d0 % self->spec.drift_window];
        first = d0 / self->spec.drift_window;
    } else
        first = (int64_t) self->batch->hit_col[hit] - self->spec.patch_bin / 2 + self->left;
    *col = (uint32_t) (first < 0 ? 0 : first > right ? right : first);
    return true;
}

/* Patches of several channels. find_window counts cells as hits: a stack has one image.  */
static void cut_stack (wm_plane_t *self, uint32_t first, uint32_t count, float *patches)
{
    const wm_spec_t *spec = &self->spec;
    const uint32_t n = spec->patch_bin, h = spec->patch_wire, n_channel = spec->n_channel;
    for (uint32_t hit = first; hit < first + count; hit++, patches += wm_spec_values (spec))
        for (uint32_t c = 0; c < n_channel; c++) {
            uint32_t image, row, col;
            find_window (self, hit * n_channel + c, &image, &row, &col);
            const float *cell = self->cell + (size_t) row * self->n_col + col;
            for (uint32_t i = 0; i < h; i++, cell += self->n_col) {
                float *to = patches + ((size_t) c * h + i) * n;
                if (!spec->channels_last)
                    memcpy (to, cell, n * sizeof *cell);
                else
                    for (uint32_t k = 0; k < n; k++)
                        patches[((size_t) i * n + k) * n_channel + c] = cell[k];
            }
        }
}

void wm_plane_cut (wm_plane_t *self, uint32_t first, uint32_t count, float *patches)
{
    const uint32_t n = self->spec.patch_bin, h = self->spec.patch_wire;
    const bool mend = self->own && self->spec.downscale == WM_MAXMEAN;
    assert (first + count <= self->batch->n_hit);
    if (self->spec.n_channel > 1) {
        cut_stack (self, first, count, patches);
        return;
    }
    for (uint32_t hit = first; hit < first + count; hit++, patches += (size_t) h * n) {
        uint32_t image, row, col;
        if (!find_window (self, hit, &image, &row, &col) || (mend && n == 1)) {
            cut_own (self, hit, patches);
            continue;
        }
        const float *cell = self->cell + ((size_t) image * self->n_row + row) * self->n_col + col;
        for (uint32_t i = 0; i < h; i++, cell += self->n_col)
            memcpy (patches + (size_t) i * n, cell, n * sizeof *cell);
        if (mend)
            mend_maxmean (self, hit, patches);
    }
}

/* ---- for engines that share ------------------------------------------------------------------ */

uint32_t wm_plane_n_image (const wm_plane_t *self)
{
    return self->n_image;
}

const float *wm_plane_image (const wm_plane_t *self, uint32_t image, uint32_t *n_row,
                             uint32_t *n_col)
{
    *n_row = self->n_row, *n_col = self->n_col;
    return self->cell + (size_t) image * self->n_row * self->n_col;
}

bool wm_plane_place (const wm_plane_t *self, uint32_t hit, uint32_t *image, uint32_t *row,
                     uint32_t *col)
{
    return self->spec.n_channel <= 1 && find_window (self, hit, image, row, col) &&
           !(self->own && self->spec.downscale == WM_MAXMEAN);
}
