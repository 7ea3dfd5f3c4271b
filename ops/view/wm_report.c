/* wm_report.c - the page of `wiremill report`: how the campaign is, what was scored over time and
   by which workers, what is held, what it cost, and where all of it comes from.  */
#include "ops/view/wm_report.h"

#include "ops/ask/wm_account.h"
#include "ops/ask/wm_arithmetic.h"
#include "ops/ask/wm_ask.h"
#include "ops/ask/wm_show.h"
#include "ops/view/wm_marks.h"
#include "ops/view/wm_report_origin.h"
#include "ops/view/wm_top.h"
#include "ops/view/wm_waits.h"
#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"
#include "schema/wm_limits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pictures over the whole page, in px, and their colours.  */
#define WIDTH 1060
#define BLUE "#0b5fb4"
#define GOLD "#cf7d00"
#define RED "#a81420"
#define GREY "#8a8a8a"
#define HELD_LISTED 50 /* inputs, events and batches; and files with held hits */
#define REASONS_MAX 64
#define BINS_MAX 360 /* of a picture over time */
#define BUSY_PARTS 100
#define MARKS_NEAR 0.02 /* of the time that rows have, */
#define MARKS_NEAR_S 10 /* and at least so much: what marks may add to it */
#define GANTT_ROWS 40   /* more workers share rows */
#define GANTT_BARS 400  /* more are drawn as shades */
#define GANTT_CELLS 240 /* of those, over time */
#define GANTT_ROW_PX 16
#define WORKERS_LISTED 20

/* When a row of the history begins, as exactly as its length lets it.  */
static const char *begin_of (const wm_history_query_row_t *row, char text[32])
{
    wm_report_date (row->begin_s, text);
    if (row->span_s >= 60 && *text != '?')
        strcpy (text + 16, " UTC");
    return text;
}

static const char *rows_of (const json_t *status, char text[32])
{
    snprintf (text, 32, "%.31s", wm_ask_rows (status));
    *text = (char) (*text >= 'a' && *text <= 'z' ? *text - 'a' + 'A' : *text);
    return text;
}

static const char *no_history (const wm_report_t *self)
{
    return wm_ask_int (self->status, "hits.done")
               ? "The campaign has no history of its times: its broker was killed before it noted "
                 "any, an older version scored it, or its ledger was made again."
               : "Nothing is scored yet.";
}

/* The nearest whole number; of a broken broker's rates too.  */
static uint64_t whole (double n)
{
    return (uint64_t) llround (fmin (n, 1e15));
}

/* ---- over time ------------------------------------------------------------------------------- */

/* The time that all pictures over time show.  */
static void cover (const wm_report_t *self, double *from_s, double *to_s)
{
    const wm_history_query_t *h = &self->history;
    const double now_s = (double) self->now_s;
    *from_s = HUGE_VAL;
    *to_s = 0;
    if (h->n_row) {
        const wm_history_query_row_t *last = &h->row[h->n_row - 1];
        *from_s = wm_history_query_begin (h);
        *to_s = last->begin_s + last->span_s;
    }
    for (size_t i = 0; i < h->n_worker; i++) {
        *from_s = fmin (*from_s, h->worker[i].from_s);
        *to_s = fmax (*to_s, h->worker[i].to_s);
    }
    for (size_t i = 0; i < h->n_mark; i++) { /* those close to it */
        const double at_s = h->mark[i].from_s,
                     near_s = fmax (MARKS_NEAR_S, MARKS_NEAR * (*to_s - *from_s));
        if (at_s < *from_s && at_s >= *from_s - near_s)
            *from_s = at_s;
        if (at_s > *to_s && at_s <= *to_s + near_s)
            *to_s = at_s;
    }
    *to_s = fmax (*from_s, fmin (*to_s, now_s));
}

typedef struct {
    double from_s, width_s;
    uint32_t n;
    uint64_t rate[BINS_MAX], workers[BINS_MAX];
    uint64_t busy[BINS_MAX]; /* in parts of a worker: an average is no whole number */
    bool is_idle[BINS_MAX];  /* no worker had a batch: a pause, for one */
    bool is_away[BINS_MAX];  /* no broker served, or no worker was there */
    double lost[BINS_MAX], held[BINS_MAX];
} over_time_t;

/* Chooses bins as wide as seconds, minutes, hours or days are, from a multiple of their width.  */
static void choose_bins (const wm_report_t *report, over_time_t *self)
{
    static const double width[] = { 1,     2,     5,     10,    15,     30,    60,
                                    120,   300,   600,   900,   1800,   3600,  7200,
                                    10800, 21600, 43200, 86400, 172800, 604800 };
    const size_t n = sizeof width / sizeof *width;
    double from_s, to_s;
    size_t k = 0;
    cover (report, &from_s, &to_s);
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
        self->is_away[b] = part[b].up_s <= 0;
        self->is_idle[b] = !self->is_away[b] && part[b].hits <= 0 && part[b].busy_s <= 0;
    }
    for (size_t i = 0; i < history->n_row; i++) {
        const wm_history_query_row_t *row = &history->row[i];
        const double at = floor ((row->begin_s - self->from_s) / self->width_s);
        if (at < 0 || at >= self->n)
            continue;
        self->lost[(uint32_t) at] += row->lost;
        self->held[(uint32_t) at] += row->held;
    }
}

static void draw_letters (const wm_history_query_t *past, const wm_svg_t *plot)
{
    wm_marks_draw (plot->out, past,
                   &(wm_marks_frame_t){ plot->x.from, plot->x.to, plot->left, plot->right,
                                        plot->top, plot->bottom });
}

/* What happened, over the whole height of a picture. A broker before the first mark is of an
   earlier release, which counted what was lost and held.  */
static void draw_marks (const over_time_t *self, const wm_history_query_t *past, wm_svg_t *plot)
{
    const double marks_s = past->n_mark ? past->mark[0].from_s : HUGE_VAL;
    for (uint32_t b = 0; b < self->n; b++) {
        const double x = self->from_s + b * self->width_s, to = plot->y.to;
        if (self->is_idle[b] || self->is_away[b])
            wm_svg_bar (plot, x, x + self->width_s, 0, to, GREY, self->is_idle[b] ? 0.2 : 0.5);
        if (self->lost[b] > 0 && x + self->width_s <= marks_s)
            wm_svg_line (plot, x, 0, x, to, RED, false);
        if (self->held[b] > 0 && x + self->width_s <= marks_s)
            wm_svg_line (plot, x, 0, x, to, GOLD, false);
    }
    draw_letters (past, plot);
    wm_svg_legend (plot,
                   (const wm_svg_entry_t[]){
                       { .text = "paused, or no worker had a batch (dark: none was there)",
                         .colour = GREY,
                         .is_filled = true },
                       { .text = "a worker was lost", .colour = RED },
                       { .text = "a batch was held", .colour = GOLD } },
                   3);
}

/* "5 s", "1 minute", "2 h".  */
static const char *width_of (double width_s, char text[32])
{
    if (width_s < 60)
        snprintf (text, 32, "%.0f s", width_s);
    else if (width_s < 3600)
        snprintf (text, 32, "%.0f minute%s", width_s / 60, width_s > 60 ? "s" : "");
    else
        snprintf (text, 32, "%.0f h", width_s / 3600);
    return text;
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

static void draw_rate (over_time_t *self, const wm_report_t *report, FILE *out)
{
    char about[160], n[32], title[64], unit[64], per_s[32], width[32];
    const json_t *status = report->status;
    const uint64_t most = most_of (self->rate, self->n);
    const bool is_thousand = most >= 100000;
    for (uint32_t b = 0; b < self->n && is_thousand; b++)
        self->rate[b] = (self->rate[b] + 500) / 1000;
    snprintf (title, sizeof title, "%s scored per second", rows_of (status, n));
    snprintf (unit, sizeof unit, "%s%s", is_thousand ? "thousand " : "",
              wm_ask_rows_s (status, 30, per_s));
    snprintf (about, sizeof about, "at most %s %s in %s", wm_page_count ((int64_t) most, n), per_s,
              width_of (self->width_s, width));
    fputs ("<figure class=\"wide\" tabindex=\"0\">", out);
    wm_svg_t plot =
        plot_over_time (self, out, title, about, unit, is_thousand ? (most + 500) / 1000 : most);
    wm_svg_histogram (&plot, self->rate, self->n, BLUE, true);
    draw_marks (self, &report->history, &plot);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "%s: %s. The area under it is what was scored.", title, about);
    fputs ("</figure>\n", out);
}

static void draw_workers_over_time (const over_time_t *self, const wm_history_query_t *past,
                                    FILE *out)
{
    char about[160];
    const uint64_t most = most_of (self->workers, self->n);
    if (!most)
        return;
    snprintf (about, sizeof about, "at most %llu connected at a time", (unsigned long long) most);
    fputs ("<figure class=\"wide\" tabindex=\"0\">", out);
    wm_svg_t plot = plot_over_time (self, out, "Workers over time", about, "workers", most);
    wm_svg_histogram (&plot, self->workers, self->n, GREY, true);
    plot.y.to *= BUSY_PARTS;
    wm_svg_histogram (&plot, self->busy, self->n, BLUE, false);
    draw_letters (past, &plot);
    wm_svg_legend (&plot,
                   (const wm_svg_entry_t[]){
                       { .text = "connected, most at a time", .colour = GREY, .is_filled = true },
                       { .text = "with a batch, on average", .colour = BLUE } },
                   2);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "Workers over time: %s.", about);
    fputs ("</figure>\n", out);
}

static void put_throughput (const wm_report_t *self, FILE *out)
{
    const wm_history_query_t *h = &self->history;
    const char *rows = wm_ask_rows (self->status);
    char hits[64], up[32], rate[32], from[32], to[32], per_s[32];
    wm_history_query_work_t work;
    wm_history_query_work (h, &work);
    fputs ("<section><h2>Throughput</h2>\n", out);
    if (!h->n_row)
        wm_page_put (out, "p", "%s", no_history (self));
    else {
        if (work.from_s > 0)
            wm_page_put (
                out, "p", "%s from %s to %s: %s %s in the %s in which workers had batches.",
                wm_show_rows ((int64_t) work.hits, rows, hits), wm_report_date (work.from_s, from),
                wm_report_date (work.to_s, to), wm_page_count ((int64_t) whole (work.hits_s), rate),
                wm_ask_rows_s (self->status, 30, per_s), wm_show_time (work.worked_s, up));
        else
            fputs ("<p>No worker has had a batch since the history began.</p>\n", out);
        if (h->hits_before > 0)
            wm_page_put (out, "p", "Scored at times that are not known: %s.",
                         wm_show_rows ((int64_t) h->hits_before, rows, hits));
        over_time_t bins = { 0 };
        choose_bins (self, &bins);
        fill_bins (&bins, h);
        draw_rate (&bins, self, out);
        draw_workers_over_time (&bins, h, out);
    }
    wm_marks_table (out, h, 0, HUGE_VAL, wm_report_date);
    fputs ("</section>\n", out);
}

/* ---- latencies ------------------------------------------------------------------------------- */

static const char *const step_colour[WM_HISTORY_QUERY_STEPS] = { GREY, GOLD, BLUE, RED };

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
                      .width = WIDTH,
                      .height = 230,
                      .x = { 0.0005, 0.0005 * (1 << WM_HISTORY_QUERY_BINS), true, "seconds" },
                      .y.name = "batches" };
    wm_svg_fit (&plot.y, 0, fmax (4, (double) most)); /* whole numbers */
    fputs ("<figure class=\"wide\" tabindex=\"0\">", out);
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

static void put_latency (const wm_report_t *self, FILE *out)
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
                              : no_history (self));
        fputs ("</section>\n", out);
        return;
    }
    wm_page_table (out, "Steps of a batch, one after another; limits are those of the bins");
    wm_page_heads (out, "Step|From, to|#Batches|#Mean|#Share|#Median|#90 %|#99 %");
    for (int s = 0; s < WM_HISTORY_QUERY_STEPS; s++) {
        const wm_history_query_latency_t *l = &sum.step[s];
        const double mean_s = l->n > 0 ? l->sum_s / l->n : 0;
        wm_page_row (out, "%s", wm_history_query_step[s].name);
        wm_page_put (out, "td", "%s", wm_history_query_step[s].what);
        wm_page_count_cell (out, (uint64_t) l->n);
        wm_page_put (out, "td class=\"n\"", "%s", wm_history_query_mean_text (l, text));
        wm_page_put (out, "td class=\"n\"", "%.1f %%", 100 * mean_s / all_s);
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

/* A row, unless it never happened.  */
static bool put_fault (const wm_report_t *self, size_t k, double n, FILE *out)
{
    const wm_history_query_t *h = &self->history;
    char first[32] = "-", last[32] = "-";
    if (n <= 0)
        return false;
    for (size_t i = 0; i < h->n_row; i++)
        if (wm_history_query_fault_of (&h->row[i], k) > 0) {
            begin_of (&h->row[i], last);
            if (*first == '-')
                memcpy (first, last, sizeof first);
        }
    wm_page_row (out, "%s", wm_history_query_fault[k].what);
    wm_page_count_cell (out, (uint64_t) n);
    wm_page_put (out, "td class=\"w\"", "%s", first);
    wm_page_put (out, "td class=\"w\"", "%s", last);
    fputs ("</tr>\n", out);
    return true;
}

static void put_faults (const wm_report_t *self, FILE *out)
{
    const wm_history_query_t *h = &self->history;
    double n[WM_HISTORY_QUERY_FAULTS], most = 0;
    size_t n_kind = 0;
    wm_history_query_row_t sum;
    wm_history_query_sum (h, 0, &sum);
    for (size_t k = 0; k < WM_HISTORY_QUERY_FAULTS; k++) {
        n[k] = h->n_row ? wm_history_query_fault_of (&sum, k)
                        : wm_ask_real (self->status, wm_history_query_fault[k].path);
        most = fmax (most, n[k]);
    }
    fputs ("<section><h2>Retries and faults</h2>\n", out);
    if (!h->n_row && !*wm_ask_text (self->status, "endpoint"))
        wm_page_put (out, "p", "%s", no_history (self));
    else if (most <= 0)
        wm_page_put (out, "p", "No faults.");
    else {
        wm_page_table (out, h->n_row ? "Each kind that happened"
                                     : "Since the broker started; their times are not known");
        wm_page_heads (out, "What|#Count|First|Last");
        for (size_t k = 0; k < WM_HISTORY_QUERY_FAULTS; k++)
            n_kind += put_fault (self, k, n[k], out);
        wm_page_table_end (out);
        if (n_kind < WM_HISTORY_QUERY_FAULTS)
            wm_page_put (out, "p", "No other faults.");
    }
    fputs ("</section>\n", out);
}

/* ---- workers --------------------------------------------------------------------------------- */

static int by_label (const void *a_v, const void *b_v)
{
    const wm_history_query_worker_t *a = *(const wm_history_query_worker_t *const *) a_v,
                                    *b = *(const wm_history_query_worker_t *const *) b_v;
    const int order = strverscmp (a->label, b->label);
    return order ? order : (a->from_s > b->from_s) - (a->from_s < b->from_s);
}

/* Those that ended for a reason first, then those that scored most.  */
static int by_interest (const void *a_v, const void *b_v)
{
    const wm_history_query_worker_t *a = *(const wm_history_query_worker_t *const *) a_v,
                                    *b = *(const wm_history_query_worker_t *const *) b_v;
    if (!*a->why != !*b->why)
        return *a->why ? -1 : 1;
    return a->hits < b->hits ? 1 : a->hits > b->hits ? -1 : by_label (a_v, b_v);
}

typedef struct {
    const wm_history_query_worker_t **worker; /* (n) by label */
    size_t n, n_label;
    size_t each; /* labels of a row */
    uint32_t n_row;
    char name[GANTT_ROWS][64];
    const char *row[GANTT_ROWS];
} gantt_t;

/* Whole characters of a name: its end distinguishes it.  */
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
        const wm_history_query_worker_t *w = self->worker[i];
        const double top = self->n_row - row_of[i],
                     busy = w->to_s > w->from_s ? fmin (1, w->busy_s / (w->to_s - w->from_s)) : 1;
        wm_svg_bar (plot, w->from_s, w->to_s, top - 0.85, top - 0.15,
                    wm_history_query_is_gpu (w) ? GOLD : BLUE, 0.25 + 0.75 * busy);
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
        const wm_history_query_worker_t *w = self->worker[i];
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
    over_time_t bins = { 0 };
    uint32_t *row_of = calloc (gantt->n, sizeof *row_of);
    if (!row_of)
        return;
    choose_rows (gantt, row_of);
    choose_bins (self, &bins); /* as the pictures above */
    const bool is_bars = gantt->each == 1 && gantt->n <= GANTT_BARS;
    wm_svg_t plot = { .out = out,
                      .title = "Workers by time",
                      .about = about,
                      .width = WIDTH,
                      .height = 62 + GANTT_ROW_PX * gantt->n_row,
                      .is_time = true,
                      .row = gantt->row,
                      .n_row = gantt->n_row,
                      .x = { bins.from_s, bins.from_s + bins.n * bins.width_s, false,
                             "time (UTC)" },
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
    fputs ("<figure class=\"wide\" tabindex=\"0\">", out);
    wm_svg_begin (&plot);
    (is_bars ? draw_bars : draw_shades) (gantt, row_of, &plot);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "Workers by time: %s.", about);
    fputs ("</figure>\n", out);
    free (row_of);
}

static void list_workers (const gantt_t *gantt, const json_t *status, FILE *out)
{
    char from[32], busy[32], rows[1][48];
    const size_t n = gantt->n < WORKERS_LISTED ? gantt->n : WORKERS_LISTED;
    char caption[160];
    snprintf (caption, sizeof caption,
              "%zu of %zu: those that ended for a reason first, then those that scored most", n,
              gantt->n);
    wm_page_table (out, gantt->n > n ? caption : "Each connection of a worker");
    rows_of (status, *rows);
    wm_page_heads_of (out, "Worker|Engine|Device|Connected from|#For|#Busy|#Batches", rows, 1,
                      "End");
    for (size_t i = 0; i < n; i++) {
        const wm_history_query_worker_t *w = gantt->worker[i];
        const double for_s = w->to_s - w->from_s;
        wm_page_row (out, "%.100s", w->label);
        wm_page_put (out, "td", "%.100s", w->signature);
        wm_page_put (out, "td", "%.60s", w->device);
        wm_page_put (out, "td class=\"w\"", "%s", wm_report_date (w->from_s, from));
        wm_page_put (out, "td class=\"n\"", "%s",
                     for_s > 0 ? wm_show_time (for_s, busy) : "below 1 s");
        wm_page_put (out, "td class=\"n\"", for_s > 0 ? "%.0f %%" : "-",
                     for_s > 0 ? fmin (100, 100 * w->busy_s / for_s) : 0.);
        wm_page_count_cell (out, (uint64_t) w->batches);
        wm_page_count_cell (out, (uint64_t) w->hits);
        wm_page_put (out, "td", "%.200s",
                     *w->why        ? w->why
                     : w->connected ? "connected"
                     : w->has_ended ? "left"
                                    : "with its broker");
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
}

/* The workers of a broker that was killed have the counts of its last note of them; rows of the
   oldest connections are not kept.  */
static void put_missing (const wm_report_t *self, FILE *out)
{
    const wm_history_query_t *h = &self->history;
    wm_history_query_row_t sum;
    char n[64], dropped[32];
    wm_page_count ((int64_t) h->n_worker_dropped, dropped);
    wm_history_query_sum (h, 0, &sum);
    double missing = sum.hits + h->hits_before;
    for (size_t i = 0; i < h->n_worker; i++)
        missing -= h->worker[i].hits;
    if (missing >= 1)
        wm_page_put (out, "p", "Scored, and not in this table: %s. %s",
                     wm_show_rows ((int64_t) missing, wm_ask_rows (self->status), n),
                     h->n_worker_dropped > 0
                         ? "They were scored over earlier connections, or in the last second of a "
                           "broker that was killed."
                         : "A broker notes its workers each second; one that is killed leaves out "
                           "the last.");
    if (h->n_worker_dropped > 0)
        wm_page_put (out, "p", "%s earlier connections of workers are not kept.", dropped);
}

static void put_workers (const wm_report_t *self, FILE *out)
{
    const wm_history_query_t *h = &self->history;
    static gantt_t gantt;
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
    put_missing (self, out);
    free (gantt.worker);
    fputs ("</section>\n", out);
}

/* ---- the campaign ---------------------------------------------------------------------------- */

/* What a function prints for a terminal, a paragraph for each line.  */
static void put_lines (FILE *out, void (*print) (FILE *to, const json_t *status, const char *head),
                       const json_t *status, const char *head)
{
    char *text = NULL, *line, *rest;
    size_t bytes = 0;
    FILE *memory = open_memstream (&text, &bytes);
    if (!memory)
        return;
    print (memory, status, head);
    fclose (memory);
    for (line = strtok_r (text, "\n", &rest); line; line = strtok_r (NULL, "\n", &rest))
        wm_page_put (out, "p", "%s", line);
    free (text);
}

/* ---- how it is ------------------------------------------------------------------------------- */

static void write_progress (const json_t *s, FILE *out)
{
    char done[64], all[32], eta[32];
    const double share = wm_account_share (s);
    if (wm_ask_serves_clients (s)) {
        wm_page_print (out,
                       "It serves programs that wait for scores, %s of them now. It has scored %s, "
                       "and keeps nothing of them.",
                       wm_page_count (wm_ask_int (s, "inputs.open"), all),
                       wm_show_rows (wm_ask_int (s, "hits.done"), wm_ask_rows (s), done));
        return;
    }
    if (!wm_ask_int (s, "inputs.total")) {
        wm_page_print (out, "No input has been announced yet.");
        return;
    }
    wm_page_print (out, "%s of %s inputs are written",
                   wm_page_count (wm_ask_int (s, "inputs.written"), done),
                   wm_page_count (wm_ask_int (s, "inputs.total"), all));
    if (share >= 0 && wm_ask_int (s, "inputs.open"))
        wm_page_print (out, ", %.1f %% of the %s that are known are scored", wm_account_percent (s),
                       wm_ask_rows (s));
    if (wm_ask_real (s, "eta_s") > 0)
        wm_page_print (out, "; it takes about %s more",
                       wm_show_time (wm_ask_real (s, "eta_s"), eta));
    fputs (". ", out);
}

/* All that waits, and what to do.  */
static void write_waits (const json_t *s, FILE *out)
{
    char text[WM_WAITS_TEXT_BYTES];
    json_t *list = wm_waits_of (s);
    for (size_t i = 0; i < json_array_size (list); i++)
        wm_page_print (out, "Waits: %s. ", wm_waits_text (json_array_get (list, i), true, text));
    json_decref (list);
}

static void write_verdict (const wm_report_t *self, FILE *out)
{
    const json_t *s = self->status;
    char text[64];
    const char *state = wm_top_state (&(wm_top_campaign_t){ .status = (json_t *) (uintptr_t) s }),
               *paused = wm_ask_text (s, "paused"), *waiting = wm_ask_text (s, "waiting_for");
    const bool is_clean = wm_account_is_clean (s), is_running = *wm_ask_text (s, "endpoint"),
               is_finished = !strcmp (state, "finished"),
               is_bad =
                   wm_ask_int (s, "counters.alarm") > 0 || wm_wait_stops (wm_waits_campaign (s));
    fprintf (out, "<p class=\"verdict %s\"><strong>",
             is_bad                    ? "bad"
             : is_finished && is_clean ? "good"
                                       : "");
    wm_page_print (out, "%c%s.", *state >= 'a' && *state <= 'z' ? *state - 'a' + 'A' : *state,
                   *state ? state + 1 : "");
    fputs ("</strong> ", out);
    write_progress (s, out);
    if (*paused)
        wm_page_print (out, "Paused: %s. ", paused);
    else if (is_running && *waiting && !is_finished)
        wm_page_print (out, "It waits for: %s. ", waiting);
    if (is_running)
        write_waits (s, out);
    if (!is_running && wm_ask_int (s, "inputs.open") && !wm_ask_serves_clients (s))
        wm_page_print (out, "No broker runs; what is done is kept. ");
    if (is_clean && is_finished)
        wm_page_print (out, "Nothing is held.");
    if (wm_ask_int (s, "held_total"))
        wm_page_print (out, "Inputs, events or batches that are held or changed: %s. ",
                       wm_page_count (wm_ask_int (s, "held_total"), text));
    if (wm_ask_int (s, "hits.held"))
        wm_page_print (out, "Held: %s. ",
                       wm_show_rows (wm_ask_int (s, "hits.held"), wm_ask_rows (s), text));
    if (wm_ask_int (s, "counters.alarm"))
        wm_page_print (out, "ALARMS: %s. ", wm_page_count (wm_ask_int (s, "counters.alarm"), text));
    fputs ("</p>\n", out);
    wm_page_put (out, "p", "As of %s%s.", wm_report_date ((double) self->now_s, text),
                 is_running ? ", while a broker serves the campaign" : "");
    if (self->note && *self->note)
        wm_page_put (out, "p", "%s", self->note);
}

/* ---- what was scored ------------------------------------------------------------------------- */

static void write_inputs (const json_t *s, FILE *out)
{
    char n[32], text[400];
    static const struct {
        const char *path, *what;
    } parts[] = { { "inputs.written", "written" },
                  { "inputs.open", "open" },
                  { "inputs.held", "held" },
                  { "inputs.changed", "changed" } };
    int at = snprintf (text, sizeof text, "%s:", wm_page_count (wm_ask_int (s, "inputs.total"), n));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        at += snprintf (text + at, sizeof text - (size_t) at, "%s %s %s", i ? "," : "",
                        wm_page_count (wm_ask_int (s, parts[i].path), n), parts[i].what);
    wm_report_row (out, "Inputs", text);
    wm_report_row (out, "Events", wm_page_count (wm_ask_int (s, "events.done"), n));
}

static void write_hits (const json_t *s, FILE *out)
{
    char *text = NULL, heading[32];
    size_t bytes = 0;
    FILE *memory = open_memstream (&text, &bytes);
    if (!memory)
        return;
    rows_of (s, heading);
    wm_account_hits (memory, s);
    fclose (memory);
    wm_report_row (out, heading, text);
    free (text);
}

static void write_engines (const json_t *s, FILE *out)
{
    const char *signature;
    json_t *count;
    char rows[1][48];
    if (!json_object_size (json_object_get (s, "rows")))
        return;
    wm_page_table (out, "Engines: instruction set, precision and version that made the scores");
    rows_of (s, *rows);
    wm_page_heads_of (out, "Engine", rows, 1, "");
    json_object_foreach (json_object_get (s, "rows"), signature, count)
    {
        wm_page_row (out, "%s", signature);
        wm_page_count_cell (out, (uint64_t) json_integer_value (count));
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
}

/* Every key of the patch specification.  */
static void write_specification (const json_t *s, FILE *out)
{
    char *text = strdup (wm_ask_text (s, "campaign.specification")), *line, *rest = NULL;
    if (!text || !*text) {
        free (text);
        return;
    }
    fputs ("<h3>Patch specification</h3>\n<pre class=\"columns\">", out);
    for (line = strtok_r (text, "\n", &rest); line; line = strtok_r (NULL, "\n", &rest)) {
        fputs ("<span>", out);
        wm_page_print (out, "%s", line);
        fputs ("\n</span>", out);
    }
    fputs ("</pre>\n", out);
    free (text);
}

static void write_scored (const wm_report_t *self, FILE *out)
{
    const json_t *s = self->status;
    char promise[80], most[16] = "", version[64];
    const double error = wm_ask_real (s, "campaign.max_error");
    if (error > 0)
        snprintf (most, sizeof most, "%.0e", error);
    wm_arithmetic_promise (wm_ask_text (s, "campaign.precision"), most, promise);
    snprintf (version, sizeof version, "wiremill %.40s", wm_ask_text (s, "version"));
    fputs ("<section><h2>What was scored</h2>\n", out);
    wm_page_table (out, "In short");
    if (!wm_ask_serves_clients (s))
        write_inputs (s, out);
    write_hits (s, out);
    wm_report_row (out, "Model (SHA-256)", wm_ask_text (s, "campaign.model"));
    wm_report_row (out, "Precision", promise);
    wm_report_row (out, "Code", version);
    wm_page_table_end (out);
    write_engines (s, out);
    write_specification (s, out);
    put_lines (out, wm_account_checks, s, "Checked: ");
    fputs ("</section>\n", out);
}

/* ---- what is held ---------------------------------------------------------------------------- */

static void put_event (FILE *out, const json_t *held)
{
    char event[80] = "-", batch[32] = "-";
    if (json_is_integer (json_object_get (held, "event")))
        snprintf (event, sizeof event, "%lld:%lld:%lld", (long long) wm_ask_int (held, "run"),
                  (long long) wm_ask_int (held, "subrun"), (long long) wm_ask_int (held, "event"));
    if (json_is_integer (json_object_get (held, "batch")))
        snprintf (batch, sizeof batch, "%lld", (long long) wm_ask_int (held, "batch"));
    wm_page_put (out, "td class=\"w\"", "%s", event);
    wm_page_put (out, "td class=\"n\"", "%s", batch);
}

static size_t list_held (const json_t *s, FILE *out)
{
    const json_t *list = json_object_get (s, "held"), *one;
    char rows[1][48];
    size_t i, shown = 0;
    if (!json_array_size (list))
        return 0;
    wm_page_table (out, "Inputs, events and batches");
    rows_of (s, *rows);
    wm_page_heads_of (out, "Input|Event|#Batch|State", rows, 1, "Reason");
    json_array_foreach (list, i, one)
    {
        if (shown == HELD_LISTED)
            break;
        shown++;
        wm_page_row (out, "%s", wm_ask_text (one, "path"));
        put_event (out, one);
        wm_page_put (out, "td", "%s", wm_ask_text (one, "state"));
        wm_page_count_cell (out, (uint64_t) wm_ask_int (one, "hits"));
        wm_page_put (out, "td", "%s", wm_ask_held_reason (one));
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
    return shown;
}

/* Hits of written outputs by reason, of the files whose reasons were read.  */
static void list_reasons (const json_t *files, const char (*rows)[48], FILE *out)
{
    json_t *sum = json_object (), *count;
    const json_t *file;
    const char *reason;
    char n[32];
    size_t i;
    json_array_foreach (files, i, file)
    {
        json_object_foreach (json_object_get (file, "reasons"), reason, count)
        {
            const json_int_t before = json_integer_value (json_object_get (sum, reason));
            if (json_object_size (sum) < REASONS_MAX || before)
                json_object_set_new (sum, reason,
                                     json_integer (before + json_integer_value (count)));
        }
    }
    if (json_object_size (sum)) {
        wm_page_table (out, "Held by reason, of the files below");
        wm_page_heads_of (out, "Reason", rows, 1, "");
        json_object_foreach (sum, reason, count)
        {
            wm_page_row (out, "%s", reason);
            wm_page_put (out, "td class=\"n\"", "%s",
                         wm_page_count (json_integer_value (count), n));
            fputs ("</tr>\n", out);
        }
        wm_page_table_end (out);
    }
    json_decref (sum);
}

static void list_files (const json_t *s, FILE *out)
{
    const json_t *files = json_object_get (s, "held_files"), *file;
    json_t *count;
    const char *reason;
    char n[32], of[1][48], caption[120];
    size_t i;
    if (!json_array_size (files))
        return;
    rows_of (s, *of);
    list_reasons (files, of, out);
    snprintf (caption, sizeof caption,
              "Files with held %s; the table \"held\" of each output names them", wm_ask_rows (s));
    wm_page_table (out, caption);
    wm_page_heads (out, "Input|#Held|#Of|Reasons");
    json_array_foreach (files, i, file)
    {
        const char *comma = "";
        wm_page_row (out, "%s", wm_ask_text (file, "path"));
        wm_page_count_cell (out, (uint64_t) wm_ask_int (file, "held"));
        wm_page_count_cell (out, (uint64_t) wm_ask_int (file, "hits"));
        fputs ("<td>", out);
        json_object_foreach (json_object_get (file, "reasons"), reason, count)
        {
            wm_page_print (out, "%s%s %s", comma, wm_page_count (json_integer_value (count), n),
                           reason);
            comma = ", ";
        }
        fputs (*comma ? "</td></tr>\n" : "not read</td></tr>\n", out);
    }
    wm_page_table_end (out);
}

static void write_held (const wm_report_t *self, FILE *out)
{
    const json_t *s = self->status;
    char n[32];
    fputs ("<section><h2>Held</h2>\n", out);
    if (wm_account_is_clean (s))
        wm_page_put (out, "p", "Nothing is held.");
    else {
        const int64_t shown = (int64_t) list_held (s, out),
                      more = wm_ask_int (s, "held_total") - shown,
                      files = wm_ask_int (s, "held_files_left_out");
        list_files (s, out);
        if (more > 0)
            wm_page_put (out, "p", "Not shown: %s more inputs, events or batches.",
                         wm_page_count (more, n));
        if (files > 0)
            wm_page_put (out, "p", "Not shown: %s more files with held %s.",
                         wm_page_count (files, n), wm_ask_rows (s));
        wm_page_put (out, "p",
                     "wiremill held %s lists them; what is repaired is scored again by "
                     "wiremill run --retry-held, or wiremill kick.",
                     self->where ? self->where : "");
    }
    fputs ("</section>\n", out);
}

/* ---- what it cost ---------------------------------------------------------------------------- */

typedef struct {
    double cpu_s, gpu_s, gpu_busy_s;
    size_t n_gpu;     /* workers with one */
    size_t n_unknown; /* workers whose CPU time is not known */
} cost_t;

static cost_t cost_of (const wm_history_query_t *h)
{
    cost_t cost = { 0 };
    for (size_t i = 0; i < h->n_worker; i++) {
        const wm_history_query_worker_t *w = &h->worker[i];
        const bool is_gpu = wm_history_query_is_gpu (w);
        cost.cpu_s += w->cpu_s > 0 ? w->cpu_s : 0;
        cost.n_unknown += w->cpu_s < 0;
        cost.n_gpu += is_gpu;
        cost.gpu_s += is_gpu ? w->to_s - w->from_s : 0;
        cost.gpu_busy_s += is_gpu ? w->busy_s : 0;
    }
    return cost;
}

static const char *hours (double seconds, char text[32])
{
    if (seconds < 360)
        snprintf (text, 32, "%.3g s", seconds);
    else
        snprintf (text, 32, "%.*f h", seconds < 360000 ? 3 : 0, seconds / 3600);
    return text;
}

static void put_hours (FILE *out, const char *what, double seconds, double hits)
{
    char text[32];
    wm_page_row (out, "%s", what);
    wm_page_put (out, "td class=\"n\"", "%s", hours (seconds, text));
    wm_page_put (out, "td class=\"n\"", "%s", hits > 0 ? hours (1e6 * seconds / hits, text) : "-");
    fputs ("</tr>\n", out);
}

static void put_bytes (FILE *out, const char *what, double bytes, double hits)
{
    char text[32];
    wm_page_row (out, "%s", what);
    wm_page_put (out, "td class=\"n\"", "%s", wm_show_bytes (bytes, text));
    wm_page_put (out, "td class=\"n\"", "%s",
                 hits > 0 ? wm_show_bytes (1e6 * bytes / hits, text) : "-");
    fputs ("</tr>\n", out);
}

static void write_cost (const wm_report_t *self, FILE *out)
{
    const json_t *s = self->status;
    const wm_history_query_t *h = &self->history;
    const cost_t cost = cost_of (h);
    char rate[1][48];
    wm_history_query_row_t sum;
    wm_history_query_sum (h, 0, &sum);
    const bool is_known = h->n_row > 0;
    const double hits = is_known ? sum.hits : wm_ask_real (s, "hits.done");
    fputs ("<section><h2>Cost</h2>\n", out);
    const bool is_running = *wm_ask_text (s, "endpoint");
    wm_page_table (out, is_known     ? "Since the history began"
                        : is_running ? "Bytes since the broker started; times are not known"
                                     : "Times and bytes sent are not known");
    snprintf (*rate, sizeof *rate, "For a million %.30s", wm_ask_rows (s));
    wm_page_heads_of (out, "What|#In all", rate, 1, "");
    if (is_known) {
        put_hours (out, "CPU time of workers and their engines", cost.cpu_s, hits);
        put_hours (out, "CPU time of the broker", sum.broker_cpu_s, hits);
        put_hours (out, "Workers connected", sum.worker_s, hits);
        if (cost.n_gpu) {
            put_hours (out, "GPUs of workers connected", cost.gpu_s, hits);
            put_hours (out, "GPUs of workers with a batch", cost.gpu_busy_s, hits);
        }
    }
    if (is_known || is_running) {
        put_bytes (out, "From producers",
                   is_known ? sum.payload_in : wm_ask_real (s, "bytes.payload_in"), hits);
        put_bytes (out, "To workers", is_known ? sum.task_out : wm_ask_real (s, "bytes.task_out"),
                   hits);
        put_bytes (out, "From workers",
                   is_known ? sum.result_in : wm_ask_real (s, "bytes.result_in"), hits);
    }
    put_bytes (out, "Journal now", wm_ask_real (s, "bytes.journal"), 0);
    put_bytes (out, "Ledger now", wm_ask_real (s, "bytes.ledger"), 0);
    wm_page_table_end (out);
    if (cost.n_unknown)
        wm_page_put (out, "p", "%zu of %zu workers did not report their CPU time.", cost.n_unknown,
                     h->n_worker);
    wm_page_put (out, "p", "The CPU time of producers is not counted.");
    fputs ("</section>\n", out);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void write_scores (const wm_report_t *self, FILE *out)
{
    char n[32], all[32];
    if (wm_ask_serves_clients (self->status))
        return;
    fputs ("<h2>Scores</h2>\n", out);
    if (self->scores_bytes) {
        wm_page_put (out, "p",
                     "Scores and pictures are of %s of %s outputs, evenly spaced over the inputs.",
                     wm_page_count ((int64_t) self->n_read, n),
                     wm_page_count ((int64_t) self->n_output, all));
        fwrite (self->scores, 1, self->scores_bytes, out);
    } else
        wm_page_put (out, "p", "%s", self->no_scores);
}

void wm_report_write (const wm_report_t *self, FILE *out)
{
    char name[64], title[80];
    wm_account_name (self->status, name);
    snprintf (title, sizeof title, "Campaign %s", name);
    wm_page_begin (out, title);
    write_verdict (self, out);
    write_scored (self, out);
    put_throughput (self, out);
    put_workers (self, out);
    put_latency (self, out);
    put_faults (self, out);
    wm_report_files_write (self->files, wm_ask_rows (self->status), out);
    write_held (self, out);
    write_scores (self, out);
    write_cost (self, out);
    wm_report_origin (self, out);
    fputs ("<footer><p>Written by wiremill report " WM_VERSION
           "; all times are UTC.</p></footer>\n",
           out);
    wm_page_end (out);
}
