/* test_broker_ledger.c - the ledger says what the journal says, whatever happened to either.  */
#include "broker/wm_ledger_private.h" /* damaged_in_use works beside the cache */
#include "tests/proof.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];
static wm_journal_t *journal;
static wm_ledger_t *ledger;
static wm_journal_found_t found;
static wm_error_t error;

static void shell (const char *format, ...)
{
    char command[600], whole[700];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (command, sizeof command, format, arguments);
    va_end (arguments);
    snprintf (whole, sizeof whole, "cd %s && %s", dir, command);
    assert_int_equal (system (whole), 0);
}

static void sql (const char *statements)
{
    char path[128];
    sqlite3 *db;
    snprintf (path, sizeof path, "%s/ledger.db", dir);
    assert_int_equal (sqlite3_open (path, &db), SQLITE_OK);
    assert_int_equal (sqlite3_exec (db, statements, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal (sqlite3_close (db), SQLITE_OK);
}

static int set_up (void **state)
{
    (void) state;
    strcpy (dir, "/tmp/wm-ledger-XXXXXX");
    return mkdtemp (dir) ? 0 : -1;
}

static void stop (void)
{
    wm_ledger_destroy (&ledger);
    wm_journal_destroy (&journal);
}

static int tear_down (void **state)
{
    (void) state;
    stop ();
    char command[128];
    snprintf (command, sizeof command, "rm -rf %s", dir);
    return system (command);
}

/* What a broker does at its start, without the load.  */
static void start (void)
{
    uint64_t epoch, sequence;
    journal = wm_journal_open (dir, NULL, &error);
    assert_non_null (journal);
    ledger = wm_ledger_open (dir, NULL, &error);
    assert_non_null (ledger);
    assert_int_equal (wm_ledger_catch_up (ledger, journal, &found, &error), WM_OK);
    wm_ledger_position (ledger, &epoch, &sequence);
    const uint64_t last = wm_journal_epoch (journal) > epoch ? wm_journal_epoch (journal) : epoch;
    assert_int_equal (wm_journal_start (journal, last + 1, &error), WM_OK);
}

static void record_it (wm_record_t *record)
{
    wm_place_t place;
    assert_int_equal (wm_journal_append (journal, record, &place, &error), WM_OK);
    wm_journal_sync (journal);
    wm_ledger_apply (ledger, record, &place);
}

static wm_record_t with (wm_record_type_t type, uint32_t input, uint32_t ordinal, uint32_t batch,
                         uint32_t generation, const char *text)
{
    wm_record_t record;
    wm_record_init (&record, type);
    record.key = (wm_key_t){ input, ordinal, batch, generation };
    wm_record_text (&record, text);
    return record;
}

static void campaign (void)
{
    wm_record_t record = with (WM_RECORD_CAMPAIGN, 0, 0, 0, 0, "model: \"abc\"\nprecision: fp32\n");
    memset (record.digest, 7, sizeof record.digest);
    record.mtime_ns = 1234567890;
    record_it (&record);
}

static void input (uint32_t id, const char *path)
{
    wm_record_t record = with (WM_RECORD_INPUT, id, 0, 0, 0, path);
    record.name = "out'put.scores.h5";
    record.name_bytes = (uint32_t) strlen (record.name);
    record.size = 1000 + id;
    record.mtime_ns = 2000 + id;
    record_it (&record);
}

static uint8_t scores[5000];

static wm_record_t result_record (uint32_t id, uint32_t ordinal, uint32_t batch,
                                  uint32_t generation)
{
    wm_record_t record =
        with (WM_RECORD_RESULT, id, ordinal, batch, generation, "openvino-2026 avx512 fp32");
    memset (record.digest, (int) (1 + ordinal), sizeof record.digest);
    record.n_batch = 6;
    record.n_hit = 55 + batch;
    record.n_held = batch;
    record.attempt = 1;
    record.payload = scores;
    record.payload_bytes = sizeof scores;
    return record;
}

static void result (uint32_t id, uint32_t ordinal, uint32_t batch, uint32_t generation)
{
    wm_record_t record = result_record (id, ordinal, batch, generation);
    record_it (&record);
}

static void written (uint32_t id)
{
    wm_record_t record = with (WM_RECORD_FILE_WRITTEN, id, 0, 0, 0, "");
    record.size = 777;
    record.mtime_ns = 888;
    memset (record.digest, 9, sizeof record.digest);
    record.n_event = 2;
    record.n_hit = 400;
    record.n_held = 3;
    record_it (&record);
}

static void commit (void)
{
    assert_int_equal (wm_ledger_commit (ledger, &error), WM_OK);
    assert_int_equal (wm_ledger_pending (ledger), 0);
}

/* ---- everything loaded, as text: two ledgers are equal if their texts are -------------------- */

static char text[1 << 20];
static size_t text_bytes;

static void __attribute__ ((format (printf, 1, 2))) print (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    text_bytes +=
        (size_t) vsnprintf (text + text_bytes, sizeof text - text_bytes, format, arguments);
    va_end (arguments);
}

static void print_campaign (void *argument, const wm_ledger_campaign_t *c)
{
    (void) argument;
    print ("campaign %d %lld %s", c->id[3], (long long) c->created_ns, c->pins);
}

static void print_input (void *argument, const wm_ledger_input_t *i)
{
    (void) argument;
    print ("input %u.%u state %d %s %s %lld %lld events %lld", i->id, i->generation, (int) i->state,
           i->path, i->name, (long long) i->size, (long long) i->mtime_ns, (long long) i->n_event);
    print (" out %lld %lld %d hits %llu %llu ", (long long) i->out_size,
           (long long) i->out_mtime_ns, i->out_digest[5], (unsigned long long) i->n_hit,
           (unsigned long long) i->n_held);
    if (i->n_batch_held)
        print ("batches held %u ", i->n_batch_held);
    print ("code %u %s\n", i->code, i->text);
}

static void print_batch (void *argument, const wm_ledger_batch_t *b)
{
    (void) argument;
    wm_record_t record;
    print ("batch %u %d %d.%u state %d digest %d of %u hits %u %u attempt %u by %s code %u %s\n",
           b->key.input, (int) b->key.ordinal, (int) b->key.batch, b->key.generation,
           (int) b->state, b->digest[5], b->n_batch, b->n_hit, b->n_held, b->attempt,
           wm_ledger_signature (ledger, b->signature), b->code, b->text);
    if (b->state == WM_LEDGER_RETURNED) {
        assert_int_equal (wm_journal_read (journal, &b->place, &record, &error), WM_OK);
        assert_memory_equal (&record.key, &b->key, sizeof b->key);
    }
}

static const wm_ledger_load_t printing = { .campaign = print_campaign,
                                           .input = print_input,
                                           .batch = print_batch };

static const char *loaded (void)
{
    uint64_t n_gone;
    text_bytes = 0;
    text[0] = 0;
    assert_int_equal (wm_ledger_load (ledger, journal, &printing, NULL, &n_gone, &error), WM_OK);
    assert_int_equal (n_gone, 0);
    return text;
}

/* A campaign with something of everything.  */
static void fill (void)
{
    campaign ();
    for (uint32_t id = 1; id <= 5; id++)
        input (id, id == 3 ? "/data/it's \"quoted\".h5" : "/data/plain.h5");
    for (uint32_t i = 0; i < 12; i++)
        result (1 + i % 3, i / 6, i % 6, 0);
    wm_record_t record = with (WM_RECORD_INPUT_END, 1, 0, 0, 0, "");
    record.n_event = 2;
    record_it (&record);
    record = with (WM_RECORD_HELD, 1, 0, 5, 0, "died three times");
    record.code = WM_HIT_HELD;
    record.n_batch = 6;
    record_it (&record);
    record = with (WM_RECORD_HELD, 4, WM_ALL, 0, 0, "truncated file");
    record.code = WM_HIT_BAD_PIXEL;
    record_it (&record);
    record = with (WM_RECORD_INPUT_END, 4, 0, 0, 0, ""); /* keeps the reason */
    record.n_event = 1;
    record_it (&record);
    result (4, 0, 1, 0); /* of one that is held: counts for nothing */
    written (3);
    result (5, 0, 0, 0);
    written (5);
    record = with (WM_RECORD_FILE_LOST, 5, 0, 0, 0, "gone");
    record_it (&record);
    result (5, 0, 3, 0);
}

static void everything (void **state)
{
    (void) state;
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

/* A second attempt to catch up begins with nothing pending: what an earlier one applied is in the
   journal, or was never durable.  */
static void catch_up_begins_again (void **state)
{
    (void) state;
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
    (void) state;
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
    (void) state;
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
    (void) argument;
    print ("%s %llu ", name, (unsigned long long) value);
}

/* Counters outlive a ledger that is closed, and not one that is lost.  */
static void counters (void **state)
{
    (void) state;
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

/* A record of a newer generation than its input's: the KICK before it was lost to damage. What it
   forgot is forgotten, whichever record tells of it first.  */
static void kick_lost (void **state)
{
    (void) state;
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

/* A row that goes bad under a ledger that is open is not written back as if it were good.  */
static void damaged_in_use (void **state)
{
    (void) state;
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
    (void) state;
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
    (void) state;
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
        "SQL PRAGMA user_version = 3", /* one flipped bit is no newer release */
        "SQL PRAGMA user_version = 1",
        "SQL PRAGMA application_id = 0",
        "SQL DROP TABLE batch",
        "SQL DELETE FROM batch WHERE batch = 4",
        "SQL DELETE FROM input WHERE id = 4",
        "SQL UPDATE input SET name = 'x' WHERE id = 2",
        "SQL UPDATE batch SET batch = 9 WHERE batch = 4",
        "SQL UPDATE signature SET text = 'other'",
        "SQL UPDATE campaign SET pins = 'other'",
        "SQL UPDATE progress SET data = zeroblob (40)",
        "SQL UPDATE progress SET data = zeroblob (39)",
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
    (void) state;
    start ();
    fill ();
    commit ();
    shell ("cp ledger.db killed.db && cp ledger.db-wal killed.db-wal");
    char *before = strdup (loaded ());
    stop ();
    shell ("cp ledger.db good.db");
    const unsigned n = (unsigned) proof_size (30, 100, 1000);
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
    (void) state;
    start ();
    stop ();
    sql ("PRAGMA user_version = 3; PRAGMA application_id = 1464683523"); /* "WML", 3 */
    assert_null (wm_ledger_open (dir, NULL, &error));
    assert_int_equal (error.fault, WM_EBATCH);
    assert_non_null (strstr (error.text, "schema 3"));
    assert_non_null (strstr (error.text, "up to 2"));
    shell ("test ! -e ledger.db.damaged-1");
}

static void second_process (void **state)
{
    (void) state;
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
    (void) state;
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
    (void) state;
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

/* The file cannot grow: the commit says so, nothing is lost, the next one takes it all.  */
static void disk_full (void **state)
{
    (void) state;
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
    (void) state;
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

#define TEST(f) cmocka_unit_test_setup_teardown (f, set_up, tear_down)

int main (void)
{
    const struct CMUnitTest tests[] = {
        TEST (everything),
        TEST (kicked),
        TEST (kick_lost),
        TEST (counters),
        TEST (damaged_in_use),
        TEST (lost_ledger),
        TEST (damaged_ledger),
        TEST (flipped_bits),
        TEST (newer_version),
        TEST (second_process),
        TEST (without_results),
        TEST (gone_results),
        TEST (catch_up_begins_again),
        TEST (disk_full),
        TEST (many_batches),
        TEST (texts_without_a_nul),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
