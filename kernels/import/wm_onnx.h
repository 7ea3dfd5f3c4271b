/* wm_onnx.h - a model's graph, read within bounds: its nodes in order, its names, its ports.

   A file is ONNX, or a TensorFlow frozen graph, whose nodes are rewritten as ONNX's
   (wm_graphdef.h). It is not trusted: wm_wire.h walks it before protobuf-c sees it. Private to
   kernels/.  Thread: one at a time.  */
#ifndef WM_ONNX_H
#define WM_ONNX_H

#include "kernels/import/graphdef.pb-c.h"
#include "kernels/import/wm_arena.h"
#include "kernels/wm_model.h"
#include "onnx/onnx.pb-c.h"

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
    uint8_t sha256[32];             /* of the file, and of the data it keeps beside it */
    Onnx__ModelProto *model;        /* NULL for a frozen graph: */
    Graphdef__Graph *graphdef;      /* NULL for ONNX */
    struct wm_rewriter_t *rewriter; /* of graphdef */
    int tensorflow;                 /* a frozen graph */
    int lent;                       /* bytes are the caller's */
    int gathered;                   /* model holds data that lay in files beside it */
    wm_arena_t arena;               /* what was rewritten lives in it */
    Onnx__GraphProto *graph;
    Onnx__ValueInfoProto **output; /* (n_output) wanted; graph's own or in the arena */
    size_t n_output;
    int64_t opset; /* of the default domain */
    const Onnx__NodeProto *
        *node;              /* (n_node), every node after those it reads from; only those that */
    size_t n_node;          /* an output needs */
    wm_onnx_value_t *value; /* (n_value), sorted by name */
    size_t n_value;
} wm_onnx_t;

/* Maps a file, bounds it, and fills sha256; data in other files is brought in. On any fault the
   caller still calls wm_onnx_clear. WM_EBATCH: damaged, too deep, data in a file outside its folder;
   WM_EHOST: the file cannot be read, no memory.  */
wm_fault_t wm_onnx_open (wm_onnx_t *self, const char *path, wm_error_t *error);

/* The same of bytes in memory, which stay the caller's and outlive it: the original that a .wmm
   holds. `name` stands for the path; sha256 stays empty. WM_EBATCH also: data in another file.  */
wm_fault_t wm_onnx_lend (wm_onnx_t *self, const char *name, const void *bytes, size_t size,
                         wm_error_t *error);

/* Reads the graph of an opened file. outputs: the names of those wanted, in this order, with commas
   between; NULL for the graph's own. WM_EBATCH: damaged, a cycle, a name that nothing or two nodes
   make; WM_EHOST: no memory.  */
wm_fault_t wm_onnx_read (wm_onnx_t *self, const char *outputs, wm_error_t *error);
void wm_onnx_clear (wm_onnx_t *self);

/* Refuses nodes that would give wrong scores: drawing at random, in training mode (on the statistics
   of the batch), of ONNX Runtime's own. WM_EBATCH names the node.  */
wm_fault_t wm_onnx_refuse (wm_onnx_t *self, wm_error_t *error);

/* The file for the general engine: its own bytes where nothing was gathered or chosen, else one that
   holds what was gathered and gives what was chosen, in the arena. The n values inside it that `inner`
   names become outputs WM_ONNX_INNER 0, 1, ... behind the others. WM_EHOST: no memory.  */
wm_fault_t wm_onnx_pack (wm_onnx_t *self, const char *const *inner, size_t n, const void **bytes,
                         size_t *size, wm_error_t *error);
#define WM_ONNX_INNER "wm|%zu" /* no name of TensorFlow's can be that */

/* Which values (n_value) follow from the graph's inputs, in the arena; the others are constants.
   NULL: no memory.  */
uint8_t *wm_onnx_fed (wm_onnx_t *self);

/* In operator sets 11 and 12 Softmax runs over all dimensions from its axis on, which OpenVINO 2026.4
   gets wrong (not in 9 and 10), and Erfc and Expm1 it does not know: puts other nodes that say the
   same into self->graph, in the arena. WM_EHOST: no memory.  */
wm_fault_t wm_onnx_spell (wm_onnx_t *self, wm_error_t *error);

/* Brings the data that self->model keeps in other files into it, and into the digest. WM_EBATCH
   names the tensor and the file.  */
wm_fault_t wm_onnx_load_external (wm_onnx_t *self, wm_digest_t *digest, wm_error_t *error);

/* The value of a name: its index in self->value, or -1 (also for "", an input left out).  */
int64_t wm_onnx_find (const wm_onnx_t *self, const char *name);

/* What messages call a node: its name, or the name of its first output.  */
const char *wm_onnx_node_name (const Onnx__NodeProto *node);
const char *wm_onnx_op (const Onnx__NodeProto *node);

/* An attribute by name, or NULL; an integer attribute with its default.  */
const Onnx__AttributeProto *wm_onnx_attribute (const Onnx__NodeProto *node, const char *name);
int64_t wm_onnx_int (const Onnx__NodeProto *node, const char *name, int64_t otherwise);

/* How inputs and outputs are read.  */
typedef struct {
    int whole;       /* told: they have no batch dimension; one patch is all of them */
    int fixed_batch; /* found: one of them has a batch dimension of 1 */
    int other_type;  /* found: one of them is not float32 */
} wm_onnx_ports_t;

/* The graph's inputs that are no initializers. WM_EBATCH unless each is a tensor of numbers with a
   batch dimension (any size or 1; unless `whole`) and otherwise fixed ones.  */
wm_fault_t wm_onnx_inputs (const wm_onnx_t *self, wm_onnx_ports_t *how,
                           wm_port_t port[WM_MODEL_PORTS_MAX], uint32_t *n, wm_error_t *error);

/* The names of the outputs wanted, their shapes still empty.  */
wm_fault_t wm_onnx_outputs (const wm_onnx_t *self, wm_port_t port[WM_MODEL_PORTS_MAX], uint32_t *n,
                            wm_error_t *error);

/* Their shapes as the file says them, under the inputs' rules. A frozen graph says none.  */
wm_fault_t wm_onnx_output_shapes (const wm_onnx_t *self, wm_onnx_ports_t *how, wm_port_t *port,
                                  wm_error_t *error);

#endif
