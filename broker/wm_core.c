/* wm_core.c - the doors of wm_core: sessions, grammar, time, and effects of durable records.

   Every door first moves the core's time on: the caller's, less all gaps of the loop above gap_ms,
   so that a stopped process moves all deadlines at once and no timer needs to know of it.
   Then the table of turns says who may send what; the nouns (wm_core_input.c, wm_core_event.c,
   wm_core_worker.c) decide; and last comes what any message may have made possible: NEEDs, TASKs.
 */
#include "broker/wm_core_private.h"
#include "schema/base/wm_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Effects one door can ask for: holding every batch a worker had, and a little.  */
#define PENDING_ROOM (2 * WM_CREDIT_MAX + 16)
/* Records on their way at most: with a full disk the peers wait, not our memory.  */
#define PENDING_MAX (1u << 16)

/* ---- small things ------------------------------------------------------------------------------
 */
void core_log (wm_core_t *self, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    wm_log_tame (text); /* peers' words are in it: one line, whatever they say */
    size_t slot = self->n_said++ % WM_SUMMARY_SAID_MAX;
    self->said[slot].ms = self->now_ms;
    snprintf (self->said[slot].text, sizeof self->said[slot].text, "%.*s",
              (int) sizeof self->said[slot].text - 1, text);
    self->sink.log (self->sink.context, text);
}

void core_send (wm_core_t *self, session_t *session, wm_msg_t *msg, const wm_payload_t *payload)
{
    if (session->state != SESSION_LIVE && session->state != SESSION_NEW)
        return;
    session->sent_ms = self->now_ms;
    self->sink.send (self->sink.context, session->id, msg, payload);
}

session_t *core_session (const wm_core_t *self, uint32_t id)
{
    size_t at;
    return wm_table_first (&self->sessions, wm_table_mix (id), &at);
}

uint16_t core_signature (wm_core_t *self, const char *text)
{
    for (uint32_t i = 0; i < self->n_signature; i++)
        if (strcmp (self->signature[i], text) == 0)
            return (uint16_t) (i + 1);
    if (!*text || self->n_signature == SIGNATURES_MAX)
        return 0;
    char *copy = strdup (text);
    if (!copy)
        return 0;
    self->signature[self->n_signature++] = copy;
    return (uint16_t) self->n_signature;
}

void core_reason (wm_core_t *self, wm_key_t key, const char *text)
{
    size_t slot = self->n_reason++ % REASONS_MAX;
    self->reason[slot].key = key;
    snprintf (self->reason[slot].text, sizeof self->reason[slot].text, "%s", text);
}

static void rate_turn (rate_t *rate, int64_t now_ms)
{
    int64_t second = now_ms / 1000;
    for (int64_t i = rate->second + 1; i <= second && i <= rate->second + RATE_SECONDS; i++)
        rate->bucket[i % RATE_SECONDS] = 0;
    rate->second = second;
}

void rate_add (rate_t *rate, int64_t now_ms, uint32_t count)
{
    if (now_ms / 1000 >= rate->second + RATE_SECONDS)
        rate->start_ms = now_ms;
    if (now_ms / 1000 > rate->second)
        rate_turn (rate, now_ms);
    rate->bucket[rate->second % RATE_SECONDS] += count;
}

double rate_per_s (const rate_t *rate, int64_t now_ms)
{
    double sum = 0;
    for (int64_t i = 0; i < RATE_SECONDS; i++) {
        int64_t second = rate->second - i;
        if (second >= 0 && second > now_ms / 1000 - RATE_SECONDS)
            sum += rate->bucket[second % RATE_SECONDS];
    }
    double seconds = (double) (now_ms - rate->start_ms) / 1000;
    return sum / (seconds < 1 ? 1 : seconds > RATE_SECONDS ? RATE_SECONDS : seconds);
}

void queue_push (queue_t *queue, batch_t *batch)
{
    batch->next = NULL;
    batch->prev = queue->tail;
    *(queue->tail ? &queue->tail->next : &queue->head) = batch;
    queue->tail = batch;
    queue->count++;
}

void queue_push_front (queue_t *queue, batch_t *batch)
{
    batch->prev = NULL;
    batch->next = queue->head;
    *(queue->head ? &queue->head->prev : &queue->tail) = batch;
    queue->head = batch;
    queue->count++;
}

void queue_remove (queue_t *queue, batch_t *batch)
{
    *(batch->prev ? &batch->prev->next : &queue->head) = batch->next;
    *(batch->next ? &batch->next->prev : &queue->tail) = batch->prev;
    batch->prev = batch->next = NULL;
    queue->count--;
}

/* ---- records and their effects -----------------------------------------------------------------
 */
static int pending_reserve (wm_core_t *self)
{
    size_t want = self->pending_count + PENDING_ROOM;
    if (want <= self->pending_capacity)
        return 0;
    if (self->pending_count > PENDING_MAX)
        return -1;
    size_t capacity = self->pending_capacity ? self->pending_capacity * 2 : 2 * PENDING_ROOM;
    pending_t *ring = calloc (capacity, sizeof *ring);
    if (!ring)
        return -1;
    for (size_t i = 0; i < self->pending_count; i++)
        ring[i] = self->pending[(self->pending_head + i) % self->pending_capacity];
    free (self->pending);
    self->pending = ring;
    self->pending_head = 0;
    self->pending_capacity = capacity;
    return 0;
}

int core_has_room (const wm_core_t *self)
{
    return self->pending_count + 2 <= self->pending_capacity;
}

static void pending_push (wm_core_t *self, pending_t pending)
{
    assert (self->pending_count < self->pending_capacity);
    self->pending[(self->pending_head + self->pending_count++) % self->pending_capacity] = pending;
}

void core_append (wm_core_t *self, wm_record_t *record, const wm_payload_t *body,
                  const session_t *session, uint8_t code)
{
    pending_push (self, (pending_t){ .type = (uint8_t) record->type,
                                     .is_record = 1,
                                     .code = code,
                                     .session = session ? session->id : 0,
                                     .key = record->key });
    self->sink.append (self->sink.context, record, body);
}

static void pending_effect (wm_core_t *self, const pending_t *pending, const wm_place_t *place)
{
    if (pending->type == WM_RECORD_RESULT ||
        (pending->type == WM_RECORD_HELD && pending->key.batch != WM_ALL))
        batch_durable (self, pending, place);
    else
        input_durable (self, pending);
}

void core_also (wm_core_t *self, wm_record_type_t type, wm_key_t key, const session_t *session,
                uint8_t code)
{
    pending_t pending = {
        .type = (uint8_t) type, .code = code, .session = session ? session->id : 0, .key = key
    };
    if (self->pending_count)
        pending_push (self, pending);
    else
        pending_effect (self, &pending, NULL);
}

/* ---- sessions ----------------------------------------------------------------------------------
 */
static uint64_t instance_hash (const session_t *session)
{
    return XXH3_64bits_withSeed (session->instance, 16, (uint64_t) session->role);
}

/* Takes the session out of everything and frees it. Its leases must be gone.  */
static void session_free (wm_core_t *self, session_t *session)
{
    while (session->claims)
        input_unclaim (self, session->claims);
    if (session->role == WM_ROLE_WORKER)
        worker_forget (self, session);
    if (session->state == SESSION_LOST)
        self->n_lost_worker--;
    else {
        self->n_session--;
        if (session->state == SESSION_LIVE && session->role == WM_ROLE_WORKER)
            self->n_worker--;
        if (session->state == SESSION_LIVE && session->role == WM_ROLE_PRODUCER)
            self->n_producer--;
        self->sink.drop (self->sink.context, session->id);
    }
    wm_table_remove (&self->instances, instance_hash (session), session);
    wm_table_remove (&self->sessions, wm_table_mix (session->id), session);
    *(session->prev ? &session->prev->next : &self->first) = session->next;
    *(session->next ? &session->next->prev : &self->last) = session->prev;
    free (session);
}

/* Ends a session; a worker's leases go back at once.  */
static void session_end (wm_core_t *self, session_t *session, int blame)
{
    if (session->role == WM_ROLE_WORKER)
        worker_give_back (self, session, blame);
    session_free (self, session);
}

/* The connection is gone: a worker's leases wait for its instance.  */
static void session_lose (wm_core_t *self, session_t *session)
{
    if (session->state != SESSION_LIVE || session->role != WM_ROLE_WORKER || !session->n_lease) {
        session_end (self, session, 0);
        return;
    }
    self->sink.drop (self->sink.context, session->id);
    self->n_session--;
    self->n_worker--;
    self->n_lost_worker++;
    session->state = SESSION_LOST;
    session->lost_ms = self->now_ms;
    worker_forget (self, session);
}

void core_refuse (wm_core_t *self, session_t *session, wm_reason_t reason, const char *format, ...)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_REJECT);
    msg.code = (uint32_t) reason;
    va_list args;
    va_start (args, format);
    vsnprintf (msg.text, sizeof msg.text, format, args);
    va_end (args);
    core_log (self, "refused %s: %s", *session->label ? session->label : "a peer", msg.text);
    core_send (self, session, &msg, NULL);
    session_end (self, session, 0);
}

/* Enters it among the instances; *old: its session before this one, or NULL. -1 without memory.  */
static int instance_enter (wm_core_t *self, session_t *session, session_t **old)
{
    size_t at;
    uint64_t hash = instance_hash (session);
    *old = wm_table_first (&self->instances, hash, &at);
    while (*old &&
           ((*old)->role != session->role || memcmp ((*old)->instance, session->instance, 16)))
        *old = wm_table_next (&self->instances, hash, &at);
    if (wm_table_reserve (&self->instances))
        return -1;
    wm_table_put (&self->instances, hash, session);
    return 0;
}

static void on_hello (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                      const wm_payload_t *payload)
{
    const size_t line = sizeof (wm_hello_held_t);
    snprintf (session->label, sizeof session->label, "%.63s", msg->name);
    if (msg->protocol != WM_PROTOCOL) {
        core_refuse (self, session, WM_REASON_PROTOCOL,
                     "this broker (%s) speaks protocol %u, the peer %u: install the same version",
                     WM_VERSION, WM_PROTOCOL, msg->protocol);
        return;
    }
    if (msg->role != (uint32_t) session->role) {
        core_refuse (self, session, WM_REASON_ROLE,
                     "this port is for role %d (1 worker, 2 producer, 3 operator), not %u",
                     (int) session->role, msg->role);
        return;
    }
    if (payload->bytes % line || payload->bytes / line > 4 * WM_CREDIT_MAX ||
        (payload->bytes && session->role != WM_ROLE_WORKER)) {
        core_refuse (self, session, WM_REASON_PROTOCOL, "HELLO with a payload of %zu bytes",
                     payload->bytes);
        return;
    }
    if (session->role == WM_ROLE_WORKER && arithmetic_admit (self, session, msg))
        return;
    session_t *old;
    memcpy (session->instance, msg->instance, 16);
    if (instance_enter (self, session, &old)) {
        core_refuse (self, session, WM_REASON_BUSY, "no memory for another peer: try later");
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
    welcome.code = session->role == WM_ROLE_PRODUCER && self->config.measures && !self->has_sample;
    wm_payload_t pins = { NULL, self->pins, self->config.pins_bytes };
    core_send (self, session, &welcome, &pins);

    if (session->role == WM_ROLE_WORKER) {
        self->n_worker++;
        session->signature = *session->arithmetic.class ? core_signature (self, msg->text) : 0;
        worker_on_hello (self, session, old, payload->data, (uint32_t) (payload->bytes / line));
    } else if (session->role == WM_ROLE_PRODUCER)
        self->n_producer++;
    if (old)
        session_end (self, old, 0);
}

static void on_bye (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    int failed = msg->code == WM_REASON_FAILED;
    /* a worker says DONE where it only fetched the model */
    if (failed || (session->role == WM_ROLE_WORKER && msg->code != WM_REASON_DONE))
        core_log (self, "%s leaves%s%s", session->label, *msg->text ? ": " : "", msg->text);
    if (!failed)
        self->n_preempt += session->n_lease;
    session_end (self, session, failed);
}

void core_pause (wm_core_t *self, const char *why)
{
    self->paused = 1;
    snprintf (self->why, sizeof self->why, "%s", why);
    core_log (self, "paused: %s", self->why);
}

/* Drains the worker of this label, or all: what it says of those that come. 0: there is none.  */
static int drain (wm_core_t *self, const char *label, const char *operator)
{
    char why[120];
    int n = 0;
    snprintf (why, sizeof why, "drained by %s", operator);
    for (session_t *worker = self->first; worker; worker = worker->next) {
        if (worker->role != WM_ROLE_WORKER || worker->state != SESSION_LIVE ||
            (*label && strcmp (worker->label, label) != 0))
            continue;
        worker_dismiss (self, worker, why);
        n++;
    }
    self->draining |= !*label;
    return n || !*label;
}

static void on_control (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    if (strcmp (msg->name, "kick") == 0) {
        input_on_kick (self, session, msg);
        return;
    }
    int noted = 0;
    core_log (self, "%s: %s %s", session->label, msg->name, msg->text);
    if (strcmp (msg->name, "pause") == 0) {
        char why[240];
        snprintf (why, sizeof why, "by %s%s%.150s", session->label, *msg->text ? ": " : "",
                  msg->text);
        if (!self->paused || *msg->text) /* a pause without a reason takes none away */
            core_pause (self, why);
        noted = self->sink.pause (self->sink.context, self->why);
    } else if (strcmp (msg->name, "resume") == 0) {
        self->paused = self->draining = 0;
        self->n_tripped = 0;
        noted = self->sink.pause (self->sink.context, NULL);
    } else if (strcmp (msg->name, "drain") != 0) {
        core_refuse (self, session, WM_REASON_PROTOCOL,
                     "no control '%s': there are drain, pause, resume and kick", msg->name);
        return;
    } else if (!drain (self, msg->text, session->label)) {
        core_refuse (self, session, WM_REASON_STALE,
                     "no worker is called '%s': wiremill status names them", msg->text);
        return;
    }
    if (noted) {
        core_refuse (
            self, session, WM_REASON_BUSY,
            "%sd, but it cannot be noted on the campaign's disk: a broker that starts anew "
            "will not know",
            msg->name);
        return;
    }
    wm_msg_t ack;
    wm_msg_init (&ack, WM_MSG_ACK);
    ack.code = WM_MSG_CONTROL;
    core_send (self, session, &ack, NULL);
}

/* ---- grammar -----------------------------------------------------------------------------------
 */
/* Who may send what once it is welcome; bit 1 << role.  */
static int may_send (wm_role_t role, wm_msg_type_t type)
{
    static const uint8_t turns[WM_MSG_TYPE_END] = {
        [WM_MSG_BYE] = 0xe,          [WM_MSG_HEARTBEAT] = 0xe, [WM_MSG_MODEL_GET] = 0x2,
        [WM_MSG_CREDIT] = 0x2,       [WM_MSG_RESULT] = 0x2,    [WM_MSG_NACK] = 0x2,
        [WM_MSG_DRAIN] = 0x2,        [WM_MSG_INPUT] = 0x4,     [WM_MSG_SUBMIT] = 0x4,
        [WM_MSG_BATCH] = 0x4,        [WM_MSG_INPUT_END] = 0x4, [WM_MSG_FETCH] = 0x4,
        [WM_MSG_FILE_WRITTEN] = 0x4, [WM_MSG_FILE_LOST] = 0x4, [WM_MSG_INPUT_HELD] = 0x4,
        [WM_MSG_STATUS] = 0x8,       [WM_MSG_CONTROL] = 0x8,   [WM_MSG_SAMPLE] = 0x4,
        [WM_MSG_TRIAL_GET] = 0x2,
    };
    return turns[type] >> role & 1;
}

static void dispatch (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                      const wm_payload_t *payload)
{
    switch (msg->type) {
    case WM_MSG_BYE:
        on_bye (self, session, msg);
        return;
    case WM_MSG_HEARTBEAT:
        if (session->role == WM_ROLE_WORKER)
            worker_on_heartbeat (self, session, msg);
        else
            memcpy (session->says, msg->text, sizeof session->says);
        return;
    case WM_MSG_MODEL_GET:
        session->sent_ms = self->now_ms;
        self->sink.model (self->sink.context, session->id, msg->offset);
        return;
    case WM_MSG_CREDIT:
        worker_on_credit (self, session, msg);
        return;
    case WM_MSG_RESULT:
        worker_on_result (self, session, msg, payload);
        return;
    case WM_MSG_NACK:
        worker_on_nack (self, session, msg);
        return;
    case WM_MSG_DRAIN: /* a worker's own: nothing more, please */
        worker_on_drain (self, session);
        return;
    case WM_MSG_INPUT:
        input_on_input (self, session, msg);
        return;
    case WM_MSG_SUBMIT:
        event_on_submit (self, session, msg, payload);
        return;
    case WM_MSG_BATCH:
        event_on_batch (self, session, msg, payload);
        return;
    case WM_MSG_INPUT_END:
        input_on_end (self, session, msg);
        return;
    case WM_MSG_FETCH:
        event_on_fetch (self, session, msg);
        return;
    case WM_MSG_FILE_WRITTEN:
        input_on_written (self, session, msg);
        return;
    case WM_MSG_FILE_LOST:
        input_on_lost (self, session, msg);
        return;
    case WM_MSG_INPUT_HELD:
        input_on_held (self, session, msg);
        return;
    case WM_MSG_SAMPLE:
        arithmetic_on_sample (self, session, msg, payload);
        return;
    case WM_MSG_TRIAL_GET:
        arithmetic_on_trial_get (self, session);
        return;
    case WM_MSG_STATUS:
        session->sent_ms = self->now_ms;
        self->sink.status (self->sink.context, session->id);
        return;
    case WM_MSG_CONTROL:
        on_control (self, session, msg);
        return;
    default:
        assert (!"may_send lets nothing else through");
    }
}

/* Moves the core's time on. A gap moves all deadlines: the core's clock stands still in it.  */
static void enter (wm_core_t *self, int64_t now_ms)
{
    int64_t gap = now_ms - self->entry_ms;
    if (gap < 0)
        return;
    if (gap > self->config.times.gap_ms)
        self->skipped_ms += gap;
    self->entry_ms = now_ms;
    self->now_ms = now_ms - self->skipped_ms;
}

/* What any change may have made possible.  */
static void pump (wm_core_t *self)
{
    worker_dispatch (self);
    batch_ask (self);
}

uint32_t wm_core_open (wm_core_t *self, wm_role_t port, int64_t now_ms)
{
    enter (self, now_ms);
    /* The lost ones that may come back are as many again at most.  */
    if (self->n_session >= self->config.peers_max ||
        self->sessions.count >= 2 * (size_t) self->config.peers_max ||
        wm_table_reserve (&self->sessions))
        return 0;
    session_t *session = calloc (1, sizeof *session);
    if (!session)
        return 0;
    do /* ids rise, so that a message for a session that is over finds nobody */
        session->id = ++self->last_id;
    while (!session->id || core_session (self, session->id));
    session->state = SESSION_NEW;
    session->role = port;
    session->opened_ms = session->heard_ms = session->sent_ms = self->now_ms;
    session->prev = self->last;
    *(self->last ? &self->last->next : &self->first) = session;
    self->last = session;
    wm_table_put (&self->sessions, wm_table_mix (session->id), session);
    self->n_session++;
    return session->id;
}

void wm_core_message (wm_core_t *self, uint32_t id, const wm_msg_t *msg,
                      const wm_payload_t *payload, int64_t now_ms)
{
    enter (self, now_ms);
    session_t *session = core_session (self, id);
    if (!session || session->state == SESSION_LOST)
        return;
    session->heard_ms = self->now_ms;
    const char *name = wm_msg_name (msg->type);
    if (!payload != !wm_msg_has_payload (msg->type))
        core_refuse (self, session, WM_REASON_PROTOCOL, "%s %s payload", name,
                     payload ? "with a" : "without its");
    else if (pending_reserve (self))
        core_refuse (self, session, WM_REASON_BUSY, "no memory for %s now: try again later", name);
    else if (session->state == SESSION_NEW && msg->type == WM_MSG_HELLO)
        on_hello (self, session, msg, payload);
    else if (session->state == SESSION_NEW || !may_send (session->role, msg->type))
        core_refuse (self, session, WM_REASON_PROTOCOL, "%s out of turn", name);
    else
        dispatch (self, session, msg, payload);
    pump (self);
}

void wm_core_reject (wm_core_t *self, uint32_t id, wm_reason_t reason, const char *text)
{
    session_t *session = core_session (self, id);
    if (session && session->state != SESSION_LOST)
        core_refuse (self, session, reason, "%s", text);
    pump (self);
}

void wm_core_closed (wm_core_t *self, uint32_t id, int64_t now_ms)
{
    enter (self, now_ms);
    session_t *session = core_session (self, id);
    if (session && session->state != SESSION_LOST)
        session_lose (self, session);
    pump (self);
}

void wm_core_durable (wm_core_t *self, const wm_place_t *place, int64_t now_ms)
{
    enter (self, now_ms);
    assert (self->pending_count && self->pending[self->pending_head].is_record);
    do {
        pending_t pending = self->pending[self->pending_head];
        self->pending_head = (self->pending_head + 1) % self->pending_capacity;
        self->pending_count--;
        pending_effect (self, &pending, place);
    } while (self->pending_count && !self->pending[self->pending_head].is_record);
    pump (self);
}

static void session_stale (wm_core_t *self, session_t *session, int blame, const char *how,
                           int64_t since_ms)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_BYE);
    msg.code = WM_REASON_STALE;
    snprintf (msg.text, sizeof msg.text, "%s for %lld ms", how,
              (long long) (self->now_ms - since_ms));
    core_log (self, "%s: %s", session->label, msg.text);
    core_send (self, session, &msg, NULL);
    session_end (self, session, blame);
}

static void session_tick (wm_core_t *self, session_t *session)
{
    const wm_times_t *times = &self->config.times;
    int64_t now = self->now_ms;
    wm_msg_t msg;
    if (session->state == SESSION_LOST) {
        if (now - session->lost_ms < times->reconnect_ms)
            return;
        core_log (self, "worker %s is lost with %u batches", session->label, session->n_lease);
        session_end (self, session, 1);
        return;
    }
    if (session->state == SESSION_NEW && now - session->opened_ms > times->handshake_ms) {
        core_refuse (self, session, WM_REASON_PROTOCOL, "no HELLO within %lld ms",
                     (long long) times->handshake_ms);
        return;
    }
    if (session->state == SESSION_LIVE && now - session->heard_ms > times->silence_ms) {
        session_stale (self, session, 1, "silent", session->heard_ms);
        return;
    }
    /* It beats and reads nothing: its own broker would be silent for it. The payloads on their way
       to it are in the budget, and others wait for that.  */
    if (session->state == SESSION_LIVE && session->sent > session->seen &&
        now - session->seen_ms > 2 * times->silence_ms) {
        session_stale (self, session, 0, "has taken nothing of what it was sent", session->seen_ms);
        return;
    }
    if (session->state == SESSION_LIVE && now - session->sent_ms >= times->heartbeat_ms) {
        wm_msg_init (&msg, WM_MSG_HEARTBEAT);
        core_send (self, session, &msg, NULL);
    }
    if (session->role == WM_ROLE_WORKER)
        worker_tick (self, session);
}

void wm_core_tick (wm_core_t *self, int64_t now_ms)
{
    enter (self, now_ms);
    workers_look_at_durations (self);
    session_t *next;
    for (session_t *session = self->first; session; session = next) {
        next = session->next;
        (void) pending_reserve (
            self); /* without memory holding a batch waits for a later failure */
        session_tick (self, session);
    }
    pump (self);
    worker_dispatch_tail (self);
}

void wm_core_disk_full (wm_core_t *self, int full, int64_t now_ms)
{
    enter (self, now_ms);
    self->disk_full = full != 0;
    pump (self);
}

void wm_core_stop (wm_core_t *self, const char *text)
{
    wm_msg_t bye;
    wm_msg_init (&bye, WM_MSG_BYE);
    bye.code = WM_REASON_STOPPING;
    snprintf (bye.text, sizeof bye.text, "%s", text);
    for (session_t *session = self->first; session; session = session->next)
        core_send (self, session, &bye, NULL);
    while (self->first)
        session_end (self, self->first, 0);
}

/* ---- life --------------------------------------------------------------------------------------
 */
wm_core_t *wm_core_new (const wm_core_config_t *config, const wm_core_sink_t *sink)
{
    wm_core_t *self = calloc (1, sizeof *self);
    if (!self)
        return NULL;
    self->config = *config;
    self->sink = *sink;
    self->entry_ms = self->now_ms = config->now_ms;
    self->lease_ms = config->times.lease_ms;
    self->pins = malloc (config->pins_bytes + 1);
    if (!self->pins || pending_reserve (self)) {
        wm_core_destroy (&self);
        return NULL;
    }
    self->paused = config->paused != NULL;
    snprintf (self->why, sizeof self->why, "%s", config->paused ? config->paused : "");
    memcpy (self->pins, config->pins, config->pins_bytes);
    self->pins[config->pins_bytes] = 0;
    self->config.pins = self->pins;
    self->has_sample = config->has_sample != 0;
    arithmetic_restore (self, config->arithmetic);
    return self;
}

void wm_core_destroy (wm_core_t **self_p)
{
    wm_core_t *self = *self_p;
    if (!self)
        return;
    while (self->first)
        session_end (self, self->first, 0);
    for (uint32_t i = 0; i < self->n_input; i++)
        input_free (self, self->input[i]);
    while (self->lease_pool) {
        lease_t *lease = self->lease_pool;
        self->lease_pool = lease->next;
        free (lease);
    }
    for (uint32_t i = 0; i < self->n_signature; i++)
        free (self->signature[i]);
    free (self->input);
    free (self->paths.slot);
    free (self->names.slot);
    free (self->events.slot);
    free (self->sessions.slot);
    free (self->instances.slot);
    free (self->orphans.slot);
    free (self->pending);
    free (self->pins);
    free (self);
    *self_p = NULL;
}
