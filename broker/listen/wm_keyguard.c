/* wm_keyguard.c - see wm_keyguard.h.

   A request of ZAP 1.0 has the frames version, request id, domain, address, identity, mechanism
   and, of CURVE, the client's public key. Status 200 admits; 400 refuses a key that is not in
   the table for this role, 500 a key that has expired or was revoked: the client's message depends
   on it. Without keys the broker admits every peer.  */
#include "broker/listen/wm_keyguard.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <zmq.h>

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93 /* Debian's libzmq has it, its header does not */
#endif
#define REQUEST_FRAMES 7
#define FRAME_BYTES 256
#define LOOK_MS 1000

typedef struct {
    struct timespec mtime;
    ino_t inode;
    off_t bytes;
} stamp_t;

struct wm_keyguard_t {
    void *socket;
    bool has_keys;
    const char *campaign;
    wm_keys_t table;
    uint8_t public_key[32], expected[32];
    uint64_t generation;
    int64_t look_ms, logged_ms; /* when the table is looked at, and a refusal logged, again */
    int64_t next_s;             /* the next expiry, seconds of 1970 */
    int64_t last_s;             /* the time at the last tick */
    stamp_t stamp;              /* of the table that was read */
    wm_error_t told;            /* what was logged of a table that cannot be read */
};

/* ---- the table ------------------------------------------------------------------------------- */

static stamp_t stamp_now (const wm_keyguard_t *self)
{
    char path[PATH_MAX];
    struct stat st = { 0 };
    snprintf (path, sizeof path, "%.4000s/keys", self->campaign);
    (void) stat (path, &st); /* a table that is gone has changed, too */
    return (stamp_t){ st.st_mtim, st.st_ino, st.st_size };
}

static bool is_same (const stamp_t *a, const stamp_t *b)
{
    return a->inode == b->inode && a->bytes == b->bytes && a->mtime.tv_sec == b->mtime.tv_sec &&
           a->mtime.tv_nsec == b->mtime.tv_nsec;
}

/* Reads the table. Its stamp is taken before, so that a change meanwhile is seen, and kept after a
   good read only, so that a table that could not be read is read again.  */
static wm_fault_t read_table (wm_keyguard_t *self, wm_error_t *error)
{
    const stamp_t stamp = stamp_now (self);
    if (wm_keys_read (&self->table, self->campaign, error))
        return error->fault;
    self->stamp = stamp;
    return WM_OK;
}

/* Finds when the next key expires, so that its sessions are looked at then.  */
static void find_next (wm_keyguard_t *self, int64_t now_s)
{
    self->next_s = INT64_MAX;
    for (size_t i = 0; i < self->table.n; i++) {
        const int64_t until = self->table.row[i].expires_s;
        if (until > now_s && until < self->next_s)
            self->next_s = until;
    }
}

static void look (wm_keyguard_t *self)
{
    wm_error_t error = { .fault = WM_OK };
    const stamp_t stamp = stamp_now (self);
    if (is_same (&stamp, &self->stamp))
        return;
    if (!read_table (self, &error))
        self->next_s = 0;
    else if (strcmp (error.text, self->told.text) != 0) /* once */
        fprintf (stderr, "wiremill-broker: %s; until then the keys read before count\n",
                 error.text);
    self->told = error;
}

void wm_keyguard_tick (wm_keyguard_t *self, int64_t now_ms)
{
    const int64_t now_s = time (NULL);
    if (now_ms >= self->look_ms) {
        self->look_ms = now_ms + LOOK_MS;
        look (self);
    }
    if (now_s < self->last_s) /* the clock was set back: a key may expire once more */
        self->next_s = 0;
    self->last_s = now_s;
    if (now_s < self->next_s)
        return;
    self->generation++;
    find_next (self, now_s);
}

uint64_t wm_keyguard_generation (const wm_keyguard_t *self)
{
    return self->generation;
}

/* 0: admitted, else the status of ZAP; *why explains it.  */
static int status_of (const wm_keys_row_t *row, wm_role_t role, const char **why)
{
    *why = wm_keys_why_not (row, time (NULL));
    if (row && !wm_role_fits (row->role, role))
        *why = "it is of another role";
    if (!*why)
        return 0;
    return row && wm_role_fits (row->role, role) ? 500 : 400;
}

const char *wm_keyguard_why_not (const wm_keyguard_t *self, const char *id, wm_role_t role,
                                 bool *reads_only)
{
    const char *why;
    const wm_keys_row_t *row = id ? wm_keys_of_id (&self->table, id) : NULL;
    status_of (row, role, &why);
    *reads_only = !why && row->role == WM_ROLE_MONITOR;
    return why;
}

/* ---- ZAP ------------------------------------------------------------------------------------- */

typedef struct {
    char data[FRAME_BYTES];
    size_t bytes;
} frame_t;

static bool is_text (const frame_t *frame, const char *text)
{
    return frame->bytes == strlen (text) && memcmp (frame->data, text, frame->bytes) == 0;
}

/* Receives a request's frames; -1: no request is waiting. More than REQUEST_FRAMES are counted
   only.  */
static int receive (void *socket, frame_t frame[REQUEST_FRAMES])
{
    zmq_msg_t msg;
    zmq_msg_init (&msg);
    int n = zmq_msg_recv (&msg, socket, ZMQ_DONTWAIT) < 0 ? -1 : 0;
    for (bool more = n == 0; more; n++) {
        const size_t bytes = zmq_msg_size (&msg);
        if (n < REQUEST_FRAMES) {
            frame[n].bytes = bytes;
            memcpy (frame[n].data, zmq_msg_data (&msg), bytes < FRAME_BYTES ? bytes : FRAME_BYTES);
        }
        more = zmq_msg_more (&msg) && zmq_msg_recv (&msg, socket, ZMQ_DONTWAIT) >= 0;
    }
    zmq_msg_close (&msg);
    return n;
}

static void log_refusal (wm_keyguard_t *self, const char *peer, wm_role_t role,
                         const wm_keys_row_t *row, const char *why)
{
    const int64_t now = wm_now_ms ();
    if (now < self->logged_ms) /* rate-limited */
        return;
    self->logged_ms = now + 1000;
    fprintf (stderr,
             "wiremill-broker: refused a peer at %.60s, which wants to join as %s: key %s: %s\n",
             peer, wm_role_name (role), row ? row->id : "unknown", why);
}

/* Returns whether the peer is admitted.  */
static bool answer_one (wm_keyguard_t *self, const frame_t frame[REQUEST_FRAMES], int n)
{
    const char *why = "not a request by CURVE";
    wm_keys_row_t *row = NULL;
    char domain[16] = "", peer[64] = "";
    int status = self->has_keys ? 400 : 0;
    if (self->has_keys && n == REQUEST_FRAMES && is_text (&frame[0], "1.0") &&
        is_text (&frame[5], "CURVE") && frame[6].bytes == 32 && frame[2].bytes < sizeof domain) {
        memcpy (domain, frame[2].data, frame[2].bytes);
        memcpy (peer, frame[3].data, frame[3].bytes < 63 ? frame[3].bytes : 63);
        if (strncmp (peer, "::ffff:", 7) == 0) /* an IPv4 address */
            memmove (peer, peer + 7, sizeof peer - 7);
        const wm_role_t role = wm_role_of (domain);
        row = wm_keys_of_public (&self->table, (const uint8_t *) frame[6].data);
        if (!row) { /* it may have been made a moment ago */
            look (self);
            row = wm_keys_of_public (&self->table, (const uint8_t *) frame[6].data);
        }
        status = role ? status_of (row, role, &why) : 400;
        if (status && memcmp (frame[6].data, self->expected, 32) != 0)
            log_refusal (self, peer, role, row, why);
    }
    const char *code = !status ? "200" : status == 500 ? "500" : "400";
    const bool has_id = n > 1 && frame[1].bytes <= FRAME_BYTES;
    zmq_send (self->socket, "1.0", 3, ZMQ_SNDMORE);
    zmq_send (self->socket, frame[1].data, has_id ? frame[1].bytes : 0, ZMQ_SNDMORE);
    zmq_send (self->socket, code, 3, ZMQ_SNDMORE);
    zmq_send (self->socket, "", 0, ZMQ_SNDMORE);
    zmq_send (self->socket, row && !status ? row->id : "", row && !status ? 8 : 0, ZMQ_SNDMORE);
    zmq_send (self->socket, "", 0, 0);
    return !status;
}

void wm_keyguard_answer (wm_keyguard_t *self, uint32_t *room)
{
    frame_t frame[REQUEST_FRAMES];
    for (int n; *room && (n = receive (self->socket, frame)) >= 0;)
        *room -= answer_one (self, frame, n);
}

void *wm_keyguard_socket (const wm_keyguard_t *self)
{
    return self->socket;
}

/* ---- life ------------------------------------------------------------------------------------ */

const uint8_t *wm_keyguard_public (const wm_keyguard_t *self)
{
    return self->public_key;
}

void wm_keyguard_expect (wm_keyguard_t *self, const uint8_t public_key[32])
{
    memcpy (self->expected, public_key, 32);
}

wm_fault_t wm_keyguard_protect (const wm_keyguard_t *self, void *socket, wm_role_t role,
                                wm_error_t *error)
{
    const int yes = 1;
    uint8_t public_key[32], private_key[32];
    const char *domain = wm_role_name (role);
    if (zmq_setsockopt (socket, ZMQ_ZAP_DOMAIN, domain, strlen (domain)) ||
        zmq_setsockopt (socket, ZMQ_ZAP_ENFORCE_DOMAIN, &yes, sizeof yes))
        return wm_fault (error, WM_EHOST, "a socket does not ask before it admits peers: %s",
                         zmq_strerror (zmq_errno ()));
    if (!self->has_keys)
        return WM_OK;
    if (wm_keys_server (self->campaign, public_key, private_key, error))
        return error->fault;
    const int failed = zmq_setsockopt (socket, ZMQ_CURVE_SERVER, &yes, sizeof yes) ||
                       zmq_setsockopt (socket, ZMQ_CURVE_SECRETKEY, private_key, 32);
    sodium_memzero (private_key, sizeof private_key);
    return failed ? wm_fault (error, WM_EHOST, "a socket does not take keys: %s",
                              zmq_strerror (zmq_errno ()))
                  : WM_OK;
}

/* Reads the keys of the campaign, after making those that it lacks.  */
static wm_fault_t find_keys (wm_keyguard_t *self, wm_error_t *error)
{
    if (!self->campaign)
        return wm_fault (error, WM_EHOST,
                         "keys are kept in a campaign's folder, and this broker has no campaign");
    if (!zmq_has ("curve"))
        return wm_fault (error, WM_EHOST,
                         "this libzmq is built without CURVE, so there are no keys: install one "
                         "with it, or listen on loopback or ipc");
    if (wm_keys_begin (self->campaign, error) ||
        wm_keys_server (self->campaign, self->public_key, NULL, error) || read_table (self, error))
        return error->fault;
    return WM_OK;
}

wm_keyguard_t *wm_keyguard_new (void *context, bool has_keys, const char *campaign,
                                wm_error_t *error)
{
    wm_keyguard_t *self = calloc (1, sizeof *self);
    assert (self);
    self->has_keys = has_keys;
    self->campaign = campaign;
    if (has_keys && find_keys (self, error)) {
        wm_keyguard_destroy (&self);
        return NULL;
    }
    const int linger = 0;
    self->socket = zmq_socket (context, ZMQ_REP);
    if (self->socket)
        zmq_setsockopt (self->socket, ZMQ_LINGER, &linger, sizeof linger);
    if (!self->socket || zmq_bind (self->socket, "inproc://zeromq.zap.01")) {
        wm_fault (error, WM_EHOST, "no socket to admit peers on: %s", zmq_strerror (zmq_errno ()));
        wm_keyguard_destroy (&self);
        return NULL;
    }
    return self;
}

void wm_keyguard_destroy (wm_keyguard_t **self_p)
{
    wm_keyguard_t *self = *self_p;
    if (!self)
        return;
    if (self->socket)
        zmq_close (self->socket);
    wm_keys_free (&self->table);
    free (self);
    *self_p = NULL;
}
