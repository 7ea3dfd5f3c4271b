/* wm_image.c - waveforms to bins, and the plain definition of a patch.

   Everything here is the definition, written once: the producer's bins, the reference patch and the
   cutter of wm_plane.c all go through downscale_range, so that they agree bit for bit and only the
   question of which ticks enter a bin can differ between them.

   Scaling is computed as Z + s v (v clamped), which is out_min + s (v - adc_min) with the constant
   part taken out, so that 0 ADC gives the zero level exactly.  */
#include "kernels/patch/wm_image.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIDE_MAX 512u  /* of a patch, and */
#define WINDOW_MAX 64u /* ticks a bin: what wm_spec_parse lets through */

wm_image_scaling_t wm_image_scaling (const wm_spec_t *spec, uint32_t plane)
{
    assert (spec->n_amplitude > 0);
    wm_image_scaling_t scale = {
        .slope = (spec->out_max - spec->out_min) / (spec->adc_max - spec->adc_min),
        .amplitude = spec->amplitude[plane < spec->n_amplitude ? plane : spec->n_amplitude - 1],
        .adc_min = spec->adc_min,
        .adc_max = spec->adc_max,
    };
    scale.zero = wm_spec_zero (spec) == 0 ? 0 : spec->out_min - scale.slope * spec->adc_min;
    return scale;
}

static inline float scaled (const wm_image_scaling_t *scale, double adc)
{
    double v = adc * scale->amplitude;
    double clamped = v < scale->adc_min ? scale->adc_min : v > scale->adc_max ? scale->adc_max : v;
    return (float) (scale->zero + scale->slope * clamped + 0 * v); /* 0 v: NaN unless v is finite */
}

float wm_image_scale (const wm_spec_t *spec, uint32_t plane, double adc)
{
    wm_image_scaling_t scale = wm_image_scaling (spec, plane);
    return scaled (&scale, adc);
}

uint32_t wm_image_n_col (const wm_spec_t *spec, uint32_t n_tick)
{
    return spec->view == WM_FULL_VIEW ? n_tick / spec->drift_window : n_tick;
}

int32_t wm_image_col (const wm_spec_t *spec, float time)
{
    return spec->view == WM_FULL_VIEW ? (int32_t) (time / (float) spec->drift_window)
                                      : (int32_t) time;
}

void wm_image_lifetime (double tau_us, double t0_us, double tick_us, double trigger_offset,
                        uint64_t first_tick, uint32_t n_tick, float *factor)
{
    for (uint32_t t = 0; t < n_tick; t++)
        factor[t] =
            (float) exp ((((double) (first_tick + t) - trigger_offset) * tick_us - t0_us) / tau_us);
}

/* ---- downscale ------------------------------------------------------------------------------- */

static inline double sample (const float *adc, const float *factor, uint32_t tick)
{
    return factor ? (double) adc[tick] * (double) factor[tick] : (double) adc[tick];
}

/* Mean of a bin; `window` is a constant where it matters.  */
static inline double mean_of (const float *adc, const float *factor, uint32_t tick, uint32_t window)
{
    double sum = 0;
    for (uint32_t i = 0; i < window; i++)
        sum += sample (adc, factor, tick + i);
    return sum / window;
}

/* The first largest sample of a bin. *poison: 0, or NaN if one of them is not finite, because
   comparisons pass over a NaN.  */
static uint32_t top_of (const float *adc, const float *factor, uint32_t tick, uint32_t window,
                        double *poison)
{
    uint32_t top = tick;
    double most = sample (adc, factor, tick), zero = 0 * most;
    for (uint32_t t = tick + 1; t < tick + window; t++) {
        double v = sample (adc, factor, t);
        zero += 0 * v;
        if (v > most)
            most = v, top = t;
    }
    *poison = zero;
    return top;
}

/* Mean of the first largest sample and its neighbours on the wire.  */
static double maxmean_of (const float *adc, const float *factor, uint32_t n_tick, uint32_t tick,
                          uint32_t window)
{
    double poison, sum, count = 1;
    uint32_t top = top_of (adc, factor, tick, window, &poison);
    sum = sample (adc, factor, top) + poison;
    if (top > 0)
        sum += sample (adc, factor, top - 1), count++;
    if (top + 1 < n_tick)
        sum += sample (adc, factor, top + 1), count++;
    return sum / count;
}

void wm_image_downscale_range (const wm_spec_t *spec, uint32_t plane, const float *adc,
                               const float *factor, uint32_t n_tick, uint32_t bin_first,
                               uint32_t bin_last, float *bins)
{
    const wm_image_scaling_t scale = wm_image_scaling (spec, plane);
    const uint32_t window = spec->drift_window;
    assert (bin_last <= n_tick / window);
    for (uint32_t b = bin_first; b < bin_last; b++) {
        double v, poison;
        switch (spec->downscale) {
        case WM_MEAN:
            v = window == 6 ? mean_of (adc, factor, b * 6, 6)
                            : mean_of (adc, factor, b * window, window);
            break;
        case WM_MAXPOOL:
            v = sample (adc, factor, top_of (adc, factor, b * window, window, &poison)) + poison;
            break;
        default:
            v = maxmean_of (adc, factor, n_tick, b * window, window);
        }
        bins[b - bin_first] = scaled (&scale, v);
    }
}

void wm_image_downscale (const wm_spec_t *spec, uint32_t plane, const float *adc,
                         const float *factor, uint32_t n_tick, float *bins)
{
    wm_image_downscale_range (spec, plane, adc, factor, n_tick, 0, n_tick / spec->drift_window,
                              bins);
}

void wm_image_touched (const wm_spec_t *spec, uint32_t n_tick, uint32_t first, uint32_t last,
                       uint32_t *bin_first, uint32_t *bin_last)
{
    uint32_t window = spec->drift_window, n_bin = n_tick / window;
    uint32_t reach = spec->downscale == WM_MAXMEAN; /* a bin reads its neighbours' nearest ticks */
    uint32_t a = first / window, b = last / window + (last % window != 0) + reach;
    a = a > reach ? a - reach : 0;
    *bin_last = b < n_bin ? b : n_bin;
    *bin_first = a < *bin_last ? a : *bin_last;
}

/* ---- the patch ------------------------------------------------------------------------------- */

/* Ticks [*d0, *d1) that a patch in own view is made of; the readout may end before d1.  */
static void own_ticks (const wm_spec_t *spec, int32_t hit_col, int64_t *d0, int64_t *d1)
{
    int64_t half = spec->drift_window * spec->patch_bin / 2;
    *d0 = hit_col - half > 0 ? hit_col - half : 0;
    *d1 = hit_col + half > *d0 ? hit_col + half : *d0;
}

bool wm_image_covers (const wm_spec_t *spec, uint32_t hit_wire, int32_t hit_col, uint32_t wire,
                      uint32_t col)
{
    int64_t row = (int64_t) wire - hit_wire + spec->patch_wire / 2;
    if (row < 0 || row >= spec->patch_wire)
        return false;
    int64_t first = (int64_t) hit_col - spec->patch_bin / 2, last = first + spec->patch_bin;
    if (spec->view == WM_OWN_VIEW)
        own_ticks (spec, hit_col, &first, &last);
    return col >= first && col < last;
}

/* Copies the cells [first, last) of a wire that its runs hold; `row` is filled for all the others.
 */
static void gather (const wm_batch_t *batch, uint32_t wire, int64_t first, int64_t last, float *row)
{
    uint32_t value = 0;
    for (uint32_t r = 0; r < batch->n_run; value += batch->run_length[r++]) {
        if (batch->run_wire[r] != wire)
            continue;
        for (uint32_t i = 0; i < batch->run_length[r]; i++) {
            int64_t col = (int64_t) batch->run_first[r] + i;
            if (col >= first && col < last)
                row[col - first] = batch->value[value + i];
        }
    }
}

/* The patch of one cell: a hit's, or a channel of it.  */
static void cell_patch (const wm_spec_t *spec, const wm_batch_t *batch, size_t cell, float *patch)
{
    const uint32_t n = spec->patch_bin, n_tick = n * spec->drift_window;
    const float zero = wm_spec_zero (spec);
    const int32_t col = batch->hit_col[cell];
    float tick[SIDE_MAX * WINDOW_MAX];
    assert (spec->view == WM_FULL_VIEW || (n <= SIDE_MAX && spec->drift_window <= WINDOW_MAX));
    for (uint32_t i = 0; i < spec->patch_wire; i++) {
        int64_t wire = (int64_t) batch->hit_wire[cell] - spec->patch_wire / 2 + i;
        bool inside = wire >= 0 && wire < batch->n_wire;
        if (spec->view == WM_FULL_VIEW) {
            int64_t first = (int64_t) col - n / 2;
            for (uint32_t j = 0; j < n; j++)
                patch[i * n + j] = zero;
            if (inside)
                gather (batch, (uint32_t) wire, first, first + n, patch + (size_t) i * n);
        } else {
            int64_t d0, d1;
            own_ticks (spec, col, &d0, &d1);
            memset (tick, 0, n_tick * sizeof tick[0]);
            if (inside)
                gather (batch, (uint32_t) wire, d0, d1, tick);
            wm_image_downscale (spec, batch->plane, tick, NULL, n_tick, patch + (size_t) i * n);
        }
    }
}

/* Puts one channel, (patch_wire, patch_bin), into a patch of n_channel.  */
static void put_channel (const wm_spec_t *spec, uint32_t channel, const float *cell, float *patch)
{
    const size_t n = (size_t) spec->patch_wire * spec->patch_bin;
    if (spec->channels_last)
        for (size_t i = 0; i < n; i++)
            patch[i * spec->n_channel + channel] = cell[i];
    else
        memcpy (patch + channel * n, cell, n * sizeof *patch);
}

void wm_image_patch_reference (const wm_spec_t *spec, const wm_batch_t *batch, uint32_t hit,
                               float *patch)
{
    const uint32_t n_cell = wm_batch_cells (batch);
    if (n_cell == 1) {
        cell_patch (spec, batch, hit, patch);
        return;
    }
    float *cell = malloc ((size_t) spec->patch_wire * spec->patch_bin * sizeof *cell);
    assert (cell);
    for (uint32_t c = 0; c < n_cell; c++) {
        cell_patch (spec, batch, (size_t) hit * n_cell + c, cell);
        put_channel (spec, c, cell, patch);
    }
    free (cell);
}
