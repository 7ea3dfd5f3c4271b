/* test_kernels_late.c - the process of an import stands still: before its answer, or after it.  */
#include "tests/unit/family_graph.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static bool sleeps; /* at its end */

/* In the place of the C library's.  */
void __attribute__ ((noreturn)) _exit (int status)
{
    while (sleeps)
        pause ();
    for (;;)
        syscall (SYS_exit_group, status);
}

/* The one process that this one has.  */
static pid_t child (void)
{
    int pid = 0;
    char path[64];
    snprintf (path, sizeof path, "/proc/self/task/%d/children", getpid ());
    FILE *file = fopen (path, "r");
    assert_non_null (file);
    assert_int_equal (fscanf (file, "%d", &pid), 1);
    fclose (file);
    return pid;
}

static void check_no_child (void)
{
    assert_int_equal (waitpid (-1, NULL, WNOHANG), -1);
    assert_int_equal (errno, ECHILD);
}

static wm_import_t *opened (void)
{
    char hex[65];
    wm_error_t error = { 0 };
    graph_t g = family (0);
    save_graph (&g);
    wm_import_t *import = wm_import_open (model_path, NULL, wmm_path, hex, NULL, &error);
    if (!import)
        fail_msg ("%s", error.text);
    return import;
}

static void check_no_wmm (void)
{
    assert_int_equal (access (wmm_path, F_OK), -1);
    check_no_child ();
}

/* It has made the .wmm and answered.  */
static void sleeps_behind_its_answer (void **state)
{
    char why[480];
    wm_error_t error = { 0 };
    sleeps = true;
    wm_import_t *import = opened ();
    assert_int_equal (wm_import_make (import, wmm_path, why, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "answered, but did not end within 3 s, and was killed"));
    wm_import_destroy (&import);
    check_no_wmm ();
    import = opened ();
    wm_import_destroy (&import); /* the same without a .wmm */
    check_no_wmm ();
    sleeps = false;
}

static void stands_still_before_its_answer (void **state)
{
    char why[480];
    wm_error_t error = { 0 };
    wm_import_t *import = opened ();
    kill (child (), SIGSTOP);
    assert_int_equal (wm_import_make (import, wmm_path, why, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "gave no answer within 8 s, and was killed"));
    wm_import_destroy (&import);
    check_no_wmm ();
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (sleeps_behind_its_answer),
                                        cmocka_unit_test (stands_still_before_its_answer) };
    setenv ("WM_TIME_SCALE", "1000", 1);
    return cmocka_run_group_tests (tests, make_folder, remove_folder);
}
