/* wm_gpu_any.cuh - what any CNN needs beside convolutions: reordering, pools, sums, softmax, and
   range checks.

   v2. A thread takes 16 bytes of neighbours at once: 8 halves, or 4 elements where a side is
   float32; one element where extents or addresses do not allow more. A block takes neighbours of
   one row at a time, so that places are counted in 32 bits. copy: runs; where neighbours in `to`
   are none in `from`, tiles by way of shared memory. pool: channels are neighbours, a window is
   taken in reading order. join and scan: a row in packs, its ends one by one. spread: one thread
   takes a whole group, in the order of its values. So no bit depends on the grid or on how many
   elements are taken at once, and a maximum of NaN is NaN.

   Values are checked where they are read or written anyway (wm_gpu_checks_t): nothing is read again
   for that. All threads that write a flag in one launch write the same.  */
#ifndef WM_GPU_ANY_CUH
#define WM_GPU_ANY_CUH

#include "kernels/gpu/wm_gpu_warp.cuh"

#include <stdbool.h>

#define WM_GPU_FINITE 3.402823466e38f
#define WM_GPU_TILE 32u
#define WM_GPU_TILE_LEAST 16u /* fewer neighbours are copied one by one */
#define WM_GPU_TILE_BYTES (WM_GPU_TILE * (WM_GPU_TILE + 1) * 4u)

/* ---- neighbours at once ---------------------------------------------------------------------- */

#ifdef __CUDACC__
WM_GPU_CODE void wm_gpu_read16 (uint32_t to[4], const void *from)
{
    const uint4 word = *(const uint4 *) from;
    to[0] = word.x, to[1] = word.y, to[2] = word.z, to[3] = word.w;
}

WM_GPU_CODE void wm_gpu_read8 (uint32_t to[2], const void *from)
{
    const uint2 word = *(const uint2 *) from;
    to[0] = word.x, to[1] = word.y;
}

WM_GPU_CODE void wm_gpu_write8 (void *to, const uint32_t from[2])
{
    *(uint2 *) to = make_uint2 (from[0], from[1]);
}

WM_GPU_CODE void wm_gpu_access (const void *p, uint32_t bytes, bool writes)
{
    (void) p, (void) bytes, (void) writes;
}
#else
WM_GPU_CODE void wm_gpu_read16 (uint32_t to[4], const void *from)
{
    memcpy (to, from, 16);
}

WM_GPU_CODE void wm_gpu_read8 (uint32_t to[2], const void *from)
{
    memcpy (to, from, 8);
}

WM_GPU_CODE void wm_gpu_write8 (void *to, const uint32_t from[2])
{
    memcpy (to, from, 8);
}

/* The stand-in counts these kernels' accesses to the device's memory.  */
void wm_gpu_access (const void *p, uint32_t bytes, bool writes);
#endif

/* How many elements are taken at once. halves: whether all sides are; extents: an OR of all that
   must be multiples of it, in elements; addresses: of those that must be multiples of 16 bytes.  */
WM_GPU_CODE uint32_t wm_gpu_width (bool halves, uint32_t extents, size_t addresses)
{
    return addresses % 16 ? 1 : halves && extents % 8 == 0 ? 8 : extents % 4 == 0 ? 4 : 1;
}

/* Calls a function for so many elements at once, a number that is known when it is compiled.  */
#define WM_GPU_BY_WIDTH(function, args, at, width)                                                 \
    do {                                                                                           \
        if ((width) == 8)                                                                          \
            function (args, at, 8);                                                                \
        else if ((width) == 4)                                                                     \
            function (args, at, 4);                                                                \
        else                                                                                       \
            function (args, at, 1);                                                                \
    } while (0)

/* Whether a word, two halves or a float32, is finite: no exponent has ones only.  */
WM_GPU_CODE bool wm_gpu_word_finite (uint32_t word, uint32_t half)
{
    const uint32_t low = half ? 0x7c00u : 0x7f800000u, high = half ? 0x7c000000u : low;
    return (word & low) != low && (word & high) != high;
}

/* Whether all words of `width` elements are finite.  */
WM_GPU_CODE bool wm_gpu_words_finite (const uint32_t word[4], uint32_t half, uint32_t width)
{
    bool finite = wm_gpu_word_finite (word[0], half) && wm_gpu_word_finite (word[1], half);
    if (width == 8 || !half)
        finite = finite && wm_gpu_word_finite (word[2], half) && wm_gpu_word_finite (word[3], half);
    return finite;
}

/* Reads `width` elements from element i on: 1, 4, or 8 halves. Returns whether all are finite.  */
WM_GPU_CODE bool wm_gpu_take (float *value, const void *from, size_t i, uint32_t half,
                              uint32_t width)
{
    half = width == 8 ? 1 : half; /* known when this is compiled */
    const char *at = (const char *) from + i * (half ? 2 : 4);
    uint32_t word[4];
    wm_gpu_access (at, width * (half ? 2 : 4), false);
    if (width == 1) {
        value[0] = wm_gpu_load (from, i, half);
        return fabsf (value[0]) <= WM_GPU_FINITE;
    }
    if (width == 8 || !half)
        wm_gpu_read16 (word, at);
    else
        wm_gpu_read8 (word, at);
    if (!half)
        memcpy (value, word, 16);
    else {
        WM_GPU_UNROLL
        for (uint32_t k = 0; k < width; k++)
            value[k] = wm_half_value ((uint16_t) (word[k / 2] >> 16 * (k % 2)));
    }
    return wm_gpu_words_finite (word, half, width);
}

/* Writes them. Returns whether all are finite as they are stored.  */
WM_GPU_CODE bool wm_gpu_give (void *to, size_t i, uint32_t half, const float *value, uint32_t width)
{
    half = width == 8 ? 1 : half;
    char *at = (char *) to + i * (half ? 2 : 4);
    uint32_t word[4];
    wm_gpu_access (at, width * (half ? 2 : 4), true);
    if (width == 1) {
        wm_gpu_store (to, i, half, value[0]);
        return half ? wm_gpu_word_finite (wm_half (value[0]), 1)
                    : fabsf (value[0]) <= WM_GPU_FINITE;
    }
    if (!half)
        memcpy (word, value, 16);
    else {
        WM_GPU_UNROLL
        for (uint32_t k = 0; k < width; k += 2)
            word[k / 2] = wm_half (value[k]) | (uint32_t) wm_half (value[k + 1]) << 16;
    }
    if (width == 8 || !half)
        wm_gpu_write16 (at, word);
    else
        wm_gpu_write8 (at, word);
    return wm_gpu_words_finite (word, half, width);
}

WM_GPU_CODE void wm_gpu_mark (uint32_t *flag, bool bad)
{
    if (bad && *flag == 0)
        *flag = 1;
}

#define WM_GPU_BEYOND 8u /* beside WM_GPU_CHECK_FROM and others: a value is beyond the bound */

WM_GPU_CODE uint32_t wm_gpu_beyond (const float *value, uint32_t width, float bound)
{
    bool within = true;
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < width; k++)
        within = within && fabsf (value[k]) <= bound;
    return within ? 0 : WM_GPU_BEYOND;
}

/* Marks a row by what was found: not finite, or beyond the bound.  */
WM_GPU_CODE void wm_gpu_check (const wm_gpu_checks_t *checks, uint32_t row, uint32_t found)
{
    if (checks->what)
        wm_gpu_mark (checks->flag + row, (found & checks->what) != 0);
    if (checks->doubt)
        wm_gpu_mark (checks->doubt + row, (found & WM_GPU_BEYOND) != 0);
}

/* How many parts of `each` items there are, the last one perhaps smaller: blocks of a row, a thread
   an item, or tiles.  */
WM_GPU_CODE uint32_t wm_gpu_parts (uint32_t items, uint32_t each)
{
    return (items + each - 1) / each;
}

/* The packs of `width` elements that n of them may touch, wherever they begin.  */
WM_GPU_CODE uint32_t wm_gpu_packs (uint32_t n, uint32_t width)
{
    return n % width ? (n + 2 * width - 2) / width : n / width;
}

/* The elements of a row that lie in its pack number `item`: where the first is, how many.  */
typedef struct {
    size_t first;
    uint32_t count;
} wm_gpu_run_t;

WM_GPU_CODE wm_gpu_run_t wm_gpu_run (uint32_t row, uint32_t n, uint32_t width, uint32_t item)
{
    const size_t begin = (size_t) row * n, end = begin + n,
                 pack = (begin / width + item) * width, next = pack + width;
    wm_gpu_run_t run = { pack > begin ? pack : begin, 0 };
    if (run.first < end)
        run.count = (uint32_t) ((next < end ? next : end) - run.first);
    return run;
}

/* ---- copy ------------------------------------------------------------------------------------ */

/* Which dimension's neighbours in `from` are tiled with those in `to`, the last one's;
   WM_GPU_COPY_DIMS: none.  */
WM_GPU_CODE uint32_t wm_gpu_copy_turned (const wm_gpu_copy_t *args)
{
    const uint32_t last = WM_GPU_COPY_DIMS - 1;
    if (args->to_stride[last] != 1 || args->dim[last] < WM_GPU_TILE_LEAST)
        return WM_GPU_COPY_DIMS;
    for (uint32_t k = 0; k < last; k++)
        if (args->from_stride[k] == 1 && args->dim[k] >= WM_GPU_TILE_LEAST)
            return k;
    return WM_GPU_COPY_DIMS;
}

/* Tiles of a row; 0 where it is not copied by tiles.  */
WM_GPU_CODE uint32_t wm_gpu_copy_tiles (const wm_gpu_copy_t *args)
{
    const uint32_t last = WM_GPU_COPY_DIMS - 1, turned = wm_gpu_copy_turned (args);
    return turned == WM_GPU_COPY_DIMS ? 0
                                      : args->n / args->dim[last] / args->dim[turned] *
                                            wm_gpu_parts (args->dim[last], WM_GPU_TILE) *
                                            wm_gpu_parts (args->dim[turned], WM_GPU_TILE);
}

WM_GPU_CODE uint32_t wm_gpu_copy_phases (const wm_gpu_copy_t *args)
{
    return wm_gpu_copy_turned (args) == WM_GPU_COPY_DIMS ? 1 : 2;
}

/* Neighbours that are copied at once: all strides but the last, and where rows begin, are multiples
   of their number.  */
WM_GPU_CODE uint32_t wm_gpu_copy_width (const wm_gpu_copy_t *args)
{
    const uint32_t last = WM_GPU_COPY_DIMS - 1;
    uint32_t extents = args->from_row | args->to_row | args->to_first | args->dim[last];
    if (args->from_stride[last] != 1 || args->to_stride[last] != 1)
        return 1;
    for (uint32_t k = 0; k < last; k++)
        if (args->dim[k] > 1)
            extents |= args->from_stride[k] | args->to_stride[k];
    return wm_gpu_width (args->half_from && args->half_to, extents,
                         (size_t) args->from | (size_t) args->to);
}

/* Item `item` of a row: a run of `width` neighbours.  */
WM_GPU_CODE void wm_gpu_copy_some (const wm_gpu_copy_t *args, uint32_t row, uint32_t item,
                                  uint32_t width)
{
    const uint32_t last = WM_GPU_COPY_DIMS - 1, runs = args->dim[last] / width;
    size_t from = (size_t) row * args->from_row + item % runs * width * args->from_stride[last],
           to = (size_t) row * args->to_row + args->to_first +
                item % runs * width * args->to_stride[last];
    uint32_t left = item / runs;
    float value[8];
    for (uint32_t k = last; k-- > 0;) {
        if (args->dim[k] == 1)
            continue;
        from += (size_t) (left % args->dim[k]) * args->from_stride[k];
        to += (size_t) (left % args->dim[k]) * args->to_stride[k];
        left /= args->dim[k];
    }
    wm_gpu_take (value, args->from, from, args->half_from, width);
    if (args->held && args->held[row]) {
        WM_GPU_UNROLL
        for (uint32_t k = 0; k < width; k++)
            value[k] = NAN;
    }
    const uint32_t found = wm_gpu_give (args->to, to, args->half_to, value, width)
                               ? 0
                               : WM_GPU_CHECK_FROM | WM_GPU_CHECK_TO;
    wm_gpu_check (&args->checks, row, found | wm_gpu_beyond (value, width, args->checks.bound));
}

WM_GPU_CODE void wm_gpu_copy_runs (const wm_gpu_copy_t *args, wm_gpu_at_t at, uint32_t width)
{
    const uint32_t items = args->n / width, parts = wm_gpu_parts (items, at.threads);
    for (uint32_t u = at.block; u < args->rows * parts; u += at.blocks) {
        const uint32_t item = u % parts * at.threads + at.thread;
        if (item < items)
            wm_gpu_copy_some (args, u / parts, item, width);
    }
}

/* A tile of the block's own: first along the neighbours in `from`, then along those in `to`.  */
WM_GPU_CODE void wm_gpu_copy_tile (const wm_gpu_copy_t *args, float *shared, wm_gpu_at_t at,
                                   uint32_t phase)
{
    const uint32_t last = WM_GPU_COPY_DIMS - 1, turned = wm_gpu_copy_turned (args),
                   tiles = wm_gpu_copy_tiles (args), row = at.block / tiles,
                   n_last = wm_gpu_parts (args->dim[last], WM_GPU_TILE),
                   n_turned = wm_gpu_parts (args->dim[turned], WM_GPU_TILE);
    uint32_t left = at.block % tiles;
    const uint32_t first_last = left % n_last * WM_GPU_TILE,
                   first_turned = left / n_last % n_turned * WM_GPU_TILE;
    size_t from = (size_t) row * args->from_row, to = (size_t) row * args->to_row + args->to_first;
    uint32_t found = 0;
    left /= n_last * n_turned;
    for (uint32_t k = last; k-- > 0;) {
        if (k == turned || args->dim[k] == 1)
            continue;
        from += (size_t) (left % args->dim[k]) * args->from_stride[k];
        to += (size_t) (left % args->dim[k]) * args->to_stride[k];
        left /= args->dim[k];
    }
    for (uint32_t e = at.thread; e < WM_GPU_TILE * WM_GPU_TILE; e += at.threads) {
        const uint32_t across = e % WM_GPU_TILE, along = e / WM_GPU_TILE,
                       a = first_turned + (phase ? along : across),
                       b = first_last + (phase ? across : along);
        if (a >= args->dim[turned] || b >= args->dim[last])
            continue;
        if (phase == 0)
            wm_gpu_take (shared + along * (WM_GPU_TILE + 1) + across, args->from,
                         from + a + (size_t) b * args->from_stride[last], args->half_from, 1);
        else {
            const float value = args->held && args->held[row]
                                    ? NAN
                                    : shared[across * (WM_GPU_TILE + 1) + along];
            if (!wm_gpu_give (args->to, to + (size_t) a * args->to_stride[turned] + b,
                              args->half_to, &value, 1))
                found |= WM_GPU_CHECK_FROM | WM_GPU_CHECK_TO;
            found |= wm_gpu_beyond (&value, 1, args->checks.bound);
        }
    }
    if (phase)
        wm_gpu_check (&args->checks, row, found);
}

WM_GPU_CODE void wm_gpu_copy (const wm_gpu_copy_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t phase)
{
    const uint32_t width = wm_gpu_copy_width (args);
    if (wm_gpu_copy_turned (args) < WM_GPU_COPY_DIMS)
        wm_gpu_copy_tile (args, shared, at, phase);
    else
        WM_GPU_BY_WIDTH (wm_gpu_copy_runs, args, at, width);
}

/* ---- scan ------------------------------------------------------------------------------------ */

WM_GPU_ONE_PHASE (wm_gpu_scan)

/* WM_GPU_CHECK_FROM: a value is beyond the limit.  */
WM_GPU_CODE uint32_t wm_gpu_scan_some (const wm_gpu_scan_t *args, size_t i, uint32_t width)
{
    float value[8];
    wm_gpu_take (value, args->from, i, args->half, width);
    return (wm_gpu_beyond (value, width, args->limit) ? WM_GPU_CHECK_FROM : 0) |
           wm_gpu_beyond (value, width, args->bound);
}

WM_GPU_CODE void wm_gpu_scan_rows (const wm_gpu_scan_t *args, wm_gpu_at_t at, uint32_t width)
{
    const uint32_t items = wm_gpu_packs (args->n, width), parts = wm_gpu_parts (items, at.threads);
    for (uint32_t u = at.block; u < args->rows * parts; u += at.blocks) {
        const uint32_t row = u / parts, item = u % parts * at.threads + at.thread;
        const wm_gpu_run_t run = wm_gpu_run (row, args->n, width, item);
        uint32_t found = 0;
        if (args->only && args->only[row] == 0)
            continue;
        if (run.count == width)
            found = wm_gpu_scan_some (args, run.first, width);
        else
            for (uint32_t k = 0; k < run.count; k++)
                found |= wm_gpu_scan_some (args, run.first + k, 1);
        wm_gpu_mark (args->held + row * args->each, (found & WM_GPU_CHECK_FROM) != 0);
        if (args->doubt)
            wm_gpu_mark (args->doubt + row, (found & WM_GPU_BEYOND) != 0);
    }
}

WM_GPU_CODE void wm_gpu_scan (const wm_gpu_scan_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t phase)
{
    const uint32_t width = wm_gpu_width (args->half, 0, (size_t) args->from);
    (void) shared, (void) phase;
    WM_GPU_BY_WIDTH (wm_gpu_scan_rows, args, at, width);
}

/* ---- spread ---------------------------------------------------------------------------------- */

WM_GPU_ONE_PHASE (wm_gpu_spread)

WM_GPU_CODE void wm_gpu_softmax (float *value, uint32_t n)
{
    float top = value[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        if (!(value[i] <= top))
            top = value[i];
    for (uint32_t i = 0; i < n; i++)
        sum += value[i] = expf (value[i] - top);
    for (uint32_t i = 0; i < n; i++)
        value[i] /= sum;
}

WM_GPU_CODE void wm_gpu_spread (const wm_gpu_spread_t *args, float *shared, wm_gpu_at_t at,
                                uint32_t phase)
{
    (void) shared, (void) phase;
    const size_t all = (size_t) args->rows * args->groups, step = (size_t) at.blocks * at.threads;
    for (size_t i = (size_t) at.block * at.threads + at.thread; i < all; i += step) {
        wm_gpu_access (args->value + i * args->n, args->n * 4, false);
        wm_gpu_access (args->value + i * args->n, args->n * 4, true);
        wm_gpu_softmax (args->value + i * args->n, args->n);
    }
}

/* ---- pool ------------------------------------------------------------------------------------ */

WM_GPU_ONE_PHASE (wm_gpu_pool)

/* `width` channels from c on of place (oi, oj) of the row that begins at x. Returns whether all
   that was read is finite.  */
WM_GPU_CODE bool wm_gpu_pool_some (const wm_gpu_pool_t *args, size_t x, uint32_t oi, uint32_t oj,
                                   uint32_t c, uint32_t width, float *result)
{
    float most[8], sum[8], value[8], count = 0;
    bool finite = true;
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < width; k++)
        most[k] = -INFINITY, sum[k] = 0;
    for (uint32_t ki = 0; ki < args->kernel[0]; ki++)
        for (uint32_t kj = 0; kj < args->kernel[1]; kj++) {
            const int64_t i = (int64_t) oi * args->stride[0] + ki - args->before[0],
                          j = (int64_t) oj * args->stride[1] + kj - args->before[1];
            const bool inside = i >= 0 && j >= 0 && i < args->in[0] && j < args->in[1];
            if (inside || args->count_padding)
                count += 1;
            if (!inside)
                continue;
            const size_t place = x + ((size_t) i * args->in[1] + (size_t) j) * args->channels + c;
            finite = wm_gpu_take (value, args->from, place, args->half_from, width) && finite;
            WM_GPU_UNROLL
            for (uint32_t k = 0; k < width; k++) {
                if (!(value[k] <= most[k]) && most[k] == most[k])
                    most[k] = value[k];
                sum[k] += value[k];
            }
        }
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < width; k++)
        result[k] = args->mean ? sum[k] / count : most[k];
    return finite;
}

WM_GPU_CODE void wm_gpu_pool_rows (const wm_gpu_pool_t *args, wm_gpu_at_t at, uint32_t width)
{
    const uint32_t groups = args->channels / width, items = args->out[0] * args->out[1] * groups,
                   parts = wm_gpu_parts (items, at.threads);
    const size_t row_values = (size_t) args->in[0] * args->in[1] * args->channels;
    for (uint32_t u = at.block; u < args->rows * parts; u += at.blocks) {
        const uint32_t row = u / parts, item = u % parts * at.threads + at.thread,
                       place = item / groups;
        float value[8];
        if (item >= items)
            continue;
        const bool read = wm_gpu_pool_some (args, row * row_values, place / args->out[1],
                                            place % args->out[1], item % groups * width, width,
                                            value);
        const bool written = wm_gpu_give (args->to, ((size_t) row * items + item) * width,
                                          args->half_to, value, width);
        wm_gpu_check (&args->checks, row,
                      (read ? 0 : WM_GPU_CHECK_FROM) | (written ? 0 : WM_GPU_CHECK_TO) |
                          wm_gpu_beyond (value, width, args->checks.bound));
    }
}

WM_GPU_CODE void wm_gpu_pool (const wm_gpu_pool_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t phase)
{
    const uint32_t width = wm_gpu_width (args->half_from && args->half_to, args->channels,
                                         (size_t) args->from | (size_t) args->to);
    (void) shared, (void) phase;
    WM_GPU_BY_WIDTH (wm_gpu_pool_rows, args, at, width);
}

/* ---- join ------------------------------------------------------------------------------------ */

WM_GPU_ONE_PHASE (wm_gpu_join)

/* Those that are x times something (kernels/model/wm_act.h).  */
WM_GPU_CODE float wm_gpu_gated (wm_act_t act, float bend, float x)
{
    if (act == WM_ACT_GELU)
        return x / 2 * erfcf (-0.70710678f * x);
    if (act == WM_ACT_GELU_TANH)
        return x / (1 + expf (-1.5957691f * (x + 0.044715f * x * x * x)));
    if (act == WM_ACT_SWISH)
        return x / (1 + expf (-bend * x));
    if (act == WM_ACT_HARDSWISH)
        return x < -3 ? 0 : x > 3 ? x : x * (x + 3) / 6;
    const float e = expf (x > 20 ? 20 : x), product = e * (e + 2); /* WM_ACT_MISH */
    return x * (product / (product + 2));
}

/* NaN stays NaN.  */
WM_GPU_CODE float wm_gpu_activate (wm_act_t act, float bend, float x)
{
    switch (act) {
    case WM_ACT_RELU:
        return x < 0 ? 0 : x;
    case WM_ACT_SIGMOID:
        return 1 / (1 + expf (-x));
    case WM_ACT_TANH:
        return tanhf (x);
    case WM_ACT_LEAKY:
        return x < 0 ? bend * x : x;
    case WM_ACT_ELU:
        return x < 0 ? bend * expm1f (x) : x;
    case WM_ACT_CLIP:
        return x < 0 ? 0 : x > bend ? bend : x;
    case WM_ACT_SOFTPLUS:
        return (x < 0 ? 0 : x) + log1pf (expf (-fabsf (x)));
    case WM_ACT_GELU:
    case WM_ACT_GELU_TANH:
    case WM_ACT_SWISH:
    case WM_ACT_HARDSWISH:
    case WM_ACT_MISH:
        return wm_gpu_gated (act, bend, x);
    default: /* none, or a softmax, which is a phase of its own */
        return x;
    }
}

/* Element i of a row, of the sum `value`.  */
WM_GPU_CODE float wm_gpu_join_one (const wm_gpu_join_t *args, uint32_t i, float value)
{
    const float bend =
        args->slope ? args->slope[i / args->slope_run % args->n_slope] : args->bend;
    value = args->scale * value + args->shift;
    if (args->act == WM_ACT_CLIP) {
        value = value < args->least ? args->least : value;
        value = value > bend ? bend : value;
    } else
        value = wm_gpu_activate (args->act, bend, value);
    return args->gain * value;
}

/* `width` elements of a row from element `first` of all on. Returns what was found.  */
WM_GPU_CODE uint32_t wm_gpu_join_some (const wm_gpu_join_t *args, uint32_t row, size_t first,
                                   uint32_t width)
{
    const uint32_t i = (uint32_t) (first - (size_t) row * args->n);
    float value[8], more[8];
    uint32_t found =
        wm_gpu_take (value, args->from, first, args->half_from, width) ? 0 : WM_GPU_CHECK_FROM;
    if (args->second) {
        if (!wm_gpu_take (more, args->second, first, args->half_second, width))
            found |= WM_GPU_CHECK_SECOND;
        WM_GPU_UNROLL
        for (uint32_t k = 0; k < width; k++)
            value[k] += more[k];
    }
    WM_GPU_UNROLL
    for (uint32_t k = 0; k < width; k++)
        value[k] = wm_gpu_join_one (args, i + k, value[k]);
    if (!wm_gpu_give (args->to, first, args->half_to, value, width))
        found |= WM_GPU_CHECK_TO;
    return found | wm_gpu_beyond (value, width, args->checks.bound);
}

WM_GPU_CODE void wm_gpu_join_rows (const wm_gpu_join_t *args, wm_gpu_at_t at, uint32_t width)
{
    const uint32_t items = wm_gpu_packs (args->n, width), parts = wm_gpu_parts (items, at.threads);
    for (uint32_t u = at.block; u < args->rows * parts; u += at.blocks) {
        const uint32_t row = u / parts, item = u % parts * at.threads + at.thread;
        const wm_gpu_run_t run = wm_gpu_run (row, args->n, width, item);
        uint32_t found = 0;
        if (run.count == width)
            found = wm_gpu_join_some (args, row, run.first, width);
        else
            for (uint32_t k = 0; k < run.count; k++)
                found |= wm_gpu_join_some (args, row, run.first + k, 1);
        wm_gpu_check (&args->checks, row, found);
    }
}

WM_GPU_CODE void wm_gpu_join (const wm_gpu_join_t *args, float *shared, wm_gpu_at_t at,
                              uint32_t phase)
{
    const bool halves = args->half_from && args->half_to && (!args->second || args->half_second);
    const uint32_t width = wm_gpu_width (
        halves, 0, (size_t) args->from | (size_t) args->second | (size_t) args->to);
    (void) shared, (void) phase;
    WM_GPU_BY_WIDTH (wm_gpu_join_rows, args, at, width);
}

#endif
