/* wm_report_workers.c - workers in `wiremill report`: when they were connected, what they did.  */
#include "ops/view/wm_report_private.h"

#include "ops/ask/wm_show.h"
#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GANTT_ROWS 40   /* more workers share rows */
#define GANTT_BARS 400  /* more are drawn as shades */
#define GANTT_CELLS 240 /* of those, over time */
#define GANTT_ROW_PX 16
#define WORKERS_LISTED 20

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
        const wm_history_query_worker_t *w = self->worker[i];
        const double top = self->n_row - row_of[i],
                     busy = w->to_s > w->from_s ? fmin (1, w->busy_s / (w->to_s - w->from_s)) : 1;
        wm_svg_bar (plot, w->from_s, w->to_s, top - 0.85, top - 0.15,
                    wm_history_query_is_gpu (w) ? WM_REPORT_GOLD : WM_REPORT_BLUE,
                    0.25 + 0.75 * busy);
        if (*w->why)
            wm_svg_bar (plot, w->to_s - mark_s, w->to_s + mark_s, top - 0.95, top - 0.05,
                        WM_REPORT_RED, 1);
    }
    wm_svg_legend (plot,
                   (const wm_svg_entry_t[]){
                       { .text = "on a CPU", .colour = WM_REPORT_BLUE, .is_filled = true },
                       { .text = "on a GPU", .colour = WM_REPORT_GOLD, .is_filled = true },
                       { .text = "dismissed, or ended for a reason", .colour = WM_REPORT_RED } },
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
    double from_s, to_s;
    uint32_t *row_of = calloc (gantt->n, sizeof *row_of);
    if (!row_of)
        return;
    choose_rows (gantt, row_of);
    wm_report_cover (self, self->history.n_row > 1, &from_s, &to_s); /* as the pictures above */
    const bool is_bars = gantt->each == 1 && gantt->n <= GANTT_BARS;
    wm_svg_t plot = { .out = out,
                      .title = "Workers by time",
                      .about = about,
                      .width = WM_REPORT_WIDTH,
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
        const wm_history_query_worker_t *w = gantt->worker[i];
        const double for_s = w->to_s - w->from_s;
        fputs ("<tr>", out);
        wm_page_put (out, "th scope=\"row\"", "%.100s", w->label);
        wm_page_put (out, "td", "%.100s", w->signature);
        wm_page_put (out, "td", "%.60s", w->device);
        wm_page_put (out, "td class=\"w\"", "%s", wm_report_date (w->from_s, from));
        wm_page_put (out, "td class=\"n\"", "%s", wm_show_time (for_s, busy));
        wm_page_put (out, "td class=\"n\"", for_s > 0 ? "%.0f %%" : "-",
                     for_s > 0 ? fmin (100, 100 * w->busy_s / for_s) : 0.);
        wm_report_count (out, w->batches);
        wm_report_count (out, w->hits);
        wm_page_put (out, "td", "%.200s", *w->why ? w->why : w->connected ? "connected" : "ended");
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
}

void wm_report_workers (const wm_report_t *self, FILE *out)
{
    const wm_history_query_t *h = &self->history;
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
                              : wm_report_no_history (self));
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
