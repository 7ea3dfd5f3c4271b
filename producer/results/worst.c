/* worst.c - `wiremill-producer worst`: single hits of outputs that a person would look at, for
   `wiremill serve`: those with the lowest score of their truth, or of what they are called where
   their input has no truth, and those that are held.

   Prints a line for each output, in their order:
     {"hits": 4383, "has_truth": true,
      "worst": [[1, 1, 1, 88, 412, 3041.5, 0.0012, "michel", "track"], ...],
      "kept": [[1, 1, 1, 7, 99999, 12, "bad wire"], ...]}
   A hit is its run, subrun, event, hit_id, wire, tick, its score, its truth and what it is called;
   null: not known, as where the input is not here. "worst" begins with the lowest score, of equal
   ones with the first row. Each list has at most --rows. {"why": "..."}: the output is not read,
   for this reason.  */
#include "producer/results/agreement.h"
#include "producer/results/report.h"
#include "producer/verbs.h"

#include "producer/files/wm_call_rule.h"
#include "producer/files/wm_h5.h"
#include "producer/files/wm_scores.h"
#include "producer/pictures/wm_render_process.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_text.h"
#include "schema/wm_batch.h"
#include "schema/wm_pins.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "rows", .value = "N", .fallback = "200", .least = 1, .most = 10000, .task = "what",
     .help = "hits that are named of an output, of either kind"},
    {.name = "hits", .value = "N", .fallback = "2000000", .least = 1, .most = 100000000,
     .help = "that are read of all outputs together"},
    {.name = NULL},
};
static int worst_main (const wm_args_t *args);
const wm_verb_t wm_verb_worst = {
    .program = "wiremill-producer", .name = "worst", .task = "parts of other verbs",
    .rest = "OUTPUT...",
    .summary = "list the worst and the held hits of outputs as JSON, for wiremill serve",
    .text = "`wiremill serve` runs it.\n", .options = options, .run = worst_main };
/* clang-format on */

typedef struct {
    wm_report_outputs_t outputs;
    const char **input; /* (outputs.n) its inputs; NULL: not here */
    bool *has_truth;    /* (outputs.n) */
    const char **path;  /* room for all files */
    uint64_t *hits;     /* (outputs.n) */
    size_t n_row;       /* --rows */
    char *lines;        /* which have the inputs */
} list_t;

typedef struct {
    uint32_t row;
    double score;
} place_t;

/* What is known of an output's hits.  */
typedef struct {
    wm_scores_t scores;
    int32_t *truth; /* (n_row) labels, -1: not known; NULL: of none */
    int32_t *wire;  /* (n_row) and */
    float *tick;    /* (n_row) NAN: not known */
    wm_call_rule_t rule;
    place_t *worst; /* (n_worst) the lowest score first */
    size_t n_worst;
} hits_t;

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the truth of the input, whose rows are those of the output's own table; none if they are
   not as many, or no label of the network is a truth's.  */
static wm_fault_t read_truth (hits_t *self, const char *input, wm_error_t *error)
{
    const uint32_t n = self->scores.n_row;
    uint32_t n_known = 0;
    wm_column_t column = { 0 };
    wm_h5_t *file = wm_h5_open (input, error);
    wm_fault_t fault =
        file ? wm_h5_column (file, "hit_table/truth", WM_H5_INTEGER, 1, &column, error)
             : error->fault;
    const bool is_of_rows = !fault && column.n_row == n;
    if (is_of_rows && !(self->truth = malloc ((n + 1ul) * sizeof *self->truth)))
        fault = wm_fault (error, WM_EHOST, "out of memory for %u rows", n);
    if (is_of_rows && !fault)
        fault = wm_h5_read (&column, 0, n, WM_H5_I32, self->truth, error);
    for (uint32_t i = 0; i < n && self->truth && !fault; i++) {
        int32_t label = -1;
        for (uint32_t k = 0; k < self->scores.n_label && self->truth[i] >= 0; k++)
            if (self->truth[i] < WM_TRUTH_END &&
                strcmp (self->scores.label[k], wm_agreement_name[self->truth[i]]) == 0)
                label = (int32_t) k;
        self->truth[i] = label;
        n_known += label >= 0;
    }
    if (!n_known) { /* its names are not the network's */
        free (self->truth);
        self->truth = NULL;
    }
    wm_h5_column_close (&column);
    wm_h5_close (&file);
    return fault;
}

static uint32_t called (const hits_t *self, uint32_t row)
{
    return wm_call_by (&self->rule, self->scores.score + row, self->scores.n_row_max);
}

/* Keeps a hit if its score is among the lowest.  */
static void note (hits_t *self, uint32_t row, double score, size_t most)
{
    size_t at = self->n_worst;
    while (at && score < self->worst[at - 1].score)
        at--;
    if (at == most)
        return;
    self->n_worst += self->n_worst < most;
    memmove (&self->worst[at + 1], &self->worst[at],
             (self->n_worst - 1 - at) * sizeof *self->worst);
    self->worst[at] = (place_t){ row, score };
}

static void find_worst (hits_t *self, size_t most)
{
    for (uint32_t row = 0; row < self->scores.n_row; row++) {
        if (self->scores.status[row] != WM_HIT_SCORED || (self->truth && self->truth[row] < 0))
            continue;
        const uint32_t k = self->truth ? (uint32_t) self->truth[row] : called (self, row);
        const double score = self->scores.score[(size_t) k * self->scores.n_row_max + row];
        if (isfinite (score))
            note (self, row, score, most);
    }
}

static wm_fault_t read_places (hits_t *self, const char *output, const char *input,
                               wm_error_t *error)
{
    const uint32_t n = self->scores.n_row;
    wm_error_t why;
    self->wire = calloc (n + 1ul, sizeof *self->wire);
    self->tick = calloc (n + 1ul, sizeof *self->tick);
    if (!self->wire || !self->tick)
        return wm_fault (error, WM_EHOST, "out of memory for %u rows", n);
    if (!input || wm_text_ends (self->scores.table, "_table") ||
        wm_report_places (output, self->scores.table, input, n, n, self->wire, self->tick, &why))
        for (uint32_t i = 0; i < n; i++)
            self->tick[i] = NAN;
    return WM_OK;
}

static wm_fault_t read_hits (hits_t *self, const list_t *list, size_t i, wm_error_t *error)
{
    const char *const *path = &list->outputs.path[i];
    wm_fault_t fault = wm_scores_labels (&self->scores, *path, error);
    if (!fault)
        fault = wm_scores_read (&self->scores, path, 1, NULL, error);
    if (!fault)
        fault = read_places (self, *path, list->input[i], error);
    if (!fault && list->has_truth[i] && !wm_text_ends (self->scores.table, "_table"))
        fault = read_truth (self, list->input[i], error);
    if (!fault && !(self->worst = calloc (list->n_row, sizeof *self->worst)))
        fault = wm_fault (error, WM_EHOST, "out of memory for a list of hits");
    if (fault)
        return fault;
    self->rule = wm_call_rule_new (self->scores.label, self->scores.n_label, WM_CALL_LEAST);
    if (self->scores.n_label)
        find_worst (self, list->n_row);
    return WM_OK;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void put_hit (FILE *out, const char *comma, const hits_t *self, uint32_t row)
{
    const wm_scores_key_t *key = &self->scores.key[row];
    fprintf (out, "%s[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", ", comma, key->id[0],
             key->id[1], key->id[2], key->id[3]);
    if (isfinite (self->tick[row]))
        fprintf (out, "%" PRId32 ", %.9g, ", self->wire[row], (double) self->tick[row]);
    else
        fputs ("null, null, ", out);
}

static void put_worst (FILE *out, const hits_t *self)
{
    fputs (", \"worst\": [", out);
    for (size_t i = 0; i < self->n_worst; i++) {
        const uint32_t row = self->worst[i].row;
        put_hit (out, i ? ", " : "", self, row);
        fprintf (out, "%.9g, ", self->worst[i].score);
        if (self->truth)
            wm_text_json (out, self->scores.label[self->truth[row]]);
        else
            fputs ("null", out);
        fputs (", ", out);
        wm_text_json (out, self->scores.label[called (self, row)]);
        fputc (']', out);
    }
    fputc (']', out);
}

static void put_kept (FILE *out, const hits_t *self, size_t most)
{
    size_t n = 0;
    fputs (", \"kept\": [", out);
    for (uint32_t row = 0; row < self->scores.n_row; row++) {
        if (self->scores.status[row] == WM_HIT_SCORED || n == most)
            continue;
        put_hit (out, n++ ? ", " : "", self, row);
        wm_text_json (out, wm_hit_status_text (self->scores.status[row]));
        fputc (']', out);
    }
    fputs ("]}\n", out);
}

static void put_output (FILE *out, const list_t *list, size_t i)
{
    hits_t hits = { .truth = NULL };
    wm_error_t error;
    if (read_hits (&hits, list, i, &error)) {
        fputs ("{\"why\": ", out);
        wm_text_json (out, error.text);
        fputs ("}\n", out);
    } else {
        fprintf (out, "{\"hits\": %u, \"has_truth\": %s", hits.scores.n_row,
                 hits.truth ? "true" : "false");
        put_worst (out, &hits);
        put_kept (out, &hits, list->n_row);
    }
    wm_scores_clear (&hits.scores);
    free (hits.truth);
    free (hits.wire);
    free (hits.tick);
    free (hits.worst);
}

/* A child.  */
static int print (void *arg, FILE *out)
{
    const list_t *list = arg;
    const size_t n = list->outputs.n;
    size_t n_path = 0;
    uint64_t sum = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        list->path[n_path++] = list->outputs.path[i];
        if (list->input[i])
            list->path[n_path++] = list->input[i];
    }
    wm_produce_confine_reader (list->path, n_path);
    wm_h5_init ();
    for (size_t i = 0; i < n; i++)
        all += list->hits[i];
    const size_t step = 1 + (size_t) (all / (list->outputs.hits_max + 1)); /* evenly spaced */
    for (size_t i = 0; i < n; i++) {
        const bool fits = i % step == 0 && sum + list->hits[i] <= list->outputs.hits_max;
        sum += fits ? list->hits[i] : 0;
        if (fits)
            put_output (out, list, i);
        else
            fputs ("{\"left_out\": true}\n", out);
    }
    return WM_EXIT_OK;
}

/* ---- which files ----------------------------------------------------------------------------- */

/* Finds the inputs, which of them have truth, and how many hits each output has.  */
static void find_inputs (list_t *list, const char **there)
{
    const size_t n = list->outputs.n;
    size_t n_there = 0;
    list->lines = wm_report_inputs ("serve", &list->outputs);
    if (!list->lines)
        return;
    wm_report_take_inputs (&list->outputs, list->lines, list->input, list->hits);
    for (size_t i = 0; i < n; i++)
        if (list->input[i])
            there[n_there++] = list->input[i];
    char *has = n_there ? wm_report_find_truth ("serve", there, n_there) : NULL;
    for (size_t i = 0, k = 0; i < n && has; i++)
        list->has_truth[i] = list->input[i] && has[k++] == '1';
    free (has);
}

static int worst_main (const wm_args_t *args)
{
    list_t list = { .n_row = (size_t) wm_args_number (args, "rows") };
    int code = wm_report_outputs (args, &list.outputs);
    if (code)
        return code;
    const size_t n = list.outputs.n;
    const char **path = calloc (3 * n, sizeof *path);
    list.hits = calloc (n, sizeof *list.hits);
    list.has_truth = calloc (n, sizeof *list.has_truth);
    code = WM_EXIT_FAILURE;
    if (path && list.hits && list.has_truth) {
        list.input = path;
        list.path = path + n; /* room for both kinds */
        find_inputs (&list, list.path);
        code = wm_render_process_copy ("serve", print, &list, stdout);
    }
    free (list.lines);
    free (list.hits);
    free (list.has_truth);
    free (list.outputs.path);
    free (path);
    return code ? code : fflush (stdout) ? WM_EXIT_FAILURE : WM_EXIT_OK;
}
