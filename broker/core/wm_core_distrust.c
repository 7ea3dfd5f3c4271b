/* wm_core_distrust.c - machines whose scores were wrong, as a check found (wm_core_check.c).

   Its sessions end, and its next HELLO is refused, until an operator trusts it again: by its key
   and host; by its key alone where no other machine has joined by that; by its host alone where
   no other key has joined under that (else it would come back with a fresh one). If another key
   has, one of the two claims a host that is not its own, and only the one that was found
   wrong is refused. That is a record DISTRUST, which stands until the next of that machine.

   Every input of which it scored a batch since its last good check is begun again, as an operator's
   kick does (wm_core_input_kick), whether its output is written or not: KICK is a record, so that
   neither a restart nor a rebuilt ledger brings a wrong score back. DISTRUST names these inputs,
   and the ledger calls each of them suspect until its KICK: a broker that starts after a crash goes
   on, also if an operator has trusted the machine meanwhile. Which worker scored what before this
   broker's start is not known.  */
#include "broker/core/wm_core_check_private.h"

#include <stdio.h>
#include <string.h>

/* ---- the record ------------------------------------------------------------------------------ */

/* Appends a text and its NUL; returns how many bytes there are then.  */
static uint32_t put (char *to, uint32_t at, const char *text)
{
    return at + (uint32_t) (stpcpy (to + at, text) - (to + at)) + 1;
}

/* The next text of `bytes` at *at, "" behind the last. They end with a NUL.  */
static const char *take (const char **at, uint32_t *bytes)
{
    const char *text = *at;
    const uint32_t length = *bytes ? (uint32_t) strnlen (text, *bytes) : 0;
    if (length == *bytes) /* none is left whole */
        return "";
    *at += length + 1;
    *bytes -= length + 1;
    return text;
}

/* again: inputs that are to begin again; NULL: none.  */
static void record_machine (wm_core_t *self, const machine_t *machine, const wm_input_set_t *again)
{
    char name[sizeof machine->host + sizeof machine->key];
    char text[sizeof machine->label + sizeof machine->signature + sizeof machine->why];
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_DISTRUST);
    record.code = !machine->distrusted
                      ? 0
                      : WM_DISTRUST_MACHINE | (machine->key_distrusted ? WM_DISTRUST_KEY : 0) |
                            (machine->host_distrusted ? WM_DISTRUST_HOST : 0);
    record.name = name;
    record.name_bytes = put (name, put (name, 0, machine->host), machine->key);
    record.text = text;
    record.text_bytes =
        put (text, put (text, put (text, 0, machine->label), machine->signature), machine->why);
    const wm_payload_t body = { NULL, again ? again->bits : NULL, again ? again->bytes : 0 };
    wm_core_append (self, &record, body.bytes ? &body : NULL, NULL, 0);
}

void wm_core_distrust_restore (wm_core_t *self, const wm_record_t *record)
{
    const char *name = record->name, *text = record->text;
    uint32_t name_bytes = record->name_bytes, text_bytes = record->text_bytes;
    char named[66];
    if (!record->code)
        return;
    snprintf (named, sizeof named, "%s:", take (&name, &name_bytes));
    machine_t *machine = wm_core_machine_of (self, take (&name, &name_bytes), named);
    if (!machine)
        return;
    machine->distrusted = true;
    machine->key_distrusted = record->code & WM_DISTRUST_KEY;
    machine->host_distrusted = record->code & WM_DISTRUST_HOST;
    snprintf (machine->label, sizeof machine->label, "%s", take (&text, &text_bytes));
    snprintf (machine->signature, sizeof machine->signature, "%s", take (&text, &text_bytes));
    snprintf (machine->why, sizeof machine->why, "%s", take (&text, &text_bytes));
}

/* ---- which may work -------------------------------------------------------------------------- */

/* Whether a machine is refused because this one was named.  */
static bool falls_with (const machine_t *named, const machine_t *machine)
{
    const bool key = strcmp (named->key, machine->key) == 0,
               host = strcmp (named->host, machine->host) == 0;
    return named->distrusted &&
           ((key && host) || (key && named->key_distrusted) || (host && named->host_distrusted));
}

/* The named machine with which this one falls, or NULL.  */
static const machine_t *named_of (const wm_core_t *self, const machine_t *machine)
{
    for (const machine_t *one = self->machines.first; one; one = one->next)
        if (falls_with (one, machine))
            return one;
    return NULL;
}

static void refuse (wm_core_t *self, session_t *worker, const machine_t *named)
{
    wm_core_refuse (self, worker, WM_REASON_FAILED,
                    "%s: its machine is not trusted in this campaign: %.200s; where it is mended, "
                    "run `wiremill trust`",
                    worker->label, named->why);
}

bool wm_core_distrust_admit (wm_core_t *self, session_t *worker, const wm_msg_t *msg)
{
    if (!*msg->class)
        return true; /* it fetches the model or the sample only */
    machine_t *machine = wm_core_machine_of (self, worker->key, worker->label);
    const machine_t *named = machine ? named_of (self, machine) : NULL;
    if (named) {
        refuse (self, worker, named);
        return false;
    }
    if (!machine)
        return true;
    worker->machine = machine;
    if (!machine->n_session++)
        self->machines.n_live++;
    return true;
}

/* ---- a verdict ------------------------------------------------------------------------------- */

/* Whether the key of this machine opened sessions of another that is not named.  */
static bool key_is_shared (const wm_core_t *self, const machine_t *machine)
{
    for (const machine_t *one = self->machines.first; one; one = one->next)
        if (one != machine && !one->distrusted && strcmp (one->key, machine->key) == 0)
            return true;
    return false;
}

/* Whether one that is not named has joined under the host of this machine by another key.  */
static bool host_is_shared (const wm_core_t *self, const machine_t *machine)
{
    for (const machine_t *one = self->machines.first; one; one = one->next)
        if (one != machine && !one->distrusted && strcmp (one->host, machine->host) == 0)
            return true;
    return false;
}

/* Leaves in `scored` what will not be begun again; returns how many inputs that are.  */
static uint32_t keep_earlier (machine_t *machine)
{
    uint32_t n = 0;
    for (uint32_t id = 0; (id = wm_input_set_next (&machine->scored, id));)
        if (wm_input_set_has (&machine->unproven, id))
            wm_input_set_remove (&machine->scored, id);
        else
            n++;
    return n;
}

static bool is_due (const wm_core_t *self, const input_t *input)
{
    return input && !self->config.for_clients && !input->kicking && !input->unpinned &&
           (input->state == WM_LEDGER_OPEN || input->state == WM_LEDGER_WRITTEN);
}

/* Records that it is not trusted, and what it scored since its last good check: that is to begin
   again.  */
static void record_suspects (wm_core_t *self, machine_t *machine)
{
    for (uint32_t id = 0; (id = wm_input_set_next (&machine->unproven, id));)
        if (id <= self->inputs.n && is_due (self, self->inputs.at[id - 1]))
            wm_input_set_add (&self->distrust.to_redo, id);
        else
            wm_input_set_remove (&machine->unproven, id);
    record_machine (self, machine, &machine->unproven);
    wm_input_set_clear (&machine->unproven);
}

static void announce (wm_core_t *self, machine_t *machine)
{
    const uint32_t n_earlier = keep_earlier (machine);
    machine->is_unannounced = false;
    machine->key_distrusted = *machine->key && !key_is_shared (self, machine);
    machine->host_distrusted = !host_is_shared (self, machine);
    self->distrust.suspects[0] = 0;
    wm_core_warn (self,
                  "CHECK: worker %s (host %s%s%s, %s) gave %s: it gets no more work, and what it "
                  "scored since its last good check is scored again",
                  machine->label, machine->host, *machine->key ? ", key " : "", machine->key,
                  machine->signature, machine->why);
    if (n_earlier)
        wm_core_log (self,
                     "CHECK: %u more inputs hold scores of %s from before that, which nobody "
                     "compared: `wiremill status` names them, `wiremill kick` scores them again",
                     n_earlier, machine->label);
    record_suspects (self, machine);
    session_t *next;
    for (session_t *session = self->sessions.first; session; session = next) {
        next = session->next;
        if (session->role == WM_ROLE_WORKER && session->machine &&
            falls_with (machine, session->machine))
            refuse (self, session, machine);
    }
}

/* Begins suspect inputs again, as many as there is room for, and forgets those whose KICK is
   durable. True: all are begun.  */
static bool begin_again (wm_core_t *self)
{
    wm_input_set_t *set = &self->distrust.to_redo;
    bool all = true, any = false;
    for (uint32_t id = 0; all && (id = wm_input_set_next (set, id));) {
        input_t *input = id <= self->inputs.n ? self->inputs.at[id - 1] : NULL;
        const bool due = is_due (self, input);
        all = !due || wm_core_has_room (self);
        if (due && all)
            wm_core_input_kick (self, input, NULL, -1, 0, "wrong scores of a worker");
        if (input && (due || input->kicking))
            any = true;
        else
            wm_input_set_remove (set, id);
    }
    if (all && !any)
        wm_input_set_free (set);
    return all;
}

void wm_core_distrust_carry_out (wm_core_t *self)
{
    bool all = true;
    for (machine_t *machine = self->machines.first; machine && self->distrust.has_verdict;
         machine = machine->next) {
        const bool is_later = machine->distrusted && !machine->is_unannounced &&
                              wm_input_set_next (&machine->unproven, 0); /* of a later check */
        if ((is_later || machine->is_unannounced) && !wm_core_has_room (self))
            all = false;
        else if (machine->is_unannounced)
            announce (self, machine);
        else if (is_later)
            record_suspects (self, machine);
    }
    all &= begin_again (self);
    self->distrust.owes_kicks = self->distrust.to_redo.bits != NULL;
    self->distrust.has_verdict = !all;
}

/* Records at most so many at once: their answer is another one, and must have room, too.  */
#define LIFTED_MAX 64u

uint32_t wm_core_distrust_lift (wm_core_t *self, const char *name, const session_t *session)
{
    uint32_t n = 0;
    for (machine_t *machine = self->machines.first; machine; machine = machine->next) {
        if (!machine->distrusted || n == LIFTED_MAX || !wm_core_has_room (self) ||
            (strcmp (machine->host, name) != 0 && strcmp (machine->label, name) != 0 &&
             (!*name || strcmp (machine->key, name) != 0)))
            continue;
        machine->distrusted = machine->key_distrusted = machine->host_distrusted = false;
        wm_input_set_clear (&machine->scored);
        record_machine (self, machine, NULL);
        n++;
    }
    if (n)
        wm_core_also (self, WM_RECORD_DISTRUST, (wm_key_t){ 0 }, session, 0);
    return n;
}

void wm_core_distrust_kicked (wm_core_t *self, uint32_t id)
{
    for (machine_t *machine = self->machines.first; machine; machine = machine->next)
        wm_input_set_remove (&machine->scored, id);
}

void wm_core_distrust_summary (const wm_core_t *self, wm_summary_t *summary)
{
    summary->check_share = self->config.check_share;
    summary->n_sampled = self->checks.n_sampled;
    summary->n_check_good = self->checks.n_good;
    summary->n_check_differ = self->checks.n_differ;
    summary->n_check_open = self->checks.n;
    summary->suspects = *self->distrust.suspects ? self->distrust.suspects : NULL;
    for (const machine_t *one = self->machines.first; one; one = one->next) {
        if (!one->distrusted || summary->n_named++ >= WM_SUMMARY_NAMED_MAX)
            continue;
        wm_summary_named_t *row = &summary->named[summary->n_named - 1];
        memcpy (row->label, one->label, sizeof row->label);
        memcpy (row->host, one->host, sizeof row->host);
        snprintf (row->key, sizeof row->key, "%s", one->key);
        memcpy (row->signature, one->signature, sizeof row->signature);
        memcpy (row->why, one->why, sizeof row->why);
        for (uint32_t id = 0; (id = wm_input_set_next (&one->scored, id)) && id <= self->inputs.n;)
            if (row->n_earlier++ < WM_SUMMARY_EARLIER_MAX)
                row->earlier[row->n_earlier - 1] = id;
    }
}
