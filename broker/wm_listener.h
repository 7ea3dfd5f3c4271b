/* wm_listener.h - the broker's three sockets: who is there, what they say, who has gone.

   Workers, producers and operators each have a ROUTER socket and a monitor. A peer is one
   connection, known by the routing id that libzmq gave it and by its file descriptor, which every
   message carries and the monitor names when the connection closes. A closed connection is reported
   after everything that it had said was read. Whoever has no session for the time of a handshake is
   hung up on, so that silence keeps no descriptor.

   libzmq's own heartbeats are not used (they abort a process that pauses), nor routing ids of the
   peers' choice (two with one lose messages). A send never blocks: what cannot be sent ends the
   peer. Each message is at most WM_FRAMES_MAX frames (more are read and thrown away).
   Thread: one.  */
#ifndef WM_LISTENER_H
#define WM_LISTENER_H

#include "schema/wm_msg.h"

#include <zmq.h>

typedef struct wm_listener_t wm_listener_t;

/* One connection. Lives until it was reported closed.  */
typedef struct {
    wm_role_t role;   /* its listener's */
    uint32_t session; /* the caller's; 0 when new */
    uint8_t id[5];    /* libzmq's routing id */
    uint8_t failed;   /* a send failed: it is reported closed next */
    uint8_t lost;     /* its connection is not known: it closed, or may have; the listener's */
    uint8_t heard;    /* it spoke, so that its id is known; the listener's */
    uint8_t known;    /* the caller's: it has had a session, or was refused one */
    int fd;
    int64_t since_ms; /* without a session; the listener's */
} wm_peer_t;

typedef enum { WM_LISTENER_NOTHING, WM_LISTENER_MESSAGE, WM_LISTENER_CLOSED } wm_listener_event_t;

/* Whether an address may be bound to: WM_EHOST if it is none, or is neither loopback nor ipc
   without `insecure`.  */
wm_fault_t wm_listener_check (const char *endpoint, int insecure, wm_error_t *error);

/* Binds. NULL on failure with *error: wm_listener_check refuses the address, or it is taken.  */
wm_listener_t *wm_listener_new (const char *endpoint, int insecure, wm_error_t *error);

/* Closes; what was sent has up to a second to leave.  */
void wm_listener_destroy (wm_listener_t **self_p);

/* The base address, with its port.  */
const char *wm_listener_endpoint (const wm_listener_t *self);

/* Blocks until something happens or timeout_ms have passed (also on a signal).  */
void wm_listener_wait (wm_listener_t *self, int64_t timeout_ms);

/* Ends a connection; it is reported closed if it ever spoke.  */
void wm_listener_hang_up (wm_peer_t *peer);

/* Hangs up on whoever has had no session for handshake_ms. Call it every now and then.  */
void wm_listener_tick (wm_listener_t *self, int64_t now_ms);

/* The next event. MESSAGE: *peer, wm_listener_header and wm_listener_payload hold it. CLOSED: *peer lives
   until the next call. NOTHING: all is read.  */
wm_listener_event_t wm_listener_next (wm_listener_t *self, wm_peer_t **peer);

/* The header of the last MESSAGE, NULL where its seal is broken. *payload: NULL without one; it may
   be moved away, and then sent on with *check.  */
const uint8_t *wm_listener_header (wm_listener_t *self, size_t *bytes, zmq_msg_t **payload,
                                   uint64_t *check);

/* Sends; payload may be NULL, else it is moved away (and closed, whatever happens) and `check` is
   wm_msg_check of it.  */
void wm_listener_send (wm_listener_t *self, wm_peer_t *peer, const wm_msg_t *msg,
                       zmq_msg_t *payload, uint64_t check);

#endif
