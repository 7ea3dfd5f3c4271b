/* wm_queue.h - a doubly linked list whose links lie in its items.

   Owns nothing; a zeroed queue is empty. An item is in one queue at most.
   Thread: one at a time.  */
#ifndef WM_QUEUE_H
#define WM_QUEUE_H

#include <stddef.h>

typedef struct wm_queue_item_t wm_queue_item_t;
struct wm_queue_item_t {
    wm_queue_item_t *prev, *next;
};

typedef struct {
    wm_queue_item_t *head, *tail;
    size_t count;
} wm_queue_t;

void wm_queue_push (wm_queue_t *self, wm_queue_item_t *item);
void wm_queue_push_front (wm_queue_t *self, wm_queue_item_t *item);
/* Puts an item behind `before`, which is in this queue; NULL: in front of all.  */
void wm_queue_insert (wm_queue_t *self, wm_queue_item_t *before, wm_queue_item_t *item);
/* Removes an item that is in this queue.  */
void wm_queue_remove (wm_queue_t *self, wm_queue_item_t *item);

#endif
