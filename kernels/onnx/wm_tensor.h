/* wm_tensor.h - reads and folds the constants of an ONNX graph.

   Exporters compute shapes (Shape, Gather, Concat, ...) and transpose weights by nodes; on
   constants these are folded here. Private to kernels/.  Thread: one at a time.  */
#ifndef WM_TENSOR_H
#define WM_TENSOR_H

#include "kernels/onnx/wm_arena.h"
#include "kernels/onnx/wm_onnx.h"

#define WM_TENSOR_DIMS_MAX 8

/* Stands for the batch dimension in a tensor of sizes.  */
#define WM_TENSOR_BATCH INT64_MIN

/* A constant: floats or integers. Its values belong to the arena or to the ONNX file.  */
typedef struct {
    uint32_t n_dim;
    int64_t dim[WM_TENSOR_DIMS_MAX];
    size_t n;
    const float *f;   /* (dim), or NULL */
    const int64_t *i; /* (dim), or NULL */
    bool is_other;    /* its type in the file is not float32 */
} wm_tensor_t;

/* Reads a tensor of the file: float16, bfloat16, float32, double to floats, bool, int32, int64 to
   integers.
   false: another type, empty, or its data do not fill its shape.  */
bool wm_tensor_read (wm_arena_t *arena, const Onnx__TensorProto *proto, wm_tensor_t *out);

/* Returns a list of integers that a node has as attribute `name` or, in newer operator sets, as
   input `k` (in, n_in: its inputs; NULL if left out). NULL: it has neither.  */
const int64_t *wm_tensor_list (const Onnx__NodeProto *node, const char *name,
                               const wm_tensor_t *const *in, size_t n_in, size_t k, size_t *n);

/* Folds a node whose inputs are all constants. false: it cannot.  */
bool wm_tensor_fold (wm_arena_t *arena, const Onnx__NodeProto *node, const wm_tensor_t *const *in,
                     size_t n_in, wm_tensor_t *out);

#endif
