/* wm_settings.c - see wm_settings.h.  */
#include "producer/serving/wm_settings.h"
#include "producer/net/wm_proto.h"
#include "schema/base/wm_text.h"


static json_t *settings_of (wm_settings_t of)
{
    return of == WM_SETTINGS_TRACE
               ? json_pack ("{s:[s]}", "trace_level", "OFF")
               : json_pack ("{s:s, s:b, s:b, s:b, s:i}", "log_file", "", "log_info", 1,
                            "log_warning", 1, "log_error", 1, "log_verbose_level", 0);
}

static const json_t *only (const json_t *value)
{
    return json_array_size (value) == 1 ? json_array_get (value, 0) : value;
}

json_t *wm_settings_answer (wm_settings_t of, const json_t *wanted, wm_ks_error_t *error)
{
    json_t *is = settings_of (of), *value;
    const char *key;
    json_object_foreach ((json_t *) (uintptr_t) wanted, key, value)
    {
        if (json_is_null (value) || json_equal (only (value), only (json_object_get (is, key))))
            continue;
        wm_ks_fail (error, WM_KS_UNIMPLEMENTED, "to change '%.100s' is not supported: %s", key,
                    of == WM_SETTINGS_TRACE
                        ? "nothing is traced; --access-log has a line for each request"
                        : "the gateway's log is its stderr, with all that it logs");
        json_decref (is);
        return NULL;
    }
    return is;
}

/* ---- gRPC ------------------------------------------------------------------------------------ */

/* One value: traces have lists of texts, logs a bool, a number or a text.  */
static json_t *read_value (wm_settings_t of, wm_proto_t in)
{
    json_t *list = json_array ();
    wm_field_t got;
    while (wm_proto_next (&in, &got)) {
        const bool is_text = got.wire == WM_WIRE_BYTES && wm_text_is_utf8 (got.data, got.bytes);
        if (got.tag == (of == WM_SETTINGS_TRACE ? 1 : 3) && is_text)
            json_array_append_new (list, json_stringn ((const char *) got.data, got.bytes));
        else if (of == WM_SETTINGS_LOG && got.wire == WM_WIRE_VARINT && got.tag <= 2)
            json_array_append_new (list, got.tag == 1 ? json_boolean (got.number)
                                                      : json_integer ((json_int_t) got.number));
    }
    if (json_array_size (list))
        return list;
    json_decref (list);
    return json_null (); /* traces: to the default */
}

/* Adds an entry of the map. False: the bytes are no entry.  */
static bool read_entry (wm_settings_t of, wm_proto_t in, json_t *to)
{
    wm_field_t got;
    json_t *key = NULL, *value = json_null ();
    while (wm_proto_next (&in, &got)) {
        if (got.wire == WM_WIRE_BYTES && got.tag == 1 && !key &&
            wm_text_is_utf8 (got.data, got.bytes))
            key = json_stringn ((const char *) got.data, got.bytes);
        else if (got.wire == WM_WIRE_BYTES && got.tag == 2) {
            json_decref (value);
            value = read_value (of, wm_proto_of (got.data, got.bytes));
        }
    }
    const bool is_fine = !in.is_bad && key && !json_object_set (to, json_string_value (key), value);
    json_decref (key);
    json_decref (value);
    return is_fine;
}

/* NULL: it is no such message.  */
static json_t *read_request (wm_settings_t of, const void *request, size_t bytes)
{
    wm_proto_t in = wm_proto_of (request, bytes);
    wm_field_t got;
    json_t *wanted = json_object ();
    bool is_fine = true;
    while (is_fine && wm_proto_next (&in, &got))
        if (got.tag == 1)
            is_fine = got.wire == WM_WIRE_BYTES &&
                      read_entry (of, wm_proto_of (got.data, got.bytes), wanted);
    if (is_fine && !in.is_bad)
        return wanted;
    json_decref (wanted);
    return NULL;
}

json_t *wm_settings_proto (wm_settings_t of, const void *request, size_t bytes,
                           wm_ks_error_t *error)
{
    json_t *wanted = read_request (of, request, bytes), *value, *settings = json_object ();
    json_t *is = wanted ? wm_settings_answer (of, wanted, error) : NULL;
    const char *key;
    json_object_foreach (is, key, value)
    {
        const char *kind = json_is_array (value)     ? "value"
                           : json_is_boolean (value) ? "bool_param"
                           : json_is_integer (value) ? "uint32_param"
                                                     : "string_param";
        json_object_set_new (settings, key, json_pack ("{s:O}", kind, value));
    }
    if (!wanted)
        wm_ks_fail (error, WM_KS_INVALID, "the request is no message of this method");
    json_decref (wanted);
    if (is) {
        json_decref (is);
        return json_pack ("{s:o}", "settings", settings);
    }
    json_decref (settings);
    return NULL;
}
