/* wm_waves.c - waveforms by chunks: read as stored, inflated, unshuffled.

   Rows are kept in `row`, first .. first+count-1. In chunks of (rows, columns) these are the rows
   of one stripe, all chunks beside each other; through the library, as many as PIECE_BYTES hold.

   A shuffled chunk holds the lowest byte of each of its values, then the second byte of each, and
   so on; unshuffle puts them together again. The last chunks of a dataset are stored whole, also
   where they reach beyond it.  */
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

struct wm_waves_t {
    const wm_column_t *column;
    float *row;
    size_t row_max; /* values */
    uint64_t first, count;

    bool direct; /* chunks may be read as stored */
    bool deflate, shuffle;
    uint64_t chunk_rows, chunk_columns;
    struct libdeflate_decompressor *inflate;
    uint8_t *stored, *raw; /* a chunk on disk, and inflated */
    size_t stored_max;
    uint64_t n_direct, n_library;
    bool is_short; /* a chunk inflates to less than it must: the library would read behind it */
};

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
    for (int stage = 0; stage < 2 && at < n; stage++) {
        unsigned flags, value[8] = { 0 };
        size_t n_value = 8;
        H5Z_filter_t filter =
            H5Pget_filter2 (list, (unsigned) at, &flags, &n_value, value, 0, NULL, NULL);
        if (stage == 0 && filter == H5Z_FILTER_SHUFFLE && value[0] == sizeof (float))
            self->shuffle = true, at++;
        else if (stage == 1 && filter == H5Z_FILTER_DEFLATE)
            self->deflate = true, at++;
    }
    return n >= 0 && at == n;
}

/* Without filters the library does the same work, and must: of such a chunk it tells the size that
   it should have (H5Dget_chunk_storage_size), and reads as many bytes as a hostile file states
   (H5Dread_chunk), whatever room there is.  */
static bool chunks_take (wm_waves_t *self)
{
    const wm_column_t *column = self->column;
    hid_t type = H5Dget_type (column->id), list = H5Dget_create_plist (column->id);
    hsize_t dim[2] = { 0 };
    bool fine = type >= 0 && list >= 0 && H5Tequal (type, H5T_IEEE_F32LE) > 0 &&
                column->n_dim == 2 && H5Pget_layout (list) == H5D_CHUNKED &&
                H5Pget_chunk (list, 2, dim) == 2 && filters_take (self, list) &&
                (self->shuffle || self->deflate);
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
    self->row_max = rows * column->width;
    self->row = malloc (self->row_max * sizeof *self->row);
    if (self->direct) {
        self->raw = malloc (chunk_bytes (self));
        self->inflate = libdeflate_alloc_decompressor ();
    }
    if (!self->row || (self->direct && (!self->raw || !self->inflate))) {
        wm_fault (error, WM_EHOST, "out of memory");
        wm_waves_destroy (&self);
    }
    return self;
}

void wm_waves_destroy (wm_waves_t **self_p)
{
    wm_waves_t *self = *self_p;
    if (!self)
        return;
    libdeflate_free_decompressor (self->inflate);
    free (self->stored);
    free (self->raw);
    free (self->row);
    free (self);
    *self_p = NULL;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Reads a chunk as it lies on disk. false: the library must.  */
static bool chunk_fetch (wm_waves_t *self, uint64_t row, uint64_t column, size_t *bytes)
{
    const hsize_t at[2] = { row, column };
    hsize_t stored;
    uint32_t skipped; /* filters that this chunk did not take */
    if (H5Dget_chunk_storage_size (self->column->id, at, &stored) < 0 || !stored ||
        stored > chunk_bytes (self) + chunk_bytes (self) / 8 + 4096)
        return false;
    if (stored > self->stored_max) {
        uint8_t *larger = realloc (self->stored, stored);
        if (!larger)
            return false;
        self->stored = larger, self->stored_max = stored;
    }
    *bytes = stored;
    return H5Dread_chunk (self->column->id, H5P_DEFAULT, at, &skipped, self->stored) >= 0 &&
           !skipped;
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
        float *to = self->row + r * width + column;
        const size_t at = r * self->chunk_columns;
        if (self->shuffle)
            unshuffle (raw, n, at, take, to);
        else
            memcpy (to, raw + at * sizeof *to, take * sizeof *to);
    }
}

/* Reads the stripe that holds `row`. false: nothing is kept, the library must.  */
static bool stripe_read (wm_waves_t *self, uint64_t row)
{
    const size_t want = chunk_bytes (self);
    self->first = row - row % self->chunk_rows;
    self->count = self->column->n_row - self->first;
    if (self->count > self->chunk_rows)
        self->count = self->chunk_rows;
    bool fine = true;
    for (uint64_t column = 0; column < self->column->width && fine; column += self->chunk_columns) {
        size_t bytes;
        fine = chunk_fetch (self, self->first, column, &bytes);
        if (fine && self->deflate) {
            const enum libdeflate_result result = libdeflate_zlib_decompress (
                self->inflate, self->stored, bytes, self->raw, want, NULL);
            self->is_short = result == LIBDEFLATE_SHORT_OUTPUT;
            fine = result == LIBDEFLATE_SUCCESS;
        } else if (fine)
            fine = bytes == want;
        if (fine)
            chunk_lay (self, self->deflate ? self->raw : self->stored, column);
    }
    if (!fine)
        self->count = 0;
    return fine;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Reads rows from `row` on through the library: as many as fit, at most to `end` or the end of
   their stripe.  */
static wm_fault_t library_read (wm_waves_t *self, uint64_t row, uint64_t end, wm_error_t *error)
{
    const uint64_t most = self->row_max / self->column->width;
    uint64_t count = end - row < most ? end - row : most;
    if (self->direct && count > self->chunk_rows - row % self->chunk_rows)
        count = self->chunk_rows - row % self->chunk_rows;
    wm_fault_t fault = wm_h5_read (self->column, row, count, WM_H5_F32, self->row, error);
    if (fault)
        return fault;
    self->first = row, self->count = count;
    self->n_library += count;
    return WM_OK;
}

wm_fault_t wm_waves_row (wm_waves_t *self, uint64_t row, uint64_t end, const float **value,
                         wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    if (row < self->first || row - self->first >= self->count) {
        self->count = 0;
        self->is_short = false;
        if (self->direct && row < self->column->n_row && stripe_read (self, row))
            self->n_direct += self->count;
        else if (self->is_short)
            fault = wm_fault (error, WM_EBATCH,
                              "%s: dataset %s: row %llu cannot be read: damaged or truncated (its "
                              "chunk holds less than it must)",
                              wm_h5_path (self->column->file), self->column->name,
                              (unsigned long long) row);
        else
            fault = library_read (self, row, end, error);
    }
    *value = self->row + (row - self->first) * self->column->width;
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
