/* wm_openvino_ragged.h - ragged rows (schema/wm_ragged.h) through an OpenVINO graph.
   Private to wm_openvino*.c. Thread: one at a time.

   Each row is computed alone, by a request and one thread of its own, so that its bits depend on no
   other row; several rows run at once.  */
#ifndef WM_OPENVINO_RAGGED_H
#define WM_OPENVINO_RAGGED_H

#include "kernels/openvino/wm_openvino_graph.h"

typedef struct wm_openvino_ragged_t wm_openvino_ragged_t;

/* Compiles the graph, which is lent like the core, for so many threads; one row more runs at once.
   row_values: of a row of scores at most. NULL with *error.  */
wm_openvino_ragged_t *wm_openvino_ragged_new (const wm_openvino_graph_t *graph, ov_core_t *core,
                                              uint32_t row_values, int threads, wm_error_t *error);
void wm_openvino_ragged_destroy (wm_openvino_ragged_t **self_p);

/* Computes n batches of one row each; scores[i] has room for row_values. A row that the
   model does not take gets a refusal with the reason. WM_EHOST: no memory.  */
wm_fault_t wm_openvino_ragged_score (wm_openvino_ragged_t *self, uint32_t n,
                                     const wm_batch_t *const *batch, float *const *scores,
                                     _Atomic uint64_t *progress, wm_error_t *error);

#endif
