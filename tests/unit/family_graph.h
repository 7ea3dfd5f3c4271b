/* family_graph.h - the small network of small_net.h as ONNX, in every way that exporters write
   it.  */
#ifndef FAMILY_GRAPH_H
#define FAMILY_GRAPH_H

#include "tests/unit/onnx_graph.h"
#include "tests/unit/small_net.h"

static void save_graph (graph_t *g)
{
    size_t size;
    uint8_t *bytes = packed (g, &size);
    save (bytes, size);
    free (bytes);
    wm_arena_clear (&g->arena);
}

/* ---- the network, as exporters write it ------------------------------------------------------ */

#define WAYS(X)                                                                                    \
    X (NCHW)       /* input (N, 1, h, w) */                                                        \
    X (CHW)        /* flattened in (filter, row, column) order */                                  \
    X (RESHAPE)    /* flattened by Shape, Gather, Unsqueeze, Concat, Reshape */                    \
    X (PRODUCT)    /* flattened by Shape, Slice, ReduceProd, Concat, Reshape */                    \
    X (MATMUL)     /* MatMul and Add for Gemm */                                                   \
    X (TRANSB)     /* weights (out, in): transB, or a Transpose node before MatMul */              \
    X (ALPHA)      /* Gemm with alpha 0.5 and beta 2 */                                            \
    X (NOOPS)      /* Identity, Dropout, Cast */                                                   \
    X (FLOAT_DATA) /* float_data for raw_data */                                                   \
    X (DOUBLE)     /* double weights */                                                            \
    X (HALF)       /* float16 weights */                                                           \
    X (INPUTS)     /* weights listed among the inputs too */                                       \
    X (REVERSED)   /* nodes in reverse order */                                                    \
    X (BIAS_ADD)   /* convolution's bias by Add, before the transpose */                           \
    X (BIAS_NHWC)  /* convolution's bias by Add, behind it */                                      \
    X (CONSTANTS)  /* weights by Constant nodes */                                                 \
    X (HWIO)       /* convolution's weights turned by a Transpose node */                          \
    X (CONCAT)     /* both heads in one output */                                                  \
    X (FIXED)      /* batch fixed at 1 */                                                          \
    X (FLAT_INPUT) /* input (N, h w), reshaped */                                                  \
    X (RANK3)      /* input (N, h, w), unsqueezed */

#include "tests/unit/ways.h"

static uint16_t to_half (float f)
{
    uint32_t bits;
    memcpy (&bits, &f, 4);
    int exponent = (int) (bits >> 23 & 255) - 112;
    uint32_t sign = bits >> 16 & 0x8000, mantissa = bits & 0x7fffff;
    if (exponent <= 0) /* the test's numbers are exact as halves, small ones as subnormals */
        return (uint16_t) (sign | (exponent < -10 ? 0 : (mantissa | 0x800000) >> (14 - exponent)));
    return (uint16_t) (sign | (uint32_t) exponent << 10 | mantissa >> 13);
}

/* A weight tensor in the number format and the place that `ways` asks for.  */
static void constant (graph_t *g, const char *name, size_t n_dim, const int64_t *dim,
                      const float *value)
{
    size_t n = 1;
    for (size_t d = 0; d < n_dim; d++)
        n *= (size_t) dim[d];
    Onnx__TensorProto *t = tensor (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, n_dim, dim);
    if (g->ways & DOUBLE) {
        t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE;
        t->n_double_data = n;
        t->double_data = take (g, n, sizeof (double));
        for (size_t i = 0; i < n; i++)
            t->double_data[i] = (double) value[i];
    } else if (g->ways & HALF && g->ways & FLOAT_DATA) {
        t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
        t->n_int32_data = n;
        t->int32_data = take (g, n, sizeof (int32_t));
        for (size_t i = 0; i < n; i++)
            t->int32_data[i] = to_half (value[i]);
    } else if (g->ways & HALF) {
        uint16_t *half = take (g, n, sizeof *half);
        for (size_t i = 0; i < n; i++)
            half[i] = to_half (value[i]);
        t->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
        t->has_raw_data = 1;
        t->raw_data = (ProtobufCBinaryData){ 2 * n, (uint8_t *) half };
    } else if (g->ways & FLOAT_DATA) {
        t->n_float_data = n;
        t->float_data = memcpy (take (g, n, 4), value, 4 * n);
    } else {
        t->has_raw_data = 1;
        t->raw_data = (ProtobufCBinaryData){ 4 * n, memcpy (take (g, n, 4), value, 4 * n) };
    }
    if (g->ways & CONSTANTS) {
        Onnx__AttributeProto *a = attribute (g, node (g, "Constant", "", name), "value");
        a->has_type = 1;
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
        a->t = t;
        return;
    }
    add_tensor (g, t);
    if (g->ways & INPUTS)
        input (g, name, n_dim, dim);
}

static void integers (graph_t *g, const char *name, size_t n_dim, size_t n, const int64_t *value)
{
    Onnx__TensorProto *t =
        tensor (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, n_dim, &(int64_t){ (int64_t) n });
    t->n_int64_data = n;
    t->int64_data = memcpy (take (g, n, 8), value, 8 * n);
    add_tensor (g, t);
}

/* Something that changes nothing, or the value itself; `into` gets the result's name.  */
static const char *noop (graph_t *g, const char *op, const char *value, const char *into)
{
    if (!(g->ways & NOOPS))
        return value;
    Onnx__NodeProto *n = node (g, op, value, into);
    if (!strcmp (op, "Cast"))
        set_int (g, n, "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    return into;
}

static const char *add_input (graph_t *g)
{
    int64_t n = g->ways & FIXED ? 1 : -1;
    if (g->ways & FLAT_INPUT) {
        input (g, "patch", INTS (n, H * W));
        integers (g, "image_shape", 1, INTS (-1, 1, H, W));
        node (g, "Reshape", "patch image_shape", "image");
    } else if (g->ways & RANK3) {
        input (g, "patch", INTS (n, H, W));
        integers (g, "axes", 1, INTS (1));
        node (g, "Unsqueeze", "patch axes", "image");
    } else if (g->ways & NCHW) {
        input (g, "patch", INTS (n, 1, H, W));
        return "patch";
    } else {
        input (g, "patch", INTS (n, H, W, 1));
        set_ints (g, node (g, "Transpose", "patch", "image"), "perm", INTS (0, 3, 1, 2));
    }
    return "image";
}

static const char *add_conv (graph_t *g, const char *image)
{
    float w[F * K * K], b[F];
    char names[100];
    for (unsigned f = 0; f < F; f++)
        for (unsigned y = 0; y < K; y++)
            for (unsigned x = 0; x < K; x++)
                w[g->ways & HWIO ? (y * K + x) * F + f : (f * K + y) * K + x] =
                    (float) conv_weight (f, y, x);
    for (unsigned f = 0; f < F; f++)
        b[f] = (float) weight (1, f);
    if (g->ways & HWIO) {
        constant (g, "conv_hwio", INTS (K, K, 1, F), w);
        set_ints (g, node (g, "Transpose", "conv_hwio", "conv_w"), "perm", INTS (3, 2, 0, 1));
    } else
        constant (g, "conv_w", INTS (F, 1, K, K), w);
    int added = (g->ways & (BIAS_ADD | BIAS_NHWC)) != 0;
    if (g->ways & BIAS_ADD)
        constant (g, "conv_b", INTS (1, F, 1, 1), b);
    else
        constant (g, "conv_b", INTS (F), b);
    snprintf (names, sizeof names, "%s conv_w %s", image, added ? "" : "conv_b");
    set_ints (g, node (g, "Conv", names, "conv"), "strides", INTS (1, 1));
    const char *value = "conv";
    if (g->ways & BIAS_ADD) {
        node (g, "Add", "conv_b conv", "conv_sum");
        value = "conv_sum";
    }
    if (!(g->ways & CHW) || g->ways & BIAS_NHWC) {
        set_ints (g, node (g, "Transpose", value, "nhwc"), "perm", INTS (0, 2, 3, 1));
        value = "nhwc";
    }
    if (g->ways & BIAS_NHWC && !(g->ways & BIAS_ADD)) {
        node (g, "Add", "nhwc conv_b", "nhwc_sum");
        value = "nhwc_sum";
    }
    node (g, "Relu", value, "conv_act");
    if (g->ways & CHW && g->ways & BIAS_NHWC) {
        set_ints (g, node (g, "Transpose", "conv_act", "nchw"), "perm", INTS (0, 3, 1, 2));
        return "nchw";
    }
    return noop (g, "Identity", "conv_act", "conv_same");
}

static const char *add_flatten (graph_t *g, const char *value)
{
    char names[100];
    if (g->ways & (RESHAPE | PRODUCT)) {
        node (g, "Shape", value, "shape");
        integers (g, "minus_one", 1, INTS (-1));
        if (g->ways & PRODUCT) {
            integers (g, "from", 1, INTS (1));
            integers (g, "to", 1, INTS (4));
            node (g, "Slice", "shape from to", "tail");
            node (g, "ReduceProd", "tail", "product");
            set_int (g, node (g, "Concat", "minus_one product", "target"), "axis", 0);
        } else {
            integers (g, "zero", 0, INTS (0));
            integers (g, "zero_axis", 1, INTS (0));
            node (g, "Gather", "shape zero", "batch");
            node (g, "Unsqueeze", "batch zero_axis", "batch_1");
            set_int (g, node (g, "Concat", "batch_1 minus_one", "target"), "axis", 0);
        }
        snprintf (names, sizeof names, "%s target", value);
        node (g, "Reshape", names, "flat");
    } else if (g->ways & FIXED) {
        integers (g, "target", 1, INTS (1, -1));
        snprintf (names, sizeof names, "%s target", value);
        node (g, "Reshape", names, "flat");
    } else
        node (g, "Flatten", value, "flat");
    return noop (g, "Dropout", "flat", "flat_kept");
}

/* A dense layer: weights (n_in, n_out) in the order of its input.  */
static void add_dense (graph_t *g, const char *in, const char *out, unsigned n_in, unsigned n_out,
                       const float *w, const float *b)
{
    char name[5][64], names[200];
    snprintf (name[0], 64, "%s_w", out);
    snprintf (name[1], 64, "%s_b", out);
    snprintf (name[2], 64, "%s_t", out);
    snprintf (name[3], 64, "%s_product", out);
    unsigned turned = g->ways & TRANSB, scaled = g->ways & ALPHA && !(g->ways & MATMUL);
    float *v = take (g, (size_t) n_in * n_out, 4), *c = take (g, n_out, 4);
    for (unsigned k = 0; k < n_in; k++)
        for (unsigned o = 0; o < n_out; o++)
            v[turned ? o * n_in + k : k * n_out + o] = w[k * n_out + o] * (scaled ? 2 : 1);
    for (unsigned o = 0; o < n_out; o++)
        c[o] = b[o] / (scaled ? 2 : 1);
    constant (g, name[0], 2, (int64_t[]){ turned ? n_out : n_in, turned ? n_in : n_out }, v);
    constant (g, name[1], INTS (n_out), c);
    if (g->ways & MATMUL) {
        if (turned)
            node (g, "Transpose", name[0], name[2]);
        snprintf (names, sizeof names, "%s %s", in, turned ? name[2] : name[0]);
        node (g, "MatMul", names, name[3]);
        snprintf (names, sizeof names, "%s %s", name[3], name[1]);
        node (g, "Add", names, out);
        return;
    }
    snprintf (names, sizeof names, "%s %s %s", in, name[0], name[1]);
    Onnx__NodeProto *gemm = node (g, "Gemm", names, out);
    if (turned)
        set_int (g, gemm, "transB", 1);
    if (scaled) {
        set_float (g, gemm, "alpha", 0.5f);
        set_float (g, gemm, "beta", 2);
    }
}

static void add_denses (graph_t *g, const char *flat)
{
    const denses_t d = denses (g->ways & CHW);
    add_dense (g, flat, "fc", FLAT, D, d.fc, d.fc_bias);
    node (g, "Tanh", "fc", "fc_act");
    const char *value = noop (g, "Cast", "fc_act", "fc_cast");
    add_dense (g, value, "cls", D, 3, d.cls, d.cls_bias);
    add_dense (g, value, "mic", D, 1, d.mic, d.mic_bias);
}

static void reverse (graph_t *g)
{
    for (size_t i = 0; i < g->n_node / 2; i++) {
        Onnx__NodeProto *n = g->node[i];
        g->node[i] = g->node[g->n_node - 1 - i];
        g->node[g->n_node - 1 - i] = n;
    }
}

static graph_t family (unsigned ways)
{
    graph_t g = { .ways = ways };
    add_denses (&g, add_flatten (&g, add_conv (&g, add_input (&g))));
    int64_t n = ways & FIXED ? 1 : -1;
    set_int (&g, node (&g, "Softmax", "cls", "em_trk_none"), "axis", 1);
    node (&g, "Sigmoid", "mic", "michel");
    if (ways & CONCAT) {
        set_int (&g, node (&g, "Concat", "em_trk_none michel", "all"), "axis", -1);
        output (&g, "all", INTS (n, 4));
    } else {
        output (&g, "em_trk_none", INTS (n, 3));
        output (&g, "michel", INTS (n, 1));
    }
    if (ways & REVERSED)
        reverse (&g);
    return g;
}

/* ---- changing it ----------------------------------------------------------------------------- */

static inline Onnx__NodeProto *find (graph_t *g, const char *op)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (!strcmp (g->node[i]->op_type, op))
            return g->node[i];
    fail_msg ("no %s", op);
    return NULL;
}

/* Puts a node behind the first `op`: everything that read it reads the new node.  */
static inline Onnx__NodeProto *behind (graph_t *g, const char *op, const char *new_op,
                                       const char *more)
{
    char names[100];
    char *old = find (g, op)->output[0];
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i]->n_input; k++)
            if (!strcmp (g->node[i]->input[k], old))
                g->node[i]->input[k] = copy (g, "inserted");
    snprintf (names, sizeof names, "%s %s", old, more);
    return node (g, new_op, names, "inserted");
}

#endif
