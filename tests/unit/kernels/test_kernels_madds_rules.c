/* test_kernels_madds_rules.c - what is counted of each operator, whose shapes are asked for, and
   what makes the count unknown. The shapes are given here, in the place of OpenVINO.  */
#include "kernels/import/wm_madds.h"
#include "tests/unit/onnx_graph.h"

#include <stdio.h>

/* What is answered, in the order of the questions: the values, then the sizes, up to a 0.  */
typedef struct {
    uint32_t n_value, dim[WM_MODEL_DIMS_MAX];
} shape_t;

static const shape_t *answered;
static const char *asked;
static uint32_t n_call;
static wm_fault_t fault_of_engine;

static wm_fault_t shape (const void *original, size_t bytes, const wm_port_t *input,
                         uint32_t n_input, wm_port_t *output, uint32_t n_output, int inner,
                         wm_error_t *error)
{
    wm_onnx_t onnx = { 0 };
    char names[64] = "";
    assert_int_equal (wm_onnx_lend (&onnx, "packed", original, bytes, error), WM_OK);
    assert_int_equal (wm_onnx_read (&onnx, NULL, error), WM_OK);
    assert_true (original && bytes && inner);
    assert_true (n_input == 1 && !strcmp (input->name, "x"));
    n_call++;
    for (uint32_t i = 0; i < n_output; i++) {
        char name[32];
        snprintf (name, sizeof name, "wm|%u", i);
        assert_string_equal (output[i].name, name);
        const int64_t v = wm_onnx_find (&onnx, name);
        assert_true (v >= 0);
        strcat (strcat (names, i ? " " : ""), onnx.value[v].node->input[0]);
        output[i].n_value = answered[i].n_value;
        output[i].n_dim = 0;
        for (int d = 0; d < WM_MODEL_DIMS_MAX && answered[i].dim[d]; d++)
            output[i].dim[output[i].n_dim++] = answered[i].dim[d];
    }
    assert_string_equal (names, asked);
    wm_onnx_clear (&onnx);
    return fault_of_engine;
}

static uint64_t count (graph_t *g, const char *values, const shape_t *shapes, char broken[160])
{
    static const wm_backend_t openvino = { .shape = shape };
    const wm_port_t x = { .name = "x" };
    wm_onnx_t onnx = { 0 };
    wm_error_t error;
    size_t size;
    uint8_t *bytes = packed (g, &size);
    answered = shapes;
    asked = values;
    n_call = 0;
    if (wm_onnx_lend (&onnx, "test", bytes, size, &error) || wm_onnx_read (&onnx, NULL, &error))
        fail_msg ("%s", error.text);
    onnx.tensorflow = g->ways;
    const uint64_t madds = wm_madds_count (&onnx, &openvino, &x, 1, broken);
    wm_onnx_clear (&onnx);
    free (bytes);
    wm_arena_clear (&g->arena);
    return madds;
}

static void weights (graph_t *g, const char *name, size_t n_dim, const int64_t *dim)
{
    static const float zero[512];
    size_t n = 1;
    Onnx__TensorProto *t = tensor (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, n_dim, dim);
    for (size_t d = 0; d < n_dim; d++)
        n *= (size_t) dim[d];
    assert_true (n <= 512);
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){ 4 * n, memcpy (take (g, n, 4), zero, 4 * n) };
    add_tensor (g, t);
}

static Onnx__NodeProto *node_of (graph_t *g, const char *op, const char *domain, const char *in,
                                 const char *out)
{
    Onnx__NodeProto *n = node (g, op, in, out);
    n->domain = domain ? copy (g, domain) : NULL;
    return n;
}

/* A node of the operator that reads x, with constants w and r; "other" is a value.  */
typedef struct {
    const char *op, *domain, *in;
    int64_t w[7], r[3]; /* sizes, up to a 0 */
    shape_t shape[3];
    const char *asked; /* the values whose shapes are those, in this order */
    uint64_t want;
    const char *broken; /* "": it is counted */
} case_t;

static size_t length (const int64_t *list, size_t most)
{
    size_t n = 0;
    while (n < most && list[n])
        n++;
    return n;
}

static void check (const case_t *one)
{
    char broken[160];
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 4));
    if (*one->w)
        weights (&g, "w", length (one->w, 7), one->w);
    if (*one->r)
        weights (&g, "r", length (one->r, 3), one->r);
    node (&g, "Abs", "x", "other");
    node_of (&g, one->op, one->domain, one->in, "y");
    output (&g, "y", INTS (-1));
    const uint64_t madds = count (&g, one->asked, one->shape, broken);
    if (madds != one->want || !strstr (broken, one->broken) || (*broken && !*one->broken))
        fail_msg ("%s of %s: %llu, '%s'", one->op, one->in, (unsigned long long) madds, broken);
    assert_int_equal (n_call, *one->asked != 0);
}

#define TF "tensorflow"

static void operators_are_counted (void **state)
{
    static const case_t list[] = {
        /* of the result: 100 values of 2 x 3 x 3 each */
        { "Conv", NULL, "x w", { 6, 2, 3, 3 }, { 0 }, { { 100, { 6 } } }, "y", 1800, "" },
        { "Conv", "", "x w", { 6, 2, 3, 3 }, { 0 }, { { 100, { 6 } } }, "y", 1800, "" },
        { "Conv", "ai.onnx", "x w", { 6, 2, 3, 3 }, { 0 }, { { 100, { 6 } } }, "y", 1800, "" },
        /* of the input: 120 values of 3 x 2 x 2 each */
        { "ConvTranspose", NULL, "x w", { 4, 3, 2, 2 }, { 0 }, { { 120, { 4 } } }, "x", 1440, "" },
        { "Gemm", NULL, "x w", { 5, 7 }, { 0 }, { { 21, { 3, 7 } } }, "y", 105, "" },
        { "Gemm", NULL, "x w", { 7, 5 }, { 0 }, { { 21, { 3, 7 } } }, "y", 105, "" },
        { "MatMul", NULL, "x w", { 5 }, { 0 }, { { 3, { 3 } } }, "y", 15, "" },
        { "MatMul", NULL, "x w", { 5 }, { 0 }, { { 1, { 0 } } }, "y", 5, "" },
        { "MatMul", NULL, "x w", { 3, 5, 7 }, { 0 }, { { 84, { 3, 4, 7 } } }, "y", 420, "" },
        { "MatMul",
          NULL,
          "x other",
          { 0 },
          { 0 },
          { { 84, { 12, 7 } }, { 35, { 5, 7 } } },
          "y other",
          420,
          "" },
        { "MatMul",
          NULL,
          "x x",
          { 0 },
          { 0 },
          { { 9, { 3, 3 } }, { 6, { 2, 3 } } },
          "y x",
          18,
          "" },
        /* of x: six steps of 4 values; each takes the weights of both */
        { "LSTM", NULL, "x w r", { 1, 8, 4 }, { 1, 8, 2 }, { { 24, { 6, 1, 4 } } }, "x", 288, "" },
        { "GRU", NULL, "x w r", { 1, 8, 4 }, { 1, 8, 2 }, { { 24, { 6, 1, 4 } } }, "x", 288, "" },
        { "RNN", NULL, "x w r", { 1, 8, 4 }, { 1, 8, 2 }, { { 24, { 6, 1, 4 } } }, "x", 288, "" },
        { "BatchMatMul", TF, "x w", { 5, 7 }, { 0 }, { { 14, { 2, 7 } } }, "y", 70, "" },
        { "BatchMatMulV2", TF, "x w", { 5, 7 }, { 0 }, { { 14, { 2, 7 } } }, "y", 70, "" },
        { "BatchMatMulV3", TF, "x w", { 5, 7 }, { 0 }, { { 14, { 2, 7 } } }, "y", 70, "" },
        /* of its third input: 50 values of 3 x 3 x 2 each */
        { "Conv2DBackpropInput",
          TF,
          "r w x",
          { 3, 3, 2, 5 },
          { 1 },
          { { 50, { 5 } } },
          "x",
          900,
          "" },
        { "Conv3DBackpropInputV2",
          TF,
          "r w x",
          { 3, 3, 2, 5 },
          { 1 },
          { { 50, { 5 } } },
          "x",
          900,
          "" },
        { "Conv3D", TF, "x w", { 2, 2, 2, 3, 4 }, { 0 }, { { 10, { 4 } } }, "y", 240, "" },
        { "DepthwiseConv2dNative",
          TF,
          "x w",
          { 3, 4, 2, 5 },
          { 0 },
          { { 10, { 9 } } },
          "y",
          120,
          "" },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check (&list[i]);
}

static void what_is_not_known (void **state)
{
    static const uint32_t all = UINT32_MAX;
    static const char none[] = "it has no layers that have any",
                      inputs[] = "the inputs of node 'y'", hidden[] = "those of node 'y' (";
    const case_t list[] = {
        { "Gemm", NULL, "x", { 0 }, { 0 }, { { 0 } }, "", 0, inputs },
        { "Gemm", NULL, "other", { 0 }, { 0 }, { { 0 } }, "", 0, inputs },
        { "LSTM", NULL, "x w", { 1, 8, 4 }, { 0 }, { { 0 } }, "", 0, inputs },
        { "Conv2DBackpropInput", TF, "x w", { 3, 3, 2, 5 }, { 0 }, { { 0 } }, "", 0, inputs },
        { "MatMul", NULL, "x w", { 5, 7 }, { 0 }, { { 1, { 0 } } }, "y", 0, inputs },
        { "LSTM", NULL, "x w r", { 8 }, { 8 }, { { 1, { 0 } } }, "x", 0, inputs },
        { "MatMul",
          NULL,
          "x other",
          { 0 },
          { 0 },
          { { 3, { 3 } }, { 1, { 0 } } },
          "y other",
          0,
          inputs },
        { "MatMul", NULL, "x w", { 1, 1, 1, 1, 1, 3, 4 }, { 0 }, { { 0 } }, "", 0, inputs },
        { "DepthwiseConv2dNative", TF, "x w", { 3, 4, 2 }, { 0 }, { { 0 } }, "y", 0, inputs },
        /* as large as 64 bits hold */
        { "RNN",
          NULL,
          "x other w",
          { 7 },
          { 0 },
          { { all, { 1 } }, { 1000, { 9 } } },
          "x other",
          (uint64_t) all * 1007,
          "" },
        { "Conv",
          NULL,
          "other x",
          { 0 },
          { 0 },
          { { all, { 1 } }, { all, { 1 } } },
          "y x",
          (uint64_t) all * all,
          "" },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check (&list[i]);
    /* operators that may do such work, by a word or whole; a private set; TensorFlow's as ONNX's */
    static const char *const word[] = { "MyConv",    "MatMulX", "QGemm",       "Einsum",
                                        "LSTMCell",  "GRUCell", "RNNCell",     "RFFT",
                                        "DFT",       "STFT",    "While",       "PartitionedCall",
                                        "Attention", "If",      "StatelessIf", "Case",
                                        "Loop",      "Scan",    "Conv3D",      "BatchMatMul" };
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        check (&(case_t){ word[i], NULL, "x w", { 5 }, { 0 }, { { 0 } }, "", 0, hidden });
    check (&(case_t){ "Conv", TF, "x w", { 5 }, { 0 }, { { 0 } }, "", 0, hidden });
    check (&(case_t){ "Abs", "mine", "x", { 0 }, { 0 }, { { 0 } }, "", 0, hidden });
    check (&(case_t){ "Gemm", "mine", "x w", { 5, 7 }, { 0 }, { { 0 } }, "", 0, hidden });
    /* these do not */
    static const char *const other[][2] = { { "Abs", NULL },
                                            { "Abs", "" },
                                            { "Abs", "ai.onnx" },
                                            { "Abs", TF },
                                            { "Scaler", "ai.onnx.ml" },
                                            { "Iff", NULL },
                                            { "ScanX", NULL },
                                            { "Lower", NULL } };
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        check (&(case_t){ other[i][0], other[i][1], "x w", { 5 }, { 0 }, { { 0 } }, "", 0, none });
}

/* All nodes that depend on the inputs, once; what they share is asked for once.  */
static void sums_of_nodes (void **state)
{
    static const uint32_t all = UINT32_MAX;
    char broken[160];
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 4));
    weights (&g, "a", INTS (4, 6));
    weights (&g, "b", INTS (6, 3));
    node (&g, "MatMul", "a b", "ab"); /* of constants: once for all patches */
    node (&g, "Gemm", "x ab", "one"); /* 2 x 3 of 4 each */
    node (&g, "Relu", "one", "two");
    node (&g, "Gemm", "x ab", "three");
    node (&g, "Add", "two three", "y");
    output (&g, "y", INTS (-1, 3));
    static const shape_t shapes[] = { { 6, { 2, 3 } }, { 12, { 4, 3 } }, { 6, { 2, 3 } } };
    assert_int_equal (count (&g, "one ab three", shapes, broken), 48);
    assert_string_equal (broken, "");
    for (int k = 0; k < 2; k++) { /* one has 2^64 - 2^33 + 1, two more than 64 bits */
        g = (graph_t){ .ways = 0 };
        input (&g, "x", INTS (-1, 4));
        node (&g, "Abs", "x", "v");
        node (&g, "Conv", "x v", "one");
        node (&g, k ? "Conv" : "Abs", "one v", "y");
        output (&g, "y", INTS (-1, 4));
        const shape_t large[] = { { all, { 1 } }, { all, { 1 } }, { all, { 1 } } };
        const uint64_t madds = count (&g, k ? "one v y" : "one v", large, broken);
        assert_true (madds == (k ? 0 : (uint64_t) all * all));
        assert_string_equal (broken, k ? "too many" : "");
    }
    g = (graph_t){ .ways = 0 }; /* 2^32 steps of 2^33 */
    input (&g, "x", INTS (-1, 4));
    node (&g, "Abs", "x", "v");
    node (&g, "RNN", "x v v", "y");
    output (&g, "y", INTS (-1, 4));
    const shape_t large[] = { { all, { 1 } }, { all, { 1 } } };
    assert_int_equal (count (&g, "x v", large, broken), 0);
    assert_string_equal (broken, "too many");
    /* the first reason counts, and the engine is not asked then */
    g = (graph_t){ .ways = 0 };
    input (&g, "x", INTS (-1, 4));
    weights (&g, "w", INTS (4, 6));
    node (&g, "Gemm", "x w", "one");
    node (&g, "Einsum", "one", "two");
    node (&g, "Loop", "two", "y");
    output (&g, "y", INTS (-1, 4));
    assert_int_equal (count (&g, "", NULL, broken), 0);
    assert_string_equal (broken, "those of node 'two' (Einsum)");
    assert_int_equal (n_call, 0);
    /* an engine that does not know them */
    g = (graph_t){ .ways = 0 };
    input (&g, "x", INTS (-1, 4));
    weights (&g, "w", INTS (4, 6));
    node (&g, "Gemm", "x w", "y");
    output (&g, "y", INTS (-1, 6));
    fault_of_engine = WM_EBATCH;
    assert_int_equal (count (&g, "y", shapes, broken), 0);
    assert_string_equal (broken, "the shape of a layer is not known, or not fixed");
    fault_of_engine = WM_OK;
    /* one node of two is not known, which its shape shows */
    g = (graph_t){ .ways = 0 };
    input (&g, "x", INTS (-1, 4));
    weights (&g, "w", INTS (4, 6));
    node (&g, "Gemm", "x w", "one");
    node (&g, "MatMul", "one w", "y");
    output (&g, "y", INTS (-1, 6));
    static const shape_t scalar[] = { { 12, { 2, 6 } }, { 1, { 0 } } };
    assert_int_equal (count (&g, "one y", scalar, broken), 0);
    assert_string_equal (broken, "the inputs of node 'y' (MatMul)");
}

/* Weights by way of nodes that change no shape; and of a frozen graph, whose nodes became several,
   named "node|part": their weights are the node's, turned, and their results have its values.  */
static void weights_by_way_of_nodes (void **state)
{
    static const shape_t hundred[] = { { 100, { 6 } }, { 54, { 6, 3, 3 } } };
    char broken[160];
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 4));
    weights (&g, "w", INTS (6, 2, 3, 3));
    node (&g, "Identity", "w", "same");
    set_int (&g, node (&g, "Cast", "same", "cast"), "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    node (&g, "Identity", "cast", "again");
    node (&g, "Conv", "x again", "y");
    output (&g, "y", INTS (-1, 6));
    assert_int_equal (count (&g, "y", hundred, broken), 1800);
    for (unsigned tensorflow = 0; tensorflow < 2; tensorflow++) {
        g = (graph_t){ .ways = tensorflow };
        input (&g, "x", INTS (-1, 4));
        weights (&g, "kernel", INTS (3, 3, 2, 6));
        set_ints (&g, node (&g, "Transpose", "kernel", "c|w"), "perm", INTS (3, 2, 0, 1));
        node (&g, "Conv", "x c|w", "c|y");
        node (&g, "Transpose", "c|y", "c");
        node (&g, "Abs", "c", "y");
        output (&g, "y", INTS (-1, 6));
        /* else the values are those of names with a bar, and are asked for: 100 x 54 / 6 */
        assert_int_equal (count (&g, tensorflow ? "c" : "c|y c|w", hundred, broken),
                          tensorflow ? 1800 : 900);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (operators_are_counted),
        cmocka_unit_test (what_is_not_known),
        cmocka_unit_test (sums_of_nodes),
        cmocka_unit_test (weights_by_way_of_nodes),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
