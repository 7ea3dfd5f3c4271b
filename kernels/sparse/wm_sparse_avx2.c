/* wm_sparse_avx2.c - the exact-sparse loops for AVX2 with FMA.  */
#define NAME avx2
#include "kernels/sparse/wm_sparse_avx2.h"
#include "kernels/sparse/wm_sparse_kernel.h"
