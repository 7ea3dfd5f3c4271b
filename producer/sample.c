/* sample.c - `wiremill-producer sample`: random hits of finished outputs, cut again from their
   inputs, with the scores that the outputs hold. `wiremill verify` sends them to `wiremill-worker
   --verify`.

   What it prints:  "wiremill-sample 1\n", "pins BYTES\n" and the pins' text, "total HITS FILES\n",
   a line "by SIGNATURE\n" for each engine that scored some, "bound X\n" where every output states
   the error that its campaign promises (the largest of them, if they differ); for each batch "batch
   N BYTES FILE RUN SUBRUN EVENT\n", the hits' rows (N x uint64), who scored each (N x uint32: 0 is
   the first of "by", UINT32_MAX: not known), their scores (N x n_output float32) and the encoded
   frame; "end\n". Every scored hit of the outputs is as likely as any other.  */
#include "producer/verbs.h"

#include "producer/cutting/wm_cut.h"
#include "producer/files/wm_h5.h"
#include "producer/layouts/wm_reader.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_bisect.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_grow.h"
#include "schema/wm_limits.h"
#include "schema/wm_pair.h"
#include "schema/wm_pins.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const wm_option_t options[] = {
    {.name = "pins", .value = "FILE", .path = WM_PATH_READ, .is_needed = true, .task = "of what",
     .help = "what the campaign is pinned to"},
    {.name = "list", .value = "FILE", .path = WM_PATH_LIST, .text = "a list", .is_needed = true,
     .help = "two lines for each input: its output, and itself"},
    {.name = "sample", .value = "N", .is_needed = true, .least = 0, .most = LONG_MAX,
     .task = "which hits", .help = "so many"},
    {.name = "seed", .value = "S", .fallback = "1", .least = 0, .most = LONG_MAX,
     .help = "the same seed chooses the same hits"},
    {.name = NULL},
};

static int sample_main (const wm_args_t *args);
const wm_verb_t wm_verb_sample = {
    .program = "wiremill-producer", .name = "sample", .task = "parts of other verbs",
    .summary = "print random hits of finished outputs, for wiremill-worker --verify",
    .text = "`wiremill verify` runs both.\n", .options = options, .run = sample_main };
/* clang-format on */

#define PIECE_ROWS 65536u

typedef struct {
    char *output, *input;
    uint64_t n_row;
} file_t;

typedef struct {
    wm_pins_t pins;
    wm_spec_t spec;
    char *text; /* of the list */
    file_t *file;
    uint32_t n_file;
    uint64_t n_scored, n_sample, seed;
    char **engine; /* (n_engine) signatures */
    uint32_t n_engine;
    double bound;          /* the largest error that an output's campaign promises */
    bool lacks_bound;      /* not every output states one */
    uint64_t left, wanted; /* scored hits not visited yet, and how many to choose of them */

    /* the file being sampled */
    wm_h5_range_t *row; /* (n_row) chosen, ascending */
    uint32_t n_row, n_found;
    size_t row_max;
    float *score;   /* (n_row, n_output) */
    uint32_t *by;   /* (n_row) who scored it: index into engine, or UINT32_MAX */
    uint32_t *here; /* (n_here) the file's own engines, as indices into engine */
    uint32_t n_here;
    wm_event_t event;
    wm_batch_t batch;
    wm_coder_t *coder;
    uint8_t *frame;
    size_t frame_bytes;
} job_t;

/* ---- which hits ------------------------------------------------------------------------------ */

static uint64_t draw_below (job_t *self, uint64_t limit)
{
    uint64_t z = self->seed += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint64_t) ((unsigned __int128) (z ^ z >> 31) * limit >> 64);
}

static void choose_row (job_t *self, uint64_t row)
{
    if (draw_below (self, self->left--) >= self->wanted)
        return;
    self->wanted--;
    wm_must_grow (&self->row, &self->row_max, self->n_row + 1ul, sizeof *self->row);
    self->row[self->n_row++] = (wm_h5_range_t){ (uint32_t) row, 1 };
}

/* Place of a signature among those of all outputs; a new one is added.  */
static uint32_t engine_place (job_t *self, const char *signature)
{
    for (uint32_t i = 0; i < self->n_engine; i++)
        if (!strcmp (self->engine[i], signature))
            return i;
    self->engine = realloc (self->engine, (self->n_engine + 1ul) * sizeof *self->engine);
    assert (self->engine);
    self->engine[self->n_engine] = strdup (signature);
    assert (self->engine[self->n_engine]);
    return self->n_engine++;
}

static void take_engine (void *arg, const char *signature)
{
    job_t *self = arg;
    self->here = realloc (self->here, (self->n_here + 1ul) * sizeof *self->here);
    assert (self->here);
    self->here[self->n_here++] = engine_place (self, signature);
}

static void take_engines (job_t *self, wm_h5_t *h5)
{
    self->n_here = 0;
    wm_h5_texts (h5, "engine/signature", take_engine, self);
}

/* Outputs of before the attribute lack it, and one that is no number promises nothing.  */
static void take_bound (job_t *self, wm_h5_t *h5)
{
    char text[64], *end = text;
    const double bound = wm_h5_text (h5, "max_error", text, sizeof text) ? strtod (text, &end) : 0;
    if (end == text || *end || !isfinite (bound) || bound <= 0)
        self->lacks_bound = true;
    else
        self->bound = fmax (self->bound, bound);
}

static wm_fault_t no_memory (wm_error_t *error)
{
    return wm_fault (error, WM_EHOST, "out of memory for the sample: draw fewer hits");
}

/* Reads every row's status: counts the scored ones, or chooses among them.  */
static wm_fault_t scan_status (job_t *self, wm_h5_t *h5, file_t *file, bool choose,
                               wm_error_t *error)
{
    static int32_t status[PIECE_ROWS];
    char name[96];
    wm_column_t column;
    if (!wm_h5_has (h5, self->spec.table))
        return wm_fault (
            error, WM_EBATCH,
            "%.300s: written with --layout numl: verify reads wiremill's own table, of "
            "--layout both",
            file->output);
    snprintf (name, sizeof name, "%s/status", self->spec.table);
    wm_fault_t fault = wm_h5_column (h5, name, WM_H5_INTEGER, 1, &column, error);
    if (fault)
        return fault;
    file->n_row = column.n_row;
    for (uint64_t at = 0; at < file->n_row && !fault; at += PIECE_ROWS) {
        uint64_t n = file->n_row - at < PIECE_ROWS ? file->n_row - at : PIECE_ROWS;
        fault = wm_h5_read (&column, at, n, WM_H5_I32, status, error);
        for (uint64_t i = 0; i < n && !fault; i++) {
            if (status[i] != WM_HIT_SCORED)
                continue;
            if (choose)
                choose_row (self, at + i);
            else
                self->n_scored++;
        }
    }
    wm_h5_column_close (&column);
    return fault;
}

/* The scores that the output holds for the chosen rows.  */
static wm_fault_t read_scores (job_t *self, wm_h5_t *h5, wm_error_t *error)
{
    uint32_t n_output = self->pins.n_output;
    float *one = malloc ((self->n_row + 1ul) * sizeof *one);
    free (self->score);
    self->score = malloc ((self->n_row + 1ul) * n_output * sizeof *self->score);
    wm_fault_t fault = one && self->score ? WM_OK : no_memory (error);
    for (uint32_t k = 0; k < n_output && !fault; k++) {
        char name[96];
        wm_column_t column;
        if (self->spec.n_label == n_output)
            snprintf (name, sizeof name, "%s/%s", self->spec.table, self->spec.label[k]);
        else
            snprintf (name, sizeof name, "%s/out_%u", self->spec.table, k);
        if ((fault = wm_h5_column (h5, name, WM_H5_FLOAT, 1, &column, error)))
            break;
        fault = wm_h5_read_spans (&column, self->row, self->n_row, WM_H5_F32, one, error);
        wm_h5_column_close (&column);
        for (uint32_t i = 0; i < self->n_row && !fault; i++)
            self->score[i * n_output + k] = one[i];
    }
    free (one);
    return fault;
}

/* Who scored the chosen rows.  */
static wm_fault_t read_engines (job_t *self, wm_h5_t *h5, wm_error_t *error)
{
    char name[96];
    wm_column_t column;
    int32_t *one = malloc ((self->n_row + 1ul) * sizeof *one);
    free (self->by);
    self->by = malloc ((self->n_row + 1ul) * sizeof *self->by);
    take_engines (self, h5);
    snprintf (name, sizeof name, "%s/engine", self->spec.table);
    wm_fault_t fault = one && self->by ? wm_h5_column (h5, name, WM_H5_INTEGER, 1, &column, error)
                                       : no_memory (error);
    if (!fault) {
        fault = wm_h5_read_spans (&column, self->row, self->n_row, WM_H5_I32, one, error);
        wm_h5_column_close (&column);
    }
    for (uint32_t i = 0; i < self->n_row && !fault; i++)
        self->by[i] =
            one[i] >= 0 && (uint32_t) one[i] < self->n_here ? self->here[one[i]] : UINT32_MAX;
    free (one);
    return fault;
}

/* ---- their batches --------------------------------------------------------------------------- */

/* Place of a row among the chosen, or -1.  */
static int64_t find (const job_t *self, uint32_t row)
{
    const uint32_t at = WM_BISECT (0, self->n_row, i, self->row[i].first < row);
    return at < self->n_row && self->row[at].first == row ? (int64_t) at : -1;
}

static void put (const void *bytes, size_t size)
{
    if (fwrite (bytes, 1, size, stdout) != size)
        exit (WM_EXIT_FAILURE); /* the reader has ended, and reported why */
}

/* Leaves the chosen hits in the batch, and prints it.  */
static wm_fault_t put_batch (job_t *self, uint32_t file, const uint32_t *hit, wm_error_t *error)
{
    wm_batch_t *batch = &self->batch;
    uint32_t n = 0, n_output = self->pins.n_output;
    uint64_t *row = malloc (batch->n_hit * sizeof *row);
    uint32_t *by = malloc (batch->n_hit * sizeof *by);
    float *score = malloc ((size_t) batch->n_hit * n_output * sizeof *score);
    wm_fault_t fault = row && by && score ? WM_OK : no_memory (error);
    for (uint32_t i = 0; i < batch->n_hit && !fault; i++) {
        int64_t at = find (self, self->event.hit[hit[i]].row);
        if (at < 0)
            continue;
        if (batch->kind == WM_BATCH_PATCHES)
            memmove (batch->patch + (size_t) n * batch->patch_values,
                     batch->patch + (size_t) i * batch->patch_values,
                     batch->patch_values * sizeof *batch->patch);
        else {
            const size_t cells = wm_batch_cells (batch), bytes = cells * sizeof *batch->hit_wire;
            memmove (batch->hit_wire + n * cells, batch->hit_wire + i * cells, bytes);
            memmove (batch->hit_col + n * cells, batch->hit_col + i * cells, bytes);
        }
        row[n] = self->row[at].first;
        by[n] = self->by[at];
        memcpy (score + (size_t) n++ * n_output, self->score + (size_t) at * n_output,
                n_output * sizeof *score);
    }
    batch->n_hit = n;
    size_t bytes = 0;
    if (n)
        fault =
            wm_batch_encode (batch, self->coder, self->frame, self->frame_bytes, &bytes, error);
    if (n && !fault) {
        printf ("batch %u %zu %u %lld %lld %lld\n", n, bytes, file, (long long) self->event.run,
                (long long) self->event.subrun, (long long) self->event.event);
        put (row, n * sizeof *row);
        put (by, n * sizeof *by);
        put (score, (size_t) n * n_output * sizeof *score);
        put (self->frame, bytes);
        self->n_found += n;
    }
    free (row);
    free (by);
    free (score);
    return fault;
}

static bool has_chosen (const job_t *self)
{
    for (uint32_t i = 0; i < self->event.n_hit; i++)
        if (find (self, self->event.hit[i].row) >= 0)
            return true;
    return false;
}

static wm_fault_t cut_events (job_t *self, uint32_t file, wm_reader_t *reader, wm_error_t *error)
{
    const wm_pins_t *pins = &self->pins;
    wm_cut_t *cut = wm_cut_new (&self->spec, wm_cut_limits (pins));
    wm_fault_t fault = WM_OK;
    for (uint32_t e = 0; e < wm_reader_n_event (reader) && self->n_found < self->n_row && !fault;
         e++) {
        const uint32_t *hit;
        if ((fault = wm_reader_event (reader, e, &self->event, error)) || !has_chosen (self))
            continue;
        fault = wm_cut_start (cut, &self->event, self->file[file].input, error);
        while (!fault && !(fault = wm_cut_next (cut, &self->batch, &hit, error)) &&
               self->batch.n_hit)
            fault = put_batch (self, file, hit, error);
    }
    wm_cut_destroy (&cut);
    return fault;
}

/* The input of the file whose rows are chosen.  */
static wm_fault_t cut_file (job_t *self, uint32_t index, wm_error_t *error)
{
    file_t *file = &self->file[index];
    wm_reader_t *reader =
        wm_reader_open_input (file->input, file->input, &self->pins, "", &self->spec, error);
    if (!reader)
        return error->fault;
    wm_fault_t fault = WM_OK;
    if (wm_reader_n_row (reader) != file->n_row)
        fault = wm_fault (error, WM_EBATCH,
                          "%.300s has %llu hits, its output %llu: it has changed since",
                          file->input, (unsigned long long) wm_reader_n_row (reader),
                          (unsigned long long) file->n_row);
    self->n_found = 0;
    if (!fault)
        fault = cut_events (self, index, reader, error);
    if (!fault && self->n_found != self->n_row)
        fault = wm_fault (error, WM_EBATCH,
                          "%.300s: %u of %u hits that have scores cannot be cut any more: it has "
                          "changed since",
                          file->input, self->n_row - self->n_found, self->n_row);
    wm_reader_destroy (&reader);
    return fault;
}

static wm_fault_t sample_file (job_t *self, uint32_t index, wm_error_t *error)
{
    wm_h5_t *h5 = wm_h5_open (self->file[index].output, error);
    if (!h5)
        return error->fault;
    self->n_row = 0;
    wm_fault_t fault = scan_status (self, h5, &self->file[index], 1, error);
    if (!fault && self->n_row)
        fault = read_scores (self, h5, error);
    if (!fault && self->n_row)
        fault = read_engines (self, h5, error);
    wm_h5_close (&h5);
    return fault || !self->n_row ? fault : cut_file (self, index, error);
}

/* ---- together -------------------------------------------------------------------------------- */

/* A whole file; NULL and *error.  */
static char *read_text (const char *path, size_t *bytes, wm_error_t *error)
{
    char *text = wm_file_text (path, SIZE_MAX / 2, bytes);
    if (!text)
        wm_fault (error, WM_EHOST, "%s cannot be read", path);
    return text;
}

static wm_fault_t read_job (job_t *self, const char *pins, const char *list, wm_error_t *error)
{
    char *text, *save = NULL;
    size_t bytes;
    if (!(text = read_text (pins, &bytes, error)))
        return error->fault;
    wm_fault_t fault = wm_pins_parse (&self->pins, text, bytes, error);
    free (text);
    if (!fault)
        fault = wm_spec_parse (&self->spec, self->pins.spec, strlen (self->pins.spec), pins, error);
    if (!fault && !(self->text = read_text (list, &bytes, error)))
        fault = error->fault;
    for (char *s = fault ? NULL : strtok_r (self->text, "\n", &save); s;
         s = strtok_r (NULL, "\n", &save)) {
        self->file = realloc (self->file, (self->n_file + 1ul) * sizeof *self->file);
        assert (self->file);
        self->file[self->n_file++] = (file_t){ .output = s, .input = strtok_r (NULL, "\n", &save) };
    }
    return fault;
}

/* Outputs and inputs of others are read from here on.  */
static void confine (const job_t *self)
{
    const char **path = calloc (3ul * self->n_file + 2, sizeof *path);
    char (*planes)[PATH_MAX] = calloc (self->n_file + 1ul, sizeof *planes);
    size_t n = 0;
    assert (path && planes);
    if (*self->pins.channels)
        path[n++] = self->pins.channels;
    for (uint32_t i = 0; i < self->n_file; i++) {
        path[n++] = self->file[i].output;
        if (self->file[i].input)
            path[n++] = self->file[i].input;
        if (self->file[i].input && wm_pair_planes (&self->pins, self->file[i].input, planes[i]))
            path[n++] = planes[i];
    }
    wm_produce_confine_reader (path, n);
    free (planes);
    free (path);
}

static wm_fault_t run (job_t *self, const char *pins, const char *list, wm_error_t *error)
{
    char text[WM_PINS_BYTES_MAX];
    wm_fault_t fault = read_job (self, pins, list, error);
    if (!fault)
        confine (self);
    for (uint32_t i = 0; i < self->n_file && !fault; i++) {
        wm_h5_t *h5 = wm_h5_open (self->file[i].output, error);
        fault = h5 ? scan_status (self, h5, &self->file[i], 0, error) : error->fault;
        if (!fault) {
            take_engines (self, h5);
            take_bound (self, h5);
        }
        wm_h5_close (&h5);
    }
    if (fault)
        return fault;
    self->left = self->n_scored;
    self->wanted = self->n_sample < self->n_scored ? self->n_sample : self->n_scored;
    self->coder = wm_coder_new ();
    self->frame_bytes = wm_frame_bytes_max (self->pins.n_value, self->pins.n_output);
    self->frame_bytes += self->frame_bytes / 256; /* the bound of an encoder, which takes less */
    self->frame = malloc (self->frame_bytes);
    assert (self->frame);
    size_t bytes = wm_pins_print (&self->pins, text);
    printf ("wiremill-sample 1\npins %zu\n", bytes);
    put (text, bytes);
    printf ("total %llu %u\n", (unsigned long long) self->n_scored, self->n_file);
    for (uint32_t i = 0; i < self->n_engine; i++)
        printf ("by %s\n", self->engine[i]);
    if (!self->lacks_bound && self->bound > 0)
        printf ("bound %.9g\n", self->bound);
    for (uint32_t i = 0; i < self->n_file && self->wanted && !fault; i++)
        fault = sample_file (self, i, error);
    if (!fault)
        put ("end\n", 4);
    return fault;
}

static int sample_main (const wm_args_t *args)
{
    static job_t job;
    wm_error_t error;
    job.n_sample = (uint64_t) wm_args_number (args, "sample");
    job.seed = (uint64_t) wm_args_number (args, "seed");
    wm_fault_t fault = run (&job, wm_args_text (args, "pins"), wm_args_text (args, "list"), &error);
    if (fault)
        fprintf (stderr, "%s\n", error.text);
    wm_event_clear (&job.event);
    wm_batch_clear (&job.batch);
    wm_coder_destroy (&job.coder);
    free (job.frame);
    free (job.row);
    free (job.score);
    free (job.by);
    free (job.here);
    for (uint32_t i = 0; i < job.n_engine; i++)
        free (job.engine[i]);
    free (job.engine);
    free (job.file);
    free (job.text);
    return wm_exit_of (fault);
}
