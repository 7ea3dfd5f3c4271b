/* wm_wide.c - see wm_wide.h.

   Types follow from the graph's inputs, constants and operators; the file need not state those of
   values inside. Like wm_flow.h it visits the nodes of all graphs until nothing new appears.  */
#include "kernels/onnx/wm_wide.h"
#include "kernels/onnx/wm_flow.h"
#include "kernels/onnx/wm_tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXACT 0x1p24 /* integers up to here are float32s */
#define TURNS 64     /* more than graphs lie in each other: the file's depth is bounded */

enum {
    BOOL = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL,
    INT32 = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
    INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
    DOUBLE = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE,
};

typedef struct {
    wm_onnx_t *onnx;
    wm_flow_t flow;
    int *type;     /* (flow.n_value) 0: not known */
    bool *is_wide; /* likewise: an integer that may be above EXACT */
    bool is_new;   /* something was learnt in this turn */
} finder_t;

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_one_of (const char *op, const char *const *list)
{
    for (; *list; list++)
        if (!strcmp (op, *list))
            return true;
    return false;
}

static int by_name (const void *key, const void *value)
{
    return strcmp (key, ((const wm_flow_value_t *) value)->name);
}

/* The index of a value that a node makes, or an input; -1: a constant of the graph, or none.  */
static int64_t find (const finder_t *self, const char *name)
{
    const wm_flow_value_t *value =
        name && *name && self->flow.n_value
            ? bsearch (name, self->flow.value, self->flow.n_value, sizeof *value, by_name)
            : NULL;
    return value ? value - self->flow.value : -1;
}

static const char *input_of (const Onnx__NodeProto *node, size_t k)
{
    return k < node->n_input ? node->input[k] : "";
}

/* Returns the initializer of this name, of any graph; NULL if no graph has one.  */
static const Onnx__TensorProto *constant_of (const finder_t *self, const char *name)
{
    for (size_t g = 0; g < self->flow.n_graph && *name; g++)
        for (size_t i = 0; i < self->flow.graph[g]->n_initializer; i++)
            if (!strcmp (self->flow.graph[g]->initializer[i]->name, name))
                return self->flow.graph[g]->initializer[i];
    return NULL;
}

static int type_of (const finder_t *self, const char *name)
{
    const int64_t v = find (self, name);
    const Onnx__TensorProto *tensor = v < 0 ? constant_of (self, name) : NULL;
    return v >= 0 ? self->type[v] : tensor ? tensor->data_type : 0;
}

static int type_stated (const Onnx__ValueInfoProto *info)
{
    return info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
               ? info->type->tensor_type->elem_type
               : 0;
}

static bool is_fed (const finder_t *self, const char *name)
{
    return wm_flow_bits (&self->flow, name) & WM_FLOW_FED;
}

/* Whether float32 does not hold all integers of a type.  */
static bool is_long (int type)
{
    return type != DOUBLE && wm_exact_each (type) > 1;
}

/* Whether a constant has an integer above EXACT.  */
static bool has_wide (finder_t *self, const Onnx__TensorProto *tensor)
{
    wm_tensor_t found;
    if (!tensor || !is_long (tensor->data_type))
        return false;
    if (!wm_tensor_read (&self->onnx->arena, tensor, &found) || !found.i)
        return true;
    for (size_t k = 0; k < found.n; k++)
        if (found.i[k] > (int64_t) EXACT || found.i[k] < (int64_t) -EXACT)
            return true;
    return false;
}

static bool is_wide (finder_t *self, const char *name)
{
    const int64_t v = find (self, name);
    return v >= 0 ? self->is_wide[v] : has_wide (self, constant_of (self, name));
}

/* ---- what operators make --------------------------------------------------------------------- */

static const char *const truths[] = { "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
                                      "And",   "Or",   "Xor",         "Not",     "IsNaN",
                                      "IsInf", NULL };
/* Their results are places and sizes.  */
static const char *const places[] = { "Shape",  "Size",    "ArgMax",
                                      "ArgMin", "NonZero", "NonMaxSuppression",
                                      NULL };
/* They hand on elements of an input: which ones (a bit each).  */
static const struct {
    const char *op;
    unsigned inputs;
} hands_on[] = { { "Identity", 1 },
                 { "Reshape", 1 },
                 { "Flatten", 1 },
                 { "Squeeze", 1 },
                 { "Unsqueeze", 1 },
                 { "Transpose", 1 },
                 { "Concat", ~0u },
                 { "Slice", 1 },
                 { "Gather", 1 },
                 { "GatherElements", 1 },
                 { "GatherND", 1 },
                 { "Scatter", 5 },
                 { "ScatterElements", 5 },
                 { "ScatterND", 5 },
                 { "Expand", 1 },
                 { "Tile", 1 },
                 { "Split", 1 },
                 { "Pad", 5 },
                 { "Where", 6 },
                 { "OneHot", 4 },
                 { "Dropout", 1 },
                 { "Compress", 1 },
                 { "ReverseSequence", 1 },
                 { "DepthToSpace", 1 },
                 { "SpaceToDepth", 1 },
                 { "Trilu", 1 },
                 { "TopK", 1 },
                 { "If", 0 },
                 { "Loop", 0 },
                 { "Scan", 0 },
                 { "Constant", 0 },
                 { "ConstantOfShape", 0 },
                 { "EyeLike", 0 } };

/* The inputs whose elements a node hands on; false: it computes with them.  */
static bool takes_elements (const char *op, unsigned *inputs)
{
    for (size_t k = 0; k < sizeof hands_on / sizeof *hands_on; k++)
        if (!strcmp (op, hands_on[k].op)) {
            *inputs = hands_on[k].inputs;
            return true;
        }
    return false;
}

/* The inner graph's output that output o of an If, Loop or Scan is.  */
static const char *inner_output (const Onnx__NodeProto *node, size_t graph, size_t o)
{
    size_t seen = 0;
    for (size_t a = 0; a < node->n_attribute; a++) {
        const Onnx__GraphProto *g = node->attribute[a]->g;
        const size_t at = o + !strcmp (wm_onnx_op (node), "Loop"); /* its first one is whether */
        if (g && seen++ == graph)
            return at < g->n_output ? g->output[at]->name : "";
    }
    return "";
}

static int type_made (const finder_t *self, const Onnx__NodeProto *node, size_t o)
{
    const char *op = wm_onnx_op (node);
    const Onnx__AttributeProto *value = wm_onnx_attribute (node, "value");
    const size_t from = !strcmp (op, "Where") || !strcmp (op, "CastLike") || !strcmp (op, "Loop") ||
                                !strcmp (op, "DequantizeLinear")
                            ? 1
                        : !strcmp (op, "OneHot") || !strcmp (op, "QuantizeLinear") ? 2
                                                                                   : 0;
    if (!strcmp (op, "Cast"))
        return (int) wm_onnx_int (node, "to", 0);
    if (is_one_of (op, truths))
        return BOOL;
    if (is_one_of (op, places) ||
        (o > 0 && (strstr (op, "Pool") || !strcmp (op, "TopK") || !strcmp (op, "Unique"))))
        return INT64;
    if (!strcmp (op, "Constant") &&
        (wm_onnx_attribute (node, "value_int") || wm_onnx_attribute (node, "value_ints")))
        return INT64;
    if (!strncmp (op, "Constant", 8))
        return value && value->t ? value->t->data_type : ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    if (!strcmp (op, "MatMulInteger") || !strcmp (op, "ConvInteger"))
        return ONNX__TENSOR_PROTO__DATA_TYPE__INT32;
    if (wm_onnx_attribute (node, "dtype"))
        return (int) wm_onnx_int (node, "dtype", 0);
    const int inner = type_of (self, inner_output (node, 0, o));
    return inner ? inner : type_of (self, input_of (node, from));
}

/* Whether a value is a truth value that became a number.  */
static bool is_bit (const finder_t *self, const char *name)
{
    const int64_t v = wm_onnx_find (self->onnx, name);
    const Onnx__NodeProto *node = v < 0 ? NULL : self->onnx->value[v].node;
    return node && !strcmp (wm_onnx_op (node), "Cast") &&
           type_of (self, input_of (node, 0)) == BOOL;
}

/* Whether a node's result of whole numbers may be above EXACT where no input is.  */
static bool grows (const finder_t *self, const Onnx__NodeProto *node)
{
    static const char *const little[] = { "Add",  "Sub",  "CumSum",    "ReduceSum",
                                          "Neg",  "Abs",  "Div",       "Mod",
                                          "Max",  "Min",  "ReduceMax", "ReduceMin",
                                          "Sign", "Clip", "Range",     NULL };
    const char *op = wm_onnx_op (node);
    unsigned inputs;
    if (!strcmp (op, "Cast") || !strcmp (op, "CastLike"))
        return wm_type_is_real (type_of (self, input_of (node, 0)));
    if (!strcmp (op, "Mul") &&
        (is_bit (self, input_of (node, 0)) || is_bit (self, input_of (node, 1))))
        return false;
    return !is_one_of (op, little) && !is_one_of (op, places) && !takes_elements (op, &inputs);
}

/* Whether output o of the node, of a long type, may be above EXACT.  */
static bool makes_wide (finder_t *self, const Onnx__NodeProto *node, size_t o)
{
    const char *op = wm_onnx_op (node);
    unsigned inputs = ~0u;
    const Onnx__AttributeProto *value = wm_onnx_attribute (node, "value");
    if (is_one_of (op, places) || (o > 0 && !strcmp (op, "TopK")))
        return false;
    if (value && value->t)
        return has_wide (self, value->t);
    for (size_t g = 0; g < 2; g++)
        if (is_wide (self, inner_output (node, g, o)))
            return true;
    takes_elements (op, &inputs);
    for (size_t k = 0; k < node->n_input; k++)
        if (inputs >> (k < 31 ? k : 31) & 1 && is_wide (self, node->input[k]))
            return true;
    return grows (self, node);
}

static void learn (finder_t *self, const char *name, int type, bool wide)
{
    const int64_t v = find (self, name);
    if (v < 0)
        return;
    self->is_new |= (type && !self->type[v]) || (wide && !self->is_wide[v]);
    self->type[v] = self->type[v] ? self->type[v] : type;
    self->is_wide[v] |= wide;
}

/* What a Loop or a Scan begins with, and what a Loop's turn hands to the next.  */
static void enter (finder_t *self, const Onnx__NodeProto *node)
{
    const Onnx__AttributeProto *body = wm_onnx_attribute (node, "body");
    const Onnx__GraphProto *g = body ? body->g : NULL;
    const bool turns = !strcmp (wm_onnx_op (node), "Loop");
    for (size_t k = 0; g && k < g->n_input && k < node->n_input; k++) {
        const bool again = turns && k >= 2 && k - 1 < g->n_output;
        learn (self, g->input[k]->name, type_of (self, node->input[k]),
               is_wide (self, node->input[k]) || (again && is_wide (self, g->output[k - 1]->name)));
    }
}

static void visit (finder_t *self, const Onnx__NodeProto *node)
{
    enter (self, node);
    for (size_t o = 0; o < node->n_output; o++) {
        const int type = type_made (self, node, o);
        learn (self, node->output[o], type, is_long (type) && makes_wide (self, node, o));
    }
}

/* ---- where it matters ------------------------------------------------------------------------ */

/* Whether a node computes with values that it reads, in a type that OpenVINO has not; *type.  */
static bool computes (finder_t *self, const Onnx__NodeProto *node, int *type)
{
    const char *op = wm_onnx_op (node);
    const bool compares = is_one_of (op, truths);
    unsigned inputs;
    for (size_t k = 0; k < node->n_input; k++) {
        *type = type_of (self, node->input[k]);
        if (*type == DOUBLE && is_fed (self, node->input[k]))
            return true;
        if (!is_long (*type) || !is_wide (self, node->input[k]))
            continue;
        if (compares) { /* numbers of a patch are float32s, constants need not be */
            if (!is_fed (self, node->input[k]) && is_fed (self, input_of (node, 1 - k)))
                return true;
            continue;
        }
        if (!is_fed (self, node->input[k]))
            continue;
        const int to = type_made (self, node, 0); /* a real one: it looks up, or rounds */
        const bool is_cast = !strcmp (op, "Cast") && (to == INT32 || to == INT64);
        if (!is_cast && to != BOOL && !(to && wm_type_is_real (to)) &&
            !takes_elements (op, &inputs) && !is_one_of (op, places))
            return true;
    }
    for (size_t o = 0; o < node->n_output; o++) {
        *type = type_of (self, node->output[o]);
        if (!is_fed (self, node->output[o]) || takes_elements (op, &inputs))
            continue;
        if (*type == DOUBLE || (is_long (*type) && grows (self, node)))
            return true;
    }
    return false;
}

static const char *name_of (int type)
{
    return type == DOUBLE                                  ? "FP64"
           : type == INT64                                 ? "INT64"
           : type == INT32                                 ? "INT32"
           : type == ONNX__TENSOR_PROTO__DATA_TYPE__UINT32 ? "UINT32"
                                                           : "UINT64";
}

static void say (finder_t *self, char text[WM_WIDE_TEXT])
{
    int type = 0;
    for (size_t i = 0; i < self->onnx->n_node; i++) {
        const Onnx__NodeProto *node = self->onnx->node[i];
        if (computes (self, node, &type)) {
            snprintf (text, WM_WIDE_TEXT, "node '%.100s' (%.60s: %s)", wm_onnx_node_name (node),
                      wm_onnx_op (node), name_of (type));
            return;
        }
    }
    for (size_t g = 1; g < self->flow.n_graph; g++)
        for (size_t i = 0; i < self->flow.graph[g]->n_node; i++) {
            const Onnx__NodeProto *node = self->flow.graph[g]->node[i];
            if (computes (self, node, &type)) {
                snprintf (text, WM_WIDE_TEXT, "node '%.100s' (%.60s: %s)", wm_onnx_node_name (node),
                          wm_onnx_op (node), name_of (type));
                return;
            }
        }
    for (size_t o = 0; o < self->onnx->n_output; o++) {
        const char *name = self->onnx->output[o]->name;
        type = type_of (self, name);
        if (is_fed (self, name) && (type == DOUBLE || (is_long (type) && is_wide (self, name)))) {
            snprintf (text, WM_WIDE_TEXT, "output '%.128s' (%s)", name, name_of (type));
            return;
        }
    }
}

wm_fault_t wm_wide_find (wm_onnx_t *onnx, const wm_port_t *input, uint32_t n_input,
                         char text[WM_WIDE_TEXT], wm_error_t *error)
{
    finder_t self = { .onnx = onnx, .is_new = true };
    *text = 0;
    if (onnx->graphdef)
        return WM_OK;
    if (wm_flow_find (&self.flow, onnx, input, n_input, error))
        return error->fault;
    self.type = wm_arena_take (&onnx->arena, self.flow.n_value + 1, sizeof *self.type);
    self.is_wide = wm_arena_take (&onnx->arena, self.flow.n_value + 1, sizeof *self.is_wide);
    if (!self.type || !self.is_wide)
        return wm_fault (error, WM_EHOST, "%s: no memory to follow its types", onnx->path);
    for (size_t g = 0; g < self.flow.n_graph; g++)
        for (size_t i = 0; i < self.flow.graph[g]->n_input; i++) {
            const int type = type_stated (self.flow.graph[g]->input[i]);
            learn (&self, self.flow.graph[g]->input[i]->name, type, !g && is_long (type));
        }
    for (int turn = 0; turn < TURNS && self.is_new; turn++) {
        self.is_new = false;
        for (size_t i = 0; i < onnx->n_node; i++)
            visit (&self, onnx->node[i]);
        for (size_t g = 1; g < self.flow.n_graph; g++)
            for (size_t i = 0; i < self.flow.graph[g]->n_node; i++)
                visit (&self, self.flow.graph[g]->node[i]);
    }
    say (&self, text);
    return WM_OK;
}
