/* wm_pending_peers.c - see wm_pending_peers.h. Each operation looks at all of them at most once,
   which takes less than the handshake that one connection costs.  */
#include "broker/listen/wm_pending_peers.h"
#include "schema/base/wm_table.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

uint32_t wm_pending_peers_address (const wm_pending_peers_t *self, const struct sockaddr *address)
{
    uint64_t bits = 0;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    if (address && address->sa_family == AF_INET) {
        memcpy (&v4, address, sizeof v4);
        bits = 1ull << 32 | v4.sin_addr.s_addr;
    } else if (address && address->sa_family == AF_INET6) {
        memcpy (&v6, address, sizeof v6);
        memcpy (&bits, &v6.sin6_addr, 8);
        if (IN6_IS_ADDR_V4MAPPED (&v6.sin6_addr)) {
            uint32_t low;
            memcpy (&low, v6.sin6_addr.s6_addr + 12, 4);
            bits = 1ull << 32 | low;
        }
    }
    return (uint32_t) (wm_table_mix (bits ^ self->salt) % WM_PENDING_PEERS_ADDRESSES);
}

static void *take (wm_pending_peers_t *self, uint32_t i)
{
    void *peer = self->one[i].peer;
    self->of_address[self->one[i].address]--;
    memmove (self->one + i, self->one + i + 1, (--self->n - i) * sizeof *self->one);
    return peer;
}

void *wm_pending_peers_add (wm_pending_peers_t *self, uint32_t address, void *peer)
{
    uint32_t most = address, i = 0;
    self->one[self->n].peer = peer;
    self->one[self->n++].address = address;
    self->of_address[address]++;
    if (self->n <= WM_PENDING_PEERS_MAX)
        return NULL;
    for (uint32_t a = 0; a < WM_PENDING_PEERS_ADDRESSES; a++)
        if (self->of_address[a] > self->of_address[most])
            most = a;
    while (self->one[i].address != most)
        i++;
    return take (self, i);
}

void wm_pending_peers_remove (wm_pending_peers_t *self, const void *peer)
{
    for (uint32_t i = 0; i < self->n; i++)
        if (self->one[i].peer == peer) {
            take (self, i);
            return;
        }
}
