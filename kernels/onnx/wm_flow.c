/* wm_flow.c - see wm_flow.h.

   Bits only ever appear, so the nodes are visited until none appears any more: twice where they are
   in order, once more for each turn of a Loop's values.  */
#include "kernels/onnx/wm_flow.h"
#include "schema/base/wm_order.h"

#include <stdlib.h>
#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

WM_ORDER_BY_TEXT (by_name, wm_flow_value_t, name)

static wm_flow_value_t *find (const wm_flow_t *self, const char *name)
{
    const wm_flow_value_t key = { .name = wm_onnx_text (name) };
    return *key.name && self->n_value
               ? bsearch (&key, self->value, self->n_value, sizeof key, by_name)
               : NULL;
}

unsigned wm_flow_bits (const wm_flow_t *self, const char *name)
{
    const wm_flow_value_t *value = find (self, name);
    return value ? value->bits : 0;
}

unsigned wm_flow_input (const wm_flow_t *self, const Onnx__NodeProto *node, size_t k)
{
    return k < node->n_input ? wm_flow_bits (self, node->input[k]) : 0;
}

/* Adds bits to a value. Returns whether one is new.  */
static bool add (wm_flow_t *self, const char *name, unsigned bits)
{
    wm_flow_value_t *value = find (self, name);
    const unsigned old = value ? value->bits : bits;
    if (value)
        value->bits |= (uint8_t) bits;
    return (bits & ~old) != 0;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* The graphs inside a node, appended to `to` (NULL: counted only).  */
static size_t inside (const Onnx__NodeProto *node, const Onnx__GraphProto **to)
{
    size_t n = 0;
    for (size_t k = 0; k < node->n_attribute; k++) {
        const Onnx__AttributeProto *a = node->attribute[k];
        for (size_t g = 0; g < a->n_graphs + (a->g != NULL); g++, n++)
            if (to)
                to[n] = g < a->n_graphs ? a->graphs[g] : a->g;
    }
    return n;
}

/* Lists all graphs. false: no memory.  */
static bool list_graphs (wm_flow_t *self, wm_arena_t *arena)
{
    size_t room = 1;
    self->graph = wm_arena_take (arena, room, sizeof *self->graph);
    if (!self->graph)
        return false;
    self->graph[0] = self->onnx->graph;
    self->n_graph = 1;
    for (size_t g = 0; g < self->n_graph; g++) {
        const Onnx__GraphProto *graph = self->graph[g];
        for (size_t i = 0; i < graph->n_node; i++) {
            const size_t n = inside (graph->node[i], NULL);
            if (self->n_graph + n > room) {
                const Onnx__GraphProto **more =
                    wm_arena_take (arena, room = 2 * (self->n_graph + n), sizeof *more);
                if (!more)
                    return false;
                memcpy (more, self->graph, self->n_graph * sizeof *more);
                self->graph = more;
            }
            if (n)
                inside (graph->node[i], self->graph + self->n_graph);
            self->n_graph += n;
        }
    }
    return true;
}

static bool list_values (wm_flow_t *self, wm_arena_t *arena)
{
    size_t room = 0, n = 0;
    for (size_t g = 0; g < self->n_graph; g++) {
        room += self->graph[g]->n_input;
        for (size_t i = 0; i < self->graph[g]->n_node; i++)
            room += self->graph[g]->node[i]->n_output;
    }
    self->value = wm_arena_take (arena, room + 1, sizeof *self->value);
    if (!self->value)
        return false;
    for (size_t g = 0; g < self->n_graph; g++) {
        const Onnx__GraphProto *graph = self->graph[g];
        for (size_t i = 0; i < graph->n_input; i++)
            self->value[n++].name = wm_onnx_text (graph->input[i]->name);
        for (size_t i = 0; i < graph->n_node; i++)
            for (size_t o = 0; o < graph->node[i]->n_output; o++)
                self->value[n++].name = graph->node[i]->output[o];
    }
    qsort (self->value, n, sizeof *self->value, by_name);
    for (size_t v = 0; v < n; v++)
        if (!self->n_value || strcmp (self->value[self->n_value - 1].name, self->value[v].name))
            self->value[self->n_value++] = self->value[v];
    return true;
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Operators of which the elements of some inputs decide the sizes of the result.  */
static const struct {
    const char *op;
    uint8_t from;  /* this input and those behind it */
    uint8_t ranks; /* how many elements they have is the rank of the result, or changes it */
} makes_sizes[] = {
    { "AffineGrid", 1, 0 },
    { "BlackmanWindow", 0, 0 },
    { "BroadcastTo", 1, 1 },
    { "CenterCropPad", 1, 0 },
    { "Col2Im", 1, 1 },
    { "Compress", 1, 0 },
    { "ConstantOfShape", 0, 1 },
    { "DFT", 1, 0 },
    { "DynamicPartition", 1, 0 },
    { "Expand", 1, 1 },
    { "Fill", 0, 1 },
    { "HammingWindow", 0, 0 },
    { "HannWindow", 0, 0 },
    { "LinSpace", 2, 0 },
    { "MaxUnpool", 2, 0 },
    { "MelWeightMatrix", 0, 0 },
    { "MirrorPad", 1, 0 },
    { "NonMaxSuppression", 0, 0 },
    { "NonMaxSuppressionV2", 0, 0 },
    { "NonMaxSuppressionV3", 0, 0 },
    { "NonMaxSuppressionV4", 0, 0 },
    { "NonMaxSuppressionV5", 0, 0 },
    { "NonZero", 0, 0 },
    { "OneHot", 1, 0 },
    { "Pad", 1, 0 },
    { "PadV2", 1, 0 },
    { "Range", 0, 0 },
    { "ReduceL1", 1, 1 },
    { "ReduceL2", 1, 1 },
    { "ReduceLogSum", 1, 1 },
    { "ReduceLogSumExp", 1, 1 },
    { "ReduceMax", 1, 1 },
    { "ReduceMean", 1, 1 },
    { "ReduceMin", 1, 1 },
    { "ReduceProd", 1, 1 },
    { "ReduceSum", 1, 1 },
    { "ReduceSumSquare", 1, 1 },
    { "Reshape", 1, 1 },
    { "Resize", 1, 0 },
    { "ResizeBilinear", 1, 0 },
    { "ResizeNearestNeighbor", 1, 0 },
    { "STFT", 1, 0 },
    { "Slice", 1, 0 },
    { "Split", 1, 0 },
    { "SplitToSequence", 1, 0 },
    { "SplitV", 1, 0 },
    { "Squeeze", 1, 1 },
    { "StridedSlice", 1, 0 },
    { "Tile", 1, 0 },
    { "TopK", 1, 0 },
    { "TopKV2", 1, 0 },
    { "Unique", 0, 0 },
    { "Unsqueeze", 1, 1 },
    { "Upsample", 1, 0 },
};

/* The bits of a node's results: of those of its inputs, and what those of its inputs that decide
   sizes add to them.  */
static unsigned results_of (const wm_flow_t *self, const Onnx__NodeProto *node)
{
    const char *op = wm_onnx_op (node), *domain = wm_onnx_text (node->domain);
    const bool is_known = !*domain || !strcmp (domain, "ai.onnx") || !strcmp (domain, "tensorflow"),
               is_where = !strcmp (op, "Where") && node->n_input == 1; /* TensorFlow's NonZero */
    unsigned bits = 0, sizes = 0;
    bool ranks = false;
    for (size_t k = 0; k < node->n_input; k++)
        bits |= wm_flow_input (self, node, k);
    if (!is_known || !strncmp (op, "Sequence", 8))
        return bits ? WM_FLOW_ALL : 0;
    if (!strcmp (op, "Shape") || !strcmp (op, "Size"))
        return bits & WM_FLOW_RANKED  ? WM_FLOW_FED | WM_FLOW_SIZED
               : bits & WM_FLOW_SIZED ? WM_FLOW_FED
                                      : 0;
    for (size_t t = 0; t < sizeof makes_sizes / sizeof *makes_sizes; t++)
        if (!strcmp (op, makes_sizes[t].op)) {
            ranks = makes_sizes[t].ranks;
            for (size_t k = makes_sizes[t].from; k < node->n_input; k++)
                sizes |= wm_flow_input (self, node, k);
        }
    if (is_where)
        sizes = bits;
    if (!strcmp (op, "ConstantOfShape"))
        bits = 0;
    else if (bits) /* an element may be a sum over a size */
        bits |= WM_FLOW_FED;
    return bits | (sizes & WM_FLOW_FED ? WM_FLOW_SIZED : 0) |
           (ranks && sizes & WM_FLOW_SIZED ? WM_FLOW_SIZED | WM_FLOW_RANKED : 0);
}

/* Bits of the results of all graphs inside a node.  */
static unsigned inner_results (const wm_flow_t *self, const Onnx__GraphProto *graph)
{
    unsigned bits = 0;
    for (size_t o = 0; o < graph->n_output; o++)
        bits |= wm_flow_bits (self, graph->output[o]->name);
    return bits;
}

/* Follows a node with a graph inside: what goes in at the top may come around. The counter of a
   Loop is decided by its limit alone; how often it turns decides sizes.  */
static bool pass_inside (wm_flow_t *self, const Onnx__NodeProto *node,
                         const Onnx__GraphProto *graph, unsigned *bits)
{
    const bool is_loop = !strcmp (wm_onnx_op (node), "Loop"),
               has_limit = node->n_input > 0 && *wm_onnx_text (node->input[0]);
    unsigned all = inner_results (self, graph), turns = 0;
    bool any = false;
    for (size_t k = 0; k < node->n_input; k++)
        all |= wm_flow_input (self, node, k);
    if (is_loop || !strcmp (wm_onnx_op (node), "If"))
        turns = wm_flow_input (self, node, 0) | wm_flow_input (self, node, is_loop);
    if (is_loop && graph->n_output)
        turns |= wm_flow_bits (self, graph->output[0]->name);
    all |= all ? WM_FLOW_FED : 0;
    all |= turns ? WM_FLOW_ALL : 0;
    for (size_t i = 0; i < graph->n_input; i++)
        any |= add (self, graph->input[i]->name,
                    is_loop && i == 0 && has_limit ? wm_flow_input (self, node, 0) ? WM_FLOW_FED : 0
                                                   : all);
    *bits |= all;
    return any;
}

/* Follows a node. Returns whether a bit is new.  */
static bool pass (wm_flow_t *self, const Onnx__NodeProto *node)
{
    unsigned bits = results_of (self, node);
    bool any = false;
    for (size_t k = 0; k < node->n_attribute; k++) {
        const Onnx__AttributeProto *a = node->attribute[k];
        for (size_t g = 0; g < a->n_graphs + (a->g != NULL); g++)
            any |= pass_inside (self, node, g < a->n_graphs ? a->graphs[g] : a->g, &bits);
    }
    for (size_t o = 0; o < node->n_output; o++)
        any |= add (self, node->output[o], bits);
    return any;
}

/* ---- together -------------------------------------------------------------------------------- */

static unsigned bits_of_port (const char *name, const wm_port_t *port, uint32_t n_port)
{
    for (uint32_t i = 0; i < n_port; i++)
        if (!strcmp (name, port[i].name)) {
            bool is_free = false;
            for (uint32_t d = 0; d < port[i].n_dim; d++)
                is_free |= !port[i].dim[d];
            return is_free ? WM_FLOW_FED | WM_FLOW_SIZED : WM_FLOW_FED;
        }
    return WM_FLOW_ALL;
}

wm_fault_t wm_flow_find (wm_flow_t *self, wm_onnx_t *onnx, const wm_port_t *port, uint32_t n_port,
                         wm_error_t *error)
{
    *self = (wm_flow_t){ .onnx = onnx };
    if (!list_graphs (self, &onnx->arena) || !list_values (self, &onnx->arena))
        return wm_fault (error, WM_EHOST, "%s: no memory to follow its values", onnx->path);
    for (size_t i = 0; i < onnx->graph->n_input; i++) {
        const char *name = wm_onnx_text (onnx->graph->input[i]->name);
        const int64_t v = wm_onnx_find (onnx, name);
        if (v >= 0 && !onnx->value[v].initializer)
            add (self, name, bits_of_port (name, port, n_port));
    }
    for (size_t i = 0; i < onnx->n_node; i++) /* these are in order */
        pass (self, onnx->node[i]);
    for (bool any = true; any;) {
        any = false;
        for (size_t g = 0; g < self->n_graph; g++)
            for (size_t i = 0; i < self->graph[g]->n_node; i++)
                any |= pass (self, self->graph[g]->node[i]);
    }
    return WM_OK;
}
