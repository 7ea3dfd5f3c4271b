/* wm_spec_print.c - the keys of a patch specification, and its texts: canonical, commented, in
   units.  */
#include "kernels/patch/wm_spec_private.h"
#include "schema/wm_defaults.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW_MAX 64u
#define WIRES_MAX (1u << 20) /* as a batch */
#define STEP_MAX (1u << 24)  /* likewise */

#define AT(member) offsetof (wm_spec_t, member)
/* clang-format off */
const wm_spec_key_t wm_spec_keys[WM_SPEC_KEYS] = {
    { "table", WM_SPEC_NAME, AT (table), "in each output",
      "Name of the table of scores in each output: letters, digits, _ and -.", { 0 }, 0 },
    { "patch", WM_SPEC_SIDES, AT (patch_wire), "wires x drift bins",
      "Size of a patch, [wires, drift bins], each from 1 to 512 (windows: 16384).\n"
      "Without this key a campaign takes the size of its model's input.",
      { 0 }, WM_SPEC_WINDOW_MAX },
    { "drift_window", WM_SPEC_COUNT, AT (drift_window), "ticks a drift bin",
      "Ticks that become one drift bin, from 1 to 64.", { 0 }, WINDOW_MAX },
    { "downscale", WM_SPEC_CHOICE, AT (downscale), "of the ticks of a bin",
      "How the ticks of a bin become one value: mean; maxpool, the largest; maxmean,\n"
      "the mean of the largest and the two ticks beside it.", { "mean", "maxpool", "maxmean" }, 0 },
    { "view", WM_SPEC_CHOICE, AT (view), "",
      "full: the plane is downscaled as a whole, then patches are cut from it.\n"
      "own: the ticks around each hit are cut, then downscaled; 0 ADC must become 0.",
      { "full", "own" }, 0 },
    { "adc", WM_SPEC_RANGE, AT (adc_min), "ADC after amplitude",
      "Lowest and highest ADC, after amplitude; values beyond them are set to them.\n"
      "0 lies between them.", { 0 }, 0 },
    { "out", WM_SPEC_RANGE, AT (out_min), "pixel values",
      "The pixel values that the lowest and the highest ADC become; linear between.", { 0 }, 0 },
    { "amplitude", WM_SPEC_FACTORS, AT (amplitude), "by plane",
      "Factors on ADC for plane 0, 1, 2, ... (1 to 8, above 0); further planes take\n"
      "the last.", { 0 }, 0 },
    { "lifetime", WM_SPEC_CHOICE, AT (lifetime), "",
      "Correction for the electron lifetime: none; exp, each tick is multiplied by\n"
      "exp (((tick - trigger_offset) tick_us - t0_us) / tau_us); table, by factors in\n"
      "the input (event_table/lifetime).", { "none", "exp", "table" }, 0 },
    { "tau_us", WM_SPEC_POSITIVE, AT (tau_us), "us",
      "Electron lifetime in us, above 0; input: each input states it.", { 0 }, 0 },
    { "t0_us", WM_SPEC_FACT, AT (t0_us), "us after the trigger",
      "Start of the drift, in us after the trigger.", { 0 }, 0 },
    { "tick_us", WM_SPEC_POSITIVE, AT (tick_us), "us a tick",
      "Length of a tick in us, above 0; input: each input states it.", { 0 }, 0 },
    { "trigger_offset", WM_SPEC_FACT, AT (trigger_offset), "ticks",
      "Tick of the trigger; input: each input states it.", { 0 }, 0 },
    { "n_wire", WM_SPEC_WIRES, AT (n_wire), "wires a plane",
      "Wires of every plane, from 1 to 1048576; input: each input states them.",
      { 0 }, WIRES_MAX },
    { "labels", WM_SPEC_NAMES, AT (label), "",
      "Columns of the scores, in the order of the model's outputs; []: the names of\n"
      "the outputs. Without this key a preset's labels are taken for the networks\n"
      "that they were made for, else the names of the outputs.", { 0 }, 0 },
    { "points", WM_SPEC_CHOICE, AT (points), "",
      "Where patches are cut: hits, around each; spacepoints, around the hits of each\n"
      "in the planes of its TPC, a channel a plane; windows, side by side.",
      { "hits", "spacepoints", "windows" }, 0 },
    { "step_wire", WM_SPEC_STEP, AT (step_wire), "wires",
      "Of windows: wires from one to the next; patch: the wires of a patch.", { 0 }, WIRES_MAX },
    { "step_bin", WM_SPEC_STEP, AT (step_bin), "drift bins",
      "Of windows: drift bins from one to the next; patch: the bins of a patch.",
      { 0 }, STEP_MAX },
    { "channels", WM_SPEC_COUNT, AT (n_channel), "a patch",
      "Channels of a patch: of spacepoints the planes 0, 1, ... of a TPC, of windows\n"
      "the frames of `tags`.", { 0 }, WM_SPEC_CHANNELS_MAX },
    { "tags", WM_SPEC_TAGS, AT (tag), "",
      "Of windows: tags of the Wire-Cell frames that fill the channels, in order.",
      { 0 }, 0 },
    { "result", WM_SPEC_CHOICE, AT (result), "",
      "scores: a few values a patch, columns of the output's table; image: a value\n"
      "for each cell of a window, stitched to a frame of each event.",
      { "scores", "image" }, 0 },
    { "hit_check", WM_SPEC_CHOICE, AT (hit_check), "",
      "charge: an input is held whose hits find no more charge at their times than\n"
      "elsewhere on their wires, or mostly empty patches; none: it is scored.",
      { "charge", "none" }, 0 },
};
/* clang-format on */

/* The members that a key of two values fills lie side by side.  */
_Static_assert(AT (patch_bin) == AT (patch_wire) + sizeof (uint32_t), "patch");
_Static_assert(AT (adc_max) == AT (adc_min) + sizeof (double), "adc");
_Static_assert(AT (out_max) == AT (out_min) + sizeof (double), "out");
_Static_assert(sizeof (wm_downscale_t) == sizeof (int) && sizeof (wm_spec_view_t) == sizeof (int) &&
                   sizeof (wm_lifetime_t) == sizeof (int) && sizeof (wm_points_t) == sizeof (int) &&
                   sizeof (wm_result_t) == sizeof (int) && sizeof (wm_hit_check_t) == sizeof (int),
               "choices are stored as int");

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

static void put_names (page_t *page, const char (*name)[32], uint32_t count)
{
    put (page, "[");
    for (uint32_t i = 0; i < count; i++)
        put (page, "%s%s", i ? ", " : "", name[i]);
    put (page, "]");
}

static void put_value (page_t *page, const wm_spec_t *self, const wm_spec_key_t *key)
{
    const void *at = (const char *) self + key->offset;
    const uint32_t *count = at;
    const double *number = at;
    switch (key->kind) {
    case WM_SPEC_NAME:
        put (page, "%s", (const char *) at);
        break;
    case WM_SPEC_SIDES:
        put (page, "[%u, %u]", count[0], count[1]);
        break;
    case WM_SPEC_COUNT:
        put (page, "%u", *count);
        break;
    case WM_SPEC_CHOICE:
        put (page, "%s", key->choice[*(const int *) at]);
        break;
    case WM_SPEC_RANGE:
    case WM_SPEC_FACTORS:
        for (uint32_t i = 0; i < (key->kind == WM_SPEC_RANGE ? 2 : self->n_amplitude); i++) {
            put (page, i ? ", " : "[");
            put_double (page, number[i]);
        }
        put (page, "]");
        break;
    case WM_SPEC_FACT:
    case WM_SPEC_POSITIVE:
        if (isnan (*number))
            put (page, "input");
        else
            put_double (page, *number);
        break;
    case WM_SPEC_WIRES:
        if (*count)
            put (page, "%u", *count);
        else
            put (page, "input");
        break;
    case WM_SPEC_STEP:
        if (*count)
            put (page, "%u", *count);
        else
            put (page, "patch");
        break;
    case WM_SPEC_NAMES:
        put_names (page, self->label, self->n_label);
        break;
    case WM_SPEC_TAGS:
        put_names (page, self->tag, self->n_tag);
    }
}

/* Whether a key that came later has the value that all campaigns before it had.  */
static bool is_old (const wm_spec_t *self, uint32_t i)
{
    uint32_t value;
    if (i < WM_SPEC_KEYS_FIRST)
        return false;
    if (wm_spec_keys[i].kind == WM_SPEC_TAGS)
        return !self->n_tag;
    memcpy (&value, (const char *) self + wm_spec_keys[i].offset, sizeof value);
    return value == (wm_spec_keys[i].kind == WM_SPEC_COUNT);
}

size_t wm_spec_print (const wm_spec_t *self, char *text, size_t bytes_max)
{
    page_t page = { text, bytes_max, 0 };
    for (uint32_t i = 0; i < WM_SPEC_KEYS; i++) {
        if (is_old (self, i))
            continue;
        put (&page, "%s: ", wm_spec_keys[i].name);
        put_value (&page, self, &wm_spec_keys[i]);
        put (&page, "\n");
    }
    return page.bytes;
}

/* ---- for people ------------------------------------------------------------------------------ */

/* Each line of `text` behind `before`.  */
static void put_lines (page_t *page, const char *before, const char *text)
{
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn (text, "\n");
        put (page, "%s%.*s\n", before, (int) n, text);
    }
}

size_t wm_spec_print_page (const wm_spec_t *self, const char *preset, char *text, size_t bytes_max)
{
    page_t page = { text, bytes_max, 0 };
    put (&page,
         "# A patch specification of wiremill: how the plane around a hit becomes a patch.\n"
         "# The values are those of the preset %s.\n"
         "# Change what differs, and give the file to --spec.\n"
         "# A key that is left out has its value in %s.\n",
         preset, WM_DEFAULT_SPEC);
    for (uint32_t i = 0; i < WM_SPEC_KEYS; i++) {
        put (&page, "\n");
        put_lines (&page, "# ", wm_spec_keys[i].help);
        put (&page, "%s: ", wm_spec_keys[i].name);
        put_value (&page, self, &wm_spec_keys[i]);
        put (&page, "\n");
    }
    return page.bytes;
}

/* What a value means: "32 wires x 32 drift bins", "-10 to 30 ADC after amplitude".  */
static void explain_value (page_t *page, const wm_spec_t *self, const wm_spec_key_t *key)
{
    const void *at = (const char *) self + key->offset;
    const uint32_t *count = at;
    const double *number = at;
    if (key->kind == WM_SPEC_SIDES)
        put (page, "%u wires x %u drift bins", count[0], count[1]);
    else if (key->kind == WM_SPEC_RANGE) {
        put_double (page, number[0]);
        put (page, " to ");
        put_double (page, number[1]);
        put (page, " %s", key->unit);
    } else if ((key->kind == WM_SPEC_WIRES && !*count) ||
               (key->kind == WM_SPEC_POSITIVE && isnan (*number)) ||
               (key->kind == WM_SPEC_FACT && isnan (*number)))
        put (page, at == &self->t0_us ? "0 %s" : "as each input states it, in %s", key->unit);
    else if (key->kind == WM_SPEC_STEP && !*count)
        put (page, "as many %s as a patch has", key->unit);
    else {
        put_value (page, self, key);
        put (page, *key->unit ? " %s" : "%s", key->unit);
    }
}

size_t wm_spec_explain (const wm_spec_t *self, uint32_t given, char *text, size_t bytes_max)
{
    page_t page = { text, bytes_max, 0 };
    for (uint32_t i = 0; i < WM_SPEC_KEYS; i++) {
        put (&page, "  %-15s ", wm_spec_keys[i].name);
        explain_value (&page, self, &wm_spec_keys[i]);
        put (&page, given >> i & 1                          ? "\n"
                    : wm_spec_keys[i].kind == WM_SPEC_SIDES ? " (or the model's own size)\n"
                    : wm_spec_keys[i].kind == WM_SPEC_NAMES ? "\n                  (or the names "
                                                              "of the model's outputs)\n"
                                                            : " (default)\n");
    }
    put (&page, "  0 ADC becomes the pixel value ");
    put_double (&page, (double) wm_spec_zero (self));
    put (&page, ". A patch covers %u ticks", self->patch_bin * self->drift_window);
    if (self->tick_us > 0) {
        put (&page, ", ");
        put_double (&page, self->patch_bin * self->drift_window * self->tick_us);
        put (&page, " us");
    }
    put (&page, ".\n");
    return page.bytes;
}

int wm_spec_is_column (const char *name)
{
    /* As producer/writing/wm_writer.c.  */
    static const char *const columns[] = { "run",   "subrun", "event",       "cryostat", "tpc",
                                           "plane", "hit_id", "in_fiducial", "status",   "engine" };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (!strcmp (name, columns[i]))
            return 1;
    return 0;
}

int wm_spec_gives (uint32_t given, const char *key)
{
    for (uint32_t i = 0; i < WM_SPEC_KEYS; i++)
        if (!strcmp (wm_spec_keys[i].name, key))
            return given >> i & 1;
    return 0;
}
