/* fuzz_tables.c - HDF5 files that are sound to the library and lie to the reader: the tables of the
   exchange layout with other values, types, shapes, storage and links.

   Input: a list of edits; each names a dataset, what to do with it, and numbers.  */
#include "tests/fuzz/fuzz_h5.h"
#include "tests/unit/producer_files.h"

#include <string.h>

const size_t fuzz_bytes_max = 1u << 30; /* as fuzz_h5.c */

#define EDITS_MAX 12

static const char *const dataset[] = {
    "event_table/event_id", "event_table/n_tick",
    "event_table/tick_us",  "event_table/tau_us",
    "plane_table/event_id", "plane_table/cryostat",
    "plane_table/tpc",      "plane_table/plane",
    "plane_table/n_wire",   "wire_table/channel",
    "wire_table/plane",     "wire_table/wire",
    "roi_table/event_id",   "roi_table/channel",
    "roi_table/tick",       "roi_table/n",
    "roi_value/adc",        "bad_channel/event_id",
    "bad_channel/channel",  "hit_table/event_id",
    "hit_table/plane",      "hit_table/wire",
    "hit_table/time",       "hit_table/key",
    "lifetime/factor",      "patches",
};
#define DATASETS (sizeof dataset / sizeof *dataset)

/* A type by number: those that files have, and those that no reader should take.  */
static hid_t type_of (uint64_t number)
{
    switch (number % 12) {
    case 0:
        return H5Tcopy (H5T_STD_U8LE);
    case 1:
        return H5Tcopy (H5T_STD_I16BE);
    case 2:
        return H5Tcopy (H5T_STD_I64LE);
    case 3:
        return H5Tcopy (H5T_STD_U64BE);
    case 4:
        return H5Tcopy (H5T_IEEE_F32LE);
    case 5:
        return H5Tcopy (H5T_IEEE_F64BE);
    case 6: {
        hid_t half = H5Tcopy (H5T_IEEE_F32LE);
        H5Tset_fields (half, 15, 10, 5, 0, 10);
        H5Tset_size (half, 2);
        H5Tset_ebias (half, 15);
        return half;
    }
    case 7: {
        hid_t text = H5Tcopy (H5T_C_S1);
        H5Tset_size (text, 8);
        return text;
    }
    case 8: {
        hid_t text = H5Tcopy (H5T_C_S1);
        H5Tset_size (text, H5T_VARIABLE);
        return text;
    }
    case 9: {
        const hsize_t dim[1] = { 3 };
        return H5Tarray_create2 (H5T_NATIVE_INT, 1, dim);
    }
    case 10:
        return H5Tvlen_create (H5T_NATIVE_INT);
    default:
        return H5Tcopy (H5T_STD_REF_OBJ);
    }
}

/* Changes values in place.  */
static void values_put (hid_t file, const char *name, fuzz_take_t *take)
{
    static int32_t value[512];
    hid_t id = H5Dopen2 (file, name, H5P_DEFAULT);
    if (id < 0)
        return;
    hid_t space = H5Dget_space (id), type = H5Dget_type (id);
    const hssize_t n = H5Sget_simple_extent_npoints (space);
    const bool is_number = H5Tget_class (type) == H5T_INTEGER || H5Tget_class (type) == H5T_FLOAT;
    hid_t memory = H5Tget_class (type) == H5T_FLOAT ? H5T_IEEE_F32LE : H5T_STD_I32LE;
    if (is_number && n > 0 && n <= 512 &&
        H5Dread (id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0) {
        const uint64_t at = fuzz_take (take, 1), number = fuzz_take (take, 4);
        value[at % (uint64_t) n] = (int32_t) number;
        H5Dwrite (id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, value);
    }
    H5Tclose (type);
    H5Sclose (space);
    H5Dclose (id);
}

/* Puts an empty dataset of another type, shape and storage in its place.  */
static void dataset_put (hid_t file, const char *name, fuzz_take_t *take)
{
    static const hsize_t often[] = { 0, 1, 2, 3, 4, 6, 14, 1000, 1u << 20, 1ull << 33, 1ull << 47 };
    const uint64_t storage = fuzz_take (take, 1);
    hid_t type = type_of (fuzz_take (take, 1));
    const int n_dim = (int) (fuzz_take (take, 1) % 10);
    hsize_t dim[10], most[10], chunk[10];
    for (int i = 0; i < n_dim; i++) {
        dim[i] = often[fuzz_take (take, 1) % (sizeof often / sizeof *often)];
        most[i] = H5S_UNLIMITED;
        chunk[i] = 1 + fuzz_take (take, 1) % 64;
    }
    hid_t list = H5Pcreate (H5P_DATASET_CREATE), links = H5Pcreate (H5P_LINK_CREATE);
    H5Pset_create_intermediate_group (links, 1);
    if (storage % 5 == 1)
        H5Pset_chunk (list, n_dim, chunk);
    if (storage % 5 == 2)
        H5Pset_layout (list, H5D_COMPACT);
    if (storage % 5 == 3)
        H5Pset_external (list, "/etc/passwd", 0, H5F_UNLIMITED);
    if (storage % 5 == 4)
        H5Pset_alloc_time (list, H5D_ALLOC_TIME_LATE);
    if (storage & 0x40)
        H5Pset_deflate (list, 1);
    if (storage & 0x80)
        H5Pset_fletcher32 (list);
    hid_t space = n_dim ? H5Screate_simple (n_dim, dim, storage % 5 == 1 ? most : NULL)
                        : H5Screate (storage & 0x20 ? H5S_NULL : H5S_SCALAR);
    H5Ldelete (file, name, H5P_DEFAULT);
    uint64_t bytes = H5Tget_size (type);
    for (int i = 0; i < n_dim; i++)
        if (__builtin_mul_overflow (bytes, dim[i], &bytes))
            bytes = UINT64_MAX;
    /* the library would write large early ones out, here */
    hid_t id = storage % 5 != 2 || bytes < 60000
                   ? H5Dcreate2 (file, name, type, space, links, list, H5P_DEFAULT)
                   : -1;
    if (id >= 0)
        H5Dclose (id);
    H5Sclose (space);
    H5Pclose (links);
    H5Pclose (list);
    H5Tclose (type);
}

static void link_put (hid_t file, const char *name, fuzz_take_t *take)
{
    const char *to = dataset[fuzz_take (take, 1) % DATASETS];
    H5Ldelete (file, name, H5P_DEFAULT);
    switch (fuzz_take (take, 1) % 4) {
    case 0:
        H5Lcreate_soft (to, file, name, H5P_DEFAULT, H5P_DEFAULT);
        return;
    case 1:
        H5Lcreate_external ("/etc/passwd", to, file, name, H5P_DEFAULT, H5P_DEFAULT);
        return;
    case 2:
        H5Lcreate_hard (file, to, file, name, H5P_DEFAULT, H5P_DEFAULT);
        return;
    default:; /* gone */
    }
}

static void attribute_put (hid_t file, fuzz_take_t *take)
{
    static const char *const name[] = { "layout", "n_label", "version", "command" };
    static const char *const text[] = { "wiremill-exchange-1", "wiremill-scores-1", "", "x" };
    const char *which = name[fuzz_take (take, 1) % 4];
    const uint64_t what = fuzz_take (take, 1);
    hid_t space = what & 0x80 ? H5Screate (H5S_NULL) : H5Screate (H5S_SCALAR), type;
    H5Adelete (file, which);
    if (what % 3) {
        type = type_of (what);
        hid_t id = H5Acreate2 (file, which, type, space, H5P_DEFAULT, H5P_DEFAULT);
        if (id >= 0)
            H5Aclose (id);
    } else {
        type = H5Tcopy (H5T_C_S1);
        H5Tset_size (type, what & 0x40 ? H5T_VARIABLE : strlen (text[what / 3 % 4]) + 1);
        hid_t id = H5Acreate2 (file, which, type, space, H5P_DEFAULT, H5P_DEFAULT);
        if (id >= 0 && what & 0x40)
            H5Awrite (id, type, &text[what / 3 % 4]);
        else if (id >= 0)
            H5Awrite (id, type, text[what / 3 % 4]);
        if (id >= 0)
            H5Aclose (id);
    }
    H5Tclose (type);
    H5Sclose (space);
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    static uint8_t *sound;
    static size_t sound_size;
    fuzz_take_t take = { data, data + size };
    wm_h5_init ();
    if (!sound) {
        const char *path = test_path ("sound.h5");
        H5Fclose (exchange_make (path));
        sound = fuzz_read (path, &sound_size);
        test_folder_remove ();
    }
    const char *path = fuzz_scratch ();
    FILE *copy = fopen (path, "wb");
    FUZZ_CHECK (copy && fwrite (sound, 1, sound_size, copy) == sound_size && !fclose (copy));
    hid_t file = H5Fopen (path, H5F_ACC_RDWR, H5P_DEFAULT);
    FUZZ_CHECK (file >= 0);
    for (int i = 0; i < EDITS_MAX && take.at < take.end; i++) {
        const uint64_t what = fuzz_take (&take, 1);
        const char *name = dataset[fuzz_take (&take, 1) % DATASETS];
        if (what % 8 < 5)
            values_put (file, name, &take);
        else if (what % 8 == 5)
            dataset_put (file, name, &take);
        else if (what % 8 == 6)
            link_put (file, name, &take);
        else
            attribute_put (file, &take);
    }
    H5Fclose (file);
    read_file (path);
    return 0;
}

void fuzz_seeds (void)
{
    uint8_t text[7 * EDITS_MAX] = { 0 };
    fuzz_seed (text, 0);
    for (unsigned k = 0; k < DATASETS; k++) { /* a value of each, a type of each */
        const uint8_t value[] = { 0, (uint8_t) k, 1, 0xff, 0xff, 0xff, 0x7f };
        const uint8_t other[] = { 5, (uint8_t) k, 1, (uint8_t) k, 2, 4, 8, 3, 8 };
        fuzz_seed (value, sizeof value);
        fuzz_seed (other, sizeof other);
    }
    for (uint8_t k = 0; k < 4; k++) {
        const uint8_t link[] = { 6, 16, 3, k }, layout[] = { 7, 0, 0, (uint8_t) (3 * k) };
        fuzz_seed (link, sizeof link);
        fuzz_seed (layout, sizeof layout);
    }
}
