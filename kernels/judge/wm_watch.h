/* wm_watch.h - checks a few hits of split and fast by strict fp32 before the results leave.

   One hit in WM_WATCH_SHARE on average, many from few batches, because strict fp32 reads all
   weights once for each batch that it checks. A hash of the batch's key decides whether it is
   checked, and which WM_WATCH_HITS neighbours of it, so that a rerun of the campaign checks the
   same rows. If the error of one exceeds max_error, strict fp32 scores the whole batch again.
   Thread: one at a time.  */
#ifndef WM_WATCH_H
#define WM_WATCH_H

#include "kernels/wm_device.h"

#define WM_WATCH_SHARE 2000u
#define WM_WATCH_HITS 256u

typedef struct wm_watch_t wm_watch_t;

typedef struct {
    uint64_t n_hit, n_batch; /* checked */
    uint64_t n_violated;     /* batches scored again */
    double worst;            /* largest error */
    double seconds;          /* of checks, without scoring batches again */
} wm_watch_counts_t;

/* judge: strict fp32 (wm_trial_judge), lent. NULL without memory.  */
wm_watch_t *wm_watch_new (const wm_model_t *model, wm_device_t *judge, double max_error);
void wm_watch_destroy (wm_watch_t **self_p);

/* Returns whether `draw`, a hash of the batch's key, selects it. Thread: any.  */
bool wm_watch_selects (const wm_watch_t *self, uint64_t draw, const wm_batch_t *batch);

/* Checks the batch if `draw` selects it. *again: all of status and scores are
   now strict fp32's, and *error explains (with fault WM_OK). If the judge fails, the batch passes
   unchecked; but if it fails while it scores the batch again, its fault is returned.  */
wm_fault_t wm_watch_check (wm_watch_t *self, uint64_t draw, const wm_batch_t *batch,
                           uint8_t *status, float *scores, bool *again, wm_error_t *error);

wm_watch_counts_t wm_watch_counts (const wm_watch_t *self);

#endif
