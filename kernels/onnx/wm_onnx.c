/* wm_onnx.c - reads a model's graph within bounds.  */
#include "kernels/onnx/wm_onnx.h"
#include "kernels/onnx/wm_graphdef.h"
#include "kernels/onnx/wm_maker.h"
#include "kernels/onnx/wm_onnx_weights.h"
#include "kernels/onnx/wm_wire.h"
#include "schema/wm_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- order ----------------------------------------------------------------------------------- */

/* Kahn's algorithm over edges maker -> reader; among ready nodes the file's order is kept.
   first[i] .. first[i + 1]: the readers of node i.  */
typedef struct {
    uint32_t *waits, *first, *reader, *queue;
} order_t;

static wm_fault_t check_reads (const wm_onnx_t *self, size_t *n_edge, wm_error_t *error)
{
    const Onnx__GraphProto *g = self->graph;
    *n_edge = 0;
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_input; k++) {
            const char *name = g->node[i]->input[k];
            if (*name && wm_onnx_find (self, name) < 0)
                return wm_fault (error, WM_EBATCH,
                                 "%s: node '%.100s' (%.60s) reads '%.100s', which nothing makes: a "
                                 "damaged model",
                                 self->path, wm_onnx_node_name (g->node[i]),
                                 wm_onnx_op (g->node[i]), name);
            *n_edge += 1;
        }
    return WM_OK;
}

/* The node that makes input k of node i, or -1.  */
static int64_t maker (const wm_onnx_t *self, size_t i, size_t k)
{
    int64_t v = wm_onnx_find (self, self->graph->node[i]->input[k]);
    return v >= 0 && self->value[v].node ? (int64_t) self->value[v].node_index : -1;
}

static void link_readers (const wm_onnx_t *self, order_t *o)
{
    const Onnx__GraphProto *g = self->graph;
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_input; k++) {
            int64_t m = maker (self, i, k);
            if (m >= 0) {
                o->first[m]++;
                o->waits[i]++;
            }
        }
    for (size_t i = 1; i <= g->n_node; i++)
        o->first[i] += o->first[i - 1]; /* now the end of node i's readers */
    for (size_t i = g->n_node; i-- > 0;)
        for (size_t k = g->node[i]->n_input; k-- > 0;) {
            int64_t m = maker (self, i, k);
            if (m >= 0)
                o->reader[--o->first[m]] = (uint32_t) i;
        }
}

static wm_fault_t sort_nodes (wm_onnx_t *self, order_t *o, wm_error_t *error)
{
    const Onnx__GraphProto *g = self->graph;
    link_readers (self, o);
    size_t head = 0, tail = 0;
    for (size_t i = 0; i < g->n_node; i++)
        if (!o->waits[i])
            o->queue[tail++] = (uint32_t) i;
    for (; head < tail; head++) {
        uint32_t i = o->queue[head];
        self->node[head] = g->node[i];
        for (uint32_t r = o->first[i]; r < o->first[i + 1]; r++)
            if (!--o->waits[o->reader[r]])
                o->queue[tail++] = o->reader[r];
    }
    for (size_t i = 0; i < g->n_node; i++)
        if (o->waits[i])
            return wm_fault (error, WM_EBATCH,
                             "%s: the graph has a cycle at or before node '%.100s' (%.60s)%s",
                             self->path, wm_onnx_node_name (g->node[i]), wm_onnx_op (g->node[i]),
                             self->tensorflow ? ", which may be a loop (an LSTM's): convert the "
                                                "model to ONNX by tf2onnx"
                                              : ": a damaged model");
    return WM_OK;
}

/* The graph's own description of a value, or an empty one.  */
static Onnx__ValueInfoProto *describe (wm_onnx_t *self, const char *name)
{
    const Onnx__GraphProto *g = self->graph;
    for (size_t i = 0; i < g->n_output; i++)
        if (!strcmp (wm_onnx_text (g->output[i]->name), name))
            return g->output[i];
    for (size_t i = 0; i < g->n_value_info; i++)
        if (!strcmp (wm_onnx_text (g->value_info[i]->name), name))
            return g->value_info[i];
    Onnx__ValueInfoProto *made = wm_arena_take (&self->arena, 1, sizeof *made);
    if (made) {
        onnx__value_info_proto__init (made);
        made->name = (char *) (uintptr_t) name;
    }
    return made;
}

static wm_fault_t choose_outputs (wm_onnx_t *self, const char *outputs, wm_error_t *error)
{
    self->output = self->graph->output;
    self->n_output = self->graph->n_output;
    if (!outputs)
        return WM_OK;
    char *names = wm_arena_take (&self->arena, strlen (outputs) + 1, 1), *save = NULL;
    self->output = wm_arena_take (&self->arena, WM_MODEL_PORTS_MAX, sizeof *self->output);
    self->n_output = 0;
    if (!names || !self->output)
        return wm_fault (error, WM_EHOST, "%s: no memory for its outputs", self->path);
    strcpy (names, outputs);
    for (char *s = strtok_r (names, ",", &save); s; s = strtok_r (NULL, ",", &save)) {
        char *end = s + strlen (s) - 2; /* TensorFlow's "name:0" */
        if (self->graphdef && end > s && !strcmp (end, ":0"))
            *end = 0;
        int64_t v = wm_onnx_find (self, s);
        if (v < 0 || !self->value[v].node)
            return wm_fault (error, WM_EBATCH, "%s: no node makes an output '%.100s'%s%.100s%s",
                             self->path, s, self->graph->n_output ? "; it has '" : "",
                             self->graph->n_output ? wm_onnx_text (self->graph->output[0]->name)
                                                   : "",
                             self->graph->n_output > 1   ? "' and others"
                             : self->graph->n_output > 0 ? "'"
                                                         : "");
        if (self->n_output == WM_MODEL_PORTS_MAX)
            return wm_fault (error, WM_EBATCH, "%s: more than %d outputs: name fewer", self->path,
                             WM_MODEL_PORTS_MAX);
        if (!(self->output[self->n_output++] = describe (self, s)))
            return wm_fault (error, WM_EHOST, "%s: no memory for its outputs", self->path);
    }
    return WM_OK;
}

/* Leaves the nodes out that no output needs.  */
static wm_fault_t drop_unneeded (wm_onnx_t *self, wm_error_t *error)
{
    const Onnx__GraphProto *g = self->graph;
    uint8_t *needed = calloc (self->n_value + 1, 1);
    if (!needed)
        return wm_fault (error, WM_EHOST, "%s: no memory for %zu names", self->path, self->n_value);
    for (size_t i = 0; i < self->n_output; i++)
        needed[wm_onnx_find (self, wm_onnx_text (self->output[i]->name)) + 1] =
            1; /* [0]: no such value */
    size_t n = g->n_node;
    for (size_t i = g->n_node; i-- > 0;) {
        const Onnx__NodeProto *node = self->node[i];
        int wanted = 0;
        for (size_t k = 0; k < node->n_output; k++)
            wanted |= *node->output[k] && needed[wm_onnx_find (self, node->output[k]) + 1];
        for (size_t k = 0; wanted && k < node->n_input; k++)
            needed[wm_onnx_find (self, node->input[k]) + 1] = 1;
        if (wanted)
            self->node[--n] = node;
    }
    self->n_node = g->n_node - n;
    memmove (self->node, self->node + n, self->n_node * sizeof *self->node);
    free (needed);
    return WM_OK;
}

static wm_fault_t order_nodes (wm_onnx_t *self, wm_error_t *error)
{
    size_t n_edge, n = self->graph->n_node;
    wm_fault_t fault = check_reads (self, &n_edge, error);
    if (fault)
        return fault;
    self->n_node = n;
    order_t o = { .waits = calloc (n + 1, 4),
                  .first = calloc (n + 1, 4),
                  .reader = calloc (n_edge + 1, 4),
                  .queue = calloc (n + 1, 4) };
    self->node = calloc (n + 1, sizeof *self->node);
    if (o.waits && o.first && o.reader && o.queue && self->node)
        fault = sort_nodes (self, &o, error);
    else
        fault = wm_fault (error, WM_EHOST, "%s: no memory for %zu nodes", self->path, n);
    free (o.waits);
    free (o.first);
    free (o.reader);
    free (o.queue);
    return fault;
}

/* ---- the file -------------------------------------------------------------------------------- */

wm_fault_t wm_onnx_parse (wm_onnx_t *self, wm_error_t *error)
{
    if (self->tensorflow || self->model)
        return WM_OK;
    self->model = onnx__model_proto__unpack (NULL, self->size, self->bytes);
    if (!self->model)
        return wm_fault (error, WM_EBATCH, "%s: not an ONNX file, or damaged", self->path);
    self->graph = self->model->graph;
    for (size_t i = 0; i < self->model->n_opset_import; i++)
        if (!*wm_onnx_text (self->model->opset_import[i]->domain))
            self->opset = self->model->opset_import[i]->version;
    return WM_OK;
}

/* Bounds self->bytes; *elsewhere: data lies in other files.  */
static wm_fault_t bound (wm_onnx_t *self, int *elsewhere, wm_error_t *error)
{
    self->tensorflow = wm_wire_is_graphdef (self->bytes, self->size);
    return wm_wire_check (
        self->path, self->bytes, self->size,
        self->tensorflow ? &graphdef__graph__descriptor : &onnx__model_proto__descriptor,
        self->tensorflow
            ? "a TensorFlow graph"
            : "an ONNX file or TensorFlow's frozen graph (other forms are exported to ONNX first)",
        protobuf_c_message_descriptor_get_field_by_name (&onnx__tensor_proto__descriptor,
                                                         "external_data"),
        elsewhere, error);
}

wm_fault_t wm_onnx_lend (wm_onnx_t *self, const char *name, const void *bytes, size_t size,
                         wm_error_t *error)
{
    int elsewhere;
    *self = (wm_onnx_t){ .path = name, .bytes = bytes, .size = size, .lent = 1 };
    wm_fault_t fault = bound (self, &elsewhere, error);
    return fault || !elsewhere
               ? fault
               : wm_fault (error, WM_EBATCH, "%s: some of its data lies in another file", name);
}

wm_fault_t wm_onnx_open (wm_onnx_t *self, const char *path, const char *spare, wm_error_t *error)
{
    *self = (wm_onnx_t){ .path = path, .spare = spare };
    wm_fault_t fault = wm_file_map (path, WM_MODEL_BYTES_MAX, &self->bytes, &self->size, error);
    if (fault)
        return fault;
    wm_digest_t *digest = wm_digest_new ();
    wm_digest_add (digest, self->bytes, self->size);
    int elsewhere;
    fault = bound (self, &elsewhere, error);
    if (!fault && elsewhere)
        fault = wm_onnx_parse (self, error);
    if (!fault && elsewhere)
        fault = wm_onnx_load_external (self, digest, error);
    wm_fault_t digested = wm_digest_finish (&digest, self->sha256, error);
    return fault ? fault : digested;
}

wm_fault_t wm_onnx_read (wm_onnx_t *self, const char *outputs, wm_error_t *error)
{
    bool changed = false;
    wm_fault_t fault =
        self->tensorflow ? wm_graphdef_read (self, error) : wm_onnx_parse (self, error);
    if (!fault && self->model && self->model->n_functions) {
        fault = wm_onnx_weights (self, &changed, error);
        fault = fault ? fault : wm_onnx_inline (self, error);
        self->gathered = true;
    }
    if (!fault && self->model)
        fault = wm_onnx_weights (self, &changed, error);
    self->gathered |= changed;
    if (fault)
        return fault;
    if (!self->graph || !self->graph->n_node)
        return wm_fault (
            error, WM_EBATCH,
            "%s: not a model: it has no graph (a SavedModel? tf2onnx makes ONNX of it)",
            self->path);
    fault = wm_onnx_collect (self, error);
    if (!fault)
        fault = order_nodes (self, error);
    if (!fault && self->tensorflow)
        wm_graphdef_prune (self);
    if (!fault)
        fault = choose_outputs (self, outputs, error);
    return fault ? fault : drop_unneeded (self, error);
}

/* Adds to the graph's nodes and outputs those that hand the inner values out. 0: no memory.  */
static bool add_inner (wm_onnx_t *self, const char *const *inner, size_t n)
{
    Onnx__GraphProto *g = self->graph;
    Onnx__NodeProto **nodes = wm_arena_take (&self->arena, g->n_node + n, sizeof *nodes);
    Onnx__ValueInfoProto **outputs = wm_arena_take (&self->arena, g->n_output + n, sizeof *outputs),
                         *output = wm_arena_take (&self->arena, n, sizeof *output);
    if (!nodes || !outputs || !output)
        return false;
    memcpy (nodes, g->node, g->n_node * sizeof *nodes);
    memcpy (outputs, g->output, g->n_output * sizeof *outputs);
    for (size_t k = 0; k < n; k++) {
        char *name = wm_arena_take (&self->arena, 32, 1);
        Onnx__NodeProto *node = wm_maker_node (&self->arena, "Identity", name,
                                               (char *) (uintptr_t) inner[k], NULL, NULL);
        if (!name || !node)
            return false;
        snprintf (name, 32, WM_ONNX_INNER, k);
        nodes[g->n_node + k] = node;
        onnx__value_info_proto__init (outputs[g->n_output + k] = &output[k]);
        output[k].name = name;
    }
    g->node = nodes, g->output = outputs;
    g->n_node += n, g->n_output += n;
    return true;
}

wm_fault_t wm_onnx_pack (wm_onnx_t *self, const char *const *inner, size_t n, const void **bytes,
                         size_t *size, wm_error_t *error)
{
    *bytes = self->bytes;
    *size = self->size;
    if (self->graphdef)
        return wm_graphdef_pack (self, inner, n, bytes, size, error);
    Onnx__GraphProto *g = self->graph, whole = *g;
    wm_fault_t fault = wm_onnx_spell (self, error);
    if (fault || (!n && !self->gathered && self->output == g->output && g->node == whole.node))
        return fault;
    g->output = self->output;
    g->n_output = self->n_output;
    const int fine = !n || add_inner (self, inner, n);
    *size = onnx__model_proto__get_packed_size (self->model);
    uint8_t *packed = fine ? wm_arena_take (&self->arena, *size, 1) : NULL;
    if (packed)
        onnx__model_proto__pack (self->model, packed);
    g->output = whole.output; /* what the message owns is freed with it */
    g->n_output = whole.n_output;
    g->node = whole.node;
    g->n_node = whole.n_node;
    *bytes = packed;
    return packed ? WM_OK
                  : wm_fault (error, WM_EHOST, "%s: no memory to put it in one file", self->path);
}

void wm_onnx_clear (wm_onnx_t *self)
{
    if (self->model)
        onnx__model_proto__free_unpacked (self->model, NULL);
    if (self->graphdef)
        graphdef__graph__free_unpacked (self->graphdef, NULL);
    wm_arena_clear (&self->arena);
    if (self->bytes && !self->lent)
        munmap ((void *) self->bytes, self->size);
    free (self->node);
    free (self->value);
    *self = (wm_onnx_t){ 0 };
}
