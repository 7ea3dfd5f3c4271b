/* wm_sparse_avx512.c - the exact-sparse loops for AVX-512 (F, BW, DQ, VL).  */
#define NAME avx512
#define FULL_CELLS 3
#define FULL_VECS 8
#define FUSE 1
#define UNIT 1
#define V_DOT V_FMA
#include "kernels/sparse/wm_sparse_avx512.h"
#include "kernels/sparse/wm_sparse_kernel.h"
