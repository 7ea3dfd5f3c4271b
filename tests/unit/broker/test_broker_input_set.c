/* test_broker_input_set.c - sets of inputs.  */
#include "broker/core/wm_input_set.h"
#include "tests/unit/unit.h"

#include <string.h>

static void test_members (void **state)
{
    wm_input_set_t set = { 0 };
    assert_false (wm_input_set_has (&set, 7));
    assert_int_equal (wm_input_set_next (&set, 0), 0);
    wm_input_set_remove (&set, 7);
    wm_input_set_clear (&set);
    wm_input_set_add (&set, 7);
    wm_input_set_add (&set, 100000);
    assert_true (wm_input_set_has (&set, 7) && wm_input_set_has (&set, 100000));
    assert_false (wm_input_set_has (&set, 8) || wm_input_set_has (&set, 1u << 30));
    assert_int_equal (wm_input_set_next (&set, 0), 7);
    assert_int_equal (wm_input_set_next (&set, 7), 100000);
    assert_int_equal (wm_input_set_next (&set, 100000), 0);
    wm_input_set_remove (&set, 7);
    assert_int_equal (wm_input_set_next (&set, 0), 100000);
    wm_input_set_clear (&set);
    assert_int_equal (wm_input_set_next (&set, 0), 0);
    assert_non_null (set.bits);
    wm_input_set_free (&set);
    assert_null (set.bits);
}

int main (void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_members),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
