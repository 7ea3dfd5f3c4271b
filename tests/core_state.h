/* core_state.h - what must hold inside a wm_core between two calls: lists, counters and bytes that
   follow from others, counted again from the nouns alone.

   The simulator and the unit tests of the core ask this after each message. It calls no function of
   the core: a mistake there cannot hide itself.  */
#ifndef TESTS_CORE_STATE_H
#define TESTS_CORE_STATE_H

#include "broker/core/wm_core_check_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What differs first; "": nothing does.  */
typedef struct {
    char text[300];
} core_state_t;

static inline void core_state_differs (core_state_t *state, const char *format, ...)
    __attribute__ ((format (printf, 2, 3)));
static inline void core_state_differs (core_state_t *state, const char *format, ...)
{
    va_list args;
    va_start (args, format);
    if (!*state->text)
        vsnprintf (state->text, sizeof state->text, format, args);
    va_end (args);
}

/* `what`: counted is what the core has, is what there is.  */
static inline void core_state_equal (core_state_t *state, const char *what, uint64_t counted,
                                     uint64_t is)
{
    if (counted != is)
        core_state_differs (state, "%s: %llu, counted %llu", what, (unsigned long long) is,
                            (unsigned long long) counted);
}

/* The queue that a batch belongs to; NULL: none.  */
static inline const wm_queue_t *core_state_place (const wm_core_t *core, const batch_t *batch)
{
    const session_t *claim = batch->event->input->claim;
    if (batch->state == BATCH_QUEUED && !(batch->flags & BATCH_ASKED))
        return claim ? &claim->wants : NULL;
    if (batch->state == BATCH_READY)
        return batch->flags & BATCH_ALONE ? &core->queues.alone
               : batch->failed_on         ? &core->queues.failed
                                          : &core->queues.ready;
    if (batch->state == BATCH_RUNNING)
        return batch->payload ? &core->queues.running : &core->queues.bare;
    return NULL;
}

/* n: batches that belong to it. (I3)  */
static inline void core_state_queue (const wm_core_t *core, core_state_t *state, const char *what,
                                     const wm_queue_t *queue, uint64_t n)
{
    uint64_t n_item = 0;
    const wm_queue_item_t *last = NULL;
    for (wm_queue_item_t *at = queue->head; at && n_item <= n; at = at->next, n_item++) {
        if (at->prev != last || core_state_place (core, batch_of (at)) != queue)
            core_state_differs (state, "%s: one does not belong there, or a link back is wrong",
                                what);
        last = at;
    }
    core_state_equal (state, what, n_item, n);
    core_state_equal (state, what, queue->count, n);
    if (queue->tail != last)
        core_state_differs (state, "%s: its tail is not its last", what);
}

/* What is added up over all sessions, inputs and checks.  */
typedef struct {
    uint64_t by_state[BATCH_HELD + 1], ready, failed, alone, running, bare;
    uint64_t n_asked, asked_bytes, late_bytes, n_lease, n_event, n_stray;
    uint64_t written, held, events_known, events_done, events_written;
    uint64_t hits_known, hits_done, hits_held, hits_empty, written_held;
    double owned_bytes; /* of payloads: each owner adds its part */
} core_state_sums_t;

static inline void core_state_owner (core_state_sums_t *sums, const payload_t *payload)
{
    sums->owned_bytes += (double) payload->bytes / payload->refs;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* I3 and I4.  */
static inline void core_state_batch (const wm_core_t *core, const batch_t *batch,
                                     core_state_sums_t *sums, core_state_t *state)
{
    const session_t *claim = batch->event->input->claim;
    uint32_t n_lease = 0, n_awake = 0;
    sums->by_state[batch->state]++;
    for (const lease_t *lease = batch->lease; lease; lease = lease->other) {
        n_lease++;
        n_awake += !lease->expired;
        if (lease->batch != batch)
            core_state_differs (state, "a batch has a lease of another");
    }
    sums->n_lease += n_lease;
    if (n_lease > 2)
        core_state_differs (state, "a batch has %u leases", n_lease);
    if (batch->payload)
        core_state_owner (sums, batch->payload);
    if (batch->flags & BATCH_ASKED) {
        sums->n_asked++;
        sums->asked_bytes += batch->raw_bytes + WM_FRAME_OVERHEAD;
        if (!claim)
            core_state_differs (state, "a batch is asked for of no producer");
    }
    if (batch->state == BATCH_QUEUED && !claim)
        core_state_differs (state, "a batch is wanted of no producer");
    if (batch->state == BATCH_READY && (!batch->payload || n_awake))
        core_state_differs (state, "a ready batch has no payload, or a worker has it");
    if (batch->state == BATCH_RUNNING && !n_awake)
        core_state_differs (state, "a batch runs at no worker");
    const wm_queue_t *queue = core_state_place (core, batch);
    sums->ready += queue == &core->queues.ready;
    sums->failed += queue == &core->queues.failed;
    sums->alone += queue == &core->queues.alone;
    sums->running += queue == &core->queues.running;
    sums->bare += queue == &core->queues.bare;
    if (batch->state >= BATCH_COMMITTING && (n_lease || batch->payload))
        core_state_differs (state, "a batch in state %d has %u leases%s", batch->state, n_lease,
                            batch->payload ? " and a payload" : "");
    if (batch->failed_on == 0 && batch->flags & BATCH_WORKERS && batch->n_fail + batch->n_lost < 2)
        core_state_differs (state, "a batch failed on two workers after one failure");
}

static inline void core_state_event (const wm_core_t *core, const event_t *event,
                                     core_state_sums_t *sums, core_state_t *state)
{
    uint32_t n_returned = 0, n_held = 0;
    sums->n_event++;
    sums->n_stray += event->n_stray;
    for (uint32_t i = 0; i < event->n_slot; i++) {
        if (event->batch[i].event != event)
            core_state_differs (state, "a batch is of another event");
        core_state_batch (core, &event->batch[i], sums, state);
        n_returned += event->batch[i].state == BATCH_RETURNED;
        n_held += event->batch[i].state == BATCH_HELD;
    }
    core_state_equal (state, "batches of an event that are returned", event->n_returned,
                      n_returned);
    core_state_equal (state, "batches of an event that are held", event->n_held, n_held);
    const bool is_done = event->flags & EVENT_KNOWN && n_returned + n_held == event->n_batch;
    core_state_equal (state, "whether an event is done", !!(event->flags & EVENT_DONE), is_done);
    bool is_open = false;
    for (const event_t *at = event->input->open; at; at = at->open_next)
        is_open |= at == event;
    if (is_open && event->flags & EVENT_DONE)
        core_state_differs (state, "an event is done, and among those that are not");
}

/* I11 and I16.  */
static inline void core_state_input (const wm_core_t *core, const input_t *input,
                                     core_state_sums_t *sums, core_state_t *state)
{
    uint64_t n_event = 0, n_done = 0, n_hit = 0, n_hit_done = 0, n_hit_held = 0, n_batch_held = 0;
    bool has_claim = !input->claim;
    for (const event_t *event = input->all; event; event = event->all_next) {
        core_state_event (core, event, sums, state);
        n_event += !!(event->flags & EVENT_KNOWN);
        n_done += !!(event->flags & EVENT_DONE);
        n_hit += event->flags & EVENT_KNOWN ? event->n_hit : 0;
        n_hit_held += event->flags & EVENT_KNOWN ? event->n_bad : 0;
        for (uint32_t i = 0; i < event->n_slot; i++) {
            const batch_t *batch = &event->batch[i];
            const bool is_returned = batch->state == BATCH_RETURNED,
                       is_held = batch->state == BATCH_HELD;
            n_hit_done += is_returned ? batch->n_hit - batch->n_held : 0;
            n_hit_held += is_held ? batch->n_hit : is_returned ? batch->n_held : 0;
            n_batch_held += is_held || (is_returned && batch->n_held);
        }
    }
    if (input->state == WM_LEDGER_OPEN && !core->config.for_clients) {
        core_state_equal (state, "events of an input", input->n_event, n_event);
        core_state_equal (state, "events of an input that are done", input->n_done, n_done);
        core_state_equal (state, "hits of an input", input->n_hit, n_hit);
        core_state_equal (state, "hits of an input that are done", input->n_hit_done, n_hit_done);
        core_state_equal (state, "hits of an input that are held", input->n_hit_held, n_hit_held);
        core_state_equal (state, "batches of an input that are held", input->n_batch_held,
                          n_batch_held);
    }
    for (const input_t *at = input->claim ? input->claim->claims : NULL; at; at = at->claim_next) {
        has_claim |= at == input;
        if (at->claim_next && at->claim_next->claim_prev != at)
            core_state_differs (state, "a link back between claims is wrong");
    }
    if (!has_claim || (input->all && input->state != WM_LEDGER_OPEN))
        core_state_differs (state,
                            "input %u is not among the claims of its producer, or has events "
                            "in state %d",
                            input->id, (int) input->state);
    const bool is_written = input->state == WM_LEDGER_WRITTEN;
    sums->written += is_written;
    sums->held += input->state == WM_LEDGER_HELD;
    sums->events_written += is_written ? input->n_done : 0;
    sums->hits_empty += is_written ? input->n_hit_empty : 0;
    sums->written_held += is_written ? input->n_batch_held : 0;
    sums->events_known += input->n_event;
    sums->events_done += input->n_done;
    sums->hits_known += input->n_hit;
    sums->hits_done += input->n_hit_done;
    sums->hits_held += input->n_hit_held;
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* I6 and I8.  */
static inline void core_state_worker (const wm_core_t *core, const session_t *worker,
                                      core_state_sums_t *sums, core_state_t *state)
{
    uint64_t n_lease = 0, n_hit = 0, in_flight = worker->sent - worker->received;
    const lease_t *last = NULL;
    for (const lease_t *lease = worker->lease_head; lease; lease = lease->next) {
        if (lease->worker != worker || lease->prev != last)
            core_state_differs (state, "%s has a lease of another, or a link back is wrong",
                                worker->label);
        n_lease++;
        n_hit += lease->batch->n_hit;
        if (lease->hits_lent < lease->batch->n_hit + (last ? last->hits_lent : 0) ||
            lease->hits_lent > worker->hits_lent || lease->sent_ms > core->now_ms ||
            (lease->number && last && lease->number <= last->number) ||
            lease->number > worker->sent)
            core_state_differs (state, "leases of %s are not in the order of their TASKs",
                                worker->label);
        last = lease;
    }
    core_state_equal (state, "leases of a worker", worker->n_lease, n_lease);
    core_state_equal (state, "hits of a worker's leases", worker->hits_lent - worker->hits_back,
                      n_hit);
    if (worker->lease_tail != last)
        core_state_differs (state, "the last lease of %s is not its last", worker->label);
    if (worker->received > worker->sent || in_flight > WM_CREDIT_MAX)
        core_state_differs (state, "%s has received %llu of %llu", worker->label,
                            (unsigned long long) worker->received,
                            (unsigned long long) worker->sent);
    else
        for (uint64_t n = worker->received + 1; n <= worker->sent; n++)
            core_state_owner (sums, worker->in_flight[n % WM_CREDIT_MAX]);
    const bool may = worker->state == SESSION_LIVE && !worker->draining && !worker->stalled;
    const uint64_t free_credit = worker->credit > worker->sent ? worker->credit - worker->sent : 0;
    const uint64_t window = may ? n_lease + free_credit : 0;
    core_state_equal (state, "the window of a worker", worker->window,
                      window < WM_CREDIT_MAX ? window : WM_CREDIT_MAX);
    core_state_equal (state, "whether a worker may have more", worker->eligible,
                      may && free_credit && n_lease < WM_CREDIT_MAX && in_flight < WM_CREDIT_MAX &&
                          !worker->alone && !(core->workers.alone_for == worker && n_lease));
    if (worker->check && worker->check->worker != worker)
        core_state_differs (state, "%s is asked by a check of another", worker->label);
    if (worker->alone && n_lease != 1)
        core_state_differs (state, "%s has a batch alone, and %llu", worker->label,
                            (unsigned long long) n_lease);
}

/* I7.  */
static inline void core_state_producer (const wm_core_t *core, const session_t *producer,
                                        core_state_t *state)
{
    uint64_t n_asked = 0, asked_bytes = 0, n_want = 0, n_open = 0, n_ready = 0;
    for (const input_t *input = producer->claims; input; input = input->claim_next) {
        if (input->claim != producer)
            core_state_differs (state, "%s has a claim of another", producer->label);
        for (const event_t *event = input->open; event; event = event->open_next) {
            n_open++;
            if (event->open_next && event->open_next->open_prev != event)
                core_state_differs (state, "a link back between open events is wrong");
        }
        for (const event_t *event = input->all; event; event = event->all_next)
            for (uint32_t i = 0; i < event->n_slot; i++) {
                const batch_t *batch = &event->batch[i];
                const bool is_asked = batch->flags & BATCH_ASKED;
                n_asked += is_asked;
                asked_bytes += is_asked ? batch->raw_bytes + WM_FRAME_OVERHEAD : 0;
                n_want += batch->state == BATCH_QUEUED && !is_asked;
                n_ready += batch->state == BATCH_READY;
            }
    }
    core_state_queue (core, state, "batches to ask a producer for", &producer->wants, n_want);
    core_state_equal (state, "batches that a producer is asked for", producer->n_asked, n_asked);
    core_state_equal (state, "bytes that a producer is asked for", producer->asked_bytes,
                      asked_bytes);
    core_state_equal (state, "open events of a producer", producer->n_open, n_open);
    core_state_equal (state, "whether a producer is in the round", producer->wanting,
                      n_want && !producer->late);
    core_state_equal (state, "whether a producer has a share", producer->asking,
                      !producer->late && (n_asked || n_want));
    if (core->config.for_clients)
        core_state_equal (state, "ready batches of a client", producer->n_ready, n_ready);
    if (producer->n_owed < n_asked)
        core_state_differs (state, "%s owes fewer batches than it is asked for", producer->label);
}

static inline void core_state_sessions (const wm_core_t *core, core_state_sums_t *sums,
                                        core_state_t *state)
{
    uint64_t n_session = 0, n_lost = 0, n_worker = 0, n_producer = 0, n_busy = 0, n_lease = 0;
    uint64_t window = 0, n_eligible = 0, n_wanting = 0, n_asking = 0, n_orphan = 0, n_in_ring = 0;
    uint32_t n_wait[WM_WAIT_END] = { 0 };
    const session_t *last = NULL;
    for (const session_t *one = core->sessions.first; one; last = one, one = one->next) {
        if (one->prev != last)
            core_state_differs (state, "a link back between sessions is wrong");
        n_lost += one->state == SESSION_LOST;
        n_session += one->state != SESSION_LOST;
        n_worker += one->state == SESSION_LIVE && one->role == WM_ROLE_WORKER;
        n_producer += one->state == SESSION_LIVE && one->role == WM_ROLE_PRODUCER;
        n_wait[one->wait]++;
        if (one->role == WM_ROLE_PRODUCER)
            core_state_producer (core, one, state);
        if (one->role == WM_ROLE_WORKER)
            core_state_worker (core, one, sums, state);
        if (one->role == WM_ROLE_WORKER) {
            n_busy += one->n_lease > 0;
            n_lease += one->n_lease;
            n_orphan += one->n_orphan;
            window += one->window;
            n_eligible += one->eligible;
        }
        if (one->role != WM_ROLE_PRODUCER)
            continue;
        sums->late_bytes += one->late_bytes;
        if (one->late_bytes && !one->n_late)
            core_state_differs (state, "%s owes bytes of no BATCH", one->label);
        n_wanting += one->wanting;
        n_asking += one->asking;
    }
    if (core->sessions.last != last)
        core_state_differs (state, "the last session is not the last");
    core_state_equal (state, "sessions", core->sessions.n, n_session);
    core_state_equal (state, "lost workers", core->sessions.n_lost, n_lost);
    core_state_equal (state, "workers", core->sessions.n_worker, n_worker);
    core_state_equal (state, "producers", core->sessions.n_producer, n_producer);
    core_state_equal (state, "sessions by number", core->sessions.by_id.count, n_session + n_lost);
    core_state_equal (state, "workers with leases", core->workers.n_busy, n_busy);
    core_state_equal (state, "leases of batches", n_lease, sums->n_lease);
    core_state_equal (state, "batches of events that are not announced",
                      core->workers.orphans.count, n_orphan);
    core_state_equal (state, "the window of all workers", core->workers.window, window);
    core_state_equal (state, "producers that have a share", core->producers.n_asking, n_asking);
    for (int i = 1; i < WM_WAIT_END; i++)
        core_state_equal (state, "sessions that wait", core->waits.n[i], n_wait[i]);
    const session_t *at = core->workers.eligible;
    if (at)
        do
            n_in_ring += at->eligible && at->eligible_next->eligible_prev == at;
        while ((at = at->eligible_next) != core->workers.eligible && n_in_ring <= n_eligible);
    core_state_equal (state, "workers in the ring", n_in_ring, n_eligible);
    n_in_ring = 0;
    at = core->producers.wanting;
    if (at)
        do
            n_in_ring += at->wanting && at->want_next->want_prev == at;
        while ((at = at->want_next) != core->producers.wanting && n_in_ring <= n_wanting);
    core_state_equal (state, "producers in the round", n_in_ring, n_wanting);
}

/* ---- checks and machines --------------------------------------------------------------------- */

static inline void core_state_machine (const wm_core_t *core, const machine_t *machine,
                                       core_state_t *state)
{
    uint64_t n_session = 0, n_answer = 0, n_suspect = 0;
    bool is_open = !machine->proving;
    for (const session_t *one = core->sessions.first; one; one = one->next)
        n_session += one->role == WM_ROLE_WORKER && one->machine == machine;
    for (const check_t *check = core->checks.first; check; check = check->next) {
        is_open |= check == machine->proving && check->answer[0].machine == machine;
        for (uint32_t i = 0; i < check->n_answer; i++) {
            n_answer += check->answer[i].machine == machine;
            n_suspect += check->differs && i < 2 && check->answer[i].machine == machine;
        }
    }
    core_state_equal (state, "sessions of a machine", machine->n_session, n_session);
    core_state_equal (state, "answers of a machine", machine->n_answer, n_answer);
    core_state_equal (state, "checks that suspect a machine", machine->n_suspect, n_suspect);
    if (!is_open)
        core_state_differs (state, "%s is proven by a check that is over, or another's",
                            machine->host);
}

/* I12.  */
static inline void core_state_checks (const wm_core_t *core, core_state_sums_t *sums,
                                      core_state_t *state)
{
    uint64_t n_check = 0, payload_bytes = 0, bytes = 0, n_machine = 0, n_live = 0;
    const check_t *last = NULL;
    for (const check_t *check = core->checks.first; check; last = check, check = check->next) {
        if (check->prev != last || (check->worker && check->worker->check != check))
            core_state_differs (state, "a link back of a check is wrong");
        n_check++;
        payload_bytes += check->task.payload->bytes;
        bytes += 3 * (uint64_t) check->task.n_hit * (1 + 4 * core->config.n_output);
        core_state_owner (sums, check->task.payload);
        core_state_equal (state, "answers of a check", check->n_answer, check->differs ? 2 : 1);
        for (uint32_t i = 0; i < check->n_answer; i++)
            for (uint32_t k = 0; k < i; k++)
                if (strcmp (check->answer[i].machine->host, check->answer[k].machine->host) == 0)
                    core_state_differs (state, "%s answers a check twice",
                                        check->answer[i].machine->host);
    }
    for (const machine_t *machine = core->machines.first; machine; machine = machine->next) {
        n_machine++;
        n_live += machine->n_session > 0;
        for (const machine_t *one = core->machines.first; one != machine && n_machine < 100;
             one = one->next)
            if (strcmp (one->host, machine->host) == 0 && strcmp (one->key, machine->key) == 0)
                core_state_differs (state, "%s is two machines", one->host);
        core_state_machine (core, machine, state);
    }
    core_state_equal (state, "open checks", core->checks.n, n_check);
    core_state_equal (state, "bytes of payloads of checks", core->checks.payload_bytes,
                      payload_bytes);
    core_state_equal (state, "bytes of answers of checks", core->checks.bytes, bytes);
    core_state_equal (state, "machines", core->machines.n, n_machine);
    core_state_equal (state, "machines that are connected", core->machines.n_live, n_live);
    if (core->checks.last != last || n_check > 64)
        core_state_differs (state, "the last check is not the last, or there are more than 64");
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Returns what does not hold of a core between two calls; an empty text: all does.  */
static inline core_state_t core_state_of (const wm_core_t *core)
{
    core_state_t state = { "" };
    core_state_sums_t sums = { .owned_bytes = 0 };
    for (uint32_t i = 0; i < core->inputs.n; i++)
        core_state_input (core, core->inputs.at[i], &sums, &state);
    core_state_sessions (core, &sums, &state);
    core_state_checks (core, &sums, &state);
    for (int i = 0; i <= BATCH_HELD; i++)
        core_state_equal (&state, "batches in a state", core->totals.n_by_state[i],
                          sums.by_state[i]);
    const struct {
        const char *what;
        const wm_queue_t *queue;
        uint64_t n;
    } queues[] = { { "ready", &core->queues.ready, sums.ready },
                   { "ready, and failed before", &core->queues.failed, sums.failed },
                   { "ready, to be sent alone", &core->queues.alone, sums.alone },
                   { "running, with a payload", &core->queues.running, sums.running },
                   { "running, without a payload", &core->queues.bare, sums.bare } };
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++)
        core_state_queue (core, &state, queues[i].what, queues[i].queue, queues[i].n);
    core_state_equal (&state, "batches asked for", core->budget.n_asked, sums.n_asked);
    core_state_equal (&state, "bytes asked for", core->budget.asked_bytes, sums.asked_bytes);
    core_state_equal (&state, "bytes that are late", core->budget.late_bytes, sums.late_bytes);
    /* I5.  */
    core_state_equal (&state, "bytes in the budget", core->budget.used,
                      sums.asked_bytes + (uint64_t) (sums.owned_bytes + 0.5));
    core_state_equal (&state, "events", core->inputs.events.count, sums.n_event);
    core_state_equal (&state, "the end of the pins", (uint8_t) core->pins[core->config.pins_bytes],
                      0);
    core_state_equal (&state, "stray batches", core->workers.n_stray, sums.n_stray);
    core_state_equal (&state, "inputs by path", core->inputs.by_path.count, core->inputs.n);
    core_state_equal (&state, "inputs by name", core->inputs.by_name.count, core->inputs.n);
    core_state_equal (&state, "inputs that are written", core->inputs.n_written, sums.written);
    core_state_equal (&state, "inputs that are held", core->inputs.n_held, sums.held);
    if (core->config.for_clients) /* the totals keep what was of sessions that are over */
        return state;
    core_state_equal (&state, "events of written inputs", core->totals.events_written,
                      sums.events_written);
    core_state_equal (&state, "empty hits of written inputs", core->totals.hits_empty,
                      sums.hits_empty);
    core_state_equal (&state, "held batches of written inputs", core->totals.written_batches_held,
                      sums.written_held);
    core_state_equal (&state, "events", core->totals.events_known, sums.events_known);
    core_state_equal (&state, "events that are done", core->totals.events_done, sums.events_done);
    core_state_equal (&state, "hits", core->totals.hits_known, sums.hits_known);
    core_state_equal (&state, "hits that are done", core->totals.hits_done, sums.hits_done);
    core_state_equal (&state, "hits that are held", core->totals.hits_held, sums.hits_held);
    return state;
}

#endif
