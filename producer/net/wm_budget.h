/* wm_budget.h - the memory that requests may hold together, and who waits for some.

   Whoever is about to receive a message takes its bytes first; what does not fit waits, and the
   transport gives its client no window until then. First come, first served, but a connection and
   an address have shares. That of an address is in proportion to what is free (dynamic thresholds,
   Choudhury and Hahne 1998): alone it may hold address_percent of the budget, several get less each
   and leave some, so that slow readers at some addresses never hold up a client at another one.
   A request that already has bytes may take more (its message inflates): such a one comes first,
   and one at a time may exceed the budget, and one of each address its share, so that all go on.
   What connections take is set aside from the budget; nothing waits for it, and half of the budget
   is always the requests'.
   Thread: the loop's.  */
#ifndef WM_BUDGET_H
#define WM_BUDGET_H

#include "producer/net/wm_loop.h"
#include "producer/net/wm_origin.h"

#include <stddef.h>

typedef struct wm_budget_t wm_budget_t;

/* What one connection holds. Zeroed at first, but for its address (NULL: none).  */
typedef struct {
    size_t bytes;
    wm_origin_t *address;
} wm_share_t;

/* What one request holds. Zeroed at first; its place must not move while it holds or waits.  */
typedef struct wm_hold_t {
    wm_share_t *share;
    size_t bytes, wanted; /* wanted > bytes: it waits */
    wm_due_t *granted;
    void *argument;
    wm_line_t *line; /* in which it waits; NULL: it does not */
    uint64_t number; /* of those who came to wait */
    struct wm_hold_t *next, *before;
} wm_hold_t;

/* share_max: bytes of one connection. address_percent: 1 to 100, 100: no limit.  */
wm_budget_t *wm_budget_new (wm_loop_t *loop, size_t bytes_max, size_t share_max,
                            unsigned address_percent);
void wm_budget_destroy (wm_budget_t **self_p);

/* Takes so many bytes in all. Returns true if it has them now; else `granted` is called once it
   has, unless wm_hold_give comes before.  */
bool wm_hold_take (wm_budget_t *self, wm_hold_t *hold, wm_share_t *share, size_t bytes,
                   wm_due_t *granted, void *argument);
/* Sets what it holds, at once: less, or what is already there. It waits no more.  */
void wm_hold_set (wm_budget_t *self, wm_hold_t *hold, wm_share_t *share, size_t bytes);
/* Gives all back, and waits no more.  */
void wm_hold_give (wm_budget_t *self, wm_hold_t *hold);

/* Sets so much more aside; modulo SIZE_MAX + 1.  */
void wm_budget_set_aside (wm_budget_t *self, size_t more);
/* Whether connections may take so much more.  */
bool wm_budget_may_set_aside (const wm_budget_t *self, size_t more);
size_t wm_budget_aside (const wm_budget_t *self);

/* Whether one address may have so much of anything, where so much of it is free.  */
bool wm_budget_shares (const wm_budget_t *self, uint64_t of_address, uint64_t free);

/* Whether requests hold no more than they may.  */
bool wm_budget_has_room (const wm_budget_t *self);

/* What requests hold, and what they and connections may.  */
size_t wm_budget_bytes (const wm_budget_t *self);
size_t wm_budget_max (const wm_budget_t *self);

#endif
