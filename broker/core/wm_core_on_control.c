/* wm_core_on_control.c - handles CONTROL: what an operator asks of the campaign.

   A new control is a row of the table below and its handler.  */
#include "broker/core/wm_core_check_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void control_t (wm_core_t *self, session_t *session, const wm_msg_t *msg);

static void answer (wm_core_t *self, session_t *session)
{
    wm_msg_t ack;
    wm_msg_init (&ack, WM_MSG_ACK);
    ack.code = WM_MSG_CONTROL;
    wm_core_send (self, session, &ack, NULL);
}

static void refuse_unkept (wm_core_t *self, session_t *session, const char *what)
{
    wm_core_refuse (self, session, WM_REASON_BUSY,
                    "%s, but the campaign's disk is full: a broker that is started before it has "
                    "room will not know",
                    what);
}

/* Answers the session that waits for it: an operator for its order, a producer for its sample.  */
void wm_core_standing_durable (wm_core_t *self, const pending_t *pending, const wm_place_t *place)
{
    session_t *session = wm_core_session_find (self, pending->session);
    if (pending->type == WM_RECORD_SAMPLE)
        wm_core_sample_durable (self, session, place);
    else if (session && place && !place->segment)
        refuse_unkept (self, session, "done");
    else if (session)
        answer (self, session);
}

/* Records that the campaign is paused, or is not any more. Answered when that is durable.  */
static void record_pause (wm_core_t *self, session_t *session)
{
    wm_record_t record;
    char by[80];
    wm_record_init (&record, WM_RECORD_PAUSE);
    record.code = self->paused;
    snprintf (by, sizeof by, "by %s", session->label);
    wm_record_text (&record, self->paused ? self->why : by);
    wm_core_append (self, &record, NULL, session, 0);
    if (self->disk_full)
        refuse_unkept (self, session, self->paused ? "paused" : "resumed");
}

static void pause_campaign (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    char why[240];
    snprintf (why, sizeof why, "by %s%s%.150s", session->label, *msg->text ? ": " : "", msg->text);
    if (!self->paused || *msg->text) /* a pause without a reason keeps the reason there is */
        wm_core_pause (self, why);
    record_pause (self, session);
}

static void resume_campaign (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    self->paused = self->draining = false;
    self->workers.n_tripped = 0;
    (void) msg;
    record_pause (self, session);
}

/* Drains the worker of this label, or all of them and those that connect later.  */
static void drain_workers (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    const char *label = msg->text;
    char why[120];
    bool found = !*label;
    snprintf (why, sizeof why, "drained by %s", session->label);
    for (session_t *worker = self->sessions.first; worker; worker = worker->next) {
        if (worker->role != WM_ROLE_WORKER || worker->state != SESSION_LIVE ||
            (*label && strcmp (worker->label, label) != 0))
            continue;
        wm_core_worker_dismiss (self, worker, why);
        found = true;
    }
    self->draining |= !*label;
    if (found)
        wm_core_mark (self, WM_MARK_DRAINED, "%s%sby %s", *label ? label : "all workers, ",
                      *label ? ", " : "", session->label);
    if (found)
        answer (self, session);
    else
        wm_core_refuse (self, session, WM_REASON_STALE,
                        "no worker is called '%s': wiremill status names them", label);
}

/* Admits a machine again whose scores were wrong. Answered when that is durable.  */
static void trust_machine (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    if (wm_core_distrust_lift (self, msg->text, session)) {
        if (self->disk_full)
            refuse_unkept (self, session, "trusted");
    } else
        wm_core_refuse (self, session, WM_REASON_STALE,
                        "no machine with wrong scores is called '%.100s': wiremill status names "
                        "them",
                        msg->text);
}

/* Answered when KICK is durable (wm_core_on_input.c).  */
static void kick_input (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    input_t *input = wm_core_input_named (self, msg->text);
    if (self->config.for_clients)
        wm_core_refuse (self, session, WM_REASON_STALE,
                        "this broker serves clients and keeps nothing: there is nothing to kick");
    else if (!input)
        wm_core_refuse (self, session, WM_REASON_STALE,
                        "no input '%.300s' is known: give its real path, or its number", msg->text);
    else if (input->kicking)
        wm_core_also (self, WM_RECORD_KICK, (wm_key_t){ .input = input->id }, session, 0);
    else
        wm_core_input_kick (self, input, session, -1, 0, "");
}

/* Text: from which input on, and of "files" a space and a name.  */
static void send_files (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    char *end;
    const unsigned long from = strtoul (msg->text, &end, 10);
    const bool is_all = strcmp (msg->name, "files") == 0;
    if (end == msg->text || from < 1 || from >= WM_ALL || *end != (is_all && *end ? ' ' : 0)) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL, "%s '%.100s': not an input's number",
                        msg->name, msg->text);
        return;
    }
    session->sent_ms = self->now_ms;
    self->sink.files (self->sink.context, session->id, (uint32_t) from,
                      !is_all ? NULL
                      : *end  ? end + 1
                              : "");
}

/* Text: from which Unix time or worker's id on.  */
static void send_history (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    char *end;
    const unsigned long long from = strtoull (msg->text, &end, 10);
    if (end == msg->text || *end || *msg->text == '-' || from > INT64_MAX) {
        wm_core_refuse (self, session, WM_REASON_PROTOCOL, "%s '%.100s': not a number", msg->name,
                        msg->text);
        return;
    }
    session->sent_ms = self->now_ms;
    self->sink.history (self->sink.context, session->id, strcmp (msg->name, "workers") == 0, from);
}

static void send_copy (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    (void) msg;
    session->sent_ms = self->now_ms;
    self->sink.copy (self->sink.context, session->id);
}

static const struct {
    const char *name;
    control_t *handler;
    bool reads; /* a monitor may send it */
} controls[] = {
    { "drain", drain_workers, false },    { "pause", pause_campaign, false },
    { "resume", resume_campaign, false }, { "kick", kick_input, false },
    { "files", send_files, true },        { "held-files", send_files, true },
    { "trust", trust_machine, false },    { "history", send_history, true },
    { "workers", send_history, true },    { "ledger", send_copy, false },
};

static void on_control (wm_core_t *self, session_t *session, const wm_msg_t *msg,
                        const wm_payload_t *payload)
{
    (void) payload;
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        if (strcmp (controls[i].name, msg->name) == 0) {
            if (session->reads_only && !controls[i].reads) {
                wm_core_refuse (self, session, WM_REASON_ROLE,
                                "%s: a monitor's key only reads; give --join-file with the "
                                "campaign's join-operator",
                                msg->name);
                return;
            }
            /* kick logs the input it found; readers need no line */
            if (controls[i].handler != kick_input && !controls[i].reads)
                wm_core_log (self, "%s: %s%s%s", session->label, msg->name, *msg->text ? " " : "",
                             msg->text);
            controls[i].handler (self, session, msg);
            return;
        }
    wm_core_refuse (
        self, session, WM_REASON_PROTOCOL,
        "unknown control '%s': the controls are drain, pause, resume, kick, trust, files, "
        "held-files, history, workers and ledger",
        msg->name);
}

const wm_core_row_t wm_core_control_rows[] = {
    { WM_MSG_CONTROL, BY_OPERATOR | BY_MONITOR, WHILE_LIVE, 0, on_control },
    { 0 },
};
