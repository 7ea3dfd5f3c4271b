/* test_producer_scores.c - rows of files of scores: room for them, up to the most there may be.  */
#include "producer/files/wm_scores.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* As far as rows are counted in 32 bits, the stride of the scores is that of the rows.  */
static void room_is_made_up_to_the_most (void **state)
{
    (void) state;
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

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (room_is_made_up_to_the_most) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
