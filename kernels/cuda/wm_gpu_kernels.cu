/* wm_gpu_kernels.cu - our kernels on the GPU, and their launches.

   v1  fill, scatter: a plane from its runs, cells that no run touches hold the zero level.
       gather: patches cut from it, one block each, as half or float32. The patches are what cuDNN
               wants to read; they cost 4.6 kB written and read a hit.
       phases, cut (wm_gpu_own.cuh): own view's images, and patches that are no window of one.
       copy, scan, spread, pool, join (wm_gpu_any.cuh): what any CNN needs beside convolutions.
       tail: one block a patch; adds the splits' partial sums in order, then the whole tree.
   v2  strip: images become strips of one width in half: one shape for cuDNN, the planes of several
              batches above each other.
       dense (wm_gpu_dense.cuh): Dense-1 as a gathered product over the planes' convolution, which
              is taken once: 5 TB/s of the L2 cache bind it.
   v3  active: what is not the zero level; dense passes over the rest. The product's kernel is v2's.

   Checked and timed by `make gpu-check` (tests/gpu/gpu_check.c), without a GPU by
   `make unit T=kernels_cuda`.
   The bodies are in wm_gpu_kernels.cuh, shared with the host.  */
#include "kernels/cuda/wm_gpu_kernels.cuh"
#include "kernels/cuda/wm_gpu_any.cuh"
#include "kernels/cuda/wm_gpu_dense.cuh"
#include "kernels/cuda/wm_gpu_own.cuh"

extern "C" {
#include "kernels/cuda/wm_gpu_launch.h"
}

#define WM_GPU_KERNEL(name)                                                                        \
    static __global__ void name##_kernel (const __grid_constant__ name##_t args)                   \
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
WM_GPU_KERNEL (wm_gpu_gather)
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
    static __global__ void name##_kernel (const __grid_constant__ name##_t args)                   \
    {                                                                                              \
        extern __shared__ __align__ (16) float block_shared[];                                     \
        const wm_gpu_at_t at = { blockIdx.x, gridDim.x, threadIdx.x, blockDim.x };                 \
        name (&args, block_shared, at);                                                            \
    }
WM_GPU_THREADS (wm_gpu_strip)
WM_GPU_THREADS (wm_gpu_active)

/* A block has the multiprocessor for itself: 128 of its registers are sums.  */
#define WM_GPU_DENSE_KERNEL(name, is_tf32)                                                         \
    static __global__ void __launch_bounds__ (256, 1)                                              \
        name##_kernel (const __grid_constant__ wm_gpu_dense_t args)                                \
    {                                                                                              \
        extern __shared__ __align__ (16) float block_shared[];                                     \
        const wm_gpu_at_t at = { blockIdx.x, gridDim.x, threadIdx.x, blockDim.x };                 \
        wm_gpu_dense (&args, block_shared, at, is_tf32);                                           \
    }
WM_GPU_DENSE_KERNEL (wm_gpu_dense, false)
WM_GPU_DENSE_KERNEL (wm_gpu_densetf, true)

static const void *const kernels[] = {
    (const void *) wm_gpu_fill_kernel,   (const void *) wm_gpu_scatter_kernel,
    (const void *) wm_gpu_gather_kernel, (const void *) wm_gpu_tail_kernel,
    (const void *) wm_gpu_phases_kernel, (const void *) wm_gpu_cut_kernel,
    (const void *) wm_gpu_copy_kernel,   (const void *) wm_gpu_spread_kernel,
    (const void *) wm_gpu_pool_kernel,   (const void *) wm_gpu_join_kernel,
    (const void *) wm_gpu_scan_kernel,   (const void *) wm_gpu_strip_kernel,
    (const void *) wm_gpu_active_kernel, (const void *) wm_gpu_dense_kernel,
    (const void *) wm_gpu_densetf_kernel
};
static_assert (sizeof kernels / sizeof *kernels == WM_GPU_KERNELS, "one for each name");

extern "C" cudaError_t wm_gpu_load (size_t shared_bytes, wm_gpu_kernel_t *kernel)
{
    cudaError_t error = cudaSuccess;
    for (int k = 0; k < WM_GPU_KERNELS && !error; k++) {
        cudaFuncAttributes attributes;
        *kernel = (wm_gpu_kernel_t) k;
        error = cudaFuncGetAttributes (&attributes, kernels[k]);
        if (!error && k >= WM_GPU_DENSE)
            error = cudaFuncSetAttribute (kernels[k], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          (int) (shared_bytes - attributes.sharedSizeBytes));
    }
    return error;
}

extern "C" cudaError_t wm_gpu_launch (const wm_gpu_launch_t *launch, cudaStream_t stream)
{
    void *args[] = { (void *) launch->args };
    return cudaLaunchKernel (kernels[launch->kernel], dim3 (launch->blocks), dim3 (launch->threads),
                             args, launch->shared_bytes, stream);
}
