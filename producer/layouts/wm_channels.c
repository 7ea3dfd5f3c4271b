/* wm_channels.c - see wm_channels.h.  */
#include "producer/layouts/wm_channels.h"

#include "schema/base/wm_bisect.h"
#include "schema/base/wm_file.h"
#include "schema/base/wm_path.h"
#include "schema/base/wm_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINES_MAX (1u << 24) /* ten times the wires of the largest detector that is planned */
#define LINE_BYTES 4096u

enum { CHANNEL, CRYOSTAT, TPC, PLANE, WIRE, COLUMNS };
static const char *const column_name[COLUMNS] = { "channel", "cryostat", "tpc", "plane", "wire" };

static wm_channels_t *shared; /* the last that was read, while a reader uses it */

static wm_fault_t quote (const char *path, uint32_t line_number, wm_error_t *error)
{
    return wm_fault (error, WM_EBATCH, "%.300s:%u: a quote (\") does not end on its line", path,
                     line_number);
}

/* Finds the place of each column in the first line.  */
static wm_fault_t head_read (char *line, char separator, const char *path, uint32_t line_number,
                             int place[COLUMNS + 1], wm_error_t *error)
{
    char *at = line;
    const char *first = NULL;
    int i = 0;
    for (int c = 0; c < COLUMNS; c++)
        place[c] = -1;
    for (; at; i++) {
        const char *cell = wm_text_cell (&at, separator);
        if (!cell)
            return quote (path, line_number, error);
        first = first ? first : cell;
        for (int c = 0; c < COLUMNS; c++)
            if (!strcmp (cell, column_name[c])) {
                if (place[c] >= 0)
                    return wm_fault (error, WM_EBATCH, "%.300s:%u: column '%s' is there twice",
                                     path, line_number, cell);
                place[c] = i;
            }
    }
    place[COLUMNS] = i;
    for (int c = 0; c < COLUMNS; c++)
        if (place[c] < 0)
            return wm_fault (error, WM_EBATCH,
                             "%.300s:%u: no column '%s'; a channel map begins with the line "
                             "channel,cryostat,tpc,plane,wire%s",
                             path, line_number, column_name[c],
                             wm_text_unseparated (first, (uint32_t) i));
    return WM_OK;
}

/* place: of each column, and behind them how many cells the first line has.  */
static wm_fault_t line_read (char *line, char separator, const char *path, uint32_t line_number,
                             const int place[COLUMNS + 1], wm_wire_t *wire, wm_error_t *error)
{
    int32_t value[COLUMNS] = { 0 };
    bool has[COLUMNS] = { false };
    char *at = line, *end;
    for (int i = 0; at; i++) {
        const char *cell = wm_text_cell (&at, separator);
        if (!cell)
            return quote (path, line_number, error);
        if (i >= place[COLUMNS] && *cell) /* R names rows, and that column has no name */
            return wm_fault (error, WM_EBATCH,
                             "%.300s:%u: more cells than the %d columns that the first line names",
                             path, line_number, place[COLUMNS]);
        for (int c = 0; c < COLUMNS; c++) {
            if (place[c] != i)
                continue;
            const long number = strtol (cell, &end, 10);
            if (end == cell || *end || number < -1 || number > INT32_MAX)
                return wm_fault (
                    error, WM_EBATCH, "%.300s:%u: %s is '%.40s', not a whole number from %s", path,
                    line_number, column_name[c], cell,
                    c == PLANE || c == WIRE ? "0 on, or -1 where the channel has no wire"
                                            : "0 to 2147483647");
            value[c] = (int32_t) number;
            has[c] = true;
        }
    }
    for (int c = 0; c < COLUMNS; c++)
        if (!has[c])
            return wm_fault (error, WM_EBATCH, "%.300s:%u: the line has no %s", path, line_number,
                             column_name[c]);
    if (value[WIRE] >= (int32_t) WM_EVENT_WIRES_MAX)
        return wm_fault (error, WM_EBATCH, "%.300s:%u: wire %d: a plane has at most %u", path,
                         line_number, value[WIRE], WM_EVENT_WIRES_MAX);
    *wire = (wm_wire_t){ value[CHANNEL], value[CRYOSTAT], value[TPC],
                         value[PLANE],   value[WIRE],     line_number };
    return WM_OK;
}

static wm_fault_t lines_read (wm_channels_t *self, wm_lines_t *lines, wm_error_t *error)
{
    int place[COLUMNS + 1] = { 0 };
    char *line, separator = 0;
    size_t wire_max = 0;
    wm_fault_t fault;
    while (!(fault = wm_lines_next (lines, &line, error)) && line) {
        if (wm_text_is_comment (line))
            continue;
        if (lines->line > LINES_MAX)
            return wm_fault (error, WM_EBATCH, "%.300s: more than %u lines", self->path, LINES_MAX);
        if (!separator) {
            separator = wm_text_separator (line);
            fault = head_read (line, separator, self->path, lines->line, place, error);
        } else if (!(fault = wm_event_reserve (&self->wire, &wire_max, self->n_wire + 1ull,
                                               sizeof *self->wire, error)))
            fault = line_read (line, separator, self->path, lines->line, place,
                               &self->wire[self->n_wire++], error);
        if (fault)
            return fault;
    }
    if (!fault && !self->n_wire)
        fault = wm_fault (error, WM_EBATCH, "%.300s: the channel map has no wires", self->path);
    return fault;
}

static bool has_wire (const wm_wire_t *w)
{
    return w->plane >= 0 && w->wire >= 0;
}

/* Lists the planes; wires are in the order of their places.  */
static wm_fault_t planes_list (wm_channels_t *self, wm_error_t *error)
{
    size_t plane_max = 0;
    for (uint32_t i = 0; i < self->n_wire; i++) {
        const wm_wire_t *w = &self->wire[i];
        wm_event_plane_t *last = self->n_plane ? &self->plane[self->n_plane - 1] : NULL;
        if (!has_wire (w))
            continue;
        if (!last || last->cryostat != w->cryostat || last->tpc != w->tpc ||
            last->plane != w->plane) {
            if (wm_event_reserve (&self->plane, &plane_max, self->n_plane + 1ull,
                                  sizeof *self->plane, error))
                return error->fault;
            last = &self->plane[self->n_plane++];
            *last = (wm_event_plane_t){ w->cryostat, w->tpc, w->plane, 0, 0, 0, 0, 0 };
        }
        last->n_wire = (uint32_t) w->wire + 1; /* ascending */
    }
    return WM_OK;
}

static int by_place (const void *a_v, const void *b_v, void *wires)
{
    return wm_wires_order ((wm_wire_t *) wires + *(const uint32_t *) a_v,
                           (wm_wire_t *) wires + *(const uint32_t *) b_v);
}

static wm_fault_t map_read (wm_channels_t *self, wm_error_t *error)
{
    wm_lines_t lines = { .space = NULL };
    const int fd = wm_file_open (self->path, NULL, error);
    wm_fault_t fault =
        fd < 0 ? error->fault : wm_lines_start (&lines, fd, self->path, LINE_BYTES, error);
    if (!fault)
        fault = lines_read (self, &lines, error);
    wm_lines_clear (&lines);
    if (fd >= 0)
        close (fd);
    if (!fault)
        fault = wm_wires_check (self->wire, self->n_wire, self->path, "lines",
                                "write one line for each wire", error);
    if (!fault)
        fault = planes_list (self, error);
    self->place = fault ? NULL : malloc (self->n_wire * sizeof *self->place);
    if (!fault && !self->place)
        fault = wm_fault (error, WM_EHOST, "out of memory");
    if (fault)
        return fault;
    wm_wires_by_channel (self->wire, self->n_wire);
    for (uint32_t i = 0; i < self->n_wire; i++)
        self->place[i] = i;
    qsort_r (self->place, self->n_wire, sizeof *self->place, by_place, self->wire);
    return WM_OK;
}

wm_channels_t *wm_channels_get (const char *path, wm_error_t *error)
{
    uint64_t size = 0;
    int64_t mtime_ns = 0;
    wm_path_stat (path, &size, &mtime_ns);
    if (shared && !strcmp (shared->path, path) && shared->size == size &&
        shared->mtime_ns == mtime_ns) {
        shared->n_user++;
        return shared;
    }
    wm_channels_t *self = calloc (1, sizeof *self);
    if (!self || !(self->path = strdup (path))) {
        free (self);
        wm_fault (error, WM_EHOST, "out of memory");
        return NULL;
    }
    self->size = size;
    self->mtime_ns = mtime_ns;
    self->n_user = 1;
    if (map_read (self, error))
        wm_channels_drop (&self);
    else
        shared = self;
    return self;
}

void wm_channels_drop (wm_channels_t **self_p)
{
    wm_channels_t *self = *self_p;
    *self_p = NULL;
    if (!self || --self->n_user)
        return;
    if (shared == self)
        shared = NULL;
    free (self->wire);
    free (self->place);
    free (self->plane);
    free (self->path);
    free (self);
}

const wm_wire_t *wm_channels_find (const wm_channels_t *self, const wm_hit_t *hit)
{
    const wm_wire_t key = {
        .cryostat = hit->cryostat, .tpc = hit->tpc, .plane = hit->plane, .wire = hit->wire
    };
    const uint32_t at =
        WM_BISECT (0, self->n_wire, i, wm_wires_order (&self->wire[self->place[i]], &key) < 0);
    if (at == self->n_wire)
        return NULL;
    const wm_wire_t *wire = &self->wire[self->place[at]];
    return has_wire (wire) && !wm_wires_order (wire, &key) ? wire : NULL;
}

int wm_channel_compare (const void *a_v, const void *b_v)
{
    const int32_t a = *(const int32_t *) a_v, b = *(const int32_t *) b_v;
    return (a > b) - (a < b);
}

void wm_channels_lack_note (wm_channels_lack_t *self, const wm_channels_t *map, int64_t frame,
                            const int32_t *channel, uint32_t n)
{
    wm_channels_lack_t found = { .frame = frame };
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count;
        wm_wires_of (map->wire, map->n_wire, channel[i], &count);
        if (!count && found.n < sizeof found.first / sizeof *found.first)
            found.first[found.n] = channel[i];
        found.n += !count;
    }
    if (found.n > self->n)
        *self = found;
}

void wm_channels_lack_text (const wm_channels_lack_t *self, const wm_channels_t *map, char *text,
                            size_t bytes_max)
{
    const uint32_t most = sizeof self->first / sizeof *self->first;
    char list[64] = "";
    *text = 0;
    for (uint32_t i = 0; i < self->n && i < most; i++)
        snprintf (list + strlen (list), sizeof list - strlen (list), "%s%d", i ? ", " : "",
                  self->first[i]);
    if (self->n)
        snprintf (text, bytes_max,
                  "%u channel%s of frame %lld (%s%s) %s not in %.200s, and not read: add a line "
                  "for each, with plane and wire -1 where it has none",
                  self->n, self->n == 1 ? "" : "s", (long long) self->frame, list,
                  self->n > most ? ", ..." : "", self->n == 1 ? "is" : "are", map->path);
}
