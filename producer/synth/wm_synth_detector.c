/* wm_synth_detector.c - one drift volume: from deposits to regions of interest and hits.

   Charge drifts to the wires, spreads (diffusion and shaping, one Gaussian) and is lost with the
   electron lifetime. Waveforms are those after deconvolution, one unipolar pulse on every plane.
   Beside each waveform the charge of each truth label is kept in bins of 4 ticks, and the share of
   the upper wire where a channel is wrapped onto two: that is what decides a hit's label and wire.
 */
#include "producer/synth/wm_synth.h"

#include "schema/base/wm_grow.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DRIFT_CM_TICK (WM_DRIFT_CM_US * WM_TICK_US)
#define DIFFUSION_CM2_US 6.2e-6 /* longitudinal */
#define SHAPING_TICKS 3.0
#define ADC_TICKS_MIP_CM 265.0 /* a perpendicular track on one wire peaks at about 15 ADC */
#define INDUCTION_COS 0.81208  /* of 35.7 degrees */
#define INDUCTION_SIN 0.58354
#define REGION_ADC 1.0 /* zero suppression: what is above it, */
#define REGION_PAD 8   /* and so many ticks around it, is kept */
#define HIT_ADC 3.0
#define HIT_APART 6 /* ticks between two maxima */
#define TRUTH_TICKS 4
#define TRUTH_BINS (WM_TICKS / TRUTH_TICKS)
#define FAKES_TPC 180.0 /* noise pulses that pass zero suppression */

enum { UPPER = WM_TRUTH_END, TRUTHS }; /* truth sums of a bin: the labels, and the upper wire's */

struct wm_synth_tpc_t {
    float (*adc)[WM_TICKS];             /* (channel, tick) */
    float (*truth)[TRUTH_BINS][TRUTHS]; /* (channel, bin, label) */
    wm_synth_roi_t *roi;
    float *value;
    wm_synth_hit_t *hit;
    size_t n_roi, n_value, n_hit, roi_max, value_max, hit_max;
};

wm_synth_tpc_t *wm_synth_tpc_new (void)
{
    wm_synth_tpc_t *self = calloc (1, sizeof *self);
    assert (self);
    self->adc = malloc (WM_TPC_CHANNELS * sizeof *self->adc);
    self->truth = malloc (WM_TPC_CHANNELS * sizeof *self->truth);
    assert (self->adc && self->truth);
    return self;
}

void wm_synth_tpc_destroy (wm_synth_tpc_t **self_p)
{
    wm_synth_tpc_t *self = *self_p;
    if (!self)
        return;
    free (self->adc);
    free (self->truth);
    free (self->roi);
    free (self->value);
    free (self->hit);
    free (self);
    *self_p = NULL;
}

/* The first channel of each plane within the TPC.  */
static const uint32_t channel_first[WM_PLANES] = { 0, 800, 1600 };

/* One pulse on a channel: `area` ADC ticks around `tick`, `sigma` ticks wide.  */
static void pulse_add (wm_synth_tpc_t *self, uint32_t channel, int upper, double tick, double sigma,
                       double area, uint32_t truth)
{
    int first = (int) floor (tick - 3.5 * sigma), last = (int) ceil (tick + 3.5 * sigma);
    if (first < 0)
        first = 0;
    if (last >= WM_TICKS)
        last = WM_TICKS - 1;
    float *adc = self->adc[channel];
    double height = area / (sigma * 2.50662827), slope = -0.5 / (sigma * sigma);
    for (int t = first; t <= last; t++)
        adc[t] += (float) (height * exp (slope * (t - tick) * (t - tick)));
    if (tick >= 0 && tick < WM_TICKS) {
        float *bin = self->truth[channel][(int) tick / TRUTH_TICKS];
        bin[truth] += (float) area;
        if (upper)
            bin[UPPER] += (float) area;
    }
}

/* Distance along a plane, in wires, of a point (y, z) of this TPC.  */
static double wire_of (uint32_t plane, double y, double z)
{
    if (plane == 2)
        return z / WM_COLLECTION_PITCH_CM;
    double height = plane == 0 ? y : WM_HEIGHT_CM - y;
    return (z * INDUCTION_COS + height * INDUCTION_SIN) / WM_INDUCTION_PITCH_CM;
}

static void deposit_collect (wm_synth_tpc_t *self, const wm_deposit_t *d, int tpc, double tau_us)
{
    double z = d->z - WM_TPC_LENGTH_CM * (tpc / 2);
    if ((d->x < 0) != (tpc % 2 == 0) || z < 0 || z >= WM_TPC_LENGTH_CM)
        return;
    double drift_us = (WM_DRIFT_CM - fabs ((double) d->x)) / DRIFT_CM_TICK * WM_TICK_US;
    double tick = WM_TRIGGER_OFFSET + ((double) d->t0_us + drift_us) / WM_TICK_US;
    if (tick < -20 || tick >= WM_TICKS + 20)
        return;
    double spread = sqrt (2 * DIFFUSION_CM2_US * drift_us) / DRIFT_CM_TICK;
    double sigma = sqrt (SHAPING_TICKS * SHAPING_TICKS + spread * spread);
    double area = (double) d->charge * ADC_TICKS_MIP_CM * exp (-drift_us / tau_us);
    for (uint32_t plane = 0; plane < WM_PLANES; plane++) {
        double at = wire_of (plane, d->y, z);
        if (at < 0 || at >= wm_plane_wires[plane])
            continue;
        uint32_t wire = (uint32_t) at, n = wm_plane_channels[plane];
        pulse_add (self, channel_first[plane] + wire % n, wire >= n, tick, sigma, area, d->truth);
    }
}

/* Noise pulses that look like small hits.  */
static void fakes_add (wm_synth_tpc_t *self, wm_random_t *random)
{
    int count = (int) (FAKES_TPC + sqrt (FAKES_TPC) * wm_random_normal (random));
    for (int i = 0; i < count; i++) {
        uint32_t channel = (uint32_t) (wm_random (random) * WM_TPC_CHANNELS);
        double height = HIT_ADC + 2 - 1.2 * log (1 - wm_random (random));
        pulse_add (self, channel, 0, wm_random (random) * WM_TICKS, 2.2, height * 2.2 * 2.5,
                   WM_NONE);
    }
}

/* Label and wire of a hit: whose charge is the most within 6 ticks.  */
static void hit_add (wm_synth_tpc_t *self, uint32_t plane, uint32_t channel, int tick, double time)
{
    double sum[TRUTHS] = { 0 }, all = 0;
    int bin = tick / TRUTH_TICKS;
    for (int b = bin > 0 ? bin - 1 : 0; b <= bin + 1 && b < TRUTH_BINS; b++)
        for (int k = 0; k < TRUTHS; k++)
            sum[k] += (double) self->truth[channel][b][k];
    uint32_t best = WM_NONE;
    for (uint32_t k = 0; k < WM_TRUTH_END; k++) {
        all += sum[k];
        if (sum[k] > sum[best])
            best = k;
    }
    uint32_t wire = channel - channel_first[plane];
    if (sum[UPPER] > all / 2)
        wire += wm_plane_channels[plane];
    wm_must_grow (&self->hit, &self->hit_max, self->n_hit + 1, sizeof *self->hit);
    self->hit[self->n_hit++] = (wm_synth_hit_t){ plane, wire, best, (float) time };
}

/* Maxima of a region, at least HIT_APART ticks apart, their time by a parabola.  */
static void hits_find (wm_synth_tpc_t *self, uint32_t plane, uint32_t channel, int first, int end)
{
    const float *adc = self->adc[channel];
    int before = -HIT_APART;
    for (int t = first + 1; t + 1 < end; t++) {
        if (adc[t] < (float) HIT_ADC || t - before < HIT_APART)
            continue;
        int highest = 1;
        for (int k = -3; k <= 3 && highest; k++)
            if (t + k >= first && t + k < end && k)
                highest = k < 0 ? adc[t] > adc[t + k] : adc[t] >= adc[t + k];
        if (!highest)
            continue;
        double l = (double) adc[t - 1], m = (double) adc[t], r = (double) adc[t + 1];
        double bend = l - 2 * m + r;
        hit_add (self, plane, channel, t, t + (bend < 0 ? 0.5 * (l - r) / bend : 0));
        before = t;
    }
}

static void region_add (wm_synth_tpc_t *self, wm_random_t *random, double noise, uint32_t plane,
                        uint32_t channel, int first, int end)
{
    float *adc = self->adc[channel];
    wm_must_grow (&self->roi, &self->roi_max, self->n_roi + 1, sizeof *self->roi);
    self->roi[self->n_roi++] =
        (wm_synth_roi_t){ channel, (uint32_t) first, (uint32_t) (end - first) };
    for (int t = first; t < end; t++) {
        /* stored in steps of 1/64 ADC: data compress as real ones do */
        double value = (double) adc[t] + noise * wm_random_normal (random);
        adc[t] = (float) (nearbyint (value * 64) / 64);
        wm_must_grow (&self->value, &self->value_max, self->n_value + 1, sizeof *self->value);
        self->value[self->n_value++] = adc[t];
    }
    hits_find (self, plane, channel, first, end);
}

/* Zero suppression of one channel.  */
static void regions_find (wm_synth_tpc_t *self, wm_random_t *random, double noise, uint32_t plane,
                          uint32_t channel)
{
    const float *adc = self->adc[channel];
    int first = -1, end = 0;
    for (int t = 0; t < WM_TICKS; t++) {
        if (adc[t] < (float) REGION_ADC)
            continue;
        int from = t > REGION_PAD ? t - REGION_PAD : 0;
        if (first >= 0 && from > end) {
            region_add (self, random, noise, plane, channel, first, end);
            first = -1;
        }
        if (first < 0)
            first = from;
        end = t + REGION_PAD + 1 < WM_TICKS ? t + REGION_PAD + 1 : WM_TICKS;
    }
    if (first >= 0)
        region_add (self, random, noise, plane, channel, first, end);
}

void wm_synth_tpc_run (wm_synth_tpc_t *self, wm_random_t *random, const wm_deposits_t *deposits,
                       int tpc, double tau_us, double noise)
{
    self->n_roi = self->n_value = self->n_hit = 0;
    memset (self->adc, 0, WM_TPC_CHANNELS * sizeof *self->adc);
    memset (self->truth, 0, WM_TPC_CHANNELS * sizeof *self->truth);
    for (size_t i = 0; i < deposits->count; i++)
        deposit_collect (self, &deposits->deposit[i], tpc, tau_us);
    fakes_add (self, random);
    for (uint32_t plane = 0; plane < WM_PLANES; plane++)
        for (uint32_t c = 0; c < wm_plane_channels[plane]; c++)
            regions_find (self, random, noise, plane, channel_first[plane] + c);
}

size_t wm_synth_tpc_rois (const wm_synth_tpc_t *self, const wm_synth_roi_t **rois,
                          const float **values, size_t *n_value)
{
    *rois = self->roi;
    *values = self->value;
    *n_value = self->n_value;
    return self->n_roi;
}

size_t wm_synth_tpc_hits (const wm_synth_tpc_t *self, const wm_synth_hit_t **hits)
{
    *hits = self->hit;
    return self->n_hit;
}
