/* wm_gpu_launch.h - our kernels on the real GPU (wm_gpu_kernels.cu).  */
#ifndef WM_GPU_LAUNCH_H
#define WM_GPU_LAUNCH_H

#include "kernels/cuda/wm_gpu_api.h"

#include <cuda_runtime_api.h>

/* Loads all of them to the device, which may not happen within a graph that is being kept, and lets
   those that ask for more shared memory than usual have `shared_bytes`. *kernel: the one that failed. */
cudaError_t wm_gpu_load (size_t shared_bytes, wm_gpu_kernel_t *kernel);

cudaError_t wm_gpu_launch (const wm_gpu_launch_t *launch, cudaStream_t stream);

#endif
