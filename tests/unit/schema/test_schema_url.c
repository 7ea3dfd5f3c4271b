/* test_schema_url.c - which names are URLs, and what of them may be seen.  */
#include "schema/base/wm_path.h"
#include "schema/base/wm_url.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void kinds (void **state)
{
    static const struct {
        const char *name;
        wm_url_t is;
    } row[] = { { "root://h//a.h5", WM_URL_XROOTD }, { "xroots://h//a.h5", WM_URL_XROOTD },
                { "https://h/a.h5", WM_URL_HTTP },   { "http://h/a.h5", WM_URL_HTTP },
                { "s3://b/a.h5", WM_URL_OTHER },     { "a.h5:/patches", WM_URL_NONE },
                { "/data/root:/a.h5", WM_URL_NONE }, { "", WM_URL_NONE } };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        assert_int_equal (wm_url_of (row[i].name), row[i].is);
}

static void files (void **state)
{
    uint64_t size;
    int64_t mtime_ns;
    assert_int_equal (wm_path_length ("root://h:1094//d/a.h5"), strlen ("root://h:1094//d/a.h5"));
    assert_int_equal (wm_path_length ("root://h//a.h5:/patches"), strlen ("root://h//a.h5"));
    assert_int_equal (wm_path_stat ("root://h//a.h5", &size, &mtime_ns), -1);
    assert_int_equal (errno, EREMOTE);
}

static void secrets (void **state)
{
    static const struct {
        const char *before, *after;
    } row[] = {
        { "root://h//a.h5?authz=S", "root://h//a.h5" },
        { "root://h//a.h5?authz=S&x=1", "root://h//a.h5?x=1" },
        { "root://h//a.h5?x=1&authz=S&y=2", "root://h//a.h5?x=1&y=2" },
        { "https://h/a?access_token=S&authz=S", "https://h/a" },
        { "https://u:S@h:8443/a", "https://h:8443/a" },
        { "https://u:S@S@h/a@b", "https://h/a@b" },
        { "root://user@h//a.h5", "root://user@h//a.h5" },
        { "https://S@h/a", "https://h/a" },
        { "https://h/a?X-Amz-Credential=S&X-Amz-Date=1&X-Amz-Signature=S&x-amz-security-token=S",
          "https://h/a?X-Amz-Date=1" },
        { "https://h/a?sig=S&se=2", "https://h/a?se=2" },
        { "https://h/a?token=S", "https://h/a" },
        { "https://h/sig=1/a?x=design=2", "https://h/sig=1/a?x=design=2" },
        { "[ERROR] 'root://h//a?authz=S' and https://u:S@h/b?authz=S; no such file",
          "[ERROR] 'root://h//a' and https://h/b no such file" },
        { "authz=S (in words)", "authz= (in words)" },
        { "nothing: of a@b:c", "nothing: of a@b:c" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char *text = strdup (row[i].before);
        assert_non_null (text);
        wm_url_redact (text);
        assert_string_equal (text, row[i].after);
        free (text);
    }
}

static void the_path_of_a_local_file (void **state)
{
    static const char *const row[][2] = {
        { "file:///a/b.h5", "/a/b.h5" }, { "file://localhost/a%20b.h5", "/a b.h5" },
        { "file:///a%2", "/a%2" },       { "file:///a%00b", "/a%00b" },
        { "file://host/a", NULL },       { "http://h/a", NULL },
        { "/file:///a", NULL },          { "file://", NULL },
    };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_int_equal (wm_url_local (row[i][0], path), row[i][1] != NULL);
        if (row[i][1])
            assert_string_equal (path, row[i][1]);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (the_path_of_a_local_file),
        cmocka_unit_test (kinds),
        cmocka_unit_test (files),
        cmocka_unit_test (secrets),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("schema_url", tests, NULL, NULL);
}
