/* wm_gpu_fake_count.h - counts what a launch does, to wm_gpu_fake.work.  */
#ifndef WM_GPU_FAKE_COUNT_H
#define WM_GPU_FAKE_COUNT_H

#include "kernels/gpu/wm_gpu_args.h"
#include "tests/standin/wm_gpu_fake.h"

/* Returns how many sums of a hit a dense kernel writes for each output.  */
uint32_t wm_gpu_fake_bands (const wm_gpu_dense_t *args, wm_gpu_kernel_t kernel);

/* The kernel that accesses are counted for from now on.  */
void wm_gpu_fake_count_for (wm_gpu_kernel_t kernel);

/* Adds a launch that has been carried out, of our kernels in full view. used_before:
   entries that the list had before.  */
void wm_gpu_fake_count (const wm_gpu_launch_t *launch, const void *args, uint32_t used_before);

#endif
