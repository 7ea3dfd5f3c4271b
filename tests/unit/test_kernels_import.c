/* test_kernels_import.c - what the importer recognises, keeps for the general engine, and refuses.

   One small network of the family (8 x 10 patch, 3x3 convolution with 2 filters, a dense layer, two
   heads) is written in every way exporters write it, alone and in pairs; each must import as the
   family with the scores that `expected` computes from the definition. All weights are multiples of
   1/64, exact in every number format used.  */
#include "kernels/wm_import.h"
#include "kernels/wm_model.h"
#include "tests/unit/onnx_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { H = 8, W = 10, K = 3, F = 2, R = H - K + 1, C = W - K + 1, FLAT = R * C * F, D = 5 };

static char folder[] = "/tmp/wm-import-XXXXXX", onnx_path[64], wmm_path[64];

/* ---- the network, by definition - */

/* A weight: a multiple of 1/64 in (-1, 1), by layer and index; one is so small that it is a
   subnormal half.  */
static double weight (unsigned layer, unsigned index)
{
    if (layer == 5 && index == 0)
        return 0x1p-18;
    uint64_t z = (layer * 1000003u + index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 29) * 0xbf58476d1ce4e5b9u;
    return ((double) (z >> 40 & 127) - 64) / 64 + (z & 1 ? 0 : 1.0 / 64);
}

static double conv_weight (unsigned f, unsigned y, unsigned x)
{
    return weight (0, (f * K + y) * K + x) / 4;
}

/* k: index of the flattened convolution in (row, column, filter) order.  */
static double dense_weight (unsigned k, unsigned o)
{
    return weight (2, k * D + o) / 4;
}

static void expected (const float *patch, double score[4])
{
    double conv[FLAT], dense[D];
    for (unsigned r = 0; r < R; r++)
        for (unsigned c = 0; c < C; c++)
            for (unsigned f = 0; f < F; f++) {
                double sum = weight (1, f);
                for (unsigned y = 0; y < K; y++)
                    for (unsigned x = 0; x < K; x++)
                        sum += conv_weight (f, y, x) * (double) patch[(r + y) * W + c + x];
                conv[(r * C + c) * F + f] = fmax (sum, 0);
            }
    for (unsigned o = 0; o < D; o++) {
        dense[o] = weight (3, o);
        for (unsigned k = 0; k < FLAT; k++)
            dense[o] += conv[k] * dense_weight (k, o);
        dense[o] = tanh (dense[o]);
    }
    double sum = 0;
    for (unsigned o = 0; o < 4; o++) {
        score[o] = o < 3 ? weight (5, o) : weight (7, 0);
        for (unsigned k = 0; k < D; k++)
            score[o] += dense[k] * (o < 3 ? weight (4, k * 3 + o) : weight (6, k));
        score[o] = o < 3 ? exp (score[o]) : 1 / (1 + exp (-score[o]));
        sum += o < 3 ? score[o] : 0;
    }
    for (unsigned o = 0; o < 3; o++)
        score[o] /= sum;
}

static void save (const uint8_t *bytes, size_t size)
{
    FILE *file = fopen (onnx_path, "wb");
    assert_non_null (file);
    assert_int_equal (fwrite (bytes, 1, size, file), size);
    fclose (file);
}

static void save_graph (graph_t *g)
{
    size_t size;
    uint8_t *bytes = packed (g, &size);
    save (bytes, size);
    free (bytes);
    wm_arena_clear (&g->arena);
}

/* ---- the network, as exporters write it - */

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

enum {
#define BIT(name) BIT_##name,
    WAYS (BIT)
#undef BIT
        N_WAY
};
enum {
#define WAY(name) name = 1 << BIT_##name,
    WAYS (WAY)
#undef WAY
};
static const char *const way_name[] = {
#define NAME(name) #name,
    WAYS (NAME)
#undef NAME
};

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
    float w[FLAT * D], b[D], cls[D * 3], cls_b[3], mic[D], mic_b[1] = { (float) weight (7, 0) };
    for (unsigned r = 0; r < R; r++)
        for (unsigned c = 0; c < C; c++)
            for (unsigned f = 0; f < F; f++)
                for (unsigned o = 0; o < D; o++)
                    w[(g->ways & CHW ? (f * R + r) * C + c : (r * C + c) * F + f) * D + o] =
                        (float) dense_weight ((r * C + c) * F + f, o);
    for (unsigned k = 0; k < D; k++) {
        b[k] = (float) weight (3, k);
        mic[k] = (float) weight (6, k);
        for (unsigned o = 0; o < 3; o++)
            cls[k * 3 + o] = (float) weight (4, k * 3 + o);
    }
    for (unsigned o = 0; o < 3; o++)
        cls_b[o] = (float) weight (5, o);
    add_dense (g, flat, "fc", FLAT, D, w, b);
    node (g, "Tanh", "fc", "fc_act");
    const char *value = noop (g, "Cast", "fc_act", "fc_cast");
    add_dense (g, value, "cls", D, 3, cls, cls_b);
    add_dense (g, value, "mic", D, 1, mic, mic_b);
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

/* ---- recognised
 * ---------------------------------------------------------------------------------- */

static void check_family (unsigned ways)
{
    char why[480], label[200] = "";
    wm_error_t error = { 0 };
    for (int i = 0; i < N_WAY; i++)
        if (ways >> i & 1)
            snprintf (label + strlen (label), sizeof label - strlen (label), " %s", way_name[i]);
    graph_t g = family (ways);
    save_graph (&g);
    if (wm_import (onnx_path, wmm_path, why, &error))
        fail_msg ("%s: %s", label, error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    if (!model || !wm_model_net (model))
        fail_msg ("%s: %s", label, model ? why : error.text);
    assert_int_equal (wm_model_n_value (model), H * W);
    assert_int_equal (wm_model_n_output (model), 4);
    assert_int_equal (wm_model_n_output_port (model), ways & CONCAT ? 1 : 2);
    const float *patch, *score;
    uint32_t n = wm_model_known (model, &patch, &score);
    assert_true (n >= 8);
    for (uint32_t i = 0; i < n * 4; i++) {
        double want[4];
        expected (patch + i / 4 * H * W, want);
        if (!(fabs (want[i % 4] - (double) score[i]) < 1e-7))
            fail_msg ("%s: score %u is %.9g, not %.9g", label, i, (double) score[i], want[i % 4]);
    }
    wm_model_destroy (&model);
}

static void every_way_alone_and_in_pairs (void **state)
{
    (void) state;
    check_family (0);
    for (int i = 0; i < N_WAY; i++)
        for (int j = i; j < N_WAY; j++)
            check_family (1u << i | 1u << j);
}

static void many_ways_at_once (void **state)
{
    (void) state;
    check_family (NCHW | CHW | RESHAPE | TRANSB | REVERSED | INPUTS);       /* old PyTorch */
    check_family (BIAS_NHWC | PRODUCT | MATMUL | NOOPS | HWIO | CONSTANTS); /* tf2onnx */
    check_family (FLAT_INPUT | MATMUL | BIAS_ADD | REVERSED | FLOAT_DATA | HALF | NOOPS);
}

/* ---- kept for the general engine
 * ------------------------------------------------------------------ */

/* The graph is imported for the general engine, and the reason holds `word`.  */
static void check_general (graph_t *g, const char *word)
{
    char why[480];
    wm_error_t error = { 0 };
    size_t size, original_size;
    uint8_t *bytes = packed (g, &size);
    save (bytes, size);
    if (wm_import (onnx_path, wmm_path, why, &error))
        fail_msg ("%s: %s", word, error.text);
    if (!strstr (why, word) || strncmp (why, "general engine: ", 16))
        fail_msg ("no '%s' in: %s", word, why);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    assert_null (wm_model_net (model));
    assert_string_equal (wm_model_why (model), why);
    const void *original = wm_model_original (model, &original_size);
    assert_int_equal (original_size, size);
    assert_memory_equal (original, bytes, size);
    const float *patch, *score;
    assert_int_equal (wm_model_known (model, &patch, &score), 0);
    wm_model_destroy (&model);
    free (bytes);
    wm_arena_clear (&g->arena);
}

static Onnx__NodeProto *find (graph_t *g, const char *op)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (!strcmp (g->node[i]->op_type, op))
            return g->node[i];
    fail_msg ("no %s", op);
    return NULL;
}

/* Puts a node behind the first `op`: everything that read it reads the new node.  */
static Onnx__NodeProto *behind (graph_t *g, const char *op, const char *new_op, const char *more)
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

static void a_convolution_of_another_kind (void **state)
{
    (void) state;
    static const struct {
        const char *name, *word;
        int64_t value[4];
        size_t n;
    } attributes[] = { { "strides", "stride", { 2, 2 }, 2 },
                       { "pads", "padded", { 0, 0, 1, 1 }, 4 },
                       { "dilations", "dilated", { 2, 2 }, 2 },
                       { "kernel_shape", "kernel", { 5, 5 }, 2 } };
    for (size_t i = 0; i < 4; i++) {
        graph_t g = family (NCHW);
        Onnx__NodeProto *conv = find (&g, "Conv");
        conv->n_attribute = 0;
        conv->name = copy (&g, "the one");
        set_ints (&g, conv, attributes[i].name, attributes[i].n, attributes[i].value);
        check_general (&g, attributes[i].word);
    }
    graph_t g = family (NCHW);
    Onnx__AttributeProto *pad = attribute (&g, find (&g, "Conv"), "auto_pad");
    pad->has_s = 1;
    pad->s = (ProtobufCBinaryData){ 10, (uint8_t *) copy (&g, "SAME_UPPER") };
    check_general (&g, "node 'conv' (Conv) is not of the EmTrkMichelId family: it is padded");
    g = family (NCHW);
    set_int (&g, find (&g, "Conv"), "group", 2);
    check_general (&g, "grouped");
}

static void nodes_outside_the_family (void **state)
{
    (void) state;
    graph_t g = family (0);
    set_ints (&g, behind (&g, "Conv", "MaxPool", ""), "kernel_shape", INTS (2, 2));
    check_general (&g, "node 'inserted' (MaxPool)");
    g = family (0);
    behind (&g, "Conv", "Relu", "")->domain = copy (&g, "com.example");
    check_general (&g, "node 'inserted' (Relu)");
    g = family (0);
    behind (&g, "Relu", "Relu", "");
    check_general (&g, "already complete");
    g = family (0);
    behind (&g, "Conv", "Add", "conv");
    check_general (&g, "adds no constant");
    g = family (0);
    constant (&g, "slope", INTS (1, 1, R, 1), (float[R]){ 1, 2 });
    behind (&g, "Conv", "Add", "slope");
    check_general (&g, "adds no bias");
    g = family (0);
    find (&g, "Transpose")->attribute[0]->ints[1] = 1; /* (0, 1, 1, 2) */
    check_general (&g, "no permutation");
    g = family (0);
    find (&g, "Softmax")->attribute[0]->i = 0;
    check_general (&g, "run over the outputs");
    g = family (0);
    set_int (&g, find (&g, "Gemm"), "transA", 1);
    check_general (&g, "transA");
}

static void reshapes_that_lose_the_batch (void **state)
{
    (void) state;
    static const int64_t target[][2] = {
        { -1, -1 }, { 2, FLAT / 2 }, { FLAT, -1 }, { -1, FLAT / 2 }
    };
    for (size_t i = 0; i < sizeof target / sizeof *target; i++) {
        graph_t g = family (0);
        Onnx__NodeProto *n = find (&g, "Flatten");
        n->op_type = copy (&g, "Reshape");
        n->input = split (&g, "nhwc_act target", &n->n_input);
        find (&g, "Relu")->output[0] = copy (&g, "nhwc_act");
        integers (&g, "target", 1, 2, target[i]);
        check_general (&g, "(Reshape) is not of the EmTrkMichelId family: it does not keep");
    }
}

/* A second convolution beside the dense layer, not before it.  */
static void a_convolution_beside_the_tree (void **state)
{
    (void) state;
    graph_t g = family (NCHW | CHW);
    static const float zero[F];
    constant (&g, "side_w", INTS (1, F, 1, 1), zero);
    node (&g, "Conv", "conv_act side_w", "side");
    output (&g, "side", INTS (-1, 1, R, C));
    check_general (&g, "a convolution that is not the last");
}

/* Two readers of one layer that see different stages of it, and other graphs that are no tree.  */
static void graphs_that_are_no_tree (void **state)
{
    (void) state;
    graph_t g = family (0);
    find (&g, "Sigmoid")->input[0] = copy (&g, "cls"); /* cls: softmax and sigmoid on one layer */
    check_general (&g, "already complete");
    g = family (0);
    find (&g, "Gemm")->name = copy (&g, "first");
    g.node[g.n_node - 3]->input[0] = copy (&g, "fc"); /* the michel head, before the tanh */
    assert_string_equal (g.node[g.n_node - 3]->op_type, "Gemm");
    check_general (&g, "before its bias or activation");
    g = family (0);
    output (&g, "fc_act", INTS (-1, D));
    output (&g, "conv_act", INTS (-1, F, R, C));
    find (&g, "Relu")->output[0] = copy (&g, "conv_act");
    check_general (&g, "output 'conv_act'");
    g = family (0);
    input (&g, "other", INTS (-1, 3));
    check_general (&g, "2 inputs");
}

/* An output in the middle of the tree is still the family.  */
static void an_output_inside_the_tree (void **state)
{
    (void) state;
    char why[480];
    wm_error_t error = { 0 };
    graph_t g = family (0);
    output (&g, "fc_act", INTS (-1, D));
    save_graph (&g);
    assert_int_equal (wm_import (onnx_path, wmm_path, why, &error), WM_OK);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    assert_non_null (wm_model_net (model));
    assert_int_equal (wm_model_n_output (model), 4 + D);
    assert_int_equal (wm_model_net (model)->dense[0].output, 4);
    wm_model_destroy (&model);
}

/* Two channels: channels last is the family, channels first is not.  */
static void two_channels (void **state)
{
    (void) state;
    for (int last = 0; last < 2; last++) {
        graph_t g = family (NCHW);
        static const float zero[F * 2 * K * K];
        const int64_t n = -1;
        g.n_in = g.n_out = 0;
        for (size_t i = 0; i < g.n_tensor; i++)
            if (!strcmp (g.tensor[i]->name, "conv_w"))
                g.tensor[i] = g.tensor[--g.n_tensor];
        constant (&g, "conv_w", INTS (F, 2, K, K), zero);
        output (&g, "michel", INTS (n, 1));
        output (&g, "em_trk_none", INTS (n, 3));
        if (last) {
            input (&g, "raw", INTS (n, H, W, 2));
            set_ints (&g, node (&g, "Transpose", "raw", "patch"), "perm", INTS (0, 3, 1, 2));
            char why[480];
            wm_error_t error = { 0 };
            save_graph (&g);
            if (wm_import (onnx_path, wmm_path, why, &error) || strncmp (why, "sparse", 6))
                fail_msg ("%s %s", why, error.text);
        } else {
            input (&g, "patch", INTS (n, 2, H, W));
            check_general (&g, "channels last");
        }
    }
}

/* ---- refused
 * -------------------------------------------------------------------------------------- */

static void check_refused (const char *word)
{
    char why[480];
    wm_error_t error = { 0 };
    unlink (wmm_path);
    wm_fault_t fault = wm_import (onnx_path, wmm_path, why, &error);
    if (fault != WM_EBATCH || !strstr (error.text, word) || !strstr (error.text, onnx_path))
        fail_msg ("fault %d, no '%s' in: %s", fault, word, error.text);
    assert_int_not_equal (access (wmm_path, F_OK), 0);
}

static void graphs_refused (void **state)
{
    (void) state;
    graph_t g = family (0);
    find (&g, "Conv")->input[0] = copy (&g, "fc");
    save_graph (&g);
    check_refused ("cycle");
    g = family (0);
    find (&g, "Relu")->input[0] = copy (&g, "nowhere");
    save_graph (&g);
    check_refused ("'nowhere', which nothing makes");
    g = family (0);
    node (&g, "Relu", "cls", "fc");
    save_graph (&g);
    check_refused ("'fc' is defined twice");
    g = family (0);
    g.n_node = 0;
    save_graph (&g);
    check_refused ("no graph");
    g = family (0);
    float *w = (float *) (void *) g.tensor[0]->raw_data.data;
    w[3] = NAN;
    save_graph (&g);
    check_refused ("not finite");
}

static void ports_refused (void **state)
{
    (void) state;
    graph_t g = family (0);
    g.n_in = 0;
    input (&g, "patch", INTS (256, H, W, 1));
    save_graph (&g);
    check_refused ("fixed at 256");
    g = family (0);
    g.n_in = 0;
    input (&g, "patch", INTS (-1, H, -1, 1));
    save_graph (&g);
    check_refused ("dimension 2");
    g = family (0);
    g.in[0] = port (&g, "patch", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, INTS (-1, H, W, 1));
    save_graph (&g);
    check_refused ("float32");
    g = family (0);
    g.n_in = 0;
    input (&g, "patch", INTS (-1, 65536, 65536, 65536));
    save_graph (&g);
    check_refused ("too large");
    g = family (0);
    g.n_in = 0;
    input (&g, "patch", INTS (-1, 1024, 1025));
    save_graph (&g);
    check_refused ("limit");
    g = family (0);
    g.in[0]->type->tensor_type->shape = NULL;
    save_graph (&g);
    check_refused ("no shape");
    g = family (0);
    behind (&g, "Conv", "Exp", "");
    g.out[1]->type->tensor_type->shape->dim[1]->value_case =
        ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
    save_graph (&g);
    check_refused ("output 'michel'");
}

static void external_data_is_refused (void **state)
{
    (void) state;
    for (int in_constant = 0; in_constant < 2; in_constant++) {
        graph_t g = family (in_constant ? CONSTANTS : 0);
        Onnx__TensorProto *t = in_constant ? find (&g, "Constant")->attribute[0]->t : g.tensor[0];
        t->has_raw_data = 0;
        t->has_data_location = 1;
        t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
        save_graph (&g);
        check_refused ("'conv_w' keeps its data in another file");
    }
}

/* ModelProto.graph = GraphProto.node = NodeProto.attribute = AttributeProto.g = GraphProto ...  */
static void deep_nesting_is_refused (void **state)
{
    (void) state;
    static const uint8_t tag[] = { 1 << 3 | 2, 5 << 3 | 2, 6 << 3 | 2 };
    enum { DEPTH = 10000 };
    uint8_t *bytes = malloc (DEPTH * 6);
    assert_non_null (bytes);
    size_t at = DEPTH * 6;
    for (size_t i = DEPTH; i-- > 0;) { /* from the inside out */
        size_t size = DEPTH * 6 - at;
        uint8_t length[5], n = 0;
        do
            length[n++] = (uint8_t) ((size & 127) | (size > 127 ? 128 : 0));
        while (size >>= 7);
        at -= n;
        memcpy (bytes + at, length, n);
        bytes[--at] = i == 0 ? 7 << 3 | 2 : tag[(i - 1) % 3];
    }
    save (bytes + at, DEPTH * 6 - at);
    free (bytes);
    check_refused ("nested more than 32 deep");
}

static void files_that_are_no_models (void **state)
{
    (void) state;
    save ((const uint8_t *) "", 0);
    check_refused ("empty");
    save ((const uint8_t *) "\x89HDF\r\n\x1a\n and so on", 18);
    check_refused ("not an ONNX");
    snprintf (onnx_path, sizeof onnx_path, "%s", folder);
    check_refused ("not a regular file");
    snprintf (onnx_path, sizeof onnx_path, "%s/none.onnx", folder);
    char why[480];
    wm_error_t error = { 0 };
    assert_int_equal (wm_import (onnx_path, wmm_path, why, &error), WM_EHOST);
    snprintf (onnx_path, sizeof onnx_path, "%s/m.onnx", folder);
}

/* Cut anywhere: refused, or where only the end of the graph is missing, never the family with other
   scores. A changed byte: anything but a crash, which the sanitizers watch.  */
static void truncated_and_changed_files (void **state)
{
    (void) state;
    graph_t g = family (REVERSED | RESHAPE);
    size_t size;
    uint8_t *bytes = packed (&g, &size);
    char why[480];
    wm_error_t error = { 0 };
    for (size_t n = 1; n < size; n += 7) {
        save (bytes, n);
        assert_int_equal (wm_import (onnx_path, wmm_path, why, &error), WM_EBATCH);
    }
    uint64_t z = 1;
    for (int i = 0; i < 1000; i++) {
        z = z * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t) (z >> 33) % size;
        uint8_t old = bytes[at];
        bytes[at] = (uint8_t) (z >> 20);
        save (bytes, size);
        wm_fault_t fault = wm_import (onnx_path, wmm_path, why, &error);
        assert_true (fault == WM_OK || fault == WM_EBATCH);
        bytes[at] = old;
    }
    free (bytes);
    wm_arena_clear (&g.arena);
}

static int make_folder (void **state)
{
    (void) state;
    if (!mkdtemp (folder))
        return -1;
    snprintf (onnx_path, sizeof onnx_path, "%s/m.onnx", folder);
    snprintf (wmm_path, sizeof wmm_path, "%s/m.wmm", folder);
    return 0;
}

static int remove_folder (void **state)
{
    (void) state;
    unlink (onnx_path);
    unlink (wmm_path);
    return rmdir (folder);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (every_way_alone_and_in_pairs),
        cmocka_unit_test (many_ways_at_once),
        cmocka_unit_test (a_convolution_of_another_kind),
        cmocka_unit_test (nodes_outside_the_family),
        cmocka_unit_test (reshapes_that_lose_the_batch),
        cmocka_unit_test (a_convolution_beside_the_tree),
        cmocka_unit_test (graphs_that_are_no_tree),
        cmocka_unit_test (an_output_inside_the_tree),
        cmocka_unit_test (two_channels),
        cmocka_unit_test (graphs_refused),
        cmocka_unit_test (ports_refused),
        cmocka_unit_test (external_data_is_refused),
        cmocka_unit_test (deep_nesting_is_refused),
        cmocka_unit_test (files_that_are_no_models),
        cmocka_unit_test (truncated_and_changed_files),
    };
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
