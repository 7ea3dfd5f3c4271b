/* wm_madds.c - see wm_madds.h.

   Only OpenVINO knows the sizes of the values inside a network, because it infers the shapes of
   every operator. One call gets them all, for a file that has these values as outputs: the nodes
   are visited twice, first to collect the values whose shapes they need, then with the shapes. The
   shapes of weights are in the file.

   Nodes of other kinds (activations, pools, sums) cost little compared with these; one that may do
   such work in a way that is not known here makes the count unknown.  */
#include "kernels/import/wm_madds.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    wm_onnx_t *onnx;
    uint32_t *question;               /* (n_value) number of a value, from 1; 0: not needed */
    const char *inner[WM_SHAPES_MAX]; /* (n) */
    wm_port_t *answer;                /* (n); NULL: still collecting */
    uint32_t n;
    char *broken;
} counter_t;

static uint64_t unknown (counter_t *self, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
static uint64_t unknown (counter_t *self, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    if (!*self->broken)
        vsnprintf (self->broken, 160, format, arguments);
    va_end (arguments);
    return 0;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Reads the dimensions of a tensor of the file. false: larger than a model.  */
static bool shape_of_tensor (const Onnx__TensorProto *tensor, wm_port_t *shape)
{
    uint64_t n = 1;
    *shape = (wm_port_t){ .n_dim = (uint8_t) tensor->n_dims };
    if (tensor->n_dims > WM_MODEL_DIMS_MAX)
        return false;
    for (size_t d = 0; d < tensor->n_dims; d++) {
        const int64_t size = tensor->dims[d];
        if (size < 1 || size > UINT32_MAX || (n *= (uint64_t) size) > UINT32_MAX)
            return false;
        shape->dim[d] = (uint32_t) size;
    }
    shape->n_value = (uint32_t) n;
    return true;
}

/* Collects a value whose shape is needed, or returns the shape.  */
static bool query (counter_t *self, int64_t value, wm_port_t *shape)
{
    if (!self->question[value]) {
        if (self->n == WM_SHAPES_MAX)
            return (int) unknown (self, "more than %u values' shapes are needed", WM_SHAPES_MAX);
        self->inner[self->n++] = self->onnx->value[value].name;
        self->question[value] = self->n;
    }
    if (self->answer)
        *shape = self->answer[self->question[value] - 1];
    return true;
}

/* The node that makes a value, if it is one of these two.  */
static const Onnx__NodeProto *made_by (const counter_t *self, int64_t value, const char *op,
                                       const char *another)
{
    const Onnx__NodeProto *node = value < 0 ? NULL : self->onnx->value[value].node;
    return node && node->n_input &&
                   (!strcmp (wm_onnx_op (node), op) || !strcmp (wm_onnx_op (node), another))
               ? node
               : NULL;
}

/* The shape of a value; of one that is collected it is left as it was. Inside what a node of
   TensorFlow became (named "node|part"), weights are that node's, turned, and a result has as many
   values as that node's.  */
static bool shape_of (counter_t *self, const char *name, wm_port_t *shape)
{
    const Onnx__AttributeProto *turn = NULL;
    const Onnx__NodeProto *maker;
    const char *bar = self->onnx->tensorflow ? strchr (name, '|') : NULL;
    int64_t value = wm_onnx_find (self->onnx, name);
    char own[1024];
    if (bar && (maker = made_by (self, value, "Transpose", ""))) {
        turn = wm_onnx_attribute (maker, "perm");
        value = wm_onnx_find (self->onnx, maker->input[0]);
    } else if (bar) {
        snprintf (own, sizeof own, "%.*s", (int) (bar - name), name);
        value = wm_onnx_find (self->onnx, own);
    }
    while ((maker = made_by (self, value, "Identity", "Cast")))
        value = wm_onnx_find (self->onnx, maker->input[0]);
    if (value < 0)
        return false;
    const Onnx__TensorProto *tensor = self->onnx->value[value].initializer;
    if (tensor ? !shape_of_tensor (tensor, shape) : !query (self, value, shape))
        return false;
    const wm_port_t plain = *shape;
    for (size_t d = 0; turn && d < plain.n_dim && d < turn->n_ints; d++)
        shape->dim[d] = plain.dim[(uint64_t) turn->ints[d] % plain.n_dim];
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

typedef enum {
    CONV,      /* weights (out, in / groups, kernel...): each value of the result takes w / out */
    TURNED,    /* weights (in, out / groups, kernel...): each value of the input takes w / in */
    PRODUCT,   /* the second factor (..., k, n) or turned, or (k): each of the result takes k */
    RECURRENT, /* of x (steps, 1, n) each step takes the weights of input and of state */
    TF_CONV,   /* weights (kernel..., in / groups, out) */
    TF_DEPTH,  /* weights (rows, columns, in, times) */
    TF_TURNED, /* third input; weights (kernel..., out, in) */
} rule_t;

static const struct {
    const char *op;
    bool tensorflow; /* a node that was not rewritten */
    rule_t rule;
} table[] = {
    { "Conv", false, CONV },
    { "ConvTranspose", false, TURNED },
    { "GRU", false, RECURRENT },
    { "Gemm", false, PRODUCT },
    { "LSTM", false, RECURRENT },
    { "MatMul", false, PRODUCT },
    { "RNN", false, RECURRENT },
    { "BatchMatMul", true, PRODUCT },
    { "BatchMatMulV2", true, PRODUCT },
    { "BatchMatMulV3", true, PRODUCT },
    { "Conv2DBackpropInput", true, TF_TURNED },
    { "Conv3D", true, TF_CONV },
    { "Conv3DBackpropInputV2", true, TF_TURNED },
    { "DepthwiseConv2dNative", true, TF_DEPTH },
};
#define RULES (sizeof table / sizeof *table)

static bool is_of (const Onnx__NodeProto *node, const char *domain)
{
    return node->domain && !strcmp (node->domain, domain);
}

static size_t rule_of (const Onnx__NodeProto *node)
{
    const int tensorflow = is_of (node, "tensorflow"),
              plain = !node->domain || !*node->domain || is_of (node, "ai.onnx");
    size_t k = 0;
    while (k < RULES &&
           (strcmp (wm_onnx_op (node), table[k].op) || !(table[k].tensorflow ? tensorflow : plain)))
        k++;
    return k;
}

/* Whether a node without a rule may hide such work: by a word of its operator, a graph inside it,
   or a private operator set.  */
static bool may_hide (const Onnx__NodeProto *node)
{
    static const char *const part[] = { "Conv",  "MatMul", "Gemm",     "Einsum", "LSTM",
                                        "GRU",   "RNN",    "FFT",      "DFT",    "STFT",
                                        "While", "Call",   "Attention" };
    static const char *const whole[] = { "If", "StatelessIf", "Case", "Loop", "Scan" };
    const char *op = wm_onnx_op (node);
    for (size_t k = 0; k < sizeof part / sizeof *part; k++)
        if (strstr (op, part[k]))
            return true;
    for (size_t k = 0; k < sizeof whole / sizeof *whole; k++)
        if (!strcmp (op, whole[k]))
            return true;
    return node->domain && *node->domain && !is_of (node, "ai.onnx") &&
           !is_of (node, "ai.onnx.ml") && !is_of (node, "tensorflow");
}

/* Multiply-adds of a node. 0: none, or unknown.  */
static uint64_t madds_of (counter_t *self, const Onnx__NodeProto *node)
{
    const size_t k = rule_of (node);
    if (k == RULES)
        return may_hide (node) ? unknown (self, "those of node '%.60s' (%.40s)",
                                          wm_onnx_node_name (node), wm_onnx_op (node))
                               : 0;
    const rule_t rule = table[k].rule;
    const int reads = rule == TURNED || rule == TF_TURNED || rule == RECURRENT;
    const size_t from = rule == TF_TURNED ? 2 : 0, least = rule == RECURRENT ? 3 : from + 1;
    wm_port_t x = { .n_dim = 0 }, w = x, r = x;
    const bool is_whole = node->n_input >= 2 && node->n_input >= least && node->n_output &&
                          shape_of (self, reads ? node->input[from] : node->output[0], &x) &&
                          shape_of (self, node->input[1], &w) &&
                          (rule != RECURRENT || shape_of (self, node->input[2], &r));
    if (is_whole && !self->answer)
        return 0; /* collected */
    if (!is_whole || !w.n_dim || (!x.n_dim && (w.n_dim > 1 || rule == RECURRENT)) ||
        (rule == TF_DEPTH && w.n_dim != 4))
        return unknown (self, "the inputs of node '%.60s' (%.40s)", wm_onnx_node_name (node),
                        wm_onnx_op (node));
    uint64_t each = w.n_value, count;
    if (rule == CONV || rule == TURNED)
        each /= w.dim[0];
    else if (rule == PRODUCT && w.n_dim > 1)
        each = (uint64_t) w.dim[w.n_dim - 1] * w.dim[w.n_dim - 2] / x.dim[x.n_dim - 1];
    else if (rule == RECURRENT)
        each += r.n_value, x.n_value /= x.dim[x.n_dim - 1];
    else if (rule == TF_CONV || rule == TF_TURNED)
        each /= w.dim[w.n_dim - 1];
    else if (rule == TF_DEPTH)
        each = (uint64_t) w.dim[0] * w.dim[1];
    return __builtin_mul_overflow (x.n_value, each, &count) ? unknown (self, "too many") : count;
}

/* ---- together -------------------------------------------------------------------------------- */

/* Of all nodes that depend on the inputs: the others are computed once, when the model is
   opened.  */
static uint64_t sum (counter_t *self, const uint8_t *fed)
{
    uint64_t all = 0;
    for (size_t i = 0; i < self->onnx->n_node; i++) {
        const Onnx__NodeProto *node = self->onnx->node[i];
        int live = 0;
        for (size_t k = 0; k < node->n_input && !live; k++) {
            const int64_t v = wm_onnx_find (self->onnx, node->input[k]);
            live = v >= 0 && fed[v];
        }
        if (live && __builtin_add_overflow (all, madds_of (self, node), &all))
            return unknown (self, "too many");
    }
    return *self->broken ? 0 : all;
}

uint64_t wm_madds_count (wm_onnx_t *onnx, const wm_backend_t *openvino, const wm_port_t *input,
                         uint32_t n_input, char broken[160])
{
    counter_t self = { .onnx = onnx, .broken = broken };
    const uint8_t *fed = wm_onnx_fed (onnx);
    wm_error_t error = { 0 };
    const void *bytes;
    size_t size;
    *broken = 0;
    self.question = wm_arena_take (&onnx->arena, onnx->n_value, sizeof *self.question);
    if (!fed || !self.question)
        return unknown (&self, "no memory");
    sum (&self, fed);
    if (!self.n)
        return unknown (&self, "it has no layers that have any");
    if (*broken)
        return 0;
    wm_port_t *answer = wm_arena_take (&onnx->arena, self.n, sizeof *answer);
    for (size_t k = 0; answer && k < self.n; k++)
        snprintf (answer[k].name, sizeof answer[k].name, WM_ONNX_INNER, k);
    if (!answer || wm_onnx_pack (onnx, self.inner, self.n, &bytes, &size, &error))
        return unknown (&self, "no memory");
    if (openvino->shape (bytes, size, input, n_input, answer, self.n, 1, &error))
        return unknown (&self, "the shape of a layer is not known, or not fixed");
    self.answer = answer;
    return sum (&self, fed);
}
