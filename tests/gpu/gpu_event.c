/* gpu_event.c - see gpu_event.h: producer/wm_synth's event through producer/wm_cut.  */
#include "tests/gpu/gpu_event.h"
#include "producer/cutting/wm_cut.h"
#include "producer/synth/wm_synth.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TAU_US 10000. /* both the defaults of `wiremill synth` */
#define NOISE_ADC 0.5

/* Takes a TPC's planes, which lie in the event already.  */
static void add_rois (wm_event_t *event, const wm_synth_tpc_t *tpc, uint32_t number)
{
    const wm_synth_roi_t *roi;
    const float *value;
    size_t n_value, n = wm_synth_tpc_rois (tpc, &roi, &value, &n_value);
    uint64_t at = event->n_sample;
    wm_fault_t fault = wm_event_reserve (&event->sample, &event->sample_max, at + n_value,
                                         sizeof *event->sample, NULL);
    assert (!fault);
    memcpy (event->sample + at, value, n_value * sizeof *value);
    event->n_sample += n_value;
    for (size_t i = 0; i < n; at += roi[i++].n) {
        uint32_t plane = 0, channel = roi[i].channel;
        while (channel >= wm_plane_channels[plane])
            channel -= wm_plane_channels[plane++];
        for (uint32_t w = channel; w < wm_plane_wires[plane] && roi[i].n;
             w += wm_plane_channels[plane]) {
            const wm_roi_t add = { number * WM_PLANES + plane, w, roi[i].tick, roi[i].n, at };
            fault = wm_event_add_roi (event, &add, NULL);
            assert (!fault);
        }
    }
}

static void add_hits (wm_event_t *event, const wm_synth_tpc_t *tpc, int32_t number)
{
    const wm_synth_hit_t *hit;
    const size_t n = wm_synth_tpc_hits (tpc, &hit);
    wm_fault_t fault =
        wm_event_reserve (&event->hit, &event->hit_max, event->n_hit + n, sizeof *event->hit, NULL);
    assert (!fault);
    for (size_t i = 0; i < n; i++, event->n_hit++)
        event->hit[event->n_hit] =
            (wm_hit_t){ 0,           number,      (int32_t) hit[i].plane, (int32_t) hit[i].wire,
                        hit[i].time, event->n_hit };
}

static void simulate (wm_event_t *event, double hits, uint64_t seed, uint64_t number)
{
    wm_random_t random;
    wm_deposits_t deposits = { 0 };
    wm_synth_tpc_t *tpc = wm_synth_tpc_new ();
    wm_random_seed (&random, seed, number);
    wm_synth_physics (&random, wm_synth_primaries (hits, WM_TPCS), WM_TPCS, &deposits);
    event->n_tick = WM_TICKS;
    event->tick_us = WM_TICK_US, event->trigger_offset = WM_TRIGGER_OFFSET, event->tau_us = TAU_US;
    wm_fault_t fault = wm_event_reserve (&event->plane, &event->plane_max, WM_TPCS * WM_PLANES,
                                         sizeof *event->plane, NULL);
    for (int32_t i = 0; i < WM_TPCS * WM_PLANES && !fault; i++)
        event->plane[event->n_plane++] = (wm_event_plane_t){
            .tpc = i / WM_PLANES, .plane = i % WM_PLANES, .n_wire = wm_plane_wires[i % WM_PLANES]
        };
    for (int32_t t = 0; t < WM_TPCS && !fault; t++) {
        wm_synth_tpc_run (tpc, &random, &deposits, t, TAU_US, NOISE_ADC);
        add_rois (event, tpc, (uint32_t) t);
        add_hits (event, tpc, t);
    }
    if (!fault)
        fault = wm_event_arrange (event, "the synthetic event", NULL);
    assert (!fault);
    wm_synth_tpc_destroy (&tpc);
    free (deposits.deposit);
}

void gpu_event_cut (gpu_event_t *self, const wm_spec_t *spec, const wm_event_t *event)
{
    wm_batch_t batch = { 0 };
    const uint32_t *hit;
    *self = (gpu_event_t){ 0 };
    wm_cut_t *cut = wm_cut_new (spec, (wm_cut_limits_t){ 4, 4096, WM_RAW_BYTES_MAX, true });
    wm_fault_t fault = wm_cut_start (cut, event, "the event", NULL);
    while (!fault && !(fault = wm_cut_next (cut, &batch, &hit, NULL)) && batch.n_hit) {
        self->batch = realloc (self->batch, (self->n_batch + 1) * sizeof *self->batch);
        assert (self->batch);
        self->batch[self->n_batch++] = batch;
        self->n_hit += batch.n_hit;
        memset (&batch, 0, sizeof batch);
    }
    assert (!fault);
    wm_batch_clear (&batch);
    wm_cut_destroy (&cut);
}

void gpu_event_new (gpu_event_t *self, const wm_spec_t *spec, double hits, uint64_t seed,
                    uint64_t number)
{
    wm_event_t event = { 0 };
    simulate (&event, hits, seed, number);
    gpu_event_cut (self, spec, &event);
    wm_event_clear (&event);
}

void gpu_event_free (gpu_event_t *self)
{
    for (uint32_t i = 0; i < self->n_batch; i++)
        wm_batch_clear (&self->batch[i]);
    free (self->batch);
    *self = (gpu_event_t){ 0 };
}
