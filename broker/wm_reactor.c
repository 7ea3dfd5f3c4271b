/* wm_reactor.c - one loop: read, tick, and what the recorder does: append, sync, effects, ledger.

   One pass of wm_reactor_run, in one thread:
     1. wait (wm_listener_wait) until a peer sends or a timer is due; not at all while records wait
        for their sync.
     2. read_all: a message at a time, for at most group_commit_ms. `message` decodes it, finds the
        session of its connection and calls wm_core_message.
     3. The core decides. It answers through the sink, the on_... functions here: on_send hands
        bytes to libzmq, on_append hands a record to the recorder, which copies it.
     4. wm_core_tick, eight times a heartbeat: silences, leases, deadlines.
     5. wm_recorder_turn: the records of this pass go into the journal, one sync makes them all
        durable, and the core carries each one's effect out, through the same sink.
   So a RESULT is read in 2, its record appended in 3, on disk in 5, and acknowledged in 5 at the
   end: no acknowledgment leaves before that (I1 of wm_core.h). One sync serves as many
   results as came in one pass; the more there is to do, the fewer syncs a result costs.

   A large answer (the model, the sample, the status, the copy of the ledger) is no record and waits
   for none: libzmq has its bytes until the peer has read them.

   Invariants
     1. The core is never entered from its own sink: a failure that the sink finds (a failed send,
        damage) is reported to the core when it has returned.
     2. A payload frame is never copied: a worker gets the producer's own bytes.
     3. What every worker may ask for costs no memory for each: MODELs point into one copy of a
        piece of the file, which stays while one of them waits; TRIALs of a table share their bytes.
     4. Other answers count until libzmq has written them. A peer that leaves more than
        wm_unread_max unread is disconnected; beyond wm_unread_all_max of all, that with most.  */
#include "broker/wm_reactor.h"
#include "broker/campaign/wm_restore.h"
#include "broker/listen/wm_listener.h"
#include "broker/wm_recorder.h"
#include "broker/wm_resident.h"
#include "broker/wm_status.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_table.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODEL_PIECES (WM_MODEL_BYTES_MAX / WM_RAW_BYTES_MAX)
#define COPIES_MAX 64     /* sessions that wait for one */
#define GROUP_RECORDS 256 /* one sync for at most about this many */

/* A payload that outlives its message: the core's handle.  */
typedef struct {
    zmq_msg_t msg;
    uint64_t check; /* wm_msg_check of it, as it came */
    uint32_t refs;
} frame_t;

/* Answers of a session that libzmq has not written yet; shared with its threads.  */
typedef struct {
    atomic_size_t bytes;
    atomic_uint owners;    /* the session, and each answer */
    atomic_size_t *of_all; /* the reactor's */
    uint32_t session;
} unread_t;

/* An answer, before its bytes.  */
typedef struct {
    unread_t *unread;
    size_t bytes;
} answer_t;

/* A piece of the model; `waiting` messages point to it, which threads of libzmq count down.  */
typedef struct {
    atomic_uint waiting;
    uint8_t bytes[];
} piece_t;

struct wm_reactor_t {
    const wm_reactor_config_t *config;
    wm_core_t *core;
    wm_listener_t *listener;
    wm_table_t peers;  /* of sessions */
    wm_table_t unread; /* unread_t of sessions */
    atomic_size_t unread_bytes;
    int wmm_fd;
    uint64_t wmm_bytes;
    piece_t *piece[MODEL_PIECES]; /* of the model; NULL: not in memory */
    zmq_msg_t trial;              /* the payload of TRIAL */
    uint64_t trial_check;
    wm_place_t trial_place; /* of its sample */
    size_t table_bytes; /* of the table that it begins with, and its NUL; 0: it has not come yet */
    wm_recorder_t *recorder;
    size_t n_appended; /* records that wm_recorder_turn will sync */
    int64_t started_ms;
    bool is_running; /* wm_reactor_run */

    int64_t damaged_ms;            /* a damaged message is logged again from then on */
    uint32_t copy_for[COPIES_MAX]; /* sessions that wait for the ledger's copy */
    size_t n_copy_for;
    bool fetch_failed; /* the result asked for could not be read */
    wm_key_t fetch_key;
    uint32_t fetch_session;
};

/* ---- payloads -------------------------------------------------------------------------------- */

static void frame_hold (void *context, void *handle)
{
    (void) context;
    ((frame_t *) handle)->refs++;
}

static void frame_release (void *context, void *handle)
{
    (void) context;
    frame_t *frame = handle;
    if (--frame->refs)
        return;
    zmq_msg_close (&frame->msg);
    free (frame);
}

/* ---- sending --------------------------------------------------------------------------------- */

static wm_peer_t *peer_of_session (const wm_reactor_t *self, uint32_t session)
{
    size_t at;
    return wm_table_first (&self->peers, wm_table_mix (session), &at);
}

/* ---- unread answers -------------------------------------------------------------------------- */

static unread_t *unread_of (const wm_reactor_t *self, uint32_t session)
{
    size_t at;
    return wm_table_first (&self->unread, wm_table_mix (session), &at);
}

static void unread_release (unread_t *unread)
{
    if (atomic_fetch_sub (&unread->owners, 1) == 1)
        free (unread);
}

static void unread_forget (wm_reactor_t *self, uint32_t session)
{
    unread_t *unread = unread_of (self, session);
    if (!unread)
        return;
    wm_table_remove (&self->unread, wm_table_mix (session), unread);
    unread_release (unread);
}

/* Called by a thread of libzmq.  */
static void answer_free (void *data, void *hint)
{
    (void) data;
    answer_t *answer = hint;
    atomic_fetch_sub (&answer->unread->bytes, answer->bytes);
    atomic_fetch_sub (answer->unread->of_all, answer->bytes);
    unread_release (answer->unread);
    free (answer);
}

/* Makes room for `bytes` more: disconnects peers that leave too much unread. false: this one does.
 */
static bool unread_room (const wm_reactor_t *self, unread_t *unread, size_t bytes)
{
    unread_t *most = unread;
    const uint32_t n_output = self->config->pins->n_output;
    if (atomic_load (&unread->bytes) + bytes > wm_unread_max (n_output))
        return false;
    if (atomic_load (&self->unread_bytes) + bytes <= wm_unread_all_max (n_output))
        return true;
    for (size_t i = 0; i <= self->unread.mask; i++) {
        unread_t *other = self->unread.slot[i].item;
        if (other && atomic_load (&other->bytes) > atomic_load (&most->bytes))
            most = other;
    }
    wm_peer_t *peer = peer_of_session (self, most->session);
    if (most != unread && peer)
        wm_listener_disconnect (self->listener, peer);
    return most != unread;
}

/* Copies the bytes into a message that counts as unread until it is freed; false: the session is to
   be disconnected.  */
static bool answer_make (wm_reactor_t *self, uint32_t session, zmq_msg_t *body, const void *data,
                         size_t bytes)
{
    unread_t *unread = unread_of (self, session);
    answer_t *answer =
        unread && unread_room (self, unread, bytes) ? malloc (sizeof *answer + bytes) : NULL;
    if (!answer)
        return false;
    *answer = (answer_t){ unread, bytes };
    if (bytes)
        memcpy (answer + 1, data, bytes);
    if (zmq_msg_init_data (body, answer + 1, bytes, answer_free, answer)) {
        free (answer);
        return false;
    }
    atomic_fetch_add (&unread->owners, 1);
    atomic_fetch_add (&unread->bytes, bytes);
    atomic_fetch_add (&self->unread_bytes, bytes);
    return true;
}

/* Sends a payload of our own. If allocation fails, the broker disconnects the peer, which
   reconnects and asks again.  */
static void send_bytes (wm_reactor_t *self, wm_peer_t *peer, const wm_msg_t *msg, const void *data,
                        size_t bytes)
{
    zmq_msg_t body;
    if (!answer_make (self, peer->session, &body, data, bytes)) {
        fprintf (stderr,
                 "wiremill-broker: no room for %s of %zu bytes: its peer must connect again\n",
                 wm_msg_name (msg->type), bytes);
        wm_listener_disconnect (self->listener, peer);
        return;
    }
    wm_listener_send (self->listener, peer, msg, &body, wm_msg_check (zmq_msg_data (&body), bytes));
}

static void on_send (void *context, uint32_t session, const wm_msg_t *msg,
                     const wm_payload_t *payload)
{
    wm_reactor_t *self = context;
    wm_peer_t *peer = peer_of_session (self, session);
    if (!peer)
        return;
    zmq_msg_t body;
    WM_FAILPOINT ("broker-send");
    if (msg->type == WM_MSG_RESULT_ACK)
        WM_FAILPOINT ("broker-result-ack");
    if (msg->type == WM_MSG_NEED)
        wm_resident_check (self->core);
    const frame_t *frame = payload ? payload->handle : NULL;
    if (!payload)
        wm_listener_send (self->listener, peer, msg, NULL, 0);
    else if (frame) {
        zmq_msg_init (&body);
        zmq_msg_copy (&body, (zmq_msg_t *) &frame->msg);
        wm_listener_send (self->listener, peer, msg, &body, frame->check);
    } else
        send_bytes (self, peer, msg, payload->data, payload->bytes);
}

static int64_t on_quiet (void *context, uint32_t session)
{
    const wm_peer_t *peer = peer_of_session (context, session);
    return peer ? wm_listener_quiet_ms (peer) : INT64_MAX;
}

static void on_drop (void *context, uint32_t session)
{
    wm_reactor_t *self = context;
    wm_peer_t *peer = peer_of_session (self, session);
    if (!peer)
        return;
    peer->session = 0;
    wm_table_remove (&self->peers, wm_table_mix (session), peer);
    unread_forget (self, session);
}

static void on_append (void *context, const wm_record_t *record, const wm_payload_t *body)
{
    wm_recorder_append (((wm_reactor_t *) context)->recorder, record, body);
}

static void on_log (void *context, const char *text)
{
    (void) context;
    fprintf (stderr, "wiremill-broker: %s\n", text);
}

/* Frees the pieces that no message points to any more.  */
static void pieces_sweep (wm_reactor_t *self)
{
    for (size_t i = 0; i < MODEL_PIECES; i++)
        if (self->piece[i] && !atomic_load (&self->piece[i]->waiting)) {
            free (self->piece[i]);
            self->piece[i] = NULL;
        }
}

/* Reads the piece of this number into memory. NULL: it cannot be read now.  */
static piece_t *piece_of (wm_reactor_t *self, size_t number, size_t bytes)
{
    piece_t **piece = &self->piece[number];
    if (*piece)
        return *piece;
    pieces_sweep (self);
    if (!(*piece = malloc (sizeof **piece + bytes)))
        return NULL;
    atomic_init (&(*piece)->waiting, 0);
    errno = 0;
    if (pread (self->wmm_fd, (*piece)->bytes, bytes, (off_t) (number * WM_RAW_BYTES_MAX)) ==
        (ssize_t) bytes)
        return *piece;
    fprintf (stderr, "wiremill-broker: cannot read %s: %s: the worker must ask again\n",
             self->config->wmm, errno ? strerror (errno) : "it is shorter than it was");
    free (*piece);
    return *piece = NULL;
}

/* Called by a thread of libzmq, or where the message is not sent.  */
static void piece_sent (void *data, void *hint)
{
    piece_t *piece = hint;
    (void) data;
    if (piece)
        atomic_fetch_sub (&piece->waiting, 1);
}

/* From the offset to the end of the piece that contains it.  */
static void on_model (void *context, uint32_t session, uint64_t offset)
{
    wm_reactor_t *self = context;
    wm_peer_t *peer = peer_of_session (self, session);
    if (!peer)
        return;
    const uint8_t *from = (const uint8_t *) ""; /* not NULL: its check is that of no payload */
    piece_t *piece = NULL;
    size_t bytes = 0;
    if (offset < self->wmm_bytes) {
        const size_t number = (size_t) (offset / WM_RAW_BYTES_MAX),
                     begin = number * WM_RAW_BYTES_MAX;
        const size_t left = (size_t) self->wmm_bytes - begin;
        const size_t whole = left < WM_RAW_BYTES_MAX ? left : WM_RAW_BYTES_MAX;
        piece = piece_of (self, number, whole);
        if (!piece) {
            wm_listener_disconnect (self->listener, peer);
            return;
        }
        from = piece->bytes + (offset - begin);
        bytes = whole - (size_t) (offset - begin);
    }
    zmq_msg_t body;
    if (zmq_msg_init_data (&body, (void *) from, bytes, piece_sent, piece)) {
        wm_listener_disconnect (self->listener, peer);
        return;
    }
    if (piece)
        atomic_fetch_add (&piece->waiting, 1);
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_MODEL);
    msg.offset = offset;
    msg.size = self->wmm_bytes;
    wm_listener_send (self->listener, peer, &msg, &body, wm_msg_check (from, bytes));
}

static void on_fetch (void *context, uint32_t session, const wm_msg_t *results,
                      const wm_place_t *place)
{
    wm_reactor_t *self = context;
    wm_peer_t *peer = peer_of_session (self, session);
    wm_record_t record;
    wm_error_t error = { .text = "the journal has another record where a result should be" };
    if (!peer)
        return;
    const wm_record_t *current = wm_recorder_current (self->recorder);
    if (current)
        record = *current;
    if ((!current && wm_journal_read (self->config->journal, place, &record, &error) != WM_OK) ||
        record.type != WM_RECORD_RESULT || memcmp (&record.key, &results->key, sizeof record.key)) {
        fprintf (stderr, "wiremill-broker: %s\n", error.text);
        self->fetch_failed = true;
        self->fetch_key = results->key;
        self->fetch_session = session;
        return;
    }
    wm_msg_t msg = *results;
    snprintf (msg.text, sizeof msg.text, "%.*s", (int) record.text_bytes,
              record.text ? record.text : "");
    msg.error = wm_core_error (self->core, msg.text);
    send_bytes (self, peer, &msg, record.payload, record.payload_bytes);
}

/* Makes the payload of TRIAL: the table, a NUL, the sample.  */
static int trial_make (wm_reactor_t *self, const char *table, const wm_place_t *place)
{
    const size_t head = strlen (table) + 1;
    wm_record_t sample;
    wm_error_t error = { .text = "no memory for the sample" };
    zmq_msg_t both;
    if (wm_journal_read (self->config->journal, place, &sample, &error) ||
        sample.type != WM_RECORD_SAMPLE || zmq_msg_init_size (&both, head + sample.payload_bytes)) {
        fprintf (stderr, "wiremill-broker: %s\n", error.text);
        return -1;
    }
    memcpy (zmq_msg_data (&both), table, head);
    if (sample.payload_bytes)
        memcpy ((char *) zmq_msg_data (&both) + head, sample.payload, sample.payload_bytes);
    self->trial_check = wm_msg_check (zmq_msg_data (&both), head + sample.payload_bytes);
    zmq_msg_move (&self->trial, &both);
    zmq_msg_close (&both);
    self->trial_place = *place;
    self->table_bytes = head;
    return 0;
}

/* A campaign's table changes a few times, and its sample if it could not be read.  */
static int on_sample (void *context, uint32_t session, const wm_msg_t *trial, const char *table,
                      const wm_place_t *place)
{
    wm_reactor_t *self = context;
    wm_peer_t *peer = peer_of_session (self, session);
    const size_t head = strlen (table) + 1;
    zmq_msg_t body;
    if ((head != self->table_bytes || memcmp (zmq_msg_data (&self->trial), table, head) ||
         memcmp (&self->trial_place, place, sizeof *place)) &&
        trial_make (self, table, place))
        return -1;
    if (!peer)
        return 0;
    zmq_msg_init (&body);
    zmq_msg_copy (&body, &self->trial);
    wm_listener_send (self->listener, peer, trial, &body, self->trial_check);
    return 0;
}

/* `json`: freed; NULL: no memory.  */
static void send_json (wm_reactor_t *self, wm_peer_t *peer, char *json)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_STATUS_REPLY);
    if (json)
        send_bytes (self, peer, &msg, json, strlen (json));
    else
        wm_listener_disconnect (self->listener, peer);
    free (json);
}

/* Returns the status of the campaign as JSON (wm_status.h), the caller's; NULL without memory.  */
static char *status_json (wm_reactor_t *self)
{
    wm_summary_t *summary = malloc (sizeof *summary);
    if (!summary)
        return NULL;
    wm_core_summary (self->core, summary);
    wm_status_about_t about = {
        .endpoint = wm_listener_endpoint (self->listener),
        .where = self->config->where,
        .dir = self->config->dir,
        .campaign = self->config->campaign,
        .pins = self->config->pins,
        .up_s = (double) (wm_now_ms () - self->started_ms) / 1000,
        .submitted_s = self->config->submitted_s,
        .journal_bytes = wm_journal_bytes (self->config->journal),
        .ledger_bytes = wm_ledger_bytes (self->config->ledger),
    };
    char *json = wm_status_json (summary, &about);
    free (summary);
    return json;
}

static void on_status (void *context, uint32_t session)
{
    wm_reactor_t *self = context;
    wm_peer_t *peer = peer_of_session (self, session);
    if (peer)
        send_json (self, peer, status_json (self));
}

static void on_files (void *context, uint32_t session, uint32_t from, const char *name)
{
    wm_reactor_t *self = context;
    wm_peer_t *peer = peer_of_session (self, session);
    if (peer)
        send_json (self, peer, wm_status_files (self->core, from, name, &from));
}

static void on_history (void *context, uint32_t session, bool workers, uint64_t from)
{
    wm_reactor_t *self = context;
    wm_peer_t *peer = peer_of_session (self, session);
    wm_recorder_sample (self->recorder);
    if (peer)
        send_json (
            self, peer,
            wm_status_history (self->config->ledger, workers, self->config->epoch, from, &from));
}

/* ---- the ledger's copy ----------------------------------------------------------------------- */

static void on_copy (void *context, uint32_t session)
{
    wm_reactor_t *self = context;
    wm_peer_t *peer = peer_of_session (self, session);
    if (self->n_copy_for < COPIES_MAX)
        self->copy_for[self->n_copy_for++] = session;
    else if (peer)
        send_json (self, peer, wm_status_copy ("too many ask for it: try again"));
}

/* Copies a piece; answers those that wait once all is copied, or if that fails.  */
static void copy_ledger (wm_reactor_t *self)
{
    bool is_done;
    wm_error_t error;
    if (!self->n_copy_for)
        return;
    const wm_fault_t fault = wm_recorder_copy (self->recorder, &is_done, &error);
    if (!fault && !is_done)
        return;
    for (size_t i = 0; i < self->n_copy_for; i++) {
        wm_peer_t *peer = peer_of_session (self, self->copy_for[i]);
        if (peer)
            send_json (self, peer, wm_status_copy (fault ? error.text : NULL));
    }
    self->n_copy_for = 0;
}

static void on_left (void *context, const wm_core_worker_t *worker)
{
    wm_recorder_left (((wm_reactor_t *) context)->recorder, worker);
}

static void on_mark (void *context, wm_mark_kind_t kind, const char *text)
{
    wm_recorder_mark (((wm_reactor_t *) context)->recorder, kind, text);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Opens a session for a peer that sends its first message. 0: no room.  */
static uint32_t session_open (wm_reactor_t *self, wm_peer_t *peer, int64_t now_ms)
{
    if (wm_table_reserve (&self->peers) || wm_table_reserve (&self->unread))
        return 0;
    unread_t *unread = calloc (1, sizeof *unread);
    uint32_t session = unread ? wm_core_open (self->core, peer->role, now_ms) : 0;
    peer->session = session;
    if (!session) {
        free (unread);
        return 0;
    }
    *unread = (unread_t){ .owners = 1, .of_all = &self->unread_bytes, .session = session };
    wm_table_put (&self->peers, wm_table_mix (session), peer);
    wm_table_put (&self->unread, wm_table_mix (session), unread);
    if (peer->reads_only)
        wm_core_reads_only (self->core, session);
    wm_core_key (self->core, session, peer->key);
    return session;
}

/* Takes the payload frame of the current message into a handle; false without memory.  */
static bool take_payload (zmq_msg_t *from, uint64_t check, wm_payload_t *payload)
{
    frame_t *frame = malloc (sizeof *frame);
    if (!frame)
        return false;
    frame->refs = 1;
    frame->check = check;
    zmq_msg_init (&frame->msg);
    zmq_msg_move (&frame->msg, from);
    *payload = (wm_payload_t){ frame, zmq_msg_data (&frame->msg), zmq_msg_size (&frame->msg) };
    return true;
}

static void refuse_peer (wm_reactor_t *self, wm_peer_t *peer)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_REJECT);
    msg.code = WM_REASON_BUSY;
    snprintf (msg.text, sizeof msg.text,
              "this broker has %u peers, which is its limit: try again later", WM_PEERS_MAX);
    wm_listener_send (self->listener, peer, &msg, NULL, 0);
}

static void closed (wm_reactor_t *self, wm_peer_t *peer, int64_t now_ms)
{
    uint32_t session = peer->session;
    if (!session)
        return;
    wm_table_remove (&self->peers, wm_table_mix (session), peer);
    unread_forget (self, session);
    peer->session = 0;
    wm_core_closed (self->core, session, now_ms);
}

/* A message whose seal is broken cannot be read, so the connection ends as if it had closed, and no
   peer is blamed.  */
static void damaged (wm_reactor_t *self, wm_peer_t *peer, int64_t now_ms)
{
    if (now_ms >= self->damaged_ms) /* rate-limited */
        fprintf (stderr, "wiremill-broker: a message was damaged in transit, or is not a wiremill "
                         "message: its peer is disconnected\n");
    self->damaged_ms = now_ms + 1000;
    wm_listener_disconnect (self->listener, peer);
    closed (self, peer, now_ms);
}

/* Ends the session of a peer whose key expired or was revoked: the broker sends it the reason, and
   the listener disconnects it if it stays connected.  */
static void key_over (wm_reactor_t *self, wm_peer_t *peer, int64_t now_ms)
{
    char text[160];
    peer->known = true;
    if (!peer->session) {
        wm_listener_disconnect (self->listener, peer);
        return;
    }
    const char *key = *peer->key ? peer->key : "without an id";
    snprintf (text, sizeof text, "key %s: %s", key, peer->refused);
    wm_recorder_mark (self->recorder, WM_MARK_KEY, text);
    wm_core_reject (self->core, peer->session, WM_REASON_KEY, text);
    wm_core_tick (self->core, now_ms);
}

static void message (wm_reactor_t *self, wm_peer_t *peer, int64_t now_ms)
{
    size_t bytes;
    zmq_msg_t *body;
    uint64_t check;
    const bool known = peer->known;
    if (known && !peer->session)
        return; /* its session is over */
    peer->known = true;
    const uint8_t *header = wm_listener_header (self->listener, peer, &bytes, &body, &check);
    if (!header) {
        damaged (self, peer, now_ms);
        return;
    }
    if (!known && !session_open (self, peer, now_ms)) {
        refuse_peer (self, peer);
        return;
    }
    wm_msg_t msg;
    wm_error_t error;
    if (wm_msg_decode (&msg, header, bytes, &error) != WM_OK)
        wm_core_reject (self->core, peer->session, WM_REASON_PROTOCOL, error.text);
    else if (!body)
        wm_core_message (self->core, peer->session, &msg, NULL, now_ms);
    else {
        wm_payload_t payload;
        if (!take_payload (body, check, &payload)) {
            wm_core_reject (self->core, peer->session, WM_REASON_BUSY, "no memory now");
            return;
        }
        wm_core_message (self->core, peer->session, &msg, &payload, now_ms);
        frame_release (NULL, payload.handle);
    }
    if (self->fetch_failed) {
        self->fetch_failed = false;
        wm_core_damaged (self->core, self->fetch_key, self->fetch_session, now_ms);
    }
    self->n_appended = wm_recorder_settle (self->recorder);
}

/* Reads messages, up to a group of records or until the time of one has passed.  */
static void read_all (wm_reactor_t *self, int64_t until_ms)
{
    wm_peer_t *peer;
    while (self->n_appended < GROUP_RECORDS && !wm_recorder_fault (self->recorder, NULL)) {
        int64_t now_ms = wm_now_ms ();
        wm_listener_event_t event = wm_listener_next (self->listener, &peer);
        if (event == WM_LISTENER_NOTHING)
            return;
        if (event == WM_LISTENER_MESSAGE)
            message (self, peer, now_ms);
        else if (event == WM_LISTENER_REFUSED)
            key_over (self, peer, now_ms);
        else
            closed (self, peer, now_ms);
        if (now_ms >= until_ms)
            return;
    }
}

void wm_reactor_note (wm_reactor_t *self, const wm_record_t *record)
{
    wm_recorder_note (self->recorder, record);
    if (!self->is_running)
        wm_recorder_flush (self->recorder);
}

void wm_reactor_brief (const wm_reactor_t *self, wm_brief_t *brief)
{
    wm_core_brief (self->core, brief);
}

wm_fault_t wm_reactor_run (wm_reactor_t *self, const volatile sig_atomic_t *stop, wm_error_t *error)
{
    const wm_times_t *times = wm_times ();
    int64_t tick_ms = times->heartbeat_ms / 8 > 0 ? times->heartbeat_ms / 8 : 1;
    int64_t ticked_ms = 0, checked_ms = 0;
    wm_fault_t fault = WM_OK;
    self->is_running = true;
    while (!*stop && !fault && !wm_recorder_fault (self->recorder, NULL)) {
        wm_listener_wait (self->listener, self->n_appended || self->n_copy_for ? 0 : tick_ms);
        int64_t now_ms = wm_now_ms ();
        read_all (self, now_ms + times->group_commit_ms);
        now_ms = wm_now_ms ();
        if (now_ms - ticked_ms >= tick_ms) {
            ticked_ms = now_ms;
            wm_core_tick (self->core, now_ms);
            fault = wm_listener_tick (self->listener, now_ms, error);
            pieces_sweep (self);
            if (self->config->watch)
                self->config->watch (self->core);
        }
        if (!fault && self->config->check && now_ms - checked_ms >= times->heartbeat_ms) {
            checked_ms = now_ms;
            fault = self->config->check (self->config->context, error);
        }
        self->n_appended = wm_recorder_turn (self->recorder);
        copy_ledger (self);
    }
    wm_recorder_mark (self->recorder, WM_MARK_ENDED, fault ? error->text : "");
    if (!wm_recorder_fault (self->recorder, NULL))
        wm_recorder_stop (self->recorder, "the broker stops");
    self->is_running = false;
    return fault ? fault : wm_recorder_fault (self->recorder, error);
}

/* ---- life ------------------------------------------------------------------------------------ */

static wm_fault_t load_ledger (wm_reactor_t *self, wm_error_t *error)
{
    uint64_t n_gone = 0;
    const wm_fault_t fault =
        wm_restore (self->core, self->config->ledger, self->config->journal, &n_gone, error);
    if (fault != WM_OK)
        return fault;
    if (n_gone)
        fprintf (stderr,
                 "wiremill-broker: %llu results are missing from the journal: their batches are "
                 "scored again\n",
                 (unsigned long long) n_gone);
    wm_journal_sweep (self->config->journal);
    return WM_OK;
}

static wm_fault_t open_model (wm_reactor_t *self, wm_error_t *error)
{
    struct stat info;
    self->wmm_fd = open (self->config->wmm, O_RDONLY | O_CLOEXEC);
    if (self->wmm_fd < 0 || fstat (self->wmm_fd, &info))
        return wm_fault (error, WM_EHOST, "cannot read the model %s: %s", self->config->wmm,
                         strerror (errno));
    self->wmm_bytes = (uint64_t) info.st_size;
    if (self->wmm_bytes > WM_MODEL_BYTES_MAX)
        return wm_fault (error, WM_EBATCH, "%s is larger than 1 GiB", self->config->wmm);
    return WM_OK;
}

static wm_core_t *make_core (wm_reactor_t *self)
{
    const wm_reactor_config_t *config = self->config;
    char text[WM_PINS_BYTES_MAX];
    wm_core_config_t core = { .pins = text,
                              .pins_bytes = wm_pins_print (config->pins, text),
                              .n_value = config->pins->n_value,
                              .n_output = config->pins->n_output,
                              .is_ragged = wm_pins_is_ragged (config->pins),
                              .shape = config->shape,
                              .epoch = config->epoch,
                              .budget_bytes = config->budget_bytes,
                              .peers_max = WM_PEERS_MAX,
                              .measures = strcmp (config->pins->precision, "fp32") != 0,
                              .mixed = config->mixed,
                              .for_clients = *config->pins->serves != 0,
                              .check_share = *config->pins->serves ? 0 : config->check_share,
                              .max_error = wm_pins_max_error (config->pins),
                              .times = *wm_times (),
                              .now_ms = wm_now_ms () };
    memcpy (core.campaign, config->campaign, 16);
    wm_pins_digest (config->pins, core.pins_digest);
    randombytes_buf (core.check_key, sizeof core.check_key);
    const wm_core_sink_t sink = { .context = self,
                                  .send = on_send,
                                  .append = on_append,
                                  .fetch = on_fetch,
                                  .model = on_model,
                                  .sample = on_sample,
                                  .status = on_status,
                                  .files = on_files,
                                  .history = on_history,
                                  .copy = on_copy,
                                  .left = on_left,
                                  .mark = on_mark,
                                  .quiet = on_quiet,
                                  .drop = on_drop,
                                  .hold = frame_hold,
                                  .release = frame_release,
                                  .log = on_log };
    return wm_core_new (&core, &sink);
}

wm_reactor_t *wm_reactor_new (const wm_reactor_config_t *config, wm_error_t *error)
{
    wm_reactor_t *self = calloc (1, sizeof *self);
    assert (self);
    self->config = config;
    zmq_msg_init (&self->trial);
    self->wmm_fd = -1;
    self->started_ms = wm_now_ms ();
    self->core = make_core (self);
    assert (self->core);
    self->recorder =
        wm_recorder_new (&(wm_recorder_config_t){ .core = self->core,
                                                  .journal = config->journal,
                                                  .ledger = config->ledger,
                                                  .epoch = config->epoch,
                                                  .now_ms = wm_now_ms,
                                                  .hold = frame_hold,
                                                  .release = frame_release,
                                                  .keeps_nothing = *config->pins->serves != 0 });
    assert (self->recorder);
    const uint32_t most = wm_frame_bytes_max (config->pins->n_value, config->pins->n_output);
    if (open_model (self, error) == WM_OK && load_ledger (self, error) == WM_OK)
        self->listener = wm_listener_new (config->endpoint, config->keys, config->dir, most, error);
    if (self->listener)
        wm_recorder_begin (self->recorder);
    else
        wm_reactor_destroy (&self);
    return self;
}

void wm_reactor_destroy (wm_reactor_t **self_p)
{
    wm_reactor_t *self = *self_p;
    if (!self)
        return;
    wm_core_destroy (&self->core);
    wm_listener_destroy (&self->listener);
    wm_recorder_destroy (&self->recorder);
    free (self->peers.slot);
    for (size_t i = 0; self->unread.slot && i <= self->unread.mask; i++)
        free (self->unread.slot[i].item);
    free (self->unread.slot);
    zmq_msg_close (&self->trial);
    pieces_sweep (self); /* one that a message still points to is the process's to the end */
    if (self->wmm_fd >= 0)
        close (self->wmm_fd);
    free (self);
    *self_p = NULL;
}

const wm_listener_t *wm_reactor_listener (const wm_reactor_t *self)
{
    return self->listener;
}
