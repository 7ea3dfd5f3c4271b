/* wm_decode.c - see wm_decode.h.  */
#include "gpuworker/engine/wm_decode.h"
#include "schema/base/wm_process.h"
#include "schema/wm_trace.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Jobs in the order in which they came.  */
typedef struct {
    wm_decode_job_t *first, **end;
} list_t;

struct wm_decode_t {
    uint8_t pins_digest[16];
    wm_coder_t *coder; /* the caller's, where there is no thread */
    uint32_t n_thread;
    pthread_t thread[WM_DECODE_THREADS_MAX];
    int fd;
    pthread_mutex_t lock; /* around what follows */
    pthread_cond_t begun, done;
    list_t waiting, ended;
    bool is_rung; /* fd is readable */
    bool ends;
};

static void append (list_t *list, wm_decode_job_t *job)
{
    job->next = NULL;
    *list->end = job;
    list->end = &job->next;
}

/* Removes a job. false: the list has it not.  */
static bool cut (list_t *list, const wm_decode_job_t *job)
{
    wm_decode_job_t **at = &list->first;
    while (*at && *at != job)
        at = &(*at)->next;
    if (!*at)
        return false;
    *at = job->next;
    if (!*at)
        list->end = at;
    return true;
}

static wm_decode_job_t *pop (list_t *list)
{
    wm_decode_job_t *job = list->first;
    if (job)
        cut (list, job);
    return job;
}

static void decode (const wm_decode_t *self, wm_coder_t *coder, wm_decode_job_t *job)
{
    uint8_t digest[16];
    const int64_t start_ns = wm_trace_now_ns ();
    job->error = (wm_error_t){ 0 };
    wm_fault_t fault =
        wm_batch_decode (job->batch, coder, job->payload, job->payload_bytes, &job->error);
    if (!fault && job->batch->n_hit != job->n_hit)
        fault = wm_fault (&job->error, WM_EBATCH, "the payload has %u hits, its task names %u",
                          job->batch->n_hit, job->n_hit);
    if (!fault) {
        wm_batch_digest (job->batch, self->pins_digest, digest);
        if (memcmp (digest, job->digest, sizeof digest))
            wm_fault (&job->error, WM_EBATCH, "the payload does not match its digest");
    }
    job->ns = wm_trace_now_ns () - start_ns;
}

static void *decode_jobs (void *argument)
{
    wm_decode_t *self = argument;
    wm_coder_t *coder = wm_coder_new ();
    pthread_mutex_lock (&self->lock);
    while (!self->ends) {
        wm_decode_job_t *job = pop (&self->waiting);
        if (!job) {
            pthread_cond_wait (&self->begun, &self->lock);
            continue;
        }
        job->is_taken = true;
        pthread_mutex_unlock (&self->lock);
        decode (self, coder, job);
        pthread_mutex_lock (&self->lock);
        job->is_taken = false;
        append (&self->ended, job);
        if (!self->is_rung)
            self->is_rung = eventfd_write (self->fd, 1) == 0;
        pthread_cond_signal (&self->done);
    }
    pthread_mutex_unlock (&self->lock);
    wm_coder_destroy (&coder);
    return NULL;
}

wm_decode_t *wm_decode_new (uint32_t threads, const uint8_t pins_digest[16])
{
    wm_decode_t *self = calloc (1, sizeof *self);
    assert (self && threads <= WM_DECODE_THREADS_MAX);
    memcpy (self->pins_digest, pins_digest, sizeof self->pins_digest);
    self->waiting.end = &self->waiting.first;
    self->ended.end = &self->ended.first;
    self->fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert (self->fd >= 0);
    pthread_mutex_init (&self->lock, NULL);
    pthread_cond_init (&self->begun, NULL);
    pthread_cond_init (&self->done, NULL);
    while (self->n_thread < threads &&
           wm_process_thread (&self->thread[self->n_thread], decode_jobs, self) == 0)
        self->n_thread++;
    if (self->n_thread == 0)
        self->coder = wm_coder_new ();
    return self;
}

void wm_decode_destroy (wm_decode_t **self_p)
{
    wm_decode_t *self = *self_p;
    if (!self)
        return;
    pthread_mutex_lock (&self->lock);
    self->ends = true;
    pthread_cond_broadcast (&self->begun);
    pthread_mutex_unlock (&self->lock);
    for (uint32_t i = 0; i < self->n_thread; i++)
        pthread_join (self->thread[i], NULL);
    pthread_cond_destroy (&self->begun);
    pthread_cond_destroy (&self->done);
    pthread_mutex_destroy (&self->lock);
    close (self->fd);
    wm_coder_destroy (&self->coder);
    free (self);
    *self_p = NULL;
}

int wm_decode_fd (const wm_decode_t *self)
{
    return self->fd;
}

void wm_decode_begin (wm_decode_t *self, wm_decode_job_t *job)
{
    job->is_taken = false;
    if (self->n_thread == 0)
        decode (self, self->coder, job);
    pthread_mutex_lock (&self->lock);
    append (self->n_thread ? &self->waiting : &self->ended, job);
    pthread_cond_signal (&self->begun);
    pthread_mutex_unlock (&self->lock);
}

wm_decode_job_t *wm_decode_next (wm_decode_t *self)
{
    eventfd_t rung;
    pthread_mutex_lock (&self->lock);
    wm_decode_job_t *job = pop (&self->ended);
    if (!job && self->is_rung)
        self->is_rung = eventfd_read (self->fd, &rung) != 0;
    pthread_mutex_unlock (&self->lock);
    return job;
}

void wm_decode_cancel (wm_decode_t *self, wm_decode_job_t *job)
{
    pthread_mutex_lock (&self->lock);
    while (job->is_taken)
        pthread_cond_wait (&self->done, &self->lock);
    if (!cut (&self->waiting, job))
        cut (&self->ended, job);
    pthread_mutex_unlock (&self->lock);
}
