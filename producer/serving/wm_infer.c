/* wm_infer.c - an inference request: its memory, its checks, its tensors in shared memory, and what
   the models call of its transport. Inputs are copied from shared memory before the models have
   them, outputs into it before the client has its answer.  */
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

static void drop_all (wm_shared_part_t *part)
{
    for (uint32_t i = 0; part && i < WM_INFER_TENSORS_MAX; i++)
        wm_shared_drop (&part[i]);
}

void wm_infer_free (wm_infer_t *self)
{
    drop_all (self->in);
    drop_all (self->out);
    for (uint32_t i = 0; self->answer && i < self->answer->n_output; i++)
        free ((void *) (uintptr_t) self->answer->output[i].data);
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

wm_ks_code_t wm_infer_misshapen (const wm_ks_request_t *request, const wm_kserve_tensor_t *tensor,
                                 wm_ks_error_t *error)
{
    wm_kserve_tensor_t counted = *tensor;
    size_t n;
    for (uint32_t i = 0; i < tensor->n_dim; i++)
        if (tensor->dim[i] < 0)
            return wm_ks_fail (error, WM_KS_INVALID,
                               "the shape of input '%.100s' for model '%.100s' has a negative "
                               "dimension",
                               tensor->name, request->model);
    counted.type = WM_TYPE_BYTES;
    return wm_infer_bytes (&counted, &n)
               ? wm_ks_fail (error, WM_KS_INVALID, "byte size overflow for input '%.100s'",
                             tensor->name)
               : wm_ks_fail (error, WM_KS_INVALID,
                             "the shape of input '%.100s' causes total element count to exceed "
                             "maximum size of %zu",
                             tensor->name, SIZE_MAX);
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
        return wm_infer_misshapen (request, tensor, error);
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

/* ---- shared memory --------------------------------------------------------------------------- */

static bool is (const wm_infer_parameter_t *parameter, const char *key)
{
    return parameter->key_bytes == strlen (key) &&
           memcmp (parameter->key, key, parameter->key_bytes) == 0;
}

void wm_infer_wish (wm_infer_t *self, wm_shared_wish_t *wish, const wm_infer_parameter_t *parameter)
{
    if (is (parameter, "shared_memory_region") && !wish->region)
        wish->region = wm_infer_text (self, parameter->text, parameter->text_bytes);
    else if (is (parameter, "shared_memory_offset"))
        wish->offset = parameter->number;
    else if (is (parameter, "shared_memory_byte_size"))
        wish->bytes = parameter->number;
}

static wm_shared_t *shared_of (const wm_infer_t *self)
{
    return self->front ? self->front->shared : NULL;
}

wm_ks_code_t wm_infer_share_input (wm_infer_t *self, wm_kserve_tensor_t *tensor,
                                   const wm_shared_wish_t *wish, wm_ks_error_t *error)
{
    if (!self->in)
        self->in = wm_infer_alloc (self, WM_INFER_TENSORS_MAX * sizeof *self->in);
    wm_shared_part_t *part = &self->in[tensor - self->request.input];
    const wm_ks_code_t code = wm_shared_take (shared_of (self), wish, tensor->name, part, error);
    if (code)
        return code;
    if (tensor->type == WM_TYPE_BYTES)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "input '%.100s' of type BYTES must be in the request, not in shared "
                           "memory",
                           tensor->name);
    if (__builtin_add_overflow (self->values_bytes, part->bytes, &self->values_bytes) ||
        self->values_bytes > self->front->message_max)
        return wm_ks_fail (error, WM_KS_EXHAUSTED,
                           "input '%.100s' is larger than a request may be, %zu bytes "
                           "(--max-message)",
                           tensor->name, self->front->message_max);
    tensor->bytes = part->bytes;
    return WM_KS_OK;
}

wm_ks_code_t wm_infer_share_output (wm_infer_t *self, uint32_t output, const wm_shared_wish_t *wish,
                                    wm_ks_error_t *error)
{
    if (!wish->region)
        return WM_KS_OK;
    if (!self->out)
        self->out = wm_infer_alloc (self, WM_INFER_TENSORS_MAX * sizeof *self->out);
    return wm_shared_take (shared_of (self), wish, self->request.output[output], &self->out[output],
                           error);
}

static const wm_shared_part_t *part_of (const wm_shared_part_t *parts, uint32_t i)
{
    return parts && i < WM_INFER_TENSORS_MAX && parts[i].region ? &parts[i] : NULL;
}

const wm_shared_part_t *wm_infer_shared_out (const wm_infer_t *self, uint32_t output)
{
    return part_of (self->out, output);
}

/* Copies an input until *bytes are copied, as wm_infer_t.read does.  */
static bool copy (wm_infer_t *self, const wm_shared_part_t *part, uint8_t *to, size_t *bytes,
                  wm_ks_error_t *error)
{
    const size_t left = part->bytes - self->n_copied, n = left < *bytes ? left : *bytes;
    if (wm_shared_read (part, self->n_copied, to + self->n_copied, n, error))
        return false;
    *bytes -= n;
    self->n_copied += n;
    if (self->n_copied < part->bytes)
        return true;
    self->n_copied = 0;
    return false;
}

/* ---- values, and what the models call -------------------------------------------------------- */

bool wm_infer_values (wm_infer_t *self, size_t *bytes, wm_ks_error_t *error)
{
    const wm_ks_request_t *request = &self->request;
    error->code = WM_KS_OK;
    for (; self->values && self->n_read < request->n_input; self->n_read++) {
        wm_kserve_tensor_t *tensor = &request->input[self->n_read];
        const wm_shared_part_t *part = part_of (self->in, self->n_read);
        if (!part && !self->values[self->n_read].text)
            continue;
        if (!tensor->data)
            tensor->data = wm_infer_alloc (self, tensor->bytes);
        uint8_t *to = (uint8_t *) (uintptr_t) tensor->data;
        if (part ? copy (self, part, to, bytes, error)
                 : self->read (self, tensor, to, bytes, error))
            return true;
        if (error->code)
            return false;
    }
    return false;
}

static void reply (wm_ks_request_t *request, const wm_ks_answer_t *answer)
{
    wm_infer_t *infer = request->transport;
    infer->reply (infer, answer);
}

static bool keep (wm_ks_request_t *request, size_t bytes)
{
    wm_infer_t *infer = request->transport;
    if (bytes > infer->front->message_max)
        return false;
    wm_hold_set (infer->front->budget, infer->hold, infer->share,
                 infer->hold->bytes - infer->kept + bytes);
    infer->kept = bytes;
    return true;
}

static bool place (wm_ks_request_t *request, const wm_kserve_tensor_t *output, uint32_t n_output,
                   wm_placed_t *placed, size_t *left, wm_ks_error_t *error)
{
    error->code = WM_KS_OK;
    for (; placed->n_output < n_output; placed->n_output++, placed->bytes = 0) {
        const wm_shared_part_t *part = wm_infer_shared_out (request->transport, placed->n_output);
        const wm_kserve_tensor_t *from = &output[placed->n_output];
        if (part && from->bytes > part->bytes)
            wm_ks_fail (error, WM_KS_INVALID,
                        "shared memory size specified with the request for output '%.100s' (%zu "
                        "bytes) should be at least %zu bytes to hold the results",
                        from->name, part->bytes, from->bytes);
        const size_t more = part && !error->code ? from->bytes - placed->bytes : 0,
                     n = more < *left ? more : *left;
        if (n)
            wm_shared_write (part, placed->bytes, from->data + placed->bytes, n, error);
        if (error->code)
            return false;
        placed->bytes += n;
        *left -= n;
        if (n < more)
            return true;
    }
    return false;
}

static wm_slices_t *slices (const wm_ks_request_t *request)
{
    const wm_infer_t *infer = request->transport;
    return infer->front->slices;
}

static bool has_room (const wm_ks_request_t *request)
{
    const wm_infer_t *infer = request->transport;
    return wm_budget_has_room (infer->front->budget);
}

const wm_transport_calls_t wm_infer_calls = { reply, keep, place, slices, has_room };

void wm_infer_begin (wm_infer_t *self)
{
    self->request.transport = self;
    self->request.is_taken = false;
    self->request.calls = &wm_infer_calls;
}
