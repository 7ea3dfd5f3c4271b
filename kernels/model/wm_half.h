/* wm_half.h - a float as IEEE 754 binary16 and back, as GPUs store weights. Thread: any.  */
#ifndef WM_HALF_H
#define WM_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* To the nearest, ties to even, as on a GPU. (_Float16 is not in every compiler.)  */
static inline uint16_t wm_half (float x)
{
    uint32_t bits, magnitude;
    memcpy (&bits, &x, sizeof bits);
    const uint16_t sign = (uint16_t) (bits >> 16 & 0x8000);
    magnitude = bits & 0x7fffffff;
    if (magnitude >= 0x47800000) /* 65,536 and more: infinite, or NaN */
        return (uint16_t) (sign | (magnitude > 0x7f800000 ? 0x7e00 : 0x7c00));
    if (magnitude < 0x38800000) { /* below 2^-14: to a multiple of 2^-24, the last bit of 0.5 + x */
        const float sum = 0.5f + fabsf (x);
        memcpy (&bits, &sum, sizeof bits);
        return (uint16_t) (sign | (bits - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t) (sign | (magnitude - 0x38000000) >> 13);
}

static inline float wm_half_value (uint16_t half)
{
    uint32_t bits = (uint32_t) (half & 0x7fff) << 13, sign = (uint32_t) (half & 0x8000) << 16;
    float x;
    memcpy (&x, &bits, sizeof x);
    x *= 0x1p112f; /* the exponents' biases differ by 112; exact, subnormal ones too */
    memcpy (&bits, &x, sizeof bits);
    bits |= sign | ((half & 0x7c00) == 0x7c00 ? 0x7f800000 : 0);
    memcpy (&x, &bits, sizeof x);
    return x;
}

#endif
