/* wm_signature_ragged.c - ragged rows (schema/wm_ragged.h) of requests and answers.  */
#include "producer/serving/wm_signature_private.h"

#include <assert.h>
#include <czmq.h>
#include <stdlib.h>
#include <string.h>

/* The k-th free size of a row of the request, in its order.  */
static int64_t free_size (const wm_signature_port_t *port, const int64_t *dim, uint32_t k)
{
    uint32_t d = 0;
    while (port->dim[d] >= 0 || k--)
        d++;
    return dim[d];
}

/* The shapes of one row of the request, as the model has them. Returns whether the row's head can
   state them.  */
static bool shapes (const wm_signature_t *self, const wm_ks_request_t *request,
                    const wm_tensor_plan_t *plan, wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX])
{
    const uint32_t first = !self->is_whole;
    for (uint32_t p = 0; p < self->n_input; p++) {
        const wm_signature_port_t *port = &self->input[p];
        const wm_kserve_tensor_t *from = &request->input[plan->input[p]];
        tensor[p] = (wm_ragged_t){ .n_dim = port->n_model, .type = port->exact };
        for (uint32_t d = 0, n_free = 0; d < port->n_model; d++) {
            const int64_t size =
                port->model[d] < 0 ? free_size (port, from->dim + first, n_free++) : port->model[d];
            if (size > UINT32_MAX)
                return false;
            tensor[p].dim[d] = (uint32_t) size;
        }
    }
    return true;
}

wm_ks_code_t wm_signature_ragged_check (const wm_signature_t *self, const wm_ks_request_t *request,
                                        const wm_tensor_plan_t *plan, size_t *n_value,
                                        wm_ks_error_t *error)
{
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    float head[2 + WM_SIGNATURE_PORTS_MAX * (1 + WM_RAGGED_DIMS_MAX)];
    *n_value = shapes (self, request, plan, tensor)
                   ? wm_ragged_begin (head, self->n_value, self->n_input, tensor)
                   : 0;
    if (!*n_value)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "a row of inputs for model '%s' has more than %u float32s, the most "
                           "that it was loaded for: state parameters { key: \"row_bytes\" } in its "
                           "config.pbtxt",
                           request->model, self->n_value);
    for (uint32_t p = 0; p < self->n_input; p++) {
        const wm_signature_port_t *port = &self->input[p];
        const wm_kserve_tensor_t *from = &request->input[plan->input[p]];
        const size_t n = plan->n_row * (size_t) tensor[p].n_value;
        for (size_t i = 0; i < n; i++) {
            const float value = (float) wm_signature_value (port->type, from->data, i);
            if (!wm_signature_takes (self, &value, 1))
                return wm_ks_fail (
                    error, WM_KS_INVALID, "input '%s' of model '%s': value %zu is %s", port->name,
                    request->model, i, self->takes_infinite ? "not a number" : "not finite");
        }
    }
    return WM_KS_OK;
}

void wm_signature_ragged_row (const wm_signature_t *self, const wm_ks_request_t *request,
                              const wm_tensor_plan_t *plan, uint32_t row, float *to, size_t n_value)
{
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    const bool fits = shapes (self, request, plan, tensor) &&
                      wm_ragged_begin (to, n_value, self->n_input, tensor) == n_value;
    assert (fits); /* as wm_signature_ragged_check found it */
    for (uint32_t p = 0; p < self->n_input; p++) {
        const wm_type_t type = self->input[p].type;
        const size_t n = tensor[p].n_value;
        uint8_t *zeros = plan->n_row ? NULL : zmalloc (n * wm_type_bytes (type));
        const uint8_t *from = request->input[plan->input[p]].data + row * n * wm_type_bytes (type);
        wm_signature_load (&self->input[p], zeros ? zeros : from, n, to + tensor[p].at);
        free (zeros);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Reads the rows of scores. Fills in the shapes of all outputs in all rows (n_row, n_output).  */
static wm_ks_code_t read_rows (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                               const char *model, float *const *row, wm_ragged_t *tensor,
                               wm_ks_error_t *error)
{
    wm_ragged_t one[WM_RAGGED_TENSORS_MAX];
    for (uint32_t r = 0; r < (plan->n_row ? plan->n_row : 1); r++) {
        uint32_t n = 0;
        const char *broken = wm_ragged_read (row[r], (size_t) row[r][0], &n, one);
        for (uint32_t p = 0; p < self->n_output && !broken; p++) {
            const wm_signature_port_t *port = &self->output[p];
            bool fits =
                n == self->n_output && one[p].n_dim == port->n_model && one[p].type == port->exact;
            for (uint32_t d = 0; d < port->n_model && fits; d++)
                fits = port->model[d] < 0 || port->model[d] == one[p].dim[d];
            broken = fits ? NULL : "its shapes are not those of the model, or of its config.pbtxt";
        }
        if (broken)
            return wm_ks_fail (error, WM_KS_INTERNAL, "the scores of model '%s' are damaged: %s",
                               model, broken);
        memcpy (tensor + (size_t) r * self->n_output, one, self->n_output * sizeof *one);
    }
    return WM_KS_OK;
}

/* Joins output p of all rows. Its data is allocated.  */
static wm_ks_code_t join (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                          const char *model, uint32_t p, float *const *row,
                          const wm_ragged_t *tensor, wm_kserve_tensor_t *to, wm_ks_error_t *error)
{
    const wm_signature_port_t *port = &self->output[p];
    const uint32_t first = !self->is_whole;
    const size_t bytes = wm_type_bytes (port->type);
    const wm_ragged_t *shape = &tensor[p];
    const size_t n = shape->n_value;
    *to = (wm_kserve_tensor_t){ .name = (char *) (uintptr_t) port->name,
                                .type = port->type,
                                .n_dim = port->n_dim + first,
                                .bytes = plan->n_row * n * bytes };
    if (first)
        to->dim[0] = plan->n_row;
    for (uint32_t d = 0, m = 0; d < port->n_dim; d++) {
        if (port->dim[d] >= 0) {
            to->dim[d + first] = port->dim[d];
            continue;
        }
        while (port->model[m] >= 0)
            m++;
        to->dim[d + first] = shape->dim[m++];
    }
    uint8_t *data = zmalloc (to->bytes);
    to->data = data;
    for (uint32_t r = 0; r < plan->n_row; r++) {
        const wm_ragged_t *its = &tensor[(size_t) r * self->n_output + p];
        const float *from = row[r] + its->at;
        if (memcmp (its->dim, shape->dim, sizeof its->dim) != 0)
            return wm_ks_fail (error, WM_KS_INVALID,
                               "output '%s' of model '%s' has another shape in row %u than in row "
                               "0: send one row in each request",
                               port->name, model, r);
        if (wm_signature_is_unsure (port->type, from, n))
            return wm_signature_unsure (port, model, r, error);
        wm_signature_store (port, from, n, data + r * n * bytes);
    }
    return WM_KS_OK;
}

wm_ks_code_t wm_signature_ragged_answer (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                                         const char *model, float *const *row,
                                         wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX],
                                         wm_ks_error_t *error)
{
    wm_ragged_t *tensor = zmalloc ((plan->n_row + (size_t) 1) * self->n_output * sizeof *tensor);
    wm_ks_code_t code = read_rows (self, plan, model, row, tensor, error);
    uint32_t n = 0;
    for (; n < plan->n_output && !code; n++)
        code = join (self, plan, model, plan->output[n], row, tensor, &output[n], error);
    free (tensor);
    while (code && n-- > 0) {
        free ((void *) (uintptr_t) output[n].data);
        output[n].data = NULL;
    }
    return code;
}
