/* wm_override.c - the parameters of a load, from JSON and from protobuf.

   jansson gets the request's JSON without the files, which are cut out first: they stay where they
   are in the body, and are decoded there.  */
#include "producer/serving/wm_override.h"
#include "producer/net/wm_pbtxt.h"
#include "producer/net/wm_proto.h"
#include "producer/serving/wm_json.h"
#include "schema/base/wm_text.h"

#include <ctype.h>
#include <czmq.h>
#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES_MAX ((size_t) 128 << 10)
#define FILE_KEY "file:"

void wm_override_clear (wm_override_t *self)
{
    free (self->config);
    self->config = NULL;
    self->n_file = 0;
}

bool wm_override_is_empty (const wm_override_t *self)
{
    return !self->config && !self->n_file;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Whether it is one of a file: no folder, nothing hidden.  */
static bool is_file_name (const char *name)
{
    const size_t n = strlen (name);
    bool is_plain = n && n <= WM_OVERRIDE_NAME_MAX && *name != '.';
    for (size_t i = 0; i < n; i++)
        is_plain &= (unsigned char) name[i] > ' ' && name[i] != '/' && name[i] != 127;
    return is_plain;
}

/* Adds a file of this parameter's name.  */
static wm_ks_code_t add_file (wm_override_t *self, const char *key, const uint8_t *data,
                              size_t bytes, wm_ks_error_t *error)
{
    const char *name = key + strlen (FILE_KEY), *slash = strchr (name, '/');
    const size_t n_digit = strspn (name, "0123456789");
    const bool has_version = slash && n_digit && n_digit < 19 && *name != '0';
    if (strlen (slash ? slash + 1 : name) > NAME_MAX)
        return wm_ks_fail (error, WM_KS_INTERNAL,
                           "failed to poll from model repository: the file of the parameter "
                           "'%.60s...' cannot be written: %s",
                           key, strerror (ENAMETOOLONG));
    if (slash ? !has_version || slash != name + n_digit || !is_file_name (slash + 1)
              : !is_file_name (name))
        return wm_ks_fail (error, WM_KS_INVALID,
                           "the parameter '%.160s' names no file: write file:VERSION/NAME", key);
    for (uint32_t i = 0; i < self->n_file; i++)
        if (strcmp (self->file[i].name, name) == 0)
            return wm_ks_fail (error, WM_KS_INVALID, "the parameter '%.160s' came twice", key);
    if (self->n_file == WM_OVERRIDE_FILES_MAX)
        return wm_ks_fail (error, WM_KS_INVALID, "a load brings at most %d files",
                           WM_OVERRIDE_FILES_MAX);
    snprintf (self->file[self->n_file].name, sizeof self->file->name, "%s", name);
    self->file[self->n_file].data = data;
    self->file[self->n_file++].bytes = bytes;
    return WM_KS_OK;
}

static wm_ks_code_t add_config (wm_override_t *self, const char *text, size_t bytes,
                                wm_ks_error_t *error)
{
    if (!text || bytes > CONFIG_BYTES_MAX || !wm_text_is_utf8 (text, bytes))
        return wm_ks_fail (error, WM_KS_INVALID,
                           "the parameter 'config' is JSON in a text of at most %zu bytes",
                           CONFIG_BYTES_MAX);
    free (self->config);
    self->config = strndup (text, bytes);
    return WM_KS_OK;
}

/* All parameters are there. Returns `code`, or why they are not enough.  */
static wm_ks_code_t finish (wm_override_t *self, wm_ks_code_t code, wm_ks_error_t *error)
{
    if (!code && self->n_file && !self->config)
        code = wm_ks_fail (error, WM_KS_INVALID,
                           "files that come with a load need its parameter 'config', too");
    if (code)
        wm_override_clear (self);
    return code;
}

/* ---- base64 ---------------------------------------------------------------------------------- */

/* Replaces the escapes that a text of JSON may have for a digit. Returns the bytes it has then. A
   backslash that stays is no base64.  */
static size_t unescape (uint8_t *text, size_t n)
{
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        char code[5] = "";
        text[n_out++] = text[i];
        if (text[i] != '\\' || i + 1 == n)
            continue;
        if (text[i + 1] == 'u' && n - i >= 6)
            memcpy (code, text + i + 2, 4);
        if (text[i + 1] == '/')
            text[n_out - 1] = text[++i];
        else if (strspn (code, "0123456789abcdefABCDEF") == 4 && strtoul (code, NULL, 16) < 128)
            text[n_out - 1] = (uint8_t) strtoul (code, NULL, 16), i += 5;
    }
    return n_out;
}

/* Decodes a text of JSON in place; returns the bytes it has then. SIZE_MAX: it is no base64.  */
static size_t decode (uint8_t *text, size_t n)
{
    const char *from = (const char *) text, *end;
    size_t n_out;
    if (memchr (text, '\\', n))
        n = unescape (text, n);
    return sodium_base642bin (text, n, from, n, NULL, &n_out, &end,
                              sodium_base64_VARIANT_ORIGINAL) ||
                   end != from + n
               ? SIZE_MAX
               : n_out;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Reads the tree. cut: the values of parameters FILE_KEY..., in their order, each `true` there.  */
static wm_ks_code_t take_tree (wm_override_t *self, const json_t *tree, const wm_json_data_t *cut,
                               size_t n_cut, wm_ks_error_t *error)
{
    json_t *parameters = json_object_get (tree, "parameters"), *value;
    const char *key;
    wm_ks_code_t code = WM_KS_OK;
    size_t n = 0;
    if (!json_is_object (tree) || (parameters && !json_is_object (parameters)))
        return wm_ks_fail (error, WM_KS_INVALID,
                           "the request is no JSON object with an object 'parameters'");
    json_object_foreach (parameters, key, value)
    {
        const bool is_file = strncmp (key, FILE_KEY, strlen (FILE_KEY)) == 0;
        if (!code && strcmp (key, "config") == 0)
            code = add_config (self, json_string_value (value), json_string_length (value), error);
        if (code || !is_file)
            continue;
        uint8_t *data = n < n_cut ? (uint8_t *) (uintptr_t) cut[n].text : NULL;
        const size_t bytes =
            data && json_is_true (value) ? decode (data, cut[n++].bytes) : SIZE_MAX;
        code = bytes == SIZE_MAX && self->n_file < WM_OVERRIDE_FILES_MAX
                   ? wm_ks_fail (error, WM_KS_INVALID, "the parameter '%.160s' is no base64", key)
                   : add_file (self, key, data, bytes, error);
    }
    return code;
}

wm_ks_code_t wm_override_json (wm_override_t *self, uint8_t *body, size_t bytes,
                               wm_ks_error_t *error)
{
    wm_json_data_t cut[WM_OVERRIDE_FILES_MAX];
    json_error_t why;
    size_t left, n_cut;
    *self = (wm_override_t){ .config = NULL };
    if (!bytes)
        return WM_KS_OK;
    char *skeleton = wm_json_cut_texts ((char *) body, bytes, 2 * CONFIG_BYTES_MAX, FILE_KEY, cut,
                                        WM_OVERRIDE_FILES_MAX, &n_cut, &left);
    if (!skeleton)
        return wm_ks_fail (error, WM_KS_INVALID,
                           "the request's JSON without its files is more than %zu bytes",
                           2 * CONFIG_BYTES_MAX);
    json_t *tree = json_loadb (skeleton, left, JSON_REJECT_DUPLICATES, &why);
    free (skeleton);
    const wm_ks_code_t code =
        tree ? take_tree (self, tree, cut, n_cut, error)
             : wm_ks_fail (error, WM_KS_INVALID, "failed to parse the request JSON buffer: %.200s",
                           why.text);
    json_decref (tree);
    return finish (self, code, error);
}

/* ---- protobuf -------------------------------------------------------------------------------- */

/* Takes an entry of map<string, ModelRepositoryParameter>: string_param 3, bytes_param 4.  */
static wm_ks_code_t take_entry (wm_override_t *self, const wm_field_t *entry, wm_ks_error_t *error)
{
    wm_proto_t in = wm_proto_of (entry->data, entry->bytes), inner;
    wm_field_t field, value = { 0 };
    char key[2 * NAME_MAX] = "";
    while (wm_proto_next (&in, &field)) {
        if (field.tag == 1 && field.wire == WM_WIRE_BYTES &&
            wm_text_is_utf8 (field.data, field.bytes))
            snprintf (key, sizeof key, "%.*s", /* cut off, it is too long for a name */
                      (int) (field.bytes < sizeof key ? field.bytes : sizeof key - 1),
                      (const char *) field.data);
        if (field.tag != 2 || field.wire != WM_WIRE_BYTES)
            continue;
        inner = wm_proto_of (field.data, field.bytes);
        while (wm_proto_next (&inner, &field))
            value = field;
        in.is_bad |= inner.is_bad;
    }
    const bool is_config = strcmp (key, "config") == 0;
    const bool is_file = strncmp (key, FILE_KEY, strlen (FILE_KEY)) == 0;
    if (in.is_bad)
        return wm_ks_fail (error, WM_KS_INVALID, "a parameter is not what protobuf would write");
    if ((is_config || is_file) && value.tag != (is_config ? 3u : 4u))
        return wm_ks_fail (error, WM_KS_INVALID, "the parameter '%s' is no %s", key,
                           is_config ? "string_param" : "bytes_param");
    return is_config ? add_config (self, (const char *) value.data, value.bytes, error)
           : is_file ? add_file (self, key, value.data, value.bytes, error)
                     : WM_KS_OK;
}

wm_ks_code_t wm_override_proto (wm_override_t *self, const uint8_t *body, size_t bytes,
                                wm_ks_error_t *error)
{
    wm_proto_t in = wm_proto_of (body, bytes);
    wm_field_t field;
    wm_ks_code_t code = WM_KS_OK;
    *self = (wm_override_t){ .config = NULL };
    while (!code && wm_proto_next (&in, &field))
        if (field.tag == 3 && field.wire == WM_WIRE_BYTES)
            code = take_entry (self, &field, error);
    return finish (self, code, error);
}

/* ---- the configuration ----------------------------------------------------------------------- */

/* Fields that protobuf's JSON may have as texts, because they have 64 bits.  */
static bool is_number (const char *field)
{
    static const char *const names[] = { "dims",
                                         "shape",
                                         "versions",
                                         "num_versions",
                                         "max_batch_size",
                                         "max_queue_delay_microseconds",
                                         "preferred_batch_size",
                                         "max_queue_size" };
    bool any = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        any |= strcmp (field, names[i]) == 0;
    return any;
}

/* "maxBatchSize" is "max_batch_size" for protobuf.  */
static void name_field (char *to, size_t bytes, const char *key)
{
    size_t n = 0;
    for (; *key && n + 2 < bytes; key++) {
        if (isupper ((unsigned char) *key))
            to[n++] = '_';
        to[n++] = (char) tolower ((unsigned char) *key);
    }
    to[n] = 0;
}

static json_t *convert (const json_t *object, unsigned depth);

static json_t *convert_value (const char *field, json_t *value, unsigned depth)
{
    const char *text = json_string_value (value);
    char *end = NULL;
    const long long number = text && is_number (field) ? strtoll (text, &end, 10) : 0;
    if (end && end != text && !*end)
        return json_integer (number);
    return json_is_object (value) ? convert (value, depth + 1) : json_incref (value);
}

/* A map, {"k": {...}}: messages of key and value.  */
static json_t *convert_map (json_t *map, unsigned depth)
{
    json_t *list = json_array (), *value;
    const char *key;
    json_object_foreach (map, key, value) json_array_append_new (
        list, json_pack ("{s:[s], s:[o]}", "key", key, "value", convert_value ("", value, depth)));
    return list;
}

/* Each field becomes an array of what it has. NULL: it is nested too deep, which is bounded.  */
static json_t *convert (const json_t *object, unsigned depth)
{
    json_t *message = json_object (), *value, *one;
    const char *key;
    char field[64];
    size_t i;
    bool is_good = depth < WM_PBTXT_DEPTH_MAX;
    json_object_foreach ((json_t *) (uintptr_t) object, key, value)
    {
        json_t *list = NULL;
        name_field (field, sizeof field, key);
        if (!is_good || json_is_null (value))
            continue;
        if (strcmp (field, "parameters") == 0 && json_is_object (value))
            list = convert_map (value, depth);
        else {
            list = json_array ();
            if (!json_is_array (value))
                is_good &= !json_array_append_new (list, convert_value (field, value, depth));
            json_array_foreach (value, i, one) is_good &=
                !json_array_append_new (list, convert_value (field, one, depth));
        }
        is_good &= !json_object_set_new (message, field, list);
    }
    if (is_good)
        return message;
    json_decref (message);
    return NULL;
}

json_t *wm_override_config (const char *text, wm_error_t *error)
{
    json_error_t why;
    json_t *tree = json_loads (text, 0, &why), *config = NULL;
    if (!tree)
        wm_fault (error, WM_EBATCH, "the parameter 'config' is no JSON: %.200s", why.text);
    else if (!json_is_object (tree) || !(config = convert (tree, 0)))
        wm_fault (error, WM_EBATCH,
                  "the parameter 'config' is no object of a model's configuration");
    json_decref (tree);
    return config;
}
