/* test_broker_release.c - campaigns of earlier releases open, with all that is in them.

   tests/release/ledger-<schema> is one as the release with that schema wrote it: ledger.db,
   journal, and in `expected` what is in them. A new schema gets a folder of its own, made once by
     WM_RELEASE_MAKE=tests/release/ledger-N build/release/tests/test_broker_release
   and never changed after. WM_SEED is the die of the kills.  */
#include "broker/campaign/wm_campaign.h"
#include "tests/proof.h"
#include "tests/release/make.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#define SCHEMA 5 /* of this release */

static char dir[64];
static wm_campaign_t campaign;
static wm_error_t error;

static void __attribute__ ((format (printf, 1, 2))) shell (const char *format, ...)
{
    char command[600];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (command, sizeof command, format, arguments);
    va_end (arguments);
    assert_int_equal (system (command), 0);
}

static int set_up (void **state)
{
    strcpy (dir, "/tmp/wm-release-XXXXXX");
    return mkdtemp (dir) ? 0 : -1;
}

static int tear_down (void **state)
{
    char command[128];
    wm_campaign_close (&campaign);
    snprintf (command, sizeof command, "rm -rf %s", dir);
    return system (command);
}

/* ---- what a campaign says -------------------------------------------------------------------- */

static char text[1 << 16];
static size_t text_bytes;

static void __attribute__ ((format (printf, 1, 2))) print (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    const int n = vsnprintf (text + text_bytes, sizeof text - text_bytes, format, arguments);
    va_end (arguments);
    text_bytes += n > 0 ? (size_t) n : 0;
    assert_true (text_bytes < sizeof text);
}

static void print_campaign (void *argument, const wm_ledger_campaign_t *c)
{
    print ("campaign %02x%02x made %lld\n%s", c->id[0], c->id[15], (long long) c->created_ns,
           c->pins);
}

static void print_input (void *argument, const wm_ledger_input_t *i)
{
    print ("input %u.%u state %d %s -> %s %lld %lld events %lld out %lld %lld %02x hits %" PRIu64
           " %" PRIu64 " batches held %u code %u %s%s\n",
           i->id, i->generation, (int) i->state, i->path, i->name, (long long) i->size,
           (long long) i->mtime_ns, (long long) i->n_event, (long long) i->out_size,
           (long long) i->out_mtime_ns, i->out_digest[3], i->n_hit, i->n_held, i->n_batch_held,
           i->code, i->text, i->is_suspect ? " suspect" : "");
}

static void print_batch (void *argument, const wm_ledger_batch_t *b)
{
    wm_record_t record;
    print ("batch %u %u %u.%u state %d digest %02x of %u hits %u %u attempt %u by %s code %u %s",
           b->key.input, b->key.ordinal, b->key.batch, b->key.generation, (int) b->state,
           b->digest[7], b->n_batch, b->n_hit, b->n_held, b->attempt,
           wm_ledger_signature (campaign.ledger, b->signature), b->code, b->text);
    if (b->state == WM_LEDGER_RETURNED) {
        assert_int_equal (wm_journal_read (campaign.journal, &b->place, &record, &error), WM_OK);
        print ("result %016" PRIx64, XXH3_64bits (record.payload, record.payload_bytes));
    }
    print ("\n");
}

static void print_standing (void *argument, const wm_record_t *r, const wm_place_t *place)
{
    print ("%s '%.*s' code %u hits %" PRIu64 " %" PRIu64 " events %" PRIu64
           " payload %u %016" PRIx64 "\n",
           wm_record_name (r->type), (int) r->name_bytes, r->name_bytes ? r->name : "", r->code,
           r->n_hit, r->n_held, r->n_event, r->payload_bytes, XXH3_64bits (r->text, r->text_bytes));
    assert_int_not_equal (place->segment, 0);
}

/* Opens the campaign in `dir` as a broker does, says what is in it, and closes it.  */
static const char *said (void)
{
    const wm_ledger_load_t to = { .campaign = print_campaign,
                                  .standing = print_standing,
                                  .input = print_input,
                                  .batch = print_batch };
    text[text_bytes = 0] = 0;
    if (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 1000, &error) ||
        wm_campaign_open (&campaign, NULL, NULL, &error) ||
        wm_ledger_load (campaign.ledger, NULL, &to, NULL, NULL, &error))
        print ("%s", error.text);
    assert_int_equal (campaign.found.n_lost, 0);
    wm_campaign_close (&campaign);
    return text;
}

/* Puts the campaign of a schema into `dir`; returns what it says.  */
static char *take (int schema)
{
    static char expected[sizeof text];
    char path[64];
    snprintf (path, sizeof path, "tests/release/ledger-%d/expected", schema);
    FILE *file = fopen (path, "r");
    if (!file)
        fail_msg ("%s is missing", path);
    expected[fread (expected, 1, sizeof expected - 1, file)] = 0;
    fclose (file);
    shell ("rm -rf %s && cp -r tests/release/ledger-%d %s && rm %s/expected", dir, schema, dir,
           dir);
    return expected;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void every_release (void **state)
{
    const double start = proof_clock ();
    for (int schema = 1; schema <= SCHEMA; schema++) {
        const char *expected = take (schema);
        assert_string_equal (said (), expected);
        assert_string_equal (said (), expected); /* again, as this release left it */
        shell ("test %s -e %s/ledger.db.v%d", schema < SCHEMA ? "" : "!", dir, schema);
        shell ("rm %s/ledger.db*", dir);
        assert_string_equal (said (), expected); /* of the journal alone */
    }
    proof_line ("P18", SCHEMA, SCHEMA, start);
}

static bool print_minute (void *argument, const wm_history_row_t *m)
{
    const uint64_t *count = m->tally.count;
    const wm_latency_t *queue = &m->tally.step[WM_STEP_QUEUE];
    print ("%lld %u workers %u journal %" PRIu64 " hits %" PRIu64 " fail %" PRIu64 " up %" PRIu64
           " queue %" PRIu64 " %" PRIu64 " %u\n",
           (long long) m->begin_s, m->span_s, m->workers_max, m->journal_bytes,
           count[WM_COUNT_HITS], count[WM_COUNT_FAIL], count[WM_COUNT_UP_MS], queue->n,
           queue->sum_ms, queue->bucket[2]);
    return true;
}

static bool print_span (void *argument, const wm_worker_span_t *s)
{
    print ("%s by %s on %s %lld-%lld %" PRIu64 " %" PRIu64 " busy %" PRIu64 " cpu %lld ended %d %s",
           s->label, s->signature, s->device, (long long) s->from_s, (long long) s->to_s,
           s->batches, s->hits, s->busy_ms, (long long) s->cpu_ms, s->has_ended, s->why);
    return true;
}

/* Results that the ledger had not seen count in the minute that it knew last.  */
static void the_history (void **state)
{
    take (3);
    text[text_bytes = 0] = 0;
    assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 1000, &error), 0);
    assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), 0);
    assert_int_equal (wm_ledger_minutes (campaign.ledger, 0, print_minute, NULL, &error), 0);
    assert_int_equal (wm_ledger_spans (campaign.ledger, 0, print_span, NULL, &error), 0);
    wm_campaign_close (&campaign);
    assert_string_equal (
        text, "1763020800 3600 workers 1 journal 4096 hits 0 fail 2 up 60000 queue 1 3 1\n"
              "1763712000 60 workers 3 journal 8192 hits 285 fail 2 up 60000 queue 1 3 1\n"
              "gpu01/17.0 by cuda/sm90/fp32/3 on NVIDIA H200 1763712000-1763712120 9 369 busy "
              "91000 cpu 180500 ended 1 its wall time is over");
}

/* An older release made none.  */
static void the_marks (void **state)
{
    for (int schema = 1; schema <= SCHEMA; schema++) {
        take (schema);
        text[text_bytes = 0] = 0;
        assert_int_equal (wm_campaign_lock (&campaign, dir, WM_CAMPAIGN_SERVE, 1000, &error), 0);
        assert_int_equal (wm_campaign_open (&campaign, NULL, NULL, &error), 0);
        wm_ledger_mark (campaign.ledger, 1763713000, WM_MARK_BROKER, "of this release");
        assert_int_equal (wm_ledger_commit (campaign.ledger, &error), 0);
        const wm_mark_t *mark;
        for (size_t i = 0; (mark = wm_ledger_mark_at (campaign.ledger, i)); i++)
            print ("%" PRIu64 " %s %u %lld-%lld %s;", mark->id, wm_mark_what[mark->kind].name,
                   mark->n, (long long) mark->from_s, (long long) mark->to_s, mark->text);
        wm_campaign_close (&campaign);
        if (schema == SCHEMA)
            assert_non_null (strstr (text, "lost 1 1763711000-1763711000 gpu01/17.0;2 lost 2 "
                                           "1763712000-1763712060 gpu02/18.0;"));
        else
            assert_null (strstr (text, "lost"));
        assert_non_null (strstr (text, "broker 1 1763713000-1763713000 of this release;"));
    }
}

/* The backup is what an older release goes on with.  */
static void the_backup (void **state)
{
    char path[128];
    sqlite3 *db;
    sqlite3_stmt *statement;
    take (1);
    said ();
    snprintf (path, sizeof path, "%s/ledger.db.v1", dir);
    assert_int_equal (sqlite3_open_v2 (path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    const char *const sql[] = { "PRAGMA user_version", "SELECT count (*) FROM input",
                                "SELECT count (*) FROM sqlite_schema WHERE name = 'counter'" };
    const int is[] = { 1, 6, 0 };
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal (sqlite3_prepare_v2 (db, sql[i], -1, &statement, NULL), SQLITE_OK);
        assert_int_equal (sqlite3_step (statement), SQLITE_ROW);
        assert_int_equal (sqlite3_column_int (statement, 0), is[i]);
        sqlite3_finalize (statement);
    }
    sqlite3_close (db);
}

/* A start that migrates, killed after so many microseconds; whether it came to its end.  */
static int killed_after (useconds_t us)
{
    int status, ready[2];
    char byte = 0;
    assert_int_equal (pipe (ready), 0);
    fflush (NULL);
    const pid_t child = fork ();
    if (child == 0) {
        const int quiet = open ("/dev/null", O_WRONLY);
        dup2 (quiet, 2);
        if (write (ready[1], &byte, 1) != 1)
            _exit (1);
        wm_ledger_t *ledger = wm_ledger_open (dir, NULL, &error);
        wm_ledger_destroy (&ledger);
        _exit (0);
    }
    assert_int_equal (read (ready[0], &byte, 1), 1);
    close (ready[0]);
    close (ready[1]);
    usleep (us);
    kill (child, SIGKILL);
    assert_int_equal (waitpid (child, &status, 0), child);
    return WIFEXITED (status);
}

static void killed_while_it_migrates (void **state)
{
    const unsigned long n = proof_size (20, 200, 2000);
    const char *seed = getenv ("WM_SEED");
    char path[128];
    srandom (seed ? (unsigned) strtoul (seed, NULL, 10) : 1);
    unsigned long n_survived = 0, n_cut = 0;
    const double start = proof_clock ();
    useconds_t longest =
        2000; /* grows until a start comes to its end, shrinks with each that does */
    for (unsigned long i = 0; i < n; i++) {
        const char *expected = take (1);
        for (int again = 0; again < 3; again++) { /* killed, and the next one too */
            const int ended = killed_after ((useconds_t) random () % longest);
            n_cut += !ended;
            longest = ended ? longest - longest / 16 : longest + longest / 16 + 1;
        }
        snprintf (path, sizeof path, "%s/ledger.db.damaged-1", dir); /* the journal did not help */
        n_survived += strcmp (said (), expected) == 0 && access (path, F_OK) != 0;
    }
    printf ("ledger: %lu starts killed while they migrated, the longest after %u us\n", n_cut,
            (unsigned) longest);
    proof_line ("P18", n, n_survived, start);
    assert_int_equal (n_survived, n);
    assert_true (n_cut > n / 2);
}

/* A journal of a later release is refused by its number and left alone.  */
static void newer_journal (void **state)
{
    uint8_t buffer[1024];
    char path[128];
    take (SCHEMA);
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_EPOCH);
    record.epoch = 3;
    record.sequence = 1;
    record.code = WM_JOURNAL_FORMAT + 1;
    const size_t bytes = wm_record_encode (&record, 3ull << 24 | 1, 0, buffer);
    snprintf (path, sizeof path, "%s/journal/0000000003-000001.keep", dir);
    FILE *file = fopen (path, "w");
    assert_int_equal (fwrite (buffer, 1, bytes, file), bytes);
    fclose (file);
    said ();
    assert_int_equal (error.fault, WM_EBATCH);
    assert_non_null (strstr (text, "has format 4, this wiremill (" WM_VERSION ") knows up to 3"));
    buffer[20] ^= 1; /* the same with a flipped bit is damage: no reason to refuse */
    file = fopen (path, "w");
    assert_int_equal (fwrite (buffer, 1, bytes, file), bytes);
    fclose (file);
    assert_non_null (strstr (said (), "input 6.0 state 1"));
}

/* ---- making one ------------------------------------------------------------------------------ */

/* Segments end where their last record does: what is allocated ahead is no part of a release.  */
static void trim (const char *folder)
{
    shell ("perl -e 'for (@ARGV) { open my $f, \"+<\", $_ or die; local $/; my $b = <$f>;"
           " $b =~ s/\\0+$//; truncate $f, (length ($b) + 7) & ~7 }' %s/journal/*",
           folder);
}

static int make_release (const char *folder)
{
    char path[200];
    make_campaign (folder);
    trim (folder);
    shell ("cp -r %s %s/copy", folder, dir);
    strcat (dir, "/copy");
    snprintf (path, sizeof path, "%s/expected", folder);
    FILE *file = fopen (path, "w");
    return !file || fputs (said (), file) < 0 || fclose (file);
}

#define TEST(f) cmocka_unit_test_setup_teardown (f, set_up, tear_down)

int main (void)
{
    const char *make = getenv ("WM_RELEASE_MAKE");
    campaign.lock_fd = -1;
    if (make) {
        set_up (NULL);
        const int failed = make_release (make);
        dir[strlen (dir) - strlen ("/copy")] = 0;
        tear_down (NULL);
        return failed;
    }
    const struct CMUnitTest tests[] = { TEST (every_release),
                                        TEST (the_history),
                                        TEST (the_marks),
                                        TEST (the_backup),
                                        TEST (killed_while_it_migrates),
                                        TEST (newer_journal) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
