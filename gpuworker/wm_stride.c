/* wm_stride.c - stride scheduling over a handful of seats.  */
#include "gpuworker/wm_stride.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

typedef struct {
    unsigned weight;
    int wants, fd;
    double spent; /* seconds computed, divided by the weight */
} seat_t;

struct wm_stride_t {
    pthread_mutex_t lock;
    unsigned n_seat;
    int holder;   /* -1: nobody */
    double level; /* what the last holder had spent when its turn began */
    seat_t seat[];
};

wm_stride_t *wm_stride_new (unsigned n_seat, const unsigned *weight)
{
    wm_stride_t *self = calloc (1, sizeof *self + n_seat * sizeof *self->seat);
    assert (self);
    pthread_mutex_init (&self->lock, NULL);
    self->n_seat = n_seat;
    self->holder = -1;
    for (unsigned i = 0; i < n_seat; i++) {
        assert (weight[i]);
        self->seat[i].weight = weight[i];
        self->seat[i].fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
        assert (self->seat[i].fd >= 0);
    }
    return self;
}

void wm_stride_destroy (wm_stride_t **self_p)
{
    wm_stride_t *self = *self_p;
    if (!self)
        return;
    for (unsigned i = 0; i < self->n_seat; i++)
        close (self->seat[i].fd);
    pthread_mutex_destroy (&self->lock);
    free (self);
    *self_p = NULL;
}

int wm_stride_fd (const wm_stride_t *self, unsigned seat)
{
    return self->seat[seat].fd;
}

/* Gives a free turn to whoever has had least; `asker` knows without being told.  */
static void pass_on (wm_stride_t *self, int asker)
{
    if (self->holder >= 0)
        return;
    seat_t *next = NULL;
    for (unsigned i = 0; i < self->n_seat; i++)
        if (self->seat[i].wants && (!next || self->seat[i].spent < next->spent))
            next = &self->seat[i];
    if (!next)
        return;
    next->wants = 0;
    self->holder = (int) (next - self->seat);
    self->level = next->spent;
    if (self->holder != asker) {
        const uint64_t one = 1;
        ssize_t n = write (next->fd, &one, sizeof one);
        assert (n == sizeof one);
    }
}

/* What was told has been heard, if anything was.  */
static void heard (const seat_t *at)
{
    uint64_t count;
    while (read (at->fd, &count, sizeof count) > 0)
        ;
}

int wm_stride_ask (wm_stride_t *self, unsigned seat)
{
    seat_t *at = &self->seat[seat];
    pthread_mutex_lock (&self->lock);
    heard (at);
    if (self->holder != (int) seat && !at->wants) {
        at->wants = 1;
        if (at->spent < self->level)
            at->spent = self->level;
        pass_on (self, (int) seat);
    }
    const int mine = self->holder == (int) seat;
    pthread_mutex_unlock (&self->lock);
    return mine;
}

void wm_stride_done (wm_stride_t *self, unsigned seat, double seconds)
{
    pthread_mutex_lock (&self->lock);
    self->seat[seat].wants = 0;
    heard (&self->seat[seat]);
    if (self->holder == (int) seat) {
        self->seat[seat].spent += seconds / self->seat[seat].weight;
        self->holder = -1;
        pass_on (self, -1);
    }
    pthread_mutex_unlock (&self->lock);
}
