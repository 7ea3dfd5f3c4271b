/* wm_openvino_form.c - see wm_openvino_form.h.  */
#include "kernels/openvino/wm_openvino_form.h"
#include "kernels/openvino/wm_openvino_pin.h"

#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 100 /* of work for all streams, until each has done its share */

static wm_fault_t make_slot (const wm_openvino_form_t *self, wm_openvino_slot_t *slot,
                             wm_error_t *error)
{
    const wm_openvino_graph_t *graph = self->graph;
    if (ov_compiled_model_create_infer_request (self->compiled, &slot->request) != OK)
        return wm_openvino_failed (error, WM_EHOST, "make a request");
    for (uint32_t i = 0; i < graph->n_input; i++) {
        void *data;
        size_t bytes, want = (size_t) self->rows * graph->input[i].n_value * sizeof (float);
        if (!*graph->input_name[i])
            continue;
        if (ov_infer_request_get_tensor (slot->request, graph->input_name[i], &slot->in[i]) != OK ||
            ov_tensor_data (slot->in[i], &data) != OK ||
            ov_tensor_get_byte_size (slot->in[i], &bytes) != OK || bytes != want)
            return wm_openvino_failed (error, WM_EBATCH, "give this model float32 inputs");
        slot->input[i] = slot->room[i] = memset (data, 0, bytes);
    }
    for (uint32_t i = 0; i < graph->n_output; i++)
        if (ov_infer_request_get_tensor (slot->request, graph->output_name[i], &slot->out[i]) != OK)
            return wm_openvino_failed (error, WM_EHOST, "name this model's outputs");
    return WM_OK;
}

wm_fault_t wm_openvino_form_open (wm_openvino_form_t *self, const wm_openvino_graph_t *graph,
                                  ov_core_t *core, uint32_t rows, int streams, int threads,
                                  bool is_fast, wm_error_t *error)
{
    *self = (wm_openvino_form_t){ .graph = graph, .rows = rows, .n_slot = (uint32_t) streams + 1 };
    self->slot = calloc (self->n_slot, sizeof *self->slot);
    if (!self->slot)
        return wm_fault (error, WM_EHOST, "no memory for the OpenVINO engine");
    wm_fault_t fault =
        wm_openvino_graph_compile (graph, core, streams, threads, is_fast, &self->compiled, error);
    for (uint32_t s = 0; !fault && s < self->n_slot; s++)
        fault = make_slot (self, &self->slot[s], error);
    return fault;
}

void wm_openvino_form_close (wm_openvino_form_t *self)
{
    for (uint32_t s = 0; self->slot && s < self->n_slot; s++) {
        wm_openvino_slot_t *slot = &self->slot[s];
        for (uint32_t i = 0; i < WM_MODEL_PORTS_MAX; i++) {
            ov_tensor_free (slot->in[i]);
            ov_tensor_free (slot->out[i]);
        }
        ov_infer_request_free (slot->request);
    }
    free (self->slot);
    ov_compiled_model_free (self->compiled);
    *self = (wm_openvino_form_t){ .rows = 0 };
}

wm_fault_t wm_openvino_form_pin (wm_openvino_form_t *self, wm_error_t *error)
{
    wm_openvino_task_t before[WM_OPENVINO_TASKS_MAX];
    const uint32_t n_before = wm_openvino_tasks (before);
    char *streams = NULL;
    if (ov_compiled_model_get_property (self->compiled, ov_property_key_num_streams, &streams) !=
        OK)
        return wm_openvino_failed (error, WM_EHOST, "report its number of streams");
    const uint32_t n = (uint32_t) atoi (streams);
    bool pinned = false, fine = true;
    ov_free (streams);
    for (int round = 0; round < ROUNDS_MAX && fine && !pinned; round++) {
        for (uint32_t s = 0; s < self->n_slot; s++)
            fine = ov_infer_request_start_async (self->slot[s].request) == OK && fine;
        for (uint32_t s = 0; s < self->n_slot; s++)
            fine = ov_infer_request_wait (self->slot[s].request) == OK && fine;
        pinned = wm_openvino_pin (before, n_before, n);
    }
    return fine ? WM_OK : wm_openvino_failed (error, WM_EHOST, "compute a block of zeros");
}

/* ---- filling --------------------------------------------------------------------------------- */

/* Whether the patches from hit `first` on lie in the batch as a whole block does.  */
static bool lies_ready (const wm_openvino_form_t *self, const wm_batch_t *batch, uint32_t first)
{
    const wm_openvino_graph_t *graph = self->graph;
    if (batch->kind != WM_BATCH_PATCHES || batch->n_hit - first < self->rows ||
        (self->rows > 1 && graph->n_input > 1))
        return false;
    for (uint32_t hit = first + 1; hit < first + self->rows; hit++)
        if (wm_batch_repeats (batch, hit))
            return false;
    return true;
}

/* Gives input i of the request the memory of a batch's patches.  */
static bool lend_input (const wm_openvino_form_t *self, const wm_openvino_slot_t *slot, uint32_t i,
                        const float *patch)
{
    const wm_openvino_graph_t *graph = self->graph;
    const wm_port_t *port = &graph->input[i];
    int64_t dim[WM_MODEL_DIMS_MAX + 1] = { self->rows };
    for (uint32_t d = 0; d < port->n_dim; d++)
        dim[d + 1] = port->dim[d];
    const ov_shape_t shape = { .rank = port->n_dim + !graph->whole, .dims = dim + graph->whole };
    ov_tensor_t *tensor = NULL;
    bool fine = shape.rank > 0;
    for (uint32_t o = 0; o < graph->n_output; o++) /* then the name means one or the other */
        fine &= strcmp (graph->output_name[o], graph->input_name[i]) != 0;
    fine = fine &&
           ov_tensor_create_from_host_ptr (F32, shape, (void *) (uintptr_t) patch, &tensor) == OK &&
           ov_infer_request_set_tensor (slot->request, graph->input_name[i], tensor) == OK;
    ov_tensor_free (tensor); /* the request holds it */
    return fine;
}

static bool lend (const wm_openvino_form_t *self, wm_openvino_slot_t *slot, const float *patch)
{
    slot->is_lent = true;
    for (uint32_t i = 0; i < self->graph->n_input; i++) {
        if (slot->room[i] && !lend_input (self, slot, i, patch))
            return false;
        slot->input[i] = patch;
        patch += self->graph->input[i].n_value;
    }
    return true;
}

/* Gives the request its own tensors again.  */
static void take_back (const wm_openvino_form_t *self, wm_openvino_slot_t *slot)
{
    for (uint32_t i = 0; i < self->graph->n_input && slot->is_lent; i++) {
        if (slot->room[i])
            ov_infer_request_set_tensor (slot->request, self->graph->input_name[i], slot->in[i]);
        slot->input[i] = slot->room[i];
    }
    slot->is_lent = false;
}

static void put_patch (const wm_openvino_form_t *self, const wm_openvino_slot_t *slot,
                       wm_plane_t *plane, const wm_batch_t *batch, uint32_t hit, uint32_t row)
{
    const wm_port_t *port = self->graph->input;
    if (batch->kind != WM_BATCH_PATCHES) {
        wm_plane_cut (plane, hit, 1, slot->room[0] + (size_t) row * port[0].n_value);
        return;
    }
    const float *patch = batch->patch + (size_t) hit * batch->patch_values;
    for (uint32_t i = 0; i < self->graph->n_input; i++) {
        const size_t n = port[i].n_value;
        if (slot->room[i])
            memcpy (slot->room[i] + row * n, patch, n * sizeof *patch);
        patch += n;
    }
}

uint32_t wm_openvino_form_fill (const wm_openvino_form_t *self, wm_openvino_slot_t *slot,
                                wm_plane_t *plane, const wm_batch_t *batch, uint32_t first)
{
    const wm_openvino_graph_t *graph = self->graph;
    uint32_t row = 0, hit = first;
    if (lies_ready (self, batch, first) &&
        lend (self, slot, batch->patch + (size_t) first * batch->patch_values)) {
        row = self->rows;
        for (hit = first + row; hit < batch->n_hit && wm_batch_repeats (batch, hit); hit++)
            continue;
    } else
        take_back (self, slot);
    for (; hit < batch->n_hit && !slot->is_lent; hit++) {
        if (hit > first && wm_batch_repeats (batch, hit))
            continue;
        if (row == self->rows)
            break;
        put_patch (self, slot, plane, batch, hit, row++);
    }
    for (uint32_t i = 0; i < graph->n_input && row < self->rows; i++) {
        const size_t n = graph->input[i].n_value;
        if (!slot->room[i])
            continue;
        if (!graph->guard)
            memset (slot->room[i] + row * n, 0, (self->rows - row) * n * sizeof (float));
        for (uint32_t r = row; r < self->rows && graph->guard; r++)
            memcpy (slot->room[i] + r * n, slot->room[i], n * sizeof (float));
    }
    slot->first = first, slot->last = hit;
    slot->n_row = row;
    return hit;
}
