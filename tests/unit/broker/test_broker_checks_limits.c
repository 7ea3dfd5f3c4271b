/* test_broker_checks_limits.c - wm_core: checks by a second machine where workers refuse or vanish,
   what they may hold in memory, and what the status says of them.  */
#include "tests/unit/check_harness.h"

#include "broker/core/wm_core_check_private.h"
#include "broker/wm_status.h"

#include <jansson.h>

/* ---- workers that do not answer -------------------------------------------------------------- */

/* A refusal is no score: another worker is asked, and nobody is named.  */
static void test_refusals (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.25f);
    uint32_t b = joins (t, 3, "beta", 1);
    for (uint64_t i = 2; i < 7; i++) { /* it leaves, and comes back */
        nack (t, b, &must (t, b, WM_MSG_TASK)->msg, WM_EAGAIN);
        assert_null (take (t, b, WM_MSG_TASK));
        credit (t, b, i);
    }
    nack (t, b, &must (t, b, WM_MSG_TASK)->msg, WM_EAGAIN);
    uint32_t c = joins (t, 4, "gamma", 1);
    nack (t, c, &must (t, c, WM_MSG_TASK)->msg, WM_EBATCH);
    uint32_t d = joins (t, 5, "delta", 1);
    must (t, d, WM_MSG_TASK);
    scores (t, d, &task, 0.25f);
    assert_int_equal (look (t).n_check_good, 1);
    assert_int_equal (look (t).n_named, 0);
    assert_int_equal (look (t).n_fail, 0);
    harness_end (t);
}

/* Workers that vanish over a check are not asked for ever, and what waited behind it is not
   blamed.  */
static void test_vanishes (void **state)
{
    static const char *const host[] = { "beta", "gamma", "delta" };
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 1);
    wm_key_t input = claim (t, p);
    const wm_msg_t task = first (t, p, a, input, 0, 0.25f);
    submit (t, p, input, 1, 1);
    answer_needs (t, p);
    for (uint8_t i = 0; i < 3; i++) {
        assert_int_equal (look (t).n_check_open, 1);
        uint32_t w = joins (t, (uint8_t) (3 + i), host[i], 2);
        assert_memory_equal (&must (t, w, WM_MSG_TASK)->msg.key, &task.key, sizeof task.key);
        assert_int_equal (must (t, w, WM_MSG_TASK)->msg.key.ordinal, 1);
        wm_core_closed (t->core, w, t->now_ms);
        pass (t, 4000, (uint32_t[]){ p, a, 0 });
        assert_int_equal (look (t).n_lost, 0);
    }
    assert_int_equal (look (t).n_check_open, 0);
    assert_int_equal (look (t).n_sampled, 1);
    harness_end (t);
}

/* A second result of a batch by the same signature: an alarm, but not of OpenVINO's, whose bits
   depend on the machine.  */
static void test_duplicates (void **state)
{
    static const char *const signature[] = { "sparse/fp32/v1", "openvino-1/avx2/fp32/v1" };
    for (uint32_t i = 0; i < 2; i++) {
        harness_t *t = checked (0, 0);
        uint32_t p = producer (t, 1), a = joins_by (t, 2, "alpha", "", signature[i], 1);
        const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.5f);
        scores (t, joins_by (t, 3, "beta", "", signature[i], 0), &task, 0.50001f);
        assert_int_equal (look (t).n_duplicate, 1);
        assert_int_equal (look (t).n_alarm, 1 - i);
        harness_end (t);
    }
}

/* A budget of four frames, and eight batches of this producer that wait for their check; their
   worker shows of no later TASK that it has arrived.  */
static harness_t *eight_wait (uint32_t *p, wm_key_t *input)
{
    harness_t *t = checked (1, 0);
    wm_core_destroy (&t->core);
    t->core = core_make (t, 1, 4 * ((WM_RAW_BYTES_MAX + WM_FRAME_OVERHEAD)));
    *p = producer (t, 1);
    *input = claim (t, *p);
    const uint32_t a = joins (t, 2, "alpha", 100);
    for (uint32_t i = 0; i < 8; i++)
        first (t, *p, a, *input, i, 0.5f);
    t->deaf = a;
    return t;
}

/* Payloads of checks that wait leave the budget when others need it.  */
static void test_budget (void **state)
{
    uint32_t p;
    wm_key_t input;
    harness_t *t = eight_wait (&p, &input);
    assert_int_equal (look (t).n_check_open, 8);
    submit_raw (t, p, input, 100, 8, WM_RAW_BYTES_MAX - 1000); /* four fit beside four of them */
    assert_int_equal (count (t, p, WM_MSG_NEED), 4);
    assert_int_equal (look (t).n_check_open, 4);
    harness_end (t);
}

/* Where all checks together would not make the room, none ends: twenty TASKs are on their way.  */
static void test_no_check_ends_in_vain (void **state)
{
    uint32_t p;
    wm_key_t input;
    harness_t *t = eight_wait (&p, &input);
    submit (t, p, input, 50, 20);
    answer_needs (t, p);
    submit_raw (t, p, input, 100, 8, WM_RAW_BYTES_MAX - 1000);
    assert_int_equal (count (t, p, WM_MSG_NEED), 3); /* the fourth finds no room */
    assert_int_equal (look (t).n_check_open, 8);
    harness_end (t);
}

/* The broker ends no check whose answers differ, also when its memory budget is full.  */
static void test_full_budget (void **state)
{
    uint32_t p;
    wm_key_t input;
    harness_t *t = eight_wait (&p, &input);
    uint32_t b = joins (t, 3, "beta", 1);
    scores (t, b, &must (t, b, WM_MSG_TASK)->msg, 0.25f); /* the oldest differs */
    heartbeat (t, b, (wm_key_t){ 0 }, 0);
    assert_int_equal (look (t).n_check_differ, 1);
    submit_raw (t, p, input, 100, 8, WM_RAW_BYTES_MAX - 1000);
    assert_int_equal (count (t, p, WM_MSG_NEED), 4);
    assert_int_equal (look (t).n_check_open, 4);
    const uint32_t c = joins (t, 4, "gamma", 1);
    assert_int_equal (must (t, c, WM_MSG_TASK)->msg.key.ordinal, 0);
    harness_end (t);
}

/* Room for all answers of a check is taken when it begins, and given back when it ends.  */
static void test_answers_are_bounded (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 2);
    wm_key_t input = claim (t, p);
    const wm_msg_t task = first (t, p, a, input, 0, 0.5f);
    assert_int_equal (t->core->checks.bytes, 3 * BYTES);
    uint32_t b = joins (t, 3, "beta", 1);
    scores (t, b, &task, 0.25f);
    assert_int_equal (t->core->checks.bytes, 3 * BYTES);
    t->pretends = 1;
    t->core->checks.bytes = CHECK_RESULTS_BYTES - 3 * BYTES + 1; /* as others have it */
    first (t, p, a, input, 1, 0.5f);
    assert_int_equal (look (t).n_check_open, 1); /* it began none, and ended none that differs */
    t->core->checks.bytes = 3 * BYTES;
    t->pretends = 0;
    scores (t, joins (t, 4, "gamma", 1), &task, 0.25f);
    assert_int_equal (look (t).n_check_open, 0);
    assert_int_equal (t->core->checks.bytes, 0);
    harness_end (t);
}

/* As first, with a payload that is larger than all checks together may keep.  */
static wm_msg_t first_large (harness_t *t, uint32_t p, uint32_t w, wm_key_t input, uint32_t ordinal)
{
    static uint8_t payload[3 << 20];
    submit_raw (t, p, input, ordinal, 1, sizeof payload);
    wm_msg_t msg = must (t, p, WM_MSG_NEED)->msg;
    msg.type = WM_MSG_BATCH;
    say (t, p, &msg, payload, sizeof payload);
    const wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    scores (t, w, &task, 0.5f);
    must (t, w, WM_MSG_RESULT_ACK);
    return task;
}

/* A batch is checked however large its payload and its result are, one at a time; the next takes
   the place of one that waits, but of none whose answers differ.  */
static void test_a_large_batch_is_checked (void **state)
{
    harness_t *t = checked (1, 0);
    wm_core_destroy (&t->core);
    t->core = core_make (t, 1, 4 * ((WM_RAW_BYTES_MAX + WM_FRAME_OVERHEAD)));
    const uint32_t p = producer (t, 1), a = joins (t, 2, "alpha", 100);
    const wm_key_t input = claim (t, p);
    first_large (t, p, a, input, 0);
    assert_int_equal (look (t).n_check_open, 1);
    const wm_msg_t task = first_large (t, p, a, input, 1);
    assert_int_equal (look (t).n_check_open, 1);
    const uint32_t b = joins (t, 3, "beta", 1);
    assert_int_equal (must (t, b, WM_MSG_TASK)->msg.key.ordinal, 1);
    scores (t, b, &task, 0.25f);
    assert_int_equal (look (t).n_check_differ, 1);
    first_large (t, p, a, input, 2);
    assert_int_equal (look (t).n_check_open, 1);
    const uint32_t c = joins (t, 4, "gamma", 1);
    assert_int_equal (must (t, c, WM_MSG_TASK)->msg.key.ordinal, 1);
    scores (t, c, &task, 0.25f);
    assert_int_equal (look (t).n_check_open, 0);
    assert_int_equal (look (t).n_named, 1);
    assert_int_equal (t->core->checks.payload_bytes, 0);
    harness_end (t);
}

static void leaves (harness_t *t, uint32_t session)
{
    wm_msg_t bye;
    wm_msg_init (&bye, WM_MSG_BYE);
    say (t, session, &bye, NULL, 0);
}

/* Sets of inputs of machines that left are bounded: the one that left first is forgotten, but none
   of a machine whose scores are in doubt, or were wrong.  */
static void test_sets_are_bounded (void **state)
{
    static const char *const host[] = { "alpha", "beta", "gamma" };
    harness_t *t = checked (1, 0);
    machine_t *machine[3];
    uint32_t w[3];
    for (uint8_t i = 0; i < 3; i++) {
        w[i] = joins (t, (uint8_t) (2 + i), host[i], 0);
        machine[i] = t->core->machines.first;
        wm_input_set_add (&machine[i]->scored, 8 * (INPUT_SETS_BYTES / 5 * 2) - 1);
        assert_in_range (machine[i]->scored.bytes, INPUT_SETS_BYTES / 5 * 2,
                         INPUT_SETS_BYTES / 5 * 2 + 64); /* not twice of it */
    }
    leaves (t, w[1]);
    assert_int_equal (machine[1]->scored.bytes, 0); /* of those here nothing is forgotten */
    assert_true (machine[0]->scored.bytes && machine[2]->scored.bytes);
    wm_input_set_add (&machine[1]->scored, 8 * (INPUT_SETS_BYTES / 5 * 2) - 1);
    leaves (t, w[0]);
    assert_int_equal (machine[1]->scored.bytes, 0);
    assert_true (machine[0]->scored.bytes && machine[2]->scored.bytes);
    wm_input_set_add (&machine[1]->scored, 8 * (INPUT_SETS_BYTES / 5 * 2) - 1);
    t->pretends = 1;
    machine[0]->n_suspect = 1;
    machine[1]->distrusted = true;
    leaves (t, w[2]);
    machine[0]->n_suspect = 0;
    assert_true (machine[0]->scored.bytes && machine[1]->scored.bytes);
    assert_int_equal (machine[2]->scored.bytes, 0);
    harness_end (t);
}

/* A peer may claim any number of hosts: machines to which nothing refers are forgotten, those that
   came first, but none that is not trusted, nor one whose answer is to be compared.  */
static void test_machines_are_bounded (void **state)
{
    harness_t *t = checked (1, 0);
    char host[16];
    joins (t, 1, "wrong", 0);
    t->core->machines.first->distrusted = true;
    const uint32_t p = producer (t, 3), w = joins (t, 4, "answered", 1);
    first (t, p, w, claim (t, p), 0, 0.5f);
    leaves (t, w);
    for (unsigned i = 0; i < MACHINES_MAX + 10; i++) {
        snprintf (host, sizeof host, "host%u", i);
        leaves (t, joins (t, 2, host, 0));
    }
    assert_int_equal (t->core->machines.n, MACHINES_MAX);
    int n_there = 0;
    for (const machine_t *machine = t->core->machines.first; machine; machine = machine->next) {
        n_there += !strcmp (machine->host, "wrong") || !strcmp (machine->host, "answered");
        assert_string_not_equal (machine->host, "host11"); /* 12 too many came */
        n_there += !strcmp (machine->host, "host12");
    }
    assert_int_equal (n_there, 3);
    harness_end (t);
}

/* ---- what people see ------------------------------------------------------------------------- */

static void test_json (void **state)
{
    harness_t *t = checked (1, 0);
    uint32_t p = producer (t, 1), a = joins_by (t, 2, "alpha", "11111111", "sparse/fp32/v1", 1);
    const wm_msg_t task = first (t, p, a, claim (t, p), 0, 0.26f);
    scores (t, joins (t, 3, "beta", 1), &task, 0.25f);
    scores (t, joins (t, 4, "gamma", 1), &task, 0.25f);
    static wm_pins_t pins = { .precision = "fp32" };
    static const uint8_t id[16];
    static wm_summary_t s;
    s = look (t);
    const wm_status_about_t about = { .dir = "/out", .campaign = id, .pins = &pins };
    char *text = wm_status_json (&s, &about);
    assert_non_null (text);
    json_t *root = json_loads (text, 0, NULL), *checks = json_object_get (root, "checks");
    const json_t *named = json_array_get (json_object_get (checks, "named"), 0);
    assert_int_equal (json_integer_value (json_object_get (checks, "sampled")), 1);
    assert_int_equal (json_integer_value (json_object_get (checks, "differ")), 1);
    assert_string_equal (json_string_value (json_object_get (named, "worker")), "alpha:2");
    assert_string_equal (json_string_value (json_object_get (named, "key")), "11111111");
    json_decref (root);
    free (text);
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_refusals),
        cmocka_unit_test (test_vanishes),
        cmocka_unit_test (test_duplicates),
        cmocka_unit_test (test_budget),
        cmocka_unit_test (test_sets_are_bounded),
        cmocka_unit_test (test_machines_are_bounded),
        cmocka_unit_test (test_answers_are_bounded),
        cmocka_unit_test (test_a_large_batch_is_checked),
        cmocka_unit_test (test_full_budget),
        cmocka_unit_test (test_no_check_ends_in_vain),
        cmocka_unit_test (test_json),
    };
    return cmocka_run_group_tests_name ("broker_checks_limits", tests, NULL, NULL);
}
