/* wm_lane_work.c - batches: from TASK through the engine to RESULT.

     TASK -> QUEUED -> decoded into a free slot (STAGED) -> submitted -> RETURNED
                                              ^                | the engine dies
                                              +-- next part ---+ (wm_poison)

   A slot keeps its batch until the engine has scored it or the lane gives it back. If the engine
   dies of one batch, the lane submits only parts of this batch until it has found the hit; the
   other slots go on meanwhile. If the engine dies while it scores several batches together, the
   lane submits each of them alone: one that kills the engine again explains the crash; if none
   does, the crash counts as a failure of this machine.  */
#include "gpuworker/wm_lane_private.h"
#include "schema/base/wm_failpoint.h"
#include "schema/wm_ragged.h"
#include "schema/wm_trace.h"

#include <math.h>
#include <string.h>

/* ---- messages out ---------------------------------------------------------------------------- */

/* A failed send ends the session, which wm_client_wait reports, so its result is ignored here.  */
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

void wm_lane_send_result (wm_task_t *task, void *argument)
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

/* ---- slots ----------------------------------------------------------------------------------- */

static void slot_clear (wm_lane_slot_t *slot)
{
    wm_poison_destroy (&slot->poison);
    *slot = (wm_lane_slot_t){ 0 };
}

static void forget (wm_lane_t *self, wm_task_t *task)
{
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (self->slot[i].task == task) {
            if (self->slot[i].decoding)
                wm_decode_cancel (self->decode, &self->job[i]);
            slot_clear (&self->slot[i]);
        }
    wm_tasks_forget (self->tasks, task);
}

/* Takes a submitted slot back. false: the engine has begun it.  */
static bool withdraw (wm_lane_t *self, unsigned i)
{
    wm_lane_slot_t *slot = &self->slot[i];
    if (slot->submitted && !wm_scorer_take_back (self->scorer, i))
        return false;
    slot->submitted = false;
    return true;
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

/* Whether a batch is ready for the engine, but for the one in this slot, whose round ends.  */
static bool has_more (const wm_lane_t *self, unsigned except)
{
    if (self->draining || !wm_scorer_is_ready (self->scorer))
        return false;
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (i != except && self->slot[i].task && !self->slot[i].decoding &&
            !self->slot[i].submitted)
            return true;
    return false;
}

static void end_round (wm_lane_t *self, unsigned except)
{
    if (!self->stride)
        return;
    const int64_t ms = self->round_ms ? wm_now_ms () - self->round_ms : 0;
    self->round_ms = 0;
    self->round_hits = 0;
    wm_stride_release (self->stride, self->number, (double) ms * 1e-3, has_more (self, except));
}

/* Ends the round, unless the engine still has a batch of it. except: the slot of a batch that is
   scored, or WM_SLOTS.  */
static void end_round_if_idle (wm_lane_t *self, unsigned except)
{
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (self->slot[i].submitted)
            return;
    end_round (self, except);
}

/* Gives back all batches that do not execute.  */
static void return_queued (wm_lane_t *self)
{
    wm_tasks_each (self->tasks, WM_TASK_QUEUED, give_back, self);
    wm_tasks_each (self->tasks, WM_TASK_STAGED, give_back, self);
    if (!wm_lane_executes (self))
        end_round_if_idle (self, WM_SLOTS);
}

void wm_lane_drain (wm_lane_t *self, int code, const char *why)
{
    if (!self->draining) {
        self->draining = true;
        self->code = code;
        snprintf (self->why, sizeof self->why, "%s", why);
        wm_lane_log ("draining: %s", why);
    } else if (code == WM_EXIT_FAILURE)
        self->code = code;
    return_queued (self);
}

const wm_task_t *wm_lane_executes (const wm_lane_t *self)
{
    const wm_task_t *first = NULL;
    for (unsigned i = 0; i < WM_SLOTS; i++) {
        const wm_lane_slot_t *slot = &self->slot[i];
        if ((slot->submitted || slot->poison) && (!first || slot->task->serial < first->serial))
            first = slot->task;
    }
    return first;
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Reports the failure of a batch with its fault class.  */
static void fail (wm_lane_t *self, wm_task_t *task, const wm_error_t *error)
{
    const wm_fault_t code = error->fault == WM_EPEER ? WM_EBATCH : error->fault;
    wm_lane_log ("batch %u:%u:%u failed: %s", task->key.input, task->key.ordinal, task->key.batch,
                 error->text);
    nack (self, &task->key, task->attempt, code, error->text);
    forget (self, task);
    wm_credit_failure (&self->credit);
}

int64_t wm_lane_note_failure (wm_lane_t *self, int64_t now)
{
    memmove (self->failure_ms, self->failure_ms + 1,
             (WM_LANE_FAILURES_MAX - 1) * sizeof *self->failure_ms);
    self->failure_ms[WM_LANE_FAILURES_MAX - 1] = now;
    const int64_t ms = now - self->failure_ms[0];
    return self->failure_ms[0] && ms <= wm_times ()->failures_ms ? ms : -1;
}

/* Counts a failure of this machine; three of them within failures_ms drain the lane.  */
static void machine_failed (wm_lane_t *self, const char *how)
{
    wm_credit_failure (&self->credit);
    const int64_t ms = wm_lane_note_failure (self, wm_now_ms ());
    if (ms < 0)
        return;
    char why[WM_TEXT_BYTES_MAX + 1];
    snprintf (why, sizeof why, "%u failures of its engine in %lld s, the last: %.300s",
              WM_LANE_FAILURES_MAX, (long long) (ms + 999) / 1000, how);
    wm_scorer_stop (self->scorer);
    wm_lane_drain (self, WM_EXIT_FAILURE, why);
}

/* The result of a ragged row ends with the row, and is its status alone where it has none.  */
static void fit_result (const wm_lane_t *self, wm_task_t *task)
{
    if (wm_pins_is_ragged (&self->pins) && task->status[0] == WM_HIT_POISON)
        task->result_bytes = 1;
    else if (wm_pins_is_ragged (&self->pins))
        task->result_bytes =
            1 + sizeof (float) * wm_ragged_length (task->scores, self->pins.n_output);
}

/* ---- poison ---------------------------------------------------------------------------------- */

static void hold_hits (wm_lane_t *self, unsigned i, const char *how)
{
    wm_task_t *task = self->slot[i].task;
    const uint32_t *hit, n = wm_poison_hits (self->slot[i].poison, &hit);
    wm_error_t error = { 0 };
    char path[4096];
    for (uint32_t k = 0; k < n; k++) {
        task->status[hit[k]] = WM_HIT_POISON;
        for (uint32_t j = 0; j < self->pins.n_output && !wm_pins_is_ragged (&self->pins); j++)
            task->scores[(size_t) hit[k] * self->pins.n_output + j] = NAN;
        const wm_fault_t fault = wm_lane_write_replay (self, i, hit[k], how, path, &error);
        wm_lane_log ("hit %u of batch %u:%u:%u kills the engine (%s): held; %s%s%s", hit[k],
                     task->key.input, task->key.ordinal, task->key.batch, how,
                     fault ? "no file that reproduces it: " : "wiremill-worker --replay ",
                     fault ? error.text : path, fault ? "" : " reproduces it");
    }
    self->n_poison += n;
}

/* ---- the engine's side ----------------------------------------------------------------------- */

/* Returns the hits of all batches in slots, *n of them.  */
static uint64_t hits_in_slots (const wm_lane_t *self, unsigned *n)
{
    uint64_t hits = 0;
    *n = 0;
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (self->slot[i].task) {
            hits += self->slot[i].task->n_hit;
            ++*n;
        }
    return hits;
}

/* All hits of the slot's batch have a status.  */
static void finished (wm_lane_t *self, unsigned i)
{
    wm_lane_slot_t *slot = &self->slot[i];
    wm_task_t *task = slot->task;
    const double seconds = slot->seconds;
    unsigned n;
    /* While a GPU's launches are not full, one more batch costs it nothing.  */
    const bool is_free = wm_scorer_slots (self->scorer) > WM_SLOTS_GATHER &&
                         hits_in_slots (self, &n) < wm_scorer_fill (self->scorer);
    fit_result (self, task);
    WM_TRACE ("compute", &task->key, (int64_t) (1e9 * seconds));
    slot_clear (slot);
    task->state = WM_TASK_RETURNED;
    wm_lane_feed (self); /* the engine first, then the network */
    wm_lane_send_result (task, self);
    self->n_batch++;
    self->n_hit += task->n_hit;
    self->engine_s += seconds;
    wm_credit_success (&self->credit, is_free ? 0 : seconds);
}

/* Gives up on the slot's batch: the engine dies of whatever part it gets. code: WM_EHOST, or
   WM_EAGAIN if it is short of memory only, which does not count against the batch.  */
static void machine_at_fault (wm_lane_t *self, unsigned i, wm_fault_t code, const char *how)
{
    wm_error_t error;
    wm_fault (&error, code, "the engine died %u times of it, the last time: %.300s",
              wm_poison_deaths (self->slot[i].poison), how);
    fail (self, self->slot[i].task, &error);
    machine_failed (self, how);
}

/* Acts on what the search knows after one more part.  */
static void conclude (wm_lane_t *self, unsigned i, wm_poison_verdict_t verdict, const char *how)
{
    wm_lane_slot_t *slot = &self->slot[i];
    wm_task_t *task = slot->task;
    switch (verdict) {
    case WM_POISON_MORE:
        if (self->draining) /* the search may be long: another worker does it */
            give_back (task, self);
        return;
    case WM_POISON_NONE: {
        const bool starved = wm_poison_has_starved (slot->poison);
        wm_lane_log ("batch %u:%u:%u: %s", task->key.input, task->key.ordinal, task->key.batch,
                     starved ? "scored in parts, because memory was short"
                             : "no hit kills the engine: a failure of this machine");
        finished (self, i);
        if (!starved)
            machine_failed (self, how);
        return;
    }
    case WM_POISON_ONLY:
        if (task->attempt <= 1 && self->n_hit == self->n_poison) { /* it never scored a hit here */
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

/* The engine survived, alone, a batch that it had died of among others. After the last of these
   none of them is the cause.  */
static void survived_alone (wm_lane_t *self)
{
    char how[sizeof self->together];
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (self->slot[i].alone)
            return;
    if (!*self->together)
        return;
    memcpy (how, self->together, sizeof how);
    *self->together = '\0';
    wm_lane_log ("none of these batches kills the engine alone: a failure of this machine");
    machine_failed (self, how);
}

static void scored (wm_lane_t *self, unsigned i)
{
    wm_lane_slot_t *slot = &self->slot[i];
    wm_task_t *task = slot->task;
    wm_error_t error = { 0 };
    double seconds;
    bool again;
    const bool alone = slot->alone;
    const wm_fault_t fault =
        wm_scorer_answer (self->scorer, i, task->status, task->scores, &seconds, &again, &error);
    if (again) {
        snprintf (task->again, sizeof task->again, "%.239s", error.text);
        wm_lane_log ("batch %u:%u:%u scored again by strict fp32: %s", task->key.input,
                     task->key.ordinal, task->key.batch, error.text);
    }
    slot->submitted = slot->alone = false;
    slot->seconds += seconds;
    end_round_if_idle (self, i);
    if (fault)
        fail (self, task, &error);
    else if (slot->poison)
        conclude (self, i, wm_poison_passed (slot->poison), "it died before");
    else
        finished (self, i);
    if (alone)
        survived_alone (self);
}

/* The engine ended while it scored several batches together. bits: their slots.  */
static void ended_many (wm_lane_t *self, uint64_t bits, const wm_error_t *error)
{
    unsigned n = 0;
    self->n_end++;
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (bits >> i & 1 && self->slot[i].task)
            self->slot[i].alone = true, n++;
    wm_lane_log ("the engine ended on %u batches together: %s; starting it again, each goes alone",
                 n, error->text);
    wm_credit_failure (&self->credit);
    snprintf (self->together, sizeof self->together, "%.150s", error->text);
    end_round (self, WM_SLOTS); /* other lanes need not wait for its restart */
    if (self->draining)
        return_queued (self);
}

/* The engine ended, and the scorer starts another one. i: the slot it was scoring, or WM_SLOTS.  */
static void ended (wm_lane_t *self, unsigned i, const wm_error_t *error)
{
    self->n_end++;
    if (i == WM_SLOTS) {
        wm_lane_log ("the engine ended: %s; starting it again", error->text);
        machine_failed (self, error->text);
        return;
    }
    wm_lane_slot_t *slot = &self->slot[i];
    slot->submitted = false;
    if (slot->alone) /* this batch may explain the crash of several: the search finds out */
        *self->together = '\0';
    slot->alone = false;
    end_round_if_idle (self, i);
    const bool starved = error->fault == WM_EAGAIN;
    if (starved)
        wm_lane_is_short (self, error->text);
    if (!slot->poison) {
        wm_lane_log ("the engine ended on batch %u:%u:%u: %s; starting it again %s",
                     slot->task->key.input, slot->task->key.ordinal, slot->task->key.batch,
                     error->text,
                     starved ? "with fewer hits at a time" : "and looking for the hit");
        wm_credit_failure (&self->credit);
        slot->poison = wm_poison_new (slot->task->n_hit);
    }
    conclude (self, i, starved ? wm_poison_starved (slot->poison) : wm_poison_died (slot->poison),
              error->text);
}

/* There is no engine process any more: leaves, and gives back also what the last one scored.  */
static void hopeless (wm_lane_t *self, const wm_error_t *error)
{
    wm_scorer_stop (self->scorer);
    wm_lane_drain (self, error->fault == WM_EPEER ? WM_EXIT_ENGINE : WM_EXIT_FAILURE, error->text);
    for (unsigned i = 0; i < WM_SLOTS; i++) {
        self->slot[i].submitted = false;
        if (self->slot[i].task)
            give_back (self->slot[i].task, self);
    }
}

void wm_lane_check_engine (wm_lane_t *self)
{
    wm_error_t error = { 0 };
    uint64_t slot = 0;
    for (;;) {
        switch (wm_scorer_poll (self->scorer, &slot, &error)) {
        case WM_SCORER_NOTHING:
            return;
        case WM_SCORER_READY:
            break;
        case WM_SCORER_SCORED:
            scored (self, (unsigned) slot);
            break;
        case WM_SCORER_ENDED:
            ended (self, (unsigned) slot, &error);
            break;
        case WM_SCORER_ENDED_MANY:
            ended_many (self, slot, &error);
            break;
        case WM_SCORER_HOPELESS:
            hopeless (self, &error);
            return;
        }
    }
}

/* Whether batches enough to keep the engine busy are staged already: what it works on, and as many
   that wait. Of large batches three are, so that the others need no decoded copy yet.  */
static bool is_staged_enough (const wm_lane_t *self)
{
    unsigned n;
    const uint64_t hits = hits_in_slots (self, &n);
    return n >= WM_SLOTS_LARGE && hits >= wm_scorer_enough (self->scorer);
}

/* Begins to decode the oldest queued batch into a free slot. false: there is no batch, or no
   slot.  */
static bool stage (wm_lane_t *self)
{
    const unsigned n = is_staged_enough (self) ? 0 : wm_scorer_slots (self->scorer);
    unsigned i = 0;
    while (i < n && self->slot[i].task)
        i++;
    wm_task_t *task = i < n ? wm_tasks_oldest (self->tasks, WM_TASK_QUEUED) : NULL;
    if (!task)
        return false;
    self->job[i] = (wm_decode_job_t){ .batch = wm_scorer_batch (self->scorer, i),
                                      .payload = task->payload,
                                      .payload_bytes = task->payload_bytes,
                                      .digest = task->digest,
                                      .n_hit = task->n_hit };
    task->state = WM_TASK_STAGED;
    self->slot[i].task = task;
    self->slot[i].decoding = true;
    wm_decode_begin (self->decode, &self->job[i]);
    return true;
}

/* Takes what is decoded: batches for the engine, and such as are broken.  */
static void take_decoded (wm_lane_t *self)
{
    for (wm_decode_job_t *job; (job = wm_decode_next (self->decode));) {
        wm_lane_slot_t *slot = &self->slot[job - self->job];
        slot->decoding = false;
        if (job->error.fault)
            fail (self, slot->task, &job->error);
        else
            WM_TRACE ("stage", &slot->task->key, job->ns);
    }
}

/* Whether the lane's round is complete: it has begun, and fills the device, or clients wait.  */
static bool is_round_full (const wm_lane_t *self)
{
    return self->stride && self->round_hits &&
           (self->round_hits >= wm_scorer_fill (self->scorer) ||
            wm_stride_is_urgent (self->stride, self->number));
}

/* Submits staged batches in order of arrival: all of them, or where lanes share the machine, one
   batch a round, or as many as fill the device together.  */
static void submit (wm_lane_t *self)
{
    for (;;) {
        unsigned due = WM_SLOTS;
        for (unsigned i = 0; i < WM_SLOTS; i++) {
            const wm_lane_slot_t *slot = &self->slot[i];
            if (slot->task && !slot->decoding && !slot->submitted &&
                (due == WM_SLOTS || slot->task->serial < self->slot[due].task->serial))
                due = i;
        }
        if (due == WM_SLOTS || is_round_full (self))
            return;
        if (self->stride && !wm_scorer_is_ready (self->scorer)) {
            end_round (self, WM_SLOTS); /* other lanes need not wait for its restart */
            return;
        }
        if (self->stride && !wm_stride_request (self->stride, self->number))
            return;
        wm_lane_slot_t *slot = &self->slot[due];
        uint32_t first = 0, count = slot->task->n_hit;
        if (slot->poison)
            wm_poison_part (slot->poison, &first, &count);
        self->round_ms = self->round_ms ? self->round_ms : wm_now_ms ();
        self->round_hits += count;
        WM_FAILPOINT ("worker-execute");
        slot->submitted = true;
        uint64_t draw;
        memcpy (&draw, slot->task->digest, sizeof draw);
        wm_scorer_draw (self->scorer, due, draw);
        wm_scorer_submit (self->scorer, due, first, count, slot->poison || slot->alone);
    }
}

void wm_lane_feed (wm_lane_t *self)
{
    do {
        take_decoded (self); /* without any: what woke the lane is done with */
        if (self->draining)
            return;
        submit (self);
    } while (stage (self));
}

/* ---- messages in ----------------------------------------------------------------------------- */

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
    wm_task_t *same = wm_tasks_find (self->tasks, &msg->key);
    if (same && !memcmp (same->digest, msg->digest, sizeof same->digest)) {
        same->attempt = msg->attempt; /* the lane has it already: one answer is enough */
        if (same->state == WM_TASK_RETURNED)
            wm_lane_send_result (same, self);
        return;
    }
    const wm_fault_t fault = wm_tasks_add (self->tasks, msg, payload, bytes, &error);
    if (fault) {
        wm_lane_log ("batch %u:%u:%u refused: %s", msg->key.input, msg->key.ordinal, msg->key.batch,
                     error.text);
        nack (self, &msg->key, msg->attempt, fault == WM_EHOST ? WM_EAGAIN : fault, error.text);
        if (fault == WM_EHOST) { /* no memory for it */
            wm_lane_is_short (self, error.text);
            machine_failed (self, error.text);
        }
    }
}

/* Drops a batch that is no longer wanted, unless the engine has begun it.  */
static void take_revoke (wm_lane_t *self, wm_task_t *task)
{
    for (unsigned i = 0; i < WM_SLOTS; i++)
        if (self->slot[i].task == task && !withdraw (self, i))
            return;
    forget (self, task);
    if (!wm_lane_executes (self))
        end_round_if_idle (self, WM_SLOTS);
}

void wm_lane_take_message (wm_lane_t *self)
{
    const wm_msg_t *msg = wm_client_msg (self->client);
    wm_task_t *task = wm_tasks_find (self->tasks, &msg->key);
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
        wm_lane_drain (self, WM_EXIT_OK, msg->text[0] ? msg->text : "the broker asked for it");
        break;
    default: /* a late MODEL: no longer wanted */
        break;
    }
}
