/* wm_client_private.h - the key by which a client opens its session, and why the broker refused it.

   Thread: the client's.  */
#ifndef WM_CLIENT_PRIVATE_H
#define WM_CLIENT_PRIVATE_H

#include "schema/session/wm_join.h"

#include <zmq.h>

#define WM_HANDSHAKE_FAILED                                                                        \
    (ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |                  \
     ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)

/* A connection that the broker closes in the handshake, without a reason, so often in a row: it
   could not decrypt what it was sent, so the key is of another campaign.  */
#define WM_HANDSHAKE_CLOSED_MAX 3
#define WM_HANDSHAKE_PAUSE_MS 200

typedef struct {
    wm_role_t least;       /* of a key that is enough */
    const char *of;        /* lent: a campaign, its folder's keys, and those given; NULL: all */
    const wm_join_t *join; /* NULL: none */
    const char *path;      /* its file */
    const char *address;   /* that is tried, numeric */
    uint16_t event;        /* of libzmq, that ended the handshake; 0: none did */
    uint32_t value;        /* of the event */
    unsigned n_closed;     /* handshakes in a row that the broker ended without a reason */
} wm_client_key_t;

/* Gives a socket the key, before it connects.  */
void wm_client_key_use (const wm_client_key_t *self, void *socket);

/* Explains why the connection ended before WELCOME. WM_EKEY: the broker refused the key, or wants
   one; WM_EAGAIN: for another reason, or it is not yet sure.  */
wm_fault_t wm_client_key_failed (wm_client_key_t *self, const char *endpoint, wm_error_t *error);

/* Calls `open` with the keys of this process that are of the session's role, one after another,
   until one is admitted, and with each again while the broker closes the connection in the
   handshake. The keys are read from their files, so that a rotated one is found. On ipc the file's
   permissions decide, and no keys are used. `open` sets *error.  */
wm_fault_t wm_client_key_each (wm_client_key_t *self, const char *endpoint, wm_role_t role,
                               int64_t deadline_ms, wm_fault_t (*open) (void *argument),
                               void *argument, wm_error_t *error);

#endif
