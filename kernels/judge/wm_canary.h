/* wm_canary.h - scores a few hits of a GPU's batch again on the CPU, at random places, and
   compares.

   The engine cannot know which hits are checked, and the check shares nothing with the engine:
   neither chip nor code nor the plane on the device. An engine that is wrong in one hit of a
   hundred passes 150 checked batches with probability 1e-8. Private to kernels/.

   A check may take longer than the GPU needs for a launch, so it has a thread of its own: the job
   that is checked is held back until its check has ended, the others go on.
   Thread: one at a time; the check's own thread touches the job only between take and collect.  */
#ifndef WM_CANARY_H
#define WM_CANARY_H

#include "kernels/wm_device.h"

#include <stdbool.h>

#define WM_CANARIES 12u /* hits of a batch: 0.99^(12 150) = 1e-8 */

typedef struct wm_canary_t wm_canary_t;

/* model and spec (NULL: dense patches only) are lent; family models only. tolerance: of a score.
   share: of the time that checks may take: after a check that took t, none follows for t / share.
   NULL with *error.  */
wm_canary_t *wm_canary_new (const wm_model_t *model, const wm_spec_t *spec, double tolerance,
                            double share, wm_error_t *error);
void wm_canary_destroy (wm_canary_t **self_p);

/* Checks the scores of a batch in this thread, if it is time. WM_EHOST names the hit and its
   error. Scores that are not finite are ignored. Not while a job is taken.  */
wm_fault_t wm_canary_check (wm_canary_t *self, const wm_batch_t *batch, const float *scores,
                            wm_error_t *error);

/* Takes a scored job for a check, if it is time and no other one is checked. false: it does
   not.  */
bool wm_canary_take (wm_canary_t *self, wm_job_t *job);

/* Returns the job that was taken in *job if its check has ended, or, with `waits`, when it ends;
   else NULL. A fault as of wm_canary_check.  */
wm_fault_t wm_canary_collect (wm_canary_t *self, bool waits, wm_job_t **job, wm_error_t *error);

/* Forgets the job that was taken, if any, when its check has ended.  */
void wm_canary_discard (wm_canary_t *self);

#endif
