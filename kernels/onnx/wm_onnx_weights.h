/* wm_onnx_weights.h - one encoding for all weights of an ONNX model. Private to kernels/.
   Thread: one at a time.  */
#ifndef WM_ONNX_WEIGHTS_H
#define WM_ONNX_WEIGHTS_H

#include "kernels/onnx/wm_onnx.h"

/* Computes the bytes that a tensor's elements have in raw_data. false: its type has none there
   (text, or a type that is not known), or there are too many.  */
bool wm_onnx_weight_bytes (const Onnx__TensorProto *tensor, uint64_t *bytes);

/* Moves the elements of every tensor of self->model into its raw_data, whichever field they are in,
   and makes sparse tensors dense. *changed: a tensor had an encoding that not every
   reader knows. WM_EBATCH names the
   tensor: its data are not those of its shape and type, lie in two fields or in another type's,
   an element is beyond its type, it is of a type that no engine computes, or it is empty and
   read by a node for which OpenVINO takes it for a number.  */
wm_fault_t wm_onnx_weights (wm_onnx_t *self, bool *changed, wm_error_t *error);

#endif
