/* wm_worker.h - a worker: pulls batches from brokers, scores them, returns results, and leaves
   cleanly.

   In a first session with each broker the worker learns the pins and fetches the model; then an
   engine process passes its self-test, and sessions follow that carry the engine's signature. The
   worker itself talks, decodes and keeps batches and results; it survives crashes of the engine,
   which it starts again. It decodes batch k+1 while the engine scores batch k, and scoring goes on
   while a connection is lost. Several brokers share the machine, those for clients first
   (wm_stride.h); one that vanishes does not disturb the others.

   czmq's zsys_interrupted (set by a signal handler of the program) begins a drain.  */
#ifndef WM_WORKER_H
#define WM_WORKER_H

#include <stdbool.h>

#define WM_WORKER_BROKERS_MAX 16
#define WM_WORKER_WEIGHT_MAX 1000

typedef struct {
    unsigned n_broker;
    struct {
        const char *endpoint;
        unsigned weight; /* 1 to WM_WORKER_WEIGHT_MAX */
        bool is_beside;  /* served whenever it is there, until the others have ended */
    } broker[WM_WORKER_BROKERS_MAX];
    unsigned bulk_percent; /* of the time, for bulk campaigns while clients wait (wm_stride.h) */
    int quiet;             /* can be read while no client of other workers waits; -1: none */
    const char *engine;
    const char *cache; /* folder of models; NULL: wm_cache_default */
    const char *state; /* written once connected, for a farm; NULL: none */
    int threads, pin;
    double idle_s, wall_s; /* drain after so long without work, after so long in all; 0: never */
    double give_up_s;      /* leave after so long without a broker */
} wm_worker_config_t;

/* Works until the worker may stop. Returns the program's exit code: 0 idle, wall time, or the
   broker is done; 75 drained by a signal; 4 no broker; 5 the model is refused; 6 the engine cannot
   run here; 1 this machine failed. Of several brokers the gravest: 1, 6, 5, 4, 75, 0; those beside
   the others do not count.  */
int wm_worker_run (const wm_worker_config_t *config);

#endif
