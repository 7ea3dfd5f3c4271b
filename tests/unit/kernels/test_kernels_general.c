/* test_kernels_general.c - models for the general engine: several inputs and outputs of any names,
   ranks and types, what is chosen of them, their known answers, and what is refused.  */
#include "tests/unit/made_import.h"
#include "tests/unit/without_engines.h"

#include <math.h>

static void refused (const wm_import_choices_t *choices, const char *word)
{
    char why[480];
    wm_error_t error = { 0 };
    unlink (wmm_path);
    if (wm_import (onnx_path, choices, wmm_path, why, &error) != WM_EBATCH ||
        !strstr (error.text, word))
        fail_msg ("no '%s' in: %s", word, error.text);
    assert_int_not_equal (access (wmm_path, F_OK), 0);
}

/* Three patches through the engine; its self-test must pass before.  */
static void score (const wm_model_t *model, const float *patch, float *scores)
{
    wm_error_t error = { 0 };
    const wm_device_config_t config = { .engine = "auto", .precision = "fp32", .threads = 1 };
    wm_device_t *device = wm_device_new (model, NULL, &config, &error);
    if (!device || wm_device_self_test (device, &error))
        fail_msg ("%s", error.text);
    uint8_t status[3];
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                         .n_hit = 3,
                         .patch_values = wm_model_n_value (model),
                         .patch = (float *) (uintptr_t) patch };
    if (wm_device_score (device, &batch, status, scores, &error))
        fail_msg ("%s", error.text);
    for (int i = 0; i < 3; i++)
        assert_int_equal (status[i], WM_HIT_SCORED);
    wm_device_destroy (&device);
}

/* ---- several inputs and outputs -------------------------------------------------------------- */

/* a (N, 4), "b/2" (N, 2, 3), n (N) of integers -> "sum of b" (N) = a + b and n in all, "twice" (N,
   2, 3) = 2 b, top (N): the index of a's largest.  */
static graph_t several (int64_t batch)
{
    graph_t g = { .ways = 0 };
    input (&g, "a", INTS (batch, 4));
    input (&g, "b/2", INTS (batch, 2, 3));
    g.in[g.n_in++] = port (&g, "n", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, INTS (batch));
    set_int (&g, node (&g, "Cast", "n", "n_float"), "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    for (int k = 0; k < 2; k++) {
        Onnx__NodeProto *sum = node (&g, "ReduceSum", k ? "b/2" : "a", k ? "sum_b" : "sum_a");
        set_int (&g, sum, "keepdims", 0);
        Onnx__TensorProto *axes =
            tensor (&g, k ? "axes_b" : "axes_a", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1,
                    &(int64_t){ k + 1 });
        axes->n_int64_data = (size_t) k + 1;
        axes->int64_data = memcpy (take (&g, 2, 8), (int64_t[]){ 1, 2 }, 16);
        add_tensor (&g, axes);
        sum->input[sum->n_input++] = axes->name;
    }
    node (&g, "Sum", "sum_a sum_b n_float", "total");
    node (&g, "Identity", "total", "sum_of_b");
    g.node[g.n_node - 1]->output[0] = copy (&g, "sum of b");
    node (&g, "Add", "b/2 b/2", "twice");
    Onnx__NodeProto *top = node (&g, "ArgMax", "a", "top");
    set_int (&g, top, "axis", 1);
    set_int (&g, top, "keepdims", 0);
    output (&g, "sum of b", INTS (batch));
    output (&g, "twice", INTS (batch, 2, 3));
    g.out[g.n_out++] = port (&g, "top", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, INTS (batch));
    return g;
}

static const float three[3][11] = { { 1, 2, 3, 4, 10, 20, 30, 40, 50, 60, 7 },
                                    { 4, 3, 2, 1, -1, -2, -3, -4, -5, -6, -7 },
                                    { 0, 9, 0, 0, .5f, .5f, .5f, .5f, .5f, .5f, 100 } };

static void check_several (const wm_model_t *model)
{
    float scores[3][8];
    assert_int_equal (wm_model_n_input (model), 3);
    assert_int_equal (wm_model_n_value (model), 11);
    assert_int_equal (wm_model_n_output (model), 8);
    score (model, three[0], scores[0]);
    const float sum[3] = { 10 + 210 + 7, 10 - 21 - 7, 9 + 3 + 100 }, top[3] = { 3, 0, 1 };
    for (int i = 0; i < 3; i++) {
        assert_float_equal (scores[i][0], sum[i], 1e-4);
        for (int k = 0; k < 6; k++)
            assert_float_equal (scores[i][1 + k], 2 * three[i][4 + k], 1e-5);
        assert_float_equal (scores[i][7], top[i], 0);
    }
}

static void inputs_and_outputs_of_any_kind (void **state)
{
    for (int64_t batch = -1; batch <= 1; batch += 2) { /* 1: fixed */
        graph_t g = several (batch);
        save_graph (&g);
        wm_model_t *model = imported (NULL);
        assert_string_equal (wm_model_output (model, 0)->name, "sum of b");
        assert_int_equal (wm_model_output (model, 0)->n_dim, 0);
        assert_int_equal (wm_model_output (model, 1)->n_dim, 2);
        const float *inputs, *answers;
        assert_int_equal (wm_model_known (model, &inputs, &answers), 8);
        check_several (model);
        wm_model_destroy (&model);
    }
}

/* The outputs' shapes need not be in the file: the engine says them.  */
static void outputs_without_shapes (void **state)
{
    graph_t g = several (-1);
    for (size_t i = 0; i < g.n_out; i++)
        g.out[i]->type = NULL;
    save_graph (&g);
    wm_model_t *model = imported (NULL);
    check_several (model);
    wm_model_destroy (&model);
}

static void some_outputs_in_another_order (void **state)
{
    graph_t g = several (-1);
    save_graph (&g);
    const wm_import_choices_t choices = { .outputs = "twice,sum of b" };
    wm_model_t *model = imported (&choices);
    assert_int_equal (wm_model_n_output (model), 7);
    float scores[3][7];
    score (model, three[0], scores[0]);
    assert_float_equal (scores[1][0], -2, 1e-5);
    assert_float_equal (scores[1][6], -18, 1e-4);
    wm_model_destroy (&model);
    refused (&(wm_import_choices_t){ .outputs = "twice,thrice" },
             "no node makes an output 'thrice'");
    refused (&(wm_import_choices_t){ .outputs = "a" }, "no node makes an output 'a'");
    model = imported (&(wm_import_choices_t){ .outputs = "n_float,sum_b" }); /* inside the graph */
    float inside[3][2];
    score (model, three[0], inside[0]);
    assert_float_equal (inside[2][0], 100, 0);
    assert_float_equal (inside[0][1], 210, 1e-4);
    wm_model_destroy (&model);
}

/* Columns are called by the model's own names, as far as these can be column names.  */
static void labels_from_names (void **state)
{
    static const struct {
        const char *name, *first, *third, *last;
    } given[] = { { "sum of b", "sum_of_b", "twice_1", "top" }, /* ... of one value, of several */
                  { "nu-e/score:0", "nu-e_score_0", "twice_1", "top" },
                  { "plane", "plane_0", "twice_1", "top_0" },     /* another column's */
                  { "twice_0", "twice_0_0", "twice_1", "top_0" }, /* another output's */
                  { "top:0", "top_0", "twice_1", "top" },
                  { "a_name_that_is_longer_than_a_column_may_be", "", "", "" } };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        graph_t g = several (-1);
        g.node[4]->output[0] = g.out[0]->name = copy (&g, given[i].name);
        save_graph (&g);
        wm_model_t *model = imported (NULL);
        wm_spec_t spec;
        assert_int_equal (wm_spec_preset (&spec, "protodune-2021", NULL), WM_OK);
        wm_spec_label (&spec, model);
        assert_int_equal (spec.n_label, *given[i].first ? 8 : 0);
        if (spec.n_label) {
            assert_string_equal (spec.label[0], given[i].first);
            assert_string_equal (spec.label[2], given[i].third);
            assert_string_equal (spec.label[7], given[i].last);
        }
        wm_model_destroy (&model);
    }
}

/* ---- a graph whose inputs have no batch dimension -------------------------------------------- */

/* Three nodes of two features, two edges as (2, 2) integers: score = features at the edges'
   ends.  */
static void a_graph_of_fixed_shape (void **state)
{
    graph_t g = { .ways = 0 };
    input (&g, "features", INTS (3, 2));
    g.in[g.n_in++] = port (&g, "edges", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, INTS (2, 2));
    set_int (&g, node (&g, "Gather", "features edges", "ends"), "axis", 0);
    output (&g, "ends", INTS (2, 2, 2));
    save_graph (&g);
    refused (NULL, "import it with --whole if it is not one");
    wm_model_t *model = imported (&(wm_import_choices_t){ .whole = 1 });
    assert_non_null (strstr (wm_model_why (model), "no batch dimension"));
    static const float patch[3][10] = { { 1, 2, 3, 4, 5, 6, 0, 2, 1, 1 },
                                        { 1, 2, 3, 4, 5, 6, 2, 2, 0, 0 },
                                        { 9, 8, 7, 6, 5, 4, 1, 0, 2, 1 } };
    static const float want[3][8] = { { 1, 2, 5, 6, 3, 4, 3, 4 },
                                      { 5, 6, 5, 6, 1, 2, 1, 2 },
                                      { 7, 6, 9, 8, 5, 4, 7, 6 } };
    float scores[3][8];
    score (model, patch[0], scores[0]);
    assert_memory_equal (scores, want, sizeof want);
    wm_model_destroy (&model);
}

/* ---- known answers --------------------------------------------------------------------------- */

/* y = softmax (k x) over 6 values: with a huge k its answers are not steady.  */
static graph_t steep (float k)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 6));
    Onnx__TensorProto *t = tensor (&g, "k", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 0, NULL);
    t->n_float_data = 1;
    t->float_data = memcpy (take (&g, 1, 4), &k, 4);
    add_tensor (&g, t);
    node (&g, "Mul", "x k", "kx");
    set_int (&g, node (&g, "Softmax", "kx", "y"), "axis", 1);
    output (&g, "y", INTS (-1, 6));
    return g;
}

static void only_steady_answers_are_known (void **state)
{
    const float *inputs, *answers;
    graph_t g = steep (1);
    save_graph (&g);
    wm_model_t *model = imported (NULL);
    assert_int_equal (wm_model_known (model, &inputs, &answers), 8);
    for (int i = 0; i < 8; i++) {
        float sum = 0;
        for (int k = 0; k < 6; k++)
            sum += answers[i * 6 + k];
        assert_float_equal (sum, 1, 1e-5);
        assert_float_equal (answers[i * 6 + 1] / answers[i * 6],
                            expf (inputs[i * 6 + 1] - inputs[i * 6]), 1e-3);
    }
    wm_model_destroy (&model);
    g = steep (NAN);
    save_graph (&g);
    refused (NULL, "value 0 of tensor 'k' is NaN; the file is damaged");
    g = steep (INFINITY);
    save_graph (&g);
    refused (NULL, "no test patch has a finite score");
    g = steep (1e5f); /* a sine of it goes once around where its input moves by a rounding */
    g.node[1]->op_type = copy (&g, "Sin");
    g.node[1]->n_attribute = 0;
    save_graph (&g);
    model = imported (NULL);
    assert_true (wm_model_known (model, &inputs, &answers) < 8);
    wm_model_destroy (&model);
}

/* An engine that says something else than the answers in the file does not pass.  */
static void a_wrong_answer_is_found (void **state)
{
    graph_t g = steep (1);
    save_graph (&g);
    wm_model_t *model = imported (NULL);
    const float *inputs, *answers;
    uint32_t n = wm_model_known (model, &inputs, &answers);
    size_t bytes;
    float wrong[48];
    memcpy (wrong, answers, sizeof wrong);
    wrong[20] += 3e-4f;
    wm_model_parts_t parts = { .kind = WM_MODEL_GENERAL,
                               .why = "",
                               .n_input = 1,
                               .n_output = 1,
                               .input = wm_model_input (model, 0),
                               .output = wm_model_output (model, 0),
                               .n_known = n,
                               .known_inputs = inputs,
                               .known_scores = wrong };
    parts.original = wm_model_original (model, &bytes);
    parts.original_bytes = bytes;
    char path[80];
    snprintf (path, sizeof path, "%s/wrong.wmm", folder);
    assert_int_equal (wm_model_write (path, &parts, NULL), WM_OK);
    wm_model_t *lie = wm_model_open (path, NULL);
    assert_non_null (lie);
    unlink (path);
    for (int fast = 0; fast < 2; fast++) { /* nobody promises the error of OpenVINO's fast */
        wm_error_t error = { 0 };
        const wm_device_config_t config = { .engine = "auto",
                                            .precision = fast ? "fast" : "fp32",
                                            .threads = 1 };
        wm_device_t *device = wm_device_new (lie, NULL, &config, &error);
        assert_non_null (device);
        assert_int_equal (wm_device_self_test (device, &error), fast ? WM_OK : WM_EHOST);
        if (!fast)
            assert_non_null (strstr (error.text, "known answer 3, output 2 differs by 0.0003"));
        wm_device_destroy (&device);
    }
    wm_model_destroy (&lie);
    wm_model_destroy (&model);
}

/* x (N, n) of FP64 -> far (N, n) = 1e9 x, near (N, n) = x, whole (N, n), an integer of 64 bits; n
   may be free.  */
static graph_t typed (int64_t n)
{
    enum { FP64 = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE };
    graph_t g = { .ways = 0 };
    g.in[g.n_in++] = port (&g, "x", FP64, INTS (-1, n));
    Onnx__TensorProto *t = tensor (&g, "k", FP64, 0, NULL);
    t->n_double_data = 1;
    t->double_data = memcpy (take (&g, 1, 8), &(double){ 1e9 }, 8);
    add_tensor (&g, t);
    node (&g, "Mul", "x k", "far");
    node (&g, "Identity", "x", "near");
    set_int (&g, node (&g, "Cast", "far", "whole"), "to", ONNX__TENSOR_PROTO__DATA_TYPE__INT64);
    g.out[g.n_out++] = port (&g, "far", FP64, INTS (-1, n));
    g.out[g.n_out++] = port (&g, "near", FP64, INTS (-1, n));
    g.out[g.n_out++] = port (&g, "whole", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, INTS (-1, n));
    return g;
}

/* Whether the self-test of a model passes whose file has these answers.  */
static bool passes_with (const wm_model_t *model, const float *scores)
{
    const float *inputs, *answers;
    wm_model_parts_t parts = { .kind = WM_MODEL_GENERAL,
                               .why = "",
                               .n_input = 1,
                               .n_output = 3,
                               .input = wm_model_input (model, 0),
                               .output = wm_model_output (model, 0),
                               .judged = *wm_model_judged (model) };
    parts.n_known = wm_model_known (model, &inputs, &answers);
    parts.known_inputs = inputs, parts.known_scores = scores;
    if (wm_model_is_ragged (model, NULL))
        for (uint32_t i = 0; i < parts.n_known; i++) {
            const uint32_t n = wm_ragged_length (inputs, SIZE_MAX);
            parts.known_values[0] += n, inputs += n;
            parts.known_values[1] += wm_ragged_length (scores + parts.known_values[1], SIZE_MAX);
        }
    parts.original = wm_model_original (model, &parts.original_bytes);
    char path[80];
    wm_error_t error = { 0 };
    snprintf (path, sizeof path, "%s/typed.wmm", folder);
    if (wm_model_write (path, &parts, &error))
        fail_msg ("%s", error.text);
    wm_model_t *other = wm_model_open (path, &error);
    unlink (path);
    const wm_device_config_t config = { .engine = "auto", .precision = "fp32", .threads = 1 };
    wm_device_t *device = other ? wm_device_new (other, NULL, &config, &error) : NULL;
    if (!device)
        fail_msg ("%s", error.text);
    const bool passes = wm_device_self_test (device, &error) == WM_OK;
    if (!passes && !strstr (error.text, "known answer "))
        fail_msg ("%s", error.text);
    wm_device_destroy (&device);
    wm_model_destroy (&other);
    return passes;
}

/* Answers that are carried exactly are compared as the values that they are, large ones too.  */
static void a_wrong_exact_answer_is_found (void **state)
{
    for (int ragged = 0; ragged < 2; ragged++) {
        graph_t g = typed (ragged ? -1 : 3);
        save_graph (&g);
        wm_model_t *model = imported (&(wm_import_choices_t){ .exact = true });
        const float *inputs, *answers;
        assert_true (wm_model_known (model, &inputs, &answers) > 0);
        wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX] = { { 0 } };
        uint32_t n = wm_model_n_output (model), n_tensor, first[3] = { 0, 12, 24 };
        assert_true (wm_model_is_ragged (model, NULL) == ragged);
        if (ragged) { /* the first answer of several values */
            n = wm_ragged_length (answers, SIZE_MAX);
            assert_null (wm_ragged_read (answers, n, &n_tensor, tensor));
            assert_true (n_tensor == 3 && tensor[0].n_value > 0);
            for (int p = 0; p < 3; p++)
                first[p] = tensor[p].at;
        }
        const size_t all = 65536;
        float *wrong = calloc (all, sizeof *wrong);
        size_t have = 0;
        for (uint32_t i = 0, known = wm_model_known (model, &inputs, &answers); i < known; i++)
            have += ragged ? wm_ragged_length (answers + have, SIZE_MAX) : n;
        assert_true (have <= all);
        static const double by[][2] = { { 1.01, 0 }, { 1 - 1e-3, 0 }, { 1 + 1e-12, 1 }, { -1, 0 } };
        for (int p = 0; p < 3; p++)
            for (size_t k = 0; k < sizeof by / sizeof *by; k++) {
                memcpy (wrong, answers, have * sizeof *wrong);
                float *at = wrong + first[p];
                int64_t whole;
                double real;
                if (p == 2 && wm_exact_take (7, at, 1, &whole))
                    whole = (int64_t) ((double) whole * by[k][0]), wm_exact_put (7, &whole, 1, at);
                else if (p < 2 && wm_exact_take (11, at, 1, &real))
                    real *= by[k][0], wm_exact_put (11, &real, 1, at);
                assert_int_equal (passes_with (model, wrong), by[k][1] > 0);
            }
        free (wrong);
        wm_model_destroy (&model);
    }
}

/* ---- where it cannot be ---------------------------------------------------------------------- */

static void without_the_engine (void **state)
{
    const float *inputs, *answers;
    hide_engines ();
    graph_t g = several (-1);
    save_graph (&g);
    wm_model_t *model = imported (NULL);
    assert_int_equal (wm_model_known (model, &inputs, &answers), 0);
    assert_non_null (strstr (wm_model_why (model), "no known answers: that engine was not there"));
    show_engines ();
    check_several (model); /* and still runs where it is */
    wm_model_destroy (&model);
    hide_engines ();
    g = several (-1);
    g.out[1]->type = NULL;
    save_graph (&g);
    refused (NULL, "output 'twice' is not a tensor of numbers");
    show_engines ();
}

static void models_that_no_engine_takes (void **state)
{
    graph_t g = steep (1);
    g.node[0]->op_type = copy (&g, "NoSuchOperator");
    save_graph (&g);
    refused (NULL,
             "(NoSuchOperator) is not known to the general engine: export the model with other");
    g = steep (1);
    g.node[0]->op_type = copy (&g, "Wobble");
    g.node[0]->domain = copy (&g, "org.lab");
    save_graph (&g);
    refused (NULL,
             "(Wobble of domain org.lab) is not known to the general engine: export the model");
    g = steep (1);
    g.node[0]->name = copy (&g, "bent");
    set_int (&g, g.node[0], "axis", 7);
    g.node[0]->op_type = copy (&g, "Softmax");
    save_graph (&g);
    refused (NULL, "'bent' (Softmax) cannot be computed on its inputs");
    g = steep (1); /* of which OpenVINO says no node */
    g.tensor[0]->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__STRING;
    g.tensor[0]->n_float_data = 0;
    g.tensor[0]->n_string_data = 1;
    g.tensor[0]->string_data = take (&g, 1, sizeof (ProtobufCBinaryData));
    save_graph (&g);
    refused (NULL, "/m.onnx: OpenVINO cannot read this model: ");
    refused (NULL, "; if it runs elsewhere (onnxruntime), export it with another operator set");
    g = steep (1);
    g.in[0] = port (&g, "x", ONNX__TENSOR_PROTO__DATA_TYPE__STRING, INTS (-1, 6));
    save_graph (&g);
    refused (NULL, "input 'x' is not a tensor of numbers");
    g = steep (1); /* the batch is lost: (N, 6) summed to one number */
    node (&g, "ReduceMean", "y", "mean");
    set_int (&g, g.node[g.n_node - 1], "keepdims", 0);
    output (&g, "mean", INTS (-1));
    save_graph (&g);
    refused (NULL,
             "output 'mean' has no fixed rank, or none behind a batch dimension; leave it out");
}

/* ---- free dimensions ------------------------------------------------------------------------- */

/* x (N, any, 3) -> y (N, any, 3) = e^x, total (N, 3): the sum of y.  */
static graph_t ragged (void)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, -1, 3));
    node (&g, "Exp", "x", "y");
    Onnx__NodeProto *sum = node (&g, "ReduceSum", "y", "total");
    set_int (&g, sum, "keepdims", 0);
    Onnx__TensorProto *axes =
        tensor (&g, "axes", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1, &(int64_t){ 1 });
    axes->n_int64_data = 1;
    axes->int64_data = memcpy (take (&g, 1, 8), &(int64_t){ 1 }, 8);
    add_tensor (&g, axes);
    sum->input[sum->n_input++] = axes->name;
    output (&g, "y", INTS (-1, -1, 3));
    output (&g, "total", INTS (-1, 3));
    return g;
}

static uint32_t ragged_row (float *row, uint32_t length, float value)
{
    wm_ragged_t x = { .n_dim = 2, .dim = { length, 3 } };
    const uint32_t n = wm_ragged_begin (row, 256, 1, &x);
    for (uint32_t i = x.at; i < n; i++)
        row[i] = value + (float) (i % 3);
    return n;
}

static wm_batch_t batch_of (float *row, uint32_t n)
{
    return (wm_batch_t){ .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = n, .patch = row };
}

static float ragged_scores[2][WM_RAGGED_VALUES];

/* The scores of a row of this length, which must be right.  */
static uint32_t score_ragged (wm_device_t *device, uint32_t length, float *scores)
{
    float row[256];
    const wm_batch_t batch = batch_of (row, ragged_row (row, length, -1));
    wm_ragged_t found[WM_RAGGED_TENSORS_MAX];
    wm_error_t error = { 0 };
    uint32_t n;
    uint8_t status = 9;
    if (wm_device_score (device, &batch, &status, scores, &error))
        fail_msg ("%s", error.text);
    assert_int_equal (status, WM_HIT_SCORED);
    assert_null (wm_ragged_read (scores, (size_t) scores[0], &n, found));
    assert_int_equal (n, 2);
    assert_true (found[0].n_dim == 2 && found[0].dim[0] == length && found[0].dim[1] == 3);
    assert_true (found[1].n_dim == 1 && found[1].dim[0] == 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_float_equal (scores[found[1].at + i],
                            (float) length * expf (row[batch.patch_values - 3 + i]), 1e-3);
    return (uint32_t) scores[0];
}

static void check_ragged_ports (const wm_model_t *model)
{
    const wm_port_t *port;
    const float *inputs, *answers;
    assert_true (wm_model_is_ragged (model, &port));
    assert_string_equal (port->name, "x");
    assert_true (port->n_dim == 2 && !port->dim[0] && port->dim[1] == 3 && !port->n_value);
    assert_true (!wm_model_output (model, 0)->dim[0] && wm_model_output (model, 1)->n_value == 3);
    assert_int_equal (wm_model_n_value (model), WM_RAGGED_VALUES);
    assert_int_equal (wm_model_n_output (model), WM_RAGGED_VALUES);
    const uint32_t n = wm_model_known (model, &inputs, &answers);
    assert_true (n >= 4);
    assert_int_not_equal ((int) inputs[0], (int) inputs[(size_t) inputs[0]]); /* of two lengths */
}

/* What is no row of the model is held, with the reason; so are scores that are not finite.  */
static void check_ragged_held (wm_device_t *device)
{
    float row[256], *scores = ragged_scores[0];
    char text[200];
    wm_error_t error;
    uint8_t status;
    const uint32_t n = ragged_row (row, 4, 0);
    wm_batch_t batch = batch_of (row, n);
    batch.n_hit = 2;
    assert_int_equal (wm_device_score (device, &batch, &status, scores, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "one ragged row a batch"));
    batch = batch_of (row, n - 1);
    assert_int_equal (wm_device_score (device, &batch, &status, scores, &error), WM_OK);
    assert_int_equal (status, WM_HIT_HELD);
    wm_ragged_refusal (scores, wm_ragged_length (scores, WM_RAGGED_VALUES), text, sizeof text);
    assert_string_equal (text, "its number of values is not the one that it states");
    batch = batch_of (row, n);
    row[4] = 2, row[0] = (float) n;
    assert_int_equal (wm_device_score (device, &batch, &status, scores, &error), WM_OK);
    assert_int_equal (status, WM_HIT_HELD);
    batch = batch_of (row, ragged_row (row, 4, 1000)); /* e^1000 */
    assert_int_equal (wm_device_score (device, &batch, &status, scores, &error), WM_OK);
    assert_int_equal (status, WM_HIT_NONFINITE);
    assert_true (scores[1] == 2 && scores[3] == 4 && isnan (scores[7]) &&
                 isnan (scores[(size_t) scores[0] - 1]));
}

static void free_dimensions (void **state)
{
    wm_error_t error = { 0 };
    graph_t g = ragged ();
    save_graph (&g);
    wm_model_t *model = imported (NULL);
    check_ragged_ports (model);
    for (int threads = 1; threads <= 3; threads += 2) {
        const wm_device_config_t config = { .engine = "auto",
                                            .precision = "fp32",
                                            .threads = threads };
        wm_device_t *device = wm_device_new (model, NULL, &config, &error);
        if (!device || wm_device_self_test (device, &error))
            fail_msg ("%s", error.text);
        assert_int_equal (wm_device_fill (device), threads > 1 ? threads : 0);
        const uint32_t n = score_ragged (device, 5, ragged_scores[0]);
        score_ragged (device, 60, ragged_scores[1]);
        score_ragged (device, 1, ragged_scores[1]);
        check_ragged_held (device);
        score_ragged (device, 5, ragged_scores[0]);
        assert_int_equal (score_ragged (device, 5, ragged_scores[1]), n);
        assert_memory_equal (ragged_scores[0], ragged_scores[1], n * sizeof (float));
        float row[2][256]; /* two in one call */
        const wm_batch_t batch[2] = { batch_of (row[0], ragged_row (row[0], 5, -1)),
                                      batch_of (row[1], ragged_row (row[1], 50, 3)) };
        uint8_t status[2];
        float *to[2] = { ragged_scores[1], malloc (sizeof ragged_scores[0]) };
        assert_int_equal (
            wm_device_score_many (device, 2, (const wm_batch_t *[]){ &batch[0], &batch[1] },
                                  (uint8_t *[]){ &status[0], &status[1] }, to, &error),
            WM_OK);
        assert_memory_equal (ragged_scores[0], ragged_scores[1], n * sizeof (float));
        free (to[1]);
        wm_device_destroy (&device);
    }
    static const char *const others[][2] = { { "sparse", "fp32" }, { "auto", "fast" } };
    for (int i = 0; i < 2; i++) {
        const wm_device_config_t config = { .engine = others[i][0],
                                            .precision = others[i][1],
                                            .threads = 1 };
        assert_null (wm_device_new (model, NULL, &config, &error));
        assert_non_null (strstr (error.text, "'x' of this model has a free dimension"));
    }
    wm_model_destroy (&model);
}

/* The most values of a row are the model's; another number makes another model.  */
static void rows_have_as_many_values_as_their_model (void **state)
{
    wm_error_t error;
    graph_t g = ragged ();
    save_graph (&g);
    wm_model_t *usual = imported (NULL);
    wm_model_t *model = imported (&(wm_import_choices_t){ .row_values = WM_RAGGED_VALUES + 1000 });
    assert_string_not_equal (wm_model_sha256 (model), wm_model_sha256 (usual));
    assert_int_equal (wm_model_n_value (model), WM_RAGGED_VALUES + 1000);
    assert_int_equal (wm_model_n_output (model), WM_RAGGED_VALUES + 1000);
    const wm_device_config_t config = { .engine = "auto", .precision = "fp32", .threads = 1 };
    wm_device_t *device = wm_device_new (model, NULL, &config, &error);
    if (!device || wm_device_self_test (device, &error))
        fail_msg ("%s", error.text);
    const uint32_t lengths[] = { 1, (WM_RAGGED_VALUES + 1000 - 10) / 3,
                                 (WM_RAGGED_VALUES + 1000 - 10) / 3 + 1 };
    float *row = malloc (4 * (WM_RAGGED_VALUES + 2000)),
          *scores = malloc (4 * (WM_RAGGED_VALUES + 1000));
    for (int i = 0; i < 3; i++) {
        char text[200] = "";
        uint8_t status = 9;
        wm_ragged_t x = { .n_dim = 2, .dim = { lengths[i], 3 } };
        const uint32_t n = wm_ragged_begin (row, SIZE_MAX, 1, &x);
        memset (row + x.at, 0, x.n_value * sizeof *row);
        const wm_batch_t batch = batch_of (row, n);
        assert_int_equal (wm_device_score (device, &batch, &status, scores, &error), WM_OK);
        assert_int_equal (status, i < 2 ? WM_HIT_SCORED : WM_HIT_HELD);
        if (i == 2)
            wm_ragged_refusal (scores, wm_ragged_length (scores, SIZE_MAX), text, sizeof text);
        assert_string_equal (text, i < 2 ? "" : WM_MODEL_ROW_TOO_LARGE);
    }
    free (row);
    free (scores);
    wm_device_destroy (&device);
    wm_model_destroy (&model);
    wm_model_destroy (&usual);
}

/* Where all rows have one size, a largest row is refused, also where the file states no shape.  */
static void rows_of_one_size_have_no_largest (void **state)
{
    const wm_import_choices_t choices = { .row_values = WM_RAGGED_VALUES + 1000 };
    for (int i = 0; i < 2; i++) {
        graph_t g = several (-1);
        if (i)
            g.out[0]->type = NULL;
        save_graph (&g);
        refused (&choices, "no dimension of this model is free, so its rows have one size: leave "
                           "out --row-bytes");
    }
}

/* A GPU's scores of any model are believed as long as what it knew keeps its bits, whatever it lies
   between. The engine in wm_cuda.so's place adds up, and is wrong when it is told so.  */
static void a_gpu_is_asked_again_what_it_knew (void **state)
{
    enum { HITS = 100, VALUES = 11, OUTPUTS = 8 };
    static float patch[HITS * VALUES], scores[HITS * OUTPUTS];
    static uint8_t status[HITS];
    char path[96], line[400];
    wm_error_t error = { 0 };
    const wm_device_config_t config = { .engine = "cuda", .precision = "fast", .threads = 1 };
    graph_t g = several (-1);
    save_graph (&g);
    wm_model_t *model = imported (NULL);
    snprintf (path, sizeof path, "%s/wm_cuda.so", folder);
    snprintf (line, sizeof line,
              "${CC:-gcc} -shared -fPIC -I. -D_GNU_SOURCE -x c tests/unit/fake_cuda.h -o %s", path);
    assert_int_equal (system (line), 0);
    setenv ("WM_CUDA_SO", path, 1);
    wm_device_t *device = wm_device_new (model, NULL, &config, &error);
    unsetenv ("WM_CUDA_SO");
    unlink (path);
    if (!device)
        fail_msg ("%s", error.text);
    assert_int_equal (wm_device_self_test (device, &error), WM_EHOST); /* it is no such model */
    assert_non_null (strstr (error.text, "differs by "));
    for (int i = 0; i < HITS * VALUES; i++)
        patch[i] = (float) (i * 7919 % 1000) / 100;
    wm_batch_t batch = { .kind = WM_BATCH_PATCHES, .patch_values = VALUES, .patch = patch };
    for (uint32_t i = 0; i < 20000; i++) { /* also fewer hits than are sent along */
        batch.n_hit = i % HITS + 1;
        assert_int_equal (wm_device_score (device, &batch, status, scores, &error), WM_OK);
    }
    setenv ("WM_FAKE_CUDA", "10", 1);
    wm_fault_t fault = WM_OK;
    for (int i = 0; i < 100000 && !fault; i++) /* until it looks again */
        fault = wm_device_score (device, &batch, status, scores, &error);
    unsetenv ("WM_FAKE_CUDA");
    assert_int_equal (fault, WM_EHOST);
    assert_non_null (strstr (error.text, "a canary died: "));
    wm_device_destroy (&device);
    wm_model_destroy (&model);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (inputs_and_outputs_of_any_kind),
        cmocka_unit_test (outputs_without_shapes),
        cmocka_unit_test (some_outputs_in_another_order),
        cmocka_unit_test (labels_from_names),
        cmocka_unit_test (a_graph_of_fixed_shape),
        cmocka_unit_test (only_steady_answers_are_known),
        cmocka_unit_test (a_wrong_answer_is_found),
        cmocka_unit_test (a_wrong_exact_answer_is_found),
        cmocka_unit_test (free_dimensions),
        cmocka_unit_test (rows_have_as_many_values_as_their_model),
        cmocka_unit_test (rows_of_one_size_have_no_largest),
        cmocka_unit_test (a_gpu_is_asked_again_what_it_knew),
        cmocka_unit_test (without_the_engine),
        cmocka_unit_test (models_that_no_engine_takes),
    };
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
