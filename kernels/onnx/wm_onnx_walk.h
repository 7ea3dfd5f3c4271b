/* wm_onnx_walk.h - visits every tensor of an ONNX model, wherever it lies: initializers, dense and
   sparse, and attributes, of the graph, of graphs inside attributes, and of the model's functions.
   Without recursion. Private to kernels/.  Thread: one at a time.  */
#ifndef WM_ONNX_WALK_H
#define WM_ONNX_WALK_H

#include "onnx/onnx.pb-c.h"
#include "schema/base/wm_fault.h"

/* What is done, on `argument`; each may change what it is given. The first fault ends the walk.  */
typedef struct {
    /* A tensor, also the values and indices of a sparse one. `node` has it as an attribute; NULL:
       it is an initializer.  */
    wm_fault_t (*tensor) (void *argument, Onnx__TensorProto *tensor, const Onnx__NodeProto *node,
                          wm_error_t *error);
    /* After all tensors of an attribute, or all initializers of a graph; may be NULL.  */
    wm_fault_t (*attribute) (void *argument, Onnx__AttributeProto *attribute,
                             const Onnx__NodeProto *node, wm_error_t *error);
    wm_fault_t (*graph) (void *argument, Onnx__GraphProto *graph, wm_error_t *error);
    void *argument;
} wm_onnx_walk_t;

wm_fault_t wm_onnx_walk (const wm_onnx_walk_t *self, Onnx__ModelProto *model, wm_error_t *error);

#endif
