/* test_broker_marks.c - marks of the time line: none is lost by a kill or doubled, and their number
   is bounded.  */
#include "broker/wm_status.h"
#include "tests/unit/ledger_harness.h"

#include <jansson.h>

#define BEGIN_S 1763712000

/* What is seen of all marks: "kind n from+seconds text;".  */
static const char *marks (void)
{
    const wm_mark_t *mark;
    text[text_bytes = 0] = 0;
    for (size_t i = 0; (mark = wm_ledger_mark_at (ledger, i)); i++)
        print ("%s %u %lld+%lld %s;", wm_mark_what[mark->kind].name, mark->n,
               (long long) mark->from_s - BEGIN_S, (long long) (mark->to_s - mark->from_s),
               mark->text);
    return text;
}

static void mark (int64_t at_s, wm_mark_kind_t kind, const char *why)
{
    wm_ledger_mark (ledger, BEGIN_S + at_s, kind, why);
}

static void held (uint32_t batch)
{
    wm_record_t record = with (WM_RECORD_HELD, 1, 0, batch, 0, "died three times");
    record.code = WM_HIT_HELD;
    record.n_batch = 6;
    record_it (&record);
}

static void sample (int64_t at_s)
{
    const wm_tally_t tally = { .count = { [WM_COUNT_UP_MS] = 500 } };
    wm_ledger_add_history (ledger, BEGIN_S + at_s, &tally, 1, 77);
}

static void begin (void)
{
    start ();
    campaign ();
    input (1, "/in");
}

static void again (void)
{
    stop (); /* as a kill: what is not committed is gone */
    start ();
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void kinds_have_names (void **state)
{
    for (wm_mark_kind_t kind = 0; kind < WM_N_MARK; kind++) {
        assert_int_equal (wm_mark_of (wm_mark_what[kind].name), kind);
        for (wm_mark_kind_t other = 0; other < kind; other++)
            assert_string_not_equal (wm_mark_what[kind].letter, wm_mark_what[other].letter);
    }
    assert_int_equal (wm_mark_of ("nosuch"), WM_N_MARK);
}

static void of_records (void **state)
{
    begin ();
    pause_it ("too early"); /* no second is known yet */
    sample (0);
    pause_it ("by ada@host: lunch");
    held (0);
    held (1);
    distrust (1 << 1);
    sample (5);
    pause_it (NULL);
    held (2);
    distrust (0);
    assert_string_equal (marks (), "paused 1 0+0 by ada@host: lunch;"
                                   "held 3 0+5 input 1: died three times;"
                                   "wrong 1 0+0 alpha:2;resumed 1 5+0 ;");
    assert_true (wm_ledger_owes_history (ledger)); /* one commits them though nothing else is due */
    commit ();
    assert_false (wm_ledger_owes_history (ledger));
    again ();
    assert_string_equal (marks (), "paused 1 0+0 by ada@host: lunch;"
                                   "held 3 0+5 input 1: died three times;"
                                   "wrong 1 0+0 alpha:2;resumed 1 5+0 ;");
}

/* Whatever was committed when it is killed, each pause has one mark.  */
static void kills (void **state)
{
    char why[32];
    unsigned n = 0;
    begin ();
    for (unsigned life = 0; life < 8; life++) {
        sample (100 * life);
        commit ();
        for (unsigned i = 0; i < 4; i++, n++) {
            snprintf (why, sizeof why, "%u", n);
            pause_it (why);
            held (i);
            if (i == life % 5)
                commit ();
        }
        again ();
        unsigned k = 0, n_held = 0;
        const wm_mark_t *one;
        for (size_t i = 0; (one = wm_ledger_mark_at (ledger, i)); i++) {
            n_held += one->kind == WM_MARK_HELD ? one->n : 0;
            if (one->kind != WM_MARK_PAUSED)
                continue;
            snprintf (why, sizeof why, "%u", k++);
            assert_string_equal (one->text, why);
            assert_int_equal (one->from_s, BEGIN_S + 100 * ((k - 1) / 4));
        }
        assert_int_equal (k, n);
        assert_int_equal (n_held, n);
    }
}

/* A broker that had no worker knows the time of its begin.  */
static void without_rows (void **state)
{
    begin ();
    mark (7, WM_MARK_BROKER, "");
    commit ();
    pause_it ("lunch");
    again ();
    assert_string_equal (marks (), "broker 1 7+0 ;paused 1 7+0 lunch;");
}

/* A catch-up that fails makes its marks again.  */
static void a_second_attempt (void **state)
{
    begin ();
    sample (0);
    held (0);
    commit ();
    held (1);
    held (2);
    pause_it ("lunch");
    stop ();
    journal = wm_journal_open (dir, NULL, &error);
    ledger = wm_ledger_open (dir, NULL, &error);
    const char *const all = "held 1 0+0 input 1: died three times;"
                            "held 2 0+0 input 1: died three times;paused 1 0+0 lunch;";
    assert_int_equal (
        sqlite3_exec (wm_ledger_database (ledger), "PRAGMA query_only = 1", NULL, NULL, NULL),
        SQLITE_OK);
    assert_int_not_equal (wm_ledger_catch_up (ledger, journal, &found, &error), WM_OK);
    assert_string_equal (marks (), all);
    assert_int_equal (
        sqlite3_exec (wm_ledger_database (ledger), "PRAGMA query_only = 0", NULL, NULL, NULL),
        SQLITE_OK);
    wm_journal_destroy (&journal);
    journal = wm_journal_open (dir, NULL, &error);
    assert_int_equal (wm_ledger_catch_up (ledger, journal, &found, &error), WM_OK);
    assert_string_equal (marks (), all);
    again ();
    assert_string_equal (marks (), all);
}

static void bursts (void **state)
{
    begin ();
    mark (0, WM_MARK_LOST, "a");
    mark (60, WM_MARK_LOST, "b");
    mark (61, WM_MARK_PAUSED, "p");
    mark (61, WM_MARK_PAUSED, "q"); /* each counts */
    mark (120, WM_MARK_LOST, "c");
    mark (181, WM_MARK_LOST, "d");
    mark (100, WM_MARK_LOST, "the clock was set back");
    assert_string_equal (marks (), "lost 3 0+120 a;paused 1 61+0 p;paused 1 61+0 q;lost 1 181+0 d;"
                                   "lost 1 100+0 the clock was set back;");
}

/* Lost workers of days push no pause out; the newest of them stay.  */
static void bounded (void **state)
{
    char why[32];
    begin ();
    mark (0, WM_MARK_PAUSED, "at the begin");
    for (unsigned i = 1; i <= 3000; i++) {
        snprintf (why, sizeof why, "%u", i);
        mark (100 * i, WM_MARK_LOST, why);
        if (i % 7 == 0)
            commit ();
    }
    commit ();
    again ();
    const wm_mark_t *one = wm_ledger_mark_at (ledger, 0);
    size_t n = 0;
    assert_string_equal (one->text, "at the begin");
    for (uint64_t id = 0; (one = wm_ledger_mark_at (ledger, n)); n++) {
        assert_true (one->id > id);
        id = one->id;
    }
    assert_in_range (n, WM_MARKS_MAX / 2, WM_MARKS_MAX);
    one = wm_ledger_mark_at (ledger, n - 1);
    assert_string_equal (one->text, "3000");
    assert_int_equal (one->id, 3001);
    mark (400000, WM_MARK_ENDED, "");
    assert_int_equal (wm_ledger_mark_at (ledger, n)->id, 3002);
}

static void long_texts (void **state)
{
    char why[400] = "";
    for (int i = 0; i < 100; i++)
        strcat (why, i ? "\303\244" : "a"); /* the cut comes within a character */
    begin ();
    mark (0, WM_MARK_PAUSED, why);
    commit ();
    again ();
    const char *kept = wm_ledger_mark_at (ledger, 0)->text;
    assert_int_equal (strlen (kept), sizeof ((wm_mark_t *) 0)->text - 1);
    assert_int_equal (strncmp (kept, why, strlen (kept)), 0);
    assert_int_equal ((uint8_t) kept[strlen (kept) - 1], 0244); /* whole */
}

/* The others stay, also those of records that the journal has.  */
static void damaged_row (void **state)
{
    begin ();
    sample (0);
    pause_it ("lunch");
    mark (1, WM_MARK_LOST, "alpha");
    mark (2, WM_MARK_ENDED, "");
    commit ();
    stop ();
    sql ("UPDATE mark SET text = 'beta' WHERE kind = 'lost'");
    start ();
    assert_non_null (strstr (wm_ledger_set_aside (ledger), "was damaged"));
    assert_string_equal (marks (), "paused 1 0+0 lunch;ended 1 2+0 ;");
    again ();
    assert_string_equal (marks (), "paused 1 0+0 lunch;ended 1 2+0 ;");
    stop ();
    sql ("UPDATE mark SET kind = 'nosuch'");
    start ();
    assert_string_equal (marks (), "");
}

/* Their times are not in the journal.  */
static void deleted_ledger (void **state)
{
    begin ();
    sample (0);
    pause_it ("lunch");
    commit ();
    stop ();
    shell ("rm ledger.db*");
    start ();
    assert_string_equal (marks (), "");
}

/* All pages together have each mark, those between rows too; none is too long.  */
static void pages (void **state)
{
    bool is_there[WM_MARKS_MAX + 1] = { false };
    size_t n_page = 0, n_row = 0, i, k;
    char why[160];
    const json_t *one;
    begin ();
    for (unsigned m = 0; m < WM_MARKS_MAX; m++) {
        snprintf (why, sizeof why, "%-120u\"\033\n", m);
        mark (10 * m, m % 2 ? WM_MARK_PAUSED : WM_MARK_RESUMED, why);
        sample (10 * m + 5);
    }
    for (uint64_t from = 0, next = 1; next; from = next, n_page++) {
        char *page = wm_status_history (ledger, false, 0, from, &next);
        assert_non_null (page);
        assert_in_range (strlen (page), 1, WM_STATUS_BYTES_MAX);
        json_t *json = json_loads (page, 0, NULL);
        assert_non_null (json);
        assert_int_equal (json_integer_value (json_object_get (json, "next")), next);
        assert_true (!next || next > from);
        n_row += json_array_size (json_object_get (json, "rows"));
        json_array_foreach (json_object_get (json, "marks"), i, one)
        {
            const json_int_t id = json_integer_value (json_object_get (one, "id")),
                             to_s = json_integer_value (json_object_get (one, "to_s"));
            assert_in_range (id, 1, WM_MARKS_MAX);
            assert_true (to_s >= (json_int_t) from && (!next || to_s < (json_int_t) next));
            assert_false (is_there[id]);
            is_there[id] = true;
        }
        json_decref (json);
        free (page);
    }
    assert_true (n_page > 3);
    assert_int_equal (n_row, WM_MARKS_MAX);
    for (k = 1; k <= WM_MARKS_MAX; k++)
        assert_true (is_there[k]);
    char *page = wm_status_history (ledger, true, 0, 0, &(uint64_t){ 0 });
    assert_null (strstr (page, "marks"));
    free (page);
}

#define SECONDS 1500
/* A page cannot hold all marks of one second; those of the second before and after are there, and
   so is what more pages have.  */
static void pages_of_a_second (void **state)
{
    bool is_there[WM_MARKS_MAX + 1] = { false };
    size_t n_page = 0, i, k;
    json_int_t last_s = 0;
    char why[160];
    const json_t *one;
    begin ();
    sample (0);
    for (unsigned m = 0; m < WM_MARKS_MAX; m++) {
        snprintf (why, sizeof why, "%-140u", m);
        mark (m == WM_MARKS_MAX - 1 ? 9 : 4 + (m > 0), WM_MARK_PAUSED, why);
    }
    for (int64_t s = 5; s < SECONDS; s++)
        sample (s);
    for (uint64_t from = 0, next = 1; next; from = next, n_page++) {
        char *page = wm_status_history (ledger, false, 0, from, &next);
        assert_non_null (page);
        assert_in_range (strlen (page), 1, WM_STATUS_BYTES_MAX);
        json_t *json = json_loads (page, 0, NULL);
        assert_true (!next || wm_history_goes_on (from, next));
        const json_t *rows = json_object_get (json, "rows");
        if (json_array_size (rows))
            last_s = json_integer_value (
                json_array_get (json_array_get (rows, json_array_size (rows) - 1), 0));
        json_array_foreach (json_object_get (json, "marks"), i, one)
        {
            const json_int_t id = json_integer_value (json_object_get (one, "id"));
            assert_in_range (id, 1, WM_MARKS_MAX);
            assert_false (is_there[id]);
            is_there[id] = true;
        }
        json_decref (json);
        free (page);
    }
    assert_true (n_page > 3);
    assert_int_equal (last_s, BEGIN_S + SECONDS - 1);
    for (k = 1; k <= WM_MARKS_MAX; k++)
        assert_true (is_there[k]);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (kinds_have_names),
        TEST (of_records),
        TEST (kills),
        TEST (without_rows),
        TEST (a_second_attempt),
        TEST (bursts),
        TEST (bounded),
        TEST (long_texts),
        TEST (damaged_row),
        TEST (deleted_ledger),
        TEST (pages),
        TEST (pages_of_a_second),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
