/* gpu_floor.c - counts bytes and operations of the engine for an event.

   Dense-1 in half as wm_gpu_wide.cuh has it: tiles of 256 hits in the order of the curve, which
   multiply every position and read a panel of weights for it, and 96 bytes of each active hit. How
   many are active depends on the event, so they are counted there.  */
#include "tests/gpu/gpu_floor.h"
#include "kernels/cuda/wm_cuda_curve.h"
#include "kernels/gpu/wm_cuda.h"
#include "kernels/gpu/wm_gpu_args.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATCH 48u
#define WINDOW 5u
#define SIDE 44u /* positions of a patch */
#define TILE 256u
#define GROUP_FLOP (WM_GPU_STEPS * 9. * 4096) /* 8 hits at a position: 8 tiles and the checksum */

typedef struct {
    uint32_t n_row, n_col;
    uint8_t *active; /* (n_row, n_col): positions */
    size_t n_active;
} map_t;

/* Active positions of a plane with its margins, as wm_cuda_plane.h lays it out.  */
static map_t map_of (const wm_batch_t *batch)
{
    map_t map = { batch->n_wire + PATCH, batch->n_col + 2 * PATCH, NULL, 0 };
    map.active = calloc (map.n_row, map.n_col);
    assert (map.active);
    for (uint32_t r = 0; r < batch->n_run; r++) {
        const uint32_t wire = batch->run_wire[r] + PATCH / 2, first = batch->run_first[r] + PATCH;
        for (uint32_t y = wire < WINDOW ? 0 : wire - WINDOW + 1; y <= wire; y++)
            memset (map.active + (size_t) y * map.n_col + first - WINDOW + 1, 1,
                    batch->run_length[r] + WINDOW - 1);
    }
    for (size_t i = 0; i < (size_t) map.n_row * map.n_col; i++)
        map.n_active += map.active[i];
    return map;
}

/* First cells of the hits' windows in the order of the curve.  */
static uint32_t *windows_of (const wm_batch_t *batch, const map_t *map)
{
    const uint32_t n = batch->n_hit, strips = map->n_col / WM_CUDA_STARTS + 1;
    wm_cuda_place_t *place = calloc (2 * (size_t) n, sizeof *place);
    uint32_t *at = calloc (n, sizeof *at);
    assert (place && at);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t right = (int64_t) map->n_col - PATCH;
        int64_t col = (int64_t) batch->hit_col[i] + PATCH / 2;
        col = col < 0 ? 0 : col > right ? right : col;
        place[i].hit = batch->hit_wire[i] * map->n_col + (uint32_t) col;
        place[i].key = wm_cuda_curve_key ((uint32_t) col / WM_CUDA_STARTS % strips,
                                          batch->hit_wire[i], (uint32_t) col % WM_CUDA_STARTS);
    }
    const wm_cuda_place_t *sorted = wm_cuda_curve_sort (place, place + n, n);
    for (uint32_t i = 0; i < n; i++)
        at[i] = sorted[i].hit;
    free (place);
    return at;
}

/* One position of one tile: adds what is done there for its n hits.  */
static void count_step (const map_t *map, const uint32_t *at, uint32_t n, size_t position,
                        gpu_work_t *work)
{
    uint32_t pairs = 0;
    for (uint32_t i = 0; i < n; i++)
        pairs += map->active[at[i] + position];
    work->active += pairs;
    work->tensor_flop += n / 8. * GROUP_FLOP;
    work->l2_bytes += pairs * (double) WM_GPU_SEGMENT + (double) n / TILE * WM_GPU_PANEL;
}

void gpu_count_work (const wm_batch_t *batch, const wm_spec_t *spec, gpu_work_t *work)
{
    const double hits = batch->n_hit, sums = hits * WM_GPU_SUMS * sizeof (float),
                 strips = 1 + (PATCH - 1.) / WM_CUDA_STARTS; /* neighbours overlap */
    map_t map = map_of (batch);
    uint32_t *at = windows_of (batch, &map), tiles = (batch->n_hit + TILE - 1) / TILE;
    assert (spec->patch_wire == PATCH && spec->patch_bin == PATCH);
    *work = (gpu_work_t){ 0 };
    work->memory_bytes = (double) map.n_row * map.n_col * strips * sizeof (float) +
                         (double) map.n_active * strips * WM_GPU_SEGMENT + 2 * sums;
    for (uint32_t t = 0; t < tiles; t++)
        for (uint32_t p = 0; p < SIDE * SIDE; p++)
            count_step (&map, at + t * TILE,
                        batch->n_hit - t * TILE < TILE ? batch->n_hit - t * TILE : TILE,
                        (size_t) (p / SIDE) * map.n_col + p % SIDE, work);
    work->active /= hits * SIDE * SIDE;
    free (at);
    free (map.active);
}

/* ---- counted kernel by kernel ---------------------------------------------------------------- */

#define USUAL 55000. /* hits to which counts are scaled */

void gpu_count_kernels (const wm_net_t *net, const wm_spec_t *spec, wm_gpu_precision_t precision,
                        uint32_t n, const wm_batch_t *const *batch, size_t free_bytes,
                        gpu_counted_t *counted)
{
    const wm_cuda_config_t config = { .precision = precision };
    wm_error_t error = { 0 };
    float **scores = calloc (n, sizeof *scores);
    *counted = (gpu_counted_t){ 0 };
    for (uint32_t i = 0; scores && i < n; i++) {
        scores[i] = calloc (batch[i]->n_hit, GPU_OUTPUTS * sizeof **scores);
        assert (scores[i]);
        counted->n_hit += batch[i]->n_hit;
    }
    wm_gpu_fake = (wm_gpu_fake_t){ .free_bytes = free_bytes };
    wm_cuda_t *cuda = wm_cuda_new (&wm_gpu_stand_in, net, spec, &config, &error);
    assert (cuda && scores);
    wm_gpu_fake.counts = true;
    for (int round = 0; round < 2; round++) { /* the first fills the image once and for all */
        memset (wm_gpu_fake.work, 0, sizeof wm_gpu_fake.work);
        wm_gpu_fake.copied_in = 0;
        const wm_fault_t fault =
            wm_cuda_score_many (cuda, round ? n : 1, batch, scores, NULL, &error);
        assert (!fault);
    }
    memcpy (counted->work, wm_gpu_fake.work, sizeof counted->work);
    counted->copied_in = wm_gpu_fake.copied_in;
    wm_cuda_destroy (&cuda);
    wm_gpu_fake = (wm_gpu_fake_t){ 0 };
    for (uint32_t i = 0; i < n; i++)
        free (scores[i]);
    free (scores);
}

double gpu_counted_written (const gpu_counted_t *counted)
{
    double written = counted->copied_in;
    for (int k = 0; k < WM_GPU_KERNELS; k++)
        written += counted->work[k].written;
    return written * USUAL / counted->n_hit;
}

void gpu_counted_print (const gpu_counted_t *counted, const char *what)
{
    static const char *const name[WM_GPU_KERNELS] = { [WM_GPU_FILL] = "fill",
                                                      [WM_GPU_SCATTER] = "scatter",
                                                      [WM_GPU_ACTIVE] = "active",
                                                      [WM_GPU_TAIL] = "tail",
                                                      [WM_GPU_DENSE] = "dense",
                                                      [WM_GPU_DENSE_SPLIT] = "densesplit",
                                                      [WM_GPU_DENSE_FMA] = "densefma",
                                                      [WM_GPU_DENSE_WIDE] = "densewide",
                                                      [WM_GPU_DENSE_WIDE_SPLIT] =
                                                          "densewidesplit" };
    const double share = USUAL / counted->n_hit;
    for (int k = 0; k < WM_GPU_KERNELS; k++) {
        const wm_gpu_fake_work_t *work = &counted->work[k];
        if (work->launches)
            printf ("| %s | %s | %.1f | %.1f | %.4f | %.1f |\n", what, name[k],
                    work->launches * share, work->written * share / 1e6, work->flop * share / 1e12,
                    work->l2 * share / 1e9);
    }
    printf ("| %s | copies in | | %.1f | | |\n| %s | together | | %.1f | | |\n", what,
            counted->copied_in * share / 1e6, what, gpu_counted_written (counted) / 1e6);
    fflush (stdout);
}
