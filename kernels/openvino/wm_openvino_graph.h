/* wm_openvino_graph.h - a model's file as an OpenVINO graph over float32, guarded
   (kernels/onnx/wm_index_guard.h). Private to wm_openvino*.c. Thread: one at a time.  */
#ifndef WM_OPENVINO_GRAPH_H
#define WM_OPENVINO_GRAPH_H

#include "kernels/onnx/wm_index_guard.h"
#include "kernels/wm_device.h"

#include <openvino/c/openvino.h>

/* Sets *error to OpenVINO's own text of its last error, on one line. Returns `fault`.  */
wm_fault_t wm_openvino_failed (wm_error_t *error, wm_fault_t fault, const char *what);

typedef struct {
    ov_model_t *graph;
    wm_index_guard_t *guard;         /* NULL: nothing needs it */
    const wm_port_t *input, *output; /* lent */
    uint32_t n_input, n_output;
    /* OpenVINO's; "": an input that no node reads, which it does not have.  */
    char input_name[WM_MODEL_PORTS_MAX][132], output_name[WM_SHAPES_MAX][132];
    bool has_doubts; /* given: guarded by WM_GUARD_DOUBTS */
    bool whole;      /* the inputs have no batch dimension: one patch at a time */
} wm_openvino_graph_t;

/* Reads ONNX bytes or a frozen graph; values of any other type are converted from and to float32.
   Ports are named; outputs' shapes may be unknown yet. WM_EBATCH: OpenVINO cannot read it, has no
   such input or output, or would take indices that cannot be guarded. On any fault the caller still
   calls the function below.  */
wm_fault_t wm_openvino_graph_read (wm_openvino_graph_t *self, ov_core_t *core, const void *bytes,
                                   size_t size, wm_error_t *error);
void wm_openvino_graph_clear (wm_openvino_graph_t *self);

/* Gives all inputs `rows` patches; free dimensions stay free. False where the graph does not take
   them.  */
bool wm_openvino_graph_reshape (wm_openvino_graph_t *self, uint32_t rows);

/* The shape of a float32 tensor, which the caller frees; OpenVINO's C interface has none for a
   scalar, of rank 0. false: it cannot be read.  */
bool wm_openvino_tensor_shape (const ov_tensor_t *tensor, ov_shape_t *shape);

/* Compiles the graph in its present shape, for so many streams on so many threads; is_fast: in
   OpenVINO's own choice of precision.  */
wm_fault_t wm_openvino_graph_compile (const wm_openvino_graph_t *self, ov_core_t *core, int streams,
                                      int threads, bool is_fast, ov_compiled_model_t **compiled,
                                      wm_error_t *error);

/* The shape of output i behind its batch dimension, which must be `rows`; a dimension that is free
   becomes 0. False if the batch dimension is another, the rank is not fixed, or it is too long.  */
bool wm_openvino_graph_shape (const wm_openvino_graph_t *self, uint32_t i, uint32_t rows,
                              wm_port_t *port);

/* What the guard found in what this request computed: where it is not WM_GUARD_SOUND its scores
   mean nothing, and `text` gets why.  */
wm_guard_found_t wm_openvino_graph_find (const wm_openvino_graph_t *self,
                                         ov_infer_request_t *request, char *text, size_t bytes);

#endif
