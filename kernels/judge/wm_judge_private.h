/* wm_judge_private.h - what the files of the judge share. Private to kernels/judge/.  */
#ifndef WM_JUDGE_PRIVATE_H
#define WM_JUDGE_PRIVATE_H

#include "kernels/judge/wm_judge.h"
#include "kernels/wm_backend_private.h"

#define WM_JUDGE_VALUES_MAX (1u << 23) /* of the patches of a distribution */

enum { WM_JUDGE_OPENVINO, WM_JUDGE_ONNXRUNTIME, WM_JUDGE_ENGINES };

typedef struct {
    wm_onnx_t *onnx;
    bool whole;
    const wm_model_parts_t *parts;
    double share;
    const wm_backend_t *backend[WM_JUDGE_ENGINES]; /* NULL: it is not here */
    wm_model_t *model;
    wm_device_t *device[WM_JUDGE_ENGINES]; /* NULL: it does not take the model, for this reason: */
    wm_error_t why[WM_JUDGE_ENGINES];
    uint32_t n_value, n_output, rows;
    float *row, *scores[WM_JUDGE_ENGINES], *moved, *shake; /* (rows) */
    uint8_t *status[WM_JUDGE_ENGINES];
    uint64_t n_judged; /* patches */
    uint64_t n_right;  /* of those that ONNX Runtime computes */
    double off;        /* the largest difference as a share of its output's range */
    float *worst;      /* the first patch that differs, of n_worst values; NULL: all agree */
    uint32_t n_worst;
    double worst_off; /* by so much */
} wm_judge_t;

/* ---- tensors (wm_judge_tensor.c) ------------------------------------------------------------- */

/* The inputs of `rows` dense patches, which are gathered by port into `gathered` (NULL: there is
   one patch, or one port).  */
void wm_judge_put_dense (const wm_judge_t *self, uint32_t rows, float *patch, float *gathered,
                         wm_probe_tensor_t in[WM_MODEL_PORTS_MAX]);

/* The inputs of a ragged row.  */
void wm_judge_put_ragged (const wm_judge_t *self, float *row, uint32_t n,
                          wm_probe_tensor_t in[WM_MODEL_PORTS_MAX]);

void wm_judge_free_tensors (wm_probe_tensor_t *tensor, uint32_t n);
bool wm_judge_has_free (const wm_port_t *port, uint32_t n);

/* Returns the share of its range that a value of the model may be off: more if the model computes
   in half precision somewhere, and so may round differently.  */
double wm_judge_find_share (const wm_onnx_t *onnx);

typedef struct {
    double least, most; /* of finite values */
} wm_judge_range_t;
#define WM_JUDGE_NO_RANGE ((wm_judge_range_t){ INFINITY, -INFINITY })
void wm_judge_widen (wm_judge_range_t *self, const float *value, size_t n);
double wm_judge_width (const wm_judge_range_t *self);

/* Returns by how much a value of an output of this type, and of this range, may be off.  */
double wm_judge_allowed (const wm_judge_t *self, uint16_t type, const wm_judge_range_t *range);

/* The distance of two values: 0 of NaNs, infinite of a NaN and a number.  */
double wm_judge_distance (float a, float b);

/* How far the farthest of n values is off, if any is by more than `allowed`; else 0. `shake`, or
   NULL: how far a rounding of the patch moves each. *off: the largest finite difference so far.  */
double wm_judge_beyond (const float *value, const float *right, const float *shake, size_t n,
                        double allowed, double *off);

/* ---- nodes (wm_judge_node.c) ----------------------------------------------------------------- */

/* Finds the first node that the engines compute differently on the worst patch. NULL: none is.  */
const Onnx__NodeProto *wm_judge_find_node (wm_judge_t *self, wm_error_t *error);

/* Finds the first node of which a row of this batch is not what it is alone, as ONNX Runtime
   computes them, or OpenVINO if that is not here. NULL: none is.  */
const Onnx__NodeProto *wm_judge_find_mixing (wm_judge_t *self, uint32_t rows, float *patch,
                                             wm_error_t *error);

/* Refuses a model of which rows of a batch depend on each other: WM_EBATCH names the node, if it is
   not NULL.  */
wm_fault_t wm_judge_refuse_mixing (const wm_judge_t *self, const Onnx__NodeProto *node,
                                   wm_error_t *error);

#endif
