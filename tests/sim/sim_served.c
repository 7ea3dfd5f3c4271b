/* sim_served.c - what must hold in a broker for clients.

   Its keys name no file: an input is lent to a session, an ordinal is the client's. So each SUBMIT
   that arrives is noted here, and the newest note of a key tells which event of the truth it is.
   No session ends but by its client's fault, silence or the operator's word, and batches go out in
   the order of turns, which clients take by hits. That each request is answered once and rightly,
   the clients see (sim_client.c).  */
#include "tests/sim/sim.h"

#include <string.h>

#define NOTES 512u

static struct {
    wm_key_t key;
    uint32_t input, event;
} submit[NOTES];
static uint32_t n_submit;

void served_clear (void)
{
    n_submit = 0;
}

void served_submitted (const wm_msg_t *msg, const wm_payload_t *payload)
{
    uint32_t i, e, b;
    wm_manifest_batch_t line;
    if (payload->bytes < sizeof line)
        return;
    memcpy (&line, payload->data, sizeof line);
    if (!truth_place (line.digest, &i, &e, &b))
        return;
    submit[n_submit % NOTES].key = msg->key;
    submit[n_submit % NOTES].input = i;
    submit[n_submit++ % NOTES].event = e;
}

unit_t *served_unit (const wm_key_t *key)
{
    for (uint32_t n = n_submit; n-- > 0 && n + NOTES >= n_submit;) {
        const wm_key_t *its = &submit[n % NOTES].key;
        if (its->input != key->input || its->ordinal != key->ordinal ||
            its->generation != key->generation)
            continue;
        truth_event_t *event = &sim.input[submit[n % NOTES].input].event[submit[n % NOTES].event];
        return key->batch < event->n_batch ? &event->unit[key->batch] : NULL;
    }
    return NULL;
}

/* Once all are answered and workers have shown what they received, nothing is kept but what waits
   for a second machine.  */
bool served_is_quiet (const wm_core_t *core)
{
    uint64_t checked = 0;
    for (const check_t *check = core ? core->checks.first : NULL; check; check = check->next)
        checked += check->task.payload->bytes;
    return core && core->budget.used == checked && sim.held_bytes == checked &&
           !core->budget.n_asked && !core->inputs.events.count;
}

static uint32_t turns_of (const batch_t *batch)
{
    return 1 + batch->n_hit / 64; /* one for its messages, one for each 64 hits */
}

/* A batch that was never sent stands before what its client gets next, in the order of turns. (One
   that was given back goes first, with the turn it had.)  */
static void check_ready (const wm_core_t *core)
{
    const batch_t *last = NULL;
    for (wm_queue_item_t *at = core->queues.ready.head; at; at = at->next) {
        const batch_t *batch = batch_of (at);
        const session_t *client = batch->event->input->claim;
        if (batch->attempt)
            continue;
        if (last && wm_core_turn_behind (last->turn, batch->turn))
            fail ("%s waits behind a batch whose turn is later", client->label);
        if (wm_core_turn_behind (batch->turn + turns_of (batch), client->turn))
            fail ("%s takes no turn for a batch of %u hits", client->label, batch->n_hit);
        last = batch;
    }
}

/* No client waits longer than for what it has here, and the batch that was sent last; but where a
   worker had a batch before its turn came. (I14)  */
static void check_turns (const wm_core_t *core)
{
    check_ready (core);
    for (const session_t *client = core->sessions.first; client; client = client->next) {
        uint32_t most = core->producers.turn + 6; /* with what was answered while it waited */
        const bool is_known = client->role == WM_ROLE_PRODUCER && client->claims;
        for (const event_t *event = is_known ? client->claims->all : NULL; event;
             event = event->all_next)
            for (uint32_t b = 0; b < event->n_slot; b++) {
                const batch_t *batch = &event->batch[b];
                most += batch->state == BATCH_READY ? turns_of (batch) : 0;
                sim.unserved |= batch->lease && !batch->lease->number;
                if (batch->state == BATCH_RUNNING && batch->attempt == 1 && !sim.unserved &&
                    wm_core_turn_behind (batch->turn, core->producers.turn))
                    fail ("%s was served, and its turn is not over", client->label);
            }
        if (is_known && !sim.unserved && wm_core_turn_behind (client->turn, most))
            fail ("%s waits %u turns longer than for what it has here", client->label,
                  client->turn - most);
    }
}

/* Whether another session has its instance, which replaces it.  */
static bool is_replaced (const wm_core_t *core, const session_t *session)
{
    for (const session_t *other = core->sessions.first; other; other = other->next)
        if (other != session && other->role == session->role &&
            memcmp (other->instance, session->instance, 16) == 0)
            return true;
    return false;
}

/* No session of a client ends but by its own fault, its silence, or the operator's word.  */
void served_ended (const wm_core_t *core, const link_t *link)
{
    const session_t *session = wm_core_session_find (core, link->session);
    const int64_t silence_ms = core->config.times.silence_ms;
    if (sim.kind != CLIENTS || link->hostile || link->role != WM_ROLE_PRODUCER || !link->peer ||
        link->peer->link != link || !session || is_replaced (core, session) || sim.is_ordered)
        return;
    if (core->now_ms - link->heard_ms <= silence_ms &&
        (link->n_need == link->n_batch || core->now_ms - session->answered_ms <= silence_ms))
        fail ("the session of %s ends, which was heard %lld ms ago", link->peer->label,
              (long long) (core->now_ms - link->heard_ms));
}

void served_check (const wm_core_t *core)
{
    check_turns (core);
    for (uint32_t i = 0; i < core->inputs.n; i++) {
        const input_t *input = core->inputs.at[i];
        if (!input->claim && input->all)
            fail ("input %u has events, and no client", input->id);
        if (input->state != WM_LEDGER_OPEN || input->holding)
            fail ("input %u of a client is in state %d", input->id, (int) input->state);
        for (const event_t *event = input->all; event; event = event->all_next)
            if (event->flags & EVENT_DONE)
                fail ("event %u.%u is answered, and kept", input->id, event->ordinal);
    }
}
