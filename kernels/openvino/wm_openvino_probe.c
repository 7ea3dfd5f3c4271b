/* wm_openvino_probe.c - see wm_openvino_probe.h.  */
#include "kernels/openvino/wm_openvino_probe.h"
#include "kernels/openvino/wm_openvino_blind.h"
#include "kernels/openvino/wm_openvino_graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    wm_openvino_graph_t graph;
    wm_port_t *output; /* (n_name) names only */
    ov_core_t *core;
    ov_compiled_model_t *compiled;
    ov_infer_request_t *request;
} probe_t;

void wm_openvino_probe_close (void *probe)
{
    probe_t *self = probe;
    if (!self)
        return;
    ov_infer_request_free (self->request);
    ov_compiled_model_free (self->compiled);
    wm_openvino_graph_clear (&self->graph);
    ov_core_free (self->core);
    free (self->output);
    free (self);
}

static wm_fault_t start (probe_t *self, const void *file, size_t bytes, wm_error_t *error)
{
    wm_fault_t fault = wm_openvino_blind (error);
    if (!fault && ov_core_create (&self->core) != OK)
        fault = wm_openvino_failed (error, WM_EHOST, "start");
    if (!fault)
        fault = wm_openvino_graph_read (&self->graph, self->core, file, bytes, error);
    if (!fault && !wm_openvino_graph_reshape (&self->graph, 1))
        fault = wm_openvino_failed (error, WM_EBATCH, "give this model one patch");
    if (!fault)
        fault = wm_openvino_graph_compile (&self->graph, self->core, 1, 1, false, &self->compiled,
                                           error);
    if (!fault && ov_compiled_model_create_infer_request (self->compiled, &self->request) != OK)
        fault = wm_openvino_failed (error, WM_EHOST, "make a request");
    return fault;
}

void *wm_openvino_probe_open (const void *file, size_t bytes, const wm_port_t *input,
                              uint32_t n_input, const char *const *name, uint32_t n_name,
                              wm_error_t *error)
{
    probe_t *self = calloc (1, sizeof *self);
    if (self)
        self->output = calloc (n_name, sizeof *self->output);
    if (!self || !self->output || n_name > WM_SHAPES_MAX) {
        wm_fault (error, WM_EHOST, "no memory for %u tensors of a model", n_name);
        wm_openvino_probe_close (self);
        return NULL;
    }
    for (uint32_t i = 0; i < n_name; i++)
        strncpy (self->output[i].name, name[i], sizeof self->output[i].name - 1);
    self->graph = (wm_openvino_graph_t){
        .input = input, .n_input = n_input, .output = self->output, .n_output = n_name
    };
    if (start (self, file, bytes, error)) {
        wm_openvino_probe_close (self);
        self = NULL;
    }
    return self;
}

static wm_fault_t put (probe_t *self, uint32_t i, const wm_probe_tensor_t *in, wm_error_t *error)
{
    const ov_shape_t shape = { .rank = in->n_dim, .dims = (int64_t *) (uintptr_t) in->dim };
    ov_tensor_t *tensor = NULL;
    void *data;
    if (!*self->graph.input_name[i]) /* nothing reads it */
        return WM_OK;
    ov_status_e status = ov_tensor_create (F32, shape, &tensor);
    if (status == OK && in->n_value)
        status = ov_tensor_data (tensor, &data);
    if (status == OK && in->n_value)
        memcpy (data, in->value, in->n_value * sizeof *in->value);
    if (status == OK)
        status = ov_infer_request_set_tensor (self->request, self->graph.input_name[i], tensor);
    ov_tensor_free (tensor);
    return status == OK ? WM_OK : wm_openvino_failed (error, WM_EBATCH, "take these inputs");
}

static wm_fault_t take (probe_t *self, uint32_t i, wm_probe_tensor_t *out, wm_error_t *error)
{
    ov_tensor_t *tensor = NULL;
    ov_shape_t shape = { 0 };
    void *data = NULL;
    ov_status_e status =
        ov_infer_request_get_tensor (self->request, self->graph.output_name[i], &tensor);
    if (status == OK && !wm_openvino_tensor_shape (tensor, &shape))
        status = UNKNOW_EXCEPTION;
    *out = (wm_probe_tensor_t){ .n_dim = (uint32_t) shape.rank, .n_value = 1, .is_exact = true };
    for (int64_t d = 0; d < shape.rank && shape.rank <= WM_PROBE_DIMS_MAX; d++) {
        out->dim[d] = shape.dims[d];
        out->n_value *= (uint64_t) shape.dims[d];
    }
    if (status == OK && out->n_value)
        status = ov_tensor_data (tensor, &data);
    out->value = status == OK && shape.rank <= WM_PROBE_DIMS_MAX
                     ? malloc (out->n_value * sizeof *out->value + 1)
                     : NULL;
    if (out->value && out->n_value)
        memcpy (out->value, data, out->n_value * sizeof *out->value);
    ov_shape_free (&shape);
    ov_tensor_free (tensor);
    return out->value ? WM_OK : wm_openvino_failed (error, WM_EBATCH, "hand out a tensor");
}

wm_fault_t wm_openvino_probe_run (void *probe, const wm_probe_tensor_t *in, wm_probe_tensor_t *out,
                                  wm_error_t *error)
{
    probe_t *self = probe;
    wm_fault_t fault = WM_OK;
    memset (out, 0, self->graph.n_output * sizeof *out);
    for (uint32_t i = 0; i < self->graph.n_input && !fault; i++)
        fault = put (self, i, &in[i], error);
    if (!fault && ov_infer_request_infer (self->request) != OK)
        fault = wm_openvino_failed (error, WM_EBATCH, "compute them");
    for (uint32_t i = 0; i < self->graph.n_output && !fault; i++)
        fault = take (self, i, &out[i], error);
    for (uint32_t i = 0; i < self->graph.n_output && fault; i++) {
        free (out[i].value);
        out[i].value = NULL;
    }
    return fault;
}
