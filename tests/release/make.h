/* make.h - makes the small campaign that each release leaves in tests/release.

   Uses nothing of the broker that an older release had not, so that it can be built with one: it is
   included by tests/unit/broker/test_broker_release.c, whose WM_RELEASE_MAKE=FOLDER calls it.  */
#ifndef TESTS_RELEASE_MAKE_H
#define TESTS_RELEASE_MAKE_H

#include "broker/disk/wm_journal.h"
#include "broker/disk/wm_ledger.h"
#include "schema/wm_pins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static wm_journal_t *made_journal;
static wm_ledger_t *made_ledger;

static void make_check (int condition, const char *what)
{
    if (condition)
        return;
    fprintf (stderr, "cannot make a release's campaign: %s\n", what);
    exit (1);
}

static void make_append (wm_record_t *record)
{
    wm_place_t place;
    make_check (!wm_journal_append (made_journal, record, &place, NULL), "append");
    wm_journal_sync (made_journal);
    wm_ledger_apply (made_ledger, record, &place);
}

static wm_record_t make_record (wm_record_type_t type, uint32_t input, uint32_t ordinal,
                                uint32_t batch, uint32_t generation)
{
    wm_record_t record;
    wm_record_init (&record, type);
    record.key = (wm_key_t){ input, ordinal, batch, generation };
    return record;
}

static void make_pins (void)
{
    char text[WM_PINS_BYTES_MAX];
    wm_pins_t pins = { .precision = "fp32",
                       .n_output = 4,
                       .n_value = 2304,
                       .batch_hits = 4096,
                       .batch_bytes = WM_RAW_BYTES_MAX,
                       .output = "/data/out",
                       .spec = "patch: [48, 48]\n" };
    memset (pins.model, 'a', 64);
    memset (pins.wmm, 'b', 64);
    wm_record_t record = make_record (WM_RECORD_CAMPAIGN, 0, 0, 0, 0);
    memset (record.digest, 0x11, sizeof record.digest);
    record.mtime_ns = 1763712000000000000;
    record.text = text;
    record.text_bytes = (uint32_t) wm_pins_print (&pins, text);
    make_append (&record);
}

static void make_input (uint32_t id)
{
    char path[64], name[64];
    snprintf (path, sizeof path, "/data/in/events-%u.h5", id);
    snprintf (name, sizeof name, "events-%u.scores.h5", id);
    wm_record_t record = make_record (WM_RECORD_INPUT, id, 0, 0, 0);
    wm_record_text (&record, path);
    record.name = name;
    record.name_bytes = (uint32_t) strlen (name);
    record.size = 1000000 + id;
    record.mtime_ns = 1763700000000000000 + id;
    make_append (&record);
}

static void make_result (uint32_t id, uint32_t ordinal, uint32_t batch, uint32_t generation)
{
    static uint8_t scores[700];
    for (size_t i = 0; i < sizeof scores; i++)
        scores[i] = (uint8_t) (i * (id + 1) + ordinal + batch);
    wm_record_t record = make_record (WM_RECORD_RESULT, id, ordinal, batch, generation);
    wm_record_text (&record, "sparse/v1/avx512/fp32/2");
    memset (record.digest, (int) (batch + 1), sizeof record.digest);
    record.n_batch = 3;
    record.n_hit = 40 + batch;
    record.n_held = batch;
    record.attempt = 1;
    record.payload = scores;
    record.payload_bytes = sizeof scores;
    make_append (&record);
}

static void make_end (uint32_t id)
{
    wm_record_t record = make_record (WM_RECORD_INPUT_END, id, 0, 0, 0);
    record.n_event = 2;
    make_append (&record);
}

static void make_written (uint32_t id)
{
    wm_record_t record = make_record (WM_RECORD_FILE_WRITTEN, id, 0, 0, 0);
    record.size = 2000000 + id;
    record.mtime_ns = 1763710000000000000 + id;
    memset (record.digest, 0x22, sizeof record.digest);
    record.n_event = 2;
    record.n_hit = 240;
    record.n_held = 3;
    record.n_batch = 1;
    make_append (&record);
}

static void make_epoch (const char *dir, uint64_t epoch)
{
    wm_journal_found_t found;
    wm_error_t error = { 0 };
    made_journal = wm_journal_open (dir, NULL, &error);
    made_ledger = made_journal ? wm_ledger_open (dir, NULL, &error) : NULL;
    make_check (made_ledger != NULL, error.text);
    make_check (!wm_ledger_catch_up (made_ledger, made_journal, &found, &error), error.text);
    make_check (!wm_journal_start (made_journal, epoch, &error), error.text);
}

static void make_stop (int commit)
{
    make_check (!commit || !wm_ledger_commit (made_ledger, NULL), "commit");
    wm_ledger_destroy (&made_ledger);
    wm_journal_destroy (&made_journal);
}

/* A week ago and now; an hour's row is made of the first. Two of three lost workers are a burst.
 */
static void make_history (void)
{
#ifdef WM_HISTORY_H /* from schema 3 on */
    wm_tally_t tally = { .count = { [WM_COUNT_UP_MS] = 60000, [WM_COUNT_FAIL] = 2 } };
    const wm_worker_span_t span = { .id = (uint64_t) 1 << 32 | 5,
                                    .from_s = 1763712000,
                                    .to_s = 1763712120,
                                    .batches = 9,
                                    .hits = 369,
                                    .busy_ms = 91000,
                                    .cpu_ms = 180500,
                                    .has_ended = true,
                                    .label = "gpu01/17.0",
                                    .signature = "cuda/sm90/fp32/3",
                                    .device = "NVIDIA H200",
                                    .why = "its wall time is over" };
    wm_latency_add (&tally.step[WM_STEP_QUEUE], 3);
    wm_ledger_add_history (made_ledger, 1763712000 - 8 * 24 * 3600, &tally, 1, 4096);
    wm_ledger_add_history (made_ledger, 1763712000, &tally, 3, 8192);
    wm_ledger_put_span (made_ledger, &span);
#endif
#ifdef WM_MARKS_MAX /* from schema 5 on */
    wm_ledger_mark (made_ledger, 1763711000, WM_MARK_LOST, "gpu01/17.0");
    wm_ledger_mark (made_ledger, 1763712000, WM_MARK_LOST, "gpu02/18.0");
    wm_ledger_mark (made_ledger, 1763712060, WM_MARK_LOST, "gpu03/19.0");
#endif
}

/* Records that stand; those of one name replace each other.  */
static void make_standing (const char *why)
{
#ifdef WM_LEDGER_ROW_H /* from schema 4 on */
    static const uint8_t inputs[] = { 1 << 2 | 1 << 4 | 1 << 5 };
    wm_record_t record = make_record (WM_RECORD_PAUSE, 0, 0, 0, 0);
    record.code = *why != 0;
    wm_record_text (&record, why);
    make_append (&record);
    for (int i = 0; i < 2; i++) {
        record = make_record (WM_RECORD_ARITHMETIC, 0, 0, 0, 0);
        record.name = i ? "H200" : "x86-64";
        record.name_bytes = (uint32_t) strlen (record.name);
        record.n_event = 0x3f847ae147ae147b; /* 0.01 */
        record.n_hit = 2000;
        wm_record_text (&record, i ? "cuda/sm90/fp32/3" : "sparse/v1/avx512/fp32/2");
        make_append (&record);
    }
    record = make_record (WM_RECORD_SAMPLE, 0, 0, 0, 0);
    record.n_hit = 2;
    record.payload = inputs;
    record.payload_bytes = sizeof inputs;
    make_append (&record);
    record = make_record (WM_RECORD_DISTRUST, 0, 0, 0, 0);
    record.code = WM_DISTRUST_MACHINE | WM_DISTRUST_HOST;
    record.name = "alpha\0001234567"; /* and their NULs */
    record.name_bytes = sizeof "alpha\0001234567";
    record.text = "alpha:2\0sparse\0wrong scores";
    record.text_bytes = sizeof "alpha:2\0sparse\0wrong scores";
    record.payload = inputs;
    record.payload_bytes = *why ? sizeof inputs : 0;
    make_append (&record);
    record = make_record (WM_RECORD_TOLD, 0, 0, 0, 0);
    record.code = 1;
    record.n_hit = 6;
    record.n_event = 2;
    record.n_held = 3;
    make_append (&record);
#else
    (void) why;
#endif
}

/* Two epochs, something of everything, and records that the ledger has not seen.  */
static void make_campaign (const char *dir)
{
    make_epoch (dir, 1);
    make_history ();
    make_pins ();
    for (uint32_t id = 1; id <= 6; id++)
        make_input (id);
    for (uint32_t batch = 0; batch < 3; batch++)
        make_result (1, 0, batch, 0);
    make_end (1);
    make_written (1); /* done */
    make_end (2);
    make_result (2, 0, 0, 0);
    wm_record_t record = make_record (WM_RECORD_HELD, 2, 0, 2, 0);
    record.code = 5;
    record.n_batch = 3;
    wm_record_text (&record, "3 failures on 2 workers");
    make_append (&record); /* open, with a batch held */
    record = make_record (WM_RECORD_HELD, 3, WM_ALL, WM_ALL, 0);
    record.code = 5;
    wm_record_text (&record, "truncated file");
    make_append (&record);                   /* held */
    make_standing ("by an operator: lunch"); /* inputs 2 and 5 stay suspect */
    make_stop (1);
    make_epoch (dir, 2);
    make_result (4, 0, 0, 0);
    record = make_record (WM_RECORD_KICK, 4, WM_ALL, WM_ALL, 1);
    record.size = -1;
    make_append (&record); /* begun anew, not pinned */
    make_written (5);
    record = make_record (WM_RECORD_FILE_LOST, 5, 0, 0, 0);
    wm_record_text (&record, "missing");
    make_append (&record); /* open again */
    make_check (!wm_ledger_commit (made_ledger, NULL), "commit");
    make_result (2, 0, 1, 0);
    make_result (5, 1, 1, 0);
    make_end (6);
    make_standing ("");
    make_stop (0);
}

#endif
