/* test_schema_path.c - the file behind an input's name; folders that are made and synced; where the
   campaign of an output folder lies.  */
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_path.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void write_bytes (const char *path, const char *bytes)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (bytes, file);
    fclose (file);
}

static void a_dataset_is_in_its_file (void **state)
{
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

static void make_campaign (const char *folder, const char *part)
{
    char path[200];
    wm_error_t error;
    n_synced = 0;
    assert_int_equal (wm_folder_make (folder, 0777, &error), WM_OK);
    snprintf (path, sizeof path, "%s/%s", folder, part);
    write_bytes (path, "");
}

/* However the output folder is typed, its campaign is the same one; of two the one beside counts,
   since what is in the output folder may be a hostile producer's.  */
static void a_campaign_lies_beside_its_output (void **state)
{
    char top[] = "/tmp/wm-path-XXXXXX", real[PATH_MAX], want[PATH_MAX + 32], found[PATH_MAX];
    wm_error_t error = { 0 };
    n_synced = 0;
    assert_non_null (mkdtemp (top));
    assert_non_null (realpath (top, real));
    assert_int_equal (chdir (top), 0);
    assert_int_equal (wm_folder_make ("out", 0777, &error), WM_OK);
    assert_int_equal (wm_folder_make ("other", 0777, &error), WM_OK);
    assert_int_equal (symlink ("out", "link"), 0);
    char whole[PATH_MAX + 32];
    snprintf (whole, sizeof whole, "%s/out//", real);
    const char *const typed[] = {
        "out", "out/", "./out", "other/../out/.", "link", "link/", whole
    };
    snprintf (want, sizeof want, "%s/out.wiremill", real);
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        assert_int_equal (wm_folder_campaign (typed[i], found, &error), WM_OK);
        assert_string_equal (found, want);
        assert_false (wm_folder_find (typed[i], found));
        assert_string_equal (found, "");
    }
    assert_int_equal (access ("out.wiremill", F_OK), -1); /* nothing is made */
    snprintf (want, sizeof want, "%s/out/.wiremill", real);
    make_campaign ("out/.wiremill", "ledger.db"); /* of an earlier version */
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        assert_int_equal (wm_folder_campaign (typed[i], found, &error), WM_OK);
        assert_string_equal (found, want);
        assert_true (wm_folder_find (typed[i], found));
        assert_string_equal (found, want);
    }
    snprintf (want, sizeof want, "%s/out.wiremill", real);
    make_campaign ("out.wiremill", "journal");
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        assert_int_equal (wm_folder_campaign (typed[i], found, &error), WM_OK);
        assert_string_equal (found, want);
        assert_true (wm_folder_find (typed[i], found));
        assert_string_equal (found, want);
    }
    assert_true (wm_folder_find ("out.wiremill/", found));
    assert_string_equal (found, want);
    assert_int_equal (system ("rm -r out"), 0); /* outputs that were removed or moved away */
    assert_true (wm_folder_find ("out/", found));
    assert_string_equal (found, want);
    assert_false (wm_folder_find ("no/such/out", found));
    assert_false (wm_folder_find ("none/..", found));
    assert_int_equal (chdir ("out.wiremill"), 0);
    assert_true (wm_folder_find (".", found));
    assert_string_equal (found, want);
    assert_int_equal (chdir ("/"), 0);
    snprintf (want, sizeof want, "rm -r %s", top);
    assert_int_equal (system (want), 0);
}

static void nothing_lies_beside_a_file_system (void **state)
{
    char found[PATH_MAX], name[PATH_MAX];
    wm_error_t error;
    assert_int_equal (wm_folder_campaign ("/", found, &error), WM_EUSAGE);
    assert_non_null (strstr (error.text, "--output /scores"));
    assert_int_equal (wm_folder_campaign ("/proc", found, &error), WM_EUSAGE);
    assert_non_null (strstr (error.text, "--campaign DIR"));
    assert_int_equal (wm_folder_campaign ("/proc/no/such/folder", found, &error), WM_EHOST);
    memset (name, 'a', sizeof name - 1);
    name[sizeof name - 1] = name[0] = 0;
    assert_int_equal (wm_folder_campaign (name, found, &error), WM_EHOST);
    static const char *const of[][2] = {
        { "/data/out.wiremill", "/data/out" },  { "/data/out/.wiremill", "/data/out" },
        { "/data/campaign", "/data/campaign" }, { "/.wiremill", "/" },
        { ".wiremill", ".wiremill" },           { "", "" }
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        wm_folder_output (of[i][0], name);
        assert_string_equal (name, of[i][1]);
    }
    assert_true (wm_folder_is_in ("/a/b", "/a") && wm_folder_is_in ("/a", "/a"));
    assert_true (wm_folder_is_in ("/a", "/"));
    assert_false (wm_folder_is_in ("/ab", "/a") || wm_folder_is_in ("/a", "/a/b"));
}

static void a_message_has_its_input_once (void **state)
{
    static const char *const row[][3] = {
        { "/d/a.h5: empty", "/d/a.h5", "empty" },
        { "/d/a.h5: empty", "/d/a.h5:/x", "empty" },
        { "/d/a.h5:/x: empty", "/d/a.h5:/x", "empty" },
        { "/d/a.h5x: empty", "/d/a.h5", "/d/a.h5x: empty" },
        { "root://h//a: gone", "root://h//a", "gone" },
        { "its path", "/d/a.h5", "its path" },
        { ": x", "", ": x" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_string_equal (wm_path_behind (row[i][0], row[i][1]), row[i][2]);
}

/* What no other verb may replace; a folder called journal makes no campaign.  */
static void a_file_is_read_whole (void **state)
{
    enum { BYTES = 200000 };
    char path[] = "/tmp/test_schema_path.XXXXXX", *text;
    static char written[BYTES];
    size_t bytes;
    const int fd = mkstemp (path);
    assert_true (fd >= 0);
    for (size_t i = 0; i < BYTES; i++)
        written[i] = (char) (i % 251); /* zeros, too */
    assert_int_equal (write (fd, written, BYTES), BYTES);
    close (fd);
    assert_non_null (text = wm_file_text (path, BYTES, &bytes));
    assert_int_equal (bytes, BYTES);
    assert_memory_equal (text, written, BYTES);
    assert_int_equal (text[BYTES], 0);
    free (text);
    assert_null (wm_file_text (path, BYTES - 1, &bytes));
    assert_int_equal (errno, EFBIG);
    assert_int_equal (truncate (path, 0), 0);
    assert_non_null (text = wm_file_text (path, 0, &bytes));
    assert_string_equal (text, "");
    free (text);
    unlink (path);
    assert_null (wm_file_text (path, BYTES, &bytes));
    assert_int_equal (errno, ENOENT);
}

static void a_campaign_has_its_files (void **state)
{
    static const struct {
        const char *file;
        bool is_of;
    } cases[] = {
        { "out.wiremill/ledger.db", true },
        { "out.wiremill/lock", true },
        { "out.wiremill/journal/1.wal", true },
        { "out.wiremill/keys/secret", true },
        { "out.wiremill/log/a.log", true },
        { "out.wiremill/models/m.wmm", true },
        { "out/a.scores.h5", true },
        { "link", true },
        { "out/a.html", false },
        { "out/.scores.h5", false },
        { "other/a.scores.h5", false },
        { "out.wiremill/other/a", false },
        { "mine/journal/text", false },
        { "mine/notes", false },
        { "out.wiremill/keys/none.key", false },
    };
    char top[] = "/tmp/wm-path-XXXXXX", campaign[PATH_MAX], want[PATH_MAX + 32];
    assert_non_null (mkdtemp (top));
    assert_int_equal (chdir (top), 0);
    make_campaign ("out.wiremill", "ledger.db");
    make_campaign ("out.wiremill", "lock");
    make_campaign ("out.wiremill/journal", "1.wal");
    make_campaign ("out.wiremill/keys", "secret");
    make_campaign ("out.wiremill/log", "a.log");
    make_campaign ("out.wiremill/models", "m.wmm");
    make_campaign ("out.wiremill/other", "a");
    make_campaign ("out", "a.scores.h5");
    make_campaign ("out", ".scores.h5");
    make_campaign ("out", "a.html");
    make_campaign ("other", "a.scores.h5");
    make_campaign ("mine/journal", "text");
    make_campaign ("mine", "notes");
    assert_int_equal (symlink ("out/a.scores.h5", "link"), 0);
    snprintf (want, sizeof want, "%s/out.wiremill", top);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (wm_folder_is_of_campaign (cases[i].file, campaign) != cases[i].is_of)
            fail_msg ("%s", cases[i].file);
        if (cases[i].is_of)
            assert_string_equal (campaign, want);
    }
    assert_int_equal (chdir ("/"), 0);
    snprintf (want, sizeof want, "rm -r %s", top);
    assert_int_equal (system (want), 0);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (a_message_has_its_input_once),
        cmocka_unit_test (a_dataset_is_in_its_file),
        cmocka_unit_test (a_made_folder_stays),
        cmocka_unit_test (a_campaign_lies_beside_its_output),
        cmocka_unit_test (a_campaign_has_its_files),
        cmocka_unit_test (a_file_is_read_whole),
        cmocka_unit_test (nothing_lies_beside_a_file_system),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
