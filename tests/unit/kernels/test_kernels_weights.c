/* test_kernels_weights.c - weights whose encoding is damaged or not known are refused by name.

   In an initializer, in a Constant, and in a graph inside a node. (Those that are right:
   golden/weights.t.)  */
#include "tests/unit/family_graph.h"

typedef void change_t (graph_t *g, Onnx__TensorProto *t);

static void bytes (graph_t *g, Onnx__TensorProto *t, size_t n)
{
    t->has_raw_data = 1;
    t->raw_data = (ProtobufCBinaryData){ n, take (g, n, 1) };
}
/* n entries of int32_data, the last one `last`.  */
static void whole (graph_t *g, Onnx__TensorProto *t, int type, size_t n, int32_t last)
{
    t->data_type = type;
    t->n_int32_data = n;
    t->int32_data = take (g, n, sizeof *t->int32_data);
    t->int32_data[n - 1] = last;
}
static void both (graph_t *g, Onnx__TensorProto *t)
{
    bytes (g, t, 8);
    whole (g, t, 16, 4, 0);
}
static void other_list (graph_t *g, Onnx__TensorProto *t)
{
    whole (g, t, 1, 4, 0);
}
static void short_bytes (graph_t *g, Onnx__TensorProto *t)
{
    t->data_type = 16;
    bytes (g, t, 7);
}
static void long_bytes (graph_t *g, Onnx__TensorProto *t)
{
    t->data_type = 17;
    bytes (g, t, 5);
}
static void nothing (graph_t *g, Onnx__TensorProto *t)
{
    t->data_type = 16;
}
static void short_list (graph_t *g, Onnx__TensorProto *t)
{
    whole (g, t, 16, 3, 0);
}
static void long_nibbles (graph_t *g, Onnx__TensorProto *t)
{
    whole (g, t, 22, 4, 0); /* two each: there should be two */
}
static void beyond_16 (graph_t *g, Onnx__TensorProto *t)
{
    whole (g, t, 10, 4, 65536);
}
static void beyond_8 (graph_t *g, Onnx__TensorProto *t)
{
    whole (g, t, 3, 4, -129);
}
static void beyond_32 (graph_t *g, Onnx__TensorProto *t)
{
    t->data_type = 12;
    t->n_uint64_data = 4;
    t->uint64_data = take (g, 4, 8);
    t->uint64_data[2] = UINT64_MAX;
}
static void complex_numbers (graph_t *g, Onnx__TensorProto *t)
{
    t->data_type = 14;
    t->n_float_data = 8;
    t->float_data = take (g, 8, 4);
}
static void unknown (graph_t *g, Onnx__TensorProto *t)
{
    t->data_type = 77;
    bytes (g, t, 4);
}
static void segment (graph_t *g, Onnx__TensorProto *t)
{
    t->segment = take (g, 1, sizeof *t->segment);
    onnx__tensor_proto__segment__init (t->segment);
    bytes (g, t, 16);
}
static void empty (graph_t *g, Onnx__TensorProto *t)
{
    t->dims[0] = 0;
}
static void huge (graph_t *g, Onnx__TensorProto *t)
{
    t->dims[0] = INT64_MAX / 2;
    bytes (g, t, 16);
}
static void text_in_bytes (graph_t *g, Onnx__TensorProto *t)
{
    t->data_type = 8;
    bytes (g, t, 16);
}

static const struct {
    change_t *change;
    const char *text;
} table[] = {
    { both, "has data in two fields" },
    { other_list, "is of type FLOAT and has its data in the field of another type" },
    { text_in_bytes, "is of type STRING and has its data in the field of another type" },
    { short_bytes, "does not have the data of its shape and type" },
    { long_bytes, "does not have the data of its shape and type" },
    { nothing, "does not have the data of its shape and type" },
    { short_list, "does not have the data of its shape and type" },
    { long_nibbles, "does not have the data of its shape and type" },
    { huge, "does not have the data of its shape and type" },
    { beyond_16, "has 65536 as element 3, beyond its type FLOAT16" },
    { beyond_8, "has -129 as element 3, beyond its type INT8" },
    { beyond_32, "has -1 as element 2, beyond its type UINT32" },
    { complex_numbers, "is of type 14, COMPLEX64, which no engine computes" },
    { unknown, "is of type 77, which no engine computes" },
    { segment, "is one segment of a larger one" },
    { empty, "which OpenVINO takes for a number" },
};

/* A tensor of four elements.  */
static Onnx__TensorProto *four (graph_t *g, const char *name, change_t *change)
{
    Onnx__TensorProto *t = take (g, 1, sizeof *t);
    onnx__tensor_proto__init (t);
    t->name = copy (g, name);
    t->has_data_type = 1;
    t->data_type = 1;
    t->n_dims = 1;
    t->dims = take (g, 1, sizeof *t->dims);
    t->dims[0] = 4;
    change (g, t);
    return t;
}

/* As an initializer, as a Constant's value, and inside a graph of If.  */
static void encodings (void **state)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int where = 0; where < 3; where++) {
            graph_t g = family (0);
            Onnx__TensorProto *t = four (&g, where == 1 ? "" : "extra", table[i].change);
            Onnx__GraphProto *inner = take (&g, 1, sizeof *inner);
            onnx__graph_proto__init (inner);
            Onnx__NodeProto *n =
                node (&g, where == 2 ? "If" : "Constant", "", where == 2 ? "of" : "extra");
            if (where == 0) {
                g.n_node--;
                g.tensor[g.n_tensor++] = t;
                node (&g, "Exp", "extra", "of");
            } else if (where == 1) {
                attribute (&g, n, "value")->t = t;
                node (&g, "Exp", "extra", "of");
            } else {
                Onnx__NodeProto *reader = node (&g, "Exp", "extra", "inside");
                g.n_node--;
                inner->n_node = inner->n_initializer = 1;
                inner->node = take (&g, 1, sizeof *inner->node);
                inner->initializer = take (&g, 1, sizeof *inner->initializer);
                inner->node[0] = reader;
                inner->initializer[0] = t;
                attribute (&g, n, "then_branch")->g = inner;
            }
            save_graph (&g);
            check_refused (table[i].text);
        }
}

/* ---- sparse ---------------------------------------------------------------------------------- */

static const struct {
    int64_t index[4]; /* of two values in (2, 3) */
    size_t rank;
    const char *text; /* NULL: it is right */
} sparse[] = {
    { { 1, 4 }, 1, NULL },
    { { 0, 1, 1, 2 }, 2, NULL },
    { { 1, 6 }, 1, "lies outside its shape" },
    { { -1, 4 }, 1, "lies outside its shape" },
    { { 0, 3, 1, 2 }, 2, "lies outside its shape" },
    { { 4, 4 }, 1, "comes twice" },
    { { 1, 4 }, 3, "do not fit its values and shape" },
};

/* The file with one sparse initializer, two values of a matrix.  */
static uint8_t *with_sparse (graph_t *g, const int64_t *index, size_t rank, size_t *size)
{
    size_t n;
    uint8_t *before = packed (g, &n), *after;
    Onnx__ModelProto *model = onnx__model_proto__unpack (NULL, n, before);
    Onnx__SparseTensorProto *s = take (g, 1, sizeof *s), *list[] = { s };
    Onnx__TensorProto *value = take (g, 1, sizeof *value), *at = take (g, 1, sizeof *at);
    assert_non_null (model);
    onnx__sparse_tensor_proto__init (s);
    onnx__tensor_proto__init (value);
    onnx__tensor_proto__init (at);
    *s = (Onnx__SparseTensorProto){
        .base = s->base, .values = value, .indices = at, .n_dims = 2, .dims = (int64_t[]){ 2, 3 }
    };
    value->name = copy (g, "thin");
    value->has_data_type = at->has_data_type = 1;
    value->data_type = 1, at->data_type = 7;
    value->n_dims = 1, value->dims = (int64_t[]){ 2 };
    value->n_float_data = 2, value->float_data = (float[]){ 5, -7 };
    at->n_dims = rank == 1 ? 1 : 2;
    at->dims = (int64_t[]){ 2, (int64_t) rank };
    at->n_int64_data = 2 * rank;
    at->int64_data = take (g, 2 * rank, 8);
    memcpy (at->int64_data, index, (rank > 2 ? 2 : 2 * rank) * sizeof *index);
    model->graph->n_sparse_initializer = 1;
    model->graph->sparse_initializer = list;
    *size = onnx__model_proto__get_packed_size (model);
    after = malloc (*size);
    assert_non_null (after);
    onnx__model_proto__pack (model, after);
    model->graph->n_sparse_initializer = 0;
    model->graph->sparse_initializer = NULL;
    onnx__model_proto__free_unpacked (model, NULL);
    free (before);
    return after;
}

static void sparse_tensors (void **state)
{
    for (size_t i = 0; i < sizeof sparse / sizeof *sparse; i++) {
        graph_t g = family (0);
        size_t size;
        wm_error_t error = { 0 };
        wm_onnx_t onnx;
        uint8_t *file = with_sparse (&g, sparse[i].index, sparse[i].rank, &size);
        wm_fault_t fault = wm_onnx_lend (&onnx, "m", file, size, &error);
        if (!fault)
            fault = wm_onnx_read (&onnx, NULL, &error);
        if (!sparse[i].text) {
            static const float want[] = { 0, 5, 0, 0, -7, 0 };
            const int64_t v = wm_onnx_find (&onnx, "thin");
            assert_int_equal (fault, WM_OK);
            assert_true (v >= 0 && onnx.gathered);
            const Onnx__TensorProto *t = onnx.value[v].initializer;
            if (sparse[i].rank == 2) {
                static const float two[] = { 0, 5, 0, 0, 0, -7 };
                assert_memory_equal (t->raw_data.data, two, sizeof two);
            } else
                assert_memory_equal (t->raw_data.data, want, sizeof want);
        } else if (fault != WM_EBATCH || !strstr (error.text, sparse[i].text))
            fail_msg ("no '%s' in: %s", sparse[i].text, error.text);
        wm_onnx_clear (&onnx);
        free (file);
        wm_arena_clear (&g.arena);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (encodings),
        cmocka_unit_test (sparse_tensors),
    };
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
