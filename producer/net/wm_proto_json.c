/* wm_proto_json.c - messages of JSON, and JSON of messages, by tables.

   Our own JSON goes in; what nests is as deep as the tables.  */
#include "producer/net/wm_proto.h"

#include "schema/base/wm_text.h"

#include <stdlib.h>
#include <string.h>

static uint64_t number_of (const wm_proto_field_t *field, const json_t *value)
{
    const char *text = json_string_value (value);
    if (field->kind == WM_KIND_ENUM) {
        for (uint64_t i = 0; text && field->names[i]; i++)
            if (strcmp (text, field->names[i]) == 0)
                return i;
        return 0;
    }
    if (text)
        return strtoull (text, NULL, 10);
    return json_is_true (value) ? 1 : (uint64_t) json_integer_value (value);
}

static void put_message (wm_buffer_t *self, const wm_proto_field_t *field, const json_t *value)
{
    wm_buffer_t inner = { 0 };
    wm_proto_put_json (&inner, field->message, value);
    wm_proto_put_bytes (self, field->tag, inner.data, inner.bytes);
    free (inner.data);
}

static void put_map (wm_buffer_t *self, const wm_proto_field_t *field, json_t *map)
{
    const wm_proto_field_t entry = { 2, "", WM_KIND_MESSAGE, field->message, NULL };
    const char *key;
    json_t *value;
    json_object_foreach (map, key, value)
    {
        wm_buffer_t inner = { 0 };
        wm_proto_put_text (&inner, 1, key);
        if (field->message)
            put_message (&inner, &entry, value);
        else
            wm_proto_put_text (&inner, 2, json_string_value (value));
        wm_proto_put_bytes (self, field->tag, inner.data, inner.bytes);
        free (inner.data);
    }
}

static void put_one (wm_buffer_t *self, const wm_proto_field_t *field, json_t *value)
{
    switch (field->kind) {
    case WM_KIND_TEXT: {
        const char *text = json_string_value (value);
        wm_proto_put_bytes (self, field->tag, text, text ? strlen (text) : 0);
        break;
    }
    case WM_KIND_MESSAGE:
        put_message (self, field, value);
        break;
    case WM_KIND_MAP:
        put_map (self, field, value);
        break;
    default:
        wm_proto_put_number (self, field->tag, number_of (field, value));
    }
}

static void put_array (wm_buffer_t *self, const wm_proto_field_t *field, const json_t *array)
{
    wm_buffer_t packed = { 0 };
    for (size_t i = 0; i < json_array_size (array); i++) {
        json_t *value = json_array_get (array, i);
        if (field->kind == WM_KIND_NUMBER || field->kind == WM_KIND_ENUM)
            wm_proto_put_varint (&packed, number_of (field, value));
        else
            put_one (self, field, value);
    }
    if (packed.bytes)
        wm_proto_put_bytes (self, field->tag, packed.data, packed.bytes);
    free (packed.data);
}

void wm_proto_put_json (wm_buffer_t *self, const wm_proto_field_t *table, const json_t *object)
{
    for (const wm_proto_field_t *field = table; field->tag; field++) {
        json_t *value = json_object_get (object, field->name);
        if (json_is_array (value))
            put_array (self, field, value);
        else if (value && !json_is_null (value))
            put_one (self, field, value);
    }
}

json_t *wm_proto_json (const wm_proto_field_t *table, const void *data, size_t bytes)
{
    wm_proto_t in = wm_proto_of (data, bytes);
    wm_field_t got;
    json_t *object = json_object ();
    while (wm_proto_next (&in, &got)) {
        const wm_proto_field_t *field = table;
        while (field->tag && field->tag != got.tag)
            field++;
        if (field->tag && field->kind == WM_KIND_TEXT) {
            if (got.wire != WM_WIRE_BYTES || !wm_text_is_utf8 (got.data, got.bytes))
                in.is_bad = true;
            else
                json_object_set_new (object, field->name,
                                     json_stringn ((const char *) got.data, got.bytes));
        } else if (field->tag && field->kind == WM_KIND_NUMBER && got.wire == WM_WIRE_VARINT)
            json_object_set_new (object, field->name, json_integer ((json_int_t) got.number));
        if (in.is_bad)
            break;
    }
    if (!in.is_bad)
        return object;
    json_decref (object);
    return NULL;
}
