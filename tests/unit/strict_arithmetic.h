/* strict_arithmetic.h - strict fp32 in plain C, step by step as kernels/README.md states it.

   The judge of every engine that claims this arithmetic: it shares nothing with them but the layout
   of a network (wm_net_t). It is slow: every position of every patch is looked at.  */
#ifndef STRICT_ARITHMETIC_H
#define STRICT_ARITHMETIC_H

#include "kernels/model/wm_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of one rounding.  */
static inline float strict_fma (float a, float b, float c)
{
    return fmaf (a, b, c);
}

/* ---- step 6: activations, in binary64 -------------------------------------------------------- */

static inline double strict_exp (double x)
{
    x = x < -700 ? -700 : x > 700 ? 700 : x;
    const double k = nearbyint (x * 1.4426950408889634);
    double r = x - k * 0.693147180369123816490, sum = 1 / 479001600.0, factorial = 479001600;
    r -= k * 1.90821492927058770002e-10;
    for (int n = 12; n > 0; n--) {
        factorial /= n;
        sum = sum * r + 1 / factorial;
    }
    return ldexp (sum, (int) k);
}

static inline double strict_gelu (double x)
{
    static const double p[] = { 0.20716332802391882,  -1.7793723424765047,   6.790170769405077,
                                -15.03990435736084,   21.175322815236452,    -19.561266964829592,
                                12.031616573645422,   -5.244049335801717,    1.8631939634060142,
                                -0.3741963298385299,  -0.024648953430737797, -0.1514704238545227,
                                -0.08535385517418477, 0.0833065982690381,    0.3750006444096051,
                                0.999999993849379,    -1.2655121234748874 };
    const double z = fabs (x) * 0.70710678118654752, t = 1 / (1 + z / 2);
    double sum = p[0];
    for (size_t i = 1; i < sizeof p / sizeof *p; i++)
        sum = sum * t + p[i];
    const double tail = x * (t / 2 * strict_exp (sum - z * z));
    return x < 0 ? tail : x - tail;
}

static inline double strict_softplus (double x)
{
    const double u = strict_exp (-fabs (x)), s = u / (2 + u);
    double sum = 1. / 25;
    for (int k = 23; k > 0; k -= 2)
        sum = sum * (s * s) + 1. / k;
    return fmax (x, 0) + 2 * s * sum;
}

static inline double strict_act (wm_act_t act, double bend, double x)
{
    const double e = act == WM_ACT_MISH ? strict_exp (fmin (x, 40)) : 0, mish = e * (e + 2);
    return act == WM_ACT_NONE      ? x
           : act == WM_ACT_RELU    ? (x < 0 ? 0 : x)
           : act == WM_ACT_SIGMOID ? 1 / (1 + strict_exp (-x))
           : act == WM_ACT_TANH    ? 1 - 2 / (strict_exp (2 * x) + 1)
           : act == WM_ACT_LEAKY   ? (x < 0 ? bend * x : x)
           : act == WM_ACT_ELU     ? (x < 0 ? bend * (strict_exp (x) - 1) : x)
           : act == WM_ACT_CLIP    ? (x < 0      ? 0
                                      : x > bend ? bend
                                                 : x)
           : act == WM_ACT_GELU    ? strict_gelu (x)
           : act == WM_ACT_GELU_TANH
               ? x / (1 + strict_exp (-1.5957691216057308 * (x + 0.044715 * x * x * x)))
           : act == WM_ACT_SWISH     ? x / (1 + strict_exp (-bend * x))
           : act == WM_ACT_HARDSWISH ? x * fmin (fmax (x + 3, 0), 6) / 6
           : act == WM_ACT_SOFTPLUS  ? strict_softplus (x)
                                     : x * mish / (mish + 2);
}

static inline void strict_softmax (float *x, uint32_t n)
{
    double most = (double) x[0], sum = 0;
    for (uint32_t i = 1; i < n; i++)
        most = fmax (most, (double) x[i]);
    for (uint32_t i = 0; i < n; i++)
        sum += strict_exp ((double) x[i] - most);
    for (uint32_t i = 0; i < n; i++)
        x[i] = (float) (strict_exp ((double) x[i] - most) / sum);
}

/* ---- steps 1 to 3: a convolution ------------------------------------------------------------- */

/* The values of a layer at every position of a patch, and where they are live.  */
typedef struct {
    uint32_t rows, cols, n;
    float *value, *constant; /* (rows, cols, n), (n) */
    bool *is_live;           /* (rows, cols) */
} strict_layer_t;

static inline strict_layer_t strict_layer (uint32_t rows, uint32_t cols, uint32_t n)
{
    const size_t all = (size_t) rows * cols;
    return (strict_layer_t){ rows,
                             cols,
                             n,
                             calloc (all * n, sizeof (float)),
                             calloc (n, sizeof (float)),
                             calloc (all, sizeof (bool)) };
}

static inline void strict_layer_free (strict_layer_t *self)
{
    free (self->value), free (self->constant), free (self->is_live);
}

static inline strict_layer_t strict_convolve (const wm_conv_t *conv, const strict_layer_t *in)
{
    strict_layer_t out =
        strict_layer (in->rows - conv->kh + 1, in->cols - conv->kw + 1, conv->c_out);
    const uint32_t row = conv->kw * in->n, taps = conv->kh * row; /* a window's row, a window */
    for (uint32_t f = 0; f < conv->c_out; f++) {
        double sum = (double) conv->bias[f];
        for (uint32_t i = 0; i < taps; i++)
            sum += (double) in->constant[i % in->n] *
                   (double) conv->weight[(size_t) i * conv->c_out + f];
        out.constant[f] = (float) strict_act (conv->act, (double) conv->bend, sum);
    }
    for (uint32_t p = 0; p < out.rows * out.cols; p++) {
        const size_t corner = (size_t) (p / out.cols) * in->cols + p % out.cols;
        for (uint32_t i = 0; i < conv->kh * conv->kw; i++)
            out.is_live[p] |= in->is_live[corner + i / conv->kw * in->cols + i % conv->kw];
        for (uint32_t f = 0; f < conv->c_out; f++) {
            float sum = conv->bias[f];
            for (uint32_t i = 0; i < taps; i++)
                sum = strict_fma (in->value[(corner + i / row * in->cols) * in->n + i % row],
                                  conv->weight[(size_t) i * conv->c_out + f], sum);
            out.value[(size_t) p * out.n + f] =
                out.is_live[p] ? (float) strict_act (conv->act, (double) conv->bend, (double) sum)
                               : out.constant[f];
        }
    }
    return out;
}

/* ---- steps 4 and 5: dense layers ------------------------------------------------------------- */

/* One output of a layer that reads the last convolution.  */
static inline float strict_root (const wm_net_t *net, const wm_dense_t *dense, uint32_t o,
                                 const strict_layer_t *in)
{
    const bool is_relu = net->conv[net->n_conv - 1].act == WM_ACT_RELU;
    double inactive = (double) dense->bias[o];
    float total = 0, row = 0;
    for (uint32_t p = 0; p < in->rows * in->cols; p++) {
        double base = 0; /* W (r - c): what a live position has not, if r is 0 */
        for (uint32_t f = 0; f < in->n; f++) {
            const double w = (double) dense->weight[((size_t) p * in->n + f) * dense->n_out + o];
            const double c = (double) in->constant[f], r = is_relu ? 0 : c;
            inactive += c * w;
            base += (r - c) * w;
        }
        if (in->is_live[p]) /* 0 changes no bit of a sum that began at +0 */
            row += (float) base;
        for (uint32_t f = 0; f < in->n && in->is_live[p]; f++) {
            const float value = in->value[(size_t) p * in->n + f],
                        v = is_relu ? value : value - in->constant[f];
            if (v != 0)
                row =
                    strict_fma (v, dense->weight[((size_t) p * in->n + f) * dense->n_out + o], row);
        }
        if ((p + 1) % in->cols == 0)
            total += row, row = 0;
    }
    return (float) inactive + total;
}

/* Scores one patch (height, width, channel), whose zero level is `zero`, as the contract says.  */
static inline void strict_scores (const wm_net_t *net, float zero, const float *patch,
                                  float *scores)
{
    strict_layer_t layer = strict_layer (net->height, net->width, net->channel);
    const uint32_t pixels = net->height * net->width;
    memcpy (layer.value, patch, (size_t) pixels * net->channel * sizeof *patch);
    for (uint32_t i = 0; i < net->channel; i++)
        layer.constant[i] = zero;
    for (uint32_t i = 0; i < pixels * net->channel; i++)
        if (memcmp (&patch[i], &zero, sizeof zero))
            layer.is_live[i / net->channel] = true;
    for (uint32_t i = 0; i < net->n_conv; i++) {
        strict_layer_t next = strict_convolve (&net->conv[i], &layer);
        strict_layer_free (&layer);
        layer = next;
    }
    float *out[WM_MODEL_DENSES_MAX];
    for (uint32_t i = 0; i < net->n_dense; i++) {
        const wm_dense_t *dense = &net->dense[i];
        out[i] = calloc (dense->n_out, sizeof (float));
        for (uint32_t o = 0; o < dense->n_out; o++) {
            float sum = dense->parent < 0 ? strict_root (net, dense, o, &layer) : dense->bias[o];
            for (uint32_t k = 0; dense->parent >= 0 && k < dense->n_in; k++)
                sum = strict_fma (out[dense->parent][k],
                                  dense->weight[(size_t) k * dense->n_out + o], sum);
            out[i][o] = dense->act == WM_ACT_SOFTMAX
                            ? sum
                            : (float) strict_act (dense->act, (double) dense->bend, (double) sum);
        }
        if (dense->act == WM_ACT_SOFTMAX)
            strict_softmax (out[i], dense->n_out);
        if (dense->output >= 0)
            memcpy (scores + dense->output, out[i], dense->n_out * sizeof (float));
    }
    for (uint32_t i = 0; i < net->n_dense; i++)
        free (out[i]);
    strict_layer_free (&layer);
}

#endif
