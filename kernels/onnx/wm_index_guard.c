/* wm_index_guard.c - see wm_index_guard.h.

   Values that are made here are found again by what they are and of what, so that places share
   them: a graph neural network reads many tables by the same indices. All are int64, which
   OpenVINO's CPU plugin computes in 32 bits; what these cannot hold becomes -2^31, outside of every
   table.  */
#include "kernels/onnx/wm_index_guard.h"
#include "kernels/onnx/wm_flow.h"
#include "kernels/onnx/wm_maker.h"
#include "kernels/onnx/wm_nan.h"
#include "kernels/onnx/wm_tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 3u     /* of a place */
#define WIDE (1 << 30) /* no dimension is larger */
#define FAR (1 << 20)

/* How an operator uses an input.  */
typedef enum {
    INDEX,   /* indices along the axis of input 0 */
    CELL,    /* the same; of other dimensions it, and input 2, must not have more than input 0 */
    TUPLE,   /* indices of several dimensions of input 0, along its last dimension */
    STEPS,   /* numbers of steps, from 0 to those of input 0 */
    AMOUNT,  /* numbers of things, from 0 */
    PADS,    /* what is added at both ends of all dimensions; at most all is taken away */
    CHOICE,  /* truth values; those behind the end of input 0 do not count, and are cut off */
    HIDDEN,  /* indices that cannot be guarded */
    CORNERS, /* scales of a Resize */
    LOST,    /* what it makes a number of, where it is NaN */
    DOUBT    /* what it may make NaN, where it is infinite */
} use_t;

static const struct {
    const char *op;
    uint8_t input;
    use_t use;
} rules[] = {
    { "ATen", 1, HIDDEN },
    { "Compress", 1, CHOICE },
    { "GRU", 4, STEPS },
    { "Gather", 1, INDEX },
    { "GatherElements", 1, INDEX },
    { "GatherND", 1, TUPLE },
    { "LSTM", 4, STEPS },
    { "NegativeLogLikelihoodLoss", 1, HIDDEN },
    { "Pad", 1, PADS },
    { "RNN", 4, STEPS },
    { "RotaryEmbedding", 3, HIDDEN },
    { "Scatter", 1, CELL },
    { "ScatterElements", 1, CELL },
    { "ScatterND", 1, TUPLE },
    { "SequenceAt", 1, HIDDEN },
    { "SequenceErase", 1, HIDDEN },
    { "SequenceInsert", 2, HIDDEN },
    { "SoftmaxCrossEntropyLoss", 1, HIDDEN },
    { "Split", 1, AMOUNT },
    { "TensorScatter", 2, HIDDEN },
    { "Tile", 1, AMOUNT },
};
#define RULES (sizeof rules / sizeof *rules)

/* Operators of TensorFlow that take indices, or run functions in which such may be.  */
static const char *const frozen[] = { "Bincount",
                                      "Case",
                                      "CropAndResize",
                                      "DenseBincount",
                                      "DynamicStitch",
                                      "EmbeddingLookup",
                                      "Gather",
                                      "GatherNd",
                                      "GatherV2",
                                      "If",
                                      "InvertPermutation",
                                      "ParallelDynamicStitch",
                                      "PartitionedCall",
                                      "ResourceGather",
                                      "ResourceGatherNd",
                                      "ReverseSequence",
                                      "ScatterNd",
                                      "ScatterNdNonAliasingAdd",
                                      "SegmentMax",
                                      "SegmentMean",
                                      "SegmentMin",
                                      "SegmentProd",
                                      "SegmentSum",
                                      "SparseSegmentMean",
                                      "SparseSegmentSqrtN",
                                      "SparseSegmentSum",
                                      "SparseToDense",
                                      "StatefulPartitionedCall",
                                      "StatelessIf",
                                      "StatelessWhile",
                                      "TensorArrayGatherV3",
                                      "TensorArrayReadV3",
                                      "TensorArrayScatterV3",
                                      "TensorArrayWriteV3",
                                      "TensorListGetItem",
                                      "TensorListSetItem",
                                      "TensorScatterAdd",
                                      "TensorScatterMax",
                                      "TensorScatterMin",
                                      "TensorScatterSub",
                                      "TensorScatterUpdate",
                                      "UnsortedSegmentMax",
                                      "UnsortedSegmentMin",
                                      "UnsortedSegmentProd",
                                      "UnsortedSegmentSum",
                                      "While" };

typedef struct {
    use_t use;
    char op[24], node[64], input[64];
} place_t;

struct wm_index_guard_t {
    place_t *place; /* (n_place) */
    size_t n_place;
    uint8_t *bytes; /* of the changed file */
    size_t size;
};

typedef struct {
    wm_onnx_t onnx;
    wm_flow_t flow;
    wm_maker_t maker; /* of the changed graph */
    char **number;    /* (NUMBERS n_place) lists of one value, for the output */
    place_t *place;
    size_t n_place, place_max;
} builder_t;

/* ---- places ---------------------------------------------------------------------------------- */

static char *whole (builder_t *self, char *value)
{
    return wm_maker_cast (&self->maker, value, ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
}

/* The smallest (ReduceMin) or largest element, as a list of one; of none, int64's other end.  */
static char *end_of (builder_t *self, const char *op, char *value)
{
    return wm_maker_value (&self->maker, op, wm_maker_flat (&self->maker, value), NULL);
}

/* Copies a node, which gets another value for an input.  */
static Onnx__NodeProto *replace (builder_t *self, const Onnx__NodeProto *node, size_t k,
                                 char *value)
{
    Onnx__NodeProto *copy = wm_maker_take (&self->maker, 1, sizeof *copy);
    char **input = wm_maker_take (&self->maker, node->n_input, sizeof *input);
    if (!copy || !input)
        return NULL;
    *copy = *node;
    memcpy (input, node->input, node->n_input * sizeof *input);
    input[k] = value;
    copy->input = input;
    return copy;
}

/* Makes a place for its numbers. NULL: no memory.  */
static place_t *add_place (builder_t *self, char *low, char *high, char *size)
{
    if (self->n_place == self->place_max) {
        const size_t more_max = 2 * self->place_max + 8;
        place_t *more = wm_maker_take (&self->maker, more_max, sizeof *more);
        char **numbers = wm_maker_take (&self->maker, more_max * NUMBERS, sizeof *numbers);
        if (!more || !numbers)
            return NULL;
        if (self->n_place) { /* memcpy takes no NULL */
            memcpy (more, self->place, self->n_place * sizeof *more);
            memcpy (numbers, self->number, self->n_place * NUMBERS * sizeof *numbers);
        }
        self->place = more, self->number = numbers, self->place_max = more_max;
    }
    memcpy (self->number + self->n_place * NUMBERS, (char *[]){ low, high, size },
            NUMBERS * sizeof *self->number);
    return &self->place[self->n_place++];
}

static void name_place (place_t *place, use_t use, const Onnx__NodeProto *node, const char *input)
{
    if (!place)
        return;
    place->use = use;
    snprintf (place->op, sizeof place->op, "%s", wm_onnx_op (node));
    snprintf (place->node, sizeof place->node, "%s", wm_onnx_node_name (node));
    snprintf (place->input, sizeof place->input, "%s", input);
}

/* Reports how far a value lies outside of what is kept of it, at most FAR: OpenVINO's reductions
   of integers go through float32, where a number near 2^31 changes its sign.  */
static void report (builder_t *self, const Onnx__NodeProto *node, size_t k, use_t use, char *value,
                    char *kept, char *size)
{
    wm_maker_t *maker = &self->maker;
    bool is_new;
    wm_maker_find (maker, wm_maker_name (maker, "report|%d|%s|%s", use, value, kept), &is_new);
    if (!is_new)
        return;
    char *off = wm_maker_value (maker, "Sub", value, kept),
         *most = wm_maker_value (maker, "Min", off, wm_maker_number (maker, FAR)),
         *both = wm_maker_value (maker, "Max", most, wm_maker_number (maker, -FAR));
    name_place (
        add_place (self, end_of (self, "ReduceMin", both), end_of (self, "ReduceMax", both), size),
        use, node, node->input[k]);
}

static char *real (builder_t *self, int64_t number)
{
    return wm_maker_cast (&self->maker, wm_maker_number (&self->maker, number),
                          ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
}

/* Whether the elements of a value are NaN. Operator sets 7 and 8 have no IsNaN; Greater (NaN) is
   true in OpenVINO 2026.4.  */
static char *is_nan (builder_t *self, char *value)
{
    wm_maker_t *maker = &self->maker;
    if (self->onnx.opset != 7 && self->onnx.opset != 8)
        return wm_maker_value (maker, "IsNaN", value, NULL);
    char *less = wm_maker_value (maker, "Less", value, real (self, 1)),
         *more = wm_maker_value (maker, "Less", real (self, 0), value);
    return wm_maker_value (maker, "Not", wm_maker_value (maker, "Or", less, more), NULL);
}

/* Whether they are NaN, infinite, or nearly.  */
static char *is_far (builder_t *self, char *value)
{
    wm_maker_t *maker = &self->maker;
    char *size = wm_maker_value (maker, "Abs", value, NULL);
    return wm_maker_value (
        maker, "Not", wm_maker_value (maker, "Less", size, real (self, (int64_t) 1 << 62)), NULL);
}

/* Reports whether a value has a NaN.  */
static void report_nan (builder_t *self, const wm_nan_t *watch)
{
    wm_maker_t *maker = &self->maker;
    char *value = wm_maker_cast (maker, watch->value, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT),
         *found = watch->is_doubt ? is_far (self, value) : is_nan (self, value),
         *all = wm_maker_value (maker, "ReduceMax",
                                wm_maker_cast (maker, found, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT),
                                NULL),
         *flag = wm_maker_flat (maker,
                                wm_maker_cast (maker, all, ONNX__TENSOR_PROTO__DATA_TYPE__INT64));
    name_place (add_place (self, flag, flag, flag), watch->is_doubt ? DOUBT : LOST, watch->node,
                watch->value);
}

/* Reports whether a Resize aligns the corners of a size that is no whole number, by scales that a
   patch brings: engines round the size before they place the pixels, ONNX after.  */
static void report_corners (builder_t *self, const Onnx__NodeProto *node)
{
    wm_maker_t *maker = &self->maker;
    if (strcmp (wm_onnx_op (node), "Resize") != 0 ||
        !wm_onnx_attribute_is (wm_onnx_attribute (node, "coordinate_transformation_mode"),
                               "align_corners") ||
        wm_onnx_attribute (node, "axes") || node->n_input < 3 || !*node->input[2])
        return;
    const int64_t v = wm_onnx_find (&self->onnx, node->input[2]);
    if (v >= 0 && self->onnx.value[v].initializer) /* wm_onnx_refuse_known has looked at it */
        return;
    char *shape = wm_maker_cast (maker, wm_maker_value (maker, "Shape", node->input[0], NULL),
                                 ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT),
         *size = wm_maker_value (maker, "Mul", shape, node->input[2]),
         *whole_size = wm_maker_value (maker, "Round", size, NULL),
         *off =
             wm_maker_value (maker, "Abs", wm_maker_value (maker, "Sub", size, whole_size), NULL),
         *many = wm_maker_value (maker, "Mul", off, real (self, 10000)),
         *found = wm_maker_value (maker, "Less", real (self, 1), many),
         *flag = end_of (self, "ReduceMax",
                         wm_maker_cast (maker, found, ONNX__TENSOR_PROTO__DATA_TYPE__INT64));
    name_place (add_place (self, flag, flag, flag), CORNERS, node, node->input[2]);
}

/* What is kept of a value.  */
static char *between (builder_t *self, char *value, char *low, char *top)
{
    return wm_maker_value (&self->maker, "Max",
                           top ? wm_maker_value (&self->maker, "Min", value, top) : value, low);
}

/* Whether the first result of an operator has the shape of its first input.  */
static bool keeps_shape (const char *op)
{
    static const char *const keeps[] = { "Abs",       "Cast",    "Clip",           "Elu",
                                         "Erf",       "Exp",     "Identity",       "LeakyRelu",
                                         "Log",       "Neg",     "Relu",           "Scatter",
                                         "ScatterND", "Sigmoid", "Softmax",        "Softplus",
                                         "Sqrt",      "Tanh",    "ScatterElements" };
    for (size_t k = 0; k < sizeof keeps / sizeof *keeps; k++)
        if (!strcmp (op, keeps[k]))
            return true;
    return false;
}

/* The shape of a value, or of one before it that has the same, so that layers share it.  */
static char *shape_of (builder_t *self, char *value)
{
    for (int64_t v; (v = wm_onnx_find (&self->onnx, value)) >= 0;) {
        const Onnx__NodeProto *node = self->onnx.value[v].node;
        if (!node || !node->n_input || !keeps_shape (wm_onnx_op (node)) ||
            strcmp (node->output[0], value) != 0)
            break;
        value = node->input[0];
    }
    return wm_maker_value (&self->maker, "Shape", value, NULL);
}

static char *guard_index (builder_t *self, const Onnx__NodeProto *node, size_t k, int64_t axis,
                          use_t use)
{
    wm_maker_t *maker = &self->maker;
    const bool steps = use == STEPS;
    char *index = whole (self, node->input[k]),
         *size = wm_maker_value (maker, "Gather", shape_of (self, node->input[0]),
                                 wm_maker_number (maker, axis)),
         *low = steps ? wm_maker_number (maker, 0) : wm_maker_value (maker, "Neg", size, NULL),
         *top = steps ? size : wm_maker_value (maker, "Sub", size, wm_maker_number (maker, 1)),
         *kept = between (self, index, low, top);
    report (self, node, k, use, index, kept, wm_maker_flat (maker, size));
    return steps ? wm_maker_cast (maker, kept, ONNX__TENSOR_PROTO__DATA_TYPE__INT32) : kept;
}

static char *guard_tuple (builder_t *self, const Onnx__NodeProto *node, size_t k)
{
    wm_maker_t *maker = &self->maker;
    const int64_t first =
        !strcmp (wm_onnx_op (node), "GatherND") ? wm_onnx_int (node, "batch_dims", 0) : 0;
    char *index = whole (self, node->input[k]),
         *n = wm_maker_value (maker, "Gather", shape_of (self, index), wm_maker_list (maker, -1)),
         *end = first ? wm_maker_value (maker, "Add", n, wm_maker_list (maker, first)) : n,
         *size = wm_maker_cut (maker, shape_of (self, node->input[0]), wm_maker_list (maker, first),
                               end),
         *top = wm_maker_value (maker, "Sub", size, wm_maker_list (maker, 1)),
         *kept = between (self, index, wm_maker_value (maker, "Neg", size, NULL), top);
    report (self, node, k, TUPLE, index, kept, end_of (self, "ReduceMin", size));
    return kept;
}

/* Cuts an index and its updates where a dimension other than the axis has more than the table.  */
static Onnx__NodeProto *guard_cells (builder_t *self, const Onnx__NodeProto *node, char *index,
                                     int64_t axis)
{
    wm_maker_t *maker = &self->maker;
    bool is_new;
    char *shape = shape_of (self, node->input[0]), *rank = shape_of (self, shape),
         *hot = wm_maker_find (
             maker, wm_maker_name (maker, "OneHot|%s|%lld", rank, (long long) axis), &is_new);
    if (is_new)
        wm_maker_emit (maker, "OneHot", hot, wm_maker_number (maker, axis), rank,
                       wm_maker_constant (maker, 2, (int64_t[]){ 0, WIDE }));
    char *end = wm_maker_value (maker, "Max", shape, hot), *mine = shape_of (self, index),
         *nothing = wm_maker_value (maker, "Sub", shape, shape);
    report (self, node, 1, CELL, mine, wm_maker_value (maker, "Min", mine, end),
            wm_maker_list (maker, 1));
    Onnx__NodeProto *made = replace (self, node, 1, wm_maker_cut (maker, index, nothing, end));
    return made && made->n_input > 2
               ? replace (self, made, 2, wm_maker_cut (maker, node->input[2], nothing, end))
               : made;
}

static char *guard_amount (builder_t *self, const Onnx__NodeProto *node, size_t k)
{
    char *amount = whole (self, node->input[k]),
         *kept = between (self, amount, wm_maker_number (&self->maker, 0), NULL);
    report (self, node, k, AMOUNT, amount, kept, wm_maker_list (&self->maker, 1));
    return kept;
}

static char *guard_pads (builder_t *self, const Onnx__NodeProto *node, size_t k)
{
    wm_maker_t *maker = &self->maker;
    char *pads = whole (self, node->input[k]), *size = shape_of (self, node->input[0]);
    if (node->n_input > 3 && *node->input[3])
        size = wm_maker_value (maker, "Gather", size, node->input[3]);
    char *both = wm_maker_value (maker, "Tile", size, wm_maker_list (maker, 2)),
         *kept = between (self, pads, wm_maker_value (maker, "Neg", both, NULL), NULL);
    report (self, node, k, PADS, pads, kept, wm_maker_list (maker, 1));
    return kept;
}

/* Cuts off the choices that belong to nothing.  */
static char *guard_choice (builder_t *self, const Onnx__NodeProto *node, size_t k)
{
    const Onnx__AttributeProto *axis = wm_onnx_attribute (node, "axis");
    char *size = axis
                     ? wm_maker_value (&self->maker, "Gather",
                                       wm_maker_value (&self->maker, "Shape", node->input[0], NULL),
                                       wm_maker_list (&self->maker, axis->i))
                     : wm_maker_flat (&self->maker,
                                      wm_maker_value (&self->maker, "Size", node->input[0], NULL));
    return wm_maker_cut (&self->maker, node->input[k], wm_maker_list (&self->maker, 0), size);
}

/* ---- what needs it --------------------------------------------------------------------------- */

static bool is_of (const Onnx__NodeProto *node, const char *domain)
{
    return node->domain && !strcmp (node->domain, domain);
}

/* The rule of a node; RULES: none.  */
static size_t rule_of (const Onnx__NodeProto *node)
{
    const bool own = node->domain && *node->domain && !is_of (node, "ai.onnx");
    size_t r = 0;
    while (r < RULES && strcmp (wm_onnx_op (node), rules[r].op) != 0)
        r++;
    return r < RULES && rules[r].input < node->n_input && *node->input[rules[r].input] &&
                   (!own || is_of (node, "org.pytorch.aten"))
               ? r
               : RULES;
}

/* Whether constant pads of a node are less than 0.  */
static bool takes_away (builder_t *self, const Onnx__NodeProto *node)
{
    const int64_t v = wm_onnx_find (&self->onnx, node->input[1]);
    const wm_onnx_value_t *value = v < 0 ? NULL : &self->onnx.value[v];
    const Onnx__AttributeProto *a =
        value && value->node ? wm_onnx_attribute (value->node, "value") : NULL;
    const Onnx__TensorProto *proto = value && value->initializer ? value->initializer
                                     : a                         ? a->t
                                                                 : NULL;
    wm_tensor_t tensor;
    bool found = !proto || !wm_tensor_read (&self->onnx.arena, proto, &tensor) || !tensor.i;
    for (size_t i = 0; !found && i < tensor.n; i++)
        found = tensor.i[i] < 0;
    return found;
}

/* Whether a patch may bring a node something that is outside.  */
static bool needs (builder_t *self, const Onnx__NodeProto *node, size_t r)
{
    const unsigned bits = wm_flow_input (&self->flow, node, rules[r].input),
                   table = wm_flow_input (&self->flow, node, 0);
    switch (rules[r].use) {
    case INDEX:
    case CELL:
    case TUPLE:
    case STEPS:
        return bits || table & WM_FLOW_SIZED;
    case PADS:
        return bits || (table & WM_FLOW_SIZED && takes_away (self, node));
    case CHOICE:
        return (bits | table) & WM_FLOW_SIZED;
    case AMOUNT:
    case HIDDEN:
    case CORNERS:
    case LOST:
    case DOUBT:
        break;
    }
    return bits;
}

/* Whether the sizes of one of the first three inputs change.  */
static bool is_sized (const builder_t *self, const Onnx__NodeProto *node)
{
    unsigned bits = 0;
    for (size_t k = 0; k < 3; k++)
        bits |= wm_flow_input (&self->flow, node, k);
    return bits & WM_FLOW_SIZED;
}

/* Why a node cannot be guarded, or NULL.  */
static const char *why_not (const builder_t *self, const Onnx__NodeProto *node, size_t r,
                            bool is_inside)
{
    const use_t use = rules[r].use;
    const bool cuts = use == CHOICE || (use == CELL && is_sized (self, node));
    if (use == HIDDEN)
        return "export the model with Gather or ScatterND in its place";
    if (is_inside)
        return "which lies inside a Loop, If or Scan: export the model without that";
    if (use == STEPS && is_sized (self, node))
        return "where lengths are free OpenVINO ignores it: export the model without it";
    if (use == TUPLE && is_sized (self, node) && wm_onnx_int (node, "batch_dims", 0))
        return "where lengths are free it must have no batch_dims: export the model without";
    if (self->onnx.opset < (cuts ? 10 : 8))
        return "in this old operator set: export the model with a newer one";
    return NULL;
}

static Onnx__NodeProto *guard_node (builder_t *self, const Onnx__NodeProto *node, size_t r)
{
    const size_t k = rules[r].input;
    const bool is_rnn = rules[r].use == STEPS;
    const int64_t axis =
        is_rnn ? wm_onnx_int (node, "layout", 0) != 0 : wm_onnx_int (node, "axis", 0);
    char *value = NULL;
    switch (rules[r].use) {
    case INDEX:
    case CELL:
    case STEPS:
        value = guard_index (self, node, k, axis, is_rnn ? STEPS : INDEX);
        break;
    case TUPLE:
        value = guard_tuple (self, node, k);
        break;
    case AMOUNT:
        value = guard_amount (self, node, k);
        break;
    case PADS:
        value = guard_pads (self, node, k);
        break;
    case CHOICE:
        value = guard_choice (self, node, k);
        break;
    case HIDDEN:
    case CORNERS:
    case LOST:
    case DOUBT:
        break;
    }
    return rules[r].use == CELL && is_sized (self, node) ? guard_cells (self, node, value, axis)
                                                         : replace (self, node, k, value);
}

/* ---- frozen graphs --------------------------------------------------------------------------- */

static int by_op (const void *op, const void *one)
{
    return strcmp (op, *(const char *const *) one);
}

/* Refuses what takes indices that a patch decides.  */
static wm_fault_t refuse_frozen (builder_t *self, wm_error_t *error)
{
    for (size_t i = 0; i < self->onnx.n_node; i++) {
        const Onnx__NodeProto *node = self->onnx.node[i];
        unsigned bits = wm_flow_input (&self->flow, node, 0) & WM_FLOW_SIZED;
        for (size_t k = 1; k < node->n_input; k++)
            bits |= wm_flow_input (&self->flow, node, k);
        if (bits && is_of (node, "tensorflow") &&
            bsearch (wm_onnx_op (node), frozen, sizeof frozen / sizeof *frozen, sizeof *frozen,
                     by_op))
            return wm_fault (error, WM_EBATCH,
                             "OpenVINO would not check the indices of node '%.60s' (%.40s), and in "
                             "a frozen graph nothing else does: convert it to ONNX by tf2onnx",
                             wm_onnx_node_name (node), wm_onnx_op (node));
    }
    return WM_OK;
}

/* ---- the graph ------------------------------------------------------------------------------- */

static wm_fault_t refuse (const builder_t *self, const Onnx__NodeProto *node, size_t r,
                          const char *why, wm_error_t *error)
{
    (void) self;
    return wm_fault (error, WM_EBATCH,
                     "nothing would check what patches bring as '%.60s' to node '%.60s' (%.40s), "
                     "%s",
                     node->input[rules[r].input], wm_onnx_node_name (node), wm_onnx_op (node), why);
}

/* Guards the nodes of the model's graph, and refuses those elsewhere.  */
static wm_fault_t guard_nodes (builder_t *self, bool has_indices, wm_error_t *error)
{
    for (size_t g = 0; g < self->flow.n_graph; g++) {
        const Onnx__GraphProto *graph = self->flow.graph[g];
        for (size_t i = 0; i < graph->n_node; i++) {
            Onnx__NodeProto *node = graph->node[i];
            const size_t r = rule_of (node);
            const bool is_open = has_indices && r < RULES && needs (self, node, r);
            const char *why = is_open ? why_not (self, node, r, g > 0) : NULL;
            if (why)
                return refuse (self, node, r, why, error);
            if (g == 0 && is_open)
                node = guard_node (self, node, r);
            if (g == 0 && node)
                wm_maker_append (&self->maker, node);
        }
    }
    return WM_OK;
}

/* Puts the places' numbers together, in one more output.  */
static void add_output (builder_t *self, Onnx__GraphProto *graph)
{
    Onnx__NodeProto *node = wm_maker_emit (&self->maker, "Concat",
                                           (char *) (uintptr_t) WM_GUARD_OUTPUT, NULL, NULL, NULL);
    Onnx__ValueInfoProto *info = wm_maker_take (&self->maker, 1, sizeof *info),
                         **output =
                             wm_maker_take (&self->maker, graph->n_output + 1, sizeof *output);
    if (!node || !info || !output)
        return;
    node->input = self->number;
    node->n_input = self->n_place * NUMBERS;
    wm_maker_int (self->maker.arena, node, "axis", 0);
    onnx__value_info_proto__init (info);
    info->name = (char *) (uintptr_t) WM_GUARD_OUTPUT;
    memcpy (output, graph->output, graph->n_output * sizeof *output);
    output[graph->n_output++] = info;
    graph->output = output;
}

/* Writes the changed file.  */
static bool pack (builder_t *self, wm_index_guard_t *guard)
{
    Onnx__GraphProto *graph = self->onnx.graph, before = *graph;
    if (self->n_place)
        add_output (self, graph);
    graph->node = self->maker.node;
    graph->n_node = self->maker.n_node;
    guard->size = onnx__model_proto__get_packed_size (self->onnx.model);
    guard->bytes = self->onnx.arena.failed ? NULL : malloc (guard->size);
    guard->place = calloc (self->n_place + 1, sizeof *guard->place);
    guard->n_place = self->n_place;
    if (guard->bytes && guard->place) {
        onnx__model_proto__pack (self->onnx.model, guard->bytes);
        if (self->n_place)
            memcpy (guard->place, self->place, self->n_place * sizeof *guard->place);
    }
    graph->node = before.node; /* what the message owns is freed with it */
    graph->n_node = before.n_node;
    graph->output = before.output;
    graph->n_output = before.n_output;
    return guard->bytes && guard->place;
}

static wm_fault_t build (builder_t *self, wm_index_guard_t **guard, const wm_port_t *port,
                         uint32_t n_port, unsigned how, wm_error_t *error)
{
    const wm_nan_t *watch = NULL;
    size_t n_watch = 0;
    wm_fault_t fault = wm_onnx_read (&self->onnx, NULL, error);
    if (!fault)
        fault = wm_flow_find (&self->flow, &self->onnx, port, n_port, error);
    if (!fault && self->onnx.tensorflow)
        return how & WM_GUARD_INDICES ? refuse_frozen (self, error) : WM_OK;
    if (!fault)
        fault = guard_nodes (self, how & WM_GUARD_INDICES, error);
    if (!fault)
        fault = wm_nan_find (&self->onnx, how & WM_GUARD_DOUBTS && self->onnx.opset >= 7, &watch,
                             &n_watch, error);
    for (size_t k = 0; k < n_watch && !fault; k++)
        report_nan (self, &watch[k]);
    for (size_t i = 0; i < self->onnx.n_node && !fault; i++)
        report_corners (self, self->onnx.node[i]);
    if (!fault && !self->maker.n_made && !self->onnx.gathered && !self->onnx.arena.failed)
        return WM_OK; /* nothing was changed */
    *guard = fault ? NULL : calloc (1, sizeof **guard);
    if (!fault && (!*guard || !pack (self, *guard)))
        fault = wm_fault (error, WM_EHOST, "no memory to guard the model");
    return fault;
}

wm_fault_t wm_guard_new (wm_index_guard_t **guard, const void **bytes, size_t *size,
                         const wm_port_t *port, uint32_t n_port, unsigned how, wm_error_t *error)
{
    builder_t self = { .n_place = 0 };
    self.maker.arena = &self.onnx.arena;
    *guard = NULL;
    wm_fault_t fault = wm_onnx_lend (&self.onnx, "the model", *bytes, *size, error);
    if (!fault)
        fault = build (&self, guard, port, n_port, how, error);
    wm_maker_clear (&self.maker);
    wm_onnx_clear (&self.onnx);
    if (fault)
        wm_guard_destroy (guard);
    if (*guard) {
        *bytes = (*guard)->bytes;
        *size = (*guard)->size;
    }
    return fault;
}

void wm_guard_forget (wm_index_guard_t *self)
{
    if (self) {
        free (self->bytes);
        self->bytes = NULL;
    }
}

void wm_guard_destroy (wm_index_guard_t **self_p)
{
    wm_index_guard_t *self = *self_p;
    if (self) {
        free (self->bytes);
        free (self->place);
        free (self);
        *self_p = NULL;
    }
}

size_t wm_guard_numbers (const wm_index_guard_t *self)
{
    return self ? self->n_place * NUMBERS : 0;
}

/* ---- what it found --------------------------------------------------------------------------- */

/* Writes how far a number lies outside.  */
static void tell (use_t use, int64_t off, int64_t size, char why[120])
{
    const int64_t low = use == STEPS ? 0 : -size, top = use == STEPS ? size : size - 1;
    const char *more = off == FAR || off == -FAR ? " or more" : "";
    const long long far = off < 0 ? -off : off;
    if (!size && use != STEPS)
        snprintf (why, 120, "its table is empty");
    else if (use == INDEX || use == STEPS)
        snprintf (why, 120, "%lld%s lies outside %lld to %lld",
                  (long long) (off < 0 ? low + off : top + off),
                  off < 0 && *more ? " or less" : more, (long long) low, (long long) top);
    else if (use == TUPLE)
        snprintf (why, 120, "one lies %lld%s %s its table", far, more,
                  off < 0 ? "before" : "behind");
    else if (use == CELL)
        snprintf (why, 120, "a dimension has %lld%s more than its table", far, more);
    else if (use == AMOUNT)
        snprintf (why, 120, "-%lld%s is less than 0", far, *more ? " or less" : "");
    else
        snprintf (why, 120, "%lld%s more are taken away than there are", far, more);
}

bool wm_guard_doubts (const wm_index_guard_t *self)
{
    bool any = false;
    for (size_t i = 0; self && i < self->n_place; i++)
        any |= self->place[i].use == DOUBT;
    return any;
}

/* Writes what is wrong at a place of an index, if something is. */
static bool is_outside (const place_t *place, const int64_t number[NUMBERS], char *text,
                        size_t bytes)
{
    const int64_t low = number[0], high = number[1], size = number[2];
    char why[120];
    if (low > high || (!low && !high && (size || place->use == STEPS))) /* none, or all inside */
        return false;
    tell (place->use, low < 0 ? low : high, size, why);
    snprintf (text, bytes, "'%s' of node '%s' (%s): %s", place->input, place->node, place->op, why);
    return true;
}

wm_guard_found_t wm_guard_find (const wm_index_guard_t *self, const int64_t *number, char *text,
                                size_t bytes)
{
    wm_guard_found_t found = WM_GUARD_SOUND;
    for (size_t i = 0; self && i < self->n_place; i++, number += NUMBERS) {
        const place_t *place = &self->place[i];
        if (place->use == LOST && number[0] == 1) {
            snprintf (text, bytes, "'%s' is NaN, which node '%s' (%s) does not keep", place->input,
                      place->node, place->op);
            return WM_GUARD_NAN;
        }
        if (place->use == DOUBT && number[0] == 1 && !found) {
            snprintf (text, bytes, "'%s' of node '%s' (%s) is not finite", place->input,
                      place->node, place->op);
            found = WM_GUARD_DOUBT;
        }
        if (place->use == CORNERS && number[0] == 1) {
            snprintf (text, bytes,
                      "'%s' of node '%s' (%s) give a size that is no whole number, of which no "
                      "engine here aligns the corners as ONNX does",
                      place->input, place->node, place->op);
            found = WM_GUARD_OUTSIDE;
        }
        if (place->use <= HIDDEN && found != WM_GUARD_OUTSIDE &&
            is_outside (place, number, text, bytes))
            found = WM_GUARD_OUTSIDE;
    }
    return found;
}
