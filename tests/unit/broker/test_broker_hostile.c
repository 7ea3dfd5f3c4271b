/* test_broker_hostile.c - the broker's loop against peers that say nothing, send rubbish, or never
   read what they asked for.  */
#include "tests/unit/reactor_harness.h"

/* A peer of libzmq's that does not reconnect (-1 would lose what it has not read: wm_client.c).  */
static const int never_ms = 1000000000;

/* Who connects and says nothing keeps no descriptor, nor does one who was refused.  */
static void test_silent_peers (void **state)
{
    enum { N = 30 };
    broker_t *b = broker_new ();
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "honest");
    void *context = zmq_ctx_new (), *monitor[N], *socket[N];
    const int linger = 0, timeout_ms = 10000;
    for (int i = 0; i < N; i++) {
        char address[128], name[32];
        snprintf (address, sizeof address, "%s.%c", b->endpoint, "wpo"[i % 3]);
        snprintf (name, sizeof name, "inproc://silent-%d", i);
        socket[i] = zmq_socket (context, ZMQ_DEALER);
        monitor[i] = zmq_socket (context, ZMQ_PAIR);
        zmq_setsockopt (socket[i], ZMQ_LINGER, &linger, sizeof linger);
        zmq_setsockopt (socket[i], ZMQ_RECONNECT_IVL, &never_ms, sizeof never_ms);
        zmq_setsockopt (monitor[i], ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
        assert_int_equal (zmq_socket_monitor (socket[i], name, ZMQ_EVENT_DISCONNECTED), 0);
        assert_int_equal (zmq_connect (monitor[i], name), 0);
        assert_int_equal (zmq_connect (socket[i], address), 0);
        if (i >= N / 2) { /* a HELLO without its payload */
            uint8_t hello[WM_HEADER_BYTES_MAX];
            wm_msg_t msg;
            wm_msg_init (&msg, WM_MSG_HELLO);
            zmq_send (socket[i], hello, wm_msg_seal (hello, wm_msg_encode (&msg, hello), 0, 0), 0);
        }
    }
    for (int i = 0; i < N; i++) {
        char event[6];
        credit (worker, (uint64_t) i + 1); /* the honest one is not cut off for them */
        assert_int_equal (zmq_recv (monitor[i], event, sizeof event, 0), 6);
        zmq_socket_monitor (socket[i], NULL, 0);
        zmq_close (socket[i]);
        zmq_close (monitor[i]);
    }
    zmq_ctx_term (context);
    json_t *json = status (b);
    assert_int_equal (json_integer_value (json_object_get (json, "workers_total")), 1);
    json_decref (json);
    wm_client_destroy (&worker);
    broker_end (b);
}

typedef enum { REJECTED, DISCONNECTED, ACCEPTED } fate_t;

/* Sends frames of these sizes, the first with `first` in it; returns what becomes of it: a REJECT,
   the end of the connection, or neither.  */
static fate_t hostile (const broker_t *b, const char *listener, const void *first,
                       size_t first_bytes, size_t n_more, size_t more_bytes)
{
    char address[128];
    snprintf (address, sizeof address, "%s.%s", b->endpoint, listener);
    void *context = zmq_ctx_new (), *socket = zmq_socket (context, ZMQ_DEALER),
         *monitor = zmq_socket (context, ZMQ_PAIR);
    int linger = 0, timeout_ms = 1000;
    zmq_setsockopt (socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt (socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    zmq_setsockopt (socket, ZMQ_RECONNECT_IVL, &never_ms, sizeof never_ms);
    zmq_setsockopt (monitor, ZMQ_LINGER, &linger, sizeof linger);
    assert_int_equal (zmq_socket_monitor (socket, "inproc://end", ZMQ_EVENT_DISCONNECTED), 0);
    assert_int_equal (zmq_connect (monitor, "inproc://end"), 0);
    assert_int_equal (zmq_connect (socket, address), 0);
    uint8_t *more = calloc (1, more_bytes + 1);
    zmq_send (socket, first, first_bytes, n_more ? ZMQ_SNDMORE : 0);
    for (size_t i = 0; i < n_more; i++)
        zmq_send (socket, more, more_bytes, i + 1 < n_more ? ZMQ_SNDMORE : 0);
    uint8_t frame[WM_HEADER_BYTES_MAX];
    wm_msg_t msg;
    zmq_pollitem_t items[] = { { .socket = socket, .events = ZMQ_POLLIN },
                               { .socket = monitor, .events = ZMQ_POLLIN } };
    zmq_poll (items, 2, timeout_ms);
    int bytes = zmq_recv (socket, frame, sizeof frame, ZMQ_DONTWAIT);
    size_t header = bytes > 0 ? wm_msg_unseal (frame, (size_t) bytes, 0, 0) : 0;
    fate_t fate = items[1].revents ? DISCONNECTED : ACCEPTED;
    if (header && wm_msg_decode (&msg, frame, header, NULL) == WM_OK && msg.type == WM_MSG_REJECT &&
        msg.code == WM_REASON_PROTOCOL)
        fate = REJECTED;
    free (more);
    zmq_socket_monitor (socket, NULL, 0);
    zmq_close (socket);
    zmq_close (monitor);
    zmq_ctx_term (context);
    return fate;
}

static void test_hostile_peers (void **state)
{
    broker_t *b = broker_new ();
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "honest");
    static const uint8_t deep[] = { 0x9f, 0x9f, 0x9f, 0xdd, 0xff, 0xff, 0xff, 0xff };
    uint8_t hello[WM_HEADER_BYTES_MAX], deep_sealed[WM_HEADER_BYTES_MAX];
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = WM_ROLE_WORKER;
    size_t header = wm_msg_encode (&msg, hello), bytes = wm_msg_seal (hello, header, 0, 0);
    for (int i = 0; i < 3; i++) {
        const char *listener = (const char *[]){ "w", "p", "o" }[i];
        assert_int_equal (hostile (b, listener, "", 0, 0, 0), DISCONNECTED);
        assert_int_equal (hostile (b, listener, "GET / HTTP/1.1", 14, 0, 0), DISCONNECTED);
        assert_int_equal (hostile (b, listener, deep, sizeof deep, 1, 10), DISCONNECTED);
        assert_int_equal (hostile (b, listener, hello, bytes, 0, 0),
                          REJECTED); /* without payload */
        assert_int_equal (hostile (b, listener, hello, bytes, 2, 0),
                          DISCONNECTED); /* a frame too many */
        assert_int_equal (hostile (b, listener, hello, bytes, 1000, 0),
                          DISCONNECTED); /* very many */
        assert_int_equal (hostile (b, listener, hello, bytes - 1, 0, 0), DISCONNECTED);
        assert_int_equal (hostile (b, listener, hello, bytes, 1, 1),
                          DISCONNECTED); /* not the one sealed */
        assert_int_equal (hostile (b, listener, hello, bytes, 1, 5 << 20),
                          DISCONNECTED); /* the library */
        deep_sealed[0] = 0x9f;
        size_t n = wm_msg_seal (deep_sealed, 1, 0, 0);
        assert_int_equal (hostile (b, listener, deep_sealed, n, 0, 0), REJECTED);
    }
    credit (worker, 1); /* the honest one is still heard */
    json_t *json = status (b);
    assert_int_equal (json_integer_value (json_object_get (json, "workers_total")), 1);
    json_decref (json);
    wm_client_destroy (&worker);
    broker_end (b);
}

/* The broker disconnects an operator who keeps asking and never reads an answer, before many
   answers wait in memory.  */
static void test_unread_answers (void **state)
{
    broker_t *b = broker_new ();
    wm_client_t *greedy = peer (b, WM_ROLE_OPERATOR, "greedy");
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_STATUS);
    /* A broker that is slow (sanitized, on a loaded machine) needs longer until much waits.  */
    for (int pause_ms = 20; wm_client_is_open (greedy) && pause_ms < 10000; pause_ms *= 2) {
        for (int i = 0; i < 4000 && wm_client_send (greedy, &msg, NULL, 0) == WM_OK; i++)
            if (i % 500 == 0)
                zclock_sleep (pause_ms);
        while (wm_client_is_open (greedy) && wm_client_wait (greedy, 2000) == WM_CLIENT_MESSAGE)
            ;
    }
    assert_false (wm_client_is_open (greedy));
    json_decref (status (b));
    wm_client_destroy (&greedy);
    broker_end (b);
}

enum { LARGE_HITS = 240000, FETCHES = 60 }; /* a result of 4 MB, 240 MB in all */

/* An event with one large batch, scored.  */
static wm_key_t large_result (const broker_t *b, const wm_manifest_batch_t *line)
{
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
    const wm_key_t key = claim (producer).key;
    const size_t bytes = wm_result_bytes (LARGE_HITS, N_OUTPUT);
    uint8_t *result = calloc (1, bytes);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = key;
    msg.n_batch = 1;
    msg.n_hit = LARGE_HITS;
    assert_int_equal (wm_client_send (producer, &msg, line, sizeof *line), WM_OK);
    must (producer, WM_MSG_SUBMIT_ACK);
    credit (worker, 1);
    feed (producer, 1);
    msg = must (worker, WM_MSG_TASK);
    msg.type = WM_MSG_RESULT;
    assert_int_equal (wm_client_send (worker, &msg, result, bytes), WM_OK);
    must (producer, WM_MSG_EVENT_DONE);
    free (result);
    wm_client_destroy (&producer);
    wm_client_destroy (&worker);
    return key;
}

/* number: of messages sent before over this socket */
static void raw_send (void *socket, uint64_t number, const wm_msg_t *msg, const void *payload,
                      size_t bytes)
{
    uint8_t frame[WM_HEADER_BYTES_MAX];
    const size_t header = wm_msg_encode (msg, frame);
    const size_t n =
        wm_msg_seal (frame, header, payload ? wm_msg_check (payload, bytes) : 0, number);
    assert_int_equal (zmq_send (socket, frame, n, payload ? ZMQ_SNDMORE : 0), n);
    if (payload)
        assert_int_equal (zmq_send (socket, payload, bytes, 0), bytes);
}

/* The broker disconnects a producer that keeps asking for results and reads none of them, before
   they take much memory: it has each in memory until the connection took it.  */
static void test_unread_results (void **state)
{
    broker_t *b = broker_new ();
    const wm_manifest_batch_t line = { { 1 }, LARGE_HITS, 100 };
    wm_msg_t msg;
    char address[128];
    const wm_key_t key = large_result (b, &line);
    snprintf (address, sizeof address, "%s.p", b->endpoint);
    void *context = zmq_ctx_new (), *socket = zmq_socket (context, ZMQ_DEALER);
    const int one = 1, none = 0;
    uint64_t number = 0;
    zmq_setsockopt (socket, ZMQ_RCVHWM, &one, sizeof one);
    zmq_setsockopt (socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt (socket, ZMQ_RECONNECT_IVL, &never_ms, sizeof never_ms);
    assert_int_equal (zmq_connect (socket, address), 0);
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = WM_ROLE_PRODUCER;
    msg.instance[0] = 1;
    raw_send (socket, number++, &msg, "", 0);
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    msg.size = 1000;
    strcpy (msg.path, "/data/a.h5");
    strcpy (msg.name, "a.scores.h5");
    raw_send (socket, number++, &msg, NULL, 0);
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = key;
    msg.n_batch = 1;
    msg.n_hit = LARGE_HITS;
    raw_send (socket, number++, &msg, &line, sizeof line);
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = key;
    for (int i = 0; i < FETCHES; i++)
        raw_send (socket, number++, &msg, NULL, 0);
    size_t producers = 1; /* libzmq does not notice the end of a connection that it does not read */
    for (int i = 0; i < 400 && producers; i++) {
        zclock_sleep (50);
        wm_msg_init (&msg, WM_MSG_HEARTBEAT); /* it is alive */
        raw_send (socket, number++, &msg, NULL, 0);
        json_t *json = status (b);
        producers = json_array_size (json_object_get (json, "producers"));
        json_decref (json);
    }
    assert_int_equal (producers, 0);
    zmq_close (socket);
    zmq_ctx_term (context);
    broker_end (b);
}

int main (void)
{
    harness_begin ();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_silent_peers),
        cmocka_unit_test (test_hostile_peers),
        cmocka_unit_test (test_unread_answers),
        cmocka_unit_test (test_unread_results),
    };
    return cmocka_run_group_tests_name ("broker_hostile", tests, NULL, NULL);
}
