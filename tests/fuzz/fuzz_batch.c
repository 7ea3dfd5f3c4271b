/* fuzz_batch.c - payloads of batches and samples from peers.

   Input: one byte chooses; then a frame as it is, or a header and columns that are compressed here
   as a peer would, so that mutations reach behind zstd; or frames put together to a sample.  */
#include "schema/wm_batch.h"
#include "schema/wm_limits.h"
#include "schema/wm_ragged.h"
#include "schema/wm_sample.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

const size_t fuzz_bytes_max = WM_RAW_BYTES_MAX + 1024;

enum { AS_IS, COMPRESSED, SAMPLE, SAMPLE_COMPRESSED, WAYS };
#define HEADER_BYTES 40

static wm_coder_t *coder;
static wm_batch_t batch;
static uint8_t space[2 * FUZZ_INPUT_BYTES_MAX];

/* A patch of a decoded batch as a ragged row: what is read of it lies in it, and is what would be
   written.  */
static void check_row (const float *row, size_t n_value)
{
    wm_ragged_t tensor[WM_RAGGED_TENSORS_MAX], again[WM_RAGGED_TENSORS_MAX];
    uint32_t n;
    char text[40];
    const uint32_t length = wm_ragged_length (row, n_value);
    FUZZ_CHECK (length <= n_value);
    if (wm_ragged_read (row, n_value, &n, tensor))
        return;
    FUZZ_CHECK (length == n_value && n <= WM_RAGGED_TENSORS_MAX);
    wm_ragged_refusal (row, n_value, text, sizeof text);
    FUZZ_CHECK (memchr (text, 0, sizeof text));
    if (!n)
        return;
    FUZZ_CHECK (tensor[n - 1].at + tensor[n - 1].n_value == n_value);
    float *head = malloc (n_value * sizeof *head);
    FUZZ_CHECK (head);
    memcpy (again, tensor, n * sizeof *tensor);
    FUZZ_CHECK (wm_ragged_begin (head, n_value, n, again) == n_value);
    for (size_t i = 0; i < tensor[0].at; i++)
        FUZZ_CHECK (head[i] == row[i]);
    FUZZ_CHECK (!memcmp (again, tensor, n * sizeof *tensor));
    free (head);
}

/* What wm_batch.h promises of a batch that was decoded.  */
static void check (const wm_batch_t *self)
{
    FUZZ_CHECK (self->n_hit > 0 && wm_batch_raw_bytes (self) <= self->memory_bytes);
    FUZZ_CHECK (wm_batch_raw_bytes (self) <= WM_RAW_BYTES_MAX);
    if (self->kind == WM_BATCH_PATCHES) {
        check_row (self->patch, self->patch_values);
        return;
    }
    uint64_t values = 0;
    for (uint32_t i = 0; i < self->n_run; i++) {
        FUZZ_CHECK (self->run_wire[i] < self->n_wire && self->run_length[i] > 0);
        FUZZ_CHECK ((uint64_t) self->run_first[i] + self->run_length[i] <= self->n_col);
        values += self->run_length[i];
    }
    FUZZ_CHECK (values == self->n_value);
    const uint32_t n_cell = wm_batch_cells (self);
    FUZZ_CHECK (self->kind == WM_BATCH_STACK ? n_cell >= 2 && n_cell <= WM_BATCH_CELLS_MAX
                                             : n_cell == 1);
    for (uint64_t i = 0; i < (uint64_t) self->n_hit * n_cell; i++)
        FUZZ_CHECK (self->hit_wire[i] < self->n_wire);
}

/* The frame of a header and its columns.  */
static size_t compress (const uint8_t *data, size_t size, uint8_t *frame, size_t frame_max)
{
    if (size < HEADER_BYTES)
        return 0;
    memcpy (frame, data, HEADER_BYTES);
    const size_t n = ZSTD_compress (frame + HEADER_BYTES, frame_max - HEADER_BYTES,
                                    data + HEADER_BYTES, size - HEADER_BYTES, 1);
    return ZSTD_isError (n) ? 0 : HEADER_BYTES + n;
}

static void sample (const uint8_t *data, size_t size)
{
    static wm_batch_t list[WM_SAMPLE_BATCHES_MAX];
    uint32_t n;
    wm_error_t error;
    memset (list, 0, sizeof list);
    wm_sample_decode (data, size, coder, list, &n, &error);
    FUZZ_CHECK (n <= WM_SAMPLE_BATCHES_MAX);
    for (uint32_t i = 0; i < WM_SAMPLE_BATCHES_MAX; i++) {
        if (i < n)
            check (&list[i]);
        wm_batch_clear (&list[i]);
    }
}

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
    wm_error_t error;
    if (!coder)
        coder = wm_coder_new ();
    if (!size)
        return 0;
    const int way = data[0] % WAYS;
    data++, size--;
    if (way == SAMPLE)
        sample (data, size);
    if (way == COMPRESSED || way == SAMPLE_COMPRESSED) {
        const size_t lead = way == COMPRESSED ? 0 : 8;
        const uint32_t n = (uint32_t) compress (data, size, space + lead, sizeof space - lead);
        memcpy (space, (uint32_t[2]){ 1, n }, lead);
        if (lead && n)
            sample (space, lead + n);
        data = space + lead, size = n;
    }
    if (way == SAMPLE || way == SAMPLE_COMPRESSED ||
        wm_batch_decode (&batch, coder, data, size, &error))
        return 0;
    check (&batch);
    /* what was decoded goes out again as it came */
    static const uint8_t pins[16];
    uint8_t digest[2][16];
    static wm_batch_t again;
    const size_t bound = wm_batch_encode_bound (&batch);
    uint8_t *frame = malloc (bound);
    size_t bytes;
    wm_batch_digest (&batch, pins, digest[0]);
    FUZZ_CHECK (frame && !wm_batch_encode (&batch, coder, frame, bound, &bytes, &error));
    FUZZ_CHECK (!wm_batch_decode (&again, coder, frame, bytes, &error));
    wm_batch_digest (&again, pins, digest[1]);
    FUZZ_CHECK (!memcmp (digest[0], digest[1], 16));
    free (frame);
    return 0;
}

/* A batch in each of the forms.  */
static void seed (const wm_batch_t *self)
{
    static uint8_t text[FUZZ_INPUT_BYTES_MAX], payload[WM_RAW_BYTES_MAX];
    wm_coder_t *own = wm_coder_new ();
    wm_error_t error;
    size_t bytes;
    FUZZ_CHECK (!wm_batch_encode (self, own, text + 1, sizeof text - 1, &bytes, &error));
    text[0] = AS_IS;
    fuzz_seed (text, 1 + bytes);
    const size_t raw =
        (size_t) ZSTD_getFrameContentSize (text + 1 + HEADER_BYTES, bytes - HEADER_BYTES);
    FUZZ_CHECK (raw <= sizeof space);
    ZSTD_decompress (space, sizeof space, text + 1 + HEADER_BYTES, bytes - HEADER_BYTES);
    memcpy (text + 1 + HEADER_BYTES, space, raw);
    text[0] = COMPRESSED;
    fuzz_seed (text, 1 + HEADER_BYTES + raw);
    text[0] = SAMPLE_COMPRESSED;
    fuzz_seed (text, 1 + HEADER_BYTES + raw);
    bytes = wm_sample_begin (payload);
    bytes = wm_sample_add (payload, bytes, self, own);
    bytes = wm_sample_add (payload, bytes, self, own);
    text[0] = SAMPLE;
    memcpy (text + 1, payload, bytes);
    fuzz_seed (text, 1 + bytes);
    wm_coder_destroy (&own);
}

void fuzz_seeds (void)
{
    wm_batch_t one = { .kind = WM_BATCH_BINS,
                       .n_hit = 3,
                       .plane = 2,
                       .n_wire = 40,
                       .n_col = 100,
                       .n_run = 4,
                       .n_value = 20 };
    FUZZ_CHECK (!wm_batch_reserve (&one, NULL));
    for (uint32_t i = 0; i < 4; i++)
        one.run_wire[i] = 3 * i, one.run_first[i] = 7 * i, one.run_length[i] = 5;
    for (uint32_t i = 0; i < 20; i++)
        one.value[i] = (float) i / 4;
    for (uint32_t i = 0; i < 3; i++)
        one.hit_wire[i] = 10 * i, one.hit_col[i] = (int32_t) (30 * i) - 5;
    seed (&one);
    one.kind = WM_BATCH_TICKS;
    seed (&one);
    wm_batch_clear (&one);
    wm_batch_t ready = { .kind = WM_BATCH_PATCHES, .n_hit = 2, .patch_values = 9 };
    FUZZ_CHECK (!wm_batch_reserve (&ready, NULL));
    for (int i = 0; i < 18; i++)
        ready.patch[i] = (float) i;
    seed (&ready);
    wm_ragged_t tensor[3] = { { .n_dim = 2, .dim = { 2, 3 } },
                              { .n_dim = 0 },
                              { .n_dim = 3, .dim = { 1, 0, 7 } } };
    float row[32] = { 0 };
    ready.n_hit = 1;
    ready.patch_values = wm_ragged_begin (row, 32, 3, tensor);
    FUZZ_CHECK (ready.patch_values && !wm_batch_reserve (&ready, NULL));
    memcpy (ready.patch, row, ready.patch_values * sizeof *row);
    seed (&ready);
    ready.patch_values = wm_ragged_refuse (row, 16, "the lengths");
    FUZZ_CHECK (!wm_batch_reserve (&ready, NULL));
    memcpy (ready.patch, row, ready.patch_values * sizeof *row);
    seed (&ready);
    wm_batch_clear (&ready);
}
