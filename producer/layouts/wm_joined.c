/* wm_joined.c - hits of one file, planes of another, joined by event, wire and channel.

   Hits: numl's hit_table {event_id (n, 3), hit_id, tpc, plane, wire (float), time (ticks)} or
   larrecodnn's chargehits {run, subrun, event, ch_id, tpc_id, plane, wire, time (microseconds)}:
   both call the time `time`, in another unit. Neither has a cryostat: it is 0. Planes: Wire-Cell's
   frames (wm_frames.h), which are numbered by event only, so that two events of one number (in two
   runs) are refused. The channel map (wm_channels.h) lists which wires a frame's channels fill.

   What has no partner: hits of an event without a frame are those of a missing event (status 7),
   which comes behind the others; a hit on a wire that the map does not have, or in a plane that the
   frame has no channel of, is a bad wire (status 2); frames without hits are not read. Hits on a
   channel that the map has and the frame has not are scored on 0 ADC, and counted as those on bad
   channels are.

   A wrong unit gives hits that lie beside the signal, and no error. So each event is compared with
   the other reading of its times: where that one finds much more charge, the input is refused.  */
#include "producer/layouts/wm_frames.h"
#include "producer/layouts/wm_layout.h"
#include "producer/layouts/wm_match.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT_TICKS 2 /* a hit's charge: the largest |ADC| so near its time */
#define UNIT_TIMES 4 /* so many times the charge is in the other unit */

typedef struct {
    wm_reader_t reader;
    wm_frames_t *frames;
    wm_channels_t *map;
    bool in_us;
    double offset;           /* ticks from the hits' time to the frames' */
    char pedestal[24];       /* for people */
    double tick_us;          /* of the last event that was read */
    uint32_t *off_map;       /* (n_present) hits on wires that the map does not have */
    uint32_t n_hitless;      /* frames */
    int64_t hitless;         /* the first of them */
    wm_channels_lack_t lack; /* what the map lacks */
    char text[1280];
} joined_t;

static void joined_clear (wm_reader_t *reader)
{
    joined_t *self = (joined_t *) reader;
    wm_frames_close (&self->frames);
    wm_channels_drop (&self->map);
    free (self->off_map);
}

/* ---- one event ------------------------------------------------------------------------------- */

/* Refuses an event whose hits lie on signal only where their times are read in the other unit, by
   more than chance: of fewer than 14 hits never (wm_match.h).  */
static wm_fault_t unit_check (const joined_t *self, const wm_event_t *event, const char *where,
                              wm_error_t *error)
{
    const double other = self->in_us ? self->tick_us : 1 / self->tick_us;
    double here = 0, there = 0;
    wm_match_t match = { 0 };
    for (uint32_t i = 0; i < event->n_hit; i++) {
        const wm_hit_t *hit = &event->hit[i];
        const uint32_t p = wm_event_plane (event, hit->cryostat, hit->tpc, hit->plane);
        if (p == UINT32_MAX || hit->wire < 0 || !isfinite (hit->time))
            continue;
        const float a = wm_match_charge (event, &event->plane[p], (uint32_t) hit->wire, hit->time,
                                         UNIT_TICKS),
                    b = wm_match_charge (event, &event->plane[p], (uint32_t) hit->wire,
                                         (hit->time - self->offset) * other + self->offset,
                                         UNIT_TICKS);
        here += a, there += b;
        match.n_other += b > a;
        match.n++;
    }
    if (!wm_match_is_other (&match) || !(there > UNIT_TIMES * here))
        return WM_OK;
    return wm_fault (error, WM_EBATCH,
                     "%.300s: its hits miss the signal: %s is read in %s, and in %s there is %s "
                     "charge; if that is its unit, give --hit-time %s",
                     where, self->reader.hits.time.name, self->in_us ? "us" : "ticks",
                     self->in_us ? "ticks" : "us", here > 0 ? "several times the" : "some",
                     self->in_us ? "ticks" : "us");
}

/* Converts times, makes hits that the map does not know bad ones, and counts those on channels that
   the frame lacks, or calls bad at that time. `channel`: what the frame has.  */
static void hits_fit (joined_t *self, uint32_t ordinal, wm_event_t *event, const int32_t *channel,
                      uint32_t n_channel)
{
    self->off_map[ordinal] = 0;
    for (uint32_t i = 0; i < event->n_hit; i++) {
        wm_hit_t *hit = &event->hit[i];
        if (self->in_us)
            hit->time = (float) (hit->time / self->tick_us);
        hit->time = (float) (hit->time + self->offset);
        const wm_wire_t *wire = wm_channels_find (self->map, hit);
        if (!wire) {
            hit->wire = -1;
            self->off_map[ordinal]++;
        } else if (!bsearch (&wire->channel, channel, n_channel, sizeof *channel,
                             wm_channel_compare) ||
                   wm_frames_is_bad (self->frames, wire->channel, hit->time))
            event->n_bad_channel_hit++;
    }
}

static wm_fault_t joined_event (wm_reader_t *reader, uint32_t ordinal, wm_event_t *event,
                                wm_error_t *error)
{
    joined_t *self = (joined_t *) reader;
    const int64_t *id = self->reader.index.event[ordinal].id;
    const int32_t *channel;
    uint32_t n_channel;
    char where[480];
    event->trigger_offset = event->tau_us = NAN;
    if (wm_layout_begin (reader, ordinal, event))
        return wm_hits_read (&self->reader.hits, ordinal, event, error);
    snprintf (where, sizeof where, "%.300s: event %lld:%lld:%lld", wm_frames_path (self->frames),
              (long long) id[0], (long long) id[1], (long long) id[2]);
    wm_fault_t fault = wm_frames_read (self->frames, id[2], self->map, self->reader.spec->n_wire,
                                       event, where, &channel, &n_channel, error);
    if (!fault)
        fault = wm_hits_read (&self->reader.hits, ordinal, event, error);
    if (fault)
        return fault;
    self->tick_us = event->tick_us;
    if (isfinite (self->reader.spec->tick_us))
        self->tick_us = self->reader.spec->tick_us;
    hits_fit (self, ordinal, event, channel, n_channel);
    wm_channels_lack_note (&self->lack, self->map, id[2], channel, n_channel);
    wm_layout_where (where, sizeof where, self->reader.file, event);
    return unit_check (self, event, where, error);
}

/* ---- for people ------------------------------------------------------------------------------ */

static const char *joined_text (wm_reader_t *reader)
{
    joined_t *self = (joined_t *) reader;
    char tick[48] = "", offset[48] = "", pedestal[48] = "";
    if (self->tick_us > 0)
        snprintf (tick, sizeof tick, ", ticks of %g us", self->tick_us);
    if (self->offset != 0)
        snprintf (offset, sizeof offset, ", %+.9g ticks", self->offset);
    if (*self->pedestal)
        snprintf (pedestal, sizeof pedestal, ", pedestal %s", self->pedestal);
    snprintf (self->text, sizeof self->text, "%.80s read in %s%s%s%s", self->reader.hits.time.name,
              self->in_us ? "us" : "ticks", tick, offset, pedestal);
    return self->text;
}

static void add (joined_t *self, const char *format, ...) __attribute__ ((format (printf, 2, 3)));
static void add (joined_t *self, const char *format, ...)
{
    va_list arguments;
    const size_t at = strlen (self->text);
    va_start (arguments, format);
    snprintf (self->text + at, sizeof self->text - at, "%s", at ? "; " : "");
    vsnprintf (self->text + strlen (self->text), sizeof self->text - strlen (self->text), format,
               arguments);
    va_end (arguments);
}

static const char *unmatched_text (wm_reader_t *reader)
{
    joined_t *self = (joined_t *) reader;
    uint64_t n_hit = 0, n_event = 0, n_lost = 0, n_span, n_row;
    uint32_t first = 0;
    for (uint32_t i = self->reader.n_present; i--;)
        if (self->off_map[i]) {
            n_hit += self->off_map[i];
            n_event++;
            first = i;
        }
    self->text[0] = 0;
    const uint32_t n_frameless = self->reader.index.n_event - self->reader.n_present;
    for (uint32_t i = self->reader.n_present; i < self->reader.index.n_event; i++) {
        wm_rows_of (&self->reader.hits.rows, i, &n_span, &n_row);
        n_lost += n_row;
    }
    if (n_frameless) {
        const int64_t *id = self->reader.index.event[self->reader.n_present].id;
        add (self, "%llu hit%s of %u event%s without planes in %.200s (first %lld:%lld:%lld): held",
             (unsigned long long) n_lost, n_lost == 1 ? "" : "s", n_frameless,
             n_frameless == 1 ? "" : "s", wm_frames_path (self->frames), (long long) id[0],
             (long long) id[1], (long long) id[2]);
    }
    if (n_hit)
        add (self,
             "%llu hit%s in %llu event%s (first %lld:%lld:%lld) on wires that %.200s lacks: held",
             (unsigned long long) n_hit, n_hit == 1 ? "" : "s", (unsigned long long) n_event,
             n_event == 1 ? "" : "s", (long long) self->reader.index.event[first].id[0],
             (long long) self->reader.index.event[first].id[1],
             (long long) self->reader.index.event[first].id[2], self->map->path);
    char lack[480];
    wm_channels_lack_text (&self->lack, self->map, lack, sizeof lack);
    if (*lack)
        add (self, "%s", lack);
    if (self->n_hitless)
        add (self, "%u frame%s without hits (first %lld): not read", self->n_hitless,
             self->n_hitless == 1 ? "" : "s", (long long) self->hitless);
    return self->text;
}

static const wm_layout_t layout = { .name = "joined",
                                    .event = joined_event,
                                    .clear = joined_clear,
                                    .unmatched = unmatched_text,
                                    .joined = joined_text,
                                    .has_hits = true };

/* ---- opening --------------------------------------------------------------------------------- */

static const wm_hits_names_t numl = { .tpc = "tpc",
                                      .plane = "plane",
                                      .wire = "wire",
                                      .time = "time",
                                      .id = "hit_id",
                                      .table = "hit_table",
                                      .is_wire_float = true };
static const wm_hits_names_t opensamples = { .tpc = "tpc",
                                             .plane = "local_plane",
                                             .wire = "local_wire",
                                             .time = "local_time",
                                             .id = "hit_id",
                                             .table = "hit_table",
                                             .is_wire_float = true };
static const wm_hits_names_t larrecodnn = { .tpc = "tpc_id",
                                            .plane = "plane",
                                            .wire = "wire",
                                            .time = "time",
                                            .id = "ch_id",
                                            .table = "chargehits",
                                            .three_ids = true,
                                            .is_wire_float = true };

static const wm_hits_names_t csv = { .cryostat = "cryostat",
                                     .tpc = "tpc",
                                     .plane = "plane",
                                     .wire = "wire",
                                     .time = "time",
                                     .id = "hit_id",
                                     .table = "csv",
                                     .three_ids = true,
                                     .is_wire_float = true };

static wm_fault_t hits_open (joined_t *self, const char *hit_time, wm_error_t *error)
{
    char text[96];
    if (wm_h5_text (self->reader.file, "layout", text, sizeof text) &&
        !strcmp (text, "wiremill-exchange-1"))
        return wm_fault (
            error, WM_EBATCH,
            "%.300s: a file of the exchange layout, which has planes of its own: leave "
            "--planes and --channels out",
            wm_h5_path (self->reader.file));
    const bool has_numl = wm_h5_has (self->reader.file, "hit_table"),
               has_larrecodnn = wm_h5_has (self->reader.file, "chargehits");
    if (!has_numl && !has_larrecodnn && wm_h5_has (self->reader.file, "csv/time")) {
        wm_hits_names_t names = csv;
        if (!wm_h5_has (self->reader.file, "csv/cryostat"))
            names.cryostat = NULL;
        self->in_us = !strcmp (hit_time, "us");
        return wm_hits_columns (&self->reader.hits, self->reader.file, &names, error);
    }
    if (has_numl == has_larrecodnn)
        return wm_fault (error, WM_EBATCH, "%.300s: %s hit_table (numl) %s chargehits (larrecodnn)",
                         wm_h5_path (self->reader.file), has_numl ? "both" : "neither",
                         has_numl ? "and" : "nor");
    const wm_hits_names_t *names = has_larrecodnn ? &larrecodnn
                                   : wm_h5_has (self->reader.file, "hit_table/local_time")
                                       ? &opensamples
                                       : &numl;
    self->in_us = *hit_time ? !strcmp (hit_time, "us") : has_larrecodnn;
    return wm_hits_columns (&self->reader.hits, self->reader.file, names, error);
}

static int event_compare (const void *a_v, const void *b_v)
{
    const wm_event_id_t *a = a_v, *b = b_v;
    static const int order[] = { 2, 0, 1 };
    for (int i = 0; i < 3; i++)
        if (a->id[order[i]] != b->id[order[i]])
            return a->id[order[i]] < b->id[order[i]] ? -1 : 1;
    return 0;
}

/* Refuses two events of one number: a frame could be of either.  */
static wm_fault_t numbers_check (const joined_t *self, const wm_index_t *all, wm_error_t *error)
{
    wm_event_id_t *event = malloc ((all->n_event + 1ul) * sizeof *event);
    wm_fault_t fault = event ? WM_OK : wm_fault (error, WM_EHOST, "out of memory");
    if (event && all->n_event) {
        memcpy (event, all->event, all->n_event * sizeof *event);
        qsort (event, all->n_event, sizeof *event, event_compare);
    }
    for (uint32_t i = 1; i < all->n_event && !fault; i++)
        if (event[i].id[2] == event[i - 1].id[2])
            fault = wm_fault (
                error, WM_EBATCH,
                "%.300s: events %lld:%lld:%lld and %lld:%lld:%lld have one number, and frames have "
                "nothing else: give the hits of each run and subrun with the frames of their own",
                wm_h5_path (self->reader.file), (long long) event[i - 1].id[0],
                (long long) event[i - 1].id[1], (long long) event[i - 1].id[2],
                (long long) event[i].id[0], (long long) event[i].id[1], (long long) event[i].id[2]);
    free (event);
    return fault;
}

/* Lists the events that have hits and a frame, then those that have none, and counts frames without
   hits.  */
static wm_fault_t events_join (joined_t *self, wm_error_t *error)
{
    wm_index_t all = { 0 };
    wm_fault_t fault = wm_index_read (&all, self->reader.hits.event_id, true, error);
    if (!fault)
        fault = numbers_check (self, &all, error);
    const uint32_t n_frame = wm_frames_count (self->frames);
    bool *has_hits = fault ? NULL : calloc (n_frame + 1ul, sizeof *has_hits);
    if (!fault && !has_hits)
        fault = wm_fault (error, WM_EHOST, "out of memory");
    for (uint32_t i = 0; i < all.n_event && !fault; i++) {
        const uint32_t frame = wm_frames_find (self->frames, all.event[i].id[2]);
        if (frame == UINT32_MAX)
            continue;
        has_hits[frame] = true;
        fault = wm_index_add (&self->reader.index, &all.event[i], error);
    }
    self->reader.n_present = self->reader.index.n_event;
    for (uint32_t i = 0; i < all.n_event && !fault; i++)
        fault = wm_index_add (&self->reader.index, &all.event[i], error);
    for (uint32_t i = n_frame; i-- && !fault;)
        if (!has_hits[i]) {
            self->n_hitless++;
            self->hitless = wm_frames_number (self->frames, i);
        }
    free (has_hits);
    wm_index_clear (&all);
    return fault;
}

wm_reader_t *wm_joined_open (wm_h5_t **hits, const wm_reader_pair_t *pair, const wm_spec_t *spec,
                             wm_error_t *error)
{
    joined_t *self = wm_layout_new (sizeof *self, &layout, spec, hits, NULL, error);
    if (!self)
        return NULL;
    if (pair->hit_offset)
        self->offset = strtod (pair->hit_offset, NULL);
    if (pair->pedestal)
        snprintf (self->pedestal, sizeof self->pedestal, "%s", pair->pedestal);
    wm_fault_t fault = hits_open (self, pair->hit_time, error);
    if (!fault && !(self->map = wm_channels_get (pair->channels, error)))
        fault = error->fault;
    if (!fault && !(self->frames = wm_frames_open (pair->planes, error)))
        fault = error->fault;
    if (!fault) {
        wm_frames_pedestal (self->frames, self->pedestal);
        fault = events_join (self, error);
    }
    if (!fault)
        fault = wm_hits_scan (&self->reader.hits, &self->reader.index, error);
    self->off_map = fault ? NULL : calloc (self->reader.n_present + 1ul, sizeof *self->off_map);
    if (!fault && !self->off_map)
        fault = wm_fault (error, WM_EHOST, "out of memory");
    return wm_layout_done (&self->reader, fault);
}
