/* wm_queue.c - adds to and removes from a list whose links lie in its items.  */
#include "broker/core/wm_queue.h"

void wm_queue_insert (wm_queue_t *self, wm_queue_item_t *before, wm_queue_item_t *item)
{
    item->prev = before;
    item->next = before ? before->next : self->head;
    *(before ? &before->next : &self->head) = item;
    *(item->next ? &item->next->prev : &self->tail) = item;
    self->count++;
}

void wm_queue_push (wm_queue_t *self, wm_queue_item_t *item)
{
    wm_queue_insert (self, self->tail, item);
}

void wm_queue_push_front (wm_queue_t *self, wm_queue_item_t *item)
{
    wm_queue_insert (self, NULL, item);
}

void wm_queue_remove (wm_queue_t *self, wm_queue_item_t *item)
{
    *(item->prev ? &item->prev->next : &self->head) = item->next;
    *(item->next ? &item->next->prev : &self->tail) = item->prev;
    item->prev = item->next = NULL;
    self->count--;
}
