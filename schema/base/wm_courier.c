/* wm_courier.c - see wm_courier.h. A question is a byte, the number of a file; an answer is an
   errno, and with 0 the descriptor comes along.  */
#include "schema/base/wm_courier.h"
#include "schema/base/wm_process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const char *file[WM_COURIER_FILES_MAX];
static size_t n_file;
static int to_courier = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE (sizeof (int))];
} control_t;

/* ---- the courier ----------------------------------------------------------------------------- */

/* false: nobody listens any more.  */
static bool answer (int to, const char *path)
{
    const int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int failed = fd < 0 ? errno : 0;
    control_t control = { .header = { .cmsg_level = SOL_SOCKET,
                                      .cmsg_type = SCM_RIGHTS,
                                      .cmsg_len = CMSG_LEN (sizeof fd) } };
    memcpy (CMSG_DATA (&control.header), &fd, sizeof fd);
    struct iovec part = { &failed, sizeof failed };
    const struct msghdr msg = { .msg_iov = &part,
                                .msg_iovlen = 1,
                                .msg_control = failed ? NULL : control.bytes,
                                .msg_controllen = failed ? 0 : sizeof control.bytes };
    const bool is_sent = sendmsg (to, &msg, MSG_NOSIGNAL) == (ssize_t) sizeof failed;
    if (fd >= 0)
        close (fd);
    return is_sent;
}

static void __attribute__ ((noreturn)) serve (int from)
{
    static const int passed_over[] = { SIGINT, SIGTERM, SIGHUP }; /* those of a whole terminal */
    unsigned char which;
    wm_process_follow (0, SIGKILL); /* if it has ended, nobody asks */
    prctl (PR_SET_NAME, "wm-courier");
    for (size_t i = 0; i < sizeof passed_over / sizeof *passed_over; i++)
        signal (passed_over[i], SIG_IGN);
    if (dup2 (from, STDERR_FILENO + 1) < 0)
        _exit (1);
    close_range (STDERR_FILENO + 2, ~0u, 0); /* logs, lists and locks are not its own */
    while (recv (STDERR_FILENO + 1, &which, 1, 0) == 1 && which < n_file &&
           answer (STDERR_FILENO + 1, file[which]))
        ;
    _exit (0);
}

/* ---- who asks -------------------------------------------------------------------------------- */

wm_fault_t wm_courier_start (const char *const *path, size_t n, wm_error_t *error)
{
    int ends[2];
    assert (n <= WM_COURIER_FILES_MAX && to_courier < 0);
    if (socketpair (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return wm_fault (error, WM_EHOST, "no sockets for the courier of files: %s",
                         strerror (errno));
    memcpy (file, path, n * sizeof *path);
    n_file = n;
    const pid_t pid = fork ();
    if (pid == 0)
        serve (ends[1]);
    const int failed = errno;
    close (ends[1]);
    if (pid > 0) {
        to_courier = ends[0];
        return WM_OK;
    }
    close (ends[0]);
    return wm_fault (error, WM_EHOST, "no process for the courier of files: %s", strerror (failed));
}

static int ask (unsigned char which)
{
    int failed = EPIPE, fd = -1;
    control_t control;
    struct iovec part = { &failed, sizeof failed };
    struct msghdr msg = { .msg_iov = &part,
                          .msg_iovlen = 1,
                          .msg_control = control.bytes,
                          .msg_controllen = sizeof control.bytes };
    ssize_t sent, got = -1;
    do
        sent = send (to_courier, &which, 1, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    while (sent == 1 && (got = recvmsg (to_courier, &msg, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (got != (ssize_t) sizeof failed)
        failed = EPIPE;
    else if (!failed && msg.msg_controllen >= sizeof (struct cmsghdr))
        memcpy (&fd, CMSG_DATA (CMSG_FIRSTHDR (&msg)), sizeof fd);
    if (fd < 0)
        errno = failed ? failed : EPIPE;
    return fd;
}

int wm_courier_open (const char *path, int flags)
{
    for (size_t i = 0; i < n_file && to_courier >= 0; i++) {
        if (strcmp (file[i], path) != 0)
            continue;
        pthread_mutex_lock (&lock);
        const int fd = ask ((unsigned char) i), failed = errno;
        pthread_mutex_unlock (&lock);
        errno = failed;
        return fd;
    }
    return open (path, flags);
}
