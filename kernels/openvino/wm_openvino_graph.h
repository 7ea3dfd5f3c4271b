/* wm_openvino_graph.h - a model's file as an OpenVINO graph over float32. Private to
   wm_openvino*.c. Thread: one at a time.  */
#ifndef WM_OPENVINO_GRAPH_H
#define WM_OPENVINO_GRAPH_H

#include "kernels/wm_device.h"

#include <openvino/c/openvino.h>

/* Sets *error to OpenVINO's own text of its last error, on one line. Returns `fault`.  */
wm_fault_t wm_openvino_failed (wm_error_t *error, wm_fault_t fault, const char *what);

typedef struct {
    ov_model_t *graph;
    const wm_port_t *input, *output; /* lent */
    uint32_t n_input, n_output;
    char input_name[WM_MODEL_PORTS_MAX][132], output_name[WM_SHAPES_MAX][132]; /* OpenVINO's */
    bool whole; /* the inputs have no batch dimension: one patch at a time */
} wm_openvino_graph_t;

/* Reads ONNX bytes or a frozen graph; values of any other type are converted from and to float32.
   Ports are named; outputs' shapes may be unknown yet. WM_EBATCH: OpenVINO cannot read it, or has
   no such input or output. On any fault the caller still calls the function below.  */
wm_fault_t wm_openvino_graph_read (wm_openvino_graph_t *self, ov_core_t *core, const void *bytes,
                                   size_t size, wm_error_t *error);
void wm_openvino_graph_clear (wm_openvino_graph_t *self);

/* Gives all inputs `rows` patches. False where the graph does not take them.  */
bool wm_openvino_graph_reshape (wm_openvino_graph_t *self, uint32_t rows);

/* The shape of output i behind its batch dimension, which must be `rows`. False if it is another,
   not fixed, or too long.  */
bool wm_openvino_graph_shape (const wm_openvino_graph_t *self, uint32_t i, uint32_t rows,
                              wm_port_t *port);

#endif
