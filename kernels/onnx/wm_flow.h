/* wm_flow.h - which values of a model's graph change from patch to patch. Private to kernels/.

   Of every value it is found whether a patch decides its elements, its sizes or its rank. Where
   this is not known exactly, the answer is yes. Values of graphs inside nodes (Loop, If, Scan)
   share one table of names with the graph around them: two of one name have the bits of both.
   Thread: one at a time.  */
#ifndef WM_FLOW_H
#define WM_FLOW_H

#include "kernels/onnx/wm_onnx.h"

typedef enum {
    WM_FLOW_FED = 1,   /* a patch decides its elements */
    WM_FLOW_SIZED = 2, /* ... the size of a dimension */
    WM_FLOW_RANKED = 4 /* ... how many dimensions it has */
} wm_flow_bits_t;
#define WM_FLOW_ALL 7u

typedef struct {
    const char *name;
    uint8_t bits; /* of wm_flow_bits_t */
} wm_flow_value_t;

typedef struct {
    const wm_onnx_t *onnx;
    const Onnx__GraphProto **graph; /* (n_graph) the first is the model's, others lie in nodes */
    size_t n_graph;
    wm_flow_value_t *value; /* (n_value), sorted by name */
    size_t n_value;
} wm_flow_t;

/* Follows all values of a graph that was read; memory is onnx's arena's. The n_port ports are the
   model's inputs: only sizes that they leave free change. WM_EHOST: no memory.  */
wm_fault_t wm_flow_find (wm_flow_t *self, wm_onnx_t *onnx, const wm_port_t *port, uint32_t n_port,
                         wm_error_t *error);

/* Returns the bits of a value, 0 for a constant, "" or NULL; of a node's input k, 0 if it has
   none.  */
unsigned wm_flow_bits (const wm_flow_t *self, const char *name);
unsigned wm_flow_input (const wm_flow_t *self, const Onnx__NodeProto *node, size_t k);

#endif
