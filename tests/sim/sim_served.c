/* sim_served.c - what must hold in a broker for clients.

   Its keys name no file: an input is lent to a session, an ordinal is the client's. So each SUBMIT
   that arrives is noted here, and the newest note of a key tells which event of the truth it is.
   That each request is answered once and rightly, the clients see (sim_client.c).  */
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
    for (const check_t *check = core ? core->checks : NULL; check; check = check->next)
        checked += check->task.payload->bytes;
    return core && core->budget_used == checked && sim.held_bytes == checked && !core->n_asked &&
           !core->events.count;
}

void served_check (const wm_core_t *core)
{
    for (uint32_t i = 0; i < core->n_input; i++) {
        const input_t *input = core->input[i];
        if (!input->claim && input->all)
            fail ("input %u has events, and no client", input->id);
        if (input->state != WM_LEDGER_OPEN || input->holding)
            fail ("input %u of a client is in state %d", input->id, (int) input->state);
        for (const event_t *event = input->all; event; event = event->all_next)
            if (event->flags & EVENT_DONE)
                fail ("event %u.%u is answered, and kept", input->id, event->ordinal);
    }
}
