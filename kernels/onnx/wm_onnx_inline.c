/* wm_onnx_inline.c - replaces calls of a model's own functions by the nodes of their bodies.

   PyTorch's dynamo exporter and onnxscript write them (ModelProto.functions). A call's nodes are
   copied from the body: its inputs and outputs get the call's names, all other names a prefix that
   occurs nowhere in the file, attributes by reference the call's values or the function's defaults.
   Bodies may call functions and hold graphs (Loop, If, Scan), and so may the model's own.

   The file is not trusted: how many calls lie within each other, and how much is copied, have
   bounds. Copies are messages of their own, which the model owns.  */
#include "kernels/onnx/wm_onnx.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_order.h"
#include "schema/wm_limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 32u
#define NODES_MAX 200000u     /* that are copied, calls among them; real models stay below 1e5 */
#define BYTES_MAX (32u << 20) /* ... without their tensors' data */
#define IMPORTS_MAX 64u       /* operator sets of a function, or a model */

/* A name in a body, and what it becomes; NULL: the prefix of the call, and itself.  */
typedef struct {
    const char *from, *to;
} pair_t;

typedef struct scope_t {
    const struct scope_t *outer;
    pair_t *pair; /* (n), sorted by `from` */
    size_t n;
} scope_t;

/* A call that is being replaced.  */
typedef struct frame_t {
    const struct frame_t *outer; /* the call whose body it lies in */
    const Onnx__FunctionProto *function;
    const Onnx__NodeProto *node;
    unsigned depth;
    char prefix[64];
} frame_t;

typedef struct {
    wm_onnx_t *onnx;
    Onnx__FunctionProto **function; /* (n_functions), sorted; checked[k]: its operator sets are */
    bool *checked;
    char base[32]; /* how every prefix begins */
    size_t n_call, n_node;
    uint64_t n_byte, n_data;
    wm_error_t *error;
    wm_fault_t fault;
} inliner_t;

typedef struct {
    Onnx__NodeProto **node;
    size_t n, max;
} list_t;

static const char *domain_of (const char *domain)
{
    return strcmp (wm_onnx_text (domain), "ai.onnx") ? wm_onnx_text (domain) : "";
}

static bool no_memory (inliner_t *self)
{
    self->fault =
        wm_fault (self->error, WM_EHOST, "%s: no memory for its functions", self->onnx->path);
    return false;
}

/* Refuses the model because of a function. Returns false.  */
static bool refuse (inliner_t *self, const Onnx__FunctionProto *function, const char *what,
                    const char *name, const char *then)
{
    self->fault = wm_fault (self->error, WM_EBATCH, "%s: function '%.80s.%.80s' %s '%.100s'%s",
                            self->onnx->path, wm_onnx_text (function->domain),
                            wm_onnx_text (function->name), what, name, then);
    return false;
}

/* ---- functions ------------------------------------------------------------------------------- */

static int by_key (const void *a, const void *b)
{
    const Onnx__FunctionProto *f = *(Onnx__FunctionProto *const *) a,
                              *g = *(Onnx__FunctionProto *const *) b;
    int order = strcmp (domain_of (f->domain), domain_of (g->domain));
    order = order ? order : strcmp (wm_onnx_text (f->name), wm_onnx_text (g->name));
    return order ? order : strcmp (wm_onnx_text (f->overload), wm_onnx_text (g->overload));
}

/* The function that a node calls, by its place among those sorted; -1: none.  */
static int64_t called (const inliner_t *self, const Onnx__NodeProto *node)
{
    Onnx__FunctionProto key = ONNX__FUNCTION_PROTO__INIT, *key_p = &key;
    key.domain = node->domain, key.name = node->op_type, key.overload = node->overload;
    Onnx__FunctionProto **found =
        bsearch (&key_p, self->function, self->onnx->model->n_functions, sizeof *found, by_key);
    return found ? found - self->function : -1;
}

/* The version that a list imports of a domain; NULL: none.  */
static const Onnx__OperatorSetIdProto *import_of (Onnx__OperatorSetIdProto *const *list, size_t n,
                                                  const char *domain)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp (domain_of (list[i]->domain), domain_of (domain)))
            return list[i];
    return NULL;
}

static ProtobufCMessage *copy (inliner_t *self, const ProtobufCMessage *message);

/* Adds an operator set that only a function imports to the model's.  */
static bool add_import (inliner_t *self, const Onnx__OperatorSetIdProto *import)
{
    Onnx__ModelProto *model = self->onnx->model;
    Onnx__OperatorSetIdProto **list =
        realloc (model->opset_import, (model->n_opset_import + 1) * sizeof *list);
    if (!list)
        return no_memory (self);
    model->opset_import = list;
    list[model->n_opset_import] = (Onnx__OperatorSetIdProto *) copy (self, &import->base);
    if (!list[model->n_opset_import])
        return false;
    model->n_opset_import++;
    return true;
}

/* Checks that nodes of a body mean the same among the model's operators.  */
static bool check_sets (inliner_t *self, const Onnx__FunctionProto *function,
                        Onnx__NodeProto *const *node, size_t n)
{
    const Onnx__ModelProto *model = self->onnx->model;
    for (size_t i = 0; i < n; i++) {
        const Onnx__OperatorSetIdProto *its = import_of (function->opset_import,
                                                         function->n_opset_import, node[i]->domain),
                                       *ours = import_of (model->opset_import,
                                                          model->n_opset_import, node[i]->domain);
        for (size_t a = 0; a < node[i]->n_attribute; a++) {
            const Onnx__GraphProto *g = node[i]->attribute[a]->g;
            if (g && !check_sets (self, function, g->node, g->n_node))
                return false;
        }
        if (called (self, node[i]) >= 0 || !its)
            continue;
        if (ours && ours->version != its->version) {
            char then[160];
            snprintf (then, sizeof then,
                      " of operator set %lld, the model of %lld: export both for the same, or "
                      "inline it by onnx.inliner",
                      (long long) its->version, (long long) ours->version);
            return refuse (self, function, "has operator", wm_onnx_op (node[i]), then);
        }
        if (!ours && !add_import (self, its))
            return false;
    }
    return true;
}

/* Checks a function that is called, once.  */
static bool check (inliner_t *self, int64_t f)
{
    const Onnx__FunctionProto *function = self->function[f];
    if (self->checked[f])
        return true;
    self->checked[f] = true;
    if (!*domain_of (function->domain))
        return refuse (self, function, "has the name of ONNX's own operator",
                       wm_onnx_text (function->name),
                       ", and which of the two is meant is not known: give it a domain of its own");
    if (function->n_opset_import > IMPORTS_MAX)
        return refuse (self, function,
                       "imports too many operator sets:", wm_onnx_text (function->name),
                       ": a damaged model");
    return check_sets (self, function, function->node, function->n_node);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void count (const Onnx__NodeProto *node, size_t *n_node, uint64_t *n_data);

/* Counts the nodes of an attribute's graph, and the bytes of its tensors' data.  */
static void count_attribute (const Onnx__AttributeProto *a, size_t *n_node, uint64_t *n_data)
{
    const Onnx__GraphProto *g = a->g;
    *n_data += a->t && a->t->has_raw_data ? a->t->raw_data.len : 0;
    for (size_t i = 0; g && i < g->n_initializer; i++)
        *n_data += g->initializer[i]->has_raw_data ? g->initializer[i]->raw_data.len : 0;
    for (size_t i = 0; g && i < g->n_node; i++)
        count (g->node[i], n_node, n_data);
}

static void count (const Onnx__NodeProto *node, size_t *n_node, uint64_t *n_data)
{
    ++*n_node;
    for (size_t a = 0; a < node->n_attribute; a++)
        count_attribute (node->attribute[a], n_node, n_data);
}

/* Copies a message. NULL, and the fault is set: too much, or no memory.  */
static ProtobufCMessage *copy (inliner_t *self, const ProtobufCMessage *message)
{
    const size_t size = protobuf_c_message_get_packed_size (message);
    uint64_t n_data = 0;
    if (message->descriptor == &onnx__node_proto__descriptor)
        count ((const Onnx__NodeProto *) message, &self->n_node, &n_data);
    else if (message->descriptor == &onnx__attribute_proto__descriptor)
        count_attribute ((const Onnx__AttributeProto *) message, &self->n_node, &n_data);
    self->n_byte += size - (n_data < size ? n_data : size);
    self->n_data += n_data;
    if (self->n_node > NODES_MAX || self->n_byte > BYTES_MAX || self->n_data > WM_MODEL_BYTES_MAX) {
        self->fault = wm_fault (self->error, WM_EBATCH,
                                "%s: its functions have more than %u nodes, or %u MiB, where they "
                                "are called: a hostile model, or export it without functions",
                                self->onnx->path, NODES_MAX, BYTES_MAX >> 20);
        return NULL;
    }
    uint8_t *bytes = malloc (size + 1);
    ProtobufCMessage *made = NULL;
    if (bytes) {
        protobuf_c_message_pack (message, bytes);
        made = protobuf_c_message_unpack (message->descriptor, NULL, size, bytes);
    }
    free (bytes);
    if (!made)
        no_memory (self);
    return made;
}

static bool append (inliner_t *self, list_t *list, Onnx__NodeProto *node)
{
    if (!wm_grow (&list->node, &list->max, list->n + 1, sizeof *list->node)) {
        onnx__node_proto__free_unpacked (node, NULL);
        return no_memory (self);
    }
    list->node[list->n++] = node;
    return true;
}

/* Sets a text of a message.  */
static bool set (inliner_t *self, char **to, const char *prefix, const char *between,
                 const char *name)
{
    const size_t n = strlen (prefix) + strlen (between) + strlen (name) + 1;
    char *made = malloc (n);
    if (!made)
        return no_memory (self);
    snprintf (made, n, "%s%s%s", prefix, between, name);
    free (*to);
    *to = made;
    return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

WM_ORDER_BY_TEXT (by_from, pair_t, from)

static const pair_t *find (const scope_t *scope, const char *name)
{
    const pair_t key = { .from = name }, *found = NULL;
    for (; scope && !found; scope = scope->outer)
        found = scope->n ? bsearch (&key, scope->pair, scope->n, sizeof key, by_from) : NULL;
    return found;
}

static void sort_scope (scope_t *scope)
{
    qsort (scope->pair, scope->n, sizeof *scope->pair, by_from);
}

static void add_name (scope_t *scope, const char *from, const char *to)
{
    if (*wm_onnx_text (from))
        scope->pair[scope->n++] = (pair_t){ from, to };
}

static size_t count_outputs (Onnx__NodeProto *const *node, size_t n)
{
    size_t n_output = 0;
    for (size_t i = 0; i < n; i++)
        n_output += node[i]->n_output;
    return n_output;
}

/* Gives a name that a body reads its new one.  */
static bool rename_one (inliner_t *self, const frame_t *frame, const scope_t *scope, char **name)
{
    if (!*wm_onnx_text (*name))
        return true;
    const pair_t *pair = find (scope, *name);
    if (!pair)
        return refuse (self, frame->function, "reads", *name, ", which nothing in it makes");
    return pair->to ? set (self, name, pair->to, "", "")
                    : set (self, name, frame->prefix, "", pair->from);
}

static bool rename_graph (inliner_t *self, const frame_t *frame, const scope_t *outer,
                          Onnx__GraphProto *g);

/* Gives an attribute by reference its value. *gone: neither the call nor the function has one, so
   the operator's own default counts.  */
static bool resolve (inliner_t *self, const frame_t *frame, Onnx__AttributeProto **attribute,
                     bool *gone)
{
    const Onnx__FunctionProto *function = frame->function;
    const char *name = (*attribute)->ref_attr_name;
    const Onnx__AttributeProto *value = wm_onnx_attribute (frame->node, name);
    for (size_t i = 0; !value && i < function->n_attribute_proto; i++)
        if (!strcmp (wm_onnx_text (function->attribute_proto[i]->name), name))
            value = function->attribute_proto[i];
    *gone = !value;
    if (!value)
        return true;
    if (value->has_type && (*attribute)->has_type && (*attribute)->type &&
        value->type != (*attribute)->type)
        return refuse (self, function, "is called with another type of attribute", name,
                       " than it has: a damaged model");
    Onnx__AttributeProto *made = (Onnx__AttributeProto *) copy (self, &value->base);
    if (!made)
        return false;
    if (!set (self, &made->name, wm_onnx_text ((*attribute)->name), "", "")) {
        onnx__attribute_proto__free_unpacked (made, NULL);
        return false;
    }
    onnx__attribute_proto__free_unpacked (*attribute, NULL);
    *attribute = made;
    return true;
}

/* What comes of the call keeps the call's names: only the body's own graphs are renamed.  */
static bool rename_attributes (inliner_t *self, const frame_t *frame, const scope_t *scope,
                               Onnx__NodeProto *node)
{
    size_t n = 0;
    bool fine = true;
    for (size_t a = 0; a < node->n_attribute; a++) {
        Onnx__AttributeProto *one = node->attribute[a];
        bool gone = false;
        if (fine && *wm_onnx_text (one->ref_attr_name))
            fine = resolve (self, frame, &one, &gone);
        else {
            for (size_t g = 0; g < one->n_graphs && fine; g++)
                fine = rename_graph (self, frame, scope, one->graphs[g]);
            fine = fine && (!one->g || rename_graph (self, frame, scope, one->g));
        }
        if (gone)
            onnx__attribute_proto__free_unpacked (one, NULL);
        else
            node->attribute[n++] = one;
    }
    node->n_attribute = n;
    return fine;
}

static bool rename_node (inliner_t *self, const frame_t *frame, const scope_t *scope,
                         Onnx__NodeProto *node)
{
    bool fine =
        set (self, &node->name, wm_onnx_node_name (frame->node), "/", wm_onnx_node_name (node));
    for (size_t k = 0; k < node->n_input && fine; k++)
        fine = rename_one (self, frame, scope, &node->input[k]);
    for (size_t k = 0; k < node->n_output && fine; k++)
        fine = rename_one (self, frame, scope, &node->output[k]);
    return fine && rename_attributes (self, frame, scope, node);
}

static bool rename_infos (inliner_t *self, const frame_t *frame, const scope_t *scope,
                          Onnx__ValueInfoProto **info, size_t n)
{
    bool fine = true;
    for (size_t i = 0; i < n && fine; i++)
        fine = rename_one (self, frame, scope, &info[i]->name);
    return fine;
}

static bool rename_all (inliner_t *self, const frame_t *frame, const scope_t *scope,
                        Onnx__GraphProto *g)
{
    bool fine = rename_infos (self, frame, scope, g->input, g->n_input) &&
                rename_infos (self, frame, scope, g->output, g->n_output);
    for (size_t i = 0; i < g->n_value_info; i++) /* of no use to us */
        onnx__value_info_proto__free_unpacked (g->value_info[i], NULL);
    g->n_value_info = 0;
    for (size_t i = 0; i < g->n_initializer && fine; i++)
        fine = rename_one (self, frame, scope, &g->initializer[i]->name);
    for (size_t i = 0; i < g->n_node && fine; i++)
        fine = rename_node (self, frame, scope, g->node[i]);
    return fine;
}

/* Renames a graph inside a body's node, whose own names are local to the call, too.  */
static bool rename_graph (inliner_t *self, const frame_t *frame, const scope_t *outer,
                          Onnx__GraphProto *g)
{
    const size_t most = g->n_input + g->n_initializer + count_outputs (g->node, g->n_node) + 1;
    scope_t scope = { outer, calloc (most, sizeof *scope.pair), 0 };
    char **name = calloc (most, sizeof *name); /* those of the graph change */
    bool fine = scope.pair && name ? true : no_memory (self);
    for (size_t i = 0; fine && i < g->n_input; i++)
        add_name (&scope, g->input[i]->name, NULL);
    for (size_t i = 0; fine && i < g->n_initializer; i++)
        add_name (&scope, g->initializer[i]->name, NULL);
    for (size_t i = 0; fine && i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_output; k++)
            add_name (&scope, g->node[i]->output[k], NULL);
    for (size_t i = 0; fine && i < scope.n; i++) {
        scope.pair[i].from = name[i] = strdup (scope.pair[i].from);
        fine = name[i] ? true : no_memory (self);
    }
    if (fine)
        sort_scope (&scope);
    fine = fine && rename_all (self, frame, &scope, g);
    for (size_t i = 0; name && i < most; i++)
        free (name[i]);
    free (name);
    free (scope.pair);
    return fine;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static bool expand (inliner_t *self, Onnx__NodeProto **node, size_t n, const frame_t *frame,
                    list_t *out);

/* The names of a body: inputs are the call's, outputs that nodes make too, once.  */
static bool open_scope (inliner_t *self, const frame_t *frame, scope_t *scope)
{
    const Onnx__FunctionProto *f = frame->function;
    const Onnx__NodeProto *call = frame->node;
    scope_t out = { .pair = calloc (f->n_output + 1, sizeof *out.pair) };
    bool fine = true;
    scope->pair = calloc (f->n_input + count_outputs (f->node, f->n_node) + 1, sizeof *scope->pair);
    if (!scope->pair || !out.pair) {
        free (out.pair);
        return no_memory (self);
    }
    for (size_t o = 0; o < f->n_output && o < call->n_output; o++)
        if (*call->output[o])
            add_name (&out, f->output[o], call->output[o]);
    sort_scope (&out);
    for (size_t i = 0; i < f->n_input; i++)
        add_name (scope, f->input[i], i < call->n_input ? call->input[i] : "");
    for (size_t i = 0; i < f->n_node; i++)
        for (size_t k = 0; k < f->node[i]->n_output; k++) {
            const pair_t *pair = find (&out, f->node[i]->output[k]);
            add_name (scope, f->node[i]->output[k], pair ? pair->to : NULL);
        }
    sort_scope (scope);
    for (size_t i = 1; i < scope->n && fine; i++)
        if (!by_from (&scope->pair[i - 1], &scope->pair[i]))
            fine = refuse (self, f, "defines", scope->pair[i].from, " twice: a damaged model");
    free (out.pair);
    return fine;
}

/* Appends Identity for an output that is an input, or another output.  */
static bool hand_out (inliner_t *self, const frame_t *frame, const scope_t *scope, size_t o,
                      list_t *body)
{
    const Onnx__FunctionProto *f = frame->function;
    char *names[] = { f->output[o], frame->node->output[o] };
    const pair_t *pair = find (scope, names[0]);
    if (!pair || (pair->to && !*pair->to))
        return refuse (self, f, "has an output", names[0],
                       pair ? ", an input that is left out where it is called"
                            : ", which nothing in it makes: a damaged model");
    Onnx__NodeProto identity = ONNX__NODE_PROTO__INIT;
    identity.op_type = (char *) (uintptr_t) "Identity";
    identity.input = &names[0], identity.output = &names[1];
    identity.n_input = identity.n_output = 1;
    Onnx__NodeProto *made = (Onnx__NodeProto *) copy (self, &identity.base);
    return made && append (self, body, made) && rename_one (self, frame, scope, &made->input[0]);
}

static bool copy_body (inliner_t *self, const frame_t *frame, list_t *body)
{
    const Onnx__FunctionProto *f = frame->function;
    const Onnx__NodeProto *call = frame->node;
    scope_t scope = { .outer = NULL };
    bool fine = open_scope (self, frame, &scope);
    for (size_t i = 0; i < f->n_node && fine; i++) {
        Onnx__NodeProto *node = (Onnx__NodeProto *) copy (self, &f->node[i]->base);
        fine = node && append (self, body, node) && rename_node (self, frame, &scope, node);
    }
    for (size_t o = 0; o < call->n_output && fine; o++) {
        const char *name = o < f->n_output ? f->output[o] : "";
        const pair_t *pair = find (&scope, name);
        if (*call->output[o] && (!pair || pair->to != call->output[o]))
            fine = o < f->n_output ? hand_out (self, frame, &scope, o, body)
                                   : refuse (self, f, "has too few outputs for",
                                             wm_onnx_node_name (call), ": a damaged model");
    }
    free (scope.pair);
    return fine;
}

/* Replaces a call.  */
static bool expand_call (inliner_t *self, const Onnx__NodeProto *call, int64_t f,
                         const frame_t *outer, list_t *out)
{
    frame_t frame = { .outer = outer,
                      .function = self->function[f],
                      .node = call,
                      .depth = outer ? outer->depth + 1 : 1 };
    list_t body = { .n = 0 };
    snprintf (frame.prefix, sizeof frame.prefix, "%s%zu|", self->base, self->n_call++);
    for (const frame_t *one = outer; one; one = one->outer)
        if (one->function == frame.function)
            return refuse (self, frame.function, "calls itself at node", wm_onnx_node_name (call),
                           ", which ONNX does not allow");
    if (frame.depth > DEPTH_MAX)
        return refuse (self, frame.function, "is called at node", wm_onnx_node_name (call),
                       ", too deep within others: export the model without functions");
    if (call->n_input > frame.function->n_input)
        return refuse (self, frame.function, "has fewer inputs than its call",
                       wm_onnx_node_name (call), ": a damaged model");
    bool fine = check (self, f) && copy_body (self, &frame, &body);
    if (fine)
        fine = expand (self, body.node, body.n, &frame, out);
    else
        for (size_t i = 0; i < body.n; i++)
            onnx__node_proto__free_unpacked (body.node[i], NULL);
    free (body.node);
    return fine;
}

/* Replaces the calls in a graph.  */
static bool expand_graph (inliner_t *self, Onnx__GraphProto *g, const frame_t *frame)
{
    list_t out = { .n = 0 };
    const bool fine = expand (self, g->node, g->n_node, frame, &out);
    free (g->node);
    g->node = out.node, g->n_node = out.n;
    return fine;
}

/* Moves nodes to the end of `out`, with calls replaced. All are moved or freed, also on a
   fault.  */
static bool expand (inliner_t *self, Onnx__NodeProto **node, size_t n, const frame_t *frame,
                    list_t *out)
{
    bool fine = true;
    for (size_t i = 0; i < n; i++) {
        const int64_t f = fine ? called (self, node[i]) : -1;
        for (size_t a = 0; a < node[i]->n_attribute && fine; a++) {
            Onnx__AttributeProto *one = node[i]->attribute[a];
            fine = !one->g || expand_graph (self, one->g, frame);
            for (size_t g = 0; g < one->n_graphs && fine; g++)
                fine = expand_graph (self, one->graphs[g], frame);
        }
        if (f < 0 && fine) {
            fine = append (self, out, node[i]);
            continue;
        }
        fine = fine && expand_call (self, node[i], f, frame, out);
        onnx__node_proto__free_unpacked (node[i], NULL);
    }
    return fine;
}

/* ---- together -------------------------------------------------------------------------------- */

/* Drops functions, and the operator sets of their domains, which no node is of any more.  */
static void drop_functions (Onnx__ModelProto *model)
{
    size_t n = 0;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        Onnx__OperatorSetIdProto *one = model->opset_import[i];
        bool is_theirs = false;
        for (size_t k = 0; *domain_of (one->domain) && k < model->n_functions && !is_theirs; k++)
            is_theirs = !strcmp (one->domain, wm_onnx_text (model->functions[k]->domain));
        if (is_theirs)
            onnx__operator_set_id_proto__free_unpacked (one, NULL);
        else
            model->opset_import[n++] = one;
    }
    model->n_opset_import = n;
    for (size_t k = 0; k < model->n_functions; k++)
        onnx__function_proto__free_unpacked (model->functions[k], NULL);
    free (model->functions);
    model->functions = NULL;
    model->n_functions = 0;
}

wm_fault_t wm_onnx_inline (wm_onnx_t *onnx, wm_error_t *error)
{
    Onnx__ModelProto *model = onnx->model;
    const size_t n = model->n_functions;
    inliner_t self = { .onnx = onnx,
                       .base = "wm|f",
                       .error = error,
                       .function = wm_arena_take (&onnx->arena, n + 1, sizeof *self.function),
                       .checked = wm_arena_take (&onnx->arena, n + 1, sizeof *self.checked) };
    if (!n || !model->graph)
        return WM_OK;
    if (!self.function || !self.checked)
        no_memory (&self);
    while (!self.fault && memmem (onnx->bytes, onnx->size, self.base, strlen (self.base)))
        if (strlen (self.base) < sizeof self.base - 1)
            strcat (self.base, "|");
        else
            self.fault =
                wm_fault (error, WM_EBATCH, "%s: too many names begin with %s: rename them",
                          onnx->path, self.base);
    if (!self.fault) {
        memcpy (self.function, model->functions, n * sizeof *self.function);
        qsort (self.function, n, sizeof *self.function, by_key);
    }
    for (size_t k = 1; k < n && !self.fault; k++)
        if (!by_key (&self.function[k - 1], &self.function[k]))
            refuse (&self, self.function[k],
                    "is defined twice:", wm_onnx_text (self.function[k]->name),
                    ": a damaged model");
    if (!self.fault && model->n_opset_import > IMPORTS_MAX)
        self.fault = wm_fault (error, WM_EBATCH,
                               "%s: imports too many operator sets: a damaged "
                               "model",
                               onnx->path);
    if (!self.fault && expand_graph (&self, model->graph, NULL))
        drop_functions (model);
    return self.fault;
}
