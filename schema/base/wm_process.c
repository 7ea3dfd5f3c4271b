/* wm_process.c - see wm_process.h. Between fork and exec a child makes async-signal-safe calls
   only: other threads of its parent may have held any lock.  */
#include "schema/base/wm_process.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int wm_process_descriptor (const char *path)
{
    static const char *const begin[] = { "/proc/self/fd/", "/dev/fd/" };
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) {
        int fd = 0;
        const char *digit = path + strlen (begin[i]);
        if (strncmp (path, begin[i], strlen (begin[i])) != 0 || !*digit)
            continue;
        for (; *digit >= '0' && *digit <= '9' && fd < 1 << 20; digit++)
            fd = 10 * fd + (*digit - '0');
        if (!*digit)
            return fd;
    }
    return -1;
}

/* Lets the next program inherit the descriptor that a word names.  */
static void hand_over (const char *word)
{
    const char *value = strchr (word, '=');
    const int fd = wm_process_descriptor (*word == '/' || !value ? word : value + 1);
    if (fd >= 0)
        fcntl (fd, F_SETFD, 0);
}

void wm_process_hand_over (const char *const argv[])
{
    for (; *argv; argv++)
        hand_over (*argv);
    for (char **variable = environ; *variable; variable++)
        hand_over (*variable);
}

/* The value of NAME=VALUE if it opens files elsewhere, else NULL.  */
static char *credential (char *variable)
{
    static const char *const names[] = { "X509_USER_PROXY=", "BEARER_TOKEN=",
                                         "BEARER_TOKEN_FILE=" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp (variable, names[i], strlen (names[i])) == 0)
            return variable + strlen (names[i]);
    return NULL;
}

void wm_process_drop_credentials (void)
{
    char **to = environ, *value;
    for (char **from = environ; *from; from++)
        if ((value = credential (*from)))
            explicit_bzero (value, strlen (value)); /* /proc/self/environ shows these bytes too */
        else
            *to++ = *from;
    *to = NULL;
}

void wm_process_name (const char *name)
{
    prctl (PR_SET_NAME, name);
    WM_FAILPOINT (name);
}

void wm_process_keep_memory (void)
{
    if (!mallopt (M_MMAP_THRESHOLD, 128 << 20))
        mallopt (M_MMAP_THRESHOLD, 32 << 20); /* the most of glibc before 2.35 */
    mallopt (M_TRIM_THRESHOLD, 128 << 20);
}

bool wm_process_follow (pid_t parent, int signal)
{
    if (!parent)
        parent = getppid ();
    prctl (PR_SET_PDEATHSIG, signal); /* it may have ended before this took effect */
    const pid_t now = getppid ();
    return now == parent || now == 0; /* 0: it is outside this PID namespace */
}

/* ---- the child ------------------------------------------------------------------------------- */

static _Noreturn void give_up (const char *program)
{
    const char *const text[] = { program, " cannot be started: ", strerrordesc_np (errno), "\n" };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (text[i] && write (STDERR_FILENO, text[i], strlen (text[i])) < 0)
            break;
    _exit (127);
}

/* Makes `from` one of the three streams. false: it cannot.  */
static bool set_stream (int from, int to)
{
    if (from == 0)
        return true;
    const int fd = from > 0 ? from : open ("/dev/null", O_RDWR | O_CLOEXEC);
    return fd >= 0 && dup2 (fd, to) == to;
}

static _Noreturn void become (const wm_process_t *self, pid_t parent)
{
    sigset_t none;
    if (self->death_signal && !wm_process_follow (parent, self->death_signal))
        _exit (WM_EXIT_AGAIN);
    setsid ();
    for (int s = 1; s < NSIG; s++)
        signal (s, SIG_DFL);
    sigemptyset (&none); /* only now: a signal for the child must not end in its parent's handler */
    sigprocmask (SIG_SETMASK, &none, NULL);
    if (!set_stream (self->in, STDIN_FILENO) || !set_stream (self->out, STDOUT_FILENO) ||
        !set_stream (self->err, STDERR_FILENO))
        give_up (self->program);
    if (self->prepare)
        self->prepare (self->argument);
    /* by a kernel without it: what is open with O_CLOEXEC, which is all of ours */
    close_range (STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
    if (self->drops_credentials)
        wm_process_drop_credentials ();
    wm_process_hand_over (self->argv);
    if (self->keep > 0)
        fcntl (self->keep, F_SETFD, 0);
    const char *slash = strrchr (self->program, '/');
    WM_FAILPOINT (slash ? slash + 1 : self->program);
    if (self->argv[1])
        WM_FAILPOINT (self->argv[1]);
    execvp (self->program, (char *const *) (uintptr_t) self->argv); /* which changes nothing */
    give_up (self->program);
}

/* ---- its parent ------------------------------------------------------------------------------ */

pid_t wm_process_start (const wm_process_t *self)
{
    const pid_t parent = getpid ();
    sigset_t all, before;
    fflush (stdout); /* what was printed comes before what the child prints; of all streams it */
    fflush (stderr); /* would wait for threads that read one, and with it whoever opens another */
    sigfillset (&all);
    sigprocmask (SIG_SETMASK, &all, &before);
    const pid_t pid = fork ();
    if (pid == 0)
        become (self, parent);
    const int failed = errno;
    sigprocmask (SIG_SETMASK, &before, NULL);
    errno = failed;
    return pid;
}

int wm_process_apart (const char *name, unsigned seconds, int (*run) (const void *argument),
                      const void *argument)
{
    const pid_t parent = getpid ();
    fflush (stdout);
    const pid_t pid = fork ();
    int status = -1;
    if (pid == 0) {
        wm_process_name (name);
        signal (SIGALRM, SIG_DFL);
        alarm (seconds);
        const int code = wm_process_follow (parent, SIGKILL) ? run (argument) : WM_EXIT_AGAIN;
        fflush (stdout);
        _exit (code);
    }
    if (pid > 0)
        TEMP_FAILURE_RETRY (waitpid (pid, &status, 0));
    return status;
}

int wm_process_thread (pthread_t *thread, void *(*run) (void *), void *argument)
{
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    const int code = pthread_create (thread, NULL, run, argument);
    pthread_sigmask (SIG_SETMASK, &before, NULL);
    return code;
}

void wm_process_kill (pid_t *pid)
{
    if (*pid > 0) {
        kill (*pid, SIGKILL); /* it may not have its own session yet */
        kill (-*pid, SIGKILL);
        TEMP_FAILURE_RETRY (waitpid (*pid, NULL, 0));
    }
    *pid = 0;
}

char *wm_process_output (int fd, size_t bytes_max)
{
    struct stat st;
    const size_t bytes = fstat (fd, &st) ? 0 : (size_t) st.st_size;
    char *text = bytes <= bytes_max ? malloc (bytes + 1) : NULL;
    const ssize_t n = text ? pread (fd, text, bytes, 0) : 0;
    if (text)
        text[n > 0 ? n : 0] = 0;
    return text;
}
