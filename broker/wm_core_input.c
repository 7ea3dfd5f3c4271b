/* wm_core_input.c - inputs: who they are, who works on them, and how they end.

   An input is its real path; size and modification time are pinned when it is added. A file that
   differs later is answered HELD "changed" without a record, or, where its output is written,
   WRITTEN with a text: put the file back, or kick.
   A kick begins the input anew as the next generation, whatever became of the old one: what is
   known of it is forgotten when KICK is durable, what still comes of it is ignored. Its file is
   pinned by the INPUT that kicks, or by the next one where an operator does.
   A claim is of one producer session and dies with it. What is INPUT_ACKed, ACKed or held as a
   whole is in the journal first.  */
#include "broker/wm_core_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

input_t *input_find (const wm_core_t *self, uint32_t id)
{
    return id && id <= self->n_input ? self->input[id - 1] : NULL;
}

static uint64_t text_hash (const char *text)
{
    return XXH3_64bits (text, strlen (text));
}

static input_t *input_of_path (const wm_core_t *self, const char *path)
{
    size_t at;
    uint64_t hash = text_hash (path);
    for (input_t *input = wm_table_first (&self->paths, hash, &at); input;
         input = wm_table_next (&self->paths, hash, &at))
        if (strcmp (input->path, path) == 0)
            return input;
    return NULL;
}

static int name_is_taken (const wm_core_t *self, const char *name)
{
    size_t at;
    uint64_t hash = text_hash (name);
    for (input_t *input = wm_table_first (&self->names, hash, &at); input;
         input = wm_table_next (&self->names, hash, &at))
        if (strcmp (input->name, name) == 0)
            return 1;
    return 0;
}

/* The name proposed; where another input has it, with 8 digits of the path's hash before its first
   dot but one ("a.scores.h5" -> "a-1f2e3d4c.scores.h5"), then with more.  */
static char *name_unique (const wm_core_t *self, const char *proposed, const char *path)
{
    char name[256];
    const char *tail = strstr (proposed, ".scores.h5");
    int stem = (int) (tail ? (size_t) (tail - proposed) : strlen (proposed));
    if (stem > 200)
        stem = 200;
    snprintf (name, sizeof name, "%s", proposed);
    uint64_t hash = text_hash (path);
    for (uint64_t salt = 0; name_is_taken (self, name); salt++)
        snprintf (name, sizeof name, "%.*s-%08" PRIx32 "%.40s", stem, proposed,
                  (uint32_t) (hash + salt), tail ? tail : "");
    return strdup (name);
}

void input_free (wm_core_t *self, input_t *input)
{
    events_free (self, input);
    free (input->path);
    free (input->name);
    free (input->text);
    free (input);
}

/* Adds an input; takes the strings. NULL without memory (the strings are freed).  */
static input_t *input_add (wm_core_t *self, char *path, char *name)
{
    input_t *input = calloc (1, sizeof *input);
    int ok = input && path && name && !wm_table_reserve (&self->paths) &&
             !wm_table_reserve (&self->names) && self->n_input < WM_ALL - 1;
    if (ok && self->n_input == self->input_capacity) {
        uint32_t capacity = self->input_capacity ? self->input_capacity * 2 : 64;
        input_t **grown = realloc (self->input, capacity * sizeof *grown);
        ok = grown != NULL;
        if (ok) {
            self->input = grown;
            self->input_capacity = capacity;
        }
    }
    if (!ok) {
        free (input);
        free (path);
        free (name);
        return NULL;
    }
    input->path = path;
    input->name = name;
    self->input[self->n_input++] = input;
    input->id = self->n_input;
    wm_table_put (&self->paths, text_hash (path), input);
    wm_table_put (&self->names, text_hash (name), input);
    return input;
}

/* Sets why it is held or changed.  */
static void set_text (input_t *input, const char *text)
{
    char *copy = strdup (text);
    if (!copy)
        return;
    free (input->text);
    input->text = copy;
}

static void input_ack (wm_core_t *self, session_t *session, const input_t *input,
                       wm_input_state_t state)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_INPUT_ACK);
    msg.key.input = input->id;
    msg.key.generation = input->generation;
    msg.code = (uint32_t) state;
    snprintf (msg.name, sizeof msg.name, "%s", input->name);
    snprintf (msg.path, sizeof msg.path, "%s", input->path);
    if (state == WM_INPUT_WRITTEN) {
        msg.size = input->out_size;
        msg.mtime_ns = input->out_mtime_ns;
        memcpy (msg.digest, input->out_digest, 16);
    }
    if (state == WM_INPUT_HELD || (state == WM_INPUT_WRITTEN && input->changed))
        snprintf (msg.text, sizeof msg.text, "%s", input->text ? input->text : "held");
    core_send (self, session, &msg, NULL);
}

static void ack (wm_core_t *self, session_t *session, const input_t *input, wm_msg_type_t type)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_ACK);
    msg.key.input = input->id;
    msg.key.generation = input->generation;
    msg.code = (uint32_t) type;
    core_send (self, session, &msg, NULL);
}

static void input_answer (wm_core_t *self, session_t *session, input_t *input, int claim)
{
    if (input->state == INPUT_WRITTEN)
        input_ack (self, session, input, WM_INPUT_WRITTEN);
    else if (input->state == INPUT_HELD || input->changed)
        input_ack (self, session, input, WM_INPUT_HELD);
    else if (!claim)
        input_ack (self, session, input, WM_INPUT_OPEN);
    else if (input->claim && input->claim != session)
        input_ack (self, session, input, WM_INPUT_BUSY);
    else {
        if (!input->claim) {
            input->claim = session;
            input->claim_prev = NULL;
            input->claim_next = session->claims;
            if (session->claims)
                session->claims->claim_prev = input;
            session->claims = input;
        }
        session->last_input = input->id;
        input_ack (self, session, input, WM_INPUT_CLAIMED);
    }
}

void input_unclaim (wm_core_t *self, input_t *input)
{
    session_t *session = input->claim;
    if (!session)
        return;
    while (input->open)
        event_unannounce (self, input->open);
    for (event_t *event = input->all; event; event = event->all_next) { /* the done ones */
        event->flags &= ~(uint32_t) EVENT_ANNOUNCED;
        for (uint32_t i = 0; i < event->n_batch; i++) /* a result came by another way meanwhile */
            batch_forget_need (self, &event->batch[i]);
    }
    *(input->claim_prev ? &input->claim_prev->claim_next : &session->claims) = input->claim_next;
    if (input->claim_next)
        input->claim_next->claim_prev = input->claim_prev;
    input->claim = NULL;
    input->claim_prev = input->claim_next = NULL;
}

/* ---- KICK --------------------------------------------------------------------------------------
 */
/* size below 0: what the next INPUT says. session: who hears that it is done.  */
static void input_kick (wm_core_t *self, input_t *input, const session_t *session, int64_t size,
                        int64_t mtime_ns, const char *why)
{
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_KICK);
    record.key = (wm_key_t){ input->id, WM_ALL, WM_ALL, input->generation + 1 };
    record.size = size;
    record.mtime_ns = mtime_ns;
    wm_record_text (&record, why);
    input->kicking = 1;
    input->kick_size = size;
    input->kick_mtime_ns = mtime_ns;
    core_log (self, "kicked by %s%s%s: %s", session->label, *why ? ", " : "", why, input->path);
    core_append (self, &record, NULL, session, 0);
}

/* The number of an input, or its path.  */
static input_t *input_named (const wm_core_t *self, const char *text)
{
    input_t *input = input_of_path (self, text);
    if (input || !*text || text[strspn (text, "0123456789")] || strlen (text) > 9)
        return input;
    return input_find (self, (uint32_t) strtoul (text, NULL, 10));
}

void input_on_kick (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    input_t *input = input_named (self, msg->text);
    if (!input)
        core_refuse (self, session, WM_REASON_STALE,
                     "no input '%.300s' is known: give its real path, or its number", msg->text);
    else if (input->kicking)
        core_also (self, WM_RECORD_KICK, (wm_key_t){ .input = input->id }, session, 0);
    else
        input_kick (self, input, session, -1, 0, "");
}

/* Whether --retry-held is meant for it: what is held or changed, as a whole or in part.  */
static int wants_kick (const input_t *input)
{
    return !input->unpinned &&
           (input->state == INPUT_HELD || input->changed || input->n_batch_held);
}

/* A name goes into a file system: no folders, nothing hidden, nothing unprintable.  */
static int name_is_fit (const char *name)
{
    if (!*name || *name == '.')
        return 0;
    for (; *name; name++)
        if (*name == '/' || (unsigned char) *name < ' ' || *name == 0x7f)
            return 0;
    return 1;
}

/* Pins the file as this INPUT says it is; the session's answer comes when that is durable.  */
static void input_pin (wm_core_t *self, session_t *session, input_t *input, const wm_msg_t *msg)
{
    input->state = INPUT_ADDING;
    input->unpinned = 0;
    input->size = msg->size;
    input->mtime_ns = msg->mtime_ns;
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_INPUT);
    record.key.input = input->id;
    record.key.generation = input->generation;
    record.size = (int64_t) input->size;
    record.mtime_ns = input->mtime_ns;
    wm_record_text (&record, input->path);
    record.name = input->name;
    record.name_bytes = (uint32_t) strlen (input->name);
    core_append (self, &record, NULL, session, (uint8_t) msg->code);
}

/* Notes whether the file, as it is now, is another than the one pinned.  */
static void input_compare (input_t *input, uint64_t size, int64_t mtime_ns)
{
    int gone = !size && !mtime_ns; /* nobody needs it any more once it is written */
    input->changed = (input->size != size || input->mtime_ns != mtime_ns) &&
                     !(gone && input->state == INPUT_WRITTEN);
    if (!input->changed || input->state == INPUT_HELD)
        return;
    char text[300];
    snprintf (text, sizeof text,
              "changed since %s: %" PRIu64 " bytes then, %" PRIu64
              " now%s; restore the file, or have it scored anew with --retry-held",
              input->state == INPUT_WRITTEN ? "its output was written" : "it was added",
              input->size, size, input->size == size ? " (modification time differs)" : "");
    set_text (input, text);
}

/* INPUT of an input that is known.  */
static void input_again (wm_core_t *self, session_t *session, input_t *input, const wm_msg_t *msg)
{
    if (input->kicking) {
        input_ack (self, session, input, WM_INPUT_BUSY);
        return;
    }
    if (input->state == INPUT_ADDING || input->closing || input->holding) {
        core_also (self, WM_RECORD_INPUT, (wm_key_t){ .input = input->id }, session,
                   (uint8_t) msg->code);
        return;
    }
    if (input->unpinned) {
        input_pin (self, session, input, msg);
        return;
    }
    input_compare (input, msg->size, msg->mtime_ns);
    if (msg->code == 2 && wants_kick (input))
        input_kick (self, input, session, (int64_t) msg->size, msg->mtime_ns, "to be retried");
    else
        input_answer (self, session, input, msg->code == 1);
}

void input_on_input (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    if (msg->code > 2 || !name_is_fit (msg->name) || !*msg->path || msg->size > INT64_MAX) {
        core_refuse (self, session, WM_REASON_PROTOCOL,
                     "INPUT with code %u, name '%.100s', path '%.200s'", msg->code, msg->name,
                     msg->path);
        return;
    }
    input_t *input = input_of_path (self, msg->path);
    if (input) {
        input_again (self, session, input, msg);
        return;
    }
    input = input_add (self, strdup (msg->path), name_unique (self, msg->name, msg->path));
    if (!input) {
        core_refuse (self, session, WM_REASON_BUSY, "no memory for another input: try later");
        return;
    }
    input_pin (self, session, input, msg);
}

int input_claim_is_over (const input_t *input, const wm_msg_t *msg)
{
    return input->state == INPUT_HELD || input->holding || input->kicking ||
           msg->key.generation < input->generation;
}

/* The input of this message if the session may speak for it. NULL: there is nothing to do; a
   session that was never given the claim is refused, one whose claim ended is ignored.  */
input_t *input_claimed (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    input_t *input = input_find (self, msg->key.input);
    if (input && input_claim_is_over (input, msg))
        return NULL;
    if (input && input->claim == session && input->generation == msg->key.generation &&
        input->state == INPUT_OPEN)
        return input;
    core_refuse (self, session, WM_REASON_STALE, "%s of input %u, which is not claimed by it",
                 wm_msg_name (msg->type), msg->key.input);
    return NULL;
}

void input_hold (wm_core_t *self, input_t *input, session_t *session, uint32_t code,
                 const char *text)
{
    set_text (input, text);
    input->holding = 1;
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_HELD);
    record.key = (wm_key_t){ input->id, WM_ALL, WM_ALL, input->generation };
    record.code = WM_HIT_HELD;
    wm_record_text (&record, text);
    core_append (self, &record, NULL, session, (uint8_t) code);
}

void input_on_end (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    input_t *input = input_claimed (self, session, msg);
    if (!input)
        return;
    if (input->ended && input->end_count != msg->count) {
        char text[200];
        snprintf (text, sizeof text,
                  "it had %" PRIu64 " events before and has %" PRIu64 " now: the file changed",
                  input->end_count, msg->count);
        input_hold (self, input, session, 0, text);
        return;
    }
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_INPUT_END);
    record.key.input = input->id;
    record.key.generation = input->generation;
    record.n_event = msg->count;
    if (input->ended) {
        core_also (self, WM_RECORD_INPUT_END, record.key, session, 0);
        return;
    }
    input->ended = 1;
    input->end_count = msg->count;
    core_append (self, &record, NULL, session, 0);
}

void input_on_written (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    input_t *input = input_claimed (self, session, msg);
    if (!input)
        return;
    if (!input->ended || input->n_done != input->end_count || input->closing) {
        core_refuse (self, session, WM_REASON_PROTOCOL,
                     "FILE_WRITTEN of input %u with %" PRIu64 " of %" PRIu64 " events done",
                     input->id, input->n_done, input->end_count);
        return;
    }
    input->closing = 1;
    input->out_size = msg->size;
    input->out_mtime_ns = msg->mtime_ns;
    memcpy (input->out_digest, msg->digest, 16);
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_FILE_WRITTEN);
    record.key.input = input->id;
    record.key.generation = input->generation;
    record.size = (int64_t) msg->size;
    record.mtime_ns = msg->mtime_ns;
    memcpy (record.digest, msg->digest, 16);
    record.n_event = input->n_done;
    record.n_hit = input->n_hit;
    record.n_held = input->n_hit_held;
    record.n_batch = (uint32_t) input->n_batch_held;
    core_append (self, &record, NULL, session, 0);
}

void input_on_lost (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    input_t *input = input_find (self, msg->key.input);
    if (!input || (input->state == INPUT_ADDING && input->generation == msg->key.generation)) {
        core_refuse (self, session, WM_REASON_STALE, "FILE_LOST of input %u, which does not exist",
                     msg->key.input);
        return;
    }
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_FILE_LOST);
    record.key.input = input->id;
    record.key.generation = input->generation;
    if (input->state != INPUT_WRITTEN || input->holding || input->kicking ||
        input->generation != msg->key.generation) {
        core_also (self, WM_RECORD_FILE_LOST, record.key, session, 0);
        return;
    }
    core_log (self, "output %s is lost (%s): its input is open again", input->name, msg->text);
    input->holding = 1; /* answers wait; a second FILE_LOST too */
    wm_record_text (&record, msg->text);
    core_append (self, &record, NULL, session, 1);
}

void input_on_held (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    input_t *input = input_claimed (self, session, msg);
    if (input)
        input_hold (self, input, session, 1, *msg->text ? msg->text : "its producer refused it");
}

/* ---- effects -----------------------------------------------------------------------------------
 */
/* Takes the input's part out of the totals of what is open.  */
static void totals_forget (wm_core_t *self, input_t *input)
{
    self->events_known -= input->n_event;
    self->events_done -= input->n_done;
    self->hits_known -= input->n_hit;
    self->hits_done -= input->n_hit_done;
    self->hits_held -= input->n_hit_held;
    input->n_event = input->n_done = input->n_hit = input->n_hit_done = input->n_hit_held = 0;
}

static void durable_written (wm_core_t *self, input_t *input)
{
    input->closing = 0;
    input->state = INPUT_WRITTEN;
    self->n_input_written++;
    self->events_written += input->n_done;
    self->written_batches += input->n_batch - input->n_batch_held;
    self->written_batches_held += input->n_batch_held;
    events_free (self, input);
}

/* Everything that is known of it is forgotten: all of it is to be scored.  */
static void reopen (wm_core_t *self, input_t *input)
{
    if (input->state == INPUT_WRITTEN) {
        self->n_input_written--;
        self->events_written -= input->n_done;
        self->written_batches -= input->n_batch - input->n_batch_held;
        self->written_batches_held -= input->n_batch_held;
    }
    if (input->state == INPUT_HELD)
        self->n_input_held--;
    input_unclaim (self, input);
    events_free (self, input);
    totals_forget (self, input);
    input->n_batch = input->n_batch_held = 0;
    input->ended = 0;
    input->state = INPUT_OPEN;
}

static void durable_lost (wm_core_t *self, input_t *input)
{
    input->holding = 0;
    reopen (self, input);
}

/* Who asked hears of it, and who has the claim; if it was an operator every producer: the one that
   had the claim once may go on at once.  */
static void durable_kick (wm_core_t *self, input_t *input, const session_t *asker)
{
    const session_t *claim = input->claim;
    reopen (self, input); /* its leases are revoked by their old keys */
    input->generation++;
    input->kicking = 0;
    input->changed = 0;
    free (input->text);
    input->text = NULL;
    input->unpinned = input->kick_size < 0;
    input->size = input->unpinned ? 0 : (uint64_t) input->kick_size;
    input->mtime_ns = input->kick_mtime_ns;
    int all = !asker || asker->role == WM_ROLE_OPERATOR;
    for (session_t *session = self->first; session; session = session->next)
        if (session->state == SESSION_LIVE && session->role == WM_ROLE_PRODUCER &&
            (all || session == asker || session == claim))
            input_ack (self, session, input, WM_INPUT_OPEN);
}

static void durable_held (wm_core_t *self, input_t *input)
{
    session_t *claim = input->claim;
    input->holding = 0;
    input->state = INPUT_HELD;
    self->n_input_held++;
    core_log (self, "input %s is held: %s", input->path, input->text ? input->text : "held");
    input_unclaim (self, input);
    events_free (self, input);
    uint64_t n_hit = input->n_hit;
    totals_forget (self, input);
    self->hits_known += n_hit;
    self->hits_held += n_hit;
    input->n_hit = input->n_hit_held = n_hit;
    if (claim)
        input_ack (self, claim, input, WM_INPUT_HELD);
}

void input_durable (wm_core_t *self, const pending_t *pending)
{
    input_t *input = input_find (self, pending->key.input);
    session_t *session = core_session (self, pending->session);
    switch (pending->type) {
    case WM_RECORD_INPUT:
        if (pending->is_record)
            input->state = INPUT_OPEN;
        if (session)
            input_answer (self, session, input, pending->code == 1);
        return;
    case WM_RECORD_INPUT_END:
        if (session)
            ack (self, session, input, WM_MSG_INPUT_END);
        return;
    case WM_RECORD_FILE_WRITTEN:
        durable_written (self, input);
        if (session) {
            input_unclaim (self, input);
            ack (self, session, input, WM_MSG_FILE_WRITTEN);
        }
        return;
    case WM_RECORD_FILE_LOST:
        if (pending->is_record)
            durable_lost (self, input);
        if (session)
            ack (self, session, input, WM_MSG_FILE_LOST);
        return;
    case WM_RECORD_KICK:
        if (pending->is_record)
            durable_kick (self, input, session);
        if (session && session->role == WM_ROLE_OPERATOR)
            ack (self, session, input, WM_MSG_CONTROL);
        return;
    case WM_RECORD_HELD:
        durable_held (self, input);
        if (session && pending->code)
            ack (self, session, input, WM_MSG_INPUT_HELD);
        return;
    default:
        assert (!"no such record is appended by the core");
    }
}

/* ---- what was there before ---------------------------------------------------------------------
 */
int wm_core_restore_input (wm_core_t *self, const wm_ledger_input_t *row)
{
    if (row->id != self->n_input + 1)
        core_log (self, "ledger: input %u follows input %u", row->id, self->n_input);
    /* Ids are given one by one: a row that is missing was never acknowledged, but its id is taken.
     */
    while (self->n_input + 1 < row->id) {
        char path[32];
        snprintf (path, sizeof path, "?%u", self->n_input + 1);
        input_t *hole = input_add (self, strdup (path), strdup (path));
        if (!hole)
            return -1;
        hole->state = INPUT_HELD;
        set_text (hole, "its record is gone");
        self->n_input_held++;
    }
    input_t *input = input_add (self, strdup (row->path), strdup (row->name));
    if (!input)
        return -1;
    input->generation = row->generation;
    input->unpinned = row->size < 0;
    input->size = input->unpinned ? 0 : (uint64_t) row->size;
    input->mtime_ns = row->mtime_ns;
    input->state = row->state == WM_LEDGER_WRITTEN ? INPUT_WRITTEN
                   : row->state == WM_LEDGER_HELD  ? INPUT_HELD
                                                   : INPUT_OPEN;
    input->ended = row->n_event >= 0;
    input->end_count = row->n_event >= 0 ? (uint64_t) row->n_event : 0;
    if (input->state == INPUT_WRITTEN) {
        input->out_size = (uint64_t) row->out_size;
        input->out_mtime_ns = row->out_mtime_ns;
        memcpy (input->out_digest, row->out_digest, 16);
        input->n_event = input->n_done = input->end_count;
        input->n_hit = row->n_hit;
        input->n_hit_held = row->n_held;
        input->n_hit_done = row->n_hit - row->n_held;
        input->n_batch = input->n_batch_held = row->n_batch_held;
        self->written_batches_held += row->n_batch_held;
        self->n_input_written++;
        self->events_written += input->n_done;
    }
    if (input->state == INPUT_HELD) {
        set_text (input, row->text);
        self->n_input_held++;
    }
    self->events_known += input->n_event;
    self->events_done += input->n_done;
    self->hits_known += input->n_hit;
    self->hits_done += input->n_hit_done;
    self->hits_held += input->n_hit_held;
    return 0;
}

int wm_core_known (const wm_core_t *self, uint32_t id, wm_core_known_t *known)
{
    const input_t *input = input_find (self, id);
    if (input)
        *known = (wm_core_known_t){ input->path, input->name, input->state == INPUT_WRITTEN,
                                    input->out_size, input->out_mtime_ns };
    return input != NULL;
}

void wm_core_look_output (wm_core_t *self, uint32_t id, const char *what)
{
    input_t *input = input_find (self, id);
    if (!input || input->state != INPUT_WRITTEN)
        return;
    reopen (self, input);
    input->lost = what;
}

void wm_core_look_input (wm_core_t *self, uint32_t id, uint64_t size, int64_t mtime_ns)
{
    input_t *input = input_find (self, id);
    if (input && !input->unpinned)
        input_compare (input, size, mtime_ns);
}
