/* wm_turn.h - whose turn it is to compute, where several lanes share one machine.

   One lane computes at a time, a batch a turn. Turns are shared out by weight: of those that want
   one, the seat that has computed the least for its weight is next; one that comes back after a
   pause begins level with the others and catches nothing up.

   Thread: any; each seat belongs to one.  */
#ifndef WM_TURN_H
#define WM_TURN_H

typedef struct wm_turn_t wm_turn_t;

/* Never NULL (asserts on memory and descriptors).  */
wm_turn_t *wm_turn_new (unsigned n_seat, const unsigned *weight);
void wm_turn_destroy (wm_turn_t **self_p);

/* Readable when a turn that was asked for has come, until the next ask or done.  */
int wm_turn_fd (const wm_turn_t *self, unsigned seat);

/* 1: it is this seat's turn, until wm_turn_done. 0: it is asked for.  */
int wm_turn_ask (wm_turn_t *self, unsigned seat);

/* The turn is over after so many seconds of computing, or what was asked for is not wanted any more.
   Without either it does nothing.  */
void wm_turn_done (wm_turn_t *self, unsigned seat, double seconds);

#endif
