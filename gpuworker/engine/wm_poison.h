/* wm_poison.h - finds the hits of a batch that an engine dies of.

   The engine process died while it scored a batch. The search is a queue of parts of the batch, at
   first one part with all hits. The lane scores the part at the head in a new engine process:
   - The part passes: its hits are scored. They have the bits that they would have had anyway, since
     no engine's bits depend on the grouping.
   - The engine dies: the two halves of the part join the end of the queue. A part of one hit joins
     it once more; if the engine dies of this hit a second time, the hit is bad.
   The queue makes the search breadth first, so that it shows early whether any part passes at all.
   If none has passed after DEATHS_ALONE_MAX deaths, the machine is to blame rather than the batch,
   and the search ends; it also ends after DEATHS_MAX deaths. If every part passes, the first death
   was a failure of the machine. An engine that ends because memory was short also halves its part,
   because a part may need less, but such an end is no evidence against a hit.

   Thread: one at a time; plain values, no I/O, no clock.  */
#ifndef WM_POISON_H
#define WM_POISON_H

#include <stdbool.h>
#include <stdint.h>

typedef struct wm_poison_t wm_poison_t;

typedef enum {
    WM_POISON_MORE,    /* score the next part: wm_poison_part */
    WM_POISON_NONE,    /* every part passed: nothing is wrong with the batch */
    WM_POISON_FOUND,   /* wm_poison_hits; all others are scored */
    WM_POISON_ONLY,    /* the batch is one hit and it kills: the hit or the machine is to blame */
    WM_POISON_MACHINE, /* the machine is to blame */
    WM_POISON_STARVED, /* the machine is short of memory: the batch is not to blame */
} wm_poison_verdict_t;

/* Begins with all `n_hit` hits, of which the engine died. Report this death, too, with
   wm_poison_died or wm_poison_starved. Never NULL (asserts on memory).  */
wm_poison_t *wm_poison_new (uint32_t n_hit);
void wm_poison_destroy (wm_poison_t **self_p);

/* Returns the part to score now.  */
void wm_poison_part (const wm_poison_t *self, uint32_t *first, uint32_t *count);

/* Reports what happened to that part.  */
wm_poison_verdict_t wm_poison_passed (wm_poison_t *self);
wm_poison_verdict_t wm_poison_died (wm_poison_t *self);
wm_poison_verdict_t wm_poison_starved (wm_poison_t *self);

/* The bad hits found so far (lent), and the deaths of engines so far.  */
uint32_t wm_poison_hits (const wm_poison_t *self, const uint32_t **hits);
uint32_t wm_poison_deaths (const wm_poison_t *self);
bool wm_poison_has_starved (const wm_poison_t *self); /* some because memory was short */

#endif
