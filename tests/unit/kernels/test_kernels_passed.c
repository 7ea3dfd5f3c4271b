/* test_kernels_passed.c - outputs that are an input as it came (Identity, Reshape, Unsqueeze, a
   Cast to its own type) of every type, in one to three free dimensions or none: exact, whatever the
   sizes of the rows before.  */
#include "tests/unit/made_import.h"

enum { ROWS = 9, TYPES = 8, VALUES_MAX = 1 << 16 };

static const int type_of[TYPES] = {
    ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,  ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16,
    ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE, ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16,
    ONNX__TENSOR_PROTO__DATA_TYPE__INT64,  ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
    ONNX__TENSOR_PROTO__DATA_TYPE__UINT8,  ONNX__TENSOR_PROTO__DATA_TYPE__BOOL,
};

/* The large ones before small ones: a tensor that shrinks, grows, and is empty.  */
static const uint32_t size_of[ROWS][3] = { { 32, 32, 7 }, { 7, 3, 5 }, { 8, 1, 1 },
                                           { 31, 32, 7 }, { 1, 1, 1 }, { 16, 9, 2 },
                                           { 0, 4, 3 },   { 2, 2, 2 }, { 32, 31, 7 } };

static float row[VALUES_MAX], scores[WM_RAGGED_VALUES];

/* How an output is made of input `in`.  */
static void pass (graph_t *g, int how, int type, const char *in, const char *out)
{
    char middle[16], list[48];
    snprintf (middle, sizeof middle, "%s_", out);
    switch (how) {
    case 0:
        node (g, "Identity", in, out);
        break;
    case 1:
        node (g, "Identity", in, middle);
        node (g, "Identity", middle, out);
        break;
    case 2:
        set_int (g, node (g, "Cast", in, out), "to", type);
        break;
    case 3:
        snprintf (list, sizeof list, "%s first", in);
        node (g, "Unsqueeze", list, middle);
        snprintf (list, sizeof list, "%s first", middle);
        node (g, "Squeeze", list, out);
        break;
    default:
        snprintf (list, sizeof list, "%s same", in);
        node (g, "Reshape", list, out);
        break;
    }
}

/* n_in inputs of types from `first` on, each (N, any, ...) of `rank` dimensions, or of size_of[0];
   each passed on in two ways, one of which is `how`.  */
static void make (int first, int n_in, int how, int rank, bool is_free)
{
    graph_t g = { .ways = 0 };
    int64_t dim[4] = { -1 };
    char in[16], out[16];
    for (int d = 0; d < rank; d++)
        dim[d + 1] = is_free ? -1 : (int64_t) size_of[0][d];
    Onnx__TensorProto *axis =
        tensor (&g, "first", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1, &(int64_t){ 1 });
    axis->n_int64_data = 1;
    axis->int64_data = memcpy (take (&g, 1, 8), &(int64_t){ 1 }, 8);
    add_tensor (&g, axis);
    Onnx__TensorProto *same =
        tensor (&g, "same", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1, &(int64_t){ rank + 1 });
    same->n_int64_data = (size_t) rank + 1;
    same->int64_data = take (&g, (size_t) rank + 1, 8); /* zeros: as the input */
    add_tensor (&g, same);
    for (int i = 0; i < n_in; i++) {
        const int type = type_of[first + i];
        snprintf (in, sizeof in, "x%d", i);
        g.in[g.n_in++] = port (&g, in, type, (size_t) rank + 1, dim);
        for (int k = 0; k < 2; k++) {
            snprintf (out, sizeof out, "y%d_%d", i, k);
            pass (&g, (how + 3 * k) % 5, type, in, out);
            g.out[g.n_out++] = port (&g, out, type, (size_t) rank + 1, dim);
        }
    }
    save_graph (&g);
}

static void check_row (wm_device_t *device, int n_in, int rank, int r, bool is_free)
{
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    wm_error_t error = { 0 };
    uint32_t n = 0, n_value = 1, n_tensor, at = 0;
    uint8_t status = 9;
    for (int d = 0; d < rank; d++)
        n_value *= size_of[r][d];
    for (int i = 0; i < n_in; i++) {
        tensor[i] = (wm_ragged_t){ .n_dim = (uint32_t) rank };
        memcpy (tensor[i].dim, size_of[r], sizeof size_of[r]);
    }
    if (is_free)
        n = at =
            wm_ragged_begin (row, VALUES_MAX, (uint32_t) n_in, tensor) - (uint32_t) n_in * n_value;
    for (uint32_t k = 0; k < (uint32_t) n_in * n_value; k++)
        row[n++] = (float) ((k * 7 / 3 + (uint32_t) r) % 2);
    const wm_batch_t batch = {
        .kind = WM_BATCH_PATCHES, .n_hit = 1, .patch_values = n, .patch = row
    };
    if (wm_device_score (device, &batch, &status, scores, &error))
        fail_msg ("%s", error.text);
    assert_int_equal (status, WM_HIT_SCORED);
    if (is_free)
        assert_null (wm_ragged_read (scores, (size_t) scores[0], &n_tensor, tensor));
    for (int o = 0; o < 2 * n_in; o++) {
        const float *found = scores + (is_free ? tensor[o].at : (uint32_t) o * n_value);
        assert_memory_equal (found, row + at + (uint32_t) (o / 2) * n_value,
                             n_value * sizeof *found);
        for (int d = 0; d < rank && is_free; d++)
            assert_int_equal (tensor[o].dim[d], size_of[r][d]);
    }
}

static void check (int n_in, int rank, bool is_free)
{
    wm_error_t error = { 0 };
    wm_model_t *model = imported (NULL);
    for (int threads = 1; threads <= 2; threads++) {
        const wm_device_config_t config = { .engine = "openvino",
                                            .precision = "fp32",
                                            .threads = threads };
        wm_device_t *device = wm_device_new (model, NULL, &config, &error);
        if (!device || wm_device_self_test (device, &error))
            fail_msg ("%s", error.text);
        wm_device_destroy (&device); /* one that has computed nothing */
        device = wm_device_new (model, NULL, &config, &error);
        for (int r = 0; r < (is_free ? ROWS : 1); r++)
            check_row (device, n_in, rank, r, is_free);
        wm_device_destroy (&device);
    }
    wm_model_destroy (&model);
}

static void in_free_dimensions (void **state)
{
    for (int rank = 1; rank <= 3; rank++)
        for (int first = 0; first < TYPES; first += 2) {
            make (first, 2, rank + first / 2, rank, true);
            check (2, rank, true);
        }
}

/* One input: the graph has no node but it and its output.  */
static void alone (void **state)
{
    for (int type = 0; type < TYPES; type++) {
        make (type, 1, type ? 0 : 2, 1 + type % 3, true);
        check (1, 1 + type % 3, true);
    }
}

static void in_fixed_dimensions (void **state)
{
    for (int first = 0; first < TYPES; first += 2) {
        make (first, 2, first, 2, false);
        check (2, 2, false);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (in_free_dimensions),
        cmocka_unit_test (alone),
        cmocka_unit_test (in_fixed_dimensions),
    };
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
