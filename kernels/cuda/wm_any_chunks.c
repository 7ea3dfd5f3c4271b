/* wm_any_chunks.c - patches through the engine for any CNN, a fixed number at a time.  */
#include "kernels/cuda/wm_any_engine_private.h"

#include <stdlib.h>
#include <string.h>

wm_gpu_text_t wm_chunks_open (wm_any_t *self)
{
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS; s++) {
        wm_chunk_t *chunk = &self->chunk[s];
        CALL (stream_new, &chunk->stream, false);
        CALL (event_new, &chunk->done, false);
        if (!(chunk->part = calloc (self->rows, sizeof *chunk->part)))
            return "no memory for a chunk";
        BOTH_NEW (&chunk->h_source, &chunk->d_source, self->rows * self->n_value * sizeof (float));
        BOTH_NEW (&chunk->h_scores, &chunk->d_scores, self->rows * self->n_output * sizeof (float));
    }
    return NULL;
}

/* Loads a batch's plane into the cutter; nothing for dense patches. WM_EBATCH: it cannot be
   cut.  */
static wm_fault_t load (wm_any_t *self, const wm_batch_t *batch, wm_error_t *error)
{
    if (batch->kind == WM_BATCH_PATCHES)
        return WM_OK;
    if (!self->plane)
        return wm_fault (error, WM_EBATCH, "a plane, but no specification to cut patches by");
    return wm_plane_load (self->plane, batch, error);
}

/* Writes `count` patches of a loaded batch behind those of the chunk, and zeros behind them.  */
static void cut (wm_any_t *self, wm_chunk_t *chunk, const wm_batch_t *batch, uint32_t first,
                 uint32_t count)
{
    const size_t n = self->n_value;
    float *to = chunk->h_source + chunk->count * n;
    if (batch->kind == WM_BATCH_PATCHES)
        memcpy (to, batch->patch + first * n, count * n * sizeof *to);
    else
        wm_plane_cut (self->plane, first, count, to);
    memset (to + count * n, 0, (self->rows - chunk->count - count) * n * sizeof *to);
}

static wm_chunk_t *current (wm_any_t *self)
{
    return &self->chunk[self->current % WM_CHUNK_SLOTS];
}

/* Returns the chunk that was started first of those that compute, NULL for none.  */
static wm_chunk_t *oldest (wm_any_t *self)
{
    for (uint32_t i = 0; i < WM_CHUNK_SLOTS; i++) {
        wm_chunk_t *chunk = &self->chunk[(self->current + i) % WM_CHUNK_SLOTS];
        if (chunk->busy)
            return chunk;
    }
    return NULL;
}

/* Starts the current chunk.  */
static wm_gpu_text_t start (wm_any_t *self)
{
    wm_chunk_t *chunk = current (self);
    self->base.api->range_begin (self->base.gpu, "start a chunk");
    TRY (wm_any_start (self, chunk));
    CALL (event_record, chunk->done, chunk->stream);
    self->base.api->range_end (self->base.gpu);
    chunk->busy = true;
    self->base.launches++;
    self->current++;
    return NULL;
}

/* Waits for a chunk that computes, and copies its scores to their jobs.  */
static wm_gpu_text_t finish (wm_any_t *self, wm_chunk_t *chunk)
{
    self->base.api->range_begin (self->base.gpu, "wait for a chunk");
    CALL (event_sync, chunk->done);
    self->base.api->range_end (self->base.gpu);
    const float *from = chunk->h_scores;
    for (uint32_t i = 0; i < chunk->n_part; i++) {
        const wm_chunk_part_t *part = &chunk->part[i];
        memcpy (part->job->scores + part->first * self->n_output, from,
                part->count * self->n_output * sizeof (float));
        from += part->count * self->n_output;
        wm_jobs_count (&self->base.finished, part->job, part->count);
    }
    chunk->n_part = chunk->count = 0;
    chunk->busy = false;
    return NULL;
}

/* Adds a job's hits to the current chunk and those after it.  */
static wm_gpu_text_t add_job (wm_any_t *self, wm_job_t *job)
{
    job->error.fault = load (self, job->batch, &job->error);
    if (job->error.fault)
        wm_jobs_push (&self->base.finished, job);
    for (uint32_t first = 0, n; !job->error.fault && first < job->batch->n_hit; first += n) {
        wm_chunk_t *chunk = current (self);
        if (chunk->busy)
            TRY (finish (self, chunk));
        const uint32_t left = job->batch->n_hit - first, room = self->rows - chunk->count;
        n = left < room ? left : room;
        self->base.api->range_begin (self->base.gpu, "fill a chunk");
        cut (self, chunk, job->batch, first, n);
        self->base.api->range_end (self->base.gpu);
        chunk->part[chunk->n_part++] = (wm_chunk_part_t){ job, first, n };
        chunk->count += n;
        if (chunk->count == self->rows)
            TRY (start (self));
    }
    return NULL;
}

wm_gpu_text_t wm_chunks_submit (wm_cuda_t *base, uint32_t n, wm_job_t *const *job)
{
    for (uint32_t i = 0; i < n; i++)
        TRY (add_job ((wm_any_t *) base, job[i]));
    return NULL;
}

/* Starts the chunk that is being filled if nothing computes.  */
static wm_gpu_text_t keep_busy (wm_any_t *self)
{
    return !oldest (self) && current (self)->count > 0 ? start (self) : NULL;
}

wm_gpu_text_t wm_chunks_collect (wm_cuda_t *base, wm_job_t **job)
{
    wm_any_t *self = (wm_any_t *) base;
    while (!(*job = wm_jobs_pop (&base->finished))) {
        TRY (keep_busy (self));
        if (!oldest (self))
            break;
        TRY (finish (self, oldest (self)));
        TRY (keep_busy (self));
    }
    return NULL;
}
