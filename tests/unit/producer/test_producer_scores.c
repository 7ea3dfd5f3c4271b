/* test_producer_scores.c - rows of files of scores: room for them, and what hits are called.  */
#include "producer/files/wm_call_rule.h"
#include "producer/files/wm_scores.h"
#include "tests/unit/unit.h"

/* As far as rows are counted in 32 bits, the stride of the scores is that of the rows.  */
static void room_is_made_up_to_the_most (void **state)
{
    uint32_t room;
    size_t bytes;
    assert_true (wm_scores_room (0, 10, 4, &room, &bytes) && room == 10 && bytes == 320);
    assert_true (wm_scores_room (10, 11, 4, &room, &bytes) && room == 20 && bytes == 640);
    assert_true (wm_scores_room (10, 10, 0, &room, &bytes) && bytes == 0);
    assert_true (wm_scores_room (1u << 31, (1ull << 31) + 1, 64, &room, &bytes));
    assert_true (room == UINT32_MAX - 1 && bytes == 512ull * (UINT32_MAX - 1));
    assert_true (wm_scores_room (3u << 30, UINT32_MAX - 1ull, 1, &room, &bytes));
    assert_true (room == UINT32_MAX - 1);
    assert_false (wm_scores_room (0, UINT32_MAX, 1, &room, &bytes));
    assert_false (wm_scores_room (0, UINT64_MAX, 1, &room, &bytes));
}

static uint32_t called (const char (*label)[48], uint32_t n, double least, double a, double b,
                        double c, double d)
{
    const double score[8] = { a, -9, b, -9, c, -9, d, -9 }; /* every second one */
    const wm_call_rule_t call = wm_call_rule_new (label, n, least);
    return wm_call_by (&call, score, 2);
}

/* A sigmoid's score does not compete with those of the softmax.  */
static void michel_is_called_from_its_threshold_on (void **state)
{
    static const char last[4][48] = { "track", "em", "none", "michel" };
    static const char first[4][48] = { "michel", "track", "em", "none" };
    static const char others[4][48] = { "a", "b", "c", "d" };
    assert_int_equal (called (last, 4, 0.5, .9, .1, 0, .5), 3);
    assert_int_equal (called (last, 4, 0.5, .1, .2, 0, .49), 1);
    assert_int_equal (called (last, 4, 0.4, .1, .2, 0, .49), 3);
    assert_int_equal (called (last, 4, 0.5, .4, .4, .2, 0), 0);
    assert_int_equal (called (first, 4, 0.5, .5, .9, .1, 0), 0);
    assert_int_equal (called (first, 4, 0.5, .4, .1, .2, .1), 2);
    assert_int_equal (called (others, 4, 0.5, .4, .1, .2, .9), 3);
    assert_int_equal (called (&last[3], 1, 0.5, .1, 0, 0, 0), 0);
    char text[WM_CALL_TEXT_BYTES];
    const wm_call_rule_t call = wm_call_rule_new (last, 4, 0.25);
    assert_string_equal (wm_call_rule_text (&call, text),
                         "michel if its score is at least 0.25, else the largest of the others");
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (room_is_made_up_to_the_most),
                                        cmocka_unit_test (michel_is_called_from_its_threshold_on) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
