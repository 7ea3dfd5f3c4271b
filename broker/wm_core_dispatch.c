/* wm_core_dispatch.c - who gets what: ready batches, those that failed or are sent alone, copies at
   the tail.

   Workers with credit stand in a ring and are served in turn. A batch that failed is tried again by a
   worker that has just scored something, else when there is nothing else to do: so bad machines fail
   on many batches once, and are sent away before any is held. A batch that is blamed for a lost
   worker is sent to one that has nothing else. At a tick with nothing ready a worker with credit and a
   known speed is sent a copy of a batch that it will finish sooner than who has it: the first
   RESULT is committed, the other worker gets REVOKE, and what it still answers is acknowledged and
   dropped. So a slow or stopped worker holds the end of a campaign back by one batch, not by a lease.

   How soon a worker finishes: its hits in hand at its measured time a hit. One that should have
   answered long ago is expected to take as long again as it is silent.  */
#include "broker/wm_core_private.h"

#include <string.h>

static int is_held_back (const wm_core_t *self)
{
    return self->paused || self->draining || self->disk_full;
}

/* Whether this worker should have this batch: not twice, and not where it failed if there is
   another that works.  */
static int suits (const wm_core_t *self, const session_t *worker, const batch_t *batch)
{
    return !lease_of (batch, worker) &&
           (batch->failed_on != worker->tag || self->window == worker->window);
}

static int task_send (wm_core_t *self, session_t *worker, batch_t *batch)
{
    if (lease_reserve (self))
        return -1;
    lease_t *oldest = batch->lease; /* at most two hold it: a third revokes the oldest */
    if (oldest && oldest->other) {
        while (oldest->other)
            oldest = oldest->other;
        worker_send_key (self, oldest->worker, WM_MSG_REVOKE, batch_key (batch));
        lease_end (self, oldest);
    }
    batch->attempt++;
    if (worker->sent == worker->seen)
        worker->seen_ms = self->now_ms;
    worker->sent++;
    worker->alone = (batch->flags & BATCH_ALONE) != 0;
    batch_set_state (self, batch, BATCH_RUNNING);
    lease_new (self, batch, worker);
    payload_t *payload = batch->payload;
    payload->refs++;
    worker->way[worker->sent % WM_CREDIT_MAX] = payload;
    batch->lease->number = worker->sent;
    self->task_out += payload->bytes;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_TASK);
    msg.key = batch_key (batch);
    memcpy (msg.digest, batch->digest, 16);
    msg.n_batch = batch->event->n_batch;
    msg.n_hit = batch->n_hit;
    msg.attempt = batch->attempt;
    core_send (self, worker, &msg, &(wm_payload_t){ payload->handle, NULL, payload->bytes });
    return 0;
}

/* Of the one kept for it and the first few the one with the least to finish; NULL: none suits.  */
static session_t *least_busy (const wm_core_t *self, const batch_t *batch)
{
    session_t *kept = self->alone_for, *at = self->hungry;
    session_t *worker = kept && kept->hungry && suits (self, kept, batch) ? kept : NULL;
    int looked = 0;
    do {
        if (suits (self, at, batch) && (!worker || at->n_lease < worker->n_lease))
            worker = at;
        at = at->hungry_next;
    } while (at != self->hungry && ++looked < LOOK_BATCHES);
    return worker;
}

/* Keeps this worker (NULL: none any more) free for a batch that is to be sent alone.  */
static void keep_free (wm_core_t *self, session_t *worker)
{
    session_t *before = self->alone_for;
    self->alone_for = worker;
    if (before && before != worker)
        worker_update (self, before);
    if (worker)
        worker_update (self, worker);
}

/* The batch that waits to be sent alone goes to a worker that has nothing; where all have something
   one gets nothing until it is empty.  */
static void dispatch_alone (wm_core_t *self)
{
    if (!self->alone.head && self->alone_for)
        keep_free (self, NULL); /* what it was kept free for went another way */
    while (self->alone.head && self->hungry) {
        batch_t *batch = self->alone.head;
        session_t *kept = self->alone_for, *worker = least_busy (self, batch);
        if (worker && !worker->n_lease) {
            keep_free (self, NULL);
            if (task_send (self, worker, batch))
                return;
        } else if (kept && kept->n_lease && !kept->stalled && !kept->draining)
            return; /* it is finishing what it has */
        else {
            keep_free (self, worker);
            return;
        }
    }
}

/* ---- the tail ----------------------------------------------------------------------------------
 */
static double hits_ms (const wm_core_t *self, const session_t *worker, double hits)
{
    const speed_t *speed = worker->speed.hits > 0 ? &worker->speed : &self->speed;
    return hits * speed->ms / speed->hits;
}

/* When the answer to this lease can be expected, from now.  */
static double lease_left_ms (const wm_core_t *self, const lease_t *lease)
{
    const session_t *worker = lease->worker;
    const lease_t *head = worker->lease_head; /* what it executes */
    int64_t since_ms = head->sent_ms > worker->result_ms ? head->sent_ms : worker->result_ms;
    double spent = (double) (self->now_ms - since_ms);
    double left = hits_ms (self, worker, (double) lease->hits_lent - (double) worker->hits_back);
    int is_late = spent > 2 * hits_ms (self, worker, head->batch->n_hit);
    return is_late && left < 2 * spent ? spent : left - spent;
}

/* Whether a copy there would be done clearly sooner than who has the batch.  */
static int copy_helps (const wm_core_t *self, const session_t *worker, const batch_t *batch)
{
    if (batch->lease->other || batch->flags & BATCH_ASKED || !suits (self, worker, batch) ||
        (batch->flags & BATCH_ALONE && worker->n_lease))
        return 0;
    double hits = (double) (worker->hits_lent - worker->hits_back) + batch->n_hit;
    double margin_ms = (double) self->config.times.heartbeat_ms / 8;
    return lease_left_ms (self, batch->lease) > hits_ms (self, worker, hits) + margin_ms;
}

/* The batch sent longest ago, of the first few, whose copy helps.  */
static batch_t *copy_of (const wm_core_t *self, const queue_t *queue, const session_t *worker)
{
    batch_t *batch = queue->head;
    for (int looked = 0; batch && looked < LOOK_BATCHES; looked++, batch = batch->next)
        if (copy_helps (self, worker, batch))
            return batch;
    return NULL;
}

/* One copy to each worker that may have one, and again while there was any.  */
void worker_dispatch_tail (wm_core_t *self)
{
    if (is_held_back (self) || self->ready.head)
        return;
    for (int sent = 1; sent && self->hungry;) {
        sent = 0;
        session_t *worker = self->hungry, *last = worker->hungry_prev, *next;
        for (int more = 1; more; worker = next) {
            next = worker->hungry_next;
            more = worker != last;
            if (worker->speed.hits <= 0)
                continue; /* it has proven nothing yet */
            batch_t *batch = copy_of (self, &self->running, worker);
            if (batch && task_send (self, worker, batch) == 0) {
                self->n_copy++;
                sent = 1;
            } else if (!batch && (batch = copy_of (self, &self->bare, worker)))
                batch_ask_again (self, batch);
        }
    }
}

/* ---- all of it ---------------------------------------------------------------------------------
 */
/* Whether it scored what it answered last.  */
static int did_well (const session_t *worker)
{
    return worker->n_batch_done && !(worker->outcomes & 1);
}

/* The first in the ring that should have this batch; NULL: none.  */
static session_t *next_for (const wm_core_t *self, const batch_t *batch, int well_only)
{
    session_t *worker = self->hungry;
    do {
        if (suits (self, worker, batch) && (!well_only || did_well (worker)))
            return worker;
        worker = worker->hungry_next;
    } while (worker != self->hungry);
    return NULL;
}

/* Batches of this queue to workers with credit, in turn.  */
static void dispatch_queue (wm_core_t *self, queue_t *queue, int well_only)
{
    batch_t *batch = queue->head, *next;
    for (int looked = 0; batch && self->hungry && looked < LOOK_BATCHES; batch = next) {
        next = batch->next;
        session_t *worker = next_for (self, batch, well_only);
        if (!worker) {
            looked++;
            continue;
        }
        self->hungry = worker->hungry_next; /* the next one's turn */
        if (task_send (self, worker, batch))
            return;
        next = queue->head;
        looked = 0;
    }
}

void worker_dispatch (wm_core_t *self)
{
    if (is_held_back (self))
        return;
    dispatch_alone (self);
    dispatch_queue (self, &self->failed, 1);
    dispatch_queue (self, &self->ready, 0);
    if (!self->ready.head && !self->n_asked)
        dispatch_queue (self, &self->failed, 0);
}
