/* test_gateway_classify.c - the classification extension: order, ties, NaN, text of every type,
   labels, rows.  */
#include "producer/serving/wm_classify.h"
#include "tests/unit/unit.h"

#include <czmq.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static wm_labels_t *labels;

/* A tensor of these values, as an answer has it.  */
static wm_kserve_tensor_t tensor_of (wm_type_t type, uint32_t n_dim, int64_t rows, int64_t columns,
                                     const void *data)
{
    wm_kserve_tensor_t tensor = { .type = type, .n_dim = n_dim, .dim = { rows, columns } };
    tensor.bytes = (size_t) rows * (n_dim > 1 ? (size_t) columns : 1) * wm_type_bytes (type);
    uint8_t *copy = malloc (tensor.bytes + 1);
    if (tensor.bytes)
        memcpy (copy, data, tensor.bytes);
    tensor.data = copy;
    return tensor;
}

static uint32_t n_slice;

/* In slices of little work.  */
static void classify (wm_kserve_tensor_t *tensor, bool by_row, uint32_t k, const wm_labels_t *by)
{
    wm_ranking_t ranking = { 0 };
    n_slice = 1;
    for (size_t left = 100; wm_classify (&ranking, tensor, by_row, k, by, &left); left = 100)
        n_slice++;
    assert_null (ranking.index);
}

/* Its ranking as one text, with a blank behind each class. Frees it.  */
static const char *ranked (wm_kserve_tensor_t tensor, bool by_row, uint32_t k)
{
    static char text[1 << 20];
    const size_t lists = by_row ? (size_t) tensor.dim[0] : 1;
    const size_t n_all = tensor.bytes / wm_type_bytes (tensor.type);
    const size_t most =
        wm_classify_bytes (tensor.type, lists, lists ? n_all / lists : 0, k, labels);
    size_t n = 0;
    classify (&tensor, by_row, k, labels);
    assert_int_equal (tensor.type, WM_TYPE_BYTES);
    assert_true (tensor.bytes <= most);
    for (size_t at = 0; at < tensor.bytes;) {
        uint32_t length;
        memcpy (&length, tensor.data + at, sizeof length);
        memcpy (text + n, tensor.data + at + sizeof length, length);
        at += sizeof length + length;
        n += length;
        text[n++] = ' ';
    }
    text[n] = 0;
    free ((void *) (uintptr_t) tensor.data);
    return text;
}

#define RANKED(type, values, k)                                                                    \
    ranked (tensor_of (type, 1, sizeof values / sizeof *values, 0, values), false, k)

/* As Triton prints scores of each type; the extremes too.  */
static void test_types (void **state)
{
    const float single[] = { 1.5f, -3.25f, 0.1f, 3e38f };
    const double real[] = { 1e300, -0.0, 1e-7 };
    const int8_t bytes[] = { -128, 127, -1, 0 };
    const uint8_t naturals[] = { 0, 255, 7 };
    const int16_t shorts[] = { -32768, 32767 };
    const uint16_t halves[] = { 65535, 1 };
    const int32_t words[] = { INT32_MIN, INT32_MAX };
    const uint32_t large[] = { UINT32_MAX, 0 };
    const int64_t longs[] = { (INT64_C (1) << 53) + 1, INT64_MIN, INT64_C (1) << 53 };
    const uint64_t all[] = { UINT64_MAX - 1, UINT64_MAX };
    assert_string_equal (
        RANKED (WM_TYPE_FP32, single, 9),
        "300000000549775575777803994281145270272.000000:3 1.500000:0 0.100000:2 -3.250000:1 ");
    assert_non_null (strstr (RANKED (WM_TYPE_FP64, real, 9), "0.000000:2 -0.000000:1 "));
    assert_string_equal (RANKED (WM_TYPE_INT8, bytes, 9), "127:1 0:3 -1:2 -128:0 ");
    assert_string_equal (RANKED (WM_TYPE_UINT8, naturals, 2), "255:1 7:2 ");
    assert_string_equal (RANKED (WM_TYPE_INT16, shorts, 1), "32767:1 ");
    assert_string_equal (RANKED (WM_TYPE_UINT16, halves, 1), "65535:0 ");
    assert_string_equal (RANKED (WM_TYPE_INT32, words, 2), "2147483647:1 -2147483648:0 ");
    assert_string_equal (RANKED (WM_TYPE_UINT32, large, 2), "4294967295:0 0:1 ");
    assert_string_equal (RANKED (WM_TYPE_INT64, longs, 3),
                         "9007199254740993:0 9007199254740992:2 -9223372036854775808:1 ");
    assert_string_equal (RANKED (WM_TYPE_UINT64, all, 2),
                         "18446744073709551615:1 18446744073709551614:0 ");
    for (wm_type_t type = 0; type <= WM_TYPES; type++)
        assert_int_equal (wm_classify_has (type), type != WM_TYPE_BOOL && type != WM_TYPE_FP16 &&
                                                      type != WM_TYPE_BF16 && type < WM_TYPE_BYTES);
}

/* Equal scores by their index; NaN behind all, -inf too.  */
static void test_order (void **state)
{
    const float value[] = { NAN, 2, -INFINITY, 2, NAN, INFINITY, 2, 0.0f, -0.0f };
    assert_string_equal (RANKED (WM_TYPE_FP32, value, 9),
                         "inf:5 2.000000:1 2.000000:3 2.000000:6 0.000000:7 -0.000000:8 -inf:2 "
                         "nan:0 nan:4 ");
    assert_string_equal (RANKED (WM_TYPE_FP32, value, 3), "inf:5 2.000000:1 2.000000:3 ");
}

static const float *compared; /* by qsort */

static int compare (const void *a, const void *b)
{
    const int i = *(const int *) a, j = *(const int *) b;
    return compared[i] > compared[j] || compared[j] > compared[i]
               ? (compared[i] < compared[j]) - (compared[i] > compared[j])
               : i - j;
}

/* Many values with many ties, and every k: as a sort of all of them.  */
static void test_any (void **state)
{
    enum { N = 100 };
    float value[N];
    for (unsigned seed = 1; seed <= 20; seed++) {
        int index[N];
        srand (seed);
        for (int i = 0; i < N; i++) {
            index[i] = i;
            value[i] = (float) (rand () % 40);
        }
        compared = value;
        qsort (index, N, sizeof *index, compare);
        for (uint32_t k = 0; k <= N; k++) {
            char want[N * 32] = "";
            size_t n = 0;
            for (uint32_t i = 0; i < k; i++)
                n += (size_t) sprintf (want + n, "%f:%d ", (double) value[index[i]], index[i]);
            assert_string_equal (RANKED (WM_TYPE_FP32, value, k), want);
        }
    }
}

static void test_rows (void **state)
{
    const int32_t value[] = { 1, 3, 2, 30, 10, 20 };
    wm_kserve_tensor_t tensor = tensor_of (WM_TYPE_INT32, 2, 2, 3, value);
    assert_string_equal (ranked (tensor, true, 2), "3:1 2:2 30:0 20:2 ");
    assert_true (n_slice > 4); /* a text takes more than a slice */
    tensor = tensor_of (WM_TYPE_INT32, 2, 2, 3, value);
    assert_string_equal (ranked (tensor, false, 2), "30:3 20:5 ");
    tensor = tensor_of (WM_TYPE_INT32, 2, 2, 3, value);
    classify (&tensor, true, 9, NULL);
    assert_true (tensor.n_dim == 2 && tensor.dim[0] == 2 && tensor.dim[1] == 3);
    free ((void *) (uintptr_t) tensor.data);
    tensor = tensor_of (WM_TYPE_INT32, 2, 2, 3, value);
    classify (&tensor, false, 4, NULL);
    assert_true (tensor.n_dim == 1 && tensor.dim[0] == 4);
    free ((void *) (uintptr_t) tensor.data);
    tensor = tensor_of (WM_TYPE_INT32, 2, 0, 3, NULL);
    classify (&tensor, true, 2, NULL);
    assert_true (tensor.n_dim == 2 && tensor.dim[0] == 0 && tensor.dim[1] == 2 && !tensor.bytes);
    free ((void *) (uintptr_t) tensor.data);
    tensor = tensor_of (WM_TYPE_INT32, 1, 2, 0, value); /* rows of one value without dimensions */
    assert_string_equal (ranked (tensor, true, 5), "1:0 3:0 ");
}

static void write_labels (const char *path, const char *text)
{
    FILE *to = fopen (path, "w");
    assert_non_null (to);
    fputs (text, to);
    fclose (to);
}

static void test_labels (void **state)
{
    const char *path = "labels.txt";
    const int32_t value[] = { 5, 4, 3, 2 };
    wm_error_t error;
    char folder[] = "/tmp/wm-classify-XXXXXX";
    assert_non_null (mkdtemp (folder));
    assert_int_equal (chdir (folder), 0);
    write_labels (path, "a:b\r\n\r\n c d \n");
    labels = wm_labels_read (path, &error);
    assert_non_null (labels);
    assert_int_equal (labels->n, 3);
    assert_int_equal (labels->longest, 5);
    assert_string_equal (RANKED (WM_TYPE_INT32, value, 4), "5:0:a:b 4:1 3:2: c d  2:3 ");
    wm_labels_destroy (&labels);
    write_labels (path, "");
    labels = wm_labels_read (path, &error);
    assert_non_null (labels);
    assert_string_equal (RANKED (WM_TYPE_INT32, value, 1), "5:0 ");
    wm_labels_destroy (&labels);
    write_labels (path, "good\nb\xff\n");
    assert_null (wm_labels_read (path, &error));
    assert_string_equal (error.text, "labels.txt:2: the label is not UTF-8");
    assert_null (wm_labels_read ("nothing.txt", &error));
    assert_int_equal (error.fault, WM_EBATCH);
    unlink (path);
    rmdir (folder);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (test_types),
                                        cmocka_unit_test (test_order), cmocka_unit_test (test_any),
                                        cmocka_unit_test (test_rows),
                                        cmocka_unit_test (test_labels) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
