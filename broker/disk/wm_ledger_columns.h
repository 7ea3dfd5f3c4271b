/* wm_ledger_columns.h - the rows of the ledger: each a struct in memory and named columns on disk.

   A list of columns (WM_ROW_... below) is the struct, the columns of schema/ledger.sql and what is
   bound and read, so that they cannot differ. sum: XXH3 of the struct before it and of the row's
   texts, because SQLite would believe a flipped bit. No padding. Thread: any.  */
#ifndef WM_LEDGER_COLUMNS_H
#define WM_LEDGER_COLUMNS_H

#include "schema/wm_history.h"
#include "broker/disk/wm_journal.h"

#include <assert.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

/* X (type, name, member): a column, and the member of the struct that it holds. A uint64_t
   is at most INT64_MAX.  */
#define WM_ROW_CAMPAIGN(X) X (BLOB16, id, id) X (INT64, created_ns, created_ns)

#define WM_ROW_POSITION(X)                                                                         \
    X (INT64, epoch, epoch)                                                                        \
    X (INT64, sequence, sequence)                                                                  \
    X (INT64, n_input, n_input)                                                                    \
    X (INT64, n_batch, n_batch)

#define WM_ROW_INPUT(X)                                                                            \
    X (UINT32, id, id)                                                                             \
    X (UINT32, generation, generation)                                                             \
    X (UINT16, state, state)                                                                       \
    X (UINT16, suspect, is_suspect)                                                                \
    X (UINT32, code, code)                                                                         \
    X (INT64, size, size)                                                                          \
    X (INT64, mtime_ns, mtime_ns)                                                                  \
    X (INT64, n_event, n_event)                                                                    \
    X (INT64, out_size, out_size)                                                                  \
    X (INT64, out_mtime_ns, out_mtime_ns)                                                          \
    X (BLOB16, out_digest, out_digest)                                                             \
    X (INT64, n_hit, n_hit)                                                                        \
    X (INT64, n_held, n_held)

#define WM_ROW_BATCH(X)                                                                            \
    X (UINT32, input, key.input)                                                                   \
    X (UINT32, event, key.ordinal)                                                                 \
    X (UINT32, batch, key.batch)                                                                   \
    X (UINT32, generation, key.generation)                                                         \
    X (UINT32, state, state)                                                                       \
    X (UINT32, code, code)                                                                         \
    X (UINT32, n_batch, n_batch)                                                                   \
    X (UINT32, n_hit, n_hit)                                                                       \
    X (UINT32, n_held, n_held)                                                                     \
    X (UINT32, attempt, attempt)                                                                   \
    X (UINT32, signature, signature)                                                               \
    X (BLOB16, digest, digest)                                                                     \
    X (INT64, segment, place.segment)                                                              \
    X (UINT32, offset, place.offset)                                                               \
    X (UINT32, bytes, place.bytes)

#define WM_ROW_COUNT(X, name, NAME) X (INT64, name, minute.tally.count[WM_COUNT_##NAME])
#define WM_ROW_STEP(X, name, NAME)                                                                 \
    X (INT64, name##_n, minute.tally.step[WM_STEP_##NAME].n)                                       \
    X (INT64, name##_ms, minute.tally.step[WM_STEP_##NAME].sum_ms)                                 \
    X (LATENCY, name##_latency, minute.tally.step[WM_STEP_##NAME].bucket)

#define WM_ROW_MINUTE(X)                                                                           \
    X (INT64, begin_s, minute.begin_s)                                                             \
    X (UINT32, span_s, minute.span_s)                                                              \
    X (UINT32, workers_max, minute.workers_max)                                                    \
    X (INT64, journal_bytes, minute.journal_bytes)                                                 \
    WM_ROW_COUNT (X, up_ms, UP_MS)                                                                 \
    WM_ROW_COUNT (X, hits, HITS)                                                                   \
    WM_ROW_COUNT (X, batches, BATCHES)                                                             \
    WM_ROW_COUNT (X, held, HELD)                                                                   \
    WM_ROW_COUNT (X, events, EVENTS)                                                               \
    WM_ROW_COUNT (X, payload_in, PAYLOAD_IN)                                                       \
    WM_ROW_COUNT (X, task_out, TASK_OUT)                                                           \
    WM_ROW_COUNT (X, result_in, RESULT_IN)                                                         \
    WM_ROW_COUNT (X, fail, FAIL)                                                                   \
    WM_ROW_COUNT (X, lost, LOST)                                                                   \
    WM_ROW_COUNT (X, preempt, PREEMPT)                                                             \
    WM_ROW_COUNT (X, duplicate, DUPLICATE)                                                         \
    WM_ROW_COUNT (X, late, LATE)                                                                   \
    WM_ROW_COUNT (X, alarm, ALARM)                                                                 \
    WM_ROW_COUNT (X, copies, COPIES)                                                               \
    WM_ROW_COUNT (X, again, AGAIN)                                                                 \
    WM_ROW_COUNT (X, worker_ms, WORKER_MS)                                                         \
    WM_ROW_COUNT (X, busy_ms, BUSY_MS)                                                             \
    WM_ROW_COUNT (X, cpu_ms, CPU_MS)                                                               \
    WM_ROW_STEP (X, stage, STAGE)                                                                  \
    WM_ROW_STEP (X, queue, QUEUE)                                                                  \
    WM_ROW_STEP (X, compute, COMPUTE)                                                              \
    WM_ROW_STEP (X, commit, COMMIT)

#define WM_ROW_WORKER(X)                                                                           \
    X (INT64, id, id)                                                                              \
    X (INT64, from_s, from_s)                                                                      \
    X (INT64, to_s, to_s)                                                                          \
    X (INT64, batches, batches)                                                                    \
    X (INT64, hits, hits)                                                                          \
    X (INT64, busy_ms, busy_ms)                                                                    \
    X (INT64, cpu_ms, cpu_ms)                                                                      \
    X (UINT32, signature, signature)                                                               \
    X (UINT32, has_ended, has_ended)

#define WM_ROW_MARK(X)                                                                             \
    X (INT64, id, id)                                                                              \
    X (INT64, from_s, from_s)                                                                      \
    X (INT64, to_s, to_s)                                                                          \
    X (INT64, n, n)

/* For a statement: "a, b, sum", and as many "?, ".  */
#define WM_ROW_NAME(type, name, member) #name ", "
#define WM_ROW_PARAMETER(type, name, member) "?, "
#define WM_ROW_NAMES(columns) columns (WM_ROW_NAME) "sum"
#define WM_ROW_PARAMETERS(columns) columns (WM_ROW_PARAMETER) "?"

typedef struct {
    uint8_t id[16];
    int64_t created_ns;
    uint64_t sum;
} campaign_row_t;

typedef struct {
    uint64_t epoch, sequence;
    uint64_t n_input, n_batch; /* rows */
    uint64_t sum;
} position_row_t;

typedef struct {
    uint32_t id, generation;
    uint16_t state, is_suspect;
    uint32_t code; /* why, if held; batches held, if written */
    int64_t size, mtime_ns, n_event;
    int64_t out_size, out_mtime_ns;
    uint8_t out_digest[16];
    uint64_t n_hit, n_held;
    uint64_t sum;
} input_row_t;

typedef struct {
    wm_key_t key;
    uint8_t digest[16];
    wm_place_t place;
    uint32_t state, n_batch, n_hit, n_held, attempt, signature, code, zero;
    uint64_t sum;
} batch_row_t;

typedef struct {
    wm_history_row_t minute;
    uint64_t sum;
} minute_row_t;

typedef struct {
    uint64_t id;
    int64_t from_s, to_s;
    uint64_t batches, hits, busy_ms;
    int64_t cpu_ms;
    uint32_t signature, has_ended;
    uint64_t sum;
} worker_row_t;

typedef struct {
    uint64_t id;
    int64_t from_s, to_s;
    uint64_t n;
    uint64_t sum;
} mark_row_t;

static_assert (sizeof (minute_row_t) == 504 && sizeof (worker_row_t) == 72, "no padding");
static_assert (sizeof (campaign_row_t) == 32 && sizeof (position_row_t) == 40, "no padding");
static_assert (sizeof (input_row_t) == 96 && sizeof (batch_row_t) == 88, "no padding");

/* How a struct and its columns belong together.  */
typedef struct {
    uint8_t type; /* wm_row_at_type_t */
    uint16_t at;  /* of the member */
} wm_row_at_t;

typedef struct {
    const wm_row_at_t *column; /* sum is behind the last */
    size_t n;
    size_t bytes; /* of the struct before its sum */
} wm_row_t;

extern const wm_row_t wm_row_campaign, wm_row_position, wm_row_input, wm_row_batch, wm_row_minute,
    wm_row_worker, wm_row_mark;

/* Sum of a struct and of up to three texts (NULL ends them).  */
uint64_t wm_row_sum (const void *row, size_t bytes, const char *a, const char *b, const char *c);

/* Sets the struct's sum and binds it to the parameters 1 to n + 1; it is lent until the statement
   has run. The texts are the caller's to bind.  */
void wm_row_bind (const wm_row_t *self, sqlite3_stmt *statement, void *row, const char *a,
                  const char *b, const char *c);

/* Reads the struct from the columns 0 to n of a statement's row; false if it is damaged.  */
bool wm_row_get (const wm_row_t *self, sqlite3_stmt *statement, void *row, const char *a,
                 const char *b, const char *c);

#endif
