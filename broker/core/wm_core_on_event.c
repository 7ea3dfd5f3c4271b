/* wm_core_on_event.c - handles a producer's messages about events: SUBMIT, BATCH, FETCH; and the
   effects of records about batches.  */
#include "broker/core/wm_core_check_private.h"

#include <stdio.h>
#include <string.h>

/* ---- SUBMIT ---------------------------------------------------------------------------------- */

/* Checks a manifest by itself; returns what is wrong with it, or NULL.  */
static const char *manifest_fault (const wm_core_t *self, const wm_msg_t *msg,
                                   const wm_payload_t *payload)
{
    const uint8_t *at = payload->data;
    uint64_t n_hit = msg->n_held;
    const uint32_t most_of_one = wm_row_bytes_max (self->config.n_value, self->config.n_output);
    if (msg->n_batch > WM_EVENT_BATCHES_MAX || msg->key.ordinal == WM_ALL || msg->key.batch)
        return "with too many batches, or a key of no event";
    if (payload->bytes != (uint64_t) msg->n_batch * sizeof (wm_manifest_batch_t) +
                              (uint64_t) msg->n_held * sizeof (wm_manifest_held_t))
        return "whose payload is not its batches and held hits";
    for (uint32_t i = 0; i < msg->n_batch; i++, at += sizeof (wm_manifest_batch_t)) {
        wm_manifest_batch_t line;
        memcpy (&line, at, sizeof line);
        const uint32_t most = line.n_hit == 1 ? most_of_one : WM_RAW_BYTES_MAX;
        if (!line.n_hit || line.n_hit > WM_RAW_BYTES_MAX || line.raw_bytes > most ||
            wm_result_bytes (line.n_hit, self->config.n_output) > most)
            return "with a batch that has no hits, or is too large";
        n_hit += line.n_hit;
    }
    for (uint32_t i = 0; i < msg->n_held; i++, at += sizeof (wm_manifest_held_t)) {
        wm_manifest_held_t line;
        memcpy (&line, at, sizeof line);
        if (line.row >= msg->n_hit || line.status == WM_HIT_SCORED ||
            line.status >= WM_HIT_STATUSES)
            return "with a held hit that does not exist, or has no known reason";
    }
    return n_hit == msg->n_hit ? NULL : "whose hits do not add up";
}

/* Whether this manifest contradicts what is known of the event; text explains it.  */
static bool manifest_differs (const event_t *event, const wm_msg_t *msg, const uint8_t *lines,
                              char *text, size_t bytes)
{
    if (event->n_batch != msg->n_batch ||
        (event->flags & EVENT_KNOWN &&
         (event->n_hit != msg->n_hit || event->n_bad != msg->n_held))) {
        snprintf (text, bytes,
                  "event %u had %u batches with %u hits before and has %u with %u now: the file or "
                  "the specification changed",
                  event->ordinal, event->n_batch, event->n_hit, msg->n_batch, msg->n_hit);
        return true;
    }
    for (uint32_t i = 0; i < event->n_slot; i++) {
        const batch_t *batch = &event->batch[i];
        const uint32_t number = wm_core_batch_key (batch).batch;
        wm_manifest_batch_t line;
        memcpy (&line, lines + number * sizeof line, sizeof line);
        if (batch->flags & BATCH_DIGEST &&
            (memcmp (batch->digest, line.digest, 16) != 0 || batch->n_hit != line.n_hit)) {
            snprintf (text, bytes,
                      "event %u batch %u has other data than before: the file or the "
                      "specification changed",
                      event->ordinal, number);
            return true;
        }
    }
    return false;
}

static wm_have_t batch_announce (wm_core_t *self, batch_t *batch, const wm_manifest_batch_t *line,
                                 session_t *producer)
{
    memcpy (batch->digest, line->digest, 16);
    batch->n_hit = line->n_hit;
    batch->flags |= BATCH_DIGEST;
    if (!(batch->flags & BATCH_ASKED))
        batch->raw_bytes = line->raw_bytes;
    switch (batch->state) {
    case BATCH_NONE:
        wm_core_batch_set_state (self, batch, BATCH_QUEUED);
        wm_queue_push (&producer->wants, &batch->link);
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

static void event_make_known (wm_core_t *self, event_t *event, const wm_msg_t *msg,
                              const wm_payload_t *payload)
{
    if (event->flags & EVENT_KNOWN)
        return;
    input_t *input = event->input;
    event->flags |= EVENT_KNOWN;
    wm_core_event_forget_stray (self, event);
    event->run = msg->run;
    event->subrun = msg->subrun;
    event->event = msg->event;
    event->n_hit = msg->n_hit;
    event->n_bad = msg->n_held;
    for (uint32_t i = 0; i < msg->n_held; i++) {
        wm_manifest_held_t line;
        memcpy (&line, payload->data + payload->bytes - (i + 1ul) * sizeof line, sizeof line);
        wm_core_input_note_held (input, line.status);
    }
    input->n_event++;
    input->n_hit += event->n_hit;
    input->n_hit_held += event->n_bad;
    input->n_batch += event->n_batch;
    self->totals.events_known++;
    self->totals.hits_known += event->n_hit;
    self->totals.hits_held += event->n_bad;
}

static void on_submit (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                       const wm_payload_t *payload)
{
    input_t *input = wm_core_session_claim (self, session, msg);
    if (!input)
        return;
    const char *fault = manifest_fault (self, msg, payload);
    event_t *event = wm_core_event_find (self, input->id, msg->key.ordinal);
    const bool opens = !event || !(event->flags & (EVENT_ANNOUNCED | EVENT_DONE));
    if (!fault && opens && session->n_open >= WM_OPEN_EVENTS_MAX)
        fault = "above 256 open events";
    if (fault) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL, "SUBMIT %s", fault);
        return;
    }
    const uint8_t *lines = payload->data;
    char text[200];
    if (event && manifest_differs (event, msg, lines, text, sizeof text)) {
        if (self->config.for_clients) /* its input is another client's next */
            wm_core_refuse (self, session, WM_REASON_DIGEST, "SUBMIT: %s", text);
        else
            wm_core_input_hold (self, input, session, 0, text);
        return;
    }
    if (!event) {
        event = wm_core_event_new (self, input, msg->key.ordinal, msg->n_batch);
        if (event && self->config.for_clients)
            wm_core_check_forget_event (self, event);
    }
    if (!event || !wm_core_event_fill (self, event)) {
        wm_core_refuse (self, session, WM_REASON_BUSY, "no memory for another event: try later");
        return;
    }
    event_make_known (self, event, msg, payload);
    event->flags |= EVENT_ANNOUNCED;
    if (opens)
        wm_core_event_open (event);
    for (uint32_t i = 0; i < event->n_batch; i++) {
        wm_manifest_batch_t line;
        memcpy (&line, lines + i * sizeof line, sizeof line);
        self->have[i] = (uint8_t) batch_announce (self, &event->batch[i], &line, session);
    }
    wm_core_producer_update (self, session);
    wm_msg_t answer;
    wm_msg_init (&answer, WM_MSG_SUBMIT_ACK);
    answer.key = msg->key;
    wm_core_send (self, session, &answer, &(wm_payload_t){ NULL, self->have, event->n_batch });
    wm_core_worker_adopt (self, event);
    if (event->flags & EVENT_DONE)
        wm_core_event_send_done (self, event);
    else
        wm_core_event_check_done (self, event);
}

/* ---- BATCH ----------------------------------------------------------------------------------- */

/* It sends what it was asked for, in time or late.  */
static void producer_answers (wm_core_t *self, session_t *producer)
{
    producer->answered_ms = self->now_ms;
    if (!producer->late)
        return;
    producer->late = false;
    wm_core_log (self, "producer %s sends what it is asked for again", producer->label);
    wm_core_producer_update (self, producer);
}

/* Its session has answered every NEED, or the claim that this BATCH names is not its own.  */
static void refuse_batch (wm_core_t *self, session_t *session, const wm_msg_t *msg, bool differs)
{
    if (!wm_core_session_claim (self, session, msg))
        return;
    if (differs)
        wm_core_refuse (self, session, WM_REASON_DIGEST,
                        "BATCH %u.%u.%u does not have the digest announced", msg->key.input,
                        msg->key.ordinal, msg->key.batch);
    else
        wm_core_refuse (self, session, WM_REASON_PROTOCOL,
                        "BATCH %u.%u.%u, which was not asked for", msg->key.input, msg->key.ordinal,
                        msg->key.batch);
}

/* The batch whose NEED holds bytes for this BATCH; NULL: none does. *batch: that it is of, if its
   session still has the claim; *differs: but the batch has other bytes now.  */
static batch_t *batch_asked (const wm_core_t *self, const session_t *session, const wm_msg_t *msg,
                             batch_t **batch, bool *differs)
{
    const input_t *input = wm_core_input_find (self, msg->key.input);
    *batch = input && input->claim == session ? wm_core_batch_find (self, &msg->key) : NULL;
    *differs = *batch && memcmp ((*batch)->digest, msg->digest, 16) != 0;
    if (*differs)
        *batch = NULL;
    return *batch && (*batch)->flags & BATCH_ASKED ? *batch : NULL;
}

/* Payloads are asked for a second time, results come by another way, events are forgotten when they
   are answered, inputs begin again: so an honest BATCH may come when its batch is done, unknown, or
   another one of its number. A session may therefore send as many BATCHes as it was sent NEEDs. The
   bytes of a NEED leave the budget when its batch gets the payload, or needs none any more;
   whatever comes after that is kept where it is of use and there is room, else dropped. (I7)  */
static void on_batch (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                      const wm_payload_t *payload)
{
    bool differs;
    batch_t *batch, *asked = batch_asked (self, session, msg, &batch, &differs);
    if (!asked && session->n_owed == session->n_asked) {
        refuse_batch (self, session, msg, differs);
        return;
    }
    if (!payload->bytes || (batch && payload->bytes > wm_core_budget_need_bytes (batch))) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL,
                        "BATCH %u.%u.%u of %zu bytes where %u raw bytes were announced",
                        msg->key.input, msg->key.ordinal, msg->key.batch, payload->bytes,
                        batch ? batch->raw_bytes : 0);
        return;
    }
    session->n_owed--;
    producer_answers (self, session);
    const bool queued = batch && batch->state == BATCH_QUEUED;
    if (!asked && session->n_late)
        wm_core_budget_end_late (self, session, 1,
                                 batch ? wm_core_budget_need_bytes (batch) : payload->bytes);
    else if (asked && queued && !(batch->flags & BATCH_LATE) && batch->since_ms &&
             (int32_t) (batch->since_ms - (uint32_t) session->late_ms) > 0)
        wm_core_budget_end_late (self, session, session->n_late, 0); /* asked for after those */
    const bool is_wanted = batch && !wm_core_input_claim_is_over (batch->event->input, msg) &&
                           (queued || (asked && batch->state == BATCH_RUNNING));
    const bool has_room = asked || wm_core_budget_room (self, payload->bytes);
    payload_t *copy = is_wanted && has_room ? wm_core_payload_take (self, payload) : NULL;
    if (is_wanted && has_room && !copy) {
        wm_core_refuse (self, session, WM_REASON_BUSY, "no memory for another payload: try later");
        return;
    }
    if (queued && (copy || asked)) /* leaves the queue of batches to ask for, if it is there */
        wm_core_batch_set_state (self, batch, BATCH_NONE);
    if (asked)
        wm_core_budget_end_need (self, asked);
    if (!copy)
        return;
    self->totals.payload_in += payload->bytes;
    wm_core_batch_take_payload (self, batch, copy);
}

/* ---- FETCH ----------------------------------------------------------------------------------- */

static void on_fetch (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                      const wm_payload_t *payload)
{
    (void) payload;
    wm_msg_t answer;
    wm_msg_init (&answer, WM_MSG_RESULTS);
    answer.key = msg->key;
    const input_t *known = wm_core_input_find (self, msg->key.input);
    if (known &&
        wm_core_input_claim_is_over (known, msg)) { /* the producer waits for this answer */
        answer.code = WM_HIT_HELD;
        snprintf (answer.text, sizeof answer.text, "its input is held, or was kicked");
        wm_core_send (self, session, &answer, &(wm_payload_t){ NULL, "", 0 });
        return;
    }
    if (!wm_core_session_claim (self, session, msg))
        return;
    batch_t *batch = self->config.for_clients ? NULL : wm_core_batch_find (self, &msg->key);
    if (!batch || !(batch->event->flags & EVENT_DONE)) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL,
                        "FETCH of %u.%u.%u, whose event is not done", msg->key.input,
                        msg->key.ordinal, msg->key.batch);
        return;
    }
    assert (batch->state == BATCH_RETURNED || batch->state == BATCH_HELD);
    wm_core_batch_answer (self, batch, &batch->place);
}

/* ---- effects of durable records -------------------------------------------------------------- */

void wm_core_batch_durable (wm_core_t *self, const pending_t *pending, const wm_place_t *place)
{
    batch_t *batch = wm_core_batch_find (self, &pending->key);
    if (pending->type == WM_RECORD_HELD) {
        if (batch && batch->state != BATCH_HELD)
            wm_core_batch_held (self, batch, wm_core_reason_of (self, &pending->key));
        return;
    }
    session_t *worker = wm_core_session_find (self, pending->session);
    if (worker) {
        wm_msg_t msg;
        wm_msg_init (&msg, WM_MSG_RESULT_ACK);
        msg.key = pending->key;
        wm_core_send (self, worker, &msg, NULL);
    }
    if (pending->is_record && batch && batch->state == BATCH_COMMITTING) {
        if (batch->signature)
            wm_core_arithmetic_count (self, self->arithmetic.signature[batch->signature - 1],
                                      batch->n_hit);
        wm_core_batch_return (self, batch, place);
        wm_rate_add (&self->totals.hit_rate, self->now_ms, batch->n_hit);
        if (self->config.for_clients)
            wm_core_batch_answer (self, batch, place);
        wm_core_event_check_done (self, batch->event);
    }
}

const wm_core_row_t wm_core_event_rows[] = {
    { WM_MSG_SUBMIT, BY_PRODUCER, WHILE_LIVE, WM_RAW_BYTES_MAX + WM_FRAME_OVERHEAD, on_submit },
    { WM_MSG_BATCH, BY_PRODUCER, WHILE_LIVE, WM_FRAME_BYTES_MAX, on_batch },
    { WM_MSG_FETCH, BY_PRODUCER, WHILE_LIVE, 0, on_fetch },
    { 0 },
};
