/* gpu_apart.c - a part of a report as a process of its own.

   An error of a CUDA context is permanent, a kernel may never end, a library may crash: whatever
   the part does, the rest of the report is made. The caller must not have opened the GPU, since a
   context does not outlive fork.  */
#include "tests/gpu/gpu_check.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int gpu_apart (unsigned seconds, int (*part) (void *argument), void *argument)
{
    int status = 0;
    fflush (stdout);
    const pid_t pid = fork ();
    if (pid == 0) {
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        alarm (seconds); /* which ends it */
        const int code = part (argument);
        fflush (stdout);
        _exit (code);
    }
    while (pid > 0 && waitpid (pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0 && WIFEXITED (status))
        return WEXITSTATUS (status);
    if (pid < 0)
        printf ("cannot fork: %s\n", strerror (errno));
    else if (WTERMSIG (status) == SIGALRM)
        printf ("not done after %u s\n", seconds);
    else
        printf ("died by signal %d (%s)\n", WTERMSIG (status), strsignal (WTERMSIG (status)));
    fflush (stdout);
    return -1;
}
