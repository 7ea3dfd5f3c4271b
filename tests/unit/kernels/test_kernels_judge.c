/* test_kernels_judge.c - general models that both engines compute when they are imported: what
   OpenVINO computes otherwise in some patches only, models that mix the patches of a batch, models
   that agree, and engines that are not there. The right scores are computed here in plain C.  */
#include "tests/unit/made_import.h"
#include "tests/unit/without_engines.h"

#include <math.h>

/* ---- graphs of text -------------------------------------------------------------------------- */

enum { FLOAT = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INT64 = ONNX__TENSOR_PROTO__DATA_TYPE__INT64 };

static void add_floats (graph_t *g, const char *name, size_t n_dim, const int64_t *dim,
                        const float *value)
{
    Onnx__TensorProto *t = tensor (g, name, FLOAT, n_dim, dim);
    t->n_float_data = 1;
    for (size_t d = 0; d < n_dim; d++)
        t->n_float_data *= (size_t) dim[d];
    t->float_data = take (g, t->n_float_data, sizeof *value);
    for (size_t k = 0; k < t->n_float_data; k++) /* of weights that are not given: a pattern */
        t->float_data[k] = value ? value[k] : ((float) (k * 37 % 23) - 11) / 17;
    add_tensor (g, t);
}

static const float kernel[3] = { 1, 2, 4 };

/* Adds the constant that a word names, if it is new: "#0.5" a number, "@3" a whole one, "@3," a
   list of it; w, W, R: weights.  */
static void constant (graph_t *g, const char *word)
{
    for (size_t i = 0; i < g->n_tensor; i++)
        if (!strcmp (g->tensor[i]->name, word))
            return;
    if (*word == '#')
        add_floats (g, word, 0, NULL, &(float){ strtof (word + 1, NULL) });
    if (!strcmp (word, "w"))
        add_floats (g, word, INTS (1, 1, 3), kernel);
    if (!strcmp (word, "W"))
        add_floats (g, word, INTS (1, 24, 4), NULL);
    if (!strcmp (word, "R"))
        add_floats (g, word, INTS (1, 24, 6), NULL);
    if (!strcmp (word, "V"))
        add_floats (g, word, INTS (4, 4), NULL);
    if (*word == '@') {
        Onnx__TensorProto *t = tensor (g, word, INT64, strchr (word, ',') != NULL, &(int64_t){ 1 });
        t->n_int64_data = 1;
        t->int64_data = take (g, 1, 8);
        t->int64_data[0] = strtoll (word + 1, NULL, 10);
        add_tensor (g, t);
    }
}

/* An attribute: name=1, a list with a comma behind it.  */
static void set_attribute (graph_t *g, Onnx__NodeProto *made, char *word)
{
    char *value = strchr (word, '=');
    *value++ = 0;
    if (!strchr (value, ',')) {
        set_int (g, made, word, strtoll (value, NULL, 10));
        return;
    }
    int64_t list[4];
    size_t n = 0;
    for (char *end = value; *value; value = *end ? end + 1 : end)
        list[n++] = strtoll (value, &end, 10);
    set_ints (g, made, word, n, list);
}

/* Adds nodes "out = Op in in attribute=1", separated by ";". UP: a transposed convolution, on whose
   padding the engines do not agree. A node's name is that of its output.  */
#define UP "ConvTranspose strides=2, output_shape=8, "
static void add_nodes (graph_t *g, const char *text)
{
    char *all = copy (g, text), *next = NULL;
    for (char *one = strtok_r (all, ";", &next); one; one = strtok_r (NULL, ";", &next)) {
        char *rest = NULL, *out = strtok_r (one, " =", &rest), *op = strtok_r (NULL, " =", &rest);
        Onnx__NodeProto *made = node (g, op, "", out);
        for (char *word; (word = strtok_r (NULL, " ", &rest));)
            if (strchr (word, '='))
                set_attribute (g, made, word);
            else {
                constant (g, word);
                made->input[made->n_input++] = strcmp (word, "-") ? word : copy (g, "");
            }
    }
}

/* An output whose shape is not stated.  */
static void add_output (graph_t *g, const char *name, int type)
{
    Onnx__ValueInfoProto *out = port (g, name, type, 0, NULL);
    out->type->tensor_type->shape = NULL;
    g->out[g->n_out++] = out;
}

/* x (N, 1, 4) -> y.  */
static void save (const char *text, int type)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 1, 4));
    add_nodes (&g, text);
    add_output (&g, "y", type);
    if (strstr (text, "z ="))
        add_output (&g, "z", type);
    save_graph (&g);
}

/* ---- what is judged -------------------------------------------------------------------------- */

static void said (const wm_model_t *model, const char *text)
{
    if (!strstr (wm_model_why (model), text))
        fail_msg ("no '%s' in: %s", text, wm_model_why (model));
}

static wm_device_t *opened (const wm_model_t *model)
{
    wm_error_t error = { 0 };
    const wm_device_config_t config = { .engine = "auto", .precision = "fp32", .threads = 2 };
    wm_device_t *device = wm_device_new (model, NULL, &config, &error);
    if (!device || wm_device_self_test (device, &error))
        fail_msg ("%s", error.text);
    return device;
}

static void score (const wm_model_t *model, uint32_t n, uint32_t values, const float *x, float *y)
{
    wm_error_t error = { 0 };
    uint8_t status[16];
    wm_device_t *device = opened (model);
    const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                               .n_hit = n,
                               .patch_values = values,
                               .patch = (float *) (uintptr_t) x };
    if (wm_device_score (device, &batch, status, y, &error))
        fail_msg ("%s", error.text);
    for (uint32_t k = 0; k < n; k++)
        assert_int_equal (status[k], WM_HIT_SCORED);
    wm_device_destroy (&device);
}

/* The model of the file: OpenVINO computes this node otherwise, and ONNX Runtime scores it. The
   caller destroys it.  */
static wm_model_t *other (const char *node_text)
{
    char text[120];
    wm_model_t *model = imported (NULL);
    snprintf (text, sizeof text, "ONNX Runtime scores it: OpenVINO computes node %s otherwise",
              node_text);
    said (model, text);
    assert_int_equal (wm_model_judged (model)->judgement, WM_JUDGED_OTHER);
    assert_string_equal (wm_model_scorer (model), "onnxruntime");
    wm_device_t *device = opened (model);
    assert_memory_equal (wm_device_signature (device), "onnxruntime-", 12);
    wm_device_destroy (&device);
    return model;
}

/* ---- one operator that OpenVINO computes otherwise ------------------------------------------- */

/* What UP is: strides of 2, one value cut off, which ONNX puts at the start.  */
static void up (const float *g, float *y)
{
    float all[9] = { 0 };
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 3; k++)
            all[2 * i + k] += g[i] * kernel[k];
    memcpy (y, all + 1, 8 * sizeof *y);
}

/* y: x twice, and a thousandth of UP of x where `gate` is.  */
static void right_gated (const float *x, float gate, float *y)
{
    float g[4], u[8];
    for (int k = 0; k < 4; k++)
        g[k] = gate * tanhf (x[k]);
    up (g, u);
    for (int k = 0; k < 8; k++)
        y[k] = tanhf (x[k % 4]) + 1e-3f * u[k];
}

static float always (const float *x)
{
    return x[0] - x[0] + 1;
}

static float rarely (const float *x)
{
    return x[0] > 1.75f && x[0] < 2;
}

static float if_large (const float *x)
{
    return x[0] > 100;
}

static float if_negative (const float *x)
{
    return x[0] < 0;
}

static float if_positive (const float *x)
{
    return floorf (64 * x[0]) != 64 * x[0]; /* the others have fewer bits */
}

static float if_whole (const float *x)
{
    return x[0] == 7 && x[1] == floorf (x[1]);
}

#define FIRST "x0 = Slice x @0, @1, @2,; x1 = Slice x @1, @2, @2,; "
#define ALL "; b = Tanh x; f = Cast m to=1; g = Mul b f; c = " UP "g w; s = Mul c #0.001; "
#define SUM "bb = Concat b b axis=2; y = Add bb s"

static const struct {
    float (*gate) (const float *x);
    const char *graph;
} gated[] = {
    { always, "m = Greater #2 #1" ALL SUM },
    { rarely, FIRST "m0 = Greater x0 #1.75; m1 = Less x0 #2; m = And m0 m1" ALL SUM },
    { if_large, FIRST "m = Greater x0 #100" ALL SUM },
    { if_negative, FIRST "m = Less x0 #0" ALL SUM },
    { if_positive, FIRST "k = Mul x0 #64; fl = Floor k; m = Greater k fl" ALL SUM },
    { if_whole, FIRST "fl = Floor x1; m0 = Equal x0 #7; m1 = Equal x1 fl; m = And m0 m1" ALL SUM },
};

static const float rows[][4] = { { 1.8125f, -1, .5f, .25f },
                                 { -2, 1, 1, -1 },
                                 { 512, 1, 2, -3 },
                                 { 129 / 256.f, .25f, .125f, .75f },
                                 { 7, 3, -4, 2 },
                                 { 0, 0, 0, 0 },
                                 { 1.9375f, .5f, -1, 1 },
                                 { -.5f, 0, 2, -.25f } };
#define ROWS (sizeof rows / sizeof *rows)

/* A thousandth in a range of 2, for patches of one kind only.  */
static void a_difference_that_few_patches_show (void **state)
{
    for (size_t i = 0; i < sizeof gated / sizeof *gated; i++) {
        float y[ROWS][8], right[8];
        save (gated[i].graph, FLOAT);
        wm_model_t *model = other ("'c' (ConvTranspose)");
        assert_true (wm_model_judged (model)->off > 1e-4f && wm_model_judged (model)->off < 1e-2f);
        score (model, ROWS, 4, rows[0], y[0]);
        for (size_t r = 0; r < ROWS; r++) {
            right_gated (rows[r], gated[i].gate (rows[r]), right);
            for (int k = 0; k < 8; k++)
                assert_float_equal (y[r][k], right[k], 1e-6);
        }
        wm_model_destroy (&model);
    }
}

/* OpenVINO's scores are all too large, or all too small.  */
static void a_difference_of_one_sign (void **state)
{
    for (int last = 0; last < 2; last++) {
        float y[ROWS][4];
        char graph[300];
        snprintf (graph, sizeof graph,
                  FIRST "a = Abs x0; o = Mul x0 #0; g = Concat %s axis=2; c = " UP
                        "g w; r = ReduceSum c @2,; y = Add x r",
                  last ? "o o o a" : "a o o o");
        save (graph, FLOAT);
        wm_model_t *model = other ("'c' (ConvTranspose)");
        score (model, ROWS, 4, rows[0], y[0]);
        for (size_t r = 0; r < ROWS; r++) /* the kernel's sum, without its first value */
            for (int k = 0; k < 4; k++)
                assert_float_equal (y[r][k], rows[r][k] + (last ? 7 : 6) * fabsf (rows[r][0]),
                                    1e-3);
        wm_model_destroy (&model);
    }
}

/* Patches of zeros alone.  */
static void a_difference_of_zeros (void **state)
{
    save ("a = Abs x; m = ReduceMax a keepdims=1 axes=2,; e = Equal m #0; o = Cast e to=1; "
          "g = Add x o; h = Mul g o; c = " UP "h w; s = Mul c #0.001; bb = Concat x x axis=2; "
          "y = Add bb s",
          FLOAT);
    float y[ROWS][8], right[8];
    wm_model_t *model = other ("'c' (ConvTranspose)");
    score (model, ROWS, 4, rows[0], y[0]);
    up ((float[]){ 1, 1, 1, 1 }, right);
    for (size_t r = 0; r < ROWS; r++)
        for (int k = 0; k < 8; k++)
            assert_float_equal (y[r][k], r == 5 ? 1e-3f * right[k] : rows[r][k % 4], 1e-6);
    wm_model_destroy (&model);
}

static void a_difference_of_the_second_output (void **state)
{
    float y[ROWS][12], right[8];
    save ("y = Neg x; z = " UP "x w", FLOAT);
    wm_model_t *model = other ("'z' (ConvTranspose)");
    score (model, ROWS, 4, rows[0], y[0]);
    for (size_t r = 0; r < ROWS; r++) {
        up (rows[r], right);
        for (int k = 0; k < 12; k++)
            assert_float_equal (y[r][k], k < 4 ? -rows[r][k] : right[k - 4], 1e-3);
    }
    wm_model_destroy (&model);
}

/* By one, where numbers go to a million.  */
static void a_difference_of_whole_numbers (void **state)
{
    float y[ROWS][8], right[8];
    save ("c = " UP "x w; p = Greater c #0; i = Cast p to=7; q = Greater x #0; j = Cast q to=7; "
          "k = Mul j @1000000; l = Concat k k axis=2; y = Add i l",
          INT64);
    wm_model_t *model = other ("'c' (ConvTranspose)");
    score (model, ROWS, 4, rows[0], y[0]);
    for (size_t r = 0; r < ROWS; r++) {
        up (rows[r], right);
        for (int k = 0; k < 8; k++)
            assert_float_equal (y[r][k], (float) ((right[k] > 0) + 1000000 * (rows[r][k % 4] > 0)),
                                0);
    }
    wm_model_destroy (&model);
}

/* An operator of which OpenVINO makes another shape, or mixes a batch.  */
static void other_operators (void **state)
{
    float y[ROWS][4];
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 2, 2));
    add_nodes (&g, "l = ReduceL1 x keepdims=1 axes=2,; y = Add x l");
    add_output (&g, "y", FLOAT);
    save_graph (&g);
    wm_model_t *model = other ("'l' (ReduceL1)");
    score (model, ROWS, 4, rows[0], y[0]);
    for (size_t r = 0; r < ROWS; r++)
        for (int k = 0; k < 4; k++)
            assert_float_equal (y[r][k],
                                rows[r][k] + fabsf (rows[r][k & 2]) + fabsf (rows[r][k | 1]), 1e-3);
    wm_model_destroy (&model);
    float top[ROWS][2];
    save ("y = MaxPool x kernel_shape=1, strides=3, ceil_mode=1", FLOAT);
    model = imported (NULL);
    score (model, ROWS, 4, rows[0], top[0]);
    for (size_t r = 0; r < ROWS; r++) /* 4 values: the windows begin at 0 and at 3 */
        for (int k = 0; k < 2; k++)
            assert_float_equal (top[r][k], rows[r][3 * k], 0);
    wm_model_destroy (&model);
    save ("m = MaxPool x kernel_shape=1, strides=2, ceil_mode=1; y = Relu m", FLOAT);
    model = other ("'m' (MaxPool)");
    assert_int_equal (wm_model_n_output (model), 2);
    score (model, ROWS, 4, rows[0], top[0]);
    for (size_t r = 0; r < ROWS; r++)
        for (int k = 0; k < 2; k++)
            assert_float_equal (top[r][k], fmaxf (rows[r][2 * k], 0), 0);
    wm_model_destroy (&model);
}

/* ---- patches that mix ------------------------------------------------------------------------ */

static void refused (const char *text)
{
    char why[480];
    wm_error_t error = { 0 };
    unlink (wmm_path);
    if (wm_import (onnx_path, NULL, wmm_path, why, &error) != WM_EBATCH ||
        !strstr (error.text, text))
        fail_msg ("no '%s' in: %s", text, error.fault ? error.text : why);
    assert_int_not_equal (access (wmm_path, F_OK), 0);
}

static const char *const mixing[][2] = {
    { "r = Neg x; s = Softmax r axis=0; y = Relu s", "node 's' (Softmax)" },
    { "r = Neg x; g = Gather r @0, axis=0; y = Sub x g", "node 'g' (Gather)" },
    { "r = Neg x; s = CumSum r @0; y = Neg s", "node 's' (CumSum)" },
    { "r = Neg x; s = CumSum r @0 reverse=1; y = Neg s", "node 's' (CumSum)" },
    { "r = Neg x; m = ReduceMean r axes=0, keepdims=1; n = Mul m #0.001; y = Add x n",
      "node 'm' (ReduceMean)" },
    { "r = Neg x; y = LSTM r W R hidden_size=6", "node 'y' (LSTM)" },
    /* the batch is not the first dimension of what is computed before */
    { "t = Transpose x perm=2,1,0,; r = Tanh t; s = CumSum r @-1; y = Transpose s perm=2,1,0,",
      "node 's' (CumSum)" },
    /* of large values alone */
    { "h = Add x #-100; r = Relu h; s = CumSum r @0; y = Add s x", "node 's' (CumSum)" },
    /* a table that the sum soon lies outside of */
    { "g = Greater x #0; i = Cast g to=7; s = CumSum i @0; n = ReduceMax s keepdims=0 axes=1,2,; "
      "t = Gather V n; y = Neg t",
      "node 's' (CumSum)" },
    /* behind a sequence, which is no tensor */
    { "n = Neg x; q = SplitToSequence n axis=2 keepdims=1; r = ConcatFromSequence q axis=2; "
      "s = CumSum r @0; y = Neg s",
      "node 's' (CumSum)" },
    /* the sixth patch of a batch gets into the seventh */
    { "n = Neg x; a = Slice n @0, @6, @0,; b = Slice n @6, @7, @0,; c = Slice n @7, @99, @0,; "
      "d = Slice n @5, @6, @0,; e = ReduceSum d @0,; f = Add b e; y = Concat a f c axis=0",
      "(Slice)" },
};

static void models_that_mix_patches_are_refused (void **state)
{
    for (size_t i = 0; i < sizeof mixing / sizeof *mixing; i++) {
        char text[120];
        save (mixing[i][0], FLOAT);
        snprintf (text, sizeof text,
                  "%s makes the scores of a patch depend on the other patches of its batch",
                  mixing[i][1]);
        refused (text);
    }
}

/* By one, where numbers go to ten millions.  */
static void whole_numbers_that_mix_are_refused (void **state)
{
    save ("g = Greater x #0; i = Cast g to=7; s = CumSum i @0; m = Greater s @1; j = Cast m to=7; "
          "l = Mul x #1000; n = Cast l to=7; k = Mul n @10000; y = Add j k",
          INT64);
    refused ("node 's' (CumSum) makes the scores of a patch depend on the other patches");
}

/* ---- models that agree ----------------------------------------------------------------------- */

static void agrees (const char *graph, int type, const char *text)
{
    save (graph, type);
    wm_model_t *model = imported (NULL);
    said (model, text);
    assert_int_equal (wm_model_judged (model)->judgement, WM_JUDGED_EQUAL);
    assert_memory_equal (wm_model_judged (model)->judge, "onnxruntime-", 12);
    assert_string_equal (wm_model_scorer (model), "openvino");
    wm_model_destroy (&model);
}

static void models_that_agree (void **state)
{
    save ("v = MatMul x V; s = Softmax v axis=2; y = Tanh s", FLOAT);
    wm_model_t *model = imported (NULL);
    assert_int_equal (wm_model_judged (model)->judgement, WM_JUDGED_EQUAL);
    assert_true (wm_model_judged (model)->off <= 1e-5f);
    said (model, " on 320 patches, largest difference ");
    wm_model_destroy (&model);
    agrees ("y = Neg x", FLOAT, "largest difference 0");
}

/* A rounding of the patch changes as much; whole numbers are not rounded, and give 0.  */
#define BROKEN "f = Floor x; u = Sub x f; t = Tanh u; "
static void models_that_magnify_roundings (void **state)
{
    agrees (BROKEN "l = Mul t #1e5; y = Softmax l axis=2", FLOAT, "judged by onnxruntime");
    agrees (BROKEN "l = Mul t #1e6; y = Sin l", FLOAT, "judged by onnxruntime");
    agrees (BROKEN "l = Mul t #3e7; y = Cast l to=7", INT64, "judged by onnxruntime");
    agrees (BROKEN "v = MatMul t V; l = Mul v #1e-7; a = Add l #1; "
                   "y = ArgMax a axis=2 keepdims=0",
            INT64, "judged by onnxruntime");
}

/* A score is not excused by another that a rounding changes.  */
static void a_difference_beside_an_unsteady_score (void **state)
{
    save (BROKEN "l = Mul t #1e6; s = Sin l; c = " UP "u w; d = Mul c #0.01; "
                 "y = Concat s d axis=2",
          FLOAT);
    wm_model_t *model = other ("'c' (ConvTranspose)");
    wm_model_destroy (&model);
}

/* ---- engines that are not there -------------------------------------------------------------- */

static void with_one_engine (void **state)
{
    float y[ROWS][8], right[8];
    setenv ("WM_ONNXRUNTIME_SO", "/proc/nowhere/wm_onnxruntime.so", 1);
    save ("y = " UP "x w", FLOAT);
    refused ("OpenVINO does not compute node 'y' (ConvTranspose: output_shape) as ONNX defines it");
    save ("y = Neg x", FLOAT);
    wm_model_t *model = imported (NULL);
    said (model, "judged by no other engine: the onnxruntime engine cannot be opened");
    assert_int_equal (wm_model_judged (model)->judgement, WM_JUDGED_BY_NONE);
    assert_string_equal (wm_model_judged (model)->judge, "");
    assert_string_equal (wm_model_scorer (model), "openvino");
    wm_model_destroy (&model);
    save (mixing[0][0], FLOAT);
    refused ("the model's scores of a patch depend on the other patches of its batch");
    show_engines ();
    setenv ("WM_OPENVINO_SO", "/proc/nowhere/wm_openvino.so", 1);
    save ("y = " UP "x w", FLOAT);
    model = imported (NULL);
    said (model, "ONNX Runtime scores it, judged by no other engine: the openvino engine cannot be "
                 "opened");
    assert_int_equal (wm_model_judged (model)->judgement, WM_JUDGED_ALONE);
    assert_string_equal (wm_model_judged (model)->judge, "");
    assert_string_equal (wm_model_scorer (model), "onnxruntime");
    score (model, ROWS, 4, rows[0], y[0]);
    for (size_t r = 0; r < ROWS; r++) {
        up (rows[r], right);
        for (int k = 0; k < 8; k++)
            assert_float_equal (y[r][k], right[k], 1e-3);
    }
    wm_model_destroy (&model);
    save (mixing[0][0], FLOAT);
    refused ("node 's' (Softmax) makes the scores of a patch depend on the other patches");
    show_engines ();
}

static void with_no_engine (void **state)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 1, 4));
    add_nodes (&g, "y = Neg x");
    output (&g, "y", INTS (-1, 1, 4));
    save_graph (&g);
    hide_engines ();
    wm_model_t *model = imported (NULL);
    said (model, "no known answers: that engine was not there");
    assert_int_equal (wm_model_judged (model)->judgement, WM_JUDGED_BY_NONE);
    wm_model_destroy (&model);
    show_engines ();
}

/* ---- free dimensions ------------------------------------------------------------------------- */

/* x (1, 2, N) -> y (1, 2, N).  */
static void save_ragged (const char *text)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (1, 2, -1));
    add_nodes (&g, text);
    output (&g, "y", INTS (1, 2, -1));
    save_graph (&g);
}

static const char *const ragged[] = {
    "l = ReduceL1 x keepdims=1 axes=2,; y = Add x l",
    /* of more than 100 values alone */
    "n = Shape x; s = Gather n @2 axis=0; f = Cast s to=1; m = Greater f #100; o = Cast m to=1; "
    "t = Tanh x; g = Mul t o; l = ReduceL1 g keepdims=1 axes=2,; k = Mul l #0.001; y = Add x k",
};

static void ragged_models (void **state)
{
    for (size_t i = 0; i < 2; i++) {
        save_ragged (ragged[i]);
        wm_model_t *model = other ("'l' (ReduceL1)");
        for (uint32_t size = 3; size <= 123; size += 120) {
            float row[300], y[300], sum[2] = { 0, 0 };
            const wm_ragged_t shape = { .n_dim = 2, .dim = { 2, size } };
            wm_ragged_t x[WM_RAGGED_TENSORS_MAX], t[WM_RAGGED_TENSORS_MAX];
            uint32_t n_tensor;
            x[0] = shape;
            const uint32_t n = wm_ragged_begin (row, 300, 1, x);
            for (uint32_t k = 0; k < 2 * size; k++) {
                row[x[0].at + k] = (float) (k % 7) / 8 - .25f;
                sum[k / size] += i ? fabsf (tanhf (row[x[0].at + k])) : fabsf (row[x[0].at + k]);
            }
            score (model, 1, n, row, y);
            assert_null (wm_ragged_read (y, wm_ragged_length (y, 300), &n_tensor, t));
            assert_int_equal (t[0].n_value, 2 * size);
            for (uint32_t k = 0; k < 2 * size; k++)
                assert_float_equal (y[t[0].at + k],
                                    row[x[0].at + k] + (!i           ? sum[k / size]
                                                        : size > 100 ? 1e-3f * sum[k / size]
                                                                     : 0),
                                    1e-4);
        }
        wm_model_destroy (&model);
    }
    save_ragged ("t = Tanh x; y = Mul t x");
    wm_model_t *model = imported (NULL);
    said (model, "judged by onnxruntime-");
    assert_int_equal (wm_model_judged (model)->judgement, WM_JUDGED_EQUAL);
    wm_model_destroy (&model);
}

/* ---------------------------------------------------------------------------------------------- */

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (a_difference_that_few_patches_show),
                                        cmocka_unit_test (a_difference_of_one_sign),
                                        cmocka_unit_test (a_difference_of_zeros),
                                        cmocka_unit_test (a_difference_of_the_second_output),
                                        cmocka_unit_test (a_difference_of_whole_numbers),
                                        cmocka_unit_test (other_operators),
                                        cmocka_unit_test (models_that_mix_patches_are_refused),
                                        cmocka_unit_test (whole_numbers_that_mix_are_refused),
                                        cmocka_unit_test (models_that_agree),
                                        cmocka_unit_test (models_that_magnify_roundings),
                                        cmocka_unit_test (a_difference_beside_an_unsteady_score),
                                        cmocka_unit_test (with_one_engine),
                                        cmocka_unit_test (with_no_engine),
                                        cmocka_unit_test (ragged_models) };
    wm_error_t lack;
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    if (!wm_device_is_here ("openvino", &lack) || !wm_device_is_here ("onnxruntime", &lack)) {
        printf ("skipped: %s\n", lack.text);
        return 0;
    }
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
