/* test_broker_ledger.c - the ledger says what the journal says, whatever happened to either.  */
#include "tests/unit/ledger_harness.h"

#include <signal.h>
#include <sys/resource.h>

static void everything (void **state)
{
    start ();
    fill ();
    commit ();
    const char *now = loaded ();
    const char *const lines[] = {
        "campaign 7 1234567890 model: \"abc\"\nprecision: fp32\n",
        "input 1.0 state 1 /data/plain.h5 out'put.scores.h5 1001 2001 events 2 out 0 0 0 hits 0 0 ",
        "input 3.0 state 2 /data/it's \"quoted\".h5 out'put.scores.h5 1003 2003 events 2 out 777 "
        "888 "
        "9 hits 400 3 code 0 \n",
        "input 4.0 state 3 /data/plain.h5 out'put.scores.h5 1004 2004 events 1 out 0 0 0 hits 0 0 "
        "code 3 truncated file\n",
        "input 5.0 state 1 ",
        "input 2.0 state 1 /data/plain.h5 out'put.scores.h5 1002 2002 events -1 out 0 0 0 hits 0 0 "
        "code 0  suspect\n",
        "input 6.1 state 1 /data/kicked.h5 out'put.scores.h5 -1 0 events -1 out 0 0 0 hits 0 0 "
        "code 0 \n",
        "PAUSE 1 '' dinner\nDISTRUST 0 'alpha",
        "batch 1 0 0.0 state 1 digest 1 of 6 hits 55 0 attempt 1 by openvino-2026 avx512 fp32 code "
        "0",
        "batch 1 0 5.0 state 2 digest 0 of 6 hits 0 0 attempt 0 by  code 5 died three times\n",
        "batch 5 0 3.0 state 1 ",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr (now, lines[i]))
            fail_msg ("missing \"%s\" in\n%s", lines[i], now);
    assert_null (strstr (now, "batch 3 "));
    assert_null (strstr (now, "batch 4 "));
    assert_null (strstr (now, "batch 5 0 0"));
    assert_true (wm_ledger_bytes (ledger) > 4096);
    assert_string_equal (wm_ledger_signature (ledger, 0), "");
    assert_string_equal (wm_ledger_signature (ledger, 2), "");

    /* A second result replaces the first; a kick forgets both.  */
    result (2, 0, 1, 0);
    commit ();
    loaded ();
    wm_record_t record = with (WM_RECORD_KICK, 1, WM_ALL, WM_ALL, 1, "changed file");
    record.size = 5;
    record_it (&record);
    commit ();
    loaded ();
    assert_non_null (
        strstr (text, "input 1.1 state 1 /data/plain.h5 out'put.scores.h5 5 0 events -1"));
    assert_null (strstr (text, "batch 1 "));
}

/* A result of an input that is held, or written, is no row: the input has no need of it, and a row
   would stay until the input is kicked.  */
static void closed_inputs (void **state)
{
    start ();
    campaign ();
    input (1, "/data/a.h5");
    wm_record_t record = with (WM_RECORD_HELD, 1, WM_ALL, 0, 0, "truncated file");
    record_it (&record);
    commit ();
    result (1, 0, 0, 0);
    commit ();
    stop ();
    shell ("python3 -c 'import sqlite3, sys; "
           "sys.exit (sqlite3.connect (\"ledger.db\").execute (\"select count (*) from batch\")"
           ".fetchone ()[0])'");
}

/* A second attempt to catch up begins with nothing pending: what an earlier one applied is in the
   journal, or was never durable.  */
static void catch_up_begins_again (void **state)
{
    start ();
    campaign ();
    input (1, "/data/a.h5");
    wm_record_t record = with (WM_RECORD_INPUT, 2, 0, 0, 0, "/data/not-in-the-journal.h5");
    wm_ledger_apply (ledger, &record, &(wm_place_t){ 1u << 24 | 1, 0, 0 });
    assert_int_equal (wm_ledger_pending (ledger), 3);
    wm_journal_destroy (&journal);
    journal = wm_journal_open (dir, NULL, &error);
    assert_non_null (journal);
    assert_int_equal (wm_ledger_catch_up (ledger, journal, &found, &error), WM_OK);
    assert_int_equal (found.n_record, 2);
    assert_non_null (strstr (loaded (), "input 1.0 "));
    assert_null (strstr (text, "input 2.0 "));
}

/* The texts of a record end where their lengths say: no NUL follows them, neither in memory nor in
   the journal. Long ones first, so that the next lie where others lay.  */
static void texts_without_a_nul (void **state)
{
    static char many[WM_PATH_BYTES_MAX + 1];
    static const uint32_t length[] = { WM_PATH_BYTES_MAX, 300, 7 };
    memset (many, 'x', sizeof many - 1);
    start ();
    campaign ();
    for (uint32_t i = 0; i < 3; i++) {
        wm_record_t record = with (WM_RECORD_INPUT, 1 + i, 0, 0, 0, "");
        record.text = record.name = many;
        record.text_bytes = length[i];
        record.name_bytes = length[i] < 255 ? length[i] : 255;
        record_it (&record);
        record = result_record (1 + i, 0, 0, 0);
        record.text = many;
        record.text_bytes = 63 - i;
        record_it (&record);
        record = with (WM_RECORD_HELD, 1 + i, 0, 1, 0, "");
        record.text = many;
        record.text_bytes = 20 - i;
        record.n_batch = 6;
        record_it (&record);
        commit ();
    }
    for (int again = 0; again < 2; again++) { /* the second time from the journal alone */
        const char *now = loaded ();
        for (uint32_t i = 0; i < 3; i++) {
            char line[3000];
            const int name = length[i] < 255 ? (int) length[i] : 255;
            snprintf (line, sizeof line, "input %u.0 state 1 %.*s %.*s 0 0 events", 1 + i,
                      (int) length[i], many, name, many);
            assert_non_null (strstr (now, line));
            snprintf (line, sizeof line, "by %.*s code", (int) (63 - i), many);
            assert_non_null (strstr (now, line));
            snprintf (line, sizeof line, "code 0 %.*s\n", (int) (20 - i), many);
            assert_non_null (strstr (now, line));
        }
        stop ();
        shell ("rm ledger.db");
        start ();
    }
}

static void kick_whole (uint32_t id, uint32_t generation, int64_t size)
{
    wm_record_t record = with (WM_RECORD_KICK, id, WM_ALL, WM_ALL, generation, "");
    record.size = size;
    record.mtime_ns = size < 0 ? 0 : 6;
    record_it (&record);
}

/* Inputs begun again from every state; what was on its way then comes behind the KICK and counts
   for nothing, in a ledger that lived through it as in one made again from the journal.  */
static void kicked (void **state)
{
    start ();
    campaign ();
    for (uint32_t id = 1; id <= 4; id++)
        input (id, "/data/a.h5");
    result (1, 0, 0, 0);
    kick_whole (1, 1, -1); /* open; to be pinned */
    result (1, 0, 1, 0);
    wm_record_t record = with (WM_RECORD_INPUT_END, 1, 0, 0, 0, "");
    record.n_event = 7;
    record_it (&record);
    record = with (WM_RECORD_HELD, 1, 0, 2, 0, "late");
    record_it (&record);
    record = with (WM_RECORD_HELD, 2, WM_ALL, WM_ALL, 0, "truncated");
    record_it (&record);
    kick_whole (2, 1, 5); /* held */
    record = with (WM_RECORD_HELD, 2, WM_ALL, WM_ALL, 0, "late");
    record_it (&record);
    result (2, 0, 0, 1);
    result (3, 0, 0, 0);
    written (3);
    kick_whole (3, 1, 5); /* written */
    written (3);
    record = with (WM_RECORD_FILE_WRITTEN, 4, 0, 0, 0, "");
    record.n_batch = 3;
    record_it (&record);
    commit ();
    const char *now = loaded ();
    const char *const lines[] = {
        "input 1.1 state 1 /data/a.h5 out'put.scores.h5 -1 0 events -1 ",
        "input 2.1 state 1 /data/a.h5 out'put.scores.h5 5 6 events -1 ",
        "input 3.1 state 1 /data/a.h5 out'put.scores.h5 5 6 events -1 ",
        "input 4.0 state 2 ",
        "batches held 3 code 0",
        "batch 2 0 0.1 state 1 ",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr (now, lines[i]))
            fail_msg ("missing \"%s\" in\n%s", lines[i], now);
    assert_null (strstr (now, "batch 1 "));
    assert_null (strstr (now, "batch 3 "));
    char *before = strdup (now);
    stop ();
    shell ("rm ledger.db");
    start ();
    assert_string_equal (loaded (), before);
    free (before);

    record = with (WM_RECORD_INPUT, 1, 0, 0, 1, "/data/a.h5"); /* pinned */
    record.name = "out'put.scores.h5";
    record.name_bytes = (uint32_t) strlen (record.name);
    record.size = 77;
    record.mtime_ns = 78;
    record_it (&record);
    result (1, 0, 1, 1);
    commit ();
    assert_non_null (
        strstr (loaded (), "input 1.1 state 1 /data/a.h5 out'put.scores.h5 77 78 events -1 "));
    assert_non_null (strstr (text, "batch 1 0 1.1 state 1 "));
}

static void see_counter (void *argument, const char *name, uint64_t value)
{
    print ("%s %llu ", name, (unsigned long long) value);
}

/* Counters outlive a ledger that is closed, and not one that is lost.  */
static void counters (void **state)
{
    const wm_ledger_load_t to = { .counter = see_counter };
    const char *const expected[] = { "fail 3 lost 0 ", "fail 4 lost 0 ", "" };
    for (uint32_t i = 0; i < 3; i++) {
        start ();
        if (i < 2) {
            wm_ledger_counter (ledger, "lost", 0);
            wm_ledger_counter (ledger, "fail", 3 + i);
            input (i + 1, "/a");
            commit ();
            stop ();
            start ();
        }
        text[text_bytes = 0] = 0;
        assert_int_equal (wm_ledger_load (ledger, journal, &to, NULL, NULL, &error), WM_OK);
        assert_string_equal (text, expected[i]);
        stop ();
        shell (i == 1 ? "rm ledger.db" : ":");
    }
}

/* A broker counts rows by their engine up to its last commit; those of the journal behind it count
   when the next one starts, once.  */
static void rows_by_engine (void **state)
{
    const wm_ledger_load_t to = { .counter = see_counter };
    char expected[48];
    start ();
    input (1, "/a");
    result (1, 0, 0, 0);
    commit (); /* whose core has not counted it: the next results alone are 56 + 57 */
    result (1, 0, 1, 0);
    result (1, 0, 2, 0);
    snprintf (expected, sizeof expected, "rows-%08x 113 ",
              wm_history_rows_hash ("openvino-2026 avx512 fp32"));
    for (int life = 0; life < 2; life++) {
        stop ();
        start ();
        text[text_bytes = 0] = 0;
        assert_int_equal (wm_ledger_load (ledger, journal, &to, NULL, NULL, &error), WM_OK);
        assert_string_equal (text, expected);
    }
}

/* A record of a newer generation than its input's: the KICK before it was lost to damage. What it
   forgot is forgotten, whichever record tells of it first.  */
static void kick_lost (void **state)
{
    const wm_record_type_t tell[] = { WM_RECORD_RESULT, WM_RECORD_INPUT_END, WM_RECORD_HELD,
                                      WM_RECORD_FILE_WRITTEN };
    const char *const after[] = { "state 1 /a out'put.scores.h5 -1 0 events -1 ",
                                  "state 1 /a out'put.scores.h5 -1 0 events 7 ",
                                  "state 3 /a out'put.scores.h5 -1 0 events -1 ",
                                  "state 2 /a out'put.scores.h5 -1 0 events 7 " };
    start ();
    campaign ();
    for (uint32_t i = 0; i < 4; i++) {
        char line[100];
        input (i + 1, "/a");
        result (i + 1, 0, 2, 0);
        wm_record_t record = with (tell[i], i + 1, WM_ALL, WM_ALL, 1, "");
        record.n_event = 7;
        if (tell[i] == WM_RECORD_RESULT)
            result (i + 1, 0, 1, 1);
        else
            record_it (&record);
        commit ();
        loaded ();
        snprintf (line, sizeof line, "input %u.1 %s", i + 1, after[i]);
        assert_non_null (strstr (text, line));
        snprintf (line, sizeof line, "batch %u 0 2.0", i + 1);
        assert_null (strstr (text, line));
    }
    assert_non_null (strstr (text, "batch 1 0 1.1 state 1 "));
}

/* The file cannot grow: the commit says so, nothing is lost, the next one takes it all.  */
static void disk_full (void **state)
{
    fflush (NULL);
    const pid_t child = fork ();
    if (child == 0) {
        start ();
        campaign ();
        input (1, "/data/a.h5");
        commit ();
        signal (SIGXFSZ, SIG_IGN);
        for (uint32_t i = 0; i < 20000; i++) {
            const wm_record_t record = result_record (1, i, 0, 0);
            wm_ledger_apply (ledger, &record, &(wm_place_t){ 1u << 24 | 2, 0, 0 });
        }
        struct rlimit limit, small;
        getrlimit (RLIMIT_FSIZE, &limit);
        small = limit;
        small.rlim_cur = 300000;
        setrlimit (RLIMIT_FSIZE, &small);
        const wm_fault_t first = wm_ledger_commit (ledger, &error);
        const size_t pending = wm_ledger_pending (ledger);
        setrlimit (RLIMIT_FSIZE, &limit);
        commit ();
        wm_ledger_destroy (&ledger);
        ledger = wm_ledger_open (dir, NULL, &error);
        const bool damaged = ledger && *wm_ledger_set_aside (ledger); /* its counts are wrong */
        _exit (first != WM_OK && pending == 20000 && ledger && !damaged ? 0 : 1);
    }
    int status;
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_int_equal (status, 0);
}

/* ---- a million batches ----------------------------------------------------------------------- */

static double now (void)
{
    struct timespec t;
    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void count_batch (void *argument, const wm_ledger_batch_t *batch)
{
    assert_int_equal (batch->state, WM_LEDGER_RETURNED);
    ++*(size_t *) argument;
}

static void many_batches (void **state)
{
    const uint32_t n_batch = (uint32_t) proof_size (100000, 1000000, 1000000);
    start ();
    campaign ();
    for (uint32_t id = 1; id <= 20; id++)
        input (id, "/data/x.h5");
    double begin = now ();
    for (uint32_t i = 0; i < n_batch; i++) {
        wm_record_t record = result_record (1 + i % 20, i / 120, i / 20 % 6, 0);
        record.payload_bytes = 16;
        wm_place_t place;
        assert_int_equal (wm_journal_append (journal, &record, &place, &error), WM_OK);
        wm_ledger_apply (ledger, &record, &place);
        if (i % 4096 == 4095) {
            wm_journal_sync (journal);
            commit ();
        }
    }
    wm_journal_sync (journal);
    commit ();
    printf ("ledger: %u batches journalled and committed in %.2f s, %.0f MB\n", n_batch,
            now () - begin, 1e-6 * (double) wm_ledger_bytes (ledger));
    stop ();
    begin = now ();
    start ();
    const double opened = now () - begin;
    size_t n = 0;
    uint64_t n_gone;
    const wm_ledger_load_t counting = { .batch = count_batch };
    assert_int_equal (wm_ledger_load (ledger, journal, &counting, &n, &n_gone, &error), WM_OK);
    assert_int_equal (n, n_batch);
    printf ("ledger: %u batches opened, verified, caught up in %.3f s, loaded in %.3f s\n", n_batch,
            opened, now () - begin - opened);
    stop ();
    shell ("rm ledger.db");
    begin = now ();
    start ();
    assert_int_equal (found.n_record, n_batch + 21);
    printf ("ledger: %u batches rebuilt from the journal in %.2f s\n", n_batch, now () - begin);
}

static uint64_t committed (void)
{
    const wm_ledger_load_t to = { .batch = count_batch };
    uint64_t n = 0;
    assert_int_equal (wm_ledger_load (ledger, NULL, &to, &n, NULL, &error), WM_OK);
    return n;
}

/* A copy is the ledger as it was committed last, whatever is committed while it is made.  */
static void a_copy (void **state)
{
    bool is_done = false;
    unsigned n = 0;
    start ();
    campaign ();
    input (1, "/data/a.h5");
    for (uint32_t ordinal = 0; ordinal < 3000; ordinal++)
        for (uint32_t batch = 0; batch < 6; batch++)
            result (1, ordinal, batch, 0);
    commit ();
    assert_int_equal (wm_ledger_copy (ledger, &is_done, &error), WM_OK);
    assert_false (is_done);
    shell ("test -e ledger.db.copy");
    wm_ledger_drop_copy (ledger);
    shell ("test ! -e ledger.db.copy");
    for (; !is_done; n++) {
        shell ("test ! -e " WM_LEDGER_COPY);
        result (1, 5000, n, 0);
        result (1, n, 0, 0);
        commit ();
        assert_int_equal (wm_ledger_copy (ledger, &is_done, &error), WM_OK);
    }
    assert_in_range (n, 2, 50);
    const uint64_t n_batch = committed ();
    assert_int_equal (n_batch, 6 * 3000 + n);
    shell ("mkdir of && cp " WM_LEDGER_COPY " of/ledger.db && test ! -e ledger.db.copy");
    shell ("test $(od -An -tx1 -j18 -N2 " WM_LEDGER_COPY " | tr -d ' ') = 0101"); /* no WAL */
    stop ();
    shell ("test ! -e " WM_LEDGER_COPY); /* it goes with its ledger */
    strcat (dir, "/of");
    ledger = wm_ledger_open (dir, NULL, &error); /* reads every row, and counts them */
    assert_string_equal (wm_ledger_set_aside (ledger), "");
    assert_int_equal (committed (), n_batch);
    *strrchr (dir, '/') = 0;
}

/* A copy that cannot be written changes nothing, and the next one is whole.  */
static void a_copy_without_room (void **state)
{
    bool is_done;
    start ();
    fill ();
    commit ();
    char *before = strdup (loaded ());
    shell ("mkdir -p ledger.db.copy/x");
    assert_int_equal (wm_ledger_copy (ledger, &is_done, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "ledger.db.copy"));
    shell ("rm -r ledger.db.copy");
    struct rlimit little, all;
    getrlimit (RLIMIT_FSIZE, &all);
    little = all;
    little.rlim_cur = 8192;
    signal (SIGXFSZ, SIG_IGN);
    setrlimit (RLIMIT_FSIZE, &little);
    const wm_fault_t fault = wm_ledger_copy (ledger, &is_done, &error);
    setrlimit (RLIMIT_FSIZE, &all);
    assert_int_not_equal (fault, WM_OK);
    assert_false (is_done);
    shell ("test ! -e ledger.db.copy && test ! -e " WM_LEDGER_COPY);
    assert_string_equal (loaded (), before);
    result (2, 1, 5, 0);
    commit ();
    assert_int_equal (wm_ledger_copy (ledger, &is_done, &error), WM_OK);
    assert_true (is_done);
    free (before);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        TEST (everything),
        TEST (closed_inputs),
        TEST (kicked),
        TEST (kick_lost),
        TEST (counters),
        TEST (rows_by_engine),
        TEST (catch_up_begins_again),
        TEST (disk_full),
        TEST (many_batches),
        TEST (texts_without_a_nul),
        TEST (a_copy),
        TEST (a_copy_without_room),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
