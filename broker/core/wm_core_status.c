/* wm_core_status.c - summarises wm_core for people: one walk over the peers and the inputs;
   everything else is kept as counters, of which those that outlive the broker are named at the end.
 */
#include "broker/core/wm_core_check_private.h"
#include "schema/base/wm_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const wm_core_states[WM_SUMMARY_STATES] = { "starting", "idle", "busy", "draining",
                                                        "lost" };

static int worker_state (const session_t *worker)
{
    if (worker->state == SESSION_LOST)
        return WM_STATE_LOST;
    if (worker->draining)
        return WM_STATE_DRAINING;
    if (worker->n_lease)
        return WM_STATE_BUSY;
    return worker->credit ? WM_STATE_IDLE : WM_STATE_STARTING;
}

/* A job's id is of few characters, so that the status stays short whatever workers send.  */
static void add_job (const session_t *worker, wm_summary_t *summary)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    const char *slash = strrchr (worker->label, '/');
    if (!slash || !slash[1] || slash[1 + strspn (slash + 1, letters)] ||
        strlen (slash + 1) >= WM_SUMMARY_JOB_BYTES || summary->n_job == WM_PEERS_MAX)
        return;
    strcpy (summary->job[summary->n_job++], slash + 1);
}

static void count_worker (const session_t *worker, wm_summary_t *summary)
{
    const int state = worker_state (worker);
    summary->n_worker++;
    summary->n_state[state]++;
    if (state != WM_STATE_STARTING && state != WM_STATE_LOST)
        add_job (worker, summary);
}

static void list_worker (const wm_core_t *self, const session_t *worker, wm_summary_t *summary)
{
    if (summary->n_worker_listed == WM_SUMMARY_PEERS_MAX)
        return;
    wm_summary_worker_t *row = &summary->worker[summary->n_worker_listed++];
    memcpy (row->label, worker->label, sizeof row->label);
    snprintf (row->signature, sizeof row->signature, "%.127s",
              worker->signature ? self->arithmetic.signature[worker->signature - 1] : "");
    memcpy (row->health, worker->report, sizeof row->health);
    row->state = wm_core_states[worker_state (worker)];
    memcpy (row->why, worker->why, sizeof row->why);
    row->has_failed = worker->has_failed;
    row->running = worker->n_lease;
    row->credit = worker->credit > worker->sent ? worker->credit - worker->sent : 0;
    row->batches = worker->n_batch_done;
    row->hits = worker->n_hit_done;
    row->hits_s = wm_rate_per_s (&worker->rate, self->now_ms);
}

static void add_producer (const wm_core_t *self, const session_t *producer, wm_summary_t *summary)
{
    if (summary->n_producer_listed == WM_SUMMARY_PEERS_MAX)
        return;
    wm_summary_producer_t *row = &summary->producer[summary->n_producer_listed++];
    memcpy (row->label, producer->label, sizeof row->label);
    const input_t *input = wm_core_input_find (self, producer->last_input);
    row->input = input && input->claim == producer ? input->path : NULL;
    memcpy (row->waits, producer->report, sizeof row->waits);
    row->wait = producer->wait;
    row->asked = producer->n_asked;
    row->late_s = producer->late ? (double) (self->now_ms - producer->answered_ms) / 1e3 : -1;
}

/* Hits that are still to be scored; -1: unknown. Inputs that are not announced to their end are
   assumed to have as many hits per byte as those that are.  */
static double hits_left (const wm_core_t *self)
{
    double ended_bytes = 0, ended_hits = 0, left = 0, unended_bytes = 0, unended_hits = 0;
    double n_ended = 0, n_unpinned = 0;
    for (uint32_t i = 0; i < self->inputs.n; i++) {
        const input_t *input = self->inputs.at[i];
        if (input->state == WM_LEDGER_HELD)
            continue;
        const bool ended = input->ended && input->n_event >= input->end_count;
        n_ended += ended;
        n_unpinned += input->unpinned; /* kicked: its size is known when its producer has seen it */
        *(ended ? &ended_bytes : &unended_bytes) += (double) input->size;
        *(ended ? &ended_hits : &unended_hits) += (double) input->n_hit;
        left += (double) input->n_hit - (double) input->n_hit_done - (double) input->n_hit_held;
    }
    if (n_unpinned > 0 && !n_ended)
        return -1;
    if (n_unpinned > 0)
        left += n_unpinned * ended_hits / n_ended;
    if (unended_bytes > 0) {
        if (ended_bytes <= 0)
            return -1;
        double expected = unended_bytes * ended_hits / ended_bytes;
        left += expected > unended_hits ? expected - unended_hits : 0;
    }
    return left > 0 ? left : 0;
}

/* Open inputs, and the time they are expected to take.  */
static void add_left (const wm_core_t *self, wm_summary_t *summary)
{
    const double left = hits_left (self);
    summary->hits_expected =
        left < 0 ? -1 : left + (double) (self->totals.hits_done + self->totals.hits_held);
    summary->eta_s = left <= 0 ? left : summary->hits_s > 0 ? left / summary->hits_s : -1;
    for (uint32_t i = 0; i < self->inputs.n && summary->n_open < WM_SUMMARY_OPEN_MAX; i++) {
        const input_t *input = self->inputs.at[i];
        if (input->state == WM_LEDGER_OPEN && !self->config.for_clients)
            summary->open[summary->n_open++] =
                (wm_summary_open_t){ input->id, input->path, input->name, input->lost,
                                     input->n_hit_done + input->n_hit_held };
    }
}

/* ---- what is held ---------------------------------------------------------------------------- */

static wm_summary_held_t *add_held (wm_summary_t *summary, const input_t *input, const char *state,
                                    const char *reason)
{
    if (summary->n_held == WM_SUMMARY_HELD_MAX)
        return NULL;
    wm_summary_held_t *held = &summary->held[summary->n_held++];
    held->key = (wm_key_t){ input->id, WM_ALL, WM_ALL, input->generation };
    held->state = state;
    held->path = input->path;
    snprintf (held->reason, sizeof held->reason, "%s",
              reason ? wm_path_behind (reason, input->path) : "held");
    return held;
}

static void add_held_inputs (const wm_core_t *self, wm_summary_t *summary)
{
    for (uint32_t i = 0; i < self->inputs.n; i++) {
        const input_t *input = self->inputs.at[i];
        const bool held = input->state == WM_LEDGER_HELD;
        if (!held && !input->changed)
            continue;
        summary->inputs_changed += !held;
        summary->held_total++;
        /* Rows are left for batches.  */
        wm_summary_held_t *row =
            summary->n_held < WM_SUMMARY_HELD_MAX - REASONS_MAX / 2
                ? add_held (summary, input, held ? "input" : "changed", input->text)
                : NULL;
        if (row)
            row->n_hit = held ? input->n_hit_held : 0;
    }
}

/* The latest; not those of inputs that were kicked since.  */
static void add_held_batches (const wm_core_t *self, wm_summary_t *summary)
{
    uint64_t n = self->log.n_reason < REASONS_MAX ? self->log.n_reason : REASONS_MAX;
    for (uint64_t i = 1; i <= n; i++) {
        size_t slot = (self->log.n_reason - i) % REASONS_MAX;
        const wm_key_t *key = &self->log.reason[slot].key;
        const input_t *input = wm_core_input_find (self, key->input);
        if (!input || input->generation != key->generation || input->state == WM_LEDGER_HELD)
            continue;
        wm_summary_held_t *row = add_held (summary, input, "batch", self->log.reason[slot].text);
        if (!row)
            return;
        row->key = *key;
        const event_t *event = wm_core_event_find (self, key->input, key->ordinal);
        const batch_t *batch = event ? wm_core_event_batch (event, key->batch) : NULL;
        if (!batch)
            continue;
        row->run = event->run;
        row->subrun = event->subrun;
        row->event = event->event;
        row->n_hit = batch->n_held ? batch->n_held : batch->n_hit;
    }
}

static void add_logged (const wm_core_t *self, wm_summary_t *summary)
{
    while (summary->n_logged < WM_SUMMARY_LOGGED_MAX && summary->n_logged < self->log.n_logged) {
        wm_summary_logged_t *row = &summary->logged[summary->n_logged++];
        size_t slot = (self->log.n_logged - summary->n_logged) % WM_SUMMARY_LOGGED_MAX;
        row->ago_s = (double) (self->now_ms - self->log.logged[slot].ms) / 1e3;
        memcpy (row->text, self->log.logged[slot].text, sizeof row->text);
    }
}

void wm_core_summary (const wm_core_t *self, wm_summary_t *summary)
{
    memset (summary, 0, sizeof *summary);
    summary->epoch = self->config.epoch;
    summary->inputs = self->inputs.n;
    if (self->config.for_clients)
        summary->inputs = self->sessions.n_producer;
    summary->inputs_written = self->inputs.n_written;
    summary->inputs_held = self->inputs.n_held;
    summary->inputs_open = summary->inputs - self->inputs.n_written - self->inputs.n_held;
    summary->events_announced = self->totals.events_known;
    summary->events_done = self->totals.events_done;
    summary->events_written = self->totals.events_written;
    const uint64_t *by = self->totals.n_by_state;
    summary->batches_asked = self->budget.n_asked;
    summary->batches_queued = by[BATCH_QUEUED] + by[BATCH_READY];
    summary->batches_running = by[BATCH_RUNNING] + by[BATCH_COMMITTING];
    summary->batches_returned = by[BATCH_RETURNED] + self->totals.written_batches;
    summary->batches_held = by[BATCH_HOLDING] + by[BATCH_HELD] + self->totals.written_batches_held;
    summary->hits_done = self->totals.hits_done;
    summary->hits_held = self->totals.hits_held;
    summary->hits_empty = self->totals.hits_empty;
    summary->n_score = wm_core_summed (self);
    summary->n_summed = self->totals.n_summed;
    memcpy (summary->score_sum, self->totals.score_sum, sizeof summary->score_sum);
    /* After a restart results count before their events are announced again.  */
    uint64_t hits = self->totals.hits_done + self->totals.hits_held;
    summary->hits_announced = self->totals.hits_known > hits ? self->totals.hits_known : hits;
    summary->payload_in_bytes = self->totals.payload_in;
    summary->task_out_bytes = self->totals.task_out;
    summary->result_in_bytes = self->totals.result_in;
    summary->budget_used_bytes = self->budget.used + self->budget.late_bytes;
    summary->budget_bytes = self->config.budget_bytes;
    summary->hits_s = wm_rate_per_s (&self->totals.hit_rate, self->now_ms);
    summary->events_s = wm_rate_per_s (&self->totals.event_rate, self->now_ms);
    summary->n_fail = self->totals.n_fail;
    summary->n_lost = self->totals.n_lost;
    summary->n_preempt = self->totals.n_preempt;
    summary->n_duplicate = self->totals.n_duplicate;
    summary->n_late = self->totals.n_late;
    summary->n_alarm = self->totals.n_alarm;
    summary->n_copy = self->totals.n_copy;
    summary->n_dismissed = self->totals.n_dismissed;
    memcpy (summary->step, self->totals.tally.step, sizeof summary->step);
    wm_core_arithmetic_summary (self, summary);
    wm_core_distrust_summary (self, summary);
    for (const session_t *session = self->sessions.first; session; session = session->next) {
        if (session->state == SESSION_NEW)
            continue;
        if (session->role == WM_ROLE_WORKER)
            count_worker (session, summary);
        if (session->role == WM_ROLE_PRODUCER)
            add_producer (self, session, summary);
    }
    /* Those that are sent away come first, so that the list always has them.  */
    for (int pass = 0; pass < 2; pass++)
        for (const session_t *session = self->sessions.first; session; session = session->next)
            if (session->state != SESSION_NEW && session->role == WM_ROLE_WORKER &&
                (*session->why != 0) == (pass == 0))
                list_worker (self, session, summary);
    summary->held_total = summary->batches_held;
    add_held_inputs (self, summary);
    add_held_batches (self, summary);
    add_logged (self, summary);
    summary->state = self->draining         ? "draining"
                     : self->paused         ? "paused"
                     : summary->inputs_open ? "running"
                     : summary->inputs      ? "finished"
                                            : "idle";
    summary->paused = self->paused ? self->why : NULL;
    add_left (self, summary);
    wm_core_waits_summary (self, summary);
}

void wm_core_brief (const wm_core_t *self, wm_brief_t *brief)
{
    const uint64_t hits = self->totals.hits_done + self->totals.hits_held;
    *brief = (wm_brief_t){ .inputs = self->config.for_clients ? 0 : self->inputs.n,
                           .inputs_written = self->inputs.n_written,
                           .inputs_held = self->inputs.n_held,
                           .n_closed = self->inputs.n_closed,
                           .hits_done = self->totals.hits_done,
                           .hits_held = self->totals.hits_held,
                           .hits_announced =
                               self->totals.hits_known > hits ? self->totals.hits_known : hits,
                           .hits_s = wm_rate_per_s (&self->totals.hit_rate, self->now_ms),
                           .n_worker = self->sessions.n_worker,
                           .n_producer = self->sessions.n_producer };
    wm_core_waits_brief (self, brief);
}

/* ---- the history ----------------------------------------------------------------------------- */

void wm_core_workers (const wm_core_t *self,
                      void (*take) (void *argument, const wm_core_worker_t *worker), void *argument)
{
    for (const session_t *session = self->sessions.first; session; session = session->next)
        if (session->role == WM_ROLE_WORKER && session->state != SESSION_NEW) {
            const wm_core_worker_t worker = wm_core_worker_of (self, session);
            take (argument, &worker);
        }
}

void wm_core_tally (const wm_core_t *self, wm_tally_t *tally, uint32_t *n_worker)
{
    *tally = self->totals.tally;
    uint64_t *count = tally->count;
    count[WM_COUNT_PAYLOAD_IN] = self->totals.payload_in;
    count[WM_COUNT_TASK_OUT] = self->totals.task_out;
    count[WM_COUNT_RESULT_IN] = self->totals.result_in;
    count[WM_COUNT_FAIL] = self->totals.n_fail;
    count[WM_COUNT_LOST] = self->totals.n_lost;
    count[WM_COUNT_PREEMPT] = self->totals.n_preempt;
    count[WM_COUNT_DUPLICATE] = self->totals.n_duplicate;
    count[WM_COUNT_LATE] = self->totals.n_late;
    count[WM_COUNT_ALARM] = self->totals.n_alarm;
    count[WM_COUNT_COPIES] = self->totals.n_copy;
    count[WM_COUNT_AGAIN] = self->arithmetic.n_again;
    *n_worker = self->sessions.n_worker;
}

/* ---- inputs, one by one ---------------------------------------------------------------------- */

bool wm_core_known (const wm_core_t *self, uint32_t id, wm_core_known_t *known)
{
    const input_t *input = wm_core_input_find (self, id);
    if (!input)
        return false;
    const bool is_held = input->state == WM_LEDGER_HELD;
    const char *why = is_held || input->changed ? input->text : input->lost;
    *known = (wm_core_known_t){ .path = input->path,
                                .name = input->name,
                                .state = is_held                             ? "held"
                                         : input->changed                    ? "changed"
                                         : input->state == WM_LEDGER_WRITTEN ? "written"
                                                                             : "open",
                                .why = why ? wm_path_behind (why, input->path) : "",
                                .is_written = input->state == WM_LEDGER_WRITTEN,
                                .out_size = input->out_size,
                                .out_mtime_ns = input->out_mtime_ns,
                                .out_digest = input->out_digest,
                                .n_event = input->n_event,
                                .n_hit = input->n_hit,
                                .n_scored = input->n_hit_done,
                                .n_held = input->n_hit_held,
                                .n_empty = input->n_hit_empty,
                                .reasons = input->state == WM_LEDGER_OPEN ? input->reasons : 0 };
    return true;
}

/* Whether the first `length` bytes of `path` are `name`, or end in "/name".  */
static bool ends_in (const char *path, size_t length, const char *name, size_t name_length)
{
    return name_length <= length && memcmp (path + length - name_length, name, name_length) == 0 &&
           (name_length == length || name[0] == '/' || path[length - name_length - 1] == '/');
}

/* The path without ":/dataset".  */
static size_t file_length (const char *path)
{
    const char *dataset = strstr (path, ":/");
    return dataset ? (size_t) (dataset - path) : strlen (path);
}

uint32_t wm_core_named_from (const wm_core_t *self, uint32_t id, const char *name)
{
    const size_t length = strlen (name);
    const bool is_number = length && length <= 9 && !name[strspn (name, "0123456789")];
    const uint32_t number = is_number ? (uint32_t) strtoul (name, NULL, 10) : 0;
    for (; id && id <= self->inputs.n; id++) {
        const input_t *input = self->inputs.at[id - 1];
        if (!length || id == number || strcmp (input->name, name) == 0 ||
            ends_in (input->path, strlen (input->path), name, length) ||
            ends_in (input->path, file_length (input->path), name, length))
            return id;
    }
    return 0;
}

uint32_t wm_core_held_from (const wm_core_t *self, uint32_t id)
{
    for (; id && id <= self->inputs.n; id++) {
        const input_t *input = self->inputs.at[id - 1];
        if (input->n_hit_held || input->state == WM_LEDGER_HELD || input->changed)
            return id;
    }
    return 0;
}

/* ---- counters that outlive the broker -------------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset;
} counters[] = {
    { "fail", offsetof (wm_core_t, totals.n_fail) },
    { "lost", offsetof (wm_core_t, totals.n_lost) },
    { "preempt", offsetof (wm_core_t, totals.n_preempt) },
    { "duplicate", offsetof (wm_core_t, totals.n_duplicate) },
    { "late", offsetof (wm_core_t, totals.n_late) },
    { "alarm", offsetof (wm_core_t, totals.n_alarm) },
    { "again", offsetof (wm_core_t, arithmetic.n_again) },
    { "sampled", offsetof (wm_core_t, checks.n_sampled) },
    { "check-good", offsetof (wm_core_t, checks.n_good) },
    { "check-differ", offsetof (wm_core_t, checks.n_differ) },
    { "dismissed", offsetof (wm_core_t, totals.n_dismissed) },
};
#define COUNTERS (sizeof counters / sizeof *counters)

const char *wm_core_counter (const wm_core_t *self, size_t i, uint64_t *value)
{
    if (i >= COUNTERS + self->arithmetic.n_rows)
        return NULL;
    if (i >= COUNTERS) {
        *value = self->arithmetic.rows[i - COUNTERS].n;
        return self->arithmetic.rows[i - COUNTERS].name;
    }
    memcpy (value, (const char *) self + counters[i].offset, sizeof *value);
    return counters[i].name;
}

void wm_core_restore_counter (wm_core_t *self, const char *name, uint64_t value)
{
    for (size_t i = 0; i < COUNTERS; i++)
        if (strcmp (counters[i].name, name) == 0)
            memcpy ((char *) self + counters[i].offset, &value, sizeof value);
    wm_core_arithmetic_restore_rows (self, name, value);
}
