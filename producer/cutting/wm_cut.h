/* wm_cut.h - from an event to its batches: which hits, in what order, with which runs.

   A pure function of the event, the specification and the limits, so that a rerun makes the same
   batches with the same digests:
   - hits are held that no engine may see: a time that is not finite or whose patch lies outside the
     readout, a wire outside its plane or no such plane, a patch that reads a non-finite cell;
   - of patches of several channels, each channel is judged so; one without any is a bad wire;
   - the others are sorted by (cryostat, TPC, plane, wire, time, input order);
   - windows without charge come first in their plane, all with one cell outside it, so that an
     engine computes them once a batch;
   - a plane's hits are cut into the fewest slices of at most batch_hits, of sizes that differ by at
     most one (campaigns without the pin `cut`: full slices and a rest); a slice above batch_bytes
     (raw) is halved until it fits. It carries the runs its hits' windows need, clipped to blocks of
     WM_CUT_BLOCK columns.
   Every hit is in exactly one batch, or held.
   Thread: one at a time.  */
#ifndef WM_CUT_H
#define WM_CUT_H

#include "kernels/patch/wm_spec.h"
#include "producer/files/wm_event.h"
#include "schema/session/wm_msg.h"
#include "schema/wm_batch.h"
#include "schema/wm_pins.h"

#include <stdbool.h>

#define WM_CUT_BLOCK 32u

typedef struct wm_cut_t wm_cut_t;

typedef struct {
    uint32_t n_output;    /* scores per hit */
    uint32_t batch_hits;  /* most hits per batch */
    uint32_t batch_bytes; /* most raw bytes a batch */
    bool even;            /* batches of equal size */
} wm_cut_limits_t;

/* What is odd about an event, or the events of an input together; for warnings.  */
typedef struct {
    uint64_t n_early, n_late;    /* hits whose patch lies before the readout; behind it */
    double early, late;          /* the time of one of each, ticks */
    uint32_t n_tick;             /* of the readout of the last of them */
    uint64_t n_pixel, n_clamped; /* of planes with hits: pixels that are not 0 ADC; beyond `adc` */
    double growth, tau_us;       /* the largest exponent of a lifetime correction, and its tau_us */
} wm_cut_odd_t;

/* Adds what is odd about `from`.  */
void wm_cut_odd_add (wm_cut_odd_t *self, const wm_cut_odd_t *from);

/* Returns the limits that a campaign is pinned to.  */
wm_cut_limits_t wm_cut_limits (const wm_pins_t *pins);

/* Makes a cutter; lowers batch_hits where the scores would not fit a result. Never NULL (asserts).
   spec is lent.  */
wm_cut_t *wm_cut_new (const wm_spec_t *spec, wm_cut_limits_t limits);
void wm_cut_destroy (wm_cut_t **self_p);

/* Begins with an event, which is lent until the next start. WM_EBATCH: the specification asks for
   what the input does not state (lifetime), or the readout is shorter than a drift bin; `where`
   names the event.  */
wm_fault_t wm_cut_start (wm_cut_t *self, const wm_event_t *event, const char *where,
                         wm_error_t *error);

/* The next batch into *batch, reusing its memory; n_hit 0: there are no more. *hit: the batch's
   hits as indices into event->hit, lent until the next start. WM_EBATCH: one hit does not fit
   batch_bytes.  */
wm_fault_t wm_cut_next (wm_cut_t *self, wm_batch_t *batch, const uint32_t **hit, wm_error_t *error);

/* After the last batch: the held hits by index, in order.  */
const wm_manifest_held_t *wm_cut_held (const wm_cut_t *self, uint32_t *count);

/* After start: 1 for a hit whose cell lies at least an eighth of a patch inside its plane
   (LArSoft's isInsideFiducialRegion). (n_hit)  */
const uint8_t *wm_cut_in_fiducial (const wm_cut_t *self);

/* After start: hits in the same cell as the hit before them in their plane; LArSoft's buffered
   patch leaves those empty (here they are scored), so that comparisons can be explained.  */
uint32_t wm_cut_n_same_cell (const wm_cut_t *self);

/* After the last batch: what is odd about the event. Lent until the next start.  */
const wm_cut_odd_t *wm_cut_odd (const wm_cut_t *self);

/* After the last batch: hits whose patch is zero everywhere. They are scored; but a hit without
   charge around it is a sign that hits and planes do not belong together.  */
uint32_t wm_cut_n_empty (const wm_cut_t *self);

#endif
