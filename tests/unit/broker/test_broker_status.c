/* test_broker_status.c - rows of the status where more is held than it has rows for; the sums of
   scores.  */
#include "tests/unit/core_harness.h"

enum { N_HELD = 60, N_CHANGED = 40, N_BATCH = 80, INPUT_ROWS = 68, REASONS = 64 };

static wm_ledger_input_t input_of (uint32_t id, wm_ledger_input_state_t state)
{
    static char path[32], name[32];
    snprintf (path, sizeof path, "/data/%u.h5", id);
    snprintf (name, sizeof name, "%u.scores.h5", id);
    return (wm_ledger_input_t){ .id = id,
                                .state = state,
                                .path = path,
                                .name = name,
                                .size = 1000,
                                .mtime_ns = 5,
                                .n_event = state == WM_LEDGER_WRITTEN ? 1 : -1,
                                .n_hit = state == WM_LEDGER_WRITTEN ? 20 : 0,
                                .n_held = state == WM_LEDGER_WRITTEN ? 3 : 0,
                                .text = state == WM_LEDGER_HELD ? "truncated" : "" };
}

static void add_batches (harness_t *t, uint32_t input, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        char text[20];
        snprintf (text, sizeof text, "reason %u", i);
        wm_ledger_batch_t batch = { .key = { input, i, 0, 0 },
                                    .state = WM_LEDGER_BATCH_HELD,
                                    .n_batch = 1,
                                    .n_hit = 10 + i,
                                    .code = WM_HIT_HELD,
                                    .text = text };
        digest_of (i, 0, batch.digest);
        assert_int_equal (wm_core_restore_batch (t->core, &batch, "engine/fp32"), 0);
    }
}

/* Inputs are listed first and leave rows for batches, of which the latest are listed; all are
   counted.  */
static void more_is_held_than_there_are_rows (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    for (uint32_t id = 1; id <= N_HELD + N_CHANGED + 1; id++) {
        wm_ledger_input_t input = input_of (id, id <= N_HELD               ? WM_LEDGER_HELD
                                                : id <= N_HELD + N_CHANGED ? WM_LEDGER_WRITTEN
                                                                           : WM_LEDGER_OPEN);
        assert_int_equal (wm_core_restore_input (t->core, &input), 0);
        wm_core_output_changed (t->core, id, "it is gone");
    }
    const uint32_t open = N_HELD + N_CHANGED + 1;
    add_batches (t, open, 0, N_BATCH);
    const wm_summary_t s = look (t);
    assert_int_equal (s.inputs, open);
    assert_int_equal (s.inputs_held, N_HELD);
    assert_int_equal (s.inputs_changed, N_CHANGED);
    assert_int_equal (s.batches_held, N_BATCH);
    assert_int_equal (s.n_held, WM_SUMMARY_HELD_MAX);
    for (uint32_t i = 0; i < s.n_held; i++) {
        const wm_summary_held_t *row = &s.held[i];
        char reason[20];
        if (i >= INPUT_ROWS) {
            const uint32_t number = N_BATCH - 1 - (i - INPUT_ROWS);
            snprintf (reason, sizeof reason, "reason %u", number);
            assert_string_equal (row->state, "batch");
            assert_string_equal (row->reason, reason);
            assert_int_equal (row->key.ordinal, number);
            assert_int_equal (row->n_hit, 10 + number);
            continue;
        }
        assert_int_equal (row->key.input, i + 1);
        assert_int_equal (row->key.ordinal, WM_ALL);
        assert_string_equal (row->state, i < N_HELD ? "input" : "changed");
        assert_string_equal (row->reason, i < N_HELD ? "truncated" : "it is gone");
        assert_int_equal (row->n_hit, 0);
    }
    assert_int_equal (s.n_open, 1);
    assert_int_equal (s.open[0].input, open);
    uint64_t hits = 0;
    for (uint32_t i = 0; i < N_BATCH; i++)
        hits += 10 + i;
    assert_int_equal (s.open[0].n_hit, hits);
    assert_true (s.held_total >= N_HELD + N_CHANGED + REASONS);
    harness_end (t);
}

/* Without inputs, the ring of reasons is what is listed.  */
static void the_latest_reasons_are_listed (void **state)
{
    for (uint32_t n = REASONS - 1; n <= REASONS + 1; n++) {
        harness_t *t = harness_new (64 * MIB);
        wm_ledger_input_t input = input_of (1, WM_LEDGER_OPEN);
        assert_int_equal (wm_core_restore_input (t->core, &input), 0);
        add_batches (t, 1, 0, n);
        const wm_summary_t s = look (t);
        assert_int_equal (s.n_held, n < REASONS ? n : REASONS);
        for (uint32_t i = 0; i < s.n_held; i++)
            assert_int_equal (s.held[i].key.ordinal, n - 1 - i);
        assert_int_equal (s.batches_held, n);
        harness_end (t);
    }
}

/* A result that comes twice counts once, and hits that are held have no scores.  */
static void scores_are_summed (void **state)
{
    harness_t *t = harness_new (64 * MIB);
    const uint32_t p = producer (t, 1);
    const wm_key_t input = claim (t, p);
    const uint32_t w = worker (t, 2, 3);
    submit (t, p, input, 0, 3);
    answer_needs (t, p);
    wm_msg_t task = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &task, 0x3f); /* the last score of the last hit is 0.5 */
    result_of (t, w, &task, 0x3f);
    task = must (t, w, WM_MSG_TASK)->msg;
    result_of (t, w, &task, 0x40); /* 2.0 */
    wm_summary_t s = look (t);
    assert_int_equal (s.n_score, N_OUTPUT);
    assert_int_equal (s.n_summed, 20);
    assert_true (s.score_sum[N_OUTPUT - 1] == 2.5 && s.score_sum[0] == 0);
    uint8_t payload[10 * (1 + 4 * N_OUTPUT)] = { WM_HIT_POISON };
    task = must (t, w, WM_MSG_TASK)->msg;
    task.type = WM_MSG_RESULT;
    say (t, w, &task, payload, sizeof payload);
    s = look (t);
    assert_int_equal (s.n_summed, 29);
    harness_end (t);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (scores_are_summed),
                                        cmocka_unit_test (more_is_held_than_there_are_rows),
                                        cmocka_unit_test (the_latest_reasons_are_listed) };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
