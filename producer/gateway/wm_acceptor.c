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
    const wm_acceptor_how_t *how;
    int listener;
    wm_watch_t *watch;
    wm_timer_t *rest;
    void *argument;
};

static void accept_again (void *argument)
{
    wm_acceptor_t *self = argument;
    self->rest = NULL;
    wm_loop_change (self->watch, EPOLLIN);
}

/* Waits a little where no connection can be taken, for want of places or of descriptors: the kernel
   keeps those that come.  */
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
    char peer[WM_ADDRESS_BYTES];
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

static void on_accept (void *argument, uint32_t events)
{
    (void) events;
    wm_acceptor_t *self = argument;
    for (int i = 0; i < ACCEPTS_MAX; i++)
        if (!accept_one (self) && errno != ECONNABORTED && errno != EINTR) {
            if (errno != EAGAIN)
                rest (self);
            return;
        }
}

wm_acceptor_t *wm_acceptor_new (wm_front_t *front, const wm_acceptor_how_t *how, int listener,
                                void *argument)
{
    wm_acceptor_t *self = zmalloc (sizeof *self);
    *self = (wm_acceptor_t){ front, how, listener, NULL, NULL, argument };
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
