/* wm_idle_list.c - see wm_idle_list.h.  */
#include "producer/net/wm_idle_list.h"

#include <stddef.h>

void wm_idle_leave (wm_idle_t *item)
{
    wm_idle_list_t *self = item->list;
    if (!self)
        return;
    *(item->before ? &item->before->next : &self->first) = item->next;
    *(item->next ? &item->next->before : &self->last) = item->before;
    item->list = NULL;
}

void wm_idle_enter (wm_idle_list_t *self, wm_idle_t *item, void *owner)
{
    wm_idle_leave (item);
    *item = (wm_idle_t){ .owner = owner, .list = self, .before = self->last };
    *(self->last ? &self->last->next : &self->first) = item;
    self->last = item;
}

void *wm_idle_oldest (wm_idle_list_t *self, wm_idle_spare_t *is_spare)
{
    for (int i = 0; i < WM_IDLE_LOOKS && self->first; i++) {
        if (is_spare (self->first->owner))
            return self->first->owner;
        wm_idle_enter (self, self->first, self->first->owner);
    }
    return NULL;
}
