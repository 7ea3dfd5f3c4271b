/* wm_queue.c - adds to and removes from a list whose links lie in its items.  */
#include "broker/wm_queue.h"

void wm_queue_push (wm_queue_t *self, wm_queue_item_t *item)
{
    item->next = NULL;
    item->prev = self->tail;
    *(self->tail ? &self->tail->next : &self->head) = item;
    self->tail = item;
    self->count++;
}

void wm_queue_push_front (wm_queue_t *self, wm_queue_item_t *item)
{
    item->prev = NULL;
    item->next = self->head;
    *(self->head ? &self->head->prev : &self->tail) = item;
    self->head = item;
    self->count++;
}

void wm_queue_remove (wm_queue_t *self, wm_queue_item_t *item)
{
    *(item->prev ? &item->prev->next : &self->head) = item->next;
    *(item->next ? &item->next->prev : &self->tail) = item->prev;
    item->prev = item->next = NULL;
    self->count--;
}
