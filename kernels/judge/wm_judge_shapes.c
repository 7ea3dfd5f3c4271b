/* wm_judge_shapes.c - the shapes of a model's outputs, as ONNX Runtime computes them.  */
#include "kernels/judge/wm_draw.h"
#include "kernels/judge/wm_judge_private.h"
#include "kernels/onnx/wm_flow.h"

#include <stdlib.h>
#include <string.h>

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Takes the shape of an output, or frees the sizes that are others than before.  */
static wm_fault_t take_shape (const wm_judge_t *self, const wm_probe_tensor_t *out, bool is_first,
                              wm_port_t *port, wm_error_t *error)
{
    const uint32_t first = !self->whole;
    uint64_t values = 1;
    if (out->n_dim < first || out->n_dim - first > WM_MODEL_DIMS_MAX ||
        (first && out->dim[0] != 1) || (!is_first && out->n_dim - first != port->n_dim))
        return wm_fault (error, WM_EBATCH,
                         "output '%.128s' has no fixed rank, or none behind a batch dimension; "
                         "leave it out with --outputs, or import with --whole a model without a "
                         "batch dimension",
                         port->name);
    port->n_dim = (uint8_t) (out->n_dim - first);
    for (uint32_t d = 0; d < port->n_dim; d++) {
        const uint32_t size = (uint32_t) out->dim[d + first];
        port->dim[d] = is_first || port->dim[d] == size ? size : 0;
        values *= port->dim[d];
    }
    port->n_value = (uint32_t) values;
    return WM_OK;
}

/* Frees all sizes of outputs whose sizes a patch decides: drawn patches may not show it. Where
   there is a batch the patches of a campaign have one size, and those that do not are held.  */
static wm_fault_t free_sizes (const wm_judge_t *self, wm_port_t *output, wm_error_t *error)
{
    wm_flow_t flow;
    if (!self->whole)
        return WM_OK;
    if (wm_flow_find (&flow, self->onnx, self->parts->input, self->parts->n_input, error))
        return error->fault;
    for (uint32_t i = 0; i < self->parts->n_output; i++)
        if (wm_flow_bits (&flow, output[i].name) & WM_FLOW_SIZED) {
            memset (output[i].dim, 0, sizeof output[i].dim);
            output[i].n_value = output[i].n_dim ? 0 : 1;
        }
    return WM_OK;
}

wm_fault_t wm_judge_shapes (wm_onnx_t *onnx, bool whole, bool alone, const wm_model_parts_t *parts,
                            wm_port_t *output, wm_error_t *error)
{
    wm_judge_t self = { .onnx = onnx, .whole = whole, .parts = parts };
    const wm_backend_t *ort = wm_backend_find (wm_device_engine ("onnxruntime"), error);
    const bool ragged = wm_judge_has_free (parts->input, parts->n_input);
    const char *name[WM_MODEL_PORTS_MAX];
    wm_probe_tensor_t in[WM_MODEL_PORTS_MAX], out[WM_MODEL_PORTS_MAX];
    wm_error_t refused = { .fault = WM_OK };
    bool is_first = true;
    for (uint32_t i = 0; i < parts->n_input; i++)
        self.n_value += parts->input[i].n_value;
    for (uint32_t i = 0; i < parts->n_output; i++)
        name[i] = output[i].name;
    void *probe = ort ? ort->probe_open (parts->original, parts->original_bytes, parts->input,
                                         parts->n_input, name, parts->n_output, error)
                      : NULL;
    float *row = malloc ((ragged ? WM_JUDGE_VALUES_MAX / 8 : self.n_value) * sizeof *row + 1);
    wm_fault_t fault = !probe ? error->fault
                       : !row ? wm_fault (error, WM_EHOST, "no memory for a patch")
                              : WM_OK;
    for (uint32_t i = 0; i < WM_DRAW_KINDS * WM_DRAW_SIZES && !fault; i++) {
        const wm_draw_t kind = (wm_draw_t) (i % WM_DRAW_KINDS);
        uint32_t n = self.n_value;
        fault = ragged ? wm_draw_ragged (onnx, parts->input, parts->n_input, kind, 1 + i,
                                         i / WM_DRAW_KINDS, row, WM_JUDGE_VALUES_MAX / 8, &n, error)
                       : wm_draw_row (onnx, parts->input, parts->n_input, kind, 1 + i, row, error);
        if (fault || !n)
            continue;
        if (ragged)
            wm_judge_put_ragged (&self, row, n, in);
        else
            wm_judge_put_dense (&self, 1, row, NULL, in);
        wm_fault_t refusal = ort->probe_run (probe, in, out, &refused);
        if (refusal == WM_EHOST) {
            *error = refused;
            fault = refusal;
        }
        for (uint32_t k = 0; k < parts->n_output && !refusal && !fault; k++)
            fault = take_shape (&self, &out[k], is_first, &output[k], error);
        if (!refusal) {
            wm_judge_free_tensors (out, parts->n_output);
            is_first = false;
        }
    }
    if (!fault && is_first) {
        *error = refused;
        fault = wm_fault (error, WM_EBATCH, "%.400s",
                          refused.fault ? refused.text : "every row of the test is too large");
    }
    if (probe)
        ort->probe_close (probe);
    free (row);
    return fault || !alone ? fault : free_sizes (&self, output, error);
}
