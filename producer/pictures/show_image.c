/* show_image.c - reads the frame of an event in an output with images (result: image), to be drawn.

   It becomes an event whose ticks are the frame's drift bins and whose charge is the frame's
   values: so one code draws both. Cells of held tiles are NaN, and stay white.  */
#include "producer/pictures/show_event.h"

#include "producer/files/wm_h5.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 48u
#define CELLS_MAX (1ull << 28)       /* of an event: 1 GiB of numbers */
#define PLANE_CELLS_MAX (1ull << 26) /* of a plane, which a page has three times while it is made */

typedef struct {
    const wm_show_t *show;
    wm_h5_t *file;
    char name[NAME_BYTES]; /* of the group; "": none yet */
    int64_t id[3];
} frame_t;

static void path_of (const frame_t *self, const char *kind, char path[NAME_BYTES + 80])
{
    snprintf (path, NAME_BYTES + 80, "%s/%s_%s", self->name, kind, self->show->spec.table);
}

static int order (const int64_t a[3], const int64_t b[3])
{
    int k = 0;
    while (k < 2 && a[k] == b[k])
        k++;
    return (a[k] > b[k]) - (a[k] < b[k]);
}

/* Takes the event that is asked for, else the one with the least numbers.  */
static bool take_frame (void *arg, const char *name)
{
    static const char *const number[] = { "run", "subrun", "event" };
    frame_t *self = arg, one = *self;
    char path[NAME_BYTES + 80];
    if (strlen (name) >= NAME_BYTES)
        return true;
    strcpy (one.name, name);
    path_of (&one, "frame", path);
    if (!wm_h5_has (self->file, path))
        return true;
    for (int k = 0; k < 3; k++) {
        snprintf (path, sizeof path, "%s/%s", name, number[k]);
        if (!wm_h5_number (self->file, path, &one.id[k]))
            return true;
    }
    if (self->show->has_event ? !order (one.id, self->show->id)
                              : !*self->name || order (one.id, self->id) < 0)
        *self = one;
    return true;
}

/* Adds the planes that the frame's wires (n) name.  */
static wm_fault_t planes_add (wm_event_t *event, int32_t (*place)[4], uint64_t n, const char *where,
                              wm_error_t *error)
{
    wm_event_plane_t *plane = NULL;
    for (uint64_t i = 0; i < n; i++) {
        const int32_t *at = place[i];
        if (at[3] < 0 || at[3] >= (int32_t) WM_EVENT_WIRES_MAX)
            return wm_fault (error, WM_EBATCH, "%.300s: there is no wire %d", where, at[3]);
        if (!plane || plane->cryostat != at[0] || plane->tpc != at[1] || plane->plane != at[2]) {
            if (wm_event_reserve (&event->plane, &event->plane_max, event->n_plane + 1ull,
                                  sizeof *event->plane, error))
                return error->fault;
            plane = &event->plane[event->n_plane++];
            *plane = (wm_event_plane_t){ .cryostat = at[0], .tpc = at[1], .plane = at[2] };
        }
        plane->n_wire = (uint32_t) at[3] >= plane->n_wire ? (uint32_t) at[3] + 1 : plane->n_wire;
    }
    return wm_event_sort_planes (event, where, error);
}

/* Each row of the frame is a region of one wire.  */
static wm_fault_t rows_add (wm_event_t *event, int32_t (*place)[4], const wm_column_t *value,
                            const char *where, wm_error_t *error)
{
    wm_fault_t fault = wm_event_reserve (&event->sample, &event->sample_max,
                                         value->n_row * value->width, sizeof (float), error);
    if (!fault)
        fault = wm_h5_read (value, 0, value->n_row, WM_H5_F32, event->sample, error);
    event->n_sample = value->n_row * value->width;
    for (uint64_t i = 0; i < value->n_row && !fault; i++) {
        const wm_roi_t roi = { .plane =
                                   wm_event_plane (event, place[i][0], place[i][1], place[i][2]),
                               .wire = (uint32_t) place[i][3],
                               .count = value->width,
                               .value = i * value->width };
        fault = wm_event_add_roi (event, &roi, error);
    }
    return fault ? fault : wm_event_arrange (event, where, error);
}

/* A small file may name far wires, and many bins.  */
static wm_fault_t check_planes (const wm_event_t *event, const char *where, wm_error_t *error)
{
    uint64_t cells = 0;
    for (uint32_t p = 0; p < event->n_plane; p++) {
        const uint64_t n = (uint64_t) event->plane[p].n_wire * event->n_tick;
        cells += n;
        if (n > PLANE_CELLS_MAX || cells > CELLS_MAX)
            return wm_fault (error, WM_EBATCH,
                             "%.400s: a plane of %u wires and %u drift bins; images of at most "
                             "%llu cells a plane, and %llu in all, are drawn",
                             where, event->plane[p].n_wire, event->n_tick, PLANE_CELLS_MAX,
                             CELLS_MAX);
    }
    return WM_OK;
}

static wm_fault_t frame_read (const frame_t *self, wm_event_t *event, wm_error_t *error)
{
    char path[NAME_BYTES + 80], where[480];
    wm_column_t value = { 0 }, wire = { 0 };
    int32_t (*place)[4] = NULL;
    path_of (self, "frame", path);
    snprintf (where, sizeof where, "%.300s: %s", wm_h5_path (self->file), path);
    wm_fault_t fault = wm_h5_column (self->file, path, WM_H5_FLOAT, 0, &value, error);
    path_of (self, "wires", path);
    if (!fault)
        fault = wm_h5_column (self->file, path, WM_H5_INTEGER, 0, &wire, error);
    if (!fault && (value.n_dim != 2 || !value.width || value.width > WM_EVENT_TICKS_MAX ||
                   wire.n_dim != 2 || wire.width != 4 || wire.n_row != value.n_row))
        fault = wm_fault (error, WM_EBATCH,
                          "%.400s is not a frame of (wires, drift bins) with four numbers of each "
                          "wire",
                          where);
    if (!fault && !(place = calloc (wire.n_row + 1, sizeof *place)))
        fault = wm_fault (error, WM_EHOST, "out of memory for %" PRIu64 " wires", wire.n_row);
    if (!fault)
        fault = wm_h5_read (&wire, 0, wire.n_row, WM_H5_I32, place, error);
    event->n_tick = value.width;
    if (!fault)
        fault = planes_add (event, place, wire.n_row, where, error);
    if (!fault)
        fault = check_planes (event, where, error);
    if (!fault)
        fault = rows_add (event, place, &value, where, error);
    wm_h5_column_close (&value);
    wm_h5_column_close (&wire);
    free (place);
    return fault;
}

void wm_show_charge (wm_show_t *self)
{
    wm_error_t error;
    const wm_event_t *event = &self->event;
    const wm_reader_pair_t frames = { .channels = self->pair.channels, .pedestal = self->pedestal };
    self->reader = wm_reader_open_pair (self->input, &frames, &self->spec, &error);
    wm_fault_t fault = self->reader ? WM_OK : error.fault;
    const uint32_t n = self->reader ? wm_reader_n_event (self->reader) : 0;
    bool is_found = false;
    for (uint32_t i = 0; i < n && !fault && !is_found; i++) {
        fault = wm_reader_event (self->reader, i, &self->charge, &error);
        is_found = !fault && self->charge.run == event->run &&
                   self->charge.subrun == event->subrun && self->charge.event == event->event;
    }
    if (fault)
        snprintf (self->without, sizeof self->without, "%s", error.text);
    else if (!is_found)
        snprintf (self->without, sizeof self->without, "%.300s does not have the event",
                  self->input);
    if (fault || !is_found)
        wm_event_reset (&self->charge);
}

wm_fault_t wm_show_image (wm_show_t *show, wm_h5_t *file, wm_error_t *error)
{
    frame_t frame = { .show = show, .file = file };
    wm_event_t *event = &show->event;
    show->hit = UINT32_MAX;
    show->n_page = 1;
    if (show->has_pages)
        return wm_fault (error, WM_EUSAGE,
                         "%.300s: images of planes: a page has one event; name it by --event",
                         show->path);
    if (show->has_hit || show->is_worst || show->against)
        return wm_fault (
            error, WM_EUSAGE,
            "%.300s: images of planes, which have no hits: leave out --hit, --worst and --against",
            show->path);
    wm_h5_names (file, "/", take_frame, &frame);
    if (!*frame.name)
        return show->has_event ? wm_fault (error, WM_EUSAGE,
                                           "%.200s: has no frame of event %" PRId64 ":%" PRId64
                                           ":%" PRId64 "; `wiremill show` prints its tiles",
                                           show->path, show->id[0], show->id[1], show->id[2])
                               : wm_fault (error, WM_EBATCH, "%.300s: has no frame", show->path);
    event->run = frame.id[0], event->subrun = frame.id[1], event->event = frame.id[2];
    event->tick_us = NAN;
    return frame_read (&frame, event, error);
}
