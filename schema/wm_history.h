/* wm_history.h - what happened in a campaign, second by second; times of its workers; marks.

   The ledger keeps it (schema/ledger.sql): a row per second for the last two hours, per minute for
   the last week and per hour before, a row per session of a worker, and a row per mark. Hits and
   batches are counted where their results enter the ledger, in the same transaction, so that they
   are exact whatever is killed; marks of pauses and held rows are made there, too. All else is
   sampled from the core, twice a second while there is work, and a kill loses what came after the
   last commit.
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

/* What a person looks for on a time line: its name in the ledger and in JSON, the letter that
   stands for it in pictures, what it means, and for how many seconds more of the same are counted
   in the mark before instead of making one each.  */
#define WM_MARKS(X)                                                                                \
    X (BROKER, "broker", "B", "a broker began to serve", 0)                                        \
    X (ENDED, "ended", "E", "the broker ended", 0)                                                 \
    X (PAUSED, "paused", "P", "the campaign was paused", 0)                                        \
    X (RESUMED, "resumed", "R", "the campaign was resumed", 0)                                     \
    X (DRAINED, "drained", "D", "workers were sent away", 60)                                      \
    X (LOST, "lost", "L", "a worker was lost", 60)                                                 \
    X (HELD, "held", "H", "something was held", 60)                                                \
    X (WRONG, "wrong", "W", "a machine's scores were wrong", 60)                                   \
    X (KEY, "key", "K", "a key is not valid any more", 60)                                         \
    X (FULL, "disk-full", "F", "the campaign waits: its disk is full", 0)                          \
    X (ROOM, "disk-room", "O", "its disk has room again", 0)

#define WM_MARK_NAME(name, text, letter, what, burst_s) WM_MARK_##name,
typedef enum { WM_MARKS (WM_MARK_NAME) WM_N_MARK } wm_mark_kind_t;
#undef WM_MARK_NAME

extern const struct wm_mark_what_t {
    const char *name, *letter, *what;
    int burst_s;
} wm_mark_what[WM_N_MARK];

/* Returns the kind of this name; WM_N_MARK: no kind has it.  */
wm_mark_kind_t wm_mark_of (const char *name);

#define WM_MARKS_MAX 500 /* that are kept */
typedef struct {
    uint64_t id;          /* from 1, in the order in which they were made */
    int64_t from_s, to_s; /* Unix time: of the first and the last of a burst */
    uint32_t n;           /* of them */
    wm_mark_kind_t kind;
    char text[160]; /* of the first: who, why; "" */
} wm_mark_t;

/* Where a page of the history begins: a second, below this bit; above, how many marks of that
   second are on the pages before, since a second may have more marks than a page.  */
#define WM_HISTORY_SECOND_BITS 40
static inline uint64_t wm_history_second (uint64_t page)
{
    return page & ((1ull << WM_HISTORY_SECOND_BITS) - 1);
}

/* Whether page `next` comes behind this one.  */
static inline bool wm_history_goes_on (uint64_t page, uint64_t next)
{
    const uint64_t at = wm_history_second (page), then = wm_history_second (next);
    return then != at ? then > at : next > page;
}

#endif
