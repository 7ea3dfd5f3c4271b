/* wm_gpu_any.cuh - what any CNN needs beside convolutions: reordering, pools, sums, softmax, and
   range checks.

   v1. copy: one element a thread and pass, its place counted out of five dimensions. pool: one
   output a thread and pass, its window in reading order. spread: one thread takes a whole group, in
   the order of its values. So no bit depends on the grid, and a maximum of NaN is NaN.  */
#ifndef WM_GPU_ANY_CUH
#define WM_GPU_ANY_CUH

#include "kernels/cuda/wm_gpu_kernels.cuh"

#include <stdbool.h>

WM_GPU_CODE uint32_t wm_gpu_copy_phases (const wm_gpu_copy_t *args)
{
    (void) args;
    return 1;
}

WM_GPU_CODE void wm_gpu_copy (const wm_gpu_copy_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t phase)
{
    (void) shared, (void) phase;
    const size_t all = (size_t) args->rows * args->n, step = (size_t) at.blocks * at.threads;
    for (size_t i = (size_t) at.block * at.threads + at.thread; i < all; i += step) {
        uint32_t left = (uint32_t) (i % args->n);
        size_t from = i / args->n * args->from_row, to = i / args->n * args->to_row;
        for (int k = (int) WM_GPU_COPY_DIMS - 1; k >= 0; k--) {
            from += (size_t) (left % args->dim[k]) * args->from_stride[k];
            to += (size_t) (left % args->dim[k]) * args->to_stride[k];
            left /= args->dim[k];
        }
        const bool held = args->held && args->held[i / args->n];
        wm_gpu_store (args->to, to + args->to_first, args->half_to,
                      held ? NAN : wm_gpu_load (args->from, from, args->half_from));
    }
}

WM_GPU_CODE uint32_t wm_gpu_scan_phases (const wm_gpu_scan_t *args)
{
    (void) args;
    return 1;
}

/* All threads that write a flag in one launch write the same.  */
WM_GPU_CODE void wm_gpu_scan (const wm_gpu_scan_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t phase)
{
    (void) shared, (void) phase;
    const size_t all = (size_t) args->rows * args->n, step = (size_t) at.blocks * at.threads;
    for (size_t i = (size_t) at.block * at.threads + at.thread; i < all; i += step) {
        uint32_t *held = args->held + i / args->n * args->each;
        if (!(fabsf (wm_gpu_load (args->from, i, args->half)) <= args->limit) && *held == 0)
            *held = args->mark;
    }
}

WM_GPU_CODE uint32_t wm_gpu_spread_phases (const wm_gpu_spread_t *args)
{
    (void) args;
    return 1;
}

WM_GPU_CODE void wm_gpu_spread (const wm_gpu_spread_t *args, float *shared, wm_gpu_at_t at,
                                uint32_t phase)
{
    (void) shared, (void) phase;
    const size_t all = (size_t) args->rows * args->groups, step = (size_t) at.blocks * at.threads;
    for (size_t i = (size_t) at.block * at.threads + at.thread; i < all; i += step)
        wm_gpu_softmax (args->value + i * args->n, args->n);
}

WM_GPU_CODE uint32_t wm_gpu_pool_phases (const wm_gpu_pool_t *args)
{
    (void) args;
    return 1;
}

/* One output: channel `c` of place (oi, oj) of the row that begins at x.  */
WM_GPU_CODE float wm_gpu_pool_one (const wm_gpu_pool_t *args, size_t x, uint32_t oi, uint32_t oj,
                                   uint32_t c)
{
    float most = -INFINITY, sum = 0, count = 0;
    for (uint32_t t = 0; t < args->kernel[0] * args->kernel[1]; t++) {
        const int64_t i = (int64_t) oi * args->stride[0] + t / args->kernel[1] - args->before[0],
                      j = (int64_t) oj * args->stride[1] + t % args->kernel[1] - args->before[1];
        const bool inside = i >= 0 && j >= 0 && i < args->in[0] && j < args->in[1];
        if (inside || args->count_padding)
            count += 1;
        if (!inside)
            continue;
        const float value = wm_gpu_load (
            args->from, x + ((size_t) i * args->in[1] + (size_t) j) * args->channels + c,
            args->half_from);
        if (!(value <= most) && most == most)
            most = value;
        sum += value;
    }
    return args->mean ? sum / count : most;
}

WM_GPU_CODE void wm_gpu_pool (const wm_gpu_pool_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t phase)
{
    (void) shared, (void) phase;
    const size_t row = (size_t) args->in[0] * args->in[1] * args->channels,
                 places = (size_t) args->out[0] * args->out[1],
                 all = args->rows * places * args->channels, step = (size_t) at.blocks * at.threads;
    for (size_t i = (size_t) at.block * at.threads + at.thread; i < all; i += step) {
        const size_t place = i / args->channels;
        const float value =
            wm_gpu_pool_one (args, place / places * row, (uint32_t) (place % places / args->out[1]),
                             (uint32_t) (place % args->out[1]), (uint32_t) (i % args->channels));
        wm_gpu_store (args->to, i, args->half_to, value);
    }
}

WM_GPU_CODE uint32_t wm_gpu_join_phases (const wm_gpu_join_t *args)
{
    (void) args;
    return 1;
}

WM_GPU_CODE void wm_gpu_join (const wm_gpu_join_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t phase)
{
    (void) shared, (void) phase;
    const size_t all = (size_t) args->rows * args->n, step = (size_t) at.blocks * at.threads;
    for (size_t i = (size_t) at.block * at.threads + at.thread; i < all; i += step) {
        float value = wm_gpu_load (args->from, i, args->half_from);
        if (args->second)
            value += wm_gpu_load (args->second, i, args->half_second);
        const float bend =
            args->slope ? args->slope[i % args->n / args->slope_run % args->n_slope] : args->bend;
        value = args->scale * value + args->shift;
        if (args->act == WM_ACT_CLIP) {
            value = value < args->least ? args->least : value;
            value = value > bend ? bend : value;
        } else
            value = wm_gpu_activate (args->act, bend, value);
        value *= args->gain;
        wm_gpu_store (args->to, i, args->half_to, args->tf32 ? wm_tf32 (value) : value);
    }
}

#endif
