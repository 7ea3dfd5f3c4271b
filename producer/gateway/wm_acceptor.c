/* wm_acceptor.c - see wm_acceptor.h.  */
#include "producer/gateway/wm_acceptor.h"

#include <czmq.h>
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ACCEPTS_MAX 16 /* before others have their turn */
#define REST_US 100000 /* after accept has failed, or while there is no room */
#define HANDSHAKE_US 250000
#define LOOK_US 5000

struct wm_acceptor_t {
    wm_front_t *front;
    const wm_acceptor_how_t *how;
    int listener;
    wm_loop_watch_t *watch;
    wm_timer_t *rest;
    void *argument;
    wm_acceptor_t **drained; /* is NULL once none is left; NULL: it does not drain */
    int64_t until_us;        /* so long clients may finish to connect */
};

static void accept_again (void *argument)
{
    wm_acceptor_t *self = argument;
    self->rest = NULL;
    wm_loop_change (self->watch, EPOLLIN);
}

/* Accepts nothing for REST_US if all places or descriptors are taken: the kernel queues clients
   until then.  */
static void rest (wm_acceptor_t *self)
{
    wm_loop_change (self->watch, 0);
    self->rest = wm_loop_timer (self->front->loop, wm_loop_now_us (self->front->loop) + REST_US,
                                accept_again, self);
}

static bool has_place (const wm_acceptor_t *self)
{
    return wm_front_has_place (self->front, self->how->kind, self->how->bytes);
}

/* Accepts one. False: with errno. A client whose address may not have it takes no place.  */
static bool accept_one (wm_acceptor_t *self)
{
    char peer[WM_TCP_ADDRESS_BYTES];
    if (!has_place (self) && !self->how->spare (self->argument, false)) {
        errno = EMFILE;
        return false;
    }
    const int fd = wm_io_accept (self->listener, peer);
    if (fd < 0)
        return false;
    const bool may_enter = wm_addresses_admit (self->front->addresses, peer) &&
                           (has_place (self) || self->how->spare (self->argument, true));
    if (may_enter)
        self->how->enter (self->argument, fd, peer);
    else
        close (fd);
    return true;
}

/* Returns 0: there may be more; else errno.  */
static int accept_some (wm_acceptor_t *self)
{
    for (int i = 0; i < ACCEPTS_MAX; i++)
        if (!accept_one (self) && errno != ECONNABORTED && errno != EINTR)
            return errno;
    return 0;
}

static void on_accept (void *argument, uint32_t events)
{
    (void) events;
    wm_acceptor_t *self = argument;
    if (self->drained) /* in this round of the loop: accept_rest does it */
        return;
    const int failed = accept_some (self);
    if (failed && failed != EAGAIN)
        rest (self);
}

wm_acceptor_t *wm_acceptor_new (wm_front_t *front, const wm_acceptor_how_t *how, int listener,
                                void *argument)
{
    wm_acceptor_t *self = zmalloc (sizeof *self);
    *self =
        (wm_acceptor_t){ .front = front, .how = how, .listener = listener, .argument = argument };
    return self;
}

bool wm_acceptor_begin (wm_acceptor_t *self)
{
    if (wm_io_begin (self->listener)) /* epoll would report one that does not listen */
        self->watch = wm_loop_watch (self->front->loop, self->listener, EPOLLIN, on_accept, self);
    return self->watch;
}

static void accept_rest (void *argument)
{
    wm_acceptor_t *self = argument;
    const int64_t now_us = wm_loop_now_us (self->front->loop);
    self->rest = NULL;
    if (accept_some (self) == EAGAIN && now_us >= self->until_us)
        wm_acceptor_destroy (self->drained);
    else
        self->rest = wm_loop_timer (self->front->loop, now_us + LOOK_US, accept_rest, self);
}

void wm_acceptor_drain (wm_acceptor_t **self_p)
{
    wm_acceptor_t *self = *self_p;
    if (!self->watch || self->front->is_inherited[self->how->kind]) {
        wm_acceptor_destroy (self_p);
        return;
    }
    wm_io_drain (self->listener);
    wm_loop_untimer (&self->rest);
    wm_loop_change (self->watch, 0);
    self->drained = self_p;
    self->until_us = wm_loop_now_us (self->front->loop) + HANDSHAKE_US;
    accept_rest (self);
}

void wm_acceptor_destroy (wm_acceptor_t **self_p)
{
    wm_acceptor_t *self = *self_p;
    if (!self)
        return;
    *self_p = NULL;
    wm_loop_untimer (&self->rest);
    wm_loop_unwatch (&self->watch);
    close (self->listener);
    free (self);
}
