/* fake_broker.h - a broker for tests: a ROUTER in a thread that answers as a script says.

   The script is a function that is called for every message of a peer (and every 5 ms without one,
   with count 0) and answers with fake_send. One peer at a time: `peer` is whoever spoke last.  */
#ifndef FAKE_BROKER_H
#define FAKE_BROKER_H

#include "schema/session/wm_msg.h"
#include "schema/wm_pins.h"

#include <assert.h>
#include <czmq.h>
#include <stdatomic.h>

typedef struct fake_t fake_t;
typedef void (fake_script_fn) (fake_t *self, const wm_msg_t *msg, const uint8_t *payload,
                               size_t bytes);

struct fake_t {
    char endpoint[128]; /* the base address, as a client is given it */
    fake_script_fn *script;
    void *argument; /* the script's own */
    zactor_t *actor;
    zsock_t *router;  /* the thread's */
    uint8_t peer[64]; /* routing id of the last connection that sent something */
    size_t peer_bytes;
    struct {
        uint8_t id[64];
        uint64_t n_sent, n_received; /* messages */
    } count[256], *peer_count;       /* of connections, the last; of `peer` */
    size_t n_count;
    wm_pins_t pins;
    uint64_t epoch;
    uint8_t campaign[16];
    atomic_int seen[WM_MSG_TYPE_END]; /* messages received, by type */
    atomic_int undecodable;
};

static inline void fake_frames (fake_t *self, const void *header, size_t header_bytes,
                                const void *payload, size_t payload_bytes)
{
    void *handle = zsock_resolve (self->router);
    zmq_send (handle, self->peer, self->peer_bytes, ZMQ_SNDMORE);
    zmq_send (handle, header, header_bytes, payload ? ZMQ_SNDMORE : 0);
    if (payload)
        zmq_send (handle, payload, payload_bytes, 0);
}

/* Makes the sender of the next message the current peer.  */
static inline void fake_peer (fake_t *self, zframe_t *id)
{
    const size_t n = sizeof self->count / sizeof *self->count;
    assert (zframe_size (id) <= sizeof self->peer);
    memset (self->peer, 0, sizeof self->peer);
    self->peer_bytes = zframe_size (id);
    memcpy (self->peer, zframe_data (id), self->peer_bytes);
    for (size_t i = 0; i < n && i < self->n_count; i++)
        if (memcmp (self->count[i].id, self->peer, sizeof self->peer) == 0) {
            self->peer_count = &self->count[i];
            return;
        }
    self->peer_count = &self->count[self->n_count++ % n];
    memset (self->peer_count, 0, sizeof *self->peer_count);
    memcpy (self->peer_count->id, self->peer, sizeof self->peer);
}

static inline void fake_send (fake_t *self, const wm_msg_t *msg, const void *payload, size_t bytes)
{
    uint8_t header[WM_HEADER_BYTES_MAX];
    const void *body = wm_msg_has_payload (msg->type) ? (payload ? payload : "") : NULL;
    size_t header_bytes = wm_msg_seal (header, wm_msg_encode (msg, header),
                                       wm_msg_check (body, bytes), self->peer_count->n_sent++);
    fake_frames (self, header, header_bytes, body, bytes);
}

static inline void fake_welcome (fake_t *self)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_WELCOME);
    msg.protocol = WM_PROTOCOL;
    msg.epoch = self->epoch;
    memcpy (msg.instance, self->campaign, 16);
    wm_pins_digest (&self->pins, msg.digest);
    char text[WM_PINS_BYTES_MAX];
    fake_send (self, &msg, text, wm_pins_print (&self->pins, text));
}

static inline void fake_code (fake_t *self, wm_msg_type_t type, uint32_t code, const char *text)
{
    wm_msg_t msg;
    wm_msg_init (&msg, type);
    msg.code = code;
    snprintf (msg.text, sizeof msg.text, "%s", text);
    fake_send (self, &msg, NULL, 0);
}

static inline void fake_receive (fake_t *self)
{
    wm_msg_t msg;
    wm_error_t error;
    zmsg_t *message = zmsg_recv (self->router);
    if (!message)
        return;
    zframe_t *peer = zmsg_pop (message), *header = zmsg_pop (message),
             *payload = zmsg_pop (message);
    assert (peer && header);
    fake_peer (self, peer);
    size_t bytes =
        wm_msg_unseal (zframe_data (header), zframe_size (header),
                       payload ? wm_msg_check (zframe_data (payload), zframe_size (payload)) : 0,
                       self->peer_count->n_received++);
    if (!bytes || wm_msg_decode (&msg, zframe_data (header), bytes, &error) ||
        wm_msg_has_payload (msg.type) != (payload != NULL)) {
        self->undecodable++;
    } else {
        self->seen[msg.type]++;
        self->script (self, &msg, payload ? zframe_data (payload) : NULL,
                      payload ? zframe_size (payload) : 0);
    }
    zframe_destroy (&peer);
    zframe_destroy (&header);
    zframe_destroy (&payload);
    zmsg_destroy (&message);
}

static inline void fake_thread (zsock_t *pipe, void *argument)
{
    fake_t *self = argument;
    self->router = zsock_new (ZMQ_ROUTER);
    zsock_set_linger (self->router, 100);
    zsock_set_sndhwm (self->router, 0);
    int bound = zsock_bind (self->router, "%s.w", self->endpoint) >= 0 &&
                zsock_bind (self->router, "%s.p", self->endpoint) >= 0;
    assert (bound);
    zsock_signal (pipe, 0);
    for (;;) {
        zmq_pollitem_t items[] = { { .socket = zsock_resolve (self->router), .events = ZMQ_POLLIN },
                                   { .socket = zsock_resolve (pipe), .events = ZMQ_POLLIN } };
        int rc = zmq_poll (items, 2, 5);
        if (rc > 0 && items[1].revents)
            break;
        if (rc > 0)
            fake_receive (self);
        else if (self->peer_bytes)
            self->script (self, NULL, NULL, 0);
    }
    zsock_destroy (&self->router);
}

/* A broker that plays `script` on a fresh ipc endpoint under `folder`; pins are a small campaign's.
 */
static inline fake_t *fake_new (const char *folder, fake_script_fn *script, void *argument)
{
    static int serial;
    fake_t *self = calloc (1, sizeof *self);
    assert (self);
    snprintf (self->endpoint, sizeof self->endpoint, "ipc://%s/b%d", folder, serial++);
    self->script = script;
    self->argument = argument;
    self->epoch = 7;
    memset (self->campaign, 0xca, sizeof self->campaign);
    memset (self->pins.model, 'a', 64);
    memset (self->pins.wmm, 'b', 64);
    strcpy (self->pins.precision, "fp32");
    self->pins.n_output = 4;
    self->pins.n_value = 9;
    self->pins.batch_hits = 100;
    self->pins.batch_bytes = WM_RAW_BYTES_MAX;
    strcpy (self->pins.output, "/proc/nowhere");
    strcpy (self->pins.spec, "table: t\n");
    return self;
}

static inline void fake_start (fake_t *self)
{
    self->peer_bytes = 0;
    self->actor = zactor_new (fake_thread, self);
    assert (self->actor);
}

/* The broker dies: its sockets close.  */
static inline void fake_stop (fake_t *self)
{
    zactor_destroy (&self->actor);
}

static inline void fake_destroy (fake_t **self_p)
{
    fake_stop (*self_p);
    free (*self_p);
    *self_p = NULL;
}

#endif
