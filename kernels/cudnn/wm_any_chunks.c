/* wm_any_chunks.c - patches through the engine for any CNN, a fixed number at a time.  */
#include "kernels/cudnn/wm_any_engine_private.h"
#include "kernels/gpu/wm_gpu_args.h"

#include <stdlib.h>
#include <string.h>

#define THREADS 256u

static wm_gpu_text_t make_chunk (wm_any_t *self, wm_any_chunk_t *chunk)
{
    const size_t rows = self->rows, bytes = rows * self->n_value * sizeof (float);
    CALL (stream_new, &chunk->stream, false);
    CALL (event_new, &chunk->laid, false);
    CALL (event_new, &chunk->done, false);
    if (!(chunk->part = calloc (rows, sizeof *chunk->part)))
        return "no memory for a chunk";
    BOTH_NEW (&chunk->h_source, &chunk->d_source, bytes);
    BOTH_NEW (&chunk->h_offset, &chunk->d_offset, rows * self->n_cell * sizeof (uint32_t));
    BOTH_NEW (&chunk->h_scores, &chunk->d_scores, rows * self->n_output * sizeof (float));
    memset (chunk->h_source, 0, bytes);
    TRY (wm_chunks_send (self, chunk));
    CALL (stream_sync, chunk->stream);
    return NULL;
}

wm_gpu_text_t wm_chunks_open (wm_any_t *self)
{
    CALL (stream_new, &self->load, true);
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS; s++)
        TRY (make_chunk (self, &self->chunk[s]));
    return self->lays ? wm_cuda_plane_new (&self->plane, self->base.api, self->base.gpu,
                                           &self->spec, WM_CUDA_CELLS)
                      : NULL;
}

wm_gpu_text_t wm_chunks_send (wm_any_t *self, wm_any_chunk_t *chunk)
{
    CALL (copy_in, chunk->d_source, chunk->h_source, self->rows * self->n_value * sizeof (float),
          chunk->stream);
    return NULL;
}

/* Loads a plane that the device does not take into the cutter; nothing for dense patches.
   WM_EBATCH: it cannot be cut.  */
static wm_fault_t load (wm_any_t *self, const wm_batch_t *batch, wm_error_t *error)
{
    if (batch->kind == WM_BATCH_PATCHES)
        return WM_OK;
    if (!self->cutter)
        return wm_fault (error, WM_EBATCH, "a plane, but no specification to cut patches by");
    return wm_plane_load (self->cutter, batch, error);
}

/* Queues n patches, of windows of the image on the device, behind those of the chunk.  */
static wm_gpu_text_t add_windows (wm_any_t *self, wm_any_chunk_t *chunk, const uint32_t *offset,
                                  uint32_t n)
{
    const uint32_t at = chunk->count * self->n_cell, n_window = n * self->n_cell;
    const size_t bytes = n_window * sizeof *offset;
    uint32_t n_row, n_col;
    const float *image = wm_cuda_plane_image (self->plane, &n_row, &n_col);
    const wm_gpu_window_t args = { .image = image,
                                   .offset = chunk->d_offset + at,
                                   .to = chunk->d_source + chunk->count * self->n_value,
                                   .height = self->spec.patch_wire,
                                   .width = self->spec.patch_bin,
                                   .n_col = n_col,
                                   .abreast = self->spec.channels_last ? self->n_cell : 1 };
    const wm_gpu_launch_t launch = { WM_GPU_WINDOW, n_window, THREADS, 0, &args };
    memcpy (chunk->h_offset + at, offset, bytes);
    CALL (copy_in, chunk->d_offset + at, chunk->h_offset + at, bytes, self->load);
    CALL (launch, &launch, self->load);
    return NULL;
}

/* Queues `n` patches that the host has, or cuts, behind those of the chunk.  */
static wm_gpu_text_t add_patches (wm_any_t *self, wm_any_chunk_t *chunk, const wm_batch_t *batch,
                                  uint32_t first, uint32_t n)
{
    const size_t at = chunk->count * self->n_value;
    const float *h_from = wm_cuda_patches (&self->base, self->cutter, batch, first, n,
                                           self->n_value, chunk->h_source + at);
    CALL (copy_in, chunk->d_source + at, h_from, (size_t) n * self->n_value * sizeof (float),
          self->load);
    return NULL;
}

wm_gpu_text_t wm_chunks_start (wm_cuda_t *base, uint32_t slot)
{
    wm_any_t *self = (wm_any_t *) base;
    wm_any_chunk_t *chunk = &self->chunk[slot];
    CALL (event_record, chunk->laid, self->load);
    CALL (stream_wait, chunk->stream, chunk->laid);
    TRY (wm_any_start (self, chunk));
    CALL (event_record, chunk->done, chunk->stream);
    return NULL;
}

wm_gpu_text_t wm_chunks_complete (wm_cuda_t *base, uint32_t slot)
{
    wm_any_t *self = (wm_any_t *) base;
    wm_any_chunk_t *chunk = &self->chunk[slot];
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

/* Adds a job's hits to the current chunk and those after it. offset: of its patches in the image on
   the device, NULL: the host has them, or cuts them.  */
static wm_gpu_text_t add_job (wm_any_t *self, wm_job_t *job, const uint32_t *offset)
{
    if (!offset)
        job->error.fault = load (self, job->batch, &job->error);
    if (job->error.fault)
        wm_jobs_push (&self->base.finished, job);
    for (uint32_t first = 0, n; !job->error.fault && first < job->batch->n_hit; first += n) {
        wm_any_chunk_t *chunk = &self->chunk[self->base.current];
        TRY (wm_cuda_free (&self->base));
        const uint32_t left = job->batch->n_hit - first, room = self->rows - chunk->count;
        n = left < room ? left : room;
        TRY (offset ? add_windows (self, chunk, offset + first * self->n_cell, n)
                    : add_patches (self, chunk, job->batch, first, n));
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
    wm_any_t *self = (wm_any_t *) base;
    base->api->range_begin (base->gpu, "lay out jobs");
    for (uint32_t i = 0, laid; i < n;) {
        laid = 0;
        if (self->plane)
            TRY (wm_cuda_plane_load_jobs (self->plane, n - i, job + i, self->load, &laid));
        const uint32_t *offset = laid > 0 ? wm_cuda_plane_offset (self->plane) : NULL;
        if (!offset)
            TRY (add_job (self, job[i++], NULL));
        for (uint32_t k = 0; k < laid; k++, i++) {
            TRY (add_job (self, job[i], offset));
            offset += job[i]->batch->n_hit * self->n_cell;
        }
    }
    base->api->range_end (base->gpu);
    return NULL;
}
