/* test_gateway_ragged.c - requests of a model with free dimensions: their rows, what is refused,
   and answers of rows of scores, held ones and damaged ones.  */
#include "producer/serving/wm_gather.h"
#include "producer/net/wm_slice.h"
#include "producer/serving/wm_signature.h"
#include "schema/wm_batch.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <czmq.h>

/* A model of inputs x (N, any, 2) in FP32 and i (N, any) in INT64; the played engine gives
   sum (N, any): x in pairs, and n (N): how many, in INT32.  */
static wm_signature_t signature;
static wm_loop_t *loop;
static wm_slices_t *slices;
static wm_gather_t *gather;
static wm_link_batch_t *sent[16]; /* and not answered */
static uint32_t n_sent;
static bool is_strict, has_room;
static size_t kept_max;

void wm_link_send (wm_link_t *self, wm_link_batch_t *batch, const float *value, uint32_t n,
                   size_t n_value)
{
    assert_int_equal (n, 1);
    assert_int_equal (wm_ragged_length (value, n_value), n_value);
    batch->value = value;
    batch->frame.n = n;
    sent[n_sent++] = batch;
}

bool wm_link_take_back (wm_link_t *self, wm_link_batch_t *batch)
{
    return false;
}

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct {
    wm_ks_request_t request;
    wm_kserve_tensor_t input[2];
    char *output[1];
    float x[64];
    int64_t i[32];
    bool is_answered;
    wm_ks_code_t code;
    char text[480];
    uint32_t n_held, n_dim;
    int64_t dim[2];
    float sum[64];
    int32_t n[8];
    size_t kept; /* for it, as the gatherer tells */
} ask_t;

static ask_t ask;

static void take_reply (wm_ks_request_t *request, const wm_ks_answer_t *answer)
{
    ask_t *self = request->transport;
    assert_false (self->is_answered);
    self->is_answered = true;
    self->code = answer->code;
    self->n_held = answer->n_held;
    snprintf (self->text, sizeof self->text, "%s", answer->text ? answer->text : "");
    if (answer->code)
        return;
    assert_int_equal (answer->n_output, request->n_output ? request->n_output : 2);
    const wm_kserve_tensor_t *sum = &answer->output[0];
    self->n_dim = sum->n_dim;
    memcpy (self->dim, sum->dim, sizeof self->dim);
    assert_true (sum->bytes <= sizeof self->sum);
    assert_int_equal (sum->bytes, sum->dim[0] * sum->dim[1] * 4);
    memcpy (self->sum, sum->data, sum->bytes);
    if (request->n_output)
        return;
    assert_true (answer->output[1].bytes <= sizeof self->n);
    memcpy (self->n, answer->output[1].data, answer->output[1].bytes);
}

static bool keep (wm_ks_request_t *request, size_t bytes)
{
    ask_t *self = request->transport;
    assert_false (self->is_answered);
    if (bytes > kept_max)
        return false;
    self->kept = bytes;
    return true;
}

static bool place (wm_ks_request_t *request, const wm_kserve_tensor_t *output, uint32_t n_output,
                   wm_placed_t *placed, size_t *left, wm_ks_error_t *error)
{
    error->code = WM_KS_OK;
    return false;
}

static wm_slices_t *slices_of (const wm_ks_request_t *request)
{
    return slices;
}

static bool room_of (const wm_ks_request_t *request)
{
    return has_room;
}

static const wm_transport_calls_t calls = { take_reply, keep, place, slices_of, room_of };

/* A request of so many rows of `length` pairs, and as many indices.  */
static void make (int64_t rows, int64_t length)
{
    ask = (ask_t){ .is_answered = false };
    for (int k = 0; k < 64; k++)
        ask.x[k] = (float) k / 8;
    for (int k = 0; k < 32; k++)
        ask.i[k] = k;
    ask.input[0] = (wm_kserve_tensor_t){
        "i", WM_TYPE_INT64, 2, { rows, length }, (uint8_t *) ask.i, (size_t) (rows * length) * 8
    };
    ask.input[1] = (wm_kserve_tensor_t){
        "x", WM_TYPE_FP32, 3, { rows, length, 2 }, (uint8_t *) ask.x, (size_t) (rows * length) * 8
    };
    ask.request = (wm_ks_request_t){ .model = "m",
                                     .version = "",
                                     .id = "",
                                     .input = ask.input,
                                     .n_input = 2,
                                     .client = 1,
                                     .calls = &calls,
                                     .transport = &ask };
}

/* ---- the loop and the engine ----------------------------------------------------------------- */

static void stop (void *argument)
{
    wm_loop_stop (argument);
}

static void spin (void)
{
    wm_loop_timer (loop, wm_loop_now_us (loop) + 2000, stop, loop);
    assert_int_equal (wm_loop_run (loop), 0);
}

static void add (void)
{
    wm_gather_add (gather, &ask.request);
    spin ();
}

/* Answers the oldest row with this status and score; NULL: no score.  */
static void give (uint8_t status, const float *score)
{
    wm_link_batch_t *batch = sent[0];
    memmove (sent, sent + 1, --n_sent * sizeof *sent);
    wm_gather_answered (gather, batch, &status, (const uint8_t *) score, NULL);
    spin ();
}

/* The scores of the oldest row; `less` values of it are left out. Returns their number.  */
static uint32_t score_row (float *score, uint32_t less)
{
    wm_ragged_t in[WM_RAGGED_TENSORS_MAX], out[2] = { { .n_dim = 1 }, { .n_dim = 0 } };
    const float *row = sent[0]->value;
    uint32_t n;
    assert_null (wm_ragged_read (row, (size_t) row[0], &n, in));
    assert_int_equal (n, 2);
    assert_int_equal (in[0].n_dim, 2);
    assert_int_equal (in[1].n_dim, 1);
    assert_int_equal (in[0].dim[0], in[1].dim[0]);
    out[0].dim[0] = in[0].dim[0] - less;
    const uint32_t length = wm_ragged_begin (score, 64, 2, out);
    for (uint32_t k = 0; k < out[0].n_value; k++)
        score[out[0].at + k] = row[in[0].at + 2 * k] + row[in[0].at + 2 * k + 1];
    score[out[1].at] = (float) in[0].dim[0];
    return length;
}

static int begin (void **state)
{
    const uint32_t pairs[] = { 0, 2 }, list = 0;
    signature = (wm_signature_t){ .is_whole = false };
    wm_signature_add (&signature, false, "x", WM_TYPE_FP32, 2, pairs);
    wm_signature_add (&signature, false, "i", WM_TYPE_INT64, 1, &list);
    wm_signature_add (&signature, true, "sum", WM_TYPE_FP32, 1, &list);
    wm_signature_add (&signature, true, "n", WM_TYPE_INT32, 0, NULL);
    assert_true (signature.is_ragged);
    signature.n_value = signature.n_score = WM_RAGGED_VALUES;
    const wm_gather_how_t how = { .model = "m",
                                  .version = "1",
                                  .signature = &signature,
                                  .max_delay_us = 1000,
                                  .in_flight_bytes = 1 << 20,
                                  .default_priority = 100,
                                  .is_strict = is_strict };
    loop = wm_loop_new ();
    slices = wm_slices_new (loop);
    gather = wm_gather_new (loop, NULL, &how);
    n_sent = 0;
    kept_max = 1 << 20;
    has_room = true;
    return 0;
}

static int end (void **state)
{
    assert_int_equal (wm_gather_n_request (gather), 0);
    wm_gather_destroy (&gather, NULL, NULL);
    wm_loop_destroy (&loop);
    wm_slices_destroy (&slices);
    return 0;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Each row goes alone, with its shapes; their scores make one tensor. A request of no rows has a
   row of zeros computed, for the shapes.  */
static void test_rows (void **state)
{
    float score[64];
    for (int64_t rows = 0; rows < 4; rows++)
        for (int64_t length = 0; length < 8; length += 3) {
            make (rows, length);
            add ();
            assert_int_equal (n_sent, rows ? rows : 1);
            for (int64_t r = 0; n_sent; r++) {
                score_row (score, 0);
                for (int64_t k = 0; k < length && !rows; k++)
                    assert_true (score[4 + k] == 0);
                give (0, score);
            }
            assert_true (ask.is_answered);
            assert_int_equal (ask.code, WM_KS_OK);
            assert_int_equal (ask.n_dim, 2);
            assert_int_equal (ask.dim[0], rows);
            assert_int_equal (ask.dim[1], length);
            assert_int_equal (ask.n_held, 0);
            for (int64_t k = 0; k < rows * length; k++)
                assert_true (ask.sum[k] == ask.x[2 * k] + ask.x[2 * k + 1]);
            for (int64_t r = 0; r < rows; r++)
                assert_int_equal (ask.n[r], length);
        }
}

static void refused (wm_ks_code_t code, const char *text)
{
    assert_true (ask.is_answered);
    assert_int_equal (ask.code, code);
    assert_string_equal (ask.text, text);
}

static void test_refused (void **state)
{
    make (1, 4);
    ask.input[1].n_dim = 2;
    add ();
    refused (WM_KS_INVALID,
             "unexpected shape for input 'x' for model 'm'. Expected [-1,-1,2], got [1,4]");
    make (1, 4);
    ask.input[1].dim[2] = 3;
    add ();
    refused (WM_KS_INVALID,
             "unexpected shape for input 'x' for model 'm'. Expected [-1,-1,2], got [1,4,3]");
    make (1, 4);
    ask.input[1].dim[1] = 5;
    add ();
    refused (WM_KS_INVALID,
             "input byte size mismatch for input 'x' for model 'm'. Expected 40, got 32");
    make (1, 4);
    ask.i[3] = (1 << 24) + 1;
    add ();
    refused (WM_KS_INVALID,
             "input 'i' of model 'm': value 3, 16777217, is not one that FP32 holds, "
             "in which wiremill computes");
    make (2, 3);
    ask.x[7] = NAN;
    add ();
    refused (WM_KS_INVALID, "input 'x' of model 'm': value 7 is not finite");
    make (1, 1600000);
    add ();
    refused (WM_KS_INVALID, "a row of inputs for model 'm' has more than 3145727 float32s, the "
                            "most that it was loaded for: state parameters { key: \"row_bytes\" } "
                            "in its config.pbtxt");
    make (0, 1); /* of no row, so that it has no bytes: a size that no row can state */
    ask.input[0].dim[1] = ask.input[1].dim[1] = UINT32_MAX + 2ll;
    add ();
    refused (WM_KS_INVALID, "a row of inputs for model 'm' has more than 3145727 float32s, the "
                            "most that it was loaded for: state parameters { key: \"row_bytes\" } "
                            "in its config.pbtxt");
    assert_int_equal (n_sent, 0);
}

/* A row that the model does not take fails its request alone, with the reason.  */
static void test_no_scores (void **state)
{
    float score[64];
    make (2, 3);
    add ();
    wm_ragged_refuse (score, 64, "the lengths differ");
    give (WM_HIT_HELD, score);
    score_row (score, 0);
    give (0, score);
    refused (WM_KS_INVALID, "model 'm' cannot compute row 0 of the request: the lengths differ");
    make (3, 3); /* the first row is named, in whatever order rows are answered */
    add ();
    wm_link_batch_t *first = sent[0];
    memmove (sent, sent + 1, 2 * sizeof *sent);
    sent[2] = first;
    give (WM_HIT_POISON, NULL);
    score_row (score, 0);
    give (0, score);
    wm_ragged_refuse (score, 64, "the lengths differ");
    give (WM_HIT_HELD, score);
    refused (WM_KS_INVALID, "model 'm' cannot compute row 0 of the request: the lengths differ");
    make (0, 3);
    add ();
    give (WM_HIT_HELD, score);
    refused (WM_KS_INVALID, "the request has no rows, and a row of zeros does not show the shapes "
                            "of the outputs of model 'm': the lengths differ");
    make (1, 3);
    add ();
    give (WM_HIT_POISON, NULL);
    refused (WM_KS_INTERNAL,
             "model 'm' cannot compute row 0 of the request: the engine ends of it");
    make (1, 3);
    add ();
    give (WM_HIT_HELD, NULL);
    refused (WM_KS_INTERNAL, "model 'm' cannot compute row 0 of the request: it is held");
}

static void test_odd_scores (void **state)
{
    float score[64];
    make (2, 3); /* rows of two lengths are no tensor */
    add ();
    score_row (score, 0);
    give (0, score);
    score_row (score, 1);
    give (0, score);
    refused (WM_KS_INVALID, "output 'sum' of model 'm' has another shape in row 1 than in row 0: "
                            "send one row in each request");
    make (1, 3); /* an integer that may be rounded */
    add ();
    const uint32_t n = score_row (score, 0);
    score[n - 1] = 0x1p24f;
    give (0, score);
    refused (WM_KS_INVALID, "output 'n' of model 'm': row 0 has a number of 2^24 or more; FP32, in "
                            "which wiremill computes, may have rounded it");
    make (1, 3); /* another model's row */
    add ();
    wm_ragged_t one = { .n_dim = 1, .dim = { 3 } };
    wm_ragged_begin (score, 64, 1, &one);
    give (0, score);
    refused (WM_KS_INTERNAL, "the scores of model 'm' are damaged: its shapes are not those of "
                             "the model, or of its config.pbtxt");
}

/* A row that is held with its shapes is NaN, and counted; it is refused where its scores cannot be
   NaN: --strict, or an output of integers.  */
static void test_held (void **state)
{
    float score[64];
    for (int strict = 0; strict < 2; strict++)
        for (uint32_t only_sum = 0; only_sum < 2; only_sum++) {
            end (state);
            is_strict = strict;
            begin (state);
            make (2, 3);
            ask.output[0] = (char[]){ "sum" };
            ask.request.output = only_sum ? ask.output : NULL;
            ask.request.n_output = only_sum;
            add ();
            score_row (score, 0);
            give (0, score);
            const uint32_t n = score_row (score, 0);
            for (uint32_t k = 5; k < n; k++)
                score[k] = NAN;
            give (WM_HIT_NONFINITE, score);
            assert_int_equal (ask.n_held, 1);
            if (strict || !only_sum) {
                assert_int_equal (ask.code, WM_KS_INVALID);
                assert_non_null (strstr (ask.text, "1 of 2 rows of the request to model 'm' have "
                                                   "no scores, rows 1 (from 0)"));
                continue;
            }
            assert_int_equal (ask.code, WM_KS_OK);
            assert_true (ask.dim[1] == 3 && ask.sum[2] == ask.x[4] + ask.x[5]);
            assert_true (isnan (ask.sum[3]) && isnan (ask.sum[5]));
        }
    is_strict = false;
    end (state);
    begin (state);
    make (0, 3); /* no row of it is held: there is none */
    add ();
    const uint32_t n = score_row (score, 0);
    for (uint32_t k = 5; k < n; k++)
        score[k] = NAN;
    give (WM_HIT_NONFINITE, score);
    assert_int_equal (ask.code, WM_KS_OK);
    assert_int_equal (ask.n_held, 0);
}

/* A cancelled request's rows are dropped when they come; one that waits ends with the gatherer.  */
static void test_cancelled (void **state)
{
    float score[64];
    make (2, 3);
    add ();
    score_row (score, 0);
    give (0, score);
    wm_gather_cancel (&ask.request);
    score_row (score, 0);
    give (0, score);
    assert_false (ask.is_answered);
}

/* Rows of scores are counted when they come. Those that are too many fail their request; while
   memory is short one row at a time is under way.  */
static void test_kept (void **state)
{
    float score[64];
    size_t kept = 4 * sizeof (float *);
    make (3, 5);
    assert_int_equal (wm_gather_need (gather, &ask.request), kept);
    add ();
    assert_int_equal (n_sent, 3);
    assert_int_equal (ask.kept, kept);
    kept += score_row (score, 0) * sizeof (float);
    give (0, score);
    assert_int_equal (ask.kept, kept);
    kept_max = kept;
    for (int row = 1; row < 3; row++) {
        score_row (score, 0);
        give (0, score);
    }
    refused (WM_KS_EXHAUSTED,
             "model 'm' cannot compute row 1 of the request: with its scores the answer is larger "
             "than this server's limit (--max-message): send fewer rows in a request");
    kept_max = 1 << 20;
    has_room = false;
    make (3, 5);
    add ();
    for (int row = 0; row < 3; row++) {
        assert_int_equal (n_sent, 1);
        score_row (score, 0);
        give (0, score);
    }
    assert_int_equal (ask.code, WM_KS_OK);
}

/* Classes take more than scores: how many there are shows when they come.  */
static void test_classes_kept (void **state)
{
    float score[64];
    uint32_t n_class[] = { 9, 0 };
    make (1, 5);
    ask.output[0] = (char[]){ "sum" };
    ask.request.output = ask.output;
    ask.request.n_output = 1;
    ask.request.n_class = n_class;
    add ();
    kept_max = ask.kept + score_row (score, 0) * sizeof (float) + 5 * 50;
    give (0, score);
    refused (WM_KS_EXHAUSTED,
             "the classes that are asked of model 'm' may have 340 bytes, which is "
             "larger than this server's limit (--max-message): ask for fewer");
}

/* A request of bytes alone: the one free dimension is what they leave.  */
static void test_raw (void **state)
{
    const uint32_t list = 0, pairs[] = { 0, 2 }, image[] = { 3, 0, 0 };
    wm_signature_t one = { .is_whole = false };
    wm_kserve_tensor_t tensor;
    wm_ks_error_t error;
    wm_signature_add (&one, false, "x", WM_TYPE_INT16, 2, pairs);
    assert_int_equal (wm_signature_raw (&one, "m", 20, &tensor, &error), WM_KS_OK);
    assert_string_equal (tensor.name, "x");
    assert_int_equal (tensor.type, WM_TYPE_INT16);
    assert_int_equal (tensor.n_dim, 3);
    assert_true (tensor.dim[0] == 1 && tensor.dim[1] == 5 && tensor.dim[2] == 2);
    assert_int_equal (wm_signature_raw (&one, "m", 0, &tensor, &error), WM_KS_OK);
    assert_int_equal (tensor.dim[1], 0);
    assert_int_equal (wm_signature_raw (&one, "m", 22, &tensor, &error), WM_KS_INVALID);
    assert_string_equal (error.text, "input byte size mismatch for input 'x' for model 'm'. "
                                     "Expected a multiple of 4, got 22");
    one = (wm_signature_t){ .is_whole = true };
    wm_signature_add (&one, false, "x", WM_TYPE_FP32, 1, &list);
    assert_int_equal (wm_signature_raw (&one, "m", 12, &tensor, &error), WM_KS_OK);
    assert_true (tensor.n_dim == 1 && tensor.dim[0] == 3);
    one = (wm_signature_t){ .is_whole = false };
    wm_signature_add (&one, false, "x", WM_TYPE_FP32, 3, image);
    assert_int_equal (wm_signature_raw (&one, "m", 12, &tensor, &error), WM_KS_INVALID);
    assert_non_null (strstr (error.text, "more than one variable-sized dimension"));
    assert_int_equal (wm_signature_raw (&signature, "m", 12, &tensor, &error), WM_KS_INVALID);
    assert_non_null (strstr (error.text, "but got 2 inputs in 'm' model configuration"));
}

/* A model of rows (2, any, 3, any) whose clients have (6, any, any), and back. What stands behind
   the last input and output is not read.  */
static void test_reshaped (void **state)
{
    const uint32_t dim[] = { 2, 0, 3, 0 };
    const int64_t clients[] = { 6, -1, -1 };
    wm_signature_t one = { .is_whole = true };
    wm_tensor_plan_t plan;
    wm_ks_error_t error;
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX];
    float value[6 * 5 * 7], row[6 * 5 * 7 + 16], *rows[] = { row };
    size_t n_value;
    uint32_t n_tensor;
    wm_kserve_tensor_t output[WM_SIGNATURE_PORTS_MAX];
    wm_kserve_tensor_t input = {
        .name = "x", .type = WM_TYPE_FP32, .n_dim = 3, .dim = { 6, 5, 7 }
    };
    wm_ks_request_t request = { .model = "m", .input = &input, .n_input = 1 };
    wm_signature_add (&one, false, "x", WM_TYPE_FP32, 4, dim);
    wm_signature_add (&one, true, "y", WM_TYPE_FP32, 4, dim);
    one.n_value = one.n_score = WM_RAGGED_VALUES;
    for (int k = 0; k < 2; k++) {
        wm_signature_port_t *port = k ? &one.output[0] : &one.input[0];
        port->n_dim = 3;
        memcpy (port->dim, clients, sizeof clients);
        port[1] = (wm_signature_port_t){ .name = "behind", .n_model = 77, .model = { 1ll << 40 } };
    }
    for (size_t i = 0; i < sizeof value / sizeof *value; i++)
        value[i] = (float) i;
    input.data = (uint8_t *) value;
    input.bytes = sizeof value;
    assert_int_equal (wm_signature_plan (&one, &request, &plan, &error), WM_KS_OK);
    assert_int_equal (wm_signature_ragged_check (&one, &request, &plan, &n_value, &error), 0);
    wm_signature_ragged_row (&one, &request, &plan, 0, row, n_value);
    assert_null (wm_ragged_read (row, n_value, &n_tensor, tensor));
    assert_true (n_tensor == 1 && tensor[0].n_dim == 4 && tensor[0].dim[0] == 2 &&
                 tensor[0].dim[1] == 5 && tensor[0].dim[2] == 3 && tensor[0].dim[3] == 7);
    assert_int_equal (wm_signature_ragged_answer (&one, &plan, "m", rows, output, &error), 0);
    assert_true (output[0].n_dim == 3 && output[0].dim[0] == 6 && output[0].dim[1] == 5 &&
                 output[0].dim[2] == 7);
    assert_memory_equal (output[0].data, value, sizeof value);
    wm_signature_clear (&plan, output);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown (test_rows, begin, end),
        cmocka_unit_test_setup_teardown (test_refused, begin, end),
        cmocka_unit_test_setup_teardown (test_no_scores, begin, end),
        cmocka_unit_test_setup_teardown (test_odd_scores, begin, end),
        cmocka_unit_test_setup_teardown (test_held, begin, end),
        cmocka_unit_test_setup_teardown (test_cancelled, begin, end),
        cmocka_unit_test_setup_teardown (test_kept, begin, end),
        cmocka_unit_test_setup_teardown (test_classes_kept, begin, end),
        cmocka_unit_test_setup_teardown (test_raw, begin, end),
        cmocka_unit_test (test_reshaped),
    };
    return cmocka_run_group_tests_name ("gateway/ragged", tests, NULL, NULL);
}
