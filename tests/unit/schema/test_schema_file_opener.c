/* test_schema_file_opener.c - a courier opens its own files only, as they are now; it is replaced
   when it is killed, and without it and its spare the process that asks ends.  */
#include "schema/confine/wm_file_opener.h"
#include "tests/unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

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
    const int fd = wm_file_opener_open (path, O_RDONLY | O_CLOEXEC);
    assert_true (fd >= 0);
    assert_int_equal (read (fd, text, sizeof text - 1), (ssize_t) strlen (want));
    assert_string_equal (text, want);
    assert_int_equal (fcntl (fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal (fcntl (fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    close (fd);
}

static void nothing (int signal)
{
}

/* A process of this name in this process's group, once there is one. 0: there is none.  */
static pid_t find (const char *name, bool waits)
{
    pid_t found = 0;
    for (int tries = waits ? 6000 : 1; !found && tries; tries--) {
        DIR *dir = opendir ("/proc");
        assert_non_null (dir);
        for (const struct dirent *entry; !found && (entry = readdir (dir));) {
            char path[300], comm[32] = "", state = 'Z';
            int pid = 0, group = 0;
            snprintf (path, sizeof path, "/proc/%s/stat", entry->d_name);
            FILE *file = atoi (entry->d_name) ? fopen (path, "r") : NULL;
            if (file && fscanf (file, "%d (%31[^)]) %c %*d %d", &pid, comm, &state, &group) == 4 &&
                strcmp (comm, name) == 0 && group == getpgrp () && state != 'Z')
                found = pid;
            if (file)
                fclose (file);
        }
        closedir (dir);
        if (!found && tries > 1)
            usleep (10000);
    }
    return found;
}

/* Whether a process has descriptors beside the three of a program and two sockets.  */
static bool has_more (const char *fds)
{
    int n = 0;
    DIR *dir = opendir (fds);
    assert_non_null (dir);
    for (const struct dirent *entry; (entry = readdir (dir));)
        n += entry->d_name[0] != '.';
    closedir (dir);
    return n > STDERR_FILENO + 1 + 2;
}

static void a_courier_has_its_files_only (void **state)
{
    wm_error_t error;
    assert_non_null (mkdtemp (folder));
    assert_int_equal (chdir (folder), 0);
    write_text ("a", "one");
    write_text ("other", "mine");
    static const char *const list[] = { "a", "b" };
    reads ("a", "one"); /* before it is there */
    const int own = open ("other", O_RDONLY | O_CLOEXEC);
    assert_int_equal (wm_file_opener_start (list, 2, 60000, &error), WM_OK);
    reads ("a", "one");
    write_text ("new", "two");
    assert_int_equal (rename ("new", "a"), 0); /* as endpoint.json and join files are replaced */
    reads ("a", "two");
    errno = 0;
    assert_int_equal (wm_file_opener_open ("b", O_RDONLY), -1);
    assert_int_equal (errno, ENOENT);
    write_text ("b", "");
    reads ("b", "");
    reads ("other", "mine"); /* by this process */
    close (own);

    /* its descriptors: three of a program, the socket, and that between it and its spare */
    char fds[64];
    const pid_t pid = find (WM_FILE_OPENER_NAME, true), spare = find (WM_FILE_OPENER_SPARE, true);
    assert_true (pid > 0 && spare > 0);
    for (int k = 0; k < 2; k++) {
        snprintf (fds, sizeof fds, "/proc/%d/fd", (int) (k ? spare : pid));
        for (int i = 0; i < 6000 && has_more (fds); i++) /* it closes a file after its answer */
            usleep (10000);
        assert_false (has_more (fds));
    }

    /* signals while it is asked: no answer is taken for another's */
    const struct sigaction interrupts = { .sa_handler = nothing };
    const struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
    assert_int_equal (sigaction (SIGALRM, &interrupts, NULL), 0);
    assert_int_equal (setitimer (ITIMER_REAL, &often, NULL), 0);
    int pair[2];
    for (int i = 0; i < 2000; i++) {
        for (int k = 0; k < 2; k++)
            assert_true ((pair[k] = wm_file_opener_open (list[k], O_RDONLY | O_CLOEXEC)) >= 0);
        struct stat a, b;
        assert_int_equal (fstat (pair[0], &a) | fstat (pair[1], &b), 0);
        assert_true (a.st_size == 3 && b.st_size == 0);
        close (pair[0]);
        close (pair[1]);
    }
    assert_int_equal (setitimer (ITIMER_REAL, &never, NULL), 0);

    assert_int_equal (kill (pid, SIGTERM), 0); /* as a terminal or a batch system sends to all */
    assert_int_equal (kill (spare, SIGTERM), 0);
    reads ("a", "two");
    reads ("other", "mine");
}

/* One of the two at a time, any number of times; what is asked meanwhile is answered.  */
static void each_replaces_the_other (void **state)
{
    for (int i = 0; i < 40; i++) {
        const char *name = i % 3 ? WM_FILE_OPENER_NAME : WM_FILE_OPENER_SPARE;
        const pid_t spare = find (WM_FILE_OPENER_SPARE, true), pid = find (name, true);
        assert_true (pid > 0 && spare > 0);
        assert_int_equal (kill (pid, SIGKILL), 0);
        reads ("a", "two");
        reads ("b", "");
        for (int tries = 0; tries < 6000 && kill (pid, 0) == 0 && find (name, false) == pid;
             tries++)
            usleep (10000);
        assert_true (find (WM_FILE_OPENER_NAME, true) > 0);
        assert_true (find (WM_FILE_OPENER_SPARE, true) != pid);
    }
    assert_int_equal (waitpid (-1, NULL, WNOHANG), -1); /* none of them is left a zombie here */
    assert_int_equal (errno, ECHILD);
}

/* This program once more, whose courier dies at the point: all of its answers are right.  */
static void a_question_survives_its_courier (void **state)
{
    static const char *const points[] = { "courier-asked", "courier-answered" };
    for (int i = 0; i < 2 * 5; i++) {
        char value[64];
        int status;
        snprintf (value, sizeof value, "%s:%d:died-%d", points[i % 2], 1 + i / 2, i);
        const pid_t pid = fork ();
        if (pid == 0) {
            setenv ("WM_FAILPOINT", value, 1);
            execl ("/proc/self/exe", "test", "ask", NULL);
            _exit (127);
        }
        assert_int_equal (waitpid (pid, &status, 0), pid);
        assert_int_equal (status, 0);
        assert_int_equal (access (strrchr (value, ':') + 1, F_OK), 0); /* it did die */
    }
}

static const char *const own_list[] = { "a", "b" };

/* One that is stopped is not waited for without end, and is none the worse when it goes on: what
   it answers then is not taken for the answer to another question.  */
static int ask_stopped (void)
{
    wm_error_t error;
    setpgid (0, 0);
    alarm (60);
    if (wm_file_opener_start (own_list, 2, 50, &error))
        return 1;
    const pid_t courier = find (WM_FILE_OPENER_NAME, true),
                spare = find (WM_FILE_OPENER_SPARE, true);
    if (!courier || !spare || kill (courier, SIGSTOP))
        return 2;
    for (int i = 0; i < 3; i++)
        if (wm_file_opener_open ("a", O_RDONLY) >= 0 || errno != ETIMEDOUT)
            return 3;
    kill (courier, SIGCONT);
    for (struct stat st;;) {
        const int fd = wm_file_opener_open ("b", O_RDONLY);
        if (fd >= 0)
            return fstat (fd, &st) || st.st_size ? 4 : 0;
    }
}

static void a_stopped_one_is_not_waited_for (void **state)
{
    int status;
    const pid_t pid = fork ();
    if (pid == 0) {
        execl ("/proc/self/exe", "test", "stopped", NULL);
        _exit (127);
    }
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (status, 0);
}

static int ask_some (void)
{
    wm_error_t error;
    alarm (60); /* an answer that was lost is waited for */
    if (wm_file_opener_start (own_list, 2, 60000, &error))
        return 1;
    for (int i = 0; i < 20; i++) {
        struct stat st;
        const int fd = wm_file_opener_open (own_list[i % 2], O_RDONLY);
        if (fd < 0 || fstat (fd, &st) || st.st_size != (i % 2 ? 0 : 3))
            return 2;
        close (fd);
    }
    return 0;
}

/* Both at once: the process ends as they did, and prints why.  */
static void without_both_it_ends (void **state)
{
    int ends[2], status;
    char text[512] = "";
    const pid_t courier = find (WM_FILE_OPENER_NAME, true),
                spare = find (WM_FILE_OPENER_SPARE, true);
    assert_int_equal (kill (courier, SIGSTOP), 0); /* it makes no other */
    assert_int_equal (kill (spare, SIGKILL), 0);
    assert_int_equal (kill (courier, SIGKILL), 0);
    while (find (WM_FILE_OPENER_NAME, false) || find (WM_FILE_OPENER_SPARE, false))
        usleep (10000);
    assert_int_equal (pipe (ends), 0);
    const pid_t pid = fork ();
    if (pid == 0) {
        dup2 (ends[1], STDERR_FILENO);
        wm_file_opener_open ("a", O_RDONLY);
        _exit (0);
    }
    close (ends[1]);
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_true (WIFSIGNALED (status) && WTERMSIG (status) == SIGKILL);
    assert_true (read (ends[0], text, sizeof text - 1) > 0);
    assert_non_null (strstr (text, "error: the processes wm-courier and wm-spare"));
    close (ends[0]);
    reads ("other", "mine");
}

static int clean (void **state)
{
    char remove_all[64];
    snprintf (remove_all, sizeof remove_all, "rm -r %s", folder);
    return chdir ("/") || system (remove_all);
}

int main (int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (a_courier_has_its_files_only),
                                        cmocka_unit_test (each_replaces_the_other),
                                        cmocka_unit_test (a_question_survives_its_courier),
                                        cmocka_unit_test (a_stopped_one_is_not_waited_for),
                                        cmocka_unit_test (without_both_it_ends) };
    if (argc > 1)
        return strcmp (argv[1], "stopped") == 0 ? ask_stopped () : ask_some ();
    setpgid (0, 0); /* couriers are found by it */
    return cmocka_run_group_tests (tests, NULL, clean);
}
