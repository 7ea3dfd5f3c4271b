/* wm_loop.c - epoll, a heap (wm_heap.h) of timers, and a list of what comes later.

   A watch that is removed while its event may still lie in the array of this round is only marked;
   the end of the round frees it.  */
#include "producer/net/wm_loop.h"
#include "producer/net/wm_heap.h"
#include "schema/base/wm_grow.h"

#include <assert.h>
#include <czmq.h>
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define EVENTS_MAX 64

struct wm_loop_watch_t {
    wm_loop_t *loop;
    int fd;
    uint32_t events;
    wm_ready_t *ready; /* NULL: removed */
    void *argument;
    wm_loop_watch_t *next; /* among the removed */
};

struct wm_timer_t {
    wm_heap_item_t item; /* first: its first key is the time */
    wm_loop_t *loop;
    wm_due_t *due;
    void *argument;
};

typedef struct {
    wm_due_t *due;
    void *argument;
} later_t;

struct wm_loop_t {
    int epoll;
    bool stops;
    int64_t now_us;
    wm_loop_watch_t *removed;
    wm_heap_t timers;
    later_t *later;
    size_t n_later, later_max;
};

static int64_t clock_us (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

wm_loop_t *wm_loop_new (void)
{
    const int epoll = epoll_create1 (EPOLL_CLOEXEC);
    if (epoll < 0)
        return NULL;
    wm_loop_t *self = zmalloc (sizeof *self);
    self->epoll = epoll;
    self->now_us = clock_us ();
    return self;
}

static void free_removed (wm_loop_t *self)
{
    while (self->removed) {
        wm_loop_watch_t *watch = self->removed;
        self->removed = watch->next;
        free (watch);
    }
}

/* ---- descriptors ----------------------------------------------------------------------------- */

wm_loop_watch_t *wm_loop_watch (wm_loop_t *self, int fd, uint32_t events, wm_ready_t *ready,
                                void *argument)
{
    wm_loop_watch_t *watch = zmalloc (sizeof *watch);
    *watch = (wm_loop_watch_t){ self, fd, events, ready, argument, NULL };
    struct epoll_event event = { .events = events, .data.ptr = watch };
    if (epoll_ctl (self->epoll, EPOLL_CTL_ADD, fd, &event) == 0)
        return watch;
    free (watch);
    return NULL;
}

void wm_loop_change (wm_loop_watch_t *watch, uint32_t events)
{
    if (watch->events == events)
        return;
    struct epoll_event event = { .events = events, .data.ptr = watch };
    const int rc = epoll_ctl (watch->loop->epoll, EPOLL_CTL_MOD, watch->fd, &event);
    assert (rc == 0);
    watch->events = events;
}

void wm_loop_unwatch (wm_loop_watch_t **watch_p)
{
    wm_loop_watch_t *watch = *watch_p;
    if (!watch)
        return;
    *watch_p = NULL;
    epoll_ctl (watch->loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    watch->ready = NULL;
    watch->next = watch->loop->removed;
    watch->loop->removed = watch;
}

/* ---- timers ---------------------------------------------------------------------------------- */

wm_timer_t *wm_loop_timer (wm_loop_t *self, int64_t at_us, wm_due_t *due, void *argument)
{
    wm_timer_t *timer = zmalloc (sizeof *timer);
    *timer = (wm_timer_t){ .loop = self, .due = due, .argument = argument };
    timer->item.key[0] = at_us > 0 ? (uint64_t) at_us : 0;
    wm_heap_add (&self->timers, &timer->item);
    return timer;
}

void wm_loop_untimer (wm_timer_t **timer_p)
{
    wm_timer_t *timer = *timer_p;
    if (!timer)
        return;
    *timer_p = NULL;
    wm_heap_remove (&timer->loop->timers, &timer->item);
    free (timer);
}

/* The time of the earliest timer; INT64_MAX: no timer runs.  */
static int64_t first_us (const wm_loop_t *self)
{
    const wm_heap_item_t *first = wm_heap_first (&self->timers);
    return first ? (int64_t) first->key[0] : INT64_MAX;
}

static void call_due (wm_loop_t *self)
{
    while (first_us (self) <= self->now_us) {
        wm_timer_t *timer = (wm_timer_t *) wm_heap_first (&self->timers);
        wm_due_t *due = timer->due;
        void *argument = timer->argument;
        wm_loop_untimer (&timer);
        due (argument);
    }
}

/* ---- later ----------------------------------------------------------------------------------- */

void wm_loop_later (wm_loop_t *self, wm_due_t *due, void *argument)
{
    wm_must_grow (&self->later, &self->later_max, self->n_later + 1, sizeof *self->later);
    self->later[self->n_later++] = (later_t){ due, argument };
}

/* What these callbacks put off comes in the same round too.  */
static void call_later (wm_loop_t *self)
{
    for (size_t i = 0; i < self->n_later; i++) {
        const later_t later = self->later[i];
        later.due (later.argument);
    }
    self->n_later = 0;
}

/* ---- the loop -------------------------------------------------------------------------------- */

int64_t wm_loop_now_us (const wm_loop_t *self)
{
    return self->now_us;
}

/* Waits for events until the first timer is due: epoll's own timeout knows no microseconds.  */
static int wait_for (wm_loop_t *self, struct epoll_event *event)
{
    const int n = epoll_wait (self->epoll, event, EVENTS_MAX, 0);
    if (n)
        return n;
    struct pollfd all = { .fd = self->epoll, .events = POLLIN };
    const bool is_timed = self->timers.n;
    int64_t left_us = is_timed ? first_us (self) - clock_us () : 0;
    left_us = left_us > 0 ? left_us : 0;
    const struct timespec left = { left_us / 1000000, left_us % 1000000 * 1000 };
    if (ppoll (&all, 1, is_timed ? &left : NULL, NULL) <= 0)
        return errno == EINTR || errno == 0 ? 0 : -1;
    return epoll_wait (self->epoll, event, EVENTS_MAX, 0);
}

int wm_loop_run (wm_loop_t *self)
{
    struct epoll_event event[EVENTS_MAX];
    call_later (self);
    while (!self->stops) {
        errno = 0;
        const int n = wait_for (self, event);
        if (n < 0 && errno != EINTR)
            return -1;
        self->now_us = clock_us ();
        for (int i = 0; i < n; i++) {
            wm_loop_watch_t *watch = event[i].data.ptr;
            if (watch->ready)
                watch->ready (watch->argument, event[i].events);
        }
        call_due (self);
        call_later (self);
        free_removed (self);
    }
    self->stops = false;
    return 0;
}

void wm_loop_stop (wm_loop_t *self)
{
    self->stops = true;
}

void wm_loop_destroy (wm_loop_t **self_p)
{
    wm_loop_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    call_later (self);
    free_removed (self);
    for (size_t i = 0; i < self->timers.n; i++)
        free (self->timers.item[i]);
    free (self->timers.item);
    free (self->later);
    close (self->epoll);
    free (self);
}
