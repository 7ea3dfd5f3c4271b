/* wm_gpu_fake_block.h - a block of threads on the host, a fiber each (wm_gpu_warp.cuh on the host).

   Private to the stand-in. Thread: one.  */
#ifndef WM_GPU_FAKE_BLOCK_H
#define WM_GPU_FAKE_BLOCK_H

#include "kernels/gpu/wm_gpu_kernels.cuh"

typedef void wm_gpu_thread_fn (const void *args, float *shared, wm_gpu_at_t at);

/* Runs `threads` (a multiple of 32, at most 512) of one block to their ends. Returns NULL, or what
   they did that no GPU allows: lanes of a warp that come to different instructions, a thread that
   ends while others wait to meet it, a copy that ends outside `shared_bytes` or is not aligned, a
   product of a warpgroup whose operands or sums nothing orders before it or behind it.  */
const char *wm_gpu_fake_block (wm_gpu_thread_fn *kernel, const void *args, float *shared,
                               size_t shared_bytes, wm_gpu_at_t at, uint64_t *seed);

#endif
