/* wm_frames.c - see wm_frames.h.  */
#include "producer/wm_frames.h"

#include "producer/wm_waves.h"
#include "schema/base/wm_path.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAGS_MAX 64u            /* of one frame: an anode has one or two */
#define CHANNELS_MAX (1u << 22) /* of one frame */
#define WIRES_MAX 64u           /* of one channel: a wrapped one has a few */
#define FRAMES_MAX (1u << 24)
/* Length of a tick: shorter or longer is another unit than nanoseconds.  */
#define TICK_NS_MIN 10.
#define TICK_NS_MAX 100000.

typedef struct {
    char name[64];
    wm_column_t frame, channels, tickinfo;
    double tick_ns, tick; /* tick: of column 0 */
    uint32_t first;       /* its channels among those of all tags */
} tag_t;

struct wm_frames_t {
    wm_h5_t *file;
    char pattern[64]; /* of tags; "": all */
    int64_t *number;
    uint32_t n_number;
    size_t number_max;
    tag_t tag[TAGS_MAX];
    uint32_t n_tag;
    bool has_too_many;
    int32_t *channel; /* of all tags, as they are stored; then sorted */
    int32_t *sorted;
    size_t channel_max, sorted_max;
};

static int number_compare (const void *a_v, const void *b_v)
{
    const int64_t a = *(const int64_t *) a_v, b = *(const int64_t *) b_v;
    return (a > b) - (a < b);
}

/* A frame's group: nothing but digits.  */
static bool group_take (void *arg, const char *name)
{
    wm_frames_t *self = arg;
    char *end;
    wm_error_t error;
    if (*name < '0' || *name > '9' || strlen (name) > 18)
        return true;
    const long long number = strtoll (name, &end, 10);
    if (*end || self->n_number == FRAMES_MAX ||
        wm_event_reserve (&self->number, &self->number_max, self->n_number + 1ull,
                          sizeof *self->number, &error))
        return *end != 0;
    self->number[self->n_number++] = number;
    return true;
}

wm_frames_t *wm_frames_open (const char *name, wm_error_t *error)
{
    const size_t length = wm_path_length (name);
    char *path = strndup (name, length);
    wm_frames_t *self = calloc (1, sizeof *self);
    if (!path || !self)
        wm_fault (error, WM_EHOST, "out of memory");
    else if (name[length] && strlen (name + length + 2) >= sizeof self->pattern)
        wm_fault (error, WM_EBATCH, "%.300s: a tag has at most %zu characters", name,
                  sizeof self->pattern - 1);
    else if ((self->file = wm_h5_open (path, error))) {
        snprintf (self->pattern, sizeof self->pattern, "%s", name[length] ? name + length + 2 : "");
        wm_h5_names (self->file, "/", group_take, self);
        if (!self->n_number)
            wm_fault (error, WM_EBATCH,
                      "%.300s: no frames: Wire-Cell's HDF5FrameTap writes /<number>/frame_<tag>",
                      path);
        else if (self->n_number > 1)
            qsort (self->number, self->n_number, sizeof *self->number, number_compare);
    }
    free (path);
    if (self && !self->n_number)
        wm_frames_close (&self);
    return self;
}

static void tags_close (wm_frames_t *self)
{
    for (uint32_t i = 0; i < self->n_tag; i++) {
        wm_h5_column_close (&self->tag[i].frame);
        wm_h5_column_close (&self->tag[i].channels);
        wm_h5_column_close (&self->tag[i].tickinfo);
    }
    self->n_tag = 0;
}

void wm_frames_close (wm_frames_t **self_p)
{
    wm_frames_t *self = *self_p;
    *self_p = NULL;
    if (!self)
        return;
    tags_close (self);
    wm_h5_close (&self->file);
    free (self->number);
    free (self->channel);
    free (self->sorted);
    free (self);
}

const char *wm_frames_path (const wm_frames_t *self)
{
    return wm_h5_path (self->file);
}

uint32_t wm_frames_count (const wm_frames_t *self)
{
    return self->n_number;
}

int64_t wm_frames_number (const wm_frames_t *self, uint32_t i)
{
    return self->number[i];
}

uint32_t wm_frames_find (const wm_frames_t *self, int64_t number)
{
    const int64_t *found =
        bsearch (&number, self->number, self->n_number, sizeof number, number_compare);
    return found ? (uint32_t) (found - self->number) : UINT32_MAX;
}

/* ---- one frame ------------------------------------------------------------------------------- */

static bool tag_take (void *arg, const char *name)
{
    wm_frames_t *self = arg;
    if (strncmp (name, "frame_", 6) || strlen (name + 6) >= sizeof self->tag->name ||
        (*self->pattern && fnmatch (self->pattern, name + 6, 0)))
        return true;
    self->has_too_many = self->n_tag == TAGS_MAX;
    if (self->has_too_many)
        return false;
    tag_t *tag = &self->tag[self->n_tag++];
    memset (tag, 0, sizeof *tag);
    snprintf (tag->name, sizeof tag->name, "%s", name + 6);
    return true;
}

static int tag_compare (const void *a, const void *b)
{
    return strcmp (((const tag_t *) a)->name, ((const tag_t *) b)->name);
}

/* Opens the datasets of a tag, and reads its channels behind those of the tags before it.  */
static wm_fault_t tag_open (wm_frames_t *self, tag_t *tag, int64_t number, uint32_t first,
                            const char *where, wm_error_t *error)
{
    char name[96];
    double info[3];
    wm_fault_t fault;
    snprintf (name, sizeof name, "%lld/frame_%s", (long long) number, tag->name);
    if ((fault = wm_h5_column (self->file, name, WM_H5_FLOAT, 0, &tag->frame, error)))
        return fault;
    snprintf (name, sizeof name, "%lld/channels_%s", (long long) number, tag->name);
    if ((fault = wm_h5_column (self->file, name, WM_H5_INTEGER, 1, &tag->channels, error)))
        return fault;
    snprintf (name, sizeof name, "%lld/tickinfo_%s", (long long) number, tag->name);
    if ((fault = wm_h5_column (self->file, name, WM_H5_FLOAT, 1, &tag->tickinfo, error)))
        return fault;
    const uint64_t n = tag->frame.n_row;
    if (tag->frame.n_dim == 2 && tag->frame.width > WM_EVENT_TICKS_MAX)
        return wm_fault (error, WM_EBATCH,
                         "%s: frame_%s has %u ticks, more than %u: longer readouts are read in the "
                         "exchange layout only (schema/FORMATS.md)",
                         where, tag->name, tag->frame.width, WM_EVENT_TICKS_MAX);
    if (tag->frame.n_dim != 2 || n > CHANNELS_MAX || n != tag->channels.n_row ||
        tag->tickinfo.n_row != 3)
        return wm_fault (error, WM_EBATCH,
                         "%s: frame_%s is of shape (%llu, %u), with %llu channels and %llu values "
                         "of tickinfo: not (channels, ticks), a channel a row, and 3",
                         where, tag->name, (unsigned long long) n, tag->frame.width,
                         (unsigned long long) tag->channels.n_row,
                         (unsigned long long) tag->tickinfo.n_row);
    if ((fault = wm_h5_read (&tag->tickinfo, 0, 3, WM_H5_F64, info, error)) ||
        (fault = wm_event_reserve (&self->channel, &self->channel_max, first + n + 1, 4, error)) ||
        (fault = wm_h5_read (&tag->channels, 0, n, WM_H5_I32, self->channel + first, error)))
        return fault;
    tag->tick_ns = info[1];
    tag->tick = info[2];
    tag->first = first;
    if (!(tag->tick_ns >= TICK_NS_MIN && tag->tick_ns <= TICK_NS_MAX))
        return wm_fault (error, WM_EBATCH,
                         "%s: tickinfo_%s: a tick of %g; Wire-Cell writes nanoseconds, 500 for "
                         "0.5 us",
                         where, tag->name, tag->tick_ns);
    if (!(tag->tick >= 0 && tag->tick + tag->frame.width <= WM_EVENT_TICKS_MAX &&
          tag->tick == floor (tag->tick)))
        return wm_fault (error, WM_EBATCH,
                         "%s: tickinfo_%s: the first column is tick %g, not 0 to %u", where,
                         tag->name, tag->tick, WM_EVENT_TICKS_MAX);
    return WM_OK;
}

/* Which two tags have the channel.  */
static wm_fault_t twice (const wm_frames_t *self, int32_t channel, const char *where,
                         wm_error_t *error)
{
    const char *name[2] = { "", "" };
    uint32_t n = 0;
    for (uint32_t t = 0; t < self->n_tag; t++)
        for (uint64_t i = 0; i < self->tag[t].frame.n_row && n < 2; i++)
            if (self->channel[self->tag[t].first + i] == channel)
                name[n++] = self->tag[t].name;
    if (!strcmp (name[0], name[1]))
        return wm_fault (error, WM_EBATCH, "%s: channels_%s has channel %d twice", where, name[0],
                         channel);
    return wm_fault (error, WM_EBATCH,
                     "%s: channel %d is in frame_%s and in frame_%s: choose one, --planes '%s:/%s'",
                     where, channel, name[0], name[1], wm_h5_path (self->file), name[0]);
}

static wm_fault_t tags_open (wm_frames_t *self, int64_t number, const char *where, uint32_t *n,
                             wm_error_t *error)
{
    char group[32];
    snprintf (group, sizeof group, "%lld", (long long) number);
    tags_close (self);
    self->has_too_many = false;
    wm_h5_names (self->file, group, tag_take, self);
    if (!self->n_tag || self->has_too_many)
        return wm_fault (
            error, WM_EBATCH, "%s: %s: group %s has %s%s%s", where, wm_h5_path (self->file), group,
            self->n_tag ? "too many frames" : "no dataset frame_", self->n_tag ? "" : self->pattern,
            self->n_tag || *self->pattern ? "" : "*");
    if (self->n_tag > 1)
        qsort (self->tag, self->n_tag, sizeof *self->tag, tag_compare);
    *n = 0;
    for (uint32_t t = 0; t < self->n_tag; t++) {
        if (tag_open (self, &self->tag[t], number, *n, where, error))
            return error->fault;
        *n += (uint32_t) self->tag[t].frame.n_row;
        if (self->tag[t].tick_ns != self->tag[0].tick_ns)
            return wm_fault (error, WM_EBATCH, "%s: frame_%s has ticks of %g ns, frame_%s of %g",
                             where, self->tag[0].name, self->tag[0].tick_ns, self->tag[t].name,
                             self->tag[t].tick_ns);
    }
    if (wm_event_reserve (&self->sorted, &self->sorted_max, *n + 1ull, 4, error))
        return error->fault;
    memcpy (self->sorted, self->channel, 4ul * *n);
    if (*n > 1)
        qsort (self->sorted, *n, sizeof *self->sorted, wm_channel_compare);
    for (uint32_t i = 1; i < *n; i++)
        if (self->sorted[i] == self->sorted[i - 1])
            return twice (self, self->sorted[i], where, error);
    return WM_OK;
}

/* The planes that the channels are in: an anode's frame has those of its TPCs.  */
static wm_fault_t planes_find (const wm_frames_t *self, const wm_channels_t *map, uint32_t n,
                               uint32_t n_wire, wm_event_t *event, const char *where,
                               wm_error_t *error)
{
    wm_fault_t fault = wm_event_reserve (&event->plane, &event->plane_max, map->n_plane + 1ull,
                                         sizeof *event->plane, error);
    bool *has = fault ? NULL : calloc (map->n_plane + 1ul, sizeof *has);
    if (!fault && !has)
        fault = wm_fault (error, WM_EHOST, "out of memory");
    uint32_t p = 0;
    for (uint32_t i = 0; i < n && !fault; i++) {
        uint32_t count;
        const wm_wire_t *w = wm_wires_of (map->wire, map->n_wire, self->sorted[i], &count);
        for (; count--; w++)
            for (uint32_t tries = 0; w->plane >= 0 && tries < map->n_plane;
                 tries++, p = (p + 1) % map->n_plane)
                if (map->plane[p].cryostat == w->cryostat && map->plane[p].tpc == w->tpc &&
                    map->plane[p].plane == w->plane) {
                    has[p] = true; /* neighbours are mostly of one plane */
                    break;
                }
    }
    for (p = 0; p < map->n_plane && !fault; p++)
        if (has[p]) {
            event->plane[event->n_plane] = map->plane[p];
            if (n_wire)
                event->plane[event->n_plane].n_wire = n_wire;
            event->n_plane++;
        }
    free (has);
    return fault ? fault : wm_event_sort_planes (event, where, error);
}

static wm_fault_t tag_read (wm_frames_t *self, const tag_t *tag, const wm_channels_t *map,
                            wm_event_t *event, wm_error_t *error)
{
    wm_waves_t *waves = wm_waves_new (&tag->frame, error);
    wm_fault_t fault = waves ? WM_OK : WM_EHOST;
    for (uint64_t row = 0; row < tag->frame.n_row && !fault; row++) {
        wm_waves_place_t place[WIRES_MAX];
        uint32_t count, n = 0;
        const float *adc;
        const wm_wire_t *w =
            wm_wires_of (map->wire, map->n_wire, self->channel[tag->first + row], &count);
        for (; count-- && n < WIRES_MAX; w++) {
            const uint32_t plane = wm_event_plane (event, w->cryostat, w->tpc, w->plane);
            if (plane != UINT32_MAX && w->wire >= 0)
                place[n++] = (wm_waves_place_t){ plane, (uint32_t) w->wire };
        }
        if (!n)
            continue;
        fault = wm_waves_row (waves, row, tag->frame.n_row, &adc, error);
        if (!fault)
            fault =
                wm_waves_keep (event, adc, tag->frame.width, (uint32_t) tag->tick, place, n, error);
    }
    wm_waves_destroy (&waves);
    return fault;
}

wm_fault_t wm_frames_read (wm_frames_t *self, int64_t number, const wm_channels_t *map,
                           uint32_t n_wire, wm_event_t *event, const char *where,
                           const int32_t **channel, uint32_t *n, wm_error_t *error)
{
    wm_fault_t fault = tags_open (self, number, where, n, error);
    for (uint32_t t = 0; t < self->n_tag && !fault; t++) {
        const uint32_t end = (uint32_t) self->tag[t].tick + self->tag[t].frame.width;
        event->n_tick = end > event->n_tick ? end : event->n_tick;
    }
    if (!fault) {
        event->tick_us = self->tag[0].tick_ns * 1e-3;
        fault = planes_find (self, map, *n, n_wire, event, where, error);
    }
    for (uint32_t t = 0; t < self->n_tag && !fault; t++)
        fault = tag_read (self, &self->tag[t], map, event, error);
    tags_close (self);
    *channel = self->sorted;
    return fault ? fault : wm_event_arrange (event, where, error);
}
