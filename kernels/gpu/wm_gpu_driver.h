/* wm_gpu_driver.h - the driver's own calls, and our kernels by them: all that is needed of CUDA to
   run without a library of NVIDIA's. Private to kernels/cuda/.

   The calls are those of CUDA 12.0, found by name in libcuda.so.1 (kernels/wm_driver.h), so that
   every driver from 525 on has them. Our kernels lie in this object as images, machine code for
   each architecture, made by compile.c.  Thread: any.  */
#ifndef WM_GPU_DRIVER_H
#define WM_GPU_DRIVER_H

#include "kernels/gpu/wm_gpu_api.h"

#include <cuda.h>

/* The name here, the function that has its type, its symbol (cuda.h may rename functions to
   versions that are newer than CUDA 12.0).  */
#define WM_CU_CALLS(CALL)                                                                          \
    CALL (error_name, cuGetErrorName, "cuGetErrorName")                                            \
    CALL (error_text, cuGetErrorString, "cuGetErrorString")                                        \
    CALL (device_get, cuDeviceGet, "cuDeviceGet")                                                  \
    CALL (device_name, cuDeviceGetName, "cuDeviceGetName")                                         \
    CALL (device_attribute, cuDeviceGetAttribute, "cuDeviceGetAttribute")                          \
    CALL (context_retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                    \
    CALL (context_set, cuCtxSetCurrent, "cuCtxSetCurrent")                                         \
    CALL (context_sync, cuCtxSynchronize, "cuCtxSynchronize")                                      \
    CALL (memory_info, cuMemGetInfo, "cuMemGetInfo_v2")                                            \
    CALL (module_load, cuModuleLoadData, "cuModuleLoadData")                                       \
    CALL (module_function, cuModuleGetFunction, "cuModuleGetFunction")                             \
    CALL (function_get, cuFuncGetAttribute, "cuFuncGetAttribute")                                  \
    CALL (function_set, cuFuncSetAttribute, "cuFuncSetAttribute")                                  \
    CALL (launch, cuLaunchKernel, "cuLaunchKernel")                                                \
    CALL (device_new, cuMemAlloc, "cuMemAlloc_v2")                                                 \
    CALL (device_free, cuMemFree, "cuMemFree_v2")                                                  \
    CALL (pinned_new, cuMemHostAlloc, "cuMemHostAlloc")                                            \
    CALL (pinned_free, cuMemFreeHost, "cuMemFreeHost")                                             \
    CALL (pin, cuMemHostRegister, "cuMemHostRegister_v2")                                          \
    CALL (unpin, cuMemHostUnregister, "cuMemHostUnregister")                                       \
    CALL (stream_new, cuStreamCreateWithPriority, "cuStreamCreateWithPriority")                    \
    CALL (stream_wait, cuStreamWaitEvent, "cuStreamWaitEvent")                                     \
    CALL (stream_sync, cuStreamSynchronize, "cuStreamSynchronize")                                 \
    CALL (stream_free, cuStreamDestroy, "cuStreamDestroy_v2")                                      \
    CALL (event_new, cuEventCreate, "cuEventCreate")                                               \
    CALL (event_record, cuEventRecord, "cuEventRecord")                                            \
    CALL (event_sync, cuEventSynchronize, "cuEventSynchronize")                                    \
    CALL (event_ms, cuEventElapsedTime, "cuEventElapsedTime")                                      \
    CALL (event_free, cuEventDestroy, "cuEventDestroy_v2")                                         \
    CALL (copy_in, cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2")                                      \
    CALL (copy_out, cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2")                                     \
    CALL (capture_begin, cuStreamBeginCapture, "cuStreamBeginCapture_v2")                          \
    CALL (capture_end, cuStreamEndCapture, "cuStreamEndCapture")                                   \
    CALL (graph_new, cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags")                   \
    CALL (graph_run, cuGraphLaunch, "cuGraphLaunch")                                               \
    CALL (graph_free, cuGraphExecDestroy, "cuGraphExecDestroy")                                    \
    CALL (captured_free, cuGraphDestroy, "cuGraphDestroy")

typedef struct {
#define WM_CU_FIELD(name, function, symbol) __typeof__ (function) *name;
    WM_CU_CALLS (WM_CU_FIELD)
#undef WM_CU_FIELD
    int version; /* the CUDA that the driver is for: 12040 */
} wm_cu_t;

/* Opens the driver. NULL: *text is why.  */
const wm_cu_t *wm_cu_open (wm_gpu_text_t *text);

/* The text of a call that failed; NULL: it did not. cu may be NULL.  */
wm_gpu_text_t wm_cu_failed (const wm_cu_t *cu, const char *what, CUresult result);

/* Our kernels in the memory of the current context's GPU. They are loaded once a process and stay:
   all engines use the primary context.  */
typedef struct {
    int toolkit;        /* that compiled them: 12090 */
    bool arch_specific; /* so is their image */
    CUfunction function[WM_GPU_KERNELS];
} wm_cu_kernels_t;

/* Loads the image for a GPU of this capability (90 is 9.0); each kernel may then use `shared_bytes`
   of shared memory. NULL: *text is why.  */
const wm_cu_kernels_t *wm_cu_kernels (const wm_cu_t *cu, int capability, size_t shared_bytes,
                                      wm_gpu_text_t *text);

/* The name of a kernel, for messages.  */
const char *wm_cu_kernel_name (wm_gpu_kernel_t kernel);

/* An image of our kernels. Rows of the section `wm_gpu_images`, one for each architecture.  */
typedef struct {
    const void *begin, *end;
    int32_t architecture;  /* 90 */
    int32_t toolkit;       /* that compiled it: 12090 */
    int32_t is_ptx;        /* the driver compiles it; else it is machine code */
    int32_t arch_specific; /* for this architecture alone, as sm_90a is */
} wm_cu_image_t;

/* The image of `n` that a driver for `version` runs on a GPU of this capability: machine code of
   the newest architecture that fits, else PTX. NULL: none; *least is the CUDA that a driver has to
   be for to run one, 0: no image is for this GPU.  */
const wm_cu_image_t *wm_cu_choose (const wm_cu_image_t *image, size_t n, int version,
                                   int capability, int *least);

#endif
