/* wm_cuda_chunks.c - patches through a GPU, a fixed number at a time, over two slots.  */
#include "kernels/cuda/wm_cuda_chunks.h"

#include <stdlib.h>
#include <string.h>

wm_fault_t wm_chunks_make (wm_chunks_t *self, const wm_gpu_api_t *api, const wm_spec_t *spec,
                           uint32_t rows, size_t n_value, size_t n_output, wm_error_t *error)
{
    self->api = api;
    self->rows = rows, self->n_value = n_value, self->n_output = n_output;
    if (spec)
        self->spec = *spec;
    if (!(self->gpu = api->make ()) || (spec && !(self->plane = wm_plane_new (&self->spec))))
        return wm_fault (error, WM_EHOST, "no memory for the cuda engine");
    return WM_OK;
}

void wm_chunks_clear (wm_chunks_t *self)
{
    if (self->gpu)
        self->api->destroy (self->gpu);
    self->gpu = NULL;
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS; s++)
        free (self->slot[s].part);
    wm_plane_destroy (&self->plane);
}

wm_gpu_text_t wm_chunks_open (wm_chunks_t *self)
{
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS; s++) {
        wm_chunk_t *slot = &self->slot[s];
        wm_gpu_text_t text = NULL;
        CALL (stream_new, &slot->stream, false);
        CALL (event_new, &slot->done, false);
        if (!slot->part && !(slot->part = calloc (self->rows, sizeof *slot->part)))
            return "no memory for a chunk";
        if ((text = wm_cuda_both_new (self->api, self->gpu, &slot->h_source, &slot->d_source,
                                      self->rows * self->n_value * sizeof (float))) ||
            (text = wm_cuda_both_new (self->api, self->gpu, &slot->h_scores, &slot->d_scores,
                                      self->rows * self->n_output * sizeof (float))))
            return text;
    }
    return NULL;
}

wm_gpu_text_t wm_chunks_workspace (wm_chunks_t *self, size_t bytes)
{
    if (bytes <= self->workspace_bytes)
        return NULL;
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS; s++)
        CALL (device_new, &self->slot[s].d_workspace, bytes);
    self->workspace_bytes = bytes;
    return NULL;
}

wm_fault_t wm_chunks_load (wm_chunks_t *self, const wm_batch_t *batch, wm_error_t *error)
{
    if (batch->kind == WM_BATCH_PATCHES)
        return WM_OK;
    if (!self->plane)
        return wm_fault (error, WM_EBATCH, "a plane, but no specification to cut patches by");
    return wm_plane_load (self->plane, batch, error);
}

void wm_chunks_cut (wm_chunks_t *self, uint32_t s, const wm_batch_t *batch, uint32_t first,
                    uint32_t count, uint32_t at)
{
    float *to = self->slot[s].h_source + at * self->n_value;
    if (batch->kind == WM_BATCH_PATCHES)
        memcpy (to, batch->patch + first * self->n_value, count * self->n_value * sizeof *to);
    else
        wm_plane_cut (self->plane, first, count, to);
}

static wm_chunk_t *current (wm_chunks_t *self)
{
    return &self->slot[self->current % WM_CHUNK_SLOTS];
}

/* Returns the slot that was started first of those that compute, WM_CHUNK_SLOTS for none.  */
static uint32_t oldest (const wm_chunks_t *self)
{
    for (uint32_t i = 0; i < WM_CHUNK_SLOTS; i++) {
        const uint32_t s = (self->current + i) % WM_CHUNK_SLOTS;
        if (self->slot[s].busy)
            return s;
    }
    return WM_CHUNK_SLOTS;
}

/* Starts the current slot.  */
static wm_gpu_text_t start (wm_chunks_t *self)
{
    wm_chunk_t *slot = current (self);
    self->api->range_begin (self->gpu, "start a chunk");
    wm_gpu_text_t text = self->start (self->engine, self->current % WM_CHUNK_SLOTS);
    if (text)
        return text;
    CALL (event_record, slot->done, slot->stream);
    self->api->range_end (self->gpu);
    slot->busy = true;
    self->launches++;
    self->current++;
    return NULL;
}

/* Waits for a slot that computes, and copies its scores to their jobs.  */
static wm_gpu_text_t finish (wm_chunks_t *self, uint32_t s)
{
    wm_chunk_t *slot = &self->slot[s];
    self->api->range_begin (self->gpu, "wait for a chunk");
    CALL (event_sync, slot->done);
    self->api->range_end (self->gpu);
    const float *from = slot->h_scores;
    for (uint32_t i = 0; i < slot->n_part; i++) {
        const wm_chunk_part_t *part = &slot->part[i];
        memcpy (part->job->scores + part->first * self->n_output, from,
                part->count * self->n_output * sizeof (float));
        from += part->count * self->n_output;
        wm_jobs_count (&self->finished, part->job, part->count);
    }
    slot->n_part = slot->count = 0;
    slot->busy = false;
    return NULL;
}

/* Adds a job's hits to the current slot and those after it.  */
static wm_gpu_text_t add_job (wm_chunks_t *self, wm_job_t *job)
{
    for (uint32_t first = 0, n; first < job->batch->n_hit; first += n) {
        wm_chunk_t *slot = current (self);
        wm_gpu_text_t text = slot->busy ? finish (self, self->current % WM_CHUNK_SLOTS) : NULL;
        if (text)
            return text;
        const uint32_t left = job->batch->n_hit - first, room = self->rows - slot->count;
        n = left < room ? left : room;
        self->api->range_begin (self->gpu, "fill a chunk");
        const wm_fault_t fault = self->fill (self->engine, self->current % WM_CHUNK_SLOTS,
                                             job->batch, first, n, slot->count, &job->error);
        self->api->range_end (self->gpu);
        if (fault) { /* only the first part of a job is refused: none of it is under way */
            job->error.fault = fault;
            wm_jobs_push (&self->finished, job);
            return NULL;
        }
        slot->part[slot->n_part++] = (wm_chunk_part_t){ job, first, n };
        slot->count += n;
        if (slot->count == self->rows && (text = start (self)))
            return text;
    }
    return NULL;
}

wm_gpu_text_t wm_chunks_submit (wm_chunks_t *self, uint32_t n, wm_job_t *const *job)
{
    wm_gpu_text_t text = NULL;
    for (uint32_t i = 0; i < n && !text; i++)
        text = add_job (self, job[i]);
    return text;
}

/* Starts the slot that is being filled if nothing computes.  */
static wm_gpu_text_t keep_busy (wm_chunks_t *self)
{
    return oldest (self) == WM_CHUNK_SLOTS && current (self)->count > 0 ? start (self) : NULL;
}

wm_gpu_text_t wm_chunks_collect (wm_chunks_t *self, wm_job_t **job)
{
    wm_gpu_text_t text = NULL;
    while (!text && !(*job = wm_jobs_pop (&self->finished))) {
        if ((text = keep_busy (self)) || oldest (self) == WM_CHUNK_SLOTS)
            break;
        if (!(text = finish (self, oldest (self))))
            text = keep_busy (self);
    }
    return text;
}
