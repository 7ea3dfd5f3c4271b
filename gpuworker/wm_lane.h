/* wm_lane.h - a worker's work for one broker: the session, the batches, the engine process.

   prepare   session 1: pins, model into the cache; then an engine process passes its self-test
   serve     sessions with the engine's signature: HELLO (the batches the lane has), results not yet
             acknowledged again, CREDIT, TASK -> decode -> score -> RESULT -> RESULT_ACK
   drain     the lane gives queued batches back (NACK EAGAIN), finishes what executes, waits for the
             acknowledgements of its results, and sends BYE with the reason

   The lane refuses a batch that cannot be decoded with NACK and goes on. If the engine process
   dies, the lane starts another one and searches the batch for the hit that kills it (wm_poison.h).
   After three failures that no hit explains, within failures_ms, the lane drains and returns 1. If
   memory was short, it gives the batch back without blaming the batch.

   Thread: after wm_lane_new only the lane's own thread touches it, first with wm_lane_run.  */
#ifndef WM_LANE_H
#define WM_LANE_H

#include "gpuworker/wm_stride.h"
#include "gpuworker/wm_worker.h"

#include <stdint.h>

typedef struct wm_lane_t wm_lane_t;

/* Writes a worker's name: HOST:PID, or HOST:PID/JOB where a farm started it (WM_JOB), by which the
   farm finds its jobs. To the broker workers with the same HOST are one machine, so a host name of
   more than 24 characters becomes its first 15, `~` and 8 digits of a hash of the whole name: two
   nodes stay two machines, and one node is the same machine with and without a job.  */
void wm_lane_label (char label[64], const char *host, int pid, const char *job);

/* All of it is lent. stride: which lane may compute, where several share the machine, and this
   lane's number in it; NULL for one lane. busy_ms: when any lane had work last. Never NULL.  */
wm_lane_t *wm_lane_new (const wm_worker_config_t *config, const char *endpoint, wm_stride_t *stride,
                        unsigned number, _Atomic int64_t *busy_ms);

/* Lends the number of lanes that this one is beside: at 0 it leaves. Before wm_lane_run.  */
void wm_lane_beside (wm_lane_t *self, const _Atomic unsigned *n_main);

/* Works until the lane may stop. Returns the exit code of wm_worker_run.  */
int wm_lane_run (wm_lane_t *self);
void wm_lane_destroy (wm_lane_t **self_p);

#endif
