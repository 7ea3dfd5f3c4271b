/* wm_idle_signal.c - an eventfd; only its writer reads it.  */
#include "producer/serving/wm_idle_signal.h"

#include <assert.h>
#include <czmq.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct wm_idle_signal_t {
    int fd;
    unsigned n_busy; /* models */
    char path[24];
};

wm_idle_signal_t *wm_idle_signal_new (void)
{
    const int fd = eventfd (1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return NULL;
    wm_idle_signal_t *self = zmalloc (sizeof *self);
    self->fd = fd;
    snprintf (self->path, sizeof self->path, "/dev/fd/%d", fd);
    return self;
}

void wm_idle_signal_destroy (wm_idle_signal_t **self_p)
{
    wm_idle_signal_t *self = *self_p;
    if (!self)
        return;
    close (self->fd);
    free (self);
    *self_p = NULL;
}

void wm_idle_signal_count (wm_idle_signal_t *self, bool is_more)
{
    uint64_t one = 1;
    if (!self)
        return;
    assert (is_more || self->n_busy);
    const bool was_quiet = !self->n_busy;
    self->n_busy += is_more ? 1 : -1u;
    ssize_t n = sizeof one;
    if (was_quiet)
        n = read (self->fd, &one, sizeof one);
    else if (!self->n_busy)
        n = write (self->fd, &one, sizeof one);
    assert (n == sizeof one);
}

const char *wm_idle_signal_path (const wm_idle_signal_t *self)
{
    return self->path;
}
