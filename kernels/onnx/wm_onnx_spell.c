/* wm_onnx_spell.c - replaces operators that OpenVINO computes wrongly, or lacks, by other nodes.

   Softmax of operator sets 11 and 12: x -> Flatten (axis) -> Softmax (1) -> Reshape (Shape (x)).
   Erfc and Expm1, which ONNX does not have and tf2onnx writes (Keras 3's GELU, CELU): 1 - Erf (x)
   and Exp (x) - 1.  */
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
    Onnx__NodeProto *node = wm_arena_take (&self->arena, 1, sizeof *node);
    char **names = wm_arena_take (&self->arena, 3, sizeof *names);
    char *output = wm_arena_take (&self->arena, bytes, 1);
    if (!node || !names || !output)
        return NULL;
    snprintf (output, bytes, "%s%s%s", of, *part ? "|" : "", part);
    onnx__node_proto__init (node);
    memcpy (names, (char *[]){ a, b, output }, 3 * sizeof *names);
    node->op_type = (char *) (uintptr_t) op;
    node->input = names;
    node->n_input = b ? 2 : a ? 1 : 0;
    node->output = names + 2;
    node->n_output = 1;
    return node;
}

/* The only attribute of a node that was made here.  */
static Onnx__AttributeProto *attribute (wm_onnx_t *self, Onnx__NodeProto *node, const char *name)
{
    Onnx__AttributeProto *a = wm_arena_take (&self->arena, 1, sizeof *a),
                         **list = wm_arena_take (&self->arena, 1, sizeof *list);
    if (!a || !list)
        return NULL;
    onnx__attribute_proto__init (a);
    a->name = (char *) (uintptr_t) name;
    a->has_type = 1;
    *list = a;
    node->attribute = list;
    node->n_attribute = 1;
    return a;
}

static bool set_axis (wm_onnx_t *self, Onnx__NodeProto *node, int64_t axis)
{
    Onnx__AttributeProto *a = attribute (self, node, "axis");
    if (!a)
        return false;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->has_i = 1;
    a->i = axis;
    return true;
}

static bool set_one (wm_onnx_t *self, Onnx__NodeProto *node)
{
    Onnx__AttributeProto *a = attribute (self, node, "value");
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
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
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
        !(out[3] = node_new (self, "Reshape", out[2]->output[0], out[0]->output[0], y, "")) ||
        !set_axis (self, out[1], wm_onnx_int (node, "axis", 1)) || !set_axis (self, out[2], 1))
        return 0;
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
