/* wm_throttle.h - how often an address may try passwords.

   WM_THROTTLE_TRIES wrong ones at once, then one in each WM_THROTTLE_MS. Whoever tries more is
   answered without a look at the password, and holds up only clients of the same address (of IPv6:
   the network of 64 bits). The table is bounded: where more addresses guess at the same time, the
   one whose wrong passwords are forgotten next gives its place. Thread: one.  */
#ifndef WM_THROTTLE_H
#define WM_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define WM_THROTTLE_TRIES 10
#define WM_THROTTLE_MS 1000
#define WM_THROTTLE_ADDRESSES_MAX 512

/* All zero is empty.  */
typedef struct {
    struct {
        uint8_t address[16];
        int64_t until_ms; /* its wrong passwords are forgotten; 0: free */
    } guesser[WM_THROTTLE_ADDRESSES_MAX];
} wm_throttle_t;

/* Returns whether this address may try a password now.  */
bool wm_throttle_allows (const wm_throttle_t *self, const struct sockaddr *address, int64_t now_ms);

/* Notes a wrong password.  */
void wm_throttle_wrong (wm_throttle_t *self, const struct sockaddr *address, int64_t now_ms);

#endif
