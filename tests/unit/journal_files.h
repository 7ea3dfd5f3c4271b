/* journal_files.h - a journal in a folder of its own, on a disk that fails when a test asks for
   it.  */
#ifndef JOURNAL_FILES_H
#define JOURNAL_FILES_H

#include "broker/disk/wm_journal.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64];

/* ---- an operations table that fails on demand ------------------------------------------------ */

static struct {
    int allocate, write, read, sync, remove; /* errno to fail with; 0: works; sync: once */
    uint64_t call, fail_call;                /* the fail_call-th operation fails with EIO */
    int short_write;                         /* half of the next write, then failure */
} fail;

static inline int failing (int with)
{
    if (++fail.call == fail.fail_call)
        with = EIO;
    errno = with;
    return with;
}

static inline int make_folder (void *context, const char *path)
{
    return failing (0) ? -1 : wm_storage_posix.make_folder (context, path);
}
static inline int list (void *context, const char *path, void (*each) (void *, const char *),
                        void *argument)
{
    return failing (0) ? -1 : wm_storage_posix.list (context, path, each, argument);
}
static inline int create (void *context, const char *path)
{
    return failing (0) ? -1 : wm_storage_posix.create (context, path);
}
static inline int open_old (void *context, const char *path)
{
    return failing (0) ? -1 : wm_storage_posix.open (context, path);
}
static inline int close_file (void *context, int fd)
{
    return wm_storage_posix.close (context, fd);
}
static inline int64_t size_of (void *context, int fd)
{
    return failing (0) ? -1 : wm_storage_posix.size (context, fd);
}
static inline int allocate (void *context, int fd, int64_t offset, int64_t bytes)
{
    return failing (fail.allocate) ? -1 : wm_storage_posix.allocate (context, fd, offset, bytes);
}
static inline ssize_t read_at (void *context, int fd, void *buffer, size_t bytes, int64_t offset)
{
    return failing (fail.read) ? -1 : wm_storage_posix.read (context, fd, buffer, bytes, offset);
}
static inline ssize_t write_at (void *context, int fd, const void *buffer, size_t bytes,
                                int64_t offset)
{
    if (fail.short_write && bytes > 16) {
        fail.short_write = 0;
        fail.write = EIO;
        return wm_storage_posix.write (context, fd, buffer, bytes / 2, offset);
    }
    return failing (fail.write) ? -1 : wm_storage_posix.write (context, fd, buffer, bytes, offset);
}
static inline int sync_file (void *context, int fd)
{
    const int with = fail.sync;
    fail.sync = 0; /* once: as with the kernel, to try again is to be told a lie */
    return failing (with) ? -1 : wm_storage_posix.sync (context, fd);
}
static inline int forget (void *context, int fd)
{
    return failing (0) ? -1 : wm_storage_posix.forget (context, fd);
}
static inline int sync_folder (void *context, const char *path)
{
    return failing (0) ? -1 : wm_storage_posix.sync_folder (context, path);
}
static inline int remove_file (void *context, const char *path)
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

static inline int set_up (void **state)
{
    memset (&fail, 0, sizeof fail);
    strcpy (dir, "/tmp/wm-journal-XXXXXX");
    return mkdtemp (dir) ? 0 : -1;
}

static inline int tear_down (void **state)
{
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

static inline wm_journal_t *open_journal (void)
{
    wm_error_t error;
    wm_journal_t *journal = wm_journal_open (dir, &ops, &error);
    assert_non_null (journal);
    return journal;
}

static inline wm_journal_t *start_journal (uint64_t epoch)
{
    wm_journal_t *journal = open_journal ();
    assert_int_equal (wm_journal_start (journal, epoch, NULL), WM_OK);
    return journal;
}

static uint8_t bulk[2 * WM_RAW_BYTES_MAX];

/* `tag` goes into attempt, so that replays can be compared by it.  */
static inline wm_fault_t add (wm_journal_t *journal, wm_record_type_t type, uint32_t input,
                              uint32_t tag, size_t payload_bytes, wm_place_t *place)
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

static inline void must_add (wm_journal_t *journal, wm_record_type_t type, uint32_t input,
                             uint32_t tag, wm_place_t *place)
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

static inline wm_fault_t see (void *argument, const wm_record_t *record, const wm_place_t *place,
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

static inline void replay (wm_journal_t *journal, uint64_t epoch, uint64_t sequence)
{
    memset (&seen, 0, sizeof seen);
    wm_error_t error;
    assert_int_equal (wm_journal_replay (journal, epoch, sequence, see, &seen, &seen.found, &error),
                      WM_OK);
    assert_int_equal (seen.found.n_record, seen.n);
}

static inline void replay_closed (uint64_t epoch, uint64_t sequence)
{
    wm_journal_t *journal = open_journal ();
    replay (journal, epoch, sequence);
    wm_journal_destroy (&journal);
}

static inline void expect_tags (size_t n, ...)
{
    va_list arguments;
    va_start (arguments, n);
    assert_int_equal (seen.n, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal (seen.tag[i], va_arg (arguments, int));
    va_end (arguments);
}

/* Changes one byte of the file behind a place.  */
static inline void damage (const wm_place_t *place, uint32_t at)
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

static inline size_t n_files (void)
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

#define TEST(f) cmocka_unit_test_setup_teardown (f, set_up, tear_down)

#endif
