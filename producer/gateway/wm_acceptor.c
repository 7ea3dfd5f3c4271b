/* wm_acceptor.c - see wm_acceptor.h.  */
#include "producer/gateway/wm_acceptor.h"

#include <czmq.h>
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ACCEPTS_MAX 16 /* before others have their turn */
#define REST_US 100000 /* after accept has failed, or while there is no room */

struct wm_acceptor_t {
    wm_front_t *front;
    wm_front_kind_t kind;
    int listener;
    wm_watch_t *watch;
    wm_timer_t *rest;
    wm_accepted_t *enter;
    void *argument;
};

static void accept_again (void *argument)
{
    wm_acceptor_t *self = argument;
    self->rest = NULL;
    wm_loop_change (self->watch, EPOLLIN);
}

/* Waits a little where no connection can be taken: the kernel keeps those that come.  */
static void rest (wm_acceptor_t *self)
{
    wm_loop_change (self->watch, 0);
    self->rest = wm_loop_timer (self->front->loop, wm_loop_now_us (self->front->loop) + REST_US,
                                accept_again, self);
}

static void on_accept (void *argument, uint32_t events)
{
    (void) events;
    wm_acceptor_t *self = argument;
    char peer[WM_ADDRESS_BYTES];
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        const bool has_room = self->front->connections[self->kind] < self->front->connections_max;
        const int fd = has_room ? wm_io_accept (self->listener, peer) : (errno = EMFILE, -1);
        if (fd >= 0 && wm_addresses_admit (self->front->addresses, peer))
            self->enter (self->argument, fd, peer);
        else if (fd >= 0)
            close (fd);
        else if (errno == EAGAIN)
            return;
        else if (errno != ECONNABORTED && errno != EINTR) {
            rest (self);
            return;
        }
    }
}

wm_acceptor_t *wm_acceptor_new (wm_front_t *front, wm_front_kind_t kind, int listener,
                                wm_accepted_t *enter, void *argument)
{
    wm_acceptor_t *self = zmalloc (sizeof *self);
    *self = (wm_acceptor_t){ front, kind, listener, NULL, NULL, enter, argument };
    self->watch = wm_loop_watch (front->loop, listener, EPOLLIN, on_accept, self);
    if (!self->watch) {
        const int failed = errno;
        wm_acceptor_destroy (&self);
        errno = failed;
    }
    return self;
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
