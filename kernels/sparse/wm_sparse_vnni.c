/* wm_sparse_vnni.c - the exact-sparse loops with the roots in 16-bit integers: AVX-512 with
   VNNI.  */
#define NAME avx512_vnni_int16
#define ISA_TEXT "avx512-vnni"
#include "kernels/sparse/wm_sparse_avx512.h"

#define FULL_CELLS 3
#define FULL_VECS 8
#define V_ZERO _mm512_setzero_ps ()
#define V_DOT(x, w, c) dot (x, w, c)
#define V_WHOLE(c, s, x) _mm512_fmadd_ps (_mm512_cvtepi32_ps ((__m512i) (c)), s, x)
#define V_ABS(x) _mm512_abs_ps (x)
#define V_BITS_MAX(a, b) ((vec) _mm512_max_epu32 ((__m512i) (a), (__m512i) (b)))
#define V_BITS_TOP(a) _mm512_reduce_max_epu32 ((__m512i) (a))

/* Not the intrinsic: between sums as integers and as floats gcc 12 copies them to and fro.  */
static inline __attribute__ ((always_inline)) vec dot (vec x, vec w, vec sum)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(x), "vm"(w));
    return sum;
}

static inline uint32_t store_words (void *to, const float *value, float inverse)
{
    __m512i whole =
        _mm512_cvtps_epi32 (_mm512_mul_ps (_mm512_load_ps (value), _mm512_set1_ps (inverse)));
    __m256i words = _mm512_cvtepi32_epi16 (whole);
    _mm256_store_si256 (to, words);
    return _mm256_test_epi32_mask (words, words);
}

#include "kernels/sparse/wm_sparse_int16.h"
#include "kernels/sparse/wm_sparse_kernel.h"
