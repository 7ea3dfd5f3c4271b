/* wm_listener.c - binds three ROUTERs, reads them round robin, and pairs messages with connections.

   Why closed connections come last: the monitor's event may overtake messages that are already in
   the socket. So a closed peer waits in a list until its socket has nothing more to read.
   Descriptors are reused at once: the monitor is read before a new peer is entered, and libzmq
   reports a descriptor before it closes it.

   Why peers are admitted in turn: the threads of libzmq read on while the broker syncs or waits for
   a processor, and keep the messages of connections that have closed. In a round WM_ADMITTED_MAX
   connections are admitted; it ends when all is read, or when as many messages were read as there
   can be connections: libzmq gives each its turn.  */
#include "broker/listen/wm_listener.h"
#include "broker/listen/wm_keyguard.h"
#include "broker/listen/wm_listener_test.h"
#include "broker/listen/wm_site.h"
#include "broker/listen/wm_pending_peers.h"
#include "schema/base/wm_address.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_table.h"
#include "schema/base/wm_tcp.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORTS WM_PORTS
/* More than the TASKs, NEEDs and answers that one peer can have in flight: a peer that does not
   read them is disconnected.  */
#define SEND_HWM 8192
/* Answers to one operator: each may have 64 KiB.  */
#define SEND_HWM_OPERATOR 64
/* Unread messages of one peer: beyond them its connection waits. Fewer would cost more of the
   processor than reading them (4: three times as much); and a connection that closes while it waits
   loses the message that libzmq was reading, so that what it sent behind is dropped as damaged.  */
#define RECV_HWM 128
#define LINGER_MS 1000
/* Of all ports, WM_PENDING_PEERS_MAX of them strangers'; descriptors are left for the journal and
   the ledger.  */
#define CONNECTIONS_MAX (WM_PENDING_PEERS_MAX + WM_PEERS_MAX)
/* Messages of one port before the next port is read.  */
#define MESSAGES_IN_A_ROW 64
#define KNOCK_BEATS 30 /* a minute of heartbeats: the listener tries itself again */

/* The listener of one role.  */
typedef struct {
    void *socket, *monitor;
    wm_role_t role;
    wm_table_t peers;   /* by routing id: those that sent a message */
    wm_table_t by_fd;   /* all, from accepted to closed; owns them with `peers` */
    wm_peer_t **closed; /* to be reported when the socket has nothing more to read */
    size_t n_closed, closed_capacity;
} port_t;

struct wm_listener_t {
    void *context;
    char endpoint[WM_ADDRESS_BYTES];
    char listens[1024]; /* all base addresses bound */
    port_t port[PORTS];
    wm_pending_peers_t strangers; /* of all ports: connections that have sent nothing */
    size_t current, left;         /* the port being read; messages of it before the next is read */
    wm_peer_t *closing;           /* reported closed; freed at the next call */
    wm_peer_t **failed;           /* a send failed, to be reported */
    size_t n_failed, failed_capacity;
    wm_peer_t **refused; /* their keys are over, to be reported */
    size_t n_refused, refused_capacity;
    uint32_t frame_bytes_max;
    wm_keyguard_t *guard;
    bool has_keys;
    uint32_t room, n_read; /* of this round: connections still to be admitted; messages read */
    uint64_t n_round;      /* that have ended */
    int64_t emptied_ms;    /* when the last connection that waited was admitted */
    wm_listener_test_t *knock;
    int64_t knocked_ms;
    uint64_t generation; /* of the guard when all peers were looked at */
    zmq_msg_t header, payload;
    uint32_t n_frames;
};

/* ---- life ------------------------------------------------------------------------------------ */

static void set (void *socket, int option, int value)
{
    int rc = zmq_setsockopt (socket, option, &value, sizeof value);
    assert (rc == 0);
    (void) rc;
}

static uint32_t frame_most (const wm_listener_t *self, wm_role_t role)
{
    return role == WM_ROLE_OPERATOR ? WM_CONTROL_BYTES_MAX : self->frame_bytes_max;
}

/* -1 and *error, or errno where *error is no fault.  */
static int port_open (wm_listener_t *self, size_t i, wm_error_t *error)
{
    port_t *port = &self->port[i];
    port->role = (wm_role_t) (WM_ROLE_WORKER + (int) i);
    port->socket = zmq_socket (self->context, ZMQ_ROUTER);
    port->monitor = zmq_socket (self->context, ZMQ_PAIR);
    if (!port->socket || !port->monitor)
        return -1;
    const int64_t bytes_max = frame_most (self, port->role);
    zmq_setsockopt (port->socket, ZMQ_MAXMSGSIZE, &bytes_max, sizeof bytes_max);
    set (port->socket, ZMQ_ROUTER_MANDATORY, 1);
    set (port->socket, ZMQ_SNDHWM, port->role == WM_ROLE_OPERATOR ? SEND_HWM_OPERATOR : SEND_HWM);
    set (port->socket, ZMQ_RCVHWM, RECV_HWM);
    set (port->socket, ZMQ_LINGER, LINGER_MS);
    set (port->socket, ZMQ_HANDSHAKE_IVL, (int) wm_times ()->handshake_ms);
    set (port->socket, ZMQ_TCP_KEEPALIVE, 1);
    set (port->socket, ZMQ_TCP_KEEPALIVE_IDLE, 30);
    set (port->socket, ZMQ_BACKLOG, 1024);
    set (port->socket, ZMQ_IPV6, 1);
    set (port->monitor, ZMQ_LINGER, 0);
    set (port->monitor, ZMQ_RCVHWM, 0);
    if (wm_keyguard_protect (self->guard, port->socket, port->role, error))
        return -1;
    char name[64];
    snprintf (name, sizeof name, "inproc://monitor-%zu", i);
    return zmq_socket_monitor (port->socket, name, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) ||
           zmq_connect (port->monitor, name);
}

/* Parses, and finds whether peers need keys: one answer for all addresses, for they share sockets.
   Returns the number of sites, 0 where *error explains.  */
static int find_sites (wm_site_t site[WM_ADDRESSES_MAX], const char *endpoint,
                       wm_listener_mode_t mode, bool *wants_keys, wm_error_t *error)
{
    const int n = wm_sites_parse (site, endpoint, error);
    bool has_ipc = false;
    *wants_keys = mode == WM_LISTENER_KEYS;
    for (int i = 0; i < n; i++) {
        has_ipc |= wm_site_is_ipc (&site[i]);
        *wants_keys |= mode == WM_LISTENER_AUTO && !wm_site_is_local (&site[i]);
    }
    if (!n || !has_ipc || !*wants_keys)
        return n;
    if (mode == WM_LISTENER_KEYS)
        wm_fault (error, WM_EHOST,
                  "--keys is for tcp: on %s the permissions of the socket decide who joins",
                  endpoint);
    else
        wm_fault (error, WM_EHOST,
                  "%s: ipc goes without keys, and the other address needs them; listen on the "
                  "other alone",
                  endpoint);
    return 0;
}

/* Adds what a site is bound to, to the list.  */
static void add_bound (wm_listener_t *self, const wm_site_t *site)
{
    const int n_host = wm_site_is_ipc (site) ? 1 : site->n_host;
    for (int h = 0; h < n_host; h++) {
        char text[WM_ADDRESS_BYTES];
        const size_t n = strlen (self->listens);
        wm_address_print (&site->at, wm_site_is_ipc (site) ? NULL : site->host[h], text);
        if (n + strlen (text) + 2 < sizeof self->listens)
            sprintf (self->listens + n, "%s%s", n ? "," : "", text);
    }
}

wm_fault_t wm_listener_check (const char *endpoint, wm_listener_mode_t mode, wm_error_t *error)
{
    wm_site_t site[WM_ADDRESSES_MAX];
    bool wants_keys;
    return find_sites (site, endpoint, mode, &wants_keys, error) ? WM_OK : error->fault;
}

/* ---- keys ------------------------------------------------------------------------------------ */

bool wm_listener_has_keys (const wm_listener_t *self)
{
    return self->has_keys;
}

/* Sleeps until something happens; the sockets of keys are last.  */
static void poll_all (wm_listener_t *self, int64_t timeout_ms)
{
    zmq_pollitem_t items[2 * PORTS + 2];
    int n = 0;
    for (size_t i = 0; i < PORTS; i++) {
        items[n++] = (zmq_pollitem_t){ .socket = self->port[i].socket, .events = ZMQ_POLLIN };
        items[n++] = (zmq_pollitem_t){ .socket = self->port[i].monitor, .events = ZMQ_POLLIN };
    }
    if (self->room) /* what waits without it would wake it at once, again */
        items[n++] =
            (zmq_pollitem_t){ .socket = wm_keyguard_socket (self->guard), .events = ZMQ_POLLIN };
    if (self->knock && wm_listener_test_is_running (self->knock))
        items[n++] = (zmq_pollitem_t){ .socket = wm_listener_test_socket (self->knock),
                                       .events = ZMQ_POLLIN };
    zmq_poll (items, n, timeout_ms);
}

static void monitor_read (wm_listener_t *self, port_t *port);

/* Tries all listeners as a stranger; WM_OK where each refused.  */
static wm_fault_t knock_first (wm_listener_t *self, const wm_site_t *near, wm_error_t *error)
{
    char text[PORTS][400];
    const char *list[PORTS];
    for (size_t i = 0; i < PORTS; i++) {
        wm_site_print (near, 0, i, text[i]);
        list[i] = text[i];
    }
    self->knock =
        wm_listener_test_new (self->context, wm_keyguard_public (self->guard), list, PORTS);
    wm_keyguard_expect (self->guard, wm_listener_test_stranger (self->knock));
    wm_listener_test_begin (self->knock);
    while (wm_listener_test_is_running (self->knock)) {
        poll_all (self, 100);
        for (size_t i = 0; i < PORTS; i++) /* what is left there would wake it at once, again */
            monitor_read (self, &self->port[i]);
        self->room = WM_ADMITTED_MAX;
        wm_keyguard_answer (self->guard, &self->room);
        if (wm_listener_test_read (self->knock, wm_now_ms (), error))
            return error->fault;
    }
    self->knocked_ms = wm_now_ms ();
    if (!wm_listener_test_was_refused (self->knock))
        return wm_fault (error, WM_EHOST,
                         "the listener at %s could not be tried with an unknown key, so nobody "
                         "knows whether it would refuse one",
                         text[0]);
    return WM_OK;
}

/* Looks again at a peer's key. A peer whose connection has no User-Id was not asked for one.  */
static void key_check (wm_listener_t *self, wm_peer_t *peer)
{
    if (peer->refused || !self->has_keys)
        return;
    peer->generation = wm_keyguard_generation (self->guard);
    peer->refused = wm_keyguard_why_not (self->guard, *peer->key ? peer->key : NULL, peer->role,
                                         &peer->reads_only);
    if (!peer->refused)
        return;
    wm_must_grow (&self->refused, &self->refused_capacity, self->n_refused + 1, sizeof peer);
    self->refused[self->n_refused++] = peer;
}

/* Looks at all peers where a key may be over.  */
static void keys_check (wm_listener_t *self)
{
    const uint64_t generation = wm_keyguard_generation (self->guard);
    for (size_t i = 0; generation != self->generation && i < PORTS; i++) {
        const wm_table_t *peers = &self->port[i].peers;
        for (size_t j = 0; peers->slot && j <= peers->mask; j++)
            if (peers->slot[j].item)
                key_check (self, peers->slot[j].item);
    }
    self->generation = generation;
}

static wm_fault_t keys_tick (wm_listener_t *self, int64_t now_ms, wm_error_t *error)
{
    if (!self->has_keys)
        return WM_OK;
    wm_keyguard_tick (self->guard, now_ms);
    keys_check (self);
    if (now_ms - self->knocked_ms >= KNOCK_BEATS * wm_times ()->heartbeat_ms) {
        self->knocked_ms = now_ms;
        wm_listener_test_begin (self->knock);
    }
    return wm_listener_test_read (self->knock, now_ms, error);
}

/* ---- new ------------------------------------------------------------------------------------- */

wm_listener_t *wm_listener_new (const char *endpoint, wm_listener_mode_t mode, const char *campaign,
                                uint32_t frame_bytes_max, wm_error_t *error)
{
    wm_site_t site[WM_ADDRESSES_MAX];
    bool wants_keys;
    const int n_site = find_sites (site, endpoint, mode, &wants_keys, error);
    if (!n_site)
        return NULL;
    wm_listener_t *self = calloc (1, sizeof *self);
    assert (self);
    self->frame_bytes_max = frame_bytes_max;
    zmq_msg_init (&self->header);
    zmq_msg_init (&self->payload);
    self->context = zmq_ctx_new ();
    randombytes_buf (&self->strangers.salt, sizeof self->strangers.salt);
    int failed = !self->context;
    *error = (wm_error_t){ .fault = WM_OK };
    self->has_keys = wants_keys;
    self->room = WM_ADMITTED_MAX;
    self->emptied_ms = wm_now_ms ();
    if (!failed && !(self->guard = wm_keyguard_new (self->context, wants_keys, campaign,
                                                    error))) {
        wm_listener_destroy (&self);
        return NULL;
    }
    for (size_t i = 0; !failed && i < PORTS; i++)
        failed = port_open (self, i, error);
    if (failed && !error->fault)
        wm_fault (error, WM_EHOST, "no sockets to listen on %s: %s", endpoint,
                  zmq_strerror (errno));
    void *const sockets[PORTS] = { self->port[0].socket, self->port[1].socket,
                                   self->port[2].socket };
    for (int i = 0; !failed && i < n_site; i++) {
        failed = wm_site_bind (&site[i], sockets, error) != WM_OK;
        if (!failed)
            add_bound (self, &site[i]);
    }
    wm_site_near (&site[0]);
    wm_address_print (&site[0].at, wm_site_is_ipc (&site[0]) ? NULL : site[0].host[0],
                      self->endpoint);
    if (failed || (wants_keys && knock_first (self, &site[0], error)))
        wm_listener_destroy (&self);
    return self;
}

const char *wm_listener_endpoint (const wm_listener_t *self)
{
    return self->endpoint;
}

const char *wm_listener_listens (const wm_listener_t *self)
{
    return self->listens;
}

static void peers_free (port_t *port)
{
    for (size_t i = 0; port->by_fd.slot && i <= port->by_fd.mask; i++) {
        wm_peer_t *peer = port->by_fd.slot[i].item;
        if (peer && !peer->has_id)
            free (peer);
    }
    for (size_t i = 0; port->peers.slot && i <= port->peers.mask; i++)
        free (port->peers.slot[i].item);
    free (port->by_fd.slot);
    free (port->peers.slot);
}

void wm_listener_destroy (wm_listener_t **self_p)
{
    wm_listener_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; i < PORTS; i++) {
        port_t *port = &self->port[i];
        if (port->socket) {
            zmq_socket_monitor (port->socket, NULL, 0);
            zmq_close (port->socket);
        }
        if (port->monitor)
            zmq_close (port->monitor);
        peers_free (port);
        free (port->closed);
    }
    zmq_msg_close (&self->header);
    zmq_msg_close (&self->payload);
    wm_listener_test_destroy (&self->knock);
    wm_keyguard_destroy (&self->guard);
    if (self->context)
        zmq_ctx_term (self->context);
    free (self->closing);
    free (self->failed);
    free (self->refused);
    free (self);
    *self_p = NULL;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static uint64_t id_hash (const uint8_t id[5])
{
    uint64_t value = 0;
    memcpy (&value, id, 5);
    return wm_table_mix (value);
}

static uint64_t fd_hash (int fd)
{
    return wm_table_mix ((uint64_t) (uint32_t) fd);
}

static wm_peer_t *peer_of_fd (const port_t *port, int fd)
{
    size_t at;
    return wm_table_first (&port->by_fd, fd_hash (fd), &at);
}

/* Nothing is sent to this peer any more: it is reported closed next.  */
static void fail (wm_listener_t *self, wm_peer_t *peer)
{
    if (peer->failed)
        return;
    peer->failed = true;
    wm_must_grow (&self->failed, &self->failed_capacity, self->n_failed + 1, sizeof peer);
    self->failed[self->n_failed++] = peer;
}

/* The descriptor belongs to libzmq, which may be closing it now: at worst another peer that was
   given the same number is disconnected, and connects again. Nothing else would report the end of a
   peer whose descriptor is not known.  */
void wm_listener_disconnect (wm_listener_t *self, wm_peer_t *peer)
{
    if (peer->fd >= 0)
        shutdown (peer->fd, SHUT_RDWR);
    else if (peer->lost)
        fail (self, peer);
}

int64_t wm_listener_quiet_ms (const wm_peer_t *peer)
{
    const int64_t moved_ms = peer->flow.moved_ms;
    return moved_ms == INT64_MIN ? INT64_MAX : wm_now_ms () - moved_ms;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Where there are too many strangers one of them loses its connection. Its descriptor is forgotten
   at once: libzmq reports that it closed before it is reused.  */
static void stranger_add (wm_listener_t *self, wm_peer_t *peer)
{
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    const bool is_known = !getpeername (peer->fd, (struct sockaddr *) &address, &bytes);
    const uint32_t place = wm_pending_peers_address (
        &self->strangers, is_known ? (const struct sockaddr *) &address : NULL);
    wm_peer_t *lost = wm_pending_peers_add (&self->strangers, place, peer);
    if (!lost)
        return;
    shutdown (lost->fd, SHUT_RDWR);
    wm_table_remove (&self->port[lost->role - WM_ROLE_WORKER].by_fd, fd_hash (lost->fd), lost);
    free (lost);
}

static void accepted (wm_listener_t *self, port_t *port, int fd)
{
    size_t n = 0;
    for (size_t i = 0; i < PORTS; i++)
        n += self->port[i].by_fd.count;
    wm_peer_t *peer =
        n < CONNECTIONS_MAX && !wm_table_reserve (&port->by_fd) ? calloc (1, sizeof *peer) : NULL;
    if (!peer) {
        shutdown (fd, SHUT_RDWR);
        return;
    }
    peer->role = port->role;
    peer->fd = fd;
    peer->since_ms = wm_now_ms ();
    wm_table_put (&port->by_fd, fd_hash (fd), peer);
    stranger_add (self, peer);
}

static void disconnected (wm_listener_t *self, port_t *port, int fd)
{
    wm_peer_t *peer = peer_of_fd (port, fd);
    if (!peer)
        return;
    wm_table_remove (&port->by_fd, fd_hash (fd), peer);
    if (!peer->has_id) {
        wm_pending_peers_remove (&self->strangers, peer);
        free (peer);
        return;
    }
    wm_must_grow (&port->closed, &port->closed_capacity, port->n_closed + 1, sizeof peer);
    port->closed[port->n_closed++] = peer;
    peer->fd = -1;
}

static void monitor_read (wm_listener_t *self, port_t *port)
{
    zmq_msg_t msg;
    zmq_msg_init (&msg);
    while (zmq_msg_recv (&msg, port->monitor, ZMQ_DONTWAIT) >= 0) {
        uint16_t event;
        int32_t fd;
        if (!zmq_msg_more (&msg) || zmq_msg_size (&msg) != 6)
            continue; /* the address, which follows each event */
        memcpy (&event, zmq_msg_data (&msg), 2);
        memcpy (&fd, (uint8_t *) zmq_msg_data (&msg) + 2, 4);
        if (event == ZMQ_EVENT_ACCEPTED)
            accepted (self, port, fd);
        else
            disconnected (self, port, fd);
    }
    zmq_msg_close (&msg);
}

/* Disconnects a peer whose message has too many frames. What came since the last message is part of
   one, unless a whole one still waits to be read: that is read within a round.  */
static void part_check (wm_listener_t *self, wm_peer_t *peer)
{
    uint64_t bytes;
    if (!wm_tcp_taken (peer->fd, &bytes))
        return;
    if (peer->part.n_message != peer->n_message || !peer->part.bytes) {
        peer->part.n_message = peer->n_message;
        peer->part.bytes = bytes;
        peer->part.round = 0;
    } else if (bytes - peer->part.bytes <= 2ull * frame_most (self, peer->role))
        return;
    else if (!peer->part.round)
        peer->part.round = self->n_round + 2; /* the first has begun */
    else if (self->n_round >= peer->part.round)
        wm_listener_disconnect (self, peer);
}

wm_fault_t wm_listener_tick (wm_listener_t *self, int64_t now_ms, wm_error_t *error)
{
    for (size_t i = 0; i < PORTS; i++)
        monitor_read (self, &self->port[i]);
    for (size_t i = 0; i < PORTS; i++) {
        const wm_table_t *all = &self->port[i].by_fd;
        for (size_t j = 0; all->slot && j <= all->mask; j++) {
            wm_peer_t *peer = all->slot[j].item;
            if (peer)
                part_check (self, peer);
            if (peer && peer->session) {
                peer->since_ms = now_ms;
                wm_tcp_moved_ms (&peer->flow, peer->fd, now_ms, wm_times ()->heartbeat_ms);
            } else if (peer && now_ms - peer->since_ms > wm_times ()->handshake_ms)
                wm_listener_disconnect (self, peer);
        }
    }
    return keys_tick (self, now_ms, error);
}

/* The peer that a message came from; NULL without memory (the message is dropped).  */
static wm_peer_t *peer_of (wm_listener_t *self, port_t *port, zmq_msg_t *id, int fd)
{
    size_t at;
    if (zmq_msg_size (id) != 5)
        return NULL;
    wm_peer_t *peer = wm_table_first (&port->peers, id_hash (zmq_msg_data (id)), &at);
    if (peer)
        return peer;
    monitor_read (self, port); /* removes the peer that had this descriptor before */
    if (wm_table_reserve (&port->peers))
        return NULL;
    peer = peer_of_fd (port, fd);
    /* Its connection closed before this message was read, or its descriptor belongs to a later peer
       already: the peer is known by its id alone; a failed send or its silence ends it.  */
    if (!peer || peer->has_id) {
        peer = calloc (1, sizeof *peer);
        if (!peer)
            return NULL;
        peer->role = port->role;
        peer->fd = -1;
        peer->lost = true;
    }
    wm_pending_peers_remove (&self->strangers, peer);
    peer->has_id = true;
    memcpy (peer->id, zmq_msg_data (id), 5);
    wm_table_put (&port->peers, id_hash (peer->id), peer);
    return peer;
}

/* The peer, with the key of its first message and looked at again where that may be over; NULL: a
   message by another key, of a peer that took the routing id of one that left: it is dropped.  */
static wm_peer_t *with_key (wm_listener_t *self, wm_peer_t *peer, const char key[WM_JOIN_ID_BYTES])
{
    const bool is_first = !*peer->key;
    if (is_first)
        memcpy (peer->key, key, WM_JOIN_ID_BYTES);
    if (strcmp (peer->key, key) != 0)
        return NULL;
    if (is_first || peer->generation != wm_keyguard_generation (self->guard))
        key_check (self, peer);
    return peer;
}

static void round_ends (wm_listener_t *self)
{
    self->room = WM_ADMITTED_MAX;
    self->n_read = 0;
    self->n_round++;
}

/* Reads one whole message; false: no message is waiting.  */
static bool message_read (wm_listener_t *self, port_t *port, wm_peer_t **peer)
{
    zmq_msg_t id, more;
    zmq_msg_init (&id);
    if (zmq_msg_recv (&id, port->socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close (&id);
        return false;
    }
    self->n_frames = 0;
    int fd = -1;
    char key[WM_JOIN_ID_BYTES] = "";
    zmq_msg_init (&more);
    for (int has_more = zmq_msg_more (&id); has_more; self->n_frames++) {
        zmq_msg_t *to = self->n_frames == 0   ? &self->header
                        : self->n_frames == 1 ? &self->payload
                                              : &more;
        zmq_msg_recv (to, port->socket, ZMQ_DONTWAIT); /* messages are delivered whole */
        has_more = zmq_msg_more (to);
        fd = zmq_msg_get (to, ZMQ_SRCFD);
        const char *user = self->has_keys ? zmq_msg_gets (to, "User-Id") : NULL;
        if (user)
            snprintf (key, sizeof key, "%s", user);
    }
    zmq_msg_close (&more);
    if (++self->n_read == CONNECTIONS_MAX)
        round_ends (self);
    *peer = peer_of (self, port, &id, fd);
    if (*peer)
        (*peer)->n_message++;
    if (*peer && self->has_keys)
        *peer = with_key (self, *peer, key);
    zmq_msg_close (&id);
    return true;
}

void wm_listener_wait (wm_listener_t *self, int64_t timeout_ms)
{
    if (!self->n_failed && !self->n_refused)
        poll_all (self, timeout_ms);
    const int64_t now_ms = wm_now_ms ();
    if (now_ms - self->emptied_ms > wm_times ()->handshake_ms / 2)
        self->room = CONNECTIONS_MAX;
    wm_keyguard_answer (self->guard, &self->room);
    if (self->room)
        self->emptied_ms = now_ms;
    for (size_t i = 0; i < PORTS; i++)
        monitor_read (self, &self->port[i]);
    self->left = MESSAGES_IN_A_ROW;
}

/* A peer of this port that is to be reported closed; NULL: none.  */
static wm_peer_t *closed_next (wm_listener_t *self, port_t *port)
{
    while (port->n_closed) {
        wm_peer_t *peer = port->closed[--port->n_closed];
        wm_table_remove (&port->peers, id_hash (peer->id), peer);
        free (self->closing);
        self->closing = peer;
        if (!peer->failed)
            return peer;
    }
    return NULL;
}

wm_listener_event_t wm_listener_next (wm_listener_t *self, wm_peer_t **peer)
{
    free (self->closing);
    self->closing = NULL;
    if (self->n_refused) { /* before any peer is freed */
        *peer = self->refused[--self->n_refused];
        return WM_LISTENER_REFUSED;
    }
    if (self->n_failed) { /* it stays in the table, so that its later messages are ignored */
        *peer = self->failed[--self->n_failed];
        if ((*peer)->lost) { /* no other event will report its end */
            wm_table_remove (&self->port[(*peer)->role - WM_ROLE_WORKER].peers,
                             id_hash ((*peer)->id), *peer);
            self->closing = *peer;
        }
        return WM_LISTENER_CLOSED;
    }
    for (size_t empty = 0; empty < PORTS;) {
        port_t *port = &self->port[self->current];
        if (self->left && message_read (self, port, peer)) {
            self->left--;
            if (*peer && !(*peer)->refused)
                return WM_LISTENER_MESSAGE;
            if (!self->n_refused)
                continue;
            *peer = self->refused[--self->n_refused];
            return WM_LISTENER_REFUSED;
        }
        if (self->left) {
            *peer = closed_next (self, port);
            if (*peer)
                return WM_LISTENER_CLOSED;
            empty++;
        }
        self->current = (self->current + 1) % PORTS;
        self->left = MESSAGES_IN_A_ROW;
    }
    round_ends (self);
    return WM_LISTENER_NOTHING;
}

const uint8_t *wm_listener_header (wm_listener_t *self, wm_peer_t *peer, size_t *bytes,
                                   zmq_msg_t **payload, uint64_t *check)
{
    const uint8_t *header = zmq_msg_data (&self->header);
    *payload = self->n_frames == 2 ? &self->payload : NULL;
    *check = *payload ? wm_msg_check (zmq_msg_data (*payload), zmq_msg_size (*payload)) : 0;
    *bytes = self->n_frames == 1 || *payload
                 ? wm_msg_unseal (header, zmq_msg_size (&self->header), *check, peer->n_received++)
                 : 0;
    return *bytes ? header : NULL;
}

/* ---- sending --------------------------------------------------------------------------------- */

void wm_listener_send (wm_listener_t *self, wm_peer_t *peer, const wm_msg_t *msg,
                       zmq_msg_t *payload, uint64_t check)
{
    void *socket = self->port[peer->role - WM_ROLE_WORKER].socket;
    uint8_t header[WM_HEADER_BYTES_MAX];
    size_t bytes =
        wm_msg_seal (header, wm_msg_encode (msg, header), payload ? check : 0, peer->n_sent);
    /* The first frame decides: after it the others of the message cannot be refused. */
    const bool sent = !peer->failed &&
                      zmq_send (socket, peer->id, sizeof peer->id, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
    if (sent) {
        peer->n_sent++;
        zmq_send (socket, header, bytes, (payload ? ZMQ_SNDMORE : 0) | ZMQ_DONTWAIT);
        if (payload && zmq_msg_send (payload, socket, ZMQ_DONTWAIT) >= 0)
            return;
    } else if (!peer->failed) {
        if (errno == EAGAIN) /* its queue is full */
            wm_listener_disconnect (self, peer);
        fail (self, peer);
    }
    if (payload)
        zmq_msg_close (payload);
}
