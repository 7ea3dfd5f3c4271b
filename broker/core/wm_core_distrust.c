/* wm_core_distrust.c - machines whose scores were wrong, as a check found (wm_core_check.c).

   Its sessions end, and its next HELLO is refused, until an operator trusts it again: by its key
   and host; by its key alone where no other machine has joined by that; by its host alone where
   nobody has joined under that by another key (else it would come back with a fresh one). Where
   somebody has, one of the two claims a host that is not its own, and only the one that was found
   wrong is refused. The file "distrusted" of the campaign's folder keeps that over restarts; a line
   of it is host, key, label, signature, reason, whether the key counts alone, whether the host
   does (absent: no), and the inputs that are to be begun again ("3,7-90"; "-" or absent: none),
   with tabs between.

   Every input of which it scored a batch since its last good check is begun again, as an operator's
   kick does (wm_core_input_kick), whether its output is written or not: KICK is a record, so that
   neither a restart nor a rebuilt ledger brings a wrong score back. Until the last KICK is durable
   the note lists them, so that a broker which starts after a crash goes on, also where an operator
   has trusted the machine meanwhile (host and key are "-" then). Before this broker's start
   nobody noted which worker scored what.  */
#include "broker/core/wm_core_check_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "wiremill-distrusted-1\n"
#define LINE_BYTES 600
#define NOTED_MAX 100 /* lines of the file */

/* ---- the note -------------------------------------------------------------------------------- */

static void put_plain (char *to, size_t bytes, const char *from)
{
    snprintf (to, bytes, "%s", *from ? from : "-");
    for (; *to; to++)
        if ((unsigned char) *to < ' ')
            *to = '?';
}

static void note (wm_core_t *self)
{
    static char text[WM_DISTRUSTED_BYTES_MAX], list[WM_INPUT_SET_TEXT_BYTES];
    static_assert (sizeof HEAD + NOTED_MAX * (LINE_BYTES + WM_INPUT_SET_TEXT_BYTES) < sizeof text,
                   "all fit");
    size_t n = (size_t) snprintf (text, sizeof text, "%s", HEAD);
    int lines = 0;
    for (const machine_t *one = self->machines; one && lines < NOTED_MAX; one = one->next) {
        char label[64], host[64], signature[64], why[240];
        if (!one->distrusted && !one->to_redo.bits)
            continue;
        lines++;
        put_plain (label, sizeof label, one->label);
        put_plain (host, sizeof host, one->distrusted ? one->host : "");
        put_plain (signature, sizeof signature, one->signature);
        put_plain (why, sizeof why, one->why);
        wm_input_set_print (&one->to_redo, list);
        n += (size_t) snprintf (text + n, sizeof text - n, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", host,
                                one->distrusted && *one->key ? one->key : "-", label, signature,
                                why, one->key_distrusted, one->host_distrusted, list);
    }
    const wm_payload_t body = { NULL, text, n };
    if (self->sink.keep && self->sink.keep (self->sink.context, "distrusted", &body))
        wm_core_log (self, "which workers' scores were wrong cannot be noted on the campaign's "
                           "disk: a restarted broker will not know");
}

static void take (char *to, size_t bytes, const char *from)
{
    snprintf (to, bytes, "%s", strcmp (from, "-") == 0 ? "" : from);
}

void wm_core_distrust_restore (wm_core_t *self, const char *text)
{
    if (!text || strncmp (text, HEAD, sizeof HEAD - 1))
        return;
    for (const char *at = text + sizeof HEAD - 1; *at;
         at += strcspn (at, "\n"), at += *at == '\n') {
        char host[64], key[64], label[64], signature[64], why[240];
        static char rest[WM_INPUT_SET_TEXT_BYTES + 8];
        if (sscanf (at, "%63[^\t\n]\t%63[^\t\n]\t%63[^\t\n]\t%63[^\t\n]\t%239[^\t\n]\t%4007[^\n]",
                    host, key, label, signature, why, rest) != 6)
            continue;
        char named[66];
        snprintf (named, sizeof named, "%s:", strcmp (host, "-") == 0 ? "" : host);
        machine_t *machine = wm_core_machine_of (self, strcmp (key, "-") == 0 ? "" : key, named);
        if (!machine)
            return;
        machine->distrusted = strcmp (host, "-") != 0 || strcmp (key, "-") != 0;
        machine->key_distrusted = rest[0] == '1';
        machine->host_distrusted = rest[0] && rest[1] == '\t' && rest[2] == '1';
        if (rest[0] && rest[1] && rest[2] && rest[3] == '\t')
            wm_input_set_parse (&machine->to_redo, rest + 4);
        self->has_verdict |= machine->to_redo.bits != NULL;
        take (machine->label, sizeof machine->label, label);
        take (machine->signature, sizeof machine->signature, signature);
        take (machine->why, sizeof machine->why, why);
    }
}

/* ---- who may work ---------------------------------------------------------------------------- */

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
    for (const machine_t *one = self->machines; one; one = one->next)
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
        self->n_machine_live++;
    return true;
}

/* ---- a verdict ------------------------------------------------------------------------------- */

/* Whether the key of this machine opened sessions of another that is not named.  */
static bool key_is_shared (const wm_core_t *self, const machine_t *machine)
{
    for (const machine_t *one = self->machines; one; one = one->next)
        if (one != machine && !one->distrusted && strcmp (one->key, machine->key) == 0)
            return true;
    return false;
}

/* Whether one that is not named has joined under the host of this machine by another key.  */
static bool host_is_shared (const wm_core_t *self, const machine_t *machine)
{
    for (const machine_t *one = self->machines; one; one = one->next)
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

/* What it scored since its last good check is to be begun again; false: nothing is new.  */
static bool take_unproven (machine_t *machine)
{
    bool is_new = false;
    for (uint32_t id = 0; (id = wm_input_set_next (&machine->unproven, id)); is_new = true)
        wm_input_set_add (&machine->to_redo, id);
    wm_input_set_clear (&machine->unproven);
    return is_new;
}

static void announce (wm_core_t *self, machine_t *machine)
{
    const uint32_t n_earlier = keep_earlier (machine);
    machine->is_unannounced = false;
    machine->key_distrusted = *machine->key && !key_is_shared (self, machine);
    machine->host_distrusted = !host_is_shared (self, machine);
    self->suspects[0] = 0;
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
    take_unproven (machine);
    note (self);
    session_t *next;
    for (session_t *session = self->first; session; session = next) {
        next = session->next;
        if (session->machine && falls_with (machine, session->machine))
            refuse (self, session, machine);
    }
}

/* Begins the inputs that it owes again, as many as there is room for, and forgets those whose KICK
   is durable. True: all are begun.  */
static bool begin_again (wm_core_t *self, machine_t *machine)
{
    wm_input_set_t *set = &machine->to_redo;
    bool all = true, any = false;
    for (uint32_t id = 0; all && (id = wm_input_set_next (set, id));) {
        input_t *input = id <= self->n_input ? self->input[id - 1] : NULL;
        const bool is_due = input && !self->config.for_clients && !input->kicking &&
                            !input->unpinned &&
                            (input->state == WM_LEDGER_OPEN || input->state == WM_LEDGER_WRITTEN);
        all = !is_due || wm_core_has_room (self);
        if (is_due && all)
            wm_core_input_kick (self, input, NULL, -1, 0, "wrong scores of a worker");
        if (input && (is_due || input->kicking))
            any = true;
        else
            wm_input_set_remove (set, id);
    }
    if (all && !any) {
        wm_input_set_free (set);
        note (self);
    }
    return all;
}

void wm_core_distrust_carry_out (wm_core_t *self)
{
    bool all = true;
    self->owes_kicks = false;
    for (machine_t *machine = self->machines; machine; machine = machine->next) {
        if (machine->is_unannounced)
            announce (self, machine);
        else if (machine->distrusted && self->has_verdict && take_unproven (machine))
            note (self); /* of a later check */
        if (machine->to_redo.bits)
            all &= begin_again (self, machine);
        self->owes_kicks |= machine->to_redo.bits != NULL;
    }
    self->has_verdict = !all;
}

uint32_t wm_core_distrust_lift (wm_core_t *self, const char *name)
{
    uint32_t n = 0;
    for (machine_t *machine = self->machines; machine; machine = machine->next) {
        if (!machine->distrusted ||
            (strcmp (machine->host, name) != 0 && strcmp (machine->label, name) != 0 &&
             (!*name || strcmp (machine->key, name) != 0)))
            continue;
        machine->distrusted = machine->key_distrusted = machine->host_distrusted = false;
        wm_input_set_clear (&machine->scored);
        n++;
    }
    if (n)
        note (self);
    return n;
}

void wm_core_distrust_kicked (wm_core_t *self, uint32_t id)
{
    for (machine_t *machine = self->machines; machine; machine = machine->next)
        wm_input_set_remove (&machine->scored, id);
}

void wm_core_distrust_summary (const wm_core_t *self, wm_summary_t *summary)
{
    summary->check_share = self->config.check_share;
    summary->n_sampled = self->n_sampled;
    summary->n_check_good = self->n_check_good;
    summary->n_check_differ = self->n_check_differ;
    summary->n_check_open = self->n_check;
    summary->suspects = *self->suspects ? self->suspects : NULL;
    for (const machine_t *one = self->machines; one; one = one->next) {
        if (!one->distrusted || summary->n_named++ >= WM_SUMMARY_NAMED_MAX)
            continue;
        wm_summary_named_t *row = &summary->named[summary->n_named - 1];
        memcpy (row->label, one->label, sizeof row->label);
        memcpy (row->host, one->host, sizeof row->host);
        snprintf (row->key, sizeof row->key, "%s", one->key);
        memcpy (row->signature, one->signature, sizeof row->signature);
        memcpy (row->why, one->why, sizeof row->why);
        for (uint32_t id = 0; (id = wm_input_set_next (&one->scored, id)) && id <= self->n_input;)
            if (row->n_earlier++ < WM_SUMMARY_EARLIER_MAX)
                row->earlier[row->n_earlier - 1] = id;
    }
}
