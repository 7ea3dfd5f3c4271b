/* fuzz_h5.c - HDF5 files of any bytes: those of each layout, mutated. Three bytes of four go into
   what the reader takes its sizes from (object headers, chunks, heaps), not into the superblock,
   which the library refuses at once.  */
#include "tests/fuzz/fuzz_h5.h"
#include "tests/unit/producer_files.h"

#include <string.h>

const size_t fuzz_bytes_max =
    1u << 30; /* the library allocates a chunk as a whole: wm_h5_column.c */

#define SUPERBLOCK_BYTES 96u

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    wm_h5_init ();
    if (size)
        read_file (fuzz_file (data, size));
    return 0;
}

size_t LLVMFuzzerCustomMutator (uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
    if (size <= SUPERBLOCK_BYTES || seed % 4 == 0)
        return fuzz_mutate (data, size, size_max);
    static uint8_t part[64];
    const size_t at = SUPERBLOCK_BYTES + seed / 4 % (size - SUPERBLOCK_BYTES);
    const size_t n = size - at < sizeof part ? size - at : sizeof part;
    memcpy (part, data + at, n); /* changed in place: what lies behind keeps its address */
    fuzz_mutate (part, n, n);
    memcpy (data + at, part, n);
    return size;
}

static void seed (hid_t file, const char *path)
{
    size_t size;
    FUZZ_CHECK (file >= 0 && H5Fclose (file) >= 0);
    uint8_t *bytes = fuzz_read (path, &size);
    fuzz_seed (bytes, size);
    free (bytes);
}

void fuzz_seeds (void)
{
    static const int id[] = { 7, 1, 2, 7, 1, 3 }, wire_id[] = { 7, 1, 3, 7, 1, 2, 7, 1, 3 };
    static const int plane[] = { 1, 0, 1 }, wire[] = { 4, 0, 1 }, tpc[] = { 2, 2, 2 };
    static const float time[] = { 3.5f, 4, 5 }, patch[2][12] = { { 1 } };
    static float adc[3][40];
    wm_h5_init ();
    adc[0][3] = 2, adc[0][4] = -1, adc[2][39] = 9;
    const char *path = test_path ("seed.h5");
    seed (exchange_make (path), path);

    hid_t file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_i32 (file, "event_table/event_id", 2, 3, id);
    put_i32 (file, "wire_table/event_id", 3, 3, wire_id);
    put_i32 (file, "wire_table/local_plane", 3, 1, plane);
    put_i32 (file, "wire_table/local_wire", 3, 1, wire);
    put_i32 (file, "wire_table/tpc", 3, 1, tpc);
    hid_t list = H5Pcreate (H5P_DATASET_CREATE);
    const hsize_t dim[2] = { 3, 40 }, chunk[2] = { 2, 16 };
    H5Pset_chunk (list, 2, chunk);
    H5Pset_shuffle (list);
    H5Pset_deflate (list, 1);
    hid_t space = H5Screate_simple (2, dim, NULL);
    hid_t data =
        H5Dcreate2 (file, "wire_table/adc", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Dwrite (data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, adc);
    H5Dclose (data);
    H5Sclose (space);
    H5Pclose (list);
    put_i32 (file, "hit_table/event_id", 3, 3, wire_id);
    put_i32 (file, "hit_table/hit_id", 3, 1, tpc);
    put_i32 (file, "hit_table/local_plane", 3, 1, plane);
    put_i32 (file, "hit_table/local_wire", 3, 1, wire);
    put_f32 (file, "hit_table/local_time", 3, 1, time);
    put_i32 (file, "hit_table/tpc", 3, 1, tpc);
    seed (file, path);

    file = H5Fcreate (path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put_f32 (file, "patches", 2, 12, patch[0]);
    put_i32 (file, "event_id", 2, 3, id);
    seed (file, path);
    test_folder_remove ();
}
