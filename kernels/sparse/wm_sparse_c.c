/* wm_sparse_c.c - the exact-sparse loops in portable C: the bits of AVX2 and AVX-512 on any
   CPU.  */
#define NAME c
#include "kernels/sparse/wm_sparse_c.h"
#include "kernels/sparse/wm_sparse_kernel.h"
