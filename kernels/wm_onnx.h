/* wm_onnx.h - an ONNX file, read within bounds: its nodes in order, its names, its ports.

   The file is not trusted. Before protobuf-c sees it, the wire format is walked along ONNX's own
   schema without recursion: nesting, the number of fields, and tensors kept in other files are
   refused there. Private to kernels/.  Thread: one at a time.  */
#ifndef WM_ONNX_H
#define WM_ONNX_H

#include "kernels/wm_model.h"
#include "onnx/onnx.pb-c.h"

#define WM_ONNX_DEPTH_MAX 32 /* messages inside messages; real files reach 6 to 12 */
#define WM_ONNX_FIELDS_MAX                                                                         \
    (1u                                                                                            \
     << 24) /* bounds what parsing allocates; real files stay below 1e6                         \
                */

/* Something a node may read: a graph input, an initializer (or both), or a node's output.  */
typedef struct {
    const char *name;
    const Onnx__TensorProto *initializer; /* or NULL */
    const Onnx__NodeProto *node;          /* that makes it, or NULL */
    uint32_t node_index;
} wm_onnx_value_t;

typedef struct {
    const char *path; /* lent */
    const uint8_t *bytes;
    size_t size;
    uint8_t sha256[32];
    Onnx__ModelProto *model;
    const Onnx__GraphProto *graph;
    int64_t opset;                /* of the default domain */
    const Onnx__NodeProto **node; /* (graph->n_node), every node after those it reads from */
    wm_onnx_value_t *value;       /* (n_value), sorted by name */
    size_t n_value;
} wm_onnx_t;

/* Reads and checks a file. On any fault the caller still calls wm_onnx_clear. WM_EBATCH: damaged,
   too deep, external data, a cycle, a name that nothing or two nodes make; WM_EHOST: the file
   cannot be read, no memory.  */
wm_fault_t wm_onnx_read (wm_onnx_t *self, const char *path, wm_error_t *error);
void wm_onnx_clear (wm_onnx_t *self);

/* The value of a name: its index in self->value, or -1 (also for "", an input left out).  */
int64_t wm_onnx_find (const wm_onnx_t *self, const char *name);

/* What messages call a node: its name, or the name of its first output.  */
const char *wm_onnx_node_name (const Onnx__NodeProto *node);
const char *wm_onnx_op (const Onnx__NodeProto *node);

/* An attribute by name, or NULL; an integer attribute with its default.  */
const Onnx__AttributeProto *wm_onnx_attribute (const Onnx__NodeProto *node, const char *name);
int64_t wm_onnx_int (const Onnx__NodeProto *node, const char *name, int64_t otherwise);

/* The graph's inputs that are no initializers. WM_EBATCH unless each is float32 with a batch
   dimension (any size or 1) followed by fixed ones. fixed_batch: set if one of them is 1.  */
wm_fault_t wm_onnx_inputs (const wm_onnx_t *self, wm_port_t port[WM_MODEL_PORTS_MAX], uint32_t *n,
                           int *fixed_batch, wm_error_t *error);

/* The graph's outputs, under the same rules.  */
wm_fault_t wm_onnx_outputs (const wm_onnx_t *self, wm_port_t port[WM_MODEL_PORTS_MAX], uint32_t *n,
                            wm_error_t *error);

#endif
