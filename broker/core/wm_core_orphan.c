/* wm_core_orphan.c - batches that a worker holds when it connects again.

   Orphans: a worker that connects again lists in HELLO the batches that it still holds. Where the
   broker knows the batch, and the digest matches, the lease is adopted at once, so that no work is
   done twice. After a restart of the broker the producer may not have announced the event yet: the
   broker knows neither the number of its batches nor their digests. Such a batch is an orphan: the
   session keeps the line of HELLO, `orphans` finds the session by the event's hash. SUBMIT of the
   event adopts it (wm_core_worker_adopt); RESULT or NACK for it, or the end of the session, forgets
   it. What cannot be adopted is REVOKEd, except results: the worker sends these again by itself.
   Where results of too many events that are not announced are here (WM_STRAY_ALL_MAX), the broker
   leaves the RESULT of an orphan unanswered and its worker keeps it. The session goes on, so that
   such a worker can score what the producers wait for before they announce that event; it ends when
   they do, and the worker, which connects again, sends the result again.  */
#include "broker/core/wm_core_private.h"

#include <stdlib.h>
#include <string.h>

typedef enum {
    ADOPTED,    /* the worker has the lease */
    NOT_WANTED, /* the batch is of an old generation, differs, or needs no worker */
    NOT_KNOWN,  /* its event is not announced yet */
} adoption_t;

/* Gives the worker the lease of a batch that it holds; old: its session before, or NULL.  */
static adoption_t adopt (wm_core_t *self, session_t *worker, session_t *old,
                         const wm_hello_held_t *held)
{
    const input_t *input = wm_core_input_find (self, held->key.input);
    if (!input || input->generation != held->key.generation || input->state != WM_LEDGER_OPEN)
        return NOT_WANTED;
    event_t *event = wm_core_event_find (self, held->key.input, held->key.ordinal);
    if (!event)
        return NOT_KNOWN;
    if (held->key.batch >= event->n_batch)
        return NOT_WANTED;
    batch_t *batch = wm_core_event_batch (event, held->key.batch);
    if (!batch || !(batch->flags & BATCH_DIGEST))
        return NOT_KNOWN;
    if (memcmp (batch->digest, held->digest, 16) != 0 || batch->state >= BATCH_COMMITTING)
        return NOT_WANTED;
    wm_core_batch_absolve (batch, worker);
    if (event->n_slot < event->n_batch) /* a lease needs a batch that stays where it is */
        return NOT_KNOWN;
    lease_t *lease = old ? wm_core_lease_of (batch, old) : NULL;
    if (lease)
        wm_core_lease_end (self, lease);
    const bool third = batch->lease && batch->lease->other;
    if (third || wm_core_lease_of (batch, worker) || !wm_core_lease_reserve (self))
        return NOT_WANTED;
    wm_core_lease_new (self, batch, worker);
    if (batch->state != BATCH_RUNNING)
        wm_core_batch_set_state (self, batch, BATCH_RUNNING);
    return ADOPTED;
}

void wm_core_worker_forget_orphan (wm_core_t *self, session_t *worker, const wm_key_t *key)
{
    for (uint32_t i = worker->n_orphan; i-- > 0;)
        if (memcmp (&worker->orphan[i].key, key, sizeof *key) == 0)
            wm_core_worker_drop_orphan (self, worker, i);
}

#define SET_ASIDE 2 /* as `unacked` of an orphan */

bool wm_core_worker_set_aside (session_t *worker, const wm_key_t *key)
{
    for (uint32_t i = 0; i < worker->n_orphan; i++)
        if (memcmp (&worker->orphan[i].key, key, sizeof *key) == 0) {
            worker->orphan[i].unacked = SET_ASIDE;
            return true;
        }
    return false;
}

void wm_core_worker_adopt (wm_core_t *self, event_t *event)
{
    size_t at;
    session_t *worker;
    const uint64_t hash = wm_core_event_hash (event->input->id, event->ordinal);
    while ((worker = wm_table_first (&self->workers.orphans, hash, &at)))
        for (uint32_t i = worker->n_orphan; i-- > 0;) {
            wm_hello_held_t line = worker->orphan[i];
            if (line.key.input != event->input->id || line.key.ordinal != event->ordinal)
                continue;
            if (line.unacked == SET_ASIDE) {
                wm_core_refuse (self, worker, WM_REASON_BUSY,
                                "event %u.%u is announced now: send its results again",
                                line.key.input, line.key.ordinal);
                break;
            }
            wm_core_worker_drop_orphan (self, worker, i);
            if (adopt (self, worker, NULL, &line) != ADOPTED && !line.unacked)
                wm_core_send_key (self, worker, WM_MSG_REVOKE, line.key);
        }
}

void wm_core_worker_welcome (wm_core_t *self, session_t *worker, session_t *old,
                             const wm_hello_held_t *held, uint32_t n_held)
{
    worker->progress_ms = self->now_ms;
    if (old) {
        worker->speed = old->speed;
        worker->outcomes = old->outcomes;
    }
    for (uint32_t i = 0; i < n_held; i++) {
        wm_hello_held_t line;
        memcpy (&line, held + i, sizeof line);
        line.unacked = line.unacked != 0;
        const adoption_t adopted = adopt (self, worker, old, &line);
        if (adopted == NOT_KNOWN && !worker->orphan)
            worker->orphan = calloc (n_held, sizeof line);
        if (adopted == NOT_KNOWN && worker->orphan &&
            wm_table_reserve (&self->workers.orphans) == 0) {
            worker->orphan[worker->n_orphan++] = line;
            wm_table_put (&self->workers.orphans,
                          wm_core_event_hash (line.key.input, line.key.ordinal), worker);
        } else if (adopted == NOT_WANTED && !line.unacked)
            wm_core_send_key (self, worker, WM_MSG_REVOKE, line.key);
    }
    if (self->draining)
        wm_core_worker_dismiss (self, worker, "the campaign is draining");
}
