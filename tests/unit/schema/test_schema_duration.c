/* test_schema_duration.c - durations as people type them. */
#include "schema/option/wm_duration.h"
#include "tests/unit/unit.h"

#include <math.h>

static void test_taken (void **state)
{
    static const struct {
        const char *text;
        double seconds;
    } taken[] = {
        { "0", 0 },
        { "90", 90 },
        { "0.25", 0.25 },
        { "90s", 90 },
        { "5ms", 5e-3 },
        { "30m", 1800 },
        { "1.5h", 5400 },
        { "3d", 259200 },
        { "2w", 1209600 },
        { "0:00:00", 0 },
        { "1:30:05", 5405 },
        { "100:0:0", 360000 },
        { "12000d", 1.0368e9 },
        { "1000000000", 1e9 },
    };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (wm_duration_s (taken[i].text) != taken[i].seconds)
            fail_msg ("%s: %g s", taken[i].text, wm_duration_s (taken[i].text));
}

static void test_refused (void **state)
{
    static const char *const refused[] = {
        "",
        "x",
        "s",
        "-1",
        "+1",
        " 1",
        "1 s",
        "1e3",
        "0x10",
        "inf",
        "nan",
        "3y",
        "3hh",
        "3hs",
        "1h30m",
        "1,5h",
        "1.2.3",
        ".",
        "3H",
        "1:2",
        "1:60:00",
        "1:00:60",
        "1::2",
        "1:-2:00",
        "1:00:00x",
        "1:0:0:0",
        "1.5:00:00",
        "12001d",
        "1800w",
        "soon",
        "1:00:0.5",
        "99999999999999999999",
        "9999999:00:00",
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (!isnan (wm_duration_s (refused[i])))
            fail_msg ("'%s' is taken as %g s", refused[i], wm_duration_s (refused[i]));
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_taken),
        cmocka_unit_test (test_refused),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
