/* wm_stride.h - whose turn it is to compute, where several lanes share one machine.

   One lane computes at a time, a batch a turn. Turns are shared out by weight: of those that want
   one, the seat that has computed the least for its weight is next; one that comes back after a
   pause begins level with the others and catches nothing up.

   Thread: any; each seat belongs to one.  */
#ifndef WM_STRIDE_H
#define WM_STRIDE_H

typedef struct wm_stride_t wm_stride_t;

/* Never NULL (asserts on memory and descriptors).  */
wm_stride_t *wm_stride_new (unsigned n_seat, const unsigned *weight);
void wm_stride_destroy (wm_stride_t **self_p);

/* Readable when a turn that was asked for has come, until the next ask or done.  */
int wm_stride_fd (const wm_stride_t *self, unsigned seat);

/* 1: it is this seat's turn, until wm_stride_done. 0: it is asked for.  */
int wm_stride_ask (wm_stride_t *self, unsigned seat);

/* The turn is over after so many seconds of computing, or what was asked for is not wanted any more.
   Without either it does nothing.  */
void wm_stride_done (wm_stride_t *self, unsigned seat, double seconds);

#endif
