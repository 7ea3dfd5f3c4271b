/* wm_sparse_avxvnni.c - the exact-sparse loops with the roots in 16-bit integers: AVX-VNNI, that
   is, VNNI of CPUs without AVX-512.  */
#define NAME avx_vnni_int16
#define ISA_TEXT "avx-vnni"
#define V_DOT(x, w, c) dot (x, w, c)
#include "kernels/sparse/wm_sparse_int16_256.h"

/* Not the intrinsic: between sums as integers and as floats gcc 12 copies them to and fro.  */
static inline __attribute__ ((always_inline)) vec dot (vec x, vec w, vec sum)
{
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(x), "xm"(w));
    return sum;
}

#include "kernels/sparse/wm_sparse_kernel.h"
