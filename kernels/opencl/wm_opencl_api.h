/* wm_opencl_api.h - what is called of libOpenCL: types, numbers and functions of OpenCL 1.2, as
   Khronos's specification fixes them for every driver.

   They are written here, so that no build and no machine needs a package for them; a test compares
   them with Khronos's headers where those are installed.  */
#ifndef WM_OPENCL_API_H
#define WM_OPENCL_API_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t wm_cl_int;
typedef uint32_t wm_cl_uint;
typedef uint64_t wm_cl_flags; /* cl_bitfield */
typedef intptr_t wm_cl_property;
typedef struct wm_cl_object_t *wm_cl_object; /* a platform, device, context, queue, ... */

#define WM_CL_NUMBERS(NUMBER)                                                                      \
    NUMBER (SUCCESS, 0)                                                                            \
    NUMBER (DEVICE_NOT_FOUND, -1)                                                                  \
    NUMBER (DEVICE_NOT_AVAILABLE, -2)                                                              \
    NUMBER (MEM_OBJECT_ALLOCATION_FAILURE, -4)                                                     \
    NUMBER (OUT_OF_RESOURCES, -5)                                                                  \
    NUMBER (OUT_OF_HOST_MEMORY, -6)                                                                \
    NUMBER (BUILD_PROGRAM_FAILURE, -11)                                                            \
    NUMBER (INVALID_VALUE, -30)                                                                    \
    NUMBER (INVALID_BUFFER_SIZE, -61)                                                              \
    NUMBER (PLATFORM_NAME, 0x0902)                                                                 \
    NUMBER (DEVICE_TYPE_CPU, 1 << 1)                                                               \
    NUMBER (DEVICE_TYPE_ALL, 0xFFFFFFFF)                                                           \
    NUMBER (DEVICE_TYPE, 0x1000)                                                                   \
    NUMBER (DEVICE_MAX_COMPUTE_UNITS, 0x1002)                                                      \
    NUMBER (DEVICE_MAX_MEM_ALLOC_SIZE, 0x1010)                                                     \
    NUMBER (DEVICE_SINGLE_FP_CONFIG, 0x101B)                                                       \
    NUMBER (DEVICE_GLOBAL_MEM_SIZE, 0x101F)                                                        \
    NUMBER (DEVICE_AVAILABLE, 0x1027)                                                              \
    NUMBER (DEVICE_COMPILER_AVAILABLE, 0x1028)                                                     \
    NUMBER (DEVICE_NAME, 0x102B)                                                                   \
    NUMBER (DRIVER_VERSION, 0x102D)                                                                \
    NUMBER (DEVICE_DOUBLE_FP_CONFIG, 0x1032)                                                       \
    NUMBER (FP_DENORM, 1 << 0)                                                                     \
    NUMBER (FP_ROUND_TO_NEAREST, 1 << 2)                                                           \
    NUMBER (FP_FMA, 1 << 5)                                                                        \
    NUMBER (MEM_READ_WRITE, 1 << 0)                                                                \
    NUMBER (PROGRAM_BUILD_LOG, 0x1183)                                                             \
    NUMBER (KERNEL_WORK_GROUP_SIZE, 0x11B0)

#define WM_CL_NUMBER(name, value) WM_CL_##name = (int) (value),
enum { WM_CL_NUMBERS (WM_CL_NUMBER) };

/* The functions: the field's name, the library's, their arguments. All but the four that create
   return an error.  */
#define WM_CL_CALLS(CALL)                                                                          \
    CALL (platforms, clGetPlatformIDs, wm_cl_int, (wm_cl_uint, wm_cl_object *, wm_cl_uint *))      \
    CALL (platform_info, clGetPlatformInfo, wm_cl_int,                                             \
          (wm_cl_object, wm_cl_uint, size_t, void *, size_t *))                                    \
    CALL (devices, clGetDeviceIDs, wm_cl_int,                                                      \
          (wm_cl_object, wm_cl_flags, wm_cl_uint, wm_cl_object *, wm_cl_uint *))                   \
    CALL (device_info, clGetDeviceInfo, wm_cl_int,                                                 \
          (wm_cl_object, wm_cl_uint, size_t, void *, size_t *))                                    \
    CALL (context_new, clCreateContext, wm_cl_object,                                              \
          (const wm_cl_property *, wm_cl_uint, const wm_cl_object *, void *, void *, wm_cl_int *)) \
    CALL (context_release, clReleaseContext, wm_cl_int, (wm_cl_object))                            \
    CALL (queue_new, clCreateCommandQueue, wm_cl_object,                                           \
          (wm_cl_object, wm_cl_object, wm_cl_flags, wm_cl_int *))                                  \
    CALL (queue_release, clReleaseCommandQueue, wm_cl_int, (wm_cl_object))                         \
    CALL (program_new, clCreateProgramWithSource, wm_cl_object,                                    \
          (wm_cl_object, wm_cl_uint, const char **, const size_t *, wm_cl_int *))                  \
    CALL (program_build, clBuildProgram, wm_cl_int,                                                \
          (wm_cl_object, wm_cl_uint, const wm_cl_object *, const char *, void *, void *))          \
    CALL (program_info, clGetProgramBuildInfo, wm_cl_int,                                          \
          (wm_cl_object, wm_cl_object, wm_cl_uint, size_t, void *, size_t *))                      \
    CALL (program_release, clReleaseProgram, wm_cl_int, (wm_cl_object))                            \
    CALL (kernel_new, clCreateKernel, wm_cl_object, (wm_cl_object, const char *, wm_cl_int *))     \
    CALL (kernel_info, clGetKernelWorkGroupInfo, wm_cl_int,                                        \
          (wm_cl_object, wm_cl_object, wm_cl_uint, size_t, void *, size_t *))                      \
    CALL (kernel_argument, clSetKernelArg, wm_cl_int,                                              \
          (wm_cl_object, wm_cl_uint, size_t, const void *))                                        \
    CALL (kernel_release, clReleaseKernel, wm_cl_int, (wm_cl_object))                              \
    CALL (buffer_new, clCreateBuffer, wm_cl_object,                                                \
          (wm_cl_object, wm_cl_flags, size_t, void *, wm_cl_int *))                                \
    CALL (buffer_release, clReleaseMemObject, wm_cl_int, (wm_cl_object))                           \
    CALL (write, clEnqueueWriteBuffer, wm_cl_int,                                                  \
          (wm_cl_object, wm_cl_object, wm_cl_uint, size_t, size_t, const void *, wm_cl_uint,       \
           const void *, void *))                                                                  \
    CALL (write_rows, clEnqueueWriteBufferRect, wm_cl_int,                                         \
          (wm_cl_object, wm_cl_object, wm_cl_uint, const size_t *, const size_t *, const size_t *, \
           size_t, size_t, size_t, size_t, const void *, wm_cl_uint, const void *, void *))        \
    CALL (read, clEnqueueReadBuffer, wm_cl_int,                                                    \
          (wm_cl_object, wm_cl_object, wm_cl_uint, size_t, size_t, void *, wm_cl_uint,             \
           const void *, void *))                                                                  \
    CALL (launch, clEnqueueNDRangeKernel, wm_cl_int,                                               \
          (wm_cl_object, wm_cl_object, wm_cl_uint, const size_t *, const size_t *, const size_t *, \
           wm_cl_uint, const void *, void *))                                                      \
    CALL (finish, clFinish, wm_cl_int, (wm_cl_object))

typedef struct {
#define WM_CL_FIELD(field, name, result, arguments) result (*field) arguments;
    WM_CL_CALLS (WM_CL_FIELD)
} wm_opencl_api_t;

#endif
