/* test_broker_pending_peers.c - connections that say nothing: how many there may be, whose are
   closed, and that peers with a key are admitted beside them.  */
#include "broker/listen/wm_listener.h"
#include "broker/listen/wm_pending_peers.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the list alone -------------------------------------------------------------------------- */

static uint32_t place_of (const wm_pending_peers_t *self, const char *text)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    if (inet_pton (AF_INET, text, &v4.sin_addr) == 1)
        return wm_pending_peers_address (self, (struct sockaddr *) &v4);
    assert_int_equal (inet_pton (AF_INET6, text, &v6.sin6_addr), 1);
    return wm_pending_peers_address (self, (struct sockaddr *) &v6);
}

static void addresses (void **state)
{
    static wm_pending_peers_t self = { .salt = 12345 };
    assert_int_equal (place_of (&self, "10.0.0.1"), place_of (&self, "::ffff:10.0.0.1"));
    assert_int_not_equal (place_of (&self, "10.0.0.1"), place_of (&self, "10.0.0.2"));
    assert_int_equal (place_of (&self, "2001:db8:1:2::1"), place_of (&self, "2001:db8:1:2:3::9"));
    assert_int_not_equal (place_of (&self, "2001:db8:1:2::1"), place_of (&self, "2001:db8:1:3::1"));
    assert_true (wm_pending_peers_address (&self, NULL) < WM_PENDING_PEERS_ADDRESSES);
    const uint32_t before = place_of (&self, "10.0.0.1");
    self.salt = 54321; /* who shares a place with whom is not to be foreseen */
    assert_int_not_equal (place_of (&self, "10.0.0.1"), before);
}

static void the_largest_loses_its_oldest (void **state)
{
    static wm_pending_peers_t self;
    static char peer[3 * WM_PENDING_PEERS_MAX];
    size_t n = 0;
    for (; n < WM_PENDING_PEERS_MAX; n++)
        assert_null (wm_pending_peers_add (&self, n < 10 ? 7 : 8, &peer[n]));
    assert_ptr_equal (wm_pending_peers_add (&self, 8, &peer[n++]), &peer[10]);
    assert_ptr_equal (wm_pending_peers_add (&self, 9, &peer[n++]),
                      &peer[11]); /* of another address */
    wm_pending_peers_remove (&self, &peer[12]);
    wm_pending_peers_remove (&self, &peer[12]); /* it is not there any more */
    assert_null (wm_pending_peers_add (&self, 9, &peer[n++]));
    assert_ptr_equal (wm_pending_peers_add (&self, 9, &peer[n++]), &peer[13]);
    for (int i = 0; i < 10; i++) /* those of the small address are all there */
        wm_pending_peers_remove (&self, &peer[i]);
    assert_int_equal (self.n, WM_PENDING_PEERS_MAX - 10);
    assert_int_equal (self.of_address[7], 0);
}

/* ---- a listener ------------------------------------------------------------------------------ */

#define MANY 2300 /* more than all connections of a listener */

static wm_listener_t *listener;
static atomic_bool stop;
static atomic_uint n_message;

static void *serve (void *unused)
{
    wm_error_t error;
    while (!stop) {
        wm_peer_t *peer;
        wm_listener_event_t event;
        wm_listener_wait (listener, 20);
        while ((event = wm_listener_next (listener, &peer)) != WM_LISTENER_NOTHING)
            if (event == WM_LISTENER_MESSAGE) {
                peer->session = 1;
                n_message++;
            }
        assert_int_equal (wm_listener_tick (listener, wm_now_ms (), &error), WM_OK);
    }
    return unused;
}

static int worker_port (void)
{
    return atoi (strrchr (wm_listener_endpoint (listener), ':') + 1);
}

/* Opens a connection from an address of this machine, and says nothing.  */
static int open_silent (const char *from)
{
    struct sockaddr_in here = { .sin_family = AF_INET }, there = { .sin_family = AF_INET };
    const int fd = socket (AF_INET, SOCK_STREAM, 0);
    assert_true (fd >= 0);
    inet_pton (AF_INET, from, &here.sin_addr);
    inet_pton (AF_INET, "127.0.0.1", &there.sin_addr);
    there.sin_port = htons ((uint16_t) worker_port ());
    assert_int_equal (bind (fd, (struct sockaddr *) &here, sizeof here), 0);
    assert_int_equal (connect (fd, (struct sockaddr *) &there, sizeof there), 0);
    return fd;
}

static bool is_open (int fd)
{
    char byte[64];
    ssize_t n;
    while ((n = recv (fd, byte, sizeof byte, MSG_DONTWAIT)) > 0) /* libzmq's greeting */
        ;
    return n < 0 && errno == EAGAIN;
}

/* A worker by its key sends a message; whether it arrives.  */
static bool is_admitted (const wm_join_t *join)
{
    const unsigned before = n_message;
    const int zero = 0, never = 1000000000;
    uint8_t public_key[32], private_key[32];
    char address[64];
    void *context = zmq_ctx_new (), *socket = zmq_socket (context, ZMQ_DEALER);
    snprintf (address, sizeof address, "tcp://127.0.0.1:%d", worker_port ());
    wm_join_pair (join, public_key, private_key);
    zmq_setsockopt (socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt (socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    zmq_setsockopt (socket, ZMQ_CURVE_SERVERKEY, join->server, 32);
    zmq_setsockopt (socket, ZMQ_CURVE_PUBLICKEY, public_key, 32);
    zmq_setsockopt (socket, ZMQ_CURVE_SECRETKEY, private_key, 32);
    assert_int_equal (zmq_connect (socket, address), 0);
    zmq_send (socket, "hello", 5, 0);
    for (int64_t end = wm_now_ms () + 20000; n_message == before && wm_now_ms () < end;)
        usleep (2000);
    zmq_close (socket);
    zmq_ctx_term (context);
    return n_message > before;
}

static void peers_with_keys_are_admitted (void **state)
{
    static int fd[2 * MANY];
    char folder[] = "/tmp/wm-strangers-XXXXXX", path[100], command[100];
    struct rlimit files;
    wm_join_t join;
    wm_error_t error;
    pthread_t thread;
    assert_int_equal (getrlimit (RLIMIT_NOFILE, &files), 0);
    if (files.rlim_max < 3 * MANY)
        skip ();
    files.rlim_cur = files.rlim_max < 16384 ? files.rlim_max : 16384;
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &files), 0);
    assert_non_null (mkdtemp (folder));
    listener =
        wm_listener_new ("tcp://127.0.0.1:0", WM_LISTENER_KEYS, folder, WM_FRAME_BYTES_MAX, &error);
    assert_non_null (listener);
    snprintf (path, sizeof path, "%s/join-worker", folder);
    assert_int_equal (wm_join_read (&join, path, &error), WM_OK);
    assert_int_equal (pthread_create (&thread, NULL, serve, NULL), 0);

    const int64_t since_ms = wm_now_ms ();
    const int neighbour = open_silent ("127.0.0.3");
    for (int i = 0; i < MANY; i++)
        fd[i] = open_silent ("127.0.0.2");
    assert_true (is_admitted (&join));
    const bool is_left = is_open (neighbour);
    if (wm_now_ms () - since_ms < wm_times ()->handshake_ms) /* after which all silent ones go */
        assert_true (is_left); /* it has one, and the address with most loses its own */
    int n_open = 0;
    for (int i = 0; i < MANY; i++)
        n_open += is_open (fd[i]);
    assert_in_range (n_open, 1, WM_PENDING_PEERS_MAX);
    assert_false (is_open (fd[0]));
    for (int i = 0; i < MANY; i++) /* and one behind their own address */
        close (fd[i]), fd[i] = open_silent ("127.0.0.1");
    assert_true (is_admitted (&join));

    for (int i = 0; i < MANY; i++)
        close (fd[i]);
    close (neighbour);
    stop = true;
    pthread_join (thread, NULL);
    wm_listener_destroy (&listener);
    snprintf (command, sizeof command, "rm -r %s", folder);
    assert_int_equal (system (command), 0);
}

/* ---- before the broker reads on -------------------------------------------------------------- */

enum { CROWD = 3 * (int) WM_ADMITTED_MAX, EACH = 4 };

/* Reads all that is there; returns from how many connections there was a first message.  */
static int read_crowd (int heard[CROWD])
{
    wm_peer_t *peer;
    int n = 0;
    for (wm_listener_event_t event;
         (event = wm_listener_next (listener, &peer)) != WM_LISTENER_NOTHING;) {
        size_t bytes;
        zmq_msg_t *payload;
        uint64_t check;
        wm_msg_t msg;
        wm_error_t error;
        if (event != WM_LISTENER_MESSAGE)
            continue;
        const uint8_t *header = wm_listener_header (listener, peer, &bytes, &payload, &check);
        assert_non_null (header);
        assert_int_equal (wm_msg_decode (&msg, header, bytes, &error), WM_OK);
        n += msg.key.batch == 0;
        assert_int_equal (msg.key.batch, heard[msg.key.input]++);
    }
    return n;
}

/* A crowd connects while the broker does something else than to read: few of them are admitted, but
   all before they would give up, and in the end all are heard.  */
static void crowd_waits (wm_listener_mode_t mode, bool for_long)
{
    const int64_t patience_ms = wm_times ()->handshake_ms / 2, begin_ms = wm_now_ms ();
    char folder[] = "/tmp/wm-crowd-XXXXXX", path[100], address[64], command[100];
    int heard[CROWD] = { 0 }, n_heard = 0;
    const int zero = 0;
    uint8_t public_key[32], private_key[32];
    wm_join_t join;
    wm_error_t error;
    void *context = zmq_ctx_new (), *crowd[CROWD];
    assert_non_null (mkdtemp (folder));
    listener = wm_listener_new ("tcp://127.0.0.1:0", mode, folder, WM_FRAME_BYTES_MAX, &error);
    assert_non_null (listener);
    snprintf (path, sizeof path, "%s/join-worker", folder);
    if (mode == WM_LISTENER_KEYS)
        assert_int_equal (wm_join_read (&join, path, &error), WM_OK);
    snprintf (address, sizeof address, "tcp://127.0.0.1:%d", worker_port ());
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = zmq_socket (context, ZMQ_DEALER);
        zmq_setsockopt (crowd[i], ZMQ_LINGER, &zero, sizeof zero);
        if (mode == WM_LISTENER_KEYS) {
            wm_join_pair (&join, public_key, private_key);
            zmq_setsockopt (crowd[i], ZMQ_CURVE_SERVERKEY, join.server, 32);
            zmq_setsockopt (crowd[i], ZMQ_CURVE_PUBLICKEY, public_key, 32);
            zmq_setsockopt (crowd[i], ZMQ_CURVE_SECRETKEY, private_key, 32);
        }
        assert_int_equal (zmq_connect (crowd[i], address), 0);
        for (uint32_t j = 0; j < EACH; j++) {
            uint8_t header[WM_HEADER_BYTES_MAX];
            wm_msg_t msg;
            wm_msg_init (&msg, WM_MSG_HEARTBEAT);
            msg.key.input = (uint32_t) i;
            msg.key.batch = j;
            const size_t bytes = wm_msg_seal (header, wm_msg_encode (&msg, header), 0, j);
            zmq_send (crowd[i], header, bytes, 0);
        }
    }
    const int64_t until_ms = begin_ms + (for_long ? patience_ms + 1500 : 400);
    do { /* to wait is not to read */
        wm_listener_wait (listener, 0);
        usleep (10000);
    } while (wm_now_ms () < until_ms);
    const bool was_long = wm_now_ms () - begin_ms >= patience_ms; /* on a slow machine, too */
    n_heard = read_crowd (heard);
    assert_in_range (n_heard, for_long ? WM_ADMITTED_MAX + 1 : 0,
                     was_long ? CROWD : WM_ADMITTED_MAX);
    const int64_t end_ms = wm_now_ms () + 60000;
    for (int n = 0; n < CROWD * EACH && wm_now_ms () < end_ms;) {
        wm_listener_wait (listener, 20);
        read_crowd (heard);
        n = 0;
        for (int i = 0; i < CROWD; i++)
            n += heard[i];
    }
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal (heard[i], EACH);
        zmq_close (crowd[i]);
    }
    zmq_ctx_term (context);
    wm_listener_destroy (&listener);
    snprintf (command, sizeof command, "rm -r %s", folder);
    assert_int_equal (system (command), 0);
}

static void a_crowd_waits (void **state)
{
    crowd_waits (WM_LISTENER_PLAIN, false);
    crowd_waits (WM_LISTENER_KEYS, false);
    crowd_waits (WM_LISTENER_PLAIN, true);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (addresses),
        cmocka_unit_test (the_largest_loses_its_oldest),
        cmocka_unit_test (a_crowd_waits),
        cmocka_unit_test (peers_with_keys_are_admitted),
    };
    return cmocka_run_group_tests (tests, NULL, NULL);
}
