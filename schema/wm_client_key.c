/* wm_client_key.c - see wm_client_private.h.

   libzmq tells a refused client nothing but an event on its socket's monitor. A broker answers 400
   for a key that it does not know for this role and 500 for one that is over; what it cannot
   decrypt it closes.  */
#include "schema/wm_client_private.h"

#include <sodium.h>
#include <time.h>

/* libzmq copies what it is given.  */
void wm_client_key_use (const wm_client_key_t *self, void *socket)
{
    uint8_t public_key[32], private_key[32];
    wm_join_pair (self->join, public_key, private_key);
    zmq_setsockopt (socket, ZMQ_CURVE_SERVERKEY, self->join->server, 32);
    zmq_setsockopt (socket, ZMQ_CURVE_PUBLICKEY, public_key, 32);
    zmq_setsockopt (socket, ZMQ_CURVE_SECRETKEY, private_key, 32);
    sodium_memzero (private_key, sizeof private_key);
}

static const char *why_refused (const wm_client_key_t *self)
{
    const int64_t until = self->join->expires_s;
    return self->value < 500 ? "it is not in that campaign's table of keys for this role"
           : until && until <= time (NULL) ? "it expired"
                                           : "it was revoked, or has expired";
}

wm_fault_t wm_client_key_failed (wm_client_key_t *self, const char *endpoint, wm_role_t role,
                                 wm_error_t *error)
{
    const bool mismatch = self->event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
                          self->value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
    const char *name = wm_role_name (role);
    if (mismatch && !self->join)
        return wm_fault (error, WM_EKEY,
                         "key refused: the broker at %s wants a key, and this %s has none; give "
                         "--join-file with the campaign's join-%s",
                         endpoint, name, name);
    if (mismatch)
        return wm_fault (error, WM_EKEY,
                         "key refused: the broker at %s takes no keys, and what is sent there is "
                         "not encrypted; start it with --keys, or leave out the join file %s "
                         "(--join-file, WM_JOIN_FILE)",
                         endpoint, self->path);
    if (self->join && self->event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return wm_fault (error, WM_EKEY,
                         "key refused: %s %s of %s, by the broker at %s: %s; ask its operator for "
                         "another (wiremill keys add --role %s)",
                         wm_role_name (self->join->role), self->join->id, self->path, endpoint,
                         why_refused (self), wm_role_name (self->join->role));
    if (!self->event || self->event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return wm_fault (error, WM_EAGAIN, "no broker answers at %s", endpoint);
    if (++self->n_closed < WM_HANDSHAKE_CLOSED_MAX || !self->join)
        return wm_fault (error, WM_EAGAIN,
                         "no broker answers at %s: it closes the connection in the handshake; it "
                         "has no room, or wants a key (--join-file)",
                         endpoint);
    return wm_fault (error, WM_EKEY,
                     "key refused: %s %s of %s, by the broker at %s, which closed the "
                     "connection in the handshake: the key is of another campaign, or older "
                     "than the broker's server-key; ask its operator for another",
                     wm_role_name (self->join->role), self->join->id, self->path, endpoint);
}
