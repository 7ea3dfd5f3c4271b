/* wm_stride.h - which lane may compute, where several lanes share one machine.

   One lane at a time holds the machine, for a round: one batch, or as many as its engine scores
   together. Time is shared by weight with stride scheduling (Waldspurger and Weihl 1995): of the
   lanes that wait, the one with the least computing time divided by its weight is next. A lane that
   waits again after a pause starts level with the others: it has no claim to the time it missed.

   Thread: any; each lane number belongs to one.  */
#ifndef WM_STRIDE_H
#define WM_STRIDE_H

#include <stdbool.h>

typedef struct wm_stride_t wm_stride_t;

/* Never NULL (asserts on memory and descriptors). weight: (n_lane), 1 or more each.  */
wm_stride_t *wm_stride_new (unsigned n_lane, const unsigned *weight);
void wm_stride_destroy (wm_stride_t **self_p);

/* Returns a descriptor that becomes readable when the machine is given to a lane that waited for
   it, until that lane's next request or release.  */
int wm_stride_fd (const wm_stride_t *self, unsigned lane);

/* Requests the machine. true: the lane holds it until wm_stride_release. false: the lane waits.  */
bool wm_stride_request (wm_stride_t *self, unsigned lane);

/* Ends the lane's round after so many seconds of computing, or its wait. If the lane neither holds
   the machine nor waits, it does nothing.  */
void wm_stride_release (wm_stride_t *self, unsigned lane, double seconds);

#endif
