/* wm_doors.h - the broker's three sockets: who is there, what they say, who has gone.

   Workers, producers and operators each have a ROUTER socket and a monitor. A peer is one
   connection, known by the routing id that libzmq gave it and by its file descriptor, which every
   message carries and the monitor names when the connection closes. A closed connection is reported
   after everything that it had said was read. Whoever has no session for the time of a handshake is
   hung up on, so that silence keeps no descriptor.

   libzmq's own heartbeats are not used (they abort a process that pauses), nor routing ids of the
   peers' choice (two with one lose messages). A send never blocks: what cannot be sent ends the
   peer. Each message is at most WM_FRAMES_MAX frames (more are read and thrown away).
   Thread: one.  */
#ifndef WM_DOORS_H
#define WM_DOORS_H

#include "schema/wm_msg.h"

#include <zmq.h>

typedef struct wm_doors_t wm_doors_t;

/* One connection. Lives until it was reported closed.  */
typedef struct {
    wm_role_t role;   /* of the door */
    uint32_t session; /* the caller's; 0 when new */
    uint8_t id[5];    /* libzmq's routing id */
    uint8_t failed;   /* a send failed: it is reported closed next */
    uint8_t lost;     /* its connection is not known: it closed, or may have; the door's */
    uint8_t heard;    /* it spoke, so that its id is known; the door's */
    uint8_t known;    /* the caller's: it has had a session, or was refused one */
    int fd;
    int64_t since_ms; /* without a session; the door's */
} wm_peer_t;

typedef enum { WM_DOORS_NOTHING, WM_DOORS_MESSAGE, WM_DOORS_CLOSED } wm_doors_event_t;

/* Whether an address may be bound to: WM_EHOST if it is none, or is neither loopback nor ipc
   without `insecure`.  */
wm_fault_t wm_doors_check (const char *endpoint, int insecure, wm_error_t *error);

/* Binds. NULL on failure with *error: wm_doors_check refuses the address, or it is taken.  */
wm_doors_t *wm_doors_new (const char *endpoint, int insecure, wm_error_t *error);

/* Closes; what was sent has up to a second to leave.  */
void wm_doors_destroy (wm_doors_t **self_p);

/* The base address, with its port.  */
const char *wm_doors_endpoint (const wm_doors_t *self);

/* Blocks until something happens or timeout_ms have passed (also on a signal).  */
void wm_doors_wait (wm_doors_t *self, int64_t timeout_ms);

/* Ends a connection; it is reported closed if it ever spoke.  */
void wm_doors_hang_up (wm_peer_t *peer);

/* Hangs up on whoever has had no session for handshake_ms. Call it every now and then.  */
void wm_doors_tick (wm_doors_t *self, int64_t now_ms);

/* The next event. MESSAGE: *peer, wm_doors_header and wm_doors_payload hold it. CLOSED: *peer lives
   until the next call. NOTHING: all is read.  */
wm_doors_event_t wm_doors_next (wm_doors_t *self, wm_peer_t **peer);

/* The header of the last MESSAGE, NULL where its seal is broken. *payload: NULL without one; it may
   be moved away, and then sent on with *check.  */
const uint8_t *wm_doors_header (wm_doors_t *self, size_t *bytes, zmq_msg_t **payload,
                                uint64_t *check);

/* Sends; payload may be NULL, else it is moved away (and closed, whatever happens) and `check` is
   wm_msg_check of it.  */
void wm_doors_send (wm_doors_t *self, wm_peer_t *peer, const wm_msg_t *msg, zmq_msg_t *payload,
                    uint64_t check);

#endif
