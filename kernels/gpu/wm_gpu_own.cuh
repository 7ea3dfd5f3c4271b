/* wm_gpu_own.cuh - own view on the GPU: ticks to phase images, and the patches that are no window.

   v1. The same numbers as wm_image.c and wm_plane.c make on the host, bit for bit: sums in double,
   in the order of ticks, products and sums rounded one by one (compile.c). A bin is one thread's;
   where two runs touch it, both of their warps compute it and write the same value. Ticks are read
   where the runs lie, no plane of ticks is laid out: a bin reads W of them.

   Double is slow on some GPUs (1/64 of float32), and does not matter: a plane has about a million
   touched bins in six phases, 20 million operations.  */
#ifndef WM_GPU_OWN_CUH
#define WM_GPU_OWN_CUH

#include "kernels/gpu/wm_gpu_kernels.cuh"

/* ---- ticks from runs ------------------------------------------------------------------------- */

/* Where samples are read: a wire, what tick 0 of the reader is, and where the plane ends for
   it.  */
typedef struct {
    const wm_gpu_ticks_t *ticks;
    uint32_t wire, run; /* run: none before it on this wire reaches a tick that is still to come */
    int64_t first, last;
} wm_gpu_reader_t;

WM_GPU_CODE int64_t wm_gpu_run_end (const wm_gpu_ticks_t *ticks, uint32_t run)
{
    return (int64_t) ticks->first[run] + (ticks->begin[run + 1] - ticks->begin[run]);
}

/* The first run of a wire that ends behind `tick`, or the first run after all those.  */
WM_GPU_CODE uint32_t wm_gpu_run_find (const wm_gpu_ticks_t *ticks, uint32_t wire, int64_t tick)
{
    uint32_t low = 0, high = ticks->n_run;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (ticks->wire[mid] < wire ||
            (ticks->wire[mid] == wire && wm_gpu_run_end (ticks, mid) <= tick))
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Sample `at` of the reader; 0 between runs. Ascending calls.  */
WM_GPU_CODE double wm_gpu_sample (wm_gpu_reader_t *reader, uint32_t at)
{
    const wm_gpu_ticks_t *ticks = reader->ticks;
    const int64_t tick = reader->first + at;
    if (tick >= reader->last)
        return 0;
    while (reader->run < ticks->n_run && ticks->wire[reader->run] == reader->wire &&
           wm_gpu_run_end (ticks, reader->run) <= tick)
        reader->run++;
    if (reader->run >= ticks->n_run || ticks->wire[reader->run] != reader->wire ||
        ticks->first[reader->run] > tick || wm_gpu_run_end (ticks, reader->run) <= tick)
        return 0;
    return (double) ticks->value[ticks->begin[reader->run] + (tick - ticks->first[reader->run])];
}

/* ---- bins ------------------------------------------------------------------------------------ */

WM_GPU_CODE float wm_gpu_scaled (const wm_image_scaling_t *scaling, double adc)
{
    double v = adc * scaling->amplitude;
    double clamped = v < scaling->adc_min   ? scaling->adc_min
                     : v > scaling->adc_max ? scaling->adc_max
                                            : v;
    return (float) (scaling->zero + scaling->slope * clamped + 0. * v);
}

WM_GPU_CODE double wm_gpu_mean (wm_gpu_reader_t *reader, uint32_t at, uint32_t window)
{
    double sum = 0;
    for (uint32_t i = 0; i < window; i++)
        sum += wm_gpu_sample (reader, at + i);
    return sum / window;
}

/* The largest sample of a bin, and where the first of them is. Not finite if one of them is not. */
WM_GPU_CODE double wm_gpu_top (wm_gpu_reader_t *reader, uint32_t at, uint32_t window, uint32_t *top)
{
    double most = wm_gpu_sample (reader, at), zero = 0. * most;
    *top = at;
    for (uint32_t i = at + 1; i < at + window; i++) {
        double v = wm_gpu_sample (reader, i);
        zero += 0. * v;
        if (v > most)
            most = v, *top = i;
    }
    return most + zero;
}

/* The same with its neighbours among n_tick samples; the reader starts again for each.  */
WM_GPU_CODE double wm_gpu_maxmean (const wm_gpu_reader_t *reader, uint32_t at, uint32_t window,
                                   uint32_t n_tick)
{
    wm_gpu_reader_t from = *reader;
    uint32_t top;
    double sum = wm_gpu_top (&from, at, window, &top), count = 1;
    if (top > 0) {
        from = *reader;
        from.run = wm_gpu_run_find (from.ticks, from.wire, from.first + top - 1);
        sum += wm_gpu_sample (&from, top - 1), count++;
    }
    if (top + 1 < n_tick) {
        from = *reader;
        sum += wm_gpu_sample (&from, top + 1), count++;
    }
    return sum / count;
}

/* ---- phases ---------------------------------------------------------------------------------- */

WM_GPU_ONE_PHASE (wm_gpu_phases)

WM_GPU_CODE void wm_gpu_phases (const wm_gpu_phases_t *args, float *shared, wm_gpu_at_t at,
                                uint32_t step)
{
    (void) shared, (void) step;
    const wm_gpu_ticks_t *ticks = &args->ticks;
    const uint32_t item = at.block * (at.threads / 32) + at.thread / 32;
    if (item >= ticks->n_run * args->n_image)
        return;
    const uint32_t run = item / args->n_image, image = item % args->n_image, w = ticks->wire[run];
    const int64_t phase = args->phase[image], window = args->window,
                  last = wm_gpu_run_end (ticks, run) - phase;
    if (last <= 0)
        return;
    const int64_t first = ticks->first[run] > phase ? ticks->first[run] - phase : 0;
    float *row =
        args->image + ((size_t) image * args->n_row + args->top + w) * (size_t) args->n_col;
    for (int64_t bin = first / window + at.thread % 32;
         bin < (last + window - 1) / window && bin < args->n_bin; bin += 32) {
        if (args->clear) {
            row[bin] = args->zero;
            continue;
        }
        wm_gpu_reader_t reader = { ticks, w, run, phase + bin * window, INT64_MAX };
        while (reader.run > 0 && ticks->wire[reader.run - 1] == w &&
               wm_gpu_run_end (ticks, reader.run - 1) > reader.first)
            reader.run--; /* runs before this one that reach into the bin */
        uint32_t top;
        double v = args->maxpool ? wm_gpu_top (&reader, 0, args->window, &top)
                                 : wm_gpu_mean (&reader, 0, args->window);
        row[bin] = wm_gpu_scaled (&args->scaling, v);
    }
}

/* ---- cut ------------------------------------------------------------------------------------- */

WM_GPU_ONE_PHASE (wm_gpu_cut)

WM_GPU_CODE void wm_gpu_cut (const wm_gpu_cut_t *args, float *shared, wm_gpu_at_t at, uint32_t step)
{
    (void) shared, (void) step;
    const uint32_t n_tick = args->width * args->window;
    const int64_t begin = (int64_t) args->hit_col[at.block] - n_tick / 2,
                  last = begin + n_tick - n_tick % 2; /* an odd one counts 0 ADC */
    float *patch = args->image + args->offset[at.block];
    for (uint32_t i = at.thread; i < args->height * args->width; i += at.threads) {
        const int64_t wire =
            (int64_t) args->hit_wire[at.block] - args->height / 2 + i / args->width;
        const uint32_t tick = i % args->width * args->window;
        wm_gpu_reader_t reader = { &args->ticks, (uint32_t) wire, 0, begin < 0 ? 0 : begin, last };
        uint32_t top;
        double v;
        if (wire < 0 || wire >= args->n_wire) /* no run is there */
            reader.run = args->ticks.n_run;
        else
            reader.run = wm_gpu_run_find (&args->ticks, reader.wire, reader.first + tick);
        if (args->downscale == WM_MEAN)
            v = wm_gpu_mean (&reader, tick, args->window);
        else if (args->downscale == WM_MAXPOOL)
            v = wm_gpu_top (&reader, tick, args->window, &top);
        else
            v = wm_gpu_maxmean (&reader, tick, args->window, n_tick);
        patch[(size_t) (i / args->width) * args->stride + i % args->width] =
            wm_gpu_scaled (&args->scaling, v);
    }
}

#endif
