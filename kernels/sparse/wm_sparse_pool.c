/* wm_sparse_pool.c - the engine's threads: a set of tasks, taken one by one until none is left.

   Between two sets a thread polls for work for a short while before it sleeps, because the phases
   of a batch follow each other in microseconds.  */
#include "kernels/sparse/wm_sparse.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LOOKS 200 /* yields before sleep: tens of microseconds */

struct wm_sparse_pool_t {
    uint32_t threads, started;
    bool pin, has_caller;
    pthread_t caller; /* pinned already */
    cpu_set_t cpus;
    pthread_t *thread;
    pthread_mutex_t lock;
    pthread_cond_t wake, idle;

    wm_sparse_task_fn *task_fn;
    void *arg;
    uint32_t n_task;
    _Atomic uint32_t next;
    _Atomic uint64_t round; /* raised when a set of tasks is ready */
    _Atomic uint32_t busy;  /* threads still in this round */
    bool stop;
};

typedef struct {
    wm_sparse_pool_t *pool;
    uint32_t thread;
} place_t;

static void work (wm_sparse_pool_t *self, uint32_t thread)
{
    uint32_t task;
    while ((task = atomic_fetch_add (&self->next, 1)) < self->n_task)
        self->task_fn (self->arg, task, thread);
}

/* Keeps the calling thread on one CPU; where that is refused, it runs anywhere.  */
static void stay (const wm_sparse_pool_t *self, uint32_t thread)
{
    uint32_t left = thread % (uint32_t) CPU_COUNT (&self->cpus);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET (cpu, &self->cpus) && left-- == 0) {
            cpu_set_t one;
            CPU_ZERO (&one);
            CPU_SET (cpu, &one);
            sched_setaffinity (0, sizeof one, &one);
        }
}

static void *worker (void *arg)
{
    place_t place = *(place_t *) arg;
    wm_sparse_pool_t *self = place.pool;
    uint64_t seen = 0;
    free (arg);
    if (self->pin)
        stay (self, place.thread);
    for (;;) {
        for (int i = 0; i < LOOKS && atomic_load (&self->round) == seen; i++)
            sched_yield ();
        pthread_mutex_lock (&self->lock);
        while (atomic_load (&self->round) == seen && !self->stop)
            pthread_cond_wait (&self->wake, &self->lock);
        bool stop = self->stop;
        seen = atomic_load (&self->round);
        pthread_mutex_unlock (&self->lock);
        if (stop)
            return NULL;
        work (self, place.thread);
        pthread_mutex_lock (&self->lock);
        if (atomic_fetch_sub (&self->busy, 1) == 1)
            pthread_cond_signal (&self->idle);
        pthread_mutex_unlock (&self->lock);
    }
}

static bool start (wm_sparse_pool_t *self)
{
    place_t *place = malloc (sizeof *place);
    if (!place)
        return false;
    *place = (place_t){ self, self->started + 1 };
    if (pthread_create (&self->thread[self->started], NULL, worker, place)) {
        free (place);
        return false;
    }
    self->started++;
    return true;
}

wm_sparse_pool_t *wm_sparse_pool_new (uint32_t threads, bool pin)
{
    wm_sparse_pool_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->threads = threads;
    self->pin = pin && sched_getaffinity (0, sizeof self->cpus, &self->cpus) == 0;
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->wake, NULL);
    pthread_cond_init (&self->idle, NULL);
    self->thread = calloc (threads, sizeof *self->thread);
    while (self->thread && self->started + 1 < threads && start (self))
        ;
    if (self->started + 1 < threads)
        wm_sparse_pool_destroy (&self);
    return self;
}

void wm_sparse_pool_destroy (wm_sparse_pool_t **self_p)
{
    wm_sparse_pool_t *self = *self_p;
    if (!self)
        return;
    pthread_mutex_lock (&self->lock);
    self->stop = true;
    pthread_cond_broadcast (&self->wake);
    pthread_mutex_unlock (&self->lock);
    for (uint32_t i = 0; i < self->started; i++)
        pthread_join (self->thread[i], NULL);
    pthread_cond_destroy (&self->idle);
    pthread_cond_destroy (&self->wake);
    pthread_mutex_destroy (&self->lock);
    free (self->thread);
    free (self);
    *self_p = NULL;
}

void wm_sparse_pool_run (wm_sparse_pool_t *self, wm_sparse_task_fn *task_fn, void *arg,
                         uint32_t n_task)
{
    if (self->pin && !(self->has_caller && pthread_equal (self->caller, pthread_self ()))) {
        self->caller = pthread_self (), self->has_caller = true;
        stay (self, 0);
    }
    if (self->started == 0 || n_task < 2) {
        for (uint32_t task = 0; task < n_task; task++)
            task_fn (arg, task, 0);
        return;
    }
    pthread_mutex_lock (&self->lock);
    self->task_fn = task_fn, self->arg = arg, self->n_task = n_task;
    atomic_store (&self->next, 0);
    atomic_store (&self->busy, self->started);
    atomic_fetch_add (&self->round, 1);
    pthread_cond_broadcast (&self->wake);
    pthread_mutex_unlock (&self->lock);

    work (self, 0);

    for (int i = 0; i < LOOKS && atomic_load (&self->busy); i++)
        sched_yield ();
    pthread_mutex_lock (&self->lock);
    while (atomic_load (&self->busy))
        pthread_cond_wait (&self->idle, &self->lock);
    pthread_mutex_unlock (&self->lock);
}
