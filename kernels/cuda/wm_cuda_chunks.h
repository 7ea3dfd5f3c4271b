/* wm_cuda_chunks.h - patches through a GPU, a fixed number at a time, over two slots.

   Version 1 and the engine for any CNN share this: the GPU, the cutting on the host, memory for
   patches and scores, and the order of work: while one slot computes, the other's copies run.
   Batches of one call share chunks; the last chunk is filled up, so that every launch has one shape
   and no bit depends on grouping. The engine supplies what is done with a chunk.

   Invariants: between two calls every stream is idle. A slot's pinned memory is written only after
   the host waited for its event. Nothing is allocated after the engine is made.
   Private to kernels/cuda/.  Thread: one.  */
#ifndef WM_CUDA_CHUNKS_H
#define WM_CUDA_CHUNKS_H

#include "kernels/cuda/wm_cuda_base.h"
#include "kernels/wm_image.h"

#define WM_CHUNK_SLOTS 2u

typedef struct {
    void *stream, *done;
    float *h_source, *d_source;   /* (rows, n_value): patches */
    float *h_scores, *d_scores;   /* (rows, n_output) */
    void *d_workspace;            /* of the libraries */
    uint32_t batch, first, count; /* hits it holds: from this one of this batch on */
    bool busy;
} wm_chunk_t;

typedef struct {
    const wm_gpu_api_t *api;
    void *gpu;
    wm_gpu_info_t info;
    uint32_t rows; /* patches a chunk */
    size_t n_value, n_output;
    size_t workspace_bytes;
    wm_chunk_t slot[WM_CHUNK_SLOTS];
    wm_spec_t spec;
    wm_plane_t *plane; /* cuts on the host; NULL: dense patches only */

    /* The engine's functions. fill: writes the host's data of `count` hits from `first` on to slot
       s, from row `at` on, and marks the rows behind them as empty; WM_EBATCH: the batch is
       refused. start: queues the slot's work, ending with the copy of its scores. after (or NULL):
       called when that work has ended.  */
    void *engine;
    wm_fault_t (*fill) (void *engine, uint32_t s, const wm_batch_t *batch, uint32_t first,
                        uint32_t count, uint32_t at, wm_error_t *error);
    wm_gpu_text_t (*start) (void *engine, uint32_t s);
    wm_gpu_text_t (*after) (void *engine, uint32_t s);
    bool alone; /* one slot: two would wait for each other's kernels where stages are timed */
} wm_chunks_t;

/* Sets the fields above and makes a GPU, not opened yet. spec NULL: dense patches only. A fault
   without memory.  */
wm_fault_t wm_chunks_make (wm_chunks_t *self, const wm_gpu_api_t *api, const wm_spec_t *spec,
                           uint32_t rows, size_t n_value, size_t n_output, wm_error_t *error);
void wm_chunks_clear (wm_chunks_t *self); /* the GPU with all its memory; does nothing if unmade */

/* Streams, events and memory of both slots; the bytes of it that lie on the device.  */
wm_gpu_text_t wm_chunks_open (wm_chunks_t *self);
size_t wm_chunks_bytes (const wm_chunks_t *self);

/* Gives both slots `bytes` of workspace.  */
wm_gpu_text_t wm_chunks_workspace (wm_chunks_t *self, size_t bytes);

/* Loads a batch's plane into the cutter; nothing for dense patches. WM_EBATCH: it cannot be
   cut.  */
wm_fault_t wm_chunks_load (wm_chunks_t *self, const wm_batch_t *batch, wm_error_t *error);

/* Patches of a loaded batch to h_source, from row `at` on.  */
void wm_chunks_cut (wm_chunks_t *self, uint32_t s, const wm_batch_t *batch, uint32_t first,
                    uint32_t count, uint32_t at);

/* Scores all hits of n batches; scores[b] (n_hit, n_output). *fault: that of `fill`; scores written
   before it are not valid.  */
wm_gpu_text_t wm_chunks_score (wm_chunks_t *self, uint32_t n, const wm_batch_t *const *batch,
                               float *const *scores, _Atomic uint64_t *progress, wm_fault_t *fault,
                               wm_error_t *error);

#endif
