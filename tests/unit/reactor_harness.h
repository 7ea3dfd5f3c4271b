/* reactor_harness.h - a broker in a thread, on real sockets and a real folder, and its peers.  */
#ifndef REACTOR_HARNESS_H
#define REACTOR_HARNESS_H

#include "broker/campaign/wm_campaign.h"
#include "broker/wm_reactor.h"
#include "broker/wm_status.h"
#include "schema/session/wm_client.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_HIT 10u
#define N_OUTPUT 2u
#define LIMIT_MS 60000 /* of a wait for what must come */
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

static inline int full_allocate (void *context, int fd, int64_t offset, int64_t bytes)
{
    if (!full)
        return wm_storage_posix.allocate (context, fd, offset, bytes);
    errno = ENOSPC;
    return -1;
}

static inline int full_create (void *context, const char *path)
{
    if (!full)
        return wm_storage_posix.create (context, path);
    errno = ENOSPC;
    return -1;
}

static inline ssize_t full_write (void *context, int fd, const void *buffer, size_t bytes,
                                  int64_t offset)
{
    if (!full)
        return wm_storage_posix.write (context, fd, buffer, bytes, offset);
    errno = ENOSPC;
    return -1;
}

/* ---- the broker ------------------------------------------------------------------------------ */

static inline void *broker_thread (void *argument)
{
    broker_t *b = argument;
    b->fault = wm_reactor_run (b->reactor, &b->stop, &b->error);
    return NULL;
}

static inline void broker_start (broker_t *b)
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

static inline void broker_stop (broker_t *b)
{
    b->stop = 1;
    pthread_join (b->thread, NULL);
    assert_int_equal (b->fault, WM_OK);
    wm_reactor_destroy (&b->reactor);
    wm_campaign_close (&b->campaign);
}

static inline broker_t *broker_new (void)
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

static inline void broker_end (broker_t *b)
{
    broker_stop (b);
    char command[128];
    snprintf (command, sizeof command, "rm -r %s", b->dir);
    assert_int_equal (system (command), 0);
    free (b);
}

/* ---- peers ----------------------------------------------------------------------------------- */

static inline wm_client_t *peer (const broker_t *b, wm_role_t role, const char *label)
{
    wm_error_t error;
    wm_client_t *client = wm_client_new (b->endpoint, role, label, "engine/fp32", NULL);
    wm_client_class (client, "x86-64", 0, 0);
    if (wm_client_open (client, NULL, 0, LIMIT_MS, &error))
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

static inline wm_msg_t must (wm_client_t *client, wm_msg_type_t type)
{
    const wm_msg_t *msg = next (client, type, LIMIT_MS);
    if (!msg)
        fail_msg ("no %s: %s", wm_msg_name (type), wm_client_error (client)->text);
    return *msg;
}

static inline wm_msg_t claim (wm_client_t *producer)
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

static inline void submit (wm_client_t *producer, wm_key_t key, uint32_t n)
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

static inline void feed (wm_client_t *producer, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        wm_msg_t msg = must (producer, WM_MSG_NEED);
        msg.type = WM_MSG_BATCH;
        assert_int_equal (wm_client_send (producer, &msg, "payload", 7), WM_OK);
    }
}

static inline void credit (wm_client_t *worker, uint64_t count)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_CREDIT);
    msg.count = count;
    assert_int_equal (wm_client_send (worker, &msg, NULL, 0), WM_OK);
}

static inline void answer (wm_client_t *worker, const wm_msg_t *task)
{
    uint8_t result[N_HIT * (1 + 4 * N_OUTPUT)] = { 0 };
    result[sizeof result - 1] = 42;
    wm_msg_t msg = *task;
    msg.type = WM_MSG_RESULT;
    assert_int_equal (wm_client_send (worker, &msg, result, sizeof result), WM_OK);
}

static inline json_t *status (const broker_t *b)
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

static inline json_int_t number (const json_t *json, const char *object, const char *key)
{
    const json_t *value = json_object_get (json_object_get (json, object), key);
    assert_true (json_is_integer (value));
    return json_integer_value (value);
}

/* Before the first test of a program.  */
static inline void harness_begin (void)
{
    setenv ("WM_TIME_SCALE", "5", 1);
    zsys_handler_set (NULL);
    signal (SIGPIPE, SIG_IGN);
    ops = wm_storage_posix;
    ops.allocate = full_allocate;
    ops.create = full_create;
    ops.write = full_write;
}

#endif
