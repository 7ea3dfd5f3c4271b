/* wm_input_set.c - see wm_input_set.h.  */
#include "broker/core/wm_input_set.h"

#include <stdlib.h>
#include <string.h>

#define GROW_BYTES 64

void wm_input_set_add (wm_input_set_t *self, uint32_t id)
{
    const size_t at = id / 8;
    if (at >= self->bytes) {
        uint8_t *grown = realloc (self->bits, at + GROW_BYTES);
        if (!grown)
            return;
        memset (grown + self->bytes, 0, at + GROW_BYTES - self->bytes);
        self->bits = grown;
        self->bytes = at + GROW_BYTES;
    }
    self->bits[at] |= (uint8_t) (1u << id % 8);
}

void wm_input_set_remove (wm_input_set_t *self, uint32_t id)
{
    if (id / 8 < self->bytes)
        self->bits[id / 8] &= (uint8_t) ~(1u << id % 8);
}

bool wm_input_set_has (const wm_input_set_t *self, uint32_t id)
{
    return id / 8 < self->bytes && self->bits[id / 8] & 1u << id % 8;
}

uint32_t wm_input_set_next (const wm_input_set_t *self, uint32_t id)
{
    while (++id < 8 * self->bytes)
        if (wm_input_set_has (self, id))
            return id;
    return 0;
}

void wm_input_set_clear (wm_input_set_t *self)
{
    if (self->bits)
        memset (self->bits, 0, self->bytes);
}

void wm_input_set_free (wm_input_set_t *self)
{
    free (self->bits);
    *self = (wm_input_set_t){ 0 };
}
