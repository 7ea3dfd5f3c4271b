/* wm_throttle.c - see wm_throttle.h. Each wrong password moves `until_ms` on by WM_THROTTLE_MS.  */
#include "ops/serve/wm_throttle.h"

#include <netinet/in.h>
#include <stddef.h>
#include <string.h>

static void bytes_of (const struct sockaddr *address, uint8_t bytes[16])
{
    memset (bytes, 0, 16);
    bytes[15] = (uint8_t) address->sa_family;
    if (address->sa_family == AF_INET6)
        memcpy (bytes, &((const struct sockaddr_in6 *) (const void *) address)->sin6_addr, 8);
    else if (address->sa_family == AF_INET)
        memcpy (bytes, &((const struct sockaddr_in *) (const void *) address)->sin_addr, 4);
}

bool wm_throttle_allows (const wm_throttle_t *self, const struct sockaddr *address, int64_t now_ms)
{
    uint8_t bytes[16];
    bytes_of (address, bytes);
    for (size_t i = 0; i < WM_THROTTLE_ADDRESSES_MAX; i++)
        if (!memcmp (self->guesser[i].address, bytes, sizeof bytes))
            return self->guesser[i].until_ms - now_ms <= (WM_THROTTLE_TRIES - 1) * WM_THROTTLE_MS;
    return true;
}

void wm_throttle_wrong (wm_throttle_t *self, const struct sockaddr *address, int64_t now_ms)
{
    uint8_t bytes[16];
    size_t at = 0;
    bytes_of (address, bytes);
    for (size_t i = 0; i < WM_THROTTLE_ADDRESSES_MAX; i++) {
        if (!memcmp (self->guesser[i].address, bytes, sizeof bytes)) {
            at = i;
            break;
        }
        if (self->guesser[i].until_ms < self->guesser[at].until_ms)
            at = i;
    }
    if (memcmp (self->guesser[at].address, bytes, sizeof bytes) != 0 ||
        self->guesser[at].until_ms < now_ms)
        self->guesser[at].until_ms = now_ms;
    memcpy (self->guesser[at].address, bytes, sizeof bytes);
    self->guesser[at].until_ms += WM_THROTTLE_MS;
}
