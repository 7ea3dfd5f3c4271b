/* wm_credit.h - how many batches a worker asks for.

   A window of batches in hand: it starts at 2 (one computes, one waits), falls to 1 after a
   failure, so that a worker that fails fast cannot eat the queue, and grows by one with every
   success up to what the worker's own measured rate does in two seconds. Grants are absolute
   counters of the session: the broker may send that many tasks in it. Thread: one at a time; plain
   values, no I/O, no clock.  */
#ifndef WM_CREDIT_H
#define WM_CREDIT_H

#include "schema/wm_limits.h"

typedef struct {
    uint32_t window;   /* batches wanted in hand */
    double batch_s;    /* measured: one batch takes this long; 0: not known yet */
    uint64_t received; /* tasks of this session */
    uint64_t granted;  /* the last grant of this session */
    int again;         /* it is to be said once more */
} wm_credit_t;

void wm_credit_init (wm_credit_t *self);

/* Credit dies with its session; window and rate stay.  */
void wm_credit_session (wm_credit_t *self);

void wm_credit_success (wm_credit_t *self, double seconds);
void wm_credit_failure (wm_credit_t *self);

/* The next grant is said even where it is nothing new: one was given back, and the broker sends nothing
   until it hears of credit.  */
void wm_credit_again (wm_credit_t *self);

/* The grant to send now, 0: nothing new. in_hand: batches not scored yet; held: those and the
   results not acknowledged, which together never pass WM_CREDIT_MAX (a broker whose disk is full
   acknowledges nothing, and results must not pile up).  */
uint64_t wm_credit_grant (wm_credit_t *self, uint32_t in_hand, uint32_t held);

#endif
