/* test_broker_input_set.c - sets of inputs, and their text in a campaign's note.  */
#include "broker/core/wm_input_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void test_members (void **state)
{
    (void) state;
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

/* A text, read and printed again.  */
static void reads_as (const char *text, const char *expected)
{
    char printed[WM_INPUT_SET_TEXT_BYTES];
    wm_input_set_t set = { 0 };
    wm_input_set_parse (&set, text);
    wm_input_set_print (&set, printed);
    assert_string_equal (printed, expected);
    wm_input_set_free (&set);
}

static void test_text (void **state)
{
    (void) state;
    reads_as ("-", "-");
    reads_as ("", "-");
    reads_as ("3,7-90", "3,7-90");
    reads_as ("90,3,7-9,8-89", "3,7-90");
    reads_as ("0-2", "1-2");
    reads_as ("5,x,6", "5");
    reads_as ("9-3", "-");
    reads_as ("16777216-999999999", "16777216"); /* no more than 2^24 are believed */
}

static void test_long_text (void **state)
{
    (void) state;
    char printed[WM_INPUT_SET_TEXT_BYTES];
    wm_input_set_t set = { 0 };
    for (uint32_t id = 11; id <= 4001; id += 2)
        wm_input_set_add (&set, id);
    wm_input_set_print (&set, printed);
    assert_string_equal (printed, "11-4001");
    wm_input_set_free (&set);
}

int main (void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_members),
        cmocka_unit_test (test_text),
        cmocka_unit_test (test_long_text),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
