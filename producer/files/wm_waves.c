/* wm_waves.c - waveforms by chunks: read as stored, inflated, unshuffled.

   Rows first .. first+count-1 are at hand. Of chunks of (rows, columns) these are the rows of one
   stripe: `raw` has its chunks, one after another, inflated but still shuffled, and a row is put
   together in `row` when it is asked for, so that whoever looks at it finds it in the first cache.
   Through the library they are in `row`, as many as PIECE_BYTES hold.

   A shuffled chunk holds the lowest byte of each of its values, then the second byte of each, and
   so on; unshuffle puts them together again. The last chunks of a dataset are stored whole, also
   where they reach beyond it.

   All waveforms of a process share one work space, because files are read one after another: who
   reads takes it, and whoever had it reads its rows again. A producer of 16 open files would keep
   6 MB for each.  */
#include "producer/files/wm_waves.h"
#include "producer/files/wm_chunks.h"
#include "producer/files/wm_space.h"

#include <hdf5.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#if defined __SSE2__
#include <emmintrin.h>
#endif

#define GAP_TICKS 16u /* shorter stretches of 0 do not end a region */
#define PIECE_BYTES (4u << 20)
#define BLOCK 64u /* values that are looked at together */
#define STRIPE_BYTES_MAX (64u << 20) /* larger ones are left to the library */

struct wm_waves_t {
    const wm_column_t *column;
    size_t row_max; /* values, of a piece */
    uint64_t first, count;
    bool is_raw; /* rows are in `raw` */

    bool direct; /* chunks may be read as stored */
    bool deflate, shuffle;
    uint64_t chunk_rows, chunk_columns;
    uint64_t n_direct, n_library;
};

/* Of the one thread of all files.  */
static struct {
    wm_waves_t *owner;                   /* whose rows are in it */
    void *row, *stored, *raw;            /* values; a chunk on disk; a stripe's chunks, inflated */
    size_t row_max, stored_max, raw_max; /* bytes */
    void *live;              /* which blocks of the row that was put together are not all 0 */
    const uint8_t *row_live; /* `live`, if wm_waves_row has put the row together; or NULL */
    size_t live_max;
    struct libdeflate_decompressor *inflate;
} space;

static size_t chunk_bytes (const wm_waves_t *self)
{
    return self->chunk_rows * self->chunk_columns * sizeof (float);
}

static size_t stripe_bytes (const wm_waves_t *self)
{
    return (self->column->width + self->chunk_columns - 1) / self->chunk_columns *
           chunk_bytes (self);
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

/* Without filters the library does the same work, and must: of such a chunk it gives the size that
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
                column->n_dim <= 2 && H5Pget_layout (list) == H5D_CHUNKED &&
                H5Pget_chunk (list, 2, dim) == (int) column->n_dim && filters_take (self, list) &&
                (self->shuffle || self->deflate);
    dim[1] = column->n_dim == 1 ? 1 : dim[1];
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
    free (space.live);
    memset (&space, 0, sizeof space);
}

void wm_waves_destroy (wm_waves_t **self_p)
{
    if (*self_p && space.owner == *self_p)
        space_free ();
    free (*self_p);
    *self_p = NULL;
}

/* Takes the work space, and makes it as large as is needed.  */
static wm_fault_t space_take (wm_waves_t *self, wm_error_t *error)
{
    if (space.owner == self)
        return WM_OK;
    if (space.owner)
        space.owner->count = 0;
    space.owner = self;
    bool fine = wm_space_grow (&space.row, &space.row_max, self->row_max * sizeof (float));
    if (self->direct && !space.inflate)
        space.inflate = libdeflate_alloc_decompressor ();
    if (self->direct)
        fine = fine && space.inflate &&
               wm_space_grow (&space.raw, &space.raw_max, stripe_bytes (self)) &&
               wm_space_grow (&space.live, &space.live_max, self->column->width / BLOCK + 1);
    space.row_live = NULL;
    if (fine)
        return WM_OK;
    space_free (); /* it has no owner that would free it */
    return wm_fault (error, WM_EHOST, "out of memory");
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Reads a chunk as it lies on disk. false: the library must, as where it was never written.  */
static bool chunk_fetch (wm_waves_t *self, uint64_t row, uint64_t column, size_t *bytes)
{
    const hsize_t at[2] = { row, column };
    hid_t id;
    uint32_t skipped;
    return !wm_h5_dataset (self->column, &id, NULL) &&
           wm_chunks_fetch (id, at, chunk_bytes (self), &space.stored, &space.stored_max, bytes,
                            &skipped) == WM_CHUNK_FETCHED &&
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

/* Whether a block of shuffled values, `n` bytes apart, is all 0.  */
static inline bool is_zero (const uint8_t *byte, size_t n)
{
    typedef uint64_t bytes_t __attribute__ ((vector_size (BLOCK), aligned (1), may_alias));
    const bytes_t bits = *(const bytes_t *) byte | *(const bytes_t *) (byte + n) |
                         *(const bytes_t *) (byte + 2 * n) | *(const bytes_t *) (byte + 3 * n);
    uint64_t part[BLOCK / 8], any = 0;
    memcpy (part, &bits, sizeof part);
    for (size_t i = 0; i < BLOCK / 8; i++)
        any |= part[i];
    return !any;
}

/* Puts `count` values from `at` on together from the bytes of `n` shuffled ones. Most of a waveform
   is 0: a block of it is found in the shuffled bytes, noted in `live`, and not looked at again.
   Before that `live` is of the values that are in `to`.  */
static void unshuffle_live (const uint8_t *from, size_t n, size_t at, size_t count, float *to,
                            uint8_t *live)
{
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK, live++) {
        const bool was = *live;
        *live = !is_zero (from + at + i, n);
        if (*live)
            unshuffle (from, n, at + i, BLOCK, to + i);
        else if (was)
            memset (to + i, 0, BLOCK * sizeof *to);
    }
    *live = 1;
    unshuffle (from, n, at + i, count - i, to + i);
}

/* Puts rows r .. r+count-1 of the stripe together.  */
static void rows_lay (const wm_waves_t *self, uint64_t r, uint64_t count, float *to)
{
    const size_t n = self->chunk_rows * self->chunk_columns, width = self->column->width;
    if (self->shuffle && width == self->chunk_columns) { /* they lie one behind the other */
        unshuffle (space.raw, n, r * width, count * width, to);
        return;
    }
    for (const uint64_t end = r + count; r < end; r++, to += width) {
        const uint8_t *raw = space.raw;
        const size_t at = r * self->chunk_columns;
        for (size_t column = 0; column < width; column += self->chunk_columns, raw += n * 4) {
            const size_t take =
                width - column < self->chunk_columns ? width - column : self->chunk_columns;
            if (self->shuffle)
                unshuffle (raw, n, at, take, to + column);
            else
                memcpy (to + column, raw + at * sizeof *to, take * sizeof *to);
        }
    }
}

/* Puts row r of the stripe together in the work space. Returns `live`; NULL: it is not known.  */
static const uint8_t *row_lay (const wm_waves_t *self, uint64_t r)
{
    const size_t width = self->column->width;
    if (!self->shuffle || width != self->chunk_columns) {
        rows_lay (self, r, 1, space.row);
        return NULL;
    }
    if (!space.row_live)
        memset (space.live, 1, width / BLOCK + 1);
    unshuffle_live (space.raw, self->chunk_rows * width, r * width, width, space.row, space.live);
    return space.live;
}
/* Inflates the chunk that was fetched to `raw`. false: the library must.  */
static bool chunk_inflate (const wm_waves_t *self, size_t bytes, uint8_t *raw)
{
    const size_t want = chunk_bytes (self);
    if (self->deflate)
        return libdeflate_zlib_decompress (space.inflate, space.stored, bytes, raw, want, NULL) ==
               LIBDEFLATE_SUCCESS;
    if (bytes == want)
        memcpy (raw, space.stored, want);
    return bytes == want;
}

/* Reads the stripe that holds `row`. false: nothing is kept, the library must.  */
static bool stripe_read (wm_waves_t *self, uint64_t row)
{
    self->first = row - row % self->chunk_rows;
    self->count = self->column->n_row - self->first;
    if (self->count > self->chunk_rows)
        self->count = self->chunk_rows;
    uint8_t *raw = space.raw;
    self->is_raw = true;
    for (uint64_t column = 0; column < self->column->width && self->is_raw;
         column += self->chunk_columns, raw += chunk_bytes (self)) {
        size_t bytes;
        self->is_raw =
            chunk_fetch (self, self->first, column, &bytes) && chunk_inflate (self, bytes, raw);
    }
    if (!self->is_raw)
        self->count = 0;
    return self->is_raw;
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
    space.row_live = NULL;
    const wm_fault_t fault = wm_h5_read (self->column, row, count, WM_H5_F32, space.row, error);
    if (fault)
        return fault;
    self->first = row, self->count = count;
    self->n_library += count;
    return WM_OK;
}

/* Has `row` at hand.  */
static wm_fault_t row_have (wm_waves_t *self, uint64_t row, uint64_t end, wm_error_t *error)
{
    wm_fault_t fault = space_take (self, error);
    if (fault || (row >= self->first && row - self->first < self->count))
        return fault;
    self->count = 0, self->is_raw = false;
    if (!self->direct || row >= self->column->n_row || !stripe_read (self, row))
        return library_read (self, row, end, error);
    self->n_direct += self->count;
    return WM_OK;
}

static const float *library_row (const wm_waves_t *self, uint64_t row)
{
    return (const float *) space.row + (row - self->first) * self->column->width;
}

wm_fault_t wm_waves_row (wm_waves_t *self, uint64_t row, uint64_t end, const float **value,
                         wm_error_t *error)
{
    const wm_fault_t fault = row_have (self, row, end, error);
    space.row_live = !fault && self->is_raw ? row_lay (self, row - self->first) : NULL;
    *value = fault || self->is_raw ? space.row : library_row (self, row);
    return fault;
}

wm_fault_t wm_waves_read (wm_waves_t *self, uint64_t first, uint64_t count, float *to,
                          wm_error_t *error)
{
    const uint64_t end = first + count;
    for (uint64_t row = first; row < end;) {
        const wm_fault_t fault = row_have (self, row, end, error);
        if (fault)
            return fault;
        const uint64_t there = self->first + self->count - row,
                       take = there < end - row ? there : end - row;
        if (self->is_raw)
            rows_lay (self, row - self->first, take, to);
        else
            memcpy (to, library_row (self, row), take * self->column->width * sizeof *to);
        to += take * self->column->width;
        row += take;
    }
    return WM_OK;
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

wm_fault_t wm_waves_keep (wm_event_t *event, const float *adc, uint32_t count, uint32_t tick,
                          const wm_waves_place_t *place, uint32_t n, wm_error_t *error)
{
    wm_fault_t fault = WM_OK;
    const uint8_t *live = adc == space.row ? space.row_live : NULL;
    for (uint32_t t = 0; t < count && !fault;) {
        while (live && t + BLOCK <= count && t % BLOCK == 0 && !live[t / BLOCK])
            t += BLOCK;
        const uint32_t block = t / BLOCK * BLOCK + BLOCK,
                       end = live && block < count ? block : count;
        t = wm_waves_nonzero (adc, t, end);
        if (t == end)
            continue;
        const uint32_t first = t;
        uint32_t last = t; /* [first, last) is the region */
        for (; t < count && t - last < GAP_TICKS; t++)
            if (adc[t] != 0)
                last = t + 1;
        if (last == first)
            continue;
        const uint64_t value = event->n_sample;
        fault = wm_event_reserve (&event->sample, &event->sample_max, value + (last - first),
                                  sizeof *event->sample, error);
        for (uint32_t i = first; i < last && !fault; i++)
            event->sample[event->n_sample++] = adc[i];
        for (uint32_t k = 0; k < n && !fault; k++)
            fault = wm_event_add_roi (
                event,
                &(wm_roi_t){ place[k].plane, place[k].wire, tick + first, last - first, value },
                error);
    }
    return fault;
}

void wm_waves_count (const wm_waves_t *self, uint64_t *direct, uint64_t *library)
{
    *direct = self->n_direct, *library = self->n_library;
}
