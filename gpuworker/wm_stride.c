/* wm_stride.c - stride scheduling over a handful of lanes of two kinds.

   A lane's descriptor is an epoll set of its signal and of `quiet`, which is armed only while the
   lane waits for nothing else: otherwise the set would stay ready, because a lane that has other
   work does not read it.  */
#include "gpuworker/wm_stride.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Whose batches a lane has. The first goes first where both have spent as much.  */
enum { CLIENTS, BULK, KINDS };

typedef struct {
    unsigned weight;
    double spent; /* seconds computed, divided by the weight */
    double level; /* of a kind: what the last of its lanes had spent when its round began */
} account_t;

typedef struct {
    account_t account;
    unsigned kind;
    bool waits, is_armed;
    int signal, fd; /* fd: the set of both */
    wm_stride_counts_t counts;
} share_t;

struct wm_stride_t {
    pthread_mutex_t lock;
    unsigned n_lane;
    int holder;   /* the lane whose turn it is; -1: none */
    int quiet;    /* can be read while no client of other workers waits; -1: unknown */
    double level; /* what the last holder's kind had spent when its round began */
    account_t kind[KINDS];
    share_t share[];
};

static void control (const share_t *share, int what, int fd, uint32_t events)
{
    struct epoll_event event = { .events = events };
    const int rc = epoll_ctl (share->fd, what, fd, &event);
    assert (rc == 0);
}

wm_stride_t *wm_stride_new (unsigned n_lane, const unsigned *weight, unsigned bulk_percent)
{
    wm_stride_t *self = calloc (1, sizeof *self + n_lane * sizeof *self->share);
    assert (self && bulk_percent <= WM_STRIDE_BULK_PERCENT_MAX);
    pthread_mutex_init (&self->lock, NULL);
    self->n_lane = n_lane;
    self->holder = self->quiet = -1;
    self->kind[CLIENTS].weight = 100 - bulk_percent;
    self->kind[BULK].weight = bulk_percent;
    for (unsigned i = 0; i < n_lane; i++) {
        assert (weight[i]);
        self->share[i].account.weight = weight[i];
        self->share[i].kind = BULK;
        self->share[i].signal = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
        self->share[i].fd = epoll_create1 (EPOLL_CLOEXEC);
        assert (self->share[i].signal >= 0 && self->share[i].fd >= 0);
        control (&self->share[i], EPOLL_CTL_ADD, self->share[i].signal, EPOLLIN);
    }
    return self;
}

void wm_stride_await (wm_stride_t *self, int quiet)
{
    self->quiet = quiet;
    for (unsigned i = 0; i < self->n_lane; i++)
        control (&self->share[i], EPOLL_CTL_ADD, quiet, 0);
}

void wm_stride_destroy (wm_stride_t **self_p)
{
    wm_stride_t *self = *self_p;
    if (!self)
        return;
    for (unsigned i = 0; i < self->n_lane; i++) {
        close (self->share[i].signal);
        close (self->share[i].fd);
    }
    pthread_mutex_destroy (&self->lock);
    free (self);
    *self_p = NULL;
}

void wm_stride_serves_clients (wm_stride_t *self, unsigned lane)
{
    pthread_mutex_lock (&self->lock);
    self->share[lane].kind = CLIENTS;
    pthread_mutex_unlock (&self->lock);
}

int wm_stride_fd (const wm_stride_t *self, unsigned lane)
{
    return self->share[lane].fd;
}

static bool kind_waits (const wm_stride_t *self, unsigned kind)
{
    for (unsigned i = 0; i < self->n_lane; i++)
        if (self->share[i].waits && self->share[i].kind == kind)
            return true;
    return false;
}

/* Whether clients of other workers wait.  */
static bool others_wait (const wm_stride_t *self)
{
    struct pollfd item = { .fd = self->quiet, .events = POLLIN };
    return self->quiet >= 0 && poll (&item, 1, 0) == 0;
}

/* Returns which kind is next. KINDS: none that may.  */
static unsigned next_kind (const wm_stride_t *self)
{
    const account_t *clients = &self->kind[CLIENTS], *bulk = &self->kind[BULK];
    const unsigned otherwise = kind_waits (self, CLIENTS) ? CLIENTS : KINDS;
    if (!kind_waits (self, BULK))
        return otherwise;
    if (otherwise == KINDS && !others_wait (self))
        return BULK;
    return bulk->weight && bulk->spent < clients->spent ? BULK : otherwise;
}

static void arm (const wm_stride_t *self, share_t *share, bool arms)
{
    if (arms == share->is_armed)
        return;
    share->is_armed = arms;
    control (share, EPOLL_CTL_MOD, self->quiet, arms ? EPOLLIN : 0);
}

/* Gives a free machine to the lane that is next, and signals it, unless it is the caller, who sees
   it in the answer. Where it is kept for clients elsewhere, lanes that wait learn of their end.  */
static void start_round (wm_stride_t *self, int caller)
{
    if (self->holder >= 0)
        return;
    const unsigned kind = next_kind (self);
    share_t *next = NULL;
    for (unsigned i = 0; i < self->n_lane; i++) {
        share_t *one = &self->share[i];
        arm (self, one, kind == KINDS && one->waits);
        if (one->waits && one->kind == kind && (!next || one->account.spent < next->account.spent))
            next = one;
    }
    if (!next)
        return;
    next->waits = false;
    next->counts.n_round++;
    for (unsigned i = 0; i < self->n_lane; i++)
        self->share[i].counts.n_behind += self->share[i].waits;
    self->holder = (int) (next - self->share);
    self->level = self->kind[kind].spent;
    self->kind[kind].level = next->account.spent;
    if (self->holder != caller) {
        const uint64_t one = 1;
        ssize_t n = write (next->signal, &one, sizeof one);
        assert (n == sizeof one);
    }
}

static void clear_signal (const wm_stride_t *self, share_t *share)
{
    uint64_t count;
    while (read (share->signal, &count, sizeof count) > 0)
        ;
    arm (self, share, false);
}

static void raise_to (double *spent, double level)
{
    *spent = *spent < level ? level : *spent;
}

static void wait_for_round (wm_stride_t *self, unsigned lane)
{
    share_t *share = &self->share[lane];
    account_t *kind = &self->kind[share->kind];
    if (!kind_waits (self, share->kind))
        raise_to (&kind->spent, self->level);
    raise_to (&share->account.spent, kind->level);
    share->waits = true;
    start_round (self, (int) lane);
}

bool wm_stride_request (wm_stride_t *self, unsigned lane)
{
    share_t *share = &self->share[lane];
    pthread_mutex_lock (&self->lock);
    clear_signal (self, share);
    if (share->waits)
        start_round (self, (int) lane);
    else if (self->holder != (int) lane)
        wait_for_round (self, lane);
    const bool holds = self->holder == (int) lane;
    pthread_mutex_unlock (&self->lock);
    return holds;
}

bool wm_stride_is_urgent (wm_stride_t *self, unsigned lane)
{
    pthread_mutex_lock (&self->lock);
    const bool is_urgent =
        self->share[lane].kind == BULK && (kind_waits (self, CLIENTS) || others_wait (self));
    pthread_mutex_unlock (&self->lock);
    return is_urgent;
}

void wm_stride_release (wm_stride_t *self, unsigned lane, double seconds, bool has_more)
{
    share_t *share = &self->share[lane];
    account_t *kind = &self->kind[share->kind];
    pthread_mutex_lock (&self->lock);
    clear_signal (self, share);
    if (self->holder == (int) lane) {
        share->account.spent += seconds / share->account.weight;
        kind->spent += kind->weight ? seconds / kind->weight : 0;
        self->holder = -1;
        if (has_more)
            wait_for_round (self, lane);
        else
            start_round (self, -1);
    } else if (!has_more)
        share->waits = false;
    pthread_mutex_unlock (&self->lock);
}

wm_stride_counts_t wm_stride_counts (wm_stride_t *self, unsigned lane)
{
    pthread_mutex_lock (&self->lock);
    const wm_stride_counts_t counts = self->share[lane].counts;
    pthread_mutex_unlock (&self->lock);
    return counts;
}
