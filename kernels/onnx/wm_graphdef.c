/* wm_graphdef.c - a TensorFlow frozen graph as an ONNX graph: edges, inputs, outputs.  */
#include "kernels/onnx/wm_graphdef_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text (const char *s)
{
    return s ? s : "";
}

void *wm_graphdef_take (wm_rewriter_t *self, uint64_t n, size_t size)
{
    void *memory = wm_arena_take (&self->onnx->arena, n ? n : 1, size);
    self->onnx->arena.failed |= !memory;
    return memory;
}

/* ---- names ----------------------------------------------------------------------------------- */

static int by_name (const void *a, const void *b)
{
    return strcmp (text (((const wm_named_t *) a)->node->name),
                   text (((const wm_named_t *) b)->node->name));
}

/* The node of an input "name", "name:1" or "^name", and which output of it is meant.  */
wm_named_t *wm_graphdef_find (const wm_rewriter_t *self, const char *input, uint32_t *output)
{
    char name[1024];
    input += *input == '^';
    const char *colon = strrchr (input, ':');
    size_t length = colon ? (size_t) (colon - input) : strlen (input);
    *output = 0;
    if (length >= sizeof name)
        return NULL;
    if (colon) {
        char *end;
        unsigned long k = strtoul (colon + 1, &end, 10);
        if (*end || end == colon + 1 || k > 1024)
            return NULL;
        *output = (uint32_t) k;
    }
    snprintf (name, sizeof name, "%.*s", (int) length, input);
    Graphdef__Node node = { .name = name };
    wm_named_t key = { .node = &node };
    return bsearch (&key, self->named, self->n_named, sizeof key, by_name);
}

const Graphdef__Value *wm_graphdef_attr (const Graphdef__Node *node, const char *key)
{
    for (size_t i = 0; i < node->n_attr; i++)
        if (!strcmp (text (node->attr[i]->key), key))
            return node->attr[i]->value;
    return NULL;
}

char *wm_graphdef_name (wm_rewriter_t *self, const char *part)
{
    const char *own = text (self->from->name);
    size_t bytes = strlen (own) + strlen (part) + 2;
    char *made = wm_graphdef_take (self, bytes, 1);
    if (made)
        snprintf (made, bytes, *part ? "%s|%s" : "%s", own, part);
    return made ? made : (char *) "";
}

int wm_graphdef_type (int32_t type)
{
    static const uint8_t onnx[] = {
        [1] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,   [2] = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE,
        [3] = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,   [4] = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8,
        [9] = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,   [10] = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL,
        [19] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16
    };
    return type > 0 && (size_t) type < sizeof onnx ? onnx[type] : 0;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

static Onnx__ValueInfoProto *port (wm_rewriter_t *self, char *called, const Graphdef__Shape *shape,
                                   int type)
{
    Onnx__ValueInfoProto *info = wm_graphdef_take (self, 1, sizeof *info);
    Onnx__TypeProto *kind = wm_graphdef_take (self, 1, sizeof *kind);
    Onnx__TypeProto__Tensor *tensor = wm_graphdef_take (self, 1, sizeof *tensor);
    Onnx__TensorShapeProto *to = wm_graphdef_take (self, 1, sizeof *to);
    size_t n = shape && !shape->unknown_rank ? shape->n_dim : 0;
    Onnx__TensorShapeProto__Dimension *dim = wm_graphdef_take (self, n, sizeof *dim);
    if (!info || !kind || !tensor || !to || !dim ||
        !(to->dim = wm_graphdef_take (self, n, sizeof *to->dim)))
        return NULL;
    onnx__value_info_proto__init (info);
    onnx__type_proto__init (kind);
    onnx__type_proto__tensor__init (tensor);
    Onnx__TensorShapeProto__Dimension **list = to->dim;
    onnx__tensor_shape_proto__init (to);
    to->dim = list;
    to->n_dim = n;
    for (size_t d = 0; d < n; d++) {
        onnx__tensor_shape_proto__dimension__init (list[d] = &dim[d]);
        dim[d].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dim[d].dim_value = shape->dim[d]->size;
    }
    info->name = called;
    info->type = kind;
    kind->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    kind->tensor_type = tensor;
    tensor->has_elem_type = 1;
    tensor->elem_type = type;
    tensor->shape = to;
    return info;
}

void wm_graphdef_input (wm_rewriter_t *self)
{
    const Graphdef__Value *type = wm_graphdef_attr (self->from, "dtype"),
                          *shape = wm_graphdef_attr (self->from, "shape");
    Onnx__GraphProto *g = self->graph;
    uint32_t ignored;
    if (!wm_graphdef_find (self, text (self->from->name), &ignored)->read)
        return; /* a switch that no node reads any more */
    g->input[g->n_input] = port (self, wm_graphdef_name (self, ""), shape ? shape->shape : NULL,
                                 wm_graphdef_type (type ? type->type : 0));
    g->n_input += g->input[g->n_input] != NULL;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Sorts the names, and counts the readers.  */
static wm_fault_t look_up (wm_rewriter_t *self, const Graphdef__Graph *file, size_t *n_edge,
                           wm_error_t *error)
{
    self->named = wm_graphdef_take (self, file->n_node, sizeof *self->named);
    if (!self->named)
        return WM_OK; /* arena.failed is set */
    for (size_t i = 0; i < file->n_node; i++)
        self->named[self->n_named++].node = file->node[i];
    qsort (self->named, self->n_named, sizeof *self->named, by_name);
    for (size_t i = 1; i < self->n_named; i++)
        if (!by_name (&self->named[i - 1], &self->named[i]))
            return wm_fault (error, WM_EBATCH, "%s: node '%.100s' is defined twice",
                             self->onnx->path, text (self->named[i].node->name));
    for (size_t i = 0; i < self->n_named; i++) { /* "a:1" would be the second output of "a" */
        uint32_t ignored;
        const char *name = text (self->named[i].node->name);
        if (wm_graphdef_find (self, name, &ignored) != &self->named[i])
            return wm_fault (error, WM_EBATCH,
                             "%s: '%.100s' is no name of a TensorFlow node: a damaged model",
                             self->onnx->path, name);
    }
    for (size_t i = 0; i < file->n_node; i++)
        for (size_t k = 0; k < file->node[i]->n_input; k++, ++*n_edge) {
            uint32_t output;
            wm_named_t *found = wm_graphdef_find (self, file->node[i]->input[k], &output);
            if (!found)
                return wm_fault (error, WM_EBATCH,
                                 "%s: node '%.100s' (%.60s) reads '%.100s', which nothing makes",
                                 self->onnx->path, text (file->node[i]->name),
                                 text (file->node[i]->op), file->node[i]->input[k]);
            found->read = 1;
            if (found->n_output < output + 1)
                found->n_output = output + 1;
        }
    return WM_OK;
}

static bool is_output (const wm_rewriter_t *self, const Graphdef__Node *node)
{
    static const char *const never[] = { "Assert", "Const", "NoOp", "Placeholder",
                                         "PlaceholderWithDefault" };
    for (size_t k = 0; k < sizeof never / sizeof *never; k++)
        if (!strcmp (text (node->op), never[k]))
            return false;
    uint32_t ignored;
    const wm_named_t *found = wm_graphdef_find (self, text (node->name), &ignored);
    return found && !found->read;
}

static void rewrite_all (wm_rewriter_t *self, const Graphdef__Graph *file, size_t n_edge)
{
    Onnx__GraphProto *g = self->graph;
    self->node_max = 4 * file->n_node + n_edge;
    self->tensor_max = 3 * file->n_node;
    g->node = wm_graphdef_take (self, self->node_max, sizeof *g->node);
    g->initializer = wm_graphdef_take (self, self->tensor_max, sizeof *g->initializer);
    g->input = wm_graphdef_take (self, file->n_node, sizeof *g->input);
    g->output = wm_graphdef_take (self, file->n_node, sizeof *g->output);
    if (!g->node || !g->initializer || !g->input || !g->output)
        return;
    for (size_t i = 0; i < file->n_node && !self->onnx->arena.failed; i++)
        wm_graphdef_rewrite (self, file->node[i]);
    for (size_t i = 0; i < file->n_node && !self->onnx->arena.failed; i++)
        if (is_output (self, file->node[i])) {
            self->from = file->node[i];
            g->output[g->n_output] = port (self, wm_graphdef_name (self, ""), NULL,
                                           ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
            g->n_output += g->output[g->n_output] != NULL;
        }
}

wm_fault_t wm_graphdef_read (wm_onnx_t *self, wm_error_t *error)
{
    Graphdef__Graph *file = graphdef__graph__unpack (NULL, self->size, self->bytes);
    if (!file)
        return wm_fault (error, WM_EBATCH, "%s: not a TensorFlow graph, or damaged", self->path);
    self->graphdef = file;
    wm_rewriter_t *rewriter = self->rewriter = wm_arena_take (&self->arena, 1, sizeof *rewriter);
    Onnx__GraphProto *g = self->graph = wm_arena_take (&self->arena, 1, sizeof *g);
    if (!rewriter || !g)
        return wm_fault (error, WM_EHOST, "%s: no memory to read it", self->path);
    *rewriter = (wm_rewriter_t){ .onnx = self, .graph = g };
    onnx__graph_proto__init (g);
    size_t n_edge = 0;
    wm_fault_t fault = look_up (rewriter, file, &n_edge, error);
    if (!fault && !self->arena.failed)
        rewrite_all (rewriter, file, n_edge);
    if (!fault && self->arena.failed)
        fault = wm_fault (error, WM_EHOST, "%s: no memory to read it", self->path);
    self->opset = 11;
    return fault;
}

void wm_graphdef_prune (wm_onnx_t *self)
{
    const uint8_t *fed = wm_onnx_fed (self);
    size_t n = 0;
    for (size_t k = 0; fed && k < self->graph->n_output; k++) {
        int64_t v = wm_onnx_find (self, self->graph->output[k]->name);
        if (v >= 0 && fed[v])
            self->graph->output[n++] = self->graph->output[k];
    }
    self->graph->n_output = n;
}

/* ---- what is left for the general engine
   ------------------------------------------------------ */

static void mark_needed (wm_rewriter_t *self, wm_named_t **waiting)
{
    size_t n_waiting = 0;
    uint32_t output;
    for (size_t i = 0; i < self->onnx->n_output; i++) {
        wm_named_t *found = wm_graphdef_find (self, self->onnx->output[i]->name, &output);
        if (found && !found->needed)
            found->needed = 1, waiting[n_waiting++] = found;
    }
    while (n_waiting) {
        const Graphdef__Node *node = waiting[--n_waiting]->node;
        for (size_t k = 0; k < node->n_input; k++) {
            wm_named_t *found = wm_graphdef_find (self, node->input[k], &output);
            if (!found->needed)
                found->needed = 1, waiting[n_waiting++] = found;
        }
    }
}

/* Adds nodes that make the inner values outputs. false: no memory.  */
static bool add_inner (wm_onnx_t *self, Graphdef__Graph *left, const char *const *inner, size_t n)
{
    Graphdef__Node *node = wm_arena_take (&self->arena, n, sizeof *node);
    char **input = wm_arena_take (&self->arena, n, sizeof *input),
         (*name)[32] = wm_arena_take (&self->arena, n, sizeof *name);
    for (size_t k = 0; node && input && name && k < n; k++) {
        snprintf (name[k], sizeof name[k], WM_ONNX_INNER, k);
        input[k] = (char *) (uintptr_t) inner[k];
        graphdef__node__init (left->node[left->n_node++] = &node[k]);
        node[k].name = name[k];
        node[k].op = (char *) (uintptr_t) "Identity";
        node[k].input = &input[k];
        node[k].n_input = 1;
    }
    return node && input && name;
}

wm_fault_t wm_graphdef_pack (wm_onnx_t *self, const char *const *inner, size_t n,
                             const void **bytes, size_t *size, wm_error_t *error)
{
    wm_rewriter_t *rewriter = self->rewriter;
    Graphdef__Graph left = *self->graphdef;
    left.node = wm_arena_take (&self->arena, left.n_node + n, sizeof *left.node);
    wm_named_t **waiting = wm_arena_take (&self->arena, left.n_node, sizeof *waiting);
    size_t n_all = left.n_node;
    left.n_node = 0;
    if (!left.node || !waiting)
        return wm_fault (error, WM_EHOST, "%s: no memory to write it", self->path);
    mark_needed (rewriter, waiting);
    for (size_t i = 0; i < n_all; i++) {
        uint32_t output;
        Graphdef__Node *node = self->graphdef->node[i];
        if (wm_graphdef_find (rewriter, text (node->name), &output)->needed)
            left.node[left.n_node++] = node;
    }
    if (left.n_node == n_all && !n)
        return WM_OK;
    const int fine = add_inner (self, &left, inner, n);
    *size = graphdef__graph__get_packed_size (&left);
    uint8_t *packed = fine ? wm_arena_take (&self->arena, *size, 1) : NULL;
    if (!packed)
        return wm_fault (error, WM_EHOST, "%s: no memory to write it", self->path);
    graphdef__graph__pack (&left, packed);
    *bytes = packed;
    return WM_OK;
}
