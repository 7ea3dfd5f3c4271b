/* wm_scorer.h - the engine thread: one device, one job at a time.

   The owner's thread lends a job with wm_scorer_start; when wm_scorer_sock is readable
   wm_scorer_take gives it back, done. The thread takes no signals.
   Thread: the owner's; progress is read with wm_device_progress.  */
#ifndef WM_SCORER_H
#define WM_SCORER_H

#include "kernels/wm_device.h"

#include <czmq.h>

typedef struct {
    const wm_batch_t *batch; /* NULL: run the self-test */
    uint8_t *status;         /* (n_hit) */
    float *scores;           /* (n_hit, n_output) */
    wm_fault_t fault;        /* the answer */
    wm_error_t error;
    double seconds;
} wm_job_t;

typedef struct wm_scorer_t wm_scorer_t;

/* The device is lent. Never NULL (asserts on memory).  */
wm_scorer_t *wm_scorer_new (wm_device_t *device);

/* Waits for the job in hand.  */
void wm_scorer_destroy (wm_scorer_t **self_p);

/* At most one job is in hand (asserted).  */
void wm_scorer_start (wm_scorer_t *self, wm_job_t *job);
int wm_scorer_is_busy (const wm_scorer_t *self);

/* Blocks until the job in hand is done; to be called when wm_scorer_sock is readable.  */
wm_job_t *wm_scorer_take (wm_scorer_t *self);
zsock_t *wm_scorer_sock (wm_scorer_t *self);

#endif
