/* wm_opencl_private.h - the inside of the OpenCL engine.  */
#ifndef WM_OPENCL_PRIVATE_H
#define WM_OPENCL_PRIVATE_H

#include "kernels/opencl/wm_opencl.h"
#include "kernels/patch/wm_image.h"

#define WM_OPENCL_NONE UINT32_MAX /* NONE of wm_opencl.cl */
#define WM_OPENCL_TILE 4u         /* TILE of wm_opencl.cl */

/* A convolution on the device, and the positions of the region at hand.  */
typedef struct {
    wm_cl_object weight, bias, reference, constant; /* reference: r, 0 of all but the last */
    wm_cl_object slot, value;
    uint32_t rows, cols; /* positions of the region */
} wm_opencl_conv_t;

/* A dense layer: its weights, and its bias, of a root what inactive positions give.  */
typedef struct {
    wm_cl_object weight, bias, base; /* base: of a root, unless all 0 */
    uint32_t offset;                 /* of its outputs in a hit's layers */
} wm_opencl_dense_t;

/* Where a hit's patch begins.  */
typedef struct {
    uint32_t row, col, hit;
} wm_opencl_place_t;

struct wm_opencl_t {
    wm_net_t net;
    wm_spec_t spec;
    bool has_spec, is_half; /* is_half: WM_HALF of wm_opencl.cl */
    float zero;
    uint32_t n_output, floats; /* floats: of a hit's layers */
    uint32_t pos_rows, pos_cols;
    wm_opencl_device_t device;
    wm_opencl_conv_t conv[WM_MODEL_CONVS_MAX];
    wm_opencl_dense_t dense[WM_MODEL_DENSES_MAX];

    /* Of a job: a region has at most cells_max pixels, a launch of dense layers hits_max hits.  */
    uint64_t cells_max;
    uint32_t hits_max;
    wm_cl_object image, list, count, hit, sum, layers, scores;
    uint32_t *h_hit;  /* (hits_max) */
    float *h_scores;  /* (hits_max, n_output) */
    float *h_layers;  /* (hits_max, floats), on a device without float64 */
    wm_plane_t *plane; /* NULL: dense patches only */
    float *cut;       /* (WM_OPENCL_CUT, patch) */
    wm_opencl_place_t *place;
    uint32_t places_max;
    wm_opencl_stats_t stats;
};

#define WM_OPENCL_CUT 256u /* patches that the host cuts at a time */

/* The dense layers behind the roots, on the host: layers (n_hit, floats), in which those of the
   roots stand before their activation.  */
void wm_opencl_finish (const wm_opencl_t *self, uint32_t n_hit, float *layers, float *scores);

/* Copies the network to the device, with what strict fp32 computes of it once.  */
wm_fault_t wm_opencl_pack (wm_opencl_t *self, wm_error_t *error);

#endif
