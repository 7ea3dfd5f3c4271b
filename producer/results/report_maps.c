/* report_maps.c - see report_maps.h.  */
#include "producer/results/report_maps.h"

#include "producer/pictures/wm_png.h"
#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define CELLS (WM_REPORT_CELLS * WM_REPORT_CELLS)
#define SHADES 255    /* of a palette whose first colour is white */
#define ROUNDING 1e-3 /* scores from 0 to 1 may be off by so much */
#define BAR_PX 150    /* long */
#define BAR_PARTS 30  /* of one colour each */
#define DIGIT_PX 7.0

/* From dark violet by green to yellow: as light as large, for eyes of all kinds.  */
static void colour_of (double share, uint8_t rgb[3])
{
    static const double at[5][3] = {
        { 68, 1, 84 }, { 59, 82, 139 }, { 33, 145, 140 }, { 94, 201, 98 }, { 253, 231, 37 }
    };
    const double place = 4 * fmax (0, fmin (1, share));
    const int k = place < 3 ? (int) place : 3;
    for (int c = 0; c < 3; c++)
        rgb[c] = (uint8_t) lround (at[k][c] + (place - k) * (at[k + 1][c] - at[k][c]));
}

static uint32_t cell_of (double value, double from, double to)
{
    return (uint32_t) fmax (
        0, fmin (WM_REPORT_CELLS - 1, floor ((value - from) / (to - from) * WM_REPORT_CELLS)));
}

void wm_report_map_add (wm_report_map_t *self, double wire, double tick, double score)
{
    const wm_report_extent_t *e = &self->extent;
    const size_t at = (size_t) cell_of (tick, e->tick_from, e->tick_to) * WM_REPORT_CELLS +
                      cell_of (wire, e->wire_from, e->wire_to);
    self->count[at]++;
    self->sum[at] += score;
}

typedef struct {
    double least, most, from, to; /* means; the ends of the scale */
    uint64_t n;
    uint32_t n_cell;
} scale_t;

static scale_t scale_of (const wm_report_map_t *self)
{
    scale_t s = { .least = INFINITY, .most = -INFINITY };
    for (size_t i = 0; i < CELLS; i++)
        if (self->count[i]) {
            const double mean = self->sum[i] / (double) self->count[i];
            s.least = fmin (s.least, mean);
            s.most = fmax (s.most, mean);
            s.n += self->count[i];
            s.n_cell++;
        }
    const bool is_share = s.least >= -ROUNDING && s.most <= 1 + ROUNDING;
    s.from = is_share ? 0 : s.least;
    s.to = is_share ? 1 : s.most > s.least ? s.most : s.least + 1;
    return s;
}

static void draw_cells (const wm_report_map_t *self, const scale_t *s, wm_svg_t *plot)
{
    static uint8_t pixel[CELLS], palette[256 * 3] = { 255, 255, 255 };
    wm_error_t error;
    uint8_t *png = NULL;
    size_t size = 0;
    for (int k = 0; k < SHADES; k++)
        colour_of (k / (SHADES - 1.), palette + 3 * (k + 1));
    for (uint32_t y = 0; y < WM_REPORT_CELLS; y++)
        for (uint32_t x = 0; x < WM_REPORT_CELLS; x++) {
            const size_t at = (size_t) y * WM_REPORT_CELLS + x; /* ticks go up */
            const double mean = self->sum[at] / (double) (self->count[at] ? self->count[at] : 1);
            const double shade = (SHADES - 1) * (mean - s->from) / (s->to - s->from);
            pixel[(size_t) (WM_REPORT_CELLS - 1 - y) * WM_REPORT_CELLS + x] =
                self->count[at] ? (uint8_t) (1 + lround (fmax (0, fmin (SHADES - 1, shade)))) : 0;
        }
    if (!wm_png_encode (pixel, WM_REPORT_CELLS, WM_REPORT_CELLS, palette, &png, &size, &error))
        wm_svg_image (plot, png, size);
    free (png);
}

static void draw_bar (const scale_t *s, const wm_svg_t *plot)
{
    char from[24], to[24];
    const int n = snprintf (from, sizeof from, "%.3g", s->from);
    const double left = plot->left + DIGIT_PX * n + 4, part = (double) BAR_PX / BAR_PARTS;
    snprintf (to, sizeof to, "%.3g", s->to);
    for (int k = 0; k < BAR_PARTS; k++) {
        uint8_t rgb[3];
        colour_of (k / (BAR_PARTS - 1.), rgb);
        fprintf (plot->out,
                 "<rect x=\"%.1f\" y=\"7\" width=\"%.1f\" height=\"9\" "
                 "fill=\"#%02x%02x%02x\"/>",
                 left + k * part, part + 0.5, rgb[0], rgb[1], rgb[2]);
    }
    fprintf (plot->out,
             "<text x=\"%.1f\" y=\"16\">%s</text><text x=\"%.1f\" y=\"16\">%s; white: no "
             "hit</text>\n",
             plot->left, from, left + BAR_PX + 4, to);
}

void wm_report_map_draw (const wm_report_map_t *self, FILE *out)
{
    char title[160], about[160], n[32];
    const scale_t s = scale_of (self);
    const wm_report_extent_t *e = &self->extent;
    wm_svg_t plot = { .out = out,
                      .title = title,
                      .about = about,
                      .x = { e->wire_from, e->wire_to, false, "wire" },
                      .y = { e->tick_from, e->tick_to, false, "tick" } };
    if (!s.n)
        return;
    snprintf (title, sizeof title, "Mean score of %s by wire and tick, %s", self->label,
              self->plane);
    snprintf (about, sizeof about, "%s hits in %u of %u cells; means from %.4f to %.4f",
              wm_page_count ((int64_t) s.n, n), s.n_cell, CELLS, s.least, s.most);
    fputs ("<figure>", out);
    wm_svg_begin (&plot);
    draw_cells (self, &s, &plot);
    draw_bar (&s, &plot);
    wm_svg_end (&plot);
    wm_page_put (out, "figcaption", "%s: %s.", title, about);
    fputs ("</figure>\n", out);
}
