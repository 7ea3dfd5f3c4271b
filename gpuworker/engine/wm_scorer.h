/* wm_scorer.h - the worker's side of the engine process: starts, feeds, watches and restarts it.

   The worker decodes a batch into a slot (wm_scorer_batch) and submits it, or a part of its hits.
   When wm_scorer_fd is readable, or at the next tick, wm_scorer_poll reports what happened. The
   process may end at any time; then wm_scorer_poll names the slot it was scoring, and the next call
   starts another process, which takes the slots that are READY. If it was scoring several slots
   together, any of them may be the cause: they become READY again and are scored one by one.
   The scorer kills a process that has not finished a hit for engine_ms, or for ten times as long as
   its self-test took.

   Thread: one, which must live as long as the scorer (the process dies with it).  */
#ifndef WM_SCORER_H
#define WM_SCORER_H

#include "gpuworker/engine/wm_slots.h"

#include <stdbool.h>

typedef struct {
    const char *engine;
    int threads;
    bool pin;
    const wm_pins_t *pins;
    const char *model_path;
    const char *trial; /* file that wm_scorer_has_trial is about; NULL: fp32, or no campaign */
} wm_scorer_config_t;

typedef enum {
    WM_SCORER_NOTHING,
    WM_SCORER_READY,      /* the process has passed its self-test: the first one, or a later one */
    WM_SCORER_SCORED,     /* a slot is done: wm_scorer_answer frees it */
    WM_SCORER_ENDED,      /* the process ended; slot: the one it was scoring, WM_SLOTS for none */
    WM_SCORER_ENDED_MANY, /* it ended while it scored several; slot: a bit for each of them */
    WM_SCORER_HOPELESS,   /* it cannot start here, or cannot be killed: there are no more events */
} wm_scorer_event_t;

typedef struct wm_scorer_t wm_scorer_t;

/* Makes the memory and starts the first process. The config is copied. NULL with *error (WM_EHOST,
   or WM_EBATCH: a name in it is too long).  */
wm_scorer_t *wm_scorer_new (const wm_scorer_config_t *config, wm_error_t *error);

/* Ends the process for good: at once if it computes, else after it has cleaned up.  */
void wm_scorer_stop (wm_scorer_t *self);
void wm_scorer_destroy (wm_scorer_t **self_p);

/* The file of the config's trial is there now: the first process waits for it after it has opened
   what it needs in any case.  */
void wm_scorer_has_trial (wm_scorer_t *self);

int wm_scorer_fd (const wm_scorer_t *self);

/* Returns the next event; call it until it returns NOTHING. *slot: the event's slot, or of
   ENDED_MANY bits. *error: why, of ENDED, ENDED_MANY and HOPELESS (fault WM_EBATCH of HOPELESS: the
   model or the specification is refused; WM_EPEER: a plug-in broke its contract).  */
wm_scorer_event_t wm_scorer_poll (wm_scorer_t *self, uint64_t *slot, wm_error_t *error);

/* Returns the batch of a free slot, to decode into; it lies in the shared memory.  */
wm_batch_t *wm_scorer_batch (wm_scorer_t *self, unsigned slot);

/* Slots worth filling: more if the engine gathers batches.  */
unsigned wm_scorer_slots (const wm_scorer_t *self);

/* Hits needed to saturate the device; 0: batches are scored one by one.  */
uint32_t wm_scorer_fill (const wm_scorer_t *self);

/* Hits to have in slots, so that the device always has something to do.  */
uint64_t wm_scorer_enough (const wm_scorer_t *self);

/* Submits `count` hits from `first` of the slot's batch; alone: not in one call with others.  */
void wm_scorer_submit (wm_scorer_t *self, unsigned slot, uint32_t first, uint32_t count,
                       bool alone);

/* Before wm_scorer_submit: a hash of the batch's key, which chooses what strict fp32 checks.  */
void wm_scorer_draw (wm_scorer_t *self, unsigned slot, uint64_t draw);

/* Takes a submitted slot back. false: the process has begun it.  */
bool wm_scorer_take_back (wm_scorer_t *self, unsigned slot);

/* Returns whether there is a process now that has passed its self-test.  */
bool wm_scorer_is_ready (const wm_scorer_t *self);

/* Frees a SCORED slot. WM_OK: status and scores of the submitted hits are copied to their places in
   `status` and `scores`, which are those of the whole batch. WM_EBATCH: the engine refused it,
   *error explains. *again: strict fp32 scored it again, *error explains.  */
wm_fault_t wm_scorer_answer (wm_scorer_t *self, unsigned slot, uint8_t *status, float *scores,
                             double *seconds, bool *again, wm_error_t *error);

uint64_t wm_scorer_progress (const wm_scorer_t *self);     /* hits finished by all processes */
uint64_t wm_scorer_calls (const wm_scorer_t *self);        /* of the device, or its launches */
const char *wm_scorer_signature (const wm_scorer_t *self); /* "" before it is READY */
const char *wm_scorer_by (const wm_scorer_t *self);        /* name of the engine; likewise */
const char *wm_scorer_class (const wm_scorer_t *self);     /* of machines; likewise */
const char *wm_scorer_strict (const wm_scorer_t *self);    /* what checks it; likewise */

/* Returns the largest error that the process measured on *n_hit hits of a sample; *refused: the
   kernels that were not precise enough (lent; ""). *n_hit 0: it measured nothing.  */
double wm_scorer_measured (const wm_scorer_t *self, uint32_t *n_hit, const char **refused);

/* Returns the CPU seconds that all processes used.  */
double wm_scorer_cpu_s (const wm_scorer_t *self);

/* Seconds that the checks by strict fp32 took.  */
double wm_scorer_watch_s (const wm_scorer_t *self);

/* Returns the share of their time in which the engine's threads had nothing to do although it had a
   batch; below 0: not known.  */
double wm_scorer_idle (const wm_scorer_t *self);

/* One line on what strict fp32 checked; "" if nothing was.  */
void wm_scorer_watched (const wm_scorer_t *self, char text[200]);

#endif
