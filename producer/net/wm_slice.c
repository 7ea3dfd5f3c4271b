/* wm_slice.c - a queue, of which a part is worked off in each round of the loop.  */
#include "producer/net/wm_slice.h"

#include <czmq.h>

struct wm_slices_t {
    wm_loop_t *loop;
    wm_slice_t *first, *last;
    bool is_called;   /* `work` will be called */
    int64_t round_us; /* the round of the loop in which wm_slice_now ... */
    size_t left;      /* ... may do so much more */
};

wm_slices_t *wm_slices_new (wm_loop_t *loop)
{
    wm_slices_t *self = zmalloc (sizeof *self);
    self->loop = loop;
    return self;
}

void wm_slices_destroy (wm_slices_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

static void append (wm_slices_t *self, wm_slice_t *job)
{
    job->slices = self;
    job->next = NULL;
    job->before = self->last;
    *(self->last ? &self->last->next : &self->first) = job;
    self->last = job;
}

void wm_slice_end (wm_slice_t *job)
{
    wm_slices_t *self = job->slices;
    if (!self)
        return;
    *(job->before ? &job->before->next : &self->first) = job->next;
    *(job->next ? &job->next->before : &self->last) = job->before;
    job->slices = NULL;
}

/* Does a part of a job, which it may free. True: there is more.  */
static bool do_part (wm_slice_t *job, size_t *left)
{
    const size_t before = *left;
    const bool has_more = job->work (job->argument, left);
    const size_t least = before < WM_SLICE_LEAST ? before : WM_SLICE_LEAST;
    *left = *left < before - least ? *left : before - least;
    return has_more;
}

static void work (void *argument)
{
    wm_slices_t *self = argument;
    size_t left = WM_SLICE_BYTES;
    while (self->first && left) {
        wm_slice_t *job = self->first;
        wm_slice_end (job); /* its work may free it */
        if (do_part (job, &left)) {
            append (self, job);
            break;
        }
    }
    self->is_called = self->first != NULL;
    if (self->is_called) /* a timer that is due already would be called in this round */
        wm_loop_timer (self->loop, wm_loop_now_us (self->loop) + 1, work, self);
}

void wm_slice_begin (wm_slices_t *self, wm_slice_t *job, wm_slice_work_t *call, void *argument)
{
    wm_slice_end (job);
    job->work = call;
    job->argument = argument;
    append (self, job);
    if (!self->is_called)
        wm_loop_later (self->loop, work, self);
    self->is_called = true;
}

void wm_slice_now (wm_slices_t *self, wm_slice_t *job, wm_slice_work_t *call, void *argument)
{
    const int64_t now_us = wm_loop_now_us (self->loop);
    wm_slice_end (job);
    job->work = call;
    job->argument = argument;
    if (now_us != self->round_us)
        self->left = WM_SLICE_BYTES;
    self->round_us = now_us;
    if (!self->left || do_part (job, &self->left))
        wm_slice_begin (self, job, call, argument);
}
