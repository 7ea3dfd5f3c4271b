/* wm_core_base.c - the lowest layer of wm_core: messages out, records out, the log, texts.

   The ring of pending effects: a record is appended together with an entry that names it; when the
   record is durable, wm_core_durable (wm_core.c) carries the entry's effect out. A further entry
   that waits for the same record (wm_core_also) stands behind it.  */
#include "broker/core/wm_core_private.h"
#include "schema/base/wm_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Effects one call can ask for: holding every batch a worker had, and a little.  */
#define PENDING_ROOM (2 * WM_CREDIT_MAX + 16)
/* Records on their way at most: with a full disk the peers wait, and memory stays bounded.  */
#define PENDING_MAX (1u << 16)

void wm_core_log (wm_core_t *self, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    wm_log_sanitize (text); /* it may hold a peer's text: one line, printable */
    size_t slot = self->log.n_logged++ % WM_SUMMARY_LOGGED_MAX;
    self->log.logged[slot].ms = self->now_ms;
    snprintf (self->log.logged[slot].text, sizeof self->log.logged[slot].text, "%.*s",
              (int) sizeof self->log.logged[slot].text - 1, text);
    self->sink.log (self->sink.context, text);
}

void wm_core_mark (wm_core_t *self, wm_mark_kind_t kind, const char *format, ...)
{
    char text[sizeof ((wm_mark_t *) 0)->text + 1]; /* a byte too many: it is cut at a character */
    va_list args;
    va_start (args, format);
    vsnprintf (text, sizeof text, format, args);
    va_end (args);
    if (self->sink.mark)
        self->sink.mark (self->sink.context, kind, text);
}

void wm_core_send (wm_core_t *self, session_t *session, wm_msg_t *msg, const wm_payload_t *payload)
{
    if (session->state != SESSION_LIVE && session->state != SESSION_NEW)
        return;
    session->sent_ms = self->now_ms;
    self->sink.send (self->sink.context, session->id, msg, payload);
}

void wm_core_send_key (wm_core_t *self, session_t *worker, wm_msg_type_t type, wm_key_t key)
{
    wm_msg_t msg;
    wm_msg_init (&msg, type);
    msg.key = key;
    wm_core_send (self, worker, &msg, NULL);
}

uint16_t wm_core_signature (wm_core_t *self, const char *text)
{
    for (uint32_t i = 0; i < self->arithmetic.n_signature; i++)
        if (strcmp (self->arithmetic.signature[i], text) == 0)
            return (uint16_t) (i + 1);
    if (!*text || self->arithmetic.n_signature == SIGNATURES_MAX)
        return 0;
    char *copy = strdup (text);
    if (!copy)
        return 0;
    self->arithmetic.signature[self->arithmetic.n_signature++] = copy;
    return (uint16_t) self->arithmetic.n_signature;
}

bool wm_core_is_strict (const char *signature)
{
    return strstr (signature, "/fp32/") || strstr (signature, "/double/");
}

uint16_t wm_core_result_signature (wm_core_t *self, const session_t *worker, const wm_msg_t *msg)
{
    return wm_core_is_strict (msg->text) ? wm_core_signature (self, msg->text) : worker->signature;
}

void wm_core_note_reason (wm_core_t *self, wm_key_t key, const char *text)
{
    size_t slot = self->log.n_reason++ % REASONS_MAX;
    self->log.reason[slot].key = key;
    snprintf (self->log.reason[slot].text, sizeof self->log.reason[slot].text, "%s", text);
}

const char *wm_core_reason_of (const wm_core_t *self, const wm_key_t *key)
{
    for (size_t i = 0; i < REASONS_MAX; i++)
        if (memcmp (&self->log.reason[i].key, key, sizeof *key) == 0)
            return self->log.reason[i].text;
    return "held";
}

void wm_core_pause (wm_core_t *self, const char *why)
{
    self->paused = true;
    snprintf (self->why, sizeof self->why, "%s", why);
    wm_core_warn (self, "paused: %s", self->why);
}

/* ---- records and their effects --------------------------------------------------------------- */

bool wm_core_pending_reserve (wm_core_t *self)
{
    size_t want = self->pending.count + PENDING_ROOM;
    if (want <= self->pending.capacity)
        return true;
    if (self->pending.count > PENDING_MAX)
        return false;
    size_t capacity = self->pending.capacity ? self->pending.capacity * 2 : 2 * PENDING_ROOM;
    pending_t *ring = calloc (capacity, sizeof *ring);
    if (!ring)
        return false;
    for (size_t i = 0; i < self->pending.count; i++)
        ring[i] = self->pending.ring[(self->pending.head + i) % self->pending.capacity];
    free (self->pending.ring);
    self->pending.ring = ring;
    self->pending.head = 0;
    self->pending.capacity = capacity;
    return true;
}

bool wm_core_has_room (const wm_core_t *self)
{
    return self->pending.count < self->pending.capacity;
}

static void pending_push (wm_core_t *self, pending_t pending)
{
    assert (self->pending.count < self->pending.capacity);
    self->pending.ring[(self->pending.head + self->pending.count++) % self->pending.capacity] =
        pending;
}

/* I1: nothing is sent here; wm_core_durable carries the effect out.  */
void wm_core_append (wm_core_t *self, wm_record_t *record, const wm_payload_t *body,
                     const session_t *session, uint8_t code)
{
    pending_push (self, (pending_t){ .type = (uint8_t) record->type,
                                     .is_record = true,
                                     .code = code,
                                     .session = session ? session->id : 0,
                                     .key = record->key });
    self->sink.append (self->sink.context, record, body);
}

void wm_core_also (wm_core_t *self, wm_record_type_t type, wm_key_t key, const session_t *session,
                   uint8_t code)
{
    pending_push (self, (pending_t){ .type = (uint8_t) type,
                                     .code = code,
                                     .session = session ? session->id : 0,
                                     .key = key });
}
