/* wm_file_opener.c - see wm_file_opener.h.

   Courier and spare share one end of the socket, so that it stays open while either lives. A
   question stays in the socket until its answer is sent: the next courier finds there what the last
   one has not answered. It may find a question whose answer was sent, too, so questions are
   numbered, and what answers another number is passed over: one that was sent twice, or too late.

   Between the two is a pair of sockets that nothing is sent through: its end is how each learns of
   the other's death.  */
#include "schema/confine/wm_file_opener.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RETRY_MS 1000 /* where no process can be made for the spare */

static const char *file[WM_FILE_OPENER_FILES_MAX];
static size_t n_file;
static int to_courier = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
    uint32_t number;
    uint32_t which; /* file */
} question_t;

typedef struct {
    uint32_t number;
    int failed; /* an errno; with 0 the descriptor comes along */
} answer_t;

typedef union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE (sizeof (int))];
} control_t;

/* ---- the courier ----------------------------------------------------------------------------- */

static void answer (int to, const question_t *question)
{
    const int fd = open (file[question->which], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    answer_t text = { question->number, fd < 0 ? errno : 0 };
    control_t control = { .header = { .cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS,
                                      .cmsg_len = CMSG_LEN (sizeof fd) } };
    memcpy (CMSG_DATA (&control.header), &fd, sizeof fd);
    struct iovec part = { &text, sizeof text };
    const struct msghdr msg = { .msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = fd < 0 ? NULL : control.bytes,
                                .msg_controllen = fd < 0 ? 0 : sizeof control.bytes };
    sendmsg (to, &msg, MSG_NOSIGNAL); /* a failure shows in the next recv */
    if (fd >= 0)
        close (fd);
}

/* Answers the question that is first in the socket. false: the process that asks has ended.  */
static bool answer_next (int from)
{
    question_t question;
    if (recv (from, &question, sizeof question, MSG_PEEK) != sizeof question ||
        question.which >= n_file)
        return false;
    WM_FAILPOINT ("courier-asked");
    answer (from, &question);
    WM_FAILPOINT ("courier-answered");
    return recv (from, &question, sizeof question, 0) == sizeof question;
}

/* Forks a spare. Returns this end of the pair, or -1: the fork failed. In the spare it returns,
   with -1, when the courier has ended.  */
static int spare_new (pid_t *spare)
{
    int pair[2];
    char nothing;
    *spare = -1;
    if (socketpair (AF_UNIX, SOCK_STREAM, 0, pair))
        return -1;
    *spare = fork ();
    if (*spare > 0) {
        close (pair[1]);
        return pair[0];
    }
    close (pair[0]);
    if (*spare == 0) {
        wm_process_name (WM_FILE_OPENER_SPARE);
        TEMP_FAILURE_RETRY (recv (pair[1], &nothing, 1, 0));
        wm_process_name (WM_FILE_OPENER_NAME);
    }
    close (pair[1]);
    return -1;
}

/* A courier that was a spare has one in its turn, before it answers anything; but where the process
   that asks has ended, it makes none.  */
static void __attribute__ ((noreturn)) serve (int from)
{
    static const int passed_over[] = { SIGINT, SIGTERM, SIGHUP }; /* those of a whole terminal */
    pid_t spare = 0;
    for (size_t i = 0; i < sizeof passed_over / sizeof *passed_over; i++)
        signal (passed_over[i], SIG_IGN);
    if (dup2 (from, STDERR_FILENO + 1) < 0)
        _exit (1);
    close_range (STDERR_FILENO + 2, ~0u, 0); /* logs, lists and locks are not its own */
    wm_process_name (WM_FILE_OPENER_NAME);
    struct pollfd item[] = { { .fd = STDERR_FILENO + 1, .events = POLLIN }, { .fd = -1 } };
    for (;;) {
        item[1].revents = 0;
        if (poll (item, 2, item[1].fd >= 0 ? -1 : spare ? RETRY_MS : 0) < 0)
            continue;
        if (item[0].revents & ~POLLIN)
            _exit (0);
        if (item[1].revents) { /* the spare was killed */
            close (item[1].fd);
            item[1].fd = -1;
            TEMP_FAILURE_RETRY (waitpid (spare, NULL, 0));
        }
        if (item[1].fd < 0 && (item[1].fd = spare_new (&spare)) < 0 && !spare)
            continue; /* this was the spare */
        if (item[0].revents && !answer_next (item[0].fd))
            _exit (0);
    }
}

/* ---- the process that asks --------------------------------------------------------------- */

/* Makes the courier, which is no child of this process: it would stay a zombie when it is killed.
   0, or errno.  */
static int begin (int from)
{
    int status;
    const pid_t pid = fork ();
    if (pid == 0) {
        const pid_t courier = fork ();
        if (courier == 0)
            serve (from);
        _exit (courier < 0 ? errno : 0);
    }
    if (pid < 0)
        return errno;
    if (TEMP_FAILURE_RETRY (waitpid (pid, &status, 0)) < 0)
        return errno;
    return WIFEXITED (status) ? WEXITSTATUS (status) : EAGAIN;
}

wm_fault_t wm_file_opener_start (const char *const *path, size_t n, int64_t patience_ms,
                                 wm_error_t *error)
{
    const struct timeval patience = { patience_ms / 1000, patience_ms % 1000 * 1000 };
    int ends[2];
    assert (n <= WM_FILE_OPENER_FILES_MAX && to_courier < 0);
    if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return wm_fault (error, WM_EHOST, "no sockets for the courier of files: %s",
                         strerror (errno));
    setsockopt (ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt (ends[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    memcpy (file, path, n * sizeof *path);
    n_file = n;
    const int failed = begin (ends[1]);
    close (ends[1]);
    if (!failed) {
        to_courier = ends[0];
        return WM_OK;
    }
    close (ends[0]);
    return wm_fault (error, WM_EHOST, "no process for the courier of files: %s", strerror (failed));
}

/* Courier and spare were killed: they are a part of this process, which nothing can give it again
   once it is confined. It ends as they did; what has started it starts it again.  */
static void __attribute__ ((noreturn)) end (void)
{
    static const char text[] =
        "error: the processes " WM_FILE_OPENER_NAME " and " WM_FILE_OPENER_SPARE
        ", which open endpoint.json and join files for this one, were both "
        "killed: it ends as they did, and continues when it is started "
        "again\n";
    const ssize_t n = write (STDERR_FILENO, text, sizeof text - 1);
    (void) n;
    raise (SIGKILL);
    _exit (1);
}

/* Receives an answer, and its descriptor or -1. false: no answer has come yet. If none can come any
   more, this process ends.  */
static bool hear (answer_t *text, int *fd)
{
    control_t control;
    struct iovec part = { text, sizeof *text };
    struct msghdr msg = { .msg_iov = &part,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = sizeof control.bytes };
    const ssize_t got = TEMP_FAILURE_RETRY (recvmsg (to_courier, &msg, MSG_CMSG_CLOEXEC));
    *fd = -1;
    if (got == (ssize_t) sizeof *text && msg.msg_controllen >= sizeof (struct cmsghdr))
        memcpy (fd, CMSG_DATA (CMSG_FIRSTHDR (&msg)), sizeof *fd);
    if (got != (ssize_t) sizeof *text && (got >= 0 || errno != EAGAIN))
        end ();
    return got >= 0;
}

static int ask (uint32_t which)
{
    static uint32_t number;
    const question_t question = { ++number, which };
    answer_t text;
    int fd = -1;
    const ssize_t sent =
        TEMP_FAILURE_RETRY (send (to_courier, &question, sizeof question, MSG_NOSIGNAL));
    if (sent != (ssize_t) sizeof question && errno != EAGAIN)
        end ();
    do {
        if (fd >= 0) /* that of a courier which was killed when it had answered, or was late */
            close (fd);
        if (sent < 0 || !hear (&text, &fd)) {
            errno = ETIMEDOUT;
            return -1;
        }
    } while (text.number != question.number);
    if (fd < 0) /* EMFILE: it could not be received */
        errno = text.failed ? text.failed : EMFILE;
    return fd;
}

int wm_file_opener_open (const char *path, int flags)
{
    for (size_t i = 0; i < n_file && to_courier >= 0; i++) {
        if (strcmp (file[i], path) != 0)
            continue;
        pthread_mutex_lock (&lock);
        const int fd = ask ((uint32_t) i), failed = errno;
        pthread_mutex_unlock (&lock);
        errno = failed;
        return fd;
    }
    return open (path, flags);
}
