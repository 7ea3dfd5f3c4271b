/* test_broker_checks.c - wm_core: batches that a second machine scores, and workers whose scores
   are wrong.  */
#include "tests/unit/check_harness.h"

#include "broker/core/wm_core_check_private.h"

/* ---- a check that agrees --------------------------------------------------------------------- */

static void test_agrees (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1), b = joins (t, 3, "beta", 0);
    wm_key_t input = claim (t, p);
    const wm_msg_t task = first (t, p, a, input, 0, 0.25f);
    must (t, p, WM_MSG_EVENT_DONE); /* nobody waited for the check */
    assert_null (take (t, b, WM_MSG_TASK));
    assert_int_equal (look (t).n_check_open, 1);
    credit (t, b, 1);
    const wm_msg_t again = must (t, b, WM_MSG_TASK)->msg;
    assert_memory_equal (&again, &task, sizeof task); /* nothing tells it from the first */
    scores (t, b, &again, 0.25f);
    must (t, b, WM_MSG_RESULT_ACK);
    assert_int_equal (records (t, WM_RECORD_RESULT), 1);
    const wm_summary_t s = look (t);
    assert_int_equal (s.n_sampled, 1);
    assert_int_equal (s.n_check_good, 1);
    assert_int_equal (s.n_check_open, 0);
    assert_int_equal (s.n_named, 0);
    assert_int_equal (s.n_duplicate + s.n_alarm + s.n_late, 0);
    heartbeat (t, b, (wm_key_t){ 0 }, 0); /* which shows that the TASK was received */
    assert_int_equal (t->handles, 0);
    scores (t, b, &again, 0.25f); /* twice is once */
    assert_int_equal (look (t).n_check_good, 1);
    harness_end (t);
}

/* Without a second machine checks wait, a bounded number of them, and nothing else does.  */
static void test_one_machine (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 100), b = joins (t, 3, "alpha", 0);
    wm_key_t input = claim (t, p);
    for (uint32_t i = 0; i < 90; i++) {
        first (t, p, a, input, i, 0.5f);
        must (t, p, WM_MSG_EVENT_DONE);
    }
    credit (t, b, 9);
    assert_int_equal (count (t, b, WM_MSG_TASK), 0);
    assert_int_equal (look (t).n_check_open, 64);
    assert_int_equal (look (t).n_sampled, 90);
    assert_int_equal (look (t).n_check_good, 0);
    const uint32_t c = joins (t, 4, "beta", 1); /* it is asked, and not b */
    must (t, c, WM_MSG_TASK);
    assert_int_equal (count (t, b, WM_MSG_TASK), 0);
    assert_int_equal (look (t).n_check_open, 64);
    harness_end (t);
}

static void test_off (void **state)
{
    harness_t *t = checked (0, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1), b = joins (t, 3, "beta", 0);
    first (t, p, a, claim (t, p), 0, 0.5f);
    credit (t, b, 9);
    assert_int_equal (count (t, b, WM_MSG_TASK), 0);
    assert_int_equal (look (t).n_sampled, 0);
    assert_int_equal (t->handles, 0);
    harness_end (t);
}

/* A tenth of the batches is a tenth, and which they are depends on the secret.  */
static void test_share (void **state)
{
    harness_t *t = checked (0.1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 255);
    wm_key_t input = claim (t, p);
    for (uint32_t i = 0; i < 1000; i++) {
        credit (t, a, i + 1);
        first (t, p, a, input, i, 0.5f);
        t->n_appended = t->n_durable = 0;
        heartbeat (t, a, (wm_key_t){ 0 }, 0);
    }
    assert_in_range (look (t).n_sampled, 60, 140);
    harness_end (t);
}

static wm_key_t claim_second (harness_t *t, uint32_t p)
{
    return input_ask (t, p, "/data/b.h5", "b.scores.h5", 1000, 1)->msg.key;
}

/* ---- a check that does not ------------------------------------------------------------------- */

static void test_third_decides (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    wm_key_t input = claim (t, p);
    const wm_msg_t task = first (t, p, a, input, 0, 0.26f);
    uint32_t b = joins (t, 3, "beta", 1);
    must (t, b, WM_MSG_TASK);
    scores (t, b, &task, 0.25f);
    assert_int_equal (look (t).n_check_differ, 1);
    assert_int_equal (look (t).n_named, 0);
    assert_string_equal (look (t).suspects, "alpha:2 and beta:3");
    assert_null (take (t, a, WM_MSG_REJECT));
    credit (t, b, 2);
    assert_null (take (t, b, WM_MSG_TASK)); /* neither of the two decides */
    uint32_t c = joins (t, 4, "gamma", 1);
    must (t, c, WM_MSG_TASK);
    scores (t, c, &task, 0.25f);
    refused (t, a, WM_REASON_FAILED);
    assert_null (take (t, b, WM_MSG_REJECT));
    assert_null (take (t, c, WM_MSG_REJECT));
    const wm_summary_t s = look (t);
    assert_int_equal (s.n_named, 1);
    assert_string_equal (s.named[0].label, "alpha:2");
    assert_string_equal (s.named[0].host, "alpha");
    assert_string_equal (s.named[0].signature, "sparse/fp32/v1");
    assert_non_null (strstr (s.named[0].why, "batch 1.0.0 of /data/a.h5"));
    assert_non_null (strstr (s.named[0].why, "beta:3 and gamma:4 agree"));
    assert_null (s.suspects);
    for (uint32_t i = 0; i < s.n_logged; i++) /* all that it scored begins again: none is left */
        assert_null (strstr (s.logged[i].text, "more inputs hold scores"));
    assert_int_equal (records (t, WM_RECORD_KICK), 1); /* its input begins again */
    durable (t);
    assert_int_equal (must (t, p, WM_MSG_INPUT_ACK)->msg.key.generation, input.generation + 1);
    is_refused (t, 5, "alpha", "");
    joins (t, 6, "delta", 0);
    harness_end (t);
}

/* The second one lies: the first is not named for it.  */
static void test_second_is_wrong (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.25f);
    uint32_t b = joins (t, 3, "beta", 1);
    scores (t, b, &must (t, b, WM_MSG_TASK)->msg, 0.26f);
    uint32_t c = joins (t, 4, "gamma", 1);
    must (t, c, WM_MSG_TASK);
    scores (t, c, &task, 0.25f);
    refused (t, b, WM_REASON_FAILED);
    assert_string_equal (look (t).named[0].label, "beta:3");
    assert_int_equal (look (t).n_named, 1);
    assert_int_equal (records (t, WM_RECORD_KICK), 0); /* it committed nothing */
    assert_null (take (t, a, WM_MSG_REJECT));
    harness_end (t);
}

/* A third result that is within the errors of both others: they differ still, none is named.  */
static void test_agrees_with_both (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.5f);
    scores (t, joins_by (t, 3, "beta", "", "cuda/fp32/v3", 1), &task, 0.50025f);
    assert_int_equal (look (t).n_check_differ, 1);
    scores (t, joins_by (t, 4, "gamma", "", "openvino-1/avx2/fp32/v1", 1), &task, 0.50012f);
    assert_int_equal (look (t).n_check_open, 0);
    assert_int_equal (look (t).n_named, 0);
    assert_string_equal (look (t).suspects, "alpha:2 and beta:3");
    harness_end (t);
}

/* The result of another batch of the same input is no answer of the check that a worker has.  */
static void test_another_batch (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1), b = joins (t, 3, "beta", 0);
    const wm_key_t input = claim (t, p);
    const wm_msg_t checks = first (t, p, a, input, 0, 0.25f);
    submit (t, p, input, 1, 1);
    credit (t, b, 2);
    answer_needs (t, p);
    const wm_msg_t one = must (t, b, WM_MSG_TASK)->msg;
    const wm_msg_t two = must (t, b, WM_MSG_TASK)->msg;
    const wm_msg_t *own = one.key.ordinal ? &one : &two;
    assert_int_equal (own->key.ordinal, 1);
    scores (t, b, own, 0.5f);
    assert_int_equal (records (t, WM_RECORD_RESULT), 2);
    assert_int_equal (look (t).n_check_open, 2); /* of this result, too */
    scores (t, b, &checks, 0.25f);
    assert_int_equal (look (t).n_check_good, 1);
    harness_end (t);
}

/* A check is not given up while a worker computes its answer; nor for its memory while the payload
   is under way to a worker that has refused it meanwhile.  */
static void test_what_is_given_up (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    first (t, p, a, claim (t, p), 0, 0.25f);
    uint32_t b = joins (t, 3, "beta", 1);
    wm_msg_t msg = must (t, b, WM_MSG_TASK)->msg;
    assert_false (wm_core_check_drop (t->core, false));
    msg.type = WM_MSG_NACK;
    msg.code = WM_EAGAIN;
    say (t, b, &msg, NULL, 0);
    assert_false (wm_core_check_drop (t->core, true));
    assert_int_equal (wm_core_check_lent (t->core), 0);
    heartbeat (t, b, (wm_key_t){ 0 }, 0);
    assert_true (wm_core_check_lent (t->core) > 0);
    assert_true (wm_core_check_drop (t->core, true));
    assert_int_equal (look (t).n_check_open, 0);
    harness_end (t);
}

/* A machine is named once, with the first batch that showed it to be wrong.  */
static void test_named_once (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 2);
    const wm_msg_t one = first (t, p, a, claim (t, p), 0, 0.75f),
                   two = first (t, p, a, claim_second (t, p), 0, 0.75f);
    uint32_t b = joins (t, 3, "beta", 1);
    scores (t, b, &one, 0.25f);
    credit (t, b, 2);
    scores (t, b, &two, 0.25f);
    assert_int_equal (look (t).n_check_differ, 2);
    uint32_t c = joins (t, 4, "gamma", 1);
    scores (t, c, &one, 0.25f);
    credit (t, c, 2);
    assert_int_equal (look (t).n_named, 1);
    scores (t, c, &two, 0.25f);
    assert_int_equal (look (t).n_check_open, 0);
    const wm_summary_t s = look (t);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s.n_logged; i++)
        n += strstr (s.logged[i].text, "it gets no more work") != NULL;
    assert_int_equal (n, 1);
    assert_int_equal (s.n_named, 1);
    assert_non_null (strstr (s.named[0].why, "batch 1.0.0 of /data/a.h5"));
    harness_end (t);
}

/* Three results that all differ: the broker blames no worker and logs that it cannot decide.  */
static void test_undecided (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.25f);
    const char *const host[] = { "beta", "gamma" };
    for (uint8_t i = 0; i < 2; i++) {
        uint32_t w = joins (t, (uint8_t) (3 + i), host[i], 1);
        must (t, w, WM_MSG_TASK);
        scores (t, w, &task, 0.5f + i);
    }
    assert_int_equal (look (t).n_named, 0);
    assert_int_equal (look (t).n_check_open, 0);
    assert_string_equal (look (t).suspects, "alpha:2 and beta:3");
    assert_non_null (strstr (t->log, "a third machine does not decide it"));
    harness_end (t);
}

/* The inputs whose KICK was appended, a digit each.  */
static uint32_t kicked (const harness_t *t)
{
    uint32_t ids = 0;
    for (size_t i = 0; i < t->n_appended; i++)
        if (t->appended[i].record.type == WM_RECORD_KICK)
            ids = 10 * ids + t->appended[i].record.key.input;
    return ids;
}

/* Only what it scored since its last good check begins again.  */
static void test_since_last_good (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 2), b = joins (t, 3, "beta", 0);
    wm_key_t one = claim (t, p);
    const wm_msg_t good = first (t, p, a, one, 0, 0.25f);
    wm_key_t two = input_ask (t, p, "/data/b.h5", "b.scores.h5", 1000, 1)->msg.key;
    const wm_msg_t bad = first (t, p, a, two, 0, 0.75f);
    credit (t, b, 2);
    scores (t, b, &good, 0.25f);
    credit (t, b, 3);
    uint32_t c = joins (t, 4, "gamma", 1);
    scores (t, b, &bad, 0.25f);
    scores (t, c, &bad, 0.25f);
    refused (t, a, WM_REASON_FAILED);
    assert_int_equal (records (t, WM_RECORD_KICK), 1);
    assert_int_equal (kicked (t), two.input);
    static wm_summary_t s;
    s = look (t);
    assert_int_equal (s.named[0].n_earlier, 1); /* the other one is named, to be kicked by hand */
    assert_int_equal (s.named[0].earlier[0], one.input);
    const uint32_t o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    strcpy (msg.name, "kick");
    strcpy (msg.text, "/data/a.h5");
    say (t, o, &msg, NULL, 0);
    assert_int_equal (look (t).named[0].n_earlier, 1);
    durable (t);
    assert_int_equal (look (t).named[0].n_earlier, 0);
    harness_end (t);
}

/* While a machine is one of two that differ, a check that it passes proves nothing of what it
   scored before.  */
static void test_suspect_is_not_proven (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 2);
    const wm_msg_t early = first (t, p, a, claim (t, p), 0, 0.25f),
                   late = first (t, p, a, claim_second (t, p), 0, 0.75f);
    uint32_t b = joins (t, 3, "beta", 1), c = joins (t, 4, "gamma", 1);
    must (t, b, WM_MSG_TASK);
    must (t, c, WM_MSG_TASK);
    scores (t, c, &late, 0.25f); /* alpha and gamma differ */
    scores (t, b, &early, 0.25f);
    assert_int_equal (look (t).n_check_good, 1);
    uint32_t d = joins (t, 5, "delta", 1);
    must (t, d, WM_MSG_TASK);
    scores (t, d, &late, 0.25f);
    assert_string_equal (look (t).named[0].label, "alpha:2");
    assert_int_equal (kicked (t), 12);
    harness_end (t);
}

/* The input of the batch that shows a machine to be wrong begins again, also where that machine has
   passed a later check meanwhile.  */
static void test_own_input_of_a_verdict (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 3);
    const wm_key_t one = claim (t, p), two = claim_second (t, p);
    const wm_msg_t proof = first (t, p, a, one, 0, 0.25f), bad = first (t, p, a, two, 0, 0.75f);
    uint32_t b = joins (t, 3, "beta", 1), c = joins (t, 4, "gamma", 1);
    must (t, b, WM_MSG_TASK);
    must (t, c, WM_MSG_TASK);
    scores (t, b, &proof, 0.25f);
    const wm_msg_t again = first (t, p, a, one, 1, 0.25f);
    credit (t, b, 2);
    scores (t, b, &again, 0.25f);
    assert_int_equal (look (t).n_check_good, 2);
    scores (t, c, &bad, 0.25f);
    credit (t, b, 3);
    scores (t, b, &bad, 0.25f);
    assert_string_equal (look (t).named[0].label, "alpha:2");
    assert_int_equal (kicked (t), 2);
    harness_end (t);
}

/* So does the input of a batch that shows it again, once it is named.  */
static void test_a_later_verdict (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 4);
    const wm_key_t one = claim (t, p), two = claim_second (t, p),
                   three = input_ask (t, p, "/data/c.h5", "c.scores.h5", 1000, 1)->msg.key;
    const wm_msg_t proof = first (t, p, a, one, 0, 0.25f), bad = first (t, p, a, two, 0, 0.75f),
                   worse = first (t, p, a, three, 0, 0.75f);
    uint32_t b = joins (t, 3, "beta", 1), c = joins (t, 4, "gamma", 1),
             d = joins (t, 5, "delta", 1);
    scores (t, b, &proof, 0.25f);
    const wm_msg_t again = first (t, p, a, one, 1, 0.25f);
    credit (t, b, 2);
    scores (t, b, &again, 0.25f);
    assert_int_equal (look (t).n_check_good, 2);
    scores (t, c, &bad, 0.25f);
    credit (t, b, 3);
    scores (t, b, &bad, 0.25f);
    assert_string_equal (look (t).named[0].label, "alpha:2");
    assert_int_equal (kicked (t), 2);
    scores (t, d, &worse, 0.25f);
    credit (t, b, 4);
    scores (t, b, &worse, 0.25f);
    assert_int_equal (look (t).n_check_open, 0);
    assert_int_equal (look (t).n_named, 1);
    assert_int_equal (kicked (t), 23);
    harness_end (t);
}

/* The check that began first proves what came before it, and no later one does: also what a check
   was given up of.  */
static void test_later_check_proves_nothing (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 3);
    const wm_key_t third = input_ask (t, p, "/data/c.h5", "c.scores.h5", 1000, 1)->msg.key;
    first (t, p, a, third, 0, 0.25f);
    assert_true (wm_core_check_drop (t->core, false));
    const wm_msg_t bad = first (t, p, a, claim (t, p), 0, 0.75f),
                   good = first (t, p, a, claim_second (t, p), 0, 0.25f);
    uint32_t b = joins (t, 3, "beta", 1), c = joins (t, 4, "gamma", 1);
    must (t, b, WM_MSG_TASK);
    must (t, c, WM_MSG_TASK);
    scores (t, c, &good, 0.25f);
    assert_int_equal (look (t).n_check_good, 1);
    scores (t, b, &bad, 0.25f);
    uint32_t d = joins (t, 5, "delta", 1);
    must (t, d, WM_MSG_TASK);
    scores (t, d, &bad, 0.25f);
    assert_string_equal (look (t).named[0].label, "alpha:2");
    assert_int_equal (kicked (t), 123);
    harness_end (t);
}

/* A check that a named machine passes afterwards changes nothing of what is suspect.  */
static void test_named_machine_proves_nothing (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), b = joins (t, 3, "beta", 1);
    const wm_key_t two = claim_second (t, p), one = claim (t, p);
    const wm_msg_t wrong = first (t, p, b, two, 0, 0.25f);
    uint32_t a = joins (t, 2, "alpha", 1);
    must (t, a, WM_MSG_TASK);
    const machine_t *alpha = t->core->machines.first;
    scores (t, a, &wrong, 0.75f);
    credit (t, a, 3);
    const wm_msg_t right = first (t, p, a, one, 0, 0.25f);
    first (t, p, a, one, 1, 0.25f);
    uint32_t c = joins (t, 4, "gamma", 1);
    must (t, c, WM_MSG_TASK);
    credit (t, b, 2);
    must (t, b, WM_MSG_TASK);
    scores (t, c, &wrong, 0.25f);
    assert_string_equal (look (t).named[0].label, "alpha:2");
    assert_int_equal (t->suspects, 1u << one.input);
    assert_int_equal (kicked (t), one.input);
    scores (t, b, &right, 0.25f);
    assert_int_equal (look (t).n_check_good, 1);
    assert_int_equal (wm_input_set_next (&alpha->unproven, 0), 0);
    harness_end (t);
}

/* A broker that ends between a verdict and its KICKs, which the next one makes, also where an
   operator has trusted the machine meanwhile.  */
static void test_ends_over_verdict (void **state)
{
    for (int trusted = 0; trusted < 2; trusted++) {
        harness_t *t = checked (1, 0);
        uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
        const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.26f);
        scores (t, joins (t, 3, "beta", 1), &task, 0.25f);
        const uint32_t c = joins (t, 4, "gamma", 1);
        uint8_t payload[BYTES] = { 0 };
        memcpy (payload + BYTES - 4, &(float){ 0.25f }, 4);
        wm_msg_t msg = task;
        msg.type = WM_MSG_RESULT;
        say (t, c, &msg, payload, sizeof payload);
        assert_int_equal (records (t, WM_RECORD_KICK), 1); /* not durable */
        assert_int_equal (t->appended[t->n_appended - 2].record.type, WM_RECORD_DISTRUST);
        assert_int_equal (t->suspects, 1u << task.key.input);
        if (trusted) {
            wm_msg_init (&msg, WM_MSG_CONTROL);
            strcpy (msg.name, "trust");
            strcpy (msg.text, "alpha");
            say (t, hello (t, WM_ROLE_OPERATOR, 9, NULL, 0), &msg, NULL, 0);
        }
        wm_core_destroy (&t->core);
        t->n_appended = t->n_durable = 0;
        t->core = core_make (t, 2, 64 * MIB);
        assert_int_equal (look (t).n_named, !trusted);
        const wm_ledger_input_t row = { .id = task.key.input,
                                        .state = WM_LEDGER_WRITTEN,
                                        .path = "/data/a.h5",
                                        .name = "a.scores.h5",
                                        .size = 1000,
                                        .mtime_ns = 1,
                                        .is_suspect = true,
                                        .text = "" };
        assert_int_equal (wm_core_restore_input (t->core, &row), 0);
        wm_core_tick (t->core, t->now_ms);
        assert_int_equal (records (t, WM_RECORD_KICK), 1);
        durable (t);
        assert_string_equal (standing (t, WM_RECORD_DISTRUST)->name, "alpha");
        assert_int_equal (standing (t, WM_RECORD_DISTRUST)->code != 0, !trusted);
        wm_core_tick (t->core, t->now_ms);
        assert_int_equal (records (t, WM_RECORD_KICK), 1); /* once */
        harness_end (t);
    }
}

/* Suspect inputs begin again, whatever machine they are of; others do not.  */
static void test_suspect_inputs (void **state)
{
    for (uint32_t suspects = 0; suspects < 16; suspects += 2) { /* a bit for each input */
        harness_t *t = checked (1, 0);
        for (uint32_t id = 1; id <= 3; id++) {
            char path[20], name[20];
            snprintf (path, sizeof path, "/data/%u.h5", id);
            snprintf (name, sizeof name, "%u.scores.h5", id);
            const wm_ledger_input_t row = { .id = id,
                                            .state = WM_LEDGER_OPEN,
                                            .path = path,
                                            .name = name,
                                            .size = 1000,
                                            .is_suspect = suspects >> id & 1,
                                            .mtime_ns = 1 };
            assert_int_equal (wm_core_restore_input (t->core, &row), 0);
        }
        wm_core_tick (t->core, t->now_ms);
        assert_int_equal (records (t, WM_RECORD_KICK), __builtin_popcount (suspects));
        harness_end (t);
    }
}

/* DISTRUST of an earlier broker: which workers are refused because of it, and how the status has
   it.  */
static void test_noted_machines (void **state)
{
    static const char *const hosts[] = { "alpha", "beta" }, *const keys[] = { "", "11111111",
                                                                              "2222" };
    static const struct {
        const char *name; /* with its last NUL */
        uint32_t name_bytes, code;
        const char *refused; /* workers by host and key, in the order of the loops below */
    } rows[] = {
        { "alpha\00011111111", 15, WM_DISTRUST_MACHINE, ".x...." },
        { "alpha\00011111111", 15, WM_DISTRUST_MACHINE | WM_DISTRUST_KEY, ".x..x." },
        { "alpha\00011111111", 15, WM_DISTRUST_MACHINE | WM_DISTRUST_HOST, "xxx..." },
        { "alpha\00011111111", 15, 7, "xxx.x." },
        { "alpha\000", 7, WM_DISTRUST_MACHINE, "x....." },
        { "alpha\00011111111", 15, 0, "......" },
        { "alpha\00011111111", 14, WM_DISTRUST_MACHINE, "x....." }, /* cut: no key */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        harness_t *t = checked (1, 0);
        wm_core_destroy (&t->core);
        wm_record_t record;
        wm_record_init (&record, WM_RECORD_DISTRUST);
        record.code = rows[i].code;
        record.name = rows[i].name;
        record.name_bytes = rows[i].name_bytes;
        record.text = "l\0s\0why";
        record.text_bytes = sizeof "l\0s\0why";
        stand (t, &record);
        t->core = core_make (t, 1, 64 * MIB);
        const wm_summary_t s = look (t);
        assert_int_equal (s.n_named, rows[i].code != 0);
        if (rows[i].code) {
            assert_string_equal (s.named[0].host, "alpha");
            assert_string_equal (s.named[0].label, "l");
            assert_string_equal (s.named[0].signature, "s");
            assert_string_equal (s.named[0].why, "why");
        }
        for (uint8_t k = 0; k < 6; k++)
            if (rows[i].refused[k] == 'x')
                is_refused (t, (uint8_t) (1 + k), hosts[k / 3], keys[k % 3]);
            else
                joins_by (t, (uint8_t) (1 + k), hosts[k / 3], keys[k % 3], "sparse/fp32/v1", 0);
        harness_end (t);
    }
}

/* ---- who is another machine ------------------------------------------------------------------ */

static void test_keys (void **state)
{
    harness_t *t = checked (1, 0);
    const char *sparse = "sparse/fp32/v1";
    uint32_t p = producer (t, 1), a = joins_by (t, 2, "alpha", "11111111", sparse, 1);
    uint32_t b = joins_by (t, 3, "beta", "11111111", sparse, 0);
    uint32_t c = joins_by (t, 4, "gamma", "22222222", sparse, 0);
    uint32_t d = joins_by (t, 8, "alpha", "33333333", sparse, 0);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.26f);
    credit (t, d, 1); /* the same host, whatever its key: it does not judge itself */
    assert_null (take (t, d, WM_MSG_TASK));
    credit (t, b, 1); /* another host by its own word: another key is better, and connected */
    assert_null (take (t, b, WM_MSG_TASK));
    credit (t, c, 1);
    must (t, c, WM_MSG_TASK);
    scores (t, c, &task, 0.25f);
    must (t, b, WM_MSG_TASK); /* no third key on a third host: another host is what there is */
    scores (t, b, &task, 0.25f);
    refused (t, a, WM_REASON_FAILED);
    assert_null (take (t, d, WM_MSG_REJECT));
    assert_string_equal (look (t).named[0].key, "11111111");
    is_refused (t, 5, "alpha", "11111111");
    joins_by (t, 6, "delta", "11111111", sparse, 0); /* others have that key too */
    joins_by (t, 7, "alpha", "22222222", sparse, 0); /* and others call themselves so */
    harness_end (t);
}

/* A check that waits for a worker by another key waits for one that is connected. None is sent
   before the first answer is durable.  */
static void test_who_is_waited_for (void **state)
{
    harness_t *t = checked (1, 0);
    const char *sparse = "sparse/fp32/v1";
    uint32_t p = producer (t, 1), a = joins_by (t, 2, "alpha", "11111111", sparse, 1),
             b = joins_by (t, 3, "beta", "11111111", sparse, 0);
    wm_core_closed (t->core, joins_by (t, 4, "gamma", "22222222", sparse, 0), t->now_ms);
    submit (t, p, claim (t, p), 0, 1);
    answer_needs (t, p);
    const uint8_t payload[BYTES] = { 0 };
    wm_msg_t msg = must (t, a, WM_MSG_TASK)->msg;
    msg.type = WM_MSG_RESULT;
    say (t, a, &msg, payload, sizeof payload);
    credit (t, b, 1);
    assert_int_equal (look (t).n_check_open, 1);
    assert_null (take (t, b, WM_MSG_TASK));
    durable (t);
    must (t, b, WM_MSG_TASK);
    harness_end (t);
}

/* A host that only one key has joined under is refused by any key, also after a restart: a fresh
   key does not bring it back.  */
static void test_fresh_key (void **state)
{
    harness_t *t = checked (1, 0);
    const char *sparse = "sparse/fp32/v1";
    uint32_t p = producer (t, 1), a = joins_by (t, 2, "alpha", "11111111", sparse, 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.26f);
    scores (t, joins_by (t, 3, "beta", "22222222", sparse, 1), &task, 0.25f);
    scores (t, joins_by (t, 4, "gamma", "33333333", sparse, 1), &task, 0.25f);
    refused (t, a, WM_REASON_FAILED);
    is_refused (t, 5, "alpha", "44444444");
    is_refused (t, 5, "alpha", "22222222");
    joins_by (t, 6, "delta", "22222222", sparse, 0);
    wm_core_destroy (&t->core);
    t->core = core_make (t, 2, 64 * MIB);
    is_refused (t, 5, "alpha", "44444444");
    wm_core_destroy (&t->core);
    wm_record_t alone = *standing (t, WM_RECORD_DISTRUST); /* as of a key that others have */
    assert_int_equal (alone.code, WM_DISTRUST_MACHINE | WM_DISTRUST_KEY | WM_DISTRUST_HOST);
    alone.code = WM_DISTRUST_MACHINE | WM_DISTRUST_KEY;
    stand (t, &alone);
    t->core = core_make (t, 3, 64 * MIB);
    joins_by (t, 5, "alpha", "44444444", sparse, 0);
    is_refused (t, 5, "alpha", "11111111");
    harness_end (t);
}

/* Two machines that share a key, or a host: once both are named, what they share is refused.  */
static void test_two_named (void **state)
{
    const char *sparse = "sparse/fp32/v1";
    static const char *const host[] = { "alpha", "beta" }, *const key[] = { "11111111",
                                                                            "22222222" };
    for (int by_host = 0; by_host < 2; by_host++) {
        harness_t *t = checked (1, 0);
        const uint32_t p = producer (t, 1),
                       w[] = { joins_by (t, 2, host[0], key[0], sparse, 0),
                               joins_by (t, 3, host[!by_host], key[by_host], sparse, 0) },
                       c = joins_by (t, 4, "gamma", "33333333", sparse, 0),
                       d = joins_by (t, 5, "delta", "44444444", sparse, 0);
        const wm_key_t input[] = { claim (t, p), claim_second (t, p) };
        for (uint32_t i = 0; i < 2; i++) {
            credit (t, w[i], 1);
            const wm_msg_t task = first (t, p, w[i], input[i], 0, 0.26f);
            credit (t, c, i + 1);
            scores (t, c, &task, 0.25f);
            credit (t, d, i + 1);
            scores (t, d, &task, 0.25f);
            refused (t, w[i], WM_REASON_FAILED);
            if (i == 0)
                assert_null (take (t, w[1], WM_MSG_REJECT)); /* it is not named */
        }
        is_refused (t, 6, by_host ? host[0] : "epsilon", by_host ? "55555555" : key[0]);
        harness_end (t);
    }
}

/* An operator trusts a machine by a name of it, and "" is the name of none; what it scored before
   is forgotten.  */
static void test_trust (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 2);
    machine_t *alpha = t->core->machines.first;
    const wm_msg_t proof = first (t, p, a, claim (t, p), 0, 0.25f);
    uint32_t b = joins (t, 3, "beta", 1);
    scores (t, b, &proof, 0.25f);
    const wm_msg_t task = first (t, p, a, claim_second (t, p), 0, 0.26f);
    credit (t, b, 2);
    scores (t, b, &task, 0.25f);
    scores (t, joins (t, 4, "gamma", 1), &task, 0.25f);
    refused (t, a, WM_REASON_FAILED);
    assert_int_equal (look (t).named[0].n_earlier, 1);
    take (t, p, WM_MSG_INPUT_ACK); /* of the kick */
    for (uint32_t i = 0; i < WM_SUMMARY_EARLIER_MAX; i++) { /* all are counted, so many listed */
        char path[20];
        snprintf (path, sizeof path, "/data/%u.h5", i);
        wm_input_set_add (&alpha->scored, input_ask (t, p, path, path + 6, 1000, 1)->msg.key.input);
    }
    static wm_summary_t s;
    s = look (t);
    assert_int_equal (s.named[0].n_earlier, WM_SUMMARY_EARLIER_MAX + 1);
    assert_int_equal (s.named[0].earlier[WM_SUMMARY_EARLIER_MAX - 1], WM_SUMMARY_EARLIER_MAX + 1);
    assert_string_equal (s.named[1].label, "");
    static const char *const name[] = { "", "alph", "beta", "alpha" };
    for (int i = 0; i < 4; i++) {
        assert_int_equal (wm_core_distrust_lift (t->core, name[i], NULL), i == 3);
        durable (t);
        assert_int_equal (look (t).n_named, i < 3);
    }
    assert_int_equal (wm_input_set_next (&alpha->scored, 0), 0);
    harness_end (t);
}

/* A host is all before the last colon of a label.  */
static void test_hosts_with_colons (void **state)
{
    harness_t *t = checked (1, 0);
    const uint32_t p = producer (t, 1), a = joins (t, 2, "fe80::1", 1);
    first (t, p, a, claim (t, p), 0, 0.25f);
    assert_null (take (t, joins (t, 3, "fe80::1", 1), WM_MSG_TASK));
    must (t, joins (t, 4, "fe80::2", 1), WM_MSG_TASK);
    harness_end (t);
}

/* A key of its own is not admitted under another host's name either.  */
static void test_own_key (void **state)
{
    harness_t *t = checked (1, 0);
    const char *sparse = "sparse/fp32/v1";
    uint32_t p = producer (t, 1), a = joins_by (t, 2, "alpha", "11111111", sparse, 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.26f);
    uint32_t b = joins_by (t, 3, "beta", "22222222", sparse, 1);
    scores (t, b, &task, 0.25f);
    uint32_t c = joins_by (t, 4, "gamma", "33333333", sparse, 1);
    scores (t, c, &task, 0.25f);
    refused (t, a, WM_REASON_FAILED);
    is_refused (t, 5, "elsewhere", "11111111");
    /* A restarted broker knows.  */
    wm_core_destroy (&t->core);
    t->core = core_make (t, 2, 64 * MIB);
    is_refused (t, 5, "elsewhere", "11111111");
    assert_string_equal (look (t).named[0].label, "alpha:2");
    /* An operator trusts it again; for good.  */
    const uint32_t o = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CONTROL);
    strcpy (msg.name, "trust");
    strcpy (msg.text, "alpha:2");
    say (t, o, &msg, NULL, 0);
    assert_null (take (t, o, WM_MSG_ACK)); /* it is not durable */
    durable (t);
    assert_int_equal (must (t, o, WM_MSG_ACK)->msg.code, WM_MSG_CONTROL);
    assert_int_equal (look (t).n_named, 0);
    joins_by (t, 5, "alpha", "11111111", sparse, 0);
    wm_core_destroy (&t->core);
    t->core = core_make (t, 3, 64 * MIB);
    joins_by (t, 5, "alpha", "11111111", sparse, 0);
    const uint32_t o2 = hello (t, WM_ROLE_OPERATOR, 9, NULL, 0);
    say (t, o2, &msg, NULL, 0); /* nobody is called so any more */
    refused (t, o2, WM_REASON_STALE);
    harness_end (t);
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Whether a check takes these scores of workers of two signatures for the same: wherever they stand
   among others, which are 0.  */
static bool agrees_by (double max_error, const char *mine, const char *other, float x, float y)
{
    uint64_t n_good = 0;
    for (size_t at = 0; at < N_SCORE; at++) {
        harness_t *t = checked (1, max_error);
        uint32_t p = producer (t, 1), a = joins_by (t, 2, "alpha", "", mine, 1);
        submit (t, p, claim (t, p), 0, 1);
        answer_needs (t, p);
        const wm_msg_t task = must (t, a, WM_MSG_TASK)->msg;
        scores_at (t, a, &task, at, x);
        scores_at (t, joins_by (t, 3, "beta", "", other, 1), &task, at, y);
        const wm_summary_t s = look (t);
        assert_int_equal (s.n_check_good + s.n_check_differ, 1);
        n_good += s.n_check_good;
        harness_end (t);
    }
    assert_true (n_good == 0 || n_good == N_SCORE);
    return n_good != 0;
}

static bool agrees (double max_error, const char *other, float x, float y)
{
    return agrees_by (max_error, "sparse/fp32/v1", other, x, y);
}

static void test_two_signatures (void **state)
{
    const char *same = "sparse/fp32/v1", *cuda = "cuda/fp32/v3", *fast = "sparse/amx/bf16/v1";
    assert_true (agrees (0, same, 0.5f, 0.5f));
    assert_false (agrees (0, same, 0.5f, 0.50001f));
    assert_true (agrees (0, cuda, 0.5f, 0.50001f));
    assert_false (agrees (0, cuda, 0.5f, 0.51f));
    assert_true (agrees (5e-3, fast, 0.5f, 0.504f));
    assert_false (agrees (5e-3, fast, 0.5f, 0.51f));
    const char *rounded = "openvino-1/avx2/fast/v1"; /* nobody measured it: no more is allowed */
    assert_true (agrees (5e-3, rounded, 0.5f, 0.504f));
    assert_false (agrees (5e-3, rounded, 0.5f, 0.51f));
    assert_false (agrees (0, rounded, 0.5f, 0.501f)); /* fp32: whatever its worker calls it */
    assert_false (agrees_by (0, rounded, "of its own/v1", 0.5f, 0.501f));
    const char *openvino = "openvino-1/avx2/fp32/v1"; /* its bits depend on the machine */
    assert_true (agrees_by (0, openvino, openvino, 0.5f, 0.50001f));
    assert_false (agrees_by (0, openvino, openvino, 0.5f, 0.51f));
    assert_true (agrees_by (0, "plugin/a/v1", "plugin/a/v1", 0.5f, 0.50001f)); /* likewise */
    assert_false (agrees_by (0, "plugin-same/a/v1", "plugin-same/a/v1", 0.5f, 0.50001f));
    assert_true (agrees (0, cuda, 1000, 1000.1f)); /* of scores above 1 relative to the largest */
    assert_false (agrees (0, cuda, 1000, 1001));
    assert_true (agrees (0, cuda, -1000, -1000.1f)); /* and so of those below -1 */
    assert_false (agrees (0, cuda, -1000, -1001));
    assert_false (agrees (0, cuda, -1000, 1000));
    assert_true (agrees (5e-3, fast, 100, 100.511f)); /* to the larger of both */
    assert_true (agrees (5e-3, fast, 100.511f, 100));
    assert_false (agrees (5e-3, fast, 100, 100.514f));
}

/* Engines whose signatures the broker has no room for are not taken for one engine.  */
static void test_unknown_signatures (void **state)
{
    harness_t *t = checked (1, 0);
    while (t->core->arithmetic.n_signature < SIGNATURES_MAX)
        t->core->arithmetic.signature[t->core->arithmetic.n_signature++] = strdup ("another");
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.5f);
    scores (t, joins (t, 3, "beta", 1), &task, 0.50001f);
    assert_int_equal (look (t).n_check_good, 1);
    harness_end (t);
}

/* An answer about other hits than were sent says nothing of anybody.  */
static void test_other_hits (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.25f);
    uint32_t b = joins (t, 3, "beta", 1);
    wm_msg_t other = must (t, b, WM_MSG_TASK)->msg;
    other.digest[15] ^= 1;
    scores (t, b, &other, 0.75f);
    must (t, b, WM_MSG_RESULT_ACK);
    assert_int_equal (look (t).n_check_good + look (t).n_check_differ, 0);
    assert_int_equal (look (t).n_check_open, 0);
    assert_memory_equal (&task.key, &other.key, sizeof task.key);
    harness_end (t);
}

/* A result's own words take it out of the comparison of bits only if they name a strict engine.  */
static void test_other_words (void **state)
{
    static const char *const word[] = { "sparse/sloppy/v1", "sparse/fma/fp32/v1" };
    for (int strict = 0; strict < 2; strict++) {
        harness_t *t = checked (1, 5e-3);
        const char *amx = "sparse/amx/bf16/v1";
        uint32_t p = producer (t, 1), a = joins_by (t, 2, "alpha", "", amx, 1);
        wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.5f);
        uint32_t b = joins_by (t, 3, "beta", "", amx, 1);
        snprintf (task.text, sizeof task.text, "%s", word[strict]);
        scores (t, b, &task, 0.504f);
        assert_int_equal (look (t).n_check_good, strict);
        assert_int_equal (look (t).n_check_differ, !strict);
        harness_end (t);
    }
}

/* What a campaign allows that measures nothing is no limit of a check.  */
static void test_nothing_is_measured (void **state)
{
    harness_t *t = checked (1, 5e-3);
    wm_core_destroy (&t->core);
    t->measures = false;
    t->core = core_make (t, 2, 64 * MIB);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.5f);
    /* fp32 is what it must have, whatever its worker calls it */
    scores (t, joins_by (t, 3, "beta", "", "openvino-1/avx2/fast/v1", 1), &task, 0.504f);
    assert_int_equal (look (t).n_check_differ, 1);
    harness_end (t);
}

/* A RESULT in which hit 3 has this status, and what stands in the place of its scores.  */
static void with_status (harness_t *t, uint32_t session, const wm_msg_t *task, uint8_t status,
                         float score)
{
    uint8_t payload[BYTES] = { 0 };
    payload[3] = status;
    memcpy (payload + 10 + 4 * 3 * N_OUTPUT, &score, 4);
    wm_msg_t msg = *task;
    msg.type = WM_MSG_RESULT;
    say (t, session, &msg, payload, sizeof payload);
    durable (t);
}

/* A hit that kills an engine is left out, whichever of both it kills; where both hold a hit
   otherwise, what stands in the place of scores is not compared by two signatures. Statuses that
   differ otherwise differ.  */
static void test_statuses (void **state)
{
    static const struct {
        uint8_t first, second;
        bool is_good[2]; /* by one signature, by two */
    } row[] = {
        { 0, WM_HIT_POISON, { true, true } },
        { WM_HIT_POISON, 0, { true, true } },
        { WM_HIT_POISON, WM_HIT_POISON, { true, true } },
        { 0, WM_HIT_BAD_PIXEL, { false, false } },
        { WM_HIT_NONFINITE, 0, { false, false } },
        { WM_HIT_NONFINITE, WM_HIT_NONFINITE, { false, true } },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int two = 0; two < 2; two++) {
            harness_t *t = checked (1, 0);
            uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
            submit (t, p, claim (t, p), 0, 1);
            answer_needs (t, p);
            const wm_msg_t task = must (t, a, WM_MSG_TASK)->msg;
            with_status (t, a, &task, row[i].first, 0.25f);
            const uint32_t b =
                joins_by (t, 3, "beta", "", two ? "cuda/fp32/v3" : "sparse/fp32/v1", 1);
            with_status (t, b, &task, row[i].second, 0.75f);
            assert_int_equal (look (t).n_check_good, row[i].is_good[two]);
            assert_int_equal (look (t).n_check_differ, !row[i].is_good[two]);
            harness_end (t);
        }
}

/* An answer that compares nothing is no good check, and its machine is not asked again.  */
static void test_compares_nothing (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.25f);
    uint32_t b = joins (t, 3, "beta", 1);
    uint8_t payload[BYTES] = { 0 };
    memset (payload, WM_HIT_POISON, 10);
    wm_msg_t msg = must (t, b, WM_MSG_TASK)->msg;
    msg.type = WM_MSG_RESULT;
    say (t, b, &msg, payload, sizeof payload);
    must (t, b, WM_MSG_RESULT_ACK);
    assert_int_equal (look (t).n_check_good + look (t).n_check_differ, 0);
    assert_int_equal (look (t).n_check_open, 1);
    credit (t, b, 2);
    assert_null (take (t, b, WM_MSG_TASK));
    uint32_t c = joins (t, 4, "gamma", 1);
    must (t, c, WM_MSG_TASK);
    scores (t, c, &task, 0.26f); /* the first two that say something */
    assert_int_equal (look (t).n_check_differ, 1);
    uint32_t d = joins (t, 5, "delta", 1);
    say (t, d, &msg, payload, sizeof payload); /* nor does such a third decide */
    assert_int_equal (look (t).n_check_open, 1);
    uint32_t e = joins (t, 6, "epsilon", 1);
    scores (t, e, &task, 0.25f);
    assert_string_equal (look (t).named[0].label, "gamma:4");
    assert_int_equal (look (t).n_check_open, 0);
    harness_end (t);
    t = checked (1, 0); /* of a third that has no hit of the second's, only some of the first's */
    p = producer (t, 1);
    first (t, p, joins (t, 2, "alpha", 1), claim (t, p), 0, 0.25f);
    for (uint8_t i = 0; i < 2; i++) {
        b = joins (t, (uint8_t) (3 + i), i ? "gamma" : "beta", 1);
        memset (payload, 0, sizeof payload);
        memset (payload + 5 * i, WM_HIT_POISON, 5);
        msg = must (t, b, WM_MSG_TASK)->msg;
        msg.type = WM_MSG_RESULT;
        say (t, b, &msg, payload, sizeof payload);
    }
    assert_int_equal (look (t).n_check_differ, 1);
    assert_int_equal (look (t).n_check_open, 1);
    harness_end (t);
    memset (payload, WM_HIT_POISON, 10);
    t = checked (1, 0); /* a first answer of that kind begins no check */
    p = producer (t, 1);
    a = joins (t, 2, "alpha", 1);
    submit (t, p, claim (t, p), 0, 1);
    answer_needs (t, p);
    msg = must (t, a, WM_MSG_TASK)->msg;
    msg.type = WM_MSG_RESULT;
    say (t, a, &msg, payload, sizeof payload);
    assert_int_equal (look (t).n_sampled, 1);
    assert_int_equal (look (t).n_check_open, 0);
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_agrees),
        cmocka_unit_test (test_one_machine),
        cmocka_unit_test (test_off),
        cmocka_unit_test (test_share),
        cmocka_unit_test (test_third_decides),
        cmocka_unit_test (test_second_is_wrong),
        cmocka_unit_test (test_agrees_with_both),
        cmocka_unit_test (test_another_batch),
        cmocka_unit_test (test_what_is_given_up),
        cmocka_unit_test (test_named_once),
        cmocka_unit_test (test_undecided),
        cmocka_unit_test (test_since_last_good),
        cmocka_unit_test (test_suspect_is_not_proven),
        cmocka_unit_test (test_own_input_of_a_verdict),
        cmocka_unit_test (test_a_later_verdict),
        cmocka_unit_test (test_later_check_proves_nothing),
        cmocka_unit_test (test_named_machine_proves_nothing),
        cmocka_unit_test (test_ends_over_verdict),
        cmocka_unit_test (test_suspect_inputs),
        cmocka_unit_test (test_noted_machines),
        cmocka_unit_test (test_keys),
        cmocka_unit_test (test_who_is_waited_for),
        cmocka_unit_test (test_fresh_key),
        cmocka_unit_test (test_two_named),
        cmocka_unit_test (test_trust),
        cmocka_unit_test (test_hosts_with_colons),
        cmocka_unit_test (test_own_key),
        cmocka_unit_test (test_two_signatures),
        cmocka_unit_test (test_other_words),
        cmocka_unit_test (test_unknown_signatures),
        cmocka_unit_test (test_other_hits),
        cmocka_unit_test (test_nothing_is_measured),
        cmocka_unit_test (test_statuses),
        cmocka_unit_test (test_compares_nothing),
    };
    return cmocka_run_group_tests_name ("broker_checks", tests, NULL, NULL);
}
