/* test_schema_courier.c - a courier opens its own files only, as they are now, and its end is
   noticed.  */
#include "schema/base/wm_courier.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/wm-courier-XXXXXX";

static void write_text (const char *path, const char *text)
{
    FILE *file = fopen (path, "w");
    assert_non_null (file);
    fputs (text, file);
    fclose (file);
}

static void reads (const char *path, const char *want)
{
    char text[16] = "";
    const int fd = wm_courier_open (path, O_RDONLY | O_CLOEXEC);
    assert_true (fd >= 0);
    assert_int_equal (read (fd, text, sizeof text - 1), (ssize_t) strlen (want));
    assert_string_equal (text, want);
    assert_int_equal (fcntl (fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal (fcntl (fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    close (fd);
}

static void nothing (int signal)
{
    (void) signal;
}

static pid_t only_child (void)
{
    int pid = 0;
    char path[64];
    snprintf (path, sizeof path, "/proc/self/task/%d/children", (int) getpid ());
    FILE *file = fopen (path, "r");
    if (!file || fscanf (file, "%d", &pid) != 1)
        pid = 0;
    if (file)
        fclose (file);
    return pid;
}

/* Whether a process has descriptors beside the three of a program and a socket.  */
static bool has_more (const char *fds)
{
    bool more = false;
    DIR *dir = opendir (fds);
    assert_non_null (dir);
    for (const struct dirent *entry; (entry = readdir (dir));)
        more |= entry->d_name[0] != '.' && atoi (entry->d_name) > STDERR_FILENO + 1;
    closedir (dir);
    return more;
}

static void a_courier_has_its_files_only (void **state)
{
    (void) state;
    wm_error_t error;
    assert_non_null (mkdtemp (folder));
    assert_int_equal (chdir (folder), 0);
    write_text ("a", "one");
    write_text ("other", "mine");
    static const char *const list[] = { "a", "b" };
    reads ("a", "one"); /* before it is there */
    const int own = open ("other", O_RDONLY | O_CLOEXEC);
    assert_int_equal (wm_courier_start (list, 2, &error), WM_OK);
    reads ("a", "one");
    write_text ("new", "two");
    assert_int_equal (rename ("new", "a"), 0); /* as endpoint.json and join files are replaced */
    reads ("a", "two");
    errno = 0;
    assert_int_equal (wm_courier_open ("b", O_RDONLY), -1);
    assert_int_equal (errno, ENOENT);
    write_text ("b", "");
    reads ("b", "");
    reads ("other", "mine"); /* by this process */
    close (own);

    /* its descriptors: three of a program, and the socket */
    char fds[64];
    const pid_t pid = only_child ();
    assert_true (pid > 0);
    snprintf (fds, sizeof fds, "/proc/%d/fd", (int) pid);
    for (int i = 0; i < 6000 && has_more (fds); i++) /* it closes a file after its answer */
        usleep (10000);
    assert_false (has_more (fds));

    /* signals while it is asked: no answer is taken for another's */
    const struct sigaction interrupts = { .sa_handler = nothing };
    const struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
    assert_int_equal (sigaction (SIGALRM, &interrupts, NULL), 0);
    assert_int_equal (setitimer (ITIMER_REAL, &often, NULL), 0);
    int pair[2];
    for (int i = 0; i < 2000; i++) {
        for (int k = 0; k < 2; k++)
            assert_true ((pair[k] = wm_courier_open (list[k], O_RDONLY | O_CLOEXEC)) >= 0);
        struct stat a, b;
        assert_int_equal (fstat (pair[0], &a) | fstat (pair[1], &b), 0);
        assert_true (a.st_size == 3 && b.st_size == 0);
        close (pair[0]);
        close (pair[1]);
    }
    assert_int_equal (setitimer (ITIMER_REAL, &never, NULL), 0);

    assert_int_equal (kill (pid, SIGTERM), 0); /* as a terminal or a batch system sends to all */
    reads ("a", "two");
    assert_int_equal (kill (pid, SIGKILL), 0);
    assert_int_equal (waitpid (pid, NULL, 0), pid);
    for (int i = 0; i < 2; i++) {
        errno = 0;
        assert_int_equal (wm_courier_open ("a", O_RDONLY), -1);
        assert_int_equal (errno, EPIPE);
    }
    reads ("other", "mine");
    assert_int_equal (chdir ("/"), 0);
    char remove_all[64];
    snprintf (remove_all, sizeof remove_all, "rm -r %s", folder);
    assert_int_equal (system (remove_all), 0);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (a_courier_has_its_files_only) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
