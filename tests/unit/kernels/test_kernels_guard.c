/* test_kernels_guard.c - indices that a patch brings: which nodes are guarded, what the guard
   reports, what is refused; and through OpenVINO, that a patch with one outside is held alone.  */
#include "kernels/onnx/wm_index_guard.h"
#include "kernels/onnx/wm_onnx.h"
#include "tests/unit/made_import.h"

#include <math.h>

static void whole (graph_t *g, const char *name, size_t n_dim, const int64_t *dim)
{
    g->in[g->n_in++] = port (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, n_dim, dim);
}

static void number (graph_t *g, const char *name, size_t n, const int64_t *value)
{
    Onnx__TensorProto *t =
        tensor (g, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, n > 0, &(int64_t){ (int64_t) n });
    t->n_int64_data = n ? n : 1;
    t->int64_data = memcpy (take (g, t->n_int64_data, 8), value, t->n_int64_data * 8);
    add_tensor (g, t);
}

/* ---- what is guarded ------------------------------------------------------------------------- */

static wm_index_guard_t *guard; /* of the last graph */
static wm_error_t error;

/* Guards a graph of this operator set. Returns the fault.  */
static wm_fault_t guarded (graph_t *g, int64_t opset, size_t *n_node)
{
    size_t size;
    uint8_t *bytes = packed (g, &size);
    Onnx__ModelProto *model = onnx__model_proto__unpack (NULL, size, bytes);
    wm_port_t ports[WM_MODEL_PORTS_MAX];
    uint32_t n_port;
    wm_onnx_t onnx;
    wm_onnx_ports_t how = { .whole = true };
    model->opset_import[0]->version = opset;
    onnx__model_proto__pack (model, bytes);
    onnx__model_proto__free_unpacked (model, NULL);
    if (wm_onnx_lend (&onnx, "m", bytes, size, &error) || wm_onnx_read (&onnx, NULL, &error) ||
        wm_onnx_inputs (&onnx, &how, ports, &n_port, &error))
        fail_msg ("%s", error.text);
    const void *made = bytes;
    wm_guard_destroy (&guard);
    const wm_fault_t fault =
        wm_guard_new (&guard, &made, &size, ports, n_port, WM_GUARD_INDICES, &error);
    assert_true (guard ? made != bytes : made == bytes);
    *n_node = g->n_node;
    if (guard) {
        model = onnx__model_proto__unpack (NULL, size, made);
        assert_non_null (model);
        *n_node = model->graph->n_node;
        onnx__model_proto__free_unpacked (model, NULL);
    }
    wm_guard_forget (guard);
    wm_onnx_clear (&onnx);
    free (bytes);
    wm_arena_clear (&g->arena);
    return fault;
}

/* Guards a graph; its guard has so many places.  */
static void has_places (graph_t *g, size_t n)
{
    size_t n_node;
    if (guarded (g, 13, &n_node))
        fail_msg ("%s", error.text);
    assert_int_equal (wm_guard_numbers (guard), 3 * n);
    assert_true ((guard != NULL) == (n > 0));
}

static void refused (graph_t *g, int64_t opset, const char *text)
{
    size_t n_node;
    if (guarded (g, opset, &n_node) != WM_EBATCH || !strstr (error.text, text))
        fail_msg ("no '%s' in: %s", text, error.text);
    assert_null (guard);
}

/* y = x at i: x of this many rows of 3, -1: any; i of 4 from the patch, or constant.  */
static graph_t reads (int64_t rows, bool constant)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (rows, 3));
    if (constant)
        number (&g, "i", 1, (int64_t[]){ -1 });
    else
        whole (&g, "i", INTS (4));
    node (&g, "Gather", "x i", "y");
    output (&g, "y", INTS (-1, 3));
    return g;
}

static void only_what_a_patch_decides (void **state)
{
    graph_t g = { .ways = 0 }; /* no index */
    input (&g, "x", INTS (-1, 3));
    node (&g, "Exp", "x", "y");
    output (&g, "y", INTS (-1, 3));
    has_places (&g, 0);
    g = reads (7, false);
    has_places (&g, 1);
    g = reads (7, true); /* the model's own index, of a table that never changes */
    has_places (&g, 0);
    g = reads (-1, true); /* the table may be empty */
    has_places (&g, 1);
    g = reads (-1, true); /* sizes are read by constant indices, whatever they are */
    node (&g, "Shape", "x", "sizes");
    node (&g, "Slice", "sizes i i", "some");
    g.node[0]->input[0] = copy (&g, "sizes");
    has_places (&g, 0);
    g = reads (7, true); /* as many indices as a value of the patch has that are not 0 */
    node (&g, "NonZero", "x", "list");
    g.node[0]->input[0] = copy (&g, "list");
    has_places (&g, 1);
    g = reads (7, true); /* a size of a free dimension is an index */
    whole (&g, "many", INTS (-1));
    node (&g, "Shape", "many", "size");
    g.node[0]->input[1] = copy (&g, "size");
    has_places (&g, 1);
    g = reads (7, true); /* turned around, and grown by it */
    node (&g, "Transpose", "x", "flat");
    node (&g, "ReduceSum", "x", "sum");
    node (&g, "Tile", "flat i", "tiled");
    g.node[0]->input[0] = copy (&g, "tiled");
    has_places (&g, 0);
}

/* Two tables of one list of indices share what is computed of it.  */
static void indices_are_shared (void **state)
{
    size_t one, two, other;
    graph_t g = reads (-1, false);
    assert_int_equal (guarded (&g, 13, &one), WM_OK);
    g = reads (-1, false);
    node (&g, "Gather", "x i", "z");
    output (&g, "z", INTS (-1, 3));
    assert_int_equal (guarded (&g, 13, &two), WM_OK);
    assert_int_equal (two, one + 1);
    g = reads (-1, false);
    input (&g, "w", INTS (-1, 3));
    node (&g, "Gather", "w i", "z");
    output (&g, "z", INTS (-1, 3));
    assert_int_equal (guarded (&g, 13, &other), WM_OK);
    assert_true (other > two && other - one < one);
    assert_int_equal (wm_guard_numbers (guard), 6);
}

/* ---- what it tells --------------------------------------------------------------------------- */

static void tells (const int64_t *numbers, const char *text)
{
    char found[300] = "";
    assert_int_equal (wm_guard_find (guard, numbers, found, sizeof found) != 0, *text != 0);
    if (!strstr (found, text))
        fail_msg ("'%s' is not in '%s'", text, found);
}

/* y = op (x, i, ...), where the patch decides i of this shape.  */
static graph_t by_index (const char *op, const char *in, size_t n_dim, const int64_t *dim)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (-1, 3));
    whole (&g, "i", n_dim, dim);
    input (&g, "u", INTS (-1, 3));
    node (&g, op, in, "y");
    output (&g, "y", INTS (-1, 3));
    return g;
}

static void which_index_and_why (void **state)
{
    graph_t g = by_index ("Gather", "x i", INTS (-1));
    has_places (&g, 1);
    tells ((int64_t[]){ 0, 0, 5 }, "");
    tells ((int64_t[]){ INT32_MAX, INT32_MIN, 5 }, ""); /* of no indices */
    tells ((int64_t[]){ INT32_MAX, INT32_MIN, 0 }, "");
    tells ((int64_t[]){ 0, 1, 5 }, "'i' of node 'y' (Gather): 5 lies outside -5 to 4");
    tells ((int64_t[]){ -1, 1, 5 }, ": -6 lies outside -5 to 4");
    tells ((int64_t[]){ -1048576, 0, 5 }, ": -1048581 or less lies outside -5 to 4");
    tells ((int64_t[]){ 0, 1048576, 5 }, ": 1048580 or more lies outside -5 to 4");
    tells ((int64_t[]){ 0, 0, 0 }, "'i' of node 'y' (Gather): its table is empty");
    tells ((int64_t[]){ -1, -1, 0 }, ": its table is empty");
    g = by_index ("GatherND", "x i", INTS (-1, 2));
    has_places (&g, 1);
    tells ((int64_t[]){ 0, 0, 3 }, "");
    tells ((int64_t[]){ INT32_MAX, INT32_MIN, 0 }, "");
    tells ((int64_t[]){ -3, 0, 3 }, "(GatherND): one lies 3 before its table");
    tells ((int64_t[]){ 0, 8, 3 }, "(GatherND): one lies 8 behind its table");
    tells ((int64_t[]){ 0, 0, 0 }, "(GatherND): its table is empty");
    g = by_index ("ScatterElements", "x i u", INTS (-1, -1));
    has_places (&g, 2);
    tells ((int64_t[]){ 0, 0, 5, 0, 0, 1 }, "");
    tells ((int64_t[]){ 0, 0, 5, 0, 2, 1 },
           "'i' of node 'y' (ScatterElements): a dimension has 2 more than its table");
    tells ((int64_t[]){ 0, 3, 5, 0, 2, 1 }, ": 7 lies outside -5 to 4");
    g = by_index ("Tile", "x i", INTS (2));
    has_places (&g, 1);
    tells ((int64_t[]){ 0, 0, 1 }, "");
    tells ((int64_t[]){ -2, 0, 1 }, "'i' of node 'y' (Tile): -2 is less than 0");
    g = by_index ("Pad", "x i", INTS (4));
    has_places (&g, 1);
    tells ((int64_t[]){ 0, 0, 1 }, "");
    tells ((int64_t[]){ -2, 0, 1 }, "(Pad): 2 more are taken away than there are");
    g = by_index ("GRU", "f u u - i", INTS (3)); /* steps of a fixed size */
    input (&g, "f", INTS (6, 3, 2));
    g.in[2] = port (&g, "u", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, INTS (1, 6, 2));
    has_places (&g, 1);
    tells ((int64_t[]){ 0, 0, 0 }, "");
    tells ((int64_t[]){ 0, 2, 6 }, "'i' of node 'y' (GRU): 8 lies outside 0 to 6");
    tells ((int64_t[]){ -2, 2, 6 }, ": -2 lies outside 0 to 6");
    g = by_index ("Compress", "x i", INTS (-1));
    size_t n_node;
    assert_int_equal (guarded (&g, 13, &n_node), WM_OK);
    assert_int_equal (wm_guard_numbers (guard), 0); /* cut, not judged */
    assert_true (guard && n_node > 1);
}

/* Constant pads are guarded where they take away from a table that may have less.  */
static void constant_pads (void **state)
{
    for (int64_t least = -1; least <= 0; least++) {
        graph_t g = { .ways = 0 };
        input (&g, "x", INTS (-1, 3));
        number (&g, "pads", 4, (int64_t[]){ least, 1, 0, 2 });
        node (&g, "Pad", "x pads", "y");
        output (&g, "y", INTS (-1, 6));
        has_places (&g, least < 0);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Puts the graph's nodes into the branch of an If, or the body of a Loop, whose result is y.  */
static void inside (graph_t *g, const char *op, const char *in)
{
    Onnx__GraphProto *body = take (g, 1, sizeof *body);
    onnx__graph_proto__init (body);
    body->name = copy (g, "body");
    body->n_node = g->n_node;
    body->node =
        memcpy (take (g, g->n_node, sizeof *g->node), g->node, g->n_node * sizeof *g->node);
    body->output = take (g, 2, sizeof *body->output);
    body->input = take (g, 2, sizeof *body->input);
    const bool is_loop = !strcmp (op, "Loop");
    if (is_loop) {
        body->input[body->n_input++] =
            port (g, "turn", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 0, NULL);
        body->input[body->n_input++] = port (g, "go", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 0, NULL);
        body->output[body->n_output++] =
            port (g, "go", ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 0, NULL);
    }
    body->output[body->n_output++] = g->out[0];
    g->n_node = 0;
    Onnx__NodeProto *outer = node (g, op, in, "outer");
    for (int k = 0; k < (is_loop ? 1 : 2); k++) {
        Onnx__AttributeProto *a = attribute (g, outer,
                                             is_loop ? "body"
                                             : k     ? "else_branch"
                                                     : "then_branch");
        a->has_type = 1;
        a->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
        a->g = body;
    }
    g->out[0] = NULL;
    g->n_out = 0;
    output (g, "outer", INTS (-1, 3));
}

static void what_cannot_be_guarded (void **state)
{
    graph_t g = reads (7, false);
    number (&g, "go_in", 0, (int64_t[]){ 1 });
    inside (&g, "If", "go_in");
    refused (&g, 13, "'i' to node 'y' (Gather), which lies inside a Loop, If or Scan");
    g = reads (7, false);
    number (&g, "times", 0, (int64_t[]){ 2 });
    inside (&g, "Loop", "times -");
    refused (&g, 13, "'i' to node 'y' (Gather), which lies inside a Loop, If or Scan");
    for (int constant = 0; constant < 2; constant++) { /* how often a Loop turns is its index */
        g = reads (7, true);
        g.node[0]->input[1] = copy (&g, "turn");
        if (constant)
            number (&g, "times", 0, (int64_t[]){ 2 });
        else
            whole (&g, "times", 0, NULL);
        inside (&g, "Loop", "times -");
        if (constant)
            has_places (&g, 0);
        else
            refused (&g, 13, "'turn' to node 'y' (Gather), which lies inside a Loop");
    }
    g = reads (7, true);
    number (&g, "times", 0, (int64_t[]){ 2 });
    inside (&g, "Loop", "times -");
    has_places (&g, 0);
    g = by_index ("NegativeLogLikelihoodLoss", "x i", INTS (-1));
    refused (&g, 13, "(NegativeLogLikelihoodLoss), export the model with Gather or ScatterND");
    g = reads (7, false);
    refused (&g, 7, "in this old operator set: export the model with a newer one");
    g = by_index ("Compress", "x i", INTS (-1));
    refused (&g, 9, "in this old operator set");
    g = by_index ("GatherND", "x i", INTS (-1, 1));
    set_int (&g, g.node[0], "batch_dims", 1);
    refused (&g, 13, "(GatherND), where lengths are free it must have no batch_dims");
    g = by_index ("GRU", "x u u - i", INTS (3));
    refused (&g, 13, "'i' to node 'y' (GRU), where lengths are free OpenVINO ignores it");
}

/* Adds a node to a frozen graph, of up to two inputs and one attribute.  */
static void frozen_node (Graphdef__Graph *graph, graph_t *g, const char *called, const char *op,
                         const char *in, const char *key, Graphdef__Value *value)
{
    Graphdef__Node *one = graph->node[graph->n_node++] = take (g, 1, sizeof *one);
    graphdef__node__init (one);
    one->name = copy (g, called);
    one->op = copy (g, op);
    one->input = split (g, in, &one->n_input);
    if (!key)
        return;
    Graphdef__Node__Attr *a = take (g, 1, sizeof *a);
    graphdef__node__attr__init (a);
    a->key = copy (g, key);
    a->value = value;
    one->attr = take (g, 1, sizeof *one->attr);
    one->attr[one->n_attr++] = a;
}

/* y = op (table, i), where i comes from the patch, or is the model's own.  */
static wm_fault_t guard_frozen (const char *op, bool is_own)
{
    graph_t g = { .ways = 0 };
    Graphdef__Node *nodes[8];
    Graphdef__Graph graph = GRAPHDEF__GRAPH__INIT;
    Graphdef__Value value[2] = { GRAPHDEF__VALUE__INIT, GRAPHDEF__VALUE__INIT };
    Graphdef__Tensor t = GRAPHDEF__TENSOR__INIT;
    Graphdef__Shape shape = GRAPHDEF__SHAPE__INIT;
    int32_t zero = 0;
    const wm_port_t ports[] = { { .name = "i", .n_value = 1, .type = 6 } };
    value[0].has_type = 1;
    value[0].type = 3; /* int32 */
    value[1].tensor = &t;
    t.has_dtype = 1;
    t.dtype = 3;
    t.shape = &shape;
    t.int_val = &zero;
    t.n_int_val = 1;
    graph.node = nodes;
    frozen_node (&graph, &g, "i", "Placeholder", "", "dtype", &value[0]);
    frozen_node (&graph, &g, "own", "Const", "", "value", &value[1]);
    frozen_node (&graph, &g, "y", op, is_own ? "i own" : "own i", NULL, NULL);
    const size_t size = graphdef__graph__get_packed_size (&graph);
    uint8_t *bytes = malloc (size);
    graphdef__graph__pack (&graph, bytes);
    const void *made = bytes;
    size_t made_size = size;
    wm_guard_destroy (&guard);
    const wm_fault_t fault =
        wm_guard_new (&guard, &made, &made_size, ports, 1, WM_GUARD_INDICES, &error);
    assert_true (!guard && made == bytes && made_size == size);
    free (bytes);
    wm_arena_clear (&g.arena);
    return fault;
}

static void frozen_graphs (void **state)
{
    static const char *const op[] = {
        "GatherV2",           "GatherNd", "TensorScatterUpdate", "StatefulPartitionedCall",
        "UnsortedSegmentSum", "Bincount"
    };
    for (size_t k = 0; k < sizeof op / sizeof *op; k++) {
        assert_int_equal (guard_frozen (op[k], false), WM_EBATCH);
        assert_non_null (strstr (error.text, "of node 'y'"));
        assert_non_null (strstr (error.text, "convert it to ONNX by tf2onnx"));
        assert_int_equal (guard_frozen (op[k], true), WM_OK);
    }
    assert_int_equal (guard_frozen ("Maximum", false), WM_OK);
}

static void damaged_files (void **state)
{
    const void *bytes = "this is no model";
    size_t size = 16;
    assert_int_equal (wm_guard_new (&guard, &bytes, &size, NULL, 0, WM_GUARD_INDICES, &error),
                      WM_EBATCH);
    assert_null (guard);
}

/* ---- through OpenVINO ------------------------------------------------------------------------ */

static wm_device_t *opened (const wm_model_t *model, int threads)
{
    const wm_device_config_t config = { .engine = "openvino",
                                        .precision = "fp32",
                                        .threads = threads };
    wm_device_t *device = wm_device_new (model, NULL, &config, &error);
    if (!device || wm_device_self_test (device, &error))
        fail_msg ("%s", error.text);
    return device;
}

/* i (N, 2) of integers -> rows i - `from` of a table of 5, in one list for the whole batch. adds: i
   has the rows before added.  */
static void save_table (int64_t from, bool adds)
{
    graph_t g = { .ways = 0 };
    whole (&g, "i", INTS (-1, 2));
    Onnx__TensorProto *t =
        tensor (&g, "table", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 2, (int64_t[]){ 5, 3 });
    t->n_float_data = 15;
    t->float_data = take (&g, 15, 4);
    for (int k = 0; k < 15; k++)
        t->float_data[k] = (float) k / 8;
    add_tensor (&g, t);
    number (&g, "from", 0, &from);
    number (&g, "flat", 1, (int64_t[]){ -1 });
    number (&g, "back", 3, (int64_t[]){ -1, 2, 3 });
    if (adds) {
        number (&g, "axis", 0, (int64_t[]){ 0 });
        node (&g, "CumSum", "i axis", "sum");
    }
    node (&g, "Sub", adds ? "sum from" : "i from", "k");
    node (&g, "Reshape", "k flat", "list");
    node (&g, "Gather", "table list", "some");
    node (&g, "Reshape", "some back", "y");
    output (&g, "y", INTS (-1, 2, 3));
    save_graph (&g);
}

static void a_patch_of_a_batch_is_held_alone (void **state)
{
    enum { PATCHES = 300 };
    for (int64_t from = 0; from <= 10; from += 10) { /* 10: zeros are no indices */
        save_table (from, false);
        wm_model_t *model = imported (NULL);
        for (int threads = 1; threads <= 3; threads += 2) {
            static float patch[PATCHES][2], scores[PATCHES][6];
            static uint8_t status[PATCHES];
            wm_device_t *device = opened (model, threads);
            for (uint32_t n = 1; n <= PATCHES; n += n < 3 ? 1 : 99) {
                for (uint32_t k = 0; k < n; k++) {
                    patch[k][0] = (float) (from + k % 10) - 5;
                    patch[k][1] = k % 7 == 3    ? (float) (from + 5)
                                  : k % 11 == 4 ? -0x1p40f
                                                : (float) (from + k % 5);
                }
                const wm_batch_t batch = {
                    .kind = WM_BATCH_PATCHES, .n_hit = n, .patch_values = 2, .patch = patch[0]
                };
                if (wm_device_score (device, &batch, status, scores[0], &error))
                    fail_msg ("%s", error.text);
                for (uint32_t k = 0; k < n; k++) {
                    const bool bad = k % 7 == 3 || k % 11 == 4;
                    assert_int_equal (status[k], bad ? WM_HIT_HELD : WM_HIT_SCORED);
                    for (uint32_t c = 0; c < 6; c++) {
                        const uint32_t row = k % 5; /* and k % 10 - 5 is the same row */
                        if (bad)
                            assert_true (isnan (scores[k][c]));
                        else
                            assert_float_equal (scores[k][c], (float) (row * 3 + c % 3) / 8, 0);
                    }
                }
            }
            wm_device_destroy (&device);
        }
        wm_model_destroy (&model);
    }
}

/* A model that adds the indices of a batch together.  */
static void patches_that_spoil_each_other_are_refused (void **state)
{
    char why[480];
    save_table (0, true);
    assert_int_equal (wm_import (onnx_path, NULL, wmm_path, why, &error), WM_EBATCH);
    if (!strstr (error.text, "node 'sum' (CumSum) makes the scores of a patch depend on the other"))
        fail_msg ("%s", error.text);
}

/* x (1, n), i (1, a), j (1, b), u (1, c) -> y, z: x with the first values of u at i, of x at j.  */
static wm_model_t *ragged_model (void)
{
    graph_t g = { .ways = 0 };
    input (&g, "x", INTS (1, -1));
    whole (&g, "i", INTS (1, -1));
    input (&g, "u", INTS (1, -1));
    whole (&g, "j", INTS (1, -1));
    input (&g, "v", INTS (1, -1));
    for (int k = 0; k < 2; k++)
        set_int (&g, node (&g, "ScatterElements", k ? "x j v" : "x i u", k ? "z" : "y"), "axis", 1);
    output (&g, "y", INTS (1, -1));
    output (&g, "z", INTS (1, -1));
    save_graph (&g);
    return imported (NULL);
}

/* Sizes of x, i, u, j, v; the indices are 0, 1, ... from these on.  */
static uint32_t ragged_row (float *row, const uint32_t *size, float from)
{
    wm_ragged_t t[5];
    for (int k = 0; k < 5; k++)
        t[k] = (wm_ragged_t){ .n_dim = 1, .dim = { size[k] } };
    const uint32_t n = wm_ragged_begin (row, 200, 5, t);
    for (uint32_t k = 0; k < 5; k++)
        for (uint32_t e = 0; e < size[k]; e++)
            row[t[k].at + e] = k == 1 || k == 3 ? (float) e + from : (float) (10 * k + e);
    return n;
}

typedef struct {
    uint32_t size[5];
    float from;
    const char *text; /* of a refusal, or NULL */
} given_t;

static const given_t given[] = {
    { { 3, 2, 2, 1, 1 }, 0, NULL },
    { { 3, 2, 2, 1, 1 }, 2, "'i' of node 'y' (ScatterElements): 3 lies outside -3 to 2" },
    { { 3, 2, 2, 1, 1 }, -4, "'i' of node 'y' (ScatterElements): -4 lies outside -3 to 2" },
    { { 7, 5, 4, 3, 3 }, 0, "OpenVINO cannot compute it" },
    { { 7, 5, 5, 3, 3 }, 0, NULL }, /* the sizes that the row before left half way */
    { { 0, 1, 1, 0, 0 }, 0, "(ScatterElements): its table is empty" },
    { { 0, 0, 0, 0, 0 }, 0, NULL },
    { { 7, 3, 3, 4, 6 }, 0, "OpenVINO cannot compute it" },
    { { 7, 5, 5, 6, 6 }, 0, NULL },
    { { 4, 0, 0, 4, 4 }, -4, NULL },
};
enum { GIVEN = sizeof given / sizeof *given, ROUNDS = 4 };

static void check_ragged (const given_t *one, uint8_t status, const float *scores)
{
    char text[400];
    wm_ragged_t t[WM_RAGGED_TENSORS_MAX];
    uint32_t n;
    assert_int_equal (status, one->text ? WM_HIT_HELD : WM_HIT_SCORED);
    assert_null (wm_ragged_read (scores, (size_t) scores[0], &n, t));
    if (one->text) {
        wm_ragged_refusal (scores, (size_t) scores[0], text, sizeof text);
        if (!strstr (text, one->text))
            fail_msg ("no '%s' in: %s", one->text, text);
        return;
    }
    const uint32_t size = one->size[0], first = one->from < 0 ? size - 4 : 0;
    for (uint32_t o = 0; o < 2; o++) {
        assert_int_equal (t[o].dim[0], size);
        for (uint32_t e = 0; e < size; e++) {
            const bool is_set = e >= first && e < first + one->size[o ? 3 : 1];
            assert_float_equal (scores[t[o].at + e],
                                (float) (is_set ? 20 * (o + 1) + e - first : e), 0);
        }
    }
}

/* Rows one by one, and all of them under way at once.  */
static void ragged_rows_leave_nothing_behind (void **state)
{
    static float row[ROUNDS * GIVEN][200], *scores[ROUNDS * GIVEN];
    static uint8_t statuses[ROUNDS * GIVEN];
    wm_batch_t batch[ROUNDS * GIVEN];
    const wm_batch_t *batches[ROUNDS * GIVEN];
    uint8_t *status[ROUNDS * GIVEN];
    wm_model_t *model = ragged_model ();
    for (uint32_t k = 0; k < ROUNDS * GIVEN; k++) {
        const given_t *one = &given[k % GIVEN];
        batch[k] = (wm_batch_t){ .kind = WM_BATCH_PATCHES,
                                 .n_hit = 1,
                                 .patch_values = ragged_row (row[k], one->size, one->from),
                                 .patch = row[k] };
        batches[k] = &batch[k];
        status[k] = &statuses[k];
        scores[k] = malloc (WM_RAGGED_BYTES);
        assert_non_null (scores[k]);
    }
    for (int threads = 1; threads <= 3; threads++) {
        wm_device_t *device = opened (model, threads);
        for (uint32_t k = 0; k < GIVEN; k++) {
            if (wm_device_score (device, batches[k], status[k], scores[k], &error))
                fail_msg ("%s", error.text);
            check_ragged (&given[k % GIVEN], statuses[k], scores[k]);
        }
        if (wm_device_score_many (device, ROUNDS * GIVEN, batches, status, scores, &error))
            fail_msg ("%s", error.text);
        for (uint32_t k = 0; k < ROUNDS * GIVEN; k++)
            check_ragged (&given[k % GIVEN], statuses[k], scores[k]);
        wm_device_destroy (&device);
    }
    for (uint32_t k = 0; k < ROUNDS * GIVEN; k++)
        free (scores[k]);
    wm_model_destroy (&model);
}

/* ---------------------------------------------------------------------------------------------- */

static int clear_guard (void **state)
{
    wm_guard_destroy (&guard);
    return 0;
}

int main (void)
{
    const struct CMUnitTest plain[] = { cmocka_unit_test (only_what_a_patch_decides),
                                        cmocka_unit_test (indices_are_shared),
                                        cmocka_unit_test (which_index_and_why),
                                        cmocka_unit_test (constant_pads),
                                        cmocka_unit_test (what_cannot_be_guarded),
                                        cmocka_unit_test (frozen_graphs),
                                        cmocka_unit_test (damaged_files) },
                            engine[] = { cmocka_unit_test (a_patch_of_a_batch_is_held_alone),
                                         cmocka_unit_test (
                                             patches_that_spoil_each_other_are_refused),
                                         cmocka_unit_test (ragged_rows_leave_nothing_behind) };
    const int failed = cmocka_run_group_tests (plain, NULL, clear_guard);
    wm_error_t lack;
    if (failed || !wm_device_is_here ("openvino", &lack))
        return failed;
    return cmocka_run_group_tests (engine, make_folder, remove_folder);
}
