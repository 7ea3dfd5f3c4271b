/* wm_exact.c - see wm_exact.h.  */
#include "schema/wm_exact.h"

#include <math.h>
#include <string.h>

enum { INT32 = 6, INT64 = 7, DOUBLE = 11, UINT32 = 12, UINT64 = 13 };

#define SHARE_32 16 /* bits that a float32 has of an integer of 32 bits, ... */
#define SHARE_64 22 /* ... of one of 64 */
/* Powers of two are far from where k changes: a value that is off by a rounding has its k.  */
#define TURN 0x1.5fp0
#define STEP 64
#define LEAST (-56) /* of a, as a binary exponent */

uint32_t wm_exact_each (int type)
{
    switch (type) {
    case INT32:
    case UINT32:
        return 2;
    case INT64:
    case UINT64:
        return 3;
    case DOUBLE:
        return 4;
    default:
        return 1;
    }
}

/* ---- FP64 ------------------------------------------------------------------------------------ */

static void put_real (double value, float to[4])
{
    int exponent = 0;
    memset (to, 0, 4 * sizeof *to);
    to[0] = (float) value;
    if (isnan (value))
        to[1] = to[2] = to[3] = to[0];
    if (!isfinite (value) || value == 0)
        return;
    frexp (value / TURN, &exponent);
    const int from = exponent - 1 - LEAST,
              k = (from >= 0 ? from / STEP : -((STEP - 1 - from) / STEP)) * STEP;
    const double near = ldexp (value, -k);
    to[0] = (float) near;
    to[1] = (float) (near - (double) to[0]);
    to[2] = (float) (near - (double) to[0] - (double) to[1]);
    to[3] = (float) k;
}

static bool take_real (const float from[4], double *value)
{
    const double a = (double) from[0], b = (double) from[1], c = (double) from[2];
    const float k = from[3];
    *value = a;
    if (b == 0 && c == 0 && k == 0) /* keeps the sign of a zero */
        return true;
    if (isfinite (a) && isfinite (b) && isfinite (c) && k == nearbyintf (k) && fabsf (k) < 2048) {
        *value = ldexp (a + (b + c), (int) k);
        return true;
    }
    *value = NAN;
    return isnan (a) && isnan (b) && isnan (c) && isnan (k);
}

/* ---- integers -------------------------------------------------------------------------------- */

static void put_whole (uint64_t value, uint32_t each, float *to)
{
    const int share = each == 2 ? SHARE_32 : SHARE_64;
    for (uint32_t i = 0; i < each; i++, value >>= share)
        to[i] = (float) (value & ((1u << share) - 1));
}

static bool take_whole (const float *from, uint32_t each, uint64_t *value)
{
    const int share = each == 2 ? SHARE_32 : SHARE_64, last = (each == 2 ? 32 : 64) % share;
    *value = 0;
    for (uint32_t i = 0; i < each; i++) {
        const float most = (float) (1u << (i + 1 == each && last ? last : share));
        if (!(from[i] >= 0 && from[i] < most && from[i] == truncf (from[i]))) {
            *value = 0;
            return isnan (from[i]);
        }
        *value |= (uint64_t) from[i] << (share * (int) i);
    }
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

void wm_exact_put (int type, const void *value, size_t n, float *to)
{
    const uint32_t each = wm_exact_each (type);
    const uint8_t *from = value;
    const size_t bytes = each == 2 ? 4 : 8;
    for (size_t i = 0; i < n && each > 1; i++, from += bytes, to += each) {
        uint64_t whole = 0;
        double real;
        memcpy (type == DOUBLE ? (void *) &real : &whole, from, bytes);
        if (type == DOUBLE)
            put_real (real, to);
        else
            put_whole (whole, each, to);
    }
}

bool wm_exact_take (int type, const float *from, size_t n, void *value)
{
    const uint32_t each = wm_exact_each (type);
    const size_t bytes = each == 2 ? 4 : 8;
    uint8_t *to = value;
    bool fine = each > 1;
    for (size_t i = 0; i < n && each > 1; i++, from += each, to += bytes) {
        uint64_t whole = 0;
        double real = 0;
        fine &= type == DOUBLE ? take_real (from, &real) : take_whole (from, each, &whole);
        memcpy (to, type == DOUBLE ? (const void *) &real : &whole, bytes);
    }
    return fine;
}

double wm_exact_real (int type, const float *from)
{
    const uint32_t each = wm_exact_each (type);
    double real = (double) *from;
    uint64_t whole = 0;
    if (type == DOUBLE)
        take_real (from, &real);
    else if (each > 1 &&
             (!take_whole (from, each, &whole) || isnan (from[0] + from[1] + from[each - 1])))
        real = NAN;
    else if (each > 1)
        real = type == INT32   ? (double) (int32_t) (uint32_t) whole
               : type == INT64 ? (double) (int64_t) whole
                               : (double) whole;
    return real;
}

/* The nearest integer from low to high; `above`: the least float32 above high.  */
#define NEAREST(kind, low, high, above)                                                            \
    do {                                                                                           \
        kind *to = value;                                                                          \
        for (size_t i = 0; i < n; i++)                                                             \
            to[i] = isnan (from[i])            ? 0                                                 \
                    : from[i] <= (float) (low) ? (low)                                             \
                    : from[i] >= (above)       ? (high)                                            \
                                               : (kind) nearbyintf (from[i]);                      \
    } while (0)

void wm_exact_of_floats (int type, const float *from, size_t n, void *value)
{
    switch (type) {
    case INT32:
        NEAREST (int32_t, INT32_MIN, INT32_MAX, 0x1p31f);
        break;
    case UINT32:
        NEAREST (uint32_t, 0, UINT32_MAX, 0x1p32f);
        break;
    case INT64:
        NEAREST (int64_t, INT64_MIN, INT64_MAX, 0x1p63f);
        break;
    case UINT64:
        NEAREST (uint64_t, 0, UINT64_MAX, 0x1p64f);
        break;
    default:
        for (size_t i = 0; i < n; i++)
            ((double *) value)[i] = (double) from[i];
    }
}
