/* show_event.c - `wiremill show --output`: its options, and the processes that read and draw.

   A confined child reads and draws, its parent stores the picture (wm_render_process.h). Where the
   input is not named, a first child reads its name in the output, so that the second may open no
   more than the two.  */
#include "producer/pictures/show_event.h"

#include "producer/files/wm_h5.h"
#include "producer/pictures/compare_images.h"
#include "producer/pictures/wm_render_process.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_path.h"
#include "schema/wm_pair.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the picture ----------------------------------------------------------------------------- */

/* Writes all of the picture, or nothing.  */
static wm_fault_t draw_whole (wm_show_t *self, FILE *out, wm_error_t *error)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream (&text, &bytes);
    wm_fault_t fault = memory ? wm_show_draw (self, memory, error)
                              : wm_fault (error, WM_EHOST, "out of memory for a picture");
    if (memory && (ferror (memory) | fclose (memory)) && !fault)
        fault = wm_fault (error, WM_EHOST, "out of memory for a picture");
    if (!fault)
        fwrite (text, 1, bytes, out);
    free (text);
    return fault;
}

/* The child.  */
static int make_picture (void *arg, FILE *out)
{
    wm_show_t *self = arg;
    wm_error_t error;
    wm_fault_t fault = wm_show_read (self, &error);
    if (!fault)
        fault = draw_whole (self, out, &error);
    if (fault) {
        wm_log_sanitize (error.text);
        fprintf (stderr, "wiremill show: %s\n", error.text);
    }
    return wm_exit_of (fault);
}

/* ---- options --------------------------------------------------------------------------------- */

/* The first child: which input an output was made of, its planes, their map, and how they were
   joined, and whether it has images, which are drawn without: a line each.  */
static int read_origin (void *arg, FILE *out)
{
    static const char *const names[] = { "input", "planes", "channels", "joined" };
    const wm_show_t *self = arg;
    char text[WM_PINS_BYTES_MAX];
    wm_error_t error;
    wm_produce_confine_reader (&self->path, 1);
    wm_h5_init ();
    const bool is_image = wm_compare_images_are (self->path);
    wm_h5_t *file = wm_h5_open (self->path, &error);
    if (!file) {
        wm_log_sanitize (error.text);
        fprintf (stderr, "wiremill show: %s\n", error.text);
        return wm_exit_of (error.fault);
    }
    const bool is_ours = wm_h5_text (file, "input", text, sizeof text);
    for (int i = 0; i < 4 && is_ours; i++)
        fprintf (out, "%s\n", wm_h5_text (file, names[i], text, sizeof text) ? text : "");
    wm_h5_close (&file);
    fputs (is_ours && is_image ? "image\n" : "", out);
    if (!is_ours && !*self->input && !is_image)
        fprintf (stderr,
                 "wiremill show: %s states no input: it is no output of wiremill (*.scores.h5), or "
                 "one of an early release; name the input by --input\n",
                 self->path);
    return is_ours || *self->input || is_image ? WM_EXIT_OK : WM_EXIT_INPUT;
}

/* What an output records of how hits and planes were joined, "hit_table/time read in us, ticks of
   0.5 us, +3 ticks, pedestal 900" (wm_joined.c), of frames alone "pedestal 900".  */
static void take_joined (wm_show_t *self, const char *text)
{
    double offset;
    if (strstr (text, " read in us"))
        strcpy (self->hit_time, "us");
    else if (strstr (text, " read in ticks"))
        strcpy (self->hit_time, "ticks");
    for (const char *part = text; part; part = (part = strstr (part, ", ")) ? part + 2 : NULL) {
        int end = 0;
        if (sscanf (part, "%lf ticks%n", &offset, &end) == 1 && end)
            snprintf (self->hit_offset, sizeof self->hit_offset, "%.9g", offset);
        if (!strncmp (part, "pedestal ", 9))
            snprintf (self->pedestal, sizeof self->pedestal, "%.*s", (int) strcspn (part + 9, ","),
                      part + 9);
    }
}

/* Whether a file that the output names is here; `option` names another one.  */
static bool is_here (const wm_show_t *self, const char *what, const char *path, const char *option)
{
    char file[PATH_MAX];
    snprintf (file, sizeof file, "%.*s", (int) wm_path_length (path), path);
    if (!*file || access (file, R_OK) == 0)
        return true;
    fprintf (stderr, "wiremill show: the %s %s of %s cannot be read here: %s; name it by %s\n",
             what, path, self->path, strerror (errno), option);
    return false;
}

/* Images need no input, but a page shows the charge below them if it is there.  */
static void find_charge (wm_show_t *self, const char *input, const char *channels)
{
    if (!*self->input)
        snprintf (self->input, sizeof self->input, "%s", input);
    if (!self->pair.channels && *channels) {
        snprintf (self->channels, sizeof self->channels, "%s", channels);
        self->pair.channels = self->channels;
    }
    const char *const file[] = { self->input, self->pair.channels };
    for (int i = 0; i < 2 && *self->input; i++)
        if (file[i] && access (file[i], R_OK)) {
            snprintf (self->without, sizeof self->without, "%.4000s: %s", file[i],
                      strerror (errno));
            *self->input = 0;
            self->pair.channels = NULL;
        }
}

/* What the command line does not name is as the output states it.  */
static int find_origin (wm_show_t *self, const wm_args_t *args)
{
    char text[4 * WM_PINS_BYTES_MAX + 8], *next = text, *line[5];
    if (wm_args_text (args, "input"))
        snprintf (self->input, sizeof self->input, "%s", wm_args_text (args, "input"));
    const int code = wm_render_process_text ("show", read_origin, self, text, sizeof text);
    if (code)
        return code;
    for (int i = 0; i < 5; i++) {
        line[i] = strsep (&next, "\n");
        line[i] = line[i] ? line[i] : "";
    }
    if (*line[4]) {
        take_joined (self, line[3]);
        find_charge (self, line[0], line[2]);
        return WM_EXIT_OK;
    }
    if (!*self->input)
        snprintf (self->input, sizeof self->input, "%s", line[0]);
    if (!is_here (self, "input", self->input, "--input"))
        return WM_EXIT_INPUT;
    if (!self->pair.channels && *line[2]) {
        snprintf (self->planes, sizeof self->planes, "%s", line[1]);
        snprintf (self->channels, sizeof self->channels, "%s", line[2]);
        if (!is_here (self, "planes", self->planes, "--planes, and their map by --channels") ||
            !is_here (self, "channel map", self->channels, "--channels, with --planes"))
            return WM_EXIT_INPUT;
        self->pair.channels = self->channels;
        self->pair.hit_time = self->hit_time;
        take_joined (self, line[3]);
    } else if (self->pair.planes && !wm_pair_expand (self->pair.planes, self->input, self->planes))
        return wm_args_refuse (args, "the path of --planes is too long");
    self->pair.planes = *self->planes ? self->planes : NULL;
    return WM_EXIT_OK;
}

/* "1:2:3", n numbers.  */
static bool take_id (const char *text, int64_t *id, int n)
{
    for (int i = 0; i < n; i++) {
        char *end;
        errno = 0;
        id[i] = strtoll (text, &end, 10);
        if (end == text || errno || *end != (i == n - 1 ? 0 : ':'))
            return false;
        text = end + 1;
    }
    return true;
}

/* "1-20", "7", "all".  */
static bool take_pages (const char *text, uint32_t *from, uint32_t *to)
{
    int end = 0;
    *from = 1, *to = UINT32_MAX;
    if (!strcmp (text, "all"))
        return true;
    if (sscanf (text, "%8u-%8u%n", from, to, &end) == 2 && end && !text[end])
        return *from && *from <= *to;
    end = 0;
    if (sscanf (text, "%8u%n", from, &end) != 1 || !end || text[end])
        return false;
    *to = *from;
    return *from > 0;
}

/* "100:300,2000:4000".  */
static bool take_zoom (const char *text, double zoom[4])
{
    int end = 0;
    return sscanf (text, "%lf:%lf,%lf:%lf%n", &zoom[0], &zoom[1], &zoom[2], &zoom[3], &end) == 4 &&
           !text[end] && zoom[0] < zoom[1] && zoom[2] < zoom[3] && zoom[0] >= 0 && zoom[2] >= 0 &&
           zoom[1] <= 1e9 && zoom[3] <= 1e9;
}

static bool take_kind (wm_show_t *self)
{
    static const char *const ends[] = { ".svg", ".html" };
    const size_t n = strlen (self->output);
    for (int k = 0; k < 2; k++) {
        const size_t m = strlen (ends[k]);
        if (n > m && !strcmp (self->output + n - m, ends[k])) {
            self->kind = (wm_show_kind_t) k;
            return true;
        }
    }
    return false;
}

static int take_options (wm_show_t *self, const wm_args_t *args)
{
    const char *event = wm_args_text (args, "event"), *hit = wm_args_text (args, "hit"),
               *zoom = wm_args_text (args, "zoom"), *pages = wm_args_text (args, "events");
    self->output = wm_args_text (args, "output");
    self->score = wm_args_text (args, "score");
    self->against = wm_args_text (args, "against");
    self->has_event = event != NULL;
    self->has_hit = hit != NULL;
    self->has_zoom = zoom != NULL;
    self->has_pages = pages != NULL;
    self->is_worst = wm_args_given (args, "worst");
    self->pair =
        (wm_reader_pair_t){ wm_args_text (args, "planes"), wm_args_text (args, "channels"),
                            wm_args_text (args, "hit-time"), self->hit_offset, self->pedestal };
    self->pair.hit_time = self->pair.hit_time ? self->pair.hit_time : "";
    self->cryostat = wm_args_given (args, "cryostat") ? wm_args_number (args, "cryostat") : -1;
    self->tpc = wm_args_given (args, "tpc") ? wm_args_number (args, "tpc") : -1;
    self->plane = wm_args_given (args, "plane") ? wm_args_number (args, "plane") : -1;
    if (!take_kind (self))
        return wm_args_refuse (args,
                               "--output %s: pictures are SVG, pages HTML: name a file that ends "
                               "in .svg or .html (rsvg-convert and browsers make a PNG of it)",
                               self->output);
    if (event && !take_id (event, self->id, 3))
        return wm_args_refuse (args, "--event takes RUN:SUBRUN:EVENT, not '%s'", event);
    if (hit && !take_id (hit, self->id, 4))
        return wm_args_refuse (args, "--hit takes RUN:SUBRUN:EVENT:HIT_ID, not '%s'", hit);
    if (hit && (event || self->is_worst))
        return wm_args_refuse (args, "--hit names its event; leave out --event and --worst");
    if (event && self->is_worst)
        return wm_args_refuse (args, "--worst chooses the event; leave out --event");
    if (pages && (event || hit || self->is_worst || self->kind != WM_SHOW_HTML))
        return wm_args_refuse (args, "--events is for a page (FILE.html) of several events; leave "
                                     "out --event, --hit and --worst");
    if (pages && !take_pages (pages, &self->page_from, &self->page_to))
        return wm_args_refuse (args, "--events takes FROM-TO, counted from 1, or 'all', not '%s'",
                               pages);
    if (self->against && !self->is_worst && self->kind != WM_SHOW_HTML)
        return wm_args_refuse (args, "--against is for --worst and for pages (FILE.html); wiremill "
                                     "compare lists differences");
    if (zoom && !take_zoom (zoom, self->zoom))
        return wm_args_refuse (
            args, "--zoom takes WIRE:WIRE,TICK:TICK, as 100:300,2000:4000, not '%s'", zoom);
    if (self->pair.planes && !self->pair.channels)
        return wm_args_refuse (args, "--planes needs the channel map of these frames: --channels");
    const char *offset = wm_args_text (args, "hit-offset"),
               *pedestal = wm_args_text (args, "pedestal");
    wm_error_t error;
    if ((offset && wm_pair_offset (offset, self->hit_offset, &error)) ||
        (pedestal && wm_pair_pedestal (pedestal, self->pedestal, &error)))
        return wm_args_refuse (args, "%s", error.text);
    if ((offset && !self->pair.planes) || (pedestal && !self->pair.channels))
        return wm_args_refuse (args, "--%s goes with --planes and --channels",
                               offset && !self->pair.planes ? "hit-offset" : "pedestal");
    return WM_EXIT_OK;
}

static int complain (const wm_error_t *error)
{
    fprintf (stderr, "wiremill show: %s\n", error->text);
    return wm_exit_of (error->fault);
}

int wm_show_picture (const wm_args_t *args, const char *path)
{
    char place[PATH_MAX];
    wm_show_t *self = calloc (1, sizeof *self);
    wm_error_t error;
    if (!self)
        return WM_EXIT_FAILURE;
    self->path = path;
    int code = take_options (self, args);
    const char *const files[] = { path, wm_args_text (args, "input"), self->against,
                                  self->pair.channels };
    if (!code && wm_file_exist (files, sizeof files / sizeof *files, &error))
        code = complain (&error);
    if (!code)
        code = find_origin (self, args);
    if (!code && wm_file_exist (&self->pair.planes, 1, &error))
        code = complain (&error);
    const char *const read[] = { self->input, self->pair.planes, self->pair.channels };
    for (int i = 0; i < 3 && !code; i++)
        if (read[i] && *read[i] && wm_args_spare (args, read[i], "a file of the scores", &error))
            code = wm_args_refuse (args, "%s", error.text);
    if (!code)
        code = wm_render_process_run ("show", wm_args_place (args, "output", place), make_picture,
                                      self);
    free (self);
    return code;
}
