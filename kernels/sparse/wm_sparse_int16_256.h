/* wm_sparse_int16_256.h - 16-bit integers in vectors of 256 bits; the includer has V_DOT.  */
#include "kernels/sparse/wm_sparse_avx2.h"

#undef FULL_CELLS
#define FULL_CELLS 2 /* a register more is needed than in fp32 */

#define V_ZERO _mm256_setzero_ps ()
#define V_WHOLE(c, s, x) _mm256_fmadd_ps (_mm256_cvtepi32_ps ((__m256i) (c)), s, x)
#define V_ABS(x) _mm256_andnot_ps (_mm256_set1_ps (-0.f), x)
#define V_BITS_MAX(a, b) ((vec) _mm256_max_epu32 ((__m256i) (a), (__m256i) (b)))
#define V_BITS_TOP(a) bits_top ((__m256i) (a))

static inline uint32_t bits_top (__m256i a)
{
    __m128i b = _mm_max_epu32 (_mm256_castsi256_si128 (a), _mm256_extracti128_si256 (a, 1));
    b = _mm_max_epu32 (b, _mm_shuffle_epi32 (b, 0x4e));
    b = _mm_max_epu32 (b, _mm_shuffle_epi32 (b, 0xb1));
    return (uint32_t) _mm_cvtsi128_si32 (b);
}

static inline uint32_t store_words (void *to, const float *value, float inverse)
{
    const vec by = _mm256_set1_ps (inverse);
    __m256i a = _mm256_cvtps_epi32 (_mm256_mul_ps (_mm256_load_ps (value), by));
    __m256i b = _mm256_cvtps_epi32 (_mm256_mul_ps (_mm256_load_ps (value + 8), by));
    __m256i words = _mm256_permute4x64_epi64 (_mm256_packs_epi32 (a, b), 0xd8);
    __m256i none = _mm256_cmpeq_epi32 (words, _mm256_setzero_si256 ());
    _mm256_store_si256 (to, words);
    return ~(uint32_t) _mm256_movemask_ps ((vec) none) & 0xff;
}

#include "kernels/sparse/wm_sparse_int16.h"
