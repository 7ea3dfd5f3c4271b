/* wm_any_net.c - lowers an ONNX graph to steps: the walk, values and the steps that reorder them.

   The operators are in wm_any_ops.c.  */
#include "kernels/cudnn/wm_any_private.h"

#include "schema/base/wm_grow.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

static bool no_memory (wm_any_walk_t *self)
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
        no_memory (self);
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

/* ---- the walk -------------------------------------------------------------------------------- */

/* The state of a value by its name; NULL for an input left out, or without memory.  */
static wm_any_value_t *value_of (wm_any_walk_t *self, const char *name)
{
    const int64_t v = wm_onnx_find (&self->onnx, name);
    if (v < 0)
        return NULL;
    wm_any_value_t **value = &self->value[v];
    if (*value)
        return *value;
    *value = wm_arena_take (&self->arena, 1, sizeof **value);
    if (!*value) {
        no_memory (self);
        return NULL;
    }
    (*value)->step = -1;
    const Onnx__TensorProto *initializer = self->onnx.value[v].initializer;
    if (initializer && wm_tensor_read (&self->arena, initializer, &(*value)->tensor))
        (*value)->kind = WM_ANY_CONSTANT;
    return *value;
}

/* How often a value is read, by nodes and as an output.  */
static void count_reads (wm_any_walk_t *self)
{
    const Onnx__GraphProto *graph = self->onnx.graph;
    wm_any_value_t *value;
    for (size_t i = 0; i < self->onnx.n_node; i++)
        for (size_t k = 0; k < self->onnx.node[i]->n_input; k++)
            if ((value = value_of (self, self->onnx.node[i]->input[k])))
                value->reads++;
    for (size_t i = 0; i < graph->n_output; i++)
        if ((value = value_of (self, graph->output[i]->name)))
            value->reads++;
}

static bool visit (wm_any_walk_t *self, const Onnx__NodeProto *node)
{
    const wm_tensor_t *constant[WM_ANY_INPUTS_MAX] = { 0 };
    int all = 1, buffers = 0;
    self->node = node;
    self->n_in = node->n_input;
    if (node->n_input > WM_ANY_INPUTS_MAX)
        return wm_any_refuse (self, "%zu inputs", node->n_input);
    for (size_t k = 0; k < node->n_input; k++) {
        self->in[k] = value_of (self, node->input[k]);
        constant[k] = wm_any_constant (self, k);
        all &= !self->in[k] || constant[k];
        buffers += self->in[k] && self->in[k]->kind == WM_ANY_BUFFER;
    }
    wm_any_value_t *out = node->n_output ? value_of (self, node->output[0]) : NULL;
    if (!out)
        return wm_any_refuse (self, "it has no output");
    if (all && wm_tensor_fold (&self->arena, node, constant, node->n_input, &out->tensor)) {
        out->kind = WM_ANY_CONSTANT;
        return true;
    }
    if (all && !strcmp (wm_onnx_op (node), "ConstantOfShape"))
        return wm_any_fill (self, out);
    if (!buffers)
        return wm_any_refuse (self, "it does not fold to a constant");
    return wm_any_operator (self, out);
}

/* All outputs, one after another, in ONNX's order.  */
static bool gather_outputs (wm_any_walk_t *self)
{
    const Onnx__GraphProto *graph = self->onnx.graph;
    uint32_t first = 0;
    for (size_t i = 0; i < graph->n_output; i++) {
        wm_any_value_t *value = value_of (self, graph->output[i]->name);
        if (!value || value->kind != WM_ANY_BUFFER)
            return wm_any_refuse (self, "output '%.60s' is no tensor", graph->output[i]->name);
        if (!wm_any_plain (self, value))
            return false;
        wm_any_step_t *step = wm_any_step (self, WM_ANY_COPY, value->buffer);
        if (!step)
            return false;
        const uint32_t n = wm_any_values (value);
        step->to = WM_ANY_SCORES;
        step->copy = wm_any_columns (1, n, 0, first);
        if ((first += n) > WM_OUTPUTS_MAX)
            return wm_any_refuse (self, "more than %u scores", WM_OUTPUTS_MAX);
    }
    self->net->size[WM_ANY_SCORES] = first;
    for (uint32_t s = 0; s < self->net->n_step; s++)
        if (self->net->step[s].to == WM_ANY_SCORES)
            self->net->step[s].copy.to_row = first;
    return true;
}

static bool lower (wm_any_walk_t *self)
{
    wm_port_t input[WM_MODEL_PORTS_MAX];
    uint32_t n_input;
    self->fault = wm_onnx_inputs (&self->onnx, &self->ports, input, &n_input, self->error);
    if (self->fault)
        return false;
    self->value = wm_arena_take (&self->arena, self->onnx.n_value, sizeof *self->value);
    if (!self->value)
        return no_memory (self);
    self->node = self->onnx.n_node ? self->onnx.node[0] : NULL;
    if (!self->node || n_input != 1 || self->ports.other_type) {
        self->fault =
            wm_fault (self->error, WM_EBATCH,
                      "the cuda engine runs models of one input of float32; this has %u: use "
                      "--engine openvino",
                      n_input);
        return false;
    }
    count_reads (self);
    wm_any_value_t *value = value_of (self, input[0].name);
    if (!value)
        return no_memory (self);
    value->kind = WM_ANY_BUFFER;
    value->n_dim = input[0].n_dim;
    memcpy (value->dim, input[0].dim, sizeof value->dim);
    self->net->n_buffer = 2;
    self->net->size[WM_ANY_INPUT] = input[0].n_value;
    for (size_t i = 0; i < self->onnx.n_node && !self->fault; i++)
        if (!visit (self, self->onnx.node[i]))
            return false;
    return !self->fault && gather_outputs (self);
}

wm_any_net_t *wm_any_net_new (const char *path, const void *bytes, size_t size, wm_error_t *error)
{
    wm_any_walk_t walk = { .error = error };
    walk.net = calloc (1, sizeof *walk.net);
    if (!walk.net) {
        wm_fault (error, WM_EHOST, "no memory to lower the model");
        return NULL;
    }
    walk.fault = bytes ? wm_onnx_lend (&walk.onnx, path, bytes, size, error)
                       : wm_onnx_open (&walk.onnx, path, NULL, error);
    if (!walk.fault)
        walk.fault = wm_onnx_read (&walk.onnx, NULL, error);
    if (!walk.fault && !walk.onnx.model)
        walk.fault = wm_fault (error, WM_EBATCH,
                               "the cuda engine reads ONNX, not frozen TensorFlow graphs: use "
                               "--engine openvino");
    if (!walk.fault && !lower (&walk) && !walk.fault)
        no_memory (&walk);
    wm_onnx_clear (&walk.onnx);
    wm_arena_clear (&walk.arena);
    if (walk.fault)
        wm_any_net_destroy (&walk.net);
    return walk.net;
}
