/* wm_canary.h - a few hits of a batch, at random places, scored again on the CPU and compared.

   What a GPU gives for a hit is believed because, whenever somebody looks, it is right: the engine
   cannot know where that will be, and the judge shares nothing with it, neither chip nor code nor
   the plane on the device. An engine wrong in one hit of a hundred is found within 150 batches that
   are looked at (it passes them with probability 1e-8). Private to kernels/.
   Thread: one at a time.  */
#ifndef WM_CANARY_H
#define WM_CANARY_H

#include "kernels/wm_device.h"

#define WM_CANARIES 12u /* hits of a batch: 0.99^(12 150) = 1e-8 */

typedef struct wm_canary_t wm_canary_t;

/* model and spec (NULL: dense patches only) are lent; the family only. tolerance: of a score. share:
   of the time that may go into looking: after one that took t, batches pass for t / share. NULL
   with *error.  */
wm_canary_t *wm_canary_new (const wm_model_t *model, const wm_spec_t *spec, double tolerance,
                            double share, wm_error_t *error);
void wm_canary_destroy (wm_canary_t **self_p);

/* WM_EHOST names the hit and how far off it is. Scores that are no numbers are left to others.  */
wm_fault_t wm_canary_check (wm_canary_t *self, const wm_batch_t *batch, const float *scores,
                            wm_error_t *error);

#endif
