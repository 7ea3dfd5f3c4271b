/* wm_budget.c - a sum, and a list of those who wait.  */
#include "producer/gateway/wm_budget.h"

#include <czmq.h>

struct wm_budget_t {
    wm_loop_t *loop;
    size_t bytes, bytes_max, share_max;
    wm_hold_t *over;         /* the one that exceeds the budget */
    wm_hold_t *first, *last; /* who wait */
    bool is_called;          /* `grant` will be called */
};

wm_budget_t *wm_budget_new (wm_loop_t *loop, size_t bytes_max, size_t share_max)
{
    wm_budget_t *self = zmalloc (sizeof *self);
    *self = (wm_budget_t){ .loop = loop, .bytes_max = bytes_max, .share_max = share_max };
    return self;
}

void wm_budget_destroy (wm_budget_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

static void set (wm_budget_t *self, wm_hold_t *hold, size_t bytes)
{
    self->bytes += bytes - hold->bytes;
    hold->share->bytes += bytes - hold->bytes;
    hold->bytes = bytes;
    if (self->over == hold && !bytes)
        self->over = NULL;
}

/* Whether it may have what it wants. A client alone with a large message gets it, whatever the
   share.  */
static bool fits (const wm_budget_t *self, const wm_hold_t *hold)
{
    const size_t more = hold->wanted - hold->bytes;
    const bool in_share =
        hold->bytes || !hold->share->bytes || hold->share->bytes + more <= self->share_max;
    if (self->bytes + more <= self->bytes_max || !self->bytes)
        return in_share;
    return hold->bytes && !self->over;
}

static void grant_it (wm_budget_t *self, wm_hold_t *hold)
{
    const size_t more = hold->wanted - hold->bytes;
    if (hold->bytes && self->bytes + more > self->bytes_max)
        self->over = hold;
    set (self, hold, hold->wanted);
}

static void unlink_it (wm_budget_t *self, wm_hold_t *hold)
{
    *(hold->before ? &hold->before->next : &self->first) = hold->next;
    *(hold->next ? &hold->next->before : &self->last) = hold->before;
    hold->next = hold->before = NULL;
    hold->wanted = hold->bytes;
}

/* Goes along those who wait. One that only its own share holds back lets others pass; behind one
   that is too large for what is left only those come that hold something already.  */
static void grant (void *argument)
{
    wm_budget_t *self = argument;
    self->is_called = false;
    bool is_full = false;
    for (wm_hold_t *hold = self->first, *next; hold; hold = next) {
        next = hold->next;
        if ((is_full && !hold->bytes) || !fits (self, hold)) {
            is_full |= self->bytes + hold->wanted - hold->bytes > self->bytes_max;
            continue;
        }
        grant_it (self, hold);
        unlink_it (self, hold);
        hold->wanted = hold->bytes;
        hold->granted (hold->argument);
        next = self->first; /* the call may have changed the list */
        is_full = false;
    }
}

static void call_grant (wm_budget_t *self)
{
    if (self->first && !self->is_called) {
        self->is_called = true;
        wm_loop_later (self->loop, grant, self);
    }
}

bool wm_hold_take (wm_budget_t *self, wm_hold_t *hold, wm_share_t *share, size_t bytes,
                   wm_due_t *granted, void *argument)
{
    hold->share = share;
    hold->wanted = bytes;
    if ((!self->first || hold->bytes) && fits (self, hold)) {
        grant_it (self, hold);
        return true;
    }
    hold->granted = granted;
    hold->argument = argument;
    hold->before = self->last;
    *(self->last ? &self->last->next : &self->first) = hold;
    self->last = hold;
    call_grant (self);
    return false;
}

void wm_hold_set (wm_budget_t *self, wm_hold_t *hold, wm_share_t *share, size_t bytes)
{
    const bool is_less = bytes < hold->bytes;
    hold->share = share;
    set (self, hold, bytes);
    hold->wanted = bytes;
    if (is_less)
        call_grant (self);
}

void wm_hold_give (wm_budget_t *self, wm_hold_t *hold)
{
    if (hold->wanted > hold->bytes)
        unlink_it (self, hold);
    if (hold->share)
        wm_hold_set (self, hold, hold->share, 0);
    call_grant (self);
}

size_t wm_budget_bytes (const wm_budget_t *self)
{
    return self->bytes;
}

size_t wm_budget_max (const wm_budget_t *self)
{
    return self->bytes_max;
}
