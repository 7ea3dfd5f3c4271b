/* wm_recall.h - canaries for models that no second engine judges: patches whose scores were seen
   before, sent again among a batch's own.

   Any CNN on a GPU: the first time, its known inputs (seeded patches, where the model's file has
   none) are scored alone and the bits are kept, right after the known-answer test has found them
   good. From then on a few of them go through the engine now and then at random places between hits
   of the batch at hand; they must have the bits of the first time, and the hits the bits they have
   just got: no engine's bits depend on the grouping. So what goes wrong with time is found; what was
   wrong from the start the known-answer test has to find. Private to kernels/.
   Thread: one at a time.  */
#ifndef WM_RECALL_H
#define WM_RECALL_H

#include "kernels/wm_backend_private.h"

#define WM_RECALLS 4u      /* patches that are remembered */
#define WM_RECALL_ROWS 64u /* sent together: these and hits of the batch */

typedef struct wm_recall_t wm_recall_t;

/* The model is lent. share: of the time that may go into looking, as wm_canary_new has it. NULL with
   *error.  */
wm_recall_t *wm_recall_new (const wm_model_t *model, double share, wm_error_t *error);
void wm_recall_destroy (wm_recall_t **self_p);

/* `scores`: what the engine gave for the batch. WM_EHOST: something has other bits than it had; or what
   the engine says.  */
wm_fault_t wm_recall_check (wm_recall_t *self, const wm_backend_t *backend, void *engine,
                            const wm_batch_t *batch, const float *scores, wm_error_t *error);

#endif
