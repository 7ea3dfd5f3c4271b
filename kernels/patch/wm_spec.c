/* wm_spec.c - reads and checks the patch specification.

   The table of keys is wm_spec_print.c's. libyaml's events are read directly: a specification is
   one flat mapping of scalars and lists of scalars, and everything else (nesting, aliases, a second
   document) is refused by line.  */
#include "kernels/patch/wm_spec_private.h"
#include "schema/base/wm_text.h"
#include "schema/wm_defaults.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define ITEM_BYTES 64 /* a word or number with its NUL */

/* The value of one key as it stands in the text.  */
typedef struct {
    bool list;
    uint32_t count;
    char item[WM_SPEC_LABELS_MAX][ITEM_BYTES];
} value_t;

typedef struct {
    const char *where;
    size_t line; /* of the value being read, from 1 */
    wm_error_t *error;
} place_t;

__attribute__ ((format (printf, 2, 3))) static wm_fault_t refuse (const place_t *place,
                                                                  const char *format, ...)
{
    char text[320];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (text, sizeof text, format, arguments);
    va_end (arguments);
    return wm_fault (place->error, WM_EBATCH, "%.150s:%zu: %s", place->where, place->line, text);
}

/* ---- values ---------------------------------------------------------------------------------- */

static wm_fault_t read_double (const char *text, const wm_spec_key_t *key, double *number,
                               const place_t *place)
{
    char *end;
    *number = strtod (text, &end);
    if (end == text || *end || !isfinite (*number))
        return refuse (place, "%s: '%s' is not a finite number, such as 0.5 (without a unit)",
                       key->name, text);
    return WM_OK;
}

static wm_fault_t read_count (const char *text, const wm_spec_key_t *key, uint32_t *number,
                              const place_t *place)
{
    char *end;
    unsigned long long n = strtoull (text, &end, 10);
    if (end == text || *end || text[0] < '0' || text[0] > '9' || n < 1 || n > key->max)
        return refuse (place, "%s: '%s' is not a whole number from 1 to %u", key->name, text,
                       key->max);
    *number = (uint32_t) n;
    return WM_OK;
}

/* Names become HDF5 datasets and columns of CSV files.  */
static wm_fault_t read_name (const char *text, const wm_spec_key_t *key, char *name, size_t bytes,
                             const place_t *place)
{
    size_t n = strlen (text);
    bool fine = n > 0 && n < bytes;
    for (size_t i = 0; i < n; i++)
        fine = fine && (text[i] == '_' || text[i] == '-' || (text[i] >= '0' && text[i] <= '9') ||
                        ((text[i] | 32) >= 'a' && (text[i] | 32) <= 'z'));
    if (!fine)
        return refuse (place, "%s: '%s' is not a name of 1 to %zu letters, digits, _ or -",
                       key->name, text, bytes - 1);
    memcpy (name, text, n + 1);
    return WM_OK;
}

static wm_fault_t read_choice (const char *text, const wm_spec_key_t *key, int *choice,
                               const place_t *place)
{
    char known[64] = "";
    for (int i = 0; key->choice[i]; i++) {
        if (strcmp (text, key->choice[i]) == 0) {
            *choice = i;
            return WM_OK;
        }
        size_t n = strlen (known);
        snprintf (known + n, sizeof known - n, "%s%s", i ? ", " : "", key->choice[i]);
    }
    return refuse (place, "%s: '%s' is not one of %s", key->name, text, known);
}

static wm_fault_t read_amplitudes (wm_spec_t *self, const wm_spec_key_t *key, const value_t *value,
                                   const place_t *place)
{
    wm_fault_t fault = WM_OK;
    memset (self->amplitude, 0, sizeof self->amplitude);
    self->n_amplitude = value->count;
    for (uint32_t i = 0; !fault && i < value->count; i++) {
        fault = read_double (value->item[i], key, &self->amplitude[i], place);
        if (!fault && self->amplitude[i] <= 0)
            fault = refuse (place, "%s: '%s' is not above 0", key->name, value->item[i]);
    }
    return fault;
}

static wm_fault_t read_labels (wm_spec_t *self, const wm_spec_key_t *key, const value_t *value,
                               const place_t *place)
{
    wm_fault_t fault = WM_OK;
    memset (self->label, 0, sizeof self->label);
    self->n_label = value->count;
    for (uint32_t i = 0; !fault && i < value->count; i++) {
        fault = read_name (value->item[i], key, self->label[i], sizeof self->label[i], place);
        if (!fault && wm_spec_is_column (self->label[i]))
            fault =
                refuse (place, "labels: the output already has a column '%s'; choose another name",
                        value->item[i]);
        for (uint32_t k = 0; !fault && k < i; k++)
            if (strcmp (self->label[i], self->label[k]) == 0)
                fault = refuse (place, "%s: '%s' occurs twice", key->name, value->item[i]);
    }
    return fault;
}

static wm_fault_t read_tags (wm_spec_t *self, const wm_spec_key_t *key, const value_t *value,
                             const place_t *place)
{
    wm_fault_t fault = WM_OK;
    memset (self->tag, 0, sizeof self->tag);
    self->n_tag = value->count;
    for (uint32_t i = 0; !fault && i < value->count; i++)
        fault = read_name (value->item[i], key, self->tag[i], sizeof self->tag[i], place);
    return fault;
}

/* How many values a key takes, and whether as a list.  */
static wm_fault_t check_shape (const wm_spec_key_t *key, const value_t *value, const place_t *place)
{
    uint32_t least = 1, most = 1;
    bool list = true;
    switch (key->kind) {
    case WM_SPEC_SIDES:
    case WM_SPEC_RANGE:
        least = most = 2;
        break;
    case WM_SPEC_FACTORS:
        most = WM_SPEC_AMPLITUDES_MAX;
        break;
    case WM_SPEC_NAMES:
        least = 0, most = WM_SPEC_LABELS_MAX;
        break;
    case WM_SPEC_TAGS:
        least = 0, most = WM_SPEC_CHANNELS_MAX;
        break;
    default:
        list = false;
    }
    const char *example = key->kind == WM_SPEC_SIDES     ? "[48, 48]"
                          : key->kind == WM_SPEC_RANGE   ? "[-10, 30]"
                          : key->kind == WM_SPEC_FACTORS ? "[1.3, 1.2]"
                          : key->kind == WM_SPEC_TAGS    ? "[loose_lf, mp2_roi]"
                                                         : "[track, em]";
    if (list != value->list)
        return list ? refuse (place, "%s takes a list, such as %s", key->name, example)
                    : refuse (place, "%s takes one value, not a list", key->name);
    if (value->count < least || value->count > most)
        return least == most ? refuse (place, "%s: %u value%s, it takes %u, such as %s", key->name,
                                       value->count, value->count == 1 ? "" : "s", least, example)
                             : refuse (place, "%s: %u values, it takes %u to %u", key->name,
                                       value->count, least, most);
    return WM_OK;
}

static wm_fault_t set_value (wm_spec_t *self, const wm_spec_key_t *key, const value_t *value,
                             const place_t *place)
{
    void *at = (char *) self + key->offset;
    const char *text = value->item[0];
    double *number = at;
    wm_fault_t fault = check_shape (key, value, place);
    if (fault)
        return fault;
    switch (key->kind) {
    case WM_SPEC_NAME:
        memset (at, 0, sizeof self->table);
        if (!strcmp (text, "held") || !strcmp (text, "engine"))
            return refuse (place, "table: the output already has a table '%s'; choose another name",
                           text);
        return read_name (text, key, at, sizeof self->table, place);
    case WM_SPEC_SIDES:
        fault = read_count (text, key, at, place);
        return fault ? fault : read_count (value->item[1], key, (uint32_t *) at + 1, place);
    case WM_SPEC_COUNT:
        return read_count (text, key, at, place);
    case WM_SPEC_CHOICE:
        return read_choice (text, key, at, place);
    case WM_SPEC_RANGE:
        if ((fault = read_double (text, key, number, place)) ||
            (fault = read_double (value->item[1], key, number + 1, place)))
            return fault;
        return number[0] < number[1]
                   ? WM_OK
                   : refuse (place, "%s: %s is not below %s", key->name, text, value->item[1]);
    case WM_SPEC_FACTORS:
        return read_amplitudes (self, key, value, place);
    case WM_SPEC_FACT:
    case WM_SPEC_POSITIVE:
        *number = NAN;
        if (strcmp (text, "input") == 0)
            return WM_OK;
        fault = read_double (text, key, number, place);
        return fault || key->kind == WM_SPEC_FACT || *number > 0
                   ? fault
                   : refuse (place, "%s: %s is not above 0", key->name, text);
    case WM_SPEC_WIRES:
        self->n_wire = 0;
        return strcmp (text, "input") == 0 ? WM_OK : read_count (text, key, at, place);
    case WM_SPEC_STEP:
        *(uint32_t *) at = 0;
        return strcmp (text, "patch") == 0 ? WM_OK : read_count (text, key, at, place);
    case WM_SPEC_NAMES:
        return read_labels (self, key, value, place);
    case WM_SPEC_TAGS:
        return read_tags (self, key, value, place);
    }
    return WM_OK;
}

/* The keys that a text has, and the line of each.  */
typedef struct {
    uint32_t given;
    size_t line[WM_SPEC_KEYS];
} seen_t;

/* Moves to the line of the last of these keys that the text has.  */
static void go_to (place_t *place, const seen_t *seen, const char *key, const char *other)
{
    place->line = 1;
    for (uint32_t i = 0; i < WM_SPEC_KEYS; i++)
        if ((!strcmp (wm_spec_keys[i].name, key) || !strcmp (wm_spec_keys[i].name, other)) &&
            seen->line[i] > place->line)
            place->line = seen->line[i];
}

/* The keys that belong to one kind of points.  */
static wm_fault_t check_points (const wm_spec_t *self, const seen_t *seen, place_t *place)
{
    const bool windows = self->points == WM_POINTS_WINDOWS;
    go_to (place, seen, "labels", "");
    for (uint32_t i = 0; i < self->n_label && windows; i++)
        if (!strcmp (self->label[i], "wire") || !strcmp (self->label[i], "time"))
            return refuse (place, "labels: the output of windows already has a column '%s'",
                           self->label[i]);
    go_to (place, seen, "step_wire", "step_bin");
    if (!windows && (self->step_wire || self->step_bin))
        return refuse (place, "step_wire and step_bin go with points: windows");
    go_to (place, seen, "tags", "");
    if (!windows && self->n_tag)
        return refuse (place, "tags: they go with points: windows");
    go_to (place, seen, "channels", "tags");
    if (windows && self->n_channel != (self->n_tag ? self->n_tag : 1))
        return refuse (place, "channels: %u, but %u tag%s: each channel of a window has its tag",
                       self->n_channel, self->n_tag, self->n_tag == 1 ? "" : "s");
    go_to (place, seen, "channels", "points");
    if (self->points == WM_POINTS_SPACEPOINTS && self->n_channel < 2)
        return refuse (place, "points: spacepoints needs channels: 3, the planes of a TPC");
    if (self->points == WM_POINTS_HITS && self->n_channel > 1)
        return refuse (place,
                       "channels: a hit has 1; more go with points: spacepoints, or windows");
    return WM_OK;
}

/* An image is put together from windows that leave no cell out.  */
static wm_fault_t check_image (const wm_spec_t *self, const seen_t *seen, place_t *place)
{
    go_to (place, seen, "result", "points");
    if (self->result != WM_RESULT_IMAGE)
        return WM_OK;
    if (self->points != WM_POINTS_WINDOWS)
        return refuse (place, "result: image goes with points: windows, which cover a plane");
    go_to (place, seen, "table", "result");
    if (!self->table[strspn (self->table, "0123456789_-")])
        return refuse (place,
                       "table: with result: image '%s' could be an event's number, which names its "
                       "frames; choose another name",
                       self->table);
    go_to (place, seen, "step_wire", "patch");
    if (self->step_wire > self->patch_wire)
        return refuse (place, "step_wire: %u leaves gaps between windows of %u wires",
                       self->step_wire, self->patch_wire);
    go_to (place, seen, "step_bin", "patch");
    if (self->step_bin > self->patch_bin)
        return refuse (place, "step_bin: %u leaves gaps between windows of %u drift bins",
                       self->step_bin, self->patch_bin);
    return WM_OK;
}

/* Rules between keys.  */
static wm_fault_t check_whole (const wm_spec_t *self, const seen_t *seen, place_t *place)
{
    go_to (place, seen, "adc", "out");
    if (self->adc_min > 0 || self->adc_max < 0)
        return refuse (place,
                       "adc: [%g, %g] does not contain 0, but 0 ADC must stay the zero level of "
                       "the image",
                       self->adc_min, self->adc_max);
    if (!isfinite (wm_spec_zero (self)) || !isfinite ((float) self->out_min) ||
        !isfinite ((float) self->out_max))
        return refuse (place, "adc and out give values beyond float32");
    go_to (place, seen, "patch", "points");
    if (self->points != WM_POINTS_WINDOWS &&
        (self->patch_wire > WM_SPEC_PATCH_MAX || self->patch_bin > WM_SPEC_PATCH_MAX))
        return refuse (place, "patch: %u x %u: around hits each is at most %u", self->patch_wire,
                       self->patch_bin, WM_SPEC_PATCH_MAX);
    go_to (place, seen, "view", "points");
    if (self->view == WM_OWN_VIEW && self->points != WM_POINTS_HITS)
        return refuse (place, "view: own is cut around hits; with points: %s write view: full",
                       self->points == WM_POINTS_WINDOWS ? "windows" : "spacepoints");
    go_to (place, seen, "view", "");
    if (self->view == WM_OWN_VIEW && wm_spec_zero (self) != 0)
        return refuse (
            place,
            "view: own is defined only where 0 ADC becomes 0, here it becomes %g; choose "
            "out_min / adc_min = (out_max - out_min) / (adc_max - adc_min)",
            (double) wm_spec_zero (self));
    wm_fault_t fault = check_points (self, seen, place);
    return fault ? fault : check_image (self, seen, place);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Levenshtein distance; longer names are cut, which is good enough for a suggestion.  */
static unsigned distance (const char *a, const char *b)
{
    unsigned row[ITEM_BYTES + 1];
    unsigned n = (unsigned) strnlen (b, ITEM_BYTES);
    for (unsigned j = 0; j <= n; j++)
        row[j] = j;
    for (unsigned i = 0; a[i]; i++) {
        unsigned corner = row[0];
        row[0] = i + 1;
        for (unsigned j = 1; j <= n; j++) {
            unsigned best = corner + (a[i] != b[j - 1]);
            corner = row[j];
            if (best > row[j] + 1)
                best = row[j] + 1;
            if (best > row[j - 1] + 1)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

static wm_fault_t find_key (const char *name, seen_t *seen, const wm_spec_key_t **key,
                            const place_t *place)
{
    uint32_t nearest = 0;
    unsigned least = ~0u;
    char small[ITEM_BYTES] = "";
    for (size_t i = 0; name[i] && i < sizeof small - 1; i++)
        small[i] = (char) tolower ((unsigned char) name[i]);
    for (uint32_t i = 0; i < WM_SPEC_KEYS; i++) {
        unsigned d = distance (small, wm_spec_keys[i].name);
        if (d < least)
            least = d, nearest = i;
    }
    *key = &wm_spec_keys[nearest];
    if (strcmp (name, wm_spec_keys[nearest].name))
        return refuse (place, "unknown key '%s'; the nearest known one is '%s'", name,
                       wm_spec_keys[nearest].name);
    if (seen->given & 1u << nearest)
        return refuse (place, "key '%s' occurs twice", name);
    seen->given |= 1u << nearest;
    seen->line[nearest] = place->line;
    return WM_OK;
}

/* ---- events ---------------------------------------------------------------------------------- */

typedef struct {
    yaml_parser_t yaml;
    const char *text;
    size_t bytes;
} parser_t;

/* Whether the line that the mark is in has a tab where YAML wants spaces.  */
static bool is_tab (const parser_t *self, size_t at)
{
    if (at > self->bytes)
        return false;
    size_t first = at;
    while (first && self->text[first - 1] != '\n')
        first--;
    const char *end = memchr (self->text + first, '\n', self->bytes - first);
    return memchr (self->text + first, '\t',
                   end ? (size_t) (end - self->text) - first : self->bytes - first) != NULL;
}

/* The next event; the caller deletes it if the answer is WM_OK.  */
static wm_fault_t next_event (parser_t *self, yaml_event_t *event, place_t *place)
{
    const yaml_parser_t *yaml = &self->yaml;
    if (!yaml_parser_parse (&self->yaml, event)) {
        place->line = yaml->problem_mark.line + 1;
        if (yaml->error == YAML_READER_ERROR)
            return refuse (place, "not YAML: byte %zu is not UTF-8 text", yaml->problem_offset);
        if (is_tab (self, yaml->problem_mark.index))
            return refuse (place, "not YAML: the line has a tab; write spaces");
        if (strstr (yaml->context ? yaml->context : "", "flow sequence")) {
            place->line = yaml->context_mark.line + 1;
            return refuse (place, "not YAML: the list is not ended by ], or a comma is missing");
        }
        return refuse (place, "not YAML: %s; a line is `key: value` or `key: [value, value]`",
                       yaml->problem ? yaml->problem : "unreadable");
    }
    place->line = event->start_mark.line + 1;
    return WM_OK;
}

static wm_fault_t expect (parser_t *parser, yaml_event_type_t type, place_t *place)
{
    yaml_event_t event;
    wm_fault_t fault = next_event (parser, &event, place);
    if (fault)
        return fault;
    if (event.type != type)
        fault =
            event.type == YAML_STREAM_END_EVENT
                ? refuse (place, "the file is empty: a specification is a flat list of "
                                 "`key: value`, such as `patch: [48, 48]`")
                : refuse (place, "a specification is one flat list of `key: value` lines, with a "
                                 "space behind the colon");
    yaml_event_delete (&event);
    return fault;
}

static wm_fault_t take_item (const yaml_event_t *event, value_t *value, const place_t *place)
{
    const char *text = (const char *) event->data.scalar.value;
    if (strlen (text) != event->data.scalar.length)
        return refuse (place, "a value has a NUL");
    text = wm_text_trim ((char *) event->data.scalar.value); /* no-break spaces, too */
    const size_t n = strlen (text);
    if (n >= ITEM_BYTES)
        return refuse (place, "a value of %zu bytes: at most %d", n, ITEM_BYTES - 1);
    if (value->count == WM_SPEC_LABELS_MAX)
        return refuse (place, "more than %d values in a list", WM_SPEC_LABELS_MAX);
    memcpy (value->item[value->count++], text, n + 1);
    return WM_OK;
}

/* A scalar, or a list of scalars. Sets *end where the mapping (or a list) ends instead.  */
static wm_fault_t read_value (parser_t *parser, value_t *value, bool *end, place_t *place)
{
    *value = (value_t){ .list = false };
    *end = false;
    for (;;) {
        yaml_event_t event;
        wm_fault_t fault = next_event (parser, &event, place);
        if (fault)
            return fault;
        yaml_event_type_t type = event.type;
        if (type == YAML_SCALAR_EVENT)
            fault = take_item (&event, value, place);
        else if (type == YAML_SEQUENCE_START_EVENT && !value->list)
            value->list = true;
        else if (type == YAML_MAPPING_END_EVENT)
            *end = true;
        else if (type != YAML_SEQUENCE_END_EVENT)
            fault = refuse (place, "values are names, numbers and lists of them, nothing nested");
        yaml_event_delete (&event);
        if (fault || *end || type == YAML_SEQUENCE_END_EVENT || !value->list)
            return fault;
    }
}

static wm_fault_t read_mapping (parser_t *parser, wm_spec_t *spec, seen_t *seen, place_t *place)
{
    for (;;) {
        value_t value;
        const wm_spec_key_t *key;
        bool end;
        wm_fault_t fault = read_value (parser, &value, &end, place);
        if (fault || end)
            return fault;
        if (value.list)
            return refuse (place, "a list where a key should be");
        if ((fault = find_key (value.item[0], seen, &key, place)) ||
            (fault = read_value (parser, &value, &end, place)) ||
            (fault = set_value (spec, key, &value, place)))
            return fault;
    }
}

wm_fault_t wm_spec_parse (wm_spec_t *self, const char *text, size_t bytes, const char *where,
                          wm_error_t *error)
{
    uint32_t ignored;
    return wm_spec_parse_user (self, text, bytes, where, &ignored, error);
}

wm_fault_t wm_spec_parse_user (wm_spec_t *self, const char *text, size_t bytes, const char *where,
                               uint32_t *given, wm_error_t *error)
{
    if (bytes > WM_SPEC_BYTES_MAX)
        return wm_fault (error, WM_EBATCH,
                         "%.100s: %zu bytes are too many for a specification (at most %u)", where,
                         bytes, WM_SPEC_BYTES_MAX);
    wm_spec_t spec;
    wm_spec_preset (&spec, WM_DEFAULT_SPEC, NULL);
    place_t place = { where, 1, error };
    parser_t parser = { .text = text, .bytes = bytes };
    if (!yaml_parser_initialize (&parser.yaml))
        return wm_fault (error, WM_EHOST, "%.100s: no memory to read it", where);
    yaml_parser_set_input_string (&parser.yaml, (const unsigned char *) text, bytes);
    wm_fault_t fault;
    seen_t seen = { 0 };
    if (!(fault = expect (&parser, YAML_STREAM_START_EVENT, &place)) &&
        !(fault = expect (&parser, YAML_DOCUMENT_START_EVENT, &place)) &&
        !(fault = expect (&parser, YAML_MAPPING_START_EVENT, &place)) &&
        !(fault = read_mapping (&parser, &spec, &seen, &place)) &&
        !(fault = expect (&parser, YAML_DOCUMENT_END_EVENT, &place)) &&
        !(fault = expect (&parser, YAML_STREAM_END_EVENT, &place)))
        fault = check_whole (&spec, &seen, &place);
    yaml_parser_delete (&parser.yaml);
    if (fault)
        return fault;
    *self = spec;
    *given = seen.given;
    return WM_OK;
}
