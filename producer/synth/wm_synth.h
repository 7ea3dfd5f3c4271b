/* wm_synth.h - synthetic ProtoDUNE-like events, for trying wiremill without anybody's data.

   physics: cosmic muons (Bethe-Bloch loss with Moyal fluctuations, Highland scattering, delta rays,
   stopping muons with Michel electrons) and electromagnetic showers -> deposits of charge.
   detector: deposits -> drift, diffusion, three wire directions, wrapped channels, noise, zero
   suppression -> regions of interest and hits with a truth label.
   Everything follows from (seed, event number): event 7 is the same in a file of 10 or of 1,000.
   Formulas: Review of Particle Physics, "Passage of particles through matter" (Bethe, Highland,
   delta rays); Moyal, Phil. Mag. 46 (1955) 263 (Landau-like fluctuation); liquid argon constants
   as published by ICARUS and ProtoDUNE.  */
#ifndef WM_SYNTH_H
#define WM_SYNTH_H

#include <stddef.h>
#include <stdint.h>

/* Truth labels, in the order of the network's scores.  */
typedef enum { WM_TRACK, WM_EM, WM_NONE, WM_MICHEL, WM_TRUTH_END } wm_truth_t;

/* xoshiro256**, seeded with splitmix64.  */
typedef struct {
    uint64_t state[4];
} wm_random_t;
void wm_random_seed (wm_random_t *self, uint64_t seed, uint64_t stream);
double wm_random (wm_random_t *self);        /* uniform in [0, 1) */
double wm_random_normal (wm_random_t *self); /* mean 0, width 1 */

/* Charge left on one short step, a few millimetres long. */
typedef struct {
    float x, y, z;  /* cm: x along the drift (-360..360, cathode at 0), y up (0..600), z (0..690) */
    float t0_us;    /* when, relative to the trigger */
    float charge;   /* 1 = what a minimum-ionising muon leaves on 1 cm, after recombination */
    uint32_t truth; /* wm_truth_t */
} wm_deposit_t;

typedef struct {
    wm_deposit_t *deposit;
    size_t count, capacity;
} wm_deposits_t;

/* Detector constants: ProtoDUNE-SP's six active drift volumes.  */
#define WM_TPCS 6
#define WM_PLANES 3
#define WM_TICKS 6000
#define WM_TICK_US 0.5
#define WM_TRIGGER_OFFSET 500.0 /* ticks */
#define WM_DRIFT_CM 360.0
#define WM_DRIFT_CM_US 0.1565 /* at 0.5 kV/cm */
#define WM_INDUCTION_PITCH_CM 0.4669
#define WM_COLLECTION_PITCH_CM 0.4790
#define WM_HEIGHT_CM 600.0
#define WM_TPC_LENGTH_CM 230.0
static const uint32_t wm_plane_wires[WM_PLANES] = { 1148, 1148, 480 };
static const uint32_t wm_plane_channels[WM_PLANES] = { 800, 800,
                                                       480 }; /* wire w is on channel w % n */
#define WM_TPC_CHANNELS (800 + 800 + 480)

/* Primaries for the hits wished for: measured hits a primary, by number of TPCs.  */
double wm_synth_primaries (double hits, int tpcs);

/* Adds the deposits of one event with about `primaries` cosmic primaries, in the first `tpcs` drift
   volumes. Memory grows by realloc; asserts on none left.  */
void wm_synth_physics (wm_random_t *random, double primaries, int tpcs, wm_deposits_t *deposits);

/* What one TPC records.  */
typedef struct {
    uint32_t channel, tick, n; /* channel within the TPC, 0..WM_TPC_CHANNELS-1 */
} wm_synth_roi_t;
typedef struct {
    uint32_t plane, wire, truth;
    float time; /* ticks */
} wm_synth_hit_t;

typedef struct wm_synth_tpc_t wm_synth_tpc_t;
wm_synth_tpc_t *wm_synth_tpc_new (void);
void wm_synth_tpc_destroy (wm_synth_tpc_t **self_p);

/* Simulates one TPC of an event; results are lent until the next call. tau_us: electron lifetime;
   noise: width of the noise in ADC.  */
void wm_synth_tpc_run (wm_synth_tpc_t *self, wm_random_t *random, const wm_deposits_t *deposits,
                       int tpc, double tau_us, double noise);
size_t wm_synth_tpc_rois (const wm_synth_tpc_t *self, const wm_synth_roi_t **rois,
                          const float **values, size_t *n_value);
size_t wm_synth_tpc_hits (const wm_synth_tpc_t *self, const wm_synth_hit_t **hits);

#endif
