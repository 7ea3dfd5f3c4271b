/* wm_pins.c - prints, parses and compares the pins of a campaign.  */
#include "schema/wm_pins.h"
#include "schema/wm_defaults.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* One pin: its key in the text, and where its value lies.  */
typedef struct {
    const char *key;
    size_t offset, size; /* size 0: a uint32_t, else a string with its NUL */
    bool optional;       /* there is no line where it is empty */
    const char *option;  /* that people type for it; NULL: it follows from others */
} pin_t;

#define TEXT(member) offsetof (wm_pins_t, member), sizeof (((wm_pins_t *) 0)->member), false
#define MAYBE(member) offsetof (wm_pins_t, member), sizeof (((wm_pins_t *) 0)->member), true
#define NUMBER(member) offsetof (wm_pins_t, member), 0, false
static const pin_t pins[] = {
    { "model", TEXT (model), "--model" },
    { "wmm", TEXT (wmm), NULL },
    { "precision", TEXT (precision), "--precision" },
    { "n_output", NUMBER (n_output), NULL },
    { "n_value", NUMBER (n_value), NULL },
    { "batch_hits", NUMBER (batch_hits), "--batch-hits" },
    { "batch_bytes", NUMBER (batch_bytes), NULL },
    { "output", TEXT (output), "--output" }, /* from here on: not in the digest */
    { "max_error", MAYBE (max_error), "--max-error" },
    { "cut", MAYBE (cut), NULL },
    { "planes", MAYBE (planes), "--planes" },
    { "channels", MAYBE (channels), "--channels" },
    { "hit_time", MAYBE (hit_time), "--hit-time" },
    { "hit_offset", MAYBE (hit_offset), "--hit-offset" },
    { "pedestal", MAYBE (pedestal), "--pedestal" },
    { "layout", MAYBE (layout), "--layout" },
    { "serves", MAYBE (serves), "--clients" },
    { "lengths", MAYBE (lengths), NULL },
    { "types", MAYBE (types), NULL },
    { "judged_by", MAYBE (judged_by), NULL },
};
#define PINS (sizeof pins / sizeof *pins)
#define PINS_DIGEST 7 /* those before output */
static_assert (sizeof (wm_pins_t) + 220 <= WM_PINS_BYTES_MAX, "keys and digits fit too");

static void value_print (const wm_pins_t *self, const pin_t *pin, char text[1100])
{
    const char *at = (const char *) self + pin->offset;
    uint32_t number;
    memcpy (&number, at, sizeof number);
    if (pin->size)
        snprintf (text, 1100, "%.*s", (int) pin->size, at);
    else
        snprintf (text, 1100, "%u", number);
}

static size_t print (const wm_pins_t *self, size_t pin_count, char text[WM_PINS_BYTES_MAX])
{
    size_t length = 0;
    for (size_t i = 0; i < pin_count; i++) {
        char value[1100];
        value_print (self, &pins[i], value);
        if (pins[i].optional && !*value)
            continue;
        length += (size_t) snprintf (text + length, WM_PINS_BYTES_MAX - length, "%s: %s\n",
                                     pins[i].key, value);
    }
    length += (size_t) snprintf (text + length, WM_PINS_BYTES_MAX - length, "---\n%s", self->spec);
    return length;
}

size_t wm_pins_print (const wm_pins_t *self, char text[WM_PINS_BYTES_MAX])
{
    return print (self, PINS, text);
}

void wm_pins_digest (const wm_pins_t *self, uint8_t digest[16])
{
    char text[WM_PINS_BYTES_MAX];
    size_t length = print (self, PINS_DIGEST, text);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash (&canonical, XXH3_128bits (text, length));
    memcpy (digest, canonical.digest, 16);
}

/* Reads "key: value\n" at *text into the pin; moves *text behind it.  */
static int pin_parse (wm_pins_t *self, const pin_t *pin, const char **text, const char *end)
{
    size_t key = strlen (pin->key);
    const char *at = *text;
    const char *newline = memchr (at, '\n', (size_t) (end - at));
    if (pin->optional &&
        ((size_t) (end - at) < key + 2 || memcmp (at, pin->key, key) || memcmp (at + key, ": ", 2)))
        return 0;
    if (!newline || (size_t) (newline - at) < key + 2 || memcmp (at, pin->key, key) ||
        memcmp (at + key, ": ", 2))
        return -1;
    const char *value = at + key + 2;
    size_t length = (size_t) (newline - value);
    char *to = (char *) self + pin->offset;
    if (pin->size) {
        if (length >= pin->size || memchr (value, 0, length))
            return -1;
        memcpy (to, value, length);
        to[length] = 0;
    } else {
        char digits[11], *rest;
        if (length < 1 || length > 10 || value[0] < '0' || value[0] > '9')
            return -1;
        memcpy (digits, value, length);
        digits[length] = 0;
        unsigned long number = strtoul (digits, &rest, 10);
        if (*rest || number > UINT32_MAX)
            return -1;
        memcpy (to, &(uint32_t){ (uint32_t) number }, sizeof (uint32_t));
    }
    *text = newline + 1;
    return 0;
}

wm_fault_t wm_pins_parse (wm_pins_t *self, const char *text, size_t bytes, wm_error_t *error)
{
    memset (self, 0, sizeof *self);
    const char *end = text + bytes;
    if (bytes >= WM_PINS_BYTES_MAX)
        return wm_fault (error, WM_EPEER, "campaign pins: %zu bytes, more than %u", bytes,
                         WM_PINS_BYTES_MAX);
    for (size_t i = 0; i < PINS; i++)
        if (pin_parse (self, &pins[i], &text, end))
            return wm_fault (error, WM_EPEER, "campaign pins: no valid line '%s'", pins[i].key);
    if (end - text < 4 || memcmp (text, "---\n", 4))
        return wm_fault (error, WM_EPEER, "campaign pins: no line '---' before the specification");
    text += 4;
    size_t length = (size_t) (end - text);
    if (length >= sizeof self->spec || memchr (text, 0, length))
        return wm_fault (error, WM_EPEER, "campaign pins: specification is no text below %zu bytes",
                         sizeof self->spec);
    memcpy (self->spec, text, length);
    if (*self->lengths && strcmp (self->lengths, "vary") != 0)
        return wm_fault (error, WM_EPEER, "campaign pins: lengths of an unknown kind");
    if (*self->types && strcmp (self->types, "exact") != 0)
        return wm_fault (error, WM_EPEER, "campaign pins: types of an unknown kind");
    if (self->n_output < 1 || self->n_output > WM_ANSWER_VALUES_MAX || self->n_value < 1 ||
        self->n_value > WM_PATCH_BYTES_MAX / 4 || self->batch_hits < 1 || self->batch_bytes < 1 ||
        self->batch_bytes > WM_RAW_BYTES_MAX)
        return wm_fault (error, WM_EPEER, "campaign pins: a number is out of its range");
    return WM_OK;
}

const char *wm_pins_rows (const char *spec)
{
    static const char *const words[][2] = { { "\nresult: image\n", "tiles" },
                                            { "\npoints: windows\n", "windows" },
                                            { "\npoints: spacepoints\n", "space points" } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr (spec, words[i][0]))
            return words[i][1];
    return "hits";
}

double wm_pins_max_error (const wm_pins_t *self)
{
    return *self->max_error ? strtod (self->max_error, NULL)
           : strcmp (self->precision, "fast") == 0 || strcmp (self->precision, "split") == 0
               ? wm_default_error (self->precision) /* from before max_error was a pin */
               : 0;
}

/* Length of the line at `text`, without its end.  */
static int line_length (const char *text)
{
    return (int) strcspn (text, "\n");
}

static const char *next_line (const char *text)
{
    return text + line_length (text) + (text[line_length (text)] == '\n');
}

static bool same_line (const char *a, const char *b)
{
    return line_length (a) == line_length (b) && !memcmp (a, b, (size_t) line_length (a));
}

/* Whether two lines are the patch size of a campaign whose patches cannot be cut: its inputs are
   ready-made, and the size means nothing. Releases before this one pinned the preset's there, not
   the model's own.  */
static int is_idle_patch (const wm_pins_t *pinned, const char *a, const char *b)
{
    unsigned wire, bin;
    return sscanf (a, "patch: [%u, %u]", &wire, &bin) == 2 && wire * bin != pinned->n_value &&
           !strncmp (b, "patch: ", strlen ("patch: "));
}

/* Whether a campaign that is older than a pin, or its default, goes on under what is given now.  */
static bool keeps_own (const pin_t *pin, const wm_pins_t *pinned, const wm_pins_t *given)
{
    switch (pin->offset) {
    case offsetof (wm_pins_t, max_error):
        return !*pinned->max_error && wm_pins_max_error (pinned) == wm_pins_max_error (given);
    case offsetof (wm_pins_t, batch_hits):
        return !*pinned->cut && pinned->batch_hits == WM_DEFAULT_BATCH_GENERAL &&
               given->batch_hits == WM_DEFAULT_BATCH_HITS;
    case offsetof (wm_pins_t, cut):
        return !*pinned->cut;
    case offsetof (wm_pins_t, judged_by):
        return !*pinned->judged_by;
    default:
        return false;
    }
}

/* Names an option of which one side has nothing, as people type it. WM_OK: the pin is another.  */
static wm_fault_t option_differs (const pin_t *pin, const char *pinned, const char *given,
                                  wm_error_t *error)
{
    static const struct {
        size_t offset;
        const char *none; /* what an empty pin stands for; NULL: the option is not given */
    } options[] = { { offsetof (wm_pins_t, planes), NULL },
                    { offsetof (wm_pins_t, channels), NULL },
                    { offsetof (wm_pins_t, hit_time), NULL },
                    { offsetof (wm_pins_t, layout), "wiremill" } };
    const char *name = pin->option;
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const char *none = options[i].none;
        if (options[i].offset != pin->offset || (!none && *pinned && *given))
            continue;
        if (none)
            return wm_fault (error, WM_EBATCH,
                             "this campaign was begun with %s %.150s, not %s %.150s", name,
                             *pinned ? pinned : none, name, *given ? given : none);
        if (*pinned)
            return wm_fault (error, WM_EBATCH,
                             "this campaign was begun with %s %.150s, which this command lacks",
                             name, pinned);
        return wm_fault (error, WM_EBATCH,
                         "this campaign was begun without %s, and this command gives %s %.150s",
                         name, name, given);
    }
    return WM_OK;
}

/* Digits and letters of a pin that people are shown: of digests 12, as everywhere.  */
static int shown (const pin_t *pin)
{
    return pin->offset == offsetof (wm_pins_t, model) || pin->offset == offsetof (wm_pins_t, wmm)
               ? 12
               : 150;
}

wm_fault_t wm_pins_compare (const wm_pins_t *pinned, const wm_pins_t *given, wm_error_t *error)
{
    for (size_t i = 0; i < PINS; i++) {
        char a[1100], b[1100];
        value_print (pinned, &pins[i], a);
        value_print (given, &pins[i], b);
        if (strcmp (a, b) && !keeps_own (&pins[i], pinned, given))
            return option_differs (&pins[i], a, b, error)
                       ? WM_EBATCH
                       : wm_fault (error, WM_EBATCH,
                                   "this campaign is pinned to %s '%.*s', not '%.*s'",
                                   pins[i].key, shown (&pins[i]), a, shown (&pins[i]), b);
    }
    const char *a = pinned->spec, *b = given->spec;
    while (*a && *b && (same_line (a, b) || is_idle_patch (pinned, a, b))) {
        a = next_line (a);
        b = next_line (b);
    }
    if (*a || *b)
        return wm_fault (error, WM_EBATCH, "this campaign is pinned to '%.*s', not '%.*s'",
                         line_length (a) < 150 ? line_length (a) : 150, a,
                         line_length (b) < 150 ? line_length (b) : 150, b);
    return WM_OK;
}

/* Appends one setting to a list, and what it was, which is empty where it was not given.  */
static void add_change (char *text, size_t bytes, const char *name, size_t name_bytes,
                        const char *was, size_t was_bytes)
{
    const size_t n = strlen (text);
    snprintf (text + n, bytes - n, "%s%.*s (was %.*s)", n ? ", " : "", (int) name_bytes, name,
              was_bytes ? (int) was_bytes : 9, was_bytes ? was : "not given");
}

/* The line of a specification that has the key of `line`; NULL: none.  */
static const char *line_of_key (const char *spec, const char *line)
{
    const size_t key = strcspn (line, ":\n") + 1;
    while (*spec && strncmp (spec, line, key) != 0)
        spec = next_line (spec);
    return *spec ? spec : NULL;
}

/* Lists the lines of `spec`, the new specification, that the old one, `other`, has otherwise or has
   not; or those of the old one that the new one has not.  */
static void spec_changes (const wm_pins_t *pinned, const char *spec, const char *other, bool is_new,
                          char *text, size_t bytes)
{
    for (const char *line = spec; *line; line = next_line (line)) {
        const char *its = line_of_key (other, line), *was = is_new ? its : line;
        const size_t key = strcspn (line, ":\n");
        if (its && (!is_new || same_line (its, line) || is_idle_patch (pinned, its, line)))
            continue;
        const size_t skip = was ? key + strspn (was + key, ": ") : 0;
        add_change (text, bytes, line, key, was ? was + skip : "",
                    was ? (size_t) line_length (was) - skip : 0);
    }
}

void wm_pins_changes (const wm_pins_t *pinned, const wm_pins_t *given, char *text, size_t bytes)
{
    *text = 0;
    for (size_t i = 0; i < PINS; i++) {
        char a[1100], b[1100];
        const char *name = pins[i].option;
        value_print (pinned, &pins[i], a);
        value_print (given, &pins[i], b);
        const bool follows = !name || pins[i].offset == offsetof (wm_pins_t, max_error);
        if (strcmp (a, b) == 0 || keeps_own (&pins[i], pinned, given) || (follows && *text))
            continue; /* of the model or the precision */
        name = name ? name : pins[i].key;
        add_change (text, bytes, name, strlen (name), a, pins[i].offset ? strlen (a) : 12);
    }
    spec_changes (pinned, given->spec, pinned->spec, true, text, bytes);
    spec_changes (pinned, pinned->spec, given->spec, false, text, bytes);
}
