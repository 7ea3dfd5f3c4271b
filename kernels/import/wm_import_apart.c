/* wm_import_apart.c - imports a model in a process of its own, from which everything is taken that
   an import does not need (schema/confine/wm_confine.h): a hostile file can at worst spoil the .wmm
   that is made of it.

   The process is a fork: the engines' libraries are where they are, and it starts in a millisecond.
   It may read the model, the files beside it and the engines; it may write in a folder that was
   made for it, PATH.import-XXXXXX beside PATH, from which the caller renames the .wmm to PATH. It
   answers through a pipe; the answer is checked as that of a stranger. It dies with the caller. A
   folder that a killed import left is swept by the next import to that path.  */
#include "kernels/import/wm_import_private.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_folder.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_process.h"
#include "schema/base/wm_program.h"
#include "schema/confine/wm_confine.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPU_S_MAX 3600 /* of an import; the largest known take a minute */

typedef struct {
    const char *path;
    const wm_import_choices_t *choices;
    const char *folder; /* it may write there; NULL: it only computes the identity */
    const char *wmm;    /* in it */
} task_t;

/* What the process sends: below PIPE_BUF, so that it comes whole or not at all.  */
typedef struct {
    wm_error_t error; /* fault WM_OK: none */
    char why[480], hex[65];
    bool alone;
} answer_t;
static_assert (sizeof (answer_t) <= PIPE_BUF, "an answer is one write");

/* ---- in the process -------------------------------------------------------------------------- */

/* What the engines in a folder link, in folders beside them, and behind links there.  */
static void read_linked (wm_confine_files_t *files, const char *folder)
{
    static const char *const engine[] = { "openvino", "onnxruntime" };
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof engine / sizeof *engine; i++)
        if (snprintf (path, sizeof path, "%s/%s/", folder, engine[i]) < (int) sizeof path) {
            wm_confine_files_read (files, path);
            wm_confine_files_links (files, path);
        }
}

/* The engines and their libraries: ../lib of this program, and what the variables of engines and of
   the linker name.  */
static void read_engines (wm_confine_files_t *files)
{
    static const char *const variable[] = { "LD_LIBRARY_PATH", "WM_OPENVINO_SO",
                                            "WM_ONNXRUNTIME_SO", "WM_CUDA_SO" };
    char path[PATH_MAX];
    if (wm_program_beside (path, "../lib")) {
        wm_confine_files_read (files, path);
        read_linked (files, path);
    }
    for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
        const char *value = getenv (variable[i]);
        char *save = NULL, *list = value ? strdup (value) : NULL;
        for (char *one = list ? strtok_r (list, ":", &save) : NULL; one;
             one = strtok_r (NULL, ":", &save)) {
            wm_confine_files_read (files, one);
            if (i) /* a shared object */
                read_linked (files, dirname (one));
        }
        free (list);
    }
}

static void confine (const task_t *task)
{
    const struct rlimit cpu = { CPU_S_MAX, CPU_S_MAX },
                        file = { 2ul * WM_MODEL_BYTES_MAX, 2ul * WM_MODEL_BYTES_MAX };
    char path[PATH_MAX];
    wm_confine_files_t *files = wm_confine_files_new ();
    read_engines (files);
    snprintf (path, sizeof path, "%s", task->path);
    for (int i = 0; i < WM_PATH_LINKS_MAX && (i == 0 || wm_path_follow (path)); i++) {
        wm_confine_files_beside (files, path);
        wm_confine_files_links (files, path);
    }
    if (task->folder)
        wm_confine_files_scratch (files, task->folder); /* OpenVINO is given a link there */
    wm_confine_files_apply (&files);
    setrlimit (RLIMIT_CPU, &cpu);
    setrlimit (RLIMIT_FSIZE, &file);
    wm_confine_calls ("the import of a model", WM_CONFINE_NO_NET);
    if (task->folder && *wm_confine_lacks ())
        fprintf (stderr,
                 "warning: a hostile model is not fully confined on this machine: %s; see "
                 "`wiremill help confinement`\n",
                 wm_confine_lacks ());
}

static void __attribute__ ((noreturn)) be_apart (const task_t *task, int out, pid_t parent)
{
    answer_t answer = { .error = { .fault = WM_OK } };
    wm_process_name ("wm-import");
    if (!wm_process_follow (parent, SIGKILL))
        _exit (1);
    if (strncmp (task->path, "/dev/fd/", 8) != 0 && strncmp (task->path, "/proc/", 6) != 0 &&
        dup2 (out, STDERR_FILENO + 1) >= 0) { /* the campaign's lock, sockets, logs */
        out = STDERR_FILENO + 1;
        close_range ((unsigned) out + 1, ~0u, 0);
    }
    if (task->folder)
        setenv ("TMPDIR", task->folder, 1);
    confine (task);
    if (task->folder)
        answer.error.fault =
            wm_import_here (task->path, task->choices, task->wmm, answer.why, &answer.error);
    else
        answer.error.fault = wm_import_sha256_here (task->path, task->choices, answer.hex,
                                                    &answer.alone, &answer.error);
    _exit (write (out, &answer, sizeof answer) != (ssize_t) sizeof answer);
}

/* ---- in the caller --------------------------------------------------------------------------- */

/* Nothing of a stranger's text is believed but that it is text.  */
static void text_tame (char *text, size_t bytes)
{
    text[bytes - 1] = 0;
    wm_log_sanitize (text);
}

static wm_fault_t ended (const char *path, int status, wm_error_t *error)
{
    const int number = WIFSIGNALED (status) ? WTERMSIG (status) : 0;
    if (number == SIGKILL && wm_failpoint_armed)
        raise (SIGKILL); /* a test kills the command, of which this was a part */
    if (number == SIGKILL)
        return wm_fault (error, WM_EHOST,
                         "%.300s: its import was killed: by somebody, or by the kernel where "
                         "memory ran out",
                         path);
    if (number == SIGXCPU)
        return wm_fault (error, WM_EBATCH,
                         "%.300s: its import took more than %d s of CPU time: refused", path,
                         CPU_S_MAX);
    if (number == SIGSYS)
        return wm_fault (
            error, WM_EBATCH,
            "%.300s: its import tried what no import needs, and was ended: the file is "
            "hostile; nothing was made of it",
            path);
    if (number)
        return wm_fault (error, WM_EBATCH,
                         "%.300s: its import crashed (signal %d, %s): the file is damaged, or "
                         "hostile; nothing was made of it",
                         path, number, strsignal (number));
    return wm_fault (error, WM_EHOST, "%.300s: its import ended without an answer", path);
}

static wm_fault_t run_apart (const task_t *task, answer_t *answer, wm_error_t *error)
{
    int ends[2], status = 0;
    if (pipe2 (ends, O_CLOEXEC))
        return wm_fault (error, WM_EHOST, "%.300s: no pipe for its import: %s", task->path,
                         strerror (errno));
    const pid_t parent = getpid ();
    fflush (NULL);
    const pid_t pid = fork ();
    if (pid == 0)
        be_apart (task, ends[1], parent);
    const int saved = errno;
    close (ends[1]);
    ssize_t n = 0;
    while (pid > 0 && (n = read (ends[0], answer, sizeof *answer)) < 0 && errno == EINTR)
        ;
    close (ends[0]);
    while (pid > 0 && waitpid (pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0)
        return wm_fault (error, WM_EHOST, "%.300s: no process for its import: %s", task->path,
                         strerror (saved));
    if (n != (ssize_t) sizeof *answer)
        return ended (task->path, status, error);
    text_tame (answer->error.text, sizeof answer->error.text);
    text_tame (answer->why, sizeof answer->why);
    text_tame (answer->hex, sizeof answer->hex);
    if ((unsigned) answer->error.fault > WM_EUSAGE)
        answer->error.fault = WM_EBATCH;
    if (answer->error.fault && error)
        *error = answer->error;
    return answer->error.fault;
}

/* Removes a folder of imports with all in it; they make no folders there but OpenVINO's.  */
static void remove_folder (const char *folder, int depth)
{
    DIR *list = opendir (folder);
    const struct dirent *entry;
    char path[PATH_MAX];
    while (list && (entry = readdir (list)))
        if (strcmp (entry->d_name, ".") != 0 && strcmp (entry->d_name, "..") != 0 &&
            snprintf (path, sizeof path, "%s/%s", folder, entry->d_name) < (int) sizeof path &&
            unlink (path) && depth)
            remove_folder (path, depth - 1);
    if (list)
        closedir (list);
    rmdir (folder);
}

static bool is_still (int fd, const char *folder)
{
    struct stat ours, there;
    return fstat (fd, &ours) == 0 && stat (folder, &there) == 0 && ours.st_ino == there.st_ino &&
           ours.st_dev == there.st_dev;
}

/* Removes what killed imports to this path left; those that still run hold the lock of theirs.  */
static void sweep (const char *wmm_path)
{
    char folder[PATH_MAX], path[PATH_MAX];
    snprintf (folder, sizeof folder, "%s", wmm_path);
    const char *slash = strrchr (wmm_path, '/'), *base = slash ? slash + 1 : wmm_path;
    const size_t n = strlen (base);
    const char *parent = dirname (folder);
    DIR *list = opendir (parent);
    const struct dirent *entry;
    while (list && (entry = readdir (list))) {
        if (strncmp (entry->d_name, base, n) != 0 ||
            strncmp (entry->d_name + n, ".import-", 8) != 0 ||
            snprintf (path, sizeof path, "%s/%s", parent, entry->d_name) >= (int) sizeof path)
            continue;
        const int fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && flock (fd, LOCK_EX | LOCK_NB) == 0 && is_still (fd, path))
            remove_folder (path, 1);
        if (fd >= 0)
            close (fd);
    }
    if (list)
        closedir (list);
}

/* Makes and locks the folder of an import. -1 and errno.  */
static int folder_make (const char *wmm_path, char folder[PATH_MAX])
{
    for (;;) {
        if (snprintf (folder, PATH_MAX, "%s.import-XXXXXX", wmm_path) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        if (!mkdtemp (folder))
            return -1;
        const int fd = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return -1;
        while (flock (fd, LOCK_EX) && errno == EINTR)
            ;
        if (is_still (fd, folder))
            return fd;
        close (fd); /* a sweep came between */
    }
}

/* Moves what the process made to its place, but only a plain file: a link that was planted there
   would have whoever reads the .wmm read what it leads to.  */
static wm_fault_t take_over (const char *path, const char *wmm, const char *wmm_path,
                             wm_error_t *error)
{
    struct stat status;
    if (lstat (wmm, &status) == 0 && !S_ISREG (status.st_mode))
        return wm_fault (error, WM_EBATCH,
                         "%.300s: its import left no plain file but a link or the like: the file "
                         "is hostile; nothing was made of it",
                         path);
    if (rename (wmm, wmm_path) || wm_folder_sync_parent (wmm_path))
        return wm_file_unwritten (wmm_path, errno, error);
    return WM_OK;
}

wm_fault_t wm_import (const char *path, const wm_import_choices_t *choices, const char *wmm_path,
                      char why[480], wm_error_t *error)
{
    char folder[PATH_MAX], wmm[PATH_MAX];
    answer_t answer = { .error = { .fault = WM_OK } };
    why[0] = 0;
    sweep (wmm_path);
    const int lock = folder_make (wmm_path, folder);
    if (lock < 0)
        return wm_file_unwritten (wmm_path, errno, error);
    const char *slash = strrchr (wmm_path, '/');
    wm_fault_t fault =
        snprintf (wmm, sizeof wmm, "%s/%s", folder, slash ? slash + 1 : wmm_path) < PATH_MAX
            ? WM_OK
            : wm_fault (error, WM_EHOST, "%.300s: the name is too long", wmm_path);
    if (!fault) {
        wm_import_choices_t choice = choices ? *choices : (wm_import_choices_t){ 0 };
        choice.spare = wmm_path;
        const task_t task = { path, &choice, folder, wmm };
        fault = run_apart (&task, &answer, error);
    }
    if (!fault)
        fault = take_over (path, wmm, wmm_path, error);
    snprintf (why, 480, "%s", answer.why);
    remove_folder (folder, 1);
    close (lock);
    return fault;
}

wm_fault_t wm_import_sha256 (const char *path, const wm_import_choices_t *choices, char hex[65],
                             bool *alone, wm_error_t *error)
{
    const task_t task = { path, choices, NULL, NULL };
    answer_t answer = { .error = { .fault = WM_OK } };
    const wm_fault_t fault = run_apart (&task, &answer, error);
    if (!fault)
        snprintf (hex, 65, "%s", answer.hex);
    if (!fault && strspn (hex, "0123456789abcdef") != 64)
        return wm_fault (error, WM_EBATCH, "%.300s: its import answered nonsense", path);
    if (alone)
        *alone = answer.alone;
    return fault;
}
