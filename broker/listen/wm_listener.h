/* wm_listener.h - the broker's three listeners: messages in, messages out, closed connections.

   Workers, producers and operators each have a listener: a ROUTER socket and its monitor. A peer is
   one connection, identified by the routing id that libzmq gave it and by its file descriptor,
   which every message carries and the monitor names when the connection closes. A closed connection
   is reported after all its messages were read. A peer that has no session for handshake_ms is
   disconnected, so that silent peers keep no descriptors; so is one of too many that have sent
   nothing yet (wm_pending_peers.h). At most WM_ADMITTED_MAX connections are admitted before the
   caller has read on: others wait before their handshake, so that they cannot fill its memory. If
   some have waited for half of handshake_ms, all are admitted: longer, and they would give up.

   libzmq's own heartbeats are not used (they abort a process that pauses), nor routing ids chosen
   by peers (two peers with the same id lose messages). A send never blocks: a peer to which a
   message cannot be sent is disconnected. A message is a header, and at most one payload (more
   frames are discarded). libzmq keeps the frames of a message until its last, however many, and
   counts none of them: a peer on TCP that sends more bytes than two of the largest frames without
   the end of a message is disconnected.

   With keys (wm_keyguard.h) only peers connect whose key is of the listener's role; one whose key
   expires or is revoked is reported REFUSED, once, and its messages are dropped from then on.
   Thread: one.  */
#ifndef WM_LISTENER_H
#define WM_LISTENER_H

#include "schema/base/wm_tcp.h"
#include "schema/session/wm_join.h"
#include "schema/session/wm_msg.h"

#include <stdbool.h>
#include <zmq.h>

#define WM_ADMITTED_MAX 16u /* of 1,024 peers that come at once, 64 passes of the broker's loop */

typedef struct wm_listener_t wm_listener_t;

/* One connection; valid until it was reported closed.  */
typedef struct {
    wm_role_t role;   /* its listener's */
    uint32_t session; /* the caller's; 0 when new */
    uint8_t id[5];    /* libzmq's routing id */
    bool failed;      /* a send failed: it is reported closed next */
    bool lost;   /* its descriptor is not known, the connection may be closed; the listener's */
    bool has_id; /* it sent a message, so that its id is known; the listener's */
    bool known;  /* the caller's: it has had a session, or was refused one */
    const char *refused;        /* why its key is not admitted; NULL: it is, or there are no keys */
    bool reads_only;            /* by a monitor's key */
    char key[WM_JOIN_ID_BYTES]; /* its key's id; "" without keys */
    uint64_t generation;        /* of the guard that `refused` is of; the listener's */
    int fd;
    uint64_t n_sent, n_received; /* messages; the listener's */
    uint64_t n_message;          /* read, also those that are dropped; the listener's */
    struct {
        uint64_t n_message, bytes, round;
    } part; /* of a message that is not whole; the listener's */
    wm_tcp_flow_t flow;          /* the listener's */
    int64_t since_ms;            /* without a session; the listener's */
} wm_peer_t;

typedef enum {
    WM_LISTENER_NOTHING,
    WM_LISTENER_MESSAGE,
    WM_LISTENER_CLOSED,
    WM_LISTENER_REFUSED, /* peer->refused explains it */
} wm_listener_event_t;

/* When peers need keys. AUTO: on every address that is neither loopback nor ipc.  */
typedef enum { WM_LISTENER_AUTO, WM_LISTENER_KEYS, WM_LISTENER_PLAIN } wm_listener_mode_t;

/* Checks whether an address may be bound: WM_EHOST if it is invalid, or ipc with keys.  */
wm_fault_t wm_listener_check (const char *endpoint, wm_listener_mode_t mode, wm_error_t *error);

/* Binds each of the addresses (wm_address.h) with its three ports. Whoever sends a larger frame
   (wm_frame_bytes_max) is disconnected. NULL on failure with *error:
   wm_listener_check refuses an address, it is taken, the keys of `campaign` (a folder, lent; NULL:
   there are none to be had) cannot be read, or a listener with keys let a stranger in.  */
wm_listener_t *wm_listener_new (const char *endpoint, wm_listener_mode_t mode, const char *campaign,
                                uint32_t frame_bytes_max, wm_error_t *error);

/* Returns whether peers need keys.  */
bool wm_listener_has_keys (const wm_listener_t *self);

/* Closes the sockets; queued messages have up to a second to leave.  */
void wm_listener_destroy (wm_listener_t **self_p);

/* Returns the first base address, with its port, as this machine's programs use it; lent.  */
const char *wm_listener_endpoint (const wm_listener_t *self);

/* Returns all base addresses that are bound, joined by commas (* is all interfaces); lent.  */
const char *wm_listener_listens (const wm_listener_t *self);

/* Blocks until something happens or timeout_ms have passed (also on a signal).  */
void wm_listener_wait (wm_listener_t *self, int64_t timeout_ms);

/* Disconnects a peer; it is reported closed if it ever sent a message.  */
void wm_listener_disconnect (wm_listener_t *self, wm_peer_t *peer);

/* Returns the milliseconds since parts of a message of this peer arrived that is not whole yet
   (wm_tcp_moved_ms, at the last wm_listener_tick); INT64_MAX: unknown.  */
int64_t wm_listener_quiet_ms (const wm_peer_t *peer);

/* Disconnects peers that have had no session for handshake_ms, and those whose message has no end;
   looks whose key is over, and every minute whether a stranger is let in: WM_EHOST, after which the
   broker must end. Call it several times a second.  */
wm_fault_t wm_listener_tick (wm_listener_t *self, int64_t now_ms, wm_error_t *error);

/* Returns the next event. MESSAGE: from *peer; wm_listener_header has it. CLOSED: *peer is valid
   until the next call. NOTHING: everything is read.  */
wm_listener_event_t wm_listener_next (wm_listener_t *self, wm_peer_t **peer);

/* Returns the header of the last MESSAGE, which came from `peer`, NULL if its seal is broken. Call
   it once a message, until one has none. *payload: NULL without one; it may be moved away, and then
   sent on with *check.  */
const uint8_t *wm_listener_header (wm_listener_t *self, wm_peer_t *peer, size_t *bytes,
                                   zmq_msg_t **payload, uint64_t *check);

/* Sends a message; payload may be NULL, else it is moved away (and closed, also on failure) and
   `check` is wm_msg_check of it.  */
void wm_listener_send (wm_listener_t *self, wm_peer_t *peer, const wm_msg_t *msg,
                       zmq_msg_t *payload, uint64_t check);

#endif
