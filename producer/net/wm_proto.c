/* wm_proto.c - protobuf's wire format (protobuf.dev, "Encoding"), as far as KServe's service uses
   it. Groups, which proto3 does not have, are refused.  */
#include "producer/net/wm_proto.h"

#include "schema/base/wm_grow.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading --------------------------------------------------------------------------------- */

static uint64_t bad (wm_proto_t *self)
{
    self->is_bad = true;
    self->at = self->end;
    return 0;
}

uint64_t wm_proto_varint (wm_proto_t *self)
{
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (self->at == self->end)
            return bad (self);
        const uint8_t byte = *self->at++;
        number |= shift < 64 ? (uint64_t) (byte & 127) << shift : 0;
        if (!(byte & 128))
            return number;
    }
    return bad (self);
}

static bool take (wm_proto_t *self, wm_field_t *field, uint64_t bytes)
{
    if (bytes > (size_t) (self->end - self->at))
        return bad (self);
    field->data = self->at;
    field->bytes = (size_t) bytes;
    self->at += bytes;
    return true;
}

bool wm_proto_next (wm_proto_t *self, wm_field_t *field)
{
    if (self->at == self->end)
        return false;
    const uint64_t head = wm_proto_varint (self);
    *field = (wm_field_t){ .tag = (uint32_t) (head >> 3), .wire = (wm_proto_wire_t) (head & 7) };
    if (self->is_bad || head >> 32 || !field->tag)
        return bad (self);
    switch (field->wire) {
    case WM_WIRE_VARINT:
        field->number = wm_proto_varint (self);
        return !self->is_bad;
    case WM_WIRE_BYTES: {
        const uint64_t bytes = wm_proto_varint (self);
        return !self->is_bad && take (self, field, bytes);
    }
    case WM_WIRE_64:
    case WM_WIRE_32:
        if (!take (self, field, field->wire == WM_WIRE_64 ? 8 : 4))
            return false;
        memcpy (&field->number, field->data, field->bytes);
        return true;
    default:
        return bad (self);
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

uint8_t *wm_buffer_room (wm_buffer_t *self, size_t bytes)
{
    const size_t all = self->bytes + bytes, more = self->max + self->max / 2;
    if (all > self->max && !wm_grow_to (&self->data, &self->max, all > more ? all : more, 1))
        abort (); /* one that is large is exact: the budget counts it */
    return self->data + self->bytes;
}

void wm_buffer_put (wm_buffer_t *self, const void *data, size_t bytes)
{
    if (!bytes)
        return;
    memcpy (wm_buffer_room (self, bytes), data, bytes);
    self->bytes += bytes;
}

void wm_proto_put_varint (wm_buffer_t *self, uint64_t number)
{
    uint8_t *at = wm_buffer_room (self, 10);
    for (; number > 127; number >>= 7, self->bytes++)
        *at++ = (uint8_t) (number | 128);
    *at = (uint8_t) number;
    self->bytes++;
}

void wm_proto_put_number (wm_buffer_t *self, uint32_t tag, uint64_t number)
{
    wm_proto_put_varint (self, (uint64_t) tag << 3 | WM_WIRE_VARINT);
    wm_proto_put_varint (self, number);
}

void wm_proto_put_head (wm_buffer_t *self, uint32_t tag, size_t bytes)
{
    wm_proto_put_varint (self, (uint64_t) tag << 3 | WM_WIRE_BYTES);
    wm_proto_put_varint (self, bytes);
}

void wm_proto_put_bytes (wm_buffer_t *self, uint32_t tag, const void *data, size_t bytes)
{
    wm_proto_put_head (self, tag, bytes);
    wm_buffer_put (self, data, bytes);
}

void wm_proto_put_text (wm_buffer_t *self, uint32_t tag, const char *text)
{
    if (text && *text)
        wm_proto_put_bytes (self, tag, text, strlen (text));
}
