/* wm_budget.c - a sum, and a list of those who wait.  */
#include "producer/gateway/wm_budget.h"

#include <czmq.h>

struct wm_budget_t {
    wm_loop_t *loop;
    size_t bytes, bytes_max, share_max;
    unsigned address_percent;
    wm_hold_t *over;         /* the one that exceeds the budget */
    wm_hold_t *first, *last; /* who wait */
    bool is_called;          /* `grant` will be called */
    uint64_t pass;           /* counts its calls */
};

wm_budget_t *wm_budget_new (wm_loop_t *loop, size_t bytes_max, size_t share_max,
                            unsigned address_percent)
{
    wm_budget_t *self = zmalloc (sizeof *self);
    *self = (wm_budget_t){ .loop = loop,
                           .bytes_max = bytes_max,
                           .share_max = share_max,
                           .address_percent = address_percent };
    return self;
}

void wm_budget_destroy (wm_budget_t **self_p)
{
    free (*self_p);
    *self_p = NULL;
}

static void set (wm_budget_t *self, wm_hold_t *hold, size_t bytes)
{
    wm_address_t *address = hold->share->address;
    self->bytes += bytes - hold->bytes;
    hold->share->bytes += bytes - hold->bytes;
    if (address)
        address->bytes += bytes - hold->bytes;
    hold->bytes = bytes;
    if (self->over == hold && !bytes)
        self->over = NULL;
    if (address && address->over == hold && !bytes)
        address->over = NULL;
}

/* With p percent an address has at most p / (100 - p) of what is free, so that one alone gets p
   percent of all.  */
bool wm_budget_shares (const wm_budget_t *self, uint64_t of_address, uint64_t free)
{
    return (100 - self->address_percent) * of_address <= self->address_percent * free;
}

/* Whether its address may hold so much more.  */
static bool address_fits (const wm_budget_t *self, const wm_hold_t *hold)
{
    const wm_address_t *address = hold->share->address;
    const uint64_t more = hold->wanted - hold->bytes, bytes = self->bytes + more;
    const uint64_t free = bytes < self->bytes_max ? self->bytes_max - bytes : 0;
    return !address || wm_budget_shares (self, address->bytes + more, free);
}

static bool is_over (const wm_hold_t *over, const wm_hold_t *hold)
{
    return !over || over == hold;
}

/* Whether its connection's share allows what it wants. A connection's only request gets it, and so
   does one that has begun, whatever the share.  */
static bool in_share (const wm_budget_t *self, const wm_hold_t *hold)
{
    const wm_share_t *share = hold->share;
    return hold->bytes || !share->bytes || share->bytes + hold->wanted <= self->share_max;
}

/* Whether its address's share does. An address's only request gets it, whatever the share, and so
   does, one at a time, a request that has begun.  */
static bool in_address (const wm_budget_t *self, const wm_hold_t *hold)
{
    const wm_address_t *address = hold->share->address;
    return address_fits (self, hold) ||
           (hold->bytes ? is_over (address->over, hold) : !address->bytes);
}

/* Whether the budget does.  */
static bool in_budget (const wm_budget_t *self, const wm_hold_t *hold)
{
    const size_t more = hold->wanted - hold->bytes;
    return self->bytes + more <= self->bytes_max || !self->bytes ||
           (hold->bytes && is_over (self->over, hold));
}

static void grant_it (wm_budget_t *self, wm_hold_t *hold)
{
    const size_t more = hold->wanted - hold->bytes;
    if (hold->bytes && self->bytes + more > self->bytes_max)
        self->over = hold;
    if (hold->bytes && !address_fits (self, hold))
        hold->share->address->over = hold;
    set (self, hold, hold->wanted);
}

static void unlink_it (wm_budget_t *self, wm_hold_t *hold)
{
    *(hold->before ? &hold->before->next : &self->first) = hold->next;
    *(hold->next ? &hold->next->before : &self->last) = hold->before;
    hold->next = hold->before = NULL;
    hold->wanted = hold->bytes;
}

/* Goes along those who wait. One that its connection's share holds back lets others pass, one that
   its address's does those of other addresses; behind one that is too large for what is left only
   those come that hold something already.  */
static void grant (void *argument)
{
    wm_budget_t *self = argument;
    self->is_called = false;
    bool is_full = false;
    self->pass++;
    for (wm_hold_t *hold = self->first, *next; hold; hold = next) {
        next = hold->next;
        wm_address_t *address = hold->share->address;
        const bool is_behind = is_full || (address && address->full_at == self->pass);
        if ((is_behind && !hold->bytes) || !in_share (self, hold))
            continue;
        if (!in_address (self, hold)) {
            address->full_at = self->pass;
            continue;
        }
        if (!in_budget (self, hold)) {
            is_full = true;
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
    if (bytes <= hold->bytes) { /* who wants no more need not wait, and could not be told apart */
        wm_hold_set (self, hold, share, bytes);
        return true;
    }
    hold->share = share;
    hold->wanted = bytes;
    if ((!self->first || hold->bytes) && in_share (self, hold) && in_address (self, hold) &&
        in_budget (self, hold)) {
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
    if (hold->wanted > hold->bytes)
        unlink_it (self, hold);
    hold->share = share;
    set (self, hold, bytes);
    hold->wanted = bytes;
    if (is_less)
        call_grant (self);
}

void wm_hold_give (wm_budget_t *self, wm_hold_t *hold)
{
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
