/* wm_sparse_sse2.c - the exact-sparse loops in portable C that rounds products and sums apart.

   For a CPU without fused multiply-adds, whose owner asks for it (--isa sse2): several times as
   fast as wm_sparse_c.c there, within the same error, with other bits and a signature of its
   own.  */
#define NAME sse2
#define PLAIN
#include "kernels/sparse/wm_sparse_c.h"
#include "kernels/sparse/wm_sparse_kernel.h"
