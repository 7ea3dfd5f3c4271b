/* wm_planes.c - Wire-Cell's frames as an input of their own: planes without hits, for windows.

   Frames are numbered by event only: run and subrun are 0.  */
#include "producer/wm_frames.h"
#include "producer/wm_layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    wm_reader_t reader;
    wm_frames_t *frames;
    wm_channels_t *map;
} planes_t;

static void planes_destroy (wm_reader_t *reader)
{
    planes_t *self = (planes_t *) reader;
    wm_frames_close (&self->frames);
    wm_channels_drop (&self->map);
    free (self);
}

static int64_t begin (const planes_t *self, uint32_t ordinal, wm_event_t *event, char where[480])
{
    const int64_t number = wm_frames_number (self->frames, ordinal);
    event->run = event->subrun = 0, event->event = number;
    event->trigger_offset = event->tau_us = NAN;
    snprintf (where, 480, "%.300s: event 0:0:%lld", wm_frames_path (self->frames),
              (long long) number);
    return number;
}

static wm_fault_t planes_planes (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                 wm_error_t *error)
{
    planes_t *self = (planes_t *) reader;
    char where[480];
    const int64_t number = begin (self, ordinal, event, where);
    return wm_frames_planes (self->frames, number, self->map, reader->spec->n_wire, event, where,
                             error);
}

static wm_fault_t planes_event (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                wm_error_t *error)
{
    planes_t *self = (planes_t *) reader;
    char where[480];
    const int32_t *channel;
    uint32_t n;
    const int64_t number = begin (self, ordinal, event, where);
    return wm_frames_read (self->frames, number, self->map, reader->spec->n_wire, event, where,
                           &channel, &n, error);
}

/* Frames have no rows: those of the windows over them are wm_points.c's.  */
static wm_fault_t planes_rows (wm_reader_t *reader, uint64_t first, uint32_t count,
                               const wm_reader_rows_t *rows, wm_error_t *error)
{
    (void) reader, (void) first, (void) count, (void) rows;
    return wm_fault (error, WM_EBATCH, "frames have no hits");
}

static const wm_layout_t layout = { .name = "Wire-Cell frames",
                                    .event = planes_event,
                                    .rows = planes_rows,
                                    .destroy = planes_destroy,
                                    .planes = planes_planes };

wm_reader_t *wm_planes_open (const char *name, const char *channels, const wm_spec_t *spec,
                             wm_error_t *error)
{
    planes_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "out of memory");
        return NULL;
    }
    self->reader = (wm_reader_t){ .layout = &layout, .spec = spec };
    if (!(self->map = wm_channels_get (channels, error)) ||
        !(self->frames = wm_frames_open (name, error))) {
        planes_destroy (&self->reader);
        return NULL;
    }
    self->reader.n_event = wm_frames_count (self->frames);
    return &self->reader;
}
