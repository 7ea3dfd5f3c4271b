/* wm_client_key.c - see wm_client_private.h.

   A refused client gets nothing from libzmq but an event on its socket's monitor. A broker answers
   400 for a key that it does not know for this role and 500 for one that is over; a connection that
   it cannot decrypt it closes.  */
#include "schema/session/wm_client_private.h"
#include "schema/wm_limits.h"

#include <czmq.h>
#include <netdb.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* libzmq copies what it is given.  */
void wm_client_key_use (const wm_client_key_t *self, void *socket)
{
    uint8_t public_key[32], private_key[32];
    sodium_mlock (private_key, sizeof private_key);
    wm_join_pair (self->join, public_key, private_key);
    zmq_setsockopt (socket, ZMQ_CURVE_SERVERKEY, self->join->server, 32);
    zmq_setsockopt (socket, ZMQ_CURVE_PUBLICKEY, public_key, 32);
    zmq_setsockopt (socket, ZMQ_CURVE_SECRETKEY, private_key, 32);
    sodium_munlock (private_key, sizeof private_key); /* wipes it */
}

static const char *why_refused (const wm_client_key_t *self)
{
    const int64_t until = self->join->expires_s;
    return self->value < 500 ? "it is not in that campaign's table of keys for this role"
           : until && until <= time (NULL) ? "it expired"
                                           : "it was revoked, or has expired";
}

/* Asks what is used at an address, "CURVE" or "NULL": the greeting of ZMTP 3 has it from its 13th
   byte on, and a listener sends it before it looks at ours. A listener that wants another mechanism
   than a client's often closes the connection before libzmq has read that.  */
static void ask_mechanism (const char *endpoint, char mechanism[21])
{
    static const uint8_t begin[] = { 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3 };
    uint8_t greeting[64];
    char host[256];
    size_t n = 0;
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *found;
    const struct timeval limit = { .tv_sec = 1 };
    mechanism[0] = 0;
    const char *port = strrchr (endpoint, ':');
    if (strncmp (endpoint, "tcp://", 6) != 0 || !port || port < endpoint + 6)
        return;
    const bool is_v6 = endpoint[6] == '[';
    snprintf (host, sizeof host, "%.*s", (int) (port - endpoint - 6 - 2 * is_v6),
              endpoint + 6 + is_v6);
    if (getaddrinfo (host, port + 1, &hints, &found))
        return;
    const int fd = socket (found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt (fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (fd >= 0 && !connect (fd, found->ai_addr, found->ai_addrlen) &&
        send (fd, begin, sizeof begin, MSG_NOSIGNAL) == sizeof begin)
        for (ssize_t more = 1; more > 0 && n<sizeof greeting; n += more> 0 ? (size_t) more : 0)
            more = read (fd, greeting + n, sizeof greeting - n);
    if (fd >= 0)
        close (fd);
    freeaddrinfo (found);
    if (n >= 32 && greeting[0] == 0xff && greeting[9] == 0x7f)
        snprintf (mechanism, 21, "%.20s", (const char *) greeting + 12);
}

wm_fault_t wm_client_key_failed (wm_client_key_t *self, const char *endpoint, wm_error_t *error)
{
    char mechanism[21] = "";
    const char *name = wm_role_name (self->least);
    if (self->join && self->event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return wm_fault (error, WM_EKEY,
                         "key refused: %s %s of %s, by the broker at %s: %s; ask its operator for "
                         "another (wiremill keys add --role %s)",
                         wm_role_name (self->join->role), self->join->id, self->path, endpoint,
                         why_refused (self), wm_role_name (self->join->role));
    if (self->event)
        ask_mechanism (self->address, mechanism);
    if (!self->join && strcmp (mechanism, "CURVE") == 0)
        return wm_fault (error, WM_EKEY,
                         "key refused: the broker at %s wants a key, and this %s has none; give "
                         "--join-file with the campaign's join-%s",
                         endpoint, name, name);
    if (self->join && strcmp (mechanism, "NULL") == 0)
        return wm_fault (error, WM_EKEY,
                         "key refused: the broker at %s takes no keys, and what is sent there is "
                         "not encrypted; start it with --keys, or leave out the join file %s "
                         "(--join-file, WM_JOIN_FILE)",
                         endpoint, self->path);
    if (self->join && strcmp (mechanism, "CURVE") == 0 &&
        ++self->n_closed >= WM_HANDSHAKE_CLOSED_MAX)
        return wm_fault (error, WM_EKEY,
                         "key refused: %s %s of %s, by the broker at %s, which closed the "
                         "connection in the handshake: the key is of another campaign, or older "
                         "than the broker's server-key; ask its operator for another",
                         wm_role_name (self->join->role), self->join->id, self->path, endpoint);
    return wm_fault (error, WM_EAGAIN, "no broker answers at %s", endpoint);
}

/* Once may be chance.  */
static wm_fault_t open_with (wm_client_key_t *self, int64_t deadline_ms,
                             wm_fault_t (*open) (void *argument), void *argument)
{
    self->n_closed = 0;
    for (;;) {
        const unsigned before = self->n_closed;
        const wm_fault_t fault = open (argument);
        if (fault != WM_EAGAIN || self->n_closed == before ||
            self->n_closed == WM_HANDSHAKE_CLOSED_MAX ||
            wm_now_ms () + WM_HANDSHAKE_PAUSE_MS >= deadline_ms)
            return fault;
        zclock_sleep (WM_HANDSHAKE_PAUSE_MS);
    }
}

wm_fault_t wm_client_key_each (wm_client_key_t *self, const char *endpoint, wm_role_t role,
                               int64_t deadline_ms, wm_fault_t (*open) (void *argument),
                               void *argument, wm_error_t *error)
{
    wm_join_t join;
    wm_fault_t fault = WM_OK;
    bool is_tried = false;
    if (strncmp (endpoint, "ipc://", 6) == 0)
        return open (argument);
    if (!wm_join_any (self->of))
        return open_with (self, deadline_ms, open, argument);
    sodium_mlock (&join, sizeof join);
    for (size_t i = 0; (self->path = wm_join_path (i)) && (!is_tried || fault == WM_EKEY); i++) {
        if (!wm_join_is_of (i, self->of))
            continue;
        if (wm_join_read (&join, self->path, error)) {
            fault = error->fault = WM_EAGAIN; /* it was good when the process began */
            continue;
        }
        if (!wm_role_fits (join.role, role)) {
            if (!is_tried)
                fault = wm_fault (error, WM_EKEY,
                                  "key refused: %s is the key of a %s; give --join-file with the "
                                  "campaign's join-%s, for the broker at %s",
                                  self->path, wm_role_name (join.role), wm_role_name (self->least),
                                  endpoint);
            continue;
        }
        is_tried = true;
        self->join = &join;
        fault = open_with (self, deadline_ms, open, argument);
        self->join = NULL;
    }
    sodium_munlock (&join, sizeof join); /* wipes it */
    return fault;
}
