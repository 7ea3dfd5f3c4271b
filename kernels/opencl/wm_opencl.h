/* wm_opencl.h - networks of the family on an OpenCL device, in strict fp32: the CPU's bits; or with
   what the first dense layers read in half.

   Private to kernels/ and its tests. Thread: one at a time.  */
#ifndef WM_OPENCL_H
#define WM_OPENCL_H

#include "kernels/opencl/wm_opencl_device.h"
#include "kernels/wm_device.h"

typedef struct wm_opencl_t wm_opencl_t;

/* Opens a device (wm_opencl_device_open) for a network, lent. is_half: the values of the last
   convolution and the weights that meet them are rounded to half. memory: bytes of the device that
   it may use for a job; 0: a part of what the device has. NULL with *error.  */
wm_opencl_t *wm_opencl_new (const wm_net_t *net, const wm_spec_t *spec, int number, bool is_half,
                            uint64_t memory, wm_error_t *error);
void wm_opencl_destroy (wm_opencl_t **self_p);

/* As wm_device_score. WM_EHOST: the device failed, and every later call fails alike.  */
wm_fault_t wm_opencl_score (wm_opencl_t *self, const wm_batch_t *batch, float *scores,
                            _Atomic uint64_t *progress, wm_error_t *error);

/* The kernels that were launched, and the regions of images that were worked off.  */
typedef struct {
    uint64_t launches, regions, hits;
} wm_opencl_stats_t;
wm_opencl_stats_t wm_opencl_stats (const wm_opencl_t *self);

const wm_opencl_info_t *wm_opencl_info (const wm_opencl_t *self);

#endif
