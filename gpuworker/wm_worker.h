/* wm_worker.h - a worker: pulls batches from brokers, scores them, returns results, and leaves
   cleanly.

   Of each broker it learns the pins in a first session and fetches the model; then an engine
   process proves itself by the model's known answers, and sessions follow that carry the engine's
   signature. The worker itself talks, decodes and keeps the books; it links no engine's fate to
   its own: an engine that dies is started again. Batch k+1 is decoded while batch k is scored, and
   scoring goes on while a connection is lost. Brokers take turns by their weights, and one that
   vanishes does not disturb the others.

   czmq's zsys_interrupted (set by a signal handler of the program) begins a drain.  */
#ifndef WM_WORKER_H
#define WM_WORKER_H

#define WM_WORKER_BROKERS_MAX 16
#define WM_WORKER_WEIGHT_MAX 1000

typedef struct {
    unsigned n_broker;
    struct {
        const char *endpoint;
        unsigned weight; /* 1 to WM_WORKER_WEIGHT_MAX */
    } broker[WM_WORKER_BROKERS_MAX];
    const char *engine;
    const char *cache; /* folder of models; NULL: wm_cache_default */
    int threads, pin;
    double idle_s, wall_s; /* drain after so long without work, after so long in all; 0: never */
    double give_up_s;      /* leave after so long without a broker */
} wm_worker_config_t;

/* Works until it may stop; the answer is the program's exit code: 0 idle, wall time, or the broker
   is done; 75 drained by a signal; 4 no broker; 5 the model is refused; 6 the engine cannot run
   here; 1 this machine failed. Of several brokers the gravest: 1, 6, 5, 4, 75, 0.  */
int wm_worker_run (const wm_worker_config_t *config);

#endif
