/* wm_heap.h - items in the order of their keys: adding and removing takes the logarithm of their
   number.

   An item is its owner's, who embeds it. Thread: one.  */
#ifndef WM_HEAP_H
#define WM_HEAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t
        key[3]; /* the first of these that differs decides; not changed while it is in a heap */
    size_t at;  /* the heap's */
} wm_heap_item_t;

/* Zeroed at first; `item` is freed by the owner.  */
typedef struct {
    wm_heap_item_t **item; /* the one with the smallest keys first */
    size_t n, max;
} wm_heap_t;

/* Ends the process where there is no memory.  */
void wm_heap_add (wm_heap_t *self, wm_heap_item_t *item);
void wm_heap_remove (wm_heap_t *self, wm_heap_item_t *item);

/* The item with the smallest keys; NULL: the heap is empty.  */
static inline wm_heap_item_t *wm_heap_first (const wm_heap_t *self)
{
    return self->n ? self->item[0] : NULL;
}

#endif
