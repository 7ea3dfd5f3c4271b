/* wm_sampler.h - brings what the core counts into the ledger's history, twice a second.

   Thread: one.  */
#ifndef WM_SAMPLER_H
#define WM_SAMPLER_H

#include "broker/wm_recorder.h"

typedef struct wm_sampler_t wm_sampler_t;

/* NULL without memory. What *config names is lent.  */
wm_sampler_t *wm_sampler_new (const wm_recorder_config_t *config);
void wm_sampler_destroy (wm_sampler_t **self_p);

/* Samples if it is time; at times also the sessions of all workers.  */
void wm_sampler_turn (wm_sampler_t *self);

/* Samples now, with the sessions of all workers.  */
void wm_sampler_take (wm_sampler_t *self);

/* The same, for a reader: what was sampled a moment ago is good enough, whoever asks in a loop.  */
void wm_sampler_refresh (wm_sampler_t *self);

/* Puts a mark into the history: now.  */
void wm_sampler_mark (wm_sampler_t *self, wm_mark_kind_t kind, const char *text);

/* Notes the end of a worker's session.  */
void wm_sampler_left (wm_sampler_t *self, const wm_core_worker_t *worker);

#endif
