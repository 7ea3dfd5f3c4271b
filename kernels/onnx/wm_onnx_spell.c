/* wm_onnx_spell.c - replaces operators that OpenVINO computes wrongly, or lacks, by other nodes.

   Softmax of operator sets 11 and 12: x -> Flatten (axis) -> Softmax (1) -> Reshape (Shape (x)).
   Erfc and Expm1, which ONNX does not have and tf2onnx writes (Keras 3's GELU, CELU): 1 - Erf (x)
   and Exp (x) - 1.  */
#include "kernels/onnx/wm_maker.h"
#include "kernels/onnx/wm_onnx.h"

#include <stdio.h>
#include <string.h>

#define NODES 4

static bool is_softmax (const wm_onnx_t *self, const Onnx__NodeProto *node)
{
    return (self->opset == 11 || self->opset == 12) && !strcmp (wm_onnx_op (node), "Softmax") &&
           wm_onnx_int (node, "axis", 1) != -1;
}

static bool is_foreign (const Onnx__NodeProto *node)
{
    return (!node->domain || !*node->domain) &&
           (!strcmp (wm_onnx_op (node), "Erfc") || !strcmp (wm_onnx_op (node), "Expm1"));
}

static bool is_meant (const wm_onnx_t *self, const Onnx__NodeProto *node)
{
    return (is_softmax (self, node) || is_foreign (node)) && node->n_input == 1 &&
           node->n_output == 1;
}

/* A node in the arena that reads a and b (NULL: nothing), and writes "<of>|part"; "" is `of`
   itself. */
static Onnx__NodeProto *node_new (wm_onnx_t *self, const char *op, char *a, char *b, const char *of,
                                  const char *part)
{
    size_t bytes = strlen (of) + strlen (part) + 2;
    char *output = wm_arena_take (&self->arena, bytes, 1);
    if (!output)
        return NULL;
    snprintf (output, bytes, "%s%s%s", of, *part ? "|" : "", part);
    return wm_maker_node (&self->arena, op, output, a, b, NULL);
}

static bool set_one (wm_onnx_t *self, Onnx__NodeProto *node)
{
    Onnx__AttributeProto *a = wm_maker_attribute (&self->arena, node, "value",
                                                  ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
    Onnx__TensorProto *t = wm_arena_take (&self->arena, 1, sizeof *t);
    float *one = wm_arena_take (&self->arena, 1, sizeof *one);
    if (!a || !t || !one)
        return false;
    *one = 1;
    onnx__tensor_proto__init (t);
    t->has_data_type = 1;
    t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    t->n_float_data = 1;
    t->float_data = one;
    a->t = t;
    return true;
}

static size_t spell_softmax (wm_onnx_t *self, const Onnx__NodeProto *node,
                             Onnx__NodeProto *out[NODES])
{
    char *x = node->input[0], *y = node->output[0];
    if (!(out[0] = node_new (self, "Shape", x, NULL, y, "shape")) ||
        !(out[1] = node_new (self, "Flatten", x, NULL, y, "flat")) ||
        !(out[2] = node_new (self, "Softmax", out[1]->output[0], NULL, y, "softmax")) ||
        !(out[3] = node_new (self, "Reshape", out[2]->output[0], out[0]->output[0], y, "")))
        return 0;
    wm_maker_int (&self->arena, out[1], "axis", wm_onnx_int (node, "axis", 1));
    wm_maker_int (&self->arena, out[2], "axis", 1);
    return 4;
}

static size_t spell_foreign (wm_onnx_t *self, const Onnx__NodeProto *node,
                             Onnx__NodeProto *out[NODES])
{
    const int first = !strcmp (wm_onnx_op (node), "Erfc");
    char *x = node->input[0], *y = node->output[0];
    if (!(out[0] = node_new (self, "Constant", NULL, NULL, y, "one")) || !set_one (self, out[0]) ||
        !(out[1] = node_new (self, first ? "Erf" : "Exp", x, NULL, y, "value")) ||
        !(out[2] = node_new (self, "Sub", out[!first]->output[0], out[first]->output[0], y, "")))
        return 0;
    return 3;
}

wm_fault_t wm_onnx_spell (wm_onnx_t *self, wm_error_t *error)
{
    Onnx__GraphProto *g = self->graph;
    size_t n_meant = 0, n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        n_meant += (size_t) is_meant (self, g->node[i]);
    if (!n_meant)
        return WM_OK;
    Onnx__NodeProto **node =
        wm_arena_take (&self->arena, g->n_node + (NODES - 1) * n_meant, sizeof *node);
    for (size_t i = 0; i < g->n_node && node && !self->arena.failed; i++)
        if (!is_meant (self, g->node[i]))
            node[n++] = g->node[i];
        else
            n += is_foreign (g->node[i]) ? spell_foreign (self, g->node[i], node + n)
                                         : spell_softmax (self, g->node[i], node + n);
    if (!node || self->arena.failed)
        return wm_fault (error, WM_EHOST, "%s: no memory to spell its operators out", self->path);
    g->node = node;
    g->n_node = n;
    return WM_OK;
}
