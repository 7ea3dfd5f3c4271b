/* test_producer_waves.c - waveforms by chunks equal those that HDF5 reads, whatever the storage.

   Each dataset is written in another form and read row by row; every bit is compared with H5Dread.
   What is known must go chunk by chunk, everything else and everything damaged by the library.  */
#include "producer/files/wm_waves.h"
#include "tests/unit/unit.h"

#include "tests/unit/producer_files.h"

#include <libdeflate.h>
#include <math.h>
#include <string.h>

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
    herr_t (*more) (hid_t list);
} form_t;

static herr_t szip (hid_t list)
{
    return H5Pset_szip (list, H5_SZIP_NN_OPTION_MASK, 8);
}

static herr_t scale_offset (hid_t list)
{
    return H5Pset_scaleoffset (list, H5Z_SO_INT, H5Z_SO_INT_MINBITS_DEFAULT);
}

static herr_t twice (hid_t list)
{
    return H5Pset_deflate (list, 1);
}

static herr_t compact (hid_t list)
{
    return H5Pset_layout (list, H5D_COMPACT);
}

static herr_t fill (hid_t list)
{
    const float value = 3.5f;
    return H5Pset_fill_value (list, H5T_NATIVE_FLOAT, &value);
}

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
    assert_true (!form->more || form->more (list) >= 0);
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
        { "compact", f32, 0, 0, .more = compact },
        { "a chunk larger than the data", f32, 50, 200, .shuffle = true, .deflate = true,
          .direct = true },
        { "one column more than a chunk", f32, 36, WIDTH - 1, .shuffle = true, .direct = true },
        { "checksums alone", f32, 8, WIDTH, .fletcher = true },
        { "deflated twice", f32, 8, WIDTH, .deflate = true, .more = twice },
        { "n-bit", f32, 8, WIDTH, .more = H5Pset_nbit },
        { "scale and offset", H5T_STD_I32LE, 8, WIDTH, .more = scale_offset },
        { "szip", f32, 8, WIDTH, .more = szip },
    };
    unsigned can = 0;
    H5Zget_filter_info (H5Z_FILTER_SZIP, &can);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (forms[i].more == szip && !(can & H5Z_FILTER_CONFIG_ENCODE_ENABLED))
            continue; /* this library has none */
        const char *path = test_path ("form.h5");
        hid_t data, file = made (&forms[i], path, &data);
        print_message ("  %s\n", forms[i].name);
        assert_true (H5Dwrite (data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, wave) >= 0);
        H5Dclose (data);
        H5Fclose (file);
        compare (path, forms[i].direct ? ROWS : 0);
    }
}

/* Samples, one value a row: any of them, as the library reads them.  */
static void samples_equal_the_library (void **state)
{
    enum { N = ROWS * WIDTH, CHUNK = 500 };
    static float want[N], got[N];
    for (int filters = 1; filters < 4; filters++) {
        const char *path = test_path ("samples.h5");
        const hsize_t n = N, chunk = CHUNK;
        hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hid_t list = H5Pcreate (H5P_DATASET_CREATE), space = H5Screate_simple (1, &n, NULL);
        H5Pset_chunk (list, 1, &chunk);
        if (filters & 1)
            H5Pset_shuffle (list);
        if (filters & 2)
            H5Pset_deflate (list, 4);
        hid_t data =
            H5Dcreate2 (file, "adc", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
        assert_true (H5Dwrite (data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, wave) >= 0);
        H5Dclose (data), H5Sclose (space), H5Pclose (list), H5Fclose (file);
        wm_error_t error = { 0 };
        wm_h5_t *h5 = wm_h5_open (path, NULL);
        wm_column_t column;
        uint64_t direct, library;
        assert_int_equal (wm_h5_column (h5, "adc", WM_H5_FLOAT, 1, &column, NULL), WM_OK);
        assert_int_equal (wm_h5_read (&column, 0, N, WM_H5_F32, want, NULL), WM_OK);
        wm_waves_t *waves = wm_waves_new (&column, NULL);
        for (uint64_t first = 0; first < N; first += 333)
            for (uint64_t count = 0; count <= N - first; count += count / 2 + 7) {
                memset (got, 0x55, sizeof got);
                assert_int_equal (wm_waves_read (waves, first, count, got, &error), WM_OK);
                assert_memory_equal (got, want + first, count * sizeof *got);
                assert_true (count == N || !memcmp (got + count, "UUUU", 4));
            }
        wm_waves_count (waves, &direct, &library);
        assert_true (direct > 0 && library == 0);
        assert_int_equal (wm_waves_read (waves, N - 3, 4, got, &error), WM_EBATCH);
        assert_non_null (strstr (error.text, "samples.h5: dataset adc: rows "));
        wm_waves_destroy (&waves);
        wm_h5_column_close (&column);
        wm_h5_close (&h5);
    }
}

/* Chunks that were never written, and one that was stored without its filters.  */
static void odd_chunks_go_to_the_library (void **state)
{
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

/* A fill value in chunks that were never written, beside ones that were.  */
static void missing_chunks_have_the_fill_value (void **state)
{
    const form_t form = { "filled",        H5T_IEEE_F32LE,  8,           40,
                          .shuffle = true, .deflate = true, .more = fill };
    const char *path = test_path ("filled.h5");
    hid_t data, file = made (&form, path, &data);
    const hsize_t start[2] = { 0, 0 }, size[2] = { ROWS, 40 };
    hid_t space = H5Dget_space (data), memory = H5Screate_simple (2, size, NULL);
    H5Sselect_hyperslab (space, H5S_SELECT_SET, start, NULL, size, NULL);
    assert_true (H5Dwrite (data, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, wave) >= 0);
    H5Sclose (memory);
    H5Sclose (space);
    H5Dclose (data);
    H5Fclose (file);
    compare (path, 0);
}

/* Reads row 3 by chunks and by the library. Returns the fault, the same of both, with the same
   bits.  */
static wm_fault_t judged (const char *path, wm_error_t *error)
{
    static float want[ROWS][WIDTH];
    wm_h5_t *h5 = wm_h5_open (path, NULL);
    wm_column_t column;
    const float *got;
    assert_int_equal (wm_h5_column (h5, "adc", WM_H5_FLOAT, 0, &column, NULL), WM_OK);
    wm_error_t first = { 0 };
    wm_fault_t fault = wm_h5_read (&column, 0, ROWS, WM_H5_F32, want, &first);
    wm_waves_t *waves = wm_waves_new (&column, NULL);
    assert_int_equal (wm_waves_row (waves, 3, ROWS, &got, error), fault);
    if (fault)
        assert_non_null (strstr (first.text, ": dataset adc"));
    else
        assert_memory_equal (got, want[3], sizeof want[3]);
    wm_waves_destroy (&waves);
    wm_h5_column_close (&column);
    wm_h5_close (&h5);
    return fault;
}

/* A chunk is stored as it should not be: cut short, followed by more, of another size when it is
   inflated, or no stream at all.  */
enum { SHUFFLED = 1, DEFLATED = 2, SUMMED = 4, TWO_BESIDE = 8 };
static void stored_as (const char *what, int filters, uint32_t skipped, const void *chunk,
                       size_t bytes, wm_fault_t fault)
{
    const form_t form = { "wrong",
                          H5T_IEEE_F32LE,
                          ROWS,
                          filters & TWO_BESIDE ? WIDTH - 1 : WIDTH,
                          .shuffle = filters & SHUFFLED,
                          .deflate = filters & DEFLATED,
                          .fletcher = filters & SUMMED };
    const char *path = test_path ("wrong.h5");
    const hsize_t first[2] = { 0, 0 }, at[2] = { 0, filters & TWO_BESIDE ? WIDTH - 1 : 0 };
    wm_error_t error;
    hid_t data, file = made (&form, path, &data);
    if (filters & TWO_BESIDE) /* the first is one that the library must read */
        assert_true (H5Dwrite_chunk (data, H5P_DEFAULT, 3, first,
                                     ROWS * (WIDTH - 1) * sizeof (float), wave) >= 0);
    assert_true (H5Dwrite_chunk (data, H5P_DEFAULT, skipped, at, bytes, chunk) >= 0);
    H5Dclose (data);
    H5Fclose (file);
    print_message ("  %s\n", what);
    assert_int_equal (judged (path, &error), fault);
    if (fault) {
        assert_non_null (strstr (error.text, "wrong.h5: dataset adc: rows "));
        assert_non_null (strstr (error.text, " cannot be read: damaged or truncated"));
    }
}

static void stored_wrongly (const char *what, bool is_deflated, const void *chunk, size_t bytes,
                            wm_fault_t fault)
{
    stored_as (what, is_deflated ? DEFLATED : SHUFFLED, 0, chunk, bytes, fault);
}

static size_t deflated (const void *from, size_t bytes, uint8_t *to, size_t bytes_max)
{
    struct libdeflate_compressor *pack = libdeflate_alloc_compressor (6);
    const size_t n = libdeflate_zlib_compress (pack, from, bytes, to, bytes_max);
    libdeflate_free_compressor (pack);
    assert_true (n > 0);
    return n;
}

/* Puts fletcher32 of n bytes behind them, as the library does. Returns its size.  */
static size_t checksum (uint8_t *data, size_t n)
{
    uint32_t low = 0, high = 0;
    for (size_t i = 0; i < n; i += 2) {
        low += (uint32_t) data[i] << 8 | (i + 1 < n ? data[i + 1] : 0u);
        low = (low & 0xffff) + (low >> 16);
        high += low;
        high = (high & 0xffff) + (high >> 16);
    }
    const uint32_t sum = high << 16 | low;
    memcpy (data + n, &sum, sizeof sum);
    return sizeof sum;
}

static void chunks_of_another_size (void **state)
{
    static uint8_t chunk[2 * sizeof wave], more[2 * sizeof wave];
    static uint8_t longer[2 * sizeof wave];
    const size_t n = deflated (wave, sizeof wave, chunk, sizeof chunk);
    deflated (wave, sizeof wave / 4, longer, sizeof longer);
    stored_wrongly ("as it should be", true, chunk, n, WM_OK);
    stored_wrongly ("cut short", true, chunk, n / 2, WM_EBATCH);
    stored_wrongly ("without its checksum", true, chunk, n - 4, WM_EBATCH);
    stored_wrongly ("followed by more", true, chunk, n + 100, WM_OK);
    memcpy (more, wave, sizeof wave);
    const size_t long_n = deflated (more, sizeof more, chunk, sizeof chunk);
    stored_wrongly ("too much in it", true, chunk, long_n, WM_OK);
    const size_t short_n = deflated (wave, sizeof wave / 2, chunk, sizeof chunk);
    stored_wrongly ("short: half of it", true, chunk, short_n, WM_EBATCH);
    stored_wrongly ("short: shuffled, not deflated", false, wave, sizeof wave - 4, WM_EBATCH);
    stored_wrongly ("short: a quarter", true, chunk,
                    deflated (wave, sizeof wave / 4, chunk, sizeof chunk), WM_EBATCH);
    stored_as ("short: shuffled, which it skipped", DEFLATED | SHUFFLED, 1, chunk, short_n,
               WM_EBATCH);
    stored_as ("shuffled, which it skipped", DEFLATED | SHUFFLED, 1, chunk,
               deflated (wave, sizeof wave, chunk, sizeof chunk), WM_OK);
    stored_as ("short: skipped deflate", DEFLATED, 1, wave, sizeof wave - 4, WM_EBATCH);
    stored_as ("short: skipped deflate after shuffle", DEFLATED | SHUFFLED, 2, wave, 100,
               WM_EBATCH);
    stored_as ("short: skipped both", DEFLATED | SHUFFLED, 3, wave, sizeof wave - 4, WM_EBATCH);
    stored_as ("skipped both", DEFLATED | SHUFFLED, 3, wave, sizeof wave, WM_OK);
    stored_as ("skipped deflate", DEFLATED | SHUFFLED, 2, wave, sizeof wave, WM_OK);
    stored_as ("short: beside one that skipped both", DEFLATED | SHUFFLED | TWO_BESIDE, 0, chunk,
               deflated (wave, sizeof wave / 4, chunk, sizeof chunk), WM_EBATCH);
    memset (more, 0, sizeof more); /* the checksum of zeros is 0 */
    stored_as ("short: with its checksum", SHUFFLED | SUMMED, 0, more, sizeof wave, WM_EBATCH);
    stored_as ("short: with its checksum alone", SUMMED, 0, more, sizeof wave, WM_EBATCH);
    stored_as ("short: of less than a checksum", SUMMED, 0, more, 3, WM_EBATCH);
    stored_as ("with its checksum", SHUFFLED | SUMMED, 0, more, sizeof wave + 4, WM_OK);
    stored_as ("short: skipped its checksum", SUMMED, 1, more, sizeof wave - 4, WM_EBATCH);
    stored_as ("skipped its checksum", SUMMED, 1, more, sizeof wave, WM_OK);
    memset (chunk, 0x5a, sizeof chunk);
    stored_wrongly ("short: a quarter, and more behind it than a chunk", true, longer,
                    sizeof longer, WM_EBATCH);
    stored_wrongly ("no stream", true, chunk, 1000, WM_EBATCH);
    stored_wrongly ("one byte", true, chunk, 1, WM_EBATCH);
}

/* The third of three chunks of a column is short, whatever its type, width and filters: the rows
   before it can be read, it is refused, and the memory behind it does not show.  */
static void short_chunks_of_columns (void **state)
{
    enum { N = 24, CHUNK = 8, STUB = 1000 }; /* STUB: it has two bytes */
    static const struct {
        const char *what;
        unsigned width;
        bool shuffle, sum_first, deflate, sum_last;
        int missing; /* bytes; below 0: it has more */
        wm_fault_t fault;
    } list[] = {
        { "deflated", 1, false, false, true, false, 4, WM_EBATCH },
        { "as it should be", 3, true, false, true, false, 0, WM_OK },
        { "three values a row, shuffled and deflated", 3, true, false, true, false, 1, WM_EBATCH },
        { "shuffled", 3, true, false, false, false, 4, WM_EBATCH },
        { "shuffled, and a checksum", 1, true, false, false, true, 4, WM_EBATCH },
        { "less than a checksum", 1, false, false, false, true, STUB, WM_EBATCH },
        { "deflated, and a checksum", 1, false, false, true, true, 4, WM_EBATCH },
        { "as it should be, with a checksum", 1, false, false, true, true, 0, WM_OK },
        { "as it should be, with one inside", 1, false, true, true, false, 0, WM_OK },
        { "a checksum inside", 1, false, true, true, false, 4, WM_EBATCH },
        { "more in it", 1, false, false, true, false, -8, WM_OK },
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const char *path = test_path ("column.h5");
        const hsize_t dim[2] = { N, list[i].width }, chunk[2] = { CHUNK, list[i].width };
        const int n_dim = list[i].width > 1 ? 2 : 1;
        const size_t bytes = CHUNK * list[i].width * sizeof (int64_t);
        int64_t value[2 * CHUNK * 3], got[N * 3];
        uint8_t plain[2 * sizeof value], packed[2 * sizeof value];
        for (size_t k = 0; k < sizeof value / sizeof *value; k++)
            value[k] = (int64_t) (k * k);
        print_message ("  %s\n", list[i].what);
        hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hid_t form = H5Pcreate (H5P_DATASET_CREATE), space = H5Screate_simple (n_dim, dim, NULL);
        H5Pset_chunk (form, n_dim, chunk);
        if (list[i].shuffle)
            H5Pset_shuffle (form);
        if (list[i].sum_first)
            H5Pset_fletcher32 (form);
        if (list[i].deflate)
            H5Pset_deflate (form, 4);
        if (list[i].sum_last)
            H5Pset_fletcher32 (form);
        hid_t data = H5Dcreate2 (file, "n", H5T_STD_I64LE, space, H5P_DEFAULT, form, H5P_DEFAULT);
        for (hsize_t row = 0; row < N; row += CHUNK) {
            const hsize_t at[2] = { row, 0 };
            const bool is_third = row == 2 * CHUNK, is_stub = is_third && list[i].missing == STUB;
            size_t n = bytes - (size_t) (is_third && !is_stub ? list[i].missing : 0);
            memcpy (plain, value, n);
            if (list[i].sum_first)
                n += checksum (plain, n);
            if (list[i].deflate)
                n = deflated (plain, n, packed, sizeof packed);
            else
                memcpy (packed, plain, n);
            if (list[i].sum_last)
                n += checksum (packed, n);
            n = is_stub ? 2 : n;
            assert_true (H5Dwrite_chunk (data, H5P_DEFAULT, 0, at, n, packed) >= 0);
        }
        H5Dclose (data), H5Sclose (space), H5Pclose (form), H5Fclose (file);
        wm_error_t error = { 0 };
        wm_column_t column;
        wm_h5_t *h5 = wm_h5_open (path, NULL);
        const wm_h5_range_t span[] = { { 2, 2 }, { 9, 1 }, { 20, 1 } };
        assert_int_equal (wm_h5_column (h5, "n", WM_H5_INTEGER, list[i].width, &column, NULL),
                          WM_OK);
        assert_int_equal (wm_h5_read (&column, 9, 7, WM_H5_I64, got, &error), WM_OK);
        assert_int_equal (wm_h5_read (&column, 15, 2, WM_H5_I64, got, &error), list[i].fault);
        if (list[i].fault) {
            assert_non_null (strstr (error.text, "column.h5: dataset n: rows 15 to 16 cannot be "
                                                 "read: damaged or truncated"));
        }
        assert_int_equal (wm_h5_read (&column, 0, N, WM_H5_I64, got, &error), list[i].fault);
        assert_int_equal (wm_h5_read (&column, 0, 16, WM_H5_I64, got, &error), WM_OK);
        assert_int_equal (wm_h5_read (&column, 23, 1, WM_H5_I64, got, &error), list[i].fault);
        assert_int_equal (wm_h5_read_spans (&column, span, 2, WM_H5_I64, got, &error), WM_OK);
        assert_int_equal (wm_h5_read_spans (&column, span, 3, WM_H5_I64, got, &error),
                          list[i].fault);
        wm_h5_column_close (&column);
        wm_h5_close (&h5);
    }
}

static size_t same_bytes (unsigned flags, size_t n, const unsigned *value, size_t bytes,
                          size_t *bytes_max, void **chunk)
{
    return bytes;
}

static herr_t lzf (hid_t list)
{
    return H5Pset_filter (list, 32000, H5Z_FLAG_MANDATORY, 0, NULL);
}

/* lzf, as h5py writes it: wiremill has no plugins, and names what is missing.  */
static void plugins_are_named (void **state)
{
    const H5Z_class2_t class = { H5Z_CLASS_T_VERS, 32000, 1, 1, "lzf", NULL, NULL, same_bytes };
    const form_t form = { "lzf", H5T_IEEE_F32LE, 8, WIDTH, .shuffle = true, .more = lzf };
    const char *path = test_path ("lzf.h5");
    wm_error_t error;
    assert_true (H5Zregister (&class) >= 0);
    hid_t data, file = made (&form, path, &data);
    assert_true (H5Dwrite (data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, wave) >= 0);
    H5Dclose (data);
    H5Fclose (file);
    compare (path, 0);
    assert_true (H5Zunregister (32000) >= 0);
    assert_int_equal (judged (path, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "lzf.h5: dataset adc is packed by a filter that is a "
                                         "plugin, number 32000 (lzf): write it with gzip"));
}

/* Bytes of a chunk are spoiled, one after another: the rows are those of the library, or both
   refuse them.  */
static void damage_is_the_librarys_to_judge (void **state)
{
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
            wm_error_t error;
            if (judged (path, &error)) {
                n_refused++;
                assert_non_null (strstr (error.text, "cannot be read: damaged or truncated"));
            }
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

/* Regions of rows are those of their copies: blocks of zeros that are not looked at again are the
   row's own, not those of the row before.  */
static void regions_of_rows_and_copies (void **state)
{
    enum { N = 60, TICKS = 300 };
    static float value[N][TICKS];
    uint32_t seed = 5;
    for (int i = 0; i < 150; i++) {
        seed = seed * 1664525u + 1013904223u;
        value[(seed >> 8) % N][(seed >> 16) % TICKS] = i % 9 ? 1.5f + (float) i : -0.f;
    }
    value[N - 1][TICKS - 1] = value[1][0] = 3;
    const hsize_t dim[2] = { N, TICKS }, chunk[2] = { 16, TICKS };
    hid_t file = H5Fcreate (test_path ("rows.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
          list = H5Pcreate (H5P_DATASET_CREATE), space = H5Screate_simple (2, dim, NULL);
    H5Pset_chunk (list, 2, chunk);
    H5Pset_shuffle (list);
    H5Pset_deflate (list, 1);
    hid_t data =
        H5Dcreate2 (file, "adc", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Dwrite (data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, value);
    H5Dclose (data), H5Pclose (list), H5Sclose (space), H5Fclose (file);
    wm_h5_t *h5 = wm_h5_open (test_path ("rows.h5"), NULL);
    wm_column_t column;
    assert_int_equal (wm_h5_column (h5, "adc", WM_H5_FLOAT, 0, &column, NULL), WM_OK);
    wm_waves_t *waves = wm_waves_new (&column, NULL);
    wm_event_t row = { 0 }, copy = { 0 };
    const wm_waves_place_t place = { 0, 7 };
    for (uint64_t i = 0; i < N; i++) {
        const float *adc;
        float there[TICKS];
        assert_int_equal (wm_waves_row (waves, i, N, &adc, NULL), WM_OK);
        assert_memory_equal (adc, value[i], sizeof there);
        memcpy (there, adc, sizeof there);
        assert_int_equal (wm_waves_keep (&row, adc, TICKS, 0, &place, 1, NULL), WM_OK);
        assert_int_equal (wm_waves_keep (&copy, there, TICKS, 0, &place, 1, NULL), WM_OK);
    }
    assert_true (row.n_roi > 50 && row.n_roi == copy.n_roi && row.n_sample == copy.n_sample);
    assert_memory_equal (row.roi, copy.roi, row.n_roi * sizeof *row.roi);
    assert_memory_equal (row.sample, copy.sample, row.n_sample * sizeof *row.sample);
    wm_event_clear (&row);
    wm_event_clear (&copy);
    wm_waves_destroy (&waves);
    wm_h5_column_close (&column);
    wm_h5_close (&h5);
}

/* ---- memory that files share ----------------------------------------------------------------- */

enum { FILES = 50, LONG = 200000 };

/* A column of `n` rows.  */
static void column_store (const char *path, hsize_t n, int add, hid_t type, hsize_t chunk,
                          bool is_deflated)
{
    static int value[LONG];
    for (int i = 0; i < LONG; i++)
        value[i] = i + add;
    const hsize_t most = H5S_UNLIMITED;
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t list = H5Pcreate (H5P_DATASET_CREATE), space = H5Screate_simple (1, &n, &most);
    H5Pset_chunk (list, 1, &chunk);
    if (is_deflated)
        H5Pset_deflate (list, 1);
    hid_t data = H5Dcreate2 (file, "c", type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    assert_true (H5Dwrite (data, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0);
    H5Dclose (data);
    H5Sclose (space);
    H5Pclose (list);
    H5Fclose (file);
}

/* One of four chunks, as it is in each file.  */
static void column_make (const char *path, hsize_t n, int add)
{
    column_store (path, n, add, H5T_STD_I32LE, LONG / 4, true);
}

static const char *column_path (int i)
{
    char name[20];
    snprintf (name, sizeof name, "c%d.h5", i);
    return test_path (name);
}

static void columns_open (wm_h5_t **file, wm_column_t *column)
{
    for (int i = 0; i < FILES; i++) {
        column_make (column_path (i), LONG, i);
        file[i] = wm_h5_open (column_path (i), NULL);
        assert_int_equal (wm_h5_column (file[i], "c", WM_H5_INTEGER, 1, &column[i], NULL), WM_OK);
        if (i % 5 == 0)
            wm_h5_whole (&column[i]);
    }
}

static void columns_close (wm_h5_t **file, wm_column_t *column)
{
    for (int i = 0; i < FILES; i++) {
        wm_h5_column_close (&column[i]);
        wm_h5_column_close (&column[i]);
        wm_h5_close (&file[i]);
    }
    assert_int_equal (wm_h5_cached_bytes (), 0);
}

/* 50 caches of 800 KB: some are closed for others, and nobody notices.  */
static void caches_are_shared (void **state)
{
    wm_h5_t *file[FILES];
    wm_column_t column[FILES];
    size_t most = 0;
    columns_open (file, column);
    for (int turn = 0; turn < 6 * FILES; turn++) {
        const int i = turn * 7 % FILES, first = turn * 611 % (LONG - 3);
        int got[3];
        assert_int_equal (wm_h5_read (&column[i], (uint64_t) first, 3, WM_H5_I32, got, NULL),
                          WM_OK);
        for (int k = 0; k < 3; k++)
            assert_int_equal (got[k], first + k + i);
        most = wm_h5_cached_bytes () > most ? wm_h5_cached_bytes () : most;
    }
    assert_in_range (most, 31 << 20, 32 << 20);
    columns_close (file, column);
}

/* Puts other.h5 in the place of a file, which stays open.  */
static void column_replace (int i)
{
    FILE *from = fopen (test_path ("other.h5"), "rb"), *to = fopen (column_path (i), "r+b");
    for (int c; (c = fgetc (from)) != EOF;)
        fputc (c, to);
    fclose (from);
    fclose (to);
}

/* The file is another one when its column is opened again.  */
static void what_is_opened_again_is_checked (void **state)
{
    wm_h5_t *file[FILES];
    wm_column_t column[FILES];
    wm_error_t error;
    int got;
    columns_open (file, column);
    for (int i = 0; i < FILES; i++)
        assert_int_equal (wm_h5_read (&column[i], 7, 1, WM_H5_I32, &got, NULL), WM_OK);
    column_make (test_path ("other.h5"), LONG / 2, 0);
    column_replace (0);
    FILE *to = fopen (column_path (1), "r+b");
    for (int i = 0; i < 1 << 16; i++)
        fputc (0, to);
    fclose (to);
    assert_int_equal (wm_h5_read (&column[0], 7, 1, WM_H5_I32, &got, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "c0.h5: dataset c changed while it was read"));
    assert_int_equal (wm_h5_read (&column[0], 7, 1, WM_H5_I32, &got, NULL), WM_EBATCH);
    assert_int_equal (wm_h5_read (&column[1], 7, 1, WM_H5_I32, &got, &error), WM_EBATCH);
    assert_non_null (strstr (error.text, "c1.h5: c is no dataset, or is damaged"));
    assert_int_equal (wm_h5_read (&column[2], 7, 1, WM_H5_I32, &got, NULL), WM_OK);
    assert_int_equal (got, 9);
    for (int i = 3; i < 7; i++) { /* stored in another way; 3 is the same */
        column_store (test_path ("other.h5"), LONG, i, i == 4 ? H5T_STD_U32LE : H5T_STD_I32LE,
                      i == 5 ? LONG / 2 : LONG / 4, i != 6);
        column_replace (i);
        for (int turn = 0; turn < 2; turn++)
            assert_int_equal (wm_h5_read (&column[i], 7, 1, WM_H5_I32, &got, &error),
                              i == 3 ? WM_OK : WM_EBATCH);
        assert_true (i == 3 || strstr (error.text, "dataset c changed while it was read"));
    }
    columns_close (file, column);
}

/* Two files are read in turn: each takes the work space from the other.  */
static void the_work_space_is_shared (void **state)
{
    const form_t form[2] = {
        { "one", H5T_IEEE_F32LE, 8, WIDTH, .shuffle = true, .deflate = true },
        { "other", H5T_IEEE_F32LE, 0, 0, .direct = false },
    };
    const char *path[2] = { test_path ("one.h5"), test_path ("two.h5") };
    wm_h5_t *h5[2];
    wm_column_t column[2];
    wm_waves_t *waves[2];
    const float *got;
    for (int i = 0; i < 2; i++) {
        hid_t data, file = made (&form[i], path[i], &data);
        assert_true (H5Dwrite (data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, wave) >= 0);
        H5Dclose (data);
        H5Fclose (file);
        h5[i] = wm_h5_open (path[i], NULL);
        assert_int_equal (wm_h5_column (h5[i], "adc", WM_H5_FLOAT, 0, &column[i], NULL), WM_OK);
        waves[i] = wm_waves_new (&column[i], NULL);
    }
    for (uint64_t turn = 0; turn < 2 * ROWS; turn++) {
        assert_int_equal (wm_waves_row (waves[turn % 2], turn / 2, ROWS, &got, NULL), WM_OK);
        assert_memory_equal (got, wave[turn / 2], sizeof wave[0]);
    }
    assert_int_equal (wm_h5_cached_bytes (), 0); /* read directly, or without chunks */
    wm_waves_destroy (&waves[0]); /* its rows are not in the work space: the other's stay */
    assert_int_equal (wm_waves_row (waves[1], 0, ROWS, &got, NULL), WM_OK);
    assert_memory_equal (got, wave[0], sizeof wave[0]);
    for (int i = 0; i < 2; i++) {
        wm_waves_destroy (&waves[i]);
        wm_h5_column_close (&column[i]);
        wm_h5_close (&h5[i]);
    }
}

int main (void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test (equals_the_library),
        cmocka_unit_test (samples_equal_the_library),
        cmocka_unit_test (odd_chunks_go_to_the_library),
        cmocka_unit_test (missing_chunks_have_the_fill_value),
        cmocka_unit_test (chunks_of_another_size),
        cmocka_unit_test (short_chunks_of_columns),
        cmocka_unit_test (plugins_are_named),
        cmocka_unit_test (damage_is_the_librarys_to_judge),
        cmocka_unit_test (rows_beyond_the_end_are_refused),
        cmocka_unit_test (nonzero_values_are_found),
        cmocka_unit_test (regions_of_rows_and_copies),
        cmocka_unit_test (caches_are_shared),
        cmocka_unit_test (what_is_opened_again_is_checked),
        cmocka_unit_test (the_work_space_is_shared),
    };
    wm_h5_init ();
    wave_fill ();
    int failed = cmocka_run_group_tests (tests, NULL, NULL);
    test_folder_remove ();
    return failed;
}
