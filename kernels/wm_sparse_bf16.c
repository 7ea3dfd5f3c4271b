/* wm_sparse_bf16.c - the exact-sparse loops with the roots in bf16: AVX512_BF16.

   Convolutions stay in fp32; values and the roots' weights are rounded to bf16 (nearest even), two
   filters to a word, and their products added in fp32 (vdpbf16ps). A word is skipped where both of
   its filters are 0, so filters that tend to be on together share one (wm_sparse.c, pair_filters).
   `base` is made of the rounded weights: where a value is close to the constant, the rounding of
   the weights then cancels.  */
#define NAME avx512_bf16
#define ISA_TEXT "avx512"
#define PRECISION_TEXT "bf16"
#define UNIT 2
#define FUSE 2
#include "kernels/wm_sparse_avx512.h"

#define V_DOT(x, w, c) _mm512_dpbf16_ps (c, (__m512bh) (x), (__m512bh) (w))

#include "kernels/wm_sparse.h"

#include <string.h>

#define KERNEL_STORE
static void kernel_store (const float *value, uint32_t c_out, uint32_t c_pad, void *slot,
                          uint64_t *mask)
{
    memset (mask, 0, (c_out + 127) / 128 * sizeof *mask);
    for (uint32_t k = 0; k < c_pad; k += LANES) {
        __m256i words = (__m256i) _mm512_cvtneps_pbh (_mm512_load_ps (value + k));
        _mm256_store_si256 ((__m256i *) slot + k / 16, words);
        mask[k / 128] |= (uint64_t) _mm256_test_epi32_mask (words, words) << k / 2 % 64;
    }
}

static uint16_t rounded_bits (float x)
{
    uint32_t raw;
    memcpy (&raw, &x, sizeof raw);
    return (uint16_t) ((raw + 0x7fff + (raw >> 16 & 1)) >> 16);
}

static float kernel_rounded (float x)
{
    uint32_t raw = (uint32_t) rounded_bits (x) << 16;
    memcpy (&x, &raw, sizeof x);
    return x;
}

/* (n_position, c_out, n_pad) floats to (n_position, words, n_pad) pairs of filters.  */
static void kernel_pack (const wm_sparse_root_t *root, const uint32_t *filter, uint32_t c_out,
                         uint32_t position, uint32_t *packed)
{
    const float *weight = root->weight + (size_t) position * c_out * root->n_pad;
    for (uint32_t k = 0; k < c_out; k += 2, packed += root->n_pad) {
        const float *low = weight + (size_t) filter[k] * root->n_pad;
        const float *high = k + 1 < c_out ? weight + (size_t) filter[k + 1] * root->n_pad : NULL;
        for (uint32_t i = 0; i < root->n_pad; i++)
            packed[i] = (uint32_t) rounded_bits (low[i]) |
                        (uint32_t) (high ? rounded_bits (high[i]) : 0) << 16;
    }
}

#define KERNEL_MORE .rounded = kernel_rounded, .pack = kernel_pack,
#include "kernels/wm_sparse_kernel.h"
