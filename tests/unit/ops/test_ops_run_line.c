/* test_ops_run_line.c - the line that wiremill run redraws: no total that nothing states.  */
#include "ops/view/wm_run_line.h"
#include "tests/unit/unit.h"

#include <string.h>

static const char *drawn (const char *numbers, int width)
{
    static char line[WM_WORDS_WIDTH_MAX + 1];
    json_t *status = json_loads (numbers, 0, NULL);
    assert_non_null (status);
    wm_run_line (status, false, width, line);
    json_decref (status);
    return line;
}

#define OPEN "{\"endpoint\": \"e\", \"inputs\": {\"open\": 1, \"written\": 0, \"total\": 1}, "

/* One input of 1,200 hits, of which 1,045 are announced.  */
static void an_open_input_has_no_total (void **state)
{
    const char *line = drawn (OPEN "\"eta_s\": null, \"rate\": {\"hits_s\": 300}, \"hits\": {"
                                   "\"done\": 865, \"announced\": 1045, \"expected\": null}}",
                              100);
    assert_non_null (strstr (line, "hits 865 of at least 1,045"));
    assert_non_null (strstr (line, "-- %"));
    assert_non_null (strstr (line, "ETA --:--"));
    assert_null (strchr (line, '#'));
}

static void an_estimate_is_named_so (void **state)
{
    const char *line = drawn (OPEN "\"eta_s\": 61, \"rate\": {\"hits_s\": 5}, \"hits\": {"
                                   "\"done\": 865, \"announced\": 1045, \"expected\": 1730}}",
                              100);
    assert_non_null (strstr (line, "hits 865 of about 1,730"));
    assert_non_null (strstr (line, " 50.0 %"));
    assert_null (strstr (line, "--:--"));
    assert_non_null (strstr (line, "[##"));
}

static void the_end_is_whole (void **state)
{
    const char *done = "{\"inputs\": {\"open\": 0, \"written\": 1, \"total\": 1}, \"hits\": {"
                       "\"done\": 1200, \"announced\": 1200, \"expected\": 1200}}";
    assert_non_null (strstr (drawn (done, 100), "100.0 %"));
    assert_non_null (strstr (drawn (done, 100), "hits 1,200 of 1,200"));
    for (int width = 10; width < 110; width++)
        assert_true (strlen (drawn (done, width)) <= (size_t) width);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (an_open_input_has_no_total),
                                        cmocka_unit_test (an_estimate_is_named_so),
                                        cmocka_unit_test (the_end_is_whole) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
