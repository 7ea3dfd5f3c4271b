/* wm_wait.h - what a campaign and its processes wait for: the one table of waits.

   Each wait has a number that travels in HEARTBEAT (schema/wire.abnf), a name for programs
   (`waiting_for`, `waits[].reason`, wiremill_waiting{reason}), and what people are shown. Whoever
   reports a wait takes all of that from here. Numbers and names never change; a new wait is a new
   row, and a case of tests/fault/waits.t, which has a real wait for each row.  */
#ifndef WM_WAIT_H
#define WM_WAIT_H

#include <stdbool.h>
#include <stddef.h>

/*  number, name, severity, is it a pause, who reports it,
    sentence,
    advice

    severity: wm_wait_severity_t. A pause runs --on-pause, and nothing ends it but a person; a pause
    that is critical makes /health/ready answer 503 and the campaign's state "waiting".  */
#define WM_WAITS(ROW)                                                                              \
    ROW (PAUSED, 1, "paused", WARNING, true, BROKER, "it is paused",                               \
         "run `wiremill resume` to continue")                                                      \
    ROW (DRAINING, 2, "draining", WARNING, true, BROKER, "its workers are drained",                \
         "run `wiremill resume` to continue, or start the broker again")                           \
    ROW (DISK, 3, "disk full", CRITICAL, true, BROKER, "the campaign's disk is full",              \
         "free space on the campaign's disk; the campaign continues by itself")                    \
    ROW (LEDGER_DISK, 4, "disk full (ledger)", CRITICAL, true, BROKER,                             \
         "the campaign's ledger has no room on its disk",                                          \
         "free space on the campaign's disk; the campaign continues by itself")                    \
    ROW (OUTPUT_DISK, 5, "disk full (output)", CRITICAL, true, PRODUCER,                           \
         "the disk of the outputs is full",                                                        \
         "free space on the disk of the outputs; it goes on by itself")                            \
    ROW (SCRATCH_DISK, 6, "disk full (scratch)", CRITICAL, true, PRODUCER,                         \
         "the disk for copies of remote inputs and outputs is full",                               \
         "free space there, or choose another --scratch; it goes on by itself")                    \
    ROW (DISK_SLOW, 7, "disk slow", WARNING, false, BROKER,                                        \
         "the disk of the campaign's folder takes long to write its journal",                      \
         "look at the load of that disk, or move the campaign to a local one (--campaign)")        \
    ROW (NO_BROKER, 8, "no broker", WARNING, false, NO_ONE, "no broker runs",                      \
         "type the command that began the campaign to continue")                                   \
    ROW (NO_WORKER, 9, "no worker", CRITICAL, false, BROKER, "no worker is connected",             \
         "start one with `wiremill work`")                                                         \
    ROW (NO_PRODUCER, 10, "no producer", CRITICAL, false, BROKER, "no producer is connected",      \
         "type the same `wiremill run` or `wiremill produce` command to continue")                 \
    ROW (PRODUCER, 11, "producer", INFO, false, BROKER, "it waits for its producers",              \
         "it reads an input or writes an output")                                                  \
    ROW (PRODUCER_LATE, 12, "producer late", WARNING, false, BROKER,                               \
         "a producer does not send what it is asked for",                                          \
         "look at its disk or network; if it is stopped, continue it (kill -CONT)")                \
    ROW (PRODUCER_SILENT, 13, "producer silent", WARNING, false, BROKER,                           \
         "a producer is not heard of",                                                             \
         "if it is stopped, continue it (kill -CONT); if it hangs, end it: its inputs are taken "  \
         "over")                                                                                   \
    ROW (PRODUCER_WAITS, 14, "producer waits", WARNING, false, PRODUCER, "a producer waits",       \
         "its log has more")                                                                       \
    ROW (COPIES, 15, "copies", INFO, false, PRODUCER, "inputs are copied to a producer's machine", \
         "it goes on when they are here")                                                          \
    ROW (AWAY, 16, "server away", WARNING, false, PRODUCER,                                        \
         "a server of remote inputs or outputs does not answer, or refuses",                       \
         "look whether the server runs and this machine reaches it; it is tried again by itself")  \
    ROW (WORKER_SILENT, 17, "worker silent", WARNING, false, BROKER, "a worker is not heard of",   \
         "if it is stopped, continue it (kill -CONT); else its batches are taken back soon")       \
    ROW (WORKER_STARTS, 18, "worker starts", INFO, false, WORKER,                                  \
         "a worker prepares and tests its engine", "it begins when its self-test is passed")       \
    ROW (MODEL, 19, "model", INFO, false, BROKER, "a worker fetches the model",                    \
         "it begins when the model is there and its self-test is passed")                          \
    ROW (SAMPLE, 20, "sample", INFO, false, WORKER,                                                \
         "a worker waits for first hits to measure its precision on",                              \
         "a producer sends them; start one if none runs")                                          \
    ROW (ENGINE_HUNG, 21, "engine hung", WARNING, false, BROKER,                                   \
         "an engine has finished nothing for a while",                                             \
         "its worker ends and restarts an engine that hangs; look at its log and its machine")     \
    ROW (NO_MEMORY, 22, "no memory", WARNING, false, WORKER, "a worker is short of memory",        \
         "give it more memory, or fewer workers to its machine; other workers take its batches")

typedef enum {
    WM_WAIT_NONE = 0,
#define WM_WAIT_NUMBER(id, number, ...) WM_WAIT_##id = number,
    WM_WAITS (WM_WAIT_NUMBER)
#undef WM_WAIT_NUMBER
        WM_WAIT_END, /* one past the last */
} wm_wait_t;

typedef enum {
    WM_WAIT_INFO,     /* it passes by itself */
    WM_WAIT_WARNING,  /* look at it today */
    WM_WAIT_CRITICAL, /* it goes no further until a person acts */
} wm_wait_severity_t;

typedef enum {
    WM_WAIT_BY_NO_ONE, /* no process runs that could */
    WM_WAIT_BY_BROKER,
    WM_WAIT_BY_PRODUCER, /* in its heartbeats, as the next */
    WM_WAIT_BY_WORKER,
} wm_wait_by_t;

typedef struct {
    const char *name, *sentence, *advice;
    wm_wait_severity_t severity;
    bool is_pause;
    wm_wait_by_t by;
} wm_wait_row_t;

extern const wm_wait_row_t wm_waits[WM_WAIT_END]; /* [0]: nothing, "" */
extern const char *const wm_wait_severities[3];   /* "info", "warning", "critical" */

/* The wait with this name; WM_WAIT_NONE: none has it.  */
wm_wait_t wm_wait_find (const char *name);

/* Whether nothing goes further until a person acts: a critical pause, which is a full disk.  */
static inline bool wm_wait_stops (wm_wait_t wait)
{
    return wm_waits[wait].is_pause && wm_waits[wait].severity == WM_WAIT_CRITICAL;
}

/* Whether `name` is a kind of `family`: "disk full (output)" of "disk full". So is what equals
   it.  */
bool wm_wait_is_of (const char *name, const char *family);

#endif
