/* wm_any_net.c - lowers an ONNX graph to steps: the walk over its nodes, and its outputs.  */
#include "kernels/cudnn/wm_any_private.h"

#include <stdlib.h>
#include <string.h>

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
        wm_any_no_memory (self);
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
        return wm_any_no_memory (self);
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
        return wm_any_no_memory (self);
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
        wm_any_no_memory (&walk);
    wm_onnx_clear (&walk.onnx);
    wm_arena_clear (&walk.arena);
    if (walk.fault)
        wm_any_net_destroy (&walk.net);
    return walk.net;
}
