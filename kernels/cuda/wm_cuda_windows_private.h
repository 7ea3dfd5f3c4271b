/* wm_cuda_windows_private.h - the inside of the CUDA engine: wm_cuda_windows.c lays batches out
   and scores them, wm_cuda_windows_open.c makes the engine and calibrates its checksum.  */
#ifndef WM_CUDA_WINDOWS_PRIVATE_H
#define WM_CUDA_WINDOWS_PRIVATE_H

#include "kernels/cuda/wm_cuda_curve.h"
#include "kernels/cuda/wm_cuda_pack.h"
#include "kernels/gpu/wm_cuda_base.h"
#include "kernels/gpu/wm_cuda_plane.h"
#include "kernels/gpu/wm_gpu_active.cuh"
#include "kernels/gpu/wm_gpu_wide.cuh"
#include "kernels/patch/wm_image.h"

#define WM_WINDOWS_SLOTS WM_CUDA_SLOTS_MAX /* one computes, one waits behind it, one is laid out */
#define WM_WINDOWS_SOURCES 2u
#define WM_WINDOWS_GRAPHS_MAX 16u

/* A hit of a job.  */
typedef struct {
    wm_job_t *job;
    uint32_t hit;
} wm_windows_hit_t;

typedef struct {
    void *stream, *laid, *done, *mark[WM_CUDA_STAGES + 1];
    wm_gpu_row_t *h_row, *d_row;          /* (rows_max): rows of positions */
    uint32_t *d_active, *d_bad, *d_index; /* maps of the strips' positions (wm_gpu_args.h) */
    char *d_value;                        /* the list: room for every position */
    uint32_t *d_used;                     /* entries of the list that are taken; bad rows */
    uint32_t *h_hit, *d_hit;              /* (hits_max): bit of the map where the window begins */
    float *d_sum;                         /* (bands, hits_max, WM_GPU_SUMS) */
    float *h_scores, *d_scores;           /* (hits_max, n_output) */
    float *h_residual, *d_residual;       /* (hits_max) */
    void *graph[WM_WINDOWS_GRAPHS_MAX];   /* of tile << i hits */
    wm_windows_hit_t *of;                 /* (hits_max): whose scores they are */
    uint32_t n_row, n_laid;               /* rows in h_row, and of them those already sent */
    uint32_t used;                        /* rows of the maps */
    uint32_t n_hit;
} wm_windows_slot_t;

typedef struct {
    wm_cuda_t base;
    wm_cuda_pack_t pack;
    wm_cuda_config_t config;
    uint32_t starts, hits_max, height, rows_max, n_graph;
    wm_gpu_by_t by;
    double worst; /* residual */
    double ms[WM_CUDA_STAGES];

    wm_windows_slot_t slot[WM_WINDOWS_SLOTS];

    void *load;
    wm_spec_t spec;
    wm_plane_t *cutter; /* cuts on the host; NULL: dense patches only */
    wm_cuda_plane_t *plane;
    struct {
        float *h; /* (SOURCE_PATCHES, n_value) */
        void *copied;
    } source[WM_WINDOWS_SOURCES];
    float *d_source;
    uint32_t n_source; /* sources used so far */
    uint32_t source_max, n_value;
    wm_cuda_place_t *place, *spare;
    const float *d_from; /* the image that rows are taken from */
} wm_windows_t;

/* Words of the map that a patch takes which lies beside others, and how many of those a row has. */
static inline uint32_t wm_windows_pitch (const wm_windows_t *self)
{
    return (self->pack.dense.patch_col + 31) / 32;
}

static inline uint32_t wm_windows_abreast (const wm_windows_t *self)
{
    return self->pack.dense.n_word / wm_windows_pitch (self);
}

/* Queues the work of a graph: from hits in h_hit to scores in h_scores.  */
wm_gpu_text_t wm_windows_score_hits (wm_windows_t *self, wm_windows_slot_t *slot, uint32_t hits);

/* The engine's functions (wm_cuda_base.h).  */
wm_gpu_text_t wm_windows_submit (wm_cuda_t *base, uint32_t n, wm_job_t *const *job);
wm_gpu_text_t wm_windows_start (wm_cuda_t *base, uint32_t slot);
wm_gpu_text_t wm_windows_complete (wm_cuda_t *base, uint32_t slot);

#endif
