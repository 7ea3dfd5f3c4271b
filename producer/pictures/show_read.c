/* show_read.c - reads what `wiremill show --output` draws: an output, its input, their truth, and
   the event or events that are asked for.  */
#include "producer/pictures/show_event.h"

#include "producer/files/wm_h5.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/wm_batch.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAGES_MAX 1000u

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
    self->reader = wm_reader_open_pair (self->input, &self->pair, &self->spec, error);
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

/* Sorts the rows' identities, not the rows; the caller frees sorted->key. False: no memory.  */
static bool sort_copy (const wm_show_t *self, wm_scores_t *sorted)
{
    const size_t bytes = self->scores.n_row * sizeof *sorted->key;
    *sorted = (wm_scores_t){ .n_row = self->scores.n_row, .key = malloc (bytes) };
    if (!sorted->key)
        return false;
    memcpy (sorted->key, self->scores.key, bytes);
    wm_scores_sort (sorted);
    return true;
}

/* Reads the other output, and finds the same hits in it by their identity.  */
static wm_fault_t read_other (wm_show_t *self, wm_error_t *error)
{
    const uint32_t n = self->scores.n_row;
    wm_scores_t *other = &self->other, sorted;
    other->n_label = self->scores.n_label;
    memcpy (other->label, self->scores.label, sizeof other->label);
    self->match = malloc (n * sizeof *self->match);
    wm_fault_t fault = sort_copy (self, &sorted) && self->match
                           ? wm_scores_read (other, &self->against, 1, NULL, error)
                           : wm_fault (error, WM_EHOST, "out of memory for %u rows", n);
    if (!fault) {
        memset (self->match, 0xff, n * sizeof *self->match);
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

/* The row whose truth has the lowest score; UINT32_MAX: no row has truth.  */
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

static int by_number (const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;
    return (x > y) - (x < y);
}

/* The first row of each event, in the order of the file; the caller's, NULL: no memory.  */
static uint32_t *first_rows (const wm_show_t *self, uint32_t *n)
{
    wm_scores_t sorted;
    uint32_t *first = calloc (self->scores.n_row, sizeof *first);
    *n = 0;
    if (first && sort_copy (self, &sorted)) {
        for (uint32_t i = 0; i < sorted.n_row; i++) {
            const wm_scores_key_t *key = &sorted.key[i];
            if (!i || memcmp (key->id, key[-1].id, 3 * sizeof *key->id))
                first[(*n)++] = key->at;
            else if (key->at < first[*n - 1])
                first[*n - 1] = key->at;
        }
        free (sorted.key);
        qsort (first, *n, sizeof *first, by_number);
        return first;
    }
    free (first);
    return NULL;
}

/* Finds the first rows of the events that a page has.  */
static wm_fault_t choose_pages (wm_show_t *self, wm_error_t *error)
{
    uint32_t n;
    self->page_row = first_rows (self, &n);
    if (!self->page_row)
        return wm_fault (error, WM_EHOST, "out of memory for %u rows", self->scores.n_row);
    if (n < self->page_from)
        return wm_fault (error, WM_EUSAGE, "--events begins with event %u, and %.200s has %u",
                         self->page_from, self->path, n);
    self->n_page = (self->page_to < n ? self->page_to : n) - self->page_from + 1;
    memmove (self->page_row, self->page_row + self->page_from - 1,
             self->n_page * sizeof *self->page_row);
    return self->n_page <= PAGES_MAX
               ? WM_OK
               : wm_fault (
                     error, WM_EUSAGE,
                     "%u events are asked for, and a page has at most %u: name some of the %u "
                     "of %.200s by --events, as 1-20",
                     self->n_page, PAGES_MAX, n, self->path);
}

static wm_fault_t read_whole (wm_show_t *self, uint32_t row, wm_error_t *error)
{
    const wm_fault_t fault = read_event (self, row, error);
    return fault || self->spec.points != WM_POINTS_SPACEPOINTS ? fault
                                                               : wm_show_project (self, error);
}

wm_fault_t wm_show_turn (wm_show_t *self, wm_error_t *error)
{
    return read_whole (self, self->page_row[++self->page_at], error);
}

static wm_fault_t choose (wm_show_t *self, wm_error_t *error)
{
    uint32_t row = 0;
    self->n_page = 1;
    wm_fault_t fault =
        self->has_pages ? choose_pages (self, error) : choose_row (self, &row, error);
    if (!fault)
        fault = read_whole (self, self->has_pages ? self->page_row[0] : row, error);
    self->hit = UINT32_MAX;
    for (uint32_t i = 0; i < self->event.n_hit && !fault && (self->has_hit || self->is_worst); i++)
        if (self->event.hit[i].row == row && self->hit == UINT32_MAX)
            self->hit = i;
    if (!fault && self->hit != UINT32_MAX)
        self->id[3] = self->scores.key[row].id[3];
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
