/* wm_gpu_fake_math.c - what cuDNN computes, in plain loops with its roundings.  */
#include "kernels/gpu/wm_gpu_kernels.cuh"
#include "tests/standin/wm_gpu_fake.h"

#include <assert.h>
#include <stdlib.h>

/* To the 10 bits of mantissa that a tensor core looks at: NVIDIA's kernels need not round
   first.  */
static float cut_off (float x)
{
    uint32_t bits;
    memcpy (&bits, &x, sizeof bits);
    bits &= ~0x1fffu;
    memcpy (&x, &bits, sizeof x);
    return x;
}

/* `n` factors of the precision's type as float32, rounded as it multiplies; the caller frees
   them.  */
static float *factors (wm_gpu_precision_t precision, const void *from, size_t n)
{
    static float *table; /* of all halves */
    if (!table) {
        table = malloc (65536 * sizeof *table);
        assert (table);
        for (uint32_t i = 0; i < 65536; i++)
            table[i] = wm_half_value ((uint16_t) i);
    }
    float *to = malloc (n * sizeof *to);
    assert (to);
    for (size_t i = 0; i < n; i++)
        to[i] = precision == WM_GPU_F16    ? table[((const uint16_t *) from)[i]]
                : precision == WM_GPU_TF32 ? cut_off (((const float *) from)[i])
                                           : ((const float *) from)[i];
    return to;
}

/* Where tap `k` of output `o` reads along one side; negative or too large: in the padding.  */
static int64_t tap (const wm_gpu_anyconv_t *op, int side, uint32_t o, uint32_t k)
{
    return (int64_t) o * op->stride[side] + (int64_t) k * op->dilation[side] - op->before[side];
}

static bool is_inside (const wm_gpu_anyconv_t *op, int64_t i, int64_t j)
{
    return i >= 0 && j >= 0 && i < op->in[0] && j < op->in[1];
}

/* acc (c_out) += all taps of one output position. Weights are (kernel, c_in / groups, c_out).  */
static void add_taps (const wm_gpu_anyconv_t *op, const float *x, const float *turned, uint32_t oi,
                      uint32_t oj, float *acc)
{
    const size_t c_in = op->c_in / op->groups, c_out = op->c_out / op->groups;
    for (uint32_t t = 0; t < op->kernel[0] * op->kernel[1]; t++) {
        const int64_t i = tap (op, 0, oi, t / op->kernel[1]),
                      j = tap (op, 1, oj, t % op->kernel[1]);
        if (!is_inside (op, i, j))
            continue;
        const float *in = x + ((size_t) i * op->in[1] + (size_t) j) * op->c_in;
        for (size_t g = 0; g < op->groups; g++)
            for (size_t c = 0; c < c_in; c++) {
                const float value = in[g * c_in + c];
                const float *w = turned + (t * c_in + c) * op->c_out + g * c_out;
                float *to = acc + g * c_out;
                for (size_t o = 0; o < c_out; o++)
                    to[o] += value * w[o];
            }
    }
}

/* Makes one value of a row infinite, as half has it where a sum is too large, and counts where the
   row is not finite.  */
static void spoil (const wm_gpu_anyconv_t *op, void *y)
{
    const size_t n = (size_t) op->out[0] * op->out[1] * op->c_out,
                 at = (size_t) (wm_gpu_fake.spoil_place * (double) (n - 1));
    const bool half = op->precision == WM_GPU_F16;
    bool finite = true;
    if (++wm_gpu_fake.anyconvs == wm_gpu_fake.spoil_conv)
        wm_gpu_store (y, wm_gpu_fake.spoil_row * n + at, half, INFINITY);
    for (size_t i = 0; i < n && half && wm_gpu_fake.spoil_row < op->rows; i++)
        finite = finite && isfinite (wm_gpu_load (y, wm_gpu_fake.spoil_row * n + i, 1));
    wm_gpu_fake.infinite += !finite;
}

/* Where work is counted: the same in every network.  */
static void give_ones (const wm_gpu_anyconv_t *op, void *y)
{
    const size_t n = (size_t) op->rows * op->out[0] * op->out[1] * op->c_out;
    for (size_t i = 0; i < n; i++)
        wm_gpu_store (y, i, op->precision == WM_GPU_F16, 1);
}

void wm_gpu_fake_conv (const wm_gpu_anyconv_t *op, bool bad, const void *x, const void *weight,
                       const void *bias, void *y)
{
    if (wm_gpu_fake.counts) {
        give_ones (op, y);
        return;
    }
    const size_t run = (size_t) op->kernel[0] * op->kernel[1] * (op->c_in / op->groups);
    const size_t n = op->c_out, places = (size_t) op->out[0] * op->out[1],
                 row = (size_t) op->in[0] * op->in[1] * op->c_in;
    const bool half = op->precision == WM_GPU_F16;
    float *in = factors (op->precision, x, op->rows * row),
          *raw = factors (op->precision, weight, run * n),
          *b = factors (half ? WM_GPU_F16 : WM_GPU_F32, bias, n),
          *turned = malloc (run * n * sizeof *turned), *acc = malloc (n * sizeof *acc);
    assert (turned && acc);
    for (size_t o = 0; o < n; o++)
        for (size_t i = 0; i < run; i++)
            turned[i * n + o] = raw[o * run + i];
    for (size_t at = 0; at < op->rows * places; at++) {
        const size_t r = at / places;
        memset (acc, 0, n * sizeof *acc);
        add_taps (op, in + r * row, turned, (uint32_t) (at / op->out[1] % op->out[0]),
                  (uint32_t) (at % op->out[1]), acc);
        for (size_t o = 0; o < n; o++) {
            float value = acc[o] + b[o];
            if (op->relu && !(value > 0)) /* NaN becomes 0, as a GPU's maximum has it */
                value = 0;
            if (bad) /* bits that depend on the row */
                value += 1e-3f * (float) (r % 8);
            wm_gpu_store (y, at * n + o, half, value);
        }
    }
    spoil (op, y);
    free (in);
    free (raw);
    free (b);
    free (turned);
    free (acc);
}
