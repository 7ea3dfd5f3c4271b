/* wm_core_lease.c - leases and credit: which worker has which batch, and which may get more.

   A lease is a batch at a worker: it begins with a TASK, or with a HELLO that lists the batch. It
   ends with RESULT, NACK, REVOKE, or the end of the worker's session. A worker that has leases and
   has not advanced for leases.ms is stalled (wm_core_worker_tick). The lease of the batch that it
   executes expires: the batch is sent elsewhere and the worker is blamed, but the lease stays,
   because a late result is still accepted. Its other leases end without blame: these batches only
   waited there. A stalled worker gets nothing more until it advances. A batch has at most two
   leases: the second is a copy at the tail, or follows an expired one. leases.ms is ten times the
   duration that 95 of 100 recent batches stay below, and at least config.times.lease_ms.

   Credit is absolute: CREDIT gives how many TASKs it may be sent in this session, `sent` counts
   those that were. A message that is lost or repeated therefore changes nothing. The worker's
   heartbeats give how many TASKs it has received; the payloads of the others are in flight and stay
   in the budget. Workers that may get more (credit left, not draining, stalled or waiting for their
   last batch) form a ring, so that dispatch finds the next one at once.  */
#include "broker/core/wm_core_private.h"
#include "schema/base/wm_order.h"

#include <stdlib.h>
#include <string.h>

/* ---- the ring of eligible workers ------------------------------------------------------------ */

static bool is_eligible (const wm_core_t *self, const session_t *worker)
{
    return worker->state == SESSION_LIVE && worker->credit > worker->sent &&
           worker->n_lease < WM_CREDIT_MAX && worker->sent - worker->received < WM_CREDIT_MAX &&
           !worker->draining && !worker->stalled && !worker->alone &&
           !(self->workers.alone_for == worker && worker->n_lease);
}

/* I8: eligible is a worker with free credit alone.  */
void wm_core_worker_update (wm_core_t *self, session_t *worker)
{
    if (!worker->n_lease)
        worker->alone = false;
    uint64_t window = 0;
    if (worker->state == SESSION_LIVE && !worker->draining && !worker->stalled) {
        window =
            worker->n_lease + (worker->credit > worker->sent ? worker->credit - worker->sent : 0);
        if (window > WM_CREDIT_MAX)
            window = WM_CREDIT_MAX;
    }
    self->workers.window += window - worker->window;
    worker->window = window;

    const bool eligible = is_eligible (self, worker);
    if (eligible == worker->eligible)
        return;
    worker->eligible = eligible;
    if (!eligible) {
        worker->eligible_prev->eligible_next = worker->eligible_next;
        worker->eligible_next->eligible_prev = worker->eligible_prev;
        if (self->workers.eligible == worker)
            self->workers.eligible = worker->eligible_next == worker ? NULL : worker->eligible_next;
    } else if (!self->workers.eligible) {
        worker->eligible_prev = worker->eligible_next = worker;
        self->workers.eligible = worker;
    } else {
        worker->eligible_next = self->workers.eligible;
        worker->eligible_prev = self->workers.eligible->eligible_prev;
        worker->eligible_prev->eligible_next = worker;
        self->workers.eligible->eligible_prev = worker;
    }
}

/* I6: the only way out of in_flight.  */
void wm_core_worker_received (wm_core_t *self, session_t *worker, uint64_t count)
{
    if (count <= worker->received)
        return;
    worker->received_ms = self->now_ms;
    while (worker->received < count)
        wm_core_payload_drop (self, worker->in_flight[++worker->received % WM_CREDIT_MAX]);
    wm_core_worker_update (self, worker);
}

void wm_core_worker_answered (wm_core_t *self, session_t *worker, const lease_t *lease)
{
    uint64_t number = worker->received + 1;
    while (number < lease->number &&
           worker->in_flight[number % WM_CREDIT_MAX] != lease->batch->payload)
        number++;
    wm_core_worker_received (self, worker, number < lease->number ? number : lease->number);
}

void wm_core_task_send (wm_core_t *self, session_t *worker, const work_t *task)
{
    if (worker->sent == worker->received)
        worker->received_ms = self->now_ms;
    worker->sent++;
    worker->in_flight[worker->sent % WM_CREDIT_MAX] = task->payload;
    task->payload->refs++;
    self->totals.task_out += task->payload->bytes;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_TASK);
    msg.key = task->key;
    memcpy (msg.digest, task->digest, 16);
    msg.n_batch = task->n_batch;
    msg.n_hit = task->n_hit;
    msg.attempt = task->attempt;
    wm_core_send (self, worker, &msg,
                  &(wm_payload_t){ task->payload->handle, NULL, task->payload->bytes });
}

/* ---- leases ---------------------------------------------------------------------------------- */

lease_t *wm_core_lease_of (const batch_t *batch, const session_t *worker)
{
    lease_t *lease = batch->lease;
    while (lease && lease->worker != worker)
        lease = lease->other;
    return lease;
}

bool wm_core_lease_reserve (wm_core_t *self)
{
    if (!self->leases.pool)
        self->leases.pool = calloc (1, sizeof *self->leases.pool);
    return self->leases.pool != NULL;
}

/* I4: the caller has seen that there is at most one.  */
void wm_core_lease_new (wm_core_t *self, batch_t *batch, session_t *worker)
{
    lease_t *lease = self->leases.pool;
    self->leases.pool = lease->next;
    *lease = (lease_t){ .batch = batch,
                        .worker = worker,
                        .other = batch->lease,
                        .prev = worker->lease_tail,
                        .sent_ms = self->now_ms,
                        .hits_lent = worker->hits_lent += batch->n_hit };
    batch->lease = lease;
    *(worker->lease_tail ? &worker->lease_tail->next : &worker->lease_head) = lease;
    worker->lease_tail = lease;
    if (!worker->n_lease++) {
        worker->progress_ms = worker->busy_since_ms = self->now_ms;
        self->workers.n_busy++;
    }
    wm_core_worker_update (self, worker);
}

void wm_core_lease_end (wm_core_t *self, lease_t *lease)
{
    session_t *worker = lease->worker;
    lease_t **at = &lease->batch->lease;
    while (*at != lease)
        at = &(*at)->other;
    *at = lease->other;
    *(lease->prev ? &lease->prev->next : &worker->lease_head) = lease->next;
    *(lease->next ? &lease->next->prev : &worker->lease_tail) = lease->prev;
    if (!--worker->n_lease) {
        worker->busy_ms += self->now_ms - worker->busy_since_ms;
        self->workers.n_busy--;
    }
    worker->hits_back += lease->batch->n_hit;
    lease->next = self->leases.pool;
    self->leases.pool = lease;
    wm_core_worker_update (self, worker);
}

void wm_core_lease_revoke (wm_core_t *self, lease_t *lease)
{
    wm_core_send_key (self, lease->worker, WM_MSG_REVOKE, wm_core_batch_key (lease->batch));
    wm_core_lease_end (self, lease);
}

void wm_core_lease_revoke_all (wm_core_t *self, batch_t *batch)
{
    while (batch->lease)
        wm_core_lease_revoke (self, batch->lease);
}

/* ---- the length of a lease ------------------------------------------------------------------- */

WM_ORDER_NUMBERS (by_size, uint32_t)

void wm_core_lease_measure (wm_core_t *self)
{
    if (!self->leases.n_duration || self->now_ms - self->leases.measured_ms < 1000)
        return;
    self->leases.measured_ms = self->now_ms;
    uint32_t sorted[DURATIONS],
        n = self->leases.n_duration < DURATIONS ? self->leases.n_duration : DURATIONS;
    memcpy (sorted, self->leases.duration_ms, n * sizeof *sorted);
    qsort (sorted, n, sizeof *sorted, by_size);
    int64_t lease_ms = 10 * (int64_t) sorted[(n - 1) * 95 / 100];
    self->leases.ms =
        lease_ms > self->config.times.lease_ms ? lease_ms : self->config.times.lease_ms;
}
