/* wm_core_on_session.c - handles the messages of every session: HELLO, BYE, HEARTBEAT, STATUS,
   MODEL_GET.  */
#include "broker/core/wm_core_check_private.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static void on_hello (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                      const wm_payload_t *payload)
{
    const size_t line = sizeof (wm_hello_held_t);
    snprintf (session->label, sizeof session->label, "%.63s", msg->name);
    if (msg->protocol != WM_PROTOCOL) {
        wm_core_refuse (
            self, session, WM_REASON_PROTOCOL,
            "this broker (%s) speaks protocol %u, the peer %u: install the same version",
            WM_VERSION, WM_PROTOCOL, msg->protocol);
        return;
    }
    if (msg->role != (uint32_t) session->role) {
        static const char *const peers[] = { "?", "worker", "producer", "operator" };
        const int role = msg->role < 4 ? (int) msg->role : 0, off = (int) session->role - role;
        wm_core_refuse (self, session, WM_REASON_ROLE,
                        "this port is for %ss, not for a%s %s: the port in --broker is %d too %s; "
                        "give the first port that the broker prints, the workers' port",
                        peers[session->role], role == WM_ROLE_OPERATOR ? "n" : "", peers[role],
                        off < 0 ? -off : off, off < 0 ? "low" : "high");
        return;
    }
    if (payload->bytes % line || payload->bytes / line > 4 * WM_CREDIT_MAX ||
        (payload->bytes && session->role != WM_ROLE_WORKER)) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL, "HELLO with a payload of %zu bytes",
                        payload->bytes);
        return;
    }
    if (session->role == WM_ROLE_WORKER && (!wm_core_distrust_admit (self, session, msg) ||
                                            !wm_core_arithmetic_admit (self, session, msg)))
        return;
    session_t *old;
    memcpy (session->instance, msg->instance, 16);
    if (!wm_core_session_enter (self, session, &old)) {
        wm_core_refuse (self, session, WM_REASON_BUSY, "no memory for another peer: try later");
        return;
    }
    session->tag = (uint32_t) XXH3_64bits (msg->instance, 16) | 1;
    session->state = SESSION_LIVE;
    wm_msg_t welcome;
    wm_msg_init (&welcome, WM_MSG_WELCOME);
    welcome.protocol = WM_PROTOCOL;
    welcome.epoch = self->config.epoch;
    memcpy (welcome.instance, self->config.campaign, 16);
    memcpy (welcome.digest, self->config.pins_digest, 16);
    snprintf (welcome.text, sizeof welcome.text, "%s",
              self->config.shape ? self->config.shape : "");
    welcome.code =
        session->role == WM_ROLE_PRODUCER && self->config.measures && !self->arithmetic.has_sample;
    wm_payload_t pins = { NULL, self->pins, self->config.pins_bytes };
    wm_core_send (self, session, &welcome, &pins);

    if (session->role == WM_ROLE_WORKER) {
        self->sessions.n_worker++;
        session->signature = *session->arithmetic.class ? wm_core_signature (self, msg->text) : 0;
        wm_core_worker_welcome (self, session, old, payload->data,
                                (uint32_t) (payload->bytes / line));
    } else if (session->role == WM_ROLE_PRODUCER)
        self->sessions.n_producer++;
    if (old)
        wm_core_session_end (self, old, false);
}

static void on_bye (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                    const wm_payload_t *payload)
{
    (void) payload;
    const bool failed = msg->code == WM_REASON_FAILED;
    /* a worker that only fetched the model ends with DONE */
    if (failed || (session->role == WM_ROLE_WORKER && msg->code != WM_REASON_DONE))
        wm_core_log (self, "%s leaves%s%s", session->label, *msg->text ? ": " : "", msg->text);
    if (!failed && session->role == WM_ROLE_WORKER)
        self->totals.n_preempt += session->n_lease;
    wm_core_session_end (self, session, failed);
}

/* Of a producer or an operator; a worker's reports more (wm_core_on_worker.c).  */
static void on_heartbeat (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                          const wm_payload_t *payload)
{
    (void) payload;
    wm_core_wait_reported (self, session, msg);
}

/* Each byte is sent once in a session, so that what a peer does not read takes no more memory than
   the model: asking for the next piece is the only sign that the one before was received.  */
static void on_model_get (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                          const wm_payload_t *payload)
{
    (void) payload;
    if (msg->offset < session->model_next) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL,
                        "MODEL_GET from byte %llu of the model, which this session was sent before",
                        (unsigned long long) msg->offset);
        return;
    }
    session->model_next =
        msg->offset < UINT64_MAX - WM_RAW_BYTES_MAX ? msg->offset + WM_RAW_BYTES_MAX : UINT64_MAX;
    session->sent_ms = self->now_ms;
    self->sink.model (self->sink.context, session->id, msg->offset);
}

static void on_status (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                       const wm_payload_t *payload)
{
    (void) msg, (void) payload;
    session->sent_ms = self->now_ms;
    self->sink.status (self->sink.context, session->id);
}

const wm_core_row_t wm_core_session_rows[] = {
    { WM_MSG_HELLO, BY_ALL, WHILE_NEW, WM_RAW_BYTES_MAX + WM_FRAME_OVERHEAD, on_hello },
    { WM_MSG_BYE, BY_ALL, WHILE_LIVE, 0, on_bye },
    { WM_MSG_HEARTBEAT, BY_PRODUCER | BY_OPERATOR | BY_MONITOR, WHILE_LIVE, 0, on_heartbeat },
    { WM_MSG_MODEL_GET, BY_WORKER, WHILE_LIVE, 0, on_model_get },
    { WM_MSG_STATUS, BY_OPERATOR | BY_MONITOR, WHILE_LIVE, 0, on_status },
    { 0 },
};
