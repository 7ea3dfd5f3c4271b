/* wm_writer_frames.c - image results, stitched to frames in the form of Wire-Cell's HDF5FrameTap.

     /<event>/frame_<table>     float32 (wires of all planes, drift bins); NaN where a tile is held
     /<event>/channels_<table>  int32 (wires): of the channel map, else the row's number; -1: a wire
                                that the map does not have
     /<event>/tickinfo_<table>  float64 (3): 0, length of a drift bin in nanoseconds (NaN: the input
                                does not state its tick), 0
     /<event>/wires_<table>     int32 (wires, 4): cryostat, tpc, plane, wire
     attributes of the group: run, subrun, event
   Planes follow each other by cryostat, TPC, plane. The group's name is the event's number; of a
   number that an earlier event of the input has, too, it is <event>_<place in the input, from 0>.
   The sizes of the planes are read again, without their waveforms; a step writes one plane, and no
   more is in memory.  */
#include "producer/writing/wm_writer_private.h"

#include "kernels/patch/wm_image.h"
#include "producer/layouts/wm_channels.h"
#include "producer/layouts/wm_points.h"
#include "producer/writing/wm_stitch.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_ROWS 32u

struct wm_writer_frames_t {
    wm_channels_t *map; /* NULL: none is pinned */
    wm_event_t event;
    uint32_t ordinal;   /* of the event */
    uint32_t plane;     /* of it: the next to write; 0: nothing of the event is made */
    uint64_t row;       /* of the frame: the plane's first */
    uint64_t tile;      /* the plane's first, as the rows of the output number them */
    hid_t group, frame; /* of the event */
};

wm_writer_frames_t *wm_writer_frames_new (void)
{
    wm_writer_frames_t *self = calloc (1, sizeof *self);
    assert (self);
    return self;
}

static bool event_end (wm_writer_frames_t *self)
{
    bool fine = self->frame <= 0 || H5Dclose (self->frame) >= 0;
    fine = (self->group <= 0 || H5Gclose (self->group) >= 0) && fine;
    self->frame = self->group = 0;
    self->plane = 0;
    self->row = 0;
    return fine;
}

bool wm_writer_frames_reset (wm_writer_frames_t *self)
{
    const bool fine = event_end (self);
    self->ordinal = 0;
    self->tile = 0;
    return fine;
}

void wm_writer_frames_destroy (wm_writer_frames_t **self_p)
{
    wm_writer_frames_t *self = *self_p;
    if (!self)
        return;
    event_end (self);
    wm_event_clear (&self->event);
    wm_channels_drop (&self->map);
    free (self);
    *self_p = NULL;
}

static bool number_put (hid_t group, const char *name, int64_t number)
{
    hid_t space = H5Screate (H5S_SCALAR);
    hid_t attribute = H5Acreate2 (group, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT);
    const bool fine = attribute >= 0 && H5Awrite (attribute, H5T_NATIVE_INT64, &number) >= 0;
    if (attribute >= 0)
        H5Aclose (attribute);
    H5Sclose (space);
    return fine;
}

/* Makes a dataset of one or two dimensions; packed if it is a frame.  */
static hid_t table_make (hid_t group, const char *kind, const char *tag, hid_t type, int n_dim,
                         uint64_t n_row, uint32_t n_col)
{
    char name[80];
    const hsize_t dim[2] = { n_row, n_col },
                  chunk[2] = { n_row < CHUNK_ROWS ? n_row : CHUNK_ROWS, n_col };
    hid_t list = H5Pcreate (H5P_DATASET_CREATE), space = H5Screate_simple (n_dim, dim, NULL);
    H5Pset_obj_track_times (list, false);
    if (n_row && n_col > 4) {
        H5Pset_chunk (list, 2, chunk);
        H5Pset_shuffle (list);
        H5Pset_deflate (list, 2);
    }
    snprintf (name, sizeof name, "%s_%s", kind, tag);
    hid_t dataset = H5Dcreate2 (group, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sclose (space);
    H5Pclose (list);
    return dataset;
}

/* A whole small dataset (n_col 0: of one dimension).  */
static bool table_put (hid_t group, const char *kind, const char *tag, hid_t type, hid_t memory,
                       uint64_t n_row, uint32_t n_col, const void *value)
{
    hid_t dataset = table_make (group, kind, tag, type, n_col ? 2 : 1, n_row, n_col);
    if (dataset < 0)
        return false;
    const bool fine =
        !n_row || H5Dwrite (dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0;
    return H5Dclose (dataset) >= 0 && fine;
}

/* ---- an event -------------------------------------------------------------------------------- */

/* Leaves each plane once in the event, which has it for each channel of a patch.  */
static void planes_once (wm_event_t *event)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < event->n_plane; p++) {
        const wm_event_plane_t *a = &event->plane[p], *b = n ? &event->plane[n - 1] : NULL;
        if (!b || a->cryostat != b->cryostat || a->tpc != b->tpc || a->plane != b->plane)
            event->plane[n++] = *a;
    }
    event->n_plane = n;
}

/* The rows of the frame: their wires and channels.  */
static bool wires_write (const wm_writer_t *writer, uint64_t n_row)
{
    const wm_writer_frames_t *self = writer->frames;
    const char *tag = writer->job.spec->table;
    int32_t *channel = malloc ((n_row + 1) * sizeof *channel);
    int32_t (*wire)[4] = malloc ((n_row + 1) * sizeof *wire);
    uint64_t row = 0;
    for (uint32_t p = 0; p < self->event.n_plane && channel && wire; p++) {
        const wm_event_plane_t *plane = &self->event.plane[p];
        for (uint32_t w = 0; w < plane->n_wire; w++, row++) {
            const wm_hit_t at = { plane->cryostat, plane->tpc, plane->plane, (int32_t) w, 0, 0 };
            const wm_wire_t *found = self->map ? wm_channels_find (self->map, &at) : NULL;
            channel[row] = found ? found->channel : self->map ? -1 : (int32_t) row;
            memcpy (wire[row], (int32_t[]){ at.cryostat, at.tpc, at.plane, at.wire }, sizeof *wire);
        }
    }
    const bool fine =
        channel && wire &&
        table_put (self->group, "channels", tag, H5T_STD_I32LE, H5T_NATIVE_INT32, n_row, 0,
                   channel) &&
        table_put (self->group, "wires", tag, H5T_STD_I32LE, H5T_NATIVE_INT32, n_row, 4, wire);
    free (channel);
    free (wire);
    return fine;
}

/* Makes the event's group with all but the frame's values.  */
static bool event_begin (wm_writer_t *writer)
{
    wm_writer_frames_t *self = writer->frames;
    const wm_spec_t *spec = writer->job.spec;
    const wm_event_t *event = &self->event;
    const double tick[3] = { 0, event->tick_us * 1e3 * spec->drift_window, 0 };
    uint64_t n_row = 0;
    char name[48];
    for (uint32_t p = 0; p < event->n_plane; p++)
        n_row += event->plane[p].n_wire;
    snprintf (name, sizeof name, "%lld", (long long) event->event);
    if (H5Lexists (writer->file, name, H5P_DEFAULT) > 0)
        snprintf (name, sizeof name, "%lld_%u", (long long) event->event, self->ordinal);
    self->group = wm_writer_group (writer->file, name);
    if (self->group < 0 || !number_put (self->group, "run", event->run) ||
        !number_put (self->group, "subrun", event->subrun) ||
        !number_put (self->group, "event", event->event) || !wires_write (writer, n_row) ||
        !table_put (self->group, "tickinfo", spec->table, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, 3, 0,
                    tick))
        return false;
    self->frame = table_make (self->group, "frame", spec->table, H5T_IEEE_F32LE, 2, n_row,
                              wm_image_n_col (spec, event->n_tick));
    return self->frame >= 0;
}

/* ---- a plane --------------------------------------------------------------------------------- */

/* The plane's tiles, as wm_points.h places and numbers them. NULL with *error.  */
static wm_tile_t *tiles_of (const wm_writer_t *writer, const wm_stitch_t *size, uint32_t *n,
                            wm_error_t *error)
{
    const wm_scratch_t *scratch = writer->job.scratch;
    const wm_spec_t *spec = writer->job.spec;
    const uint32_t step_wire = spec->step_wire ? spec->step_wire : spec->patch_wire,
                   step_bin = spec->step_bin ? spec->step_bin : spec->patch_bin,
                   n_row = wm_points_count (size->n_wire, spec->patch_wire, step_wire),
                   n_col = wm_points_count (size->n_bin, spec->patch_bin, step_bin);
    const uint64_t first = writer->frames->tile, count = (uint64_t) n_row * n_col;
    if (count > scratch->n_row - first) {
        wm_fault (error, WM_EBATCH, "event %lld:%lld:%lld changed while it was read",
                  (long long) writer->frames->event.run, (long long) writer->frames->event.subrun,
                  (long long) writer->frames->event.event);
        return NULL;
    }
    wm_tile_t *tile = malloc ((count + 1) * sizeof *tile);
    if (!tile)
        wm_fault (error, WM_EHOST, "no memory for %llu tiles", (unsigned long long) count);
    for (uint32_t i = 0; i < count && tile; i++)
        tile[i] = (wm_tile_t){
            .wire = wm_points_at (i / n_col, size->n_wire, spec->patch_wire, step_wire),
            .bin = wm_points_at (i % n_col, size->n_bin, spec->patch_bin, step_bin),
            .image = scratch->state[first + i] == 1
                         ? scratch->score + (size_t) (first + i) * scratch->n_output
                         : NULL,
        };
    *n = (uint32_t) count;
    return tile;
}

static bool plane_write (wm_writer_t *writer, const wm_event_plane_t *plane, wm_fault_t *fault,
                         wm_error_t *error)
{
    wm_writer_frames_t *self = writer->frames;
    const wm_spec_t *spec = writer->job.spec;
    const wm_stitch_t size = { spec->patch_wire, spec->patch_bin, plane->n_wire,
                               wm_image_n_col (spec, self->event.n_tick) };
    const hsize_t start[2] = { self->row, 0 }, count[2] = { size.n_wire, size.n_bin };
    uint32_t n = 0;
    wm_tile_t *tile = tiles_of (writer, &size, &n, error);
    float *image = tile ? malloc (((size_t) size.n_wire * size.n_bin + 1) * sizeof *image) : NULL;
    *fault = !tile   ? error->fault
             : image ? wm_stitch (&size, tile, n, image, error)
                     : wm_fault (error, WM_EHOST, "no memory for a plane of %u x %u", size.n_wire,
                                 size.n_bin);
    bool fine = true;
    if (!*fault) {
        hid_t file = H5Dget_space (self->frame), memory = H5Screate_simple (2, count, NULL);
        H5Sselect_hyperslab (file, H5S_SELECT_SET, start, NULL, count, NULL);
        fine = H5Dwrite (self->frame, H5T_NATIVE_FLOAT, memory, file, H5P_DEFAULT, image) >= 0;
        H5Sclose (memory);
        H5Sclose (file);
    }
    self->row += size.n_wire;
    self->tile += n;
    free (tile);
    free (image);
    return fine;
}

bool wm_writer_frames_step (wm_writer_t *writer, wm_fault_t *fault, wm_error_t *error)
{
    wm_writer_frames_t *self = writer->frames;
    const wm_writer_job_t *job = &writer->job;
    *fault = WM_OK;
    if (self->ordinal == wm_reader_n_event (job->reader)) {
        writer->phase = FINISH;
        return true;
    }
    if (!self->group) {
        if (!self->map && *job->pins->channels &&
            !(self->map = wm_channels_get (job->pins->channels, error)))
            *fault = error->fault;
        if (!*fault)
            *fault = wm_reader_planes (job->reader, self->ordinal, &self->event, error);
        if (!*fault)
            planes_once (&self->event);
        if (*fault || !event_begin (writer))
            return *fault != WM_OK;
    } else if (self->plane < self->event.n_plane) {
        const wm_event_plane_t *plane = &self->event.plane[self->plane++];
        return plane_write (writer, plane, fault, error);
    }
    if (self->plane < self->event.n_plane)
        return true;
    self->ordinal++;
    return event_end (self);
}
