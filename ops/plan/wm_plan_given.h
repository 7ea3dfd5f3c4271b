/* wm_plan_given.h - the numbers that `wiremill plan` starts from, and where each comes from: an
   option, or a file of `wiremill bench --json` or `make bench`.

   What an option gives replaces what was measured. Thread: one.  */
#ifndef WM_PLAN_GIVEN_H
#define WM_PLAN_GIVEN_H

#include "ops/plan/wm_plan.h"
#include "schema/base/wm_fault.h"
#include "schema/option/wm_option.h"

#include <jansson.h>
#include <stdio.h>

typedef enum {
    WM_PLAN_FILES,
    WM_PLAN_EVENTS,
    WM_PLAN_HITS,    /* an event */
    WM_PLAN_CORE,    /* hits/s of a worker on one core */
    WM_PLAN_GPU,     /* hits/s of a GPU */
    WM_PLAN_EVENT_S, /* of a producer */
    WM_PLAN_FILE_S,
    WM_PLAN_BYTES, /* of payloads, an event */
    WM_PLAN_BATCH,
    WM_PLAN_BATCHES, /* an event */
    WM_PLAN_SCORES,  /* a hit */
    WM_PLAN_OUTPUT,  /* bytes of the output, a hit */
    WM_PLAN_START,
    WM_PLAN_CLIENT,
    WM_PLAN_DISK, /* bytes a second */
    WM_PLAN_PRODUCERS,
    WM_PLAN_FACTS,
} wm_plan_fact_name_t;

typedef struct {
    double value; /* NAN: not known */
    char from[48];
} wm_plan_fact_t;

/* What `wiremill run` would do on the machine that was measured. hits_s NAN: not measured.  */
typedef struct {
    double workers, threads, hits_s, cores;
    double others; /* largest share of the CPUs that other programs took from a measurement */
} wm_plan_machine_t;

typedef struct {
    wm_plan_fact_t fact[WM_PLAN_FACTS];
    wm_plan_machine_t here;
    double memory_mb[4]; /* most of producer, broker, worker, its engine; NAN: not measured */
} wm_plan_given_t;

#define WM_PLAN_GIVEN_OPTIONS                                                                      \
    { .name = "events",                                                                            \
      .value = "N",                                                                                \
      .task = "numbers, in place of what is measured",                                             \
      .real_least = 1,                                                                             \
      .real_most = 1e12,                                                                           \
      .help = "events in all" },                                                                   \
        { .name = "hits-per-event",                                                                \
          .value = "N",                                                                            \
          .real_least = 1,                                                                         \
          .real_most = 1e9,                                                                        \
          .help = "hits of an event (mean)" },                                                     \
        { .name = "files",                                                                         \
          .value = "N",                                                                            \
          .real_least = 1,                                                                         \
          .real_most = 1e9,                                                                        \
          .help = "inputs in all; with --input: so many like these" },                             \
        { .name = "rate",                                                                          \
          .value = "HITS/S",                                                                       \
          .real_least = 0.001,                                                                     \
          .real_most = 1e9,                                                                        \
          .help = "hits a second of a worker on one core" },                                       \
        { .name = "gpu-rate",                                                                      \
          .value = "HITS/S",                                                                       \
          .real_least = 0.001,                                                                     \
          .real_most = 1e10,                                                                       \
          .help = "hits a second of a GPU" },                                                      \
        { .name = "event-s",                                                                       \
          .value = "S",                                                                            \
          .real_least = 0,                                                                         \
          .real_most = 86400,                                                                      \
          .help = "seconds a producer computes for an event: reading, cutting, encoding" },        \
        { .name = "file-s",                                                                        \
          .value = "S",                                                                            \
          .real_least = 0,                                                                         \
          .real_most = 86400,                                                                      \
          .help = "seconds that a file adds, however few events it has" },                         \
        { .name = "event-bytes",                                                                   \
          .value = "BYTES",                                                                        \
          .real_least = 0,                                                                         \
          .real_most = 1e12,                                                                       \
          .help = "payloads of an event, as they go to workers" },                                 \
        { .name = "batch-hits",                                                                    \
          .value = "N",                                                                            \
          .least = 1,                                                                              \
          .most = 1 << 20,                                                                         \
          .help = "most hits in a batch (default: as wiremill run)" },                             \
        { .name = "scores",                                                                        \
          .value = "N",                                                                            \
          .least = 1,                                                                              \
          .most = 1024,                                                                            \
          .help = "scores of a hit: outputs of the model" },                                       \
        { .name = "start-s",                                                                       \
          .value = "S",                                                                            \
          .real_least = 0,                                                                         \
          .real_most = 86400,                                                                      \
          .help = "seconds until work begins, a batch system's queue included" },                  \
        { .name = "client-s",                                                                      \
          .value = "S",                                                                            \
          .real_least = 0,                                                                         \
          .real_most = 1e6,                                                                        \
          .help = "seconds an event takes outside wiremill, in jobs that wait for its scores" },   \
        { .name = "disk-rate",                                                                     \
          .value = "MB/S",                                                                         \
          .real_least = 0.001,                                                                     \
          .real_most = 1e6,                                                                        \
          .help = "what the disk of the output takes" },                                           \
    {                                                                                              \
        .name = "producers", .value = "N", .least = 1, .most = 1000, .fallback = "1",              \
        .help = "producers at once"                                                                \
    }

/* Nothing is known, and but one producer.  */
void wm_plan_given_init (wm_plan_given_t *self);

void wm_plan_given_set (wm_plan_given_t *self, wm_plan_fact_name_t name, double value,
                        const char *from);

/* Takes what the options say.  */
void wm_plan_given_options (wm_plan_given_t *self, const wm_args_t *args);

/* Takes the points of wiremill-bench-1 in this precision: the fastest engine on one thread, that of
   the whole machine, and what a point of the pipeline has. Where other programs took more than a
   tenth of the CPUs, hits count by the CPU time of the engine, as if it had been alone. `from`:
   where they come from, for people.  */
void wm_plan_given_points (wm_plan_given_t *self, const json_t *bench, const char *precision,
                           const char *from);

/* Reads a file of `wiremill bench --json` or of `make bench` (build/bench.json). WM_EUSAGE: there
   is no such file; WM_EBATCH: it is neither, or has no engine in this precision.  */
wm_fault_t wm_plan_given_file (wm_plan_given_t *self, const char *path, const char *precision,
                               wm_error_t *error);

/* The same numbers for the arithmetic.  */
void wm_plan_given_plan (const wm_plan_given_t *self, wm_plan_t *plan);

/* Prints each known number, and where it comes from; as JSON each with its key, null if it is not
   known.  */
void wm_plan_given_print (const wm_plan_given_t *self, FILE *out);
json_t *wm_plan_given_json (const wm_plan_given_t *self);

/* JSON of a number: null for NAN.  */
json_t *wm_plan_real (double value);

#endif
