/* facts.c - `wiremill-producer facts`: what a catalogue wants to know of outputs. The sidecars of
   `wiremill run` (ops/workflow/wm_sidecar.c) have it from here.

   Prints a line of JSON for each file, in their order, or null where the file cannot be read:
   {"events": 2, "first": 1, "last": 2, "hits": 300, "held": 0, "precision": "fp32", "model":
   "SHA-256", "judged_by": "onnxruntime-1.32.0", "runs": [1], "runs_subruns": [100001]}. Events are
   those that have hits: an output has a row for each hit, and nothing of an event without. A subrun
   is 100,000 times its run and its number, as in DUNE's catalogue. judged_by is left out where the
   output does not state it.  */
#include "producer/verbs.h"

#include "kernels/patch/wm_spec.h"
#include "producer/files/wm_h5.h"
#include "producer/files/wm_index.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_failpoint.h"
#include "schema/base/wm_grow.h"
#include "schema/wm_pins.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const wm_option_t options[] = { {.name = NULL} };
static int facts_main (const wm_args_t *args);
const wm_verb_t wm_verb_facts = {
    .program = "wiremill-producer", .name = "facts", .task = "parts of other verbs",
    .rest = "OUTPUT...",
    .summary = "print events, runs and hits of outputs as JSON, for wiremill run --sidecars",
    .text = "`wiremill run` and `wiremill produce` run it.\n", .options = options,
    .run = facts_main };
/* clang-format on */

#define PIECE_ROWS 65536u
#define EVENTS_MAX (1u << 22) /* an input has fewer; a damaged output may claim any number */
#define SUBRUNS_OF_A_RUN 100000

typedef struct {
    int64_t hits, held;
    char model[80], precision[16];
    char judged_by[WM_PINS_JUDGED_BYTES]; /* "": the output states none */
    wm_event_id_t *event;                 /* sorted, without repeats once `collect` is done */
    size_t n, room;
} facts_t;

static int event_compare (const void *a, const void *b)
{
    const wm_event_id_t *x = a, *y = b;
    for (int i = 0; i < 3; i++)
        if (x->id[i] != y->id[i])
            return x->id[i] < y->id[i] ? -1 : 1;
    return 0;
}

static void sort (facts_t *self)
{
    size_t n = 0;
    if (self->n)
        qsort (self->event, self->n, sizeof *self->event, event_compare);
    for (size_t i = 0; i < self->n; i++)
        if (!n || event_compare (&self->event[n - 1], &self->event[i]) != 0)
            self->event[n++] = self->event[i];
    self->n = n;
}

/* Adds the event of a row. Hits of an event follow each other in nearly all files; where they do
   not, the list is sorted whenever it is full.  */
static wm_fault_t add (facts_t *self, const wm_event_id_t *event, wm_error_t *error)
{
    if (self->n && event_compare (&self->event[self->n - 1], event) == 0)
        return WM_OK;
    const bool is_full = self->n == self->room;
    if (is_full)
        sort (self);
    if (is_full && 2 * self->n >= self->room &&
        (self->room >= EVENTS_MAX ||
         !wm_grow (&self->event, &self->room, self->room + 1, sizeof *self->event)))
        return wm_fault (error, WM_EHOST, "no memory for its events");
    self->event[self->n++] = *event;
    return WM_OK;
}

/* Reads the three columns of all rows.  */
static wm_fault_t collect (facts_t *self, wm_h5_t *file, const char *table, wm_error_t *error)
{
    static const char *const name[3] = { "run", "subrun", "event" };
    static wm_event_id_t event[PIECE_ROWS];
    wm_column_t column[3] = { { 0 } };
    wm_fault_t fault = WM_OK;
    const bool own = wm_h5_has (file, table); /* else of --layout numl */
    if (!own)
        fault = wm_h5_column (file, "event_table/event_id", WM_H5_INTEGER, 3, &column[0], error);
    for (int c = 0; c < 3 && own && !fault; c++) {
        char path[112];
        snprintf (path, sizeof path, "%.90s/%s", table, name[c]);
        fault = wm_h5_column (file, path, WM_H5_INTEGER, 1, &column[c], error);
        if (!fault && column[c].n_row != column[0].n_row)
            fault = wm_fault (error, WM_EBATCH, "columns of different lengths");
    }
    for (uint64_t row = 0; !fault && row < column[0].n_row; row += PIECE_ROWS) {
        const uint64_t left = column[0].n_row - row, n = left < PIECE_ROWS ? left : PIECE_ROWS;
        fault = wm_index_ids (column, row, n, event, error);
        for (uint64_t i = 0; i < n && !fault; i++)
            fault = add (self, &event[i], error);
    }
    for (int c = 0; c < 3; c++)
        wm_h5_column_close (&column[c]);
    sort (self);
    return fault;
}

static wm_fault_t read_output (facts_t *self, const char *path, wm_error_t *error)
{
    char text[WM_PINS_BYTES_MAX];
    wm_spec_t spec;
    wm_h5_t *file = wm_h5_open (path, error);
    if (!file)
        return error->fault;
    wm_fault_t fault = WM_OK;
    if (!wm_h5_lines (file, "specification", text, sizeof text) ||
        !wm_h5_number (file, "hits", &self->hits) ||
        !wm_h5_number (file, "hits_held", &self->held) ||
        !wm_h5_text (file, "model_sha256", self->model, sizeof self->model) ||
        !wm_h5_text (file, "precision", self->precision, sizeof self->precision))
        fault = wm_fault (error, WM_EBATCH, "%s is not an output of wiremill", path);
    if (!wm_h5_text (file, "judged_by", self->judged_by, sizeof self->judged_by))
        self->judged_by[0] = 0;
    if (!fault)
        fault = wm_spec_parse (&spec, text, strlen (text), path, error);
    if (!fault)
        fault = collect (self, file, spec.table, error);
    wm_h5_close (&file);
    return fault;
}

/* A name that was damaged must not end the text that it is printed in.  */
static void print_text (const char *name, const char *text)
{
    printf (", \"%s\": \"", name);
    for (; *text; text++)
        putchar (*text >= ' ' && *text < 0x7f && *text != '"' && *text != '\\' ? *text : '?');
    putchar ('"');
}

static void print (const facts_t *self)
{
    int64_t first = self->n ? INT64_MAX : 0, last = self->n ? INT64_MIN : 0;
    for (size_t i = 0; i < self->n; i++) {
        const int64_t number = self->event[i].id[2];
        first = number < first ? number : first;
        last = number > last ? number : last;
    }
    printf ("{\"events\": %zu, \"first\": %" PRId64 ", \"last\": %" PRId64 ", \"hits\": %" PRId64
            ", \"held\": %" PRId64,
            self->n, first, last, self->hits, self->held);
    print_text ("precision", self->precision);
    print_text ("model", self->model);
    if (*self->judged_by)
        print_text ("judged_by", self->judged_by);
    fputs (", \"runs\": [", stdout);
    const wm_event_id_t *event = self->event;
    for (size_t i = 0; i < self->n; i++)
        if (!i || event[i].id[0] != event[i - 1].id[0])
            printf ("%s%" PRId64, i ? ", " : "", event[i].id[0]);
    fputs ("], \"runs_subruns\": [", stdout);
    for (size_t i = 0; i < self->n; i++)
        if (!i || memcmp (event[i].id, event[i - 1].id, 2 * sizeof event->id[0]) != 0)
            printf ("%s%" PRId64, i ? ", " : "",
                    (int64_t) ((uint64_t) event[i].id[0] * SUBRUNS_OF_A_RUN +
                               (uint64_t) event[i].id[1]));
    puts ("]}");
}

static int facts_main (const wm_args_t *args)
{
    size_t n_path;
    wm_error_t error;
    const char **path = wm_produce_confine_rest (args, &n_path);
    if (!path)
        return WM_EXIT_FAILURE;
    for (size_t i = 0; i < n_path; i++) {
        facts_t facts = { 0 };
        WM_FAILPOINT ("facts-read");
        if (read_output (&facts, path[i], &error))
            puts ("null");
        else
            print (&facts);
        free (facts.event);
    }
    free (path);
    return WM_EXIT_OK;
}
