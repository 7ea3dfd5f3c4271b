/* test_gpuworker_tasks.c - the batches a lane has, and how many it asks for.  */

#include "gpuworker/wm_tasks.h"
#include "gpuworker/wm_credit.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static wm_msg_t task_msg (uint32_t ordinal, uint32_t n_hit)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_TASK);
    msg.key = (wm_key_t){ 1, ordinal, 2, 3 };
    msg.n_hit = n_hit;
    msg.attempt = 4;
    memset (msg.digest, (int) ordinal, sizeof msg.digest);
    return msg;
}

static void keeps_until_forgotten (void **state)
{
    wm_error_t error;
    wm_hello_held_t held[WM_CREDIT_MAX];
    wm_tasks_t *tasks = wm_tasks_new (4);
    for (uint32_t i = 0; i < 3; i++) {
        wm_msg_t msg = task_msg (i, i + 1);
        assert_int_equal (wm_tasks_add (tasks, &msg, (const uint8_t *) "abc", i, &error), WM_OK);
    }
    wm_msg_t again = task_msg (1, 2);
    assert_int_equal (wm_tasks_add (tasks, &again, NULL, 0, &error), WM_EAGAIN);

    wm_task_t *task = wm_tasks_oldest (tasks, WM_TASK_QUEUED);
    assert_int_equal (task->key.ordinal, 0);
    task->state = WM_TASK_RETURNED;
    strcpy (task->again, "scored again");
    assert_int_equal (wm_tasks_unscored (tasks), 2);
    assert_int_equal (wm_tasks_all (tasks), 3);
    assert_int_equal (wm_tasks_oldest (tasks, WM_TASK_QUEUED)->key.ordinal, 1);

    assert_int_equal (wm_tasks_hello (tasks, held), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal (held[i].unacked, held[i].key.ordinal == 0);
        assert_int_equal (held[i].n_hit, held[i].key.ordinal + 1);
        assert_int_equal (held[i].digest[15], held[i].key.ordinal);
    }
    wm_tasks_forget (tasks, task);
    assert_null (wm_tasks_find (tasks, &(wm_key_t){ 1, 0, 2, 3 }));
    assert_non_null (wm_tasks_find (tasks, &(wm_key_t){ 1, 1, 2, 3 }));
    assert_null (wm_tasks_find (tasks, &(wm_key_t){ 1, 1, 2, 4 })); /* another generation */
    assert_int_equal (wm_tasks_hello (tasks, held), 2);
    wm_msg_t next = task_msg (9, 1); /* in the row that is free: as if it were new */
    assert_int_equal (wm_tasks_add (tasks, &next, NULL, 0, &error), WM_OK);
    assert_ptr_equal (wm_tasks_find (tasks, &next.key), task);
    assert_string_equal (task->again, "");
    wm_tasks_destroy (&tasks);
    wm_tasks_destroy (&tasks);
}

static void results_are_one_frame (void **state)
{
    wm_error_t error;
    wm_tasks_t *tasks = wm_tasks_new (3);
    for (uint32_t n_hit = 1; n_hit < 70; n_hit++) {
        wm_msg_t msg = task_msg (n_hit, n_hit);
        assert_int_equal (wm_tasks_add (tasks, &msg, NULL, 0, &error), WM_OK);
        wm_task_t *task = wm_tasks_find (tasks, &msg.key);
        assert_int_equal (task->result_bytes, n_hit * 13);
        assert_ptr_equal (task->scores, task->status + n_hit);
        assert_int_equal ((uintptr_t) task->scores % 4, 0);
        memset (task->status, 1, task->result_bytes); /* a sanitizer looks at the end */
        if (n_hit % 2)
            wm_tasks_forget (tasks, task);
    }
    wm_tasks_destroy (&tasks);
}

static void refuses (void **state)
{
    wm_error_t error;
    wm_tasks_t *tasks = wm_tasks_new (WM_OUTPUTS_MAX);
    wm_msg_t none = task_msg (0, 0), huge = task_msg (0, 1024), most = task_msg (0, UINT32_MAX);
    assert_int_equal (wm_tasks_add (tasks, &none, NULL, 0, &error), WM_EBATCH);
    assert_int_equal (wm_tasks_add (tasks, &huge, NULL, 0, &error), WM_EBATCH); /* 4 MiB + 1,024 */
    assert_int_equal (wm_tasks_add (tasks, &most, NULL, 0, &error), WM_EBATCH);
    for (uint32_t i = 0; i < WM_CREDIT_MAX; i++) {
        wm_msg_t msg = task_msg (i, 1);
        assert_int_equal (wm_tasks_add (tasks, &msg, NULL, 0, &error), WM_OK);
    }
    wm_msg_t over = task_msg (WM_CREDIT_MAX, 1);
    assert_int_equal (wm_tasks_add (tasks, &over, NULL, 0, &error), WM_EAGAIN);
    wm_tasks_destroy (&tasks);
}

static void collect (wm_task_t *task, void *argument)
{
    uint32_t **next = argument;
    *(*next)++ = task->key.ordinal;
}

static void order_of_arrival (void **state)
{
    wm_error_t error;
    uint32_t seen[8], *next = seen;
    wm_tasks_t *tasks = wm_tasks_new (1);
    for (uint32_t i = 0; i < 4; i++) {
        wm_msg_t msg = task_msg (i, 1);
        wm_tasks_add (tasks, &msg, NULL, 0, &error);
    }
    /* A line used again is not an older task.  */
    wm_tasks_forget (tasks, wm_tasks_find (tasks, &(wm_key_t){ 1, 0, 2, 3 }));
    wm_msg_t late = task_msg (9, 1);
    wm_tasks_add (tasks, &late, NULL, 0, &error);
    wm_tasks_each (tasks, WM_TASK_QUEUED, collect, &next);
    assert_int_equal (next - seen, 4);
    assert_int_equal (seen[0], 1);
    assert_int_equal (seen[3], 9);
    wm_tasks_destroy (&tasks);
}

static void credit_grows_and_falls (void **state)
{
    wm_credit_t credit;
    wm_credit_init (&credit);
    wm_credit_success (&credit, 1); /* the first batch is all that is known */
    assert_int_equal (credit.window, 2);
    wm_credit_init (&credit);
    assert_int_equal (wm_credit_grant (&credit, 0, 0), 2);
    assert_int_equal (wm_credit_grant (&credit, 0, 0), 0); /* nothing new */
    credit.received = 2;
    assert_int_equal (wm_credit_grant (&credit, 2, 2), 0);
    wm_credit_success (&credit, 0.1);
    assert_int_equal (wm_credit_grant (&credit, 1, 2), 4); /* window 3, one in hand */
    for (int i = 0; i < 100; i++)
        wm_credit_success (&credit, 0.1);
    assert_in_range (credit.window, 19, 20); /* two seconds of batches of 0.1 s */
    wm_credit_t other = credit;
    wm_credit_success (&other, 1.1); /* a fifth of it counts: 0.3 s */
    assert_int_equal (other.window, 6);
    other = credit;
    wm_credit_session (&other, true);
    wm_credit_success (&other, 0.1);
    assert_int_equal (other.window, 2); /* clients wait: a fifth of a second, but two at least */
    wm_credit_failure (&credit);
    credit.received = 4;
    assert_int_equal (wm_credit_grant (&credit, 1, 1), 0);
    assert_int_equal (wm_credit_grant (&credit, 0, 0), 5);
    wm_credit_again (&credit); /* one was given back */
    assert_int_equal (wm_credit_grant (&credit, 1, 1), 5);
    assert_int_equal (wm_credit_grant (&credit, 1, 1), 0);
    for (int i = 0; i < 100; i++)
        wm_credit_success (&credit, 30);
    assert_int_equal (credit.window, 2); /* one computes, one waits */
    for (int i = 0; i < 1000; i++)
        wm_credit_success (&credit, 0);
    assert_int_equal (credit.window, WM_CREDIT_MAX);
}

/* Patches beyond WM_RAGGED_BYTES are bounded by their bytes; three may be here at least.  */
static void credit_is_bounded_by_memory (void **state)
{
    static const uint64_t rows[][2] = { { WM_RAW_BYTES_MAX, WM_CREDIT_MAX },
                                        { WM_RAGGED_BYTES, WM_CREDIT_MAX },
                                        { 20u << 20, 12 },
                                        { 128u << 20, 3 },
                                        { WM_PATCH_BYTES_MAX, 3 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const uint32_t most = (uint32_t) rows[i][1];
        wm_credit_t credit;
        wm_credit_init (&credit);
        wm_credit_bound (&credit, rows[i][0]);
        for (int k = 0; k < 1000; k++)
            wm_credit_success (&credit, 0.001);
        assert_int_equal (credit.window, most);
        assert_int_equal (wm_credit_grant (&credit, 0, most - 1), 1);
        assert_int_equal (wm_credit_grant (&credit, 0, most), 0);
    }
}

/* What a campaign's messages and its budget follow from: small patches leave them as they are.  */
static void bounds_follow_the_patch (void **state)
{
    const uint32_t tile = 3 * 1984 * 856, image = 1984 * 856;
    assert_int_equal (wm_row_bytes_max (2304, 4), WM_RAW_BYTES_MAX);
    assert_int_equal (wm_frame_bytes_max (2304, 4), WM_RAW_BYTES_MAX + WM_FRAME_OVERHEAD);
    assert_int_equal (wm_budget_least (2304, 4), WM_BUDGET_BYTES_LEAST);
    assert_int_equal (wm_budget_least (WM_RAGGED_BYTES / 4 - 1, WM_RAGGED_BYTES / 4 - 1),
                      WM_BUDGET_BYTES_LEAST);
    assert_int_equal (wm_row_bytes_max (tile, image), 4 * tile);
    assert_int_equal (wm_row_bytes_max (1, tile), 4 * tile + 1);
    assert_int_equal (wm_budget_least (tile, image), 4 * (4ull * tile + WM_FRAME_OVERHEAD));
    assert_int_equal (wm_row_bytes_max (UINT32_MAX, UINT32_MAX), WM_PATCH_BYTES_MAX);
    assert_int_equal (wm_unread_all_max (4), WM_UNREAD_ALL_BYTES_MAX);
    assert_true (wm_unread_all_max (WM_ANSWER_VALUES_MAX) >= 4ull * WM_PATCH_BYTES_MAX);
}

static void credit_is_bounded_by_what_is_held (void **state)
{
    wm_credit_t credit;
    wm_credit_init (&credit);
    for (int i = 0; i < 1000; i++)
        wm_credit_success (&credit, 0.001);
    /* Nothing is acknowledged: results pile up to the limit and not above.  */
    assert_int_equal (wm_credit_grant (&credit, 0, WM_CREDIT_MAX - 3), 3);
    assert_int_equal (wm_credit_grant (&credit, 0, WM_CREDIT_MAX), 0);
    /* A new session counts from zero, with what is in hand.  */
    wm_credit_session (&credit, false);
    assert_int_equal (wm_credit_grant (&credit, WM_CREDIT_MAX - 5, WM_CREDIT_MAX - 5), 5);
    credit.received = 5;
    wm_credit_session (&credit, false); /* nor do the batches that the old session received count */
    assert_int_equal (wm_credit_grant (&credit, WM_CREDIT_MAX - 2, WM_CREDIT_MAX - 2), 2);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (keeps_until_forgotten),
        cmocka_unit_test (results_are_one_frame),
        cmocka_unit_test (refuses),
        cmocka_unit_test (order_of_arrival),
        cmocka_unit_test (credit_grows_and_falls),
        cmocka_unit_test (credit_is_bounded_by_what_is_held),
        cmocka_unit_test (credit_is_bounded_by_memory),
        cmocka_unit_test (bounds_follow_the_patch),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
