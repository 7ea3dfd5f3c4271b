/* ledger_harness.h - a ledger beside its journal in a folder, and its content as text.  */
#ifndef LEDGER_HARNESS_H
#define LEDGER_HARNESS_H

#include "broker/disk/wm_ledger_private.h"
#include "tests/proof.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char dir[64];
static wm_journal_t *journal;
static wm_ledger_t *ledger;
static wm_journal_found_t found;
static wm_error_t error;

static inline void shell (const char *format, ...)
{
    char command[600], whole[700];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (command, sizeof command, format, arguments);
    va_end (arguments);
    snprintf (whole, sizeof whole, "cd %s && %s", dir, command);
    assert_int_equal (system (whole), 0);
}

static inline void sql (const char *statements)
{
    char path[128];
    sqlite3 *db;
    snprintf (path, sizeof path, "%s/ledger.db", dir);
    assert_int_equal (sqlite3_open (path, &db), SQLITE_OK);
    assert_int_equal (sqlite3_exec (db, statements, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal (sqlite3_close (db), SQLITE_OK);
}

static inline int set_up (void **state)
{
    strcpy (dir, "/tmp/wm-ledger-XXXXXX");
    return mkdtemp (dir) ? 0 : -1;
}

static inline void stop (void)
{
    wm_ledger_destroy (&ledger);
    wm_journal_destroy (&journal);
}

static inline int tear_down (void **state)
{
    stop ();
    char command[128];
    snprintf (command, sizeof command, "rm -rf %s", dir);
    return system (command);
}

/* What a broker does at its start, without the load.  */
static inline void start (void)
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

static inline void record_it (wm_record_t *record)
{
    wm_place_t place;
    assert_int_equal (wm_journal_append (journal, record, &place, &error), WM_OK);
    wm_journal_sync (journal);
    wm_ledger_apply (ledger, record, &place);
}

static inline wm_record_t with (wm_record_type_t type, uint32_t input, uint32_t ordinal,
                                uint32_t batch, uint32_t generation, const char *text)
{
    wm_record_t record;
    wm_record_init (&record, type);
    record.key = (wm_key_t){ input, ordinal, batch, generation };
    wm_record_text (&record, text);
    return record;
}

static inline void campaign (void)
{
    wm_record_t record = with (WM_RECORD_CAMPAIGN, 0, 0, 0, 0, "model: \"abc\"\nprecision: fp32\n");
    memset (record.digest, 7, sizeof record.digest);
    record.mtime_ns = 1234567890;
    record_it (&record);
}

static inline void input (uint32_t id, const char *path)
{
    wm_record_t record = with (WM_RECORD_INPUT, id, 0, 0, 0, path);
    record.name = "out'put.scores.h5";
    record.name_bytes = (uint32_t) strlen (record.name);
    record.size = 1000 + id;
    record.mtime_ns = 2000 + id;
    record_it (&record);
}

static uint8_t scores[5000];

static inline wm_record_t result_record (uint32_t id, uint32_t ordinal, uint32_t batch,
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

static inline void result (uint32_t id, uint32_t ordinal, uint32_t batch, uint32_t generation)
{
    wm_record_t record = result_record (id, ordinal, batch, generation);
    record_it (&record);
}

static inline void written (uint32_t id)
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

static inline void commit (void)
{
    assert_int_equal (wm_ledger_commit (ledger, &error), WM_OK);
    assert_int_equal (wm_ledger_pending (ledger), 0);
}

/* ---- everything loaded, as text: two ledgers are equal if their texts are -------------------- */

static char text[1 << 20];
static size_t text_bytes;

static inline void __attribute__ ((format (printf, 1, 2))) print (const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    text_bytes +=
        (size_t) vsnprintf (text + text_bytes, sizeof text - text_bytes, format, arguments);
    va_end (arguments);
}

static inline void print_campaign (void *argument, const wm_ledger_campaign_t *c)
{
    (void) argument;
    print ("campaign %d %lld %s", c->id[3], (long long) c->created_ns, c->pins);
}

static inline void print_input (void *argument, const wm_ledger_input_t *i)
{
    (void) argument;
    print ("input %u.%u state %d %s %s %lld %lld events %lld", i->id, i->generation, (int) i->state,
           i->path, i->name, (long long) i->size, (long long) i->mtime_ns, (long long) i->n_event);
    print (" out %lld %lld %d hits %llu %llu ", (long long) i->out_size,
           (long long) i->out_mtime_ns, i->out_digest[5], (unsigned long long) i->n_hit,
           (unsigned long long) i->n_held);
    if (i->n_batch_held)
        print ("batches held %u ", i->n_batch_held);
    print ("code %u %s%s\n", i->code, i->text, i->is_suspect ? " suspect" : "");
}

static inline void print_batch (void *argument, const wm_ledger_batch_t *b)
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

static inline void print_standing (void *argument, const wm_record_t *r, const wm_place_t *place)
{
    wm_record_t record;
    (void) argument;
    print ("%s %u '%.*s' %.*s\n", wm_record_name (r->type), r->code, (int) r->name_bytes,
           r->name_bytes ? r->name : "", (int) r->text_bytes, r->text_bytes ? r->text : "");
    assert_int_equal (wm_journal_read (journal, place, &record, &error), WM_OK);
    assert_int_equal (record.sequence, r->sequence);
}

static const wm_ledger_load_t printing = { .campaign = print_campaign,
                                           .standing = print_standing,
                                           .input = print_input,
                                           .batch = print_batch };

static inline const char *loaded (void)
{
    uint64_t n_gone;
    text_bytes = 0;
    text[0] = 0;
    assert_int_equal (wm_ledger_load (ledger, journal, &printing, NULL, &n_gone, &error), WM_OK);
    assert_int_equal (n_gone, 0);
    return text;
}

/* A campaign paused by an operator, or going on again (NULL).  */
static inline void pause_it (const char *why)
{
    wm_record_t record = with (WM_RECORD_PAUSE, 0, 0, 0, 0, why ? why : "");
    record.code = why != NULL;
    record_it (&record);
}

/* A machine whose scores of these inputs were wrong; 0: it is trusted again.  */
static inline void distrust (uint8_t inputs)
{
    wm_record_t record = with (WM_RECORD_DISTRUST, 0, 0, 0, 0, "alpha:2");
    record.name = "alpha\0001234567";
    record.name_bytes = sizeof "alpha\0001234567";
    record.code = inputs ? WM_DISTRUST_MACHINE : 0;
    record.payload = &inputs;
    record.payload_bytes = inputs ? 1 : 0;
    record_it (&record);
}

/* A campaign with something of everything.  */
static inline void fill (void)
{
    campaign ();
    pause_it ("lunch");
    pause_it (NULL);
    pause_it ("dinner");
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
    input (6, "/data/kicked.h5");
    distrust (1 << 2 | 1 << 4 | 1 << 6 | 1 << 7); /* 7 is not known */
    record = with (WM_RECORD_KICK, 6, WM_ALL, WM_ALL, 1, "wrong scores"); /* not suspect any more */
    record.size = -1;
    record_it (&record);
    distrust (0);
    record = with (WM_RECORD_HELD, 4, WM_ALL, 0, 0, "truncated file"); /* neither */
    record.code = WM_HIT_BAD_PIXEL;
    record_it (&record);
}

#define TEST(f) cmocka_unit_test_setup_teardown (f, set_up, tear_down)

#endif
