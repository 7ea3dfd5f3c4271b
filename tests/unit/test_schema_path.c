/* test_schema_path.c - the file behind an input's name; folders that are made and synced.  */
#include "schema/base/wm_folder.h"
#include "schema/base/wm_path.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static void write_bytes (const char *path, const char *bytes)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (bytes, file);
    fclose (file);
}

static void a_dataset_is_in_its_file (void **state)
{
    (void) state;
    char folder[] = "/tmp/wm-path-XXXXXX";
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    assert_non_null (mkdtemp (folder));
    assert_int_equal (chdir (folder), 0);
    write_bytes ("a.h5", "12345");
    assert_int_equal (wm_path_length ("a.h5:/patches"), 4);
    assert_int_equal (wm_path_stat ("a.h5:/patches", &size, &mtime_ns), 0);
    assert_int_equal (size, 5);
    assert_true (mtime_ns > 0);
    assert_int_equal (wm_path_stat ("b.h5:/patches", &size, &mtime_ns), -1);
    assert_int_equal (errno, ENOENT);
    write_bytes ("a.h5:", ""); /* no folder, so no such file */
    assert_int_equal (wm_path_length ("a.h5:/patches"), 4);
    assert_int_equal (wm_path_length ("a.h5:"), 5); /* a file of that very name */
    unlink ("a.h5");
    unlink ("a.h5:");
    assert_int_equal (chdir ("/"), 0);
    rmdir (folder);
}

static ino_t synced[16];
static int n_synced, sync_fails; /* with this errno */

/* In the place of the C library's.  */
int fsync (int fd)
{
    struct stat status;
    assert_int_equal (fstat (fd, &status), 0);
    assert_true (n_synced < 16);
    synced[n_synced++] = status.st_ino;
    if (sync_fails) {
        errno = sync_fails;
        return -1;
    }
    return (int) syscall (SYS_fsync, fd);
}

static bool is_synced (const char *path)
{
    struct stat status;
    assert_int_equal (stat (path, &status), 0);
    for (int i = 0; i < n_synced; i++)
        if (synced[i] == status.st_ino)
            return true;
    return false;
}

static void a_made_folder_stays (void **state)
{
    (void) state;
    char folder[] = "/tmp/wm-path-XXXXXX";
    wm_error_t error;
    assert_non_null (mkdtemp (folder));
    assert_int_equal (chdir (folder), 0);
    assert_int_equal (wm_folder_make ("a/b/c", 0777, &error), WM_OK);
    assert_true (is_synced (".") && is_synced ("a") && is_synced ("a/b"));
    n_synced = 0; /* perhaps who made it was killed before it was synced */
    assert_int_equal (wm_folder_make ("a/b/c", 0777, &error), WM_OK);
    assert_true (is_synced ("a/b"));
    const struct {
        int error;
        wm_fault_t fault;
    } ways[] = { { EIO, WM_EHOST }, { ENOSPC, WM_EAGAIN }, { EINVAL, WM_OK }, { EACCES, WM_OK } };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        n_synced = 0;
        sync_fails = ways[i].error;
        assert_int_equal (wm_folder_make ("d", 0777, &error), ways[i].fault);
        assert_true (is_synced ("."));
        assert_int_equal (rmdir ("d"), 0);
    }
    sync_fails = 0;
    assert_int_equal (rmdir ("a/b/c") | rmdir ("a/b") | rmdir ("a"), 0);
    assert_int_equal (chdir ("/"), 0);
    rmdir (folder);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (a_dataset_is_in_its_file),
        cmocka_unit_test (a_made_folder_stays),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
