/* wm_core_breaker.c - sends workers away that fail more often than they score.

   The circuit breaker: a worker with more failures than successes among its last ten answers is
   dismissed. When two were, and as many as there are workers that do well, the fault is not the
   workers': the campaign pauses until an operator resumes it.  */
#include "broker/core/wm_core_private.h"

#include <stdio.h>

void wm_core_worker_dismiss (wm_core_t *self, session_t *worker, const char *why)
{
    worker->draining = worker->dismissed = true;
    snprintf (worker->why, sizeof worker->why, "%s", why);
    wm_core_worker_update (self, worker);
    wm_msg_t drain;
    wm_msg_init (&drain, WM_MSG_DRAIN);
    snprintf (drain.text, sizeof drain.text, "%s", why);
    wm_core_send (self, worker, &drain, NULL);
}

#define OUTCOMES 10

static int failures_of (const session_t *worker)
{
    return __builtin_popcount (worker->outcomes);
}

/* Counts the workers that are connected, have scored something, and fail less often than they
   score.  */
static uint32_t workers_well (const wm_core_t *self)
{
    uint32_t n = 0;
    for (const session_t *worker = self->sessions.first; worker; worker = worker->next)
        n += worker->role == WM_ROLE_WORKER && worker->state == SESSION_LIVE &&
             worker->n_batch_done && failures_of (worker) <= OUTCOMES / 2;
    return n;
}

void wm_core_worker_note_outcome (wm_core_t *self, session_t *worker, const char *why)
{
    worker->outcomes = (uint16_t) ((worker->outcomes << 1 | (why != NULL)) & ((1 << OUTCOMES) - 1));
    if (!why || worker->dismissed || failures_of (worker) <= OUTCOMES / 2)
        return;
    char text[240];
    snprintf (text, sizeof text, "%d of its last %d batches failed, the last: %.60s",
              failures_of (worker), OUTCOMES, why);
    wm_core_log (self, "worker %s is dismissed: %s", worker->label, text);
    worker->has_failed = true;
    self->totals.n_dismissed++;
    wm_core_worker_dismiss (self, worker, text);
    if (++self->workers.n_tripped < 2 || self->workers.n_tripped < workers_well (self))
        return;
    snprintf (text, sizeof text, "%u workers fail more often than they score, the last %s: %.80s",
              self->workers.n_tripped, worker->label, why);
    wm_core_pause (self, text);
    wm_core_mark (self, WM_MARK_PAUSED, "by itself: %s", text);
}
