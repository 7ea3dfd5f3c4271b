/* wm_graphdef_private.h - what the two halves of the rewriter share: names and memory. Private to
   wm_graphdef*.c.

   A tensor "node:0" is called "node" here, and "node:1" keeps its name; what one TensorFlow node
   becomes in between is called "node|...", which no name of TensorFlow's can be. Where memory ends
   the builders do nothing, and arena.failed is looked at once.  */
#ifndef WM_GRAPHDEF_PRIVATE_H
#define WM_GRAPHDEF_PRIVATE_H

#include "kernels/import/wm_graphdef.h"

typedef struct {
    const Graphdef__Node *node;
    uint32_t n_output; /* as many as somebody reads */
    int read;          /* or waited for */
    int needed;        /* by an output that is wanted */
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

/* Zeroed memory of the graph's arena, or NULL, and then arena.failed.  */
void *wm_graphdef_take (wm_rewriter_t *self, uint64_t n, size_t size);

/* The node of an input "name", "name:1" or "^name", and which output of it is meant; or NULL.  */
wm_named_t *wm_graphdef_find (const wm_rewriter_t *self, const char *input, uint32_t *output);

/* The name of a value inside the node being rewritten: "node|part", or for "" the node's own.  */
char *wm_graphdef_name (wm_rewriter_t *self, const char *part);

/* An attribute, or NULL.  */
const Graphdef__Value *wm_graphdef_attr (const Graphdef__Node *node, const char *key);

/* ONNX's type for one of TensorFlow's, 0 for one that is not read.  */
int wm_graphdef_type (int32_t type);

/* Adds a placeholder that somebody reads to the graph's inputs.  */
void wm_graphdef_input (wm_rewriter_t *self);

/* Adds a node's ONNX nodes or initializer to the graph.  */
void wm_graphdef_rewrite (wm_rewriter_t *self, const Graphdef__Node *node);

#endif
