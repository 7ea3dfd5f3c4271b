/* test_broker_core.c - wm_core: the normal flow, results that come twice or late, workers that go,
   failures, new epochs.  */
#include "tests/unit/core_harness.h"

/* ---- the normal flow ------------------------------------------------------------------------- */

static void test_flow (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    assert_int_equal (input.input, 1);
    uint32_t w = worker (t, 2, 2);
    submit (t, p, input, 0, 3);
    sent_t *ack = must (t, p, WM_MSG_SUBMIT_ACK);
    assert_int_equal (ack->bytes, 3);
    assert_int_equal (ack->payload[0], WM_WANT);
    assert_int_equal (answer_needs (t, p), 3);
    assert_int_equal (count (t, w, WM_MSG_TASK), 2); /* its credit, not more */
    wm_msg_t first = must (t, w, WM_MSG_TASK)->msg;
    assert_int_equal (first.n_batch, 3);
    assert_int_equal (first.attempt, 1);
    assert_int_equal (first.key.batch, 0); /* first in, first out */
    result_of (t, w, &first, 1);
    assert_null (take (t, w, WM_MSG_RESULT_ACK)); /* not before it is durable */
    assert_int_equal (t->appended[t->n_appended - 1].record.type, WM_RECORD_RESULT);
    assert_string_equal (t->appended[t->n_appended - 1].text, "engine/fp32");
    durable (t);
    assert_int_equal (must (t, w, WM_MSG_RESULT_ACK)->msg.key.batch, 0);
    credit (t, w, 3);
    for (sent_t *task; (task = take (t, w, WM_MSG_TASK));) {
        wm_msg_t msg = task->msg;
        result_of (t, w, &msg, 1);
    }
    assert_null (take (t, p, WM_MSG_EVENT_DONE));
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_EVENT_DONE)->msg.n_held, 0);

    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = first.key;
    say (t, p, &msg, NULL, 0);
    assert_int_equal (t->fetched, p);
    assert_int_equal (t->fetched_place.offset, 2); /* behind INPUT and ARITHMETIC */

    wm_msg_init (&msg, WM_MSG_INPUT_END);
    msg.key = input;
    msg.count = 1;
    say (t, p, &msg, NULL, 0);
    assert_null (take (t, p, WM_MSG_ACK));
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_INPUT_END);
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = input;
    msg.key.batch = 4; /* hits with an empty patch */
    msg.size = 77;
    say (t, p, &msg, NULL, 0);
    const wm_record_t *record = &t->appended[t->n_appended - 1].record;
    assert_int_equal (record->n_hit, 31);
    assert_int_equal (record->n_held, 1);
    assert_int_equal (record->n_event, 1);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_FILE_WRITTEN);
    sent_t *again = input_ask (t, p, "/data/a.h5", "a.scores.h5", 1000, 1);
    assert_int_equal (again->msg.code, WM_INPUT_WRITTEN);
    assert_int_equal (again->msg.size, 77);
    wm_summary_t s = look (t);
    assert_int_equal (s.inputs_written, 1);
    assert_int_equal (s.hits_done, 30);
    assert_int_equal (s.hits_held, 1);
    assert_int_equal (s.hits_empty, 4);
    assert_int_equal (s.batches_returned, 3);
    assert_int_equal (s.budget_used_bytes, 0);
    assert_string_equal (s.state, "finished");
    wm_brief_t brief;
    wm_core_brief (t->core, &brief);
    assert_int_equal (brief.n_closed, 1);

    /* The output was touched: its new time is recorded, and nothing is counted twice.  */
    msg.key.batch = 0;
    msg.mtime_ns = 5;
    say (t, p, &msg, NULL, 0);
    record = &t->appended[t->n_appended - 1].record;
    assert_int_equal (record->type, WM_RECORD_FILE_WRITTEN);
    assert_int_equal (record->mtime_ns, 5);
    assert_int_equal (record->n_hit, 31);
    assert_int_equal (record->n_event, 1);
    assert_string_equal (t->appended[t->n_appended - 1].text, "4");
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_FILE_WRITTEN);
    assert_int_equal (input_ask (t, p, "/data/a.h5", "a.scores.h5", 1000, 1)->msg.mtime_ns, 5);
    s = look (t);
    assert_int_equal (s.inputs_written, 1);
    assert_int_equal (s.hits_empty, 4);
    assert_int_equal (s.batches_returned, 3);
    uint32_t other = producer (t, 7);
    msg.digest[0] ^= 1; /* other bytes are no touch */
    say (t, other, &msg, NULL, 0);
    assert_int_equal (must (t, other, WM_MSG_REJECT)->msg.code, WM_REASON_STALE);

    /* The output is lost: the input is open again, and all of it is wanted. Another producer that
       found the output touched a moment before, or as it was written once, is not refused.  */
    const uint32_t slow = producer (t, 8);
    assert_int_equal (input_ask (t, slow, "/data/a.h5", "a.scores.h5", 1000, 1)->msg.code,
                      WM_INPUT_WRITTEN);
    say (t, slow, &msg, NULL, 0);
    msg.digest[0] ^= 1;
    const wm_msg_t touched = msg;
    input_ask (t, p, "/data/a.h5", "a.scores.h5", 1000, 1);
    wm_msg_init (&msg, WM_MSG_FILE_LOST);
    msg.key = input;
    say (t, p, &msg, NULL, 0);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_FILE_LOST);
    const size_t n_appended = t->n_appended;
    for (int is_claimed = 0; is_claimed < 2; is_claimed++) {
        say (t, slow, &touched, NULL, 0);
        assert_int_equal (count (t, slow, WM_MSG_REJECT), 0);
        if (!is_claimed)
            claim (t, p);
    }
    assert_int_equal (t->n_appended, n_appended);
    submit (t, p, input, 0, 3);
    assert_int_equal (must (t, p, WM_MSG_SUBMIT_ACK)->payload[2], WM_WANT);
    assert_int_equal (look (t).hits_done, 0);
    harness_end (t);
}

static void test_empty_event_is_done_at_once (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 5, 0);
    assert_int_equal (must (t, p, WM_MSG_SUBMIT_ACK)->bytes, 0);
    assert_int_equal (must (t, p, WM_MSG_EVENT_DONE)->msg.key.ordinal, 5);
    submit (t, p, input, 5, 0); /* idempotent */
    must (t, p, WM_MSG_SUBMIT_ACK);
    must (t, p, WM_MSG_EVENT_DONE);
    assert_int_equal (look (t).events_done, 1);
    harness_end (t);
}

/* ---- results that come twice, late, differently ---------------------------------------------- */

static void test_duplicates (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 2);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &task, 1);
    size_t appended = t->n_appended;
    result_of (t, w, &task, 1); /* while the first is on its way: acknowledged after it */
    assert_int_equal (count (t, w, WM_MSG_RESULT_ACK), 0);
    durable (t);
    assert_int_equal (count (t, w, WM_MSG_RESULT_ACK), 2);
    result_of (t, w, &task, 1); /* after it: at once, and not journalled */
    assert_int_equal (count (t, w, WM_MSG_RESULT_ACK), 3);
    assert_int_equal (t->n_appended, appended);
    assert_int_equal (look (t).n_duplicate, 2);
    assert_int_equal (look (t).n_alarm, 0);
    assert_int_equal (look (t).hits_done, 10);
    wm_msg_t again = task;
    strcpy (again.text, "sparse/fma/fp32/v1"); /* by a strict engine, in the place of its own */
    result_of (t, w, &again, 2);
    assert_int_equal (look (t).n_alarm, 0);

    result_of (t, w, &task, 2); /* other bytes from the same engine: held, named */
    durable (t);
    wm_summary_t s = look (t);
    assert_int_equal (s.n_alarm, 1);
    assert_int_equal (s.batches_held, 1);
    assert_int_equal (s.hits_done, 0);
    assert_non_null (strstr (s.held[0].reason, "ALARM"));
    wm_msg_t second = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &second, 1);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_EVENT_DONE)->msg.n_held, 1);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = task.key;
    say (t, p, &msg, NULL, 0);
    sent_t *held = must (t, p, WM_MSG_RESULTS);
    assert_int_equal (held->msg.code, WM_HIT_HELD);
    assert_int_equal (held->bytes, 0);

    result_of (t, w, &second, 2); /* of an event that is done, perhaps fetched: named, not held */
    durable (t);
    s = look (t);
    assert_int_equal (s.n_alarm, 2);
    assert_int_equal (s.batches_held, 1);
    assert_int_equal (s.hits_done, 10);
    assert_string_equal (wm_core_reason_of (t->core, &task.key),
                         wm_core_reason_of (t->core, &second.key));
    result_of (t, w, &second, 3); /* once */
    assert_int_equal (look (t).n_alarm, 2);
    harness_end (t);
}

/* Two workers may find other hits that their engine dies of: no alarm.  */
static void test_poison_is_not_compared (void **state)
{
    for (int first = 0; first < 2; first++) {
        harness_t *t = harness_new (64 * MIB);
        uint32_t p = producer (t, 1);
        wm_key_t input = claim (t, p);
        uint32_t w = worker (t, 2, 1);
        submit (t, p, input, 0, 1);
        answer_needs (t, p);
        wm_msg_t msg = must (t, w, WM_MSG_TASK)->msg;
        msg.type = WM_MSG_RESULT;
        for (int i = 0; i < 2; i++) {
            uint8_t payload[10 * (1 + 4 * N_OUTPUT)] = { 0 };
            payload[3] = i == first ? WM_HIT_POISON : WM_HIT_SCORED;
            say (t, w, &msg, payload, sizeof payload);
            durable (t);
        }
        const wm_summary_t s = look (t);
        assert_int_equal (s.n_duplicate, 1);
        assert_int_equal (s.n_alarm, 0);
        assert_int_equal (s.n_held, first == 0); /* named with the worker that it killed */
        if (s.n_held) {
            assert_int_equal (s.held[0].n_hit, 1);
            assert_non_null (strstr (s.held[0].reason, "1 of 10 hits held: 1 kill the engine of "));
        }
        harness_end (t);
    }
}

static void test_result_of_nothing_known (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t w = worker (t, 2, 2);
    wm_msg_t task;
    wm_msg_init (&task, WM_MSG_TASK);
    task.key = (wm_key_t){ 9, 0, 0, 0 };
    task.n_batch = 1;
    task.n_hit = 10;
    result_of (t, w, &task, 1); /* an input that was never added: not wanted */
    must (t, w, WM_MSG_RESULT_ACK);
    assert_int_equal (t->n_appended, 0);
    assert_int_equal (look (t).n_late, 1);
    harness_end (t);
}

/* ---- workers that go ------------------------------------------------------------------------- */

static void test_lost_worker (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 2);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t first = must (t, w1, WM_MSG_TASK)->msg, second = must (t, w1, WM_MSG_TASK)->msg;
    uint32_t w2 = worker (t, 3, 4), alive[] = { p, w2, 0 };
    wm_core_closed (t->core, w1, t->now_ms);
    pass (t, 2900, alive);
    assert_int_equal (count (t, w2, WM_MSG_TASK), 0); /* its instance may come back */
    assert_int_equal (look (t).batches_running, 2);
    pass (t, 600, alive);
    wm_summary_t s = look (t);
    assert_int_equal (s.n_lost, 1); /* only the oldest is blamed */
    /* The blamed one goes alone: the other waits until it is done. */
    sent_t *task = must (t, w2, WM_MSG_TASK);
    assert_int_equal (task->msg.key.batch, first.key.batch);
    assert_int_equal (task->msg.attempt, 2);
    assert_int_equal (count (t, w2, WM_MSG_TASK), 0);
    wm_msg_t msg = task->msg;
    result_of (t, w2, &msg, 1);
    assert_int_equal (must (t, w2, WM_MSG_TASK)->msg.key.batch, second.key.batch);
    /* A late result of the first worker, in a new session, is accepted; the holder is revoked. */
    w1 = hello (t, WM_ROLE_WORKER, 2, NULL, 0);
    result_of (t, w1, &second, 1);
    assert_int_equal (must (t, w2, WM_MSG_REVOKE)->msg.key.batch, second.key.batch);
    durable (t);
    must (t, w1, WM_MSG_RESULT_ACK);
    must (t, p, WM_MSG_EVENT_DONE);
    result_of (t, w2, &second, 1);
    must (t, w2, WM_MSG_RESULT_ACK);
    assert_int_equal (look (t).batches_returned, 2);
    harness_end (t);
}

static void test_same_instance_comes_back (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 3);
    submit (t, p, input, 0, 3);
    answer_needs (t, p);
    wm_msg_t task[3];
    for (int i = 0; i < 3; i++)
        task[i] = must (t, w, WM_MSG_TASK)->msg;
    wm_core_closed (t->core, w, t->now_ms);
    uint32_t alive[] = { p, 0 };
    pass (t, 1000, alive);
    wm_hello_held_t held[3] = { { task[0].key, { 0 }, 10, 0 }, { { 9, 9, 9, 0 }, { 0 }, 10, 0 } };
    memcpy (held[0].digest, task[0].digest, 16);
    held[2] = held[0];
    held[2].key.batch = 2;
    held[2].digest[0] ^= 1; /* not what the broker knows */
    uint32_t again = hello (t, WM_ROLE_WORKER, 2, held, sizeof held);
    assert_int_not_equal (again, w);
    assert_int_equal (count (t, again, WM_MSG_REVOKE), 2);
    wm_summary_t s = look (t);
    assert_int_equal (s.batches_running,
                      1); /* the others never arrived: back, and nobody's fault */
    assert_int_equal (s.batches_queued, 2);
    assert_int_equal (s.n_lost, 0);
    uint32_t alive2[] = { p, again, 0 };
    pass (t, 5000, alive2);
    assert_int_equal (look (t).batches_running, 1);
    credit (t, again, 5);
    assert_int_equal (count (t, again, WM_MSG_TASK), 2);
    result_of (t, again, &task[0], 1);
    durable (t);
    assert_int_equal (look (t).n_late, 0);
    harness_end (t);
}

/* A batch fails on one worker, and another vanishes with it: that is on two, until the second is
   back and has it still. So it is not held at its third failure, all on workers that answer.  */
static void test_who_comes_back_is_absolved (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), bad = worker (t, 2, 1), alive[] = { p, bad, 0 };
    submit (t, p, claim (t, p), 0, 1);
    answer_needs (t, p);
    wm_msg_t task = must (t, bad, WM_MSG_TASK)->msg;
    nack (t, bad, &task, WM_EBATCH);
    uint32_t w = worker (t, 3, 1);
    task = must (t, w, WM_MSG_TASK)->msg;
    const batch_t *batch = wm_core_batch_find (t->core, &task.key);
    const uint8_t flags = batch->flags;
    wm_core_closed (t->core, w, t->now_ms);
    pass (t, 3000, alive);
    assert_int_equal (batch->flags & ~flags,
                      BATCH_WORKERS | BATCH_SECOND | BATCH_VANISHED | BATCH_ALONE);
    assert_int_equal (batch->n_lost, 1);
    wm_hello_held_t held = { task.key, { 0 }, 10, 0 };
    memcpy (held.digest, task.digest, 16);
    wm_core_batch_absolve (wm_core_batch_find (t->core, &task.key), /* another's word: nothing */
                           wm_core_session_find (t->core, bad));
    assert_int_equal (batch->n_lost, 1);
    w = hello (t, WM_ROLE_WORKER, 3, &held, sizeof held);
    assert_int_equal (batch->flags, flags | BATCH_ALONE);
    assert_int_equal (batch->n_lost, 0);
    assert_int_equal (batch->failed_on, 0);
    assert_int_equal (look (t).batches_running, 1);
    credit (t, w, 1);
    nack (t, w, &task, WM_EBATCH);
    task = must (t, w, WM_MSG_TASK)->msg;
    nack (t, w, &task, WM_EBATCH);
    assert_int_equal (look (t).n_fail, 3);
    assert_int_equal (look (t).batches_held, 0);
    harness_end (t);
}

static void test_takeover_of_a_live_session (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t p2 = producer (t, 1); /* the same process: the old session ends, its claim with it */
    assert_int_equal (t->dropped[0], p);
    submit (t, p, input, 0, 1); /* the old one is not heard any more */
    assert_int_equal (look (t).events_announced, 0);
    claim (t, p2);
    harness_end (t);
}

static void test_silent_worker (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1), alive[] = { p, 0 };
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    must (t, w, WM_MSG_TASK);
    pass (t, 29000, alive);
    assert_null (take (t, w, WM_MSG_BYE));
    pass (t, 2000, alive);
    must (t, w, WM_MSG_BYE);
    assert_int_equal (look (t).batches_queued, 1);
    assert_int_equal (look (t).n_lost, 1);
    assert_int_equal (look (t).n_worker, 0);
    harness_end (t);
}

static void test_hung_worker (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 2);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t first = must (t, w1, WM_MSG_TASK)->msg, second = must (t, w1, WM_MSG_TASK)->msg;
    uint32_t w2 = worker (t, 3, 4);
    for (int i = 0; i < 50; i++) { /* its counter advances: it keeps its work */
        heartbeat (t, w1, first.key, (uint64_t) i + 1);
        uint32_t alive[] = { p, w2, 0 };
        pass (t, 1000, alive);
    }
    assert_int_equal (count (t, w2, WM_MSG_TASK), 0);
    for (int i = 0; i < 32; i++) { /* its I/O thread lives, its device does not */
        heartbeat (t, w1, first.key, 50);
        uint32_t alive[] = { p, w2, 0 };
        pass (t, 1000, alive);
    }
    assert_int_equal (count (t, w2, WM_MSG_TASK), 2);
    assert_int_equal (look (t).n_lost, 1);
    assert_int_equal (must (t, w1, WM_MSG_REVOKE)->msg.key.batch, second.key.batch); /* waiting */
    assert_null (take (t, w1, WM_MSG_REVOKE)); /* the hung one may still finish */
    result_of (t, w1, &first, 1);
    durable (t);
    assert_int_equal (look (t).n_late, 1);
    assert_int_equal (look (t).batches_returned, 1);
    assert_int_equal (must (t, w2, WM_MSG_REVOKE)->msg.key.batch, first.key.batch);
    harness_end (t);
}

/* Parts of a large message on a slow link are no silence, as long as they come.  */
static void test_slow_link (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t w = worker (t, 2, 1), p = producer (t, 1), alive[] = { p, 0 };
    t->quiet_ms = 29999;
    pass (t, 90000, alive);
    assert_null (take (t, w, WM_MSG_BYE));
    t->quiet_ms = 30000;
    pass (t, 2000, alive);
    assert_int_equal (must (t, w, WM_MSG_BYE)->msg.code, WM_REASON_STALE);
    harness_end (t);
}

/* A batch has at most two leases: when a third worker gets it, the broker sends REVOKE to the
   first.  */
static void test_third_lease (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w[4] = { worker (t, 2, 1), 0, 0, 0 };
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    wm_msg_t task = must (t, w[0], WM_MSG_TASK)->msg;
    for (int i = 1; i < 3; i++) {
        w[i] = worker (t, (uint8_t) (2 + i), 1);
        for (int s = 0; s < 32; s++) { /* they beat, and their devices hang */
            for (int k = 0; k < i; k++)
                heartbeat (t, w[k], task.key, 1);
            pass (t, 1000, (uint32_t[]){ p, w[i], 0 });
        }
        task = must (t, w[i], WM_MSG_TASK)->msg;
        assert_int_equal (count (t, w[0], WM_MSG_REVOKE), i == 2);
    }
    assert_int_equal (count (t, w[1], WM_MSG_REVOKE), 0);
    wm_hello_held_t held = { .key = task.key, .n_hit = 10 }; /* one more that has it */
    digest_of (0, 0, held.digest);
    w[3] = hello (t, WM_ROLE_WORKER, 9, &held, sizeof held);
    must (t, w[3], WM_MSG_REVOKE);
    result_of (t, w[2], &task, 1);
    durable (t);
    must (t, w[1], WM_MSG_REVOKE);
    assert_int_equal (count (t, w[0], WM_MSG_REVOKE), 1);
    assert_int_equal (look (t).batches_returned, 1);
    harness_end (t);
}

/* A worker that hung got on, and then vanishes: what it hung on has been blamed, and is not
   again.  */
static void test_expired_is_not_blamed_again (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 2);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    wm_msg_t first = must (t, w1, WM_MSG_TASK)->msg;
    uint32_t w2 = worker (t, 3, 1), alive[] = { p, w2, 0 };
    for (int i = 0; i < 32; i++) {
        heartbeat (t, w1, first.key, 50);
        pass (t, 1000, alive);
    }
    must (t, w2, WM_MSG_TASK);
    heartbeat (t, w1, first.key, 51);
    submit (t, p, input, 1, 1);
    answer_needs (t, p);
    assert_int_equal (must (t, w1, WM_MSG_TASK)->msg.key.ordinal, 1);
    wm_core_closed (t->core, w1, t->now_ms);
    pass (t, 4000, alive);
    assert_int_equal (look (t).n_lost, 2);
    size_t appended = t->n_appended;
    nack (t, w2, &first, WM_EHOST); /* its second failure: a third would hold it */
    assert_int_equal (t->n_appended, appended);
    assert_int_equal (look (t).batches_queued, 2);
    harness_end (t);
}

/* The same where it got on and refuses what it hung on, or answers it with nonsense. Its refusal is
   counted as its code is: a batch that cannot be scored, or a machine that cannot.  */
static void test_bad_answers_are_blamed_once (void **state)
{
    for (int how = 0; how < 6; how++) {
        const bool expired = how % 2, is_lost = how / 2 == 1, is_result = how / 2 == 2;
        harness_t *t = harness_new (64 * MIB);
        uint32_t p = producer (t, 1), alive[] = { p, 0, 0 };
        wm_key_t input = claim (t, p);
        uint32_t w1 = worker (t, 2, 2);
        submit (t, p, input, 0, 1);
        answer_needs (t, p);
        wm_msg_t task = must (t, w1, WM_MSG_TASK)->msg;
        alive[1] = worker (t, 3, 1);
        for (int i = 0; i < 32 && expired; i++) {
            heartbeat (t, w1, task.key, 50);
            pass (t, 1000, alive);
        }
        assert_int_equal (look (t).n_lost, expired);
        if (is_result) {
            uint8_t payload[10 * (1 + 4 * N_OUTPUT)] = { WM_HIT_STATUSES };
            wm_msg_t msg = task;
            msg.type = WM_MSG_RESULT;
            say (t, w1, &msg, payload, sizeof payload);
            refused (t, w1, WM_REASON_PROTOCOL);
        } else
            nack (t, w1, &task, is_lost ? WM_EHOST : WM_EBATCH);
        assert_int_equal (look (t).n_lost, expired || is_lost);
        assert_int_equal (look (t).n_fail, !expired && !is_lost);
        must (t, alive[1], WM_MSG_TASK);
        harness_end (t);
    }
}

/* A batch that failed waits for a worker whose last answer was a result, whatever came before.  */
static void test_failed_goes_to_who_does_well (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w[2] = { worker (t, 2, 0), worker (t, 3, 0) };
    wm_key_t input = claim (t, p);
    static const struct {
        int by, fails;
    } past[] = { { 1, 0 }, { 1, 1 }, { 0, 0 }, { 0, 1 } };
    uint64_t given[2] = { 0, 0 };
    for (uint32_t i = 0; i < 4; i++) { /* both have a result, and then a failure */
        if (i != 2)                    /* that which the second failed on */
            submit (t, p, input, i, 1);
        answer_needs (t, p);
        credit (t, w[past[i].by], ++given[past[i].by]);
        wm_msg_t task = must (t, w[past[i].by], WM_MSG_TASK)->msg;
        if (past[i].fails)
            nack (t, w[past[i].by], &task, WM_EBATCH);
        else
            result_of (t, w[past[i].by], &task, 1);
        durable (t);
    }
    submit (t, p, input, 4, 1); /* and it waits, too */
    answer_needs (t, p);
    credit (t, w[1], ++given[1]);
    assert_int_equal (must (t, w[1], WM_MSG_TASK)->msg.key.ordinal, 4);
    harness_end (t);
}

/* How long a worker had a batch: of two with a pause between them.  */
static void test_busy_time (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 1), alive[] = { p, w, 0 };
    wm_key_t input = claim (t, p);
    for (uint32_t i = 0; i < 2; i++) {
        submit (t, p, input, i, 1);
        answer_needs (t, p);
        const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
        pass (t, 1000, alive);
        const wm_core_worker_t row = wm_core_worker_of (t->core, wm_core_session_find (t->core, w));
        assert_int_equal (row.busy_ms, 1000 * (i + 1));
        result_of (t, w, &task, 1);
        durable (t);
        pass (t, 4000, alive);
        credit (t, w, 2);
    }
    const wm_core_worker_t row = wm_core_worker_of (t->core, wm_core_session_find (t->core, w));
    assert_int_equal (row.busy_ms, 2000);
    assert_int_equal (row.age_ms, 10000);
    harness_end (t);
}

/* A result of other patches shows of no TASK that it was received.  */
static void test_other_patches_show_nothing (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 1);
    submit (t, p, claim (t, p), 0, 1);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    task.digest[0] ^= 1;
    result_of (t, w, &task, 1);
    durable (t);
    assert_int_equal (wm_core_session_find (t->core, w)->received, 0);
    harness_end (t);
}

/* A batch that failed is sent to another worker, though it is the turn of the one it failed on.  */
static void test_not_where_it_failed (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 4), w2 = worker (t, 3, 4);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t failed = must (t, w1, WM_MSG_TASK)->msg;
    must (t, w2, WM_MSG_TASK);
    nack (t, w1, &failed, WM_EHOST);
    assert_null (take (t, w1, WM_MSG_TASK));
    assert_int_equal (must (t, w2, WM_MSG_TASK)->msg.key.batch, failed.key.batch);
    harness_end (t);
}

/* The worker that was picked for a batch to be sent alone hangs before it is empty.  */
static void test_alone_is_not_stuck (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 1);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t hung = must (t, w1, WM_MSG_TASK)->msg;
    uint32_t w2 = worker (t, 3, 1);
    wm_msg_t blamed = must (t, w2, WM_MSG_TASK)->msg;
    credit (t, w1, 5);
    wm_core_closed (t->core, w2, t->now_ms);
    uint32_t w3 = 0;
    for (int i = 0; i < 40; i++) {
        heartbeat (t, w1, hung.key, 1);
        uint32_t alive[] = { p, w3, 0 };
        pass (t, 1000, alive);
        if (i == 5) {
            assert_int_equal (count (t, w1, WM_MSG_TASK), 0); /* it is to be empty first */
            w3 = worker (t, 4, 1);
            assert_int_equal (must (t, w3, WM_MSG_TASK)->msg.key.batch, blamed.key.batch);
        }
    }
    harness_end (t);
}

/* Where all workers have leases, one of them gets nothing more until it has none; then the batch
   goes to it alone, before those that wait.  */
static void test_alone_gets_its_turn (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 1);
    submit (t, p, input, 0, 8);
    answer_needs (t, p);
    wm_msg_t own[3] = { must (t, w1, WM_MSG_TASK)->msg };
    uint32_t w2 = worker (t, 3, 1), alive[] = { p, 0 };
    wm_msg_t blamed = must (t, w2, WM_MSG_TASK)->msg;
    credit (t, w1, 3);
    answer_needs (t, p);
    for (int i = 1; i < 3; i++)
        own[i] = must (t, w1, WM_MSG_TASK)->msg;
    wm_core_closed (t->core, w2, t->now_ms);
    for (int i = 0; i < 5; i++) {
        heartbeat (t, w1, own[0].key, (uint64_t) i + 1);
        pass (t, 1000, alive);
        answer_needs (t, p);
    }
    credit (t, w1, 8);
    for (int i = 0; i < 3; i++) {
        assert_int_equal (count (t, w1, WM_MSG_TASK), 0);
        result_of (t, w1, &own[i], 1);
    }
    assert_int_equal (must (t, w1, WM_MSG_TASK)->msg.key.batch, blamed.key.batch);
    assert_int_equal (count (t, w1, WM_MSG_TASK), 0);
    result_of (t, w1, &blamed, 1);
    assert_int_equal (count (t, w1, WM_MSG_TASK), 4); /* the others */
    harness_end (t);
}

/* The worker kept free for a batch to be sent alone gets work again when that batch's result came
   by another way.  */
static void test_alone_is_let_go (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 1);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t own = must (t, w1, WM_MSG_TASK)->msg;
    uint32_t w2 = worker (t, 3, 1);
    wm_msg_t blamed = must (t, w2, WM_MSG_TASK)->msg;
    credit (t, w1, 5);
    wm_core_closed (t->core, w2, t->now_ms);
    for (int i = 0; i < 5; i++) {
        heartbeat (t, w1, own.key, (uint64_t) i + 1);
        uint32_t alive[] = { p, 0 };
        pass (t, 1000, alive);
    }
    assert_int_equal (count (t, w1, WM_MSG_TASK), 0); /* it is kept free */
    w2 = hello (t, WM_ROLE_WORKER, 3, NULL, 0);
    result_of (t, w2, &blamed, 1);
    durable (t);
    submit (t, p, input, 1, 2);
    answer_needs (t, p);
    assert_int_equal (count (t, w1, WM_MSG_TASK), 2);
    harness_end (t);
}

static void test_gap_moves_deadlines (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    t->now_ms += 3600000; /* the broker was stopped for an hour */
    wm_core_tick (t->core, t->now_ms);
    assert_null (take (t, w, WM_MSG_BYE));
    assert_int_equal (look (t).n_worker, 1);
    result_of (t, w, &task, 1);
    durable (t);
    assert_int_equal (look (t).n_late, 0);
    harness_end (t);
}

/* ---- NACKs ----------------------------------------------------------------------------------- */

static void test_given_back (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w1 = worker (t, 2, 4);
    submit (t, p, input, 0, 2);
    answer_needs (t, p);
    wm_msg_t first = must (t, w1, WM_MSG_TASK)->msg, second = must (t, w1, WM_MSG_TASK)->msg;
    nack (t, w1, &second, WM_EAGAIN);
    assert_null (take (t, w1, WM_MSG_TASK)); /* it is draining, though it has credit */
    assert_int_equal (look (t).n_preempt, 1);
    uint32_t w2 = worker (t, 3, 1);
    assert_int_equal (must (t, w2, WM_MSG_TASK)->msg.key.batch, second.key.batch);
    bye (t, w1, WM_REASON_DRAINED); /* at once, without waiting for its instance */
    wm_summary_t s = look (t);
    assert_int_equal (s.n_preempt, 2);
    assert_int_equal (s.n_lost + s.n_fail, 0);
    credit (t, w2, 2);
    assert_int_equal (must (t, w2, WM_MSG_TASK)->msg.key.batch, first.key.batch);
    harness_end (t);
}

/* What a worker gives back goes before all that is ready.  */
static void test_given_back_goes_first (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w1 = worker (t, 2, 1);
    submit (t, p, claim (t, p), 0, 4);
    answer_needs (t, p);
    wm_msg_t task = must (t, w1, WM_MSG_TASK)->msg;
    assert_int_equal (look (t).batches_queued, 3);
    nack (t, w1, &task, WM_EAGAIN);
    assert_int_equal (must (t, worker (t, 3, 1), WM_MSG_TASK)->msg.key.batch, task.key.batch);
    harness_end (t);
}

/* A worker has WM_CREDIT_MAX batches at most, whatever credit it gives and however many it has
   received.  */
static void test_batches_of_a_worker (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 4 * WM_CREDIT_MAX);
    wm_key_t input = claim (t, p);
    for (uint32_t i = 0; i < 2 * WM_CREDIT_MAX / 64; i++)
        submit (t, p, input, i, 64);
    while (answer_needs (t, p))
        heartbeat (t, w, (wm_key_t){ 0 }, 0);
    assert_int_equal (look (t).batches_running, WM_CREDIT_MAX);
    harness_end (t);
}

/* Fails on `workers` workers in turn until it is held; returns how often.  */
static int failures_until_held (int workers)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w[2];
    wm_key_t input = claim (t, p);
    for (int i = 0; i < workers; i++)
        w[i] = worker (t, (uint8_t) (2 + i), 100);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    wm_msg_t msg = { 0 };
    int failures = 0;
    for (; failures < 20 && !look (t).batches_held; failures++) {
        sent_t *task = NULL;
        int i = 0;
        for (; i < workers && !(task = take (t, w[i], WM_MSG_TASK)); i++)
            ;
        assert_non_null (task);
        msg = task->msg;
        nack (t, w[i], &msg, failures % 2 ? WM_EHOST : WM_EBATCH);
    }
    assert_null (take (t, p, WM_MSG_EVENT_DONE)); /* not before HELD is durable */
    const appended_t *held = &t->appended[t->n_appended - 1];
    assert_int_equal (held->record.type, WM_RECORD_HELD);
    assert_non_null (strstr (held->text, "why"));
    result_of (t, w[0], &msg, 1); /* too late; and answered when that is certain */
    assert_null (take (t, w[0], WM_MSG_RESULT_ACK));
    durable (t);
    must (t, w[0], WM_MSG_RESULT_ACK);
    assert_int_equal (must (t, p, WM_MSG_EVENT_DONE)->msg.n_held, 1);
    wm_summary_t s = look (t);
    assert_int_equal (s.hits_held, 11);
    assert_int_equal (s.n_held, 1);
    harness_end (t);
    return failures;
}

static void test_held_after_failures (void **state)
{
    assert_int_equal (failures_until_held (2), WM_FAILURES_MAX);
    assert_int_equal (failures_until_held (1), WM_ATTEMPTS_MAX);
}

/* ---- the epoch ------------------------------------------------------------------------------- */

static void restore (harness_t *t, uint64_t epoch)
{
    wm_core_destroy (&t->core);
    t->n_sent = 0;
    t->n_appended = t->n_durable = 0;
    t->core = core_make (t, epoch, 64 * MIB);
    wm_ledger_input_t input = { .id = 1,
                                .state = WM_LEDGER_OPEN,
                                .path = "/data/a.h5",
                                .name = "a.scores.h5",
                                .size = 1000,
                                .mtime_ns = 5,
                                .n_event = -1,
                                .text = "" };
    assert_int_equal (wm_core_restore_input (t->core, &input), 0);
    wm_ledger_batch_t batch = { .key = { 1, 0, 0, 0 },
                                .state = WM_LEDGER_RETURNED,
                                .n_batch = 3,
                                .n_hit = 10,
                                .place = { 1 << 24, 4711, 100 },
                                .text = "" };
    digest_of (0, 0, batch.digest);
    assert_int_equal (wm_core_restore_batch (t->core, &batch, "engine/fp32"), 0);
}

static void test_restart (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    restore (t, 2);
    assert_int_equal (look (t).hits_done, 10);
    /* A worker comes first, with a task, an unacknowledged result, and a revoked batch. */
    wm_hello_held_t held[3] = { { { 1, 0, 1, 0 }, { 0 }, 10, 0 },
                                { { 1, 0, 2, 0 }, { 0 }, 10, 1 },
                                { { 1, 0, 0, 0 }, { 0 }, 10, 0 } };
    for (uint32_t i = 0; i < 3; i++)
        digest_of (0, held[i].key.batch, held[i].digest);
    uint32_t w = hello (t, WM_ROLE_WORKER, 2, held, sizeof held);
    assert_int_equal (must (t, w, WM_MSG_REVOKE)->msg.key.batch, 0);
    assert_null (take (t, w, WM_MSG_REVOKE));
    /* A result of a known input counts before its event is announced again. */
    wm_msg_t task;
    wm_msg_init (&task, WM_MSG_TASK);
    task.key = held[1].key;
    memcpy (task.digest, held[1].digest, 16);
    task.n_batch = 3;
    task.n_hit = 10;
    result_of (t, w, &task, 1);
    durable (t);
    must (t, w, WM_MSG_RESULT_ACK);
    /* Then the producer announces: only what nobody has is wanted, and nothing is asked for. */
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    credit (t, w, 2);
    submit (t, p, input, 0, 3);
    sent_t *ack = must (t, p, WM_MSG_SUBMIT_ACK);
    assert_int_equal (ack->payload[0], WM_HAVE);
    assert_int_equal (ack->payload[1], WM_WANT);
    assert_int_equal (ack->payload[2], WM_HAVE);
    assert_int_equal (count (t, p, WM_MSG_NEED), 0);
    assert_int_equal (look (t).batches_running, 1);
    task.key = held[0].key;
    memcpy (task.digest, held[0].digest, 16);
    result_of (t, w, &task, 1);
    durable (t);
    must (t, p, WM_MSG_EVENT_DONE);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = (wm_key_t){ 1, 0, 0, 0 };
    say (t, p, &msg, NULL, 0);
    assert_int_equal (t->fetched_place.offset, 4711);
    harness_end (t);
}

/* The event of each input takes over what a worker has of it, although their numbers are the
   same.  */
static void test_orphans_of_two_inputs (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    restore (t, 2);
    wm_hello_held_t held[2] = { { { 1, 5, 0, 0 }, { 0 }, 10, 0 },
                                { { 2, 5, 0, 0 }, { 0 }, 10, 0 } };
    for (uint32_t i = 0; i < 2; i++)
        digest_of (5, 0, held[i].digest);
    wm_ledger_input_t input = { .id = 2,
                                .state = WM_LEDGER_OPEN,
                                .path = "/data/b.h5",
                                .name = "b.scores.h5",
                                .size = 1000,
                                .mtime_ns = 5,
                                .n_event = -1,
                                .text = "" };
    assert_int_equal (wm_core_restore_input (t->core, &input), 0);
    const uint32_t w = hello (t, WM_ROLE_WORKER, 2, held, sizeof held), p = producer (t, 1);
    submit (t, p, claim (t, p), 5, 1);
    assert_null (take (t, w, WM_MSG_REVOKE));
    assert_int_equal (look (t).batches_running, 1);
    submit (t, p, input_ask (t, p, "/data/b.h5", "b.scores.h5", 1000, 1)->msg.key, 5, 1);
    assert_null (take (t, w, WM_MSG_REVOKE));
    assert_int_equal (look (t).batches_running, 2);
    assert_int_equal (count (t, p, WM_MSG_NEED), 0);
    harness_end (t);
}

static void test_digest_conflict (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    restore (t, 2);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    wm_manifest_batch_t line[3] = { { { 99 }, 10, 100 }, { { 98 }, 10, 100 }, { { 97 }, 10, 100 } };
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = input;
    msg.n_batch = 3;
    msg.n_hit = 30;
    say (t, p, &msg, line, sizeof line);
    assert_null (take (t, p, WM_MSG_SUBMIT_ACK));
    assert_null (take (t, p, WM_MSG_INPUT_ACK)); /* not before it is durable */
    durable (t);
    sent_t *held = must (t, p, WM_MSG_INPUT_ACK);
    assert_int_equal (held->msg.code, WM_INPUT_HELD);
    assert_non_null (strstr (held->msg.text, "event 0 batch 0"));
    msg.key.ordinal = 1; /* what was on its way already is ignored, not refused */
    say (t, p, &msg, line, sizeof line);
    assert_null (take (t, p, WM_MSG_REJECT));
    assert_int_equal (look (t).inputs_held, 1);
    assert_int_equal (input_ask (t, p, "/data/a.h5", "a.scores.h5", 1000, 1)->msg.code,
                      WM_INPUT_HELD);
    harness_end (t);
}

/* An event whose result is lost is done once it is scored again.  */
static void test_damaged_result_of_a_done_event (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t w = worker (t, 2, 2);
    for (uint8_t i = 0; i < 2; i++) {
        const uint32_t p = producer (t, (uint8_t) (i + 10));
        submit (t, p, claim (t, p), 0, 1);
        answer_needs (t, p);
        wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
        result_of (t, w, &task, 1);
        durable (t);
        assert_int_equal (look (t).events_done, 1);
        wm_core_damaged (t->core, task.key, p, t->now_ms);
        refused (t, p, WM_REASON_BUSY);
        assert_int_equal (look (t).events_done + look (t).hits_done, 0);
        wm_core_closed (t->core, p, t->now_ms);
    }
    harness_end (t);
}

static void test_damaged_result (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    restore (t, 2);
    uint32_t p = producer (t, 1);
    wm_core_damaged (t->core, (wm_key_t){ 1, 0, 0, 0 }, p, t->now_ms);
    refused (t, p, WM_REASON_BUSY);
    p = producer (t, 1);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 3);
    assert_int_equal (must (t, p, WM_MSG_SUBMIT_ACK)->payload[0], WM_WANT);
    harness_end (t);
}

/* What cannot be read back is not known any more, or not a result.  */
static void test_damage_of_what_is_no_result (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1), w = worker (t, 2, 1);
    submit (t, p, claim (t, p), 0, 1);
    answer_needs (t, p);
    const wm_key_t key = must (t, w, WM_MSG_TASK)->msg.key;
    wm_core_damaged (t->core, key, 0, t->now_ms);
    wm_core_damaged (t->core, (wm_key_t){ 1, 7, 0, 0 }, p, t->now_ms);
    refused (t, p, WM_REASON_BUSY);
    assert_int_equal (look (t).batches_running, 1);
    harness_end (t);
}

/* A payload longer than its message may have is refused before anything reads it, of each kind.  */
static void test_payloads_are_bounded (void **state)
{
    uint32_t n = 0;
    for (int role = WM_ROLE_WORKER; role <= WM_ROLE_OPERATOR; role++)
        for (int type = 0; type < 256; type++) {
            const wm_core_row_t *row = wm_core_row_of ((wm_msg_type_t) type, (wm_role_t) role);
            if (!row || !row->payload_bytes_max || !(row->states & WHILE_LIVE))
                continue;
            harness_t *t = harness_new (64 * MIB);
            const uint32_t session = hello (t, (wm_role_t) role, 1, NULL, 0);
            wm_msg_t msg;
            wm_msg_init (&msg, (wm_msg_type_t) type);
            say (t, session, &msg, "", row->payload_bytes_max + 1);
            const sent_t *reject = must (t, session, WM_MSG_REJECT);
            assert_int_equal (reject->msg.code, WM_REASON_PROTOCOL);
            assert_non_null (strstr (reject->msg.text, "more than"));
            harness_end (t);
            n++;
        }
    assert_in_range (n, 3, 20);
}

/* The caller's clock steps back: the core's stands still until it has caught up.  */
static void test_time_never_goes_back (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const int64_t before = t->core->now_ms;
    wm_core_tick (t->core, t->now_ms - 5000);
    assert_int_equal (t->core->now_ms, before);
    wm_core_tick (t->core, t->now_ms + 500);
    assert_int_equal (t->core->now_ms, before + 500);
    harness_end (t);
}

/* A lease lasts ten times as long as 95 of 100 results took, and no less than the campaign's.  */
static void test_lease_follows_durations (void **state)
{
    for (int n_slow = 1; n_slow <= 2; n_slow++) {
        harness_t *t = harness_new (64 * MIB);
        const uint32_t p = producer (t, 1), w = worker (t, 2, 20), alive[] = { p, w, 0 };
        submit (t, p, claim (t, p), 0, 20);
        while (answer_needs (t, p))
            ;
        for (int i = 0; i < 20; i++) {
            pass (t, i < n_slow ? 10000 : 1000, alive);
            const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
            result_of (t, w, &task, 1);
            durable (t);
        }
        pass (t, 2000, alive);
        assert_int_equal (t->core->leases.ms, n_slow == 1 ? 30000 : 100000);
        harness_end (t);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_payloads_are_bounded),
        cmocka_unit_test (test_time_never_goes_back),
        cmocka_unit_test (test_lease_follows_durations),
        cmocka_unit_test (test_flow),
        cmocka_unit_test (test_empty_event_is_done_at_once),
        cmocka_unit_test (test_duplicates),
        cmocka_unit_test (test_poison_is_not_compared),
        cmocka_unit_test (test_result_of_nothing_known),
        cmocka_unit_test (test_lost_worker),
        cmocka_unit_test (test_same_instance_comes_back),
        cmocka_unit_test (test_who_comes_back_is_absolved),
        cmocka_unit_test (test_takeover_of_a_live_session),
        cmocka_unit_test (test_silent_worker),
        cmocka_unit_test (test_slow_link),
        cmocka_unit_test (test_third_lease),
        cmocka_unit_test (test_expired_is_not_blamed_again),
        cmocka_unit_test (test_bad_answers_are_blamed_once),
        cmocka_unit_test (test_failed_goes_to_who_does_well),
        cmocka_unit_test (test_busy_time),
        cmocka_unit_test (test_other_patches_show_nothing),
        cmocka_unit_test (test_not_where_it_failed),
        cmocka_unit_test (test_hung_worker),
        cmocka_unit_test (test_alone_is_not_stuck),
        cmocka_unit_test (test_alone_gets_its_turn),
        cmocka_unit_test (test_alone_is_let_go),
        cmocka_unit_test (test_gap_moves_deadlines),
        cmocka_unit_test (test_given_back),
        cmocka_unit_test (test_given_back_goes_first),
        cmocka_unit_test (test_batches_of_a_worker),
        cmocka_unit_test (test_held_after_failures),
        cmocka_unit_test (test_restart),
        cmocka_unit_test (test_orphans_of_two_inputs),
        cmocka_unit_test (test_digest_conflict),
        cmocka_unit_test (test_damaged_result),
        cmocka_unit_test (test_damage_of_what_is_no_result),
        cmocka_unit_test (test_damaged_result_of_a_done_event),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("broker_core", tests, NULL, NULL);
}
