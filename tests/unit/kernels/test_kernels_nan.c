/* test_kernels_nan.c - models that give NaN or infinities on some patches, or on all: what is
   imported, what a self-test compares, what an engine holds.  */
#include "tests/unit/made_import.h"

#include <math.h>

enum { VALUES = 4 };

/* One constant: of VALUES, or a single one.  */
static void constant (graph_t *g, const char *name, size_t n, const float *value)
{
    Onnx__TensorProto *t =
        tensor (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, n > 1, &(int64_t){ (int64_t) n });
    t->n_float_data = n;
    t->float_data = memcpy (take (g, n, sizeof *value), value, n * sizeof *value);
    add_tensor (g, t);
}

/* x -> y = op (x + shift), -inf in the first column where it is masked. x: (N, 4) or (N, any, 4).
 */
static void make (const char *op, float shift, bool is_masked, bool is_free)
{
    static const float mask[VALUES] = { -INFINITY, 0, 0, 0 };
    graph_t g = { .ways = 0 };
    constant (&g, "shift", 1, &shift);
    constant (&g, "mask", VALUES, mask);
    node (&g, "Add", "x shift", "moved");
    node (&g, op, "moved", is_masked ? "bare" : "y");
    if (is_masked)
        node (&g, "Add", "bare mask", "y");
    for (int k = 0; k < 2; k++) {
        void (*const port_of) (graph_t *, const char *, size_t, const int64_t *) =
            k ? output : input;
        if (is_free)
            port_of (&g, k ? "y" : "x", INTS (-1, -1, VALUES));
        else
            port_of (&g, k ? "y" : "x", INTS (-1, VALUES));
    }
    save_graph (&g);
}

static wm_device_t *opened (const wm_model_t *model, bool keeps_infinite)
{
    wm_error_t error = { 0 };
    const wm_device_config_t config = {
        .engine = "openvino", .precision = "fp32", .threads = 1, .keeps_infinite = keeps_infinite
    };
    wm_device_t *device = wm_device_new (model, NULL, &config, &error);
    if (!device)
        fail_msg ("%s", error.text);
    return device;
}

static void passes (wm_device_t *device)
{
    wm_error_t error = { 0 };
    if (wm_device_self_test (device, &error))
        fail_msg ("%s", error.text);
}

/* Scores a patch of VALUES, or a ragged row of one line of them. Returns its status.  */
static uint8_t score (wm_device_t *device, bool is_free, const float *patch, float *scores)
{
    static float row[64], found[WM_RAGGED_VALUES];
    wm_error_t error = { 0 };
    wm_ragged_t tensor = { .n_dim = 2, .dim = { 1, VALUES } };
    const uint32_t n = is_free ? wm_ragged_begin (row, 64, 1, &tensor) : VALUES;
    memcpy (row + n - VALUES, patch, VALUES * sizeof *row);
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = n, .patch = row
    };
    uint8_t status = 9;
    if (wm_device_score (device, &batch, &status, found, &error))
        fail_msg ("%s", error.text);
    memcpy (scores, found + n - VALUES, VALUES * sizeof *scores);
    return status;
}

static uint32_t n_known (const wm_model_t *model)
{
    const float *inputs, *answers;
    return wm_model_known (model, &inputs, &answers);
}

/* Patches are drawn until some have scores; one that has none is held.  */
static void domains (void **state)
{
    static const struct {
        const char *op;
        float shift, good, bad;
    } all[] = { { "Log", 0, 1, -1 },    { "Sqrt", 0, 4, -1 },   { "Acosh", 0, 1, 0.5f },
                { "Asin", 0, 0.5f, 2 }, { "Log", -3.9f, 5, 1 }, { "Atanh", -0.0005f, 0, 2 },
                { "Sqrt", -0.9f, 1, 0 } };
    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        const bool is_free = i % 2;
        const float good = all[i / 2].good, bad = all[i / 2].bad;
        const float patch[2][VALUES] = { { good, good, good, good }, { good, good, bad, good } };
        float scores[VALUES];
        make (all[i / 2].op, all[i / 2].shift, false, is_free);
        wm_model_t *model = imported (NULL);
        if (n_known (model) < 3)
            fail_msg ("%s(x + %g): %u known answers", all[i / 2].op, (double) all[i / 2].shift,
                      n_known (model));
        wm_device_t *device = opened (model, i % 4 < 2);
        passes (device);
        assert_int_equal (score (device, is_free, patch[0], scores), WM_HIT_SCORED);
        assert_true (isfinite (scores[0]) && scores[0] == scores[2]);
        assert_int_equal (score (device, is_free, patch[1], scores), WM_HIT_NONFINITE);
        for (int k = 0; k < VALUES; k++)
            assert_true (isnan (scores[k]));
        wm_device_destroy (&device);
        wm_model_destroy (&model);
    }
}

/* Infinite scores are answers. Clients get them, a campaign holds them.  */
static void infinities (void **state)
{
    static const float patch[VALUES] = { 1, 2, 3, 4 };
    for (int i = 0; i < 4; i++) {
        const bool is_free = i % 2, keeps = i / 2;
        const float *inputs, *answers;
        float scores[VALUES];
        make ("Relu", 0, true, is_free);
        wm_model_t *model = imported (NULL);
        assert_int_equal (wm_model_known (model, &inputs, &answers), 8);
        assert_true (isinf (answers[is_free ? 5 : 0]) && isfinite (answers[is_free ? 6 : 1]));
        wm_device_t *device = opened (model, keeps);
        passes (device);
        assert_int_equal (score (device, is_free, patch, scores),
                          keeps ? WM_HIT_SCORED : WM_HIT_NONFINITE);
        for (int k = 0; k < VALUES; k++)
            assert_true (keeps ? scores[k] == (k ? patch[k] : -INFINITY) : isnan (scores[k]) != 0);
        wm_device_destroy (&device);
        wm_model_destroy (&model);
    }
}

static void models_without_numbers (void **state)
{
    char why[480];
    for (int i = 0; i < 4; i++) {
        wm_error_t error = { 0 };
        make (i / 2 ? "Relu" : "Log", i / 2 ? INFINITY : -999, i / 2, i % 2); /* inf - inf */
        unlink (wmm_path);
        assert_int_equal (wm_import (onnx_path, NULL, wmm_path, why, &error), WM_EBATCH);
        if (!strstr (error.text, "no test patch has a finite score") ||
            !strstr (error.text, i / 2 ? "its weights are damaged" : "node 'y' (Log)"))
            fail_msg ("%s", error.text);
        assert_int_not_equal (access (wmm_path, F_OK), 0);
    }
}

/* The model with other known answers; the caller destroys it.  */
static wm_model_t *retold (const wm_model_t *model, uint32_t n, const float *scores)
{
    const float *inputs, *answers;
    char path[80];
    wm_model_known (model, &inputs, &answers);
    wm_model_parts_t parts = { .kind = WM_MODEL_GENERAL,
                               .why = "",
                               .n_input = 1,
                               .n_output = 1,
                               .input = wm_model_input (model, 0),
                               .output = wm_model_output (model, 0),
                               .n_known = n,
                               .known_inputs = inputs,
                               .known_scores = scores };
    parts.original = wm_model_original (model, &parts.original_bytes);
    snprintf (path, sizeof path, "%s/retold.wmm", folder);
    assert_int_equal (wm_model_write (path, &parts, NULL), WM_OK);
    wm_model_t *made = wm_model_open (path, NULL);
    assert_non_null (made);
    unlink (path);
    return made;
}

/* What is not a number is not compared; where an answer is one, so must be the score.  */
static void what_a_self_test_compares (void **state)
{
    const float *inputs, *answers;
    float told[8 * VALUES];
    wm_error_t error;
    make ("Relu", 0, true, false);
    wm_model_t *model = imported (NULL);
    assert_int_equal (wm_model_known (model, &inputs, &answers), 8);
    static const struct {
        int at;
        float value;
        bool is_fine;
    } all[] = { { 1, NAN, true },       { 0, NAN, true },        { 0, INFINITY, false },
                { 0, 0, false },        { 1, -INFINITY, false }, { 4 * 7 + 3, INFINITY, false },
                { 0, -INFINITY, true }, { 1, 9, false } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        memcpy (told, answers, sizeof told);
        told[all[i].at] = all[i].value;
        wm_model_t *made = retold (model, 8, told);
        wm_device_t *device = opened (made, i % 2);
        const wm_fault_t fault = wm_device_self_test (device, &error);
        if (fault != (all[i].is_fine ? WM_OK : WM_EHOST))
            fail_msg ("case %zu: fault %d", i, fault);
        wm_device_destroy (&device);
        wm_model_destroy (&made);
    }
    wm_model_destroy (&model);
    make ("Sqrt", -0.9f, false, false); /* NaN of most patches of a test without answers */
    model = imported (NULL);
    wm_model_known (model, &inputs, &answers);
    wm_model_t *made = retold (model, 0, NULL);
    wm_device_t *device = opened (made, false);
    passes (device);
    wm_device_destroy (&device);
    memcpy (told, answers, sizeof told);
    told[0] = -1; /* of a known patch */
    wm_model_t *wrong = retold (model, 1, told);
    device = opened (wrong, true);
    assert_int_equal (wm_device_self_test (device, &error), WM_EHOST);
    wm_device_destroy (&device);
    wm_model_destroy (&wrong);
    wm_model_destroy (&made);
    wm_model_destroy (&model);
}

static void errors_of_scores (void **state)
{
    assert_true (wm_device_off (INFINITY, INFINITY) == 0);
    assert_true (wm_device_off (-INFINITY, -INFINITY) == 0);
    assert_true (wm_device_off (INFINITY, -INFINITY) == INFINITY);
    assert_true (wm_device_off (INFINITY, 1) == INFINITY);
    assert_true (wm_device_off (1, INFINITY) == INFINITY);
    assert_true (wm_device_off (NAN, 1) == INFINITY && wm_device_off (1, NAN) == INFINITY);
    assert_true (wm_device_off (3, 2) == 0.5 && wm_device_off (0.5, 0.25) == 0.25);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (domains),
        cmocka_unit_test (infinities),
        cmocka_unit_test (models_without_numbers),
        cmocka_unit_test (what_a_self_test_compares),
        cmocka_unit_test (errors_of_scores),
    };
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
