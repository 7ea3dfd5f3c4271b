/* fuzz_waves.c - chunks of waveforms: read as stored and decoded by wm_waves, beside the library's
   own reading of the same file. Both must agree, bit for bit or that there is a fault.

   Input: shape, chunk and filters by a few bytes; then the stored bytes of each chunk, raw or
   compressed here, which the library writes as they are (H5Dwrite_chunk).  */
#include "producer/files/wm_h5.h"
#include "producer/files/wm_waves.h"
#include "tests/fuzz/fuzz.h"

#include <hdf5.h>
#include <libdeflate.h>
#include <stdbool.h>
#include <string.h>

const size_t fuzz_bytes_max = 64u << 20;

#define HEAD_BYTES 9

typedef struct {
    hsize_t dim[2], chunk[2];
    uint8_t filters;  /* 1 shuffle, 2 deflate, 4 fletcher32 */
    uint8_t lie;      /* 1: content is compressed here, else it is junk; 4: it has any length */
    uint32_t skipped; /* filters that chunks claim not to have taken */
} how_t;

static const char *path;

static void chunks_put (hid_t data, const how_t *how, fuzz_take_t *take)
{
    static uint8_t raw[1u << 16], stored[1u << 17];
    const size_t want = (size_t) (how->chunk[0] * how->chunk[1] * 4);
    static struct libdeflate_compressor *deflate;
    if (!deflate)
        deflate = libdeflate_alloc_compressor (1);
    /* Of a chunk without filters the library tells the size that it should have, and reads as many
       bytes as the file states.  */
    const bool is_any = (how->filters & 7) != 0;
    for (hsize_t row = 0; row < how->dim[0]; row += how->chunk[0])
        for (hsize_t column = 0; column < how->dim[1]; column += how->chunk[1]) {
            const hsize_t at[2] = { row, column };
            size_t bytes = (size_t) fuzz_take (take, 2);
            if (bytes == 0xffff && !is_any)
                continue; /* never written */
            bytes = is_any ? bytes % (sizeof raw / 2) + 1 : want;
            fuzz_take_bytes (take, raw, bytes);
            const uint8_t *from = raw;
            if (how->lie & 1 && how->filters & 2 && !how->skipped) {
                bytes = libdeflate_zlib_compress (deflate, raw, bytes, stored, sizeof stored);
                from = stored;
            }
            H5Dwrite_chunk (data, H5P_DEFAULT, how->skipped, at, bytes, from);
        }
}

static void file_make (const how_t *how, fuzz_take_t *take)
{
    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple (2, how->dim, NULL), list = H5Pcreate (H5P_DATASET_CREATE);
    H5Pset_chunk (list, 2, how->chunk);
    if (how->filters & 1)
        H5Pset_shuffle (list);
    if (how->filters & 2)
        H5Pset_deflate (list, 1);
    if (how->filters & 4)
        H5Pset_fletcher32 (list);
    hid_t data = H5Dcreate2 (file, "adc", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    FUZZ_CHECK (data >= 0);
    chunks_put (data, how, take);
    H5Dclose (data);
    H5Pclose (list);
    H5Sclose (space);
    H5Fclose (file);
}

static void compare (const how_t *how)
{
    static float all[1u << 15];
    wm_error_t error;
    wm_column_t column;
    const float *row;
    const uint32_t width = (uint32_t) how->dim[1];
    wm_h5_t *file = wm_h5_open (path, &error);
    FUZZ_CHECK (file);
    FUZZ_CHECK (!wm_h5_column (file, "adc", WM_H5_FLOAT, 0, &column, &error));
    wm_waves_t *waves = wm_waves_new (&column, &error);
    FUZZ_CHECK (waves);
    for (uint64_t r = 0; r < how->dim[0]; r++) {
        const wm_fault_t by_us = wm_waves_row (waves, r, how->dim[0], &row, &error);
        uint64_t direct, library;
        wm_waves_count (waves, &direct, &library);
        if (by_us || library) /* what the library reads it may read differently the next time */
            continue;
        FUZZ_CHECK (wm_waves_nonzero (row, 0, width) <= width);
        FUZZ_CHECK (!wm_h5_read (&column, r, 1, WM_H5_F32, all, &error));
        FUZZ_CHECK (!memcmp (row, all, width * sizeof *all));
    }
    wm_waves_destroy (&waves);
    wm_h5_column_close (&column);
    wm_h5_close (&file);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    fuzz_take_t take = { data, data + size };
    wm_h5_init ();
    path = fuzz_scratch ();
    how_t how = { .dim = { 1 + fuzz_take (&take, 1) % 16, 1 + fuzz_take (&take, 2) % 600 },
                  .chunk = { 1 + fuzz_take (&take, 1) % 8, 1 + fuzz_take (&take, 2) % 400 } };
    how.filters = (uint8_t) fuzz_take (&take, 1);
    how.lie = (uint8_t) fuzz_take (&take, 1);
    how.skipped = how.lie & 2 ? (uint32_t) fuzz_take (&take, 1) % 8 : 0;
    for (int i = 0; i < 2; i++) /* a chunk of a fixed shape is no larger than the dataset */
        how.chunk[i] = how.chunk[i] < how.dim[i] ? how.chunk[i] : how.dim[i];
    file_make (&how, &take);
    compare (&how);
    return 0;
}

void fuzz_seeds (void)
{
    static uint8_t text[8192];
    for (unsigned i = 0; i < 8; i++) {
        const uint8_t head[HEAD_BYTES] = { 5, 99, 0, 2, i % 2 ? 99 : 39, 0, (uint8_t) i, 1, 0 };
        memcpy (text, head, sizeof head);
        for (size_t k = HEAD_BYTES; k < sizeof text; k++)
            text[k] = (uint8_t) (k % 16 ? 0 : k / 16);
        fuzz_seed (text, 3000);
        text[7] = 0; /* stored bytes as they are */
        fuzz_seed (text, 3000);
    }
}
