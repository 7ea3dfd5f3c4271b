/* wm_poison.h - finds the hits of a batch that an engine dies of.

   An engine died while it scored a batch. The batch is halved, and its halves again, until every
   part has passed or is one hit that kills a second time: that hit is bad, its neighbours are
   scored, with the bits they would have had anyway (no engine's bits depend on the grouping). Halves
   go breadth first: so it shows early whether anything passes at all. Where nothing has passed after
   DEATHS_ALONE_MAX deaths the machine is to blame rather than the batch, and the search is given up;
   so it is after DEATHS_MAX. If all parts pass, the death was an accident of the machine. What ends for
   want of memory is halved as well, since a part may need less, but says nothing of its hits.

   Thread: one at a time; plain values, no I/O, no clock.  */
#ifndef WM_POISON_H
#define WM_POISON_H

#include <stdint.h>

typedef struct wm_poison_t wm_poison_t;

typedef enum {
    WM_POISON_MORE,  /* score the next part: wm_poison_part */
    WM_POISON_NONE,  /* every part passed: nothing is wrong with the batch */
    WM_POISON_FOUND, /* wm_poison_hits; all others are scored */
    WM_POISON_ONLY, /* the batch is one hit, and that kills: the machine may be to blame or the hit */
    WM_POISON_MACHINE,
    WM_POISON_STARVED, /* the machine, for want of memory: the batch is not to blame */
} wm_poison_verdict_t;

/* Begins with all `n_hit` hits; what came of them is to be said. Never NULL (asserts on memory).  */
wm_poison_t *wm_poison_new (uint32_t n_hit);
void wm_poison_destroy (wm_poison_t **self_p);

/* The part that is to be scored now.  */
void wm_poison_part (const wm_poison_t *self, uint32_t *first, uint32_t *count);

/* What came of that part.  */
wm_poison_verdict_t wm_poison_passed (wm_poison_t *self);
wm_poison_verdict_t wm_poison_died (wm_poison_t *self);
wm_poison_verdict_t wm_poison_starved (wm_poison_t *self);

/* The bad hits found so far, and the engines they cost.  */
uint32_t wm_poison_hits (const wm_poison_t *self, const uint32_t **hits);
uint32_t wm_poison_deaths (const wm_poison_t *self);
int wm_poison_has_starved (const wm_poison_t *self); /* some of them for want of memory */

#endif
