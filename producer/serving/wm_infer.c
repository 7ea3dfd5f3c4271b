/* wm_infer.c - memory and checks of an inference request.  */
#include "producer/serving/wm_infer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 2000

struct wm_infer_block_t {
    struct wm_infer_block_t *next;
    size_t used, max;
    _Alignas(16) uint8_t data[];
};

void wm_infer_free (wm_infer_t *self)
{
    wm_infer_unshare (self);
    while (self->block) {
        struct wm_infer_block_t *next = self->block->next;
        free (self->block);
        self->block = next;
    }
    *self = (wm_infer_t){ 0 };
}

void *wm_infer_alloc (wm_infer_t *self, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t) 15;
    if (!self->block || self->block->max - self->block->used < bytes) {
        const size_t max = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct wm_infer_block_t *block = calloc (1, sizeof *block + max);
        assert (block);
        block->next = self->block;
        block->max = max;
        self->block = block;
    }
    void *at = self->block->data + self->block->used;
    self->block->used += bytes;
    return at;
}

char *wm_infer_text (wm_infer_t *self, const void *text, size_t bytes)
{
    char *copy = wm_infer_alloc (self, bytes + 1);
    if (bytes)
        memcpy (copy, text, bytes);
    return copy;
}

bool wm_infer_bytes (const wm_kserve_tensor_t *tensor, size_t *bytes)
{
    size_t n = tensor->type == WM_TYPE_BYTES ? 1 : wm_type_bytes (tensor->type);
    bool is_fine = true, is_empty = false;
    for (uint32_t i = 0; i < tensor->n_dim; i++) {
        is_empty |= tensor->dim[i] == 0;
        is_fine &= tensor->dim[i] >= 0;
    }
    for (uint32_t i = 0; is_fine && !is_empty && i < tensor->n_dim; i++)
        is_fine = !__builtin_mul_overflow (n, (size_t) tensor->dim[i], &n);
    *bytes = is_empty ? 0 : n;
    return is_fine;
}

/* Counts the values of a BYTES tensor: each its length, 4 bytes, and so many bytes. SIZE_MAX: the
   last one is cut off.  */
static size_t count_texts (const wm_kserve_tensor_t *tensor)
{
    size_t n = 0, at = 0;
    for (uint32_t bytes; at < tensor->bytes; at += bytes, n++) {
        if (tensor->bytes - at < sizeof bytes)
            return SIZE_MAX;
        memcpy (&bytes, tensor->data + at, sizeof bytes);
        at += sizeof bytes;
        if (bytes > tensor->bytes - at)
            return SIZE_MAX;
    }
    return n;
}

wm_ks_code_t wm_infer_check (const wm_ks_request_t *request, const wm_kserve_tensor_t *tensor,
                             wm_ks_error_t *error)
{
    size_t expected;
    if (!wm_infer_bytes (tensor, &expected))
        return wm_ks_fail (
            error, WM_KS_INVALID,
            "the shape of input '%.100s' for model '%.100s' has a negative dimension, "
            "or too many values",
            tensor->name, request->model);
    if (tensor->type == WM_TYPE_BYTES && count_texts (tensor) != expected)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "input '%.100s' for model '%.100s' has not the %zu texts of its shape, "
                           "each behind its length in 4 bytes",
                           tensor->name, request->model, expected);
    if (tensor->type != WM_TYPE_BYTES && tensor->bytes != expected)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "input byte size mismatch for input '%.100s' for model '%.100s'. "
                           "Expected %zu, got %zu",
                           tensor->name, request->model, expected, tensor->bytes);
    return WM_KS_OK;
}

wm_ks_code_t wm_infer_need (wm_infer_t *self, size_t *more, wm_ks_error_t *error)
{
    const size_t max = self->front->message_max;
    if (self->values_bytes > max)
        return wm_ks_fail (error, WM_KS_EXHAUSTED,
                           "the request's values are %zu bytes, which is larger than this "
                           "server's limit, %zu (--max-message)",
                           self->values_bytes, max);
    const size_t kept = wm_models_need (self->front->models, &self->request);
    if (kept > max)
        return wm_ks_fail (error, WM_KS_EXHAUSTED,
                           "the answer would be %zu bytes, which is larger than this server's "
                           "limit, %zu (--max-message): send fewer rows in a request",
                           kept, max);
    self->kept = kept;
    *more = kept + self->values_bytes;
    return WM_KS_OK;
}

bool wm_infer_values (wm_infer_t *self, size_t *bytes, wm_ks_error_t *error)
{
    const wm_ks_request_t *request = &self->request;
    error->code = WM_KS_OK;
    for (; self->values && self->n_read < request->n_input; self->n_read++) {
        wm_kserve_tensor_t *tensor = &request->input[self->n_read];
        const wm_shared_part_t *part = wm_infer_shared_in (self, self->n_read);
        if (!part && !self->values[self->n_read].text)
            continue;
        if (!tensor->data)
            tensor->data = wm_infer_alloc (self, tensor->bytes);
        uint8_t *to = (uint8_t *) (uintptr_t) tensor->data;
        if (part ? wm_infer_copy (self, part, to, bytes, error)
                 : self->read (self, tensor, to, bytes, error))
            return true;
        if (error->code)
            return false;
    }
    return false;
}

void wm_transport_reply (wm_ks_request_t *request, const wm_ks_answer_t *answer)
{
    wm_infer_t *infer = request->transport;
    infer->reply (infer, answer);
}

bool wm_transport_keep (wm_ks_request_t *request, size_t bytes)
{
    wm_infer_t *infer = request->transport;
    if (bytes > infer->front->message_max)
        return false;
    wm_hold_set (infer->front->budget, infer->hold, infer->share,
                 infer->hold->bytes - infer->kept + bytes);
    infer->kept = bytes;
    return true;
}

bool wm_transport_place (wm_ks_request_t *request, const wm_kserve_tensor_t *output,
                         uint32_t n_output, wm_placed_t *placed, size_t *left, wm_ks_error_t *error)
{
    return wm_infer_place (request->transport, output, n_output, placed, left, error);
}

wm_slices_t *wm_transport_slices (const wm_ks_request_t *request)
{
    const wm_infer_t *infer = request->transport;
    return infer->front->slices;
}

bool wm_transport_has_room (const wm_ks_request_t *request)
{
    const wm_infer_t *infer = request->transport;
    return wm_budget_has_room (infer->front->budget);
}
