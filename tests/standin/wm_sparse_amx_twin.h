/* wm_sparse_amx_twin.h - the AMX kernels on tiles in memory, which a test that links them adds.  */
#ifndef WM_SPARSE_AMX_TWIN_H
#define WM_SPARSE_AMX_TWIN_H

#include "kernels/sparse/wm_sparse.h"

extern const wm_sparse_kernel_t wm_sparse_kernel_amx_twin_bf16, wm_sparse_kernel_amx_twin_bf16x3;

static inline bool is_twin (const wm_sparse_kernel_t *kernel)
{
    return kernel == &wm_sparse_kernel_amx_twin_bf16 || kernel == &wm_sparse_kernel_amx_twin_bf16x3;
}

#endif
