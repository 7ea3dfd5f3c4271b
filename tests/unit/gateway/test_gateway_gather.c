/* test_gateway_gather.c - rows of requests into batches and back: which request goes first, what is
   split, held, tried again, cancelled. The link and the transport are played here.  */
#include "producer/serving/wm_gather.h"
#include "producer/net/wm_slice.h"
#include "tests/unit/unit.h"

#include <czmq.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A model of two inputs, 3 and 1 values, and outputs "sum" (1) and "first" (2) of them.  */
enum { N_VALUE = 4, N_SCORE = 3, ROW_BYTES = 3 * sizeof (float) };

static wm_signature_t signature;
static wm_loop_t *loop;
static wm_slices_t *slices;
static wm_gather_t *gather;
static wm_link_batch_t *sent[512]; /* and not answered */
static uint32_t n_sent;
static bool is_written; /* what was sent cannot be taken back */
static bool is_strict;
static size_t kept_max;
static uint32_t n_empty;     /* calls of `is_empty` */
static uint32_t n_turn;      /* calls of `turns` */
static wm_type_t first_type; /* of the output "first"; 0: FP32 */
static int64_t delay_us = 1000;
static wm_batching_t batching;

void wm_link_send (wm_link_t *self, wm_link_batch_t *batch, const float *value, uint32_t n,
                   size_t n_value)
{
    batch->value = value;
    batch->frame.n = n;
    batch->frame.bytes = n * n_value * sizeof *value;
    sent[n_sent++] = batch;
}

bool wm_link_take_back (wm_link_t *self, wm_link_batch_t *batch)
{
    for (uint32_t i = 0; i < n_sent && !is_written; i++)
        if (sent[i] == batch) {
            memmove (sent + i, sent + i + 1, (--n_sent - i) * sizeof *sent);
            return true;
        }
    return false;
}

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct {
    wm_ks_request_t request;
    wm_kserve_tensor_t input[2];
    float *triple, *single;
    char *output[2];
    uint32_t n;
    /* the answer */
    bool is_answered;
    wm_ks_code_t code;
    uint32_t n_held, n_nan, order; /* n_nan: rows whose sum is NaN */
    char text[480];
    size_t kept; /* for it, as the gatherer tells */
} ask_t;

static uint32_t n_answered;

static float value_of (const ask_t *ask, uint32_t row, uint32_t i)
{
    return i < 3 ? ask->triple[3 * row + i] : ask->single[row];
}

/* What the played engine answers.  */
static void score_row (const float *value, float *score)
{
    score[0] = value[0] + value[1] + value[2] + value[3];
    if (isinf (score[0]))
        score[0] = NAN; /* the model's own */
    score[1] = value[0];
    score[2] = value[3];
}

static void check_rows (ask_t *ask, const wm_ks_answer_t *answer)
{
    for (uint32_t row = 0; row < ask->n; row++) {
        float value[N_VALUE], want[N_SCORE], sum, first[2];
        for (uint32_t i = 0; i < N_VALUE; i++)
            value[i] = value_of (ask, row, i);
        score_row (value, want);
        memcpy (&sum, answer->output[0].data + 4 * row, 4);
        memcpy (first, answer->output[1].data + 8 * row, 8);
        if (isnan (sum)) {
            ask->n_nan++;
            continue;
        }
        assert_true (sum == want[0] && first[0] == want[1] && first[1] == want[2]);
    }
}

static void take_reply (wm_ks_request_t *request, const wm_ks_answer_t *answer)
{
    ask_t *ask = request->transport;
    assert_false (ask->is_answered);
    ask->is_answered = true;
    ask->code = answer->code;
    ask->n_held = answer->n_held;
    ask->order = n_answered++;
    snprintf (ask->text, sizeof ask->text, "%s", answer->text ? answer->text : "");
    if (answer->code != WM_KS_OK || ask->request.n_output || first_type == WM_TYPE_FP64)
        return;
    assert_int_equal (answer->n_output, 2);
    assert_string_equal (answer->output[0].name, "sum");
    assert_int_equal (answer->output[1].dim[0], ask->n);
    assert_int_equal (answer->output[1].bytes, ask->n * 8);
    check_rows (ask, answer);
}

static bool keep (wm_ks_request_t *request, size_t bytes)
{
    ask_t *ask = request->transport;
    assert_false (ask->is_answered);
    if (bytes > kept_max)
        return false;
    ask->kept = bytes;
    return true;
}

/* Its answer takes so many slices.  */
#define SLOW_SLICES 50
static wm_ks_request_t *slow;

static bool place (wm_ks_request_t *request, const wm_kserve_tensor_t *output, uint32_t n_output,
                   wm_placed_t *placed, size_t *left, wm_ks_error_t *error)
{
    assert_true (n_output > 0 && output[0].data);
    error->code = WM_KS_OK;
    if (request != slow || placed->bytes++ >= SLOW_SLICES)
        return false;
    *left = 0;
    return true;
}

static wm_slices_t *slices_of (const wm_ks_request_t *request)
{
    return slices;
}

static bool has_room (const wm_ks_request_t *request)
{
    return false; /* only rows whose scores have no known length care */
}

static const wm_transport_calls_t calls = { take_reply, keep, place, slices_of, has_room };

/* The second input comes first: names count, not places.  */
static ask_t *ask_new (uint32_t n, uint64_t client, uint32_t priority)
{
    static float next;
    ask_t *ask = zmalloc (sizeof *ask);
    ask->n = n;
    ask->triple = zmalloc ((3 * n + 1) * sizeof (float));
    ask->single = zmalloc ((n + 1) * sizeof (float));
    for (uint32_t i = 0; i < 3 * n; i++)
        ask->triple[i] = next++;
    for (uint32_t i = 0; i < n; i++)
        ask->single[i] = next++;
    ask->input[0] = (wm_kserve_tensor_t){ "single", WM_TYPE_FP32, 1, { n }, NULL, 4 * n };
    ask->input[1] = (wm_kserve_tensor_t){ "triple", WM_TYPE_FP32, 2, { n, 3 }, NULL, 12 * n };
    ask->input[0].data = (uint8_t *) ask->single;
    ask->input[1].data = (uint8_t *) ask->triple;
    ask->request = (wm_ks_request_t){ .model = "m",
                                      .version = "",
                                      .id = "",
                                      .input = ask->input,
                                      .n_input = 2,
                                      .output = ask->output,
                                      .priority = priority,
                                      .client = client,
                                      .calls = &calls,
                                      .transport = ask };
    return ask;
}

static void ask_free (ask_t *ask)
{
    free (ask->triple);
    free (ask->single);
    free (ask);
}

/* ---- the loop and the engine ----------------------------------------------------------------- */

static void stop (void *argument)
{
    wm_loop_stop (argument);
}

/* Lets the loop run until `us` from now.  */
static void spin (int64_t us)
{
    wm_loop_timer (loop, wm_loop_now_us (loop) + us, stop, loop);
    assert_int_equal (wm_loop_run (loop), 0);
}

static void take_out (uint32_t i)
{
    memmove (sent + i, sent + i + 1, (--n_sent - i) * sizeof *sent);
}

/* Answers the i-th batch that was sent. `bad`: a value that gets a status.  */
static void answer (uint32_t i, float bad)
{
    wm_link_batch_t *batch = sent[i];
    uint8_t *status = zmalloc (batch->frame.n);
    float *score = zmalloc (batch->frame.n * ROW_BYTES);
    for (uint32_t row = 0; row < batch->frame.n; row++) {
        score_row (batch->value + row * N_VALUE, score + row * N_SCORE);
        status[row] = batch->value[row * N_VALUE] == bad ? 4 : 0;
    }
    take_out (i);
    wm_gather_answered (gather, batch, status, (uint8_t *) score, NULL);
    free (status);
    free (score);
}

static void hold (uint32_t i)
{
    wm_link_batch_t *batch = sent[i];
    take_out (i);
    wm_gather_answered (gather, batch, NULL, NULL, "the engine crashed on it");
}

static void on_empty (void *argument)
{
    assert_ptr_equal (argument, &n_empty);
    n_empty++;
}

static void on_turn (void *argument)
{
    assert_ptr_equal (argument, &n_empty);
    n_turn++;
}

static void begin (size_t in_flight_bytes)
{
    const uint32_t three = 3, one = 1, two = 2;
    signature = (wm_signature_t){ .is_whole = false };
    wm_signature_add (&signature, false, "triple", WM_TYPE_FP32, 1, &three);
    wm_signature_add (&signature, false, "single", WM_TYPE_FP32, 0, NULL);
    wm_signature_add (&signature, true, "sum", WM_TYPE_FP32, 1, &one);
    wm_signature_add (&signature, true, "first", first_type ? first_type : WM_TYPE_FP32, 1, &two);
    const wm_gather_how_t how = { .model = "m",
                                  .version = "1",
                                  .signature = &signature,
                                  .max_delay_us = delay_us,
                                  .batching = batching,
                                  .in_flight_bytes = in_flight_bytes,
                                  .default_priority = 100,
                                  .is_strict = is_strict,
                                  .is_empty = on_empty,
                                  .turns = on_turn,
                                  .argument = &n_empty };
    loop = wm_loop_new ();
    slices = wm_slices_new (loop);
    gather = wm_gather_new (loop, NULL, &how);
    kept_max = 1 << 20;
    n_sent = n_answered = n_turn = 0;
    is_written = false;
}

static ask_t *left[4], *left_wants_gone; /* that one is cancelled when the first is left */
static uint32_t n_left;

static void on_left (void *argument, wm_ks_request_t *request)
{
    assert_ptr_equal (argument, &n_left);
    assert_null (request->backend);
    left[n_left++] = request->transport;
    if (n_left == 1 && left_wants_gone)
        wm_gather_cancel (&left_wants_gone->request); /* as a transport may */
}

static void end (void)
{
    n_left = 0;
    wm_gather_destroy (&gather, on_left, &n_left);
    wm_loop_destroy (&loop);
    wm_slices_destroy (&slices);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The first goes at once; what comes meanwhile waits and shares one batch.  */
static void test_gathered (void **state)
{
    begin (1 << 20);
    ask_t *ask[20];
    for (uint32_t i = 0; i < 20; i++) {
        wm_gather_add (gather, &(ask[i] = ask_new (i % 4, 1 + i % 3, 0))->request);
        if (i == 1)
            spin (0);
    }
    assert_int_equal (n_sent, 1); /* the request of no row is answered already */
    assert_true (ask[0]->is_answered);
    spin (2000);
    assert_int_equal (n_sent, 2);
    assert_int_equal (sent[1]->frame.n, 29);
    answer (1, NAN);
    answer (0, NAN);
    for (uint32_t i = 0; i < 20; i++) {
        assert_true (ask[i]->is_answered);
        assert_int_equal (ask[i]->code, WM_KS_OK);
        ask_free (ask[i]);
    }
    assert_int_equal (wm_gather_n_request (gather), 0);
    assert_int_equal (wm_gather_counts (gather)->n_row, 30);
    assert_int_equal (wm_gather_counts (gather)->n_batch, 2);
    end ();
}

/* A queue that the configuration bounds: a request beyond is refused, but none that it has taken.
 */
static void test_queue (void **state)
{
    batching.queue_max = 1;
    begin (1 << 20);
    ask_t *ask[4];
    for (uint32_t i = 0; i < 4; i++) {
        wm_gather_add (gather, &(ask[i] = ask_new (i < 3 ? 1 : 0, 1, 0))->request);
        spin (0);
    }
    assert_int_equal (n_sent, 1); /* the second one waits */
    assert_true (ask[2]->is_answered && ask[3]->is_answered);
    assert_int_equal (ask[2]->code, WM_KS_UNAVAILABLE);
    assert_int_equal (ask[3]->code, WM_KS_OK); /* of no row: it does not wait */
    assert_int_equal (wm_gather_counts (gather)->n_late, 1);
    n_left = 0;
    wm_gather_leave (gather, on_left, &n_left);
    assert_int_equal (n_left, 2);
    for (uint32_t i = 0; i < 2; i++)
        wm_gather_add (gather, &ask[i]->request);
    spin (2000);
    assert_int_equal (sent[n_sent - 1]->frame.n, 2);
    answer (n_sent - 1, NAN);
    assert_true (ask[0]->is_answered && ask[1]->is_answered);
    assert_int_equal (ask[1]->code, WM_KS_OK);
    end ();
    for (uint32_t i = 0; i < 4; i++)
        ask_free (ask[i]);
    batching = (wm_batching_t){ .queue_max = 0 };
}

/* A delay of the configuration: rows wait until so many are there, or it is over, also where no
   batch is under way.  */
static void test_own_delay (void **state)
{
    ask_t *ask[5];
    for (uint32_t i = 0; i < 5; i++)
        ask[i] = ask_new (1 + (i == 3), 1, 0);
    batching = (wm_batching_t){ .has_delay = true, .delay_us = INT64_C (600) * 1000000, .full = 4 };
    begin (1 << 20);
    for (uint32_t i = 0; i < 3; i++) {
        wm_gather_add (gather, &ask[i]->request);
        spin (2000);
    }
    assert_int_equal (n_sent, 0);
    ask_t *gone = ask_new (3, 1, 0); /* its rows count no longer */
    wm_gather_add (gather, &gone->request);
    wm_gather_cancel (&gone->request);
    ask_free (gone);
    spin (2000);
    assert_int_equal (n_sent, 0);
    wm_gather_add (gather, &ask[3]->request);
    spin (0);
    assert_int_equal (n_sent, 1);
    assert_int_equal (sent[0]->frame.n, 5);
    answer (0, NAN);
    end ();
    batching.delay_us = 1000;
    begin (1 << 20);
    wm_gather_add (gather, &ask[4]->request);
    for (int i = 0; i < 60000 && !n_sent; i++)
        spin (1000);
    assert_int_equal (n_sent, 1);
    answer (0, NAN);
    end ();
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal (ask[i]->code, WM_KS_OK);
        ask_free (ask[i]);
    }
    batching = (wm_batching_t){ .queue_max = 0 };
}

/* An answer that takes long is made while others are answered, and may be cancelled or forgotten
   meanwhile. What leaves a model that fails does not take it along: its scores are all there.  */
static void test_slow_answer (void **state)
{
    enum { ANSWERED, LEFT, CANCELLED, DESTROYED, WAYS };
    for (int way = 0; way < WAYS; way++) {
        begin (1 << 20);
        ask_t *ask = ask_new (3, 1, 0), *other = ask_new (2, 1, 0);
        slow = &ask->request;
        n_empty = n_left = 0;
        wm_gather_add (gather, &ask->request);
        spin (0);
        answer (0, NAN);
        assert_false (ask->is_answered || wm_gather_is_asked (gather));
        wm_gather_add (gather, &other->request);
        assert_true (wm_gather_is_asked (gather));
        spin (0);
        answer (0, NAN);
        assert_true (other->is_answered && !ask->is_answered);
        assert_int_equal (n_empty, 0);
        if (way == CANCELLED)
            wm_gather_cancel (&ask->request);
        if (way == LEFT)
            assert_true (wm_gather_leave (gather, on_left, &n_left));
        for (int i = 0; way <= LEFT && i < 60000 && wm_gather_n_request (gather); i++)
            spin (1000);
        if (way != DESTROYED) {
            assert_int_equal (wm_gather_n_request (gather), 0);
            spin (0);
            assert_true (n_empty > 0);
        }
        assert_int_equal (ask->is_answered, way <= LEFT);
        const uint32_t was_left = n_left;
        end ();
        assert_int_equal (was_left, 0);
        assert_int_equal (n_left, way == DESTROYED);
        ask_free (ask), ask_free (other);
    }
    slow = NULL;
}

enum { MANY = 1000, ROUND_MOST = 2 * WM_SLICE_BYTES / WM_SLICE_LEAST };

/* A socket with something to read, at which the loop looks in each of its rounds.  */
static void look (void *argument, uint32_t events)
{
    uint32_t *seen = argument;
    assert_true (events && n_answered - seen[0] <= ROUND_MOST);
    seen[0] = n_answered;
    seen[1]++;
    if (n_answered == MANY)
        wm_loop_stop (loop);
}

/* Many answers that are ready at once are sent in several rounds of the loop, which looks at its
   sockets between them.  */
static void test_round (void **state)
{
    uint32_t seen[2] = { 0 };
    ask_t *ask[MANY];
    begin (1 << 20);
    for (uint32_t i = 0; i < MANY; i++)
        wm_gather_add (gather, &(ask[i] = ask_new (1, 1 + i, 0))->request);
    spin (3000);
    assert_true (n_sent >= MANY / 256);
    while (n_sent)
        answer (0, NAN);
    assert_true (n_answered && n_answered <= ROUND_MOST / 2);
    const int fd = eventfd (1, EFD_CLOEXEC);
    wm_loop_watch_t *watch = wm_loop_watch (loop, fd, EPOLLIN, look, seen);
    assert_int_equal (wm_loop_run (loop), 0);
    assert_true (seen[1] >= MANY / ROUND_MOST);
    wm_loop_unwatch (&watch);
    close (fd);
    for (uint32_t i = 0; i < MANY; i++)
        ask_free (ask[i]);
    end ();
}

/* A large request is split, within what may be under way, and joined again in any order.  */
static void test_split (void **state)
{
    begin (512 * N_VALUE * sizeof (float));
    ask_t *ask = ask_new (2000, 1, 0);
    wm_gather_add (gather, &ask->request);
    spin (0);
    assert_int_equal (n_sent, 2);
    for (uint32_t n = 0; n_sent; n++) {
        answer (n % n_sent, ask->triple[3 * 1500]);
        spin (2000);
        /* of 8 batches two are under way, whatever has been answered */
        assert_int_equal (n_sent, (n + 3 < 8 ? n + 3 : 8) - (n + 1));
    }
    assert_true (ask->is_answered);
    assert_int_equal (ask->n_held, 1);
    const wm_gather_counts_t *counts = wm_gather_counts (gather);
    assert_int_equal (counts->size_n[8], 8); /* 129 to 256 rows */
    assert_int_equal (counts->queue_us + counts->infer_us, counts->success_us);
    assert_true (counts->infer_us > counts->queue_us);
    ask_free (ask);
    end ();
}

/* However small the requests are, only so many batches are under way; rows are as many as fit a
   batch by the larger of what goes and what comes.  */
static void test_limits (void **state)
{
    const uint32_t much = 8192, one = 1;
    begin (1 << 30);
    kept_max = 1 << 30;
    ask_t *ask = ask_new (257 * 256, 1, 0);
    wm_gather_add (gather, &ask->request);
    spin (0);
    assert_int_equal (n_sent, 256);
    wm_gather_cancel (&ask->request);
    ask_free (ask);
    end ();
    for (int of_scores = 0; of_scores < 2; of_scores++) {
        begin (1 << 30);
        wm_gather_destroy (&gather, on_left, &n_left);
        signature = (wm_signature_t){ .is_whole = false };
        wm_signature_add (&signature, false, "single", WM_TYPE_FP32, 1, of_scores ? &one : &much);
        wm_signature_add (&signature, true, "sum", WM_TYPE_FP32, 1, of_scores ? &much : &one);
        const wm_gather_how_t how = {
            .model = "m", .version = "1", .signature = &signature, .in_flight_bytes = 1 << 30
        };
        gather = wm_gather_new (loop, NULL, &how);
        kept_max = 1 << 30;
        ask = ask_new (200, 1, 0);
        float *large = zmalloc (200 * sizeof *large * (of_scores ? 1 : much));
        ask->input[0] = (wm_kserve_tensor_t){ "single",
                                              WM_TYPE_FP32,
                                              2,
                                              { 200, of_scores ? 1 : much },
                                              (uint8_t *) large,
                                              800 * (of_scores ? 1 : much) };
        ask->request.n_input = 1;
        wm_gather_add (gather, &ask->request);
        spin (0);
        assert_int_equal (n_sent, 2);
        /* of 4 MiB; a row of scores has a status */
        assert_int_equal (sent[0]->frame.n, of_scores ? 127 : 128);
        wm_gather_cancel (&ask->request);
        ask_free (ask);
        free (large);
        end ();
    }
}

/* While a batch is under way, what comes waits for more of its kind, but not where it fills a
   batch.  */
static void test_delay (void **state)
{
    delay_us = INT64_C (600) * 1000000;
    begin (1 << 20);
    ask_t *first = ask_new (1, 1, 0), *second = ask_new (255, 1, 0), *third = ask_new (1, 1, 0);
    wm_gather_add (gather, &first->request);
    spin (0);
    wm_gather_add (gather, &second->request);
    spin (3000);
    assert_int_equal (n_sent, 1);
    wm_gather_add (gather, &third->request);
    spin (0);
    assert_int_equal (n_sent, 2);
    assert_int_equal (sent[1]->frame.n, 256);
    answer (1, third->triple[0]); /* the last row of a batch of two requests */
    assert_int_equal (second->n_held, 0);
    assert_int_equal (third->n_held, 1);
    assert_int_equal (second->n_nan, 0);
    assert_int_equal (third->n_nan, 1);
    answer (0, NAN);
    assert_int_equal (wm_gather_counts (gather)->size_n[0], 1);
    ask_free (first), ask_free (second), ask_free (third);
    end ();
    delay_us = 1000;
}

/* A row of which the model makes NaN is held as one that has a status.  */
static void test_model_nan (void **state)
{
    begin (1 << 20);
    ask_t *ask = ask_new (3, 1, 0);
    ask->triple[3] = ask->triple[4] = 3e38f;
    wm_gather_add (gather, &ask->request);
    spin (0);
    answer (0, ask->triple[6]);
    assert_int_equal (ask->n_held, 2);
    assert_int_equal (wm_gather_counts (gather)->n_held, 2);
    ask_free (ask);
    end ();
}

/* Answers all, one batch after the other.  */
static void answer_all (void)
{
    for (spin (0); n_sent; spin (0))
        answer (0, NAN);
}

/* Clients take turns by rows, of which a request has 64 at least; one that was idle is no earlier
   than those that were served meanwhile.  */
static void test_turns (void **state)
{
    ask_t *large[2], *small[8], *tiny[4], *back[3];
    begin (1);
    ask_t *first = ask_new (1, 9, 0);
    wm_gather_add (gather, &first->request);
    spin (0);
    for (uint32_t i = 0; i < 2; i++)
        wm_gather_add (gather, &(large[i] = ask_new (512, 1, 0))->request);
    for (uint32_t i = 0; i < 8; i++)
        wm_gather_add (gather, &(small[i] = ask_new (64, 2, 0))->request);
    for (uint32_t i = 0; i < 4; i++)
        wm_gather_add (gather, &(tiny[i] = ask_new (1, 3, 0))->request);
    answer_all ();
    for (uint32_t i = 0; i < 8; i++)
        assert_true (small[i]->order < large[1]->order);
    assert_true (large[0]->order < small[1]->order);
    for (uint32_t i = 0; i < 4; i++) { /* a row takes as much of a turn as 64 */
        assert_true (i == 0 || small[i - 1]->order < tiny[i]->order);
        assert_true (tiny[i]->order < small[i + 1]->order);
    }
    /* the clock is at 512 now: all begin there, also client 4, which was idle from the beginning */
    wm_gather_add (gather, &(back[0] = ask_new (64, 9, 0))->request);
    spin (0);
    ask_t *idle[3];
    for (uint32_t i = 0; i < 3; i++)
        wm_gather_add (gather, &(idle[i] = ask_new (256, 4, 0))->request);
    for (uint32_t i = 1; i < 3; i++)
        wm_gather_add (gather, &(back[i] = ask_new (256, 1, 0))->request);
    answer_all ();
    assert_true (idle[0]->order < back[1]->order && back[1]->order < idle[1]->order &&
                 idle[1]->order < back[2]->order && back[2]->order < idle[2]->order);
    /* one that comes while another is under way begins at the turn of that one, not before */
    ask_t *much[4], *late[4];
    for (uint32_t i = 0; i < 4; i++)
        wm_gather_add (gather, &(much[i] = ask_new (256, 5, 0))->request);
    spin (0);
    answer (0, NAN), spin (0);
    answer (0, NAN), spin (0);
    for (uint32_t i = 0; i < 4; i++)
        wm_gather_add (gather, &(late[i] = ask_new (256, 6, 0))->request);
    answer_all ();
    assert_true (much[3]->order < late[2]->order);
    ask_free (first);
    for (uint32_t i = 0; i < 8; i++)
        ask_free (small[i]);
    for (uint32_t i = 0; i < 4; i++)
        ask_free (tiny[i]), ask_free (much[i]), ask_free (late[i]);
    for (uint32_t i = 0; i < 3; i++)
        ask_free (back[i]), ask_free (idle[i]);
    ask_free (large[0]), ask_free (large[1]);
    end ();
}

/* Urgent requests go first; among equals a client with little to do before one with much.  */
static void test_order (void **state)
{
    begin (1);
    ask_t *first = ask_new (1, 1, 0), *much[3], *little, *urgent;
    wm_gather_add (gather, &first->request);
    spin (0);
    for (uint32_t i = 0; i < 3; i++)
        wm_gather_add (gather, &(much[i] = ask_new (256, 1, 0))->request);
    wm_gather_add (gather, &(little = ask_new (256, 2, 0))->request);
    wm_gather_add (gather, &(urgent = ask_new (256, 3, 1))->request);
    assert_int_equal (wm_gather_n_waiting (gather), 5);
    for (uint32_t i = 0; i < 6; i++) {
        spin (0);
        assert_int_equal (n_sent, 1);
        answer (0, NAN);
    }
    assert_int_equal (first->order, 0);
    assert_int_equal (urgent->order, 1);
    assert_true (little->order < much[1]->order && much[0]->order < much[2]->order);
    assert_true (much[2]->is_answered);
    ask_free (first), ask_free (little), ask_free (urgent);
    for (uint32_t i = 0; i < 3; i++)
        ask_free (much[i]);
    end ();
}

/* Of equal turns the first that came goes first. A client whose request waits, because it is less
   urgent, begins at the turn that is served now with the next.  */
static void test_equal_turns (void **state)
{
    ask_t *first = ask_new (1, 9, 0), *low = ask_new (1, 1, 200), *much[4], *other, *next, *tie[6];
    begin (1);
    wm_gather_add (gather, &first->request);
    spin (0);
    wm_gather_add (gather, &low->request);
    for (uint32_t i = 0; i < 4; i++)
        wm_gather_add (gather, &(much[i] = ask_new (256, 2, 0))->request);
    for (uint32_t i = 0; i < 3; i++)
        answer (0, NAN), spin (0); /* and the third of them is under way */
    wm_gather_add (gather, &(other = ask_new (256, 3, 0))->request);
    wm_gather_add (gather, &(next = ask_new (256, 1, 0))->request);
    for (uint32_t i = 0; i < 6; i++)
        wm_gather_add (gather, &(tie[i] = ask_new (256, 10 + i, 0))->request);
    answer_all ();
    assert_true (other->order < next->order && next->order < tie[0]->order);
    for (uint32_t i = 1; i < 6; i++)
        assert_true (tie[i - 1]->order < tie[i]->order);
    ask_free (first), ask_free (low), ask_free (other), ask_free (next);
    for (uint32_t i = 0; i < 6; i++)
        ask_free (tie[i]);
    for (uint32_t i = 0; i < 4; i++)
        ask_free (much[i]);
    end ();
}

/* Rows that are not finite are not sent, and are NaN in the answer.  */
static void test_not_finite (void **state)
{
    begin (1 << 20);
    ask_t *some = ask_new (5, 1, 0), *all = ask_new (2, 1, 0);
    some->triple[3 * 2 + 1] = INFINITY;
    all->single[0] = all->triple[4] = NAN;
    wm_gather_add (gather, &some->request);
    wm_gather_add (gather, &all->request);
    spin (0);
    assert_int_equal (n_sent, 1);
    assert_int_equal (sent[0]->frame.n, 4);
    assert_true (all->is_answered);
    assert_int_equal (all->n_held, 2);
    answer (0, NAN);
    assert_int_equal (some->n_held, 1);
    ask_free (some), ask_free (all);
    end ();
    begin (1 << 20); /* no batch tells of the end of a request that has none */
    n_empty = 0;
    all = ask_new (1, 1, 0);
    all->single[0] = NAN;
    wm_gather_add (gather, &all->request);
    assert_int_equal (n_empty, 0);
    spin (0);
    assert_true (all->is_answered);
    assert_int_equal (n_empty, 1);
    ask_free (all);
    end ();
}

/* A held row is refused where its scores cannot be NaN: --strict, or an output of integers.  */
static void test_held_refused (void **state)
{
    for (int strict = 0; strict < 2; strict++) {
        is_strict = strict;
        first_type = strict ? 0 : WM_TYPE_INT32;
        begin (1 << 20);
        ask_t *some = ask_new (12, 1, 0), *all = ask_new (2, 1, 0), *other = ask_new (2, 1, 0),
              *fine = ask_new (1, 1, 0);
        for (uint32_t row = 1; row < 12; row++)
            some->triple[3 * row] = row < 11 ? NAN : some->triple[3 * row];
        ask_t *eight = ask_new (8, 1, 0);
        for (uint32_t row = 0; row < 8; row++)
            eight->single[row] = NAN;
        all->single[0] = all->triple[4] = NAN;
        other->single[1] = NAN;
        other->output[0] = "sum";
        fine->output[0] = "sum";
        other->request.n_output = fine->request.n_output = 1;
        wm_gather_add (gather, &some->request);
        wm_gather_add (gather, &all->request);
        wm_gather_add (gather, &other->request);
        wm_gather_add (gather, &fine->request);
        wm_gather_add (gather, &eight->request);
        spin (0);
        assert_int_equal (sent[0]->frame.n, 4);
        answer (0, NAN);
        const char *why =
            strict ? "the server runs with --strict" : "an output of integers has no NaN for them";
        char text[480];
        snprintf (
            text, sizeof text,
            "10 of 12 rows of the request to model 'm' have no scores, rows 1, 2, 3, 4, 5, "
            "6, 7, 8 ... (from 0): their inputs are not finite, an index of theirs lies outside "
            "its table, or the model gives NaN; %s",
            why);
        assert_int_equal (some->code, WM_KS_INVALID);
        assert_string_equal (some->text, text);
        assert_int_equal (all->code, WM_KS_INVALID);
        assert_non_null (strstr (all->text, "2 of 2 rows of the request to model 'm' have no "
                                            "scores, rows 0, 1 (from 0)"));
        assert_non_null (strstr (eight->text, "rows 0, 1, 2, 3, 4, 5, 6, 7 (from 0)"));
        ask_free (eight);
        assert_int_equal (other->code, strict ? WM_KS_INVALID : WM_KS_OK);
        assert_int_equal (other->n_held, 1);
        assert_int_equal (fine->code, WM_KS_OK);
        assert_int_equal (wm_gather_counts (gather)->n_fault, 0);
        assert_int_equal (wm_gather_counts (gather)->n_other, 3 + strict);
        ask_free (some), ask_free (all), ask_free (other), ask_free (fine);
        end ();
    }
    is_strict = false;
    first_type = 0;
}

/* The first held rows are named in their order, in whatever order batches are answered.  */
static void test_held_order (void **state)
{
    is_strict = true;
    begin (1 << 20);
    ask_t *ask = ask_new (2560, 1, 0);
    kept_max = 1 << 20;
    wm_gather_add (gather, &ask->request);
    spin (0);
    assert_int_equal (n_sent, 10);
    for (uint32_t i = 10; i-- > 0;)
        answer (i, ask->triple[3 * (256 * i + 7)]);
    assert_int_equal (ask->code, WM_KS_INVALID);
    assert_non_null (strstr (ask->text,
                             "10 of 2560 rows of the request to model 'm' have no "
                             "scores, rows 7, 263, 519, 775, 1031, 1287, 1543, 1799 ..."));
    ask_free (ask);
    end ();
    is_strict = false;
}

/* So is the first row with an integer that may be rounded.  */
static void test_unsure_order (void **state)
{
    first_type = WM_TYPE_INT32;
    begin (1 << 20);
    ask_t *ask = ask_new (768, 1, 0);
    ask->triple[3 * 41] = ask->triple[3 * 40] = ask->triple[3 * 300] = 0x1p25f;
    wm_gather_add (gather, &ask->request);
    spin (0);
    assert_int_equal (n_sent, 3);
    for (uint32_t i = 3; i-- > 0;)
        answer (i, NAN);
    assert_int_equal (ask->code, WM_KS_INVALID);
    assert_non_null (strstr (ask->text, "'first' of model 'm': row 40 has a number of 2^24"));
    ask_free (ask);
    end ();
    first_type = 0;
}

/* A batch that is given up is tried again by request; one that fails for ever is refused alone.  */
static void test_again (void **state)
{
    begin (1 << 20);
    ask_t *good = ask_new (3, 1, 0), *bad = ask_new (2, 2, 0), *gone = ask_new (2, 3, 0);
    wm_gather_add (gather, &good->request);
    wm_gather_add (gather, &bad->request);
    wm_gather_add (gather, &gone->request);
    spin (0);
    assert_int_equal (n_sent, 1);
    is_written = true;
    wm_gather_cancel (&gone->request);
    hold (0);
    assert_int_equal (n_sent, 2);
    answer (sent[0]->frame.n == 3 ? 0 : 1, NAN);
    assert_int_equal (good->code, WM_KS_OK);
    hold (0);
    hold (0);
    assert_false (bad->is_answered);
    hold (0);
    assert_int_equal (bad->code, WM_KS_INTERNAL);
    assert_int_equal (wm_gather_counts (gather)->n_again, 4);
    assert_int_equal (wm_gather_counts (gather)->n_fault, 1);
    assert_string_equal (bad->text, "the engine crashed on it");
    assert_int_equal (n_sent, 0);
    assert_false (gone->is_answered);
    assert_int_equal (wm_gather_n_request (gather), 0);
    ask_free (good), ask_free (bad), ask_free (gone);
    end ();
}

/* Each request of such a batch takes its own rows along.  */
static void test_again_with_own_rows (void **state)
{
    begin (1 << 20);
    ask_t *ask[3];
    for (uint32_t i = 0; i < 3; i++)
        wm_gather_add (gather, &(ask[i] = ask_new (2 + i, i + 1, 0))->request);
    spin (0);
    assert_int_equal (n_sent, 1);
    hold (0);
    assert_int_equal (n_sent, 3);
    answer_all ();
    for (uint32_t i = 0; i < 3; i++) {
        assert_true (ask[i]->is_answered && ask[i]->code == WM_KS_OK); /* and check_rows */
        ask_free (ask[i]);
    }
    end ();
}

/* A batch of two requests goes on while one of them is wanted.  */
static void test_cancel_shared (void **state)
{
    for (int gone = 0; gone < 2; gone++) {
        begin (1 << 20);
        ask_t *ask[] = { ask_new (2, 1, 0), ask_new (3, 2, 0) };
        for (int i = 0; i < 2; i++)
            wm_gather_add (gather, &ask[i]->request);
        spin (0);
        assert_int_equal (n_sent, 1);
        wm_gather_cancel (&ask[gone]->request);
        assert_int_equal (n_sent, 1);
        answer (0, NAN);
        assert_false (ask[gone]->is_answered);
        assert_true (ask[!gone]->is_answered && ask[!gone]->code == WM_KS_OK);
        assert_int_equal (wm_gather_n_request (gather), 0);
        ask_free (ask[0]), ask_free (ask[1]);
        end ();
    }
}

/* What is counted of times and sizes; `turns` is called as the first request comes and the last
   one goes.  */
static void test_counts (void **state)
{
    begin (1 << 20);
    const wm_gather_counts_t *counts = wm_gather_counts (gather);
    const int64_t came_us = wm_loop_now_us (loop), came_ms = (int64_t) time (NULL) * 1000;
    ask_t *ask[3];
    for (uint32_t i = 0; i < 3; i++) {
        wm_gather_add (gather, &(ask[i] = ask_new (2 + i, 1, 0))->request);
        assert_int_equal (n_turn, 1);
        if (!i)
            spin (0);
    }
    spin (3000);
    assert_int_equal (n_sent, 2);
    answer (1, NAN);
    const uint64_t all_us = (uint64_t) (wm_loop_now_us (loop) - came_us);
    assert_int_equal (counts->size_n[3], 1); /* 7 rows: 5 to 8 */
    assert_true (counts->size_us[3] <= all_us);
    assert_true (counts->success_us <= 2 * all_us && counts->infer_us <= 2 * all_us);
    assert_true (counts->queue_us <= 2 * all_us);
    assert_true (counts->last_ms >= came_ms && counts->last_ms <= (int64_t) time (NULL) * 1000);
    for (int i = 0; i < 3; i++)
        hold (0);
    assert_int_equal (ask[0]->code, WM_KS_INTERNAL);
    assert_int_equal (n_turn, 2);
    /* a batch that is given up is none of its size */
    assert_int_equal (counts->n_batch, 1);
    assert_int_equal (counts->size_n[1], 0);
    assert_true (counts->fail_us >= 3000);
    assert_true (counts->fail_us <= (uint64_t) (wm_loop_now_us (loop) - came_us));
    const uint64_t before_us = counts->size_us[1];
    ask_t *two = ask_new (2, 1, 0), *four = ask_new (4, 1, 0);
    wm_gather_add (gather, &two->request);
    spin (3000);
    wm_gather_add (gather, &four->request);
    spin (3000);
    answer (0, NAN);
    answer (0, NAN);
    assert_int_equal (n_turn, 4);
    assert_int_equal (counts->size_n[1], 1);
    assert_true (counts->size_us[1] - before_us >= 6000);
    assert_int_equal (counts->size_n[2], 1);
    for (uint32_t i = 0; i < 3; i++)
        ask_free (ask[i]);
    ask_t *early = ask_new (1, 1, 0);
    early->request.deadline_ms = wm_loop_now_us (loop) / 1000 + 600000;
    wm_gather_add (gather, &early->request);
    wm_gather_cancel (&early->request);
    assert_true (counts->n_cancel == 1 && counts->n_late == 0);
    ask_free (early), ask_free (two), ask_free (four);
    end ();
}

/* A cancelled request's rows are not sent, or not waited for.  */
static void test_cancel (void **state)
{
    begin (1 << 20);
    ask_t *written = ask_new (1, 1, 0), *unwritten = ask_new (300, 1, 0), *waiting;
    wm_gather_add (gather, &written->request);
    spin (0);
    is_written = true;
    wm_gather_cancel (&written->request);
    assert_int_equal (n_sent, 1);
    wm_gather_add (gather, &unwritten->request);
    spin (2000);
    assert_int_equal (n_sent, 3);
    is_written = false;
    const uint32_t n = n_empty;
    wm_gather_cancel (&unwritten->request);
    assert_int_equal (n_sent, 1);
    spin (0);
    assert_true (n_empty > n); /* no request is left */
    wm_gather_add (gather, &(waiting = ask_new (1, 1, 0))->request);
    waiting->request.deadline_ms = wm_loop_now_us (loop) / 1000;
    wm_gather_cancel (&waiting->request);
    spin (2000);
    assert_int_equal (n_sent, 1);
    answer (0, NAN);
    assert_int_equal (wm_gather_n_request (gather), 0);
    assert_int_equal (n_answered, 0);
    assert_int_equal (wm_gather_counts (gather)->n_cancel, 2);
    assert_int_equal (wm_gather_counts (gather)->n_late, 1);
    ask_free (written), ask_free (unwritten), ask_free (waiting);
    end ();
}

/* Requests that leave are not answered by this gatherer, also where scores of theirs come; those
   that are added later are scored.  */
static void test_leave (void **state)
{
    begin (512 * N_VALUE * sizeof (float));
    ask_t *written = ask_new (200, 1, 0), *waiting = ask_new (3, 1, 0), *later = ask_new (2, 1, 0);
    wm_gather_add (gather, &written->request);
    spin (0);
    wm_gather_add (gather, &waiting->request);
    is_written = true;
    assert_true (wm_gather_is_asked (gather));
    n_left = 0;
    wm_gather_leave (gather, on_left, &n_left);
    assert_int_equal (n_left, 2);
    assert_ptr_equal (left[0], written);
    assert_ptr_equal (left[1], waiting);
    assert_null (written->request.backend);
    assert_false (wm_gather_is_asked (gather));
    wm_gather_leave (gather, on_left, &n_left); /* all have left */
    assert_int_equal (n_left, 2);
    wm_gather_add (gather, &later->request);
    assert_true (wm_gather_is_asked (gather));
    spin (2000);
    while (n_sent)
        answer (0, NAN);
    spin (2000);
    while (n_sent)
        answer (0, NAN);
    assert_int_equal (n_answered, 1);
    assert_int_equal (later->code, WM_KS_OK);
    assert_int_equal (wm_gather_n_request (gather), 0);
    is_written = false;
    ask_free (written), ask_free (waiting), ask_free (later);
    end ();
}

/* What is left at the end goes back once, as it came: rows that are scored do not count. A request
   that is cancelled meanwhile, or was before, does not.  */
static void test_end (void **state)
{
    begin (512 * N_VALUE * sizeof (float));
    ask_t *half = ask_new (700, 1, 0), *waiting = ask_new (1, 1, 0), *gone = ask_new (1, 1, 0),
          *before = ask_new (1, 1, 0);
    wm_gather_add (gather, &half->request);
    spin (0);
    wm_gather_add (gather, &waiting->request);
    wm_gather_add (gather, &gone->request);
    wm_gather_add (gather, &before->request);
    wm_gather_cancel (&before->request);
    answer (0, NAN);
    assert_int_equal (n_sent, 1);
    left_wants_gone = gone;
    end ();
    left_wants_gone = NULL;
    assert_int_equal (n_left, 2);
    assert_ptr_equal (left[0], half);
    assert_ptr_equal (left[1], waiting);
    assert_int_equal (n_answered, 0);
    begin (1 << 20); /* another one takes them */
    wm_gather_add (gather, &half->request);
    wm_gather_add (gather, &waiting->request);
    spin (2000);
    while (n_sent)
        answer (0, NAN);
    assert_int_equal (half->code, WM_KS_OK);
    assert_int_equal (waiting->code, WM_KS_OK);
    ask_free (half), ask_free (waiting), ask_free (gone), ask_free (before);
    end ();
}

/* Scores are counted from the beginning; of an answer of FP64 as many bytes as that has.  */
static void test_kept (void **state)
{
    for (int is_double = 0; is_double < 2; is_double++) {
        first_type = is_double ? WM_TYPE_FP64 : 0;
        begin (1 << 20);
        ask_t *ask = ask_new (100, 1, 0), *none = ask_new (0, 1, 0), *much = ask_new (100, 1, 0),
              *wrong = ask_new (2, 1, 0), *some = ask_new (100, 1, 0);
        some->output[0] = "sum";
        some->request.n_output = 1;
        const size_t bytes = 100 * (is_double ? 4 + 2 * 8 : ROW_BYTES);
        assert_int_equal (wm_gather_need (gather, &ask->request), bytes);
        assert_int_equal (wm_gather_need (gather, &none->request), 0);
        assert_int_equal (wm_gather_need (gather, &some->request), 100 * 4);
        wrong->request.n_input = 1;
        assert_int_equal (wm_gather_need (gather, &wrong->request), 0);
        wm_gather_add (gather, &ask->request);
        assert_int_equal (ask->kept, bytes);
        kept_max = bytes - 1;
        wm_gather_add (gather, &much->request);
        assert_int_equal (much->code, WM_KS_EXHAUSTED);
        assert_string_equal (much->text, "no memory for the scores of 100 rows");
        spin (0);
        answer (0, NAN);
        assert_int_equal (ask->code, WM_KS_OK);
        assert_int_equal (n_sent, 0);
        ask_free (ask), ask_free (none), ask_free (much), ask_free (wrong), ask_free (some);
        end ();
    }
    first_type = 0;
}

static void refused (ask_t *ask, const char *text)
{
    wm_gather_add (gather, &ask->request);
    assert_true (ask->is_answered);
    assert_int_equal (ask->code, WM_KS_INVALID);
    assert_string_equal (ask->text, text);
    ask_free (ask);
}

static void test_refused (void **state)
{
    begin (1 << 20);
    ask_t *ask = ask_new (2, 1, 0);
    ask->request.n_input = 1;
    refused (ask, "expected 2 inputs but got 1 inputs for model 'm'");
    ask = ask_new (2, 1, 0);
    ask->input[0].name = "other";
    refused (ask, "unexpected inference input 'other' for model 'm'");
    ask = ask_new (2, 1, 0);
    ask->input[0].name = "triple";
    refused (ask, "unexpected shape for input 'triple' for model 'm'. Expected [-1,3], got [2]");
    ask = ask_new (2, 1, 0);
    ask->input[0] = ask->input[1];
    refused (ask, "input 'triple' already exists in request");
    ask = ask_new (2, 1, 0);
    ask->input[1].type = WM_TYPE_INT32;
    refused (ask, "inference input 'triple' data-type is 'INT32', but model 'm' expects 'FP32'");
    ask = ask_new (2, 1, 0);
    ask->input[0].dim[0] = 1;
    ask->input[0].bytes = 4;
    refused (ask, "input 'triple' batch size does not match other inputs for 'm'");
    ask = ask_new (2, 1, 0);
    ask->output[0] = "none";
    ask->request.n_output = 1;
    refused (ask, "unexpected inference output 'none' for model 'm'");
    ask = ask_new (2, 1, 0);
    ask->output[0] = ask->output[1] = "sum";
    ask->request.n_output = 2;
    refused (ask, "output 'sum' already exists in request");
    end ();
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_queue),        cmocka_unit_test (test_own_delay),
        cmocka_unit_test (test_gathered),     cmocka_unit_test (test_split),
        cmocka_unit_test (test_order),        cmocka_unit_test (test_equal_turns),
        cmocka_unit_test (test_not_finite),   cmocka_unit_test (test_again_with_own_rows),
        cmocka_unit_test (test_held_refused), cmocka_unit_test (test_again),
        cmocka_unit_test (test_cancel),       cmocka_unit_test (test_end),
        cmocka_unit_test (test_leave),        cmocka_unit_test (test_kept),
        cmocka_unit_test (test_refused),      cmocka_unit_test (test_limits),
        cmocka_unit_test (test_delay),        cmocka_unit_test (test_model_nan),
        cmocka_unit_test (test_turns),        cmocka_unit_test (test_cancel_shared),
        cmocka_unit_test (test_counts),       cmocka_unit_test (test_slow_answer),
        cmocka_unit_test (test_round),        cmocka_unit_test (test_held_order),
        cmocka_unit_test (test_unsure_order),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
