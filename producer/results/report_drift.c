/* report_drift.c - see report_drift.h.

   An output lies apart if its mean is farther from the median of all means than SPREADS times their
   spread, and than LEAST: the spread is the median distance from the median, times 1.4826, which
   is the standard deviation of a normal distribution. Neither is moved by the outliers that are
   looked for.  */
#include "producer/results/report_drift.h"

#include "schema/base/wm_order.h"
#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define OUTPUTS_LEAST 5u /* fewer have no spread */
#define SPREADS 5.0
#define LEAST 0.005
#define NORMAL 1.4826
#define PICTURES_MAX 16u
#define INK "#222"
#define GREY "#8a8a8a"

typedef struct {
    const wm_report_mean_t **output; /* (n) those with scores */
    uint32_t n;
    const char (*label)[48];
    uint32_t n_label;
    double *space; /* (n) */
} drift_t;

WM_ORDER_NUMBERS (by_value, double)

/* Sorts the values.  */
static double median (double *value, uint32_t n)
{
    qsort (value, n, sizeof *value, by_value);
    return n % 2 ? value[n / 2] : (value[n / 2 - 1] + value[n / 2]) / 2;
}

/* The middle of the means of a label, and how far from it one may be.  */
static double middle (const drift_t *self, uint32_t k, double *most)
{
    for (uint32_t i = 0; i < self->n; i++)
        self->space[i] = self->output[i]->mean[k];
    const double at = median (self->space, self->n);
    for (uint32_t i = 0; i < self->n; i++)
        self->space[i] = fabs (self->output[i]->mean[k] - at);
    *most = fmax (LEAST, SPREADS * NORMAL * median (self->space, self->n));
    return at;
}

static void write_outliers (const drift_t *self, FILE *out)
{
    bool any = false;
    for (uint32_t k = 0; k < self->n_label; k++) {
        double most;
        const double at = middle (self, k, &most);
        for (uint32_t i = 0; i < self->n; i++) {
            const double mean = self->output[i]->mean[k];
            if (!(fabs (mean - at) > most))
                continue;
            wm_page_put (out, "p class=\"verdict bad\"",
                         "%s: its mean score of %s is %.4f; the median is %.4f, and %.4f apart is "
                         "usual at most.",
                         self->output[i]->path, self->label[k], mean, at, most);
            any = true;
        }
    }
    if (!any)
        wm_page_put (out, "p", "No output lies apart.");
}

static void draw (const drift_t *self, uint32_t k, FILE *out)
{
    bool is_share = true; /* as every mean of scores from 0 to 1 */
    double most, low, high;
    const double at = middle (self, k, &most);
    char title[96];
    wm_svg_t plot = { .out = out,
                      .title = title,
                      .about =
                          "one dot for each output; the line is the median, between the dashes "
                          "is usual",
                      .x = { 0, self->n + 1.0, false, "output" },
                      .y.name = "mean score" };
    snprintf (title, sizeof title, "Mean score of %.47s", self->label[k]);
    low = at - most, high = at + most;
    for (uint32_t i = 0; i < self->n; i++) {
        low = fmin (low, self->output[i]->mean[k]);
        high = fmax (high, self->output[i]->mean[k]);
        is_share &= self->output[i]->mean[k] >= 0 && self->output[i]->mean[k] <= 1;
    }
    wm_svg_fit (&plot.y, low, high);
    if (is_share)
        plot.y.from = fmax (0, plot.y.from), plot.y.to = fmin (1, plot.y.to);
    fputs ("<figure>", out);
    wm_svg_begin (&plot);
    wm_svg_line (&plot, 0, at, plot.x.to, at, GREY, false);
    wm_svg_line (&plot, 0, at - most, plot.x.to, at - most, GREY, true);
    wm_svg_line (&plot, 0, at + most, plot.x.to, at + most, GREY, true);
    for (uint32_t i = 0; i < self->n; i++) {
        const double mean = self->output[i]->mean[k];
        const bool is_apart = fabs (mean - at) > most;
        wm_svg_dots (&plot, (const float[]){ (float) i + 1 }, (const float[]){ (float) mean }, 1,
                     is_apart ? 5 : 2.5, is_apart ? INK : wm_svg_colour (self->label[k], k));
    }
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "%s: %s.", title, plot.about);
    fputs ("</figure>\n", out);
}

static void write_table (const drift_t *self, FILE *out)
{
    fputs ("<details><summary>Mean scores as a table</summary>\n", out);
    wm_page_table (out, "Mean scores of the hits that were read");
    wm_page_heads_of (out, "Output|#Hits", self->label, self->n_label, "");
    for (uint32_t i = 0; i < self->n; i++) {
        wm_page_row (out, "%u: %s", i + 1, self->output[i]->path);
        wm_page_count_cell (out, self->output[i]->n);
        for (uint32_t k = 0; k < self->n_label; k++)
            wm_page_put (out, "td class=\"n\"", "%.4f", self->output[i]->mean[k]);
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
    fputs ("</details>\n", out);
}

void wm_report_drift (const wm_report_mean_t *output, uint32_t n, const char (*label)[48],
                      uint32_t n_label, FILE *out)
{
    drift_t self = { .label = label,
                     .n_label = n_label,
                     .output = calloc (n + 1ul, sizeof *self.output),
                     .space = calloc (n + 1ul, sizeof *self.space) };
    for (uint32_t i = 0; i < n && self.output; i++)
        if (output[i].n)
            self.output[self.n++] = &output[i];
    if (self.n >= OUTPUTS_LEAST && self.space) {
        fputs ("<h3>Drift over outputs</h3>\n", out);
        wm_page_put (
            out, "p",
            "An output lies apart if its mean score is farther from the median of all than "
            "%g times their spread (1.4826 times the median distance from it) and than "
            "%g.",
            SPREADS, LEAST);
        write_outliers (&self, out);
        wm_page_pictures (out);
        for (uint32_t k = 0; k < n_label && k < PICTURES_MAX; k++)
            draw (&self, k, out);
        wm_page_pictures_end (out);
        write_table (&self, out);
    }
    free (self.output);
    free (self.space);
}
