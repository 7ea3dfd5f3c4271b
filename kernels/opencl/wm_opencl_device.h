/* wm_opencl_device.h - the OpenCL devices here, and one that is open: program, queue, errors.

   libOpenCL.so.1, the loader of every maker's driver, is opened at run time. Devices are numbered
   through all platforms, in the loader's order: opencl:N is the N-th. Private to kernels/.
   Thread: one at a time per device.  */
#ifndef WM_OPENCL_DEVICE_H
#define WM_OPENCL_DEVICE_H

#include "kernels/opencl/wm_opencl_api.h"
#include "schema/base/wm_fault.h"

#include <stdbool.h>

#define WM_OPENCL_DEVICES_MAX 64u

/* A device of the list.  */
typedef struct {
    wm_cl_object id;
    char platform[64], name[96], driver[64];
    bool is_cpu, has_double; /* float64, without which the host computes the last layers */
    uint64_t memory_bytes, buffer_bytes; /* in all, of one buffer */
    uint32_t n_unit;
    char lacks[64]; /* what strict fp32 needs and this has not; "": nothing */
} wm_opencl_info_t;

/* Fills in the devices of this machine, *n of them. WM_EHOST: there is no libOpenCL, or no driver
   behind it.  */
wm_fault_t wm_opencl_list (wm_opencl_info_t info[WM_OPENCL_DEVICES_MAX], uint32_t *n,
                           wm_error_t *error);

/* The kernels of wm_opencl.cl.  */
#define WM_OPENCL_KERNELS(KERNEL)                                                                  \
    KERNEL (see)                                                                                   \
    KERNEL (see_above)                                                                             \
    KERNEL (convolve)                                                                              \
    KERNEL (band)                                                                                  \
    KERNEL (root)                                                                                  \
    KERNEL (layer)                                                                                 \
    KERNEL (softmax)
#define WM_OPENCL_NAME(name) WM_OPENCL_##name,
typedef enum { WM_OPENCL_KERNELS (WM_OPENCL_NAME) WM_OPENCL_N_KERNEL } wm_opencl_kernel_t;

typedef struct {
    wm_opencl_info_t info;
    wm_opencl_api_t api;
    wm_cl_object context, queue, program, kernel[WM_OPENCL_N_KERNEL];
    size_t group_max[WM_OPENCL_N_KERNEL]; /* work-items of a group */
    uint64_t n_launch;                    /* of kernels, since it was opened */
    wm_cl_int lost;                       /* the first error of a call; then no call is made */
    const char *lost_by;
} wm_opencl_device_t;

/* Opens device `number` of the list, or -1: the first that is no CPU and lacks nothing, else the
   first that is no CPU, else the first; and builds the program, is_half: with WM_HALF. WM_EHOST: no
   such device, it lacks what strict fp32 needs, or its driver fails.  */
wm_fault_t wm_opencl_device_open (wm_opencl_device_t *self, int number, bool is_half,
                                  wm_error_t *error);
void wm_opencl_device_close (wm_opencl_device_t *self);

/* Returns `bytes` of the device, at least 1; NULL: it has none, which is no error yet.  */
wm_cl_object wm_opencl_buffer (wm_opencl_device_t *self, size_t bytes);

/* Has the driver give the buffer its memory now; some wait for its first use. false: the device has
   too little, which is no error yet.  */
bool wm_opencl_touch (wm_opencl_device_t *self, wm_cl_object buffer);
void wm_opencl_release (wm_opencl_device_t *self, wm_cl_object *buffer);

/* Copies in order of calls; read waits for all before it. An error is kept in self->lost.  */
void wm_opencl_write (wm_opencl_device_t *self, wm_cl_object buffer, const void *from,
                      size_t bytes);
void wm_opencl_read (wm_opencl_device_t *self, wm_cl_object buffer, void *to, size_t bytes);

/* Copies `rows` rows of n_byte bytes, `pitch` apart at `from`, to the buffer's begin, without
   gaps.  */
void wm_opencl_write_rows (wm_opencl_device_t *self, wm_cl_object buffer, const void *from,
                           size_t rows, size_t n_byte, size_t pitch);

/* Arguments of a kernel, in order: buffers (NULL allowed) or 32-bit values.  */
typedef struct {
    bool is_buffer;
    union {
        wm_cl_object buffer;
        uint32_t value;
        float real;
    };
} wm_opencl_argument_t;
#define WM_CL_BUFFER(buffer_)                                                                      \
    {                                                                                              \
        .is_buffer = true, .buffer = (buffer_)                                                     \
    }
#define WM_CL_VALUE(value_)                                                                        \
    {                                                                                              \
        .value = (value_)                                                                          \
    }
#define WM_CL_REAL(real_)                                                                          \
    {                                                                                              \
        .real = (real_)                                                                            \
    }

/* Launches a kernel over groups[0] x groups[1] x groups[2] groups of `items` x 1 x 1.  */
void wm_opencl_launch (wm_opencl_device_t *self, wm_opencl_kernel_t kernel, uint32_t items,
                       const uint32_t groups[3], const wm_opencl_argument_t *argument, uint32_t n);

/* WM_EHOST once a call has failed: which, and what it means.  */
wm_fault_t wm_opencl_check (const wm_opencl_device_t *self, wm_error_t *error);

#endif
