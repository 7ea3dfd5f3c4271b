/* test_broker_ledger_damage.c - a ledger that is damaged, lost, newer or held by another process,
   and results that are gone.  */
#include "tests/unit/ledger_harness.h"

/* A row that goes bad under a ledger that is open is not written back as if it were good.  */
static void damaged_in_use (void **state)
{
    start ();
    campaign ();
    input (1, "/a");
    commit ();
    stop ();
    start ();
    char *before = strdup (loaded ());
    wm_record_t record = with (WM_RECORD_INPUT_END, 1, 0, 0, 0, "");
    record_it (&record);
    assert_int_equal (sqlite3_exec (ledger->db, "UPDATE input SET path = '/b'", NULL, NULL, NULL),
                      SQLITE_OK);
    assert_int_equal (wm_ledger_commit (ledger, &error), WM_EHOST);
    stop ();
    start ();
    assert_non_null (strstr (wm_ledger_set_aside (ledger), "the ledger was damaged"));
    assert_non_null (strstr (loaded (), "input 1.0 state 1 /a "));
    free (before);
}

static void lost_ledger (void **state)
{
    start ();
    fill ();
    commit ();
    char *before = strdup (loaded ());
    stop ();
    start ();
    assert_int_equal (found.n_record, 0);
    assert_string_equal (loaded (), before);
    stop ();
    shell ("rm ledger.db");
    start ();
    assert_true (found.n_record > 20);
    assert_string_equal (loaded (), before);
    stop ();
    shell (": >ledger.db");
    start ();
    assert_string_equal (loaded (), before);

    /* An earlier copy, and a crash before the commit: what is newer comes from the journal.  */
    stop ();
    shell ("cp ledger.db old.db");
    start ();
    result (1, 1, 3, 0);
    commit ();
    result (2, 1, 4, 0);
    result (2, 1, 5, 0);
    stop (); /* without a commit */
    start ();
    assert_int_equal (found.n_record, 2);
    free (before);
    before = strdup (loaded ());
    assert_non_null (strstr (before, "batch 2 1 5.0"));
    stop ();
    shell ("mv old.db ledger.db");
    start ();
    assert_int_equal (found.n_record, 3);
    assert_string_equal (loaded (), before);
    free (before);
}

static void damaged_ledger (void **state)
{
    start ();
    fill ();
    wm_ledger_counter (ledger, "fail", 7);
    commit ();
    char *before = strdup (loaded ());
    stop ();
    start ();
    assert_string_equal (wm_ledger_set_aside (ledger), "");
    stop ();
    const char *const blows[] = {
        "SQL UPDATE counter SET value = value + 1",
        "head -c 50000 /dev/urandom >ledger.db",
        "echo hello >ledger.db",
        "truncate -s 8192 ledger.db",
        "SQL PRAGMA user_version = 0",
        "SQL PRAGMA user_version = -1",
        "SQL PRAGMA user_version = 7", /* one flipped bit is no newer release */
        "SQL PRAGMA user_version = 1",
        "SQL PRAGMA application_id = 0",
        "SQL DROP TABLE batch",
        "SQL DELETE FROM batch WHERE batch = 4",
        "SQL DELETE FROM input WHERE id = 4",
        "SQL UPDATE input SET name = 'x' WHERE id = 2",
        "SQL UPDATE batch SET batch = 9 WHERE batch = 4",
        "SQL UPDATE signature SET text = 'other'",
        "SQL DELETE FROM standing",
        "SQL UPDATE standing SET text = x'6f'",
        "SQL UPDATE standing SET name = x'6f'",
        "SQL UPDATE standing SET type = type + 1",
        "SQL UPDATE campaign SET pins = 'other'",
        "SQL UPDATE position SET sequence = sequence + 1",
        "SQL DELETE FROM position",
    };
    for (size_t i = 0; i < sizeof blows / sizeof *blows; i++) {
        if (strncmp (blows[i], "SQL ", 4) == 0)
            sql (blows[i] + 4);
        else
            shell ("%s", blows[i]);
        start ();
        if (!strstr (wm_ledger_set_aside (ledger), "the ledger was damaged"))
            fail_msg ("not noticed: %s", blows[i]);
        assert_string_equal (loaded (), before);
        stop ();
        start ();
        assert_string_equal (wm_ledger_set_aside (ledger), "");
        stop ();
        shell ("test -f ledger.db.damaged-%zu", i + 1);
    }
    free (before);
}

/* Flips one bit of a file; returns where.  */
static off_t flip (const char *name, unsigned random)
{
    char path[128];
    struct stat status;
    snprintf (path, sizeof path, "%s/%s", dir, name);
    const int fd = open (path, O_RDWR);
    assert_int_equal (fstat (fd, &status), 0);
    const off_t at = (off_t) (random >> 8) % status.st_size;
    uint8_t byte;
    assert_int_equal (pread (fd, &byte, 1, at), 1);
    byte ^= (uint8_t) (1u << (random & 7));
    assert_int_equal (pwrite (fd, &byte, 1, at), 1);
    close (fd);
    return at;
}

/* A bit flipped anywhere in the file or, as a killed broker leaves it, in its WAL: the answer is
   the same, from the ledger or from the journal.  */
static void flipped_bits (void **state)
{
    start ();
    fill ();
    commit ();
    shell ("cp ledger.db killed.db && cp ledger.db-wal killed.db-wal");
    char *before = strdup (loaded ());
    stop ();
    shell ("cp ledger.db good.db");
    const unsigned n = (unsigned) proof_size (60, 100, 1000);
    unsigned n_noticed = 0, n_replayed = 0, random = 12345;
    for (unsigned i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        const int in_wal = i % 2 == 1;
        shell ("rm -f ledger.db*; cp good.db ledger.db");
        if (in_wal)
            shell ("cp killed.db ledger.db && cp killed.db-wal ledger.db-wal");
        flip (in_wal ? "ledger.db-wal" : "ledger.db", random);
        start ();
        n_noticed += strstr (wm_ledger_set_aside (ledger), "damaged") != NULL;
        n_replayed += in_wal && found.n_record > 0;
        assert_string_equal (loaded (), before);
        stop ();
    }
    assert_true (n_noticed > 0 && n_replayed > n / 10);
    printf ("ledger: %u flipped bits: %u noticed, %u made good from the journal, no "
            "wrong answer\n",
            n, n_noticed, n_replayed);
    free (before);
}

static void newer_version (void **state)
{
    start ();
    stop ();
    sql ("PRAGMA user_version = 6; PRAGMA application_id = 1464683526"); /* "WML", 6 */
    assert_null (wm_ledger_open (dir, NULL, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    assert_non_null (strstr (error.text, "schema 6"));
    assert_non_null (strstr (error.text, "up to 5"));
    shell ("test ! -e ledger.db.damaged-1");
}

static void second_process (void **state)
{
    start ();
    campaign ();
    commit ();
    fflush (NULL);
    const pid_t child = fork ();
    if (child == 0) {
        wm_ledger_t *second = wm_ledger_open (dir, NULL, &error);
        _exit (!second && error.fault == WM_EAGAIN ? 0 : 1);
    }
    int status;
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_int_equal (status, 0);
}

/* Results deleted with their segment: totals and everything else are still rebuilt.  */
static void without_results (void **state)
{
    start ();
    campaign ();
    input (1, "/data/a.h5");
    input (2, "/data/b.h5");
    for (uint32_t i = 0; i < 20; i++)
        result (1, i, 0, 0);
    stop ();
    start (); /* a new epoch, so that those results lie in a segment of their own */
    result (2, 0, 0, 0);
    written (1);
    commit ();
    assert_int_equal (wm_journal_sweep (journal), 1);
    char *before = strdup (loaded ());
    stop ();
    shell ("rm ledger.db");
    start ();
    assert_int_equal (found.n_lost, 0);
    assert_string_equal (loaded (), before);
    assert_non_null (strstr (before, "hits 400 3"));
    free (before);
}

/* A segment deleted by somebody else: its batches are not shown as returned.  */
static void gone_results (void **state)
{
    start ();
    campaign ();
    input (1, "/data/a.h5");
    result (1, 0, 0, 0);
    commit ();
    stop ();
    shell ("rm journal/*.result");
    start ();
    uint64_t n_gone;
    text_bytes = 0;
    assert_int_equal (wm_ledger_load (ledger, journal, &printing, NULL, &n_gone, &error), WM_OK);
    assert_int_equal (n_gone, 1);
    assert_null (strstr (text, "batch"));
    /* An INPUT lost: what is said of its number does not come to another file.  */
    stop ();
    shell ("rm ledger.db; cd journal; f=$(ls | head -1); printf XXXX | dd of=$f bs=1 seek=%u "
           "conv=notrunc 2>/dev/null",
           152u + 152 + 32 + 8);
    start ();
    loaded ();
    assert_non_null (strstr (text, "campaign"));
    assert_null (strstr (text, "input"));
    assert_null (strstr (text, "batch"));
    assert_true (found.n_lost >= 1);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        TEST (damaged_in_use), TEST (lost_ledger),    TEST (damaged_ledger),  TEST (flipped_bits),
        TEST (newer_version),  TEST (second_process), TEST (without_results), TEST (gone_results),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
