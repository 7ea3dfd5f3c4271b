/* wm_gpu_launch.h - our kernels on the real GPU (wm_gpu_kernels.cu).  */
#ifndef WM_GPU_LAUNCH_H
#define WM_GPU_LAUNCH_H

#include "kernels/cuda/wm_gpu_api.h"

#include <cuda_runtime_api.h>

/* Loads all of them to the device, which must not happen while a graph is recorded, and allows
   those that need more shared memory than usual `shared_bytes`. *kernel: the one that failed. */
cudaError_t wm_gpu_load (size_t shared_bytes, wm_gpu_kernel_t *kernel);

cudaError_t wm_gpu_launch (const wm_gpu_launch_t *launch, cudaStream_t stream);

#endif
