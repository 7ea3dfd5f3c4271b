/* wm_openvino_ragged.c - see wm_openvino_ragged.h.

   A row that ends by an exception (lengths that do not fit each other) leaves sizes of its own in
   the graph of its stream (OpenVINO 2026.4), where later rows would be computed with them, also by
   other requests. So the graph is compiled again, and rows that were under way are computed again.
   Streams take rows in the order in which they were started, so that rows before it are sound.

   Requests write their outputs into tensors of ours. Into its own OpenVINO 2026.4 writes nothing
   where an output is an input as it came (Identity, a Cast to float32) and a row is smaller than
   the one before it: what it hands out then is memory that it never wrote.  */
#include "kernels/openvino/wm_openvino_ragged.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    ov_infer_request_t *request;
    ov_tensor_t *in[WM_MODEL_PORTS_MAX], *out[WM_MODEL_PORTS_MAX];
    const wm_batch_t *batch; /* the row that it computes, or shall compute again, */
    float *scores;           /* and where its scores go; NULL: none */
} slot_t;

struct wm_openvino_ragged_t {
    const wm_openvino_graph_t *graph;
    ov_core_t *core;
    int threads;
    uint32_t row_values; /* of a row of scores at most */
    ov_compiled_model_t *compiled;
    bool is_spoilt; /* a row ended by an exception */
    uint32_t n_slot;
    slot_t slot[];
};

/* ---- life ------------------------------------------------------------------------------------ */

/* Frees what was compiled, and all requests.  */
static void clear (wm_openvino_ragged_t *self)
{
    for (uint32_t s = 0; s < self->n_slot; s++) {
        ov_infer_request_free (self->slot[s].request);
        self->slot[s].request = NULL;
    }
    ov_compiled_model_free (self->compiled);
    self->compiled = NULL;
}

/* Gives output i of the request a tensor, whose free dimensions follow its rows. By its port: the
   name may also be that of an input.  */
static bool lend_output (const wm_openvino_ragged_t *self, slot_t *slot, uint32_t i)
{
    const wm_openvino_graph_t *graph = self->graph;
    const wm_port_t *output = &graph->output[i];
    int64_t dim[WM_RAGGED_DIMS_MAX + 1] = { 1 };
    for (uint32_t d = 0; d < output->n_dim; d++)
        dim[d + 1] = output->dim[d];
    const ov_shape_t shape = { .rank = output->n_dim + !graph->whole, .dims = dim + graph->whole };
    ov_output_const_port_t *port = NULL;
    const bool fine =
        (slot->out[i] || ov_tensor_create (F32, shape, &slot->out[i]) == OK) &&
        ov_compiled_model_output_by_name (self->compiled, graph->output_name[i], &port) == OK &&
        ov_infer_request_set_tensor_by_const_port (slot->request, port, slot->out[i]) == OK;
    ov_output_const_port_free (port);
    return fine;
}

static bool make_request (const wm_openvino_ragged_t *self, slot_t *slot)
{
    bool fine = ov_compiled_model_create_infer_request (self->compiled, &slot->request) == OK;
    for (uint32_t i = 0; i < self->graph->n_output && fine; i++)
        fine = lend_output (self, slot, i);
    return fine;
}

/* Compiles the graph, again where it was; nothing runs.  */
static wm_fault_t compile (wm_openvino_ragged_t *self, wm_error_t *error)
{
    clear (self);
    wm_fault_t fault = wm_openvino_graph_compile (self->graph, self->core, self->threads,
                                                  self->threads, false, &self->compiled, error);
    for (uint32_t s = 0; s < self->n_slot && !fault; s++)
        if (!make_request (self, &self->slot[s]))
            fault = wm_openvino_failed (error, WM_EBATCH, "give this model's outputs free sizes");
    self->is_spoilt = fault != WM_OK;
    return fault;
}

wm_openvino_ragged_t *wm_openvino_ragged_new (const wm_openvino_graph_t *graph, ov_core_t *core,
                                              uint32_t row_values, int threads, wm_error_t *error)
{
    const uint32_t n = (uint32_t) threads + 1;
    wm_openvino_ragged_t *self = calloc (1, sizeof *self + n * sizeof *self->slot);
    if (!self) {
        wm_fault (error, WM_EHOST, "no memory for the OpenVINO engine");
        return NULL;
    }
    *self = (wm_openvino_ragged_t){
        .graph = graph, .core = core, .threads = threads, .row_values = row_values, .n_slot = n
    };
    if (compile (self, error))
        wm_openvino_ragged_destroy (&self);
    return self;
}

void wm_openvino_ragged_destroy (wm_openvino_ragged_t **self_p)
{
    wm_openvino_ragged_t *self = *self_p;
    if (!self)
        return;
    clear (self);
    for (uint32_t s = 0; s < self->n_slot; s++)
        for (uint32_t i = 0; i < WM_MODEL_PORTS_MAX; i++) {
            ov_tensor_free (self->slot[s].in[i]);
            ov_tensor_free (self->slot[s].out[i]);
        }
    free (self);
    *self_p = NULL;
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Gives input i of the request its values.  */
static ov_status_e put_input (const wm_openvino_graph_t *graph, slot_t *slot, uint32_t i,
                              const wm_ragged_t *tensor, const float *row)
{
    int64_t dim[WM_RAGGED_DIMS_MAX + 1] = { 1 };
    for (uint32_t d = 0; d < tensor->n_dim; d++)
        dim[d + 1] = tensor->dim[d];
    const ov_shape_t shape = { .rank = tensor->n_dim + !graph->whole, .dims = dim + graph->whole };
    void *data;
    ov_status_e status = slot->in[i] ? ov_tensor_set_shape (slot->in[i], shape)
                                     : ov_tensor_create (F32, shape, &slot->in[i]);
    if (status == OK && tensor->n_value) {
        status = ov_tensor_data (slot->in[i], &data);
        if (status == OK)
            memcpy (data, row + tensor->at, tensor->n_value * sizeof *row);
    }
    return status == OK
               ? ov_infer_request_set_tensor (slot->request, graph->input_name[i], slot->in[i])
               : status;
}

/* Begins the row of a batch, or refuses it.  */
static wm_fault_t start (wm_openvino_ragged_t *self, slot_t *slot, const wm_batch_t *batch,
                         float *scores, wm_error_t *error)
{
    const wm_openvino_graph_t *graph = self->graph;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    const char *broken =
        wm_model_row (graph->input, graph->n_input, batch->patch, batch->patch_values, tensor);
    if (broken) {
        wm_ragged_refuse (scores, self->row_values, broken);
        return WM_OK;
    }
    for (uint32_t i = 0; i < graph->n_input; i++)
        if (*graph->input_name[i] && put_input (graph, slot, i, &tensor[i], batch->patch) != OK)
            return wm_openvino_failed (error, WM_EHOST, "take the values of a patch");
    if (ov_infer_request_start_async (slot->request) != OK)
        return wm_openvino_failed (error, WM_EHOST, "start a patch");
    slot->batch = batch;
    slot->scores = scores;
    return WM_OK;
}

/* ---- out ------------------------------------------------------------------------------------- */

/* Finds the shape of output i, which must have the port's rank and fixed dimensions.  */
static const char *find_output (const wm_openvino_graph_t *graph, const slot_t *slot, uint32_t i,
                                wm_ragged_t *tensor)
{
    const wm_port_t *port = &graph->output[i];
    const int64_t first = !graph->whole;
    ov_shape_t shape = { 0 };
    *tensor = (wm_ragged_t){ .n_dim = port->n_dim };
    if (!wm_openvino_tensor_shape (slot->out[i], &shape))
        return "OpenVINO hands out no scores";
    bool fits = shape.rank == port->n_dim + first && (!first || shape.dims[0] == 1);
    for (uint32_t d = 0; d < port->n_dim && fits; d++) {
        const int64_t size = shape.dims[d + first];
        fits = size >= 0 && size <= WM_RAGGED_VALUES_MAX && (!port->dim[d] || size == port->dim[d]);
        tensor->dim[d] = (uint32_t) size;
    }
    ov_shape_free (&shape);
    return fits ? NULL : "an output has another shape than the model states";
}

/* Takes the outputs; is_nan: their values are NaN.  */
static const char *take_outputs (const wm_openvino_ragged_t *self, const slot_t *slot,
                                 float *scores, bool is_nan)
{
    const wm_openvino_graph_t *graph = self->graph;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    const char *broken = NULL;
    for (uint32_t i = 0; i < graph->n_output && !broken; i++)
        broken = find_output (graph, slot, i, &tensor[i]);
    if (!broken && !wm_ragged_begin (scores, self->row_values, graph->n_output, tensor))
        broken = WM_MODEL_ROW_TOO_LARGE;
    for (uint32_t i = 0; i < graph->n_output && !broken; i++) {
        void *data;
        if (!tensor[i].n_value)
            continue;
        if (ov_tensor_data (slot->out[i], &data) != OK)
            broken = "OpenVINO hands out no scores";
        else if (is_nan)
            for (uint32_t k = 0; k < tensor[i].n_value; k++)
                scores[tensor[i].at + k] = NAN;
        else
            memcpy (scores + tensor[i].at, data, tensor[i].n_value * sizeof *scores);
    }
    return broken;
}

/* Waits for a slot and takes its scores, or the reason why there are none.  */
static void collect (wm_openvino_ragged_t *self, slot_t *slot, _Atomic uint64_t *progress)
{
    wm_error_t why = { 0 };
    float *scores = slot->scores;
    if (!scores)
        return;
    slot->scores = NULL;
    if (ov_infer_request_wait (slot->request) != OK) {
        wm_openvino_failed (&why, WM_EBATCH, "compute it");
        wm_ragged_refuse (scores, self->row_values, why.text);
        self->is_spoilt = true;
    } else {
        const wm_guard_found_t found =
            wm_openvino_graph_find (self->graph, slot->request, why.text, sizeof why.text);
        const char *broken = found == WM_GUARD_OUTSIDE
                                 ? why.text
                                 : take_outputs (self, slot, scores, found == WM_GUARD_NAN);
        if (broken)
            wm_ragged_refuse (scores, self->row_values, broken);
    }
    atomic_fetch_add (progress, 1);
}

/* After a row that ended by an exception: computes the rows behind it again, one by one.  */
static wm_fault_t settle (wm_openvino_ragged_t *self, _Atomic uint64_t *progress, wm_error_t *error)
{
    if (!self->is_spoilt)
        return WM_OK;
    for (uint32_t s = 0; s < self->n_slot; s++)
        if (self->slot[s].scores)
            ov_infer_request_wait (self->slot[s].request);
    wm_fault_t fault = compile (self, error);
    for (uint32_t s = 0; s < self->n_slot && !fault; s++) {
        slot_t *slot = &self->slot[s];
        if (!slot->scores)
            continue;
        fault = start (self, slot, slot->batch, slot->scores, error);
        if (!fault)
            collect (self, slot, progress);
        if (!fault && self->is_spoilt)
            fault = compile (self, error);
    }
    return fault;
}

wm_fault_t wm_openvino_ragged_score (wm_openvino_ragged_t *self, uint32_t n,
                                     const wm_batch_t *const *batch, float *const *scores,
                                     _Atomic uint64_t *progress, wm_error_t *error)
{
    wm_fault_t fault = self->is_spoilt ? compile (self, error) : WM_OK;
    uint32_t turn = 0;
    for (uint32_t i = 0; i < n && !fault; i++, turn++) {
        slot_t *slot = &self->slot[turn % self->n_slot];
        collect (self, slot, progress);
        fault = settle (self, progress, error);
        if (!fault)
            fault = start (self, slot, batch[i], scores[i], error);
    }
    for (uint32_t s = 0; s < self->n_slot && !fault; s++, turn++) {
        collect (self, &self->slot[turn % self->n_slot], progress);
        fault = settle (self, progress, error);
    }
    for (uint32_t s = 0; s < self->n_slot; s++) { /* after a fault all must rest */
        if (self->slot[s].scores && self->slot[s].request)
            ov_infer_request_wait (self->slot[s].request);
        self->slot[s].scores = NULL;
    }
    return fault;
}
