/* wm_cuda_base.c - what all CUDA engines begin, call and end with.  */
#include "kernels/gpu/wm_cuda_base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

wm_gpu_text_t wm_cuda_both_new (const wm_gpu_api_t *api, void *gpu, void *h_p, void *d_p,
                                size_t bytes)
{
    void *p = NULL;
    wm_gpu_text_t text = h_p ? api->pinned_new (gpu, &p, bytes) : NULL;
    if (!text && h_p)
        memcpy (h_p, &p, sizeof p); /* it is a float **, a uint32_t ** ... */
    if (!text && d_p)
        text = api->device_new (gpu, &p, bytes);
    if (!text && d_p)
        memcpy (d_p, &p, sizeof p);
    return text;
}

bool wm_cuda_stands (wm_error_t *fault, wm_gpu_text_t text, wm_error_t *error)
{
    if (text)
        wm_fault (fault, WM_EHOST,
                  "the cuda engine cannot start: %s; --device cpu without --engine computes on the "
                  "CPU",
                  text);
    if (fault->fault && error)
        *error = *fault;
    return !fault->fault;
}

void wm_cuda_sign (wm_cuda_t *self, wm_gpu_precision_t precision, const char *version)
{
    static const char *const name[] = { "fp32", "tf32", "fp16", "fp16x3" };
    const wm_gpu_info_t *info = &self->info;
    char device[20];
    snprintf (device, sizeof device, "%.18s",
              info->device + (strncmp (info->device, "NVIDIA ", 7) == 0 ? 7 : 0));
    for (char *c = device; *c; c++)
        if (*c == ' ' || *c == '/')
            *c = '-';
    snprintf (self->signature, sizeof self->signature, "cuda/%s/sm_%d%d/%s/%s/%.20s", device,
              info->major, info->minor, name[precision], version, info->libraries);
}

void wm_cuda_destroy (wm_cuda_t **self_p)
{
    wm_cuda_t *self = *self_p;
    if (self) {
        self->clear (self);
        if (self->gpu)
            self->api->destroy (self->gpu);
        free (self);
        *self_p = NULL;
    }
}

wm_fault_t wm_cuda_lend (wm_cuda_t *self, const void *memory, size_t bytes, wm_error_t *error)
{
    const wm_gpu_text_t text = self->api->pin (self->gpu, memory, bytes);
    if (text)
        return wm_fault (error, WM_EHOST, "%s", text);
    self->lent = memory, self->lent_bytes = bytes;
    return WM_OK;
}

const float *wm_cuda_patches (const wm_cuda_t *self, wm_plane_t *cutter, const wm_batch_t *batch,
                              uint32_t first, uint32_t n, size_t n_value, float *own)
{
    const size_t bytes = n * n_value * sizeof *own;
    if (batch->kind != WM_BATCH_PATCHES) {
        wm_plane_cut (cutter, first, n, own);
        return own;
    }
    const float *patch = batch->patch + first * n_value;
    const char *c = (const char *) patch;
    const bool lent = self->lent && c >= self->lent && c + bytes <= self->lent + self->lent_bytes;
    return lent ? patch : memcpy (own, patch, bytes);
}

uint32_t wm_cuda_fill (const wm_cuda_t *self)
{
    return self->fill;
}

uint64_t wm_cuda_launches (const wm_cuda_t *self)
{
    return self->launches;
}

const char *wm_cuda_signature (const wm_cuda_t *self)
{
    return self->signature;
}

const char *wm_cuda_choice (const wm_cuda_t *self)
{
    return self->choice;
}

/* ---- slots ----------------------------------------------------------------------------------- */

wm_gpu_text_t wm_cuda_start (wm_cuda_t *self)
{
    self->api->range_begin (self->gpu, "start a slot");
    TRY (self->start (self, self->current));
    self->api->range_end (self->gpu);
    self->open = false, self->busy[self->current] = true;
    self->launches++;
    self->current = (self->current + 1) % self->n_slot;
    return NULL;
}

static wm_gpu_text_t complete (wm_cuda_t *self, uint32_t slot)
{
    self->api->range_begin (self->gpu, "wait for a slot");
    TRY (self->complete (self, slot));
    self->api->range_end (self->gpu);
    self->busy[slot] = false;
    return NULL;
}

wm_gpu_text_t wm_cuda_free (wm_cuda_t *self)
{
    return self->busy[self->current] ? complete (self, self->current) : NULL;
}

/* Returns the busy slot that was started first, WM_CUDA_SLOTS_MAX for none.  */
static uint32_t oldest (const wm_cuda_t *self)
{
    for (uint32_t i = 0; i < self->n_slot; i++)
        if (self->busy[(self->current + i) % self->n_slot])
            return (self->current + i) % self->n_slot;
    return WM_CUDA_SLOTS_MAX;
}

/* Starts the open slot if nothing computes.  */
static wm_gpu_text_t keep_busy (wm_cuda_t *self)
{
    return self->open && oldest (self) == WM_CUDA_SLOTS_MAX ? wm_cuda_start (self) : NULL;
}

/* A job that is finished, NULL: no job runs.  */
static wm_gpu_text_t collect (wm_cuda_t *self, wm_job_t **job)
{
    while (!(*job = wm_jobs_pop (&self->finished))) {
        TRY (keep_busy (self));
        const uint32_t slot = oldest (self);
        if (slot == WM_CUDA_SLOTS_MAX)
            break;
        TRY (complete (self, slot));
        TRY (keep_busy (self));
    }
    return NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Ends the engine with the GPU's first error, if there is one, which later calls repeat.  */
static wm_fault_t end_if (wm_cuda_t *self, wm_gpu_text_t text, wm_error_t *error)
{
    if (!text)
        return WM_OK;
    if (!*self->failure)
        snprintf (self->failure, sizeof self->failure, "%s", text);
    return wm_fault (error, WM_EHOST,
                     "the GPU failed, %s; scores of this batch are dropped, and this process must "
                     "end: a GPU that failed gives nothing right until it is opened again",
                     self->failure);
}

wm_fault_t wm_cuda_submit (wm_cuda_t *self, uint32_t n, wm_job_t *const *job, wm_error_t *error)
{
    return end_if (self, *self->failure ? self->failure : self->submit (self, n, job), error);
}

wm_fault_t wm_cuda_collect (wm_cuda_t *self, wm_job_t **job, wm_error_t *error)
{
    *job = NULL;
    return end_if (self, *self->failure ? self->failure : collect (self, job), error);
}

wm_fault_t wm_cuda_score_many (wm_cuda_t *self, uint32_t n, const wm_batch_t *const *batch,
                               float *const *scores, _Atomic uint64_t *progress, wm_error_t *error)
{
    wm_job_t *job = calloc (n ? n : 1, sizeof *job), **job_p = calloc (n ? n : 1, sizeof *job_p);
    uint32_t n_job = 0;
    wm_fault_t fault = job && job_p ? WM_OK : wm_fault (error, WM_EHOST, "no memory for jobs");
    for (uint32_t i = 0; i < n && !fault; i++)
        if (batch[i]->n_hit > 0) {
            job[n_job] = (wm_job_t){ .batch = batch[i],
                                     .scores = scores[i],
                                     .n_left = batch[i]->n_hit,
                                     .progress = progress };
            job_p[n_job] = &job[n_job];
            n_job++;
        }
    if (!fault)
        fault = wm_cuda_submit (self, n_job, job_p, error);
    for (wm_job_t *done = job; done && !fault;)
        fault = wm_cuda_collect (self, &done, error);
    for (uint32_t i = 0; i < n_job && !fault; i++)
        if ((fault = job[i].error.fault) != WM_OK && error)
            *error = job[i].error;
    free (job);
    free (job_p);
    return fault;
}

wm_fault_t wm_cuda_score (wm_cuda_t *self, const wm_batch_t *batch, float *scores,
                          _Atomic uint64_t *progress, wm_error_t *error)
{
    return wm_cuda_score_many (self, 1, &batch, &scores, progress, error);
}
