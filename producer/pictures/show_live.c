/* show_live.c - the interactive part of an event's page: event.js with its style, and what it
   draws: facts and planes as attributes of hidden elements, columns of hits as base64 of zlib's
   format. There the lowest bytes of all values come first, then the next ones, which compresses.

   The script reads charge from the still pictures of the page (wm_plane_view.h), which remain for
   paper, and for browsers that run no script.  */
#include "producer/pictures/show_event.h"

#include "schema/page/wm_page.h"
#include "schema/page/wm_svg.h"
#include "schema/wm_batch.h"

#include <inttypes.h>
#include <libdeflate.h>
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

/* ---- columns --------------------------------------------------------------------------------- */

#define LEVEL 6
#define WIDTH_MAX 8u /* bytes of a value */

typedef struct {
    const wm_show_t *show;
    const uint32_t *order; /* hits of the event, by plane */
    uint32_t n;
    void *value; /* (n) of a column at a time */
    uint8_t *plain, *packed;
    size_t packed_max;
    struct libdeflate_compressor *compressor;
    FILE *out;
} columns_t;

static void columns_free (columns_t *self)
{
    libdeflate_free_compressor (self->compressor);
    free (self->value);
    free (self->plain);
    free (self->packed);
}

/* For columns of at most n numbers, of at most `width` bytes each.  */
static wm_fault_t columns_new (columns_t *self, size_t n, size_t width, wm_error_t *error)
{
    const size_t bytes = width * (n + 1);
    self->compressor = libdeflate_alloc_compressor (LEVEL);
    self->packed_max =
        self->compressor ? libdeflate_zlib_compress_bound (self->compressor, bytes) : 0;
    self->value = malloc (bytes);
    self->plain = malloc (bytes);
    self->packed = malloc (self->packed_max);
    return self->compressor && self->value && self->plain && self->packed
               ? WM_OK
               : wm_fault (error, WM_EHOST, "out of memory for columns of %zu numbers", n);
}

/* Writes what is in `value`, n numbers of so many bytes.  */
static void write_numbers (columns_t *self, const char *name, uint32_t k, size_t width, size_t n)
{
    const uint8_t *value = self->value;
    for (size_t b = 0; b < width; b++)
        for (size_t i = 0; i < n; i++)
            self->plain[b * n + i] = value[i * width + b];
    fprintf (self->out, "<script type=\"text/plain\" data-name=\"%s-%u\">", name, k);
    wm_svg_base64 (self->out, self->packed,
                   libdeflate_zlib_compress (self->compressor, self->plain, n * width, self->packed,
                                             self->packed_max));
    fputs ("</script>\n", self->out);
}

static void write_array (columns_t *self, const char *name, uint32_t k, size_t width)
{
    write_numbers (self, name, k, width, self->n);
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* How many hits of the event the other output has that this one lacks.  */
static uint32_t count_extra (const wm_show_t *show)
{
    const int64_t id[3] = { show->event.run, show->event.subrun, show->event.event };
    uint32_t n = 0;
    for (uint32_t i = 0; i < show->other.n_row; i++)
        n += !memcmp (show->other.key[i].id, id, sizeof id);
    for (uint32_t i = 0; i < show->scores.n_row; i++) /* not by hits: a space point has several */
        n -= !memcmp (show->scores.key[i].id, id, sizeof id) && show->match[i] != UINT32_MAX;
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
             "<div%s class=\"facts\" hidden data-event=\"%" PRId64 ":%" PRId64 ":%" PRId64
             "\" data-n=\"%u\" data-ticks=\"%u\" data-patch=\"%u %u %u\" data-sigmoid=\"%u\"",
             show->page_at ? "" : " id=\"facts\"", event->run, event->subrun, event->event, n,
             event->n_tick, show->spec.patch_wire, show->spec.patch_bin, show->spec.drift_window,
             show->call.sigmoid);
    put (out, "rows", wm_show_rows (show));
    if (show->n_point)
        fprintf (out, " data-points=\"%u\"", show->n_point);
    if (show->against) {
        put (out, "a", show->path);
        put (out, "b", show->against);
        fprintf (out, " data-extra=\"%u\"", count_extra (show));
    }
    if (show->spec.result == WM_RESULT_IMAGE) {
        put (out, "image", show->spec.table);
        put (out, "without", show->without);
        fprintf (out, " data-window=\"%u\"", show->spec.drift_window);
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

/* Hits have all planes, since a link may lead to any; images those that are asked for.  */
static bool is_wanted (const wm_show_t *show, uint32_t p)
{
    const wm_event_plane_t *plane = &show->event.plane[p];
    return !plane->channel && (show->spec.result != WM_RESULT_IMAGE ||
                               ((show->cryostat < 0 || show->cryostat == plane->cryostat) &&
                                (show->tpc < 0 || show->tpc == plane->tpc) &&
                                (show->plane < 0 || show->plane == plane->plane)));
}

/* The planes, whose hits are first .. first+count-1 of the columns.  */
static void write_planes (const wm_show_t *show, const uint32_t *first, FILE *out)
{
    for (uint32_t p = 0; p < show->event.n_plane; p++) {
        const wm_event_plane_t *plane = &show->event.plane[p];
        char name[24];
        if (!is_wanted (show, p))
            continue;
        fprintf (out,
                 "<b data-cryostat=\"%d\" data-tpc=\"%d\" data-plane=\"%d\" data-wires=\"%u\" "
                 "data-first=\"%u\" data-count=\"%u\" data-charge=\"%s\"",
                 plane->cryostat, plane->tpc, plane->plane, plane->n_wire, first[p],
                 first[p + 1] - first[p], wm_show_name (show, "charge", p, name));
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

static const wm_hit_t *hit_at (const columns_t *self, uint32_t i)
{
    return &self->show->event.hit[self->order[i]];
}

static int64_t number_of (const columns_t *self, uint32_t i)
{
    return self->show->scores.key[hit_at (self, i)->row].id[3];
}

static void write_places (columns_t *self)
{
    const uint32_t n = self->n;
    const wm_show_t *show = self->show;
    int32_t *whole = self->value;
    float *real = self->value;
    double *wide = self->value;
    uint8_t *byte = self->value;
    for (uint32_t i = 0; i < n; i++)
        whole[i] = hit_at (self, i)->wire;
    write_array (self, "wire", 0, sizeof *whole);
    for (uint32_t i = 0; i < n; i++)
        real[i] = hit_at (self, i)->time;
    write_array (self, "tick", 0, sizeof *real);
    for (uint32_t i = 0; i < n; i++)
        byte[i] = show->scores.status[hit_at (self, i)->row];
    write_array (self, "status", 0, 1);
    bool is_wide = false;
    for (uint32_t i = 0; i < n; i++) {
        wide[i] = (double) number_of (self, i);
        is_wide |= number_of (self, i) != (int32_t) number_of (self, i);
    }
    for (uint32_t i = 0; i < n && !is_wide; i++)
        whole[i] = (int32_t) number_of (self, i);
    write_array (self, "id", is_wide, is_wide ? sizeof *wide : sizeof *whole);
    for (uint32_t i = 0; i < n && show->truth; i++) {
        const int32_t truth = show->truth[hit_at (self, i)->row];
        byte[i] = truth < 0 ? UINT8_MAX : (uint8_t) truth;
    }
    if (show->truth)
        write_array (self, "truth", 0, 1);
}

/* Status and scores of the same hits in the other output.  */
static void write_other (columns_t *self)
{
    const wm_show_t *show = self->show;
    float *real = self->value;
    uint8_t *byte = self->value;
    for (uint32_t i = 0; i < self->n; i++) {
        const uint32_t match = show->match[hit_at (self, i)->row];
        byte[i] = match == UINT32_MAX ? UINT8_MAX : show->other.status[match];
    }
    write_array (self, "status", 1, 1);
    for (uint32_t k = 0; k < show->scores.n_label; k++) {
        for (uint32_t i = 0; i < self->n; i++)
            real[i] = (float) wm_show_other (show, k, hit_at (self, i)->row);
        write_array (self, "other", k, sizeof *real);
    }
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Puts a plane of an event (n_wire, n_bin) into `cell`; of several ticks of a bin the value that is
   farthest from 0.  */
static void plane_fill (const wm_event_t *event, uint32_t p, uint32_t window, float *cell,
                        uint32_t n_wire, uint32_t n_bin)
{
    for (uint32_t r = 0; r < event->plane[p].roi_count; r++) {
        const wm_roi_t *roi = &event->roi[event->plane[p].roi_first + r];
        for (uint32_t i = 0; i < roi->count && roi->wire < n_wire; i++) {
            const uint32_t bin = (roi->tick + i) / window;
            const float value = event->sample[roi->value + i];
            float *to = bin < n_bin ? &cell[(size_t) roi->wire * n_bin + bin] : NULL;
            if (to && (window == 1 || fabsf (value) > fabsf (*to)))
                *to = value;
        }
    }
}

/* Values of a plane's cells, and the charge that the network saw there.  */
static void write_image (columns_t *self, uint32_t p)
{
    const wm_show_t *show = self->show;
    const wm_event_plane_t *plane = &show->event.plane[p];
    const size_t n = (size_t) plane->n_wire * show->event.n_tick;
    float *cell = self->value;
    for (size_t i = 0; i < n; i++)
        cell[i] = NAN;
    plane_fill (&show->event, p, 1, cell, plane->n_wire, show->event.n_tick);
    write_numbers (self, "value", p, sizeof *cell, n);
    const uint32_t of = wm_event_plane (&show->charge, plane->cryostat, plane->tpc, plane->plane);
    if (of == UINT32_MAX)
        return;
    memset (cell, 0, n * sizeof *cell);
    plane_fill (&show->charge, of, show->spec.drift_window, cell, plane->n_wire,
                show->event.n_tick);
    write_numbers (self, "charge", p, sizeof *cell, n);
}

static wm_fault_t write_images (const wm_show_t *show, FILE *out, wm_error_t *error)
{
    columns_t columns = { .show = show, .out = out };
    uint32_t *first = calloc (show->event.n_plane + 2ul, sizeof *first);
    size_t most = 0;
    for (uint32_t p = 0; p < show->event.n_plane; p++)
        if (show->event.plane[p].n_wire > most)
            most = show->event.plane[p].n_wire;
    wm_fault_t fault =
        first ? columns_new (&columns, most * show->event.n_tick, sizeof (float), error)
              : wm_fault (error, WM_EHOST, "out of memory for planes");
    if (!fault) {
        write_facts (show, 0, out);
        write_planes (show, first, out);
        for (uint32_t p = 0; p < show->event.n_plane; p++)
            if (is_wanted (show, p))
                write_image (&columns, p);
        fputs ("</div>\n", out);
    }
    columns_free (&columns);
    free (first);
    return fault;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void write_all (columns_t *self, const uint32_t *first)
{
    const wm_show_t *show = self->show;
    float *real = self->value;
    write_facts (show, self->n, self->out);
    write_planes (show, first, self->out);
    if (self->n)
        write_places (self);
    for (uint32_t k = 0; k < show->scores.n_label && self->n; k++) {
        for (uint32_t i = 0; i < self->n; i++)
            real[i] = (float) wm_show_score (show, k, hit_at (self, i)->row);
        write_array (self, "score", k, sizeof *real);
    }
    if (show->against && self->n)
        write_other (self);
    fputs ("</div>\n", self->out);
}

wm_fault_t wm_show_live (const wm_show_t *show, FILE *out, wm_error_t *error)
{
    if (show->spec.result == WM_RESULT_IMAGE)
        return write_images (show, out, error);
    const size_t n_first = show->event.n_plane + 2ul;
    columns_t columns = { .show = show, .n = show->event.n_hit, .out = out };
    uint32_t *first = calloc (2 * n_first, sizeof *first),
             *order = malloc ((columns.n + (size_t) 1) * sizeof *order);
    wm_fault_t fault = first && order
                           ? columns_new (&columns, columns.n, WIDTH_MAX, error)
                           : wm_fault (error, WM_EHOST, "out of memory for %u hits", columns.n);
    if (!fault) {
        sort_hits (show, first, order, columns.value, first + n_first);
        columns.order = order;
        write_all (&columns, first);
    }
    columns_free (&columns);
    free (first);
    free (order);
    return fault;
}
