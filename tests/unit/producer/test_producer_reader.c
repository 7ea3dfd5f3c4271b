/* test_producer_reader.c - each layout is read as written, and what is broken or leads out of the
   file is refused by name.  */
#include "tests/unit/producer_files.h"
#include "tests/unit/unit.h"

#include "producer/files/wm_h5.h"
#include "producer/files/wm_npy.h"
#include "producer/layouts/wm_hits_csv.h"
#include "producer/layouts/wm_layout.h"

#include <math.h>
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static wm_spec_t spec;
static wm_event_t event;

static int setup (void **state)
{
    wm_h5_init ();
    return wm_spec_preset (&spec, "protodune-2021", NULL) != WM_OK;
}

static int teardown (void **state)
{
    wm_event_clear (&event);
    test_folder_remove ();
    return 0;
}

/* The file cannot be opened (or event 0 or 1 not read), and the reason holds these words.  */
static void refused (const char *path, uint32_t n_value, const char *words)
{
    wm_error_t error = { 0 };
    wm_reader_t *reader = wm_reader_open (path, &spec, &error);
    if (reader)
        wm_reader_fits (reader, path, n_value, "", &error);
    for (uint32_t e = 0; reader && e < wm_reader_n_event (reader) && !error.fault; e++)
        wm_reader_event (reader, e, &event, &error);
    wm_reader_destroy (&reader);
    assert_int_equal (error.fault, WM_EBATCH);
    if (!strstr (error.text, words))
        fail_msg ("'%s' does not say '%s'", error.text, words);
}

static wm_reader_t *opened (const char *path, uint32_t n_value, const char *layout)
{
    wm_error_t error = { 0 };
    wm_reader_t *reader = wm_reader_open (path, &spec, &error);
    if (!reader || wm_reader_fits (reader, path, n_value, "", &error))
        fail_msg ("%s", error.text);
    assert_string_equal (reader->layout->name, layout);
    return reader;
}

static void exchange_is_read (void **state)
{
    const char *path = test_path ("exchange.h5");
    H5Fclose (exchange_make (path));
    wm_reader_t *reader = opened (path, 0, "wiremill exchange");
    assert_int_equal (wm_reader_n_event (reader), 3);
    assert_int_equal (wm_reader_n_missing (reader), 1);
    assert_int_equal (wm_reader_n_row (reader), 6);

    assert_int_equal (wm_reader_event (reader, 0, &event, NULL), WM_OK);
    assert_int_equal (event.event, 5);
    assert_int_equal (event.n_tick, 100);
    assert_true (event.tau_us == 1000 && event.tick_us == 0.5 && event.trigger_offset == 10);
    assert_int_equal (event.n_plane, 2);
    assert_int_equal (event.plane[0].plane, 0); /* in order, though the file has 2 first */
    assert_int_equal (event.plane[0].n_wire, 8);
    assert_int_equal (event.plane[1].n_wire, 6);
    /* the wrapped channel fills both wires, with the same samples */
    assert_int_equal (event.plane[0].roi_count, 2);
    assert_int_equal (event.roi[0].wire, 3);
    assert_int_equal (event.roi[1].wire, 7);
    assert_true (event.sample[event.roi[1].value] == 10 && event.roi[1].count == 3);
    assert_int_equal (event.roi[2].tick, 96);
    assert_true (event.sample[event.roi[2].value + 3] == 8);
    assert_int_equal (event.n_hit, 3);
    assert_int_equal (event.hit[0].row, 1);
    assert_int_equal (event.hit[2].row, 5);
    assert_true (event.hit[0].time == 31.5f && event.hit[0].wire == 7);

    assert_int_equal (wm_reader_event (reader, 1, &event, NULL), WM_OK);
    assert_int_equal (event.n_roi, 1); /* channel 4 is bad in this event */
    assert_true (event.sample[event.roi[0].value] == 3);
    assert_int_equal (event.n_bad_channel_hit, 1);
    assert_int_equal (event.n_hit, 2);

    assert_int_equal (wm_reader_event (reader, 2, &event, NULL), WM_OK);
    assert_true (event.is_missing && event.event == 9 && event.n_hit == 1 && event.n_plane == 0);

    int64_t run[6], subrun[6], number[6], id[6];
    int32_t cryostat[6], tpc[6], plane[6];
    const wm_reader_rows_t rows = { run, subrun, number, id, cryostat, tpc, plane, NULL, NULL };
    assert_int_equal (wm_reader_rows (reader, 2, 4, &rows, NULL), WM_OK);
    assert_int_equal (id[0], 102);
    assert_int_equal (number[2], 9); /* only the hit names its event */
    assert_int_equal (plane[0], 2);
    wm_reader_destroy (&reader);
}

static void specification_overrides_wires (void **state)
{
    const char *path = test_path ("wires.h5");
    H5Fclose (exchange_make (path));
    spec.n_wire = 20;
    wm_reader_t *reader = opened (path, 0, "wiremill exchange");
    assert_int_equal (wm_reader_event (reader, 0, &event, NULL), WM_OK);
    assert_int_equal (event.plane[1].n_wire, 20);
    wm_reader_destroy (&reader);
    spec.n_wire = 2;
    refused (path, 0, "lie outside 2 wires");
    spec.n_wire = 0;
}

/* Two events, 7:1:2 of wires 0 to 3 and 7:1:3 of wire 4, a hit on each, and an event without
   either. `runs` (n, 2): event_id.seq_cnt of both tables, or NULL; `odd`: this row of the wires
   names 7:1:3.  */
static const char *indexed_make (const int64_t *runs, hsize_t n, int odd)
{
    enum { ROWS = 5, TICKS = 20 };
    static const int events[] = { 7, 1, 1, 7, 1, 2, 7, 1, 3 };
    int id[ROWS][3], zero[ROWS] = { 0 }, wire[ROWS], hit_id[ROWS];
    float adc[ROWS][TICKS] = { { 0 } }, time[ROWS];
    const char *path = test_path ("indexed.h5");
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    for (int i = 0; i < ROWS; i++) {
        id[i][0] = 7, id[i][1] = 1, id[i][2] = i < 4 ? 2 : 3;
        wire[i] = i, hit_id[i] = 100 + i, time[i] = (float) i, adc[i][i] = 5;
    }
    put_i32 (file, "event_table/event_id", 3, 3, events);
    put_i32 (file, "hit_table/event_id", ROWS, 3, &id[0][0]);
    if (odd >= 0)
        id[odd][2] = 3;
    put_i32 (file, "wire_table/event_id", ROWS, 3, &id[0][0]);
    put_i32 (file, "wire_table/local_plane", ROWS, 1, zero);
    put_i32 (file, "wire_table/local_wire", ROWS, 1, wire);
    put_i32 (file, "wire_table/tpc", ROWS, 1, zero);
    put_f32 (file, "wire_table/adc", ROWS, TICKS, &adc[0][0]);
    put_i32 (file, "hit_table/hit_id", ROWS, 1, hit_id);
    put_i32 (file, "hit_table/local_plane", ROWS, 1, zero);
    put_i32 (file, "hit_table/local_wire", ROWS, 1, wire);
    put_i32 (file, "hit_table/tpc", ROWS, 1, zero);
    put_f32 (file, "hit_table/local_time", ROWS, 1, time);
    if (runs) {
        put (file, "wire_table/event_id.seq_cnt", H5T_NATIVE_INT64, n, 2, runs);
        put (file, "hit_table/event_id.seq_cnt", H5T_NATIVE_INT64, n, 2, runs);
    }
    H5Fclose (file);
    return path;
}

static void opensamples_have_an_index (void **state)
{
    static const struct {
        const char *note; /* "": the index is used */
        int64_t run[4][2];
        hsize_t n;
    } list[] = {
        { "", { { 1, 4 }, { 2, 1 } }, 2 },
        { "", { { 0, 0 }, { 1, 4 }, { 2, 1 } }, 3 },
        { "wire_table/event_id.seq_cnt is not used: it tells of 4 rows, the table has 5; hit",
          { { 1, 4 } },
          1 },
        { "row 1 is (2, 2), not an event and its rows", { { 1, 4 }, { 2, 2 } }, 2 },
        { "row 1 is (1, 1), not an event and its rows", { { 1, 4 }, { 1, 1 } }, 2 },
        { "row 0 is (3, 5), not an event and its rows", { { 3, 5 } }, 1 },
        { "row 0 is (-1, 5), not an event and its rows", { { -1, 5 } }, 1 },
        { "row 0 is (1, -4), not an event and its rows", { { 1, -4 }, { 2, 9 } }, 2 },
        { "by event_id row 4 is of 7:1:3", { { 1, 5 } }, 1 },
        { "by event_id row 0 is of 7:1:2", { { 0, 4 }, { 1, 1 } }, 2 },
        { "it has 4 rows, event_table 3", { { 0, 0 }, { 1, 4 }, { 2, 1 }, { 3, 0 } }, 4 },
    };
    wm_error_t error;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        wm_reader_t *reader =
            opened (indexed_make (list[i].run[0], list[i].n, -1), 0, "OpenSamples");
        const char *note = wm_reader_unmatched (reader);
        assert_true (list[i].note[0] ? strstr (note, list[i].note) != NULL : !*note);
        assert_int_equal (wm_reader_event (reader, 0, &event, NULL), WM_OK);
        assert_true (event.n_hit == 0 && event.n_roi == 0);
        assert_int_equal (wm_reader_event (reader, 1, &event, NULL), WM_OK);
        assert_true (event.n_hit == 4 && event.n_roi == 4 && event.plane[0].n_wire == 4);
        assert_int_equal (wm_reader_event (reader, 2, &event, NULL), WM_OK);
        assert_true (event.n_hit == 1 && event.n_roi == 1 && event.hit[0].row == 4);
        wm_reader_destroy (&reader);
    }
    /* by the index; a scan would give the row to the other event */
    wm_reader_t *reader = opened (indexed_make (list[0].run[0], 2, 2), 0, "OpenSamples");
    assert_string_equal (wm_reader_unmatched (reader), "");
    assert_int_equal (wm_reader_event (reader, 1, &event, &error), WM_EBATCH);
    assert_non_null (
        strstr (error.text, "wire_table/event_id.seq_cnt is wrong: row 2 is of event 7:1:3"));
    assert_int_equal (wm_reader_event (reader, 2, &event, NULL), WM_OK);
    wm_reader_destroy (&reader);
    reader = opened (indexed_make (NULL, 0, 2), 0, "OpenSamples");
    assert_int_equal (wm_reader_event (reader, 1, &event, NULL), WM_OK);
    assert_int_equal (event.n_roi, 3);
    wm_reader_destroy (&reader);

    static const double floats[] = { 1, 4, 2, 1 };
    const char *path = indexed_make (NULL, 0, -1);
    hid_t file = H5Fopen (path, H5F_ACC_RDWR, H5P_DEFAULT);
    put (file, "hit_table/event_id.seq_cnt", H5T_NATIVE_DOUBLE, 2, 2, floats);
    H5Fclose (file);
    reader = opened (path, 0, "OpenSamples");
    assert_string_equal (wm_reader_unmatched (reader),
                         "hit_table/event_id.seq_cnt is not used: it is "
                         "not of integers (events, 2)");
    wm_reader_destroy (&reader);
}

static void opensamples_is_read (void **state)
{
    enum { WIRES = 3, TICKS = 40 };
    static const int ids[] = { 7, 1, 2, 7, 1, 3 };
    static const int wire_ids[] = { 7, 1, 3, 7, 1, 2, 7, 1, 3 };
    static const int plane[] = { 1, 0, 1 }, wire[] = { 4, 0, 1 }, tpc[] = { 2, 2, 2 };
    static float adc[WIRES][TICKS];
    static const int hit_ids[] = { 7, 1, 3, 7, 1, 2 }, hit_plane[] = { 1, 0 },
                     hit_wire[] = { 4, 0 }, hit_id[] = { 50, 51 };
    static const float time[] = { 3.5f, 4 };
    adc[0][3] = 2, adc[0][4] = -1, adc[0][39] = 9; /* two regions, the last to the end */
    adc[2][0] = NAN;
    const char *path = test_path ("open.h5");
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_i32 (file, "event_table/event_id", 2, 3, ids);
    put_i32 (file, "wire_table/event_id", WIRES, 3, wire_ids);
    put_i32 (file, "wire_table/local_plane", WIRES, 1, plane);
    put_i32 (file, "wire_table/local_wire", WIRES, 1, wire);
    put_i32 (file, "wire_table/tpc", WIRES, 1, tpc);
    put_f32 (file, "wire_table/adc", WIRES, TICKS, &adc[0][0]);
    put_i32 (file, "hit_table/event_id", 2, 3, hit_ids);
    put_i32 (file, "hit_table/hit_id", 2, 1, hit_id);
    put_i32 (file, "hit_table/local_plane", 2, 1, hit_plane);
    put_i32 (file, "hit_table/local_wire", 2, 1, hit_wire);
    put_i32 (file, "hit_table/tpc", 2, 1, tpc);
    put_f32 (file, "hit_table/local_time", 2, 1, time);
    H5Fclose (file);
    wm_reader_t *reader = opened (path, 0, "OpenSamples");
    assert_int_equal (wm_reader_event (reader, 1, &event, NULL), WM_OK);
    assert_int_equal (event.n_plane, 1);
    assert_int_equal (event.plane[0].n_wire, 5); /* largest wire + 1 */
    assert_int_equal (event.plane[0].tpc, 2);
    assert_int_equal (event.n_roi, 3);
    assert_int_equal (event.roi[0].wire, 1); /* NaN is not 0: it must not be lost */
    assert_int_equal (event.roi[1].tick, 3);
    assert_int_equal (event.roi[1].count, 2);
    assert_int_equal (event.roi[2].tick, 39);
    assert_int_equal (event.hit[0].row, 0);
    assert_true (isnan (event.tau_us));
    assert_int_equal (wm_reader_event (reader, 0, &event, NULL), WM_OK);
    assert_int_equal (event.n_roi, 0);
    assert_int_equal (event.n_hit, 1);
    wm_reader_destroy (&reader);

    file = H5Fopen (path, H5F_ACC_RDWR, H5P_DEFAULT);
    static const int twice[] = { 4, 0, 4 };
    replace (file, "wire_table/local_wire", H5T_NATIVE_INT, WIRES, 1, twice);
    adc[2][3] = 1;
    replace (file, "wire_table/adc", H5T_NATIVE_FLOAT, WIRES, TICKS, adc);
    H5Fclose (file);
    refused (path, 0,
             "open.h5: event 7:1:3: wire_table: rows 0 and 2 both are wire 4 of cryostat 0, "
             "tpc 2, plane 1: it is unclear which waveform");
    file = H5Fopen (path, H5F_ACC_RDWR, H5P_DEFAULT); /* the same wire in two events, or two TPCs */
    static const int two_tpcs[] = { 2, 2, 1 };
    replace (file, "wire_table/tpc", H5T_NATIVE_INT, WIRES, 1, two_tpcs);
    static const int two_events[] = { 4, 4, 4 }, one_plane[] = { 1, 1, 1 };
    replace (file, "wire_table/local_wire", H5T_NATIVE_INT, WIRES, 1, two_events);
    replace (file, "wire_table/local_plane", H5T_NATIVE_INT, WIRES, 1, one_plane);
    H5Fclose (file);
    reader = opened (path, 0, "OpenSamples");
    assert_int_equal (wm_reader_event (reader, 1, &event, NULL), WM_OK);
    assert_int_equal (event.n_plane, 2);
    assert_int_equal (wm_reader_event (reader, 0, &event, NULL), WM_OK);
    wm_reader_destroy (&reader);
}

/* ---- a wire that is there twice -------------------------------------------------------------- */

/* A map of a detector's size, rows in any order; `twice`: one of them comes again, from another
   channel. Two in a hundred rows are of channels without a wire, which may be many.  */
static void map_write (hid_t file, int n, int twice)
{
    const char *const name[] = { "channel", "cryostat", "tpc", "plane", "wire" };
    int *cell[5];
    for (int c = 0; c < 5; c++)
        cell[c] = calloc ((size_t) n + 1, sizeof **cell);
    for (int i = 0; i < n; i++) {
        const int k = (int) ((i * 70001ll + 5) % n); /* a permutation of 0 to n - 1 */
        const int of[] = { k % (n / 2), k / 50000, k / 1000 % 50, 0, k % 1000 };
        for (int c = 0; c < 5; c++)
            cell[c][i] = of[c];
        cell[3][i] = k % 50 ? 0 : -1;
        cell[4][i] = k % 50 ? of[4] : -1;
    }
    for (int c = 0; c < 5; c++) {
        cell[c][n] = cell[c][1];
        cell[c][n] += c == 0;
        char path[40];
        snprintf (path, sizeof path, "wire_table/%s", name[c]);
        replace (file, path, H5T_NATIVE_INT, (hsize_t) (n + twice), 0, cell[c]);
        free (cell[c]);
    }
}

static void a_wire_has_one_row (void **state)
{
    static const int channel[] = { 0, 1, 2, 3, 4, 5, 6, 3, 10, 11, 12, 13, 14, 5 };
    static const int plane[] = { 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 0 };
    static const int wire[] = { 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 2 };
    const char *path = test_path ("map.h5");
    hid_t file = exchange_make (path); /* channel 5 is wrapped onto wire 2, which channel 2 has */
    replace (file, "wire_table/channel", H5T_NATIVE_INT, 14, 0, channel);
    replace (file, "wire_table/plane", H5T_NATIVE_INT, 14, 0, plane);
    replace (file, "wire_table/wire", H5T_NATIVE_INT, 14, 0, wire);
    H5Fclose (file);
    refused (path, 0,
             "map.h5: wire_table: rows 2 and 13 both are wire 2 of cryostat 0, tpc 0, "
             "plane 0: it is unclear which samples");
    enum { WIRES = 100000 };
    for (int twice = 0; twice < 2; twice++) {
        file = exchange_make (path);
        map_write (file, WIRES, twice);
        H5Fclose (file);
        if (twice)
            refused (path, 0,
                     "wire_table: rows 1 and 100000 both are wire 6 of cryostat 1, tpc 20");
        else {
            wm_reader_t *reader = opened (path, 0, "wiremill exchange");
            wm_reader_destroy (&reader);
        }
    }
}

/* ---- patches --------------------------------------------------------------------------------- */

static void npy_write (const char *path, const char *dictionary, const void *values, size_t bytes)
{
    FILE *file = fopen (path, "wb");
    uint8_t head[10] = "\x93NUMPY\x01\x00";
    head[8] = (uint8_t) strlen (dictionary);
    fwrite (head, 1, 10, file);
    fwrite (dictionary, 1, strlen (dictionary), file);
    fwrite (values, 1, bytes, file);
    fclose (file);
}

static int n_interrupt; /* of the reads that come */

ssize_t pread (int fd, void *to, size_t n, off_t at)
{
    if (n_interrupt > 0) {
        n_interrupt--;
        errno = EINTR;
        return -1;
    }
    return syscall (SYS_pread64, fd, to, n, at);
}

static void npy_is_read (void **state)
{
    const char *path = test_path ("p.npy");
    static const float value[12] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    npy_write (path, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 2), }\n", value, 48);
    wm_reader_t *reader = opened (path, 4, "dense patches");
    assert_int_equal (wm_reader_n_event (reader), 1);
    n_interrupt = 2;
    assert_int_equal (wm_reader_event (reader, 0, &event, NULL), WM_OK);
    assert_int_equal (n_interrupt, 0);
    assert_int_equal (event.n_hit, 3);
    assert_int_equal (event.patch_values, 4);
    assert_true (event.patch[11] == 11);
    wm_reader_destroy (&reader);
    refused (path, 5, "its shape is (3, 2, 2), the model takes (N, 5)");
    static const uint16_t half[] = { 0x3c00, 0xc000, 0x7bff, 0x0001, 0x7e00, 0x8000 };
    npy_write (path, "{'shape': (3, 2), 'fortran_order': False, 'descr': '<f2'}", half, 12);
    reader = opened (path, 2, "dense patches");
    assert_int_equal (wm_reader_event (reader, 0, &event, NULL), WM_OK);
    assert_true (event.patch[0] == 1 && event.patch[1] == -2 && event.patch[2] == 65504);
    assert_true (event.patch[3] == 0x1p-24f && isnan (event.patch[4]) && signbit (event.patch[5]));
    wm_reader_destroy (&reader);
}

/* What the shapes are, of array and model, and what in NumPy makes one of the other.  */
static void shapes_are_told (void **state)
{
    const char *path = test_path ("shape.npy");
    static const float value[96];
    static const struct {
        const char *dim, *shape;
        uint32_t n_value;
        const char *words; /* NULL: it fits */
    } list[] = {
        { "4, 4, 6", "4x6", 24, NULL },
        { "4, 4, 6", "1x4x6x1", 24, NULL },
        { "4, 24", "4x6", 24, NULL }, /* flat */
        { "4, 4, 6", "4x6+8", 32, "its shape is (4, 4, 6), the model takes (N, 32)" },
        { "4, 6, 4", "6x4", 24, NULL },
        { "4, 6, 4", "4x6", 24,
          "(4, 6, 4), the model takes (N, 4, 6): numpy.moveaxis (a, -1, 0)?" },
        { "8, 6, 2", "8x6", 48,
          "(8, 6, 2), the model takes (N, 8, 6): numpy.moveaxis (a, -1, 0)?" },
        { "8, 2, 6", "8x6", 48, "(8, 2, 6), the model takes (N, 8, 6): numpy.moveaxis (a, 1, 0)?" },
        { "8, 6, 2", "8x6x2", 96, "(N, 8, 6, 2): one patch alone is a[None] in NumPy" },
        { "2, 8, 6", "6x8", 48,
          "(2, 8, 6), the model takes (N, 6, 8): turn them (numpy.transpose), or give them flat, "
          "(N, 48), in the model's order" },
        { "2, 8, 6", "3x16", 48, "(N, 3, 16): give them flat, (N, 48), in the model's order" },
        { "2, 8, 6", "9x9", 81, "its shape is (2, 8, 6), the model takes (N, 9, 9)" },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        char head[128];
        wm_error_t error = { 0 };
        snprintf (head, sizeof head, "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }",
                  list[i].dim);
        npy_write (path, head, value, sizeof value);
        wm_reader_t *reader = wm_reader_open (path, &spec, &error);
        assert_non_null (reader);
        const wm_fault_t fault =
            wm_reader_fits (reader, path, list[i].n_value, list[i].shape, &error);
        wm_reader_destroy (&reader);
        assert_int_equal (fault, list[i].words ? WM_EBATCH : WM_OK);
        const size_t n = list[i].words ? strlen (list[i].words) : 0;
        if (n && (strlen (error.text) < n || /* nothing follows */
                  strcmp (error.text + strlen (error.text) - n, list[i].words) != 0))
            fail_msg ("'%s' does not end with '%s'", error.text, list[i].words);
    }
}

static void npy_refusals (void **state)
{
    const char *path = test_path ("bad.npy");
    static const float value[12];
    static const struct {
        const char *dictionary, *words;
    } list[] = {
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }",
          "float64, but wiremill reads float32 and float16; save a.astype ('float32')" },
        { "{'descr': '>f4', 'fortran_order': False, 'shape': (3, 4), }", "big-endian numbers" },
        { "{'descr': '|O', 'fortran_order': False, 'shape': (3, 4), }", "Python objects" },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }", "Fortran" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3, -4), }", "no valid shape" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4), }", "no valid shape" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (12), }", "no valid shape" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (12,), }", "not an array of patches" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4), }", "its header announces" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }", "its header announces" },
        { "{'descr': '<f4', 'fortran_order': False, }", "missing" },
        { "{'descr': '<f4', 'descr': '<f4', 'shape': (3, 4), }", "twice" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'x': 1}", "unknown key" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } x", "more text" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)", "does not end" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 4)}",
          "no valid shape" },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967294, 1073741823)}",
          "its header announces" },
        { "[]", "no dictionary" },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        npy_write (path, list[i].dictionary, value, 48);
        refused (path, 0, list[i].words);
    }
    wm_npy_t npy;
    FILE *junk = fopen (path, "w"); /* called .npy, and none: not called a damaged HDF5 file */
    assert_non_null (junk);
    fputs ("these are no numbers, and there are enough of them", junk);
    fclose (junk);
    wm_error_t why = { 0 };
    assert_null (wm_reader_open (path, &spec, &why));
    assert_int_equal (why.fault, WM_EBATCH);
    assert_null (strstr (why.text, "HDF5"));
    assert_non_null (strstr (why.text, ".npy"));
    wm_error_t error;
    static const uint8_t long_head[12] = "\x93NUMPY\x02\x00\xff\xff\xff\xff";
    assert_int_equal (wm_npy_parse (&npy, long_head, 12, "x", &error), WM_EBATCH);
    assert_int_equal (wm_npy_parse (&npy, "\x93NUMPY\x03\x00\x00\x00\x00\x00", 12, "x", &error),
                      WM_EBATCH);
    assert_int_equal (wm_npy_parse (&npy, "\x93NUMPY", 6, "x", &error), WM_EBATCH);
    char head[WM_NPY_HEAD_MAX]; /* what is written is read */
    const uint64_t dim[] = { 7, 48, 44 };
    size_t bytes = wm_npy_print (dim, 3, 0, head);
    assert_int_equal (bytes % 64, 0);
    assert_int_equal (wm_npy_parse (&npy, head, bytes, "x", &error), WM_OK);
    assert_int_equal (npy.head_bytes, bytes);
    assert_true (npy.n_dim == 3 && npy.dim[0] == 7 && npy.dim[2] == 44);
}

static void patches_with_event_ids (void **state)
{
    static const float value[5][4] = { { 0 }, { 1 }, { 2 }, { 3 }, { 4 } };
    static const int id[] = { 1, 1, 8, 1, 1, 9, 1, 1, 8, 1, 1, 8, 1, 1, 9 };
    const char *path = test_path ("dense.h5");
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_f32 (file, "set/patches", 5, 4, &value[0][0]);
    put_i32 (file, "set/event_id", 5, 3, id);
    H5Fclose (file);
    char name[200];
    snprintf (name, sizeof name, "%s:/set/patches", path);
    wm_reader_t *reader = opened (name, 4, "dense patches");
    assert_int_equal (wm_reader_n_event (reader), 2);
    assert_int_equal (wm_reader_event (reader, 0, &event, NULL), WM_OK);
    assert_int_equal (event.event, 8);
    assert_int_equal (event.n_hit, 3);
    assert_true (event.patch[0] == 0 && event.patch[4] == 2 && event.patch[8] == 3);
    assert_int_equal (event.hit[1].row, 2);
    wm_reader_destroy (&reader);
    refused (path, 4, "nor one dataset of patches; where there are several, name one");
    snprintf (name, sizeof name, "%s:/set/none", path);
    refused (name, 4, "no dataset set/none");
    file = H5Fopen (path, H5F_ACC_RDWR, H5P_DEFAULT);
    replace (file, "set/event_id", H5T_NATIVE_INT, 4, 3, id);
    H5Fclose (file);
    snprintf (name, sizeof name, "%s:/set/patches", path);
    refused (name, 4, "has 4 rows");
}

/* A file without ids passes in pieces, and every row once.  */
static void long_patch_files_are_cut (void **state)
{
    enum { SIDE = 1024, ROWS = 20 }; /* 4 MiB each: 8 an event */
    const char *path = test_path ("long.h5");
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    float *value = calloc (ROWS * (size_t) SIDE, SIDE * sizeof *value);
    for (int i = 0; i < ROWS; i++)
        value[(size_t) i * SIDE * SIDE] = (float) i;
    put_f32 (file, "patches", ROWS, (hsize_t) SIDE * SIDE, value);
    H5Fclose (file);
    free (value);
    wm_reader_t *reader = opened (path, SIDE * SIDE, "dense patches");
    assert_int_equal (wm_reader_n_event (reader), 3);
    uint32_t row = 0;
    for (uint32_t e = 0; e < 3; e++) {
        assert_int_equal (wm_reader_event (reader, e, &event, NULL), WM_OK);
        for (uint32_t i = 0; i < event.n_hit; i++, row++) {
            assert_int_equal (event.hit[i].row, row);
            assert_true (event.patch[(size_t) i * SIDE * SIDE] == (float) row);
        }
    }
    assert_int_equal (row, ROWS);
    wm_reader_destroy (&reader);
}

/* ---- hostile files --------------------------------------------------------------------------- */

static void broken_tables (void **state)
{
    static const int ints[16] = { 0 };
    static const int twice[] = { 1, 0, 5, 1, 0, 5 }, late[] = { 20, 30, 97, 0 },
                     negative[] = { 2, -3, 4, 2 }, before[] = { 20, -1, 96, 0 },
                     long_n[] = { 2, 3, 4, 3 }, no_tick[] = { 100, 0 },
                     same_plane[] = { 0, 0, 0, 2 }, overlap[] = { 4, 12, 12, 10 },
                     overlap_tick[] = { 20, 94, 96, 0 };
    static const float floats[16] = { 0 };
    const char *path = test_path ("broken.h5");
    static const struct {
        const char *name;
        int is_float;
        hsize_t n, width;
        const void *value;
        const char *words;
    } list[] = {
        { "event_table/event_id", 0, 2, 3, twice, "event 1:0:5 is there twice" },
        { "event_table/event_id", 0, 2, 2, ints, "not of shape (n, 3) but (2, 2)" },
        { "event_table/n_tick", 0, 1, 0, ints, "has 1 rows" },
        { "event_table/n_tick", 0, 2, 0, no_tick, "n_tick is 0, not 1 to 4294967296" },
        { "event_table/n_tick", 1, 2, 0, floats,
          "does not contain integers but floats; store it as int32" },
        { "plane_table/n_wire", 0, 4, 0, negative, "plane_table/n_wire is -3 for cryostat" },
        { "hit_table/wire", 0, 6, 1, ints, NULL }, /* (n, 1) is as good as (n) */
        { "hit_table/wire", 0, 3, 2, ints, "hit_table/wire is not of shape (n) but (3, 2)" },
        { "plane_table/plane", 0, 4, 0, same_plane, "plane 0 is there twice" },
        { "roi_table/tick", 0, 4, 0, late, "lie outside" },
        { "roi_table/tick", 0, 4, 0, before, "tick -1" },
        { "roi_table/n", 0, 4, 0, negative, "length of -3" },
        { "roi_table/n", 0, 4, 0, long_n, "has 11 samples, roi_table/n adds up to 12" },
        { "roi_value/adc", 1, 10, 0, floats, "has 10 samples" },
        { "hit_table/time", 1, 5, 0, floats, "has 5 rows" },
        { "hit_table/wire", 1, 6, 0, floats, "does not contain integers" },
        { "hit_table/event_id", 0, 6, 0, ints, "not of shape (n, 3)" },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        hid_t file = exchange_make (path);
        replace (file, list[i].name, list[i].is_float ? H5T_NATIVE_FLOAT : H5T_NATIVE_INT,
                 list[i].n, list[i].width, list[i].value);
        H5Fclose (file);
        if (list[i].words)
            refused (path, 0, list[i].words);
        else {
            wm_reader_t *reader = opened (path, 0, "wiremill exchange");
            wm_reader_destroy (&reader);
        }
    }
    hid_t file = exchange_make (path);
    replace (file, "roi_table/channel", H5T_NATIVE_INT, 4, 0, overlap);
    replace (file, "roi_table/tick", H5T_NATIVE_INT, 4, 0, overlap_tick);
    H5Fclose (file);
    refused (path, 0, "has two samples at tick 96");
}

static void missing_tables (void **state)
{
    static const char *const list[] = { "event_table", "plane_table", "wire_table",
                                        "roi_table",   "roi_value",   "hit_table" };
    const char *path = test_path ("missing.h5");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        hid_t file = exchange_make (path);
        H5Ldelete (file, list[i], H5P_DEFAULT);
        H5Fclose (file);
        refused (path, 0, "no dataset");
        refused (path, 0, list[i]);
    }
    hid_t file = exchange_make (path); /* but this one may be missing */
    H5Ldelete (file, "bad_channel", H5P_DEFAULT);
    H5Ldelete (file, "event_table/tau_us", H5P_DEFAULT);
    H5Fclose (file);
    wm_reader_t *reader = opened (path, 0, "wiremill exchange");
    assert_int_equal (wm_reader_event (reader, 1, &event, NULL), WM_OK);
    assert_int_equal (event.n_roi, 2);
    assert_true (isnan (event.tau_us));
    wm_reader_destroy (&reader);
    file = H5Fopen (path, H5F_ACC_RDWR, H5P_DEFAULT);
    H5Adelete (file, "layout");
    put_layout (file, "wiremill-exchange-9");
    H5Fclose (file);
    refused (path, 0, "'wiremill-exchange-9', wiremill reads 'wiremill-exchange-1'");
    file = H5Fopen (path, H5F_ACC_RDWR, H5P_DEFAULT);
    H5Adelete (file, "layout");
    H5Fclose (file);
    refused (path, 0, "the attribute layout is missing; ");
}

static void truncated_files (void **state)
{
    const char *path = test_path ("cut.h5");
    H5Fclose (exchange_make (path));
    FILE *file = fopen (path, "rb");
    static char bytes[1 << 20];
    size_t n = fread (bytes, 1, sizeof bytes, file);
    fclose (file);
    assert_true (n > 4096 && n < sizeof bytes);
    for (size_t keep = 0; keep < n; keep += 1 + n / 40) {
        file = fopen (path, "wb");
        fwrite (bytes, 1, keep, file);
        fclose (file);
        refused (path, 0, "cut.h5");
    }
    refused (test_path ("not-there.h5"), 0, "No such file");
    refused (test_folder, 0, "a folder; it must be a regular file");
}

/* Nothing of another file is read, whatever links and layouts say.  */
static void doors_are_shut (void **state)
{
    char inside[160], outside[160];
    snprintf (inside, sizeof inside, "%s", test_path ("inside.h5"));
    snprintf (outside, sizeof outside, "%s", test_path ("outside.h5"));
    H5Fclose (exchange_make (outside));
    hid_t file = exchange_make (inside);
    H5Ldelete (file, "hit_table/time", H5P_DEFAULT);
    H5Lcreate_external (outside, "hit_table/time", file, "hit_table/time", H5P_DEFAULT,
                        H5P_DEFAULT);
    H5Fclose (file);
    refused (inside, 0, "hit_table/time is a link");

    file = exchange_make (inside);
    H5Ldelete (file, "hit_table", H5P_DEFAULT);
    H5Lcreate_external (outside, "hit_table", file, "hit_table", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose (file);
    refused (inside, 0, "is a link");

    file = exchange_make (inside);
    H5Ldelete (file, "hit_table/time", H5P_DEFAULT);
    hid_t list = H5Pcreate (H5P_DATASET_CREATE);
    hsize_t n = 6;
    hid_t space = H5Screate_simple (1, &n, NULL);
    H5Pset_external (list, outside, 0, 24);
    H5Dclose (H5Dcreate2 (file, "hit_table/time", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list,
                          H5P_DEFAULT));
    H5Pclose (list);
    H5Fclose (file);
    refused (inside, 0, "lies outside the file");

    file = exchange_make (inside);
    H5Ldelete (file, "hit_table/time", H5P_DEFAULT);
    list = H5Pcreate (H5P_DATASET_CREATE);
    H5Pset_virtual (list, space, outside, "hit_table/time", space);
    H5Dclose (H5Dcreate2 (file, "hit_table/time", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list,
                          H5P_DEFAULT));
    H5Pclose (list);
    H5Sclose (space);
    H5Fclose (file);
    refused (inside, 0, "lies outside the file");
}

/* A few bytes of file cannot make us reserve terabytes.  */
static void claims_are_checked (void **state)
{
    const char *path = test_path ("claims.h5");
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hsize_t dim[] = { 1ull << 31, 1024 }, chunk[] = { 1, 1024 };
    hid_t space = H5Screate_simple (2, dim, NULL), list = H5Pcreate (H5P_DATASET_CREATE);
    H5Pset_chunk (list, 2, chunk);
    H5Dclose (
        H5Dcreate2 (file, "patches", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Pclose (list);
    H5Sclose (space);
    H5Fclose (file);
    refused (path, 1024, "claims more than the file can hold");
}

/* Nor can a chunk that is larger than its rows, or than any should be.  */
static void packed_chunks_are_bounded (void **state)
{
    const char *path = test_path ("chunks.h5");
    const struct {
        hsize_t n, rows;
        bool is_packed;
        const char *words; /* NULL: accepted */
    } chunks[] = {
        { 1000, 1 << 16, true,
          "dataset patches is packed in chunks of 256 MiB, for 3 MiB of rows" },
        { 1 << 16, (1 << 16) + 1, true, "is packed in chunks of 256 MiB, for 256 MiB of rows" },
        { 1000, 1 << 14, true, NULL },
        { 1000, 1 << 16, false, NULL },
    };
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hsize_t dim[] = { chunks[i].n, 1024 }, chunk[] = { chunks[i].rows, 1024 };
        const hsize_t most[] = { H5S_UNLIMITED, 1024 };
        hid_t space = H5Screate_simple (2, dim, most), list = H5Pcreate (H5P_DATASET_CREATE);
        H5Pset_chunk (list, 2, chunk);
        if (chunks[i].is_packed)
            H5Pset_deflate (list, 1);
        H5Dclose (
            H5Dcreate2 (file, "patches", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list, H5P_DEFAULT));
        const char padding[300000] = "";
        put (file, "padding", H5T_NATIVE_CHAR, sizeof padding, 0, padding);
        H5Pclose (list);
        H5Sclose (space);
        H5Fclose (file);
        wm_column_t column;
        wm_error_t error = { 0 };
        wm_h5_t *h5 = wm_h5_open (path, NULL);
        const wm_fault_t fault = wm_h5_column (h5, "patches", WM_H5_FLOAT, 0, &column, &error);
        assert_int_equal (fault, chunks[i].words ? WM_EBATCH : WM_OK);
        if (chunks[i].words && !strstr (error.text, chunks[i].words))
            fail_msg ("'%s' does not say '%s'", error.text, chunks[i].words);
        wm_h5_column_close (&column);
        wm_h5_close (&h5);
    }
}

/* ---- short columns --------------------------------------------------------------------------- */

/* Reads rows 40 to 49 as each type, one after another: what is kept of one is not taken for another
   column's, nor for another type.  */
static void read_as_all (const wm_column_t *column, int32_t factor)
{
    static const wm_h5_type_t types[] = { WM_H5_I64, WM_H5_I32, WM_H5_F64, WM_H5_F32, WM_H5_I64,
                                          WM_H5_I32_CLIPPED };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        int64_t to[10];
        wm_error_t error;
        assert_int_equal (wm_h5_read (column, 40, 10, types[t], to, &error), WM_OK);
        for (int i = 0; i < 10; i++)
            assert_int_equal (types[t] == WM_H5_I64   ? to[i]
                              : types[t] == WM_H5_F64 ? (int64_t) ((double *) to)[i]
                              : types[t] == WM_H5_F32 ? (int64_t) ((float *) to)[i]
                                                      : ((int32_t *) to)[i],
                              factor * (40 + i));
    }
}

/* Short and long columns of two groups are read alike, in turn, and so are the rows beside an
   integer that does not fit.  */
static void columns_short_and_long (void **state)
{
    static const char *const names[] = { "a/short", "b/short", "a/long", "b/long" };
    static int64_t value[10000];
    hid_t file = H5Fcreate (test_path ("short.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 10000; i++)
            value[i] = (k + 2) * i;
        value[60] = 1ll << 40;
        put (file, names[k], H5T_NATIVE_INT64, k < 2 ? 100 : 10000, 0, value);
    }
    H5Fclose (file);
    wm_h5_t *h5 = wm_h5_open (test_path ("short.h5"), NULL);
    wm_column_t column[4];
    for (int k = 0; k < 4; k++)
        assert_int_equal (
            wm_h5_column (h5, names[k], WM_H5_INTEGER, 1, &column[k], NULL), WM_OK);
    for (int round = 0; round < 2; round++)
        for (int k = 0; k < 4; k++) {
            int32_t to[100];
            wm_error_t error;
            read_as_all (&column[k], k + 2);
            assert_int_equal (wm_h5_read (&column[k], 0, 100, WM_H5_I32, to, &error), WM_EBATCH);
            assert_non_null (strstr (error.text, "row 60: 1099511627776 does not fit 32 bits"));
            assert_int_equal (wm_h5_read (&column[k], 50, 10, WM_H5_I32, to, &error), WM_OK);
            assert_int_equal (to[9], (k + 2) * 59);
        }
    for (int k = 0; k < 4; k++)
        wm_h5_column_close (&column[k]);
    wm_h5_close (&h5);
}

/* ---- hits as text ---------------------------------------------------------------------------- */

#define HEAD "run,subrun,event,tpc,plane,wire,time,hit_id"

static const struct {
    const char *text, *error; /* NULL: it is read */
} texts[] = {
    { HEAD "\n1,0,5,2,1,-7,3.5,9\n", NULL },
    { "# made by hand\n" HEAD "\n1,0,5,2,1,-7,3.5,9", NULL },
    { "hit_id;time;wire;plane;tpc;event;subrun;run;other\n9;3.5;-7;1;2;5;0;1;x\n", NULL },
    { HEAD "\n1,0,5,2,1,-7,3.5,9,,\n", NULL }, /* separators behind the last */
    { HEAD ",cryostat\n1,0,5,2,1,-7,3.5,9,-2147483648\n", NULL },
    { HEAD ",wire\n1,0,5,2,1,-7,3.5,9,8\n", ":1: column 'wire' is there twice" },
    { "run,subrun,event,tpc,plane,time,hit_id\n", ":1: no column 'wire'; a file of hits" },
    { "run subrun event tpc plane wire time hit_id\n",
      "time,hit_id; columns are separated by blanks here: put commas between them" },
    { HEAD "\n1,0,5,2,1,-7,3.5\n", ":2: 7 cells, the first line has 8" },
    { HEAD "\n1,0,5,2,1,-7,3.5,9,4\n", ":2: 9 cells, the first line has 8" },
    { HEAD "\n1,0,5,2,1,-7,3.5x,9\n", ":2: column 'time' is '3.5x', not a number" },
    { HEAD "\n1,0,5,2,1,-7,,9\n", ":2: column 'time' is '', not a number" },
    { HEAD "\n1,0,5,2,1.5,7,3.5,9\n", ":2: column 'plane' is '1.5', not a whole number of 32" },
    { HEAD "\n1,0,5,2147483648,1,7,3,9\n", ":2: column 'tpc' is '2147483648', not a whole" },
    { HEAD "\n1,0,5,2,-2147483649,7,3,9\n", ":2: column 'plane' is '-2147483649', not a whole" },
    { HEAD "\n\n1,0,5,2,1,7,\"3.5,9\n", ": a quote (\") does not end on its line" },
    { "# nothing\n", ": no line with the names of columns" },
};

static double number_of (wm_h5_t *file, const char *name)
{
    char path[40];
    double value = 0;
    wm_column_t column;
    wm_error_t error;
    snprintf (path, sizeof path, "csv/%s", name);
    if (wm_h5_column (file, path, WM_H5_FLOAT, 1, &column, &error) ||
        wm_h5_read (&column, 0, 1, WM_H5_F64, &value, &error))
        fail_msg ("%s", error.text);
    assert_int_equal (column.n_row, 1);
    wm_h5_column_close (&column);
    return value;
}

static void hits_as_text (void **state)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        wm_error_t error = { 0 };
        char path[160];
        snprintf (path, sizeof path, "%s", test_path ("hits.csv"));
        FILE *out = fopen (path, "w");
        fputs (texts[i].text, out);
        fclose (out);
        assert_true (wm_hits_csv_is (path));
        wm_h5_t *file = wm_hits_csv_open (path, &error);
        if (!file != !!texts[i].error || (!file && !strstr (error.text, texts[i].error)))
            fail_msg ("%s: '%s'", texts[i].text, file ? "it is read" : error.text);
        if (!file)
            continue;
        static const char *const name[] = { "run",   "subrun", "event", "tpc",
                                            "plane", "wire",   "time",  "hit_id" };
        static const double want[] = { 1, 0, 5, 2, 1, -7, 3.5, 9 };
        for (int c = 0; c < 8; c++)
            assert_true (number_of (file, name[c]) == want[c]);
        wm_h5_close (&file);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (exchange_is_read),
        cmocka_unit_test (specification_overrides_wires),
        cmocka_unit_test (opensamples_have_an_index),
        cmocka_unit_test (opensamples_is_read),
        cmocka_unit_test (a_wire_has_one_row),
        cmocka_unit_test (npy_is_read),
        cmocka_unit_test (shapes_are_told),
        cmocka_unit_test (npy_refusals),
        cmocka_unit_test (patches_with_event_ids),
        cmocka_unit_test (long_patch_files_are_cut),
        cmocka_unit_test (broken_tables),
        cmocka_unit_test (missing_tables),
        cmocka_unit_test (truncated_files),
        cmocka_unit_test (doors_are_shut),
        cmocka_unit_test (claims_are_checked),
        cmocka_unit_test (packed_chunks_are_bounded),
        cmocka_unit_test (columns_short_and_long),
        cmocka_unit_test (hits_as_text),
    };
    cmocka_set_test_filter (getenv ("WM_ONLY"));
    return cmocka_run_group_tests_name ("producer reader", tests, setup, teardown);
}
