/* test_broker_reactor.c - the broker's loop on real sockets and a real folder: a campaign from
   HELLO to FILE_WRITTEN and over a restart, closed connections, a full disk, hostile peers,
   addresses.  */
#include "broker/wm_campaign.h"
#include "schema/wm_client.h"
#include "broker/wm_reactor.h"
#include "broker/wm_status.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define N_HIT 10u
#define N_OUTPUT 2u
#define MODEL_BYTES (WM_RAW_BYTES_MAX + 1000)

/* A broker in a thread.  */
typedef struct {
    char dir[64], wmm[96], endpoint[96];
    wm_pins_t pins;
    wm_campaign_t campaign;
    wm_reactor_config_t config;
    wm_reactor_t *reactor;
    volatile sig_atomic_t stop;
    pthread_t thread;
    wm_fault_t fault;
    wm_error_t error;
} broker_t;

/* libzmq is not built for the thread sanitizer: what it hands between threads looks unordered. stop
   is a signal's flag, set by another thread here only.  */
const char *__tsan_default_suppressions (void);
const char *__tsan_default_suppressions (void)
{
    return "race:libzmq.so\ncalled_from_lib:libzmq.so\nrace:broker_stop\nrace:wm_reactor_run\n";
}

/* ---- a disk that can be full ----------------------------------------------------------------- */

static atomic_int full;
static wm_storage_ops_t ops;

static int full_allocate (void *context, int fd, int64_t offset, int64_t bytes)
{
    if (!full)
        return wm_storage_posix.allocate (context, fd, offset, bytes);
    errno = ENOSPC;
    return -1;
}

static int full_create (void *context, const char *path)
{
    if (!full)
        return wm_storage_posix.create (context, path);
    errno = ENOSPC;
    return -1;
}

static ssize_t full_write (void *context, int fd, const void *buffer, size_t bytes, int64_t offset)
{
    if (!full)
        return wm_storage_posix.write (context, fd, buffer, bytes, offset);
    errno = ENOSPC;
    return -1;
}

/* ---- the broker ------------------------------------------------------------------------------ */

static void *broker_thread (void *argument)
{
    broker_t *b = argument;
    b->fault = wm_reactor_run (b->reactor, &b->stop, &b->error);
    return NULL;
}

static void broker_start (broker_t *b)
{
    wm_error_t error;
    assert_int_equal (wm_campaign_lock (&b->campaign, b->dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    assert_int_equal (wm_campaign_open (&b->campaign, NULL, &ops, &error), WM_OK);
    b->config = (wm_reactor_config_t){ .endpoint = b->endpoint,
                                       .dir = b->dir,
                                       .wmm = b->wmm,
                                       .pins = &b->pins,
                                       .budget_bytes = 64 << 20 };
    wm_fault_t fault = wm_campaign_start (&b->campaign, &b->pins, &error);
    b->config.epoch = b->campaign.epoch;
    if (fault)
        fail_msg ("%s", error.text);
    b->config.journal = b->campaign.journal;
    b->config.ledger = b->campaign.ledger;
    memcpy (b->config.campaign, b->campaign.id, 16);
    b->reactor = wm_reactor_new (&b->config, &error);
    if (!b->reactor)
        fail_msg ("%s", error.text);
    b->stop = 0;
    assert_int_equal (pthread_create (&b->thread, NULL, broker_thread, b), 0);
}

static void broker_stop (broker_t *b)
{
    b->stop = 1;
    pthread_join (b->thread, NULL);
    assert_int_equal (b->fault, WM_OK);
    wm_reactor_destroy (&b->reactor);
    wm_campaign_close (&b->campaign);
}

static broker_t *broker_new (void)
{
    broker_t *b = calloc (1, sizeof *b);
    strcpy (b->dir, "/tmp/wm-reactor-XXXXXX");
    assert_non_null (mkdtemp (b->dir));
    snprintf (b->wmm, sizeof b->wmm, "%s/model.wmm", b->dir);
    snprintf (b->endpoint, sizeof b->endpoint, "ipc://%s/b", b->dir);
    FILE *file = fopen (b->wmm, "w");
    for (unsigned i = 0; i < MODEL_BYTES; i++)
        putc ((int) (i * 7 & 0xff), file);
    fclose (file);
    memset (b->pins.model, 'a', 64);
    memset (b->pins.wmm, 'b', 64);
    strcpy (b->pins.precision, "fp32");
    b->pins.n_output = N_OUTPUT;
    b->pins.n_value = 1;
    b->pins.batch_hits = 4096;
    b->pins.batch_bytes = WM_RAW_BYTES_MAX;
    strcpy (b->pins.output, "/out");
    strcpy (b->pins.spec, "none: 0\n");
    broker_start (b);
    return b;
}

static void broker_end (broker_t *b)
{
    broker_stop (b);
    char command[128];
    snprintf (command, sizeof command, "rm -r %s", b->dir);
    assert_int_equal (system (command), 0);
    free (b);
}

/* ---- peers ----------------------------------------------------------------------------------- */

static wm_client_t *peer (const broker_t *b, wm_role_t role, const char *label)
{
    wm_error_t error;
    wm_client_t *client = wm_client_new (b->endpoint, role, label, "engine/fp32", NULL);
    wm_client_class (client, "x86-64", 0, 0);
    if (wm_client_open (client, NULL, 0, 3000, &error))
        fail_msg ("%s: %s", label, error.text);
    return client;
}

/* The next message of this type; others are passed over. NULL: none within `ms`.  */
static const wm_msg_t *next (wm_client_t *client, wm_msg_type_t type, int64_t ms)
{
    for (int64_t until = wm_now_ms () + ms; wm_now_ms () < until;) {
        wm_client_event_t event = wm_client_wait (client, until - wm_now_ms ());
        if (event == WM_CLIENT_CLOSED)
            return NULL;
        if (event == WM_CLIENT_MESSAGE && wm_client_msg (client)->type == type)
            return wm_client_msg (client);
    }
    return NULL;
}

static wm_msg_t must (wm_client_t *client, wm_msg_type_t type)
{
    const wm_msg_t *msg = next (client, type, 5000);
    if (!msg)
        fail_msg ("no %s: %s", wm_msg_name (type), wm_client_error (client)->text);
    return *msg;
}

static wm_msg_t claim (wm_client_t *producer)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    msg.size = 1000;
    strcpy (msg.path, "/data/a.h5");
    strcpy (msg.name, "a.scores.h5");
    assert_int_equal (wm_client_send (producer, &msg, NULL, 0), WM_OK);
    return must (producer, WM_MSG_INPUT_ACK);
}

static void submit (wm_client_t *producer, wm_key_t key, uint32_t n)
{
    wm_manifest_batch_t lines[16] = { 0 };
    for (uint32_t i = 0; i < n; i++)
        lines[i] = (wm_manifest_batch_t){ { 1, (uint8_t) i }, N_HIT, 100 };
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = key;
    msg.n_batch = n;
    msg.n_hit = n * N_HIT;
    assert_int_equal (wm_client_send (producer, &msg, lines, n * sizeof *lines), WM_OK);
    must (producer, WM_MSG_SUBMIT_ACK);
}

static void feed (wm_client_t *producer, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        wm_msg_t msg = must (producer, WM_MSG_NEED);
        msg.type = WM_MSG_BATCH;
        assert_int_equal (wm_client_send (producer, &msg, "payload", 7), WM_OK);
    }
}

static void credit (wm_client_t *worker, uint64_t count)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CREDIT);
    msg.count = count;
    assert_int_equal (wm_client_send (worker, &msg, NULL, 0), WM_OK);
}

static void answer (wm_client_t *worker, const wm_msg_t *task)
{
    uint8_t result[N_HIT * (1 + 4 * N_OUTPUT)] = { 0 };
    result[sizeof result - 1] = 42;
    wm_msg_t msg = *task;
    msg.type = WM_MSG_RESULT;
    assert_int_equal (wm_client_send (worker, &msg, result, sizeof result), WM_OK);
}

static json_t *status (const broker_t *b)
{
    wm_client_t *operator= peer (b, WM_ROLE_OPERATOR, "operator");
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_STATUS);
    assert_int_equal (wm_client_send (operator, & msg, NULL, 0), WM_OK);
    must (operator, WM_MSG_STATUS_REPLY);
    size_t bytes;
    const uint8_t *payload = wm_client_payload (operator, & bytes);
    assert_true (bytes <= 60 << 10);
    json_t *json = json_loadb ((const char *) payload, bytes, 0, NULL);
    assert_non_null (json);
    wm_client_close (operator, WM_REASON_DONE, "");
    wm_client_destroy (&operator);
    return json;
}

static json_int_t number (const json_t *json, const char *object, const char *key)
{
    const json_t *value = json_object_get (json_object_get (json, object), key);
    assert_true (json_is_integer (value));
    return json_integer_value (value);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_campaign_and_restart (void **state)
{
    (void) state;
    broker_t *b = broker_new ();
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
    assert_int_equal (wm_client_epoch (worker), 1);
    wm_msg_t input = claim (producer);
    assert_int_equal (input.code, WM_INPUT_CLAIMED);
    submit (producer, input.key, 3);
    credit (worker, 3);
    feed (producer, 3);
    wm_msg_t tasks[3];
    for (int i = 0; i < 3; i++) {
        tasks[i] = must (worker, WM_MSG_TASK);
        size_t payload_bytes;
        assert_memory_equal (wm_client_payload (worker, &payload_bytes), "payload", 7);
        assert_int_equal (payload_bytes, 7);
    }
    for (int i = 0; i < 3; i++) {
        answer (worker, &tasks[i]);
        assert_int_equal (must (worker, WM_MSG_RESULT_ACK).key.batch, tasks[i].key.batch);
    }
    wm_msg_t done = must (producer, WM_MSG_EVENT_DONE);
    wm_msg_t msg = done;
    msg.type = WM_MSG_FETCH;
    msg.key.batch = 2;
    wm_client_send (producer, &msg, NULL, 0);
    wm_msg_t results = must (producer, WM_MSG_RESULTS);
    size_t bytes;
    const uint8_t *payload = wm_client_payload (producer, &bytes);
    assert_int_equal (bytes, wm_result_bytes (N_HIT, N_OUTPUT));
    assert_int_equal (payload[bytes - 1], 42);
    assert_string_equal (results.text, "engine/fp32");
    json_t *json = status (b);
    assert_int_equal (number (json, "batches", "returned"), 3);
    assert_int_equal (number (json, "hits", "done"), 30);
    assert_int_equal (json_integer_value (json_object_get (json, "workers_total")), 1);
    json_decref (json);

    /* A new epoch: what was acknowledged is had, and is fetched as it was. */
    wm_client_destroy (&producer);
    wm_client_destroy (&worker);
    broker_stop (b);
    broker_start (b);
    producer = peer (b, WM_ROLE_PRODUCER, "producer");
    assert_int_equal (wm_client_epoch (producer), 2);
    claim (producer);
    submit (producer, input.key, 3);
    must (producer, WM_MSG_EVENT_DONE);
    wm_client_send (producer, &msg, NULL, 0);
    results = must (producer, WM_MSG_RESULTS);
    payload = wm_client_payload (producer, &bytes);
    assert_int_equal (payload[bytes - 1], 42);

    wm_msg_init (&msg, WM_MSG_INPUT_END);
    msg.key = input.key;
    msg.count = 1;
    wm_client_send (producer, &msg, NULL, 0);
    must (producer, WM_MSG_ACK);
    wm_msg_init (&msg, WM_MSG_FILE_WRITTEN);
    msg.key = input.key;
    msg.size = 4711;
    wm_client_send (producer, &msg, NULL, 0);
    must (producer, WM_MSG_ACK);
    wm_client_destroy (&producer);
    broker_stop (b);
    broker_start (b);
    producer = peer (b, WM_ROLE_PRODUCER, "producer");
    msg = claim (producer);
    assert_int_equal (msg.code, WM_INPUT_WRITTEN);
    assert_int_equal (msg.size, 4711);
    json = status (b);
    assert_int_equal (number (json, "inputs", "written"), 1);
    assert_int_equal (number (json, "hits", "done"), 30);
    assert_int_equal (number (json, "events", "written"), 1);
    json_decref (json);
    wm_client_destroy (&producer);
    broker_end (b);
}

static void test_closed_connection (void **state)
{
    (void) state;
    broker_t *b = broker_new ();
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_client_t *first = peer (b, WM_ROLE_WORKER, "first");
    wm_client_t *second = peer (b, WM_ROLE_WORKER, "second");
    wm_msg_t input = claim (producer);
    submit (producer, input.key, 1);
    credit (first, 1);
    feed (producer, 1);
    wm_msg_t task = must (first, WM_MSG_TASK);
    credit (second, 1);
    int64_t then = wm_now_ms ();
    wm_client_destroy (&first); /* as if killed: no BYE */
    wm_msg_t again = must (second, WM_MSG_TASK);
    int64_t took = wm_now_ms () - then;
    assert_true (took >= wm_times ()->reconnect_ms);
    assert_int_equal (again.key.batch, task.key.batch);
    answer (second, &again);
    must (producer, WM_MSG_EVENT_DONE);
    /* A claim dies with its connection at once. */
    wm_client_t *other = peer (b, WM_ROLE_PRODUCER, "other");
    assert_int_equal (claim (other).code, WM_INPUT_BUSY);
    wm_client_destroy (&producer);
    int claimed = 0;
    for (int i = 0; i < 100 && !claimed; i++)
        claimed = claim (other).code == WM_INPUT_CLAIMED;
    assert_true (claimed);
    wm_client_destroy (&other);
    wm_client_destroy (&second);
    broker_end (b);
}

/* What a worker says last counts, although its connection is closed by then.  */
static void test_last_words (void **state)
{
    (void) state;
    broker_t *b = broker_new ();
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_msg_t input = claim (producer);
    submit (producer, input.key, 8);
    for (int i = 0; i < 5; i++) {
        wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
        credit (worker, 1);
        feed (producer, i ? 1 : 2); /* two are asked for ahead */
        wm_msg_t task = must (worker, WM_MSG_TASK);
        answer (worker, &task);
        wm_client_close (worker, WM_REASON_DRAINED, "");
        wm_client_destroy (&worker);
    }
    json_t *json = status (b);
    for (int i = 0; i < 100 && number (json, "batches", "returned") < 5; i++) {
        json_decref (json);
        json = status (b);
    }
    assert_int_equal (number (json, "batches", "returned"), 5);
    assert_int_equal (number (json, "counters", "n_lost"), 0);
    json_decref (json);
    wm_client_destroy (&producer);
    broker_end (b);
}

static void test_disk_full (void **state)
{
    (void) state;
    broker_t *b = broker_new ();
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
    wm_msg_t input = claim (producer);
    submit (producer, input.key, 2);
    credit (worker, 1);
    feed (producer, 2);
    wm_msg_t task = must (worker, WM_MSG_TASK);
    full = 1;
    answer (worker, &task);
    assert_null (next (worker, WM_MSG_RESULT_ACK, 400));
    credit (worker, 2);
    assert_null (next (worker, WM_MSG_TASK, 400)); /* nothing is handed out */
    json_t *json = status (b);
    assert_string_equal (json_string_value (json_object_get (json, "waiting_for")), "disk full");
    json_decref (json);
    full = 0;
    wm_msg_t second = must (worker, WM_MSG_TASK);
    assert_int_equal (must (worker, WM_MSG_RESULT_ACK).key.batch, task.key.batch);
    task = second;
    answer (worker, &task);
    must (worker, WM_MSG_RESULT_ACK);
    must (producer, WM_MSG_EVENT_DONE);
    wm_client_destroy (&producer);
    wm_client_destroy (&worker);
    broker_end (b);
}

static void test_model (void **state)
{
    (void) state;
    broker_t *b = broker_new ();
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
    static const uint64_t offsets[] = { 0, WM_RAW_BYTES_MAX, 2 * WM_RAW_BYTES_MAX, UINT64_MAX };
    static const size_t sizes[] = { WM_RAW_BYTES_MAX, 1000, 0, 0 };
    for (int i = 0; i < 4; i++) {
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_MODEL_GET);
        msg.offset = offsets[i];
        wm_client_send (worker, &msg, NULL, 0);
        msg = must (worker, WM_MSG_MODEL);
        size_t bytes;
        const uint8_t *payload = wm_client_payload (worker, &bytes);
        assert_int_equal (bytes, sizes[i]);
        assert_true (msg.size == MODEL_BYTES && msg.offset == offsets[i]);
        if (bytes)
            assert_int_equal (payload[bytes - 1], ((offsets[i] + bytes - 1) * 7) & 0xff);
    }
    wm_client_destroy (&worker);
    broker_end (b);
    /* Where the broker cannot read the model it disconnects the worker, which asks again.  */
    b = broker_new ();
    worker = peer (b, WM_ROLE_WORKER, "worker");
    assert_int_equal (truncate (b->wmm, 10), 0);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_MODEL_GET);
    wm_client_send (worker, &msg, NULL, 0);
    assert_int_equal (wm_client_wait (worker, 5000), WM_CLIENT_CLOSED);
    assert_int_equal (wm_client_error (worker)->fault, WM_EAGAIN);
    wm_client_destroy (&worker);
    broker_end (b);
}

/* A peer of libzmq's that does not reconnect (-1 would lose what it has not read: wm_client.c).  */
static const int never_ms = 1000000000;

/* Who connects and says nothing keeps no descriptor, nor does one who was refused.  */
static void test_silent_peers (void **state)
{
    (void) state;
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
            zmq_send (socket[i], hello, wm_msg_seal (hello, wm_msg_encode (&msg, hello), 0), 0);
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
    size_t header = bytes > 0 ? wm_msg_unseal (frame, (size_t) bytes, 0) : 0;
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
    (void) state;
    broker_t *b = broker_new ();
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "honest");
    static const uint8_t deep[] = { 0x9f, 0x9f, 0x9f, 0xdd, 0xff, 0xff, 0xff, 0xff };
    uint8_t hello[WM_HEADER_BYTES_MAX], deep_sealed[WM_HEADER_BYTES_MAX];
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = WM_ROLE_WORKER;
    size_t header = wm_msg_encode (&msg, hello), bytes = wm_msg_seal (hello, header, 0);
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
        size_t n = wm_msg_seal (deep_sealed, 1, 0);
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
    (void) state;
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

static void raw_send (void *socket, const wm_msg_t *msg, const void *payload, size_t bytes)
{
    uint8_t frame[WM_HEADER_BYTES_MAX];
    const size_t header = wm_msg_encode (msg, frame);
    const size_t n = wm_msg_seal (frame, header, payload ? wm_msg_check (payload, bytes) : 0);
    assert_int_equal (zmq_send (socket, frame, n, payload ? ZMQ_SNDMORE : 0), n);
    if (payload)
        assert_int_equal (zmq_send (socket, payload, bytes, 0), bytes);
}

/* The broker disconnects a producer that keeps asking for results and reads none of them, before
   they take much memory: it has each in memory until the connection took it.  */
static void test_unread_results (void **state)
{
    (void) state;
    broker_t *b = broker_new ();
    const wm_manifest_batch_t line = { { 1 }, LARGE_HITS, 100 };
    wm_msg_t msg;
    char address[128];
    const wm_key_t key = large_result (b, &line);
    snprintf (address, sizeof address, "%s.p", b->endpoint);
    void *context = zmq_ctx_new (), *socket = zmq_socket (context, ZMQ_DEALER);
    const int one = 1, none = 0;
    zmq_setsockopt (socket, ZMQ_RCVHWM, &one, sizeof one);
    zmq_setsockopt (socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt (socket, ZMQ_RECONNECT_IVL, &never_ms, sizeof never_ms);
    assert_int_equal (zmq_connect (socket, address), 0);
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = WM_ROLE_PRODUCER;
    msg.instance[0] = 1;
    raw_send (socket, &msg, "", 0);
    wm_msg_init (&msg, WM_MSG_INPUT);
    msg.code = 1;
    msg.size = 1000;
    strcpy (msg.path, "/data/a.h5");
    strcpy (msg.name, "a.scores.h5");
    raw_send (socket, &msg, NULL, 0);
    wm_msg_init (&msg, WM_MSG_SUBMIT);
    msg.key = key;
    msg.n_batch = 1;
    msg.n_hit = LARGE_HITS;
    raw_send (socket, &msg, &line, sizeof line);
    wm_msg_init (&msg, WM_MSG_FETCH);
    msg.key = key;
    for (int i = 0; i < FETCHES; i++)
        raw_send (socket, &msg, NULL, 0);
    size_t producers = 1; /* libzmq does not notice the end of a connection that it does not read */
    for (int i = 0; i < 400 && producers; i++) {
        zclock_sleep (50);
        wm_msg_init (&msg, WM_MSG_HEARTBEAT); /* it is alive */
        raw_send (socket, &msg, NULL, 0);
        json_t *json = status (b);
        producers = json_array_size (json_object_get (json, "producers"));
        json_decref (json);
    }
    assert_int_equal (producers, 0);
    zmq_close (socket);
    zmq_ctx_term (context);
    broker_end (b);
}

static void test_addresses (void **state)
{
    (void) state;
    broker_t *b = broker_new ();
    broker_stop (b);
    static const char *const bad[] = { "tcp://127.0.0.1",
                                       "tcp://127.0.0.1:x",
                                       "tcp://:5555",
                                       "tcp://127.0.0.1:65534",
                                       "ipc://",
                                       "udp://x:1",
                                       "",
                                       "tcp://no.such.host.invalid:5555",
                                       "ipc:///no/such/folder/b" };
    wm_error_t error;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal (wm_campaign_lock (&b->campaign, b->dir, WM_CAMPAIGN_SERVE, 0, &error),
                          WM_OK);
        assert_int_equal (wm_campaign_open (&b->campaign, NULL, &ops, &error), WM_OK);
        assert_int_equal (wm_campaign_start (&b->campaign, &b->pins, &error), WM_OK);
        b->config.journal = b->campaign.journal;
        b->config.ledger = b->campaign.ledger;
        b->config.endpoint = bad[i];
        if (wm_reactor_new (&b->config, &error))
            fail_msg ("%s was bound", bad[i]);
        assert_int_equal (error.fault, WM_EHOST);
        wm_campaign_close (&b->campaign);
    }
    strcpy (b->endpoint, "tcp://127.0.0.1:0");
    broker_start (b);
    strcpy (b->endpoint, wm_reactor_endpoint (b->reactor));
    wm_client_t *worker = peer (b, WM_ROLE_WORKER, "worker");
    wm_client_t *producer = peer (b, WM_ROLE_PRODUCER, "producer");
    wm_client_destroy (&worker);
    wm_client_destroy (&producer);
    broker_end (b);
}

static void test_one_master (void **state)
{
    (void) state;
    broker_t *b = broker_new ();
    wm_campaign_t second;
    wm_error_t error;
    int64_t then = wm_now_ms ();
    assert_int_equal (wm_campaign_lock (&second, b->dir, WM_CAMPAIGN_SERVE, 300, &error),
                      WM_EAGAIN);
    assert_true (wm_now_ms () - then >= 300);
    char pid[32];
    snprintf (pid, sizeof pid, "%d", (int) getpid ());
    assert_non_null (strstr (error.text, pid));
    broker_stop (b);
    wm_pins_t other = b->pins;
    strcpy (other.precision, "fast");
    assert_int_equal (wm_campaign_lock (&b->campaign, b->dir, WM_CAMPAIGN_SERVE, 0, &error), WM_OK);
    assert_int_equal (wm_campaign_open (&b->campaign, NULL, &ops, &error), WM_OK);
    assert_int_equal (wm_campaign_start (&b->campaign, &other, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "precision"));
    wm_campaign_close (&b->campaign);
    broker_start (b);
    broker_end (b);
}

/* The largest there can be, with every character escaped, is cut to what operators accept.  */
static void test_status_is_bounded (void **state)
{
    (void) state;
    static wm_summary_t s;
    static char path[256];
    memset (path, '"', sizeof path - 1);
    strcpy (s.worker[0].health, "{\"gpu\": \"a\\nforged: line\"}");
    s.state = "running";
    s.n_worker = 1000;
    s.n_worker_listed = s.n_producer_listed = WM_SUMMARY_PEERS_MAX;
    s.n_held = WM_SUMMARY_HELD_MAX;
    for (int i = 0; i < WM_SUMMARY_PEERS_MAX; i++) {
        memset (s.worker[i].label, 1, sizeof s.worker[i].label - 1);
        memset (s.worker[i].signature, '"', sizeof s.worker[i].signature - 1);
        s.worker[i].state = "busy";
        memset (s.producer[i].label, 0xff, sizeof s.producer[i].label - 1); /* not UTF-8 */
        s.producer[i].input = path;
        memset (s.producer[i].waits, 'w', sizeof s.producer[i].waits - 1);
    }
    for (int i = 0; i < WM_SUMMARY_HELD_MAX; i++)
        memset (s.held[i].reason, '\n', sizeof s.held[i].reason - 1);
    static const uint8_t id[16];
    static const wm_pins_t pins;
    char *json = wm_status_json (&s, &(wm_status_about_t){ .campaign = id, .pins = &pins });
    assert_non_null (json);
    assert_true (strlen (json) <= WM_STATUS_BYTES_MAX);
    json_t *parsed = json_loads (json, 0, NULL);
    assert_int_equal (json_integer_value (json_object_get (parsed, "workers_total")), 1000);
    const json_t *workers = json_object_get (parsed, "workers");
    assert_true (json_array_size (workers) > 10);
    const json_t *gpu = json_object_get (json_array_get (workers, 0), "gpu");
    assert_string_equal (json_string_value (json_object_get (gpu, "gpu")), "a?forged: line");
    assert_null (
        strstr (json, "\\n")); /* no line break of anybody's words, nor what steers a terminal */
    assert_null (strstr (json, "\\u00"));
    json_decref (parsed);
    free (json);
}

int main (void)
{
    setenv ("WM_TIME_SCALE", "5", 1);
    zsys_handler_set (NULL);
    signal (SIGPIPE, SIG_IGN);
    ops = wm_storage_posix;
    ops.allocate = full_allocate;
    ops.create = full_create;
    ops.write = full_write;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (test_campaign_and_restart),
        cmocka_unit_test (test_closed_connection),
        cmocka_unit_test (test_last_words),
        cmocka_unit_test (test_disk_full),
        cmocka_unit_test (test_model),
        cmocka_unit_test (test_silent_peers),
        cmocka_unit_test (test_hostile_peers),
        cmocka_unit_test (test_unread_answers),
        cmocka_unit_test (test_unread_results),
        cmocka_unit_test (test_addresses),
        cmocka_unit_test (test_one_master),
        cmocka_unit_test (test_status_is_bounded),
    };
    return cmocka_run_group_tests_name ("broker_reactor", tests, NULL, NULL);
}
