/* wm_sparse_c.c - the exact-sparse loops in portable C, whatever the machine.  */
#define NAME c
#include "kernels/wm_sparse_c.h"
#include "kernels/wm_sparse_kernel.h"
