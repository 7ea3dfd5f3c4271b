/* test_kernels_blocks.c - blocks of OpenVINO: patches that it reads in their place, others that are
   copied, fewer than a block has, and single ones; a patch has the same bits in all of them. And
   what shows that two ways of computing have the same bits.  */
#include "kernels/judge/wm_same_bits.h"
#include "tests/unit/made_import.h"

#include <math.h>

#define SIDE 64u
#define VALUES (3 * SIDE * SIDE) /* so that a block has 4 patches */
#define OUTPUTS (5 + VALUES + 1)
#define HITS 11u

/* image (N, 3, 64, 64) -> the means of 5 filters' positions, the image itself, and an offset
   (N, 1).  */
static graph_t image_graph (uint32_t n_input)
{
    graph_t g = { .ways = 0 };
    input (&g, "image", INTS (-1, 3, SIDE, SIDE));
    if (n_input > 1)
        input (&g, "offset", INTS (-1, 1));
    Onnx__TensorProto *weight =
        tensor (&g, "weight", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INTS (5, 3, 3, 3));
    weight->n_float_data = 5 * 3 * 3 * 3;
    weight->float_data = take (&g, weight->n_float_data, sizeof (float));
    for (size_t i = 0; i < weight->n_float_data; i++)
        weight->float_data[i] = (float) ((i * 37 + 11) % 64) / 64 - .5f;
    add_tensor (&g, weight);
    node (&g, "Conv", "image weight", "filtered");
    node (&g, "Tanh", "filtered", "bent");
    node (&g, "GlobalAveragePool", "bent", "means");
    node (&g, "Identity", "image", "same");
    output (&g, "means", INTS (-1, 5, 1, 1));
    output (&g, "same", INTS (-1, 3, SIDE, SIDE));
    if (n_input > 1) {
        node (&g, "Neg", "offset", "less");
        output (&g, "less", INTS (-1, 1));
    }
    return g;
}

static void score (wm_device_t *device, const wm_batch_t *batch, float *scores)
{
    wm_error_t error = { 0 };
    uint8_t status[HITS];
    if (wm_device_score (device, batch, status, scores, &error))
        fail_msg ("%s", error.text);
    for (uint32_t i = 0; i < batch->n_hit; i++)
        assert_int_equal (status[i], WM_HIT_SCORED);
}

/* All patches at once, and in groups of each size, by one and by three threads.  */
static void check (const wm_model_t *model)
{
    const uint32_t n = wm_model_n_value (model), n_output = wm_model_n_output (model);
    float *patch = malloc (HITS * n * sizeof *patch),
          *scores = malloc (HITS * n_output * sizeof *scores),
          *again = malloc (HITS * n_output * sizeof *again);
    assert_true (patch && scores && again);
    uint32_t seed = 1;
    for (uint32_t i = 0; i < HITS * n; i++)
        patch[i] = (float) ((seed = seed * 1664525 + 1013904223) >> 8) / (1 << 23) - 1;
    for (int threads = 1; threads <= 3; threads += 2) {
        wm_error_t error = { 0 };
        const wm_device_config_t config = { .engine = "openvino",
                                            .precision = "fp32",
                                            .threads = threads };
        wm_device_t *device = wm_device_new (model, NULL, &config, &error);
        if (!device)
            fail_msg ("%s", error.text);
        for (uint32_t group = HITS; group >= 1; group--)
            for (uint32_t first = 0; first < HITS; first += group) {
                const uint32_t left = HITS - first;
                const wm_batch_t batch = { .kind = WM_BATCH_PATCHES,
                                           .n_hit = left < group ? left : group,
                                           .patch_values = n,
                                           .patch = patch + (size_t) first * n };
                score (device, &batch, again + (size_t) first * n_output);
                if (group == HITS && threads == 1)
                    memcpy (scores, again, HITS * n_output * sizeof *scores);
                assert_memory_equal (again + (size_t) first * n_output,
                                     scores + (size_t) first * n_output,
                                     batch.n_hit * n_output * sizeof *scores);
            }
        wm_device_destroy (&device);
    }
    for (uint32_t i = 0; i < HITS; i++) {
        const float *row = scores + (size_t) i * n_output;
        assert_memory_equal (row + 5, patch + (size_t) i * n, VALUES * sizeof *row);
        if (n > VALUES)
            assert_float_equal (row[5 + VALUES], -patch[(size_t) i * n + VALUES], 0);
    }
    free (patch);
    free (scores);
    free (again);
}

static void bits_do_not_depend_on_blocks (void **state)
{
    for (uint32_t n_input = 1; n_input <= 2; n_input++) {
        graph_t g = image_graph (n_input);
        save_graph (&g);
        wm_model_t *model = imported (NULL);
        check (model);
        wm_model_destroy (&model);
    }
}

/* ---- the same bits --------------------------------------------------------------------------- */

/* A way of computing: scores that round, plus what makes it another one.  */
typedef struct {
    uint32_t n_output, calls;
    bool is_whole, is_flat, fails;
    uint32_t ulps_from; /* from this call on the last score is the next float */
} way_t;

static way_t pinned, other;

static wm_fault_t by (way_t *way, const wm_batch_t *batch, uint8_t *status, float *scores)
{
    const bool is_next = ++way->calls >= way->ulps_from;
    *status = WM_HIT_SCORED;
    assert_int_equal (batch->n_hit, 1);
    for (uint32_t k = 0; k < way->n_output; k++) {
        scores[k] = way->is_flat ? .001f : batch->patch[k] * .7f;
        scores[k] = way->is_whole ? roundf (scores[k]) : scores[k];
    }
    if (is_next)
        scores[way->n_output - 1] = nextafterf (scores[way->n_output - 1], 2);
    return way->fails ? WM_EHOST : WM_OK;
}

static wm_fault_t by_pinned (void *engine, const wm_batch_t *batch, uint8_t *status, float *scores,
                             wm_error_t *error)
{
    return by (&pinned, batch, status, scores);
}

static wm_fault_t by_other (void *engine, const wm_batch_t *batch, uint8_t *status, float *scores,
                            wm_error_t *error)
{
    return by (&other, batch, status, scores);
}

static bool is_same (const wm_model_t *model, way_t one, way_t another)
{
    pinned = one;
    other = another;
    pinned.n_output = other.n_output = wm_model_n_output (model);
    pinned.ulps_from = pinned.ulps_from ? pinned.ulps_from : UINT32_MAX;
    other.ulps_from = other.ulps_from ? other.ulps_from : UINT32_MAX;
    return wm_same_bits (model, by_pinned, by_other, NULL);
}

/* A difference in the last bit of one score is found; scores that cannot differ show nothing.  */
static void the_same_bits_must_be_shown (void **state)
{
    graph_t g = image_graph (2);
    save_graph (&g);
    wm_model_t *model = imported (NULL);
    assert_true (is_same (model, (way_t){ 0 }, (way_t){ 0 }));
    assert_false (is_same (model, (way_t){ 0 }, (way_t){ .ulps_from = 1 }));
    assert_false (is_same (model, (way_t){ 0 }, (way_t){ .ulps_from = 12 })); /* of twelve calls */
    assert_false (is_same (model, (way_t){ .is_flat = true }, (way_t){ .is_flat = true }));
    assert_false (is_same (model, (way_t){ .is_whole = true }, (way_t){ .is_whole = true }));
    assert_false (is_same (model, (way_t){ 0 }, (way_t){ .fails = true }));
    assert_false (is_same (model, (way_t){ .fails = true }, (way_t){ 0 }));
    wm_model_destroy (&model);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (bits_do_not_depend_on_blocks),
                                        cmocka_unit_test (the_same_bits_must_be_shown) };
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
