/* wm_family_node.c - what is asked of the node at work: attributes, constants, its layer.  */
#include "kernels/family/wm_family_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool wm_family_outside (family_t *self, const Onnx__NodeProto *node, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    int n = snprintf (self->why, 480,
                      "general engine: node '%.100s' (%.60s) is not of the EmTrkMichelId family",
                      wm_onnx_node_name (node), wm_onnx_op (node));
    if (format && n > 0 && n < 470) {
        n += snprintf (self->why + n, 480 - (size_t) n, ": ");
        vsnprintf (self->why + n, 480 - (size_t) n, format, arguments);
    }
    va_end (arguments);
    return false;
}

bool wm_family_is (const family_t *self, const char *op)
{
    return !strcmp (wm_onnx_op (self->node), op);
}

layer_t *wm_family_layer (family_t *self, const state_t *s)
{
    return s->source == CONV ? &self->conv[s->layer[0]] : &self->dense[s->layer[0]];
}

void wm_family_use (family_t *self, const layer_t *layer, uint32_t version)
{
    if (self->n_use < USES_MAX) {
        self->use[self->n_use].layer = layer;
        self->use[self->n_use].version = version;
        self->use[self->n_use].reader = self->node;
    }
    self->n_use++;
}

bool wm_family_lacks (family_t *self)
{
    return self->nothing->maker
               ? wm_family_outside (self, self->nothing->maker, "it cannot be folded to a constant")
               : wm_family_outside (self, self->node, "a constant has a type that is not read");
}

const wm_tensor_t *wm_family_constant (const family_t *self, size_t k)
{
    return k < self->n_in && self->in[k] && self->in[k]->kind == CONSTANT ? &self->in[k]->tensor
                                                                          : NULL;
}

float wm_family_float (const family_t *self, const char *name, float otherwise)
{
    const Onnx__AttributeProto *a = wm_onnx_attribute (self->node, name);
    return a && a->has_f ? a->f : otherwise;
}
