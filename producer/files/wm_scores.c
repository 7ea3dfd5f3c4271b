/* wm_scores.c - see wm_scores.h.  */
#include "producer/files/wm_scores.h"

#include "kernels/patch/wm_spec.h"
#include "producer/files/wm_index.h"
#include "schema/base/wm_grow.h"
#include "schema/wm_batch.h"
#include "schema/wm_pins.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_ROWS 65536u

void wm_scores_clear (wm_scores_t *self)
{
    free (self->key);
    free (self->status);
    free (self->score);
    memset (self, 0, sizeof *self);
}

/* The specification of an output of wiremill; false: it is not one.  */
static bool spec_of (const wm_h5_t *file, wm_spec_t *spec)
{
    char text[WM_PINS_BYTES_MAX];
    wm_error_t error;
    return wm_h5_lines (file, "specification", text, sizeof text) &&
           !wm_spec_parse (spec, text, strlen (text), wm_h5_path (file), &error);
}

static bool has (const wm_h5_t *file, const char *table, const char *column)
{
    char name[160];
    snprintf (name, sizeof name, "%s/%s", table, column);
    return wm_h5_has (file, name);
}

bool wm_scores_table (const wm_h5_t *file, const char *table, char name[80])
{
    wm_spec_t spec;
    const bool is_ours = spec_of (file, &spec);
    const char *stem = is_ours ? spec.table : "emtrkmichel";
    if (table && !is_ours)
        snprintf (name, 80, "%.79s", table);
    else {
        snprintf (name, 80, "%.63s%s", stem, is_ours ? "" : "_table");
        if (!wm_h5_has (file, name))
            snprintf (name, 80, "%.63s%s", stem, is_ours ? "_table" : "");
    }
    return wm_h5_has (file, name);
}

#define LIST 112 /* bytes of a list of names */

/* Adds a name to a list for people; what is too much is cut off.  */
static bool column_add (void *arg, const char *name)
{
    static const char *const others[] = {
        "event_id", "run",         "subrun",           "event",       "hit_id",
        "status",   "in_fiducial", "event_id.seq_cnt", "event_id.seq"
    };
    char *list = arg;
    const size_t at = strlen (list);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp (name, others[i]))
            return true;
    snprintf (list + at, LIST - at, "%s%s", at ? ", " : "", name);
    return true;
}

static wm_fault_t no_table (const wm_h5_t *file, const char *table, wm_error_t *error)
{
    if (wm_h5_has (file, "hit_table"))
        return wm_fault (error, WM_EBATCH,
                         "%.200s: it has events (hit_table), but no table %s; give an output of a "
                         "campaign (*.scores.h5), or name the group of its scores by --table",
                         wm_h5_path (file), table);
    return wm_fault (error, WM_EBATCH,
                     "%.200s: no table %s; name the group of its scores by --table (of compare, "
                     "verify)",
                     wm_h5_path (file), table);
}

/* What is wrong where a file has none of the labels.  */
static wm_fault_t keep_none (const wm_scores_t *self, const char *path, const char *table,
                             const char *columns, wm_error_t *error)
{
    char wanted[LIST] = "";
    for (uint32_t i = 0; i < self->n_label; i++)
        column_add (wanted, self->label[i]);
    return wm_fault (error, WM_EBATCH, "%.120s: none of the scores %s is in %s, which has %s", path,
                     wanted, table, *columns ? columns : "no scores");
}

wm_fault_t wm_scores_keep (wm_scores_t *self, const char *path, const char *table,
                           void (*missing) (void *arg, const char *path, const char *label),
                           void *arg, wm_error_t *error)
{
    char name[80];
    char columns[LIST] = "";
    bool is_there[WM_SCORES_LABELS_MAX] = { false };
    uint32_t n = 0, n_there = 0;
    wm_h5_t *file = wm_h5_open (path, error);
    if (!file)
        return error->fault;
    const bool found = wm_scores_table (file, table, name);
    for (uint32_t i = 0; i < self->n_label; i++)
        n_there += is_there[i] = found && has (file, name, self->label[i]);
    if (found && !n_there)
        wm_h5_names (file, name, column_add, columns);
    const wm_fault_t fault = found ? WM_OK : no_table (file, name, error);
    wm_h5_close (&file);
    if (fault || !n_there)
        return fault ? fault : keep_none (self, path, name, columns, error);
    for (uint32_t i = 0; i < self->n_label; i++)
        if (is_there[i])
            memmove (self->label[n++], self->label[i], sizeof *self->label);
        else
            missing (arg, path, self->label[i]);
    self->n_label = n;
    return WM_OK;
}

wm_fault_t wm_scores_labels (wm_scores_t *self, const char *path, wm_error_t *error)
{
    wm_spec_t spec;
    char name[80];
    self->n_label = 0;
    wm_h5_t *file = wm_h5_open (path, error);
    if (!file)
        return error->fault;
    const bool is_ours = spec_of (file, &spec) && wm_scores_table (file, NULL, name);
    if (is_ours && spec.result == WM_RESULT_IMAGE) {
        wm_h5_close (&file);
        return wm_fault (
            error, WM_EBATCH,
            "%.200s has images (result: image), not scores of hits: read its frames with "
            "h5py (`wiremill help outputs`)",
            path);
    }
    for (uint32_t i = 0; is_ours && i < WM_SCORES_LABELS_MAX; i++) {
        char *label = self->label[i];
        snprintf (label, 48, "%s", i < spec.n_label ? spec.label[i] : "");
        if ((!*label || !has (file, name, label)) && (!i || !strncmp (self->label[0], "out_", 4)))
            snprintf (label, 48, "out_%u", i); /* as the writer: labels, or numbers for all */
        if (!*label || !has (file, name, label))
            break;
        self->n_label++;
    }
    wm_h5_close (&file);
    return WM_OK;
}

/* ---- one file -------------------------------------------------------------------------------- */

typedef struct {
    wm_column_t event[3], hit_id, status, label[WM_SCORES_LABELS_MAX];
} columns_t;

static void columns_close (columns_t *c)
{
    for (int k = 0; k < 3; k++)
        wm_h5_column_close (&c->event[k]);
    wm_h5_column_close (&c->hit_id);
    wm_h5_column_close (&c->status);
    for (uint32_t i = 0; i < WM_SCORES_LABELS_MAX; i++)
        wm_h5_column_close (&c->label[i]);
}

static wm_fault_t column_open (wm_h5_t *file, const char *table, const char *name, bool is_float,
                               uint32_t width, uint64_t n_row, wm_column_t *column,
                               wm_error_t *error)
{
    char path[96];
    if (snprintf (path, sizeof path, "%s/%s", table, name) >= (int) sizeof path)
        return wm_fault (error, WM_EBATCH, "%.300s: the name %s/%s is too long", wm_h5_path (file),
                         table, name);
    wm_fault_t fault =
        wm_h5_column (file, path, is_float ? WM_H5_FLOAT : WM_H5_INTEGER, width, column, error);
    if (!fault && n_row != UINT64_MAX && column->n_row != n_row)
        fault = wm_fault (error, WM_EBATCH, "%.300s: %s has %llu rows, the table %llu",
                          wm_h5_path (file), path, (unsigned long long) column->n_row,
                          (unsigned long long) n_row);
    return fault;
}

static wm_fault_t columns_open (const wm_scores_t *self, wm_h5_t *file, columns_t *c,
                                wm_error_t *error)
{
    static const char *const ids[] = { "run", "subrun", "event" };
    const bool is_one = has (file, self->table, "event_id");
    wm_fault_t fault = WM_OK;
    for (int k = 0; k < (is_one ? 1 : 3) && !fault; k++)
        fault = column_open (file, self->table, is_one ? "event_id" : ids[k], false, is_one ? 3 : 1,
                             k ? c->event[0].n_row : UINT64_MAX, &c->event[k], error);
    const uint64_t n = c->event[0].n_row;
    if (!fault)
        fault = column_open (file, self->table, "hit_id", false, 1, n, &c->hit_id, error);
    if (!fault && has (file, self->table, "status"))
        fault = column_open (file, self->table, "status", false, 1, n, &c->status, error);
    for (uint32_t i = 0; i < self->n_label && !fault; i++)
        fault = column_open (file, self->table, self->label[i], true, 1, n, &c->label[i], error);
    return fault;
}

bool wm_scores_room (uint32_t n_row_max, uint64_t n_row, uint32_t n_label, uint32_t *n_row_room,
                     size_t *bytes)
{
    const uint64_t twice = 2ull * n_row_max, most = n_row > twice ? n_row : twice;
    *n_row_room = most < UINT32_MAX ? (uint32_t) most : UINT32_MAX - 1;
    return n_row < UINT32_MAX && !__builtin_mul_overflow (*n_row_room, sizeof (double), bytes) &&
           !__builtin_mul_overflow (*bytes, n_label, bytes);
}

/* Makes room for so many rows more.  */
static wm_fault_t room_make (wm_scores_t *self, uint64_t more, wm_error_t *error)
{
    uint64_t n;
    uint32_t most;
    size_t bytes;
    if (__builtin_add_overflow (more, self->n_row, &n) ||
        !wm_scores_room (self->n_row_max, n, self->n_label, &most, &bytes))
        return wm_fault (error, WM_EBATCH,
                         "%llu rows more than %u are too many to be compared at once: compare "
                         "fewer files",
                         (unsigned long long) more, self->n_row);
    if (n <= self->n_row_max)
        return WM_OK;
    double *score = malloc (bytes + 1);
    if (!wm_regrow (&self->key, most, sizeof *self->key) || !wm_regrow (&self->status, most, 1) ||
        !score) {
        free (score);
        return wm_fault (error, WM_EHOST, "out of memory for %llu rows", (unsigned long long) n);
    }
    for (uint32_t i = 0; i < self->n_label && self->n_row; i++)
        memcpy (score + (size_t) i * most, self->score + (size_t) i * self->n_row_max,
                self->n_row * sizeof *score);
    free (self->score);
    self->score = score;
    self->n_row_max = most;
    return WM_OK;
}

/* Reads rows first .. first+n-1 behind those that are there.  */
static wm_fault_t piece_read (wm_scores_t *self, const columns_t *c, uint64_t first, uint32_t n,
                              wm_error_t *error)
{
    static wm_event_id_t event[PIECE_ROWS];
    static int64_t hit_id[PIECE_ROWS];
    static int32_t status[PIECE_ROWS];
    wm_fault_t fault;
    if ((fault = wm_index_ids (c->event, first, n, event, error)) ||
        (fault = wm_h5_read (&c->hit_id, first, n, WM_H5_I64, hit_id, error)) ||
        (c->status.data && (fault = wm_h5_read (&c->status, first, n, WM_H5_I32, status, error))))
        return fault;
    for (uint32_t k = 0; k < self->n_label && !fault; k++)
        fault = wm_h5_read (&c->label[k], first, n, WM_H5_F64,
                            self->score + (size_t) k * self->n_row_max + self->n_row, error);
    for (uint32_t i = 0; i < n && !fault; i++) {
        const uint32_t at = self->n_row + i;
        bool is_finite = true;
        for (uint32_t k = 0; k < self->n_label && !c->status.data; k++)
            is_finite &= isfinite (self->score[(size_t) k * self->n_row_max + at]) != 0;
        self->key[at] =
            (wm_scores_key_t){ { event[i].id[0], event[i].id[1], event[i].id[2], hit_id[i] }, at };
        self->status[at] = !c->status.data ? (is_finite ? WM_HIT_SCORED : WM_HIT_NONFINITE)
                           : status[i] >= 0 && status[i] < (int32_t) WM_HIT_STATUSES
                               ? (uint8_t) status[i]
                               : WM_HIT_HELD;
    }
    self->n_row += fault ? 0 : n;
    return fault;
}

static wm_fault_t file_read (wm_scores_t *self, const char *path, const char *table,
                             wm_error_t *error)
{
    wm_spec_t spec;
    int64_t same = 0;
    columns_t c = { 0 };
    wm_h5_t *file = wm_h5_open (path, error);
    if (!file)
        return error->fault;
    const bool is_ours = spec_of (file, &spec);
    wm_fault_t fault = WM_OK;
    if (!wm_scores_table (file, table, self->table))
        fault = no_table (file, self->table, error);
    self->is_ours &= is_ours;
    if (is_ours && wm_h5_number (file, "hits_same_cell", &same))
        self->n_same_cell += (uint64_t) same;
    if (!fault)
        fault = columns_open (self, file, &c, error);
    if (!fault)
        fault = room_make (self, c.event[0].n_row, error);
    for (uint64_t row = 0; row < c.event[0].n_row && !fault; row += PIECE_ROWS) {
        const uint64_t left = c.event[0].n_row - row;
        fault = piece_read (self, &c, row, left < PIECE_ROWS ? (uint32_t) left : PIECE_ROWS, error);
    }
    columns_close (&c);
    wm_h5_close (&file);
    return fault;
}

wm_fault_t wm_scores_read (wm_scores_t *self, const char *const *path, uint32_t n,
                           const char *table, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    self->is_ours = true;
    for (uint32_t i = 0; i < n && !fault; i++)
        fault = file_read (self, path[i], table, error);
    return fault;
}

/* ---- order ----------------------------------------------------------------------------------- */

double wm_scores_difference (double a, double b)
{
    if (a == b || (isnan (a) && isnan (b)))
        return 0;
    const double d = fabs (a - b) / fmax (1, fabs (a));
    return isfinite (d) ? d : (double) INFINITY;
}

int wm_scores_order (const wm_scores_key_t *a, const wm_scores_key_t *b)
{
    for (int k = 0; k < 4; k++)
        if (a->id[k] != b->id[k])
            return a->id[k] < b->id[k] ? -1 : 1;
    return 0;
}

static int compare (const void *a_v, const void *b_v)
{
    const wm_scores_key_t *a = a_v, *b = b_v;
    const int order = wm_scores_order (a, b);
    return order ? order : (a->at > b->at) - (a->at < b->at);
}

/* A key in one number, of which only the lowest bits are used.  */
typedef struct {
    uint64_t packed;
    uint32_t from;
} packed_t;

/* Sorts by `bits` bits, keeping the order of equal ones: 11 at a time, the lowest first. Returns
   the one of the two arrays that has the result.  */
static packed_t *packed_sort (packed_t *value, packed_t *space, uint32_t n, uint32_t bits)
{
    static uint32_t start[2049];
    for (uint32_t shift = 0; shift < bits; shift += 11) {
        memset (start, 0, sizeof start);
        for (uint32_t i = 0; i < n; i++)
            start[(value[i].packed >> shift & 2047) + 1]++;
        for (uint32_t k = 1; k < 2048; k++)
            start[k] += start[k - 1];
        for (uint32_t i = 0; i < n; i++)
            space[start[value[i].packed >> shift & 2047]++] = value[i];
        packed_t *other = value;
        value = space, space = other;
    }
    return value;
}

/* Sorts where all keys of the rows, less the smallest of each number, fit 64 bits together, as they
   nearly always do: ten times as fast as qsort. false: they do not, or there is no memory.  */
static bool sort_packed (wm_scores_t *self)
{
    const uint32_t n = self->n_row;
    int64_t least[4], most[4];
    uint32_t width[4], bits = 0;
    for (int k = 0; k < 4; k++) {
        least[k] = most[k] = self->key[0].id[k];
        for (uint32_t i = 1; i < n; i++) {
            const int64_t id = self->key[i].id[k];
            least[k] = id < least[k] ? id : least[k];
            most[k] = id > most[k] ? id : most[k];
        }
        const uint64_t range = (uint64_t) most[k] - (uint64_t) least[k];
        bits += width[k] = range ? 64 - (uint32_t) __builtin_clzll (range) : 0;
    }
    packed_t *value = bits < 64 ? malloc (2ul * n * sizeof *value) : NULL;
    wm_scores_key_t *key = value ? malloc (n * sizeof *key) : NULL;
    for (uint32_t i = 0; i < n && key; i++) {
        value[i] = (packed_t){ 0, i };
        for (int k = 0; k < 4; k++)
            value[i].packed =
                value[i].packed << width[k] | ((uint64_t) self->key[i].id[k] - (uint64_t) least[k]);
    }
    const packed_t *sorted = key ? packed_sort (value, value + n, n, bits) : NULL;
    for (uint32_t i = 0; i < n && key; i++)
        key[i] = self->key[sorted[i].from];
    free (value);
    if (!key)
        return false;
    free (self->key);
    self->key = key;
    return true;
}

void wm_scores_sort (wm_scores_t *self)
{
    uint32_t i = 1;
    while (i < self->n_row && compare (&self->key[i - 1], &self->key[i]) < 0)
        i++;
    if (i < self->n_row && !sort_packed (self))
        qsort (self->key, self->n_row, sizeof *self->key, compare);
}
