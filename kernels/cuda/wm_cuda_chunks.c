/* wm_cuda_chunks.c - patches through a GPU, a fixed number at a time, over two slots.  */
#include "kernels/cuda/wm_cuda_chunks.h"

#include <stdatomic.h>
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
    wm_plane_destroy (&self->plane);
}

static size_t source_bytes (const wm_chunks_t *self)
{
    return self->rows * self->n_value * sizeof (float);
}

static size_t scores_bytes (const wm_chunks_t *self)
{
    return self->rows * self->n_output * sizeof (float);
}

size_t wm_chunks_bytes (const wm_chunks_t *self)
{
    return WM_CHUNK_SLOTS * (source_bytes (self) + scores_bytes (self));
}

wm_gpu_text_t wm_chunks_open (wm_chunks_t *self)
{
    for (uint32_t s = 0; s < WM_CHUNK_SLOTS; s++) {
        wm_chunk_t *slot = &self->slot[s];
        wm_gpu_text_t text = NULL;
        CALL (stream_new, &slot->stream);
        CALL (event_new, &slot->done, false);
        if ((text = wm_cuda_both_new (self->api, self->gpu, &slot->h_source, &slot->d_source,
                                      source_bytes (self))) ||
            (text = wm_cuda_both_new (self->api, self->gpu, &slot->h_scores, &slot->d_scores,
                                      scores_bytes (self))))
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

typedef struct {
    uint32_t n;
    const wm_batch_t *const *batch;
    float *const *scores;
    _Atomic uint64_t *progress;
    uint32_t next, hit; /* the first batch not yet wholly in chunks, and its first hit in none */
} work_t;

/* Waits for a busy slot and copies its scores to their batches.  */
static wm_gpu_text_t collect (wm_chunks_t *self, uint32_t s, const work_t *work)
{
    wm_chunk_t *slot = &self->slot[s];
    if (!slot->busy)
        return NULL;
    self->api->range_begin (self->gpu, "wait for a chunk");
    CALL (event_sync, slot->done);
    self->api->range_end (self->gpu);
    slot->busy = false;
    wm_gpu_text_t text = self->after ? self->after (self->engine, s) : NULL;
    if (text)
        return text;
    for (uint32_t row = 0, b = slot->batch, hit = slot->first, n; row < slot->count;
         row += n, b++, hit = 0) {
        n = work->batch[b]->n_hit - hit;
        n = n < slot->count - row ? n : slot->count - row;
        memcpy (work->scores[b] + hit * self->n_output, slot->h_scores + row * self->n_output,
                n * self->n_output * sizeof (float));
    }
    if (work->progress)
        atomic_fetch_add (work->progress, slot->count);
    return NULL;
}

/* Fills slot s with the next hits, of as many batches as it holds.  */
static wm_fault_t fill_slot (wm_chunks_t *self, uint32_t s, work_t *work, wm_error_t *error)
{
    wm_chunk_t *slot = &self->slot[s];
    wm_fault_t fault = WM_OK;
    slot->batch = work->next, slot->first = work->hit, slot->count = 0;
    self->api->range_begin (self->gpu, "fill a chunk");
    while (work->next < work->n && slot->count < self->rows && !fault) {
        const wm_batch_t *batch = work->batch[work->next];
        const uint32_t left = batch->n_hit - work->hit, room = self->rows - slot->count,
                       count = left < room ? left : room;
        if (count > 0)
            fault = self->fill (self->engine, s, batch, work->hit, count, slot->count, error);
        slot->count += count, work->hit += count;
        if (work->hit == batch->n_hit)
            work->next++, work->hit = 0;
    }
    self->api->range_end (self->gpu);
    return fault;
}

wm_gpu_text_t wm_chunks_score (wm_chunks_t *self, uint32_t n, const wm_batch_t *const *batch,
                               float *const *scores, _Atomic uint64_t *progress, wm_fault_t *fault,
                               wm_error_t *error)
{
    work_t work = { n, batch, scores, progress, 0, 0 };
    uint32_t count = 0;
    wm_gpu_text_t text = NULL;
    *fault = WM_OK;
    for (; work.next < n && !*fault; count++) {
        const uint32_t s = self->alone ? 0 : count % WM_CHUNK_SLOTS;
        wm_chunk_t *slot = &self->slot[s];
        if ((text = collect (self, s, &work)))
            return text;
        if ((*fault = fill_slot (self, s, &work, error)) || slot->count == 0)
            continue;
        self->api->range_begin (self->gpu, "start a chunk");
        if ((text = self->start (self->engine, s)))
            return text;
        CALL (event_record, slot->done, slot->stream);
        self->api->range_end (self->gpu);
        slot->busy = true;
    }
    for (uint32_t s = 0; !text && s < WM_CHUNK_SLOTS; s++, count++)
        text = collect (self, count % WM_CHUNK_SLOTS, &work);
    return text;
}
