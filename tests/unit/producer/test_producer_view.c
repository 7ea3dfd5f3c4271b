/* test_producer_view.c - the picture of a plane: hits as dots, or painted where they are many. */
#include "producer/pictures/wm_plane_view.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

static char *drawn (const wm_plane_view_t *view)
{
    char *to = NULL;
    size_t bytes;
    wm_error_t error;
    FILE *out = open_memstream (&to, &bytes);
    assert_int_equal (wm_view_svg (view, out, 0, &error), WM_OK);
    fclose (out);
    return to;
}

/* Charge stays grey below the colours of hits, which lie at their place, the later class above, and
   end at the plane's edge; the picture counts them as before, and has no dots.  */
static void test_painted (void **state)
{
    wm_error_t error;
    wm_plane_view_t view = { .title = "t",
                             .width = 1060,
                             .height = 560,
                             .n_x = 1060,
                             .n_y = 560,
                             .x = { 1000, 2060, false, "wire" },
                             .y = { 0, 1120, false, "tick" },
                             .n_class = 2 };
    view.class[0] = (wm_view_class_t){ .name = "track", .colour = "#0b5fb4" };
    view.class[1] = (wm_view_class_t){ .name = "em", .colour = "#a81420" };
    view.pixel = malloc ((size_t) view.n_x * view.n_y);
    memset (view.pixel, 255, (size_t) view.n_x * view.n_y);
    assert_int_equal (wm_view_add (&view, 0, 1100, 1118, &error), WM_OK);
    assert_int_equal (wm_view_add (&view, 1, 1101, 1118, &error), WM_OK);
    assert_int_equal (wm_view_add (&view, 0, 2059.9, 0.5, &error), WM_OK);
    char *dots = drawn (&view);
    assert_non_null (strstr (dots, "stroke-linecap"));
    wm_view_paint (&view);
    char *painted = drawn (&view);
    assert_null (strstr (painted, "stroke-linecap"));
    assert_non_null (strstr (painted, ">track 2</text>"));
    assert_non_null (strstr (painted, ">em 1</text>"));
    uint32_t n[256] = { 0 };
    for (uint32_t i = 0; i < view.n_x * view.n_y; i++)
        n[view.pixel[i]]++;
    assert_int_equal (view.pixel[1 * view.n_x + 99], 128);
    assert_int_equal (view.pixel[1 * view.n_x + 101], 129);
    assert_int_equal (view.pixel[560 * view.n_x - 1], 128);
    assert_int_equal (n[128], 3 + 4); /* half below the other; in the corner */
    assert_int_equal (n[129], 9);
    assert_int_equal (n[127], view.n_x * view.n_y - n[128] - n[129]);
    free (dots);
    free (painted);
    wm_view_clear (&view);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (test_painted) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
