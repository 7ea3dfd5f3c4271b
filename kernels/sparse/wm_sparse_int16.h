/* wm_sparse_int16.h - the roots in 16-bit integers: 8 to 10 times nearer to double than bf16.

   Convolutions stay in fp32. A position's values become integers of at most ACT_MAX: its scale is
   its own largest value's, so that it depends on nothing but the pixels of its window. Weights
   become integers by one scale an output, so chosen when they are packed (wm_sparse_scale) that
   ACT_MAX times the weights of a position never passes 31 bits: the sum over a position's filters
   is exact, whatever the input; sums that pass 31 bits on the way come back. The sum is then a
   float, times the position's scale; the output's scale comes last, once a hit. A value that is not
   finite makes the scale NaN, and with it the hit's scores.

   ACT_MAX divides 31 bits between values and weights so that both round about alike.

   A file that includes this defines before what wm_sparse_kernel.h needs, and the roundings of a
   vector:

   V_BITS_MAX (a, b)     the larger of 32-bit unsigned integers; V_BITS_TOP (a): of all lanes
   V_ABS (x)             without the sign
   V_ROUND (x)           to integers, to nearest even
   store_words (to, x)   stores 16 integers, two to a word; returns the words that are not 0  */
#include "kernels/sparse/wm_sparse.h"

#include <math.h>
#include <string.h>

#define ACT_MAX 8191
#define SMALLEST 1e-30f /* of a position's largest value: below, all are 0 */
#define UNIT 2
#define FUSE 2
#define SLOT_EXTRA 32
#define PRECISION_TEXT "int16"
#define OFF 5e-4
#define KERNEL_STORE

static void kernel_store (const float *value, uint32_t c_out, uint32_t c_pad, void *slot,
                          uint64_t *mask)
{
    vec top = V_ABS (V_LOAD (value));
    for (uint32_t k = LANES; k < c_pad; k += LANES)
        top = V_BITS_MAX (top, V_ABS (V_LOAD (value + k)));
    const uint32_t bits = V_BITS_TOP (top);
    float most, scale, inverse;
    memcpy (&most, &bits, sizeof most);
    scale = isfinite (most) ? most / ACT_MAX : NAN;
    inverse = isfinite (most) && most >= SMALLEST ? ACT_MAX / most : 0;
    memset (mask, 0, (c_out + 127) / 128 * sizeof *mask);
    for (uint32_t k = 0; k < c_pad; k += 16)
        mask[k / 128] |= (uint64_t) store_words ((char *) slot + k * 2, value + k, inverse)
                         << k / 2 % 64;
    memcpy ((char *) slot + c_pad * 2, &scale, sizeof scale);
}

static size_t kernel_panel_words (uint32_t c_out, uint32_t n_pad)
{
    return (size_t) FUSE * ((c_out + 1) / 2) * n_pad;
}

static void kernel_pack (const wm_sparse_root_t *root, const float *weight, uint32_t c_out,
                         uint32_t f, float *used, uint32_t *panel)
{
    const size_t n = root->n_pad;
    const float *restrict scale = root->scale;
    panel += f * ((c_out + 1) / 2) * n;
    for (uint32_t k = 0; k < c_out; k++, used += n, weight += n) {
        uint32_t *restrict word = panel + k / 2 * n;
        const uint32_t shift = k % 2 * 16;
        for (size_t i = 0; i < n; i++) {
            float whole = __builtin_rintf (weight[i] / scale[i]);
            used[i] = whole;
            word[i] |= ((uint32_t) (int32_t) whole & 0xffff) << shift;
        }
    }
}

#define KERNEL_MORE                                                                                \
    .sum_max = INT32_MAX / ACT_MAX, .panel_words = kernel_panel_words, .pack = kernel_pack,
