/* wm_core_worker.c - workers: credit, leases, results, and whose fault it was.

   A lease is a batch at a worker. It ends with a RESULT, a NACK, a REVOKE, the worker's end, or is
   marked expired when the worker has not advanced for lease_ms: the batch is then sent elsewhere,
   the worker gets nothing more until it advances, and a late result is still accepted. Only the
   batch that was executing is blamed; what merely waited at the worker goes back and counts
   nothing.

   A worker with more failures than successes among its last ten answers is sent away (the circuit
   breaker). When two of them were, and those that do well are not more, the fault is not theirs:
   the campaign pauses until somebody resumes it.  */
#include "broker/wm_core_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- the ring of workers that may have more ----------------------------------------------------
 */
static int is_hungry (const wm_core_t *self, const session_t *worker)
{
    return worker->state == SESSION_LIVE && worker->credit > worker->sent &&
           worker->n_lease < WM_CREDIT_MAX && worker->sent - worker->seen < WM_CREDIT_MAX &&
           !worker->draining && !worker->stalled && !worker->alone &&
           !(self->alone_for == worker && worker->n_lease);
}

void worker_update (wm_core_t *self, session_t *worker)
{
    if (!worker->n_lease)
        worker->alone = 0;
    uint64_t window = 0;
    if (worker->state == SESSION_LIVE && !worker->draining && !worker->stalled) {
        window =
            worker->n_lease + (worker->credit > worker->sent ? worker->credit - worker->sent : 0);
        if (window > WM_CREDIT_MAX)
            window = WM_CREDIT_MAX;
    }
    self->window += window - worker->window;
    worker->window = window;

    int hungry = is_hungry (self, worker);
    if (hungry == worker->hungry)
        return;
    worker->hungry = (uint8_t) hungry;
    if (!hungry) {
        worker->hungry_prev->hungry_next = worker->hungry_next;
        worker->hungry_next->hungry_prev = worker->hungry_prev;
        if (self->hungry == worker)
            self->hungry = worker->hungry_next == worker ? NULL : worker->hungry_next;
    } else if (!self->hungry) {
        worker->hungry_prev = worker->hungry_next = worker;
        self->hungry = worker;
    } else {
        worker->hungry_next = self->hungry;
        worker->hungry_prev = self->hungry->hungry_prev;
        worker->hungry_prev->hungry_next = worker;
        self->hungry->hungry_prev = worker;
    }
}

static void orphan_remove (wm_core_t *self, session_t *worker, uint32_t i)
{
    const wm_key_t *key = &worker->orphan[i].key;
    wm_table_remove (&self->orphans, event_hash (key->input, key->ordinal), worker);
    worker->orphan[i] = worker->orphan[--worker->n_orphan];
}

void worker_saw (wm_core_t *self, session_t *worker, uint64_t count)
{
    if (count <= worker->seen)
        return;
    worker->seen_ms = self->now_ms;
    while (worker->seen < count)
        payload_drop (self, worker->way[++worker->seen % WM_CREDIT_MAX]);
    worker_update (self, worker);
}

void worker_forget (wm_core_t *self, session_t *worker)
{
    worker->draining = 1;
    worker_saw (self, worker, worker->sent); /* its connection is over, and its queue */
    if (self->alone_for == worker)
        self->alone_for = NULL;
    worker_update (self, worker);
    while (worker->n_orphan)
        orphan_remove (self, worker, worker->n_orphan - 1);
    free (worker->orphan);
    worker->orphan = NULL;
}

/* ---- leases ------------------------------------------------------------------------------------
 */
lease_t *lease_of (const batch_t *batch, const session_t *worker)
{
    lease_t *lease = batch->lease;
    while (lease && lease->worker != worker)
        lease = lease->other;
    return lease;
}

int lease_reserve (wm_core_t *self)
{
    if (!self->lease_pool)
        self->lease_pool = calloc (1, sizeof *self->lease_pool);
    return self->lease_pool ? 0 : -1;
}

void lease_new (wm_core_t *self, batch_t *batch, session_t *worker)
{
    lease_t *lease = self->lease_pool;
    self->lease_pool = lease->next;
    *lease = (lease_t){ .batch = batch,
                        .worker = worker,
                        .other = batch->lease,
                        .prev = worker->lease_tail,
                        .sent_ms = self->now_ms,
                        .hits_lent = worker->hits_lent += batch->n_hit,
                        .attempt = batch->attempt };
    batch->lease = lease;
    *(worker->lease_tail ? &worker->lease_tail->next : &worker->lease_head) = lease;
    worker->lease_tail = lease;
    if (!worker->n_lease++)
        worker->progress_ms = self->now_ms;
    worker_update (self, worker);
}

void lease_end (wm_core_t *self, lease_t *lease)
{
    session_t *worker = lease->worker;
    lease_t **at = &lease->batch->lease;
    while (*at != lease)
        at = &(*at)->other;
    *at = lease->other;
    *(lease->prev ? &lease->prev->next : &worker->lease_head) = lease->next;
    *(lease->next ? &lease->next->prev : &worker->lease_tail) = lease->prev;
    worker->n_lease--;
    worker->hits_back += lease->batch->n_hit;
    lease->next = self->lease_pool;
    self->lease_pool = lease;
    worker_update (self, worker);
}

void worker_send_key (wm_core_t *self, session_t *worker, wm_msg_type_t type, wm_key_t key)
{
    wm_msg_t msg;
    wm_msg_init (&msg, type);
    msg.key = key;
    core_send (self, worker, &msg, NULL);
}

void leases_revoke (wm_core_t *self, batch_t *batch, const session_t *except)
{
    lease_t *next;
    for (lease_t *lease = batch->lease; lease; lease = next) {
        next = lease->other;
        if (lease->worker == except)
            continue;
        worker_send_key (self, lease->worker, WM_MSG_REVOKE, batch_key (batch));
        lease_end (self, lease);
    }
}

/* Nobody is at work on it any more: it goes back unless somebody is.  */
static void batch_back (wm_core_t *self, batch_t *batch)
{
    if (batch->state != BATCH_RUNNING)
        return;
    for (const lease_t *lease = batch->lease; lease; lease = lease->other)
        if (!lease->expired)
            return;
    batch_requeue (self, batch);
}

/* One failure more of this batch on this worker. Called before batch_back. An engine that dies of
   one hit is bisected by its supervisor later: until then the batch is held whole.  */
static void batch_blame (wm_core_t *self, batch_t *batch, const session_t *worker, int lost,
                         const char *why)
{
    if (batch->state != BATCH_RUNNING)
        return;
    uint8_t *count = lost ? &batch->n_lost : &batch->n_fail;
    ++*count;
    ++*(lost ? &self->n_lost : &self->n_fail);
    if (batch->failed_on && batch->failed_on != worker->tag)
        batch->flags |= BATCH_WORKERS;
    batch->failed_on = worker->tag;
    unsigned failures = batch->n_fail + batch->n_lost;
    if (failures >= WM_ATTEMPTS_MAX ||
        (failures >= WM_FAILURES_MAX && batch->flags & BATCH_WORKERS)) {
        char text[200];
        snprintf (text, sizeof text, "%u failures (%u of them lost workers), the last on %s: %.80s",
                  failures, batch->n_lost, worker->label, why);
        batch_hold (self, batch, text);
    }
}

void worker_give_back (wm_core_t *self, session_t *worker, int blame)
{
    /* The oldest that is still its own is what it was executing; sent again alone. */
    lease_t *oldest = worker->lease_head;
    while (oldest && oldest->expired)
        oldest = oldest->next;
    if (blame && oldest) {
        batch_t *batch = oldest->batch;
        batch->flags |= batch->state == BATCH_RUNNING ? BATCH_ALONE : 0;
        batch_blame (self, batch, worker, 1, "the worker vanished");
    }
    while (worker->lease_tail) { /* from the last: each goes to the front of its queue */
        batch_t *batch = worker->lease_tail->batch;
        lease_end (self, worker->lease_tail);
        batch_back (self, batch);
    }
}

/* ---- HELLO: what it holds ----------------------------------------------------------------------
 */
/* 1: it is its own now; 0: it holds it in vain; -1: of an event that is not announced yet.  */
static int adopt (wm_core_t *self, session_t *worker, session_t *old, const wm_hello_held_t *held)
{
    const input_t *input = input_find (self, held->key.input);
    if (!input || input->generation != held->key.generation || input->state != INPUT_OPEN)
        return 0;
    event_t *event = event_find (self, held->key.input, held->key.ordinal);
    if (!event)
        return -1;
    if (held->key.batch >= event->n_batch)
        return 0;
    batch_t *batch = &event->batch[held->key.batch];
    if (!(batch->flags & BATCH_DIGEST))
        return -1;
    if (memcmp (batch->digest, held->digest, 16) != 0 || batch->state >= BATCH_COMMITTING)
        return 0;
    lease_t *lease = old ? lease_of (batch, old) : NULL;
    if (lease)
        lease_end (self, lease);
    int third = batch->lease && batch->lease->other;
    if (third || lease_of (batch, worker) || lease_reserve (self))
        return 0;
    lease_new (self, batch, worker);
    if (batch->state != BATCH_RUNNING)
        batch_set_state (self, batch, BATCH_RUNNING);
    return 1;
}

void worker_on_hello (wm_core_t *self, session_t *worker, session_t *old,
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
        int adopted = adopt (self, worker, old, &line);
        if (adopted < 0 && !worker->orphan)
            worker->orphan = calloc (n_held, sizeof line);
        if (adopted < 0 && worker->orphan && wm_table_reserve (&self->orphans) == 0) {
            worker->orphan[worker->n_orphan++] = line;
            wm_table_put (&self->orphans, event_hash (line.key.input, line.key.ordinal), worker);
        } else if (adopted == 0 &&
                   !line.unacked) /* a result comes by itself, and is acknowledged */
            worker_send_key (self, worker, WM_MSG_REVOKE, line.key);
    }
    if (self->draining)
        worker_dismiss (self, worker, "the campaign is draining");
}

/* It answered for this batch: it does not hold it any more.  */
static void orphan_forget (wm_core_t *self, session_t *worker, const wm_key_t *key)
{
    for (uint32_t i = worker->n_orphan; i-- > 0;)
        if (memcmp (&worker->orphan[i].key, key, sizeof *key) == 0)
            orphan_remove (self, worker, i);
}

/* An event was announced: those who said they hold a batch of it get their leases.  */
void worker_adopt (wm_core_t *self, event_t *event)
{
    size_t at;
    session_t *worker;
    const uint64_t hash = event_hash (event->input->id, event->ordinal);
    while ((worker = wm_table_first (&self->orphans, hash, &at)))
        for (uint32_t i = worker->n_orphan; i-- > 0;) {
            wm_hello_held_t line = worker->orphan[i];
            if (line.key.input != event->input->id || line.key.ordinal != event->ordinal)
                continue;
            orphan_remove (self, worker, i);
            if (adopt (self, worker, NULL, &line) != 1 && !line.unacked)
                worker_send_key (self, worker, WM_MSG_REVOKE, line.key);
        }
}

/* ---- CREDIT, DRAIN, HEARTBEAT ------------------------------------------------------------------
 */
void worker_on_credit (wm_core_t *self, session_t *worker, const wm_msg_t *msg)
{
    if (!*worker->arithmetic.class && msg->count) {
        core_refuse (self, worker, WM_REASON_PROTOCOL, "CREDIT of a worker that said no class");
        return;
    }
    worker->credit = msg->count;
    worker->draining = worker->dismissed;
    worker_update (self, worker);
}

void worker_dismiss (wm_core_t *self, session_t *worker, const char *why)
{
    worker->draining = worker->dismissed = 1;
    snprintf (worker->why, sizeof worker->why, "%s", why);
    worker_update (self, worker);
    wm_msg_t drain;
    wm_msg_init (&drain, WM_MSG_DRAIN);
    snprintf (drain.text, sizeof drain.text, "%s", why);
    core_send (self, worker, &drain, NULL);
}

void worker_on_drain (wm_core_t *self, session_t *worker)
{
    worker->draining = 1;
    worker_update (self, worker);
}

static void advance (wm_core_t *self, session_t *worker)
{
    worker->progress_ms = self->now_ms;
    if (worker->stalled) {
        worker->stalled = 0;
        worker_update (self, worker);
    }
}

void worker_on_heartbeat (wm_core_t *self, session_t *worker, const wm_msg_t *msg)
{
    if (msg->received > worker->sent) {
        core_refuse (self, worker, WM_REASON_PROTOCOL,
                     "HEARTBEAT: received %llu TASKs of the %llu that were sent",
                     (unsigned long long) msg->received, (unsigned long long) worker->sent);
        return;
    }
    worker_saw (self, worker, msg->received);
    if (msg->key.input && (memcmp (&worker->executing, &msg->key, sizeof msg->key) != 0 ||
                           msg->count > worker->progress))
        advance (self, worker);
    if (!msg->key.input && worker->stalled) { /* it waits for work: nothing hangs there */
        worker->stalled = 0;
        worker_update (self, worker);
    }
    worker->executing = msg->key;
    worker->progress = msg->count;
    memcpy (worker->says, msg->text, sizeof worker->says);
}

/* ---- the circuit breaker -----------------------------------------------------------------------
 */
#define OUTCOMES 10

static int failures_of (const session_t *worker)
{
    return __builtin_popcount (worker->outcomes);
}

/* How many workers are here, have scored something, and fail less often than they score.  */
static uint32_t workers_well (const wm_core_t *self)
{
    uint32_t n = 0;
    for (const session_t *worker = self->first; worker; worker = worker->next)
        n += worker->role == WM_ROLE_WORKER && worker->state == SESSION_LIVE &&
             worker->n_batch_done && failures_of (worker) <= OUTCOMES / 2;
    return n;
}

/* One more answer of this worker; why: of a failure, NULL for a success.  */
static void outcome_note (wm_core_t *self, session_t *worker, const char *why)
{
    worker->outcomes = (uint16_t) ((worker->outcomes << 1 | (why != NULL)) & ((1 << OUTCOMES) - 1));
    if (!why || worker->dismissed || failures_of (worker) <= OUTCOMES / 2)
        return;
    char text[240];
    snprintf (text, sizeof text, "%d of its last %d batches failed, the last: %.60s",
              failures_of (worker), OUTCOMES, why);
    core_log (self, "worker %s is sent away: %s", worker->label, text);
    worker_dismiss (self, worker, text);
    if (++self->n_tripped < 2 || self->n_tripped < workers_well (self))
        return;
    snprintf (text, sizeof text, "%u workers fail more often than they score, the last %s: %.80s",
              self->n_tripped, worker->label, why);
    core_pause (self, text);
}

/* ---- RESULT ------------------------------------------------------------------------------------
 */
static void speed_add (speed_t *speed, double ms, double hits)
{
    speed->ms = speed->ms * SPEED_KEEP + ms;
    speed->hits = speed->hits * SPEED_KEEP + hits;
}

static void duration_note (wm_core_t *self, session_t *worker, const lease_t *lease)
{
    int64_t from = lease->sent_ms > worker->result_ms ? lease->sent_ms : worker->result_ms;
    uint32_t ms = (uint32_t) (self->now_ms - from);
    self->duration_ms[self->n_duration++ % DURATIONS] = ms;
    speed_add (&worker->speed, ms, lease->batch->n_hit);
    speed_add (&self->speed, ms, lease->batch->n_hit);
}

/* 0: not to be compared. Which hit an engine is found to die of may depend on its machine.  */
static uint64_t hash_of (const wm_msg_t *msg, const wm_payload_t *payload)
{
    return memchr (payload->data, WM_HIT_POISON, msg->n_hit)
               ? 0
               : XXH3_64bits (payload->data, payload->bytes);
}

/* Two results of one batch by one kind of engine must be the same bytes.  */
static void compare_results (wm_core_t *self, batch_t *batch, const session_t *worker,
                             const wm_msg_t *msg, uint64_t hash)
{
    const uint16_t by = *msg->text ? core_signature (self, msg->text) : worker->signature;
    if (!batch->result_hash || !hash || batch->result_hash == hash || !batch->signature ||
        batch->signature != by || batch->flags & BATCH_ALARM)
        return;
    char text[200];
    snprintf (text, sizeof text,
              "ALARM: two results with other bytes from one engine signature, the second from %s",
              worker->label);
    batch->flags |= BATCH_ALARM;
    self->n_alarm++;
    if (!batch->event->input->closing && !(batch->event->flags & EVENT_DONE))
        batch_hold (self, batch, text);
    else { /* its rows may have been fetched: output and ledger must go on telling the same */
        core_reason (self, batch_key (batch), text);
        core_log (self, "%s: rows of %s; wiremill kick scores them anew", text,
                  batch->event->input->name);
    }
}

/* Hits the engine dies of, or has no number for: named, since the rest of the batch is done.  */
static void name_held_hits (wm_core_t *self, const batch_t *batch, const session_t *worker,
                            uint32_t n_poison)
{
    char text[200];
    snprintf (text, sizeof text,
              "%u of %u hits held: %u kill the engine%s%s%s, %u have no finite score",
              batch->n_held, batch->n_hit, n_poison, n_poison ? " of " : "",
              n_poison ? worker->label : "", n_poison ? " (its log says how to see it again)" : "",
              batch->n_held - n_poison);
    const wm_key_t key = batch_key (batch);
    core_reason (self, key, text);
    core_log (self, "batch %u.%u.%u of %s: %s", key.input, key.ordinal, key.batch,
              batch->event->input->path, text);
}

static void result_append (wm_core_t *self, batch_t *batch, session_t *worker, const wm_msg_t *msg,
                           const wm_payload_t *payload)
{
    const uint8_t *status = payload->data;
    uint32_t n_poison = 0;
    batch->n_held = 0;
    for (uint32_t i = 0; i < msg->n_hit; i++) {
        batch->n_held += status[i] != WM_HIT_SCORED;
        n_poison += status[i] == WM_HIT_POISON;
    }
    if (batch->n_held)
        name_held_hits (self, batch, worker, n_poison);
    outcome_note (self, worker,
                  n_poison && batch->n_held == msg->n_hit ? "its engine dies of every hit" : NULL);
    leases_revoke (self, batch, NULL);
    batch_set_state (self, batch, BATCH_COMMITTING);
    batch_drop_payload (self, batch);
    worker->n_batch_done++;
    worker->n_hit_done += msg->n_hit;
    rate_add (&worker->rate, self->now_ms, msg->n_hit);
    self->result_in += payload->bytes;
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_RESULT);
    record.key = msg->key;
    memcpy (record.digest, msg->digest, 16);
    record.n_batch = msg->n_batch;
    record.n_hit = msg->n_hit;
    record.n_held = batch->n_held;
    record.attempt = msg->attempt;
    if (batch->signature) {
        wm_record_text (&record, self->signature[batch->signature - 1]);
        arithmetic_count (self, self->signature[batch->signature - 1], msg->n_hit);
    }
    if (*msg->text) {
        self->n_again++;
        core_log (self, "%s scored batch %u.%u.%u again, by %s: %s", worker->label, msg->key.input,
                  msg->key.ordinal, msg->key.batch, msg->text, msg->name);
    }
    core_append (self, &record, payload, worker, 0);
}

/* The batch that a result is of, if the result may count. An event that is not announced again yet
   is made from what the result says.  */
static batch_t *result_batch (wm_core_t *self, const wm_msg_t *msg)
{
    input_t *input = input_find (self, msg->key.input);
    if (!input || input->generation != msg->key.generation || input->state != INPUT_OPEN ||
        msg->key.ordinal == WM_ALL)
        return NULL;
    event_t *event = event_find (self, msg->key.input, msg->key.ordinal);
    if (!event)
        event = event_new (self, input, msg->key.ordinal, msg->n_batch);
    if (!event || event->n_batch != msg->n_batch)
        return NULL;
    batch_t *batch = &event->batch[msg->key.batch];
    if (batch->flags & BATCH_DIGEST)
        return memcmp (batch->digest, msg->digest, 16) == 0 && batch->n_hit == msg->n_hit ? batch
                                                                                          : NULL;
    memcpy (batch->digest, msg->digest, 16);
    batch->n_hit = msg->n_hit;
    batch->flags |= BATCH_DIGEST;
    return batch;
}

void worker_on_result (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                       const wm_payload_t *payload)
{
    if (!msg->n_hit || msg->n_hit > WM_RAW_BYTES_MAX || msg->n_batch > WM_EVENT_BATCHES_MAX ||
        msg->key.batch >= msg->n_batch || payload->bytes > WM_RAW_BYTES_MAX ||
        payload->bytes != wm_result_bytes (msg->n_hit, self->config.n_output) ||
        strnlen (msg->text, 64) == 64 || !*worker->arithmetic.class) {
        core_refuse (self, worker, WM_REASON_PROTOCOL,
                     "RESULT of %u hits in batch %u of %u with %zu bytes", msg->n_hit,
                     msg->key.batch, msg->n_batch, payload->bytes);
        return;
    }
    advance (self, worker);
    orphan_forget (self, worker, &msg->key);
    batch_t *known = batch_find (self, &msg->key);
    lease_t *lease = known ? lease_of (known, worker) : NULL;
    int late = !lease || lease->expired;
    if (lease)
        worker_saw (self, worker, lease->number);
    if (known && known->event->input->kicking) { /* of the old generation, and over with it */
        self->n_late++;
        core_also (self, WM_RECORD_RESULT, msg->key, worker, 0);
        return;
    }
    if (lease) {
        duration_note (self, worker, lease);
        lease_end (self, lease);
    }
    worker->result_ms = self->now_ms;
    batch_t *batch = result_batch (self, msg);
    if (!batch || batch->state == BATCH_HOLDING || batch->state == BATCH_HELD) {
        self->n_late++;
        if (known)
            batch_back (self, known); /* its lease ended with a result of something else */
        if (batch && batch->state == BATCH_HOLDING) /* not before HELD is durable */
            core_also (self, WM_RECORD_RESULT, msg->key, worker, 0);
        else
            worker_send_key (self, worker, WM_MSG_RESULT_ACK, msg->key);
        return;
    }
    uint64_t hash = hash_of (msg, payload);
    if (batch->state == BATCH_COMMITTING || batch->state == BATCH_RETURNED) {
        self->n_duplicate++;
        int returned = batch->state == BATCH_RETURNED;
        compare_results (self, batch, worker, msg, hash);
        if (returned)
            worker_send_key (self, worker, WM_MSG_RESULT_ACK, msg->key);
        else
            core_also (self, WM_RECORD_RESULT, msg->key, worker, 0);
        return;
    }
    if (arithmetic_bring (self, worker)) {
        batch_back (self, batch);
        return;
    }
    self->n_late += late != 0;
    batch->result_hash = hash;
    batch->signature = *msg->text ? core_signature (self, msg->text) : worker->signature;
    result_append (self, batch, worker, msg, payload);
}

/* ---- NACK --------------------------------------------------------------------------------------
 */
void worker_on_nack (wm_core_t *self, session_t *worker, const wm_msg_t *msg)
{
    if (msg->code != WM_EAGAIN && msg->code != WM_EBATCH && msg->code != WM_EHOST) {
        core_refuse (self, worker, WM_REASON_PROTOCOL, "NACK with code %u", msg->code);
        return;
    }
    advance (self, worker);
    orphan_forget (self, worker, &msg->key);
    batch_t *batch = batch_find (self, &msg->key);
    lease_t *lease = batch ? lease_of (batch, worker) : NULL;
    if (!lease)
        return;
    worker_saw (self, worker, lease->number);
    int expired = lease->expired; /* it has been blamed then */
    lease_end (self, lease);
    if (msg->code == WM_EAGAIN) {
        self->n_preempt++;
        worker_on_drain (self, worker); /* until it gives credit again */
    } else if (!expired) {
        core_log (self, "%s refuses batch %u.%u.%u: %s", worker->label, msg->key.input,
                  msg->key.ordinal, msg->key.batch, msg->text);
        batch_blame (self, batch, worker, msg->code == WM_EHOST, msg->text);
    }
    if (msg->code != WM_EAGAIN)
        outcome_note (self, worker, msg->text);
    batch_back (self, batch);
}

/* ---- time --------------------------------------------------------------------------------------
 */
static int by_size (const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
    return (x > y) - (x < y);
}

/* The lease: ten times what 95 of 100 batches take, but never less than the table says.  */
void workers_look_at_durations (wm_core_t *self)
{
    if (!self->n_duration || self->now_ms - self->lease_looked_ms < 1000)
        return;
    self->lease_looked_ms = self->now_ms;
    uint32_t sorted[DURATIONS], n = self->n_duration < DURATIONS ? self->n_duration : DURATIONS;
    memcpy (sorted, self->duration_ms, n * sizeof *sorted);
    qsort (sorted, n, sizeof *sorted, by_size);
    int64_t lease_ms = 10 * (int64_t) sorted[(n - 1) * 95 / 100];
    self->lease_ms =
        lease_ms > self->config.times.lease_ms ? lease_ms : self->config.times.lease_ms;
}

void worker_tick (wm_core_t *self, session_t *worker)
{
    if (!worker->n_lease || worker->stalled || self->now_ms - worker->progress_ms <= self->lease_ms)
        return;
    core_log (self, "worker %s has not advanced for %lld ms: its work goes elsewhere",
              worker->label, (long long) (self->now_ms - worker->progress_ms));
    worker->stalled = 1;
    lease_t *prev;
    for (lease_t *lease = worker->lease_tail; lease; lease = prev) {
        prev = lease->prev;
        batch_t *batch = lease->batch;
        wm_key_t key = batch_key (batch);
        if (lease->expired)
            continue;
        if (memcmp (&key, &worker->executing, sizeof key) == 0) {
            lease->expired = 1;
            batch_blame (self, batch, worker, 1, "no progress");
        } else {
            worker_send_key (self, worker, WM_MSG_REVOKE, key);
            lease_end (self, lease);
        }
        batch_back (self, batch);
    }
    worker_update (self, worker);
}
