/* wm_listener_test.c - see wm_listener_test.h.  */
#include "broker/listen/wm_listener_test.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define ADDRESSES_MAX 8
#define WAYS 2 /* by an unknown key; without one */
/* Not one of the times that WM_TIME_SCALE shortens: a machine may be busy.  */
#define ANSWER_MS 10000

struct wm_listener_test_t {
    void *context, *socket, *monitor;
    uint8_t public_key[32];           /* the listeners' */
    uint8_t stranger[32], secret[32]; /* a pair that no table has */
    char *address[ADDRESSES_MAX];
    size_t n, step; /* step / WAYS: the address; step % WAYS: the way */
    bool is_running;
    size_t n_refused; /* of this round */
    int64_t since_ms;
};

static void disconnect (wm_listener_test_t *self)
{
    if (self->socket) {
        zmq_socket_monitor (self->socket, NULL, 0);
        zmq_close (self->socket);
    }
    if (self->monitor)
        zmq_close (self->monitor);
    self->socket = self->monitor = NULL;
}

static int use_unknown_key (wm_listener_test_t *self)
{
    return zmq_setsockopt (self->socket, ZMQ_CURVE_SERVERKEY, self->public_key, 32) ||
           zmq_setsockopt (self->socket, ZMQ_CURVE_PUBLICKEY, self->stranger, 32) ||
           zmq_setsockopt (self->socket, ZMQ_CURVE_SECRETKEY, self->secret, 32);
}

/* Connects for this step. Where that is not possible now (no descriptors), the round ends; the next
   one tries again.  */
static void knock (wm_listener_test_t *self)
{
    const int zero = 0, never = 1000000000;
    static unsigned serial; /* a name is free again only when libzmq has closed its socket */
    char name[48];
    snprintf (name, sizeof name, "inproc://wm-knock-%p-%u", (void *) self, serial++);
    self->since_ms = wm_now_ms ();
    self->socket = zmq_socket (self->context, ZMQ_DEALER);
    self->monitor = zmq_socket (self->context, ZMQ_PAIR);
    int failed = !self->socket || !self->monitor;
    if (!failed) {
        zmq_setsockopt (self->socket, ZMQ_LINGER, &zero, sizeof zero);
        zmq_setsockopt (self->monitor, ZMQ_LINGER, &zero, sizeof zero);
        zmq_setsockopt (self->socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
        zmq_setsockopt (self->socket, ZMQ_IPV6, &(int){ 1 }, sizeof (int));
        failed = (self->step % WAYS == 0 && use_unknown_key (self)) ||
                 zmq_socket_monitor (self->socket, name, ZMQ_EVENT_ALL) ||
                 zmq_connect (self->monitor, name) ||
                 zmq_connect (self->socket, self->address[self->step / WAYS]);
    }
    if (!failed)
        return;
    fprintf (stderr,
             "wiremill-broker: cannot try its own listener %s: %s; tries again in a "
             "minute\n",
             self->address[self->step / WAYS], zmq_strerror (zmq_errno ()));
    disconnect (self);
    self->is_running = false;
}

const uint8_t *wm_listener_test_stranger (const wm_listener_test_t *self)
{
    return self->stranger;
}

void wm_listener_test_begin (wm_listener_test_t *self)
{
    if (self->is_running)
        return;
    self->is_running = true;
    self->step = self->n_refused = 0;
    knock (self);
}

bool wm_listener_test_was_refused (const wm_listener_test_t *self)
{
    return !self->is_running && self->n_refused == self->n * WAYS;
}

bool wm_listener_test_is_running (const wm_listener_test_t *self)
{
    return self->is_running;
}

void *wm_listener_test_socket (const wm_listener_test_t *self)
{
    return self->monitor;
}

/* Reads the events. 1: let in; -1: refused; 0: neither yet.  */
static int outcome (wm_listener_test_t *self)
{
    for (;;) {
        uint8_t frame[256];
        uint16_t event;
        const int bytes = zmq_recv (self->monitor, frame, sizeof frame, ZMQ_DONTWAIT);
        if (bytes < 0)
            return 0;
        zmq_recv (self->monitor, frame + 8, sizeof frame - 8, ZMQ_DONTWAIT); /* address */
        memcpy (&event, frame, sizeof event);
        if (bytes == 6 && event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
            return 1;
        if (bytes == 6 &&
            (event &
             (ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
              ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)))
            return -1;
    }
}

wm_fault_t wm_listener_test_read (wm_listener_test_t *self, int64_t now_ms, wm_error_t *error)
{
    while (self->is_running) {
        const char *address = self->address[self->step / WAYS];
        int is = outcome (self);
        if (is > 0) {
            disconnect (self);
            self->is_running = false;
            return wm_fault (error, WM_EHOST,
                             "the listener %s let a stranger in who had %s: the broker ends, "
                             "since its keys protect nothing; report this, and check libzmq "
                             "(wiremill doctor)",
                             address, self->step % WAYS ? "no key" : "an unknown key");
        }
        if (!is && now_ms - self->since_ms < ANSWER_MS)
            return WM_OK;
        if (!is)
            fprintf (stderr, "wiremill-broker: its own listener %s did not answer within %d s\n",
                     address, ANSWER_MS / 1000);
        self->n_refused += is < 0;
        disconnect (self);
        self->is_running = ++self->step < self->n * WAYS;
        if (self->is_running)
            knock (self);
    }
    return WM_OK;
}

wm_listener_test_t *wm_listener_test_new (void *context, const uint8_t public_key[32],
                                          const char *const address[], size_t n)
{
    wm_listener_test_t *self = calloc (1, sizeof *self);
    assert (self && n <= ADDRESSES_MAX);
    self->context = context;
    memcpy (self->public_key, public_key, 32);
    crypto_box_keypair (self->stranger, self->secret);
    for (size_t i = 0; i < n; i++) {
        self->address[i] = strdup (address[i]);
        assert (self->address[i]);
    }
    self->n = n;
    return self;
}

void wm_listener_test_destroy (wm_listener_test_t **self_p)
{
    wm_listener_test_t *self = *self_p;
    if (!self)
        return;
    disconnect (self);
    for (size_t i = 0; i < self->n; i++)
        free (self->address[i]);
    free (self);
    *self_p = NULL;
}
