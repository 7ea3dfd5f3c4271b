/* wm_poison.h - finds the hits of a batch that an engine dies of.

   An engine died while it scored a batch. The batch is halved, and its halves again, until every
   part has passed or is one hit that kills a second time: that hit is bad, its neighbours are
   scored, with the bits they would have had anyway (no engine's bits depend on the grouping). Halves
   go breadth first: so it shows early whether anything passes at all. Where nothing has passed after
   DEATHS_ALONE_MAX deaths the machine is to blame rather than the batch, and the search is given up;
   so it is after DEATHS_MAX. If all parts pass, the death was an accident of the machine.

   Thread: one at a time; plain values, no I/O, no clock.  */
#ifndef WM_POISON_H
#define WM_POISON_H

#include <stdint.h>

typedef struct wm_poison_t wm_poison_t;

typedef enum {
    WM_POISON_MORE,  /* score the next part: wm_poison_part */
    WM_POISON_NONE,  /* every part passed: nothing is wrong with the batch */
    WM_POISON_FOUND, /* wm_poison_hits; all others are scored */
    WM_POISON_MACHINE,
} wm_poison_verdict_t;

/* After the first death, on all `n_hit` hits. Never NULL (asserts on memory).  */
wm_poison_t *wm_poison_new (uint32_t n_hit);
void wm_poison_destroy (wm_poison_t **self_p);

/* The part that is to be scored now.  */
void wm_poison_part (const wm_poison_t *self, uint32_t *first, uint32_t *count);

/* What came of that part.  */
wm_poison_verdict_t wm_poison_passed (wm_poison_t *self);
wm_poison_verdict_t wm_poison_died (wm_poison_t *self);

/* The bad hits found so far, and the engines they cost.  */
uint32_t wm_poison_hits (const wm_poison_t *self, const uint32_t **hits);
uint32_t wm_poison_deaths (const wm_poison_t *self);

#endif
