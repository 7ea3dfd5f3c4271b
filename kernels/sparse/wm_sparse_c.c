/* wm_sparse_c.c - the exact-sparse loops in portable C, whatever the machine.  */
#define NAME c
#include "kernels/sparse/wm_sparse_c.h"
#include "kernels/sparse/wm_sparse_kernel.h"
