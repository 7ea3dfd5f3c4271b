/* test_kernels_family.c - which ONNX graphs are of the family, and why others are not.

   The network of small_net.h is written in every way exporters write it, alone and in pairs; each
   must import as the family with the scores that the definition gives.  */
#include "tests/unit/family_graph.h"

static void check_family (unsigned ways)
{
    char label[200] = "";
    for (int i = 0; i < N_WAY; i++)
        if (ways >> i & 1)
            snprintf (label + strlen (label), sizeof label - strlen (label), " %s", way_name[i]);
    graph_t g = family (ways);
    save_graph (&g);
    check_is_family (label, ways & CONCAT ? 1 : 2);
}

static void every_way_alone_and_in_pairs (void **state)
{
    check_family (0);
    for (int i = 0; i < N_WAY; i++)
        for (int j = i; j < N_WAY; j++)
            check_family (1u << i | 1u << j);
}

static void many_ways_at_once (void **state)
{
    check_family (NCHW | CHW | RESHAPE | TRANSB | REVERSED | INPUTS);       /* old PyTorch */
    check_family (BIAS_NHWC | PRODUCT | MATMUL | NOOPS | HWIO | CONSTANTS); /* tf2onnx */
    check_family (FLAT_INPUT | MATMUL | BIAS_ADD | REVERSED | FLOAT_DATA | HALF | NOOPS);
    graph_t g = family (0);
    set_int (&g, find (&g, "Flatten"), "axis", -3); /* of four dimensions */
    save_graph (&g);
    check_is_family ("Flatten from dimension -3 on", 2);
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
    if (wm_import (model_path, NULL, wmm_path, why, &error))
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

static void a_convolution_of_another_kind (void **state)
{
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
    behind (&g, "Conv", "Add", "conv"); /* x + x, and what comes behind it */
    check_general (&g, "'conv_act' (Relu) is not of the EmTrkMichelId family: what is computed of");
    g = family (NCHW | CHW); /* x sigmoid (x), but of another x for each channel */
    constant (&g, "slopes", INTS (F, 1, 1), (float[F]){ 1, 2 });
    node (&g, "Mul", "conv slopes", "scaled");
    node (&g, "Sigmoid", "scaled", "gate");
    Onnx__NodeProto *relu = find (&g, "Relu");
    relu->op_type = copy (&g, "Mul");
    relu->input = split (&g, "conv gate", &relu->n_input);
    check_general (&g, "'scaled' (Mul) is not of the EmTrkMichelId family: it computes on a layer");
    g = family (NCHW | CHW); /* an input left out, of a node that needs it */
    node (&g, "Sigmoid", "conv", "gate");
    relu = find (&g, "Relu");
    relu->op_type = copy (&g, "Mul");
    relu->input = split (&g, "conv - gate", &relu->n_input);
    check_general (&g,
                   "'conv_act' (Mul) is not of the EmTrkMichelId family: it computes on a layer");
    g = family (0); /* Max of three */
    Onnx__NodeProto *most = behind (&g, "Conv", "Max", "conv conv");
    assert_int_equal (most->n_input, 3);
    check_general (&g,
                   "'inserted' (Max) is not of the EmTrkMichelId family: it computes on a layer");
    g = family (0);
    Onnx__NodeProto *head = find (&g, "Sigmoid");
    head->op_type = copy (&g, "Mul");
    head->input = split (&g, "mic mic", &head->n_input);
    check_general (&g, "'michel' (Mul) is not of the EmTrkMichelId family: what is computed of");
    g = family (0);
    Onnx__NodeProto *gelu = find (&g, "Relu");
    gelu->op_type = copy (&g, "Gelu");
    Onnx__AttributeProto *how = attribute (&g, gelu, "approximate");
    how->has_s = 1;
    how->s = (ProtobufCBinaryData){ 4, (uint8_t *) copy (&g, "fast") };
    check_general (&g, "its approximation is not known");
    g = family (0);
    constant (&g, "slope", INTS (1, 1, R, 1), (float[R]){ 1, 2 });
    behind (&g, "Conv", "Add", "slope");
    check_general (&g, "along the channels");
    g = family (0);
    find (&g, "Transpose")->attribute[0]->ints[1] = 1; /* (0, 1, 1, 2) */
    check_general (&g, "no permutation");
    for (int64_t axis = -4; axis <= 2; axis += 2)
        if (axis) { /* 0 and -4 fold the batch in, -2 and 2 leave a dimension */
            g = family (0);
            set_int (&g, find (&g, "Flatten"), "axis", axis);
            check_general (&g, "(Flatten) is not of the EmTrkMichelId family: axis");
        }
    g = family (0);
    find (&g, "Softmax")->attribute[0]->i = 0;
    check_general (&g, "run over the outputs");
    g = family (0);
    set_int (&g, find (&g, "Gemm"), "transA", 1);
    check_general (&g, "transA");
}

/* x sigmoid (x), but for values that the middle of the curve does not have.  */
static void curves_that_bend_far_out (void **state)
{
    static const float limit[] = { 28, 50, 1e6f, 1e20f };
    for (size_t i = 0; i < sizeof limit / sizeof *limit; i++) {
        graph_t g = family (NCHW | CHW);
        constant (&g, "limit", 0, NULL, &limit[i]);
        node (&g, "Min", "conv limit", "limited");
        node (&g, "Sigmoid", "conv", "gate");
        Onnx__NodeProto *relu = find (&g, "Relu");
        relu->op_type = copy (&g, "Mul");
        relu->input = split (&g, "limited gate", &relu->n_input);
        check_general (&g, "what is computed of its layer is no activation");
    }
    graph_t g = family (NCHW | CHW); /* infinite from 2,110 on */
    constant (&g, "far", 0, NULL, (float[]){ 1400 });
    node (&g, "Sigmoid", "conv", "gate");
    node (&g, "Sub", "conv far", "moved");
    node (&g, "Exp", "moved", "power");
    node (&g, "Add", "gate power", "sum");
    Onnx__NodeProto *relu = find (&g, "Relu");
    relu->op_type = copy (&g, "Mul");
    relu->input = split (&g, "conv sum", &relu->n_input);
    check_general (&g, "what is computed of its layer is no activation");
}

static Onnx__TensorProto *find_tensor (const graph_t *g, const char *name)
{
    size_t i = 0;
    while (strcmp (g->tensor[i]->name, name) != 0)
        i++;
    return g->tensor[i];
}

/* What would be moved through float32 sums, and back: a Clip's lower limit, a pedestal.  */
static void constants_that_cost_precision (void **state)
{
    static const float low[] = { -300, -1e30f, 40 };
    for (size_t i = 0; i < sizeof low / sizeof *low; i++) {
        graph_t g = family (NCHW | CHW);
        constant (&g, "low", 0, NULL, &low[i]);
        constant (&g, "high", 0, NULL, (float[]){ 1e30f });
        Onnx__NodeProto *relu = find (&g, "Relu");
        relu->op_type = copy (&g, "Clip");
        relu->input = split (&g, "conv low high", &relu->n_input);
        check_general (&g, "'fc' (Gemm) is not of the EmTrkMichelId family: a constant before it");
    }
    for (int sign = -1; sign < 2; sign += 2) { /* 90 either way, of nine products of 10 */
        graph_t g = family (NCHW | CHW);
        static const float quarter[F * K * K] = { 0.25f, 0.25f, 0.25f, 0.25f, 0.25f,
                                                  0.25f, 0.25f, 0.25f, 0.25f };
        const float pedestal = (float) sign * 40;
        memcpy (find_tensor (&g, "conv_w")->raw_data.data, quarter, sizeof quarter);
        constant (&g, "pedestal", 0, NULL, &pedestal);
        node (&g, "Add", "patch pedestal", "moved");
        find (&g, "Conv")->input[0] = copy (&g, "moved");
        check_general (&g, "before it moves its sums by 90, beyond 32");
    }
    for (int dense = 0; dense < 2; dense++) {
        graph_t g = family (NCHW | CHW);
        constant (&g, "pedestal", 0, NULL, (float[]){ 2350 });
        node (&g, "Sub", dense ? "conv_act pedestal" : "patch pedestal", "lowered");
        find (&g, dense ? "Flatten" : "Conv")->input[0] = copy (&g, "lowered");
        check_general (&g, dense ? "'fc' (Gemm) is not of the EmTrkMichelId family: a constant"
                                 : "'conv' (Conv) is not of the EmTrkMichelId family: a constant");
    }
}

static const float one[R * C * F] = { 1, 1, 1, 1 }; /* the first of them */

/* Constants that scale and shift the convolution's channels, before or behind its activation.  */
static Onnx__NodeProto *normalise (graph_t *g, const char *behind_what)
{
    static const float scale[F] = { 0.5f, 2 }, shift[F] = { 0.25f, -1 }, mean[F] = { 1, -0.5f },
                       variance[F] = { 0.25f, 4 };
    constant (g, "bn_scale", INTS (F), scale);
    constant (g, "bn_shift", INTS (F), shift);
    constant (g, "bn_mean", INTS (F), mean);
    constant (g, "bn_variance", INTS (F), variance);
    return behind (g, behind_what, "BatchNormalization", "bn_scale bn_shift bn_mean bn_variance");
}

/* A score must not depend on its batch, or on chance, or be wrong.  */
static void nodes_refused (void **state)
{
    graph_t g = family (NCHW);
    set_int (&g, normalise (&g, "Conv"), "training_mode", 1);
    save_graph (&g);
    check_refused ("node 'inserted' (BatchNormalization) is in training mode");
    g = family (NCHW);
    Onnx__NodeProto *norm = normalise (&g, "Conv");
    norm->output = split (&g, "inserted running", &norm->n_output);
    save_graph (&g);
    check_refused ("(BatchNormalization) is in training mode");
    g = family (NCHW);
    constant (&g, "ratio", 0, NULL, one);
    integers (&g, "training", 0, INTS (1));
    behind (&g, "Tanh", "Dropout", "ratio training");
    save_graph (&g);
    check_refused ("(Dropout) is in training mode");
    g = family (NCHW);
    behind (&g, "Tanh", "RandomNormalLike", "");
    save_graph (&g);
    check_refused ("'inserted' (RandomNormalLike) draws at random");
    g = family (NCHW);
    Onnx__NodeProto *first = find (&g, "Tanh");
    first->op_type = copy (&g, "Clip");
    first->input = split (&g, "- fc", &first->n_input);
    save_graph (&g);
    check_refused ("'fc_act' (Clip) has no first input");
    g = family (NCHW);
    find (&g, "Conv")->domain = copy (&g, "com.microsoft");
    save_graph (&g);
    check_refused ("'conv' (Conv) is an operator of ONNX Runtime's own");
}

/* What OpenVINO crashes at, takes for something, or tells without saying whose and where.  */
static void damaged_graphs (void **state)
{
    graph_t g = family (NCHW);
    find (&g, "Conv")->n_input = 1;
    save_graph (&g);
    check_refused ("node 'conv' (Conv) has 1 inputs and needs 2: a damaged model");
    for (int group = -1; group < 1; group++) {
        g = family (NCHW);
        set_int (&g, find (&g, "Conv"), "group", group);
        save_graph (&g);
        check_refused (group ? "'conv' (Conv) has a group of -1"
                             : "'conv' (Conv) has a group of 0");
    }
    for (int how = 0; how < 4; how++) {
        g = family (NCHW);
        Onnx__TensorProto *t = g.tensor[0];
        int64_t *dim = t->dims;
        if (how == 0)
            dim[0] = -dim[0], dim[1] = -dim[1];
        else if (how == 1)
            dim[0] = dim[1] = (int64_t) 1 << 40;
        else if (how == 2)
            dim[0]++;
        else
            t->raw_data.len--;
        save_graph (&g);
        check_refused ("does not have the data of its shape and type: a damaged model");
    }
    g = family (NCHW);
    g.out[0]->name = copy (&g, "ghost");
    save_graph (&g);
    check_refused ("no node makes its output 'ghost'");
}

static void reshapes_that_lose_the_batch (void **state)
{
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
    check_general (&g, "several inputs");
}

/* An output in the middle of the tree is still the family.  */
static void an_output_inside_the_tree (void **state)
{
    char why[480];
    wm_error_t error = { 0 };
    graph_t g = family (0);
    output (&g, "fc_act", INTS (-1, D));
    save_graph (&g);
    const wm_import_choices_t rows = { .row_values = WM_RAGGED_VALUES }; /* they have one size */
    assert_int_equal (wm_import (model_path, &rows, wmm_path, why, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "leave out --row-bytes"));
    assert_int_equal (wm_import (model_path, NULL, wmm_path, why, &error), WM_OK);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    assert_non_null (wm_model_net (model));
    assert_int_equal (wm_model_n_output (model), 4 + D);
    assert_int_equal (wm_model_net (model)->dense[0].output, 4);
    wm_model_destroy (&model);
}

/* Sets whose operators join shapes by other rules, or are not known.  */
static void operator_sets (void **state)
{
    static const int64_t other[] = { -1, 1, 6, 28, 99 }, known[] = { 7, 13, 27 };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        graph_t g = family (0);
        g.set = known[i];
        save_graph (&g);
        check_is_family ("its operator set", 2);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        char text[64];
        graph_t g = family (0);
        g.set = other[i];
        snprintf (text, sizeof text, "the model states operator set %lld,", (long long) g.set);
        check_general (&g, text);
    }
}

/* Two channels: channels last is the family, channels first is not.  */
static void two_channels (void **state)
{
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
            if (wm_import (model_path, NULL, wmm_path, why, &error) || strncmp (why, "sparse", 6))
                fail_msg ("%s %s", why, error.text);
        } else {
            input (&g, "patch", INTS (n, 2, H, W));
            check_general (&g, "channels last");
        }
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (every_way_alone_and_in_pairs),
        cmocka_unit_test (many_ways_at_once),
        cmocka_unit_test (a_convolution_of_another_kind),
        cmocka_unit_test (nodes_outside_the_family),
        cmocka_unit_test (curves_that_bend_far_out),
        cmocka_unit_test (constants_that_cost_precision),
        cmocka_unit_test (nodes_refused),
        cmocka_unit_test (damaged_graphs),
        cmocka_unit_test (reshapes_that_lose_the_batch),
        cmocka_unit_test (a_convolution_beside_the_tree),
        cmocka_unit_test (graphs_that_are_no_tree),
        cmocka_unit_test (an_output_inside_the_tree),
        cmocka_unit_test (operator_sets),
        cmocka_unit_test (two_channels),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
