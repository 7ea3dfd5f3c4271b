/* wm_stride.h - which lane may compute, where several lanes share one machine.

   One lane at a time holds the machine, for a round: one batch, or as many as its engine scores
   together. Lanes of brokers for clients go first: a batch of theirs waits for the round that has
   begun, and bulk campaigns get the rest of the time. While both wait, bulk campaigns together get
   bulk_percent of it. So between the two kinds, and by weight between the lanes of one kind, time
   is shared with stride scheduling (Waldspurger and Weihl 1995): of those that wait, the one with
   the least computing time divided by its weight is next. One that waits again after a pause starts
   level with the others: it has no claim to the time it missed.

   Clients of other workers on the same CPUs count, too, where a descriptor reports them
   (wm_stride_await): while they wait no round of a bulk campaign begins, but for its share of the
   time in which this worker's own clients compute.

   Thread: any; each lane number belongs to one.  */
#ifndef WM_STRIDE_H
#define WM_STRIDE_H

#include <stdbool.h>
#include <stdint.h>

#define WM_STRIDE_BULK_PERCENT_MAX 99

typedef struct wm_stride_t wm_stride_t;

/* Never NULL (asserts on memory and descriptors). weight: (n_lane), 1 or more each. bulk_percent: 0
   (nothing while clients wait) to WM_STRIDE_BULK_PERCENT_MAX.  */
wm_stride_t *wm_stride_new (unsigned n_lane, const unsigned *weight, unsigned bulk_percent);
void wm_stride_destroy (wm_stride_t **self_p);

/* Notes that this lane's broker serves clients. Call it before the lane's first request; otherwise
   a lane is of a bulk campaign.  */
void wm_stride_serves_clients (wm_stride_t *self, unsigned lane);

/* Lends a descriptor that can be read while no client of another worker waits. Once, before the
   first request.  */
void wm_stride_await (wm_stride_t *self, int quiet);

/* Returns a descriptor that becomes readable when the machine is given to a lane that waited for
   it, or may be because clients elsewhere wait no more, until that lane's next request or
   release.  */
int wm_stride_fd (const wm_stride_t *self, unsigned lane);

/* Requests the machine. true: the lane holds it until wm_stride_release. false: the lane waits.  */
bool wm_stride_request (wm_stride_t *self, unsigned lane);

/* Returns whether the lane, which holds the machine and has begun its round, should add nothing to
   it: it is of a bulk campaign, and a lane with clients waits.  */
bool wm_stride_is_urgent (wm_stride_t *self, unsigned lane);

/* Ends the lane's round after so many seconds of computing, or its wait. If the lane neither holds
   the machine nor waits, it does nothing. has_more: it has another batch already, and waits for its
   next round from now on; the machine may be its own again at once, without a signal, so that
   wm_stride_request must follow.  */
void wm_stride_release (wm_stride_t *self, unsigned lane, double seconds, bool has_more);

/* Rounds that the lane has begun, and those that others began while it waited.  */
typedef struct {
    uint64_t n_round, n_behind;
} wm_stride_counts_t;
wm_stride_counts_t wm_stride_counts (wm_stride_t *self, unsigned lane);

#endif
