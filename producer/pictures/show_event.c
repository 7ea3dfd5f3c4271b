/* show_event.c - reads what `wiremill show --output` draws: an output, its event, its truth.

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
#include "schema/wm_batch.h"
#include "schema/wm_pair.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- reading --------------------------------------------------------------------------------- */

static wm_fault_t read_scores (wm_show_t *self, wm_error_t *error)
{
    char text[WM_PINS_BYTES_MAX];
    wm_h5_t *file = wm_h5_open (self->path, error);
    if (!file)
        return error->fault;
    const bool is_ours = wm_h5_lines (file, "specification", text, sizeof text);
    wm_h5_text (file, "model_sha256", self->model, sizeof self->model);
    wm_fault_t fault =
        is_ours ? wm_spec_parse (&self->spec, text, strlen (text), self->path, error)
                : wm_fault (error, WM_EBATCH,
                            "%.300s: is not an output of wiremill; outputs are *.scores.h5",
                            self->path);
    if (!fault && self->spec.result == WM_RESULT_IMAGE) {
        fault = wm_show_image (self, file, error);
        wm_h5_close (&file);
        return fault;
    }
    if (!fault && !wm_h5_has (file, self->spec.table))
        fault = wm_fault (error, WM_EBATCH,
                          "%.300s: written with --layout numl; pictures need wiremill's own table, "
                          "of --layout both",
                          self->path);
    wm_h5_close (&file);
    if (!fault)
        fault = wm_scores_labels (&self->scores, self->path, error);
    self->call = wm_call_rule_new (self->scores.label, self->scores.n_label, WM_CALL_LEAST);
    if (!fault)
        fault = wm_scores_read (&self->scores, &self->path, 1, NULL, error);
    if (!fault && !self->scores.n_row)
        fault = wm_fault (error, WM_EBATCH, "%.300s: has no hits", self->path);
    return fault;
}

/* The labels that wiremill synth writes beside its hits, by their names.  */
static wm_fault_t read_truth (wm_show_t *self, wm_error_t *error)
{
    static const char *const label[] = { "track", "em", "none", "michel" };
    const char *name = "hit_table/truth";
    int32_t place[4] = { -1, -1, -1, -1 };
    wm_column_t column = { 0 };
    const uint32_t n = self->scores.n_row;
    const bool has_none = self->pair.channels || self->spec.points == WM_POINTS_SPACEPOINTS;
    wm_h5_t *file = has_none ? NULL : wm_h5_open (self->input, error);
    if (!file || !wm_h5_has (file, name)) {
        wm_h5_close (&file);
        return WM_OK;
    }
    for (uint32_t k = 0; k < self->scores.n_label; k++)
        for (int t = 0; t < 4; t++)
            if (!strcmp (self->scores.label[k], label[t]))
                place[t] = (int32_t) k;
    wm_fault_t fault = wm_h5_column (file, name, WM_H5_INTEGER, 1, &column, error);
    if (!fault && column.n_row != n)
        fault = wm_fault (error, WM_EBATCH, "%.300s: %s has %" PRIu64 " rows, the output %u",
                          self->input, name, column.n_row, n);
    if (!fault && !(self->truth = calloc (n, sizeof *self->truth)))
        fault = wm_fault (error, WM_EHOST, "out of memory for %u rows", n);
    if (!fault)
        fault = wm_h5_read (&column, 0, n, WM_H5_I32, self->truth, error);
    for (uint32_t i = 0; i < n && !fault; i++)
        self->truth[i] = self->truth[i] >= 0 && self->truth[i] < 4 ? place[self->truth[i]] : -1;
    wm_h5_column_close (&column);
    wm_h5_close (&file);
    return fault;
}

static wm_fault_t open_input (wm_show_t *self, wm_error_t *error)
{
    self->reader =
        self->pair.planes     ? wm_reader_open_pair (self->input, &self->pair, &self->spec, error)
        : self->pair.channels ? wm_reader_open_frames (self->input, self->pair.channels,
                                                       self->pedestal, &self->spec, error)
                              : wm_reader_open (self->input, &self->spec, error);
    if (!self->reader)
        return error->fault;
    if (!wm_reader_has_planes (self->reader))
        return wm_fault (error, WM_EBATCH,
                         "%.300s: holds ready-made patches, so that there is no plane to show",
                         self->input);
    if (wm_reader_n_row (self->reader) != self->scores.n_row)
        return wm_fault (error, WM_EBATCH,
                         "%.200s: has %" PRIu64 " hits, the output %u: it changed since, or is "
                         "another file; name the right one by --input",
                         self->input, wm_reader_n_row (self->reader), self->scores.n_row);
    return WM_OK;
}

/* ---- the worst hit --------------------------------------------------------------------------- */

/* The largest difference of a row's scores in both outputs, -1: one did not score the hit; as
   compare has it.  */
static double difference (const wm_show_t *self, uint32_t row)
{
    const uint32_t match = self->match[row];
    double largest = 0;
    if (match == UINT32_MAX || self->scores.status[row] != WM_HIT_SCORED ||
        self->other.status[match] != WM_HIT_SCORED)
        return -1;
    for (uint32_t k = 0; k < self->scores.n_label; k++) {
        const double ours = wm_show_score (self, k, row);
        largest =
            fmax (largest, fabs (ours - wm_show_other (self, k, row)) / fmax (1, fabs (ours)));
    }
    return largest;
}

/* Reads the other output, and finds the same hits in it by their identity.  */
static wm_fault_t read_other (wm_show_t *self, wm_error_t *error)
{
    const uint32_t n = self->scores.n_row;
    wm_scores_t *other = &self->other, sorted = { .n_row = n };
    other->n_label = self->scores.n_label;
    memcpy (other->label, self->scores.label, sizeof other->label);
    sorted.key = malloc (n * sizeof *sorted.key);
    self->match = malloc (n * sizeof *self->match);
    wm_fault_t fault = sorted.key && self->match
                           ? wm_scores_read (other, &self->against, 1, NULL, error)
                           : wm_fault (error, WM_EHOST, "out of memory for %u rows", n);
    if (!fault) {
        memset (self->match, 0xff, n * sizeof *self->match);
        memcpy (sorted.key, self->scores.key, n * sizeof *sorted.key);
        wm_scores_sort (&sorted);
        wm_scores_sort (other);
    }
    for (uint32_t i = 0, j = 0; i < n && j < other->n_row && !fault;) {
        const int order = wm_scores_order (&sorted.key[i], &other->key[j]);
        if (!order)
            self->match[sorted.key[i].at] = other->key[j].at;
        i += order <= 0;
        j += order >= 0;
    }
    free (sorted.key);
    return fault;
}

/* The row that differs most from the other output; UINT32_MAX: no hit was scored in both.  */
static uint32_t worst_against (const wm_show_t *self)
{
    uint32_t row = UINT32_MAX;
    double worst = -1;
    for (uint32_t i = 0; i < self->scores.n_row; i++) {
        const double d = difference (self, i);
        row = d > worst ? i : row;
        worst = fmax (worst, d);
    }
    return row;
}

/* The row whose truth has the lowest score; UINT32_MAX: there is none.  */
static wm_fault_t worst_of_truth (const wm_show_t *self, uint32_t *row, wm_error_t *error)
{
    double worst = INFINITY;
    if (!self->truth)
        return wm_fault (
            error, WM_EUSAGE,
            "--worst compares with the truth, and %.200s has none; name another output "
            "by --against",
            self->input);
    for (uint32_t i = 0; i < self->scores.n_row; i++) {
        if (self->truth[i] < 0 || self->scores.status[i] != WM_HIT_SCORED)
            continue;
        const double score = wm_show_score (self, (uint32_t) self->truth[i], i);
        *row = score < worst ? i : *row;
        worst = fmin (worst, score);
    }
    return WM_OK;
}

/* ---- which event, which hit ------------------------------------------------------------------ */

/* The row that is asked for: the worst one, that of a hit, or the first of an event.  */
static wm_fault_t choose_row (wm_show_t *self, uint32_t *row, wm_error_t *error)
{
    const wm_scores_t *s = &self->scores;
    const int n_id = self->has_hit ? 4 : self->has_event ? 3 : 0;
    wm_fault_t fault = WM_OK;
    *row = UINT32_MAX;
    if (self->is_worst && self->against)
        *row = worst_against (self);
    else if (self->is_worst)
        fault = worst_of_truth (self, row, error);
    for (uint32_t i = 0; i < s->n_row && !self->is_worst && *row == UINT32_MAX; i++)
        if (!n_id || !memcmp (s->key[i].id, self->id, (size_t) n_id * sizeof *self->id))
            *row = i;
    if (fault || *row != UINT32_MAX)
        return fault;
    if (self->is_worst)
        return wm_fault (error, WM_EUSAGE, "there is no scored hit to compare with %.300s",
                         self->against ? self->against : "the truth");
    return wm_fault (error, WM_EUSAGE,
                     "%.200s has no hits of event %" PRId64 ":%" PRId64 ":%" PRId64
                     "%s; `wiremill show` prints its rows",
                     self->path, self->id[0], self->id[1], self->id[2],
                     n_id == 4 ? " with this hit_id" : "");
}

static bool is_event (const wm_show_t *self, const int64_t id[4])
{
    return self->event.run == id[0] && self->event.subrun == id[1] && self->event.event == id[2];
}

/* The reader names the event, or the segment of a stream, of a hit. Events of windows mostly lie in
   the order of their rows: so the first one that is read is mostly right.  */
static wm_fault_t read_event (wm_show_t *self, uint32_t row, wm_error_t *error)
{
    const wm_scores_key_t *key = self->scores.key;
    const uint32_t n = wm_reader_n_event (self->reader),
                   known = wm_reader_of_row (self->reader, row);
    uint32_t guess = known == UINT32_MAX ? 0 : known;
    for (uint32_t i = 1; i <= row && known == UINT32_MAX; i++)
        guess += memcmp (key[i].id, key[i - 1].id, 3 * sizeof *key[i].id) != 0;
    for (uint32_t i = 0; i < n; i++) {
        wm_fault_t fault = wm_reader_event (self->reader, (uint32_t) (((uint64_t) guess + i) % n),
                                            &self->event, error);
        if (fault)
            return fault;
        if (is_event (self, key[row].id))
            return WM_OK;
    }
    return wm_fault (error, WM_EBATCH, "%.200s: has no event %" PRId64 ":%" PRId64 ":%" PRId64,
                     self->input, key[row].id[0], key[row].id[1], key[row].id[2]);
}

static wm_fault_t choose (wm_show_t *self, wm_error_t *error)
{
    uint32_t row = 0;
    wm_fault_t fault = choose_row (self, &row, error);
    if (!fault)
        fault = read_event (self, row, error);
    if (!fault && self->spec.points == WM_POINTS_SPACEPOINTS)
        fault = wm_show_project (self, error);
    self->hit = UINT32_MAX;
    for (uint32_t i = 0; i < self->event.n_hit && !fault && (self->has_hit || self->is_worst); i++)
        if (self->event.hit[i].row == row && self->hit == UINT32_MAX)
            self->hit = i;
    if (!fault && self->hit != UINT32_MAX)
        self->id[3] = self->scores.key[row].id[3];
    return fault;
}

/* Writes all of the picture, or nothing.  */
static wm_fault_t draw_whole (const wm_show_t *self, FILE *out, wm_error_t *error)
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

wm_fault_t wm_show_read (wm_show_t *self, wm_error_t *error)
{
    const char *file[5] = { self->path };
    size_t n = 1;
    if (*self->input)
        file[n++] = self->input;
    if (self->against)
        file[n++] = self->against;
    if (self->pair.planes)
        file[n++] = self->pair.planes;
    if (self->pair.channels)
        file[n++] = self->pair.channels;
    wm_produce_confine_reader (file, n);
    wm_h5_init ();
    wm_fault_t fault = read_scores (self, error);
    if (!fault && self->spec.result == WM_RESULT_IMAGE && *self->input &&
        self->kind == WM_SHOW_HTML)
        wm_show_charge (self);
    if (fault || self->spec.result == WM_RESULT_IMAGE)
        return fault;
    fault = open_input (self, error);
    if (!fault)
        fault = read_truth (self, error);
    if (!fault && self->against)
        fault = read_other (self, error);
    return fault ? fault : choose (self, error);
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
        return WM_EXIT_INPUT;
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
               *zoom = wm_args_text (args, "zoom");
    self->output = wm_args_text (args, "output");
    self->score = wm_args_text (args, "score");
    self->against = wm_args_text (args, "against");
    self->has_event = event != NULL;
    self->has_hit = hit != NULL;
    self->has_zoom = zoom != NULL;
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
