/* wm_synth.c - `wiremill synth`: writes seeded events in the exchange layout.

   Besides the tables of the layout (the producer reads nothing else), hit_table carries `truth`, a
   label per hit in the order of its attribute `labels`, so that a network could be trained on it.
   The file is written under a temporary name and renamed when complete.  */
#include "producer/files/wm_h5.h"
#include "producer/synth/wm_synth.h"
#include "producer/verbs.h"
#include "schema/base/wm_fault.h"
#include "schema/base/wm_file.h"

#include <assert.h>
#include <errno.h>
#include <hdf5.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_ROWS 16384

typedef struct {
    long events, seed, run, hits, tpcs;
    double noise, tau_us;
    const char *output;
    bool is_quiet;
} options_t;

/* A dataset that rows are appended to.  */
typedef struct {
    hid_t dataset, type;
    hsize_t rows, width;
} column_t;

typedef struct {
    column_t event, n_tick, tick_us, trigger, tau, drift;
    column_t plane_event, plane_cryostat, plane_tpc, plane_plane, plane_wires, plane_pitch;
    column_t roi_event, roi_channel, roi_tick, roi_n, roi_adc;
    column_t hit_event, hit_cryostat, hit_tpc, hit_plane, hit_wire, hit_time, hit_key, hit_truth;
} tables_t;

static column_t column_new (hid_t file, const char *name, hid_t type, hsize_t width)
{
    hsize_t size[2] = { 0, width }, most[2] = { H5S_UNLIMITED, width };
    hsize_t chunk[2] = { CHUNK_ROWS, width };
    int rank = width > 1 ? 2 : 1;
    hid_t space = H5Screate_simple (rank, size, most);
    hid_t create = H5Pcreate (H5P_DATASET_CREATE), link = H5Pcreate (H5P_LINK_CREATE);
    H5Pset_chunk (create, rank, chunk);
    H5Pset_shuffle (create);
    H5Pset_deflate (create, 1);
    H5Pset_obj_track_times (create, 0);
    H5Pset_create_intermediate_group (link, 1);
    column_t column = { H5Dcreate2 (file, name, type, space, link, create, H5P_DEFAULT), type, 0,
                        width };
    H5Pclose (link);
    H5Pclose (create);
    H5Sclose (space);
    return column;
}

static int column_append (column_t *self, const void *rows, hsize_t count)
{
    if (!count)
        return 0;
    hsize_t size[2] = { self->rows + count, self->width }, start[2] = { self->rows, 0 };
    hsize_t extent[2] = { count, self->width };
    int rank = self->width > 1 ? 2 : 1;
    if (self->dataset < 0 || H5Dset_extent (self->dataset, size) < 0)
        return -1;
    hid_t file = H5Dget_space (self->dataset), memory = H5Screate_simple (rank, extent, NULL);
    H5Sselect_hyperslab (file, H5S_SELECT_SET, start, NULL, extent, NULL);
    herr_t result = H5Dwrite (self->dataset, self->type, memory, file, H5P_DEFAULT, rows);
    H5Sclose (memory);
    H5Sclose (file);
    self->rows += count;
    return result < 0 ? -1 : 0;
}

#define EVENT(name) column_new (file, name "/event_id", H5T_NATIVE_INT32, 3)
#define INT(name) column_new (file, name, H5T_NATIVE_INT32, 1)
#define DOUBLE(name) column_new (file, name, H5T_NATIVE_DOUBLE, 1)
#define FLOAT(name) column_new (file, name, H5T_NATIVE_FLOAT, 1)

static tables_t tables_new (hid_t file)
{
    return (tables_t){
        EVENT ("event_table"),
        INT ("event_table/n_tick"),
        DOUBLE ("event_table/tick_us"),
        DOUBLE ("event_table/trigger_offset"),
        DOUBLE ("event_table/tau_us"),
        DOUBLE ("event_table/drift_cm_us"),
        EVENT ("plane_table"),
        INT ("plane_table/cryostat"),
        INT ("plane_table/tpc"),
        INT ("plane_table/plane"),
        INT ("plane_table/n_wire"),
        FLOAT ("plane_table/pitch_cm"),
        EVENT ("roi_table"),
        INT ("roi_table/channel"),
        INT ("roi_table/tick"),
        INT ("roi_table/n"),
        FLOAT ("roi_value/adc"),
        EVENT ("hit_table"),
        INT ("hit_table/cryostat"),
        INT ("hit_table/tpc"),
        INT ("hit_table/plane"),
        INT ("hit_table/wire"),
        FLOAT ("hit_table/time"),
        column_new (file, "hit_table/key", H5T_NATIVE_INT64, 1),
        column_new (file, "hit_table/truth", H5T_NATIVE_UINT8, 1),
    };
}

static void tables_close (tables_t *self)
{
    column_t *column = (column_t *) self;
    for (size_t i = 0; i < sizeof *self / sizeof *column; i++)
        H5Dclose (column[i].dataset);
}

static void attribute_write (hid_t object, const char *name, const char *text)
{
    hid_t type = H5Tcopy (H5T_C_S1), space = H5Screate (H5S_SCALAR);
    H5Tset_size (type, strlen (text));
    hid_t attribute = H5Acreate2 (object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite (attribute, type, text);
    H5Aclose (attribute);
    H5Sclose (space);
    H5Tclose (type);
}

/* The channel map: every wire of every TPC, U and V wrapped onto 800 channels.  */
static int wires_write (hid_t file, int tpcs)
{
    column_t channel = INT ("wire_table/channel"), cryostat = INT ("wire_table/cryostat");
    column_t tpc_column = INT ("wire_table/tpc"), plane_column = INT ("wire_table/plane");
    column_t wire_column = INT ("wire_table/wire");
    int fault = 0;
    for (int32_t tpc = 0; tpc < tpcs; tpc++) {
        int32_t first = tpc * WM_TPC_CHANNELS;
        for (int32_t plane = 0; plane < WM_PLANES; plane++) {
            int32_t n = (int32_t) wm_plane_channels[plane];
            int32_t rows = (int32_t) wm_plane_wires[plane], row[5][1148];
            for (int32_t w = 0; w < rows; w++) {
                row[0][w] = first + w % n;
                row[1][w] = 0;
                row[2][w] = tpc;
                row[3][w] = plane;
                row[4][w] = w;
            }
            column_t *column[] = { &channel, &cryostat, &tpc_column, &plane_column, &wire_column };
            for (int k = 0; k < 5; k++)
                fault |= column_append (column[k], row[k], (hsize_t) rows);
            first += n;
        }
    }
    column_t all[] = { channel, cryostat, tpc_column, plane_column, wire_column };
    for (int k = 0; k < 5; k++)
        H5Dclose (all[k].dataset);
    return fault;
}

static int rois_write (tables_t *tables, const wm_synth_tpc_t *tpc, const int32_t id[3],
                       int32_t channel_first)
{
    const wm_synth_roi_t *roi;
    const float *value;
    size_t values, count = wm_synth_tpc_rois (tpc, &roi, &value, &values);
    int32_t *row = malloc ((count ? count : 1) * 6 * sizeof *row);
    assert (row);
    int32_t *channel = row + 3 * count, *tick = channel + count, *n = tick + count;
    for (size_t i = 0; i < count; i++) {
        memcpy (row + 3 * i, id, 3 * sizeof *id);
        channel[i] = channel_first + (int32_t) roi[i].channel;
        tick[i] = (int32_t) roi[i].tick;
        n[i] = (int32_t) roi[i].n;
    }
    int fault = column_append (&tables->roi_event, row, count) |
                column_append (&tables->roi_channel, channel, count) |
                column_append (&tables->roi_tick, tick, count) |
                column_append (&tables->roi_n, n, count) |
                column_append (&tables->roi_adc, value, values);
    free (row);
    return fault;
}

static int hits_write (tables_t *tables, const wm_synth_tpc_t *tpc, const int32_t id[3],
                       int32_t tpc_number, int64_t *key)
{
    const wm_synth_hit_t *hit;
    size_t count = wm_synth_tpc_hits (tpc, &hit);
    int fault = 0;
    for (size_t from = 0; from < count && !fault; from += CHUNK_ROWS) {
        static int32_t event[3 * CHUNK_ROWS], cryostat[CHUNK_ROWS], number[CHUNK_ROWS];
        static int32_t plane[CHUNK_ROWS], wire[CHUNK_ROWS];
        static int64_t keys[CHUNK_ROWS];
        static float time[CHUNK_ROWS];
        static uint8_t truth[CHUNK_ROWS];
        size_t n = count - from < CHUNK_ROWS ? count - from : CHUNK_ROWS;
        for (size_t i = 0; i < n; i++) {
            const wm_synth_hit_t *h = &hit[from + i];
            memcpy (event + 3 * i, id, 3 * sizeof *id);
            number[i] = tpc_number;
            plane[i] = (int32_t) h->plane;
            wire[i] = (int32_t) h->wire;
            time[i] = h->time;
            truth[i] = (uint8_t) h->truth;
            keys[i] = (*key)++;
        }
        fault = column_append (&tables->hit_event, event, n) |
                column_append (&tables->hit_cryostat, cryostat, n) |
                column_append (&tables->hit_tpc, number, n) |
                column_append (&tables->hit_plane, plane, n) |
                column_append (&tables->hit_wire, wire, n) |
                column_append (&tables->hit_time, time, n) |
                column_append (&tables->hit_key, keys, n) |
                column_append (&tables->hit_truth, truth, n);
    }
    return fault;
}

/* Simulates and writes one event; adds its hits to *key.  */
static int event_write (tables_t *tables, const options_t *options, wm_deposits_t *deposits,
                        wm_synth_tpc_t *tpc, int32_t number, int64_t *key)
{
    int32_t id[3] = { (int32_t) options->run, 1, number }, n_tick = WM_TICKS, zero = 0;
    double tick_us = WM_TICK_US, trigger = WM_TRIGGER_OFFSET, drift = WM_DRIFT_CM_US;
    wm_random_t random;
    wm_random_seed (&random, (uint64_t) options->seed, (uint64_t) number);
    deposits->count = 0;
    wm_synth_physics (&random, wm_synth_primaries ((double) options->hits, (int) options->tpcs),
                      (int) options->tpcs, deposits);
    int fault = column_append (&tables->event, id, 1) |
                column_append (&tables->n_tick, &n_tick, 1) |
                column_append (&tables->tick_us, &tick_us, 1) |
                column_append (&tables->trigger, &trigger, 1) |
                column_append (&tables->tau, &options->tau_us, 1) |
                column_append (&tables->drift, &drift, 1);
    for (int32_t t = 0; t < options->tpcs && !fault; t++) {
        wm_synth_tpc_run (tpc, &random, deposits, t, options->tau_us, options->noise);
        for (int32_t plane = 0; plane < WM_PLANES; plane++) {
            int32_t wires = (int32_t) wm_plane_wires[plane];
            float pitch = (float) (plane == 2 ? WM_COLLECTION_PITCH_CM : WM_INDUCTION_PITCH_CM);
            fault |= column_append (&tables->plane_event, id, 1) |
                     column_append (&tables->plane_cryostat, &zero, 1) |
                     column_append (&tables->plane_tpc, &t, 1) |
                     column_append (&tables->plane_plane, &plane, 1) |
                     column_append (&tables->plane_wires, &wires, 1) |
                     column_append (&tables->plane_pitch, &pitch, 1);
        }
        fault |= rois_write (tables, tpc, id, t * WM_TPC_CHANNELS) |
                 hits_write (tables, tpc, id, t, key);
    }
    return fault;
}

static int file_write (const options_t *options, const char *path)
{
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (file < 0)
        return -1;
    attribute_write (file, "layout", "wiremill-exchange-1");
    attribute_write (file, "made_by", WM_MADE_SYNTH);
    tables_t tables = tables_new (file);
    attribute_write (tables.hit_truth.dataset, "labels", "track em none michel");
    column_t bad_event = EVENT ("bad_channel"), bad_channel = INT ("bad_channel/channel");
    int fault = wires_write (file, (int) options->tpcs);
    wm_deposits_t deposits = { 0 };
    wm_synth_tpc_t *tpc = wm_synth_tpc_new ();
    int64_t key = 0;
    for (long i = 1; i <= options->events && !fault; i++) {
        int64_t before = key;
        fault = event_write (&tables, options, &deposits, tpc, (int32_t) i, &key);
        if (!options->is_quiet)
            fprintf (stderr, "synth: event %ld of %ld, %lld hits\n", i, options->events,
                     (long long) (key - before));
    }
    wm_synth_tpc_destroy (&tpc);
    free (deposits.deposit);
    H5Dclose (bad_event.dataset);
    H5Dclose (bad_channel.dataset);
    tables_close (&tables);
    return H5Fclose (file) < 0 || fault ? -1 : 0;
}

/* clang-format off */
static const wm_option_t option_table[] = {
    {.name = "output", .letter = 'o', .value = "FILE",
     .path = WM_PATH_WRITTEN, .writes = &wm_made_events, .is_needed = true, .task = "the file",
     .help = "the HDF5 file to write; one of an earlier synth is replaced"},
    WM_OPTION_FORCE,
    {.name = "events", .value = "N", .fallback = "2", .least = 1, .most = 1000000,
     .help = "how many events"},
    {.name = "seed", .value = "N", .fallback = "1", .least = LONG_MIN, .most = LONG_MAX,
     .help = "event i depends on the seed and i alone"},
    {.name = "run", .value = "N", .fallback = "1", .least = 0, .most = INT32_MAX,
     .help = "run number"},
    {.name = "hits", .value = "N", .fallback = "55000", .least = 1, .most = 10000000,
     .task = "an event",
     .help = "hits that are aimed at: 55000 gives 50,000 to 70,000, 3000 4,000 to 7,000"},
    {.name = "tpcs", .value = "N", .fallback = "6", .least = 1, .most = WM_TPCS,
     .help = "drift volumes"},
    {.name = "noise", .value = "ADC", .fallback = "0.5", .real_most = 100,
     .help = "width of the noise"},
    {.name = "tau", .value = "US", .fallback = "10000", .real_least = 100, .real_most = INFINITY,
     .is_above = true, .help = "electron lifetime in microseconds"},
    {.name = "quiet", .letter = 'q', .task = "messages", .help = "print no progress"},
    {.name = NULL},
};

static int synth_main (const wm_args_t *args);
const wm_verb_t wm_verb_synth = {
    .name = "synth", .task = "files", .summary = "write seeded synthetic events",
    .text = "  wiremill synth --events 10 --seed 1 --output events.h5\n\n"
            "Writes ProtoDUNE-like events in the exchange layout, with a truth label per hit.\n",
    .options = option_table, .run = synth_main };
/* clang-format on */

static int complain (const wm_error_t *error)
{
    fprintf (stderr, "wiremill synth: %s\n", error->text);
    return wm_exit_of (error->fault);
}

static int synth_main (const wm_args_t *args)
{
    const options_t options = { .events = wm_args_number (args, "events"),
                                .seed = wm_args_number (args, "seed"),
                                .run = wm_args_number (args, "run"),
                                .hits = wm_args_number (args, "hits"),
                                .tpcs = wm_args_number (args, "tpcs"),
                                .noise = wm_args_real (args, "noise"),
                                .tau_us = wm_args_real (args, "tau"),
                                .output = wm_args_text (args, "output"),
                                .is_quiet = wm_args_given (args, "quiet") };
    char place[PATH_MAX];
    wm_file_new_t file;
    wm_error_t error;
    wm_h5_init ();
    if (wm_file_begin (&file, wm_args_place (args, "output", place), true, &error))
        return complain (&error);
    errno = 0;
    if (file_write (&options, file.temporary)) {
        wm_file_unwritten (options.output, errno, &error);
        wm_file_abort (&file);
        return complain (&error);
    }
    return wm_file_commit (&file, &error) ? complain (&error) : WM_EXIT_OK;
}
