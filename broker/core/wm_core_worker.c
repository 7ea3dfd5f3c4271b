/* wm_core_worker.c - what a worker leaves behind when its session ends or it hangs.

   Blame: when a session ends without BYE, the oldest lease that is not expired is the batch that
   was executing: only that one is blamed, and is then sent alone. The others go back unblamed; so
   do all where the worker had begun on a check before them (wm_core_check.c).  */
#include "broker/core/wm_core_check_private.h"

#include <stdlib.h>
#include <string.h>

void wm_core_worker_drop_orphan (wm_core_t *self, session_t *worker, uint32_t i)
{
    const wm_key_t *key = &worker->orphan[i].key;
    wm_table_remove (&self->workers.orphans, wm_core_event_hash (key->input, key->ordinal), worker);
    worker->orphan[i] = worker->orphan[--worker->n_orphan];
}

void wm_core_worker_forget (wm_core_t *self, session_t *worker)
{
    worker->draining = true;
    wm_core_check_give_back (self, worker);
    wm_core_worker_received (self, worker, worker->sent); /* its socket's queue is gone */
    if (self->workers.alone_for == worker)
        self->workers.alone_for = NULL;
    wm_core_worker_update (self, worker);
    while (worker->n_orphan)
        wm_core_worker_drop_orphan (self, worker, worker->n_orphan - 1);
    free (worker->orphan);
    worker->orphan = NULL;
}

void wm_core_worker_give_back (wm_core_t *self, session_t *worker, bool blame)
{
    lease_t *oldest = worker->lease_head;
    while (oldest && oldest->expired)
        oldest = oldest->next;
    if (blame && oldest && !wm_core_check_is_first (worker)) {
        batch_t *batch = oldest->batch;
        const bool running = batch->state == BATCH_RUNNING;
        batch->flags |= running ? BATCH_ALONE : 0;
        wm_core_batch_blame (self, batch, worker, true, "the worker vanished");
        batch->flags |= running ? BATCH_VANISHED : 0;
    }
    while (worker->lease_tail) { /* from the last: each goes to the front of its queue */
        batch_t *batch = worker->lease_tail->batch;
        wm_core_lease_end (self, worker->lease_tail);
        wm_core_batch_back (self, batch);
    }
}

/* ---- time ------------------------------------------------------------------------------------ */

void wm_core_worker_tick (wm_core_t *self, session_t *worker)
{
    if (!worker->n_lease || worker->stalled ||
        self->now_ms - worker->progress_ms <= self->leases.ms)
        return;
    wm_core_log (self, "worker %s has not advanced for %lld ms: its batches go to other workers",
                 worker->label, (long long) (self->now_ms - worker->progress_ms));
    worker->stalled = true;
    lease_t *prev;
    for (lease_t *lease = worker->lease_tail; lease; lease = prev) {
        prev = lease->prev;
        batch_t *batch = lease->batch;
        wm_key_t key = wm_core_batch_key (batch);
        if (lease->expired)
            continue;
        if (memcmp (&key, &worker->executing, sizeof key) == 0) {
            lease->expired = true;
            wm_core_batch_blame (self, batch, worker, true, "no progress");
        } else {
            wm_core_lease_revoke (self, lease);
        }
        wm_core_batch_back (self, batch);
    }
    wm_core_worker_update (self, worker);
}

/* ---- what people see ------------------------------------------------------------------------- */

wm_core_worker_t wm_core_worker_of (const wm_core_t *self, const session_t *worker)
{
    return (wm_core_worker_t){
        .session = worker->id,
        .label = worker->label,
        .signature = worker->signature ? self->arithmetic.signature[worker->signature - 1] : "",
        .why = *worker->why                                       ? worker->why
               : worker->is_gone || worker->state == SESSION_LOST ? "lost: it went without a word"
                                                                  : "",
        .health = worker->report,
        .age_ms = self->now_ms - worker->opened_ms,
        .busy_ms = worker->busy_ms + (worker->n_lease ? self->now_ms - worker->busy_since_ms : 0),
        .n_batch = worker->n_batch_done,
        .n_hit = worker->n_hit_done,
    };
}
