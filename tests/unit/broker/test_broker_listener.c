/* test_broker_listener.c - the addresses that a broker binds: both families, names, interfaces,
   ranges, several at once; and who has a port that is taken.  */
#include "broker/listen/wm_advertise.h"
#include "broker/listen/wm_listener.h"
#include "broker/listen/wm_port.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in v4 (int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons ((uint16_t) port),
                                 .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
}

static bool connects (bool v6, int port)
{
    const struct sockaddr_in four = v4 (port);
    const struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                      .sin6_port = htons ((uint16_t) port),
                                      .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    const int fd = socket (v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    const int failed = v6 ? connect (fd, (const struct sockaddr *) &six, sizeof six)
                          : connect (fd, (const struct sockaddr *) &four, sizeof four);
    close (fd);
    return !failed;
}

static bool has_v6 (void)
{
    const struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    const int fd = socket (AF_INET6, SOCK_STREAM, 0);
    const int failed = bind (fd, (const struct sockaddr *) &six, sizeof six);
    close (fd);
    return !failed;
}

static int occupy (int port)
{
    const struct sockaddr_in here = v4 (port);
    const int fd = socket (AF_INET, SOCK_STREAM, 0);
    return bind (fd, (const struct sockaddr *) &here, sizeof here) || listen (fd, 1) ? -1 : fd;
}

/* Of this test: below those that the system gives out.  */
static int ports (void)
{
    return 12000 + getpid () % 200 * 20;
}

static wm_listener_t *at (const char *format, int first, int last, wm_error_t *error)
{
    char text[200];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf (text, sizeof text, format, first, last);
#pragma GCC diagnostic pop
    return wm_listener_new (text, WM_LISTENER_PLAIN, NULL, WM_FRAME_BYTES_MAX, error);
}

static int base_of (const wm_listener_t *self)
{
    return atoi (strrchr (wm_listener_endpoint (self), ':') + 1);
}

static void test_families (void **state)
{
    wm_error_t error = { 0 };
    wm_listener_t *self = at ("tcp://*:0", 0, 0, &error);
    assert_non_null (self);
    const int any = base_of (self);
    for (int i = 0; i < 3; i++) {
        assert_true (connects (false, any + i));
        assert_true (!has_v6 () || connects (true, any + i));
    }
    assert_non_null (strstr (wm_listener_listens (self), "tcp://*:"));
    assert_memory_equal (wm_listener_endpoint (self), "tcp://127.0.0.1:", 16);
    wm_listener_destroy (&self);

    self = at ("tcp://0.0.0.0:0", 0, 0, &error);
    assert_true (connects (false, base_of (self)) && !connects (true, base_of (self)));
    wm_listener_destroy (&self);
    if (!has_v6 ())
        return;
    self = at ("tcp://[::1]:0", 0, 0, &error);
    assert_true (connects (true, base_of (self)) && !connects (false, base_of (self)));
    assert_memory_equal (wm_listener_endpoint (self), "tcp://[::1]:", 12);
    wm_listener_destroy (&self);
    self = at ("tcp://lo:0", 0, 0, &error); /* an interface: all its addresses */
    assert_true (connects (true, base_of (self) + 2) && connects (false, base_of (self) + 2));
    wm_listener_destroy (&self);
    self = at ("tcp://[::1]:%d,tcp://127.0.0.1:%d", ports (), ports () + 3, &error);
    assert_true (connects (true, ports ()) && !connects (false, ports ()));
    assert_true (connects (false, ports () + 3) && !connects (true, ports () + 3));
    wm_listener_destroy (&self);
}

static void test_range (void **state)
{
    wm_error_t error = { 0 };
    const int first = ports () + 6;
    const int taken = occupy (first + 1);
    assert_true (taken >= 0);
    wm_listener_t *one = at ("tcp://127.0.0.1:%d-%d", first, first + 7, &error);
    assert_non_null (one);
    assert_int_equal (base_of (one), first + 2); /* first and first + 1 leave no three in a row */
    wm_listener_t *two = at ("tcp://127.0.0.1:%d-%d", first, first + 7, &error);
    assert_non_null (two);
    assert_int_equal (base_of (two), first + 5);
    assert_null (at ("tcp://127.0.0.1:%d-%d", first, first + 7, &error));
    assert_int_equal (error.fault, WM_EHOST);
    assert_non_null (strstr (error.text, "no three ports in a row are free"));
    wm_listener_destroy (&two);
    wm_listener_destroy (&one);

    assert_null (at ("tcp://127.0.0.1:%d", first - 1, 0, &error)); /* the operators' */
    char who[WM_PORT_HOLDER_BYTES], wanted[80];
    snprintf (wanted, sizeof wanted, "port %d (operators) is in use: process %d (", first + 1,
              (int) getpid ());
    assert_non_null (strstr (error.text, wanted));
    assert_true (!connects (false, first - 1)); /* nothing stays bound */
    close (taken);
    wm_port_holder (first + 1, who);
    assert_string_equal (who, "another program");
}

static void test_refused (void **state)
{
    static const char *const bad[] = { "ipc:///tmp/wm-never,tcp://0.0.0.0:0", /* needs keys */
                                       "tcp://no.such.host.invalid:1", "file:///a",
                                       "tcp://127.0.0.1:5500-5501" };
    static const char *const keyless[] = { "tcp://*:5500-5600", "tcp://[::]:1",
                                           "tcp://127.0.0.1:0,tcp://0.0.0.0:0" };
    wm_error_t error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal (wm_listener_check (bad[i], WM_LISTENER_AUTO, &error), WM_EHOST);
        assert_null (wm_listener_new (bad[i], WM_LISTENER_AUTO, NULL, WM_FRAME_BYTES_MAX, &error));
        assert_int_equal (error.fault, WM_EHOST);
    }
    for (size_t i = 0; i < sizeof keyless / sizeof *keyless; i++) {
        assert_int_equal (wm_listener_check (keyless[i], WM_LISTENER_AUTO, &error), WM_OK);
        assert_null (
            wm_listener_new (keyless[i], WM_LISTENER_AUTO, NULL, WM_FRAME_BYTES_MAX, &error));
    }
    assert_null (at ("tcp://192.0.2.77:%d", ports (), 0, &error));
    assert_non_null (strstr (error.text, "no interface of this machine has it"));
}

static void test_advertised (void **state)
{
    wm_endpoint_t where;
    char host[128] = "", own[200];
    gethostname (host, sizeof host - 1);
    wm_advertise (&where, "tcp://127.0.0.1:5555", "tcp://*:5555", NULL);
    snprintf (own, sizeof own, "tcp://%s:5555", host);
    assert_string_equal (where.host, host);
    assert_memory_equal (where.advertise, own, strlen (own));
    assert_null (strstr (where.advertise, "*"));
    assert_null (strstr (where.advertise, "127.0.0.1"));
    assert_null (strstr (where.advertise, "[fe80"));
    wm_advertise (&where, "ipc:///b", "ipc:///b,tcp://127.0.0.1:5", NULL);
    assert_string_equal (where.listen, "ipc:///b,tcp://127.0.0.1:5");
    assert_string_equal (where.advertise, "");
    wm_advertise (&where, "ipc:///b", "ipc:///b", "tcp://localhost:5"); /* the end of a tunnel */
    assert_string_equal (where.advertise, "tcp://localhost:5");
    wm_advertise (&where, "tcp://10.0.0.1:5555", "tcp://10.0.0.1:5555",
                  "tcp://gate:7000/7100/7200,tcp://gate.example:80");
    assert_string_equal (where.listen, "tcp://10.0.0.1:5555");
    assert_string_equal (where.advertise, "tcp://gate:7000/7100/7200,tcp://gate.example:80");
}

/* ---- messages without an end ----------------------------------------------------------------- */

#define FRAME (64u << 10) /* the largest */

static int plug (const wm_listener_t *listener)
{
    static const uint8_t greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL",
                         ready[] = "\4\51\5READY\13Socket-Type\0\0\0\6DEALER\10Identity\0\0\0";
    const struct sockaddr_in there = v4 (base_of (listener));
    const int fd = socket (AF_INET, SOCK_STREAM, 0);
    assert_int_equal (connect (fd, (const struct sockaddr *) &there, sizeof there), 0);
    send (fd, greeting, sizeof greeting, MSG_NOSIGNAL);
    send (fd, ready, sizeof ready, MSG_NOSIGNAL);
    return fd;
}

/* Sends a part of a frame whose bytes are 0, as much as there is room for; returns how many it has
   sent of it then, 0: all. -1: the connection is closed.  */
static long send_on (int fd, bool more, long sent)
{
    static uint8_t frame[9 + FRAME];
    memcpy (frame, (uint8_t[9]){ more ? 3 : 2, 0, 0, 0, 0, 0, FRAME >> 16, FRAME >> 8 & 255 }, 9);
    const ssize_t n =
        send (fd, frame + sent, sizeof frame - (size_t) sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN ? sent : -1;
    return (sent + n) % (long) sizeof frame;
}

/* Reads all there is, a round; counts messages.  */
static int read_round (wm_listener_t *self, wm_peer_t **of)
{
    wm_listener_event_t event;
    wm_peer_t *peer;
    int n = 0;
    wm_listener_wait (self, 1);
    while ((event = wm_listener_next (self, &peer)) != WM_LISTENER_NOTHING)
        if (event == WM_LISTENER_MESSAGE) {
            peer->session = 1; /* so that its silence is not this listener's matter */
            *of = peer;
            n++;
        }
    return n;
}

static wm_listener_t *of_small_frames (int *fd, wm_peer_t **peer)
{
    wm_error_t error;
    wm_listener_t *self =
        wm_listener_new ("tcp://127.0.0.1:0", WM_LISTENER_PLAIN, NULL, FRAME, &error);
    assert_non_null (self);
    *fd = plug (self);
    for (ssize_t n = 0, part; n < 64 + 43; n += part > 0 ? part : 0) { /* greeting and READY */
        read_round (self, peer);
        part = recv (*fd, (char[64 + 43]){ 0 }, (size_t) (64 + 43 - n), MSG_DONTWAIT);
        assert_true (part > 0 || (part < 0 && errno == EAGAIN));
    }
    assert_int_equal (send (*fd, "\0\1a", 3, MSG_NOSIGNAL), 3);
    while (!read_round (self, peer))
        assert_int_equal (wm_listener_tick (self, wm_now_ms (), &error), WM_OK);
    return self;
}

/* It is disconnected before it has sent a quarter of a GiB; without the bound it is never.  */
static void test_endless (void **state)
{
    wm_error_t error;
    wm_peer_t *peer;
    int fd;
    wm_listener_t *self = of_small_frames (&fd, &peer);
    long frames = 0;
    for (long sent = 0; sent >= 0; frames += !sent) {
        assert_true (frames < (256 << 20) / FRAME);
        sent = send_on (fd, true, sent);
        read_round (self, &peer);
        assert_int_equal (wm_listener_tick (self, wm_now_ms (), &error), WM_OK);
    }
    assert_true (frames >= 2);
    close (fd);
    wm_listener_destroy (&self);
}

/* Whole messages that wait while the broker does something else are none.  */
static void test_whole (void **state)
{
    enum { N = 100 };
    wm_error_t error;
    wm_peer_t *peer;
    int fd, waiting = 1, n = 0;
    wm_listener_t *self = of_small_frames (&fd, &peer);
    for (int i = 0; i < 5; i++) {
        read_round (self, &peer);
        wm_listener_tick (self, wm_now_ms (), &error);
    }
    for (int i = 0; i < N; i++)
        for (long sent = send_on (fd, false, 0); sent; sent = send_on (fd, false, sent))
            assert_true (sent > 0);
    do
        wm_listener_tick (self, wm_now_ms (), &error);
    while (!ioctl (peer->fd, FIONREAD, &waiting) && waiting);
    for (int i = 0; i < 5; i++)
        wm_listener_tick (self, wm_now_ms (), &error);
    while (n < N) {
        const int read = read_round (self, &peer);
        assert_true (read > 0 || peer->fd >= 0);
        n += read;
        wm_listener_tick (self, wm_now_ms (), &error);
    }
    assert_true (recv (fd, (char[1]){ 0 }, 1, MSG_DONTWAIT) != 0);
    close (fd);
    wm_listener_destroy (&self);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_families),
        cmocka_unit_test (test_range),
        cmocka_unit_test (test_refused),
        cmocka_unit_test (test_advertised),
        cmocka_unit_test (test_endless),
        cmocka_unit_test (test_whole),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
