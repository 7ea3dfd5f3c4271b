/* wm_core_worker.c - what a worker holds across sessions, and what happens when it fails.

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
   they do, and the worker, which connects again, sends the result again.

   Blame: when a session ends without BYE, the oldest lease that is not expired is the batch that
   was executing: only that one is blamed, and is then sent alone. The others go back unblamed; so
   do all where the worker had begun on a check before them (wm_core_check.c).

   The circuit breaker: a worker with more failures than successes among its last ten answers is
   dismissed. When two were, and as many as there are workers that do well, the fault is not the
   workers': the campaign pauses until an operator resumes it.  */
#include "broker/core/wm_core_check_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- orphans and adoption -------------------------------------------------------------------- */

static void orphan_remove (wm_core_t *self, session_t *worker, uint32_t i)
{
    const wm_key_t *key = &worker->orphan[i].key;
    wm_table_remove (&self->workers.orphans, wm_core_event_hash (key->input, key->ordinal), worker);
    worker->orphan[i] = worker->orphan[--worker->n_orphan];
}

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
            orphan_remove (self, worker, i);
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
            orphan_remove (self, worker, i);
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

/* ---- the end of a session -------------------------------------------------------------------- */

void wm_core_worker_forget (wm_core_t *self, session_t *worker)
{
    worker->draining = true;
    wm_core_check_give_back (self, worker);
    wm_core_worker_received (self, worker, worker->sent); /* its socket's queue is gone */
    if (self->workers.alone_for == worker)
        self->workers.alone_for = NULL;
    wm_core_worker_update (self, worker);
    while (worker->n_orphan)
        orphan_remove (self, worker, worker->n_orphan - 1);
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

void wm_core_worker_dismiss (wm_core_t *self, session_t *worker, const char *why)
{
    worker->draining = worker->dismissed = true;
    snprintf (worker->why, sizeof worker->why, "%s", why);
    wm_core_worker_update (self, worker);
    wm_msg_t drain;
    wm_msg_init (&drain, WM_MSG_DRAIN);
    snprintf (drain.text, sizeof drain.text, "%s", why);
    wm_core_send (self, worker, &drain, NULL);
}

/* ---- the circuit breaker --------------------------------------------------------------------- */

#define OUTCOMES 10

static int failures_of (const session_t *worker)
{
    return __builtin_popcount (worker->outcomes);
}

/* Counts the workers that are connected, have scored something, and fail less often than they
   score.  */
static uint32_t workers_well (const wm_core_t *self)
{
    uint32_t n = 0;
    for (const session_t *worker = self->sessions.first; worker; worker = worker->next)
        n += worker->role == WM_ROLE_WORKER && worker->state == SESSION_LIVE &&
             worker->n_batch_done && failures_of (worker) <= OUTCOMES / 2;
    return n;
}

void wm_core_worker_note_outcome (wm_core_t *self, session_t *worker, const char *why)
{
    worker->outcomes = (uint16_t) ((worker->outcomes << 1 | (why != NULL)) & ((1 << OUTCOMES) - 1));
    if (!why || worker->dismissed || failures_of (worker) <= OUTCOMES / 2)
        return;
    char text[240];
    snprintf (text, sizeof text, "%d of its last %d batches failed, the last: %.60s",
              failures_of (worker), OUTCOMES, why);
    wm_core_log (self, "worker %s is dismissed: %s", worker->label, text);
    worker->has_failed = true;
    wm_core_worker_dismiss (self, worker, text);
    if (++self->workers.n_tripped < 2 || self->workers.n_tripped < workers_well (self))
        return;
    snprintf (text, sizeof text, "%u workers fail more often than they score, the last %s: %.80s",
              self->workers.n_tripped, worker->label, why);
    wm_core_pause (self, text);
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
        .why = worker->why,
        .health = worker->report,
        .age_ms = self->now_ms - worker->opened_ms,
        .busy_ms = worker->busy_ms + (worker->n_lease ? self->now_ms - worker->busy_since_ms : 0),
        .n_batch = worker->n_batch_done,
        .n_hit = worker->n_hit_done,
    };
}
