/* test_ops_serve.c - the page of `wiremill serve`: its texts, its history; and its password.  */
#include "ops/ask/wm_history_query.h"
#include "ops/serve/wm_live.h"
#include "ops/serve/wm_password.h"
#include "ops/serve/wm_throttle.h"
#include "tests/unit/unit.h"

#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char *page_of (const char *status, const char *note, const wm_history_query_t *past)
{
    size_t bytes;
    const wm_history_query_t none = { 0 };
    wm_top_campaign_t campaign = { .status = status ? json_loads (status, 0, NULL) : NULL };
    assert_true (!status || campaign.status);
    snprintf (campaign.note, sizeof campaign.note, "%s", note);
    char *text = wm_live_page (&campaign, past ? past : &none, "", 5, &bytes);
    assert_int_equal (bytes, strlen (text));
    json_decref (campaign.status);
    return text;
}

static void has (const char *page, const char *text)
{
    if (!strstr (page, text))
        fail_msg ("not in the page: %s", text);
}

#define BROKER                                                                                     \
    "\"endpoint\":\"tcp://h:1\",\"dir\":\"/d/<i>.wiremill\",\"campaign\":{\"state\":\"running\"}"

static char *held_of (const json_t *list, const char *query)
{
    size_t bytes;
    char *text = wm_live_held_page (list, list, 3, "/c/x", query, &bytes);
    assert_int_equal (bytes, strlen (text));
    return text;
}

static size_t rows_of (const char *page)
{
    size_t n = 0;
    for (; (page = strstr (page, "<tr><th scope=\"row\">")); page++)
        n++;
    return n;
}

/* 450 inputs, a batch, and hits of a file: pages of 200 rows, words, reasons.  */
static void test_held (void **state)
{
    json_t *list = json_loads (
        "{\"dir\":\"/d/o.wiremill\",\"held_total\":460,\"hits\":"
        "{\"held\":7},\"held\":[],\"held_files_left_out\":5,\"held_files\":"
        "[{\"path\":\"/in/\\\"<b>.h5\",\"state\":\"written\",\"output\":"
        "\"b.scores.h5\",\"page\":\"<\\\".html\",\"held\":7,\"reasons\":{\"bad time\":4,"
        "\"bad wire\":3}},{\"path\":\"/in/open.h5\",\"state\":\"open\","
        "\"held\":2}]}",
        0, NULL);
    json_t *held = json_object_get (list, "held");
    for (int i = 0; i < 450; i++) {
        char path[32];
        snprintf (path, sizeof path, "/in/%03d.h5", i);
        json_array_append_new (held, json_pack ("{s:s, s:s, s:s}", "state", "input", "path", path,
                                                "reason", "truncated: it has 3 bytes"));
    }
    json_array_append_new (held,
                           json_pack ("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:s}", "state", "batch",
                                      "path", "/in/b.h5", "run", 1, "subrun", 2, "event", 3,
                                      "batch", 4, "hits", 64, "reason", "<i>: x"));
    char *page = held_of (list, "");
    assert_int_equal (rows_of (page), 200);
    has (page, "<caption>1 to 200 of 454 rows</caption>");
    has (page, "<option value=\"truncated\">truncated (450)</option>");
    has (page, "<option value=\"&lt;i&gt;\">");
    has (page, "<a href=\"?q=&amp;reason=&amp;page=2\">next page</a>");
    has (page, "Not in the list: 9 inputs or batches.");
    has (page, "Not in the list: the hits of 5 files.");
    assert_null (strstr (page, "previous page"));
    free (page);
    page = held_of (list, "page=3");
    assert_int_equal (rows_of (page), 54);
    has (page,
         "event 1:2:3, batch 4</td>\n<td class=\"n\" data-v=\"64\">64</td><td>&lt;i&gt;: x</td>");
    has (page, "data-v=\"4\">4</td><td>bad time<small>named in the table &quot;held&quot; of b.sc");
    has (page, "<a href=\"/c/x/event/%3C%22%2Ehtml\">page of its events</a></td></tr>");
    has (page, "data-v=\"2\">2</td><td>known once its output is written</td>");
    has (page, "page=2\">previous page");
    assert_null (strstr (page, "next page"));
    free (page);
    page = held_of (list, "reason=bad+wire&q=%22%3CB");
    assert_int_equal (rows_of (page), 1);
    has (page, "<option value=\"bad wire\" selected>");
    has (page, "value=\"&quot;&lt;B\">");
    free (page);
    page = held_of (list, "q=/in/0&reason=truncated&page=9"); /* beyond the last */
    assert_int_equal (rows_of (page), 100);
    free (page);
    page = held_of (list, "q=h5&xq=1&page=1");
    has (page, "?q=h5&amp;reason=&amp;page=2");
    free (page);
    json_decref (list);
}

static void test_workers (void **state)
{
    char *page =
        page_of ("{" BROKER ",\"workers_total\":300,\"waiting_for\":\"no worker\",\"workers\":"
                 "[{\"label\":\"</th><script>\",\"signature\":\"e\\\"<\",\"state\":\"lost\","
                 "\"why\":\"a&b\",\"hits_s\":12345,\"gpu\":{\"gpu\":\"NVIDIA H200\","
                 "\"temperature_c\":61,\"power_w\":400.4,\"load\":\"x\"}}]}",
                 "", NULL);
    has (page, "<title>&lt;i&gt;: running");
    has (page, "<strong>running</strong> no worker is connected");
    has (page, "<th scope=\"row\">&lt;/th&gt;&lt;script&gt;</th><td>H200: e&quot;&lt;</td>");
    has (page, "data-v=\"12345\">12.3k</td>");
    has (page, "data-v=\"61\">61&nbsp;&deg;C</td>");
    has (page, "data-v=\"-1\">&#8211;</td>"); /* a load that is no number */
    has (page, "<span class=\"bad-text\">lost: a&amp;b</span>");
    has (page, "1 of 300 workers: the broker lists those that it sends away first");
    assert_null (strstr (page, "</th><script>"));
    free (page);
}

static void test_lists (void **state)
{
    char *page = page_of (
        "{" BROKER ",\"held_total\":2,\"hits\":{\"held\":7},\"inputs\":{\"total\":3,\"open\":1},"
        "\"held\":[{\"path\":\"a.h5\",\"state\":\"batch\",\"run\":1,\"subrun\":2,\"event\":3,"
        "\"batch\":4,\"hits\":7,\"reason\":\"a.h5: <b>\"},"
        "{\"path\":\"c.h5\",\"state\":\"changed\"}],"
        "\"producers\":[{\"label\":\"p\",\"late_s\":90,\"asked\":5}],"
        "\"open\":[{\"path\":\"o.h5\",\"why\":\"its producer is lost\",\"hits\":2}],"
        "\"checks\":{\"suspects\":\"x and <y>\"}}",
        "it's <gone>", NULL);
    has (page, "event 1:2:3 batch 4");
    has (page, "<td>&lt;b&gt;</td>"); /* the file's name is not said twice */
    has (page, "changed since it was scored");
    has (page, "no reason given");
    has (page, "<td class=\"bad-text\">does not answer: for 1 min 30 s");
    has (page, "its producer is lost");
    has (page, "<p class=\"bad-text\">SCORES DIFFER: x and &lt;y&gt;");
    has (page, "it's &lt;gone&gt;. The broker answered");
    has (page, "<strong>no answer</strong> the broker does not answer; what follows is old");
    free (page);
}

static void test_nothing (void **state)
{
    char *page = page_of (NULL, "", NULL);
    has (page, "<strong>asking</strong>");
    free (page);
    page = page_of (NULL, "refused", NULL);
    has (page, "<strong>no answer</strong> no broker has answered yet");
    free (page);
    page =
        page_of ("{\"dir\":\"/d\",\"campaign\":{\"state\":\"finished\"},\"inputs\":{\"total\":1},"
                 "\"hits\":{\"done\":5,\"announced\":5}}",
                 "", NULL);
    has (page, "<strong>finished</strong> no broker runs");
    has (page, "value=\"1.0000\"");
    assert_null (strstr (page, "<dt>Rate"));
    free (page);
    page = page_of ("{\"dir\":\"/d\",\"campaign\":{\"state\":\"finished\"},"
                    "\"inputs\":{\"total\":1},"
                    "\"hits\":{\"done\":5,\"announced\":8,\"held\":3},\"held_total\":1,"
                    "\"held\":[{\"path\":\"/i\",\"state\":\"batch\",\"hits\":2}]}",
                    "", NULL);
    has (page, "class=\"state warn\" role=\"status\"><strong>finished</strong> 3 hits and 1 input "
               "or batch are held</div>");
    has (page, "<p>Held one by one: 1 hit; wiremill held lists");
    free (page);
    page = page_of ("{\"campaign\":{\"rows\":\"<i>\",\"state\":\"<i>\"}}", "", NULL);
    has (page, "<strong>&lt;i&gt;</strong>");
    has (page, "last 15 minutes, in &lt;i&gt;/s: ");
    assert_null (strstr (page, "<i>"));
    free (page);
    page =
        page_of ("{" BROKER ",\"workers\":7,\"held\":{},\"said\":[3,null],\"hits\":[]}", "", NULL);
    has (page, "No worker is connected");
    free (page);
}

/* Rows: before the history, an hour, two minutes of which the second is not over.  */
static json_t *history_at (int64_t now_s)
{
    json_t *history =
        json_pack ("{s:[s,s,s,s,s,s,s], s:["
                   "[i,i,f,i,i,i,[i,f,[]]], [I,i,f,i,i,i,[i,f,[i,i]]], [I,i,f,i,i,i,[i,f,[i,i,i]]],"
                   "[I,i,f,i,i,i,[i,f,[i,i,i,i,i,i,i,i,i,i,i,i,i,i,i,i]]]]}",
                   "columns", "begin_s", "span_s", "up_s", "hits", "batches", "fail", "compute",
                   "rows", 0, 0, 0.0, 1000, 10, 5, 0, 0.0, (json_int_t) (now_s - 7200), 3600,
                   3600.0, 7200, 20, 4, 20, 0.02, 20, 0, (json_int_t) (now_s - 120), 60, 60.0, 600,
                   6, 2, 6, 0.012, 0, 5, 1, (json_int_t) (now_s - 60), 60, 30.0, 300, 4, 1, 4, 80.0,
                   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4);
    assert_non_null (history);
    return history;
}

static double hits_of (const wm_history_query_t *past)
{
    wm_history_query_row_t sum;
    wm_history_query_sum (past, 0, &sum);
    return sum.hits;
}

static void rates_are (const wm_history_query_t *past, double from_s, double width_s, size_t n,
                       const double *wanted)
{
    wm_history_query_part_t part[8];
    wm_history_query_spread (past, from_s, width_s, part, n);
    for (size_t i = 0; i < n; i++)
        assert_float_equal (wm_history_query_rate (&part[i]), wanted[i], 1e-3);
}

static void test_history (void **state)
{
    wm_history_query_row_t sum;
    const int64_t now_s = time (NULL);
    const double now = (double) now_s;
    wm_history_query_t past = { 0 };
    assert_float_equal (wm_history_query_begin (&past), 0, 0);
    assert_float_equal (wm_history_query_next (&past), 0, 0);
    json_t *history = history_at (now_s);
    assert_true (wm_history_query_take (&past, history, 0));
    assert_float_equal (wm_history_query_begin (&past), now - 7200, 0);
    assert_float_equal (past.hits_before, 1000, 0);
    assert_float_equal (hits_of (&past), 8100, 0);
    wm_history_query_sum (&past, now - 200, &sum);
    assert_float_equal (sum.fail, 3, 0);
    assert_float_equal (sum.step[WM_HISTORY_QUERY_COMPUTE].n, 10, 0);
    assert_float_equal (sum.step[WM_HISTORY_QUERY_COMPUTE].sum_s, 80.012, 1e-6);
    assert_float_equal (wm_history_query_quantile (&sum.step[WM_HISTORY_QUERY_COMPUTE], 0.5), 0.002,
                        1e-9);
    assert_float_equal (wm_history_query_quantile (&sum.step[WM_HISTORY_QUERY_COMPUTE], 0.6), 0.004,
                        1e-9);
    assert_true (isinf (wm_history_query_quantile (&sum.step[WM_HISTORY_QUERY_COMPUTE], 0.95)));
    assert_float_equal (wm_history_query_quantile (&sum.step[WM_HISTORY_QUERY_COMMIT], 0.5), 0, 0);
    rates_are (&past, now - 120, 30, 4, (const double[]){ 10, 10, 10, -1 }); /* to come */
    rates_are (&past, now - 7200, 3600, 2, (const double[]){ 2, 0.25 });     /* over its width */
    rates_are (&past, now, 10, 2, (const double[]){ -1, -1 });

    char *page = page_of ("{" BROKER ",\"counters\":{\"n_fail\":12}}", "", &past);
    has (page, "<caption>the last hour</caption>");
    has (page, "the worker's own queue</span></th><td class=\"n more\" data-v=\"10\">10");
    has (page, "8.0 s</td><td class=\"n\" data-v=\"0.002\">below 2 ms</td>"
               "<td class=\"n\" data-v=\"1000000\">above 16 s");
    has (page, "failed on a worker</th><td class=\"n\" data-v=\"3\">3</td>"
               "<td class=\"n\" data-v=\"7\">7");
    has (page, "<figure id=\"hours\">");
    has (page, "it is not known when they were scored: 1,000 hits.");
    free (page);

    /* The last two rows may have grown; asked again from there, the others stay.  */
    const double next = wm_history_query_next (&past);
    assert_float_equal (next, now - 120, 0);
    json_array_remove (json_object_get (history, "rows"), 0);
    json_array_remove (json_object_get (history, "rows"), 0);
    wm_history_query_take (&past, history, next);
    assert_float_equal (hits_of (&past), 8100, 0);
    wm_history_query_take (&past, NULL, next); /* nothing is told of them */
    assert_float_equal (hits_of (&past), 8100, 0);
    wm_history_query_take (&past, history, 0); /* the hour is not known any more */
    assert_float_equal (hits_of (&past), 900, 0);
    wm_history_query_take (&past, history, now); /* not asked for */
    assert_float_equal (hits_of (&past), 900, 0);
    /* A ledger that lacks the last minute, or a part of it; then one that has more.  */
    json_t *rows = json_object_get (history, "rows");
    json_t *last = json_incref (json_array_get (rows, 1));
    json_array_remove (rows, 1);
    wm_history_query_take (&past, history, 0);
    assert_float_equal (hits_of (&past), 900, 0);
    json_array_append_new (rows, last);
    json_array_set_new (last, 3, json_integer (200));
    wm_history_query_take (&past, history, 0);
    assert_float_equal (hits_of (&past), 900, 0);
    json_array_set_new (last, 3, json_integer (1000));
    wm_history_query_take (&past, history, 0);
    assert_float_equal (hits_of (&past), 1600, 0);
    wm_history_query_clear (&past);
    json_decref (history);
}

/* Seconds became a minute after the page that ends among them: each hit counts once, in pages that
   are taken one by one and in those that were joined before.  */
static void test_folded (void **state)
{
    wm_history_query_t past = { 0 };
    json_t *first = json_pack ("{s:[s,s,s], s:[[i,i,i], [i,i,i], [i,i,i]]}", "columns", "begin_s",
                               "span_s", "hits", "rows", 540, 60, 1000, 600, 1, 1, 601, 1, 2);
    json_t *second = json_pack ("{s:[s,s,s], s:[[i,i,i], [i,i,i]]}", "columns", "begin_s", "span_s",
                                "hits", "rows", 600, 60, 7, 660, 1, 100);
    for (int i = 0; i < 2; i++) { /* the second time all of it is known already */
        wm_history_query_take (&past, first, i ? 540 : 0);
        wm_history_query_take (&past, second, 602);
        assert_float_equal (hits_of (&past), 1107, 0);
        assert_int_equal (past.n_row, 3);
    }
    wm_history_query_clear (&past);
    json_array_extend (json_object_get (first, "rows"), json_object_get (second, "rows"));
    wm_history_query_take (&past, first, 0);
    assert_float_equal (hits_of (&past), 1107, 0);
    wm_history_query_clear (&past);
    json_decref (first);
    json_decref (second);
}

/* A minute in which the broker was started is served at its end.  */
static void test_first_minute (void **state)
{
    wm_history_query_t past = { 0 };
    json_t *history =
        json_pack ("{s:[s,s,s,s], s:[[i,i,f,i], [i,i,f,i]]}", "columns", "begin_s", "span_s",
                   "up_s", "hits", "rows", 600, 60, 20.0, 200, 660, 60, 60.0, 60);
    wm_history_query_take (&past, history, 0);
    assert_float_equal (wm_history_query_begin (&past), 640, 0);
    rates_are (&past, 600, 20, 6, (const double[]){ -1, -1, 10, 1, 1, 1 });

    /* One that none follows, of a campaign made in it: from there on.  */
    json_array_remove (json_object_get (history, "rows"), 1);
    wm_history_query_clear (&past);
    wm_history_query_take (&past, history, 0);
    assert_float_equal (wm_history_query_begin (&past), 600, 0); /* not known */
    past.made_s = 620;
    assert_float_equal (wm_history_query_begin (&past), 620, 0);
    rates_are (&past, 600, 20, 3, (const double[]){ -1, 10, -1 });
    past.made_s = 655; /* its clock was wrong: it served for 20 s of this minute */
    assert_float_equal (wm_history_query_begin (&past), 640, 0);
    past.made_s = 17;
    assert_float_equal (wm_history_query_begin (&past), 600, 0);
    json_decref (history);

    /* The page takes that time from the status.  */
    char begin[64];
    const time_t made_s = 9000;
    strftime (begin, sizeof begin, "<th scope=\"row\">%b %d %H:%M</th>", localtime (&made_s));
    history = json_pack ("{s:[s,s,s,s], s:[[i,i,f,i]]}", "columns", "begin_s", "span_s", "up_s",
                         "hits", "rows", 7200, 3600, 20.0, 200);
    wm_history_query_clear (&past);
    wm_history_query_take (&past, history, 0);
    char *page = page_of ("{" BROKER ",\"campaign\":{\"submitted\":9000}}", "", &past);
    has (page, begin);
    free (page);
    json_decref (history);
    wm_history_query_clear (&past);
}

static void test_policy (void **state)
{
    const char *policy = wm_live_policy (false);
    has (policy, "default-src 'none'");
    has (policy, "script-src 'sha256-");
    assert_true (strlen (policy) < 390 && policy == wm_live_policy (false));
}

static void test_throttle (void **state)
{
    static wm_throttle_t throttle;
    const struct sockaddr *at[3];
    struct sockaddr_in v4[2] = { { .sin_family = AF_INET, .sin_addr.s_addr = 0x0100007f },
                                 { .sin_family = AF_INET, .sin_addr.s_addr = 0x0200007f } };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr.s6_addr = { 0x7f, 0, 0, 1 } };
    at[0] = (const struct sockaddr *) &v4[0];
    at[1] = (const struct sockaddr *) &v4[1];
    at[2] = (const struct sockaddr *) &v6;
    for (int64_t now_ms = 1; now_ms < 100000; now_ms += 60000) {
        for (int i = 0; i < WM_THROTTLE_TRIES; i++) {
            assert_true (wm_throttle_allows (&throttle, at[0], now_ms));
            v4[0].sin_port++; /* of another connection */
            wm_throttle_wrong (&throttle, at[0], now_ms);
        }
        assert_false (wm_throttle_allows (&throttle, at[0], now_ms));
        assert_false (wm_throttle_allows (&throttle, at[0], now_ms + 999));
        assert_true (wm_throttle_allows (&throttle, at[0], now_ms + 1000));
        wm_throttle_wrong (&throttle, at[0], now_ms + 1000);
        assert_false (wm_throttle_allows (&throttle, at[0], now_ms + 1999));
        assert_true (wm_throttle_allows (&throttle, at[1], now_ms)); /* others are free */
        assert_true (wm_throttle_allows (&throttle, at[2], now_ms));
    }

    /* More addresses than places: those that guessed most stay.  */
    for (uint32_t i = 0; i < 3 * WM_THROTTLE_ADDRESSES_MAX; i++) {
        v4[1].sin_addr.s_addr = 0x0a + (i << 8);
        wm_throttle_wrong (&throttle, at[1], 60002);
    }
    assert_false (wm_throttle_allows (&throttle, at[0], 60002));
    for (int i = 0; i < WM_THROTTLE_TRIES; i++)
        wm_throttle_wrong (&throttle, at[1], 60002);
    assert_false (wm_throttle_allows (&throttle, at[1], 60002));

    /* Addresses of one network of IPv6 are one.  */
    for (int i = 0; i < WM_THROTTLE_TRIES; i++) {
        v6.sin6_addr.s6_addr[15]++;
        wm_throttle_wrong (&throttle, at[2], 60002);
    }
    assert_false (wm_throttle_allows (&throttle, at[2], 60002));
    v6.sin6_addr.s6_addr[7]++;
    assert_true (wm_throttle_allows (&throttle, at[2], 60002));
}

static void test_password (void **state)
{
    wm_error_t error;
    wm_password_t password;
    char path[] = "/tmp/wm_password_XXXXXX";
    const int fd = mkstemp (path);
    assert_true (fd >= 0);
    static const char line[] = "\n", good[] = " twelve-signs\t\r\nsecond line\n";
    assert_int_equal (write (fd, line, 1), 1);
    assert_int_equal (wm_password_read (&password, path, &error), WM_EUSAGE);
    assert_int_equal (pwrite (fd, good, sizeof good - 1, 0), sizeof good - 1);
    assert_int_equal (wm_password_read (&password, path, &error), WM_OK);
    assert_true (wm_password_is_in (&password, "Bearer twelve-signs"));
    assert_true (wm_password_is_in (&password, "bearer  twelve-signs"));
    assert_true (wm_password_is_in (&password, "Basic eDp0d2VsdmUtc2lnbnM=")); /* x:twelve-signs */
    static const char *const bad[] = { "",
                                       "Bearer",
                                       "Bearer ",
                                       "Bearer twelve-sign",
                                       "Basic",
                                       "Basic ",
                                       "Basic dHdlbHZlLXNpZ25z", /* without a colon */
                                       "Basic !",
                                       "Digest twelve-signs",
                                       "twelve-signs" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false (wm_password_is_in (&password, bad[i]));
    assert_false (wm_password_is_in (&password, NULL));
    close (fd);
    unlink (path);
    assert_int_equal (wm_password_read (&password, path, &error), WM_EUSAGE);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_held),         cmocka_unit_test (test_workers),
        cmocka_unit_test (test_lists),        cmocka_unit_test (test_nothing),
        cmocka_unit_test (test_history),      cmocka_unit_test (test_folded),
        cmocka_unit_test (test_first_minute), cmocka_unit_test (test_policy),
        cmocka_unit_test (test_password),     cmocka_unit_test (test_throttle),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
