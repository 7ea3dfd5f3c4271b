/* wm_heap.c - a binary heap: the items below a place, 2 at + 1 and 2 at + 2, do not come before
   it.  */
#include "producer/net/wm_heap.h"

#include "schema/base/wm_grow.h"

#include <stdbool.h>

static bool is_before (const wm_heap_item_t *item, const wm_heap_item_t *other)
{
    for (int k = 0; k < 2; k++)
        if (item->key[k] != other->key[k])
            return item->key[k] < other->key[k];
    return item->key[2] < other->key[2];
}

static void place (wm_heap_t *self, size_t at, wm_heap_item_t *item)
{
    self->item[at] = item;
    item->at = at;
}

/* Moves the item of a place to where it belongs.  */
static void sift (wm_heap_t *self, size_t at)
{
    wm_heap_item_t *item = self->item[at];
    for (; at && is_before (item, self->item[(at - 1) / 2]); at = (at - 1) / 2)
        place (self, at, self->item[(at - 1) / 2]);
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < self->n && is_before (self->item[child + 1], self->item[child]))
            child++;
        if (child >= self->n || !is_before (self->item[child], item))
            break;
        place (self, at, self->item[child]);
        at = child;
    }
    place (self, at, item);
}

void wm_heap_add (wm_heap_t *self, wm_heap_item_t *item)
{
    wm_must_grow (&self->item, &self->max, self->n + 1, sizeof *self->item);
    place (self, self->n++, item);
    sift (self, item->at);
}

void wm_heap_remove (wm_heap_t *self, wm_heap_item_t *item)
{
    wm_heap_item_t *last = self->item[--self->n];
    if (last == item)
        return;
    place (self, item->at, last);
    sift (self, last->at);
}
