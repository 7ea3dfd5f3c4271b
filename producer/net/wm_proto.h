/* wm_proto.h - protobuf's wire format: a reader that copies nothing, a buffer that is written to,
   and tables by which messages are made of JSON.

   Thread: any; an object belongs to one.  */
#ifndef WM_PROTO_H
#define WM_PROTO_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at, *end;
    bool is_bad; /* the bytes are no message; at is end then */
} wm_proto_t;

typedef enum {
    WM_WIRE_VARINT = 0,
    WM_WIRE_64 = 1,
    WM_WIRE_BYTES = 2,
    WM_WIRE_32 = 5
} wm_proto_wire_t;

/* One field. `number` of a varint, of 32 and of 64 bits; bytes are lent by the message.  */
typedef struct {
    uint32_t tag;
    wm_proto_wire_t wire;
    uint64_t number;
    const uint8_t *data;
    size_t bytes;
} wm_field_t;

/* Returns false at the end, and where the bytes are no message (is_bad).  */
bool wm_proto_next (wm_proto_t *self, wm_field_t *field);
/* Reads one varint, of a packed array.  */
uint64_t wm_proto_varint (wm_proto_t *self);

static inline wm_proto_t wm_proto_of (const void *data, size_t bytes)
{
    const uint8_t *at = data;
    return (wm_proto_t){ at, at ? at + bytes : at, false };
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A buffer that grows. Zeroed it is empty; free (data) ends it.  */
typedef struct {
    uint8_t *data;
    size_t bytes, max;
} wm_buffer_t;

/* Makes room for `bytes` more and returns where; the caller adds to self->bytes what it wrote.  */
uint8_t *wm_buffer_room (wm_buffer_t *self, size_t bytes);
void wm_buffer_put (wm_buffer_t *self, const void *data, size_t bytes);

void wm_proto_put_varint (wm_buffer_t *self, uint64_t number);
void wm_proto_put_number (wm_buffer_t *self, uint32_t tag, uint64_t number); /* 0 too */
void wm_proto_put_bytes (wm_buffer_t *self, uint32_t tag, const void *data, size_t bytes);
void wm_proto_put_text (wm_buffer_t *self, uint32_t tag, const char *text); /* not of "" */
/* The head of a field of so many bytes, which the caller puts behind it.  */
void wm_proto_put_head (wm_buffer_t *self, uint32_t tag, size_t bytes);

/* ---- messages of JSON ------------------------------------------------------------------------ */

typedef enum {
    WM_KIND_NUMBER, /* integers, also as JSON texts; bool */
    WM_KIND_TEXT,
    WM_KIND_ENUM,    /* a text of `names` */
    WM_KIND_MESSAGE, /* an object */
    WM_KIND_MAP,     /* an object: texts to messages, or to texts where `message` is NULL */
} wm_proto_kind_t;

typedef struct wm_proto_field_t {
    uint32_t tag; /* 0 ends the table */
    const char *name;
    wm_proto_kind_t kind;
    const struct wm_proto_field_t *message;
    const char *const *names; /* of an enum, from 0; NULL ends them */
} wm_proto_field_t;

/* Appends the message of an object; members that the table does not have are left out. An array
   makes a repeated field. Numbers are packed.  */
void wm_proto_put_json (wm_buffer_t *self, const wm_proto_field_t *table, const json_t *object);

/* Reads the fields of a message that the table has as numbers and texts; the caller's. NULL: the
   bytes are no such message.  */
json_t *wm_proto_json (const wm_proto_field_t *table, const void *data, size_t bytes);

#endif
