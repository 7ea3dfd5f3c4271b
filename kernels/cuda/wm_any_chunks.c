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

wm_gpu_text_t wm_chunks_start (wm_cuda_t *base, uint32_t slot)
{
    wm_any_t *self = (wm_any_t *) base;
    wm_chunk_t *chunk = &self->chunk[slot];
    TRY (wm_any_start (self, chunk));
    CALL (event_record, chunk->done, chunk->stream);
    return NULL;
}

wm_gpu_text_t wm_chunks_complete (wm_cuda_t *base, uint32_t slot)
{
    wm_any_t *self = (wm_any_t *) base;
    wm_chunk_t *chunk = &self->chunk[slot];
    const float *from = chunk->h_scores;
    CALL (event_sync, chunk->done);
    for (uint32_t i = 0; i < chunk->n_part; i++) {
        const wm_chunk_part_t *part = &chunk->part[i];
        memcpy (part->job->scores + part->first * self->n_output, from,
                part->count * self->n_output * sizeof (float));
        from += part->count * self->n_output;
        wm_jobs_count (&base->finished, part->job, part->count);
    }
    chunk->n_part = chunk->count = 0;
    return NULL;
}

/* Adds a job's hits to the current chunk and those after it.  */
static wm_gpu_text_t add_job (wm_any_t *self, wm_job_t *job)
{
    job->error.fault = load (self, job->batch, &job->error);
    if (job->error.fault)
        wm_jobs_push (&self->base.finished, job);
    for (uint32_t first = 0, n; !job->error.fault && first < job->batch->n_hit; first += n) {
        wm_chunk_t *chunk = &self->chunk[self->base.current];
        TRY (wm_cuda_free (&self->base));
        const uint32_t left = job->batch->n_hit - first, room = self->rows - chunk->count;
        n = left < room ? left : room;
        self->base.api->range_begin (self->base.gpu, "fill a chunk");
        cut (self, chunk, job->batch, first, n);
        self->base.api->range_end (self->base.gpu);
        chunk->part[chunk->n_part++] = (wm_chunk_part_t){ job, first, n };
        chunk->count += n;
        self->base.open = true;
        if (chunk->count == self->rows)
            TRY (wm_cuda_start (&self->base));
    }
    return NULL;
}

wm_gpu_text_t wm_chunks_submit (wm_cuda_t *base, uint32_t n, wm_job_t *const *job)
{
    for (uint32_t i = 0; i < n; i++)
        TRY (add_job ((wm_any_t *) base, job[i]));
    return NULL;
}
