/* report_scores.c - the distributions of scores in `wiremill report`: by label and by plane, of a
   sample of hits that is the same each time.  */
#include "producer/results/report.h"
#include "producer/results/report_drift.h"
#include "producer/results/report_maps.h"

#include "producer/files/wm_call_rule.h"
#include "producer/files/wm_h5.h"
#include "producer/files/wm_scores.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_log.h"
#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"
#include "schema/wm_batch.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 8000000ul /* scores in memory: 32 MB */
#define PIECES 8u            /* of an output that is not read whole */
#define PLANES_MAX 4         /* lines of a picture; the last is of all other planes */
#define BINS 50
#define ROUNDING 1e-3 /* scores from 0 to 1 may be off by so much */
#define TICKS_MAX 1e9 /* of a map; NAN is not below it */
#define OTHERS INT32_MAX

typedef struct {
    wm_scores_t labels;  /* n_label and label alone */
    char table[80];      /* of the output that is read */
    size_t n_max, n_all; /* hits that fit; hits that the outputs have */
    size_t n;            /* hits that were read */
    float *score;        /* (n_label, n_max) */
    int32_t *plane;      /* (n_max) the plane's number, then its place among `number` */
    int32_t *status;     /* (n_max) */
    int32_t *wire;       /* (n_max) and */
    float *tick;         /* (n_max) NAN: not known; NULL: they are not read */
    size_t n_placed;     /* outputs with them, and why the first of the others has none */
    char no_place[400];
    int32_t number[PLANES_MAX];
    uint32_t n_plane;
    size_t n_file, n_bad;
    const char **path; /* (n_file) those that were read */
    size_t *end;       /* (n_file) of its hits */
    char why[400];     /* the first that could not be read */
} sample_t;

static double score_of (const sample_t *self, uint32_t label, size_t i)
{
    return (double) self->score[label * self->n_max + i];
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Opens a column of the table; one that is not there has no data.  */
static wm_fault_t column_open (const sample_t *self, wm_h5_t *file, const char *name, bool is_float,
                               wm_column_t *column, wm_error_t *error)
{
    char path[160];
    snprintf (path, sizeof path, "%s/%s", self->table, name);
    if (!wm_h5_has (file, path))
        return WM_OK;
    return wm_h5_column (file, path, is_float ? WM_H5_FLOAT : WM_H5_INTEGER, 1, column, error);
}

/* Reads rows of one column in pieces that are evenly spaced.  */
static wm_fault_t column_read (const wm_column_t *column, uint64_t n_row, uint64_t n_take,
                               wm_h5_type_t type, void *to, wm_error_t *error)
{
    const uint32_t n_piece = n_take < n_row ? PIECES : 1;
    wm_fault_t fault = WM_OK;
    if (column->data && column->n_row != n_row)
        return wm_fault (error, WM_EBATCH, "its column %s has another length", column->name);
    for (uint64_t p = 0, done = 0; p < n_piece && !fault && column->data; p++) {
        const uint64_t end = n_take * (p + 1) / n_piece;
        fault = wm_h5_read (column, p * (n_row / n_piece), end - done, type,
                            (char *) to + done * (type == WM_H5_I64 ? 8 : 4), error);
        done = end;
    }
    return fault;
}

/* Reads rows of the first of these columns that a file has in one of these groups.  */
static wm_fault_t place_read (wm_h5_t *file, const char *const group[], const char *const name[],
                              uint64_t n_row, uint64_t n, wm_h5_type_t type, void *to,
                              wm_error_t *error)
{
    char path[160];
    for (size_t g = 0; group[g]; g++)
        for (size_t i = 0; name[i]; i++) {
            wm_column_t column = { 0 };
            snprintf (path, sizeof path, "%s/%s", group[g], name[i]);
            if (!wm_h5_has (file, path))
                continue;
            wm_fault_t fault = wm_h5_column (
                file, path, type == WM_H5_F32 ? WM_H5_FLOAT : WM_H5_INTEGER, 1, &column, error);
            if (!fault)
                fault = column_read (&column, n_row, n, type, to, error);
            wm_h5_column_close (&column);
            return fault;
        }
    return wm_fault (error, WM_EBATCH, "%.300s: its hits have no %s", wm_h5_path (file), name[0]);
}

wm_fault_t wm_report_places (const char *output, const char *own_table, const char *input,
                             uint64_t n_row, uint64_t n, int32_t *wires, float *ticks,
                             wm_error_t *error)
{
    const char *const own[] = { own_table, NULL },
                      *const table[] = { "hit_table", "chargehits", NULL },
                      *const id[] = { "hit_id", "key", "ch_id", NULL },
                      *const wire[] = { "local_wire", "wire", NULL },
                      *const tick[] = { "local_time", "time", NULL };
    wm_h5_t *o = wm_h5_open (output, error), *i = o ? wm_h5_open (input, error) : NULL;
    int64_t *of[2] = { malloc ((n + 1) * sizeof **of), malloc ((n + 1) * sizeof **of) };
    wm_fault_t fault = o && i ? WM_OK : error->fault;
    if (!fault && (!of[0] || !of[1]))
        fault = wm_fault (error, WM_EHOST, "out of memory for %llu hits", (unsigned long long) n);
    if (!fault && !(fault = place_read (o, own, id, n_row, n, WM_H5_I64, of[0], error)) &&
        !(fault = place_read (i, table, id, n_row, n, WM_H5_I64, of[1], error)) &&
        memcmp (of[0], of[1], n * sizeof **of) != 0)
        fault = wm_fault (error, WM_EBATCH, "%.300s: it has other hits now", input);
    if (!fault)
        fault = place_read (i, table, wire, n_row, n, WM_H5_I32, wires, error);
    if (!fault)
        fault = place_read (i, table, tick, n_row, n, WM_H5_F32, ticks, error);
    wm_h5_close (&i);
    wm_h5_close (&o);
    free (of[0]);
    free (of[1]);
    return fault;
}

static void find_places (sample_t *self, const char *output, const char *input, uint64_t n_row,
                         uint64_t n)
{
    wm_error_t error = { 0 };
    const size_t first = self->n - n;
    const wm_fault_t fault =
        input ? wm_report_places (output, self->table, input, n_row, n, self->wire + first,
                                  self->tick + first, &error)
              : wm_fault (&error, WM_EBATCH, "%.300s: its input cannot be read here", output);
    for (size_t k = first; k < self->n && fault; k++)
        self->tick[k] = NAN;
    self->n_placed += !fault;
    wm_log_sanitize (error.text);
    if (fault && !*self->no_place)
        snprintf (self->no_place, sizeof self->no_place, "%.399s", error.text);
}

/* Adds at most `n_most` hits of an output.  */
static wm_fault_t add_rows (sample_t *self, wm_h5_t *file, size_t n_most, wm_error_t *error)
{
    wm_column_t column = { 0 };
    wm_fault_t fault = column_open (self, file, "status", false, &column, error);
    if (!fault && !column.data)
        fault = wm_fault (error, WM_EBATCH, "it has no column %s/status", self->table);
    const uint64_t n_row = column.n_row, n = n_row < n_most ? n_row : n_most;
    int32_t *plane = self->plane + self->n;
    if (!fault)
        fault = column_read (&column, n_row, n, WM_H5_I32, self->status + self->n, error);
    wm_h5_column_close (&column);
    for (uint64_t i = 0; i < n && !fault; i++)
        plane[i] = -1;
    if (!fault)
        fault = column_open (self, file, "plane", false, &column, error);
    if (!fault)
        fault = column_read (&column, n_row, n, WM_H5_I32, plane, error);
    wm_h5_column_close (&column);
    for (uint32_t k = 0; k < self->labels.n_label && !fault; k++) {
        fault = column_open (self, file, self->labels.label[k], true, &column, error);
        if (!fault && !column.data)
            fault = wm_fault (error, WM_EBATCH, "it has no score %s", self->labels.label[k]);
        if (!fault)
            fault = column_read (&column, n_row, n, WM_H5_F32,
                                 self->score + k * self->n_max + self->n, error);
        wm_h5_column_close (&column);
    }
    if (!fault) {
        self->n += n;
        self->n_all += n_row;
        self->n_file++;
    }
    return fault;
}

static wm_fault_t add_output (sample_t *self, const char *path, size_t n_most, wm_error_t *error)
{
    wm_h5_t *file = wm_h5_open (path, error);
    if (!file)
        return error->fault;
    wm_fault_t fault = WM_OK;
    if (!wm_scores_table (file, NULL, self->table))
        fault = wm_fault (error, WM_EBATCH, "%.300s: has no table of scores", path);
    if (!fault)
        fault = add_rows (self, file, n_most, error);
    wm_h5_close (&file);
    return fault;
}

/* The labels of the first output that can be read, and room for the hits.  */
static wm_fault_t begin (sample_t *self, const wm_report_outputs_t *outputs, wm_error_t *error)
{
    wm_fault_t fault = WM_EBATCH;
    for (size_t i = 0; i < outputs->n && fault; i++) {
        fault = wm_scores_labels (&self->labels, outputs->path[i], error);
        if (!fault && !self->labels.n_label)
            fault = wm_fault (error, WM_EBATCH, "%.300s: no output of wiremill", outputs->path[i]);
    }
    if (fault)
        return fault;
    self->n_max = VALUES_MAX / self->labels.n_label;
    self->n_max = self->n_max < outputs->hits_max ? self->n_max : outputs->hits_max;
    self->score = malloc (self->labels.n_label * self->n_max * sizeof *self->score);
    self->plane = malloc (self->n_max * sizeof *self->plane);
    self->status = malloc (self->n_max * sizeof *self->status);
    self->path = malloc (outputs->n * sizeof *self->path);
    self->end = malloc (outputs->n * sizeof *self->end);
    if (outputs->input) {
        self->wire = malloc (self->n_max * sizeof *self->wire);
        self->tick = malloc (self->n_max * sizeof *self->tick);
    }
    return (!outputs->input || (self->wire && self->tick)) && self->score && self->plane &&
                   self->status && self->path && self->end
               ? WM_OK
               : wm_fault (error, WM_EHOST, "out of memory for %zu hits", self->n_max);
}

static wm_fault_t read_all (sample_t *self, const wm_report_outputs_t *outputs, wm_error_t *error)
{
    wm_fault_t fault = begin (self, outputs, error);
    for (size_t i = 0; i < outputs->n && !fault; i++) {
        const size_t n = self->n, n_all = self->n_all;
        if (!add_output (self, outputs->path[i], self->n_max / outputs->n, error)) {
            self->path[self->n_file - 1] = outputs->path[i];
            self->end[self->n_file - 1] = self->n;
            if (self->tick)
                find_places (self, outputs->path[i], outputs->input[i], self->n_all - n_all,
                             self->n - n);
        } else {
            wm_log_sanitize (error->text);
            if (!self->n_bad++)
                snprintf (self->why, sizeof self->why, "%.399s", error->text);
        }
    }
    return fault;
}

static void clear (sample_t *self)
{
    free (self->score);
    free (self->plane);
    free (self->status);
    free (self->wire);
    free (self->tick);
    free (self->path);
    free (self->end);
}

/* ---- planes ---------------------------------------------------------------------------------- */

/* Whether a hit counts; a score that is not finite is of a hit that is held.  */
static bool is_scored (const sample_t *self, size_t i)
{
    bool is_finite = self->status[i] == WM_HIT_SCORED;
    for (uint32_t k = 0; k < self->labels.n_label; k++)
        is_finite = is_finite && isfinite (score_of (self, k, i));
    return is_finite;
}

/* The lowest numbers of planes get a line each, the others one together.  */
static void choose_planes (sample_t *self)
{
    for (self->n_plane = 0; self->n_plane < PLANES_MAX; self->n_plane++) {
        int32_t least = OTHERS;
        bool any = false;
        for (size_t i = 0; i < self->n; i++)
            if ((!self->n_plane || self->plane[i] > self->number[self->n_plane - 1]) &&
                self->plane[i] <= least) {
                least = self->plane[i];
                any = true;
            }
        if (!any)
            break;
        self->number[self->n_plane] = least;
    }
    bool is_more = false;
    for (size_t i = 0; i < self->n; i++) {
        uint32_t k = 0;
        while (k + 1 < self->n_plane && self->plane[i] != self->number[k])
            k++;
        is_more |= self->n_plane && self->plane[i] != self->number[k];
        self->plane[i] = (int32_t) k;
    }
    if (is_more)
        self->number[PLANES_MAX - 1] = OTHERS;
}

static const char *plane_name (const sample_t *self, uint32_t k, char text[32])
{
    if (self->number[k] == OTHERS)
        return "other planes";
    snprintf (text, 32, self->number[k] < 0 ? "no plane" : "plane %d", self->number[k]);
    return text;
}

/* ---- tables and pictures --------------------------------------------------------------------- */

/* Rows planes, columns what hits are called, and held.  */
static void write_counts (const sample_t *self, FILE *out)
{
    const uint32_t n = self->labels.n_label;
    const wm_call_rule_t call = wm_call_rule_new (self->labels.label, n, WM_CALL_LEAST);
    uint64_t *count = calloc ((size_t) PLANES_MAX * (n + 1), sizeof *count);
    char text[32];
    for (size_t i = 0; i < self->n && count; i++) {
        double score[WM_SCORES_LABELS_MAX];
        for (uint32_t k = 0; k < n; k++)
            score[k] = score_of (self, k, i);
        count[(uint32_t) self->plane[i] * (n + 1) +
              (is_scored (self, i) ? wm_call_by (&call, score, 1) : n)]++;
    }
    char rule[WM_CALL_TEXT_BYTES], caption[200];
    snprintf (caption, sizeof caption,
              "Hits that were read, by plane and by what they are called: %s",
              wm_call_rule_text (&call, rule));
    wm_page_table (out, caption);
    wm_page_heads_of (out, "Plane", self->labels.label, n, "#held");
    for (uint32_t p = 0; p < self->n_plane && count; p++) {
        wm_page_row (out, "%s", plane_name (self, p, text));
        for (uint32_t k = 0; k <= n; k++)
            wm_page_put (out, "td class=\"n\"", "%s",
                         wm_page_count ((int64_t) count[p * (n + 1) + k], text));
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
    free (count);
}

/* false: no hit is scored.  */
static bool fit (const sample_t *self, uint32_t label, wm_svg_axis_t *axis)
{
    double least = INFINITY, most = -INFINITY;
    for (size_t i = 0; i < self->n; i++)
        if (is_scored (self, i)) {
            least = fmin (least, score_of (self, label, i));
            most = fmax (most, score_of (self, label, i));
        }
    if (!(least <= most))
        return false;
    wm_svg_fit (axis, least, most);
    if (least >= -ROUNDING && most <= 1 + ROUNDING)
        axis->from = 0, axis->to = 1;
    return true;
}

static void draw_label (const sample_t *self, uint32_t label, FILE *out)
{
    static uint64_t count[PLANES_MAX][BINS];
    /* not of a label (wm_svg_colour), and seen on white and on black */
    static const char *const colour[PLANES_MAX] = { "#00897b", "#a24bc4", "#9c6428", "#7d8a00" };
    char title[96], name[PLANES_MAX][32];
    wm_svg_entry_t entry[PLANES_MAX];
    uint64_t most = 10;
    wm_svg_t plot = { .out = out,
                      .title = title,
                      .about = "hits by score, one line for each plane",
                      .x.name = "score" };
    snprintf (title, sizeof title, "Scores of %s", self->labels.label[label]);
    if (!fit (self, label, &plot.x))
        return;
    memset (count, 0, sizeof count);
    for (size_t i = 0; i < self->n; i++) {
        const double at =
            (score_of (self, label, i) - plot.x.from) / (plot.x.to - plot.x.from) * BINS;
        uint64_t *bin = &count[self->plane[i]][(int) fmax (0, fmin (BINS - 1, at))];
        if (is_scored (self, i))
            most = ++*bin > most ? *bin : most;
    }
    plot.y = (wm_svg_axis_t){ .is_log = true, .name = "hits" };
    wm_svg_fit (&plot.y, 1, (double) most);
    plot.y.from = 0.7; /* a bar of one hit can be seen */
    fputs ("<figure>", out);
    wm_svg_begin (&plot);
    for (uint32_t p = 0; p < self->n_plane; p++) {
        wm_svg_histogram (&plot, count[p], BINS, colour[p], false);
        entry[p] = (wm_svg_entry_t){ plane_name (self, p, name[p]), colour[p], .is_filled = false };
    }
    wm_svg_legend (&plot, entry, self->n_plane);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "%s", title);
    fputs ("</figure>\n", out);
}

static void write_drift (const sample_t *self, FILE *out)
{
    const uint32_t n_label = self->labels.n_label, n = (uint32_t) self->n_file;
    wm_report_mean_t *output = calloc (n + 1ul, sizeof *output);
    double *mean = calloc ((size_t) n * n_label + 1, sizeof *mean);
    for (size_t f = 0, i = 0; f < n && output && mean; f++) {
        double *of = mean + f * n_label;
        output[f] = (wm_report_mean_t){ .path = self->path[f], .mean = of };
        for (; i < self->end[f]; i++) {
            const bool counts = is_scored (self, i);
            output[f].n += counts;
            for (uint32_t k = 0; k < n_label && counts; k++)
                of[k] += score_of (self, k, i);
        }
        for (uint32_t k = 0; k < n_label && output[f].n; k++)
            of[k] /= (double) output[f].n;
    }
    if (output && mean)
        wm_report_drift (output, n, self->labels.label, n_label, out);
    free (output);
    free (mean);
}

static void write (sample_t *self, const wm_report_outputs_t *outputs, FILE *out)
{
    char n[32], all[32], files[32];
    wm_page_put (out, "p", "Read: %s of the %s hits in %s output%s%s.",
                 wm_page_count ((int64_t) self->n, n), wm_page_count ((int64_t) self->n_all, all),
                 wm_page_count ((int64_t) self->n_file, files), self->n_file == 1 ? "" : "s",
                 self->n < self->n_all ? ", the same number of each, in pieces that are evenly "
                                         "spaced over its rows"
                                       : "");
    if (self->n_bad)
        wm_page_put (out, "p", "Not read: %zu of %zu outputs; the first: %s", self->n_bad,
                     outputs->n, self->why);
    if (!self->n)
        return;
    choose_planes (self);
    write_counts (self, out);
    wm_page_pictures (out);
    for (uint32_t k = 0; k < self->labels.n_label && k < 16; k++)
        draw_label (self, k, out);
    wm_page_pictures_end (out);
    if (self->labels.n_label > 16)
        wm_page_put (out, "p", "%u more scores have no pictures.", self->labels.n_label - 16);
    write_drift (self, out);
}

int wm_report_scores (void *outputs_v, FILE *out)
{
    const wm_report_outputs_t *outputs = outputs_v;
    sample_t sample = { 0 };
    wm_error_t error;
    wm_produce_confine_reader (outputs->path, outputs->n);
    wm_h5_init ();
    if (read_all (&sample, outputs, &error)) {
        wm_log_sanitize (error.text);
        wm_page_put (out, "p", "No distributions: %s", error.text);
    } else
        write (&sample, outputs, out);
    clear (&sample);
    return WM_EXIT_OK;
}

/* ---- maps ------------------------------------------------------------------------------------ */

static bool is_on (const sample_t *self, size_t i, uint32_t plane)
{
    return (uint32_t) self->plane[i] == plane && is_scored (self, i) &&
           fabs ((double) self->tick[i]) < TICKS_MAX;
}

static wm_report_extent_t extent_of (const sample_t *self, uint32_t plane)
{
    wm_report_extent_t e = { INFINITY, -INFINITY, INFINITY, -INFINITY };
    for (size_t i = 0; i < self->n; i++)
        if (is_on (self, i, plane)) {
            e.wire_from = fmin (e.wire_from, self->wire[i]);
            e.wire_to = fmax (e.wire_to, self->wire[i] + 1.);
            e.tick_from = fmin (e.tick_from, floor ((double) self->tick[i]));
            e.tick_to = fmax (e.tick_to, floor ((double) self->tick[i]) + 1);
        }
    return e;
}

static void draw_maps (const sample_t *self, uint32_t label, FILE *out)
{
    static wm_report_map_t map;
    char plane[32];
    wm_page_pictures (out);
    for (uint32_t p = 0; p < self->n_plane; p++) {
        memset (&map, 0, sizeof map);
        map.label = self->labels.label[label];
        map.plane = plane_name (self, p, plane);
        map.extent = extent_of (self, p);
        for (size_t i = 0; i < self->n; i++)
            if (is_on (self, i, p))
                wm_report_map_add (&map, self->wire[i], (double) self->tick[i],
                                   score_of (self, label, i));
        wm_report_map_draw (&map, out);
    }
    wm_page_pictures_end (out);
}

static void write_maps (sample_t *self, FILE *out)
{
    const uint32_t n = self->labels.n_label < 16 ? self->labels.n_label : 16;
    fputs ("<h3>Maps</h3>\n", out);
    if (!self->n_placed) {
        wm_page_put (out, "p", "No maps by wire and tick: %s", self->no_place);
        return;
    }
    wm_page_put (out, "p",
                 "Mean scores by wire and tick, of the same hits of %zu output%s; all TPCs "
                 "together.",
                 self->n_placed, self->n_placed == 1 ? "" : "s");
    if (self->n_placed < self->n_file)
        wm_page_put (out, "p", "Without places: %zu; the first: %s", self->n_file - self->n_placed,
                     self->no_place);
    choose_planes (self);
    draw_maps (self, 0, out);
    if (n > 1)
        fputs ("<details><summary>Maps of the other scores</summary>\n", out);
    for (uint32_t k = 1; k < n; k++)
        draw_maps (self, k, out);
    fputs (n > 1 ? "</details>\n" : "", out);
}

int wm_report_maps (void *outputs_v, FILE *out)
{
    const wm_report_outputs_t *outputs = outputs_v;
    sample_t sample = { 0 };
    wm_error_t error;
    const char **path = calloc (2 * outputs->n, sizeof *path);
    size_t n = 0;
    for (size_t i = 0; i < outputs->n && path; i++) {
        path[n++] = outputs->path[i];
        if (outputs->input[i])
            path[n++] = outputs->input[i];
    }
    if (!path)
        return WM_EXIT_FAILURE;
    wm_produce_confine_reader (path, n);
    wm_h5_init ();
    if (!read_all (&sample, outputs, &error) && sample.n)
        write_maps (&sample, out);
    clear (&sample);
    free (path);
    return WM_EXIT_OK;
}
