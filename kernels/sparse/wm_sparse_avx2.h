/* wm_sparse_avx2.h - what the exact-sparse loops need of AVX2 with FMA.  */
#include <immintrin.h>
#include <stdint.h>

typedef __m256 vec;

#define LANES 8
#define CONV_VECS 3
#define FULL_CELLS 3
#define FULL_VECS 4
#define V_LOAD(p) _mm256_load_ps (p)
#define V_STORE(p, x) _mm256_store_ps (p, x)
#define V_SET1(p) _mm256_broadcast_ss (p)
#define V_ADD(a, b) _mm256_add_ps (a, b)
#define V_SUB(a, b) _mm256_sub_ps (a, b)
#define V_FMA(a, b, c) _mm256_fmadd_ps (a, b, c)
#define V_RELU(x)                                                                                  \
    _mm256_max_ps (_mm256_setzero_ps (),                                                           \
                   x) /* the second operand if either is NaN                 \
                                             */
#define V_KEEP(x) __asm__("" : "+x"(x))
#define V_NONZERO(x)                                                                               \
    ((uint32_t) _mm256_movemask_ps (_mm256_cmp_ps (x, _mm256_setzero_ps (), _CMP_NEQ_UQ)))
