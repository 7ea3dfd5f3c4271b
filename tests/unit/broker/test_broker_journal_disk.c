/* test_broker_journal_disk.c - the journal on a disk that is full or fails, and what it gives back
   to it.

   Nothing acknowledged is lost at any operation that fails; segments go when all in them is
   done.  */
#include "tests/unit/journal_files.h"
#include <sys/stat.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

static void disk_full (void **state)
{
    wm_error_t error;
    wm_journal_t *journal = open_journal ();
    fail.allocate = ENOSPC;
    assert_int_equal (wm_journal_start (journal, 1, &error), WM_EAGAIN);
    assert_non_null (strstr (error.text, "disk full"));
    assert_int_equal (n_files (), 0);
    fail.allocate = 0;
    assert_int_equal (wm_journal_start (journal, 1, NULL), WM_OK);
    must_add (journal, WM_RECORD_INPUT, 1, 1, NULL);
    fail.allocate = ENOSPC;
    for (int i = 0; i < 3; i++)
        assert_int_equal (add (journal, WM_RECORD_RESULT, 1, 2, 3000, NULL), WM_EAGAIN);
    must_add (journal, WM_RECORD_INPUT_END, 1, 3, NULL); /* has its space already */
    fail.allocate = EDQUOT;
    assert_int_equal (add (journal, WM_RECORD_RESULT, 1, 2, 3000, NULL), WM_EAGAIN);
    fail.allocate = 0;
    must_add (journal, WM_RECORD_RESULT, 1, 4, NULL);
    /* Inside a segment too: after two of 4 MiB space for 16 MiB is reserved, which ends.  */
    for (uint32_t i = 5; i < 7; i++)
        assert_int_equal (add (journal, WM_RECORD_RESULT, 1, i, WM_RAW_BYTES_MAX, NULL), WM_OK);
    fail.allocate = ENOSPC;
    uint32_t tag = 7;
    while (add (journal, WM_RECORD_RESULT, 1, tag, WM_RAW_BYTES_MAX, NULL) == WM_OK)
        tag++;
    assert_true (tag > 7);
    fail.allocate = 0;
    assert_int_equal (add (journal, WM_RECORD_RESULT, 1, tag, WM_RAW_BYTES_MAX, NULL), WM_OK);
    assert_int_equal (n_files (), 2);
    wm_journal_sync (journal);
    wm_journal_destroy (&journal);
    replay_closed (0, 0);
    assert_int_equal (seen.n, tag - 1); /* tag 2 never made it */
    assert_int_equal (seen.found.n_lost + seen.found.n_torn, 0);
}

/* Bytes of all segments.  */
static int64_t n_bytes (void)
{
    char path[800];
    int64_t bytes = 0;
    snprintf (path, sizeof path, "%s/journal", dir);
    DIR *folder = opendir (path);
    assert_non_null (folder);
    for (struct dirent *entry; (entry = readdir (folder));) {
        struct stat status;
        snprintf (path, sizeof path, "%s/journal/%s", dir, entry->d_name);
        if (entry->d_name[0] != '.' && stat (path, &status) == 0)
            bytes += status.st_size;
    }
    closedir (folder);
    return bytes;
}

/* What a campaign of a few hits leaves on the disk.  */
static void small (void **state)
{
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_INPUT, 1, 1, NULL);
    must_add (journal, WM_RECORD_RESULT, 1, 2, NULL);
    wm_journal_sync (journal);
    wm_journal_destroy (&journal);
    assert_int_equal (n_files (), 2);
    assert_true (n_bytes () <= 512 << 10);
}

static void failed_write (void **state)
{
    wm_error_t error;
    wm_journal_t *journal = start_journal (1);
    must_add (journal, WM_RECORD_RESULT, 1, 1, NULL);
    fail.short_write = 1;
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_RESULT);
    record.payload = bulk;
    record.payload_bytes = 3000;
    assert_int_equal (wm_journal_append (journal, &record, NULL, &error), WM_EHOST);
    assert_non_null (strstr (error.text, "write"));
    fail.write = 0;
    const size_t before = n_files ();
    must_add (journal, WM_RECORD_RESULT, 1, 2, NULL);
    assert_int_equal (n_files (), before + 1);
    wm_journal_sync (journal);
    must_add (journal, WM_RECORD_RESULT, 1, 3, NULL);
    assert_int_equal (n_files (), before + 1);
    wm_journal_destroy (&journal);
    replay_closed (0, 0);
    expect_tags (3, 1, 2, 3);
    assert_int_equal (seen.found.n_lost, 0);
    assert_true (seen.found.damaged_bytes > 0);

    journal = start_journal (2);
    wm_record_init (&record, WM_RECORD_RESULT);
    record.payload = bulk;
    record.payload_bytes = WM_PATCH_BYTES_MAX + 1;
    assert_int_equal (wm_journal_append (journal, &record, NULL, &error), WM_EHOST);
    record.payload_bytes = 8;
    record.key.input = 1u << 30;
    assert_int_equal (wm_journal_append (journal, &record, NULL, &error), WM_EHOST);
    record.key.input = 1;
    assert_int_equal (wm_journal_append (journal, &record, NULL, &error), WM_OK);
    assert_int_equal (record.sequence, 2); /* after EPOCH: a refused one takes no number */
    wm_journal_destroy (&journal);
}

static void failed_sync_ends_it (void **state)
{
    fflush (NULL);
    const pid_t child = fork ();
    if (child == 0) {
        const int quiet = open ("/dev/null", O_WRONLY);
        dup2 (quiet, 2);
        wm_journal_t *journal = start_journal (1);
        must_add (journal, WM_RECORD_RESULT, 1, 1, NULL);
        fail.sync = EIO;
        wm_journal_sync (journal);
        _exit (0);
    }
    int status;
    assert_int_equal (waitpid (child, &status, 0), child);
    assert_true (WIFEXITED (status));
    assert_int_equal (WEXITSTATUS (status), 1);
}

static void sweep (void **state)
{
    wm_journal_t *journal = start_journal (1);
    wm_place_t place, first;
    must_add (journal, WM_RECORD_RESULT, 1, 1, &first);
    /* Two and a half segments: input 1 ends in the second, 2 is in all, 3 in the last.  */
    uint32_t tag = 2;
    do
        assert_int_equal (add (journal, WM_RECORD_RESULT, tag < 80 ? 1 + tag % 2 : 2, tag,
                               WM_RAW_BYTES_MAX, &place),
                          WM_OK);
    while (tag++ < 150);
    must_add (journal, WM_RECORD_RESULT, 3, tag++, &place);
    assert_int_equal (n_files (), 4);
    assert_int_equal (wm_journal_sweep (journal), 0);
    must_add (journal, WM_RECORD_FILE_WRITTEN, 1, tag++, NULL);
    assert_int_equal (wm_journal_sweep (journal), 0); /* input 2 */
    must_add (journal, WM_RECORD_FILE_WRITTEN, 2, tag++, NULL);
    fail.allocate = ENOSPC;
    assert_int_equal (wm_journal_sweep (journal), 2); /* its segment that stays has space */
    fail.allocate = 0;
    assert_int_equal (n_files (), 2);
    wm_record_t record;
    assert_int_equal (wm_journal_read (journal, &first, &record, NULL), WM_EHOST);
    assert_int_equal (wm_journal_hold (journal, &first, 1), 0);
    assert_int_equal (wm_journal_read (journal, &place, &record, NULL), WM_OK);
    /* FILE_LOST: what comes now is live again.  */
    must_add (journal, WM_RECORD_FILE_LOST, 1, tag++, NULL);
    must_add (journal, WM_RECORD_RESULT, 1, tag++, &place);
    wm_journal_sync (journal);
    wm_journal_destroy (&journal);

    journal = open_journal ();
    replay (journal, 0, 0);
    assert_int_equal (seen.found.n_lost, 0);
    assert_int_equal (seen.found.n_torn, 0);
    /* What the sweep deleted: all but some of input 2, input 3's, and five others.  */
    assert_true (seen.n > 5 && seen.n < 60);
    assert_int_equal (wm_journal_start (journal, 2, NULL), WM_OK);
    assert_int_equal (wm_journal_hold (journal, &place, 1), 1);
    assert_int_equal (
        wm_journal_hold (journal, &(wm_place_t){ place.segment, 0xfffffff0, 4096 }, 1), 0);
    assert_int_equal (wm_journal_hold (journal, &(wm_place_t){ 1, 0, 4096 }, 1), 0);
    assert_int_equal (wm_journal_sweep (journal), 0);
    must_add (journal, WM_RECORD_FILE_WRITTEN, 1, tag++, NULL);
    fail.remove = EACCES;
    assert_int_equal (wm_journal_sweep (journal), 0);
    fail.remove = 0;
    assert_int_equal (wm_journal_sweep (journal), 1);
    assert_int_equal (n_files (), 2);
    wm_journal_destroy (&journal);

    replay_closed (0, 0);
    assert_int_equal (seen.n, 4); /* those that stay */
    assert_int_equal (seen.found.n_lost, 0);
    replay_closed (1, 100);
    assert_int_equal (seen.found.n_lost, 0);
}

/* What ends an input frees its segments, and only what ends all of it.  */
static void let_go (void **state)
{
    const wm_record_type_t ends[] = { WM_RECORD_FILE_WRITTEN, WM_RECORD_KICK, WM_RECORD_HELD };
    for (uint32_t i = 0; i < 3; i++) {
        wm_place_t place;
        wm_journal_t *journal = start_journal (2 * i + 1);
        must_add (journal, WM_RECORD_RESULT, 1, 1, &place);
        wm_journal_destroy (&journal);
        journal = start_journal (2 * i + 2); /* what is not being written can go */
        assert_true (wm_journal_hold (journal, &place, 1));
        must_add (journal, WM_RECORD_HELD, 1, 7, NULL); /* one event: not the input */
        must_add (journal, ends[i], 2, WM_ALL, NULL);   /* another */
        assert_int_equal (wm_journal_sweep (journal), 0);
        must_add (journal, ends[i], 1, WM_ALL, NULL);
        assert_int_equal (wm_journal_sweep (journal), 1);
        wm_journal_destroy (&journal);
    }
}

/* ---- every operation fails in turn ----------------------------------------------------------- */

/* What the child acknowledged, seen by the parent after its end.  */
static struct {
    uint32_t tag[64], n;
} * acked;

static void run_with_failures (void)
{
    wm_journal_t *journal = wm_journal_open (dir, &ops, NULL);
    wm_journal_found_t found;
    if (!journal || wm_journal_replay (journal, 0, 0, see, &seen, &found, NULL) != WM_OK ||
        wm_journal_start (journal, wm_journal_epoch (journal) + 1, NULL) != WM_OK)
        _exit (2);
    uint32_t waiting[64], n_waiting = 0;
    for (uint32_t tag = 1; tag <= 12; tag++) {
        const wm_record_type_t type = tag % 3 == 0 ? WM_RECORD_INPUT : WM_RECORD_RESULT;
        if (add (journal, type, 1, tag, 2000, NULL) == WM_OK)
            waiting[n_waiting++] = tag;
        if (tag % 4 == 0) {
            wm_journal_sync (journal);
            for (uint32_t i = 0; i < n_waiting; i++)
                acked->tag[acked->n++] = waiting[i];
            n_waiting = 0;
        }
    }
    wm_journal_destroy (&journal);
    _exit (fail.call < fail.fail_call ? 3 : 0);
}

static void every_operation_fails (void **state)
{
    acked = mmap (NULL, sizeof *acked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    uint64_t call = 1;
    for (; !(WIFEXITED (status) && WEXITSTATUS (status) == 3); call++) {
        assert_int_equal (tear_down (state), 0);
        assert_int_equal (set_up (state), 0);
        acked->n = 0;
        fflush (NULL);
        const pid_t child = fork ();
        if (child == 0) {
            dup2 (open ("/dev/null", O_WRONLY), 2);
            fail.fail_call = call;
            run_with_failures ();
        }
        assert_int_equal (waitpid (child, &status, 0), child);
        assert_true (WIFEXITED (status));
        fail.fail_call = 0;
        replay_closed (0, 0);
        assert_int_equal (seen.found.n_lost, 0);
        for (uint32_t i = 0; i < acked->n; i++) {
            size_t at = 0;
            while (at < seen.n && seen.tag[at] != acked->tag[i])
                at++;
            assert_true (at < seen.n);
        }
    }
    assert_int_equal (acked->n, 12);
    assert_true (call > 20);
    munmap (acked, sizeof *acked);
}

/* ---- speed ----------------------------------------------------------------------------------- */

static double now (void)
{
    struct timespec t;
    clock_gettime (CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static void speed (void **state)
{
    wm_journal_t *journal = start_journal (1);
    const double begin = now ();
    uint32_t n = 0;
    for (; n < 8192; n++) {
        assert_int_equal (add (journal, WM_RECORD_RESULT, 1, n, 16384, NULL), WM_OK);
        if (n % 256 == 255)
            wm_journal_sync (journal);
    }
    const double seconds = now () - begin;
    printf ("journal: %.0f records/s of 16 KiB, synced in groups of 256\n", n / seconds);
    wm_journal_destroy (&journal);
    const double begin_replay = now ();
    replay_closed (0, 0);
    printf ("journal: replay of %zu records (%.0f MB) in %.3f s\n", seen.n,
            (double) seen.n * 0.0164, now () - begin_replay);
    assert_int_equal (seen.n, n);
}

int main (void)
{
    memset (bulk, 0x5a, sizeof bulk);
    const struct CMUnitTest tests[] = {
        TEST (disk_full), TEST (small),  TEST (failed_write),          TEST (failed_sync_ends_it),
        TEST (sweep),     TEST (let_go), TEST (every_operation_fails), TEST (speed),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
