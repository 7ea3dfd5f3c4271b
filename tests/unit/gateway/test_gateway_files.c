/* test_gateway_files.c - what the gateway reads of a model repository, and values of every type on
   their way to rows of float32 and back.  */
#include "producer/net/wm_pbtxt.h"
#include "producer/serving/wm_models_private.h"
#include "tests/unit/unit.h"

#include <czmq.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- config.pbtxt ---------------------------------------------------------------------------- */

static const char config_text[] =
    "# of a site\n"
    "name: \"emtrk\" \"michel\"\n"
    "platform: 'tensorflow_graphdef'; max_batch_size: 256\n"
    "input [\n"
    "  { name: \"main_input\"  data_type: TYPE_FP32  dims: [ 48, 48, 1 ] },\n"
    "  { name: \"other\", dims: -1 dims: 0x10 }\n"
    "]\n"
    "output { name: \"em_trk_none_netout/Softmax\" data_type: TYPE_FP32 dims: [ 3 ] }\n"
    "output < name: \"a\\tb\\x41\\102\\\"\" >\n"
    "version_policy: { specific { versions: [ 1, 3 ] } }\n"
    "dynamic_batching { } ratio: 0.5f is_on: true least: -inf most: nan\n";

static void test_config (void **state)
{
    wm_error_t error;
    json_t *config = wm_pbtxt_parse (config_text, "config.pbtxt", &error);
    assert_non_null (config);
    assert_string_equal (wm_pbtxt_text (config, "name"), "emtrkmichel");
    assert_string_equal (wm_pbtxt_text (config, "platform"), "tensorflow_graphdef");
    assert_int_equal (wm_pbtxt_number (config, "max_batch_size"), 256);
    const json_t *inputs = json_object_get (config, "input");
    assert_int_equal (json_array_size (inputs), 2);
    const json_t *dims = json_object_get (json_array_get (inputs, 0), "dims");
    assert_int_equal (json_array_size (dims), 3);
    assert_int_equal (json_integer_value (json_array_get (dims, 1)), 48);
    dims = json_object_get (json_array_get (inputs, 1), "dims");
    assert_int_equal (json_integer_value (json_array_get (dims, 0)), -1);
    assert_int_equal (json_integer_value (json_array_get (dims, 1)), 16);
    assert_string_equal (wm_pbtxt_text (wm_pbtxt_message (config, "output"), "name"), "a\tbAB\"");
    const json_t *policy = wm_pbtxt_message (config, "version_policy");
    assert_int_equal (wm_pbtxt_number (wm_pbtxt_message (policy, "specific"), "versions"), 3);
    assert_non_null (wm_pbtxt_message (config, "dynamic_batching"));
    assert_string_equal (wm_pbtxt_text (config, "least"), "-inf"); /* JSON has no such number */
    assert_string_equal (wm_pbtxt_text (config, "most"), "nan");
    assert_null (wm_pbtxt_message (config, "name"));
    assert_null (wm_pbtxt_text (config, "nothing"));
    json_decref (config);
}

static void refused (const char *text, const char *why)
{
    wm_error_t error = { .text = "" };
    assert_null (wm_pbtxt_parse (text, "c", &error));
    assert_string_equal (error.text, why);
}

static void test_config_refused (void **state)
{
    char deep[4 * WM_PBTXT_DEPTH_MAX + 1] = "";
    for (int i = 0; i < WM_PBTXT_DEPTH_MAX; i++)
        strcat (deep, "a{");
    refused (deep, "c:1: messages are nested too deep");
    refused ("name: \"a\n\"", "c:1: a string does not end, or is not UTF-8");
    refused ("\nname: \"\\q\"", "c:2: a string does not end, or is not UTF-8");
    refused ("name: \"\xff\"", "c:1: a string does not end, or is not UTF-8");
    refused ("name \"a\"", "c:1: a ':' or '{' is missing behind the name of a field");
    refused ("\n\nname: }", "c:3: a value is missing");
    refused ("}", "c:1: the name of a field is missing");
    refused ("a { b: 1", "c:1: the file ends inside a message or a list");
    refused ("a: [ 1, 2", "c:1: the file ends inside a message or a list");
    refused ("a { b: 1 ]", "c:1: the name of a field is missing");
}

/* Whatever the text, it is read or refused; nothing else is noticed here but by sanitizers.  */
static void test_config_damaged (void **state)
{
    char text[sizeof config_text];
    wm_error_t error;
    for (size_t i = 0; i < sizeof config_text - 1; i++)
        for (size_t change = 0; change < 3; change++) {
            memcpy (text, config_text, sizeof text);
            text[i] = "\0{\""[change];
            json_decref (wm_pbtxt_parse (text, "c", &error));
        }
}

/* ---- types ----------------------------------------------------------------------------------- */

static wm_signature_t of_type (wm_type_t type, uint32_t n)
{
    wm_signature_t signature = { .is_whole = false };
    wm_signature_add (&signature, false, "x", type, 1, &n);
    wm_signature_add (&signature, true, "y", type, 1, &n);
    return signature;
}

static wm_ks_code_t put_row (const wm_signature_t *self, const wm_tensor_plan_t *plan,
                             const float *row, wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX])
{
    wm_ks_error_t error;
    assert_true (wm_signature_begin (self, plan, output));
    return wm_signature_put (self, plan, "m", 0, row, output, &error);
}

/* Sends values through a row, as an engine that returns its input would. Returns what the exactness
   check found.  */
static wm_ks_code_t through (wm_type_t type, uint32_t n, const void *from, void *to)
{
    const wm_signature_t signature = of_type (type, n);
    wm_kserve_tensor_t input = { "x", type, 2, { 1, n }, from, n * wm_type_bytes (type) };
    const wm_ks_request_t request = {
        .model = "m", .version = "", .id = "", .input = &input, .n_input = 1
    };
    wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX];
    wm_tensor_plan_t plan;
    wm_ks_error_t error;
    float *row = zmalloc (n * sizeof *row);
    assert_int_equal (wm_signature_plan (&signature, &request, &plan, &error), WM_KS_OK);
    const wm_ks_code_t code = wm_signature_exact (&signature, &request, &plan, &error);
    wm_signature_row (&signature, &request, &plan, 0, row);
    put_row (&signature, &plan, row, output);
    assert_int_equal (output[0].bytes, n * wm_type_bytes (type));
    memcpy (to, output[0].data, output[0].bytes);
    wm_signature_clear (&plan, output);
    free (row);
    return code;
}

#define STAYS(type, c_type, ...)                                                                   \
    do {                                                                                           \
        const c_type from_[] = { __VA_ARGS__ };                                                    \
        c_type to_[sizeof from_ / sizeof *from_];                                                  \
        assert_int_equal (through (type, sizeof from_ / sizeof *from_, from_, to_), WM_KS_OK);     \
        assert_memory_equal (from_, to_, sizeof from_);                                            \
    } while (0)
#define REFUSED(type, c_type, value)                                                               \
    do {                                                                                           \
        const c_type from_ = (value);                                                              \
        c_type to_;                                                                                \
        assert_int_equal (through (type, 1, &from_, &to_), WM_KS_INVALID);                         \
    } while (0)

static void test_types (void **state)
{
    STAYS (WM_TYPE_BOOL, uint8_t, 0, 1);
    STAYS (WM_TYPE_UINT8, uint8_t, 0, 1, 255);
    STAYS (WM_TYPE_INT8, int8_t, -128, 127);
    STAYS (WM_TYPE_UINT16, uint16_t, 0, 65535);
    STAYS (WM_TYPE_INT16, int16_t, -32768, 32767);
    STAYS (WM_TYPE_UINT32, uint32_t, 0, 1u << 24, 0x7fffff80u);
    STAYS (WM_TYPE_INT32, int32_t, INT32_MIN, -(1 << 24), 16777215, 1 << 30);
    STAYS (WM_TYPE_UINT64, uint64_t, 0, 1ull << 30);
    STAYS (WM_TYPE_INT64, int64_t, INT32_MIN, 16777215, 1ll << 30);
    STAYS (WM_TYPE_FP64, double, 0.5, -1e30f, INFINITY);
    STAYS (WM_TYPE_FP32, float, 0.1f, -0.f, 1e-45f);
    STAYS (WM_TYPE_BF16, uint16_t, 0x3f80, 0xc2f7, 1, 0x7f80);
    REFUSED (WM_TYPE_INT32, int32_t, 16777217);
    REFUSED (WM_TYPE_UINT32, uint32_t, UINT32_MAX);
    REFUSED (WM_TYPE_UINT32, uint32_t, 1u << 31);
    REFUSED (WM_TYPE_INT64, int64_t, INT64_MAX);
    REFUSED (WM_TYPE_INT64, int64_t, INT64_MIN);
    REFUSED (WM_TYPE_INT64, int64_t, 1ll << 31);
    REFUSED (WM_TYPE_INT64, int64_t, INT32_MIN - 256ll);
    REFUSED (WM_TYPE_UINT64, uint64_t, 1ull << 31);
    REFUSED (WM_TYPE_INT64, int64_t, (1ll << 62) + 1);
    REFUSED (WM_TYPE_UINT64, uint64_t, UINT64_MAX);
    REFUSED (WM_TYPE_FP64, double, 0.1);
}

/* An integer output that float32 may have rounded is refused; a held row's NaN is not.  */
static void test_sure (void **state)
{
    static const struct {
        wm_type_t type;
        float score;
        bool is_sure;
    } each[] = { { WM_TYPE_INT64, 16777215, true },  { WM_TYPE_INT64, 16777216, false },
                 { WM_TYPE_INT32, -0x1p31f, false }, { WM_TYPE_INT32, NAN, true },
                 { WM_TYPE_FP32, 1e30f, true },      { WM_TYPE_UINT8, 255, true } };
    const wm_tensor_plan_t plan = { .n_row = 1, .n_output = 1 };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const wm_signature_t signature = of_type (each[i].type, 1);
        wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX];
        assert_int_equal (put_row (&signature, &plan, &each[i].score, output),
                          each[i].is_sure ? WM_KS_OK : WM_KS_INVALID);
        wm_signature_clear (&plan, output);
    }
}

/* Every half is exact in float32, and comes back with its own bits (a NaN: as a NaN).  */
static void test_halves (void **state)
{
    uint16_t *from = zmalloc (65536 * 2), *to = zmalloc (65536 * 2);
    for (uint32_t i = 0; i < 65536; i++)
        from[i] = (uint16_t) i;
    assert_int_equal (through (WM_TYPE_FP16, 65536, from, to), WM_KS_OK);
    for (uint32_t i = 0; i < 65536; i++)
        assert_true ((i & 0x7fff) > 0x7c00 ? (to[i] & 0x7fff) > 0x7c00 : to[i] == i);
    free (from);
    free (to);
}

/* What a type cannot hold becomes its nearest value; halves are rounded to even.  */
static void test_nearest (void **state)
{
    const float score[] = { 300, -7, 1.5f, 2.5f, NAN };
    const uint8_t want[] = { 255, 0, 2, 2, 0 };
    const float fine[] = { 65519, 65520, 0x1.002p0f, 0x1.006p0f, 0x1p-25f };
    const uint16_t halves[] = { 0x7bff, 0x7c00, 0x3c00, 0x3c02, 0 };
    const wm_tensor_plan_t plan = { .n_row = 1, .n_output = 1 };
    wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX];
    wm_signature_t signature = of_type (WM_TYPE_UINT8, 5);
    put_row (&signature, &plan, score, output);
    assert_memory_equal (output[0].data, want, sizeof want);
    wm_signature_clear (&plan, output);
    signature = of_type (WM_TYPE_FP16, 5);
    put_row (&signature, &plan, fine, output);
    assert_memory_equal (output[0].data, halves, sizeof halves);
    wm_signature_clear (&plan, output);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_config),         cmocka_unit_test (test_config_refused),
        cmocka_unit_test (test_config_damaged), cmocka_unit_test (test_types),
        cmocka_unit_test (test_sure),           cmocka_unit_test (test_halves),
        cmocka_unit_test (test_nearest),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
