/* test_broker_journal.c - what was synced is there again, whatever else happened to the files.  */
#include "tests/unit/journal_files.h"

#include "broker/disk/wm_journal_private.h"


static void round_trip (void **state)
{
    wm_journal_t *journal = open_journal ();
    assert_int_equal (wm_journal_epoch (journal), 0);
    replay (journal, 0, 0);
    assert_int_equal (seen.n, 0);
    assert_int_equal (wm_journal_start (journal, 1, NULL), WM_OK);
    wm_place_t place[4];
    must_add (journal, WM_RECORD_CAMPAIGN, 0, 1, &place[0]);
    must_add (journal, WM_RECORD_RESULT, 1, 2, &place[1]);
    must_add (journal, WM_RECORD_INPUT, 1, 3, &place[2]);
    must_add (journal, WM_RECORD_RESULT, 1, 4, &place[3]);
    wm_journal_sync (journal);
    wm_record_t record;
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal (wm_journal_read (journal, &place[i], &record, NULL), WM_OK);
        assert_int_equal (record.attempt, i + 1);
        assert_int_equal (record.durable, 1);
    }
    assert_int_equal (record.payload_bytes, 3000);
    assert_memory_equal (record.payload, bulk, 3000);
    assert_true (wm_journal_bytes (journal) >= 6000);
    wm_journal_destroy (&journal);
    wm_journal_destroy (&journal);

    replay_closed (0, 0);
    expect_tags (4, 1, 2, 3, 4);
    assert_int_equal (seen.found.n_lost + seen.found.n_torn + seen.found.damaged_bytes, 0);
    replay_closed (1, 3); /* sequence 1 is the epoch's own record */
    expect_tags (2, 3, 4);
    assert_int_equal (seen.found.n_lost, 0);
    replay_closed (1, 5);
    assert_int_equal (seen.n, 0);
    assert_int_equal (seen.found.n_lost, 0);
}

static void two_epochs (void **state)
{
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_INPUT, 1, 1, NULL);
    must_add (journal, WM_RECORD_RESULT, 1, 2, NULL);
    wm_journal_sync (journal);
    wm_journal_destroy (&journal);
    journal = open_journal ();
    assert_int_equal (wm_journal_epoch (journal), 1);
    replay (journal, 0, 0);
    assert_int_equal (wm_journal_start (journal, 2, NULL), WM_OK);
    must_add (journal, WM_RECORD_RESULT, 1, 3, NULL);
    must_add (journal, WM_RECORD_INPUT_END, 1, 4, NULL);
    wm_journal_destroy (&journal);
    journal = open_journal ();
    assert_int_equal (wm_journal_epoch (journal), 2);
    replay (journal, 0, 0);
    expect_tags (4, 1, 2, 3, 4);
    assert_int_equal (seen.found.n_lost + seen.found.n_torn, 0);
    wm_journal_destroy (&journal);
    replay_closed (1, 3);
    expect_tags (2, 3, 4);
    replay_closed (2, 2);
    expect_tags (1, 4);
    replay_closed (3, 5); /* a ledger ahead of its journal */
    assert_int_equal (seen.n, 0);
    assert_int_equal (seen.found.n_lost, 5);
    /* It went on to an epoch of its own: those between were another journal's, or are gone.  */
    journal = open_journal ();
    replay (journal, 3, 5);
    assert_int_equal (wm_journal_start (journal, 5, NULL), WM_OK);
    wm_journal_destroy (&journal);
    replay_closed (0, 0);
    assert_int_equal (seen.found.n_lost, 2);
    replay_closed (3, 5);
    assert_int_equal (seen.found.n_lost, 6);
    replay_closed (5, 1);
    assert_int_equal (seen.found.n_lost, 0);
}

/* The last number of an epoch is given, and none after it, which would be of the next epoch.  */
static void numbers_of_an_epoch (void **state)
{
    wm_place_t place;
    wm_error_t error;
    wm_record_t record;
    wm_journal_t *journal = start_journal (1);
    journal->number = 0xfffffe;
    must_add (journal, WM_RECORD_RESULT, 1, 1, &place);
    assert_int_equal (place.segment, 0x1ffffff);
    journal->active[0] = NULL; /* as if the other kind's segment were full, too */
    wm_record_init (&record, WM_RECORD_INPUT);
    assert_int_equal (wm_journal_append (journal, &record, &place, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "has no segment numbers left in epoch 1: start"));
    wm_journal_destroy (&journal);
}

static void torn_tail (void **state)
{
    wm_place_t place[6];
    wm_journal_t *journal = start_journal (1);
    for (uint32_t i = 1; i <= 5; i++) {
        must_add (journal, WM_RECORD_RESULT, 1, i, &place[i]);
        if (i == 3)
            wm_journal_sync (journal);
    }
    wm_journal_destroy (&journal);
    damage (&place[4], 500); /* not durable, and a valid record above it */
    replay_closed (0, 0);
    expect_tags (4, 1, 2, 3, 5);
    assert_int_equal (seen.found.n_torn, 1);
    assert_int_equal (seen.found.n_lost, 0);
    assert_true (seen.found.damaged_bytes > 0);

    /* The next epoch must not take that hole for damage, nor any later one.  */
    journal = open_journal ();
    replay (journal, 0, 0);
    assert_int_equal (wm_journal_start (journal, 2, NULL), WM_OK);
    must_add (journal, WM_RECORD_RESULT, 1, 6, NULL);
    wm_journal_sync (journal);
    wm_journal_destroy (&journal);
    replay_closed (0, 0);
    expect_tags (5, 1, 2, 3, 5, 6);
    assert_int_equal (seen.found.n_lost, 0);

    damage (&place[5], 10); /* the tail after the hole: nothing proves it either */
    replay_closed (0, 0);
    expect_tags (4, 1, 2, 3, 6);
    assert_int_equal (seen.found.n_lost, 0);
}

static void flipped_bit (void **state)
{
    wm_place_t place[6];
    wm_journal_t *journal = start_journal (1);
    for (uint32_t i = 1; i <= 5; i++) {
        must_add (journal, i == 3 ? WM_RECORD_INPUT : WM_RECORD_RESULT, 1, i, &place[i]);
        wm_journal_sync (journal);
    }
    damage (&place[2], 2000);
    wm_record_t record;
    wm_error_t error;
    assert_int_equal (wm_journal_read (journal, &place[2], &record, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "damaged"));
    wm_journal_destroy (&journal);
    replay_closed (0, 0);
    expect_tags (4, 1, 3, 4, 5);
    assert_int_equal (seen.found.n_lost, 1);
    assert_non_null (strstr (seen.found.text, "epoch 1"));
    damage (&place[3], 8); /* the type, in the head, of one that stays */
    replay_closed (0, 0);
    expect_tags (3, 1, 4, 5);
    assert_int_equal (seen.found.n_lost, 2);
    replay_closed (1, 4); /* both below what the ledger has */
    expect_tags (2, 4, 5);
    assert_int_equal (seen.found.n_lost, 0);

    /* The last record: only what comes after it, or the ledger, can know of it.  */
    damage (&place[5], 100);
    replay_closed (0, 0);
    assert_int_equal (seen.found.n_lost, 2);
    replay_closed (1, 6);
    assert_int_equal (seen.n, 0);
    assert_int_equal (seen.found.n_lost, 1);
}

static void last_of_an_epoch (void **state)
{
    wm_place_t place;
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_RESULT, 1, 1, &place);
    wm_journal_sync (journal);
    wm_journal_destroy (&journal);
    journal = open_journal ();
    replay (journal, 0, 0);
    assert_int_equal (wm_journal_start (journal, 2, NULL), WM_OK);
    wm_journal_destroy (&journal);
    damage (&place, 100);
    replay_closed (0, 0);
    assert_int_equal (seen.n, 0);
    assert_int_equal (seen.found.n_lost, 1); /* epoch 2 says that epoch 1 was complete up to it */
}

/* Whoever reads a campaign whose folder is moved away at that moment makes none in its place.  */
static void a_folder_that_is_gone (void **state)
{
    char gone[PATH_MAX];
    wm_error_t error;
    snprintf (gone, sizeof gone, "%s/gone", dir);
    assert_null (wm_journal_open (gone, NULL, &error));
    assert_int_equal (error.fault, WM_EHOST);
    assert_int_equal (access (gone, F_OK), -1);
}

/* A start adopts what lies above a hole in a torn tail, and ends before it has an epoch of its own:
   the next one replays from above the hole, and must not call the hole complete. What was durable
   is damage all the same, and so is what the last epoch had whole.  */
static void hole_below_the_ledger (void **state)
{
    wm_storage_ops_t ops_of[2] = { ops, ops };
    ops_of[1].segment_bytes_max = 4096; /* a segment for each RESULT */
    for (int i = 0; i < 6; i++) {
        const int hurt = i / 2; /* 0: not acknowledged; 1: acknowledged; 2: adopted, later */
        wm_error_t error;
        wm_place_t place[6];
        wm_journal_t *journal = wm_journal_open (dir, &ops_of[i % 2], &error);
        assert_non_null (journal);
        assert_int_equal (wm_journal_start (journal, 1, NULL), WM_OK);
        must_add (journal, WM_RECORD_INPUT, 1, 1, &place[0]); /* sequence 2 */
        must_add (journal, WM_RECORD_RESULT, 1, 2, &place[1]);
        must_add (journal, WM_RECORD_RESULT, 1, 3, &place[2]);
        wm_journal_sync (journal);
        must_add (journal, WM_RECORD_RESULT, 1, 4, &place[3]);
        must_add (journal, WM_RECORD_RESULT, 1, 5, &place[4]);
        must_add (journal, WM_RECORD_RESULT, 1, 6, &place[5]); /* sequence 7 */
        wm_journal_destroy (&journal);
        if (hurt < 2)
            damage (&place[hurt ? 2 : 3], 200);
        journal = open_journal ();
        replay (journal, 0, 0);
        assert_int_equal (seen.n, hurt == 2 ? 6 : 5);
        assert_int_equal (seen.found.n_lost, hurt == 1);
        assert_int_equal (seen.found.n_torn, hurt == 0);
        wm_journal_destroy (&journal); /* the ledger is at (1, 7) now; there is no epoch 2 */

        journal = open_journal ();
        replay (journal, 1, 7);
        assert_int_equal (seen.n, 0);
        assert_int_equal (seen.found.n_lost + seen.found.n_torn, 0);
        assert_int_equal (wm_journal_start (journal, 2, NULL), WM_OK);
        wm_journal_destroy (&journal);
        if (hurt == 2)
            damage (&place[4], 200);
        replay_closed (0, 0);
        assert_int_equal (seen.n, 5);
        assert_int_equal (seen.found.n_lost, hurt != 0);
        assert_int_equal (tear_down (state) | set_up (state), 0);
    }
}

/* A record that stays, lost among RESULTs that were deleted, is still missed.  */
static void loss_among_deleted (void **state)
{
    wm_journal_t *journal = start_journal (1);
    wm_place_t place;
    for (uint32_t tag = 1; tag <= 60; tag++)
        assert_int_equal (add (journal, WM_RECORD_RESULT, 1, tag, WM_RAW_BYTES_MAX, NULL), WM_OK);
    must_add (journal, WM_RECORD_INPUT, 2, 61, &place);
    for (uint32_t tag = 62; tag <= 70; tag++)
        assert_int_equal (add (journal, WM_RECORD_RESULT, 1, tag, WM_RAW_BYTES_MAX, NULL), WM_OK);
    must_add (journal, WM_RECORD_FILE_WRITTEN, 1, 71, NULL);
    assert_int_equal (wm_journal_sweep (journal), 1);
    wm_journal_destroy (&journal);
    replay_closed (0, 0);
    assert_int_equal (seen.found.n_lost, 0);
    damage (&place, 60);
    replay_closed (0, 0);
    assert_int_equal (seen.found.n_lost, 1);
}

/* A result that is larger than all others, between small ones, and beyond what a replay reads at
   once.  */
static void large_results (void **state)
{
    wm_error_t error;
    wm_record_t record;
    wm_place_t place;
    for (size_t i = 0; i < sizeof bulk; i++)
        bulk[i] = (uint8_t) (i * 7 + i / 4096);
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_RESULT, 1, 1, NULL);
    assert_int_equal (add (journal, WM_RECORD_RESULT, 1, 2, sizeof bulk, &place), WM_OK);
    must_add (journal, WM_RECORD_RESULT, 1, 3, NULL);
    assert_int_equal (add (journal, WM_RECORD_RESULT, 1, 4, sizeof bulk, NULL), WM_OK);
    assert_int_equal (wm_journal_read (journal, &place, &record, &error), WM_OK);
    assert_int_equal (record.payload_bytes, sizeof bulk);
    assert_memory_equal (record.payload, bulk, sizeof bulk);
    wm_journal_destroy (&journal);
    replay_closed (0, 0);
    expect_tags (4, 1, 2, 3, 4);
    assert_int_equal (seen.found.n_lost + seen.found.damaged_bytes, 0);
}

static wm_fault_t ignore (void *argument, const wm_record_t *record, const wm_place_t *place,
                          wm_error_t *why)
{
    return WM_OK;
}

/* No memory for a record is no damage. The Makefile has the linker put this in realloc's place.  */
void *__real_realloc (void *block, size_t bytes);
void *__wrap_realloc (void *block, size_t bytes);
static size_t realloc_most = SIZE_MAX;

void *__wrap_realloc (void *block, size_t bytes)
{
    return bytes > realloc_most ? NULL : __real_realloc (block, bytes);
}

static void no_memory (void **state)
{
    wm_error_t error;
    wm_journal_found_t found;
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_RESULT, 1, 1, NULL);
    assert_int_equal (add (journal, WM_RECORD_RESULT, 1, 2, sizeof bulk, NULL), WM_OK);
    wm_journal_destroy (&journal);

    journal = open_journal ();
    realloc_most = sizeof bulk / 2;
    const wm_fault_t fault = wm_journal_replay (journal, 0, 0, ignore, NULL, &found, &error);
    realloc_most = SIZE_MAX;
    assert_int_equal (fault, WM_EHOST);
    assert_string_equal (error.text, "out of memory while reading the journal");
    wm_journal_destroy (&journal);
}

/* The next RESULT begins a segment of its own.  */
static void next_segment (wm_journal_t *journal)
{
    fail.short_write = 1;
    assert_int_equal (add (journal, WM_RECORD_RESULT, 1, 99, 3000, NULL), WM_EHOST);
    fail.write = 0;
}

/* The ledger ends one before the last record of a segment: that one is shown.  */
static void last_of_a_segment (void **state)
{
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_RESULT, 1, 1, NULL);
    must_add (journal, WM_RECORD_RESULT, 1, 2, NULL);
    next_segment (journal);
    must_add (journal, WM_RECORD_RESULT, 1, 3, NULL);
    wm_journal_destroy (&journal);
    replay_closed (1, 2);
    expect_tags (2, 2, 3);
    assert_int_equal (seen.found.n_lost, 0);
    replay_closed (1, 3);
    expect_tags (1, 3);
}

/* A segment that was deleted excuses its own records, and not the first one after them.  */
static void loss_behind_deleted (void **state)
{
    wm_place_t place;
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_RESULT, 1, 1, NULL);
    next_segment (journal);
    must_add (journal, WM_RECORD_RESULT, 2, 2, &place);
    must_add (journal, WM_RECORD_FILE_WRITTEN, 1, 3, NULL);
    assert_int_equal (wm_journal_sweep (journal), 1);
    wm_journal_destroy (&journal);
    replay_closed (0, 0);
    expect_tags (2, 2, 3);
    assert_int_equal (seen.found.n_lost, 0);
    damage (&place, 100);
    replay_closed (0, 0);
    expect_tags (1, 3);
    assert_int_equal (seen.found.n_lost, 1);
}

/* The same at the end of an epoch, where only EPOCH of the next one tells how many there were.  */
static void loss_at_the_end_among_deleted (void **state)
{
    wm_place_t result, place[2];
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_INPUT, 1, 1, NULL);
    must_add (journal, WM_RECORD_RESULT, 1, 2, &result);
    must_add (journal, WM_RECORD_INPUT_END, 1, 3, &place[0]);
    must_add (journal, WM_RECORD_FILE_WRITTEN, 1, 4, &place[1]);
    wm_journal_sync (journal);
    wm_journal_destroy (&journal);
    journal = open_journal ();
    replay (journal, 0, 0);
    assert_int_equal (wm_journal_start (journal, 2, NULL), WM_OK);
    assert_int_equal (wm_journal_sweep (journal), 1);
    wm_journal_destroy (&journal);
    replay_closed (0, 0);
    expect_tags (3, 1, 3, 4);
    assert_int_equal (seen.found.n_lost, 0);
    damage (&place[0], 60);
    damage (&place[1], 60);
    replay_closed (0, 0);
    expect_tags (1, 1);
    assert_int_equal (seen.found.n_lost, 2);
}

static void nothing_is_believed (void **state)
{
    /* Foreign names, an empty segment, a cut one, a copy of one under another number.  */
    wm_place_t place[3];
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_RESULT, 1, 1, &place[0]);
    must_add (journal, WM_RECORD_RESULT, 1, 2, &place[1]);
    wm_journal_sync (journal);
    must_add (journal, WM_RECORD_RESULT, 1, 3, &place[2]);
    wm_journal_sync (journal);
    must_add (journal, WM_RECORD_INPUT, 1, 4, NULL);
    wm_journal_destroy (&journal);
    char command[512];
    snprintf (command, sizeof command,
              "cd %s/journal && echo x >README && : >0000000001-000009.keep && "
              "cp 0000000001-000002.result 0000000001-000007.result && : >1-1.keep && "
              "truncate -s %u 0000000001-000002.result",
              dir, place[1].offset + 1001);
    assert_int_equal (system (command), 0);
    replay_closed (0, 0);
    expect_tags (2, 1, 4);
    assert_int_equal (seen.found.n_lost, 2);
}

static wm_fault_t stop (void *argument, const wm_record_t *record, const wm_place_t *place,
                        wm_error_t *error)
{
    return wm_fault (error, WM_EAGAIN, "enough");
}

/* Inputs are counted up to 2^24, so that the map of inputs of a segment has at most 2 MiB.  */
static void too_many_inputs (void **state)
{
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_RESULT, 1u << 24, 1, NULL);
    assert_int_equal (add (journal, WM_RECORD_RESULT, (1u << 24) + 1, 2, 3000, NULL), WM_EHOST);
    assert_int_equal (add (journal, WM_RECORD_INPUT, (1u << 24) + 1, 2, 0, NULL), WM_EHOST);
    wm_journal_destroy (&journal);
}

static void callback_stops (void **state)
{
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_INPUT, 1, 1, NULL);
    wm_journal_destroy (&journal);
    journal = open_journal ();
    wm_error_t error;
    wm_journal_found_t found;
    assert_int_equal (wm_journal_replay (journal, 0, 0, stop, NULL, &found, &error), WM_EAGAIN);
    assert_string_equal (error.text, "enough");
    wm_journal_destroy (&journal);
}

int main (void)
{
    memset (bulk, 0x5a, sizeof bulk);
    const struct CMUnitTest tests[] = {
        TEST (round_trip),
        TEST (two_epochs),
        TEST (numbers_of_an_epoch),
        TEST (torn_tail),
        TEST (flipped_bit),
        TEST (last_of_an_epoch),
        TEST (a_folder_that_is_gone),
        TEST (hole_below_the_ledger),
        TEST (large_results),
        TEST (no_memory),
        TEST (loss_among_deleted),
        TEST (last_of_a_segment),
        TEST (loss_behind_deleted),
        TEST (loss_at_the_end_among_deleted),
        TEST (nothing_is_believed),
        TEST (too_many_inputs),
        TEST (callback_stops),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests (tests, NULL, NULL);
}
