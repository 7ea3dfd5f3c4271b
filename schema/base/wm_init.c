/* wm_init.c - see wm_init.h. Every signal is blocked in process 1 and taken by sigwaitinfo: what is
   blocked reaches it also where the action is the default.

   What is sent to the whole process group (by Ctrl-C, by timeout(1)) has reached the program too,
   and must not reach it twice. So process 1 leaves the group. Where it leads a session it cannot:
   what the terminal sends is for the group then, except that a hang-up is for the leader alone.  */
#include "schema/base/wm_init.h"
#include "schema/base/wm_process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Waits for all that have ended, orphans too. When the program has, this process ends.  */
static void reap (pid_t program)
{
    int status;
    for (pid_t pid; (pid = waitpid (-1, &status, WNOHANG)) > 0;)
        if (pid == program)
            _exit (WIFEXITED (status) ? WEXITSTATUS (status) : 128 + WTERMSIG (status));
}

static _Noreturn void serve (pid_t program, const sigset_t *all)
{
    siginfo_t info;
    setpgid (0, 0);
    wm_process_name (WM_INIT_NAME);
    for (;;) {
        const int number = sigwaitinfo (all, &info);
        if (number == SIGCHLD)
            reap (program);
        else if (number > 0 && (info.si_code <= 0 || number == SIGHUP))
            kill (program, number);
    }
}

void wm_init_begin (void)
{
    if (getpid () != 1)
        return;
    sigset_t all, before;
    sigfillset (&all);
    sigprocmask (SIG_SETMASK, &all, &before);
    /* where it is ignored, no child can be waited for */
    void (*const ended) (int) = signal (SIGCHLD, SIG_DFL);
    const pid_t program = fork ();
    if (program > 0)
        serve (program, &all);
    if (program < 0)
        fprintf (stderr, "wiremill: process 1 cannot start a process: %s; signals may not end it\n",
                 strerror (errno));
    signal (SIGCHLD, ended);
    sigprocmask (SIG_SETMASK, &before, NULL);
}
