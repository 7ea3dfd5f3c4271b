/* wm_waves.c - waveforms by chunks: read as stored, inflated, unshuffled.

   Rows are kept in `row`, first .. first+count-1. In chunks of (rows, columns) these are the rows
   of one stripe, all chunks beside each other; through the library, as many as PIECE_BYTES hold.

   A shuffled chunk holds the lowest byte of each of its values, then the second byte of each, and
   so on; unshuffle puts them together again. The last chunks of a dataset are stored whole, also
   where they reach beyond it.

   All waveforms of a process share one work space, because files are read one after another: who
   reads takes it, and whoever had it reads its rows again. A producer of 16 open files would keep
   6 MB for each.  */
#include "producer/wm_waves.h"

#include <hdf5.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#if defined __SSE2__
#include <emmintrin.h>
#endif

#define PIECE_BYTES (4u << 20)
#define STRIPE_BYTES_MAX (64u << 20) /* larger ones are left to the library */
#define CHECKSUM_BYTES 4

struct wm_waves_t {
    const wm_column_t *column;
    size_t row_max; /* values, of a stripe or a piece */
    uint64_t first, count;

    bool direct; /* chunks may be read as stored */
    bool deflate, shuffle;
    bool
        checksum; /* of each chunk: only the length is looked at, the library reads and checks it */
    uint64_t chunk_rows, chunk_columns;
    uint64_t n_direct, n_library;
};

/* Of the one thread of all files.  */
static struct {
    wm_waves_t *owner;                   /* whose rows are in it */
    void *row, *stored, *raw;            /* values; a chunk on disk, and inflated */
    size_t row_max, stored_max, raw_max; /* bytes */
    struct libdeflate_decompressor *inflate;
} space;

static size_t chunk_bytes (const wm_waves_t *self)
{
    return self->chunk_rows * self->chunk_columns * sizeof (float);
}

/* ---- which datasets -------------------------------------------------------------------------- */

/* Takes the filters that are known, in the order in which libraries write them.  */
static bool filters_take (wm_waves_t *self, hid_t list)
{
    const int n = H5Pget_nfilters (list);
    int at = 0;
    for (int stage = 0; stage < 3 && at < n; stage++) {
        unsigned flags, value[8] = { 0 };
        size_t n_value = 8;
        H5Z_filter_t filter =
            H5Pget_filter2 (list, (unsigned) at, &flags, &n_value, value, 0, NULL, NULL);
        if (stage == 0 && filter == H5Z_FILTER_SHUFFLE && value[0] == sizeof (float))
            self->shuffle = true, at++;
        else if (stage == 1 && filter == H5Z_FILTER_DEFLATE)
            self->deflate = true, at++;
        else if (stage == 2 && filter == H5Z_FILTER_FLETCHER32)
            self->checksum = true, at++;
    }
    return n >= 0 && at == n;
}

/* Without filters the library does the same work, and must: of such a chunk it tells the size that
   it should have (H5Dget_chunk_storage_size), and reads as many bytes as a hostile file states
   (H5Dread_chunk), whatever room there is.  */
static bool chunks_take (wm_waves_t *self)
{
    const wm_column_t *column = self->column;
    hid_t id = 0;
    if (wm_h5_dataset (column, &id, NULL))
        return false;
    hid_t type = H5Dget_type (id), list = H5Dget_create_plist (id);
    hsize_t dim[2] = { 0 };
    bool fine = type >= 0 && list >= 0 && H5Tequal (type, H5T_IEEE_F32LE) > 0 &&
                column->n_dim == 2 && H5Pget_layout (list) == H5D_CHUNKED &&
                H5Pget_chunk (list, 2, dim) == 2 && filters_take (self, list) &&
                (self->shuffle || self->deflate || self->checksum);
    if (type >= 0)
        H5Tclose (type);
    if (list >= 0)
        H5Pclose (list);
    uint64_t beside, bytes; /* wm_h5_column checked that a chunk is at most 1 GiB */
    self->chunk_rows = dim[0], self->chunk_columns = dim[1];
    if (!fine || !dim[0] || !dim[1])
        return false;
    beside = (column->width + dim[1] - 1) / dim[1];
    return !__builtin_mul_overflow (beside * sizeof (float), chunk_bytes (self) / 4, &bytes) &&
           bytes <= STRIPE_BYTES_MAX;
}

wm_waves_t *wm_waves_new (const wm_column_t *column, wm_error_t *error)
{
    wm_waves_t *self = calloc (1, sizeof *self);
    if (!self) {
        wm_fault (error, WM_EHOST, "out of memory");
        return NULL;
    }
    self->column = column;
    self->direct = chunks_take (self);
    uint64_t rows = PIECE_BYTES / 4 / column->width + 1;
    if (self->direct && rows < self->chunk_rows)
        rows = self->chunk_rows;
    if (rows > column->n_row)
        rows = column->n_row ? column->n_row : 1;
    self->row_max = rows * column->width;
    return self;
}

static void space_free (void)
{
    libdeflate_free_decompressor (space.inflate);
    free (space.stored);
    free (space.raw);
    free (space.row);
    memset (&space, 0, sizeof space);
}

void wm_waves_destroy (wm_waves_t **self_p)
{
    if (*self_p && space.owner == *self_p)
        space_free ();
    free (*self_p);
    *self_p = NULL;
}

/* Makes room for `bytes` in place of what is there.  */
static bool grow (void **memory, size_t *bytes_max, size_t bytes)
{
    if (bytes <= *bytes_max)
        return true;
    free (*memory);
    *memory = malloc (bytes);
    *bytes_max = *memory ? bytes : 0;
    return *memory != NULL;
}

/* Takes the work space, and makes it as large as is needed.  */
static wm_fault_t space_take (wm_waves_t *self, wm_error_t *error)
{
    if (space.owner == self)
        return WM_OK;
    if (space.owner)
        space.owner->count = 0;
    space.owner = self;
    bool fine = grow (&space.row, &space.row_max, self->row_max * sizeof (float));
    if (self->direct && !space.inflate)
        space.inflate = libdeflate_alloc_decompressor ();
    if (self->direct)
        fine = fine && space.inflate && grow (&space.raw, &space.raw_max, chunk_bytes (self));
    if (fine)
        return WM_OK;
    space_free (); /* nobody's: no owner would free it */
    return wm_fault (error, WM_EHOST, "out of memory");
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static bool chunk_inflate (wm_waves_t *self, bool deflate, size_t bytes, bool *is_short);

/* Reads a chunk as it lies on disk. false: the library must, unless *is_short (see chunk_inflate),
   or it is longer than what any library packs a chunk to.  */
static bool chunk_fetch (wm_waves_t *self, uint64_t row, uint64_t column, size_t *bytes,
                         bool *is_short)
{
    const hsize_t at[2] = { row, column };
    hid_t id;
    hsize_t stored;
    uint32_t skipped; /* filters that this chunk did not take */
    if (wm_h5_dataset (self->column, &id, NULL) ||
        H5Dget_chunk_storage_size (id, at, &stored) < 0 || !stored)
        return false;
    *is_short = stored > chunk_bytes (self) + chunk_bytes (self) / 8 + 4096;
    if (*is_short || !grow (&space.stored, &space.stored_max, stored + stored / 8))
        return false;
    if (H5Dread_chunk (id, H5P_DEFAULT, at, &skipped, space.stored) < 0)
        return false;
    const bool has_sum = self->checksum && !(skipped >> (self->shuffle + self->deflate) & 1);
    *is_short = has_sum && stored < CHECKSUM_BYTES;
    *bytes = stored - (has_sum && !*is_short ? CHECKSUM_BYTES : 0);
    if (!skipped && !self->checksum)
        return true;
    if (!*is_short) /* the library takes such a chunk, but does not look how long it is */
        chunk_inflate (self, self->deflate && !(skipped >> self->shuffle & 1), *bytes, is_short);
    return false;
}

/* Puts `count` values from `at` on together from the bytes of `n` shuffled ones.  */
static void unshuffle (const uint8_t *from, size_t n, size_t at, size_t count, float *to)
{
    const uint8_t *byte[4] = { from + at, from + n + at, from + 2 * n + at, from + 3 * n + at };
    size_t i = 0;
#if defined __SSE2__
    for (; i + 16 <= count; i += 16) {
        __m128i part[4];
        for (int b = 0; b < 4; b++)
            part[b] = _mm_loadu_si128 ((const __m128i *) (const void *) (byte[b] + i));
        const __m128i low[2] = { _mm_unpacklo_epi8 (part[0], part[1]),
                                 _mm_unpackhi_epi8 (part[0], part[1]) };
        const __m128i high[2] = { _mm_unpacklo_epi8 (part[2], part[3]),
                                  _mm_unpackhi_epi8 (part[2], part[3]) };
        __m128i *out = (__m128i *) (void *) (to + i);
        for (int half = 0; half < 2; half++) {
            _mm_storeu_si128 (out + 2 * half, _mm_unpacklo_epi16 (low[half], high[half]));
            _mm_storeu_si128 (out + 2 * half + 1, _mm_unpackhi_epi16 (low[half], high[half]));
        }
    }
#endif
    for (; i < count; i++) {
        const uint32_t bits = byte[0][i] | (uint32_t) byte[1][i] << 8 |
                              (uint32_t) byte[2][i] << 16 | (uint32_t) byte[3][i] << 24;
        memcpy (to + i, &bits, sizeof bits);
    }
}

/* Puts a chunk's rows into the stripe.  */
static void chunk_lay (wm_waves_t *self, const uint8_t *raw, uint64_t column)
{
    const size_t n = self->chunk_rows * self->chunk_columns, width = self->column->width;
    const size_t take = width - column < self->chunk_columns ? width - column : self->chunk_columns;
    for (uint64_t r = 0; r < self->count; r++) {
        float *to = (float *) space.row + r * width + column;
        const size_t at = r * self->chunk_columns;
        if (self->shuffle)
            unshuffle (raw, n, at, take, to);
        else
            memcpy (to, raw + at * sizeof *to, take * sizeof *to);
    }
}

/* Inflates the chunk that was fetched. false: the library must. *is_short: it holds less than a
   chunk, and the library would read on behind it, in memory that is not its own.  */
static bool chunk_inflate (wm_waves_t *self, bool deflate, size_t bytes, bool *is_short)
{
    const size_t want = chunk_bytes (self);
    if (!deflate) {
        *is_short = bytes < want;
        return bytes == want;
    }
    const enum libdeflate_result result =
        libdeflate_zlib_decompress (space.inflate, space.stored, bytes, space.raw, want, NULL);
    *is_short = result == LIBDEFLATE_SHORT_OUTPUT;
    return result == LIBDEFLATE_SUCCESS;
}

/* Reads the stripe that holds `row`. false: nothing is kept, the library must, unless a chunk is
   short.  */
static bool stripe_read (wm_waves_t *self, uint64_t row, bool *is_short)
{
    self->first = row - row % self->chunk_rows;
    self->count = self->column->n_row - self->first;
    if (self->count > self->chunk_rows)
        self->count = self->chunk_rows;
    bool fine = true;
    /* Where the library must read one chunk, the others are still looked at: it reads all.  */
    for (uint64_t column = 0; column < self->column->width && !*is_short;
         column += self->chunk_columns) {
        size_t bytes;
        const bool is_here = chunk_fetch (self, self->first, column, &bytes, is_short) &&
                             chunk_inflate (self, self->deflate, bytes, is_short);
        if (is_here && fine)
            chunk_lay (self, self->deflate ? space.raw : space.stored, column);
        fine = fine && is_here;
    }
    if (!fine)
        self->count = 0;
    return fine;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Reads rows from `row` on through the library: as many as fit, at most to `end` or the end of
   their stripe, which is refused where a chunk is short.  */
static wm_fault_t library_read (wm_waves_t *self, uint64_t row, uint64_t end, bool is_short,
                                wm_error_t *error)
{
    const uint64_t most = self->row_max / self->column->width;
    uint64_t count = end - row < most ? end - row : most;
    if (self->direct && count > self->chunk_rows - row % self->chunk_rows)
        count = self->chunk_rows - row % self->chunk_rows;
    wm_fault_t fault = is_short
                           ? wm_h5_unreadable (self->column, row, count, error)
                           : wm_h5_read (self->column, row, count, WM_H5_F32, space.row, error);
    if (fault)
        return fault;
    self->first = row, self->count = count;
    self->n_library += count;
    return WM_OK;
}

wm_fault_t wm_waves_row (wm_waves_t *self, uint64_t row, uint64_t end, const float **value,
                         wm_error_t *error)
{
    wm_fault_t fault = space_take (self, error);
    if (fault)
        return fault;
    if (row < self->first || row - self->first >= self->count) {
        bool is_short = false;
        self->count = 0;
        if (self->direct && row < self->column->n_row && stripe_read (self, row, &is_short))
            self->n_direct += self->count;
        else
            fault = library_read (self, row, end, is_short, error);
    }
    *value = (const float *) space.row + (row - self->first) * self->column->width;
    return fault;
}

uint32_t wm_waves_nonzero (const float *value, uint32_t at, uint32_t n)
{
    typedef uint32_t bits_t __attribute__ ((vector_size (64), aligned (4), may_alias));
    for (; at + 16 <= n; at += 16) {
        const bits_t bits = *(const bits_t *) (value + at) << 1; /* without the sign */
        uint64_t any = 0, part[8];
        memcpy (part, &bits, sizeof part);
        for (int i = 0; i < 8; i++)
            any |= part[i];
        if (any)
            break;
    }
    while (at < n && value[at] == 0)
        at++;
    return at;
}

void wm_waves_count (const wm_waves_t *self, uint64_t *direct, uint64_t *library)
{
    *direct = self->n_direct, *library = self->n_library;
}
