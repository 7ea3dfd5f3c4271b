/* wm_stride.c - stride scheduling over a handful of lanes.  */
#include "gpuworker/wm_stride.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct {
    unsigned weight;
    bool waits;
    int fd;
    double spent; /* seconds computed, divided by the weight */
} share_t;

struct wm_stride_t {
    pthread_mutex_t lock;
    unsigned n_lane;
    int holder;   /* -1: nobody */
    double level; /* what the last holder had spent when its round began */
    share_t share[];
};

wm_stride_t *wm_stride_new (unsigned n_lane, const unsigned *weight)
{
    wm_stride_t *self = calloc (1, sizeof *self + n_lane * sizeof *self->share);
    assert (self);
    pthread_mutex_init (&self->lock, NULL);
    self->n_lane = n_lane;
    self->holder = -1;
    for (unsigned i = 0; i < n_lane; i++) {
        assert (weight[i]);
        self->share[i].weight = weight[i];
        self->share[i].fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
        assert (self->share[i].fd >= 0);
    }
    return self;
}

void wm_stride_destroy (wm_stride_t **self_p)
{
    wm_stride_t *self = *self_p;
    if (!self)
        return;
    for (unsigned i = 0; i < self->n_lane; i++)
        close (self->share[i].fd);
    pthread_mutex_destroy (&self->lock);
    free (self);
    *self_p = NULL;
}

int wm_stride_fd (const wm_stride_t *self, unsigned lane)
{
    return self->share[lane].fd;
}

/* Gives a free machine to the waiting lane that has spent least, and signals it, unless it is the
   caller, who sees it in the answer.  */
static void start_round (wm_stride_t *self, int caller)
{
    if (self->holder >= 0)
        return;
    share_t *next = NULL;
    for (unsigned i = 0; i < self->n_lane; i++)
        if (self->share[i].waits && (!next || self->share[i].spent < next->spent))
            next = &self->share[i];
    if (!next)
        return;
    next->waits = false;
    self->holder = (int) (next - self->share);
    self->level = next->spent;
    if (self->holder != caller) {
        const uint64_t one = 1;
        ssize_t n = write (next->fd, &one, sizeof one);
        assert (n == sizeof one);
    }
}

static void clear_signal (const share_t *share)
{
    uint64_t count;
    while (read (share->fd, &count, sizeof count) > 0)
        ;
}

bool wm_stride_request (wm_stride_t *self, unsigned lane)
{
    share_t *share = &self->share[lane];
    pthread_mutex_lock (&self->lock);
    clear_signal (share);
    if (self->holder != (int) lane && !share->waits) {
        share->waits = true;
        if (share->spent < self->level)
            share->spent = self->level;
        start_round (self, (int) lane);
    }
    const bool holds = self->holder == (int) lane;
    pthread_mutex_unlock (&self->lock);
    return holds;
}

void wm_stride_release (wm_stride_t *self, unsigned lane, double seconds)
{
    pthread_mutex_lock (&self->lock);
    self->share[lane].waits = false;
    clear_signal (&self->share[lane]);
    if (self->holder == (int) lane) {
        self->share[lane].spent += seconds / self->share[lane].weight;
        self->holder = -1;
        start_round (self, -1);
    }
    pthread_mutex_unlock (&self->lock);
}
