/* wm_repeats.c - see wm_repeats.h: a table of 64-bit hashes with open addressing, at most half
   full. Two of 10^7 events share a hash by accident once in 370,000 campaigns.  */
#include "producer/session/wm_repeats.h"

#include <assert.h>
#include <stdlib.h>
#include <xxhash.h>

#define SLOTS_MIN 1024u

typedef struct {
    uint64_t hash; /* 0: free */
    wm_repeats_at_t at;
} slot_t;

struct wm_repeats_t {
    slot_t *slot;
    uint64_t n_slot, n; /* slots are a power of two */
};

wm_repeats_t *wm_repeats_new (void)
{
    wm_repeats_t *self = calloc (1, sizeof *self);
    assert (self);
    self->n_slot = SLOTS_MIN;
    self->slot = calloc (self->n_slot, sizeof *self->slot);
    assert (self->slot);
    return self;
}

void wm_repeats_destroy (wm_repeats_t **self_p)
{
    if (*self_p) {
        free ((*self_p)->slot);
        free (*self_p);
        *self_p = NULL;
    }
}

/* The slot of this hash, or the free one where it belongs.  */
static slot_t *find (const wm_repeats_t *self, uint64_t hash)
{
    uint64_t i = hash & (self->n_slot - 1);
    while (self->slot[i].hash && self->slot[i].hash != hash)
        i = (i + 1) & (self->n_slot - 1);
    return &self->slot[i];
}

static void grow (wm_repeats_t *self)
{
    wm_repeats_t larger = { .n_slot = 2 * self->n_slot, .n = self->n };
    larger.slot = calloc (larger.n_slot, sizeof *larger.slot);
    assert (larger.slot);
    for (uint64_t i = 0; i < self->n_slot; i++)
        if (self->slot[i].hash)
            *find (&larger, self->slot[i].hash) = self->slot[i];
    free (self->slot);
    *self = larger;
}

bool wm_repeats_add (wm_repeats_t *self, int64_t run, int64_t subrun, int64_t event,
                     wm_repeats_at_t at, wm_repeats_at_t *first)
{
    const int64_t name[3] = { run, subrun, event };
    const uint64_t hash = XXH3_64bits (name, sizeof name) | 1; /* never the free slot's 0 */
    slot_t *slot = find (self, hash);
    if (slot->hash) {
        *first = slot->at;
        return slot->at.input != at.input || slot->at.ordinal != at.ordinal;
    }
    *slot = (slot_t){ hash, at };
    if (2 * ++self->n > self->n_slot)
        grow (self);
    return false;
}
