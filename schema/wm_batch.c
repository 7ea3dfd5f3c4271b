/* wm_batch.c - the payload of a batch: encode, decode, digest.

   A frame is a 40-byte header (magic "WMB1" and nine little-endian words) and one zstd blob. The
   blob holds the columns as 32-bit words, each column delta-coded where that helps and then split
   into four byte planes (all lowest bytes first): detector planes compress a quarter better so.
   Dense patches are left as they are: zstd finds their overlaps by itself. Where a piece of them
   loses less than a quarter, as of images full of noise, the blob's blocks hold them raw: zstd
   would take as long as a small network does.
   Words are little-endian; a big-endian machine is refused at compile time.  */
#include "schema/wm_batch.h"
#include "schema/wm_limits.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

static_assert (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little-endian");

#define COMPRESSION_LEVEL 1 /* higher levels gain 5 % and cost three times the time */
#define LOCAL_LEVEL (-50)   /* what is equal over many bytes becomes short, the rest is copied */

#define PIECE_BYTES (64u << 10) /* of dense patches, that is compressed to see what becomes of it */
#define BLOCK_BYTES (128u << 10) /* of a blob, at most: RFC 8878, 3.1.1.2.3 */

typedef struct {
    char magic[4];
    uint32_t kind, n_hit, plane, n_wire, n_col, n_run, n_value, patch_values, zero;
} header_t;
static_assert (sizeof (header_t) == 40, "frame header");

struct wm_coder_t {
    ZSTD_CCtx *compressor;
    int level;
    ZSTD_DCtx *decompressor;
    uint8_t *space; /* the shuffled columns of one batch */
};

wm_coder_t *wm_coder_new (void)
{
    wm_coder_t *self = calloc (1, sizeof *self);
    assert (self);
    self->level = COMPRESSION_LEVEL;
    self->compressor = ZSTD_createCCtx ();
    self->decompressor = ZSTD_createDCtx ();
    self->space = malloc (WM_RAW_BYTES_MAX);
    assert (self->compressor && self->decompressor && self->space);
    return self;
}

void wm_coder_stays_here (wm_coder_t *self)
{
    self->level = LOCAL_LEVEL;
}

void wm_coder_destroy (wm_coder_t **self_p)
{
    if (!*self_p)
        return;
    ZSTD_freeCCtx ((*self_p)->compressor);
    ZSTD_freeDCtx ((*self_p)->decompressor);
    free ((*self_p)->space);
    free (*self_p);
    *self_p = NULL;
}

const char *wm_hit_status_text (uint8_t status)
{
    static const char *text[] = { "scored", "bad time", "bad wire",         "bad pixel",
                                  "poison", "held",     "non-finite score", "no such event" };
    return status < sizeof text / sizeof *text ? text[status] : "unknown";
}

/* The columns of a batch in their order on the wire.  */
typedef struct {
    uint32_t *word;
    size_t count;
    int delta;
} column_t;
#define COLUMNS 6

static size_t columns (const wm_batch_t *self, column_t column[COLUMNS])
{
    if (self->kind == WM_BATCH_PATCHES) {
        column[0] =
            (column_t){ (uint32_t *) self->patch, (size_t) self->n_hit * self->patch_values, 0 };
        return 1;
    }
    column[0] = (column_t){ self->run_wire, self->n_run, 1 };
    column[1] = (column_t){ self->run_first, self->n_run, 1 };
    column[2] = (column_t){ self->run_length, self->n_run, 0 };
    const size_t n_cell = (size_t) self->n_hit * wm_batch_cells (self);
    column[3] = (column_t){ self->hit_wire, n_cell, 1 };
    column[4] = (column_t){ (uint32_t *) self->hit_col, n_cell, 1 };
    column[5] = (column_t){ (uint32_t *) self->value, self->n_value, 0 };
    return COLUMNS;
}

static header_t header_of (const wm_batch_t *self)
{
    header_t header = {
        { 'W', 'M', 'B', '1' }, (uint32_t) self->kind, self->n_hit, 0, 0, 0, 0, 0, 0, 0
    };
    if (self->kind == WM_BATCH_PATCHES)
        header.patch_values = self->patch_values;
    else {
        header.plane = self->plane;
        header.n_wire = self->n_wire;
        header.n_col = self->n_col;
        header.n_run = self->n_run;
        header.n_value = self->n_value;
        header.patch_values = self->kind == WM_BATCH_STACK ? self->n_cell : 0;
    }
    return header;
}

void wm_batch_digest (const wm_batch_t *self, const uint8_t pins_digest[16], uint8_t digest[16])
{
    XXH3_state_t *state = XXH3_createState ();
    assert (state);
    header_t header = header_of (self);
    column_t column[COLUMNS];
    size_t count = columns (self, column);
    XXH3_128bits_reset (state);
    XXH3_128bits_update (state, pins_digest, 16);
    XXH3_128bits_update (state, &header, sizeof header);
    for (size_t i = 0; i < count; i++)
        if (column[i].count)
            XXH3_128bits_update (state, column[i].word, 4 * column[i].count);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash (&canonical, XXH3_128bits_digest (state));
    memcpy (digest, canonical.digest, 16);
    XXH3_freeState (state);
}

size_t wm_batch_encode_bound (const wm_batch_t *self)
{
    return sizeof (header_t) + ZSTD_compressBound ((size_t) wm_batch_raw_bytes (self));
}

/* Four byte planes of a column: plane b holds byte b of every word.  */
static void shuffle (const column_t *column, uint8_t *plane)
{
    size_t n = column->count;
    uint32_t before = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t word = column->word[i] - before;
        if (column->delta)
            before = column->word[i];
        plane[i] = (uint8_t) word;
        plane[n + i] = (uint8_t) (word >> 8);
        plane[2 * n + i] = (uint8_t) (word >> 16);
        plane[3 * n + i] = (uint8_t) (word >> 24);
    }
}

static void unshuffle (const column_t *column, const uint8_t *plane)
{
    size_t n = column->count;
    uint32_t before = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t word = plane[i] | (uint32_t) plane[n + i] << 8 |
                        (uint32_t) plane[2 * n + i] << 16 | (uint32_t) plane[3 * n + i] << 24;
        column->word[i] = word + before;
        if (column->delta)
            before = column->word[i];
    }
}

/* Only ready-made patches may be larger, each in a batch of its own: `space` is for the others.  */
static uint64_t bytes_most (const wm_batch_t *self)
{
    return wm_raw_bytes_max (self->kind == WM_BATCH_PATCHES ? self->n_hit : 0);
}

/* Whether so many bytes of dense patches are worth compressing: by a piece of their middle.  */
static bool is_worth (const wm_coder_t *coder, const uint8_t *source, size_t raw, uint8_t *room,
                      size_t bytes_max)
{
    if (raw < 2 * PIECE_BYTES)
        return true;
    const size_t got =
        ZSTD_compressCCtx (coder->compressor, room, bytes_max, source + (raw - PIECE_BYTES) / 2,
                           PIECE_BYTES, coder->level);
    return ZSTD_isError (got) || got < PIECE_BYTES / 4 * 3;
}

/* Writes a zstd frame of raw blocks (RFC 8878), which any zstd reads; returns its bytes.  */
static size_t store (uint8_t *blob, const uint8_t *source, size_t raw)
{
    const uint8_t head[5] = { 0x28, 0xb5, 0x2f, 0xfd, 0xe0 }; /* one segment, size of 8 bytes */
    const uint64_t size = raw;
    uint8_t *to = blob + sizeof head + sizeof size;
    memcpy (blob, head, sizeof head);
    memcpy (blob + sizeof head, &size, sizeof size);
    for (size_t at = 0; at < raw; at += BLOCK_BYTES) {
        const uint32_t n = raw - at < BLOCK_BYTES ? (uint32_t) (raw - at) : BLOCK_BYTES,
                       block = n << 3 | (at + n == raw); /* type 0, raw; the last one */
        memcpy (to, &block, 3);
        memcpy (to + 3, source + at, n);
        to += 3 + n;
    }
    return (size_t) (to - blob);
}

wm_fault_t wm_batch_encode (const wm_batch_t *self, wm_coder_t *coder, uint8_t *frame,
                            size_t bytes_max, size_t *bytes, wm_error_t *error)
{
    size_t raw = (size_t) wm_batch_raw_bytes (self);
    if (raw > bytes_most (self) || bytes_max < wm_batch_encode_bound (self))
        return wm_fault (error, WM_EBATCH, "batch of %zu raw bytes does not fit a frame of %zu",
                         raw, bytes_max);
    header_t header = header_of (self);
    memcpy (frame, &header, sizeof header);
    column_t column[COLUMNS];
    size_t count = columns (self, column);
    const void *source = self->patch;
    if (self->kind != WM_BATCH_PATCHES) {
        uint8_t *plane = coder->space;
        source = coder->space;
        for (size_t i = 0; i < count; i++) {
            shuffle (&column[i], plane);
            plane += 4 * column[i].count;
        }
    }
    uint8_t *room = frame + sizeof header;
    const size_t room_bytes = bytes_max - sizeof header;
    const size_t blob =
        self->kind == WM_BATCH_PATCHES && !is_worth (coder, source, raw, room, room_bytes)
            ? store (room, source, raw)
            : ZSTD_compressCCtx (coder->compressor, room, room_bytes, source, raw, coder->level);
    if (ZSTD_isError (blob))
        return wm_fault (error, WM_EHOST, "zstd could not compress a batch: %s",
                         ZSTD_getErrorName (blob));
    *bytes = sizeof header + blob;
    return WM_OK;
}

/* The header's promises that concern its counts alone.  */
static wm_fault_t header_check (const header_t *header, wm_error_t *error)
{
    if (memcmp (header->magic, "WMB1", 4) || header->zero)
        return wm_fault (error, WM_EPEER, "batch frame: not one (no magic WMB1)");
    const int patches = header->kind == WM_BATCH_PATCHES, stack = header->kind == WM_BATCH_STACK;
    if (!patches && !stack && header->kind != WM_BATCH_BINS && header->kind != WM_BATCH_TICKS)
        return wm_fault (error, WM_EPEER, "batch frame: unknown kind %u", header->kind);
    if (!header->n_hit)
        return wm_fault (error, WM_EPEER, "batch frame: no hits");
    if (patches ? header->plane || header->n_wire || header->n_col || header->n_run ||
                      header->n_value || !header->patch_values
                : !header->n_wire || !header->n_col || (!stack && header->patch_values) ||
                      header->n_wire > 1u << 20 || header->n_col > 1u << 24)
        return wm_fault (error, WM_EPEER, "batch frame: sizes that do not fit its kind");
    if (stack &&
        (header->plane || header->patch_values < 2 || header->patch_values > WM_BATCH_CELLS_MAX))
        return wm_fault (error, WM_EPEER, "batch frame: a stack of %u planes, not 2 to %u",
                         header->patch_values, WM_BATCH_CELLS_MAX);
    return WM_OK;
}

/* Every promise of wm_batch.h about runs and hits.  */
static wm_fault_t plane_check (const wm_batch_t *self, wm_error_t *error)
{
    uint64_t values = 0, free_from = 0;
    for (uint32_t i = 0; i < self->n_run; i++) {
        uint32_t wire = self->run_wire[i], first = self->run_first[i], n = self->run_length[i];
        if (wire >= self->n_wire || first >= self->n_col || !n || n > self->n_col - first)
            return wm_fault (error, WM_EPEER, "batch frame: run %u lies outside its plane", i);
        uint64_t at = (uint64_t) wire << 32 | first;
        if (i && at < free_from)
            return wm_fault (error, WM_EPEER, "batch frame: run %u is out of order or overlaps", i);
        free_from = at + n;
        values += n;
    }
    if (values != self->n_value)
        return wm_fault (error, WM_EPEER, "batch frame: runs hold %llu values, not %u",
                         (unsigned long long) values, self->n_value);
    const uint32_t n_cell = wm_batch_cells (self);
    for (uint64_t i = 0; i < (uint64_t) self->n_hit * n_cell; i++)
        if (self->hit_wire[i] >= self->n_wire)
            return wm_fault (error, WM_EPEER, "batch frame: hit %u lies outside its plane",
                             (uint32_t) (i / n_cell));
    return WM_OK;
}

wm_fault_t wm_batch_decode (wm_batch_t *self, wm_coder_t *coder, const uint8_t *frame, size_t bytes,
                            wm_error_t *error)
{
    header_t header;
    if (bytes < sizeof header)
        return wm_fault (error, WM_EPEER, "batch frame: %zu bytes are no header", bytes);
    memcpy (&header, frame, sizeof header);
    wm_fault_t fault = header_check (&header, error);
    if (fault)
        return fault;
    self->kind = (wm_batch_kind_t) header.kind;
    self->n_hit = header.n_hit;
    self->plane = header.plane;
    self->n_wire = header.n_wire;
    self->n_col = header.n_col;
    self->n_run = header.n_run;
    self->n_value = header.n_value;
    self->patch_values = header.patch_values;
    uint64_t raw = wm_batch_raw_bytes (self);
    const uint8_t *blob = frame + sizeof header;
    if (raw > bytes_most (self) || ZSTD_getFrameContentSize (blob, bytes - sizeof header) != raw)
        return wm_fault (error, WM_EPEER,
                         "batch frame: its content is not the %llu bytes announced",
                         (unsigned long long) raw);
    if ((fault = wm_batch_reserve (self, error)))
        return fault;
    int patches = self->kind == WM_BATCH_PATCHES;
    size_t got = ZSTD_decompressDCtx (coder->decompressor, patches ? self->memory : coder->space,
                                      (size_t) raw, blob, bytes - sizeof header);
    if (ZSTD_isError (got) || got != raw)
        return wm_fault (error, WM_EPEER, "batch frame: damaged (%s)",
                         ZSTD_isError (got) ? ZSTD_getErrorName (got) : "short");
    if (patches)
        return WM_OK;
    column_t column[COLUMNS];
    size_t count = columns (self, column);
    const uint8_t *plane = coder->space;
    for (size_t i = 0; i < count; i++) {
        unshuffle (&column[i], plane);
        plane += 4 * column[i].count;
    }
    return plane_check (self, error);
}
