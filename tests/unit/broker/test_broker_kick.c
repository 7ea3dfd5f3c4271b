/* test_broker_kick.c - wm_core: an input begins again as its next generation, in every state,
   and what still comes of the old one counts for nothing and hurts nobody.  */
#include "tests/unit/core_harness.h"

static uint32_t operator_ (harness_t *t)
{
    return hello (t, WM_ROLE_OPERATOR, 90, NULL, 0);
}

static void kick (harness_t *t, uint32_t session, const char *text)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    strcpy (msg.name, "kick");
    strcpy (msg.text, text);
    say (t, session, &msg, NULL, 0);
}

/* Kicks, and looks at the record, the answer and what the producer hears.  */
static wm_key_t kicked (harness_t *t, uint32_t o, uint32_t p, const char *text)
{
    size_t n = t->n_appended;
    kick (t, o, text);
    assert_int_equal (t->n_appended, n + 1);
    const wm_record_t *record = &t->appended[n].record;
    assert_int_equal (record->type, WM_RECORD_KICK);
    assert_int_equal (record->key.ordinal, WM_ALL);
    assert_int_equal (record->key.batch, WM_ALL);
    assert_true (record->size < 0); /* the next INPUT says */
    assert_null (take (t, o, WM_MSG_ACK));
    assert_null (take (t, p, WM_MSG_INPUT_ACK));
    durable (t);
    assert_int_equal (must (t, o, WM_MSG_ACK)->msg.code, WM_MSG_CONTROL);
    wm_msg_t heard = must (t, p, WM_MSG_INPUT_ACK)->msg;
    assert_int_equal (heard.code, WM_INPUT_OPEN);
    assert_int_equal (heard.key.generation, record->key.generation);
    assert_string_equal (heard.path, "/data/a.h5");
    return heard.key;
}

static void send_key (harness_t *t, uint32_t session, wm_msg_type_t type, wm_key_t key)
{
    wm_msg_t msg;
    wm_msg_init (&msg, type);
    msg.key = key;
    strcpy (msg.text, "why");
    say (t, session, &msg, NULL, 0);
}

static sent_t *claim_as (harness_t *t, uint32_t session, uint64_t size, uint32_t code)
{
    return input_ask (t, session, "/data/a.h5", "a.scores.h5", size, code);
}

/* One event of `n` batches from SUBMIT to its last result.  */
static void score (harness_t *t, uint32_t p, uint32_t w, wm_key_t input, uint32_t n)
{
    submit (t, p, input, 0, n);
    sent_t *ack = must (t, p, WM_MSG_SUBMIT_ACK);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal (ack->payload[i], WM_WANT);
    answer_needs (t, p);
    for (sent_t *task; (task = take (t, w, WM_MSG_TASK));) {
        wm_msg_t msg = task->msg;
        result_of (t, w, &msg, 1);
        durable (t);
    }
    must (t, p, WM_MSG_EVENT_DONE);
}

static void write_out (harness_t *t, uint32_t p, wm_key_t input, uint64_t n_event)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT_END);
    msg.key = input;
    msg.count = n_event;
    say (t, p, &msg, NULL, 0);
    send_key (t, p, WM_MSG_FILE_WRITTEN, input);
    durable (t);
    must (t, p, WM_MSG_ACK);
    must (t, p, WM_MSG_ACK);
}

static void test_held (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), o = operator_ (t), w = worker (t, 2, 9);
    wm_key_t input = claim (t, p);
    send_key (t, p, WM_MSG_INPUT_HELD, input);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_HELD);
    wm_summary_t s = look (t);
    assert_int_equal (s.n_held, 1);
    assert_int_equal (s.held_total, 1);
    assert_string_equal (s.held[0].state, "input");
    assert_string_equal (s.held[0].path, "/data/a.h5");
    kicked (t, o, p, "/data/a.h5");
    s = look (t);
    assert_int_equal (s.inputs_held, 0);
    assert_int_equal (s.inputs_open, 1);
    assert_int_equal (s.n_held, 0);

    sent_t *again = claim_as (t, p, 2000, 1); /* the file was put right: that is it now */
    assert_int_equal (again->msg.code, WM_INPUT_CLAIMED);
    const wm_record_t *pin = &t->appended[t->n_appended - 1].record;
    assert_int_equal (pin->type, WM_RECORD_INPUT);
    assert_int_equal (pin->key.generation, 1);
    assert_int_equal (pin->size, 2000);
    wm_key_t key = again->msg.key;
    assert_int_equal (key.generation, 1);
    uint32_t q = producer (t, 3);
    assert_int_equal (claim_as (t, q, 2001, 0)->msg.code, WM_INPUT_HELD); /* pinned indeed */
    assert_int_equal (claim_as (t, q, 2000, 0)->msg.code, WM_INPUT_OPEN);
    score (t, p, w, key, 2);
    write_out (t, p, key, 1);
    assert_int_equal (look (t).inputs_written, 1);
    harness_end (t);
}

/* Everything that a live claim and its worker may still say of the old generation.  */
static void test_claimed_and_running (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), o = operator_ (t), w = worker (t, 2, 9);
    wm_key_t old = claim (t, p);
    submit (t, p, old, 0, 4);
    must (t, p, WM_MSG_SUBMIT_ACK);
    wm_msg_t batch = must (t, p, WM_MSG_NEED)->msg;
    answer_needs (t, p); /* the other three run */
    wm_msg_t first = must (t, w, WM_MSG_TASK)->msg, second = must (t, w, WM_MSG_TASK)->msg,
             third = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &first, 1);
    durable (t);
    must (t, w, WM_MSG_RESULT_ACK);

    kick (t, o, "1");
    size_t appended = t->n_appended;
    assert_int_equal (look (t).n_late, 0);
    result_of (t, w, &second, 1); /* before KICK is durable: not committed, and acked after it */
    assert_null (take (t, w, WM_MSG_RESULT_ACK));
    assert_int_equal (look (t).n_late, 1);
    send_key (t, p, WM_MSG_FETCH, first.key); /* answered, or the producer waits for ever */
    assert_int_equal (must (t, p, WM_MSG_RESULTS)->msg.code, WM_HIT_HELD);
    submit (t, p, old, 1, 1);
    assert_int_equal (claim_as (t, producer (t, 3), 1000, 0)->msg.code, WM_INPUT_BUSY);
    assert_int_equal (t->n_appended, appended);
    durable (t);
    assert_int_equal (must (t, w, WM_MSG_RESULT_ACK)->msg.key.generation, 0);
    assert_int_equal (count (t, w, WM_MSG_REVOKE), 2);
    assert_int_equal (must (t, w, WM_MSG_REVOKE)->msg.key.generation, 0);
    wm_key_t now = must (t, p, WM_MSG_INPUT_ACK)->msg.key;
    assert_int_equal (now.generation, 1);
    assert_int_not_equal (look (t).budget_used_bytes, 0); /* the third may lie in its queue */
    heartbeat (t, w, (wm_key_t){ 0 }, 0);
    assert_true (look (t).budget_used_bytes > WM_FRAME_OVERHEAD); /* the first may still come */
    assert_int_equal (look (t).hits_done, 0);

    /* And after it, from a producer that has not read the news.  */
    batch.type = WM_MSG_BATCH;
    say (t, p, &batch, "x", 1);
    assert_int_equal (look (t).budget_used_bytes, 0);
    submit (t, p, old, 2, 1);
    send_key (t, p, WM_MSG_INPUT_END, old);
    send_key (t, p, WM_MSG_FILE_WRITTEN, old);
    send_key (t, p, WM_MSG_INPUT_HELD, old);
    send_key (t, p, WM_MSG_FETCH, first.key);
    assert_int_equal (must (t, p, WM_MSG_RESULTS)->msg.code, WM_HIT_HELD);
    send_key (t, p, WM_MSG_FILE_LOST, old);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_FILE_LOST);
    nack (t, w, &third, WM_EBATCH);
    result_of (t, w, &third, 9);
    assert_int_equal (must (t, w, WM_MSG_RESULT_ACK)->msg.key.batch, third.key.batch);
    assert_int_equal (look (t).n_late, 2);
    assert_null (take (t, p, WM_MSG_REJECT));
    assert_null (take (t, w, WM_MSG_REJECT));
    durable (t);
    assert_int_equal (look (t).n_fail, 0);
    assert_int_equal (look (t).inputs_held, 0);

    /* The same bytes and other ones: neither is a conflict with what was.  */
    assert_int_equal (claim_as (t, p, 1000, 1)->msg.code, WM_INPUT_CLAIMED);
    submit (t, p, now, 0, 3);
    must (t, p, WM_MSG_SUBMIT_ACK);
    answer_needs (t, p);
    assert_int_equal (look (t).batches_running, 3);
    nack (t, w, &first, WM_EBATCH); /* the worker has these batches again, as other ones */
    result_of (t, w, &second, 9);
    assert_int_equal (must (t, w, WM_MSG_RESULT_ACK)->msg.key.generation, 0);
    assert_int_equal (look (t).n_fail, 0);
    assert_int_equal (look (t).batches_running, 3);
    for (sent_t *task; (task = take (t, w, WM_MSG_TASK));) {
        wm_msg_t msg = task->msg;
        assert_int_equal (msg.attempt, 1);
        result_of (t, w, &msg, 1);
        durable (t);
    }
    must (t, p, WM_MSG_EVENT_DONE);
    write_out (t, p, now, 1);
    wm_summary_t s = look (t);
    assert_int_equal (s.inputs_written, 1);
    assert_int_equal (s.hits_done, 30);
    assert_int_equal (s.events_written, 1);
    assert_int_equal (s.n_alarm, 0);
    assert_int_equal (s.n_late, 3);
    assert_int_equal (s.n_duplicate, 0);
    harness_end (t);
}

/* A result that comes after its input was written or held is acknowledged, and changes nothing.  */
static void test_result_of_a_closed_input (void **state)
{
    for (int held = 0; held < 2; held++) {
        harness_t *t = harness_new (64 * MIB);
        uint32_t p = producer (t, 1), w = worker (t, 2, 9);
        wm_key_t input = claim (t, p);
        score (t, p, w, input, 2);
        if (held) {
            send_key (t, p, WM_MSG_INPUT_HELD, input);
            durable (t);
        } else
            write_out (t, p, input, 1);
        while (take (t, w, WM_MSG_RESULT_ACK))
            ;
        const wm_summary_t before = look (t);
        const size_t n = t->n_appended;
        wm_msg_t task;
        wm_msg_init (&task, WM_MSG_TASK);
        task.key = input;
        task.n_batch = 2;
        task.n_hit = 10;
        for (uint32_t ordinal = 0; ordinal < 2; ordinal++) { /* of an event known, and of none */
            task.key.ordinal = ordinal;
            digest_of (ordinal, 0, task.digest);
            result_of (t, w, &task, 1);
            must (t, w, WM_MSG_RESULT_ACK);
        }
        const wm_summary_t after = look (t);
        assert_int_equal (t->n_appended, n);
        assert_int_equal (after.n_late, before.n_late + 2);
        assert_int_equal (after.hits_done, before.hits_done);
        assert_int_equal (after.batches_returned, before.batches_returned);
        harness_end (t);
    }
}

static void test_written (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), o = operator_ (t), w = worker (t, 2, 99);
    wm_key_t input = claim (t, p);
    score (t, p, w, input, 2);
    write_out (t, p, input, 1);
    sent_t *changed = claim_as (t, p, 1001, 0); /* said, and nothing happens */
    assert_int_equal (changed->msg.code, WM_INPUT_WRITTEN);
    assert_non_null (strstr (changed->msg.text, "changed since its output was written"));
    wm_summary_t s = look (t);
    assert_int_equal (s.inputs_changed, 1);
    assert_string_equal (s.held[0].state, "changed");
    assert_string_equal (claim_as (t, p, 1000, 0)->msg.text, ""); /* it is back */
    assert_int_equal (look (t).held_total, 0);

    size_t n = t->n_appended;
    assert_int_equal (claim_as (t, p, 1000, 2)->msg.code, WM_INPUT_WRITTEN); /* nothing to retry */
    wm_msg_t msg; /* a file that is gone takes nothing from its output */
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 2;
    strcpy (msg.path, "/data/a.h5");
    strcpy (msg.name, "a.scores.h5");
    say (t, p, &msg, NULL, 0);
    assert_string_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.text, "");
    assert_int_equal (t->n_appended, n);
    uint32_t q = producer (t, 3);
    sent_t *retried = claim_as (t, p, 1001, 2);
    assert_null (take (t, q, WM_MSG_INPUT_ACK)); /* no business of its */
    assert_int_equal (retried->msg.code, WM_INPUT_OPEN);
    assert_int_equal (retried->msg.key.generation, 1);
    const wm_record_t *record = &t->appended[t->n_appended - 1].record;
    assert_int_equal (record->type, WM_RECORD_KICK);
    assert_int_equal (record->size, 1001); /* pinned by the same record */
    assert_int_equal (record->mtime_ns, 5);
    s = look (t);
    assert_int_equal (s.inputs_written + s.events_written + s.hits_done + s.batches_returned, 0);
    n = t->n_appended;
    wm_key_t again = claim_as (t, p, 1001, 1)->msg.key;
    assert_int_equal (t->n_appended, n);
    score (t, p, w, again, 2);
    write_out (t, p, again, 1);
    n = t->n_appended;
    send_key (t, p, WM_MSG_FILE_LOST, input); /* who missed the old output missed nothing */
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_FILE_LOST);
    assert_int_equal (t->n_appended, n);

    again = kicked (t, o, p, "1"); /* unchanged, but an operator wants it again */
    assert_int_equal (again.generation, 2);
    again = claim_as (t, p, 1001, 1)->msg.key;
    score (t, p, w, again, 2);
    submit (t, p, again, 1, 0); /* it has one event more now */
    must (t, p, WM_MSG_EVENT_DONE);
    write_out (t, p, again, 2);
    s = look (t);
    assert_int_equal (s.events_written, 2);
    assert_int_equal (s.batches_returned, 2);
    assert_int_equal (s.inputs_written, 1);
    harness_end (t);
}

/* A kick behind records that are on their way takes its turn after them.  */
static void test_behind_other_records (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), o = operator_ (t), w = worker (t, 2, 99);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    msg.size = 1000;
    strcpy (msg.path, "/data/a.h5");
    strcpy (msg.name, "a.scores.h5");
    say (t, p, &msg, NULL, 0);
    kick (t, o, "/data/a.h5"); /* INPUT is not durable yet */
    kick (t, o, "/data/a.h5"); /* once is enough, both are answered */
    durable (t);
    assert_int_equal (count (t, o, WM_MSG_ACK), 2);
    take (t, o, WM_MSG_ACK), take (t, o, WM_MSG_ACK);
    assert_int_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_CLAIMED);
    assert_int_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.key.generation, 1);

    wm_key_t input = claim_as (t, p, 1000, 1)->msg.key;
    assert_int_equal (input.generation, 1);
    score (t, p, w, input, 1);
    wm_msg_init (&msg, WM_MSG_INPUT_END);
    msg.key = input;
    msg.count = 1;
    say (t, p, &msg, NULL, 0);
    send_key (t, p, WM_MSG_FILE_WRITTEN, input);
    kick (t, o, "1"); /* FILE_WRITTEN is on its way */
    durable (t);
    wm_summary_t s = look (t);
    assert_int_equal (s.inputs_written, 0);
    assert_int_equal (s.inputs_open, 1);
    assert_int_equal (s.events_written, 0);
    must (t, p, WM_MSG_INPUT_ACK);

    input = claim_as (t, p, 1000, 1)->msg.key;
    assert_int_equal (input.generation, 2);
    score (t, p, w, input, 1);
    write_out (t, p, input, 1);
    send_key (t, p, WM_MSG_FILE_LOST, input);
    kick (t, o, "1"); /* FILE_LOST is */
    durable (t);
    must (t, p, WM_MSG_INPUT_ACK);
    input = claim_as (t, p, 1000, 1)->msg.key;
    assert_int_equal (input.generation, 3);
    send_key (t, p, WM_MSG_INPUT_HELD, input);
    kick (t, o, "1"); /* HELD is */
    durable (t);
    s = look (t);
    assert_int_equal (s.inputs_held + s.inputs_written, 0);
    assert_int_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_HELD);
    assert_int_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_OPEN);
    assert_int_equal (claim_as (t, p, 1000, 1)->msg.key.generation, 4);
    harness_end (t);
}

/* Held batches are retried too, in an open input as in a written one.  */
static void test_held_batches (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 99);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    for (sent_t *task; (task = take (t, w, WM_MSG_TASK));) {
        wm_msg_t msg = task->msg;
        nack (t, w, &msg, WM_EBATCH);
    }
    durable (t);
    wm_summary_t s = look (t);
    assert_int_equal (s.held_total, 1);
    assert_string_equal (s.held[0].state, "batch");
    assert_int_equal (s.held[0].n_hit, 10);
    assert_int_equal (claim_as (t, p, 1000, 1)->msg.key.generation, 0);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT_END);
    msg.key = input;
    msg.count = 1;
    say (t, p, &msg, NULL, 0);
    send_key (t, p, WM_MSG_FILE_WRITTEN, input);
    assert_int_equal (t->appended[t->n_appended - 1].record.n_batch, 1); /* over a restart too */
    durable (t);
    assert_int_equal (look (t).batches_held, 1);
    assert_int_equal (claim_as (t, p, 1000, 0)->msg.code, WM_INPUT_WRITTEN);
    assert_int_equal (claim_as (t, p, 1000, 2)->msg.key.generation, 1);
    s = look (t);
    assert_int_equal (s.held_total + s.batches_held + s.n_held, 0);
    harness_end (t);
}

static void test_refused (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    claim (t, p);
    static const char *const unknown[] = { "/data/b.h5", "2", "0", "", "1x", "99999999999" };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        uint32_t o = operator_ (t);
        kick (t, o, unknown[i]);
        refused (t, o, WM_REASON_STALE);
    }
    assert_int_equal (t->n_appended, 1);
    assert_non_null (strstr (look (t).logged[0].text, "99999999999")); /* the last line logged */
    harness_end (t);
}

/* ---- over restarts --------------------------------------------------------------------------- */

static void restart (harness_t *t, wm_ledger_input_t input)
{
    wm_core_destroy (&t->core);
    t->core = core_make (t, 2, 64 * MIB);
    input.id = 1;
    input.path = "/data/a.h5";
    input.name = "a.scores.h5";
    input.text = input.state == WM_LEDGER_HELD ? "truncated" : "";
    input.mtime_ns = 5;
    input.n_event = input.state == WM_LEDGER_WRITTEN ? 1 : -1;
    assert_int_equal (wm_core_restore_input (t->core, &input), 0);
}

static void test_restart (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    restart (t, (wm_ledger_input_t){ .state = WM_LEDGER_HELD, .size = 1000 });
    uint32_t p = producer (t, 1), o = operator_ (t);
    assert_int_equal (claim_as (t, p, 1000, 1)->msg.code, WM_INPUT_HELD);
    assert_int_equal (look (t).held_total, 1);
    kicked (t, o, p, "1");

    /* Kicked by an operator, and the broker died before a producer came.  */
    restart (t, (wm_ledger_input_t){ .state = WM_LEDGER_OPEN, .generation = 1, .size = -1 });
    uint32_t w = worker (t, 2, 9);
    wm_ledger_batch_t late = {
        .key = { 1, 0, 0, 0 }, .state = WM_LEDGER_RETURNED, .n_batch = 2, .n_hit = 10, .text = ""
    }; /* a row of the old generation */
    digest_of (0, 0, late.digest);
    assert_int_equal (wm_core_restore_batch (t->core, &late, "engine/fp32"), 0);
    wm_msg_t task;
    wm_msg_init (&task, WM_MSG_TASK);
    task.key = (wm_key_t){ 1, 0, 1, 0 };
    task.n_batch = 2;
    task.n_hit = 10;
    size_t n = t->n_appended;
    result_of (t, w, &task, 1); /* a result of it that was on its way */
    must (t, w, WM_MSG_RESULT_ACK);
    assert_int_equal (t->n_appended, n);
    p = producer (t, 1);
    sent_t *again = claim_as (t, p, 3000, 2); /* --retry-held has nothing left to kick */
    assert_int_equal (again->msg.key.generation, 1);
    assert_int_equal (t->appended[t->n_appended - 1].record.type, WM_RECORD_INPUT);
    again = claim_as (t, p, 3000, 1);
    assert_int_equal (again->msg.code, WM_INPUT_CLAIMED);
    score (t, p, w, again->msg.key, 2);

    /* Written with a batch held: that is known after a restart.  */
    restart (t, (wm_ledger_input_t){
                    .state = WM_LEDGER_WRITTEN, .size = 1000, .n_hit = 9, .n_batch_held = 1 });
    p = producer (t, 1);
    assert_int_equal (look (t).batches_held, 1);
    assert_int_equal (claim_as (t, p, 1000, 2)->msg.key.generation, 1);
    wm_summary_t s = look (t);
    assert_int_equal (s.batches_held + s.batches_returned + s.inputs_written + s.hits_done, 0);
    harness_end (t);
}

/* A file that lies elsewhere has no size until it is copied: it is known, claimed and held without
   one, and the first INPUT with a size pins it.  */
static void test_elsewhere (void **state)
{
    harness_t *t = harness_new (1 << 20);
    uint32_t p = producer (t, 1), other = producer (t, 2);
    assert_int_equal (claim_as (t, p, WM_SIZE_UNKNOWN, 0)->msg.code, WM_INPUT_OPEN);
    assert_int_equal (t->appended[t->n_appended - 1].record.type, WM_RECORD_INPUT);
    assert_int_equal (t->appended[t->n_appended - 1].record.size, -1);
    size_t n = t->n_appended;
    wm_key_t key = claim_as (t, p, WM_SIZE_UNKNOWN, 1)->msg.key;
    assert_int_equal (claim_as (t, other, WM_SIZE_UNKNOWN, 1)->msg.code, WM_INPUT_BUSY);
    assert_int_equal (t->n_appended, n);
    send_key (t, p, WM_MSG_INPUT_HELD, key); /* it cannot be copied */
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_HELD);
    assert_int_equal (claim_as (t, p, WM_SIZE_UNKNOWN, 1)->msg.code, WM_INPUT_HELD);
    assert_int_equal (claim_as (t, p, 1000, 1)->msg.code, WM_INPUT_HELD); /* is not pinned now */
    assert_int_equal (look (t).inputs_held, 1);
    key = claim_as (t, p, WM_SIZE_UNKNOWN, 2)->msg.key; /* --retry-held */
    assert_int_equal (key.generation, 1);
    assert_int_equal (look (t).inputs_held, 0);

    assert_int_equal (claim_as (t, p, WM_SIZE_UNKNOWN, 1)->msg.code, WM_INPUT_CLAIMED);
    assert_int_equal (claim_as (t, p, 1000, 1)->msg.code, WM_INPUT_CLAIMED);
    assert_int_equal (t->appended[t->n_appended - 1].record.size, 1000);
    n = t->n_appended;
    assert_int_equal (claim_as (t, p, WM_SIZE_UNKNOWN, 0)->msg.code, WM_INPUT_OPEN); /* no change */
    assert_int_equal (claim_as (t, p, 1000, 1)->msg.code, WM_INPUT_CLAIMED);
    assert_int_equal (t->n_appended, n);
    sent_t *changed = claim_as (t, p, 2000, 1);
    assert_int_equal (changed->msg.code, WM_INPUT_HELD);
    assert_non_null (strstr (changed->msg.text, "changed since it was added"));
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_held),         cmocka_unit_test (test_claimed_and_running),
        cmocka_unit_test (test_written),      cmocka_unit_test (test_behind_other_records),
        cmocka_unit_test (test_held_batches), cmocka_unit_test (test_refused),
        cmocka_unit_test (test_restart),      cmocka_unit_test (test_result_of_a_closed_input),
        cmocka_unit_test (test_elsewhere),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("broker_kick", tests, NULL, NULL);
}
