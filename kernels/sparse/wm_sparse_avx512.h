/* wm_sparse_avx512.h - what the exact-sparse loops need of AVX-512 (F, BW, DQ, VL).  */
#include <immintrin.h>
#include <stdint.h>

#include "kernels/sparse/wm_sparse.h"

typedef __m512 vec;

#define LANES 16
#define CONV_VECS 4
#define V_LOAD(p) _mm512_load_ps (p)
#define V_STORE(p, x) _mm512_store_ps (p, x)
#define V_SET1(p) _mm512_set1_ps (*(p))
#define V_ADD(a, b) _mm512_add_ps (a, b)
#define V_SUB(a, b) _mm512_sub_ps (a, b)
#define V_FMA(a, b, c) _mm512_fmadd_ps (a, b, c)
#define V_RELU(x)                                                                                  \
    _mm512_max_ps (_mm512_setzero_ps (),                                                           \
                   x) /* the second operand if either is NaN                 \
                                             */
#define V_KEEP(x) __asm__("" : "+v"(x))
#define V_NONZERO(x) ((uint32_t) _mm512_cmp_ps_mask (x, _mm512_setzero_ps (), _CMP_NEQ_UQ))

/* Sixteen cells at a time; the compressing store of the portable loop is one instruction here.  */
#define KERNEL_LIST
static inline __attribute__ ((always_inline)) void list_panel (const uint64_t *mask, uint32_t *slot,
                                                               uint32_t n, uint32_t bit,
                                                               wm_sparse_list_t *list,
                                                               const uint32_t fuse)
{
    const __m512i wanted = _mm512_set1_epi64 ((1 << fuse) - 1), sixteen = _mm512_set1_epi32 (16);
    const __m512i three = _mm512_set1_epi32 (3), five = _mm512_set1_epi32 (5);
    const __m128i by = _mm_cvtsi32_si128 ((int) bit);
    __m512i cell = _mm512_setr_epi32 (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    uint32_t count = 0;
    for (uint32_t h = 0; h < n; h += 16, cell = _mm512_add_epi32 (cell, sixteen)) {
        __m512i low = _mm512_srl_epi64 (_mm512_load_si512 (mask + h), by);
        __m512i high = _mm512_srl_epi64 (_mm512_load_si512 (mask + h + 8), by);
        __m512i live = _mm512_inserti64x4 (
            _mm512_castsi256_si512 (_mm512_cvtepi64_epi32 (_mm512_and_si512 (low, wanted))),
            _mm512_cvtepi64_epi32 (_mm512_and_si512 (high, wanted)), 1);
        __mmask16 on = _mm512_test_epi32_mask (live, live);
        __m512i s = _mm512_load_si512 (slot + h), bits = live; /* bits: set in each live */
        _mm512_storeu_si512 (list->cell + count, _mm512_maskz_compress_epi32 (on, cell));
        _mm512_storeu_si512 (list->slot + count, _mm512_maskz_compress_epi32 (on, s));
        _mm512_storeu_si512 (list->live + count, _mm512_maskz_compress_epi32 (on, live));
        if (fuse > 1)
            bits = _mm512_sub_epi32 (bits, _mm512_and_si512 (_mm512_srli_epi32 (bits, 1), five));
        if (fuse > 2)
            bits = _mm512_add_epi32 (_mm512_and_si512 (bits, three), _mm512_srli_epi32 (bits, 2));
        _mm512_store_si512 (slot + h, _mm512_add_epi32 (s, bits));
        count += (uint32_t) __builtin_popcount (on);
    }
    list->n = count;
}
