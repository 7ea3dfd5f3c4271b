/* test_ops_columns.c - names of the scores' columns: a file's labels, a preset's where the heads
   are those that it was made for, else the names of the model's outputs; and the line that
   tells.  */
#include "kernels/import/wm_head.h"
#include "ops/campaign/wm_columns.h"
#include "tests/unit/family_graph.h"
#include "tests/unit/onnx_graph.h"
#include "tests/unit/small_net.h"

#define KERAS                                                                                      \
    "em_trk_none_netout_Softmax_0 em_trk_none_netout_Softmax_1 em_trk_none_netout_Softmax_2 "      \
    "michel_netout_Sigmoid"
#define FOR_HEADS " (the preset's labels are for a softmax of three and a sigmoid of one)"

static const wm_columns_from_t nothing_typed = { .preset = "protodune-2021" };
static const wm_columns_from_t preset_typed = { .preset = "protodune-2021", .chosen = 1 };

static wm_model_t *imported (graph_t *g, int general)
{
    char why[480];
    wm_error_t error = { 0 };
    save_graph (g);
    if (wm_import (model_path, &(wm_import_choices_t){ .general = general }, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    if (!model || wm_model_kind (model) != (general ? WM_MODEL_GENERAL : WM_MODEL_FAMILY))
        fail_msg ("%s", model ? wm_model_why (model) : error.text);
    return model;
}

/* The preset's specification for this model: its labels, one after the other, and the line.  */
static void check (wm_model_t *model, const wm_columns_from_t *from, const char *labels,
                   const char *line)
{
    wm_spec_t spec, before;
    wm_error_t error = { 0 };
    char text[WM_COLUMNS_BYTES_MAX], got[400] = "";
    assert_int_equal (wm_spec_preset (&spec, from->preset, &error), WM_OK);
    before = spec;
    if (wm_columns_choose (&spec, from, model, text, &error))
        fail_msg ("%s", error.text);
    for (uint32_t i = 0; i < spec.n_label; i++)
        snprintf (got + strlen (got), sizeof got - strlen (got), i ? " %s" : "%s", spec.label[i]);
    assert_string_equal (got, labels);
    assert_string_equal (text, line);
    memcpy (spec.label, before.label, sizeof spec.label);
    spec.n_label = before.n_label;
    assert_memory_equal (&spec, &before, sizeof spec); /* nothing else changes */
    wm_model_destroy (&model);
}

/* Four scores of one softmax: another network, which had the labels of this one.  */
static graph_t four_kinds (void)
{
    static const float weights[D * 5] = { 1, 2, -3, 4, -5, 6, -7 }, biases[5] = { 0 };
    const denses_t d = denses (0);
    graph_t g = { .ways = 0 };
    add_dense (&g, add_flatten (&g, add_conv (&g, add_input (&g))), "fc", FLAT, D, d.fc, d.fc_bias);
    node (&g, "Tanh", "fc", "fc_act");
    add_dense (&g, "fc_act", "cls", D, 4, weights, biases);
    set_int (&g, node (&g, "Softmax", "cls", "kind"), "axis", 1);
    output (&g, "kind", INTS (-1, 4));
    return g;
}

static void the_usual_network_keeps_its_columns (void **state)
{
    char why[480];
    wm_error_t error = { 0 };
    assert_int_equal (wm_model_new_emtrkmichel (1, 48, 48, model_path, &error), WM_OK);
    assert_int_equal (wm_import (model_path, NULL, wmm_path, why, &error), WM_OK);
    check (wm_model_open (wmm_path, &error), &nothing_typed, "track em none michel",
           "columns track em none michel: labels of the preset protodune-2021");
    check (wm_model_open (wmm_path, &error),
           &(wm_columns_from_t){ .preset = "dunefd-44x48", .chosen = 1 }, "track em michel none",
           "columns track em michel none: labels of the preset dunefd-44x48");
    check (wm_model_open (wmm_path, &error), &(wm_columns_from_t){ .preset = "dunefd-44x48" },
           KERAS,
           "columns " KERAS ": names of the model's outputs (the preset's labels are for patches "
           "of 44 x 48)");
    check (
        wm_model_open (wmm_path, &error),
        &(wm_columns_from_t){ .preset = "protodune-2021", .file = "my.yaml", .chosen = 1 },
        "track em none michel",
        "columns track em none michel: labels of the preset protodune-2021 (my.yaml names none)");
    for (unsigned ways = 0; ways <= CONCAT; ways += CONCAT) { /* two outputs, one of both heads */
        graph_t g = family (ways);
        check (imported (&g, 0), &preset_typed, "track em none michel",
               "columns track em none michel: labels of the preset protodune-2021");
    }
    graph_t g = family (0); /* as before: what nobody chose is for its own patch only */
    check (imported (&g, 0), &nothing_typed, "em_trk_none_0 em_trk_none_1 em_trk_none_2 michel",
           "columns em_trk_none_0 em_trk_none_1 em_trk_none_2 michel: names of the model's outputs "
           "(the preset's labels are for patches of 48 x 48)");
}

static void other_heads_have_their_own_names (void **state)
{
    static const char line[] =
        "columns kind_0 kind_1 kind_2 kind_3: names of the model's outputs" FOR_HEADS;
    graph_t g = four_kinds ();
    check (imported (&g, 0), &preset_typed, "kind_0 kind_1 kind_2 kind_3", line);
    g = four_kinds ();
    check (imported (&g, 0), &nothing_typed, "kind_0 kind_1 kind_2 kind_3", line);
    g = four_kinds ();
    check (imported (&g, 0),
           &(wm_columns_from_t){ .preset = "protodune-2021", .file = "my.yaml", .chosen = 1 },
           "kind_0 kind_1 kind_2 kind_3", line);
    g = four_kinds (); /* the same activations one by one are no softmax of three */
    find (&g, "Softmax")->op_type = copy (&g, "Sigmoid");
    find (&g, "Sigmoid")->n_attribute = 0;
    check (imported (&g, 0), &preset_typed, "kind_0 kind_1 kind_2 kind_3", line);
    g = four_kinds ();
    g.out[0]->name = find (&g, "Softmax")->output[0] =
        copy (&g, "a_name_that_is_longer_than_a_column_may_be");
    check (imported (&g, 0), &preset_typed, "",
           "columns out_0 out_1 out_2 out_3: numbers, as the names of the model's outputs cannot "
           "be columns" FOR_HEADS);
    g = family (0);
    Onnx__ValueInfoProto *first = g.out[0];
    g.out[0] = g.out[1];
    g.out[1] = first;
    check (imported (&g, 0), &preset_typed, "michel em_trk_none_0 em_trk_none_1 em_trk_none_2",
           "columns michel em_trk_none_0 em_trk_none_1 em_trk_none_2: names of the model's "
           "outputs" FOR_HEADS);
    g = family (0); /* not four: was refused where the preset was typed */
    g.n_out = 1;
    check (imported (&g, 0), &preset_typed, "em_trk_none_0 em_trk_none_1 em_trk_none_2",
           "columns em_trk_none_0 em_trk_none_1 em_trk_none_2: names of the model's "
           "outputs" FOR_HEADS);
}

/* A general model's graph is looked into, as far as it tells.  */
static void heads_of_general_models (void **state)
{
    static const char usual[] = "columns track em none michel: labels of the preset protodune-2021";
    graph_t g = family (0);
    check (imported (&g, 1), &preset_typed, "track em none michel", usual);
    g = family (0);
    find (&g, "Softmax")->output[0] = copy (&g, "scores");
    node (&g, "Identity", "scores", "em_trk_none");
    check (imported (&g, 1), &preset_typed, "track em none michel", usual);
    g = family (CONCAT);
    check (imported (&g, 1), &preset_typed, "all_0 all_1 all_2 all_3",
           "columns all_0 all_1 all_2 all_3: names of the model's outputs" FOR_HEADS);
    g = four_kinds ();
    check (imported (&g, 1), &preset_typed, "kind_0 kind_1 kind_2 kind_3",
           "columns kind_0 kind_1 kind_2 kind_3: names of the model's outputs" FOR_HEADS);
    g = family (0);
    find (&g, "Sigmoid")->op_type = copy (&g, "Tanh");
    wm_model_t *model = imported (&g, 1);
    assert_true (wm_head_is (model, 0, 3, WM_ACT_SOFTMAX));
    assert_false (
        wm_head_is (model, 0, 3, WM_ACT_SIGMOID) || wm_head_is (model, 0, 4, WM_ACT_SOFTMAX) ||
        wm_head_is (model, 1, 3, WM_ACT_SOFTMAX) ||
        wm_head_is (model, 3, 1, WM_ACT_SIGMOID) || /* a tanh */
        wm_head_is (model, 4, 1, WM_ACT_SIGMOID) || wm_head_is (model, 0, 3, WM_ACT_NONE));
    static const char names[] = "em_trk_none_0 em_trk_none_1 em_trk_none_2 michel",
                      line[] = "columns em_trk_none_0 em_trk_none_1 em_trk_none_2 michel: names of "
                               "the model's outputs" FOR_HEADS;
    check (model, &preset_typed, names, line);
    g = family (0); /* three sigmoids are no softmax */
    Onnx__NodeProto *first = find (&g, "Softmax");
    first->op_type = copy (&g, "Sigmoid");
    first->n_attribute = 0;
    check (imported (&g, 1), &preset_typed, names, line);
}

static void a_file_that_names_labels_wins (void **state)
{
    static const char *const given[] = { "labels: [a, b, c, d]", "labels: []", "labels: [a, b, c]",
                                         "view: full" };
    for (int i = 0; i < 4; i++) {
        wm_spec_t spec;
        wm_error_t error = { 0 };
        char text[WM_COLUMNS_BYTES_MAX];
        wm_columns_from_t from = { .preset = "protodune-2021", .file = "my.yaml", .chosen = 1 };
        graph_t g = i % 2 ? four_kinds () : family (0);
        wm_model_t *model = imported (&g, 0);
        uint32_t keys;
        assert_int_equal (
            wm_spec_parse_user (&spec, given[i], strlen (given[i]), "my.yaml", &keys, &error),
            WM_OK);
        from.labelled = wm_spec_gives (keys, "labels");
        assert_int_equal (from.labelled, i < 3);
        wm_fault_t fault = wm_columns_choose (&spec, &from, model, text, &error);
        assert_int_equal (fault, i == 2 ? WM_EBATCH : WM_OK);
        assert_string_equal (
            fault ? error.text : text,
            ((const char *[]){
                "columns a b c d: labels of my.yaml",
                "columns kind_0 kind_1 kind_2 kind_3: names of the model's outputs (labels: [] "
                "asks for them)",
                "my.yaml names 3 labels, the model gives 4 scores per hit; change its labels",
                "columns kind_0 kind_1 kind_2 kind_3: names of the model's outputs" FOR_HEADS })
                [i]);
        if (i == 0)
            assert_string_equal (spec.label[3], "d");
        wm_model_destroy (&model);
    }
}

/* The line stays a line.  */
static void many_columns_are_not_all_listed (void **state)
{
    static float weights[D * 60];
    static const unsigned n[] = { 8, 9, 60 };
    static const char *const list[] = { "y_0 y_1 y_2 y_3 y_4 y_5 y_6 y_7", "y_0 y_1 ... y_8",
                                        "y_0 y_1 ... y_59" };
    const denses_t d = denses (0);
    for (int i = 0; i < 3; i++) {
        graph_t g = { .ways = 0 };
        add_dense (&g, add_flatten (&g, add_conv (&g, add_input (&g))), "fc", FLAT, D, d.fc,
                   d.fc_bias);
        node (&g, "Tanh", "fc", "fc_act");
        add_dense (&g, "fc_act", "y", D, n[i], weights, weights);
        output (&g, "y", INTS (-1, n[i]));
        wm_model_t *model = imported (&g, 0);
        wm_spec_t spec;
        char text[WM_COLUMNS_BYTES_MAX], line[200];
        assert_int_equal (wm_spec_preset (&spec, "protodune-2021", NULL), WM_OK);
        assert_int_equal (wm_columns_choose (&spec, &preset_typed, model, text, NULL), WM_OK);
        snprintf (line, sizeof line, "columns %s: names of the model's outputs" FOR_HEADS, list[i]);
        assert_string_equal (text, line);
        assert_int_equal (spec.n_label, n[i]);
        wm_model_destroy (&model);
    }
}

/* Frames take a patch's wires and drift bins as they lie: another order would look right.  */
static void an_image_lies_as_its_patch_does (void **state)
{
    static const struct {
        int64_t in[4], out[4];
        const char *op;
        int64_t axes[4]; /* perm of Transpose; of ReduceMax the first is its axis */
        uint32_t n_channel;
        int fits;
    } at[] = {
        { { -1, 1, 6, 8 }, { -1, 1, 6, 8 }, "Relu", { 0 }, 1, 1 },
        { { -1, 6, 8, 1 }, { -1, 1, 6, 8 }, "Transpose", { 0, 3, 1, 2 }, 1, 1 },
        { { -1, 1, 6, 8 }, { -1, 1, 8, 6 }, "Transpose", { 0, 1, 3, 2 }, 1, 0 },
        { { -1, 3, 6, 8 }, { -1, 1, 6, 8 }, "ReduceMax", { 1 }, 3, 1 },
        { { -1, 6, 8, 3 }, { -1, 6, 8, 1 }, "ReduceMax", { 3 }, 3, 1 },
        { { -1, 3, 6, 8 }, { -1, 1, 6, 8 }, "ReduceMax", { 1 }, 1, 0 }, /* of one channel */
        { { -1, 3, 6, 8 }, { -1, 3, 6, 8 }, "Relu", { 0 }, 3, 0 },
        { { -1, 3, 6, 8 }, { -1, 3, 6, 8 }, "Relu", { 0 }, 1, 0 },
        { { -1, 1, 6, 8 }, { -1, 1, 6, 1 }, "ReduceMax", { 3 }, 1, 0 },
        { { -1, 1, 6, 8 }, { -1, 1, 1, 8 }, "ReduceMax", { 2 }, 1, 0 },
        { { -1, 1, 1, 8 }, { -1, 1, 1, 8 }, "Relu", { 0 }, 1, 1 },
    };
    for (size_t i = 0; i <= sizeof at / sizeof *at; i++) {
        const size_t k = i % (sizeof at / sizeof *at); /* at last the first, with two outputs */
        graph_t g = { .ways = 0 };
        input (&g, "patch", 4, at[k].in);
        Onnx__NodeProto *one = node (&g, at[k].op, "patch", "pixels");
        if (*at[k].op == 'T')
            set_ints (&g, one, "perm", 4, at[k].axes);
        else if (!strcmp (at[k].op, "ReduceMax"))
            set_ints (&g, one, "axes", 1, at[k].axes);
        output (&g, "pixels", 4, at[k].out);
        if (i > k) {
            node (&g, "Relu", "patch", "again");
            output (&g, "again", 4, at[k].out);
        }
        wm_model_t *model = imported (&g, 1);
        wm_spec_t spec;
        wm_error_t error = { 0 };
        char text[WM_COLUMNS_BYTES_MAX];
        static const char none[sizeof spec.label];
        assert_int_equal (wm_spec_preset (&spec, "protodune-2021", NULL), WM_OK);
        spec.result = WM_RESULT_IMAGE;
        spec.n_channel = at[k].n_channel;
        if (wm_columns_choose (&spec, &preset_typed, model, text, &error)) {
            if (at[k].fits && i == k)
                fail_msg ("%zu: %s", i, error.text);
            assert_string_equal (
                error.text, "protodune-2021: result: image needs a model of one output of the "
                            "patch's shape, wires x drift bins; wiremill import prints the shapes "
                            "of this one");
            assert_int_equal (spec.n_label, 4);
        } else {
            if (!at[k].fits || i > k)
                fail_msg ("%zu is no image of its patch", i);
            assert_string_equal (text,
                                 "frames frame_emtrkmichel: an image of each plane, by tiles");
            assert_int_equal (spec.n_label, 0);
            assert_memory_equal (spec.label, none, sizeof none);
        }
        wm_model_destroy (&model);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (the_usual_network_keeps_its_columns),
        cmocka_unit_test (other_heads_have_their_own_names),
        cmocka_unit_test (heads_of_general_models),
        cmocka_unit_test (a_file_that_names_labels_wins),
        cmocka_unit_test (many_columns_are_not_all_listed),
        cmocka_unit_test (an_image_lies_as_its_patch_does),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("ops_columns", tests, make_folder, remove_folder);
}
