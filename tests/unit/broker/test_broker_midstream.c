/* test_broker_midstream.c - connections that close in the middle of a stream of messages: a peer's
   DEALER and the broker's ROUTERs live, and every message that arrived whole is read.

   The other end is written by hand (ZMTP 3.0 over ipc), so that it can end at any byte: inside a
   frame, between the two frames of a message, between two messages. What it has written before it
   closes arrives, because a local socket delivers what is in it; so the count is exact. It stays
   below the unread messages that each side accepts (1,000 and 128): above them the library stops
   reading, and drops what is still in the kernel when the connection closes.  */

#include "broker/listen/wm_listener.h"
#include "schema/session/wm_client.h"
#include "tests/proof.h"
#include "tests/unit/unit.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    PAYLOAD_MAX = 2000,
    STREAM_MAX = 240 * (WM_HEADER_BYTES_MAX / 4 + PAYLOAD_MAX),
    WRITERS = 2,
    CLOSED_MAX = 100000,
};

static char folder[] = "/tmp/wm-midstream-XXXXXX";

static uint32_t draw (uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t) (*seed >> 33) % below;
}

/* ---- ZMTP by hand ---------------------------------------------------------------------------- */

static void write_all (int fd, const uint8_t *data, size_t bytes)
{
    while (bytes) {
        ssize_t n = send (fd, data, bytes, MSG_NOSIGNAL);
        assert (n > 0);
        data += n;
        bytes -= (size_t) n;
    }
}

static void read_all (int fd, uint8_t *data, size_t bytes)
{
    while (bytes) {
        ssize_t n = recv (fd, data, bytes, 0);
        assert (n > 0);
        data += n;
        bytes -= (size_t) n;
    }
}

/* One frame of at most 8 KiB, thrown away; 1: more frames of its message follow.  */
static int skip_frame (int fd)
{
    uint8_t flags, length[8], body[8192];
    read_all (fd, &flags, 1);
    const size_t n = flags & 2 ? 8 : 1;
    read_all (fd, length, n);
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes = bytes << 8 | length[i];
    assert (bytes <= sizeof body);
    read_all (fd, body, bytes);
    return flags & 1;
}

/* Greeting and READY of both ends: from then on messages count.  */
static void shake_hands (int fd, const char *socket_type)
{
    uint8_t greeting[64] = { 0xff, [9] = 0x7f, 3, 0, 'N', 'U', 'L', 'L' };
    uint8_t ready[64] = "\4\0\5READY\13Socket-Type\0\0\0\6";
    memcpy (ready + 24, socket_type, 6); /* DEALER or ROUTER */
    ready[1] = 28;
    write_all (fd, greeting, sizeof greeting);
    write_all (fd, ready, 30);
    read_all (fd, greeting, sizeof greeting);
    skip_frame (fd);
}

static size_t put_frame (uint8_t *to, const void *data, size_t bytes, int more)
{
    to[0] = (uint8_t) (2 | more);
    for (int i = 0; i < 8; i++)
        to[1 + i] = (uint8_t) (bytes >> (56 - 8 * i));
    memcpy (to + 9, data, bytes);
    return 9 + bytes;
}

static size_t put_message (uint8_t *to, const wm_msg_t *msg, const void *payload, size_t bytes,
                           uint64_t number)
{
    uint8_t header[WM_HEADER_BYTES_MAX];
    size_t header_bytes =
        wm_msg_seal (header, wm_msg_encode (msg, header), wm_msg_check (payload, bytes), number);
    size_t n = put_frame (to, header, header_bytes, 1);
    return n + put_frame (to + n, payload, bytes, 0);
}

/* Messages 0 to n-1 of this type under `key`, after `before` others, and part of one more: none of
   its bytes, or up to all but one. Returns the bytes.  */
static size_t put_stream (uint8_t *to, wm_msg_type_t type, uint32_t key, uint64_t before,
                          uint32_t n, uint64_t *seed)
{
    uint8_t payload[PAYLOAD_MAX];
    size_t bytes = 0, last = 0;
    for (uint32_t i = 0; i <= n; i++) {
        const size_t payload_bytes = 1 + draw (seed, PAYLOAD_MAX);
        memset (payload, (int) (i & 0xff), payload_bytes);
        wm_msg_t msg;
        wm_msg_init (&msg, type);
        msg.key.input = key;
        msg.key.batch = i;
        last = put_message (to + bytes, &msg, payload, payload_bytes, before + i);
        bytes += last;
        assert (bytes + WM_HEADER_BYTES_MAX + PAYLOAD_MAX < STREAM_MAX);
    }
    return bytes - last + draw (seed, (uint32_t) last);
}

static struct sockaddr_un address_of (const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf (address.sun_path, sizeof address.sun_path, "%s/%s", folder, name);
    return address;
}

/* ---- a broker that closes: the DEALER's side ------------------------------------------------- */

typedef struct {
    int listener;
    uint32_t rounds;
    _Atomic uint32_t sent[CLOSED_MAX]; /* messages that left whole, of a round */
    _Atomic uint32_t n_closed;         /* rounds whose connection is closed */
} closing_broker_t;

static size_t put_welcome (uint8_t *to)
{
    wm_pins_t pins = { .precision = "fp32", .n_output = 4, .n_value = 9, .batch_hits = 100 };
    memset (pins.model, 'a', 64);
    memset (pins.wmm, 'b', 64);
    pins.batch_bytes = WM_RAW_BYTES_MAX;
    strcpy (pins.output, "/proc/nowhere");
    strcpy (pins.spec, "table: t\n");
    char text[WM_PINS_BYTES_MAX];
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_WELCOME);
    msg.protocol = WM_PROTOCOL;
    msg.epoch = 1;
    wm_pins_digest (&pins, msg.digest);
    return put_message (to, &msg, text, wm_pins_print (&pins, text), 0);
}

static void *closing_broker (void *argument)
{
    closing_broker_t *self = argument;
    uint8_t *stream = malloc (STREAM_MAX);
    uint64_t seed = 1;
    assert (stream);
    for (uint32_t round = 0; round < self->rounds; round++) {
        int fd = accept (self->listener, NULL, NULL);
        assert (fd >= 0);
        shake_hands (fd, "ROUTER");
        while (skip_frame (fd))
            ; /* HELLO */
        write_all (fd, stream, put_welcome (stream));
        const uint32_t n = draw (&seed, 200);
        const size_t bytes = put_stream (stream, WM_MSG_TASK, round, 1, n, &seed);
        const size_t first = draw (&seed, (uint32_t) bytes + 1);
        self->sent[round] = n;
        write_all (fd, stream, first);
        write_all (fd, stream + first, bytes - first);
        close (fd);
        self->n_closed = round + 1;
    }
    free (stream);
    return NULL;
}

/* Reads to the end of the session; returns the messages, which are in order and as they were sent.
 */
static uint32_t read_to_the_end (wm_client_t *client, uint32_t round)
{
    for (uint32_t n = 0;; n++) {
        const wm_client_event_t event = wm_client_wait (client, 10000);
        if (event == WM_CLIENT_CLOSED)
            return n;
        assert_int_equal (event, WM_CLIENT_MESSAGE);
        size_t bytes;
        const uint8_t *payload = wm_client_payload (client, &bytes);
        assert_int_equal (wm_client_msg (client)->key.input, round);
        assert_int_equal (wm_client_msg (client)->key.batch, n);
        assert_true (bytes && payload[0] == (n & 0xff) && payload[bytes - 1] == (n & 0xff));
    }
}

/* In every second round all is unread when the connection has closed, else it closes while the
   client reads. With ZMQ_RECONNECT_IVL = -1 the first loses messages, and the second dies in the
   library ("!_more").  */
static void test_dealer (void **state)
{
    static closing_broker_t broker;
    broker.rounds = (uint32_t) proof_size (400, 4000, CLOSED_MAX);
    broker.listener = socket (AF_UNIX, SOCK_STREAM, 0);
    const struct sockaddr_un address = address_of ("d.w");
    assert_int_equal (bind (broker.listener, (const struct sockaddr *) &address, sizeof address),
                      0);
    assert_int_equal (listen (broker.listener, 4), 0);
    pthread_t thread;
    assert_int_equal (pthread_create (&thread, NULL, closing_broker, &broker), 0);
    char endpoint[64];
    snprintf (endpoint, sizeof endpoint, "ipc://%s/d", folder);
    wm_client_t *client = wm_client_new (endpoint, WM_ROLE_WORKER, "test:1", "engine/1", NULL);
    for (uint32_t round = 0; round < broker.rounds; round++) {
        wm_error_t error;
        if (wm_client_open (client, NULL, 0, 10000, &error))
            fail_msg ("round %u: %s", round, error.text);
        while (round % 2 && broker.n_closed <= round)
            zclock_sleep (1);
        const uint32_t n = read_to_the_end (client, round);
        if (n != broker.sent[round])
            fail_msg ("round %u: %u of %u messages were read", round, n, broker.sent[round]);
        assert_non_null (strstr (wm_client_error (client)->text, "closed"));
    }
    pthread_join (thread, NULL);
    wm_client_destroy (&client);
    close (broker.listener);
}

/* ---- peers that close: the broker's side ----------------------------------------------------- */

typedef struct {
    uint32_t first, n;      /* connections, numbered over all writers */
    _Atomic uint32_t *sent; /* messages that left whole, of a connection */
    _Atomic uint32_t *n_done;
} writer_t;

static void *writer_thread (void *argument)
{
    writer_t *self = argument;
    uint8_t *stream = malloc (STREAM_MAX);
    uint64_t seed = 7 + self->first;
    const struct sockaddr_un address = address_of ("r.w");
    assert (stream);
    for (uint32_t i = self->first; i < self->first + self->n; i++) {
        int fd = socket (AF_UNIX, SOCK_STREAM, 0);
        int rc = connect (fd, (const struct sockaddr *) &address, sizeof address);
        assert (rc == 0);
        shake_hands (fd, "DEALER");
        const uint32_t n = 1 + draw (&seed, 100);
        const size_t bytes = put_stream (stream, WM_MSG_RESULT, i, 0, n, &seed);
        const size_t first = draw (&seed, (uint32_t) bytes + 1);
        write_all (fd, stream, first);
        write_all (fd, stream + first, bytes - first);
        self->sent[i] = n;
        close (fd); /* whatever it was answered lies there unread */
        ++*self->n_done;
    }
    free (stream);
    return NULL;
}

/* Answers with two frames, so that connections also close in the middle of what is sent to them.
 */
static void answer (wm_listener_t *listener, wm_peer_t *peer, const wm_msg_t *msg)
{
    wm_msg_t task = *msg;
    zmq_msg_t body;
    task.type = WM_MSG_TASK;
    assert_int_equal (zmq_msg_init_size (&body, 500), 0);
    memset (zmq_msg_data (&body), 1, 500);
    wm_listener_send (listener, peer, &task, &body, wm_msg_check (zmq_msg_data (&body), 500));
}

static void test_router (void **state)
{
    static _Atomic uint32_t sent[CLOSED_MAX], n_done;
    static uint32_t got[CLOSED_MAX];
    const uint32_t n_each = (uint32_t) proof_size (200, 2000, CLOSED_MAX / WRITERS);
    char endpoint[64];
    wm_error_t error;
    snprintf (endpoint, sizeof endpoint, "ipc://%s/r", folder);
    wm_listener_t *listener =
        wm_listener_new (endpoint, WM_LISTENER_AUTO, NULL, WM_FRAME_BYTES_MAX, &error);
    assert_non_null (listener);
    writer_t writer[WRITERS];
    pthread_t thread[WRITERS];
    for (uint32_t i = 0; i < WRITERS; i++) {
        writer[i] = (writer_t){ i * n_each, n_each, sent, &n_done };
        assert_int_equal (pthread_create (&thread[i], NULL, writer_thread, &writer[i]), 0);
    }
    for (int64_t heard_ms = wm_now_ms (); wm_now_ms () - heard_ms < 500;) {
        const int all_closed = n_done == WRITERS * n_each;
        wm_peer_t *peer;
        wm_listener_wait (listener, 20);
        for (wm_listener_event_t event;
             (event = wm_listener_next (listener, &peer)) != WM_LISTENER_NOTHING;) {
            if (event != WM_LISTENER_MESSAGE)
                continue;
            size_t bytes;
            zmq_msg_t *payload;
            uint64_t check;
            wm_msg_t msg;
            const uint8_t *header = wm_listener_header (listener, peer, &bytes, &payload, &check);
            assert_non_null (header); /* whole, and its two frames belong together */
            assert_int_equal (wm_msg_decode (&msg, header, bytes, &error), WM_OK);
            assert_true (msg.key.input < WRITERS * n_each);
            assert_int_equal (msg.key.batch, got[msg.key.input]++);
            if (!peer->lost) /* a failed answer is its end, and its next message another's first */
                answer (listener, peer, &msg);
            heard_ms = wm_now_ms ();
        }
        if (!all_closed)
            heard_ms = wm_now_ms ();
    }
    for (uint32_t i = 0; i < WRITERS; i++)
        pthread_join (thread[i], NULL);
    for (uint32_t i = 0; i < WRITERS * n_each; i++)
        if (got[i] != sent[i])
            fail_msg ("connection %u: %u of %u messages were read", i, got[i], sent[i]);
    wm_listener_destroy (&listener);
}

int main (void)
{
    setenv ("WM_TIME_SCALE", "2", 1);
    zsys_handler_set (NULL);
    signal (SIGPIPE, SIG_IGN);
    if (!mkdtemp (folder))
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_dealer),
        cmocka_unit_test (test_router),
    };
    int rc = cmocka_run_group_tests_name ("broker_midstream", tests, NULL, NULL);
    zdir_t *dir = zdir_new (folder, NULL);
    zdir_remove (dir, true);
    zdir_destroy (&dir);
    return rc;
}
