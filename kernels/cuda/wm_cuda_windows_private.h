/* wm_cuda_windows_private.h - the inside of versions 2 and 3: wm_cuda_windows.c lays batches out
   and scores them, wm_cuda_windows_open.c makes the engine and tests it.  */
#ifndef WM_CUDA_WINDOWS_PRIVATE_H
#define WM_CUDA_WINDOWS_PRIVATE_H

#include "kernels/cuda/wm_cuda_curve.h"
#include "kernels/cuda/wm_cuda_base.h"
#include "kernels/cuda/wm_cuda_pack.h"
#include "kernels/cuda/wm_cuda_plane.h"
#include "kernels/cuda/wm_cuda_windows.h"
#include "kernels/wm_image.h"

#define WM_WINDOWS_SLOTS 2u
#define WM_WINDOWS_GRAPHS_MAX 16u

typedef struct {
    void *stream, *laid, *done, *mark[WM_CUDA_STAGES + 1];
    wm_gpu_row_t *h_row, *d_row; /* (rows_max): rows that become the strips' */
    void *d_image, *d_value;     /* strips; the convolution's output */
    uint32_t *d_active, *d_bad;
    uint32_t *h_hit, *d_hit;        /* (hits_max): position where the window begins */
    float *d_partial;               /* (splits, hits_max, WM_GPU_SUMS) */
    float *h_scores, *d_scores;     /* (hits_max, n_output) */
    float *h_residual, *d_residual; /* (hits_max) */
    void *d_workspace;
    void *graph[WM_WINDOWS_GRAPHS_MAX]; /* of tile << i hits */
    float **to;                         /* (hits_max): where a hit's scores belong */
    uint32_t n_row, n_laid;             /* rows in h_row, and of them those already sent */
    uint32_t used;                      /* rows of strips */
    uint32_t n_hit;
    bool open, busy;
} wm_windows_slot_t;

struct wm_cuda_windows_t {
    const wm_gpu_api_t *api;
    void *gpu;
    wm_cuda_pack_t pack;
    wm_cuda_config_t config;
    wm_gpu_info_t info;
    char choice[160];
    uint32_t starts, band, tile, hits_max, height, rows_max, n_graph, current;
    size_t workspace_bytes;
    double worst; /* residual */
    double ms[WM_CUDA_STAGES];

    char *d_block;
    wm_conv_plan_t *conv;
    wm_windows_slot_t slot[WM_WINDOWS_SLOTS];

    void *load, *copied;
    wm_spec_t spec;
    wm_plane_t *cutter; /* cuts on the host; NULL: dense patches only */
    wm_cuda_plane_t *plane;
    float *h_source, *d_source; /* (SOURCE_PATCHES, n_value) */
    const char *lent;           /* the caller's pinned memory: the device copies from there */
    size_t lent_bytes;
    uint32_t source_max, n_value;
    wm_cuda_place_t *place, *spare;

    /* The batch at work.  */
    const float *d_from; /* the image that rows are taken from */
    float *scores;
};

/* Patches that lie beside each other in a strip.  */
static inline uint32_t wm_windows_abreast (const wm_cuda_windows_t *self)
{
    return self->pack.conv.w / self->pack.net.net->width;
}

static inline size_t wm_windows_cells (const wm_cuda_windows_t *self)
{
    const size_t cells = (size_t) (self->height + self->pack.conv.kh - 1) * self->pack.conv.w;
    return (cells + 1) / 2 * 2; /* they are filled in pairs */
}

/* Adds a row to those to be sent; lay sends them, all of the image self->d_from.  */
void wm_windows_add_row (wm_windows_slot_t *slot, uint32_t from, uint32_t to, uint32_t count);
wm_gpu_text_t wm_windows_lay (wm_cuda_windows_t *self, wm_windows_slot_t *slot);

/* Convolves the slot's first `bands` bands.  */
wm_gpu_text_t wm_windows_convolve (wm_cuda_windows_t *self, wm_windows_slot_t *slot,
                                   uint32_t bands);

/* Queues the work of a graph: from hits in h_hit to scores in h_scores.  */
wm_gpu_text_t wm_windows_score_hits (wm_cuda_windows_t *self, wm_windows_slot_t *slot,
                                     uint32_t hits);

#endif
