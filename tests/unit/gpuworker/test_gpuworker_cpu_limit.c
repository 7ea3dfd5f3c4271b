/* test_gpuworker_cpu_limit.c - the engine rests as long as the other processes of its run computed.

   As in a run: this process starts a broker and a worker, the worker an engine. The broker computes
   for a while; the engine must rest for as long, however loaded the machine is.  */
#include "gpuworker/engine/wm_cpu_limit.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COMPUTED_S 0.2

static int go[2], over[2]; /* the engine tells the broker to compute, and hears that it has */

static void compute (void)
{
    char byte;
    struct timespec t;
    if (read (go[0], &byte, 1) != 1)
        _exit (1);
    do
        clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &t);
    while ((double) t.tv_sec + 1e-9 * (double) t.tv_nsec < COMPUTED_S);
    if (write (over[1], "", 1) != 1)
        _exit (1);
    pause ();
}

/* 0: it rested as long as the broker computed; 1: it did not rest; 2: it is not asked to.  */
static void rest (void)
{
    char byte;
    const double begin_s = wm_cpu_limit_begin ();
    if (begin_s < 0)
        _exit (2);
    if (write (go[1], "", 1) != 1 || read (over[0], &byte, 1) != 1)
        _exit (3);
    const double before_s = wm_now_s ();
    wm_cpu_limit_end (begin_s);
    _exit (wm_now_s () - before_s < 0.9 * COMPUTED_S);
}

/* What the others have computed more than they did, and what rest is asked for; -1: it rests.  */
static time_t more_s;
static double rest_s = -1;

int clock_gettime (clockid_t clock, struct timespec *t)
{
    const long code = syscall (SYS_clock_gettime, clock, t);
    t->tv_sec += clock < 0 ? more_s : 0; /* of another process */
    return (int) code;
}

int nanosleep (const struct timespec *rest, struct timespec *left)
{
    if (rest_s < 0)
        return (int) syscall (SYS_nanosleep, rest, left);
    rest_s = (double) rest->tv_sec + 1e-9 * (double) rest->tv_nsec;
    return 0;
}

/* 0: it rests for 2 s at most.  */
static void rest_of_much (void)
{
    const double begin_s = wm_cpu_limit_begin ();
    rest_s = 0;
    more_s = 60;
    wm_cpu_limit_end (begin_s);
    _exit (rest_s != 2);
}

static void (*engine_run) (void) = rest;

static pid_t start (void (*run) (void))
{
    const pid_t pid = fork ();
    if (pid)
        return pid;
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    run ();
    _exit (9);
}

static void work (void)
{
    int status;
    const pid_t engine = start (engine_run);
    waitpid (engine, &status, 0);
    _exit (WIFEXITED (status) ? WEXITSTATUS (status) : 8);
}

/* As the process that copies inputs has its reader below it.  */
static void compute_below (void)
{
    if (start (compute) > 0)
        pause ();
}

static int code_of_engine (void (*broker_run) (void))
{
    int status;
    assert_int_equal (pipe (go) | pipe (over), 0);
    const pid_t broker = start (broker_run), worker = start (work);
    assert_int_equal (waitpid (worker, &status, 0), worker);
    kill (broker, SIGKILL);
    waitpid (broker, NULL, 0);
    return WIFEXITED (status) ? WEXITSTATUS (status) : 8;
}

static void rests_as_long_as_others_computed (void **state)
{
    setenv ("WM_CPU_LIMIT", "1", 1);
    assert_int_equal (code_of_engine (compute), 0);
    assert_int_equal (code_of_engine (compute_below), 0);
    engine_run = rest_of_much;
    assert_int_equal (code_of_engine (compute), 0);
    engine_run = rest;
}

static void only_where_it_is_asked_to (void **state)
{
    setenv ("WM_CPU_LIMIT", "0", 1);
    assert_int_equal (code_of_engine (compute), 2);
    unsetenv ("WM_CPU_LIMIT");
    assert_int_equal (code_of_engine (compute), 2);
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (rests_as_long_as_others_computed),
                                        cmocka_unit_test (only_where_it_is_asked_to) };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
