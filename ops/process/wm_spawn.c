/* wm_spawn.c - see wm_spawn.h.  */
#include "ops/process/wm_spawn.h"
#include "ops/process/wm_beside.h"
#include "ops/process/wm_child.h"
#include "ops/process/wm_complain.h"
#include "schema/base/wm_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t wm_spawn (const char *verb, const char *const argv[], int in, int out)
{
    char path[PATH_MAX];
    wm_error_t error;
    if (wm_beside_find (path, argv[0], &error)) {
        wm_complain (verb, &error);
        return -1;
    }
    const wm_process_t process = {
        .program = path,
        .argv = argv,
        .in = in,
        .out = out == STDOUT_FILENO ? 0 : out,
        .death_signal = SIGKILL,
        /* it reads what a hostile input may have made */
        .drops_credentials = argv[1] && strcmp (argv[1], "facts") == 0,
    };
    const pid_t pid = wm_process_start (&process);
    if (pid < 0)
        fprintf (stderr, "wiremill %s: %s cannot be started: %s\n", verb, argv[0],
                 strerror (errno));
    return pid;
}

pid_t wm_spawn_reader (const char *verb, const char *const argv[], int *fd)
{
    int ends[2];
    if (pipe2 (ends, O_CLOEXEC)) {
        fprintf (stderr, "wiremill %s: pipe: %s\n", verb, strerror (errno));
        return -1;
    }
    const pid_t pid = wm_spawn (verb, argv, STDIN_FILENO, ends[1]);
    close (ends[1]);
    *fd = ends[0];
    if (pid < 0)
        close (ends[0]);
    return pid;
}

int wm_spawn_code (const char *verb, const char *program, pid_t pid)
{
    int status;
    char how[WM_CHILD_HOW_BYTES];
    if (pid <= 0 || TEMP_FAILURE_RETRY (waitpid (pid, &status, 0)) != pid)
        return WM_EXIT_FAILURE;
    if (WIFEXITED (status))
        return WEXITSTATUS (status);
    if (WTERMSIG (status) == SIGPIPE)
        return WM_EXIT_OK;
    fprintf (stderr, "wiremill %s: %s ended by %s; type the same command again\n", verb, program,
             wm_child_how_ended (status, how));
    return WM_EXIT_FAILURE;
}
