/* wm_core_waits.c - what the campaign and its peers wait for (schema/wm_wait.h).

   A peer reports its own waits in heartbeats; the core derives those that a peer cannot report: it
   is silent, it does not answer, its engine finishes nothing. `waiting_for` is what the campaign as
   a whole waits for: nothing while a worker scores, unless no producer can go on until a person
   acts. A wait of one peer among others that work is listed all the same.  */
#include "broker/core/wm_core_private.h"

#include <string.h>

#define SILENT_HEARTBEATS 4 /* a peer sends one each heartbeat_ms */
#define SLOW_HEARTBEATS 30  /* so long a slow disk is reported */
#define OFTEN_S 10          /* of "producer", which comes and goes as events are read */

/* ---- what peers report ----------------------------------------------------------------------- */

static bool is_peer (const session_t *session)
{
    return session->state == SESSION_LIVE &&
           (session->role == WM_ROLE_PRODUCER || session->role == WM_ROLE_WORKER);
}

static void set (wm_core_t *self, session_t *session, wm_wait_t wait)
{
    if (session->wait == wait)
        return;
    if (session->wait)
        self->waits.n[session->wait]--;
    if (wait)
        self->waits.n[wait]++;
    session->wait = wait;
    session->wait_ms = self->now_ms;
}

/* A producer of an earlier release sends its text without a number.  */
void wm_core_wait_reported (wm_core_t *self, session_t *session, const wm_msg_t *msg)
{
    const bool is_worker = session->role == WM_ROLE_WORKER;
    const uint32_t number = msg->key.input ? 0 : msg->key.ordinal;
    wm_wait_t wait = WM_WAIT_NONE;
    memcpy (session->report, msg->text, sizeof session->report);
    if (!is_peer (session))
        return;
    if (number < WM_WAIT_END &&
        wm_waits[number].by == (is_worker ? WM_WAIT_BY_WORKER : WM_WAIT_BY_PRODUCER))
        wait = (wm_wait_t) number;
    else if (!is_worker && *msg->text)
        wait = strstr (msg->text, "disk full") ? WM_WAIT_OUTPUT_DISK : WM_WAIT_PRODUCER_WAITS;
    set (self, session, wait);
}

void wm_core_wait_over (wm_core_t *self, session_t *session)
{
    set (self, session, WM_WAIT_NONE);
}

/* ---- what the broker itself waits for -------------------------------------------------------- */

void wm_core_waits (wm_core_t *self, wm_wait_t wait, bool is_so)
{
    if (!is_so)
        self->waits.own_ms[wait] = 0;
    else if (!self->waits.own_ms[wait] || wait == WM_WAIT_DISK_SLOW)
        self->waits.own_ms[wait] = self->now_ms + 1; /* 0: it does not wait */
}

static bool own (const wm_core_t *self, wm_wait_t wait)
{
    const int64_t since_ms = self->waits.own_ms[wait];
    return since_ms &&
           (wait != WM_WAIT_DISK_SLOW ||
            self->now_ms - since_ms < SLOW_HEARTBEATS * self->config.times.heartbeat_ms);
}

/* ---- of one peer ----------------------------------------------------------------------------- */

/* Parts of a large message on a slow link are no silence.  */
static bool is_silent (const wm_core_t *self, const session_t *session)
{
    const int64_t most_ms = SILENT_HEARTBEATS * self->config.times.heartbeat_ms;
    return self->now_ms - session->heard_ms > most_ms &&
           (!self->sink.quiet || self->sink.quiet (self->sink.context, session->id) > most_ms);
}

static wm_wait_t wait_of (const wm_core_t *self, const session_t *session, int64_t *since_ms)
{
    const bool is_worker = session->role == WM_ROLE_WORKER;
    if (!is_peer (session))
        return WM_WAIT_NONE;
    *since_ms = session->wait_ms;
    if (wm_waits[session->wait].is_pause)
        return session->wait;
    if (is_silent (self, session)) {
        *since_ms = session->heard_ms;
        return is_worker ? WM_WAIT_WORKER_SILENT : WM_WAIT_PRODUCER_SILENT;
    }
    if (session->wait)
        return session->wait;
    if (!is_worker) {
        *since_ms = session->answered_ms;
        return session->late ? WM_WAIT_PRODUCER_LATE : WM_WAIT_NONE;
    }
    *since_ms = session->progress_ms;
    if (session->n_lease && session->executing.input &&
        self->now_ms - session->progress_ms > self->config.times.engine_ms / 2)
        return WM_WAIT_ENGINE_HUNG;
    *since_ms = session->opened_ms;
    return !*session->arithmetic.class ? WM_WAIT_MODEL : WM_WAIT_NONE;
}

/* ---- of the campaign ------------------------------------------------------------------------- */

/* The wait that all peers of a role share in so far that none of them works; of several the
   smallest number. WM_WAIT_NONE: one of them works, or no peer is there. busy_only: only workers
   that have a batch count.  */
static wm_wait_t wait_of_all (const wm_core_t *self, wm_role_t role, bool busy_only)
{
    int64_t since_ms;
    wm_wait_t all = WM_WAIT_NONE;
    for (const session_t *session = self->sessions.first; session; session = session->next) {
        if (session->role != role || !is_peer (session) || (busy_only && !session->n_lease))
            continue;
        const wm_wait_t wait = wait_of (self, session, &since_ms);
        if (!wait)
            return WM_WAIT_NONE;
        all = !all || wait < all ? wait : all;
    }
    return all;
}

/* What the producers that have an input report to wait for, the worst; WM_WAIT_NONE: one of them
   works. A producer without an input has nothing to do.  */
static wm_wait_t wait_of_producers (const wm_core_t *self)
{
    wm_wait_t least = WM_WAIT_NONE;
    for (const session_t *session = self->sessions.first; session; session = session->next) {
        if (session->role != WM_ROLE_PRODUCER || !is_peer (session) || !session->claims)
            continue;
        if (!session->wait)
            return WM_WAIT_NONE;
        if (!least || session->wait < least)
            least = session->wait;
    }
    return least;
}

static wm_wait_t campaign_wait (const wm_core_t *self)
{
    const uint64_t *by = self->totals.n_by_state;
    const uint64_t here = self->queues.ready.count + self->queues.failed.count +
                          self->queues.alone.count,
                   runs = by[BATCH_RUNNING] + by[BATCH_COMMITTING];
    const uint64_t inputs = self->config.for_clients ? self->sessions.n_producer : self->inputs.n;
    if (self->disk_full)
        return WM_WAIT_DISK;
    if (self->draining)
        return WM_WAIT_DRAINING;
    if (self->paused)
        return WM_WAIT_PAUSED;
    if (inputs == self->inputs.n_written + self->inputs.n_held)
        return WM_WAIT_NONE;
    const wm_wait_t producers = wait_of_producers (self);
    if (wm_wait_stops (producers))
        return producers;
    if (!self->sessions.n_worker && (here || by[BATCH_QUEUED]))
        return WM_WAIT_NO_WORKER;
    if (here || by[BATCH_QUEUED] || runs) {
        const wm_wait_t workers = wait_of_all (self, WM_ROLE_WORKER, runs != 0);
        if (workers && (runs || here))
            return workers;
    }
    if (self->config.for_clients)
        return WM_WAIT_NONE;
    if (!self->sessions.n_producer)
        return WM_WAIT_NO_PRODUCER;
    if (!self->sessions.n_worker && !runs)
        return WM_WAIT_NO_WORKER;
    /* that one is late or silent is in the list: the campaign's word stays "producer" */
    return here || runs ? WM_WAIT_NONE : producers ? producers : WM_WAIT_PRODUCER;
}

void wm_core_waits_tick (wm_core_t *self)
{
    const wm_wait_t wait = campaign_wait (self);
    if (wait != self->waits.what)
        self->waits.since_ms = self->now_ms;
    self->waits.what = wait;
}

/* ---- for people ------------------------------------------------------------------------------ */

void wm_summary_add_wait (wm_summary_t *summary, wm_wait_t wait, const char *label,
                          const char *text, double since_s)
{
    summary->n_by_wait[wait]++;
    if (summary->n_wait < WM_SUMMARY_WAITS_MAX)
        summary->wait[summary->n_wait++] = (wm_summary_wait_t){ wait, label, text, since_s };
}

static double ago_s (const wm_core_t *self, int64_t since_ms)
{
    return since_ms < self->now_ms ? (double) (self->now_ms - since_ms) / 1e3 : 0;
}

static void add_own (const wm_core_t *self, wm_summary_t *summary, wm_wait_severity_t severity)
{
    for (int wait = 1; wait < WM_WAIT_END; wait++)
        if (wait != (int) summary->waiting && wm_waits[wait].severity == severity &&
            own (self, (wm_wait_t) wait))
            wm_summary_add_wait (summary, (wm_wait_t) wait, NULL, "",
                                 ago_s (self, self->waits.own_ms[wait]));
}

static void add_peers (const wm_core_t *self, wm_summary_t *summary, wm_wait_severity_t severity)
{
    int64_t since_ms = 0;
    for (const session_t *session = self->sessions.first; session; session = session->next) {
        const wm_wait_t wait = wait_of (self, session, &since_ms);
        if (wait && wm_waits[wait].severity == severity)
            wm_summary_add_wait (summary, wait, session->label,
                                 wait == session->wait ? session->report : "",
                                 ago_s (self, since_ms));
    }
}

/* What the campaign waits for comes first, unless a peer's row is about it; then by severity.  */
void wm_core_waits_summary (const wm_core_t *self, wm_summary_t *summary)
{
    const wm_wait_t wait = campaign_wait (self);
    const double since_s = wait == self->waits.what ? ago_s (self, self->waits.since_ms) : 0;
    bool stops = self->paused || self->draining ||
                 (wait && (wait != WM_WAIT_PRODUCER || since_s >= OFTEN_S));
    summary->waiting = wait;
    summary->waiting_for = wait ? wm_waits[wait].name : NULL;
    if (wait && (wm_waits[wait].by == WM_WAIT_BY_BROKER && wait != WM_WAIT_MODEL &&
                 wait != WM_WAIT_WORKER_SILENT && wait != WM_WAIT_ENGINE_HUNG))
        wm_summary_add_wait (summary, wait, NULL,
                             wait == WM_WAIT_PAUSED && self->paused ? self->why : "", since_s);
    for (int severity = WM_WAIT_CRITICAL; severity >= WM_WAIT_INFO; severity--) {
        add_own (self, summary, (wm_wait_severity_t) severity);
        add_peers (self, summary, (wm_wait_severity_t) severity);
    }
    for (int i = 1; i < WM_WAIT_END; i++)
        stops |= wm_waits[i].is_pause && summary->n_by_wait[i];
    if (stops && summary->eta_s > 0)
        summary->eta_s = -1; /* it depends on what ends the wait */
    if (wm_wait_stops (wait) && strcmp (summary->state, "running") == 0)
        summary->state = "waiting";
}

static const char *text_of (const wm_core_t *self, wm_wait_t wait)
{
    if (wait == WM_WAIT_PAUSED)
        return self->why;
    for (const session_t *session = self->sessions.first; session && self->waits.n[wait];
         session = session->next)
        if (session->wait == wait && *session->report)
            return session->report;
    return wm_waits[wait].sentence;
}

void wm_core_waits_brief (const wm_core_t *self, wm_brief_t *brief)
{
    for (int severity = WM_WAIT_CRITICAL; severity >= WM_WAIT_INFO; severity--)
        for (int i = 1; i < WM_WAIT_END; i++) {
            const wm_wait_t wait = (wm_wait_t) i;
            const bool is_so = wait == WM_WAIT_DISK       ? self->disk_full
                               : wait == WM_WAIT_PAUSED   ? self->paused
                               : wait == WM_WAIT_DRAINING ? self->draining
                                                          : own (self, wait) || self->waits.n[wait];
            if (is_so && wm_waits[wait].is_pause && (int) wm_waits[wait].severity == severity)
                brief->stop[brief->n_stop++] = (wm_brief_stop_t){ wait, text_of (self, wait) };
        }
}
