/* wm_wire.c - bounds a protobuf file before the parser sees it.  */
#include "kernels/onnx/wm_wire.h"

typedef struct {
    const ProtobufCMessageDescriptor *type;
    const uint8_t *end;
} frame_t;

static int read_varint (const uint8_t **at, const uint8_t *end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        uint8_t byte = *(*at)++;
        *value |= (uint64_t) (byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return 1;
    }
    return 0;
}

/* Reads one field at *at inside `frame`: moves behind it, or, if it is a message, to its inside,
   which *inner and *inner_size then describe. 0: the bytes are not a field.  */
static int read_field (const frame_t *frame, const uint8_t **at,
                       const ProtobufCFieldDescriptor **field,
                       const ProtobufCMessageDescriptor **inner, uint64_t *inner_size)
{
    uint64_t key, value, size = 0;
    *inner = NULL;
    if (!read_varint (at, frame->end, &key) || key >> 3 == 0 || key >> 3 > INT32_MAX)
        return 0;
    switch (key & 7) {
    case 0:
        if (!read_varint (at, frame->end, &value))
            return 0;
        break;
    case 1:
        size = 8;
        break;
    case 2:
        if (!read_varint (at, frame->end, &size))
            return 0;
        break;
    case 5:
        size = 4;
        break;
    default:
        return 0;
    }
    if (size > (uint64_t) (frame->end - *at))
        return 0;
    *field = protobuf_c_message_descriptor_get_field (frame->type, (unsigned) (key >> 3));
    if ((key & 7) == 2 && *field && (*field)->type == PROTOBUF_C_TYPE_MESSAGE) {
        *inner = (*field)->descriptor;
        *inner_size = size;
        return 1;
    }
    *at += size;
    return 1;
}

wm_fault_t wm_wire_check (const char *path, const uint8_t *bytes, size_t size,
                          const ProtobufCMessageDescriptor *type, const char *what,
                          const ProtobufCFieldDescriptor *watched, int *seen, wm_error_t *error)
{
    frame_t stack[WM_WIRE_DEPTH_MAX] = { { .type = type, .end = bytes + size } };
    int depth = 0;
    uint32_t fields = 0;
    const uint8_t *at = bytes;
    if (seen)
        *seen = 0;
    while (depth >= 0) {
        const frame_t *frame = &stack[depth];
        if (at == frame->end) {
            depth--;
            continue;
        }
        const ProtobufCFieldDescriptor *field = NULL;
        const ProtobufCMessageDescriptor *inner;
        uint64_t inner_size;
        if (!read_field (frame, &at, &field, &inner, &inner_size))
            return wm_fault (error, WM_EBATCH, "%s: not %s, damaged or truncated (byte %zu)", path,
                             what, (size_t) (at - bytes));
        if (++fields > WM_WIRE_FIELDS_MAX)
            return wm_fault (error, WM_EBATCH, "%s: more than %u fields: not a model", path,
                             WM_WIRE_FIELDS_MAX);
        if (seen && field && field == watched)
            *seen = 1;
        if (!inner)
            continue;
        if (++depth == WM_WIRE_DEPTH_MAX)
            return wm_fault (error, WM_EBATCH, "%s: messages nested more than %d deep", path,
                             WM_WIRE_DEPTH_MAX);
        stack[depth] = (frame_t){ .type = inner, .end = at + inner_size };
    }
    return WM_OK;
}

bool wm_wire_is_graphdef (const uint8_t *bytes, size_t size)
{
    uint64_t key;
    return read_varint (&bytes, bytes + size, &key) && key == (1 << 3 | 2);
}
