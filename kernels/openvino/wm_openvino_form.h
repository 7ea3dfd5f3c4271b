/* wm_openvino_form.h - a graph compiled for blocks of one size, and the requests that compute them.
   Private to wm_openvino*.c. Thread: one at a time.  */
#ifndef WM_OPENVINO_FORM_H
#define WM_OPENVINO_FORM_H

#include "kernels/openvino/wm_openvino_graph.h"
#include "kernels/patch/wm_image.h"

typedef struct {
    ov_infer_request_t *request;
    ov_tensor_t *in[WM_MODEL_PORTS_MAX], *out[WM_MODEL_PORTS_MAX];
    float *room[WM_MODEL_PORTS_MAX];        /* of in; NULL: no node reads this input */
    const float *input[WM_MODEL_PORTS_MAX]; /* what is computed: the room, or the batch's patches */
    bool busy, is_lent;                     /* is_lent: the request has tensors over a batch */
    uint32_t first, last;                   /* the hits it holds; hits of one cell share a row */
    uint32_t n_row;
} wm_openvino_slot_t;

typedef struct {
    const wm_openvino_graph_t *graph; /* lent, as its ports are */
    uint32_t rows, n_slot;
    ov_compiled_model_t *compiled;
    wm_openvino_slot_t *slot; /* (n_slot) one more than streams */
} wm_openvino_form_t;

/* Compiles the graph, which has the shape of so many rows, for so many streams, which share the
   threads. On any fault the caller still calls wm_openvino_form_close.  */
wm_fault_t wm_openvino_form_open (wm_openvino_form_t *self, const wm_openvino_graph_t *graph,
                                  ov_core_t *core, uint32_t rows, int streams, int threads,
                                  bool is_fast, wm_error_t *error);
void wm_openvino_form_close (wm_openvino_form_t *self);

/* Gives every stream work until all are known, and pins them.  */
wm_fault_t wm_openvino_form_pin (wm_openvino_form_t *self, wm_error_t *error);

/* Fills a slot with the patches from hit `first` on: cut from the plane, or those of the batch,
   which are read in their place if they lie there as a block does. Returns the first hit that is
   not in it.  */
uint32_t wm_openvino_form_fill (const wm_openvino_form_t *self, wm_openvino_slot_t *slot,
                                wm_plane_t *plane, const wm_batch_t *batch, uint32_t first);

#endif
