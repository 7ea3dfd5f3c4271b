/* wm_draw_domain.c - what the nodes that read an input port allow its values to be.  */
#include "kernels/judge/wm_draw_private.h"
#include "kernels/onnx/wm_tensor.h"

#include <string.h>

#define SMALL 0x1p-4 /* of numbers that must not be 0 */
#define LOOKS 64     /* values that are followed from a port */
#define MOST (1 << 20)

static bool is_own (const Onnx__NodeProto *node)
{
    return !*wm_onnx_text (node->domain) || !strcmp (node->domain, "ai.onnx");
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static int dims_of (const Onnx__ValueInfoProto *info, int64_t dim[WM_DRAW_DIMS])
{
    const Onnx__TensorShapeProto *shape =
        info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
            ? info->type->tensor_type->shape
            : NULL;
    if (!shape || shape->n_dim > WM_DRAW_DIMS)
        return -1;
    for (size_t d = 0; d < shape->n_dim; d++)
        dim[d] =
            shape->dim[d]->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
                    shape->dim[d]->dim_value > 0
                ? shape->dim[d]->dim_value
                : -1;
    return (int) shape->n_dim;
}

static const Onnx__TensorProto *constant_of (const wm_onnx_t *onnx, const char *name)
{
    const int64_t v = wm_onnx_find (onnx, name);
    const wm_onnx_value_t *value = v < 0 ? NULL : &onnx->value[v];
    const Onnx__AttributeProto *a =
        value && value->node && !strcmp (wm_onnx_op (value->node), "Constant")
            ? wm_onnx_attribute (value->node, "value")
            : NULL;
    return value && value->initializer ? value->initializer : a ? a->t : NULL;
}

/* Operators whose first result has the shape of their first input.  */
static bool keeps_shape (const char *op)
{
    static const char *const keeps[] = { "Abs",      "BatchNormalization",
                                         "Cast",     "Clip",
                                         "Dropout",  "Elu",
                                         "Exp",      "Gelu",
                                         "Identity", "Log",
                                         "Neg",      "Relu",
                                         "Tanh",     "Softmax",
                                         "Sqrt",     "Sigmoid" };
    for (size_t k = 0; k < sizeof keeps / sizeof *keeps; k++)
        if (!strcmp (op, keeps[k]))
            return true;
    return false;
}

/* Returns the dimensions of a value, -1 where one is not known; -1: nothing is known.  */
static int shape_of (wm_drawer_t *self, const char *name, int64_t dim[WM_DRAW_DIMS])
{
    const Onnx__GraphProto *g = self->onnx->graph;
    for (int turn = 0; turn < 16; turn++) {
        for (uint32_t p = 0; p < self->n_port; p++)
            if (!strcmp (name, self->port[p].name)) {
                dim[0] = -1;
                for (uint32_t d = 0; d < self->tensor[p].n_dim; d++)
                    dim[d + self->first] = self->tensor[p].dim[d];
                return (int) (self->tensor[p].n_dim + self->first);
            }
        const Onnx__TensorProto *constant = constant_of (self->onnx, name);
        if (constant && constant->n_dims <= WM_DRAW_DIMS) {
            for (size_t d = 0; d < constant->n_dims; d++)
                dim[d] = constant->dims[d];
            return (int) constant->n_dims;
        }
        for (size_t i = 0; i < g->n_value_info; i++)
            if (!strcmp (wm_onnx_text (g->value_info[i]->name), name))
                return dims_of (g->value_info[i], dim);
        const int64_t v = wm_onnx_find (self->onnx, name);
        const Onnx__NodeProto *node = v < 0 ? NULL : self->onnx->value[v].node;
        if (!node || !node->n_input || strcmp (node->output[0], name) != 0)
            return -1;
        if (!strcmp (wm_onnx_op (node), "Shape")) {
            int64_t inner[WM_DRAW_DIMS];
            dim[0] = shape_of (self, node->input[0], inner);
            return dim[0] < 0 ? -1 : 1;
        }
        if (!keeps_shape (wm_onnx_op (node)))
            return -1;
        name = node->input[0];
    }
    return -1;
}

int64_t wm_draw_size (wm_drawer_t *self, const Onnx__NodeProto *node, size_t k, int64_t d)
{
    int64_t dim[WM_DRAW_DIMS];
    const int n = k < node->n_input ? shape_of (self, node->input[k], dim) : -1;
    d += d < 0 ? n : 0;
    return n < 0 || d < 0 || d >= n ? -1 : dim[d];
}

/* The smallest dimension of a node's input 0 that is known; -1: none.  */
static int64_t smallest (wm_drawer_t *self, const Onnx__NodeProto *node)
{
    int64_t dim[WM_DRAW_DIMS], least = -1;
    const int n = node->n_input ? shape_of (self, node->input[0], dim) : 0;
    for (int d = 0; d < n; d++)
        if (dim[d] > 0 && (least < 0 || dim[d] < least))
            least = dim[d];
    return least;
}

/* Reads a constant input of a node. Returns its elements, at most `most`; 0 if the input is no
   constant.  */
static size_t read_constant (wm_drawer_t *self, const Onnx__NodeProto *node, size_t k, size_t most,
                             int64_t *value)
{
    const Onnx__TensorProto *proto =
        k < node->n_input ? constant_of (self->onnx, node->input[k]) : NULL;
    wm_tensor_t tensor;
    if (!proto || !wm_tensor_read (&self->arena, proto, &tensor) || !tensor.i)
        return 0;
    const size_t n = tensor.n < most ? tensor.n : most;
    memcpy (value, tensor.i, n * sizeof *value);
    return n;
}

/* ---- Col2Im ---------------------------------------------------------------------------------- */

/* Entry k of a list, from `least` on; a size of a damaged model counts as MOST.  */
static int64_t listed (const Onnx__NodeProto *node, const char *name, size_t k, int64_t least)
{
    const Onnx__AttributeProto *a = wm_onnx_attribute (node, name);
    const int64_t value = a && k < a->n_ints ? a->ints[k] : least;
    return value < least ? least : value > MOST ? MOST : value;
}

static int64_t at_least_1 (int64_t size)
{
    return size < 1 ? 1 : size > MOST ? MOST : size;
}

/* The places along dimension d that a block has in an image, times those of the others, is the last
   size of the columns; a block's size divides the one before.  */
void wm_draw_col2im (wm_drawer_t *self, const Onnx__NodeProto *node, size_t n, int64_t *image,
                     int64_t *block)
{
    const bool has_image = read_constant (self, node, 1, n, image) == n,
               has_block = read_constant (self, node, 2, n, block) == n;
    int64_t left = wm_draw_size (self, node, 0, 2), area = wm_draw_size (self, node, 0, 1);
    left = at_least_1 (left), area = at_least_1 (area);
    for (size_t d = 0; d < n; d++) {
        const int64_t stride = listed (node, "strides", d, 1),
                      dilation = listed (node, "dilations", d, 1),
                      pads = listed (node, "pads", d, 0) + listed (node, "pads", d + n, 0);
        int64_t places = d + 1 < n ? 1 : left;
        image[d] = has_image ? at_least_1 (image[d]) : 1;
        block[d] = has_block ? at_least_1 (block[d]) : 1;
        if (!has_block) { /* as long as the places fit the image, or 1; all of the rest at last */
            block[d] = 1;
            while (has_image && d == 0 && n == 1 && block[d] < area &&
                   (image[d] + pads - dilation * (block[d] - 1) - 1) / stride + 1 > places)
                block[d]++;
            while (!has_image && pads + 1 > dilation * (block[d] - 1) + 1 && block[d] < area)
                block[d]++;
            while (area % block[d])
                block[d]--;
        }
        if (!has_image) {
            int64_t root = 1; /* near a square */
            while (d + 1 < n && (root + 1) * (root + 1) <= left)
                root++;
            while (d + 1 < n && left % root)
                root--;
            places = d + 1 < n ? root : left;
            image[d] = (places - 1) * stride + dilation * (block[d] - 1) + 1 - pads;
            image[d] = image[d] > 0 ? image[d] : 1;
        } else {
            places = (image[d] + pads - dilation * (block[d] - 1) - 1) / stride + 1;
        }
        left = places > 0 && left % places == 0 ? left / places : 1;
        area = block[d] > 0 && area % block[d] == 0 ? area / block[d] : 1;
    }
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* What a reader wants, beside wm_draw_want_t: a range.  */
typedef enum {
    ABOVE_ONE = 100,
    AXIS,     /* a dimension of input 0 */
    BITS,     /* a number of bits to shift by */
    DEPTH,    /* OneHot's depth */
    DIAGONAL, /* -1 to 1 */
    END,      /* 1 to the smallest size of input 0 */
    FRACTION, /* 0 to 1 */
    INDEX,    /* along the attribute `axis` of input 0 */
    KEYS,     /* all keys of an Attention */
    LABEL,    /* along dimension 1 of input 0 */
    LIMIT,    /* 2 to 5 */
    LOWER,    /* at most 0, */
    UPPER,    /* and at least 1: ends of a Clip */
    MEL,      /* MelWeightMatrix's numbers */
    ONE,      /* 1 */
    HOT,      /* below OneHot's depth */
    PADS,     /* 0, or 1 where every size of input 0 allows it */
    POINT,    /* a zero point: 0 of a real type */
    POSITIVE, /* above 0 */
    POSITION, /* along dimension 0 of input 1 */
    REPEATS,  /* 1 or 2 */
    STEPS,    /* 1 to those of a sequence */
    TIME,     /* 1 to ReverseSequence's */
    UNIT,     /* -1 to 1, without the ends */
    WINDOW,   /* 4 to 16 */
    ZERO      /* 0 */
} range_t;

static const struct {
    const char *op;
    uint8_t input, want; /* of wm_draw_want_t or range_t */
} rules[] = {
    { "Acos", 0, UNIT },
    { "Acosh", 0, ABOVE_ONE },
    { "AffineGrid", 1, WM_WANT_GRID },
    { "Asin", 0, UNIT },
    { "Atanh", 0, UNIT },
    { "Attention", 6, KEYS },
    { "BatchNormalization", 4, POSITIVE },
    { "BitShift", 0, POSITIVE },
    { "BitShift", 1, BITS },
    { "BlackmanWindow", 0, WINDOW },
    { "CenterCropPad", 1, LIMIT },
    { "Clip", 1, LOWER },
    { "Clip", 2, UPPER },
    { "Col2Im", 1, WM_WANT_IMAGE },
    { "Col2Im", 2, WM_WANT_BLOCK },
    { "ConstantOfShape", 0, LIMIT },
    { "CumProd", 1, AXIS },
    { "CumSum", 1, AXIS },
    { "DFT", 1, END },
    { "DFT", 2, AXIS },
    { "DequantizeLinear", 1, POSITIVE },
    { "DequantizeLinear", 2, POINT },
    { "Div", 1, POSITIVE },
    { "Dropout", 1, ZERO },
    { "Dropout", 2, ZERO },
    { "Expand", 1, ONE },
    { "Gather", 1, INDEX },
    { "GatherElements", 1, INDEX },
    { "GatherND", 1, WM_WANT_TUPLES },
    { "GRU", 4, STEPS },
    { "HammingWindow", 0, WINDOW },
    { "HannWindow", 0, WINDOW },
    { "LSTM", 4, STEPS },
    { "Log", 0, POSITIVE },
    { "Loop", 0, REPEATS },
    { "Loop", 1, ONE },
    { "MaxRoiPool", 1, WM_WANT_CORNERS },
    { "MaxUnpool", 1, WM_WANT_FLAT },
    { "MaxUnpool", 2, WM_WANT_SIZES },
    { "MelWeightMatrix", 0, MEL },
    { "MelWeightMatrix", 1, MEL },
    { "MelWeightMatrix", 2, MEL },
    { "MelWeightMatrix", 3, MEL },
    { "MelWeightMatrix", 4, MEL },
    { "Mod", 1, POSITIVE },
    { "NegativeLogLikelihoodLoss", 1, LABEL },
    { "NonMaxSuppression", 2, LIMIT },
    { "NonMaxSuppression", 3, FRACTION },
    { "NonMaxSuppression", 4, FRACTION },
    { "OneHot", 0, HOT },
    { "OneHot", 1, DEPTH },
    { "Pad", 1, PADS },
    { "Pad", 3, WM_WANT_AXES },
    { "Pow", 0, POSITIVE },
    { "QLinearConv", 1, POSITIVE },
    { "QLinearConv", 4, POSITIVE },
    { "QLinearConv", 6, POSITIVE },
    { "QLinearMatMul", 1, POSITIVE },
    { "QLinearMatMul", 4, POSITIVE },
    { "QLinearMatMul", 6, POSITIVE },
    { "QuantizeLinear", 1, POSITIVE },
    { "QuantizeLinear", 2, POINT },
    { "RNN", 4, STEPS },
    { "Range", 0, ZERO },
    { "Range", 1, LIMIT },
    { "Range", 2, ONE },
    { "Reciprocal", 0, POSITIVE },
    { "Reduce*", 1, WM_WANT_AXES },
    { "ReduceLogSum", 0, POSITIVE },
    { "Reshape", 1, WM_WANT_SHAPE },
    { "Resize", 2, WM_WANT_SCALES },
    { "Resize", 3, WM_WANT_SIZES },
    { "ReverseSequence", 1, TIME },
    { "RoiAlign", 1, WM_WANT_CORNERS },
    { "RoiAlign", 2, ZERO },
    { "RotaryEmbedding", 3, POSITION },
    { "STFT", 1, ONE },
    { "STFT", 3, END },
    { "Scatter", 1, WM_WANT_CELLS },
    { "ScatterElements", 1, WM_WANT_CELLS },
    { "ScatterND", 1, WM_WANT_TUPLES },
    { "SequenceAt", 1, ZERO },
    { "SequenceErase", 1, ZERO },
    { "SequenceInsert", 2, ZERO },
    { "Slice", 1, ZERO },
    { "Slice", 2, END },
    { "Slice", 3, WM_WANT_AXES },
    { "Slice", 4, ONE },
    { "SoftmaxCrossEntropyLoss", 1, LABEL },
    { "Split", 1, WM_WANT_PARTS },
    { "SplitToSequence", 1, WM_WANT_PARTS },
    { "Sqrt", 0, POSITIVE },
    { "Squeeze", 1, WM_WANT_AXES },
    { "TensorScatter", 2, ZERO },
    { "Tile", 1, REPEATS },
    { "TopK", 1, ONE },
    { "Trilu", 1, DIAGONAL },
    { "Unsqueeze", 1, WM_WANT_AXES },
    { "Upsample", 1, WM_WANT_SCALES },
};
#define RULES (sizeof rules / sizeof *rules)

/* Whether a rule is of numbers that count or point, not of the values of a function.  */
static bool points (unsigned want)
{
    return want != ABOVE_ONE && want != FRACTION && want != POSITIVE && want != UNIT &&
           want != LOWER && want != UPPER && want != POINT;
}

/* Whether numbers that point may be 0; those that count may not.  */
static bool may_be_0 (unsigned want)
{
    static const uint8_t may[] = { AXIS,          DIAGONAL,     HOT,           INDEX,
                                   LABEL,         POSITION,     ZERO,          WM_WANT_AXES,
                                   WM_WANT_CELLS, WM_WANT_FLAT, WM_WANT_TUPLES };
    return memchr (may, (int) want, sizeof may) != NULL;
}

/* Intersects what is allowed. Of two that exclude each other the first counts.  */
static void between (wm_draw_domain_t *self, double low, double high)
{
    if (low > self->high || high < self->low)
        return;
    self->low = low > self->low ? low : self->low;
    self->high = high < self->high ? high : self->high;
}

static void below (wm_draw_domain_t *self, int64_t size)
{
    between (self, 0, size > 0 ? (double) size - 1 : 1);
}

static void to (wm_draw_domain_t *self, int64_t most)
{
    between (self, 1, most > 0 ? (double) most : 1);
}

static void mel (wm_draw_domain_t *self, size_t k)
{
    static const double value[] = { 8, 64, 8000, 0, 4000 };
    between (self, value[k], value[k]);
}

/* Takes a rule of positions or numbers of things.  */
static void meet_index (wm_drawer_t *self, const Onnx__NodeProto *node, size_t k, unsigned want,
                        wm_draw_domain_t *domain)
{
    int64_t n, dim[WM_DRAW_DIMS];
    switch (want) {
    case INDEX:
    case WM_WANT_CELLS:
        below (domain, wm_draw_size (self, node, 0, wm_onnx_int (node, "axis", 0)));
        break;
    case LABEL:
        below (domain, wm_draw_size (self, node, 0, 1));
        break;
    case POSITION:
        below (domain, wm_draw_size (self, node, 1, 0));
        break;
    case HOT:
        below (domain, read_constant (self, node, 1, 1, &n) ? n : -1);
        break;
    case AXIS:
        n = node->n_input ? shape_of (self, node->input[0], dim) : 0;
        below (domain, n > 0 ? n : 1);
        break;
    case STEPS:
        to (domain, wm_draw_size (self, node, 0, wm_onnx_int (node, "layout", 0) ? 1 : 0));
        break;
    case TIME:
        to (domain, wm_draw_size (self, node, 0, wm_onnx_int (node, "time_axis", 0)));
        break;
    case END:
        to (domain, smallest (self, node));
        break;
    case KEYS:
        n = shape_of (self, node->input[1], dim);
        n = n == 4 ? dim[2] : n == 3 ? dim[1] : 1;
        between (domain, (double) (n > 0 ? n : 1), (double) (n > 0 ? n : 1));
        break;
    case POINT:
        if (!domain->whole)
            between (domain, 0, 0);
        break;
    case PADS:
        between (domain, 0, smallest (self, node) > 1);
        break;
    case MEL:
        mel (domain, k);
        break;
    default: /* a layout, which is drawn as a whole */
        between (domain, 0, 1);
        break;
    }
}

/* Takes a rule whose range is the same of every node.  */
static bool meet_range (unsigned want, wm_draw_domain_t *domain)
{
    static const struct {
        uint8_t want;
        double low, high;
    } ranges[] = { { ABOVE_ONE, 1, 4 }, { BITS, 0, 7 },     { DEPTH, 2, 8 },
                   { DIAGONAL, -1, 1 }, { FRACTION, 0, 1 }, { LIMIT, 2, 5 },
                   { LOWER, -1024, 0 }, { ONE, 1, 1 },      { POSITIVE, SMALL, 1024 },
                   { REPEATS, 1, 2 },   { UPPER, 1, 1024 }, { UNIT, -1 + SMALL, 1 - SMALL },
                   { WINDOW, 4, 16 },   { ZERO, 0, 0 } };
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++)
        if (ranges[k].want == want) {
            between (domain, ranges[k].low, ranges[k].high);
            return true;
        }
    return false;
}

/* ---- the way --------------------------------------------------------------------------------- */

typedef struct {
    wm_drawer_t *drawer;
    wm_draw_domain_t *domain;
    int looks;
} way_t;

/* How values have come from the port.  */
typedef enum {
    AS_THEY_ARE, /* in the port's shape */
    MOVED,       /* in another */
    COMPUTED     /* as parts of other numbers */
} trace_t;

static void look (way_t *self, const char *name, trace_t trace);

/* How an operator hands the values of its input k on.  */
static int handed_on (const char *op, size_t k)
{
    static const struct {
        const char *op;
        uint8_t all; /* inputs, or the first only */
        trace_t trace;
    } hands[] = { { "Cast", 0, AS_THEY_ARE },     { "CastLike", 0, AS_THEY_ARE },
                  { "Identity", 0, AS_THEY_ARE }, { "Dropout", 0, AS_THEY_ARE },
                  { "Concat", 1, MOVED },         { "Expand", 0, MOVED },
                  { "Flatten", 0, MOVED },        { "Gather", 0, MOVED },
                  { "Reshape", 0, MOVED },        { "Slice", 0, MOVED },
                  { "Split", 0, MOVED },          { "Squeeze", 0, MOVED },
                  { "Tile", 0, MOVED },           { "Transpose", 0, MOVED },
                  { "Unsqueeze", 0, MOVED },      { "Abs", 0, COMPUTED },
                  { "Add", 1, COMPUTED },         { "Ceil", 0, COMPUTED },
                  { "Clip", 0, COMPUTED },        { "Div", 1, COMPUTED },
                  { "Floor", 0, COMPUTED },       { "Max", 1, COMPUTED },
                  { "Min", 1, COMPUTED },         { "Mod", 1, COMPUTED },
                  { "Mul", 1, COMPUTED },         { "Neg", 0, COMPUTED },
                  { "ReduceMax", 0, COMPUTED },   { "ReduceMin", 0, COMPUTED },
                  { "Relu", 0, COMPUTED },        { "Round", 0, COMPUTED },
                  { "Sub", 1, COMPUTED },         { "Where", 1, COMPUTED } };
    for (size_t h = 0; h < sizeof hands / sizeof *hands; h++)
        if (!strcmp (op, hands[h].op))
            return k == 0 || hands[h].all ? (int) hands[h].trace : -1;
    return -1;
}

/* `name` may be the beginning of names, and '*'.  */
static bool is_named (const char *op, const char *name)
{
    const size_t n = strlen (name);
    return name[n - 1] == '*' ? !strncmp (op, name, n - 1) : !strcmp (op, name);
}

/* Takes what a node wants of its input k.  */
static void meet (way_t *self, const Onnx__NodeProto *node, size_t k, trace_t trace)
{
    const char *op = wm_onnx_op (node);
    wm_draw_domain_t *domain = self->domain;
    size_t r = 0;
    if (!is_own (node)) { /* its readers are not known */
        domain->index |= domain->whole;
        if (domain->whole)
            between (domain, 0, 1);
        return;
    }
    while (r < RULES && (rules[r].input != k || !is_named (op, rules[r].op)))
        r++;
    const unsigned want = r < RULES ? rules[r].want : WM_WANT_RANGE;
    if (r < RULES && trace == COMPUTED) {
        if (points (want))
            between (domain, !may_be_0 (want), may_be_0 (want) ? 1 : 2);
    } else if (r < RULES) {
        domain->whole |= points (want) && want != WM_WANT_CORNERS && want != MEL;
        domain->index |= points (want);
        if (want < ABOVE_ONE && trace == AS_THEY_ARE && domain->want == WM_WANT_RANGE) {
            domain->want = (wm_draw_want_t) want;
            domain->node = node;
        }
        if (!meet_range (want, domain))
            meet_index (self->drawer, node, k, want, domain);
    }
    const int on = handed_on (op, k);
    if (on >= 0)
        for (size_t o = 0; o < node->n_output; o++)
            look (self, node->output[o], (trace_t) on > trace ? (trace_t) on : trace);
}

/* Meets the readers of a value among these nodes and in the graphs inside them.  */
static void look_among (way_t *self, const Onnx__NodeProto *const *node, size_t n, const char *name,
                        trace_t trace)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < node[i]->n_input; k++)
            if (!strcmp (node[i]->input[k], name))
                meet (self, node[i], k, trace);
        for (size_t a = 0; a < node[i]->n_attribute; a++) {
            const Onnx__GraphProto *g = node[i]->attribute[a]->g;
            if (!g)
                continue;
            look_among (self, (const Onnx__NodeProto *const *) g->node, g->n_node, name, trace);
            for (size_t o = 0; o < g->n_output && o < node[i]->n_output; o++)
                if (!strcmp (wm_onnx_text (g->output[o]->name), name))
                    look (self, node[i]->output[o], trace);
            for (size_t k = 2; !strcmp (wm_onnx_op (node[i]), "Loop") && k < node[i]->n_input; k++)
                if (!strcmp (node[i]->input[k], name) && k < g->n_input)
                    look (self, wm_onnx_text (g->input[k]->name), trace);
        }
    }
}

static void look (way_t *self, const char *name, trace_t trace)
{
    if (*name && self->looks-- > 0)
        look_among (self, self->drawer->onnx->node, self->drawer->onnx->n_node, name, trace);
}

/* ---- types ----------------------------------------------------------------------------------- */

/* What the port's own type holds, and a float32 holds exactly.  */
static const struct {
    double low, high;
} whole_types[] = {
    [ONNX__TENSOR_PROTO__DATA_TYPE__BOOL] = { 0, 1 },
    [26 /* INT2 */] = { -2, 1 },
    [25 /* UINT2 */] = { 0, 3 },
    [22 /* INT4 */] = { -8, 7 },
    [ONNX__TENSOR_PROTO__DATA_TYPE__INT8] = { -128, 127 },
    [ONNX__TENSOR_PROTO__DATA_TYPE__INT16] = { -32768, 32767 },
    [ONNX__TENSOR_PROTO__DATA_TYPE__INT32] = { -0x1p24, 0x1p24 },
    [ONNX__TENSOR_PROTO__DATA_TYPE__INT64] = { -0x1p24, 0x1p24 },
    [21 /* UINT4 */] = { 0, 15 },
    [ONNX__TENSOR_PROTO__DATA_TYPE__UINT8] = { 0, 255 },
    [ONNX__TENSOR_PROTO__DATA_TYPE__UINT16] = { 0, 65535 },
    [ONNX__TENSOR_PROTO__DATA_TYPE__UINT32] = { 0, 0x1p24 },
    [ONNX__TENSOR_PROTO__DATA_TYPE__UINT64] = { 0, 0x1p24 },
};

void wm_draw_domain (wm_drawer_t *self, uint32_t p, wm_draw_domain_t *domain)
{
    const uint16_t type = self->port[p].type;
    *domain = (wm_draw_domain_t){ .low = -0x1p24, .high = 0x1p24 };
    if (type < sizeof whole_types / sizeof *whole_types && whole_types[type].high > 0) {
        domain->low = whole_types[type].low, domain->high = whole_types[type].high;
        domain->whole = true;
    }
    if (type >= 17 && type <= 24 && !domain->whole) { /* 4 or 8 bits */
        domain->low = type == 24 ? 1 : -2, domain->high = type == 24 ? 1 : 2;
        domain->coarse = true;
    }
    way_t way = { .drawer = self, .domain = domain, .looks = LOOKS };
    look (&way, self->port[p].name, AS_THEY_ARE);
}
