/* wm_gpu_fake_math.c - what cuDNN and cuBLASLt compute, in plain loops with their roundings.  */
#include "tests/standin/wm_gpu_fake.h"
#include "kernels/cuda/wm_gpu_kernels.cuh"

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

float *wm_gpu_fake_factors (wm_gpu_precision_t precision, const void *from, size_t n)
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

/* acc += a[i] b[i][0 .. n) for the k values of i, upwards or downwards.  */
static void add_products (const float *a, const float *b, size_t k, size_t n, bool down, float *acc)
{
    for (size_t i = 0; i < k; i++) {
        const size_t at = down ? k - 1 - i : i;
        const float *row = b + at * n, value = a[at];
        for (size_t o = 0; o < n; o++)
            acc[o] += value * row[o];
    }
}

void wm_gpu_fake_gemm (const wm_gpu_gemm_t *gemm, bool bad, const void *a, const void *b, float *c)
{
    const size_t k = gemm->k, n = gemm->n, rows = gemm->rows, all = k * gemm->splits;
    float *left = wm_gpu_fake_factors (gemm->precision, a, rows * all);
    float *right = wm_gpu_fake_factors (gemm->precision, b, all * n);
    memset (c, 0, gemm->splits * rows * n * sizeof *c);
    for (size_t s = 0; s < gemm->splits; s++)
        for (size_t r = 0; r < rows; r++)
            add_products (left + r * all + s * k, right + s * k * n, k, n, bad && r >= 8,
                          c + (s * rows + r) * n);
    free (left);
    free (right);
}

/* The weights (c_out, run) as (run, c_out). */
static float *turn (const float *weight, size_t run, size_t c_out)
{
    float *turned = malloc (run * c_out * sizeof *turned);
    assert (turned);
    for (size_t i = 0; i < run; i++)
        for (size_t o = 0; o < c_out; o++)
            turned[i * c_out + o] = weight[o * run + i];
    return turned;
}

void wm_gpu_fake_conv (const wm_gpu_conv_t *conv, bool bad, const void *x, const void *weight,
                       const void *bias, void *y)
{
    const size_t line = (size_t) conv->kw * conv->c_in, run = conv->kh * line, n = conv->c_out;
    const size_t rows = conv->h - conv->kh + 1, columns = conv->w - conv->kw + 1;
    const size_t in_row = (size_t) conv->w * conv->c_in, patch = conv->h * in_row;
    float *in = wm_gpu_fake_factors (conv->precision, x, conv->rows * patch);
    float *raw = wm_gpu_fake_factors (conv->precision, weight, run * n),
          *turned = turn (raw, run, n);
    float *b =
        wm_gpu_fake_factors (conv->precision == WM_GPU_F16 ? WM_GPU_F16 : WM_GPU_F32, bias, n);
    float *acc = malloc (n * sizeof *acc), *window = malloc (run * sizeof *window);
    assert (acc && window);
    for (size_t at = 0; at < conv->rows * rows * columns; at++) {
        size_t r = at / (rows * columns), i = at / columns % rows, j = at % columns;
        for (size_t k = 0; k < conv->kh; k++)
            memcpy (window + k * line, in + r * patch + (i + k) * in_row + j * conv->c_in,
                    line * sizeof *window);
        memset (acc, 0, n * sizeof *acc);
        add_products (window, turned, run, n, bad && (r >= 8 || i >= 8), acc);
        for (size_t o = 0; o < n; o++) {
            float value = acc[o] + b[o];
            if (conv->relu && !(value > 0)) /* NaN becomes 0, as a GPU's maximum has it */
                value = 0;
            if (conv->precision == WM_GPU_F16)
                ((uint16_t *) y)[at * n + o] = wm_half (value);
            else
                ((float *) y)[at * n + o] = value;
        }
    }
    free (in);
    free (raw);
    free (turned);
    free (b);
    free (acc);
    free (window);
}
