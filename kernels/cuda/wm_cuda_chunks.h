/* wm_cuda_chunks.h - patches through a GPU, a fixed number at a time, over two slots.

   What the engine for any CNN (wm_any.c) does around its steps: the GPU, the cutting on the host,
   memory for patches and scores, and the order of work: while one slot computes, the other's copies
   run. Jobs share chunks; a chunk that is not full is started when nothing else computes, filled
   up, so that every launch has one shape and no bit depends on grouping.

   Invariants: a slot's pinned memory is written only after the host waited for its event. Nothing
   is allocated after the engine is made.
   Private to kernels/cuda/.  Thread: one.  */
#ifndef WM_CUDA_CHUNKS_H
#define WM_CUDA_CHUNKS_H

#include "kernels/cuda/wm_cuda_base.h"
#include "kernels/wm_image.h"
#include "kernels/wm_jobs.h"

#define WM_CHUNK_SLOTS 2u

/* Hits of a job in a chunk.  */
typedef struct {
    wm_job_t *job;
    uint32_t first, count;
} wm_chunk_part_t;

typedef struct {
    void *stream, *done;
    float *h_source, *d_source; /* (rows, n_value): patches */
    float *h_scores, *d_scores; /* (rows, n_output) */
    void *d_workspace;          /* of cuDNN */
    wm_chunk_part_t *part;      /* (rows) */
    uint32_t n_part, count;     /* count: rows that hold a hit; 0: free */
    bool busy;                  /* started, and not collected */
} wm_chunk_t;

typedef struct {
    const wm_gpu_api_t *api;
    void *gpu;
    wm_gpu_info_t info;
    uint32_t rows; /* patches a chunk */
    size_t n_value, n_output;
    size_t workspace_bytes;
    wm_chunk_t slot[WM_CHUNK_SLOTS];
    uint32_t current;   /* slot[current % WM_CHUNK_SLOTS] is filled next; the others are older */
    wm_jobs_t finished; /* scored or refused */
    uint64_t launches;  /* chunks started so far */
    wm_spec_t spec;
    wm_plane_t *plane; /* cuts on the host; NULL: dense patches only */

    /* The engine's functions. fill: writes the host's data of `count` hits from `first` on to slot
       s, from row `at` on, and marks the rows behind them as empty; WM_EBATCH: the batch is
       refused. start: queues the slot's work, ending with the copy of its scores.  */
    void *engine;
    wm_fault_t (*fill) (void *engine, uint32_t s, const wm_batch_t *batch, uint32_t first,
                        uint32_t count, uint32_t at, wm_error_t *error);
    wm_gpu_text_t (*start) (void *engine, uint32_t s);
} wm_chunks_t;

/* Sets the fields above and makes a GPU, not opened yet. spec NULL: dense patches only. A fault
   without memory.  */
wm_fault_t wm_chunks_make (wm_chunks_t *self, const wm_gpu_api_t *api, const wm_spec_t *spec,
                           uint32_t rows, size_t n_value, size_t n_output, wm_error_t *error);
void wm_chunks_clear (wm_chunks_t *self); /* the GPU with all its memory; does nothing if unmade */

/* Streams, events and memory of both slots.  */
wm_gpu_text_t wm_chunks_open (wm_chunks_t *self);

/* Gives both slots `bytes` of workspace.  */
wm_gpu_text_t wm_chunks_workspace (wm_chunks_t *self, size_t bytes);

/* Loads a batch's plane into the cutter; nothing for dense patches. WM_EBATCH: it cannot be
   cut.  */
wm_fault_t wm_chunks_load (wm_chunks_t *self, const wm_batch_t *batch, wm_error_t *error);

/* Patches of a loaded batch to h_source, from row `at` on.  */
void wm_chunks_cut (wm_chunks_t *self, uint32_t s, const wm_batch_t *batch, uint32_t first,
                    uint32_t count, uint32_t at);

/* As wm_device_submit and wm_device_collect; a job that `fill` refuses is collected with its
   error.  */
wm_gpu_text_t wm_chunks_submit (wm_chunks_t *self, uint32_t n, wm_job_t *const *job);
wm_gpu_text_t wm_chunks_collect (wm_chunks_t *self, wm_job_t **job);

#endif
