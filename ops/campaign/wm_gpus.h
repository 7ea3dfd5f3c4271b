/* wm_gpus.h - which GPUs this machine has, by the driver's own library, opened at run time.

   Thread: one.  */
#ifndef WM_GPUS_H
#define WM_GPUS_H

#include "schema/base/wm_fault.h"

#define WM_GPUS_MAX 64
#define WM_GPU_BYTES 64

/* The GPUs that `wanted` means, "all" or "0,2", as CUDA_VISIBLE_DEVICES wants each; where that is
   set already, numbers count within it. Returns how many. 0 with *error: WM_EHOST: no driver, or no
   GPU; WM_EBATCH: a number that none has.  */
unsigned wm_gpus_list (const char *wanted, char gpu[WM_GPUS_MAX][WM_GPU_BYTES], wm_error_t *error);

#endif
