/* wm_gpu_kernels.cu - our kernels on the GPU, and their launches.

   fill, scatter: a plane from its runs, cells that no run touches hold the zero level.
   window: patches from a plane's image, for any CNN.
   phases, cut (wm_gpu_own.cuh): own view's images, and patches that are no window of one.
   active (wm_gpu_active.cuh): the convolution where there is something; its list of active
           positions is all that is kept of a plane.
   dense, densesplit, densefma (wm_gpu_dense.cuh): Dense-1 as a gathered product over that list;
   densewide, densewidesplit (wm_gpu_wide.cuh): the same by Hopper's warpgroup instructions.
   tail: a warp a hit; the whole tree behind Dense-1.
   copy, scan, spread, pool, join (wm_gpu_any.cuh): what any CNN needs beside convolutions.

   Checked and timed by `make gpu-check` (tests/gpu/gpu_check.c), without a GPU by
   `make unit T=kernels_cuda`.
   The bodies are in wm_gpu_kernels.cuh, shared with the host.  */
#include "kernels/gpu/wm_gpu_kernels.cuh"
#include "kernels/gpu/wm_gpu_active.cuh"
#include "kernels/gpu/wm_gpu_any.cuh"
#include "kernels/gpu/wm_gpu_dense.cuh"
#include "kernels/gpu/wm_gpu_own.cuh"
#include "kernels/gpu/wm_gpu_wide.cuh"

#define WM_GPU_GLOBAL extern "C" __global__ /* found by name: wm_gpu_driver.c */

#define WM_GPU_KERNEL(name)                                                                        \
    WM_GPU_GLOBAL void name##_kernel (const __grid_constant__ name##_t args)                       \
    {                                                                                              \
        extern __shared__ float shared[];                                                          \
        const wm_gpu_at_t at = { blockIdx.x, gridDim.x, threadIdx.x, blockDim.x };                 \
        const uint32_t phases = name##_phases (&args);                                             \
        for (uint32_t phase = 0; phase < phases; phase++) {                                        \
            if (phase > 0)                                                                         \
                __syncthreads ();                                                                  \
            name (&args, shared, at, phase);                                                       \
        }                                                                                          \
    }

WM_GPU_KERNEL (wm_gpu_fill)
WM_GPU_KERNEL (wm_gpu_scatter)
WM_GPU_KERNEL (wm_gpu_window)
WM_GPU_KERNEL (wm_gpu_tail)
WM_GPU_KERNEL (wm_gpu_phases)
WM_GPU_KERNEL (wm_gpu_cut)
WM_GPU_KERNEL (wm_gpu_copy)
WM_GPU_KERNEL (wm_gpu_spread)
WM_GPU_KERNEL (wm_gpu_pool)
WM_GPU_KERNEL (wm_gpu_join)
WM_GPU_KERNEL (wm_gpu_scan)

/* Threads of these call __syncthreads themselves.  */
#define WM_GPU_THREADS(name)                                                                       \
    WM_GPU_GLOBAL void name##_kernel (const __grid_constant__ name##_t args)                       \
    {                                                                                              \
        extern __shared__ __align__ (16) float block_shared[];                                     \
        const wm_gpu_at_t at = { blockIdx.x, gridDim.x, threadIdx.x, blockDim.x };                 \
        name (&args, block_shared, at);                                                            \
    }
WM_GPU_THREADS (wm_gpu_active)

/* A block has the multiprocessor for itself. `how`: the arithmetic.  */
#define WM_GPU_DENSE_KERNEL(name, body, how, threads)                                              \
    WM_GPU_GLOBAL void __launch_bounds__ (threads, 1)                                              \
        name##_kernel (const __grid_constant__ wm_gpu_dense_t args)                                \
    {                                                                                              \
        extern __shared__ __align__ (16) float block_shared[];                                     \
        const wm_gpu_at_t at = { blockIdx.x, gridDim.x, threadIdx.x, blockDim.x };                 \
        body (&args, block_shared, at, how);                                                       \
    }
WM_GPU_DENSE_KERNEL (wm_gpu_dense, wm_gpu_dense, WM_GPU_BY_HALF, 512)
WM_GPU_DENSE_KERNEL (wm_gpu_densesplit, wm_gpu_dense, WM_GPU_BY_SPLIT, 256)
WM_GPU_DENSE_KERNEL (wm_gpu_densefma, wm_gpu_dense, WM_GPU_BY_FMA, 256)
WM_GPU_DENSE_KERNEL (wm_gpu_densewide, wm_gpu_wide, 1, WM_GPU_WIDE_THREADS)
WM_GPU_DENSE_KERNEL (wm_gpu_densewidesplit, wm_gpu_wide, 2, WM_GPU_WIDE_THREADS)
