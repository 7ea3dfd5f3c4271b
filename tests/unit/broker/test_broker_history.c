/* test_broker_history.c - the history: exact through kills and damage, of bounded size.  */
#include "broker/wm_status.h"
#include "tests/unit/ledger_harness.h"

#include <jansson.h>

#define BEGIN_S (1763712000 / 3600 * 3600)

static wm_tally_t some (uint64_t fail)
{
    wm_tally_t tally = { .count = { [WM_COUNT_UP_MS] = 500, [WM_COUNT_FAIL] = fail } };
    wm_latency_add (&tally.step[WM_STEP_COMPUTE], 20);
    return tally;
}

static void minute (int64_t unix_s, uint64_t fail)
{
    const wm_tally_t tally = some (fail);
    wm_ledger_add_history (ledger, unix_s, &tally, 1, 77);
}

static wm_worker_span_t span_of (uint64_t id)
{
    wm_worker_span_t span = { .id = id, .from_s = BEGIN_S, .to_s = BEGIN_S + 60, .cpu_ms = -1 };
    snprintf (span.label, sizeof span.label, "host/%u", (unsigned) id);
    strcpy (span.signature, "sparse/avx512/fp32/v1");
    strcpy (span.device, "CPU");
    return span;
}

/* ---- what is in it --------------------------------------------------------------------------- */

static struct {
    size_t n, n_hour, n_span;
    uint64_t hits, batches, fail, first_s;
    wm_history_row_t row[8]; /* the first */
    wm_worker_span_t span[4];
} seen;

static bool see_minute (void *argument, const wm_history_row_t *m)
{
    if (seen.n < 8)
        seen.row[seen.n] = *m;
    seen.n++;
    seen.n_hour += m->span_s == 3600;
    seen.hits += m->tally.count[WM_COUNT_HITS];
    seen.batches += m->tally.count[WM_COUNT_BATCHES];
    seen.fail += m->tally.count[WM_COUNT_FAIL];
    return true;
}

static bool see_span (void *argument, const wm_worker_span_t *span)
{
    if (seen.n_span < 4)
        seen.span[seen.n_span] = *span;
    seen.n_span++;
    return true;
}

static void look_from (int64_t from_s)
{
    memset (&seen, 0, sizeof seen);
    assert_int_equal (wm_ledger_minutes (ledger, from_s, see_minute, NULL, &error), WM_OK);
}

static void look (void)
{
    look_from (0);
    assert_int_equal (wm_ledger_spans (ledger, 0, see_span, NULL, &error), WM_OK);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Whatever was committed when it is killed, every result in the journal counts once.  */
static void kills (void **state)
{
    uint64_t n_hit = 0, n_batch = 0;
    start ();
    campaign ();
    input (1, "/in");
    for (uint32_t life = 0; life < 12; life++) {
        if (life % 3)
            minute (BEGIN_S + 40 * life, 1);
        for (uint32_t batch = 0; batch < 6; batch++) {
            result (1, life, batch, 0);
            n_hit += 55 + batch;
            n_batch++;
            if (batch == life % 7)
                commit ();
            if (batch == 4)
                minute (BEGIN_S + 40 * life + 61, 1);
        }
        stop (); /* as a kill: what is not committed is gone */
        start ();
        look ();
        assert_int_equal (seen.hits, n_hit);
        assert_int_equal (seen.batches, n_batch);
    }
    assert_int_equal (seen.row[0].begin_s, 0); /* before the first minute was known */
    assert_true (seen.row[0].tally.count[WM_COUNT_HITS] < n_hit);
}

static void nothing_happens (void **state)
{
    const wm_tally_t served = { .count = { [WM_COUNT_UP_MS] = 500, [WM_COUNT_CPU_MS] = 1 } };
    start ();
    campaign ();
    wm_ledger_add_history (ledger, BEGIN_S, &served, 0, 0);
    look ();
    assert_int_equal (seen.n, 0);
    assert_false (wm_ledger_owes_history (ledger));
    minute (BEGIN_S + 60, 0);
    wm_ledger_add_history (ledger, BEGIN_S + 60, &served, 0, 0); /* of a second that has a row */
    wm_ledger_add_history (ledger, BEGIN_S + 130, &served, 0, 0);
    look ();
    assert_int_equal (seen.n, 1);
    assert_int_equal (seen.row[0].tally.count[WM_COUNT_UP_MS], 1000);
}

/* The clock goes back into minutes that are committed, and that are not.  */
static void clock_set_back (void **state)
{
    start ();
    campaign ();
    minute (BEGIN_S, 1);
    minute (BEGIN_S + 60, 2);
    commit ();
    minute (BEGIN_S + 120, 4);
    minute (BEGIN_S + 180, 8);
    for (int i = 0; i < 4; i++)
        minute (BEGIN_S + 60 * (3 - i), 16);
    look ();
    assert_int_equal (seen.n, 4);
    commit ();
    stop ();
    start ();
    look ();
    assert_int_equal (seen.n, 4);
    assert_int_equal (seen.fail, 15 + 4 * 16);
    for (int i = 0; i < 4; i++) {
        assert_int_equal (seen.row[i].begin_s, BEGIN_S + 60 * i);
        assert_int_equal (seen.row[i].tally.count[WM_COUNT_FAIL], 16 + (1 << i));
        assert_int_equal (seen.row[i].tally.step[WM_STEP_COMPUTE].n, 2);
        assert_int_equal (seen.row[i].tally.step[WM_STEP_COMPUTE].bucket[5], 2);
    }
}

/* A row each minute: it becomes an hour after a week; a year is below 20 MB.  */
static void a_year (void **state)
{
    const unsigned long n = proof_size (12, 365, 365) * 1440;
    start ();
    campaign ();
    commit ();
    for (unsigned long i = 0; i < n; i++) {
        minute (BEGIN_S + 60 * (int64_t) i, 1);
        if (i % 1440 == 1439)
            commit ();
    }
    commit ();
    look ();
    assert_int_equal (seen.fail, n);
    assert_int_equal (seen.n_hour, n / 60 - 7 * 24 - 1);
    assert_in_range (seen.n - seen.n_hour, 7 * 1440, 7 * 1440 + 60);
    assert_int_equal (seen.row[0].span_s, 3600);
    assert_int_equal (seen.row[0].tally.step[WM_STEP_COMPUTE].n, 60);
    const double row_bytes = (double) wm_ledger_bytes (ledger) / (double) seen.n;
    stop ();
    start ();
    const double file_bytes = (double) wm_ledger_bytes (ledger);
    printf ("history: %zu rows, %.0f bytes a row\n", seen.n, file_bytes / (double) seen.n);
    assert_true (row_bytes > 100);
    assert_true (file_bytes / (double) seen.n * (7 * 1440 + 60 + 358 * 24) < 20e6);
}

/* Seconds for two hours; before them minutes, with all that the seconds had.  */
static void seconds (void **state)
{
    start ();
    campaign ();
    for (unsigned i = 0; i < 3 * 3600; i++) {
        minute (BEGIN_S + i, 1);
        if (i % 60 == 59)
            commit ();
    }
    look ();
    assert_int_equal (seen.fail, 3 * 3600);
    assert_in_range (seen.n, 7200 + 60, 7260 + 60);
    assert_int_equal (seen.row[0].begin_s, BEGIN_S);
    assert_int_equal (seen.row[0].span_s, 60);
    assert_int_equal (seen.row[0].tally.count[WM_COUNT_FAIL], 60);
    assert_int_equal (seen.row[7].begin_s, BEGIN_S + 7 * 60);
    assert_true ((double) wm_ledger_bytes (ledger) < 6e6);
    look_from (BEGIN_S + 30); /* a page ended there when they were seconds */
    assert_int_equal (seen.row[0].begin_s, BEGIN_S);
    assert_int_equal (seen.fail, 3 * 3600);
    look_from (BEGIN_S + 60);
    assert_int_equal (seen.row[0].begin_s, BEGIN_S + 60);
    assert_int_equal (seen.fail, 3 * 3600 - 60);
}

static void many_workers (void **state)
{
    start ();
    campaign ();
    for (uint64_t i = 0; i < 20100; i++) {
        const wm_worker_span_t span = span_of (i + 1);
        wm_ledger_put_span (ledger, &span);
        if (i % 100 == 99)
            commit ();
    }
    look ();
    assert_int_equal (seen.n_span, 20000);
    assert_string_equal (seen.span[0].label, "host/101");
    assert_int_equal (wm_ledger_spans_dropped (ledger), 100);
    stop ();
    start ();
    assert_int_equal (wm_ledger_spans_dropped (ledger), 100);
}

/* A ledger with a damaged row is made again; its other rows stay, and count each result once. The
   hits of the damaged one have no time.  */
static void damage (void **state)
{
    start ();
    campaign ();
    input (1, "/in");
    result (1, 2, 0, 0);
    for (uint32_t i = 0; i < 6; i++) {
        minute (BEGIN_S + 60 * i, 1);
        result (1, 0, i, 0);
        const wm_worker_span_t span = span_of (i + 1);
        wm_ledger_put_span (ledger, &span);
    }
    commit ();
    stop ();
    sql ("UPDATE minute SET hits = hits + 1 WHERE begin_s % 3600 = 120;"
         "UPDATE worker SET label = 'other' WHERE id = 3;");
    start ();
    assert_non_null (strstr (wm_ledger_set_aside (ledger), "damaged"));
    look ();
    assert_int_equal (seen.n, 5 + 1); /* and one without a time: no minute was known yet */
    assert_int_equal (seen.n_span, 5);
    assert_int_equal (seen.hits, 55 * 7 + 15);
    assert_int_equal (seen.row[0].begin_s, 0);
    assert_int_equal (seen.row[0].tally.count[WM_COUNT_HITS], 55 + 57);
    assert_int_equal (seen.row[0].tally.count[WM_COUNT_FAIL], 0);
    result (1, 1, 0, 0);
    look ();
    assert_int_equal (seen.hits, 55 * 8 + 15);
    stop ();
    start (); /* that one result, again, of the journal */
    look ();
    assert_int_equal (seen.hits, 55 * 8 + 15);
    stop ();
    shell ("rm ledger.db*");
    start (); /* of the journal alone: all of them, at no time */
    look ();
    assert_int_equal (seen.n, 1);
    assert_int_equal (seen.hits, 55 * 8 + 15);
    assert_int_equal (seen.row[0].begin_s, 0);
}

/* A disk that stays full: rows wait, and then make up one; nothing is lost.  */
static void full_disk (void **state)
{
    start ();
    campaign ();
    for (int i = 0; i < 4000; i++)
        minute (BEGIN_S + 60 * i, 1);
    look ();
    assert_int_equal (seen.fail, 4000);
    assert_int_equal (seen.n, 3601);
    for (uint64_t i = 0; i < 20007; i++) {
        const wm_worker_span_t span = span_of (i + 1);
        wm_ledger_put_span (ledger, &span);
    }
    commit ();
    look ();
    assert_int_equal (seen.fail, 4000);
    assert_int_equal (seen.n_span, 20000);
    assert_string_equal (seen.span[0].label, "host/8");
}

/* Pages of both, as a broker sends them.  */
static void pages (void **state)
{
    start ();
    campaign ();
    for (int i = 0; i < 600; i++) {
        minute (BEGIN_S + 60 * i, 1);
        wm_worker_span_t span = span_of ((uint64_t) i + 1);
        strcpy (span.label, i == 7 ? "bad\xff\n" : "w");
        wm_ledger_put_span (ledger, &span);
        if (i == 150)
            commit ();
    }
    for (int what = 0; what < 2; what++) {
        size_t n = 0, n_page = 0;
        for (uint64_t from = 0, next = 1; next; from = next, n_page++) {
            char *page_text = wm_status_history (ledger, what, 0, from, &next);
            assert_non_null (page_text);
            assert_in_range (strlen (page_text), 1, WM_STATUS_BYTES_MAX);
            json_t *page = json_loads (page_text, 0, NULL);
            const json_t *rows = json_object_get (page, what ? "workers" : "rows");
            assert_int_equal (json_integer_value (json_object_get (page, "next")), next);
            n += json_array_size (rows);
            const json_t *row = json_array_get (rows, 0);
            if (!what)
                assert_int_equal (json_array_size (row),
                                  json_array_size (json_object_get (page, "columns")));
            json_decref (page);
            free (page_text);
        }
        assert_int_equal (n, 600);
        assert_true (n_page > 1);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown (f, set_up, tear_down)

/* Calls `see` with the statement that changes each column of each table, and with its name.  */
static void each_column (void (*see) (const char *name, const char *change))
{
    static const char columns[] =
        "SELECT t.name || '.' || c.name, 'UPDATE ' || t.name || ' SET ' || c.name || ' = ' ||"
        " CASE c.type WHEN 'BLOB' THEN 'x''30313233343536373839616263646566'''"
        " WHEN 'TEXT' THEN c.name || '||1' ELSE c.name || '+1' END"
        " || ' WHERE ' || p.name || ' = (SELECT max (' || p.name || ') FROM ' || t.name || ')'"
        " FROM sqlite_schema t, pragma_table_info (t.name) c, pragma_table_info (t.name) p"
        " WHERE t.type = 'table' AND p.pk = 1 AND c.name <> 'one'"
        " AND t.name || c.name <> 'standingid'"; /* only their order */
    char path[128];
    sqlite3 *db;
    sqlite3_stmt *statement;
    size_t n = 0;
    snprintf (path, sizeof path, "%s/good.db", dir);
    assert_int_equal (sqlite3_open (path, &db), SQLITE_OK);
    assert_int_equal (sqlite3_prepare_v2 (db, columns, -1, &statement, NULL), SQLITE_OK);
    for (; sqlite3_step (statement) == SQLITE_ROW; n++)
        see ((const char *) sqlite3_column_text (statement, 0),
             (const char *) sqlite3_column_text (statement, 1));
    sqlite3_finalize (statement);
    sqlite3_close (db);
    assert_true (n > 90);
}

static void see_changed (const char *name, const char *change)
{
    shell ("rm -f ledger.db*; cp good.db ledger.db");
    sql (change);
    ledger = wm_ledger_open (dir, NULL, &error);
    assert_non_null (ledger);
    if (!strstr (wm_ledger_set_aside (ledger), "a row or its checksum is wrong") &&
        !strstr (wm_ledger_set_aside (ledger), "constraint"))
        fail_msg ("a changed %s is believed", name);
    wm_ledger_destroy (&ledger);
}

/* Whatever column of a row is changed, the ledger is not believed.  */
static void every_column (void **state)
{
    const wm_worker_span_t span = span_of (1);
    start ();
    campaign ();
    input (1, "/in");
    result (1, 0, 0, 0);
    wm_record_t record = with (WM_RECORD_PAUSE, 0, 0, 0, 0, "dinner");
    record_it (&record);
    wm_ledger_counter (ledger, "copies", 3);
    minute (BEGIN_S, 1);
    wm_ledger_put_span (ledger, &span);
    wm_ledger_mark (ledger, BEGIN_S, WM_MARK_LOST, "alpha");
    commit ();
    stop ();
    shell ("cp ledger.db good.db");
    each_column (see_changed);
}

int main (void)
{
    const struct CMUnitTest tests[] = { TEST (kills),          TEST (nothing_happens),
                                        TEST (clock_set_back), TEST (seconds),
                                        TEST (a_year),         TEST (many_workers),
                                        TEST (damage),         TEST (full_disk),
                                        TEST (pages),          TEST (every_column) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
