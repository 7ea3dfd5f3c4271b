/* wm_writer_rows.c - makes columns of an output and writes their rows; packs whole chunks itself.

   A chunk is shuffled (the lowest byte of each value, then the second byte of each ...), packed by
   libdeflate and stored as it is (H5Dwrite_chunk): the library reads it as one of its own, and its
   zlib takes three times as long. The last chunk of a column is stored whole, as the library does
   it: zeros follow its rows.  */
#include "producer/files/wm_space.h"
#include "producer/writing/wm_writer_private.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#define GZIP_LEVEL 2

/* Of the one thread of all writers.  */
static struct {
    struct libdeflate_compressor *compressor;
    void *shuffled, *packed;
    size_t shuffled_max, packed_max;
} space;

void wm_writer_packed (hid_t list, hsize_t chunk)
{
    H5Pset_chunk (list, 1, &chunk);
    H5Pset_shuffle (list);
    H5Pset_deflate (list, GZIP_LEVEL);
}

hid_t wm_writer_group (hid_t file, const char *name)
{
    hid_t list = H5Pcreate (H5P_GROUP_CREATE);
    H5Pset_obj_track_times (list, false);
    hid_t group = H5Gcreate2 (file, name, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Pclose (list);
    return group;
}

hid_t wm_writer_dataset (hid_t group, const char *name, hid_t type, uint64_t count)
{
    hsize_t dim = count;
    const hsize_t chunk = count < PIECE_ROWS ? count : PIECE_ROWS;
    hid_t list = H5Pcreate (H5P_DATASET_CREATE), extent = H5Screate_simple (1, &dim, NULL);
    H5Pset_obj_track_times (list, false);
    if (count && count * H5Tget_size (type) <= COMPACT_BYTES)
        H5Pset_layout (list, H5D_COMPACT);
    else if (count)
        wm_writer_packed (list, chunk);
    hid_t dataset = H5Dcreate2 (group, name, type, extent, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sclose (extent);
    H5Pclose (list);
    return dataset;
}

/* The rows of a chunk of `dataset`, or 0: its values are not stored as they are in memory, or it is
   not packed.  */
static hsize_t chunk_rows (hid_t dataset, hid_t type)
{
    hsize_t chunk = 0;
    hid_t stored = H5Dget_type (dataset), list = H5Dget_create_plist (dataset);
    if (H5Tequal (stored, type) > 0 && H5Pget_layout (list) == H5D_CHUNKED &&
        H5Pget_nfilters (list) == 2)
        H5Pget_chunk (list, 1, &chunk);
    H5Pclose (list);
    H5Tclose (stored);
    return chunk;
}

static bool chunk_write (hid_t dataset, size_t value_bytes, hsize_t chunk, uint64_t first,
                         uint32_t count, const uint8_t *from)
{
    const size_t bytes = chunk * value_bytes;
    if (!space.compressor)
        space.compressor = libdeflate_alloc_compressor (GZIP_LEVEL);
    if (!space.compressor || !wm_space_grow (&space.shuffled, &space.shuffled_max, bytes) ||
        !wm_space_grow (&space.packed, &space.packed_max,
                        libdeflate_zlib_compress_bound (space.compressor, bytes)))
        return false;
    for (size_t b = 0; b < value_bytes; b++) {
        uint8_t *to = (uint8_t *) space.shuffled + b * chunk;
        for (uint32_t i = 0; i < count; i++)
            to[i] = from[i * value_bytes + b];
        memset (to + count, 0, chunk - count);
    }
    const size_t packed = libdeflate_zlib_compress (space.compressor, space.shuffled, bytes,
                                                    space.packed, space.packed_max);
    const hsize_t offset = first;
    return packed && H5Dwrite_chunk (dataset, H5P_DEFAULT, 0, &offset, packed, space.packed) >= 0;
}

bool wm_writer_rows (hid_t dataset, hid_t type, uint64_t first, uint32_t count, const void *from)
{
    if (!count)
        return true;
    hsize_t start = first, size = count;
    hid_t file = H5Dget_space (dataset);
    const hsize_t n = (hsize_t) H5Sget_simple_extent_npoints (file);
    const hsize_t chunk = chunk_rows (dataset, type);
    if (chunk && first % chunk == 0 && (count == chunk || first + count == n) && count <= chunk) {
        H5Sclose (file);
        return chunk_write (dataset, H5Tget_size (type), chunk, first, count, from);
    }
    hid_t memory = H5Screate_simple (1, &size, NULL);
    H5Sselect_hyperslab (file, H5S_SELECT_SET, &start, NULL, &size, NULL);
    bool fine = H5Dwrite (dataset, type, memory, file, H5P_DEFAULT, from) >= 0;
    H5Sclose (memory);
    H5Sclose (file);
    return fine;
}
