/* wm_core_batch.c - events and their batches: their states, and the queues that follow from them.

   wm_core_batch_set_state leaves the queue of the old state; the transitions below enter that of
   the new one. wm_core_private.h lists which function performs which transition.  */
#include "broker/core/wm_core_private.h"
#include "schema/base/wm_bisect.h"
#include "schema/base/wm_grow.h"
#include "schema/base/wm_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding --------------------------------------------------------------------------------- */

uint64_t wm_core_event_hash (uint32_t input, uint32_t ordinal)
{
    return wm_table_mix ((uint64_t) input << 32 | ordinal);
}

event_t *wm_core_event_find (const wm_core_t *self, uint32_t input, uint32_t ordinal)
{
    size_t at;
    return wm_table_first (&self->inputs.events, wm_core_event_hash (input, ordinal), &at);
}

batch_t *wm_core_batch_find (const wm_core_t *self, const wm_key_t *key)
{
    event_t *event = wm_core_event_find (self, key->input, key->ordinal);
    if (!event || key->batch >= event->n_batch || key->generation != event->input->generation)
        return NULL;
    return wm_core_event_batch (event, key->batch);
}

/* ---- an event and its batches ---------------------------------------------------------------- */

event_t *wm_core_event_new (wm_core_t *self, input_t *input, uint32_t ordinal, uint32_t n_batch)
{
    assert (n_batch <= WM_EVENT_BATCHES_MAX);
    if (wm_table_reserve (&self->inputs.events))
        return NULL;
    event_t *event = calloc (1, sizeof *event);
    if (!event)
        return NULL;
    event->input = input;
    event->ordinal = ordinal;
    event->n_batch = n_batch;
    event->all_next = input->all;
    input->all = event;
    wm_table_put (&self->inputs.events, wm_core_event_hash (input->id, ordinal), event);
    return event;
}

/* Where the batch of this number is, or would be.  */
static uint32_t slot_of (const event_t *event, uint32_t number)
{
    if (event->n_slot == event->n_batch)
        return number;
    return WM_BISECT (0, event->n_slot, i, event->batch[i].number < number);
}

batch_t *wm_core_event_batch (const event_t *event, uint32_t number)
{
    const uint32_t at = slot_of (event, number);
    if (at >= event->n_slot ||
        (event->n_slot < event->n_batch && event->batch[at].number != number))
        return NULL;
    return &event->batch[at];
}

batch_t *wm_core_event_add (wm_core_t *self, event_t *event, uint32_t number)
{
    const uint32_t n = event->n_slot, at = slot_of (event, number);
    assert (number < event->n_batch && n < event->n_batch);
    if (!(n & (n - 1))) { /* 0, or a power of two: the room is used up */
        const uint32_t room = n > event->n_batch / 2 ? event->n_batch : n ? 2 * n : 1;
        if (!wm_regrow (&event->batch, room, sizeof *event->batch))
            return NULL;
    }
    memmove (&event->batch[at + 1], &event->batch[at], (n - at) * sizeof *event->batch);
    event->batch[at] = (batch_t){ .event = event, .number = number };
    event->n_slot++;
    self->totals.n_by_state[BATCH_NONE]++;
    return &event->batch[at];
}

bool wm_core_event_fill (wm_core_t *self, event_t *event)
{
    if (event->n_slot == event->n_batch)
        return true;
    batch_t *all = calloc (event->n_batch, sizeof *all);
    if (!all)
        return false;
    for (uint32_t i = 0; i < event->n_batch; i++)
        all[i].event = event;
    for (uint32_t i = 0; i < event->n_slot; i++) {
        const batch_t *batch = &event->batch[i];
        assert (!batch->lease && !batch->payload);
        all[batch->number] = *batch;
        all[batch->number].raw_bytes = 0;
    }
    free (event->batch);
    event->batch = all;
    self->totals.n_by_state[BATCH_NONE] += event->n_batch - event->n_slot;
    event->n_slot = event->n_batch;
    return true;
}

void wm_core_event_forget_stray (wm_core_t *self, event_t *event)
{
    self->workers.n_stray -= event->n_stray;
    event->n_stray = 0;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Whether it stands in its producer's queue of batches to ask for.  */
static bool in_wants (const batch_t *batch)
{
    return batch->state == BATCH_QUEUED && !(batch->flags & BATCH_ASKED);
}

void wm_core_producer_update (wm_core_t *self, session_t *producer)
{
    const bool want = producer->wants.head && !producer->late;
    wm_core_budget_count_asking (self, producer);
    if (want == producer->wanting)
        return;
    producer->wanting = want;
    if (want) {
        session_t *head = self->producers.wanting;
        if (!head) {
            producer->want_prev = producer->want_next = producer;
            self->producers.wanting = producer;
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
    if (self->producers.wanting == producer)
        self->producers.wanting = producer->want_next == producer ? NULL : producer->want_next;
}

/* The queue of a batch that is ready: its flag and failed_on do not change while it is ready.  */
static wm_queue_t *ready_queue (wm_core_t *self, const batch_t *batch)
{
    return batch->flags & BATCH_ALONE ? &self->queues.alone
           : batch->failed_on         ? &self->queues.failed
                                      : &self->queues.ready;
}

/* Notes how long a batch took for the step that this change of its state ends. (One whose payload
   came leaves QUEUED for NONE first.)  */
static void note_step (wm_core_t *self, batch_t *batch, batch_state_t state)
{
    static const uint8_t step[][2] = { [WM_STEP_STAGE] = { BATCH_NONE, BATCH_READY },
                                       [WM_STEP_QUEUE] = { BATCH_READY, BATCH_RUNNING },
                                       [WM_STEP_COMPUTE] = { BATCH_RUNNING, BATCH_COMMITTING },
                                       [WM_STEP_COMMIT] = { BATCH_COMMITTING, BATCH_RETURNED } };
    const uint32_t now_ms = (uint32_t) self->now_ms;
    for (int i = 0; i < WM_STEPS && batch->since_ms; i++)
        if (batch->state == step[i][0] && state == step[i][1])
            wm_latency_add (&self->totals.tally.step[i], now_ms - batch->since_ms);
    if (state != BATCH_NONE)
        batch->since_ms = state == BATCH_QUEUED ? 0 : now_ms; /* QUEUED: until it is asked for */
}

/* Leaves the queue of the old state, if that has one; the caller enters that of the new one.
   (I3)  */
void wm_core_batch_set_state (wm_core_t *self, batch_t *batch, batch_state_t state)
{
    note_step (self, batch, state);
    session_t *claim = batch->event->input->claim;
    if (in_wants (batch)) {
        wm_queue_remove (&claim->wants, &batch->link);
        wm_core_producer_update (self, claim);
    } else if (batch->state == BATCH_READY) {
        wm_queue_remove (ready_queue (self, batch), &batch->link);
        if (self->config.for_clients && claim) /* none: its client has gone */
            claim->n_ready--;
    } else if (batch->state == BATCH_RUNNING)
        wm_queue_remove (batch->payload ? &self->queues.running : &self->queues.bare, &batch->link);
    self->totals.n_by_state[batch->state]--;
    self->totals.n_by_state[state]++;
    batch->state = (uint8_t) state;
    if (state == BATCH_RUNNING)
        wm_queue_push (batch->payload ? &self->queues.running : &self->queues.bare, &batch->link);
}

void wm_core_batch_drop_payload (wm_core_t *self, batch_t *batch)
{
    if (!batch->payload)
        return;
    assert (batch->state != BATCH_READY);
    if (batch->state == BATCH_RUNNING) {
        wm_queue_remove (&self->queues.running, &batch->link);
        wm_queue_push (&self->queues.bare, &batch->link);
    }
    wm_core_payload_drop (self, batch->payload);
    batch->payload = NULL;
}

#define TURN_HITS 64u /* a batch takes a turn for so many hits, and one for its messages */

/* Puts a client's batch into the ready queue where its turn is. Turns count the hits that a client
   has had sent, so that one with little to do goes before one with much, and none starves: a
   client's next turn is behind its last one, but never before the turn that is served now.  */
static void queue_by_turn (wm_core_t *self, wm_queue_t *queue, batch_t *batch)
{
    session_t *client = batch->event->input->claim;
    batch->turn = wm_core_turn_behind (client->turn, self->producers.turn) ? client->turn
                                                                           : self->producers.turn;
    client->turn = batch->turn + 1 + batch->n_hit / TURN_HITS;
    wm_queue_item_t *before = queue->tail;
    while (before && wm_core_turn_behind (batch_of (before)->turn, batch->turn))
        before = before->prev;
    wm_queue_insert (queue, before, &batch->link);
}

static void batch_ready (wm_core_t *self, batch_t *batch, bool front)
{
    wm_queue_t *queue = ready_queue (self, batch);
    wm_core_batch_set_state (self, batch, BATCH_READY);
    if (self->config.for_clients)
        batch->event->input->claim->n_ready++;
    if (self->config.for_clients && !front) {
        queue_by_turn (self, queue, batch);
        return;
    }
    if (front)
        wm_queue_push_front (queue, &batch->link);
    else
        wm_queue_push (queue, &batch->link);
}

void wm_core_batch_take_payload (wm_core_t *self, batch_t *batch, payload_t *payload)
{
    batch->payload = payload;
    if (batch->state != BATCH_RUNNING) {
        batch_ready (self, batch, false);
        return;
    }
    wm_queue_remove (&self->queues.bare, &batch->link);
    wm_queue_push (&self->queues.running, &batch->link);
}

/* Back to where it can be sent again: ready with a payload, else to be asked for, else none.  */
static void requeue (wm_core_t *self, batch_t *batch)
{
    event_t *event = batch->event;
    session_t *claim = event->input->claim;
    if (batch->payload) {
        batch_ready (self, batch, true);
        return;
    }
    if (!(event->flags & EVENT_ANNOUNCED) || !claim) {
        wm_core_batch_set_state (self, batch, BATCH_NONE);
        return;
    }
    wm_core_batch_set_state (self, batch, BATCH_QUEUED);
    if (batch->flags & BATCH_ASKED)
        return;
    wm_queue_push_front (&claim->wants, &batch->link);
    wm_core_producer_update (self, claim);
}

void wm_core_batch_back (wm_core_t *self, batch_t *batch)
{
    if (batch->state != BATCH_RUNNING)
        return;
    for (const lease_t *lease = batch->lease; lease; lease = lease->other)
        if (!lease->expired)
            return;
    requeue (self, batch);
}

/* ---- events ---------------------------------------------------------------------------------- */

void wm_core_event_open (event_t *event)
{
    input_t *input = event->input;
    event->open_next = input->open;
    if (input->open)
        input->open->open_prev = event;
    input->open = event;
    input->claim->n_open++;
}

static void open_remove (event_t *event)
{
    *(event->open_prev ? &event->open_prev->open_next : &event->input->open) = event->open_next;
    if (event->open_next)
        event->open_next->open_prev = event->open_prev;
    event->open_prev = event->open_next = NULL;
    event->input->claim->n_open--;
}

void wm_core_event_unannounce (wm_core_t *self, event_t *event)
{
    for (uint32_t i = 0; i < event->n_slot; i++) {
        batch_t *batch = &event->batch[i];
        if (batch->state == BATCH_QUEUED)
            wm_core_batch_set_state (self, batch, BATCH_NONE);
        wm_core_budget_forget_need (self, batch);
    }
    open_remove (event);
    event->flags &= ~(uint32_t) EVENT_ANNOUNCED;
}

void wm_core_event_send_done (wm_core_t *self, const event_t *event)
{
    session_t *claim = event->input->claim;
    if (!(event->flags & EVENT_ANNOUNCED) || !claim)
        return;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_EVENT_DONE);
    msg.key = (wm_key_t){ event->input->id, event->ordinal, 0, event->input->generation };
    msg.n_held = event->n_held;
    wm_core_send (self, claim, &msg, NULL);
}

/* Frees an event that is not open; leases are revoked.  */
static void event_free (wm_core_t *self, event_t *event)
{
    event_t **at = &event->input->all;
    while (*at != event)
        at = &(*at)->all_next;
    *at = event->all_next;
    for (uint32_t i = 0; i < event->n_slot; i++) {
        batch_t *batch = &event->batch[i];
        if (batch->state == BATCH_HELD)
            free (batch->held);
        wm_core_lease_revoke_all (self, batch);
        wm_core_batch_set_state (self, batch, BATCH_NONE);
        wm_core_budget_forget_need (self, batch);
        wm_core_batch_drop_payload (self, batch);
    }
    wm_core_event_forget_stray (self, event);
    self->totals.n_by_state[BATCH_NONE] -= event->n_slot;
    wm_table_remove (&self->inputs.events, wm_core_event_hash (event->input->id, event->ordinal),
                     event);
    free (event->batch);
    free (event);
}

void wm_core_batch_answer (wm_core_t *self, const batch_t *batch, const wm_place_t *place)
{
    session_t *claim = batch->event->input->claim;
    wm_msg_t answer;
    if (!claim)
        return;
    wm_msg_init (&answer, WM_MSG_RESULTS);
    answer.key = wm_core_batch_key (batch);
    memcpy (answer.digest, batch->digest, 16);
    answer.n_hit = batch->n_hit;
    if (batch->state == BATCH_RETURNED) {
        claim->sent_ms = self->now_ms;
        self->sink.fetch (self->sink.context, claim->id, &answer, place);
        return;
    }
    answer.code = WM_HIT_HELD;
    snprintf (answer.text, sizeof answer.text, "%s", batch->held ? batch->held : "held");
    wm_core_send (self, claim, &answer, &(wm_payload_t){ NULL, "", 0 });
}

/* I10: the one place that finds an event done.  */
void wm_core_event_check_done (wm_core_t *self, event_t *event)
{
    if (!(event->flags & EVENT_KNOWN) || event->flags & EVENT_DONE ||
        event->n_returned + event->n_held < event->n_batch)
        return;
    event->flags |= EVENT_DONE;
    event->input->n_done++;
    self->totals.events_done++;
    self->totals.tally.count[WM_COUNT_EVENTS]++;
    wm_rate_add (&self->totals.event_rate, self->now_ms, 1);
    if (event->flags & EVENT_ANNOUNCED)
        open_remove (event);
    if (self->config.for_clients)
        event_free (self, event);
    else
        wm_core_event_send_done (self, event);
}

void wm_core_events_free (wm_core_t *self, input_t *input)
{
    while (input->open)
        wm_core_event_unannounce (self, input->open);
    while (input->all)
        event_free (self, input->all);
}

/* ---- failures -------------------------------------------------------------------------------- */

void wm_core_batch_hold (wm_core_t *self, batch_t *batch, const char *text)
{
    if (!wm_core_has_room (self))
        return; /* it stays in the queue and is held at its next failure */
    wm_key_t key = wm_core_batch_key (batch);
    wm_core_note_reason (self, key, text);
    wm_core_warn (self, "batch %u.%u.%u of %s is held: %s", key.input, key.ordinal, key.batch,
                  batch->event->input->path, wm_path_behind (text, batch->event->input->path));
    if (batch->state != BATCH_RETURNED && batch->state != BATCH_COMMITTING) {
        wm_core_lease_revoke_all (self, batch);
        wm_core_batch_set_state (self, batch, BATCH_HOLDING);
        wm_core_batch_drop_payload (self, batch);
    }
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_HELD);
    record.key = key;
    record.code = WM_HIT_HELD;
    record.n_batch = batch->event->n_batch;
    record.n_hit = batch->n_hit;
    memcpy (record.digest, batch->digest, 16);
    wm_record_text (&record, text);
    wm_core_append (self, &record, NULL, NULL, 0);
}

/* I9: n_fail and n_lost grow here alone.  */
void wm_core_batch_blame (wm_core_t *self, batch_t *batch, const session_t *worker, bool lost,
                          const char *why)
{
    if (batch->state != BATCH_RUNNING)
        return;
    uint8_t *count = lost ? &batch->n_lost : &batch->n_fail;
    ++*count;
    ++*(lost ? &self->totals.n_lost : &self->totals.n_fail);
    batch->flags &= (uint8_t) ~(BATCH_VANISHED | BATCH_SECOND);
    if (batch->failed_on && batch->failed_on != worker->tag && !(batch->flags & BATCH_WORKERS))
        batch->flags |= BATCH_WORKERS | BATCH_SECOND;
    batch->failed_on = worker->tag;
    unsigned failures = batch->n_fail + batch->n_lost;
    if (failures >= WM_ATTEMPTS_MAX ||
        (failures >= WM_FAILURES_MAX && batch->flags & BATCH_WORKERS)) {
        char text[200];
        snprintf (text, sizeof text, "%u failures (%u of them lost workers), the last on %s: %.80s",
                  failures, batch->n_lost, worker->label, why);
        wm_core_batch_hold (self, batch, text);
    }
}

void wm_core_batch_absolve (batch_t *batch, const session_t *worker)
{
    if (!(batch->flags & BATCH_VANISHED) || batch->failed_on != worker->tag)
        return;
    if (batch->flags & BATCH_SECOND)
        batch->flags &= (uint8_t) ~BATCH_WORKERS;
    /* BATCH_ALONE stays: it may be in that queue.  */
    batch->flags &= (uint8_t) ~(BATCH_VANISHED | BATCH_SECOND);
    batch->failed_on = 0;
    batch->n_lost--;
}

/* ---- results --------------------------------------------------------------------------------- */

void wm_core_batch_return (wm_core_t *self, batch_t *batch, const wm_place_t *place)
{
    input_t *input = batch->event->input;
    wm_core_batch_set_state (self, batch, BATCH_RETURNED);
    batch->place = *place;
    batch->event->n_returned++;
    input->n_hit_done += batch->n_hit - batch->n_held;
    input->n_hit_held += batch->n_held;
    input->n_batch_held += batch->n_held != 0; /* in part */
    self->totals.hits_done += batch->n_hit - batch->n_held;
    self->totals.hits_held += batch->n_held;
    self->totals.tally.count[WM_COUNT_HITS] += batch->n_hit;
    self->totals.tally.count[WM_COUNT_BATCHES]++;
}

/* The result counts no longer.  */
static void take_back (wm_core_t *self, batch_t *batch)
{
    input_t *input = batch->event->input;
    batch->event->n_returned--;
    input->n_hit_done -= batch->n_hit - batch->n_held;
    input->n_hit_held -= batch->n_held;
    input->n_batch_held -= batch->n_held != 0;
    self->totals.hits_done -= batch->n_hit - batch->n_held;
    self->totals.hits_held -= batch->n_held;
}

void wm_core_batch_lose_result (wm_core_t *self, batch_t *batch)
{
    event_t *event = batch->event;
    take_back (self, batch);
    if (event->flags & EVENT_DONE) {
        event->flags &= ~(uint32_t) (EVENT_DONE | EVENT_ANNOUNCED);
        event->input->n_done--;
        self->totals.events_done--;
    }
    batch->result_hash = 0;
    batch->link = (wm_queue_item_t){ NULL, NULL };
    wm_core_batch_set_state (self, batch, BATCH_NONE);
}

void wm_core_batch_held (wm_core_t *self, batch_t *batch, const char *text)
{
    event_t *event = batch->event;
    if (batch->state == BATCH_RETURNED) /* an alarm */
        take_back (self, batch);
    wm_core_batch_set_state (self, batch, BATCH_HELD);
    batch->held = strdup (text);
    event->n_held++;
    event->input->n_batch_held++;
    event->input->n_hit_held += batch->n_hit;
    wm_core_input_note_held (event->input, WM_HIT_HELD);
    self->totals.hits_held += batch->n_hit;
    self->totals.tally.count[WM_COUNT_HELD]++;
    if (self->config.for_clients)
        wm_core_batch_answer (self, batch, NULL);
    wm_core_event_check_done (self, event);
}
