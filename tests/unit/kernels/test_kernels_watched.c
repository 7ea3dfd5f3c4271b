/* test_kernels_watched.c - NaNs that a model makes of finite patches: where a graph is watched, and
   where not, because it cannot make one; through OpenVINO, that such a row is held alone.  */
#include "kernels/onnx/wm_index_guard.h"
#include "kernels/onnx/wm_nan.h"
#include "tests/unit/made_import.h"

#include <math.h>

static wm_error_t error;

/* A constant of one number, or of 3 x 3.  */
static void constant (graph_t *g, const char *name, float value, bool is_matrix)
{
    Onnx__TensorProto *t = tensor (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, is_matrix ? 2 : 0,
                                   (int64_t[]){ 3, 3 });
    t->n_float_data = is_matrix ? 9 : 1;
    t->float_data = take (g, 9, sizeof (float));
    for (int k = 0; k < 9; k++)
        t->float_data[k] = is_matrix ? 0.125f * (float) (k - 4) : value;
    if (is_matrix)
        t->float_data[4] = value;
    add_tensor (g, t);
}

/* A graph of x (rows, 3) to y by statements "value = Operator input input; ...".  */
static graph_t written (const char *text, int64_t columns)
{
    static const struct {
        const char *name;
        float value;
        bool is_matrix;
    } constants[] = {
        { "zero", 0, false },          { "one", 1, false },     { "two", 2, false },
        { "three", 3, false },         { "half", 0.5f, false }, { "eps", 1e-5f, false },
        { "never", -INFINITY, false }, { "none", NAN, false },  { "w", 1, true },
        { "broken", NAN, true },       { "ten", 10, false }
    };
    graph_t g = { .ways = 0 };
    char all[400], *save = NULL;
    input (&g, "x", INTS (-1, columns));
    output (&g, "y", INTS (-1, columns));
    for (size_t k = 0; k < sizeof constants / sizeof *constants; k++)
        constant (&g, constants[k].name, constants[k].value, constants[k].is_matrix);
    snprintf (all, sizeof all, "%s", text);
    for (char *one = strtok_r (all, ";", &save); one; one = strtok_r (NULL, ";", &save)) {
        char out[20], op[40], in[80];
        if (sscanf (one, " %19s = %39s %79[^;]", out, op, in) != 3)
            fail_msg ("'%s'", one);
        Onnx__NodeProto *made = node (&g, op, in, out);
        if (!strcmp (op, "Cast"))
            set_int (&g, made, "to",
                     *out == 'i' ? ONNX__TENSOR_PROTO__DATA_TYPE__INT32
                                 : ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
        if (!strcmp (op, "ReduceMean"))
            set_ints (&g, made, "axes", INTS (1));
        if (!strcmp (op, "Softmax") || !strcmp (op, "Concat"))
            set_int (&g, made, "axis", 1);
    }
    return g;
}

/* ---- which values are watched ---------------------------------------------------------------- */

typedef struct {
    const char *graph, *watched;
} case_t;

static const case_t cases[] = {
    /* where the root is, once, whatever keeps it and whatever loses it */
    { "q = Sqrt x; y = Relu q", "q" },
    { "q = Sqrt x; a = MatMul q w; b = Relu a; c = MatMul b w; d = Relu c; y = Add d q", "q" },
    { "q = Log x; r = Relu q; s = Exp q; t = Greater q zero; u = Cast t; v = Add r s; y = Add u v",
      "q" },
    { "q = Sqrt x; s = Relu x; t = Max s q; y = Add t q", "q" },
    { "q = Log x; e = Exp q; y = Add e one", "q" },
    /* where two meet, or each where it is lost by itself */
    { "a = Sqrt x; b = Log x; c = Add a b; y = Relu c", "c" },
    { "a = Sqrt x; b = Log x; c = Relu a; d = Relu b; y = Add c d", "a b" },
    { "a = Sqrt x; b = Relu a; c = Sub b two; d = Sqrt c; y = Relu d", "a d" },
    /* nothing loses it, or nothing makes it */
    { "q = Sqrt x; a = MatMul q w; y = Sigmoid a", "" },
    { "r = Relu x; y = Sqrt r", "" },
    { "r = Relu x; q = Sqrt r; y = Relu q", "" },
    { "a = MatMul x w; b = Add a one; c = Relu b; d = MatMul c w; e = Mul d two; y = Max e half",
      "" },
    { "s = Mul x x; m = ReduceMean s; a = Add m eps; r = Sqrt a; d = Div x r; y = Relu d", "" },
    { "s = Pow x two; a = Add s eps; r = Pow a half; d = Div x r; y = Relu d", "" },
    { "n = Neg x; e = Exp n; d = Add one e; q = Div one d; r = Mul x q; y = Relu r", "" },
    { "m = ReduceMean x; d = Sub x m; t = Mul d d; v = Mul t d; h = Tanh v; y = Relu h", "" },
    { "a = Abs x; b = Max a eps; d = Div x b; l = Log b; c = Add d l; y = Relu c", "" },
    { "s = HardSigmoid x; p = Mul x s; a = Clip x zero two; b = Div p three; c = Add a b; y = Relu "
      "c",
      "" },
    /* a divisor that may be 0; a difference of means of squares */
    { "s = Mul x x; m = ReduceMean s; r = Sqrt m; d = Div x r; y = Relu d", "d" },
    { "s = Mul x x; m = ReduceMean s; n = ReduceMean x; o = Mul n n; v = Sub m o; y = Relu v", "" },
    { "s = Mul x x; m = ReduceMean s; n = ReduceMean x; o = Mul n n; v = Sub m o; r = Sqrt v; y = "
      "Relu r",
      "r" },
    /* infinities are values, until they meet */
    { "e = Exp x; y = Relu e", "" },
    { "a = Abs x; r = Div one a; y = Min r two", "" },
    { "e = Exp x; a = Add x one; f = Exp a; d = Sub e f; y = Relu d", "d" },
    { "e = Exp x; p = Mul e x; y = Relu p", "p" },
    { "e = Exp x; f = Mul e two; y = Relu f", "" },
    { "e = Exp x; m = MatMul e w; y = Relu m", "m" },
    { "p = Greater x zero; s = Where p x never; y = Relu s", "" },
    { "s = Add x never; a = Softmax s; m = MatMul a w; y = Relu m", "a" },
    { "s = Add x never; e = Exp s; y = Relu e", "" },
    { "a = Mul x x; b = Mul a x; c = Abs b; d = Sub b c; y = Relu d", "" },
    { "a = Mul x x; b = Mul a a; c = Abs b; d = Sub b c; y = Relu d", "d" },
    /* what a model drops itself, or asks for */
    { "q = Log x; p = Greater x zero; s = Where p q zero; y = Relu s", "s" },
    { "q = Log x; p = IsNaN q; s = Where p zero q; y = Relu s", "s" },
    { "q = Log x; p = Equal q q; s = Where p q zero; y = Add s one", "" },
    { "q = Log x; p = Equal q two; s = Where p q zero; y = Add s one", "q" },
    /* integers are never NaN */
    { "i = Cast x; j = Div i i; k = Relu j; y = Cast k", "" },
    { "q = Sqrt x; i = Cast q; y = Cast i", "q" },
    /* constants, operators that are not known */
    { "m = MatMul x broken; y = Relu m", "broken" },
    { "p = Greater x zero; s = Where p x none; y = Add s one", "" },
    { "m = Mystery x; y = Relu m", "m" },
    { "q = Sqrt x; y = Mystery q", "q" },
};

/* In a graph with doubts; "!": also infinities.  */
static const case_t doubts[] = {
    { "a = Abs x; m = ReduceMean a; n = Div x m; c = MatMul n w; r = Relu c; d = MatMul r w; y = "
      "Relu d",
      "n!" },
    { "a = Abs x; m = ReduceMean a; n = Div x m; c = Mul n two; r = MatMul c w; y = Relu r", "c!" },
    { "e = Exp x; a = Add x one; f = Exp a; d = Sub e f; y = Relu d", "e! f!" },
    { "q = Sqrt x; a = MatMul q w; y = Relu a", "q" },
    { "l = Log x; y = Max l two", "l" },
    { "l = Log x; m = Max l two; c = MatMul l w; r = Relu c; y = Add r m", "l l!" },
    { "p = Greater x zero; s = Where p x never; a = Softmax s; y = Relu a", "a" },
    { "s = Add x never; m = MatMul s w; y = Relu m", "s!" },
    { "m = MatMul x never; y = Relu m", "m" },
};

static void check_watched (const case_t *one, bool has_doubts)
{
    graph_t g = written (one->graph, 3);
    size_t size, n;
    uint8_t *bytes = packed (&g, &size);
    wm_onnx_t onnx;
    const wm_nan_t *watch;
    char found[100] = "";
    if (wm_onnx_lend (&onnx, "m", bytes, size, &error) || wm_onnx_read (&onnx, NULL, &error) ||
        wm_nan_find (&onnx, has_doubts, &watch, &n, &error))
        fail_msg ("%s", error.text);
    for (size_t i = 0; i < n; i++)
        snprintf (found + strlen (found), sizeof found - strlen (found), "%s%s%s", i ? " " : "",
                  watch[i].value, watch[i].is_doubt ? "!" : "");
    if (strcmp (found, one->watched))
        fail_msg ("watched '%s', not '%s': %s", found, one->watched, one->graph);
    wm_onnx_clear (&onnx);
    free (bytes);
    wm_arena_clear (&g.arena);
}

static void which_values (void **state)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        check_watched (&cases[k], false);
    for (size_t k = 0; k < sizeof doubts / sizeof *doubts; k++)
        check_watched (&doubts[k], true);
}

/* A value of the graph that a graph inside a node reads: If (x > 0) then -q else Relu (q).  */
static void graphs_inside (void **state)
{
    graph_t g = written ("q = Sqrt x; p = ReduceMean x; b = Greater p zero; y = If b", 3);
    Onnx__NodeProto *chooses = g.node[3];
    Onnx__GraphProto *inner = take (&g, 1, sizeof *inner);
    onnx__graph_proto__init (inner);
    inner->node = take (&g, 1, sizeof *inner->node);
    inner->node[inner->n_node++] = node (&g, "Neg", "q", "then");
    g.n_node--;
    Onnx__AttributeProto *a = attribute (&g, chooses, "then_branch");
    a->has_type = 1;
    a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    a->g = inner;
    size_t size, n;
    uint8_t *bytes = packed (&g, &size);
    wm_onnx_t onnx;
    const wm_nan_t *watch;
    if (wm_onnx_lend (&onnx, "m", bytes, size, &error) || wm_onnx_read (&onnx, NULL, &error) ||
        wm_nan_find (&onnx, false, &watch, &n, &error))
        fail_msg ("%s", error.text);
    assert_int_equal (n, 1);
    assert_string_equal (watch->value, "q");
    wm_onnx_clear (&onnx);
    free (bytes);
    wm_arena_clear (&g.arena);
}

/* Without guards of indices NaNs are still reported; of both the NaN is reported.  */
static void indices_or_not (void **state)
{
    graph_t g = written ("q = Sqrt x; i = Cast q; t = Gather w i; r = Relu x; y = Add t r", 3);
    size_t size, made_size;
    char text[200];
    uint8_t *bytes = packed (&g, &size);
    const wm_port_t port = { .name = "x", .n_dim = 1, .dim = { 3 }, .n_value = 3 };
    wm_index_guard_t *guard;
    for (int has_indices = 0; has_indices < 2; has_indices++) {
        const void *made = bytes;
        made_size = size;
        if (wm_guard_new (&guard, &made, &made_size, &port, 1, has_indices ? WM_GUARD_INDICES : 0,
                          &error))
            fail_msg ("%s", error.text);
        assert_int_equal (wm_guard_numbers (guard), has_indices ? 6 : 3);
        int64_t number[6] = { -7, 2, 3, 1, 1, 1 }, *nan = number + 3 * has_indices;
        assert_int_equal (wm_guard_find (guard, has_indices ? number : nan + 3, text, sizeof text),
                          WM_GUARD_NAN);
        assert_string_equal (text, "'q' is NaN, which node 'i' (Cast) does not keep");
        memset (nan, 0, 3 * sizeof *nan);
        if (!has_indices) {
            assert_int_equal (wm_guard_find (guard, nan, text, sizeof text), WM_GUARD_SOUND);
        } else {
            assert_int_equal (wm_guard_find (guard, number, text, sizeof text), WM_GUARD_OUTSIDE);
            assert_non_null (strstr (text, "'i' of node 't' (Gather)"));
        }
        wm_guard_destroy (&guard);
    }
    free (bytes);
    wm_arena_clear (&g.arena);
}

/* ---- through OpenVINO ------------------------------------------------------------------------ */

static wm_device_t *opened (const wm_model_t *model)
{
    const wm_device_config_t config = { .engine = "openvino", .precision = "fp32", .threads = 2 };
    wm_device_t *device = wm_device_new (model, NULL, &config, &error);
    if (!device || wm_device_self_test (device, &error))
        fail_msg ("%s", error.text);
    return device;
}

/* max (sqrt (x + 2), x) in this operator set; rows k with k % 5 == `bad` have an x below -2.  */
static void rows_of (int64_t opset, uint32_t bad)
{
    enum { ROWS = 333 };
    static float patch[ROWS * 3], scores[ROWS * 3];
    uint8_t status[ROWS];
    graph_t g = written ("a = Add x two; q = Sqrt a; y = Max q x", 3);
    size_t size;
    uint8_t *bytes = packed (&g, &size);
    Onnx__ModelProto *proto = onnx__model_proto__unpack (NULL, size, bytes);
    proto->opset_import[0]->version = opset;
    FILE *file = fopen (onnx_path, "wb");
    assert_non_null (file);
    size = onnx__model_proto__pack (proto, bytes);
    assert_int_equal (fwrite (bytes, 1, size, file), size);
    fclose (file);
    onnx__model_proto__free_unpacked (proto, NULL);
    free (bytes);
    wm_arena_clear (&g.arena);
    wm_model_t *model = imported (NULL);
    wm_device_t *device = opened (model);
    for (uint32_t k = 0; k < ROWS * 3; k++)
        patch[k] = k % 15 == 3 * bad + 1 ? -3 : (float) (k % 7) / 4;
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = ROWS, .patch_values = 3, .patch = patch
    };
    if (wm_device_score (device, &batch, status, scores, &error))
        fail_msg ("%s", error.text);
    for (uint32_t k = 0; k < ROWS; k++) {
        assert_int_equal (status[k], k % 5 == bad ? WM_HIT_NONFINITE : WM_HIT_SCORED);
        for (uint32_t i = 3 * k; i < 3 * k + 3; i++)
            if (status[k])
                assert_true (isnan (scores[i]));
            else
                assert_float_equal (scores[i], fmaxf (sqrtf (patch[i] + 2), patch[i]), 1e-6);
    }
    wm_device_destroy (&device);
    wm_model_destroy (&model);
}

static void rows_are_held_alone (void **state)
{
    rows_of (13, 0);
    rows_of (13, 3);
    rows_of (13, 7); /* none */
    rows_of (8, 2);  /* these have no IsNaN */
    rows_of (7, 4);
}

/* The same of a row with a free dimension, whose shape stays.  */
static void a_ragged_row_is_held (void **state)
{
    graph_t g = written ("a = Add x two; q = Sqrt a; y = Max q x", -1);
    save_graph (&g);
    wm_model_t *model = imported (NULL);
    wm_device_t *device = opened (model);
    assert_true (wm_model_is_ragged (model, NULL));
    for (uint32_t n = 1; n < 9; n++)
        for (int bad = 0; bad < 2; bad++) {
            static float row[WM_RAGGED_VALUES], scores[WM_RAGGED_VALUES];
            wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX] = { { .n_dim = 1, .dim = { n } } };
            uint32_t n_tensor;
            uint8_t status;
            const uint32_t length = wm_ragged_begin (row, 100, 1, tensor);
            for (uint32_t k = 0; k < n; k++)
                row[tensor[0].at + k] = bad && k == n / 2 ? -5 : (float) k;
            const wm_batch_t batch = {
                .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = length, .patch = row
            };
            if (wm_device_score (device, &batch, &status, scores, &error))
                fail_msg ("%s", error.text);
            assert_int_equal (status, bad ? WM_HIT_NONFINITE : WM_HIT_SCORED);
            assert_null (wm_ragged_read (scores, (size_t) scores[0], &n_tensor, tensor));
            assert_int_equal (tensor[0].dim[0], n);
            for (uint32_t k = 0; k < n; k++)
                if (bad)
                    assert_true (isnan (scores[tensor[0].at + k]));
                else
                    assert_float_equal (scores[tensor[0].at + k],
                                        fmaxf (sqrtf ((float) k + 2), (float) k), 1e-6);
        }
    wm_device_destroy (&device);
    wm_model_destroy (&model);
}

int main (void)
{
    const struct CMUnitTest plain[] = { cmocka_unit_test (which_values),
                                        cmocka_unit_test (graphs_inside),
                                        cmocka_unit_test (indices_or_not) },
                            engine[] = { cmocka_unit_test (rows_are_held_alone),
                                         cmocka_unit_test (a_ragged_row_is_held) };
    const int failed = cmocka_run_group_tests (plain, NULL, NULL);
    wm_error_t lack;
    if (failed || !wm_device_is_here ("openvino", &lack))
        return failed;
    return cmocka_run_group_tests (engine, make_folder, remove_folder);
}
