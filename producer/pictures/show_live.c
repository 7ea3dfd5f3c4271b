/* show_live.c - the interactive part of an event's page: event.js with its style, and what it
   draws: facts and planes as attributes of hidden elements, columns of hits as base64.

   The script reads charge from the still pictures of the page (wm_plane_view.h), which remain for
   paper, and for browsers that run no script.  */
#include "producer/pictures/show_event.h"

#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"
#include "schema/wm_batch.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] = "\n"
#include "event.css.inc"
    ;
static const char script[] = "\n"
#include "event.js.inc"
    ;

void wm_show_live_begin (const char *title, FILE *out)
{
    wm_page_begin_script (out, title, style, script);
}

static void put (FILE *out, const char *name, const char *value)
{
    fprintf (out, " data-%s=\"", name);
    wm_svg_text (out, value);
    fputs ("\"", out);
}

/* Nothing where the value is not known.  */
static void put_number (FILE *out, const char *name, double value)
{
    if (isfinite (value))
        fprintf (out, " data-%s=\"%.17g\"", name, value);
}

static void write_array (FILE *out, const char *name, uint32_t k, const void *value, size_t bytes)
{
    fprintf (out, "<script type=\"text/plain\" id=\"a-%s-%u\">", name, k);
    wm_svg_base64 (out, value, bytes);
    fputs ("</script>\n", out);
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* How many hits of the event the other output has that this one lacks.  */
static uint32_t count_extra (const wm_show_t *show)
{
    const int64_t id[3] = { show->event.run, show->event.subrun, show->event.event };
    uint32_t n = 0;
    for (uint32_t i = 0; i < show->other.n_row; i++)
        n += !memcmp (show->other.key[i].id, id, sizeof id);
    for (uint32_t i = 0; i < show->event.n_hit; i++)
        n -= show->match[show->event.hit[i].row] != UINT32_MAX;
    return n;
}

static void write_facts (const wm_show_t *show, uint32_t n, FILE *out)
{
    const wm_event_t *event = &show->event;
    const char *slash = strrchr (show->path, '/');
    char mark[24] = "";
    if (show->hit != UINT32_MAX)
        snprintf (mark, sizeof mark, "%" PRId64, show->id[3]);
    fprintf (out,
             "<div id=\"facts\" hidden data-event=\"%" PRId64 ":%" PRId64 ":%" PRId64
             "\" data-n=\"%u\" data-ticks=\"%u\" data-patch=\"%u %u %u\" data-sigmoid=\"%u\"",
             event->run, event->subrun, event->event, n, event->n_tick, show->spec.patch_wire,
             show->spec.patch_bin, show->spec.drift_window, show->call.sigmoid);
    put (out, "rows", show->spec.points == WM_POINTS_WINDOWS ? "windows" : "hits");
    if (show->against) {
        put (out, "a", show->path);
        put (out, "b", show->against);
        fprintf (out, " data-extra=\"%u\"", count_extra (show));
    }
    put (out, "file", slash ? slash + 1 : show->path);
    put (out, "hit", mark);
    put_number (out, "least", show->call.least);
    put_number (out, "first-tick", (double) event->first_tick);
    put_number (out, "tick-us", event->tick_us);
    put_number (out, "tick-cm", wm_show_tick_cm (show));
    put_number (out, "trigger", wm_show_trigger (show));
    if (show->truth)
        fputs (" data-truth=\"yes\"", out);
    fputs (">\n", out);
    for (uint32_t k = 0; k < show->scores.n_label; k++) {
        fputs ("<i", out);
        put (out, "label", show->scores.label[k]);
        put (out, "colour", wm_svg_colour (show->scores.label[k], k));
        fputs ("></i>\n", out);
    }
    for (uint32_t s = 0; s < WM_HIT_STATUSES; s++) {
        fputs ("<u", out);
        put (out, "status", wm_hit_status_text ((uint8_t) s));
        fputs ("></u>\n", out);
    }
}

/* The planes, whose hits are first .. first+count-1 of the columns.  */
static void write_planes (const wm_show_t *show, const uint32_t *first, FILE *out)
{
    for (uint32_t p = 0; p < show->event.n_plane; p++) {
        const wm_event_plane_t *plane = &show->event.plane[p];
        if (plane->channel)
            continue;
        fprintf (out,
                 "<b data-cryostat=\"%d\" data-tpc=\"%d\" data-plane=\"%d\" data-wires=\"%u\" "
                 "data-first=\"%u\" data-count=\"%u\" data-charge=\"charge-%u\"",
                 plane->cryostat, plane->tpc, plane->plane, plane->n_wire, first[p],
                 first[p + 1] - first[p], p);
        if (plane->pitch_cm > 0)
            put_number (out, "pitch", (double) plane->pitch_cm);
        if (show->has_zoom)
            fprintf (out, " data-range=\"%.17g %.17g %.17g %.17g\"", show->zoom[0], show->zoom[1],
                     show->zoom[2], show->zoom[3]);
        fputs ("></b>\n", out);
    }
}

/* ---- hits ------------------------------------------------------------------------------------ */

/* Puts the event's hits in the order of their planes, those without one last. `first` has room for
   two more than planes; `space` for the hits, and `next` for what `first` has.  */
static void sort_hits (const wm_show_t *show, uint32_t *first, uint32_t *order, uint32_t *space,
                       uint32_t *next)
{
    const wm_event_t *event = &show->event;
    for (uint32_t i = 0; i < event->n_hit; i++) {
        const wm_hit_t *hit = &event->hit[i];
        const uint32_t p = wm_event_plane (event, hit->cryostat, hit->tpc, hit->plane);
        space[i] = p == UINT32_MAX ? event->n_plane : p;
        first[space[i] + 1]++;
    }
    for (uint32_t p = 0; p <= event->n_plane; p++)
        first[p + 1] += first[p];
    memcpy (next, first, (event->n_plane + 2ul) * sizeof *next);
    for (uint32_t i = 0; i < event->n_hit; i++)
        order[next[space[i]]++] = i;
}

static void write_places (const wm_show_t *show, const uint32_t *order, void *space, FILE *out)
{
    const uint32_t n = show->event.n_hit;
    int32_t *whole = space;
    float *real = space;
    double *wide = space;
    uint8_t *byte = space;
    for (uint32_t i = 0; i < n; i++)
        whole[i] = show->event.hit[order[i]].wire;
    write_array (out, "wire", 0, space, n * sizeof *whole);
    for (uint32_t i = 0; i < n; i++)
        real[i] = show->event.hit[order[i]].time;
    write_array (out, "tick", 0, space, n * sizeof *real);
    for (uint32_t i = 0; i < n; i++)
        byte[i] = show->scores.status[show->event.hit[order[i]].row];
    write_array (out, "status", 0, space, n);
    bool is_wide = false;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t id = show->scores.key[show->event.hit[order[i]].row].id[3];
        wide[i] = (double) id;
        is_wide |= id != (int32_t) id;
    }
    for (uint32_t i = 0; i < n && !is_wide; i++)
        whole[i] = (int32_t) show->scores.key[show->event.hit[order[i]].row].id[3];
    write_array (out, "id", is_wide, space, n * (is_wide ? sizeof *wide : sizeof *whole));
    for (uint32_t i = 0; i < n && show->truth; i++) {
        const int32_t truth = show->truth[show->event.hit[order[i]].row];
        byte[i] = truth < 0 ? UINT8_MAX : (uint8_t) truth;
    }
    if (show->truth)
        write_array (out, "truth", 0, space, n);
}

/* Status and scores of the same hits in the other output.  */
static void write_other (const wm_show_t *show, const uint32_t *order, void *space, FILE *out)
{
    const uint32_t n = show->event.n_hit;
    float *real = space;
    uint8_t *byte = space;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t match = show->match[show->event.hit[order[i]].row];
        byte[i] = match == UINT32_MAX ? UINT8_MAX : show->other.status[match];
    }
    write_array (out, "status", 1, space, n);
    for (uint32_t k = 0; k < show->scores.n_label; k++) {
        for (uint32_t i = 0; i < n; i++)
            real[i] = (float) wm_show_other (show, k, show->event.hit[order[i]].row);
        write_array (out, "other", k, real, n * sizeof *real);
    }
}

static void write_all (const wm_show_t *show, const uint32_t *first, const uint32_t *order,
                       void *space, FILE *out)
{
    const uint32_t n = show->event.n_hit;
    float *real = space;
    write_facts (show, n, out);
    write_planes (show, first, out);
    fputs ("</div>\n", out);
    if (n)
        write_places (show, order, space, out);
    for (uint32_t k = 0; k < show->scores.n_label && n; k++) {
        for (uint32_t i = 0; i < n; i++)
            real[i] = (float) wm_show_score (show, k, show->event.hit[order[i]].row);
        write_array (out, "score", k, real, n * sizeof *real);
    }
    if (show->against && n)
        write_other (show, order, space, out);
}

wm_fault_t wm_show_live (const wm_show_t *show, FILE *out, wm_error_t *error)
{
    const size_t n = show->event.n_hit + 1ul, n_first = show->event.n_plane + 2ul;
    uint32_t *first = calloc (2 * n_first, sizeof *first), *order = malloc (n * sizeof *order);
    double *space = malloc (n * sizeof *space); /* of a column at a time */
    wm_fault_t fault = WM_OK;
    if (first && order && space) {
        sort_hits (show, first, order, (uint32_t *) space, first + n_first);
        write_all (show, first, order, space, out);
    } else
        fault = wm_fault (error, WM_EHOST, "out of memory for %zu hits", n);
    free (first);
    free (order);
    free (space);
    return fault;
}
