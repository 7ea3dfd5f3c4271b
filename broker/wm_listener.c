/* wm_listener.c - binds three ROUTERs, reads them round robin, and pairs messages with connections.

   Why closed connections come last: the monitor's event may overtake messages that are already in
   the socket. So a closed peer waits in a list until its socket has nothing more to read.
   Descriptors are reused at once: the monitor is read before a new peer is entered, and libzmq
   reports a descriptor before it closes it.  */
#include "broker/wm_listener.h"
#include "broker/wm_port.h"
#include "broker/wm_table.h"
#include "schema/base/wm_address.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORTS 3
/* More than the TASKs, NEEDs and answers that one peer can have in flight: a peer that does not
   read them is disconnected.  */
#define SEND_HWM 8192
/* Answers to one operator: each may have 64 KiB.  */
#define SEND_HWM_OPERATOR 64
/* Unread messages of one peer, of up to 4 MiB each: beyond them its connection waits.  */
#define RECV_HWM 128
#define LINGER_MS 1000
/* Of all ports; descriptors are left for the journal and the ledger.  */
#define CONNECTIONS_MAX (2 * WM_PEERS_MAX)
/* Messages of one port before the next port is read.  */
#define MESSAGES_IN_A_ROW 64

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
    size_t current, left; /* the port being read; messages of it before the next is read */
    wm_peer_t *closing;   /* reported closed; freed at the next call */
    wm_peer_t **failed;   /* a send failed, to be reported */
    size_t n_failed, failed_capacity;
    zmq_msg_t header, payload;
    uint32_t n_frames;
};

/* ---- addresses ------------------------------------------------------------------------------- */

/* One address to listen on, with the numeric hosts that its name stands for.  */
typedef struct {
    wm_address_t at;
    int n_host;
    char host[WM_HOSTS_MAX][WM_HOST_BYTES];
} site_t;

/* Refuses what strangers can reach, unless `insecure`.  */
static wm_fault_t check_hosts (const site_t *site, bool insecure, wm_error_t *error)
{
    char text[WM_ADDRESS_BYTES];
    wm_address_print (&site->at, NULL, text);
    for (int i = 0; i < site->n_host && !insecure; i++)
        if (!wm_address_is_loopback (site->host[i]))
            return wm_fault (error, WM_EHOST,
                             "%s is not loopback: everybody who can reach it could read and write "
                             "this campaign; --insecure allows it",
                             text);
    return WM_OK;
}

/* Returns the number of sites, 0 where *error (WM_EHOST) explains.  */
static int sites_parse (site_t site[WM_ADDRESSES_MAX], const char *endpoint, bool insecure,
                        wm_error_t *error)
{
    wm_address_t list[WM_ADDRESSES_MAX];
    const int n = wm_address_parse (list, endpoint, WM_ADDRESS_LISTEN, error);
    for (int i = 0; i < n; i++) {
        site[i] = (site_t){ .at = list[i], .n_host = 0 };
        if (list[i].scheme == WM_ADDRESS_IPC)
            continue;
        site[i].n_host = wm_address_resolve (&list[i], WM_ADDRESS_LISTEN, site[i].host, error);
        if (!site[i].n_host || check_hosts (&site[i], insecure, error)) {
            error->fault = WM_EHOST;
            return 0;
        }
    }
    if (!n)
        error->fault = WM_EHOST;
    return n;
}

static void port_print (const site_t *site, int host, size_t i, char text[400])
{
    if (site->at.scheme == WM_ADDRESS_IPC)
        snprintf (text, 400, "ipc://%s.%c", site->at.host, "wpo"[i]);
    else
        snprintf (text, 400, "tcp://%s:%d", site->host[host], site->at.port[i]);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void set (void *socket, int option, int value)
{
    int rc = zmq_setsockopt (socket, option, &value, sizeof value);
    assert (rc == 0);
    (void) rc;
}

static int port_open (wm_listener_t *self, size_t i)
{
    port_t *port = &self->port[i];
    port->role = (wm_role_t) (WM_ROLE_WORKER + (int) i);
    port->socket = zmq_socket (self->context, ZMQ_ROUTER);
    port->monitor = zmq_socket (self->context, ZMQ_PAIR);
    if (!port->socket || !port->monitor)
        return -1;
    int64_t bytes_max = port->role == WM_ROLE_OPERATOR ? WM_CONTROL_BYTES_MAX : WM_FRAME_BYTES_MAX;
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
    char name[64];
    snprintf (name, sizeof name, "inproc://monitor-%zu", i);
    return zmq_socket_monitor (port->socket, name, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) ||
           zmq_connect (port->monitor, name);
}

/* Binds a site's three ports on each of its hosts; all or none. A host that this machine has not
   (of a name with several) is left out where another is bound. Returns -1, with errno and the port,
   by its number in `site`, that could not be bound.  */
static int ports_bind (wm_listener_t *self, site_t *site, size_t *at)
{
    char text[400];
    const int n_host = site->at.scheme == WM_ADDRESS_IPC ? 1 : site->n_host;
    int n_bound = 0;
    for (int h = 0; h < n_host; h++) {
        size_t i = 0;
        for (; i < PORTS; i++) {
            port_print (site, h, i, text);
            if (zmq_bind (self->port[i].socket, text))
                break;
        }
        if (i == PORTS) {
            memcpy (site->host[n_bound++], site->host[h], WM_HOST_BYTES);
            continue;
        }
        if (i == 0 && errno == EADDRNOTAVAIL && (h + 1 < n_host || n_bound))
            continue;
        const int saved = errno;
        *at = i;
        memcpy (site->host[n_bound], site->host[h], WM_HOST_BYTES);
        for (int b = 0; b <= n_bound; b++)
            for (size_t k = 0; k < (b < n_bound ? PORTS : i); k++) {
                port_print (site, b, k, text);
                zmq_unbind (self->port[k].socket, text);
            }
        errno = saved;
        return -1;
    }
    site->n_host = n_bound;
    return 0;
}

static void ports_set (wm_address_t *address, int base)
{
    for (int i = 0; i < PORTS; i++)
        address->port[i] = base + i;
}

/* Binds a site to the ports given, to the first three in a row that are free in its range, or to
   any: first where this process is likely alone. A port that is taken rules out all bases below it,
   so that no port is tried again that was just released (libzmq closes it later).  */
static int site_bind (wm_listener_t *self, site_t *site, size_t *at)
{
    const site_t given = *site;
    const int last = given.at.last;
    if (given.at.scheme == WM_ADDRESS_IPC || (given.at.port[0] && !last))
        return ports_bind (self, site, at);
    int base = given.at.port[0];
    for (int i = 0; last ? base + 2 <= last : i < 200; i++) {
        if (!last)
            base = 20000 + (int) (((unsigned) getpid () * 7 + (unsigned) i * 131) % 40000);
        *site = given;
        site->at.last = 0;
        ports_set (&site->at, base);
        if (ports_bind (self, site, at) == 0)
            return 0;
        if (errno != EADDRINUSE && errno != EACCES)
            return -1;
        base += (int) *at + 1;
    }
    return -1;
}

/* Explains a bind that failed; `at` is the port that did.  */
static void explain (const site_t *site, const wm_address_t *given, size_t at, wm_error_t *error)
{
    static const char *const role[] = { "workers", "producers", "operators" };
    const int saved = errno;
    char text[WM_ADDRESS_BYTES], range[WM_ADDRESS_BYTES], who[WM_PORT_HOLDER_BYTES];
    wm_address_t wider = *given;
    wider.port[0] = 5500;
    wider.last = 5600;
    wm_address_print (given, NULL, text);
    wm_address_print (&wider, NULL, range);
    if (given->scheme == WM_ADDRESS_IPC) {
        wm_fault (error, WM_EHOST, "cannot listen on %s (.w, .p and .o): %s", text,
                  zmq_strerror (saved));
        return;
    }
    wm_port_holder (site->at.port[at], who);
    if (given->last)
        wm_fault (error, WM_EHOST,
                  "cannot listen on %s: no three ports in a row are free there (%s has the last "
                  "that was tried); give a wider range",
                  text, who);
    else if (saved == EADDRINUSE)
        wm_fault (error, WM_EHOST,
                  "cannot listen on %s: port %d (%s) is in use: %s has it; choose others with "
                  "--listen, or a range to take free ones from: --listen %s",
                  text, site->at.port[at], role[at], who, range);
    else
        wm_fault (error, WM_EHOST, "cannot listen on %s (port %d): %s%s", text, site->at.port[at],
                  zmq_strerror (saved),
                  saved == EADDRNOTAVAIL ? ": no interface of this machine has it" : "");
}

/* Adds what a site is bound to, to the list; the first is what this machine's programs use.  */
static void add_bound (wm_listener_t *self, const site_t *site)
{
    const int n_host = site->at.scheme == WM_ADDRESS_IPC ? 1 : site->n_host;
    for (int h = 0; h < n_host; h++) {
        char text[WM_ADDRESS_BYTES];
        const char *host = site->host[h];
        size_t n = strlen (self->listens);
        wm_address_print (&site->at, site->at.scheme == WM_ADDRESS_IPC ? NULL : host, text);
        if (n + strlen (text) + 2 < sizeof self->listens)
            sprintf (self->listens + n, "%s%s", n ? "," : "", text);
        if (*self->endpoint)
            continue;
        const bool is_any = strcmp (host, "*") == 0 || strcmp (host, "0.0.0.0") == 0;
        wm_address_print (&site->at,
                          site->at.scheme == WM_ADDRESS_IPC ? NULL
                          : is_any                          ? "127.0.0.1"
                          : strcmp (host, "[::]") == 0      ? "[::1]"
                                                            : host,
                          self->endpoint);
    }
}

wm_fault_t wm_listener_check (const char *endpoint, bool insecure, wm_error_t *error)
{
    site_t site[WM_ADDRESSES_MAX];
    return sites_parse (site, endpoint, insecure, error) ? WM_OK : error->fault;
}

wm_listener_t *wm_listener_new (const char *endpoint, bool insecure, wm_error_t *error)
{
    site_t site[WM_ADDRESSES_MAX];
    const int n_site = sites_parse (site, endpoint, insecure, error);
    if (!n_site)
        return NULL;
    wm_listener_t *self = calloc (1, sizeof *self);
    assert (self);
    zmq_msg_init (&self->header);
    zmq_msg_init (&self->payload);
    self->context = zmq_ctx_new ();
    int failed = !self->context;
    for (size_t i = 0; !failed && i < PORTS; i++)
        failed = port_open (self, i);
    if (failed)
        wm_fault (error, WM_EHOST, "no sockets to listen on %s: %s", endpoint,
                  zmq_strerror (errno));
    for (int i = 0; !failed && i < n_site; i++) {
        const wm_address_t given = site[i].at;
        size_t at = 0;
        failed = site_bind (self, &site[i], &at);
        if (failed)
            explain (&site[i], &given, at, error);
        else
            add_bound (self, &site[i]);
    }
    if (failed)
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
    if (self->context)
        zmq_ctx_term (self->context);
    free (self->closing);
    free (self->failed);
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

/* The descriptor belongs to libzmq, which may be closing it now: at worst another peer that was
   given the same number is disconnected, and connects again.  */
void wm_listener_disconnect (wm_peer_t *peer)
{
    if (peer->fd >= 0)
        shutdown (peer->fd, SHUT_RDWR);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Grows a list of `size`-byte items by one; asserts on memory (a few bytes a peer).  */
static void *grow (void *list, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return list;
    *capacity = *capacity ? *capacity * 2 : 16;
    list = realloc (list, *capacity * size);
    assert (list);
    return list;
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
}

static void disconnected (port_t *port, int fd)
{
    wm_peer_t *peer = peer_of_fd (port, fd);
    if (!peer)
        return;
    wm_table_remove (&port->by_fd, fd_hash (fd), peer);
    if (!peer->has_id) {
        free (peer);
        return;
    }
    port->closed =
        grow (port->closed, port->n_closed, &port->closed_capacity, sizeof *port->closed);
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
            disconnected (port, fd);
    }
    zmq_msg_close (&msg);
}

void wm_listener_tick (wm_listener_t *self, int64_t now_ms)
{
    for (size_t i = 0; i < PORTS; i++)
        monitor_read (self, &self->port[i]);
    for (size_t i = 0; i < PORTS; i++) {
        const wm_table_t *all = &self->port[i].by_fd;
        for (size_t j = 0; all->slot && j <= all->mask; j++) {
            wm_peer_t *peer = all->slot[j].item;
            if (peer && peer->session)
                peer->since_ms = now_ms;
            else if (peer && now_ms - peer->since_ms > wm_times ()->handshake_ms)
                wm_listener_disconnect (peer);
        }
    }
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
    peer->has_id = true;
    memcpy (peer->id, zmq_msg_data (id), 5);
    wm_table_put (&port->peers, id_hash (peer->id), peer);
    return peer;
}

/* Reads one whole message; false: there is none.  */
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
    zmq_msg_init (&more);
    for (int has_more = zmq_msg_more (&id); has_more; self->n_frames++) {
        zmq_msg_t *to = self->n_frames == 0   ? &self->header
                        : self->n_frames == 1 ? &self->payload
                                              : &more;
        zmq_msg_recv (to, port->socket, ZMQ_DONTWAIT); /* messages are delivered whole */
        has_more = zmq_msg_more (to);
        fd = zmq_msg_get (to, ZMQ_SRCFD);
    }
    zmq_msg_close (&more);
    *peer = peer_of (self, port, &id, fd);
    zmq_msg_close (&id);
    return true;
}

void wm_listener_wait (wm_listener_t *self, int64_t timeout_ms)
{
    zmq_pollitem_t items[2 * PORTS];
    for (size_t i = 0; i < PORTS; i++) {
        items[2 * i] = (zmq_pollitem_t){ .socket = self->port[i].socket, .events = ZMQ_POLLIN };
        items[2 * i + 1] =
            (zmq_pollitem_t){ .socket = self->port[i].monitor, .events = ZMQ_POLLIN };
    }
    if (!self->n_failed)
        zmq_poll (items, 2 * PORTS, timeout_ms);
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
            if (*peer)
                return WM_LISTENER_MESSAGE;
            continue;
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
    return WM_LISTENER_NOTHING;
}

const uint8_t *wm_listener_header (wm_listener_t *self, size_t *bytes, zmq_msg_t **payload,
                                   uint64_t *check)
{
    const uint8_t *header = zmq_msg_data (&self->header);
    *payload = self->n_frames == 2 ? &self->payload : NULL;
    *check = *payload ? wm_msg_check (zmq_msg_data (*payload), zmq_msg_size (*payload)) : 0;
    *bytes = self->n_frames == 1 || *payload
                 ? wm_msg_unseal (header, zmq_msg_size (&self->header), *check)
                 : 0;
    return *bytes ? header : NULL;
}

/* ---- sending --------------------------------------------------------------------------------- */

void wm_listener_send (wm_listener_t *self, wm_peer_t *peer, const wm_msg_t *msg,
                       zmq_msg_t *payload, uint64_t check)
{
    void *socket = self->port[peer->role - WM_ROLE_WORKER].socket;
    uint8_t header[WM_HEADER_BYTES_MAX];
    size_t bytes = wm_msg_seal (header, wm_msg_encode (msg, header), payload ? check : 0);
    /* The first frame decides: after it the others of the message cannot be refused. */
    const bool sent = !peer->failed &&
                      zmq_send (socket, peer->id, sizeof peer->id, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0;
    if (sent) {
        zmq_send (socket, header, bytes, (payload ? ZMQ_SNDMORE : 0) | ZMQ_DONTWAIT);
        if (payload && zmq_msg_send (payload, socket, ZMQ_DONTWAIT) >= 0)
            return;
    } else if (!peer->failed) {
        if (errno == EAGAIN) /* its queue is full */
            wm_listener_disconnect (peer);
        peer->failed = true;
        self->failed =
            grow (self->failed, self->n_failed, &self->failed_capacity, sizeof *self->failed);
        self->failed[self->n_failed++] = peer;
    }
    if (payload)
        zmq_msg_close (payload);
}
