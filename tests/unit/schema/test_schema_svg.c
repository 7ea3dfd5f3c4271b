/* test_schema_svg.c - pictures and pages: texts, ticks, what is drawn. */
#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *escaped (const char *text)
{
    char *to = NULL;
    size_t bytes;
    FILE *out = open_memstream (&to, &bytes);
    wm_svg_text (out, text);
    fclose (out);
    return to;
}

static void test_text (void **state)
{
#define BAD "\xef\xbf\xbd"
    static const char *const text[][2] = {
        { "plain 1:2:3", "plain 1:2:3" },
        { "<a b=\"c\">&", "&lt;a b=&quot;c&quot;&gt;&amp;" },
        { "K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80",
          "K\xc3\xb6ln \xe2\x82\xac \xf0\x9f\x98\x80" },
        { "a\x01\n\t\x7f", "a" BAD BAD BAD BAD },
        { "\xff\xc3", BAD BAD },                 /* no UTF-8; cut off */
        { "\xc0\xaf", BAD BAD },                 /* overlong */
        { "\xe0\x80\xaf", BAD BAD BAD },         /* overlong */
        { "\xed\xa0\x80", BAD BAD BAD },         /* half of a pair */
        { "\xf4\x90\x80\x80", BAD BAD BAD BAD }, /* beyond Unicode */
        { "\xe2\x80\xae"
          "5h.serocs",
          BAD "5h.serocs" },     /* turned round */
        { "\xef\xbf\xbf", BAD }, /* XML has none */
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        char *got = escaped (text[i][0]);
        assert_string_equal (got, text[i][1]);
        free (got);
    }
}

static void ticks_are (wm_svg_axis_t axis, uint32_t n_most, const char *wanted)
{
    wm_svg_ticks_t ticks;
    char all[512] = "";
    wm_svg_ticks (&axis, n_most, &ticks);
    assert_true (ticks.n <= n_most);
    for (uint32_t i = 0; i < ticks.n; i++) {
        assert_true (ticks.at[i] >= axis.from * (1 - 1e-6) - 1e-9);
        assert_true (ticks.at[i] <= axis.to * (1 + 1e-6) + 1e-9);
        strcat (strcat (all, i ? " " : ""), ticks.text[i]);
    }
    assert_string_equal (all, wanted);
}

static void test_ticks (void **state)
{
    ticks_are ((wm_svg_axis_t){ 0, 1, false, "" }, 6, "0.0 0.2 0.4 0.6 0.8 1.0");
    ticks_are ((wm_svg_axis_t){ 0, 6000, false, "" }, 8, "0 1000 2000 3000 4000 5000 6000");
    ticks_are ((wm_svg_axis_t){ -0.3, 0.3, false, "" }, 4, "-0.2 0.0 0.2");
    ticks_are ((wm_svg_axis_t){ 4211, 4260, false, "" }, 6, "4220 4230 4240 4250 4260");
    ticks_are ((wm_svg_axis_t){ 1e-9, 1, true, "" }, 16,
               "10⁻⁹ 10⁻⁸ 10⁻⁷ 10⁻⁶ 10⁻⁵ 10⁻⁴ 10⁻³ 10⁻² 10⁻¹ 1");
    ticks_are ((wm_svg_axis_t){ 1e-9, 1, true, "" }, 5, "10⁻⁹ 10⁻⁶ 10⁻³ 1");
    ticks_are ((wm_svg_axis_t){ 1, 1e12, true, "" }, 3, "1 10⁶ 10¹²");
    ticks_are ((wm_svg_axis_t){ 1, 100, true, "" }, 6, "1 10 10²");
    ticks_are ((wm_svg_axis_t){ 1, 1, false, "" }, 6, "");
    ticks_are ((wm_svg_axis_t){ 0, (double) NAN, false, "" }, 6, "");
    ticks_are ((wm_svg_axis_t){ 0, (double) INFINITY, false, "" }, 6, "");
    ticks_are ((wm_svg_axis_t){ 0, 10, true, "" }, 6, ""); /* 0 has no logarithm */
}

static void times_are (double from, double to, uint32_t n_most, const char *wanted)
{
    wm_svg_ticks_t ticks;
    char all[512] = "";
    wm_svg_times (&(wm_svg_axis_t){ from, to, false, "" }, n_most, &ticks);
    assert_true (ticks.n <= n_most);
    for (uint32_t i = 0; i < ticks.n; i++) {
        assert_true (ticks.at[i] >= from && ticks.at[i] <= to);
        strcat (strcat (all, i ? " " : ""), ticks.text[i]);
    }
    assert_string_equal (all, wanted);
}

static void test_times (void **state)
{
    const double day = 86400, nov23 = 1795392000;
    times_are (nov23, nov23 + 40, 6, "Nov 23 00:00:10 00:00:20 00:00:30 00:00:40");
    times_are (nov23 + 60, nov23 + 3661, 8, "00:10 00:20 00:30 00:40 00:50 01:00");
    times_are (nov23 - 7200, nov23 + 7200, 5, "22:00 23:00 Nov 23 01:00 02:00");
    times_are (nov23, nov23 + 9 * day, 5, "Nov 24 Nov 27 Nov 30");
    times_are (nov23, nov23 + 3000 * day, 4, "2027-07-22 2030-04-18 2033-01-13");
    times_are (nov23, nov23, 6, "");
    times_are (0, 1e300, 6, "");
    times_are (1e300, 1e301, 6, "");
    times_are (0, (double) NAN, 6, "");
}

static void fits (bool is_log, double least, double most, double from, double to)
{
    wm_svg_axis_t axis = { .is_log = is_log };
    wm_svg_fit (&axis, least, most);
    assert_float_equal (axis.from, from, 1e-9);
    assert_float_equal (axis.to, to, 1e-9);
}

static void test_fit (void **state)
{
    fits (false, 0.03, 0.97, 0, 1);
    fits (false, -4.2, 17, -5, 20);
    fits (false, 3, 3, 3, 3.2);
    fits (true, 0.7, 4211, 0.1, 10000);
    fits (true, 1, 1, 1, 10);
}

static char *drawn;
static size_t drawn_bytes;

static wm_svg_t plot_of (wm_svg_axis_t x, wm_svg_axis_t y)
{
    free (drawn);
    wm_svg_t plot = { .out = open_memstream (&drawn, &drawn_bytes),
                      .title = "A & B",
                      .about = "<1>",
                      .x = x,
                      .y = y };
    wm_svg_begin (&plot);
    return plot;
}

static void plot_close (wm_svg_t *plot)
{
    wm_svg_end (plot);
    fclose (plot->out);
}

static void has (const char *text, bool wanted)
{
    if (!strstr (drawn, text) == wanted)
        fail_msg ("%s %s in %s", text, wanted ? "is not" : "is", drawn);
}

static void test_plot (void **state)
{
    const uint64_t count[] = { 0, 5, 5, 1000, 10 };
    wm_svg_t plot = plot_of ((wm_svg_axis_t){ 0, 1, false, "score \"em\"" },
                             (wm_svg_axis_t){ 0.5, 1000, true, "hits" });
    wm_svg_histogram (&plot, count, 5, "#123456", true);
    wm_svg_line (&plot, 0, 1, 1, 1, "#abcdef", true);
    wm_svg_line (&plot, 0, 1, 2, 1, "#fedcba", true); /* beyond the axis */
    wm_svg_line (&plot, 0, (double) NAN, 1, 1, "#fedcba", true);
    wm_svg_legend (&plot, (const wm_svg_entry_t[]){ { "mine", "#123456", .is_filled = true } }, 1);
    plot_close (&plot);
    has ("<title>A &amp; B</title>", true);
    has ("aria-label=\"A &amp; B: &lt;1&gt;\"", true);
    has ("score &quot;em&quot;</text>", true);
    has ("stroke=\"#abcdef\" stroke-dasharray", true);
    has ("#fedcba", false);
    has (">mine</text>", true);
    has ("nan", false);
    /* five bins, two of one height: the frame's bottom, up, top, down, and back to the bottom */
    const double w = (plot.right - plot.left) / 5;
    char path[200];
    snprintf (path, sizeof path, "H%.1fV%.1fH%.1fV%.1fH%.1fV%.1fH%.1fV%.1fH%.1fV%.1f\"/>",
              plot.left, plot.bottom, plot.left + w, wm_svg_y (&plot, 5), plot.left + 3 * w,
              plot.top, plot.left + 4 * w, wm_svg_y (&plot, 10), plot.right, plot.bottom);
    has (path, true);
}

/* Bars are cut to the frame, or left out, and never too thin to be seen; rows have names.  */
static void test_bars (void **state)
{
    static const char *const name[] = { "<first>", "second" };
    free (drawn);
    wm_svg_t plot = { .out = open_memstream (&drawn, &drawn_bytes),
                      .title = "A",
                      .is_time = true,
                      .row = name,
                      .n_row = 2,
                      .x = { 1795392000, 1795392060, false, "time" },
                      .y = { 0, 2, false, "" } };
    wm_svg_begin (&plot);
    wm_svg_bar (&plot, 0, 1e11, 1, 2, "#111111", 0.5);
    wm_svg_bar (&plot, 1795392001, 1795392001, 0, 1, "#222222", 1);
    wm_svg_bar (&plot, 1795392061, 1795392070, 0, 1, "#333333", 1);
    wm_svg_bar (&plot, (double) NAN, (double) NAN, 5, 6, "#444444", 1);
    plot_close (&plot);
    char text[160];
    snprintf (text, sizeof text, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"",
              plot.left, plot.top, plot.right - plot.left, (plot.bottom - plot.top) / 2);
    has (text, true);
    has (" width=\"1.0\"", true);
    has ("#333333", false);
    has ("#444444", false);
    has (">&lt;first&gt;</text>", true);
    has (">00:00:30</text>", true);
    snprintf (text, sizeof text, "y=\"%.1f\">second</text>", wm_svg_y (&plot, 0.5) + 4);
    has (text, true);
}

/* The first decade is for 0; a tick beside it is left out where the texts would touch.  */
static void test_zero (void **state)
{
    for (int crowded = 0; crowded < 2; crowded++) {
        wm_svg_t plot =
            plot_of ((wm_svg_axis_t){ 1, 1, false, "" }, (wm_svg_axis_t){ 0, 1, false, "" });
        plot_close (&plot);
        plot.x = (wm_svg_axis_t){ crowded ? 1e-13 : 1e-4, 1, true, "difference" };
        plot.zero = "zero";
        free (drawn);
        plot.out = open_memstream (&drawn, &drawn_bytes);
        wm_svg_begin (&plot);
        plot_close (&plot);
        has (">zero</text>", true);
        has (">10⁻⁶</text>", crowded);
        has (">10⁻³</text>", true);
        has (">10⁻⁴</text>", false);
        has (">10⁻¹²</text>", false);
        has (">10⁻¹³</text>", false);
    }
}

static void test_density (void **state)
{
    static const uint64_t count[6] = { 0, 1, 0, 0, 1000, 1 }; /* two rows of three */
    wm_svg_t plot =
        plot_of ((wm_svg_axis_t){ 0, 1, false, "a" }, (wm_svg_axis_t){ 0, 1, false, "b" });
    wm_svg_density (&plot, count, 3, 2);
    plot_close (&plot);
    const double w = (plot.right - plot.left) / 3, h = (plot.bottom - plot.top) / 2;
    char path[240];
    snprintf (path, sizeof path, "#d6e4f2\" d=\"M%.1f %.1fh%.2fv%.2fh-%.2fzM%.1f %.1fh",
              plot.left + w, plot.bottom - h, w, h, w, plot.left + 2 * w, plot.top);
    has (path, true); /* light: the cells that have one, the lower one first */
    snprintf (path, sizeof path, "#08274f\" d=\"M%.1f %.1fh", plot.left + w, plot.top);
    has (path, true);
}

static void test_colours (void **state)
{
    static const char *const label[] = { "track", "em", "michel", "none", "a", "b" };
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal (wm_svg_colour (label[i], 0), wm_svg_colour (label[k], 0));
    assert_string_equal (wm_svg_colour ("em", 7), "#a81420");
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal (wm_svg_colour ("a", i), wm_svg_colour ("a", k));
    assert_string_equal (wm_svg_colour ("a", 0), wm_svg_colour ("a", 8));
}

static void test_page (void **state)
{
    char *page = NULL;
    size_t bytes;
    FILE *out = open_memstream (&page, &bytes);
    wm_page_begin (out, "1 < 2");
    wm_page_put (out, "td class=\"n\"", "%d %s", 5, "<b>");
    wm_page_print (out, "%s", "&");
    wm_page_table (out, "a & b");
    wm_page_table_end (out);
    wm_page_pictures (out);
    wm_page_pictures_end (out);
    wm_page_end (out);
    fclose (out);
    assert_memory_equal (page, "<!doctype html>\n<html lang=\"en\">", 31);
    assert_non_null (strstr (page, "<title>1 &lt; 2</title>"));
    assert_non_null (strstr (page, "<h1>1 &lt; 2</h1>"));
    assert_non_null (strstr (page, "<td class=\"n\">5 &lt;b&gt;</td>\n&amp;<div"));
    assert_non_null (strstr (page, "<caption>a &amp; b</caption>"));
    assert_non_null (strstr (page, "default-src 'none'"));
    assert_null (strstr (page, "http:"));
    assert_null (strstr (page, "<script"));
    assert_string_equal (page + bytes - 8, "</html>\n");
    free (page);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_text),    cmocka_unit_test (test_ticks),
        cmocka_unit_test (test_fit),     cmocka_unit_test (test_plot),
        cmocka_unit_test (test_density), cmocka_unit_test (test_colours),
        cmocka_unit_test (test_page),    cmocka_unit_test (test_zero),
        cmocka_unit_test (test_times),   cmocka_unit_test (test_bars),
    };
    const int failed = cmocka_run_group_tests (tests, NULL, NULL);
    free (drawn);
    return failed;
}
