/* wm_quiet.c - an eventfd, which nobody reads but who wrote it.  */
#include "producer/serving/wm_quiet.h"

#include <assert.h>
#include <czmq.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct wm_quiet_t {
    int fd;
    unsigned n_busy; /* models */
    char path[24];
};

wm_quiet_t *wm_quiet_new (void)
{
    const int fd = eventfd (1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return NULL;
    wm_quiet_t *self = zmalloc (sizeof *self);
    self->fd = fd;
    snprintf (self->path, sizeof self->path, "/dev/fd/%d", fd);
    return self;
}

void wm_quiet_destroy (wm_quiet_t **self_p)
{
    wm_quiet_t *self = *self_p;
    if (!self)
        return;
    close (self->fd);
    free (self);
    *self_p = NULL;
}

void wm_quiet_count (wm_quiet_t *self, bool is_more)
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

const char *wm_quiet_path (const wm_quiet_t *self)
{
    return self->path;
}
