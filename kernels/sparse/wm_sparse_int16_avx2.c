/* wm_sparse_int16_avx2.c - the exact-sparse loops with the roots in 16-bit integers: AVX2.  */
#define NAME avx2_int16
#define ISA_TEXT "avx2"
#define V_DOT(x, w, c) dot (x, w, c)
#include "kernels/sparse/wm_sparse_int16_256.h"

/* Not the intrinsics: between sums as integers and as floats gcc 12 copies them to and fro.  */
static inline __attribute__ ((always_inline)) vec dot (vec x, vec w, vec sum)
{
    vec both;
    __asm__("vpmaddwd %2, %3, %1\n\tvpaddd %1, %0, %0" : "+x"(sum), "=&x"(both) : "xm"(w), "x"(x));
    return sum;
}

#include "kernels/sparse/wm_sparse_kernel.h"
