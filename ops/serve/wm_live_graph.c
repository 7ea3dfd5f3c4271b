/* wm_live_graph.c - a graph of rates with its marks, and the same numbers and marks as tables for
   screen readers.  */
#include "ops/ask/wm_show.h"
#include "ops/serve/wm_live_private.h"
#include "ops/view/wm_marks.h"
#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"

#include <time.h>

#define ROWS 12 /* of the table */
#define BLUE "#0b5fb4"

static const char *clock_of (double time_s, const char *format, char text[32])
{
    struct tm local;
    const time_t whole = (time_t) time_s;
    if (!localtime_r (&whole, &local) || !strftime (text, 32, format, &local))
        *text = 0;
    return text;
}

static const char *date_of (double time_s, char text[32])
{
    return clock_of (time_s, "%b %d %H:%M:%S", text);
}

/* Most and mean of parts from `first` to before `end`; returns how many are known.  */
static int measure (const wm_live_graph_t *self, int first, int end, double *most, double *mean)
{
    int known = 0;
    double sum = 0;
    *most = 0;
    for (int i = first; i < end; i++) {
        const double rate = (double) self->rate[i];
        *most = rate > *most ? rate : *most;
        sum += rate > 0 ? rate : 0;
        known += rate >= 0;
    }
    *mean = known ? sum / known : 0;
    return known;
}

static void put_table (FILE *out, const wm_live_graph_t *self)
{
    const double width_s = (self->to_s - self->from_s) / ROWS;
    const char *format = self->to_s - self->from_s > 86400 ? "%b %d %H:%M" : "%H:%M:%S";
    char a[32], b[32], from[32];
    fputs ("<details><summary>as a table</summary>\n<table class=\"short\">", out);
    wm_page_put (out, "caption", "%s, in %s", self->title, self->per_s);
    fputs ("<thead><tr><th scope=\"col\">From</th><th scope=\"col\" class=\"n\">On average</th>"
           "<th scope=\"col\" class=\"n\">Most</th></tr></thead>\n<tbody>\n",
           out);
    for (int i = 0; i < ROWS; i++) {
        double most, mean;
        const bool is_known =
            measure (self, i * self->n / ROWS, (i + 1) * self->n / ROWS, &most, &mean);
        fprintf (
            out,
            "<tr><th scope=\"row\">%s</th><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
            clock_of (self->from_s + i * width_s, format, from),
            is_known ? wm_show_short (mean, a) : "not measured",
            is_known ? wm_show_short (most, b) : "&#8211;");
    }
    fputs ("</tbody>\n</table>\n", out);
    wm_marks_table (out, self->past, self->from_s, self->to_s, date_of);
    fputs ("</details>\n", out);
}

/* Steps, the latest last; parts that are not known (below 0) stay empty.  */
void wm_live_graph (FILE *out, const wm_live_graph_t *self)
{
    double most, mean;
    char a[32], b[32];
    struct tm local = { 0 };
    const time_t to = (time_t) self->to_s;
    const int known = measure (self, 0, self->n, &most, &mean);
    const double part_s = (self->to_s - self->from_s) / self->n,
                 clock_s = localtime_r (&to, &local) ? (double) local.tm_gmtoff : 0;
    wm_svg_t plot = { .out = out,
                      .title = self->title,
                      .about = "below it as a table",
                      .width = 440,
                      .height = 170,
                      .x = { .from = self->from_s + clock_s,
                             .to = self->to_s + clock_s,
                             .name = "local time of this server" },
                      .y = { .name = self->per_s },
                      .is_time = true }; /* in UTC, so that it is given local times */
    wm_svg_fit (&plot.y, 0, most > 0 ? most : 1);
    fprintf (out, "<figure id=\"%s\">\n", self->id);
    wm_svg_begin (&plot);
    for (int i = 0; i < self->n; i++)
        if (self->rate[i] > 0)
            wm_svg_bar (&plot, plot.x.from + i * part_s, plot.x.from + (i + 1) * part_s, 0,
                        (double) self->rate[i], BLUE, 1);
    wm_marks_draw (out, self->past,
                   &(wm_marks_frame_t){ self->from_s, self->to_s, plot.left, plot.right, plot.top,
                                        plot.bottom });
    wm_svg_end (&plot);
    fputs ("<figcaption>", out);
    wm_page_print (out, "%s, in %s: ", self->title, self->per_s);
    if (known)
        fprintf (out, "most %s, on average %s%s", wm_show_short (most, a), wm_show_short (mean, b),
                 known < self->n ? "; where it is flat nothing was scored, or measured" : "");
    else
        fputs ("nothing is measured yet", out);
    fputs ("</figcaption>\n", out);
    put_table (out, self);
    fputs ("</figure>\n", out);
}
