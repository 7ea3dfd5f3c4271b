/* wm_poison.c - see wm_poison.h.  */
#include "gpuworker/engine/wm_poison.h"

#include <assert.h>
#include <stdlib.h>

enum {
    DEATHS_ALONE_MAX = 7, /* the whole, its halves and its quarters: at least four bad hits */
    DEATHS_MAX = 256,     /* each costs a start: minutes in all. Ten hits of 2,000 cost about 120 */
};

typedef struct {
    uint32_t first, count, deaths;
} part_t;

struct wm_poison_t {
    uint32_t n_death, n_starved, n_pass, n_hit;
    uint32_t head, tail;             /* parts waiting */
    part_t part[2 * DEATHS_MAX + 2]; /* a death adds two at most */
    uint32_t hit[DEATHS_MAX];
};

/* The engine died of the part at the head: its halves, or itself once more, join the queue.  */
static void split (wm_poison_t *self)
{
    part_t part = self->part[self->head++];
    if (part.count > 1) {
        const uint32_t half = part.count / 2;
        self->part[self->tail++] = (part_t){ part.first, half, 0 };
        self->part[self->tail++] = (part_t){ part.first + half, part.count - half, 0 };
    } else if (++part.deaths < 2)
        self->part[self->tail++] = part;
    else
        self->hit[self->n_hit++] = part.first;
}

wm_poison_t *wm_poison_new (uint32_t n_hit)
{
    wm_poison_t *self = calloc (1, sizeof *self);
    assert (self && n_hit);
    self->part[self->tail++] = (part_t){ 0, n_hit, 0 };
    return self;
}

void wm_poison_destroy (wm_poison_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

void wm_poison_part (const wm_poison_t *self, uint32_t *first, uint32_t *count)
{
    assert (self->head < self->tail);
    *first = self->part[self->head].first;
    *count = self->part[self->head].count;
}

static wm_poison_verdict_t verdict (const wm_poison_t *self)
{
    if (self->n_death >= DEATHS_MAX || (!self->n_pass && self->n_death >= DEATHS_ALONE_MAX))
        return self->n_starved ? WM_POISON_STARVED : WM_POISON_MACHINE;
    if (self->head < self->tail)
        return WM_POISON_MORE;
    if (!self->n_pass)
        return self->part[0].count == 1 ? WM_POISON_ONLY : WM_POISON_MACHINE;
    return self->n_hit ? WM_POISON_FOUND : WM_POISON_NONE;
}

wm_poison_verdict_t wm_poison_passed (wm_poison_t *self)
{
    self->head++;
    self->n_pass++;
    return verdict (self);
}

wm_poison_verdict_t wm_poison_died (wm_poison_t *self)
{
    self->n_death++;
    split (self);
    return verdict (self);
}

wm_poison_verdict_t wm_poison_starved (wm_poison_t *self)
{
    self->n_death++;
    self->n_starved++;
    if (self->part[self->head].count == 1)
        return WM_POISON_STARVED;
    split (self);
    return verdict (self);
}

uint32_t wm_poison_hits (const wm_poison_t *self, const uint32_t **hits)
{
    *hits = self->hit;
    return self->n_hit;
}

bool wm_poison_has_starved (const wm_poison_t *self)
{
    return self->n_starved > 0;
}

uint32_t wm_poison_deaths (const wm_poison_t *self)
{
    return self->n_death;
}
