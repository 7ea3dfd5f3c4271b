/* wm_core_input.c - inputs: their identity, which producer has the claim, and how they change.

   An input is its real path; size and modification time are pinned when it is added. A file that
   differs later is answered HELD "changed" without a record, or, where its output is written,
   WRITTEN with a text: restore the file, or kick.
   A claim belongs to one producer session and ends with it.  */
#include "broker/core/wm_core_private.h"

#include "schema/base/wm_grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- finding --------------------------------------------------------------------------------- */

input_t *wm_core_input_find (const wm_core_t *self, uint32_t id)
{
    return id && id <= self->inputs.n ? self->inputs.at[id - 1] : NULL;
}

input_t *wm_core_input_of_path (const wm_core_t *self, const char *path)
{
    size_t at;
    uint64_t hash = wm_table_text (path);
    for (input_t *input = wm_table_first (&self->inputs.by_path, hash, &at); input;
         input = wm_table_next (&self->inputs.by_path, hash, &at))
        if (strcmp (input->path, path) == 0)
            return input;
    return NULL;
}

input_t *wm_core_input_named (const wm_core_t *self, const char *text)
{
    input_t *input = wm_core_input_of_path (self, text);
    if (input || !*text || text[strspn (text, "0123456789")] || strlen (text) > 9)
        return input;
    return wm_core_input_find (self, (uint32_t) strtoul (text, NULL, 10));
}

static bool name_is_taken (const wm_core_t *self, const char *name)
{
    size_t at;
    uint64_t hash = wm_table_text (name);
    for (input_t *input = wm_table_first (&self->inputs.by_name, hash, &at); input;
         input = wm_table_next (&self->inputs.by_name, hash, &at))
        if (strcmp (input->name, name) == 0)
            return true;
    return false;
}

/* The name proposed; where another input has it, with 8 digits of the path's hash before its first
   dot but one ("a.scores.h5" -> "a-1f2e3d4c.scores.h5"), then with more.  */
char *wm_core_input_name (const wm_core_t *self, const char *proposed, const char *path)
{
    char name[256];
    const char *tail = strstr (proposed, ".scores.h5");
    int stem = (int) (tail ? (size_t) (tail - proposed) : strlen (proposed));
    if (stem > 200)
        stem = 200;
    snprintf (name, sizeof name, "%s", proposed);
    uint64_t hash = wm_table_text (path);
    for (uint64_t salt = 0; name_is_taken (self, name); salt++)
        snprintf (name, sizeof name, "%.*s-%08" PRIx32 "%.40s", stem, proposed,
                  (uint32_t) (hash + salt), tail ? tail : "");
    return strdup (name);
}

/* ---- adding and freeing ---------------------------------------------------------------------- */

input_t *wm_core_input_add (wm_core_t *self, char *path, char *name)
{
    input_t *input = calloc (1, sizeof *input);
    if (!input || !path || !name || wm_table_reserve (&self->inputs.by_path) ||
        wm_table_reserve (&self->inputs.by_name) || self->inputs.n >= WM_ALL - 1 ||
        !wm_grow (&self->inputs.at, &self->inputs.capacity, self->inputs.n + 1,
                  sizeof *self->inputs.at)) {
        free (input);
        free (path);
        free (name);
        return NULL;
    }
    input->path = path;
    input->name = name;
    self->inputs.at[self->inputs.n++] = input;
    input->id = self->inputs.n;
    wm_table_put (&self->inputs.by_path, wm_table_text (path), input);
    wm_table_put (&self->inputs.by_name, wm_table_text (name), input);
    return input;
}

void wm_core_input_free (wm_core_t *self, input_t *input)
{
    wm_core_events_free (self, input);
    free (input->path);
    free (input->name);
    free (input->text);
    free (input);
}

void wm_core_input_set_text (input_t *input, const char *text)
{
    char *copy = strdup (text);
    if (!copy)
        return;
    free (input->text);
    input->text = copy;
}

/* ---- claims ---------------------------------------------------------------------------------- */

void wm_core_input_claim (session_t *session, input_t *input)
{
    if (input->claim)
        return;
    input->claim = session;
    input->claim_prev = NULL;
    input->claim_next = session->claims;
    if (session->claims)
        session->claims->claim_prev = input;
    session->claims = input;
}

void wm_core_input_unclaim (wm_core_t *self, input_t *input)
{
    session_t *session = input->claim;
    if (!session)
        return;
    while (input->open)
        wm_core_event_unannounce (self, input->open);
    for (event_t *event = input->all; event; event = event->all_next) { /* the done ones */
        event->flags &= ~(uint32_t) EVENT_ANNOUNCED;
        for (uint32_t i = 0; i < event->n_slot; i++) {
            wm_core_budget_forget_need (self, &event->batch[i]); /* a result came by another way */
            event->batch[i].flags &= (uint8_t) ~BATCH_LATE;
        }
    }
    *(input->claim_prev ? &input->claim_prev->claim_next : &session->claims) = input->claim_next;
    if (input->claim_next)
        input->claim_next->claim_prev = input->claim_prev;
    input->claim = NULL;
    input->claim_prev = input->claim_next = NULL;
}

/* I11: the input is held or kicked, or the message is of an older generation.  */
bool wm_core_input_claim_is_over (const input_t *input, const wm_msg_t *msg)
{
    return input->state == WM_LEDGER_HELD || input->holding || input->kicking ||
           msg->key.generation < input->generation;
}

/* ---- a broker for clients -------------------------------------------------------------------- */

input_t *wm_core_input_lend (wm_core_t *self)
{
    char text[32];
    for (uint32_t i = 0; i < self->inputs.n; i++)
        if (!self->inputs.at[i]->claim)
            return self->inputs.at[i];
    snprintf (text, sizeof text, "client %u", self->inputs.n + 1);
    input_t *input = wm_core_input_add (self, strdup (text), strdup (text));
    if (!input)
        return NULL;
    input->state = WM_LEDGER_OPEN;
    /* Workers may still have batches of an earlier broker, whose keys must not come again.  */
    input->generation = (uint32_t) self->config.epoch << 16;
    return input;
}

void wm_core_input_take_back (wm_core_t *self, input_t *input)
{
    const uint64_t n_left = input->n_hit - input->n_hit_done - input->n_hit_held;
    input->reasons = 0;
    wm_core_input_unclaim (self, input);
    wm_core_events_free (self, input);
    self->totals.events_known -= input->n_event - input->n_done;
    self->totals.hits_known -= n_left;
    input->n_event = input->n_done = input->n_hit = input->n_hit_done = input->n_hit_held = 0;
    input->n_batch = input->n_batch_held = 0;
    input->generation++; /* what still comes of the old ones is ignored */
}

/* ---- changes --------------------------------------------------------------------------------- */

void wm_core_input_hold (wm_core_t *self, input_t *input, session_t *session, uint32_t code,
                         const char *text)
{
    wm_core_input_set_text (input, text);
    input->holding = true;
    while (input->open) /* its producer counts them no longer, and announces events of others */
        wm_core_event_unannounce (self, input->open);
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_HELD);
    record.key = (wm_key_t){ input->id, WM_ALL, WM_ALL, input->generation };
    record.code = WM_HIT_HELD;
    wm_record_text (&record, text);
    wm_core_append (self, &record, NULL, session, (uint8_t) code);
}

void wm_core_input_kick (wm_core_t *self, input_t *input, const session_t *session, int64_t size,
                         int64_t mtime_ns, const char *why)
{
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_KICK);
    record.key = (wm_key_t){ input->id, WM_ALL, WM_ALL, input->generation + 1 };
    record.size = size;
    record.mtime_ns = mtime_ns;
    wm_record_text (&record, why);
    input->kicking = true;
    input->kick_size = size;
    input->kick_mtime_ns = mtime_ns;
    wm_core_log (self, "kicked by %s%s%s: %s", session ? session->label : "a check",
                 *why ? ", " : "", why, input->path);
    wm_core_append (self, &record, NULL, session, 0);
}

void wm_core_input_compare (const wm_core_t *self, input_t *input, uint64_t size, int64_t mtime_ns,
                            const char *last)
{
    const bool gone = !size && !mtime_ns; /* not needed any more once the output is written */
    input->changed = (input->size != size || input->mtime_ns != mtime_ns) &&
                     !(gone && input->state == WM_LEDGER_WRITTEN);
    if (!input->changed || input->state == WM_LEDGER_HELD)
        return;
    char what[240] = "", text[600];
    const bool is_pair = *last || strstr (self->pins, "\nplanes: "); /* wm_pair.h */
    if (is_pair && *last && mtime_ns > input->mtime_ns)
        snprintf (what, sizeof what, "%.230s ", last);
    else if (is_pair)
        snprintf (what, sizeof what, "its hits, planes or channel map ");
    snprintf (text, sizeof text,
              "%schanged since %s: %" PRIu64 " bytes then, %" PRIu64
              " now%s; restore the file, or score it again with --retry-held",
              what, input->state == WM_LEDGER_WRITTEN ? "its output was written" : "it was added",
              input->size, size, input->size == size ? " (modification time differs)" : "");
    wm_core_input_set_text (input, text);
}

void wm_core_input_forget_totals (wm_core_t *self, input_t *input)
{
    self->totals.events_known -= input->n_event;
    self->totals.events_done -= input->n_done;
    self->totals.hits_known -= input->n_hit;
    self->totals.hits_done -= input->n_hit_done;
    self->totals.hits_held -= input->n_hit_held;
    if (input->state == WM_LEDGER_WRITTEN)
        self->totals.hits_empty -= input->n_hit_empty;
    input->n_hit_empty = 0;
    input->n_event = input->n_done = input->n_hit = input->n_hit_done = input->n_hit_held = 0;
    input->reasons = 0;
}

void wm_core_input_reopen (wm_core_t *self, input_t *input)
{
    if (input->state == WM_LEDGER_WRITTEN) {
        self->inputs.n_written--;
        self->totals.events_written -= input->n_done;
        self->totals.written_batches -= input->n_batch - input->n_batch_held;
        self->totals.written_batches_held -= input->n_batch_held;
    }
    if (input->state == WM_LEDGER_HELD)
        self->inputs.n_held--;
    wm_core_input_unclaim (self, input);
    wm_core_events_free (self, input);
    wm_core_input_forget_totals (self, input);
    input->n_batch = input->n_batch_held = 0;
    input->ended = false;
    input->state = WM_LEDGER_OPEN;
}
