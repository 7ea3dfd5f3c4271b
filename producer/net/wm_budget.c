/* wm_budget.c - a sum, and those who wait: a line for each address, so that no client waits for
   a walk along a flood of another address.  */
#include "producer/net/wm_budget.h"

#include <czmq.h>

struct wm_budget_t {
    wm_loop_t *loop;
    size_t bytes, bytes_max, share_max, aside;
    unsigned address_percent;
    wm_hold_t *over;   /* the one that exceeds the budget */
    wm_line_t begun;   /* who wait and hold something */
    wm_line_t of_none; /* ... hold nothing, and have no address */
    wm_line_t *lines;  /* ... hold nothing: of each address, where one waits */
    size_t n_waiting;  /* in all of these */
    uint64_t last_number;
    bool is_called; /* `grant` will be called */
    uint64_t pass;  /* counts its calls, from 1 */
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
    wm_origin_t *address = hold->share->address;
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

/* What requests may hold.  */
static size_t most (const wm_budget_t *self)
{
    const size_t half = self->bytes_max / 2;
    return self->bytes_max - (self->aside < half ? self->aside : half);
}

/* Whether its address may hold so much more.  */
static bool address_fits (const wm_budget_t *self, const wm_hold_t *hold)
{
    const wm_origin_t *address = hold->share->address;
    const uint64_t more = hold->wanted - hold->bytes, bytes = self->bytes + more;
    const uint64_t free = bytes < most (self) ? most (self) - bytes : 0;
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
    const wm_origin_t *address = hold->share->address;
    return address_fits (self, hold) ||
           (hold->bytes ? is_over (address->over, hold) : !address->bytes);
}

/* Whether the budget does.  */
static bool in_budget (const wm_budget_t *self, const wm_hold_t *hold)
{
    const size_t more = hold->wanted - hold->bytes;
    return self->bytes + more <= most (self) || !self->bytes ||
           (hold->bytes && is_over (self->over, hold));
}

static void grant_it (wm_budget_t *self, wm_hold_t *hold)
{
    const size_t more = hold->wanted - hold->bytes;
    if (hold->bytes && self->bytes + more > most (self))
        self->over = hold;
    if (hold->bytes && !address_fits (self, hold))
        hold->share->address->over = hold;
    set (self, hold, hold->wanted);
}

/* ---- who wait -------------------------------------------------------------------------------- */

/* Those who hold something already wait by themselves, others with those of their address.  */
static void link_it (wm_budget_t *self, wm_hold_t *hold)
{
    wm_origin_t *address = hold->share->address;
    wm_line_t *line = hold->bytes ? &self->begun : address ? &address->line : &self->of_none;
    hold->line = line;
    hold->number = ++self->last_number;
    hold->next = NULL;
    hold->before = line->last;
    *(line->last ? &line->last->next : &line->first) = hold;
    line->last = hold;
    self->n_waiting++;
    if (hold->before || line == &self->begun)
        return;
    line->before = NULL;
    line->next = self->lines;
    if (line->next)
        line->next->before = line;
    self->lines = line;
}

static void unlink_it (wm_budget_t *self, wm_hold_t *hold)
{
    wm_line_t *line = hold->line;
    *(hold->before ? &hold->before->next : &line->first) = hold->next;
    *(hold->next ? &hold->next->before : &line->last) = hold->before;
    hold->next = hold->before = NULL;
    hold->line = NULL;
    hold->wanted = hold->bytes;
    self->n_waiting--;
    if (line->first || line == &self->begun)
        return;
    *(line->before ? &line->before->next : &self->lines) = line->next;
    if (line->next)
        line->next->before = line->before;
}

/* Whether one may have what it wants. One that its address's share holds back holds back its
   address in this pass; one that is too large for what is left sets *is_full.  */
static bool may_have (const wm_budget_t *self, const wm_hold_t *hold, bool *is_full)
{
    const bool fits = in_address (self, hold);
    if (!fits)
        hold->share->address->line.full_at = self->pass;
    else if (in_budget (self, hold))
        return true;
    *is_full |= fits;
    return false;
}

/* The one that came first of those who hold nothing, and are held back neither by their address nor
   by their connection's share. Connections that are held back let others of their address pass: few
   are at once, because each holds a good part of the address's share.  */
static wm_hold_t *first_new (const wm_budget_t *self)
{
    wm_hold_t *first = NULL;
    for (const wm_line_t *line = self->lines; line; line = line->next) {
        wm_hold_t *hold = line->full_at == self->pass ? NULL : line->first;
        while (hold && !in_share (self, hold))
            hold = hold->next;
        if (hold && (!first || hold->number < first->number))
            first = hold;
    }
    return first;
}

/* The request that gets its memory now; NULL: none does. Those that hold something already come
   first, and where one of them is too large for what is left, only they.  */
static wm_hold_t *next_granted (const wm_budget_t *self)
{
    bool is_full = false;
    for (wm_hold_t *hold = self->begun.first; hold; hold = hold->next)
        if (may_have (self, hold, &is_full))
            return hold;
    for (wm_hold_t *hold; !is_full && (hold = first_new (self));)
        if (may_have (self, hold, &is_full))
            return hold;
    return NULL;
}

static void grant (void *argument)
{
    wm_budget_t *self = argument;
    self->is_called = false;
    self->pass++;
    for (wm_hold_t *hold; (hold = next_granted (self));) {
        grant_it (self, hold);
        unlink_it (self, hold);
        hold->granted (hold->argument);
    }
}

static void call_grant (wm_budget_t *self)
{
    if (self->n_waiting && !self->is_called) {
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
    if ((!self->n_waiting || hold->bytes) && in_share (self, hold) && in_address (self, hold) &&
        in_budget (self, hold)) {
        grant_it (self, hold);
        return true;
    }
    hold->granted = granted;
    hold->argument = argument;
    link_it (self, hold);
    call_grant (self);
    return false;
}

void wm_hold_set (wm_budget_t *self, wm_hold_t *hold, wm_share_t *share, size_t bytes)
{
    const bool is_less = bytes < hold->bytes;
    if (hold->line)
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

void wm_budget_set_aside (wm_budget_t *self, size_t more)
{
    self->aside += more;
    call_grant (self);
}

bool wm_budget_may_set_aside (const wm_budget_t *self, size_t more)
{
    return self->aside + more <= self->bytes_max / 2;
}

size_t wm_budget_aside (const wm_budget_t *self)
{
    return self->aside;
}

bool wm_budget_has_room (const wm_budget_t *self)
{
    return self->bytes <= most (self);
}

size_t wm_budget_bytes (const wm_budget_t *self)
{
    return self->bytes;
}

size_t wm_budget_max (const wm_budget_t *self)
{
    return self->bytes_max;
}
