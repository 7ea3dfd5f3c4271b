/* test_gateway_signature.c - values of each type to a row and back at the limits of the type, the
   shapes and sizes of requests and answers, and which output and row a refusal names.  */
#include "producer/serving/wm_signature_private.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

static float float_of (uint32_t bits)
{
    float value;
    memcpy (&value, &bits, sizeof value);
    return value;
}

/* A score, and the bits of the value of this type that is nearest to it: by the standards of the
   formats, worked out by hand. Ties go to even.  */
static void scores_become_the_nearest_value (void **state)
{
    static const struct {
        wm_type_t type;
        float score;
        uint64_t bits;
    } list[] = {
        { WM_TYPE_BOOL, 0, 0 },
        { WM_TYPE_BOOL, -0.0f, 0 },
        { WM_TYPE_BOOL, 0.25f, 1 },
        { WM_TYPE_BOOL, -1, 1 },
        { WM_TYPE_BOOL, NAN, 0 },
        { WM_TYPE_UINT8, 255, 255 },
        { WM_TYPE_UINT8, 254.5f, 254 },
        { WM_TYPE_UINT8, 255.5f, 255 },
        { WM_TYPE_UINT8, 256, 255 },
        { WM_TYPE_UINT8, -0.75f, 0 },
        { WM_TYPE_UINT8, NAN, 0 },
        { WM_TYPE_UINT16, 1.5f, 2 },
        { WM_TYPE_UINT16, 65535, 65535 },
        { WM_TYPE_UINT16, 65536, 65535 },
        { WM_TYPE_UINT16, -1, 0 },
        { WM_TYPE_UINT32, 0x1.fffffep31f, 0xffffff00u },
        { WM_TYPE_UINT32, 0x1p32f, UINT32_MAX },
        { WM_TYPE_UINT32, -1, 0 },
        { WM_TYPE_UINT32, 2.5f, 2 },
        { WM_TYPE_UINT64, 0x1.fffffep63f, 0xffffff0000000000u },
        { WM_TYPE_UINT64, 0x1p64f, 0xffffff0000000000u },
        { WM_TYPE_UINT64, -1, 0 },
        { WM_TYPE_UINT64, 3.5f, 4 },
        { WM_TYPE_INT8, 127, 127 },
        { WM_TYPE_INT8, 128, 127 },
        { WM_TYPE_INT8, -128, 0x80 },
        { WM_TYPE_INT8, -129, 0x80 },
        { WM_TYPE_INT8, -2.5f, 0xfe },
        { WM_TYPE_INT16, 32767, 32767 },
        { WM_TYPE_INT16, 32768, 32767 },
        { WM_TYPE_INT16, -32768, 0x8000 },
        { WM_TYPE_INT16, -32769, 0x8000 },
        { WM_TYPE_INT32, 0x1p31f, INT32_MAX },
        { WM_TYPE_INT32, -0x1p31f, 0x80000000u },
        { WM_TYPE_INT32, -0x1p32f, 0x80000000u },
        { WM_TYPE_INT32, NAN, 0 },
        { WM_TYPE_INT32, -1.5f, 0xfffffffeu },
        { WM_TYPE_INT64, 0x1p63f, 0x7fffff8000000000u },
        { WM_TYPE_INT64, -0x1p63f, 0x8000000000000000u },
        { WM_TYPE_INT64, -0x1p64f, 0x8000000000000000u },
        { WM_TYPE_INT64, -3, 0xfffffffffffffffdu },
        { WM_TYPE_FP16, 0, 0 },
        { WM_TYPE_FP16, -0.0f, 0x8000 },
        { WM_TYPE_FP16, 1, 0x3c00 },
        { WM_TYPE_FP16, -2, 0xc000 },
        { WM_TYPE_FP16, 0x1.002p0f, 0x3c00 },    /* half of the way: to even */
        { WM_TYPE_FP16, 0x1.002002p0f, 0x3c01 }, /* a little more */
        { WM_TYPE_FP16, 0x1.006p0f, 0x3c02 },
        { WM_TYPE_FP16, 0x1.005ffep0f, 0x3c01 },
        { WM_TYPE_FP16, 0x1.ffep0f, 0x4000 }, /* carries into the exponent */
        { WM_TYPE_FP16, 65504, 0x7bff },
        { WM_TYPE_FP16, 0x1.ffdffep15f, 0x7bff },
        { WM_TYPE_FP16, 65520, 0x7c00 },
        { WM_TYPE_FP16, -65520, 0xfc00 },
        { WM_TYPE_FP16, 1e30f, 0x7c00 },
        { WM_TYPE_FP16, INFINITY, 0x7c00 },
        { WM_TYPE_FP16, -INFINITY, 0xfc00 },
        { WM_TYPE_FP16, NAN, 0x7e00 },
        { WM_TYPE_FP16, 0x1p-14f, 0x0400 },
        { WM_TYPE_FP16, 0x1.fffffep-15f, 0x0400 },
        { WM_TYPE_FP16, -0x1p-15f, 0x8200 },
        { WM_TYPE_FP16, 0x1p-24f, 1 },
        { WM_TYPE_FP16, 0x1p-25f, 0 },
        { WM_TYPE_FP16, 0x1.8p-25f, 1 },
        { WM_TYPE_FP16, 0x1.8p-24f, 2 },
        { WM_TYPE_FP16, 0x1.4p-23f, 2 },
        { WM_TYPE_BF16, 1, 0x3f80 },
        { WM_TYPE_BF16, 0x1.01p0f, 0x3f80 },
        { WM_TYPE_BF16, 0x1.010002p0f, 0x3f81 },
        { WM_TYPE_BF16, 0x1.03p0f, 0x3f82 },
        { WM_TYPE_BF16, 0x1.02fffep0f, 0x3f81 },
        { WM_TYPE_BF16, -0x1.ffp0f, 0xc000 },
        { WM_TYPE_BF16, 0x1.fffffep127f, 0x7f80 },
        { WM_TYPE_BF16, -INFINITY, 0xff80 },
        { WM_TYPE_FP32, 0x1.fffffep127f, 0x7f7fffff },
        { WM_TYPE_FP64, -0.5f, 0xbfe0000000000000u },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const size_t bytes = wm_type_bytes (list[i].type);
        uint8_t to[3 * 8];
        uint64_t bits = 0;
        memset (to, 0xa5, sizeof to);
        wm_signature_put_value (list[i].type, to, 1, list[i].score);
        memcpy (&bits, to + bytes, bytes);
        if (bits != list[i].bits)
            fail_msg ("row %zu: %llx", i, (unsigned long long) bits);
        assert_int_equal (to[bytes - 1], 0xa5);
        assert_int_equal (to[2 * bytes], 0xa5);
    }
    /* a NaN stays one, with its sign, also where its bits are all in the lost half */
    static const uint32_t nan[] = { 0x7f800001, 0xff800001, 0x7fffffff, 0xffc00000 };
    for (size_t i = 0; i < sizeof nan / sizeof *nan; i++)
        for (int k = 0; k < 2; k++) {
            uint16_t half;
            wm_signature_put_value (k ? WM_TYPE_BF16 : WM_TYPE_FP16, (uint8_t *) &half, 0,
                                    float_of (nan[i]));
            assert_true ((half & 0x7fff) > (k ? 0x7f80 : 0x7c00));
            assert_int_equal (half >> 15, nan[i] >> 31);
        }
}

/* The second of two values of each type.  */
static void values_are_read (void **state)
{
    static const struct {
        wm_type_t type;
        uint64_t bits;
        double value;
    } list[] = {
        { WM_TYPE_BOOL, 2, 1 },
        { WM_TYPE_BOOL, 0, 0 },
        { WM_TYPE_UINT8, 255, 255 },
        { WM_TYPE_UINT16, 65535, 65535 },
        { WM_TYPE_UINT32, UINT32_MAX, 4294967295.0 },
        { WM_TYPE_UINT64, 1ull << 63, 0x1p63 },
        { WM_TYPE_INT8, 0x80, -128 },
        { WM_TYPE_INT16, 0x8000, -32768 },
        { WM_TYPE_INT32, 0x80000001, -2147483647.0 },
        { WM_TYPE_INT64, 1ull << 63, -0x1p63 },
        { WM_TYPE_FP16, 0x3555, 0x1.554p-2 },
        { WM_TYPE_FP16, 0x8001, -0x1p-24 },
        { WM_TYPE_FP16, 0x03ff, 0x1.ff8p-15 },
        { WM_TYPE_FP16, 0x0400, 0x1p-14 },
        { WM_TYPE_FP16, 0xfbff, -65504 },
        { WM_TYPE_FP16, 0xfc00, (double) -INFINITY },
        { WM_TYPE_BF16, 0xbf81, -0x1.02p0 },
        { WM_TYPE_FP32, 0x3f800001, 0x1.000002p0 },
        { WM_TYPE_FP64, 0x3ff0000000000001, 0x1.0000000000001p0 },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const size_t bytes = wm_type_bytes (list[i].type);
        uint8_t from[3 * 8];
        memset (from, 0x11, sizeof from);
        memcpy (from + bytes, &list[i].bits, bytes);
        assert_true (wm_signature_value (list[i].type, from, 1) == list[i].value);
    }
}

/* From 2^24 on float32 has not every integer; of smaller types it has all.  */
static void integers_from_2_to_24_are_unsure (void **state)
{
    static const float score[] = { 0, 0x1p24f, 0 }, less[] = { -0x1.fffffep23f, 0, NAN },
                       minus[] = { 0, 0, -0x1p24f };
    for (wm_type_t type = 0; type < WM_TYPES; type++) {
        const bool has = type == WM_TYPE_INT32 || type == WM_TYPE_INT64 || type == WM_TYPE_UINT32 ||
                         type == WM_TYPE_UINT64;
        assert_int_equal (wm_signature_is_unsure (type, score, 3), has);
        assert_int_equal (wm_signature_is_unsure (type, minus, 3), has);
        assert_int_equal (wm_signature_is_unsure (type, score, 1), 0);
        assert_int_equal (wm_signature_is_unsure (type, less, 3), 0);
    }
}

static void what_the_model_takes (void **state)
{
    const float nan = float_of (0xff800001);
    const struct {
        float value;
        bool finite, infinite; /* whether it is taken */
    } list[] = { { 0, true, true },
                 { 0x1.fffffep127f, true, true },
                 { -INFINITY, false, true },
                 { INFINITY, false, true },
                 { nan, false, false } };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const float row[] = { 0, list[i].value, 0 };
        const wm_signature_t finite = { .takes_infinite = false }, any = { .takes_infinite = true };
        assert_int_equal (wm_signature_takes (&finite, row, 3), list[i].finite);
        assert_int_equal (wm_signature_takes (&any, row, 3), list[i].infinite);
        assert_true (wm_signature_takes (&finite, row, 1));
    }
}

/* ---- requests and answers -------------------------------------------------------------------- */

/* Inputs "a" (2) and "b" (3, 1) of INT32; outputs "c" (2, 2) of INT32 and "d" () of FP32.  */
static wm_signature_t model (bool is_whole)
{
    static const uint32_t two = 2, column[] = { 3, 1 }, square[] = { 2, 2 };
    wm_signature_t self = { .is_whole = is_whole };
    wm_signature_add (&self, false, "a", WM_TYPE_INT32, 1, &two);
    wm_signature_add (&self, false, "b", WM_TYPE_INT32, 2, column);
    wm_signature_add (&self, true, "c", WM_TYPE_INT32, 2, square);
    wm_signature_add (&self, true, "d", WM_TYPE_FP32, 0, NULL);
    return self;
}

static wm_kserve_tensor_t tensor (const char *name, bool is_whole, int64_t n_row, int64_t first,
                                  int64_t second, const void *data)
{
    wm_kserve_tensor_t self = { .name = (char *) (uintptr_t) name,
                                .type = WM_TYPE_INT32,
                                .data = data };
    if (!is_whole)
        self.dim[self.n_dim++] = n_row;
    self.dim[self.n_dim++] = first;
    if (second)
        self.dim[self.n_dim++] = second;
    for (uint32_t d = self.n_dim; d < WM_TENSOR_DIM_MAX; d++)
        self.dim[d] = 77; /* not read */
    self.bytes = (size_t) ((is_whole ? 1 : n_row) * first * (second ? second : 1) * 4);
    return self;
}

static void shapes_are_written (void **state)
{
    static const int64_t dim[WM_TENSOR_DIM_MAX] = { INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN,
                                                    INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN };
    static const int64_t some[] = { 3, -1, 40 };
    struct {
        char text[WM_SIGNATURE_SHAPE_BYTES], behind;
    } at = { .behind = 7 };
    assert_string_equal (wm_signature_shape (at.text, true, 3, some), "[-1,3,-1,40]");
    assert_string_equal (wm_signature_shape (at.text, false, 3, some), "[3,-1,40]");
    assert_string_equal (wm_signature_shape (at.text, false, 0, some), "[]");
    assert_string_equal (wm_signature_shape (at.text, true, 0, some), "[-1]");
    assert_int_equal (strlen (wm_signature_shape (at.text, true, WM_TENSOR_DIM_MAX, dim)),
                      4 + 8 * 21);
    assert_int_equal (at.behind, 7);
}

/* Rows of a request, and tensors of an answer: each value is where it belongs.  */
static void rows_and_tensors (void **state)
{
    static const int32_t a[] = { 1, 2, 11, 12, 21, 22 }, b[] = { 3, 4, 5, 13, 14, 15, 23, 24, 25 };
    static const float score[] = { 1, 2, 3, 4, 5, 11, 12, 13, 14, 15, 21, 22, 23, 24, 25 };
    wm_ks_error_t error;
    wm_tensor_plan_t plan;
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        const wm_signature_t self = model (is_whole);
        const uint32_t n_row = is_whole ? 1 : 3;
        wm_kserve_tensor_t input[] = { tensor ("b", is_whole, 3, 3, 1, b),
                                       tensor ("a", is_whole, 3, 2, 0, a) };
        wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX];
        char *name[] = { (char *) (uintptr_t) "d", (char *) (uintptr_t) "c" };
        uint32_t n_class[] = { 9, 9 };
        wm_ks_request_t request = {
            .model = (char *) (uintptr_t) "m", .input = input, .n_input = 2, .n_class = n_class
        }; /* of no output: not read */
        assert_int_equal (self.n_value, 5);
        assert_int_equal (self.n_score, 5);
        assert_int_equal (wm_signature_plan (&self, &request, &plan, &error), WM_KS_OK);
        assert_int_equal (plan.n_row, n_row);
        assert_int_equal (plan.n_output, 2);
        assert_true (plan.output[0] == 0 && plan.output[1] == 1 && plan.n_class[0] == 0);
        for (uint32_t row = 0; row < n_row; row++) {
            float to[5];
            assert_true (wm_signature_row (&self, &request, &plan, row, to));
            assert_memory_equal (to, score + 5 * row, sizeof to);
        }
        request.output = name;
        request.n_output = 2;
        request.n_class = NULL;
        assert_int_equal (wm_signature_plan (&self, &request, &plan, &error), WM_KS_OK);
        assert_true (plan.output[0] == 1 && plan.output[1] == 0 && plan.n_class[0] == 0);
        assert_int_equal (wm_signature_answer_bytes (&self, &plan), n_row * 5 * 4);
        assert_true (wm_signature_begin (&self, &plan, output));
        for (uint32_t row = n_row; row-- > 0;)
            assert_int_equal (
                wm_signature_put (&self, &plan, "m", row, score + 5 * row, output, &error),
                WM_KS_OK);
        assert_string_equal (output[0].name, "d");
        assert_string_equal (output[1].name, "c");
        const uint32_t first = !is_whole;
        assert_int_equal (output[0].n_dim, first);
        assert_int_equal (output[1].n_dim, 2 + first);
        assert_true (is_whole || (output[0].dim[0] == 3 && output[1].dim[0] == 3));
        assert_true (output[1].dim[first] == 2 && output[1].dim[first + 1] == 2);
        assert_true (output[0].bytes == n_row * 4 && output[1].bytes == n_row * 16);
        for (uint32_t row = 0; row < n_row; row++) {
            float d;
            int32_t c[4];
            memcpy (&d, output[0].data + 4 * row, sizeof d);
            memcpy (c, output[1].data + 16 * row, sizeof c);
            assert_true (d == score[5 * row + 4]);
            for (int k = 0; k < 4; k++)
                assert_true ((float) c[k] == score[5 * row + (uint32_t) k]);
        }
        wm_signature_clear (&plan, output);
        assert_null (output[0].data);
    }
}

/* Which of the outputs that are asked for, and which row, may be rounded.  */
static void a_refusal_names_output_and_row (void **state)
{
    const wm_signature_t self = model (false);
    const wm_tensor_plan_t both = { .n_row = 2, .n_output = 2, .output = { 1, 0 } },
                           other = { .n_row = 2, .n_output = 1, .output = { 1 } };
    float score[10] = { 0 };
    wm_ks_error_t error;
    score[4] = score[9] = 0x1p30f; /* of FP32 */
    wm_kserve_tensor_t all[WM_SIGNATURE_PORTS_MAX], one[WM_SIGNATURE_PORTS_MAX];
    assert_true (wm_signature_begin (&self, &both, all) && wm_signature_begin (&self, &other, one));
    assert_int_equal (wm_signature_put (&self, &both, "m", 1, score + 5, all, &error), WM_KS_OK);
    score[5 + 3] = 0x1p24f;
    assert_int_equal (wm_signature_put (&self, &other, "m", 1, score + 5, one, &error), WM_KS_OK);
    assert_int_equal (wm_signature_put (&self, &both, "m", 0, score, all, &error), WM_KS_OK);
    assert_int_equal (wm_signature_put (&self, &both, "m", 1, score + 5, all, &error),
                      WM_KS_INVALID);
    wm_signature_clear (&both, all);
    wm_signature_clear (&other, one);
    assert_string_equal (error.text, "output 'c' of model 'm': row 1 has a number of 2^24 or more; "
                                     "FP32, in which wiremill computes, may have rounded it");
}

/* The value that float32 does not hold: its input, its place, its digits. OpenVINO computes
   integers in 32 bits.  */
static void a_refusal_names_the_value (void **state)
{
    static const struct {
        int64_t value;
        const char *text; /* NULL: it is taken */
    } list[] = {
        { 0, NULL },
        { 16777216, NULL },
        { 16777217, "input 'y' of model 'm': value 5, 16777217, is not one that FP32 holds, in "
                    "which wiremill computes" },
        { 2147483520, NULL },
        { 2147483648, "input 'y' of model 'm': value 5, 2147483648, lies outside -2147483648 to "
                      "2147483647: OpenVINO computes integers in 32 bits" },
        { -2147483648, NULL },
        { -2147483904, "input 'y' of model 'm': value 5, -2147483904, lies outside -2147483648 to "
                       "2147483647: OpenVINO computes integers in 32 bits" },
    };
    const uint32_t two = 2;
    wm_signature_t self = { 0 };
    wm_signature_add (&self, false, "x", WM_TYPE_INT16, 1, &two);
    wm_signature_add (&self, false, "y", WM_TYPE_INT64, 1, &two);
    const int16_t x[6] = { 0 };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        int64_t y[6] = { 0, 0, 0, 0, 0, list[i].value };
        wm_kserve_tensor_t input[] = {
            { .data = (const uint8_t *) y, .n_dim = 2, .dim = { 3, 2 } },
            { .data = (const uint8_t *) x, .n_dim = 2, .dim = { 3, 2 } }
        };
        const wm_ks_request_t request = { .model = (char *) (uintptr_t) "m",
                                          .input = input,
                                          .n_input = 2 };
        const wm_tensor_plan_t plan = { .n_row = 3, .input = { 1, 0 } };
        wm_ks_error_t error = { .text = "" };
        const wm_ks_code_t code = wm_signature_exact (&self, &request, &plan, &error);
        assert_int_equal (code, list[i].text ? WM_KS_INVALID : WM_KS_OK);
        assert_string_equal (error.text, list[i].text ? list[i].text : "");
        self.input[1].exact = 7; /* carried as it is: all are taken */
        assert_int_equal (wm_signature_exact (&self, &request, &plan, &error), WM_KS_OK);
        self.input[1].exact = 0;
    }
}

static void planned (const wm_signature_t *self, const wm_ks_request_t *request, const char *text)
{
    wm_tensor_plan_t plan;
    wm_ks_error_t error = { .text = "" };
    assert_int_equal (wm_signature_plan (self, request, &plan, &error),
                      text ? WM_KS_INVALID : WM_KS_OK);
    assert_string_equal (error.text, text ? text : "");
}

static void requests_that_do_not_fit (void **state)
{
    static char names[WM_SIGNATURE_PORTS_MAX + 1][4];
    static const int32_t zero[2];
    const uint32_t one = 1;
    wm_kserve_tensor_t input[WM_SIGNATURE_PORTS_MAX + 1];
    char *output[WM_SIGNATURE_PORTS_MAX + 1];
    uint32_t n_class[WM_SIGNATURE_PORTS_MAX + 1] = { 0 };
    wm_signature_t self = { 0 };
    for (int i = 0; i <= WM_SIGNATURE_PORTS_MAX; i++) {
        snprintf (names[i], sizeof *names, "p%d", i % 100);
        input[i] = tensor (names[i], false, 2, 1, 0, zero);
        output[i] = names[i];
        if (i == WM_SIGNATURE_PORTS_MAX)
            continue;
        wm_signature_add (&self, false, names[i], WM_TYPE_INT32, 1, &one);
        wm_signature_add (&self, true, names[i], i % 2 ? WM_TYPE_BOOL : WM_TYPE_INT32, 1, &one);
    }
    wm_ks_request_t request = { .model = (char *) (uintptr_t) "m",
                                .input = input,
                                .n_input = WM_SIGNATURE_PORTS_MAX,
                                .output = output,
                                .n_output = WM_SIGNATURE_PORTS_MAX,
                                .n_class = n_class };
    planned (&self, &request, NULL);
    request.n_output++;
    planned (&self, &request, "more than 16 inputs or outputs for model 'm'");
    request.n_output--, request.n_input++;
    planned (&self, &request, "more than 16 inputs or outputs for model 'm'");
    request.n_input--;
    input[15].name = names[14];
    planned (&self, &request, "input 'p14' already exists in request");
    input[15].name = names[15];
    output[15] = names[14];
    planned (&self, &request, "output 'p14' already exists in request");
    output[15] = names[16];
    planned (&self, &request, "unexpected inference output 'p16' for model 'm'");
    output[15] = names[15];
    n_class[14] = 1;
    planned (&self, &request, NULL);
    n_class[15] = 1;
    planned (&self, &request,
             "class result not available for output 'p15' of model 'm' due to unsupported type "
             "'BOOL'");
    n_class[15] = 0;
    input[0].dim[0] = 1, input[0].bytes = 4;
    planned (&self, &request, "input 'p1' batch size does not match other inputs for 'm'");
    input[0].dim[0] = INT32_MAX;
    planned (&self, &request,
             "input byte size mismatch for input 'p0' for model 'm'. Expected 8589934588, got 4");
    input[0].dim[0] = INT32_MAX + 1ll;
    planned (&self, &request, "input 'p0' batch size does not match other inputs for 'm'");
    input[0] = tensor ("p0", false, 2, 2, 0, zero);
    planned (&self, &request,
             "unexpected shape for input 'p0' for model 'm'. Expected [-1,1], got [2,2]");
    input[0] = tensor ("p0", false, 2, 1, 1, zero);
    planned (&self, &request,
             "unexpected shape for input 'p0' for model 'm'. Expected [-1,1], got [2,1,1]");
}

/* As many classes as there are values of a row; of a whole output where it has no rows.  */
static void bytes_of_classes (void **state)
{
    static const struct {
        bool is_whole, has_all_dims;
        uint32_t n_row, n_class, n_list, n_value; /* of which wm_classify_bytes is asked */
    } list[] = { { false, false, 3, 2, 3, 4 },
                 { false, true, 3, 2, 1, 12 },
                 { true, false, 1, 5, 1, 4 },
                 { false, false, 3, 9, 3, 4 } };
    char line[] = "label";
    char *lines[] = { line };
    const wm_labels_t labels = { .line = lines, .n = 1, .longest = 5 };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_signature_t self = model (list[i].is_whole);
        self.has_all_dims = list[i].has_all_dims;
        self.output[0].labels = &labels;
        const wm_tensor_plan_t plan = { .n_row = list[i].n_row,
                                        .n_output = 2,
                                        .output = { 1, 0 },
                                        .n_class = { 0, list[i].n_class } };
        const uint32_t n = list[i].n_class < list[i].n_value ? list[i].n_class : list[i].n_value;
        /* each: its length, 21 characters of a score, 8 of an index, 6 of a label */
        const size_t classes = (list[i].n_list * (4 + 21 + 8 + 6) + sizeof (size_t)) * n;
        wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX] = {
            { .type = WM_TYPE_FP32, .bytes = 4 * list[i].n_row },
            { .type = WM_TYPE_INT32, .bytes = 16 * list[i].n_row }
        };
        assert_int_equal (wm_signature_answer_bytes (&self, &plan), classes + 20 * list[i].n_row);
        assert_int_equal (wm_signature_class_bytes (&self, &plan, output), classes);
    }
    const wm_signature_t self = model (false);
    const wm_tensor_plan_t none = { .n_row = 0, .n_output = 1, .n_class = { 3 } };
    wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX] = { { .type = WM_TYPE_INT32 } };
    assert_int_equal (wm_signature_class_bytes (&self, &none, output), 0);
}

/* Scores of a ragged model: each output has the sizes that the model states.  */
static void ragged_scores_have_the_shapes (void **state)
{
    static const struct {
        uint32_t dim[2], n_dim;
        int type;
        bool is_taken;
    } list[] = { { { 2, 5 }, 2, 0, true },  { { 2, 0 }, 2, 0, true },  { { 3, 5 }, 2, 0, false },
                 { { 5, 2 }, 2, 0, false }, { { 2, 5 }, 1, 0, false }, { { 2, 2 }, 2, 7, false } };
    const uint32_t free_pairs[] = { 2, 0 };
    wm_signature_t self = { 0 };
    wm_signature_add (&self, true, "y", WM_TYPE_FP32, 2, free_pairs);
    const wm_tensor_plan_t plan = { .n_row = 1, .n_output = 1 };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_ragged_t tensor = { .n_dim = list[i].n_dim,
                               .dim = { list[i].dim[0], list[i].dim[1] },
                               .type = list[i].type };
        wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX];
        wm_ks_error_t error;
        float row[64] = { 0 }, *rows[] = { row };
        assert_true (wm_ragged_begin (row, 64, 1, &tensor) > 0);
        assert_int_equal (wm_signature_ragged_answer (&self, &plan, "m", rows, output, &error),
                          list[i].is_taken ? WM_KS_OK : WM_KS_INTERNAL);
        if (!list[i].is_taken)
            continue;
        assert_true (output[0].n_dim == 3 && output[0].dim[0] == 1 && output[0].dim[1] == 2);
        assert_int_equal (output[0].dim[2], list[i].dim[1]);
        assert_int_equal (output[0].bytes, 8 * list[i].dim[1]);
        wm_signature_clear (&plan, output);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (scores_become_the_nearest_value),
        cmocka_unit_test (values_are_read),
        cmocka_unit_test (integers_from_2_to_24_are_unsure),
        cmocka_unit_test (what_the_model_takes),
        cmocka_unit_test (shapes_are_written),
        cmocka_unit_test (rows_and_tensors),
        cmocka_unit_test (a_refusal_names_output_and_row),
        cmocka_unit_test (a_refusal_names_the_value),
        cmocka_unit_test (requests_that_do_not_fit),
        cmocka_unit_test (bytes_of_classes),
        cmocka_unit_test (ragged_scores_have_the_shapes),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
