/* wm_farm.h - the parts of `wiremill farm`: what it decides, what a job is, its batch system.

   The farm compares the broker's queue with the jobs it has in a batch system, and submits what is
   missing. It schedules nothing itself: a job is one `wiremill work`, which leaves by itself when
   it is idle or its wall time ends. Jobs are known by their name alone (wm-CAMPAIGN-FARM), so a
   farm that starts again finds those of the one before. Each job leaves a file when it ends
   (FOLDER/end/JOB: exit code and node), its log (FOLDER/log/JOB.log) and, if its worker connected,
   FOLDER/log/JOB.json. Thread: one.  */
#ifndef WM_FARM_H
#define WM_FARM_H

#include "ops/farm/wm_farm_profile.h"
#include "schema/base/wm_fault.h"
#include "schema/wm_made.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* ---- deciding (wm_farm_decide.c, no I/O) ----------------------------------------------------- */

#define WM_FARM_NODE_BYTES 64
#define WM_FARM_NODES_MAX 256 /* that failures are noted of */

typedef struct {
    bool is_known;   /* the broker has answered */
    bool takes_work; /* it is neither paused nor draining nor without disk */
    int64_t batches; /* waiting, asked for or with workers */
    double eta_s;    /* until the workers there are have finished; below 0: not known */
} wm_farm_queue_t;

typedef struct {
    unsigned pending, running; /* jobs by state */
    unsigned connected;        /* running ones whose worker has a session with the broker */
} wm_farm_count_t;

typedef struct {
    unsigned min, max;
    unsigned batches_each; /* batches that are worth one more job */
    unsigned failures_max; /* in a row that stop the farm */
    unsigned node_max;     /* failures on a node that exclude it; 0: nodes are not excluded */
    double worth_s;        /* no more jobs for what the connected finish within this time */
} wm_farm_limits_t;

/* Jobs that ended without having connected. A node counts up to node_max in in_a_row: one bad node
   that takes job after job does not stop a farm that has others.  */
typedef struct {
    unsigned in_a_row; /* since a job last connected */
    size_t n_node;
    struct {
        char name[WM_FARM_NODE_BYTES];
        unsigned n;
        bool is_bad;
    } node[WM_FARM_NODES_MAX];
} wm_farm_failures_t;

typedef struct {
    unsigned wanted;
    unsigned submit, submit_kept; /* new jobs that leave when idle; new ones that stay (min) */
    unsigned retire;              /* pending jobs that are not needed */
    bool stop;                    /* too many jobs failed to connect */
} wm_farm_decision_t;

wm_farm_decision_t wm_farm_decide (const wm_farm_queue_t *queue, const wm_farm_count_t *count,
                                   const wm_farm_failures_t *failures,
                                   const wm_farm_limits_t *limits);

/* Notes a job that failed to connect, on a node ("": unknown), with its exit code (-1: unknown).
   Returns whether the node is bad from now on.  */
bool wm_farm_failed (wm_farm_failures_t *self, const wm_farm_limits_t *limits, const char *node,
                     int code);

/* Notes that the worker of a job on this node failed after it had connected, or was sent away by
   the broker. Returns whether the node is bad from now on.  */
bool wm_farm_blamed (wm_farm_failures_t *self, const wm_farm_limits_t *limits, const char *node);

/* Notes a job that connected.  */
void wm_farm_connected (wm_farm_failures_t *self);

/* The wall time's last part, in seconds, in which a worker finishes its batch and leaves.  */
#define WM_FARM_DRAIN_S 120
static inline int64_t wm_farm_drain_s (int64_t wall_s)
{
    return wall_s / 4 < WM_FARM_DRAIN_S ? wall_s / 4 : WM_FARM_DRAIN_S;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

#define WM_FARM_JOB_BYTES 40

typedef struct {
    char id[WM_FARM_JOB_BYTES]; /* as the batch system names it, "12_3" */
    char node[WM_FARM_NODE_BYTES];
    char reason[160]; /* why it has failed, where the batch system explains it; else "" */
    bool is_running;
    bool has_failed;                /* it is over, and the batch system calls it failed */
    bool was_connected, was_blamed; /* its worker, while it has been running */
    int64_t since_ms;               /* it is missing */
} wm_farm_job_t;

typedef struct {
    wm_farm_job_t *job;
    size_t n, capacity;
} wm_farm_jobs_t;

/* Adds a job and returns it, zeroed but for its id. Without memory the process ends.  */
wm_farm_job_t *wm_farm_jobs_add (wm_farm_jobs_t *self, const char *id);
wm_farm_job_t *wm_farm_jobs_find (const wm_farm_jobs_t *self, const char *id);
void wm_farm_jobs_free (wm_farm_jobs_t *self);

/* ---- a batch system -------------------------------------------------------------------------- */

#define WM_FARM_OPTIONS_MAX 32

typedef struct {
    wm_farm_profile_t profile;
    wm_farm_limits_t limits;
    char name[64];         /* of all its jobs */
    char campaign[33];     /* its id */
    const char *farm;      /* its own name */
    char folder[PATH_MAX]; /* shared with the nodes */
    char program[PATH_MAX];
    char endpoint[256];       /* what its workers connect to */
    char join_file[PATH_MAX]; /* their key's; "": they need none */
    const char *partition, *account, *memory, *cache;
    const char *image, *prometheus;
    const char *prologue; /* shell lines before the worker; NULL: none */
    unsigned cpus;
    int64_t wall_s, idle_s, give_up_s; /* wall_s 0: no limit */
    int64_t drain_s, interval_s;
    const char *submit_option[WM_FARM_OPTIONS_MAX + 1]; /* NULL ends it */
    const char *work_option[WM_FARM_OPTIONS_MAX + 1];
    const wm_farm_failures_t *failures; /* its bad nodes are excluded */
    int lock; /* descriptor; held until a submission is complete; -1: none */
} wm_farm_t;

/* Reads the farm's profile and checks it. WM_EUSAGE: it has a mistake, or cannot be read.  */
wm_fault_t wm_farm_open (wm_farm_t *self, const char *path, wm_error_t *error);

/* Whether the batch system itself keeps the number of workers: a submission is all there is to do,
   jobs run no script of ours, and the functions that list and end them have nothing to do.  */
bool wm_farm_keeps_itself (const wm_farm_t *self);

/* Whether jobs are processes of this machine, and see all that this one sees.  */
bool wm_farm_is_here (const wm_farm_t *self);

/* WM_EUSAGE: the batch system takes no such --name.  */
wm_fault_t wm_farm_check_name (const wm_farm_t *self, wm_error_t *error);

/* A key of the profile with the farm's values; the caller frees it.  */
char *wm_farm_text (const wm_farm_t *self, wm_farm_key_t key);

/* Lists the farm's jobs, by their name. This and the next two return WM_EAGAIN where the batch
   system cannot be asked now, WM_EHOST where it refuses.  */
wm_fault_t wm_farm_list (const wm_farm_t *self, wm_farm_jobs_t *jobs, wm_error_t *error);

/* Submits n jobs; with `dry` (not NULL) prints there what it would submit, how, and the script.  */
wm_fault_t wm_farm_submit (const wm_farm_t *self, unsigned n, bool is_kept, FILE *dry,
                           wm_error_t *error);

/* Ends these jobs: WM_FARM_WITHDRAW, those that are still pending leave the queue; WM_FARM_DRAIN,
   SIGTERM: their workers finish what they compute and leave; WM_FARM_KILL.  */
wm_fault_t wm_farm_end (const wm_farm_t *self, const wm_farm_jobs_t *jobs, wm_farm_key_t how,
                        wm_error_t *error);

/* Writes FOLDER/worker.sh. */
wm_fault_t wm_farm_write_script (const wm_farm_t *self, wm_error_t *error);

/* Prints the names of bad nodes, joined by commas. Returns how many.  */
size_t wm_farm_bad_nodes (const wm_farm_t *self, char *text, size_t bytes);

/* Runs a command for at most half a minute. `input`: what it reads; NULL: nothing. *output (the
   caller's, never NULL with WM_OK) is what it wrote to stdout. WM_EHOST: it ended with an error,
   whose last line *error has; WM_EAGAIN: it did not end. lock: of the farm, which a submission has
   until it ends, also where the farm is killed meanwhile; 0: none.  */
wm_fault_t wm_farm_command (const char *const argv[], const char *input, int lock, char **output,
                            wm_error_t *error);

#endif
