/* compare_page.c - the page of `wiremill compare --page`: a comparison of scores on one page, with
   pictures, for a group that must agree to it.

   First the verdict with its tolerance and what was compared, then the numbers, then pictures of
   each label: both distributions, the differences, and B against A. The page has no date of its
   own: the same files give the same bytes.  */
#include "producer/results/compare_page.h"

#include "producer/results/called.h"
#include "producer/results/compare_files.h"
#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BINS 50
#define CELLS 50           /* of a density, each way */
#define DECADE_BINS 4      /* of differences */
#define DECADES_MAX 40     /* of the axis of differences */
#define LEAST_DECADE (-12) /* smaller differences are shown there */
#define ROUNDING 1e-3      /* scores from 0 to 1 may be off by so much */
#define PICTURES_MAX 16    /* labels with pictures */

typedef struct {
    const wm_comparison_t *page;
    FILE *out;
    uint32_t k; /* label */
    const char *colour;
} pictures_t;

/* As comparison.c has it; -1: one of the two is not finite and the other is another.  */
static double difference (double a, double b)
{
    if (a == b || (isnan (a) && isnan (b)))
        return 0;
    const double d = fabs (a - b) / fmax (1, fabs (a));
    return isfinite (d) ? d : -1;
}

/* ---- words and tables ------------------------------------------------------------------------ */

static const char *hits (uint64_t n, char text[32])
{
    wm_page_count ((int64_t) n, text);
    return strcat (text, n == 1 ? " hit" : " hits");
}

/* Each thing that makes the two differ, as a part of a sentence.  */
static void write_reasons (const wm_comparison_t *self, FILE *out)
{
    char text[40];
    const char *comma = "";
    uint64_t n_status = 0;
    for (uint32_t s = 0; s < WM_HIT_STATUSES; s++)
        for (uint32_t t = 0; t < WM_HIT_STATUSES; t++)
            n_status += s == t ? 0 : self->n_status_pair[s][t];
    for (int k = 0; k < 2; k++)
        if (self->n_only[k]) {
            fprintf (out, "%s%s only in %c", comma, hits (self->n_only[k], text), "AB"[k]);
            comma = "; ";
        }
    if (n_status) {
        fprintf (out, "%s%s with another status", comma, hits (n_status, text));
        comma = "; ";
    }
    for (uint32_t k = 0; k < self->a.n_label; k++)
        if (self->label[k].n_over) {
            fprintf (out, "%s%s whose score ", comma, hits (self->label[k].n_over, text));
            wm_svg_text (out, self->a.label[k]);
            fputs (" differs by more", out);
            comma = "; ";
        }
    for (uint32_t k = 0; k < self->n_gone; k++) {
        fprintf (out, "%sonly one side has the score ", comma);
        wm_svg_text (out, self->gone[k]);
        comma = "; ";
    }
    fputs (".", out);
}

static void write_verdict (const wm_comparison_t *self, FILE *out)
{
    char both[40], scored[40];
    const bool is_same = wm_comparison_is_same (self);
    fprintf (out, "<p class=\"verdict %s\"><strong>", is_same ? "good" : "bad");
    if (is_same)
        fprintf (out,
                 "The scores are the same within %g.</strong> All %s are in A and in B with the "
                 "same status, and no score of the %s that both scored differs by more than the "
                 "tolerance.",
                 self->tolerance, hits (self->n_joined, both), hits (self->n_scored, scored));
    else {
        fprintf (out,
                 "The scores are not the same within %g.</strong> %s in both, %s scored in both. "
                 "What differs: ",
                 self->tolerance, hits (self->n_joined, both), hits (self->n_scored, scored));
        write_reasons (self, out);
    }
    fputs ("</p>\n", out);
}

static void count_row (FILE *out, const char *name, uint64_t a, uint64_t b)
{
    wm_page_row (out, "%s", name);
    wm_page_count_cell (out, a);
    wm_page_count_cell (out, b);
    fputs ("</tr>\n", out);
}

static uint64_t n_scored_of (const wm_scores_t *side)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < side->n_row; i++)
        n += side->status[i] == WM_HIT_SCORED;
    return n;
}

static void write_matches (const wm_comparison_t *self, FILE *out)
{
    char text[32];
    const uint64_t a = n_scored_of (&self->a), b = n_scored_of (&self->b);
    fputs ("<section><h2>Hits</h2>\n", out);
    wm_page_table (out, "Joined by run, subrun, event and hit_id");
    wm_page_heads (out, "What|#A|#B");
    count_row (out, "Hits", self->a.n_row, self->b.n_row);
    count_row (out, "Scored", a, b);
    count_row (out, "Held", self->a.n_row - a, self->b.n_row - b);
    count_row (out, "Only on this side", self->n_only[0], self->n_only[1]);
    count_row (out, "In both", self->n_joined, self->n_joined);
    count_row (out, "Scored in both", self->n_scored, self->n_scored);
    wm_page_table_end (out);
    for (int k = 0; k < 2; k++) {
        if (!self->n_only[k])
            continue;
        fprintf (out, "<p>Only in %c (run:subrun:event:hit_id):", "AB"[k]);
        for (uint64_t i = 0; i < self->n_only[k] && i < 3; i++) {
            fputs (i ? ", " : " ", out);
            wm_called_hit (out, &self->only[k][i]);
        }
        fputs (self->n_only[k] > 3 ? " and others</p>\n" : "</p>\n", out);
    }
    for (uint8_t s = 0; s < WM_HIT_STATUSES; s++)
        for (uint8_t t = 0; t < WM_HIT_STATUSES; t++)
            if (s != t && self->n_status_pair[s][t])
                wm_page_put (out, "p", "Another status: %s in A, %s in B: %s",
                             wm_comparison_status (s), wm_comparison_status (t),
                             wm_page_count ((int64_t) self->n_status_pair[s][t], text));
    fputs ("</section>\n", out);
}

static void write_number (FILE *out, double value)
{
    if (isfinite (value))
        fprintf (out, "<td class=\"n\">%.3g</td>", value);
    else
        fputs ("<td class=\"n\">not finite</td>", out);
}

static void write_label (const wm_comparison_t *self, uint32_t k, FILE *out)
{
    char text[32];
    const wm_comparison_label_t *l = &self->label[k];
    wm_page_row (out, "%s", self->a.label[k]);
    if (!self->n_scored) {
        fputs ("<td colspan=\"9\">no hit was scored on both sides</td></tr>\n", out);
        return;
    }
    fprintf (out, "<td class=\"n\">%s</td>", wm_page_count ((int64_t) l->n_over, text));
    for (int q = 0; q < WM_COMPARISON_QUANTILES; q++)
        write_number (out, l->quantile[q]);
    write_number (out, l->largest);
    if (l->largest > 0) {
        fprintf (out, "<td class=\"n\">%.*g</td><td class=\"n\">%.*g</td><td class=\"w\">",
                 wm_comparison_digits (l->score_a), l->score_a, wm_comparison_digits (l->score_b),
                 l->score_b);
        wm_called_hit (out, &l->worst);
        fputs ("</td></tr>\n", out);
    } else
        fputs ("<td class=\"n\">-</td><td class=\"n\">-</td><td>-</td></tr>\n", out);
}

static void write_quantiles (const wm_comparison_t *self, FILE *out)
{
    char text[32];
    fputs ("<section><h2>Differences</h2>\n", out);
    wm_page_table (out, "|A - B|, divided by |A| where that is above 1; of hits that both scored");
    wm_page_heads (out, "Score|#Above tolerance|#Median|#90 %|#99 %|#99.9 %|#Largest|#A there|"
                        "#B there|Hit of the largest");
    for (uint32_t k = 0; k < self->a.n_label; k++)
        write_label (self, k, out);
    for (uint32_t k = 0; k < self->n_gone; k++) {
        wm_page_row (out, "%s", self->gone[k]);
        fputs ("<td colspan=\"9\">not compared: only one side has it</td></tr>\n", out);
    }
    wm_page_table_end (out);
    if (!self->b.is_ours && self->a.n_same_cell)
        wm_page_put (
            out, "p",
            "%s hits of A lie in the drift bin of the hit before them: LArSoft scores such "
            "a hit on an empty patch.",
            wm_page_count ((int64_t) self->a.n_same_cell, text));
    fputs ("</section>\n", out);
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* The axis that shows all scores of a label; false: none is finite.  */
static bool fit_scores (const pictures_t *self, wm_svg_axis_t *axis)
{
    double least = INFINITY, most = -INFINITY;
    for (uint64_t i = 0; i < self->page->n_scored; i++)
        for (int side = 0; side < 2; side++) {
            const double s =
                (side ? wm_comparison_score_b : wm_comparison_score_a) (self->page, self->k, i);
            if (isfinite (s)) {
                least = fmin (least, s);
                most = fmax (most, s);
            }
        }
    if (!(least <= most))
        return false;
    wm_svg_fit (axis, least, most);
    if (least >= -ROUNDING && most <= 1 + ROUNDING)
        axis->from = 0, axis->to = 1;
    return true;
}

static uint32_t bin_of (const wm_svg_axis_t *axis, double value, uint32_t n)
{
    const double at = (value - axis->from) / (axis->to - axis->from) * n;
    return at >= n ? n - 1 : at > 0 ? (uint32_t) at : 0;
}

static void counts_fit (wm_svg_axis_t *axis, const uint64_t *count, uint32_t n, uint64_t most)
{
    for (uint32_t i = 0; i < n; i++)
        most = count[i] > most ? count[i] : most;
    axis->is_log = true;
    axis->name = "hits";
    wm_svg_fit (axis, 1, most > 10 ? (double) most : 10);
    axis->from = 0.7; /* a bar of one hit can be seen */
}

static void draw_scores (const pictures_t *self, const wm_svg_axis_t *axis)
{
    static uint64_t count[2][BINS];
    char title[96];
    memset (count, 0, sizeof count);
    for (uint64_t i = 0; i < self->page->n_scored; i++)
        for (int side = 0; side < 2; side++) {
            const double s =
                (side ? wm_comparison_score_b : wm_comparison_score_a) (self->page, self->k, i);
            if (isfinite (s))
                count[side][bin_of (axis, s, BINS)]++;
        }
    snprintf (title, sizeof title, "Scores of %s in A and B", self->page->a.label[self->k]);
    wm_svg_t plot = { .out = self->out, .title = title, .x = *axis };
    counts_fit (&plot.y, count[0], 2 * BINS, 0);
    wm_svg_begin (&plot);
    wm_svg_histogram (&plot, count[0], BINS, self->colour, true);
    wm_svg_histogram (&plot, count[1], BINS, "#222", false);
    wm_svg_legend (&plot,
                   (const wm_svg_entry_t[]){ { "A", self->colour, .is_filled = true },
                                             { "B", "#222", .is_filled = false } },
                   2);
    wm_svg_end (&plot);
}

/* Decades that hold all differences and the tolerance; the first is for those that are 0.  */
static void fit_differences (const pictures_t *self, wm_svg_axis_t *axis)
{
    const double tolerance = self->page->tolerance;
    double least = tolerance > 0 && isfinite (tolerance) ? tolerance : INFINITY,
           most = tolerance > 0 && isfinite (tolerance) ? tolerance * 1.01 : 0;
    for (uint64_t i = 0; i < self->page->n_scored; i++) {
        const double d = difference (wm_comparison_score_a (self->page, self->k, i),
                                     wm_comparison_score_b (self->page, self->k, i));
        least = d > 0 ? fmin (least, d) : least;
        most = fmax (most, d);
    }
    least = isfinite (least) ? fmax (least, pow (10, LEAST_DECADE)) : 1e-6;
    wm_svg_fit (axis, least, fmax (most, least * 1.01));
    axis->from /= 10;
    axis->from = fmax (axis->from, axis->to * pow (10, -DECADES_MAX));
}

static void draw_differences (const pictures_t *self)
{
    static uint64_t count[DECADES_MAX * DECADE_BINS];
    char title[96], about[96], n_text[40];
    uint64_t n_zero = 0, n_lost = 0;
    wm_svg_axis_t axis = { .is_log = true, .name = "difference" };
    fit_differences (self, &axis);
    const uint32_t n = DECADE_BINS * (uint32_t) lround (log10 (axis.to / axis.from));
    memset (count, 0, sizeof count);
    for (uint64_t i = 0; i < self->page->n_scored; i++) {
        const double d = difference (wm_comparison_score_a (self->page, self->k, i),
                                     wm_comparison_score_b (self->page, self->k, i));
        n_zero += d == 0;
        n_lost += d < 0;
        const double at = d > 0 ? floor (log10 (d / axis.from) * DECADE_BINS) : 0;
        if (d > 0)
            count[at < DECADE_BINS ? DECADE_BINS : at >= n ? n - 1 : (uint32_t) at]++;
    }
    for (uint32_t i = 1; i < DECADE_BINS - 1; i++)
        count[i] = n_zero;
    snprintf (title, sizeof title, "Differences of %s", self->page->a.label[self->k]);
    snprintf (about, sizeof about, "%s without any difference", hits (n_zero, n_text));
    wm_svg_t plot = { .out = self->out, .title = title, .about = about, .x = axis, .zero = "0" };
    counts_fit (&plot.y, count, n, 0);
    wm_svg_begin (&plot);
    wm_svg_histogram (&plot, count, n, self->colour, true);
    wm_svg_line (&plot, axis.from * 10, plot.y.from, axis.from * 10, plot.y.to, "#999", false);
    const double tolerance = self->page->tolerance;
    wm_svg_line (&plot, tolerance, plot.y.from, tolerance, plot.y.to, "#222", true);
    snprintf (about, sizeof about, "tolerance %g", tolerance);
    wm_svg_legend (&plot, (const wm_svg_entry_t[]){ { about, "#222", .is_dashed = true } },
                   tolerance > 0);
    wm_svg_end (&plot);
    if (n_lost)
        wm_page_put (self->out, "figcaption", "Not shown: %s that is not finite on one side.",
                     hits (n_lost, n_text));
}

static void draw_density (const pictures_t *self, const wm_svg_axis_t *axis)
{
    static uint64_t count[CELLS * CELLS];
    char title[96];
    memset (count, 0, sizeof count);
    for (uint64_t i = 0; i < self->page->n_scored; i++) {
        const double a = wm_comparison_score_a (self->page, self->k, i),
                     b = wm_comparison_score_b (self->page, self->k, i);
        if (isfinite (a) && isfinite (b))
            count[bin_of (axis, b, CELLS) * CELLS + bin_of (axis, a, CELLS)]++;
    }
    snprintf (title, sizeof title, "%s of B against A", self->page->a.label[self->k]);
    wm_svg_t plot = { .out = self->out, .title = title, .x = *axis, .y = *axis };
    plot.x.name = "A";
    plot.y.name = "B";
    wm_svg_begin (&plot);
    wm_svg_density (&plot, count, CELLS, CELLS);
    wm_svg_line (&plot, axis->from, axis->from, axis->to, axis->to, "#a81420", true);
    wm_svg_legend (&plot,
                   (const wm_svg_entry_t[]){
                       { "the same score; darker: more hits", "#a81420", .is_dashed = true } },
                   1);
    wm_svg_end (&plot);
}

static void write_pictures (const wm_comparison_t *self, FILE *out)
{
    if (!self->n_scored)
        return;
    fputs ("<h2 class=\"page\">Pictures</h2>\n", out);
    for (uint32_t k = 0; k < self->a.n_label && k < PICTURES_MAX; k++) {
        const char *label = self->a.label[k];
        pictures_t pictures = { self, out, k, wm_svg_colour (label, k) };
        wm_svg_axis_t axis = { .name = "score" };
        fputs ("<section>", out);
        wm_page_put (out, "h3", "%s", label);
        wm_page_pictures (out);
        if (fit_scores (&pictures, &axis)) {
            fputs ("<figure>", out);
            draw_scores (&pictures, &axis);
            fputs ("</figure>\n", out);
        }
        fputs ("<figure>", out);
        draw_differences (&pictures);
        fputs ("</figure>\n", out);
        if (isfinite (axis.to - axis.from) && axis.to > axis.from) {
            fputs ("<figure>", out);
            draw_density (&pictures, &axis);
            fputs ("</figure>\n", out);
        }
        wm_page_pictures_end (out);
        fputs ("</section>\n", out);
    }
    if (self->a.n_label > PICTURES_MAX)
        wm_page_put (out, "p", "%u more scores have no pictures.", self->a.n_label - PICTURES_MAX);
}

/* ---- the page -------------------------------------------------------------------------------- */

/* What a cell of a hit needs.  */
typedef struct {
    wm_page_events_t events;
    const char *const *path;
} links_t;

static void hit_cell (void *arg, const wm_called_hit_t *hit, FILE *out)
{
    const links_t *links = arg;
    fputs ("<td>", out);
    wm_called_links (&links->events, links->path, &hit->key, out);
    fputs ("</td>", out);
}

wm_fault_t wm_compare_page_write (const wm_compare_page_t *self, FILE *out, wm_error_t *error)
{
    static wm_called_t called;
    links_t links = { .path = self->path };
    char *files = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream (&files, &bytes);
    wm_fault_t fault = memory ? wm_compare_files_write (self->path, self->n_path, memory, error)
                              : wm_fault (error, WM_EHOST, "out of memory for the page");
    if (memory)
        fclose (memory);
    if (!fault) {
        wm_called_add (&called, self->found, 0, &(uint64_t){ 0 });
        wm_page_events_begin (&links.events, self->place);
        wm_page_begin (out, "Comparison of scores");
        write_verdict (self->found, out);
        if (self->note && *self->note)
            wm_page_put (out, "p", "%s", self->note);
        fputs ("<section><h2>What was compared</h2>\n", out);
        fwrite (files, 1, bytes, out);
        fputs ("</section>\n", out);
        write_quantiles (self->found, out);
        fputs ("<div class=\"two\">\n", out);
        write_matches (self->found, out);
        wm_called_write (&called, out);
        fputs ("</div>\n", out);
        wm_called_write_hits (&called, self->n_path == 2 ? hit_cell : NULL, &links, out);
        fputs ("<div class=\"sign\"><p>Name</p><p>Date</p><p>Signature</p></div>\n", out);
        fputs (self->truth ? self->truth : "", out);
        write_pictures (self->found, out);
        fputs (
            "<footer><p>Written by wiremill compare; which of the two is right, a comparison "
            "does not tell. The tolerance is absolute below 1 and relative above.</p></footer>\n",
            out);
        wm_page_end (out);
    }
    free (files);
    return fault;
}
