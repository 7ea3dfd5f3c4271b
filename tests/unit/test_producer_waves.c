/* test_producer_waves.c - waveforms by chunks equal those that HDF5 reads, whatever the storage.

   Each dataset is written in another form and read row by row; every bit is compared with H5Dread.
   What is known must go chunk by chunk, everything else and everything damaged by the library.  */
#include "producer/wm_waves.h"

#include "tests/unit/producer_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 37, WIDTH = 101 };
static float wave[ROWS][WIDTH];

/* Mostly zeros, as waveforms are, and every kind of float.  */
static void wave_fill (void)
{
    static const float odd[] = { -0.f, NAN, INFINITY, 1e-42f, 3.14159f, -1e30f };
    uint32_t state = 1;
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < WIDTH; c++) {
            state = state * 1664525u + 1013904223u;
            wave[r][c] = state >> 30 ? 0 : state >> 28 & 1 ? odd[(state >> 8) % 6] : (float) state;
        }
}

typedef struct {
    const char *name;
    hid_t type;
    hsize_t rows, columns; /* of a chunk; 0: contiguous */
    bool shuffle, deflate, fletcher, late;
    bool direct; /* all rows are to be read chunk by chunk */
} form_t;

static hid_t made (const form_t *form, const char *path, hid_t *data)
{
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t list = H5Pcreate (H5P_DATASET_CREATE);
    hsize_t dim[2] = { ROWS, WIDTH }, chunk[2] = { form->rows, form->columns };
    const hsize_t most[2] = { H5S_UNLIMITED, H5S_UNLIMITED };
    hid_t space = H5Screate_simple (2, dim, form->rows ? most : NULL);
    if (form->rows)
        H5Pset_chunk (list, 2, chunk);
    if (form->shuffle && !form->late)
        H5Pset_shuffle (list);
    if (form->deflate)
        H5Pset_deflate (list, 4);
    if (form->shuffle && form->late)
        H5Pset_shuffle (list);
    if (form->fletcher)
        H5Pset_fletcher32 (list);
    *data = H5Dcreate2 (file, "adc", form->type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    assert_true (*data >= 0);
    H5Sclose (space);
    H5Pclose (list);
    return file;
}

/* Reads all rows, at once and by spans of 5 with gaps, and compares them with H5Dread.  */
static void compare (const char *path, uint64_t want_direct)
{
    static float want[ROWS][WIDTH];
    wm_h5_t *file = wm_h5_open (path, NULL);
    wm_column_t column;
    assert_int_equal (wm_h5_column (file, "adc", WM_H5_FLOAT, 0, &column, NULL), WM_OK);
    assert_int_equal (wm_h5_read (&column, 0, ROWS, WM_H5_F32, want, NULL), WM_OK);
    for (int step = 1; step < 8; step += 6) {
        wm_waves_t *waves = wm_waves_new (&column, NULL);
        uint64_t direct, library;
        for (uint64_t first = 0; first < ROWS; first += 5ul * (unsigned) step)
            for (uint64_t row = first; row < first + 5 && row < ROWS; row++) {
                const uint64_t end = first + 5 < ROWS ? first + 5 : ROWS;
                const float *got;
                assert_int_equal (wm_waves_row (waves, row, end, &got, NULL), WM_OK);
                assert_memory_equal (got, want[row], sizeof want[row]);
            }
        wm_waves_count (waves, &direct, &library);
        if (step == 1) {
            assert_int_equal (direct, want_direct);
            assert_int_equal (library, ROWS - want_direct);
        }
        wm_waves_destroy (&waves);
    }
    wm_h5_column_close (&column);
    wm_h5_close (&file);
}

static void equals_the_library (void **state)
{
    (void) state;
    const hid_t f32 = H5T_IEEE_F32LE;
    const form_t forms[] = {
        { "plain chunks", f32, 8, WIDTH, .direct = false },
        { "shuffled", f32, 8, WIDTH, .shuffle = true, .direct = true },
        { "deflated", f32, 64, 128, .deflate = true, .direct = true },
        { "shuffled and deflated", f32, 8, WIDTH, .shuffle = true, .deflate = true,
          .direct = true },
        { "chunks beside each other", f32, 5, 17, .shuffle = true, .deflate = true,
          .direct = true },
        { "a row a chunk", f32, 1, WIDTH, .shuffle = true, .deflate = true, .direct = true },
        { "a value a chunk", f32, 1, 1, .deflate = true, .direct = true },
        { "checksums", f32, 8, WIDTH, .shuffle = true, .deflate = true, .fletcher = true },
        { "shuffled after deflate", f32, 8, 16, .shuffle = true, .deflate = true, .late = true },
        { "big-endian", H5T_IEEE_F32BE, 8, WIDTH, .shuffle = true, .deflate = true },
        { "double", H5T_IEEE_F64LE, 8, WIDTH, .shuffle = true, .deflate = true },
        { "integers", H5T_STD_I32LE, 8, WIDTH, .deflate = true },
        { "contiguous", f32, 0, 0, .direct = false },
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const char *path = test_path ("form.h5");
        hid_t data, file = made (&forms[i], path, &data);
        print_message ("  %s\n", forms[i].name);
        assert_true (H5Dwrite (data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, wave) >= 0);
        H5Dclose (data);
        H5Fclose (file);
        compare (path, forms[i].direct ? ROWS : 0);
    }
}

/* Chunks that were never written, and one that was stored without its filters.  */
static void odd_chunks_go_to_the_library (void **state)
{
    (void) state;
    const form_t form = { "odd", H5T_IEEE_F32LE, 8, WIDTH, .shuffle = true, .deflate = true };
    const char *path = test_path ("odd.h5");
    hid_t data, file = made (&form, path, &data);
    const hsize_t start[2] = { 8, 0 }, size[2] = { 8, WIDTH };
    hid_t space = H5Dget_space (data), memory = H5Screate_simple (2, size, NULL);
    H5Sselect_hyperslab (space, H5S_SELECT_SET, start, NULL, size, NULL);
    assert_true (H5Dwrite (data, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, wave[8]) >= 0);
    const hsize_t third[2] = { 16, 0 };
    assert_true (
        H5Dwrite_chunk (data, H5P_DEFAULT, 3, third, 8 * WIDTH * sizeof (float), wave[16]) >= 0);
    H5Sclose (memory);
    H5Sclose (space);
    H5Dclose (data);
    H5Fclose (file);
    compare (path, 8);
}

/* Bytes of a chunk are spoiled, one after another: the rows are those of the library, or both
   refuse them.  */
static void damage_is_the_librarys_to_judge (void **state)
{
    (void) state;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        const form_t form = { "damaged", H5T_IEEE_F32LE,          ROWS,
                              WIDTH,     .shuffle = shuffle == 1, .deflate = true };
        const char *path = test_path ("damaged.h5");
        hid_t data, file = made (&form, path, &data);
        assert_true (H5Dwrite (data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, wave) >= 0);
        haddr_t address;
        hsize_t bytes, at[2];
        unsigned mask;
        H5Fflush (file, H5F_SCOPE_GLOBAL);
        hid_t space = H5Dget_space (data);
        assert_true (H5Dget_chunk_info (data, space, 0, at, &mask, &address, &bytes) >= 0);
        H5Sclose (space);
        H5Dclose (data);
        H5Fclose (file);
        int n_refused = 0;
        for (hsize_t spot = 0; spot < bytes; spot += 97) {
            FILE *f = fopen (path, "r+b");
            fseek (f, (long) (address + spot), SEEK_SET);
            const int was = fgetc (f);
            fseek (f, (long) (address + spot), SEEK_SET);
            fputc (was ^ 0x55, f);
            fclose (f);
            static float want[ROWS][WIDTH];
            wm_h5_t *h5 = wm_h5_open (path, NULL);
            wm_column_t column;
            wm_error_t error;
            assert_int_equal (wm_h5_column (h5, "adc", WM_H5_FLOAT, 0, &column, NULL), WM_OK);
            wm_fault_t fault = wm_h5_read (&column, 0, ROWS, WM_H5_F32, want, NULL);
            wm_waves_t *waves = wm_waves_new (&column, NULL);
            const float *got;
            assert_int_equal (wm_waves_row (waves, 3, ROWS, &got, &error), fault);
            if (fault) {
                n_refused++;
                assert_non_null (strstr (error.text, "cannot be read: damaged or truncated"));
            } else {
                assert_memory_equal (got, want[3], sizeof want[3]);
            }
            wm_waves_destroy (&waves);
            wm_h5_column_close (&column);
            wm_h5_close (&h5);
            f = fopen (path, "r+b");
            fseek (f, (long) (address + spot), SEEK_SET);
            fputc (was, f);
            fclose (f);
        }
        assert_true (n_refused > 10);
    }
}

static void rows_beyond_the_end_are_refused (void **state)
{
    (void) state;
    const form_t form = { "end", H5T_IEEE_F32LE, 8, WIDTH, .deflate = true };
    const char *path = test_path ("end.h5");
    hid_t data, file = made (&form, path, &data);
    assert_true (H5Dwrite (data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, wave) >= 0);
    H5Dclose (data);
    H5Fclose (file);
    wm_h5_t *h5 = wm_h5_open (path, NULL);
    wm_column_t column;
    assert_int_equal (wm_h5_column (h5, "adc", WM_H5_FLOAT, 0, &column, NULL), WM_OK);
    wm_waves_t *waves = wm_waves_new (&column, NULL);
    const float *got;
    assert_int_equal (wm_waves_row (waves, ROWS, ROWS + 1, &got, NULL), WM_EBATCH);
    assert_int_equal (wm_waves_row (waves, ROWS - 1, ROWS, &got, NULL), WM_OK);
    assert_memory_equal (got, wave[ROWS - 1], sizeof wave[0]);
    wm_waves_destroy (&waves);
    wm_waves_destroy (&waves);
    wm_h5_column_close (&column);
    wm_h5_close (&h5);
}

static void nonzero_values_are_found (void **state)
{
    (void) state;
    float value[80];
    for (uint32_t n = 0; n <= 80; n++)
        for (uint32_t spot = 0; spot <= n; spot++) {
            for (uint32_t i = 0; i < n; i++)
                value[i] = i < spot && i % 3 == 0 ? -0.f : 0;
            if (spot < n)
                value[spot] = spot % 2 ? 1e-45f : NAN;
            for (uint32_t at = 0; at <= spot; at++)
                assert_int_equal (wm_waves_nonzero (value, at, n), spot);
        }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (equals_the_library),
        cmocka_unit_test (odd_chunks_go_to_the_library),
        cmocka_unit_test (damage_is_the_librarys_to_judge),
        cmocka_unit_test (rows_beyond_the_end_are_refused),
        cmocka_unit_test (nonzero_values_are_found),
    };
    wm_h5_init ();
    wave_fill ();
    int failed = cmocka_run_group_tests (tests, NULL, NULL);
    test_folder_remove ();
    return failed;
}
