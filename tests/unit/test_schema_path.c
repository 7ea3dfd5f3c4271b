/* test_schema_path.c - the file behind an input's name.  */
#include "schema/base/wm_path.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (a_dataset_is_in_its_file) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
