/* wm_openvino_alone.h - finds the patches of a block that the guard is about. Private to
   wm_openvino*.c. Thread: one at a time.

   The guard (kernels/onnx/wm_index_guard.h) reports of a whole block that an index was outside its
   table, or that the model made a NaN. Then each of its patches is computed by itself, once, to
   learn which did; the scores of the others
   stand as they are, because a patch's scores do not depend on its block.  */
#ifndef WM_OPENVINO_ALONE_H
#define WM_OPENVINO_ALONE_H

#include "kernels/openvino/wm_openvino_graph.h"

typedef struct wm_openvino_alone_t wm_openvino_alone_t;

/* Compiles the graph, which is lent, for one patch: it has that shape from now on. NULL with
   *error.  */
wm_openvino_alone_t *wm_openvino_alone_new (wm_openvino_graph_t *graph, ov_core_t *core,
                                            bool is_fast, wm_error_t *error);
void wm_openvino_alone_destroy (wm_openvino_alone_t **self_p);

/* Computes patch `row` of a block, whose inputs begin at input[i]. *found: what the guard found in
   it; `text` gets why.  */
wm_fault_t wm_openvino_alone_check (wm_openvino_alone_t *self, const float *const *input,
                                    uint32_t row, wm_guard_found_t *found, char *text, size_t bytes,
                                    wm_error_t *error);

#endif
