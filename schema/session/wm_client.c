/* wm_client.c - a session with a broker: connect, HELLO, WELCOME, messages, the end.

   The library does not report in its own calls that a connection is closed: the DEALER's pipe
   outlives the connection, keeps what has arrived readable, and accepts messages that will never be
   sent. So every session's DEALER has a monitor socket, and its DISCONNECTED or CLOSED is the end
   of the session: wm_client_send reads the monitor first, and wm_client_wait returns the messages
   that have arrived before it reports the end.

   States:  CLOSED --wm_client_open--> OPENING --WELCOME--> OPEN
            any end (session_end) goes back to CLOSED and leaves its reason in `error`.

   Absent on purpose: ZMQ_HEARTBEAT (libzmq 4.3.4 aborts with it when a reader pauses), routing ids
   (two peers with the same id lose messages), reconnection and resending inside a session.  */
#include "schema/session/wm_client.h"
#include "schema/base/wm_restart.h"
#include "schema/base/wm_tcp.h"
#include "schema/session/wm_client_private.h"
#include "schema/session/wm_endpoint.h"
#include "schema/wm_trace.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

enum {
    FILES_MIN = 32,  /* descriptors: libzmq's, sockets, an engine, some inputs */
    SEND_HWM = 4096, /* more than a broker's budget asks of one peer: at this mark the broker hangs,
                        and the session ends */
    LINGER_MS = 500, /* enough for a BYE; results are kept by their owner until acknowledged */
    /* No reconnection: a session that lost its connection is closed long before 11 days have
       passed. The library adds up to as much at random; both together stay below 2^31. Not -1, the
       library's own "never": then libzmq 4.3.4 ends the DEALER's pipe as soon as it handles the
       close. Unread messages are lost, and if take_frames is between two frames of a message, the
       library aborts the process ("Assertion failed: !_more (src/fq.cpp:112)").  */
    RECONNECT_MS = 1000000000,
};

typedef enum { CLOSED, OPENING, OPEN } state_t;

struct wm_client_t {
    char *endpoint, *label, *signature;
    char last[WM_ADDRESS_BYTES];        /* numeric, of the last session that was opened; "" */
    char class[WM_CLASS_BYTES_MAX + 1]; /* a worker's, of machines; with it: */
    double measured;
    uint32_t n_hit;
    wm_role_t role;
    int extra; /* a descriptor of the owner's, -1 for none */
    uint8_t instance[16];

    state_t state;
    zsock_t *socket, *monitor;
    wm_client_key_t key;         /* that is tried now */
    int fd;                      /* of the connection, libzmq's; -1: not known yet */
    uint64_t n_sent, n_received; /* messages of this connection */
    bool disconnected;           /* the monitor reported the close; messages may still be queued */
    bool extra_first;   /* the owner's descriptor is next, so that a busy broker cannot starve it */
    bool interruptible; /* opening ends when zsys_interrupted is set */
    int64_t received_ms, sent_ms, checked_ms;
    int64_t silence_ms; /* that ends a session */
    int64_t silent_ms;  /* that ended the last one, 0: something else did */
    int64_t whole_ms;   /* of the last whole message; received_ms counts parts, too */
    wm_tcp_flow_t flow;
    char shape[WM_TEXT_BYTES_MAX + 1];
    wm_wait_t wait;                     /* of the owner, for heartbeats */
    char status[WM_TEXT_BYTES_MAX + 1]; /* likewise: its text */
    wm_error_t error;
    wm_reason_t reason;

    wm_msg_t msg;
    zmq_msg_t header, payload;
    bool has_payload;

    bool wants_sample;
    uint64_t epoch;
    uint8_t campaign[16], pins_digest[16];
    wm_pins_t pins;
};

wm_client_t *wm_client_new (const char *endpoint, wm_role_t role, const char *label,
                            const char *signature, const int *extra)
{
    assert (endpoint && label && role >= WM_ROLE_WORKER && role <= WM_ROLE_MONITOR);
    wm_client_t *self = calloc (1, sizeof *self);
    assert (self);
    self->endpoint = strdup (endpoint);
    self->label = strdup (label);
    self->signature = strdup (signature ? signature : WM_VERSION);
    assert (self->endpoint && self->label && self->signature);
    self->role = role == WM_ROLE_MONITOR ? WM_ROLE_OPERATOR : role;
    self->key.least = role;
    self->silence_ms = wm_times ()->silence_ms;
    self->extra = extra ? *extra : -1;
    int rc = sodium_init ();
    assert (rc >= 0);
    randombytes_buf (self->instance, sizeof self->instance);
    zmq_msg_init (&self->header);
    zmq_msg_init (&self->payload);
    return self;
}

/* Closes the sockets; queued messages have linger_ms to leave. Nothing leaves over a closed
   connection: lingering would only delay the end of the process.  */
static void sockets_close (wm_client_t *self, int linger_ms)
{
    if (self->socket) {
        zmq_socket_monitor (zsock_resolve (self->socket), NULL, 0);
        zsock_set_linger (self->socket, self->disconnected ? 0 : linger_ms);
    }
    zsock_destroy (&self->monitor);
    zsock_destroy (&self->socket);
    self->state = CLOSED;
}

static wm_fault_t session_end (wm_client_t *self, wm_fault_t fault, const char *format, ...)
    __attribute__ ((format (printf, 3, 4)));
static wm_fault_t session_end (wm_client_t *self, wm_fault_t fault, const char *format, ...)
{
    char text[sizeof self->error.text];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    sockets_close (self, fault == WM_EPEER ? LINGER_MS : 0);
    return wm_fault (&self->error, fault, "%s", text);
}

void wm_client_class (wm_client_t *self, const char *class, double error, uint32_t n_hit)
{
    snprintf (self->class, sizeof self->class, "%s", class);
    self->measured = error;
    self->n_hit = n_hit;
}

void wm_client_keys_of (wm_client_t *self, const char *campaign)
{
    self->key.of = campaign;
}

bool wm_client_wants_sample (const wm_client_t *self)
{
    return self->wants_sample;
}

void wm_client_destroy (wm_client_t **self_p)
{
    wm_client_t *self = *self_p;
    if (!self)
        return;
    sockets_close (self, 0);
    zmq_msg_close (&self->header);
    zmq_msg_close (&self->payload);
    free (self->endpoint);
    free (self->label);
    free (self->signature);
    free (self);
    *self_p = NULL;
}

/* ---- the socket ------------------------------------------------------------------------------ */

static wm_fault_t sockets_open (wm_client_t *self, const char *address, int64_t timeout_ms)
{
    static _Atomic unsigned serial;
    const wm_times_t *times = wm_times ();
    self->socket = zsock_new (ZMQ_DEALER);
    self->monitor = zsock_new (ZMQ_PAIR);
    if (!self->socket || !self->monitor)
        return session_end (self, WM_EAGAIN, "no socket for %s: %s", self->endpoint,
                            strerror (errno));
    zsock_set_linger (self->socket, LINGER_MS);
    zsock_set_reconnect_ivl (self->socket, RECONNECT_MS);
    zsock_set_ipv6 (self->socket, 1);
    zsock_set_sndhwm (self->socket, SEND_HWM);
    zsock_set_maxmsgsize (self->socket, self->role == WM_ROLE_OPERATOR ? (int) WM_CONTROL_BYTES_MAX
                                                                       : (int) WM_FRAME_BYTES_MAX);
    zsock_set_handshake_ivl (self->socket, (int) times->handshake_ms);
    zsock_set_connect_timeout (self->socket, (int) timeout_ms);
    /* A peer whose machine died sends nothing: the kernel notices (MAXRT while data is being sent,
       keepalive otherwise).  */
    zsock_set_tcp_maxrt (self->socket, (int) times->silence_ms);
    zsock_set_tcp_keepalive (self->socket, 1);
    zsock_set_tcp_keepalive_idle (self->socket, 10);
    zsock_set_tcp_keepalive_intvl (self->socket, 5);
    zsock_set_tcp_keepalive_cnt (self->socket, 4);

    if (self->key.join && strncmp (address, "tcp://", 6) == 0)
        wm_client_key_use (&self->key, zsock_resolve (self->socket));
    char name[64];
    snprintf (name, sizeof name, "inproc://wm-client-monitor-%u", serial++);
    if (zmq_socket_monitor (zsock_resolve (self->socket), name, ZMQ_EVENT_ALL) ||
        zsock_connect (self->monitor, "%s", name))
        return session_end (self, WM_EAGAIN, "no monitor for %s: %s", self->endpoint,
                            strerror (errno));
    if (zsock_connect (self->socket, "%s", address))
        return session_end (self, WM_EPEER, "cannot connect to %s: %s", self->endpoint,
                            strerror (errno));
    self->n_sent = self->n_received = 0;
    self->flow = (wm_tcp_flow_t){ 0 };
    self->disconnected = false;
    self->fd = -1;
    self->key.event = 0;
    self->key.address = address;
    self->reason = 0;
    self->silent_ms = 0;
    self->state = OPENING;
    self->received_ms = self->sent_ms = self->checked_ms = self->whole_ms = wm_now_ms ();
    return WM_OK;
}

/* Reads the monitor's events; sets disconnected once one reports the end of the connection.  */
static void read_monitor (wm_client_t *self)
{
    for (;;) {
        uint8_t frame[256];
        int bytes = zmq_recv (zsock_resolve (self->monitor), frame, sizeof frame, ZMQ_DONTWAIT);
        if (bytes < 0)
            return;
        uint16_t event = 0;
        uint32_t value = 0;
        if (bytes >= 6) {
            memcpy (&event, frame, sizeof event);
            memcpy (&value, frame + 2, sizeof value);
        }
        zmq_recv (zsock_resolve (self->monitor), frame, sizeof frame, ZMQ_DONTWAIT); /* address */
        if (event == ZMQ_EVENT_CONNECTED)
            self->fd = (int) value;
        if (event & WM_HANDSHAKE_FAILED) {
            self->key.event = event;
            self->key.value = value;
        }
        if (event & (ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_MONITOR_STOPPED |
                     WM_HANDSHAKE_FAILED)) {
            self->disconnected = true;
            self->fd = -1; /* libzmq may have closed it */
        }
    }
}

/* The connection ended before WELCOME.  */
static wm_fault_t handshake_failed (wm_client_t *self)
{
    wm_error_t why;
    wm_client_key_failed (&self->key, self->endpoint, &why);
    return session_end (self, why.fault, "%s", why.text);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Receives the frames of one message and returns their number; 0: no message is waiting.  */
static int take_frames (wm_client_t *self)
{
    void *handle = zsock_resolve (self->socket);
    if (zmq_msg_recv (&self->header, handle, ZMQ_DONTWAIT) < 0)
        return 0;
    int count = 1;
    for (int more = zmq_msg_more (&self->header); more; count++) {
        if (zmq_msg_recv (&self->payload, handle, ZMQ_DONTWAIT) < 0)
            break; /* impossible: a message arrives whole */
        more = zmq_msg_more (&self->payload);
    }
    if (count == 1) { /* what the last message brought is no longer lent */
        zmq_msg_close (&self->payload);
        zmq_msg_init (&self->payload);
    }
    self->has_payload = count > 1;
    return count;
}

static wm_client_event_t broken (wm_client_t *self, const char *text)
{
    wm_msg_t bye;
    wm_msg_init (&bye, WM_MSG_BYE);
    bye.code = WM_REASON_PROTOCOL;
    snprintf (bye.text, sizeof bye.text, "%s", text);
    wm_client_send (self, &bye, NULL, 0);
    session_end (self, WM_EPEER, "the broker at %s broke the protocol: %s", self->endpoint, text);
    return WM_CLIENT_CLOSED;
}

/* The broker ended the session. BUSY and STOPPING are temporary; any other refusal is final.  */
static wm_client_event_t refused (wm_client_t *self)
{
    const wm_msg_t *msg = &self->msg;
    self->reason = (wm_reason_t) msg->code;
    const bool is_temporary = msg->type == WM_MSG_BYE || msg->code == WM_REASON_BUSY ||
                              msg->code == WM_REASON_STOPPING ||
                              msg->code == WM_REASON_KEY; /* its file may have a newer key by now */
    session_end (self, is_temporary ? WM_EAGAIN : WM_EPEER, "the broker %s: %s",
                 msg->type == WM_MSG_BYE ? "ended the session" : "refused",
                 msg->text[0] ? msg->text : "no reason given");
    return WM_CLIENT_CLOSED;
}

/* Whether the broker may send this now.  */
static bool is_expected (const wm_client_t *self, wm_msg_type_t type)
{
    if (type == WM_MSG_WELCOME)
        return self->state == OPENING;
    return wm_msg_is_for (type, self->role) && (self->state == OPEN || type == WM_MSG_HEARTBEAT ||
                                                type == WM_MSG_BYE || type == WM_MSG_REJECT);
}

/* Checks the message just received: frames, header, payload, and whether it is expected.  */
static wm_client_event_t check_message (wm_client_t *self, int count)
{
    self->received_ms = self->whole_ms = wm_now_ms ();
    wm_error_t error;
    const uint64_t check = wm_msg_check (self->has_payload ? zmq_msg_data (&self->payload) : NULL,
                                         zmq_msg_size (&self->payload));
    const size_t bytes = wm_msg_unseal (zmq_msg_data (&self->header), zmq_msg_size (&self->header),
                                        check, self->n_received++);
    if (count > 2 || !bytes) {
        session_end (
            self, WM_EAGAIN,
            "a message of the broker at %s was damaged in transit, or is not a wiremill message",
            self->endpoint);
        return WM_CLIENT_CLOSED;
    }
    if (wm_msg_decode (&self->msg, zmq_msg_data (&self->header), bytes, &error))
        return broken (self, error.text);
    wm_msg_type_t type = self->msg.type;
    char text[120];
    if (wm_msg_has_payload (type) != self->has_payload) {
        snprintf (text, sizeof text, "%s %s payload", wm_msg_name (type),
                  self->has_payload ? "with a" : "without its");
        return broken (self, text);
    }
    if (!is_expected (self, type)) {
        snprintf (text, sizeof text, "unexpected %s", wm_msg_name (type));
        return broken (self, text);
    }
    return type == WM_MSG_BYE || type == WM_MSG_REJECT ? refused (self) : WM_CLIENT_MESSAGE;
}

/* The next message for the owner; TIMEOUT if no message is waiting. Heartbeats end here.  */
static wm_client_event_t receive (wm_client_t *self)
{
    for (int count; (count = take_frames (self)) > 0;) {
        wm_client_event_t event = check_message (self, count);
        if (event == WM_CLIENT_MESSAGE)
            WM_TRACE (wm_msg_name (self->msg.type), &self->msg.key,
                      (int64_t) zmq_msg_size (&self->payload));
        if (event != WM_CLIENT_MESSAGE || self->msg.type != WM_MSG_HEARTBEAT)
            return event;
    }
    return WM_CLIENT_TIMEOUT;
}

/* Sends one frame, copied; 0 on success. A failed send leaves the frame with us.  */
static int send_frame (wm_client_t *self, const void *data, size_t bytes, int flags)
{
    zmq_msg_t frame;
    if (zmq_msg_init_size (&frame, bytes))
        return -1;
    if (bytes)
        memcpy (zmq_msg_data (&frame), data, bytes);
    if (zmq_msg_send (&frame, zsock_resolve (self->socket), flags | ZMQ_DONTWAIT) >= 0)
        return 0;
    zmq_msg_close (&frame);
    return -1;
}

wm_fault_t wm_client_send (wm_client_t *self, const wm_msg_t *msg, const void *payload,
                           size_t payload_bytes)
{
    const bool has_payload = wm_msg_has_payload (msg->type);
    assert (has_payload || !payload_bytes);
    if (self->state == CLOSED || self->disconnected)
        return WM_EAGAIN;
    const int64_t now = wm_now_ms ();
    if (now != self->sent_ms) /* a stream of messages reads the monitor once a millisecond */
        read_monitor (self);
    if (self->disconnected)
        return wm_fault (&self->error, WM_EAGAIN, "the connection to the broker at %s closed",
                         self->endpoint);
    uint8_t header[WM_HEADER_BYTES_MAX];
    if (has_payload && !payload)
        payload = "";
    size_t header_bytes =
        wm_msg_seal (header, wm_msg_encode (msg, header),
                     wm_msg_check (has_payload ? payload : NULL, payload_bytes), self->n_sent++);
    if (send_frame (self, header, header_bytes, has_payload ? ZMQ_SNDMORE : 0) ||
        (has_payload && send_frame (self, payload, payload_bytes, 0))) {
        self->disconnected = true; /* wait still returns the messages that arrived before */
        return wm_fault (&self->error, WM_EAGAIN, "cannot send to the broker at %s: %s",
                         self->endpoint,
                         errno == EAGAIN ? "it does not read, or is gone" : strerror (errno));
    }
    self->sent_ms = now;
    WM_TRACE (wm_msg_name (msg->type), &msg->key, (int64_t) payload_bytes);
    return WM_OK;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void heartbeat (wm_client_t *self)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HEARTBEAT);
    msg.key.ordinal = self->wait;
    memcpy (msg.text, self->status, sizeof msg.text);
    wm_client_send (self, &msg, NULL, 0);
}

void wm_client_waits (wm_client_t *self, wm_wait_t wait, const char *text)
{
    if (self->wait == wait && strncmp (self->status, text, sizeof self->status - 1) == 0)
        return;
    self->wait = wait;
    snprintf (self->status, sizeof self->status, "%s", text);
    if (self->state == OPEN)
        heartbeat (self);
}

/* How long the broker has been silent. Parts of a message count: a large one on a slow link lets no
   heartbeat pass.  */
static int64_t silent_ms (wm_client_t *self, int64_t now)
{
    const int64_t moved_ms =
        wm_tcp_moved_ms (&self->flow, self->fd, now, wm_times ()->heartbeat_ms);
    if (moved_ms > self->received_ms)
        self->received_ms = moved_ms;
    return now - self->received_ms;
}

bool wm_client_is_receiving (const wm_client_t *self)
{
    const int64_t beat_ms = wm_times ()->heartbeat_ms, waited_ms = wm_now_ms () - self->whole_ms;
    return self->state == OPEN && waited_ms > 2 * beat_ms &&
           self->flow.moved_ms > self->whole_ms + beat_ms;
}

/* Ends a silent session, sends a heartbeat that is due. A gap of our own (a stopped process, a busy
   owner) is no silence of the broker: it moves the deadline. may_beat: false where the owner is
   called right after and may send a richer heartbeat itself.  */
static void timers (wm_client_t *self, int64_t now, bool may_beat)
{
    const wm_times_t *times = wm_times ();
    int64_t late = now - self->checked_ms;
    if (late > times->gap_ms)
        self->received_ms += late;
    self->checked_ms = now;
    if (silent_ms (self, now) >= self->silence_ms) {
        self->silent_ms = now - self->received_ms;
        session_end (self, WM_EAGAIN, "the broker at %s was silent for %lld ms", self->endpoint,
                     (long long) self->silent_ms);
    } else if (may_beat && self->state == OPEN && now - self->sent_ms >= times->heartbeat_ms) {
        heartbeat (self);
    }
}

/* Sleeps until something happens, a timer is due or `deadline`; true if a signal ended it.  */
static bool sleep_on_sockets (wm_client_t *self, int64_t now, int64_t deadline)
{
    int64_t until = self->received_ms + self->silence_ms;
    if (self->state == OPEN && self->sent_ms + wm_times ()->heartbeat_ms < until)
        until = self->sent_ms + wm_times ()->heartbeat_ms;
    if (deadline < until)
        until = deadline;
    if (until < now)
        until = now;
    zmq_pollitem_t items[3] = {
        { .socket = zsock_resolve (self->socket), .events = ZMQ_POLLIN },
        { .socket = zsock_resolve (self->monitor), .events = ZMQ_POLLIN },
    };
    int count = 2;
    if (self->extra >= 0 && self->state == OPEN)
        items[count++] = (zmq_pollitem_t){ .fd = self->extra, .events = ZMQ_POLLIN };
    self->checked_ms = until;
    int rc = zmq_poll (items, count, until - now);
    now = wm_now_ms ();
    if (now < until)
        self->checked_ms = now;
    if (rc > 0 && items[1].revents)
        read_monitor (self);
    return rc < 0;
}

static bool extra_is_readable (const wm_client_t *self)
{
    struct pollfd item = { .fd = self->extra, .events = POLLIN };
    return self->extra >= 0 && poll (&item, 1, 0) > 0;
}

wm_client_event_t wm_client_wait (wm_client_t *self, int64_t timeout_ms)
{
    int64_t deadline = wm_now_ms () + timeout_ms;
    for (bool first = true; self->state != CLOSED; first = false) {
        const bool extra = self->state == OPEN && extra_is_readable (self);
        if (extra && self->extra_first) {
            self->extra_first = false;
            return WM_CLIENT_EXTRA;
        }
        const bool gone = self->disconnected;
        wm_client_event_t event = receive (self);
        if (event != WM_CLIENT_TIMEOUT) {
            self->extra_first = true;
            return event;
        }
        if (gone) {
            if (self->state == OPENING)
                handshake_failed (self);
            else
                session_end (self, WM_EAGAIN, "the connection to the broker at %s closed",
                             self->endpoint);
            break;
        }
        if (extra)
            return WM_CLIENT_EXTRA;
        int64_t now = wm_now_ms ();
        timers (self, now, first || now < deadline);
        if (self->state == CLOSED)
            break;
        if (self->disconnected) /* found by the heartbeat: receive what is left, then end */
            continue;
        if (now >= deadline || sleep_on_sockets (self, now, deadline))
            return WM_CLIENT_TIMEOUT;
    }
    return WM_CLIENT_CLOSED;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static wm_fault_t send_hello (wm_client_t *self, const void *hello, size_t hello_bytes)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_HELLO);
    msg.protocol = WM_PROTOCOL;
    msg.role = self->role;
    memcpy (msg.instance, self->instance, sizeof msg.instance);
    snprintf (msg.name, sizeof msg.name, "%s", self->label);
    snprintf (msg.text, sizeof msg.text, "%s", self->signature);
    memcpy (msg.class, self->class, sizeof msg.class);
    msg.error = self->measured;
    msg.n_hit = self->n_hit;
    return wm_client_send (self, &msg, hello, hello_bytes);
}

static wm_fault_t take_welcome (wm_client_t *self)
{
    const wm_msg_t *msg = &self->msg;
    wm_error_t error;
    if (msg->protocol != WM_PROTOCOL)
        return session_end (
            self, WM_EPEER,
            "the broker at %s speaks protocol %u, this program %u: install the same version",
            self->endpoint, msg->protocol, WM_PROTOCOL);
    if (wm_pins_parse (&self->pins, zmq_msg_data (&self->payload), zmq_msg_size (&self->payload),
                       &error))
        return session_end (self, WM_EPEER, "pins of the broker at %s: %s", self->endpoint,
                            error.text);
    wm_pins_digest (&self->pins, self->pins_digest);
    if (memcmp (self->pins_digest, msg->digest, sizeof self->pins_digest))
        return session_end (self, WM_EPEER,
                            "the broker at %s sent pins that do not match their digest",
                            self->endpoint);
    self->epoch = msg->epoch;
    self->wants_sample = msg->code != 0;
    memcpy (self->shape, msg->text, sizeof self->shape);
    memcpy (self->campaign, msg->instance, sizeof self->campaign);
    self->state = OPEN;
    return WM_OK;
}

/* One address: connect, HELLO, WELCOME. Leaves OPEN, or CLOSED with self->error.  */
static wm_fault_t attempt (wm_client_t *self, const char *address, const void *hello,
                           size_t hello_bytes, int64_t deadline)
{
    int64_t left = deadline - wm_now_ms ();
    wm_fault_t fault = sockets_open (self, address, left > 1 ? left : 1);
    if (fault)
        return fault;
    send_hello (self, hello, hello_bytes); /* a failure shows in wait */
    for (;;) {
        left = deadline - wm_now_ms ();
        switch (wm_client_wait (self, left > 0 ? left : 0)) {
        case WM_CLIENT_MESSAGE:
            return take_welcome (self);
        case WM_CLIENT_TIMEOUT:
            if (self->interruptible && zsys_interrupted)
                return session_end (self, WM_EAGAIN, "interrupted");
            if (wm_now_ms () >= deadline)
                return session_end (self, WM_EAGAIN, "no broker answers at %s", self->endpoint);
            break;
        default:
            return self->error.fault;
        }
    }
}

/* Sockets that cannot be made end the process (an assertion of czmq's).  */
static bool may_open_files (wm_error_t *error)
{
    struct rlimit files;
    if (getrlimit (RLIMIT_NOFILE, &files) || files.rlim_cur >= FILES_MIN)
        return true;
    wm_fault (error, WM_EHOST,
              "this process may open only %llu files at a time and needs %d: raise `ulimit -n`",
              (unsigned long long) files.rlim_cur, FILES_MIN);
    return false;
}

/* All addresses of the broker, one after another, with the key that is tried now.  */
static wm_fault_t open_once (wm_client_t *self, const void *hello, size_t hello_bytes,
                             int64_t deadline)
{
    char address[WM_ENDPOINT_PLACES_MAX][WM_ADDRESS_BYTES];
    int count = may_open_files (&self->error)
                    ? wm_endpoint_resolve (self->endpoint, self->role - WM_ROLE_WORKER, address,
                                           &self->error)
                    : 0;
    wm_fault_t fault = self->error.fault;
    for (int i = 1; i < count; i++) /* the address that worked before is tried first */
        if (strcmp (address[i], self->last) == 0) {
            memcpy (address[i], address[0], sizeof address[0]);
            strcpy (address[0], self->last);
        }
    for (int i = 0; i < count; i++) {
        int64_t share = (deadline - wm_now_ms ()) / (count - i);
        if (self->key.join && strncmp (address[i], "tcp://", 6) != 0)
            return wm_fault (
                &self->error, WM_EKEY,
                "key refused: %s names %s, where nobody has keys, and this process has "
                "one; where that broker is meant, leave --join-file out",
                self->endpoint, address[i]);
        fault = attempt (self, address[i], hello, hello_bytes, wm_now_ms () + share);
        if (fault == WM_OK)
            strcpy (self->last, address[i]);
        if (fault != WM_EAGAIN)
            break;
    }
    if (fault == WM_EAGAIN && count)
        wm_endpoint_explain (self->endpoint, &self->error);
    return fault;
}

typedef struct {
    wm_client_t *client;
    const void *hello;
    size_t hello_bytes;
    int64_t deadline;
} opening_t;

static wm_fault_t open_again (void *argument)
{
    const opening_t *self = argument;
    return open_once (self->client, self->hello, self->hello_bytes, self->deadline);
}

wm_fault_t wm_client_open (wm_client_t *self, const void *hello, size_t hello_bytes,
                           int64_t timeout_ms, wm_error_t *error)
{
    opening_t opening = { self, hello, hello_bytes, wm_now_ms () + timeout_ms };
    sockets_close (self, 0);
    const wm_fault_t fault =
        wm_client_key_each (&self->key, self->endpoint, self->role, opening.deadline, open_again,
                            &opening, &self->error);
    if (fault && error)
        *error = self->error;
    return fault;
}

int64_t wm_client_pause_ms (int64_t delay_ms)
{
    return delay_ms / 2 + randombytes_uniform ((uint32_t) delay_ms / 2 + 1);
}

static void rest (int64_t delay_ms, int64_t most_ms)
{
    const int64_t pause = wm_client_pause_ms (delay_ms);
    zclock_sleep ((int) (pause < most_ms ? pause : most_ms));
}

wm_fault_t wm_client_open_patiently (wm_client_t *self, const void *hello, size_t hello_bytes,
                                     int64_t give_up_ms, wm_error_t *error)
{
    const wm_times_t *times = wm_times ();
    const wm_restart_rule_t rule = { .first = times->backoff_ms, .most = times->backoff_max_ms };
    wm_restart_t tries = { .in_row = 0 };
    const int64_t start = wm_now_ms ();
    if (self->reason == WM_REASON_BUSY) /* its disk is full: "try later" */
        rest (times->backoff_max_ms, times->backoff_max_ms);
    for (;;) {
        int64_t left = start + give_up_ms - wm_now_ms ();
        int64_t patience = left < times->silence_ms ? left : times->silence_ms;
        self->interruptible = true;
        wm_fault_t fault =
            wm_client_open (self, hello, hello_bytes, patience > 1 ? patience : 1, error);
        self->interruptible = false;
        if (fault != WM_EAGAIN)
            return fault;
        if (zsys_interrupted)
            return wm_fault (error, WM_EAGAIN, "interrupted while waiting for a broker at %s",
                             self->endpoint);
        left = start + give_up_ms - wm_now_ms ();
        if (left <= 0)
            return WM_EAGAIN;
        wm_restart_failed (&tries, &rule, 0, false);
        rest (tries.at, left);
    }
}

void wm_client_close (wm_client_t *self, wm_reason_t reason, const char *text)
{
    if (self->state == CLOSED)
        return;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_BYE);
    msg.code = reason;
    snprintf (msg.text, sizeof msg.text, "%s", text ? text : "");
    wm_client_send (self, &msg, NULL, 0);
    sockets_close (self, LINGER_MS);
    wm_fault (&self->error, WM_EAGAIN, "closed by this program: %s", msg.text);
}

bool wm_client_is_open (const wm_client_t *self)
{
    return self->state == OPEN && !self->disconnected;
}

uint64_t wm_client_epoch (const wm_client_t *self)
{
    return self->epoch;
}

const wm_pins_t *wm_client_pins (const wm_client_t *self)
{
    return &self->pins;
}

const char *wm_client_shape (const wm_client_t *self)
{
    return self->shape;
}

const uint8_t *wm_client_pins_digest (const wm_client_t *self)
{
    return self->pins_digest;
}

const uint8_t *wm_client_campaign (const wm_client_t *self)
{
    return self->campaign;
}

const wm_error_t *wm_client_error (const wm_client_t *self)
{
    return &self->error;
}

void wm_client_silence (wm_client_t *self, int64_t ms)
{
    const int64_t least = 3 * wm_times ()->heartbeat_ms, most = wm_times ()->silence_ms;
    self->silence_ms = ms < least ? least : ms > most ? most : ms;
}

int64_t wm_client_silent_ms (const wm_client_t *self)
{
    return self->silent_ms;
}

wm_reason_t wm_client_reason (const wm_client_t *self)
{
    return self->reason;
}

const wm_msg_t *wm_client_msg (const wm_client_t *self)
{
    return &self->msg;
}

const uint8_t *wm_client_payload (const wm_client_t *self, size_t *bytes)
{
    zmq_msg_t *payload = (zmq_msg_t *) &self->payload; /* the library's getters take no const */
    *bytes = zmq_msg_size (payload);
    return zmq_msg_data (payload);
}
