/* test_kernels_onnx.c - ONNX files that are refused: damaged, hostile, or of shapes nobody can
   run.  */
#include "schema/base/wm_file.h"
#include "tests/unit/family_graph.h"

#include <sodium.h>
#include <sys/stat.h>

static float *weights (const graph_t *g)
{
    return (float *) (void *) g->tensor[0]->raw_data.data;
}

static void graphs_refused (void **state)
{
    graph_t g = family (0);
    find (&g, "Conv")->input[0] = copy (&g, "fc");
    save_graph (&g);
    check_refused ("cycle at or before");
    g = family (0);
    find (&g, "Relu")->input[0] = copy (&g, "nowhere");
    save_graph (&g);
    check_refused ("'nowhere', which nothing makes");
    g = family (0);
    node (&g, "Relu", "cls", "fc");
    save_graph (&g);
    check_refused ("'fc' is defined twice");
    g = family (0);
    g.n_node = 0;
    save_graph (&g);
    check_refused ("no graph");
    g = family (0);
    weights (&g)[3] = NAN;
    save_graph (&g);
    check_refused ("convolution layer 1 has a weight that is not finite");
    g = family (0);
    weights (&g)[3] = INFINITY;
    save_graph (&g);
    check_refused ("not finite");
    g = family (0);
    weights (&g)[3] = 3e38f; /* finite, and its products are not */
    save_graph (&g);
    check_refused ("more than float32 holds (3.4e+38): its weights are damaged");
}

static void ports_refused (void **state)
{
    graph_t g = family (0);
    g.n_in = 0;
    input (&g, "patch", INTS (256, H, W, 1));
    save_graph (&g);
    check_refused ("fixed at 256");
    g = family (0);
    g.n_in = 0;
    input (&g, "", INTS (-1, H, W, 1)); /* and "patch" is read */
    save_graph (&g);
    check_refused ("which nothing makes");
    graph_t unread = { .ways = 0 };
    input (&unread, "", INTS (-1, 4));
    node (&unread, "Constant", "", "y");
    output (&unread, "y", INTS (-1, 4));
    save_graph (&unread);
    check_refused ("an input of the graph has no name");
    g = family (0);
    g.in[0] = port (&g, "patch", ONNX__TENSOR_PROTO__DATA_TYPE__STRING, INTS (-1, H, W, 1));
    save_graph (&g);
    check_refused ("not a tensor of numbers");
    g = family (0);
    g.n_in = 0;
    input (&g, "patch", INTS (-1, 65536, 65536, 65536));
    save_graph (&g);
    check_refused ("too large");
    g = family (0);
    g.n_in = 0;
    input (&g, "patch", INTS (-1, 65536, 1025));
    save_graph (&g);
    check_refused ("more than 256 MiB");
    g = family (0);
    g.in[0]->type->tensor_type->shape = NULL;
    save_graph (&g);
    check_refused ("no shape");
    g = family (0);
    behind (&g, "Conv", "Exp", "");
    g.out[1]->type->tensor_type->shape->dim[1]->value_case =
        ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
    save_graph (&g);
    check_refused ("output 'michel'");
}

/* ---- data in other files --------------------------------------------------------------------- */

/* Moves a tensor's values into a file of the model's folder, behind `offset` bytes of something
   else.  */
static void move_out (graph_t *g, Onnx__TensorProto *t, const char *location, size_t offset)
{
    char path[128], number[2][24];
    snprintf (path, sizeof path, "%s/%s", folder, location);
    FILE *file = fopen (path, "wb");
    if (file) {
        fseek (file, (long) offset, SEEK_SET);
        assert_int_equal (fwrite (t->raw_data.data, 1, t->raw_data.len, file), t->raw_data.len);
        fclose (file);
    }
    snprintf (number[0], 24, "%zu", offset);
    snprintf (number[1], 24, "%zu", t->raw_data.len);
    const char *pair[][2] = { { "location", location },
                              { "offset", number[0] },
                              { "length", number[1] },
                              { "checksum", "none" } };
    t->external_data = take (g, 4, sizeof *t->external_data);
    for (size_t i = 0; i < 4; i++) {
        Onnx__StringStringEntryProto *e = t->external_data[i] = take (g, 1, sizeof *e);
        onnx__string_string_entry_proto__init (e);
        e->key = copy (g, pair[i][0]);
        e->value = copy (g, pair[i][1]);
    }
    t->n_external_data = 4;
    t->has_raw_data = 0;
    t->has_data_location = 1;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

static void identity_of (const wm_import_choices_t *choices, bool *alone, char hex[65])
{
    wm_error_t error = { 0 };
    wm_import_t *import = wm_import_open (model_path, choices, NULL, hex, alone, &error);
    if (!import)
        fail_msg ("%s", error.text);
    wm_import_destroy (&import);
}

static void identity (char hex[65])
{
    bool alone;
    identity_of (NULL, &alone, hex);
    assert_false (alone);
}

/* Each choice of its own makes another model of the same file; without one it is the file's.  */
static void choices_are_part_of_the_identity (void **state)
{
    static const wm_import_choices_t choices[] = {
        { .whole = true },
        { .general = true },
        { .whole = true, .general = true },
        { .accept = true },
        { .outputs = "a" },
        { .outputs = "b" },
        { .row_values = 5000 },
        { .row_values = 5001 },
        { .general = true, .outputs = "a" },
        { .exact = true },
        { .whole = true, .accept = true },
        { .general = true, .exact = true },
    };
    enum { N = sizeof choices / sizeof *choices };
    char before[65] = "";
    for (int exact = 0; exact < 2; exact++) { /* exact counts where a type needs it */
        char hex[N][65], again[65], plain[65], file[65];
        bool alone = false;
        graph_t g = family (0);
        if (exact)
            g.in[g.n_in++] =
                port (&g, "number", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 1, &(int64_t){ -1 });
        size_t size;
        uint8_t hash[crypto_hash_sha256_BYTES], *bytes = packed (&g, &size);
        crypto_hash_sha256 (hash, bytes, size);
        sodium_bin2hex (file, sizeof file, hash, sizeof hash);
        free (bytes);
        save_graph (&g);
        identity_of (NULL, &alone, plain);
        assert_string_equal (plain, file);
        assert_true (alone);
        for (int i = 0; i < N; i++) {
            identity_of (&choices[i], NULL, hex[i]);
            identity_of (&choices[i], NULL, again);
            assert_string_equal (hex[i], again);
            if (!strcmp (hex[i], plain) != (i == 9 && !exact))
                fail_msg ("choice %d of %d", i, exact);
            for (int k = 0; k < i; k++)
                assert_true (strcmp (hex[i], hex[k]) || (i == N - 1 && k == 1 && !exact));
        }
        assert_string_not_equal (hex[0], before); /* of another file */
        strcpy (before, hex[0]);
    }
}

/* Weights in files beside the model: the same network; its identity covers them.  */
static void data_beside_the_model (void **state)
{
    char one[65], other[65], path[128];
    for (unsigned ways = 0; ways <= CONSTANTS; ways += CONSTANTS) {
        graph_t g = family (ways);
        if (ways)
            move_out (&g, find (&g, "Constant")->attribute[0]->t, "weights.bin", 0);
        for (size_t i = 0; !ways && i < g.n_tensor; i++) {
            move_out (&g, g.tensor[i], i == 0 ? "weights.bin" : g.tensor[i]->name, i * 64);
        }
        save_graph (&g);
        check_is_family ("data in other files", 2);
        identity (one);
        snprintf (path, sizeof path, "%s/weights.bin", folder);
        FILE *file = fopen (path, "r+b");
        assert_non_null (file);
        fputc (1, file);
        fclose (file);
        identity (other);
        assert_string_not_equal (one, other);
    }
    char command[200];
    snprintf (command, sizeof command, "cd %s && rm -f weights.bin *_w *_b", folder);
    assert_int_equal (system (command), 0);
}

/* The general engine gets one file with everything in it.  */
static void data_beside_a_general_model (void **state)
{
    char why[480], path[128];
    wm_error_t error = { 0 };
    graph_t g = family (0);
    behind (&g, "Relu", "Exp", "");
    size_t whole, size;
    free (packed (&g, &whole));
    move_out (&g, g.tensor[0], "weights.bin", 3);
    save_graph (&g);
    if (wm_import (model_path, NULL, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    const uint8_t *original = wm_model_original (model, &size);
    Onnx__ModelProto *m = onnx__model_proto__unpack (NULL, size, original);
    assert_non_null (m);
    Onnx__TensorProto *t = m->graph->initializer[0];
    assert_int_equal (t->n_external_data, 0);
    assert_int_equal (t->data_location, ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT);
    float want = (float) conv_weight (0, 0, 0);
    assert_memory_equal (t->raw_data.data, &want, 4);
    onnx__model_proto__free_unpacked (m, NULL);
    wm_model_destroy (&model);
    snprintf (path, sizeof path, "%s/weights.bin", folder);
    unlink (path);
}

/* An import never replaces the model's weights, by whatever name.  */
static void data_is_spared (void **state)
{
    static const char *const how[] = { "true", "ln -s weights.bin x_w", "ln -f weights.bin x_w" };
    char why[480], path[128], other[128], command[200], before[65], after[65];
    wm_error_t error = { 0 };
    snprintf (path, sizeof path, "%s/weights.bin", folder);
    snprintf (other, sizeof other, "%s/x_w", folder);
    graph_t g = family (0);
    move_out (&g, g.tensor[0], "weights.bin", 3);
    save_graph (&g);
    assert_int_equal (wm_file_sha256 (path, before, &error), WM_OK);
    for (size_t i = 0; i < 3; i++) {
        snprintf (command, sizeof command, "cd %s && rm -f x_w && %s", folder, how[i]);
        assert_int_equal (system (command), 0);
        const char *target = i ? other : path;
        assert_int_equal (wm_import (model_path, NULL, target, why, &error), WM_EUSAGE);
        assert_non_null (strstr (error.text, "holds the weights of"));
        assert_int_equal (wm_import_here (model_path, NULL, target, why, &error), WM_EUSAGE);
        assert_int_equal (wm_file_sha256 (target, after, &error), WM_OK);
        assert_string_equal (before, after);
    }
    unlink (path);
    unlink (other);
}

static void data_that_is_not_there (void **state)
{
    static const char *const refused[][2] = { { "/etc/passwd", "outside the model's folder" },
                                              { "../../etc/passwd", "outside the model's folder" },
                                              { "link/../weights.bin",
                                                "outside the model's folder" },
                                              { "..", "outside the model's folder" },
                                              { "link", "not a regular file" },
                                              { "pipe", "not a regular file" },
                                              { ".", "not a regular file" },
                                              { "nowhere", "No such file" },
                                              { "", "without a path" } };
    char path[128];
    snprintf (path, sizeof path, "%s/link", folder);
    assert_int_equal (symlink ("/dev/zero", path), 0);
    char pipe[128];
    snprintf (pipe, sizeof pipe, "%s/pipe", folder);
    assert_int_equal (mkfifo (pipe, 0600), 0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        graph_t g = family (0);
        move_out (&g, g.tensor[0], "weights.bin", 0);
        g.tensor[0]->external_data[0]->value = copy (&g, refused[i][0]);
        save_graph (&g);
        check_refused (refused[i][1]);
    }
    unlink (path);
    unlink (pipe);
    static const char *const number[][2] = { { "1", "beyond the end" },
                                             { "18446744073709551615", "beyond the end" },
                                             { "-1", "at no number" },
                                             { "4x", "at no number" } };
    for (size_t i = 0; i < sizeof number / sizeof *number; i++) {
        graph_t g = family (CONSTANTS); /* inside a node's attribute */
        Onnx__TensorProto *t = find (&g, "Constant")->attribute[0]->t;
        move_out (&g, t, "weights.bin", 0);
        t->external_data[1]->value = copy (&g, number[i][0]);
        save_graph (&g);
        check_refused (number[i][1]);
    }
    snprintf (path, sizeof path, "%s/weights.bin", folder);
    unlink (path);
}

/* Data in both places; entries that a writer left behind; no length.  */
static void data_in_two_places (void **state)
{
    char path[128];
    graph_t g = family (0);
    Onnx__TensorProto *t = g.tensor[0];
    move_out (&g, t, "weights.bin", 0);
    t->has_raw_data = 1;
    save_graph (&g);
    check_refused ("and has some itself");
    g = family (0);
    t = g.tensor[0];
    move_out (&g, t, "weights.bin", 0);
    t->has_raw_data = 1;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT;
    t->external_data[0]->value = copy (&g, "/proc/nowhere");
    save_graph (&g);
    check_is_family ("entries that do not count", 2);
    g = family (0);
    move_out (&g, g.tensor[0], "weights.bin", 8);
    snprintf (path, sizeof path, "%s/weights.bin", folder);
    FILE *file = fopen (path, "ab");
    assert_non_null (file);
    fputs ("behind", file);
    fclose (file);
    g.tensor[0]->external_data[2]->key = copy (&g, "other");
    save_graph (&g);
    check_is_family ("no length", 2);
    unlink (path);
}

/* ModelProto.graph = GraphProto.node = NodeProto.attribute = AttributeProto.g = GraphProto ...  */
static void deep_nesting_is_refused (void **state)
{
    static const uint8_t tag[] = { 1 << 3 | 2, 5 << 3 | 2, 6 << 3 | 2 };
    enum { DEPTH = 10000 };
    uint8_t *bytes = malloc (DEPTH * 6);
    assert_non_null (bytes);
    size_t at = DEPTH * 6;
    for (size_t i = DEPTH; i-- > 0;) { /* from the inside out */
        size_t size = DEPTH * 6 - at;
        uint8_t length[5], n = 0;
        do
            length[n++] = (uint8_t) ((size & 127) | (size > 127 ? 128 : 0));
        while (size >>= 7);
        at -= n;
        memcpy (bytes + at, length, n);
        bytes[--at] = i == 0 ? 7 << 3 | 2 : tag[(i - 1) % 3];
    }
    save (bytes + at, DEPTH * 6 - at);
    free (bytes);
    check_refused ("nested more than 32 deep");
}

static void files_that_are_no_models (void **state)
{
    save ((const uint8_t *) "", 0);
    check_refused ("empty");
    save ((const uint8_t *) "\x89HDF\r\n\x1a\n and so on", 18);
    check_refused ("not an ONNX");
    snprintf (model_path, sizeof model_path, "%s", folder);
    check_refused ("not a regular file");
    snprintf (model_path, sizeof model_path, "%s/none", folder);
    char why[480];
    wm_error_t error = { 0 };
    assert_int_equal (wm_import (model_path, NULL, wmm_path, why, &error), WM_EHOST);
    snprintf (model_path, sizeof model_path, "%s/model", folder);
}

/* Cut anywhere: refused, or where only the end of the graph is missing, never the family with other
   scores. A changed byte: anything but a crash, which the sanitizers watch.  */
static void truncated_and_changed_files (void **state)
{
    graph_t g = family (REVERSED | RESHAPE);
    size_t size;
    uint8_t *bytes = packed (&g, &size);
    char why[480];
    wm_error_t error = { 0 };
    for (size_t n = 1; n < size; n += 7) {
        save (bytes, n);
        assert_int_equal (wm_import (model_path, NULL, wmm_path, why, &error), WM_EBATCH);
    }
    uint64_t z = 1;
    for (int i = 0; i < 1000; i++) {
        z = z * 6364136223846793005u + 1442695040888963407u;
        size_t at = (size_t) (z >> 33) % size;
        uint8_t old = bytes[at];
        bytes[at] = (uint8_t) (z >> 20);
        save (bytes, size);
        wm_fault_t fault = wm_import (model_path, NULL, wmm_path, why, &error);
        assert_true (fault == WM_OK || fault == WM_EBATCH);
        bytes[at] = old;
    }
    free (bytes);
    wm_arena_clear (&g.arena);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (graphs_refused),
        cmocka_unit_test (ports_refused),
        cmocka_unit_test (data_beside_the_model),
        cmocka_unit_test (data_beside_a_general_model),
        cmocka_unit_test (data_is_spared),
        cmocka_unit_test (data_that_is_not_there),
        cmocka_unit_test (data_in_two_places),
        cmocka_unit_test (deep_nesting_is_refused),
        cmocka_unit_test (files_that_are_no_models),
        cmocka_unit_test (truncated_and_changed_files),
        cmocka_unit_test (choices_are_part_of_the_identity),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
