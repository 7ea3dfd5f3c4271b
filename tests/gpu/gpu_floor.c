/* gpu_floor.c - counts bytes and operations of the engine's versions for an event.

   Versions 2 and 3 as wm_gpu_dense.cuh has them: tiles of 256 hits in the order of the curve, which
   read a panel of weights a position and 96 bytes of each active hit, and multiply 8 hits at a
   time. Version 3 leaves inactive positions out, which depends on the event, so they are counted
   there.  */
#include "tests/gpu/gpu_floor.h"
#include "kernels/cuda/wm_cuda.h"
#include "kernels/cuda/wm_cuda_curve.h"
#include "kernels/cuda/wm_gpu_args.h"

#include <assert.h>
#include <math.h>
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
} map_t;

/* Active positions of a plane with its margins, as wm_cuda_plane.h lays it out.  */
static map_t map_of (const wm_batch_t *batch)
{
    map_t map = { batch->n_wire + PATCH, batch->n_col + 2 * PATCH, NULL };
    map.active = calloc (map.n_row, map.n_col);
    assert (map.active);
    for (uint32_t r = 0; r < batch->n_run; r++) {
        const uint32_t wire = batch->run_wire[r] + PATCH / 2, first = batch->run_first[r] + PATCH;
        for (uint32_t y = wire < WINDOW ? 0 : wire - WINDOW + 1; y <= wire; y++)
            memset (map.active + (size_t) y * map.n_col + first - WINDOW + 1, 1,
                    batch->run_length[r] + WINDOW - 1);
    }
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

/* One position of one tile: adds what version 3 does there.  */
static void count_step (const map_t *map, const uint32_t *at, uint32_t n, size_t position,
                        gpu_work_t *work)
{
    uint32_t pairs = 0, groups = 0;
    for (uint32_t g = 0; g < n; g += 8) {
        uint32_t taken = 0;
        for (uint32_t i = g; i < g + 8 && i < n; i++)
            taken += map->active[at[i] + position];
        pairs += taken, groups += taken > 0;
    }
    work->active += pairs;
    work->tensor_flop += groups * GROUP_FLOP;
    work->l2_bytes += pairs * (double) WM_GPU_SEGMENT + (groups ? WM_GPU_PANEL : 0);
}

void gpu_count_work (const wm_batch_t *batch, const wm_spec_t *spec, gpu_work_t work[4])
{
    const double hits = batch->n_hit, positions = SIDE * SIDE, values = positions * 48;
    map_t map = map_of (batch);
    uint32_t *at = windows_of (batch, &map), tiles = (batch->n_hit + TILE - 1) / TILE;
    const double rows = ceil (hits / WM_CUDA_ROWS) * WM_CUDA_ROWS,
                 cells = (double) map.n_row * map.n_col, sums = hits * 11 * WM_GPU_SUMS * 4 * 2,
                 strips = 1 + (PATCH - 1.) / WM_CUDA_STARTS;
    assert (spec->patch_wire == PATCH && spec->patch_bin == PATCH);
    memset (work, 0, 4 * sizeof *work);
    work[1].tensor_flop = rows * 2 * values * (25 + 128);
    work[1].memory_bytes = rows * (2304 * (4 + 2 + 2) + values * 2 * 2 + SIDE * 128 * 4 * 2);
    work[1].active = work[2].active = 1;
    work[2].tensor_flop = tiles * (TILE / 8) * positions * GROUP_FLOP;
    work[2].l2_bytes = tiles * positions * (WM_GPU_PANEL + TILE * (double) WM_GPU_SEGMENT);
    work[2].memory_bytes = cells * strips * (4 + 2 + 2 + 2 * 96) + sums;
    for (uint32_t t = 0; t < tiles; t++)
        for (uint32_t p = 0; p < SIDE * SIDE; p++)
            count_step (&map, at + t * TILE,
                        batch->n_hit - t * TILE < TILE ? batch->n_hit - t * TILE : TILE,
                        (size_t) (p / SIDE) * map.n_col + p % SIDE, &work[3]);
    work[3].active /= hits * positions;
    work[3].memory_bytes = work[2].memory_bytes;
    for (int v = 2; v <= 3; v++) /* the plane's convolution; cuDNN fills one channel up to 8 */
        work[v].tensor_flop += cells * strips * 2 * 25 * 8 * 48;
    free (at);
    free (map.active);
}
