/* wm_sparse_avxvnni.c - the exact-sparse loops with the roots in 16-bit integers: AVX-VNNI, that is,
   VNNI of CPUs without AVX-512.  */
#define NAME avx_vnni_int16
#define ISA_TEXT "avx-vnni"
#define V_DOT(x, w, c) ((vec) _mm256_dpwssd_avx_epi32 ((__m256i) (c), (__m256i) (x), (__m256i) (w)))
#include "kernels/wm_sparse_int16_256.h"

#include "kernels/wm_sparse_kernel.h"
