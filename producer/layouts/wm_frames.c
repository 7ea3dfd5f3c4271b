/* wm_frames.c - see wm_frames.h.  */
#include "producer/layouts/wm_frames.h"

#include "producer/layouts/wm_frames_archive.h"
#include "producer/files/wm_waves.h"
#include "producer/layouts/wm_pedestal.h"
#include "schema/base/wm_bisect.h"
#include "schema/base/wm_log.h"
#include "schema/base/wm_order.h"
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
    char name[WM_FRAMES_TAG_BYTES];
    wm_column_t frame;                /* in HDF5 */
    const wm_frames_packed_t *packed; /* in an archive */
    uint64_t n_row;
    uint32_t width;
    double tick_ns, tick; /* tick: of column 0 */
    uint32_t first;       /* its channels among those of all tags */
} tag_t;

struct wm_frames_t {
    char *path;
    wm_h5_t *file;                /* either this */
    wm_frames_archive_t *archive; /* or this */
    char pattern[64];             /* of tags; "": all */
    int64_t *number;
    uint32_t n_number;
    size_t number_max;
    tag_t tag[TAGS_MAX];
    uint32_t n_tag;
    bool has_too_many;
    char padded[20]; /* a group with a 0 before its number; "": none */
    wm_pedestal_t pedestal;
    int32_t *channel; /* of all tags, as they are stored; then sorted */
    int32_t *sorted;
    size_t channel_max, sorted_max;
    const wm_frames_bad_t *bad; /* (n_bad) of the frame that was read last; of an archive */
    uint32_t n_bad;
    float *good; /* a row without its bad ticks */
    size_t good_max;
};

WM_ORDER_NUMBERS (number_compare, int64_t)

static bool number_add (wm_frames_t *self, int64_t number)
{
    wm_error_t error;
    if (self->n_number == FRAMES_MAX ||
        wm_event_reserve (&self->number, &self->number_max, self->n_number + 1ull,
                          sizeof *self->number, &error))
        return false;
    self->number[self->n_number++] = number;
    return true;
}

/* A frame's group: nothing but digits.  */
static bool group_take (void *arg, const char *name)
{
    wm_frames_t *self = arg;
    char *end;
    if (*name < '0' || *name > '9' || strlen (name) > 18)
        return true;
    const long long number = strtoll (name, &end, 10);
    if (*end)
        return true;
    if (*name == '0' && name[1] && !*self->padded)
        snprintf (self->padded, sizeof self->padded, "%s", name);
    return number_add (self, number);
}

/* Refuses a group that Wire-Cell does not name so: "01" would be frame 1.  */
static void padded_refuse (wm_frames_t *self, wm_error_t *error)
{
    char group[24];
    snprintf (group, sizeof group, "%lld", strtoll (self->padded, NULL, 10));
    wm_fault (error, WM_EBATCH,
              wm_h5_has (self->file, group)
                  ? "%.300s: groups %s and %s are both frame %s: remove one of them"
                  : "%.300s: group %s is not named as Wire-Cell names a frame: rename it %s",
              self->path, self->padded, group, group);
    self->n_number = 0;
}

static void h5_open (wm_frames_t *self, wm_error_t *error)
{
    self->file = wm_h5_open (self->path, error);
    if (!self->file)
        return;
    wm_h5_names (self->file, "/", group_take, self);
    if (!self->n_number)
        wm_fault (error, WM_EBATCH,
                  "%.300s: no frames: Wire-Cell's HDF5FrameTap writes /<number>/frame_<tag>",
                  self->path);
    else if (self->n_number > 1)
        qsort (self->number, self->n_number, sizeof *self->number, number_compare);
    if (*self->padded)
        padded_refuse (self, error);
}

static void archive_open (wm_frames_t *self, wm_error_t *error)
{
    uint32_t n;
    wm_archive_t *archive = wm_archive_open (self->path, WM_ARCHIVE_BYTES_MAX, error);
    self->archive = archive ? wm_frames_archive_new (&archive, error) : NULL;
    if (!self->archive)
        return;
    const wm_frames_packed_t *packed = wm_frames_archive_list (self->archive, &n);
    for (uint32_t i = 0; i < n; i++)
        if ((!i || packed[i].number != packed[i - 1].number) &&
            !number_add (self, packed[i].number))
            break;
    if (!self->n_number)
        wm_fault (error, WM_EBATCH,
                  "%.300s: no frames: Wire-Cell's FrameFileSink writes frame_<tag>_<number>.npy",
                  self->path);
}

/* Whether a group is named as a frame's is.  */
static bool group_is (void *arg, const char *name)
{
    if (*name >= '0' && *name <= '9' && !name[strspn (name, "0123456789")])
        *(bool *) arg = true;
    return true;
}

bool wm_frames_are (const wm_h5_t *file)
{
    bool found = false;
    wm_h5_names (file, "/", group_is, &found);
    return found;
}

wm_frames_t *wm_frames_open (const char *name, wm_error_t *error)
{
    const size_t length = wm_path_length (name);
    wm_frames_t *self = calloc (1, sizeof *self);
    if (!self || !(self->path = strndup (name, length)))
        wm_fault (error, WM_EHOST, "out of memory");
    else if (name[length] && strlen (name + length + 2) >= sizeof self->pattern)
        wm_fault (error, WM_EBATCH, "%.300s: a tag has at most %zu characters", name,
                  sizeof self->pattern - 1);
    else {
        snprintf (self->pattern, sizeof self->pattern, "%s", name[length] ? name + length + 2 : "");
        if (wm_archive_is (self->path))
            archive_open (self, error);
        else
            h5_open (self, error);
    }
    if (self && !self->n_number)
        wm_frames_close (&self);
    return self;
}

static void tags_close (wm_frames_t *self)
{
    for (uint32_t i = 0; i < self->n_tag && self->file; i++)
        wm_h5_column_close (&self->tag[i].frame);
    if (self->archive)
        wm_frames_archive_free (self->archive);
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
    wm_frames_archive_destroy (&self->archive);
    free (self->path);
    free (self->number);
    wm_pedestal_clear (&self->pedestal);
    free (self->channel);
    free (self->sorted);
    free (self->good);
    free (self);
}

void wm_frames_pedestal (wm_frames_t *self, const char *text)
{
    wm_pedestal_choose (&self->pedestal, text);
}

const char *wm_frames_path (const wm_frames_t *self)
{
    return self->path;
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

/* Adds a tag that fits the pattern. false: there are too many.  */
static bool tag_add (wm_frames_t *self, const char *name, const wm_frames_packed_t *packed)
{
    if (*self->pattern && fnmatch (self->pattern, name, 0))
        return true;
    self->has_too_many = self->n_tag == TAGS_MAX;
    if (self->has_too_many)
        return false;
    tag_t *tag = &self->tag[self->n_tag++];
    memset (tag, 0, sizeof *tag);
    snprintf (tag->name, sizeof tag->name, "%s", name);
    tag->packed = packed;
    return true;
}

static bool dataset_take (void *arg, const char *name)
{
    wm_frames_t *self = arg;
    return strncmp (name, "frame_", 6) != 0 || strlen (name + 6) >= sizeof self->tag->name ||
           tag_add (self, name + 6, NULL);
}

/* Finds the tags of a frame. `group` is what they lie in, for people.  */
static void tags_find (wm_frames_t *self, int64_t number, char group[48])
{
    uint32_t n;
    if (self->file) {
        snprintf (group, 48, "%lld", (long long) number);
        wm_h5_names (self->file, group, dataset_take, self);
        snprintf (group, 48, "group %lld has", (long long) number);
        return;
    }
    snprintf (group, 48, "frame %lld has", (long long) number);
    const wm_frames_packed_t *packed = wm_frames_archive_list (self->archive, &n);
    for (uint32_t k = WM_BISECT (0, n, i, packed[i].number < number);
         k < n && packed[k].number == number && tag_add (self, packed[k].tag, &packed[k]);)
        k++;
}

bool wm_frames_has (wm_frames_t *self, int64_t number)
{
    char group[48];
    tags_close (self);
    tags_find (self, number, group);
    const bool has = self->n_tag > 0;
    tags_close (self);
    return has;
}

WM_ORDER_BY_TEXT (tag_compare, tag_t, name)

/* Reads the channels and tickinfo of a tag from HDF5, and opens its waveforms.  */
static wm_fault_t h5_tag_open (wm_frames_t *self, tag_t *tag, int64_t number, uint32_t first,
                               uint64_t *n_channel, uint64_t *n_info, double info[3],
                               wm_error_t *error)
{
    char name[96];
    wm_column_t channels = { 0 }, tickinfo = { 0 };
    wm_fault_t fault;
    snprintf (name, sizeof name, "%lld/frame_%s", (long long) number, tag->name);
    if ((fault = wm_h5_column (self->file, name, WM_H5_FLOAT, 0, &tag->frame, error)))
        return fault;
    tag->n_row = tag->frame.n_row;
    tag->width = tag->frame.n_dim == 2 ? tag->frame.width : 0;
    snprintf (name, sizeof name, "%lld/channels_%s", (long long) number, tag->name);
    if (!(fault = wm_h5_column (self->file, name, WM_H5_INTEGER, 1, &channels, error))) {
        snprintf (name, sizeof name, "%lld/tickinfo_%s", (long long) number, tag->name);
        fault = wm_h5_column (self->file, name, WM_H5_FLOAT, 1, &tickinfo, error);
    }
    *n_channel = channels.n_row, *n_info = tickinfo.n_row;
    if (!fault && *n_info == 3)
        fault = wm_h5_read (&tickinfo, 0, 3, WM_H5_F64, info, error);
    if (!fault && *n_channel <= CHANNELS_MAX &&
        !(fault = wm_event_reserve (&self->channel, &self->channel_max, first + *n_channel + 1, 4,
                                    error)))
        fault = wm_h5_read (&channels, 0, *n_channel, WM_H5_I32, self->channel + first, error);
    wm_h5_column_close (&channels);
    wm_h5_column_close (&tickinfo);
    return fault;
}

static wm_fault_t packed_tag_open (wm_frames_t *self, tag_t *tag, uint32_t first,
                                   uint64_t *n_channel, uint64_t *n_info, double info[3],
                                   wm_error_t *error)
{
    const wm_frames_packed_t *packed = tag->packed;
    tag->n_row = packed->n_row;
    tag->width = packed->width;
    *n_channel = packed->n_channel, *n_info = packed->n_info;
    memcpy (info, packed->info, 3 * sizeof *info);
    const wm_fault_t fault =
        wm_event_reserve (&self->channel, &self->channel_max, first + *n_channel + 1, 4, error);
    if (!fault && *n_channel)
        memcpy (self->channel + first, packed->channel, 4 * *n_channel);
    return fault;
}

/* Opens a tag, and reads its channels behind those of the tags before it.  */
static wm_fault_t tag_open (wm_frames_t *self, tag_t *tag, int64_t number, uint32_t first,
                            const char *where, wm_error_t *error)
{
    double info[3] = { 0 };
    uint64_t n_channel = 0, n_info = 0;
    const wm_fault_t fault =
        self->file ? h5_tag_open (self, tag, number, first, &n_channel, &n_info, info, error)
                   : packed_tag_open (self, tag, first, &n_channel, &n_info, info, error);
    if (fault)
        return fault;
    if (tag->width > WM_EVENT_TICKS_MAX)
        return wm_fault (error, WM_EBATCH,
                         "%s: frame_%s has %u ticks, more than %u: longer readouts are read in the "
                         "exchange layout only (`wiremill help formats`)",
                         where, tag->name, tag->width, WM_EVENT_TICKS_MAX);
    if (!tag->width || tag->n_row > CHANNELS_MAX || tag->n_row != n_channel || n_info != 3)
        return wm_fault (error, WM_EBATCH,
                         "%s: frame_%s is of shape (%llu, %u), with %llu channels and %llu values "
                         "of tickinfo: not (channels, ticks), a channel a row, and 3",
                         where, tag->name, (unsigned long long) tag->n_row,
                         self->file ? tag->frame.width : tag->width, (unsigned long long) n_channel,
                         (unsigned long long) n_info);
    tag->tick_ns = info[1];
    tag->tick = info[2];
    tag->first = first;
    if (!(tag->tick_ns >= TICK_NS_MIN && tag->tick_ns <= TICK_NS_MAX))
        return wm_fault (error, WM_EBATCH,
                         "%s: tickinfo_%s: a tick of %g; Wire-Cell writes nanoseconds, 500 for "
                         "0.5 us",
                         where, tag->name, tag->tick_ns);
    if (!(tag->tick >= 0 && tag->tick + tag->width <= WM_EVENT_TICKS_MAX &&
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
        for (uint64_t i = 0; i < self->tag[t].n_row && n < 2; i++)
            if (self->channel[self->tag[t].first + i] == channel)
                name[n++] = self->tag[t].name;
    if (!strcmp (name[0], name[1]))
        return wm_fault (error, WM_EBATCH, "%s: channels_%s has channel %d twice", where, name[0],
                         channel);
    return wm_fault (error, WM_EBATCH,
                     "%s: channel %d is in frame_%s and in frame_%s: choose one, '%s:/%s'", where,
                     channel, name[0], name[1], self->path, name[0]);
}

/* Names the frames that there are instead.  */
static wm_fault_t tags_missing (wm_frames_t *self, int64_t number, const char *group,
                                const char *where, wm_error_t *error)
{
    char pattern[sizeof self->pattern], list[160] = "";
    memcpy (pattern, self->pattern, sizeof pattern);
    *self->pattern = 0;
    tags_find (self, number, (char[48]){ "" });
    memcpy (self->pattern, pattern, sizeof pattern);
    for (uint32_t t = 0; t < self->n_tag; t++) {
        const size_t at = strlen (list);
        const bool fits = at + strlen (self->tag[t].name) + 8 < sizeof list;
        snprintf (list + at, sizeof list - at, "%s%s", t ? ", " : "",
                  fits ? self->tag[t].name : "...");
        if (!fits)
            break;
    }
    wm_log_sanitize (list);
    const uint32_t n = self->n_tag;
    self->n_tag = 0;
    return wm_fault (error, WM_EBATCH, "%s: %s: %s no %s%s%s%s%s", where, self->path, group,
                     self->file ? "dataset frame_" : "tag ", *pattern ? pattern : "*",
                     n ? n > 1 ? "; it has frames " : "; it has the frame " : "", list,
                     n ? " (case matters)" : "");
}

static wm_fault_t tags_open (wm_frames_t *self, int64_t number, const char *where, uint32_t *n,
                             wm_error_t *error)
{
    char group[48];
    tags_close (self);
    self->has_too_many = false;
    tags_find (self, number, group);
    if (self->has_too_many)
        return wm_fault (error, WM_EBATCH, "%s: %s: %s too many frames, more than %u", where,
                         self->path, group, TAGS_MAX);
    if (!self->n_tag)
        return tags_missing (self, number, group, where, error);
    if (self->n_tag > 1)
        qsort (self->tag, self->n_tag, sizeof *self->tag, tag_compare);
    *n = 0;
    for (uint32_t t = 0; t < self->n_tag; t++) {
        if (tag_open (self, &self->tag[t], number, *n, where, error))
            return error->fault;
        *n += (uint32_t) self->tag[t].n_row;
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

/* The wires of the event that a row fills; 0: none.  */
static uint32_t places_find (const wm_frames_t *self, const tag_t *tag, uint64_t row,
                             const wm_channels_t *map, const wm_event_t *event,
                             wm_waves_place_t place[WIRES_MAX])
{
    uint32_t count, n = 0;
    const wm_wire_t *w =
        wm_wires_of (map->wire, map->n_wire, self->channel[tag->first + row], &count);
    for (; count-- && n < WIRES_MAX; w++) {
        const uint32_t plane = wm_event_plane (event, w->cryostat, w->tpc, w->plane);
        if (plane != UINT32_MAX && w->wire >= 0)
            place[n++] = (wm_waves_place_t){ plane, (uint32_t) w->wire };
    }
    return n;
}

/* The first of the frame's bad ticks of a channel, or behind it, that end behind this tick.  */
static uint32_t bad_find (const wm_frames_t *self, int32_t channel, double tick)
{
    const wm_frames_bad_t *bad = self->bad;
    return WM_BISECT (0, self->n_bad, i,
                      bad[i].channel < channel ||
                          (bad[i].channel == channel && bad[i].end <= tick));
}

bool wm_frames_is_bad (const wm_frames_t *self, int32_t channel, double tick)
{
    const uint32_t i = bad_find (self, channel, tick);
    return i < self->n_bad && self->bad[i].channel == channel && self->bad[i].first <= tick;
}

/* Points *adc to the row with 0 ADC in its bad ticks: a copy, where it has some.  */
static wm_fault_t bad_take (wm_frames_t *self, const tag_t *tag, uint64_t row, const float **adc,
                            wm_error_t *error)
{
    const int32_t channel = self->channel[tag->first + row];
    for (uint32_t i = bad_find (self, channel, tag->tick);
         i < self->n_bad && self->bad[i].channel == channel; i++) {
        const double first = fmax (self->bad[i].first - tag->tick, 0),
                     end = fmin (self->bad[i].end - tag->tick, tag->width);
        if (!(first < end))
            continue;
        if (wm_event_reserve (&self->good, &self->good_max, tag->width, sizeof *self->good, error))
            return error->fault;
        if (*adc != self->good)
            memcpy (self->good, *adc, tag->width * sizeof *self->good);
        memset (self->good + (size_t) first, 0, (size_t) (end - first) * sizeof *self->good);
        *adc = self->good;
    }
    return WM_OK;
}

static wm_fault_t tag_read (wm_frames_t *self, const tag_t *tag, const wm_channels_t *map,
                            wm_event_t *event, const char *where, wm_error_t *error)
{
    const float *packed = NULL, *adc = NULL;
    wm_pedestal_start (&self->pedestal);
    wm_waves_t *waves = self->file ? wm_waves_new (&tag->frame, error) : NULL;
    wm_fault_t fault = !self->file
                           ? wm_frames_archive_load (self->archive, tag->packed, &packed, error)
                       : waves ? WM_OK
                               : WM_EHOST;
    for (uint64_t row = 0; row < tag->n_row && !fault; row++) {
        wm_waves_place_t place[WIRES_MAX];
        const uint32_t n = places_find (self, tag, row, map, event, place);
        if (!n)
            continue;
        if (waves)
            fault = wm_waves_row (waves, row, tag->n_row, &adc, error);
        else
            adc = packed + row * tag->width;
        if (!fault)
            fault = wm_pedestal_take (&self->pedestal, &adc, tag->width, error);
        if (!fault && self->n_bad)
            fault = bad_take (self, tag, row, &adc, error);
        if (!fault)
            fault = wm_waves_keep (event, adc, tag->width, (uint32_t) tag->tick, place, n, error);
    }
    wm_waves_destroy (&waves);
    if (!fault && wm_pedestal_is_missed (&self->pedestal))
        fault =
            wm_fault (error, WM_EBATCH,
                      "%s: channels of frame_%s lie around other values than 0 ADC: a pedestal; "
                      "--pedestal median takes it off each channel, --pedestal none does not",
                      where, tag->name);
    return fault;
}

/* Tags of an archive are read in its order: back means to unpack it from its beginning.  */
WM_ORDER_BY (place_compare, tag_t, packed->at)

/* Opens the tags of a frame, and finds what wm_frames_planes reports; the tags stay open.  */
static wm_fault_t frame_begin (wm_frames_t *self, int64_t number, const wm_channels_t *map,
                               uint32_t n_wire, wm_event_t *event, const char *where, uint32_t *n,
                               wm_error_t *error)
{
    wm_fault_t fault = tags_open (self, number, where, n, error);
    for (uint32_t t = 0; t < self->n_tag && !fault; t++) {
        const uint32_t end = (uint32_t) self->tag[t].tick + self->tag[t].width;
        event->n_tick = end > event->n_tick ? end : event->n_tick;
    }
    if (fault)
        return fault;
    event->tick_us = self->tag[0].tick_ns * 1e-3;
    return planes_find (self, map, *n, n_wire, event, where, error);
}

wm_fault_t wm_frames_planes (wm_frames_t *self, int64_t number, const wm_channels_t *map,
                             uint32_t n_wire, wm_event_t *event, const char *where,
                             wm_error_t *error)
{
    uint32_t n;
    wm_fault_t fault = frame_begin (self, number, map, n_wire, event, where, &n, error);
    tags_close (self);
    return fault;
}

wm_fault_t wm_frames_read (wm_frames_t *self, int64_t number, const wm_channels_t *map,
                           uint32_t n_wire, wm_event_t *event, const char *where,
                           const int32_t **channel, uint32_t *n, wm_error_t *error)
{
    wm_fault_t fault = frame_begin (self, number, map, n_wire, event, where, n, error);
    self->n_bad = 0;
    if (self->archive && !fault)
        fault = wm_frames_archive_bad (self->archive, number, &self->bad, &self->n_bad, error);
    if (self->archive && self->n_tag > 1 && !fault)
        qsort (self->tag, self->n_tag, sizeof *self->tag, place_compare);
    for (uint32_t t = 0; t < self->n_tag && !fault; t++)
        fault = tag_read (self, &self->tag[t], map, event, where, error);
    tags_close (self);
    *channel = self->sorted;
    return fault ? fault : wm_event_arrange (event, where, error);
}
