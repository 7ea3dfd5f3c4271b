/* wm_svg.c - see wm_svg.h.  */
#include "schema/page/wm_svg.h"
#include "schema/base/wm_text.h"

#include <math.h>
#include <sodium.h>
#include <string.h>
#include <time.h>

#define TEXT_PX 12.0
#define CHARACTER_PX 7.0 /* the widest that a digit is at that size, with room */
#define INK "#222"
#define GRID "#e4e4e4"
#define SHADES 7
#define TICKS_Y 6
#define MIDDLE 3.1623 /* of a decade */

/* ---- texts ----------------------------------------------------------------------------------- */

/* Control characters, what XML has not, and marks that turn the direction of text.  */
static bool is_unfit (uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200e && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || (c & 0xfffe) == 0xfffe;
}

void wm_svg_text (FILE *out, const char *text)
{
    while (*text) {
        uint32_t code = 0;
        const size_t n = wm_text_character (text, strnlen (text, 4), &code);
        if (!n || is_unfit (code))
            fputs ("\xef\xbf\xbd", out);
        else if (code == '&')
            fputs ("&amp;", out);
        else if (code == '<')
            fputs ("&lt;", out);
        else if (code == '>')
            fputs ("&gt;", out);
        else if (code == '"')
            fputs ("&quot;", out);
        else
            fwrite (text, 1, n, out);
        text += n ? n : 1;
    }
}

/* The four of the network this is made for, then others. Simulated (Machado 2009) for the three
   kinds of colour blindness, any two of the four differ by at least 30 in CIE Lab, as do they from
   white, on which each has a contrast of at least 3.  */
const char *wm_svg_colour (const char *label, uint32_t place)
{
    static const char *const known[][2] = {
        { "track", "#0b5fb4" }, { "em", "#a81420" }, { "michel", "#cf7d00" }, { "none", "#8a8a8a" }
    };
    static const char *const others[] = { "#0b5fb4", "#a81420", "#8a8a8a", "#cf7d00",
                                          "#00796b", "#8e44ad", "#3a97cf", "#6d4321" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp (label, known[i][0]))
            return known[i][1];
    return others[place % (sizeof others / sizeof *others)];
}

/* ---- axes ------------------------------------------------------------------------------------ */

/* The least of 1, 2, 5, 10, ... that makes at most so many steps of a range.  */
static double nice_step (double range, uint32_t n_most)
{
    const double raw = range / n_most, power = pow (10, floor (log10 (raw)));
    static const double factor[] = { 1, 2, 5, 10 };
    for (size_t i = 0; i < 4; i++)
        if (factor[i] * power * (1 + 1e-9) >= raw)
            return factor[i] * power;
    return 10 * power;
}

static void tick_number (double value, double step, char text[24])
{
    const double decimals = -floor (log10 (step) + 1e-9);
    if (decimals > 9 || fabs (value) >= 1e10)
        snprintf (text, 24, "%g", fabs (value) < step * 1e-6 ? 0.0 : value);
    else
        snprintf (text, 24, "%.*f", decimals > 0 ? (int) decimals : 0,
                  fabs (value) < step * 1e-6 ? 0.0 : value);
}

/* 10 to the power of n, as people write it; 1 and 10 as they are.  */
static void tick_power (int n, char text[24])
{
    static const char *const digit[] = { "\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                         "\u2075", "\u2076", "\u2077", "\u2078", "\u2079" };
    char plain[12];
    if (n == 0 || n == 1) {
        snprintf (text, 24, "%d", n ? 10 : 1);
        return;
    }
    snprintf (plain, sizeof plain, "%d", n < 0 ? -n : n);
    size_t at = (size_t) snprintf (text, 24, "10%s", n < 0 ? "\u207b" : "");
    for (const char *p = plain; *p && at < 20; p++)
        at += (size_t) snprintf (text + at, 24 - at, "%s", digit[*p - '0']);
}

void wm_svg_ticks (const wm_svg_axis_t *axis, uint32_t n_most, wm_svg_ticks_t *ticks)
{
    ticks->n = 0;
    n_most = n_most < 2 ? 2 : n_most > WM_SVG_TICKS_MAX ? WM_SVG_TICKS_MAX : n_most;
    if (!(axis->from < axis->to) || !isfinite (axis->to - axis->from) ||
        (axis->is_log && axis->from <= 0))
        return;
    const double from = axis->is_log ? log10 (axis->from) : axis->from,
                 to = axis->is_log ? log10 (axis->to) : axis->to,
                 step = axis->is_log ? ceil (fmax (1, (to - from) / (n_most - 1)) - 1e-9)
                                     : nice_step (to - from, n_most - 1),
                 slack = 1e-6 * step;
    const double first = ceil ((from - slack) / step);
    for (uint32_t i = 0; ticks->n < n_most && (first + i) * step <= to + slack; i++) {
        const double at = (first + i) * step;
        ticks->at[ticks->n] = axis->is_log ? pow (10, at) : at;
        if (axis->is_log)
            tick_power ((int) lround (at), ticks->text[ticks->n++]);
        else
            tick_number (at, step, ticks->text[ticks->n++]);
    }
}

void wm_svg_times (const wm_svg_axis_t *axis, uint32_t n_most, wm_svg_ticks_t *ticks)
{
    static const double steps[] = { 1,     2,     5,     10,    15,     30,     60,
                                    120,   300,   600,   900,   1800,   3600,   7200,
                                    10800, 21600, 43200, 86400, 172800, 259200, 604800 };
    const size_t n_step = sizeof steps / sizeof *steps;
    const double range = axis->to - axis->from;
    size_t k = 0;
    ticks->n = 0;
    n_most = n_most < 2 ? 2 : n_most > WM_SVG_TICKS_MAX ? WM_SVG_TICKS_MAX : n_most;
    if (!(range > 0) || !(fabs (axis->from) < 1e11) || !(range < 1e11))
        return;
    while (k + 1 < n_step && range / steps[k] > n_most - 1)
        k++;
    const double weeks = ceil (range / steps[k] / (n_most - 1)),
                 step = steps[k] * (weeks > 1 ? weeks : 1), first = ceil (axis->from / step - 1e-9);
    for (uint32_t i = 0; ticks->n < n_most && (first + i) * step <= axis->to + 1e-6; i++) {
        const double at = (first + i) * step;
        const time_t seconds = (time_t) llround (at);
        struct tm utc;
        ticks->at[ticks->n] = at;
        strftime (ticks->text[ticks->n++], sizeof *ticks->text,
                  step > 1e7             ? "%Y-%m-%d"
                  : seconds % 86400 == 0 ? "%b %d"
                  : step < 60            ? "%H:%M:%S"
                                         : "%H:%M",
                  gmtime_r (&seconds, &utc));
    }
}

void wm_svg_fit (wm_svg_axis_t *axis, double least, double most)
{
    if (axis->is_log) {
        axis->from = pow (10, floor (log10 (least) + 1e-9));
        axis->to = pow (10, ceil (log10 (most) - 1e-9));
        axis->to = axis->to > axis->from ? axis->to : axis->from * 10;
        return;
    }
    const double step = nice_step (most > least ? most - least : 1, TICKS_Y - 1);
    axis->from = floor (least / step + 1e-9) * step;
    axis->to = ceil (most / step - 1e-9) * step;
    axis->to = axis->to > axis->from ? axis->to : axis->from + step;
}

static double share (const wm_svg_axis_t *axis, double value)
{
    return axis->is_log ? log (value / axis->from) / log (axis->to / axis->from)
                        : (value - axis->from) / (axis->to - axis->from);
}

double wm_svg_x (const wm_svg_t *self, double value)
{
    return self->left + (self->right - self->left) * share (&self->x, value);
}

double wm_svg_y (const wm_svg_t *self, double value)
{
    return self->bottom - (self->bottom - self->top) * share (&self->y, value);
}

/* ---- the frame ------------------------------------------------------------------------------- */

static size_t letters (const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

/* So many that their texts do not touch.  */
static void ticks_of_x (const wm_svg_t *self, double width, wm_svg_ticks_t *ticks)
{
    for (uint32_t n = 10; n > 2; n--) {
        size_t widest = 0;
        (self->is_time ? wm_svg_times : wm_svg_ticks) (&self->x, n, ticks);
        for (uint32_t i = 0; i < ticks->n; i++)
            widest = letters (ticks->text[i]) > widest ? letters (ticks->text[i]) : widest;
        if (((double) widest + 1) * CHARACTER_PX * ticks->n <= width)
            return;
    }
}

/* The first decade of a logarithmic axis that has a zero has no tick but that, nor one beside it
   whose text would touch it.  */
static bool is_shown (const wm_svg_t *self, double at, const char *text)
{
    return !self->zero || wm_svg_x (self, at) - wm_svg_x (self, self->x.from * MIDDLE) >
                              CHARACTER_PX * ((double) letters (text) / 2 + 1);
}

static void write_ticks (wm_svg_t *self, const wm_svg_ticks_t *x, const wm_svg_ticks_t *y)
{
    FILE *out = self->out;
    fputs ("<path fill=\"none\" stroke=\"" GRID "\" d=\"", out);
    for (uint32_t i = 0; i < x->n; i++)
        if (is_shown (self, x->at[i], x->text[i]))
            fprintf (out, "M%.1f %.1fV%.1f", wm_svg_x (self, x->at[i]), self->top, self->bottom);
    for (uint32_t i = 0; i < y->n; i++)
        fprintf (out, "M%.1f %.1fH%.1f", self->left, wm_svg_y (self, y->at[i]), self->right);
    fputs ("\"/>\n<g text-anchor=\"middle\">", out);
    for (uint32_t i = 0; i < x->n; i++)
        if (is_shown (self, x->at[i], x->text[i]))
            fprintf (out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", wm_svg_x (self, x->at[i]),
                     self->bottom + 15, x->text[i]);
    if (self->zero) {
        fprintf (out, "<text x=\"%.1f\" y=\"%.1f\">", wm_svg_x (self, self->x.from * MIDDLE),
                 self->bottom + 15);
        wm_svg_text (out, self->zero);
        fputs ("</text>", out);
    }
    fputs ("</g>\n<g text-anchor=\"end\">", out);
    for (uint32_t i = 0; i < y->n; i++)
        fprintf (out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", self->left - 5,
                 wm_svg_y (self, y->at[i]) + 4, y->text[i]);
    for (uint32_t i = 0; i < self->n_row; i++) {
        fprintf (out, "<text x=\"%.1f\" y=\"%.1f\">", self->left - 5,
                 wm_svg_y (self, self->n_row - i - 0.5) + 4);
        wm_svg_text (out, self->row[i]);
        fputs ("</text>", out);
    }
    fputs ("</g>\n", out);
}

/* Places the frame, and chooses ticks that do not touch.  */
static void place (wm_svg_t *self, wm_svg_ticks_t *x, wm_svg_ticks_t *y)
{
    size_t widest = 0;
    self->width = self->width > 0 ? self->width : 340;
    self->height = self->height > 0 ? self->height : 250;
    wm_svg_ticks (&self->y, (uint32_t) fmax (3, fmin (10, (self->height - 62) / 32 + 1)), y);
    if (self->n_row)
        y->n = 0;
    for (uint32_t i = 0; i < y->n; i++)
        widest = letters (y->text[i]) > widest ? letters (y->text[i]) : widest;
    for (uint32_t i = 0; i < self->n_row; i++)
        widest = letters (self->row[i]) > widest ? letters (self->row[i]) : widest;
    self->left = 26 + CHARACTER_PX * (double) widest;
    self->right = self->width - self->beside - (self->is_time ? 40 : 12); /* half of a number */
    self->top = 24 + self->over;
    self->bottom = self->height - 38;
    ticks_of_x (self, self->right - self->left, x);
}

void wm_svg_begin (wm_svg_t *self)
{
    wm_svg_ticks_t x, y;
    FILE *out = self->out;
    place (self, &x, &y);
    fprintf (out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" x=\"%.0f\" y=\"%.0f\" "
             "viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" aria-label=\"",
             self->at_x, self->at_y, self->width, self->height, self->width, self->height);
    wm_svg_text (out, self->title);
    if (self->about && *self->about) {
        fputs (": ", out);
        wm_svg_text (out, self->about);
    }
    fprintf (out, "\" font-family=\"sans-serif\" font-size=\"%.0f\" fill=\"" INK "\">\n<title>",
             TEXT_PX);
    wm_svg_text (out, self->title);
    fputs ("</title>\n", out);
    if (self->about && *self->about) {
        fputs ("<desc>", out);
        wm_svg_text (out, self->about);
        fputs ("</desc>\n", out);
    }
    fprintf (out, "<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", self->width,
             self->height);
    write_ticks (self, &x, &y);
    fprintf (out, "<text text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">",
             (self->left + self->right) / 2, self->height - 6);
    wm_svg_text (out, self->x.name);
    fprintf (out,
             "</text>\n<text text-anchor=\"middle\" transform=\"translate(12 %.1f) "
             "rotate(-90)\">",
             (self->top + self->bottom) / 2);
    wm_svg_text (out, self->y.name);
    fputs ("</text>\n", out);
}

void wm_svg_end (wm_svg_t *self)
{
    fprintf (self->out,
             "<path fill=\"none\" stroke=\"" INK "\" d=\"M%.1f %.1fH%.1fV%.1fH%.1fZ\"/>\n</svg>\n",
             self->left, self->top, self->right, self->bottom, self->left);
}

/* ---- what is drawn --------------------------------------------------------------------------- */

/* Where the top of a bar lies: nothing lies on the frame's bottom, also on a logarithmic axis.  */
static double bar_y (const wm_svg_t *self, uint64_t count)
{
    const double value = (double) count;
    if (!count || value <= self->y.from)
        return self->bottom;
    return value >= self->y.to ? self->top : wm_svg_y (self, value);
}

void wm_svg_histogram (wm_svg_t *self, const uint64_t *count, uint32_t n, const char *colour,
                       bool is_filled)
{
    const double width = (self->right - self->left) / (n ? n : 1);
    fprintf (self->out,
             "<path fill=\"%s\" fill-opacity=\"0.25\" stroke=\"%s\" stroke-width=\"%s\" "
             "stroke-linejoin=\"round\" d=\"M%.1f %.1f",
             is_filled ? colour : "none", colour, is_filled ? "1" : "1.6", self->left,
             self->bottom);
    for (uint32_t i = 0; i < n; i++)
        if (!i || count[i] != count[i - 1])
            fprintf (self->out, "H%.1fV%.1f", self->left + width * i, bar_y (self, count[i]));
    fprintf (self->out, "H%.1fV%.1f\"/>\n", self->right, self->bottom);
}

static bool lies_in (const wm_svg_axis_t *axis, double value)
{
    return value >= axis->from && value <= axis->to;
}

void wm_svg_line (wm_svg_t *self, double x0, double y0, double x1, double y1, const char *colour,
                  bool is_dashed)
{
    if (!lies_in (&self->x, x0) || !lies_in (&self->x, x1) || !lies_in (&self->y, y0) ||
        !lies_in (&self->y, y1))
        return;
    fprintf (self->out, "<path fill=\"none\" stroke=\"%s\"%s d=\"M%.1f %.1fL%.1f %.1f\"/>\n",
             colour, is_dashed ? " stroke-dasharray=\"5 3\"" : "", wm_svg_x (self, x0),
             wm_svg_y (self, y0), wm_svg_x (self, x1), wm_svg_y (self, y1));
}

void wm_svg_curve (wm_svg_t *self, const double *x, const double *y, uint32_t n, const char *colour,
                   bool is_dashed)
{
    char step = 'M';
    fprintf (self->out,
             "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" "
             "stroke-linejoin=\"round\"%s d=\"",
             colour, is_dashed ? " stroke-dasharray=\"5 3\"" : "");
    for (uint32_t i = 0; i < n; i++)
        if (lies_in (&self->x, x[i]) && lies_in (&self->y, y[i])) {
            fprintf (self->out, "%c%.1f %.1f", step, wm_svg_x (self, x[i]), wm_svg_y (self, y[i]));
            step = 'L';
        }
    fputs ("\"/>\n", self->out);
}

void wm_svg_bar (wm_svg_t *self, double x0, double x1, double y0, double y1, const char *colour,
                 double opacity)
{
    x0 = fmax (x0, self->x.from), x1 = fmin (x1, self->x.to);
    y0 = fmax (y0, self->y.from), y1 = fmin (y1, self->y.to);
    if (!(x0 <= x1) || !(y0 < y1))
        return;
    const double left = wm_svg_x (self, x0), top = wm_svg_y (self, y1);
    fprintf (self->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"",
             left, top, fmax (1, wm_svg_x (self, x1) - left), wm_svg_y (self, y0) - top, colour);
    if (opacity < 1)
        fprintf (self->out, " fill-opacity=\"%.2f\"", opacity);
    fputs ("/>\n", self->out);
}

/* Of white to dark blue.  */
static const char *const shade[SHADES] = { "#d6e4f2", "#b0cce6", "#84afd7", "#568fc5",
                                           "#2f6dab", "#174a83", "#08274f" };

/* Which shade a count has, of `most`; SHADES: none.  */
static uint32_t shade_of (uint64_t count, uint64_t most)
{
    const double level = count ? log ((double) count) / (log ((double) most) + 1e-9) : 0;
    return count ? (uint32_t) fmin (SHADES - 1, level * SHADES) : SHADES;
}

/* Cells of one shade beside each other are one piece.  */
void wm_svg_density (wm_svg_t *self, const uint64_t *count, uint32_t n_x, uint32_t n_y)
{
    const double w = (self->right - self->left) / n_x, h = (self->bottom - self->top) / n_y;
    uint64_t most = 1;
    for (size_t i = 0; i < (size_t) n_x * n_y; i++)
        most = count[i] > most ? count[i] : most;
    for (uint32_t s = 0; s < SHADES; s++) {
        bool is_open = false;
        for (uint32_t y = 0; y < n_y; y++)
            for (uint32_t x = 0, end; x < n_x; x = end) {
                const uint64_t *row = &count[(size_t) y * n_x];
                for (end = x; end < n_x && shade_of (row[end], most) == s; end++)
                    ;
                if (end == x) {
                    end++;
                    continue;
                }
                if (!is_open)
                    fprintf (self->out, "<path fill=\"%s\" d=\"", shade[s]);
                fprintf (self->out, "M%.1f %.1fh%.2fv%.2fh-%.2fz", self->left + w * x,
                         self->bottom - h * (y + 1), w * (end - x), h, w * (end - x));
                is_open = true;
            }
        if (is_open)
            fputs ("\"/>\n", self->out);
    }
}

/* Points of no length with round ends: a third of the bytes of circles.  */
void wm_svg_dots (wm_svg_t *self, const float *x, const float *y, uint32_t n, double radius,
                  const char *colour)
{
    fprintf (
        self->out,
        "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\" stroke-linecap=\"round\" d=\"",
        colour, 2 * radius);
    for (uint32_t i = 0; i < n; i++)
        if (lies_in (&self->x, (double) x[i]) && lies_in (&self->y, (double) y[i]))
            fprintf (self->out, "M%.1f %.1fh0", wm_svg_x (self, (double) x[i]),
                     wm_svg_y (self, (double) y[i]));
    fputs ("\"/>\n", self->out);
}

void wm_svg_base64 (FILE *out, const void *bytes_v, size_t size)
{
    const uint8_t *bytes = bytes_v;
    enum {
        PART = 3 * 256,
        LETTERS = sodium_base64_ENCODED_LEN (PART, sodium_base64_VARIANT_ORIGINAL)
    };
    char text[LETTERS];
    for (size_t i = 0; i < size; i += PART)
        fputs (sodium_bin2base64 (text, sizeof text, bytes + i, size - i < PART ? size - i : PART,
                                  sodium_base64_VARIANT_ORIGINAL),
               out);
}

void wm_svg_image (wm_svg_t *self, const uint8_t *png, size_t size)
{
    fprintf (self->out,
             "<image x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
             "preserveAspectRatio=\"none\" image-rendering=\"pixelated\" "
             "href=\"data:image/png;base64,",
             self->left, self->top, self->right - self->left, self->bottom - self->top);
    wm_svg_base64 (self->out, png, size);
    fputs ("\"/>\n", self->out);
}

void wm_svg_sheet (FILE *out, double width, double height, const char *title)
{
    fprintf (out,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
             "height=\"%.0f\">\n<title>",
             width, height, width, height);
    wm_svg_text (out, title);
    fprintf (out, "</title>\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", width,
             height);
}

void wm_svg_legend (wm_svg_t *self, const wm_svg_entry_t *entry, size_t n)
{
    double x = self->left;
    for (size_t i = 0; i < n; i++) {
        if (entry[i].is_dot)
            fprintf (self->out, "<circle cx=\"%.1f\" cy=\"11.5\" r=\"4\" fill=\"%s\"/>", x + 8,
                     entry[i].colour);
        else if (entry[i].is_filled)
            fprintf (self->out,
                     "<rect x=\"%.1f\" y=\"7\" width=\"14\" height=\"9\" fill=\"%s\" "
                     "fill-opacity=\"0.25\" stroke=\"%s\"/>",
                     x, entry[i].colour, entry[i].colour);
        else
            fprintf (self->out, "<path stroke=\"%s\" stroke-width=\"1.6\"%s d=\"M%.1f 11.5h14\"/>",
                     entry[i].colour, entry[i].is_dashed ? " stroke-dasharray=\"5 3\"" : "", x);
        fprintf (self->out, "<text x=\"%.1f\" y=\"16\">", x + 18);
        wm_svg_text (self->out, entry[i].text);
        fputs ("</text>\n", self->out);
        x += 30 + CHARACTER_PX * (double) letters (entry[i].text);
    }
}
