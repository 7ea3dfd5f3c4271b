/* test_ops_child.c - a child that `run` starts takes a signal at once, whatever its parent does
   with such signals.  */
#include "ops/wm_child.h"
#include "schema/wm_limits.h"

#include <libgen.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "test-child-sleep"

static void on_term (int number)
{
    (void) number;
}

/* A signal that was lost between fork and exec left a worker running until `run` killed it, a
   minute later.  */
static void test_signal_at_once (void **state)
{
    (void) state;
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

int main (void)
{
    static const struct CMUnitTest tests[] = { cmocka_unit_test (test_signal_at_once) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
