/* wm_plane_view.c - see wm_plane_view.h.  */
#include "producer/pictures/wm_plane_view.h"

#include "producer/pictures/wm_png.h"
#include "schema/base/wm_grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIXELS_X 1600u /* of the background, at most */
#define PIXELS_Y 1000u
#define HITS 128u /* the first colour of painted hits */
#define LEVELS 48 /* of grey: few, so that they compress well */
#define BAR_STEPS 24
#define BAR_STEP_PX 3
#define BAR_TEXT_PX 62
#define SCALE_STEP_PX 6        /* of a score's, in the legend */
#define SCALE_CHARACTER_PX 6.5 /* about */
#define SCALE_COLOUR "#222222"
#define MOST_SHARE 0.99 /* of the pixels with charge are not darker than the darkest */

void wm_view_clear (wm_plane_view_t *self)
{
    for (uint32_t k = 0; k < self->n_class; k++) {
        free (self->class[k].x);
        free (self->class[k].y);
    }
    free (self->pixel);
    memset (self, 0, sizeof *self);
}

wm_fault_t wm_view_add (wm_plane_view_t *self, uint32_t k, double wire, double tick,
                        wm_error_t *error)
{
    wm_view_class_t *class = &self->class[k];
    if (!wm_grow (&class->x, &class->x_max, class->n + 1ul, sizeof (float)) ||
        !wm_grow (&class->y, &class->y_max, class->n + 1ul, sizeof (float)))
        return wm_fault (error, WM_EHOST, "out of memory for %u hits of a picture", class->n + 1);
    class->x[class->n] = (float) wire;
    class->y[class->n++] = (float) tick;
    return WM_OK;
}

/* ---- the background -------------------------------------------------------------------------- */

/* The value that most of those above 0 do not pass, to 1 in 128: floats that are not negative are
   in the order of their bits, so that the upper 16 are counted.  */
static double saturation (const float *value, size_t n, uint32_t *count)
{
    uint64_t n_some = 0, n_below = 0;
    uint32_t bits, k = 0;
    memset (count, 0, 65536 * sizeof *count);
    for (size_t i = 0; i < n; i++)
        if (value[i] > 0) {
            memcpy (&bits, &value[i], sizeof bits);
            count[bits >> 16]++;
            n_some++;
        }
    if (!n_some)
        return 1;
    while ((double) (n_below += count[k]) < MOST_SHARE * (double) n_some)
        k++;
    float most;
    bits = k << 16 | 0xffff;
    memcpy (&most, &bits, sizeof most);
    return (double) most;
}

/* Puts the largest |ADC| of a region of interest into the pixels below it.  */
static void roi_paint (const wm_plane_view_t *self, const wm_event_t *event, const wm_roi_t *roi,
                       float *value)
{
    const double scale_x = self->n_x / (self->x.to - self->x.from),
                 scale_y = self->n_y / (self->y.to - self->y.from);
    const double wire = (double) roi->wire - self->x.from;
    if (wire < 0 || roi->wire >= self->x.to)
        return;
    /* A wire is as wide as a pixel, or several of them.  */
    const uint32_t x0 = (uint32_t) (wire * scale_x),
                   x1 = (uint32_t) fmin (self->n_x, fmax (x0 + 1, floor ((wire + 1) * scale_x)));
    for (uint32_t i = 0; i < roi->count; i++) {
        const double tick = (double) roi->tick + i - self->y.from;
        const float charge = fabsf (event->sample[roi->value + i]);
        if (tick < 0 || tick >= self->y.to - self->y.from || !isfinite (charge))
            continue;
        const uint32_t y0 = (uint32_t) (tick * scale_y),
                       y1 =
                           (uint32_t) fmin (self->n_y, fmax (y0 + 1, floor ((tick + 1) * scale_y)));
        for (uint32_t y = y0; y < y1; y++)
            for (uint32_t x = x0; x < x1; x++) {
                float *to = &value[(size_t) (self->n_y - 1 - y) * self->n_x + x];
                *to = charge > *to ? charge : *to;
            }
    }
}

wm_fault_t wm_view_charge (wm_plane_view_t *self, const wm_event_t *event, uint32_t plane,
                           wm_error_t *error)
{
    const wm_event_plane_t *p = &event->plane[plane];
    const double wires = self->x.to - self->x.from, ticks = self->y.to - self->y.from;
    self->n_x = (uint32_t) fmax (1, fmin (PIXELS_X, ceil (wires)));
    self->n_y = (uint32_t) fmax (1, fmin (PIXELS_Y, ceil (ticks)));
    const size_t n = (size_t) self->n_x * self->n_y;
    float *value = calloc (n, sizeof *value);
    uint32_t *space = malloc (65536 * sizeof *space);
    self->pixel = malloc (n);
    if (!value || !space || !self->pixel) {
        free (value);
        free (space);
        return wm_fault (error, WM_EHOST, "out of memory for a picture of %zu pixels", n);
    }
    for (uint32_t i = 0; i < p->roi_count; i++)
        roi_paint (self, event, &event->roi[p->roi_first + i], value);
    self->most = saturation (value, n, space);
    for (size_t i = 0; i < n; i++) { /* the root shows faint charge, too */
        const double level = sqrt (fmin (1, (double) value[i] / self->most));
        self->pixel[i] = (uint8_t) (ceil (level * LEVELS) / LEVELS * 255);
    }
    free (value);
    free (space);
    return WM_OK;
}

wm_fault_t wm_view_copy (wm_plane_view_t *self, const wm_plane_view_t *from, wm_error_t *error)
{
    const size_t n = (size_t) from->n_x * from->n_y;
    self->pixel = malloc (n);
    if (!self->pixel)
        return wm_fault (error, WM_EHOST, "out of memory for a picture of %zu pixels", n);
    memcpy (self->pixel, from->pixel, n);
    self->n_x = from->n_x;
    self->n_y = from->n_y;
    self->most = from->most;
    return WM_OK;
}

wm_fault_t wm_view_patch (wm_plane_view_t *self, const float *patch, uint32_t n_wire,
                          uint32_t n_bin, wm_error_t *error)
{
    self->pixel = malloc ((size_t) n_wire * n_bin);
    if (!self->pixel)
        return wm_fault (error, WM_EHOST, "out of memory for a patch");
    self->n_x = n_wire;
    self->n_y = n_bin;
    self->is_signed = true;
    self->most = 0;
    for (size_t i = 0; i < (size_t) n_wire * n_bin; i++)
        if (isfinite (patch[i]))
            self->most = fmax (self->most, fabs ((double) patch[i]));
    for (uint32_t w = 0; w < n_wire; w++)
        for (uint32_t b = 0; b < n_bin; b++) {
            const double v = (double) patch[(size_t) w * n_bin + b];
            self->pixel[(size_t) (n_bin - 1 - b) * n_wire + w] =
                (uint8_t) (128 + (self->most > 0 && isfinite (v) ? 127 * v / self->most : 0));
        }
    return WM_OK;
}

static double radius_of (const wm_plane_view_t *self)
{
    return fmax (1.2, fmin (2.6, 0.3 * self->width / (self->x.to - self->x.from)));
}

void wm_view_paint (wm_plane_view_t *self)
{
    const double scale_x = self->n_x / (self->x.to - self->x.from),
                 scale_y = self->n_y / (self->y.to - self->y.from);
    const int half_x = (int) (radius_of (self) * self->n_x / self->width),
              half_y = (int) (radius_of (self) * self->n_y / self->height);
    for (size_t i = 0; i < (size_t) self->n_x * self->n_y; i++)
        self->pixel[i] /= 2;
    for (uint32_t k = 0; k < self->n_class; k++)
        for (uint32_t i = 0; i < self->class[k].n; i++) {
            const int at_x = (int) (((double) self->class[k].x[i] - self->x.from) * scale_x),
                      at_y = (int) ((self->y.to - (double) self->class[k].y[i]) * scale_y);
            for (int y = at_y - half_y; y <= at_y + half_y; y++)
                for (int x = at_x - half_x; x <= at_x + half_x; x++)
                    if (x >= 0 && y >= 0 && x < (int) self->n_x && y < (int) self->n_y)
                        self->pixel[(size_t) y * self->n_x + (size_t) x] = (uint8_t) (HITS + k);
        }
    self->is_painted = true;
}

/* From white: to dark grey; of a patch to red below its middle, and to blue above. Painted hits
   have the upper half.  */
static void palette_fill (const wm_plane_view_t *self, uint8_t palette[768])
{
    static const double blue[3] = { 8, 40, 100 }, red[3] = { 170, 20, 20 };
    for (int i = 0; i < 256; i++)
        for (int c = 0; c < 3; c++) {
            const double share = self->is_signed    ? abs (i - 128) / 128.0
                                 : self->is_painted ? 2 * i / 255.0
                                                    : i / 255.0,
                         end = !self->is_signed ? 95
                               : i < 128        ? red[c]
                                                : blue[c];
            palette[3 * i + c] = (uint8_t) lround (255 + (end - 255) * fmin (1, share));
        }
    for (uint32_t k = 0; k < self->n_class && self->is_painted; k++) {
        const unsigned long rgb = strtoul (self->class[k].colour + 1, NULL, 16);
        for (int c = 0; c < 3; c++)
            palette[3 * (HITS + k) + (uint32_t) c] = (uint8_t) (rgb >> (16 - 8 * c));
    }
}

/* ---- scales in cm ---------------------------------------------------------------------------- */

/* A tick of a scale in cm, which runs along the top and the right of the frame, outside it: nothing
   lies on a hit.  */
typedef struct {
    double x, y;       /* px, on the frame */
    double to_x, to_y; /* the end of its line */
    double text_x, text_y;
    const char *anchor;
    char text[24];
} wm_view_tick_t;

#define SCALE_PX 5
#define SCALE_OVER_PX 20   /* room of the upper scale */
#define SCALE_BESIDE_PX 56 /* of that beside the frame: four digits and its name */
#define SCALE_NAME_PX 130  /* of the upper scale's name, at its right end */

/* Returns how many ticks there are, at most 2 * WM_SVG_TICKS_MAX.  */
static uint32_t scale_ticks (const wm_plane_view_t *self, const wm_svg_t *plot,
                             wm_view_tick_t *tick)
{
    const double cm[2] = { self->x_cm, self->y_cm }, zero[2] = { 0, self->y_zero };
    const wm_svg_axis_t *axis[2] = { &self->x, &self->y };
    uint32_t n = 0;
    for (int k = 0; k < 2; k++) {
        wm_svg_ticks_t at;
        const wm_svg_axis_t scaled = { .from = (axis[k]->from - zero[k]) * cm[k],
                                       .to = (axis[k]->to - zero[k]) * cm[k] };
        if (!(cm[k] > 0))
            continue;
        wm_svg_ticks (&scaled, 8, &at);
        for (uint32_t i = 0; i < at.n; i++) {
            wm_view_tick_t *t = &tick[n];
            const double px =
                k ? wm_svg_y (plot, at.at[i] / cm[k] + zero[k]) : wm_svg_x (plot, at.at[i] / cm[k]);
            if (!k && px > plot->right - SCALE_NAME_PX)
                continue;
            const double to_x = plot->right + SCALE_PX, to_y = plot->top - SCALE_PX;
            *t = k ? (wm_view_tick_t){ plot->right, px, to_x, px, to_x + 3, px + 4, "start", "" }
                   : (wm_view_tick_t){ px, plot->top, px, to_y, px, to_y - 3, "middle", "" };
            memcpy (t->text, at.text[i], sizeof t->text);
            n++;
        }
    }
    return n;
}

/* ---- SVG ------------------------------------------------------------------------------------- */

/* The outline, as far as it lies in the frame.  */
static void draw_box (const wm_svg_t *plot, const wm_plane_view_t *self)
{
    const double left = wm_svg_x (plot, fmax (self->box_x.from, self->x.from)),
                 right = wm_svg_x (plot, fmin (self->box_x.to, self->x.to)),
                 top = wm_svg_y (plot, fmin (self->box_y.to, self->y.to)),
                 bottom = wm_svg_y (plot, fmax (self->box_y.from, self->y.from));
    if (self->has_box && right > left && bottom > top)
        fprintf (plot->out,
                 "<rect class=\"patch\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                 "fill=\"none\" stroke=\"#222\" stroke-dasharray=\"5 3\"/>\n",
                 left, top, right - left, bottom - top);
}

static void draw_mark (wm_svg_t *plot, const wm_plane_view_t *self)
{
    if (self->has_mark)
        fprintf (plot->out,
                 "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"9\" fill=\"none\" stroke=\"#222\" "
                 "stroke-width=\"1.5\"/>\n",
                 wm_svg_x (plot, self->mark_x), wm_svg_y (plot, self->mark_y));
}

static void draw_scales (wm_svg_t *plot, const wm_plane_view_t *self)
{
    wm_view_tick_t tick[2 * WM_SVG_TICKS_MAX];
    const uint32_t n = scale_ticks (self, plot, tick);
    if (n)
        fputs ("<g class=\"cm\">", plot->out);
    for (uint32_t i = 0; i < n; i++)
        fprintf (plot->out,
                 "<path stroke=\"" SCALE_COLOUR "\" d=\"M%.1f %.1fL%.1f %.1f\"/>"
                 "<text text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
                 tick[i].x, tick[i].y, tick[i].to_x, tick[i].to_y, tick[i].anchor, tick[i].text_x,
                 tick[i].text_y, tick[i].text);
    if (n)
        fputs ("</g>\n", plot->out);
    if (self->x_cm > 0)
        fprintf (plot->out,
                 "<text text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\">across wires [cm]</text>\n",
                 plot->right, plot->top - SCALE_PX - 3);
    if (self->y_cm > 0)
        fprintf (plot->out,
                 "<text text-anchor=\"middle\" transform=\"translate(%.1f %.1f) rotate(-90)\">"
                 "drift [cm]</text>\n",
                 plot->right + SCALE_BESIDE_PX, (plot->top + plot->bottom) / 2);
}

/* The classes that are a scale, as a bar. Returns its width.  */
static double draw_scale (const wm_svg_t *plot, const wm_plane_view_t *self)
{
    double x = plot->left;
    fprintf (plot->out, "<g class=\"scale\"><text x=\"%.1f\" y=\"16\">", x);
    wm_svg_text (plot->out, self->scale);
    x += SCALE_CHARACTER_PX * (double) strlen (self->scale) + 8;
    fprintf (plot->out, "</text><text x=\"%.1f\" y=\"16\">0</text>", x);
    x += 11;
    for (uint32_t k = 0; k < self->n_scale; k++, x += SCALE_STEP_PX)
        fprintf (plot->out, "<rect x=\"%.1f\" y=\"7\" width=\"%d\" height=\"9\" fill=\"%s\"/>", x,
                 SCALE_STEP_PX + 1, self->class[k].colour);
    fprintf (plot->out, "<text x=\"%.1f\" y=\"16\">1</text></g>\n", x + 4);
    return x + 24 - plot->left;
}

static void draw_legend (wm_svg_t *plot, const wm_plane_view_t *self)
{
    wm_svg_entry_t entry[WM_VIEW_CLASSES_MAX];
    char text[WM_VIEW_CLASSES_MAX][80];
    size_t n = 0;
    wm_svg_t beside = *plot;
    if (self->n_scale)
        beside.left += draw_scale (plot, self);
    for (uint32_t k = self->n_scale; k < self->n_class; k++) {
        const wm_view_class_t *class = &self->class[k];
        if (!class->n)
            continue;
        snprintf (text[n], sizeof text[n], "%s %u", class->name, class->n);
        entry[n] = (wm_svg_entry_t){ .text = text[n], .colour = class->colour, .is_dot = true };
        n++;
    }
    wm_svg_legend (&beside, entry, n);
}

/* What the shades of the background mean, above the frame's right end.  */
static void draw_bar (const wm_svg_t *plot, const wm_plane_view_t *self, const uint8_t *palette)
{
    const int last = self->is_painted ? HITS - 1 : 255;
    const double left = plot->right - BAR_TEXT_PX - BAR_STEPS * BAR_STEP_PX;
    fprintf (plot->out,
             "<g class=\"bar\"><text text-anchor=\"end\" x=\"%.1f\" y=\"16\">%.3g</text>", left - 5,
             self->is_signed ? -self->most : 0);
    for (int i = 0; i < BAR_STEPS; i++) {
        const uint8_t *rgb = &palette[3 * (i * last / (BAR_STEPS - 1))];
        fprintf (plot->out,
                 "<rect x=\"%.1f\" y=\"7\" width=\"%d\" height=\"9\" fill=\"#%02x%02x%02x\"/>",
                 left + i * BAR_STEP_PX, BAR_STEP_PX + 1, rgb[0], rgb[1], rgb[2]);
    }
    fprintf (plot->out, "<text x=\"%.1f\" y=\"16\">%.3g%s%s</text></g>\n",
             plot->right - BAR_TEXT_PX + 6, self->most, self->unit ? " " : "",
             self->unit ? self->unit : "");
}

wm_fault_t wm_view_svg (const wm_plane_view_t *self, FILE *out, double at_y, wm_error_t *error)
{
    uint8_t palette[768], *png = NULL;
    size_t size = 0;
    palette_fill (self, palette);
    if (!self->is_again &&
        wm_png_encode (self->pixel, self->n_x, self->n_y, palette, &png, &size, error))
        return error->fault;
    wm_svg_t plot = { .out = out,
                      .title = self->title,
                      .about = self->about,
                      .at_y = at_y,
                      .width = self->width,
                      .height = self->height,
                      .x = self->x,
                      .y = self->y,
                      .over = self->x_cm > 0 ? SCALE_OVER_PX : 0,
                      .beside = self->y_cm > 0 ? SCALE_BESIDE_PX : 0 };
    wm_svg_begin (&plot);
    if (*self->id && !self->is_again)
        fprintf (out, "<g id=\"%s\" data-most=\"%.3g\">\n", self->id, self->most);
    if (self->is_again)
        fprintf (out, "<use href=\"#%s\"/>\n", self->id);
    else
        wm_svg_image (&plot, png, size);
    if (*self->id && !self->is_again)
        fputs ("</g>\n", out);
    for (uint32_t k = 0; k < self->n_class; k++)
        if (self->class[k].n && !self->is_painted)
            wm_svg_dots (&plot, self->class[k].x, self->class[k].y, self->class[k].n,
                         radius_of (self), self->class[k].colour);
    draw_box (&plot, self);
    draw_mark (&plot, self);
    draw_scales (&plot, self);
    draw_legend (&plot, self);
    draw_bar (&plot, self, palette);
    wm_svg_end (&plot);
    free (png);
    return WM_OK;
}
