/* report_truth.c - the part of `wiremill report` on truth: the numbers of `wiremill truth`
   (agreement.h) as tables and curves, of outputs whose inputs state what each hit is.  */
#include "producer/results/agreement_roc.h"
#include "producer/results/report.h"

#include "producer/files/wm_h5.h"
#include "producer/pictures/wm_render_process.h"
#include "producer/session/wm_produce_confine.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_url.h"
#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"
#include "schema/wm_pins.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GREY "#8a8a8a"
#define INK "#222"
#define STEP_LISTED 10 /* every tenth threshold has a row */

typedef struct {
    const char *input, *output;
    uint64_t hits;
} pair_t;

typedef struct {
    pair_t *pair; /* (n) */
    size_t n;
    size_t n_large;    /* pairs that did not fit */
    const char **path; /* (2 n) room for both kinds */
} pairs_t;

/* ---- which files ----------------------------------------------------------------------------- */

/* A child.  */
static int print_inputs (void *outputs_v, FILE *out)
{
    const wm_report_outputs_t *outputs = outputs_v;
    static char text[WM_PINS_BYTES_MAX];
    wm_error_t error;
    wm_produce_confine_reader (outputs->path, outputs->n);
    wm_h5_init ();
    for (size_t i = 0; i < outputs->n; i++) {
        int64_t hits = 0;
        wm_h5_t *file = wm_h5_open (outputs->path[i], &error);
        if (file && wm_h5_number (file, "hits", &hits) && hits > 0 &&
            wm_h5_text (file, "input", text, sizeof text) && !strchr (text, '\n'))
            fprintf (out, "%" PRId64 " %s", hits, text);
        fputc ('\n', out);
        wm_h5_close (&file);
    }
    return WM_EXIT_OK;
}

char *wm_report_inputs (const char *verb, wm_report_outputs_t *outputs)
{
    const size_t bytes = outputs->n * (WM_PINS_BYTES_MAX + 24) + 1;
    char *lines = calloc (1, bytes);
    if (lines && wm_render_process_text (verb, print_inputs, outputs, lines, bytes)) {
        free (lines);
        lines = NULL;
    }
    return lines;
}

/* Files that may have truth: a child's argument.  */
typedef struct {
    const char *const *path;
    size_t n;
} inputs_t;

/* A child: prints for each file 1 if it has truth, else 0.  */
static int find_truth (void *arg, FILE *out)
{
    const inputs_t *inputs = arg;
    wm_error_t error;
    wm_produce_confine_reader (inputs->path, inputs->n);
    wm_h5_init ();
    for (size_t i = 0; i < inputs->n; i++) {
        wm_h5_t *file = wm_h5_open (inputs->path[i], &error);
        fputc (file && wm_h5_has (file, "hit_table/truth") ? '1' : '0', out);
        wm_h5_close (&file);
    }
    return WM_EXIT_OK;
}

char *wm_report_find_truth (const char *verb, const char *const *path, size_t n)
{
    char *has = calloc (1, n + 1);
    if (has && wm_render_process_text (verb, find_truth, &(inputs_t){ path, n }, has, n + 1))
        *has = 0;
    if (has && strlen (has) == n)
        return has;
    free (has);
    return NULL;
}

void wm_report_take_inputs (const wm_report_outputs_t *outputs, char *lines, const char **input,
                            uint64_t *hits)
{
    for (size_t i = 0; i < outputs->n; i++) {
        char *end = lines ? strchr (lines, '\n') : NULL, *name = NULL;
        input[i] = NULL;
        if (!end)
            continue;
        *end = 0;
        hits[i] = strtoull (lines, &name, 10);
        if (*name++ && !wm_url_of (name) && !access (name, R_OK))
            input[i] = name;
        lines = end + 1;
    }
}

static void take_files (pairs_t *self, const wm_report_outputs_t *outputs, char *lines)
{
    uint64_t *hits = calloc (outputs->n, sizeof *hits);
    if (hits)
        wm_report_take_inputs (outputs, lines, self->path, hits);
    for (size_t i = 0; i < outputs->n && hits; i++)
        if (self->path[i])
            self->pair[self->n++] = (pair_t){ self->path[i], outputs->path[i], hits[i] };
    free (hits);
}

/* Keeps those that have truth, in their order, while they fit.  */
static void take_true (pairs_t *self, size_t hits_max)
{
    size_t n = 0;
    uint64_t hits = 0;
    for (size_t i = 0; i < self->n; i++)
        self->path[i] = self->pair[i].input;
    char *has = wm_report_find_truth ("report", self->path, self->n);
    for (size_t i = 0; i < self->n && has; i++)
        if (has[i] == '1') {
            const bool fits = hits + self->pair[i].hits <= hits_max;
            self->n_large += !fits;
            if (fits) {
                hits += self->pair[i].hits;
                self->pair[n++] = self->pair[i];
            }
        }
    self->n = n;
    free (has);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void write_labels (const wm_agreement_t *self, FILE *out)
{
    char text[16];
    wm_page_table (out, "As wiremill truth prints it");
    wm_page_heads (out, "Label|#True|#Called so|#Found (efficiency)|#Right (purity)|#AUC|#Found "
                        "with 5 % of the rest");
    for (int k = 0; k < WM_TRUTH_END; k++) {
        const uint64_t is = wm_agreement_of_truth (self, k), as = wm_agreement_of_scores (self, k),
                       both = self->n_called[k][k];
        const double found = self->label[k].found;
        wm_page_row (out, "%s", wm_agreement_name[k]);
        wm_page_count_cell (out, is);
        wm_page_count_cell (out, as);
        wm_page_put (out, "td class=\"n\"", "%s", wm_agreement_share (both, is, text));
        wm_page_put (out, "td class=\"n\"", "%s", wm_agreement_share (both, as, text));
        wm_page_put (out, "td class=\"n\"", "%s", wm_agreement_number (self->label[k].auc, text));
        wm_page_put (out, "td class=\"n\"", "%s",
                     isfinite (found) ? wm_agreement_share ((uint64_t) (found * 1e6), 1000000, text)
                                      : "-");
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
}

static void write_confusion (const wm_agreement_t *self, FILE *out)
{
    char text[16], head[2 * WM_TRUTH_END][48];
    wm_page_table (out, "Confusion: hits by truth (rows) and by what they are called (columns); "
                        "the share is of the row");
    for (int k = 0; k < 2 * WM_TRUTH_END; k++)
        snprintf (head[k], sizeof head[k], "%scalled %s", k % 2 ? "share " : "",
                  wm_agreement_name[k / 2]);
    wm_page_heads_of (out, "Truth", head, 2 * WM_TRUTH_END, "");
    for (int is = 0; is < WM_TRUTH_END; is++) {
        wm_page_row (out, "truth %s", wm_agreement_name[is]);
        for (int as = 0; as < WM_TRUTH_END; as++) {
            const uint64_t n = self->n_called[is][as];
            wm_page_count_cell (out, n);
            wm_page_put (out, is == as ? "td class=\"n same\"" : "td class=\"n\"", "%s",
                         wm_agreement_share (n, wm_agreement_of_truth (self, is), text));
        }
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
}

/* What the curves show, for readers who want numbers.  */
static void write_thresholds (const wm_agreement_t *self, FILE *out)
{
    char text[16];
    fputs ("<details><summary>Efficiency and purity as a table</summary>\n", out);
    wm_page_table (out, "Hits with a score of at least the threshold");
    wm_page_heads (out, "Label, threshold|#Hits|#Efficiency|#Purity");
    for (int k = 0; k < WM_TRUTH_END; k++)
        for (int t = 0; t <= WM_AGREEMENT_STEPS && self->label[k].is_share; t += STEP_LISTED) {
            const uint64_t n = self->label[k].above[t].n, signal = self->label[k].above[t].n_signal;
            wm_page_row (out, "%s from %.1f", wm_agreement_name[k],
                         (double) t / WM_AGREEMENT_STEPS);
            wm_page_count_cell (out, n);
            wm_page_put (out, "td class=\"n\"", "%s",
                         wm_agreement_share (signal, wm_agreement_of_truth (self, k), text));
            wm_page_put (out, "td class=\"n\"", "%s", wm_agreement_share (signal, n, text));
            fputs ("</tr>\n", out);
        }
    wm_page_table_end (out);
    fputs ("</details>\n", out);
}

static void write_bins (const wm_agreement_t *self, FILE *out)
{
    fputs ("<details><summary>Calibration as a table</summary>\n", out);
    wm_page_table (out, "Hits by score, in ten bins of equal width, each without its begin");
    wm_page_heads (out, "Label and bin|#Hits|#Mean score|#Share that is of the label");
    for (int k = 0; k < WM_TRUTH_END; k++)
        for (int b = 0; b < WM_AGREEMENT_BINS; b++) {
            const double n = (double) self->label[k].bin[b].n;
            if (!self->label[k].bin[b].n)
                continue;
            wm_page_row (out, "%s, %.1f to %.1f", wm_agreement_name[k],
                         (double) b / WM_AGREEMENT_BINS, (double) (b + 1) / WM_AGREEMENT_BINS);
            wm_page_count_cell (out, self->label[k].bin[b].n);
            wm_page_put (out, "td class=\"n\"", "%.4f", self->label[k].bin[b].sum / n);
            wm_page_put (out, "td class=\"n\"", "%.4f",
                         (double) self->label[k].bin[b].n_signal / n);
            fputs ("</tr>\n", out);
        }
    wm_page_table_end (out);
    fputs ("</details>\n", out);
}

/* ---- pictures -------------------------------------------------------------------------------- */

static void draw_calibration (const wm_agreement_t *self, FILE *out)
{
    wm_svg_entry_t entry[WM_TRUTH_END];
    wm_svg_t plot;
    size_t n = 0;
    wm_agreement_figure (
        &plot, out, "Calibration",
        "in ten bins of score, the share of hits that is of the label; the dashes: as large as "
        "the mean score",
        "mean score", "share that is of the label");
    wm_svg_line (&plot, 0, 0, 1, 1, GREY, true);
    for (int k = 0; k < WM_TRUTH_END; k++) {
        double x[WM_AGREEMENT_BINS], y[WM_AGREEMENT_BINS];
        float dot_x[WM_AGREEMENT_BINS], dot_y[WM_AGREEMENT_BINS];
        uint32_t m = 0;
        for (int b = 0; b < WM_AGREEMENT_BINS; b++)
            if (self->label[k].bin[b].n) {
                x[m] = self->label[k].bin[b].sum / (double) self->label[k].bin[b].n;
                y[m] = (double) self->label[k].bin[b].n_signal / (double) self->label[k].bin[b].n;
                dot_x[m] = (float) x[m];
                dot_y[m] = (float) y[m];
                m++;
            }
        if (!m)
            continue;
        wm_svg_curve (&plot, x, y, m, wm_agreement_colour (k), false);
        wm_svg_dots (&plot, dot_x, dot_y, m, 2.5, wm_agreement_colour (k));
        entry[n++] =
            (wm_svg_entry_t){ .text = wm_agreement_name[k], .colour = wm_agreement_colour (k) };
    }
    wm_agreement_figure_end (&plot, entry, n);
}

static void draw_thresholds (const wm_agreement_t *self, int k, FILE *out)
{
    double at[WM_AGREEMENT_STEPS + 1], y[WM_AGREEMENT_STEPS + 1];
    const double n_signal = (double) wm_agreement_of_truth (self, k);
    const wm_agreement_label_t *label = &self->label[k];
    char title[240];
    wm_svg_t plot;
    uint32_t n = 0;
    if (!label->is_share || n_signal <= 0)
        return;
    snprintf (title, sizeof title, "Efficiency and purity of %s", wm_agreement_name[k]);
    wm_agreement_figure (&plot, out, title, "of the hits whose score is at least the threshold",
                         "threshold", "share");
    for (int t = 0; t <= WM_AGREEMENT_STEPS; t++) {
        at[t] = (double) t / WM_AGREEMENT_STEPS;
        y[t] = (double) label->above[t].n_signal / n_signal;
    }
    wm_svg_curve (&plot, at, y, WM_AGREEMENT_STEPS + 1, wm_agreement_colour (k), false);
    while (n <= WM_AGREEMENT_STEPS && label->above[n].n) {
        y[n] = (double) label->above[n].n_signal / (double) label->above[n].n;
        n++;
    }
    wm_svg_curve (&plot, at, y, n, INK, true);
    wm_agreement_figure_end (
        &plot,
        (const wm_svg_entry_t[]){ { .text = "efficiency", .colour = wm_agreement_colour (k) },
                                  { .text = "purity", .colour = INK, .is_dashed = true } },
        2);
}

/* ---- planes and TPCs ------------------------------------------------------------------------- */

/* Where parts are written.  */
typedef struct {
    wm_agreement_by_t by;
    FILE *rows, *curves;
} parts_t;

static void take_part (void *arg, const wm_agreement_t *part)
{
    const parts_t *parts = arg;
    char name[48], title[64], text[16];
    wm_agreement_part_name (part, parts->by, name);
    for (int k = 0; k < WM_TRUTH_END; k++) {
        const uint64_t is = wm_agreement_of_truth (part, k), as = wm_agreement_of_scores (part, k),
                       both = part->n_called[k][k];
        wm_page_row (parts->rows, "%s, %s", name, wm_agreement_name[k]);
        wm_page_count_cell (parts->rows, is);
        wm_page_count_cell (parts->rows, as);
        wm_page_put (parts->rows, "td class=\"n\"", "%s", wm_agreement_share (both, is, text));
        wm_page_put (parts->rows, "td class=\"n\"", "%s", wm_agreement_share (both, as, text));
        wm_page_put (parts->rows, "td class=\"n\"", "%s",
                     wm_agreement_number (part->label[k].auc, text));
        fputs ("</tr>\n", parts->rows);
    }
    snprintf (title, sizeof title, "ROC of %s", name);
    if (parts->by == WM_AGREEMENT_BY_PLANE)
        wm_agreement_roc (part, title, parts->curves);
}

/* A table of the labels in each plane or TPC, with curves of planes; nothing if there is one part.
   Planes of one number count together, also those of several TPCs.  */
static void write_parts (const wm_agreement_t *self, wm_agreement_by_t by, FILE *out)
{
    const char *what = by == WM_AGREEMENT_BY_PLANE ? "plane" : "TPC";
    char *text[2] = { NULL, NULL };
    size_t bytes[2] = { 0, 0 };
    wm_error_t error;
    parts_t parts = { by, open_memstream (&text[0], &bytes[0]),
                      open_memstream (&text[1], &bytes[1]) };
    size_t n = 0;
    if (parts.rows && parts.curves)
        n = wm_agreement_parts (self, by, take_part, &parts, &error);
    if (parts.rows)
        fclose (parts.rows);
    if (parts.curves)
        fclose (parts.curves);
    if (n > 1) {
        fprintf (out, "<details%s><summary>Truth by %s</summary>\n",
                 by == WM_AGREEMENT_BY_PLANE ? " open" : "", what);
        wm_page_table (out, "Hits of each alone, called as above");
        wm_page_heads (out, "Part and label|#True|#Called so|#Efficiency|#Purity|#AUC");
        fwrite (text[0], 1, bytes[0], out);
        wm_page_table_end (out);
        if (n > WM_AGREEMENT_PARTS_MAX)
            wm_page_put (out, "p", "%zu more are not listed.", n - WM_AGREEMENT_PARTS_MAX);
        wm_page_pictures (out);
        fwrite (text[1], 1, bytes[1], out);
        wm_page_pictures_end (out);
        fputs ("</details>\n", out);
    }
    free (text[0]);
    free (text[1]);
}

/* ---- the part -------------------------------------------------------------------------------- */

static void write_all (const wm_agreement_t *self, FILE *out)
{
    char right[16], em[16], auc[16], rule[WM_CALL_TEXT_BYTES];
    wm_page_put (
        out, "p",
        "%s of the hits are called what they are, %s where a michel electron may be called "
        "em. Em against track: AUC %s (1: separate, 0.5: mixed).",
        wm_agreement_share (self->n_right, self->n, right),
        wm_agreement_share (self->n_right + self->n_em_or_michel, self->n, em),
        wm_agreement_number (self->auc_em_track, auc));
    wm_page_put (out, "p", "Called: %s.", wm_call_rule_text (&self->call, rule));
    write_labels (self, out);
    write_confusion (self, out);
    wm_page_pictures (out);
    wm_agreement_roc (self, "ROC", out);
    draw_calibration (self, out);
    for (int k = 0; k < WM_TRUTH_END; k++)
        draw_thresholds (self, k, out);
    wm_page_pictures_end (out);
    write_parts (self, WM_AGREEMENT_BY_PLANE, out);
    write_parts (self, WM_AGREEMENT_BY_TPC, out);
    write_thresholds (self, out);
    write_bins (self, out);
}

/* Each output is joined with its own input: others may have hits of the same numbers.  */
static wm_fault_t read_pairs (wm_agreement_t *self, const pairs_t *pairs, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    for (size_t i = 0; i < pairs->n && !fault; i++)
        fault = wm_agreement_add (
            self, (const char *[]){ pairs->pair[i].input, pairs->pair[i].output }, 2, NULL, error);
    return fault ? fault : wm_agreement_count (self, WM_CALL_LEAST, error);
}

/* A child.  */
static int agree (void *arg, FILE *out)
{
    static wm_agreement_t agreement;
    const pairs_t *pairs = arg;
    char hits[32], files[32];
    wm_error_t error;
    for (size_t i = 0; i < pairs->n; i++) {
        pairs->path[i] = pairs->pair[i].input;
        pairs->path[pairs->n + i] = pairs->pair[i].output;
    }
    wm_produce_confine_reader (pairs->path, 2 * pairs->n);
    wm_h5_init ();
    if (read_pairs (&agreement, pairs, &error)) {
        wm_log_sanitize (error.text);
        wm_page_put (out, "p", "No comparison with truth: %s", error.text);
    } else {
        wm_page_put (out, "p",
                     "%s hits with truth and scores, of %s output%s whose inputs are of wiremill "
                     "synth.",
                     wm_page_count ((int64_t) agreement.n, hits),
                     wm_page_count ((int64_t) pairs->n, files), pairs->n == 1 ? "" : "s");
        write_all (&agreement, out);
    }
    wm_agreement_clear (&agreement);
    return WM_EXIT_OK;
}

void wm_report_truth (const wm_report_outputs_t *outputs, const char *inputs, FILE *out)
{
    char *lines = strdup (inputs);
    pairs_t pairs = { .pair = calloc (outputs->n, sizeof *pairs.pair),
                      .path = calloc (outputs->n, 2 * sizeof *pairs.path) };
    if (lines && pairs.pair && pairs.path)
        take_files (&pairs, outputs, lines);
    if (pairs.n)
        take_true (&pairs, outputs->hits_max);
    if (pairs.n || pairs.n_large)
        fputs ("<h2>Truth</h2>\n", out);
    if (pairs.n && wm_render_process_copy ("report", agree, &pairs, out))
        wm_page_put (out, "p", "No comparison with truth: the process that read the files failed.");
    if (pairs.n_large)
        wm_page_put (out, "p",
                     "%zu output%s with truth did not fit into %zu hits; wiremill truth INPUT... "
                     "OUTPUT... reads any number.",
                     pairs.n_large, pairs.n_large == 1 ? "" : "s", outputs->hits_max);
    free (lines);
    free (pairs.pair);
    free (pairs.path);
}
