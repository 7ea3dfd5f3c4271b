/* wm_graphdef.h - rewrites a TensorFlow frozen graph as ONNX nodes. Private to kernels/.

   The experiments keep their networks as frozen GraphDef files (.pb). Here the nodes that a network
   of the family is made of are rewritten as ONNX nodes of operator set 11 (a convolution over
   channels-last images becomes one between two transposes, a shape's stack becomes unsqueezes and a
   concat, ...), so that one importer reads both. Every other node is kept by name and operator in
   the domain "tensorflow", which only OpenVINO can run, from the original file.
   Thread: one at a time.  */
#ifndef WM_GRAPHDEF_H
#define WM_GRAPHDEF_H

#include "kernels/onnx/wm_onnx.h"

/* Parses self->bytes, which wm_wire_check has passed, and fills self->graph; inputs are the
   placeholders, outputs the nodes that no node reads, in the file's order. The graph lives in
   self->arena and refers to self->graphdef, the parsed file. WM_EBATCH: not a frozen graph, or a
   name that no node has; WM_EHOST: no memory.  */
wm_fault_t wm_graphdef_read (wm_onnx_t *self, wm_error_t *error);

/* Removes the outputs that no input feeds, remains of conditionals. Needs self->value and
   self->node.  */
void wm_graphdef_prune (wm_onnx_t *self);

/* Makes the file with only the nodes that the wanted outputs need: OpenVINO would require
   placeholders that no node reads any more. *bytes and *size stay if all are needed and nothing
   inner is wanted (wm_onnx_pack); else they are the arena's. WM_EHOST: no memory.  */
wm_fault_t wm_graphdef_pack (wm_onnx_t *self, const char *const *inner, size_t n,
                             const void **bytes, size_t *size, wm_error_t *error);

#endif
