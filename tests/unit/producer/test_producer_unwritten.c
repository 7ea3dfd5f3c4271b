/* test_producer_unwritten.c - what was never written is read as HDF5 reads it into zeros.

   Every form of storage, type, fill value and way to read it: memory begins full of 0x55, as if it
   had another event's samples, and ends equal to H5Dread into zeros. One note a column counts what
   is missing.  */
#include "producer/files/wm_h5.h"
#include "producer/files/wm_waves.h"
#include "tests/unit/unit.h"

#include "tests/proof.h"
#include "tests/unit/producer_files.h"

#include <malloc.h>

enum { ROWS = 37, WIDTH = 12, PART = 10 }; /* rows 10..19 are written, and no others */

typedef enum { TREE, SINGLE, ARRAY, EXTENSIBLE, TREE2, CONTIGUOUS, STORAGES } storage_t;
enum { PLAIN, DEFLATE, SHUFFLE, SHUFFLE_DEFLATE, FLETCHER, NBIT, FILTERS };
enum { NO_VALUE, DEFAULT_VALUE, SEVEN, VALUES };
static const H5D_fill_time_t times[] = { H5D_FILL_TIME_IFSET, H5D_FILL_TIME_NEVER,
                                         H5D_FILL_TIME_ALLOC };

typedef struct {
    storage_t storage;
    int filter, value, time;
} form_t;

static unsigned n_note;
static char said[400];
static void take_note (const char *path, const char *text)
{
    n_note++;
    snprintf (said, sizeof said, "%s: %s", path, text);
}

/* float16 as NumPy writes it.  */
static hid_t half (void)
{
    hid_t type = H5Tcopy (H5T_IEEE_F32LE);
    H5Tset_fields (type, 15, 10, 5, 0, 10);
    H5Tset_size (type, 2);
    H5Tset_ebias (type, 15);
    return type;
}

/* false: this library makes no such dataset.  */
static bool made (const form_t *form, hid_t type, const char *path)
{
    const hsize_t dim[2] = { ROWS, WIDTH },
                  chunk[2] = { form->storage == SINGLE ? ROWS : PART, WIDTH },
                  unlimited[2] = { H5S_UNLIMITED, H5S_UNLIMITED },
                  one[2] = { H5S_UNLIMITED, WIDTH };
    const int seven = 7;
    hid_t access = H5Pcreate (H5P_FILE_ACCESS), list = H5Pcreate (H5P_DATASET_CREATE);
    if (form->storage != TREE)
        H5Pset_libver_bounds (access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hid_t space = H5Screate_simple (2, dim,
                                    form->storage == EXTENSIBLE ? one
                                    : form->storage == TREE2    ? unlimited
                                                                : NULL);
    if (form->storage != CONTIGUOUS)
        H5Pset_chunk (list, 2, chunk);
    H5Pset_alloc_time (list,
                       form->storage == CONTIGUOUS ? H5D_ALLOC_TIME_LATE : H5D_ALLOC_TIME_INCR);
    H5Pset_fill_time (list, times[form->time]);
    if (form->value != DEFAULT_VALUE)
        H5Pset_fill_value (list, H5T_NATIVE_INT, form->value == SEVEN ? &seven : NULL);
    if (form->filter == SHUFFLE || form->filter == SHUFFLE_DEFLATE)
        H5Pset_shuffle (list);
    if (form->filter == DEFLATE || form->filter == SHUFFLE_DEFLATE)
        H5Pset_deflate (list, 4);
    if (form->filter == FLETCHER)
        H5Pset_fletcher32 (list);
    if (form->filter == NBIT)
        H5Pset_nbit (list);
    hid_t data = H5Dcreate2 (file, "adc", type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    if (data >= 0 && form->storage != CONTIGUOUS && form->storage != SINGLE) {
        int value[PART][WIDTH];
        const hsize_t start[2] = { PART, 0 }, size[2] = { PART, WIDTH };
        hid_t memory = H5Screate_simple (2, size, NULL);
        for (int i = 0; i < PART * WIDTH; i++)
            value[i / WIDTH][i % WIDTH] = i + 1;
        H5Sselect_hyperslab (space, H5S_SELECT_SET, start, NULL, size, NULL);
        assert_true (H5Dwrite (data, H5T_NATIVE_INT, memory, space, H5P_DEFAULT, value) >= 0);
        H5Sclose (memory);
    }
    if (data >= 0)
        H5Dclose (data);
    H5Sclose (space), H5Pclose (list), H5Pclose (access), H5Fclose (file);
    return data >= 0;
}

/* What H5Dread makes of zeros. false: it cannot read that.  */
static bool wanted (const char *path, hid_t type, void *to, size_t bytes)
{
    hid_t file = H5Fopen (path, H5F_ACC_RDONLY, H5P_DEFAULT),
          data = H5Dopen2 (file, "adc", H5P_DEFAULT);
    memset (to, 0, bytes);
    const bool fine = H5Dread (data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, to) >= 0;
    H5Dclose (data), H5Fclose (file);
    return fine;
}

static void compare (const char *path, wm_h5_type_t type, hid_t memory, size_t bytes)
{
    static uint8_t want[8 * ROWS * WIDTH], got[8 * ROWS * WIDTH];
    const size_t row = WIDTH * bytes;
    const wm_h5_range_t spans[] = { { 0, 5 }, { 8, 20 }, { 30, 7 } };
    const bool fine = wanted (path, memory, want, ROWS * row);
    wm_column_t column;
    wm_error_t error;
    wm_h5_t *file = wm_h5_open (path, NULL);
    assert_int_equal (wm_h5_column (file, "adc", WM_H5_FLOAT, 0, &column, NULL), WM_OK);
    n_note = 0;
    memset (got, 0x55, sizeof got);
    assert_int_equal (wm_h5_read (&column, 0, ROWS, type, got, &error), fine ? WM_OK : WM_EBATCH);
    if (fine) {
        assert_memory_equal (got, want, ROWS * row);
        memset (got, 0x55, sizeof got);
        assert_int_equal (wm_h5_read_spans (&column, spans, 3, type, got, NULL), WM_OK);
        assert_memory_equal (got, want, 5 * row);
        assert_memory_equal (got + 5 * row, want + 8 * row, 20 * row);
        assert_memory_equal (got + 25 * row, want + 30 * row, 7 * row);
        assert_int_equal (n_note, 1);
    } else
        assert_non_null (strstr (error.text, "was never written, and has no fill value"));
    for (uint64_t r = 0; fine && type == WM_H5_F32 && r < 2; r++) {
        wm_waves_t *waves = wm_waves_new (&column, NULL);
        const float *adc;
        for (uint64_t i = 0, at; i < ROWS; i++) {
            at = r ? ROWS - 1 - i : i; /* the written rows come before the others, or behind them */
            assert_int_equal (wm_waves_row (waves, at, at + 1, &adc, NULL), WM_OK);
            assert_memory_equal (adc, want + at * row, row);
        }
        wm_waves_destroy (&waves);
    }
    wm_h5_column_close (&column);
    wm_h5_close (&file);
}

static void unwritten_is_as_in_zeros (void **state)
{
    const hid_t stored[] = { H5T_STD_I32LE, H5T_IEEE_F32LE, half (), H5T_STD_I16BE,
                             H5T_IEEE_F64LE };
    unsigned tried = 0;
    for (int storage = 0; storage < STORAGES; storage++)
        for (int filter = 0; filter < FILTERS; filter++)
            for (int value = 0; value < VALUES; value++)
                for (int time = 0; time < 3; time++)
                    for (size_t t = 0; t < sizeof stored / sizeof *stored; t++) {
                        const form_t form = { (storage_t) storage, filter, value, time };
                        const char *path = test_path ("unwritten.h5");
                        const int turn = storage + filter + value + time + (int) t;
                        if (proof_size (1, 0, 0) && turn % 2)
                            continue; /* each type in every other form */
                        if ((storage == CONTIGUOUS && filter != PLAIN) ||
                            !made (&form, stored[t], path))
                            continue;
                        compare (path, WM_H5_F32, H5T_NATIVE_FLOAT, 4);
                        compare (path, WM_H5_F64, H5T_NATIVE_DOUBLE, 8);
                        tried++;
                        if (stored[t] == H5T_STD_I32LE || stored[t] == H5T_STD_I16BE) {
                            compare (path, WM_H5_I32, H5T_NATIVE_INT32, 4);
                            compare (path, WM_H5_I64, H5T_NATIVE_INT64, 8);
                        }
                    }
    print_message ("  %u forms\n", tried);
    assert_true (tried > 200);
    H5Tclose (stored[2]);
}

/* What the note says of columns, and that a whole one has none.  */
static void note_counts_chunks (void **state)
{
    static const struct {
        form_t form;
        const char *says;
    } cases[] = {
        { { TREE, PLAIN, DEFAULT_VALUE, 1 },
          "3 of 4 chunks of adc were never written, and are read as 0" },
        { { ARRAY, DEFLATE, SEVEN, 0 },
          "3 of 4 chunks of adc were never written, and are read as the fill value" },
        { { SINGLE, PLAIN, DEFAULT_VALUE, 1 },
          "1 of 1 chunks of adc was never written, and is read as 0" },
        { { CONTIGUOUS, PLAIN, DEFAULT_VALUE, 1 }, "adc was never written, and is read as 0" },
    };
    static float to[ROWS * WIDTH];
    for (size_t i = 0; i <= sizeof cases / sizeof *cases; i++) {
        const bool is_whole = i == sizeof cases / sizeof *cases;
        const char *path = test_path ("note.h5");
        if (is_whole) {
            hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
            put_f32 (file, "adc", ROWS, WIDTH, to);
            H5Fclose (file);
        } else
            assert_true (made (&cases[i].form, H5T_IEEE_F32LE, path));
        wm_column_t column;
        wm_h5_t *file = wm_h5_open (path, NULL);
        assert_int_equal (wm_h5_column (file, "adc", WM_H5_FLOAT, 0, &column, NULL), WM_OK);
        n_note = 0;
        for (int k = 0; k < 2; k++)
            assert_int_equal (wm_h5_read (&column, 0, 5, WM_H5_F32, to, NULL), WM_OK);
        assert_int_equal (n_note, !is_whole);
        if (!is_whole)
            assert_string_equal (strstr (said, ".h5: ") + 5, cases[i].says);
        wm_h5_column_close (&column);
        wm_h5_close (&file);
    }
}

/* The row of a number that is too large is found in a second read, into memory of malloc's.  */
static void beyond_names_its_row (void **state)
{
    const char *path = test_path ("beyond.h5");
    const hsize_t n = 9, chunk = 3, first = 3, one = 1;
    const int64_t large = 1ll << 40;
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
          list = H5Pcreate (H5P_DATASET_CREATE), space = H5Screate_simple (1, &n, NULL),
          memory = H5Screate_simple (1, &one, NULL);
    H5Pset_chunk (list, 1, &chunk);
    H5Pset_fill_time (list, H5D_FILL_TIME_NEVER);
    hid_t data = H5Dcreate2 (file, "key", H5T_STD_I64LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sselect_hyperslab (space, H5S_SELECT_SET, &first, NULL, &one, NULL);
    H5Dwrite (data, H5T_NATIVE_INT64, memory, space, H5P_DEFAULT, &large);
    H5Dclose (data), H5Pclose (list), H5Sclose (space), H5Sclose (memory), H5Fclose (file);
    wm_h5_t *h5 = wm_h5_open (path, NULL);
    wm_column_t column;
    wm_error_t error;
    int32_t to[9];
    assert_int_equal (wm_h5_column (h5, "key", WM_H5_INTEGER, 1, &column, NULL), WM_OK);
    assert_int_equal (wm_h5_read (&column, 0, n, WM_H5_I32, to, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "row 3: 1099511627776 does not fit 32 bits"));
    wm_h5_column_close (&column);
    wm_h5_close (&h5);
}

static unsigned n_text;
static void take_text (void *arg, const char *text)
{
    assert_string_equal (text, "");
    n_text++;
}

/* A list of texts that was never written is one of empty texts.  */
static void texts_are_empty (void **state)
{
    const form_t form = { TREE, PLAIN, DEFAULT_VALUE, 1 };
    const char *path = test_path ("texts.h5");
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
          type = H5Tcopy (H5T_C_S1), list = H5Pcreate (H5P_DATASET_CREATE);
    const hsize_t n = 9, chunk = 3;
    H5Tset_size (type, 16);
    H5Pset_chunk (list, 1, &chunk);
    H5Pset_fill_time (list, times[form.time]);
    hid_t space = H5Screate_simple (1, &n, NULL);
    H5Dclose (H5Dcreate2 (file, "names", type, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H5Sclose (space), H5Pclose (list), H5Tclose (type), H5Fclose (file);
    wm_h5_t *h5 = wm_h5_open (path, NULL);
    wm_h5_texts (h5, "names", take_text, NULL);
    assert_int_equal (n_text, n);
    wm_h5_close (&h5);
}

static int teardown (void **state)
{
    test_folder_remove ();
    return 0;
}

int main (void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test (unwritten_is_as_in_zeros),
                                        cmocka_unit_test (note_counts_chunks),
                                        cmocka_unit_test (beyond_names_its_row),
                                        cmocka_unit_test (texts_are_empty) };
    mallopt (M_PERTURB, 0x55); /* fresh memory is full of something, too */
    H5Eset_auto2 (H5E_DEFAULT, NULL, NULL);
    wm_h5_notes (take_note);
    return cmocka_run_group_tests (tests, NULL, teardown);
}
