/* wm_scorer.c - the engine thread: a czmq actor that is sent pointers to jobs.  */
#include "gpuworker/wm_scorer.h"

#include <assert.h>
#include <signal.h>

struct wm_scorer_t {
    wm_device_t *device;
    zactor_t *actor;
    int busy;
    _Atomic int handed; /* orders the job's fields in the C11 model too: libzmq's own ordering is
                           invisible to a thread sanitizer */
};

static void engine_thread (zsock_t *pipe, void *argument)
{
    wm_scorer_t *self = argument;
    zsock_signal (pipe, 0);
    for (;;) {
        wm_job_t *job = NULL; /* stays NULL for the actor's $TERM, which is no pointer */
        if (zsock_recv (pipe, "p", &job) || !job)
            break;
        (void) self->handed;
        int64_t start = zclock_usecs ();
        job->fault = job->batch ? wm_device_score (self->device, job->batch, job->status,
                                                   job->scores, &job->error)
                                : wm_device_self_test (self->device, &job->error);
        job->seconds = (double) (zclock_usecs () - start) * 1e-6;
        self->handed = 0;
        zsock_send (pipe, "p", job);
    }
}

wm_scorer_t *wm_scorer_new (wm_device_t *device)
{
    wm_scorer_t *self = calloc (1, sizeof *self);
    assert (self);
    self->device = device;
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_BLOCK, &all, &before); /* inherited by the new thread */
    self->actor = zactor_new (engine_thread, self);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    assert (self->actor);
    return self;
}

void wm_scorer_destroy (wm_scorer_t **self_p)
{
    wm_scorer_t *self = *self_p;
    if (!self)
        return;
    if (self->busy)
        wm_scorer_take (self);
    zactor_destroy (&self->actor);
    free (self);
    *self_p = NULL;
}

void wm_scorer_start (wm_scorer_t *self, wm_job_t *job)
{
    assert (!self->busy);
    self->busy = 1;
    self->handed = 1;
    zsock_send (self->actor, "p", job);
}

int wm_scorer_is_busy (const wm_scorer_t *self)
{
    return self->busy;
}

wm_job_t *wm_scorer_take (wm_scorer_t *self)
{
    wm_job_t *job = NULL;
    while (zsock_recv (self->actor, "p", &job) && errno == EINTR)
        ;
    (void) self->handed;
    self->busy = 0;
    return job;
}

zsock_t *wm_scorer_sock (wm_scorer_t *self)
{
    return zactor_sock (self->actor);
}
