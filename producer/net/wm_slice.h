/* wm_slice.h - long work in the loop's one thread, a slice at a time.

   Jobs (a message to inflate, numbers to read) stand in a queue. Each round of the loop does at
   most WM_SLICE_BYTES of work: of the first job, which then goes behind the others, and of the next
   ones while something is left. So no message keeps the loop from its other clients, however large,
   and small ones do not wait for large ones. As much again is done at once, of jobs that are most
   often small (wm_slice_now), and never more, however many there are. Thread: the loop's.  */
#ifndef WM_SLICE_H
#define WM_SLICE_H

#include "producer/net/wm_loop.h"

#include <stddef.h>

#define WM_SLICE_BYTES ((size_t) 256 << 10) /* read and written: 1 to 2 ms */
#define WM_SLICE_LEAST ((size_t) 2 << 10)   /* what a job costs at least: answers are sent */

typedef struct wm_slices_t wm_slices_t;

/* Works, and takes the bytes it has read and written from *left, until that is 0 (or nearly). True:
   there is more to do. Before it returns false it may free its job, or begin it again.  */
typedef bool wm_slice_work_t (void *argument, size_t *left);

/* A job. Zeroed at first; its place must not move while it is in the queue.  */
typedef struct wm_slice_t {
    wm_slices_t *slices; /* NULL: not in the queue */
    wm_slice_work_t *work;
    void *argument;
    struct wm_slice_t *next, *before;
} wm_slice_t;

wm_slices_t *wm_slices_new (wm_loop_t *loop);
/* After the loop's end. Jobs are forgotten.  */
void wm_slices_destroy (wm_slices_t **self_p);

/* Puts the job at the end of the queue. `work` is not called before this returns.  */
void wm_slice_begin (wm_slices_t *self, wm_slice_t *job, wm_slice_work_t *work, void *argument);
/* The same; but `work` is called before this returns if something is left of what this round of the
   loop may do so.  */
void wm_slice_now (wm_slices_t *self, wm_slice_t *job, wm_slice_work_t *work, void *argument);
/* Takes it out of the queue, if it is there.  */
void wm_slice_end (wm_slice_t *job);

#endif
