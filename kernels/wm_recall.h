/* wm_recall.h - canaries for models that no second engine judges: patches whose scores were seen
   before, sent again among a batch's own.

   Any CNN on a GPU: the first time, its known inputs (seeded patches, where the model's file has
   none) are scored alone and their bits are kept, right after the self-test. Later some of them are
   scored again at random places between hits of a batch; they must have their first bits, and the
   hits the bits that they just got, because no engine's bits depend on the grouping. This finds
   hardware that starts to compute wrongly; the self-test finds one that did from the start.
   Private to kernels/.
   Thread: one at a time.  */
#ifndef WM_RECALL_H
#define WM_RECALL_H

#include "kernels/wm_backend_private.h"

#define WM_RECALLS 4u      /* patches that are remembered */
#define WM_RECALL_ROWS 64u /* sent together: these and hits of the batch */

typedef struct wm_recall_t wm_recall_t;

/* The model is lent. share: as of wm_canary_new. NULL with *error.  */
wm_recall_t *wm_recall_new (const wm_model_t *model, double share, wm_error_t *error);
void wm_recall_destroy (wm_recall_t **self_p);

/* Checks the engine, if it is time. `scores`: of the batch. WM_EHOST: a patch has other bits than
   before; or the engine's fault.  */
wm_fault_t wm_recall_check (wm_recall_t *self, const wm_backend_t *backend, void *engine,
                            const wm_batch_t *batch, const float *scores, wm_error_t *error);

#endif
