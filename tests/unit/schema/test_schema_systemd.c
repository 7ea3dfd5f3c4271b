/* test_schema_systemd.c - what a socket of systemd is told, by path and in the abstract namespace,
   and that nothing waits for it.  */
#include "schema/base/wm_systemd.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int make_socket (const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const size_t n = strlen (path);
    memcpy (address.sun_path, path, n);
    if (*path == '@')
        address.sun_path[0] = 0;
    const int fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal (bind (fd, (const struct sockaddr *) &address,
                            (socklen_t) (offsetof (struct sockaddr_un, sun_path) + n)),
                      0);
    return fd;
}

static void heard (int fd, const char *wanted)
{
    char text[2048];
    const ssize_t n = recv (fd, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = 0;
    assert_string_equal (text, wanted);
}

/* Each in a process of its own, which exits with what `check` returns: the module is begun once. */
static void in_child (int (*check) (void), const char *path)
{
    int status;
    const pid_t pid = fork ();
    if (pid == 0) {
        setenv ("NOTIFY_SOCKET", path, 1);
        _exit (check ());
    }
    assert_int_equal (waitpid (pid, &status, 0), pid);
    assert_int_equal (status, 0);
}

static int serve (void)
{
    setenv ("WATCHDOG_USEC", "1000000", 1);
    wm_systemd_start ();
    if (getenv ("NOTIFY_SOCKET") || getenv ("WATCHDOG_USEC") || getenv ("WATCHDOG_PID"))
        return 1;
    wm_systemd_status ("waits for\nroom");
    for (int ms = 0; ms < 1000; ms++) /* at 0 and 500: half of the watchdog's time */
        if (wm_systemd_is_due (ms))
            wm_systemd_serves (ms ? "later" : "serves");
    wm_systemd_stops ();
    return 0;
}

static void it_hears_each_state (void **state)
{
    char folder[] = "/tmp/test-systemd-XXXXXX", path[64];
    assert_non_null (mkdtemp (folder));
    for (int abstract = 0; abstract < 2; abstract++) {
        snprintf (path, sizeof path, "%s%s/s", abstract ? "@" : "", folder);
        const int fd = make_socket (path);
        in_child (serve, path);
        heard (fd, "STATUS=waits for?room\n");
        heard (fd, "READY=1\nWATCHDOG=1\nSTATUS=serves\n");
        heard (fd, "READY=1\nWATCHDOG=1\nSTATUS=later\n");
        heard (fd, "STOPPING=1\nSTATUS=stops\n");
        heard (fd, "");
        close (fd);
    }
    unlink (path + 1);
    rmdir (folder);
}

static int serve_on (void)
{
    setenv ("WATCHDOG_USEC", "1000000", 1);
    setenv ("WATCHDOG_PID", "1", 1); /* another process feeds it */
    wm_systemd_start ();
    int n = 0;
    for (int ms = 0; ms < 4000; ms++)
        n += wm_systemd_is_due (ms);
    for (int i = 0; i < 100000; i++) /* nobody reads: this must not wait */
        wm_systemd_serves ("x");
    return n == 2 ? 0 : 1;
}

static void it_waits_for_nobody (void **state)
{
    char path[64];
    snprintf (path, sizeof path, "@wiremill-test-%d", getpid ());
    const int fd = make_socket (path);
    in_child (serve_on, path);
    close (fd);
    in_child (serve_on, path); /* nobody is there any more */
}

static int serve_nobody (void)
{
    wm_systemd_start ();
    wm_systemd_serves ("x");
    return wm_systemd_is_due (0) ? 1 : 0;
}

static void other_places_are_passed_over (void **state)
{
    char path[200];
    memset (path, 'x', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = 0;
    in_child (serve_nobody, path);
    in_child (serve_nobody, "vsock:2:1234");
    in_child (serve_nobody, "/");
    in_child (serve_nobody, "");
}

/* Descriptors 3 and 4 are passed, by the names grpc and http.  */
static int take_descriptors (void)
{
    char process[24];
    snprintf (process, sizeof process, "%d", getpid ());
    if (dup2 (1, 3) != 3 || dup2 (1, 4) != 4)
        return 3;
    if (wm_systemd_descriptor ("grpc") != -1)
        return 1;
    setenv ("LISTEN_PID", "1", 1); /* another process */
    setenv ("LISTEN_FDS", "2", 1);
    setenv ("LISTEN_FDNAMES", "grpc:http:more", 1);
    if (wm_systemd_descriptor ("grpc") != -1)
        return 2;
    setenv ("LISTEN_PID", process, 1);
    if (wm_systemd_descriptor ("grpc") != 3 || wm_systemd_descriptor ("http") != 4)
        return 4;
    if (fcntl (3, F_GETFD) != FD_CLOEXEC || fcntl (4, F_GETFD) != FD_CLOEXEC)
        return 5;
    if (wm_systemd_descriptor ("more") != -1 || wm_systemd_descriptor ("htt") != -1 ||
        wm_systemd_descriptor ("") != -1)
        return 6;
    return 0;
}

static void it_takes_descriptors (void **state)
{
    in_child (take_descriptors, "");
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (it_hears_each_state),
        cmocka_unit_test (it_waits_for_nobody),
        cmocka_unit_test (other_places_are_passed_over),
        cmocka_unit_test (it_takes_descriptors),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
