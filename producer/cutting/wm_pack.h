/* wm_pack.h - one event ready to travel: its manifest and its encoded batches.

   What the producer keeps of an event between announcing it and having all its results.
   Thread: one at a time.  */
#ifndef WM_PACK_H
#define WM_PACK_H

#include "producer/cutting/wm_cut.h"

typedef struct {
    int64_t run, subrun, event;
    uint32_t n_hit, n_batch, n_held, n_same_cell, n_empty, n_bad_channel_hit;
    wm_cut_odd_t odd;
    wm_manifest_batch_t *batch; /* (n_batch), and behind them the held hits: SUBMIT's payload */
    size_t manifest_bytes;
    uint32_t *hit_start; /* (n_batch + 1): a batch's hits in row */
    uint32_t *row;       /* rows of the input, in the order of the batches' hits */
    uint32_t *held_row;  /* (n_held): rows of the input */
    size_t *frame_start; /* (n_batch + 1): a batch's frame in frames */
    uint8_t *frames;
} wm_pack_t;

void wm_pack_destroy (wm_pack_t **self_p);

typedef struct wm_packer_t wm_packer_t;

/* Arguments as of wm_cut_new; pins_digest is copied. Never NULL.  */
wm_packer_t *wm_packer_new (const wm_spec_t *spec, wm_cut_limits_t limits,
                            const uint8_t pins_digest[16]);
void wm_packer_destroy (wm_packer_t **self_p);

/* Cuts, digests and encodes an event; *pack is the caller's. *in_fiducial (n_hit) is lent until the
   next call. WM_EBATCH as of wm_cut, or a manifest that does not fit a frame.  */
wm_fault_t wm_packer_pack (wm_packer_t *self, const wm_event_t *event, const char *where,
                           wm_pack_t **pack, const uint8_t **in_fiducial, wm_error_t *error);

#endif
