/* test_schema_ragged.c - ragged rows: they survive writing and reading; hostile ones do not.  */
#include "schema/wm_ragged.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void rows_survive (void **state)
{
    wm_ragged_t given[4] = { { .n_dim = 1, .dim = { 3 } },
                             { .n_dim = 0 },
                             { .n_dim = 2, .dim = { 0, 7 } },
                             { .n_dim = 3, .dim = { 2, 1, 2 } } },
                found[WM_RAGGED_TENSORS_MAX];
    float row[32];
    uint32_t n;
    const uint32_t length = wm_ragged_begin (row, 32, 4, given);
    assert_int_equal (length, 2 + 2 + 1 + 3 + 4 + 3 + 1 + 0 + 4);
    assert_int_equal (wm_ragged_length (row, 32), length);
    assert_null (wm_ragged_read (row, length, &n, found));
    assert_int_equal (n, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal (found[i].n_dim, given[i].n_dim);
        assert_memory_equal (found[i].dim, given[i].dim, sizeof given[i].dim);
        assert_int_equal (found[i].n_value, given[i].n_value);
        assert_int_equal (found[i].at, given[i].at);
    }
    assert_int_equal (found[0].at, 12);
    assert_int_equal (found[3].at + found[3].n_value, length);
    assert_int_equal (wm_ragged_begin (row, length - 1, 4, given), 0); /* no room */
    assert_int_equal (wm_ragged_begin (row, length, 4, given), length);
}

/* A tensor of a type that is carried exactly takes several float32s a value.  */
static void types_survive (void **state)
{
    wm_ragged_t given[3] = { { .n_dim = 1, .dim = { 3 }, .type = 7 }, /* INT64 */
                             { .n_dim = 0, .type = 11 },              /* FP64 */
                             { .n_dim = 2, .dim = { 2, 1 } } },
                found[WM_RAGGED_TENSORS_MAX];
    float row[32];
    uint32_t n;
    const uint32_t length = wm_ragged_begin (row, 32, 3, given);
    assert_int_equal (length, 2 + 2 + 1 + 3 + 9 + 4 + 2);
    assert_null (wm_ragged_read (row, length, &n, found));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal (found[i].type, given[i].type);
        assert_int_equal (found[i].n_dim, given[i].n_dim);
        assert_int_equal (found[i].n_value, given[i].n_value);
        assert_int_equal (found[i].n_float, given[i].n_float);
        assert_int_equal (found[i].at, given[i].at);
    }
    assert_int_equal (found[0].n_float, 9);
    assert_int_equal (found[1].at, found[0].at + 9);
    assert_int_equal (found[2].at, found[1].at + 4);
    assert_int_equal (wm_ragged_begin (row, length - 1, 3, given), 0);
    for (uint32_t type = 1; type < 40; type++) { /* others are no such types */
        row[2] = (float) (16 * type + 1);
        const bool fits = !wm_ragged_read (row, length, &n, found);
        assert_int_equal (fits, type == 7 || type == 13);
    }
    row[2] = 16 * 7 + 1;
    assert_null (wm_ragged_read (row, length, &n, found));
    row[5] = 16 * 1 + 2; /* FP32 is no type of its own */
    assert_non_null (wm_ragged_read (row, length, &n, found));
    wm_ragged_t one = { .n_dim = 1, .dim = { WM_RAGGED_VALUES_MAX / 3 }, .type = 7 };
    assert_int_equal (wm_ragged_begin (row, SIZE_MAX, 1, &one), 0);
    one.dim[0] = (WM_RAGGED_VALUES_MAX - 4) / 3;
    assert_int_equal (wm_ragged_begin (row, SIZE_MAX, 1, &one), 3 * one.dim[0] + 4);
}

static void large_rows_are_refused (void **state)
{
    float row[16];
    wm_ragged_t one = { .n_dim = 1, .dim = { WM_RAGGED_VALUES_MAX - 4 } };
    assert_int_equal (wm_ragged_begin (row, SIZE_MAX, 1, &one), WM_RAGGED_VALUES_MAX);
    one.dim[0]++;
    assert_int_equal (wm_ragged_begin (row, SIZE_MAX, 1, &one), 0);
    one = (wm_ragged_t){ .n_dim = 4, .dim = { 1u << 16, 1u << 16, 1u << 16, 1u << 16 } };
    assert_int_equal (wm_ragged_begin (row, SIZE_MAX, 1, &one), 0); /* 2^64 */
    one = (wm_ragged_t){ .n_dim = 2, .dim = { 0, 1u << 24 } }; /* no value, but no exact size */
    assert_int_equal (wm_ragged_begin (row, SIZE_MAX, 1, &one), 0);
}

/* Whether n values are refused with this word; none of them behind the last is read.  */
static void refused (const float *value, size_t n, const char *word)
{
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    uint32_t n_tensor;
    float *copy = malloc (n * sizeof *copy + 1); /* its end is where the sanitizer's begins */
    memcpy (copy, value, n * sizeof *copy);
    const char *why = wm_ragged_read (copy, n, &n_tensor, tensor);
    if (!why || !strstr (why, word))
        fail_msg ("no '%s' in: %s", word, why ? why : "(fine)");
    free (copy);
}

static void hostile_rows_are_refused (void **state)
{
    const float fine[] = { 7, 2, 1, 1, 0, 5, 6 };
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    uint32_t n;
    assert_null (wm_ragged_read (fine, 7, &n, tensor));
    assert_int_equal (tensor[1].at, 6);
    static const struct {
        int at;
        float value;
        const char *word;
    } bad[] = {
        { 0, 6, "number of values" },
        { 0, 8, "number of values" },
        { 0, NAN, "number of values" },
        { 0, -7, "number of values" },
        { 0, 7.5f, "number of values" },
        { 0, INFINITY, "number of values" },
        { 0, 0x1p24f, "number of val" },
        { 1, 17, "number of tensors" },
        { 1, -1, "number of tensors" },
        { 1, NAN, "number of tensors" },
        { 1, 16, "" },
        { 1, 1, "not what it holds" },
        { 1, 3, "" },
        { 2, 9, "dimensions of a tensor" },
        { 2, 8, "dimensions of a" },
        { 2, .5f, "dimensions of a tensor" },
        { 2, 0, "" },
        { 3, 2, "not what it holds" },
        { 3, 0, "not what it holds" },
        { 3, 8, "larger than the row" },
        { 3, -1, "size of a tensor" },
        { 3, 1e9f, "size of a tensor" },
        { 4, NAN, "dimensions of a" },
        { 4, 1, "" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float row[7];
        memcpy (row, fine, sizeof row);
        row[bad[i].at] = bad[i].value;
        refused (row, 7, bad[i].word);
    }
    for (size_t length = 1; length < 7; length++)
        refused (fine, length, "number of values");
    const float huge[] = { 11, 1, 8, 8e6f, 8e6f, 8e6f, 8e6f, 8e6f, 8e6f, 8e6f, 8e6f };
    refused (huge, 11, "size of a tensor"); /* their product is more than 64 bits hold */
    const float short_one[] = { 2, 1 };
    refused (short_one, 2, "dimensions of a tensor");
    assert_int_equal (wm_ragged_length (fine, 6), 0);
    assert_int_equal (wm_ragged_length (&(float){ 1 }, 9), 0);
}

static void refusals_are_told (void **state)
{
    float row[24];
    char text[40];
    uint32_t n;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    const uint32_t length = wm_ragged_refuse (row, 24, "lengths differ\n");
    assert_int_equal (length, 2 + 15);
    assert_null (wm_ragged_read (row, length, &n, tensor));
    assert_int_equal (n, 0);
    wm_ragged_refusal (row, length, text, sizeof text);
    assert_string_equal (text, "lengths differ?");
    wm_ragged_refusal (row, length, text, 8);
    assert_string_equal (text, "lengths");
    row[4] = NAN, row[5] = -1, row[6] = 1000;
    wm_ragged_refusal (row, length, text, sizeof text);
    assert_string_equal (text, "le???hs differ?");
    assert_int_equal (wm_ragged_refuse (row, 5, "longer than its room"), 5);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (types_survive),          cmocka_unit_test (rows_survive),
        cmocka_unit_test (large_rows_are_refused), cmocka_unit_test (hostile_rows_are_refused),
        cmocka_unit_test (refusals_are_told),
    };
    return cmocka_run_group_tests_name ("schema/ragged", tests, NULL, NULL);
}
