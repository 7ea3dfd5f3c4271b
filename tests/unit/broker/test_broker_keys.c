/* test_broker_keys.c - listeners with keys, and strangers at them who speak libzmq directly.

   They come without a key, by one of another role, expired, revoked, unknown, of another campaign,
   and play a recorded handshake again; and there are listeners that would let anybody in.  */
#include "broker/listen/wm_keyguard.h"
#include "broker/listen/wm_listener_test.h"
#include "broker/listen/wm_listener.h"
#include "schema/session/wm_keys.h"
#include "schema/wm_limits.h"
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- a listener on its thread ---------------------------------------------------------------- */

typedef struct {
    char folder[64];
    wm_listener_t *listener;
    pthread_t thread;
    atomic_bool stop;
    atomic_uint n_message, n_reader, n_refused;
    char why[100]; /* of the last refusal */
    wm_fault_t fault;
} fixture_t;

static void *serve (void *argument)
{
    fixture_t *self = argument;
    wm_error_t error;
    while (!self->stop && !self->fault) {
        wm_peer_t *peer;
        wm_listener_event_t event;
        wm_listener_wait (self->listener, 20);
        while ((event = wm_listener_next (self->listener, &peer)) != WM_LISTENER_NOTHING) {
            if (event == WM_LISTENER_MESSAGE) {
                peer->session = 1;
                self->n_message++;
                self->n_reader += peer->reads_only;
            } else if (event == WM_LISTENER_REFUSED) {
                snprintf (self->why, sizeof self->why, "%s: %s", peer->key, peer->refused);
                self->n_refused++;
            }
        }
        self->fault = wm_listener_tick (self->listener, wm_now_ms (), &error);
    }
    return NULL;
}

static fixture_t *door_new (void)
{
    fixture_t *self = calloc (1, sizeof *self);
    wm_error_t error;
    assert_non_null (self);
    strcpy (self->folder, "/tmp/wm-fixture-XXXXXX");
    assert_non_null (mkdtemp (self->folder));
    self->listener = wm_listener_new ("tcp://127.0.0.1:0", WM_LISTENER_KEYS, self->folder,
                                      WM_FRAME_BYTES_MAX, &error);
    if (!self->listener)
        fail_msg ("%s", error.text);
    assert_true (wm_listener_has_keys (self->listener));
    assert_int_equal (pthread_create (&self->thread, NULL, serve, self), 0);
    return self;
}

static void door_end (fixture_t *self)
{
    char command[100];
    self->stop = true;
    pthread_join (self->thread, NULL);
    assert_int_equal (self->fault, WM_OK);
    wm_listener_destroy (&self->listener);
    snprintf (command, sizeof command, "rm -r %s", self->folder);
    assert_int_equal (system (command), 0);
    free (self);
}

static wm_join_t join_of (const fixture_t *fixture, wm_role_t role)
{
    char path[100];
    wm_join_t join;
    wm_error_t error;
    snprintf (path, sizeof path, "%s/join-%s", fixture->folder, wm_role_name (role));
    if (wm_join_read (&join, path, &error))
        fail_msg ("%s", error.text);
    return join;
}

/* ---- peers ----------------------------------------------------------------------------------- */

typedef struct {
    void *context, *socket, *monitor;
} peer_t;

static const char *taken_id; /* the routing id that a peer asks for; NULL: any */

/* Connects to the listener of a role; join NULL: without a key.  */
static peer_t connect_to (const fixture_t *fixture, wm_role_t listener, const wm_join_t *join)
{
    peer_t peer = { .context = zmq_ctx_new () };
    char address[64];
    const int never = 1000000000, zero = 0;
    const char *base = wm_listener_endpoint (fixture->listener), *port = strrchr (base, ':');
    snprintf (address, sizeof address, "tcp://127.0.0.1:%ld",
              strtol (port + 1, NULL, 10) + (long) listener - 1);
    peer.socket = zmq_socket (peer.context, ZMQ_DEALER);
    peer.monitor = zmq_socket (peer.context, ZMQ_PAIR);
    zmq_setsockopt (peer.socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt (peer.socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    if (taken_id)
        zmq_setsockopt (peer.socket, ZMQ_ROUTING_ID, taken_id, strlen (taken_id));
    if (join) {
        uint8_t public_key[32], private_key[32];
        wm_join_pair (join, public_key, private_key);
        assert_int_equal (zmq_setsockopt (peer.socket, ZMQ_CURVE_SERVERKEY, join->server, 32), 0);
        assert_int_equal (zmq_setsockopt (peer.socket, ZMQ_CURVE_PUBLICKEY, public_key, 32), 0);
        assert_int_equal (zmq_setsockopt (peer.socket, ZMQ_CURVE_SECRETKEY, private_key, 32), 0);
    }
    assert_int_equal (zmq_socket_monitor (peer.socket, "inproc://m", ZMQ_EVENT_ALL), 0);
    assert_int_equal (zmq_connect (peer.monitor, "inproc://m"), 0);
    assert_int_equal (zmq_connect (peer.socket, address), 0);
    return peer;
}

static void leave (peer_t *peer)
{
    zmq_socket_monitor (peer->socket, NULL, 0);
    zmq_close (peer->socket);
    zmq_close (peer->monitor);
    zmq_ctx_term (peer->context);
}

/* Waits for the end of the handshake. 200: let in; else the status of the refusal, 0 for one
   without.  */
static unsigned outcome (const peer_t *peer)
{
    const int limit = 20000;
    zmq_setsockopt (peer->monitor, ZMQ_RCVTIMEO, &limit, sizeof limit);
    for (;;) {
        uint8_t frame[256];
        uint16_t event;
        uint32_t value;
        if (zmq_recv (peer->monitor, frame, sizeof frame, 0) != 6)
            fail_msg ("neither let in nor refused");
        memcpy (&event, frame, 2);
        memcpy (&value, frame + 2, 4);
        zmq_recv (peer->monitor, frame, sizeof frame, 0); /* address */
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
            return 200;
        if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
            return value;
        if (event & (ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL))
            return 0;
    }
}

static unsigned tried (const fixture_t *fixture, wm_role_t listener, const wm_join_t *join)
{
    peer_t peer = connect_to (fixture, listener, join);
    const unsigned status = outcome (&peer);
    leave (&peer);
    return status;
}

static bool counts (const atomic_uint *count, unsigned wanted)
{
    for (int64_t end = wm_now_ms () + 20000; *count < wanted && wm_now_ms () < end;)
        usleep (5000);
    return *count >= wanted;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void each_listener_admits_its_roles (void **state)
{
    static const unsigned wanted[][3] = {
        { 200, 400, 400 }, { 400, 200, 400 }, { 400, 400, 200 }, { 400, 400, 200 }
    };
    fixture_t *fixture = door_new ();
    for (wm_role_t key = WM_ROLE_WORKER; key <= WM_ROLE_MONITOR; key++) {
        const wm_join_t join = join_of (fixture, key);
        for (wm_role_t listener = WM_ROLE_WORKER; listener <= WM_ROLE_OPERATOR; listener++)
            assert_int_equal (tried (fixture, listener, &join), wanted[key - 1][listener - 1]);
    }
    door_end (fixture);
}

static void strangers_stay_outside (void **state)
{
    fixture_t *fixture = door_new ();
    wm_join_t unknown = join_of (fixture, WM_ROLE_WORKER);
    unknown.secret[7] ^= 1;
    wm_join_t of_another = join_of (fixture, WM_ROLE_WORKER);
    of_another.server[7] ^= 1;
    for (wm_role_t listener = WM_ROLE_WORKER; listener <= WM_ROLE_OPERATOR; listener++) {
        assert_int_equal (tried (fixture, listener, NULL), 0);
        assert_int_equal (tried (fixture, listener, &unknown), 400);
        assert_int_equal (tried (fixture, listener, &of_another), 0);
    }
    assert_int_equal (fixture->n_message, 0);
    door_end (fixture);
}

/* Marks the worker's key in the table.  */
static void change_key (const fixture_t *fixture, int64_t expires_s, int64_t revoked_s)
{
    wm_keys_t table = { 0 };
    wm_error_t error;
    assert_int_equal (wm_keys_read (&table, fixture->folder, &error), WM_OK);
    table.row[0].expires_s = expires_s;
    table.row[0].revoked_s = revoked_s;
    assert_int_equal (wm_keys_write (&table, fixture->folder, &error), WM_OK);
    wm_keys_free (&table);
}

static void wait_for_status (const fixture_t *fixture, const wm_join_t *join, unsigned wanted)
{
    unsigned status = 0;
    for (int64_t end = wm_now_ms () + 20000; status != wanted && wm_now_ms () < end;)
        status = tried (fixture, WM_ROLE_WORKER, join);
    assert_int_equal (status, wanted);
}

static void keys_end (void **state)
{
    fixture_t *fixture = door_new ();
    const wm_join_t join = join_of (fixture, WM_ROLE_WORKER);
    assert_int_equal (tried (fixture, WM_ROLE_WORKER, &join), 200);
    change_key (fixture, 0, time (NULL));
    wait_for_status (fixture, &join, 500);
    change_key (fixture, 0, 0);
    wait_for_status (fixture, &join, 200);
    change_key (fixture, time (NULL) - 1, 0);
    wait_for_status (fixture, &join, 500);
    change_key (fixture, time (NULL) + 3600, 0);
    wait_for_status (fixture, &join, 200);
    door_end (fixture);
}

/* A session that is open when its key ends is reported once, and its messages count no more, even
   if it never reads what it is sent.  */
static void a_live_session_ends (void **state)
{
    for (int expires = 0; expires < 2; expires++) {
        fixture_t *fixture = door_new ();
        const wm_join_t join = join_of (fixture, WM_ROLE_WORKER);
        peer_t peer = connect_to (fixture, WM_ROLE_WORKER, &join);
        assert_int_equal (outcome (&peer), 200);
        assert_int_equal (zmq_send (peer.socket, "hello", 5, 0), 5);
        assert_true (counts (&fixture->n_message, 1));
        if (expires)
            change_key (fixture, time (NULL) + 1, 0);
        else
            change_key (fixture, 0, time (NULL));
        assert_true (counts (&fixture->n_refused, 1));
        char wanted[100];
        snprintf (wanted, sizeof wanted, "%s: %s", join.id,
                  expires ? "it expired" : "it was revoked");
        assert_string_equal (fixture->why, wanted);
        for (int i = 0; i < 20; i++)
            zmq_send (peer.socket, "hello", 5, ZMQ_DONTWAIT);
        /* another peer's message, sent later, is read after those */
        const wm_join_t other = join_of (fixture, WM_ROLE_MONITOR);
        peer_t monitor = connect_to (fixture, WM_ROLE_OPERATOR, &other);
        assert_int_equal (outcome (&monitor), 200);
        zmq_send (monitor.socket, "hello", 5, 0);
        assert_true (counts (&fixture->n_reader, 1));
        assert_int_equal (fixture->n_message, 2);
        assert_int_equal (fixture->n_refused, 1);
        leave (&peer);
        leave (&monitor);
        door_end (fixture);
    }
}

/* ---- a handshake played again ---------------------------------------------------------------- */

typedef struct {
    int listening, port, to_port;
    uint8_t sent[65536]; /* what the client sent */
    size_t n;
    pthread_t thread;
} tap_t;

static int dial (int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons ((uint16_t) port) };
    address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    const int fd = socket (AF_INET, SOCK_STREAM, 0);
    const struct timeval limit = { .tv_sec = 10 };
    setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal (connect (fd, (struct sockaddr *) &address, sizeof address), 0);
    return fd;
}

static void *copy_back (void *argument)
{
    const int *fd = argument;
    uint8_t bytes[4096];
    for (ssize_t n; (n = read (fd[0], bytes, sizeof bytes)) > 0;)
        if (write (fd[1], bytes, (size_t) n) != n)
            break;
    shutdown (fd[1], SHUT_RDWR);
    return NULL;
}

/* Passes one connection on and keeps what the client sent.  */
static void *listen_in (void *argument)
{
    tap_t *self = argument;
    pthread_t back;
    int fd[2];
    fd[1] = accept (self->listening, NULL, NULL);
    fd[0] = dial (self->to_port);
    pthread_create (&back, NULL, copy_back, fd);
    for (ssize_t n; (n = read (fd[1], self->sent + self->n, sizeof self->sent - self->n)) > 0;) {
        if (write (fd[0], self->sent + self->n, (size_t) n) != n)
            break;
        self->n += (size_t) n;
    }
    shutdown (fd[0], SHUT_RDWR);
    pthread_join (back, NULL);
    close (fd[0]);
    close (fd[1]);
    return NULL;
}

/* Whoever recorded all bytes of a good worker's session gets nothing by sending them again.  */
static void a_replay_is_refused (void **state)
{
    fixture_t *fixture = door_new ();
    wm_join_t join = join_of (fixture, WM_ROLE_WORKER);
    static tap_t tap;
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t bytes = sizeof address;
    tap.to_port = atoi (strrchr (wm_listener_endpoint (fixture->listener), ':') + 1);
    tap.listening = socket (AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
    assert_int_equal (bind (tap.listening, (struct sockaddr *) &address, sizeof address), 0);
    assert_int_equal (listen (tap.listening, 1), 0);
    getsockname (tap.listening, (struct sockaddr *) &address, &bytes);
    pthread_create (&tap.thread, NULL, listen_in, &tap);

    peer_t peer = { .context = zmq_ctx_new () };
    uint8_t public_key[32], private_key[32];
    char text[64];
    peer.socket = zmq_socket (peer.context, ZMQ_DEALER);
    wm_join_pair (&join, public_key, private_key);
    zmq_setsockopt (peer.socket, ZMQ_CURVE_SERVERKEY, join.server, 32);
    zmq_setsockopt (peer.socket, ZMQ_CURVE_PUBLICKEY, public_key, 32);
    zmq_setsockopt (peer.socket, ZMQ_CURVE_SECRETKEY, private_key, 32);
    snprintf (text, sizeof text, "tcp://127.0.0.1:%d", ntohs (address.sin_port));
    zmq_connect (peer.socket, text);
    zmq_send (peer.socket, "hello", 5, 0);
    assert_true (counts (&fixture->n_message, 1));
    zmq_close (peer.socket);
    zmq_ctx_term (peer.context);
    pthread_join (tap.thread, NULL);
    close (tap.listening);
    assert_true (tap.n > 200); /* greeting, HELLO, INITIATE, a message */
    for (size_t i = 0; i + 32 < tap.n; i++)
        assert_memory_not_equal (tap.sent + i, join.secret, 32);

    const int fd = dial (tap.to_port);
    uint8_t answer[4096];
    assert_int_equal (write (fd, tap.sent, tap.n), (ssize_t) tap.n);
    while (read (fd, answer, sizeof answer) > 0) /* until the listener closes it */
        ;
    close (fd);
    assert_int_equal (tried (fixture, WM_ROLE_WORKER, &join), 200);
    assert_int_equal (fixture->n_message, 1);
    door_end (fixture);
}

/* ---- the listener tries itself --------------------------------------------------------------- */

static unsigned admit; /* what the guards of these sockets do: 0 nothing is there to ask */

static void *answer_all (void *argument)
{
    void *socket = argument;
    char frame[8][256];
    for (;;) {
        int n = 0, more = 1;
        size_t size = sizeof more;
        int id = 0;
        while (more && n < 8) {
            const int bytes = zmq_recv (socket, frame[n], 256, 0);
            if (bytes < 0)
                return NULL;
            if (n == 1)
                id = bytes;
            zmq_getsockopt (socket, ZMQ_RCVMORE, &more, &size);
            n++;
        }
        zmq_send (socket, "1.0", 3, ZMQ_SNDMORE);
        zmq_send (socket, frame[1], (size_t) id, ZMQ_SNDMORE);
        zmq_send (socket, "200", 3, ZMQ_SNDMORE);
        zmq_send (socket, "", 0, ZMQ_SNDMORE);
        zmq_send (socket, "anybody", 7, ZMQ_SNDMORE);
        zmq_send (socket, "", 0, 0);
    }
}

/* A round at one socket: whether it is let in, and that is a fault.  */
static bool is_let_in (bool has_curve)
{
    void *context = zmq_ctx_new (), *socket = zmq_socket (context, ZMQ_ROUTER);
    void *zap = zmq_socket (context, ZMQ_REP);
    uint8_t public_key[32], private_key[32];
    const int yes = 1, zero = 0;
    pthread_t thread;
    char address[64];
    size_t bytes = sizeof address;
    wm_error_t error;
    crypto_box_keypair (public_key, private_key);
    if (has_curve) {
        zmq_setsockopt (socket, ZMQ_CURVE_SERVER, &yes, sizeof yes);
        zmq_setsockopt (socket, ZMQ_CURVE_SECRETKEY, private_key, 32);
        zmq_setsockopt (socket, ZMQ_ZAP_DOMAIN, "worker", 6);
    }
    zmq_setsockopt (socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt (zap, ZMQ_LINGER, &zero, sizeof zero);
    if (admit) {
        assert_int_equal (zmq_bind (zap, "inproc://zeromq.zap.01"), 0);
        pthread_create (&thread, NULL, answer_all, zap);
    }
    assert_int_equal (zmq_bind (socket, "tcp://127.0.0.1:*"), 0);
    zmq_getsockopt (socket, ZMQ_LAST_ENDPOINT, address, &bytes);
    const char *const list[] = { address };
    wm_listener_test_t *knock = wm_listener_test_new (context, public_key, list, 1);
    wm_fault_t fault = WM_OK;
    wm_listener_test_begin (knock);
    while (wm_listener_test_is_running (knock) && !fault) {
        usleep (2000);
        fault = wm_listener_test_read (knock, wm_now_ms (), &error);
    }
    if (fault)
        assert_non_null (strstr (error.text, "let a stranger in"));
    assert_int_equal (!fault, wm_listener_test_was_refused (knock));
    wm_listener_test_destroy (&knock);
    zmq_close (socket);
    if (!admit)
        zmq_close (zap);
    else {
        zmq_ctx_shutdown (context);
        pthread_join (thread, NULL);
        zmq_close (zap);
    }
    zmq_ctx_term (context);
    return fault == WM_EHOST;
}

static void who_lets_anybody_in_is_noticed (void **state)
{
    admit = 1;
    assert_true (is_let_in (true));  /* a handler that admits everybody */
    assert_true (is_let_in (false)); /* no encryption at all */
    admit = 0;
    assert_true (is_let_in (false));
    assert_true (is_let_in (true)); /* there is nothing to ask: libzmq 4.3.4 admits everybody */
}

static void keys_that_cannot_be_had (void **state)
{
    wm_error_t error;
    assert_null (wm_listener_new ("tcp://127.0.0.1:0", WM_LISTENER_KEYS, "/proc/no/such/folder",
                                  WM_FRAME_BYTES_MAX, &error));
    assert_non_null (strstr (error.text, "/proc/no/such/folder"));
    assert_int_equal (wm_listener_check ("ipc:///tmp/x", WM_LISTENER_KEYS, &error), WM_EHOST);
    assert_int_equal (wm_listener_check ("ipc:///tmp/x", WM_LISTENER_AUTO, &error), WM_OK);
    /* on an address that is not loopback they are the default */
    char folder[] = "/tmp/wm-fixture-XXXXXX", command[100];
    assert_non_null (mkdtemp (folder));
    wm_listener_t *listener =
        wm_listener_new ("tcp://0.0.0.0:0", WM_LISTENER_AUTO, folder, WM_FRAME_BYTES_MAX, &error);
    assert_non_null (listener);
    assert_true (wm_listener_has_keys (listener));
    wm_listener_destroy (&listener);
    listener =
        wm_listener_new ("tcp://0.0.0.0:0", WM_LISTENER_PLAIN, folder, WM_FRAME_BYTES_MAX, &error);
    assert_non_null (listener);
    assert_false (wm_listener_has_keys (listener));
    wm_listener_destroy (&listener);
    snprintf (command, sizeof command, "rm -r %s", folder);
    assert_int_equal (system (command), 0);
}

static atomic_uint n_poll;

/* In place of libzmq's, which it calls: how often a listener wakes up.  */
int zmq_poll (zmq_pollitem_t *items, int n, long timeout_ms)
{
    int (*real) (zmq_pollitem_t *, int, long) =
        (int (*) (zmq_pollitem_t *, int, long)) (uintptr_t) dlsym (RTLD_NEXT, "zmq_poll");
    n_poll++;
    return real (items, n, timeout_ms);
}

/* While it tries itself at its start, a listener sleeps until there is news: what it leaves unread
   would wake it thousands of times.  */
static void the_first_knock_does_not_spin (void **state)
{
    char folder[] = "/tmp/wm-fixture-XXXXXX", command[100];
    wm_error_t error;
    assert_non_null (mkdtemp (folder));
    n_poll = 0;
    wm_listener_t *listener =
        wm_listener_new ("tcp://127.0.0.1:0", WM_LISTENER_KEYS, folder, WM_FRAME_BYTES_MAX, &error);
    print_message ("%u polls\n", n_poll);
    assert_non_null (listener);
    assert_in_range (n_poll, 1, 200);
    wm_listener_destroy (&listener);
    snprintf (command, sizeof command, "rm -r %s", folder);
    assert_int_equal (system (command), 0);
}

/* ---- the guard alone ------------------------------------------------------------------------- */

static int64_t clock_ahead_s;

/* In place of libc's, for a clock that somebody sets.  */
time_t time (time_t *out)
{
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec + clock_ahead_s;
    return now.tv_sec + clock_ahead_s;
}

/* A key that is revoked while the table cannot be read is refused as soon as it can be.  */
static void a_table_is_read_until_it_can_be (void **state)
{
    fixture_t fixture = { .folder = "/tmp/wm-fixture-XXXXXX" };
    wm_error_t error;
    bool reads_only;
    char command[100];
    struct rlimit files, none;
    void *context = zmq_ctx_new ();
    assert_non_null (mkdtemp (fixture.folder));
    wm_keyguard_t *guard = wm_keyguard_new (context, true, fixture.folder, &error);
    assert_non_null (guard);
    const wm_join_t join = join_of (&fixture, WM_ROLE_WORKER);
    wm_keyguard_tick (guard, 1000);
    assert_null (wm_keyguard_why_not (guard, join.id, WM_ROLE_WORKER, &reads_only));
    change_key (&fixture, 0, time (NULL));
    assert_int_equal (getrlimit (RLIMIT_NOFILE, &files), 0);
    none = files;
    none.rlim_cur = 0; /* no descriptor is left to open it with */
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &none), 0);
    wm_keyguard_tick (guard, 3000);
    assert_int_equal (setrlimit (RLIMIT_NOFILE, &files), 0);
    assert_null (wm_keyguard_why_not (guard, join.id, WM_ROLE_WORKER, &reads_only));
    wm_keyguard_tick (guard, 5000);
    assert_string_equal (wm_keyguard_why_not (guard, join.id, WM_ROLE_WORKER, &reads_only),
                         "it was revoked");
    wm_keyguard_destroy (&guard);
    zmq_ctx_term (context);
    snprintf (command, sizeof command, "rm -r %s", fixture.folder);
    assert_int_equal (system (command), 0);
}

/* A key that is good again because the clock was set back expires a second time.  */
static void a_clock_is_set_back (void **state)
{
    fixture_t fixture = { .folder = "/tmp/wm-fixture-XXXXXX" };
    wm_error_t error;
    char command[100];
    void *context = zmq_ctx_new ();
    assert_non_null (mkdtemp (fixture.folder));
    wm_keyguard_t *guard = wm_keyguard_new (context, true, fixture.folder, &error);
    assert_non_null (guard);
    change_key (&fixture, time (NULL) + 3600, 0);
    wm_keyguard_tick (guard, 1000);
    for (int i = 0; i < 2; i++) {
        clock_ahead_s = 4000;
        const uint64_t before = wm_keyguard_generation (guard);
        wm_keyguard_tick (guard, 1000);
        assert_true (wm_keyguard_generation (guard) > before);
        clock_ahead_s = 0;
        wm_keyguard_tick (guard, 1000);
    }
    wm_keyguard_destroy (&guard);
    zmq_ctx_term (context);
    snprintf (command, sizeof command, "rm -r %s", fixture.folder);
    assert_int_equal (system (command), 0);
}

/* A socket that gets no keys is reported by what is wrong with them.  */
static void a_lost_server_key_is_named (void **state)
{
    char folder[] = "/tmp/wm-fixture-XXXXXX", path[100], command[100];
    wm_error_t error;
    void *context = zmq_ctx_new (), *socket = zmq_socket (context, ZMQ_ROUTER);
    assert_non_null (mkdtemp (folder));
    wm_keyguard_t *guard = wm_keyguard_new (context, true, folder, &error);
    assert_non_null (guard);
    assert_int_equal (wm_keyguard_protect (guard, socket, WM_ROLE_WORKER, &error), WM_OK);
    snprintf (path, sizeof path, "%s/server-key", folder);
    assert_int_equal (unlink (path), 0);
    assert_int_equal (wm_keyguard_protect (guard, socket, WM_ROLE_WORKER, &error), WM_EHOST);
    assert_non_null (strstr (error.text, path));
    zmq_close (socket);
    wm_keyguard_destroy (&guard);
    zmq_ctx_term (context);
    snprintf (command, sizeof command, "rm -r %s", folder);
    assert_int_equal (system (command), 0);
}

static wm_listener_event_t next_event (const fixture_t *fixture, wm_peer_t **peer)
{
    wm_listener_event_t event;
    const int64_t end = wm_now_ms () + 20000;
    while ((event = wm_listener_next (fixture->listener, peer)) == WM_LISTENER_NOTHING &&
           wm_now_ms () < end)
        wm_listener_wait (fixture->listener, 20);
    return event;
}

/* Who takes the routing id of a peer that left, before its end is reported, is not that peer.  */
static void a_routing_id_is_not_a_key (void **state)
{
    fixture_t fixture = { .folder = "/tmp/wm-fixture-XXXXXX" };
    wm_error_t error;
    wm_keys_t table = { 0 };
    wm_join_t join[2];
    wm_peer_t *peer = NULL;
    peer_t client[2];
    char command[100];
    assert_non_null (mkdtemp (fixture.folder));
    fixture.listener = wm_listener_new ("tcp://127.0.0.1:0", WM_LISTENER_KEYS, fixture.folder,
                                        WM_FRAME_BYTES_MAX, &error);
    assert_non_null (fixture.listener);
    assert_int_equal (wm_keys_read (&table, fixture.folder, &error), WM_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal (
            wm_keys_add (&table, fixture.folder, WM_ROLE_WORKER, 0, NULL, &join[i], &error), WM_OK);
    assert_int_equal (wm_keys_write (&table, fixture.folder, &error), WM_OK);
    wm_keys_free (&table);
    taken_id = "abcde";
    client[0] = connect_to (&fixture, WM_ROLE_WORKER, &join[0]);
    zmq_send (client[0].socket, "hello", 5, 0);
    assert_int_equal (next_event (&fixture, &peer), WM_LISTENER_MESSAGE);
    assert_string_equal (peer->key, join[0].id);
    leave (&client[0]);
    for (int64_t end = wm_now_ms () + 20000; peer->fd >= 0 && wm_now_ms () < end;)
        wm_listener_wait (fixture.listener, 20); /* its end is seen, and not yet reported */
    client[1] = connect_to (&fixture, WM_ROLE_WORKER, &join[1]);
    taken_id = NULL;
    zmq_send (client[1].socket, "hello", 5, 0);
    for (int64_t end = wm_now_ms () + 500; wm_now_ms () < end;)
        wm_listener_wait (fixture.listener, 20);
    assert_int_equal (next_event (&fixture, &peer), WM_LISTENER_CLOSED);
    assert_string_equal (peer->key, join[0].id);
    zmq_send (client[1].socket, "hello", 5, 0);
    assert_int_equal (next_event (&fixture, &peer), WM_LISTENER_MESSAGE);
    assert_string_equal (peer->key, join[1].id);
    leave (&client[1]);
    wm_listener_destroy (&fixture.listener);
    snprintf (command, sizeof command, "rm -r %s", fixture.folder);
    assert_int_equal (system (command), 0);
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (each_listener_admits_its_roles),
        cmocka_unit_test (strangers_stay_outside),
        cmocka_unit_test (keys_end),
        cmocka_unit_test (a_live_session_ends),
        cmocka_unit_test (a_replay_is_refused),
        cmocka_unit_test (who_lets_anybody_in_is_noticed),
        cmocka_unit_test (keys_that_cannot_be_had),
        cmocka_unit_test (the_first_knock_does_not_spin),
        cmocka_unit_test (a_table_is_read_until_it_can_be),
        cmocka_unit_test (a_clock_is_set_back),
        cmocka_unit_test (a_lost_server_key_is_named),
        cmocka_unit_test (a_routing_id_is_not_a_key),
    };
    const char *only = getenv ("WM_ONLY");
    if (only)
        cmocka_set_test_filter (only);
    return sodium_init () < 0 || cmocka_run_group_tests (tests, NULL, NULL);
}
