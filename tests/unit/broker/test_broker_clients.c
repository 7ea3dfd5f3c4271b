/* test_broker_clients.c - wm_core for clients: results go to the session that sent the patches, and
   nothing of an input outlives its answer or its session.  */
#include "tests/unit/check_harness.h"

#include <math.h>

static harness_t *clients_new (void)
{
    harness_t *t = calloc (1, sizeof *t);
    t->now_ms = 1000000;
    t->for_clients = 1;
    t->core = core_make (t, 1, 64 * MIB);
    return t;
}

/* Nothing is queued, running or kept.  */
static void assert_empty (const harness_t *t)
{
    const wm_summary_t s = look (t);
    assert_int_equal (s.batches_queued + s.batches_asked + s.batches_running, 0);
    assert_int_equal (s.batches_returned + s.batches_held, 0);
    assert_int_equal (s.budget_used_bytes, 0);
}

static wm_key_t begin (harness_t *t, uint32_t session)
{
    const size_t before = t->n_appended;
    const sent_t *ack = input_ask (t, session, "client", "client", 0, 1);
    assert_int_equal (ack->msg.code, WM_INPUT_CLAIMED);
    assert_int_equal (t->n_appended, before); /* it is not recorded */
    return ack->msg.key;
}

static void test_results_come_unasked (void **state)
{
    harness_t *t = clients_new ();
    uint32_t p = producer (t, 1), w = worker (t, 2, 2);
    wm_key_t input = begin (t, p);
    wm_msg_t last;
    submit (t, p, input, 5, 2);
    assert_int_equal (answer_needs (t, p), 2);
    for (uint32_t i = 0; i < 2; i++) {
        const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
        t->fetched = 0;
        result_of (t, w, &task, 1);
        assert_int_equal (t->fetched, 0);
        durable (t);
        assert_int_equal (t->fetched, p);
        must (t, w, WM_MSG_RESULT_ACK);
        last = task;
    }
    assert_null (take (t, p, WM_MSG_EVENT_DONE));
    assert_empty (t);
    assert_int_equal (look (t).hits_done, 20);
    result_of (t, w, &last, 1); /* once more: it is for nobody */
    durable (t);
    must (t, w, WM_MSG_RESULT_ACK);
    assert_empty (t);
    submit (t, p, input, 5, 1); /* the number is free again */
    assert_int_equal (answer_needs (t, p), 1);
    harness_end (t);
}

/* The signature of the first worker's class cannot be kept, because the disk is full: the record
   has no place, and clients are answered.  */
static void test_a_full_disk (void **state)
{
    harness_t *t = clients_new ();
    uint32_t p = producer (t, 1), w = worker (t, 2, 2);
    const wm_key_t input = begin (t, p);
    submit (t, p, input, 5, 1);
    assert_int_equal (answer_needs (t, p), 1);
    const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &task, 1);
    assert_null (take (t, w, WM_MSG_REJECT));
    for (; t->n_durable < t->n_appended; t->n_durable++)
        wm_core_durable (t->core, &(wm_place_t){ 0 }, t->now_ms);
    assert_int_equal (t->fetched, p);
    must (t, w, WM_MSG_RESULT_ACK);
    assert_int_equal (look (t).n_arithmetic, 1);
    harness_end (t);
}

static void test_a_client_goes (void **state)
{
    harness_t *t = clients_new ();
    uint32_t p = producer (t, 1), w = worker (t, 2, 1);
    wm_key_t input = begin (t, p);
    submit (t, p, input, 0, 3); /* running, ready, ready */
    assert_int_equal (answer_needs (t, p), 3);
    submit (t, p, input, 1, 2);
    const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    wm_core_closed (t->core, p, t->now_ms);
    assert_memory_equal (&must (t, w, WM_MSG_REVOKE)->msg.key, &task.key, sizeof task.key);
    assert_int_equal (look (t).batches_queued + look (t).batches_running, 0);
    assert_int_equal (look (t).hits_announced, look (t).hits_held); /* the bad hits were answered */

    /* Another has the input now, with the same number and the same patches: what comes of the old
       one is acknowledged, and goes to nobody.  */
    uint32_t other = producer (t, 3);
    wm_key_t next = begin (t, other);
    assert_int_equal (next.input, input.input);
    assert_int_equal (next.generation, input.generation + 1);
    submit (t, other, next, 0, 3);
    t->fetched = 0;
    result_of (t, w, &task, 1);
    durable (t);
    must (t, w, WM_MSG_RESULT_ACK);
    assert_int_equal (t->fetched, 0);
    assert_int_equal (look (t).hits_done, 0);
    wm_core_closed (t->core, other, t->now_ms);
    const uint32_t alive[] = { w, 0 };
    pass (t, 1000, alive);
    assert_empty (t);
    harness_end (t);
}

/* A client goes while the result of its batch waits for its effect.  */
static void test_a_client_goes_before_its_answer (void **state)
{
    harness_t *t = clients_new ();
    uint32_t p = producer (t, 1), w = worker (t, 2, 1);
    wm_key_t input = begin (t, p);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &task, 1);
    wm_core_closed (t->core, p, t->now_ms);
    uint32_t other = producer (t, 3);
    submit (t, other, begin (t, other), 0, 1);
    durable (t);
    assert_int_equal (t->fetched, 0);
    must (t, w, WM_MSG_RESULT_ACK);
    harness_end (t);
}

static void test_two_clients (void **state)
{
    harness_t *t = clients_new ();
    uint32_t p[2] = { producer (t, 1), producer (t, 3) }, w = worker (t, 2, 2);
    for (uint32_t i = 0; i < 2; i++) {
        wm_key_t input = begin (t, p[i]);
        assert_int_equal (input.input, i + 1);
        submit (t, p[i], input, 0, 1);
        answer_needs (t, p[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
        result_of (t, w, &task, 1);
        durable (t);
        assert_int_equal (t->fetched, p[task.key.input - 1]);
    }
    assert_empty (t);
    harness_end (t);
}

/* Answers a task and returns whose the next is.  */
static uint32_t answer_one (harness_t *t, uint32_t w, uint32_t n)
{
    const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    credit (t, w, n);
    result_of (t, w, &task, 1);
    durable (t);
    return task.key.input;
}

/* A request of one batch goes before what another client has here already, and its payload is asked
   for at once; many such requests leave that client its turns.  */
static void test_little_goes_before_much (void **state)
{
    enum { MUCH = 24 };
    harness_t *t = clients_new ();
    uint32_t much = producer (t, 1), little = producer (t, 2), w = worker (t, 3, 2);
    wm_key_t inputs[] = { begin (t, much), begin (t, little) };
    submit (t, much, inputs[0], 0, MUCH);
    while (answer_needs (t, much))
        ;
    assert_int_equal (count (t, w, WM_MSG_TASK), 2);
    assert_true (look (t).batches_queued > 2); /* more are here than the worker takes */
    submit (t, little, inputs[1], 0, 1);
    assert_int_equal (answer_needs (t, little), 1);
    uint32_t n = 2;
    assert_int_equal (answer_one (t, w, ++n), inputs[0].input); /* the worker had two in hand */
    assert_int_equal (answer_one (t, w, ++n), inputs[0].input);
    assert_int_equal (answer_one (t, w, ++n), inputs[1].input);
    uint32_t n_little = 0, n_much = 0;
    for (uint32_t i = 1; i < 12; i++) { /* it asks again as soon as it is answered */
        submit (t, little, inputs[1], i, 1);
        answer_needs (t, little);
        answer_needs (t, much);
        while (answer_one (t, w, ++n) == inputs[0].input) {
            n_much++;
            answer_needs (t, much);
        }
        n_little++;
    }
    assert_int_equal (n_little, 11);
    assert_in_range (n_much, 11, 22); /* those in hand, and not one more for each */
    harness_end (t);
}

/* A client's batches that wait count for itself alone: another is asked though many are here.  */
static void test_what_is_here_counts_for_its_client (void **state)
{
    harness_t *t = clients_new ();
    uint32_t much = producer (t, 1), little = producer (t, 2);
    wm_key_t inputs[] = { begin (t, much), begin (t, little) };
    submit (t, much, inputs[0], 0, 8);
    assert_int_equal (answer_needs (t, much), 2); /* there is no worker yet: two are enough */
    assert_int_equal (answer_needs (t, much), 0);
    submit (t, little, inputs[1], 0, 8);
    assert_int_equal (answer_needs (t, little), 1);
    wm_core_closed (t->core, much, t->now_ms);
    assert_int_equal (answer_needs (t, little), 1);
    harness_end (t);
}

enum { IN_HAND = 24 };

/* A worker that has IN_HAND batches of a client, so that those of others wait for their turn.  */
static uint32_t worker_with_its_hands_full (harness_t *t)
{
    const uint32_t p = producer (t, 40), w = worker (t, 41, IN_HAND);
    submit (t, p, begin (t, p), 0, IN_HAND);
    while (answer_needs (t, p))
        ;
    assert_int_equal (count (t, w, WM_MSG_TASK), IN_HAND);
    while (take (t, w, WM_MSG_TASK))
        ;
    return w;
}

/* Announces n events of one batch of so many hits, and sends their payloads.  */
static void bring_from (harness_t *t, uint32_t p, wm_key_t input, uint32_t first, uint32_t n,
                        uint32_t n_hit)
{
    wm_manifest_batch_t line = { .n_hit = n_hit, .raw_bytes = 1000 };
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = input;
    msg.n_batch = 1;
    msg.n_hit = n_hit;
    for (uint32_t i = 0; i < n; i++) {
        msg.key.ordinal = first + i;
        digest_of (first + i, 0, line.digest);
        say (t, p, &msg, &line, sizeof line);
        assert_int_equal (answer_needs (t, p), 1);
    }
}

static void bring (harness_t *t, uint32_t p, wm_key_t input, uint32_t n, uint32_t n_hit)
{
    bring_from (t, p, input, 1000, n, n_hit);
}

/* Turns count hits: of two clients whose batches wait, the one with small ones has as many hits
   sent as the other, not as many batches. A batch takes a turn, and one more for each 64 hits.  */
static void test_turns_count_hits (void **state)
{
    enum { N = 12, LARGE = 640 };
    static const struct {
        uint32_t n_hit, n_before; /* so many before the second of LARGE, whose turn is 11 */
    } small_of[] = { { 63, 11 }, { 64, 6 }, { 128, 4 } };
    for (int i = 0; i < 3; i++) {
        harness_t *t = clients_new ();
        const uint32_t large = producer (t, 1), small = producer (t, 2);
        const wm_key_t inputs[] = { begin (t, large), begin (t, small) };
        const uint32_t w = worker_with_its_hands_full (t);
        bring (t, large, inputs[0], 3, LARGE);
        bring (t, small, inputs[1], N, small_of[i].n_hit);
        credit (t, w, IN_HAND + 3 + N);
        uint32_t n_small = 0;
        for (uint32_t n_large = 0; n_large < 2;) {
            const bool is_large = must (t, w, WM_MSG_TASK)->msg.key.input == inputs[0].input;
            n_large += is_large;
            n_small += !is_large;
        }
        assert_int_equal (n_small, small_of[i].n_before);
        harness_end (t);
    }
}

/* A batch that comes back goes out first, and takes no turn again; its old turn is not the one that
   is served: a client that comes then begins where the others are.  */
static void test_what_comes_back_has_had_its_turn (void **state)
{
    enum { BEFORE = 40, N = 6 };
    harness_t *t = clients_new ();
    const uint32_t busy = producer (t, 1), slow = worker (t, 3, 1);
    const wm_key_t input = begin (t, busy);
    bring (t, busy, input, 1, 10);
    const wm_key_t first = must (t, slow, WM_MSG_TASK)->msg.key;
    const uint32_t w = worker (t, 4, 1);
    for (uint32_t i = 0; i < BEFORE; i++) {
        submit (t, busy, input, i, 1);
        answer_needs (t, busy);
        answer_one (t, w, 2 + i);
    }
    bye (t, w, WM_REASON_DONE);
    const uint32_t full = worker_with_its_hands_full (t);
    bring_from (t, busy, input, 2000, N, 10);
    bye (t, slow, WM_REASON_DONE);
    credit (t, full, IN_HAND + 1);
    assert_int_equal (must (t, full, WM_MSG_TASK)->msg.key.ordinal, first.ordinal);
    const uint32_t late = producer (t, 5);
    bring (t, late, begin (t, late), N, 10);
    credit (t, full, IN_HAND + 1 + 2 * N);
    uint32_t n_busy = 0;
    for (uint32_t i = 0; i < N; i++)
        n_busy += must (t, full, WM_MSG_TASK)->msg.key.input == input.input;
    assert_in_range (n_busy, N / 2 - 1, N / 2 + 1);
    harness_end (t);
}

/* Of equal turns the one that came first is served first.  */
static void test_equal_turns_keep_their_order (void **state)
{
    enum { N = 4 };
    harness_t *t = clients_new ();
    const uint32_t w = worker_with_its_hands_full (t);
    uint32_t input[N];
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t p = producer (t, (uint8_t) (1 + i));
        const wm_key_t key = begin (t, p);
        input[i] = key.input;
        bring (t, p, key, 1, 10);
    }
    credit (t, w, IN_HAND + N);
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal (must (t, w, WM_MSG_TASK)->msg.key.input, input[i]);
    harness_end (t);
}

/* A client that was idle while others had their turns begins at the turn that is served now: it
   does not go ahead of all until it has caught up.  */
static void test_idle_time_is_not_saved (void **state)
{
    enum { BEFORE = 40, N = 6 };
    harness_t *t = clients_new ();
    const uint32_t busy = producer (t, 1), idle = producer (t, 2), w = worker (t, 3, 1);
    const wm_key_t inputs[] = { begin (t, busy), begin (t, idle) };
    bring (t, idle, inputs[1], 1, 10);
    answer_one (t, w, 2);
    for (uint32_t i = 0; i < BEFORE; i++) {
        submit (t, busy, inputs[0], i, 1);
        answer_needs (t, busy);
        answer_one (t, w, 3 + i);
    }
    wm_core_closed (t->core, w, t->now_ms);
    const uint32_t full = worker_with_its_hands_full (t);
    bring (t, busy, inputs[0], N, 10);
    bring (t, idle, inputs[1], N, 10);
    credit (t, full, IN_HAND + 2 * N);
    uint32_t n_busy = 0;
    for (uint32_t i = 0; i < N; i++)
        n_busy += must (t, full, WM_MSG_TASK)->msg.key.input == inputs[0].input;
    assert_in_range (n_busy, N / 2 - 1, N / 2 + 1);
    harness_end (t);
}

/* A worker that is lost, and one that refuses: the batch goes to another, and at last is held.  */
static void test_failures (void **state)
{
    harness_t *t = clients_new ();
    uint32_t p = producer (t, 1), w = worker (t, 2, 1), v = worker (t, 4, 1);
    wm_key_t input = begin (t, p);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    for (int i = 0; i < 5 && !count (t, p, WM_MSG_RESULTS); i++) {
        const uint32_t who = count (t, w, WM_MSG_TASK) ? w : v;
        const wm_msg_t task = must (t, who, WM_MSG_TASK)->msg;
        nack (t, who, &task, WM_EBATCH);
        credit (t, who, (uint64_t) i + 2);
        durable (t);
    }
    const sent_t *held = must (t, p, WM_MSG_RESULTS);
    assert_int_equal (held->msg.code, WM_HIT_HELD);
    assert_non_null (strstr (held->msg.text, "failures"));
    assert_int_equal (held->msg.n_hit, 10);
    assert_empty (t);
    harness_end (t);
}

/* Ragged rows: a result is as long as it states, or a status alone that holds the row. Any other
   ends the worker's session, and another one gets the batch.  */
static void test_ragged_results (void **state)
{
    static const struct {
        uint32_t n_value;
        uint8_t status;
        float value[5];
        size_t more; /* bytes behind the values */
        bool is_fine;
        uint32_t n_hit;
    } results[] = {
        { 4, WM_HIT_SCORED, { 4, 1, 0, 7 }, 0, true, 1 },
        { 3, WM_HIT_HELD, { 3, 0, 'x' }, 0, true, 1 },
        { 4, WM_HIT_NONFINITE, { 4, 1, 0, NAN }, 0, true, 1 },
        { 4, WM_HIT_SCORED, { 4, 1, 0, INFINITY }, 0, true, 1 }, /* of clients */
        { 4, WM_HIT_SCORED, { 4, 1, 0, -INFINITY }, 0, true, 1 },
        { 4, WM_HIT_SCORED, { INFINITY, 1, 0, 7 }, 0, false, 1 },
        { 0, WM_HIT_POISON, { 0 }, 0, true, 1 },
        { 0, WM_HIT_SCORED, { 0 }, 0, false, 1 },
        { 4, WM_HIT_SCORED, { 3, 1, 0, 7 }, 0, false, 1 },
        { 4, WM_HIT_SCORED, { NAN, 1, 0, 7 }, 0, false, 1 },
        { 4, WM_HIT_SCORED, { 4, 1, 0, NAN }, 0, false, 1 },
        { 4, WM_HIT_HELD, { 5, 1, 0, 7 }, 0, false, 1 },
        { 4, WM_HIT_STATUSES, { 4, 1, 0, 7 }, 0, false, 1 },
        { 5, WM_HIT_SCORED, { 5, 1, 1, 1, 7 }, 0, false, 1 }, /* of N_OUTPUT at most */
        { 4, WM_HIT_SCORED, { 4, 1, 0, 7 }, 1, false, 1 },
        { 4, WM_HIT_SCORED, { 4, 1, 0, 7 }, 0, false, 2 },
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        harness_t *t = clients_new ();
        wm_core_destroy (&t->core);
        t->is_ragged = 1;
        t->core = core_make (t, 1, 64 * MIB);
        uint32_t p = producer (t, 1), w = worker (t, 2, 1);
        wm_manifest_batch_t line = { .n_hit = 1, .raw_bytes = 900 };
        uint8_t payload[32] = { 0 };
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_SUBMIT);
        msg.key = begin (t, p);
        msg.run = msg.n_batch = msg.n_hit = 1;
        digest_of (0, 0, line.digest);
        say (t, p, &msg, &line, sizeof line);
        assert_int_equal (answer_needs (t, p), 1);
        msg = must (t, w, WM_MSG_TASK)->msg;
        msg.type = WM_MSG_RESULT;
        msg.n_hit = results[i].n_hit;
        payload[0] = results[i].status;
        memcpy (payload + 1, results[i].value, 4 * results[i].n_value);
        say (t, w, &msg, payload, 1 + 4 * results[i].n_value + results[i].more);
        durable (t);
        if (results[i].is_fine) {
            must (t, w, WM_MSG_RESULT_ACK);
            assert_int_equal (t->fetched, p);
            assert_empty (t);
        } else {
            refused (t, w, WM_REASON_PROTOCOL);
            const uint32_t alive[] = { p, 0 };
            pass (t, 4000, alive);
            must (t, worker (t, 3, 1), WM_MSG_TASK);
        }
        harness_end (t);
    }
}

/* Spot checks: a number that is used again ends the check of the event that had it, and no other;
   that of another client has another generation. No input of a client begins again.  */
static void test_checks_of_clients (void **state)
{
    harness_t *t = clients_new ();
    wm_core_destroy (&t->core);
    t->check_share = 1;
    t->core = core_make (t, 1, 64 * MIB);
    uint32_t p = producer (t, 1);
    const uint32_t a = joins (t, 2, "alpha", 9);
    wm_key_t input = begin (t, p);
    first (t, p, a, input, 5, 0.5f);
    first (t, p, a, input, 6, 0.5f);
    assert_int_equal (look (t).n_check_open, 2);
    submit (t, p, input, 5, 1);
    assert_int_equal (look (t).n_check_open, 1);
    wm_core_closed (t->core, p, t->now_ms);
    p = producer (t, 3);
    const wm_key_t next = begin (t, p);
    assert_int_equal (next.input, input.input);
    submit (t, p, next, 6, 1);
    assert_int_equal (look (t).n_check_open, 1);
    const uint32_t b = joins (t, 4, "beta", 1);
    wm_msg_t task = must (t, b, WM_MSG_TASK)->msg;
    assert_int_equal (task.key.generation, input.generation);
    scores (t, b, &task, 0.25f);
    assert_int_equal (look (t).n_check_differ, 1);
    const uint32_t c = joins (t, 5, "gamma", 1);
    must (t, c, WM_MSG_TASK);
    scores (t, c, &task, 0.25f);
    assert_int_equal (look (t).n_named, 1);
    assert_int_equal (records (t, WM_RECORD_DISTRUST), 1);
    assert_int_equal (records (t, WM_RECORD_KICK), 0);
    harness_end (t);
}

static void test_what_is_for_files (void **state)
{
    static const wm_msg_type_t types[] = { WM_MSG_INPUT_END, WM_MSG_FILE_WRITTEN, WM_MSG_FILE_LOST,
                                           WM_MSG_INPUT_HELD, WM_MSG_INPUT };
    harness_t *t = clients_new ();
    wm_msg_t msg;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        uint32_t p = producer (t, (uint8_t) (i + 1));
        wm_msg_init (&msg, types[i]);
        msg.key = begin (t, p);
        msg.code = 1;
        strcpy (msg.name, "a");
        strcpy (msg.path, "a");
        say (t, p, &msg, NULL, 0);
        refused (t, p, WM_REASON_PROTOCOL);
    }
    uint32_t p = producer (t, 50); /* INPUT that does not claim */
    wm_msg_init (&msg, WM_MSG_INPUT);
    say (t, p, &msg, NULL, 0);
    refused (t, p, WM_REASON_PROTOCOL);
    p = producer (t, 51);
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = begin (t, p);
    submit (t, p, msg.key, 0, 1);
    say (t, p, &msg, NULL, 0);
    refused (t, p, WM_REASON_PROTOCOL);
    uint32_t o = hello (t, WM_ROLE_OPERATOR, 52, NULL, 0);
    wm_msg_init (&msg, WM_MSG_CONTROL);
    strcpy (msg.name, "kick");
    strcpy (msg.text, "1");
    say (t, o, &msg, NULL, 0);
    refused (t, o, WM_REASON_STALE);
    assert_int_equal (t->n_appended, 0);
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_results_come_unasked),
        cmocka_unit_test (test_a_full_disk),
        cmocka_unit_test (test_a_client_goes),
        cmocka_unit_test (test_a_client_goes_before_its_answer),
        cmocka_unit_test (test_two_clients),
        cmocka_unit_test (test_little_goes_before_much),
        cmocka_unit_test (test_what_is_here_counts_for_its_client),
        cmocka_unit_test (test_turns_count_hits),
        cmocka_unit_test (test_what_comes_back_has_had_its_turn),
        cmocka_unit_test (test_equal_turns_keep_their_order),
        cmocka_unit_test (test_idle_time_is_not_saved),
        cmocka_unit_test (test_failures),
        cmocka_unit_test (test_ragged_results),
        cmocka_unit_test (test_checks_of_clients),
        cmocka_unit_test (test_what_is_for_files),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
