/* test_broker_refusals.c - wm_core: inputs and claims, budget and credit, control, and what it
 * refuses.  */
#include "tests/proof.h"
#include "tests/unit/core_harness.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

static void test_inputs (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), q = producer (t, 2);
    sent_t *a = input_ask (t, p, "/x/a.h5", "a.scores.h5", 10, 0);
    assert_int_equal (a->msg.code, WM_INPUT_OPEN);
    assert_int_equal (a->msg.key.input, 1);
    assert_string_equal (a->msg.name, "a.scores.h5");
    sent_t *b = input_ask (t, p, "/y/a.h5", "a.scores.h5", 10, 0);
    assert_int_equal (b->msg.key.input, 2);
    assert_string_not_equal (b->msg.name, "a.scores.h5");
    assert_non_null (strstr (b->msg.name, ".scores.h5"));
    size_t appended = t->n_appended;
    assert_int_equal (input_ask (t, q, "/x/a.h5", "a.scores.h5", 10, 1)->msg.code,
                      WM_INPUT_CLAIMED); /* twice counts once */
    assert_int_equal (t->n_appended, appended);
    assert_int_equal (input_ask (t, p, "/x/a.h5", "a.scores.h5", 10, 1)->msg.code, WM_INPUT_BUSY);
    assert_int_equal (input_ask (t, p, "/y/a.h5", "a.scores.h5", 11, 1)->msg.code, WM_INPUT_HELD);
    assert_int_equal (input_ask (t, p, "/y/a.h5", "a.scores.h5", 10, 1)->msg.code,
                      WM_INPUT_CLAIMED);    /* the file is back */
    wm_core_closed (t->core, q, t->now_ms); /* a claim dies with its session */
    assert_int_equal (input_ask (t, p, "/x/a.h5", "a.scores.h5", 10, 1)->msg.code,
                      WM_INPUT_CLAIMED);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT_HELD);
    msg.key.input = 1;
    strcpy (msg.text, "truncated");
    say (t, p, &msg, NULL, 0);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_HELD);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_INPUT_HELD);
    wm_summary_t s = look (t);
    assert_int_equal (s.inputs_held, 1);
    assert_string_equal (s.held[0].reason, "truncated");
    wm_brief_t brief;
    wm_core_brief (t->core, &brief);
    assert_int_equal (brief.n_closed, 1);
    static const char *const bad[] = { "../a", ".a", "a/b", "", "a\nb" };
    for (size_t i = 0; i < 5; i++) {
        uint32_t r = producer (t, (uint8_t) (10 + i));
        wm_msg_init (&msg, WM_MSG_INPUT);
        strcpy (msg.path, "/z");
        strcpy (msg.name, bad[i]);
        say (t, r, &msg, NULL, 0);
        refused (t, r, WM_REASON_PROTOCOL);
    }
    harness_end (t);
}

static void test_claim_dies_and_another_goes_on (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1);
    submit (t, p, input, 0, 3);
    must (t, p, WM_MSG_SUBMIT_ACK);
    assert_int_equal (count (t, p, WM_MSG_NEED), 3);
    wm_msg_t need = must (t, p, WM_MSG_NEED)->msg, msg = need;
    msg.type = WM_MSG_BATCH;
    say (t, p, &msg, "x", 1);
    must (t, w, WM_MSG_TASK); /* one runs, two are asked for */
    wm_core_closed (t->core, p, t->now_ms);
    wm_summary_t s = look (t);
    assert_int_equal (s.batches_asked, 0);
    assert_int_equal (s.batches_running, 1);
    assert_int_equal (s.batches_queued, 0);
    assert_int_equal (s.budget_used_bytes, 1);
    uint32_t q = producer (t, 3);
    claim (t, q);
    submit (t, q, input, 0, 3);
    assert_int_equal (must (t, q, WM_MSG_SUBMIT_ACK)->payload[0], WM_WANT);
    assert_int_equal (count (t, q, WM_MSG_NEED), 2);
    harness_end (t);
}

/* ---- budget, credit, control ----------------------------------------------------------------- */

static void test_budget (void **state)
{
    harness_t *t = harness_new (20 * MIB); /* room for four of the largest */
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 10), alive[] = { p, w, 0 };
    submit_raw (t, p, input, 0, 20, WM_RAW_BYTES_MAX);
    must (t, p, WM_MSG_SUBMIT_ACK);
    int needs = count (t, p, WM_MSG_NEED);
    assert_int_equal (needs, 4);
    static uint8_t payload[WM_RAW_BYTES_MAX];
    for (int batches = 0; batches < 20; batches++) { /* say () checks the budget each time */
        wm_msg_t msg = must (t, p, WM_MSG_NEED)->msg;
        msg.type = WM_MSG_BATCH;
        say (t, p, &msg, payload, sizeof payload);
        heartbeat (t, w, (wm_key_t){ 0 }, 0);
        if (batches >= 12) { /* running payloads that it has give way before that */
            wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
            result_of (t, w, &task, 1);
            durable (t);
            credit (t, w, (uint64_t) batches);
        }
    }
    pass (t, 1000, alive);
    assert_true (t->handles <= 5);
    /* The worker vanishes: what was dropped is asked for again. */
    wm_core_closed (t->core, w, t->now_ms);
    uint32_t left[] = { p, 0 };
    pass (t, 4000, left);
    uint32_t w2 = worker (t, 3, 100);
    int asked_again = 0;
    for (int i = 0; i < 100 && look (t).batches_returned < 20; i++) {
        for (sent_t *need; (need = take (t, p, WM_MSG_NEED)); asked_again++) {
            wm_msg_t msg = need->msg;
            msg.type = WM_MSG_BATCH;
            say (t, p, &msg, payload, sizeof payload);
        }
        sent_t *task = take (t, w2, WM_MSG_TASK);
        if (task) {
            wm_msg_t msg = task->msg;
            result_of (t, w2, &msg, 1);
            durable (t);
        }
    }
    assert_true (asked_again > 0);
    assert_int_equal (look (t).batches_returned, 20);
    assert_int_equal (look (t).budget_used_bytes, 0);
    must (t, p, WM_MSG_EVENT_DONE);
    harness_end (t);
}

/* Answers NEEDs with payloads of the largest size; returns how many.  */
static int answer_at_large (harness_t *t, uint32_t p)
{
    static uint8_t payload[WM_RAW_BYTES_MAX];
    int n = 0;
    for (sent_t *need; (need = take (t, p, WM_MSG_NEED)); n++) {
        wm_msg_t msg = need->msg;
        msg.type = WM_MSG_BATCH;
        say (t, p, &msg, payload, sizeof payload);
    }
    return n;
}

/* What may lie in the queue to a worker is in the budget, whatever becomes of its batch, until the
   worker shows that it has it, or is given up: when it is silent, or beats and takes nothing.  */
static void test_on_the_way (void **state)
{
    for (int beats = 0; beats < 2; beats++) {
        harness_t *t = harness_new (20 * MIB); /* room for four of the largest */
        uint32_t p = producer (t, 1), w = worker (t, 2, 10), good = worker (t, 3, 0);
        wm_key_t input = claim (t, p);
        t->deaf = w;
        submit_raw (t, p, input, 0, 12, WM_RAW_BYTES_MAX);
        assert_int_equal (answer_at_large (t, p), 4);
        assert_int_equal (count (t, w, WM_MSG_TASK), 4);
        credit (t, good, 10);
        const uint32_t alive[] = { p, good, beats ? w : 0, 0 };
        for (int ms = 0; ms < 25000; ms += 500) {
            pass (t, 500, alive);
            assert_int_equal (answer_at_large (t, p), 0);
        }
        assert_true (look (t).budget_used_bytes >= 4 * WM_RAW_BYTES_MAX);
        int n = 0, ms = 0;
        for (; ms < 80000 && n < 12; ms += 500) {
            sent_t *bye = take (t, w, WM_MSG_BYE);
            assert_true (!bye || bye->msg.code == WM_REASON_STALE);
            assert_true (!bye || ms >= (beats ? 34000 : 4000)); /* 25 s were before */
            pass (t, 500, alive);
            answer_at_large (t, p);
            for (sent_t *task; (task = take (t, good, WM_MSG_TASK)); n++) {
                wm_msg_t msg = task->msg;
                result_of (t, good, &msg, 1);
                durable (t);
                credit (t, good, 20);
            }
        }
        assert_int_equal (look (t).batches_returned, 12);
        assert_int_equal (look (t).budget_used_bytes, 0);
        harness_end (t);
    }
}

/* A payload that may lie in the queue to a worker takes its bytes whoever owns it, so dropping it
   gives no room: its batch keeps it, and goes to another worker without being asked for again.  */
static void test_on_the_way_is_kept (void **state)
{
    harness_t *t = harness_new (20 * MIB); /* room for four of the largest */
    uint32_t p = producer (t, 1), w = worker (t, 2, 10);
    wm_key_t input = claim (t, p);
    t->deaf = w;
    submit_raw (t, p, input, 0, 12, WM_RAW_BYTES_MAX);
    assert_int_equal (answer_at_large (t, p), 4);
    assert_int_equal (count (t, w, WM_MSG_TASK), 4);
    pass (t, 5000, (uint32_t[]){ p, w, 0 }); /* other batches wait for room all the time */
    bye (t, w, WM_REASON_DRAINED);
    uint32_t good = worker (t, 3, 4);
    assert_int_equal (count (t, good, WM_MSG_TASK), 4);
    assert_int_equal (count (t, p, WM_MSG_NEED), 0);
    harness_end (t);
}

/* A copy's result counts; the stopped worker's payload is in the budget until it says that it has
   it.  */
static void test_on_the_way_of_a_copy (void **state)
{
    harness_t *t = harness_new (20 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 2);
    wm_key_t input = claim (t, p);
    submit_raw (t, p, input, 0, 1, WM_RAW_BYTES_MAX);
    answer_at_large (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    uint32_t other = worker (t, 3, 1);
    result_of (t, other, &task, 1); /* it had it from before */
    durable (t);
    assert_int_equal (look (t).batches_returned, 1);
    must (t, w, WM_MSG_REVOKE);
    assert_int_equal (look (t).budget_used_bytes, WM_RAW_BYTES_MAX);
    heartbeat (t, w, (wm_key_t){ 0 }, 0);
    assert_int_equal (look (t).budget_used_bytes, 0);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    msg.received = 2; /* more than it was sent */
    say (t, w, &msg, NULL, 0);
    refused (t, w, WM_REASON_PROTOCOL);
    harness_end (t);
}

static void test_asks_only_ahead (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 60);
    assert_int_equal (count (t, p, WM_MSG_NEED), 2); /* no worker yet */
    uint32_t w = worker (t, 2, 4);
    assert_int_equal (count (t, p, WM_MSG_NEED), 6);
    answer_needs (t, p);
    assert_int_equal (count (t, w, WM_MSG_TASK), 4);
    assert_true (look (t).batches_asked + look (t).batches_queued > 0);
    credit (t, w, 0); /* taken back: nothing more is sent */
    answer_needs (t, p);
    assert_int_equal (count (t, w, WM_MSG_TASK), 4);
    credit (t, w, 1000000); /* more than anybody may hold */
    for (int i = 0; i < 40; i++)
        answer_needs (t, p);
    assert_int_equal (count (t, w, WM_MSG_TASK), 60);
    harness_end (t);
}

static void test_disk_full (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1);
    submit (t, p, input, 0, 3);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    wm_core_disk_full (t->core, 1, t->now_ms);
    result_of (t, w, &task, 1); /* it waits in the reactor; nothing is said */
    credit (t, w, 3);
    assert_int_equal (count (t, w, WM_MSG_TASK), 0);
    assert_string_equal (look (t).waiting_for, "disk full");
    assert_null (take (t, w, WM_MSG_RESULT_ACK));
    wm_core_disk_full (t->core, 0, t->now_ms);
    durable (t);
    must (t, w, WM_MSG_RESULT_ACK);
    assert_int_equal (count (t, w, WM_MSG_TASK), 2);
    harness_end (t);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_refused_hellos (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL + 1;
    msg.role = WM_ROLE_WORKER;
    uint32_t s = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms);
    say (t, s, &msg, "", 0);
    sent_t *reject = must (t, s, WM_MSG_REJECT);
    assert_int_equal (reject->msg.code, WM_REASON_PROTOCOL);
    assert_non_null (strstr (reject->msg.text, WM_VERSION));
    msg.protocol = WM_PROTOCOL;
    s = wm_core_open (t->core, WM_ROLE_PRODUCER, t->now_ms);
    say (t, s, &msg, "", 0);
    refused (t, s, WM_REASON_ROLE);
    s = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms);
    say (t, s, &msg, "odd", 3);
    refused (t, s, WM_REASON_PROTOCOL);
    s = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms); /* something before HELLO */
    credit (t, s, 5);
    refused (t, s, WM_REASON_PROTOCOL);
    s = wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms); /* nothing at all */
    pass (t, 4000, NULL);
    refused (t, s, WM_REASON_PROTOCOL);
    s = worker (t, 2, 1); /* HELLO twice */
    wm_msg_init (&msg, WM_MSG_HELLO);
    say (t, s, &msg, "", 0);
    refused (t, s, WM_REASON_PROTOCOL);
    s = worker (t, 2, 1); /* a payload where none belongs */
    wm_msg_init (&msg, WM_MSG_CREDIT);
    say (t, s, &msg, "x", 1);
    refused (t, s, WM_REASON_PROTOCOL);
    uint32_t n = 0;
    while (n <= WM_PEERS_MAX && wm_core_open (t->core, WM_ROLE_WORKER, t->now_ms))
        n++;
    assert_int_equal (n, WM_PEERS_MAX);
    harness_end (t);
}

/* SUBMITs of one batch and one held hit: each on its bounds, and one beside them.  */
static void test_refused_submits (void **state)
{
    enum { TIME = WM_HIT_BAD_TIME, MOST = WM_RAW_BYTES_MAX, FIT = MOST / (1 + 4 * N_OUTPUT) };
    static const struct {
        uint32_t n_batch, n_hit, n_held, batch_hits, raw;
        size_t bytes;
        uint32_t row, status, ordinal, batch;
        bool is_good;
    } rows[] = {
        { 1, 11, 1, 10, 100, 32, 0, TIME, 0, 0, true },
        { 1, 11, 1, 10, 100, 31, 0, TIME, 0, 0, false }, /* a byte is missing */
        { 2, 11, 1, 10, 100, 32, 0, TIME, 0, 0, false }, /* a batch is missing */
        { 1, 12, 2, 10, 100, 32, 0, TIME, 0, 0, false }, /* a held hit is missing */
        { 1, 10, 0, 10, 100, 24, 0, TIME, 0, 0, true },
        { 1, 12, 1, 10, 100, 32, 0, TIME, 0, 0, false }, /* hits do not add up */
        { 1, 10, 1, 10, 100, 32, 0, TIME, 0, 0, false },
        { 1, 1, 1, 0, 100, 32, 0, TIME, 0, 0, false },        /* an empty batch */
        { 1, 11, 1, 10, MOST + 1, 32, 0, TIME, 0, 0, false }, /* too large */
        { 1, 11, 1, 10, MOST, 32, 0, TIME, 0, 0, true },
        { 1, 2, 1, 1, MOST + 1, 32, 0, TIME, 0, 0, false }, /* a larger patch than there are here */
        { 1, 2, 1, 1, MOST, 32, 0, TIME, 0, 0, true },
        { 1, 2 + FIT, 1, 1 + FIT, 100, 32, 0, TIME, 0, 0, false }, /* its result is too large */
        { 1, 1 + FIT, 1, FIT, 100, 32, 0, TIME, 0, 0, true },
        { 1, 11, 1, 10, 100, 32, 11, TIME, 0, 0, false }, /* a bad hit that does not exist */
        { 1, 11, 1, 10, 100, 32, 10, TIME, 0, 0, true },
        { 1, 11, 1, 10, 100, 32, 0, WM_HIT_SCORED, 0, 0, false },
        { 1, 11, 1, 10, 100, 32, 0, WM_HIT_STATUSES, 0, 0, false }, /* no such reason */
        { 1, 11, 1, 10, 100, 32, 0, WM_HIT_STATUSES - 1, 0, 0, true },
        { 1, 11, 1, 10, 100, 32, 0, TIME, WM_ALL, 0, false }, /* keys of no event */
        { 1, 11, 1, 10, 100, 32, 0, TIME, WM_ALL - 1, 0, true },
        { 1, 11, 1, 10, 100, 32, 0, TIME, 0, 1, false },
        { WM_EVENT_BATCHES_MAX + 1, 11, 1, 10, 100, 32, 0, TIME, 0, 0, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = harness_new (64 * MIB);
        uint32_t p = producer (t, 1);
        struct {
            wm_manifest_batch_t batch;
            wm_manifest_held_t held;
        } lines = { { { 1 }, rows[i].batch_hits, rows[i].raw }, { rows[i].row, rows[i].status } };
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_SUBMIT);
        msg.key = claim (t, p);
        msg.key.ordinal = rows[i].ordinal;
        msg.key.batch = rows[i].batch;
        msg.n_batch = rows[i].n_batch;
        msg.n_hit = rows[i].n_hit;
        msg.n_held = rows[i].n_held;
        say (t, p, &msg, &lines, rows[i].bytes);
        if (rows[i].is_good)
            assert_int_equal (must (t, p, WM_MSG_SUBMIT_ACK)->bytes, 1);
        else
            refused (t, p, WM_REASON_PROTOCOL);
        assert_int_equal (look (t).events_announced, rows[i].is_good);
        harness_end (t);
    }
}

static void test_refused_in_turn (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    submit (t, p, (wm_key_t){ .input = 1 }, 0, 1); /* of no claim */
    refused (t, p, WM_REASON_STALE);

    p = producer (t, 1);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 1);
    wm_msg_t need = must (t, p, WM_MSG_NEED)->msg, msg = need;
    msg.type = WM_MSG_BATCH;
    say (t, p, &msg, "x", 1);
    say (t, p, &msg, "x", 1); /* twice: not asked for */
    refused (t, p, WM_REASON_PROTOCOL);

    uint32_t w = worker (t, 2, 1);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg; /* its payload survived the session */
    p = producer (t, 1);
    claim (t, p);
    submit (t, p, input, 1, 1);
    msg = must (t, p, WM_MSG_NEED)->msg;
    msg.type = WM_MSG_BATCH;
    msg.digest[3] ^= 1;
    say (t, p, &msg, "x", 1);
    refused (t, p, WM_REASON_DIGEST);

    p = producer (t, 1);
    claim (t, p);
    submit (t, p, input, 1, 1);
    msg = must (t, p, WM_MSG_NEED)->msg;
    msg.type = WM_MSG_BATCH;
    static uint8_t large[1000 + (64 << 10) + 1];
    say (t, p, &msg, large, sizeof large); /* more than was announced */
    refused (t, p, WM_REASON_PROTOCOL);

    p = producer (t, 1);
    claim (t, p);
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = input;
    say (t, p, &msg, NULL, 0); /* of an event that is not done */
    refused (t, p, WM_REASON_PROTOCOL);

    p = producer (t, 1);
    claim (t, p);
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = input;
    say (t, p, &msg, NULL, 0); /* of an input that is not done */
    refused (t, p, WM_REASON_PROTOCOL);

    p = producer (t, 1);
    claim (t, p);
    for (uint32_t i = 0; i <= WM_OPEN_EVENTS_MAX; i++)
        submit (t, p, input, 100 + i, 1);
    refused (t, p, WM_REASON_PROTOCOL);

    msg = task;
    msg.type = WM_MSG_RESULT;
    say (t, w, &msg, "short", 5);
    refused (t, w, WM_REASON_PROTOCOL);
    assert_int_equal (look (t).batches_returned, 0);
    w = worker (t, 2, 0);
    submit (t, w, input, 0, 1); /* a worker is no producer */
    refused (t, w, WM_REASON_PROTOCOL);
    harness_end (t);
}

/* Who has not asked about a written input cannot open it again.  */
static void test_lost_by_a_stranger (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), q = producer (t, 2);
    wm_msg_t msg;
    wm_key_t input = claim (t, p);
    for (int i = 0; i < 2; i++) { /* without events */
        wm_msg_init (&msg, i ? WM_MSG_FILE_WRITTEN : WM_MSG_INPUT_END);
        msg.key = input;
        say (t, p, &msg, NULL, 0);
        durable (t);
        must (t, p, WM_MSG_ACK);
    }
    const size_t appended = t->n_appended;
    wm_msg_init (&msg, WM_MSG_FILE_LOST);
    msg.key = input;
    say (t, q, &msg, NULL, 0);
    durable (t);
    assert_int_equal (must (t, q, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_BUSY);
    assert_int_equal (t->n_appended, appended);
    assert_int_equal (look (t).inputs_written, 1);
    assert_int_equal (input_ask (t, q, "/data/a.h5", "a.scores.h5", 1000, 0)->msg.code,
                      WM_INPUT_WRITTEN);
    say (t, p, &msg, NULL, 0); /* who wrote it, but is not the last that looked */
    assert_int_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.code, WM_INPUT_BUSY);
    say (t, q, &msg, NULL, 0);
    durable (t);
    assert_int_equal (must (t, q, WM_MSG_ACK)->msg.code, WM_MSG_FILE_LOST);
    assert_int_equal (look (t).inputs_written, 0);
    harness_end (t);
}

/* Each piece of the model is sent once in a session, however often a worker asks.  */
static void test_model_once (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_MODEL_GET);
    const uint64_t again[] = { 0, WM_RAW_BYTES_MAX - 1, WM_RAW_BYTES_MAX,
                               2 * WM_RAW_BYTES_MAX - 1 };
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t w = worker (t, 2, 1);
        t->n_model = 0;
        msg.offset = 0;
        say (t, w, &msg, NULL, 0);
        msg.offset = WM_RAW_BYTES_MAX;
        say (t, w, &msg, NULL, 0);
        assert_int_equal (t->n_model, 2);
        assert_true (t->model_offset == WM_RAW_BYTES_MAX);
        msg.offset = again[i];
        say (t, w, &msg, NULL, 0);
        refused (t, w, WM_REASON_PROTOCOL);
        assert_int_equal (t->n_model, 2);
    }
    const uint32_t w = worker (t, 2, 1);
    msg.offset = UINT64_MAX - 1; /* beyond any model: the end of the arithmetic */
    say (t, w, &msg, NULL, 0);
    assert_int_equal (t->n_model, 3);
    say (t, w, &msg, NULL, 0);
    refused (t, w, WM_REASON_PROTOCOL);
    harness_end (t);
}

/* A result that breaks a promise is its worker's fault: the worker is refused and the batch goes to
   another one, also where the worker had no lease of it.  */
static void test_malformed_scores (void **state)
{
    const uint32_t words[] = { 0x7fc00000, 0x7f800000, 0xff800000, 0x7f800001, 0xffffffff };
    for (uint32_t i = 0; i < 8; i++) {
        harness_t *t = harness_new (64 * MIB);
        uint32_t p = producer (t, 1), w = worker (t, 2, 1), stranger = worker (t, 3, 0);
        wm_key_t input = claim (t, p);
        submit (t, p, input, 0, 1);
        answer_needs (t, p);
        wm_msg_t task = must (t, w, WM_MSG_TASK)->msg, msg = task;
        uint8_t bad[10 * (1 + 4 * N_OUTPUT)] = { 0 };
        msg.type = WM_MSG_RESULT;
        if (i < 5) /* the first score or the last */
            memcpy (i % 2 ? bad + sizeof bad - 4 : bad + 10, &words[i], 4);
        else
            bad[9] = (uint8_t) (i == 5 ? WM_HIT_STATUSES : i == 6 ? 200 : 255);
        const size_t appended = t->n_appended;
        say (t, stranger, &msg, bad, sizeof bad);
        refused (t, stranger, WM_REASON_PROTOCOL);
        assert_int_equal (look (t).n_fail, 0); /* it had no lease: the batch has not failed */
        assert_int_equal (look (t).batches_running, 1);
        say (t, w, &msg, bad, sizeof bad);
        refused (t, w, WM_REASON_PROTOCOL);
        assert_non_null (strstr (t->log, i < 5 ? "not finite" : "unknown status"));
        assert_int_equal (t->n_appended, appended);
        assert_int_equal (look (t).n_fail, 1);
        uint32_t good = worker (t, 4, 1);
        msg = must (t, good, WM_MSG_TASK)->msg;
        assert_memory_equal (&msg.key, &task.key, sizeof task.key);
        memset (bad, 0, sizeof bad); /* a held hit may have any scores: nobody reads them */
        bad[9] = WM_HIT_NONFINITE;
        memset (bad + sizeof bad - 4 * N_OUTPUT, 0xff, 4 * N_OUTPUT);
        msg.type = WM_MSG_RESULT;
        say (t, good, &msg, bad, sizeof bad);
        durable (t);
        must (t, good, WM_MSG_RESULT_ACK);
        assert_int_equal (look (t).batches_returned, 1);
        assert_non_null (strstr (t->log, "1 of 10 hits held"));
        harness_end (t);
    }
}

/* Results are deleted after FILE_WRITTEN: it is refused while one of them is missing.  */
/* A signature has 63 bytes and its NUL.  */
static void test_long_signature (void **state)
{
    for (size_t length = 63; length < 66; length++) {
        harness_t *t = harness_new (64 * MIB);
        uint32_t p = producer (t, 1), w = worker (t, 2, 1);
        submit (t, p, claim (t, p), 0, 1);
        answer_needs (t, p);
        wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
        memset (task.text, 's', length);
        memcpy (task.text, "made-up/fp32/",
                13); /* only a strict one counts, another is the session's */
        const size_t n = t->n_appended;
        result_of (t, w, &task, 1);
        if (length < 64) {
            assert_int_equal (t->n_appended, n + 2); /* behind its ARITHMETIC */
            assert_int_equal (strlen (t->appended[n + 1].text), length);
        } else {
            refused (t, w, WM_REASON_PROTOCOL);
            assert_int_equal (t->n_appended, n);
        }
        harness_end (t);
    }
}

static void test_written_too_early (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 1);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT_END);
    msg.key = input;
    msg.count = 1;
    say (t, p, &msg, NULL, 0);
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_ACK)->msg.code, WM_MSG_INPUT_END);
    size_t appended = t->n_appended;
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = input;
    say (t, p, &msg, NULL, 0);
    refused (t, p, WM_REASON_PROTOCOL);
    assert_int_equal (t->n_appended, appended);
    assert_int_equal (look (t).inputs_written, 0);
    harness_end (t);
}

/* The answer to other bytes than were asked about is no answer: the batch goes back.  */
static void test_foreign_digest (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1);
    wm_key_t input = claim (t, p);
    uint32_t w = worker (t, 2, 1);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg, foreign = task;
    foreign.digest[3] ^= 1;
    size_t appended = t->n_appended;
    result_of (t, w, &foreign, 1);
    assert_int_equal (t->n_appended, appended);
    must (t, w, WM_MSG_RESULT_ACK);
    assert_int_equal (look (t).batches_queued, 1);
    credit (t, w, 2);
    assert_memory_equal (must (t, w, WM_MSG_TASK)->msg.digest, task.digest, 16);
    result_of (t, w, &task, 1);
    assert_int_equal (t->n_appended, appended + 2); /* ARITHMETIC, RESULT */
    durable (t);
    assert_int_equal (look (t).batches_returned, 1);
    harness_end (t);
}

static void test_heartbeats_and_stop (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t w = worker (t, 2, 1), alive[] = { w, 0 };
    pass (t, 1500, alive);
    assert_null (take (t, w, WM_MSG_HEARTBEAT));
    pass (t, 1000, alive);
    must (t, w, WM_MSG_HEARTBEAT);
    wm_core_stop (t->core, "stops");
    assert_int_equal (must (t, w, WM_MSG_BYE)->msg.code, WM_REASON_STOPPING);
    assert_int_equal (look (t).n_worker, 0);
    harness_end (t);
}

/* ---- what a worker may send ------------------------------------------------------------------ */

/* A worker that knows every key of the campaign cannot submit, fetch scores, close or hold an
   input, ask for the status or control: its session ends, and nothing else happens.  */
static void test_worker_only_works (void **state)
{
    static const wm_msg_type_t others[] = {
        WM_MSG_INPUT,   WM_MSG_SUBMIT,       WM_MSG_BATCH,     WM_MSG_INPUT_END,
        WM_MSG_FETCH,   WM_MSG_FILE_WRITTEN, WM_MSG_FILE_LOST, WM_MSG_INPUT_HELD,
        WM_MSG_SAMPLE,  WM_MSG_STATUS,       WM_MSG_CONTROL,   WM_MSG_TASK,
        WM_MSG_RESULTS, WM_MSG_RESULT_ACK,   WM_MSG_WELCOME,   WM_MSG_EVENT_DONE,
    };
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 1), w = worker (t, 2, 1);
    wm_key_t input = claim (t, p);
    submit (t, p, input, 0, 1);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &task, 1);
    durable (t);
    must (t, p, WM_MSG_EVENT_DONE);
    const size_t records = t->n_appended;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const uint32_t other = worker (t, (uint8_t) (10 + i), 0);
        wm_msg_t msg = task; /* key and digest of a batch that is there */
        msg.type = others[i];
        msg.code = 0;
        snprintf (msg.name, sizeof msg.name, "%s", others[i] == WM_MSG_CONTROL ? "pause" : "x.h5");
        strcpy (msg.path, "/data/x.h5");
        say (t, other, &msg, wm_msg_has_payload (others[i]) ? "" : NULL, 0);
        const sent_t *sent = must (t, other, WM_MSG_REJECT);
        assert_int_equal (sent->msg.code, WM_REASON_PROTOCOL);
        char expected[80];
        snprintf (expected, sizeof expected, "unexpected %s from a worker",
                  wm_msg_name (others[i]));
        assert_string_equal (sent->msg.text, expected);
        assert_int_equal (t->dropped[(t->n_dropped - 1) % 64], other);
    }
    assert_int_equal (t->n_appended, records);
    assert_int_equal (t->fetched, 0);
    assert_int_equal (t->n_standing, 1);
    assert_null (look (t).paused);
    assert_int_equal (look (t).inputs, 1);
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_inputs),
        cmocka_unit_test (test_claim_dies_and_another_goes_on),
        cmocka_unit_test (test_budget),
        cmocka_unit_test (test_on_the_way),
        cmocka_unit_test (test_on_the_way_is_kept),
        cmocka_unit_test (test_on_the_way_of_a_copy),
        cmocka_unit_test (test_asks_only_ahead),
        cmocka_unit_test (test_disk_full),
        cmocka_unit_test (test_refused_hellos),
        cmocka_unit_test (test_worker_only_works),
        cmocka_unit_test (test_refused_submits),
        cmocka_unit_test (test_refused_in_turn),
        cmocka_unit_test (test_lost_by_a_stranger),
        cmocka_unit_test (test_model_once),
        cmocka_unit_test (test_malformed_scores),
        cmocka_unit_test (test_long_signature),
        cmocka_unit_test (test_written_too_early),
        cmocka_unit_test (test_foreign_digest),
        cmocka_unit_test (test_heartbeats_and_stop),
    };
    const double start = proof_clock ();
    const int n = (int) (sizeof tests / sizeof *tests);
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    const int failed = cmocka_run_group_tests_name ("broker_refusals", tests, NULL, NULL);
    proof_line ("P19", (unsigned long) n, (unsigned long) (n - failed), start);
    return failed;
}
