/* wm_table.c - a table from 64-bit hash to pointer: linear probing, half full at most.  */
#include "schema/base/wm_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint64_t wm_table_text (const char *text)
{
    return XXH3_64bits (text, strlen (text));
}

static void put (wm_table_slot_t *slots, size_t mask, uint64_t hash, void *item)
{
    size_t at = hash & mask;
    while (slots[at].item)
        at = (at + 1) & mask;
    slots[at] = (wm_table_slot_t){ hash, item };
}

int wm_table_reserve (wm_table_t *self)
{
    if (self->slot && (self->count + 1) * 2 <= self->mask + 1)
        return 0;
    size_t size = self->slot ? (self->mask + 1) * 2 : 64;
    wm_table_slot_t *slots = calloc (size, sizeof *slots);
    if (!slots)
        return -1;
    for (size_t i = 0; self->slot && i <= self->mask; i++)
        if (self->slot[i].item)
            put (slots, size - 1, self->slot[i].hash, self->slot[i].item);
    free (self->slot);
    self->slot = slots;
    self->mask = size - 1;
    return 0;
}

void wm_table_put (wm_table_t *self, uint64_t hash, void *item)
{
    assert (self->slot && self->count <= self->mask);
    put (self->slot, self->mask, hash, item);
    self->count++;
}

static void *walk (const wm_table_t *self, uint64_t hash, size_t *at)
{
    for (; self->slot[*at].item; *at = (*at + 1) & self->mask)
        if (self->slot[*at].hash == hash)
            return self->slot[*at].item;
    return NULL;
}

void *wm_table_first (const wm_table_t *self, uint64_t hash, size_t *at)
{
    if (!self->slot)
        return NULL;
    *at = hash & self->mask;
    return walk (self, hash, at);
}

void *wm_table_next (const wm_table_t *self, uint64_t hash, size_t *at)
{
    *at = (*at + 1) & self->mask;
    return walk (self, hash, at);
}

/* Moves later items of the run back over the hole, so that no tombstones are needed.  */
void wm_table_remove (wm_table_t *self, uint64_t hash, const void *item)
{
    size_t hole;
    void *found = wm_table_first (self, hash, &hole);
    while (found && found != item)
        found = wm_table_next (self, hash, &hole);
    if (!found)
        return;
    size_t at = hole;
    for (;;) {
        at = (at + 1) & self->mask;
        if (!self->slot[at].item)
            break;
        size_t home = self->slot[at].hash & self->mask;
        if (((at - home) & self->mask) >= ((at - hole) & self->mask)) {
            self->slot[hole] = self->slot[at];
            hole = at;
        }
    }
    self->slot[hole].item = NULL;
    self->count--;
}
