/* test_kernels_graphdef.c - TensorFlow frozen graphs: the small network in every way that
   TensorFlow and Keras freeze it, what is kept for the general engine, and what is refused.  */
#include "kernels/import/wm_head.h"
#include "kernels/onnx/wm_onnx.h"
#include "tests/unit/frozen_graph.h"

/* ---- recognised ------------------------------------------------------------------------------ */

static void check_family (unsigned ways)
{
    char label[200] = "";
    for (int i = 0; i < N_WAY; i++)
        if (ways >> i & 1)
            snprintf (label + strlen (label), sizeof label - strlen (label), " %s", way_name[i]);
    tf_t g = family (ways);
    save_graph (&g);
    check_is_family (label, 2);
}

/* Reversed, the outputs are in the other order: those are looked at by name.  */
static void outputs_are_in_the_files_order (void **state)
{
    char why[480];
    wm_error_t error = { 0 };
    tf_t g = family (REVERSED);
    save_graph (&g);
    if (wm_import (model_path, NULL, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    assert_non_null (wm_model_net (model));
    assert_string_equal (wm_model_output (model, 0)->name, "michel");
    assert_string_equal (wm_model_output (model, 1)->name, "em_trk_none");
    assert_string_equal (wm_model_input (model, 0)->name, "main_input");
    wm_model_destroy (&model);
}

static void every_way_alone_and_in_pairs (void **state)
{
    check_family (0);
    for (int i = 0; i < N_WAY; i++)
        for (int j = i; j < N_WAY; j++)
            if (((1u << i | 1u << j) & REVERSED) == 0)
                check_family (1u << i | 1u << j);
    check_family (PROD | READ | DROPOUT | LEFTOVER | TYPED);   /* Keras 2 on TensorFlow 1 */
    check_family (STACK | READ | SQUEEZED | PORTS | LEFTOVER); /* Keras 3 */
    check_family (FIRST | PROD | READ | TURNED | DOUBLE | DROPOUT | FLAT_INPUT);
}

/* ---- for the general engine, or refused ------------------------------------------------------ */

static Graphdef__Node *find (tf_t *g, const char *op)
{
    for (size_t i = 0; i < g->n_node; i++)
        if (!strcmp (g->node[i]->op, op))
            return g->node[i];
    fail_msg ("no %s", op);
    return NULL;
}

/* Everything that keeps a graph out of the family is said by node and operator. (A .pb does not say
   the shapes of its outputs: only the general engine can.)  */
static void check_outside (tf_t *g, const char *word)
{
    char why[480] = "";
    wm_error_t error = { 0 };
    save_graph (g);
    wm_import (model_path, NULL, wmm_path, why, &error);
    if (!strstr (why, word) || strncmp (why, "general engine: ", 16))
        fail_msg ("no '%s' in: %s", word, why);
}

static void nodes_outside_the_family (void **state)
{
    tf_t g = family (0);
    find (&g, "Relu")->op = copy (&g, "Softsign");
    check_outside (&g, "node 'conv/Relu' (Softsign) is not of the EmTrkMichelId family");
    g = family (0);
    Graphdef__Node *conv = find (&g, "Conv2D");
    conv->n_attr = 0;
    set_text (&g, conv, "padding", "SAME");
    check_outside (&g, "padded");
    g = family (0);
    conv = find (&g, "Conv2D");
    conv->n_attr = 1;
    set_text (&g, conv, "padding", "VALID");
    set_list (&g, conv, "strides", INTS (1, 2, 1, 1));
    check_outside (&g, "stride");
    g = family (0);
    set_list (&g, find (&g, "Conv2D"), "dilations", INTS (1, 1, 2, 1));
    check_outside (&g, "dilated");
    g = family (FLAT_INPUT);
    find (&g, "MatMul")->input[0] = copy (&g, "image");
    check_outside (&g, "");
    g = family (0);
    set_true (&g, find (&g, "MatMul"), "transpose_a");
    check_outside (&g, "transA");
    g = family (DROPOUT); /* in training: the branch with the Mul */
    find (&g, "Const");   /* there is one */
    for (size_t i = 0; i < g.n_node; i++)
        if (!strcmp (g.node[i]->name, "phase/input"))
            g.node[i]->attr[0]->value->tensor->bool_val[0] = 1;
    check_outside (&g, "'cond/drop' (Mul)");
    g = family (STACK); /* a mask that nothing here knows */
    set_int (&g, find (&g, "StridedSlice"), "new_axis_mask", 1);
    check_outside (&g, "(StridedSlice)");
}

/* Activations of several nodes, as Keras writes them: SiLU behind the IdentityN of its gradient,
   GELU by erf and by tanh with a square, softplus.  */
static void activations_of_several_nodes (void **state)
{
    static const struct {
        wm_act_t act;
        const char *node[9]; /* operator, name, inputs; x is the convolution with its bias */
    } form[] = {
        { WM_ACT_SWISH,
          { "Sigmoid gate x", "Mul product x gate", "IdentityN conv/Relu product x" } },
        { WM_ACT_GELU,
          { "RealDiv small x root", "Erf erf small", "AddV2 share one erf", "Mul half_x half x",
            "Mul conv/Relu half_x share" } },
        { WM_ACT_GELU, /* Keras 3 */
          { "Neg minus x", "RealDiv small minus root", "Erfc share small", "Mul half_x half x",
            "Mul conv/Relu half_x share" } },
        { WM_ACT_GELU_TANH,
          { "Square square x", "Mul cube square x", "Mul part cubic cube", "AddV2 inner x part",
            "Mul scaled factor inner", "Tanh tanh scaled", "AddV2 share one tanh",
            "Mul half_x half x", "Mul conv/Relu half_x share" } },
        { WM_ACT_SOFTPLUS, { "Softplus conv/Relu x" } },
    };
    for (size_t i = 0; i < sizeof form / sizeof *form; i++) {
        tf_t g = family (0);
        Graphdef__Node *relu = find (&g, "Relu");
        relu->op = copy (&g, "Identity"), relu->name = copy (&g, "x");
        weights (&g, "root", 0, NULL, (float[]){ 1.41421356f });
        weights (&g, "one", 0, NULL, (float[]){ 1 });
        weights (&g, "half", 0, NULL, (float[]){ 0.5f });
        weights (&g, "cubic", 0, NULL, (float[]){ 0.044715f });
        weights (&g, "factor", 0, NULL, (float[]){ 0.7978845608f });
        for (size_t k = 0; k < 9 && form[i].node[k]; k++) {
            char op[16], name[16], in[32];
            assert_int_equal (sscanf (form[i].node[k], "%15s %15s %31[^\n]", op, name, in), 3);
            node (&g, op, name, in);
        }
        char why[480];
        wm_error_t error = { 0 };
        save_graph (&g);
        if (wm_import (model_path, NULL, wmm_path, why, &error))
            fail_msg ("%zu: %s", i, error.text);
        wm_model_t *model = wm_model_open (wmm_path, &error);
        assert_non_null (model);
        if (!wm_model_net (model))
            fail_msg ("%zu: %s", i, why);
        assert_int_equal (wm_model_net (model)->conv[0].act, form[i].act);
        wm_model_destroy (&model);
    }
}

/* OpenVINO reads the same file by its own code: the same network.  */
static void the_general_engine_reads_the_same (void **state)
{
    static const unsigned ways[] = { 0, PROD | READ | TYPED, STACK | SQUEEZED | PORTS | LEFTOVER,
                                     CONCAT | TURNED | ADD | DOUBLE, REVERSED | RANK3 };
    const wm_import_choices_t choices = { .general = 1, .outputs = "em_trk_none:0,michel" };
    show_engines ();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char why[480], known[65];
        wm_error_t error = { 0 };
        tf_t g = family (ways[i]);
        save_graph (&g);
        if (wm_import (model_path, &choices, wmm_path, why, &error))
            fail_msg ("%zu: %s", i, error.text);
        wm_model_t *model = wm_model_open (wmm_path, &error);
        assert_non_null (model);
        assert_null (wm_model_net (model));
        assert_int_equal (wm_model_output (model, 0)->n_value, 3);
        check_known (model, 1e-6, why);
        if (!wm_head_is (model, 0, 3, WM_ACT_SOFTMAX) || !wm_head_is (model, 3, 1, WM_ACT_SIGMOID))
            fail_msg ("%zu: its heads are not known", i);
        if (wm_model_madds (model) != R * C * F * K * K + FLAT * D + D * 4)
            fail_msg ("%zu: %s", i, why);
        for (size_t chosen = 0; chosen < 2; chosen++) {
            wm_import_t *import = wm_import_open (model_path, chosen ? &choices : NULL, NULL, known,
                                                  NULL, &error);
            assert_non_null (import);
            wm_import_destroy (&import);
            assert_int_equal (strcmp (known, wm_model_sha256 (model)) == 0, chosen);
        }
        wm_model_destroy (&model);
    }
    hide_engines ();
}

/* Outside the family, a frozen graph needs OpenVINO already when it is imported.  */
static void a_general_graph (void **state)
{
    char why[480];
    wm_error_t error = { 0 };
    tf_t g = family (0);
    find (&g, "Relu")->op = copy (&g, "Softsign");
    save_graph (&g);
    assert_int_equal (wm_import (model_path, NULL, wmm_path, why, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "'conv/Relu' (Softsign)"));
    assert_non_null (strstr (error.text, "`make` fetches and builds it"));
    show_engines ();
    if (wm_import (model_path, NULL, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    assert_null (wm_model_net (model));
    assert_string_equal (wm_model_output (model, 1)->name, "michel");
    assert_int_equal (wm_model_n_output (model), 4);
    wm_model_destroy (&model);
    setenv ("TMPDIR", "/proc/nowhere", 1);
    assert_int_equal (wm_import_here (model_path, NULL, wmm_path, why, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "set TMPDIR"));
    assert_int_equal (wm_import (model_path, NULL, wmm_path, why, &error), WM_OK); /* its own */
    unsetenv ("TMPDIR");
    g = family (0);
    find (&g, "Relu")->op = copy (&g, "NoSuchOperator");
    save_graph (&g);
    assert_int_equal (wm_import (model_path, NULL, wmm_path, why, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "node 'conv/Relu' (NoSuchOperator) is not known to the "));
    assert_non_null (strstr (error.text, "OpenVINO cannot"));
    hide_engines ();
}

/* Attributes that a file leaves out have the values of TensorFlow, not of ONNX; those that it has
   are kept.  */
static void what_a_file_leaves_out (void **state)
{
    for (int said = 0; said < 2; said++) {
        tf_t g = { .ways = 0 };
        wm_error_t error = { 0 };
        wm_onnx_t onnx;
        placeholder (&g, INTS (-1, 4, 4, 2));
        weights (&g, "v", INTS (2), (float[]){ 1, 1 });
        Graphdef__Node *norm = node (&g, "FusedBatchNormV3", "norm", "main_input v v v v");
        Graphdef__Node *leaky = node (&g, "LeakyRelu", "leaky", "norm");
        Graphdef__Value *value = attr (&g, norm, "is_training");
        value->has_b = said;
        if (said) {
            Graphdef__Value *epsilon = attr (&g, norm, "epsilon"),
                            *alpha = attr (&g, leaky, "alpha");
            epsilon->has_f = alpha->has_f = 1;
            epsilon->f = 0.5f, alpha->f = 0.25f;
        } else
            norm->n_attr = 0;
        save_graph (&g);
        if (wm_onnx_open (&onnx, model_path, NULL, &error) || wm_onnx_read (&onnx, NULL, &error))
            fail_msg ("%s", error.text);
        int n_seen = 0;
        for (size_t i = 0; i < onnx.n_node; i++) {
            const Onnx__NodeProto *one = onnx.node[i];
            const bool is_norm = !strcmp (one->op_type, "BatchNormalization");
            if (!is_norm && strcmp (one->op_type, "LeakyRelu") != 0)
                continue;
            n_seen++;
            const Onnx__AttributeProto *a = wm_onnx_attribute (one, is_norm ? "epsilon" : "alpha");
            assert_non_null (a);
            const float wanted = said ? is_norm ? 0.5f : 0.25f : is_norm ? 1e-4f : 0.2f;
            if (!(a->f == wanted))
                fail_msg ("%s: %g", one->op_type, (double) a->f);
            if (is_norm)
                assert_int_equal (wm_onnx_int (one, "training_mode", 7), !said);
        }
        assert_int_equal (n_seen, 2);
        wm_onnx_clear (&onnx);
    }
}

/* Layers that only the general engine has, whose multiply-adds were counted by hand.  */
static void other_layers (void **state)
{
    static const float zero[100];
    char why[480];
    wm_error_t error = { 0 };
    tf_t g = { .ways = 0 };
    placeholder (&g, INTS (-1, 8, 10, 1));
    weights (&g, "depth_w", INTS (3, 3, 1, 2), zero);
    Graphdef__Node *n = node (&g, "DepthwiseConv2dNative", "depth", "main_input depth_w");
    set_text (&g, n, "padding", "VALID"); /* (N, 6, 8, 2): 96 * 9 */
    set_list (&g, n, "strides", INTS (1, 1, 1, 1));
    weights (&g, "up_w", INTS (2, 2, 3, 2), zero);
    integers (&g, "up_sizes", 1, INTS (1, 12, 16, 3));
    n = node (&g, "Conv2DBackpropInput", "up", "up_sizes up_w depth");
    set_text (&g, n, "padding", "VALID"); /* (N, 12, 16, 3): 96 * 12 */
    set_list (&g, n, "strides", INTS (1, 2, 2, 1));
    integers (&g, "last", 0, INTS (-1));
    node (&g, "ExpandDims", "volume", "up last");
    weights (&g, "conv_w", INTS (3, 3, 3, 1, 2), zero);
    n = node (&g, "Conv3D", "conv", "volume conv_w");
    set_text (&g, n, "padding", "VALID"); /* (N, 10, 14, 1, 2): 280 * 27 */
    set_list (&g, n, "strides", INTS (1, 1, 1, 1, 1));
    integers (&g, "rows", 1, INTS (-1, 10, 28));
    node (&g, "Reshape", "matrix", "conv rows");
    weights (&g, "product_w", INTS (3, 28), zero);
    set_true (&g, node (&g, "BatchMatMulV2", "product", "matrix product_w"), "adj_y"); /* 30 * 28 */
    integers (&g, "flat", 1, INTS (-1, 30));
    node (&g, "Reshape", "scores", "product flat");
    save_graph (&g);
    show_engines ();
    if (wm_import (model_path, NULL, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    hide_engines ();
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    assert_int_equal (wm_model_madds (model), 96 * 9 + 96 * 12 + 280 * 27 + 30 * 28);
    wm_model_destroy (&model);
}

static void graphs_refused (void **state)
{
    tf_t g = family (0);
    find (&g, "Relu")->input[0] = copy (&g, "nowhere:0");
    save_graph (&g);
    check_refused ("'nowhere:0', which nothing makes");
    g = family (0);
    find (&g, "Relu")->input[0] = copy (&g, "conv/BiasAdd:1");
    save_graph (&g);
    check_refused ("'conv/BiasAdd:1', which nothing makes");
    g = family (0);
    find (&g, "Conv2D")->input[0] = copy (&g, "fc");
    save_graph (&g);
    check_refused ("which may be a loop (an LSTM's): convert the model to ONNX by tf2onnx");
    g = family (0);
    find (&g, "Tanh")->name = copy (&g, "fc");
    save_graph (&g);
    check_refused ("defined twice");
    g = family (0);
    find (&g, "Softmax")->name = copy (&g, "softmax:0");
    save_graph (&g);
    check_refused ("'softmax:0' is no name of a TensorFlow node");
    g = family (0);
    Graphdef__Node *input = find (&g, "Placeholder");
    input->n_attr = 1;
    save_graph (&g);
    check_refused ("input 'main_input' has no shape");
    g = family (0);
    find (&g, "Placeholder")->attr[0]->value->type = DT_STRING;
    save_graph (&g);
    check_refused ("input 'main_input' is not a tensor of numbers");
}

/* A shape whose product would overflow, or that asks for more than a model: no constant.  */
static void constants_that_lie (void **state)
{
    static const int64_t wrong[][2] = {
        { INT64_MAX, 4 }, { 1ll << 40, 1 }, { -1, 1 }, { 0, 1 }, { FLAT, D + 1 }
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tf_t g = family (i % 2 ? TYPED : 0);
        for (size_t k = 0; k < g.n_node; k++)
            if (!strcmp (g.node[k]->name, "fc/kernel"))
                g.node[k]->attr[0]->value->tensor->shape = shape (&g, 2, wrong[i]);
        check_outside (&g, "fc/MatMul");
    }
}

static void truncated_and_changed_files (void **state)
{
    tf_t g = family (PROD | DROPOUT | READ);
    save_graph (&g);
    FILE *file = fopen (model_path, "rb");
    assert_non_null (file);
    static uint8_t bytes[1 << 16];
    size_t size = fread (bytes, 1, sizeof bytes, file);
    fclose (file);
    char why[480];
    wm_error_t error = { 0 };
    for (size_t n = 1; n < size; n += 7) { /* cut between nodes: a graph, with other outputs */
        save (bytes, n);
        if (wm_import (model_path, NULL, wmm_path, why, &error) || strncmp (why, "sparse", 6))
            continue;
        wm_model_t *model = wm_model_open (wmm_path, &error);
        assert_non_null (model);
        assert_true (wm_model_n_output_port (model) != 2 ||
                     strcmp (wm_model_output (model, 1)->name, "michel"));
        wm_model_destroy (&model);
    }
    uint64_t z = 1;
    for (int i = 0; i < 1000; i++) {
        z = z * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t) (z >> 33) % size;
        uint8_t old = bytes[at];
        bytes[at] = (uint8_t) (z >> 20);
        save (bytes, size);
        wm_import (model_path, NULL, wmm_path, why, &error);
        bytes[at] = old;
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (every_way_alone_and_in_pairs),
        cmocka_unit_test (outputs_are_in_the_files_order),
        cmocka_unit_test (nodes_outside_the_family),
        cmocka_unit_test (activations_of_several_nodes),
        cmocka_unit_test (the_general_engine_reads_the_same),
        cmocka_unit_test (a_general_graph),
        cmocka_unit_test (other_layers),
        cmocka_unit_test (what_a_file_leaves_out),
        cmocka_unit_test (graphs_refused),
        cmocka_unit_test (constants_that_lie),
        cmocka_unit_test (truncated_and_changed_files),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
