/* test_schema_restart.c - when what failed is tried again, and when it is given up.  */
#include "schema/base/wm_restart.h"
#include "tests/unit/unit.h"

/* Each row is one failure: after so much time since the start, and whether it had worked by then.
   The pauses double to the rule's most; work that lasted begins a new row, quick or idle ends do
   not.  */
static void test_rows (void **state)
{
    static const wm_restart_rule_t rule = { 200, 1000, .quick = 100, .give_up = 5 };
    static const struct {
        int64_t lasted;
        bool has_worked;
        int in_row;
        int64_t pause;
        bool goes_on;
    } row[] = {
        { 5, true, 1, 200, true },      { 99, true, 2, 400, true },  { 100, false, 3, 800, true },
        { 5000, false, 4, 1000, true }, { 0, true, 5, 1000, false }, { 99, true, 6, 1000, false },
        { 100, true, 1, 200, true },    { 100, true, 1, 200, true }, { 1, true, 2, 400, true },
    };
    wm_restart_t self = { 0 };
    int64_t now = 1000000;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        wm_restart_started (&self, now);
        assert_false (wm_restart_is_due (&self, INT64_MAX)); /* it runs */
        now += row[i].lasted;
        const bool goes_on = wm_restart_failed (&self, &rule, now, row[i].has_worked);
        assert_int_equal (goes_on, row[i].goes_on);
        assert_int_equal (self.in_row, row[i].in_row);
        assert_int_equal (self.at, now + row[i].pause);
        assert_false (wm_restart_is_due (&self, self.at - 1));
        assert_true (wm_restart_is_due (&self, self.at));
        now = self.at;
    }
}

/* Without a limit nothing is given up, and no pause overflows; without pauses it is due at once. */
static void test_bounds (void **state)
{
    static const wm_restart_rule_t patient = { .first = 3, .most = INT64_MAX / 4 }, hasty = { 0 };
    wm_restart_t self = { 0 }, other = { 0 };
    for (int i = 0; i < 200; i++) {
        assert_true (wm_restart_failed (&self, &patient, 1, false));
        assert_in_range (self.at, 4, 1 + patient.most);
        assert_true (wm_restart_failed (&other, &hasty, 7, false));
        assert_int_equal (other.at, 7);
    }
    assert_int_equal (self.at, 1 + patient.most);
}

int main (void)
{
    static const struct CMUnitTest tests[] = { cmocka_unit_test (test_rows),
                                               cmocka_unit_test (test_bounds) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
