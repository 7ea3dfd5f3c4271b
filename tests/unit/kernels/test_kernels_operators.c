/* test_kernels_operators.c - every operator that the family takes behind a layer is the one of
   ONNX's definition: with its attributes left out, given, and written as several nodes.

   Each row is a piece of graph between x and y, and the function that ONNX defines for it, in
   double. It takes the place of the convolution's ReLU, and of the dense layer's tanh; the scores
   of the imported model must be those of the network with this function. What is computed of
   constants alone is compared with results by hand.  */
#include "tests/unit/family_graph.h"

#define PER_CHANNEL(first, c) ((first) * (1 + (c) / 4.)) /* what "first*" in a row is */

/* ---- ONNX's definitions ---------------------------------------------------------------------- */

static double between (double x, double low, double high)
{
    return fmin (fmax (x, low), high);
}
static double elu (double x, double alpha)
{
    return x < 0 ? alpha * expm1 (x) : x;
}
static double swish (double x, double alpha)
{
    return x / (1 + exp (-alpha * x));
}
static double softplus (double x)
{
    return log1p (exp (x));
}
static double normalised (double x, unsigned c, double epsilon)
{
    return PER_CHANNEL (0.03125, c) * (x - PER_CHANNEL (0.25, c)) /
               sqrt (PER_CHANNEL (0x1p-10, c) + epsilon) -
           PER_CHANNEL (0.125, c);
}

/* A bend_t of x and c.  */
#define FUNCTION(name, ...)                                                                        \
    static double name (double x, unsigned c)                                                      \
    {                                                                                              \
        (void) c;                                                                                  \
        return __VA_ARGS__;                                                                        \
    }
FUNCTION (leaky, x < 0 ? 0.01 * x : x)
FUNCTION (leaky_3, x < 0 ? 0.375 * x : x)
FUNCTION (elu_1, elu (x, 1))
FUNCTION (elu_half, elu (x, 0.5))
FUNCTION (selu, 1.0507009873554804934 * elu (x, 1.6732632423543772848))
FUNCTION (selu_2, 0.75 * elu (x, 2))
FUNCTION (hard_sigmoid, between (0.2 * x + 0.5, 0, 1))
FUNCTION (hard_sigmoid_2, between (0.375 * x + 0.25, 0, 1))
FUNCTION (hard_swish, x *between (x / 6 + 0.5, 0, 1))
FUNCTION (mish, x *tanh (softplus (x)))
FUNCTION (soft, softplus (x))
FUNCTION (silu, swish (x, 1))
FUNCTION (silu_2, swish (x, 2))
FUNCTION (logistic, 1 / (1 + exp (-x)))
FUNCTION (gelu, x / 2 * (1 + erf (x / sqrt (2))))
FUNCTION (gelu_tanh,
          x / 2 * (1 + tanh (0.7978845608028654 * (x + 0.044715 * x * x * x)))) /* sqrt (2 / pi) */
FUNCTION (clip, between (x, -0.25, 0.5))
FUNCTION (clip_6, between (x, 0, 0.375))
FUNCTION (relu, fmax (x, 0))
FUNCTION (tangent, tanh (x))
FUNCTION (norm, normalised (x, c, 1e-5))
FUNCTION (norm_16, normalised (x, c, 0.0625))
FUNCTION (add, tanh (x + PER_CHANNEL (0.25, c)))
FUNCTION (sub, tanh (x - PER_CHANNEL (0.25, c)))
FUNCTION (from, tanh (PER_CHANNEL (0.25, c) - x))
FUNCTION (mul, tanh (x *PER_CHANNEL (0.25, c)))
FUNCTION (divided, tanh (x / PER_CHANNEL (4, c)))
FUNCTION (behind_it, ((tanh (x) - 0.5) * PER_CHANNEL (0.5, c) + 0.25) / 2)
FUNCTION (turned, 0.5 - PER_CHANNEL (0.5, c) * (0.25 - tanh (x)))

/* ---- the rows -------------------------------------------------------------------------------- */

/* Nodes "OP INPUTS > OUTPUT NAME=VALUE ...", separated by ";". An input that begins as a number is
   a constant: 0.5, or 0.5* of one value for each channel; 0.5| is the same as a plain list, also of
   a convolution. A value that is no number is a text.  */
static const struct {
    const char *nodes;
    bend_t *is; /* NULL: the family has no such activation */
} rows[] = {
    { "Relu x > y", relu },
    { "Tanh x > y", tangent },
    { "Sigmoid x > y", logistic },
    { "LeakyRelu x > y", leaky },
    { "LeakyRelu x > y alpha=0.375", leaky_3 },
    { "PRelu x 0.375 > y", leaky_3 },
    { "PRelu x 0.375* > y", NULL },
    { "Elu x > y", elu_1 },
    { "Elu x > y alpha=0.5", elu_half },
    { "Selu x > y", selu },
    { "Selu x > y alpha=2 gamma=0.75", selu_2 },
    { "HardSigmoid x > y", hard_sigmoid },
    { "HardSigmoid x > y alpha=0.375 beta=0.25", hard_sigmoid_2 },
    { "HardSwish x > y", hard_swish },
    { "Mish x > y", mish },
    { "Softplus x > y", soft },
    { "Swish x > y", silu },
    { "Swish x > y alpha=2", silu_2 },
    { "Gelu x > y", gelu },
    { "Gelu x > y approximate=none", gelu },
    { "Gelu x > y approximate=tanh", gelu_tanh },
    { "Clip x -0.25 0.5 > y", clip },
    { "Clip x > y min=-0.25 max=0.5", clip },
    { "Clip x 0 0.375 > y", clip_6 },
    { "Clip x 0 > y", relu },
    { "Clip x > y min=0", relu },
    { "Clip x - 0.5 > y", NULL },
    { "Clip x 0.5 0.25 > y", NULL }, /* crossed */
    { "BatchNormalization x 0.03125| -0.125| 0.25| 0.0009765625| > y", norm },
    { "BatchNormalization x 0.03125| -0.125| 0.25| 0.0009765625| > y epsilon=0.0625", norm_16 },
    { "Add x 0.25* > z; Tanh z > y", add },
    { "Add 0.25* x > z; Tanh z > y", add },
    { "Sub x 0.25* > z; Tanh z > y", sub },
    { "Sub 0.25* x > z; Tanh z > y", from },
    { "Mul x 0.25* > z; Tanh z > y", mul },
    { "Mul 0.25* x > z; Tanh z > y", mul },
    { "Div x 4* > z; Tanh z > y", divided },
    { "Div 4* x > z; Tanh z > y", NULL },
    { "Tanh x > a; Sub a 0.5 > b; Mul b 0.5* > d; Add d 0.25 > e; Div e 2 > y", behind_it },
    { "Tanh x > a; Sub 0.25 a > b; Mul b 0.5* > d; Sub 0.5 d > y", turned },
    /* as several nodes */
    { "Sigmoid x > a; Mul x a > y", silu },
    { "Mul x 2 > s; Sigmoid s > a; Mul a x > y", silu_2 },
    { "Neg x > a; Exp a > b; Add b 1 > d; Div x d > y", silu },
    { "Sub 0 x > a; Exp a > b; Add 1 b > d; Reciprocal d > e; Mul x e > y", silu },
    { "HardSigmoid x > a alpha=0.16666667 beta=0.5; Mul x a > y", hard_swish },
    { "HardSigmoid x > a alpha=0.16666667; Mul a x > y", hard_swish },
    { "HardSigmoid x > a; Mul a x > y", NULL }, /* alpha is 0.2 */
    { "HardSigmoid x > a beta=0.5; Mul a x > y", NULL },
    { "HardSigmoid x > a alpha=0.16666667 beta=0; Mul a x > y", NULL },
    { "Add x 3 > a; Clip a 0 6 > b; Mul x b > d; Div d 6 > y", hard_swish },
    { "Add x 3 > a; Clip a > b min=0 max=6; Mul x b > d; Div d 6 > y", hard_swish },
    { "Add x 3 > a; Max a 0 > b; Min b 6 > d; Mul x d > e; Mul e 0.16666667 > y", hard_swish },
    { "Add x 3 > a; Relu a > b; Min 6 b > d; Mul x d > e; Mul e 0.16666667 > y", hard_swish },
    { "Softplus x > a; Tanh a > b; Mul x b > y", mish },
    { "Exp x > a; Add a 1 > b; Log b > d; Tanh d > e; Mul x e > y", mish },
    { "Div x 1.41421356 > a; Erf a > b; Add b 1 > d; Mul x d > e; Mul e 0.5 > y", gelu },
    { "Mul x -0.70710678 > a; Erfc a > b; Mul x b > d; Mul d 0.5 > y", gelu },
    { "Pow x 3 > a; Mul a 0.044715 > b; Add x b > d; Mul d 0.797884561 > e; Tanh e > f;"
      " Add f 1 > g; Mul x g > h; Mul h 0.5 > y",
      gelu_tanh },
};

/* ---- the graphs ------------------------------------------------------------------------------ */

/* Makes the constant that an input's text asks for. Returns the input's name.  */
static const char *operand (graph_t *g, const char *text, unsigned channels, bool is_image,
                            char name[16])
{
    static unsigned count;
    char *end;
    float value[D];
    const double first = strtod (text, &end);
    if (end == text)
        return text;
    for (unsigned c = 0; c < channels; c++)
        value[c] = (float) (*end ? PER_CHANNEL (first, c) : first);
    snprintf (name, 16, "k%u", count++);
    constant (g, name,
              !*end                     ? 0
              : is_image && *end == '*' ? 3
                                        : 1,
              (int64_t[]){ channels, 1, 1 }, value);
    return name;
}

static void add_attribute (graph_t *g, Onnx__NodeProto *n, char *text)
{
    char *value = strchr (text, '='), *end;
    *value++ = 0;
    const float number = strtof (value, &end);
    if (end != value) {
        set_float (g, n, text, number);
        return;
    }
    Onnx__AttributeProto *a = attribute (g, n, text);
    a->has_s = 1;
    a->s = (ProtobufCBinaryData){ strlen (value), (uint8_t *) copy (g, value) };
}

/* Adds the nodes of a row, which read `x`.  */
static void add_row (graph_t *g, const char *row, const char *x, unsigned channels, bool is_image)
{
    char *text = copy (g, row), *of_text, *of_node;
    for (char *one = strtok_r (text, ";", &of_text); one; one = strtok_r (NULL, ";", &of_text)) {
        char inputs[200] = "", name[16];
        const char *op = strtok_r (one, " ", &of_node), *word;
        while (strcmp (word = strtok_r (NULL, " ", &of_node), ">") != 0)
            snprintf (inputs + strlen (inputs), sizeof inputs - strlen (inputs), "%s ",
                      strcmp (word, "x") ? operand (g, word, channels, is_image, name) : x);
        Onnx__NodeProto *n = node (g, op, inputs, strtok_r (NULL, " ", &of_node));
        for (char *more; (more = strtok_r (NULL, " ", &of_node));)
            add_attribute (g, n, more);
    }
}

/* Imports the network with a row in the place of its ReLU or of its tanh, and compares.  */
static void check (size_t i, bool is_image)
{
    char why[480];
    wm_error_t error = { 0 };
    graph_t g = family (NCHW | CHW);
    Onnx__NodeProto *old = find (&g, is_image ? "Relu" : "Tanh");
    add_row (&g, rows[i].nodes, old->input[0], is_image ? F : D, is_image);
    old->op_type = copy (&g, "Identity");
    old->input[0] = copy (&g, "y");
    save_graph (&g);
    if (wm_import (model_path, NULL, wmm_path, why, &error))
        fail_msg ("%s: %s", rows[i].nodes, error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    if (!wm_model_net (model) != !rows[i].is)
        fail_msg ("%s: %s", rows[i].nodes, rows[i].is ? why : "taken for a known activation");
    const float *patch, *score;
    const uint32_t n = wm_model_known (model, &patch, &score);
    assert_true (!rows[i].is || n >= 4);
    for (uint32_t k = 0; k < n * 4; k++) {
        double want[4];
        expected_with (patch + k / 4 * H * W, is_image ? rows[i].is : as_relu,
                       is_image ? as_tanh : rows[i].is, want);
        if (!(fabs (want[k % 4] - (double) score[k]) < 2e-6))
            fail_msg ("%s%s: score %u is %.9g, not %.9g", rows[i].nodes,
                      is_image ? "" : ", of the dense layer", k, (double) score[k], want[k % 4]);
    }
    wm_model_destroy (&model);
}

static void behind_a_convolution (void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check (i, true);
}

static void behind_a_dense_layer (void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check (i, false);
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Operators of constants: "i3:1,2,3" is a list of integers, "i:1" one, "f1x2:1,2" are numbers of
   this shape, what has "=" an attribute.  */
static const struct {
    const char *node, *result; /* NULL: it is not folded */
} folds[] = {
    { "Identity f2:1,2", "f2:1,2" },
    { "Dropout f2:1,2", "f2:1,2" },
    { "Slice i4:10,20,30,40 i1:1 i1:3", "i2:20,30" },
    { "Slice i4:10,20,30,40 i1:1 i1:-1", "i2:20,30" },
    { "Slice i4:10,20,30,40 i1:-2 i1:100", "i2:30,40" },
    { "Slice i4:10,20,30,40 starts=0 ends=2", "i2:10,20" },
    { "Slice i4:10,20,30,40 i1:0 i1:4 i1:0 i1:1", "i4:10,20,30,40" },
    { "Slice i4:10,20,30,40 i1:0 i1:4 i1:0 i1:2", NULL },
    { "Slice i4:10,20,30,40 i1:-6 i1:2", NULL },
    { "Slice i4:10,20,30,40 i1:2 i1:2", NULL },
    { "Slice i4:10,20,30,40 i1:3 i1:1", NULL },
    { "Slice i2x2:10,20,30,40 i1:0 i1:1", NULL },
    { "Slice f4:10,20,30,40 i1:0 i1:1", NULL },
    { "Slice i4:10,20,30,40 i2:0,1 i2:1,2", NULL },
    { "Gather i3:10,20,30 i1:-1", "i1:30" },
    { "Gather i3:10,20,30 i2:2,-3", "i2:30,10" },
    { "Gather i3:10,20,30 i:1", "i:20" },
    { "Gather i3:10,20,30 i:3", NULL },
    { "Gather i3:10,20,30 i:-4", NULL },
    { "Gather i3:10,20,30 i1:0 axis=1", NULL },
    { "Gather f3:10,20,30 i1:0", NULL },
    { "Gather i3:10,20,30 i1x2:0,1", NULL },
    { "Gather i1x3:10,20,30 i1:0", NULL },
    { "Gather i3:10,20,30", NULL },
    { "Squeeze f1x2x1:1,2", "f2:1,2" },
    { "Squeeze f1x2x1:1,2 axes=0", "f2x1:1,2" },
    { "Squeeze f1x2x1:1,2 i1:-1", "f1x2:1,2" },
    { "Squeeze f1x1x2:1,2 i2:0,-2", "f2:1,2" },
    { "Squeeze f2x1:1,2 axes=0", NULL },
    { "Squeeze f1x2:1,2 axes=2", NULL },
    { "Squeeze f1x2:1,2 axes=-3", NULL },
    { "Unsqueeze f2:1,2 axes=0,2", "f1x2x1:1,2" },
    { "Unsqueeze f2:1,2 i1:-1", "f2x1:1,2" },
    { "Unsqueeze f2x3:1,2,3,4,5,6 i2:0,-1", "f1x2x3x1:1,2,3,4,5,6" },
    { "Unsqueeze f2:1,2", NULL },
    { "Unsqueeze f2:1,2 i1:2", NULL },
    { "Transpose f2x3:1,2,3,4,5,6", "f3x2:1,4,2,5,3,6" },
    { "Transpose f2x3:1,2,3,4,5,6 perm=0,1", "f2x3:1,2,3,4,5,6" },
    { "Transpose f1x2x3:1,2,3,4,5,6 perm=2,0,1", "f3x1x2:1,4,2,5,3,6" },
    { "Transpose f2x2x2:1,2,3,4,5,6,7,8 perm=0,2,1", "f2x2x2:1,3,2,4,5,7,6,8" },
    { "Transpose f2x3:1,2,3,4,5,6 perm=0", NULL },
    { "Transpose f2x3:1,2,3,4,5,6 perm=1,1", NULL },
    { "Transpose f2x3:1,2,3,4,5,6 perm=0,2", NULL },
    { "Transpose f2x3:1,2,3,4,5,6 perm=-1,0", NULL },
    { "Transpose i2x2:1,2,3,4", NULL },
    { "Reshape f2x3:1,2,3,4,5,6 i2:3,2", "f3x2:1,2,3,4,5,6" },
    { "Reshape f2x3:1,2,3,4,5,6 i2:0,-1", "f2x3:1,2,3,4,5,6" },
    { "Reshape f2x3:1,2,3,4,5,6 i1:-1", "f6:1,2,3,4,5,6" },
    { "Reshape f2x3:1,2,3,4,5,6 i1:5", NULL },
    { "Reshape f2x3:1,2,3,4,5,6 shape=3,2", "f3x2:1,2,3,4,5,6" },
    { "Reshape f2x3:1,2,3,4,5,6 i2:2,0", "f2x3:1,2,3,4,5,6" },
    { "Reshape f2x3:1,2,3,4,5,6 i2:-1,-1", NULL },
    { "Reshape f2x3:1,2,3,4,5,6 i3:0,3,0", NULL },
    { "Reshape f2x3:1,2,3,4,5,6 i2:-1,4", NULL },
    { "Reshape f2x3:1,2,3,4,5,6 i2:-2,3", NULL },
    { "Reshape f2x3:1,2,3,4,5,6", NULL },
    { "Concat i1:-1 i2:3,4", "i3:-1,3,4" },
    { "Concat f1:1 i1:2", NULL },
    { "Concat i2:1,2 i1x1:3", NULL },
    { "Shape f2x3:1,2,3,4,5,6", "i2:2,3" },
    { "Shape f:3", NULL },
    { "Shape f2x3:1,2,3,4,5,6 start=1", NULL },
    { "ReduceProd i3:2,3,4", "i1:24" },
    { "ReduceProd i3:2,3,4 keepdims=0", "i:24" },
    { "ReduceProd i2:0,4", NULL },
    { "ReduceProd i2:-2,-4", NULL },
    { "ReduceProd f2:3,4", NULL },
    { "ReduceProd i1x2:3,4", NULL },
    { "Mul i:3 i:4", "i:12" },
    { "Mul i1:3 i:4", "i1:12" },
    { "Mul i:3 i1:4", "i1:12" },
    { "Mul i:-3 i:4", NULL },
    { "Mul i:3 i:-4", NULL },
    { "Add i:3 i:4", NULL },
    { "Mul i2:3,4 i:2", NULL },
    { "Mul f:3 i:2", NULL },
    { "Mul i:3", NULL },
    { "Add f2:1,2 f:3", "f2:4,5" },
    { "Sub f:3 f2:1,2", "f2:2,1" },
    { "Sub f2:3,5 f2:1,2", "f2:2,3" },
    { "Mul f2:3,5 f1:2", "f2:6,10" },
    { "Div f2:1,2 f:4", "f2:0.25,0.5" },
    { "Add f2:1,2 f3:1,2,3", NULL },
    { "Add f2x1:1,2 f1x2:1,2", NULL },
    { "Sub f1:3 f:1", "f1:2" },
    { "Sub f:1 f1:3", "f1:-2" },
    { "Div f:8 f2:2,4", "f2:4,2" },
    { "Add f2:1,2", NULL },
    { "Sqrt f2:4,9", "f2:2,3" },
    { "Sqrt i2:4,9", NULL },
    { "Reciprocal f2:4,8", "f2:0.25,0.125" },
    { "Cast i2:1,2 to=1", "f2:1,2" },
    { "Cast i2:1,2 to=7", "i2:1,2" },
    { "Cast f2:1,2 to=7", NULL },
    { "Cast f2:1,2 to=1", "f2:1,2" },
    { "Cast f2:1,2 to=10", NULL },
    { "Cast i2:1,2 to=6", "i2:1,2" },
    { "Cast i2:1,2 to=10", NULL },
    { "Cast i2:16777216,-16777216 to=1", "f2:16777216,-16777216" },
    { "Cast i1:16777217 to=1", NULL },
    { "Cast i1:-16777217 to=1", NULL },
};

/* Numbers separated by commas. Returns how many.  */
static size_t numbers (const char *text, double value[8])
{
    size_t n = 0;
    for (char *end = (char *) text; *text && n < 8; text = *end ? end + 1 : end)
        value[n++] = strtod (text, &end);
    return n;
}

static wm_tensor_t *tensor_of (graph_t *g, const char *text)
{
    wm_tensor_t *t = take (g, 1, sizeof *t);
    double value[8];
    const char *colon = strchr (text, ':');
    for (const char *at = text + 1; at < colon; at += strcspn (at, "x:") + 1)
        t->dim[t->n_dim++] = atoi (at);
    t->n = numbers (colon + 1, value);
    int64_t *i = take (g, 8, sizeof *i);
    float *f = take (g, 8, sizeof *f);
    for (size_t k = 0; k < t->n; k++)
        i[k] = (int64_t) value[k], f[k] = (float) value[k];
    if (*text == 'i')
        t->i = i;
    else
        t->f = f;
    return t;
}

static void constants_are_folded (void **state)
{
    for (size_t k = 0; k < sizeof folds / sizeof *folds; k++) {
        graph_t g = { .ways = 0 };
        wm_tensor_t out;
        const wm_tensor_t *in[8] = { NULL };
        size_t n_in = 0;
        char *text = copy (&g, folds[k].node), *rest, *word = strtok_r (text, " ", &rest);
        Onnx__NodeProto *n = node (&g, word, "", "out");
        while ((word = strtok_r (NULL, " ", &rest))) {
            double value[8];
            int64_t list[8];
            char *equals = strchr (word, '=');
            if (!equals) {
                in[n_in++] = tensor_of (&g, word);
                continue;
            }
            *equals = 0;
            const size_t count = numbers (equals + 1, value);
            for (size_t i = 0; i < count; i++)
                list[i] = (int64_t) value[i];
            if (!strcmp (word, "keepdims") || !strcmp (word, "to") || !strcmp (word, "axis"))
                set_int (&g, n, word, list[0]);
            else
                set_ints (&g, n, word, count, list);
        }
        if (wm_tensor_fold (&g.arena, n, in, n_in, &out) != !!folds[k].result)
            fail_msg ("%s", folds[k].node);
        if (folds[k].result) {
            const wm_tensor_t *want = tensor_of (&g, folds[k].result);
            bool same = out.n == want->n && out.n_dim == want->n_dim && !out.f == !want->f;
            for (uint32_t d = 0; same && d < out.n_dim; d++)
                same = out.dim[d] == want->dim[d];
            for (size_t i = 0; same && i < out.n; i++)
                same = out.f ? out.f[i] == want->f[i] : out.i[i] == want->i[i];
            if (!same)
                fail_msg ("%s is not %s", folds[k].node, folds[k].result);
        }
        wm_arena_clear (&g.arena);
    }
}

/* What a file's constant is: of each type, in its own field or as raw bytes, and as long as its
   shape says; and what a node Constant may have instead.  */
static void constants_are_read (void **state)
{
    static const struct {
        int type;
        size_t n_raw;
        uint8_t raw[24]; /* 1.5 and -2 of reals, 3 and -4 of integers */
        bool is_integer, is_other;
        double first, second;
    } types[] = {
        { ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
          8,
          { 0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0 },
          false,
          false,
          1.5,
          -2 },
        { ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16, 4, { 0, 0x3e, 0, 0xc0 }, false, true, 1.5, -2 },
        { ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16,
          4,
          { 1, 0, 0, 0xfc },
          false,
          true,
          0x1p-24,
          -INFINITY },
        { ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16,
          4,
          { 0xc0, 0x3f, 0, 0xc0 },
          false,
          true,
          1.5,
          -2 },
        { ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE,
          16,
          { [6] = 0xf8, [7] = 0x3f, [15] = 0xc0 },
          false,
          true,
          1.5,
          -2 },
        { ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
          16,
          { 3, [8] = 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff },
          true,
          true,
          3,
          -4 },
        { ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
          8,
          { 3, 0, 0, 0, 0xfc, 0xff, 0xff, 0xff },
          true,
          true,
          3,
          -4 },
        { ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 2, { 1, 0 }, true, true, 1, 0 },
    };
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        for (int typed = 0; typed < 2; typed++)
            for (size_t n = 1; n <= 3; n++) { /* two values are there */
                graph_t g = { .ways = 0 };
                wm_tensor_t out;
                Onnx__TensorProto *t =
                    tensor (&g, "c", types[k].type, 1, &(int64_t){ (int64_t) n });
                void *raw = memcpy (take (&g, 24, 1), types[k].raw, 24);
                int32_t *words = take (&g, 2, sizeof *words);
                if (!typed)
                    t->has_raw_data = 1, t->raw_data = (ProtobufCBinaryData){ types[k].n_raw, raw };
                else if (types[k].type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
                    t->float_data = raw, t->n_float_data = 2;
                else if (types[k].type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE)
                    t->double_data = raw, t->n_double_data = 2;
                else if (types[k].type == ONNX__TENSOR_PROTO__DATA_TYPE__INT64)
                    t->int64_data = raw, t->n_int64_data = 2;
                else {
                    for (size_t i = 0; i < 2; i++)
                        words[i] = types[k].n_raw == 8   ? ((int32_t *) raw)[i]
                                   : types[k].n_raw == 4 ? ((uint16_t *) raw)[i]
                                                         : ((uint8_t *) raw)[i];
                    t->int32_data = words, t->n_int32_data = 2;
                }
                if (wm_tensor_read (&g.arena, t, &out) != (n == 2))
                    fail_msg ("type %d, %zu values", types[k].type, n);
                if (n == 2) {
                    assert_true (!out.i == !types[k].is_integer && !out.f == types[k].is_integer);
                    assert_true (out.n == 2 && out.n_dim == 1 && out.dim[0] == 2);
                    assert_true (out.is_other == types[k].is_other);
                    for (int i = 0; i < 2; i++)
                        assert_true ((out.i ? (double) out.i[i] : (double) out.f[i]) ==
                                     (i ? types[k].second : types[k].first));
                }
                wm_arena_clear (&g.arena);
            }
    static const char *const forms[] = { "value_int", "value_float", "value_ints", "value_floats",
                                         "value_string" };
    for (int k = 0; k < 5; k++) {
        graph_t g = { .ways = 0 };
        wm_tensor_t out;
        Onnx__NodeProto *n = node (&g, "Constant", "", "c");
        if (k < 2)
            set_int (&g, n, forms[k], 7), set_float (&g, n, forms[k], 1.5f);
        else
            set_ints (&g, n, forms[k], INTS (4, 5, 6));
        Onnx__AttributeProto *a = n->attribute[0];
        a->has_f = 1, a->f = 1.5f;
        a->floats = take (&g, 2, sizeof *a->floats);
        a->floats[0] = 2.5f, a->n_floats = 2;
        assert_true (wm_tensor_fold (&g.arena, n, NULL, 0, &out) == (k < 4));
        if (k < 4) {
            assert_int_equal (out.n, k < 2 ? 1 : 5 - k);
            assert_int_equal (out.n_dim, k / 2);
            assert_true (k < 2 || out.dim[0] == (int64_t) out.n);
            assert_true (k % 2 ? out.f && *out.f == (k == 1 ? 1.5f : 2.5f)
                               : out.i && *out.i == (k ? 4 : 7));
        }
        wm_arena_clear (&g.arena);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (behind_a_convolution),
        cmocka_unit_test (behind_a_dense_layer),
        cmocka_unit_test (constants_are_folded),
        cmocka_unit_test (constants_are_read),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
