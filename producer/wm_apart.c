/* wm_apart.c - see wm_apart.h.  */
#include "producer/wm_apart.h"

#include "schema/base/wm_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BEGIN_BYTES 16

/* Whether what lies there already is of a kind that may be replaced.  */
static wm_fault_t check_old (const char *path, const char *const *kinds, wm_error_t *error)
{
    char begin[BEGIN_BYTES + 1] = "";
    const int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t got = fd < 0 ? -1 : read (fd, begin, BEGIN_BYTES);
    const int failed = errno;
    if (fd >= 0)
        close (fd);
    if (got < 0)
        return wm_fault (error, WM_EUSAGE, "%.300s: cannot be read, to see what it is: %s", path,
                         strerror (failed));
    for (size_t i = 0; kinds[i] && got; i++)
        if (!strncmp (begin, kinds[i], strnlen (kinds[i], BEGIN_BYTES)))
            return WM_OK;
    return got ? wm_fault (error, WM_EUSAGE,
                           "%.300s: is there, and was not made by this command before: it is not "
                           "replaced; name another file",
                           path)
               : WM_OK;
}

wm_fault_t wm_apart_check (const char *path, const char *const *kinds, wm_error_t *error)
{
    struct stat st;
    char copy[PATH_MAX];
    if (stat (path, &st) == 0) {
        if (!S_ISREG (st.st_mode))
            return wm_fault (error, WM_EUSAGE, "%.300s: not a regular file; name a file", path);
        return check_old (path, kinds, error);
    }
    if (snprintf (copy, sizeof copy, "%s", path) >= (int) sizeof copy)
        return wm_fault (error, WM_EUSAGE, "%.300s: the name is too long", path);
    const char *folder = dirname (copy);
    if (stat (folder, &st) || access (folder, W_OK | X_OK))
        return wm_fault (error, WM_EUSAGE, "%.300s: cannot be written in %.100s: %s", path, folder,
                         strerror (errno));
    return S_ISDIR (st.st_mode)
               ? WM_OK
               : wm_fault (error, WM_EUSAGE, "%.300s: %.100s is no folder", path, folder);
}

/* The child: it ends without what the parent does at its end.  */
static void child (const char *verb, int memory, pid_t parent, int (*make) (void *arg, FILE *out),
                   void *arg)
{
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    FILE *out = getppid () == parent ? fdopen (memory, "w") : NULL;
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
