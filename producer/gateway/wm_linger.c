/* wm_linger.c - a list of connections that are read and dropped.  */
#include "producer/gateway/wm_linger.h"

#include <czmq.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct linger_t {
    wm_lingers_t *all;
    struct linger_t *next, *before;
    int fd;
    wm_watch_t *watch;
    wm_timer_t *timer;
    size_t left; /* bytes */
} linger_t;

struct wm_lingers_t {
    wm_loop_t *loop;
    linger_t *first;
    unsigned n;
    uint8_t dropped[64 << 10];
};

static void end (linger_t *self)
{
    wm_lingers_t *all = self->all;
    wm_loop_unwatch (&self->watch);
    wm_loop_untimer (&self->timer);
    close (self->fd);
    *(self->before ? &self->before->next : &all->first) = self->next;
    if (self->next)
        self->next->before = self->before;
    all->n--;
    free (self);
}

static void on_data (void *argument, uint32_t events)
{
    linger_t *self = argument;
    (void) events;
    const ssize_t n = recv (self->fd, self->all->dropped, sizeof self->all->dropped, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n > 0 && (size_t) n < self->left)
        self->left -= (size_t) n;
    else
        end (self);
}

static void on_due (void *argument)
{
    linger_t *self = argument;
    self->timer = NULL;
    end (self);
}

wm_lingers_t *wm_lingers_new (wm_loop_t *loop)
{
    wm_lingers_t *self = zmalloc (sizeof *self);
    self->loop = loop;
    return self;
}

void wm_lingers_destroy (wm_lingers_t **self_p)
{
    wm_lingers_t *self = *self_p;
    if (!self)
        return;
    while (self->first)
        end (self->first);
    free (self);
    *self_p = NULL;
}

void wm_linger (wm_lingers_t *self, int fd, size_t bytes_max)
{
    const int own = self->n < WM_LINGERS_MAX ? fcntl (fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (own < 0)
        return;
    linger_t *one = zmalloc (sizeof *one);
    *one = (linger_t){ .all = self, .next = self->first, .fd = own, .left = bytes_max };
    if (one->next)
        one->next->before = one;
    self->first = one;
    self->n++;
    one->timer =
        wm_loop_timer (self->loop, wm_loop_now_us (self->loop) + WM_LINGER_US, on_due, one);
    one->watch = wm_loop_watch (self->loop, own, EPOLLIN, on_data, one);
    if (!one->watch)
        end (one);
}
