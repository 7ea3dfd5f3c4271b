/* test_gateway_config.c - shapes that config.pbtxt states, against those of models: what clients
   send then, and what is refused.  */
#include "producer/net/wm_pbtxt.h"
#include "producer/serving/wm_models_private.h"
#include "tests/unit/unit.h"

#include <czmq.h>
#include <string.h>

#define FREE 0 /* as wm_signature_add has it */

/* A model of one input and one output, of the same row.  */
typedef struct {
    const char *config; /* of the input, and of the output */
    uint32_t n_dim, dim[7];
    bool is_whole;
    const char *shape, *row; /* of clients, with -1 for rows first; of the model. Or: why not */
} case_t;

static const char *print (char *text, const int64_t *dim, uint32_t n, bool has_rows)
{
    strcpy (text, has_rows ? "-1" : "");
    for (uint32_t d = 0; d < n; d++)
        sprintf (text + strlen (text), "%s%lld", *text ? "," : "", (long long) dim[d]);
    return text;
}

static wm_fault_t check (const case_t *one, wm_signature_t *signature, wm_error_t *error)
{
    char text[512];
    const char *ports = strchr (one->config, ';') + 1;
    snprintf (text, sizeof text, "%.*s input { name: 'x' %s } output { name: 'y' %s }",
              (int) (ports - 1 - one->config), one->config, ports, ports);
    json_t *config = wm_pbtxt_parse (text, "config.pbtxt", error);
    assert_non_null (config);
    *signature = (wm_signature_t){ .is_whole = one->is_whole };
    wm_signature_add (signature, false, "x", WM_TYPE_FP32, one->n_dim, one->dim);
    wm_signature_add (signature, true, "y", WM_TYPE_FP32, one->n_dim, one->dim);
    const wm_fault_t fault = wm_config_check (config, signature, error);
    json_decref (config);
    return fault;
}

static void test_taken (void **state)
{
    static const case_t cases[] = {
        { ";", 2, { 3, 4 }, false, "-1,3,4", "3,4" },
        { "max_batch_size: 8;", 2, { 3, 4 }, false, "-1,3,4", "3,4" },
        { "max_batch_size: 8; dims: [ 3, 4 ]", 2, { 3, 4 }, false, "-1,3,4", "3,4" },
        { "max_batch_size: 8; dims: 12", 2, { 3, 4 }, false, "-1,12", "3,4" },
        { "max_batch_size: 8; dims: [ -1, 4 ]", 2, { 3, 4 }, false, "-1,3,4", "3,4" },
        { "max_batch_size: 8; dims: [ 3, 7 ]", 2, { 3, FREE }, false, "-1,3,7", "3,7" },
        { "max_batch_size: 8; dims: 1 reshape { }", 0, { 0 }, false, "-1,1", "" },
        { "max_batch_size: 8; dims: [ 2, 4, -1, 6 ] reshape { shape: [ 8, -1, 1, 6 ] }",
          4,
          { 8, FREE, 1, 6 },
          false,
          "-1,2,4,-1,6",
          "8,-1,1,6" },
        { "max_batch_size: 8; dims: [ -1, 2, -1 ] reshape { shape: [ 1, -1, 1, 2, 1, -1 ] }",
          6,
          { 1, 5, 1, 2, 1, FREE },
          false,
          "-1,5,2,-1",
          "1,5,1,2,1,-1" },
        { ";dims: [ 3, 4 ]", 2, { 3, 4 }, false, "-1,3,4", "3,4" },
        { ";dims: [ -1, 3, 4 ]", 2, { 3, 4 }, false, "-1,3,4", "3,4" },
        { ";dims: [ 1, 3, 4 ]", 2, { 3, 4 }, false, "1,3,4", "3,4" },
        { "max_batch_size: 0;", 2, { 3, 4 }, false, "-1,3,4", "3,4" },
        { "max_batch_size: 0; dims: [ -1, 3, 4 ]", 2, { 3, 4 }, false, "-1,3,4", "3,4" },
        { "max_batch_size: 0; dims: [ -1, 12 ] reshape { shape: [ -1, 3, 4 ] }",
          2,
          { 3, 4 },
          false,
          "-1,12",
          "3,4" },
        { "max_batch_size: 0; dims: [ 1, 3, 4 ]", 2, { 3, 4 }, false, "1,3,4", "3,4" },
        { "max_batch_size: 0; dims: [ 3, 4 ] reshape { shape: [ 1, 3, 4 ] }",
          2,
          { 3, 4 },
          false,
          "3,4",
          "3,4" },
        { "max_batch_size: 0; dims: [ 3, -1, -1 ] reshape { shape: [ 1, 3, -1, -1 ] }",
          3,
          { 3, FREE, FREE },
          false,
          "3,-1,-1",
          "3,-1,-1" },
        { "max_batch_size: 0; dims: [ 1, 1, 1, 1, 1, 1, 3, 4 ]",
          2,
          { 3, 4 },
          true,
          "1,1,1,1,1,1,3,4",
          "3,4" },
        { "max_batch_size: 0; dims: [ 3, 4 ]", 2, { 3, 4 }, true, "3,4", "3,4" },
        { "max_batch_size: 0; dims: [ -1, 4 ]", 2, { FREE, FREE }, true, "-1,4", "-1,4" },
        { "max_batch_size: 0; dims: [ 2, 4, -1, 6 ] reshape { shape: [ 8, -1, 1, 6 ] }",
          4,
          { 8, FREE, 1, 6 },
          true,
          "2,4,-1,6",
          "8,-1,1,6" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wm_signature_t signature;
        wm_error_t error = { .text = "" };
        char text[128];
        assert_int_equal (check (&cases[i], &signature, &error), WM_OK);
        for (int k = 0; k < 2; k++) {
            const wm_signature_port_t *port = k ? &signature.output[0] : &signature.input[0];
            assert_string_equal (print (text, port->dim, port->n_dim, !signature.is_whole),
                                 cases[i].shape);
            assert_string_equal (print (text, port->model, port->n_model, false), cases[i].row);
        }
    }
}

static void test_refused (void **state)
{
    static const case_t cases[] = {
        { "max_batch_size: 8; dims: 12 reshape { shape: 12 }",
          2,
          { 3, 4 },
          false,
          "states dims [12] with reshape [12] of 'x', and the model has [3,4] there",
          NULL },
        { "max_batch_size: 8; dims: 6 reshape { shape: [ 3, 4 ] }",
          2,
          { 3, 4 },
          false,
          "states dims [6] with reshape [3,4] of 'x'",
          NULL },
        { "max_batch_size: 8; dims: 11", 2, { 3, 4 }, false, "states dims [11] of 'x'", NULL },
        { "max_batch_size: 8; dims: [ 0, 4 ]", 2, { 3, 4 }, false, "and the model has", NULL },
        { "max_batch_size: 8; dims: [ -2, 4 ]", 2, { 3, 4 }, false, "and the model has", NULL },
        { "max_batch_size: 8; dims: [ 3, 8589934592 ]",
          2,
          { 3, FREE },
          false,
          "states dims",
          NULL },
        { "max_batch_size: 8; dims: [ 1, 1, 1, 1, 1, 1, 3, 4 ]",
          2,
          { 3, 4 },
          false,
          "states dims [1,1,1,1,1,1,3,4] of 'x'",
          NULL },
        { "max_batch_size: 8; dims: [ 1, 1, 1, 1, 1, 1, 1, 3, 4 ]",
          2,
          { 3, 4 },
          false,
          "states dims",
          NULL },
        { "max_batch_size: 8; dims: -1",
          2,
          { 3, FREE },
          false,
          "states dims [-1] of 'x', and the model has [3,-1] there",
          NULL },
        { "max_batch_size: 8; dims: [ 4, -1 ]", 2, { 3, FREE }, false, "[3,-1] there", NULL },
        { "max_batch_size: 8; dims: [ 7, 4 ]",
          2,
          { 7, 4 },
          true,
          "max_batch_size 8, and the model has no batch dimension",
          NULL },
        { "max_batch_size: 0; dims: [ 2, -1, 4, 6 ] reshape { shape: [ 8, -1, 1, 6 ] }",
          4,
          { 8, FREE, 1, 6 },
          true,
          "states dims [2,-1,4,6] with reshape [8,-1,1,6]",
          NULL },
        { "max_batch_size: 0; dims: [ 8, -1 ] reshape { shape: [ 8, -1, -1 ] }",
          3,
          { 8, FREE, FREE },
          true,
          "with reshape [8,-1,-1]",
          NULL },
        { "max_batch_size: 0; dims: [ 2, 3, 4 ]",
          2,
          { 3, 4 },
          false,
          "states dims [2,3,4] of 'x', and the model has [-1,3,4] there",
          NULL },
        { "max_batch_size: 0; dims: -1 reshape { shape: [ -1, 3, 4 ] }",
          2,
          { 3, 4 },
          false,
          "states dims [-1] with reshape [-1,3,4] of 'x'",
          NULL },
        { "max_batch_size: 8; data_type: TYPE_FP16",
          2,
          { 3, 4 },
          false,
          "the model has FP32 in 'x', config.pbtxt states data_type TYPE_FP16",
          NULL },
        { "max_batch_size: 8; dims: [ 3, 4 ] } input { name: 'z'",
          2,
          { 3, 4 },
          false,
          "the model has no such input; its first is 'x'",
          NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wm_signature_t signature;
        wm_error_t error = { .text = "" };
        assert_int_equal (check (&cases[i], &signature, &error), WM_EBATCH);
        if (!strstr (error.text, cases[i].shape))
            fail_msg ("%s: %s", cases[i].config, error.text);
    }
}

/* An output may have rows where a request is one; an input may not beside one that is.  */
static void test_rows (void **state)
{
    const uint32_t dim[] = { 3, 4 };
    wm_error_t error;
    wm_signature_t one = { .is_whole = false };
    wm_signature_add (&one, false, "x", WM_TYPE_FP32, 2, dim);
    wm_signature_add (&one, false, "h", WM_TYPE_FP32, 2, dim);
    wm_signature_add (&one, true, "y", WM_TYPE_FP32, 2, dim);
    json_t *config = wm_pbtxt_parse ("max_batch_size: 0 input { name: 'x' dims: [ 1, 3, 4 ] } "
                                     "output { name: 'y' dims: [ -1, 3, 4 ] }",
                                     "c", &error);
    assert_int_equal (wm_config_check (config, &one, &error), WM_OK);
    assert_true (one.is_whole && one.output[0].n_dim == 3 && one.output[0].dim[0] == 1);
    assert_true (one.input[1].n_dim == 3 && one.input[1].dim[0] == 1); /* nothing is stated of h */
    json_decref (config);
    config = wm_pbtxt_parse ("max_batch_size: 0 input { name: 'x' dims: [ 1, 3, 4 ] } "
                             "input { name: 'h' dims: [ -1, 3, 4 ] }",
                             "c", &error);
    one.is_whole = false;
    assert_int_equal (wm_config_check (config, &one, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "dims of 'h' that begin with -1, and of 'x' that do not"));
    json_decref (config);
}

static bool is_whole (const char *text)
{
    wm_error_t error;
    json_t *config = wm_pbtxt_parse (text, "config.pbtxt", &error);
    assert_non_null (config);
    const bool is = wm_config_is_whole (config);
    json_decref (config);
    return is;
}

/* Which models are imported as ones without rows.  */
static void test_whole (void **state)
{
    assert_false (wm_config_is_whole (NULL));
    assert_false (is_whole ("max_batch_size: 8 input { dims: -1 } input { dims: [ 1, 4 ] }"));
    assert_false (is_whole ("max_batch_size: 0"));
    assert_false (is_whole ("max_batch_size: 0 input { name: 'x' }"));
    assert_false (is_whole ("max_batch_size: 0 input { dims: [ -1, 4 ] }"));
    assert_false (is_whole ("max_batch_size: 0 input { dims: [ 1, 4 ] } input { dims: 1 }"));
    assert_false (is_whole ("max_batch_size: 0 input { dims: 4 reshape { shape: [ 1, 4 ] } }"));
    assert_true (is_whole ("max_batch_size: 0 input { dims: -1 }"));
    assert_true (is_whole ("max_batch_size: 0 input { dims: [ -1, 4 ] } input { dims: [ 1, 4 ] }"));
    assert_true (is_whole ("max_batch_size: 0 input { dims: [ 8, 4 ] }"));
    assert_true (is_whole ("max_batch_size: 0 input { dims: 1 reshape { } }"));
    assert_true (is_whole ("max_batch_size: 0 input { dims: [ 1, 4 ] reshape { shape: 4 } }"));
    assert_false (is_whole ("input { dims: [ 8, 4 ] }"));
    assert_true (is_whole ("input { dims: [ -1, 4 ] } input { dims: [ -1, 4 ] }"));
}

static wm_batching_t batching_of (const char *text)
{
    wm_error_t error;
    json_t *config = wm_pbtxt_parse (text, "config.pbtxt", &error);
    assert_non_null (config);
    const wm_batching_t is = wm_config_batching (config);
    json_decref (config);
    return is;
}

static void test_batching (void **state)
{
    static const struct {
        const char *text;
        wm_batching_t is;
    } of[] = {
        { "max_batch_size: 8", { false, 0, 0, 0 } },
        { "dynamic_batching { preferred_batch_size: [ 4 ] }", { false, 0, 0, 0 } },
        { "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 100 }",
          { true, 100, 8, 0 } },
        { "dynamic_batching { max_queue_delay_microseconds: -1 }", { true, 0, 0, 0 } },
        { "dynamic_batching { max_queue_delay_microseconds: 99000000000 preferred_batch_size: "
          "[ 8, 4, 0, -3 ] default_queue_policy { max_queue_size: 3 } }",
          { true, 60000000, 4, 3 } },
        { "dynamic_batching { default_queue_policy { max_queue_size: -3 } }", { false, 0, 0, 0 } },
    };
    assert_false (wm_config_batching (NULL).has_delay);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const wm_batching_t is = batching_of (of[i].text);
        assert_int_equal (is.has_delay, of[i].is.has_delay);
        assert_int_equal (is.delay_us, of[i].is.delay_us);
        assert_int_equal (is.full, of[i].is.full);
        assert_int_equal (is.queue_max, of[i].is.queue_max);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (test_taken),
                                        cmocka_unit_test (test_refused),
                                        cmocka_unit_test (test_rows), cmocka_unit_test (test_whole),
                                        cmocka_unit_test (test_batching) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
