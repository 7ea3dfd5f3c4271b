/* wm_lane.h - one broker that a worker serves: its session, its batches, its engine process.

   prepare   session 1: pins, model into the cache; then an engine process that proves itself
   serve     sessions with the engine's signature: HELLO (what is held), results not acknowledged
             again, CREDIT, TASK -> decode -> score -> RESULT -> RESULT_ACK
   drain     queued batches go back (NACK EAGAIN), what executes is finished, results wait for
             their acknowledgement, BYE with the reason

   A batch that cannot be decoded is refused by name and never ends the worker. An engine that dies
   is started again; the batch it died on is searched for the hit that kills it (wm_poison.h). Three
   failures that no hit explains, within failures_ms, and the lane drains and leaves with 1. Where memory
   was missing, the batch is given back and nothing is held against it.

   Thread: one a lane; the first thing it does to it is wm_lane_run.  */
#ifndef WM_LANE_H
#define WM_LANE_H

#include "gpuworker/wm_stride.h"
#include "gpuworker/wm_worker.h"

#include <stdint.h>

typedef struct wm_lane_t wm_lane_t;

/* All of it is lent. turn: whose batch is computed now, where several lanes share the machine, with
   this lane's seat; NULL for one alone. busy_ms: when any lane had work last.  */
wm_lane_t *wm_lane_new (const wm_worker_config_t *config, const char *endpoint, wm_stride_t *turn,
                        unsigned seat, _Atomic int64_t *busy_ms);

/* Works until it may stop; the exit code of wm_worker_run.  */
int wm_lane_run (wm_lane_t *self);
void wm_lane_destroy (wm_lane_t **self_p);

#endif
