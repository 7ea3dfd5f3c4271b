/* wm_sparse_act.h - activations, the same bits wherever they are compiled.

   exp is our own, because libm's may differ between machines: double, error below 1e-14, without a
   branch or a call, so that every instruction set's loops take several values at a time. On a plane
   of noise a network with tanh or sigmoid spent most of its time in it, one by one.  */
#ifndef WM_SPARSE_ACT_H
#define WM_SPARSE_ACT_H

#include "kernels/wm_model.h"

#include <string.h>

#define WM_SPARSE_INLINE static inline __attribute__ ((always_inline))

/* e^x = 2^k e^r with |r| <= ln 2 / 2, Taylor to r^12. Beyond +-700 as at it; a NaN stays.  */
WM_SPARSE_INLINE double wm_sparse_exp (double x)
{
    const double shift = 0x1.8p52; /* leaves a number's integer part in the low bits of the sum */
    x = x < -700 ? -700 : x;
    x = x > 700 ? 700 : x;
    double shifted = x * 1.4426950408889634 + shift, k = shifted - shift, power;
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
    uint64_t raw;
    memcpy (&raw, &shifted, sizeof raw);
    raw = (raw + 1023) << 52;
    memcpy (&power, &raw, sizeof power);
    return sum * power;
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
    default:
        break;
    }
}

#endif
