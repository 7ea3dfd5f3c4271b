/* test_gateway_infer.c - what the gateway reads from clients and writes to them: protobuf, JSON,
   compressed bytes; and the memory that requests share, and the loop.  */
#include "producer/gateway/wm_service.h"
#include "producer/net/wm_budget.h"
#include "producer/net/wm_inflate.h"
#include "producer/serving/wm_infer.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/unit/made_loop.h"

/* ---- protobuf -------------------------------------------------------------------------------- */

static wm_buffer_t message (const char *model, uint32_t n, ...)
{
    wm_buffer_t all = { 0 };
    va_list parts;
    va_start (parts, n);
    wm_proto_put_text (&all, 1, model);
    wm_proto_put_text (&all, 3, "id");
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t tag = va_arg (parts, uint32_t);
        wm_buffer_t *part = va_arg (parts, wm_buffer_t *);
        wm_proto_put_bytes (&all, tag, part->data, part->bytes);
        free (part->data);
        part->data = NULL;
    }
    va_end (parts);
    return all;
}

/* An InferInputTensor; `contents` may be NULL, and is freed.  */
static wm_buffer_t input (const char *name, const char *type, uint32_t n_dim, const int64_t *dim,
                          wm_buffer_t *contents)
{
    wm_buffer_t tensor = { 0 };
    wm_proto_put_text (&tensor, 1, name);
    wm_proto_put_text (&tensor, 2, type);
    for (uint32_t i = 0; i < n_dim; i++)
        wm_proto_put_number (&tensor, 3, (uint64_t) dim[i]);
    if (contents) {
        wm_proto_put_bytes (&tensor, 5, contents->data, contents->bytes);
        free (contents->data);
    }
    return tensor;
}

static wm_buffer_t bytes_of (const void *data, size_t bytes)
{
    wm_buffer_t buffer = { 0 };
    wm_buffer_room (&buffer, bytes + 1);
    wm_buffer_put (&buffer, data, bytes);
    return buffer;
}

/* Decodes and frees the message. `text`: what the error says, or NULL.  */
static void decodes (wm_infer_t *infer, wm_buffer_t all, wm_ks_code_t code, const char *text)
{
    wm_ks_error_t error = { 0 };
    free (infer->owner);
    wm_infer_free (infer);
    uint8_t *copy = malloc (all.bytes + 1); /* exact, for the sanitizers */
    memcpy (copy, all.data, all.bytes);
    wm_ks_code_t got = wm_infer_decode (infer, copy, all.bytes, &error);
    size_t bytes = 1;
    if (!got) {
        assert_false (wm_infer_values (infer, &bytes, &error));
        got = error.code;
    }
    if (got != code || (text && !strstr (error.text, text)))
        fail_msg ("code %d, \"%s\"; wanted %d, \"%s\"", got, error.text, code, text ? text : "");
    free (all.data);
    infer->owner = copy;
}

static void done (wm_infer_t *infer)
{
    free (infer->owner);
    wm_infer_free (infer);
}

static void test_raw (void **state)
{
    const float value[6] = { 1, 2, 3, 4, 5, 6 };
    const int64_t dim[2] = { 2, 3 };
    wm_infer_t infer = { 0 };
    wm_buffer_t one = input ("x", "FP32", 2, dim, NULL), raw = bytes_of (value, sizeof value);
    wm_buffer_t output = { 0 }, number = { 0 }, priority = { 0 }, timeout = { 0 };
    wm_proto_put_text (&output, 1, "scores");
    wm_proto_put_text (&priority, 1, "priority");
    wm_proto_put_number (&number, 5, 7);
    wm_proto_put_bytes (&priority, 2, number.data, number.bytes);
    wm_proto_put_text (&timeout, 1, "timeout");
    wm_proto_put_bytes (&timeout, 2, number.data, number.bytes);
    free (number.data);
    wm_buffer_t all = message ("m", 5, 4, &priority, 4, &timeout, 5, &one, 6, &output, 7, &raw);
    decodes (&infer, all, WM_KS_OK, NULL);
    const wm_ks_request_t *request = &infer.request;
    assert_string_equal (request->model, "m");
    assert_string_equal (request->version, "");
    assert_string_equal (request->id, "id");
    assert_string_equal (request->output[0], "scores");
    assert_int_equal (request->n_input, 1);
    assert_int_equal (request->n_output, 1);
    assert_int_equal (request->priority, 7);
    assert_int_equal (infer.timeout_us, 7);
    assert_int_equal (request->input[0].type, WM_TYPE_FP32);
    assert_int_equal (request->input[0].dim[1], 3);
    assert_memory_equal (request->input[0].data, value, sizeof value);
    done (&infer);
}

/* Values of every type in `contents`, packed or not.  */
static void test_contents (void **state)
{
    static const struct {
        const char *type;
        uint32_t tag;
        uint64_t value[2];
        size_t bytes;
    } of[] = {
        { "BOOL", 1, { 1, 0 }, 1 },
        { "INT8", 2, { (uint64_t) -128, 127 }, 1 },
        { "INT16", 2, { (uint64_t) -32768, 32767 }, 2 },
        { "INT32", 2, { (uint64_t) INT32_MIN, INT32_MAX }, 4 },
        { "INT64", 3, { (uint64_t) INT64_MIN, INT64_MAX }, 8 },
        { "UINT8", 4, { 255, 0 }, 1 },
        { "UINT16", 4, { 65535, 1 }, 2 },
        { "UINT32", 4, { UINT32_MAX, 1 }, 4 },
        { "UINT64", 5, { UINT64_MAX, 1 }, 8 },
    };
    const int64_t dim = 2;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        for (int is_packed = 0; is_packed < 2; is_packed++) {
            wm_infer_t infer = { 0 };
            wm_buffer_t contents = { 0 }, packed = { 0 };
            for (int k = 0; k < 2; k++)
                if (is_packed)
                    wm_proto_put_varint (&packed, of[i].value[k]);
                else
                    wm_proto_put_number (&contents, of[i].tag, of[i].value[k]);
            if (is_packed)
                wm_proto_put_bytes (&contents, of[i].tag, packed.data, packed.bytes);
            free (packed.data);
            wm_buffer_t one = input ("x", of[i].type, 1, &dim, &contents);
            decodes (&infer, message ("m", 1, 5, &one), WM_KS_OK, NULL);
            const wm_kserve_tensor_t *tensor = &infer.request.input[0];
            assert_int_equal (tensor->bytes, 2 * of[i].bytes);
            assert_memory_equal (tensor->data, &of[i].value[0], of[i].bytes);
            assert_memory_equal (tensor->data + of[i].bytes, &of[i].value[1], of[i].bytes);
            done (&infer);
        }
}

static void test_contents_real (void **state)
{
    const float single[2] = { 1.5f, -2 };
    const int64_t dim = 2;
    wm_infer_t infer = { 0 };
    wm_buffer_t contents = { 0 };
    wm_proto_put_bytes (&contents, 6, single, sizeof single);
    wm_buffer_t one = input ("x", "FP32", 1, &dim, &contents);
    decodes (&infer, message ("m", 1, 5, &one), WM_KS_OK, NULL);
    assert_memory_equal (infer.request.input[0].data, single, sizeof single);
    done (&infer);
    contents = (wm_buffer_t){ 0 };
    wm_proto_put_text (&contents, 8, "ab");
    wm_proto_put_bytes (&contents, 8, "", 0);
    one = input ("x", "BYTES", 1, &dim, &contents);
    decodes (&infer, message ("m", 1, 5, &one), WM_KS_INVALID, "raw_input_contents");
    done (&infer);
}

static wm_buffer_t short_by (wm_buffer_t all, size_t bytes)
{
    all.bytes -= bytes;
    return all;
}

/* A message with one tensor and, unless raw is NULL, its bytes.  */
static wm_buffer_t simple (const char *type, int64_t n, const void *raw, size_t bytes)
{
    wm_buffer_t one = input ("x", type, 1, &n, NULL), data = bytes_of (raw ? raw : "", bytes);
    if (raw)
        return message ("m", 2, 5, &one, 7, &data);
    free (data.data);
    return message ("m", 1, 5, &one);
}

/* A tensor with one parameter of this name and number.  */
static wm_buffer_t with_number (uint32_t part, uint32_t tag, const char *name, int64_t number)
{
    wm_buffer_t tensor = { 0 }, entry = { 0 }, value = { 0 };
    wm_proto_put_text (&tensor, 1, "x");
    if (part == 5)
        wm_proto_put_text (&tensor, 2, "FP32");
    wm_proto_put_number (&value, 2, (uint64_t) number);
    wm_proto_put_text (&entry, 1, name);
    wm_proto_put_bytes (&entry, 2, value.data, value.bytes);
    wm_proto_put_bytes (&tensor, tag, entry.data, entry.bytes);
    free (value.data);
    free (entry.data);
    return message ("m", 1, part, &tensor);
}

static wm_buffer_t with_parameter (uint32_t part, uint32_t tag, const char *name)
{
    return with_number (part, tag, name, 1);
}

/* How many classes are wanted.  */
static void test_classes (void **state)
{
    static const struct {
        int64_t given;
        uint32_t taken;
    } cases[] = { { 0, 0 }, { 1, 1 }, { 1000, 1000 }, { INT64_MAX, UINT32_MAX } };
    wm_infer_t infer = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        decodes (&infer, with_number (6, 2, "classification", cases[i].given), WM_KS_OK, NULL);
        assert_int_equal (infer.request.n_class[0], cases[i].taken);
        done (&infer);
    }
    decodes (&infer, with_parameter (6, 2, "other"), WM_KS_OK, NULL);
    assert_int_equal (infer.request.n_class[0], 0);
    done (&infer);
}

static void test_refused (void **state)
{
    wm_infer_t infer = { 0 };
    const int64_t dims[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 }, many = INT64_MAX;
    decodes (&infer, short_by (simple ("FP32", 1, "abcd", 4), 1), WM_KS_INVALID, "protobuf");
    decodes (&infer, simple ("FP32", 1, "abcde", 5), WM_KS_INVALID, "Expected 4, got 5");
    decodes (&infer, simple ("FP32", -1, "abcd", 4), WM_KS_INVALID, "negative dimension");
    decodes (&infer, simple ("FP32", many, "abcd", 4), WM_KS_INVALID, "byte size overflow");
    decodes (&infer, simple ("FP31", 1, "abcd", 4), WM_KS_INVALID, "invalid datatype 'FP31'");
    decodes (&infer, simple ("FP16", 1, NULL, 0), WM_KS_INVALID, "raw_input_contents");
    decodes (&infer, simple ("FP32", 1, NULL, 0), WM_KS_INVALID, "Expected 4, got 0");
    decodes (&infer, simple ("BYTES", 1, "\5\0\0\0ab", 6), WM_KS_INVALID, "4 bytes");
    decodes (&infer, simple ("BYTES", 1, "\0\0", 2), WM_KS_INVALID, "4 bytes");
    decodes (&infer, with_parameter (5, 4, "shared_memory_region"), WM_KS_UNIMPLEMENTED, "shared");
    decodes (&infer, with_number (6, 2, "classification", -1), WM_KS_INVALID, "number of classes");
    wm_buffer_t one = input ("x", "FP32", 9, dims, NULL);
    decodes (&infer, message ("m", 1, 5, &one), WM_KS_INVALID, "more than 8 dimensions");
    wm_buffer_t raw = bytes_of ("", 0);
    decodes (&infer, message ("m", 1, 7, &raw), WM_KS_INVALID, "expected 0 raw input contents");
    wm_buffer_t contents = { 0 };
    wm_proto_put_number (&contents, 2, 300);
    one = input ("x", "INT8", 1, dims, &contents);
    decodes (&infer, message ("m", 1, 5, &one), WM_KS_INVALID, "not values of INT8");
    contents = (wm_buffer_t){ 0 };
    wm_proto_put_number (&contents, 2, 1);
    one = input ("x", "INT32", 1, dims, &contents);
    raw = bytes_of ("abcd", 4);
    decodes (&infer, message ("m", 2, 5, &one, 7, &raw), WM_KS_INVALID, "must not be specified");
    one = input ("\xff", "FP32", 0, NULL, NULL);
    decodes (&infer, message ("m", 1, 5, &one), WM_KS_INVALID, "name of an input is not UTF-8");
    wm_buffer_t all = { 0 };
    for (int i = 0; i < 300; i++)
        wm_proto_put_bytes (&all, 5, "", 0);
    decodes (&infer, all, WM_KS_INVALID, "at most 256");
    done (&infer);
}

/* 3 million values of a byte each would be 24 MB: more than `contents` may become.  */
static void test_expansion (void **state)
{
    const int64_t n = 3 << 20;
    wm_infer_t infer = { 0 };
    wm_buffer_t contents = { 0 };
    wm_proto_put_head (&contents, 3, (size_t) n);
    memset (wm_buffer_room (&contents, (size_t) n), 1, (size_t) n);
    contents.bytes += (size_t) n;
    wm_buffer_t one = input ("x", "INT64", 1, &n, &contents);
    decodes (&infer, message ("m", 1, 5, &one), WM_KS_EXHAUSTED, "raw_input_contents");
    done (&infer);
}

static void test_encode (void **state)
{
    static float value[2] = { 1, 2 };
    wm_kserve_tensor_t output = { "y", WM_TYPE_FP32, 2, { 1, 2 }, (uint8_t *) value, 8 };
    const wm_ks_answer_t answer = {
        .model = "m", .version = "1", .output = &output, .n_output = 1, .n_held = 300
    };
    const wm_infer_t infer = { .request.id = "7" };
    static const uint8_t wanted[] = "\12\1m\22\0011\32\0017"
                                    "\42\24\12\15wiremill_held\22\3\20\254\2"
                                    "\52\15\12\1y\22\4FP32\32\2\1\2"
                                    "\62\10\0\0\200?\0\0\0@";
    wm_buffer_t to = { 0 };
    wm_piece_t piece;
    assert_int_equal (wm_infer_encode (&to, &infer, &answer, &piece), 8);
    assert_true (piece.data == (uint8_t *) value && piece.bytes == 8 && !output.data);
    assert_int_equal (piece.before, to.bytes);
    wm_buffer_put (&to, piece.data, piece.bytes);
    assert_int_equal (to.bytes, sizeof wanted - 1);
    assert_memory_equal (to.data, wanted, to.bytes);
    free (to.data);
}

static void test_tables (void **state)
{
    json_error_t why;
    json_t *json = json_loads ("{\"config\": {\"name\": \"m\", \"max_batch_size\": 300, \"input\": "
                               "[{\"data_type\": \"TYPE_FP32\", \"dims\": [-1, \"3\"]}, {}], "
                               "\"version_policy\": {\"all\": {}}, \"unknown\": [1], "
                               "\"parameters\": {\"k\": {\"string_value\": \"v\"}}}}",
                               0, &why);
    static const uint8_t wanted[] = "\12\47\12\1m\32\2\22\0\40\254\2"
                                    "\52\17\20\13\42\13\377\377\377\377\377\377\377\377\377\1\3"
                                    "\52\0"
                                    "\162\10\12\1k\22\3\12\1v";
    wm_buffer_t to = { 0 };
    assert_non_null (json);
    wm_proto_put_json (&to, wm_message_config, json);
    assert_int_equal (to.bytes, sizeof wanted - 1);
    assert_memory_equal (to.data, wanted, to.bytes);
    json_decref (json);
    free (to.data);
    json = wm_proto_json (wm_message_model,
                          "\12\2ab\22\1"
                          "1\30\5",
                          9);
    assert_string_equal (json_string_value (json_object_get (json, "name")), "ab");
    assert_string_equal (json_string_value (json_object_get (json, "version")), "1");
    json_decref (json);
    assert_null (wm_proto_json (wm_message_model, "\12\5ab", 4));
    assert_null (wm_proto_json (wm_message_model, "\10\1", 2)); /* a text that is a number */
    assert_null (wm_proto_json (wm_message_model, "\12\1\377", 3));
    assert_null (wm_proto_json (wm_message_model, "\13", 1)); /* a group */
}

/* ---- HTTP ------------------------------------------------------------------------------------ */

/* The body is JSON (' stands for ") and what comes behind it.  */
static void http (wm_infer_t *infer, const char *json, const char *tail, wm_ks_code_t code,
                  const char *text)
{
    wm_ks_error_t error = { 0 };
    const size_t n = strlen (json), all = n + strlen (tail);
    char *body = malloc (all + 1);
    strcpy (body, json);
    strcat (body, tail);
    for (size_t i = 0; i < n; i++)
        if (body[i] == '\'')
            body[i] = '"';
    wm_infer_free (infer);
    infer->request.model = "m";
    wm_ks_code_t got = wm_infer_decode_http (infer, body, all, n, &error);
    for (size_t bytes = 1; !got && wm_infer_values (infer, &bytes, &error); bytes = 1)
        ; /* by slices of one character */
    if (!got)
        got = error.code;
    if (got != code || (text && !strstr (error.text, text)))
        fail_msg ("%s: code %d, \"%s\"; wanted %d, \"%s\"", json, got, error.text, code,
                  text ? text : "");
    if (code)
        free (body);
    else
        infer->owner = body;
}

#define ONE(rest) "{'inputs': [{'name': 'x', 'shape': [2], " rest "}]}"

static void test_http (void **state)
{
    wm_infer_t infer = { 0 };
    http (&infer,
          "{'id': 'a', 'parameters': {'priority': 2, 'timeout': 5}, 'inputs': [{'name': "
          "'x', 'shape': [2, 1], 'datatype': 'INT16', 'data': [[-5], [300]]}], 'outputs': "
          "[{'name': 'y', 'parameters': {'binary_data': true}}, {'name': 'z'}]}",
          "", WM_KS_OK, NULL);
    assert_memory_equal (infer.request.input[0].data, "\373\377\54\1", 4);
    assert_int_equal (infer.request.priority, 2);
    assert_int_equal (infer.timeout_us, 5);
    assert_false (infer.is_json[0]);
    assert_true (infer.is_json[1]);
    free (infer.owner);
    http (&infer, ONE ("'datatype': 'UINT8', 'parameters': {'binary_data_size': 2}"), "ab",
          WM_KS_OK, NULL);
    assert_memory_equal (infer.request.input[0].data, "ab", 2);
    free (infer.owner);
    http (&infer, ONE ("'datatype': 'BOOL', 'data': [true, 0]"), "", WM_KS_OK, NULL);
    assert_memory_equal (infer.request.input[0].data, "\1\0", 2);
    free (infer.owner);
    wm_infer_free (&infer);
}

static void test_http_refused (void **state)
{
    wm_infer_t infer = { 0 };
    static const struct {
        const char *json, *tail, *text;
    } of[] = {
        { "{", "", "failed to parse the request JSON buffer" },
        { "[]", "", "no object" },
        { "{}", "", "Unable to parse 'inputs': the request has none; give an array of at most" },
        { "{'inputs': 3}", "", "'inputs': it is not an array" },
        { "{'inputs': [], 'outputs': {}}", "", "'outputs': it is not an array" },
        { "{'inputs': [{}]}", "", "Unable to parse 'name'" },
        { "{'inputs': [], 'id': 3}", "", "Unable to parse 'id'" },
        { "{'inputs': [], 'outputs': [{}]}", "", "Unable to parse 'name'" },
        { "{'inputs': []}", "x", "unexpected additional input data" },
        { ONE ("'datatype': 'FP99'"), "", "invalid datatype" },
        { ONE ("'datatype': 'FP32'"), "", "Unable to parse 'data'" },
        { ONE ("'datatype': 'FP32', 'data': [1]"), "", "fewer values than its shape" },
        { ONE ("'datatype': 'FP32', 'data': [1  ]"), "", "Expected 8, got 4" },
        { ONE ("'datatype': 'FP32', 'data': [1,2,3]"), "", "Expected 8, got more than 8" },
        { ONE ("'datatype': 'BYTES', 'data': ['a', 'b']"), "",
          "is of type BYTES, and models here take numbers" },
        { ONE ("'datatype': 'FP32', 'data': 5"), "", "Unable to parse 'data'" },
        { ONE ("'datatype': 'FP32', 'data': true"), "", "Unable to parse 'data'" },
        { ONE ("'datatype': 'FP32', 'd\\u0061ta': [1, 2]"), "", "Unable to parse 'data'" },
        { ONE ("'datatype': 'FP32', 'data': [1, 2], 'd\\u0061ta': 1"), "", "duplicate" },
        { ONE ("'datatype': 'FP32', 'data': [1, 2"), "", "failed to parse" },
        { ONE ("'datatype': 'FP32', 'data': ['a', 'b']"), "", "Unable to parse 'data'" },
        { ONE ("'datatype': 'FP16', 'data': [1, 2]"), "",
          "receiving FP16 data via JSON is not supported" },
        { ONE ("'datatype': 'UINT8', 'data': [1, 256]"), "", "Unable to parse 'data'" },
        { ONE ("'datatype': 'INT8', 'data': [1, -129]"), "", "Unable to parse 'data'" },
        { ONE ("'datatype': 'UINT8', 'data': [1, -1]"), "", "Unable to parse 'data'" },
        { ONE ("'datatype': 'UINT8', 'parameters': {'binary_data_size': 3}"), "ab",
          "1 additional" },
        { ONE ("'datatype': 'UINT8', 'parameters': {'binary_data_size': -1}"), "", "an integer" },
        { "{'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': 3}]}", "", "'shape'" },
    };
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        http (&infer, of[i].json, of[i].tail, WM_KS_INVALID, of[i].text);
    http (&infer, ONE ("'datatype': 'UINT8', 'parameters': {'shared_memory_region': 'r'}"), "",
          WM_KS_UNIMPLEMENTED, "shared memory");
    http (&infer, "{'inputs': [{'name': 'x', 'datatype': 'FP32', 'shape': [-1]}]}", "",
          WM_KS_INTERNAL, "'x' has a negative dimension"); /* as Triton's test of it wants */
    wm_ks_error_t error;
    assert_int_equal (wm_infer_decode_http (&infer, "{}", 2, 3, &error), WM_KS_INVALID);
    wm_infer_free (&infer);
}

static void encodes (const wm_kserve_tensor_t *output, bool is_json, const char *wanted,
                     size_t json_wanted)
{
    wm_infer_t infer = { .all_json = is_json, .request = { .id = "i\"" } };
    wm_kserve_tensor_t taken = *output;
    taken.data = memcpy (malloc (output->bytes), output->data, output->bytes);
    const wm_ks_answer_t answer = {
        .model = "m", .version = "1", .output = &taken, .n_output = 1, .n_held = is_json
    };
    wm_infer_page_t page;
    wm_ks_error_t error;
    assert_int_equal (wm_infer_page (&page, &infer, &answer, &error), WM_KS_OK);
    const size_t head = page.to.bytes;
    page.answer = wm_infer_keep (&infer, &answer);
    assert_null (taken.data);
    for (size_t left = 1; wm_infer_write (&page, &left); left = 1)
        assert_int_equal (left, 0);
    assert_in_range (page.to.bytes, head,
                     head + 100 + strlen (output->name) + wm_infer_text_bytes (&infer, &answer));
    wm_buffer_put (&page.to, "", 1);
    assert_string_equal ((char *) page.to.data, wanted);
    assert_int_equal (page.json_bytes, json_wanted);
    free (page.to.data);
    wm_infer_free (&infer);
}

static void test_http_encode (void **state)
{
    const float value[5] = { 0.1f, -1e30f, (float) NAN, (float) -INFINITY, -0.0f };
    const int16_t number[2] = { -3, 7 };
    wm_kserve_tensor_t tensor = { "y", WM_TYPE_FP32, 1, { 5 }, (const uint8_t *) value, 20 };
    encodes (
        &tensor, true,
        "{\"model_name\":\"m\",\"model_version\":\"1\",\"id\":\"i\\\"\",\"parameters\":{"
        "\"wiremill_held\":1},\"outputs\":[{\"name\":\"y\",\"datatype\":\"FP32\",\"shape\":[5],"
        "\"data\":[0.100000001,-1.00000002e+30,null,-Infinity,-0.0]}]}",
        SIZE_MAX);
    tensor = (wm_kserve_tensor_t){ "y", WM_TYPE_INT16, 1, { 2 }, (const uint8_t *) number, 4 };
    encodes (
        &tensor, true,
        "{\"model_name\":\"m\",\"model_version\":\"1\",\"id\":\"i\\\"\",\"parameters\":{"
        "\"wiremill_held\":1},\"outputs\":[{\"name\":\"y\",\"datatype\":\"INT16\",\"shape\":[2],"
        "\"data\":[-3,7]}]}",
        SIZE_MAX);
    tensor = (wm_kserve_tensor_t){ "y", WM_TYPE_UINT8, 1, { 2 }, (const uint8_t *) "ab", 2 };
    encodes (
        &tensor, false,
        "{\"model_name\":\"m\",\"model_version\":\"1\",\"id\":\"i\\\"\",\"outputs\":[{\"name\":"
        "\"y\",\"datatype\":\"UINT8\",\"shape\":[2],\"parameters\":{\"binary_data_size\":2}}]}"
        "ab",
        141);
    tensor.type = WM_TYPE_FP16;
    wm_infer_t infer = { .all_json = true, .request = { .id = "" } };
    const wm_ks_answer_t answer = {
        .model = "m", .version = "1", .output = &tensor, .n_output = 1
    };
    wm_infer_page_t page;
    wm_ks_error_t error;
    assert_int_equal (wm_infer_page (&page, &infer, &answer, &error), WM_KS_INVALID);
    assert_null (page.to.data);
}

/* ---- memory, the loop ------------------------------------------------------------------------ */

/* Of the models: what they keep for a request.  */
static size_t models_need;

size_t __wrap_wm_models_need (wm_models_t *self, const wm_ks_request_t *request)
{
    return models_need;
}

/* What a request holds beside its bytes: its values and its scores, each within the limit of a
   message; what is kept takes the place of what was.  */
static void test_need (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_share_t share = { 0 };
    wm_hold_t hold = { 0 };
    wm_front_t front = { .message_max = 100, .budget = wm_budget_new (loop, 300, 300, 100) };
    wm_infer_t infer = { .front = &front, .hold = &hold, .share = &share };
    wm_ks_error_t error;
    size_t more;
    infer.request.transport = &infer;
    infer.request.calls = &wm_infer_calls;
    infer.values_bytes = 100;
    models_need = 100;
    assert_int_equal (wm_infer_need (&infer, &more, &error), WM_KS_OK);
    assert_int_equal (more, 200);
    infer.values_bytes = 101;
    assert_int_equal (wm_infer_need (&infer, &more, &error), WM_KS_EXHAUSTED);
    infer.values_bytes = 0;
    models_need = 101;
    assert_int_equal (wm_infer_need (&infer, &more, &error), WM_KS_EXHAUSTED);
    models_need = 40;
    assert_int_equal (wm_infer_need (&infer, &more, &error), WM_KS_OK);
    assert_int_equal (more, 40);
    wm_hold_set (front.budget, &hold, &share, 200 + 40);
    assert_true (wm_infer_calls.keep (&infer.request, 100));
    assert_int_equal (hold.bytes, 300);
    assert_true (wm_infer_calls.has_room (&infer.request));
    assert_false (wm_infer_calls.keep (&infer.request, 101));
    assert_true (wm_infer_calls.keep (&infer.request, 10));
    assert_int_equal (wm_budget_bytes (front.budget), 210);
    wm_hold_set (front.budget, &hold, &share, 301);
    assert_false (wm_infer_calls.has_room (&infer.request));
    wm_hold_give (front.budget, &hold);
    for (size_t n = 0; n < 40; n++) { /* each piece for values of any type, and apart from others */
        uint8_t *one = wm_infer_alloc (&infer, n + 1), *other = wm_infer_alloc (&infer, 1);
        assert_true ((uintptr_t) one % 16 == 0 && (other >= one + n + 1 || other < one));
    }
    wm_infer_free (&infer);
    wm_budget_destroy (&front.budget);
    wm_loop_destroy (&loop);
}

/* Bytes of shapes and of texts.  */
static void test_sizes (void **state)
{
    size_t bytes;
    wm_kserve_tensor_t tensor = { "x", WM_TYPE_INT16, 3, { 3, 0, 5 }, NULL, 0 };
    assert_true (wm_infer_bytes (&tensor, &bytes));
    assert_int_equal (bytes, 0);
    tensor.dim[2] = -5;
    assert_false (wm_infer_bytes (&tensor, &bytes));
    tensor.dim[1] = 7, tensor.dim[2] = 5;
    assert_true (wm_infer_bytes (&tensor, &bytes));
    assert_int_equal (bytes, 2 * 3 * 7 * 5);
    wm_ks_error_t error;
    const wm_ks_request_t request = { .model = "m" };
    tensor.dim[0] = INT64_MAX / 2;
    assert_false (wm_infer_bytes (&tensor, &bytes));
    wm_infer_misshapen (&request, &tensor, &error);
    assert_string_equal (error.text, "the shape of input 'x' causes total element count to exceed "
                                     "maximum size of 18446744073709551615");
    tensor.dim[0] = INT64_MAX / 30;
    assert_false (wm_infer_bytes (&tensor, &bytes));
    wm_infer_misshapen (&request, &tensor, &error);
    assert_string_equal (error.text, "byte size overflow for input 'x'");
    static const uint8_t texts[] = { 1, 0, 0, 0, 'a', 0, 0, 0, 0, 2, 0, 0, 0, 'b', 'c' };
    for (size_t n = 0; n <= sizeof texts; n++) {
        const int64_t whole = n == 0 ? 0 : n == 5 ? 1 : n == 9 ? 2 : n == sizeof texts ? 3 : -1;
        for (int64_t dim = 0; dim < 4; dim++) {
            const wm_kserve_tensor_t some = { "x", WM_TYPE_BYTES, 1, { dim }, texts, n };
            assert_int_equal (wm_infer_check (&request, &some, &error),
                              dim == whole ? WM_KS_OK : WM_KS_INVALID);
        }
    }
}

static void test_budget (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_budget_t *budget = wm_budget_new (loop, 100, 60, 100);
    wm_share_t a = { 0 }, b = { 0 }, c = { 0 };
    wm_hold_t hold[6] = { 0 };
    *order = 0;
    assert_true (wm_hold_take (budget, &hold[0], &a, 50, note, "0"));
    assert_false (wm_hold_take (budget, &hold[1], &a, 20, note, "1")); /* more than its share */
    assert_false (wm_hold_take (budget, &hold[2], &b, 60, note, "2")); /* more than is left */
    assert_false (wm_hold_take (budget, &hold[3], &c, 10, note, "3")); /* comes behind that */
    assert_true (wm_hold_take (budget, &hold[0], &a, 120, note, "0")); /* has some: exceeds */
    assert_int_equal (wm_budget_bytes (budget), 120);
    wm_hold_set (budget, &hold[4], &c, 5);
    assert_false (wm_hold_take (budget, &hold[4], &c, 9, note, "4"));  /* one at a time exceeds */
    assert_true (wm_hold_take (budget, &hold[0], &a, 130, note, "0")); /* it may go on */
    wm_hold_give (budget, &hold[0]);
    turn (&loop);
    assert_string_equal (order, "4123"); /* who has some comes first */
    assert_int_equal (wm_budget_bytes (budget), 20 + 60 + 10 + 9);
    assert_false (wm_hold_take (budget, &hold[5], &b, 10, note, "5"));
    wm_hold_give (budget, &hold[5]); /* waits no more */
    wm_hold_give (budget, &hold[2]);
    turn (&loop);
    assert_string_equal (order, "4123");
    assert_int_equal (a.bytes + b.bytes + c.bytes, 39);
    wm_loop_destroy (&loop);
    wm_budget_destroy (&budget);
}

/* One that is larger than everything goes alone.  */
static void test_budget_large (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_budget_t *budget = wm_budget_new (loop, 100, 60, 100);
    wm_share_t a = { 0 }, b = { 0 };
    wm_hold_t hold[2] = { 0 };
    *order = 0;
    assert_true (wm_hold_take (budget, &hold[0], &a, 70, note, "0"));
    assert_false (wm_hold_take (budget, &hold[1], &b, 90, note, "1"));
    wm_hold_give (budget, &hold[0]);
    wm_hold_give (budget, &hold[0]); /* twice is once */
    turn (&loop);
    assert_string_equal (order, "1");
    wm_loop_destroy (&loop);
    wm_budget_destroy (&budget);
}

/* ---- slices, compressed bytes ---------------------------------------------------------------- */

typedef struct {
    wm_slice_t slice;
    size_t left;
    const char *name;
} chore_t;

static bool do_chore (void *argument, size_t *left)
{
    chore_t *self = argument;
    const size_t n = self->left < *left ? self->left : *left;
    strcat (order, self->name);
    self->left -= n;
    *left -= n;
    return self->left > 0;
}

/* A round of the loop does one slice of a large job, and then it is another's turn.  */
static void test_slices (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    wm_slices_t *slices = wm_slices_new (loop);
    chore_t job[] = { { .left = 10 * WM_SLICE_BYTES, .name = "a" },
                      { .left = 9, .name = "b" },
                      { .left = 9, .name = "c" },
                      { .left = 2 * WM_SLICE_BYTES, .name = "d" },
                      { .left = 1, .name = "e" } };
    *order = 0;
    wm_slice_begin (slices, &job[4].slice, do_chore, &job[4]);
    for (size_t i = 0; i < 5; i++)
        wm_slice_begin (slices, &job[i].slice, do_chore, &job[i]); /* e is at the end now */
    wm_slice_end (&job[4].slice);
    wm_slice_end (&job[4].slice);
    assert_string_equal (order, "");
    /* a turn may be over before the next slice is due */
    while (job[0].left + job[1].left + job[2].left + job[3].left)
        turn (&loop);
    turn (&loop);
    /* a's slices alternate with those of the others; b, c and a part of d are one slice */
    assert_string_equal (order, "abcdadadaaaaaaaa");
    wm_loop_destroy (&loop);
    wm_slices_destroy (&slices);
}

typedef struct {
    wm_loop_t *loop;
    wm_slices_t *slices;
    int state;       /* -1: not told */
    uint32_t n_turn; /* of the loop, until then */
} zips_t;

static void on_zip (void *argument, wm_zip_state_t state)
{
    ((zips_t *) argument)->state = (int) state;
}

static zips_t zips_new (void)
{
    wm_loop_t *loop = wm_loop_new ();
    return (zips_t){ loop, wm_slices_new (loop), -1, 0 };
}

static int told (zips_t *self)
{
    self->state = -1;
    for (self->n_turn = 0; self->state < 0; self->n_turn++)
        turn (&self->loop);
    return self->state;
}

/* Inflates; returns the last state, the bytes and what it is (freed by the caller).  */
static wm_zip_state_t inflate_all (zips_t *zips, const uint8_t *data, size_t n, size_t max,
                                   size_t *bytes, uint8_t **plain)
{
    uint8_t *copy = malloc (n + 1); /* exact, for the sanitizers */
    memcpy (copy, data, n);
    wm_zip_t *zip = wm_inflate_new (zips->slices, copy, n, max, on_zip, zips);
    int state = told (zips);
    *bytes = wm_zip_bytes (zip);
    *plain = NULL;
    if (state == WM_ZIP_COUNTED) {
        wm_zip_go (zip);
        state = told (zips);
        *plain = wm_zip_take (zip);
    }
    wm_zip_destroy (&zip);
    free (copy);
    return (wm_zip_state_t) state;
}

static uint8_t *deflate_all (zips_t *zips, const uint8_t *data, size_t n, bool is_gzip,
                             size_t *bytes)
{
    wm_zip_t *zip = wm_deflate_new (zips->slices, data, n, is_gzip, on_zip, zips);
    assert_int_equal (told (zips), WM_ZIP_DONE);
    *bytes = wm_zip_bytes (zip);
    uint8_t *packed = wm_zip_take (zip);
    wm_zip_destroy (&zip);
    return packed;
}

static void test_inflate (void **state)
{
    zips_t zips = zips_new ();
    const size_t n = 3 << 20;
    uint8_t *plain = calloc (1, n), *back;
    for (size_t i = 0; i < n / 4; i++)
        plain[i] = (uint8_t) (i * i >> 3) ^ (uint8_t) (i >> 9);
    for (int is_gzip = 0; is_gzip < 2; is_gzip++) {
        size_t packed, bytes;
        uint8_t *small = deflate_all (&zips, plain, n, is_gzip, &packed);
        assert_true (packed < n / 2);
        assert_true (is_gzip == (small[0] == 0x1f && small[1] == 0x8b));
        assert_true (zips.n_turn + 1 >= n / WM_SLICE_BYTES); /* others had their turns */
        assert_int_equal (inflate_all (&zips, small, packed, n, &bytes, &back), WM_ZIP_DONE);
        assert_int_equal (bytes, n);
        assert_true (zips.n_turn + 1 >= n / WM_SLICE_BYTES);
        assert_memory_equal (plain, back, n);
        free (back);
        assert_int_equal (inflate_all (&zips, small, packed, n - 1, &bytes, &back),
                          WM_ZIP_TOO_LARGE);
        assert_int_equal (inflate_all (&zips, small, packed - 1, n, &bytes, &back), WM_ZIP_DAMAGED);
        assert_int_equal (inflate_all (&zips, small, 0, n, &bytes, &back), WM_ZIP_DAMAGED);
        uint8_t *longer = calloc (1, packed + 1); /* a byte behind its end */
        memcpy (longer, small, packed);
        assert_int_equal (inflate_all (&zips, longer, packed + 1, n, &bytes, &back),
                          WM_ZIP_DAMAGED);
        free (longer);
        small[packed - 2] ^= 255; /* in the checksum, or in gzip's count */
        assert_int_equal (inflate_all (&zips, small, packed, n, &bytes, &back), WM_ZIP_DAMAGED);
        wm_zip_t *zip = wm_inflate_new (zips.slices, small, packed, n, on_zip, &zips);
        turn (&zips.loop);
        wm_zip_destroy (&zip); /* in the middle */
        turn (&zips.loop);
        free (small);
    }
    assert_int_equal (wm_inflate_max (10, 1 << 20), 1 << 20);
    assert_int_equal (wm_inflate_max (10, SIZE_MAX), (32 << 20) + 200);
    assert_int_equal (wm_inflate_max (SIZE_MAX, SIZE_MAX), SIZE_MAX);
    free (plain);
    wm_loop_destroy (&zips.loop);
    wm_slices_destroy (&zips.slices);
}

typedef struct {
    wm_loop_watch_t *watch[2];
    int n;
} pair_t;

/* Both are ready: whoever comes first removes both.  */
static void remove_both (void *argument, uint32_t events)
{
    pair_t *pair = argument;
    assert_true (events & EPOLLOUT);
    wm_loop_unwatch (&pair->watch[0]);
    wm_loop_unwatch (&pair->watch[1]);
    pair->n++;
}

static void test_loop (void **state)
{
    wm_loop_t *loop = wm_loop_new ();
    const int64_t now = wm_loop_now_us (loop);
    int pipes[2][2];
    pair_t pair = { .n = 0 };
    *order = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal (pipe (pipes[i]), 0);
        pair.watch[i] = wm_loop_watch (loop, pipes[i][1], EPOLLOUT, remove_both, &pair);
        assert_non_null (pair.watch[i]);
    }
    assert_null (wm_loop_watch (loop, -1, EPOLLIN, remove_both, &pair));
    wm_timer_t *never = wm_loop_timer (loop, now + 3, note, "x");
    wm_loop_timer (loop, now + 4, note, "d");
    wm_loop_timer (loop, now + 1, note, "b");
    wm_loop_timer (loop, now + 2, note, "c");
    wm_loop_timer (loop, now + 5, stop, loop);
    wm_loop_untimer (&never);
    assert_null (never);
    wm_loop_later (loop, note, "a");
    assert_int_equal (wm_loop_run (loop), 0);
    assert_string_equal (order, "abcd");
    assert_int_equal (pair.n, 1);
    wm_loop_destroy (&loop);
    for (int i = 0; i < 4; i++)
        close (pipes[i / 2][i % 2]);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_raw),           cmocka_unit_test (test_contents),
        cmocka_unit_test (test_contents_real), cmocka_unit_test (test_refused),
        cmocka_unit_test (test_classes),       cmocka_unit_test (test_expansion),
        cmocka_unit_test (test_encode),        cmocka_unit_test (test_tables),
        cmocka_unit_test (test_http),          cmocka_unit_test (test_http_refused),
        cmocka_unit_test (test_http_encode),   cmocka_unit_test (test_slices),
        cmocka_unit_test (test_inflate),       cmocka_unit_test (test_need),
        cmocka_unit_test (test_sizes),         cmocka_unit_test (test_budget),
        cmocka_unit_test (test_budget_large),  cmocka_unit_test (test_loop),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
