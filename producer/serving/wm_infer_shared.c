/* wm_infer_shared.c - tensors of a request that lie in shared memory: inputs are copied before the
   models have them, outputs before the client has its answer.  */
#include "producer/serving/wm_infer.h"

#include <string.h>

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

const wm_shared_part_t *wm_infer_shared_in (const wm_infer_t *self, uint32_t input)
{
    return part_of (self->in, input);
}

const wm_shared_part_t *wm_infer_shared_out (const wm_infer_t *self, uint32_t output)
{
    return part_of (self->out, output);
}

bool wm_infer_copy (wm_infer_t *self, const wm_shared_part_t *part, uint8_t *to, size_t *bytes,
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

bool wm_infer_place (const wm_infer_t *self, const wm_kserve_tensor_t *output, uint32_t n_output,
                     wm_placed_t *placed, size_t *left, wm_ks_error_t *error)
{
    error->code = WM_KS_OK;
    for (; placed->n_output < n_output; placed->n_output++, placed->bytes = 0) {
        const wm_shared_part_t *part = wm_infer_shared_out (self, placed->n_output);
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

static void drop_all (wm_shared_part_t *part)
{
    for (uint32_t i = 0; part && i < WM_INFER_TENSORS_MAX; i++)
        wm_shared_drop (&part[i]);
}

void wm_infer_unshare (wm_infer_t *self)
{
    drop_all (self->in);
    drop_all (self->out);
}
