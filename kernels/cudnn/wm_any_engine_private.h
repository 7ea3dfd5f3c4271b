/* wm_any_engine_private.h - the inside of the engine for any CNN: wm_any.c makes it,
   wm_any_steps.c runs its steps, wm_any_chunks.c takes patches through it, a fixed number at a
   time, over two slots.

     load stream   patches to d_source: out of a plane's image on the device (wm_cuda_plane.h), or
                   copied from the caller's memory if it is lent, else from the chunk's
     slot stream   graph { the steps, scores out }, behind the load stream's event `laid`

   While one slot computes, the other is laid out. Jobs share chunks; every launch has one shape, so
   that no bit depends on grouping: rows behind a chunk's last hit are what they were before.

   Invariants: a slot's memory, pinned and on the device, is written only after the host waited for
   its event `done`. Nothing is allocated after the engine is made.  */
#ifndef WM_ANY_ENGINE_PRIVATE_H
#define WM_ANY_ENGINE_PRIVATE_H

#include "kernels/cudnn/wm_any.h"
#include "kernels/cudnn/wm_any_place.h"
#include "kernels/gpu/wm_cuda_base.h"
#include "kernels/gpu/wm_cuda_plane.h"
#include "kernels/patch/wm_image.h"

#define WM_CHUNK_SLOTS 2u
#define WM_ANY_HEADROOM 4   /* between values of test patches and the end of half's range */
#define WM_ANY_TINY 0x1p-12 /* half is off by 2^-13 of this, as it may be of any value */

/* Hits of a job in a chunk.  */
typedef struct {
    wm_job_t *job;
    uint32_t first, count;
} wm_chunk_part_t;

typedef struct {
    void *stream, *laid, *done;
    float *h_source, *d_source;    /* (rows, n_value): patches */
    uint32_t *h_offset, *d_offset; /* (rows, n_cell): of windows in the plane's image */
    float *h_scores, *d_scores;    /* (rows, n_output) */
    void *d_buffer[WM_ANY_SLOTS_MAX], *d_scratch;
    void *d_workspace;      /* of cuDNN */
    uint32_t *d_held;       /* (1 + n_doubt, rows): held, in doubt; in `measures` (2, n_step + 1):
                              large, not tiny */
    void *graph;            /* its work in one call; NULL: step by step */
    wm_chunk_part_t *part;  /* (rows) */
    uint32_t n_part, count; /* count: rows that hold a hit; 0: free */
} wm_any_chunk_t;

typedef struct {
    wm_cuda_t base;
    const wm_any_net_t *net;
    wm_gpu_precision_t precision;
    wm_any_place_t place;
    uint32_t rows;   /* patches a chunk */
    uint32_t n_cell; /* windows of a plane's image that a patch consists of */
    size_t n_value, n_output;
    wm_any_chunk_t chunk[WM_CHUNK_SLOTS];
    wm_spec_t spec;
    void *load;
    wm_cuda_plane_t *plane; /* NULL: none, or the device has no room for it beside the model */
    wm_plane_t *cutter;     /* cuts on the host; NULL: dense patches only */
    uint32_t *h_held;       /* where it measures */
    bool measures, sized;   /* sized: the device decides how many patches a launch has */
    bool lays;              /* planes on the device */
    uint32_t unplanned;     /* the convolution for which cuDNN has no plan in half; n_step: none */
    wm_conv_plan_t *plan[WM_ANY_STEPS_MAX];
    size_t workspace_bytes;
    float *d_constant;
    uint16_t *d_half; /* the constants */
} wm_any_t;

/* Flags of a launch: rows that are held, and those in doubt by each buffer that matters.  */
uint32_t wm_any_flags (const wm_any_t *self);

/* Returns whether a step leaves a buffer of the net as it will be read: of those that fill one
   together (Concat) and follow each other, the last does.  */
bool wm_any_leaves (const wm_any_net_t *net, uint32_t index);

/* Queue a chunk's work: patches of d_source to scores of h_scores. By the chunk's graph if it has
   one, or step by step.  */
wm_gpu_text_t wm_any_start (wm_any_t *self, wm_any_chunk_t *chunk);
wm_gpu_text_t wm_any_start_steps (wm_any_t *self, wm_any_chunk_t *chunk);

/* Streams, events and memory of both slots, and the plane's if it lays; patches are 0.  */
wm_gpu_text_t wm_chunks_open (wm_any_t *self);

/* Queues the copy of all of h_source on the chunk's stream: for patches of the engine's own.  */
wm_gpu_text_t wm_chunks_send (wm_any_t *self, wm_any_chunk_t *chunk);

/* The engine's functions (wm_cuda_base.h). A job that cannot be cut is collected with its
   error.  */
wm_gpu_text_t wm_chunks_submit (wm_cuda_t *base, uint32_t n, wm_job_t *const *job);
wm_gpu_text_t wm_chunks_start (wm_cuda_t *base, uint32_t slot);
wm_gpu_text_t wm_chunks_complete (wm_cuda_t *base, uint32_t slot);

#endif
