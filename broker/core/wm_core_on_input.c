/* wm_core_on_input.c - handles a producer's messages about inputs, and the effects of their
   records.

   A kick begins the input again as the next generation, whatever became of the old one: what is
   known of the old one is forgotten when KICK is durable, and what still arrives for it is ignored.
   The file is pinned by the INPUT that kicks, or by the next INPUT where an operator kicks; one
   that lies elsewhere by the first INPUT that gives its size.
   INPUT_ACK of a new input, ACK, and HELD of a whole input are sent after their record is durable.
 */
#include "broker/core/wm_core_check_private.h"
#include "schema/base/wm_path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers --------------------------------------------------------------------------------- */

static void input_ack (wm_core_t *self, session_t *session, const input_t *input,
                       wm_input_answer_t state)
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
        snprintf (msg.text, sizeof msg.text, "%.400s%s", input->text ? input->text : "held",
                  state == WM_INPUT_HELD && input->state == WM_LEDGER_HELD && input->changed
                      ? "; the file has changed since: --retry-held scores it as it is now"
                      : "");
    wm_core_send (self, session, &msg, NULL);
}

static void ack (wm_core_t *self, session_t *session, const input_t *input, wm_msg_type_t type)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_ACK);
    msg.key.input = input->id;
    msg.key.generation = input->generation;
    msg.code = (uint32_t) type;
    wm_core_send (self, session, &msg, NULL);
}

static void input_answer (wm_core_t *self, session_t *session, input_t *input, bool claim)
{
    if (input->state == WM_LEDGER_WRITTEN) {
        input->told = session->id;
        session->was_told = true;
        input_ack (self, session, input, WM_INPUT_WRITTEN);
    } else if (input->state == WM_LEDGER_HELD || input->changed)
        input_ack (self, session, input, WM_INPUT_HELD);
    else if (!claim)
        input_ack (self, session, input, WM_INPUT_OPEN);
    else if (input->claim && input->claim != session)
        input_ack (self, session, input, WM_INPUT_BUSY);
    else {
        wm_core_input_claim (session, input);
        session->last_input = input->id;
        input_ack (self, session, input, WM_INPUT_CLAIMED);
    }
}

/* ---- INPUT ----------------------------------------------------------------------------------- */

/* Whether --retry-held applies: the input is held or changed, as a whole or in part.  */
static bool wants_kick (const input_t *input)
{
    return input->state == WM_LEDGER_HELD ||
           (!input->unpinned && (input->changed || input->n_batch_held));
}

/* A name becomes a file: no folders, not hidden, printable.  */
static bool name_is_valid (const char *name)
{
    if (!*name || *name == '.')
        return false;
    for (; *name; name++)
        if (*name == '/' || (unsigned char) *name < ' ' || *name == 0x7f)
            return false;
    return true;
}

/* Pins the file's size and time as this INPUT gives them, if it does; answers when that is
   durable.  */
static void input_pin (wm_core_t *self, session_t *session, input_t *input, const wm_msg_t *msg)
{
    input->state = WM_LEDGER_ADDING;
    input->unpinned = msg->size == WM_SIZE_UNKNOWN;
    input->size = input->unpinned ? 0 : msg->size;
    input->mtime_ns = msg->mtime_ns;
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_INPUT);
    record.key.input = input->id;
    record.key.generation = input->generation;
    record.size = input->unpinned ? -1 : (int64_t) input->size;
    record.mtime_ns = input->mtime_ns;
    wm_record_text (&record, input->path);
    record.name = input->name;
    record.name_bytes = (uint32_t) strlen (input->name);
    wm_core_append (self, &record, NULL, session, (uint8_t) msg->code);
}

/* INPUT of an input that is known.  */
static void input_again (wm_core_t *self, session_t *session, input_t *input, const wm_msg_t *msg)
{
    if (input->kicking) {
        input_ack (self, session, input, WM_INPUT_BUSY);
        return;
    }
    if (input->state == WM_LEDGER_ADDING || input->closing || input->holding) {
        wm_core_also (self, WM_RECORD_INPUT, (wm_key_t){ .input = input->id }, session,
                      (uint8_t) msg->code);
        return;
    }
    const bool gives_size = msg->size != WM_SIZE_UNKNOWN;
    if (input->unpinned && gives_size && input->state != WM_LEDGER_HELD) {
        input_pin (self, session, input, msg);
        return;
    }
    if (!input->unpinned && gives_size)
        wm_core_input_compare (self, input, msg->size, msg->mtime_ns, "");
    if (msg->code == 2 && wants_kick (input)) /* without a size (-1): pinned by a later INPUT */
        wm_core_input_kick (self, input, session, (int64_t) msg->size, msg->mtime_ns,
                            "to be retried");
    else
        input_answer (self, session, input, msg->code == 1);
}

/* In a broker for clients a session has one input, which no other session can claim or name.  */
static void on_client (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    if (msg->code != 1 || session->claims) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL,
                        "this broker serves clients: one INPUT a session, with code 1");
        return;
    }
    input_t *input = wm_core_input_lend (self);
    session->turn = self->producers.turn;
    if (input)
        input_answer (self, session, input, true);
    else
        wm_core_refuse (self, session, WM_REASON_BUSY, "no memory for another client: try later");
}

/* What ends an input, or changes it on disk, has no place in a broker for clients.  */
static bool is_for_files (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    if (self->config.for_clients)
        wm_core_refuse (self, session, WM_REASON_PROTOCOL, "%s: this broker serves clients",
                        wm_msg_name (msg->type));
    return !self->config.for_clients;
}

static void on_input (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                      const wm_payload_t *payload)
{
    (void) payload;
    if (self->config.for_clients) {
        on_client (self, session, msg);
        return;
    }
    if (msg->code > 2 || !name_is_valid (msg->name) || !*msg->path ||
        (msg->size > INT64_MAX && msg->size != WM_SIZE_UNKNOWN)) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL,
                        "INPUT with code %u, name '%.100s', path '%.200s'", msg->code, msg->name,
                        msg->path);
        return;
    }
    input_t *input = wm_core_input_of_path (self, msg->path);
    if (input) {
        input_again (self, session, input, msg);
        return;
    }
    input = wm_core_input_add (self, strdup (msg->path),
                               wm_core_input_name (self, msg->name, msg->path));
    if (!input) {
        wm_core_refuse (self, session, WM_REASON_BUSY, "no memory for another input: try later");
        return;
    }
    input_pin (self, session, input, msg);
}

/* ---- the end of an input --------------------------------------------------------------------- */

static void on_input_end (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                          const wm_payload_t *payload)
{
    (void) payload;
    if (!is_for_files (self, session, msg))
        return;
    input_t *input = wm_core_session_claim (self, session, msg);
    if (!input)
        return;
    if (input->ended && input->end_count != msg->count) {
        char text[200];
        snprintf (text, sizeof text,
                  "it had %" PRIu64 " events before and has %" PRIu64 " now: the file changed",
                  input->end_count, msg->count);
        wm_core_input_hold (self, input, session, 0, text);
        return;
    }
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_INPUT_END);
    record.key.input = input->id;
    record.key.generation = input->generation;
    record.n_event = msg->count;
    if (input->ended) {
        wm_core_also (self, WM_RECORD_INPUT_END, record.key, session, 0);
        return;
    }
    input->ended = true;
    input->end_count = msg->count;
    wm_core_append (self, &record, NULL, session, 0);
}

/* The totals of the input go with it. code 1: only the time is new.  */
static void append_written (wm_core_t *self, session_t *session, const input_t *input, uint8_t code)
{
    char text[24];
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_FILE_WRITTEN);
    record.key.input = input->id;
    record.key.generation = input->generation;
    record.size = (int64_t) input->out_size;
    record.mtime_ns = input->out_mtime_ns;
    memcpy (record.digest, input->out_digest, 16);
    record.n_event = input->n_done;
    record.n_hit = input->n_hit;
    record.n_held = input->n_hit_held;
    record.n_batch = (uint32_t) input->n_batch_held;
    snprintf (text, sizeof text, "%" PRIu64, input->n_hit_empty);
    if (input->n_hit_empty)
        wm_record_text (&record, text);
    wm_core_append (self, &record, NULL, session, code);
}

/* An output that was touched or copied: the same bytes, another time, which is noted.  */
static bool is_touched (const input_t *input, const wm_msg_t *msg)
{
    return input && input->state == WM_LEDGER_WRITTEN && !input->holding && !input->kicking &&
           input->generation == msg->key.generation && input->out_size == msg->size &&
           memcmp (input->out_digest, msg->digest, 16) == 0;
}

/* Whether this is a report of a touched output that is lost by now, or was written again: others
   were quicker. It has no answer.  */
static bool is_outdated (const input_t *input, const session_t *session, const wm_msg_t *msg)
{
    return session->was_told && input && input->claim != session &&
           input->generation == msg->key.generation;
}

static void on_file_written (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                             const wm_payload_t *payload)
{
    (void) payload;
    if (!is_for_files (self, session, msg))
        return;
    input_t *known = wm_core_input_find (self, msg->key.input);
    if (is_touched (known, msg)) {
        known->out_mtime_ns = msg->mtime_ns;
        append_written (self, session, known, 1);
        return;
    }
    if (is_outdated (known, session, msg))
        return;
    input_t *input = wm_core_session_claim (self, session, msg);
    if (!input)
        return;
    if (!input->ended || input->n_done != input->end_count) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL,
                        "FILE_WRITTEN of input %u with %" PRIu64 " of %" PRIu64 " events done",
                        input->id, input->n_done, input->end_count);
        return;
    }
    input->closing = true;
    input->out_size = msg->size;
    input->out_mtime_ns = msg->mtime_ns;
    memcpy (input->out_digest, msg->digest, 16);
    input->n_hit_empty = msg->key.batch < input->n_hit ? msg->key.batch : input->n_hit;
    append_written (self, session, input, 0);
}

static void on_file_lost (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                          const wm_payload_t *payload)
{
    (void) payload;
    if (!is_for_files (self, session, msg))
        return;
    input_t *input = wm_core_input_find (self, msg->key.input);
    if (!input || (input->state == WM_LEDGER_ADDING && input->generation == msg->key.generation)) {
        wm_core_refuse (self, session, WM_REASON_STALE,
                        "FILE_LOST of input %u, which does not exist", msg->key.input);
        return;
    }
    wm_record_t record;
    wm_record_init (&record, WM_RECORD_FILE_LOST);
    record.key.input = input->id;
    record.key.generation = input->generation;
    if (input->state != WM_LEDGER_WRITTEN || input->holding || input->kicking ||
        input->generation != msg->key.generation) {
        wm_core_also (self, WM_RECORD_FILE_LOST, record.key, session, 0);
        return;
    }
    if (input->told !=
        session->id) { /* it never asked, or another has asked since: it asks again */
        input_ack (self, session, input, WM_INPUT_BUSY);
        return;
    }
    wm_core_log (self, "output %s is lost (%s): its input is open again", input->name, msg->text);
    input->holding = true; /* answers wait for the record, a second FILE_LOST too */
    wm_record_text (&record, msg->text);
    wm_core_append (self, &record, NULL, session, 1);
}

static void on_input_held (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                           const wm_payload_t *payload)
{
    (void) payload;
    if (!is_for_files (self, session, msg))
        return;
    input_t *input = wm_core_session_claim (self, session, msg);
    if (input)
        wm_core_input_hold (self, input, session, 1,
                            *msg->text ? msg->text : "its producer refused it");
}

/* ---- effects of durable records -------------------------------------------------------------- */

static void durable_written (wm_core_t *self, input_t *input)
{
    input->closing = false;
    input->state = WM_LEDGER_WRITTEN;
    self->inputs.n_written++;
    self->inputs.n_closed++;
    self->totals.hits_empty += input->n_hit_empty;
    self->totals.events_written += input->n_done;
    self->totals.written_batches += input->n_batch - input->n_batch_held;
    self->totals.written_batches_held += input->n_batch_held;
    wm_core_events_free (self, input);
}

static void durable_lost (wm_core_t *self, input_t *input)
{
    input->holding = false;
    wm_core_input_reopen (self, input);
}

/* Sends the news to the session that kicked and to the one that has the claim; after an operator's
   kick to every producer, because any of them may have had the claim and can go on at once.  */
static void durable_kick (wm_core_t *self, input_t *input, const session_t *asker)
{
    const session_t *claim = input->claim;
    wm_core_input_reopen (self, input); /* its leases are revoked by their old keys */
    input->generation++;
    input->kicking = false;
    wm_core_distrust_kicked (self, input->id);
    input->changed = false;
    free (input->text);
    input->text = NULL;
    input->unpinned = input->kick_size < 0;
    input->size = input->unpinned ? 0 : (uint64_t) input->kick_size;
    input->mtime_ns = input->kick_mtime_ns;
    const bool all = !asker || asker->role == WM_ROLE_OPERATOR;
    for (session_t *session = self->sessions.first; session; session = session->next)
        if (session->state == SESSION_LIVE && session->role == WM_ROLE_PRODUCER &&
            (all || session == asker || session == claim))
            input_ack (self, session, input, WM_INPUT_OPEN);
}

static void durable_held (wm_core_t *self, input_t *input)
{
    session_t *claim = input->claim;
    input->holding = false;
    input->state = WM_LEDGER_HELD;
    self->inputs.n_held++;
    self->inputs.n_closed++;
    wm_core_warn (self, "input %s is held%s%s", input->path, input->text ? ": " : "",
                  input->text ? wm_path_behind (input->text, input->path) : "");
    wm_core_input_unclaim (self, input);
    wm_core_events_free (self, input);
    wm_core_input_forget_totals (self, input); /* how many hits it has is not recorded */
    if (claim)
        input_ack (self, claim, input, WM_INPUT_HELD);
}

void wm_core_input_durable (wm_core_t *self, const pending_t *pending)
{
    input_t *input = wm_core_input_find (self, pending->key.input);
    session_t *session = wm_core_session_find (self, pending->session);
    switch (pending->type) {
    case WM_RECORD_INPUT:
        if (pending->is_record)
            input->state = WM_LEDGER_OPEN;
        if (session)
            input_answer (self, session, input, pending->code == 1);
        return;
    case WM_RECORD_INPUT_END:
        if (session)
            ack (self, session, input, WM_MSG_INPUT_END);
        return;
    case WM_RECORD_FILE_WRITTEN:
        if (!pending->code)
            durable_written (self, input);
        input->told = pending->session;
        if (session) {
            session->was_told = true;
            if (!pending->code)
                wm_core_input_unclaim (self, input);
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

const wm_core_row_t wm_core_input_rows[] = {
    { WM_MSG_INPUT, BY_PRODUCER, WHILE_LIVE, 0, on_input },
    { WM_MSG_INPUT_END, BY_PRODUCER, WHILE_LIVE, 0, on_input_end },
    { WM_MSG_FILE_WRITTEN, BY_PRODUCER, WHILE_LIVE, 0, on_file_written },
    { WM_MSG_FILE_LOST, BY_PRODUCER, WHILE_LIVE, 0, on_file_lost },
    { WM_MSG_INPUT_HELD, BY_PRODUCER, WHILE_LIVE, 0, on_input_held },
    { 0 },
};
