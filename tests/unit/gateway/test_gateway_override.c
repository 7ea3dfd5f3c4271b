/* test_gateway_override.c - parameters of a load: configurations and files in JSON and protobuf,
   base64 of all lengths, what is refused, and where files go.  */
#include "producer/net/wm_pbtxt.h"
#include "producer/net/wm_proto.h"
#include "producer/serving/wm_models_private.h"
#include "producer/serving/wm_override.h"
#include "tests/unit/unit.h"

#include <czmq.h>
#include <stdlib.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static wm_override_t given;
static char body[1 << 16];

/* ' stands for ".  */
static wm_ks_code_t read_json (const char *text, wm_ks_error_t *error)
{
    snprintf (body, sizeof body, "%s", text);
    for (char *at = body; *at; at++)
        *at = *at == '\'' ? '"' : *at;
    return wm_override_json (&given, (uint8_t *) body, strlen (body), error);
}

static void test_json (void **state)
{
    wm_ks_error_t error;
    assert_int_equal (read_json ("", &error), WM_KS_OK);
    assert_true (wm_override_is_empty (&given));
    assert_int_equal (read_json ("{'parameters': {'other': [1, {'file:2/x': 'AAAA'}]}}", &error),
                      WM_KS_OK);
    assert_true (wm_override_is_empty (&given));
    assert_int_equal (
        read_json ("{'file:9/no': 'AAAA', 'parameters' : { 'file:1/a b': 1 } }", &error),
        WM_KS_INVALID);
    assert_int_equal (
        read_json ("{ 'parameters' : {'file:1/model.onnx' :\n'aGVsbG8=', 'config':'{ \\'a\\': 1 }',"
                   " 'x': 'file:', 'file:l.txt': '\\/\\/8=', 'file:12/e': ''} }",
                   &error),
        WM_KS_OK);
    assert_string_equal (given.config, "{ \"a\": 1 }");
    assert_int_equal (given.n_file, 3);
    assert_string_equal (given.file[0].name, "1/model.onnx");
    assert_true (given.file[0].bytes == 5 && memcmp (given.file[0].data, "hello", 5) == 0);
    assert_string_equal (given.file[1].name, "l.txt");
    assert_true (given.file[1].bytes == 2 && memcmp (given.file[1].data, "\xff\xff", 2) == 0);
    assert_true (given.file[2].bytes == 0);
    wm_override_clear (&given);
    assert_true (wm_override_is_empty (&given));
}

/* Every length, by an encoder of the test's own.  */
static void test_base64 (void **state)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t n = 0; n < 300; n++) {
        uint8_t want[300];
        char text[600] = "{'parameters':{'config':'{}','file:1/x':'";
        size_t at = strlen (text);
        for (size_t i = 0; i < n; i++)
            want[i] = (uint8_t) (i * 151 + n * 7);
        for (size_t i = 0; i < n; i += 3) {
            const uint32_t bits = (uint32_t) want[i] << 16 | (i + 1 < n ? want[i + 1] << 8 : 0) |
                                  (i + 2 < n ? want[i + 2] : 0);
            for (size_t k = 0; k < 4; k++)
                text[at++] = i + k > n ? '=' : digits[bits >> (18 - 6 * k) & 63];
        }
        strcpy (text + at, "'}}");
        wm_ks_error_t error;
        assert_int_equal (read_json (text, &error), WM_KS_OK);
        assert_int_equal (given.file[0].bytes, n);
        assert_memory_equal (given.file[0].data, want, n);
        wm_override_clear (&given);
    }
    wm_ks_error_t error; /* as writers of JSON escape it */
    assert_int_equal (
        read_json ("{'parameters':{'config':'{}','file:1/x':'\\u0041A\\u002F\\/AA\\u0045\\u003d'}}",
                   &error),
        WM_KS_OK);
    assert_true (given.file[0].bytes == 5 &&
                 memcmp (given.file[0].data, "\x00\x0f\xff\x00\x01", 5) == 0);
    wm_override_clear (&given);
}

static void test_refused (void **state)
{
    static const char *const cases[][2] = {
        { "{", "failed to parse" },
        { "[]", "no JSON object" },
        { "{'parameters': []}", "no JSON object" },
        { "{'parameters': {'config': {}}}", "'config' is JSON in a text" },
        { "{'parameters': {'config': '{}', 'config': '{}'}}", "failed to parse" },
        { "{'parameters': {'file:1/x': 'AAAA'}}", "need its parameter 'config'" },
        { "{'parameters': {'config': '{}', 'file:1/x': 'AAA'}}", "no base64" },
        { "{'parameters': {'config': '{}', 'file:1/x': 'AAAAA==='}}", "no base64" },
        { "{'parameters': {'config': '{}', 'file:1/x': 'AA=A'}}", "no base64" },
        { "{'parameters': {'config': '{}', 'file:1/x': 'AA=A='}}", "no base64" },
        { "{'parameters': {'config': '{}', 'file:1/x': 'AA==AA'}}", "no base64" },
        { "{'parameters': {'config': '{}', 'file:1/x': 'A\\nAA'}}", "no base64" },
        { "{'parameters': {'config': '{}', 'file:1/x': 'AAA\\\\'}}", "no base64" },
        { "{'parameters': {'config': '{}', 'file:1/x': 'AAA\\u0141'}}", "no base64" },
        { "{'parameters': {'config': '{}', 'file:1/x': true, 'file:1/y': 'AAAA'}}", "no base64" },
        { "{'parameters': {'config': '{}', '\\u0066ile:1/x': 'AAAA'}}", "no base64" },
        { "{'parameters': {'config': '{}', 'file:1/x': 'AAAA', 'file:1\\/x': 'AAAA'}}",
          "duplicate" },
        { "{'parameters': {'config': '{}', 'file:01/x': 'AAAA'}}", "names no file" },
        { "{'parameters': {'config': '{}', 'file:1//x': 'AAAA'}}", "names no file" },
        { "{'parameters': {'config': '{}', 'file:1/x/y': 'AAAA'}}", "names no file" },
        { "{'parameters': {'config': '{}', 'file:..': 'AAAA'}}", "names no file" },
        { "{'parameters': {'config': '{}', 'file:a/x': 'AAAA'}}", "names no file" },
        { "{'parameters': {'config': '{}', 'file:/x': 'AAAA'}}", "names no file" },
        { "{'parameters': {'config': '{}', 'file:99999999999999999999/x': 'AAAA'}}",
          "names no file" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wm_ks_error_t error = { WM_KS_OK, "" };
        if (read_json (cases[i][0], &error) != WM_KS_INVALID || !strstr (error.text, cases[i][1]))
            fail_msg ("%s: %s", cases[i][0], error.text);
        assert_true (wm_override_is_empty (&given));
    }
}

/* Adds an entry of the map of parameters, of a field of its value.  */
static void put_entry (wm_buffer_t *to, const char *key, uint32_t tag, const char *text)
{
    wm_buffer_t entry = { 0 }, value = { 0 };
    wm_proto_put_bytes (&value, tag, text, strlen (text));
    wm_proto_put_text (&entry, 1, key);
    wm_proto_put_bytes (&entry, 2, value.data, value.bytes);
    wm_proto_put_bytes (to, 3, entry.data, entry.bytes);
    free (entry.data);
    free (value.data);
}

static void test_proto (void **state)
{
    wm_ks_error_t error;
    wm_buffer_t all = { 0 };
    wm_proto_put_text (&all, 2, "model");
    put_entry (&all, "other", 3, "x");
    assert_int_equal (wm_override_proto (&given, all.data, all.bytes, &error), WM_KS_OK);
    assert_true (wm_override_is_empty (&given));
    put_entry (&all, "file:1/x", 4, "hello");
    assert_int_equal (wm_override_proto (&given, all.data, all.bytes, &error), WM_KS_INVALID);
    assert_non_null (strstr (error.text, "need its parameter 'config'"));
    put_entry (&all, "config", 3, "{}");
    assert_int_equal (wm_override_proto (&given, all.data, all.bytes, &error), WM_KS_OK);
    assert_string_equal (given.config, "{}");
    assert_true (given.n_file == 1 && given.file[0].bytes == 5);
    assert_memory_equal (given.file[0].data, "hello", 5);
    wm_override_clear (&given);
    const size_t before = all.bytes;
    put_entry (&all, "file:1/x", 4, "again");
    assert_int_equal (wm_override_proto (&given, all.data, all.bytes, &error), WM_KS_INVALID);
    assert_non_null (strstr (error.text, "'file:1/x' came twice"));
    all.bytes = before;
    put_entry (&all, "file:2/x", 3, "a text");
    assert_int_equal (wm_override_proto (&given, all.data, all.bytes, &error), WM_KS_INVALID);
    assert_non_null (strstr (error.text, "'file:2/x' is no bytes_param"));
    for (int n = 100; n < 1000; n += 100) {
        char key[1024];
        snprintf (key, sizeof key, "file:1/%0*d", n, 0);
        all.bytes = before;
        put_entry (&all, key, 4, "long");
        assert_int_equal (wm_override_proto (&given, all.data, all.bytes, &error),
                          n <= WM_OVERRIDE_NAME_MAX ? WM_KS_OK
                          : n <= NAME_MAX           ? WM_KS_INVALID
                                                    : WM_KS_INTERNAL);
        assert_true (n <= WM_OVERRIDE_NAME_MAX ||
                     strstr (error.text, n <= NAME_MAX ? "names no file" : "File name too long"));
        wm_override_clear (&given);
    }
    free (all.data);
}

/* Every byte of a request in turn another one: nothing may be read or written beside it.  */
static void test_damaged (void **state)
{
    static const char text[] = "{\"parameters\":{\"config\":\"{}\",\"file:1/x\":\"AAAABBBB\"}}";
    static const char others[] = { 0, '"', '\\', '{', '}', ':', '=', 'A', (char) 0xff };
    wm_ks_error_t error;
    for (size_t i = 0; i < sizeof text; i++)
        for (size_t k = 0; k < sizeof others; k++)
            for (size_t n = 0; n < 2; n++) {
                const size_t bytes = n ? sizeof text - 1 : i;
                uint8_t *copy = malloc (bytes + 1);
                memcpy (copy, text, bytes);
                if (i < bytes)
                    copy[i] = (uint8_t) others[k];
                uint8_t *exact = realloc (copy, bytes ? bytes : 1);
                wm_override_json (&given, exact, bytes, &error);
                wm_override_clear (&given);
                wm_override_proto (&given, exact, bytes, &error);
                wm_override_clear (&given);
                free (exact);
            }
}

static void test_config (void **state)
{
    wm_error_t error;
    json_t *config = wm_override_config (
        "{\"maxBatchSize\": \"8\", \"name\": \"12\", "
        "\"input\": [{\"name\": \"x\", \"dims\": [\"-1\", 4], "
        "\"reshape\": {\"shape\": []}}], "
        "\"version_policy\": {\"specific\": {\"versions\": [\"3\"]}}, "
        "\"parameters\": {\"maxK\": {\"string_value\": \"v\"}}, \"default_model_filename\": null}",
        &error);
    assert_non_null (config);
    json_t *same = wm_pbtxt_parse (
        "max_batch_size: 8 name: '12' input { name: 'x' dims: [-1, 4] reshape { } } version_policy "
        "{ specific { versions: 3 } } parameters { key: 'maxK' value { string_value: 'v' } }",
        "config.pbtxt", &error);
    json_t *input = wm_pbtxt_message (config, "input");
    assert_int_equal (json_object_size (wm_pbtxt_message (input, "reshape")), 1);
    json_object_clear (wm_pbtxt_message (input, "reshape")); /* an empty list is none, either way */
    assert_true (json_equal (config, same));
    json_decref (config);
    json_decref (same);
    assert_null (wm_override_config ("{", &error));
    assert_null (wm_override_config ("3", &error));
    char deep[200] = "";
    for (int i = 0; i < 20; i++)
        strcat (deep, "{\"a\":");
    strcat (deep, "1}}}}}}}}}}}}}}}}}}}}");
    assert_null (wm_override_config (deep, &error));
    assert_int_equal (error.fault, WM_EBATCH);
}

static void test_files (void **state)
{
    wm_ks_error_t failed;
    wm_error_t error;
    char folder[] = "/tmp/wm-override-XXXXXX", path[PATH_MAX + 16];
    wm_loaded_sum_t sum = { .bytes_max = 6 };
    assert_non_null (mkdtemp (folder));
    read_json ("{'parameters':{'config':'{}','file:1/x':'AAAA','file:l':'AAAA'}}", &failed);
    wm_loaded_t *one = wm_loaded_new (folder, 5, &sum, &given, &error),
                *other = wm_loaded_use (one);
    assert_non_null (one);
    snprintf (path, sizeof path, "%s/1/x", one->path);
    assert_int_equal (access (path, R_OK), 0);
    wm_loaded_drop (&one);
    assert_null (one);
    assert_int_equal (access (path, R_OK), 0);
    wm_loaded_drop (&other);
    assert_int_equal (access (path, R_OK), -1);
    one = wm_loaded_new (folder, 6, &sum, &given, &error);
    snprintf (path, sizeof path, "%s/wiremill-loaded-mine", folder); /* somebody's own */
    assert_int_equal (mkdir (path, 0700), 0);
    wm_loaded_sweep (folder);
    assert_int_equal (access (one->path, F_OK), -1);
    assert_int_equal (rmdir (path), 0);
    assert_int_equal (rmdir (folder), 0);
    assert_null (wm_loaded_new ("/dev/null", 1, &sum, &given, &error));
    wm_loaded_drop (&one);
    assert_int_equal (sum.bytes, 0);
    wm_override_clear (&given);
}

/* The files of all models together are bounded; those of one that is unloaded make place.  */
static void test_sum (void **state)
{
    wm_ks_error_t failed;
    wm_error_t error;
    char folder[] = "/tmp/wm-override-XXXXXX";
    wm_loaded_sum_t sum = { .bytes_max = 13 };
    assert_non_null (mkdtemp (folder));
    read_json ("{'parameters':{'config':'{}','file:1/x':'AAAA','file:l':'AAAA'}}", &failed);
    wm_loaded_t *one = wm_loaded_new (folder, 1, &sum, &given, &error);
    wm_loaded_t *two = wm_loaded_new (folder, 2, &sum, &given, &error),
                *again = wm_loaded_use (two);
    assert_true (one && two && sum.bytes == 12);
    assert_null (wm_loaded_new (folder, 3, &sum, &given, &error));
    assert_string_equal (error.text,
                         "the files of this load have 6 bytes, and those of models that came with "
                         "loads 12: all together may have 13 (--memory); unload one of them first");
    wm_loaded_drop (&again); /* it is still used */
    assert_null (wm_loaded_new (folder, 4, &sum, &given, &error));
    wm_loaded_drop (&two);
    assert_non_null (two = wm_loaded_new (folder, 5, &sum, &given, &error));
    wm_loaded_drop (&one);
    wm_loaded_drop (&two);
    assert_int_equal (rmdir (folder), 0);
    wm_override_clear (&given);
}

/* A name goes into JSON, into paths and into gRPC's texts.  */
static void test_names (void **state)
{
    static const char *const good[] = { "m", "a b", "\xce\xbc", "m.2" };
    static const char *const bad[] = { "", ".m", "..", "a/b", "\xff", "m\xce", "\xc0\xaf" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_true (wm_repository_is_name (good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false (wm_repository_is_name (bad[i]));
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_json),    cmocka_unit_test (test_base64),
        cmocka_unit_test (test_refused), cmocka_unit_test (test_proto),
        cmocka_unit_test (test_damaged), cmocka_unit_test (test_config),
        cmocka_unit_test (test_files),   cmocka_unit_test (test_sum),
        cmocka_unit_test (test_names)
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
