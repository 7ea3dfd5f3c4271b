/* wm_lane_private.h - what the files of a lane share: wm_lane.c (sessions, time, drain),
   wm_lane_prepare.c (model and engine), wm_lane_work.c (batches), wm_replay.c. No other
   file includes it.  */
#ifndef WM_LANE_PRIVATE_H
#define WM_LANE_PRIVATE_H

#include "gpuworker/engine/wm_decode.h"
#include "gpuworker/engine/wm_health.h"
#include "gpuworker/engine/wm_poison.h"
#include "gpuworker/engine/wm_scorer.h"
#include "gpuworker/wm_credit.h"
#include "gpuworker/wm_lane.h"
#include "gpuworker/wm_tasks.h"
#include "schema/base/wm_restart.h"
#include "schema/session/wm_client.h"

#define WM_LANE_FAILURES_MAX 3u /* that no hit explains, within failures_ms */

/* The lane's side of a slot.  */
typedef struct {
    wm_task_t *task;     /* NULL: the slot is free */
    bool decoding;       /* its payload is */
    bool submitted;      /* the engine has it, or a part of it */
    wm_poison_t *poison; /* an engine died of it: the search that decides which part goes next */
    bool alone;          /* an engine died of it and others together: it goes by itself */
    double seconds;      /* of computing so far */
} wm_lane_slot_t;

struct wm_lane_t {
    const wm_worker_config_t *config;
    const char *endpoint;
    wm_stride_t *stride;            /* NULL: the only lane on this machine */
    unsigned number;                /* of the lane in stride */
    _Atomic int64_t *busy_ms;       /* last time there was work, in any lane */
    const _Atomic unsigned *n_main; /* lanes that this one is beside; NULL: of its own */
    int64_t round_ms;               /* when the lane's round began; 0: it is not computing */
    uint64_t round_hits;            /* submitted in the round */
    char label[64];
    int64_t start_ms;

    wm_pins_t pins; /* the first broker's; a broker with other ones is refused */
    uint8_t pins_digest[16], campaign[16];
    bool knows_pins;
    char cache[4096], trial[4096]; /* trial: a file in it, while the first engine starts */

    wm_scorer_t *scorer;
    wm_client_t *client;
    wm_tasks_t *tasks;
    wm_credit_t credit;
    wm_lane_slot_t slot[WM_SLOTS];
    wm_decode_t *decode;                      /* NULL until the lane serves */
    wm_decode_job_t job[WM_SLOTS];            /* of the slots */
    int64_t failure_ms[WM_LANE_FAILURES_MAX]; /* the last ones; 0: none */
    uint64_t n_end;     /* ends of engine processes: each counts as progress in heartbeats */
    char together[160]; /* cause of an unexplained crash on several batches; "" none */

    wm_health_t *health; /* of the GPU; NULL: not known */

    bool in_session; /* until wait returns CLOSED: acknowledgements may come after the last send */
    int64_t lost_ms;    /* when the session was lost */
    wm_restart_t retry; /* the next attempt, in ms */
    int64_t beat_ms;    /* last heartbeat */

    int64_t short_ms; /* when memory was short last; 0: never; and what was: */
    char short_of[160];

    bool done, draining;
    int code;           /* exit code */
    int64_t drained_ms; /* since when the lane waits for acknowledgements only; 0: not yet */
    char why[WM_TEXT_BYTES_MAX + 1]; /* of the drain */
    uint64_t n_batch, n_hit, n_poison;
    double engine_s; /* computing time of the engine */
};

/* What is logged at the end of --give-up: the reason, and the seconds.  */
#define WM_LANE_GIVES_UP                                                                           \
    "%s; gives up after %.0f s: start `wiremill broker` there, then type the same command again"

/* Logs one line to stderr.  */
void wm_lane_log (const char *format, ...) __attribute__ ((format (printf, 1, 2)));

/* ---- wm_lane.c ------------------------------------------------------------------------------- */

/* Returns whether the broker of the open session serves the campaign that this lane was prepared
   for; else closes the session.  */
bool wm_lane_same_campaign (wm_lane_t *self, wm_client_t *client);

/* What people are shown while the engine starts; lent.  */
const char *wm_lane_starts (const wm_lane_t *self);

/* Memory was short, as `how` explains; heartbeats report it for a while.  */
void wm_lane_is_short (wm_lane_t *self, const char *how);

/* Begins the drain: gives back what does not execute. code: of wm_lane_run.  */
void wm_lane_drain (wm_lane_t *self, int code, const char *why);

/* Milliseconds until the lane leaves by itself, 0 or less: now; *why: the reason. is_busy: it has
   work, or is the only lane and waits for its broker, so that its idle time starts again.  */
int64_t wm_lane_time_left (wm_lane_t *self, int64_t now, bool is_busy, const char **why);

/* ---- wm_lane_prepare.c ----------------------------------------------------------------------- */

/* Fetches pins and model and starts the engine. Returns an exit code, or -1: go on.  */
int wm_lane_prepare (wm_lane_t *self);

/* ---- wm_lane_work.c -------------------------------------------------------------------------- */

void wm_lane_take_message (wm_lane_t *self);
void wm_lane_check_engine (wm_lane_t *self); /* handles what the engine did */
void wm_lane_feed (wm_lane_t *self);         /* gives the engine more */
void wm_lane_send_result (wm_task_t *task, void *self);

/* Notes a failure of this machine. Returns the milliseconds from the last but two to it; -1: they
   are more than failures_ms, or there were not so many.  */
int64_t wm_lane_note_failure (wm_lane_t *self, int64_t now);

const wm_task_t *wm_lane_executes (const wm_lane_t *self); /* NULL: nothing */

/* ---- wm_replay.c ----------------------------------------------------------------------------- */

/* Writes a file into the cache that reproduces the crash. path: of the file, or of the one that
   could not be written.  */
wm_fault_t wm_lane_write_replay (const wm_lane_t *self, unsigned slot, uint32_t hit,
                                 const char *how, char path[4096], wm_error_t *error);

#endif
