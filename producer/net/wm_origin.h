/* wm_origin.h - the addresses that clients come from: how many connections each has, and what
   their requests hold together (wm_budget.h).

   An address is an IPv4 address, or an IPv6 network of 64 bits, which one host or site has. It is
   known as long as it has a connection. Thread: the loop's.  */
#ifndef WM_ORIGIN_H
#define WM_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wm_hold_t;

/* For wm_budget.c: who wait for memory, in the order in which they came.  */
typedef struct wm_line_t {
    struct wm_hold_t *first, *last;
    struct wm_line_t *next, *before; /* others in which one waits */
    uint64_t full_at; /* the last pass in which one did not fit its address's share */
} wm_line_t;

typedef struct wm_origin_t {
    uint8_t key[16]; /* the IPv6 address, or an IPv4 address mapped into one */
    size_t n_connection;
    bool is_logged; /* that connections are refused */
    /* for wm_budget.c: what its requests hold, the one that exceeds the address's share (NULL:
       none), and those who wait and hold nothing */
    size_t bytes;
    const struct wm_hold_t *over;
    wm_line_t line;
    /* for wm_grpc_call.c: bytes of its messages that have no memory, its calls without a message */
    size_t unheld, n_idle;
} wm_origin_t;

typedef struct wm_addresses_t wm_addresses_t;

/* Never NULL. connections_max: of one address.  */
wm_addresses_t *wm_addresses_new (size_t connections_max);
void wm_addresses_destroy (wm_addresses_t **self_p);

/* Returns whether one more connection from "ADDRESS:PORT" is admitted. Refusals are counted; the
   first one of an address, while it has connections, is logged.  */
bool wm_addresses_admit (wm_addresses_t *self, const char *peer);

/* Counts a connection. Returns its address, which lives until the connection leaves.  */
wm_origin_t *wm_addresses_enter (wm_addresses_t *self, const char *peer);
void wm_addresses_leave (wm_addresses_t *self, wm_origin_t **address_p);

uint64_t wm_addresses_n_refused (const wm_addresses_t *self);

#endif
