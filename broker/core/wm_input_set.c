/* wm_input_set.c - see wm_input_set.h.  */
#include "broker/core/wm_input_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROW_BYTES 64
#define PARSED_MAX (1u << 24) /* ids of a text: what it says is not believed beyond that */

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

void wm_input_set_print (const wm_input_set_t *self, char text[WM_INPUT_SET_TEXT_BYTES])
{
    const uint32_t first = wm_input_set_next (self, 0);
    uint32_t last = 0;
    size_t n = 0;
    snprintf (text, WM_INPUT_SET_TEXT_BYTES, "-");
    for (uint32_t id = first; id; id = wm_input_set_next (self, last)) {
        for (last = id; wm_input_set_has (self, last + 1);)
            last++;
        if (n + 24 < WM_INPUT_SET_TEXT_BYTES)
            n += (size_t) snprintf (text + n, WM_INPUT_SET_TEXT_BYTES - n,
                                    id < last ? "%s%u-%u" : "%s%u", n ? "," : "", id, last);
        else
            n = WM_INPUT_SET_TEXT_BYTES;
    }
    if (n >= WM_INPUT_SET_TEXT_BYTES)
        snprintf (text, WM_INPUT_SET_TEXT_BYTES, "%u-%u", first, last);
}

void wm_input_set_parse (wm_input_set_t *self, const char *text)
{
    uint32_t first, last;
    for (int n; sscanf (text, "%9u%n", &first, &n) == 1; text += *text == ',') {
        text += n;
        last = first;
        if (sscanf (text, "-%9u%n", &last, &n) == 1)
            text += n;
        for (uint32_t id = first ? first : 1; id <= last && id <= PARSED_MAX; id++)
            wm_input_set_add (self, id);
    }
}
