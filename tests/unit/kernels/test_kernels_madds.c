/* test_kernels_madds.c - multiply-adds of models for the general engine: the family's are those
   that it counts itself, other layers' were counted by hand.  */
#include "tests/unit/family_graph.h"

/* Imports what lies at model_path; its multiply-adds.  */
static uint64_t counted (const wm_import_choices_t *choices, char why[480])
{
    wm_error_t error = { 0 };
    if (wm_import (model_path, choices, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    if (!model)
        fail_msg ("%s", error.text);
    const uint64_t madds = wm_model_madds (model);
    wm_model_destroy (&model);
    return madds;
}

static void the_family_either_way (void **state)
{
    static const unsigned ways[] = { 0, NCHW | CHW | RESHAPE | TRANSB | REVERSED | INPUTS,
                                     BIAS_NHWC | PRODUCT | MATMUL | NOOPS | HWIO | CONSTANTS,
                                     MATMUL | TRANSB, FIXED | FLAT_INPUT | CONCAT };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char why[480];
        graph_t g = family (ways[i]);
        save_graph (&g);
        const uint64_t own = counted (NULL, why);
        assert_non_null (strstr (why, "sparse"));
        assert_int_equal (own, R * C * F * K * K + FLAT * D + D * 4);
        const wm_import_choices_t choices = { .general = 1 };
        assert_int_equal (counted (&choices, why), own);
        assert_non_null (strstr (why, "; 1364 multiply-adds a patch"));
        assert_null (strstr (why, WM_IMPORT_UNCOUNTED));
    }
}

/* ---- layers ---------------------------------------------------------------------------------- */

typedef struct {
    const char *op, *key;
    int64_t x[6], w[6], value[4], group; /* sizes end with 0 */
    uint64_t want;
} layer_t;

static size_t length (const int64_t *list, size_t most)
{
    size_t n = 0;
    while (n < most && list[n])
        n++;
    return n;
}

/* Zeros for weights.  */
static void zeros (graph_t *g, const char *name, size_t n_dim, const int64_t *dim)
{
    static const float zero[1000];
    constant (g, name, n_dim, dim, zero);
}

static void layers_counted_by_hand (void **state)
{
    static const layer_t layers[] = {
        { "Conv", "pads", { -1, 4, 9, 11 }, { 6, 2, 3, 3 }, { 1, 1, 1, 1 }, 2, 9 * 11 * 6 * 18 },
        { "Conv", "strides", { -1, 4, 9, 11 }, { 6, 4, 3, 3 }, { 2, 3 }, 1, 4 * 3 * 6 * 36 },
        { "Conv", "dilations", { -1, 3, 20 }, { 5, 3, 4 }, { 2 }, 1, 14 * 5 * 12 },
        { "Conv", NULL, { -1, 2, 6, 7, 8 }, { 3, 2, 2, 3, 1 }, { 0 }, 1, 5 * 5 * 8 * 3 * 12 },
        { "Conv", NULL, { -1, 4, 8, 8 }, { 4, 1, 3, 3 }, { 0 }, 4, 6 * 6 * 4 * 9 },
        { "ConvTranspose", "strides", { -1, 4, 5, 6 }, { 4, 3, 2, 2 }, { 2, 2 }, 2, 120 * 12 },
        { "MatMul", NULL, { -1, 3, 4, 5 }, { 5, 7 }, { 0 }, 0, 3 * 4 * 7 * 5 },
        { "MatMul", NULL, { -1, 3, 4, 5 }, { 3, 5, 7 }, { 0 }, 0, 3 * 4 * 7 * 5 },
        { "MatMul", NULL, { -1, 3, 5 }, { 5 }, { 0 }, 0, 3 * 5 },
        { "Gemm", NULL, { -1, 5 }, { 5, 7 }, { 0 }, 0, 35 },
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        const layer_t *layer = &layers[i];
        char why[480];
        graph_t g = { .ways = 0 };
        input (&g, "x", length (layer->x, 6), layer->x);
        zeros (&g, "w", length (layer->w, 6), layer->w);
        Onnx__NodeProto *n = node (&g, layer->op, "x w", "y");
        if (layer->key)
            set_ints (&g, n, layer->key, length (layer->value, 4), layer->value);
        if (layer->group > 1)
            set_int (&g, n, "group", layer->group);
        output (&g, "y", INTS (-1));
        save_graph (&g);
        print_message ("%zu: %s\n", i, layer->op);
        assert_int_equal (counted (NULL, why), layer->want);
    }
}

/* Attention's product of two values, a product of constants that runs once, weights by way of
   nodes, and a recurrent layer over six steps.  */
static void a_network_counted_by_hand (void **state)
{
    char why[480];
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 6, 3));
    set_ints (&g, node (&g, "Transpose", "x", "turned"), "perm", INTS (0, 2, 1));
    node (&g, "MatMul", "x turned", "square"); /* (N, 6, 6): 6 * 6 * 3 */
    zeros (&g, "a", INTS (4, 9));
    zeros (&g, "b", INTS (9, 6));
    node (&g, "MatMul", "a b", "ab"); /* constants: none */
    node (&g, "Transpose", "ab", "weights");
    node (&g, "MatMul", "square weights", "mixed"); /* (N, 6, 4): 24 * 6 */
    set_ints (&g, node (&g, "Transpose", "mixed", "steps"), "perm", INTS (1, 0, 2));
    zeros (&g, "lstm_w", INTS (1, 8, 4));
    zeros (&g, "lstm_r", INTS (1, 8, 2));
    set_int (&g, node (&g, "LSTM", "steps lstm_w lstm_r", "all last"), "hidden_size",
             2); /* 6 * 48 */
    set_ints (&g, node (&g, "Transpose", "last", "y"), "perm", INTS (1, 0, 2));
    output (&g, "y", INTS (-1, 1, 2));
    save_graph (&g);
    assert_int_equal (counted (NULL, why), 108 + 144 + 288);
}

/* ---- what cannot be known -------------------------------------------------------------------- */

static void why_it_is_not_known (void **state)
{
    char why[480];
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 4));
    node (&g, "Abs", "x", "y");
    output (&g, "y", INTS (-1, 4));
    save_graph (&g);
    assert_int_equal (counted (NULL, why), 0);
    assert_non_null (strstr (why, "; multiply-adds not counted: it has no layers that have any"));

    g = (graph_t){ .ways = 0 };
    input (&g, "x", INTS (-1, 4, 4));
    Onnx__AttributeProto *form = attribute (&g, node (&g, "Einsum", "x x", "both"), "equation");
    form->has_type = form->has_s = 1;
    form->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    form->s = (ProtobufCBinaryData){ 12, (uint8_t *) copy (&g, "bij,bkj->bik") };
    node (&g, "MatMul", "x both", "y");
    output (&g, "y", INTS (-1, 4, 4));
    save_graph (&g);
    assert_int_equal (counted (NULL, why), 0);
    assert_non_null (strstr (why, "; multiply-adds not counted: those of node 'both' (Einsum)"));

    g = (graph_t){ .ways = 0 }; /* more dimensions than shapes have here */
    input (&g, "x", INTS (-1, 2, 3));
    zeros (&g, "w", INTS (1, 1, 1, 1, 1, 3, 4));
    node (&g, "MatMul", "x w", "product");
    integers (&g, "flat", 1, INTS (-1, 8));
    node (&g, "Reshape", "product flat", "y");
    output (&g, "y", INTS (-1, 8));
    save_graph (&g);
    assert_int_equal (counted (NULL, why), 0);
    assert_non_null (strstr (why, "; multiply-adds not counted: the inputs of node 'product'"));

    g = (graph_t){ .ways = 0 }; /* as many columns as x has values above zero */
    input (&g, "x", INTS (4));
    node (&g, "NonZero", "x", "places");
    set_int (&g, node (&g, "Cast", "places", "p"), "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    zeros (&g, "w", INTS (3, 1));
    node (&g, "MatMul", "w p", "product");
    set_int (&g, node (&g, "ReduceMax", "product", "y"), "keepdims", 0);
    set_ints (&g, g.node[g.n_node - 1], "axes", INTS (1));
    output (&g, "y", INTS (3));
    save_graph (&g);
    const wm_import_choices_t whole = { .whole = 1 };
    assert_int_equal (counted (&whole, why), 0);
    assert_non_null (strstr (
        why, "; multiply-adds not counted: the shape of a layer is not known, or not fixed"));

    hide_engines ();
    g = family (0);
    save_graph (&g);
    assert_int_equal (counted (&(wm_import_choices_t){ .general = 1 }, why), 0);
    show_engines ();
}

static int with_the_engine (void **state)
{
    const int fault = make_folder (state);
    show_engines ();
    return fault;
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (the_family_either_way),
        cmocka_unit_test (layers_counted_by_hand),
        cmocka_unit_test (a_network_counted_by_hand),
        cmocka_unit_test (why_it_is_not_known),
    };
    return cmocka_run_group_tests (tests, with_the_engine, remove_folder);
}
