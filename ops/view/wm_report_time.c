/* wm_report_time.c - what `wiremill report` shows over time: throughput, latencies and faults, from
   the campaign's history. Workers are in wm_report_workers.c.  */
#include "ops/view/wm_report_private.h"

#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BINS_MAX 360 /* of a picture over time */
#define BUSY_PARTS 100

const char *wm_report_no_history (const wm_report_t *self)
{
    return wm_ask_int (self->status, "hits.done")
               ? "The campaign has no history of its times: it was scored by an older version, or "
                 "its ledger was made again."
               : "Nothing is scored yet.";
}

/* The nearest whole number; of a broken broker's rates too.  */
static uint64_t whole (double n)
{
    return (uint64_t) llround (fmin (n, 1e15));
}

void wm_report_count (FILE *out, double n)
{
    char text[32];
    wm_page_put (out, "td class=\"n\"", "%s", wm_page_count ((int64_t) n, text));
}

/* ---- over time ------------------------------------------------------------------------------- */

void wm_report_cover (const wm_report_t *self, bool has_rows, double *from_s, double *to_s)
{
    const wm_history_query_t *h = &self->history;
    const double now_s = (double) self->now_s;
    *from_s = HUGE_VAL;
    *to_s = 0;
    if (has_rows && h->n_row) {
        const wm_history_query_row_t *last = &h->row[h->n_row - 1];
        *from_s = h->row->begin_s;
        *to_s = last->begin_s + last->span_s;
    }
    for (size_t i = 0; i < h->n_worker; i++) {
        *from_s = fmin (*from_s, h->worker[i].from_s);
        *to_s = fmax (*to_s, h->worker[i].to_s);
    }
    *to_s = fmax (*from_s, fmin (*to_s, now_s));
}

typedef struct {
    double from_s, width_s;
    uint32_t n;
    uint64_t rate[BINS_MAX], workers[BINS_MAX];
    uint64_t busy[BINS_MAX]; /* in parts of a worker: an average is no whole number */
} over_time_t;

/* Chooses bins as wide as minutes, hours or days are, from a multiple of their width.  */
static void choose_bins (over_time_t *self, double from_s, double to_s)
{
    static const double width[] = { 60,   120,   300,   600,   900,   1800,   3600,
                                    7200, 10800, 21600, 43200, 86400, 172800, 604800 };
    const size_t n = sizeof width / sizeof *width;
    size_t k = 0;
    while (k + 1 < n && (to_s - from_s) / width[k] > BINS_MAX - 1)
        k++;
    self->width_s = width[k];
    while ((to_s - from_s) / self->width_s > BINS_MAX - 1)
        self->width_s *= 2;
    self->from_s = floor (from_s / self->width_s) * self->width_s;
    self->n = (uint32_t) fmin (BINS_MAX, ceil ((to_s - self->from_s) / self->width_s));
    self->n = self->n ? self->n : 1;
}

static void fill_bins (over_time_t *self, const wm_history_query_t *history)
{
    wm_history_query_part_t part[BINS_MAX];
    wm_history_query_spread (history, self->from_s, self->width_s, part, self->n);
    for (uint32_t b = 0; b < self->n; b++) {
        const double up_s = part[b].up_s > 0 ? part[b].up_s : self->width_s;
        self->rate[b] = whole (fmax (0, wm_history_query_rate (&part[b])));
        self->busy[b] = whole (BUSY_PARTS * part[b].busy_s / up_s);
        self->workers[b] = (uint64_t) part[b].workers_max;
    }
}

static uint64_t most_of (const uint64_t *count, uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        most = count[i] > most ? count[i] : most;
    return most;
}

static wm_svg_t plot_over_time (const over_time_t *self, FILE *out, const char *title,
                                const char *about, const char *y, uint64_t most)
{
    wm_svg_t plot = { .out = out,
                      .title = title,
                      .about = about,
                      .width = WM_REPORT_WIDTH,
                      .height = 230,
                      .is_time = true,
                      .x = { self->from_s, self->from_s + self->n * self->width_s, false,
                             "time (UTC)" },
                      .y.name = y };
    wm_svg_fit (&plot.y, 0, fmax (4, (double) most)); /* whole numbers */
    wm_svg_begin (&plot);
    return plot;
}

static void draw_rate (over_time_t *self, const json_t *status, FILE *out)
{
    char about[160], n[32], title[64], unit[64], per_s[32];
    const uint64_t most = most_of (self->rate, self->n);
    const bool is_thousand = most >= 100000;
    for (uint32_t b = 0; b < self->n && is_thousand; b++)
        self->rate[b] = (self->rate[b] + 500) / 1000;
    snprintf (title, sizeof title, "%s scored per second", wm_report_rows (status, n));
    snprintf (unit, sizeof unit, "%s%s", is_thousand ? "thousand " : "",
              wm_ask_rows_s (status, 30, per_s));
    snprintf (about, sizeof about, "at most %s %s in %.0f minute%s",
              wm_page_count ((int64_t) most, n), per_s, self->width_s / 60,
              self->width_s > 60 ? "s" : "");
    fputs ("<figure class=\"wide\">", out);
    wm_svg_t plot =
        plot_over_time (self, out, title, about, unit, is_thousand ? (most + 500) / 1000 : most);
    wm_svg_histogram (&plot, self->rate, self->n, WM_REPORT_BLUE, true);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "%s in which a broker served the campaign: %s.", title, about);
    fputs ("</figure>\n", out);
}

static void draw_workers_over_time (const over_time_t *self, FILE *out)
{
    char about[160];
    const uint64_t most = most_of (self->workers, self->n);
    if (!most)
        return;
    snprintf (about, sizeof about, "at most %llu connected at a time", (unsigned long long) most);
    fputs ("<figure class=\"wide\">", out);
    wm_svg_t plot = plot_over_time (self, out, "Workers over time", about, "workers", most);
    wm_svg_histogram (&plot, self->workers, self->n, WM_REPORT_GREY, true);
    plot.y.to *= BUSY_PARTS;
    wm_svg_histogram (&plot, self->busy, self->n, WM_REPORT_BLUE, false);
    wm_svg_legend (
        &plot,
        (const wm_svg_entry_t[]){
            { .text = "connected, most at a time", .colour = WM_REPORT_GREY, .is_filled = true },
            { .text = "with a batch, on average", .colour = WM_REPORT_BLUE } },
        2);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "Workers over time: %s.", about);
    fputs ("</figure>\n", out);
}

void wm_report_throughput (const wm_report_t *self, FILE *out)
{
    const wm_history_query_t *h = &self->history;
    const char *rows = wm_ask_rows (self->status);
    char hits[64], up[32], rate[32], from[32], per_s[32];
    wm_history_query_row_t sum;
    wm_history_query_sum (h, 0, &sum);
    fputs ("<section><h2>Throughput</h2>\n", out);
    if (!h->n_row)
        wm_page_put (out, "p", "%s", wm_report_no_history (self));
    else {
        wm_page_put (out, "p", "%s since %s in %s in which a broker served the campaign: %s %s.",
                     wm_show_rows ((int64_t) sum.hits, rows, hits),
                     wm_report_date (sum.begin_s, from), wm_show_time (sum.up_s, up),
                     wm_page_count (sum.up_s > 0 ? (int64_t) whole (sum.hits / sum.up_s) : 0, rate),
                     wm_ask_rows_s (self->status, 30, per_s));
        if (h->hits_before > 0)
            wm_page_put (out, "p", "Scored at times that are not known: %s.",
                         wm_show_rows ((int64_t) h->hits_before, rows, hits));
    }
    if (h->n_row > 1) {
        over_time_t bins = { 0 };
        double from_s, to_s;
        wm_report_cover (self, true, &from_s, &to_s);
        choose_bins (&bins, sum.begin_s, to_s);
        fill_bins (&bins, h);
        draw_rate (&bins, self->status, out);
        draw_workers_over_time (&bins, out);
    }
    fputs ("</section>\n", out);
}

/* ---- latencies ------------------------------------------------------------------------------- */

static const char *const step_colour[WM_HISTORY_QUERY_STEPS] = { WM_REPORT_GREY, WM_REPORT_GOLD,
                                                                 WM_REPORT_BLUE, WM_REPORT_RED };

static void draw_latencies (const wm_history_query_row_t *sum, FILE *out)
{
    uint64_t count[WM_HISTORY_QUERY_BINS], most = 0;
    wm_svg_entry_t entry[WM_HISTORY_QUERY_STEPS];
    for (int s = 0; s < WM_HISTORY_QUERY_STEPS; s++)
        for (int b = 0; b < WM_HISTORY_QUERY_BINS; b++)
            most = sum->step[s].bin[b] > (double) most ? (uint64_t) sum->step[s].bin[b] : most;
    wm_svg_t plot = { .out = out,
                      .title = "Time of a batch for each step",
                      .about = "batches by seconds; bins of a factor of two",
                      .width = WM_REPORT_WIDTH,
                      .height = 230,
                      .x = { 0.0005, 0.0005 * (1 << WM_HISTORY_QUERY_BINS), true, "seconds" },
                      .y.name = "batches" };
    wm_svg_fit (&plot.y, 0, fmax (4, (double) most)); /* whole numbers */
    fputs ("<figure class=\"wide\">", out);
    wm_svg_begin (&plot);
    for (int s = 0; s < WM_HISTORY_QUERY_STEPS; s++) {
        for (int b = 0; b < WM_HISTORY_QUERY_BINS; b++)
            count[b] = (uint64_t) sum->step[s].bin[b];
        wm_svg_histogram (&plot, count, WM_HISTORY_QUERY_BINS, step_colour[s], false);
        entry[s] =
            (wm_svg_entry_t){ .text = wm_history_query_step[s].name, .colour = step_colour[s] };
    }
    wm_svg_legend (&plot, entry, WM_HISTORY_QUERY_STEPS);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "%s: %s. The last bin has all above 16 s.", plot.title,
                 plot.about);
    fputs ("</figure>\n", out);
}

static void put_quantile (const wm_history_query_latency_t *latency, double share, FILE *out)
{
    char text[48];
    wm_page_put (out, "td class=\"n\"", "%s",
                 wm_history_query_quantile_text (latency, share, text));
}

void wm_report_latency (const wm_report_t *self, FILE *out)
{
    const wm_history_query_t *h = &self->history;
    wm_history_query_row_t sum;
    double all_s = 0;
    char text[48];
    wm_history_query_sum (h, 0, &sum);
    fputs ("<section><h2>Where a batch's time goes</h2>\n", out);
    for (int s = 0; s < WM_HISTORY_QUERY_STEPS; s++)
        all_s += sum.step[s].n > 0 ? sum.step[s].sum_s / sum.step[s].n : 0;
    if (all_s <= 0) {
        wm_page_put (out, "p", "%s",
                     h->n_row ? "No batch has passed a step since the history began."
                              : wm_report_no_history (self));
        fputs ("</section>\n", out);
        return;
    }
    wm_page_table (out, "Steps of a batch, one after another; limits are those of the bins");
    fputs ("<tr><th scope=\"col\">Step</th><th scope=\"col\">From, to</th><th scope=\"col\" "
           "class=\"n\">Batches</th><th scope=\"col\" class=\"n\">Mean</th><th scope=\"col\" "
           "class=\"n\">Share</th><th scope=\"col\" class=\"n\">Median</th><th scope=\"col\" "
           "class=\"n\">90 %</th><th scope=\"col\" class=\"n\">99 %</th></tr>\n",
           out);
    for (int s = 0; s < WM_HISTORY_QUERY_STEPS; s++) {
        const wm_history_query_latency_t *l = &sum.step[s];
        const double mean_s = l->n > 0 ? l->sum_s / l->n : 0;
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%s", wm_history_query_step[s].name);
        wm_page_put (out, "td", "%s", wm_history_query_step[s].what);
        wm_report_count (out, l->n);
        wm_page_put (out, "td class=\"n\"", "%s", wm_history_query_mean_text (l, text));
        wm_page_put (out, "td class=\"n\"", "%.0f %%", 100 * mean_s / all_s);
        put_quantile (l, 0.5, out);
        put_quantile (l, 0.9, out);
        put_quantile (l, 0.99, out);
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
    draw_latencies (&sum, out);
    fputs ("</section>\n", out);
}

/* ---- faults ---------------------------------------------------------------------------------- */

void wm_report_faults (const wm_report_t *self, FILE *out)
{
    const wm_history_query_t *h = &self->history;
    char first[32], last[32];
    wm_history_query_row_t sum;
    wm_history_query_sum (h, 0, &sum);
    fputs ("<section><h2>Retries and faults</h2>\n", out);
    if (!h->n_row && !*wm_ask_text (self->status, "endpoint")) {
        wm_page_put (out, "p", "%s", wm_report_no_history (self));
        fputs ("</section>\n", out);
        return;
    }
    wm_page_table (out, h->n_row ? NULL : "Since the broker started; their times are not known");
    fputs ("<tr><th scope=\"col\">What</th><th scope=\"col\" class=\"n\">Count</th><th "
           "scope=\"col\">First</th><th scope=\"col\">Last</th></tr>\n",
           out);
    for (size_t k = 0; k < WM_HISTORY_QUERY_FAULTS; k++) {
        const double n = h->n_row ? wm_history_query_fault_of (&sum, k)
                                  : wm_ask_real (self->status, wm_history_query_fault[k].path);
        snprintf (first, sizeof first, "-");
        snprintf (last, sizeof last, "-");
        for (size_t i = 0; i < h->n_row; i++)
            if (wm_history_query_fault_of (&h->row[i], k) > 0) {
                wm_report_date (h->row[i].begin_s, last);
                if (*first == '-')
                    memcpy (first, last, sizeof first);
            }
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%s", wm_history_query_fault[k].what);
        wm_report_count (out, n);
        wm_page_put (out, "td class=\"w\"", "%s", first);
        wm_page_put (out, "td class=\"w\"", "%s", last);
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
    fputs ("</section>\n", out);
}
