/* report.c - `wiremill-producer report`: what `wiremill report` shows of outputs and of the inputs
   that these were made of, as a part of a page.

   Outputs and inputs are read by confined children (wm_render_process.h): one for the scores, for
   each picture one that reads which input an output states, and one that may open no more than
   those two. What cannot be read is explained on the page.  */
#include "producer/results/report.h"
#include "producer/pictures/show_event.h"
#include "producer/verbs.h"

#include "producer/files/wm_h5.h"
#include "producer/pictures/wm_render_process.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_url.h"
#include "schema/page/wm_page.h"
#include "schema/wm_pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "pictures", .value = "N", .fallback = "3", .least = 0, .most = 100,
     .task = "what", .help = "events that are drawn, each of another output"},
    {.name = "hits", .value = "N", .fallback = "1000000", .least = 1, .most = 100000000,
     .help = "that are read for the distributions, of all outputs together"},
    {.name = "planes", .value = "FILE",
     .path = WM_PATH_READ, .help = "frames of the hits, as in wiremill run"},
    {.name = "channels", .value = "FILE",
     .path = WM_PATH_READ,
     .text = "a channel map", .help = "their channel map, or that of the inputs"},
    {.name = "hit-time", .value = "UNIT", .help = "of these hits, as the campaign pins it"},
    {.name = "hit-offset", .value = "TICKS", .help = "the same"},
    {.name = "pedestal", .value = "ADC", .help = "the same"},
    {.name = NULL},
};
static int report_main (const wm_args_t *args);
const wm_verb_t wm_verb_report = {
    .program = "wiremill-producer", .name = "report", .task = "parts of other verbs",
    .rest = "OUTPUT...",
    .summary = "distributions of scores and pictures of events as HTML, for wiremill report",
    .text = "`wiremill report` runs it.\n", .options = options, .run = report_main };
/* clang-format on */

#define PICTURES_BYTES_MAX 1200000u /* of all together */
#define ROWS_MAX 2000000            /* of an output with a picture: it is read whole */

/* A child: prints the input that an output states; nothing where it has too many rows.  */
static int read_input (void *arg, FILE *out)
{
    const wm_show_t *show = arg;
    char text[WM_PINS_BYTES_MAX];
    wm_error_t error;
    int64_t hits = 0;
    wm_produce_confine_reader (&show->path, 1);
    wm_h5_init ();
    wm_h5_t *file = wm_h5_open (show->path, &error);
    if (file && wm_h5_number (file, "hits", &hits) && hits <= ROWS_MAX &&
        wm_h5_text (file, "input", text, sizeof text))
        fputs (text, out);
    wm_h5_close (&file);
    return WM_EXIT_OK;
}

static void write_missing (const wm_show_t *show, const char *why, FILE *out)
{
    const size_t n = strlen (show->path);
    if (!strncmp (why, show->path, n) && !strncmp (why + n, ": ", 2))
        why += n + 2; /* many a reason names the output too */
    wm_page_put (out, "p", "No picture of %s: %s", show->path, why);
}

/* A child: draws the first event.  */
static int draw (void *arg, FILE *out)
{
    wm_show_t *show = arg;
    wm_error_t error;
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream (&text, &bytes);
    wm_fault_t fault = memory ? wm_show_read (show, &error)
                              : wm_fault (&error, WM_EHOST, "out of memory for a picture");
    if (!fault)
        fault = wm_show_figure (show, memory, &error);
    if (memory && (ferror (memory) | fclose (memory)) && !fault)
        fault = wm_fault (&error, WM_EHOST, "out of memory for a picture");
    if (fault) {
        wm_log_sanitize (error.text);
        write_missing (show, error.text, out);
    } else
        fwrite (text, 1, bytes, out);
    free (text);
    return WM_EXIT_OK;
}

/* What the campaign pins of its inputs' planes.  */
static void take_pins (wm_pins_t *pins, const wm_args_t *args)
{
    const struct {
        const char *name;
        char *pin;
        size_t bytes;
    } pinned[] = { { "planes", pins->planes, sizeof pins->planes },
                   { "channels", pins->channels, sizeof pins->channels },
                   { "hit-time", pins->hit_time, sizeof pins->hit_time },
                   { "hit-offset", pins->hit_offset, sizeof pins->hit_offset },
                   { "pedestal", pins->pedestal, sizeof pins->pedestal } };
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
        if (wm_args_text (args, pinned[i].name))
            snprintf (pinned[i].pin, pinned[i].bytes, "%s", wm_args_text (args, pinned[i].name));
}

/* Draws an event of an output, if its input is there.  */
static void write_picture (const char *path, const wm_pins_t *pins, FILE *out)
{
    char planes[PATH_MAX];
    wm_show_t *show = calloc (1, sizeof *show);
    if (!show)
        return;
    show->path = path;
    show->cryostat = show->tpc = show->plane = -1;
    const int code =
        wm_render_process_text ("report", read_input, show, show->input, sizeof show->input);
    show->pair =
        (wm_reader_pair_t){ .planes = wm_pair_planes (pins, show->input, planes) ? planes : NULL,
                            .channels = *pins->channels ? pins->channels : NULL,
                            .hit_time = pins->hit_time,
                            .hit_offset = pins->hit_offset,
                            .pedestal = pins->pedestal };
    snprintf (show->pedestal, sizeof show->pedestal, "%s", pins->pedestal);
    if (code || !*show->input)
        write_missing (show, "it states no input, cannot be read, or has more than 2,000,000 hits",
                       out);
    else if (wm_url_of (show->input))
        write_missing (show,
                       "its input is on a server; copy it here, and name the copy by wiremill "
                       "show --input",
                       out);
    else if (access (show->input, R_OK)) {
        wm_error_t error;
        wm_fault (&error, WM_EBATCH, "its input %.300s cannot be read here: %s", show->input,
                  strerror (errno));
        write_missing (show, error.text, out);
    } else if (wm_render_process_copy ("report", draw, show, out))
        write_missing (show, "the process that read it failed", out);
    free (show);
}

/* Pictures of outputs that are evenly spaced.  */
static void write_pictures (const char *const *path, size_t n, size_t n_picture,
                            const wm_pins_t *pins)
{
    size_t total = 0, left_out = 0;
    n_picture = n_picture < n ? n_picture : n;
    for (size_t i = 0; i < n_picture; i++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *memory = open_memstream (&text, &bytes);
        if (!memory)
            return;
        write_picture (path[(2 * i + 1) * n / (2 * n_picture)], pins, memory);
        fclose (memory);
        const bool fits = total + bytes <= PICTURES_BYTES_MAX;
        if (fits)
            fwrite (text, 1, bytes, stdout);
        total += fits ? bytes : 0;
        left_out += !fits;
        free (text);
    }
    if (left_out)
        wm_page_put (stdout, "p",
                     "%zu pictures are left out, since the page would be too large; wiremill show "
                     "OUTPUT --output event.html draws them.",
                     left_out);
}

static void write_maps (wm_report_outputs_t *outputs, const char *inputs)
{
    char *lines = strdup (inputs);
    uint64_t *hits = calloc (outputs->n, sizeof *hits);
    outputs->input = calloc (outputs->n, sizeof *outputs->input);
    if (lines && hits && outputs->input) {
        wm_report_take_inputs (outputs, lines, outputs->input, hits);
        if (wm_render_process_copy ("report", wm_report_maps, outputs, stdout))
            wm_page_put (stdout, "p", "No maps: the process that read the files failed.");
    }
    free (outputs->input);
    outputs->input = NULL;
    free (hits);
    free (lines);
}

int wm_report_outputs (const wm_args_t *args, wm_report_outputs_t *outputs)
{
    *outputs = (wm_report_outputs_t){ .hits_max = (size_t) wm_args_number (args, "hits") };
    if (!wm_args_rest (args, 0))
        return wm_args_refuse (args, "name outputs, as out/events.scores.h5");
    outputs->path = wm_produce_rest (args, &outputs->n);
    return outputs->path ? WM_EXIT_OK : WM_EXIT_FAILURE;
}

static int report_main (const wm_args_t *args)
{
    static wm_pins_t pins;
    wm_report_outputs_t outputs;
    const int code = wm_report_outputs (args, &outputs);
    if (code)
        return code;
    if (wm_render_process_copy ("report", wm_report_scores, &outputs, stdout))
        wm_page_put (stdout, "p", "No distributions: the process that read the outputs failed.");
    char *inputs = wm_report_inputs ("report", &outputs);
    if (inputs) {
        write_maps (&outputs, inputs);
        fflush (stdout);
        wm_report_truth (&outputs, inputs, stdout);
    } else
        wm_page_put (stdout, "p", "No maps: the process that read the outputs failed.");
    free (inputs);
    if (wm_args_number (args, "pictures")) {
        fputs ("<h2>Events</h2>\n", stdout);
        take_pins (&pins, args);
        write_pictures (outputs.path, outputs.n, (size_t) wm_args_number (args, "pictures"), &pins);
    }
    free (outputs.path);
    return fflush (stdout) || ferror (stdout) ? WM_EXIT_FAILURE : WM_EXIT_OK;
}
