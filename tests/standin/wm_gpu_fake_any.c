/* wm_gpu_fake_any.c - any convolution as cuDNN computes it, in plain loops.  */
#include "tests/standin/wm_gpu_fake.h"
#include "kernels/cuda/wm_gpu_kernels.cuh"

#include <assert.h>
#include <stdlib.h>

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

void wm_gpu_fake_anyconv (const wm_gpu_anyconv_t *op, bool bad, const void *x, const void *weight,
                          const void *bias, void *y)
{
    const size_t run = (size_t) op->kernel[0] * op->kernel[1] * (op->c_in / op->groups);
    const size_t n = op->c_out, places = (size_t) op->out[0] * op->out[1],
                 row = (size_t) op->in[0] * op->in[1] * op->c_in;
    const bool half = op->precision == WM_GPU_F16;
    float *in = wm_gpu_fake_factors (op->precision, x, op->rows * row),
          *raw = wm_gpu_fake_factors (op->precision, weight, run * n),
          *b = wm_gpu_fake_factors (half ? WM_GPU_F16 : WM_GPU_F32, bias, n),
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
    free (in);
    free (raw);
    free (b);
    free (turned);
    free (acc);
}
