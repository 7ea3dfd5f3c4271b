/* wm_core_session.c - sessions: their begin and end, and the refusal that ends one.

   A producer's claims end with its session. A worker's leases go back with it, except where its
   connection closed: then they wait reconnect_ms for its instance to connect again.  */
#include "broker/core/wm_core_check_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

session_t *wm_core_session_find (const wm_core_t *self, uint32_t id)
{
    size_t at;
    return wm_table_first (&self->sessions.by_id, wm_table_mix (id), &at);
}

session_t *wm_core_session_new (wm_core_t *self, wm_role_t role)
{
    session_t *session =
        wm_table_reserve (&self->sessions.by_id) ? NULL : calloc (1, sizeof *session);
    if (!session)
        return NULL;
    do /* ids rise, so that a message for a session that is over finds none */
        session->id = ++self->sessions.last_id;
    while (!session->id || wm_core_session_find (self, session->id));
    session->state = SESSION_NEW;
    session->role = role;
    session->opened_ms = session->heard_ms = session->sent_ms = self->now_ms;
    session->prev = self->sessions.last;
    *(self->sessions.last ? &self->sessions.last->next : &self->sessions.first) = session;
    self->sessions.last = session;
    wm_table_put (&self->sessions.by_id, wm_table_mix (session->id), session);
    self->sessions.n++;
    return session;
}

static uint64_t instance_hash (const session_t *session)
{
    return XXH3_64bits_withSeed (session->instance, 16, (uint64_t) session->role);
}

bool wm_core_session_enter (wm_core_t *self, session_t *session, session_t **old)
{
    size_t at;
    uint64_t hash = instance_hash (session);
    *old = wm_table_first (&self->sessions.by_instance, hash, &at);
    while (*old &&
           ((*old)->role != session->role || memcmp ((*old)->instance, session->instance, 16)))
        *old = wm_table_next (&self->sessions.by_instance, hash, &at);
    if (wm_table_reserve (&self->sessions.by_instance))
        return false;
    wm_table_put (&self->sessions.by_instance, hash, session);
    return true;
}

static void worker_free (wm_core_t *self, session_t *worker)
{
    const wm_core_worker_t shown = wm_core_worker_of (self, worker);
    if (worker->state != SESSION_NEW && self->sink.left)
        self->sink.left (self->sink.context, &shown);
    wm_core_worker_forget (self, worker);
    if (worker->machine && !--worker->machine->n_session) {
        self->machines.n_live--;
        wm_core_machine_left (self, worker->machine);
    }
}

static void producer_free (wm_core_t *self, session_t *producer)
{
    while (producer->claims)
        if (self->config.for_clients)
            wm_core_input_take_back (self, producer->claims);
        else
            wm_core_input_unclaim (self, producer->claims);
    wm_core_budget_end_late (self, producer, producer->n_late, 0);
}

/* Removes the session from every list and frees it. Its leases must be gone.  */
static void session_free (wm_core_t *self, session_t *session)
{
    if (session->role == WM_ROLE_WORKER)
        worker_free (self, session);
    if (session->role == WM_ROLE_PRODUCER)
        producer_free (self, session);
    wm_core_wait_over (self, session);
    if (session->state == SESSION_LOST)
        self->sessions.n_lost--;
    else {
        self->sessions.n--;
        if (session->state == SESSION_LIVE && session->role == WM_ROLE_WORKER)
            self->sessions.n_worker--;
        if (session->state == SESSION_LIVE && session->role == WM_ROLE_PRODUCER)
            self->sessions.n_producer--;
        self->sink.drop (self->sink.context, session->id);
    }
    wm_table_remove (&self->sessions.by_instance, instance_hash (session), session);
    wm_table_remove (&self->sessions.by_id, wm_table_mix (session->id), session);
    *(session->prev ? &session->prev->next : &self->sessions.first) = session->next;
    *(session->next ? &session->next->prev : &self->sessions.last) = session->prev;
    free (session);
}

void wm_core_session_end (wm_core_t *self, session_t *session, bool blame)
{
    if (session->role == WM_ROLE_WORKER)
        wm_core_worker_give_back (self, session, blame);
    session_free (self, session);
}

void wm_core_session_lose (wm_core_t *self, session_t *session)
{
    if (session->state != SESSION_LIVE || session->role != WM_ROLE_WORKER || !session->n_lease) {
        session->is_gone = true;
        if (session->role == WM_ROLE_WORKER && session->signature)
            wm_core_mark (self, WM_MARK_LOST, "%s: went without a word, idle", session->label);
        wm_core_session_end (self, session, false);
        return;
    }
    self->sink.drop (self->sink.context, session->id);
    self->sessions.n--;
    self->sessions.n_worker--;
    self->sessions.n_lost++;
    wm_core_wait_over (self, session);
    session->state = SESSION_LOST;
    session->lost_ms = self->now_ms;
    wm_core_worker_forget (self, session);
}

void wm_core_refuse (wm_core_t *self, session_t *session, wm_reason_t reason, const char *format,
                     ...)
{
    wm_msg_t msg;
    wm_msg_init (&msg, WM_MSG_REJECT);
    msg.code = (uint32_t) reason;
    va_list args;
    va_start (args, format);
    vsnprintf (msg.text, sizeof msg.text, format, args);
    va_end (args);
    wm_core_log (self, "refused %s: %s", *session->label ? session->label : "a peer", msg.text);
    wm_core_send (self, session, &msg, NULL);
    wm_core_session_end (self, session, false);
}

input_t *wm_core_session_claim (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    input_t *input = wm_core_input_find (self, msg->key.input);
    if (input && wm_core_input_claim_is_over (input, msg))
        return NULL;
    if (input && input->claim == session && input->generation == msg->key.generation &&
        input->state == WM_LEDGER_OPEN && !input->closing)
        return input;
    wm_core_refuse (self, session, WM_REASON_STALE,
                    "%s of input %u, which this producer has not claimed, or has written",
                    wm_msg_name (msg->type), msg->key.input);
    return NULL;
}
