/* wm_nan.c - see wm_nan.h.

   Nodes are visited in their order. Where a node would lose a NaN, the value that it came from is
   watched, as far up as every node between keeps it: the output of a division, not of each layer
   behind it. From there on the value counts as a number, and the nodes behind it are visited again.

   A convolution of what may be infinite may be NaN, and so each of those behind it: all would be
   watched. A graph with doubts watches what may be infinite in their stead, once.  */
#include "kernels/onnx/wm_nan_private.h"

#include <math.h>
#include <string.h>

typedef struct {
    wm_nan_eye_t eye;
    const Onnx__NodeProto *const *node; /* (n_node) each after those it reads from */
    size_t n_node;
    bool has_doubts;
    wm_nan_t *watch;
    size_t n_watch;
} search_t;

static bool has_graph (const Onnx__NodeProto *node)
{
    for (size_t k = 0; k < node->n_attribute; k++)
        if (node->attribute[k]->g || node->attribute[k]->n_graphs)
            return true;
    return false;
}

/* Whether result o > 0 of a node is integers or truth values: places, a mask.  */
static bool is_list (const Onnx__NodeProto *node, size_t o)
{
    static const char *const lists[] = { "Dropout", "MaxPool", "TopK", "Unique" };
    for (size_t k = 0; k < sizeof lists / sizeof *lists && o; k++)
        if (!strcmp (wm_onnx_op (node), lists[k]))
            return true;
    return false;
}

/* Finds what the node's results may be.  */
static wm_nan_seen_t visited (search_t *self, size_t i, wm_nan_way_t *way)
{
    const Onnx__NodeProto *node = self->eye.node;
    const wm_nan_seen_t bounds = wm_nan_see (&self->eye, way);
    bool is_made = self->eye.is_made;
    wm_nan_seen_t out = { .low = bounds.low,
                          .high = bounds.high,
                          .is_whole = bounds.is_whole,
                          .is_fixed = !has_graph (node),
                          .origin = SIZE_MAX,
                          .place = i };
    for (size_t k = 0; k < node->n_input; k++) {
        const wm_nan_seen_t a = wm_nan_input (&self->eye, k);
        out.is_fixed &= a.is_fixed;
        if (!a.is_nan || *way == WM_NAN_LOSES)
            continue;
        is_made |= out.is_nan && out.origin != a.origin; /* of several: looked at where they meet */
        out.is_nan = true;
        out.origin = a.origin;
    }
    out.is_nan = (out.is_nan || is_made) && !out.is_whole;
    if (is_made || *way != WM_NAN_KEEPS)
        out.origin = SIZE_MAX; /* its own */
    return out;
}

static size_t add (search_t *self, size_t at, const Onnx__NodeProto *node, bool is_doubt,
                   size_t next)
{
    wm_nan_seen_t *value = &self->eye.value[at];
    if (!value->is_seen || (is_doubt && !value->is_limited))
        self->watch[self->n_watch++] =
            (wm_nan_t){ .value = (char *) (uintptr_t) self->eye.onnx->value[at].name,
                        .node = node,
                        .is_doubt = is_doubt };
    value->is_seen = true;
    value->is_limited |= is_doubt;
    value->is_nan = false;
    return value->place < next ? value->place : next;
}

/* Watches what may be infinite and makes a value NaN, in its stead. Returns where to go on;
   SIZE_MAX: it does not come of that alone, or infinities are meant there.  */
static size_t limit (search_t *self, size_t at, size_t next)
{
    const wm_onnx_t *onnx = self->eye.onnx;
    wm_nan_eye_t eye = self->eye;
    wm_nan_way_t way;
    eye.node = onnx->value[at].node;
    if (!eye.node || strstr (wm_onnx_op (eye.node), "Softmax") || self->eye.value[at].is_seen)
        return SIZE_MAX;
    eye.is_limited = true;
    wm_nan_see (&eye, &way);
    bool is_meant = eye.is_made;
    eye.is_limited = false;
    for (size_t pass = 0; pass < 2 && !is_meant; pass++)
        for (size_t k = 0; k < eye.node->n_input; k++) {
            const wm_nan_seen_t a = wm_nan_input (&eye, k);
            const int64_t v = wm_onnx_find (onnx, eye.node->input[k]);
            if (v < 0 || (isfinite (a.low) && isfinite (a.high)))
                continue;
            is_meant |= a.is_fixed;
            if (pass)
                next = add (self, (size_t) v, eye.node, true, next);
        }
    return is_meant ? SIZE_MAX : next;
}

/* Watches what a node would lose. Returns where to go on: at what is now watched, or at `next`.  */
static size_t watch (search_t *self, const char *name, size_t next)
{
    const wm_onnx_t *onnx = self->eye.onnx;
    const int64_t v = wm_onnx_find (onnx, name);
    if (v < 0 || !self->eye.value[v].is_nan)
        return next;
    const size_t at = self->eye.value[v].origin,
                 before = self->has_doubts ? limit (self, at, next) : SIZE_MAX;
    return before < next ? before : add (self, at, self->eye.node, false, next);
}

/* The same for all that graphs inside the node read of this one.  */
static size_t watch_inside (search_t *self, const Onnx__NodeProto *node, size_t next)
{
    for (size_t k = 0; k < node->n_attribute; k++) {
        const Onnx__AttributeProto *a = node->attribute[k];
        for (size_t g = 0; g < a->n_graphs + (a->g != NULL); g++) {
            const Onnx__GraphProto *graph = g < a->n_graphs ? a->graphs[g] : a->g;
            for (size_t i = 0; i < graph->n_node; i++) {
                for (size_t j = 0; j < graph->node[i]->n_input; j++)
                    next = watch (self, graph->node[i]->input[j], next);
                next = watch_inside (self, graph->node[i], next);
            }
            for (size_t o = 0; o < graph->n_output; o++)
                next = watch (self, graph->output[o]->name, next);
        }
    }
    return next;
}

/* Visits node i. Returns which is next.  */
static size_t visit (search_t *self, size_t i)
{
    const wm_onnx_t *onnx = self->eye.onnx;
    const Onnx__NodeProto *node = self->eye.node = self->node[i];
    wm_nan_way_t way;
    const wm_nan_seen_t out = visited (self, i, &way);
    size_t next = i + 1;
    for (size_t k = 0; k < node->n_input && way == WM_NAN_LOSES; k++)
        next = watch (self, node->input[k], next);
    next = watch_inside (self, node, next);
    for (size_t o = 0; o < node->n_output && next > i; o++) {
        const int64_t v = wm_onnx_find (onnx, node->output[o]);
        if (v < 0)
            continue;
        wm_nan_seen_t *value = &self->eye.value[v];
        const bool is_seen = value->is_seen, is_limited = value->is_limited;
        *value = is_list (node, o) ? (wm_nan_seen_t){ .low = -WM_NAN_LARGE,
                                                      .high = WM_NAN_LARGE,
                                                      .is_whole = true,
                                                      .origin = SIZE_MAX,
                                                      .place = i }
                                   : out;
        if (is_limited)
            *value = wm_nan_limited (*value);
        value->is_seen = is_seen;
        value->is_limited = is_limited;
        value->is_nan &= !is_seen;
        if (value->origin == SIZE_MAX)
            value->origin = (size_t) v;
    }
    return next;
}

static bool is_float (const Onnx__ValueInfoProto *info)
{
    const bool is_tensor =
        info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    return wm_type_is_real (is_tensor ? info->type->tensor_type->elem_type : 0);
}

wm_fault_t wm_nan_find (wm_onnx_t *onnx, bool has_doubts, const wm_nan_t **list, size_t *n,
                        wm_error_t *error)
{
    search_t self = {
        .eye.onnx = onnx, .node = onnx->node, .n_node = onnx->n_node, .has_doubts = has_doubts
    };
    for (size_t i = 0; i < onnx->n_node; i++)
        if (has_graph (onnx->node[i])) { /* which may read of any: the file's order */
            self.node = (const Onnx__NodeProto *const *) onnx->graph->node;
            self.n_node = onnx->graph->n_node;
        }
    wm_nan_seen_t *value = wm_arena_take (&onnx->arena, onnx->n_value + 1, sizeof *value);
    self.eye.value = value;
    self.watch = wm_arena_take (&onnx->arena, 2 * onnx->n_value + 1, sizeof *self.watch);
    if (!value || !self.watch)
        return wm_fault (error, WM_EHOST, "%s: no memory to follow its values", onnx->path);
    for (size_t v = 0; v < onnx->n_value; v++) {
        const Onnx__TensorProto *constant = onnx->value[v].initializer;
        value[v] = constant ? wm_nan_constant (&self.eye, constant)
                            : (wm_nan_seen_t){ .low = -WM_NAN_LARGE, .high = WM_NAN_LARGE };
        value[v].is_fixed = constant;
        value[v].origin = v;
    }
    for (size_t k = 0; k < onnx->graph->n_input; k++) {
        const int64_t v = wm_onnx_find (onnx, onnx->graph->input[k]->name);
        if (v >= 0 && !onnx->value[v].initializer)
            value[v].is_whole = !is_float (onnx->graph->input[k]);
    }
    for (size_t i = 0; i < self.n_node && !onnx->tensorflow;)
        i = visit (&self, i);
    *list = self.watch;
    *n = self.n_watch;
    return WM_OK;
}
