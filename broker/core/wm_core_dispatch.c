/* wm_core_dispatch.c - decides what goes out: TASKs to workers, NEEDs to producers.

   Eligible workers form a ring and are served round robin. A batch that failed is tried again by a
   worker whose last answer was a result, else when there is nothing else to do: so a bad machine
   fails on many batches once, and is dismissed before any batch is held. A batch that is blamed for
   a lost worker is sent to a worker that has nothing else.

   At a tick with nothing ready an eligible worker of known speed is sent a copy of a batch that it
   will finish sooner than the worker that has it: the first RESULT is committed, the other worker
   gets REVOKE, and its late result is acknowledged and dropped. So a slow or stopped worker delays
   the end of a campaign by one batch, not by a lease. How soon a worker finishes: its hits in hand
   times its measured time per hit. A worker that should have answered long ago is expected to take
   as long again as it has been silent.

   Batches of clients go out in the order of turns (wm_core_batch.c), which they take by hits: a
   request of one patch goes before the rest of a request of a million.

   Wanted payloads are asked for in the producer's own order, from producers round robin, so that
   they encode in parallel. Each producer has an equal share of the number and the bytes that are
   asked for. One that sends no BATCH for need_ms while it is asked is late: its NEEDs are taken
   back, and it leaves the round. It is sent one NEED each need_ms, later more rarely, where there
   is room; its next BATCH puts it into the round again. What it owes stays in the budget
   (wm_core_budget.c) until it comes; after silence_ms its session ends if others need the room.  */
#include "broker/core/wm_core_check_private.h"

#include <string.h>

static bool is_held_back (const wm_core_t *self)
{
    return self->paused || self->draining || self->disk_full;
}

/* Whether this worker may have this batch: not a second time, and not where the batch failed if
   another worker can take it.  */
static bool suits (const wm_core_t *self, const session_t *worker, const batch_t *batch)
{
    return !wm_core_lease_of (batch, worker) &&
           (batch->failed_on != worker->tag || self->workers.window == worker->window);
}

/* ---- TASK ------------------------------------------------------------------------------------ */

/* false without memory.  */
static bool task_send (wm_core_t *self, session_t *worker, batch_t *batch)
{
    if (!wm_core_lease_reserve (self))
        return false;
    lease_t *oldest = batch->lease; /* at most two hold it: a third revokes the oldest */
    if (oldest && oldest->other) {
        while (oldest->other)
            oldest = oldest->other;
        wm_core_lease_revoke (self, oldest);
    }
    batch->attempt++;
    work_t task = { .key = wm_core_batch_key (batch),
                    .n_batch = batch->event->n_batch,
                    .n_hit = batch->n_hit,
                    .attempt = batch->attempt,
                    .payload = batch->payload };
    memcpy (task.digest, batch->digest, 16);
    wm_core_task_send (self, worker, &task);
    worker->alone = (batch->flags & BATCH_ALONE) != 0;
    if (self->config.for_clients && wm_core_turn_behind (batch->turn, self->producers.turn))
        self->producers.turn = batch->turn;
    wm_core_batch_set_state (self, batch, BATCH_RUNNING);
    wm_core_lease_new (self, batch, worker);
    batch->lease->number = worker->sent;
    return true;
}

/* The worker with the fewest leases, among the one kept free and the first few of the ring; NULL:
   none suits.  */
static session_t *least_busy (const wm_core_t *self, const batch_t *batch)
{
    session_t *kept = self->workers.alone_for, *at = self->workers.eligible;
    session_t *worker = kept && kept->eligible && suits (self, kept, batch) ? kept : NULL;
    int skipped = 0;
    do {
        if (suits (self, at, batch) && (!worker || at->n_lease < worker->n_lease))
            worker = at;
        at = at->eligible_next;
    } while (at != self->workers.eligible && ++skipped < SKIP_BATCHES);
    return worker;
}

/* Keeps this worker (NULL: none) free for a batch that is to be sent alone.  */
static void keep_free (wm_core_t *self, session_t *worker)
{
    session_t *before = self->workers.alone_for;
    self->workers.alone_for = worker;
    if (before && before != worker)
        wm_core_worker_update (self, before);
    if (worker)
        wm_core_worker_update (self, worker);
}

/* Sends the batch that waits to be sent alone to a worker without leases; where all have some, one
   worker gets nothing more until it has none.  */
static void dispatch_alone (wm_core_t *self)
{
    if (!self->queues.alone.head && self->workers.alone_for)
        keep_free (self, NULL); /* the batch is no longer ready */
    while (self->queues.alone.head && self->workers.eligible) {
        batch_t *batch = batch_of (self->queues.alone.head);
        session_t *kept = self->workers.alone_for, *worker = least_busy (self, batch);
        if (worker && !worker->n_lease) {
            keep_free (self, NULL);
            if (!task_send (self, worker, batch))
                return;
        } else if (kept && kept->n_lease && !kept->stalled && !kept->draining)
            return; /* it is finishing what it has */
        else {
            keep_free (self, worker);
            return;
        }
    }
}

/* Whether its last answer was a result.  */
static bool did_well (const session_t *worker)
{
    return worker->n_batch_done && !(worker->outcomes & 1);
}

/* The first in the ring that may have this batch; NULL: none.  */
static session_t *next_for (const wm_core_t *self, const batch_t *batch, bool well_only)
{
    session_t *worker = self->workers.eligible;
    do {
        if (suits (self, worker, batch) && (!well_only || did_well (worker)))
            return worker;
        worker = worker->eligible_next;
    } while (worker != self->workers.eligible);
    return NULL;
}

/* Sends batches of this queue to eligible workers, round robin.  */
static void dispatch_queue (wm_core_t *self, wm_queue_t *queue, bool well_only)
{
    batch_t *batch = batch_of (queue->head), *next;
    for (int skipped = 0; batch && self->workers.eligible && skipped < SKIP_BATCHES; batch = next) {
        next = batch_of (batch->link.next);
        session_t *worker = next_for (self, batch, well_only);
        if (!worker) {
            skipped++;
            continue;
        }
        self->workers.eligible = worker->eligible_next;
        if (!task_send (self, worker, batch))
            return;
        next = batch_of (queue->head);
        skipped = 0;
    }
}

/* I14: of clients, the batch whose turn comes first; I15.  */
void wm_core_dispatch_tasks (wm_core_t *self)
{
    if (is_held_back (self))
        return;
    if (self->checks.first)
        wm_core_check_dispatch (self); /* few: a share of the batches */
    dispatch_alone (self);
    dispatch_queue (self, &self->queues.failed, true);
    dispatch_queue (self, &self->queues.ready, false);
    if (!self->queues.ready.head && !self->budget.n_asked)
        dispatch_queue (self, &self->queues.failed, false);
}

/* ---- NEED ------------------------------------------------------------------------------------ */

/* Makes room in the budget by dropping payloads of running batches, the longest running first, that
   are no longer in flight and can be asked for again; then by giving up checks that wait, where
   that is enough. Returns whether there is room.  */
static bool budget_make_room (wm_core_t *self, uint64_t bytes)
{
    for (int skipped = 0; skipped < SKIP_BATCHES && self->queues.running.head &&
                          !wm_core_budget_room (self, bytes);) {
        batch_t *batch = batch_of (self->queues.running.head);
        if (batch->event->flags & EVENT_ANNOUNCED && batch->payload->refs == 1)
            wm_core_batch_drop_payload (self, batch);
        else { /* the next call tries others first */
            wm_queue_remove (&self->queues.running, &batch->link);
            wm_queue_push (&self->queues.running, &batch->link);
            skipped++;
        }
    }
    if (self->checks.first && !wm_core_budget_room (self, bytes) &&
        wm_core_budget_room (self, bytes - wm_core_check_lent (self)))
        while (!wm_core_budget_room (self, bytes) && wm_core_check_drop (self, true))
            ;
    return wm_core_budget_room (self, bytes);
}

static void need_send (wm_core_t *self, const batch_t *batch, session_t *producer)
{
    wm_msg_t msg;
    producer->n_owed++;
    self->budget.asked_total += wm_core_budget_need_bytes (batch);
    wm_msg_init (&msg, WM_MSG_NEED);
    msg.key = wm_core_batch_key (batch);
    memcpy (msg.digest, batch->digest, 16);
    wm_core_send (self, producer, &msg, NULL);
}

static void need (wm_core_t *self, batch_t *batch, session_t *producer)
{
    wm_core_budget_reserve_need (self, batch);
    need_send (self, batch, producer);
}

/* Whether one more NEED is within this producer's share. All together as much again as the workers
   have or could have, so that none waits for a producer; two where there is no worker yet. NEEDs of
   others do not count, so that no worker waits for one which was asked while it was alone. One
   NEED is always within the share of bytes. Of clients only their own payloads that are here count,
   so that one with little to do does not wait until those of another are sent.  */
static bool is_in_share (const wm_core_t *self, const session_t *producer)
{
    const uint64_t n = self->producers.n_asking, most = self->workers.window + 2;
    const uint64_t here =
        self->config.for_clients ? 0 : self->queues.ready.count + self->queues.alone.count;
    const uint64_t room = most > here ? most - here : 0;
    const uint64_t bytes = wm_core_budget_need_bytes (batch_of (producer->wants.head));
    return (uint64_t) producer->n_asked + producer->n_ready < (room + n - 1) / n &&
           (!producer->n_asked || producer->asked_bytes + bytes <= self->config.budget_bytes / n);
}

/* The next of the round that may be asked; NULL: none.  */
static session_t *next_to_ask (const wm_core_t *self)
{
    session_t *producer = self->producers.wanting;
    while (producer && !is_in_share (self, producer)) {
        producer = producer->want_next;
        if (producer == self->producers.wanting)
            return NULL;
    }
    return producer;
}

/* I15: as far as there is room (I5).  */
void wm_core_dispatch_needs (wm_core_t *self)
{
    self->budget.is_short = false;
    if (is_held_back (self))
        return;
    for (session_t *producer; (producer = next_to_ask (self));) {
        batch_t *batch = batch_of (producer->wants.head);
        if (!budget_make_room (self, wm_core_budget_need_bytes (batch))) {
            self->budget.is_short = true;
            return;
        }
        wm_queue_remove (&producer->wants, &batch->link);
        self->producers.wanting = producer->want_next;
        need (self, batch, producer);
        wm_core_producer_update (self, producer);
    }
}

/* Asks for a running batch's payload once more, if there is room and a claim to ask.  */
static void need_again (wm_core_t *self, batch_t *batch)
{
    session_t *claim = batch->event->input->claim;
    if (claim && !claim->late && batch->event->flags & EVENT_ANNOUNCED &&
        wm_core_budget_room (self, wm_core_budget_need_bytes (batch)))
        need (self, batch, claim);
}

/* Its batches wait to be asked for again, in the order they had: the lists of inputs and
   events begin with the newest.  */
static void needs_take_back (wm_core_t *self, session_t *producer)
{
    for (input_t *input = producer->claims; input && producer->n_asked; input = input->claim_next)
        for (event_t *event = input->all; event && producer->n_asked; event = event->all_next)
            for (uint32_t i = event->n_slot; i-- > 0;) {
                batch_t *batch = &event->batch[i];
                if (!(batch->flags & BATCH_ASKED))
                    continue;
                wm_core_budget_forget_need (self, batch);
                if (batch->state == BATCH_QUEUED)
                    wm_queue_push_front (&producer->wants, &batch->link);
            }
    assert (!producer->n_asked);
}

/* Since when it has sent nothing of what it owes.  */
static int64_t late_since (const session_t *producer)
{
    return producer->late || producer->answered_ms > producer->late_ms ? producer->answered_ms
                                                                       : producer->late_ms;
}

/* A producer that late bytes leave no room for: the next to be asked, or a late one whose NEED does
   not fit.  */
static const session_t *without_room (const wm_core_t *self)
{
    if (self->budget.is_short)
        return next_to_ask (self);
    for (const session_t *it = is_held_back (self) ? NULL : self->sessions.first; it; it = it->next)
        if (it->role == WM_ROLE_PRODUCER && it->late && it->wants.head &&
            !wm_core_budget_room (self, wm_core_budget_need_bytes (batch_of (it->wants.head))))
            return it;
    return NULL;
}

/* Whether its late bytes leave too little room to others, and it is late longest.  */
static bool is_late_too_long (const wm_core_t *self, const session_t *producer)
{
    if (!producer->n_late || self->now_ms - late_since (producer) <= self->config.times.silence_ms)
        return false;
    const session_t *next = without_room (self);
    if (!next)
        return false;
    const uint64_t need = wm_core_budget_need_bytes (batch_of (next->wants.head));
    const uint64_t half = self->config.budget_bytes / 2;
    if (self->budget.late_bytes + (need > half ? need : half) <= self->config.budget_bytes)
        return false;
    for (const session_t *other = self->sessions.first; other; other = other->next)
        if (other->role == WM_ROLE_PRODUCER && other->n_late &&
            late_since (other) < late_since (producer))
            return false;
    return true;
}

bool wm_core_needs_tick (wm_core_t *self, session_t *producer)
{
    const int64_t need_ms = self->config.times.need_ms;
    if (producer->n_asked && self->now_ms - producer->answered_ms > need_ms) {
        wm_core_log (self,
                     "producer %s has not sent the %u batches that it was asked for %lld ms ago: "
                     "others are asked first",
                     producer->label, producer->n_asked,
                     (long long) (self->now_ms - producer->answered_ms));
        producer->late = true;
        producer->probed_ms = self->now_ms;
        needs_take_back (self, producer);
        wm_core_producer_update (self, producer);
    }
    if (producer->late && producer->wants.head && !is_held_back (self) &&
        self->now_ms - producer->probed_ms > need_ms &&
        self->now_ms - producer->probed_ms > (producer->probed_ms - producer->answered_ms) / 4) {
        batch_t *batch = batch_of (producer->wants.head);
        producer->probed_ms = self->now_ms;
        if (wm_core_budget_room (self, wm_core_budget_need_bytes (batch))) {
            wm_core_budget_add_late (self, producer, batch);
            need_send (self, batch, producer);
        }
    }
    return is_late_too_long (self, producer);
}

/* ---- copies at the tail ---------------------------------------------------------------------- */

static double hits_ms (const wm_core_t *self, const session_t *worker, double hits)
{
    return wm_speed_ms (worker->speed.hits > 0 ? &worker->speed : &self->workers.speed, hits);
}

/* When the answer to this lease can be expected, from now.  */
static double lease_left_ms (const wm_core_t *self, const lease_t *lease)
{
    const session_t *worker = lease->worker;
    const lease_t *head = worker->lease_head; /* what it executes */
    int64_t since_ms = head->sent_ms > worker->result_ms ? head->sent_ms : worker->result_ms;
    double spent = (double) (self->now_ms - since_ms);
    double left = hits_ms (self, worker, (double) lease->hits_lent - (double) worker->hits_back);
    const bool is_late = spent > 2 * hits_ms (self, worker, head->batch->n_hit);
    return is_late && left < 2 * spent ? spent : left - spent;
}

/* Whether this worker would finish a copy clearly sooner than the worker that has the batch.  */
static bool copy_helps (const wm_core_t *self, const session_t *worker, const batch_t *batch)
{
    if (batch->lease->other || batch->flags & BATCH_ASKED || !suits (self, worker, batch) ||
        (batch->flags & BATCH_ALONE && worker->n_lease))
        return false;
    double hits = (double) (worker->hits_lent - worker->hits_back) + batch->n_hit;
    double margin_ms = (double) self->config.times.heartbeat_ms / 8;
    return lease_left_ms (self, batch->lease) > hits_ms (self, worker, hits) + margin_ms;
}

/* The batch sent longest ago, of the first few, whose copy helps.  */
static batch_t *copy_of (const wm_core_t *self, const wm_queue_t *queue, const session_t *worker)
{
    batch_t *batch = batch_of (queue->head);
    for (int skipped = 0; batch && skipped < SKIP_BATCHES;
         skipped++, batch = batch_of (batch->link.next))
        if (copy_helps (self, worker, batch))
            return batch;
    return NULL;
}

/* Sends one copy to each worker that may have one, round after round while any was sent. (I15)  */
void wm_core_dispatch_copies (wm_core_t *self)
{
    if (is_held_back (self) || self->queues.ready.head)
        return;
    for (bool sent = true; sent && self->workers.eligible;) {
        sent = false;
        session_t *worker = self->workers.eligible, *last = worker->eligible_prev, *next;
        for (bool more = true; more; worker = next) {
            next = worker->eligible_next;
            more = worker != last;
            if (worker->speed.hits <= 0)
                continue; /* its speed is not known yet */
            batch_t *batch = copy_of (self, &self->queues.running, worker);
            if (batch && task_send (self, worker, batch)) {
                self->totals.n_copy++;
                sent = true;
            } else if (!batch && (batch = copy_of (self, &self->queues.bare, worker)))
                need_again (self, batch);
        }
    }
}
