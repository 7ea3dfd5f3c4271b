/* wm_loop.h - the gateway's one thread: descriptors, timers and what comes after them.

   Callbacks run one after another; each may add and remove anything, itself too. Nothing here
   blocks but wm_loop_run. Allocation that fails ends the process (zmalloc, as czmq has it).
   Thread: one.  */
#ifndef WM_LOOP_H
#define WM_LOOP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct wm_loop_t wm_loop_t;
typedef struct wm_loop_watch_t wm_loop_watch_t;
typedef struct wm_timer_t wm_timer_t;

/* NULL with errno where the kernel gives no epoll.  */
wm_loop_t *wm_loop_new (void);
/* Calls what was put off to later; what is still watched or timed is forgotten, descriptors are the
   callers'.  */
void wm_loop_destroy (wm_loop_t **self_p);

/* Calls `ready` with the events (EPOLLIN, EPOLLOUT ...; level-triggered) of the descriptor. NULL
   with errno.  */
typedef void wm_ready_t (void *argument, uint32_t events);
wm_loop_watch_t *wm_loop_watch (wm_loop_t *self, int fd, uint32_t events, wm_ready_t *ready,
                                void *argument);
/* Waits for other events from now on; 0: only errors and the end of the peer.  */
void wm_loop_change (wm_loop_watch_t *watch, uint32_t events);
/* Before its descriptor is closed. NULL is fine.  */
void wm_loop_unwatch (wm_loop_watch_t **watch_p);

/* Calls `due` once at a time of wm_loop_now_us. The pointer is good until then or until
   wm_loop_untimer.  */
typedef void wm_due_t (void *argument);
wm_timer_t *wm_loop_timer (wm_loop_t *self, int64_t at_us, wm_due_t *due, void *argument);
void wm_loop_untimer (wm_timer_t **timer_p);

/* Calls `due` once, after the callbacks of what is ready now and before the loop waits again.  */
void wm_loop_later (wm_loop_t *self, wm_due_t *due, void *argument);

/* The monotonic clock, as it was when the loop last woke.  */
int64_t wm_loop_now_us (const wm_loop_t *self);

/* Returns after wm_loop_stop: 0, or -1 with errno. May run again.  */
int wm_loop_run (wm_loop_t *self);
void wm_loop_stop (wm_loop_t *self);

#endif
