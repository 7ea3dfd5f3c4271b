/* wm_doors.h - the broker's three sockets: who is there, what they say, who has gone.

   Workers, producers and operators each have a ROUTER socket and a monitor. A peer is one
   connection, known by the routing id that libzmq gave it and by its file descriptor, which every
   message carries and the monitor names when the connection closes. A closed connection is reported
   after everything that it had said was read.

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
    uint8_t heard;    /* the caller's: it has had a session */
    int fd;
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

/* The next event. MESSAGE: *peer, wm_doors_header and wm_doors_payload hold it. CLOSED: *peer lives
   until the next call. NOTHING: all is read.  */
wm_doors_event_t wm_doors_next (wm_doors_t *self, wm_peer_t **peer);

/* Of the last MESSAGE. n_frames does not count the routing id.  */
const uint8_t *wm_doors_header (const wm_doors_t *self, size_t *bytes, uint32_t *n_frames);
zmq_msg_t *wm_doors_payload (wm_doors_t *self); /* may be moved away */

/* Sends; payload may be NULL, else it is moved away (and closed, whatever happens).  */
void wm_doors_send (wm_doors_t *self, wm_peer_t *peer, const wm_msg_t *msg, zmq_msg_t *payload);

#endif
