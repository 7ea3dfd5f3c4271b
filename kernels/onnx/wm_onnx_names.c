/* wm_onnx_names.c - what a node is asked by name, and the values of a graph by name.  */
#include "kernels/onnx/wm_onnx.h"
#include "schema/base/wm_order.h"

#include <stdlib.h>
#include <string.h>

const char *wm_onnx_op (const Onnx__NodeProto *node)
{
    return wm_onnx_text (node->op_type);
}

const char *wm_onnx_node_name (const Onnx__NodeProto *node)
{
    return *wm_onnx_text (node->name) || !node->n_output ? wm_onnx_text (node->name)
                                                         : node->output[0];
}

const Onnx__AttributeProto *wm_onnx_attribute (const Onnx__NodeProto *node, const char *name)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        if (!strcmp (wm_onnx_text (node->attribute[i]->name), name))
            return node->attribute[i];
    return NULL;
}

int64_t wm_onnx_int (const Onnx__NodeProto *node, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *a = wm_onnx_attribute (node, name);
    return a && a->has_i ? a->i : otherwise;
}

bool wm_onnx_attribute_is (const Onnx__AttributeProto *a, const char *text)
{
    return a && a->has_s && a->s.len == strlen (text) && !memcmp (a->s.data, text, a->s.len);
}

/* ---- names ----------------------------------------------------------------------------------- */

WM_ORDER_BY_TEXT (by_name, wm_onnx_value_t, name)

int64_t wm_onnx_find (const wm_onnx_t *self, const char *name)
{
    wm_onnx_value_t key = { .name = wm_onnx_text (name) };
    const wm_onnx_value_t *found =
        self->n_value ? bsearch (&key, self->value, self->n_value, sizeof key, by_name) : NULL;
    return found ? found - self->value : -1;
}

static void add_value (wm_onnx_t *self, wm_onnx_value_t value)
{
    if (*wm_onnx_text (value.name))
        self->value[self->n_value++] = value;
}

/* Makes one value of those with one name; the same name from two nodes is refused.  */
static wm_fault_t merge_values (wm_onnx_t *self, wm_error_t *error)
{
    qsort (self->value, self->n_value, sizeof *self->value, by_name);
    size_t n = 0;
    for (size_t i = 0; i < self->n_value; i++) {
        wm_onnx_value_t *last = n ? &self->value[n - 1] : NULL, *v = &self->value[i];
        if (!last || strcmp (last->name, v->name)) {
            self->value[n++] = *v;
            continue;
        }
        if (last->node || v->node || (last->initializer && v->initializer))
            return wm_fault (error, WM_EBATCH, "%s: '%.100s' is defined twice: a damaged model",
                             self->path, v->name);
        if (v->initializer)
            *last = *v;
    }
    self->n_value = n;
    return WM_OK;
}

wm_fault_t wm_onnx_collect (wm_onnx_t *self, wm_error_t *error)
{
    const Onnx__GraphProto *g = self->graph;
    size_t n = g->n_input + g->n_initializer + g->n_sparse_initializer;
    for (size_t i = 0; i < g->n_node; i++)
        n += g->node[i]->n_output;
    self->value = calloc (n ? n : 1, sizeof *self->value);
    if (!self->value)
        return wm_fault (error, WM_EHOST, "%s: no memory for %zu names", self->path, n);
    for (size_t i = 0; i < g->n_input; i++)
        add_value (self, (wm_onnx_value_t){ .name = g->input[i]->name });
    for (size_t i = 0; i < g->n_initializer; i++)
        add_value (self, (wm_onnx_value_t){ .name = g->initializer[i]->name,
                                            .initializer = g->initializer[i] });
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        if (g->sparse_initializer[i]->values)
            add_value (self, (wm_onnx_value_t){ .name = g->sparse_initializer[i]->values->name });
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t o = 0; o < g->node[i]->n_output; o++)
            add_value (self, (wm_onnx_value_t){ .name = g->node[i]->output[o],
                                                .node = g->node[i],
                                                .node_index = (uint32_t) i });
    return merge_values (self, error);
}

uint8_t *wm_onnx_fed (wm_onnx_t *self)
{
    uint8_t *fed = wm_arena_take (&self->arena, self->n_value + 1, 1);
    for (size_t v = 0; fed && v < self->n_value; v++)
        fed[v] = !self->value[v].node && !self->value[v].initializer;
    for (size_t i = 0; fed && i < self->n_node; i++) {
        const Onnx__NodeProto *node = self->node[i];
        int any = 0;
        for (size_t k = 0; k < node->n_input; k++) {
            int64_t v = wm_onnx_find (self, node->input[k]);
            any |= v >= 0 && fed[v];
        }
        for (size_t k = 0; any && k < node->n_output; k++) {
            int64_t v = wm_onnx_find (self, node->output[k]);
            if (v >= 0)
                fed[v] = 1;
        }
    }
    return fed;
}
