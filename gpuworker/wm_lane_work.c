/* wm_lane_work.c - batches: from TASK through the engine to RESULT.

     TASK -> book (QUEUED) -> decoded into a free slot (STAGED) -> submitted -> RETURNED
                                                   ^                  | the engine dies
                                                   +--- next part ----+ (wm_poison)

   A slot keeps its batch until it is scored or handed back; where the engine dies, only parts of it
   are submitted, until the hit is found. The other slots go on meanwhile. Where it dies of several
   batches together, each of them goes again alone: one that kills it explains the death; if none
   does, it was an accident of the machine.  */
#include "gpuworker/wm_lane_private.h"
#include "schema/base/wm_failpoint.h"
#include "schema/wm_trace.h"

#include <math.h>
#include <string.h>

/* ---- messages out -----------------------------------------------------------------------------*/

/* A failed send is the end of the session, which wait reports; so nobody looks at it here.  */
static void nack (wm_lane_t *self, const wm_key_t *key, uint32_t attempt, wm_fault_t code,
                  const char *text)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_NACK);
    msg.key = *key;
    msg.attempt = attempt;
    msg.code = code;
    snprintf (msg.text, sizeof msg.text, "%s", text);
    wm_client_send (self->client, &msg, NULL, 0);
    if (code == WM_EAGAIN)
        wm_credit_again (&self->credit);
}

void lane_send_result (wm_task_t *task, void *argument)
{
    wm_lane_t *self = argument;
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_RESULT);
    msg.key = task->key;
    memcpy (msg.digest, task->digest, sizeof msg.digest);
    msg.n_batch = task->n_batch;
    msg.n_hit = task->n_hit;
    msg.attempt = task->attempt;
    if (*task->again) {
        snprintf (msg.text, sizeof msg.text, "%s", wm_scorer_strict (self->scorer));
        memcpy (msg.name, task->again, sizeof task->again);
    }
    WM_FAILPOINT ("worker-result-send");
    wm_client_send (self->client, &msg, task->status, task->result_bytes);
    WM_FAILPOINT ("worker-result-sent");
}

/* ---- slots ------------------------------------------------------------------------------------*/

static void slot_clear (lane_slot_t *slot)
{
    wm_poison_destroy (&slot->poison);
    *slot = (lane_slot_t){ 0 };
}

static void forget (wm_lane_t *self, wm_task_t *task)
{
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (self->slot[i].task == task)
            slot_clear (&self->slot[i]);
    wm_book_forget (self->book, task);
}

/* 1: the engine has not begun what was submitted, and will not.  */
static int withdraw (wm_lane_t *self, unsigned i)
{
    lane_slot_t *slot = &self->slot[i];
    if (slot->submitted && !wm_scorer_take_back (self->scorer, i))
        return 0;
    slot->submitted = 0;
    return 1;
}

static void give_back (wm_task_t *task, void *argument)
{
    wm_lane_t *self = argument;
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (self->slot[i].task == task && !withdraw (self, i))
            return;
    nack (self, &task->key, task->attempt, WM_EAGAIN, self->why);
    forget (self, task);
}

static void turn_end (wm_lane_t *self)
{
    if (!self->turn)
        return;
    const int64_t ms = self->turn_ms ? wm_now_ms () - self->turn_ms : 0;
    self->turn_ms = 0;
    self->turn_hits = 0;
    wm_stride_done (self->turn, self->seat, (double) ms * 1e-3);
}

/* The turn is over, unless more of it is being computed.  */
static void turn_over (wm_lane_t *self)
{
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (self->slot[i].submitted)
            return;
    turn_end (self);
}

void lane_give_back (wm_lane_t *self)
{
    wm_book_each (self->book, WM_TASK_QUEUED, give_back, self);
    wm_book_each (self->book, WM_TASK_STAGED, give_back, self);
    if (!lane_executes (self))
        turn_over (self);
}

const wm_task_t *lane_executes (const wm_lane_t *self)
{
    const wm_task_t *first = NULL;
    for (unsigned i = 0; i < WM_SLOTS; i++) {
        const lane_slot_t *slot = &self->slot[i];
        if ((slot->submitted || slot->poison) && (!first || slot->task->serial < first->serial))
            first = slot->task;
    }
    return first;
}

/* ---- failures ---------------------------------------------------------------------------------*/

/* A batch failed: whose fault it was is told.  */
static void fail (wm_lane_t *self, wm_task_t *task, const wm_error_t *error)
{
    const wm_fault_t code = error->fault == WM_EPEER ? WM_EBATCH : error->fault;
    lane_say ("batch %u:%u:%u failed: %s", task->key.input, task->key.ordinal, task->key.batch,
              error->text);
    nack (self, &task->key, task->attempt, code, error->text);
    forget (self, task);
    wm_credit_failure (&self->credit);
}

/* A failure of this machine: three of them within failures_ms end its work.  */
static void machine_failed (wm_lane_t *self, const char *how)
{
    const int64_t now = wm_now_ms ();
    wm_credit_failure (&self->credit);
    memmove (self->failure_ms, self->failure_ms + 1,
             (LANE_FAILURES_MAX - 1) * sizeof *self->failure_ms);
    self->failure_ms[LANE_FAILURES_MAX - 1] = now;
    if (!self->failure_ms[0] || now - self->failure_ms[0] > wm_times ()->failures_ms)
        return;
    char why[WM_TEXT_BYTES_MAX + 1];
    snprintf (why, sizeof why, "%u failures of its engine in %lld s, the last: %.300s",
              LANE_FAILURES_MAX, (long long) (now - self->failure_ms[0] + 999) / 1000, how);
    wm_scorer_stop (self->scorer);
    lane_drain (self, WM_EXIT_FAILURE, why);
}

/* ---- poison -----------------------------------------------------------------------------------*/

static void hold_hits (wm_lane_t *self, unsigned i, const char *how)
{
    wm_task_t *task = self->slot[i].task;
    const uint32_t *hit, n = wm_poison_hits (self->slot[i].poison, &hit);
    wm_error_t error = { 0 };
    char path[4096];
    for (uint32_t k = 0; k < n; k++) {
        task->status[hit[k]] = WM_HIT_POISON;
        for (uint32_t j = 0; j < self->pins.n_output; j++)
            task->scores[(size_t) hit[k] * self->pins.n_output + j] = NAN;
        const wm_fault_t fault = lane_keep_replay (self, i, hit[k], how, path, &error);
        lane_say ("hit %u of batch %u:%u:%u kills the engine (%s): held; %s%s%s", hit[k],
                  task->key.input, task->key.ordinal, task->key.batch, how,
                  fault ? "no file that shows it: " : "wiremill-worker --replay ",
                  fault ? error.text : path, fault ? "" : " shows it again");
    }
    self->n_poison += n;
}

/* ---- the engine's side ------------------------------------------------------------------------*/

/* All hits of the slot's batch have a status.  */
static void finished (wm_lane_t *self, unsigned i)
{
    lane_slot_t *slot = &self->slot[i];
    wm_task_t *task = slot->task;
    const double seconds = slot->seconds;
    WM_TRACE ("compute", &task->key, (int64_t) (1e9 * seconds));
    slot_clear (slot);
    task->state = WM_TASK_RETURNED;
    lane_feed (self); /* the engine goes on before the network is looked at */
    lane_send_result (task, self);
    self->n_batch++;
    self->n_hit += task->n_hit;
    self->engine_s += seconds;
    wm_credit_success (&self->credit, seconds);
}

/* The engine dies of the slot's batch whatever part it is given. code: WM_EHOST, or WM_EAGAIN where it
   only wants memory, and nothing is held against the batch.  */
static void machine_at_fault (wm_lane_t *self, unsigned i, wm_fault_t code, const char *how)
{
    wm_error_t error;
    wm_fault (&error, code, "the engine died %u times of it, the last time: %.300s",
              wm_poison_deaths (self->slot[i].poison), how);
    fail (self, self->slot[i].task, &error);
    machine_failed (self, how);
}

/* A part of the batch was scored, or the engine died of it: what is known now?  */
static void conclude (wm_lane_t *self, unsigned i, wm_poison_verdict_t verdict, const char *how)
{
    lane_slot_t *slot = &self->slot[i];
    wm_task_t *task = slot->task;
    switch (verdict) {
    case WM_POISON_MORE:
        if (self->draining) /* a long search: somebody else's */
            give_back (task, self);
        return;
    case WM_POISON_NONE: {
        const int starved = wm_poison_has_starved (slot->poison);
        lane_say ("batch %u:%u:%u: %s", task->key.input, task->key.ordinal, task->key.batch,
                  starved ? "scored in parts, for want of memory"
                          : "no hit kills the engine, an accident of this machine");
        finished (self, i);
        if (!starved)
            machine_failed (self, how);
        return;
    }
    case WM_POISON_ONLY:
        if (task->attempt <= 1 && self->n_hit == self->n_poison) { /* nothing speaks for us */
            machine_at_fault (self, i, WM_EHOST, how);
            return;
        }
        /* fall through */
    case WM_POISON_FOUND:
        hold_hits (self, i, how);
        finished (self, i);
        return;
    case WM_POISON_MACHINE:
        machine_at_fault (self, i, WM_EHOST, how);
        return;
    case WM_POISON_STARVED:
        machine_at_fault (self, i, WM_EAGAIN, how);
        return;
    }
}

/* The engine lived through a batch that it had died of among others. After the last of these it is
   clear that none was to blame.  */
static void lived_alone (wm_lane_t *self)
{
    char how[sizeof self->together];
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (self->slot[i].alone)
            return;
    if (!*self->together)
        return;
    memcpy (how, self->together, sizeof how);
    *self->together = '\0';
    lane_say ("none of these batches kills the engine alone, an accident of this machine");
    machine_failed (self, how);
}

static void scored (wm_lane_t *self, unsigned i)
{
    lane_slot_t *slot = &self->slot[i];
    wm_task_t *task = slot->task;
    wm_error_t error = { 0 };
    double seconds;
    int again;
    const int alone = slot->alone;
    const wm_fault_t fault =
        wm_scorer_answer (self->scorer, i, task->status, task->scores, &seconds, &again, &error);
    if (again) {
        snprintf (task->again, sizeof task->again, "%.239s", error.text);
        lane_say ("batch %u:%u:%u scored again by strict fp32: %s", task->key.input,
                  task->key.ordinal, task->key.batch, error.text);
    }
    slot->submitted = slot->alone = 0;
    slot->seconds += seconds;
    turn_over (self);
    if (fault)
        fail (self, task, &error);
    else if (slot->poison)
        conclude (self, i, wm_poison_passed (slot->poison), "it died before");
    else
        finished (self, i);
    if (alone)
        lived_alone (self);
}

/* The engine ended while it scored several batches together.  */
static void split (wm_lane_t *self, unsigned bits, const wm_error_t *error)
{
    unsigned n = 0;
    self->n_end++;
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (bits >> i & 1 && self->slot[i].task)
            self->slot[i].alone = 1, n++;
    lane_say ("the engine ended on %u batches together: %s; starting it again, each goes alone", n,
              error->text);
    wm_credit_failure (&self->credit);
    snprintf (self->together, sizeof self->together, "%.150s", error->text);
    turn_end (self); /* others need not wait until it is back */
    if (self->draining)
        lane_give_back (self);
}

/* The engine ended, and another one is started already. i: what it was scoring.  */
static void ended (wm_lane_t *self, unsigned i, const wm_error_t *error)
{
    self->n_end++;
    if (i == WM_SLOTS) {
        lane_say ("the engine ended: %s; starting it again", error->text);
        machine_failed (self, error->text);
        return;
    }
    lane_slot_t *slot = &self->slot[i];
    slot->submitted = 0;
    if (slot->alone) /* so it is this one, or one more accident, that is looked into now */
        *self->together = '\0';
    slot->alone = 0;
    turn_over (self);
    const int starved = error->fault == WM_EAGAIN;
    if (!slot->poison) {
        lane_say ("the engine ended on batch %u:%u:%u: %s; starting it again %s",
                  slot->task->key.input, slot->task->key.ordinal, slot->task->key.batch,
                  error->text, starved ? "with less of it at a time" : "and looking for the hit");
        wm_credit_failure (&self->credit);
        slot->poison = wm_poison_new (slot->task->n_hit);
    }
    conclude (self, i, starved ? wm_poison_starved (slot->poison) : wm_poison_died (slot->poison),
              error->text);
}

void lane_look (wm_lane_t *self)
{
    wm_error_t error = { 0 };
    unsigned slot = 0;
    for (;;) {
        switch (wm_scorer_look (self->scorer, &slot, &error)) {
        case WM_SCORER_NOTHING:
            return;
        case WM_SCORER_READY:
            break;
        case WM_SCORER_SCORED:
            scored (self, slot);
            break;
        case WM_SCORER_ENDED:
            ended (self, slot, &error);
            break;
        case WM_SCORER_SPLIT:
            split (self, slot, &error);
            break;
        case WM_SCORER_HOPELESS:
            wm_scorer_stop (self->scorer);
            lane_drain (self, WM_EXIT_FAILURE, error.text);
            return;
        }
    }
}

/* Decodes the oldest queued batch into a free slot. 0: there is no batch, or no slot.  */
static int stage (wm_lane_t *self)
{
    const unsigned n = wm_scorer_slots (self->scorer);
    unsigned i = 0;
    while (i < n && self->slot[i].task)
        i++;
    wm_task_t *task = i < n ? wm_book_oldest (self->book, WM_TASK_QUEUED) : NULL;
    if (!task)
        return 0;
    wm_batch_t *batch = wm_scorer_batch (self->scorer, i);
    wm_error_t error = { 0 };
    uint8_t digest[16];
    const int64_t start_ns = wm_trace_now_ns ();
    wm_fault_t fault =
        wm_batch_decode (batch, self->coder, task->payload, task->payload_bytes, &error);
    if (!fault && batch->n_hit != task->n_hit)
        fault = wm_fault (&error, WM_EBATCH, "the payload holds %u hits, its task says %u",
                          batch->n_hit, task->n_hit);
    if (!fault) {
        wm_batch_digest (batch, self->pins_digest, digest);
        if (memcmp (digest, task->digest, sizeof digest))
            fault = wm_fault (&error, WM_EBATCH, "the payload does not match its digest");
    }
    if (fault) {
        fail (self, task, &error);
        return 1;
    }
    WM_TRACE ("stage", &task->key, wm_trace_now_ns () - start_ns);
    task->state = WM_TASK_STAGED;
    self->slot[i].task = task;
    return 1;
}

/* Submits what is staged, in order of arrival: all of it, or where turns are taken one batch, or as
   many as go together.  */
static void submit (wm_lane_t *self)
{
    for (;;) {
        unsigned due = WM_SLOTS;
        for (unsigned i = 0; i < WM_SLOTS; i++) {
            const lane_slot_t *slot = &self->slot[i];
            if (slot->task && !slot->submitted &&
                (due == WM_SLOTS || slot->task->serial < self->slot[due].task->serial))
                due = i;
        }
        if (due == WM_SLOTS ||
            (self->turn && self->turn_hits && self->turn_hits >= wm_scorer_fill (self->scorer)))
            return;
        if (self->turn && !wm_scorer_is_ready (self->scorer)) {
            turn_end (self); /* others need not wait until it is back */
            return;
        }
        if (self->turn && !wm_stride_ask (self->turn, self->seat))
            return;
        lane_slot_t *slot = &self->slot[due];
        uint32_t first = 0, count = slot->task->n_hit;
        if (slot->poison)
            wm_poison_part (slot->poison, &first, &count);
        self->turn_ms = self->turn_ms ? self->turn_ms : wm_now_ms ();
        self->turn_hits += count;
        WM_FAILPOINT ("worker-execute");
        slot->submitted = 1;
        uint64_t draw;
        memcpy (&draw, slot->task->digest, sizeof draw);
        wm_scorer_draw (self->scorer, due, draw);
        wm_scorer_submit (self->scorer, due, first, count, slot->poison || slot->alone);
    }
}

void lane_feed (wm_lane_t *self)
{
    if (self->draining)
        return;
    submit (self);
    while (stage (self))
        submit (self);
}

/* ---- messages in ------------------------------------------------------------------------------*/

static void take_task (wm_lane_t *self, const wm_msg_t *msg)
{
    size_t bytes;
    const uint8_t *payload = wm_client_payload (self->client, &bytes);
    wm_error_t error = { 0 };
    self->credit.received++;
    if (self->draining) {
        nack (self, &msg->key, msg->attempt, WM_EAGAIN, self->why);
        return;
    }
    wm_task_t *held = wm_book_find (self->book, &msg->key);
    if (held && !memcmp (held->digest, msg->digest, sizeof held->digest)) {
        held->attempt = msg->attempt; /* sent again what is held: one answer is enough */
        if (held->state == WM_TASK_RETURNED)
            lane_send_result (held, self);
        return;
    }
    const wm_fault_t fault = wm_book_add (self->book, msg, payload, bytes, &error);
    if (fault) {
        lane_say ("batch %u:%u:%u refused: %s", msg->key.input, msg->key.ordinal, msg->key.batch,
                  error.text);
        nack (self, &msg->key, msg->attempt, fault == WM_EHOST ? WM_EAGAIN : fault, error.text);
        if (fault == WM_EHOST) /* no memory for it */
            machine_failed (self, error.text);
    }
}

/* Drops a batch nobody wants, unless the engine has begun it.  */
static void take_revoke (wm_lane_t *self, wm_task_t *task)
{
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (self->slot[i].task == task && !withdraw (self, i))
            return;
    forget (self, task);
    if (!lane_executes (self))
        turn_over (self);
}

void lane_take_message (wm_lane_t *self)
{
    const wm_msg_t *msg = wm_client_msg (self->client);
    wm_task_t *task = wm_book_find (self->book, &msg->key);
    switch (msg->type) {
    case WM_MSG_TASK:
        take_task (self, msg);
        break;
    case WM_MSG_RESULT_ACK:
        WM_FAILPOINT ("worker-result-acked");
        if (task && task->state == WM_TASK_RETURNED)
            forget (self, task);
        break;
    case WM_MSG_REVOKE:
        if (task && task->state != WM_TASK_RETURNED)
            take_revoke (self, task);
        break;
    case WM_MSG_DRAIN:
        lane_drain (self, WM_EXIT_OK, msg->text[0] ? msg->text : "the broker asks for it");
        break;
    default: /* a late MODEL: nothing asked for it */
        break;
    }
}
