/* test_ops_import_cache.c - models that were imported before: what is found again, what is not
   believed, what is removed when there are too many.  */
#include "ops/campaign/wm_import_cache.h"
#include "tests/unit/family_graph.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

static const char hex[65] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static wm_import_cache_t cache;
static char kept[PATH_MAX], known[PATH_MAX];

static void in_folder (char path[PATH_MAX], const char *name)
{
    snprintf (path, PATH_MAX, "%s/%s", folder, name);
}

static int set_up (void **state)
{
    if (make_folder (state))
        return -1;
    setenv ("XDG_CACHE_HOME", folder, 1);
    wm_import_cache_init (&cache);
    return *cache.folder ? 0 : -1;
}

static int tear_down (void **state)
{
    char line[200];
    snprintf (line, sizeof line, "cd %s && rm -rf -- * .cache", folder);
    return system (line) || remove_folder (state) ? -1 : 0;
}

static void write_text (const char *path, const char *text)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

/* As if it had changed long ago; its inode was changed now.  */
static void settle (const char *path)
{
    struct stat status;
    const struct timespec times[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
    const struct timespec pause = { .tv_nsec = 50000000 };
    assert_int_equal (utimensat (AT_FDCWD, path, times, 0), 0);
    assert_false (wm_import_cache_is_settled (path, &status));
    while (!wm_import_cache_is_settled (path, &status))
        nanosleep (&pause, NULL);
    assert_true (time (NULL) - status.st_ctime >= 2);
}

static void check_folder (const char *want)
{
    wm_import_cache_t one;
    wm_import_cache_init (&one);
    assert_string_equal (one.folder, want);
}

static void the_folder_is_this_users_alone (void **state)
{
    struct stat status;
    char path[PATH_MAX], line[2 * PATH_MAX];
    in_folder (path, "wiremill/models");
    check_folder (path);
    assert_int_equal (stat (path, &status), 0);
    assert_int_equal (status.st_mode & 07777, 0700);
    for (mode_t mode = 0720; mode; mode = mode == 0720 ? 0702 : 0) {
        assert_int_equal (chmod (path, mode), 0);
        check_folder ("");
    }
    assert_int_equal (chmod (path, 0700), 0);
    setenv ("WM_MODEL_CACHE", "off", 1);
    check_folder ("");
    setenv ("WM_MODEL_CACHE", "on", 1);
    check_folder (path);
    unsetenv ("WM_MODEL_CACHE");
    setenv ("XDG_CACHE_HOME", "relative", 1); /* as if it was not set */
    char *before = getenv ("HOME") ? strdup (getenv ("HOME")) : NULL;
    setenv ("HOME", folder, 1);
    in_folder (path, ".cache/wiremill/models");
    check_folder (path);
    setenv ("HOME", "relative", 1);
    check_folder ("");
    unsetenv ("HOME");
    check_folder ("");
    snprintf (line, sizeof line, "mkdir %s/l && ln -s %s %s/l/wiremill", folder, path, folder);
    assert_int_equal (system (line), 0);
    in_folder (path, "l");
    setenv ("XDG_CACHE_HOME", path, 1);
    snprintf (line, sizeof line, "ln -s %s %s/l/wiremill/models", folder, folder);
    assert_int_equal (system (line), 0);
    check_folder (""); /* a link */
    before ? setenv ("HOME", before, 1) : unsetenv ("HOME");
    free (before);
    setenv ("XDG_CACHE_HOME", folder, 1);
}

static void hashes_of_unchanged_files (void **state)
{
    struct stat before;
    char path[PATH_MAX], later[PATH_MAX], line[2 * PATH_MAX], got[65];
    in_folder (later, "later");
    write_text (later, "one");
    const struct timespec times[2] = { { .tv_sec = time (NULL) + 1000 },
                                       { .tv_sec = time (NULL) + 1000 } };
    assert_int_equal (utimensat (AT_FDCWD, later, times, 0), 0);
    in_folder (path, "file");
    write_text (path, "one");
    settle (path);
    assert_false (wm_import_cache_is_settled (later, &before)); /* by a clock that is ahead */
    assert_int_equal (stat (path, &before), 0);
    assert_false (wm_import_cache_recall (&cache, path, got));
    before.st_size++;
    wm_import_cache_remember (&cache, path, &before, hex); /* it changed while it was read */
    assert_false (wm_import_cache_recall (&cache, path, got));
    before.st_size--;
    wm_import_cache_remember (&cache, path, &before, hex);
    assert_true (wm_import_cache_recall (&cache, path, got));
    assert_string_equal (got, hex);
    assert_false (wm_import_cache_recall (&(wm_import_cache_t){ "" }, path, got));
    snprintf (line, sizeof line, "sed -i 's/\\(.*\\)f$/\\1g/' %.300s/*.hash", cache.folder);
    assert_int_equal (system (line), 0); /* no digit of a hash */
    assert_false (wm_import_cache_recall (&cache, path, got));
    wm_import_cache_remember (&cache, path, &before, hex);
    assert_true (wm_import_cache_recall (&cache, path, got));
    snprintf (line, sizeof line, "sed -i 's/$/ more/' %.300s/*.hash", cache.folder);
    assert_int_equal (system (line), 0);
    assert_false (wm_import_cache_recall (&cache, path, got));
    wm_import_cache_remember (&cache, path, &before, hex);
    /* Its end of line.  */
    snprintf (line, sizeof line, "truncate -s -1 %.300s/*.hash", cache.folder);
    assert_int_equal (system (line), 0);
    assert_false (wm_import_cache_recall (&cache, path, got));
    wm_import_cache_remember (&cache, path, &before, hex);
    write_text (path, "two"); /* of the same size */
    assert_false (wm_import_cache_recall (&cache, path, got));
    settle (path);
    assert_false (wm_import_cache_recall (&cache, path, got));
}

/* Imports a model and keeps it.  */
static wm_model_t *imported (void)
{
    char why[480];
    wm_error_t error = { 0 };
    graph_t g = family (0);
    save_graph (&g);
    if (wm_import (model_path, NULL, wmm_path, why, &error))
        fail_msg ("%s", error.text);
    wm_model_t *model = wm_model_open (wmm_path, &error);
    assert_non_null (model);
    snprintf (kept, sizeof kept, "%.200s/%s.wmm", cache.folder, wm_model_sha256 (model));
    snprintf (known, sizeof known, "%.200s/%s.known", cache.folder, wm_model_sha256 (model));
    wm_import_cache_add (&cache, wmm_path, model, hex);
    return model;
}

/* Changes a byte of a file at an offset.  */
static void flip (const char *path, long at)
{
    FILE *file = fopen (path, "r+b");
    assert_non_null (file);
    fseek (file, at, SEEK_SET);
    const int was = fgetc (file);
    fseek (file, at, SEEK_SET);
    fputc (was ^ 1, file);
    fclose (file);
}

static void check_found (const wm_model_t *model, bool found)
{
    char path[PATH_MAX], got[65];
    assert_int_equal (wm_import_cache_find (&cache, wm_model_sha256 (model), path), found);
    assert_int_equal (wm_import_cache_sha256 (&cache, model, got), found);
    if (found) {
        assert_string_equal (path, kept);
        assert_string_equal (got, hex);
    }
}

static void a_model_is_found_again (void **state)
{
    struct stat one, other;
    const struct timespec times[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
    wm_model_t *model = imported ();
    check_found (model, true);
    assert_int_equal (stat (wmm_path, &one) || stat (kept, &other), 0);
    assert_int_equal (one.st_ino, other.st_ino); /* a second name */
    assert_int_equal (utimensat (AT_FDCWD, known, times, 0), 0);
    check_found (model, true);
    assert_int_equal (stat (known, &other), 0);
    assert_true (other.st_mtime > 1000000); /* it was used now */
    flip (kept, 20);
    check_found (model, false); /* another head */
    flip (kept, 20);
    check_found (model, true);
    assert_int_equal (chmod (kept, 0660), 0);
    check_found (model, false);
    assert_int_equal (chmod (kept, 0600), 0);
    flip (known, 16); /* another build */
    check_found (model, false);
    flip (known, 16);
    check_found (model, true);
    assert_int_equal (truncate (known, 40), 0);
    check_found (model, false);
    wm_import_cache_add (&cache, wmm_path, model, hex);
    check_found (model, true);
    wm_import_cache_remove (&cache, wm_model_sha256 (model));
    check_found (model, false);
    assert_int_equal (access (kept, F_OK) & access (known, F_OK), -1);
    wm_model_destroy (&model);
}

static void a_second_name_or_a_copy (void **state)
{
    struct stat one, other;
    char from[PATH_MAX], to[PATH_MAX], line[PATH_MAX];
    wm_error_t error;
    in_folder (from, "from");
    in_folder (to, "to");
    write_text (from, "from");
    write_text (to, "something else");
    for (int copy = 0; copy < 2; copy++) {
        assert_int_equal (wm_import_cache_put (from, to, copy, &error), WM_OK);
        assert_int_equal (stat (from, &one) || stat (to, &other), 0);
        assert_int_equal (one.st_ino != other.st_ino, copy);
        assert_int_equal (other.st_size, 4);
    }
    assert_int_equal (wm_import_cache_put (from, to, false, &error), WM_OK);
    assert_int_equal (wm_import_cache_put (from, to, false, &error), WM_OK); /* already so */
    snprintf (line, sizeof line, "! ls %s/*.tmp 2>/dev/null", folder);
    assert_int_equal (system (line), 0);
}

/* An entry of the cache of 900 MB, all of it a hole, that was used so long ago.  */
static void make_entry (char digit, int64_t used_s)
{
    char path[PATH_MAX], stem[65];
    memset (stem, digit, 64);
    stem[64] = 0;
    snprintf (path, sizeof path, "%.200s/%s.wmm", cache.folder, stem);
    write_text (path, "");
    assert_int_equal (truncate (path, 900000000), 0);
    if (!used_s)
        return;
    const struct timespec times[2] = { { .tv_sec = used_s }, { .tv_sec = used_s } };
    snprintf (path, sizeof path, "%.200s/%s.known", cache.folder, stem);
    write_text (path, "");
    assert_int_equal (utimensat (AT_FDCWD, path, times, 0), 0);
}

static bool has_entry (char digit)
{
    char path[PATH_MAX], stem[65];
    memset (stem, digit, 64);
    stem[64] = 0;
    snprintf (path, sizeof path, "%.200s/%s.wmm", cache.folder, stem);
    return access (path, F_OK) == 0;
}

static void what_was_unused_longest_goes (void **state)
{
    make_entry ('a', 2000000);
    make_entry ('b', 1000000);
    make_entry ('c', 3000000);
    wm_model_t *model = imported ();
    assert_false (has_entry ('b'));
    assert_true (has_entry ('a') && has_entry ('c'));
    check_found (model, true);
    make_entry ('d', 0); /* never known to be used */
    wm_import_cache_add (&cache, wmm_path, model, hex);
    assert_false (has_entry ('d'));
    assert_true (has_entry ('a') && has_entry ('c'));
    wm_import_cache_remove (&cache, wm_model_sha256 (model));
    wm_model_destroy (&model);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (the_folder_is_this_users_alone),
                                        cmocka_unit_test (hashes_of_unchanged_files),
                                        cmocka_unit_test (a_model_is_found_again),
                                        cmocka_unit_test (a_second_name_or_a_copy),
                                        cmocka_unit_test (what_was_unused_longest_goes) };
    return cmocka_run_group_tests (tests, set_up, tear_down);
}
