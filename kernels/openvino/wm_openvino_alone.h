/* wm_openvino_alone.h - finds the patches of a block whose indices lie outside their tables.
   Private to wm_openvino*.c. Thread: one at a time.

   The guard (kernels/import/wm_guard.h) tells of a whole block that an index was outside. Then each
   of its patches is computed by itself, once, to learn which brought it; the scores of the others
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

/* Computes patch `row` of a block, whose inputs begin at input[i]. *is_broken: an index of it lies
   outside, and `text` tells which.  */
wm_fault_t wm_openvino_alone_check (wm_openvino_alone_t *self, float *const *input, uint32_t row,
                                    bool *is_broken, char *text, size_t bytes, wm_error_t *error);

#endif
