/* wm_core.c - the entry points of wm_core: messages, closed connections, time, durable records.

   Every entry first moves the core's time on: the caller's time less all gaps of the loop above
   gap_ms, so that a stopped process moves all deadlines at once and no timer needs to know of it.
   Then the table of messages (wm_core_messages.c) shows whether the session may send this message,
   and its handler takes it; then the effects that wait for no record are carried out; last, TASKs
   and NEEDs are sent as far as the changes allow.  */
#include "broker/core/wm_core_check_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Moves the core's time on. A gap moves all deadlines: the core's clock stands still in it.  */
static void enter (wm_core_t *self, int64_t now_ms)
{
    int64_t gap = now_ms - self->entry_ms;
    if (gap < 0)
        return;
    if (gap > self->config.times.gap_ms)
        self->skipped_ms += gap;
    const int64_t passed_ms = now_ms - self->skipped_ms - self->now_ms;
    self->entry_ms = now_ms;
    self->now_ms += passed_ms;
    self->totals.tally.count[WM_COUNT_UP_MS] += (uint64_t) passed_ms;
    self->totals.tally.count[WM_COUNT_WORKER_MS] += (uint64_t) passed_ms * self->sessions.n_worker;
    self->totals.tally.count[WM_COUNT_BUSY_MS] += (uint64_t) passed_ms * self->workers.n_busy;
}

/* Sends TASKs and NEEDs as far as the last changes allow.  */
static void pump (wm_core_t *self)
{
    if (self->distrust.has_verdict || self->distrust.owes_kicks)
        wm_core_distrust_carry_out (self);
    wm_core_dispatch_tasks (self);
    wm_core_dispatch_needs (self);
}

/* I1: only what is durable comes here, in the order of appending.  */
static void pending_effect (wm_core_t *self, const pending_t *pending, const wm_place_t *place)
{
    if (wm_record_stands (pending->type))
        wm_core_standing_durable (self, pending, place);
    else if (pending->type == WM_RECORD_RESULT ||
             (pending->type == WM_RECORD_HELD && pending->key.batch != WM_ALL))
        wm_core_batch_durable (self, pending, place);
    else
        wm_core_input_durable (self, pending);
}

/* Carries out effects from the head of the ring, up to the next record that is not durable.  */
static void settle (wm_core_t *self)
{
    while (self->pending.count && !self->pending.ring[self->pending.head].is_record) {
        const pending_t pending = self->pending.ring[self->pending.head];
        self->pending.head = (self->pending.head + 1) % self->pending.capacity;
        self->pending.count--;
        pending_effect (self, &pending, NULL);
    }
}

/* ---- sessions -------------------------------------------------------------------------------- */

uint32_t wm_core_open (wm_core_t *self, wm_role_t port, int64_t now_ms)
{
    enter (self, now_ms);
    /* Lost sessions, which may come back, are at most as many again.  */
    if (self->sessions.n >= self->config.peers_max ||
        self->sessions.by_id.count >= 2 * (size_t) self->config.peers_max)
        return 0;
    const session_t *session = wm_core_session_new (self, port);
    return session ? session->id : 0;
}

void wm_core_reads_only (wm_core_t *self, uint32_t id)
{
    session_t *session = wm_core_session_find (self, id);
    if (session)
        session->reads_only = true;
}

void wm_core_key (wm_core_t *self, uint32_t id, const char *key)
{
    session_t *session = wm_core_session_find (self, id);
    if (session)
        snprintf (session->key, sizeof session->key, "%s", key);
}

void wm_core_message (wm_core_t *self, uint32_t id, const wm_msg_t *msg,
                      const wm_payload_t *payload, int64_t now_ms)
{
    enter (self, now_ms);
    session_t *session = wm_core_session_find (self, id);
    if (!session || session->state == SESSION_LOST)
        return;
    session->heard_ms = self->now_ms;
    const char *name = wm_msg_name (msg->type);
    const wm_core_row_t *row = wm_core_row_of (msg->type, wm_core_session_role (session));
    if (!payload != !wm_msg_has_payload (msg->type))
        wm_core_refuse (self, session, WM_REASON_PROTOCOL, "%s %s payload", name,
                        payload ? "with a" : "without its");
    else if (!wm_core_pending_reserve (self))
        wm_core_refuse (self, session, WM_REASON_BUSY, "no memory for %s now: try again later",
                        name);
    else if (!row || !(row->states & 1u << session->state))
        wm_core_refuse (self, session, WM_REASON_PROTOCOL, "unexpected %s from a %s%s", name,
                        wm_core_role_name (wm_core_session_role (session)),
                        session->state == SESSION_NEW ? " before its HELLO" : "");
    else if (payload && payload->bytes > row->payload_bytes_max)
        wm_core_refuse (self, session, WM_REASON_PROTOCOL,
                        "%s with a payload of %zu bytes, more than %zu", name, payload->bytes,
                        row->payload_bytes_max);
    else
        row->handler (self, session, msg, payload);
    settle (self);
    pump (self);
}

void wm_core_reject (wm_core_t *self, uint32_t id, wm_reason_t reason, const char *text)
{
    session_t *session = wm_core_session_find (self, id);
    if (session && session->state != SESSION_LOST)
        wm_core_refuse (self, session, reason, "%s", text);
    pump (self);
}

void wm_core_closed (wm_core_t *self, uint32_t id, int64_t now_ms)
{
    enter (self, now_ms);
    session_t *session = wm_core_session_find (self, id);
    if (session && session->state != SESSION_LOST)
        wm_core_session_lose (self, session);
    pump (self);
}

void wm_core_durable (wm_core_t *self, const wm_place_t *place, int64_t now_ms)
{
    enter (self, now_ms);
    assert (self->pending.count && self->pending.ring[self->pending.head].is_record);
    const pending_t pending = self->pending.ring[self->pending.head];
    self->pending.head = (self->pending.head + 1) % self->pending.capacity;
    self->pending.count--;
    pending_effect (self, &pending, place);
    settle (self);
    pump (self);
}

void wm_core_damaged (wm_core_t *self, wm_key_t key, uint32_t id, int64_t now_ms)
{
    batch_t *batch = wm_core_batch_find (self, &key);
    session_t *session = wm_core_session_find (self, id);
    if (batch && batch->state == BATCH_RETURNED)
        wm_core_batch_lose_result (self, batch);
    if (session)
        wm_core_refuse (self, session, WM_REASON_BUSY,
                        "the result of %u.%u.%u cannot be read back: announce it again", key.input,
                        key.ordinal, key.batch);
    wm_core_tick (self, now_ms);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void session_stale (wm_core_t *self, session_t *session, bool blame, const char *how,
                           int64_t since_ms)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_BYE);
    msg.code = WM_REASON_STALE;
    snprintf (msg.text, sizeof msg.text, "%s for %lld ms", how,
              (long long) (self->now_ms - since_ms));
    wm_core_log (self, "%s: %s", session->label, msg.text);
    if (session->role == WM_ROLE_WORKER)
        wm_core_mark (self, WM_MARK_LOST, "%s: %s", session->label, msg.text);
    wm_core_send (self, session, &msg, NULL);
    wm_core_session_end (self, session, blame);
}

/* A producer whose link passes less than a message in so many silences keeps others waiting.  */
#define SLOW_SILENCES 10

/* Whether parts of a message arrived: a large one on a slow link is no silence.  */
static bool is_receiving (wm_core_t *self, session_t *session)
{
    const int64_t quiet_ms =
        self->sink.quiet ? self->sink.quiet (self->sink.context, session->id) : INT64_MAX;
    if (quiet_ms >= self->config.times.silence_ms)
        return false;
    session->heard_ms = self->now_ms - quiet_ms;
    return true;
}

static void session_tick (wm_core_t *self, session_t *session)
{
    const wm_times_t *times = &self->config.times;
    int64_t now = self->now_ms;
    wm_msg_t msg;
    if (session->state == SESSION_LOST) {
        if (now - session->lost_ms < times->reconnect_ms)
            return;
        wm_core_log (self, "worker %s is lost with %u batches", session->label, session->n_lease);
        wm_core_mark (self, WM_MARK_LOST, "%s: went without a word, with %u batches",
                      session->label, session->n_lease);
        wm_core_session_end (self, session, true);
        return;
    }
    if (session->state == SESSION_NEW && now - session->opened_ms > times->handshake_ms) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL, "no HELLO within %lld ms",
                        (long long) times->handshake_ms);
        return;
    }
    if (session->state == SESSION_LIVE && now - session->heard_ms > times->silence_ms &&
        !is_receiving (self, session)) {
        session_stale (self, session, true, "silent", session->heard_ms);
        return;
    }
    /* It sends heartbeats but does not drain its queue: payloads in flight to it keep bytes of the
       budget that others wait for.  */
    if (session->state == SESSION_LIVE && session->role == WM_ROLE_WORKER &&
        session->sent > session->received && now - session->received_ms > 2 * times->silence_ms) {
        session_stale (self, session, false, "has received nothing of what it was sent",
                       session->received_ms);
        return;
    }
    if (session->state == SESSION_LIVE && now - session->sent_ms >= times->heartbeat_ms) {
        wm_msg_init (&msg, WM_MSG_HEARTBEAT);
        wm_core_send (self, session, &msg, NULL);
    }
    if (session->role == WM_ROLE_WORKER)
        wm_core_worker_tick (self, session);
    if (session->state == SESSION_LIVE && session->role == WM_ROLE_PRODUCER &&
        wm_core_needs_tick (self, session) &&
        (now - session->answered_ms > SLOW_SILENCES * times->silence_ms ||
         !is_receiving (self, session)))
        session_stale (self, session, false, "fills the budget with payloads that it has not sent",
                       session->answered_ms);
}

void wm_core_tick (wm_core_t *self, int64_t now_ms)
{
    enter (self, now_ms);
    wm_core_lease_measure (self);
    session_t *next;
    for (session_t *session = self->sessions.first; session; session = next) {
        next = session->next;
        (void) wm_core_pending_reserve (self); /* else a batch is held at a later failure */
        session_tick (self, session);
    }
    pump (self);
    wm_core_dispatch_copies (self);
    wm_core_waits_tick (self);
}

void wm_core_disk_full (wm_core_t *self, bool full, int64_t now_ms)
{
    enter (self, now_ms);
    self->disk_full = full;
    wm_core_waits (self, WM_WAIT_DISK, full);
    pump (self);
}

void wm_core_stop (wm_core_t *self, const char *text)
{
    wm_msg_t bye;
    wm_msg_init (&bye, WM_MSG_BYE);
    bye.code = WM_REASON_STOPPING;
    snprintf (bye.text, sizeof bye.text, "%s", text);
    for (session_t *session = self->sessions.first; session; session = session->next)
        wm_core_send (self, session, &bye, NULL);
    while (self->sessions.first)
        wm_core_session_end (self, self->sessions.first, false);
}

/* ---- begin and end --------------------------------------------------------------------------- */

wm_core_t *wm_core_new (const wm_core_config_t *config, const wm_core_sink_t *sink)
{
    wm_core_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->config = *config;
    if (!config->stray_max)
        self->config.stray_max = WM_STRAY_ALL_MAX;
    self->sink = *sink;
    self->entry_ms = self->now_ms = config->now_ms;
    self->leases.ms = config->times.lease_ms;
    self->pins = malloc (config->pins_bytes + 1);
    if (!self->pins || !wm_core_pending_reserve (self)) {
        wm_core_destroy (&self);
        return NULL;
    }
    memcpy (self->pins, config->pins, config->pins_bytes);
    self->pins[config->pins_bytes] = 0;
    self->config.pins = self->pins;
    return self;
}

void wm_core_destroy (wm_core_t **self_p)
{
    wm_core_t *self = *self_p;
    if (!self)
        return;
    while (self->sessions.first)
        wm_core_session_end (self, self->sessions.first, false);
    wm_core_check_free_all (self);
    wm_core_machines_free (self);
    wm_input_set_free (&self->distrust.to_redo);
    for (uint32_t i = 0; i < self->inputs.n; i++)
        wm_core_input_free (self, self->inputs.at[i]);
    while (self->leases.pool) {
        lease_t *lease = self->leases.pool;
        self->leases.pool = lease->next;
        free (lease);
    }
    for (uint32_t i = 0; i < self->arithmetic.n_signature; i++)
        free (self->arithmetic.signature[i]);
    free (self->inputs.at);
    free (self->inputs.by_path.slot);
    free (self->inputs.by_name.slot);
    free (self->inputs.events.slot);
    free (self->sessions.by_id.slot);
    free (self->sessions.by_instance.slot);
    free (self->workers.orphans.slot);
    free (self->pending.ring);
    free (self->pins);
    free (self);
    *self_p = NULL;
}
