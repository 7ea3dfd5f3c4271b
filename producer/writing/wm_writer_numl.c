/* wm_writer_numl.c - the scores in the form of numl's tables, which pynuml reads.

     event_table/    event_id (events, 3)
     <table>_table/  event_id (rows, 3), hit_id, the labels (float32, NaN where held), in_fiducial,
                     status, each (rows, 1), of windows also cryostat, tpc, plane, wire and time,
                     because no table of hits states where they are; event_id.seq_cnt
                     (events, 2) int64: index of an event in event_table, and its rows
   Events are in the order of their first rows, and rows by event, because seq_cnt describes runs of
   rows; within an event they are in the input's order. Integers are int32, as numl's, where all
   values fit, else int64. The first dimension has no limit, as that of hep_hpc's tables. For each
   row 16 bytes (windows: 36) are kept until the tables are written.  */
#include "producer/writing/wm_writer_private.h"

#include "producer/files/wm_index.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_ROWS 16384u

/* Where a window is.  */
static const int place_column[] = { CRYOSTAT, TPC, PLANE, WIRE, TIME };
enum { PLACES = sizeof place_column / sizeof *place_column };

struct wm_writer_numl_t {
    wm_index_t index;
    int64_t *hit_id;           /* (n_row) */
    uint32_t *ordinal;         /* (n_row) of its event */
    uint32_t *order;           /* (n_row) row of the input, by event */
    int32_t *place;            /* (PLACES, n_row) of windows; else NULL */
    uint64_t *count;           /* (n_event) */
    bool wide_event, wide_hit; /* int64 */
    hid_t group;
    uint32_t step;
};

wm_writer_numl_t *wm_writer_numl_new (uint64_t n_row, bool has_place)
{
    wm_writer_numl_t *self = calloc (1, sizeof *self);
    assert (self);
    self->hit_id = malloc ((n_row + 1) * sizeof *self->hit_id);
    self->ordinal = malloc ((n_row + 1) * sizeof *self->ordinal);
    self->order = malloc ((n_row + 1) * sizeof *self->order);
    self->place = has_place ? malloc ((n_row + 1) * PLACES * sizeof *self->place) : NULL;
    assert (self->hit_id && self->ordinal && self->order && (self->place || !has_place));
    return self;
}

static void forget (wm_writer_numl_t *self)
{
    wm_index_clear (&self->index);
    free (self->count);
    if (self->group > 0)
        H5Gclose (self->group);
    self->count = NULL;
    self->wide_event = self->wide_hit = false;
    self->group = 0;
    self->step = 0;
}

void wm_writer_numl_destroy (wm_writer_numl_t **self_p)
{
    wm_writer_numl_t *self = *self_p;
    if (!self)
        return;
    forget (self);
    free (self->hit_id);
    free (self->ordinal);
    free (self->order);
    free (self->place);
    free (self);
    *self_p = NULL;
}

void wm_writer_numl_reset (wm_writer_t *writer)
{
    forget (writer->numl);
}

static bool is_wide (int64_t value)
{
    return value < INT32_MIN || value > INT32_MAX;
}

bool wm_writer_numl_take (wm_writer_t *writer, const wm_reader_rows_t *rows, uint32_t count)
{
    wm_writer_numl_t *self = writer->numl;
    wm_error_t error;
    for (uint32_t i = 0; i < count; i++) {
        const wm_event_id_t id = { { rows->run[i], rows->subrun[i], rows->event[i] } };
        uint32_t at = i ? self->ordinal[writer->row + i - 1] : UINT32_MAX;
        if (!i || memcmp (&self->index.event[at], &id, sizeof id)) {
            if (wm_index_add (&self->index, &id, &error))
                return false;
            at = wm_index_find (&self->index, &id);
        }
        self->ordinal[writer->row + i] = at;
        self->hit_id[writer->row + i] = rows->hit_id[i];
        const int32_t place[PLACES] = { rows->cryostat[i], rows->tpc[i], rows->plane[i],
                                        self->place ? rows->wire[i] : 0,
                                        self->place ? (int32_t) rows->time[i] : 0 };
        for (uint64_t c = 0; c < PLACES && self->place; c++)
            self->place[c * writer->job.scratch->n_row + writer->row + i] = place[c];
        self->wide_hit |= is_wide (rows->hit_id[i]);
        for (int k = 0; k < 3; k++)
            self->wide_event |= is_wide (id.id[k]);
    }
    return true;
}

/* Puts the rows in the order of their events.  */
static bool rows_order (wm_writer_numl_t *self, uint64_t n_row)
{
    uint64_t *at = calloc (self->index.n_event + 1ul, sizeof *at);
    self->count = calloc (self->index.n_event + 1ul, sizeof *self->count);
    if (!at || !self->count) {
        free (at);
        return false;
    }
    for (uint64_t i = 0; i < n_row; i++)
        self->count[self->ordinal[i]]++;
    for (uint32_t e = 1; e < self->index.n_event; e++)
        at[e] = at[e - 1] + self->count[e - 1];
    for (uint64_t i = 0; i < n_row; i++)
        self->order[at[self->ordinal[i]]++] = (uint32_t) i;
    free (at);
    return true;
}

static hid_t column_make (hid_t group, const char *name, hid_t type, uint64_t n, uint32_t width)
{
    const hsize_t dim[2] = { n, width }, most[2] = { H5S_UNLIMITED, width },
                  chunk[2] = { n && n < CHUNK_ROWS ? n : CHUNK_ROWS, width };
    hid_t list = H5Pcreate (H5P_DATASET_CREATE), space = H5Screate_simple (2, dim, most);
    H5Pset_obj_track_times (list, false);
    H5Pset_chunk (list, 2, chunk);
    H5Pset_shuffle (list);
    H5Pset_deflate (list, 2);
    hid_t dataset = H5Dcreate2 (group, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sclose (space);
    H5Pclose (list);
    return dataset;
}

/* Writes a column as a whole; takes `values`, NULL: no memory.  */
static bool column_write (hid_t group, const char *name, hid_t stored, hid_t memory, uint64_t n,
                          uint32_t width, void *values)
{
    hid_t dataset = values ? column_make (group, name, stored, n, width) : -1;
    bool fine = dataset >= 0 &&
                (!n || H5Dwrite (dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    if (dataset >= 0)
        fine = H5Dclose (dataset) >= 0 && fine;
    free (values);
    return fine;
}

/* The first step: event_table, the group of the scores, and the runs of its rows.  */
static bool events_write (wm_writer_t *writer)
{
    wm_writer_numl_t *self = writer->numl;
    const uint32_t n = self->index.n_event;
    char name[80];
    if (!rows_order (self, writer->job.scratch->n_row))
        return false;
    wm_event_id_t *event = malloc ((n + 1ul) * sizeof *event);
    int64_t *runs = malloc ((n + 1ul) * 2 * sizeof *runs);
    for (uint32_t e = 0; e < n && event && runs; e++) {
        event[e] = self->index.event[e];
        runs[2 * e] = e;
        runs[2 * e + 1] = (int64_t) self->count[e];
    }
    hid_t group = wm_writer_group (writer->file, "event_table");
    const hid_t type = self->wide_event ? H5T_STD_I64LE : H5T_STD_I32LE;
    bool fine = column_write (group, "event_id", type, H5T_NATIVE_INT64, n, 3, event);
    H5Gclose (group);
    snprintf (name, sizeof name, "%s_table", writer->job.spec->table);
    self->group = wm_writer_group (writer->file, name);
    return column_write (self->group, "event_id.seq_cnt", H5T_STD_I64LE, H5T_NATIVE_INT64, n, 2,
                         runs) &&
           fine;
}

static bool ids_write (const wm_writer_t *writer)
{
    const wm_writer_numl_t *self = writer->numl;
    const uint64_t n = writer->job.scratch->n_row;
    wm_event_id_t *event = malloc ((n + 1) * sizeof *event);
    int64_t *hit_id = malloc ((n + 1) * sizeof *hit_id);
    for (uint64_t i = 0; i < n && event && hit_id; i++) {
        event[i] = self->index.event[self->ordinal[self->order[i]]];
        hit_id[i] = self->hit_id[self->order[i]];
    }
    const bool fine =
        column_write (self->group, "event_id", self->wide_event ? H5T_STD_I64LE : H5T_STD_I32LE,
                      H5T_NATIVE_INT64, n, 3, event);
    return column_write (self->group, "hit_id", self->wide_hit ? H5T_STD_I64LE : H5T_STD_I32LE,
                         H5T_NATIVE_INT64, n, 1, hit_id) &&
           fine;
}

static bool score_write (const wm_writer_t *writer, uint32_t k)
{
    const wm_writer_numl_t *self = writer->numl;
    const wm_scratch_t *scratch = writer->job.scratch;
    float *value = malloc ((scratch->n_row + 1) * sizeof *value);
    char name[48];
    wm_writer_label (writer->job.spec, scratch->n_output, k, name);
    for (uint64_t i = 0; i < scratch->n_row && value; i++) {
        const uint64_t row = self->order[i];
        value[i] =
            scratch->state[row] == 1 ? scratch->score[row * scratch->n_output + k] : (float) NAN;
    }
    return column_write (self->group, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, scratch->n_row, 1,
                         value);
}

/* Where windows are; their ticks fit int32 (wm_event.h).  */
static bool place_write (const wm_writer_t *writer)
{
    const wm_writer_numl_t *self = writer->numl;
    const uint64_t n = writer->job.scratch->n_row;
    bool fine = true;
    for (uint64_t c = 0; c < PLACES && self->place && fine; c++) {
        int32_t *value = malloc ((n + 1) * sizeof *value);
        for (uint64_t i = 0; i < n && value; i++)
            value[i] = self->place[c * n + self->order[i]];
        fine = column_write (self->group, wm_writer_column[place_column[c]], H5T_STD_I32LE,
                             H5T_NATIVE_INT32, n, 1, value);
    }
    return fine;
}

static bool bytes_write (const wm_writer_t *writer)
{
    const wm_writer_numl_t *self = writer->numl;
    const wm_scratch_t *scratch = writer->job.scratch;
    uint8_t *inside = malloc (scratch->n_row + 1), *status = malloc (scratch->n_row + 1);
    for (uint64_t i = 0; i < scratch->n_row && inside && status; i++) {
        inside[i] = scratch->in_fiducial[self->order[i]];
        status[i] = wm_writer_status (scratch, self->order[i]);
    }
    const bool fine = column_write (self->group, "in_fiducial", H5T_STD_I32LE, H5T_NATIVE_UINT8,
                                    scratch->n_row, 1, inside);
    return column_write (self->group, "status", H5T_STD_I32LE, H5T_NATIVE_UINT8, scratch->n_row, 1,
                         status) &&
           fine;
}

bool wm_writer_numl_step (wm_writer_t *writer)
{
    wm_writer_numl_t *self = writer->numl;
    const uint32_t step = self->step++, n_output = writer->job.scratch->n_output;
    if (step == 0)
        return events_write (writer);
    if (step == 1)
        return ids_write (writer);
    if (step < 2 + n_output)
        return score_write (writer, step - 2);
    const bool fine = bytes_write (writer) && place_write (writer);
    forget (self);
    writer->phase = FINISH;
    return fine;
}
