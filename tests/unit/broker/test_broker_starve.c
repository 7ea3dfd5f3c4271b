/* test_broker_starve.c - wm_core: a producer that does not answer NEED, or answers late, beside one
 * that does.  */
#include "tests/unit/core_harness.h"

#define BATCHES 20

static wm_key_t claim_of (harness_t *t, uint32_t session, const char *path, const char *name)
{
    sent_t *sent = input_ask (t, session, path, name, 1000, 1);
    assert_int_equal (sent->msg.code, WM_INPUT_CLAIMED);
    return sent->msg.key;
}

/* Scores what this worker was sent; returns how many.  */
static int score (harness_t *t, uint32_t w)
{
    int n = 0;
    for (sent_t *task; (task = take (t, w, WM_MSG_TASK)); n++) {
        wm_msg_t msg = task->msg;
        result_of (t, w, &msg, 1);
        durable (t);
        credit (t, w, t->tasks[w % 2048] + 8);
    }
    return n;
}

static void answer (harness_t *t, uint32_t session, wm_msg_t need)
{
    static uint8_t payload[1000];
    need.type = WM_MSG_BATCH;
    say (t, session, &need, payload, sizeof payload);
}

/* Producers p, which has been asked for all that may be asked for, and q, which comes later; both
   have announced an event of BATCHES batches.  */
typedef struct {
    harness_t *t;
    uint32_t w, p, q;
} two_t;

static two_t two_producers (uint64_t budget, uint32_t raw)
{
    two_t two = { .t = harness_new (budget) };
    harness_t *t = two.t;
    two.w = worker (t, 1, 8);
    two.p = producer (t, 2);
    submit_raw (t, two.p, claim_of (t, two.p, "/data/p.h5", "p.scores.h5"), 0, BATCHES, raw);
    assert_true (count (t, two.p, WM_MSG_NEED) > 0);
    two.q = producer (t, 3);
    submit_raw (t, two.q, claim_of (t, two.q, "/data/q.h5", "q.scores.h5"), 0, BATCHES, raw);
    return two;
}

/* Until nothing more comes of q; returns how many batches were scored.  */
static int drive (const two_t *two)
{
    int n = 0, more;
    do {
        more = answer_needs (two->t, two->q) + score (two->t, two->w);
        n += more;
    } while (more);
    return (int) look (two->t).batches_returned;
}

static const wm_summary_producer_t *row_of (harness_t *t, const char *label)
{
    static wm_summary_t s;
    s = look (t);
    for (uint32_t i = 0; i < s.n_producer_listed; i++)
        if (strcmp (s.producer[i].label, label) == 0)
            return &s.producer[i];
    fail_msg ("no producer %s in the summary", label);
    return NULL;
}

/* ---- shares ---------------------------------------------------------------------------------- */

static void test_mute_one_takes_nothing_from_the_other (void **state)
{
    two_t two = two_producers (64 * MIB, 1000);
    assert_int_equal (drive (&two), BATCHES); /* before any deadline */
    assert_true (row_of (two.t, "host:2")->asked >= 10);
    harness_end (two.t);
}

static void test_equal_shares (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    uint32_t p = producer (t, 2), q = producer (t, 3);
    wm_key_t a = claim_of (t, p, "/data/p.h5", "p.scores.h5");
    wm_key_t b = claim_of (t, q, "/data/q.h5", "q.scores.h5");
    submit (t, p, a, 0, BATCHES);
    submit (t, q, b, 0, BATCHES);
    assert_int_equal (count (t, p, WM_MSG_NEED), 2); /* without a worker two, alone; */
    assert_int_equal (count (t, q, WM_MSG_NEED), 1); /* then half of them */
    worker (t, 1, 8);
    assert_int_equal (count (t, p, WM_MSG_NEED), 5);
    assert_int_equal (count (t, q, WM_MSG_NEED), 5);
    harness_end (t);
}

/* Also where there are more of them than NEEDs: each is asked for one.  */
static void test_each_is_asked (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    for (uint8_t i = 0; i < 9; i++) {
        char path[40];
        const uint32_t p = producer (t, 10 + i);
        snprintf (path, sizeof path, "/data/%u.h5", i);
        submit (t, p, claim_of (t, p, path, path + 6), 0, BATCHES);
        assert_int_equal (count (t, p, WM_MSG_NEED), i ? 1 : 2);
    }
    harness_end (t);
}

/* One with large batches has half of the bytes, too, not half of the NEEDs.  */
static void test_equal_shares_of_bytes (void **state)
{
    const uint32_t raw[] = { 4 * MIB - 2 * WM_FRAME_OVERHEAD, MIB - 2 * WM_FRAME_OVERHEAD };
    harness_t *t = harness_new (18 * MIB);
    uint32_t p = producer (t, 2), q = producer (t, 3);
    submit_raw (t, p, claim_of (t, p, "/data/p.h5", "p.scores.h5"), 0, BATCHES, raw[0]);
    submit_raw (t, q, claim_of (t, q, "/data/q.h5", "q.scores.h5"), 0, BATCHES, raw[1]);
    worker (t, 1, 99);
    assert_int_equal (count (t, p, WM_MSG_NEED), 2);
    assert_int_equal (count (t, q, WM_MSG_NEED), 9);
    harness_end (t);
}

/* While there is room for one NEED only, they are asked in turns.  */
static void test_turns_in_a_small_budget (void **state)
{
    two_t two = two_producers (WM_RAW_BYTES_MAX + 4 * WM_FRAME_OVERHEAD, WM_RAW_BYTES_MAX);
    answer (two.t, two.p, must (two.t, two.p, WM_MSG_NEED)->msg); /* from when it was alone */
    for (int i = 0; i < 2 * (BATCHES - 1); i++) {
        const uint32_t next = i % 2 ? two.q : two.p;
        answer (two.t, next, must (two.t, next, WM_MSG_NEED)->msg);
        score (two.t, two.w);
    }
    assert_int_equal (look (two.t).batches_returned, 2 * BATCHES - 1);
    harness_end (two.t);
}

/* ---- the deadline ---------------------------------------------------------------------------- */

static void test_deadline_gives_the_budget_back (void **state)
{
    two_t two = two_producers (16 * MIB, WM_RAW_BYTES_MAX); /* p has all of the budget */
    harness_t *t = two.t;
    uint32_t alive[] = { two.w, two.p, two.q, 0 };
    assert_int_equal (drive (&two), 0);
    pass (t, 4000, alive);
    assert_true (row_of (t, "host:2")->late_s < 0);
    pass (t, 2000, alive);
    assert_true (row_of (t, "host:2")->late_s >= 5);
    assert_int_equal (drive (&two), 0); /* its payloads may still come */
    pass (t, 25000, alive);
    must (t, two.p, WM_MSG_BYE); /* what it owes took more than half of the budget */
    assert_int_equal (drive (&two), BATCHES);
    assert_true (row_of (t, "host:3")->late_s < 0);
    harness_end (t);
}

static void test_late_batches_are_taken (void **state)
{
    two_t two = two_producers (64 * MIB, 1000);
    harness_t *t = two.t;
    uint32_t alive[] = { two.w, two.p, two.q, 0 };
    drive (&two);
    pass (t, 6000, alive);
    assert_non_null (strstr (t->log, "producer host:2 has not sent the"));
    assert_int_equal (look (t).batches_asked, 0);
    assert_true (look (t).budget_used_bytes > 10 * WM_FRAME_OVERHEAD); /* they may still come */
    sent_t *first = must (t, two.p, WM_MSG_NEED);
    wm_msg_t need = first->msg;
    answer (t, two.p, need); /* not refused; p is on time again and is asked for more */
    assert_true (row_of (t, "host:2")->late_s < 0);
    assert_true (row_of (t, "host:2")->asked > 0);
    for (int i = 0; i < BATCHES; i++) {
        answer_needs (t, two.p); /* those before the deadline, then the same ones again */
        score (t, two.w);
    }
    assert_int_equal (look (t).batches_returned, 2 * BATCHES);
    assert_int_equal (count (t, two.p, WM_MSG_REJECT), 0);
    answer (t, two.p, need); /* more BATCHes than NEEDs */
    refused (t, two.p, WM_REASON_PROTOCOL);
    harness_end (t);
}

static void test_late_batch_without_room_is_dropped (void **state)
{
    harness_t *t = harness_new (16 * MIB);
    uint32_t p = producer (t, 2), q = producer (t, 3), alive[] = { p, q, 0 };
    submit_raw (t, p, claim_of (t, p, "/data/p.h5", "p.scores.h5"), 0, 4, WM_RAW_BYTES_MAX);
    pass (t, 6000, alive);
    submit_raw (t, q, claim_of (t, q, "/data/q.h5", "q.scores.h5"), 0, 4, WM_RAW_BYTES_MAX);
    worker (t, 1, 0);
    static uint8_t payload[WM_RAW_BYTES_MAX];
    for (sent_t *need; (need = take (t, q, WM_MSG_NEED));) {
        wm_msg_t msg = need->msg;
        msg.type = WM_MSG_BATCH;
        say (t, q, &msg, payload, sizeof payload);
    }
    for (int i = 0; i < 2; i++) { /* say checks the budget */
        wm_msg_t msg = must (t, p, WM_MSG_NEED)->msg;
        msg.type = WM_MSG_BATCH;
        say (t, p, &msg, payload, sizeof payload);
    }
    assert_int_equal (count (t, p, WM_MSG_REJECT), 0);
    assert_true (row_of (t, "host:2")->late_s < 0);
    harness_end (t);
}

/* A mute producer is asked more and more rarely, because each answer may still come; so one that
   lost what it was asked is found out to be well, and owes nothing then.  */
static void test_asked_once_in_a_while (void **state)
{
    two_t two = two_producers (64 * MIB, 1000);
    harness_t *t = two.t;
    uint32_t alive[] = { two.w, two.p, two.q, 0 };
    drive (&two);
    pass (t, 6000, alive);
    while (take (t, two.p, WM_MSG_NEED))
        continue;
    pass (t, 60000, alive);
    assert_in_range (count (t, two.p, WM_MSG_NEED), 6, 8);
    assert_true (look (t).budget_used_bytes > 0);
    while (take (t, two.p, WM_MSG_NEED))
        continue;
    pass (t, 30000, alive);
    for (int i = 0; i < BATCHES; i++) {
        answer_needs (t, two.p);
        score (t, two.w);
    }
    assert_int_equal (look (t).batches_returned, 2 * BATCHES);
    assert_int_equal (look (t).budget_used_bytes, 0);
    harness_end (t);
}

/* p has all that it asks for and still owes one payload; q, which is late with all of the budget,
   ends although p is late longer.  */
static void test_one_that_wants_nothing_is_late_longest (void **state)
{
    harness_t *t = harness_new (16 * MIB);
    uint32_t w = worker (t, 1, 8), p = producer (t, 2), q = producer (t, 3);
    uint32_t alive[] = { w, p, q, 0 };
    submit (t, p, claim_of (t, p, "/data/p.h5", "p.scores.h5"), 0, 1);
    must (t, p, WM_MSG_NEED); /* lost */
    pass (t, 12000, alive);
    answer (t, p, must (t, p, WM_MSG_NEED)->msg); /* late, and asked once more */
    score (t, w);
    assert_int_equal (look (t).batches_returned, 1);
    assert_true (row_of (t, "host:2")->late_s < 0);
    assert_true (look (t).budget_used_bytes > 0);
    pass (t, 1000, alive);
    submit_raw (t, q, claim_of (t, q, "/data/q.h5", "q.scores.h5"), 0, BATCHES, WM_RAW_BYTES_MAX);
    assert_true (count (t, q, WM_MSG_NEED) > 0);
    pass (t, 60000, alive);
    must (t, q, WM_MSG_BYE);
    harness_end (t);
}

/* When it is asked again, to the millisecond: after need_ms, later after a quarter of the time
   since its last answer.  */
static void test_when_a_mute_one_is_asked (void **state)
{
    static const int64_t when_ms[] = { 0, 10002, 15003, 20004, 25006, 31258 };
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1);
    const wm_key_t input = claim_of (t, p, "/data/p.h5", "p.scores.h5");
    const int64_t since_ms = t->now_ms;
    submit (t, p, input, 0, 1);
    int n = 0;
    for (int64_t ms = 0; ms <= 32000; ms++) {
        t->now_ms = since_ms + ms;
        if (ms % 500 == 0)
            heartbeat (t, p, (wm_key_t){ 0 }, 0);
        wm_core_tick (t->core, t->now_ms);
        assert_int_equal (wm_core_session_find (t->core, p)->late, ms > 5000);
        if (take (t, p, WM_MSG_NEED))
            assert_int_equal (ms, when_ms[n++]);
    }
    assert_int_equal (n, 6);
    assert_int_equal (t->core->budget.late_bytes, 6 * (1000 + WM_FRAME_OVERHEAD));
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_when_a_mute_one_is_asked),
        cmocka_unit_test (test_mute_one_takes_nothing_from_the_other),
        cmocka_unit_test (test_equal_shares),
        cmocka_unit_test (test_each_is_asked),
        cmocka_unit_test (test_equal_shares_of_bytes),
        cmocka_unit_test (test_turns_in_a_small_budget),
        cmocka_unit_test (test_deadline_gives_the_budget_back),
        cmocka_unit_test (test_late_batches_are_taken),
        cmocka_unit_test (test_late_batch_without_room_is_dropped),
        cmocka_unit_test (test_asked_once_in_a_while),
        cmocka_unit_test (test_one_that_wants_nothing_is_late_longest),
    };
    return cmocka_run_group_tests_name ("broker_starve", tests, NULL, NULL);
}
