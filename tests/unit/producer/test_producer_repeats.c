/* test_producer_repeats.c - events that carry another one's run, subrun and event are noticed. */
#include "producer/session/wm_repeats.h"
#include "tests/unit/unit.h"

static void test_names (void **state)
{
    wm_repeats_t *repeats = wm_repeats_new ();
    wm_repeats_at_t first;
    for (uint32_t i = 0; i < 100000; i++) /* the table grows on the way */
        assert_false (wm_repeats_add (repeats, 1 + i / 1000, -1, i % 1000,
                                      (wm_repeats_at_t){ i / 1000, i % 1000 }, &first));
    for (uint32_t i = 0; i < 100000; i += 7) {
        const wm_repeats_at_t at = { i / 1000, i % 1000 };
        assert_false (wm_repeats_add (repeats, 1 + i / 1000, -1, i % 1000, at, &first));
        assert_true (wm_repeats_add (repeats, 1 + i / 1000, -1, i % 1000,
                                     (wm_repeats_at_t){ 5000, i % 1000 }, &first));
        assert_int_equal (first.input, at.input);
        assert_int_equal (first.ordinal, at.ordinal);
    }
    assert_false (wm_repeats_add (repeats, 1, 0, 1, (wm_repeats_at_t){ 5001, 0 }, &first));
    wm_repeats_destroy (&repeats);
    wm_repeats_destroy (&repeats);
    assert_null (repeats);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (test_names) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
