/* test_schema_process.c - what a program that was started as a child inherits, and how it ends.  */
#include "schema/base/wm_process.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX 65536u

static void on_signal (int number)
{
}

/* Runs the shell command as `process` with its argv and output; returns what it printed.  */
static char *output_of (wm_process_t process, const char *command, int *status)
{
    const int out = memfd_create ("output", MFD_CLOEXEC);
    const char *const argv[] = { "sh", "-c", command, NULL };
    assert_true (out >= 0);
    process.program = process.program ? process.program : "sh";
    process.argv = process.argv ? process.argv : argv;
    process.out = process.err = out;
    const pid_t pid = wm_process_start (&process);
    assert_true (pid > 0);
    assert_int_equal (waitpid (pid, status, 0), pid);
    char *text = wm_process_output (out, OUTPUT_BYTES_MAX);
    assert_non_null (text);
    close (out);
    return text;
}

/* Signals that the parent handles, ignores or blocks have their default effect in the child.  */
static void test_signals (void **state)
{
    int status;
    sigset_t blocked, before;
    const struct sigaction handler = { .sa_handler = on_signal };
    sigaction (SIGTERM, &handler, NULL);
    signal (SIGPIPE, SIG_IGN);
    signal (SIGRTMIN + 3, SIG_IGN);
    sigemptyset (&blocked);
    sigaddset (&blocked, SIGUSR1);
    sigprocmask (SIG_BLOCK, &blocked, &before);
    const char *const argv[] = { "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status", NULL };
    char *text = output_of ((wm_process_t){ .program = "grep", .argv = argv }, NULL, &status);
    unsigned long long is_blocked, is_ignored;
    assert_int_equal (sscanf (text, "SigBlk: %llx SigIgn: %llx", &is_blocked, &is_ignored), 2);
    assert_int_equal (is_blocked, 0);
    assert_int_equal (is_ignored & ~(3ull << 31), 0); /* 32 and 33 are the C library's own */
    free (text);
    sigset_t now;
    sigprocmask (SIG_SETMASK, &before, &now);
    assert_true (sigismember (&now, SIGUSR1) && !sigismember (&now, SIGUSR2));
    signal (SIGTERM, SIG_DFL);
    signal (SIGPIPE, SIG_DFL);
    signal (SIGRTMIN + 3, SIG_DFL);
}

/* Of what is open here, also without O_CLOEXEC, a child has what is meant for it.  */
static void test_descriptors (void **state)
{
    int status;
    const int keep = 31, most = 35; /* 32 and on: named */
    assert_int_equal (dup2 (STDERR_FILENO, 30), 30);
    for (int fd = keep; fd <= most; fd++)
        assert_int_equal (dup3 (STDERR_FILENO, fd, O_CLOEXEC), fd);
    setenv ("WM_TEST_FILE", "/dev/fd/35", 1);
    static const char list[] = "cd /proc/self/fd && echo *"; /* by the shell itself */
    const char *const argv[] = {
        "sh", "-c", list, "sh", "/proc/self/fd/32", "/dev/fd/33", "--list=/dev/fd/34", NULL
    };
    char *text = output_of ((wm_process_t){ .argv = argv, .keep = keep }, NULL, &status);
    assert_non_null (strstr (text, " 31 32 33 34 35"));
    assert_null (strstr (text, "30"));
    free (text);
    unsetenv ("WM_TEST_FILE");
    text = output_of ((wm_process_t){ .in = WM_PROCESS_NULL }, list, &status);
    assert_string_equal (text, "0 1 2 3\n"); /* 3: the folder that it lists */
    free (text);
    text = output_of ((wm_process_t){ .in = WM_PROCESS_NULL }, "readlink /proc/self/fd/0", &status);
    assert_string_equal (text, "/dev/null\n");
    free (text);
    for (int fd = 30; fd <= most; fd++)
        close (fd);
}

static void test_session (void **state)
{
    int status;
    char *text = output_of ((wm_process_t){ 0 }, "cut -d' ' -f5,6 /proc/$$/stat; echo $$", &status);
    int group, session, pid;
    assert_int_equal (sscanf (text, "%d %d %d", &group, &session, &pid), 3);
    assert_int_equal (group, pid);
    assert_int_equal (session, pid);
    free (text);
}

static void set_value (const void *argument)
{
    setenv ("WM_TEST_PREPARED", argument, 1);
}

static void test_environment (void **state)
{
    static const char show[] =
        "echo \"$X509_USER_PROXY,$BEARER_TOKEN,$BEARER_TOKEN_FILE,$BEARER_TOKENS,"
        "$WM_TEST_PREPARED\"";
    int status;
    setenv ("X509_USER_PROXY", "a", 1);
    setenv ("BEARER_TOKEN", "b", 1);
    setenv ("BEARER_TOKEN_FILE", "c", 1);
    setenv ("BEARER_TOKENS", "d", 1);
    char *text = output_of ((wm_process_t){ .prepare = set_value, .argument = "e" }, show, &status);
    assert_string_equal (text, "a,b,c,d,e\n");
    free (text);
    text = output_of ((wm_process_t){ .drops_credentials = true }, show, &status);
    assert_string_equal (text, ",,,d,\n");
    free (text);
    char *value = getenv ("BEARER_TOKEN"); /* of a process that does not become another one */
    assert_non_null (value);
    wm_process_drop_credentials ();
    assert_null (getenv ("BEARER_TOKEN"));
    assert_int_equal (value[0], 0);
    assert_string_equal (getenv ("BEARER_TOKENS"), "d");
}

static void test_missing_program (void **state)
{
    int status;
    const char *const argv[] = { "wm-no-such-program", NULL };
    char *text = output_of ((wm_process_t){ .program = argv[0], .argv = argv }, NULL, &status);
    assert_string_equal (text, "wm-no-such-program cannot be started: No such file or directory\n");
    assert_true (WIFEXITED (status) && WEXITSTATUS (status) == 127);
    free (text);
}

static void test_output_limit (void **state)
{
    const int fd = memfd_create ("output", MFD_CLOEXEC);
    assert_int_equal (write (fd, "12345", 5), 5);
    assert_null (wm_process_output (fd, 4));
    char *text = wm_process_output (fd, 5);
    assert_string_equal (text, "12345");
    free (text);
    close (fd);
}

/* Reads up to n bytes until every writing end is closed, for at most ten seconds each. Returns how
   many came, or -1 if the last writing end stays open.  */
static ssize_t read_all (int fd, char *text, size_t n)
{
    size_t at = 0;
    ssize_t got = -1;
    while (poll (&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 10000) > 0 &&
           (got = read (fd, text + at, n - at)) > 0)
        at += (size_t) got;
    return got == 0 ? (ssize_t) at : -1;
}

/* What a child has started ends with it.  */
static void test_kill (void **state)
{
    int ends[2];
    char byte;
    assert_int_equal (pipe2 (ends, O_CLOEXEC), 0);
    const char *const argv[] = { "sh", "-c", "sleep 60 & echo; wait", NULL };
    pid_t pid =
        wm_process_start (&(wm_process_t){ .program = "/bin/sh", .argv = argv, .out = ends[1] });
    assert_true (pid > 0);
    close (ends[1]);
    assert_int_equal (read (ends[0], &byte, 1), 1); /* its child runs */
    const pid_t child = pid;
    wm_process_kill (&pid);
    assert_int_equal (pid, 0);
    assert_int_equal (read_all (ends[0], &byte, 1), 0);
    assert_true (kill (child, 0) && errno == ESRCH);
    wm_process_kill (&pid);
    close (ends[0]);
}

/* A child with a death signal ends with this process, however that ends; one without lives on.  */
static void test_death (void **state)
{
    for (int lives_on = 0; lives_on < 2; lives_on++) {
        int ends[2];
        pid_t child = 0;
        assert_int_equal (pipe2 (ends, O_CLOEXEC), 0);
        const char *const argv[] = { "sh", "-c", lives_on ? "sleep 0.5; echo on" : "exec sleep 60",
                                     NULL };
        const pid_t parent = fork ();
        if (parent == 0) {
            child = wm_process_start (&(wm_process_t){ .program = "sh",
                                                       .argv = argv,
                                                       .out = ends[1],
                                                       .death_signal = lives_on ? 0 : SIGKILL });
            if (write (ends[1], &child, sizeof child) == sizeof child)
                raise (SIGKILL);
            _exit (1);
        }
        close (ends[1]);
        assert_int_equal (read (ends[0], &child, sizeof child), sizeof child);
        assert_true (child > 0);
        assert_int_equal (waitpid (parent, NULL, 0), parent);
        char text[5] = "";
        assert_int_equal (read_all (ends[0], text, 4), lives_on ? 3 : 0);
        assert_string_equal (text, lives_on ? "on\n" : "");
        close (ends[0]);
    }
}

/* In a process of its own: 0 if a child of process 1 of a PID namespace follows it, 2: no namespace
   can be made here.  */
static int first_is_followed (void)
{
    int status = 0;
    if (unshare (CLONE_NEWPID) && unshare (CLONE_NEWUSER | CLONE_NEWPID))
        return 2;
    const pid_t first = fork ();
    if (first == 0) {
        if (!wm_process_follow (0, SIGKILL)) /* its parent has no number here */
            _exit (3);
        const pid_t child = fork ();
        if (child == 0)
            _exit (getppid () == 1 && wm_process_follow (1, SIGKILL) &&
                           wm_process_follow (0, SIGKILL)
                       ? 0
                       : 1);
        _exit (waitpid (child, &status, 0) == child && WIFEXITED (status) ? WEXITSTATUS (status)
                                                                          : 4);
    }
    return waitpid (first, &status, 0) == first && WIFEXITED (status) ? WEXITSTATUS (status) : 4;
}

/* A parent is followed, also where it is process 1; one that has ended is noticed.  */
static void test_follow (void **state)
{
    int status;
    const pid_t self = getpid ();
    pid_t pid = fork ();
    if (pid == 0)
        _exit (wm_process_follow (self, SIGKILL) && !wm_process_follow (getpid (), SIGKILL) ? 0
                                                                                            : 1);
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (status, 0);
    pid = fork ();
    if (pid == 0)
        _exit (first_is_followed ());
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_true (WIFEXITED (status));
    if (WEXITSTATUS (status) == 2)
        print_message ("no PID namespace may be made here\n");
    else
        assert_int_equal (WEXITSTATUS (status), 0);
}

/* Pages that the kernel hands out while batches come and go, in a process of its own.  */
static long faults_of_batches (bool keeps)
{
    int out[2];
    long faults = -1;
    assert_int_equal (pipe (out), 0);
    const pid_t child = fork ();
    if (child == 0) {
        struct rusage before, after;
        if (keeps)
            wm_process_keep_memory ();
        for (int round = 0; round < 5; round++) {
            if (round == 1)
                getrusage (RUSAGE_SELF, &before);
            char *batch[4];
            for (size_t i = 0; i < 4; i++)
                batch[i] = memset (malloc (4 << 20), round, 4 << 20);
            for (size_t i = 0; i < 4; i++)
                free (batch[i]);
        }
        getrusage (RUSAGE_SELF, &after);
        faults = after.ru_minflt - before.ru_minflt;
        _exit (write (out[1], &faults, sizeof faults) != sizeof faults);
    }
    assert_int_equal (read (out[0], &faults, sizeof faults), sizeof faults);
    close (out[0]);
    close (out[1]);
    assert_int_equal (waitpid (child, NULL, 0), child);
    return faults;
}

static void test_kept_memory (void **state)
{
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* they have their own malloc */
    assert_true (faults_of_batches (false) > 1000);
    assert_true (faults_of_batches (true) < 100);
#endif
}

int main (void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_signals),     cmocka_unit_test (test_descriptors),
        cmocka_unit_test (test_session),     cmocka_unit_test (test_environment),
        cmocka_unit_test (test_kept_memory), cmocka_unit_test (test_missing_program),
        cmocka_unit_test (test_follow),      cmocka_unit_test (test_output_limit),
        cmocka_unit_test (test_kill),        cmocka_unit_test (test_death),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
