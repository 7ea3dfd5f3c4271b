/* wm_origin.c - see wm_address.h.  */
#include "producer/net/wm_origin.h"
#include "schema/base/wm_table.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct wm_addresses_t {
    size_t connections_max;
    uint64_t n_refused;
    wm_table_t known;
};

wm_addresses_t *wm_addresses_new (size_t connections_max)
{
    wm_addresses_t *self = calloc (1, sizeof *self);
    assert (self);
    self->connections_max = connections_max;
    return self;
}

void wm_addresses_destroy (wm_addresses_t **self_p)
{
    wm_addresses_t *self = *self_p;
    if (!self)
        return;
    for (size_t i = 0; self->known.slot && i <= self->known.mask; i++)
        free (self->known.slot[i].item);
    free (self->known.slot);
    free (self);
    *self_p = NULL;
}

/* "1.2.3.4:80" and "[2001:db8::1]:80". What is neither is one address together.  */
static void key_of (const char *peer, uint8_t key[16])
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    char host[48];
    const char *colon = strrchr (peer, ':');
    const size_t n = colon ? (size_t) (colon - peer) : strlen (peer);
    const size_t bracket = *peer == '[';
    memset (key, 0, 16);
    snprintf (host, sizeof host, "%.*s", (int) (n > 2 * bracket ? n - 2 * bracket : 0),
              peer + bracket);
    host[strcspn (host, "%")] = 0; /* the interface of a link-local address */
    if (inet_pton (AF_INET, host, key + 12) == 1)
        memcpy (key, mapped, sizeof mapped);
    else if (inet_pton (AF_INET6, host, key) == 1 && memcmp (key, mapped, sizeof mapped) != 0)
        memset (key + 8, 0, 8);
}

static uint64_t hash_of (const uint8_t key[16])
{
    uint64_t half[2];
    memcpy (half, key, sizeof half);
    return wm_table_mix (wm_table_mix (half[0]) + half[1]);
}

static wm_origin_t *find (const wm_addresses_t *self, const uint8_t key[16])
{
    size_t at;
    const uint64_t hash = hash_of (key);
    wm_origin_t *one = wm_table_first (&self->known, hash, &at);
    while (one && memcmp (one->key, key, sizeof one->key) != 0)
        one = wm_table_next (&self->known, hash, &at);
    return one;
}

bool wm_addresses_admit (wm_addresses_t *self, const char *peer)
{
    uint8_t key[16];
    key_of (peer, key);
    wm_origin_t *address = find (self, key);
    if (!address || address->n_connection < self->connections_max)
        return true;
    self->n_refused++;
    if (!address->is_logged)
        fprintf (stderr,
                 "wiremill gateway: %s: its address has %zu connections, further ones are closed "
                 "(--address-connections)\n",
                 peer, address->n_connection);
    address->is_logged = true;
    return false;
}

wm_origin_t *wm_addresses_enter (wm_addresses_t *self, const char *peer)
{
    uint8_t key[16];
    key_of (peer, key);
    wm_origin_t *address = find (self, key);
    if (!address) {
        address = calloc (1, sizeof *address);
        assert (address);
        memcpy (address->key, key, sizeof key);
        if (wm_table_reserve (&self->known))
            abort (); /* as zmalloc without memory */
        wm_table_put (&self->known, hash_of (key), address);
    }
    address->n_connection++;
    return address;
}

void wm_addresses_leave (wm_addresses_t *self, wm_origin_t **address_p)
{
    wm_origin_t *address = *address_p;
    *address_p = NULL;
    if (!address || --address->n_connection)
        return;
    assert (!address->bytes && !address->n_idle);
    wm_table_remove (&self->known, hash_of (address->key), address);
    free (address);
}

uint64_t wm_addresses_n_refused (const wm_addresses_t *self)
{
    return self->n_refused;
}
