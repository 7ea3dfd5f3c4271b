/* wm_watch.h - a few hits of split and fast, scored again by strict fp32 before they leave.

   One hit in WM_WATCH_SHARE on average. They come many together from few batches, because every
   batch that strict fp32 looks at reads all weights once: a batch is drawn by its key, and then
   WM_WATCH_HITS neighbours of it, so that a rerun of the campaign judges the same rows. Where one
   is off by more than the campaign allows, its whole batch is scored again strictly. Thread: one at
   a time.  */
#ifndef WM_WATCH_H
#define WM_WATCH_H

#include "kernels/wm_device.h"

#define WM_WATCH_SHARE 2000u
#define WM_WATCH_HITS 256u

typedef struct wm_watch_t wm_watch_t;

typedef struct {
    uint64_t n_hit, n_batch; /* looked at */
    uint64_t n_violated;     /* batches scored again */
    double worst;            /* error of a hit */
    double seconds;          /* that it took, the scoring again not counted */
} wm_watch_counts_t;

/* judge: strict fp32 (wm_trial_judge), lent. NULL without memory.  */
wm_watch_t *wm_watch_new (const wm_model_t *model, wm_device_t *judge, double max_error);
void wm_watch_destroy (wm_watch_t **self_p);

/* draw: a hash of the batch's key. *again: status and scores are now strict fp32's, all of them,
   and *error says why (its fault is WM_OK). A judge that fails judges nothing, unless it was to
   score again: then its fault is returned.  */
wm_fault_t wm_watch_check (wm_watch_t *self, uint64_t draw, const wm_batch_t *batch,
                           uint8_t *status, float *scores, bool *again, wm_error_t *error);

wm_watch_counts_t wm_watch_counts (const wm_watch_t *self);

#endif
