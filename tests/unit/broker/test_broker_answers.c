/* test_broker_answers.c - wm_core: an answer waits for the record that makes it true, a claim is
   its owner's, what was given for a while is given back, and limits are exact.  */
#include "tests/unit/core_harness.h"

static void send_key (harness_t *t, uint32_t session, wm_msg_type_t type, wm_key_t key,
                      uint64_t count_)
{
    wm_msg_t msg;
    wm_msg_init (&msg, type);
    msg.key = key;
    msg.count = count_;
    strcpy (msg.text, "why");
    say (t, session, &msg, NULL, 0);
}

static void send_input (harness_t *t, uint32_t session, uint32_t code)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = code;
    msg.size = 1000;
    msg.mtime_ns = 5;
    strcpy (msg.path, "/data/a.h5");
    strcpy (msg.name, "a.scores.h5");
    say (t, session, &msg, NULL, 0);
}

static void silent (const harness_t *t, uint32_t session)
{
    assert_int_equal (count (t, session, WM_MSG_ACK), 0);
    assert_int_equal (count (t, session, WM_MSG_INPUT_ACK), 0);
}

/* Each record has been appended and is not durable: who asks again, or asks about it, waits.  */
static void test_answers_wait (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), q = producer (t, 2);
    send_input (t, p, 1);
    send_input (t, q, 0);
    silent (t, p), silent (t, q);
    durable (t);
    wm_key_t input = must (t, p, WM_MSG_INPUT_ACK)->msg.key;
    assert_int_equal (must (t, q, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_OPEN);

    send_key (t, p, WM_MSG_INPUT_END, input, 0);
    send_key (t, p, WM_MSG_INPUT_END, input, 0);
    silent (t, p);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_INPUT_END);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_INPUT_END);

    send_key (t, p, WM_MSG_FILE_WRITTEN, input, 0);
    send_input (t, q, 0);
    silent (t, p), silent (t, q);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_FILE_WRITTEN);
    assert_int_equal (must (t, q, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_WRITTEN);

    send_key (t, q, WM_MSG_FILE_LOST, input, 0); /* q is the last that was told WRITTEN */
    send_key (t, q, WM_MSG_FILE_LOST, input, 0);
    send_input (t, q, 0);
    silent (t, q);
    durable (t);
    assert_int_equal (must (t, q, WM_MSG_ACK)->msg.code, WM_MSG_FILE_LOST);
    assert_int_equal (must (t, q, WM_MSG_ACK)->msg.code, WM_MSG_FILE_LOST);
    assert_int_equal (must (t, q, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_OPEN);

    send_input (t, p, 1);
    must (t, p, WM_MSG_INPUT_ACK);
    send_key (t, p, WM_MSG_INPUT_HELD, input, 0);
    send_input (t, q, 0);
    silent (t, p), silent (t, q);
    durable (t);
    must (t, p, WM_MSG_ACK);
    assert_int_equal (must (t, q, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_HELD);
    harness_end (t);
}

/* What an owner may send of its claim.  */
static const wm_msg_type_t of_claims[] = { WM_MSG_INPUT_END, WM_MSG_FILE_WRITTEN, WM_MSG_INPUT_HELD,
                                           WM_MSG_FETCH, WM_MSG_SUBMIT };
#define OF_CLAIMS (sizeof of_claims / sizeof *of_claims)

static void send_of_claim (harness_t *t, uint32_t session, wm_msg_type_t type, wm_key_t input)
{
    if (type == WM_MSG_SUBMIT)
        submit (t, session, input, 0, 1);
    else
        send_key (t, session, type, input, type == WM_MSG_INPUT_END);
}

/* Once FILE_WRITTEN is on its way to the disk the claim is over, whatever comes behind it.  */
static void test_written_ends_a_claim (void **state)
{
    for (size_t i = 0; i < OF_CLAIMS; i++) {
        harness_t *t = harness_new (64 * MIB);
        uint32_t p = producer (t, 1);
        wm_key_t input = claim (t, p);
        send_key (t, p, WM_MSG_INPUT_END, input, 0);
        durable (t);
        must (t, p, WM_MSG_ACK);
        send_key (t, p, WM_MSG_FILE_WRITTEN, input, 0);
        const size_t n = t->n_appended;
        send_of_claim (t, p, of_claims[i], input);
        refused (t, p, WM_REASON_STALE);
        assert_int_equal (t->n_appended, n);
        durable (t);
        assert_int_equal (look (t).inputs_written, 1);
        assert_int_equal (look (t).inputs_held, 0);
        harness_end (t);
    }
}

static void test_a_claim_is_its_owners (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    const size_t n = t->n_appended;
    for (uint8_t i = 0; i < OF_CLAIMS; i++) {
        uint32_t q = producer (t, (uint8_t) (2 + i));
        send_of_claim (t, q, of_claims[i], input);
        refused (t, q, WM_REASON_STALE);
    }
    assert_int_equal (t->n_appended, n);
    submit (t, p, input, 0, 1); /* it has its claim still */
    must (t, p, WM_MSG_SUBMIT_ACK);
    harness_end (t);
}

/* ---- what is given back ---------------------------------------------------------------------- */

/* The bytes of a NEED that was answered are in nobody's share.  */
static void test_bytes_of_needs (void **state)
{
    harness_t *t = harness_new (32 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 4);
    wm_key_t input = claim (t, p);
    for (uint32_t ordinal = 0; ordinal < 2; ordinal++)
        submit_raw (t, p, input, ordinal, 40, MIB);
    for (uint64_t i = 0; i < 70; i++) {
        static uint8_t payload[MIB];
        assert_in_range (count (t, p, WM_MSG_NEED), 2, 6);
        wm_msg_t msg = must (t, p, WM_MSG_NEED)->msg;
        msg.type = WM_MSG_BATCH;
        say (t, p, &msg, payload, sizeof payload);
        msg = must (t, w, WM_MSG_TASK)->msg;
        result_of (t, w, &msg, 1);
        durable (t);
        credit (t, w, 5 + i);
    }
    harness_end (t);
}

/* The batches of a worker that leaves go to the next one in the order that they had.  */
static void test_order_of_what_comes_back (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), w = worker (t, 2, 3);
    submit (t, p, claim (t, p), 0, 5);
    while (answer_needs (t, p))
        ;
    assert_int_equal (count (t, w, WM_MSG_TASK), 3);
    bye (t, w, WM_REASON_DONE);
    const uint32_t v = worker (t, 3, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal (must (t, v, WM_MSG_TASK)->msg.key.batch, i);
    harness_end (t);
}

/* Of a worker that stands still the batch is blamed which it says it computes, not the first that
   it was sent; it may still answer that one, and the others are taken back.  */
static void test_blame_for_what_is_computed (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), w = worker (t, 2, 3);
    wm_msg_t task[3];
    submit (t, p, claim (t, p), 0, 3);
    while (answer_needs (t, p))
        ;
    for (int i = 0; i < 3; i++)
        task[i] = must (t, w, WM_MSG_TASK)->msg;
    for (int i = 0; i < 64; i++) {
        t->now_ms += 500;
        heartbeat (t, w, task[1].key, 1);
        heartbeat (t, p, (wm_key_t){ 0 }, 0);
        wm_core_tick (t->core, t->now_ms);
    }
    assert_int_equal (must (t, w, WM_MSG_REVOKE)->msg.key.batch, 2);
    assert_int_equal (must (t, w, WM_MSG_REVOKE)->msg.key.batch, 0);
    assert_null (take (t, w, WM_MSG_REVOKE));
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal (wm_core_batch_find (t->core, &task[i].key)->n_lost, i == 1);
    harness_end (t);
}

/* Who has sent all that it was asked for has no share: another producer gets the whole.  */
static void test_share_of_one_that_is_done (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), q = producer (t, 2);
    wm_key_t input = claim (t, p);
    sent_t *sent = input_ask (t, q, "/data/b.h5", "b.scores.h5", 1000, 1);
    wm_key_t other = sent->msg.key;
    worker (t, 3, 4);
    submit (t, q, other, 0, 1);
    assert_int_equal (answer_needs (t, q), 1);
    submit (t, p, input, 0, 20);
    assert_int_equal (count (t, p, WM_MSG_NEED), 6); /* four in the window, and two */
    harness_end (t);
}

/* Sends payloads of 1 MiB for all NEEDs; returns how many.  */
static int bring (harness_t *t, uint32_t p)
{
    static uint8_t payload[MIB];
    int n = 0;
    for (sent_t *need; (need = take (t, p, WM_MSG_NEED)); n++) {
        wm_msg_t msg = need->msg;
        msg.type = WM_MSG_BATCH;
        say (t, p, &msg, payload, sizeof payload);
    }
    return n;
}

/* Where there is no room for another payload, that of a running batch goes: not while it is on its
   way to the worker, and not if its producer, which could send it again, has left.  */
static void test_which_payloads_make_room (void **state)
{
    harness_t *t = harness_new (6 * MIB);
    const uint32_t p = producer (t, 1), q = producer (t, 2), w = worker (t, 3, 9);
    const wm_key_t input = claim (t, p),
                   other = input_ask (t, q, "/data/b.h5", "b.scores.h5", 1000, 1)->msg.key;
    wm_key_t key[16];
    int n = 0;
    t->deaf = w;
    submit_raw (t, p, input, 0, 4, MIB);
    while (bring (t, p))
        ;
    while (n < 4)
        key[n++] = must (t, w, WM_MSG_TASK)->msg.key;
    submit_raw (t, q, other, 0, 9, MIB);
    while (bring (t, q))
        ;
    for (int i = 0; i < 4; i++)
        assert_non_null (wm_core_batch_find (t->core, &key[i])->payload);
    bye (t, p, WM_REASON_DONE);
    t->deaf = 0;
    for (int i = 0; i < 9; i++) {
        heartbeat (t, w, key[0], 1);
        wm_core_tick (t->core, t->now_ms += 100);
        bring (t, q);
    }
    for (int i = 0; i < 4; i++)
        assert_non_null (wm_core_batch_find (t->core, &key[i])->payload);
    while (take (t, w, WM_MSG_TASK))
        n++;
    assert_int_equal (n, 9); /* the worker has all that it may */
    harness_end (t);
}

/* A producer's share of what is asked for: of the bytes a half where two ask, of the number a half
   rounded up; and they are asked in turn.  */
static void test_shares_of_two (void **state)
{
    harness_t *t = harness_new (8 * MIB);
    uint32_t p = producer (t, 1), q = producer (t, 2);
    wm_key_t input = claim (t, p),
             other = input_ask (t, q, "/data/b.h5", "b.scores.h5", 1000, 1)->msg.key;
    worker (t, 3, 20);
    submit_raw (t, q, other, 0, 1, 900000);
    submit_raw (t, p, input, 0, 20, 900000);
    assert_int_equal (count (t, q, WM_MSG_NEED), 1);
    assert_int_equal (count (t, p, WM_MSG_NEED), 4);
    harness_end (t);
    t = harness_new (64 * MIB);
    p = producer (t, 1), q = producer (t, 2);
    input = claim (t, p);
    other = input_ask (t, q, "/data/b.h5", "b.scores.h5", 1000, 1)->msg.key;
    const uint32_t w = worker (t, 3, 1);
    submit (t, q, other, 0, 9);
    submit (t, p, input, 0, 9);
    assert_int_equal (count (t, q, WM_MSG_NEED), 3); /* one in the window, and two */
    assert_int_equal (count (t, p, WM_MSG_NEED), 2); /* of three */
    const size_t before = t->n_sent;
    credit (t, w, 9); /* six are each one's share */
    uint32_t last = 0, n_change = 0, n = 0;
    for (size_t i = before; i < t->n_sent; i++)
        if (t->sent[i].msg.type == WM_MSG_NEED) {
            n_change += t->sent[i].session != last;
            last = t->sent[i].session;
            n++;
        }
    assert_int_equal (n, 3 + 4);
    assert_true (n_change >= 6);
    harness_end (t);
}

/* A producer that is late is asked for its first batch again, and more and more rarely.  */
static void test_late_producer_is_asked_rarely (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), w = worker (t, 2, 2), alive[] = { p, w, 0 };
    submit (t, p, claim (t, p), 0, 4);
    assert_int_equal (count (t, p, WM_MSG_NEED), 4);
    while (take (t, p, WM_MSG_NEED))
        ;
    pass (t, 12000, alive);
    assert_int_equal (must (t, p, WM_MSG_NEED)->msg.key.batch, 0);
    assert_int_equal (count (t, p, WM_MSG_NEED), 0);
    pass (t, 188000, alive);
    assert_in_range (count (t, p, WM_MSG_NEED), 8, 16); /* each 5 s they were 34 */
    harness_end (t);
}

/* A batch that goes alone waits for the worker that has least in hand.  */
static void test_alone_goes_to_the_least_busy (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), a = worker (t, 2, 2), b = worker (t, 3, 0),
                   w = worker (t, 4, 0), alive[] = { p, a, b, 0 };
    const wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 4);
    while (answer_needs (t, p))
        ;
    assert_int_equal (count (t, a, WM_MSG_TASK), 2);
    credit (t, b, 1);
    const wm_msg_t task = must (t, b, WM_MSG_TASK)->msg;
    credit (t, w, 1);
    const wm_key_t lost = must (t, w, WM_MSG_TASK)->msg.key;
    credit (t, a, 3);
    credit (t, b, 2);
    wm_core_closed (t->core, w, t->now_ms);
    pass (t, 4000, alive);
    submit (t, p, input, 1, 1); /* meanwhile others get what comes */
    assert_int_equal (answer_needs (t, p), 1);
    assert_int_equal (count (t, a, WM_MSG_TASK), 3);
    assert_null (take (t, b, WM_MSG_TASK));
    result_of (t, b, &task, 1);
    durable (t);
    assert_memory_equal (&must (t, b, WM_MSG_TASK)->msg.key, &lost, sizeof lost);
    harness_end (t);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* A worker that has not advanced keeps its batch for as long as a lease lasts where batches are
   slow, not only as long as the campaign's shortest.  */
static void test_slow_batches_have_longer_leases (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), w = worker (t, 2, 20), alive[] = { p, w, 0 };
    submit (t, p, claim (t, p), 0, 20);
    while (answer_needs (t, p))
        ;
    for (int i = 0; i < 10; i++) {
        pass (t, 10000, alive);
        const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
        result_of (t, w, &task, 1);
        durable (t);
    }
    pass (t, 90000, alive);
    assert_null (strstr (t->log, "has not advanced"));
    pass (t, 15000, alive);
    assert_non_null (strstr (t->log, "has not advanced"));
    harness_end (t);
}

/* Which workers the time line calls lost: those that went without a word, if they have batches once
   the time to come back is over, and those that were silent.  */
static void test_lost_workers_are_marked (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), alive[] = { p, 0 };
    submit (t, p, claim (t, p), 0, 3);
    while (answer_needs (t, p))
        ;
    uint32_t w = worker (t, 3, 1);
    must (t, w, WM_MSG_TASK);
    bye (t, w, WM_REASON_DONE); /* it said so */
    assert_int_equal (t->n_mark, 0);
    w = worker (t, 4, 1);
    const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &task, 1);
    durable (t);
    wm_core_closed (t->core, w, t->now_ms);
    marked (t, 1, WM_MARK_LOST, "host:4: went without a word, idle");
    w = worker (t, 5, 2);
    answer_needs (t, p);
    assert_int_equal (count (t, w, WM_MSG_TASK), 2);
    wm_core_closed (t->core, w, t->now_ms);
    pass (t, 2500, alive);
    assert_int_equal (t->n_mark, 1);
    pass (t, 1000, alive);
    marked (t, 2, WM_MARK_LOST, "host:5: went without a word, with 2 batches");
    worker (t, 6, 0);
    pass (t, 40000, alive);
    assert_int_equal (t->n_mark, 3);
    assert_int_equal (t->mark_kind, WM_MARK_LOST);
    assert_memory_equal (t->mark, "host:6: silent for 3", 20);
    harness_end (t);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* A worker that has shown none of its TASKs to have arrived gets WM_CREDIT_MAX of them, also where
   leases of it have ended: the payloads of more have no place.  */
static void test_tasks_on_their_way (void **state)
{
    harness_t *t = harness_new (256 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 1000), other = worker (t, 3, 0);
    wm_key_t input = claim (t, p);
    t->deaf = w;
    for (uint32_t ordinal = 0; ordinal < 5; ordinal++)
        submit (t, p, input, ordinal, 60);
    while (answer_needs (t, p))
        ;
    assert_int_equal (count (t, w, WM_MSG_TASK), WM_CREDIT_MAX);
    for (int i = 0; i < 3; i++) { /* it had these from before */
        wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
        result_of (t, other, &task, 1);
        durable (t);
        must (t, w, WM_MSG_REVOKE);
    }
    assert_int_equal (count (t, w, WM_MSG_TASK), WM_CREDIT_MAX - 3);
    wm_msg_t beat;
    wm_msg_init (&beat, WM_MSG_HEARTBEAT);
    beat.received = 2;
    say (t, w, &beat, NULL, 0);
    assert_int_equal (count (t, w, WM_MSG_TASK), WM_CREDIT_MAX - 1);
    harness_end (t);
}

/* A batch that a slow link brings twice: the answer to its first TASK does not show that the second
   has arrived, and each that arrives gives the worker its time again.  */
static void test_sent_again_over_a_slow_link (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 4), alive[] = { p, w, 0 };
    t->deaf = w;
    submit (t, p, claim (t, p), 0, 3);
    answer_needs (t, p);
    const wm_msg_t one = must (t, w, WM_MSG_TASK)->msg, two = must (t, w, WM_MSG_TASK)->msg;
    must (t, w, WM_MSG_TASK);
    pass (t, 35000, alive); /* it stalls: those that wait there are taken back */
    must (t, w, WM_MSG_REVOKE);
    result_of (t, w, &one, 1);
    durable (t);
    credit (t, w, 6);
    assert_true (count (t, w, WM_MSG_TASK) >= 1);
    result_of (t, w, &two, 1);
    durable (t);
    wm_msg_t beat;
    wm_msg_init (&beat, WM_MSG_HEARTBEAT);
    for (beat.received = 2; beat.received < 4; beat.received++)
        for (int second = 0; second < 50; second++) {
            say (t, w, &beat, NULL, 0);
            alive[1] = 0;
            pass (t, 1000, alive);
        }
    assert_int_equal (look (t).n_worker, 1);
    harness_end (t);
}

/* Batches are counted from 0: the one behind the last does not exist.  */
static void test_result_behind_the_last (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 1);
    submit (t, p, claim (t, p), 0, 1);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    task.key.batch = task.n_batch;
    const size_t n = t->n_appended;
    result_of (t, w, &task, 1);
    refused (t, w, WM_REASON_PROTOCOL);
    assert_int_equal (t->n_appended, n);
    harness_end (t);
}

/* ---- who comes back -------------------------------------------------------------------------- */

/* A worker that comes back has its last answers still: the sixth failure dismisses it.  */
static void test_failures_of_one_that_comes_back (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = 0;
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 12);
    for (int i = 0; i < 6; i++) {
        w = worker (t, 2, 1);
        answer_needs (t, p);
        wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
        assert_int_equal (count (t, w, WM_MSG_DRAIN), 0);
        nack (t, w, &task, WM_EHOST);
    }
    must (t, w, WM_MSG_DRAIN);
    harness_end (t);
}

/* What a worker still holds of an event that is announced later, with other data: a task is
   revoked, a result waits for its acknowledgement.  */
static void test_orphans_that_differ (void **state)
{
    for (uint32_t unacked = 0; unacked < 2; unacked++) {
        harness_t *t = harness_new (64 * MIB);
        uint32_t p = producer (t, 1);
        wm_key_t input = claim (t, p);
        wm_hello_held_t held = { .key = input, .n_hit = 10, .unacked = unacked };
        held.key.ordinal = 0;
        digest_of (7, 7, held.digest);
        uint32_t w = hello (t, WM_ROLE_WORKER, 2, &held, sizeof held);
        assert_int_equal (count (t, w, WM_MSG_REVOKE), 0);
        submit (t, p, input, 0, 1);
        assert_int_equal (count (t, w, WM_MSG_REVOKE), !unacked);
        assert_int_equal (look (t).batches_running, 0);
        harness_end (t);
    }
}

/* What a worker still holds of an old generation is not a lease of the new one.  */
static void test_held_of_an_old_generation (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    wm_key_t old = claim (t, p);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    strcpy (msg.name, "kick");
    strcpy (msg.text, "1");
    say (t, o, &msg, NULL, 0);
    durable (t);
    must (t, p, WM_MSG_INPUT_ACK);
    wm_key_t now = claim (t, p);
    assert_int_equal (now.generation, old.generation + 1);
    submit (t, p, now, 0, 1);
    wm_hello_held_t held = { .key = old, .n_hit = 10 };
    held.key.ordinal = 0;
    digest_of (0, 0, held.digest);
    uint32_t w = hello (t, WM_ROLE_WORKER, 2, &held, sizeof held);
    assert_int_equal (must (t, w, WM_MSG_REVOKE)->msg.key.generation, old.generation);
    assert_int_equal (look (t).batches_running, 0);
    harness_end (t);
}

/* ---- answers that are none ------------------------------------------------------------------- */

/* A result of fewer hits than its batch has is not that batch's, whatever digest it names.  */
static void test_fewer_hits (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), w = worker (t, 2, 2);
    submit (t, p, claim (t, p), 0, 1);
    answer_needs (t, p);
    wm_msg_t msg = must (t, w, WM_MSG_TASK)->msg;
    const uint8_t payload[5 * (1 + 4 * N_OUTPUT)] = { 0 };
    const size_t appended = t->n_appended;
    msg.type = WM_MSG_RESULT;
    msg.n_hit = 5;
    say (t, w, &msg, payload, sizeof payload);
    assert_int_equal (t->n_appended, appended);
    assert_int_equal (look (t).n_late, 1);
    answer_needs (t, p);
    const wm_msg_t again = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &again, 1);
    assert_true (t->n_appended > appended);
    harness_end (t);
}

/* For so long, this worker computes the same batch, of which it has so many hits.  */
static void computes (harness_t *t, int64_t ms, uint32_t p, uint32_t w, wm_key_t key,
                      uint64_t n_hit)
{
    for (; ms > 0; ms -= 500) {
        pass (t, 500, (uint32_t[]){ p, 0 });
        heartbeat (t, w, key, n_hit);
    }
}

/* A worker that begins another batch advances, however few of its hits are done. One that does not
   advance gets no more; when it reports that it computes nothing, it does not hang, and gets work.
 */
static void test_advancing (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), w = worker (t, 2, 2);
    const wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    const wm_key_t one = must (t, w, WM_MSG_TASK)->msg.key;
    const wm_key_t two = must (t, w, WM_MSG_TASK)->msg.key;
    computes (t, 25000, p, w, one, 7);
    computes (t, 25000, p, w, two, 0);
    assert_int_equal (look (t).n_lost, 0);
    computes (t, 7000, p, w, two, 0);
    assert_int_equal (look (t).n_lost, 1);
    submit (t, p, input, 1, 1);
    answer_needs (t, p);
    credit (t, w, 3);
    assert_null (take (t, w, WM_MSG_TASK));
    heartbeat (t, w, (wm_key_t){ 0 }, 0);
    answer_needs (t, p);
    must (t, w, WM_MSG_TASK);
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_answers_wait),
        cmocka_unit_test (test_written_ends_a_claim),
        cmocka_unit_test (test_a_claim_is_its_owners),
        cmocka_unit_test (test_bytes_of_needs),
        cmocka_unit_test (test_order_of_what_comes_back),
        cmocka_unit_test (test_blame_for_what_is_computed),
        cmocka_unit_test (test_share_of_one_that_is_done),
        cmocka_unit_test (test_slow_batches_have_longer_leases),
        cmocka_unit_test (test_lost_workers_are_marked),
        cmocka_unit_test (test_which_payloads_make_room),
        cmocka_unit_test (test_shares_of_two),
        cmocka_unit_test (test_late_producer_is_asked_rarely),
        cmocka_unit_test (test_alone_goes_to_the_least_busy),
        cmocka_unit_test (test_tasks_on_their_way),
        cmocka_unit_test (test_sent_again_over_a_slow_link),
        cmocka_unit_test (test_result_behind_the_last),
        cmocka_unit_test (test_failures_of_one_that_comes_back),
        cmocka_unit_test (test_orphans_that_differ),
        cmocka_unit_test (test_held_of_an_old_generation),
        cmocka_unit_test (test_fewer_hits),
        cmocka_unit_test (test_advancing),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("broker_answers", tests, NULL, NULL);
}
