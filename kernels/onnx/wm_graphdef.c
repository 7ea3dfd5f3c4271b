/* wm_graphdef.c - a TensorFlow frozen graph as an ONNX graph: edges, inputs, outputs.  */
#include "kernels/onnx/wm_graphdef_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    qsort (self->named, self->n_named, sizeof *self->named, wm_graphdef_by_name);
    for (size_t i = 1; i < self->n_named; i++)
        if (!wm_graphdef_by_name (&self->named[i - 1], &self->named[i]))
            return wm_fault (error, WM_EBATCH, "%s: node '%.100s' is defined twice",
                             self->onnx->path, wm_onnx_text (self->named[i].node->name));
    for (size_t i = 0; i < self->n_named; i++) { /* "a:1" would be the second output of "a" */
        uint32_t ignored;
        const char *name = wm_onnx_text (self->named[i].node->name);
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
                                 self->onnx->path, wm_onnx_text (file->node[i]->name),
                                 wm_onnx_text (file->node[i]->op), file->node[i]->input[k]);
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
        if (!strcmp (wm_onnx_text (node->op), never[k]))
            return false;
    uint32_t ignored;
    const wm_named_t *found = wm_graphdef_find (self, wm_onnx_text (node->name), &ignored);
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
            g->output[g->n_output] = wm_graphdef_port (self, wm_graphdef_name (self, ""), NULL,
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
        if (wm_graphdef_find (rewriter, wm_onnx_text (node->name), &output)->needed)
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
