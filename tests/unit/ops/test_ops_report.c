/* test_ops_report.c - the history as numbers, and the page of a campaign: many workers, few, none;
   hostile names; hours and minutes. */
#include "ops/view/wm_report.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOW_S 1795420000.0 /* 2026-11-23 07:46:40 */

/* A row with these counts, one batch below 4 ms at each step, and one above all.  */
static json_t *row (double begin_s, double span_s, double hits, double lost)
{
    json_t *step = json_pack ("[i, f, []]", 2, 20.002);
    for (int b = 0; b < 16; b++)
        json_array_append_new (json_array_get (step, 2), json_integer (b == 2 || b == 15));
    return json_pack ("[f, f, f, f, f, i, f, o]", begin_s, span_s, span_s, hits, lost, 3,
                      span_s * 2, step);
}

static json_t *worker (const char *label, const char *device, double from_s, double to_s,
                       const char *why)
{
    return json_pack ("{s:s, s:s, s:s, s:b, s:f, s:f, s:i, s:i, s:f, s:f, s:s?}", "worker", label,
                      "signature", "sparse/v1", "device", device, "connected", 0, "from_s", from_s,
                      "to_s", to_s, "batches", 3, "hits", 4000, "busy_s", (to_s - from_s) / 2,
                      "cpu_s", 3600.0, "why", why);
}

static json_t *history_new (void)
{
    return json_pack ("{s:[s, s, s, s, s, s, s, s, s], s:[], s:[], s:i}", "columns", "begin_s",
                      "span_s", "up_s", "hits", "lost", "workers_max", "busy_s", "compute",
                      "of a later release", "rows", "workers", "workers_dropped", 0);
}

static void add (json_t *history, const char *list, json_t *one)
{
    json_array_append_new (json_object_get (history, list), one);
}

static char *page (const json_t *status, const json_t *history)
{
    char *text = NULL;
    size_t bytes;
    wm_report_t report = {
        .status = status, .folder = "", .where = "out", .no_scores = "none", .now_s = (time_t) NOW_S
    };
    FILE *out = open_memstream (&text, &bytes);
    assert_true (wm_history_query_take (&report.history, history, 0));
    assert_true (wm_history_query_take_workers (&report.history, history));
    wm_report_write (&report, out);
    wm_history_query_clear (&report.history);
    fclose (out);
    return text;
}

static size_t count (const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr (at, what)); at++)
        n++;
    return n;
}

/* One look at the page of this history; everything is freed.  */
static void page_has (json_t *history, const char *const *wanted)
{
    json_t *status = json_pack ("{s:{s:s, s:s}, s:{s:i, s:i}, s:{s:i}, s:s}", "campaign", "serves",
                                "files", "state", "finished", "inputs", "total", 1, "written", 1,
                                "hits", "done", 70000, "dir", "/x/<i>.wiremill");
    char *text = page (status, history);
    for (; *wanted; wanted++)
        if (!strstr (text, *wanted))
            fail_msg ("not on the page: %s\n%s", *wanted, text);
    assert_null (strstr (text, "<i>"));
    assert_null (strstr (text, "nan\""));
    assert_null (strstr (text, ">nan"));
    free (text);
    json_decref (history);
    json_decref (status);
}

static void test_numbers (void **state)
{
    wm_history_query_t h = { 0 };
    wm_history_query_row_t sum;
    json_t *history = history_new ();
    add (history, "rows", row (0, 0, 500, 0));
    add (history, "rows", row (NOW_S - 7200, 3600, 36000, 0));
    add (history, "rows", row (NOW_S - 60, 120, 1200, 2));
    add (history, "workers", worker ("a", "CPU", NOW_S - 50, NOW_S, NULL));
    add (history, "workers", worker ("b", "CPU", NOW_S - 50, NOW_S - 51, NULL)); /* no time */
    assert_true (wm_history_query_take (&h, history, 0));
    assert_true (wm_history_query_take_workers (&h, history));
    wm_history_query_sum (&h, 0, &sum);
    assert_int_equal (h.n_row, 2);
    assert_int_equal (h.n_worker, 1);
    assert_float_equal (h.hits_before, 500, 0);
    assert_float_equal (sum.hits, 37200, 0);
    assert_float_equal (sum.up_s, 3720, 0);
    assert_float_equal (sum.lost, 2, 0);
    assert_float_equal (sum.workers_max, 3, 0);
    assert_float_equal (sum.begin_s, NOW_S - 7200, 0);
    wm_history_query_work_t work; /* without the time in which no worker was busy */
    wm_history_query_work (&h, &work);
    assert_float_equal (work.from_s, NOW_S - 7200, 0);
    assert_float_equal (work.to_s, NOW_S + 60, 0);
    assert_float_equal (work.worked_s, 3720, 0);
    assert_float_equal (work.hits_s, 10, 0);
    h.row[1].hits = h.row[1].busy_s = 0;
    wm_history_query_work (&h, &work);
    assert_float_equal (work.to_s, NOW_S - 3600, 0);
    assert_float_equal (work.hits_s, 10, 0);
    assert_float_equal (work.worked_s, 3600, 0);
    const wm_history_query_latency_t *compute = &sum.step[WM_HISTORY_QUERY_COMPUTE];
    assert_float_equal (compute->n, 4, 0);
    assert_float_equal (compute->sum_s, 40.004, 1e-9);
    assert_float_equal (wm_history_query_quantile (compute, 0.5), 0.004, 1e-9);
    assert_true (isinf (wm_history_query_quantile (compute, 0.9)));
    assert_float_equal (wm_history_query_quantile (&sum.step[WM_HISTORY_QUERY_STAGE], 0.5), 0, 0);
    wm_history_query_clear (&h);
    wm_history_query_clear (&h);
    json_decref (history);
}

/* What a broken or hostile broker may send is no number, and nothing else.  */
static void test_nonsense (void **state)
{
    static const char *const text[] = {
        "{}",
        "[]",
        "{\"columns\": 3, \"rows\": {\"a\": 1}, \"workers\": [1, [], {\"from_s\": \"x\"}]}",
        "{\"columns\": [1, null, \"begin_s\", \"span_s\", \"compute\"], \"rows\": [3, null, [1], "
        "[0, 0, -5, 60, 7], [0, 0, 1e300, 1e300, [1, 2, {}]], [0, 0, 5, 1e-300, [1e999]]]}",
        "{\"workers\": [{\"worker\": null, \"from_s\": 1, \"to_s\": 1e300, \"busy_s\": 1e300}]}",
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        json_t *history = json_loads (text[i], 0, NULL);
        json_t *status = json_object ();
        char *got = page (status, history);
        assert_non_null (strstr (got, "</html>"));
        free (got);
        json_decref (status);
        json_decref (history);
    }
}

static void test_throughput (void **state)
{
    json_t *history = history_new ();
    /* An hour of 10 hits/s, then a minute of 20.  */
    const double begin_s = floor (NOW_S / 3600) * 3600;
    add (history, "rows", row (begin_s - 3600, 3600, 36000, 1));
    add (history, "rows", row (begin_s, 60, 1200, 0));
    page_has (history, (const char *const[]){
                           "37,200 hits from 2026-11-23 06:00:00 UTC to 2026-11-23 07:01:00 "
                           "UTC: 10 hits/s in the 1 h 1 min in which workers had batches.",
                           "at most 20 hits/s in 15 s", "Workers over time",
                           "No worker has connected since the history began.",
                           "<td class=\"n\">below 4 ms</td>", ">above 16 s<",
                           "<td class=\"w\">2026-11-23 06:00 UTC</td>", NULL });
    history = history_new ();
    json_t *idle = row (begin_s, 60, 0, 0);
    json_array_set_new (idle, 6, json_integer (0)); /* busy_s */
    add (history, "rows", idle);
    page_has (history, (const char *const[]){
                           "<p>No worker has had a batch since the history began.</p>", NULL });
}

/* Workers with a batch are drawn in parts of a worker: 0.4 of one is not none.  */
static void test_part_of_a_worker (void **state)
{
    json_t *history = history_new (), *half = row (NOW_S - 120, 60, 1200, 0);
    json_array_set_new (half, 6, json_real (24)); /* of 60 s */
    add (history, "rows", half);
    add (history, "rows", row (NOW_S - 60, 60, 1200, 0));
    page_has (history, (const char *const[]){ "M33.0 192.0H33.0V175.2", NULL });
}

/* Times are of whole seconds: what came and went in one was there for a part of it.  */
static void test_short_worker (void **state)
{
    json_t *history = history_new ();
    add (history, "rows", row (NOW_S - 60, 60, 1200, 0));
    add (history, "workers", worker ("a", "CPU", NOW_S - 60, NOW_S - 60, NULL));
    page_has (history, (const char *const[]){ "<td class=\"n\">below 1 s</td>", NULL });
}

/* Rows are called what they are.  */
static void test_windows (void **state)
{
    json_t *history = history_new ();
    for (int i = 0; i < 2; i++)
        add (history, "rows", row (NOW_S - 120 + 60 * i, 60, 1200, 0));
    add (history, "workers", worker ("a", "CPU", NOW_S - 60, NOW_S, NULL));
    json_t *status = json_loads (
        "{\"campaign\": {\"rows\": \"windows\"}, \"hits\": {\"done\": 2400, \"held\": 1, "
        "\"expected\": 2402}, \"inputs\": {\"total\": 2, \"open\": 1}, "
        "\"rows\": {\"sparse/v1\": 2400}, "
        "\"held\": [{\"path\": \"a\"}], \"held_total\": 1, \"held_files_left_out\": 1, "
        "\"held_files\": [{\"path\": \"b\", \"held\": 1, \"hits\": 3, \"reasons\": {\"x\": 1}}]}",
        0, NULL);
    char *text = page (status, history);
    assert_non_null (
        strstr (text, " 99.9 % of the windows that are known are scored")); /* not 100.0 */
    assert_non_null (strstr (text, "2,400 windows from "));
    assert_non_null (strstr (text, ": 20 windows/s in the "));
    assert_non_null (strstr (text, "Windows scored per second: "));
    assert_non_null (strstr (text, "Held: 1 window. "));
    assert_non_null (strstr (text, "For a million windows"));
    assert_int_equal (count (text, ">Windows</th>"), 5);
    assert_null (strstr (text, "hits"));
    assert_null (strstr (text, "Hits"));
    free (text);
    json_decref (status);
    json_decref (history);
}

static void test_few_workers (void **state)
{
    json_t *history = history_new ();
    add (history, "rows", row (NOW_S - 60, 60, 1e6, 0));
    add (history, "workers", worker ("a<i>", "CPU", NOW_S - 7200, NOW_S - 3600, NULL));
    add (history, "workers", worker ("a<i>", "CPU", NOW_S - 3000, NOW_S, "failed <i>"));
    add (history, "workers",
         worker ("one whose name is very long, longer than a row of the picture has room for",
                 "NVIDIA H200", NOW_S - 3600, NOW_S, NULL));
    json_object_set_new (json_array_get (json_object_get (history, "workers"), 0), "ended",
                         json_true ());
    json_object_set_new (history, "workers_dropped", json_integer (1234));
    page_has (history,
              (const char *const[]){ ": 2 workers, 3 connections;", ">a&lt;i&gt;</text>",
                                     ">... picture has room for</text>", ">failed &lt;i&gt;<",
                                     "1,234 earlier connections of workers are not kept.",
                                     "not in this table: 988,000 hits. They were scored over "
                                     "earlier connections, or in ",
                                     "<td>with its broker</td>", "<td>left</td>", ">3.000 h<",
                                     ">1.000 h<", ">0.500 h<", NULL });
}

static void test_many_workers (void **state)
{
    char label[24];
    json_t *history = history_new ();
    for (int i = 0; i < 300; i++) {
        snprintf (label, sizeof label, "node%d:%d", i / 8, i % 8);
        add (history, "workers", worker (label, "CPU", NOW_S - 7200 + i, NOW_S - i, NULL));
    }
    json_t *status = json_object ();
    char *text = page (status, history);
    assert_non_null (strstr (text, "300 workers in 38 rows of up to 8"));
    assert_int_equal (count (text, " and 7</text>"), 37);
    assert_int_equal (count (text, "node37:0 and 3</text>"), 1);
    assert_non_null (strstr (text, "node10:0 and 7")); /* 10 after 9, not after 1 */
    assert_true (strstr (text, "node9:0 and 7") < strstr (text, "node10:0 and 7"));
    assert_non_null (strstr (text, "20 of 300: "));
    assert_true (strlen (text) < 300000);
    free (text);
    json_decref (status);
    json_decref (history);
}

static void test_no_history (void **state)
{
    page_has (json_object (),
              (const char *const[]){ "The campaign has no history of its times", "Finished",
                                     "Times and bytes sent are not known", NULL });
}

/* More inputs than squares share them; the worst of those is seen.  */
static void test_files (void **state)
{
    char *text = NULL, path[32];
    size_t bytes, squares = 0;
    FILE *out = open_memstream (&text, &bytes);
    wm_report_files_t *files = wm_report_files_new ();
    for (int i = 0; i < 4001; i++) {
        snprintf (path, sizeof path, "f%d<.h5", i);
        json_t *file =
            json_pack ("{s:s, s:s, s:s, s:i, s:i, s:i}", "path", path, "state",
                       i == 2999 ? "held" : "written", "why", i == 2999 ? "a \"text\"" : "", "hits",
                       1000, "scored", i == 8 ? 990 : 1000, "held", i == 8 ? 10 : 0);
        wm_report_files_add (files, file, i == 8 ? "e.html" : NULL);
        json_decref (file);
    }
    wm_report_files_write (files, "hits", out);
    wm_report_files_free (files);
    fclose (out);
    for (const char *at = text; (at = strstr (at, "title=\"inputs ")); at++)
        squares++;
    assert_int_equal (squares, 1000);
    assert_non_null (strstr (text, "A square stands for 4 inputs"));
    assert_non_null (strstr (text, "<span class=\"held\" title=\"inputs 2997 to 3000: 3 written; "
                                   "1 held; such as f2999&lt;.h5: held: a &quot;text&quot;\">H"));
    assert_non_null (strstr (text, "<span class=\"partly\" title=\"inputs 9 to 12: 3 written; 1"));
    assert_non_null (strstr (text, "title=\"f4000&lt;.h5: written\">W")); /* alone in the last */
    assert_non_null (strstr (text, "written: 3,999</small>"));
    assert_non_null (strstr (text, "The first 500 of 4,001 inputs"));
    assert_non_null (strstr (text, "<td class=\"n\">1.00%</td>"));
    assert_non_null (strstr (text, "<a href=\"e.html\">event</a>"));
    free (text);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_files),        cmocka_unit_test (test_numbers),
        cmocka_unit_test (test_nonsense),     cmocka_unit_test (test_throughput),
        cmocka_unit_test (test_few_workers),  cmocka_unit_test (test_part_of_a_worker),
        cmocka_unit_test (test_short_worker), cmocka_unit_test (test_many_workers),
        cmocka_unit_test (test_no_history),   cmocka_unit_test (test_windows),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
