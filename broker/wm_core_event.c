/* wm_core_event.c - events and their batches: manifests, payloads on NEED, commits, holds.

   A producer's wants are asked for in its own order, producers in turn, so that they encode side by
   side. What is asked for, what is here and what is on its way to a worker never exceed the budget;
   where it is full, payloads of batches that are running, and whose workers have them, are dropped
   (they are asked for again if they come back). A worker that takes nothing of what it is sent
   keeps the budget until its session ends: silence_ms when it is silent too (wm_core_tick).  */
#include "broker/wm_core_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a payload may be above its raw bytes: the frame's own header and what zstd adds.  */
#define PAYLOAD_OVERHEAD (WM_FRAME_BYTES_MAX - WM_RAW_BYTES_MAX)

/* ---- finding -----------------------------------------------------------------------------------
 */
uint64_t event_hash (uint32_t input, uint32_t ordinal)
{
    return wm_table_mix ((uint64_t) input << 32 | ordinal);
}

event_t *event_find (const wm_core_t *self, uint32_t input, uint32_t ordinal)
{
    size_t at;
    return wm_table_first (&self->events, event_hash (input, ordinal), &at);
}

batch_t *batch_find (const wm_core_t *self, const wm_key_t *key)
{
    event_t *event = event_find (self, key->input, key->ordinal);
    if (!event || key->batch >= event->n_batch || key->generation != event->input->generation)
        return NULL;
    return &event->batch[key->batch];
}

wm_key_t batch_key (const batch_t *batch)
{
    const event_t *event = batch->event;
    return (wm_key_t){ event->input->id, event->ordinal, (uint32_t) (batch - event->batch),
                       event->input->generation };
}

event_t *event_new (wm_core_t *self, input_t *input, uint32_t ordinal, uint32_t n_batch)
{
    assert (n_batch <= WM_EVENT_BATCHES_MAX);
    if (wm_table_reserve (&self->events))
        return NULL;
    event_t *event = calloc (1, sizeof *event + n_batch * sizeof (batch_t));
    if (!event)
        return NULL;
    event->input = input;
    event->ordinal = ordinal;
    event->n_batch = n_batch;
    for (uint32_t i = 0; i < n_batch; i++)
        event->batch[i].event = event;
    self->n_by_state[BATCH_NONE] += n_batch;
    event->all_next = input->all;
    input->all = event;
    wm_table_put (&self->events, event_hash (input->id, ordinal), event);
    return event;
}

/* ---- states ------------------------------------------------------------------------------------
 */
static int in_wants (const batch_t *batch)
{
    return batch->state == BATCH_QUEUED && !(batch->flags & BATCH_ASKED);
}

/* The ring of producers that have wants: in it or out of it as its wants are now.  */
void producer_wants (wm_core_t *self, session_t *producer)
{
    int want = producer->wants.head != NULL;
    if (want == producer->wanting)
        return;
    producer->wanting = (uint8_t) want;
    if (want) {
        session_t *head = self->wanting;
        if (!head) {
            producer->want_prev = producer->want_next = producer;
            self->wanting = producer;
            return;
        }
        producer->want_next = head;
        producer->want_prev = head->want_prev;
        head->want_prev->want_next = producer;
        head->want_prev = producer;
        return;
    }
    producer->want_prev->want_next = producer->want_next;
    producer->want_next->want_prev = producer->want_prev;
    if (self->wanting == producer)
        self->wanting = producer->want_next == producer ? NULL : producer->want_next;
}

/* Of a batch that is ready: neither its flag nor who it failed on changes while it is.  */
static queue_t *ready_queue (wm_core_t *self, const batch_t *batch)
{
    return batch->flags & BATCH_ALONE ? &self->alone
           : batch->failed_on         ? &self->failed
                                      : &self->ready;
}

/* Leaves the queue of the old state, if that has one; the caller enters that of the new one.  */
void batch_set_state (wm_core_t *self, batch_t *batch, batch_state_t state)
{
    session_t *claim = batch->event->input->claim;
    if (in_wants (batch)) {
        queue_remove (&claim->wants, batch);
        producer_wants (self, claim);
    } else if (batch->state == BATCH_READY)
        queue_remove (ready_queue (self, batch), batch);
    else if (batch->state == BATCH_RUNNING)
        queue_remove (batch->payload ? &self->running : &self->bare, batch);
    self->n_by_state[batch->state]--;
    self->n_by_state[state]++;
    batch->state = (uint8_t) state;
    if (state == BATCH_RUNNING)
        queue_push (batch->payload ? &self->running : &self->bare, batch);
}

void payload_drop (wm_core_t *self, payload_t *payload)
{
    if (--payload->refs)
        return;
    self->sink.release (self->sink.context, payload->handle);
    self->budget_used -= payload->bytes;
    free (payload);
}

void batch_drop_payload (wm_core_t *self, batch_t *batch)
{
    if (!batch->payload)
        return;
    assert (batch->state != BATCH_READY);
    if (batch->state == BATCH_RUNNING) {
        queue_remove (&self->running, batch);
        queue_push (&self->bare, batch);
    }
    payload_drop (self, batch->payload);
    batch->payload = NULL;
}

static uint64_t reserved_bytes (const batch_t *batch)
{
    return (uint64_t) batch->raw_bytes + PAYLOAD_OVERHEAD;
}

void batch_forget_need (wm_core_t *self, batch_t *batch)
{
    if (!(batch->flags & BATCH_ASKED))
        return;
    batch->flags &= (uint8_t) ~BATCH_ASKED;
    self->budget_used -= reserved_bytes (batch);
    self->n_asked--;
}

static void batch_ready (wm_core_t *self, batch_t *batch, int front)
{
    queue_t *queue = ready_queue (self, batch);
    batch_set_state (self, batch, BATCH_READY);
    if (front)
        queue_push_front (queue, batch);
    else
        queue_push (queue, batch);
}

void batch_requeue (wm_core_t *self, batch_t *batch)
{
    event_t *event = batch->event;
    session_t *claim = event->input->claim;
    if (batch->payload) {
        batch_ready (self, batch, 1);
        return;
    }
    if (!(event->flags & EVENT_ANNOUNCED) || !claim) {
        batch_set_state (self, batch, BATCH_NONE);
        return;
    }
    batch_set_state (self, batch, BATCH_QUEUED);
    if (batch->flags & BATCH_ASKED)
        return;
    queue_push_front (&claim->wants, batch);
    producer_wants (self, claim);
}

static void open_remove (event_t *event)
{
    *(event->open_prev ? &event->open_prev->open_next : &event->input->open) = event->open_next;
    if (event->open_next)
        event->open_next->open_prev = event->open_prev;
    event->open_prev = event->open_next = NULL;
    event->input->claim->n_open--;
}

void event_unannounce (wm_core_t *self, event_t *event)
{
    for (uint32_t i = 0; i < event->n_batch; i++) {
        batch_t *batch = &event->batch[i];
        if (batch->state == BATCH_QUEUED)
            batch_set_state (self, batch, BATCH_NONE);
        batch_forget_need (self, batch);
    }
    open_remove (event);
    event->flags &= ~(uint32_t) EVENT_ANNOUNCED;
}

static void event_done_send (wm_core_t *self, const event_t *event)
{
    session_t *claim = event->input->claim;
    if (!(event->flags & EVENT_ANNOUNCED) || !claim)
        return;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_EVENT_DONE);
    msg.key = (wm_key_t){ event->input->id, event->ordinal, 0, event->input->generation };
    msg.n_held = event->n_held;
    core_send (self, claim, &msg, NULL);
}

void event_check_done (wm_core_t *self, event_t *event)
{
    if (!(event->flags & EVENT_KNOWN) || event->flags & EVENT_DONE ||
        event->n_returned + event->n_held < event->n_batch)
        return;
    event->flags |= EVENT_DONE;
    event->input->n_done++;
    self->events_done++;
    rate_add (&self->event_rate, self->now_ms, 1);
    if (event->flags & EVENT_ANNOUNCED)
        open_remove (event);
    event_done_send (self, event);
}

void events_free (wm_core_t *self, input_t *input)
{
    while (input->open)
        event_unannounce (self, input->open);
    while (input->all) {
        event_t *event = input->all;
        input->all = event->all_next;
        for (uint32_t i = 0; i < event->n_batch; i++) {
            batch_t *batch = &event->batch[i];
            if (batch->state == BATCH_HELD)
                free (batch->held.text);
            leases_revoke (self, batch, NULL);
            batch_set_state (self, batch, BATCH_NONE);
            batch_forget_need (self, batch);
            batch_drop_payload (self, batch);
        }
        self->n_by_state[BATCH_NONE] -= event->n_batch;
        wm_table_remove (&self->events, event_hash (input->id, event->ordinal), event);
        free (event);
    }
}

/* ---- SUBMIT ------------------------------------------------------------------------------------
 */
/* What a manifest must keep, whoever sends it. NULL: nothing wrong.  */
static const char *manifest_fault (const wm_core_t *self, const wm_msg_t *msg,
                                   const wm_payload_t *payload)
{
    const uint8_t *at = payload->data;
    uint64_t n_hit = msg->n_held;
    if (msg->n_batch > WM_EVENT_BATCHES_MAX || msg->key.ordinal == WM_ALL || msg->key.batch)
        return "with too many batches, or a key of no event";
    if (payload->bytes != (uint64_t) msg->n_batch * sizeof (wm_manifest_batch_t) +
                              (uint64_t) msg->n_held * sizeof (wm_manifest_held_t))
        return "whose payload is not its batches and held hits";
    for (uint32_t i = 0; i < msg->n_batch; i++, at += sizeof (wm_manifest_batch_t)) {
        wm_manifest_batch_t line;
        memcpy (&line, at, sizeof line);
        if (!line.n_hit || line.n_hit > WM_RAW_BYTES_MAX || line.raw_bytes > WM_RAW_BYTES_MAX ||
            wm_result_bytes (line.n_hit, self->config.n_output) > WM_RAW_BYTES_MAX)
            return "with a batch that has no hits, or is larger than 4 MiB";
        n_hit += line.n_hit;
    }
    for (uint32_t i = 0; i < msg->n_held; i++, at += sizeof (wm_manifest_held_t)) {
        wm_manifest_held_t line;
        memcpy (&line, at, sizeof line);
        if (line.row >= msg->n_hit || line.status == WM_HIT_SCORED)
            return "with a held hit that does not exist, or has no reason";
    }
    return n_hit == msg->n_hit ? NULL : "whose hits do not add up";
}

/* Whether this manifest contradicts what is known of the event; says how.  */
static int manifest_differs (const event_t *event, const wm_msg_t *msg, const uint8_t *lines,
                             char *text, size_t bytes)
{
    if (event->n_batch != msg->n_batch ||
        (event->flags & EVENT_KNOWN &&
         (event->n_hit != msg->n_hit || event->n_bad != msg->n_held))) {
        snprintf (text, bytes,
                  "event %u had %u batches with %u hits before and has %u with %u now: the file or "
                  "the specification changed",
                  event->ordinal, event->n_batch, event->n_hit, msg->n_batch, msg->n_hit);
        return 1;
    }
    for (uint32_t i = 0; i < event->n_batch; i++) {
        const batch_t *batch = &event->batch[i];
        wm_manifest_batch_t line;
        memcpy (&line, lines + i * sizeof line, sizeof line);
        if (batch->flags & BATCH_DIGEST &&
            (memcmp (batch->digest, line.digest, 16) != 0 || batch->n_hit != line.n_hit)) {
            snprintf (text, bytes,
                      "event %u batch %u has other data than before: the file or the "
                      "specification changed",
                      event->ordinal, i);
            return 1;
        }
    }
    return 0;
}

static uint8_t batch_announce (wm_core_t *self, batch_t *batch, const wm_manifest_batch_t *line,
                               session_t *producer)
{
    memcpy (batch->digest, line->digest, 16);
    batch->n_hit = line->n_hit;
    batch->flags |= BATCH_DIGEST;
    if (!(batch->flags & BATCH_ASKED))
        batch->raw_bytes = line->raw_bytes;
    switch (batch->state) {
    case BATCH_NONE:
        batch_set_state (self, batch, BATCH_QUEUED);
        queue_push (&producer->wants, batch);
        return WM_WANT;
    case BATCH_COMMITTING:
    case BATCH_RETURNED:
        return WM_HAVE;
    case BATCH_HOLDING:
    case BATCH_HELD:
        return WM_HELD;
    default:
        return WM_WANT;
    }
}

static void event_make_known (wm_core_t *self, event_t *event, const wm_msg_t *msg)
{
    if (event->flags & EVENT_KNOWN)
        return;
    input_t *input = event->input;
    event->flags |= EVENT_KNOWN;
    event->run = msg->run;
    event->subrun = msg->subrun;
    event->event = msg->event;
    event->n_hit = msg->n_hit;
    event->n_bad = msg->n_held;
    input->n_event++;
    input->n_hit += event->n_hit;
    input->n_hit_held += event->n_bad;
    input->n_batch += event->n_batch;
    self->events_known++;
    self->hits_known += event->n_hit;
    self->hits_held += event->n_bad;
}

void event_on_submit (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                      const wm_payload_t *payload)
{
    input_t *input = input_claimed (self, session, msg);
    if (!input)
        return;
    const char *fault = manifest_fault (self, msg, payload);
    event_t *event = event_find (self, input->id, msg->key.ordinal);
    int opens = !event || !(event->flags & (EVENT_ANNOUNCED | EVENT_DONE));
    if (!fault && opens && session->n_open >= WM_OPEN_EVENTS_MAX)
        fault = "above 256 open events";
    if (fault) {
        core_refuse (self, session, WM_REASON_PROTOCOL, "SUBMIT %s", fault);
        return;
    }
    const uint8_t *lines = payload->data;
    char text[200];
    if (event && manifest_differs (event, msg, lines, text, sizeof text)) {
        input_hold (self, input, session, 0, text);
        return;
    }
    if (!event)
        event = event_new (self, input, msg->key.ordinal, msg->n_batch);
    if (!event) {
        core_refuse (self, session, WM_REASON_BUSY, "no memory for another event: try later");
        return;
    }
    event_make_known (self, event, msg);
    event->flags |= EVENT_ANNOUNCED;
    if (opens) {
        event->open_next = input->open;
        if (input->open)
            input->open->open_prev = event;
        input->open = event;
        session->n_open++;
    }
    for (uint32_t i = 0; i < event->n_batch; i++) {
        wm_manifest_batch_t line;
        memcpy (&line, lines + i * sizeof line, sizeof line);
        self->have[i] = batch_announce (self, &event->batch[i], &line, session);
    }
    producer_wants (self, session);
    wm_msg_t answer;
    wm_msg_init (&answer, WM_MSG_SUBMIT_ACK);
    answer.key = msg->key;
    core_send (self, session, &answer, &(wm_payload_t){ NULL, self->have, event->n_batch });
    worker_adopt (self, event);
    if (event->flags & EVENT_DONE)
        event_done_send (self, event);
    else
        event_check_done (self, event);
}

/* ---- NEED and BATCH ----------------------------------------------------------------------------
 */
/* Makes room in the budget by dropping payloads of running batches, those first that run longest,
   are on their way to nobody and can be asked for again. 0: there is room.  */
static int budget_make_room (wm_core_t *self, uint64_t bytes)
{
    for (int in_vain = 0; in_vain < LOOK_BATCHES && self->running.head &&
                          self->budget_used + bytes > self->config.budget_bytes;) {
        batch_t *batch = self->running.head;
        if (batch->event->flags & EVENT_ANNOUNCED && batch->payload->refs == 1)
            batch_drop_payload (self, batch);
        else { /* the next call need not look at it again at once */
            queue_remove (&self->running, batch);
            queue_push (&self->running, batch);
            in_vain++;
        }
    }
    return self->budget_used + bytes > self->config.budget_bytes;
}

static void need (wm_core_t *self, batch_t *batch, session_t *producer)
{
    batch->flags |= BATCH_ASKED;
    self->budget_used += reserved_bytes (batch);
    self->n_asked++;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_NEED);
    msg.key = batch_key (batch);
    memcpy (msg.digest, batch->digest, 16);
    core_send (self, producer, &msg, NULL);
}

void batch_ask (wm_core_t *self)
{
    if (self->paused || self->draining || self->disk_full)
        return;
    /* As much again as the workers have or could have, so that none waits for a producer; two where
       there is no worker yet.  */
    while (self->wanting &&
           self->n_asked + self->ready.count + self->alone.count < self->window + 2) {
        session_t *producer = self->wanting;
        batch_t *batch = producer->wants.head;
        if (budget_make_room (self, reserved_bytes (batch)))
            return;
        queue_remove (&producer->wants, batch);
        self->wanting = producer->want_next;
        producer_wants (self, producer);
        need (self, batch, producer);
    }
}

void batch_ask_again (wm_core_t *self, batch_t *batch)
{
    session_t *claim = batch->event->input->claim;
    if (claim && batch->event->flags & EVENT_ANNOUNCED &&
        self->budget_used + reserved_bytes (batch) <= self->config.budget_bytes)
        need (self, batch, claim);
}

void event_on_batch (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                     const wm_payload_t *payload)
{
    input_t *input = input_claimed (self, session, msg);
    if (!input)
        return;
    batch_t *batch = batch_find (self, &msg->key);
    if (!batch || !(batch->flags & BATCH_ASKED)) {
        core_refuse (self, session, WM_REASON_PROTOCOL, "BATCH %u.%u.%u, which was not asked for",
                     msg->key.input, msg->key.ordinal, msg->key.batch);
        return;
    }
    if (memcmp (batch->digest, msg->digest, 16) != 0) {
        core_refuse (self, session, WM_REASON_DIGEST, "BATCH %u.%u.%u has not the digest announced",
                     msg->key.input, msg->key.ordinal, msg->key.batch);
        return;
    }
    if (!payload->bytes || payload->bytes > reserved_bytes (batch)) {
        core_refuse (self, session, WM_REASON_PROTOCOL,
                     "BATCH %u.%u.%u of %zu bytes where %u raw bytes were announced",
                     msg->key.input, msg->key.ordinal, msg->key.batch, payload->bytes,
                     batch->raw_bytes);
        return;
    }
    payload_t *copy = malloc (sizeof *copy);
    if (!copy) {
        core_refuse (self, session, WM_REASON_BUSY, "no memory for another payload: try later");
        return;
    }
    self->payload_in += payload->bytes;
    int queued = batch->state == BATCH_QUEUED;
    if (queued) /* while it counts as asked for: it is in no queue */
        batch_set_state (self, batch, BATCH_NONE);
    batch_forget_need (self, batch);
    if (!queued && batch->state != BATCH_RUNNING) {
        free (copy);
        return; /* its result came by another way meanwhile */
    }
    self->sink.hold (self->sink.context, payload->handle);
    *copy = (payload_t){ payload->handle, (uint32_t) payload->bytes, 1 };
    batch->payload = copy;
    self->budget_used += payload->bytes;
    if (queued)
        batch_ready (self, batch, 0);
    else {
        queue_remove (&self->bare, batch);
        queue_push (&self->running, batch);
    }
}

/* ---- FETCH -------------------------------------------------------------------------------------
 */
void event_on_fetch (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    wm_msg_t answer;
    wm_msg_init (&answer, WM_MSG_RESULTS);
    answer.key = msg->key;
    const input_t *known = input_find (self, msg->key.input);
    if (known && input_claim_is_over (known, msg)) { /* one is outstanding: it waits for this */
        answer.code = WM_HIT_HELD;
        snprintf (answer.text, sizeof answer.text, "its input is held, or was kicked");
        core_send (self, session, &answer, &(wm_payload_t){ NULL, "", 0 });
        return;
    }
    if (!input_claimed (self, session, msg))
        return;
    batch_t *batch = batch_find (self, &msg->key);
    if (!batch || !(batch->event->flags & EVENT_DONE)) {
        core_refuse (self, session, WM_REASON_PROTOCOL,
                     "FETCH of %u.%u.%u, whose event is not done", msg->key.input, msg->key.ordinal,
                     msg->key.batch);
        return;
    }
    memcpy (answer.digest, batch->digest, 16);
    answer.n_hit = batch->n_hit;
    if (batch->state == BATCH_RETURNED) {
        session->sent_ms = self->now_ms;
        self->sink.fetch (self->sink.context, session->id, &answer, &batch->place);
        return;
    }
    assert (batch->state == BATCH_HELD);
    answer.code = batch->held.code ? batch->held.code : WM_HIT_HELD;
    snprintf (answer.text, sizeof answer.text, "%s", batch->held.text ? batch->held.text : "held");
    core_send (self, session, &answer, &(wm_payload_t){ NULL, "", 0 });
}

/* A result counts; or does not any more.  */
static void batch_return (wm_core_t *self, batch_t *batch, const wm_place_t *place)
{
    input_t *input = batch->event->input;
    batch_set_state (self, batch, BATCH_RETURNED);
    batch->place = *place;
    batch->event->n_returned++;
    input->n_hit_done += batch->n_hit - batch->n_held;
    input->n_hit_held += batch->n_held;
    input->n_batch_held += batch->n_held != 0; /* in part */
    self->hits_done += batch->n_hit - batch->n_held;
    self->hits_held += batch->n_held;
}

static void take_back (wm_core_t *self, batch_t *batch)
{
    input_t *input = batch->event->input;
    batch->event->n_returned--;
    input->n_hit_done -= batch->n_hit - batch->n_held;
    input->n_hit_held -= batch->n_held;
    input->n_batch_held -= batch->n_held != 0;
    self->hits_done -= batch->n_hit - batch->n_held;
    self->hits_held -= batch->n_held;
}

void wm_core_damaged (wm_core_t *self, wm_key_t key, uint32_t id, int64_t now_ms)
{
    batch_t *batch = batch_find (self, &key);
    session_t *session = core_session (self, id);
    if (batch && batch->state == BATCH_RETURNED) {
        event_t *event = batch->event;
        input_t *input = event->input;
        take_back (self, batch);
        if (event->flags & EVENT_DONE) {
            event->flags &= ~(uint32_t) (EVENT_DONE | EVENT_ANNOUNCED);
            input->n_done--;
            self->events_done--;
        }
        batch->result_hash = 0;
        batch->prev = batch->next = NULL;
        batch_set_state (self, batch, BATCH_NONE);
    }
    if (session)
        core_refuse (self, session, WM_REASON_BUSY,
                     "the result of %u.%u.%u cannot be read back: announce it again", key.input,
                     key.ordinal, key.batch);
    wm_core_tick (self, now_ms);
}

/* ---- what becomes durable ----------------------------------------------------------------------
 */
void batch_hold (wm_core_t *self, batch_t *batch, const char *text)
{
    if (!core_has_room (self))
        return; /* it stays in the queue and is held at its next failure */
    wm_key_t key = batch_key (batch);
    core_reason (self, key, text);
    core_log (self, "batch %u.%u.%u of %s is held: %s", key.input, key.ordinal, key.batch,
              batch->event->input->path, text);
    if (batch->state != BATCH_RETURNED && batch->state != BATCH_COMMITTING) {
        leases_revoke (self, batch, NULL);
        batch_set_state (self, batch, BATCH_HOLDING);
        batch_drop_payload (self, batch);
    }
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_HELD);
    record.key = key;
    record.code = WM_HIT_HELD;
    record.n_batch = batch->event->n_batch;
    record.n_hit = batch->n_hit;
    memcpy (record.digest, batch->digest, 16);
    wm_record_text (&record, text);
    core_append (self, &record, NULL, NULL, 0);
}

static void durable_hold (wm_core_t *self, batch_t *batch, const char *text)
{
    event_t *event = batch->event;
    if (batch->state == BATCH_RETURNED) /* an alarm */
        take_back (self, batch);
    batch_set_state (self, batch, BATCH_HELD);
    batch->held.text = strdup (text);
    batch->held.code = WM_HIT_HELD;
    event->n_held++;
    event->input->n_batch_held++;
    event->input->n_hit_held += batch->n_hit;
    self->hits_held += batch->n_hit;
    event_check_done (self, event);
}

/* Why this batch is being held, as the status names it.  */
static const char *reason_of (const wm_core_t *self, const wm_key_t *key)
{
    for (size_t i = 0; i < REASONS_MAX; i++)
        if (memcmp (&self->reason[i].key, key, sizeof *key) == 0)
            return self->reason[i].text;
    return "held";
}

void batch_durable (wm_core_t *self, const pending_t *pending, const wm_place_t *place)
{
    batch_t *batch = batch_find (self, &pending->key);
    if (pending->type == WM_RECORD_HELD) {
        if (batch && batch->state != BATCH_HELD)
            durable_hold (self, batch, reason_of (self, &pending->key));
        return;
    }
    session_t *worker = core_session (self, pending->session);
    if (worker) {
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_RESULT_ACK);
        msg.key = pending->key;
        core_send (self, worker, &msg, NULL);
    }
    if (pending->is_record && batch && batch->state == BATCH_COMMITTING) {
        batch_return (self, batch, place);
        rate_add (&self->hit_rate, self->now_ms, batch->n_hit);
        event_check_done (self, batch->event);
    }
}

/* ---- what was there before ---------------------------------------------------------------------
 */
int wm_core_restore_batch (wm_core_t *self, const wm_ledger_batch_t *row, const char *signature)
{
    input_t *input = input_find (self, row->key.input);
    if (!input || input->state != INPUT_OPEN || row->key.batch >= row->n_batch ||
        row->n_batch > WM_EVENT_BATCHES_MAX || row->key.generation != input->generation)
        return 0;
    event_t *event = event_find (self, input->id, row->key.ordinal);
    if (!event)
        event = event_new (self, input, row->key.ordinal, row->n_batch);
    if (!event)
        return -1;
    if (event->n_batch != row->n_batch)
        return 0;
    batch_t *batch = &event->batch[row->key.batch];
    if (batch->state != BATCH_NONE)
        return 0;
    memcpy (batch->digest, row->digest, 16);
    batch->n_hit = row->n_hit;
    batch->flags |= BATCH_DIGEST;
    batch->signature = core_signature (self, signature);
    if (row->state == WM_LEDGER_BATCH_HELD) {
        durable_hold (self, batch, row->text);
        core_reason (self, row->key, row->text);
        return 0;
    }
    batch->n_held = row->n_held < row->n_hit ? row->n_held : row->n_hit;
    batch_return (self, batch, &row->place);
    char text[80];
    snprintf (text, sizeof text, "%u of its hits have no scores: their statuses say why",
              batch->n_held);
    if (batch->n_held)
        core_reason (self, row->key, text);
    return 0;
}
