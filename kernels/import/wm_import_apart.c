/* wm_import_apart.c - imports a model in a process of its own, from which everything is taken that
   an import does not need (schema/confine/wm_confine.h): a hostile file can at worst spoil the .wmm
   that is made of it.

   The process is a fork: the engines' libraries are where they are, and it starts in a millisecond.
   It may read the model, the files beside it and the engines; it may write in a folder that was
   made for it, PLACE.import-XXXXXX, from which the caller renames the .wmm. It answers through a
   socket when it has read the model, and waits for the caller's word, on which it makes the .wmm
   and answers again. An answer is checked as that of a stranger. Each answer and the end of the
   process have a deadline. The process dies with the caller.
   A folder that a killed import left is swept by the next import to that place.  */
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

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CPU_S_MAX 3600 /* of an import; the largest known take a minute */
#define END_MS_MIN 3000 /* also with WM_TIME_SCALE: a loaded machine ends a process late */

struct wm_import {
    const char *path;
    char folder[PATH_MAX]; /* the process may write there; "": nowhere */
    char wmm[PATH_MAX + NAME_MAX + 2]; /* in it */
    int lock;              /* on the folder */
    int unmade;            /* errno: why there is no folder */
    int end;               /* of the socket to the process */
    pid_t pid;             /* 0: it has ended */
    int64_t late_ms;       /* so long it was waited for, and then killed; 0: it was not late */
};

/* What the process sends: as a packet, so that it comes whole or not at all.  */
typedef struct {
    wm_error_t error; /* fault WM_OK: none */
    char why[480], hex[65];
    bool alone;
} answer_t;

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

static void confine (const wm_import_t *self)
{
    const struct rlimit cpu = { CPU_S_MAX, CPU_S_MAX },
                        file = { 2ul * WM_MODEL_BYTES_MAX, 2ul * WM_MODEL_BYTES_MAX };
    char path[PATH_MAX];
    wm_confine_files_t *files = wm_confine_files_new ();
    read_engines (files);
    snprintf (path, sizeof path, "%s", self->path);
    for (int i = 0; i < WM_PATH_LINKS_MAX && (i == 0 || wm_path_follow (path)); i++) {
        wm_confine_files_beside (files, path);
        wm_confine_files_links (files, path);
    }
    if (*self->folder)
        wm_confine_files_scratch (files, self->folder); /* OpenVINO is given a link there */
    wm_confine_files_apply (&files);
    setrlimit (RLIMIT_CPU, &cpu);
    setrlimit (RLIMIT_FSIZE, &file);
    wm_confine_calls ("the import of a model", WM_CONFINE_NO_NET);
}

/* Makes the .wmm if the caller wants it.  */
static void go_on (const wm_import_t *self, wm_import_original_t *original, int end,
                   answer_t *answer)
{
    char word;
    const ssize_t n = TEMP_FAILURE_RETRY (read (end, &word, sizeof word));
    if (n != sizeof word)
        _exit (0);
    if (*wm_confine_lacks ())
        fprintf (stderr,
                 "warning: a hostile model is not fully confined on this machine: %s; see "
                 "`wiremill help confinement`\n",
                 wm_confine_lacks ());
    answer->error.fault =
        wm_import_original_write (original, self->wmm, answer->why, &answer->error);
}

static void __attribute__ ((noreturn))
be_apart (const wm_import_t *self, const wm_import_choices_t *choices, const char *place, int end,
          pid_t parent)
{
    answer_t answer = { .error = { .fault = WM_OK } };
    wm_import_original_t original = { .alone = false };
    wm_process_name ("wm-import");
    if (!wm_process_follow (parent, SIGKILL))
        _exit (1);
    if (strncmp (self->path, "/dev/fd/", 8) != 0 && strncmp (self->path, "/proc/", 6) != 0 &&
        dup2 (end, STDERR_FILENO + 1) >= 0) { /* the campaign's lock, sockets, logs */
        end = STDERR_FILENO + 1;
        close_range ((unsigned) end + 1, ~0u, 0);
    } else
        close (self->end);
    if (*self->folder)
        setenv ("TMPDIR", self->folder, 1);
    confine (self);
    answer.error.fault =
        wm_import_original_open (&original, self->path, choices, place, &answer.error);
    answer.alone = original.alone;
    sodium_bin2hex (answer.hex, sizeof answer.hex, original.sha256, sizeof original.sha256);
    if (!answer.error.fault && write (end, &answer, sizeof answer) == (ssize_t) sizeof answer)
        go_on (self, &original, end, &answer);
    _exit (write (end, &answer, sizeof answer) != (ssize_t) sizeof answer);
}

/* ---- in the caller --------------------------------------------------------------------------- */

static int64_t end_ms (void)
{
    const int64_t ms = wm_times ()->silence_ms;
    return ms > END_MS_MIN ? ms : END_MS_MIN;
}

/* Waits until the process, which has no more to do, has ended, or kills it when it is late. Returns
   its status.  */
static int reap (wm_import_t *self)
{
    const int64_t until = wm_now_ms () + end_ms ();
    const struct timespec pause = { .tv_nsec = 1000000 };
    int status = 0;
    close (self->end);
    while (TEMP_FAILURE_RETRY (waitpid (self->pid, &status, self->late_ms ? 0 : WNOHANG)) == 0) {
        if (wm_now_ms () >= until) {
            self->late_ms = end_ms ();
            kill (self->pid, SIGKILL);
        }
        nanosleep (&pause, NULL);
    }
    self->pid = 0;
    return status;
}

static wm_fault_t late (const wm_import_t *self, const char *what, wm_error_t *error)
{
    return wm_fault (error, WM_EBATCH,
                     "%.300s: its import %s within %lld s, and was killed: the file is damaged, or "
                     "hostile; nothing was made of it",
                     self->path, what, (long long) (self->late_ms + 999) / 1000);
}

/* Nothing of a stranger's text is believed but that it is text.  */
static void text_tame (char *text, size_t bytes)
{
    text[bytes - 1] = 0;
    wm_log_sanitize (text);
}

static wm_fault_t ended (wm_import_t *self, wm_error_t *error)
{
    const char *path = self->path;
    const bool silent = self->late_ms;
    const int status = reap (self);
    const int number = WIFSIGNALED (status) ? WTERMSIG (status) : 0;
    if (self->late_ms)
        return late (self, silent ? "gave no answer" : "did not end", error);
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

static wm_fault_t start (wm_import_t *self, const wm_import_choices_t *choices, const char *place,
                         wm_error_t *error)
{
    int ends[2];
    if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return wm_fault (error, WM_EHOST, "%.300s: no pipe for its import: %s", self->path,
                         strerror (errno));
    const pid_t parent = getpid ();
    self->end = ends[0];
    fflush (NULL);
    const pid_t pid = fork ();
    if (pid == 0)
        be_apart (self, choices, place, ends[1], parent);
    const int saved = errno;
    close (ends[1]);
    self->pid = pid > 0 ? pid : 0;
    if (pid > 0)
        return WM_OK;
    close (self->end);
    return wm_fault (error, WM_EHOST, "%.300s: no process for its import: %s", self->path,
                     strerror (saved));
}

/* Waits for an answer of the process, which is killed when it is late.  */
static wm_fault_t hear (wm_import_t *self, answer_t *answer, wm_error_t *error)
{
    const int64_t until = wm_now_ms () + wm_times ()->import_ms;
    struct pollfd from = { .fd = self->end, .events = POLLIN };
    int64_t left;
    while ((left = until - wm_now_ms ()) > 0 && poll (&from, 1, (int) left) <= 0)
        ;
    if (left <= 0) {
        self->late_ms = wm_times ()->import_ms;
        kill (self->pid, SIGKILL);
        return ended (self, error);
    }
    const ssize_t n = TEMP_FAILURE_RETRY (read (self->end, answer, sizeof *answer));
    if (n != (ssize_t) sizeof *answer)
        return ended (self, error);
    text_tame (answer->error.text, sizeof answer->error.text);
    text_tame (answer->why, sizeof answer->why);
    text_tame (answer->hex, sizeof answer->hex);
    if ((unsigned) answer->error.fault > WM_EUSAGE)
        answer->error.fault = WM_EBATCH;
    if (answer->error.fault && error)
        *error = answer->error;
    return answer->error.fault;
}

/* Removes what killed imports to this place left; those that still run hold the lock of theirs.  */
static void sweep (const char *place)
{
    char folder[PATH_MAX], path[PATH_MAX];
    snprintf (folder, sizeof folder, "%s", place);
    const char *slash = strrchr (place, '/'), *base = slash ? slash + 1 : place;
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
        if (fd >= 0 && flock (fd, LOCK_EX | LOCK_NB) == 0 && wm_file_is_still (fd, path))
            wm_folder_remove (path);
        if (fd >= 0)
            close (fd);
    }
    if (list)
        closedir (list);
}

/* Makes and locks the folder of an import. -1 and errno.  */
static int folder_make (const char *place, char folder[PATH_MAX])
{
    for (;;) {
        if (snprintf (folder, PATH_MAX, "%s.import-XXXXXX", place) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        if (!mkdtemp (folder))
            return -1;
        const int fd = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            return -1;
        TEMP_FAILURE_RETRY (flock (fd, LOCK_EX));
        if (wm_file_is_still (fd, folder))
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

/* Makes the folder that the process may write in. A model that is known already needs none, so that
   a fault is reported by wm_import_make.  */
static void make_place (wm_import_t *self, const char *place)
{
    const char *slash = strrchr (place, '/');
    sweep (place);
    self->lock = folder_make (place, self->folder);
    self->unmade = errno;
    if (self->lock < 0)
        *self->folder = 0;
    snprintf (self->wmm, sizeof self->wmm, "%s/%.*s", self->folder, NAME_MAX,
              slash ? slash + 1 : place);
}

wm_import_t *wm_import_open (const char *path, const wm_import_choices_t *choices,
                             const char *place, char hex[65], bool *alone, wm_error_t *error)
{
    answer_t answer = { .error = { .fault = WM_OK } };
    wm_import_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "%.300s: no memory for its import", path);
        return NULL;
    }
    self->path = path;
    self->lock = -1;
    if (place)
        make_place (self, place);
    wm_fault_t fault = start (self, choices, place, error);
    if (!fault)
        fault = hear (self, &answer, error);
    if (!fault && strspn (answer.hex, "0123456789abcdef") != 64)
        fault = wm_fault (error, WM_EBATCH, "%.300s: its import answered nonsense", path);
    snprintf (hex, 65, "%s", answer.hex);
    if (alone)
        *alone = answer.alone;
    if (fault)
        wm_import_destroy (&self);
    return self;
}

wm_fault_t wm_import_make (wm_import_t *self, const char *wmm_path, char why[480],
                           wm_error_t *error)
{
    answer_t answer = { .error = { .fault = WM_OK } };
    why[0] = 0;
    if (!*self->folder)
        return wm_file_unwritten (wmm_path, self->unmade, error);
    (void) send (self->end, "", 1, MSG_NOSIGNAL); /* it has ended: hear reports that */
    wm_fault_t fault = hear (self, &answer, error);
    if (self->pid)
        reap (self); /* so that it changes nothing any more */
    if (!fault && self->late_ms)
        fault = late (self, "answered, but did not end", error);
    if (!fault)
        fault = take_over (self->path, self->wmm, wmm_path, error);
    snprintf (why, 480, "%s", answer.why);
    return fault;
}

void wm_import_destroy (wm_import_t **self_p)
{
    wm_import_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    if (self->pid)
        reap (self);
    if (*self->folder)
        wm_folder_remove (self->folder);
    if (self->lock >= 0)
        close (self->lock);
    free (self);
}

wm_fault_t wm_import (const char *path, const wm_import_choices_t *choices, const char *wmm_path,
                      char why[480], wm_error_t *error)
{
    char hex[65];
    wm_error_t own;
    error = error ? error : &own;
    why[0] = 0;
    wm_import_t *self = wm_import_open (path, choices, wmm_path, hex, NULL, error);
    const wm_fault_t fault = self ? wm_import_make (self, wmm_path, why, error) : error->fault;
    wm_import_destroy (&self);
    return fault;
}
