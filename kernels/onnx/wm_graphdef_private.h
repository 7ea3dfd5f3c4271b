/* wm_graphdef_private.h - shared by the parts of the rewriter: the graph (wm_graphdef.c), its nodes
   (wm_graphdef_node.c), names and memory (wm_graphdef_names.c). Private to wm_graphdef*.c.

   A tensor "node:0" is called "node" here, and "node:1" keeps its name; what one TensorFlow node
   becomes in between is called "node|...", which is not a valid name in TensorFlow. Without memory
   the builders do nothing; arena.failed is checked once, at the end.  */
#ifndef WM_GRAPHDEF_PRIVATE_H
#define WM_GRAPHDEF_PRIVATE_H

#include "kernels/onnx/wm_graphdef.h"

typedef struct {
    const Graphdef__Node *node;
    uint32_t n_output; /* outputs that nodes read */
    bool read;         /* or waited for */
    bool needed;       /* by a wanted output */
} wm_named_t;

typedef struct wm_rewriter_t {
    wm_onnx_t *onnx;
    Onnx__GraphProto *graph;
    wm_named_t *named; /* (n_named), sorted by name */
    size_t n_named, node_max, tensor_max;
    const Graphdef__Node *from; /* being rewritten, with its data inputs: */
    char **in;
    size_t n_in;
} wm_rewriter_t;

/* Allocates zeroed memory in the graph's arena. NULL sets arena.failed.  */
void *wm_graphdef_take (wm_rewriter_t *self, uint64_t n, size_t size);

/* Orders two wm_named_t by name, for qsort.  */
int wm_graphdef_by_name (const void *a, const void *b);

/* Returns the node of an input "name", "name:1" or "^name", and which output of it; or NULL.  */
wm_named_t *wm_graphdef_find (const wm_rewriter_t *self, const char *input, uint32_t *output);

/* The name of a value inside the node being rewritten: "node|part", or for "" the node's own.  */
char *wm_graphdef_name (wm_rewriter_t *self, const char *part);

/* An attribute, or NULL.  */
const Graphdef__Value *wm_graphdef_attr (const Graphdef__Node *node, const char *key);

/* Returns ONNX's type for one of TensorFlow's, 0 for one that is not read.  */
int wm_graphdef_type (int32_t type);

/* Describes an input or output called `called` of one of ONNX's types. NULL without memory.  */
Onnx__ValueInfoProto *wm_graphdef_port (wm_rewriter_t *self, char *called,
                                        const Graphdef__Shape *shape, int type);

/* Adds the current placeholder to the graph's inputs, if a node reads it.  */
void wm_graphdef_input (wm_rewriter_t *self);

/* Adds a node's ONNX nodes or initializer to the graph.  */
void wm_graphdef_rewrite (wm_rewriter_t *self, const Graphdef__Node *node);

#endif
