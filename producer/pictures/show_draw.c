/* show_draw.c - draws what `wiremill show --output` has read: planes with their hits by score, the
   truth beside, and one hit's patch as the network saw it.  */
#include "producer/pictures/show_event.h"

#include "kernels/patch/wm_image.h"
#include "producer/cutting/wm_cut.h"
#include "producer/pictures/wm_plane_view.h"
#include "schema/page/wm_page.h"
#include "schema/wm_defaults.h"
#include "schema/wm_limits.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLANE_WIDTH 1060
#define PLANE_HEIGHT 560
#define TITLE_HEIGHT 24
#define PATCH_WIDTH 430
#define PATCH_HEIGHT 400
#define TIME_MAX 1e9 /* ticks; a hit beyond has no place in a picture */
#define AROUND 1.5   /* patches that the view of a hit shows to either side */
/* Of a plane: scores and truth, both around the hit, the patch, a picture for each channel.  */
#define VIEWS_MAX (4 + WM_SPEC_CHANNELS_MAX)
#define FIGURE_DOTS_MAX 10000 /* 150 kB */
#define PAGE_BYTES_MAX 40000000L
#define BANDS 16 /* of --score */
#define HELD_COLOUR "#9600fc"

typedef struct {
    const wm_show_t *show;
    uint32_t plane; /* of the event */
    uint32_t n;
    wm_plane_view_t view[VIEWS_MAX];
} views_t;

static void views_clear (views_t *self)
{
    for (uint32_t i = 0; i < self->n; i++)
        wm_view_clear (&self->view[i]);
}

/* ---- hits by colour -------------------------------------------------------------------------- */

/* `none` lies below the others, held hits above.  */
static uint32_t class_of_label (const wm_show_t *show, uint32_t k)
{
    uint32_t none = UINT32_MAX;
    for (uint32_t i = 0; i < show->scores.n_label; i++)
        if (!strcmp (show->scores.label[i], "none"))
            none = i;
    return k == none ? 0 : k + (none != UINT32_MAX && k < none);
}

static void classes_by_label (const wm_show_t *show, wm_plane_view_t *view)
{
    const uint32_t n = show->scores.n_label;
    view->n_class = n + 1;
    for (uint32_t k = 0; k < n; k++) {
        wm_view_class_t *class = &view->class[class_of_label (show, k)];
        snprintf (class->name, sizeof class->name, "%s", show->scores.label[k]);
        class->colour = wm_svg_colour (class->name, k);
    }
    snprintf (view->class[n].name, sizeof view->class[n].name, "held");
    view->class[n].colour = HELD_COLOUR;
}

/* Bands of one score, from light to dark, by which alone they can be told apart: the map of
   event.js, OKLCH (0.65 - 0.37 s, 0.11 + 0.05 s, 195 + 160 s) of s from 0 to 1. The first has a
   contrast of 3 on white.  */
static void classes_by_score (const wm_show_t *show, wm_plane_view_t *view)
{
    static const char *const shade[BANDS] = { "#07a4a4", "#009ba9", "#0091ad", "#0086b0",
                                              "#007bb1", "#1f6fb0", "#3262ad", "#4055a7",
                                              "#4a489f", "#523b94", "#582e87", "#5c2078",
                                              "#5e1067", "#5e0055", "#5d0041", "#5b002d" };
    view->n_class = BANDS + 1;
    view->scale = show->score;
    view->n_scale = BANDS;
    for (uint32_t b = 0; b < BANDS; b++)
        view->class[b].colour = shade[b];
    snprintf (view->class[BANDS].name, sizeof view->class[BANDS].name, "held");
    view->class[BANDS].colour = HELD_COLOUR;
}

/* The class of a row; UINT32_MAX: it is not drawn.  */
static uint32_t class_of (const wm_show_t *show, uint32_t row, bool is_truth)
{
    const uint32_t n = show->scores.n_label;
    if (is_truth)
        return show->truth[row] < 0 ? UINT32_MAX
                                    : class_of_label (show, (uint32_t) show->truth[row]);
    const uint32_t label = wm_show_label (show, row);
    if (!show->score || label == n)
        return label < n ? class_of_label (show, label) : show->score ? BANDS : n;
    for (uint32_t k = 0; k < n; k++)
        if (!strcmp (show->scores.label[k], show->score))
            return (uint32_t) fmax (0, fmin (BANDS - 1, BANDS * wm_show_score (show, k, row)));
    return UINT32_MAX;
}

/* ---- views ----------------------------------------------------------------------------------- */

static bool is_on (const wm_hit_t *hit, const wm_event_plane_t *plane)
{
    return hit->cryostat == plane->cryostat && hit->tpc == plane->tpc && hit->plane == plane->plane;
}

/* ", channel c, its tag", where patches have several.  */
static const char *channel_text (const wm_spec_t *spec, uint32_t channel, char text[64])
{
    const char *tag = spec->n_tag ? spec->tag[channel] : "";
    snprintf (text, 64, ", channel %u%s%s", channel, *tag ? ", " : "", tag);
    return spec->n_channel > 1 ? text : "";
}

static bool is_image (const wm_show_t *show)
{
    return show->spec.result == WM_RESULT_IMAGE;
}

/* Of space points the channels are the planes.  */
static bool has_channels (const wm_show_t *show)
{
    return !is_image (show) && show->spec.points != WM_POINTS_SPACEPOINTS;
}

static void axes_name (const wm_show_t *show, wm_plane_view_t *view)
{
    static char tick[96];
    char from[32] = "";
    view->x.name = "wire";
    if (show->event.first_tick)
        snprintf (from, sizeof from, " after %" PRIu64, show->event.first_tick);
    if (isfinite (show->event.tick_us) && show->event.tick_us > 0)
        snprintf (tick, sizeof tick, "tick%s (%g us each)", from, show->event.tick_us);
    else
        snprintf (tick, sizeof tick, "%s%s", is_image (show) ? "drift bin" : "tick", from);
    view->y.name = tick;
}

/* Adds a view of this range: wires, ticks. That by truth comes behind that by scores.  */
static wm_fault_t view_add (views_t *self, const double range[4], bool is_truth, wm_error_t *error)
{
    const wm_show_t *show = self->show;
    const wm_event_plane_t *plane = &show->event.plane[self->plane];
    wm_plane_view_t *view = &self->view[self->n++];
    view->width = PLANE_WIDTH;
    view->height = PLANE_HEIGHT;
    view->x = (wm_svg_axis_t){ .from = range[0], .to = range[1] };
    view->y = (wm_svg_axis_t){ .from = range[2], .to = range[3] };
    axes_name (show, view);
    if (show->kind == WM_SHOW_HTML && (self->n == 1 || (self->n == 2 && is_truth))) {
        wm_show_name (show, "charge", self->plane, view->id);
        view->is_again = is_truth;
    }
    view->x_cm = (double) plane->pitch_cm;
    view->y_cm = wm_show_tick_cm (show);
    view->y_zero = wm_show_trigger (show);
    view->unit = is_image (show) ? NULL : "ADC";
    if (show->score && !is_truth)
        classes_by_score (show, view);
    else
        classes_by_label (show, view);
    wm_fault_t fault = is_truth ? wm_view_copy (view, view - 1, error)
                                : wm_view_charge (view, &show->event, self->plane, error);
    uint32_t n = 0;
    char text[64];
    for (uint32_t i = 0; i < show->event.n_hit && !fault; i++) {
        const wm_hit_t *hit = &show->event.hit[i];
        const double wire = hit->wire + 0.5, tick = (double) hit->time + 0.5;
        const uint32_t k = class_of (show, hit->row, is_truth);
        if (!is_on (hit, plane) || k == UINT32_MAX || !(wire >= range[0] && wire <= range[1]) ||
            !(tick >= range[2] && tick <= range[3]))
            continue;
        fault = wm_view_add (view, k, wire, tick, error);
        n++;
        if (i == show->hit) {
            view->has_mark = true;
            view->mark_x = wire;
            view->mark_y = tick;
        }
    }
    const char *rows = wm_show_rows (show);
    const char *by = is_truth ? "truth" : show->score ? show->score : "what they are called";
    char what[96], count[48];
    snprintf (what, sizeof what, is_image (show) ? "%s" : "%s by %s",
              is_image (show) ? show->spec.table : rows, by);
    snprintf (count, sizeof count, is_image (show) ? "wires" : "%u %s on wires", n, rows);
    snprintf (view->title, sizeof view->title,
              "Event %" PRId64 ":%" PRId64 ":%" PRId64 ", TPC %d plane %d%s, %s", show->event.run,
              show->event.subrun, show->event.event, plane->tpc, plane->plane,
              has_channels (show) ? channel_text (&show->spec, plane->channel, text) : "", what);
    snprintf (view->about, sizeof view->about,
              "%s %.0f to %.0f, %s %.0f to %.0f; the darkest grey is %.3g%s", count, range[0],
              range[1], is_image (show) ? "drift bins" : "ticks", range[2], range[3], view->most,
              is_image (show) ? "" : " ADC");
    return fault;
}

static wm_fault_t views_of_range (views_t *self, const double range[4], wm_error_t *error)
{
    wm_fault_t fault = view_add (self, range, false, error);
    return fault || !self->show->truth ? fault : view_add (self, range, true, error);
}

/* Cuts the patch of one hit, as a producer and a worker do. *is_held: it has none.  */
static wm_fault_t patch_cut (const wm_show_t *show, float *patch, bool *is_held, wm_error_t *error)
{
    const wm_cut_limits_t limits = { 4, WM_DEFAULT_BATCH_HITS, WM_RAW_BYTES_MAX, true };
    wm_event_t one = show->event; /* with this hit alone */
    const uint32_t *hit;
    wm_batch_t batch = { 0 };
    wm_hit_t alone = show->event.hit[show->hit];
    if (show->n_point)
        alone.plane = alone.wire = -1;
    one.hit = &alone;
    one.n_hit = 1;
    if (show->spec.n_channel > 1)
        one.cell = &show->event.cell[(size_t) show->hit * show->spec.n_channel];
    wm_cut_t *cut = wm_cut_new (&show->spec, limits);
    wm_plane_t *plane = wm_plane_new (&show->spec);
    wm_fault_t fault = wm_cut_start (cut, &one, show->input, error);
    if (!fault)
        fault = wm_cut_next (cut, &batch, &hit, error);
    *is_held = !fault && !batch.n_hit;
    if (!fault && batch.n_hit)
        fault = wm_plane_load (plane, &batch, error);
    if (!fault && batch.n_hit)
        wm_plane_cut (plane, 0, 1, patch);
    wm_batch_clear (&batch);
    wm_plane_destroy (&plane);
    wm_cut_destroy (&cut);
    return fault;
}

static wm_fault_t patch_add (views_t *self, wm_error_t *error)
{
    const wm_show_t *show = self->show;
    const wm_spec_t *spec = &show->spec;
    const wm_hit_t *hit = &show->event.hit[show->hit];
    const uint32_t n_channel = spec->n_channel > 1 ? spec->n_channel : 1;
    bool is_held = false;
    char text[64];
    float *patch = malloc (sizeof *patch * wm_spec_values (spec)); // (channel, wire, bin)
    wm_fault_t fault = patch ? patch_cut (show, patch, &is_held, error)
                             : wm_fault (error, WM_EHOST, "out of memory for a patch");
    for (uint32_t c = 0; c < n_channel && !fault && !is_held; c++) {
        wm_plane_view_t *view = &self->view[self->n++];
        const wm_event_cell_t own = { hit->wire, hit->time },
                              at = show->n_point
                                       ? show->event.cell[(size_t) show->hit * n_channel + c]
                                       : own;
        const double wire = at.wire - (double) (spec->patch_wire / 2),
                     bin = floor ((double) at.time / spec->drift_window) -
                           (double) (spec->patch_bin / 2);
        view->width = PATCH_WIDTH;
        view->height = PATCH_HEIGHT;
        view->x = (wm_svg_axis_t){ wire, wire + spec->patch_wire, false, "wire" };
        view->y = (wm_svg_axis_t){ bin, bin + spec->patch_bin, false, "drift bin" };
        view->has_mark = true;
        view->mark_x = at.wire + 0.5;
        view->mark_y = bin + (double) (spec->patch_bin / 2) + 0.5;
        fault = wm_view_patch (view, patch + (size_t) c * spec->patch_wire * spec->patch_bin,
                               spec->patch_wire, spec->patch_bin, error);
        snprintf (view->title, sizeof view->title,
                  "The patch of %s %" PRId64 " as the network saw it%s",
                  show->n_point ? "space point" : "hit", show->id[3], channel_text (spec, c, text));
        snprintf (view->about, sizeof view->about,
                  "%u wires, %u bins of %u ticks; the darkest pixel is %.3g", spec->patch_wire,
                  spec->patch_bin, spec->drift_window, view->most);
    }
    free (patch);
    return fault;
}

/* Outlines what the network saw of a hit.  */
static void outline_patch (const wm_show_t *show, const wm_hit_t *hit, wm_plane_view_t *view)
{
    const wm_spec_t *spec = &show->spec;
    const double window = spec->drift_window, wire = hit->wire - (double) (spec->patch_wire / 2),
                 bin = floor ((double) hit->time / window) - (double) (spec->patch_bin / 2);
    view->has_box = true;
    view->box_x = (wm_svg_axis_t){ .from = wire, .to = wire + spec->patch_wire };
    view->box_y = (wm_svg_axis_t){ .from = bin * window, .to = (bin + spec->patch_bin) * window };
}

/* All views of a plane.  */
static wm_fault_t views_make (views_t *self, wm_error_t *error)
{
    const wm_show_t *show = self->show;
    const wm_event_plane_t *plane = &show->event.plane[self->plane];
    const wm_hit_t *hit = show->hit == UINT32_MAX ? NULL : &show->event.hit[show->hit];
    const bool has_hit = hit && is_on (hit, plane) && hit->wire >= 0 &&
                         (uint32_t) hit->wire < plane->n_wire &&
                         fabs ((double) hit->time) < TIME_MAX;
    double range[4] = { 0, fmax (1, plane->n_wire), 0, fmax (1, show->event.n_tick) };
    wm_fault_t fault = WM_OK;
    if (show->has_zoom)
        memcpy (range, show->zoom, sizeof range);
    if (!has_hit || show->kind == WM_SHOW_HTML || show->has_zoom)
        fault = views_of_range (self, range, error);
    if (has_hit && !fault && !show->has_zoom) {
        const double wires = AROUND * show->spec.patch_wire,
                     ticks = AROUND * show->spec.patch_bin * show->spec.drift_window;
        const double around[4] = { fmax (0, hit->wire - wires), hit->wire + wires,
                                   fmax (0, floor ((double) hit->time - ticks)),
                                   floor ((double) hit->time + ticks) };
        const uint32_t first = self->n;
        fault = views_of_range (self, around, error);
        for (uint32_t i = first; i < self->n; i++)
            outline_patch (show, hit, &self->view[i]);
    }
    return fault || !has_hit || plane->channel ? fault : patch_add (self, error);
}

/* ---- SVG ------------------------------------------------------------------------------------- */

static wm_fault_t draw_svg (views_t *views, FILE *out, wm_error_t *error)
{
    double height = 0, y = 0;
    wm_fault_t fault = WM_OK;
    for (uint32_t i = 0; i < views->n; i++)
        height += views->view[i].height + TITLE_HEIGHT;
    wm_svg_sheet (out, PLANE_WIDTH, height, views->view[0].title);
    for (uint32_t i = 0; i < views->n && !fault; i++) {
        fprintf (out, "<text x=\"10\" y=\"%.0f\" font-family=\"sans-serif\" font-size=\"14\">",
                 y + 17);
        wm_svg_text (out, views->view[i].title);
        fputs ("</text>\n", out);
        fault = wm_view_svg (&views->view[i], out, y + TITLE_HEIGHT, error);
        y += views->view[i].height + TITLE_HEIGHT;
    }
    fputs ("</svg>\n", out);
    return fault;
}

/* ---- HTML ------------------------------------------------------------------------------------ */

static void write_begin (const wm_show_t *show, FILE *out)
{
    char title[96], more[32] = "";
    if (show->n_page > 1)
        snprintf (more, sizeof more, " and %u more", show->n_page - 1);
    snprintf (title, sizeof title, "Event %" PRId64 ":%" PRId64 ":%" PRId64 "%s", show->event.run,
              show->event.subrun, show->event.event, more);
    wm_show_live_begin (title, out);
    fputs ("<main>\n<div id=\"still\">\n", out);
}

static void put_fact (FILE *out, const char *name, const char *before, const char *text)
{
    wm_page_row (out, "%s", name);
    wm_page_put (out, "td", "%s%s", before, text);
    fputs ("</tr>\n", out);
}

static wm_fault_t write_head (const wm_show_t *show, FILE *out, wm_error_t *error)
{
    char text[32];
    const wm_fault_t fault = wm_show_live (show, out, error);
    if (show->n_page > 1)
        wm_page_put (out, "h2", "Event %" PRId64 ":%" PRId64 ":%" PRId64, show->event.run,
                     show->event.subrun, show->event.event);
    wm_page_table (out, "What is shown");
    put_fact (out, "Scores", "", show->path);
    if (show->against)
        put_fact (out, "Compared with", "", show->against);
    if (*show->input)
        put_fact (out, "Input", "", show->input);
    if (*show->without)
        put_fact (out, "Charge", "not on this page: ", show->without);
    put_fact (out, "Model (SHA-256)", "", show->model);
    if (!is_image (show))
        put_fact (out, show->n_point ? "Space points of the event" : "Hits of the event", "",
                  wm_page_count (show->n_point ? show->n_point : show->event.n_hit, text));
    wm_page_table_end (out);
    return fault;
}

/* How many hits of the plane have which label: columns by score, rows by truth where there is
   some.  */
static void write_counts (const wm_show_t *show, uint32_t plane, FILE *out)
{
    const uint32_t n = show->scores.n_label, n_row = show->truth ? n : 1;
    uint32_t *count = calloc ((size_t) (n + 1) * (n + 1), sizeof *count);
    for (uint32_t i = 0; i < show->event.n_hit && count; i++) {
        const wm_hit_t *hit = &show->event.hit[i];
        if (!is_on (hit, &show->event.plane[plane]) || (show->truth && show->truth[hit->row] < 0))
            continue;
        const uint32_t row = show->truth ? (uint32_t) show->truth[hit->row] : 0;
        count[row * (n + 1) + wm_show_label (show, hit->row)]++;
    }
    char rule[WM_CALL_TEXT_BYTES], caption[200];
    snprintf (caption, sizeof caption, "%s%s called: %s", show->n_point ? "Space points" : "Hits",
              show->truth ? ": rows by truth, columns by what they are" : " by what they are",
              wm_call_rule_text (&show->call, rule));
    wm_page_table (out, caption);
    wm_page_heads_of (out, show->truth ? "Truth" : "Truth is not known", show->scores.label, n,
                      "#held");
    for (uint32_t r = 0; r < n_row && count; r++) {
        wm_page_row (out, "%s", show->truth ? show->scores.label[r] : "all");
        for (uint32_t k = 0; k <= n; k++)
            wm_page_count_cell (out, count[r * (n + 1) + k]);
        fputs ("</tr>\n", out);
    }
    wm_page_table_end (out);
    free (count);
}

static void write_hit (const wm_show_t *show, FILE *out)
{
    const wm_hit_t *hit = &show->event.hit[show->hit];
    fputs ("<section>", out);
    wm_page_put (out, "h3",
                 show->event.first_tick ? "%s %" PRId64 " on wire %d at tick %.2f"
                                        : "%s %" PRId64 " on wire %d at tick %.9g",
                 show->n_point ? "Space point" : "Hit", show->id[3], hit->wire,
                 (double) hit->time + (double) show->event.first_tick);
    wm_page_table (out, show->against ? "Its scores here, and in what is compared" : "Its scores");
    wm_page_heads (out, show->against ? "Label|#Here|#There|Truth" : "Label|#Score|Truth");
    for (uint32_t k = 0; k < show->scores.n_label; k++) {
        wm_page_row (out, "%s", show->scores.label[k]);
        wm_page_put (out, "td class=\"n\"", "%.7g", wm_show_score (show, k, hit->row));
        if (show->against)
            wm_page_put (out, "td class=\"n\"", "%.7g", wm_show_other (show, k, hit->row));
        fputs (show->truth && show->truth[hit->row] == (int32_t) k ? "<td>truth</td></tr>\n"
                                                                   : "<td></td></tr>\n",
               out);
    }
    wm_page_table_end (out);
    if (show->scores.status[hit->row] != WM_HIT_SCORED)
        wm_page_put (out, "p", "Held: %s", wm_hit_status_text (show->scores.status[hit->row]));
    fputs ("</section>\n", out);
}

/* As physicists call the planes of a TPC.  */
static const char *plane_name (int32_t plane)
{
    static const char *const name[] = { " (U)", " (V)", " (W)" };
    return plane >= 0 && plane < 3 ? name[plane] : "";
}

static wm_fault_t write_plane (views_t *views, FILE *out, wm_error_t *error)
{
    const wm_show_t *show = views->show;
    const wm_event_plane_t *plane = &show->event.plane[views->plane];
    wm_fault_t fault = WM_OK;
    char text[64], id[40], name[24];
    fputs ("<section>", out);
    snprintf (id, sizeof id, "h2 id=\"%s\"", wm_show_name (show, "plane", views->plane, name));
    wm_page_put (out, id, "Cryostat %d, TPC %d, plane %d%s%s", plane->cryostat, plane->tpc,
                 plane->plane, plane_name (plane->plane),
                 has_channels (show) ? channel_text (&show->spec, plane->channel, text) : "");
    if (!is_image (show))
        write_counts (show, views->plane, out);
    if (show->hit != UINT32_MAX && is_on (&show->event.hit[show->hit], plane) && !plane->channel)
        write_hit (show, out);
    fputs ("<div class=\"pair\">", out);
    for (uint32_t i = 0; i < views->n && !fault; i++) {
        const wm_plane_view_t *view = &views->view[i];
        fputs (view->is_signed ? "<figure>" : "<figure class=\"wide\" tabindex=\"0\">", out);
        fault = wm_view_svg (view, out, 0, error);
        wm_page_put (out, "figcaption", "%s. %s.", view->title, view->about);
        fputs ("</figure>\n", out);
    }
    fputs ("</div></section>\n", out);
    return fault;
}

/* ---- together -------------------------------------------------------------------------------- */

static uint32_t hits_on (const wm_show_t *show, uint32_t plane)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < show->event.n_hit; i++)
        n += is_on (&show->event.hit[i], &show->event.plane[plane]);
    return n;
}

static bool is_wanted (const wm_show_t *show, uint32_t k)
{
    const wm_event_plane_t *plane = &show->event.plane[k];
    if (show->hit != UINT32_MAX)
        return is_on (&show->event.hit[show->hit], plane);
    return (show->cryostat < 0 || show->cryostat == plane->cryostat) &&
           (show->tpc < 0 || show->tpc == plane->tpc) &&
           (show->plane < 0 || show->plane == plane->plane);
}

/* The plane with most hits of those that are asked for; UINT32_MAX: the event has no such
   plane.  */
static uint32_t fullest (const wm_show_t *show)
{
    uint32_t best = UINT32_MAX, most = 0;
    for (uint32_t k = 0; k < show->event.n_plane; k++) {
        const uint32_t n = is_wanted (show, k) ? hits_on (show, k) : 0;
        if (is_wanted (show, k) && (best == UINT32_MAX || n > most)) {
            best = k;
            most = n;
        }
    }
    return best;
}

static wm_fault_t draw_plane (const wm_show_t *show, uint32_t plane, FILE *out, wm_error_t *error)
{
    views_t *views = calloc (1, sizeof *views);
    if (!views)
        return wm_fault (error, WM_EHOST, "out of memory for a picture");
    views->show = show;
    views->plane = plane;
    wm_fault_t fault = views_make (views, error);
    if (!fault)
        fault = show->kind == WM_SHOW_SVG ? draw_svg (views, out, error)
                                          : write_plane (views, out, error);
    views_clear (views);
    free (views);
    return fault;
}

/* Whether the event has planes, and one that is asked for.  */
static wm_fault_t choose_plane (const wm_show_t *show, uint32_t *plane, wm_error_t *error)
{
    *plane = fullest (show);
    if (!show->event.n_plane)
        return wm_fault (error, WM_EUSAGE,
                         "%.200s: event %lld:%lld:%lld has no planes there%s: choose another by "
                         "--event RUN:SUBRUN:EVENT",
                         show->input, (long long) show->event.run, (long long) show->event.subrun,
                         (long long) show->event.event,
                         show->event.is_missing ? ", only hits" : "");
    return *plane == UINT32_MAX
               ? wm_fault (error, WM_EUSAGE,
                           "the event has no such plane; it has %u planes in all: leave out "
                           "--plane, and --output e.html has them all",
                           show->event.n_plane)
               : WM_OK;
}

static bool has_score (const wm_show_t *show)
{
    for (uint32_t k = 0; k < show->scores.n_label && show->score; k++)
        if (!strcmp (show->scores.label[k], show->score))
            return true;
    return !show->score;
}

static bool is_drawn (const wm_show_t *show, uint32_t k)
{
    return is_wanted (show, k) && (is_image (show) || hits_on (show, k) || show->plane >= 0);
}

/* Adds the charge of the other planes of the TPC, which are not drawn, for the script: its views
   lie on one axis.  */
static wm_fault_t write_unseen (const wm_show_t *show, uint32_t drawn, FILE *out, wm_error_t *error)
{
    const wm_event_plane_t *plane = show->event.plane;
    wm_fault_t fault = WM_OK;
    for (uint32_t k = 0; k < show->event.n_plane && !fault; k++) {
        if (is_drawn (show, k) || plane[k].channel || plane[k].tpc != plane[drawn].tpc ||
            plane[k].cryostat != plane[drawn].cryostat || !hits_on (show, k))
            continue;
        wm_plane_view_t view = { .width = PLANE_WIDTH, .height = PLANE_HEIGHT };
        view.x.to = fmax (1, plane[k].n_wire);
        view.y.to = fmax (1, show->event.n_tick);
        if (show->has_zoom) {
            view.x = (wm_svg_axis_t){ .from = show->zoom[0], .to = show->zoom[1] };
            view.y = (wm_svg_axis_t){ .from = show->zoom[2], .to = show->zoom[3] };
        }
        axes_name (show, &view);
        wm_show_name (show, "charge", k, view.id);
        fault = wm_view_charge (&view, &show->event, k, error);
        fputs ("<div hidden>", out);
        if (!fault)
            fault = wm_view_svg (&view, out, 0, error);
        fputs ("</div>\n", out);
        wm_view_clear (&view);
    }
    return fault;
}

static void write_index (const wm_show_t *show, FILE *out)
{
    char text[32], name[24];
    fputs ("<nav aria-label=\"planes\" class=\"columns\">\n", out);
    for (uint32_t k = 0; k < show->event.n_plane; k++) {
        const wm_event_plane_t *plane = &show->event.plane[k];
        if (!is_drawn (show, k))
            continue;
        fprintf (out, "<span><a href=\"#%s\">TPC %d, plane %d%s</a>",
                 wm_show_name (show, "plane", k, name), plane->tpc, plane->plane,
                 plane_name (plane->plane));
        if (!is_image (show))
            fprintf (out, ": %s", wm_page_count (hits_on (show, k), text));
        fputs ("</span>\n", out);
    }
    fputs ("</nav>\n", out);
}

static wm_fault_t check (const wm_show_t *show, uint32_t *plane, wm_error_t *error)
{
    if (!has_score (show))
        return wm_fault (error, WM_EUSAGE,
                         "--score %.40s: the output has no such score; `wiremill show` prints all "
                         "names of its columns",
                         show->score);
    const wm_fault_t fault = choose_plane (show, plane, error);
    if (!fault && show->has_zoom &&
        (show->zoom[0] >= show->event.plane[*plane].n_wire || show->zoom[2] >= show->event.n_tick))
        return wm_fault (error, WM_EUSAGE,
                         "--zoom lies outside the plane, which has %u wires and %u ticks",
                         show->event.plane[*plane].n_wire, show->event.n_tick);
    return fault;
}

/* Writes an event: what the script draws, and its pictures.  */
static wm_fault_t write_event (const wm_show_t *show, uint32_t plane, FILE *out, wm_error_t *error)
{
    wm_fault_t fault;
    fputs ("<section class=\"event\">\n", out);
    fault = write_head (show, out, error);
    write_index (show, out);
    for (uint32_t k = 0; k < show->event.n_plane && !fault; k++)
        if (is_drawn (show, k))
            fault = draw_plane (show, k, out, error);
    if (!fault)
        fault = write_unseen (show, plane, out, error);
    fputs ("</section>\n", out);
    if (!fault && show->n_page > 1 && ftell (out) > PAGE_BYTES_MAX)
        fault =
            wm_fault (error, WM_EUSAGE,
                      "%u of %u events pass the %ld MB that a page of several may have: name "
                      "fewer by --events, as %u-%u",
                      show->page_at + 1, show->n_page, PAGE_BYTES_MAX / 1000000, show->page_from,
                      show->page_from + (show->page_at ? show->page_at - 1 : 0));
    return fault;
}

/* Writes the events, and why others of them are not drawn. The fault of the first one if none is
   drawn.  */
static wm_fault_t write_events (wm_show_t *show, FILE *out, FILE *undrawn, wm_error_t *error)
{
    wm_error_t why;
    uint32_t plane, n_drawn = 0;
    wm_fault_t fault = WM_OK;
    for (bool is_first = true; !fault && (is_first || show->page_at + 1 < show->n_page);
         is_first = false) {
        fault = is_first ? WM_OK : wm_show_turn (show, error);
        const wm_fault_t none = fault ? WM_OK : check (show, &plane, &why);
        if (none && (is_first || show->n_page == 1))
            *error = why;
        if (none && show->n_page == 1)
            fault = none;
        else if (none)
            wm_page_put (undrawn, "p", "Not drawn: %s", why.text);
        else if (!fault)
            fault = write_event (show, plane, out, error);
        n_drawn += !fault && !none;
    }
    return fault || n_drawn ? fault : error->fault;
}

wm_fault_t wm_show_draw (wm_show_t *show, FILE *out, wm_error_t *error)
{
    char *text = NULL;
    size_t bytes = 0;
    uint32_t plane;
    if (show->kind != WM_SHOW_HTML) {
        const wm_fault_t fault = check (show, &plane, error);
        return fault ? fault : draw_plane (show, plane, out, error);
    }
    FILE *undrawn = open_memstream (&text, &bytes);
    if (!undrawn)
        return wm_fault (error, WM_EHOST, "out of memory for a page");
    write_begin (show, out);
    const wm_fault_t fault = write_events (show, out, undrawn, error);
    fclose (undrawn);
    fputs ("</div>\n", out);
    fwrite (text, 1, bytes, out);
    free (text);
    wm_page_end (out);
    return fault;
}

wm_fault_t wm_show_figure (const wm_show_t *show, FILE *out, wm_error_t *error)
{
    views_t views = { .show = show };
    wm_fault_t fault = choose_plane (show, &views.plane, error);
    if (fault)
        return fault;
    const wm_event_plane_t *plane = &show->event.plane[views.plane];
    const double range[4] = { 0, fmax (1, plane->n_wire), 0, fmax (1, show->event.n_tick) };
    wm_plane_view_t *view = &views.view[0];
    fault = view_add (&views, range, false, error);
    fputs ("<figure class=\"wide\" tabindex=\"0\">", out);
    if (!fault && hits_on (show, views.plane) > FIGURE_DOTS_MAX)
        wm_view_paint (view);
    if (!fault)
        fault = wm_view_svg (view, out, 0, error);
    const char *slash = strrchr (show->path, '/');
    wm_page_put (out, "figcaption", "%s: %s. %s.", slash ? slash + 1 : show->path, view->title,
                 view->about);
    fputs ("</figure>\n", out);
    views_clear (&views);
    return fault;
}
