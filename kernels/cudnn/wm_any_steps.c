/* wm_any_steps.c - runs the steps of any CNN on a chunk, and checks or gauges their values.  */
#include "kernels/cudnn/wm_any_engine_private.h"
#include "kernels/family/wm_range.h"
#include "kernels/gpu/wm_gpu_any.cuh"

#include <float.h>

#define THREADS 256u
#define BLOCKS_MAX 4096u

uint32_t wm_any_flags (const wm_any_t *self)
{
    return self->measures ? 2 * (self->net->n_step + 1) : self->rows * (1 + self->place.n_doubt);
}

static void *at (const wm_any_t *self, const wm_any_chunk_t *chunk, uint32_t buffer)
{
    return buffer == WM_ANY_INPUT    ? chunk->d_source
           : buffer == WM_ANY_SCORES ? chunk->d_scores
                                     : chunk->d_buffer[self->place.slot_of[buffer]];
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Launches a kernel of any grid for `items` elements, of which a thread takes four or eight.  */
static wm_gpu_text_t launch (wm_any_t *self, wm_any_chunk_t *chunk, wm_gpu_kernel_t kernel,
                             size_t items, const void *args)
{
    const size_t blocks = (items / 4 + THREADS - 1) / THREADS;
    wm_gpu_launch_t what = { kernel,
                             (uint32_t) (blocks == 0           ? 1
                                         : blocks < BLOCKS_MAX ? blocks
                                                               : BLOCKS_MAX),
                             THREADS, 0, args };
    CALL (launch, &what, chunk->stream);
    return NULL;
}

static wm_gpu_text_t launch_copy (wm_any_t *self, wm_any_chunk_t *chunk, const wm_gpu_copy_t *args)
{
    const uint32_t tiles = wm_gpu_copy_tiles (args);
    const wm_gpu_launch_t what = { WM_GPU_COPY, args->rows * tiles, THREADS, WM_GPU_TILE_BYTES,
                                   args };
    if (!tiles)
        return launch (self, chunk, WM_GPU_COPY, (size_t) args->rows * args->n, args);
    CALL (launch, &what, chunk->stream);
    return NULL;
}

/* The flags of rows in doubt by a buffer's values; NULL: nothing depends on them.  */
static uint32_t *doubt (const wm_any_t *self, const wm_any_chunk_t *chunk, uint32_t buffer)
{
    return buffer == WM_ANY_NONE || self->place.bound[buffer] == 0
               ? NULL
               : chunk->d_held + (1 + (size_t) self->place.doubt[buffer]) * self->rows;
}

/* Holds the rows of a buffer with a value that is not finite.  */
static wm_gpu_text_t scan (wm_any_t *self, wm_any_chunk_t *chunk, uint32_t buffer)
{
    const wm_gpu_scan_t args = { .from = at (self, chunk, buffer),
                                 .held = chunk->d_held,
                                 .doubt = doubt (self, chunk, buffer),
                                 .only = doubt (self, chunk, self->place.only[buffer]),
                                 .bound = self->place.bound[buffer],
                                 .rows = self->rows,
                                 .n = self->net->size[buffer],
                                 .half = self->place.half[buffer],
                                 .each = 1,
                                 .limit = FLT_MAX };
    return launch (self, chunk, WM_GPU_SCAN, (size_t) args.rows * args.n, &args);
}

/* What a step of ours checks: patches, and halves. Scores are written when all checks are over.  */
static wm_gpu_checks_t checks (const wm_any_t *self, const wm_any_chunk_t *chunk, uint32_t from,
                               uint32_t second, uint32_t to)
{
    const bool *half = self->place.half;
    wm_gpu_checks_t checks = { .flag = chunk->d_held };
    if (self->measures || to == WM_ANY_SCORES)
        return checks;
    checks.what =
        (half[from] || from == WM_ANY_INPUT ? WM_GPU_CHECK_FROM : 0) |
        (second != WM_ANY_NONE && (half[second] || second == WM_ANY_INPUT) ? WM_GPU_CHECK_SECOND
                                                                           : 0) |
        (half[to] ? WM_GPU_CHECK_TO : 0);
    checks.doubt = doubt (self, chunk, to), checks.bound = self->place.bound[to];
    return checks;
}

/* What a convolution reads, as half or float32: itself, or converted.  */
static wm_gpu_text_t convert (wm_any_t *self, wm_any_chunk_t *chunk, uint32_t buffer, bool half,
                              const void **d_from)
{
    const uint32_t n = self->net->size[buffer];
    *d_from = at (self, chunk, buffer);
    if (self->place.half[buffer] == half)
        return NULL;
    wm_gpu_join_t args = { .from = *d_from,
                           .to = chunk->d_scratch,
                           .rows = self->rows,
                           .n = n,
                           .half_from = self->place.half[buffer],
                           .half_to = half,
                           .checks = checks (self, chunk, buffer, WM_ANY_NONE, buffer),
                           WM_GPU_JOIN_PLAIN };
    args.checks.what |= half && !self->measures ? WM_GPU_CHECK_TO : 0;
    *d_from = chunk->d_scratch;
    return launch (self, chunk, WM_GPU_JOIN, (size_t) args.rows * n, &args);
}

static wm_gpu_text_t run_conv (wm_any_t *self, wm_any_chunk_t *chunk, uint32_t index)
{
    const wm_any_step_t *step = &self->net->step[index];
    const bool half = self->place.conv[index];
    const void *d_from, *d_weight = self->d_constant + step->weight,
                        *d_bias = self->d_constant + step->bias;
    TRY (convert (self, chunk, step->from, half, &d_from));
    if (half)
        d_weight = self->d_half + step->weight, d_bias = self->d_half + step->bias;
    CALL (conv_run, self->plan[index], d_from, d_weight, d_bias, at (self, chunk, step->to),
          chunk->d_workspace, chunk->stream);
    return NULL;
}

static wm_gpu_text_t run_step (wm_any_t *self, wm_any_chunk_t *chunk, uint32_t index)
{
    const wm_any_step_t *step = &self->net->step[index];
    const size_t rows = self->rows;
    const void *from = at (self, chunk, step->from);
    void *to = at (self, chunk, step->to);
    const bool half_from = self->place.half[step->from], half_to = self->place.half[step->to];
    switch (step->kind) {
    case WM_ANY_CONV:
        return run_conv (self, chunk, index);
    case WM_ANY_POOL: {
        wm_gpu_pool_t args = step->pool;
        args.from = from, args.to = to, args.rows = self->rows;
        args.half_from = half_from, args.half_to = half_to;
        args.checks = checks (self, chunk, step->from, WM_ANY_NONE, step->to);
        return launch (self, chunk, WM_GPU_POOL, rows * args.out[0] * args.out[1] * args.channels,
                       &args);
    }
    case WM_ANY_JOIN: {
        wm_gpu_join_t args = step->join;
        args.from = from, args.to = to, args.rows = self->rows;
        args.half_from = half_from, args.half_to = half_to;
        args.checks = checks (self, chunk, step->from, step->second, step->to);
        args.slope = args.n_slope ? self->d_constant + step->weight : NULL;
        if (step->second != WM_ANY_NONE) {
            args.second = at (self, chunk, step->second);
            args.half_second = self->place.half[step->second];
        }
        return launch (self, chunk, WM_GPU_JOIN, rows * args.n, &args);
    }
    case WM_ANY_COPY: {
        wm_gpu_copy_t args = step->copy;
        args.from = from, args.to = to, args.rows = self->rows;
        args.half_from = half_from, args.half_to = half_to;
        args.checks = checks (self, chunk, step->from, WM_ANY_NONE, step->to);
        args.held = step->to == WM_ANY_SCORES && !self->measures ? chunk->d_held : NULL;
        return launch_copy (self, chunk, &args);
    }
    default: {
        wm_gpu_spread_t args = step->spread;
        args.value = to, args.rows = self->rows;
        return launch (self, chunk, WM_GPU_SPREAD, rows * args.groups * 4, &args);
    }
    }
}

/* Marks whether a step's values, or at n_step the patches', are large, and whether they are more
   than tiny, anywhere.  */
static wm_gpu_text_t gauge (wm_any_t *self, wm_any_chunk_t *chunk, uint32_t index, uint32_t buffer)
{
    static const float limit[2] = { (float) (WM_HALF_MAX / WM_ANY_HEADROOM), (float) WM_ANY_TINY };
    for (uint32_t k = 0; k < 2; k++) {
        const wm_gpu_scan_t args = { .from = at (self, chunk, buffer),
                                     .held = chunk->d_held + k * (self->net->n_step + 1) + index,
                                     .rows = self->rows,
                                     .n = self->net->size[buffer],
                                     .limit = limit[k] };
        TRY (launch (self, chunk, WM_GPU_SCAN, (size_t) args.rows * args.n, &args));
    }
    return NULL;
}

bool wm_any_leaves (const wm_any_net_t *net, uint32_t index)
{
    const wm_any_step_t *step = &net->step[index];
    return step->kind != WM_ANY_SPREAD &&
           (index + 1 == net->n_step || step[1].to != step->to || step[1].kind == WM_ANY_SPREAD);
}

/* Checks a step's values where no kernel of ours does, or gauges them.  */
static wm_gpu_text_t look (wm_any_t *self, wm_any_chunk_t *chunk, uint32_t index)
{
    const wm_any_step_t *step = &self->net->step[index];
    if (self->measures && wm_any_leaves (self->net, index) && step->to != WM_ANY_SCORES)
        return gauge (self, chunk, index, step->to);
    if (!self->measures && step->kind == WM_ANY_CONV && self->place.scanned[step->to])
        return scan (self, chunk, step->to);
    return NULL;
}

wm_gpu_text_t wm_any_start_steps (wm_any_t *self, wm_any_chunk_t *chunk)
{
    const wm_gpu_fill_t none = { (float *) (void *) chunk->d_held, wm_any_flags (self), 0 };
    TRY (launch (self, chunk, WM_GPU_FILL, none.count, &none));
    if (self->measures)
        TRY (gauge (self, chunk, self->net->n_step, WM_ANY_INPUT));
    else if (self->place.scanned[WM_ANY_INPUT])
        TRY (scan (self, chunk, WM_ANY_INPUT));
    for (uint32_t i = 0; i < self->net->n_step; i++) {
        TRY (run_step (self, chunk, i));
        TRY (look (self, chunk, i));
    }
    CALL (copy_out, chunk->h_scores, chunk->d_scores, self->rows * self->n_output * sizeof (float),
          chunk->stream);
    return NULL;
}

wm_gpu_text_t wm_any_start (wm_any_t *self, wm_any_chunk_t *chunk)
{
    if (!chunk->graph)
        return wm_any_start_steps (self, chunk);
    CALL (graph_run, chunk->graph, chunk->stream);
    return NULL;
}
