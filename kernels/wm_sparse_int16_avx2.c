/* wm_sparse_int16_avx2.c - the exact-sparse loops with the roots in 16-bit integers: AVX2.  */
#define NAME avx2_int16
#define ISA_TEXT "avx2"
#define V_DOT(x, w, c)                                                                             \
    ((vec) _mm256_add_epi32 ((__m256i) (c), _mm256_madd_epi16 ((__m256i) (x), (__m256i) (w))))
#include "kernels/wm_sparse_int16_256.h"

#include "kernels/wm_sparse_kernel.h"
