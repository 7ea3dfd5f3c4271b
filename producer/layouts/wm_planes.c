/* wm_planes.c - Wire-Cell's frames as an input of their own: planes without hits, for windows.

   Frames are numbered by event only: run and subrun are 0. With `tags` in the specification each
   tag fills a channel of its own: an event has each plane once for each channel.  */
#include "producer/layouts/wm_frames.h"
#include "producer/layouts/wm_layout.h"
#include "schema/base/wm_path.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    wm_reader_t reader;
    wm_frames_t *frames[WM_SPEC_CHANNELS_MAX]; /* (n_channel) of each tag; all of one file */
    wm_channels_t *map;
    wm_event_t part;    /* one tag's content */
    int64_t *number;    /* (n_event) frames that have all tags */
    uint32_t n_partial; /* the others, which are not read; the first of them, and what it lacks: */
    int64_t partial;
    char lacks[32];
    wm_channels_lack_t lack;    /* what the map lacks */
    char joined[48], text[900]; /* for people */
} planes_t;

static void planes_clear (wm_reader_t *reader)
{
    planes_t *self = (planes_t *) reader;
    for (uint32_t k = 0; k < WM_SPEC_CHANNELS_MAX; k++)
        wm_frames_close (&self->frames[k]);
    wm_channels_drop (&self->map);
    wm_event_clear (&self->part);
    free (self->number);
}

/* Without tags a frame is one channel, whatever its tags are.  */
static uint32_t n_channel (const planes_t *self)
{
    return self->reader.spec->n_tag ? self->reader.spec->n_tag : 1;
}

static int64_t begin (const planes_t *self, uint32_t ordinal, wm_event_t *event, char where[480])
{
    const int64_t number = self->number[ordinal];
    event->run = event->subrun = 0, event->event = number;
    event->trigger_offset = event->tau_us = NAN;
    snprintf (where, 480, "%.300s: event 0:0:%lld", wm_frames_path (self->frames[0]),
              (long long) number);
    return number;
}

/* Adds the planes of one tag, each for all channels; those that another tag has too are there.  */
static wm_fault_t planes_add (const planes_t *self, wm_event_t *event, wm_error_t *error)
{
    const wm_event_t *part = &self->part;
    const uint32_t n = n_channel (self);
    wm_fault_t fault = wm_event_reserve (&event->plane, &event->plane_max,
                                         event->n_plane + (uint64_t) part->n_plane * n + 1,
                                         sizeof *event->plane, error);
    for (uint32_t p = 0; p < part->n_plane && !fault; p++) {
        wm_event_plane_t plane = part->plane[p];
        uint32_t q = 0;
        while (q < event->n_plane &&
               (event->plane[q].cryostat != plane.cryostat || event->plane[q].tpc != plane.tpc ||
                event->plane[q].plane != plane.plane))
            q++;
        for (; q == event->n_plane && plane.channel < n; plane.channel++, q++)
            event->plane[event->n_plane++] = plane;
    }
    return fault;
}

/* The planes that any tag has, each n_channel times.  */
static wm_fault_t planes_planes (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                 wm_error_t *error)
{
    planes_t *self = (planes_t *) reader;
    char where[480];
    const int64_t number = begin (self, ordinal, event, where);
    wm_fault_t fault = WM_OK;
    for (uint32_t k = 0; k < n_channel (self) && !fault; k++) {
        wm_event_reset (&self->part);
        fault = wm_frames_planes (self->frames[k], number, self->map, reader->spec->n_wire,
                                  &self->part, where, error);
        if (!fault && k && self->part.tick_us != event->tick_us)
            fault = wm_fault (error, WM_EBATCH, "%s: frame_%s has ticks of %g us, frame_%s of %g",
                              where, reader->spec->tag[0], event->tick_us, reader->spec->tag[k],
                              self->part.tick_us);
        event->tick_us = self->part.tick_us;
        event->n_tick = self->part.n_tick > event->n_tick ? self->part.n_tick : event->n_tick;
        if (!fault)
            fault = planes_add (self, event, error);
    }
    return fault ? fault : wm_event_sort_planes (event, where, error);
}

/* Puts the samples of one tag into its channel.  */
static wm_fault_t channel_add (const planes_t *self, uint32_t channel, wm_event_t *event,
                               wm_error_t *error)
{
    const wm_event_t *part = &self->part;
    wm_fault_t fault = wm_event_reserve (&event->sample, &event->sample_max,
                                         event->n_sample + part->n_sample + 1, 4, error);
    if (fault)
        return fault;
    if (part->n_sample)
        memcpy (event->sample + event->n_sample, part->sample, part->n_sample * sizeof (float));
    for (uint32_t i = 0; i < part->n_roi && !fault; i++) {
        wm_roi_t roi = part->roi[i];
        const wm_event_plane_t *p = &part->plane[roi.plane];
        roi.plane = wm_event_plane (event, p->cryostat, p->tpc, p->plane) + channel;
        roi.value += event->n_sample;
        fault = wm_event_add_roi (event, &roi, error);
    }
    event->n_sample += part->n_sample;
    return fault;
}

static wm_fault_t planes_event (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                wm_error_t *error)
{
    planes_t *self = (planes_t *) reader;
    char where[480];
    const int32_t *channel;
    uint32_t n;
    wm_fault_t fault = WM_OK;
    const int64_t number = begin (self, ordinal, event, where);
    if (!reader->spec->n_tag) {
        fault = wm_frames_read (self->frames[0], number, self->map, reader->spec->n_wire, event,
                                where, &channel, &n, error);
        if (!fault)
            wm_channels_lack_note (&self->lack, self->map, number, channel, n);
        return fault;
    }
    fault = planes_planes (reader, ordinal, event, error);
    for (uint32_t k = 0; k < n_channel (self) && !fault; k++) {
        wm_event_reset (&self->part);
        fault = wm_frames_read (self->frames[k], number, self->map, reader->spec->n_wire,
                                &self->part, where, &channel, &n, error);
        if (!fault) {
            wm_channels_lack_note (&self->lack, self->map, number, channel, n);
            fault = channel_add (self, k, event, error);
        }
    }
    return fault ? fault : wm_event_arrange (event, where, error);
}

/* Frames have no rows: those of the windows over them are wm_points.c's.  */
static wm_fault_t planes_rows (wm_reader_t *reader, uint64_t first, uint32_t count,
                               const wm_reader_rows_t *rows, wm_error_t *error)
{
    (void) reader, (void) first, (void) count, (void) rows;
    return wm_fault (error, WM_EBATCH, "frames have no hits");
}

static const char *unmatched_text (wm_reader_t *reader)
{
    planes_t *self = (planes_t *) reader;
    char lack[480];
    wm_channels_lack_text (&self->lack, self->map, lack, sizeof lack);
    snprintf (self->text, sizeof self->text, "%s", lack);
    if (self->n_partial)
        snprintf (self->text, sizeof self->text,
                  "%u frame%s without frame_%s (first %lld): not read%s%s", self->n_partial,
                  self->n_partial == 1 ? "" : "s", self->lacks, (long long) self->partial,
                  *lack ? "; " : "", lack);
    return self->text;
}

static const char *joined_text (wm_reader_t *reader)
{
    return ((planes_t *) reader)->joined;
}

static const wm_layout_t layout = { .name = "Wire-Cell frames",
                                    .event = planes_event,
                                    .rows = planes_rows,
                                    .clear = planes_clear,
                                    .unmatched = unmatched_text,
                                    .joined = joined_text,
                                    .planes = planes_planes };

/* Lists the frames that have every tag; where none has, all of them: reading one then names
   what is missing.  */
static bool frames_list (planes_t *self, const char *name, wm_error_t *error)
{
    const char *chosen = name + wm_path_length (name);
    wm_frames_t *const first = self->frames[0];
    const uint32_t n = wm_frames_count (first);
    self->number = malloc ((n + 1ul) * sizeof *self->number);
    if (!self->number) {
        wm_fault (error, WM_EHOST, "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        const int64_t number = wm_frames_number (first, i);
        uint32_t k = 0;
        while (k < n_channel (self) && wm_frames_has (self->frames[k], number))
            k++;
        if (k == n_channel (self))
            self->number[self->reader.n_event++] = number;
        else if (!self->n_partial++) {
            self->partial = number;
            snprintf (self->lacks, sizeof self->lacks, "%s",
                      self->reader.spec->n_tag ? self->reader.spec->tag[k]
                      : *chosen                ? chosen + 2
                                               : "*");
        }
    }
    if (!self->reader.n_event) {
        self->n_partial = 0;
        for (uint32_t i = 0; i < n; i++)
            self->number[self->reader.n_event++] = wm_frames_number (first, i);
    }
    return true;
}

wm_reader_t *wm_planes_open (const char *name, const char *channels, const char *pedestal,
                             const wm_spec_t *spec, wm_error_t *error)
{
    planes_t *self = wm_layout_new (sizeof *self, &layout, spec, NULL, NULL, error);
    if (!self)
        return NULL;
    if (*pedestal)
        snprintf (self->joined, sizeof self->joined, "pedestal %s", pedestal);
    bool fine = (self->map = wm_channels_get (channels, error)) != NULL;
    for (uint32_t k = 0; k < n_channel (self) && fine; k++) {
        char tagged[PATH_MAX];
        if (!spec->n_tag)
            snprintf (tagged, sizeof tagged, "%s", name);
        else
            snprintf (tagged, sizeof tagged, "%.*s:/%s", (int) wm_path_length (name), name,
                      spec->tag[k]);
        fine = (self->frames[k] = wm_frames_open (tagged, error)) != NULL;
        if (fine)
            wm_frames_pedestal (self->frames[k], pedestal);
    }
    wm_reader_t *reader = &self->reader;
    if (!fine || !frames_list (self, name, error))
        wm_reader_destroy (&reader);
    return reader;
}
