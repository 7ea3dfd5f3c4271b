/* wm_farm_watch.h - what became of a farm's jobs: who connected, who failed, and why.

   The batch system lists the jobs there are, the broker the workers that are connected (a worker's
   label ends in "/JOB"), and a job that ended left its exit code in FOLDER/end. Its worker's
   --state-file, FOLDER/log/JOB.json, states whether it had connected. A job that is gone without a
   trace and had not connected has failed, too, but only after a while: a shared folder shows files
   late. Nothing is decided by the text of a log or of a reason. Thread: one.  */
#ifndef WM_FARM_WATCH_H
#define WM_FARM_WATCH_H

#include "ops/farm/wm_farm.h"

#include <jansson.h>

typedef struct {
    const wm_farm_t *farm;
    const wm_farm_limits_t *limits;
    wm_farm_failures_t failures;
    wm_farm_jobs_t jobs, missing;
    wm_farm_jobs_t judged; /* failed jobs that the batch system still lists */
    bool has_begun;
    unsigned ended;  /* jobs that left an exit code, since the farm began */
    unsigned failed; /* jobs that did not connect, since the farm began */
    int code;        /* of the last one; -1: unknown */
    bool has_bad;    /* a node became bad: pending jobs are to be submitted again */
} wm_farm_watch_t;

/* Reads FOLDER/bad-nodes, the nodes of an earlier farm of this name.  */
void wm_farm_watch_init (wm_farm_watch_t *self, const wm_farm_t *farm,
                         const wm_farm_limits_t *limits);
void wm_farm_watch_free (wm_farm_watch_t *self);

/* Takes the jobs that there are now, and looks after those that are there no more.  */
void wm_farm_watch_jobs (wm_farm_watch_t *self, wm_farm_jobs_t *now);

/* Takes the broker's list of jobs that are connected, and of workers that it sends away.  */
void wm_farm_watch_workers (wm_farm_watch_t *self, const json_t *status);

wm_farm_count_t wm_farm_watch_count (const wm_farm_watch_t *self);

#endif
