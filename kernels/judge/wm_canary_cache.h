/* wm_canary_cache.h - canaries for models that no second engine judges: patches whose scores were
   seen before, sent again among a batch's own.

   Any CNN on a GPU: the first time, its known inputs (seeded patches, where the model's file has
   none) are scored alone and their bits are kept, right after the self-test. Later some of them are
   scored again at random places between hits of a batch; they must have their first bits, and the
   hits the bits that they just got, because no engine's bits depend on the grouping. This finds
   hardware that starts to compute wrongly; the self-test finds one that did from the start.

   A check is a job beside the others: the job whose hits are among the known patches is held back
   until the check's own job, wm_canary_cache_job, has come back. Private to kernels/.
   Thread: one at a time.  */
#ifndef WM_CANARY_CACHE_H
#define WM_CANARY_CACHE_H

#include "kernels/wm_device.h"

#define WM_RECALLS 4u            /* patches that are remembered */
#define WM_CANARY_CACHE_ROWS 64u /* sent together: these and hits of the batch */

typedef struct wm_canary_cache_t wm_canary_cache_t;

/* The model is lent. share: as of wm_canary_new. NULL with *error.  */
wm_canary_cache_t *wm_canary_cache_new (const wm_model_t *model, double share, wm_error_t *error);
void wm_canary_cache_destroy (wm_canary_cache_t **self_p);

/* Holds a scored job back for a check, if it is time and none is under way: then the caller submits
   wm_canary_cache_job. false: the job is not checked.  */
bool wm_canary_cache_take (wm_canary_cache_t *self, wm_job_t *job);
wm_job_t *wm_canary_cache_job (wm_canary_cache_t *self);

/* Compares, when wm_canary_cache_job was scored. *job: the job that was held back; NULL where
   wm_canary_cache_job is to be submitted once more (*again). WM_EHOST: a patch has other bits than
   before, or wm_canary_cache_job was refused.  */
wm_fault_t wm_canary_cache_compare (wm_canary_cache_t *self, wm_job_t **job, bool *again,
                                    wm_error_t *error);

#endif
