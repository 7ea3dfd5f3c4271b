/* test_broker_journal.c - what was synced is there again, whatever else happened to the files.  */
#include "broker/wm_journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64];

/* ---- an operations table that fails on demand ---------------------------------------------------
 */

static struct {
    int allocate, write, read, sync, remove; /* errno to fail with; 0: works */
    uint64_t call, fail_call;                /* the fail_call-th operation fails with EIO */
    int short_write;                         /* half of the next write, then failure */
} fail;

static int failing (int with)
{
    if (++fail.call == fail.fail_call)
        with = EIO;
    errno = with;
    return with;
}

static int make_folder (void *context, const char *path)
{
    return failing (0) ? -1 : wm_storage_posix.make_folder (context, path);
}
static int list (void *context, const char *path, void (*each) (void *, const char *),
                 void *argument)
{
    return failing (0) ? -1 : wm_storage_posix.list (context, path, each, argument);
}
static int create (void *context, const char *path)
{
    return failing (0) ? -1 : wm_storage_posix.create (context, path);
}
static int open_old (void *context, const char *path)
{
    return failing (0) ? -1 : wm_storage_posix.open (context, path);
}
static int close_file (void *context, int fd)
{
    return wm_storage_posix.close (context, fd);
}
static int64_t size_of (void *context, int fd)
{
    return failing (0) ? -1 : wm_storage_posix.size (context, fd);
}
static int allocate (void *context, int fd, int64_t offset, int64_t bytes)
{
    return failing (fail.allocate) ? -1 : wm_storage_posix.allocate (context, fd, offset, bytes);
}
static ssize_t read_at (void *context, int fd, void *buffer, size_t bytes, int64_t offset)
{
    return failing (fail.read) ? -1 : wm_storage_posix.read (context, fd, buffer, bytes, offset);
}
static ssize_t write_at (void *context, int fd, const void *buffer, size_t bytes, int64_t offset)
{
    if (fail.short_write && bytes > 16) {
        fail.short_write = 0;
        fail.write = EIO;
        return wm_storage_posix.write (context, fd, buffer, bytes / 2, offset);
    }
    return failing (fail.write) ? -1 : wm_storage_posix.write (context, fd, buffer, bytes, offset);
}
static int sync_file (void *context, int fd)
{
    return failing (fail.sync) ? -1 : wm_storage_posix.sync (context, fd);
}
static int forget (void *context, int fd)
{
    return failing (0) ? -1 : wm_storage_posix.forget (context, fd);
}
static int sync_folder (void *context, const char *path)
{
    return failing (fail.sync) ? -1 : wm_storage_posix.sync_folder (context, path);
}
static int remove_file (void *context, const char *path)
{
    return failing (fail.remove) ? -1 : wm_storage_posix.remove (context, path);
}

static const wm_storage_ops_t ops = {
    .make_folder = make_folder,
    .list = list,
    .create = create,
    .open = open_old,
    .close = close_file,
    .size = size_of,
    .allocate = allocate,
    .read = read_at,
    .write = write_at,
    .sync = sync_file,
    .forget = forget,
    .sync_folder = sync_folder,
    .remove = remove_file,
};

/* ---- helpers --------------------------------------------------------------------------------- */

static int set_up (void **state)
{
    (void) state;
    memset (&fail, 0, sizeof fail);
    strcpy (dir, "/tmp/wm-journal-XXXXXX");
    return mkdtemp (dir) ? 0 : -1;
}

static int tear_down (void **state)
{
    (void) state;
    char path[512];
    snprintf (path, sizeof path, "%s/journal", dir);
    DIR *folder = opendir (path);
    for (struct dirent *entry; folder && (entry = readdir (folder));) {
        snprintf (path, sizeof path, "%s/journal/%s", dir, entry->d_name);
        unlink (path);
    }
    if (folder)
        closedir (folder);
    snprintf (path, sizeof path, "%s/journal", dir);
    rmdir (path);
    return rmdir (dir);
}

static wm_journal_t *open_journal (void)
{
    wm_error_t error;
    wm_journal_t *journal = wm_journal_open (dir, &ops, &error);
    assert_non_null (journal);
    return journal;
}

static wm_journal_t *start_journal (uint64_t epoch)
{
    wm_journal_t *journal = open_journal ();
    assert_int_equal (wm_journal_start (journal, epoch, NULL), WM_OK);
    return journal;
}

static uint8_t bulk[WM_RAW_BYTES_MAX];

/* `tag` goes into attempt, so that replays can be compared by it.  */
static wm_fault_t add (wm_journal_t *journal, wm_record_type_t type, uint32_t input, uint32_t tag,
                       size_t payload_bytes, wm_place_t *place)
{
    wm_record_t record;
    wm_record_init (&record, type);
    record.key = (wm_key_t){ input, tag, 0, 0 };
    record.attempt = tag;
    wm_record_text (&record, "some text");
    record.payload = payload_bytes ? bulk : NULL;
    record.payload_bytes = (uint32_t) payload_bytes;
    return wm_journal_append (journal, &record, place, NULL);
}

static void must_add (wm_journal_t *journal, wm_record_type_t type, uint32_t input, uint32_t tag,
                      wm_place_t *place)
{
    assert_int_equal (add (journal, type, input, tag, type == WM_RECORD_RESULT ? 3000 : 0, place),
                      WM_OK);
}

typedef struct {
    uint32_t tag[100000];
    size_t n;
    wm_journal_found_t found;
} seen_t;
static seen_t seen;

static wm_fault_t see (void *argument, const wm_record_t *record, const wm_place_t *place,
                       wm_error_t *error)
{
    seen_t *to = argument;
    (void) error;
    assert_true (place->segment && place->bytes == record->bytes);
    assert_true (record->type != WM_RECORD_EPOCH && record->type != WM_RECORD_DROPPED);
    assert_memory_equal (record->text, "some text", 9);
    to->tag[to->n++] = record->attempt;
    return WM_OK;
}

static void replay (wm_journal_t *journal, uint64_t epoch, uint64_t sequence)
{
    memset (&seen, 0, sizeof seen);
    wm_error_t error;
    assert_int_equal (wm_journal_replay (journal, epoch, sequence, see, &seen, &seen.found, &error),
                      WM_OK);
    assert_int_equal (seen.found.n_record, seen.n);
}

static void replay_closed (uint64_t epoch, uint64_t sequence)
{
    wm_journal_t *journal = open_journal ();
    replay (journal, epoch, sequence);
    wm_journal_destroy (&journal);
}

static void expect_tags (size_t n, ...)
{
    va_list arguments;
    va_start (arguments, n);
    assert_int_equal (seen.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal (seen.tag[i], va_arg (arguments, int));
    va_end (arguments);
}

/* Changes one byte of the file behind a place.  */
static void damage (const wm_place_t *place, uint32_t at)
{
    char path[512];
    int fd = -1;
    const char *const suffixes[] = { "keep", "result" };
    for (size_t i = 0; i < 2 && fd < 0; i++) {
        snprintf (path, sizeof path, "%s/journal/%010" PRIu64 "-%06" PRIu64 ".%s", dir,
                  place->segment >> 24, place->segment & 0xffffff, suffixes[i]);
        fd = open (path, O_RDWR);
    }
    assert_true (fd >= 0);
    uint8_t byte;
    assert_int_equal (pread (fd, &byte, 1, place->offset + at), 1);
    byte ^= 0x10;
    assert_int_equal (pwrite (fd, &byte, 1, place->offset + at), 1);
    close (fd);
}

static size_t n_files (void)
{
    char path[512];
    snprintf (path, sizeof path, "%s/journal", dir);
    DIR *folder = opendir (path);
    size_t n = 0;
    for (struct dirent *entry; (entry = readdir (folder));)
        n += entry->d_name[0] != '.';
    closedir (folder);
    return n;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void round_trip (void **state)
{
    (void) state;
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
    (void) state;
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

static void torn_tail (void **state)
{
    (void) state;
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
    (void) state;
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
    (void) state;
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

static void disk_full (void **state)
{
    (void) state;
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
    /* Inside a segment too: 16 MiB are used up after four of 4 MiB.  */
    fail.allocate = ENOSPC;
    uint32_t tag = 5;
    while (add (journal, WM_RECORD_RESULT, 1, tag, WM_RAW_BYTES_MAX, NULL) == WM_OK)
        tag++;
    assert_true (tag > 5);
    fail.allocate = 0;
    assert_int_equal (add (journal, WM_RECORD_RESULT, 1, tag, WM_RAW_BYTES_MAX, NULL), WM_OK);
    assert_int_equal (n_files (), 2);
    wm_journal_sync (journal);
    wm_journal_destroy (&journal);
    replay_closed (0, 0);
    assert_int_equal (seen.n, tag - 1); /* tag 2 never made it */
    assert_int_equal (seen.found.n_lost + seen.found.n_torn, 0);
}

static void failed_write (void **state)
{
    (void) state;
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
    record.payload_bytes = WM_RAW_BYTES_MAX + 1;
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
    (void) state;
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
    (void) state;
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
    (void) state;
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

/* A record that stays, lost among RESULTs that were deleted, is still missed.  */
static void loss_among_deleted (void **state)
{
    (void) state;
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

/* The same at the end of an epoch, where only EPOCH of the next one tells how many there were.  */
static void loss_at_the_end_among_deleted (void **state)
{
    (void) state;
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
    (void) state;
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
    (void) argument, (void) record, (void) place;
    return wm_fault (error, WM_EAGAIN, "enough");
}

static void callback_stops (void **state)
{
    (void) state;
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

/* ---- every operation fails in turn --------------------------------------------------------------
 */

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
    (void) state;
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

#define TEST(f) cmocka_unit_test_setup_teardown (f, set_up, tear_down)

int main (void)
{
    memset (bulk, 0x5a, sizeof bulk);
    const struct CMUnitTest tests[] = {
        TEST (round_trip),
        TEST (two_epochs),
        TEST (torn_tail),
        TEST (flipped_bit),
        TEST (last_of_an_epoch),
        TEST (disk_full),
        TEST (failed_write),
        TEST (failed_sync_ends_it),
        TEST (sweep),
        TEST (let_go),
        TEST (loss_among_deleted),
        TEST (loss_at_the_end_among_deleted),
        TEST (nothing_is_believed),
        TEST (callback_stops),
        TEST (every_operation_fails),
        TEST (speed),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
