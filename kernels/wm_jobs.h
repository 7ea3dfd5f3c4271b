/* wm_jobs.h - a queue of jobs, linked through the jobs themselves. Private to kernels/.  */
#ifndef WM_JOBS_H
#define WM_JOBS_H

#include "kernels/wm_device.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct {
    wm_job_t *first, *last;
} wm_jobs_t;

static inline void wm_jobs_push (wm_jobs_t *self, wm_job_t *job)
{
    job->next = NULL;
    if (self->first)
        self->last->next = job;
    else
        self->first = job;
    self->last = job;
}

/* Returns the job that was pushed first, NULL for none.  */
static inline wm_job_t *wm_jobs_pop (wm_jobs_t *self)
{
    wm_job_t *job = self->first;
    if (job)
        self->first = job->next;
    return job;
}

/* Counts `n` more hits of the job as scored; after the last one the job joins the queue.  */
static inline void wm_jobs_count (wm_jobs_t *self, wm_job_t *job, uint32_t n)
{
    if (job->progress)
        atomic_fetch_add (job->progress, n);
    if ((job->n_left -= n) == 0)
        wm_jobs_push (self, job);
}

#endif
