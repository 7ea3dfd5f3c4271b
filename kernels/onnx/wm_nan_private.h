/* wm_nan_private.h - between wm_nan*.c: what a value may be, and what an operator makes of it.  */
#ifndef WM_NAN_PRIVATE_H
#define WM_NAN_PRIVATE_H

#include "kernels/onnx/wm_nan.h"
#include "kernels/onnx/wm_tensor.h"

#define WM_NAN_LARGE 0x1p40 /* no value of a patch is taken as larger */

/* What a value may be. An infinite bound: it may be infinite.  */
typedef struct {
    double low, high;
    bool is_nan;
    bool is_whole;   /* integers or truth values, which are never NaN */
    bool is_fixed;   /* no patch decides it */
    bool is_seen;    /* it is watched: it counts as no NaN, */
    bool is_limited; /* ... and as finite */
    size_t origin;   /* the value that it is NaN with */
    size_t place;    /* of its node among all */
} wm_nan_seen_t;

typedef struct {
    wm_onnx_t *onnx;
    wm_nan_seen_t *value; /* (onnx->n_value) */
    const Onnx__NodeProto *node;
    bool is_limited; /* inputs are taken as finite */
    bool is_made;    /* the node's results may be NaN where no input is */
} wm_nan_eye_t;

/* What an operator does with a NaN that it reads.  */
typedef enum {
    WM_NAN_LOSES, /* may make a number of it */
    WM_NAN_KEEPS, /* makes NaN each result that it decides */
    WM_NAN_DROPS  /* only where the model takes other values in its place, or asks for it */
} wm_nan_way_t;

/* A value that counts as finite.  */
wm_nan_seen_t wm_nan_limited (wm_nan_seen_t value);

/* Input k of the node; one that it has not: an ordinary constant.  */
wm_nan_seen_t wm_nan_input (const wm_nan_eye_t *self, size_t k);

/* What a constant is: bounds, is_nan, is_whole.  */
wm_nan_seen_t wm_nan_constant (wm_nan_eye_t *self, const Onnx__TensorProto *proto);

/* What the node's first result may be: bounds, is_whole; sets is_made.  */
wm_nan_seen_t wm_nan_see (wm_nan_eye_t *self, wm_nan_way_t *way);

#endif
