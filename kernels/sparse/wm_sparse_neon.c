/* wm_sparse_neon.c - the exact-sparse loops for AArch64, whose NEON has fused multiply-adds.  */
#define NAME neon
#include "kernels/sparse/wm_sparse_neon.h"

#include "kernels/sparse/wm_sparse_kernel.h"
