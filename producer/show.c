/* show.c - `wiremill-producer show`: the first rows of a file of scores, as text, for people
   without an HDF5 reader at hand; or pictures of an event (show_event.c).  */
#include "producer/pictures/show_event.h"
#include "producer/verbs.h"

#include "kernels/patch/wm_spec.h"
#include "producer/files/wm_h5.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_kind.h"
#include "schema/base/wm_log.h"
#include "schema/wm_batch.h"
#include "schema/wm_pins.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ROWS_MAX 100000
#define SCORES_MAX 64 /* columns; what a line of a wide terminal can hold */

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "rows", .letter = 'n', .value = "N", .fallback = "10", .least = 1, .most = ROWS_MAX,
     .task = "which rows", .help = "how many"},
    {.name = "from", .value = "ROW", .fallback = "0", .least = 0, .most = LONG_MAX,
     .help = "the first one, counted from 0"},
    {.name = "output", .letter = 'o', .value = "FILE",
     .path = WM_PATH_WRITTEN, .writes = &wm_made_picture, .task = "a picture instead",
     .help = "the picture of a wire plane, FILE.svg, or a page of all, FILE.html"},
    {.name = "event", .value = "R:S:E", .help = "run:subrun:event (default: the first)"},
    {.name = "events", .value = "FROM-TO",
     .help = "a page of these events of the file, counted from 1; 'all'"},
    {.name = "plane", .value = "N", .least = 0, .most = INT_MAX,
     .help = "(default: that with most hits; of a page all)"},
    {.name = "tpc", .value = "N", .least = 0, .most = INT_MAX, .help = "... of this TPC"},
    {.name = "cryostat", .value = "N", .least = 0, .most = INT_MAX, .help = "... and cryostat"},
    {.name = "zoom", .value = "W:W,T:T", .help = "only these wires and ticks: 100:300,2000:4000"},
    {.name = "hit", .value = "R:S:E:ID",
     .help = "around this hit (run:subrun:event:hit_id), and its patch as the network saw it"},
    {.name = "worst", .help = "the same of the hit whose truth has the lowest score"},
    {.name = "against", .value = "FILE", .path = WM_PATH_READ,
     .help = "another output: a page has both; --worst is what differs most from it"},
    {.name = "score", .value = "NAME",
     .help = "colour hits by this score (default: what they are called)"},
    {.name = "input", .letter = 'i', .value = "FILE", .path = WM_PATH_READ, .once = true,
     .help = "where the event is (default: as the output states)"},
    {.name = "planes", .value = "FILE",
     .path = WM_PATH_READ, .help = "frames of the hits, as in wiremill run"},
    {.name = "channels", .value = "FILE", .path = WM_PATH_READ, .text = "a channel map",
     .help = "channel map of those frames, or of the input, where it is frames itself"},
    {.name = "hit-time", .value = "ticks|us", .one_of = true,
     .help = "unit of these hits (default: that of their table)"},
    {.name = "hit-offset", .value = "TICKS",
     .help = "ticks from the times of these hits to those of their frames (default: 0)"},
    {.name = "pedestal", .value = "median|ADC|none",
     .help = "taken off frames of raw ADC (default: none)"},
    WM_OPTION_FORCE,
    {.name = NULL},
};

static int show_main (const wm_args_t *args);
const wm_verb_t wm_verb_show = {
    .name = "show", .task = "files", .rest = "FILE...",
    .summary = "print the first rows of an output, or draw its events",
    .text = "  wiremill show out/events.scores.h5\n"
            "  wiremill show --from 5000 --rows 20 out/events.scores.h5\n"
            "  wiremill show out/events.scores.h5 --event 1:1:7 --plane 2 --output e.svg\n"
            "  wiremill show out/events.scores.h5 --worst --output worst.html\n\n"
            "Prints one line for each row (hit, window, space point), in the order of the input: "
            "its identity, its scores (nan where it is held) and its status: `scored`, or why it "
            "is held.\n"
            "With --output draws a plane: charge in grey, hits by what they are called, track\n"
            "blue, em red, michel orange, none grey; beside it by truth, where the input is "
            "synthetic. A page (FILE.html) is interactive: zoom, scores of a hit, a threshold.\n"
            "Of an output with images (result: image) it draws these; a page has the charge\n"
            "below them.\n",
    .common = "rows from output event events plane tpc cryostat zoom hit worst against score input "
              "planes channels force",
    .options = options, .run = show_main };
/* clang-format on */

/* Columns that identify a hit, without subrun and cryostat, which are mostly constant; the last two
   are of windows.  */
static const char *const id_name[] = { "run", "event", "tpc", "plane", "hit_id", "wire", "time" };
enum { IDS_OF_HITS = 5, IDS = sizeof id_name / sizeof *id_name };

typedef struct {
    wm_h5_t *h5;
    wm_spec_t spec;
    const char *rows;   /* what they are: "hits", "windows", ... */
    int64_t hits, held; /* of the whole file */
    uint64_t first, n;  /* rows to show */
    uint32_t n_score;
    int n_id;
    char score_name[SCORES_MAX][48];
    int64_t *id[IDS]; /* (n) */
    float *score[SCORES_MAX];
    int32_t *status;
} show_t;

static void show_clear (show_t *self)
{
    for (int c = 0; c < IDS; c++)
        free (self->id[c]);
    for (uint32_t i = 0; i < self->n_score; i++)
        free (self->score[i]);
    free (self->status);
    wm_h5_close (&self->h5);
    *self = (show_t){ 0 };
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool has_column (const show_t *self, const char *name)
{
    char path[112];
    snprintf (path, sizeof path, "%s/%s", self->spec.table, name);
    return *name && wm_h5_has (self->h5, path);
}

/* What cannot be an output, whatever is asked for.  */
static wm_fault_t refuse_path (const char *path, wm_error_t *error)
{
    struct stat st;
    const size_t n = strlen (path);
    if (stat (path, &st) == 0 && S_ISDIR (st.st_mode))
        return wm_fault (error, WM_EUSAGE, "%s is a folder; name a file in it: %s%sNAME.scores.h5",
                         path, path, n && path[n - 1] == '/' ? "" : "/");
    if (wm_kind_of (path) == WM_KIND_MODEL)
        return wm_fault (error, WM_EBATCH,
                         "%.300s: a model, not an output; outputs are *.scores.h5", path);
    return WM_OK;
}

/* Opens the file and takes what its attributes tell.  */
static wm_fault_t open_file (show_t *self, const char *path, wm_error_t *error)
{
    char text[WM_PINS_BYTES_MAX];
    self->h5 = wm_h5_open (path, error);
    if (!self->h5)
        return error->fault;
    if (!wm_h5_lines (self->h5, "specification", text, sizeof text) ||
        !wm_h5_number (self->h5, "hits", &self->hits) ||
        !wm_h5_number (self->h5, "hits_held", &self->held))
        return wm_fault (error, WM_EBATCH,
                         "%s is not an output of wiremill; outputs are *.scores.h5", path);
    self->rows = wm_pins_rows (text);
    wm_fault_t fault = wm_spec_parse (&self->spec, text, strlen (text), path, error);
    if (!fault && !wm_h5_has (self->h5, self->spec.table))
        fault = wm_fault (error, WM_EBATCH,
                          "%.300s: written with --layout numl: show reads wiremill's "
                          "own table, of --layout both",
                          path);
    if (fault)
        return fault;
    self->n_id = has_column (self, "wire") && has_column (self, "time") ? IDS : IDS_OF_HITS;
    for (uint32_t i = 0; i < SCORES_MAX; i++, self->n_score++) {
        char *label = self->score_name[i];
        snprintf (label, 48, "%s", i < self->spec.n_label ? self->spec.label[i] : "");
        if (!has_column (self, label) && (!i || strncmp (self->score_name[0], "out_", 4) == 0))
            snprintf (label, 48, "out_%u", i); /* as the writer: labels, or numbers for all */
        if (!has_column (self, label))
            break;
    }
    return WM_OK;
}

/* Reads the rows of one column as `type` into *to, newly allocated.  */
static wm_fault_t read_column (show_t *self, const char *name, wm_h5_type_t type, size_t bytes,
                               void **to, wm_error_t *error)
{
    char path[112];
    wm_column_t column;
    const bool is_float = type == WM_H5_F32;
    snprintf (path, sizeof path, "%s/%s", self->spec.table, name);
    wm_fault_t fault =
        wm_h5_column (self->h5, path, is_float ? WM_H5_FLOAT : WM_H5_INTEGER, 1, &column, error);
    if (fault)
        return fault;
    const uint64_t left = column.n_row > self->first ? column.n_row - self->first : 0;
    if (self->n > left)
        self->n = left;
    *to = calloc (self->n + 1, bytes);
    if (!*to)
        fault = wm_fault (error, WM_EHOST, "no memory for %" PRIu64 " rows", self->n);
    if (!fault && self->n)
        fault = wm_h5_read (&column, self->first, self->n, type, *to, error);
    wm_h5_column_close (&column);
    return fault;
}

static wm_fault_t read_rows (show_t *self, const char *path, wm_error_t *error)
{
    wm_fault_t fault =
        read_column (self, "status", WM_H5_I32, sizeof (int32_t), (void **) &self->status, error);
    for (int c = 0; c < self->n_id && !fault; c++)
        fault = read_column (self, id_name[c], WM_H5_I64, sizeof (int64_t), (void **) &self->id[c],
                             error);
    for (uint32_t i = 0; i < self->n_score && !fault; i++)
        fault = read_column (self, self->score_name[i], WM_H5_F32, sizeof (float),
                             (void **) &self->score[i], error);
    if (!fault && !self->n && self->first)
        fault = wm_fault (error, WM_EBATCH,
                          "%.300s has %" PRId64 " rows; there is no row %" PRIu64
                          ", they are counted from 0",
                          path, self->hits, self->first);
    return fault;
}

/* ---- printing -------------------------------------------------------------------------------- */

static int width_of_id (const show_t *self, int c)
{
    int width = (int) strlen (id_name[c]);
    for (uint64_t i = 0; i < self->n; i++) {
        const int length = snprintf (NULL, 0, "%" PRId64, self->id[c][i]);
        width = length > width ? length : width;
    }
    return width;
}

static int width_of_score (const show_t *self, uint32_t s)
{
    int width = (int) strlen (self->score_name[s]);
    for (uint64_t i = 0; i < self->n; i++) {
        const int length = snprintf (NULL, 0, "%.4f", (double) self->score[s][i]);
        width = length > width ? length : width;
    }
    return width;
}

static void print_rows (const show_t *self)
{
    int id_width[IDS], score_width[SCORES_MAX];
    for (int c = 0; c < self->n_id; c++) {
        id_width[c] = width_of_id (self, c);
        printf ("%s%*s", c ? "  " : "", id_width[c], id_name[c]);
    }
    for (uint32_t s = 0; s < self->n_score; s++) {
        score_width[s] = width_of_score (self, s);
        printf ("  %*s", score_width[s], self->score_name[s]);
    }
    puts ("  status");
    for (uint64_t i = 0; i < self->n; i++) {
        for (int c = 0; c < self->n_id; c++)
            printf ("%s%*" PRId64, c ? "  " : "", id_width[c], self->id[c][i]);
        for (uint32_t s = 0; s < self->n_score; s++)
            printf ("  %*.4f", score_width[s], (double) self->score[s][i]);
        printf ("  %s\n", wm_hit_status_text ((uint8_t) self->status[i]));
    }
}

static void print_all (const show_t *self, const char *path)
{
    char model[80] = "?", precision[16] = "?", judged[WM_PINS_JUDGED_BYTES];
    wm_h5_text (self->h5, "model_sha256", model, sizeof model);
    wm_h5_text (self->h5, "precision", precision, sizeof precision);
    printf ("%s: %" PRId64 " %s, %" PRId64 " held; model %.12s, %s\n", path, self->hits, self->rows,
            self->held, model, precision);
    if (wm_h5_text (self->h5, "judged_by", judged, sizeof judged))
        printf ("model judged by: %s\n", judged);
    if (!self->n)
        return;
    print_rows (self);
    printf ("rows %" PRIu64 " to %" PRIu64 " of %" PRId64 "; not shown: subrun, cryostat, "
            "in_fiducial, engine\n",
            self->first, self->first + self->n - 1, self->hits);
}

static int complain (wm_fault_t fault, wm_error_t *error)
{
    wm_log_sanitize (error->text);
    fprintf (stderr, "wiremill show: %s\n", error->text);
    return wm_exit_of (fault);
}

static int draw (const wm_args_t *args)
{
    wm_error_t error;
    const char *path = wm_args_rest (args, 0);
    if (wm_args_rest (args, 1))
        return wm_args_refuse (args, "--output draws one output; name one");
    const wm_fault_t fault = refuse_path (path, &error);
    return fault ? complain (fault, &error) : wm_show_picture (args, path);
}

static int show_all (const wm_args_t *args, const char *const *path, size_t n)
{
    wm_error_t error;
    wm_fault_t bad = WM_OK;
    for (size_t i = 0; i < n && !bad; i++)
        bad = refuse_path (path[i], &error);
    if (bad || (bad = wm_file_exist (path, n, &error)))
        return complain (bad, &error);
    for (size_t i = 0; i < n; i++) {
        show_t show = { .first = (uint64_t) wm_args_number (args, "from"),
                        .n = (uint64_t) wm_args_number (args, "rows") };
        wm_fault_t fault = open_file (&show, path[i], &error);
        if (!fault)
            fault = read_rows (&show, path[i], &error);
        if (!fault)
            print_all (&show, path[i]);
        show_clear (&show);
        if (fault)
            return complain (fault, &error);
    }
    return WM_EXIT_OK;
}

static int show_main (const wm_args_t *args)
{
    static const char *const for_pictures[] = { "event",    "events",   "plane",      "tpc",
                                                "cryostat", "zoom",     "hit",        "worst",
                                                "score",    "against",  "input",      "channels",
                                                "planes",   "hit-time", "hit-offset", "pedestal" };
    size_t n;
    if (!wm_args_rest (args, 0))
        return wm_args_refuse (args, "name a file of scores, as out/events.scores.h5");
    if (wm_args_text (args, "output"))
        return draw (args);
    for (size_t i = 0; i < sizeof for_pictures / sizeof *for_pictures; i++)
        if (wm_args_given (args, for_pictures[i]))
            return wm_args_refuse (args, "--%s is for a picture: add --output FILE.svg",
                                   for_pictures[i]);
    const char **path = wm_produce_confine_rest (args, &n);
    if (!path)
        return WM_EXIT_FAILURE;
    const int code = show_all (args, path, n);
    free (path);
    return code;
}
