/* wm_gpu_launch.h - launches one of our kernels on the real GPU (wm_gpu_kernels.cu).  */
#ifndef WM_GPU_LAUNCH_H
#define WM_GPU_LAUNCH_H

#include "kernels/cuda/wm_gpu_api.h"

#include <cuda_runtime_api.h>

cudaError_t wm_gpu_launch (const wm_gpu_launch_t *launch, cudaStream_t stream);

#endif
