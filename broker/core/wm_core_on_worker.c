/* wm_core_on_worker.c - handles a worker's messages: CREDIT, HEARTBEAT, RESULT, NACK, DRAIN.  */
#include "broker/core/wm_core_check_private.h"
#include "schema/wm_ragged.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* ---- CREDIT, DRAIN, HEARTBEAT ---------------------------------------------------------------- */

static void on_credit (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                       const wm_payload_t *payload)
{
    (void) payload;
    if (!*worker->arithmetic.class && msg->count) {
        wm_core_refuse (self, worker, WM_REASON_PROTOCOL,
                        "CREDIT of a worker whose HELLO named no class of machines");
        return;
    }
    worker->credit = msg->count;
    worker->draining = worker->dismissed;
    wm_core_worker_update (self, worker);
}

static void drain (wm_core_t *self, session_t *worker)
{
    worker->draining = true;
    wm_core_worker_update (self, worker);
}

static void on_drain (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                      const wm_payload_t *payload)
{
    (void) msg, (void) payload;
    drain (self, worker);
}

static void advance (wm_core_t *self, session_t *worker)
{
    worker->progress_ms = self->now_ms;
    if (worker->stalled) {
        worker->stalled = false;
        wm_core_worker_update (self, worker);
    }
}

static void on_heartbeat (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                          const wm_payload_t *payload)
{
    (void) payload;
    if (msg->received > worker->sent) {
        wm_core_refuse (self, worker, WM_REASON_PROTOCOL,
                        "HEARTBEAT: received %llu TASKs of the %llu that were sent",
                        (unsigned long long) msg->received, (unsigned long long) worker->sent);
        return;
    }
    wm_core_worker_received (self, worker, msg->received);
    if (msg->key.input && (memcmp (&worker->executing, &msg->key, sizeof msg->key) != 0 ||
                           msg->count > worker->progress))
        advance (self, worker);
    if (!msg->key.input && worker->stalled) { /* it is idle, so it does not hang */
        worker->stalled = false;
        wm_core_worker_update (self, worker);
    }
    worker->executing = msg->key.input ? msg->key : (wm_key_t){ 0 };
    worker->progress = msg->count;
    wm_core_wait_reported (self, worker, msg);
}

/* ---- RESULT ---------------------------------------------------------------------------------- */

static void duration_note (wm_core_t *self, session_t *worker, const lease_t *lease)
{
    int64_t from = lease->sent_ms > worker->result_ms ? lease->sent_ms : worker->result_ms;
    uint32_t ms = (uint32_t) (self->now_ms - from);
    self->leases.duration_ms[self->leases.n_duration++ % DURATIONS] = ms;
    wm_speed_add (&worker->speed, ms, lease->batch->n_hit);
    wm_speed_add (&self->workers.speed, ms, lease->batch->n_hit);
}

/* Hash of a result; 0: not to be compared, because which hits kill an engine depends on its
   machine.  */
static uint64_t hash_of (const wm_msg_t *msg, const wm_payload_t *payload)
{
    return memchr (payload->data, WM_HIT_POISON, msg->n_hit)
               ? 0
               : XXH3_64bits (payload->data, payload->bytes);
}

/* Whether this second result of the batch shows that one of the two is wrong: by engines of one
   signature they are equal in every byte, if that fixes them.  */
static bool contradicts (const wm_core_t *self, const batch_t *batch, uint16_t by, uint64_t hash)
{
    return batch->result_hash && hash && batch->result_hash != hash && batch->signature == by &&
           wm_core_fixes_bits (self, by) && !(batch->flags & BATCH_ALARM);
}

static void raise_alarm (wm_core_t *self, batch_t *batch, const session_t *worker)
{
    char text[200];
    snprintf (text, sizeof text,
              "ALARM: two results of one engine signature differ, the second is from %s",
              worker->label);
    batch->flags |= BATCH_ALARM;
    self->totals.n_alarm++;
    if (!batch->event->input->closing && !(batch->event->flags & EVENT_DONE))
        wm_core_batch_hold (self, batch, text);
    else { /* its rows may have been fetched: output and ledger must stay equal */
        wm_core_note_reason (self, wm_core_batch_key (batch), text);
        wm_core_log (self, "%s: rows of %s; wiremill kick scores them again", text,
                     batch->event->input->name);
    }
}

/* Logs the hits without scores, and names the batch in the status: its other hits are done.  */
static void name_held_hits (wm_core_t *self, const batch_t *batch, const session_t *worker,
                            uint32_t n_poison)
{
    char text[200];
    snprintf (
        text, sizeof text, "%u of %u hits held: %u kill the engine%s%s%s, %u have no finite score",
        batch->n_held, batch->n_hit, n_poison, n_poison ? " of " : "",
        n_poison ? worker->label : "", n_poison ? " (its log has the command to reproduce it)" : "",
        batch->n_held - n_poison);
    const wm_key_t key = wm_core_batch_key (batch);
    wm_core_note_reason (self, key, text);
    wm_core_log (self, "batch %u.%u.%u of %s: %s", key.input, key.ordinal, key.batch,
                 batch->event->input->path, text);
}

uint32_t wm_core_summed (const wm_core_t *self)
{
    const wm_core_config_t *config = &self->config;
    return config->for_clients || config->is_ragged || config->n_output > WM_SUMMARY_SCORES_MAX
               ? 0
               : config->n_output;
}

/* For the mean of each score, so that drift can be seen while a campaign runs.  */
static void sum_scores (wm_core_t *self, const wm_msg_t *msg, const wm_payload_t *payload)
{
    const uint8_t *status = payload->data, *at = status + msg->n_hit;
    const uint32_t n = wm_core_summed (self);
    for (uint32_t i = 0; n > 0 && i < msg->n_hit; i++, at += n * sizeof (float)) {
        float score[WM_SUMMARY_SCORES_MAX];
        if (status[i] != WM_HIT_SCORED)
            continue;
        memcpy (score, at, n * sizeof *score);
        self->totals.n_summed++;
        for (uint32_t k = 0; k < n; k++)
            self->totals.score_sum[k] += (double) score[k];
    }
}

/* I2: the batch is COMMITTING from here on.  */
static void result_append (wm_core_t *self, batch_t *batch, session_t *worker, const wm_msg_t *msg,
                           const wm_payload_t *payload)
{
    const uint8_t *status = payload->data;
    uint32_t n_poison = 0;
    batch->n_held = 0;
    for (uint32_t i = 0; i < msg->n_hit; i++) {
        batch->n_held += status[i] != WM_HIT_SCORED;
        n_poison += status[i] == WM_HIT_POISON;
        if (status[i] != WM_HIT_SCORED)
            wm_core_input_note_held (batch->event->input, status[i]);
    }
    if (batch->n_held)
        name_held_hits (self, batch, worker, n_poison);
    wm_core_worker_note_outcome (
        self, worker,
        n_poison && batch->n_held == batch->n_hit ? "every hit kills its engine" : NULL);
    wm_core_check_result (self, worker, batch, payload);
    wm_core_lease_revoke_all (self, batch);
    wm_core_batch_set_state (self, batch, BATCH_COMMITTING);
    wm_core_batch_drop_payload (self, batch);
    worker->n_batch_done++;
    worker->n_hit_done += msg->n_hit;
    wm_rate_add (&worker->rate, self->now_ms, batch->n_hit);
    sum_scores (self, msg, payload);
    self->totals.result_in += payload->bytes;
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_RESULT);
    record.key = msg->key;
    memcpy (record.digest, msg->digest, 16);
    record.n_batch = msg->n_batch;
    record.n_hit = msg->n_hit;
    record.n_held = batch->n_held;
    record.attempt = msg->attempt;
    if (batch->signature)
        wm_record_text (&record, self->arithmetic.signature[batch->signature - 1]);
    if (*msg->text) {
        self->arithmetic.n_again++;
        wm_core_log (self, "%s scored batch %u.%u.%u again, by %s: %s", worker->label,
                     msg->key.input, msg->key.ordinal, msg->key.batch, msg->text, msg->name);
    }
    wm_core_append (self, &record, payload, worker, 0);
}

/* Whether a result may count: its input is open, and its event has as many batches, if it is known.
 */
static bool result_counts (const wm_core_t *self, const wm_msg_t *msg)
{
    const input_t *input = wm_core_input_find (self, msg->key.input);
    const event_t *event = wm_core_event_find (self, msg->key.input, msg->key.ordinal);
    return input && input->generation == msg->key.generation && input->state == WM_LEDGER_OPEN &&
           msg->key.ordinal != WM_ALL && (!event || event->n_batch == msg->n_batch);
}

/* There are too many results of events that no producer has announced: the worker keeps this one.
   It is refused if it does not hold the batch as an orphan (wm_core_orphan.c).  */
static void stray_leave (wm_core_t *self, session_t *worker, const wm_msg_t *msg)
{
    if (!wm_core_worker_set_aside (worker, &msg->key))
        wm_core_refuse (self, worker, WM_REASON_BUSY,
                        "too many results of events that no producer has announced: send "
                        "the result of %u.%u.%u later",
                        msg->key.input, msg->key.ordinal, msg->key.batch);
    else {
        if (!worker->set_aside)
            wm_core_log (self,
                         "worker %s keeps its results, the first of them %u.%u.%u: the broker has "
                         "too many results of events that no producer has announced; start the "
                         "producers again",
                         worker->label, msg->key.input, msg->key.ordinal, msg->key.batch);
        worker->set_aside = true;
    }
}

static batch_t *stray_make (wm_core_t *self, session_t *worker, const wm_msg_t *msg)
{
    event_t *event = wm_core_event_find (self, msg->key.input, msg->key.ordinal);
    if (!event)
        event = wm_core_event_new (self, wm_core_input_find (self, msg->key.input),
                                   msg->key.ordinal, msg->n_batch);
    batch_t *batch = event ? wm_core_event_add (self, event, msg->key.batch) : NULL;
    if (batch) {
        self->workers.n_stray++;
        worker->n_stray++;
        event->n_stray++;
    } else
        wm_core_refuse (self, worker, WM_REASON_BUSY, "no memory for another result: try later");
    return batch;
}

/* Makes the batch of a result whose event is not announced (again) yet. NULL: it is not taken now,
   or the worker is refused; the worker keeps it, because it gets no RESULT_ACK.  */
static batch_t *stray_take (wm_core_t *self, session_t *worker, const wm_msg_t *msg)
{
    if (worker->n_stray >= WM_STRAY_MAX || self->workers.n_stray >= self->config.stray_max) {
        stray_leave (self, worker, msg);
        return NULL;
    }
    return wm_core_arithmetic_bring (self, worker) ? stray_make (self, worker, msg) : NULL;
}

/* Whether a result is of this batch's content. The first result defines the content of a batch
   whose event is not announced.  */
static bool is_of_batch (batch_t *batch, const wm_msg_t *msg)
{
    if (!(batch->flags & BATCH_DIGEST)) {
        memcpy (batch->digest, msg->digest, 16);
        batch->n_hit = msg->n_hit;
        batch->flags |= BATCH_DIGEST;
    }
    return memcmp (batch->digest, msg->digest, 16) == 0 && batch->n_hit == msg->n_hit;
}

/* Whether a result has the size that it must have. A ragged row that kills engines is a status
   alone.  */
static bool result_fits (const wm_core_t *self, const wm_msg_t *msg, const wm_payload_t *payload)
{
    const size_t bytes = wm_result_bytes (msg->n_hit, self->config.n_output);
    return self->config.is_ragged
               ? msg->n_hit == 1 && payload->bytes <= bytes && payload->bytes % 4 == 1
               : payload->bytes == bytes;
}

/* Whether a ragged result is another row than its size and its status tell.  */
static bool ragged_is_malformed (const wm_payload_t *payload, char *text, size_t bytes)
{
    const uint8_t *status = payload->data;
    const size_t n_value = payload->bytes / 4;
    float length = 0;
    if (n_value)
        memcpy (&length, status + 1, sizeof length);
    const uint32_t n = wm_ragged_length (&length, n_value);
    const bool is_bad = n != n_value || (!n && *status == WM_HIT_SCORED);
    if (is_bad)
        snprintf (text, bytes, "a row of %zu values that states %u", n_value, n);
    return is_bad;
}

/* Whether a result of the right size breaks a promise of wm_batch.h; text explains it. A worker
   holds hits whose scores are not finite, of clients those with a NaN (wm_device.c): one that sends
   them as scored is broken.  */
static bool result_is_malformed (const wm_core_t *self, const wm_msg_t *msg,
                                 const wm_payload_t *payload, char *text, size_t bytes)
{
    const uint8_t *status = payload->data, *at = status + msg->n_hit;
    const uint32_t n_output =
        self->config.is_ragged ? (uint32_t) payload->bytes / 4 : self->config.n_output;
    if (self->config.is_ragged && ragged_is_malformed (payload, text, bytes))
        return true;
    for (uint32_t i = 0; i < msg->n_hit; i++) {
        if (status[i] >= WM_HIT_STATUSES) {
            snprintf (text, bytes, "hit %u has the unknown status %u", i, status[i]);
            return true;
        }
        for (uint32_t k = 0; k < n_output; k++, at += sizeof (float)) {
            float score;
            memcpy (&score, at, sizeof score);
            if (status[i] == WM_HIT_SCORED &&
                (self->config.for_clients ? isnan (score) : !isfinite (score))) {
                snprintf (text, bytes, "hit %u is sent as scored, but its score %u is not finite",
                          i, k);
                return true;
            }
        }
    }
    return false;
}

/* Counts a failure of the batch on this worker, if it has the lease, and ends its session: the
   batch goes to another worker.  */
static void refuse_result (wm_core_t *self, session_t *worker, const wm_msg_t *msg, batch_t *batch,
                           const char *what)
{
    lease_t *lease = batch ? wm_core_lease_of (batch, worker) : NULL;
    if (lease) {
        const bool expired = lease->expired; /* it was blamed when it expired */
        wm_core_lease_end (self, lease);
        if (!expired)
            wm_core_batch_blame (self, batch, worker, false, what);
        wm_core_batch_back (self, batch);
    }
    wm_core_refuse (self, worker, WM_REASON_PROTOCOL,
                    "RESULT of batch %u.%u.%u is malformed, the worker is at fault: %s",
                    msg->key.input, msg->key.ordinal, msg->key.batch, what);
}

/* The result does not count: its batch is unknown, has other content by now, or is held. `known`:
   the batch of its key, which goes back if this worker had its last lease; NULL: none.  */
static void result_late (wm_core_t *self, session_t *worker, const wm_msg_t *msg, batch_t *known,
                         const batch_t *batch)
{
    self->totals.n_late++;
    if (known)
        wm_core_batch_back (self, known);
    if (batch && batch->state == BATCH_HOLDING) /* not before HELD is durable */
        wm_core_also (self, WM_RECORD_RESULT, msg->key, worker, 0);
    else
        wm_core_send_key (self, worker, WM_MSG_RESULT_ACK, msg->key);
}

/* Its batch has a result: they are compared, and the first counts (I2).  */
static void result_again (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                          const wm_payload_t *payload, batch_t *batch)
{
    const bool is_durable = batch->state == BATCH_RETURNED;
    self->totals.n_duplicate++;
    if (contradicts (self, batch, wm_core_result_signature (self, worker, msg),
                     hash_of (msg, payload)))
        raise_alarm (self, batch, worker);
    if (is_durable)
        wm_core_send_key (self, worker, WM_MSG_RESULT_ACK, msg->key);
    else
        wm_core_also (self, WM_RECORD_RESULT, msg->key, worker, 0);
}

/* A well-formed result that no check asked for. `known`: its batch, NULL without one.  */
static void result_take (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                         const wm_payload_t *payload, batch_t *known)
{
    batch_t *batch = known;
    const bool counts = result_counts (self, msg);
    if (!known && !self->config.for_clients && counts && !(batch = stray_take (self, worker, msg)))
        return;
    wm_core_worker_forget_orphan (self, worker, &msg->key);
    lease_t *lease = known ? wm_core_lease_of (known, worker) : NULL;
    const bool late = !lease || lease->expired;
    if (lease && memcmp (known->digest, msg->digest, 16) == 0) /* else it may not have the TASK */
        wm_core_worker_answered (self, worker, lease);
    if (known && known->event->input->kicking) { /* of the old generation, which ends */
        self->totals.n_late++;
        wm_core_also (self, WM_RECORD_RESULT, msg->key, worker, 0);
        return;
    }
    if (lease) {
        duration_note (self, worker, lease);
        wm_core_lease_end (self, lease);
    }
    worker->result_ms = self->now_ms;
    if (!counts || !batch || !is_of_batch (batch, msg))
        batch = NULL;
    if (!batch || batch->state == BATCH_HOLDING || batch->state == BATCH_HELD)
        result_late (self, worker, msg, known, batch);
    else if (batch->state == BATCH_COMMITTING || batch->state == BATCH_RETURNED)
        result_again (self, worker, msg, payload, batch);
    else if (!wm_core_arithmetic_bring (self, worker))
        wm_core_batch_back (self, batch);
    else {
        self->totals.n_late += late;
        batch->result_hash = hash_of (msg, payload);
        batch->signature = wm_core_result_signature (self, worker, msg);
        result_append (self, batch, worker, msg, payload);
    }
}

static void on_result (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                       const wm_payload_t *payload)
{
    char what[120];
    batch_t *batch = wm_core_batch_find (self, &msg->key);
    if (!msg->n_hit || msg->n_hit > WM_RAW_BYTES_MAX || msg->n_batch > WM_EVENT_BATCHES_MAX ||
        msg->key.batch >= msg->n_batch || !result_fits (self, msg, payload) ||
        strnlen (msg->text, 64) == 64 || !*worker->arithmetic.class)
        wm_core_refuse (self, worker, WM_REASON_PROTOCOL,
                        "RESULT of %u hits in batch %u of %u with %zu bytes", msg->n_hit,
                        msg->key.batch, msg->n_batch, payload->bytes);
    else if (result_is_malformed (self, msg, payload, what, sizeof what))
        refuse_result (self, worker, msg, batch, what);
    else {
        advance (self, worker);
        if (!wm_core_check_answer (self, worker, msg, payload))
            result_take (self, worker, msg, payload, batch);
    }
}

/* ---- NACK ------------------------------------------------------------------------------------ */

static void on_nack (wm_core_t *self, session_t *worker, const wm_msg_t *msg,
                     const wm_payload_t *payload)
{
    (void) payload;
    if (msg->code != WM_EAGAIN && msg->code != WM_EBATCH && msg->code != WM_EHOST) {
        wm_core_refuse (self, worker, WM_REASON_PROTOCOL, "NACK with code %u", msg->code);
        return;
    }
    advance (self, worker);
    if (wm_core_check_nack (self, worker, msg)) {
        if (msg->code == WM_EAGAIN)
            drain (self, worker);
        else
            wm_core_worker_note_outcome (self, worker, msg->text);
        return;
    }
    wm_core_worker_forget_orphan (self, worker, &msg->key);
    batch_t *batch = wm_core_batch_find (self, &msg->key);
    lease_t *lease = batch ? wm_core_lease_of (batch, worker) : NULL;
    if (!lease)
        return;
    wm_core_worker_answered (self, worker, lease);
    const bool expired = lease->expired; /* it was blamed when it expired */
    wm_core_lease_end (self, lease);
    if (msg->code == WM_EAGAIN) {
        self->totals.n_preempt++;
        drain (self, worker); /* until it gives credit again */
    } else if (!expired) {
        wm_core_log (self, "%s refuses batch %u.%u.%u: %s", worker->label, msg->key.input,
                     msg->key.ordinal, msg->key.batch, msg->text);
        wm_core_batch_blame (self, batch, worker, msg->code == WM_EHOST, msg->text);
    }
    if (msg->code != WM_EAGAIN)
        wm_core_worker_note_outcome (self, worker, msg->text);
    wm_core_batch_back (self, batch);
}

const wm_core_row_t wm_core_worker_rows[] = {
    { WM_MSG_CREDIT, BY_WORKER, WHILE_LIVE, 0, on_credit },
    { WM_MSG_HEARTBEAT, BY_WORKER, WHILE_LIVE, 0, on_heartbeat },
    { WM_MSG_RESULT, BY_WORKER, WHILE_LIVE, WM_PATCH_BYTES_MAX, on_result },
    { WM_MSG_NACK, BY_WORKER, WHILE_LIVE, 0, on_nack },
    { WM_MSG_DRAIN, BY_WORKER, WHILE_LIVE, 0, on_drain },
    { 0 },
};
