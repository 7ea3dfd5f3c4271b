/* wm_core_budget.c - the bytes of payloads that the broker answers for.

   The budget bounds the memory that payloads take. Four kinds of bytes count:
     asked for    NEED was sent, BATCH has not come: the announced bytes are reserved
     late         the same, but the batch does not wait for this BATCH any more
     here         the payload of a batch that is ready or running
     in flight    the payload of a TASK that the worker has not shown to have received
   One payload in several of these places counts once: payload_t counts its owners (its batch, and
   each TASK in flight) and leaves the budget with the last of them.
   A BATCH takes memory from its first byte, long before the broker reads it, and nothing stops one
   that was asked for but the end of its connection. So the bytes of a NEED count until its BATCH
   comes or its session ends, also where the NEED is taken back, or where the event is forgotten
   because its answer came by another way. A late BATCH is kept if it is still wanted and there is
   room, else dropped. Of late ones only number and bytes are kept: one whose batch is not known any
   more leaves the budget by the bytes that came, the last one by all that is left. A producer
   answers in the order of its NEEDs, or not at all where it has dropped the batch: so a BATCH that
   was first asked for after all late ones ends their wait. n_owed of a session counts what it may
   send, so that a late BATCH differs from one that was never asked for.
   Where late bytes leave to others less than half of the budget, or no room for a batch, the
   session that is late longest ends, after silence_ms (wm_core_needs_tick).
   Nothing is asked for that does not fit (wm_core_dispatch.c). Where the budget is full, payloads
   of running batches that are no longer in flight are dropped: the producer can send them again if
   the worker fails. So a worker that does not read its socket keeps bytes of the budget; its
   session ends for that (session_tick in wm_core.c).  */
#include "broker/core/wm_core_private.h"

#include <stdlib.h>

payload_t *wm_core_payload_take (wm_core_t *self, const wm_payload_t *from)
{
    payload_t *payload = malloc (sizeof *payload);
    if (!payload)
        return NULL;
    self->sink.hold (self->sink.context, from->handle);
    *payload = (payload_t){ from->handle, (uint32_t) from->bytes, 1 };
    self->budget.used += payload->bytes;
    return payload;
}

void wm_core_payload_drop (wm_core_t *self, payload_t *payload)
{
    if (--payload->refs)
        return;
    self->sink.release (self->sink.context, payload->handle);
    self->budget.used -= payload->bytes;
    free (payload);
}

uint64_t wm_core_payloads (const wm_core_t *self, uint64_t *asked)
{
    *asked = self->budget.asked_total;
    return self->budget.used + self->budget.late_bytes;
}

uint64_t wm_core_budget_need_bytes (const batch_t *batch)
{
    return (uint64_t) batch->raw_bytes + WM_FRAME_OVERHEAD;
}

void wm_core_budget_count_asking (wm_core_t *self, session_t *producer)
{
    const bool asking = !producer->late && (producer->n_asked || producer->wants.head);
    if (asking == producer->asking)
        return;
    producer->asking = asking;
    self->producers.n_asking += asking ? 1 : (uint32_t) -1;
}

void wm_core_budget_reserve_need (wm_core_t *self, batch_t *batch)
{
    session_t *producer = batch->event->input->claim;
    const uint64_t bytes = wm_core_budget_need_bytes (batch);
    batch->flags |= BATCH_ASKED;
    if (batch->state == BATCH_QUEUED)
        batch->since_ms = (uint32_t) self->now_ms;
    self->budget.used += bytes;
    self->budget.n_asked++;
    if (!producer->n_asked++)
        producer->answered_ms = self->now_ms;
    producer->asked_bytes += bytes;
    self->budget.asked_bytes += bytes;
    wm_core_budget_count_asking (self, producer);
}

/* I5: asked before each NEED.  */
bool wm_core_budget_room (const wm_core_t *self, uint64_t bytes)
{
    return self->budget.used + self->budget.late_bytes + bytes <= self->config.budget_bytes;
}

void wm_core_budget_add_late (wm_core_t *self, session_t *producer, batch_t *batch)
{
    const uint64_t bytes = wm_core_budget_need_bytes (batch);
    batch->flags |= BATCH_LATE;
    producer->late_ms = self->now_ms;
    producer->n_late++;
    producer->late_bytes += bytes;
    self->budget.late_bytes += bytes;
}

void wm_core_budget_end_late (wm_core_t *self, session_t *producer, uint32_t n, uint64_t bytes)
{
    if (n == producer->n_late || bytes > producer->late_bytes)
        bytes = producer->late_bytes;
    producer->n_late -= n;
    producer->late_bytes -= bytes;
    self->budget.late_bytes -= bytes;
}

void wm_core_budget_forget_need (wm_core_t *self, batch_t *batch)
{
    if (!(batch->flags & BATCH_ASKED))
        return;
    wm_core_budget_add_late (self, batch->event->input->claim, batch);
    wm_core_budget_end_need (self, batch);
}

void wm_core_budget_end_need (wm_core_t *self, batch_t *batch)
{
    session_t *producer = batch->event->input->claim; /* a NEED does not outlive the claim */
    const uint64_t bytes = wm_core_budget_need_bytes (batch);
    batch->flags &= (uint8_t) ~BATCH_ASKED;
    self->budget.used -= bytes;
    self->budget.n_asked--;
    producer->n_asked--;
    producer->asked_bytes -= bytes;
    self->budget.asked_bytes -= bytes;
    wm_core_budget_count_asking (self, producer);
}
