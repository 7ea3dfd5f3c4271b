/* wm_apart.c - see wm_apart.h.  */
#include "producer/wm_apart.h"

#include "schema/base/wm_file.h"
#include "schema/base/wm_process.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child: it ends without what the parent does at its end.  */
static void child (const char *verb, int memory, pid_t parent, int (*make) (void *arg, FILE *out),
                   void *arg)
{
    FILE *out = wm_process_follow (parent, SIGKILL) ? fdopen (memory, "w") : NULL;
    int code = out ? make (arg, out) : WM_EXIT_FAILURE;
    if (out && (ferror (out) | fclose (out))) {
        fprintf (stderr, "wiremill %s: no memory for the picture or page\n", verb);
        code = WM_EXIT_FAILURE;
    }
    fflush (stdout);
    _exit (code);
}

/* Whole, or the old one stays.  */
static int store (const char *verb, const char *path, int memory)
{
    wm_error_t error;
    struct stat st;
    if (fstat (memory, &st) || !st.st_size)
        return 0;
    void *bytes = mmap (NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, memory, 0);
    wm_fault_t fault =
        bytes == MAP_FAILED
            ? wm_fault (&error, WM_EHOST, "%.300s: cannot be mapped: %s", path, strerror (errno))
            : wm_file_write (path, &(wm_part_t){ bytes, (size_t) st.st_size }, 1, &error);
    if (bytes != MAP_FAILED)
        munmap (bytes, (size_t) st.st_size);
    if (fault)
        fprintf (stderr, "wiremill %s: %s\n", verb, error.text);
    return fault ? -1 : 0;
}

/* The child's exit code; *memory: what it wrote, or -1.  */
static int run_child (const char *verb, int (*make) (void *arg, FILE *out), void *arg, int *memory)
{
    const pid_t parent = getpid ();
    int status = 0, waited = -1;
    *memory = memfd_create ("page", MFD_CLOEXEC);
    fflush (stdout);
    const pid_t pid = *memory < 0 ? -1 : fork ();
    if (pid < 0) {
        fprintf (stderr, "wiremill %s: cannot start a process: %s\n", verb, strerror (errno));
        return WM_EXIT_FAILURE;
    }
    if (!pid)
        child (verb, *memory, parent, make, arg);
    while ((waited = waitpid (pid, &status, 0)) < 0 && errno == EINTR)
        ;
    if (waited == pid && WIFEXITED (status))
        return WEXITSTATUS (status);
    fprintf (stderr,
             "wiremill %s: the process that read the files was ended by signal %d (%s); one "
             "of them may be damaged\n",
             verb, WTERMSIG (status), strsignal (WTERMSIG (status)));
    close (*memory);
    *memory = -1;
    return WM_EXIT_FAILURE;
}

int wm_apart_run (const char *verb, const char *path, int (*make) (void *arg, FILE *out), void *arg)
{
    int memory;
    if (!path)
        return make (arg, NULL);
    const int code = run_child (verb, make, arg, &memory);
    const int failed = memory < 0 ? 0 : store (verb, path, memory);
    if (memory >= 0)
        close (memory);
    return failed ? WM_EXIT_FAILURE : code;
}

int wm_apart_text (const char *verb, int (*make) (void *arg, FILE *out), void *arg, char *text,
                   size_t bytes_max)
{
    int memory;
    const int code = run_child (verb, make, arg, &memory);
    const ssize_t got = memory < 0 ? 0 : pread (memory, text, bytes_max - 1, 0);
    text[got > 0 ? got : 0] = 0;
    if (memory >= 0)
        close (memory);
    return code;
}

int wm_apart_copy (const char *verb, int (*make) (void *arg, FILE *out), void *arg, FILE *out)
{
    int memory;
    char piece[4096];
    const int code = run_child (verb, make, arg, &memory);
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
