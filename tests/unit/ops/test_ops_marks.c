/* test_ops_marks.c - marks of the time line: what a broker may send, and how they are drawn.  */
#include "ops/view/wm_marks.h"
#include "ops/view/wm_top.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#define BEGIN_S 1763712000

static wm_history_query_t past;

static int tear_down (void **state)
{
    wm_history_query_clear (&past);
    return 0;
}

/* Takes a page that has these marks, as JSON without the outer brackets.  */
static void take (const char *marks)
{
    char *text = malloc (strlen (marks) + 100);
    sprintf (text, "{\"columns\":[],\"rows\":[],\"marks\":[%s],\"next\":0}", marks);
    json_t *page = json_loads (text, 0, NULL);
    free (text);
    assert_non_null (page);
    assert_true (wm_history_query_take (&past, page, 0));
    json_decref (page);
}

/* So many, each so many seconds after the other.  */
static void take_many (size_t n, unsigned every_s, const char *kind, const char *why)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream (&text, &bytes);
    for (unsigned i = 0; i < n; i++)
        fprintf (out,
                 "%s{\"id\":%u,\"kind\":\"%s\",\"from_s\":%u,\"to_s\":%u,\"n\":1,\"text\":\"%s\"}",
                 i ? "," : "", i + 1, kind, BEGIN_S + i * every_s, BEGIN_S + i * every_s, why);
    fclose (out);
    take (text);
    free (text);
}

static char *drawn (double to_s)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream (&text, &bytes);
    wm_marks_draw (out, &past, &(wm_marks_frame_t){ BEGIN_S, to_s, 0, 100, 0, 100 });
    fclose (out);
    return text;
}

static size_t count (const char *text, const char *what)
{
    size_t n = 0;
    while ((text = strstr (text, what))) {
        text += strlen (what);
        n++;
    }
    return n;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void taken (void **state)
{
    take ("{\"id\":2,\"kind\":\"lost\",\"from_s\":200,\"to_s\":200,\"n\":1,\"text\":\"a\"},"
          "{\"id\":1,\"kind\":\"paused\",\"from_s\":100,\"to_s\":100,\"n\":1,\"text\":null}");
    take ("{\"id\":2,\"kind\":\"lost\",\"from_s\":200,\"to_s\":230,\"n\":5,\"text\":\"a\"}");
    assert_int_equal (past.n_mark, 2);
    assert_string_equal (past.mark[0].what->name, "paused");
    assert_string_equal (past.mark[0].text, "");
    assert_float_equal (past.mark[1].n, 5, 0);
    assert_float_equal (past.mark[1].to_s, 230, 0);
}

static void hostile (void **state)
{
    take ("1,null,[],{},{\"id\":1},"
          "{\"id\":-1,\"kind\":\"lost\",\"from_s\":200,\"to_s\":200,\"n\":1,\"text\":\"a\"},"
          "{\"id\":1,\"kind\":\"nosuch\",\"from_s\":200,\"to_s\":200,\"n\":1,\"text\":\"a\"},"
          "{\"id\":1,\"kind\":7,\"from_s\":200,\"to_s\":200,\"n\":1,\"text\":\"a\"},"
          "{\"id\":1,\"kind\":\"lost\",\"from_s\":200,\"to_s\":100,\"n\":1,\"text\":\"a\"},"
          "{\"id\":1,\"kind\":\"lost\",\"from_s\":-5,\"to_s\":100,\"n\":1,\"text\":\"a\"},"
          "{\"id\":1,\"kind\":\"lost\",\"from_s\":5,\"to_s\":1e300,\"n\":1,\"text\":\"a\"},"
          "{\"id\":1,\"kind\":\"lost\",\"from_s\":\"5\",\"to_s\":100,\"n\":1,\"text\":\"a\"},"
          "{\"id\":1,\"kind\":\"lost\",\"from_s\":5,\"to_s\":100,\"n\":0,\"text\":\"a\"}");
    assert_int_equal (past.n_mark, 0);
    take_many (5000, 1, "paused", "<i>&");
    assert_int_equal (past.n_mark, WM_HISTORY_QUERY_MARKS_MAX);
    assert_float_equal (past.mark[past.n_mark - 1].id, 5000, 0);
    assert_float_equal (past.mark[0].id, 5001 - WM_HISTORY_QUERY_MARKS_MAX, 0);
    take ("{\"id\":1,\"kind\":\"lost\",\"from_s\":200,\"to_s\":200,\"n\":1,\"text\":\"late\"}");
    assert_float_equal (past.mark[0].id, 5001 - WM_HISTORY_QUERY_MARKS_MAX, 0);
    take (
        "{\"id\":4999.5,\"kind\":\"lost\",\"from_s\":200,\"to_s\":200,\"n\":1,\"text\":\"half\"}");
    assert_int_equal (past.n_mark, WM_HISTORY_QUERY_MARKS_MAX);
    assert_string_equal (past.mark[past.n_mark - 2].text, "half");
}

/* A letter for each of those that are apart; of close ones as many as have room.  */
static void letters (void **state)
{
    take_many (11, 10, "paused", "<i>");
    char *text = drawn (BEGIN_S + 100);
    assert_int_equal (count (text, "<line "), 11);
    assert_int_equal (count (text, "y=\"11.0\""), 11);
    assert_non_null (strstr (text, "x1=\"30.00\" x2=\"30.00\" y1=\"0.0\" y2=\"100.0\""));
    assert_int_equal (count (text, ">P</text>"), 11);
    assert_null (strstr (text, "<i>"));
    free (text);
    text = drawn (BEGIN_S + 5000); /* 11 within 2 % of it */
    assert_int_equal (count (text, "<line "), 11);
    assert_int_equal (count (text, ">P</text>"), 8);
    assert_int_equal (count (text, "y=\"88.0\""), 1);
    free (text);
    text = drawn (BEGIN_S + 1000000); /* all are one line */
    assert_int_equal (count (text, "<line "), 1);
    free (text);
    assert_int_equal (wm_marks_count (&past, BEGIN_S + 95, BEGIN_S + 100), 1);
}

static const char *second (double unix_s, char text[32])
{
    snprintf (text, 32, "at %.0f", unix_s - BEGIN_S);
    return text;
}

static void tables (void **state)
{
    for (size_t n = 0; n <= 100; n += 50) {
        char *text = NULL;
        size_t bytes;
        if (n)
            take_many (n, 10, "held", "<i>why");
        FILE *out = open_memstream (&text, &bytes);
        wm_marks_table (out, &past, BEGIN_S, BEGIN_S + 1e6, second);
        fclose (out);
        assert_int_equal (count (text, "<tr><th scope=\"row\">H</th>"), n < 60 ? n : 60);
        assert_int_equal (count (text, "the latest 60 of 100"), n == 100);
        assert_int_equal (count (text, "at 990<"), n == 100);
        assert_int_equal (count (text, "at 0<"), n == 50);
        assert_null (strstr (text, "<i>"));
        free (text);
    }
}

static void of_top (void **state)
{
    wm_top_campaign_t campaign = { 0 };
    take_many (3, 7, "lost", "");
    take ("{\"id\":9,\"kind\":\"ended\",\"from_s\":1763712014,\"to_s\":1763712014,\"n\":1,"
          "\"text\":null}");
    wm_top_history (&campaign, &past, BEGIN_S + 15);
    assert_memory_equal (campaign.mark + WM_TOP_BUCKETS - 5, "  LLE", 5);
    wm_top_history (&campaign, &past, BEGIN_S - 100); /* they are to come: the clock was set back */
    for (int i = 0; i < WM_TOP_BUCKETS; i++)
        assert_int_equal (campaign.mark[i], ' ');
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown (taken, tear_down),
        cmocka_unit_test_teardown (hostile, tear_down),
        cmocka_unit_test_teardown (letters, tear_down),
        cmocka_unit_test_teardown (tables, tear_down),
        cmocka_unit_test_teardown (of_top, tear_down),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
