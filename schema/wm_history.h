/* wm_history.h - what happened in a campaign, second by second, and the times of its workers.

   The ledger keeps it (schema/ledger.sql): a row per second for the last two hours, per minute for
   the last week and per hour before, and a row per session of a worker. Hits and batches are
   counted where their results enter the ledger, in the same transaction, so that they are exact
   whatever is killed; all else is sampled from the core, twice a second while there is work, and a
   kill loses what came after the last commit.
   Thread: one.  */
#ifndef WM_HISTORY_H
#define WM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Steps of a batch, from one to the next: asked of its producer, here, sent to a worker, its result
   here, the result durable.  */
typedef enum {
    WM_STEP_STAGE,   /* cut by the producer, and on its way */
    WM_STEP_QUEUE,   /* waiting for a worker */
    WM_STEP_COMPUTE, /* at a worker: on its way, in the worker's queue, scored */
    WM_STEP_COMMIT,  /* waiting for the disk */
    WM_STEPS,
} wm_step_t;
extern const char *const wm_step_names[WM_STEPS]; /* "stage", ... */

/* How long batches took for a step. bucket[0] counts those below 1 ms, bucket[i] below 2^i ms, the
   last all above.  */
#define WM_LATENCY_BUCKETS 16
typedef struct {
    uint64_t n, sum_ms;
    uint32_t bucket[WM_LATENCY_BUCKETS];
} wm_latency_t;

void wm_latency_add (wm_latency_t *self, uint32_t ms);

/* What is counted: its name, its name in JSON, and how many of it are one there. Those from FAIL to
   AGAIN are the status' counters of the same names.  */
#define WM_COUNTS(X)                                                                               \
    X (UP_MS, "up_s", 1e3)          /* a broker served */                                          \
    X (HITS, "hits", 1)             /* of results */                                               \
    X (BATCHES, "batches", 1)       /* results */                                                  \
    X (HELD, "held", 1)             /* batches that were held */                                   \
    X (EVENTS, "events", 1)         /* done */                                                     \
    X (PAYLOAD_IN, "payload_in", 1) /* bytes from producers */                                     \
    X (TASK_OUT, "task_out", 1)     /* bytes to workers */                                         \
    X (RESULT_IN, "result_in", 1)   /* bytes from workers */                                       \
    X (FAIL, "fail", 1)                                                                            \
    X (LOST, "lost", 1)                                                                            \
    X (PREEMPT, "preempt", 1)                                                                      \
    X (DUPLICATE, "duplicate", 1)                                                                  \
    X (LATE, "late", 1)                                                                            \
    X (ALARM, "alarm", 1)                                                                          \
    X (COPIES, "copies", 1)                                                                        \
    X (AGAIN, "again", 1)                                                                          \
    X (WORKER_MS, "worker_s", 1e3) /* all workers' time connected */                               \
    X (BUSY_MS, "busy_s", 1e3)     /* of that, with a batch */                                     \
    X (CPU_MS, "broker_cpu_s", 1e3)

#define WM_COUNT_NAME(name, text, unit) WM_COUNT_##name,
enum { WM_COUNTS (WM_COUNT_NAME) WM_N_COUNT };
#undef WM_COUNT_NAME

typedef struct {
    uint64_t count[WM_N_COUNT];
    wm_latency_t step[WM_STEPS];
} wm_tally_t;

void wm_tally_add (wm_tally_t *self, const wm_tally_t *more);
void wm_tally_less (wm_tally_t *self, const wm_tally_t *other);

/* A second, a minute, or an hour.  */
typedef struct {
    int64_t begin_s; /* Unix time; 0: results whose time is not known */
    uint32_t span_s;
    uint32_t workers_max;   /* most that were connected at a time */
    uint64_t journal_bytes; /* at the end */
    wm_tally_t tally;
} wm_history_row_t;

/* The counter of the rows that a signature committed, "rows-" and a hash of it. The ledger has it
   up to the same record as all else.  */
#define WM_HISTORY_ROWS_BYTES 16
uint32_t wm_history_rows_hash (const char *signature);
void wm_history_rows_name (uint32_t hash, char name[WM_HISTORY_ROWS_BYTES]);

/* A session of a worker.  */
typedef struct {
    uint64_t id;          /* epoch << 32 | session of the core */
    int64_t from_s, to_s; /* Unix time */
    uint64_t batches, hits, busy_ms;
    int64_t cpu_ms; /* of the worker and its engine; -1: not reported */
    bool has_ended;
    char label[64], signature[128];
    char device[64]; /* "CPU", or the GPU's name */
    char why[120];   /* it was dismissed; "" */
} wm_worker_span_t;

#endif
