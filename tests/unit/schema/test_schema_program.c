/* test_schema_program.c - what starts this program again, and what lies beside it.  */
#include "schema/base/wm_program.h"
#include "tests/unit/unit.h"

#include <string.h>
#include <unistd.h>

static const char *exe; /* NULL: it cannot be read */

/* In the place of the C library's.  */
ssize_t readlink (const char *restrict path, char *restrict target, size_t bytes)
{
    assert_string_equal (path, "/proc/self/exe");
    if (!exe)
        return -1;
    const size_t n = strlen (exe) < bytes ? strlen (exe) : bytes;
    memcpy (target, exe, n);
    return (ssize_t) n;
}

static void itself_or_its_launcher (void **state)
{
    static char deep[PATH_MAX];
    const struct {
        const char *exe, *wanted;
    } ways[] = { { "/usr/local/bin/wiremill-worker", "/proc/self/exe" },
                 { "/opt/ld-linux/wiremill-worker (deleted)", "/proc/self/exe" },
                 { "/cvmfs/wm/bin/ld-linux-x86-64.so.2", "/cvmfs/wm/bin/wiremill-worker" },
                 { "nowhere", "/proc/self/exe" },
                 { NULL, "/proc/self/exe" },
                 { deep, "/proc/self/exe" } };
    memset (deep, 'x', PATH_MAX - 10);
    memcpy (deep + PATH_MAX - 12, "/ld-linux", sizeof "/ld-linux"); /* no room for a longer name */
    deep[0] = '/';
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char path[PATH_MAX];
        exe = ways[i].exe;
        assert_string_equal (wm_program_again ("wiremill-worker", path), ways[i].wanted);
    }
}

/* What lies beside the program: no path at all is better than a part of one.  */
static void beside_it (void **state)
{
    static char deep[PATH_MAX];
    const struct {
        const char *exe, *name, *wanted;
    } ways[] = { { "/usr/bin/wiremill", "wiremill-broker", "/usr/bin/wiremill-broker" },
                 { "/wm/bin/ld-linux-x86-64.so.2", "../share/wiremill",
                   "/wm/bin/../share/wiremill" },
                 { "/wiremill", "x", "/x" },
                 { "/usr/bin/wiremill", "", "/usr/bin/" },
                 { "nowhere", "x", NULL },
                 { NULL, "x", NULL },
                 { deep, "x", deep },
                 { deep, "xy", NULL } };
    memset (deep, 'y', PATH_MAX - 1);
    memcpy (deep + PATH_MAX - 3, "/x", sizeof "/x");
    deep[0] = '/';
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char path[PATH_MAX];
        exe = ways[i].exe;
        assert_int_equal (wm_program_beside (path, ways[i].name), ways[i].wanted != NULL);
        assert_string_equal (path, ways[i].wanted ? ways[i].wanted : "");
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (itself_or_its_launcher),
                                        cmocka_unit_test (beside_it) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
