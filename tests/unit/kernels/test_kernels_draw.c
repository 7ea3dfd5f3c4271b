/* test_kernels_draw.c - input values that are drawn lie where the nodes that read them allow.  */
#include "kernels/judge/wm_draw.h"
#include "schema/wm_ragged.h"
#include "tests/unit/onnx_graph.h"

#include <math.h>

static wm_error_t error;
static float row[4096];

static void whole (graph_t *g, const char *name, size_t n_dim, const int64_t *dim)
{
    g->in[g->n_in++] = port (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, n_dim, dim);
}

/* Draws a row of every kind and calls `look` on each; the graph is empty then.  */
static void draws (graph_t *g, bool is_whole, void (*look) (const float *values, wm_draw_t kind))
{
    size_t size;
    uint8_t *bytes = packed (g, &size);
    wm_port_t ports[WM_MODEL_PORTS_MAX];
    uint32_t n_port, n;
    wm_onnx_t onnx;
    wm_onnx_ports_t how = { .whole = is_whole };
    static float again[4096];
    if (wm_onnx_lend (&onnx, "m", bytes, size, &error) || wm_onnx_read (&onnx, NULL, &error) ||
        wm_onnx_inputs (&onnx, &how, ports, &n_port, &error))
        fail_msg ("%s", error.text);
    for (unsigned i = 0; i < 20u * WM_DRAW_KINDS; i++) {
        const wm_draw_t kind = i % WM_DRAW_KINDS;
        memset (row, 0, sizeof row);
        memset (again, 0, sizeof again);
        if (how.free) {
            const uint32_t of = i % WM_DRAW_SIZES;
            assert_int_equal (
                wm_draw_ragged (&onnx, ports, n_port, kind, i, of, row, 4096, &n, &error), WM_OK);
            wm_draw_ragged (&onnx, ports, n_port, kind, i, of, again, 4096, &n, &error);
            assert_true (n > 0 && wm_ragged_length (row, 4096) == n);
        } else {
            assert_int_equal (wm_draw_row (&onnx, ports, n_port, kind, i, row, &error), WM_OK);
            wm_draw_row (&onnx, ports, n_port, kind, i, again, &error);
        }
        assert_memory_equal (row, again, sizeof row);
        look (row, kind);
    }
    wm_onnx_clear (&onnx);
    free (bytes);
    wm_arena_clear (&g->arena);
}

static bool is_index (float value, int size)
{
    return value >= 0 && value < (float) size && value == floorf (value);
}

static void each_below_7 (const float *values, wm_draw_t kind)
{
    int seen = 0;
    for (int k = 0; k < 4; k++) {
        assert_true (is_index (values[21 + k], 7));
        seen |= values[21 + k] > 1;
    }
    static int any;
    any += seen;
    assert_true (any || kind < WM_DRAW_KINDS - 1);
}

/* x (7, 3), then 4 indices that reach Gather behind other nodes.  */
static void indices_lie_in_their_table (void **state)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (7, 3));
    whole (&g, "i", INTS (4));
    node (&g, "Cast", "i", "j");
    set_int (&g, g.node[0], "to", ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
    node (&g, "Flatten", "j", "k");
    node (&g, "Gather", "x k", "y");
    output (&g, "y", INTS (1, 4, 3));
    draws (&g, true, each_below_7);
}

static void each_0_or_1 (const float *values, wm_draw_t kind)
{
    for (int k = 0; k < 4; k++)
        assert_true (is_index (values[k], 2));
}

/* Parts of indices, and indices of a table whose size is not known.  */
static void unknown_tables_have_two (void **state)
{
    graph_t g = { .ways = 0 };
    whole (&g, "i", INTS (4));
    input (&g, "x", INTS (7, 3));
    node (&g, "Abs", "i", "j");
    node (&g, "Gather", "x j", "y");
    output (&g, "y", INTS (4, 3));
    draws (&g, true, each_0_or_1);
    g = (graph_t){ .ways = 0 };
    whole (&g, "i", INTS (4));
    input (&g, "x", INTS (7, 3));
    node (&g, "MatMul", "x x", "z");
    node (&g, "Gather", "z i", "y");
    output (&g, "y", INTS (4, 3));
    draws (&g, true, each_0_or_1);
}

static void no_two_alike (const float *values, wm_draw_t kind)
{
    for (int column = 0; column < 3; column++)
        for (int a = 0; a < 4; a++) {
            assert_true (is_index (values[21 + 3 * a + column], 7));
            for (int b = 0; b < a; b++)
                assert_true (values[21 + 3 * a + column] != values[21 + 3 * b + column]);
        }
}

/* What is written twice has no defined value.  */
static void cells_are_written_once (void **state)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (7, 3));
    whole (&g, "i", INTS (4, 3));
    input (&g, "u", INTS (4, 3));
    node (&g, "ScatterElements", "x i u", "y");
    output (&g, "y", INTS (7, 3));
    draws (&g, true, no_two_alike);
}

static void is_image_and_block (const float *values, wm_draw_t kind)
{
    const float *image = values + 5 * 8, *block = image + 2;
    assert_int_equal ((int) (block[0] * block[1]) * (5 / (int) (block[0] * block[1])), 5);
    assert_int_equal ((int) ((image[0] - block[0] + 1) * (image[1] - block[1] + 1)), 8);
}

static void col2im_has_an_image (void **state)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (1, 5, 8));
    whole (&g, "image", INTS (2));
    whole (&g, "block", INTS (2));
    node (&g, "Col2Im", "x image block", "y");
    output (&g, "y", INTS (-1, -1, -1, -1));
    draws (&g, true, is_image_and_block);
}

static void is_divisor_and_log (const float *values, wm_draw_t kind)
{
    for (int k = 0; k < 3; k++) {
        assert_true (values[k] >= 1 && values[k] == floorf (values[k]));
        assert_true (values[3 + k] > 0 && isfinite (logf (values[3 + k])));
        assert_true (fabsf (values[6 + k]) < 1);
    }
    if (kind == WM_DRAW_ZEROS)
        assert_true (values[9] == 0);
    if (kind == WM_DRAW_SIGNED)
        assert_true (values[9] >= -2 && values[9] < 2);
}

static void functions_get_what_they_take (void **state)
{
    graph_t g = { .ways = 0 };
    whole (&g, "d", INTS (3));
    input (&g, "l", INTS (3));
    input (&g, "a", INTS (3));
    input (&g, "x", 0, NULL);
    node (&g, "Div", "d d", "q");
    node (&g, "Log", "l", "m");
    node (&g, "Atanh", "a", "n");
    node (&g, "Add", "m n", "o");
    node (&g, "Cast", "q", "r");
    set_int (&g, g.node[4], "to", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    node (&g, "Add", "o r", "p");
    node (&g, "Add", "p x", "y");
    output (&g, "y", INTS (3));
    draws (&g, true, is_divisor_and_log);
}

static void is_ragged_index (const float *values, wm_draw_t kind)
{
    uint32_t n;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    assert_null (wm_ragged_read (values, (size_t) values[0], &n, tensor));
    assert_int_equal (n, 2);
    for (uint32_t k = 0; k < tensor[1].n_value; k++)
        assert_true (is_index (values[tensor[1].at + k], (int) tensor[0].dim[0]));
}

/* A table of as many rows as the patch has: its indices go with it.  */
static void free_tables_are_known (void **state)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 3));
    whole (&g, "i", INTS (-1));
    node (&g, "Gather", "x i", "y");
    output (&g, "y", INTS (-1, 3));
    draws (&g, true, is_ragged_index);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (indices_lie_in_their_table),   cmocka_unit_test (unknown_tables_have_two),
        cmocka_unit_test (cells_are_written_once),       cmocka_unit_test (col2im_has_an_image),
        cmocka_unit_test (functions_get_what_they_take), cmocka_unit_test (free_tables_are_known),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
