/* test_ops_child.c - a child that `run` starts takes a signal at once, whatever its parent does
   with such signals.  */
#include "ops/process/wm_child.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <libgen.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "test-child-sleep"

static void on_term (int number)
{
}

/* A signal that was lost between fork and exec left a worker running until `run` killed it, a
   minute later.  */
static void test_signal_at_once (void **state)
{
    static const char *const argv[] = { "sleep", "5", NULL };
    char self[PATH_MAX], path[PATH_MAX];
    wm_error_t error = { 0 };
    wm_child_t child;
    const struct sigaction action = { .sa_handler = on_term };
    const ssize_t n = readlink ("/proc/self/exe", self, sizeof self - 1);
    assert_true (n > 0);
    self[n] = 0;
    snprintf (path, sizeof path, "%.4000s/" PROGRAM, dirname (self));
    unlink (path);
    assert_int_equal (symlink ("/bin/sleep", path), 0);
    sigaction (SIGTERM, &action, NULL);
    assert_int_equal (wm_child_init (&child, "sleep", NULL, &error), WM_OK);
    for (int i = 0; i < 100; i++) {
        int status;
        if (wm_child_start (&child, PROGRAM, argv, &error))
            fail_msg ("%s", error.text);
        wm_child_signal (&child, SIGTERM);
        assert_int_equal (waitpid (child.pid, &status, 0), child.pid);
        assert_true (WIFSIGNALED (status) && WTERMSIG (status) == SIGTERM);
    }
    unlink (path);
}

/* A child that ends is given up after five quick ends, or ends before it has worked. What it wrote
   last is its reason.  */
static void test_given_up (void **state)
{
    wm_error_t error = { 0 };
    wm_child_t child;
    char folder[] = "/tmp/wm-child-XXXXXX";
    assert_non_null (mkdtemp (folder));
    assert_int_equal (wm_child_init (&child, "worker-1", folder, &error), WM_OK);
    FILE *log = fopen (child.log, "w"), *nowhere = fopen ("/dev/null", "w");
    fputs ("2026-01-01T00:00:00Z wiremill-worker: session with an earlier one\n", log);
    fflush (log);
    child.began = child.shown = ftell (log);
    child.reader = fopen (child.log, "r");
    fputs ("2026-01-01T00:00:00Z wiremill-worker: starts: now\n"
           "2026-01-01T00:00:00Z wiremill-worker: the engine fails: why\n",
           log);
    fclose (log);
    assert_false (wm_child_log_contains (&child, "session with"));
    assert_true (wm_child_log_contains (&child, "starts: now"));
    wm_child_show (&child, "", nowhere);
    assert_string_equal (child.said, "the engine fails: why");
    for (int slow = 0; slow < 2; slow++)
        for (int works = 0; works < 2; works++) {
            child.restart.in_row = 0;
            for (int i = 1; i < 8; i++) {
                child.restart.started = wm_now_ms () - (slow ? 60000 : 10);
                assert_int_equal (wm_child_plan_return (&child, works), i < 5 || (slow && works));
            }
        }
    fclose (child.reader);
    fclose (nowhere);
    unlink (child.log);
    rmdir (folder);
}

int main (void)
{
    static const struct CMUnitTest tests[] = { cmocka_unit_test (test_signal_at_once),
                                               cmocka_unit_test (test_given_up) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
