/* wm_h5_column.c - columns of HDF5 files: checks them, and reads their rows.

   The library keeps chunks of each dataset in a cache as long as the dataset is open. A producer
   has up to 128 files of 20 columns open, so the caches of all files share CACHE_ALL_BYTES: where
   they could hold more, the datasets that were read longest ago are closed, and opened again when
   they are read. Each is checked again then, as at first.  */
#include "producer/files/wm_h5_private.h"

#include "producer/files/wm_chunks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX (1ull << 48)
#define PACKED_BYTES_MAX (256u << 20) /* a chunk with filters: the library holds it as a whole */
#define PACKED_BEYOND_MAX (64u << 20) /* how much larger than the dataset one may be */
#define INFLATE_MAX 1100              /* deflate cannot do better than 1,032 : 1 */
#define SLACK_BYTES (64u << 20)       /* fill values that were never stored */
#define CACHE_BYTES_MIN (1u << 20)    /* of a column: two chunks, but at least so much */
#define CACHE_BYTES_MAX (16u << 20)   /* and at most this: a larger chunk is never kept */
#define CACHE_WHOLE_BYTES (4u << 20)  /* of a column that every event reads all of */
#define CACHE_ALL_BYTES (32u << 20)   /* of all columns of all files */
#define KEPT_BYTES 16384u             /* a column up to this is short: it is kept whole */
#define CONVERT_FEW_BYTES 16384u      /* of a buffer where few values are converted */
#define TOGETHER_ROWS 65536u          /* spans are read together up to this many rows, */
#define TOGETHER_GAP 1024u            /* where less than this lies between two */
#define TOGETHER_WIDTH_MAX 8u         /* and rows are short */

#define FILTER_LZF 32000 /* h5py has it, the library does not */

#define FILTERS_MAX 8   /* that are compared when a dataset is opened again, */
#define FILTER_VALUES 8 /* with so many values each */

/* How a dataset is stored.  */
typedef struct {
    H5T_class_t class;
    H5T_order_t order;
    H5T_sign_t sign;
    bool is_f32;
    bool leaves; /* what was never written leaves memory as it is: it has no fill value */
    H5D_layout_t layout;
    size_t value_bytes;
    hsize_t chunk[8];
    int n_filter;
    struct {
        H5Z_filter_t id;
        unsigned n_value, value[FILTER_VALUES];
    } filter[FILTERS_MAX];
} stored_t;

struct wm_dataset_t {
    hid_t id; /* 0: closed, to free its cache */
    wm_h5_class_t class;
    uint32_t width_wanted;              /* as wm_h5_column was given it */
    uint64_t chunk_bytes, chunks_bytes; /* of a chunk, of all; 0: it has none */
    size_t limit_bytes;                 /* of its cache */
    stored_t stored;                    /* when it was opened first */
    uint64_t sound_first, sound_end;    /* rows in chunks of which none is short */
    bool is_read, is_sparse;            /* sparse_find: some of it was never written */
    void *kept;                         /* all rows of a short column; NULL: they are not kept, */
    wm_h5_type_t kept_type;             /* as this type */
    bool is_cached;                     /* is in the list, for `bytes` */
    size_t bytes;
    wm_dataset_t *newer, *older;
};

/* The datasets of all files whose caches may hold something; of the one thread of all files.  */
static struct {
    wm_dataset_t *newest, *oldest;
    size_t bytes;
} cached;

/* ---- checks ---------------------------------------------------------------------------------- */

static bool is_half (hid_t type)
{
    size_t sign, exponent, exponent_size, mantissa, mantissa_size;
    return H5Tget_size (type) == 2 && H5Tget_order (type) == H5T_ORDER_LE &&
           H5Tget_fields (type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) >= 0 &&
           sign == 15 && exponent == 10 && exponent_size == 5 && mantissa == 0 &&
           mantissa_size == 10 && H5Tget_ebias (type) == 15;
}

static wm_fault_t type_check (wm_column_t *column, hid_t type, wm_h5_class_t class, size_t *bytes,
                              wm_error_t *error)
{
    H5T_class_t is = type < 0 ? H5T_NO_CLASS : H5Tget_class (type);
    *bytes = type < 0 ? 0 : H5Tget_size (type);
    bool fine = *bytes >= 1 && *bytes <= 8 &&
                (is == H5T_INTEGER || (is == H5T_FLOAT && class == WM_H5_FLOAT));
    column->half = fine && is == H5T_FLOAT && is_half (type);
    const char *what = fine ? NULL : wm_h5_reason_type (type, class == WM_H5_FLOAT);
    return fine ? WM_OK
                : wm_fault (error, WM_EBATCH, "%.300s: dataset %s does not contain %s but %s",
                            wm_h5_path (column->file), column->name,
                            class == WM_H5_FLOAT ? "numbers" : "integers", what);
}

static wm_fault_t shape_check (wm_column_t *column, uint32_t width, wm_error_t *error)
{
    hsize_t dim[8] = { 0 };
    hid_t space = H5Dget_space (column->data->id);
    int n_dim = space < 0 ? -1 : H5Sget_simple_extent_ndims (space);
    bool fine = n_dim >= 1 && n_dim <= 8 && H5Sget_simple_extent_dims (space, dim, NULL) == n_dim;
    if (space >= 0)
        H5Sclose (space);
    uint64_t values = 1;
    for (int i = 1; fine && i < n_dim; i++)
        fine =
            dim[i] > 0 && !__builtin_mul_overflow (values, dim[i], &values) && values <= UINT32_MAX;
    fine = fine && dim[0] <= ROWS_MAX && (!width || (n_dim <= 2 && values == width));
    if (!fine) {
        char shape[96] = "", wanted[32] = "(n, ...)";
        for (int i = 0; i < n_dim && i < 8 && strlen (shape) < 70; i++)
            snprintf (shape + strlen (shape), sizeof shape - strlen (shape), i ? ", %llu" : "%llu",
                      (unsigned long long) dim[i]);
        if (width)
            snprintf (wanted, sizeof wanted, width == 1 ? "(n)" : "(n, %u)", width);
        return wm_fault (error, WM_EBATCH, "%.300s: dataset %s is not of shape %s but (%s)",
                         wm_h5_path (column->file), column->name, wanted, shape);
    }
    column->n_row = dim[0];
    column->width = (uint32_t) values;
    column->n_dim = (uint32_t) n_dim;
    for (int i = 0; i < n_dim; i++)
        column->dim[i] = dim[i];
    return WM_OK;
}

/* Checks that the dataset's bytes lie in this file, and can.  */
static wm_fault_t storage_check (wm_column_t *column, hid_t list, size_t value_bytes,
                                 wm_error_t *error)
{
    wm_dataset_t *data = column->data;
    H5D_layout_t layout = list < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout (list);
    bool inside = layout == H5D_COMPACT || layout == H5D_CHUNKED ||
                  (layout == H5D_CONTIGUOUS && H5Pget_external_count (list) == 0);
    const bool packed = layout == H5D_CHUNKED && H5Pget_nfilters (list) != 0;
    uint64_t chunk = value_bytes, chunks = value_bytes;
    if (layout == H5D_CHUNKED) {
        hsize_t dim[8];
        int n = H5Pget_chunk (list, 8, dim);
        for (int i = 0; i < n; i++)
            if (__builtin_mul_overflow (chunk, dim[i], &chunk) || !dim[i] ||
                __builtin_mul_overflow (chunks, (column->dim[i] + dim[i] - 1) / dim[i] * dim[i],
                                        &chunks))
                chunk = chunks = UINT64_MAX;
        data->chunk_bytes = chunk, data->chunks_bytes = chunks;
    }
    const char *path = wm_h5_path (column->file);
    char end[WM_H5_SHORT_BYTES];
    if (!inside)
        return wm_fault (error, WM_EBATCH,
                         "%s: dataset %s lies outside the file (%s): refused; to copy it in, "
                         "type: " WM_H5_CONVERT,
                         wm_h5_short (path, end), column->name,
                         layout == H5D_VIRTUAL ? "virtual" : "external storage");
    uint64_t bytes;
    if (chunk > WM_H5_CHUNK_BYTES_MAX ||
        __builtin_mul_overflow (column->n_row, column->width, &bytes) ||
        __builtin_mul_overflow (bytes, value_bytes, &bytes) ||
        bytes / INFLATE_MAX > column->file->file_bytes + SLACK_BYTES / INFLATE_MAX)
        return wm_fault (error, WM_EBATCH, "%s: dataset %s claims more than the file can hold",
                         path, column->name);
    if (packed && (chunk > PACKED_BYTES_MAX || chunk > bytes + PACKED_BEYOND_MAX))
        return wm_fault (error, WM_EBATCH,
                         "%s: dataset %s is packed in chunks of %llu MiB, for %llu MiB of rows: "
                         "write it with smaller ones (h5repack -l %s:CHUNK=...)",
                         path, column->name, (unsigned long long) chunk >> 20,
                         (unsigned long long) bytes >> 20, column->name);
    return WM_OK;
}

/* Notes how the dataset is stored; what follows type and layout is 0 if it does not apply.  */
static void stored_note (hid_t type, hid_t list, stored_t *stored)
{
    memset (stored, 0, sizeof *stored); /* it is compared as bytes */
    stored->class = H5Tget_class (type);
    stored->order = H5Tget_order (type);
    stored->sign = stored->class == H5T_INTEGER ? H5Tget_sign (type) : H5T_SGN_NONE;
    stored->is_f32 = H5Tequal (type, H5T_IEEE_F32LE) > 0;
    stored->value_bytes = H5Tget_size (type);
    stored->layout = H5Pget_layout (list);
    if (stored->layout == H5D_CHUNKED)
        H5Pget_chunk (list, 8, stored->chunk);
    H5D_fill_time_t fills = H5D_FILL_TIME_IFSET;
    H5D_fill_value_t value = H5D_FILL_VALUE_DEFAULT;
    stored->leaves = H5Pget_fill_time (list, &fills) < 0 ||
                     H5Pfill_value_defined (list, &value) < 0 || fills == H5D_FILL_TIME_NEVER ||
                     value == H5D_FILL_VALUE_UNDEFINED;
    stored->n_filter = H5Pget_nfilters (list);
    for (int i = 0; i < stored->n_filter && i < FILTERS_MAX; i++) {
        unsigned flags;
        size_t n_value = FILTER_VALUES;
        stored->filter[i].id = H5Pget_filter2 (list, (unsigned) i, &flags, &n_value,
                                               stored->filter[i].value, 0, NULL, NULL);
        stored->filter[i].n_value = (unsigned) n_value;
    }
}

/* Checks the open dataset of a column, and notes how it is stored. The library copies a list of
   properties whenever it is asked for it: once is enough.  */
static wm_fault_t dataset_check (wm_column_t *column, wm_error_t *error)
{
    wm_dataset_t *data = column->data;
    size_t value_bytes;
    hid_t type = H5Dget_type (data->id), list = H5Dget_create_plist (data->id);
    wm_fault_t fault;
    if (!(fault = type_check (column, type, data->class, &value_bytes, error)) &&
        !(fault = shape_check (column, data->width_wanted, error)) &&
        !(fault = storage_check (column, list, value_bytes, error)))
        stored_note (type, list, &data->stored);
    if (type >= 0)
        H5Tclose (type);
    if (list >= 0)
        H5Pclose (list);
    return fault;
}

/* Opens and checks the dataset of a column.  */
static wm_fault_t dataset_open (wm_column_t *column, wm_error_t *error)
{
    wm_dataset_t *data = column->data;
    const H5L_type_t odd = wm_h5_link_odd (column->file, column->name);
    if (odd != H5L_TYPE_HARD && odd != H5L_TYPE_ERROR)
        return wm_fault (error, WM_EBATCH,
                         "%s: %s is a link: refused; write the dataset itself there",
                         wm_h5_path (column->file), column->name);
    static hid_t access;
    if (!access)
        access = H5Pcreate (H5P_DATASET_ACCESS);
    H5Pset_chunk_cache (access, 521, data->limit_bytes, 1.0);
    const char *last;
    const hid_t place = wm_h5_place (column->file, column->name, &last);
    hid_t id = odd ? -1 : H5Dopen2 (place, last, access);
    char reason[WM_H5_REASON_BYTES], end[WM_H5_SHORT_BYTES];
    if (id < 0)
        wm_h5_reason_dataset (reason);
    if (id < 0)
        return wm_fault (error, WM_EBATCH, "%s: %s is %s",
                         wm_h5_short (wm_h5_path (column->file), end), column->name, reason);
    data->id = id;
    return dataset_check (column, error);
}

/* ---- caches ---------------------------------------------------------------------------------- */

static void cached_remove (wm_dataset_t *data)
{
    if (!data->is_cached)
        return;
    *(data->newer ? &data->newer->older : &cached.newest) = data->older;
    *(data->older ? &data->older->newer : &cached.oldest) = data->newer;
    cached.bytes -= data->bytes;
    data->is_cached = false;
}

static void dataset_close (wm_dataset_t *data)
{
    cached_remove (data);
    if (data->id)
        H5Dclose (data->id);
    data->id = 0;
}

/* Closes a dataset whose cache is to have `limit_bytes`; it is opened with that when read.  */
static void cache_limit (wm_dataset_t *data, size_t limit_bytes)
{
    if (data->limit_bytes != limit_bytes)
        dataset_close (data);
    data->limit_bytes = limit_bytes;
}

/* Notes that the dataset is read, and closes those whose caches have no room any more.  */
static void cached_use (wm_dataset_t *data)
{
    if (data->chunk_bytes > data->limit_bytes || cached.newest == data)
        return; /* such a chunk is never kept */
    cached_remove (data);
    data->bytes =
        data->chunks_bytes < data->limit_bytes ? (size_t) data->chunks_bytes : data->limit_bytes;
    data->older = cached.newest;
    data->newer = NULL;
    *(cached.newest ? &cached.newest->newer : &cached.oldest) = data;
    cached.newest = data;
    cached.bytes += data->bytes;
    data->is_cached = true;
    while (cached.bytes > CACHE_ALL_BYTES && cached.oldest != data)
        dataset_close (cached.oldest);
}

wm_fault_t wm_h5_dataset (const wm_column_t *column, int64_t *id, wm_error_t *error)
{
    wm_column_t now = *column;
    wm_dataset_t *data = column->data;
    stored_t first;
    memcpy (&first, &data->stored, sizeof first);
    wm_fault_t fault = data->id ? WM_OK : dataset_open (&now, error);
    if (!fault && (now.n_row != column->n_row || now.n_dim != column->n_dim ||
                   now.half != column->half || memcmp (now.dim, column->dim, sizeof now.dim) != 0 ||
                   memcmp (&first, &data->stored, sizeof first) != 0))
        fault = wm_fault (error, WM_EBATCH, "%s: dataset %s changed while it was read",
                          wm_h5_path (column->file), column->name);
    if (fault)
        dataset_close (data);
    memcpy (&data->stored, &first, sizeof first);
    *id = data->id;
    return fault;
}

void wm_h5_whole (const wm_column_t *column)
{
    if (column && column->data && column->data->limit_bytes < CACHE_WHOLE_BYTES)
        cache_limit (column->data, CACHE_WHOLE_BYTES);
}

size_t wm_h5_cached_bytes (void)
{
    return cached.bytes;
}

wm_fault_t wm_h5_column (wm_h5_t *self, const char *name, wm_h5_class_t class, uint32_t width,
                         wm_column_t *column, wm_error_t *error)
{
    memset (column, 0, sizeof *column);
    column->file = self;
    snprintf (column->name, sizeof column->name, "%s", name);
    if (strlen (name) >= sizeof column->name || !wm_h5_has (self, name)) {
        char reason[WM_H5_REASON_BYTES];
        wm_h5_reason_missing (self, column->name, reason);
        return wm_fault (error, WM_EBATCH, "%.300s: %s; `wiremill help formats` describes inputs",
                         self->path, reason);
    }
    column->data = calloc (1, sizeof *column->data);
    if (!column->data)
        return wm_fault (error, WM_EHOST, "out of memory");
    column->data->class = class;
    column->data->width_wanted = width;
    column->data->limit_bytes = CACHE_BYTES_MIN;
    wm_fault_t fault = dataset_open (column, error);
    const uint64_t two = 2 * column->data->chunk_bytes;
    if (fault)
        wm_h5_column_close (column);
    else if (two > CACHE_BYTES_MIN)
        cache_limit (column->data, two < CACHE_BYTES_MAX ? (size_t) two : CACHE_BYTES_MAX);
    return fault;
}

void wm_h5_column_close (wm_column_t *column)
{
    if (column && column->data) {
        dataset_close (column->data);
        free (column->data->kept);
        free (column->data);
        column->data = NULL;
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static hid_t memory_type (wm_h5_type_t type)
{
    switch (type) {
    case WM_H5_I32:
    case WM_H5_I32_CLIPPED:
        return H5T_NATIVE_INT32;
    case WM_H5_I64:
        return H5T_NATIVE_INT64;
    case WM_H5_F32:
        return H5T_NATIVE_FLOAT;
    case WM_H5_F64:
        return H5T_NATIVE_DOUBLE;
    }
    return H5I_INVALID_HID;
}

static size_t value_bytes (wm_h5_type_t type)
{
    return type == WM_H5_I64 || type == WM_H5_F64 ? 8 : 4;
}

/* Stops a conversion where an integer does not fit; the library would take the nearest.  */
static bool is_beyond;
static H5T_conv_ret_t stop (H5T_conv_except_t what, hid_t from, hid_t to, void *from_value,
                            void *to_value, void *arg)
{
    (void) from, (void) to, (void) from_value, (void) to_value, (void) arg;
    if (what != H5T_CONV_EXCEPT_RANGE_HI && what != H5T_CONV_EXCEPT_RANGE_LOW)
        return H5T_CONV_UNHANDLED;
    is_beyond = true;
    return H5T_CONV_ABORT;
}

/* How so many values are transferred: integers exactly. The library fills the buffer of a
   conversion, by default 1 MiB, with zeros before each read.  */
static hid_t transfer_list (wm_h5_type_t type, uint64_t count)
{
    static hid_t list[2][2]; /* [exact][few] */
    for (int i = 0; i < 4 && !list[1][1]; i++) {
        hid_t *own = &list[i / 2][i % 2];
        *own = H5Pcreate (H5P_DATASET_XFER);
        if (i / 2)
            H5Pset_type_conv_cb (*own, stop, NULL);
        if (i % 2)
            H5Pset_buffer (*own, CONVERT_FEW_BYTES, NULL, NULL);
    }
    is_beyond = false;
    return list[type == WM_H5_I32 || type == WM_H5_I64][count <= CONVERT_FEW_BYTES / 8];
}

bool wm_h5_dataset_read (hid_t id, bool leaves, hid_t type, hid_t memory, hid_t file,
                         hid_t transfer, void *to, size_t bytes)
{
    if (leaves)
        memset (to, 0, bytes);
    return H5Dread (id, type, memory, file, transfer, to) >= 0;
}

/* Whether a read of this column may leave some of its values as they were in memory.  */
static bool leaves (const wm_column_t *column)
{
    return column->data->is_sparse && column->data->stored.leaves;
}

/* Names the row of the first integer that does not fit.  */
static wm_fault_t beyond (const wm_column_t *column, uint64_t first, uint64_t count,
                          wm_h5_type_t type, hid_t id, wm_error_t *error)
{
    enum { PIECE = 4096 };
    const bool is_narrow = type == WM_H5_I32;
    int64_t *value = malloc (8ul * PIECE * column->width);
    uint64_t at = count;
    for (uint64_t i = 0; i < count && at == count && value; i += PIECE) {
        hsize_t start[8] = { first + i }, size[8] = { count - i < PIECE ? count - i : PIECE };
        for (uint32_t d = 1; d < column->n_dim; d++)
            size[d] = column->dim[d];
        hid_t file = H5Dget_space (id), memory = H5Screate_simple ((int) column->n_dim, size, NULL);
        const bool fine =
            H5Sselect_hyperslab (file, H5S_SELECT_SET, start, NULL, size, NULL) >= 0 &&
            wm_h5_dataset_read (id, leaves (column),
                                is_narrow ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64, memory, file,
                                H5P_DEFAULT, value, 8ul * size[0] * column->width);
        for (uint64_t k = 0; fine && k < size[0] * column->width && at == count; k++)
            if (is_narrow ? value[k] < INT32_MIN || value[k] > INT32_MAX : value[k] < 0)
                at = i + k / column->width, value[0] = value[k];
        H5Sclose (memory);
        H5Sclose (file);
    }
    char number[32] = "a number";
    if (value && at < count)
        snprintf (number, sizeof number, is_narrow ? "%lld" : "%llu", (long long) value[0]);
    free (value);
    return wm_fault (error, WM_EBATCH, "%.300s: dataset %s row %llu: %s does not fit %u bits",
                     wm_h5_path (column->file), column->name,
                     (unsigned long long) (first + (at < count ? at : 0)), number,
                     is_narrow ? 32 : 63);
}

/* The library converts float16 value by value; this is ten times faster.  */
static bool read_half (const wm_column_t *column, hid_t id, hid_t memory, hid_t file, size_t count,
                       void *to)
{
    uint16_t *half = (uint16_t *) to + count; /* the upper half of the space; converted upwards */
    hid_t type = H5Dget_type (id);
    bool fine = wm_h5_dataset_read (id, leaves (column), type, memory, file, H5P_DEFAULT, half,
                                    count * sizeof *half);
    H5Tclose (type);
    if (fine)
        wm_half_to_float (half, count, to);
    return fine;
}

/* Returns the number of a filter of the column's that the library does not have; 0: none.  */
static int filter_missing (const wm_column_t *column)
{
    hid_t list = column->data->id ? H5Dget_create_plist (column->data->id) : -1;
    int missing = 0;
    for (int i = 0, n = list < 0 ? 0 : H5Pget_nfilters (list); i < n && !missing; i++) {
        unsigned flags;
        size_t n_value = 0;
        const H5Z_filter_t filter =
            H5Pget_filter2 (list, (unsigned) i, &flags, &n_value, NULL, 0, NULL, NULL);
        missing = filter > 0 && H5Zfilter_avail (filter) <= 0 ? filter : 0;
    }
    if (list >= 0)
        H5Pclose (list);
    return missing;
}

/* Says what cannot be read.  */
static wm_fault_t unreadable (const wm_column_t *column, uint64_t first, uint64_t count,
                              wm_error_t *error)
{
    const int filter = filter_missing (column);
    if (filter)
        return wm_fault (
            error, WM_EBATCH,
            "%s: dataset %s is packed by a filter that is a plugin, number %d%s: write "
            "it with gzip (h5py: compression=\"gzip\", shuffle=True)",
            wm_h5_path (column->file), column->name, filter, filter == FILTER_LZF ? " (lzf)" : "");
    H5D_space_status_t status;
    if (column->data->id && H5Dget_space_status (column->data->id, &status) >= 0 &&
        status == H5D_SPACE_STATUS_NOT_ALLOCATED)
        return wm_fault (error, WM_EBATCH,
                         "%s: dataset %s was never written, and has no fill value: write it",
                         wm_h5_path (column->file), column->name);
    return wm_fault (error, WM_EBATCH,
                     "%s: dataset %s: rows %llu to %llu cannot be read: damaged or truncated",
                     wm_h5_path (column->file), column->name, (unsigned long long) first,
                     (unsigned long long) (first + count - 1));
}

static void print_note (const char *path, const char *text)
{
    fprintf (stderr, "warning: %s: %s\n", path, text);
}

static wm_h5_note_t *note = print_note;

void wm_h5_notes (wm_h5_note_t *take)
{
    note = take;
}

/* Finds out, when the column is read first, whether all of it was written, and reports what was
   not. The number of chunks is a walk through their index, so that reading costs nothing more, but
   for a column that lacks some (leaves).  */
static void sparse_find (const wm_column_t *column, hid_t id)
{
    wm_dataset_t *data = column->data;
    H5D_space_status_t status = H5D_SPACE_STATUS_ALLOCATED;
    hsize_t written = 0, all = 1;
    bool is_known = true;
    char text[320], which[64] = "";
    if (data->is_read)
        return;
    data->is_read = true;
    if (data->stored.layout != H5D_CHUNKED) {
        data->is_sparse =
            H5Dget_space_status (id, &status) >= 0 && status == H5D_SPACE_STATUS_NOT_ALLOCATED;
    } else {
        for (uint32_t i = 0; i < column->n_dim; i++)
            all *= (column->dim[i] + data->stored.chunk[i] - 1) / data->stored.chunk[i];
        hid_t space = H5Dget_space (id); /* H5S_ALL is refused by HDF5 1.10 */
        is_known = H5Dget_num_chunks (id, space, &written) >= 0;
        data->is_sparse = !is_known || written < all;
        H5Sclose (space);
        snprintf (which, sizeof which, "%llu of %llu chunks of ",
                  (unsigned long long) (all - written), (unsigned long long) all);
    }
    if (!data->is_sparse || !is_known || !note)
        return;
    snprintf (text, sizeof text, "%s%s %s never written, and %s read as %s", which, column->name,
              all - written == 1 || !*which ? "was" : "were",
              all - written == 1 || !*which ? "is" : "are",
              data->stored.leaves ? "0" : "the fill value");
    note (wm_h5_path (column->file), text);
}

/* Refuses rows in a chunk that is short. What was checked last is remembered: a column is mostly
   read from its first row to its last.  */
static wm_fault_t rows_check (const wm_column_t *column, hid_t id, uint64_t first, uint64_t count,
                              wm_error_t *error)
{
    wm_dataset_t *data = column->data;
    if (data->stored.layout != H5D_CHUNKED || data->stored.n_filter == 0)
        return WM_OK;
    const uint64_t rows = data->stored.chunk[0], begin = first - first % rows,
                   end = first + count + (rows - 1 - (first + count - 1) % rows);
    const bool goes_on = data->sound_first <= begin && begin <= data->sound_end;
    const uint64_t from = goes_on ? data->sound_end : begin;
    bool is_short = false;
    if (goes_on && end <= data->sound_end)
        return WM_OK;
    const uint64_t last = end < column->n_row ? end : column->n_row;
    wm_fault_t fault = wm_chunks_check (id, from, last - from, &is_short, error);
    if (is_short)
        fault = unreadable (column, first, count, error);
    if (!fault)
        data->sound_first = goes_on ? data->sound_first : begin, data->sound_end = end;
    return fault;
}

/* Reads rows that are there, of an open dataset.  */
static bool rows_read (const wm_column_t *column, hid_t id, uint64_t first, uint64_t count,
                       wm_h5_type_t type, void *to)
{
    const uint64_t n = count * column->width;
    hsize_t start[8] = { first }, size[8] = { count };
    for (uint32_t i = 1; i < column->n_dim; i++)
        size[i] = column->dim[i];
    /* memory has the file's shape: with another one the library goes value by value */
    hid_t file = H5Dget_space (id);
    hid_t memory = H5Screate_simple ((int) column->n_dim, size, NULL);
    bool fine = H5Sselect_hyperslab (file, H5S_SELECT_SET, start, NULL, size, NULL) >= 0;
    if (fine && column->half && type == WM_H5_F32)
        fine = read_half (column, id, memory, file, (size_t) n, to);
    else
        fine = fine && wm_h5_dataset_read (id, leaves (column), memory_type (type), memory, file,
                                           transfer_list (type, n), to, n * value_bytes (type));
    H5Sclose (memory);
    H5Sclose (file);
    return fine;
}

/* Copies rows of a short column, which is read whole when the first of them are wanted, and closed
   then: a producer has many small files open, and the library keeps much for each of their
   datasets. false: they are read as those of a long one, which finds the fault if there is one.  */
static bool kept_take (const wm_column_t *column, uint64_t first, uint64_t count,
                       wm_h5_type_t type, void *to)
{
    wm_dataset_t *data = column->data;
    const size_t row_bytes = value_bytes (type) * column->width;
    hid_t id;
    wm_error_t error;
    if (column->n_row > KEPT_BYTES / row_bytes)
        return false;
    if (!data->kept || data->kept_type != type) {
        free (data->kept);
        data->kept = NULL;
        if (wm_h5_dataset (column, &id, &error) ||
            rows_check (column, id, 0, column->n_row, &error))
            return false;
        sparse_find (column, id);
        void *kept = malloc (column->n_row * row_bytes);
        if (!kept || !rows_read (column, id, 0, column->n_row, type, kept)) {
            free (kept);
            return false;
        }
        data->kept = kept;
        data->kept_type = type;
        dataset_close (data);
    }
    memcpy (to, (uint8_t *) data->kept + first * row_bytes, count * row_bytes);
    return true;
}

wm_fault_t wm_h5_read (const wm_column_t *column, uint64_t first, uint64_t count, wm_h5_type_t type,
                       void *to, wm_error_t *error)
{
    if (!count)
        return WM_OK;
    if (first > column->n_row || count > column->n_row - first)
        return unreadable (column, first, count, error);
    if (kept_take (column, first, count, type, to))
        return WM_OK;
    hid_t id;
    wm_fault_t fault = wm_h5_dataset (column, &id, error);
    if (!fault)
        fault = rows_check (column, id, first, count, error);
    if (fault)
        return fault;
    sparse_find (column, id);
    cached_use (column->data);
    if (rows_read (column, id, first, count, type, to))
        return WM_OK;
    if ((type == WM_H5_I32 || type == WM_H5_I64) && is_beyond)
        return beyond (column, first, count, type, id, error);
    return unreadable (column, first, count, error);
}

wm_fault_t wm_h5_read_spans (const wm_column_t *column, const wm_h5_range_t *span, uint64_t n_span,
                             wm_h5_type_t type, void *to, wm_error_t *error)
{
    size_t row_bytes = value_bytes (type) * column->width;
    uint8_t *at = to;
    wm_fault_t fault = WM_OK;
    for (uint64_t i = 0, next; i < n_span && !fault; i = next) {
        uint64_t first = span[i].first, end = first + span[i].count;
        for (next = i + 1; next < n_span && column->width <= TOGETHER_WIDTH_MAX &&
                           span[next].first >= end && span[next].first - end < TOGETHER_GAP &&
                           span[next].first + (uint64_t) span[next].count - first <= TOGETHER_ROWS;
             next++)
            end = span[next].first + (uint64_t) span[next].count;
        if (next == i + 1) {
            fault = wm_h5_read (column, first, end - first, type, at, error);
            at += (end - first) * row_bytes;
            continue;
        }
        wm_h5_t *file = column->file;
        if (!file->space && !(file->space = malloc (8ul * TOGETHER_ROWS * TOGETHER_WIDTH_MAX)))
            return wm_fault (error, WM_EHOST, "out of memory");
        fault = wm_h5_read (column, first, end - first, type, file->space, error);
        for (uint64_t k = i; k < next && !fault; k++) {
            const uint8_t *from = (uint8_t *) file->space + (span[k].first - first) * row_bytes;
            memcpy (at, from, span[k].count * row_bytes);
            at += span[k].count * row_bytes;
        }
    }
    return fault;
}

void wm_half_to_float (const uint16_t *half, size_t count, float *to)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t sign = (uint32_t) (half[i] & 0x8000) << 16, rest = half[i] & 0x7fff, bits;
        if (rest >= 0x7c00) { /* Inf, NaN */
            bits = rest << 13 | 0x7f800000;
        } else if (rest >= 0x0400) { /* normal */
            bits = (rest << 13) + 0x38000000;
        } else { /* zero, subnormal: exact in float */
            float value = (float) rest * 0x1p-24f;
            memcpy (&bits, &value, sizeof bits);
        }
        bits |= sign;
        memcpy (&to[i], &bits, sizeof bits);
    }
}
