/* wm_any_walk.c - what operators of the walk share: faults, constants, values and their order.  */
#include "kernels/cudnn/wm_any_private.h"
#include "schema/base/wm_grow.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- faults and constants -------------------------------------------------------------------- */

bool wm_any_refuse (wm_any_walk_t *self, const char *format, ...)
{
    char text[160];
    va_list arguments;
    if (self->fault)
        return false;
    va_start (arguments, format);
    vsnprintf (text, sizeof text, format, arguments);
    va_end (arguments);
    self->fault = wm_fault (self->error, WM_EBATCH,
                            "the cuda engine does not run node '%.60s' (%.30s): %s; use --engine "
                            "openvino",
                            wm_onnx_node_name (self->node), wm_onnx_op (self->node), text);
    return false;
}

bool wm_any_no_memory (wm_any_walk_t *self)
{
    if (!self->fault)
        self->fault = wm_fault (self->error, WM_EHOST, "no memory to lower the model");
    return false;
}

float *wm_any_constants (wm_any_walk_t *self, size_t n, size_t *at)
{
    wm_any_net_t *net = self->net;
    *at = (net->n_constant + 63) / 64 * 64; /* cuDNN's tensors begin at 16 bytes and more */
    if (!wm_grow (&net->constant, &net->constants_max, *at + n, sizeof (float))) {
        wm_any_no_memory (self);
        return NULL;
    }
    memset (net->constant + net->n_constant, 0, (*at + n - net->n_constant) * sizeof (float));
    net->n_constant = *at + n;
    return net->constant + *at;
}

/* ---- values ---------------------------------------------------------------------------------- */

uint32_t wm_any_values (const wm_any_value_t *value)
{
    uint64_t n = 1;
    for (uint32_t k = 0; k < value->n_dim; k++)
        n *= value->dim[k];
    return n > UINT32_MAX ? UINT32_MAX : (uint32_t) n;
}

/* (channels, height, width) of a value; those it has not are 1.  */
void wm_any_plane (const wm_any_value_t *value, uint32_t chw[3])
{
    chw[0] = value->n_dim ? value->dim[0] : 1;
    chw[1] = value->n_dim == 3 ? value->dim[1] : 1;
    chw[2] = value->n_dim == 3 ? value->dim[2] : value->n_dim == 2 ? value->dim[1] : 1;
}

wm_any_step_t *wm_any_step (wm_any_walk_t *self, wm_any_kind_t kind, uint32_t from)
{
    wm_any_net_t *net = self->net;
    if (net->n_step == WM_ANY_STEPS_MAX) {
        wm_any_refuse (self, "more than %u steps", WM_ANY_STEPS_MAX);
        return NULL;
    }
    wm_any_step_t *step = &net->step[net->n_step++];
    *step = (wm_any_step_t){ .kind = kind, .from = from, .second = WM_ANY_NONE };
    snprintf (step->name, sizeof step->name, "%.47s", wm_onnx_node_name (self->node));
    return step;
}

bool wm_any_buffer (wm_any_walk_t *self, uint32_t size, uint32_t *buffer)
{
    wm_any_net_t *net = self->net;
    if (size == 0 || size > WM_ANY_VALUES_MAX || net->n_buffer == WM_ANY_BUFFERS_MAX)
        return wm_any_refuse (self, "%u values, buffer %u", size, net->n_buffer);
    *buffer = net->n_buffer;
    net->size[net->n_buffer++] = size;
    return true;
}

bool wm_any_move (wm_any_walk_t *self, wm_any_value_t *value, uint32_t n_dim, const uint32_t *dim,
                  const uint32_t *stride)
{
    wm_any_step_t *step = wm_any_step (self, WM_ANY_COPY, value->buffer);
    uint32_t size = wm_any_values (value), to_stride = 1;
    if (!step || !wm_any_buffer (self, size, &step->to))
        return false;
    step->copy = (wm_gpu_copy_t){ .from_row = size, .to_row = size, .n = size };
    for (uint32_t k = WM_GPU_COPY_DIMS; k-- > 0;) {
        const bool inside = k >= WM_GPU_COPY_DIMS - n_dim;
        const uint32_t d = k - (WM_GPU_COPY_DIMS - n_dim);
        step->copy.dim[k] = inside ? dim[d] : 1;
        step->copy.from_stride[k] = inside ? stride[d] : 0;
        step->copy.to_stride[k] = to_stride;
        to_stride *= step->copy.dim[k];
    }
    value->buffer = step->to;
    value->step = -1;
    return true;
}

/* Whether both orders of a value are the same bytes.  */
static bool is_either (const uint32_t chw[3])
{
    return chw[0] == 1 || chw[1] * chw[2] == 1;
}

bool wm_any_last (wm_any_walk_t *self, wm_any_value_t *value)
{
    uint32_t chw[3];
    wm_any_plane (value, chw);
    if (value->n_dim > 3)
        return wm_any_refuse (self, "%u dimensions", value->n_dim + 1);
    if (!value->last && !is_either (chw)) {
        const uint32_t dim[2] = { chw[1] * chw[2], chw[0] }, stride[2] = { 1, chw[1] * chw[2] };
        if (!wm_any_move (self, value, 2, dim, stride))
            return false;
    }
    value->last = true;
    return true;
}

bool wm_any_plain (wm_any_walk_t *self, wm_any_value_t *value)
{
    uint32_t chw[3];
    wm_any_plane (value, chw);
    if (value->last && !is_either (chw)) {
        const uint32_t dim[2] = { chw[0], chw[1] * chw[2] }, stride[2] = { 1, chw[0] };
        if (!wm_any_move (self, value, 2, dim, stride))
            return false;
    }
    value->last = false;
    return true;
}

const wm_tensor_t *wm_any_constant (const wm_any_walk_t *self, size_t k)
{
    return k < self->n_in && self->in[k] && self->in[k]->kind == WM_ANY_CONSTANT
               ? &self->in[k]->tensor
               : NULL;
}
