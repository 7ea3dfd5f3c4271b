/* wm_sparse_pool.c - the engine's threads: sets of tasks, taken one by one until none is left.

   A set that another thread than the pool's runs is a job: one of the pool's threads takes it, and
   what that thread runs in turn are the phases of the job. Threads that are free take a new job
   first, then tasks of the oldest set; a thread whose phase is still busy elsewhere takes tasks of
   other jobs' phases meanwhile. With two jobs in hand, one's serial parts and last tasks therefore
   pass beside the other's.

   Before a thread sleeps it polls for a short while, because the phases of a batch follow each
   other in microseconds.

   A pool of no threads runs every task in the thread that calls, and takes no lock.  */
#include "kernels/sparse/wm_sparse.h"
#include "schema/wm_limits.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LOOKS 200 /* yields before sleep: tens of microseconds */

typedef struct set_t {
    struct set_t *next; /* a younger one */
    wm_sparse_task_fn *task_fn;
    void *arg;
    uint32_t n_task, taken, done;
    bool is_job;
} set_t;

struct wm_sparse_pool_t {
    uint32_t threads, started;
    bool pin, stop;
    cpu_set_t cpus;
    pthread_t *thread;
    pthread_mutex_t lock;
    pthread_cond_t change, job_done;
    _Atomic uint64_t changes; /* new sets, and sets that are done */
    set_t *oldest;
    uint32_t n_waiting, n_job;
    double since_s; /* when one of these two last changed */
    wm_device_busy_t busy;
};

typedef struct {
    wm_sparse_pool_t *pool;
    uint32_t thread;
} place_t;

static _Thread_local place_t here; /* of a pool's thread */

/* ---- with the lock held ---------------------------------------------------------------------- */

/* Adds the time since the last call to the pool's; before threads or jobs change.  */
static void count_time (wm_sparse_pool_t *self)
{
    const double now_s = wm_now_s (), passed_s = now_s - self->since_s;
    if (self->n_job > 0) {
        self->busy.busy_s += passed_s * (self->threads - self->n_waiting);
        self->busy.idle_s += passed_s * self->n_waiting;
    }
    self->since_s = now_s;
}

static void changed (wm_sparse_pool_t *self)
{
    atomic_fetch_add (&self->changes, 1);
    pthread_cond_broadcast (&self->change);
}

/* Waits until a set comes or is done.  */
static void wait_for_change (wm_sparse_pool_t *self)
{
    const uint64_t seen = atomic_load (&self->changes);
    count_time (self);
    self->n_waiting++;
    pthread_mutex_unlock (&self->lock);
    for (int i = 0; i < LOOKS && atomic_load (&self->changes) == seen; i++)
        sched_yield ();
    pthread_mutex_lock (&self->lock);
    while (atomic_load (&self->changes) == seen)
        pthread_cond_wait (&self->change, &self->lock);
    count_time (self);
    self->n_waiting--;
}

/* The oldest set that has a task left; a job, if there is one and `job` allows it.  */
static set_t *find_set (const wm_sparse_pool_t *self, bool job)
{
    set_t *found = NULL;
    for (set_t *set = self->oldest; set; set = set->next)
        if (set->taken < set->n_task && (set->is_job ? job && !(found && found->is_job) : !found))
            found = set;
    return found;
}

static void run_task (wm_sparse_pool_t *self, set_t *set)
{
    const uint32_t task = set->taken++;
    pthread_mutex_unlock (&self->lock);
    set->task_fn (set->arg, task, here.thread);
    pthread_mutex_lock (&self->lock);
    if (++set->done < set->n_task)
        return;
    if (set->is_job)
        pthread_cond_broadcast (&self->job_done);
    else
        changed (self);
}

/* ---- threads --------------------------------------------------------------------------------- */

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
    here = *(place_t *) arg;
    wm_sparse_pool_t *self = here.pool;
    free (arg);
    if (self->pin)
        stay (self, here.thread);
    pthread_mutex_lock (&self->lock);
    while (!self->stop) {
        set_t *set = find_set (self, true);
        if (set)
            run_task (self, set);
        else
            wait_for_change (self);
    }
    pthread_mutex_unlock (&self->lock);
    return NULL;
}

static bool start (wm_sparse_pool_t *self)
{
    place_t *place = malloc (sizeof *place);
    if (!place)
        return false;
    *place = (place_t){ self, self->started };
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
    pthread_cond_init (&self->change, NULL);
    pthread_cond_init (&self->job_done, NULL);
    self->thread = threads ? calloc (threads, sizeof *self->thread) : NULL;
    while (self->thread && self->started < threads && start (self))
        ;
    if (self->started < threads)
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
    changed (self);
    pthread_mutex_unlock (&self->lock);
    for (uint32_t i = 0; i < self->started; i++)
        pthread_join (self->thread[i], NULL);
    pthread_cond_destroy (&self->job_done);
    pthread_cond_destroy (&self->change);
    pthread_mutex_destroy (&self->lock);
    free (self->thread);
    free (self);
    *self_p = NULL;
}

void wm_sparse_pool_run (wm_sparse_pool_t *self, wm_sparse_task_fn *task_fn, void *arg,
                         uint32_t n_task)
{
    const bool is_job = self->threads > 0 && here.pool != self;
    if (self->threads == 0 || (!is_job && (self->threads == 1 || n_task < 2))) {
        for (uint32_t task = 0; task < n_task; task++)
            task_fn (arg, task, self->threads ? here.thread : 0);
        return;
    }
    set_t mine = { .task_fn = task_fn, .arg = arg, .n_task = n_task, .is_job = is_job };
    set_t **place = &self->oldest;
    pthread_mutex_lock (&self->lock);
    while (*place)
        place = &(*place)->next;
    *place = &mine;
    count_time (self);
    self->n_job += is_job;
    changed (self);
    while (mine.done < n_task) {
        set_t *set = is_job ? NULL : mine.taken < n_task ? &mine : find_set (self, false);
        if (set)
            run_task (self, set);
        else if (is_job)
            pthread_cond_wait (&self->job_done, &self->lock);
        else
            wait_for_change (self);
    }
    count_time (self);
    self->n_job -= is_job;
    for (place = &self->oldest; *place != &mine; place = &(*place)->next)
        ;
    *place = mine.next;
    pthread_mutex_unlock (&self->lock);
}

wm_device_busy_t wm_sparse_pool_busy (wm_sparse_pool_t *self)
{
    pthread_mutex_lock (&self->lock);
    count_time (self);
    const wm_device_busy_t busy = self->busy;
    pthread_mutex_unlock (&self->lock);
    return busy;
}
