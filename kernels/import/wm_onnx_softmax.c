/* wm_onnx_softmax.c - Softmax of operator sets 11 and 12, spelled out for OpenVINO.

   x -> Flatten (axis) -> Softmax (1) -> Reshape (Shape (x)).  */
#include "kernels/import/wm_onnx.h"

#include <stdio.h>
#include <string.h>

#define NODES 4

static int is_meant (const wm_onnx_t *self, const Onnx__NodeProto *node)
{
    return (self->opset == 11 || self->opset == 12) && !strcmp (wm_onnx_op (node), "Softmax") &&
           wm_onnx_int (node, "axis", 1) != -1 && node->n_input == 1 && node->n_output == 1;
}

/* A node in the arena that reads a and b (NULL: nothing) and writes "<of>|part"; "" is `of` itself. */
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
    node->n_input = b ? 2 : 1;
    node->output = names + 2;
    node->n_output = 1;
    return node;
}

static int set_axis (wm_onnx_t *self, Onnx__NodeProto *node, int64_t axis)
{
    Onnx__AttributeProto *a = wm_arena_take (&self->arena, 1, sizeof *a),
                         **list = wm_arena_take (&self->arena, 1, sizeof *list);
    if (!a || !list)
        return 0;
    onnx__attribute_proto__init (a);
    a->name = (char *) (uintptr_t) "axis";
    a->has_type = a->has_i = 1;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    a->i = axis;
    *list = a;
    node->attribute = list;
    node->n_attribute = 1;
    return 1;
}

static int spell (wm_onnx_t *self, const Onnx__NodeProto *node, Onnx__NodeProto *out[NODES])
{
    char *x = node->input[0], *y = node->output[0];
    if (!(out[0] = node_new (self, "Shape", x, NULL, y, "shape")) ||
        !(out[1] = node_new (self, "Flatten", x, NULL, y, "flat")) ||
        !(out[2] = node_new (self, "Softmax", out[1]->output[0], NULL, y, "softmax")) ||
        !(out[3] = node_new (self, "Reshape", out[2]->output[0], out[0]->output[0], y, "")))
        return 0;
    return set_axis (self, out[1], wm_onnx_int (node, "axis", 1)) && set_axis (self, out[2], 1);
}

wm_fault_t wm_onnx_spell_softmax (wm_onnx_t *self, wm_error_t *error)
{
    Onnx__GraphProto *g = self->graph;
    size_t n_meant = 0, n = 0;
    for (size_t i = 0; i < g->n_node; i++)
        n_meant += (size_t) is_meant (self, g->node[i]);
    if (!n_meant)
        return WM_OK;
    Onnx__NodeProto **node =
        wm_arena_take (&self->arena, g->n_node + (NODES - 1) * n_meant, sizeof *node);
    int done = node != NULL;
    for (size_t i = 0; i < g->n_node && done; i++)
        if (!is_meant (self, g->node[i]))
            node[n++] = g->node[i];
        else if ((done = spell (self, g->node[i], node + n)))
            n += NODES;
    if (!done)
        return wm_fault (error, WM_EHOST, "%s: no memory to spell its Softmax out", self->path);
    g->node = node;
    g->n_node = n;
    return WM_OK;
}
