/* wm_render_process.c - see wm_render_process.h.  */
#include "producer/pictures/wm_render_process.h"

#include "schema/base/wm_file.h"
#include "schema/base/wm_process.h"

#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int complain (const char *verb, wm_fault_t fault, const wm_error_t *error)
{
    fprintf (stderr, "wiremill %s: %s\n", verb, error->text);
    return wm_exit_of (fault);
}

/* The child: it ends without what the parent does at its end.  */
static void child (const char *verb, const char *path, int to, pid_t parent,
                   int (*make) (void *arg, FILE *out), void *arg)
{
    wm_process_name ("wm-apart");
    FILE *out = wm_process_follow (parent, SIGKILL) ? fdopen (to, "w") : NULL;
    int code = out ? make (arg, out) : WM_EXIT_FAILURE;
    if (out && fflush (out) | ferror (out)) {
        wm_error_t error;
        code = complain (verb, wm_file_unwritten (path, errno, &error), &error);
        if (ftruncate (to, 0)) /* a part is nothing */
            abort ();
    }
    fflush (stdout);
    _exit (code);
}

/* Has the child write to a file of this process. Returns its exit code; *ended: it ended by itself.
 */
static int run_child (const char *verb, const char *path, int (*make) (void *arg, FILE *out),
                      void *arg, int to, bool *ended)
{
    const pid_t parent = getpid ();
    int status = 0;
    fflush (stdout);
    const pid_t pid = to < 0 ? -1 : fork ();
    *ended = false;
    if (pid < 0) {
        fprintf (stderr, "wiremill %s: cannot start a process: %s\n", verb, strerror (errno));
        return WM_EXIT_FAILURE;
    }
    if (!pid)
        child (verb, path, to, parent, make, arg);
    *ended = TEMP_FAILURE_RETRY (waitpid (pid, &status, 0)) == pid && WIFEXITED (status);
    if (*ended)
        return WEXITSTATUS (status);
    fprintf (stderr,
             "wiremill %s: the process that read the files was ended by signal %d (%s); one "
             "of them may be damaged\n",
             verb, WTERMSIG (status), strsignal (WTERMSIG (status)));
    return WM_EXIT_FAILURE;
}

int wm_render_process_run (const char *verb, const char *path, int (*make) (void *arg, FILE *out),
                           void *arg)
{
    wm_file_new_t file;
    wm_error_t error;
    struct stat st;
    bool ended;
    if (!path)
        return make (arg, NULL);
    if (wm_file_begin (&file, path, false, &error))
        return complain (verb, error.fault, &error);
    const int code = run_child (verb, path, make, arg, file.fd, &ended);
    if (!ended || fstat (file.fd, &st) || !st.st_size) {
        wm_file_abort (&file);
        return code;
    }
    if (wm_file_commit (&file, &error))
        return complain (verb, error.fault, &error);
    if (isatty (STDERR_FILENO))
        fprintf (stderr, "wiremill %s: wrote %s%s\n", verb, path,
                 fnmatch ("*.html", path, 0) == 0 ? "; open it in a browser" : "");
    return code;
}

int wm_render_process_text (const char *verb, int (*make) (void *arg, FILE *out), void *arg,
                            char *text, size_t bytes_max)
{
    bool ended;
    const int memory = memfd_create ("text", MFD_CLOEXEC);
    const int code = run_child (verb, "memory", make, arg, memory, &ended);
    const ssize_t got = memory < 0 || !ended ? 0 : pread (memory, text, bytes_max - 1, 0);
    text[got > 0 ? got : 0] = 0;
    if (memory >= 0)
        close (memory);
    return code;
}

int wm_render_process_copy (const char *verb, int (*make) (void *arg, FILE *out), void *arg,
                            FILE *out)
{
    char piece[4096];
    bool ended;
    const int memory = memfd_create ("part", MFD_CLOEXEC);
    const int code = run_child (verb, "memory", make, arg, memory, &ended);
    off_t at = 0;
    for (ssize_t got; memory >= 0 && !code; at += got) {
        got = pread (memory, piece, sizeof piece, at);
        if (got <= 0)
            break;
        fwrite (piece, 1, (size_t) got, out);
    }
    if (memory >= 0)
        close (memory);
    return code;
}
