/* wm_spec.c - reads, checks and prints the patch specification.

   One table of keys serves parsing, printing and error texts, so that a key cannot be in
   one and not in the others. libyaml's events are read directly: a specification is one flat
   mapping of scalars and lists of scalars, and everything else (nesting, aliases, a second
   document) is refused by line.  */
#include "kernels/wm_spec.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define TEXT_BYTES_MAX (64u << 10) /* a specification is about a page */
#define ITEM_BYTES 64              /* a word or number with its NUL */
#define PATCH_SIDE_MAX 512u
#define WINDOW_MAX 64u
#define WIRES_MAX (1u << 20) /* as a batch */

typedef enum {
    NAME,     /* char[64] */
    SIDES,    /* two uint32_t */
    COUNT,    /* uint32_t */
    CHOICE,   /* enum, one of `choice` */
    RANGE,    /* two doubles, the first smaller */
    FACTORS,  /* amplitude */
    FACT,     /* double, or the word input (NaN): a fact of the event */
    POSITIVE, /* the same, > 0 */
    WIRES,    /* uint32_t, or the word input (0) */
    NAMES,    /* labels */
} kind_t;

typedef struct {
    const char *name;
    kind_t kind;
    size_t offset;
    const char *choice[4];
    uint32_t max;
} spec_key_t;

#define AT(member) offsetof (wm_spec_t, member)
static const spec_key_t keys[] = {
    { "table", NAME, AT (table), { 0 }, 0 },
    { "patch", SIDES, AT (patch_wire), { 0 }, PATCH_SIDE_MAX },
    { "drift_window", COUNT, AT (drift_window), { 0 }, WINDOW_MAX },
    { "downscale", CHOICE, AT (downscale), { "mean", "maxpool", "maxmean" }, 0 },
    { "view", CHOICE, AT (view), { "full", "own" }, 0 },
    { "adc", RANGE, AT (adc_min), { 0 }, 0 },
    { "out", RANGE, AT (out_min), { 0 }, 0 },
    { "amplitude", FACTORS, AT (amplitude), { 0 }, 0 },
    { "lifetime", CHOICE, AT (lifetime), { "none", "exp", "table" }, 0 },
    { "tau_us", POSITIVE, AT (tau_us), { 0 }, 0 },
    { "t0_us", FACT, AT (t0_us), { 0 }, 0 },
    { "tick_us", POSITIVE, AT (tick_us), { 0 }, 0 },
    { "trigger_offset", FACT, AT (trigger_offset), { 0 }, 0 },
    { "n_wire", WIRES, AT (n_wire), { 0 }, WIRES_MAX },
    { "labels", NAMES, AT (label), { 0 }, 0 },
};
enum { KEYS = sizeof keys / sizeof keys[0] };

/* The members that a key of two values fills lie side by side.  */
_Static_assert(AT (patch_bin) == AT (patch_wire) + sizeof (uint32_t), "patch");
_Static_assert(AT (adc_max) == AT (adc_min) + sizeof (double), "adc");
_Static_assert(AT (out_max) == AT (out_min) + sizeof (double), "out");
_Static_assert(sizeof (wm_downscale_t) == sizeof (int) && sizeof (wm_spec_view_t) == sizeof (int) &&
                   sizeof (wm_lifetime_t) == sizeof (int),
               "choices are stored as int");

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
    return wm_fault (place->error, WM_EBATCH, "%.100s:%zu: %s", place->where, place->line, text);
}

/* ---- values ---------------------------------------------------------------------------------- */

static wm_fault_t read_double (const char *text, const spec_key_t *key, double *number,
                               const place_t *place)
{
    char *end;
    *number = strtod (text, &end);
    if (end == text || *end || !isfinite (*number))
        return refuse (place, "%s: '%s' is not a finite number", key->name, text);
    return WM_OK;
}

static wm_fault_t read_count (const char *text, const spec_key_t *key, uint32_t *number,
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
static wm_fault_t read_name (const char *text, const spec_key_t *key, char *name, size_t bytes,
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

static wm_fault_t read_choice (const char *text, const spec_key_t *key, int *choice,
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

static wm_fault_t read_amplitudes (wm_spec_t *self, const spec_key_t *key, const value_t *value,
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

static wm_fault_t read_labels (wm_spec_t *self, const spec_key_t *key, const value_t *value,
                               const place_t *place)
{
    wm_fault_t fault = WM_OK;
    memset (self->label, 0, sizeof self->label);
    self->n_label = value->count;
    for (uint32_t i = 0; !fault && i < value->count; i++) {
        fault = read_name (value->item[i], key, self->label[i], sizeof self->label[i], place);
        for (uint32_t k = 0; !fault && k < i; k++)
            if (strcmp (self->label[i], self->label[k]) == 0)
                fault = refuse (place, "%s: '%s' occurs twice", key->name, value->item[i]);
    }
    return fault;
}

/* How many values a key takes, and whether as a list.  */
static wm_fault_t check_shape (const spec_key_t *key, const value_t *value, const place_t *place)
{
    uint32_t least = 1, most = 1;
    bool list = true;
    switch (key->kind) {
    case SIDES:
    case RANGE:
        least = most = 2;
        break;
    case FACTORS:
        most = WM_SPEC_AMPLITUDES_MAX;
        break;
    case NAMES:
        least = 0, most = WM_SPEC_LABELS_MAX;
        break;
    default:
        list = false;
    }
    if (list != value->list)
        return refuse (place,
                       list ? "%s takes a list: [..., ...]" : "%s takes one value, not a list",
                       key->name);
    if (value->count < least || value->count > most)
        return refuse (place, "%s: %u values, it takes %u to %u", key->name, value->count, least,
                       most);
    return WM_OK;
}

static wm_fault_t set_value (wm_spec_t *self, const spec_key_t *key, const value_t *value,
                             const place_t *place)
{
    void *at = (char *) self + key->offset;
    const char *text = value->item[0];
    double *number = at;
    wm_fault_t fault = check_shape (key, value, place);
    if (fault)
        return fault;
    switch (key->kind) {
    case NAME:
        memset (at, 0, sizeof self->table);
        return read_name (text, key, at, sizeof self->table, place);
    case SIDES:
        fault = read_count (text, key, at, place);
        return fault ? fault : read_count (value->item[1], key, (uint32_t *) at + 1, place);
    case COUNT:
        return read_count (text, key, at, place);
    case CHOICE:
        return read_choice (text, key, at, place);
    case RANGE:
        if ((fault = read_double (text, key, number, place)) ||
            (fault = read_double (value->item[1], key, number + 1, place)))
            return fault;
        return number[0] < number[1]
                   ? WM_OK
                   : refuse (place, "%s: %s is not below %s", key->name, text, value->item[1]);
    case FACTORS:
        return read_amplitudes (self, key, value, place);
    case FACT:
    case POSITIVE:
        *number = NAN;
        if (strcmp (text, "input") == 0)
            return WM_OK;
        fault = read_double (text, key, number, place);
        return fault || key->kind == FACT || *number > 0
                   ? fault
                   : refuse (place, "%s: %s is not above 0", key->name, text);
    case WIRES:
        self->n_wire = 0;
        return strcmp (text, "input") == 0 ? WM_OK : read_count (text, key, at, place);
    case NAMES:
        return read_labels (self, key, value, place);
    }
    return WM_OK;
}

/* Rules between keys.  */
static wm_fault_t check_whole (const wm_spec_t *self, const char *where, wm_error_t *error)
{
    if (self->adc_min > 0 || self->adc_max < 0)
        return wm_fault (error, WM_EBATCH,
                         "%.100s: adc: [%g, %g] does not contain 0, but 0 ADC must stay the zero "
                         "level of the image",
                         where, self->adc_min, self->adc_max);
    if (!isfinite (wm_spec_zero (self)) || !isfinite ((float) self->out_min) ||
        !isfinite ((float) self->out_max))
        return wm_fault (error, WM_EBATCH, "%.100s: adc and out give values beyond float32", where);
    if (self->view == WM_OWN_VIEW && wm_spec_zero (self) != 0)
        return wm_fault (error, WM_EBATCH,
                         "%.100s: view: own is defined only where 0 ADC becomes 0, here it becomes "
                         "%g; choose out_min / adc_min = (out_max - out_min) / (adc_max - adc_min)",
                         where, (double) wm_spec_zero (self));
    return WM_OK;
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

static wm_fault_t find_key (const char *name, uint32_t *seen, const spec_key_t **key,
                            const place_t *place)
{
    uint32_t nearest = 0;
    unsigned least = ~0u;
    for (uint32_t i = 0; i < KEYS; i++) {
        unsigned d = distance (name, keys[i].name);
        if (d < least)
            least = d, nearest = i;
    }
    *key = &keys[nearest];
    if (least)
        return refuse (place, "unknown key '%s'; the nearest known one is '%s'", name,
                       keys[nearest].name);
    if (*seen & 1u << nearest)
        return refuse (place, "key '%s' occurs twice", name);
    *seen |= 1u << nearest;
    return WM_OK;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The next event; the caller deletes it if the answer is WM_OK.  */
static wm_fault_t next_event (yaml_parser_t *parser, yaml_event_t *event, place_t *place)
{
    if (!yaml_parser_parse (parser, event)) {
        place->line = parser->problem_mark.line + 1;
        return refuse (place, "not YAML: %s", parser->problem ? parser->problem : "unreadable");
    }
    place->line = event->start_mark.line + 1;
    return WM_OK;
}

static wm_fault_t expect (yaml_parser_t *parser, yaml_event_type_t type, place_t *place)
{
    yaml_event_t event;
    wm_fault_t fault = next_event (parser, &event, place);
    if (fault)
        return fault;
    if (event.type != type)
        fault = refuse (place, "a specification is one flat list of `key: value`");
    yaml_event_delete (&event);
    return fault;
}

static wm_fault_t take_item (const yaml_event_t *event, value_t *value, const place_t *place)
{
    const char *text = (const char *) event->data.scalar.value;
    size_t n = event->data.scalar.length;
    if (n >= ITEM_BYTES || strlen (text) != n)
        return refuse (place, "a value of %zu bytes: at most %d, no NUL", n, ITEM_BYTES - 1);
    if (value->count == WM_SPEC_LABELS_MAX)
        return refuse (place, "more than %d values in a list", WM_SPEC_LABELS_MAX);
    memcpy (value->item[value->count++], text, n + 1);
    return WM_OK;
}

/* A scalar, or a list of scalars. Sets *end where the mapping (or a list) ends instead.  */
static wm_fault_t read_value (yaml_parser_t *parser, value_t *value, bool *end, place_t *place)
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

/* seen: a bit for each of `keys` that is there.  */
static wm_fault_t read_mapping (yaml_parser_t *parser, wm_spec_t *spec, uint32_t *seen,
                                place_t *place)
{
    for (*seen = 0;;) {
        value_t value;
        const spec_key_t *key;
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
    int ignored;
    return wm_spec_parse_user (self, text, bytes, where, &ignored, error);
}

wm_fault_t wm_spec_parse_user (wm_spec_t *self, const char *text, size_t bytes, const char *where,
                               int *labelled, wm_error_t *error)
{
    if (bytes > TEXT_BYTES_MAX)
        return wm_fault (error, WM_EBATCH,
                         "%.100s: %zu bytes are too many for a specification (at most %u)", where,
                         bytes, TEXT_BYTES_MAX);
    wm_spec_t spec;
    wm_spec_preset (&spec, "protodune-2021", NULL);
    place_t place = { where, 1, error };
    yaml_parser_t parser;
    if (!yaml_parser_initialize (&parser))
        return wm_fault (error, WM_EHOST, "%.100s: no memory to read it", where);
    yaml_parser_set_input_string (&parser, (const unsigned char *) text, bytes);
    wm_fault_t fault;
    uint32_t seen = 0;
    if (!(fault = expect (&parser, YAML_STREAM_START_EVENT, &place)) &&
        !(fault = expect (&parser, YAML_DOCUMENT_START_EVENT, &place)) &&
        !(fault = expect (&parser, YAML_MAPPING_START_EVENT, &place)) &&
        !(fault = read_mapping (&parser, &spec, &seen, &place)) &&
        !(fault = expect (&parser, YAML_DOCUMENT_END_EVENT, &place)) &&
        !(fault = expect (&parser, YAML_STREAM_END_EVENT, &place)))
        fault = check_whole (&spec, where, error);
    yaml_parser_delete (&parser);
    if (fault)
        return fault;
    *self = spec;
    *labelled = 0;
    for (uint32_t i = 0; i < KEYS; i++)
        if (keys[i].kind == NAMES)
            *labelled = seen >> i & 1;
    return WM_OK;
}

/* ---- canonical text -------------------------------------------------------------------------- */

typedef struct {
    char *text;
    size_t bytes_max, bytes;
} page_t;

__attribute__ ((format (printf, 2, 3))) static void put (page_t *page, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    int n = vsnprintf (page->text + page->bytes, page->bytes_max - page->bytes, format, arguments);
    va_end (arguments);
    page->bytes += (size_t) n;
    if (page->bytes >= page->bytes_max)
        page->bytes = page->bytes_max - 1;
}

/* The shortest text that reads back as the same double: 30, not 3e+01.  */
static void put_double (page_t *page, double number)
{
    char text[32], shortest[32] = "";
    for (int digits = 1; digits <= 17; digits++) {
        snprintf (text, sizeof text, "%.*g", digits, number);
        if (strtod (text, NULL) == number && (!*shortest || strlen (text) < strlen (shortest)))
            memcpy (shortest, text, sizeof text);
    }
    put (page, "%s", shortest);
}

static void put_value (page_t *page, const wm_spec_t *self, const spec_key_t *key)
{
    const void *at = (const char *) self + key->offset;
    const uint32_t *count = at;
    const double *number = at;
    switch (key->kind) {
    case NAME:
        put (page, "%s", (const char *) at);
        break;
    case SIDES:
        put (page, "[%u, %u]", count[0], count[1]);
        break;
    case COUNT:
        put (page, "%u", *count);
        break;
    case CHOICE:
        put (page, "%s", key->choice[*(const int *) at]);
        break;
    case RANGE:
    case FACTORS:
        for (uint32_t i = 0; i < (key->kind == RANGE ? 2 : self->n_amplitude); i++) {
            put (page, i ? ", " : "[");
            put_double (page, number[i]);
        }
        put (page, "]");
        break;
    case FACT:
    case POSITIVE:
        if (isnan (*number))
            put (page, "input");
        else
            put_double (page, *number);
        break;
    case WIRES:
        if (*count)
            put (page, "%u", *count);
        else
            put (page, "input");
        break;
    case NAMES:
        put (page, "[");
        for (uint32_t i = 0; i < self->n_label; i++)
            put (page, "%s%s", i ? ", " : "", self->label[i]);
        put (page, "]");
    }
}

size_t wm_spec_print (const wm_spec_t *self, char *text, size_t bytes_max)
{
    page_t page = { text, bytes_max, 0 };
    for (uint32_t i = 0; i < KEYS; i++) {
        put (&page, "%s: ", keys[i].name);
        put_value (&page, self, &keys[i]);
        put (&page, "\n");
    }
    return page.bytes;
}
