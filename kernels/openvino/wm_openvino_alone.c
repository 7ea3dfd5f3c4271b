/* wm_openvino_alone.c - see wm_openvino_alone.h.  */
#include "kernels/openvino/wm_openvino_alone.h"

#include <stdlib.h>
#include <string.h>

struct wm_openvino_alone_t {
    const wm_openvino_graph_t *graph;
    ov_compiled_model_t *compiled;
    ov_infer_request_t *request;
    ov_tensor_t *in[WM_MODEL_PORTS_MAX];
};

wm_openvino_alone_t *wm_openvino_alone_new (wm_openvino_graph_t *graph, ov_core_t *core,
                                            bool is_fast, wm_error_t *error)
{
    wm_openvino_alone_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for the OpenVINO engine");
        return NULL;
    }
    self->graph = graph;
    bool fine = wm_openvino_graph_reshape (graph, 1);
    if (!fine)
        wm_openvino_failed (error, WM_EHOST, "give this model one patch");
    else if (wm_openvino_graph_compile (graph, core, 1, 1, is_fast, &self->compiled, error))
        fine = false;
    else if (ov_compiled_model_create_infer_request (self->compiled, &self->request) != OK) {
        wm_openvino_failed (error, WM_EHOST, "make a request");
        fine = false;
    }
    for (uint32_t i = 0; fine && i < graph->n_input; i++)
        if (*graph->input_name[i] &&
            ov_infer_request_get_tensor (self->request, graph->input_name[i], &self->in[i]) != OK) {
            wm_openvino_failed (error, WM_EHOST, "name this model's inputs");
            fine = false;
        }
    if (!fine)
        wm_openvino_alone_destroy (&self);
    return self;
}

void wm_openvino_alone_destroy (wm_openvino_alone_t **self_p)
{
    wm_openvino_alone_t *self = *self_p;
    if (!self)
        return;
    for (uint32_t i = 0; i < WM_MODEL_PORTS_MAX; i++)
        ov_tensor_free (self->in[i]);
    ov_infer_request_free (self->request);
    ov_compiled_model_free (self->compiled);
    free (self);
    *self_p = NULL;
}

wm_fault_t wm_openvino_alone_check (wm_openvino_alone_t *self, const float *const *input,
                                    uint32_t row, wm_guard_found_t *found, char *text, size_t bytes,
                                    wm_error_t *error)
{
    for (uint32_t i = 0; i < self->graph->n_input; i++) {
        const size_t n = self->graph->input[i].n_value;
        void *data;
        if (!self->in[i])
            continue;
        if (ov_tensor_data (self->in[i], &data) != OK)
            return wm_openvino_failed (error, WM_EHOST, "take the values of a patch");
        memcpy (data, input[i] + row * n, n * sizeof (float));
    }
    if (ov_infer_request_infer (self->request) != OK)
        return wm_openvino_failed (error, WM_EHOST, "compute a patch");
    *found = wm_openvino_graph_find (self->graph, self->request, text, bytes);
    return WM_OK;
}
