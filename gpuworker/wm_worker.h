/* wm_worker.h - a worker: pulls batches from a broker, scores them, returns results, and leaves
   cleanly.

   It opens a first session to learn the pins and to fetch the model, proves its engine by the
   model's known answers, and then works in sessions that carry the engine's signature. Two threads:
   the caller's talks, decodes and keeps the books; the engine's scores. Batch k+1 is decoded
   while batch k is scored, and scoring goes on while the connection is lost.

   czmq's zsys_interrupted (set by a signal handler of the program) begins a drain.  */
#ifndef WM_WORKER_H
#define WM_WORKER_H

typedef struct {
    const char *endpoint, *engine;
    const char *cache; /* folder of models; NULL: wm_cache_default */
    int threads;
    double idle_s, wall_s; /* drain after so long without work, after so long in all; 0: never */
    double give_up_s;      /* leave after so long without a broker */
} wm_worker_config_t;

typedef struct wm_worker_t wm_worker_t;

/* `config` is lent. Never NULL (asserts on memory).  */
wm_worker_t *wm_worker_new (const wm_worker_config_t *config);

/* Works until it may stop; the answer is the program's exit code: 0 idle, wall time, or the broker
   is done; 75 drained by a signal; 4 no broker; 5 the model is refused; 1 this machine failed.  */
int wm_worker_run (wm_worker_t *self);

/* Whether the engine still computes something nobody waits for any more (destroy would wait).  */
int wm_worker_is_busy (const wm_worker_t *self);
void wm_worker_destroy (wm_worker_t **self_p);

#endif
