/* wm_spawn.c - see wm_spawn.h.  */
#include "ops/wm_spawn.h"
#include "ops/wm_child.h"
#include "ops/wm_setup.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t wm_spawn (const char *verb, const char *const argv[], int in, int out)
{
    char path[PATH_MAX];
    wm_error_t error;
    if (wm_setup_program (path, argv[0], &error)) {
        wm_setup_complain (verb, &error);
        return -1;
    }
    const pid_t parent = getpid (), pid = fork ();
    if (pid < 0)
        fprintf (stderr, "wiremill %s: %s cannot be started: %s\n", verb, argv[0],
                 strerror (errno));
    if (pid != 0)
        return pid;
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    if (getppid () != parent)
        _exit (WM_EXIT_AGAIN);
    setsid ();
    sigset_t none;
    sigemptyset (&none);
    sigprocmask (SIG_SETMASK, &none, NULL);
    if (dup2 (in, STDIN_FILENO) < 0 || dup2 (out, STDOUT_FILENO) < 0)
        _exit (WM_EXIT_FAILURE);
    if (argv[1] && strcmp (argv[1], "facts") == 0) /* it reads what a hostile input may have made */
        wm_child_forget_credentials ();
    wm_setup_hand_over (argv);
    execv (path, (char *const *) (uintptr_t) argv);
    fprintf (stderr, "wiremill %s: %s cannot be started: %s\n", verb, path, strerror (errno));
    _exit (127);
}

int wm_spawn_code (const char *verb, const char *program, pid_t pid)
{
    int status;
    char how[WM_CHILD_HOW_BYTES];
    pid_t ended = -1;
    while (pid > 0 && (ended = waitpid (pid, &status, 0)) < 0 && errno == EINTR)
        ;
    if (pid <= 0 || ended != pid)
        return WM_EXIT_FAILURE;
    if (WIFEXITED (status))
        return WEXITSTATUS (status);
    if (WTERMSIG (status) == SIGPIPE)
        return WM_EXIT_OK;
    fprintf (stderr, "wiremill %s: %s ended by %s; type the same command again\n", verb, program,
             wm_child_how_ended (status, how));
    return WM_EXIT_FAILURE;
}
