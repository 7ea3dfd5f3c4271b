/* test_broker_recorder.c - wm_recorder while its disk is full now and then: of a broker for clients
   what stands is kept in its order, at the latest when the broker stops; of another broker the time
   line has when the disk was full. One thread.  */
#include "broker/wm_recorder.h"
#include "tests/unit/ledger_harness.h"

#include "schema/wm_limits.h"

#include <errno.h>

#define NOTES 12

static int64_t now;
static int n_room; /* writes until the disk is full */

static int64_t now_ms (void)
{
    return now;
}

static ssize_t full_write (void *context, int fd, const void *buffer, size_t bytes, int64_t offset)
{
    if (n_room-- > 0)
        return wm_storage_posix.write (context, fd, buffer, bytes, offset);
    errno = ENOSPC;
    return -1;
}

static void ignore_drop (void *context, uint32_t session)
{
}

static void ignore_log (void *context, const char *line)
{
}

static wm_fault_t next (void *argument, const wm_record_t *record, const wm_place_t *place,
                        wm_error_t *why)
{
    uint64_t *last = argument;
    if (record->type == WM_RECORD_TOLD)
        assert_int_equal (record->n_hit, ++*last);
    return WM_OK;
}

static void load (void *argument, const wm_record_t *record, const wm_place_t *place)
{
    *(uint64_t *) argument = record->n_hit;
}

static wm_core_t *core;
static wm_recorder_t *recorder;

static void begin (bool for_clients)
{
    static wm_storage_ops_t ops;
    const wm_core_sink_t sink = { .drop = ignore_drop, .log = ignore_log };
    const wm_core_config_t config = {
        .pins = "", .for_clients = for_clients, .times = *wm_times ()
    };
    ops = wm_storage_posix;
    ops.write = full_write;
    n_room = 1000;
    journal = wm_journal_open (dir, &ops, &error);
    ledger = wm_ledger_open (dir, NULL, &error);
    assert_true (journal && ledger);
    assert_int_equal (wm_journal_start (journal, 1, &error), WM_OK);
    core = wm_core_new (&config, &sink);
    recorder = wm_recorder_new (&(wm_recorder_config_t){ .core = core,
                                                         .journal = journal,
                                                         .ledger = ledger,
                                                         .keeps_nothing = for_clients,
                                                         .epoch = 1,
                                                         .now_ms = now_ms });
}

static void end (void)
{
    n_room = 1000;
    wm_recorder_stop (recorder, "the broker stops");
    assert_int_equal (wm_recorder_fault (recorder, NULL), WM_OK);
    wm_recorder_destroy (&recorder);
    wm_core_destroy (&core);
}

static void note (uint64_t n)
{
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_TOLD);
    record.n_hit = n;
    wm_recorder_note (recorder, &record);
}

/* Records that are given while the disk has room for some writes in each turn.  */
static void trial (unsigned pattern)
{
    uint64_t last = 0, n = 0;
    begin (true);
    for (unsigned turn = 0; n < NOTES; turn++, pattern /= 3) {
        for (int i = 0; i < 2 && n < NOTES; i++) {
            note (++n);
            n_room = pattern % 3 == (unsigned) i + 1 ? 0 : 1; /* full at one of two, or at none */
            if (pattern % 2)
                wm_recorder_settle (recorder);
        }
        now += turn % 2 ? wm_times ()->disk_full_ms : 1;
        wm_recorder_turn (recorder);
    }
    end ();
    const wm_ledger_load_t to = { .standing = load };
    assert_int_equal (wm_ledger_load (ledger, NULL, &to, &last, NULL, &error), WM_OK);
    assert_int_equal (last, NOTES);
    stop ();
    last = 0;
    journal = wm_journal_open (dir, NULL, &error);
    assert_non_null (journal);
    assert_int_equal (wm_journal_replay (journal, 0, 0, next, &last, &found, &error), WM_OK);
    assert_int_equal (last, NOTES);
    wm_journal_destroy (&journal);
}

static void in_order (void **state)
{
    for (unsigned pattern = 0; pattern < 729; pattern += 7) {
        assert_int_equal (set_up (state), 0);
        trial (pattern);
        shell ("rm -rf %s", dir);
    }
}

/* Full for three attempts, and for one: each time has one mark at its begin and one at its end.  */
static void marks (void **state)
{
    static const wm_mark_kind_t wanted[] = { WM_MARK_FULL, WM_MARK_ROOM, WM_MARK_FULL,
                                             WM_MARK_ROOM };
    const wm_mark_t *mark;
    size_t n = 0;
    assert_int_equal (set_up (state), 0);
    begin (false);
    for (int turn = 0; turn < 8; turn++) {
        n_room = (turn >= 1 && turn <= 3) || turn == 6 ? 0 : 1000;
        note (1 + (uint64_t) turn);
        now += wm_times ()->disk_full_ms;
        wm_recorder_turn (recorder);
    }
    end ();
    for (size_t i = 0; (mark = wm_ledger_mark_at (ledger, i)); i++) {
        if (mark->kind != WM_MARK_FULL && mark->kind != WM_MARK_ROOM)
            continue;
        assert_true (n < sizeof wanted / sizeof *wanted);
        assert_int_equal (mark->kind, wanted[n++]);
    }
    assert_int_equal (n, sizeof wanted / sizeof *wanted);
    stop ();
    shell ("rm -rf %s", dir);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (in_order), cmocka_unit_test (marks) };
    return cmocka_run_group_tests_name ("broker_recorder", tests, NULL, NULL);
}
