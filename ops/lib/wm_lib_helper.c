/* wm_lib_helper.c - starts the helper process of a client, and reads its first report.

   The program that has the library must notice nothing of it: the process that is spawned here only
   starts the helper and ends, so that no child is left to wait for; it leads a session of its own,
   so that a terminal's Ctrl-C does not reach it; its standard descriptors are /dev/null.  */
#include "ops/lib/wm_lib_private.h"
#include "schema/wm_limits.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "wiremill-producer"
#define VARIABLE "WM_CLIENT_PROGRAM"
#define START_MS 20000 /* for the process to begin, above the patience with its broker */

extern char **environ;

/* What is given, or its variable names; beside the library; in PATH.  */
static void locate (const char *given, char path[PATH_MAX])
{
    static const char *const places[] = { "", "../bin/", "../../bin/" };
    const char *named = given ? given : getenv (VARIABLE);
    Dl_info here;
    char file[PATH_MAX], *slash = NULL;
    if (named && *named) {
        snprintf (path, PATH_MAX, "%s", named);
        return;
    }
    if (dladdr (places, &here) && realpath (here.dli_fname, file))
        slash = strrchr (file, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        slash[1] = 0;
        snprintf (path, PATH_MAX, "%.4000s%s%s", file, places[i], PROGRAM);
        if (access (path, X_OK) == 0)
            return;
    }
    snprintf (path, PATH_MAX, "%s", PROGRAM);
}

/* Spawns with `fd` as its descriptor WM_LIBRARY_FD. Returns an errno.  */
static int spawn (const char *path, char *const argv[], int fd)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    pid_t pid;
    int status, rc = posix_spawn_file_actions_init (&actions);
    if (rc)
        return rc;
    if ((rc = posix_spawnattr_init (&attributes))) {
        posix_spawn_file_actions_destroy (&actions);
        return rc;
    }
    sigemptyset (&none);
    sigfillset (&all);
    posix_spawnattr_setsigmask (&attributes, &none);
    posix_spawnattr_setsigdefault (&attributes, &all);
    posix_spawnattr_setflags (
        &attributes, (short) (POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID));
    if (!(rc = posix_spawn_file_actions_adddup2 (&actions, fd, WM_LIBRARY_FD)) &&
        !(rc = posix_spawn_file_actions_addopen (&actions, 0, "/dev/null", O_RDWR, 0)) &&
        !(rc = posix_spawn_file_actions_adddup2 (&actions, 0, 1)) &&
        !(rc = posix_spawn_file_actions_adddup2 (&actions, 0, 2)))
        rc = posix_spawnp (&pid, path, &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy (&actions);
    posix_spawnattr_destroy (&attributes);
    /* The program may wait for all of its children, and have had this one (ECHILD).  */
    while (!rc && waitpid (pid, &status, 0) < 0 && errno == EINTR) {
    }
    return rc;
}

/* Reads `bytes` before the clock reaches until_ms. Returns an errno; EPIPE: the helper ended.  */
static int read_until (int fd, void *to, size_t bytes, int64_t until_ms)
{
    for (uint8_t *at = to; bytes;) {
        struct pollfd item = { .fd = fd, .events = POLLIN };
        const int64_t left = until_ms - wm_now_ms ();
        if (left <= 0)
            return ETIMEDOUT;
        if (poll (&item, 1, left < INT_MAX ? (int) left : INT_MAX) < 0 && errno != EINTR)
            return errno;
        const ssize_t n = recv (fd, at, bytes, MSG_DONTWAIT);
        if (n > 0)
            at += n, bytes -= (size_t) n;
        else if (n == 0)
            return EPIPE;
        else if (errno != EAGAIN && errno != EINTR)
            return errno == ECONNRESET ? EPIPE : errno;
    }
    return 0;
}

static wm_fault_t read_failed (int fd, const wm_library_frame_t *frame, int64_t until_ms,
                               wm_error_t *error)
{
    char text[sizeof error->text] = "";
    const size_t bytes = frame->bytes < sizeof text ? frame->bytes : sizeof text - 1;
    read_until (fd, text, bytes, until_ms);
    return wm_fault (error, (wm_fault_t) frame->n, "%s", text);
}

static wm_fault_t read_ready (int fd, const char *path, int64_t until_ms, wm_library_facts_t *facts,
                              char (**labels)[WM_LIBRARY_LABEL_BYTES], wm_error_t *error)
{
    wm_library_frame_t frame;
    int rc = read_until (fd, &frame, sizeof frame, until_ms);
    if (!rc && frame.type == WM_LIBRARY_FAILED)
        return read_failed (fd, &frame, until_ms, error);
    if (!rc && (frame.type != WM_LIBRARY_READY || frame.bytes < sizeof *facts))
        rc = EPROTO;
    if (!rc)
        rc = read_until (fd, facts, sizeof *facts, until_ms);
    if (!rc && facts->is_ragged)
        return wm_fault (error, WM_EUSAGE,
                         "the model %.12s at this broker has free dimensions: libwiremill takes "
                         "patches of one size; send requests to wiremill gateway instead, or "
                         "export the model with fixed sizes",
                         facts->model);
    if (!rc && facts->is_exact)
        return wm_fault (error, WM_EUSAGE,
                         "the model %.12s at this broker has types that float32 does not hold, and "
                         "was imported to keep them (--exact-types): libwiremill sends float32; "
                         "send requests to wiremill gateway instead",
                         facts->model);
    const size_t bytes = (size_t) frame.bytes - sizeof *facts,
                 n_label = facts->n_output <= WM_OUTPUTS_MAX ? facts->n_output : 0;
    if (!rc && (!facts->n_value || !facts->n_output || facts->n_output > WM_ANSWER_VALUES_MAX ||
                facts->n_dim > WM_LIBRARY_DIMS_MAX || bytes != n_label * WM_LIBRARY_LABEL_BYTES))
        rc = EPROTO;
    if (!rc && !(*labels = malloc (bytes + 1)))
        rc = ENOMEM;
    if (!rc)
        rc = read_until (fd, *labels, bytes, until_ms);
    if (!rc)
        return WM_OK;
    free (*labels);
    *labels = NULL;
    return wm_fault (error, WM_EHOST,
                     "the helper of libwiremill, %.200s, %s; set " VARIABLE " to the " PROGRAM
                     " of this release",
                     path,
                     rc == EPIPE    ? "cannot be started, or ended at once"
                     : rc == EPROTO ? "is of another release"
                                    : strerror (rc));
}

wm_fault_t wm_lib_helper_start (const char *helper, const char *broker, const char *join_file,
                                uint32_t patience_ms, int *fd, wm_library_facts_t *facts,
                                char (**labels)[WM_LIBRARY_LABEL_BYTES], wm_error_t *error)
{
    char path[PATH_MAX], of[16], patience[24];
    int pair[2];
    locate (helper, path);
    snprintf (of, sizeof of, "%ld", (long) getpid ());
    snprintf (patience, sizeof patience, "%.3fs", patience_ms / 1e3);
    const char *argv[] = { PROGRAM,    "client",    "--of",
                           of,         "--give-up", patience,
                           "--broker", broker,      join_file ? "--join-file" : NULL,
                           join_file,  NULL };
    *labels = NULL;
    if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
        return wm_fault (error, WM_EHOST, "no sockets for the helper of libwiremill: %s",
                         strerror (errno));
    const int rc = spawn (path, (char *const *) (uintptr_t) argv, pair[1]);
    close (pair[1]);
    wm_fault_t fault =
        rc ? wm_fault (error, WM_EHOST,
                       "the helper of libwiremill, %.200s, cannot be started: %s; put " PROGRAM
                       " into PATH, or set " VARIABLE " to it",
                       path, strerror (rc))
           : read_ready (pair[0], path, wm_now_ms () + patience_ms + START_MS, facts, labels,
                         error);
    if (fault)
        close (pair[0]);
    else
        *fd = pair[0];
    return fault;
}
