/* wm_report_time.c - what `wiremill report` shows over time: throughput, workers, latencies and
   faults, from the campaign's history.  */
#include "ops/wm_report.h"

#include "ops/wm_ask.h"
#include "ops/wm_show.h"
#include "schema/base/wm_page.h"
#include "schema/base/wm_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 1060
#define BINS_MAX 360 /* of a picture over time */
#define BUSY_PARTS 100
#define GANTT_ROWS 40   /* more workers share rows */
#define GANTT_BARS 400  /* more are drawn as shades */
#define GANTT_CELLS 240 /* of those, over time */
#define GANTT_ROW_PX 16
#define WORKERS_LISTED 20
#define BLUE "#0b5fb4"
#define GOLD "#eeb000"
#define RED "#c62828"
#define GREY "#8a8a8a"

/* Why there are no rows.  */
static const char *no_history (const wm_report_t *self)
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

static void put_count (FILE *out, double n)
{
    char text[32];
    wm_page_put (out, "td class=\"n\"", "%s", wm_page_count ((int64_t) n, text));
}

/* ---- over time ------------------------------------------------------------------------------- */

/* What rows and workers cover, or workers alone; nothing is later than now.  */
static void cover (const wm_report_t *self, bool has_rows, double *from_s, double *to_s)
{
    const wm_past_t *h = &self->history;
    const double now_s = (double) self->now_s;
    *from_s = HUGE_VAL;
    *to_s = 0;
    if (has_rows && h->n_row) {
        const wm_past_row_t *last = &h->row[h->n_row - 1];
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

static void fill_bins (over_time_t *self, const wm_past_t *history)
{
    wm_past_part_t part[BINS_MAX];
    wm_past_spread (history, self->from_s, self->width_s, part, self->n);
    for (uint32_t b = 0; b < self->n; b++) {
        const double up_s = part[b].up_s > 0 ? part[b].up_s : self->width_s;
        self->rate[b] = whole (fmax (0, wm_past_rate (&part[b])));
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
                      .width = WIDTH,
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
    wm_svg_histogram (&plot, self->rate, self->n, BLUE, true);
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
    wm_svg_histogram (&plot, self->workers, self->n, GREY, true);
    plot.y.to *= BUSY_PARTS;
    wm_svg_histogram (&plot, self->busy, self->n, BLUE, false);
    wm_svg_legend (&plot,
                   (const wm_svg_entry_t[]){
                       { .text = "connected, most at a time", .colour = GREY, .is_filled = true },
                       { .text = "with a batch, on average", .colour = BLUE } },
                   2);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "Workers over time: %s.", about);
    fputs ("</figure>\n", out);
}

void wm_report_throughput (const wm_report_t *self, FILE *out)
{
    const wm_past_t *h = &self->history;
    const char *rows = wm_ask_rows (self->status);
    char hits[64], up[32], rate[32], from[32], per_s[32];
    wm_past_row_t sum;
    wm_past_sum (h, 0, &sum);
    fputs ("<section><h2>Throughput</h2>\n", out);
    if (!h->n_row)
        wm_page_put (out, "p", "%s", no_history (self));
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
        cover (self, true, &from_s, &to_s);
        choose_bins (&bins, sum.begin_s, to_s);
        fill_bins (&bins, h);
        draw_rate (&bins, self->status, out);
        draw_workers_over_time (&bins, out);
    }
    fputs ("</section>\n", out);
}

/* ---- workers --------------------------------------------------------------------------------- */

static int by_label (const void *a_v, const void *b_v)
{
    const wm_past_worker_t *a = *(const wm_past_worker_t *const *) a_v,
                           *b = *(const wm_past_worker_t *const *) b_v;
    const int order = strverscmp (a->label, b->label);
    return order ? order : (a->from_s > b->from_s) - (a->from_s < b->from_s);
}

/* Those that ended for a reason first, then those that scored most.  */
static int by_interest (const void *a_v, const void *b_v)
{
    const wm_past_worker_t *a = *(const wm_past_worker_t *const *) a_v,
                           *b = *(const wm_past_worker_t *const *) b_v;
    if (!*a->why != !*b->why)
        return *a->why ? -1 : 1;
    return a->hits < b->hits ? 1 : a->hits > b->hits ? -1 : by_label (a_v, b_v);
}

static bool is_gpu (const wm_past_worker_t *worker)
{
    return *worker->device && strcmp (worker->device, "CPU") != 0;
}

typedef struct {
    const wm_past_worker_t **worker; /* (n) by label */
    size_t n, n_label;
    size_t each; /* labels of a row */
    uint32_t n_row;
    char name[GANTT_ROWS][64];
    const char *row[GANTT_ROWS];
} gantt_t;

/* Whole characters of a name: its end tells it from others.  */
static void shorten (const char *label, size_t most, char *name, size_t bytes)
{
    const size_t n = strlen (label);
    const char *from = label + (n > most ? n - most + 3 : 0);
    while (n > most && (*from & 0xc0) == 0x80)
        from++;
    snprintf (name, bytes, "%s%s", n > most ? "..." : "", from);
}

/* Which row each worker is in, into `row_of` (n), and the rows' names.  */
static void choose_rows (gantt_t *self, uint32_t *row_of)
{
    char first[40];
    size_t k = 0;
    self->each = (self->n_label + GANTT_ROWS - 1) / GANTT_ROWS;
    for (size_t i = 0; i < self->n; i++) {
        k += i && strcmp (self->worker[i]->label, self->worker[i - 1]->label) != 0;
        row_of[i] = (uint32_t) (k / self->each);
        const size_t left = self->n_label - row_of[i] * self->each,
                     n = left < self->each ? left : self->each;
        if (row_of[i] + 1 > self->n_row) {
            shorten (self->worker[i]->label, 24, first, sizeof first);
            if (n > 1)
                snprintf (self->name[row_of[i]], sizeof *self->name, "%.26s and %zu", first, n - 1);
            else
                snprintf (self->name[row_of[i]], sizeof *self->name, "%.26s", first);
            self->row[row_of[i]] = self->name[row_of[i]];
            self->n_row = row_of[i] + 1;
        }
    }
}

/* A bar for each process, the more of its colour the more of its time it had a batch.  */
static void draw_bars (const gantt_t *self, const uint32_t *row_of, wm_svg_t *plot)
{
    const double mark_s = (plot->x.to - plot->x.from) / 350;
    for (size_t i = 0; i < self->n; i++) {
        const wm_past_worker_t *w = self->worker[i];
        const double top = self->n_row - row_of[i],
                     busy = w->to_s > w->from_s ? fmin (1, w->busy_s / (w->to_s - w->from_s)) : 1;
        wm_svg_bar (plot, w->from_s, w->to_s, top - 0.85, top - 0.15, is_gpu (w) ? GOLD : BLUE,
                    0.25 + 0.75 * busy);
        if (*w->why)
            wm_svg_bar (plot, w->to_s - mark_s, w->to_s + mark_s, top - 0.95, top - 0.05, RED, 1);
    }
    wm_svg_legend (
        plot,
        (const wm_svg_entry_t[]){ { .text = "on a CPU", .colour = BLUE, .is_filled = true },
                                  { .text = "on a GPU", .colour = GOLD, .is_filled = true },
                                  { .text = "dismissed, or ended for a reason", .colour = RED } },
        3);
}

/* The darker, the more of the row's workers were connected.  */
static void draw_shades (const gantt_t *self, const uint32_t *row_of, wm_svg_t *plot)
{
    uint64_t *count = calloc ((size_t) GANTT_CELLS * self->n_row, sizeof *count);
    const double cell_s = (plot->x.to - plot->x.from) / GANTT_CELLS;
    for (size_t i = 0; i < self->n && count; i++) {
        const wm_past_worker_t *w = self->worker[i];
        const uint32_t y = self->n_row - 1 - row_of[i];
        for (uint32_t x = (uint32_t) ((w->from_s - plot->x.from) / cell_s);
             x < GANTT_CELLS && plot->x.from + x * cell_s <= w->to_s; x++)
            count[(size_t) y * GANTT_CELLS + x]++;
    }
    if (count)
        wm_svg_density (plot, count, GANTT_CELLS, self->n_row);
    wm_svg_legend (plot,
                   (const wm_svg_entry_t[]){ { .text = "connected; darker: more workers of the row",
                                               .colour = "#2f6dab",
                                               .is_filled = true } },
                   1);
    free (count);
}

static void draw_gantt (const wm_report_t *self, gantt_t *gantt, FILE *out)
{
    char about[200];
    double from_s, to_s;
    uint32_t *row_of = calloc (gantt->n, sizeof *row_of);
    if (!row_of)
        return;
    choose_rows (gantt, row_of);
    cover (self, self->history.n_row > 1, &from_s, &to_s); /* as the pictures above */
    const bool is_bars = gantt->each == 1 && gantt->n <= GANTT_BARS;
    wm_svg_t plot = { .out = out,
                      .title = "Workers by time",
                      .about = about,
                      .width = WIDTH,
                      .height = 62 + GANTT_ROW_PX * gantt->n_row,
                      .is_time = true,
                      .row = gantt->row,
                      .n_row = gantt->n_row,
                      .x = { from_s, fmax (to_s, from_s + 1), false, "time (UTC)" },
                      .y = { 0, gantt->n_row, false, "" } };
    if (gantt->each > 1)
        snprintf (about, sizeof about,
                  "%zu workers in %u rows of up to %zu, in the order of their names; a name is the "
                  "first of its row",
                  gantt->n_label, gantt->n_row, gantt->each);
    else
        snprintf (about, sizeof about, "%zu worker%s, %zu connection%s; %s", gantt->n_label,
                  gantt->n_label == 1 ? "" : "s", gantt->n, gantt->n == 1 ? "" : "s",
                  is_bars ? "the fuller the colour, the more of its time a worker had a batch"
                          : "dark: connected");
    fputs ("<figure class=\"wide\">", out);
    wm_svg_begin (&plot);
    (is_bars ? draw_bars : draw_shades) (gantt, row_of, &plot);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "Workers by time: %s.", about);
    fputs ("</figure>\n", out);
    free (row_of);
}

static void list_workers (const gantt_t *gantt, const json_t *status, FILE *out)
{
    char from[32], busy[32], rows[32];
    const size_t n = gantt->n < WORKERS_LISTED ? gantt->n : WORKERS_LISTED;
    char caption[160];
    snprintf (caption, sizeof caption,
              "%zu of %zu: those that ended for a reason first, then those that scored most", n,
              gantt->n);
    wm_page_table (out, gantt->n > n ? caption : NULL);
    fprintf (out,
             "<tr><th scope=\"col\">Worker</th><th scope=\"col\">Engine</th><th "
             "scope=\"col\">Device</th><th scope=\"col\">Connected from</th><th scope=\"col\" "
             "class=\"n\">For</th><th scope=\"col\" class=\"n\">Busy</th><th scope=\"col\" "
             "class=\"n\">Batches</th><th scope=\"col\" class=\"n\">%s</th><th "
             "scope=\"col\">End</th></tr>\n",
             wm_report_rows (status, rows));
    for (size_t i = 0; i < n; i++) {
        const wm_past_worker_t *w = gantt->worker[i];
        const double for_s = w->to_s - w->from_s;
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%.100s", w->label);
        wm_page_put (out, "td", "%.100s", w->signature);
        wm_page_put (out, "td", "%.60s", w->device);
        wm_page_put (out, "td class=\"w\"", "%s", wm_report_date (w->from_s, from));
        wm_page_put (out, "td class=\"n\"", "%s", wm_show_time (for_s, busy));
        wm_page_put (out, "td class=\"n\"", for_s > 0 ? "%.0f %%" : "-",
                     for_s > 0 ? fmin (100, 100 * w->busy_s / for_s) : 0.);
        put_count (out, w->batches);
        put_count (out, w->hits);
        wm_page_put (out, "td", "%.200s", *w->why ? w->why : w->connected ? "connected" : "ended");
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
}

void wm_report_workers (const wm_report_t *self, FILE *out)
{
    const wm_past_t *h = &self->history;
    static gantt_t gantt;
    char n[32];
    memset (&gantt, 0, sizeof gantt);
    fputs ("<section><h2>Workers</h2>\n", out);
    gantt.n = h->n_worker;
    gantt.worker = calloc (h->n_worker + 1, sizeof *gantt.worker);
    for (size_t i = 0; i < h->n_worker && gantt.worker; i++)
        gantt.worker[i] = &h->worker[i];
    if (!h->n_worker || !gantt.worker)
        wm_page_put (out, "p", "%s",
                     h->n_row ? "No worker has connected since the history began."
                              : no_history (self));
    else {
        qsort (gantt.worker, gantt.n, sizeof *gantt.worker, by_label);
        for (size_t i = 0; i < gantt.n; i++)
            gantt.n_label += !i || strcmp (gantt.worker[i]->label, gantt.worker[i - 1]->label) != 0;
        draw_gantt (self, &gantt, out);
        qsort (gantt.worker, gantt.n, sizeof *gantt.worker, by_interest);
        list_workers (&gantt, self->status, out);
    }
    if (h->n_worker_dropped > 0)
        wm_page_put (out, "p", "%s earlier connections of workers are not kept.",
                     wm_page_count ((int64_t) h->n_worker_dropped, n));
    free (gantt.worker);
    fputs ("</section>\n", out);
}

/* ---- latencies ------------------------------------------------------------------------------- */

static const char *const step_colour[WM_PAST_STEPS] = { GREY, GOLD, BLUE, RED };

static void draw_latencies (const wm_past_row_t *sum, FILE *out)
{
    uint64_t count[WM_PAST_BINS], most = 0;
    wm_svg_entry_t entry[WM_PAST_STEPS];
    for (int s = 0; s < WM_PAST_STEPS; s++)
        for (int b = 0; b < WM_PAST_BINS; b++)
            most = sum->step[s].bin[b] > (double) most ? (uint64_t) sum->step[s].bin[b] : most;
    wm_svg_t plot = { .out = out,
                      .title = "Time of a batch for each step",
                      .about = "batches by seconds; bins of a factor of two",
                      .width = WIDTH,
                      .height = 230,
                      .x = { 0.0005, 0.0005 * (1 << WM_PAST_BINS), true, "seconds" },
                      .y.name = "batches" };
    wm_svg_fit (&plot.y, 0, most ? (double) most : 1);
    fputs ("<figure class=\"wide\">", out);
    wm_svg_begin (&plot);
    for (int s = 0; s < WM_PAST_STEPS; s++) {
        for (int b = 0; b < WM_PAST_BINS; b++)
            count[b] = (uint64_t) sum->step[s].bin[b];
        wm_svg_histogram (&plot, count, WM_PAST_BINS, step_colour[s], false);
        entry[s] = (wm_svg_entry_t){ .text = wm_past_step[s].name, .colour = step_colour[s] };
    }
    wm_svg_legend (&plot, entry, WM_PAST_STEPS);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "%s: %s. The last bin has all above 16 s.", plot.title,
                 plot.about);
    fputs ("</figure>\n", out);
}

static void put_quantile (const wm_past_latency_t *latency, double share, FILE *out)
{
    char text[48];
    wm_page_put (out, "td class=\"n\"", "%s", wm_past_quantile_text (latency, share, text));
}

void wm_report_latency (const wm_report_t *self, FILE *out)
{
    const wm_past_t *h = &self->history;
    wm_past_row_t sum;
    double all_s = 0;
    char text[48];
    wm_past_sum (h, 0, &sum);
    fputs ("<section><h2>Where a batch's time goes</h2>\n", out);
    for (int s = 0; s < WM_PAST_STEPS; s++)
        all_s += sum.step[s].n > 0 ? sum.step[s].sum_s / sum.step[s].n : 0;
    if (all_s <= 0) {
        wm_page_put (out, "p", "%s",
                     h->n_row ? "No batch has passed a step since the history began."
                              : no_history (self));
        fputs ("</section>\n", out);
        return;
    }
    wm_page_table (out, "Steps of a batch, one after another; limits are those of the bins");
    fputs ("<tr><th scope=\"col\">Step</th><th scope=\"col\">From, to</th><th scope=\"col\" "
           "class=\"n\">Batches</th><th scope=\"col\" class=\"n\">Mean</th><th scope=\"col\" "
           "class=\"n\">Share</th><th scope=\"col\" class=\"n\">Median</th><th scope=\"col\" "
           "class=\"n\">90 %</th><th scope=\"col\" class=\"n\">99 %</th></tr>\n",
           out);
    for (int s = 0; s < WM_PAST_STEPS; s++) {
        const wm_past_latency_t *l = &sum.step[s];
        const double mean_s = l->n > 0 ? l->sum_s / l->n : 0;
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%s", wm_past_step[s].name);
        wm_page_put (out, "td", "%s", wm_past_step[s].what);
        put_count (out, l->n);
        wm_page_put (out, "td class=\"n\"", "%s", wm_past_mean_text (l, text));
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
    const wm_past_t *h = &self->history;
    char first[32], last[32];
    wm_past_row_t sum;
    wm_past_sum (h, 0, &sum);
    fputs ("<section><h2>Retries and faults</h2>\n", out);
    if (!h->n_row && !*wm_ask_text (self->status, "endpoint")) {
        wm_page_put (out, "p", "%s", no_history (self));
        fputs ("</section>\n", out);
        return;
    }
    wm_page_table (out, h->n_row ? NULL : "Since the broker started; their times are not known");
    fputs ("<tr><th scope=\"col\">What</th><th scope=\"col\" class=\"n\">Count</th><th "
           "scope=\"col\">First</th><th scope=\"col\">Last</th></tr>\n",
           out);
    for (size_t k = 0; k < WM_PAST_FAULTS; k++) {
        const double n = h->n_row ? wm_past_fault_of (&sum, k)
                                  : wm_ask_real (self->status, wm_past_fault[k].path);
        snprintf (first, sizeof first, "-");
        snprintf (last, sizeof last, "-");
        for (size_t i = 0; i < h->n_row; i++)
            if (wm_past_fault_of (&h->row[i], k) > 0) {
                wm_report_date (h->row[i].begin_s, last);
                if (*first == '-')
                    memcpy (first, last, sizeof first);
            }
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%s", wm_past_fault[k].what);
        put_count (out, n);
        wm_page_put (out, "td class=\"w\"", "%s", first);
        wm_page_put (out, "td class=\"w\"", "%s", last);
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
    fputs ("</section>\n", out);
}
