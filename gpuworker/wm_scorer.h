/* wm_scorer.h - the engine process as its worker sees it: started, fed, watched, started again.

   The worker decodes a batch into a slot (wm_scorer_batch), submits it, or a part of its hits, and
   hears of it from wm_scorer_look when wm_scorer_fd is readable, or at its next tick. The process may
   end at any time; then look says so, names the slot it was scoring, and starts another one. What
   is READY waits for the new one. Where it was scoring several slots together, nobody can say which
   one it died of: they wait, too, and are scored one by one. A process that has not finished a hit for
   engine_ms, or ten times what its known-answer test took, is killed.

   Thread: one, which must live as long as the scorer (the process dies with it).  */
#ifndef WM_SCORER_H
#define WM_SCORER_H

#include "gpuworker/wm_slots.h"

typedef struct {
    const char *engine;
    int threads, pin;
    const wm_pins_t *pins;
    const char *model_path;
    const char
        *trial; /* file of a TRIAL's payload, read while it starts; NULL: fp32, or no campaign */
} wm_scorer_config_t;

typedef enum {
    WM_SCORER_NOTHING,
    WM_SCORER_READY,  /* it has proved itself by the known answers: the first time, or again */
    WM_SCORER_SCORED, /* a slot is done: wm_scorer_answer, then it is free */
    WM_SCORER_ENDED, /* it ended; slot: what it was scoring, WM_SLOTS for nothing; the next look starts another */
    WM_SCORER_SPLIT,    /* the same, but it was scoring several: slot has a bit set for each */
    WM_SCORER_HOPELESS, /* it cannot start here, or cannot be killed: nothing more comes of it */
} wm_scorer_event_t;

typedef struct wm_scorer_t wm_scorer_t;

/* Makes the memory and starts the first process. The config is copied. NULL with *error:
 WM_EHOST.  */
wm_scorer_t *wm_scorer_new (const wm_scorer_config_t *config, wm_error_t *error);

/* Ends the process for good: at once if it computes, else as soon as it has put its things away.  */
void wm_scorer_stop (wm_scorer_t *self);
void wm_scorer_destroy (wm_scorer_t **self_p);

int wm_scorer_fd (const wm_scorer_t *self);

/* What happened; to be called until it says NOTHING. *error: of ENDED and HOPELESS, why (fault
   WM_EBATCH of HOPELESS: the model or the specification is refused).  */
wm_scorer_event_t wm_scorer_look (wm_scorer_t *self, unsigned *slot, wm_error_t *error);

/* The batch of a free slot, to decode into; it lies in the shared memory.  */
wm_batch_t *wm_scorer_batch (wm_scorer_t *self, unsigned slot);

/* Slots that are worth filling: more where the engine gains by batches together.  */
unsigned wm_scorer_slots (const wm_scorer_t *self);

/* Hits that fill its device together; 0: batches are scored one by one.  */
uint32_t wm_scorer_fill (const wm_scorer_t *self);

/* Gives `count` hits from `first` of the slot's batch to the process; alone: not with others.  */
void wm_scorer_submit (wm_scorer_t *self, unsigned slot, uint32_t first, uint32_t count, int alone);

/* Before it is submitted: a hash of the batch's key, which draws what strict fp32 looks at.  */
void wm_scorer_draw (wm_scorer_t *self, unsigned slot, uint64_t draw);

/* 1: the process has not begun it, and never will.  */
int wm_scorer_take_back (wm_scorer_t *self, unsigned slot);

/* Whether a process that has proved itself is there now.  */
int wm_scorer_is_ready (const wm_scorer_t *self);

/* Of a slot that is SCORED: WM_OK, or WM_EBATCH with the words in *error. Status and scores of the
   hits that were submitted are copied to their places in `status` and `scores`, those of the whole
   batch. *again: strict fp32 scored it, and *error says why.  */
wm_fault_t wm_scorer_answer (wm_scorer_t *self, unsigned slot, uint8_t *status, float *scores,
                             double *seconds, int *again, wm_error_t *error);

uint64_t wm_scorer_progress (const wm_scorer_t *self); /* hits finished by all its processes */
uint64_t wm_scorer_calls (const wm_scorer_t *self);    /* of the device, batches together in one */
const char *wm_scorer_signature (const wm_scorer_t *self); /* "" before it is READY */
const char *wm_scorer_class (const wm_scorer_t *self);     /* of machines; likewise */
const char *wm_scorer_strict (const wm_scorer_t *self);    /* of what scores again; likewise */

/* The largest error that it measured on *n_hit hits of a sample, and the kernels that were not
   precise enough (lent; ""). *n_hit 0: it measured nothing.  */
double wm_scorer_measured (const wm_scorer_t *self, uint32_t *n_hit, const char **refused);

/* Seconds that strict fp32 took to look.  */
double wm_scorer_watch_s (const wm_scorer_t *self);

/* One line on what strict fp32 looked at; "" where nothing is watched.  */
void wm_scorer_watched (const wm_scorer_t *self, char text[200]);

#endif
