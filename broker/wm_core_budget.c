/* wm_core_budget.c - the bytes of payloads that the broker answers for.

   The budget bounds the memory that payloads take. Three kinds of bytes count:
     asked for    NEED was sent, BATCH has not come: the announced bytes are reserved
     here         the payload of a batch that is ready or running
     in flight    the payload of a TASK that the worker has not shown to have received
   One payload in several of these places counts once: payload_t counts its owners (its batch, and
   each TASK in flight) and leaves the budget with the last of them.
   The reservation of a NEED ends with its BATCH, or before it: where the NEED is taken back, or the
   event is forgotten because its answer came by another way. The BATCH is then kept if it is still
   wanted and there is room, else dropped. Only a count of it is kept, n_owed of its session: so a
   late BATCH differs from one that was never asked for, whatever has become of its event.
   Nothing is asked for that does not fit (wm_core_dispatch.c). Where the budget is full, payloads
   of running batches that are no longer in flight are dropped: the producer can send them again if
   the worker fails. So a worker that does not read its socket keeps bytes of the budget; its
   session ends for that (session_tick in wm_core.c).  */
#include "broker/wm_core_private.h"

#include <stdlib.h>

payload_t *wm_core_payload_take (wm_core_t *self, const wm_payload_t *from)
{
    payload_t *payload = malloc (sizeof *payload);
    if (!payload)
        return NULL;
    self->sink.hold (self->sink.context, from->handle);
    *payload = (payload_t){ from->handle, (uint32_t) from->bytes, 1 };
    self->budget_used += payload->bytes;
    return payload;
}

void wm_core_payload_drop (wm_core_t *self, payload_t *payload)
{
    if (--payload->refs)
        return;
    self->sink.release (self->sink.context, payload->handle);
    self->budget_used -= payload->bytes;
    free (payload);
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
    self->n_asking += asking ? 1 : (uint32_t) -1;
}

void wm_core_budget_reserve_need (wm_core_t *self, batch_t *batch)
{
    session_t *producer = batch->event->input->claim;
    const uint64_t bytes = wm_core_budget_need_bytes (batch);
    batch->flags |= BATCH_ASKED;
    if (batch->state == BATCH_QUEUED)
        batch->since_ms = (uint32_t) self->now_ms;
    self->budget_used += bytes;
    self->n_asked++;
    if (!producer->n_asked++)
        producer->answered_ms = self->now_ms;
    producer->asked_bytes += bytes;
    wm_core_budget_count_asking (self, producer);
}

void wm_core_budget_forget_need (wm_core_t *self, batch_t *batch)
{
    if (!(batch->flags & BATCH_ASKED))
        return;
    session_t *producer = batch->event->input->claim; /* a NEED does not outlive the claim */
    const uint64_t bytes = wm_core_budget_need_bytes (batch);
    batch->flags &= (uint8_t) ~BATCH_ASKED;
    self->budget_used -= bytes;
    self->n_asked--;
    producer->n_asked--;
    producer->asked_bytes -= bytes;
    wm_core_budget_count_asking (self, producer);
}
