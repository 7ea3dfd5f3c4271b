/* wm_act.h - activations, the same bits wherever they are compiled.

   exp is our own, because libm's may differ between machines: double, error below 1e-14, without a
   branch or a call, so that every instruction set's loops take several values at a time. On a plane
   of noise a network with tanh or sigmoid spent most of its time in it, one by one.

   OpenCL's drivers compile this text, too (kernels/opencl/), and CUDA's compiler (kernels/gpu/):
   what is C here is OpenCL C and C++. Neither may fuse a product and a sum.  */
#ifndef WM_ACT_H
#define WM_ACT_H

#ifndef WM_SPARSE_INLINE /* a GPU's code has its own */
#define WM_SPARSE_INLINE static inline __attribute__ ((always_inline))
#endif

#ifdef __OPENCL_VERSION__
typedef uint uint32_t;
typedef ulong uint64_t;
#define wm_sparse_raw as_ulong
#define wm_sparse_real as_double
#else
#include "kernels/model/wm_model.h"

#include <string.h>

WM_SPARSE_INLINE uint64_t wm_sparse_raw (double x)
{
    uint64_t raw;
    memcpy (&raw, &x, sizeof raw);
    return raw;
}

WM_SPARSE_INLINE double wm_sparse_real (uint64_t raw)
{
    double x;
    memcpy (&x, &raw, sizeof x);
    return x;
}
#endif

/* e^x = 2^k e^r with |r| <= ln 2 / 2, Taylor to r^12. Beyond +-700 as at it; a NaN stays.  */
WM_SPARSE_INLINE double wm_sparse_exp (double x)
{
    const double shift = 0x1.8p52; /* leaves a number's integer part in the low bits of the sum */
    x = x < -700 ? -700 : x;
    x = x > 700 ? 700 : x;
    double shifted = x * 1.4426950408889634 + shift, k = shifted - shift;
    double r = x - k * 0.693147180369123816490 - k * 1.90821492927058770002e-10;
    double sum = 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 0.5;
    sum = sum * r + 1;
    sum = sum * r + 1;
    return sum * wm_sparse_real ((wm_sparse_raw (shifted) + 1023) << 52);
}

/* The share of a normal distribution that is above x >= 0: half of erfc (x / sqrt 2), by Numerical
   Recipes' form t e^(-z^2 + P (t)), t = 1 / (1 + z / 2). P is fitted to 1e-11 of it, at Chebyshev's
   points.  */
WM_SPARSE_INLINE double wm_sparse_above (double x)
{
    const double z = x * 0.70710678118654752, t = 1 / (1 + z / 2);
    double sum = 0.20716332802391882;
    sum = sum * t - 1.7793723424765047;
    sum = sum * t + 6.790170769405077;
    sum = sum * t - 15.03990435736084;
    sum = sum * t + 21.175322815236452;
    sum = sum * t - 19.561266964829592;
    sum = sum * t + 12.031616573645422;
    sum = sum * t - 5.244049335801717;
    sum = sum * t + 1.8631939634060142;
    sum = sum * t - 0.3741963298385299;
    sum = sum * t - 0.024648953430737797;
    sum = sum * t - 0.1514704238545227;
    sum = sum * t - 0.08535385517418477;
    sum = sum * t + 0.0833065982690381;
    sum = sum * t + 0.3750006444096051;
    sum = sum * t + 0.999999993849379;
    sum = sum * t - 1.2655121234748874;
    return t / 2 * wm_sparse_exp (sum - z * z);
}

/* log (1 + u) for u from 0 to 1: 2 artanh (u / (2 + u)), to 1e-13.  */
WM_SPARSE_INLINE double wm_sparse_log1p (double u)
{
    const double s = u / (2 + u), square = s * s;
    double sum = 1. / 25;
    for (int k = 23; k > 0; k -= 2)
        sum = sum * square + 1. / k;
    return 2 * s * sum;
}

/* Those that are x times something.  */
WM_SPARSE_INLINE double wm_sparse_gated (wm_act_t act, double bend, double x)
{
    switch (act) {
    case WM_ACT_GELU: {
        double small = x * wm_sparse_above (x < 0 ? -x : x);
        return x < 0 ? small : x - small;
    }
    case WM_ACT_GELU_TANH: /* (1 + tanh (u)) / 2 = 1 / (1 + e^(-2u)) */
        return x / (1 + wm_sparse_exp (-1.5957691216057308 * (x + 0.044715 * x * x * x)));
    case WM_ACT_SWISH:
        return x / (1 + wm_sparse_exp (-bend * x));
    case WM_ACT_HARDSWISH: {
        double gate = x + 3 < 0 ? 0 : x + 3 > 6 ? 6 : x + 3;
        return x * gate / 6;
    }
    default: { /* WM_ACT_MISH: with e = e^x, tanh (log (1 + e)) = e (e + 2) / (e (e + 2) + 2) */
        double e = wm_sparse_exp (x > 40 ? 40 : x), product = e * (e + 2);
        return x * product / (product + 2);
    }
    }
}

/* Of one value; softmax is not.  */
WM_SPARSE_INLINE double wm_sparse_activated (wm_act_t act, float bend, double value)
{
    switch (act) {
    case WM_ACT_RELU:
        return value < 0 ? 0 : value; /* a NaN stays */
    case WM_ACT_SIGMOID:
        return 1 / (1 + wm_sparse_exp (-value));
    case WM_ACT_TANH:
        return 1 - 2 / (wm_sparse_exp (2 * value) + 1);
    case WM_ACT_LEAKY:
        return value < 0 ? (double) bend * value : value;
    case WM_ACT_ELU: {
        double below = (double) bend * (wm_sparse_exp (value) - 1);
        return value < 0 ? below : value;
    }
    case WM_ACT_CLIP:
        return value < 0 ? 0 : value > (double) bend ? (double) bend : value;
    case WM_ACT_GELU:
    case WM_ACT_GELU_TANH:
    case WM_ACT_SWISH:
    case WM_ACT_HARDSWISH:
    case WM_ACT_MISH:
        return wm_sparse_gated (act, (double) bend, value);
    case WM_ACT_SOFTPLUS:
        return (value < 0 ? 0 : value) +
               wm_sparse_log1p (wm_sparse_exp (value < 0 ? value : -value));
    default:
        return value;
    }
}

#define WM_SPARSE_EACH(act_)                                                                       \
    case act_:                                                                                     \
        for (uint32_t i = 0; i < n; i++)                                                           \
            value[i] = (float) wm_sparse_activated (act_, bend, (double) value[i]);                \
        break

/* Of n values each.  */
WM_SPARSE_INLINE void wm_sparse_activate_each (wm_act_t act, float bend, float *value, uint32_t n)
{
    switch (act) {
        WM_SPARSE_EACH (WM_ACT_RELU);
        WM_SPARSE_EACH (WM_ACT_SIGMOID);
        WM_SPARSE_EACH (WM_ACT_TANH);
        WM_SPARSE_EACH (WM_ACT_LEAKY);
        WM_SPARSE_EACH (WM_ACT_ELU);
        WM_SPARSE_EACH (WM_ACT_CLIP);
        WM_SPARSE_EACH (WM_ACT_GELU);
        WM_SPARSE_EACH (WM_ACT_GELU_TANH);
        WM_SPARSE_EACH (WM_ACT_SWISH);
        WM_SPARSE_EACH (WM_ACT_HARDSWISH);
        WM_SPARSE_EACH (WM_ACT_SOFTPLUS);
        WM_SPARSE_EACH (WM_ACT_MISH);
    default:
        break;
    }
}

/* Of a layer's n values: softmax, too.  */
WM_SPARSE_INLINE void wm_sparse_activate_layer (wm_act_t act, float bend, float *value, uint32_t n)
{
    if (act != WM_ACT_SOFTMAX) {
        wm_sparse_activate_each (act, bend, value, n);
        return;
    }
    float most = value[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++)
        most = value[i] > most ? value[i] : most;
    for (uint32_t i = 0; i < n; i++)
        sum += wm_sparse_exp ((double) value[i] - (double) most);
    for (uint32_t i = 0; i < n; i++)
        value[i] = (float) (wm_sparse_exp ((double) value[i] - (double) most) / sum);
}

#endif
