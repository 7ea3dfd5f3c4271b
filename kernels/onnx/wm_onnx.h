/* wm_onnx.h - reads a model's graph within bounds: its nodes in order, its names, its ports.

   A file is ONNX, or a TensorFlow frozen graph, whose nodes are rewritten as ONNX's
   (wm_graphdef.h). It is not trusted: wm_wire.h walks it before protobuf-c sees it. Private to
   kernels/.  Thread: one at a time.  */
#ifndef WM_ONNX_H
#define WM_ONNX_H

#include "kernels/model/wm_model.h"
#include "kernels/onnx/graphdef.pb-c.h"
#include "kernels/onnx/wm_arena.h"
#include "onnx/onnx.pb-c.h"

/* A value that a node may read: a graph input, an initializer (or both), or a node's output.  */
typedef struct {
    const char *name;
    const Onnx__TensorProto *initializer; /* or NULL */
    const Onnx__NodeProto *node;          /* that makes it, or NULL */
    uint32_t node_index;
} wm_onnx_value_t;

typedef struct {
    const char *path;  /* lent */
    const char *spare; /* lent: no file that it reads data from may be this; NULL: any */
    const uint8_t *bytes;
    size_t size;
    uint8_t sha256[32];             /* of the file, and of the data it keeps beside it */
    Onnx__ModelProto *model;        /* NULL for a frozen graph: */
    Graphdef__Graph *graphdef;      /* NULL for ONNX */
    struct wm_rewriter_t *rewriter; /* of graphdef */
    bool tensorflow;                /* a frozen graph */
    bool lent;                      /* bytes are the caller's */
    bool gathered;    /* model holds data of files beside it, or in another encoding than bytes */
    wm_arena_t arena; /* what was rewritten lives in it */
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

/* Maps a file, bounds it, fills in sha256, and reads data in other files. `spare`: the file that is
   to be written, or NULL. On any fault the caller still calls wm_onnx_clear. WM_EBATCH: damaged,
   too deep, data in a file outside its folder; WM_EUSAGE: data in the file to spare; WM_EHOST: the
   file cannot be read, no memory.  */
wm_fault_t wm_onnx_open (wm_onnx_t *self, const char *path, const char *spare, wm_error_t *error);

/* The same for bytes in memory, which the caller keeps until wm_onnx_clear: the original that a
   .wmm holds. `name` replaces the path; sha256 stays empty. WM_EBATCH also: data in another
   file.  */
wm_fault_t wm_onnx_lend (wm_onnx_t *self, const char *name, const void *bytes, size_t size,
                         wm_error_t *error);

/* Parses an opened file, unless it is parsed, or a frozen graph; wm_onnx_read does so, too.
   WM_EBATCH: damaged.  */
wm_fault_t wm_onnx_parse (wm_onnx_t *self, wm_error_t *error);

/* Reads the graph of an opened file, in which all weights are dense and in raw_data from here on
   (wm_onnx_weights.h). outputs: the wanted names, in this order, separated by commas;
   NULL for the graph's own. WM_EBATCH: damaged, a cycle, a name that nothing or two nodes
   make; WM_EHOST: no memory.  */
wm_fault_t wm_onnx_read (wm_onnx_t *self, const char *outputs, wm_error_t *error);
void wm_onnx_clear (wm_onnx_t *self);

/* Refuses nodes that would give wrong scores: random numbers, training mode (statistics of the
   batch), operators of ONNX Runtime only. WM_EBATCH names the node.  */
wm_fault_t wm_onnx_refuse (wm_onnx_t *self, wm_error_t *error);

/* Whether a node reads a constant with a NaN, which may be meant; `text` gets the first.  */
bool wm_onnx_find_nan (wm_onnx_t *self, char *text, size_t bytes);

/* Returns the first node that OpenVINO is known to compute otherwise than ONNX, and what of it, if
   drawn patches may not show it; NULL: none.  */
const Onnx__NodeProto *wm_onnx_doubt (const wm_onnx_t *self, const char **doubt);

/* Refuses nodes that both general engines are known to compute otherwise than ONNX; and those that
   OpenVINO is, for a model that nothing judges. WM_EBATCH names the node.  */
wm_fault_t wm_onnx_refuse_known (wm_onnx_t *self, wm_error_t *error);
wm_fault_t wm_onnx_refuse_unjudged (const wm_onnx_t *self, wm_error_t *error);

/* Makes the file that a .wmm stores: the original bytes, or, if data was gathered or outputs were
   chosen, a new file with them, in the arena. The n values inside it that `inner` names become
   outputs WM_ONNX_INNER 0, 1, ... after the others. WM_EHOST: no memory.  */
wm_fault_t wm_onnx_pack (wm_onnx_t *self, const char *const *inner, size_t n, const void **bytes,
                         size_t *size, wm_error_t *error);
#define WM_ONNX_INNER "wm|%zu" /* not a valid name in TensorFlow */

/* Returns which values (n_value) depend on the graph's inputs, in the arena; the others are
   constants. NULL: no memory.  */
uint8_t *wm_onnx_fed (wm_onnx_t *self);

/* Replaces calls of the model's own functions (ModelProto.functions) by the nodes of their bodies,
   and drops the functions. All tensors are dense and in raw_data. WM_EBATCH names the function and
   the node: damaged, calls itself, too deep or too large, of another operator set than the model's,
   or named as an operator of ONNX; WM_EHOST: no memory.  */
wm_fault_t wm_onnx_inline (wm_onnx_t *self, wm_error_t *error);

/* Replaces nodes by equivalent ones in self->graph, in the arena: Softmax of operator sets 11 and
   12, which runs over all dimensions from its axis on and which OpenVINO 2026.4 computes wrongly
   (not in 9 and 10), and Erfc and Expm1, which OpenVINO lacks. WM_EHOST: no memory.  */
wm_fault_t wm_onnx_spell (wm_onnx_t *self, wm_error_t *error);

/* Reads the data that self->model keeps in other files into it, and into the digest: files that lie
   beside the model as it was named, or beside what that is a link to, or links there. WM_EBATCH
   names the tensor and the file.  */
wm_fault_t wm_onnx_load_external (wm_onnx_t *self, wm_digest_t *digest, wm_error_t *error);

/* Returns a text of the file, "" for one that is left out.  */
static inline const char *wm_onnx_text (const char *text)
{
    return text ? text : "";
}

/* Fills in self->value, of all names of self->graph. WM_EBATCH: a name that two nodes make;
   WM_EHOST: no memory.  */
wm_fault_t wm_onnx_collect (wm_onnx_t *self, wm_error_t *error);

/* Returns the value of a name: its index in self->value, or -1 (also for "", an input left
   out).  */
int64_t wm_onnx_find (const wm_onnx_t *self, const char *name);

/* Returns what messages call a node: its name, or the name of its first output.  */
const char *wm_onnx_node_name (const Onnx__NodeProto *node);
const char *wm_onnx_op (const Onnx__NodeProto *node);

/* An attribute by name, or NULL; an integer attribute with its default.  */
const Onnx__AttributeProto *wm_onnx_attribute (const Onnx__NodeProto *node, const char *name);
int64_t wm_onnx_int (const Onnx__NodeProto *node, const char *name, int64_t otherwise);

/* Returns whether an attribute is there, and is this text.  */
bool wm_onnx_attribute_is (const Onnx__AttributeProto *a, const char *text);

/* How to read inputs and outputs, and what was found.  */
typedef struct {
    bool whole;       /* given, or found: they have no batch dimension; one patch is all of them */
    bool fixed_batch; /* found: one of them has a batch dimension of 1 */
    bool other_type;  /* found: one of them is not float32 */
    bool free;        /* found: one of them has a dimension of no fixed size behind the batch */
} wm_onnx_ports_t;

/* Reads the graph's inputs that are not initializers. WM_EBATCH unless each is a tensor of numbers
   with a batch dimension (any size or 1; unless `whole`) and others that are fixed or free.  */
wm_fault_t wm_onnx_inputs (const wm_onnx_t *self, wm_onnx_ports_t *how,
                           wm_port_t port[WM_MODEL_PORTS_MAX], uint32_t *n, wm_error_t *error);

/* Reads the names of the wanted outputs; their shapes stay empty.  */
wm_fault_t wm_onnx_outputs (const wm_onnx_t *self, wm_port_t port[WM_MODEL_PORTS_MAX], uint32_t *n,
                            wm_error_t *error);

/* Reads the shapes that the file states, under the inputs' rules, but none may be free: without
   OpenVINO it is not known which are. A frozen graph states none.  */
wm_fault_t wm_onnx_output_shapes (const wm_onnx_t *self, wm_onnx_ports_t *how, wm_port_t *port,
                                  wm_error_t *error);

#endif
