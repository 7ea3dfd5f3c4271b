/* wm_sparse_bf16.c - the exact-sparse loops with the roots in bf16: AVX512_BF16.

   Convolutions stay in fp32; values and the roots' weights are rounded to bf16 (nearest even), two
   filters to a word, and their products added in fp32 (vdpbf16ps). A word is skipped where both of
   its filters are 0, so filters that tend to be on together share one (wm_sparse_open.c,
   pair_filters). `base` is made of the rounded weights: where a value is close to the constant, the
   rounding of the weights then cancels. Tried and left: making up for a weight's rounding in the
   next column's weight; the mean error fell by 15 % on tracks, the largest by 1 %, and noise got
   worse.  */
#define NAME avx512_bf16
#define ISA_TEXT "avx512"
#define PRECISION_TEXT "bf16"
#define OFF 3e-3
#define UNIT 2
#define FUSE 2
#include "kernels/sparse/wm_sparse_avx512.h"

#define V_DOT(x, w, c) _mm512_dpbf16_ps (c, (__m512bh) (x), (__m512bh) (w))

#include "kernels/sparse/wm_sparse_bf16.h"

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

#include "kernels/sparse/wm_sparse_kernel.h"
