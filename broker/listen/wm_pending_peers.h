/* wm_pending_peers.h - connections that have sent no message yet: bounded, and shared by address.

   libzmq accepts whoever connects and reports nothing of the handshake that follows. What it
   delivers is a first message; with keys only a good key can send one. Until then a connection is a
   stranger's. There are at most WM_PENDING_PEERS_MAX of them; one more, and the address that has
   most loses its oldest. So whoever opens connections without end takes them from his own address:
   peers elsewhere notice nothing, and one behind the same address (a NAT, the same machine) is
   admitted if its first message comes before WM_PENDING_PEERS_MAX more connections from there.

   An address is that of IPv4, or the first 64 bits of IPv6 (one network); all sockets of files are
   one. Peers are lent. Thread: one.  */
#ifndef WM_PENDING_PEERS_H
#define WM_PENDING_PEERS_H

#include <stddef.h>
#include <stdint.h>

#define WM_PENDING_PEERS_MAX 1024u
#define WM_PENDING_PEERS_ADDRESSES                                                                 \
    1024u /* hashed: few share a place, and which cannot be foreseen */

struct sockaddr;

/* Zeroed, with a random `salt`, it is empty.  */
typedef struct {
    uint64_t salt;
    uint32_t n;
    struct {
        void *peer;
        uint32_t address;
    } one[WM_PENDING_PEERS_MAX + 1]; /* (n), oldest first */
    uint32_t of_address[WM_PENDING_PEERS_ADDRESSES];
} wm_pending_peers_t;

/* Returns the slot that counts an address; of NULL (unknown), the slot that all of these share.  */
uint32_t wm_pending_peers_address (const wm_pending_peers_t *self, const struct sockaddr *address);

/* Adds a connection. Returns the peer that must close for it and is removed from the list; NULL if
   all of them may stay.  */
void *wm_pending_peers_add (wm_pending_peers_t *self, uint32_t address, void *peer);

/* Removes a peer that sent its first message, or whose connection closed; nothing where it is not
   there.  */
void wm_pending_peers_remove (wm_pending_peers_t *self, const void *peer);

#endif
