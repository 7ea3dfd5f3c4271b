/* wm_credit.h - how many batches a worker asks for.

   Credit is the number of batches that the broker may send in this session, counted from its start:
   an absolute counter, so that a repeated or late CREDIT message changes nothing. The worker
   derives it from a window, the number of unscored batches that it wants to have:
   - the window starts at 2: one batch computes, one waits;
   - it falls to 1 after a failure, so that a worker that fails fast cannot drain the queue;
   - every success raises it by one, up to the number of batches that this worker, at its measured
     rate, scores in two seconds; where clients wait for scores in 0.2 seconds, since what lies here
     is scored before anything that comes.
   Credit = batches received in this session + (window - unscored batches), and no more than keeps
   all its batches within `most`: WM_CREDIT_MAX, of large patches fewer. A credit that was granted
   is never taken back.

   Thread: one at a time; plain values, no I/O, no clock.  */
#ifndef WM_CREDIT_H
#define WM_CREDIT_H

#include "schema/wm_limits.h"

#include <stdbool.h>

typedef struct {
    uint32_t most;     /* batches that this worker may have */
    uint32_t window;   /* unscored batches wanted */
    double ahead_s;    /* of work */
    double batch_s;    /* measured: one batch takes this long; 0: not known yet */
    uint64_t received; /* tasks of this session */
    uint64_t granted;  /* the last grant of this session */
    bool again;        /* send the grant again even if it has not changed */
} wm_credit_t;

void wm_credit_init (wm_credit_t *self);

/* Bounds the batches by their memory, where patches have more than WM_RAGGED_BYTES: row_bytes
   is what one of them, or its result, has.  */
void wm_credit_bound (wm_credit_t *self, uint64_t row_bytes);

/* Starts a session: credit ends with its session; window and rate stay.  */
void wm_credit_session (wm_credit_t *self, bool for_clients);

void wm_credit_success (wm_credit_t *self, double seconds);
void wm_credit_failure (wm_credit_t *self);

/* Makes the next grant go out even if it is nothing new: the worker gave a batch back, after which
   the broker sends it nothing until it receives credit.  */
void wm_credit_again (wm_credit_t *self);

/* Returns the grant to send now, 0: nothing new. unscored: batches without result; all: those and
   the results not acknowledged, which together never pass `most` (a broker whose disk is
   full acknowledges nothing, and results must not pile up).  */
uint64_t wm_credit_grant (wm_credit_t *self, uint32_t unscored, uint32_t all);

#endif
