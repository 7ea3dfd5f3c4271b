/* test_gateway_json.c - numbers of tensors in JSON: cut out of a request, read and printed.  */
#include "producer/serving/wm_infer.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text with ' for ", in memory of exactly its size.  */
static char *exact (const char *text, size_t *n)
{
    *n = strlen (text);
    char *copy = malloc (*n + 1);
    for (size_t i = 0; i < *n; i++)
        copy[i] = text[i] == '\'' ? '"' : text[i];
    return realloc (copy, *n ? *n : 1);
}

static void cuts (const char *text, const char *wanted, const char *first, const char *second)
{
    wm_json_data_t data[2];
    const char *const part[2] = { first, second };
    size_t n, bytes;
    char *copy = exact (text, &n), *left = wm_json_skeleton (copy, n, 1000, data, 2, &bytes);
    assert_non_null (left);
    if (bytes != strlen (wanted) || memcmp (left, wanted, bytes) != 0)
        fail_msg ("%s: %.*s", text, (int) bytes, left);
    for (int i = 0; i < 2; i++) {
        assert_int_equal (data[i].text != NULL, part[i] != NULL);
        if (part[i]) {
            assert_int_equal (data[i].bytes, strlen (part[i]));
            assert_memory_equal (data[i].text, part[i], data[i].bytes);
        }
    }
    free (left);
    free (copy);
}

static void test_skeleton (void **state)
{
    cuts ("", "", NULL, NULL);
    cuts ("{'inputs':[{'data':[1, [2]],'b':3},{'data' : [] }]}",
          "{\"inputs\":[{\"data\":true,\"b\":3},{\"data\" : true }]}", "[1, [2]]", "[]");
    /* not of an input: at other depths, under other names, behind other keys */
    cuts ("{'data':[1],'other':[{'data':[1]}],'inputs':[[{'data':[1]}]]}",
          "{\"data\":[1],\"other\":[{\"data\":[1]}],\"inputs\":[[{\"data\":[1]}]]}", NULL, NULL);
    cuts ("{'inputs':[{'x':{'data':[1]},'dat':[2]}]}",
          "{\"inputs\":[{\"x\":{\"data\":[1]},\"dat\":[2]}]}", NULL, NULL);
    cuts ("{'a':'inputs',[{'data':'data',[1]}]}", "{\"a\":\"inputs\",[{\"data\":\"data\",[1]}]}",
          NULL, NULL);
    /* texts with marks in them; ends that are missing; a third input */
    cuts ("{'\\'{[':1,'inputs':[{'data':[']\\']',1]}]}",
          "{\"\\\"{[\":1,\"inputs\":[{\"data\":true}]}", "[\"]\\\"]\",1]", NULL);
    cuts ("{'inputs':[{'data':[1,2}]}", "{\"inputs\":[{\"data\":true}", "[1,2}]", NULL);
    cuts ("{'inputs':[{'data':['a", "{\"inputs\":[{\"data\":[\"a", NULL, NULL);
    cuts ("{'inputs':[{'data':[1]},{'data':[2]},{'data':[3]}]}",
          "{\"inputs\":[{\"data\":true},{\"data\":true},{\"data\":[3]}]}", "[1]", "[2]");
    wm_json_data_t data;
    size_t bytes;
    char many[2000];
    memset (many, '[', sizeof many);
    assert_null (wm_json_skeleton (many, sizeof many, 1000, &data, 1, &bytes));
    /* what is cut out does not count */
    memcpy (many, "{\"inputs\":[{\"data\":[", 20);
    memset (many + 20, ' ', sizeof many - 21);
    many[sizeof many - 1] = ']';
    char *left = wm_json_skeleton (many, sizeof many, 1000, &data, 1, &bytes);
    assert_int_equal (bytes, 23);
    free (left);
}

/* Reads values by slices of so many characters. Returns the state; *left: values not read.  */
static wm_json_state_t reads (const char *text, wm_type_t type, void *to, size_t n, size_t slice,
                              size_t *left)
{
    size_t bytes;
    char *copy = exact (text, &bytes);
    uint8_t *exactly = malloc (n * 8 + 1);
    wm_json_reader_t reader = wm_json_reader ((wm_json_data_t){ copy, bytes }, exactly, n);
    wm_json_state_t state;
    do {
        size_t some = slice;
        state = wm_json_read (&reader, type, &some);
        assert_true (state != WM_JSON_MORE || some < slice);
    } while (state == WM_JSON_MORE);
    *left = reader.left;
    memcpy (to, exactly, n * wm_type_bytes (type));
    free (exactly);
    free (copy);
    return state;
}

static void test_values (void **state)
{
    static const char *const bad[] = {
        "[01]",  "[+1]",    "[.5]",        "[1.]",   "[1e]",         "[1e+]", "[-]",   "[1 2]",
        "[1,]",  "[,1]",    "[1,,2]",      "[]]",    "[[1]",         "[1}",   "[1:2]", "[-NaN]",
        "[nul]", "[nulll]", "[+Infinity]", "[true]", "[-]",          "[--]",  "['1]",  "[1][2]",
        "[0x1]", "[Inf]",   "[1]]",        "[[1],]", "[--Infinity]", "[--1]", "[1-]",  "[tru]",
        "[]1]",  "[[]1]",   "[1[2]]",      "[1]1]",  "[-.1]",
    };
    static const struct {
        const char *text;
        wm_type_t type;
        bool is_fine;
    } edge[] = {
        { "[127,-128]", WM_TYPE_INT8, true },
        { "[128,0]", WM_TYPE_INT8, false },
        { "[0,-129]", WM_TYPE_INT8, false },
        { "[65535,-0]", WM_TYPE_UINT16, true },
        { "[65536,0]", WM_TYPE_UINT16, false },
        { "[0,-1]", WM_TYPE_UINT16, false },
        { "[2147483647,-2147483648]", WM_TYPE_INT32, true },
        { "[2147483648,0]", WM_TYPE_INT32, false },
        { "[9223372036854775807,-9223372036854775808]", WM_TYPE_INT64, true },
        { "[9223372036854775808,0]", WM_TYPE_INT64, false },
        { "[18446744073709551615,0]", WM_TYPE_UINT64, true },
        { "[18446744073709551616,0]", WM_TYPE_UINT64, false },
        { "[1,0]", WM_TYPE_BOOL, true },
        { "[true,false]", WM_TYPE_BOOL, true },
        { "[2,0]", WM_TYPE_BOOL, false },
        { "[1.0,0]", WM_TYPE_INT32, false },
        { "[1e2,0]", WM_TYPE_INT32, false },
        { "[3.4028235e38,-1e-50]", WM_TYPE_FP32, true },
        { "[3.5e38,0]", WM_TYPE_FP32, false },
        { "[1e309,-1e309]", WM_TYPE_FP32, true },
        { "[Infinity,-Infinity]", WM_TYPE_FP64, true },
        { "[NaN,null]", WM_TYPE_FP32, true },
        { "[null,0]", WM_TYPE_INT64, false },
        { "[null,0]", WM_TYPE_BOOL, false },
        { "[1e999,0]", WM_TYPE_INT64, false },
        { "[true,0]", WM_TYPE_FP32, false },
    };
    double value[4];
    size_t left;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t slice = 1; slice < 5; slice++)
            if (reads (bad[i], WM_TYPE_FP64, value, 4, slice, &left) != WM_JSON_BAD)
                fail_msg ("%s is read", bad[i]);
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++)
        if ((reads (edge[i].text, edge[i].type, value, 2, 1, &left) == WM_JSON_DONE) !=
            edge[i].is_fine)
            fail_msg ("%s as %s", edge[i].text, wm_type_name (edge[i].type));
    assert_int_equal (
        reads (" [ [ 1 , 2.5e0 ] , [ -3 , 4E-1 ] ] ", WM_TYPE_FP64, value, 4, 3, &left),
        WM_JSON_DONE);
    assert_true (left == 0 && value[0] == 1 && value[1] == 2.5 && value[2] == -3 &&
                 value[3] == 0.4);
    assert_int_equal (reads ("[null, NaN, 1e999, -Infinity]", WM_TYPE_FP64, value, 4, 1, &left),
                      WM_JSON_DONE);
    assert_true (isnan (value[0]) && isnan (value[1]) && value[2] == INFINITY &&
                 value[3] == -INFINITY);
    float single[2];
    assert_int_equal (reads ("[Infinity, -1e400]", WM_TYPE_FP32, single, 2, 1, &left),
                      WM_JSON_DONE);
    assert_true (single[0] == INFINITY && single[1] == -INFINITY);
    assert_int_equal (reads ("[[], [1]]", WM_TYPE_FP64, value, 4, 1, &left), WM_JSON_DONE);
    assert_int_equal (left, 3);
    assert_int_equal (reads ("[1, 2]", WM_TYPE_FP64, value, 1, 1, &left), WM_JSON_MANY);
    for (size_t depth = 99; depth <= 101; depth++) {
        char nested[256];
        memset (nested, '[', depth);
        nested[depth] = '1';
        memset (nested + depth + 1, ']', depth);
        nested[2 * depth + 1] = 0;
        assert_int_equal (reads (nested, WM_TYPE_FP64, value, 1, 1, &left),
                          depth <= 100 ? WM_JSON_DONE : WM_JSON_BAD);
    }
    char digits[WM_JSON_NUMBER_MAX + 8]; /* 0.333..., of as many characters as are allowed */
    memset (digits, '3', sizeof digits);
    memcpy (digits, "[0.", 3);
    strcpy (digits + 1 + WM_JSON_NUMBER_MAX, "]");
    assert_int_equal (reads (digits, WM_TYPE_FP64, value, 1, 1, &left), WM_JSON_DONE);
    assert_true (value[0] == 1.0 / 3);
    strcpy (digits + 1 + WM_JSON_NUMBER_MAX, "3]");
    assert_int_equal (reads (digits, WM_TYPE_FP64, value, 1, 1, &left), WM_JSON_BAD);
}

static uint64_t next (uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

/* Reads what strtod reads, of numbers as people and programs write them.  */
static void test_nearest (void **state)
{
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 200000; i++) {
        char text[80] = "[";
        const uint64_t bits = next (&seed);
        const int kind = (int) (next (&seed) % 4), digits = (int) (next (&seed) % 20);
        double real, got;
        size_t left;
        memcpy (&real, &bits, 8);
        if (kind == 0)
            real = (double) (int64_t) bits / 1e9;
        if (kind == 1)
            real = (double) (int32_t) bits / 1000;
        if (!isfinite (real))
            continue;
        snprintf (text + 1, 60, kind == 2 ? "%.*e" : "%.*g", digits, real);
        strcat (text, "]");
        const double wanted = strtod (text + 1, NULL);
        if (reads (text, WM_TYPE_FP64, &got, 1, 99, &left) != WM_JSON_DONE ||
            memcmp (&got, &wanted, 8) != 0)
            fail_msg ("%s: %.17g, %.17g", text, got, wanted);
    }
}

/* FP32 and FP64 that are printed and read again have the same bits.  */
static void test_there_and_back (void **state)
{
    uint64_t seed = 1234567;
    for (int i = 0; i < 3000; i++) {
        uint32_t single[16], single_back[16];
        uint64_t real[16], real_back[16];
        for (int k = 0; k < 16; k++) {
            real[k] = next (&seed);
            single[k] = (uint32_t) (real[k] >> 7);
            if (i % 3 == 1) /* subnormal */
                single[k] &= 0x807fffff, real[k] &= 0x800fffffffffffff;
            if ((single[k] & 0x7f800000) == 0x7f800000)
                single[k] ^= 0x40000000;
            if ((real[k] & 0x7ff0000000000000) == 0x7ff0000000000000)
                real[k] ^= 0x4000000000000000;
        }
        wm_kserve_tensor_t output[2] = {
            { "a", WM_TYPE_FP32, 1, { 16 }, (const uint8_t *) single, sizeof single },
            { "b", WM_TYPE_FP64, 1, { 16 }, (const uint8_t *) real, sizeof real },
        };
        const wm_ks_answer_t answer = {
            .model = "m", .version = "1", .output = output, .n_output = 2
        };
        wm_infer_t infer = { .all_json = true, .request = { .id = "" } };
        wm_infer_page_t page;
        wm_ks_error_t error;
        size_t left = SIZE_MAX;
        assert_int_equal (wm_infer_page (&page, &infer, &answer, &error), WM_KS_OK);
        assert_false (wm_infer_write (&page, &left));
        wm_buffer_put (&page.to, "", 1);
        char *a = strstr ((char *) page.to.data, "\"data\":"), *b = strstr (a + 1, "\"data\":");
        strchr (a, ']')[1] = strchr (b, ']')[1] = 0;
        assert_int_equal (reads (a + 7, WM_TYPE_FP32, single_back, 16, 50, &left), WM_JSON_DONE);
        assert_int_equal (reads (b + 7, WM_TYPE_FP64, real_back, 16, 50, &left), WM_JSON_DONE);
        assert_memory_equal (single, single_back, sizeof single);
        assert_memory_equal (real, real_back, sizeof real);
        free (page.to.data);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_skeleton),
        cmocka_unit_test (test_values),
        cmocka_unit_test (test_nearest),
        cmocka_unit_test (test_there_and_back),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
