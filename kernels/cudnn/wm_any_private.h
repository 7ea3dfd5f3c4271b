/* wm_any_private.h - what the files that lower any CNN share: wm_any_net.c walks, wm_any_ops.c
   has the operators, wm_any_walk.c what both need. Private to them.  */
#ifndef WM_ANY_PRIVATE_H
#define WM_ANY_PRIVATE_H

#include "kernels/cudnn/wm_any_net.h"
#include "kernels/onnx/wm_tensor.h"
#include "schema/wm_limits.h"

#define WM_ANY_INPUTS_MAX 16u

typedef enum { WM_ANY_UNKNOWN, WM_ANY_CONSTANT, WM_ANY_BUFFER } wm_any_state_t;

/* A value of the graph. Dimensions are ONNX's without the batch.  */
typedef struct {
    wm_any_state_t kind;
    wm_tensor_t tensor; /* CONSTANT */
    uint32_t buffer, n_dim, dim[WM_MODEL_DIMS_MAX];
    bool last;      /* it lies channels last */
    int32_t step;   /* that made it and may still take an activation; -1: none */
    uint32_t reads; /* by nodes, and as an output */
} wm_any_value_t;

typedef struct {
    wm_any_net_t *net;
    wm_onnx_t onnx;
    wm_arena_t arena;
    wm_any_value_t **value; /* (onnx.n_value) */
    const Onnx__NodeProto *node;
    wm_any_value_t *in[WM_ANY_INPUTS_MAX]; /* of the node; NULL: left out */
    size_t n_in;
    wm_onnx_ports_t ports;
    wm_fault_t fault;
    wm_error_t *error;
} wm_any_walk_t;

/* All of these return false, or NULL, after a fault was set.  */
bool wm_any_refuse (wm_any_walk_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
bool wm_any_no_memory (wm_any_walk_t *self);
float *wm_any_constants (wm_any_walk_t *self, size_t n, size_t *at); /* n of them, zeros */
wm_any_step_t *wm_any_step (wm_any_walk_t *self, wm_any_kind_t kind, uint32_t from);
bool wm_any_buffer (wm_any_walk_t *self, uint32_t size, uint32_t *buffer);

uint32_t wm_any_values (const wm_any_value_t *value);
void wm_any_plane (const wm_any_value_t *value, uint32_t chw[3]);
const wm_tensor_t *wm_any_constant (const wm_any_walk_t *self, size_t k);

/* Copies a value to a new buffer, dimension d of which is read `stride[d]` apart.  */
bool wm_any_move (wm_any_walk_t *self, wm_any_value_t *value, uint32_t n_dim, const uint32_t *dim,
                  const uint32_t *stride);
bool wm_any_last (wm_any_walk_t *self, wm_any_value_t *value);  /* channels last, */
bool wm_any_plain (wm_any_walk_t *self, wm_any_value_t *value); /* ONNX's order */

/* The node at work, one of whose inputs at least is a buffer (wm_any_ops.c).  */
bool wm_any_operator (wm_any_walk_t *self, wm_any_value_t *out);
bool wm_any_fill (wm_any_walk_t *self, wm_any_value_t *out); /* ConstantOfShape */

#endif
